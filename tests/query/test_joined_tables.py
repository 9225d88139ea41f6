"""Rows of several tables are those that a plain loop over them makes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import exact
from tests.support.seams import Query
from tests.tiers import mostly_slow

import unacorda

Line = dict[str, Any]

VALUES: Mapping[str, tuple[Any, list[Any]]] = {
    "text": (pa.string(), ["a", "A", "", "é", "é", " a", "1", None]),
    "whole": (pa.int64(), [0, 1, -1, 7, 2**53, 2**53 + 1, -(2**63), None]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 7.0, None]),
    "day": (pa.date32(), [dt.date(2024, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "flag": (pa.bool_(), [True, False, None]),
}
"""Keys of every type that is compared, with those that meet nothing."""


def meets(one: Any, other: Any) -> bool:
    """Whether two keys are one."""
    if one is None or other is None:
        return False
    if isinstance(one, float | int) and not isinstance(one, bool):
        if math.isnan(one) or math.isnan(other):
            return False
        return abs(one) < 2**53 and abs(other) < 2**53 and float(one) == float(other)
    return bool(one == other)


def joined(
    left: list[Line], right: list[Line], on: Mapping[str, str], *, outer: bool
) -> Iterator[tuple[Line, Line]]:
    """Every pair of lines that meet; with `outer` also lines of the left that meet none."""
    for line in left:
        met = [r for r in right if all(meets(line[a], r[b]) for a, b in on.items())]
        if outer and not met:
            met = [dict.fromkeys(right[0] if right else ("weight", "place"))]
        yield from ((line, one) for one in met)


def draw(source: random.Random, kind: str, count: int, **others: Callable[[], Any]) -> list[Line]:
    choices = VALUES[kind][1]
    return [
        {"key": source.choice(choices), **{name: make() for name, make in others.items()}}
        for _ in range(count)
    ]


def arrow(lines: list[Line], kind: str, **types: Any) -> pa.Table:
    schema = pa.schema([("key", VALUES[kind][0]), *types.items()])
    return pa.Table.from_pylist(lines, schema=schema)


def opened(
    tables: Mapping[str, Any], *, rows: int | None = 100, **options: Any
) -> unacorda.Session:
    unit = unacorda.Row() if rows is None else unacorda.Person("id", max_rows=rows)
    return unacorda.Session(dict(tables), unit=unit, budget=unacorda.PureDP(1), **options)


def counted(session: unacorda.Session, query: Query) -> dict[str, list[Any]]:
    return exact(session, query.agg(n=unacorda.count(), s=unacorda.sum("weight", 0, 10)))


@pytest.mark.long
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("kind", mostly_slow(VALUES, quick=2))
def test_a_join_with_a_public_table(kind: str, outer: bool) -> None:
    source = random.Random(len(kind) + outer)
    for size in (0, 1, 8, 30):
        left = draw(source, kind, 40, id=lambda: source.randint(1, 9))
        right = draw(
            source,
            kind,
            size,
            weight=lambda: float(source.randint(0, 12)),
            place=lambda: source.choice("xyz"),
        )
        public = arrow(right, kind, weight=pa.float64(), place=pa.string())
        lines = list(joined(left, right, {"key": "key"}, outer=outer))
        most = max([1, *Counter(id(line) for line, _ in lines).values()])
        for rows in (None, 10_000):
            with opened(
                {"t": arrow(left, kind, id=pa.int64())}, rows=rows, public={"p": public}
            ) as session:
                how: Any = "left" if outer else "inner"
                query = session.table("t").join("p", "key", how=how)
                found = counted(session, query.group_by("place", keys=["x", "y", "z", None]))
                for at, place in enumerate(["x", "y", "z", None]):
                    own = [r for _, r in lines if r["place"] == place]
                    assert found["n"][at] == len(own)
                    weights = [min(r["weight"], 10) for r in own if r["weight"] is not None]
                    assert found["s"][at] == sum(weights)
                if rows is None:
                    # How many public rows share a key, whether or not a private one has it.
                    keys = [r["key"] for r in right]
                    shared = [sum(meets(k, other) for other in keys) for k in keys]
                    assert query.rows.most == max([1, *shared]) >= most


@pytest.mark.long
@pytest.mark.parametrize("outer", [False, True])
def test_several_columns_of_other_names_and_readings(tmp_path: Path, outer: bool) -> None:
    """Of text files, where a key may be a number on one side."""
    source = random.Random(5)
    left: list[Line] = [
        {
            "id": n % 7,
            "zip": source.choice(["1", "01", "2.0", "x", ""]),
            "day": "2024-01-0" + source.choice("123"),
        }
        for n in range(60)
    ]
    right: list[Line] = [
        {"code": c, "at": f"2024-01-0{d}", "weight": d * 2, "place": "x"}
        for c, d in itertools.product([1, 1, 2, 3], [1, 2])
    ]
    for name, lines in (("t", left), ("p", right)):
        pl.DataFrame(lines).write_csv(tmp_path / f"{name}.csv")
    public = pl.DataFrame(right).with_columns(pl.col("at").str.to_date())
    with opened({"t": str(tmp_path / "t.csv")}, public={"p": public}) as session:
        how: Any = "left" if outer else "inner"
        query = session.table("t").join("p", {"zip": "code", "day": "at"}, how=how)
        found = counted(session, query)
    plain = [
        {**line, "zip": float(line["zip"]) if line["zip"] in ("1", "01", "2.0") else None}
        for line in left
    ]
    met = list(joined(plain, right, {"zip": "code", "day": "at"}, outer=outer))
    assert found["n"] == [len(met)]
    assert found["s"] == [sum(r["weight"] or 0 for _, r in met)]
    with opened({"t": str(tmp_path / "t.csv")}, public={"p": str(tmp_path / "p.csv")}) as session:
        texts = session.table("t").join("p", {"zip": "code"})
        codes: list[Any] = [r["code"] for r in right]
        same = sum(line["zip"] == str(code) for line in left for code in codes)
        assert counted(session, texts)["n"] == [same]  # both are text first


IDS: Mapping[str, tuple[Any, Any]] = {
    "integer": (pa.int64(), lambda n: n),
    "small and large": (pa.int8(), lambda n: n),
    "float": (pa.float64(), lambda n: n + 0.5 * (n == 3)),
    "text": (pa.string(), lambda n: ["é", "é", "", "a'", "A'", " ", "0"][n % 7]),
}


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("kind", mostly_slow(IDS, quick=2))
def test_a_join_on_the_person(kind: str, outer: bool) -> None:
    type_, make = IDS[kind]
    source = random.Random(len(kind))

    def person() -> Any:
        return source.choice([None, *map(make, range(6))])

    left = [{"id": person(), "day": source.choice([1, 2, None])} for _ in range(25)]
    right = [
        {
            "who": person(),
            "on_day": source.choice([1, 2, None]),
            "weight": float(n % 5),
            "place": "x",
        }
        for n in range(25)
    ]
    known = [line for line in left if line["id"] is not None and line["id"] != 3.5]
    others = [line for line in right if line["who"] is not None and line["who"] != 3.5]
    wide = pa.int64() if kind == "small and large" else type_
    tables = {
        "t": pa.Table.from_pylist(left, schema=pa.schema([("id", type_), ("day", pa.int64())])),
        "u": pa.Table.from_pylist(
            right,
            schema=pa.schema(
                [("who", wide), ("on_day", pa.int32()), ("weight", pa.float64()),
                 ("place", pa.string())]
            ),
        ),
        "none": pa.Table.from_pylist(
            [], schema=pa.schema([("key", type_), ("weight", pa.float64()), ("place", pa.string())])
        ),
    }  # fmt: skip
    unit = unacorda.Person({"t": "id", "u": "who", "none": "key"}, max_rows=100_000)
    how: Any = "left" if outer else "inner"
    with unacorda.Session(tables, unit=unit, budget=unacorda.PureDP(1)) as session:
        start, other = session.table("t"), session.table("u")
        for on in ({"id": "who"}, {"id": "who", "day": "on_day"}):
            query = start.join(other, on, how=how, max_rows=25)
            lines = list(joined(known, others, on, outer=outer))
            assert counted(session, query) == {
                "n": [len(lines)],
                "s": [sum(r["weight"] or 0 for _, r in lines)],
            }
            assert counted(session, query.where("weight > 2"))["n"] == [
                sum((r["weight"] or 0) > 2 for _, r in lines)
            ]
        nobody = start.join(session.table("none"), how=how, max_rows=3)
        assert counted(session, nobody)["n"] == [
            sum(min(3, n) for n in Counter(line["id"] for line in known).values()) * outer
        ]
        for one, two in ((1, 1), (2, 3), (30, 2)):
            cut = start.join(other, how=how, max_rows=(one, two))
            left_rows, right_rows = (
                Counter(line[name] for line in side)
                for name, side in (("id", known), ("who", others))
            )
            expected = sum(
                min(one, n) * (min(two, right_rows[who]) or outer) for who, n in left_rows.items()
            )
            for salt in (1, 2):
                assert exact(session, cut.agg(n=unacorda.count()), salt=salt)["n"] == [expected]


def test_a_union_has_the_rows_of_both() -> None:
    one = {"id": [1, 1, None, 2], "x": [1, 2, 3, None], "flag": [True, None, False, True]}
    two = {
        "who": ["1", "4", "2"],
        "x": [0.5, math.nan, 9.0],
        "flag": ["t", "no", "yes"],
        "more": [1, 2, 3],
    }
    unit = unacorda.Person({"a": "CAST(id AS VARCHAR)", "b": "who"}, max_rows=50)
    with unacorda.Session(
        {"a": pa.table(one), "b": pa.table(two)}, unit=unit, budget=unacorda.PureDP(1)
    ) as session:
        both = session.table("a").union(session.table("b"))
        asked = both.agg(
            n=unacorda.count(),
            x=unacorda.count("x"),
            s=unacorda.sum("x", 0, 5),
            people=unacorda.count_people(),
            big=unacorda.count_if("x >= 2"),
        )
        assert exact(session, asked) == {"n": [6], "x": [4], "s": [8.5], "people": [3], "big": [2]}
        with pytest.raises(unacorda.errors.InvalidParameter, match="none of them: x, flag"):
            both.agg(m=unacorda.count("more"))
        few = session.table("a").union(session.table("a")).where("x < 2")
        assert exact(session, few.agg(n=unacorda.count()))["n"] == [2]
    with unacorda.Session(
        {"a": pa.table(one), "b": pa.table(two)}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
    ) as session:
        both = session.table("a").union(session.table("b"))
        assert exact(session, both.agg(n=unacorda.count()))["n"] == [7]
        assert both.rows.most == 1
        assert both.union(session.table("a")).rows.most == 2


TEXTS = ["a,b,c", "", ",", "a", None, "é,é,é", "b;a", "a,,a", " a, b", "x" * 50 + ",b"]


@pytest.mark.parametrize(("separator", "most"), [(",", 2), (",", 9), (";", 1), (", ", 3)])
def test_texts_in_parts(separator: str, most: int) -> None:
    table = pa.table({"id": [n % 3 for n in range(len(TEXTS))], "tags": TEXTS})
    parts = [p for t in TEXTS if t is not None for p in t.split(separator)[:most]]
    keys = ["a", "b", "c", "", "é", " a", "nobody", None]
    with opened({"t": table}) as session:
        start = session.table("t")
        for query in (
            start.explode("tags", separator=separator, most=most).group_by("tags", keys=keys),
            start.explode("LOWER(tags)", separator=separator, most=most, into="tag").group_by(
                "tag", keys=keys
            ),
        ):
            found = exact(session, query.agg(n=unacorda.count()))["n"]
            assert found == [sum(part == key for part in parts) for key in keys]
        twice = start.explode("tags", most=most).explode("tags", separator="é", most=2)
        again = [
            q for t in TEXTS if t is not None for p in t.split(",")[:most] for q in p.split("é")[:2]
        ]
        assert exact(session, twice.agg(n=unacorda.count()))["n"] == [len(again)]
    with opened({"t": table}, rows=None) as session:
        assert session.table("t").explode("tags", most=most).rows.most == most


@pytest.mark.parametrize("seed", mostly_slow(range(12)))
def test_what_is_public_bounds_and_lists_its_columns(seed: int) -> None:
    source = random.Random(seed)
    numbers = [source.choice([None, math.nan, math.inf, -3.5, 2.0, 8.0]) for _ in range(9)] + [1.0]
    public = pa.table(
        {
            "code": list(range(10)),
            "size": numbers,
            "town": [source.choice(["é", "b", None, ""]) for _ in range(9)] + ["z"],
            "day": [dt.date(2024, 1, 1 + n % 3) for n in range(10)],
        }
    )
    private = pa.table({"id": [1, 2, 3], "code": [0, 5, 99]})
    finite = [min(n, 1e100) for n in numbers if n is not None and not math.isnan(n)]
    with opened({"t": private}, public={"p": public}) as session:
        for how in ("inner", "left"):
            query = session.table("t").join("p", "code", how=how)
            (size,) = query.scope.column("size", argument="x")
            assert size.lower <= min(finite) <= max(finite) <= size.upper
            if len(set(finite)) > 1:
                assert (size.lower, size.upper) == (min(finite), max(finite))
            towns = {t for t in public["town"].to_pylist() if t is not None}
            grouped = query.group_by("town").agg(n=unacorda.count(), s=unacorda.sum("size"))
            assert {key for (key,) in grouped.keys} == towns | ({None} if how == "left" else set())
            assert [k for (k,) in query.group_by("day").keys][:3] == sorted(
                set(public["day"].to_pylist())
            )
            assert exact(session, grouped)["n"] == [
                sum(
                    public["town"][c].as_py() == key if c < 10 else key is None
                    for c in (0, 5, 99)
                    if c < 10 or how == "left"
                )
                for (key,) in grouped.keys
            ]
