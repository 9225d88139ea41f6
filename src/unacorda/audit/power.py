r"""The power of an audit by its number of samples.

An event has the probabilities p and q under the two inputs. A verdict over n samples of each
refutes (epsilon, delta) if the Clopper-Pearson bounds show p - delta > e^epsilon q. Whether that
has probability .99 is decided at the quantiles of both counts, .005 each.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy import optimize, special, stats

from unacorda.audit.binomials import rate_above, rate_below
from unacorda.numerics import bisect
from unacorda.privacy.guarantees import GDP, ApproxDP, PureDP

BASE: Final = 40_000
"""Fewer samples are not taken by themselves: events that were not thought of are seen by many."""
MOST: Final = 4_000_000
MOST_FOR_ATOMS: Final = 400_000
"""Nor are more taken for noise of half the scale, and for outputs without noise."""
_ATOM: Final = 1 / 1800  # so that a thousandth is found surely, also beside learned events
_MISS: Final = 0.01
_LEARNED: Final = 1.5  # a learned event tells less than the best one
_STEPS: Final = 30
_FACTORS: Final = (1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0)

Claim = PureDP | ApproxDP | GDP


def points(claim: Claim) -> list[tuple[float, float]]:
    """The (epsilon, delta) pairs of a claim that are tested."""
    from unacorda.privacy.conversions import approx_dp_delta_from_gdp

    match claim:
        case PureDP(epsilon):
            return [(float(epsilon), 0.0)]
        case ApproxDP(epsilon, delta):
            return [(float(epsilon), float(delta))]
        case GDP():
            mu, spare = claim.mu, float(claim.delta)
            epsilons = [mu * (mu / 2 + k) for k in (0.0, 1.0, 2.0, 3.0)]
            curve = [(e, spare + approx_dp_delta_from_gdp(mu, epsilon=e)) for e in epsilons]
            return [(e, delta) for e, delta in curve if delta < 1]


def seen(
    p: float, q: float, *, samples: int, epsilon: float, delta: float, confidence: float
) -> bool:
    """Whether an event of these probabilities refutes the claim with probability .99."""
    few = int(stats.binom.ppf(_MISS / 2, samples, p))
    many = int(stats.binom.ppf(1 - _MISS / 2, samples, q))
    error = (1 - confidence) / 2
    above = rate_above(many, samples, error=error)
    below = rate_below(few, samples, error=error) - delta
    return below > 0 and math.log(below) > epsilon + math.log(above)


def samples_for(claim: Claim, *, confidence: float) -> int:
    """How many samples detect noise of half the scale, and one noiseless output in a thousand.

    The number is at least BASE. The first is given up above MOST samples, the second above
    MOST_FOR_ATOMS.
    """

    def halved(samples: int) -> bool:
        return _seen_at(claim, 2.0, math.floor(samples / _LEARNED), confidence)

    def bare(samples: int) -> bool:
        found = mass_seen(claim, samples, confidence=confidence)
        return found is not None and found <= _ATOM

    return max(_least(halved, MOST), _least(bare, MOST_FOR_ATOMS))


def _least(enough: Callable[[int], bool], most: int) -> int:
    """The least number of samples that is enough, or a little more; BASE where none is."""
    low, high = BASE, most
    if enough(low) or not enough(high):
        return low
    while high - low > low // 20:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def factor_seen(claim: Claim, samples: int, *, confidence: float) -> float | None:
    """The least of a few factors of too little noise that is detected, or None."""
    for factor in _FACTORS:
        if _seen_at(claim, factor, math.floor(samples / _LEARNED), confidence):
            return factor
    return None


def mass_seen(claim: Claim, samples: int, *, confidence: float) -> float | None:
    """The least detectable probability of an output that the other input never has."""
    best = None
    for epsilon, delta in points(claim):
        is_seen = functools.partial(
            seen, q=0.0, samples=samples, epsilon=epsilon, delta=delta, confidence=confidence
        )
        if not is_seen(1.0):
            continue
        _, mass = bisect(is_seen, 0.0, 1.0, rounds=_STEPS)
        best = mass if best is None else min(best, mass)
    return best


@functools.lru_cache(maxsize=256)
def _seen_at(claim: Claim, factor: float, samples: int, confidence: float) -> bool:
    """Whether noise that is so many times too small is found, by the best half-line."""
    return any(
        seen(p, q, samples=samples, epsilon=epsilon, delta=delta, confidence=confidence)
        for epsilon, delta in points(claim)
        for p, q in _half_lines(claim, factor)
    )


def _half_lines(claim: Claim, factor: float) -> Sequence[tuple[float, float]]:
    """Probabilities of half-lines under both inputs, of the noise that the claim is made with.

    Laplace noise for a pure claim, else normal noise.
    """
    if isinstance(claim, PureDP):
        epsilon = float(claim.epsilon) * factor
        return [(math.exp(-t) / 2, math.exp(-t - epsilon) / 2) for t in (0.0, 0.5, 1.0, 2.0)] + [
            (1 - math.exp(-epsilon / 2) / 2, math.exp(-epsilon / 2) / 2)
        ]
    mu = (claim.mu if isinstance(claim, GDP) else _gaussian(claim)) * factor
    places = np.linspace(-1.0, 6.0, 57)
    return [(float(special.ndtr(mu - t)), float(special.ndtr(-t))) for t in places + mu / 2]


def _gaussian(claim: ApproxDP) -> float:
    """The mu of the normal noise that has this delta at this epsilon, nearly."""
    epsilon, delta = float(claim.epsilon), float(claim.delta)

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        one, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        lost = special.ndtr(one) - math.exp(min(epsilon + special.log_ndtr(other), 0.0))
        return float(lost) - delta

    if delta <= 0 or excess(math.log(1e-9)) >= 0 or excess(math.log(1e3)) <= 0:
        return epsilon  # as if the claim were pure
    return math.exp(float(optimize.brentq(excess, math.log(1e-9), math.log(1e3))))
