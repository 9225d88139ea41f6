"""Exact laws of K and of the best of K runs, from their definitions, in many digits."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from mpmath import mp, mpf
from scipy import stats

from unacorda.bits import RandomBits
from unacorda.privacy.events import NegativeBinomialTries, PoissonTries, Pure

Outcome = TypeVar("Outcome", bound=Hashable)
Tries = NegativeBinomialTries | PoissonTries


def as_mpf(value: Any) -> Any:
    exact = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def masses(event: Tries, length: int) -> list[Any]:
    """P(K = k) for k = 0, ..., length, or up to the cap."""
    if event.most is None:
        return _masses(event, length)
    found = _masses(event, event.most)
    total = mp.fsum(found)
    return [mass / total for mass in found]


def _masses(event: Tries, length: int) -> list[Any]:
    if isinstance(event, PoissonTries):
        mean = as_mpf(event.mean)
        return [mp.exp(-mean) * mean**k / mp.factorial(k) for k in range(length + 1)]
    eta, stay = as_mpf(event.shape), 1 - as_mpf(event.stop)
    found = [mpf(0)]
    for k in range(1, length + 1):
        # Papernot and Steinke 2022, Definition 1, by gamma functions; the sampler has none.
        if eta == 0:
            found.append(-(stay**k) / (k * mp.log(1 - stay)))
        else:
            whole = mp.gamma(k + eta) / (mp.gamma(k + 1) * mp.gamma(eta))
            found.append(stay**k * whole / ((1 - stay) ** -eta - 1))
    return found


def geometric(stop: float) -> Tries:
    return NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=stop)


def best_of(law: Sequence[Any], tries: Sequence[Any]) -> list[Any]:
    """The law of the best run's place, by rising score; last, that there was no run."""
    sums = [mpf(0)]
    for mass in law:
        sums.append(sums[-1] + mass)
    sums[-1] = mpf(1)

    def f(x: Any) -> Any:
        return functools.reduce(lambda total, mass: total * x + mass, reversed(tries), mpf(0))

    return [f(b) - f(a) for a, b in itertools.pairwise(sums)] + [tries[0]]


def largest_loss(one: Sequence[Any], two: Sequence[Any]) -> Any:
    return max(
        max(mp.log(a / b), mp.log(b / a)) for a, b in zip(one, two, strict=True) if a > 0 or b > 0
    )


def steep_pair(epsilon: Any, sliver: Any, top: Any = None) -> tuple[list[Any], list[Any]]:
    """Three outcomes, by rising score, of two neighbors whose runs are epsilon-DP.

    With the default top they reach the price of pure runs as the sliver goes to 0.
    """
    grown = mp.exp(epsilon)
    high = 1 / (1 + grown) if top is None else top
    return (
        [1 - high - grown * sliver, grown * sliver, high],
        [1 - grown * high - sliver, sliver, grown * high],
    )


def chi_square_p(seen: Mapping[Outcome, int], law: Mapping[Outcome, Any]) -> float:
    """The p-value of counts under a law; outcomes that are seldom expected are put together."""
    total = sum(seen.values())
    assert set(seen) <= set(law)
    expected = np.array([float(mass) * total for mass in law.values()])
    counts = np.array([seen.get(outcome, 0) for outcome in law], float)
    common = expected >= 10
    expected = np.append(expected[common], max(total - expected[common].sum(), 1e-9))
    counts = np.append(counts[common], counts[~common].sum())
    if expected[-1] < 10:
        # too few for a cell of their own: they join the last one
        expected, counts = (np.append(part[:-2], part[-2:].sum()) for part in (expected, counts))
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1))


def in_octaves(counts: Mapping[int, Any]) -> dict[int, Any]:
    """Counts or masses of whole numbers put together in sixths of octaves, for a long tail."""
    found: Counter[int] = Counter()
    for number, mass in counts.items():
        found[math.floor(6 * math.log2(number + 1))] += mass
    return found


def drawn_from(law: Sequence[Fraction], bits: RandomBits) -> int:
    """A place drawn from a law of rational probabilities."""
    common = np.lcm.reduce([mass.denominator for mass in law])
    number, place = bits.below(int(common)), 0
    while (number := number - int(law[place] * int(common))) >= 0:
        place += 1
    return place
