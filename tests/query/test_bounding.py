"""Every person keeps min(k, n) of her rows, each with the same chance, and nobody else's matter."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime
import random
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from tests.query.neighbor_tables import statement_of, tallies_of
from tests.support.cases import in_subtests
from tests.support.seams import Query
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits

K = 5


def salts(count: int) -> list[int]:
    words = SeededBits(2024).words(2 * count).tolist()
    return [high << 64 | low for high, low in zip(words[::2], words[1::2], strict=True)]


def session_of(columns: dict[str, Any], *, k: int = K, **options: Any) -> unacorda.Session:
    ids = options.pop("ids", "id")
    return unacorda.Session(
        {"t": pa.table(columns)},
        unit=unacorda.Person(ids, max_rows=k),
        budget=unacorda.PureDP(1),
        **options,
    )


def question(session: unacorda.Session) -> Query:
    return session.table("t").agg(n=unacorda.count(), total=unacorda.sum("x", -1000, 1000))


def kept(
    session: unacorda.Session, *, salt: int, query: Query | None = None
) -> list[tuple[Any, ...]]:
    """The rows that count: cell, values, ids."""
    bounded = statement_of(session, query or question(session), salt=salt).bounded
    engine: Any = session._engine
    found: list[tuple[Any, ...]] = engine._connection.cursor().execute(bounded).fetchall()
    return found


def rows_by_person(session: unacorda.Session, *, salt: int) -> Counter[Any]:
    return Counter(row[-1] for row in kept(session, salt=salt))


def heavy_table(people: int, seed: int) -> dict[str, Any]:
    """People with 1 to 60 rows, some of them identical, in random order."""
    source = random.Random(seed)
    lines = [
        (person, float(source.choice([7, index, source.gauss(0, 100)])), source.choice("abc"))
        for person in range(people)
        for index in range(source.choice([1, 2, K - 1, K, K + 1, 2 * K, 60]))
    ]
    source.shuffle(lines)
    ids, x, region = zip(*lines, strict=True)
    return {"id": ids, "x": x, "region": region}


@pytest.mark.parametrize("k", mostly_slow([1, 2, 3, 7, 30, 59, 61], quick=5))
def test_exactly_the_lesser_of_k_and_n_rows_are_kept(k: int) -> None:
    columns = heavy_table(400, seed=k)
    owned = Counter(columns["id"])
    with session_of(columns, k=k) as session:
        for salt in [*salts(4), 0, 2**128 - 1]:
            found = rows_by_person(session, salt=salt)
            assert found == {person: min(k, rows) for person, rows in owned.items()}


@pytest.mark.long
def test_the_number_is_exact_where_floats_are_coarse() -> None:
    """Many rows and many kept: the arithmetic of the choice is in doubles."""
    sizes = [(99_991, 49_999), (100_000, 99_999), (65_537, 65_536), (70_000, 1), (70_001, 69_999)]
    for rows, k in sizes:
        with session_of({"id": np.zeros(rows, int), "x": np.arange(rows) % 977.0}, k=k) as session:
            query = session.table("t").agg(n=unacorda.count())
            for salt in salts(6):
                tallies = tallies_of(session, query, salt=salt)
                assert tallies.sums == ([k],)


def test_only_rows_that_exist_are_kept_and_none_twice() -> None:
    columns = heavy_table(300, seed=5)
    owned = Counter(zip(columns["x"], columns["id"], strict=True))
    with session_of(columns) as session:
        for salt in salts(3):
            found = Counter((row[1], row[2]) for row in kept(session, salt=salt))
            assert found <= owned


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "k"),
    mostly_slow(
        [
            (list(range(7)), 3),
            pytest.param(list(range(23)), 5, marks=pytest.mark.slow),
            ([1, 1, 1, 1, 1, 2, 3], 3),  # identical rows beside rare ones
            pytest.param([0] * 20 + [1], 4, marks=pytest.mark.slow),
            ([None, None, 2, 3, 3], 2),
            pytest.param([float(2**i) for i in range(11)], 10, marks=pytest.mark.slow),
        ]
    ),
)
def test_every_row_has_the_same_chance(values: list[float | None], k: int) -> None:
    """Over salts, for each value of one person: kept k / n times as often as she has it.

    Binomial-like counts, by Hoeffding's bound over independent salts: with N salts the mean of a
    variable in [0, m] strays by more than m sqrt(ln(2 / p) / (2 N)) with probability at most p.
    40 people are pooled as blocks of one salt. p = 1e-8 for each of at most 23 values.
    """
    people, count = 40, 300
    ids = np.repeat(np.arange(people), len(values))
    every = values * people
    owned = Counter(values)
    seen: Counter[float | None] = Counter()
    single: Counter[float | None] = Counter()
    with session_of({"id": ids, "x": pa.array(every, type=pa.float64())}, k=k) as session:
        for salt in salts(count):
            for _, value, person in kept(session, salt=salt):
                seen[value] += 1
                single[value] += person == 0
    n = len(values)
    for value, copies in owned.items():
        stray = min(copies, k) * np.sqrt(np.log(2 / 1e-8) / (2 * count))
        assert abs(single[value] / count - copies * k / n) < stray
        # People are told apart by independent-looking hashes, so that pooling is far sharper; its
        # chi-square over salts and people is a check of the mixing under these fixed salts.
        mean = seen[value] / (count * people)
        spread = min(copies, k) / np.sqrt(count * people)
        assert abs(mean - copies * k / n) < 6 * spread


@pytest.mark.slow
def test_different_people_choose_apart() -> None:
    """Two people with the same rows keep the same rows only as often as chance has it.

    Under this design a person's choice is a number u in (0, 1); where all had the same one, the
    variance of the total over people would grow with their square.
    """
    people, n, count = 200, 10, 200
    table = {
        "id": np.repeat(np.arange(people), n),
        "x": np.tile(np.arange(float(n)), people),
    }
    with session_of(table, k=1) as session:
        firsts = np.array(
            [sum(row[1] == 0.0 for row in kept(session, salt=salt)) for salt in salts(count)]
        )
    variance = people * (1 / n) * (1 - 1 / n)
    ratio = firsts.var(ddof=1) * (count - 1) / variance
    low, high = stats.chi2.ppf([1e-8, 1 - 1e-8], count - 1)
    # Binomial counts of mean 20 have tails close to the normal's; 1.3 is room for the rest.
    assert low / 1.3 < ratio < high * 1.3


@pytest.mark.long
def test_computing_again_gives_the_same_rows() -> None:
    columns = heavy_table(300, seed=9)
    with session_of(columns) as first, session_of(columns) as second:
        for salt in salts(3):
            again = [Counter(kept(session, salt=salt)) for session in (first, first, second)]
            assert again[0] == again[1] == again[2]
        assert Counter(kept(first, salt=1)) != Counter(kept(first, salt=2))


@pytest.mark.long
def test_threads_and_order_of_the_table_do_not_matter() -> None:
    columns = heavy_table(3_000, seed=11)
    order = np.random.default_rng(1).permutation(len(columns["id"]))
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    with (
        session_of(columns, threads=1) as one,
        session_of(columns, threads=2) as two,
        session_of(shuffled, threads=2) as other,
    ):
        for salt in salts(3):
            found = [Counter(kept(session, salt=salt)) for session in (one, two, other)]
            assert found[0] == found[1] == found[2]


def test_rows_without_an_id_are_dropped() -> None:
    table = {
        "id": [1, None, 1, None, 2],
        "part": ["a", "a", None, None, "b"],
        "x": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    with session_of(table) as session:
        assert sorted(row[1] for row in kept(session, salt=3)) == [1.0, 3.0, 5.0]
    with session_of(table, ids=("id", "part")) as session:
        assert sorted(row[1] for row in kept(session, salt=3)) == [1.0, 5.0]


def test_float_ids_count_only_where_they_are_whole() -> None:
    odd = [0.5, np.nan, np.inf, -np.inf, 2.0**53, -(2.0**53), 1e308, 5e-324, None]
    good = [1.0, 1.0, -0.0, 0.0, 2.0**53 - 1, -7.0]
    table = {"id": pa.array(odd + good, type=pa.float64()), "x": [1.0] * 15}
    with session_of(table) as session:
        assert rows_by_person(session, salt=3) == {1: 2, 0: 2, 2**53 - 1: 1, -7: 1}
    single = {"id": pa.array([1.0, 1.5, 16777217.0], type=pa.float32()), "x": [1.0] * 3}
    with session_of(single) as session:
        assert rows_by_person(session, salt=3) == {1: 1, 16777216: 1}


PEOPLE: dict[str, list[Any]] = {
    "text": [
        "1",
        "01",
        " 1",
        "1 ",
        "1.0",
        "",
        "a",
        "A",
        "á",
        "a\u0301",
        "é",
        "e\u0301",
        "ß",
        "ss",
        "ſ",
    ],
    "long text": ["a" * 11, "a" * 12, "a" * 13, "a" * 12 + "b", "x" * 5_000, "x" * 5_001],
    "text with zeros": ["a", "a\x00", "a\x00b", "\x00"],
    "whole numbers": [0, 1, -1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1],
    "decimals": [Decimal("1.00"), Decimal("1.01"), Decimal("10.00"), Decimal("-1.00")],
    "dates": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(1, 1, 1)],
}


@in_subtests("kind", PEOPLE)
def test_two_people_never_merge(kind: str) -> None:
    """Ids are told apart exactly: each keeps her own rows, and all are counted."""
    people = PEOPLE[kind]
    table = {"id": [person for person in people for _ in range(3)], "x": [1.0] * 3 * len(people)}
    with session_of(table, k=2) as session:
        assert rows_by_person(session, salt=3) == dict.fromkeys(people, 2)
        query = session.table("t").agg(people=unacorda.count_people())
        tallies = tallies_of(session, query, salt=3)
        assert tallies.sums == ([len(people)],)


@pytest.mark.long
def test_uuids_and_several_columns_tell_people_apart(tmp_path: Path) -> None:
    ids = [uuid.UUID(int=value) for value in (1, 2, 2**127)]
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t (id UUID, x DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, 1)", [(i,) for i in ids for _ in range(3)])
    with unacorda.Session(
        {"t": f"{tmp_path / 't.duckdb'}::t"},
        unit=unacorda.Person("id", max_rows=2),
        budget=unacorda.PureDP(1),
    ) as session:
        assert rows_by_person(session, salt=3) == dict.fromkeys(ids, 2)
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("bc", "a")]
    first, second = zip(*[pair for pair in pairs for _ in range(3)], strict=True)
    table = {"a": first, "b": second, "x": [1.0] * 15}
    with session_of(table, k=2, ids=("a", "b")) as session:
        found = Counter(row[-2:] for row in kept(session, salt=3))
        assert found == dict.fromkeys(pairs, 2)


COLLATED = """
    CREATE TABLE t (id VARCHAR COLLATE NOCASE, region VARCHAR COLLATE NOACCENT.NOCASE, x DOUBLE);
    INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN 'A' ELSE 'a' END,
                         CASE WHEN i % 4 < 2 THEN 'X' ELSE 'x' END, i FROM range(40) AS r(i)
"""


@pytest.fixture
def collated(tmp_path: Path) -> str:
    """A table whose columns say themselves that capitals and accents do not matter."""
    with duckdb.connect(tmp_path / "c.duckdb") as connection:
        connection.execute(COLLATED)
    return f"{tmp_path / 'c.duckdb'}::t"


@pytest.mark.long
def test_a_collation_of_the_source_merges_no_people(collated: str) -> None:
    """Of two people that were one to the window and two to the hash, too many rows stayed."""
    with unacorda.Session(
        {"t": collated}, unit=unacorda.Person("id", max_rows=3), budget=unacorda.PureDP(1)
    ) as session:
        for salt in salts(20):
            assert rows_by_person(session, salt=salt) == {"A": 3, "a": 3}
        query = session.table("t").agg(people=unacorda.count_people())
        tallies = tallies_of(session, query, salt=3)
        assert tallies.sums == ([2],)


def test_a_collation_of_the_source_puts_no_row_under_two_keys(collated: str) -> None:
    with unacorda.Session(
        {"t": collated}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
    ) as session:
        query = (
            session.table("t").group_by("region", keys=["X", "x", "\u1e8b"]).agg(n=unacorda.count())
        )
        tallies = tallies_of(session, query, salt=3)
        assert dict(zip(tallies.cells.tolist(), tallies.sums[0], strict=True)) == {0: 20, 1: 20}
        derived = session.table("t").derive(same="region").group_by("same", keys=["X", "x"])
        query = derived.agg(n=unacorda.count())
        tallies = tallies_of(session, query, salt=3)
        assert dict(zip(tallies.cells.tolist(), tallies.sums[0], strict=True)) == {0: 20, 1: 20}
