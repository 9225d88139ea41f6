"""A long text loses its end where it is copied: one row would take a thousand times its memory.

A question would then fail exactly where that row is there, which tells of it at any epsilon.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.query.exact_answers import exact
from tests.support.cases import in_subtests
from tests.support.seams import Query, Session

import unacorda

MOST = 1_000
LONG = "a," * 1_000_000
"""A field such as a line of CSV may have; a thousand of them are beyond the memory."""
CODES = pa.table({"code": ["k"] * MOST, "size": list(range(MOST))})
UNITS = [unacorda.Person("who", max_rows=1), unacorda.Row()]


def people(text: str, rows: int = 1) -> pa.Table:
    return pa.table({"who": [7] * rows, "note": [text] * rows, "key": ["k"] * rows})


def _exploded(session: Session) -> Query:
    return session.table("t").explode("note", most=MOST, into="part")


def _exploded_twice(session: Session) -> Query:
    begun = session.table("t").derive(same="note").explode("note", separator=";", most=500)
    return begun.explode("same", most=2, into="part")


def _looked_up(session: Session) -> Query:
    return session.table("t").join("codes", {"key": "code"})


def _met(session: Session) -> Query:
    left, right = session.table("t"), session.table("more")
    return left.join(right, columns={"other": "note"}, max_rows=(1, MOST))


def _met_by(session: Session) -> Query:
    left, right = session.table("more"), session.table("t")
    return left.join(right, columns={"other": "note"}, max_rows=(MOST, 1))


WAYS: Mapping[str, Callable[[Session], Query]] = {
    "exploded": _exploded,
    "exploded twice": _exploded_twice,
    "looked up": _looked_up,
    "met": _met,
    "met by": _met_by,
}


def opened(text: str, unit: unacorda.Person | unacorda.Row) -> Session:
    return Session(
        {"t": people(text), "more": people("a", MOST)},
        unit=unit,
        budget=unacorda.GDP(1),
        public={"codes": CODES},
        memory_limit="500MB",
    )


@pytest.mark.long
@in_subtests("unit", UNITS, ids=["person", "row"])
@in_subtests("way", WAYS)
def test_a_row_with_a_long_text_is_answered_as_others_are(
    way: str, unit: unacorda.Person | unacorda.Row
) -> None:
    if isinstance(unit, unacorda.Row) and way.startswith("met"):
        return  # which joins people alone
    for text in (LONG, "a"):
        with opened(text, unit) as session:
            begun = WAYS[way](session)
            texts = [name for name in ("note", "other", "same") if name in begun.scope]
            counted: dict[str, Any] = (
                {f"of_{name}": unacorda.count_distinct(name) for name in texts}
                if isinstance(unit, unacorda.Person)
                else {f"of_{name}": unacorda.sum(f"length({name})", 0, 10) for name in texts}
            )
            asked = begun.agg(**counted)
            session.evaluate(asked, budget=unacorda.GDP("1e-9"))


def test_what_is_split_is_whole_and_what_is_carried_is_cut() -> None:
    text = "b," * 6_000 + "c"
    wide = unacorda.Person("who", max_rows=10_000)
    tables = {"t": people(text), "more": people("a", 2)}
    with Session(tables, unit=wide, budget=unacorda.GDP(1), public={"codes": CODES}) as session:
        for begun, copies, of_length in (
            (session.table("t").explode("note", separator="c", most=2, into="part"), 2, 10_000),
            (session.table("t").explode("note", separator="c", most=1, into="part"), 1, 12_001),
            (session.table("t").join("codes", {"key": "code"}), MOST, 10_000),
            (session.table("t").join(session.table("more"), columns=[], max_rows=2), 2, 10_000),
            (session.table("t").join(session.table("more"), columns=[], max_rows=1), 1, 12_001),
        ):
            carried = unacorda.count_if(f"length(note) = {of_length}")
            assert exact(session, begun.agg(n=carried, all=unacorda.count()))["n"] == [copies]
            # a condition on what stands before such a step is met before it, by the whole text
            asked = begun.where("length(note) = 12001").agg(n=unacorda.count())
            assert exact(session, asked) == {"n": [copies]}
        parts = session.table("t").explode("note", separator="c", most=2, into="part")
        asked = parts.where("length(part) = 12000").agg(n=unacorda.count())
        assert exact(session, asked) == {"n": [1]}
