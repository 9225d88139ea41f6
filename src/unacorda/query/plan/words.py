"""What is done to rows, in words."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable

from unacorda.query.plan.relation import (
    Derive,
    Explode,
    KeyPair,
    Lookup,
    Matched,
    PeoplePart,
    Relation,
    RowFilter,
    SourceTable,
    Step,
)
from unacorda.query.schema.units import Person, Unit, steps_of

__all__ = [
    "limits_in_words",
    "lines_of",
    "shown",
]


def shown(rows: Relation) -> str:
    """Rows as the caller wrote them."""
    match rows.source:
        case SourceTable(name=name):
            parts = [f"table({name!r})"]
        case Matched(left=left, right=right, max_rows=most, how=how, pairs=pairs):
            beside = "".join(f", {_pair(pair)}" for pair in pairs)
            kept = "" if how == "inner" else f", how={how!r}"
            parts = [f"{shown(left)}.join({shown(right)}{beside}{kept}, max_rows={most})"]
        case _:
            parts = [f"{shown(rows.sides[0])}.union({shown(rows.sides[1])})"]
    return ".".join([*parts, *map(_step, rows.steps)])


def lines_of(rows: Relation, names: Iterable[str], unit: Unit) -> list[str]:
    """What happens to the rows, in order, and how many rows one unit can have where that grows.

    names: the identifiers of the columns that are used in the end.
    """
    lines = [
        f"read {leaf.label} as {leaf.column.kind.value}; what does not convert is missing"
        for leaf in rows.leaves(names)
        if leaf.converts
    ]
    before: list[str] = []
    for side, needed in rows.of_sides(names):
        before.append(f"take the rows of {side.scope.table}")
        before += [f"{side.scope.table}: {line}" for line in lines_of(side, needed, unit)]
    if isinstance(rows.source, Matched):
        before += _matched(rows.source)
    elif rows.sides:
        left, right = (side.scope.table for side in rows.sides)
        before.append(f"put the rows of {left} and of {right} together{_most(rows, (), unit)}")
    steps = []
    for number, step in enumerate(rows.steps, start=1):
        if number - 1 == rows.multiplying and isinstance(unit, Person):
            person, most = ", ".join(rows.scope.ids), _count(unit.all_rows)
            steps.append(
                f"keep at most {most} of each person ({person}), "
                "chosen at random, before any row becomes several; how many rows go is not known"
            )
        steps.append(_line(step) + _grown(rows, step, number, unit))
        if isinstance(step, Lookup):
            wanted = rows.wanted(names)
            steps += [
                f"read {leaf.label} of {step.table} as {leaf.column.kind.value}; what does not "
                "convert is missing"
                for choices in step.leaves.values()
                for leaf in choices
                if leaf.converts and leaf.name in wanted
            ]
    return [*before, *lines, *steps]


def _matched(source: Matched) -> list[str]:
    lines = []
    for side, most in zip((source.left, source.right), source.max_rows, strict=True):
        bound = Person(tuple(side.scope.ids), max_rows=most)
        lines += [f"{side.scope.table}: {line}" for line in limits_in_words(bound, cells=1)]
    left, right = source.left.scope, source.right.scope
    people = [
        one if one == two else f"{one} = {two}"
        for one, two in zip(left.ids, right.ids, strict=True)
    ]
    named = " and ".join([*people, *map(_pair, source.pairs)])
    rest = "the others go" if source.how == "inner" else f"the others of {left.table} stay"
    one, two = source.max_rows
    lines.append(
        f"join the rows of each person in {left.table} with hers in {right.table}, on {named}; "
        f"{rest}: one person has at most {_count(one * two)}"
    )
    return lines


def _line(step: Step) -> str:
    match step:
        case RowFilter(expression=expression):
            return f"keep rows where {expression.text}"
        case Derive(label=label, expression=expression):
            return f"derive {label} = {expression.text}"
        case Explode(label=label, expression=expression):
            return (
                f"split {expression.text} at {step.separator!r} into {label}, a row for each of "
                f"its first {step.most:,} parts"
            )
        case PeoplePart(label=label, key=key, keys=keys, max_parts=most):
            parts = "1 part" if most == 1 else f"{most:,} parts"
            return (
                f"keep the rows of the part where {label} is {key!r}, one of {len(keys):,}: of "
                f"people who are bound to it, each to at most {parts}, the same for every question"
            )
        case Lookup(table=table):
            on = " and ".join(map(_pair, step.pairs))
            rest = "rows that meet none go" if step.how == "inner" else "rows that meet none stay"
            return f"join with {table} (public) on {on}: a row meets at most {step.most:,}; {rest}"


def _grown(rows: Relation, step: Step, number: int, unit: Unit) -> str:
    if not isinstance(step, Explode | Lookup) or step.most <= 1:
        return ""
    return _most(rows, rows.steps[:number], unit)


def _most(rows: Relation, steps: tuple[Step, ...], unit: Unit) -> str:
    """How many rows of these one unit has, and whether that matters."""
    here = Relation(source=rows.source, scope=rows.scope, steps=steps)
    if not isinstance(unit, Person):
        return f": one row of the table counts as at most {_count(here.most or 1)}"
    if here.multiplying is not None:
        most = unit.all_rows * here.copies
        return f": one person has at most {_count(most)}, which are bound again afterwards"
    if here.most is None:
        return ": a person's rows, however many, are bound afterwards"
    return f": one person has at most {_count(here.most)}, which are bound afterwards"


def _step(step: Step) -> str:
    match step:
        case RowFilter(expression=expression):
            return f"where({expression.text!r})"
        case Derive(label=label, expression=expression):
            return f"derive({label}={expression.text!r})"
        case Explode(label=label, expression=expression):
            text, sign = expression.text, step.separator
            return f"explode({text!r}, separator={sign!r}, most={step.most}, into={label!r})"
        case PeoplePart(label=label, key=key):
            return f"part({label!r}, {key!r})"
        case Lookup(table=table, how=how):
            on = ", ".join(map(_pair, step.pairs))
            return f"join({table!r}, {on}{'' if how == 'inner' else ', how=' + repr(how)})"


def _pair(pair: KeyPair) -> str:
    one, two = pair.left_label, pair.right_label
    return one if one == two else f"{one} = {two}"


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def limits_in_words(unit: Person, *, cells: int) -> tuple[str, ...]:
    """What happens to a person's rows, step by step.

    >>> limits_in_words(Person("id", max_rows=2), cells=4)
    ('keep at most 2 rows of each person (id), chosen at random, over all groups together; how \
many rows go is not known',)
    """
    steps, person = steps_of(unit, cells=cells), f"each person ({', '.join(unit.id)})"
    unknown = "chosen at random{}; how many rows go is not known"
    lines = []
    if unit.search is not None:
        lines.append(
            f"{unit.max_rows:,} rows of a person: a number that was found privately when the "
            f"session was opened, for {unit.search.budget}"
        )
    if steps.groups is not None:
        lines.append(
            f"keep at most {_some(steps.groups, 'group')} of {person}, {unknown.format('')}"
        )
    if steps.each is not None:
        where = "" if cells == 1 else " in each group"
        lines.append(
            f"keep at most {_some(steps.each, 'row')} of {person}{where}, {unknown.format('')}"
        )
    if steps.rows is not None:
        everywhere = unknown.format(", over all groups together")
        lines.append(f"keep at most {_some(steps.rows, 'row')} of {person}, {everywhere}")
    return tuple(lines)


def _some(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"
