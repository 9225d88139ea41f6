"""Sub-sessions: one person is in few parts, for good, and the parent owes for the largest."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.query.neighbor_tables import statement_of
from tests.support.cases import in_subtests
from tests.support.seams import Release, open_ledger
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import BudgetExceeded, InvalidParameter, WrongUnit
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors

PARTS = ["a", "b", "c", None]


def people_table(count: int = 40, seed: int = 1) -> pa.Table:
    """Everybody has rows in several parts, the first in every one, and some outside."""
    source = random.Random(seed)
    lines = [{"id": 0, "part": part, "x": 1.0} for part in [*PARTS, "other"]] * 2
    for person in range(1, count):
        for _ in range(source.randint(1, 6)):
            part = source.choice([*PARTS, "other"])
            lines.append({"id": person, "part": part, "x": float(source.randint(0, 3))})
    lines += [{"id": None, "part": "a", "x": 1.0}]
    return pa.Table.from_pylist(lines)


def opened(
    tables: Mapping[str, Any] | None = None, *, budget: Any = None, **options: Any
) -> unacorda.Session:
    neighbors = options.pop("neighbors", unacorda.AddRemove)
    unit = options.pop("unit", None) or unacorda.Person("id", max_rows=50, neighbors=neighbors)
    return unacorda.Session(
        dict(tables or {"t": people_table()}),
        unit=unit,
        budget=unacorda.PureDP(100) if budget is None else budget,
        **options,
    )


def people_of(session: unacorda.Session, table: str = "t", *, salt: int = 3) -> Counter[Any]:
    """How many rows of everyone a session's question about all rows reads."""
    text = statement_of(session, session.table(table).agg(n=unacorda.count()), salt=salt).bounded
    cursor = session._engine._connection.cursor()  # type: ignore[attr-defined]
    return Counter(row[-1] for row in cursor.execute(text).fetchall())


def rows_of(table: pa.Table, part: Any) -> Counter[Any]:
    return Counter(
        line["id"] for line in table.to_pylist() if line["part"] == part and line["id"] is not None
    )


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_a_person_is_in_few_parts_for_good(most: int) -> None:
    table = people_table()
    with opened() as session:
        parts = session.split("part", keys=PARTS, max_parts=most, budget=unacorda.PureDP(1))
        found = {key: people_of(part) for key, part in parts.items()}
        for key, part in parts.items():
            assert people_of(part, salt=99) == found[key]  # the salt of a question is another one
            inside = rows_of(table, key)
            assert all(rows == inside[who] for who, rows in found[key].items())  # all of hers
        has = {who: sum(who in rows_of(table, key) for key in PARTS) for who in range(40)}
        where = Counter(who for people in found.values() for who in people)
        assert where == Counter({who: min(n, most) for who, n in has.items() if n})
        assert where[0] == most  # who owns rows in every part
        again = session.split("part", keys=PARTS, max_parts=most, budget=unacorda.PureDP(1))
        drawn = {key: people_of(part) for key, part in again.items()}
        if most in (1, 4):
            assert (drawn == found) is (most == 4)  # another split draws anew


def test_every_part_is_as_likely() -> None:
    lines = [{"id": who, "part": part, "x": 1.0} for who in range(3_000) for part in PARTS]
    with opened({"t": pa.Table.from_pylist(lines)}, bits=unacorda.SeededBits(5)) as session:
        parts = session.split("part", keys=PARTS, budget=unacorda.PureDP(1))
        counts = [len(people_of(part)) for part in parts.values()]
        assert sum(counts) == 3_000
        assert all(abs(count - 750) < 160 for count in counts)  # 6.7 standard deviations


@pytest.mark.long
@pytest.mark.parametrize("seed", mostly_slow(range(20), quick=3))
def test_one_person_changes_few_parts(seed: int) -> None:
    """Nobody else is bound to another part for her, in any table."""
    whole, other = people_table(seed=seed), people_table(count=25, seed=seed + 100)
    who = random.Random(seed).choice([0, 1, 2, 3])
    fewer = [t.filter(pa.compute.field("id") != who) for t in (whole, other)]
    fewer = [pa.concat_tables([t, pa.table({"id": pa.array([None], t["id"].type), "part": ["a"],
             "x": [1.0]})]) for t in fewer]  # fmt: skip
    found = []
    for first, second in ((whole, other), fewer):
        small = second.set_column(0, "id", second["id"].cast(pa.int8()))
        with opened({"t": first, "u": small}, bits=unacorda.SeededBits(seed)) as session:
            parts = session.split("part", keys=PARTS, max_parts=2, budget=unacorda.PureDP(1))
            found.append(
                {(k, t): people_of(part, t) for k, part in parts.items() for t in ("t", "u")}
            )
    before, after = found
    changed = {key for (key, _), people in before.items() if who in people}
    assert len(changed) <= 2
    for place, people in before.items():
        assert after[place] == Counter({p: n for p, n in people.items() if p != who})
    # Over both tables together she is bound once.
    for person in range(25):
        inside = {key for (key, _), people in before.items() if person in people}
        assert len(inside) <= 2


PRICES: list[tuple[Neighbors, Guarantee, Guarantee, Guarantee]] = [
    (unacorda.AddRemove, unacorda.PureDP(100), unacorda.PureDP(3), unacorda.PureDP(3)),
    (unacorda.ReplaceOne, unacorda.PureDP(100), unacorda.PureDP(3), unacorda.PureDP(6)),
    (unacorda.AddRemove, unacorda.ZCDP(100), unacorda.ZCDP(3), unacorda.ZCDP(3)),
    (unacorda.ReplaceOne, unacorda.ZCDP(100), unacorda.ZCDP(3), unacorda.ZCDP(12)),
    (unacorda.ReplaceOne, unacorda.GDP(100), unacorda.GDP(3), unacorda.GDP(6)),
    (
        unacorda.AddRemove,
        unacorda.ApproxDP(100, 0.5),
        unacorda.ApproxDP(3, 0),
        unacorda.ApproxDP(3, 0),
    ),
    (
        unacorda.ReplaceOne,
        unacorda.ApproxDP(100, 0.5),
        unacorda.ApproxDP(3, 0),
        unacorda.ApproxDP(6, 0),
    ),
]


@pytest.mark.long
@in_subtests(("neighbors", "budget", "asked", "owed"), PRICES)
def test_what_one_question_costs_the_parent(
    neighbors: Neighbors, budget: Guarantee, asked: Guarantee, owed: Guarantee
) -> None:
    with opened(budget=budget, neighbors=neighbors) as session:
        parts = session.split("part", keys=PARTS, budget=budget / 2)
        for part in parts.values():
            query = part.table("t").agg(n=unacorda.count())
            release = part.evaluate(query, budget=asked)
            assert query.unit.neighbors is unacorda.AddRemove
            assert all(a <= b for a, b in zip(release.charge.additive, asked.additive, strict=True))
            # All parts cost as much, which is owed once.
            spent = zip(session.spent.additive, owed.additive, strict=True)
            assert all(0.99 * b <= a <= b for a, b in spent)


@pytest.mark.long
@pytest.mark.parametrize("most", mostly_slow([1, 2]))
def test_the_parent_owes_the_largest_spends(most: int) -> None:
    source = random.Random(most)
    with opened(bits=unacorda.SeededBits(2)) as session:
        first = session.split("part", keys=PARTS, max_parts=most, budget=unacorda.PureDP(90))
        within = first["a"].split("x", keys=[0, 1], max_parts=1, budget=unacorda.PureDP(50))
        spent: dict[Any, Fraction] = dict.fromkeys(PARTS, Fraction(0))
        inner: dict[Any, Fraction] = dict.fromkeys([0, 1], Fraction(0))
        for _ in range(30):
            price = Fraction(source.randint(1, 20), 10)
            nested = source.random() < 0.4
            key: Any = source.choice([0, 1]) if nested else source.choice(PARTS)
            part = within[key] if nested else first[key]
            part.evaluate(part.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(price))
            if nested:
                before = max(inner.values())
                inner[key] += price
                spent["a"] += max(inner.values()) - before
            else:
                spent[key] += price
            owed = sum(sorted(spent.values())[-most:], Fraction(0))
            assert session.spent == unacorda.PureDP(owed)
            assert first["a"].spent == unacorda.PureDP(spent["a"])


def test_a_part_ends_at_its_limit_and_at_the_parents() -> None:
    with opened(budget=unacorda.PureDP(4)) as session:
        parts = session.split("part", keys=PARTS, budget=unacorda.PureDP(3))
        query = parts["a"].table("t").agg(n=unacorda.count())
        parts["a"].evaluate(query, budget=unacorda.PureDP(2))
        with pytest.raises(BudgetExceeded, match='part "a"'):
            parts["a"].evaluate(query, budget=unacorda.PureDP(2))
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(2))
        assert session.remaining == unacorda.PureDP(0)
        with pytest.raises(BudgetExceeded, match="'session'"):
            parts["a"].evaluate(query, budget=unacorda.PureDP(1))
        assert parts["a"].spent == unacorda.PureDP(2)
        # What another part spends up to that is owed already.
        other = parts["b"].table("t").agg(n=unacorda.count())
        parts["b"].evaluate(other, budget=unacorda.PureDP(2))
        assert (session.spent, parts["b"].remaining) == (unacorda.PureDP(4), unacorda.PureDP(1))
        with pytest.raises(WrongUnit):
            session.split("part", keys=PARTS, budget=unacorda.ZCDP(1))
        parts["b"].close()
        with pytest.raises(InvalidParameter, match="closed"):
            parts["b"].evaluate(other, budget=unacorda.PureDP(1))
        session.table("t")
    with pytest.raises(InvalidParameter, match="closed"):
        parts["c"].evaluate(
            parts["c"].table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1)
        )


def test_questions_stay_in_their_part() -> None:
    with opened({"t": people_table(), "plain": pa.table({"id": [1], "y": [2]})}) as session:
        parts = session.split("part", keys=PARTS, budget=unacorda.PureDP(3))
        whole = session.table("t").agg(n=unacorda.count())
        theirs = parts["b"].table("t").agg(n=unacorda.count())
        mixed = parts["a"].table("t").union(session.table("t")).agg(n=unacorda.count())
        for query in (whole, theirs, mixed):
            with pytest.raises(InvalidParameter, match="this session's table"):
                parts["a"].evaluate(query, budget=unacorda.PureDP(1))
        assert parts["a"].tables == ("t",)
        with pytest.raises(InvalidParameter, match="one of the session's tables: t"):
            parts["a"].table("plain")
        for arguments in (
            {"column": "nothing", "keys": ["a"]},
            {"column": "part", "keys": []},
            {"column": "part", "keys": ["a", "a"]},
            {"column": "part", "keys": ["a"], "max_parts": 0},
            {"column": "part", "keys": map(str, range(1_001))},
        ):
            with pytest.raises(InvalidParameter):
                session.split(**arguments, budget=unacorda.PureDP(1))
    with opened(unit=unacorda.Row()) as session:
        rows = session.split("part", keys=["a", None], budget=unacorda.PureDP(90))
        query = rows["a"].table("t").agg(n=unacorda.count())
        release = rows["a"].evaluate(query, budget=unacorda.PureDP(80))
        assert release.answers["n"].values[0] == people_table()["part"].to_pylist().count("a")
        with pytest.raises(InvalidParameter, match="a single row is in one part"):
            session.split("part", keys=["a"], max_parts=2, budget=unacorda.PureDP(1))


@pytest.mark.long
def test_releases_of_parts_are_verified(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'budget.db'}"
    with opened(ledger=place, dataset="d") as session:
        parts = session.split("part", keys=PARTS, budget=unacorda.PureDP(9))
        for key, price in (("a", 3), ("b", 2), ("a", 1)):
            query = parts[key].table("t").where("x > 0").agg(n=unacorda.count())
            text = parts[key].evaluate(query, budget=unacorda.PureDP(price)).to_json()
            ledger = open_ledger(place)
            found = Release.verify(text, ledger=ledger, dataset="d")
            assert found.holds, str(found)
            ledger.close()
            for old, new in (
                ('"key": "a"', '"key": "b"'),
                ('"max_parts": 1', '"max_parts": 2'),
                ('"part": "part"', '"part": "x"'),
            ):
                assert (old not in text) or not Release.verify(text.replace(old, new)).holds
        assert session.spent == unacorda.PureDP(4)


@pytest.mark.long
def test_parts_may_be_asked_from_several_threads() -> None:
    with opened(bits=unacorda.SeededBits(4)) as session:
        parts = session.split("part", keys=PARTS, max_parts=2, budget=unacorda.PureDP(50))

        def ask(part: unacorda.Session, times: int) -> None:
            for _ in range(times):
                query = part.table("t").agg(n=unacorda.count())
                part.evaluate(query, budget=unacorda.PureDP(1))

        threads = [
            threading.Thread(target=ask, args=(part, times))
            for times, part in enumerate(parts.values(), start=2)
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [part.spent for part in parts.values()] == [
            unacorda.PureDP(2 * n) for n in range(2, 6)
        ]
        assert session.spent == unacorda.PureDP(10 + 8)
