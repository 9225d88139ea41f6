"""Keys that appear and keys that vanish at once: the delta of a replaced person's own keys."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from tests.support.seams import Reach, hits_of

from unacorda.mechanisms.partitions.selection import PartitionSelection


def law(chances: list[Fraction]) -> dict[tuple[bool, ...], Fraction]:
    """Of which keys are named, each by a coin of its own."""
    found = {}
    for named in itertools.product((False, True), repeat=len(chances)):
        parts = (p if kept else 1 - p for kept, p in zip(named, chances, strict=True))
        found[named] = math.prod(parts, start=Fraction(1))
    return found


def beyond(p: list[Fraction], q: list[Fraction], factor: Fraction) -> Fraction:
    """The delta at a factor of e^epsilon, exactly."""
    one, other = law(p), law(q)
    return sum((max(one[at] - factor * other[at], Fraction(0)) for at in one), Fraction(0))


@pytest.mark.parametrize(("gained", "lost"), [(0, 3), (3, 0), (1, 2), (2, 2)])
def test_own_keys_in_both_directions_are_within_the_delta_of_all(gained: int, lost: int) -> None:
    """Section 5 of docs/proofs/keys.md; reached where all are gained, or all are lost."""
    p = Fraction(1, 7)
    mine = [p] * gained + [Fraction(0)] * lost
    yours = [Fraction(0)] * gained + [p] * lost
    told = 1 - (1 - p) ** (gained + lost)
    found = max(beyond(mine, yours, Fraction(1)), beyond(yours, mine, Fraction(1)))
    assert told / 2 < found <= told
    assert (found == told) is (0 in {gained, lost})


@pytest.mark.parametrize("gained", range(5))
def test_the_best_rule_holds_whichever_keys_gain_or_lose_a_person(gained: int) -> None:
    """Four keys move: each count against the next, in every mix of directions, exactly."""
    reach = Reach.within(max_groups=2, max_rows_per_group=1, cells=1 << 62, replaced=True)
    assert hits_of(reach) == 4
    rule = PartitionSelection(epsilon=1, delta=Fraction(1, 50), l0_sensitivity=hits_of(reach))
    factor = Fraction(math.exp(1)) * (1 - Fraction(1, 1 << 50))  # below e
    worst = Fraction(0)
    for base in range(12):
        low, high = rule.probability(base), rule.probability(base + 1)
        mine = [high] * gained + [low] * (4 - gained)
        yours = [low] * gained + [high] * (4 - gained)
        worst = max(worst, beyond(mine, yours, factor), beyond(yours, mine, factor))
    assert worst <= Fraction(1, 50) + Fraction(1, 1 << 40)
    assert worst > Fraction(1, 500)
