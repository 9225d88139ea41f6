"""Renyi divergences of draws with replacement; Gaussian DP of staircases and of mixed noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.divergences.closed import renyi_of_fixed_size
from unacorda.accounting.laws import staircase_top
from unacorda.checks import exact
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.events import GaussianMixture

_MOST_DRAWS = 300
_MOST_TERMS = 2000


def moved_by(event: GaussianMixture) -> Fraction:
    r"""The largest shift that has a weight, in units of the noise: mu of Gaussian DP.

    Statement   max of s_i / sigma over weights above 0.
    Bound       exact: the least mu, as far losses are those of the largest shift alone.
    Source      joint convexity of the profile; docs/proofs/contour.md, section 16.
    """
    noise = exact("noise_multiplier", event.noise_multiplier)
    return max(
        exact("shifts", shift) / noise
        for shift, weight in zip(event.shifts, event.weights, strict=True)
        if weight
    )


def gdp_of_staircase(epsilon: Fraction, split: Fraction) -> Fraction:
    r"""The mu of Gaussian DP of staircase noise.

    Statement   Phi^{-1}(p) - Phi^{-1}(p e^{-eps}): the trade-off curve has the kinks (p e^{-eps},
                1 - p) and its mirror, and lies above a convex curve if its kinks do.
    Bound       upper, rounded up; exact.
    Source      docs/proofs/bounded_range.md, step 2, with one more kink.
    """
    mp, top = context(), staircase_top(epsilon, split)
    low = top * mp.exp(-mpf(epsilon))
    root = mp.sqrt(2)
    return Fraction(float_up(root * (mp.erfinv(2 * top - 1) + mp.erfinv(1 - 2 * low))))


def renyi_of_replacement(
    divergence: Callable[[Fraction, int], Fraction],
    *,
    largest: float,
    alpha: Fraction,
    size: int,
    population: int,
) -> float | None:
    r"""Renyi divergence, under replacement, of a mechanism on draws with replacement.

    divergence: an upper bound of D_a, in both directions, where k units are replaced at once, from
    (a, k); largest: of the pure epsilon where all draws are, or inf.

    Statement   the less of log(1 + sum over k > 0 of w_k (e^{(a-1) D_a(k)} - 1)) / (a - 1), w_k the
                binomial probability of k hits, and renyi_of_fixed_size at the rate of any hit, with
                e^{(j-1) D_j} the mean of e^{(j-1) D_j(k)} given a hit.
    Bound       upper, rounded up; None above 300 draws.
    Source      joint convexity of the a-th moment, and of the ternary moments of Wang, Balle,
                Kasiviswanathan 2019, Thm. 9; the coupling of Balle, Barthe, Gaboardi 2018, Thm. 10.
    """
    if size > _MOST_DRAWS:
        return None
    mp = context()
    weights, _, rate = draws(size, population, complete=True)

    def mean(order: Fraction) -> Any:
        b = mpf(order - 1)
        return mp.fsum(
            weight * mp.expm1(b * mpf(divergence(order, k)))
            for k, weight in enumerate(weights, start=1)
            if weight
        )

    found = [float_up(mp.log1p(mpf(rate) * mean(alpha)) / mpf(alpha - 1))]
    if alpha * size <= _MOST_TERMS and rate < 1:
        found.append(
            renyi_of_fixed_size(
                lambda j: float_up(mp.log1p(mean(Fraction(j))) / (j - 1)),
                largest=largest,
                rate=rate,
                alpha=alpha,
            )
        )
    return min(found)
