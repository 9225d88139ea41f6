"""Every kind of event has rules, and those of rare combinations agree from engine to engine."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from unacorda.accounting import epsilon_interval
from unacorda.accounting.pld.parts import curve_of_any
from unacorda.accounting.rules.base import RULES, Rules, rules_of
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    EVENT_KINDS,
    Approximate,
    Composed,
    Event,
    Gaussian,
    Pure,
    Repeated,
    Staircase,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

EPSILONS = np.array([0.0, 0.3, 0.6])
STAIRCASE = Staircase(epsilon=1.0, split=0.3)


def test_every_kind_of_event_has_rules() -> None:
    assert set(RULES) == set(EVENT_KINDS)


def test_rules_name_their_theorem() -> None:
    for kind, rules in RULES.items():
        assert rules.theorem, kind
        assert rules.source, kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unheard(Event):
    """A kind of which little is known; number: of a test of its own, since curves are cached."""

    number: int


class OnlyPure(Rules[Unheard]):
    def pure(self, event: Unheard) -> Fraction:
        return Fraction(1, 2)


class OnlyApproximate(Rules[Unheard]):
    def approximate(self, event: Unheard) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), Fraction(1, 10)


@pytest.mark.parametrize("delta", [0, Fraction(1, 10)])
def test_a_profile_follows_from_an_epsilon_and_a_delta(
    delta: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its upper end is that of the worst such event, and nothing is claimed from below."""
    monkeypatch.setitem(RULES, Unheard, OnlyApproximate() if delta else OnlyPure())
    worst = Approximate(epsilon=0.5, delta=delta) if delta else Pure(epsilon=0.5)
    unheard = Unheard(number=2 if delta else 1)
    for one, bound in (
        (unheard, worst),
        (unheard.poisson_sampled(rate=0.1), worst.poisson_sampled(rate=0.1)),
        (unheard * 3, worst * 3),
    ):
        found, known = (
            curve_of_any(event, direction="remove", neighbors=AddRemove) for event in (one, bound)
        )
        ours, worsts = found(EPSILONS), known(EPSILONS)
        assert (ours.lower <= 1e-12).all()
        assert (worsts.upper <= ours.upper + 1e-9).all()
        if not isinstance(one, Repeated):  # whose grid is coarse
            assert (ours.upper <= worsts.upper + 1e-3).all()


def test_a_kind_of_which_nothing_is_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, Unheard, Rules[Unheard]())
    one = Unheard(number=3)
    for event in (one, one.poisson_sampled(rate=0.1)):
        with pytest.raises(UnsupportedEvent, match="privacy profile"):
            curve_of_any(event, direction="remove", neighbors=AddRemove)


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
