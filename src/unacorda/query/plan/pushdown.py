"""Filter pushdown: conditions go before what bounds a person's rows, where the answer allows it.

Some steps bound a person's rows before the end: the first one that makes several rows of one, and
a join of private tables, which bounds either side. A condition behind it is met by the rows that
are left, and counts too few. So it goes before the step if all that it reads is there:

- before a step that makes several rows of one, if it reads no column of this step or a later one;
- into the left side of a join of private tables, if it reads columns of this side alone, and into
  the right side of an inner one; with a left join, rows of the right side that do not meet the
  condition would come back as missing ones;
- into both sides of a union.

Row for row the same are left of what is not bounded. A person's rows stay a function of their own
rows, and expressions raise on no row, so that a condition may be evaluated on rows that a step
would have taken away (docs/proofs/people.md, Theorem 4).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

from unacorda.query.expressions.language import Column, Expression
from unacorda.query.expressions.quoting import identifier
from unacorda.query.plan.relation import (
    Derive,
    Explode,
    Lookup,
    Matched,
    PersonRows,
    Relation,
    RowFilter,
    Step,
    UnionAll,
)

_Sides = TypeVar("_Sides", Matched, UnionAll)


def push_filters(rows: Relation) -> Relation:
    """The same rows with every condition as early as it can be where people's rows are bounded."""
    if not bounds_rows(rows):
        return rows
    source, steps = rows.source, tuple(rows.steps)
    known = {leaf.name: leaf.column for leaves in rows.scope.leaves.values() for leaf in leaves}
    if isinstance(source, Matched):
        right = [new for new, (one, _) in source.columns.items() if one is None]
        left = [new for new in source.columns if new not in right]
        inner = source.how == "inner"
        source, steps = _pushed(source, steps, known, (left, []))
        source, steps = _pushed(source, steps, known, ([], right if inner else []))
    elif isinstance(source, UnionAll):
        both = list(source.columns)
        source, steps = _pushed(source, steps, known, (both, both))
    elif isinstance(source, PersonRows):
        source = dataclasses.replace(source, of=push_filters(source.of))
    if isinstance(source, Matched | UnionAll):
        source = dataclasses.replace(
            source, left=push_filters(source.left), right=push_filters(source.right)
        )
    found = dataclasses.replace(rows, source=source, steps=steps)
    place = found.multiplying
    if place is not None:
        first, *later = found.steps[place:]
        early = _readable(later, hidden=_names(first))
        late = [step for step in later if step not in early]
        found = dataclasses.replace(found, steps=(*found.steps[:place], *early, first, *late))
    return found


def bounds_rows(rows: Relation) -> bool:
    """Whether a person's rows are bounded somewhere on the way, before the end."""
    multiplied = any(member.multiplying is not None for member in rows.members)
    return multiplied or rows.sampled


def late_filters(rows: Relation) -> tuple[tuple[RowFilter, tuple[int, ...]], ...]:
    """The conditions that are met after people's rows were bounded, and to how many.

    Where that is the limit of the unit, no number is given.
    """
    found: list[tuple[RowFilter, tuple[int, ...]]] = []
    for member in rows.members:
        place, numbers = member.multiplying, tuple[int, ...]()
        if isinstance(member.source, Matched) and member.sampled:
            place, numbers = 0, member.source.max_rows
        elif isinstance(member.source, UnionAll) and any(map(bounds_rows, member.sides)):
            place = 0
        if place is not None:
            steps = member.steps[place:]
            found += [(step, numbers) for step in steps if isinstance(step, RowFilter)]
    return tuple(found)


def _pushed(
    source: _Sides,
    steps: tuple[Step, ...],
    known: Mapping[str, Column],
    columns: tuple[Sequence[str], Sequence[str]],
) -> tuple[_Sides, tuple[Step, ...]]:
    """The source with the conditions in its sides that these can meet, and the steps left behind.

    known: the columns of both together; columns: those by which either side may take conditions,
    none where it takes none.
    """
    sides, readable = [source.left, source.right], list[list[Derive | RowFilter]]()
    taking = [number for number in (0, 1) if columns[number]]
    for number in taking:
        taken = _columns_of(sides[number])
        names = {new: str(source.columns[new][number]) for new in columns[number] if new in known}
        free = {new for new, old in names.items() if new == old or new not in taken}
        readable.append(_readable(steps, there=free))
    moved = [step for step in readable[0] if step in readable[-1]] if readable else []
    filters = [step for step in moved if isinstance(step, RowFilter)]
    if not filters:
        return source, steps
    for number in taking:
        read = {name for step in moved for name in step.expression.columns}
        read -= {step.name for step in moved if isinstance(step, Derive)}
        for new in sorted(read):
            old = str(source.columns[new][number])
            if old != new:
                same = _same_column(known[new], old)
                sides[number] = sides[number].after(Derive(name=new, label="", expression=same))
        for step in moved:
            sides[number] = sides[number].after(step)
    left, right = sides
    kept = tuple(step for step in steps if step not in filters)
    return dataclasses.replace(source, left=left, right=right), kept


def _readable(
    steps: Sequence[Step], *, hidden: set[str] | None = None, there: set[str] | None = None
) -> list[Derive | RowFilter]:
    """The filters that read no hidden column, and the derived columns that they need.

    hidden: columns that are not known yet; there: those that are, None for all others.
    """
    unknown, known = set(hidden or ()), None if there is None else set(there)
    derived: list[Derive] = []
    filters: list[RowFilter] = []
    for step in steps:
        if not isinstance(step, Derive | RowFilter):
            unknown |= _names(step)
            continue
        read = step.expression.columns
        fits = not read & unknown and (known is None or read <= known)
        if isinstance(step, RowFilter):
            filters += [step] if fits and read else []  # a constant stays where it is
        elif fits:
            derived.append(step)
            known = None if known is None else known | {step.name}
        else:
            unknown.add(step.name)
    needed = {name for step in filters for name in step.expression.columns}
    for step in reversed(derived):
        needed |= step.expression.columns if step.name in needed else frozenset()
    made = [step for step in derived if step.name in needed]
    return [step for step in steps if step in made or step in filters]


def _names(step: Step) -> set[str]:
    """The columns that a step makes."""
    if isinstance(step, Lookup):
        return {leaf.name for leaf in step.readings}
    return {step.name} if isinstance(step, Derive | Explode) else set()


def _columns_of(rows: Relation) -> set[str]:
    """The names of all columns that there are after the last step."""
    found = {leaf.name for leaves in rows.scope.leaves.values() for leaf in leaves}
    return found.union(*map(_names, rows.steps))


def _same_column(column: Column, name: str) -> Expression:
    """A column of one side, to be called as in the whole."""
    return Expression(
        sql=identifier(name),
        kind=column.kind,
        lower=column.lower,
        upper=column.upper,
        columns=frozenset({name}),
        text=identifier(name),
        size=column.size,
    )
