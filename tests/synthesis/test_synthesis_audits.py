"""Attacks on synthetic tables: whole releases, choices alone, and measured errors alone.

One unit has k equal rows, in one cell; its neighbor has none, or has them in another. Each attack
can fail: it finds the promise broken where the noise is made for one row.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.synthesis.test_synthesis_budgets import domain_of
from tests.tiers import mostly_slow

from unacorda.audit import Finding, search
from unacorda.bits import SeededBits
from unacorda.privacy.guarantees import PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.synthesis.charges import PureShares
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import synthesize
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import Candidate, CodedRows, PrivateTables

K = 3
SIZES = (2, 2)
BASE = [[0, 0]] * 4 + [[1, 1]] * 3 + [[0, 1]]
Rows = list[list[int]]
Pair = tuple[Rows, Rows]
Attack = Callable[[Rows, Pair, "Target", int, int], NDArray[Any]]
"""From rows, both tables, what is attacked, how many releases, a seed: numbers of each release."""


@dataclass(frozen=True)
class Target:
    """neighbors: the relation; unit: for how many rows of one noise is made; epsilon: claimed."""

    neighbors: Neighbors
    unit: int
    epsilon: Fraction


def pair(neighbors: Neighbors, rows: int) -> Pair:
    """Tables that differ by one unit, which has this many rows."""
    with_unit = BASE + [[1, 0]] * rows
    return with_unit, BASE + [[0, 1]] * rows if neighbors is ReplaceOne else BASE


def private(rows: Rows, target: Target, seed: int) -> PrivateTables:
    return PrivateTables(
        CodedRows(rows, sizes=SIZES),
        sensitivity=CountSensitivity(rows=target.unit, neighbors=target.neighbors),
        shares=PureShares(total=target.epsilon),
        bits=SeededBits(seed),
    )


def wholes(rows: Rows, tables: Pair, target: Target, count: int, seed: int) -> NDArray[Any]:
    """Measured counts, those of the model, the first choice, the rows and their errors."""
    plan = SynthesisPlan(domain=domain_of(SIZES), workload=2, report=Fraction(1, 4))
    found = []
    for one in range(count):
        made = synthesize(
            CodedRows(rows, sizes=SIZES),
            plan,
            budget=PureDP(target.epsilon),
            rows_per_unit=target.unit,
            neighbors=target.neighbors,
            bits=SeededBits(seed * count + one),
        )
        assert made.errors is not None
        drawn = CodedRows(made.codes, sizes=SIZES).counts((0, 1)).ravel()
        singles = [made.marginals[(place,)].counts for place in range(2)]
        first = len(made.rounds[0].tables[0]) if made.rounds else 0
        found.append(
            [*singles[0], *singles[1], *made.table("c0", "c1").counts.ravel(), *drawn]  # noqa: RUF005
            + [made.row_count, made.errors.mean.error, first, len(made.rounds)]
        )
    return np.array(found, float)


def choices(rows: Rows, tables: Pair, target: Target, count: int, seed: int) -> NDArray[Any]:
    """Which of two candidates is chosen, of which the unit lifts one and lowers the other.

    Each expects one of the neighboring tables, so that its score is 0 there, and all that the rows
    of the unit can make of it on the other.
    """
    given = [
        Candidate(columns=(0, 1), weight=1, expected=counts.astype(float))
        for counts in (CodedRows(table, sizes=SIZES).counts((0, 1)) for table in tables)
    ]
    found = []
    for one in range(count):
        (picked,) = private(rows, target, seed * count + one).choose(
            given, count=1, amount=target.epsilon, apart=lambda _, __: True
        )
        found.append(float(picked is given[0]))
    return np.array(found)


def errors(rows: Rows, tables: Pair, target: Target, count: int, seed: int) -> NDArray[Any]:
    """The distances of all three tables from those of one of the neighbors, and their sum."""
    public = CodedRows(tables[1], sizes=SIZES)
    asked = [(c, public.counts(c)) for c in [(0,), (1,), (0, 1)]]
    found = [
        private(rows, target, seed * count + one).distances(asked, amount=target.epsilon)[0]
        for one in range(count)
    ]
    return np.array([[*one, sum(one)] for one in found], float)


@dataclass(frozen=True)
class Trial:
    """attack: how; runs: its releases of each table, for learning and for the verdict alike;
    epsilon: what is claimed; rows: of a unit, where the noise is made for one.
    """

    attack: Attack
    runs: int
    epsilon: Fraction
    rows: int


TRIALS = {
    "choices": Trial(choices, 600, Fraction(2), K),
    "errors": Trial(errors, 1000, Fraction(2), K),
    "wholes": Trial(wholes, 100, Fraction(1, 2), 20 * K),
}


def audited(name: str, neighbors: Neighbors, *, unit: int, rows: int) -> Finding:
    """What a search finds where noise is made for `unit` rows of a unit that has `rows`."""
    trial = TRIALS[name]
    target = Target(neighbors, unit, trial.epsilon)
    tables, seeds = pair(neighbors, rows), itertools.count(1)

    def sample(one: Rows, count: int) -> Any:
        return trial.attack(one, tables, target, count, next(seeds))

    claim, runs = PureDP(trial.epsilon), trial.runs
    return search(sample, [tables], claim=claim, explore=runs, confirm=runs)


CASES = list(itertools.product(TRIALS, [AddRemove, ReplaceOne]))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("name", "neighbors"), mostly_slow(CASES))
def test_no_attack_breaks_the_promise(name: str, neighbors: Neighbors) -> None:
    """A claim that holds is called violated with probability 1e-6."""
    found = audited(name, neighbors, unit=K, rows=K)
    assert not found.violated, repr(found)


@pytest.mark.long
@pytest.mark.parametrize(("name", "neighbors"), mostly_slow(CASES))
def test_noise_made_for_one_row_of_a_unit_is_found(name: str, neighbors: Neighbors) -> None:
    found = audited(name, neighbors, unit=1, rows=TRIALS[name].rows)
    assert found.violated, repr(found)
