r"""Propose, test, release: noise for a proposed local sensitivity, if it is safe.

The caller proposes a bound on the local sensitivity. One record changes the distance to data with a
larger local sensitivity by at most 1, so this distance can be tested privately. If it is large
enough, the answer is released with noise for the proposed bound. Otherwise the release is None,
which is also an answer: it is charged and public.

The test is not a noisy threshold, but a probability p(distance) that rises as fast as the guarantee
allows, from 0 at distance 0 to exactly 1 (docs/proofs/adaptive_propose_test_release.md). The
distance to an answer outside the neighborhood **of the current answer** is not sufficient: it can
jump from 2 to 501 if one record changes.

Source: Dwork and Lei 2009 (propose-test-release); Desfontaines, Voss, Gipson, Mandayam 2022,
arXiv:2006.03684, Theorem 1 (the recursion, there for counts of people).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, cast

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.standard_noise import (
    StandardLaplace,
    exact_number,
    rounded_sum,
)
from unacorda.mechanisms.data_dependent.statistics.ranks import InterquartileRange, RankStatistic
from unacorda.mechanisms.noise import rounding
from unacorda.mechanisms.noise.refinement import coin
from unacorda.mechanisms.parameters import Real, positive, readable, whole
from unacorda.mechanisms.partitions.selection import rising_chances, table_length
from unacorda.mechanisms.protocol import ApproxCalibrated
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

_BITS: Final = 128
_GRID_BITS: Final = 20
_GRID_REACH: Final = 1000
_LARGEST: Final = Fraction(2) ** 1000
_LEAST_DELTA: Final = Fraction(1, 1 << 80)
_LEAST_EPSILON: Final = Fraction(1, 1 << 20)
_LONGEST: Final = 1 << 20


Tested: TypeAlias = RankStatistic | InterquartileRange
"""Statistics whose distance from sensitive data is known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeTestRelease(ApproxCalibrated):
    r"""Release f(x) + Laplace noise for the proposed sensitivity, or None if that is not safe.

    Source: Dwork and Lei 2009; docs/proofs/adaptive_propose_test_release.md, Theorem 1.

    Parameters
    ----------
    statistic
        A rank statistic or InterquartileRange, or None if only `release_at` is used.
    proposed
        A bound on the local sensitivity, above 0, in the unit of the answer, chosen independently
        of the data.
    epsilon, delta
        The total cost: epsilon above 0, delta from 2^-80 to 1.
    test_epsilon
        The part of epsilon for the test, by default half.
    neighbors
        AddRemove or ReplaceOne.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default floor(log2 noise_scale) - 20.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> ages = ProposeTestRelease(
    ...     statistic=Median(lower=0, upper=120), proposed=1, epsilon=1, delta=1e-6
    ... )
    >>> ages.event, ages.sure_from
    (Approximate(epsilon=1, delta=1e-06), 40)
    >>> round(ages.release([30 + k % 40 for k in range(5000)], bits=SeededBits(1)), 2)
    55.93
    >>> ages.release([20, 70], bits=SeededBits(1)) is None
    True
    """

    statistic: Tested | None = None
    proposed: Real
    epsilon: Real
    delta: Real
    # Both are numbers once it is made; None asks for the default.
    test_epsilon: Real = cast("Real", None)  # noqa: RUF009 - Real is immutable
    neighbors: Neighbors = AddRemove
    grid_log2: int = cast("int", None)

    def __post_init__(self) -> None:
        if self.statistic is not None and not isinstance(self.statistic, Tested):
            raise InvalidParameter(
                "statistic", self.statistic, expected="a rank statistic or InterquartileRange"
            )
        check_added_or_replaced(self.neighbors)
        proposed, epsilon = positive("proposed", self.proposed), positive("epsilon", self.epsilon)
        if not 1 / _LARGEST <= checks.exact("proposed", proposed) <= _LARGEST:
            raise InvalidParameter("proposed", self.proposed, expected="from 2^-1000 to 2^1000")
        keep(self, proposed=proposed, epsilon=epsilon, delta=positive("delta", self.delta))
        checks.demand(self.delta < 1, "delta", self.delta, expected="a number between 0 and 1")
        given = cast("Real | None", self.test_epsilon)
        half = checks.exact("epsilon", epsilon) / 2
        spent = (
            half if given is None else checks.exact("test_epsilon", positive("test_epsilon", given))
        )
        checks.demand(spent < 2 * half, "test_epsilon", given, expected=f"a number below {epsilon}")
        keep(self, test_epsilon=readable(spent))
        if checks.exact("delta", self.delta) < _LEAST_DELTA:
            raise InvalidParameter("delta", self.delta, expected="at least 2^-80, below 1")
        if spent < _LEAST_EPSILON or table_length(spent, float(self.delta)) > _LONGEST:
            raise InvalidParameter(
                "test_epsilon" if given is not None else "epsilon",
                given if given is not None else self.epsilon,
                expected="a larger one: at this one no answer is certain up to a distance of 2^20",
            )
        keep(self, grid_log2=self._grid())

    @property
    def event(self) -> events.Approximate:
        """What one release costs, None too."""
        return events.Approximate(epsilon=self.epsilon, delta=self.delta)

    @property
    def noise_scale(self) -> Real:
        """The scale of the Laplace noise, proposed / (epsilon - test_epsilon); public.

        >>> ProposeTestRelease(proposed=2, epsilon=1, delta=1e-6).noise_scale
        4
        """
        epsilon, spent = self._epsilons()
        return readable(checks.exact("proposed", self.proposed) / (epsilon - spent))

    @property
    def sure_from(self) -> int:
        """The least distance from which on an answer is certain."""
        return len(self._chances())

    def probability(self, distance: int) -> Fraction:
        """Compute the probability of an answer other than None at a distance from sensitive data.

        Parameters
        ----------
        distance
            The number of records, 0 or above.

        Examples
        --------
        >>> test = ProposeTestRelease(proposed=1, epsilon=2, delta=1e-6)
        >>> [round(float(test.probability(d)), 6) for d in (0, 1, 10, 15, 20)]
        [0.0, 1e-06, 0.012818, 0.959384, 0.999998]
        """
        chances, place = self._chances(), whole("distance", distance, least=0, most=1 << 62)
        return Fraction(chances[place], 1 << _BITS) if place < len(chances) else Fraction(1)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> float | None:
        """Release the noisy answer or None.

        Parameters
        ----------
        values
            One dimension, one record each, for the statistic.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype, and if there is no statistic.
        """
        if self.statistic is None:
            raise InvalidParameter("statistic", None, expected="one, or the use of release_at")
        distance = self._distance(self.statistic, values)
        return self.release_at(self.statistic.value(values), distance=distance, bits=bits)

    def release_at(
        self, value: float | Fraction, *, distance: float, bits: RandomBits | None = None
    ) -> float | None:
        """Release the noisy answer or None, from the exact answer and the distance.

        You must prove both (`check_sensitivity` searches counterexamples of a distance); neither is
        ever released. Values that are not numbers count as NaN.

        Parameters
        ----------
        value
            The answer; NaN counts as 0, and it is clamped to +-2^1000.
        distance
            The distance in records to the nearest dataset whose answer differs by more than
            `proposed` from that of some neighbor, or any lower bound that changes by at most 1
            between neighbors; inf if there is none. It is rounded down to a whole number; NaN
            counts as 0.
        bits
            By default a secure source.
        """
        answer = exact_number(value, nan=Fraction(0))
        away = exact_number(distance, nan=Fraction(0))
        chances, source = self._chances(), source_of(bits)
        place = max(math.floor(min(away, Fraction(len(chances)))), 0)
        chance = chances[place] if place < len(chances) else 1 << _BITS
        # All bits are drawn, and the sum is made, also where nothing is released.
        passed = coin(lambda places: _scaled(chance, places)).toss(1, source)[0]
        step = rounded_sum(
            max(-_LARGEST, min(answer, _LARGEST)),
            StandardLaplace(bits=source),
            scale=checks.exact("noise_scale", self.noise_scale),
            grid_log2=self.grid_log2,
        )
        released = float(rounding.float_multiples([step], self.grid_log2)[0])
        return released if passed else None

    def _distance(self, statistic: Tested, values: ArrayLike) -> float:
        bound = checks.exact("proposed", self.proposed)
        if not isinstance(statistic, InterquartileRange):
            return _away(statistic, values, bound, self.neighbors)
        if self.neighbors is AddRemove:
            bound /= 2  # the quartiles may part; where a record is replaced both move one way
        return min(_away(part, values, bound, self.neighbors) for part in statistic.quartiles)

    def _epsilons(self) -> tuple[Fraction, Fraction]:
        return checks.exact("epsilon", self.epsilon), checks.exact("test", self.test_epsilon)

    def _chances(self) -> tuple[int, ...]:
        epsilon, spent = self._epsilons()
        delta = checks.exact("delta", self.delta)
        found: tuple[int, ...] = rising_chances(spent, delta, refusal=epsilon)
        return found

    def _grid(self) -> int:
        scale = checks.exact("noise_scale", self.noise_scale)
        if cast("int | None", self.grid_log2) is None:
            return max(rounding.floor_log2(scale) - _GRID_BITS, -_GRID_REACH)
        return whole("grid_log2", self.grid_log2, least=-_GRID_REACH, most=_GRID_REACH)


def _away(
    statistic: RankStatistic,
    values: ArrayLike,
    bound: Fraction,
    neighbors: Neighbors,
) -> float:
    # A bound that is rounded down makes data sensitive sooner: the distance stays one.
    nearest = float(bound)
    below = nearest if Fraction(nearest) <= bound else math.nextafter(nearest, 0.0)
    distance = statistic.distance(values, bound=below, neighbors=neighbors)
    return math.inf if distance is None else distance


def _scaled(chance: int, places: int) -> tuple[int, int]:
    """Integers around chance / 2^128 times 2^places."""
    shift = places - _BITS
    if shift >= 0:
        return chance << shift, chance << shift
    return chance >> -shift, -(-chance >> -shift)
