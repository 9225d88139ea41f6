"""Small tables of the same people, their neighbors, and the ways to put their rows together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from tests.query.neighbor_moves import EVERY
from tests.query.neighbor_tables import Limits, Pairs, make_pairs, unit_of
from tests.support.seams import Query

import unacorda
from unacorda import count_, first_, last_, max_, mean_, min_, sum_
from unacorda.privacy.neighbors import Neighbors

__all__ = ["ASKED", "OF_PEOPLE", "OF_ROWS", "PUBLIC", "Way", "opened_pairs"]

Way = Callable[[unacorda.Session, str], Query]

PUBLIC = pa.table(
    {
        "code": ["z", "z", "z", "", "", "3", None, None, "é", "-2"],
        "size": [1.0, 2.5, -3.0, 9.0, 9.0, None, 4.0, 5.0, 6.0, float("nan")],
        "place": ["a", "b", None, "a", "a", "b", "b", "b", "a", "a"],
    }
)
"""A table without people. Some keys stand in it three times, NULL twice."""


def _lookup(session: unacorda.Session, side: str) -> Query:
    return session.table(side).join("codes", {"note": "code"})


def _outer_lookup(session: unacorda.Session, side: str) -> Query:
    table = session.table(side).where("x > -5 OR x IS NULL")
    return table.join("codes", {"note": "code"}, how="left", columns=["place"])


def _explode(session: unacorda.Session, side: str) -> Query:
    text = "CASE WHEN whole > 1 THEN 'a,b,,c' ELSE note END"
    return session.table(side).explode(text, into="piece", most=3)


def _both(session: unacorda.Session, side: str) -> Query:
    exploded = _explode(session, side).where("piece <> 'b'")
    return exploded.join("codes", {"note": "code"}, how="left")


def _parts_of_parts(session: unacorda.Session, side: str) -> Query:
    text = "CASE WHEN whole > 1 THEN 'a b,z b a,,c z' ELSE note END"
    exploded = session.table(side).explode(text, into="piece", most=3).where("piece <> 'c z'")
    return exploded.explode("piece", separator=" ", into="part of it", most=2)


def _lookup_in_parts(session: unacorda.Session, side: str) -> Query:
    table = session.table(side).derive(text="CASE WHEN x > 1 THEN 'a,b,c,a' ELSE note END")
    met = table.join("codes", {"note": "code"}, columns=["place"], how="left")
    return met.where("place IS NULL OR place <> 'b'").explode("text", into="piece", most=4)


def _twice(session: unacorda.Session, side: str) -> Query:
    table = session.table(side)
    return table.union(table.where("x > 0"))


def _met(session: unacorda.Session, side: str) -> Query:
    other = session.table(f"{side} labs").derive(twice="x * 2")
    columns = {"y": "x", "other": "note", "twice": "twice"}
    return session.table(side).join(other, columns=columns, max_rows=(2, 3))


def _met_on_more(session: unacorda.Session, side: str) -> Query:
    table, other = session.table(side).where("x < 100"), session.table(f"{side} labs")
    on = {name: name for name in table.scope.ids} | {"whole": "whole"}
    return table.join(other, on, how="left", columns={"y": "x"}, max_rows=(3, 2))


def _united(session: unacorda.Session, side: str) -> Query:
    return session.table(side).union(session.table(f"{side} labs"))


def _nested(session: unacorda.Session, side: str) -> Query:
    labs = session.table(f"{side} labs")
    met = labs.join(session.table(side), columns={"y": "x"}, max_rows=2)
    return _both(session, side).union(met.where("y IS NOT NULL OR x > 0"))


def _parts_met(session: unacorda.Session, side: str) -> Query:
    parts = _explode(session, side).where("piece <> 'b'")
    other = session.table(f"{side} labs").join("codes", {"note": "code"}, columns=["size"])
    met = parts.join(other, columns={"y": "x", "size": "size"}, max_rows=(2, 3))
    return met.explode("piece", most=2)


def _united_in_parts(session: unacorda.Session, side: str) -> Query:
    labs = session.table(f"{side} labs").derive(text="CASE WHEN x > 0 THEN 'a,b' END")
    united = session.table(side).derive(text="'a,' || note || ',c'").union(labs)
    return united.explode("text", most=3).explode("note", most=2, into="half")


def _people(session: unacorda.Session, side: str) -> Query:
    return (
        session.table(side)
        .where("x > -5 OR x IS NULL")
        .per_person(
            pair=min_("pair"),
            region=last_("region", by="whole"),
            x=max_("x"),
            whole=sum_("whole"),
            note=first_("note", by="whole"),
        )
    )


def _people_met(session: unacorda.Session, side: str) -> Query:
    labs = session.table(f"{side} labs").per_person(y=mean_("x", -3, 9), n=count_("note"))
    met = _people(session, side).join(labs, how="left").where("n > 0 OR whole > 1")
    exploded = met.derive(text="'a,' || note").explode("text", most=2, into="piece")
    return exploded.join("codes", {"note": "code"}, how="left", columns=["place"])


OF_ROWS: Mapping[str, Way] = {
    "lookup": _lookup,
    "outer lookup": _outer_lookup,
    "explode": _explode,
    "both": _both,
    "parts of parts": _parts_of_parts,
    "lookup in parts": _lookup_in_parts,
    "twice": _twice,
}
"""Those that single rows can be protected in."""
OF_PEOPLE: Mapping[str, Way] = {
    **OF_ROWS,
    "met": _met,
    "met on more": _met_on_more,
    "united": _united,
    "nested": _nested,
    "parts met": _parts_met,
    "united in parts": _united_in_parts,
    "people": _people,
    "people met": _people_met,
}

ASKED = {
    name: EVERY[name]
    for name in (
        *("rows", "present", "sum_across_zero", "sum_text", "mean_whole", "variance_from_zero"),
        *("median", "bins_whole", "distinct_notes", "people", "total_whole", "greatest"),
    )
}
"""A few aggregates of every kind; the last three tell people apart."""


def opened_pairs(
    *, count: int, ids: str, limits: Limits | None, neighbors: Neighbors, seed: int
) -> tuple[unacorda.Session, Pairs]:
    """A session over small tables, their neighbors, and both sides' second tables."""
    pairs = make_pairs(
        count=count, ids=ids, neighbors=neighbors, rows=limits is None, text=False, seed=seed
    )
    unit = unit_of(pairs.ids, limits=limits, neighbors=neighbors)
    tables: dict[str, Any] = dict(pairs.tables)
    if limits is not None:
        tables |= {f"{side} labs": _labs(pairs, side, seed) for side in pairs.tables}
    session = unacorda.Session(
        tables, unit=unit, budget=unacorda.PureDP(1), public={"codes": PUBLIC}
    )
    return session, pairs


def _labs(pairs: Pairs, side: str, seed: int) -> pa.Table:
    """Other rows of the same people; those of who differs differ too."""
    table = pairs.tables[side]
    lines = table.to_pylist()
    people: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        key = tuple(line[name] for name in pairs.ids)
        people.setdefault(f"{line['pair']} {key}", []).append(line)
    found = []
    for name, own in sorted(people.items()):
        key = tuple(own[0][part] for part in pairs.ids)
        gone = key in pairs.gone or None in key or key[0] != key[0]
        source = random.Random(f"{seed} {name} {side if gone else ''}")
        for _ in range(source.choice([0, 1, 2, 3, 9])):
            fixed = {part: own[0][part] for part in ("pair", "who", "part")}
            region = source.choice(["a", "b", None, "other"])
            x, whole = source.choice([None, 1.0, 3.0, -2.5, 10.0]), source.choice([None, 1, 2, 5])
            note = source.choice(["z", "", None, "3"])
            found.append({**fixed, "region": region, "x": x, "whole": whole, "note": note})
    return pa.Table.from_pylist(found, schema=table.schema)
