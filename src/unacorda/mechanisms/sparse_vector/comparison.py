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
from typing import Final

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.samplers import geometric
from unacorda.mechanisms.sparse_vector.grid import (
    Integers,
    check_noise,
    grid_for,
    level_for,
)

__all__ = ["Comparison", "comparison_for", "share_ratio"]

_LARGEST_COUNT: Final = 1 << 40


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
