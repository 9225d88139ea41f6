"""What may be supposed of private data: numbers, or public tables that are like it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.answers import Assume
from unacorda.query.plan.public_tables import Looked
from unacorda.query.plan.query import Query
from unacorda.query.schema.sources import Csv, is_table

__all__ = [
    "Supposed",
    "are_tables",
    "check_assumption",
    "numbers_of",
    "sources_of",
]

Supposed = Assume | Csv | str | os.PathLike[str] | Mapping[str, Any] | Any
"""Numbers, or a public table with columns of the same names, or one for each table by name."""


def are_tables(assuming: Supposed | None) -> bool:
    """Whether tables are supposed, and not numbers."""
    return isinstance(assuming, Mapping) or is_table(assuming)


def numbers_of(assuming: Supposed | None) -> Assume | None:
    """What is supposed without tables."""
    found: Any = assuming
    return None if are_tables(assuming) else found  # which is checked where it is used


def sources_of(query: Query, assuming: Supposed) -> dict[str, object]:
    """The tables to try a question out on, by their names in it.

    A public table of the session stands for itself where none is given. Raises InvalidParameter
    where one is lacking.
    """
    names = list(dict.fromkeys(table.name for table in query.rows.tables))
    listed = ", ".join(f"{name!r}: ..." for name in names)
    if isinstance(assuming, Mapping):
        given = dict(assuming)
        if not set(names) <= set(given):
            raise InvalidParameter(
                "assuming",
                f"tables for {', '.join(map(repr, given)) or 'nothing'}",
                expected=f"one for each table of the question: {{{listed}}}; or numbers, as "
                "unacorda.Assume(rows=500)",
            )
    elif len(names) > 1:
        raise InvalidParameter(
            "assuming", "one table", expected=f"one for each table of the question: {{{listed}}}"
        )
    else:
        given = {names[0]: assuming}
    sources = {name: given[name] for name in names}
    for step in query.rows.lookups:
        held = step.public.source if isinstance(step.public, Looked) else None
        sources[step.table] = source = given.get(step.table, held)
        if not is_table(source) and not isinstance(source, list | tuple):
            raise InvalidParameter(
                "assuming",
                f"tables for {', '.join(map(repr, given))}",
                expected=f"also the public table {step.table!r}, as a file or a frame",
            )
    return sources


def check_assumption(assuming: object, *queries: Query) -> None:
    """InvalidParameter for what is no assumption, or about a column that no one asks about."""
    if assuming is None:
        return
    if not isinstance(assuming, Assume):
        raise InvalidParameter(
            "assuming",
            assuming,
            expected="unacorda.Assume(rows=500, values={'age': [20, 30, 40]}), or a "
            "public table with the columns of the question, for several tables {name: table}",
        )
    known = [name for q in queries for a in q.aggregates.values() for name in a.assumes]
    for name in assuming.values:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none here"
            raise InvalidParameter(
                "assuming", name, expected=f"columns as the aggregates name them: {listed}"
            )
