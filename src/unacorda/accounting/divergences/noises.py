"""Renyi divergences of staircase noise and of draws with replacement; cut and mixed noise.

Where noise is cut, a mass is shown; what is left is bounded by the largest finite loss.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.divergences.closed import renyi_of_fixed_size
from unacorda.accounting.laws import of_truncated_laplace, staircase_top
from unacorda.checks import exact
from unacorda.privacy.conversions.arguments import Real, order
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.events import GaussianMixture, Staircase, TruncatedLaplace

_MOST_DRAWS = 300
_MOST_TERMS = 2000


def renyi_of_staircase(event: Staircase, *, alpha: Real) -> float:
    r"""Renyi divergence of staircase noise under the full shift.

    Statement   log(1 + p (e^{b eps} - 1) + p e^{-eps} (e^{-b eps} - 1)) / b, b = alpha - 1, p the
                probability of the loss eps: the losses are eps, 0 and -eps.
    Bound       upper, rounded up; exact.
    Source      docs/proofs/contour.md, section 11.

    >>> round(renyi_of_staircase(Staircase(epsilon=1.0, split=0.5), alpha=2), 6)
    0.735326
    """
    order(alpha)
    mp, b = context(), mpf(Fraction(alpha) - 1)
    epsilon, top = _largest_loss(event)
    x = mpf(epsilon)
    # what is above 1: p (e^{b x} - 1) (1 - e^{-(b + 1) x}), positive
    above = top * mp.expm1(b * x) * -mp.expm1(-(b + 1) * x)
    return float_up(mp.log1p(above) / b)


def _largest_loss(event: Staircase) -> tuple[Fraction, Any]:
    """The largest loss of staircase noise, and its probability."""
    epsilon = exact("epsilon", event.epsilon)
    return epsilon, staircase_top(epsilon, exact("split", event.split))


def approximate_of_truncated(event: TruncatedLaplace) -> tuple[Fraction, Fraction]:
    r"""(epsilon, delta): the largest finite loss of cut Laplace noise, and the mass of what shows.

    Given that neither shows, the noise is epsilon-DP.

    Statement   with u = 1/noise_multiplier and bound a >= 1: (u, (e^{-u(a-1)} - e^{-ua}) / (2 (1 -
                e^{-ua}))); below 1 ((2a - 1) u, 1 - (e^{-u(1-a)} - e^{-ua}) / (2 (1 - e^{-ua}))).
    Bound       delta rounded up; both are exact.
    Source      Geng, Ding, Guo, Kumar 2020, Theorem 1; docs/proofs/contour.md, section 11.
    """
    noise = exact("noise_multiplier", event.noise_multiplier)
    law = of_truncated_laplace(1 / noise, exact("bound", event.bound))
    return law.edge, min(Fraction(float_up(law.infinite)), Fraction(1))


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


def gdp_of_staircase(event: Staircase) -> Fraction:
    r"""The mu of Gaussian DP of staircase noise.

    Statement   Phi^{-1}(p) - Phi^{-1}(p e^{-eps}): the trade-off curve has the kinks (p e^{-eps},
                1 - p) and its mirror, and lies above a convex curve if its kinks do.
    Bound       upper, rounded up; exact.
    Source      docs/proofs/bounded_range.md, step 2, with one more kink.
    """
    mp = context()
    epsilon, top = _largest_loss(event)
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
