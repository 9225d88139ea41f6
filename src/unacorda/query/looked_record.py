"""What the record of a first look says beside its releases, held against them.

A session that found by itself how many rows of a person to keep paid for that before the look; the
answers by which it did so stand in the record too, and every question of the look names the search
that it rests on.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.found import RowsPerPerson
from unacorda.query.plan.codec import decode, encode
from unacorda.query.replay import Stated
from unacorda.query.schema.units import Auto
from unacorda.query.verified_lines import Check, differs, ok

__all__ = ["check_before", "check_summary", "total"]


def total(charges: Sequence[Guarantee]) -> Guarantee | None:
    """All of them together; None where they are of several kinds, or orders."""
    first, *others = charges
    with contextlib.suppress(WrongUnit):
        return sum(others, start=first)
    return None


def check_before(
    fields: Mapping[str, Any], releases: Sequence[Stated], searches: Mapping[str, Stated]
) -> Iterator[Check]:
    """That what was charged before the look is what its questions say that it was.

    fields: of the record; searches: the answers that are said to have found the rows of a person.
    """
    exact = fields.get("exact")
    stated = exact.get("before") if isinstance(exact, dict) else None
    told = fields.get("before")
    wanted = _searches_of(releases)
    if stated is None and told is None and not searches:
        if wanted:
            said = (
                "how many rows of a person are kept was found privately, by a session whose "
                "charges for that do not stand here"
            )
            yield Check(name="before", outcome="noted", detail=said)
        return
    before: Guarantee = decode(stated, Guarantee, at="exact.before")
    made = next(iter(searches.values())).charge if searches else None  # one charge for all
    if before != made or repr(before) != told:
        what = "none is there" if not searches else f"those that are there cost {made}"
        yield differs("before", f"{told} is stated for searches, but {what}")
        return
    fault = next(_faults(releases, searches, wanted), None)
    count = f"{len(searches):,} search{'es' if len(searches) > 1 else ''}"
    yield differs("before", fault) if fault else ok("before", f"{before}, in {count}")


def check_summary(fields: Mapping[str, Any], releases: Mapping[str, Stated]) -> Check:
    """That the numbers of a look are those of its releases, and its words theirs."""
    numbers = releases.get("numbers")
    columns = fields.get("columns")
    if numbers is None or len(numbers.rows) != 1 or not isinstance(columns, list):
        return differs("summary", "the question with its numbers is missing, or its columns")
    (row,) = numbers.rows
    told = [("people", fields.get("people"), "people"), ("rows", fields.get("rows"), "rows")]
    for place, column in enumerate(columns):
        if not isinstance(column, dict):
            raise InvalidParameter("columns", "[...]", expected="a list of objects")
        for part, name in (("present", f"present{place}"), ("mean", f"mean{place}")):
            if column.get(part) is not None:
                told.append((f"{part} of {column.get('name')!r}", column[part], name))
    for what, said, name in told:
        if said != _told(row, name):
            return differs("summary", f"{what} is not what was released")
    for column in columns:
        fault = _bars(column, releases.get(f"picture of {column.get('name')}"))
        if fault:
            return differs("summary", fault)
    every = list(releases.values())
    right = {
        "table": numbers.query.get("table"),
        "reproducible": any(one.reproducible for one in every),
        "remaining": every[-1].words["remaining"],
    }
    for name, value in right.items():
        if fields.get(name) != value:
            return differs("summary", f"{name}: stated {fields.get(name)!r}, but it is {value!r}")
    return ok("summary", "people, rows, means and bars are those that were released")


def _searches_of(releases: Iterable[Stated]) -> list[tuple[Any, Any]]:
    """The different searches that questions rest on, each with the rows that it found."""
    found: list[tuple[Any, Any]] = []
    for one in releases:
        unit = one.query.get("unit")
        rows = unit.get("max_rows") if isinstance(unit, dict) else None
        pair = (one.query.get("search"), rows)
        if pair[0] is not None and pair not in found:
            found.append(pair)
    return found


def _faults(
    releases: Sequence[Stated], searches: Mapping[str, Stated], wanted: Sequence[tuple[Any, Any]]
) -> Iterator[str]:
    if len(wanted) != 1 or any("search" not in one.query for one in releases):
        yield "the questions of the look do not all rest on one search"
        return
    ((plain, kept),) = wanted
    search = decode(plain, Auto, at="query.search")
    asked = encode({"rows": RowsPerPerson(most=search.most)})
    several = len(searches) > 1
    batches = {json.dumps(one.batch and {**one.batch, "place": 0}) for one in searches.values()}
    if len(batches) != 1 or len({one.salt for one in searches.values()}) != 1:
        yield "the searches were not asked together"
    numbers = [1]
    for name, one in searches.items():
        rest = [one.query.get(field) for field in ("steps", "groups", "keys")]
        if (one.batch is not None) != several:
            yield f"the search of {name!r} was asked {'alone' if several else 'with others'}"
        elif one.query.get("table") != name or one.query.get("aggregates") != asked:
            yield f"the search of {name!r} asks for something else"
        elif rest != [[], [], [[]]] or len(one.rows) != 1:
            yield f"the search of {name!r} is not about all rows of a person"
        elif one.request != search.budget:
            yield f"the search of {name!r} was offered {one.request}, and not {search.budget}"
        else:
            (row,) = one.rows
            number = row.get("rows")
            numbers.append(number if type(number) is int else 0)
    if not any(one.query.get("table") in searches for one in releases):
        yield "no search was made of the table"
    if kept != max(numbers):
        yield f"the searches found {max(numbers)!r} rows of a person, but {kept!r} are kept"


def _bars(column: Mapping[str, Any], picture: Stated | None) -> str | None:
    """What is wrong with the bars of a column."""
    bars = column.get("bars")
    if not isinstance(bars, list) or not all(isinstance(bar, dict) for bar in bars):
        raise InvalidParameter("bars", "[...]", expected="a list of objects")
    asked = [] if picture is None else list(picture.query.get("aggregates", []))
    known = [_told(row, name) for row in (picture.rows if picture else ()) for name in asked]
    if any(bar.get("count") not in known for bar in bars):
        return f"a bar of {column.get('name')!r} is not what was released"
    missing = column.get("missing")
    if missing is not None and missing not in known:
        return f"the missing values of {column.get('name')!r} are not what was released"
    return None


def _told(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A number of a released line with its interval, as a look tells it."""
    ends = {"value": name, "low": f"{name}_low", "high": f"{name}_high"}
    return {end: row.get(column) for end, column in ends.items()}
