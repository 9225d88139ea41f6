"""Texts on how a release is computed, what happens to rows, and which private keys appear."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from unacorda.display import counted
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.query.aggregates.automatic import AutomaticSum
from unacorda.query.aggregates.base import Forecast
from unacorda.query.aggregates.linear import BoundedSum, Count, CountDistinct, CountPeople, Linear
from unacorda.query.allocation import Allocation
from unacorda.query.expressions.language import (
    Expression,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    literal,
    text_of,
)
from unacorda.query.noise.additive import of_people
from unacorda.query.noise.selection import KeyRule
from unacorda.query.plan.query import BatchPosition, Query
from unacorda.query.plan.relation import (
    Derive,
    Explode,
    Lookup,
    Matched,
    PeoplePart,
    PersonRows,
    Relation,
    RowFilter,
    Step,
    late_filters,
    push_filters,
)
from unacorda.query.schema.keys import MOST_KEYS
from unacorda.query.schema.table import ColumnReading
from unacorda.query.schema.units import Person, Unit, steps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKeys:
    """The chance of private keys to appear.

    groups: their columns; part: of the budget; sensitivity: under how many keys one unit counts,
    and why; most: how many combinations are answered, of more the first in the order of the keys.
    """

    groups: tuple[str, ...]
    part: float
    rule: KeyRule
    sensitivity: str
    most: int

    @classmethod
    def of(cls, query: Query, allocation: Allocation) -> Self | None:
        """What a question with this noise finds, None where all keys are public."""
        if allocation.rule is None:
            return None
        return cls(
            groups=tuple(group.label for group in query.private_groups),
            part=float(query.keys_part),
            rule=allocation.rule,
            sensitivity=of_people(allocation.reach).reason,
            most=query.most_found,
        )

    @property
    def names(self) -> str:
        """The columns, in words."""
        return ", ".join(self.groups)

    @property
    def sentence(self) -> str:
        """The keys that may be missing, for a note on a table."""
        return f"{self.names}: {self.rule.words()}; keys may be missing"

    @property
    def sentences(self) -> tuple[str, ...]:
        """How keys are found, and what may be missing."""
        rows = "all rows that are left; NULL is a key like any other"
        return (
            f"find keys of {self.names} that enough different people have, counted over {rows}",
            f"{self.rule.words()}. Keys may be missing; how many is not known",
            *self._first,
            f"keys: {self.rule}",
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A paragraph of an explanation."""
        share = f"{100 * self.part:.3g}% of the budget, delta {float(self.rule.delta):.3g}"
        return (
            f"keys of {self.names} ({share})",
            f"  sensitivity: {self.sensitivity}",
            f"  rule: {self.rule}",
            f"  {self.rule.words()}",
            "  keys may be missing; how many is not known",
            *(f"  {text}" for text in self._first),
        )

    @property
    def _first(self) -> tuple[str, ...]:
        if self.most >= MOST_KEYS:  # more than public keys may be
            return ()
        return (f"at most {self.most:,} of the keys that are found are answered, in their order",)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {
            "columns": list(self.groups),
            "part": self.part,
            "delta": float(self.rule.delta),
            "rule": str(self.rule),
            "sensitivity": self.sensitivity,
            "most": self.most,
            "appear": [[float(chance), people] for chance, people in self.rule.chances],
        }


_READING = (
    "Values are as released and may be below zero or out of range; .clamped() gives possible "
    "ones, which is also how they are printed. Standard errors and intervals are about the exact "
    "answer{kept}, and count the noise, not what bounding, clamping or sampling did."
)
_OF_PEOPLE = " Numbers of people are about all of their rows."


def readings_of(query: Query, forecasts: Mapping[str, Forecast]) -> tuple[str, ...]:
    """Notes on a release: which values are clamped, which answers have no interval."""
    ranges: dict[tuple[str, float, float], list[str]] = {}
    for name, aggregate in query.aggregates.items():
        for one in dict.fromkeys(aggregate.clamped):
            ranges.setdefault(one, []).append(name)
    clamping = [
        f"{', '.join(names)}: {column} is clamped to [{low:g}, {high:g}]"
        if names != [column]
        else f"{column} is clamped to [{low:g}, {high:g}]"
        for (column, low, high), names in ranges.items()
    ]
    stated = (f"{name}: {one.reading}" for name, one in forecasts.items() if one.reading)
    return (*clamping, *stated, *texts_in_words(query))


def provenance(
    query: Query,
    allocation: Allocation,
    cost: Guarantee,
    *,
    forecasts: Mapping[str, Forecast],
    place: BatchPosition | None = None,
) -> tuple[str, ...]:
    """Describe how a release was computed, sentence by sentence, from public facts alone."""
    change = "replaced by another" if query.unit.neighbors is ReplaceOne else "left out"
    protects = (
        f"Protects {query.unit}: whether it is in the table or {change} changes the distribution "
        f"of this answer by no more than {cost} allows."
    )
    noises = [f"{name}: {one.noise}" for name, one in forecasts.items()]
    lines = [protects]
    if place is not None:
        lines.append(
            f"Question {place.name!r} of {len(place.together.names):,} that were asked together: "
            f"{cost} is for all of them, once."
        )
    lines += rows_in_words(query)
    if (keys := FoundKeys.of(query, allocation)) is not None:
        lines += keys.sentences
    kept = kept_rows(query)
    people = isinstance(query.unit, Person) and query.counts_people and bool(kept)
    return (*lines, *noises, _READING.format(kept=kept) + _OF_PEOPLE * people)


def kept_rows(query: Query) -> str:
    """Which rows an exact answer is about; nothing if no row that is read can be dropped."""
    unit = query.limited
    if not query.drops_rows or not isinstance(unit, Person):
        return ""
    steps, person = steps_of(unit, cells=query.cells), ", ".join(unit.id)
    if steps.groups is None and steps.each is None:
        bound = f"at most {unit.all_rows if steps.rows is None else steps.rows:,} per {person}"
    else:
        groups = [] if steps.groups is None else [counted(steps.groups, "group")]
        each = [] if steps.each is None else [f"{counted(steps.each, 'row')} in each group"]
        rows = [] if steps.rows is None else [f"{counted(steps.rows, 'row')} in all"]
        bound = f"at most {', '.join([*groups, *each, *rows])} per {person}"
    return f" on the kept rows ({bound})"


def rows_in_words(query: Query) -> tuple[str, ...]:
    """What happens to the rows, in order."""
    pushed = push_filters(query.rows) if isinstance(query.unit, Person) else query.rows
    lines = _lines_of(pushed, query.names, query.limited)
    if query.public_groups:
        names = ", ".join(group.label for group in query.public_groups)
        count = counted(len(query.keys), "public key")
        lines.append(f"keep rows whose {names} is one of {count}; every key is answered")
    if query.margins is not None:
        lines.append(f"sum over columns ({query.margins}); all tables add up")
    unit = query.limited
    if isinstance(unit, Person):
        ids = ", ".join(unit.id)
        lines.append(f"drop rows without {ids} (whether or not there are any)")
        if query.rows.most_of_person != 1:
            if query.samples_rows:
                lines += limits_in_words(unit, cells=query.cells)
            if query.counts_people:
                lines.append(_counted_once(query, unit))
    return (*lines, *filtered_in_words(query), *texts_in_words(query))


def texts_in_words(query: Query) -> tuple[str, ...]:
    """What a reader of counts and comparisons of texts should know, from the question alone."""
    every = [expression for rows in _relations(query.rows) for expression in _expressions(rows)]
    lines = []
    for name, aggregate in query.aggregates.items():
        every += aggregate.expressions
        column = getattr(aggregate, "column", None)
        if column is None or not isinstance(aggregate, Count | CountPeople | CountDistinct):
            continue
        read = query.rows.origins(
            itertools.chain.from_iterable(x.columns for x in aggregate.expressions)
        )
        lines += [
            f"{name}: values of {leaf.label} that are no {leaf.column.kind.value} are not counted"
            if leaf.drops_texts
            else f"{name}: every text in {leaf.label} counts, such as 'n/a'; declare Bounds of "
            f"{leaf.label} to count numbers only"
            for leaf in {leaf.column.name: leaf for leaf in read if leaf.of_text}.values()
        ]
    return (*dict.fromkeys(itertools.chain.from_iterable(map(_misleading_texts, every))), *lines)


_ORDERED = frozenset({"<", "<=", ">", ">=", "BETWEEN"})
_COMPARED = _ORDERED | {"=", "<>", "IN", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
_DAY_FIRST = re.compile(r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}")
_NUMERIC = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def _misleading_texts(expression: Expression) -> Iterator[str]:
    """What to write for text literals beside columns that look like dates or numbers.

    Decided by the literals and the comparisons in which they stand alone.
    """
    waiting: list[Node] = [expression.node]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Operation):
            continue
        waiting += reversed(node.operands)
        column = next((text_of(one) for one in node.operands if isinstance(one, Name)), None)
        values = [one.value for one in node.operands if isinstance(one, Literal)]
        texts = [value for value in values if isinstance(value, str)]
        if column is None or node.name not in _COMPARED:
            continue
        for text in texts:
            compared = f"{column} is compared as text with {literal(text)}"
            if found := _DAY_FIRST.fullmatch(text):
                layout = f"%d{found[1]}%m{found[1]}%Y"
                yield (
                    f"{compared}, not as a date: write CAST({column} AS DATE) and a literal such "
                    f"as DATE '2024-01-31', or TRY_STRPTIME({column}, '{layout}') where the column "
                    "is written like that"
                )
                break
            if node.name in _ORDERED and _NUMERIC.fullmatch(text):
                yield f"{compared}, and '10' is below '9' then: write a number without quotes"
                break


def converted_columns(query: Query) -> tuple[str, ...]:
    """The text columns that are read as numbers or the like, where other texts are missing."""
    names = {
        column
        for one in query.aggregates.values()
        for expression in one.expressions
        for column in expression.columns
    }
    read = query.rows.origins(names)
    return tuple(dict.fromkeys(leaf.label for leaf in read if leaf.drops_texts))


def _relations(rows: Relation) -> Iterator[Relation]:
    yield rows
    for side in rows.sides:
        yield from _relations(side)


def _expressions(rows: Relation) -> list[Expression]:
    return [one.expression for one in rows.steps if isinstance(one, RowFilter | Derive | Explode)]


def filtered_in_words(query: Query) -> tuple[str, ...]:
    """Which answers are too low, as their conditions apply only to the bounded rows."""
    unit = query.limited
    if not isinstance(unit, Person) or not (query.drops_rows or query.rows.bounded_early):
        return ()
    ids = ", ".join(unit.id)
    lines = []
    behind = late_filters(push_filters(query.filtered(people=not query.samples_rows)))
    for step, numbers in behind:
        most = " and ".join(f"{number:,}" for number in numbers or [unit.all_rows])
        lines.append(
            f"{step.expression.text}: filtered after at most {most} rows per {ids} were kept: the "
            "counts are too low; filter columns that are there before, or raise max_rows"
        )
    kept = f"after at most {counted(unit.all_rows, 'row')} per {ids} were kept"
    for name in query.filtered_late:
        aggregate = query.aggregates[name]
        if isinstance(aggregate, BoundedSum | AutomaticSum):
            lines.append(f"{name}: filtered {kept}: the sum is of too few rows; use WHERE")
        elif isinstance(aggregate, Linear) and aggregate.counts:
            lines.append(f"{name}: filtered {kept}: the count is too low; use WHERE")
    return tuple(lines)


def _counted_once(query: Query, unit: Person) -> str:
    """From which rows people are counted, and in how many groups."""
    ids, most = ", ".join(unit.id), query.reach.touched
    text = f"count each person ({ids}) once"
    if query.groups:
        text += " in each group"
    text += ", from all of their rows" + " that are left" * query.rows.bounded_early
    if query.groups and most < query.cells:
        text += f", in at most {counted(most, 'group')}, chosen at random"
    return text


def _lines_of(rows: Relation, names: Iterable[str], unit: Unit) -> list[str]:
    """What happens to the rows, in order, and how many rows one unit can have where that grows.

    names: the identifiers of the columns that are used in the end.
    """
    tested = {name for one in _expressions(rows) for name in one.columns}
    lines = [
        _reading(leaf, leaf.label, compared=leaf.column.name in tested)
        for leaf in rows.leaves(names)
        if leaf.of_text
    ]
    before: list[str] = []
    for side, needed in rows.of_sides(names):
        before.append(f"take the rows of {side.scope.table}")
        before += [f"{side.scope.table}: {line}" for line in _lines_of(side, needed, unit)]
    if isinstance(rows.source, Matched):
        before += _matched(rows.source)
    elif isinstance(rows.source, PersonRows):
        before.append(_of_people(rows.source, names={leaf.label for leaf in rows.leaves(names)}))
    elif rows.sides:
        left, right = (side.scope.table for side in rows.sides)
        before.append(f"put the rows of {left} and of {right} together{_most(rows, (), unit)}")
    steps = []
    for number, step in enumerate(rows.steps, start=1):
        if isinstance(step, Derive) and not step.label:  # a column under another name
            continue
        if number - 1 == rows.multiplying and isinstance(unit, Person):
            person, most = ", ".join(rows.scope.ids), counted(unit.all_rows, "row")
            steps.append(
                f"keep at most {most} of each person ({person}), "
                "chosen at random, before a step makes several rows of one; how many rows are "
                "dropped is not known"
            )
        grows = _most(rows, rows.steps[:number], unit) if step.most > 1 else ""
        steps.append(_line(step) + grows)
        if isinstance(step, Lookup):
            wanted = rows.wanted(names)
            steps += [
                _reading(leaf, f"{leaf.label} of {step.table}")
                for leaf in step.readings
                if leaf.of_text and leaf.column.name in wanted
            ]
    return [*before, *lines, *steps]


def _reading(leaf: ColumnReading, named: str, *, compared: bool = False) -> str:
    if leaf.column.kind is Kind.TEXT:
        return f"read {named} as text{', which is compared as text' * compared}"
    return f"read {named} as {leaf.column.kind.value}; what does not convert is missing"


def _of_people(source: PersonRows, *, names: set[str]) -> str:
    asked = source.asked.items()
    listed = [f"{label} = {value.written(str)}" for label, value in asked if label in names]
    most = source.of.most_of_person
    rows = "their rows" if most is None else f"their {counted(most, 'row')} that are left at most"
    return (
        f"take one value per person from all {rows}: {', '.join(listed) or 'that they are there'}"
    )


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
    named = " and ".join([*people, *map(str, source.pairs)])
    rest = "the others go" if source.how == "inner" else f"the others of {left.table} stay"
    one, two = source.max_rows
    lines.append(
        f"join the rows of each person in {left.table} with theirs in {right.table}, on {named}; "
        f"{rest}: one person has at most {counted(one * two, 'row')}"
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
            parts = counted(most, "part")
            return (
                f"keep the rows of the part where {label} is {key!r}, one of {len(keys):,}: of "
                f"people who are bound to it, each to at most {parts}, the same for every question"
            )
        case Lookup(table=table):
            on = " and ".join(map(str, step.pairs))
            rest = "rows that meet none go" if step.how == "inner" else "rows that meet none stay"
            return f"join with {table} (public) on {on}: a row meets at most {step.most:,}; {rest}"


def _most(rows: Relation, steps: tuple[Step, ...], unit: Unit) -> str:
    """How many rows of these one unit has, and whether that matters."""
    here = Relation(source=rows.source, scope=rows.scope, steps=steps)
    if not isinstance(unit, Person):
        return f": one row of the table counts as at most {counted(here.most or 1, 'row')}"
    if here.multiplying is not None:
        most = counted(unit.all_rows * here.copies, "row")
        return f": one person has at most {most}, which are bounded again afterwards"
    if here.most is None:
        return ": a person's rows, however many, are bounded afterwards"
    return f": one person has at most {counted(here.most, 'row')}, which are bounded afterwards"


def limits_in_words(unit: Person, *, cells: int) -> tuple[str, ...]:
    """What happens to a person's rows, step by step.

    >>> limits_in_words(Person("id", max_rows=2), cells=4)
    ('keep at most 2 rows of each person (id), chosen at random, over all groups together; how \
many rows are dropped is not known',)
    """
    steps, lines, ids = steps_of(unit, cells=cells), [], ", ".join(unit.id)
    if unit.search is not None:
        lines.append(
            f"{unit.max_rows:,} rows of a person: a number that was found privately when the "
            f"session was opened, for {unit.search.budget}"
        )
    limits = (
        (steps.groups, "group", "", ""),
        (steps.each, "row", "" if cells == 1 else " in each group", ""),
        (steps.rows, "row", "", ", over all groups together"),
    )
    for most, what, where, over in limits:
        if most is not None:
            kept = f"keep at most {counted(most, what)} of each person ({ids}){where}"
            lines.append(f"{kept}, chosen at random{over}; how many rows are dropped is not known")
    return tuple(lines)
