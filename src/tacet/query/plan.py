"""A question as a value: row-wise steps, public groups, aggregates. Nothing here reads data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from tacet.errors import InvalidParameter
from tacet.query.aggregates.aggregate import Aggregate
from tacet.query.aggregates.answers import ENDINGS
from tacet.query.codec import encode
from tacet.query.columns import Categories, Key, check_keys
from tacet.query.expressions.types import Column, Expression, Kind
from tacet.query.keys import check_few, key_kinds, tuples_of
from tacet.query.ladders import Ladder
from tacet.query.ranking import Ranking
from tacet.query.scope import Identity, Leaf, Scope
from tacet.query.units import Person, Unit

__all__ = ["Derive", "Filter", "Group", "Query", "answer_columns"]

_T = TypeVar("_T")
_MOST_BINS = 100_000_000  # of one quantile; its counts are held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keep the rows for which the expression is true."""

    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Derive:
    """Add a column. name: its SQL identifier; label: as the caller wrote it."""

    name: str
    label: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A column to group by. label: as the caller wrote it; column: the reading its keys fit."""

    label: str
    column: Column

    @property
    def name(self) -> str:
        """Its SQL identifier."""
        return self.column.name

    @property
    def type(self) -> str:
        """The SQL type its keys are compared in."""
        numeric = self.column.kind.numeric
        return (
            "DOUBLE"
            if numeric
            else "VARCHAR"
            if self.column.kind is Kind.TEXT
            else (self.column.kind.name)
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Query:
    """A question about one table, built step by step; every step returns a new value.

    Made by `session.table(...)`. `where`, `derive` and `group_by` may stand in any sensible order;
    `agg` ends it. Nothing is read and nothing is spent until `session.evaluate`.
    """

    table: str
    unit: Unit
    scope: Scope
    steps: tuple[Filter | Derive, ...] = ()
    groups: tuple[Group, ...] = ()
    keys: tuple[tuple[Key, ...], ...] = ((),)
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    asked: Mapping[str, Aggregate] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = [f"table({self.table!r})"]
        for step in self.steps:
            text = step.expression.text
            if isinstance(step, Derive):
                parts.append(f"derive({step.label}={text!r})")
            else:
                parts.append(f"where({text!r})")
        if self.groups:
            names = ", ".join(repr(group.label) for group in self.groups)
            parts.append(f"group_by({names}; {len(self.keys):,} keys)")
        if self.aggregates:
            parts.append(f"agg({', '.join(self.aggregates)})")
        return ".".join(parts)

    def where(self, condition: str) -> Query:
        """Keep the rows for which a row-wise SQL condition is true (NULL is not true).

        Raises UnsafeExpression or InvalidParameter, naming the mend.
        """
        self._open("where")
        expression = self.scope.parse(condition, argument="where", expect=Kind.BOOLEAN)
        return dataclasses.replace(self, steps=(*self.steps, Filter(expression=expression)))

    def derive(self, **columns: str) -> Query:
        """Add columns made by row-wise SQL expressions: `derive(bmi="weight / (height * height)")`.

        Later ones may use earlier ones. A name that is taken already is refused.
        """
        self._open("derive")
        if not columns:
            raise InvalidParameter("derive", columns, expected="name='expression'")
        query = self
        for label, text in columns.items():
            scope = query.scope
            if label in scope.leaves or label in scope.derived:
                raise InvalidParameter(
                    label, text, expected="a new name: a column of that name exists"
                )
            expression = scope.parse(text, argument=label)
            name = f"{label} derived {len(scope.derived)}"
            query = dataclasses.replace(
                query,
                steps=(*query.steps, Derive(name=name, label=label, expression=expression)),
                scope=scope.with_derived(label, expression, identifier=name),
            )
        return query

    def group_by(
        self,
        *columns: str,
        keys: Iterable[Key] | Iterable[tuple[Key, ...]] | Mapping[str, Iterable[Key]] | None = None,
    ) -> Query:
        """Answer once for each public key; every key is answered, also where it has no rows.

        keys: for one column a list of values; for several a mapping of lists (all combinations)
        or a list of tuples. Columns declared as `Categories`, and boolean columns, need no keys.
        Rows with other values are left out of the question.
        """
        self._open("group_by")
        if self.groups:
            raise InvalidParameter("group_by", columns, expected="one group_by with all columns")
        if not columns or not all(isinstance(name, str) for name in columns):
            raise InvalidParameter("group_by", columns, expected="column names")
        if len(set(columns)) < len(columns):
            raise InvalidParameter("group_by", columns, expected="column names that differ")
        listed = self._keys(columns, keys)
        groups = tuple(
            Group(label=name, column=self._group_column(name, [key[i] for key in listed]))
            for i, name in enumerate(columns)
        )
        return dataclasses.replace(self, groups=groups, keys=listed)

    def agg(self, **aggregates: Aggregate) -> Query:
        """The aggregates to answer, by the names their columns get in the release.

        The budget of the question is split over them by their weights.
        """
        self._open("agg")
        if not aggregates:
            raise InvalidParameter("agg", aggregates, expected="name=tacet.count(), ...")
        taken = {group.label for group in self.groups}
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise InvalidParameter(
                    name,
                    aggregate,
                    expected="what tacet.count(), sum(), mean(), variance() or another function of "
                    "tacet.aggregates makes",
                )
            columns = answer_columns(name, aggregate.parts)
            if columns & taken:
                raise InvalidParameter(
                    name,
                    sorted(columns & taken),
                    expected="a name whose columns (name, name_se, name_low, ...) no group "
                    "and no other aggregate has",
                )
            taken |= columns
        bound = {name: aggregate.bound_to(self.scope) for name, aggregate in aggregates.items()}
        for name, aggregate in bound.items():
            if aggregate.lines != 1 and len(bound) > 1:
                raise InvalidParameter(
                    name,
                    f"{aggregate.lines:,} lines for each key",
                    expected="it alone in its agg(): ask the others in a question of their own",
                )
            if len(self.keys) * (aggregate.integers + 1) > _MOST_BINS:
                raise InvalidParameter(
                    name,
                    f"{aggregate.integers:,} integers for each of {len(self.keys):,} keys",
                    expected=f"at most {_MOST_BINS:,} of them together: fewer keys, or fewer steps",
                )
        return dataclasses.replace(self, aggregates=bound, asked=dict(aggregates))

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The readings of source columns that the question uses, ids included."""
        own = [leaf for identity in self.identities for leaf in identity.leaves]
        names = {leaf.name for leaf in own} | {group.name for group in self.groups}
        for step in self.steps:
            names |= step.expression.columns
        for aggregate in self.aggregates.values():
            names = names.union(*(expression.columns for expression in aggregate.expressions))
        used = self.scope.used(names)
        return (*used, *(leaf for leaf in own if leaf not in used))

    @property
    def identities(self) -> tuple[Identity, ...]:
        """What names a person, column by column."""
        if not isinstance(self.unit, Person):
            return ()
        return tuple(self.scope.ids[name] for name in self.unit.id)

    @property
    def inputs(self) -> tuple[str, ...]:
        """SQL of the aggregated expressions, each once."""
        found = [x.sql for a in self.aggregates.values() for x in a.expressions]
        return tuple(dict.fromkeys(found))

    @property
    def measures(self) -> tuple[str, ...]:
        """SQL of the exact sums and counts over the bounded rows, each once."""
        return _once(self.measures_of(a) for a in self.aggregates.values())

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """What is counted by place on a grid, each once."""
        return _once(self.rankings_of(a) for a in self.aggregates.values())

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """The ladders that people climb, each once."""
        return _once(self.ladders_of(a) for a in self.aggregates.values())

    def measures_of(self, aggregate: Aggregate) -> tuple[str, ...]:
        """The measures that one aggregate reads."""
        return aggregate.measures(self._values(aggregate), self.unit)

    def rankings_of(self, aggregate: Aggregate) -> tuple[Ranking, ...]:
        """The rankings that one aggregate reads."""
        return aggregate.rankings(self._values(aggregate))

    def ladders_of(self, aggregate: Aggregate) -> tuple[Ladder, ...]:
        """The ladders that one aggregate reads."""
        return aggregate.ladders(self._values(aggregate), self.unit)

    @property
    def lines(self) -> int:
        """How many lines of the release a cell has."""
        return max((a.lines for a in self.aggregates.values()), default=1)

    def parts(self) -> dict[str, Fraction]:
        """Each aggregate's part of the budget; they add up to 1."""
        whole = sum((a.weight for a in self.aggregates.values()), Fraction(0))
        return {name: a.weight / whole for name, a in self.aggregates.items()}

    def digest(self) -> str:
        """SHA-256 of what is asked, a function of the question alone."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The question in plain values, all that it can be put together from again.

        What the digest is made of. Of the table it holds the columns that are used, with their
        types and what was declared of them.
        """
        found: dict[str, Any] = {
            "table": self.table,
            "columns": {name: self._column(name) for name in self._sources()},
            "unit": encode(self.unit),
            "steps": [
                {"derive": step.label, "as": step.expression.text}
                if isinstance(step, Derive)
                else {"where": step.expression.text}
                for step in self.steps
            ],
            "groups": [group.label for group in self.groups],
            "keys": encode(self.keys),
            "aggregates": encode(self.asked),
        }
        if isinstance(self.unit, Person) and self.unit.search is not None:
            found["search"] = encode(self.unit.search)
        return found

    def _sources(self) -> tuple[str, ...]:
        """The names of the columns that the question reads, in the order of the table."""
        used = {leaf.label for leaf in self.leaves}
        return tuple(name for name in self.scope.types if name in used)

    def _column(self, name: str) -> dict[str, Any]:
        fact = self.scope.facts.get(name)
        declared = {} if fact is None else {"fact": encode(fact)}
        return {"type": self.scope.types[name], **declared}

    def _values(self, aggregate: Aggregate) -> tuple[str, ...]:
        inputs = self.inputs
        return tuple(f"v{inputs.index(x.sql)}" for x in aggregate.expressions)

    def _open(self, step: str) -> None:
        if self.aggregates:
            raise InvalidParameter(step, step, expected="it before agg(), which ends a question")

    def _keys(self, columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
        if keys is None:
            keys = {name: self._public_values(name) for name in columns}
        if isinstance(keys, Mapping):
            if not set(keys) <= set(columns):
                raise InvalidParameter(
                    "keys", sorted(map(str, keys)), expected=f"one list for each of {columns}"
                )
            given = {n: keys[n] if n in keys else self._public_values(n) for n in columns}
            lists = [check_keys(f"keys[{name!r}]", given[name]) for name in columns]
            check_few(lists)
            return tuple(itertools.product(*lists))
        if len(columns) == 1:
            listed = tuple((key,) for key in check_keys("keys", keys))
            check_few([listed])
            return listed
        return tuples_of(columns, keys)

    def _public_values(self, name: str) -> Sequence[Key]:
        fact = self.scope.facts.get(self.scope.resolve(name, argument="group_by"))
        if isinstance(fact, Categories):
            return fact.values
        readings = self.scope.column(name, argument="group_by")
        if len(readings) == 1 and readings[0].kind is Kind.BOOLEAN:
            return (False, True)
        raise InvalidParameter(
            "keys",
            None,
            expected=f"the public values of {name!r}: keys=[...], or declare "
            f"columns={{{name!r}: tacet.Categories([...])}}. Values are never read off the data",
        )

    def _group_column(self, name: str, keys: Sequence[Key]) -> Column:
        kinds = key_kinds(keys)
        readings = self.scope.column(name, argument="group_by")
        for column in readings:
            if column.kind in kinds:
                return column
        raise InvalidParameter(
            "keys",
            list(keys)[:3],
            expected=f"keys of the type of {name!r}, which holds {readings[0].kind.value}",
        )


def answer_columns(name: str, parts: Sequence[str] = ("",)) -> set[str]:
    """The columns of a release that belong to the aggregate of this name."""
    return {f"{name}{part}{ending}" for part in parts for ending in ENDINGS}


def _once(found: Iterable[Sequence[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))
