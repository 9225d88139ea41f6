"""Every aggregate there is comes back from JSON text as the same question, with the same noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from typing import get_args

import pandas as pd
import pytest
from tests.query import neighbor_moves, neighbor_tables
from tests.support.cases import in_subtests
from tests.support.seams import (
    EVERY,
    Fact,
    Query,
    Relation,
    SourceTable,
    SqlContext,
    Unit,
    allocate,
    compile_query,
    encode,
    question_of,
    scope_of,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

TYPES = {"pair": "BIGINT", "who": "BIGINT", "part": "VARCHAR", "region": "VARCHAR"}
TYPES |= {"x": "DOUBLE", "whole": "BIGINT", "note": "VARCHAR", "unused": "BOOLEAN"}
UNITS: dict[str, Unit] = {
    "row": unacorda.Row(),
    "replaced row": unacorda.Row(neighbors=unacorda.ReplaceOne),
    "person": unacorda.Person("who", max_rows=3),
    "replaced person of two columns": unacorda.Person(
        ("who", "part"), max_rows=1_000, neighbors=unacorda.ReplaceOne
    ),
    "found": unacorda.Person(
        "who", max_rows=unacorda.auto(budget=unacorda.PureDP("1/3"), most=50)
    ).found(7),
}
BUDGETS = (unacorda.PureDP(1), unacorda.ZCDP("1/7"), unacorda.ApproxDP(1, "1e-6"))


def started(unit: Unit, *, text: bool = False) -> Query:
    types = dict.fromkeys(TYPES, "VARCHAR") if text else TYPES
    scope = scope_of("t", types, unit, {})
    return Query(rows=Relation(source=SourceTable(name="t", scope=scope), scope=scope), unit=unit)


def check(query: Query, *budgets: Guarantee) -> None:
    """That the question comes back, with the SQL it runs and the noise it buys."""
    again = question_of(json.loads(json.dumps(query.to_dict())))
    assert again.digest() == query.digest()
    assert list(again.aggregates.items()) == list(query.aggregates.items())
    assert again.unit == query.unit
    statement = compile_query(query, SqlContext(unit=query.unit, scan=str, salt=1))
    assert compile_query(again, SqlContext(unit=again.unit, scan=str, salt=1)) == statement
    for budget in budgets or BUDGETS:
        assert allocate(again, budget).event == allocate(query, budget).event


def test_the_list_is_all_there_is() -> None:
    assert set(neighbor_tables.AGGREGATES) == set(EVERY)


@pytest.mark.parametrize("kinds", [EVERY, get_args(Fact), get_args(Unit)])
def test_each_class_has_a_tag_of_its_own(kinds: tuple[type, ...]) -> None:
    tags = [vars(kind)["tag"] for kind in kinds]
    assert len(set(tags)) == len(tags)


def test_what_has_no_tag_has_no_form() -> None:
    with pytest.raises(TypeError, match=r"^Relation has no form in JSON\.$"):
        encode(started(unacorda.Row()).rows)


def test_outside_a_session_no_table_of_keys_is_opened() -> None:
    with pytest.raises(InvalidParameter, match="lists of keys, outside a session"):
        started(unacorda.Row()).group_by("region", keys=pd.DataFrame({"region": ["a"]}))


@pytest.mark.parametrize("name", mostly_slow(neighbor_moves.EVERY, quick=15))
def test_every_aggregate_comes_back(name: str) -> None:
    aggregate = neighbor_moves.EVERY[name]()
    check(started(unacorda.Person("who", max_rows=3)).agg(a=aggregate))
    text = started(unacorda.Row(), text=True).group_by("region", keys=["a", None])
    check(text.agg(a=aggregate), unacorda.PureDP(1))


@in_subtests("unit", UNITS)
@in_subtests("pipeline", neighbor_tables.PIPELINES)
def test_every_unit_and_step_comes_back(unit: str, pipeline: str) -> None:
    query = neighbor_tables.PIPELINES[pipeline](started(UNITS[unit]))
    query = query.group_by("region", "whole", keys={"region": ["a", None], "whole": [1, 2]})
    # An aggregate of several lines stands alone.
    made = [make() for make in neighbor_moves.EVERY.values()]
    some = [aggregate for aggregate in made if aggregate.lines == 1][::5]
    chosen = {f"a{place}": aggregate for place, aggregate in enumerate(some)}
    check(query.agg(**chosen), unacorda.ZCDP(1))
