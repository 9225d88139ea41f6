"""Names that differ in capitals alone are one name, as the engine has it, wherever names come in.

DuckDB takes `z` and `Z` for one column: a second one of that name would silently be the first, or
the other way round. Such names are refused by name, before anything is spent; a reference in other
capitals means the one column that there is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.query.engines_alike import ENGINES, OTHERS, counted, opened_on
from tests.support.cases import in_subtests
from tests.support.seams import Query, TableSchema, folded

import unacorda
from unacorda.errors import InvalidParameter, SourceUnreadable, UnacordaError

ROWS = {
    "id": [1, 2, 3],
    "z": [1.0, 2.0, 3.0],
    "w": [10.0, 20.0, 30.0],
    "É": [0.1, 0.2, 0.3],
    "tags": ["a,b", "b", None],
}
TABLE = pa.table(ROWS)
TOWNS = pa.table({"w": [10.0, 20.0], "Z": [5, 6], "town": ["n", "s"], "TOWN": ["x", "y"]})
BUDGET = unacorda.PureDP(10)


def opened(**given: Any) -> unacorda.Session:
    options: dict[str, Any] = {
        "unit": unacorda.Person("id", max_rows=5),
        "budget": BUDGET,
        "public": {"towns": TOWNS.select(["w", "Z", "town"])},
    }
    return unacorda.Session({"t": TABLE, "other": TABLE}, **(options | given))


@pytest.fixture(scope="module")
def shared() -> Iterator[unacorda.Session]:
    with opened() as session:
        yield session


SUM = unacorda.sum("w", 0, 9)
REFUSED: Mapping[str, Callable[[Query, Query], Query]] = {
    "derived": lambda t, _: t.derive(Z="w"),
    "derived twice at once": lambda t, _: t.derive(q="w", Q="z"),
    "derived one after the other": lambda t, _: t.derive(q="w").derive(Q="z"),
    "another alphabet": lambda t, _: t.derive(é="w"),
    "a sign that Java folds": lambda t, _: t.derive(ıd="w"),
    "parts": lambda t, _: t.explode("tags", most=2, into="Z"),
    "derived over parts": lambda t, _: t.explode("tags", most=2, into="tag").derive(TAG="z"),
    "a public column": lambda t, _: t.join("towns", "w", columns=["Z"]),
    "a public column by default": lambda t, _: t.join("towns", "w"),
    "a renamed public column": lambda t, _: t.join("towns", "w", columns={"TAGS": "town"}),
    "two public columns": lambda t, _: t.join("towns", "w", columns={"a": "Z", "A": "town"}),
    "derived beside a public column": lambda t, _: t.join("towns", "w", columns=["town"]).derive(
        TOWN="z"
    ),
    "a joined column": lambda t, o: t.join(o, columns={"W": "w"}, max_rows=2),
    "a derived one of the other side": lambda t, o: t.join(
        o.derive(v="z"), columns={"v": "v", "V": "w"}, max_rows=2
    ),
    "groups": lambda t, _: t.group_by("z", "Z", keys={"z": [1], "Z": [1]}),
    "aggregates": lambda t, _: t.agg(n=unacorda.count(), N=SUM),
    "a group and an aggregate": lambda t, _: t.group_by("z", keys=[1]).agg(Z=unacorda.count()),
    "an error and an aggregate": lambda t, _: t.agg(n=unacorda.count(), N_SE=SUM),
}


@pytest.mark.long
@in_subtests("unit", [unacorda.Person("id", max_rows=5), unacorda.Row()], ids=str)
@in_subtests("name", REFUSED)
def test_a_name_in_other_capitals_is_taken(name: str, unit: Any) -> None:
    with opened(unit=unit) as session:
        with pytest.raises(InvalidParameter) as caught:
            REFUSED[name](session.table("t"), session.table("other"))
        words = str(caught.value)
        assert "name" in words or "unacorda.Row() protects" in words, words
        assert session.remaining == BUDGET


def exact(session: unacorda.Session, query: Query) -> list[tuple[int, ...]]:
    return list(counted(session, query)["sums"].values())


@pytest.mark.long
def test_a_reference_in_other_capitals_means_the_one_column(shared: unacorda.Session) -> None:
    table, other = shared.table("t"), shared.table("other")
    for query, same in (
        (table.where("Z > 1"), table.where("z > 1")),
        (table.derive(v='"W" * 2').where("V > 20"), table.derive(v="w * 2").where("v > 20")),
        (table.explode("TAGS", most=2), table.explode("tags", most=2)),
        (table.join("towns", "W", columns=["TOWN"]), table.join("towns", "w", columns=["town"])),
        (
            table.derive(V="z").union(other.derive(v="w")),
            table.derive(v="z").union(other.derive(v="w")),
        ),
    ):
        for column in ("w", "v", "tags"):
            if column in query.scope or (column == "v" and "V" in query.scope):
                aggregate = unacorda.count_distinct(column)
                found = [exact(shared, one.agg(n=aggregate)) for one in (query, same)]
                assert found[0] == found[1] != []
    grouped = table.group_by("TAGS", keys=["a,b", "b"]).agg(n=unacorda.count())
    assert exact(shared, grouped) == [(1,), (1,)]


def test_a_union_takes_columns_in_other_capitals_for_the_same(shared: unacorda.Session) -> None:
    """They were left out of it."""
    both = shared.table("t").derive(V="z").union(shared.table("other").derive(v="w"))
    assert "V" in both.scope
    assert "v" not in both.scope
    total = unacorda.sum("v", 0, 100)
    alike = shared.table("t").derive(v="z").union(shared.table("other").derive(v="w"))
    assert exact(shared, both.agg(s=total)) == exact(shared, alike.agg(s=total))


def test_no_scope_holds_two_columns_of_one_name() -> None:
    with opened() as session:
        scope = session.table("t").scope
    expression = scope.parse("w * 2", argument="w")
    with pytest.raises(InvalidParameter, match="capitals"):
        scope.with_derived("Z", expression, identifier="Z derived 0")
    with pytest.raises(InvalidParameter, match="capitals"):
        scope.with_columns({"Z": scope.leaves["z"]}, {})
    with pytest.raises(InvalidParameter, match=r"tables\['t'\].*'Z'.*capitals"):
        TableSchema(
            table="t",
            types={"z": "DOUBLE", "Z": "DOUBLE"},
            leaves={"z": (), "Z": ()},
            ids={},
            derived={},
            facts={},
        )


def _parquet(folder: Path) -> Any:
    path = folder / "twice.parquet"
    nested = pa.array([{"a": 1, "A": 2}] * 3)  # names within a column are no names here
    columns = [*TABLE.columns, TABLE.column("w"), nested]
    pq.write_table(pa.table(columns, names=[*TABLE.column_names, "Z", "s"]), path)
    return str(path)


def _csv(folder: Path) -> Any:
    path = folder / "twice.csv"
    path.write_text("id,z,Z\n1,2,3\n")
    return str(path)


OPENED: Mapping[str, Callable[[Path], Any]] = {
    "arrow": lambda _: TABLE.append_column("Z", TABLE.column("w")),
    "pandas": lambda _: pd.DataFrame(ROWS | {"Z": [1, 2, 3]}),
    "polars": lambda _: pl.DataFrame(ROWS | {"Z": [1, 2, 3]}),
    "parquet": _parquet,
    "csv": _csv,
}


@in_subtests("public", [False, True])
@in_subtests("name", OPENED)
def test_tables_with_two_such_columns_are_not_opened(
    name: str, public: bool, tmp_path: Path
) -> None:
    source = OPENED[name](tmp_path)
    given: dict[str, Any] = {"public": {"p": source}} if public else {}
    with pytest.raises((InvalidParameter, SourceUnreadable), match="capitals"):
        unacorda.Session(
            {"t": TABLE if public else source},
            unit=unacorda.Person("id", max_rows=1),
            budget=BUDGET,
            **given,
        )


@pytest.mark.service
@pytest.mark.parametrize("engine", OTHERS)
def test_other_engines_open_no_such_tables_either(engine: str, tmp_path: Path) -> None:
    """Names are compared alike on all engines, also where one would tell them apart."""
    twice = ENGINES[engine].twice
    if twice is None:
        pytest.skip("the engine makes no such table")
    source = twice(tmp_path)
    unit, given = unacorda.Person("id", max_rows=1), ENGINES[engine].there()
    with pytest.raises(UnacordaError, match="capitals"):
        unacorda.Session({"t": source}, unit=unit, budget=BUDGET, engine=given)


@pytest.mark.service
@pytest.mark.parametrize("engine", ["duckdb", *OTHERS])
def test_derived_names_are_refused_on_every_engine(engine: str) -> None:
    with (
        opened_on(
            engine, {"t": TABLE.drop_columns(["É"])}, unit=unacorda.Person("id", max_rows=3)
        ) as session,
        pytest.raises(InvalidParameter, match="Z="),
    ):
        session.table("t").derive(Z="w")


def test_tables_are_named_apart() -> None:
    unit = unacorda.Person("id", max_rows=1)
    with pytest.raises(InvalidParameter, match=r"tables='T'.*capitals"):
        unacorda.Session({"t": TABLE, "T": TABLE}, unit=unit, budget=BUDGET)
    with pytest.raises(InvalidParameter, match=r"public='T'.*private table"):
        unacorda.Session({"t": TABLE}, unit=unit, budget=BUDGET, public={"T": TOWNS})
    with pytest.raises(InvalidParameter, match=r"public='P'.*capitals"):
        unacorda.Session({"t": TABLE}, unit=unit, budget=BUDGET, public={"p": TABLE, "P": TABLE})


def test_facts_are_of_columns_by_their_own_names() -> None:
    for facts in ({"Z": unacorda.Bounds(0, 1)}, {"z": unacorda.Bounds(0, 1), "Z": unacorda.Text()}):
        with pytest.raises(InvalidParameter, match="columns='Z'"):
            opened(columns=facts, public=None)


def test_keys_of_a_table_are_of_one_column(shared: unacorda.Session) -> None:
    keys = pa.table({"z": [1.0], "Z": [2.0], "w": [1.0]})
    with pytest.raises(InvalidParameter, match="capitals"):
        shared.table("t").group_by("z", "w", keys=keys)


@in_subtests("text", ["Straße", "ıd", "İd", "K", "ς", "µ", "Ǆ", "ﬀ", "Ꭰ", "i\u0307"])
def test_whatever_an_engine_takes_for_one_name_is_one(text: str) -> None:
    """Of all ways to change capitals, none makes another name of it."""
    assert folded(text) == folded(text.upper()) == folded(text.lower()) == folded(text.title())
    assert folded(folded(text)) == folded(text)


def test_names_that_differ_in_more_are_other_names() -> None:
    names = ["z", "zz", "ż", "é", "e", "z ", "1", "_", "ss1"]
    assert len({folded(name) for name in names}) == len(names)
