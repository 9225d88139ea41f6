r"""The inverse sensitivity mechanism: answers that are few changes of the data away.

The loss of an answer y is the least number of records to change so that the statistic f is y. For
every f it changes by at most 1 between neighbors, so selection by it is private: an answer is drawn
from a public grid with probability proportional to exp(-epsilon loss / 2), or by permute-and-flip.
With probability 1 - beta it is among the values of f within k = (2 / epsilon) ln(|grid| / beta)
changes of the actual data; the bounds of the values hardly matter.

**Choice of the selection.** As for any selection, it depends on the kind of the budget. For pure
privacy use "permute and flip", which is never worse than the exponential mechanism at the same
epsilon. For zCDP, GDP or many releases under (epsilon, delta) use "exponential", of bounded range,
which costs epsilon^2 / 8 in zCDP. `InverseSensitivity.for_guarantee` chooses.

**No factor of 2 is saved by monotone losses**, save for the mode: where f(x) and f(x') differ, the
loss of f(x) rises from 0 and that of f(x') falls to 0. Proofs, also of all losses:
docs/proofs/adaptive_inverse.md. The loss of a category as a mode is the lead of the most frequent
one over it, in records. If records are replaced, it changes by 2, of which 1 is the same for all
categories and does not affect selection.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.statistics.base import AnswerGrid, Invertible, Runs
from unacorda.mechanisms.data_dependent.statistics.counts import Category, Mode
from unacorda.mechanisms.data_dependent.statistics.sums import Sum
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.mechanisms.parameters import some_of
from unacorda.mechanisms.protocol import RangeCalibrated
from unacorda.mechanisms.selection.contest import noisy_argmax
from unacorda.mechanisms.selection.exponential import choose, pieces_of_steps
from unacorda.mechanisms.selection.scores import Real, check_selection, factor_of, one_row
from unacorda.privacy import events
from unacorda.privacy.guarantees import ZCDP, ApproxDP, PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

Selection: TypeAlias = Literal["exponential", "permute and flip"]

_SELECTIONS: Final = ("exponential", "permute and flip")
_UNSEEN: Final = 45  # a little above 64 ln 2: losses end where all together weigh 2^-64 of the best
_UNLIKELY: Final = Fraction(1, 1 << 64)
_LARGEST_LOSS: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSensitivity(RangeCalibrated):
    r"""Release a statistic by the inverse sensitivity mechanism.

    For whole numbers use 0: an answer that many records share is then one of few points, not one of
    2^52. For a variance, values are rounded to a 2^20-th of their range.

    Values are rounded to the nearest point of the grid and clamped to the bounds; NaN counts as 0.
    The statistic itself is rounded too. Empty data are allowed; their answer is defined by the
    statistic.

    Source: Asi and Duchi 2020, arXiv:2005.10630, Section 2; McSherry and Talwar 2007, Theorem 6;
    losses: docs/proofs/adaptive_inverse.md.

    Parameters
    ----------
    epsilon
        Above 0.
    statistic
        An order statistic, quantile, median, minimum, maximum, mean, variance, sum, mode or
        slope of `unacorda.mechanisms.data_dependent`, or None, for `release_losses`.
    neighbors
        AddRemove or ReplaceOne.
    selection
        "exponential" or "permute and flip" (see the module).
    answers
        The public interval (lower, upper) of the answer, for a sum or for your own losses only.
    grid_log2
        Values and answers are multiples of 2^grid_log2, by default as fine as float64 holds (of
        a variance 2^20, of a slope 2^16 answers).

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> median = InverseSensitivity(epsilon=1, statistic=Median(lower=0, upper=120), grid_log2=0)
    >>> median.event
    Exponential(epsilon=1)
    >>> median.release([31] * 40 + [32] * 60 + [90] * 10, bits=SeededBits(1))
    32.0
    >>> median.error_bound(0.95)
    15
    """

    epsilon: Real
    statistic: Invertible | None = None
    neighbors: Neighbors = AddRemove
    selection: Selection = "exponential"
    answers: tuple[Real, Real] | None = None
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=1, monotone=False)
        if self.statistic is not None:
            _check_statistic(self.statistic)
        check_added_or_replaced(self.neighbors)
        checks.choice(_SELECTIONS, selection=self.selection)
        self._check_answers()
        object.__setattr__(self, "grid_log2", self._grid().log2)

    @classmethod
    def for_guarantee(cls, guarantee: PureDP | ApproxDP | ZCDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a guarantee on one release, by the better selection.

        Parameters
        ----------
        guarantee
            A PureDP or ApproxDP, for permute and flip at its epsilon (a delta is not used); or a
            ZCDP, for the exponential mechanism at sqrt(8 rho), rounded down at the 15th digit.
        **parameters
            Those of the class, but for epsilon and selection.

        Raises
        ------
        InvalidParameter
            For another guarantee.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import ZCDP
        >>> from unacorda.mechanisms.data_dependent import Median
        >>> InverseSensitivity.for_guarantee(ZCDP(0.5), statistic=Median(lower=0, upper=9)).event
        Exponential(epsilon=2)
        """
        if isinstance(guarantee, ApproxDP):
            guarantee = PureDP(some_of(guarantee, ApproxDP).epsilon)
        selection = "exponential" if isinstance(guarantee, ZCDP) else "permute and flip"
        return super(InverseSensitivity, cls).for_guarantee(
            guarantee, selection=selection, **parameters
        )

    @property
    def event(self) -> events.Exponential | events.Pure:
        """What one release costs."""
        kind = events.Exponential if self.selection == "exponential" else events.Pure
        return kind(epsilon=self.epsilon)

    @property
    def factor(self) -> Fraction:
        """The exponent per change of a record: epsilon / 2; epsilon for modes of AddRemove."""
        # Between two neighbors all counts, and so all losses, move the same way.
        one_way = isinstance(self.statistic, Mode) and self.neighbors is AddRemove
        return factor_of(self.epsilon, 1, monotone=one_way)

    def error_bound(self, confidence: checks.Number) -> int:
        """Compute a bound k on the answer's loss with this probability.

        That is: changing at most k records moves the statistic to the answer or beyond. It is known
        beforehand: floor(ln(|grid| / (1 - confidence)) / factor). For a median or quantile a change
        is at least half a rank under AddRemove; for a fixed rank, or if records are replaced, one
        rank.

        Parameters
        ----------
        confidence
            Between 0 and 1.

        Raises
        ------
        InvalidParameter
            For a confidence beyond the resolution of losses.
        """
        miss = 1 - confident(confidence)
        bound = self._most()
        if miss > _UNLIKELY:
            reach = (math.log(self._grid().size) - math.log(miss)) / float(self.factor)
            bound = math.floor(reach * (1 + 1e-12))
        if bound >= self._most():
            raise InvalidParameter(
                "confidence", confidence, expected="a lower one, or a larger epsilon"
            )
        return bound

    def losses(self, values: ArrayLike) -> Runs:
        """Return the loss of every answer. NOT private: never release it.

        Parameters
        ----------
        values
            The data.

        Returns
        -------
        Runs
            Losses of the steps of the grid.

        Raises
        ------
        InvalidParameter
            If no statistic is given.
        """
        if self.statistic is None:
            raise InvalidParameter(
                "statistic", None, expected="a statistic; your own losses go to release_losses"
            )
        return self.statistic.losses(
            values, neighbors=self.neighbors, grid=self._grid(), most=self._most()
        )

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> float | Category:
        """Release the answer: a multiple of 2^grid_log2; of a mode, one of its categories.

        Parameters
        ----------
        values
            One dimension, one record each, integers or floats of at most 64 bits; for a slope two
            columns, x and y; for a mode any values.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        runs = self.losses(values)
        step = self._choose(-runs.losses, runs.starts, runs.counts, source_of(bits))
        if isinstance(self.statistic, Mode):
            return self.statistic.categories[step]
        return self._grid().point(step)

    def release_losses(
        self,
        edges: ArrayLike,
        *,
        losses: ArrayLike | Sequence[Fraction],
        bits: RandomBits | None = None,
    ) -> float:
        """Release the answer by your own losses, whose sensitivity you must prove.

        `check_sensitivity` searches for counterexamples.

        Parameters
        ----------
        edges
            Where the loss changes, in rising order, as for `PiecewiseConstantExponential`:
            losses[k] holds from edges[k - 1] on up to below edges[k]. A value that is itself an
            answer with a loss of its own has two edges, itself and the next point of the grid.
        losses
            One more than edges, 0 or above (below counts as 0); that of each answer moves by at
            most 1 between neighbors.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        if self.statistic is not None:
            raise InvalidParameter(
                "statistic", self.statistic, expected="None, with answers=(lower, upper)"
            )
        grid = self._grid()
        scores = _scores(one_row(losses))
        starts, counts = pieces_of_steps(
            edges, scores.size, first=grid.first, last=grid.last, grid_log2=grid.log2
        )
        kept = counts > 0
        step = self._choose(scores[kept], starts[kept], counts[kept], source_of(bits))
        return grid.point(step)

    def _choose(
        self,
        scores: NDArray[Any],
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        source: RandomBits,
    ) -> int:
        if self.selection == "exponential":
            run = int(choose(scores[None, :], counts, factor=self.factor, bits=source)[0])
        else:
            first = noisy_argmax(
                scores,
                factor=self.factor,
                noise="exponential",
                count=1,
                bits=source,
                copies=counts,
            )
            run = first[0].index
        # All points of a run are alike, so that the best of them is each with equal probability.
        return int(starts[run]) + source.below(int(counts[run]))

    def _grid(self) -> AnswerGrid:
        if self.statistic is None:
            return AnswerGrid.within(*self._interval(), self.grid_log2)
        return self.statistic.answer_grid(self.grid_log2, answers=self._interval())

    def _interval(self) -> tuple[Fraction, Fraction]:
        """The ends of the answers; of no meaning for a mode."""
        if self.answers is not None:
            return checks.exact("answers", self.answers[0]), checks.exact(
                "answers", self.answers[1]
            )
        assert self.statistic is not None
        return self.statistic.answers

    def _check_answers(self) -> None:
        needed = self.statistic is None or isinstance(self.statistic, Sum)
        expected = "a pair (lower, upper) of numbers, lower < upper, for a sum or your own losses"
        if not needed:
            if self.answers is not None:
                raise InvalidParameter(
                    "answers", self.answers, expected="None: they lie within the bounds of values"
                )
            return
        pair = self.answers
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidParameter("answers", pair, expected=expected)
        low, high = self._interval()
        checks.demand(low < high, "answers", pair, expected=expected)

    def _most(self) -> int:
        """Where losses end: a function of public numbers alone."""
        reach = (math.log(self._grid().size) + _UNSEEN) / float(self.factor)
        last = Invertible if self.statistic is None else self.statistic
        return min(math.ceil(reach), last.most)


def _check_statistic(statistic: object) -> None:
    """Refuse what has no losses."""
    if not isinstance(statistic, Invertible):
        raise InvalidParameter(
            "statistic",
            statistic,
            expected="an order statistic, quantile, minimum, maximum, mean, variance, sum, mode "
            "or slope of unacorda.mechanisms.data_dependent; else release_losses takes your own "
            "losses",
        )
    if isinstance(statistic, Sum) and statistic.upper is None:
        raise InvalidParameter("statistic", statistic, expected="a sum with an upper bound")


def _scores(losses: NDArray[Any]) -> NDArray[Any]:
    """Minus the losses, none above 0."""
    if losses.dtype.kind == "O":
        return np.array([-max(loss, 0) for loss in losses.tolist()], dtype=object)
    if losses.dtype.kind in "iu":
        losses = np.minimum(losses, _LARGEST_LOSS).astype(np.int64)
    scores: NDArray[Any] = -np.maximum(losses, 0)
    return scores
