"""Private keys: the choice keeps what its event says, and finds keys as often as is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.support.cases import in_subtests
from tests.support.seams import allocate, key_rule
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

ROOMY = ApproxDP(2, "1e-3")


def person(**limits: Any) -> unacorda.Person:
    return unacorda.Person("id", **(limits or {"max_rows": 1}))


SHARES = (PureDP(1), PureDP(3), ZCDP("1/4"), GDP(1))


@in_subtests("share", SHARES)
@pytest.mark.parametrize("hits", mostly_slow([1, 2, 3]))
@in_subtests("replaced", [False, True])
def test_the_choice_keeps_what_its_event_says_on_every_small_table(
    share: Any, hits: int, *, replaced: bool
) -> None:
    """The exact delta of choosing among 4 keys, one person under some of them or not."""
    delta = Fraction(1, 20)
    rule = key_rule(share, delta=delta, hits=hits, replaced=replaced)
    allowed = rule.event
    epsilon = float(share.epsilon) if isinstance(share, PureDP) else 1.0
    bound = float(unacorda.accounting.delta(allowed, epsilon=epsilon))
    if isinstance(share, PureDP):
        assert bound <= float(delta) * (1 + 1e-9)
    chance = [float(rule.mechanism.probability(n)) for n in range(12)]
    worst = 0.0
    for others in itertools.combinations_with_replacement((0, 1, 2, 5, 9), 4):
        for mine in _moves(hits, replaced=replaced):
            with_her = [n + move for n, move in zip(others, mine, strict=True)]
            if min(with_her) < 0:
                continue
            p, q = ([chance[n] for n in counts] for counts in (with_her, others))
            worst = max(worst, _delta(p, q, epsilon), _delta(q, p, epsilon))
    assert worst <= bound * (1 + 1e-9)
    if isinstance(rule.mechanism, PartitionSelection) and hits == 1:
        assert worst >= 0.9 * bound  # and not much less is spent than could be


def _moves(hits: int, *, replaced: bool) -> Iterable[tuple[int, ...]]:
    steps = (-1, 0, 1) if replaced else (0, 1)
    return (move for move in itertools.product(steps, repeat=4) if sum(map(abs, move)) <= hits)


def _delta(p: list[float], q: list[float], epsilon: float) -> float:
    """The mass by which one product of coins exceeds e^epsilon times another, exactly."""
    total = 0.0
    for outcome in itertools.product((0, 1), repeat=len(p)):
        first = math.prod(a if kept else 1 - a for a, kept in zip(p, outcome, strict=True))
        second = math.prod(b if kept else 1 - b for b, kept in zip(q, outcome, strict=True))
        total += max(first - math.exp(epsilon) * second, 0.0)
    return total


@pytest.mark.slow
def test_counts_of_people_move_as_promised_between_neighboring_tables() -> None:
    """Over small tables: by 1, under as many keys as the rule is told, whatever the limits are."""
    source = np.random.default_rng(5)
    units = [
        (person(max_rows=1), 1),
        (person(max_rows=3), 3),
        (person(max_groups=2, max_rows_per_group=3), 2),
        (person(max_rows=4, max_groups=2), 2),
    ]
    for unit, hits in units:
        attained = 0
        for _ in range(8):
            lines = [
                (int(who), int(key), str(word))
                for who in range(6)
                for key, word in zip(
                    source.integers(0, 5, 6), source.choice(["x", "y"], 6), strict=True
                )
            ]
            gone = [line for line in lines if line[0] != 2]
            moves = [_people(lines, unit), _people(gone, unit)]
            keys = set(moves[0]) | set(moves[1])
            changes = [abs(moves[0].get(key, 0) - moves[1].get(key, 0)) for key in keys]
            assert max(changes) <= 1
            assert sum(changes) <= hits
            attained = max(attained, sum(changes))
        assert attained == hits


def _people(lines: list[tuple[int, int, str]], unit: unacorda.Person) -> dict[Any, int]:
    table = pl.DataFrame(lines, schema=["id", "key", "word"], orient="row")
    with opened(table, unit=unit, budget=ROOMY) as session:
        asked = {"key": unacorda.private_keys(), "word": unacorda.private_keys()}
        query = session.table("t").group_by("key", "word", keys=asked).agg(n=unacorda.count())
        assert int(allocate(query, ROOMY).reach.touched) >= 1
        keyed = session._engine.find(session._admission.admit(query, salt=11))
        found = keyed.keys(range(len(keyed.people)))
        people = dict(zip(found, keyed.people.tolist(), strict=True))
        keyed.close()
    return people


@pytest.mark.statistical
@pytest.mark.parametrize("share", [PureDP(1), ZCDP("1/8")])
def test_keys_appear_as_often_as_is_said(share: Any) -> None:
    """20,000 keys of as many people each: false alarms below 1e-6, by Hoeffding's inequality."""
    rule = key_rule(share, delta=Fraction(1, 10**4), hits=2, replaced=False)
    runs = 20_000
    slack = math.sqrt(math.log(2 / 1e-7) / (2 * runs))
    for chance, people in rule.chances:
        kept = rule.kept(np.full(runs, people), bits=SeededBits(people)).mean()
        below = rule.kept(np.full(runs, people - 1), bits=SeededBits(people)).mean()
        assert kept >= float(chance) - slack
        assert below < float(chance) + slack
        assert abs(kept - float(rule.mechanism.probability(people))) < slack
