"""Every person keeps so many groups, so many rows in each and in all, against a plain rewrite."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from tests.query.neighbor_tables import statement_of
from tests.support.cases import in_subtests
from tests.support.seams import Query, Reach
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter

Limits = Mapping[str, int]

REGIONS = ("a", "b", None, "c", "d")
LIMITS: Sequence[Limits] = [
    {"max_groups": 2, "max_rows_per_group": 3},
    {"max_groups": 1, "max_rows_per_group": 1},
    {"max_groups": 4, "max_rows_per_group": 40},
    {"max_groups": 9, "max_rows_per_group": 2},
    {"max_rows": 7, "max_groups": 2},
    {"max_rows": 2, "max_groups": 9},
    {"max_rows": 9, "max_rows_per_group": 2},
    {"max_rows": 3, "max_rows_per_group": 7},
    {"max_rows": 5, "max_groups": 2, "max_rows_per_group": 3},
    {"max_rows": 50, "max_groups": 3, "max_rows_per_group": 4},
    {"max_rows": 3, "max_groups": 3, "max_rows_per_group": 1},
    {"max_rows": 1, "max_groups": 1, "max_rows_per_group": 1},
]


def salts(count: int) -> list[int]:
    words = SeededBits(77).words(2 * count).tolist()
    return [high << 64 | low for high, low in zip(words[::2], words[1::2], strict=True)]


def table(people: int, seed: int) -> list[tuple[int | None, str | None, float | None]]:
    """Lines (id, region, x): identical ones, absent values, ids and regions, other regions."""
    source = random.Random(seed)
    lines: list[tuple[int | None, str | None, float | None]] = []
    for person in [*range(people), None]:
        home = source.sample([*REGIONS, "other"], source.randint(1, 6))
        for _ in range(source.choice([1, 2, 3, 5, 8, 40])):
            x = source.choice([None, 1.0, 1.0, 1.0, source.gauss(0, 5)])
            lines.append((person, source.choice(home), x))
    source.shuffle(lines)
    return lines


def session_of(lines: Sequence[tuple[Any, Any, Any]], limits: Limits) -> Any:
    ids, region, x = zip(*lines, strict=True)
    columns = {
        "id": ids,
        "region": pa.array(region, type=pa.string()),
        "x": pa.array(x, type=pa.float64()),
    }
    unit = unacorda.Person("id", **dict[str, Any](limits))
    return unacorda.Session({"t": pa.table(columns)}, unit=unit, budget=unacorda.PureDP(1))


def question(session: unacorda.Session, *, grouped: bool = True) -> Query:
    start = session.table("t")
    if grouped:
        start = start.group_by("region", keys=REGIONS)
    return start.agg(n=unacorda.count(), total=unacorda.sum("x", -1000, 1000))


def kept(session: unacorda.Session, query: Query, *, salt: int) -> Counter[Any]:
    """The rows that count: (cell, value, id)."""
    statement, engine = statement_of(session, query, salt=salt), session._engine
    cursor: Any = engine._connection.cursor()  # type: ignore[attr-defined]
    if statement.keys is not None:
        made = f"CREATE OR REPLACE TEMP TABLE keys AS {statement.keys.sql}"
        cursor.execute(made, list(statement.keys.columns))
    return Counter(cursor.execute(statement.bounded).fetchall())


class Rewrite:
    """The same choice in plain Python: exact fractions, sorting, and DuckDB's hash of a tuple."""

    def __init__(self, *, salt: int) -> None:
        self.salt = salt
        self._connection = duckdb.connect()

    def hash(self, person: int, cell: int | None, purpose: str | None) -> int:
        salt = self.salt
        if purpose is not None:
            digest = hashlib.sha256(salt.to_bytes(16, "big") + purpose.encode()).digest()
            salt = int.from_bytes(digest[:16], "big")
        at = "" if cell is None else f"{cell}::UTINYINT, "
        words = f"{salt >> 64}::UBIGINT, {salt % 2**64}::UBIGINT"
        (found,) = self._connection.execute(
            f"SELECT hash({person}::BIGINT, {at}{words})"
        ).fetchone() or (0,)
        return int(found)

    @staticmethod
    def sample(rows: list[Any], most: int, start: int) -> list[Any]:
        """k of n rows in order: so many of the first ones that floor(k x + u) says."""
        rows = sorted(rows, key=lambda row: [(part is None, part) for part in row])
        u, kept = (Fraction(start >> 44) + Fraction(1, 2)) / 2**20, []
        seen = 0
        for row, level in itertools.groupby(rows):
            before, seen = seen, seen + len(list(level))
            upto, since = (math.floor(most * Fraction(n, len(rows)) + u) for n in (seen, before))
            kept += [row] * min(upto - since, seen - before)
        return kept

    def bound(self, rows: list[tuple[int, float | None]], person: int, limits: Limits) -> list[Any]:
        """One person's rows (cell, x) that stay."""
        m, r, k = (limits.get(n) for n in ("max_groups", "max_rows_per_group", "max_rows"))
        cells = sorted({c for c, _ in rows}, key=lambda c: (self.hash(person, c, "groups"), c))
        if m is not None and not (k is not None and m >= k):
            cells = cells[:m]
        left = []
        for cell in cells:
            own = [row for row in rows if row[0] == cell]
            if r is not None and not (k is not None and r >= k):
                own = self.sample(own, r, self.hash(person, cell, "rows in a group"))
            left += own
        return left if k is None else self.sample(left, k, self.hash(person, None, None))


@pytest.mark.long
@pytest.mark.parametrize("limits", mostly_slow(LIMITS, quick=2), ids=str)
def test_the_rows_that_stay_are_those_of_a_plain_rewrite(limits: Limits) -> None:
    lines = table(40, seed=len(str(limits)))
    for grouped, salt in zip((True, False), salts(2), strict=True):
        rewrite = Rewrite(salt=salt)
        own: dict[int, list[tuple[int, float | None]]] = {}
        for person, region, x in lines:
            if person is not None and (region in REGIONS or not grouped):
                cell = REGIONS.index(region) if grouped else 0
                own.setdefault(person, []).append((cell, x))
        expected = Counter(
            (cell, x, person)
            for person, rows in own.items()
            for cell, x in rewrite.bound(rows, person, limits)
        )
        with session_of(lines, limits) as session:
            assert kept(session, question(session, grouped=grouped), salt=salt) == expected


@pytest.mark.parametrize("limits", mostly_slow(LIMITS, quick=4), ids=str)
def test_no_person_passes_a_limit_and_none_loses_more_than_it_asks(limits: Limits) -> None:
    lines = table(150, seed=5)
    m, r, k = (limits.get(n, 10**6) for n in ("max_groups", "max_rows_per_group", "max_rows"))
    with session_of(lines, limits) as session:
        reach = Reach.of(session.unit, cells=len(REGIONS))
        for salt in salts(3):
            found = kept(session, question(session), salt=salt)
            for person in range(150):
                own = Counter(region for i, region, _ in lines if i == person and region in REGIONS)
                cells: Counter[int] = Counter()
                for (cell, _, who), copies in found.items():
                    cells[cell] += copies if who == person else 0
                cells = +cells
                assert len(cells) <= reach.touched <= min(m, k)
                assert max(cells.values(), default=0) <= reach.per_cell <= min(r, k)
                assert cells.total() <= reach.rows <= min(k, m * r)
                if k > 10**5:  # no third step: what the first two leave is all there
                    assert len(cells) == min(m, len(own))
                    for cell, copies in cells.items():
                        assert copies == min(r, own[REGIONS[cell]])


@pytest.mark.long
def test_each_group_is_chosen_as_often_and_people_choose_apart() -> None:
    """Of 5 groups one stays: over people and salts each the same number of times (p > 1e-7)."""
    people = 400
    lines = [(person, region, 1.0) for person in range(people) for region in REGIONS]
    seen, pairs = np.zeros(5), np.zeros((5, 5))
    with session_of(lines, {"max_groups": 1, "max_rows_per_group": 1}) as session:
        for salt in salts(50):
            at = {person: cell for cell, _, person in kept(session, question(session), salt=salt)}
            choice = np.array([at[person] for person in range(people)])
            seen += np.bincount(choice, minlength=5)
            np.add.at(pairs, (choice[::2], choice[1::2]), 1)
    assert stats.chisquare(seen).pvalue > 1e-7
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-7


@pytest.mark.long
def test_which_group_is_chosen_tells_nothing_of_which_rows() -> None:
    """Of 2 groups one stays, of 2 rows in it one: all four equally often (p > 1e-7)."""
    lines = [(i, region, x) for i in range(500) for region in ("a", "b") for x in (0.0, 1.0)]
    seen: Counter[tuple[int, float]] = Counter()
    with session_of(lines, {"max_groups": 1, "max_rows_per_group": 1}) as session:
        for salt in salts(20):
            for cell, x, _ in kept(session, question(session), salt=salt):
                seen[cell, x] += 1
    assert len(seen) == 4
    assert stats.chisquare(list(seen.values())).pvalue > 1e-7


@pytest.mark.parametrize(
    "people",
    [
        ["1", "01", " 1", "", "a", "A", "á", "a\u0301", "ß", "ss"],
        [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1],
        ["a" * 5_000, "a" * 5_001, "a\x00", "a"],
    ],
    ids=["text", "whole numbers", "long text"],
)
def test_two_people_never_share_a_limit(people: list[Any]) -> None:
    lines = [(i, region, float(x)) for i in people for region in REGIONS for x in range(4)]
    with session_of(lines, {"max_groups": 2, "max_rows_per_group": 3}) as session:
        for salt in salts(5):
            found = kept(session, question(session), salt=salt)
            rows = Counter(who for _, _, who in found.elements())
            assert rows == dict.fromkeys(people, 6)
            groups = Counter(who for _, who in {(cell, who) for cell, _, who in found})
            assert groups == dict.fromkeys(people, 2)


@pytest.mark.long
def test_rows_of_others_do_not_matter_nor_does_their_order() -> None:
    lines = table(100, seed=9)
    limits = {"max_rows": 5, "max_groups": 2, "max_rows_per_group": 3}
    fewer = [line for line in reversed(lines) if line[0] is not None and line[0] % 3]
    with session_of(lines, limits) as all_of, session_of(fewer, limits) as some:
        for salt in salts(3):
            found = kept(all_of, question(all_of), salt=salt)
            others = Counter({row: n for row, n in found.items() if row[2] % 3})
            assert others == kept(some, question(some), salt=salt)


@in_subtests(
    ("limits", "named"),
    [
        ({}, "max_rows"),
        ({"max_groups": 3}, "max_rows"),
        ({"max_rows_per_group": 3}, "max_rows"),
        ({"max_groups": 10**6, "max_rows_per_group": 2}, "max_groups"),
        ({"max_rows": 1, "max_groups": 0}, "max_groups"),
        ({"max_rows": 1, "max_rows_per_group": -2}, "max_rows_per_group"),
        ({"max_rows": 1, "max_groups": 1.5}, "max_groups"),
        ({"max_groups": True, "max_rows_per_group": 1}, "max_groups"),
        ({"max_rows": 2_000_000}, "max_rows"),
        ({"max_rows": 1, "max_groups": "three"}, "max_groups"),
    ],
    ids=str,
)
def test_limits_that_bound_nothing_are_refused(limits: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        unacorda.Person("id", **limits)


def test_the_unit_says_its_limits() -> None:
    every = unacorda.Person("id", max_rows=5, max_groups=1, max_rows_per_group=3)
    assert str(every) == (
        "a person (id) with at most 1 group, 3 rows in each group and 5 rows in all in a question"
    )
    assert eval(repr(every), {"Person": unacorda.Person, "AddRemove": unacorda.AddRemove}) == every
    assert every != unacorda.Person("id", max_rows=5, max_groups=1)
    assert hash(every) == hash(
        unacorda.Person("id", max_rows=5, max_groups=1, max_rows_per_group=3)
    )


def test_an_explanation_tells_the_steps_that_are_taken() -> None:
    lines = table(3, seed=1)
    for limits, told in (
        (
            {"max_rows": 5, "max_groups": 2, "max_rows_per_group": 3},
            ["2 groups", "3 rows", "5 rows"],
        ),
        ({"max_groups": 2, "max_rows_per_group": 3}, ["2 groups", "3 rows"]),
        ({"max_rows": 2, "max_groups": 7}, ["2 rows"]),
    ):
        with session_of(lines, limits) as session:
            page = session.explain(question(session), budget=unacorda.PureDP(1)).rows
            kept_lines = [line for line in page if line.startswith("keep at most")]
            assert len(kept_lines) == len(told)
            for line, part in zip(kept_lines, told, strict=True):
                assert part in line
