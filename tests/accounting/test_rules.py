"""Every kind of event has rules, and those of rare combinations agree from engine to engine."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import get_args

import pytest

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.accounting.laws import Finite
from unacorda.accounting.rules.base import RULES, law_of, rules_of
from unacorda.privacy.events import Composed, Event, Gaussian, Pure, Repeated, Staircase
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

STAIRCASE = Staircase(epsilon=1.0, split=0.3)


def test_every_kind_of_event_has_rules() -> None:
    assert set(RULES) == set(get_args(Event))


def test_rules_name_their_theorem() -> None:
    for kind, rules in RULES.items():
        assert rules.theorem, kind
        assert rules.source, kind


def _doubled_losses() -> dict[Fraction, float]:
    """Losses of one staircase moved by two steps, by their probabilities under the first law."""
    law = law_of(STAIRCASE, reach=0, replaced=1)
    assert isinstance(law, Finite)
    return {loss: float(mass) for loss, mass in law.masses.items()}


def _delta_of_samples(epsilon: float, *, rate: float, steps: int) -> float:
    """Of two staircases on each sample, by every sum of losses: the larger of both directions."""
    base: dict[Fraction, float] = {}
    for (one, p), (two, q) in itertools.product(_doubled_losses().items(), repeat=2):
        base[one + two] = base.get(one + two, 0.0) + p * q
    # (1 - rate) Q + rate P against Q: the mass of a loss under Q is e^-loss times that under P
    seen, unseen = [], []
    for loss, mass in base.items():
        other = mass * math.exp(-loss)
        seen.append((1 - rate) * other + rate * mass)
        unseen.append(other)
    found = 0.0
    for first, second in ((seen, unseen), (unseen, seen)):
        total = 0.0
        for places in itertools.product(range(len(seen)), repeat=steps):
            p = math.prod(first[i] for i in places)
            q = math.prod(second[i] for i in places)
            total += max(p - math.exp(epsilon) * q, 0.0)
        found = max(found, total)
    return found


@pytest.mark.parametrize("steps", [1, 2])
def test_several_staircases_on_a_sample_are_known_by_their_own_law(steps: int) -> None:
    """Contours and grids read them alike, and an enumeration finds what both claim.

    What dominates one sample in both directions is attained by no pair of two: the upper end is
    that of the worse direction each time.
    """
    once = (STAIRCASE * 2).fixed_size_sampled(size=1, population=2)
    for epsilon in (0.5, 2.0, 3.0):
        found = delta_interval(once * steps, epsilon=epsilon, neighbors=ReplaceOne)
        truth = _delta_of_samples(epsilon, rate=0.5, steps=steps)
        assert truth <= found.upper * (1 + 1e-12)
        assert found.upper <= truth * (1 + 1e-9 if steps == 1 else 1.5)
        assert found.lower <= truth * (1 + 1e-12)
        assert steps > 1 or found.lower >= truth * (1 - 1e-9)


def test_several_staircases_of_everybody_claim_no_pair() -> None:
    """Under replacement they are read as pure, which no staircase of two steps attains."""
    event = (STAIRCASE * 2).poisson_sampled(rate=1)
    found = epsilon_interval(event, delta=1e-3, neighbors=ReplaceOne)
    assert found.lower == 0.0
    assert found.upper <= 4.0


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_compositions_answer_as_their_parts_do(neighbors: Neighbors) -> None:
    one, two = Gaussian(noise_multiplier=2), Pure(epsilon=0.5)
    whole = one * 3 + two
    assert isinstance(whole, Composed)
    assert isinstance(whole.parts[0], Repeated)
    rules = rules_of(whole)
    assert rules.zcdp(whole) == rules_of(one).zcdp(one) * 3 + rules_of(two).zcdp(two)
    assert rules.inside(whole) == whole.parts
    assert rules.below(whole, neighbors) is whole
