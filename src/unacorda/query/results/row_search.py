"""How many rows of a person to keep, found privately and paid for once per account.

The search is one question about all tables of a session. Its answer stands in the entry of the
ledger that commits its charge, so that it is never known without having been paid for; who
asks the same again, in whatever process, reads it there. Where somebody is searching already, the
others wait a while for what they find.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.errors import LedgerMismatch
from unacorda.ledger.entries import RowSearch, SearchBegun, Searched
from unacorda.query.aggregates.automatic import RowsPerPerson
from unacorda.query.plan.query import QueryBatch
from unacorda.query.schema.units import Person

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.plan.query import Query
    from unacorda.query.results.release import Release

__all__ = [
    "find_rows",
    "found_in",
    "known_rows",
]

_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_ROWS = "rows"


def find_rows(
    wanted: Person,
    begun: Mapping[str, Query],
    *,
    ledger: Ledger,
    dataset: str,
    ask: Callable[[QueryBatch, Guarantee, RowSearch], Sequence[Release]],
) -> tuple[Person, dict[str, Release]]:
    """The unit with the rows per person that were found; by table the answers, if found just now.

    begun: a question about each table, of the unit of the search. ask: pays for the search and
    answers it, where the account does not know what it finds.
    """
    assert wanted.search is not None
    together = _question(wanted, begun)
    digest, deadline = together.digest(), time.monotonic() + _WAIT_SECONDS
    while True:
        searched = ledger.searched(dataset, digest)
        if searched.found is not None:
            return _read(wanted, searched), {}
        if _running(searched) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            continue
        search = RowSearch(digest=digest, seen=searched.seen)
        try:
            releases = ask(together, wanted.search.budget, search)
        except SearchBegun:
            continue
        found = max(int(release.answers[_ROWS].values[0]) for release in releases)
        return wanted.found(found), dict(zip(begun, releases, strict=True))


def known_rows(
    wanted: Person, begun: Mapping[str, Query], *, ledger: Ledger, dataset: str
) -> Person | None:
    """The unit where the account knows the number already, else None; free, and reads no data."""
    searched = ledger.searched(dataset, _question(wanted, begun).digest())
    return None if searched.found is None else _read(wanted, searched)


def found_in(answered: Sequence[Any]) -> str:
    """The answer of a search as its entry keeps it, JSON text."""
    return json.dumps({_ROWS: max(int(one.answers[_ROWS].values[0]) for one in answered)})


def _question(wanted: Person, begun: Mapping[str, Query]) -> QueryBatch:
    """The search, of all tables: another number for its end, or other tables, are another one."""
    most = wanted.searched.max_rows
    assert most is not None
    asked = {_ROWS: RowsPerPerson(most=most)}
    queries = tuple(query.agg(**asked) for query in begun.values())
    if len(queries) == 1:
        return QueryBatch.alone(queries[0])
    weights = (Fraction(1),) * len(queries)
    return QueryBatch(names=tuple(begun), queries=queries, weights=weights)


def _read(wanted: Person, searched: Searched) -> Person:
    """The unit with the number that the account knows, and what was paid for it."""
    assert wanted.search is not None
    assert searched.paid is not None
    found: Mapping[str, Any] = json.loads(searched.found or "{}")
    rows = found.get(_ROWS)
    if type(rows) is not int or not 1 <= rows <= wanted.search.most:
        raise LedgerMismatch(f"The number of rows that the account knows, {rows!r}, is none.")
    return wanted.found(rows, paid=searched.paid)


def _running(searched: Searched) -> bool:
    """Whether somebody may still be searching: what began long ago has died."""
    if searched.begun is None:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(searched.begun)
    return abs(age.total_seconds()) < _WAIT_SECONDS
