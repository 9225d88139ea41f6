"""Numbers between public bounds: Duchi's two answers, and answers on a grid near the value.

Values are first rounded to the nearest of 2^30 + 1 places from lower to upper, which moves each
by at most 2^-30 of the width; from there on every probability is exact, and the decoded reports
are exactly unbiased for the rounded values. docs/proofs/response.md, sections 5 and 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms.arrays import shaped
from unacorda.mechanisms.response import arguments
from unacorda.mechanisms.response.draws import CHUNK, below, halves
from unacorda.mechanisms.response.thresholds import WHOLE, exp_down, pair_event, weak
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.events.fields import Real

__all__ = ["STEPS", "Duchi", "Piecewise", "Spread"]

STEPS: Final = 1 << 30
"""Between how many places, equally far apart, values are rounded."""

_SECURE = SecureBits()


class Spread(NamedTuple):
    """How reports are decoded, and how they scatter, all exactly.

    centre: the middle of the bounds; half: from there to a bound; scale: what one step of a
    report counts; middle: the report that means the centre; constant, square: decoded reports of
    a value c away from the centre have mean c and variance constant + square c^2.
    """

    centre: Fraction
    half: Fraction
    scale: Fraction
    middle: Fraction
    constant: Fraction
    square: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Duchi:
    r"""Send one bit whose probability of being 1 is linear in the value.

    The bit is 1 with odds 1 : e^epsilon at the lower bound and e^epsilon : 1 at the upper one.
    epsilon: above 0; lower, upper: public bounds of the values. A report is the bit, 0 or 1.
    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390, for one number.

    >>> mechanism = Duchi(epsilon=1.0, lower=0, upper=100)
    >>> mechanism.event
    RandomizedResponse(epsilon=1.0, categories=2)
    >>> [round(float(value), 2) for value in mechanism.decode([0, 1])]
    [-58.2, 158.2]
    """

    epsilon: Real
    lower: Real
    upper: Real

    def __post_init__(self) -> None:
        _duchi(arguments.keep_epsilon(self))
        arguments.bounds(self.lower, self.upper)

    @property
    def event(self) -> events.RandomizedResponse:
        """What one report costs: a binary answer about a random rounding to one of the bounds."""
        return events.RandomizedResponse(epsilon=self.epsilon, categories=2)

    @property
    def chances(self) -> tuple[int, int]:
        """The chances of a 1, in 2^64: at the lower bound, and how many more at each place."""
        return _duchi(checks.exact("epsilon", self.epsilon))

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these numbers, int64 of the same shape.

        x: integers or floats; NaN counts as 0, whatever lies beyond a bound as the bound.
        Raises InvalidParameter for another dtype.
        """
        least, step = self.chances
        ends, source = arguments.bounds(self.lower, self.upper), bits or _SECURE
        places, shape = arguments.places(x, ends=ends, last=STEPS)
        reports = np.empty_like(places)
        for start in range(0, places.size, CHUNK):
            chances = places[start : start + CHUNK].astype(np.uint64)
            chances *= np.uint64(step)
            chances += np.uint64(least)
            reports[start : start + CHUNK] = source.words(chances.size) < chances
        return shaped(reports, shape)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The decoded report, a float64 or an array: each is an unbiased estimate by itself."""
        return self.decode(self.encode(x, bits=bits))

    def decode(self, reports: ArrayLike) -> Any:
        """What each report counts in the mean, in the unit of the values."""
        return _decode(reports, self.spread, limit=2)

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """The mean of all values. Its error counts everybody's value as the mean.

        This is the most that the noise about the mean of these people can be, and exactly the
        error about the mean of all those of whom they are a sample: bits do not tell the two
        apart. Two reports of either kind are added before the error is computed.
        """
        return _mean(reports, self.spread, limit=2)

    def variance(self, *, count: int, x: float | None = None) -> float:
        """Variance of the mean of `count` values x; of the worst values by default.

        >>> Duchi(epsilon=1, lower=-1, upper=1).variance(count=1000) ** 0.5
        0.0684...
        """
        return _variance(self.spread, count=count, x=x, ends=(self.lower, self.upper))

    @property
    def spread(self) -> Spread:
        """How reports are decoded and how they scatter."""
        ends, (_, step) = arguments.bounds(self.lower, self.upper), self.chances
        scale = ends.width * WHOLE / (STEPS * step)
        return Spread(
            centre=(ends.lower + ends.upper) / 2,
            half=ends.width / 2,
            scale=scale,
            middle=Fraction(1, 2),
            constant=scale**2 / 4,
            square=Fraction(-1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise:
    r"""Send a place on a grid, one near the value e^epsilon times as often as another.

    The grid reaches beyond the bounds; of its 2^30 + `window` places the `window` about the value
    are preferred, the share e^(-epsilon/2) as many as the others. epsilon: above 0; lower,
    upper: public bounds of the values. A report is the integer number of a place. Its
    largest error is below that of `Duchi` for epsilon above 1.29, its error of values in the
    middle of the bounds for epsilon above 0.61.
    Source: Wang et al. 2019, arXiv:1907.00782, Algorithm 2, with a grid for the real line.

    >>> mechanism = Piecewise(epsilon=4.0, lower=0, upper=100)
    >>> mechanism.event
    RandomizedResponse(epsilon=4.0, categories=8)
    >>> [round(mechanism.variance(count=1000, x=x) ** 0.5, 3) for x in (0, 50, 100)]
    [0.777, 0.461, 0.777]
    """

    epsilon: Real
    lower: Real
    upper: Real

    def __post_init__(self) -> None:
        _piecewise(arguments.keep_epsilon(self))
        arguments.bounds(self.lower, self.upper)

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: places preferred for neither value tell nothing."""
        window, near = self.window, self.chances
        weight = Fraction(near, WHOLE) + Fraction(WHOLE - near, WHOLE) * window / STEPS
        return pair_event(self.epsilon, weight=weight)

    @property
    def window(self) -> int:
        """How many places are preferred."""
        return _piecewise(checks.exact("epsilon", self.epsilon))[0]

    @property
    def chances(self) -> int:
        """The chances, in 2^64, that one of the preferred places is told."""
        return _piecewise(checks.exact("epsilon", self.epsilon))[1]

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these numbers, int64 of the same shape.

        x: integers or floats; NaN counts as 0, whatever lies beyond a bound as the bound.
        Raises InvalidParameter for another dtype.
        """
        window, near = self.window, np.uint64(self.chances)
        ends, source = arguments.bounds(self.lower, self.upper), bits or _SECURE
        places, shape = arguments.places(x, ends=ends, last=STEPS)
        reports = np.empty_like(places)
        for start in range(0, places.size, CHUNK):
            part = places[start : start + CHUNK]
            told = source.words(part.size) < near
            inside = below(window, size=part.size, bits=source)
            inside += part
            outside = (halves(part.size, source) & np.uint32(STEPS - 1)).astype(np.int64)
            outside += window * (outside >= part)
            reports[start : start + CHUNK] = np.where(told, inside, outside)
        return shaped(reports, shape)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The decoded report, a float64 or an array: each is an unbiased estimate by itself."""
        return self.decode(self.encode(x, bits=bits))

    def decode(self, reports: ArrayLike) -> Any:
        """What each report counts in the mean, in the unit of the values."""
        return _decode(reports, self.spread, limit=STEPS + self.window)

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """The mean of all values, its errors estimated from how the reports scatter."""
        return _mean(reports, self.spread, limit=STEPS + self.window)

    def variance(self, *, count: int, x: float | None = None) -> float:
        """Variance of the mean of `count` values x; of the worst values, the bounds, by default."""
        return _variance(self.spread, count=count, x=x, ends=(self.lower, self.upper))

    @property
    def spread(self) -> Spread:
        """How reports are decoded and how they scatter."""
        ends = arguments.bounds(self.lower, self.upper)
        window, near = self.window, Fraction(self.chances, WHOLE)
        lean = near - (1 - near) * window / STEPS
        scale = ends.width / (STEPS * lean)
        whole = STEPS + window
        scatter = (lean * (window**2 - 1) + (1 - lean) * (whole**2 - 1)) / 12
        return Spread(
            centre=(ends.lower + ends.upper) / 2,
            half=ends.width / 2,
            scale=scale,
            middle=Fraction(whole - 1, 2),
            constant=scale**2 * scatter,
            square=1 / lean - 1,
        )


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
    """The number of preferred places, and in how many of 2^64 cases one of them is told."""
    window = max(round(STEPS / exp_down(epsilon / 2)), 1)
    odds = exp_down(epsilon) * window
    near = math.floor(WHOLE * odds / (odds + STEPS))
    if near * STEPS <= (WHOLE - near) * window:
        raise weak(epsilon)
    return window, near


def _decode(reports: ArrayLike, spread: Spread, *, limit: int) -> Any:
    told = arguments.answers(reports, limit=limit)
    decoded = (told - float(spread.middle)) * float(spread.scale)
    decoded += float(spread.centre)
    return shaped(decoded, None if np.ndim(reports) == 0 else np.shape(reports))


def _mean(reports: ArrayLike, spread: Spread, *, limit: int) -> Estimate:
    """The mean, and its errors by the reports' own scatter, within what is possible."""
    told = arguments.answers(reports, limit=limit)
    shift = float((Fraction(int(told.sum()), told.size) - spread.middle) * spread.scale)
    half, constant, square = float(spread.half), float(spread.constant), float(spread.square)
    off = min(max(shift, -half), half)
    # The mean of the squared distances from the centre lies between these two.
    least, most = off**2, half**2
    if square < 0:  # two reports of either kind are added, or few that agree would seem certain
        mean_square = least = (off * told.size / (told.size + 4)) ** 2
    elif told.size == 1:
        mean_square = most
    else:
        scatter = float(np.var(told - float(spread.middle), ddof=1)) * float(spread.scale) ** 2
        mean_square = min(max((scatter - constant + off**2) / (1 + square), least), most)
    return Estimate(
        value=float(spread.centre) + shift,
        sampling_error=math.sqrt((mean_square - least) / told.size),
        privacy_error=math.sqrt((constant + square * mean_square) / told.size),
    )


def _variance(
    spread: Spread, *, count: int, x: float | None, ends: tuple[checks.Number, checks.Number]
) -> float:
    if x is None:
        farthest = spread.half**2 if spread.square > 0 else Fraction(0)
    else:
        (place,), _ = arguments.places(checks.finite(x=x), ends=arguments.bounds(*ends), last=STEPS)
        farthest = (2 * spread.half * (Fraction(int(place), STEPS) - Fraction(1, 2))) ** 2
    noise = spread.constant + spread.square * farthest
    return float(noise / checks.positive_integer(count=count))
