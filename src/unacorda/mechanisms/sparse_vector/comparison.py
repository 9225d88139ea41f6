r"""The noisy comparison behind the sparse vector technique, in exact integers.

A question of value q moves by at most Delta between neighbors. On the public grid of step
g = 2^grid_log2 it becomes the integer n = floor(q / g), which moves by at most
D = ceil(Delta / g), in the same direction; the noise is scaled to D, so the price is exactly the
one claimed, not the one claimed up to rounding. With the public level t, a threshold noise rho
and fresh query noises nu_i, question i is *above* where n_i + nu_i >= t + rho.

Noise. rho and nu_i are geometric, P(k) proportional to exp(-k / s) for k >= 0, with s_T = D / e_T
and s_Q = 2 c D / e_Q for c answers (c D / e_Q where the questions are monotone: between two given
neighbors all of them move the same way). t holds the difference of their means, so that a
comparison errs by 0 on average.

**Theorem.** Drawing rho once and stopping after c answers above costs e_T + e_Q, whatever the
number of questions, also if each answer above carries the gap n_i + nu_i - t - rho.

*Proof.* Fix the answers a; then the questions are fixed. With y_i = t + rho - n_i,
P(a) = sum over rho of p(rho) prod_below P(nu < y_i) prod_above P(nu >= y_i), or P(nu = y_i + gap)
where a gap is released. Let n' be the neighbor's integers and put rho + D for rho in its sum:
y'_i = y_i + d_i with d_i = D - (n'_i - n_i) in [0, 2 D]. Then p(rho) <= e^{D / s_T} p(rho + D);
P(nu < y_i) <= P(nu < y'_i); and P(nu >= y) <= e^{d / s} P(nu >= y + d),
P(nu = y) <= e^{d / s} P(nu = y + d) for d >= 0; no other property of the noise is needed. So P(a)
<= e^{D / s_T + 2 c D / s_Q} P'(a). Monotone: where all n'_i >= n_i, d_i <= D in the same proof;
where all n'_i <= n_i do not shift rho, and d_i = n_i - n'_i is in [0, D]: the price is then e_Q
alone. QED

Every shift is upward, so one-sided noise suffices in place of Laplace noise of the same scale, with
half its variance (Liu, Wang, Liu, Li, Chen 2024). The noise of each scale s has variance about s^2,
and e_T : e_Q = 1 : (2 c)^{2/3} (monotone c^{2/3}) makes the sum of both variances least.

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

from unacorda import checks, elements
from unacorda.bits import RandomBits
from unacorda.elements import Exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.continuous import LARGEST_RATIO
from unacorda.mechanisms.noise.discrete import geometric
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.mechanisms.noise.rounding import GRID_REACH, floor_log2, floor_steps

Integers: TypeAlias = NDArray[np.int64]
Question: TypeAlias = float | np.integer[Any] | np.floating[Any] | np.bool_ | NDArray[Any]
"""One exact answer: a number, also as NumPy holds it."""

_FINEST = 20  # the default grid divides the sensitivity about a million times
_NOISE_BITS = 30  # unless the noise is then more than 2^30 steps, where sampling slows down
_END: Final = 1 << 60  # where values end, in steps; noise of 2^40 steps never gets there
_THRESHOLD_END: Final = 1 << 59

_EXPECTED = "integers or floats of at most 64 bits"

_LARGEST_COUNT: Final = 1 << 40


def grid_for(*, sensitivity: Fraction, noise: Fraction, grid_log2: int | None) -> int:
    """The exponent of the grid: the one given, or one for noise so many times the sensitivity.

    Raises InvalidParameter for a grid beyond 2^-900 or 2^900.
    """
    if grid_log2 is not None:
        return grid_log2
    spare = _NOISE_BITS - floor_log2(noise)
    grid = floor_log2(sensitivity) - max(0, min(_FINEST, spare))
    expected = f"a grid from 2^-{GRID_REACH} to 2^{GRID_REACH}"
    checks.demand(abs(grid) <= GRID_REACH, "sensitivity", sensitivity, expected=expected)
    return grid


def check_noise(scale: Fraction, *, epsilon: Fraction, grid_log2: int | None) -> None:
    """Raise InvalidParameter if noise of a scale in steps is beyond the samplers."""
    if scale > LARGEST_RATIO:
        name, value = ("epsilon", epsilon) if grid_log2 is None else ("grid_log2", grid_log2)
        raise InvalidParameter(name, value, expected="noise of at most 2^40 grid steps")


def level_for(threshold: Fraction, *, step: Fraction) -> int:
    """The threshold in steps, rounded up; InvalidParameter beyond 2^59."""
    level = math.ceil(threshold / step)
    if abs(level) > _THRESHOLD_END:
        raise InvalidParameter("threshold", threshold, expected="at most 2^59 grid steps from 0")
    return level


def questions(values: ArrayLike) -> NDArray[Any]:
    """The values of a stream, exactly, in one dimension; see `elements.numbers`.

    Raises InvalidParameter for another shape or dtype.
    """
    array = elements.numbers("values", values, dimensions=1)
    checks.demand(array.ndim == 1, "values", array.shape, expected="one dimension")
    return array


def question(value: object) -> Exact:
    """One value, exactly, as the element that it is; InvalidParameter for several."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return elements.number(value)
    if elements.is_bare(value):
        return elements.number(value)
    # A value is data and stays out of the message.
    raise InvalidParameter("value", type(value).__name__, expected=_EXPECTED + ", one at a time")


def steps_of(part: NDArray[Any], *, grid_log2: int) -> Integers:
    """floor(value / grid) for a part of `questions`; NaN counts as 0, values end at 2^60."""
    return floor_steps(part, grid_log2, end=_END)


def step_of(value: Exact, *, grid_log2: int) -> int:
    """The same for one `question`."""
    if isinstance(value, Fraction):
        exact = math.floor(value / Fraction(2) ** grid_log2)
    elif isinstance(value, int):
        exact = value >> grid_log2 if grid_log2 >= 0 else value << -grid_log2
    elif abs(value) < math.ldexp(1.0, 60 + grid_log2):
        scaled = math.ldexp(value, -grid_log2)
        exact = -1 if scaled == 0 and value < 0 else math.floor(scaled)
    else:  # beyond the end, or NaN, of which no comparison holds
        exact = _END if value > 0 else -_END if value < 0 else 0
    return max(-_END, min(exact, _END))


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
        """The distance from the threshold at which `queries` answers are correct, rounded up.

        levels: the most threshold noises that are drawn.
        """
        miss = 1 - confident(confidence)
        asked = checks.positive_integer(queries=queries)
        # Each kind of noise may exceed its reach with half of the probability, P(nu >= k) =
        # e^(-k / s); one step each is lost in the floor of a value and the ceiling of a threshold.
        bias = _mean_difference(self.query_scale, self.threshold_scale)
        up = _reach(self.query_scale, 2 * asked / miss) - bias
        down = _reach(self.threshold_scale, 2 * levels / miss) + bias
        return math.nextafter(math.ldexp(max(up, down) + 2, self.grid_log2), math.inf)


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
    checks.demand(count <= _LARGEST_COUNT, "count", count, expected="at most 2^40")
    moves = count if monotone else 2 * count
    ratio = share_ratio(moves)
    threshold_part = epsilon / (1 + ratio)
    query_part = epsilon - threshold_part
    grid = grid_for(sensitivity=sensitivity, noise=moves / query_part, grid_log2=grid_log2)
    step = Fraction(2) ** grid
    distance = math.ceil(sensitivity / step)
    threshold_scale = distance / threshold_part
    query_scale = moves * distance / query_part
    check_noise(max(threshold_scale, query_scale), epsilon=epsilon, grid_log2=grid_log2)
    level = level_for(threshold, step=step)
    return Comparison(
        grid_log2=grid,
        level=level + _mean_difference(query_scale, threshold_scale),
        threshold_scale=threshold_scale,
        query_scale=query_scale,
    )


def share_ratio(moves: int) -> Fraction:
    """The best e_Q / e_T, moves^(2/3), as a multiple of 1/16."""
    return Fraction(round(16 * moves ** (2 / 3)), 16)


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
