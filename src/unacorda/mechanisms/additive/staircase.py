"""Staircase noise: the least expected error that epsilon-DP allows for one number."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import intervals, rounded
from unacorda.mechanisms.parameters import (
    Real,
    decimal_up,
    keep,
    positive,
    readable,
    whole,
)
from unacorda.mechanisms.protocol import PerNumberCalibrated
from unacorda.mechanisms.shapes import staircase_chunk
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, mpf

__all__ = ["Staircase"]

_SECURE = SecureBits()
_BEST = cast("float", None)  # a number once the mechanism is made
_LARGEST_EPSILON: Final = 100
_LEAST_EPSILON: Final = Fraction(1, 10**12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(PerNumberCalibrated):
    r"""Release x + Z, Z of a density that falls in steps by e^-epsilon, rounded to a grid.

    epsilon: of one number, from 1e-12 to 100; sensitivity: by how much one number of x can move,
    above 0; l0_sensitivity: how many numbers of an array can move, 1 by default; split: the share
    of each stretch of length `sensitivity` before the density falls, from 0 to 1, by default
    1 / (1 + e^(epsilon/2)), which makes E|Z| = sensitivity / (2 sinh(epsilon/2)) the least that
    any epsilon-DP noise on one number has; grid_log2: outputs are multiples of 2^grid_log2, by
    default about a millionth of that. The rounding is of the ideal sum.
    Source: Geng and Viswanath 2014, arXiv:1212.1186, equation (15), and the best split for E|Z|.

    >>> Staircase(epsilon=2.0, sensitivity=1).event
    Staircase(epsilon=2, split=0.26894142137)
    >>> round(Staircase(epsilon=5, sensitivity=1).mean_absolute_error, 3)  # of Laplace noise: 0.2
    0.083
    """

    epsilon: Real
    sensitivity: Real
    split: Real = _BEST
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        epsilon = positive("epsilon", self.epsilon)
        if not _LEAST_EPSILON <= checks.exact("epsilon", epsilon) <= _LARGEST_EPSILON:
            raise InvalidParameter("epsilon", self.epsilon, expected="a number from 1e-12 to 100")
        sensitivity = positive("sensitivity", self.sensitivity)
        chosen, wanted = cast("Real | None", self.split), cast("int | None", self.grid_log2)
        share = checks.exact("split", _best_split(float(epsilon)) if chosen is None else chosen)
        if not 0 <= share <= 1:
            raise InvalidParameter("split", chosen, expected="a number from 0 to 1")
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        keep(self, epsilon=epsilon, sensitivity=sensitivity)
        keep(self, split=readable(share), l0_sensitivity=moved)
        grid = self._default_grid() if wanted is None else wanted
        rounded.grid_ratio("sensitivity", self._longest(), grid)
        keep(self, grid_log2=int(grid))

    def _longest(self) -> Fraction:
        """The larger of one step and of the noise, on which the grid must not be too fine."""
        epsilon = checks.exact("epsilon", self.epsilon)
        return checks.exact("sensitivity", self.sensitivity) * max(1 / epsilon, Fraction(1))

    def _default_grid(self) -> int:
        sensitivity = checks.exact("sensitivity", self.sensitivity)
        error = Fraction(1 / (2 * math.sinh(float(self.epsilon) / 2)))
        finest = rounded.floor_log2(self._longest()) - 38
        return max(rounded.default_grid_log2(sensitivity * error), finest)

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        return events.Staircase(epsilon=self.epsilon, split=self.split) * self.l0_sensitivity

    @property
    def mean_absolute_error(self) -> float:
        """E|Z| before the rounding to the grid."""
        first, _ = self._moments()
        return first * float(self.sensitivity)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each released number, rounding included."""
        _, second = self._moments()
        ideal = math.sqrt(second) * float(self.sensitivity)
        return intervals.rounded_deviation(ideal, grid_log2=self.grid_log2)

    def _moments(self) -> tuple[float, float]:
        """E|Z| and E Z^2 for steps of length 1: |Z| = G + R, G geometric, R within one step."""
        mp, split = context(), mpf(checks.exact("split", self.split))
        b = mp.exp(-mpf(checks.exact("epsilon", self.epsilon)))
        total = split + b * (1 - split)
        first, second = ((split**k + b * (1 - split**k)) / (k * total) for k in (2, 3))
        steps, squares = b / (1 - b), b * (1 + b) / (1 - b) ** 2
        return float(steps + first), float(squares + 2 * steps * first + second)

    def error_bound(self, confidence: Number, *, on_grid: bool = False) -> float:
        """Half width q with P(|released - x| <= q) >= confidence, for one number, rounded up.

        on_grid: x is known to be a multiple of the grid.

        >>> round(Staircase(epsilon=2, sensitivity=1).error_bound(0.95), 5)
        1.26827
        """
        mp, miss = context(), mpf(1 - intervals.confident(confidence))
        split, b = mpf(checks.exact("split", self.split)), mp.exp(-mpf(self._epsilon()))
        total = split + b * (1 - split)
        steps = mp.floor(-mp.log(miss) / mpf(self._epsilon()))
        # P(|Z| > steps + y) = b^steps (1 - (1 - b) F(y)), F linear up to the split and from it on.
        inside = max(1 - miss / b**steps, mp.mpf(0)) * total / (1 - b)
        y = inside if inside <= split else split + (inside - split) / b
        width = checks.exact("width", decimal_up(steps + min(y, mp.mpf(1))))
        return intervals.on_grid_width(
            width * checks.exact("sensitivity", self.sensitivity),
            grid_log2=self.grid_log2,
            on_grid=on_grid,
        )

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The noisy number or float64 array, of the shape of x; see `Laplace.release`."""
        sensitivity = checks.exact("sensitivity", self.sensitivity)
        draw = functools.partial(
            staircase_chunk, epsilon=self._epsilon(), split=checks.exact("split", self.split)
        )
        return rounded.released(
            x,
            grid=self.grid_log2,
            ratio=sensitivity / Fraction(2) ** self.grid_log2,
            bits=bits or _SECURE,
            draw=draw,
        )

    def _epsilon(self) -> Fraction:
        return checks.exact("epsilon", self.epsilon)


def _best_split(epsilon: float) -> float:
    """1 / (1 + e^(epsilon/2)) to 12 digits; any split is as private, this one the most useful."""
    return float(f"{1 / (1 + math.exp(epsilon / 2)):.12g}")
