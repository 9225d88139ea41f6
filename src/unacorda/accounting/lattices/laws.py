"""Laws of the loss on -e, 0 and e: pure and approximate privacy, randomised response."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.rules.base import rules_of
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.events import Event

__all__ = ["Composition", "Law", "composition_of", "laws_of"]

_LONGEST = 4_000  # bits


@dataclass(frozen=True, slots=True)
class Law:
    """Losses e and -e with probabilities p and p e^-e, else 0; p = 1 / (1 + (k - 1) e^-e).

    epsilon: e, above 0; categories: k, 2 where 0 is no loss.
    """

    epsilon: Fraction
    categories: int = 2

    @property
    def step(self) -> Fraction:
        """How far neighboring losses are apart."""
        return self.epsilon * 2 if self.categories == 2 else self.epsilon

    def masses(self) -> tuple[float, float, float]:
        """The probabilities of -e, 0 and e, each within one unit of 2^-53 of itself."""
        low = context().exp(-mpf(self.epsilon))
        whole = 1 + (self.categories - 1) * low
        return float(low / whole), float((self.categories - 2) * low / whole), float(1 / whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Laws with their numbers of copies, and the probability that some loss is infinite.

    infinite: in the working precision, within 2^-200 of itself.
    """

    laws: tuple[tuple[Law, int], ...]
    infinite: Any

    @property
    def largest(self) -> Fraction:
        """The sum of all epsilon: the largest finite loss."""
        return sum((law.epsilon * count for law, count in self.laws), start=Fraction(0))

    @property
    def spacing(self) -> Fraction:
        """The losses are `largest` minus whole multiples of this."""
        steps = [law.step for law, _ in self.laws]
        common = math.lcm(*(step.denominator for step in steps))
        return Fraction(math.gcd(*(int(step * common) for step in steps)), common)


def composition_of(events: Iterable[tuple[Event, int]]) -> Composition:
    """The laws that dominate the events; equal laws are counted together.

    Discrete Laplace noise under a shift of 1 is binary randomised response of 1 / scale; under
    less than 1 a query of whole numbers does not move.
    Raises UnsupportedEvent for other events, and where the common denominator of all losses has
    above 4000 bits: those share no lattice, and have too many sums.

    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    return laws_of(flatten(events))


def laws_of(events: Iterable[tuple[Event, int]]) -> Composition:
    """`composition_of` events as `flatten` gives them.

    Source      as composition_of.
    """
    mp = context()
    counts: dict[Law, int] = {}
    common = 1
    log_finite = mp.mpf(0)
    for event, count in events:
        points = rules_of(event).three_points(event)
        if points is None or points.categories is None:
            raise _unsupported(event)
        law = Law(points.epsilon, points.categories)
        if points.infinite:
            share = points.infinite
            log_finite += count * mp.log1p(-mpf(share)) if share < 1 else -mp.inf
        if law.epsilon > 0:
            counts[law] = counts.get(law, 0) + count
            common = math.lcm(common, law.epsilon.denominator)
        if common.bit_length() > _LONGEST:
            raise _unsupported(event)
    return Composition(laws=tuple(counts.items()), infinite=-mp.expm1(log_finite))


def _unsupported(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="sums over few losses",
        try_instead="Pure, approximate and randomised-response events, not too many different.",
    )
