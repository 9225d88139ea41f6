"""Games against filters, played out to the end: every path with its exact probabilities."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from unacorda.privacy import conversions
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP

__all__ = [
    "STRATEGIES",
    "Path",
    "Question",
    "binary",
    "cells",
    "delta_at",
    "leaky",
    "play",
    "renyi_at",
]

History = tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """A finite mechanism on two neighbors, and what it is charged."""

    cost: Guarantee
    under_p: tuple[float, ...]
    under_q: tuple[float, ...]


@dataclass(frozen=True)
class Path:
    """One full course of a game, its probability under both neighbors, and the filter then."""

    outcomes: History
    p: float
    q: float
    account: Any


def binary(epsilon: float, kind: type[Guarantee]) -> Question:
    """Randomised response, charged in one of the kinds."""
    high = 1 / (1 + math.exp(-epsilon))
    low = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    cost: Guarantee
    if kind is PureDP:
        cost = PureDP(epsilon)
    elif kind is ApproxDP:
        cost = ApproxDP(epsilon, 0)
    elif kind is ZCDP:
        cost = ZCDP(conversions.zcdp_from_pure(epsilon))
    else:
        cost = GDP(conversions.gdp_from_pure(epsilon))
    return Question(cost, (high, low), (low, high))


def leaky(epsilon: float, delta: float, kind: type[Guarantee]) -> Question:
    """Randomised response that gives the neighbor away with probability delta."""
    clean = binary(epsilon, kind)
    cost: Guarantee
    if kind is ApproxDP:
        cost = ApproxDP(epsilon, delta)
    elif kind is ZCDP:
        cost = ZCDP(clean.cost.additive[0], delta)
    else:
        cost = GDP.from_squared(clean.cost.additive[0], delta)
    return Question(
        cost,
        (*[(1 - delta) * p for p in clean.under_p], delta, 0.0),
        (*[(1 - delta) * q for q in clean.under_q], 0.0, delta),
    )


def cells(mu: float, kind: type[Guarantee], *, shift: float = 0.0) -> Question:
    """A Gaussian mechanism, seen through three cells; exactly mu-GDP at most."""
    normal = NormalDist()
    cuts = [-0.6 + shift, 0.7 + shift]

    def masses(mean: float) -> tuple[float, ...]:
        heights = [0.0, *[normal.cdf(cut - mean) for cut in cuts], 1.0]
        return tuple(b - a for a, b in itertools.pairwise(heights))

    cost: Guarantee = GDP(mu) if kind is GDP else ZCDP(Fraction(mu) ** 2 / 2)
    return Question(cost, masses(mu / 2), masses(-mu / 2))


Strategy = Callable[[History, random.Random], float]
STRATEGIES: dict[str, Strategy] = {
    # how large the next question shall be, from 0 to 1, seeing all answers so far
    "random": lambda history, coin: coin.random(),
    "steady": lambda history, coin: 0.3,
    "chases what it has found": lambda history, coin: (
        0.9 if sum(1 if outcome == 0 else -1 for outcome in history) > 0 else 0.2
    ),
    "doubles while behind": lambda history, coin: min(
        1.0, 0.1 * 2 ** sum(1 for outcome in history if outcome == 1)
    ),
    "large first": lambda history, coin: 1.0 / (1 + len(history)),
}


def play(
    account: Any, ask: Callable[[float], Question], strategy: Strategy, *, depth: int, seed: int = 0
) -> Iterator[Path]:
    """Every course of a game of at most `depth` questions: what is refused is asked smaller."""

    def course(history: History, p: float, q: float, held: Any) -> Iterator[Path]:
        if len(history) < depth and (p > 0 or q > 0):
            size = strategy(history, random.Random(f"{seed}{history}"))
            for shrink in (1, 0.5, 0.25, 0.05):
                question = ask(size * shrink)
                if held.admits(question.cost):
                    after = held.spend(question.cost)
                    masses = zip(question.under_p, question.under_q, strict=True)
                    for outcome, (here, there) in enumerate(masses):
                        yield from course((*history, outcome), p * here, q * there, after)
                    return
        yield Path(history, p, q, held)

    yield from course((), 1.0, 1.0, account)


def delta_at(paths: list[Path], epsilon: float) -> float:
    """The larger of both directions of the hockey-stick divergence."""
    factor = math.exp(epsilon)
    return max(
        math.fsum(max(path.p - factor * path.q, 0.0) for path in paths),
        math.fsum(max(path.q - factor * path.p, 0.0) for path in paths),
    )


def renyi_at(paths: list[Path], alpha: float) -> float:
    """The larger of both directions of the Renyi divergence."""
    sums = [
        math.fsum(a**alpha * b ** (1 - alpha) for a, b in pairs if a > 0)
        for pairs in (
            [(path.p, path.q) for path in paths],
            [(path.q, path.p) for path in paths],
        )
    ]
    return max(math.log(total) / (alpha - 1) for total in sums)
