r"""Private choice of hyperparameters: the best of a random number of private trainings.

A try draws a candidate, trains it and scores it on held-out rows, both with noise. Only the best of
K tries is released; K, the other models and their scores are not. As K is random and never shown,
many tries cost little more than one. docs/proofs/training.md has the guarantee and its proof.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, TypeAlias

from numpy.typing import ArrayLike

from unacorda import elements
from unacorda.accounting.selection import tries_quantile
from unacorda.bits import RandomBits, source_of
from unacorda.errors import FitFailed, InvalidParameter
from unacorda.extras import require
from unacorda.learning.charges import TrainingCharge
from unacorda.learning.evaluation import Evaluation, Metric, evaluate, held_out_tensors, hits
from unacorda.learning.plan import TrainingPlan
from unacorda.learning.training import PrivateTraining
from unacorda.learning.tries import SearchLaw, SearchPlan, TrainingPrice, price_training
from unacorda.mechanisms.retry.best import BestOf
from unacorda.privacy.guarantees import GDP, ApproxDP
from unacorda.privacy.neighbors import Neighbors

__all__ = ["SearchResult", "plan_search", "search"]

Make: TypeAlias = Callable[[Any, ApproxDP, RandomBits], PrivateTraining]
Loss: TypeAlias = Callable[[Any, Any], Any]

_BEST: Final = "the best of a random number of trainings, which is not shown, as the others are not"


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best try of a search; its training and its score state the guarantee of the whole search.

    Attributes
    ----------
    candidate
        The chosen candidate.
    training
        The finished training, with its hooks removed.
    score
        The score on held-out rows; a little too good, as it is the best of several.
    plan
        The plan of the search.

    Examples
    --------
    >>> from unacorda.learning.evaluation import Evaluation
    >>> score = Evaluation(value=0.91, noise_error=0.004, units=1000.0, event=None)
    >>> best = SearchResult(
    ...     candidate=0.5, training=None, score=score, plan=None
    ... )  # as from `search`
    >>> best.candidate, best.score.value
    (0.5, 0.91)
    """

    candidate: Any
    training: PrivateTraining
    score: Evaluation
    plan: SearchPlan

    @property
    def model(self) -> Any:
        """The trained model."""
        return self.training.model


def plan_search(
    make: Make,
    candidates: Sequence[Any],
    *,
    budget: ApproxDP,
    tries: float,
    shape: float = 1.0,
    share: float = 0.05,
    bits: RandomBits | None = None,
) -> SearchPlan:
    """Plan a `search` with these arguments; no row is read, and nothing is spent.

    Parameters
    ----------
    make, candidates, budget, tries, shape, share, bits
        As for `search`.

    Returns
    -------
    SearchPlan
        The cost of the search and the budget of each try.

    Raises
    ------
    InvalidParameter
        As `search`.

    Examples
    --------
    >>> import torch, unacorda
    >>> def make(rate, budget, bits):
    ...     model = torch.nn.Linear(2, 1)
    ...     return PrivateTraining(
    ...         model,
    ...         torch.optim.SGD(model.parameters(), lr=rate),
    ...         (torch.zeros(2000, 2), torch.zeros(2000, 1)),
    ...         budget=budget,
    ...         units=2000,
    ...         batch_size=2000,
    ...         steps=10,
    ...         clip=1.0,
    ...         bits=bits,
    ...     )
    >>> plan = plan_search(make, [1e-4, 2.0], budget=unacorda.ApproxDP(2, 1e-6), tries=6)
    >>> plan.candidates, round(plan.tries, 3)
    (2, 6.0)
    """
    require("torch", extra="learning")
    trainings = _Trainings(make, source_of(bits))
    law = SearchLaw(budget, tries, shape, share)
    return _planned(trainings, candidates, law, lambda *_: None)[0]


def search(
    make: Make,
    candidates: Sequence[Any],
    *,
    loss: Loss,
    held_out: Sequence[Any],
    budget: ApproxDP,
    tries: float,
    metric: Metric = hits,
    minimize: bool = False,
    bound: float = 1.0,
    unit: ArrayLike | None = None,
    shape: float = 1.0,
    share: float = 0.05,
    ledger: Any = None,
    account: str | None = None,
    session: Any = None,
    bits: RandomBits | None = None,
) -> SearchResult:
    r"""Search privately for the best hyperparameters on held-out rows.

    A run that fails on the rows, for any cause, has the worst score. The duration depends on the
    number of tries, and no guarantee covers it: do not publish it, nor any output of the tries.

    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    docs/proofs/selection.md; docs/proofs/training.md, section 6.

    Parameters
    ----------
    make
        A function from a candidate, a budget and bits to a `PrivateTraining` of a new model with
        this budget and these bits. The training must have taken no step, and have no ledger and no
        checkpoint. The function may read the number of rows, but not their values. PyTorch's random
        numbers are new in each try.
    candidates
        Settings of any kind, such as dictionaries; a try draws one of them uniformly.
    loss
        From outputs and targets to one number per example, as for `fit`.
    held_out, metric, bound, unit
        As for `evaluate`. Units may be in both sets of rows: a try pays for both.
    budget
        ApproxDP with a delta, for the whole search.
    tries, shape
        The mean number of tries, and the shape of its distribution, a truncated negative binomial:
        1 is geometric; 0 is logarithmic, which costs less and more often makes only one try.
    minimize
        Whether the smallest score wins, as for a loss.
    share
        The share of the budget's mu^2 for the score of one try.
    ledger, account, session
        A ledger and the name of an account, or a session in place of both. The whole budget is
        charged before a row is read.
    bits
        Omit it for secure noise; `SeededBits` makes a search reproducible, and not private.

    Returns
    -------
    SearchResult
        The best try, its training and its score.

    Raises
    ------
    InvalidParameter
        Before a row is read; also for trainings that `make` must not return.
    FitFailed
        If the best try failed on the rows. The budget stays spent.

    Examples
    --------
    >>> import torch, unacorda
    >>> drawn = torch.Generator().manual_seed(1)
    >>> x = torch.randn(3000, 2, generator=drawn)
    >>> y = (x[:, :1] > 0).float()
    >>> def make(rate, budget, bits):
    ...     model = torch.nn.Linear(2, 1)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    ...     return PrivateTraining(
    ...         model,
    ...         optimizer,
    ...         (x[:2000], y[:2000]),
    ...         budget=budget,
    ...         units=2000,
    ...         batch_size=2000,
    ...         steps=10,
    ...         clip=1.0,
    ...         bits=bits,
    ...     )
    >>> def loss(given, target):
    ...     errors = torch.nn.functional.binary_cross_entropy_with_logits
    ...     return errors(given, target, reduction="none").sum(1)
    >>> found = search(
    ...     make,
    ...     [1e-4, 2.0],
    ...     loss=loss,
    ...     held_out=(x[2000:], y[2000:]),
    ...     budget=unacorda.ApproxDP(2, 1e-6),
    ...     tries=6,
    ...     bits=unacorda.SeededBits(2),
    ... )
    >>> found.candidate, found.score.value > 0.9
    (2.0, True)
    """
    torch = require("torch", extra="learning")
    rows, source = held_out_tensors(held_out), source_of(bits)
    own = None if unit is None else elements.codes("unit", unit)[0]
    if own is not None and own.shape != (len(rows[0]),):
        raise InvalidParameter("unit", own.shape, expected="one id for each held-out row")

    def rehearse(model: Any, score: GDP, neighbors: Neighbors) -> None:
        # Of no rows at all: whatever is wrong with the arguments shows with made-up ones.
        none = [each[:0] for each in rows]
        evaluate(model, none, metric, budget=score, bound=bound, neighbors=neighbors)
        try:
            evaluate(model, none, loss, budget=score, neighbors=neighbors)
        except InvalidParameter as error:
            expected = "one number an example, which depends on this example alone"
            raise InvalidParameter("loss", loss, expected=expected) from error

    trainings = _Trainings(make, source)
    law = SearchLaw(budget, tries, shape, share)
    plan, price, released = _planned(trainings, candidates, law, rehearse)
    if (own is not None) != released.by_unit:
        expected = "as for the trainings: ids of units where they have them, and None where not"
        raise InvalidParameter("unit", unit if own is None else "ids", expected=expected)
    charge = TrainingCharge(
        released, ledger=ledger, account=account, session=session, secure=source.secure
    )
    if charge.make():
        charge.commit()

    def tried(bits: RandomBits) -> tuple[tuple[Any, PrivateTraining, Evaluation] | None, float]:
        candidate = candidates[bits.below(len(candidates))]
        training = trainings.build(candidate, price)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they may depend on the rows
                for *given, target in training:
                    training.step(loss(training.model(*given), target))
                training.close()
                found = evaluate(
                    training.model,
                    rows,
                    metric,
                    budget=plan.score,
                    bound=bound,
                    unit=own,
                    neighbors=plan.neighbors,
                    bits=bits,
                )
        except Exception:  # noqa: BLE001  # whatever it is, it may depend on the rows
            return None, -math.inf
        return (candidate, training, found), -found.value if minimize else found.value

    def run(*, bits: RandomBits) -> tuple[tuple[Any, PrivateTraining, Evaluation] | None, float]:
        # From a known seed the first weights would tell which try it was.
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            torch.manual_seed(bits.below(1 << 63))
            return tried(bits)

    best = BestOf(event=plan.event).release(run, bits=source)
    if best is None or best[0] is None:
        raise FitFailed
    candidate, training, score = best[0]
    training.plan = replace(
        training.plan,
        budget=budget,
        event=plan.event,
        conditions=(*training.plan.conditions, _BEST),
    )
    score = replace(score, event=plan.event)
    return SearchResult(candidate=candidate, training=training, score=score, plan=plan)


@dataclass(frozen=True, eq=False)
class _Trainings:
    """Trainings that `make` returns, each checked to be new, not begun, and within its price."""

    make: Make
    bits: RandomBits
    seen: dict[int, weakref.ref[Any]] = field(default_factory=dict)

    def build(self, candidate: Any, price: TrainingPrice | ApproxDP) -> PrivateTraining:
        """A training of this price; of a budget alone where there is no price yet."""
        budget = price.each if isinstance(price, TrainingPrice) else price
        training = self.make(candidate, budget, self.bits)
        if not isinstance(training, PrivateTraining):
            self._refuse(type(training).__name__, "a learning.PrivateTraining")
        plan = training.plan
        if plan.budget != budget:
            self._refuse(plan.budget, f"a training with the budget that it is given, {budget}")
        if isinstance(price, TrainingPrice) and not price.holds(plan):
            self._refuse(plan.sampling, 'a training that samples alike each time, not noise="auto"')
        if training.steps_begun:
            self._refuse("a training", "one that has taken no step")
        if training.recorded:
            self._refuse("a training", "one without a ledger and a checkpoint, which show tries")
        if self.bits.secure and not training.record().secure:
            self._refuse("a training", "one with the bits that it is given")
        for one in training.model.parameters():
            known = self.seen.get(id(one))
            if one.requires_grad and known is not None and known() is one:
                self._refuse("a model", "a new model each time, which shares no trained weights")
            self.seen[id(one)] = weakref.ref(one)
        return training

    def _refuse(self, value: Any, expected: str) -> NoReturn:
        raise InvalidParameter("make", value, expected=f"a function that returns {expected}")


def _planned(
    trainings: _Trainings,
    candidates: Sequence[Any],
    law: SearchLaw,
    rehearse: Callable[[Any, GDP, Neighbors], None],
) -> tuple[SearchPlan, TrainingPrice, TrainingPlan]:
    if not isinstance(candidates, list | tuple) or not candidates:
        raise InvalidParameter("candidates", candidates, expected="a list of one or more settings")
    alone = []
    for candidate in candidates:
        training = trainings.build(candidate, law.budget)
        training.close()
        alone.append(training.plan)
    if len({(plan.neighbors, plan.unit) for plan in alone}) != 1:
        expected = "a function that returns trainings with the same neighbors and kind of units"
        raise InvalidParameter("make", [str(plan.neighbors) for plan in alone], expected=expected)
    schemes = {(plan.sampling, plan.batches) for plan in alone}
    scheme = schemes.pop() if len(schemes) == 1 else None
    price = price_training(law, scheme, alone[0].neighbors, alone[0].noise_multiplier)
    ratios = []
    for candidate, single in zip(candidates, alone, strict=True):
        training = trainings.build(candidate, price)
        training.close()
        rehearse(training.model, law.score, single.neighbors)
        ratios.append(training.plan.noise_multiplier / single.noise_multiplier)
    event = law.event(price.training)
    plan = SearchPlan(
        budget=law.budget,
        neighbors=alone[0].neighbors,
        unit=alone[0].unit,
        event=event,
        each=price.each,
        score=law.score,
        candidates=len(candidates),
        tries=BestOf(event=event).mean,
        most_tries=tries_quantile(shape=law.shape, stop=law.stop, level=0.99),
        noise_ratio=max(ratios),
        by_curve=price.scheme is not None,
    )
    return plan, price, replace(alone[0], budget=law.budget, event=event)
