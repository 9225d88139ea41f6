"""The rows of a question: tables, how they are put together, row-wise steps, and their groups.

What a person has in the end is a function of their own rows, of public tables and of the salt; so
is what becomes of a single row. How many rows that can be is worked out step by step
(`most_of_person`, `most_of_row`). Where people are protected, `relation` bounds their rows before
the first step that makes several rows of one (`multiplying`), and `compile_query` bounds them
again: each of the rows that their limits allow becomes no more than `MOST_COPIES` on the way.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Column, Expression, Kind, Name, identifier, twin
from unacorda.query.noise.selection import PrivateKeys
from unacorda.query.plan.person_values import (
    PersonColumn,
    PersonExtreme,
    PersonValue,
    is_person_value,
)
from unacorda.query.schema.keys import MOST_KEYS, Key, check_keys, tuples_of
from unacorda.query.schema.sources import Public, without_tables
from unacorda.query.schema.table import (
    Bounds,
    ColumnReading,
    Fact,
    Identity,
    TableSchema,
    joint_ids,
)

MOST_COPIES = 1_000
"""Into how many rows one may be turned, by all steps and joins of a question together."""

MOST_PARTS = 1_000
"""Into how many parts a text may be split, at most."""

_MOST_PERSON_ROWS = 16

_LONGEST_SEPARATOR = 100
_MOST_PUBLIC = 1_000  # cells for each private key
_FOUND = {Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN}
How = Literal["inner", "left"]
"""What becomes of a row that meets none: it goes, or it stays with NULLs beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Keep the rows for which the expression is true."""

    most: ClassVar[int] = 1

    expression: Expression

    def __str__(self) -> str:
        return f"where({self.expression.text!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derive:
    """Add a column. name: its SQL identifier; label: as the caller wrote it."""

    most: ClassVar[int] = 1

    name: str
    label: str
    expression: Expression

    def __str__(self) -> str:
        return f"derive({self.label}={self.expression.text!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explode:
    """Turn a row into one for each of the first `most` parts of a text; none where it is NULL.

    name, label: of the column of parts, as in `Derive`.
    """

    name: str
    label: str
    expression: Expression
    separator: str
    most: int

    def __str__(self) -> str:
        text, sign = self.expression.text, self.separator
        return f"explode({text!r}, separator={sign!r}, most={self.most}, into={self.label!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Two columns that are compared in a join, with their names as the tables have them."""

    left: Column
    left_label: str
    right: Column
    right_label: str

    def __str__(self) -> str:
        one, two = self.left_label, self.right_label
        return one if one == two else f"{one} = {two}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A join with a public table.

    keys: SQL over the public table of what is compared; most: how many of its rows share a key.
    names: its columns as they are called from here on; leaves: their readings, by these names.
    """

    table: str
    public: Public = field(compare=False, repr=False)
    how: How
    pairs: tuple[KeyPair, ...]
    most: int
    names: Mapping[str, str]
    leaves: Mapping[str, tuple[ColumnReading, ...]] = field(compare=False, repr=False)

    @property
    def readings(self) -> tuple[ColumnReading, ...]:
        """The readings of all its columns."""
        return tuple(itertools.chain.from_iterable(self.leaves.values()))

    def __str__(self) -> str:
        return _join_in_words(repr(self.table), self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePart:
    """Keep one part of the people: the rows with this key of those who are bound to it.

    label, column: what tells parts apart, as the caller wrote it and as it is read. keys: of all
    parts; max_parts: to how many of them a person is bound at most, drawn with the salt of 128 bits
    among those that they have rows in. members: the rows of all tables that are parted, before this
    step, and the column there; types: of ids, in which people are one.
    """

    most: ClassVar[int] = 1

    label: str
    column: Column
    key: Key
    keys: tuple[Key, ...]
    max_parts: int
    salt: int
    members: tuple[tuple[Relation, Column], ...] = field(compare=False, repr=False, default=())
    types: tuple[str, ...] = field(compare=False, repr=False, default=())

    def __str__(self) -> str:
        return f"part({self.label!r}, {self.key!r})"


Step = RowFilter | Derive | Explode | Lookup | PeoplePart
"""What is done to rows, one by one; `most`: how many rows it makes of one at most, or 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A private table of the session. scope: what its columns mean, as it was opened."""

    name: str
    scope: TableSchema = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"table({self.name!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Two sets of rows joined on the person, each cut to at most so many rows of a person first.

    pairs: further columns that are compared. names: the columns of the right side as they are
    called from here on; columns: by new identifier that of the side it is of, None for the other.
    """

    left: Relation
    right: Relation
    how: How
    max_rows: tuple[int, int]
    pairs: tuple[KeyPair, ...]
    names: Mapping[str, str]
    columns: Mapping[str, BothSides] = field(compare=False, repr=False)

    def __str__(self) -> str:
        joined = _join_in_words(str(self.right), self, f"max_rows={self.max_rows}")
        return f"{self.left}.{joined}"


def _join_in_words(other: str, join: Lookup | Matched, *more: str) -> str:
    how = [] if join.how == "inner" else [f"how={join.how!r}"]
    return f"join({', '.join([other, *map(str, join.pairs), *how, *more])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    """The rows of both. columns: by new identifier those of the two sides."""

    left: Relation
    right: Relation
    columns: Mapping[str, tuple[str, str]] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left}.union({self.right})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRows:
    """One row for each person, of values that are computed of all of their rows.

    asked: the values by label, as the caller gave them; columns: by identifier what is computed.
    """

    of: Relation
    asked: Mapping[str, PersonValue]
    columns: Mapping[str, PersonColumn] = field(compare=False, repr=False)

    def __str__(self) -> str:
        listed = ", ".join(f"{label}={value}" for label, value in self.asked.items())
        return f"{self.of}.per_person({listed})"


BothSides = tuple[str | None, str | None]
"""What a column is called on the left side and on the right, None on a side without it."""
Source = SourceTable | Matched | UnionAll | PersonRows
"""Where rows come from, before any step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Rows, as a value. scope: what names mean after all steps; public: the public tables."""

    source: Source
    scope: TableSchema = field(compare=False, repr=False)
    steps: tuple[Step, ...] = ()
    public: Mapping[str, Public] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return ".".join(map(str, (self.source, *self.steps)))

    @property
    def sides(self) -> tuple[Relation, ...]:
        """The rows that these are put together of; none where they are a table's."""
        match self.source:
            case SourceTable():
                return ()
            case PersonRows(of=rows):
                return (rows,)
            case Matched(left=left, right=right) | UnionAll(left=left, right=right):
                return left, right

    @property
    def members(self) -> tuple[Relation, ...]:
        """All rows that these are put together of, further down too, and themselves as the last."""
        return (*(member for side in self.sides for member in side.members), self)

    @property
    def tables(self) -> tuple[SourceTable, ...]:
        """The private tables, each as often as it is used."""
        sources = (member.source for member in self.members)
        return tuple(source for source in sources if isinstance(source, SourceTable))

    @property
    def identities(self) -> tuple[Identity, ...]:
        """What names a person, column by column; nothing where rows are protected."""
        return tuple(self.scope.ids.values())

    @property
    def copies(self) -> int:
        """How many rows the steps make of one at most."""
        return math.prod(max(1, step.most) for step in self.steps)

    @property
    def multiplying(self) -> int | None:
        """The place of the first step that may make several rows of one, of rows not bound yet.

        None where there is none; a join of private tables has bound its rows by itself, and of
        values of people there is one row each.
        """
        steps = () if isinstance(self.source, Matched | PersonRows) else self.steps
        return next((place for place, step in enumerate(steps) if step.most > 1), None)

    @property
    def most_of_person(self) -> int | None:
        """How many rows one person has at most; None where nothing says so before their limits."""
        match self.source:
            case SourceTable():
                return None
            case PersonRows():
                return self.copies
            case Matched(max_rows=(left, right)):
                return left * right * self.copies
            case UnionAll(left=one, right=other):
                first, second = one.most_of_person, other.most_of_person
                return None if first is None or second is None else (first + second) * self.copies

    @property
    def sampled(self) -> bool:
        """Whether a join of private tables can leave rows of a person out."""
        return any(
            side.most_of_person is None or side.most_of_person > most
            for member in self.members
            if isinstance(member.source, Matched)
            for side, most in zip(member.sides, member.source.max_rows, strict=True)
        )

    @property
    def bounded_early(self) -> bool:
        """Whether a person's rows are bounded somewhere on the way, before the end."""
        return self.sampled or any(member.multiplying is not None for member in self.members)

    @property
    def most_of_row(self) -> Mapping[str, int]:
        """By table, how many rows one of its rows becomes at most, by public numbers.

        In a private join it meets as many as come from the other side.
        """
        found: Counter[str] = Counter()
        met = (1, 1)
        if isinstance(self.source, SourceTable):
            found[self.source.name] = 1
        elif isinstance(self.source, Matched):
            met = self.source.max_rows[::-1]
        for side, most in zip(self.sides, met, strict=False):
            found.update({name: count * most for name, count in side.most_of_row.items()})
        return {name: count * self.copies for name, count in found.items()}

    @property
    def most(self) -> int | None:
        """How many rows one unit has at most."""
        return self.most_of_person if self.scope.ids else max(self.most_of_row.values())

    def after(self, step: Step, scope: TableSchema | None = None) -> Relation:
        """The rows after one more step; scope: what names mean then, where that changes."""
        return dataclasses.replace(self, steps=(*self.steps, step), scope=scope or self.scope)

    def where(self, condition: str) -> Relation:
        """See `Query.where`."""
        expression = self.scope.parse(condition, argument="where", expect=Kind.BOOLEAN)
        return self.after(RowFilter(expression=expression))

    def derive(self, label: str, text: str) -> Relation:
        """See `Query.derive`, of one column."""
        expected = "a new name: a column of that name exists (capitals do not tell names apart)"
        checks.demand(self.scope.alike(label) is None, label, text, expected=expected)
        expression = self.scope.parse(text, argument=label)
        name = f"{label} derived {len(self.scope.derived)}"
        scope = self.scope.with_derived(label, expression, identifier=name)
        return self.after(Derive(name=name, label=label, expression=expression), scope)

    def explode(self, text: str, *, separator: str, most: int | None, into: str | None) -> Relation:
        """See `Query.explode`."""
        expression = self.scope.parse(text, argument="explode", expect=Kind.TEXT)
        fits = checks.is_text(separator) and len(separator) <= _LONGEST_SEPARATOR
        checks.demand(fits, "separator", separator, expected="text, such as ','")
        shown = "\x00" not in separator and (separator.isprintable() or separator.isspace())
        checks.demand(shown, "separator", separator, expected="printable characters")
        if most is None:
            expected = "how many parts of a text count, such as most=5: else a row may become any "
            raise InvalidParameter("most", most, expected=f"{expected}number")
        count = checks.positive_integer(most=most)
        checks.demand(count <= MOST_PARTS, "most", most, expected=f"at most {MOST_PARTS:,} parts")
        label = self.scope.alike(text) if into is None else into
        if label is None:
            expected = "a name for the column of parts, since no single column is split"
            raise InvalidParameter("into", None, expected=expected)
        new = into is None or (checks.is_text(into) and self.scope.alike(into) is None)
        expected = "a new name: no column has it, in other capitals either"
        checks.demand(new, "into", into, expected=expected)
        step = Explode(
            name=f"{label} exploded {len(self.steps)}",
            label=label,
            expression=expression,
            separator=separator,
            most=count,
        )
        scope = self.scope.with_derived(label, expression, identifier=step.name)
        return self.after(step, scope).checked("most", most)

    def per_person(self, values: Mapping[str, PersonValue]) -> Relation:
        """See `Query.per_person`."""
        if not self.scope.ids:
            expected = (
                "a session whose unit is unacorda.Person('id', max_rows=...): unacorda.Row() "
                "protects single rows, and no id says which of them are one person's"
            )
            raise InvalidParameter("per_person", "unacorda.Row()", expected=expected)
        for member in self.members:
            growing = next((step for step in member.steps if step.most > 1), None)
            expected = (
                "it before a step that may make several rows of one, since of these only some "
                "are kept: join or explode what comes out"
            )
            checks.demand(growing is None, "per_person", str(growing), expected=expected)
        again = sum(isinstance(member.source, PersonRows) for member in self.members)
        expected = f"it at most {_MOST_PERSON_ROWS} times in one question"
        checks.demand(again < _MOST_PERSON_ROWS, "per_person", again + 1, expected=expected)
        known = map(self.scope.alike, self.scope.ids)
        ids = [label for label in known if label is not None]
        given = {**{label: PersonExtreme(function="min", column=label) for label in ids}, **values}
        expected = "a new name: the id of a person and other values have theirs"
        for label, value in values.items():
            hint = "unacorda.max_('value'), last_('value', by='day'), any_(...) or another value"
            checks.demand(is_person_value(value), label, value, expected=hint)
            checks.demand(twin([label, *ids]) is None, label, label, expected=expected)
        leaves: dict[str, tuple[ColumnReading, ...]] = {}
        columns: dict[str, PersonColumn] = {}
        facts: dict[str, Fact] = {}
        for label, value in given.items():
            found = value.columns(label, self.scope)
            leaves[label] = tuple(
                ColumnReading(sql=one.finished, column=one.column, label=label) for one in found
            )
            columns |= {one.column.name: one for one in found}
            fact = self.scope.facts.get(value.unchanged or "")
            if fact is not None and not isinstance(fact, Bounds):  # whose range the column has
                facts[label] = fact
        scope = TableSchema(
            table=f"{self.scope.table}, one row per person",
            leaves=leaves,
            ids=joint_ids({name: one.type for name, one in self.scope.ids.items()}),
            facts=facts,
            read_public=self.scope.read_public,
        )
        source = PersonRows(of=self, asked=dict(values), columns=columns)
        return Relation(source=source, scope=scope, public=self.public)

    def checked(self, argument: str, value: object) -> Relation:
        """The same, if no row becomes too many."""
        most = max(self.most_of_person or 1, *self.most_of_row.values())
        expected = (
            f"fewer: by all joins and explode() of a question together one row may become "
            f"{MOST_COPIES:,} rows at most, and here it may become {most:,}"
        )
        checks.demand(most <= MOST_COPIES, argument, value, expected=expected)
        return self

    def wanted(self, names: Iterable[str]) -> frozenset[str]:
        """The identifiers that are needed to come by these, ids and all steps included."""
        found = set(names)
        found |= {leaf.column.name for identity in self.identities for leaf in identity.leaves}
        for step in self.steps:
            if isinstance(step, Lookup):
                found |= {pair.left.name for pair in step.pairs}
            elif isinstance(step, PeoplePart):
                found.add(step.column.name)
            else:
                found |= step.expression.columns
        return frozenset(found)

    def leaves(self, names: Iterable[str]) -> tuple[ColumnReading, ...]:
        """The readings of columns of the source that are needed for these names."""
        own = [leaf for identity in self.identities for leaf in identity.leaves]
        lookups = [step for step in self.steps if isinstance(step, Lookup)]
        wanted = self.wanted(names).difference(
            leaf.column.name for one in lookups for leaf in one.readings
        )
        used = [leaf for name, leaf in self.scope.by_identifier.items() if name in wanted]
        return (*used, *(leaf for leaf in own if leaf not in used))

    def origins(self, names: Iterable[str]) -> Iterator[ColumnReading]:
        """The readings of columns of tables that these identifiers are made of."""
        needed = set(names)
        for step in reversed(self.steps):
            if isinstance(step, Derive | Explode) and step.name in needed:
                needed |= step.expression.columns
        lookups = (step.readings for step in self.steps if isinstance(step, Lookup))
        own = self.source.scope.leaves.values() if isinstance(self.source, SourceTable) else ()
        here = itertools.chain.from_iterable((*own, *lookups))
        yield from (leaf for leaf in here if leaf.column.name in needed)
        match self.source:
            case PersonRows(of=rows, columns=columns):
                # Of the first and the last the order is none of what they are made of.
                read = (columns[name].expressions[:1] for name in columns.keys() & needed)
                yield from rows.origins(
                    name for one in itertools.chain.from_iterable(read) for name in one.columns
                )
            case Matched(columns=columns) | UnionAll(columns=columns):
                for number, side in enumerate(self.sides):
                    both = (columns[name][number] for name in columns.keys() & needed)
                    yield from side.origins(name for name in both if name is not None)
            case SourceTable():
                pass

    def of_sides(self, names: Iterable[str]) -> tuple[tuple[Relation, frozenset[str]], ...]:
        """The rows that these are put together of, and what is needed of each for these names."""
        source, needed = self.source, {leaf.column.name for leaf in self.leaves(names)}
        if isinstance(source, SourceTable):
            return ()
        if isinstance(source, PersonRows):
            read = (
                x.columns
                for new in source.columns
                if new in needed
                for x in source.columns[new].expressions
            )
            return ((source.of, frozenset().union(*read)),)
        used = [source.columns[new] for new in source.columns if new in needed]
        if isinstance(source, Matched):
            used += [(pair.left.name, pair.right.name) for pair in source.pairs]
        return tuple(
            (side, frozenset(name for both in used if (name := both[number]) is not None))
            for number, side in enumerate(self.sides)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A column to group by.

    label: as the caller wrote it; column: the reading its keys fit; private: its keys are found.
    """

    label: str
    column: Column
    private: bool = False

    @property
    def name(self) -> str:
        """Its SQL identifier."""
        return self.column.name

    @property
    def found(self) -> str:
        """SQL of a row's private key, which Python can hold; NULL where it can not."""
        name = identifier(self.name)
        if self.column.kind is not Kind.INTEGER:
            return name
        whole = f"abs({name}) < 9007199254740992e0"
        return f"CAST(CASE WHEN {whole} THEN {name} END AS BIGINT)"

    @property
    def type(self) -> str:
        """The SQL type its keys are compared in."""
        kind = self.column.kind
        return "DOUBLE" if kind.numeric else "VARCHAR" if kind is Kind.TEXT else kind.name


def grouped(
    scope: TableSchema, columns: Sequence[str], keys: Any
) -> tuple[tuple[Group, ...], tuple[tuple[Key, ...], ...], PrivateKeys | None]:
    """The groups, the keys of those whose keys are public, and how the others' are found.

    keys: as `group_by` takes them. Raises InvalidParameter, naming the hint.
    """
    keys = {} if keys is None else without_tables(scope, {name: name for name in columns}, keys)
    if isinstance(keys, PrivateKeys):
        keys = {name: keys for name in columns if scope.declared_keys(name) is None}
    given = keys if isinstance(keys, Mapping) else {}
    expected = f"one list for each of {tuple(columns)}"
    checks.demand(set(given) <= set(columns), "keys", sorted(map(str, given)), expected=expected)
    found = {name: how for name, how in given.items() if isinstance(how, PrivateKeys)}
    hows = list(found.values())
    expected = "the same private_keys(...) for all columns: they are found together"
    checks.demand(len(set(hows)) <= 1, "keys", hows, expected=expected)
    public = [name for name in columns if name not in found]
    if found:
        keys = {name: values for name, values in given.items() if name not in found}
    listed = _keys(scope, public, keys) if public else ((),)
    few = not found or len(listed) <= _MOST_PUBLIC
    several = f"{len(listed):,} combinations of public keys"
    checks.demand(few, "keys", several, expected=f"at most {_MOST_PUBLIC:,} next to private ones")
    read = {name: _private_column(scope, name) for name in found}
    for place, name in enumerate(public):
        if name in given or not isinstance(keys, Mapping):
            read[name] = scope.column_of_keys(name, [key[place] for key in listed])
        else:  # declared with its values
            read[name] = scope.column(name, argument="group_by")[0]
    groups = (Group(label=name, column=read[name], private=name in found) for name in columns)
    return tuple(groups), listed, next(iter(hows), None)


def _keys(scope: TableSchema, columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
    if isinstance(keys, Mapping):
        lists = [
            check_keys(f"keys[{name!r}]", keys[name])
            if name in keys
            else _declared_keys(scope, name)
            for name in columns
        ]
        cells = math.prod(map(len, lists))
        expected = f"at most {MOST_KEYS:,}"
        checks.demand(cells <= MOST_KEYS, "keys", f"{cells:,} keys", expected=expected)
        return tuple(itertools.product(*lists))
    if len(columns) == 1:
        return tuple((key,) for key in check_keys("keys", keys))
    return tuples_of(columns, keys)


def _declared_keys(scope: TableSchema, name: str) -> Sequence[Key]:
    declared = scope.declared_keys(name)
    if declared is not None:
        return declared
    raise InvalidParameter(
        "keys",
        None,
        expected=f"the public values of {name!r}",
        lacks="keys",
        column=name,
        hint="keys=[...], or declare "
        f"columns={{{name!r}: unacorda.Categories([...])}}. Values are never read from the data, "
        f"unless they are found privately: keys={{{name!r}: unacorda.private_keys()}}, which "
        "spends a delta",
    )


def _private_column(scope: TableSchema, name: str) -> Column:
    """The reading whose values are found; an untyped column is text."""
    column = scope.column(name, argument="group_by")[0]
    if column.kind in _FOUND:
        return column
    hint = "CAST(... AS DATE)" if column.kind is Kind.TIMESTAMP else "FLOOR(...)"
    raise InvalidParameter(
        "keys",
        f"private_keys() of {name!r}",
        expected=f"a column of text, whole numbers, dates or booleans, not of {column.kind.value}s",
        hint=f"derive classes first, such as derive(k={hint!r})",
    )


_Sides = TypeVar("_Sides", Matched, UnionAll)


def push_filters(rows: Relation) -> Relation:
    """The same rows with every condition as early as it can be where people's rows are bounded.

    Some steps bound a person's rows before the end: the first one that makes several rows of one,
    and a join of private tables, which bounds either side. A condition behind it is met by the rows
    that are left, and counts too few. So it goes before the step if all that it reads is there:

    - before a step that makes several rows of one, if it reads no column of this step or a later
      one;
    - into the left side of a join of private tables, if it reads columns of this side alone, and
      into the right side of an inner one; with a left join, rows of the right side that do not meet
      the condition would come back as missing ones;
    - into both sides of a union.

    Row for row the same are left of what is not bounded. A person's rows stay a function of their
    own rows, and expressions raise on no row, so that a condition may be evaluated on rows that a
    step would have taken away (docs/proofs/people.md, Theorem 4).
    """
    if not rows.bounded_early:
        return rows
    source, steps = rows.source, tuple(rows.steps)
    known = {name: leaf.column for name, leaf in rows.scope.by_identifier.items()}
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


def late_filters(rows: Relation) -> tuple[tuple[RowFilter, tuple[int, ...]], ...]:
    """The conditions that are met after people's rows were bounded, and to how many.

    Where that is the limit of the unit, no number is given.
    """
    found: list[tuple[RowFilter, tuple[int, ...]]] = []
    for member in rows.members:
        place, numbers = member.multiplying, tuple[int, ...]()
        if isinstance(member.source, Matched) and member.sampled:
            place, numbers = 0, member.source.max_rows
        elif isinstance(member.source, UnionAll) and any(
            side.bounded_early for side in member.sides
        ):
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
        return {leaf.column.name for leaf in step.readings}
    return {step.name} if isinstance(step, Derive | Explode) else set()


def _columns_of(rows: Relation) -> set[str]:
    """The names of all columns that there are after the last step."""
    return set(rows.scope.by_identifier).union(*map(_names, rows.steps))


def _same_column(column: Column, name: str) -> Expression:
    """A column of one side, to be called as in the whole."""
    return Expression(
        sql=identifier(name),
        kind=column.kind,
        lower=column.lower,
        upper=column.upper,
        columns=frozenset({name}),
        node=Name(name),
        text=identifier(name),
        size=column.size,
    )
