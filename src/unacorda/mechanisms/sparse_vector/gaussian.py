r"""Sparse vector with normal noise: the first question above a threshold, at (epsilon, delta).

The steps n_i of the questions move by at most D steps, as in `comparison`. Threshold noise
rho = round(s_T Z) and query noises nu_i = round(s_Q Z_i) come from ideal normals Z, so question i
is above where n_i + nu_i >= t + rho, in whole numbers. Of one run, at most m questions are heard.

**Theorem.** The run is (epsilon, m delta_N(epsilon))-DP for every epsilon >= 0, with or without the
gap n_i + nu_i - t - rho, where delta_N is the profile of mu-GDP, mu^2 = D^2/s_T^2 + 4 D^2/s_Q^2;
for monotone questions mu^2 = D^2/s_T^2 + D^2/s_Q^2.

*Proof.* Fix z, the value of s_T Z, and match it with z + D in the run of the neighbour n'. Let
e = epsilon - ln p(z) / p(z + D). Question k is then compared with a level that lies
d_k = D - (n'_k - n_k) in [0, 2 D] farther up for the neighbour; so S_k <= S'_k for the
probabilities that all questions before k are found below. The run ends at some question k: with
its answer above, with a gap or without, or, if k is the last, also below. For a set B of what
question k may answer, S_k P(B) - e^e S'_k P'(B) <= S_k (P(B) - e^e P'(B)) <= delta_k(e), where
delta_k is the profile of nu_k against nu_k + d_k, at most that of a shift by 2 D. There are at
most m values of k. In the mean over z, delta_k(e) becomes the profile of the pairs (z, nu_k) and
(z + D, nu_k + d_k), at most delta_N(epsilon). Monotone: where all n'_i >= n_i, d_k <= D in the
same proof; where all n'_i <= n_i match z with itself, and d_k = n_k - n'_k is in [0, D]. QED

The factor m is the price of a loss without bound: with geometric noise it is not there. Of a given
mu, s_T^2 : s_Q^2 = 1 : 2 (monotone 1 : 1) makes the variance of a comparison least, 9 D^2 / mu^2
(monotone 4 D^2 / mu^2).

Source: Zhu and Wang 2020, "Improving sparse vector technique with Renyi differential privacy",
whose Renyi bound holds by the same match; docs/proofs/sparse_vector.md, section 7.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise import error_bounds
from unacorda.mechanisms.noise.continuous import gaussian_chunk
from unacorda.mechanisms.parameters import inverse_root_up
from unacorda.mechanisms.protocol import ApproxCalibrated
from unacorda.mechanisms.sparse_vector.comparison import (
    Integers,
    check_noise,
    grid_for,
    level_for,
)
from unacorda.mechanisms.sparse_vector.threshold import Limits, SparseSearch
from unacorda.privacy import events
from unacorda.privacy.conversions import gdp_from_approx_dp
from unacorda.privacy.events import fields

__all__ = ["GaussianAboveThreshold", "NormalComparison"]

Real: TypeAlias = float | Fraction

_HALF = Fraction(1, 2)
_LARGEST_QUERIES: Final = 1 << 40
_LEAST_DELTA: Final = Fraction(1, 10**300)  # per question: below it floats end
_LARGEST_EPSILON: Final = Fraction(1 << 100)  # beyond it noise stays as it is there


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalComparison:
    """What one comparison needs, all public: the grid, the level and both deviations, in steps."""

    grid_log2: int
    level: int
    threshold_sigma: Fraction
    query_sigma: Fraction

    def draw_levels(self, count: int, bits: RandomBits) -> list[int]:
        """The level with noise, `count` times."""
        noise = _rounded_normals(self.threshold_sigma, count, bits)
        return [self.level + step for step in noise.tolist()]

    def draw_noise(self, count: int, bits: RandomBits) -> Integers:
        """Query noise for `count` questions."""
        return _rounded_normals(self.query_sigma, count, bits)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in one comparison, in the unit of the questions."""
        steps = [float(self.threshold_sigma), float(self.query_sigma)]
        # Rounding adds an error spread over one step to each of the two.
        return math.ldexp(math.hypot(*steps, math.sqrt(1 / 6)), self.grid_log2)

    def half_width(self, confidence: checks.Number, *, queries: int) -> float:
        """How far from the threshold all of `queries` questions are told rightly, rounded up."""
        miss = 1 - error_bounds.confident(confidence)
        asked = checks.positive_integer(queries=queries)
        # Each question errs to one side only, with a normal noise of both variances.
        both = inverse_root_up(1 / (self.threshold_sigma**2 + self.query_sigma**2))
        width = both * error_bounds.normal_quantile(1 - min(2 * miss / asked, _HALF))
        reach = error_bounds.on_grid_width(width, grid_log2=0, on_grid=False)
        # The reach counts half a step; the floor of a value, the ceiling of the threshold and the
        # rounding of two noises come to three.
        return math.nextafter(math.ldexp(reach + 2.5, self.grid_log2), math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianAboveThreshold(ApproxCalibrated, SparseSearch):
    r"""Find the first question above a threshold, with normal noise and for a limited stream.

    epsilon: above 0; delta: strictly between 0 and 1; queries: how many questions it hears at
    most, each of which costs a share of delta; the others as for `SparseVector`. The noise is
    the least for which queries times the profile of mu-GDP at epsilon is at most delta: standard
    deviation 3 sensitivity / mu, monotone 2 sensitivity / mu.

    **Prefer `SparseVector`**, which at the same epsilon needs no delta and hears any number of
    questions. Of one comparison it has the deviation 4.16 sensitivity / epsilon, more than here
    only where delta exceeds epsilon queries / 40, and the larger half width of `error_bound` only
    where delta exceeds about epsilon / 600 for one question, epsilon / 100 for 10, epsilon / 6 for
    1000. At (1, 1e-6) and 1000 questions the deviations are 4.2 and 16.5, the half widths 34 and
    64. This mechanism is for comparisons with the literature, and for such large deltas.
    Source: Zhu and Wang 2020 (the mechanism, with a Renyi bound); proof in the module.

    >>> from unacorda.bits import SeededBits
    >>> first = GaussianAboveThreshold(
    ...     epsilon=1, delta=1e-6, sensitivity=1, threshold=1000, queries=500
    ... )
    >>> first.event
    Approximate(epsilon=1, delta=1e-06)
    >>> first.release([0, 10, 2000, 3000], bits=SeededBits(1))
    array([2])
    """

    delta: Real
    queries: int

    def __post_init__(self) -> None:
        delta = fields.share("delta", self.delta)
        if not 0 < delta < 1:
            raise InvalidParameter("delta", delta, expected="a number strictly between 0 and 1")
        queries = fields.whole("queries", self.queries, least=1)
        if queries > _LARGEST_QUERIES:
            raise InvalidParameter("queries", queries, expected="at most 2^40")
        fields.keep(self, delta=delta, queries=queries)
        SparseSearch.__post_init__(self)

    @property
    def event(self) -> events.Approximate:
        """What one run costs."""
        return events.Approximate(epsilon=self.epsilon, delta=self.delta)

    @property
    def comparison(self) -> NormalComparison:
        """The public numbers behind a comparison."""
        return _comparison_for(
            epsilon=checks.exact("epsilon", self.epsilon),
            delta=checks.exact("delta", self.delta),
            sensitivity=checks.exact("sensitivity", self.sensitivity),
            threshold=checks.exact("threshold", self.threshold),
            queries=self.queries,
            monotone=self.monotone,
            grid_log2=self.grid_log2,
        )

    @property
    def limits(self) -> Limits:
        """It stops after the first answer above, or after `queries` questions."""
        return Limits(queries=self.queries)

    def error_bound(self, confidence: checks.Number, *, queries: int | None = None) -> float:
        """Half width w: `queries` questions at w or more from the threshold are answered rightly.

        All of them together, up to the stop, with probability `confidence` or more; rounded up.
        queries: by default as many as it hears.

        >>> first = GaussianAboveThreshold(
        ...     epsilon=1, delta=1e-6, sensitivity=1, threshold=0, queries=1000, monotone=True
        ... )
        >>> round(first.error_bound(0.95), 2)
        42.76
        """
        asked = self.queries if queries is None else queries
        return self.comparison.half_width(confidence, queries=asked)


@lru_cache(maxsize=256)
def _comparison_for(
    *,
    epsilon: Fraction,
    delta: Fraction,
    sensitivity: Fraction,
    threshold: Fraction,
    queries: int,
    monotone: bool,
    grid_log2: int | None,
) -> NormalComparison:
    """The comparison of least variance with queries delta_N(epsilon) <= delta; see the module."""
    share = delta / queries
    if share < _LEAST_DELTA:
        raise InvalidParameter("delta", delta, expected="at least 1e-300 for each question")
    mu = Fraction(gdp_from_approx_dp(min(epsilon, _LARGEST_EPSILON), delta=share))
    # D^2 / s_T^2 + moves^2 D^2 / s_Q^2 = mu^2 with s_T^2 : s_Q^2 = 1 : moves.
    moves = 1 if monotone else 2
    noise = (1 + moves) / mu
    grid = grid_for(sensitivity=sensitivity, noise=noise, grid_log2=grid_log2)
    step = Fraction(2) ** grid
    per_step = (mu / math.ceil(sensitivity / step)) ** 2 / (1 + moves)
    threshold_sigma, query_sigma = inverse_root_up(per_step), inverse_root_up(per_step / moves)
    check_noise(query_sigma, epsilon=epsilon, grid_log2=grid_log2)
    return NormalComparison(
        grid_log2=grid,
        level=level_for(threshold, step=step),
        threshold_sigma=threshold_sigma,
        query_sigma=query_sigma,
    )


def _rounded_normals(sigma: Fraction, count: int, bits: RandomBits) -> Integers:
    """round(sigma Z) for `count` standard normals Z."""
    noise = gaussian_chunk(np.full(count, 0.5), lambda _: _HALF, ratio=sigma, bits=bits)
    return noise.astype(np.int64)
