r"""The noisy comparison behind the sparse vector technique, in exact integers.

A question of value q moves by at most Delta between neighbours. On the public grid of step
g = 2^grid_log2 it becomes the integer n = floor(q / g), which moves by at most
D = ceil(Delta / g), in the same direction; the noise is scaled to D, so the price is exactly the
one claimed, not the one claimed up to rounding. With the public level t, a threshold noise rho
and fresh query noises nu_i, question i is *above* where n_i + nu_i >= t + rho.

Noise. rho and nu_i are geometric, P(k) proportional to exp(-k / s) for k >= 0, with s_T = D / e_T
and s_Q = 2 c D / e_Q for c answers (c D / e_Q where the questions are monotone: between two given
neighbours all of them move the same way). t holds the difference of their means, so that a
comparison errs by 0 on average.

**Theorem.** Drawing rho once and stopping after c answers above costs e_T + e_Q, whatever the
number of questions, also if each answer above carries the gap n_i + nu_i - t - rho.

*Proof.* Fix the answers a; then the questions are fixed. With y_i = t + rho - n_i,
P(a) = sum over rho of p(rho) prod_below P(nu < y_i) prod_above P(nu >= y_i), or P(nu = y_i + gap)
where a gap is told. Let n' be the neighbour's integers and put rho + D for rho in its sum:
y'_i = y_i + d_i with d_i = D - (n'_i - n_i) in [0, 2 D]. Then p(rho) <= e^{D / s_T} p(rho + D);
P(nu < y_i) <= P(nu < y'_i); and P(nu >= y) <= e^{d / s} P(nu >= y + d),
P(nu = y) <= e^{d / s} P(nu = y + d) for d >= 0, which is all that is asked of the noise. So
P(a) <= e^{D / s_T + 2 c D / s_Q} P'(a). Monotone: where all n'_i >= n_i, d_i <= D in the same
proof; where all n'_i <= n_i do not shift rho, and d_i = n_i - n'_i is in [0, D]: the price is then
e_Q alone. QED

Every shift goes up, so noise on one side serves as well as Laplace noise of the same scale, with
half its variance (Liu, Wang, Liu, Li, Chen 2024). The noise of each scale s has variance about
s^2, and e_T : e_Q = 1 : (2 c)^{2/3} (monotone c^{2/3}) makes the sum of both variances least.

Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7; Liu et al. 2024,
arXiv:2407.20068 (exponential noise); Ding, Wang, Xiao, Wang, Zhang, Kifer 2023, arXiv:2012.01592
(gaps); docs/proofs/sparse_vector.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet import checks
from tacet.bits import RandomBits
from tacet.errors import InvalidParameter
from tacet.mechanisms.certified import CHUNK, LARGEST_RATIO
from tacet.mechanisms.rounded import floor_log2
from tacet.mechanisms.samplers import geometric

__all__ = [
    "LEVELS_AHEAD",
    "Comparison",
    "Question",
    "comparison_for",
    "question",
    "questions",
    "search",
    "share_ratio",
]

Integers: TypeAlias = NDArray[np.int64]
Question: TypeAlias = float | np.integer[Any] | np.floating[Any] | np.bool_ | NDArray[Any]
"""One exact answer: a number, also as NumPy holds it."""

_FINEST = 20  # the default grid divides the sensitivity about a million times
_NOISE_BITS = 30  # unless the noise is then more than 2^30 steps, where sampling slows down
_GRID_REACH = 900  # as for rounded noise: beyond it steps pass the range of float64
_END: Final = 1 << 60  # where values end, in steps; noise of 2^40 steps never gets there
_THRESHOLD_END: Final = 1 << 59
_LARGEST_COUNT: Final = 1 << 40
LEVELS_AHEAD: Final = 64
"""Threshold noises drawn at once where they are drawn afresh."""

_EXPECTED = "integers or floats of at most 64 bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one comparison needs, all public: the grid, the level and both scales, in steps."""

    grid_log2: int
    level: int
    threshold_scale: Fraction
    query_scale: Fraction

    def draw_levels(self, count: int, bits: RandomBits) -> list[int]:
        """The level with noise, `count` times."""
        noise = geometric(scale=self.threshold_scale, size=count, bits=bits)
        return [self.level + step for step in noise.tolist()]

    def draw_noise(self, count: int, bits: RandomBits) -> Integers:
        """Query noise for `count` questions."""
        return geometric(scale=self.query_scale, size=count, bits=bits)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in one comparison, in the unit of the questions."""
        steps = math.hypot(_deviation(self.threshold_scale), _deviation(self.query_scale))
        return math.ldexp(steps, self.grid_log2)

    def half_width(self, confidence: checks.Number, *, queries: int, levels: int) -> float:
        """How far from the threshold all of `queries` questions are answered rightly, rounded up.

        levels: how many threshold noises are drawn at most.
        """
        miss = 1 - checks.exact("confidence", confidence)
        if not 0 < miss < 1:
            raise InvalidParameter(
                "confidence", confidence, expected="a number strictly between 0 and 1"
            )
        asked = checks.positive_integer(queries=queries)
        # Each kind of noise may exceed its reach with half of the probability, P(nu >= k) =
        # e^(-k / s); one step each is lost in the floor of a value and the ceiling of a threshold.
        bias = _mean_difference(self.query_scale, self.threshold_scale)
        up = _reach(self.query_scale, 2 * asked / miss) - bias
        down = _reach(self.threshold_scale, 2 * levels / miss) + bias
        return math.nextafter(math.ldexp(max(up, down) + 2, self.grid_log2), math.inf)

    def steps(self, part: NDArray[Any]) -> Integers:
        """floor(value / grid) for a part of `questions`; NaN counts as 0, values end at 2^60."""
        if part.dtype.kind == "f":
            with np.errstate(over="ignore", under="ignore"):
                scaled: NDArray[np.float64] = np.ldexp(part, -self.grid_log2)
            np.floor(scaled, out=scaled)
            if self.grid_log2 > 0:
                scaled[(scaled == 0) & (part < 0)] = -1.0  # it had vanished before the floor
            np.copyto(scaled, 0.0, where=np.isnan(scaled))
            np.maximum(scaled, -float(_END), out=scaled)
            np.minimum(scaled, float(_END), out=scaled)
            return scaled.astype(np.int64)
        if self.grid_log2 >= 0:
            shifted = np.right_shift(part, min(self.grid_log2, 63))
            clipped: Integers = np.clip(shifted, -_END, _END)
            return clipped
        shift = -self.grid_log2
        bound = _END >> shift
        inside = np.left_shift(np.clip(part, -bound, bound), min(shift, 60))
        ended: Integers = np.where(part > bound, _END, np.where(part < -bound, -_END, inside))
        return ended

    def step(self, value: float) -> int:
        """The same for one `question`."""
        grid = self.grid_log2
        if isinstance(value, int):
            exact = value >> grid if grid >= 0 else value << -grid
        elif abs(value) < math.ldexp(1.0, 60 + grid):
            scaled = math.ldexp(value, -grid)
            exact = -1 if scaled == 0 and value < 0 else math.floor(scaled)
        else:  # beyond the end, or NaN, of which no comparison holds
            exact = _END if value > 0 else -_END if value < 0 else 0
        return max(-_END, min(exact, _END))


@lru_cache(maxsize=256)
def comparison_for(
    *,
    epsilon: Fraction,
    sensitivity: Fraction,
    threshold: Fraction,
    count: int,
    monotone: bool,
    grid_log2: int | None,
) -> Comparison:
    """The comparison whose c = `count` answers above cost epsilon together; see the module.

    Raises InvalidParameter where the noise would be more than 2^40 grid steps or the threshold
    more than 2^59.
    """
    if count > _LARGEST_COUNT:
        raise InvalidParameter("count", count, expected="at most 2^40")
    moves = count if monotone else 2 * count
    ratio = share_ratio(moves)
    threshold_part = epsilon / (1 + ratio)
    query_part = epsilon - threshold_part
    if grid_log2 is None:
        spare = _NOISE_BITS - floor_log2(moves / query_part)
        grid = floor_log2(sensitivity) - max(0, min(_FINEST, spare))
    else:
        grid = grid_log2
    if abs(grid) > _GRID_REACH:
        name, value = ("sensitivity", sensitivity) if grid_log2 is None else ("grid_log2", grid)
        raise InvalidParameter(
            name, value, expected=f"a grid from 2^-{_GRID_REACH} to 2^{_GRID_REACH}"
        )
    step = Fraction(2) ** grid
    distance = math.ceil(sensitivity / step)
    threshold_scale = distance / threshold_part
    query_scale = moves * distance / query_part
    if max(threshold_scale, query_scale) > LARGEST_RATIO:
        name, value = ("epsilon", epsilon) if grid_log2 is None else ("grid_log2", grid_log2)
        raise InvalidParameter(name, value, expected="noise of at most 2^40 grid steps")
    level = math.ceil(threshold / step)
    if abs(level) > _THRESHOLD_END:
        raise InvalidParameter("threshold", threshold, expected="at most 2^59 grid steps from 0")
    return Comparison(
        grid_log2=grid,
        level=level + _mean_difference(query_scale, threshold_scale),
        threshold_scale=threshold_scale,
        query_scale=query_scale,
    )


def share_ratio(moves: int) -> Fraction:
    """The best e_Q / e_T, moves^(2/3), as a multiple of 1/16."""
    return Fraction(round(16 * moves ** (2 / 3)), 16)


def questions(values: ArrayLike) -> NDArray[Any]:
    """The values of a stream as float64 or int64, exactly, in one dimension.

    Unsigned integers beyond 2^63 - 1 end there. Raises InvalidParameter for another shape or
    dtype.
    """
    array = np.asarray(values)
    kind, width = array.dtype.kind, array.dtype.itemsize
    if array.ndim != 1:
        raise InvalidParameter("values", array.shape, expected="one dimension")
    if kind == "f" and width <= 8:
        return array.astype(np.float64, copy=False)
    if kind == "u":
        array = np.minimum(array, np.uint64((1 << 63) - 1))
    if kind in "biu":
        return array.astype(np.int64, copy=False)
    raise InvalidParameter("values", array.dtype, expected=_EXPECTED)


def question(value: object) -> float:
    """One value, exactly, as an int of any size or a float."""
    if isinstance(value, int | float | np.integer | np.bool_):
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, np.floating) and value.itemsize <= 8:
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return question(value[()])
    # A value is data and stays out of the message.
    raise InvalidParameter("value", type(value).__name__, expected=_EXPECTED + ", one at a time")


def search(
    comparison: Comparison,
    values: NDArray[Any],
    *,
    count: int,
    refresh: bool,
    bits: RandomBits,
) -> tuple[Integers, Integers]:
    """The indices of the first `count` questions found above, and their gaps in steps.

    refresh: a new level is drawn after each. No question after the last found is looked at beyond
    its chunk, so the time taken says no more than the indices do.
    """
    levels = comparison.draw_levels(1, bits)
    found: list[int] = []
    gaps: list[int] = []
    for start in range(0, values.size, CHUNK):
        part = values[start : start + CHUNK]
        noisy = comparison.draw_noise(part.size, bits)
        noisy += comparison.steps(part)
        begin = 0
        while begin < part.size and len(found) < count:
            above = np.flatnonzero(noisy[begin:] >= levels[-1])[: count - len(found)]
            above = above[:1] if refresh else above
            found += (above + (start + begin)).tolist()
            gaps += (noisy[above + begin] - levels[-1]).tolist()
            if not refresh or above.size == 0:
                break
            # The noise behind the answer has met no level yet whose outcome was told.
            begin += int(above[0]) + 1
            levels.pop()
            if not levels:
                levels = comparison.draw_levels(LEVELS_AHEAD, bits)
        if len(found) == count:
            break
    return np.array(found, dtype=np.int64), np.array(gaps, dtype=np.int64)


def _mean_difference(one: Fraction, other: Fraction) -> int:
    """The means of two geometric laws, subtracted, in whole steps."""
    return round(_mean(one) - _mean(other))


def _mean(scale: Fraction) -> float:
    return 1 / math.expm1(float(1 / scale)) if scale * 700 > 1 else 0.0


def _deviation(scale: Fraction) -> float:
    return 0.5 / math.sinh(float(1 / scale) / 2) if scale * 700 > 1 else 0.0


def _reach(scale: Fraction, odds: Fraction) -> int:
    """A whole k with e^(-k / scale) <= 1 / odds."""
    log = math.log(odds.numerator) - math.log(odds.denominator)
    return math.ceil(float(scale) * log * (1 + 2.0**-40) + 2.0**-20)
