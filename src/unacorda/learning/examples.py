"""Canaries that are examples: fair coins decide which of them are in the training data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits, fair_coins
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.learning.losses import Loss, losses, projections

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["ExampleCanaries", "WithCanaries", "canaries", "mislabelled"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ExampleCanaries:
    """Examples that are canaries, and their coins.

    Attributes
    ----------
    features, targets
        Tensors, one row per canary.
    included
        The coins, one boolean per canary. Hide them from the attacker until the scores are
        computed.

    Examples
    --------
    >>> import torch
    >>> coins = np.array([True, False])
    >>> chosen = ExampleCanaries(
    ...     features=torch.eye(2), targets=torch.tensor([0, 1]), included=coins
    ... )
    >>> len(chosen.added_to((torch.zeros(10, 2), torch.zeros(10, dtype=torch.int64))))
    11
    """

    features: Tensor
    targets: Tensor
    included: Bools

    def added_to(self, dataset: Any) -> Any:
        """Append the included canaries to the data, whose order must not matter.

        A loop with Poisson sampling must take its rate from public numbers, not from the length of
        the result.

        Parameters
        ----------
        dataset
            Map-style, its items pairs of a tensor and a target; or a pair of tensors.

        Returns
        -------
        Dataset
            A dataset of such items; for a pair of tensors a `TensorDataset`.

        Raises
        ------
        InvalidParameter
            If the shapes are not those of the canaries.
        """
        torch = require("torch", extra="learning")
        features, targets = _stacked("dataset", dataset, count=1)
        if (
            features.shape[1:] != self.features.shape[1:]
            or targets.shape[1:] != self.targets.shape[1:]
        ):
            raise InvalidParameter(
                "dataset",
                f"items of shapes {tuple(features.shape[1:])} and {tuple(targets.shape[1:])}",
                expected=f"those of the canaries, {tuple(self.features.shape[1:])} and "
                f"{tuple(self.targets.shape[1:])}",
            )
        rows = torch.from_numpy(np.flatnonzero(self.included))
        mine = self.features[rows].to(features), self.targets[rows].to(targets)
        if _is_pair_of_tensors(dataset):
            both = (torch.cat(pair) for pair in zip(dataset, mine, strict=True))
            return torch.utils.data.TensorDataset(*both)
        target = dataset[0][1]
        kind = None if torch.is_tensor(target) else type(target)
        return WithCanaries(dataset=dataset, features=mine[0], targets=mine[1], kind=kind)

    def scored_by_loss(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        initial: Sequence[Tensor] | None = None,
        batch: int = 256,
    ) -> Floats:
        """Score each canary by minus the loss of the trained model.

        Learned examples have a small loss. The model is in eval mode, without gradients and
        dropout. A NaN loss counts as the largest.

        Parameters
        ----------
        model
            The trained model.
        loss
            Of outputs and targets, one number per example, such as
            `torch.nn.CrossEntropyLoss(reduction="none")`.
        initial
            A `snapshot` from before training, to score by the decrease of each loss since then.
        batch
            How many canaries are computed together.

        Returns
        -------
        ndarray
            One score per canary.

        Raises
        ------
        InvalidParameter
            If all losses are NaN: training diverged.
        """
        found = losses(model, loss, self.features, self.targets, at=None, batch=batch)
        if np.isnan(found).all():
            raise InvalidParameter(
                "model", "a loss of NaN on every canary", expected="one that did not diverge"
            )
        fell = -found
        if initial is not None:
            fell += losses(model, loss, self.features, self.targets, at=initial, batch=batch)
        return np.where(np.isnan(fell), -np.inf, fell)

    def scored_by_projection(
        self,
        updates: Sequence[Tensor],
        model: nn.Module,
        loss: Loss,
        *,
        initial: Sequence[Tensor] | None = None,
        norm: float = 1.0,
        batch: int = 32,
    ) -> Floats:
        """Score each canary by how much of its clipped gradient is in the updates.

        A gradient that is not finite gives NaN, which audits refuse.

        Parameters
        ----------
        updates
            A tensor for each trained parameter: the sum of the noisy gradients (`watch`), or how
            far training moved (`movement`).
        model
            A model without hooks, as training engines add them: a copy from before, with
            `initial=snapshot(model)`.
        loss
            Of outputs and targets, one number per example.
        initial
            A `snapshot` of the parameters at which gradients are computed; None for the current
            ones.
        norm
            At which gradients are clipped.
        batch
            How many canaries' gradients are in memory together.

        Returns
        -------
        ndarray
            One score per canary.

        Raises
        ------
        InvalidParameter
            For updates of other shapes, and for a model with hooks.
        """
        return projections(
            model,
            loss,
            self.features,
            self.targets,
            direction=updates,
            norm=norm,
            at=initial,
            batch=batch,
        )

    def __repr__(self) -> str:
        return f"ExampleCanaries({len(self.included)})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class WithCanaries:
    """A map-style dataset, followed by canaries.

    kind: the type of the targets if these are numbers, not tensors, so that both match.
    """

    dataset: Any
    features: Tensor
    targets: Tensor
    kind: type | None

    def __len__(self) -> int:
        return len(self.dataset) + len(self.features)

    def __getitem__(self, index: int) -> Any:
        place = range(len(self))[index]  # as of a list: from the end where negative, or IndexError
        own = place - len(self.dataset)
        if own < 0:
            return self.dataset[place]
        target = self.targets[own]
        return self.features[own], target if self.kind is None else self.kind(target.item())

    def __repr__(self) -> str:
        return f"WithCanaries({type(self.dataset).__name__})"


def canaries(examples: Any, *, bits: RandomBits | None = None) -> ExampleCanaries:
    """Make canaries from given examples, each with a fair coin.

    Parameters
    ----------
    examples
        A map-style dataset whose items are pairs of a tensor and a target, or a pair of tensors.
        None of them may be in the training data.
    bits
        Of the coins; by default a secure source.

    Returns
    -------
    ExampleCanaries
        To be added to the data with `added_to`.

    Raises
    ------
    InvalidParameter
        For examples of another kind.

    Examples
    --------
    >>> import torch
    >>> from unacorda import SeededBits
    >>> chosen = canaries((torch.eye(4), torch.arange(4)), bits=SeededBits(1))
    >>> chosen.included.tolist()
    [True, False, True, True]
    >>> len(chosen.added_to((torch.zeros(10, 4), torch.zeros(10, dtype=torch.int64))))
    13
    """
    features, targets = _stacked("examples", examples, count=None)
    return ExampleCanaries(
        features=features, targets=targets, included=fair_coins(len(features), bits)
    )


def mislabelled(examples: Any, *, count: int, bits: RandomBits | None = None) -> ExampleCanaries:
    """Take examples with wrong labels, which a model has to memorize.

    Parameters
    ----------
    examples
        As for `canaries`, at least `count` that are not in the training data.
    count
        How many to take, from the first on. Each gets another label that occurs among them, at
        random.
    bits
        Of the labels and the coins; by default a secure source.

    Returns
    -------
    ExampleCanaries
        To be added to the data with `added_to`.

    Raises
    ------
    InvalidParameter
        For examples of another kind, too few of them, and labels that are all equal.

    Examples
    --------
    >>> import torch
    >>> from unacorda import SeededBits
    >>> labels = torch.tensor([0, 1, 2, 0, 1, 2])
    >>> chosen = mislabelled((torch.eye(6), labels), count=6, bits=SeededBits(1))
    >>> bool((chosen.targets == labels).any())
    False
    """
    torch = require("torch", extra="learning")
    many = checks.positive_integer(count=count)
    features, targets = _stacked("examples", examples, count=many)
    labels = targets.to("cpu").numpy()
    if labels.ndim != 1 or np.unique(labels).size < 2:
        raise InvalidParameter(
            "examples",
            f"targets of shape {labels.shape[1:]}, {np.unique(labels).size} different",
            expected="one label per example, and at least two different labels",
        )
    from unacorda import audit  # takes a second, which trainings need not pay

    found = audit.mislabelled(np.arange(many)[:, None], labels, count=many, bits=bits)
    return ExampleCanaries(
        features=features,
        targets=torch.from_numpy(found.targets).to(targets),
        included=found.included,
    )


def _is_pair_of_tensors(examples: Any) -> bool:
    torch = require("torch", extra="learning")
    return (
        isinstance(examples, tuple | list)
        and len(examples) == 2
        and all(map(torch.is_tensor, examples))
    )


def _stacked(name: str, examples: Any, *, count: int | None) -> tuple[Tensor, Tensor]:
    """The first examples, or all, as a tensor of features and one of targets."""
    torch = require("torch", extra="learning")
    if _is_pair_of_tensors(examples):
        x, y = examples
        lengths = [len(part) if part.dim() else 0 for part in examples]
        if min(lengths) < max(count or 1, 1) or lengths[0] != lengths[1]:
            raise InvalidParameter(
                name,
                f"tensors of {lengths[0]} and {lengths[1]} rows",
                expected=f"as many of both, {count or 1} or more",
            )
        return x[:count], y[:count]
    expected = "a map-style dataset of pairs of a tensor and a target, or a pair of tensors"
    if not hasattr(examples, "__getitem__") or not hasattr(examples, "__len__"):
        raise InvalidParameter(name, type(examples).__name__, expected=expected)
    if len(examples) < max(count or 1, 1):
        raise InvalidParameter(name, f"{len(examples)} examples", expected=f"{count or 1} or more")
    items = [examples[place] for place in range(len(examples) if count is None else count)]
    if not all(map(_is_example, items)):
        raise InvalidParameter(name, type(examples).__name__, expected=expected)
    kinds = {(tuple(item[0].shape), np.shape(item[1])) for item in items}
    if len(kinds) > 1:
        raise InvalidParameter(name, f"items of {len(kinds)} shapes", expected="items of one shape")
    return (
        torch.stack([item[0] for item in items]),
        torch.stack([torch.as_tensor(item[1]) for item in items]),
    )


def _is_example(item: Any) -> bool:
    torch = require("torch", extra="learning")
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    features, target = item
    return torch.is_tensor(features) and (
        torch.is_tensor(target) or isinstance(target, int | float | np.generic)
    )
