"""What an aggregate reads is a column or an expression, and nothing else is taken for one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import EVERY, Session

import unacorda
from unacorda.errors import InvalidParameter

ONE: dict[str, Callable[[Any], Any]] = {
    "count": unacorda.count,
    "countdistinct": unacorda.count_distinct,
    "countif": unacorda.count_if,
    "countpeople": unacorda.count_people,
    "foundbounds": unacorda.find_bounds,
    "histogram": lambda given: unacorda.histogram(given, [0, 1]),
    "proportion": unacorda.proportion,
    "vectorsum": lambda given: unacorda.vector_sum((given, "age"), norm=1),
}
NOTHING = ("count", "countpeople")
"""Those that may be of no column."""
BAD: list[Any] = [None, (), ("age",), ("age", "ok"), ["age"], 3, b"age", {"age"}]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    frame = pd.DataFrame({"id": range(9), "age": range(9), "ok": [True] * 9, "a b": [True] * 9})
    unit = unacorda.Person("id", max_rows=1)
    with Session({"t": frame}, unit=unit, budget=unacorda.PureDP(10**6)) as opened:
        yield opened


def test_every_aggregate_that_reads_by_its_table_is_here() -> None:
    assert {kind.tag for kind in EVERY if kind.reads} == set(ONE)
    assert {kind.tag for kind in EVERY if kind.optional} == set(NOTHING)


@in_subtests(("tag", "given"), [(tag, given) for tag in ONE for given in BAD])
def test_what_is_no_text_is_refused_by_name(session: Session, tag: str, given: Any) -> None:
    if given is None and tag in NOTHING:
        return
    before = session.spent
    with pytest.raises(InvalidParameter) as refused:
        session.table("t").agg(x=ONE[tag](given))
    assert refused.value.argument in ("column", "columns", "columns[0]", "condition")
    assert session.spent == before


def test_a_condition_may_be_a_column_with_any_name(session: Session) -> None:
    query = session.table("t").agg(n=unacorda.count_if("a b"), p=unacorda.proportion("a b"))
    release = session.evaluate(query, budget=unacorda.PureDP(10**5))
    assert release.answers["n"].values == [9]
    assert release.answers["p"].values[0] == pytest.approx(1, abs=1e-3)


def test_a_column_of_another_kind_is_named_as_it_was_written(session: Session) -> None:
    with pytest.raises(InvalidParameter, match="condition='age' cannot be used"):
        session.table("t").agg(n=unacorda.count_if("age"))
