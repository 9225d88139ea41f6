"""Mean oracles: numbers between public bounds, reported as a bit, a grid point or either.

Values are first rounded to the nearest of 2^30 + 1 places from lower to upper, which moves each
by at most 2^-30 of the width; from there on every probability is exact, and the decoded reports
are exactly unbiased for the rounded values. docs/proofs/local.md, sections 5, 6 and 8.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.mechanisms.local.reports import (
    WHOLE,
    ValueBounds,
    below,
    checked_reports,
    chunks,
    exp_down,
    grid_places,
    halves,
    keep_epsilon,
    pair_event,
    value_bounds,
    weak,
)
from unacorda.mechanisms.noise.rounding import shaped
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.events.fields import Real

STEPS: Final = 1 << 30
"""Between how many places, equally far apart, values are rounded."""


Places = NDArray[np.int64]


class Spread(NamedTuple):
    """How decoded reports scatter, exactly.

    Those of a value c away from the middle of the bounds are unbiased and have the variance
    constant + square c^2.
    """

    constant: Fraction
    square: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanOracle(PureCalibrated, ABC):
    """Randomizes a number on its owner's device and estimates the mean of all at the server.

    epsilon: above 0; lower, upper: public bounds of the values.
    """

    epsilon: Real
    lower: Real
    upper: Real

    def __post_init__(self) -> None:
        keep_epsilon(self)
        _ = self._design
        value_bounds(self.lower, self.upper)

    @property
    @abstractmethod
    def event(self) -> events.Event:
        """What one report costs."""

    @property
    @abstractmethod
    def spread(self) -> Spread:
        """How decoded reports scatter."""

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Make the reports of devices that hold these numbers, int64 of the same shape.

        Parameters
        ----------
        x
            Integers or floats; NaN counts as 0, and values are clamped to the bounds.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another dtype.
        """
        places, shape = grid_places(x, ends=self._ends, last=STEPS)
        return shaped(self._randomize(places, source_of(bits)), shape)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The decoded report, a float64 or an array; each is an unbiased estimate."""
        return self.decode(self.encode(x, bits=bits))

    def decode(self, reports: ArrayLike) -> Any:
        """Decode reports to unbiased estimates, in the unit of the values."""
        decoded = self._deviations(reports) + float(self._ends.center)
        return shaped(decoded, None if np.ndim(reports) == 0 else np.shape(reports))

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """Estimate the mean of all values, with errors from the spread of the reports.

        Parameters
        ----------
        reports
            As `encode` returns them.
        """
        deviations, half = self._deviations(reports), float(self._ends.half)
        constant, square = map(float, self.spread)
        count, shift = deviations.size, float(deviations.mean())
        # The mean of the squared distances from the center lies between these two.
        least, most = min(abs(shift), half) ** 2, half**2
        mean_square = most
        if count > 1:
            scatter = float(np.var(deviations, ddof=1))
            mean_square = min(max((scatter - constant + least) / (1 + square), least), most)
        return Estimate(
            value=float(self._ends.center) + shift,
            sampling_error=math.sqrt((mean_square - least) / count),
            privacy_error=math.sqrt((constant + square * mean_square) / count),
        )

    def variance(self, *, count: int, x: float | None = None) -> float:
        """Compute the variance of the mean of `count` values x.

        Parameters
        ----------
        count
            The number of people, 1 or more.
        x
            Their values; by default the worst ones.

        Examples
        --------
        >>> Duchi(epsilon=1, lower=-1, upper=1).variance(count=1000) ** 0.5
        0.0684...
        """
        ends, (constant, square) = self._ends, self.spread
        if x is None:
            farthest = ends.half**2 if square > 0 else Fraction(0)
        else:
            (place,), _ = grid_places(checks.finite(x=x), ends=ends, last=STEPS)
            farthest = (ends.width * (Fraction(int(place), STEPS) - Fraction(1, 2))) ** 2
        return float((constant + square * farthest) / checks.positive_integer(count=count))

    @property
    def _exact_epsilon(self) -> Fraction:
        return checks.exact("epsilon", self.epsilon)

    @property
    def _ends(self) -> ValueBounds:
        return value_bounds(self.lower, self.upper)

    def _deviations(self, reports: ArrayLike) -> NDArray[np.float64]:
        """The decoded reports about the center of the bounds, flat."""
        return self._centered(checked_reports(reports, limit=self._reports))

    @property
    @abstractmethod
    def _design(self) -> Any:
        """The integers behind a report; InvalidParameter where epsilon is too small for any."""

    @property
    @abstractmethod
    def _reports(self) -> int:
        """How many different reports there are, from 0 on."""

    @abstractmethod
    def _randomize(self, places: Places, bits: RandomBits) -> Places:
        """One report for each place."""

    @abstractmethod
    def _centered(self, reports: Places) -> NDArray[np.float64]:
        """What the reports count, from the center of the bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duchi(MeanOracle):
    r"""Send one bit whose probability of being 1 is linear in the value.

    The bit is 1 with odds 1 : e^epsilon at the lower bound and e^epsilon : 1 at the upper one. A
    report is the bit, 0 or 1.

    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390, for one number.

    Parameters
    ----------
    epsilon
        Above 0.
    lower, upper
        Public clamping bounds of the values, in their unit, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = Duchi(epsilon=1.0, lower=0, upper=100)
    >>> mechanism.event
    RandomizedResponse(epsilon=1.0, categories=2)
    >>> [round(float(value), 2) for value in mechanism.decode([0, 1])]
    [-58.2, 158.2]
    """

    @property
    def event(self) -> events.RandomizedResponse:
        """What one report costs: a binary answer about a random rounding to one of the bounds."""
        return events.RandomizedResponse(epsilon=self.epsilon, categories=2)

    @property
    def chances(self) -> tuple[int, int]:
        """The chances of a 1, in 2^64: at the lower bound, and how many more at each place."""
        return self._design

    @property
    def spread(self) -> Spread:
        """How decoded reports scatter."""
        return Spread(constant=self.scale**2 / 4, square=Fraction(-1))

    @property
    def scale(self) -> Fraction:
        """What one step of a report counts."""
        return self._ends.width * WHOLE / (STEPS * self.chances[1])

    @property
    def middle(self) -> Fraction:
        """The report that means the center of the bounds."""
        return Fraction(1, 2)

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """The mean of all values, with the error as if every value were the mean.

        This is the most that the noise about the mean of these people can be, and exactly the
        error about the mean of all those of whom they are a sample: bits do not tell the two
        apart. Two reports of either kind are added before the error is computed, or few that
        agree would seem certain.
        """
        deviations, half = self._deviations(reports), float(self._ends.half)
        count, shift = deviations.size, float(deviations.mean())
        off = min(abs(shift), half) * count / (count + 4)
        return Estimate(
            value=float(self._ends.center) + shift,
            sampling_error=0.0,
            privacy_error=math.sqrt((float(self.spread.constant) - off**2) / count),
        )

    @property
    def _design(self) -> tuple[int, int]:
        return _duchi(self._exact_epsilon)

    @property
    def _reports(self) -> int:
        return 2

    def _randomize(self, places: Places, bits: RandomBits) -> Places:
        return _bits(places, self.chances, bits)

    def _centered(self, reports: Places) -> NDArray[np.float64]:
        return _linear(reports, middle=self.middle, scale=self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise(MeanOracle):
    r"""Send a grid point, one near the value at odds e^epsilon.

    The grid reaches beyond the bounds; of its 2^30 + `window` places the `window` about the value
    are preferred, the share e^(-epsilon/2) as many as the others. A report is the integer number of
    a place. Its largest error is below that of `Duchi` for epsilon above 1.29, its error of values
    in the middle of the bounds for epsilon above 0.61.

    Source: Wang et al. 2019, arXiv:1907.00782, Algorithm 2, with a grid for the real line.

    Parameters
    ----------
    epsilon
        Above 0.
    lower, upper
        Public clamping bounds of the values, in their unit, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = Piecewise(epsilon=4.0, lower=0, upper=100)
    >>> mechanism.event
    RandomizedResponse(epsilon=4.0, categories=8)
    >>> [round(mechanism.variance(count=1000, x=x) ** 0.5, 3) for x in (0, 50, 100)]
    [0.777, 0.461, 0.777]
    """

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: places preferred for neither value tell nothing."""
        near = Fraction(self.chances, WHOLE)
        return pair_event(self.epsilon, weight=near + (1 - near) * self.window / STEPS)

    @property
    def window(self) -> int:
        """How many places are preferred."""
        return self._design[0]

    @property
    def chances(self) -> int:
        """The chances, in 2^64, that one of the preferred places is reported."""
        return self._design[1]

    @property
    def spread(self) -> Spread:
        """How decoded reports scatter."""
        lean, window, whole = self._lean, self.window, self._reports
        scatter = (lean * (window**2 - 1) + (1 - lean) * (whole**2 - 1)) / 12
        return Spread(constant=self.scale**2 * scatter, square=1 / lean - 1)

    @property
    def scale(self) -> Fraction:
        """What one step of a report counts."""
        return self._ends.width / (STEPS * self._lean)

    @property
    def middle(self) -> Fraction:
        """The report that means the center of the bounds."""
        return Fraction(self._reports - 1, 2)

    @property
    def _design(self) -> tuple[int, int]:
        return _piecewise(self._exact_epsilon)

    @property
    def _lean(self) -> Fraction:
        """The excess probability of the preferred places over the uniform law."""
        near = Fraction(self.chances, WHOLE)
        return near - (1 - near) * self.window / STEPS

    @property
    def _reports(self) -> int:
        return STEPS + self.window

    def _randomize(self, places: Places, bits: RandomBits) -> Places:
        return _near(places, self._design, bits)

    def _centered(self, reports: Places) -> NDArray[np.float64]:
        return _linear(reports, middle=self.middle, scale=self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid(MeanOracle):
    r"""Send a grid point near the value with probability 1 - e^(-epsilon/2), else one bit.

    The place is sent as by `Piecewise`, which errs least for values in the middle, the bit as by
    `Duchi`, which errs least near the bounds; the probability makes the error the same for all
    values. A report is one integer, below 2^30 + `places.window` a place, the two above it the bit.
    For epsilon above 0.61 its largest error is below that of both.

    Source: Wang et al. 2019, arXiv:1907.00782, section III-C (hybrid mechanism).

    Parameters
    ----------
    epsilon
        Above 0.
    lower, upper
        Public clamping bounds of the values, in their unit, lower < upper.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = Hybrid(epsilon=2.0, lower=0, upper=100)
    >>> mechanism.event
    Pure(epsilon=2.0)
    >>> kinds = [kind(epsilon=2.0, lower=0, upper=100) for kind in (Duchi, Piecewise, Hybrid)]
    >>> [round(kind.variance(count=1000) ** 0.5, 2) for kind in kinds]
    [2.08, 1.75, 1.61]
    """

    @property
    def bit(self) -> Duchi:
        """The mechanism of the bit."""
        return Duchi(epsilon=self.epsilon, lower=self.lower, upper=self.upper)

    @property
    def places(self) -> Piecewise:
        """The mechanism of a place."""
        return Piecewise(epsilon=self.epsilon, lower=self.lower, upper=self.upper)

    @property
    def event(self) -> events.Pure:
        """What one report costs: epsilon either way, whichever way it went."""
        return events.Pure(epsilon=self.epsilon)

    @property
    def chances(self) -> int:
        """The chances of a place in 2^64: those at which the value drops out of the variance."""
        return min(round(WHOLE / (1 + self.places.spread.square)), WHOLE - 1)

    @property
    def spread(self) -> Spread:
        """How decoded reports scatter: alike for all values, but for 2^-60 of it."""
        share = Fraction(self.chances, WHOLE)
        both = zip(self.places.spread, self.bit.spread, strict=True)
        return Spread(*(share * place + (1 - share) * bit for place, bit in both))

    @property
    def _design(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return _duchi(self._exact_epsilon), _piecewise(self._exact_epsilon)

    @property
    def _bit(self) -> int:
        """The report of the bit 0."""
        return STEPS + self.places.window

    @property
    def _reports(self) -> int:
        return self._bit + 2

    def _randomize(self, places: Places, bits: RandomBits) -> Places:
        one, window = self._design
        near = _near(places, window, bits)
        bit = _bits(places, one, bits) + self._bit  # both, to take the same time
        return np.where(bits.words(places.size) < np.uint64(self.chances), near, bit)

    def _centered(self, reports: Places) -> NDArray[np.float64]:
        places, bit = self.places, self.bit
        near = _linear(reports, middle=places.middle, scale=places.scale)
        far = _linear(reports - self._bit, middle=bit.middle, scale=bit.scale)
        return np.where(reports < self._bit, near, far)


def _linear(reports: Places, *, middle: Fraction, scale: Fraction) -> NDArray[np.float64]:
    return np.asarray((reports - float(middle)) * float(scale))


def _bits(places: Places, chances: tuple[int, int], bits: RandomBits) -> Places:
    """A bit for each place, 1 with as many chances as its number says."""
    least, step = chances
    reports = np.empty_like(places)
    for part in chunks(places.size):
        ones = places[part].astype(np.uint64)
        ones *= np.uint64(step)
        ones += np.uint64(least)
        reports[part] = bits.words(ones.size) < ones
    return reports


def _near(places: Places, design: tuple[int, int], bits: RandomBits) -> Places:
    """For each place one of its window, or one of those outside."""
    window, near = design
    reports = np.empty_like(places)
    for part in chunks(places.size):
        own = places[part]
        preferred = bits.words(own.size) < np.uint64(near)
        inside = below(window, size=own.size, bits=bits)
        inside += own
        outside = (halves(own.size, bits) & np.uint32(STEPS - 1)).astype(np.int64)
        outside += window * (outside >= own)
        reports[part] = np.where(preferred, inside, outside)
    return reports


@functools.lru_cache(maxsize=1024)
def _duchi(epsilon: Fraction) -> tuple[int, int]:
    """The chances of a 1 at the lower bound, in 2^64, and how many more at each place."""
    least = math.ceil(WHOLE / (exp_down(epsilon) + 1))
    step = (WHOLE - 2 * least) // STEPS
    if step < 1:
        raise weak(epsilon)
    return (WHOLE - STEPS * step) // 2, step


@functools.lru_cache(maxsize=1024)
def _piecewise(epsilon: Fraction) -> tuple[int, int]:
    """The number of preferred places, and in how many of 2^64 cases one of them is reported."""
    window = max(round(STEPS / exp_down(epsilon / 2)), 1)
    odds = exp_down(epsilon) * window
    near = math.floor(WHOLE * odds / (odds + STEPS))
    if near * STEPS <= (WHOLE - near) * window:
        raise weak(epsilon)
    return window, near
