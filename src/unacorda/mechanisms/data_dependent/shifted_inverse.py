r"""The shifted inverse: lower estimates of monotone functions with unbounded contributions.

Adding a person may raise f by any amount, so its global sensitivity is infinite. But the removal
loss, the least number of people to remove so that f is at most y, changes by at most 1 for every f.
A search over a public grid for the first y whose loss is about a target t gives a number between f
of the data without a few people and f. The target keeps it below f, and the noise makes "a few"
somewhat more than t. No bound on a person's contribution is needed.

The answer is low by design: it lacks the contribution of the few largest people, which is large for
heavy tails. The price does not depend on the number of grid points; the number of people grows with
its logarithm. Source: Fang, Dong, Yi 2022; docs/proofs/adaptive_shifted_inverse.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.data_dependent.removal import (
    Monotone,
    RisingGrid,
    least_value,
    removal_losses,
    rising,
)
from unacorda.mechanisms.data_dependent.searches import (
    MOST_PEOPLE,
    AboveThresholdSearch,
    Integers,
    NoisyBinarySearch,
    Solver,
    halves_of,
)
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.numerics import least_whole
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

Real: TypeAlias = float | Fraction
Method: TypeAlias = Literal["ascending", "tolerant search"]

_LARGEST_LOSS: Final = 1 << 50
_LEAST_EPSILON: Final = Fraction(1, 1 << 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Underestimate:
    """A released number that is too low by design, with a bound on how much.

    With probability `confidence` or more, the value is at most that of the data, rounded up to the
    grid, and at least that of the data without some `people` people.

    Attributes
    ----------
    value, index
        The number, and its index in the grid.
    reached
        False if the value is the last point of the grid. The lower bound does not hold then, since
        the grid may end too soon.
    people
        The number of people in the lower bound.
    confidence
        The confidence of both bounds together.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent import Sum
    >>> from unacorda.mechanisms.data_dependent.removal import geometric_grid
    >>> total = ShiftedInverse(
    ...     statistic=Sum(lower=0, upper=None), epsilon=1, grid=geometric_grid(1, 10**9)
    ... )
    >>> released = total.release(range(2000), bits=SeededBits(1))
    >>> released.reached, released.people, released.value <= 1.02 * sum(range(2000))
    (True, 26, True)
    """

    value: float
    index: int
    reached: bool
    people: int
    confidence: float

    def __str__(self) -> str:
        low = f"f without {self.people} people or fewer" if self.reached else "the end of the grid"
        return (
            f"{self.value:g}, an underestimate by design: with probability {self.confidence:.4g} "
            f"between {low} and f rounded up to the grid"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedInverse(PureCalibrated):
    r"""Release a monotone statistic of people whose contributions have no bound.

    Source: Fang, Dong, Yi 2022; docs/proofs/adaptive_shifted_inverse.md.

    Parameters
    ----------
    epsilon
        The price of one release under pure privacy, above 0.
    grid
        Public numbers in rising order, from the statistic of empty data (0 for sums and counts) to
        beyond all plausible answers; see `geometric_grid`.
    statistic
        The statistic for `release`, or None if only `release_losses` is used.
    neighbors
        AddRemove or ReplaceOne.
    solver
        "ascending" is AboveThreshold from the first point up, the best in general. All losses
        change in one direction under AddRemove, and under ReplaceOne for the statistics of this
        package, which reduces the noise by a third. "tolerant search" tolerates wrong answers, for
        zCDP and large grids: with noise=DiscreteGaussian(...) at 0.1-zCDP in total, 43 people for
        2^10 points and 51 for 2^16 (ascending: 45 and 60), though its target, 22 or 26, is above
        the 9 of ascending. With Laplace noise at epsilon = 1 it is worse: 265 people for 2^10
        points, against 26 for ascending. It asks hundreds of questions; their number (see `event`)
        depends on the grid, the confidence and the kind of noise.
    target
        The target loss, by default the least one with which an answer above f has at most half of 1
        - confidence.
    confidence
        The confidence of statements about the answer, between 0 and 1. A float means the decimal
        that it prints as.
    bounded_range
        With "ascending": use the event of the exponential mechanism instead, which is better for
        zCDP.
    noise
        With "tolerant search": the noise of one question, in place of epsilon. By default discrete
        Laplace noise with a total price of epsilon.

    Raises
    ------
    InvalidParameter
        For numbers out of their range, and for arguments that do not fit the solver.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent.removal import geometric_grid
    >>> from unacorda.mechanisms.data_dependent import Sum
    >>> total = ShiftedInverse(
    ...     statistic=Sum(lower=0, upper=None), epsilon=1, grid=geometric_grid(1, 10**9)
    ... )
    >>> total.event, total.target, total.people
    (Pure(epsilon=1), 6, 26)
    >>> released = total.release(range(2000), bits=SeededBits(1))
    >>> 0.95 < released.value / sum(range(2000)) < 1.02
    True
    """

    epsilon: Real | None = None
    grid: Sequence[Number]
    statistic: Monotone | None = None
    neighbors: Neighbors = AddRemove
    solver: Method = "ascending"
    target: int = cast("int", None)  # an int once it is made; None asks for the default
    confidence: Number = Fraction(19, 20)
    bounded_range: bool = False
    noise: DiscreteLaplace | DiscreteGaussian | None = None

    def __post_init__(self) -> None:
        check_added_or_replaced(self.neighbors)
        least = None if self.statistic is None else least_value(self.statistic)
        fields.keep(self, grid=rising(self.grid, least=least))
        self._check_price()
        miss = (1 - confident(self.confidence)) / 2
        solver = self._solver
        aims = self.target
        if aims is None:
            aims = least_whole(lambda aim: solver.overshoot(aim) <= miss)
        fields.keep(self, target=fields.whole("target", aims, least=0))
        if self.target > MOST_PEOPLE:
            raise InvalidParameter(
                "target", aims, expected="at most 2^40 people, or a coarser question"
            )

    @property
    def event(self) -> events.Event:
        """What one release costs."""
        return self._solver.event

    @property
    def people(self) -> int:
        """The most people to remove until f is at most the answer; see `Underestimate`."""
        miss = (1 - confident(self.confidence)) / 2
        return self._solver.people(self.target, miss=float(miss) * (1 - 2.0**-40))

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Underestimate:
        """Release the statistic, from below.

        Parameters
        ----------
        values
            One dimension, one entry a person: a value, the total over all of their rows, or an
            item; missing and extreme entries as `removal_losses` has them.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype, and without a statistic.
        """
        if self.statistic is None:
            raise InvalidParameter(
                "statistic", None, expected="a statistic, or losses given to release_losses"
            )
        losses = removal_losses(self.statistic, values, grid=self._points)
        return self.release_losses(losses, bits=bits)

    def release_losses(self, losses: ArrayLike, *, bits: RandomBits | None = None) -> Underestimate:
        """Release a lower estimate of any monotone function by its removal losses.

        The losses must change by at most 1 per person, all upward if a person is added;
        `check_sensitivity` tests this.

        Parameters
        ----------
        losses
            Whole numbers, one for each grid point: the least number of people to remove so that the
            function (`statistic`, where one is named) is at most this point. Losses below 0 count
            as 0, and one above an earlier one as that one.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        expected = f"{len(self.grid)} integers, one for each point of the grid"
        array = elements.integers("losses", losses, dimensions=1, expected=expected)
        checks.demand(array.shape == (len(self.grid),), "losses", array.shape, expected=expected)
        index = self._solver.choose(_falling(array), target=self.target, bits=source_of(bits))
        return Underestimate(
            value=float(self._points[index]),
            index=index,
            reached=index < len(self.grid) - 1,
            people=self.people,
            confidence=self._held,
        )

    @property
    def _held(self) -> float:
        """The confidence that this target leaves, rounded down."""
        miss = float((1 - confident(self.confidence)) / 2)
        held = 1 - miss - max(self._solver.overshoot(self.target), 0.0)
        if held >= float(confident(self.confidence)) - 2.0**-30:
            return float(confident(self.confidence))
        return max(held, 0.0)

    @property
    def _solver(self) -> Solver:
        points = len(self.grid)
        if self.solver == "tolerant search":
            halves = halves_of(
                points,
                miss=(1 - confident(self.confidence)) / 2,
                gaussian=isinstance(self.noise, DiscreteGaussian),
            )
            return NoisyBinarySearch(noise=self._shared(2 * halves), points=points, halves=halves)
        return AboveThresholdSearch(
            epsilon=self._epsilon,
            points=points,
            monotone=self._one_way,
            bounded_range=self.bounded_range,
        )

    def _shared(self, questions: int) -> DiscreteLaplace | DiscreteGaussian:
        """The noise of one of so many questions."""
        if self.noise is not None:
            return self.noise
        scale = questions / checks.exact("epsilon", self._epsilon)
        return DiscreteLaplace(scale=scale, l1_sensitivity=1)

    @property
    def _one_way(self) -> bool:
        """Whether all losses move the same way between two neighbors."""
        return self.neighbors is AddRemove or self.statistic is not None

    @property
    def _points(self) -> RisingGrid:
        return cast("RisingGrid", self.grid)

    @property
    def _epsilon(self) -> Real:
        return cast("Real", self.epsilon)

    def _check_price(self) -> None:
        checks.choice(get_args(Method), solver=self.solver)
        checks.boolean(bounded_range=self.bounded_range)
        if self.bounded_range and not (self.solver == "ascending" and self._one_way):
            raise InvalidParameter(
                "bounded_range",
                self.bounded_range,
                expected='False, but for solver="ascending" and losses that move one way',
            )
        if self.noise is None:
            fields.keep(self, epsilon=fields.positive("epsilon", self._epsilon))
            if checks.exact("epsilon", self._epsilon) < _LEAST_EPSILON:
                raise InvalidParameter("epsilon", self.epsilon, expected="2^-32 or more")
            return
        moved: Real = 0
        if isinstance(self.noise, DiscreteLaplace):
            moved = self.noise.l1_sensitivity
        elif isinstance(self.noise, DiscreteGaussian):
            moved = self.noise.l2_sensitivity
        if moved != 1 or self.solver != "tolerant search":
            raise InvalidParameter(
                "noise",
                self.noise,
                expected="DiscreteLaplace or DiscreteGaussian with sensitivity 1, for "
                'solver="tolerant search"',
            )
        if self.epsilon is not None:
            raise InvalidParameter("epsilon", self.epsilon, expected="no epsilon beside noise")


def _falling(losses: NDArray[Any]) -> Integers:
    """The losses as whole numbers of [0, 2^50] that fall, whatever was delivered."""
    bounded = np.minimum(np.maximum(losses, 0), _LARGEST_LOSS).astype(np.int64)
    return np.minimum.accumulate(bounded)
