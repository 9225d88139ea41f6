r"""Private evaluation of a model on held-out rows.

Each privacy unit has a score s in [0, 1] and contributes the pair (s, 1 - s), of l1 and l2 norm at
most 1. Both sums get noise, and the mean score is the first over their total. So one release gives
the score and its denominator, also if the number of units is private.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.extras import later, require
from unacorda.learning.charges import check_terms
from unacorda.ledger.entries import Charge
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Evaluation", "cross_entropy", "evaluate", "held_out_tensors", "hits", "probabilities"]

torch: Any = later("torch")

Metric = Callable[[Any, Any], Any]

_STEPS: Final = 1 << 16
"""Scores are multiples of 2^-16, so that their sums are exact in float64."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A mean score over held-out units.

    Attributes
    ----------
    value
        The mean score; NaN if the noise hides the number of units.
    noise_error
        Its standard deviation due to the noise; 0 for public rows.
    units
        Their number, estimated if it is private.
    event
        The privacy event; None for public rows.

    Examples
    --------
    >>> Evaluation(value=0.91, noise_error=0.004, units=1000.0, event=None).value
    0.91
    """

    value: float
    noise_error: float
    units: float
    event: Event | None


def hits(output: Tensor, target: Tensor) -> Tensor:
    """Return 1 where the largest output, or the sign of a single one, gives the target.

    Parameters
    ----------
    output
        A tensor with one row of outputs per example: one per class, or one for two classes.
    target
        The classes: whole numbers, or 0 and 1.

    Returns
    -------
    Tensor
        0 or 1 per example.

    Examples
    --------
    >>> import torch
    >>> hits(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1])).tolist()
    [1.0, 0.0]
    """
    if output.dim() == 2 and output.shape[1] > 1:
        return (output.argmax(dim=1) == target).double()
    return ((output.reshape(-1) > 0) == (target.reshape(-1) > 0.5)).double()


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of each row in nats; a target beyond the classes counts as the last.

    Parameters
    ----------
    output
        A tensor with one row of logits per example, one per class.
    target
        The classes, whole numbers from 0 on.

    Returns
    -------
    Tensor
        One number per example, 0 or above.

    Examples
    --------
    >>> import torch
    >>> [round(x, 3) for x in cross_entropy(torch.zeros(1, 2), torch.tensor([1])).tolist()]
    [0.693]
    """
    target = target.long().clamp(0, output.shape[1] - 1)
    loss: Tensor = torch.nn.functional.cross_entropy(output, target, reduction="none")
    return loss


def probabilities(
    model: Any, held_out: Sequence[Any], *, batch_size: int = 256
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return class probabilities and labels of held-out rows; do not publish them.

    Pass them to `unacorda.inference.score_table(None, scores[:, 1], labels, budget=...)` or
    `class_tables` for noisy tables: areas under ROC curves, calibration, confusion matrices.

    Parameters
    ----------
    model
        A torch.nn.Module, whose outputs are a logit of each class, or one of the second class.
    held_out
        Tensors of equal length: the inputs, and the labels 0, 1, ... last.
    batch_size
        How many rows are computed at once.

    Returns
    -------
    tuple of arrays
        The probabilities, shape (rows, classes), and the labels, shape (rows,).

    Raises
    ------
    InvalidParameter
        For arguments that do not fit, and for a model whose output for a row depends on other rows.

    Examples
    --------
    >>> import torch
    >>> rows = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    >>> scores, labels = probabilities(torch.nn.Linear(2, 2), rows)
    >>> scores.shape, labels.tolist()
    ((3, 2), [0.0, 1.0, 1.0])
    """
    require("torch", extra="learning")
    if not isinstance(model, torch.nn.Module):
        raise InvalidParameter("model", type(model).__name__, expected="a torch.nn.Module")
    rows, size = held_out_tensors(held_out), checks.positive_integer(batch_size=batch_size)
    found = []
    with _evaluating(model):
        _check_rows_apart(
            model, lambda output, _: output.reshape(len(output), -1)[:, 0], rows, batch_size=size
        )
        place = next(iter(model.parameters()), rows[0]).device
        for start in range(0, len(rows[0]), size):
            batch = [each[start : start + size] for each in rows]
            missing = size - len(batch[0])
            filled = [
                torch.cat([each, each.new_zeros((missing, *each.shape[1:]))]) for each in batch
            ]
            output = model(*(each.to(place) for each in filled[:-1]))[: size - missing].double()
            logits = output.reshape(len(output), -1)
            if logits.shape[1] == 1:
                logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
            found.append(torch.softmax(logits, dim=1).cpu().numpy())
    labels = rows[-1].detach().double().cpu().numpy().reshape(len(rows[-1]))
    return np.concatenate(found) if found else np.zeros((0, 2)), labels


def evaluate(
    model: Any,
    held_out: Sequence[Any],
    metric: Metric,
    *,
    budget: Guarantee | None,
    bound: float = 1.0,
    unit: ArrayLike | None = None,
    neighbors: Neighbors = AddRemove,
    batch_size: int = 256,
    ledger: Any = None,
    account: str | None = None,
    bits: RandomBits | None = None,
) -> Evaluation:
    """Evaluate a model on held-out rows, with noise on the mean of a metric.

    A row's score must depend only on the row and the model. The model is in eval mode, all batches
    have one shape, and made-up rows check that no row changes another's score.

    Parameters
    ----------
    model
        A torch.nn.Module; its mode is restored.
    held_out
        Tensors of equal length: the inputs, and the targets last.
    metric
        From outputs and targets to one number per row, such as `hits` or `cross_entropy`.
    budget
        PureDP, ApproxDP, ZCDP or GDP; None for public rows, which gives the exact mean.
    bound
        The metric is clamped to [0, bound]; NaN counts as the bound.
    unit
        The privacy unit of each row; a unit's score is the mean over its rows. By default each row
        is a unit.
    neighbors
        The neighboring relation, `AddRemove` or another.
    batch_size
        How many rows are computed at once.
    ledger, account
        A ledger and the name of an account, which is charged before a row is read.
    bits
        By default a secure source; `SeededBits` makes it reproducible, and not private.

    Returns
    -------
    Evaluation
        The mean, its privacy error, and the event.

    Raises
    ------
    InvalidParameter
        Before the charge: for arguments of the wrong kind or shape, and for an account with another
        privacy unit.

    Examples
    --------
    >>> import torch, unacorda
    >>> model = torch.nn.Linear(2, 3)
    >>> rows = torch.zeros(500, 2), torch.zeros(500, dtype=torch.long)
    >>> evaluate(model, rows, cross_entropy, budget=unacorda.ZCDP(0.1), bound=4).noise_error < 0.1
    True
    """
    require("torch", extra="learning")
    if not isinstance(model, torch.nn.Module):
        raise InvalidParameter("model", type(model).__name__, expected="a torch.nn.Module")
    rows = held_out_tensors(held_out)
    top, size = checks.positive(bound=bound), checks.positive_integer(batch_size=batch_size)
    if not isinstance(neighbors, Neighbors):
        raise InvalidParameter("neighbors", neighbors, expected="such as unacorda.AddRemove")
    if (ledger is None) != (account is None):
        raise InvalidParameter("account", account, expected="with ledger=, both or neither")
    own = None if unit is None else elements.codes("unit", unit)[0]
    if own is not None and own.shape != (len(rows[0]),):
        raise InvalidParameter("unit", own.shape, expected="one id for each row")
    source = source_of(bits)
    mechanism = None if budget is None else _mechanism(budget, neighbors)
    if mechanism is None and ledger is not None:
        raise InvalidParameter("budget", budget, expected="a guarantee, for the ledger to charge")
    if hasattr(ledger, "account"):
        terms = dict(ledger.account(account).terms)
        check_terms(terms, account=account, neighbors=neighbors, by_unit=own is not None)
    with _evaluating(model):
        _check_rows_apart(model, metric, rows, batch_size=size)
        reservation = None
        if mechanism is not None and ledger is not None:
            assert budget is not None
            charge = Charge(
                cost=budget,
                event=mechanism.event,
                request=budget,
                reproducible=not source.secure,
                purpose="evaluation",
            )
            reservation = ledger.reserve(account, charge)
        scores = _scores(model, metric, rows, bound=top, batch_size=size, unit=own)
    if reservation is not None:
        ledger.commit(reservation)
    whole = np.rint(scores * _STEPS)
    sums = np.array([whole.sum(), _STEPS * whole.size - whole.sum()]) / _STEPS
    if mechanism is None:
        value = float(sums[0] / scores.size) if scores.size else math.nan
        return Evaluation(value=top * value, noise_error=0.0, units=scores.size, event=None)
    first, second = mechanism.release(sums, bits=source).tolist()
    return _evaluation(first, second, mechanism, bound=top)


def _mechanism(budget: Guarantee, neighbors: Neighbors) -> Gaussian | Laplace:
    """Return the noise for both sums; a unit that is replaced moves both."""
    replaced = neighbors is ReplaceOne
    if isinstance(budget, PureDP):
        return Laplace.for_guarantee(budget, l1_sensitivity=2 if replaced else 1)
    if isinstance(budget, ApproxDP | GDP | ZCDP):
        root = math.nextafter(math.sqrt(2), 2)
        return Gaussian.for_guarantee(budget, l2_sensitivity=root if replaced else 1)
    raise InvalidParameter("budget", budget, expected="PureDP, ApproxDP, ZCDP, GDP or None")


def _evaluation(
    first: float, second: float, mechanism: Gaussian | Laplace, *, bound: float
) -> Evaluation:
    total = first + second
    if isinstance(mechanism, Gaussian):
        deviation = float(mechanism.sigma)
    else:
        deviation = math.sqrt(2) * float(mechanism.scale)
    if total <= 0:
        return Evaluation(
            value=math.nan, noise_error=math.inf, units=max(total, 0.0), event=mechanism.event
        )
    share = min(max(first / total, 0.0), 1.0)
    return Evaluation(
        value=bound * share,
        noise_error=bound * deviation * math.hypot(share, 1 - share) / total,
        units=total,
        event=mechanism.event,
    )


def held_out_tensors(held_out: Sequence[Any]) -> list[Any]:
    """Return the tensors of held-out rows; InvalidParameter for anything else."""
    given: object = getattr(held_out, "tensors", held_out)
    rows = list(given) if isinstance(given, Sequence) else []
    if len(rows) < 2 or not all(torch.is_tensor(each) and each.dim() for each in rows):
        shown = type(held_out).__name__
        expected = "a tuple of tensors, the inputs and then the targets"
        raise InvalidParameter("held_out", shown, expected=expected)
    if len({len(each) for each in rows}) != 1:
        shown = f"{len(rows)} tensors"
        raise InvalidParameter("held_out", shown, expected="tensors of one length")
    return rows


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a model in eval mode, without gradients, and restore the mode of each module."""
    modes = [(each, each.training) for each in model.modules()]
    try:
        with torch.no_grad():
            model.eval()
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _check_rows_apart(model: Any, metric: Metric, rows: list[Any], *, batch_size: int) -> None:
    """Raise InvalidParameter where a row's score depends on others; the rows are made up."""
    drawn = torch.Generator().manual_seed(1)
    full = []
    for each in rows:
        shape = (batch_size, *each.shape[1:])
        if each.is_floating_point():
            full.append(torch.randn(shape, generator=drawn).to(each.dtype))
        else:
            full.append(torch.randint(0, 2, shape, generator=drawn).to(each.dtype))
    alone = [torch.cat([each[:1], torch.zeros_like(each[1:])]) for each in full]
    one, other = (_row_scores(model, metric, each)[0] for each in (full, alone))
    if not np.isclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True):
        expected = "a model whose output for a row does not depend on the other rows of a batch"
        raise InvalidParameter("model", type(model).__name__, expected=expected)


def _row_scores(model: Any, metric: Metric, rows: list[Any]) -> NDArray[np.float64]:
    place = next(iter(model.parameters()), rows[0]).device
    *inputs, target = (each.to(place) for each in rows)
    found = metric(model(*inputs), target)
    if not torch.is_tensor(found) or tuple(found.shape) != (len(target),):
        shown = tuple(found.shape) if torch.is_tensor(found) else type(found).__name__
        raise InvalidParameter(
            "metric", shown, expected="a function that returns one number per row"
        )
    scores: NDArray[np.float64] = found.detach().double().cpu().numpy()
    return scores


def _scores(
    model: Any,
    metric: Metric,
    rows: list[Any],
    *,
    bound: float,
    batch_size: int,
    unit: NDArray[Any] | None,
) -> NDArray[np.float64]:
    """Return the score of each unit in [0, 1], from batches that are filled up with zeros."""
    found = [np.zeros(0)]
    for start in range(0, len(rows[0]), batch_size):
        batch = [each[start : start + batch_size] for each in rows]
        missing = batch_size - len(batch[0])
        batch = [torch.cat([each, each.new_zeros((missing, *each.shape[1:]))]) for each in batch]
        found.append(_row_scores(model, metric, batch)[: batch_size - missing])
    scores = np.clip(np.nan_to_num(np.concatenate(found) / bound, nan=1.0), 0.0, 1.0)
    if unit is None:
        return scores
    _, places = np.unique(unit, return_inverse=True)
    means: NDArray[np.float64] = np.bincount(places, scores) / np.bincount(places)
    return means
