r"""Sums of totals without a bound, clipped at a level that is found privately.

An ascending AboveThreshold finds the first public level that few people's totals exceed. Their
number is the removal loss of the maximum, so it changes by at most 1, in one direction. Then every
total is clipped at this level C, and the sum gets noise of scale C / epsilon_2. The second step
costs epsilon_2 for every level, so both compose.

Each total is rounded on its own to a multiple of 2^-20 of its clipping level. So the sum is exact
in integers, and changes by at most 2^20 if a person is added, removed or replaced. Source: Dwork
and Roth 2014, Algorithm 1 (search); docs/proofs/adaptive_shifted_inverse.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.mechanisms.data_dependent.removal import RisingGrid, people_above, rising
from unacorda.mechanisms.data_dependent.searches import MOST_PEOPLE, AboveThresholdSearch
from unacorda.mechanisms.data_dependent.statistics.base import clamped
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

Real: TypeAlias = float | Fraction

_MOST_NOISE: Final = 1 << 40  # in steps
STEPS: Final = 1 << 20
"""A level is so many of the units in which the totals clipped at it are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum:
    """A noisy sum of clipped totals, with the level at which they were clipped.

    The sum is too low by design, by what totals have above the level. All of it is public.

    Attributes
    ----------
    value
        The noisy sum.
    level
        The level, found privately.
    reached
        Whether a level below the last one was found. If not, many people may be above it.
    standard_deviation
        The standard deviation of the noise alone, which has mean 0.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent.removal import geometric_grid
    >>> total = FoundClipping(epsilon=1, levels=geometric_grid(1, 10**9, ratio=1.2))
    >>> released = total.release(range(2000), bits=SeededBits(1))
    >>> released.reached, released.level < 2000 * 1.2, released.value <= 1.02 * sum(range(2000))
    (True, True, True)
    """

    value: float
    level: float
    reached: bool
    standard_deviation: float

    def __str__(self) -> str:
        return (
            f"{self.value:g} with noise of standard deviation {self.standard_deviation:.3g}, "
            f"an underestimate by design: totals were cut off at {self.level:g}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClipping(PureCalibrated):
    """The sum of non-negative totals, clipped at a level that few people exceed.

    Floats mean the decimals they print as.

    Source: docs/proofs/adaptive_shifted_inverse.md, section 6.

    Parameters
    ----------
    epsilon
        The total cost under pure privacy.
    levels
        Public numbers in rising order, 0 or more, beyond all plausible totals (`geometric_grid`
        with a ratio of 1.2).
    neighbors
        AddRemove or ReplaceOne.
    share
        The share of epsilon for the search, above 0 and below 1.
    target
        The target number of people above the level, by default 3 / (share epsilon), rounded up.
        With it, noise leads to a level above all totals with probability about 1/8.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent.removal import geometric_grid
    >>> total = FoundClipping(epsilon=1, levels=geometric_grid(1, 10**9, ratio=1.2))
    >>> total.target, total.event
    (6, Composed(parts=(Pure(epsilon=Fraction(1, 2)), DiscreteLaplace(scale=2097152, sensitivity=1048576))))
    >>> released = total.release(range(2000), bits=SeededBits(1))
    >>> 0.98 < released.value / sum(range(2000)) < 1.02
    True
    """  # noqa: E501  # what a doctest prints is one line

    epsilon: Real
    levels: Sequence[Number]
    neighbors: Neighbors = AddRemove
    share: Number = Fraction(1, 2)
    target: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        check_added_or_replaced(self.neighbors)
        share = checks.exact("share", self.share)
        checks.demand(0 < share < 1, "share", self.share, expected="a number between 0 and 1")
        fields.keep(
            self,
            epsilon=fields.positive("epsilon", self.epsilon),
            levels=_levels(self.levels),
            share=share,
        )
        _check_part(self.epsilon, min(share, 1 - share))
        aims = self.target
        if aims is None:
            aims = math.ceil(3 / self._searched)
        fields.keep(self, target=fields.whole("target", aims, least=0))
        checks.demand(self.target <= MOST_PEOPLE, "target", aims, expected="at most 2^40 people")

    @property
    def event(self) -> events.Event:
        """What one release costs: the search and the noisy sum."""
        return events.compose([self._search.event, self._noise.event])

    def people(self, confidence: Number) -> int:
        """Bound the number of people above the level, with at least this confidence.

        It does not hold if the last level was chosen (`reached` is False).

        Parameters
        ----------
        confidence
            Between 0 and 1.
        """
        miss = float(1 - confident(confidence)) * (1 - 2.0**-40)
        return self._search.people(self.target, miss=miss)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> ClippedSum:
        """Release the noisy sum.

        Parameters
        ----------
        values
            One total per person, one dimension; negative ones and NaN count as 0, infinities as the
            largest float.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        totals, source = clamped(values, lower=0.0, upper=None), source_of(bits)
        above = people_above(totals, self._points)
        index = self._search.choose(above, target=self.target, bits=source)
        level, noise = self._points[index], self._noise
        steps = steps_at(totals, float(level))
        noisy = noise.release_exact([steps], bits=source)[0]
        unit = level / STEPS
        return ClippedSum(
            value=float(noisy * unit),
            level=float(level),
            reached=index < len(self._points) - 1,
            standard_deviation=noise.standard_deviation * float(unit),
        )

    @property
    def _points(self) -> RisingGrid:
        return cast("RisingGrid", self.levels)

    @property
    def _searched(self) -> Fraction:
        return checks.exact("epsilon", self.epsilon) * checks.exact("share", self.share)

    @property
    def _search(self) -> AboveThresholdSearch:
        # Counts above a level move one way under both relations.
        return AboveThresholdSearch(epsilon=self._searched, points=len(self._points), monotone=True)

    @property
    def _noise(self) -> DiscreteLaplace:
        left = checks.exact("epsilon", self.epsilon) - self._searched
        return DiscreteLaplace(scale=STEPS / left, l1_sensitivity=STEPS)


def steps_at(totals: NDArray[np.float64], level: float) -> int:
    """The sum of totals, each cut off at a level and rounded to its 2^-20. NOT private.

    >>> steps_at(np.array([0.5, 3.0]), 1.0)
    1572864
    """
    if level == 0:
        return 0
    with np.errstate(over="ignore", under="ignore"):
        shares = totals / level
    np.minimum(shares, 1.0, out=shares)
    shares *= STEPS
    return int(np.rint(shares, out=shares).astype(np.int64).sum())


def _check_part(epsilon: Real, part: Fraction) -> None:
    """Refuse an epsilon whose part gets more noise than the samplers offer."""
    least = STEPS / part / _MOST_NOISE
    if checks.exact("epsilon", epsilon) < least:
        expected = (
            f"{float(least):.3g} or more" if least < 2**1000 else "a larger one, or larger parts"
        )
        raise InvalidParameter("epsilon", epsilon, expected=expected)


def _levels(levels: Sequence[Number]) -> RisingGrid:
    """Levels that floats tell apart, from 0 or more."""
    points = rising(levels, least=Fraction(0), argument="levels")
    floats = [float(point) for point in points]
    if any(one >= two for one, two in itertools.pairwise(floats)) or floats[1] < 1e-290:
        raise InvalidParameter("levels", levels, expected="levels that increase as floats")
    return points
