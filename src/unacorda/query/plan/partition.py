"""Sub-sessions over disjoint parts of the people: who belongs to which, and what is owed for them.

At the split every person is bound, once and for all questions, to at most `max_parts` of the parts
that they have rows in; a part holds the rows of the people bound to it that lie in it. One person
is then met by the questions of at most `max_parts` parts, so that the parent owes the sum of the
largest spends of so many (`ParallelComposition`).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.ledger.entries import PeopleSplit, SplitPart
from unacorda.query.plan import relation as row_steps
from unacorda.query.plan.codec import encode
from unacorda.query.plan.groups import public_column
from unacorda.query.plan.joins import common_type
from unacorda.query.plan.relation import Relation
from unacorda.query.schema.facts import Key, check_keys
from unacorda.query.schema.units import Row, Unit

__all__ = [
    "part_of",
    "parted",
    "people_of",
]

_MOST_PARTS = 1_000


def parted(
    starts: Mapping[str, Relation],
    unit: Unit,
    column: str,
    *,
    keys: Iterable[Key],
    max_parts: int,
    salt: int,
) -> dict[Key, dict[str, Relation]]:
    """By key the rows that each table of a part begins with: of tables that have the column.

    salt: 128 bits, for the life of the split. Raises InvalidParameter, naming the hint.
    """
    listed = check_keys("keys", keys)
    most = int(checks.positive_integer(max_parts=max_parts))
    if len(listed) > _MOST_PARTS:
        raise InvalidParameter("keys", len(listed), expected=f"at most {_MOST_PARTS:,} parts")
    if isinstance(unit, Row) and most != 1:
        raise InvalidParameter("max_parts", max_parts, expected="1: a single row is in one part")
    members = {name: rows for name, rows in starts.items() if _has(rows, column)}
    if not members:
        raise InvalidParameter(
            "column", column, expected=f"a column of the tables: {', '.join(starts)}"
        )
    types = people_of(list(members.values()))
    columns = {name: public_column(rows.scope, column, listed) for name, rows in members.items()}
    sides = tuple((rows, columns[name]) for name, rows in members.items())
    return {
        key: {
            name: dataclasses.replace(
                rows,
                steps=(
                    *rows.steps,
                    row_steps.PeoplePart(
                        column=columns[name],
                        label=column,
                        key=key,
                        keys=listed,
                        max_parts=most,
                        salt=salt,
                        members=sides,
                        types=types,
                    ),
                ),
            )
            for name, rows in members.items()
        }
        for key in listed
    }


def people_of(members: Sequence[Relation]) -> tuple[str, ...]:
    """The types in which people of several tables are one; InvalidParameter without such."""
    types = [one.type for one in members[0].identities]
    for rows in members:
        types = [
            common_type(name, known, there.type, (members[0].scope.table, rows.scope.table))
            for known, (name, there) in zip(types, rows.scope.ids.items(), strict=True)
        ]
    return tuple(types)


def _has(rows: Relation, column: str) -> bool:
    return column in rows.scope


def part_of(split: PeopleSplit, key: Key) -> SplitPart:
    """The part of a key: as text, which is one for every value."""
    return SplitPart(split=split.sequence, key=json.dumps(encode(key)))
