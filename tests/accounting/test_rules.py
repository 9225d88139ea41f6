"""Every kind of event has rules, and those of rare combinations agree from engine to engine."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from unacorda.accounting import epsilon_interval
from unacorda.accounting.rules.base import RULES, rules_of
from unacorda.privacy.events import EVENT_KINDS, Composed, Gaussian, Pure, Repeated, Staircase
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

STAIRCASE = Staircase(epsilon=1.0, split=0.3)


def test_every_kind_of_event_has_rules() -> None:
    assert set(RULES) == set(EVENT_KINDS)


def test_rules_name_their_theorem() -> None:
    for kind, rules in RULES.items():
        assert rules.theorem, kind
        assert rules.source, kind


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
