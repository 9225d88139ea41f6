"""JOIN and UNION ALL: what several tables offer together, as steps over the first of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import places, refusals
from unacorda.query.expressions.tree import Name, text_of
from unacorda.query.sql.source import UNION_ALL, Source, free_name, given
from unacorda.query.sql.types import Derived, Joined, United

__all__ = ["joined", "united"]

_FORMS = (
    "Write a JOIN b USING (id) or a LEFT JOIN b ON a.id = b.person. Two tables of people are "
    "joined on the person; on a public one any columns are compared."
)
_ON = (
    "Write equalities of columns there, with AND between them: ON a.id = b.person AND a.day = "
    "b.day. Other conditions go behind WHERE."
)
_ColumnsOf = Callable[[str], Collection[str]]


def joined(left: Source, right: Source, join: exp.Join, *, columns_of: _ColumnsOf) -> Source:
    """What two sources offer side by side. Raises UnsafeExpression for other than equi-joins."""
    pairing = _Pairing(
        text=left.text,
        left=with_columns(left, columns_of),
        right=with_columns(right, columns_of),
        join=join,
    )
    how = pairing.how()
    on = pairing.on()
    left, right = pairing.left, pairing.right
    names = {label.casefold() for label in _labels(left, columns_of)}
    columns = dict(left.columns)
    qualified = dict(left.qualified)
    ambiguous = set(left.ambiguous)
    new: list[tuple[str, str]] = []
    for key, (shown, meant) in right.columns.items():
        assert isinstance(meant, Name)
        if any(meant.name == theirs for _, theirs in on):
            continue
        label = shown
        if shown.casefold() in names or key in columns:
            label = free_name(f"{right.qualifier}.{shown}", names)
            ambiguous |= {key} if key in columns else set()
        names.add(label.casefold())
        new.append((label, meant.name))
        columns.setdefault(key, (shown, Name(label)))
        qualified[right.qualifier.casefold(), key] = Name(label)
    step = Joined(
        table=right.table,
        steps=right.steps,
        on=on,
        how=how,
        columns=tuple(new),
        place=places.of_node(left.text, join),
    )
    return replace(
        left,
        name=f"{left.name} with {right.name}",
        steps=(*left.steps, step),
        columns=columns,
        qualified=qualified,
        ambiguous=frozenset(ambiguous),
    )


def united(left: Source, right: Source, tree: exp.Expression, *, columns_of: _ColumnsOf) -> Source:
    """What two row-wise SELECTs offer one after the other."""
    left, right = with_columns(left, columns_of), with_columns(right, columns_of)
    if list(left.columns) != list(right.columns):
        raise _Fault(text=left.text).of(
            "the parts of its UNION ALL list other columns", UNION_ALL, tree
        )
    place = places.of_node(left.text, tree)
    names = {label.casefold() for side in (left, right) for label in _labels(side, columns_of)}
    columns = {}
    sides = [left, right]
    for key, (shown, meant) in left.columns.items():
        other, label = right.columns[key][1], shown
        if meant != other:
            label = free_name(shown, names)
            names.add(label.casefold())
            sides = [
                replace(
                    side,
                    steps=(
                        *side.steps,
                        Derived(name=label, expression=text_of(node), place=place),
                    ),
                )
                for side, node in zip(sides, (meant, other), strict=True)
            ]
        columns[key] = (shown, meant if meant == other else Name(label))
    step = United(table=right.table, steps=sides[1].steps, place=place)
    return replace(
        left,
        steps=(*sides[0].steps, step),
        columns=columns,
        qualified={},
        ambiguous=frozenset(),
        every=False,
    )


def with_columns(source: Source, columns_of: _ColumnsOf) -> Source:
    """The source with all its columns listed by name, also behind its qualifier."""
    columns = dict(source.columns)
    if source.every:
        columns |= {
            name.casefold(): (name, Name(name))
            for name in columns_of(source.table)
            if name.casefold() not in columns
        }
    own = source.qualifier.casefold()
    qualified = dict(source.qualified)
    if not qualified:
        qualified = {
            (own, key): meant for key, (_, meant) in columns.items() if isinstance(meant, Name)
        }
    return replace(source, columns=columns, qualified=qualified, every=False)


def _labels(source: Source, columns_of: _ColumnsOf) -> Iterator[str]:
    """All names that are taken in the rows of a source."""
    yield from columns_of(source.table)
    for step in source.steps:
        if isinstance(step, Derived):
            yield step.name
        elif isinstance(step, Joined):
            yield from (label for label, _ in step.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    text: str

    def of(self, reason: str, mend: str, at: object) -> UnsafeExpression:
        place = places.of_node(self.text, at)
        return UnsafeExpression(self.text, reason=reason, mend=mend, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairing:
    """Reads one JOIN; every method raises UnsafeExpression."""

    text: str
    left: Source
    right: Source
    join: exp.Join

    def fault(self, reason: str, mend: str, at: object = None) -> UnsafeExpression:
        return _Fault(text=self.text).of(reason, mend, at if at is not None else self.join)

    def how(self) -> Literal["inner", "left"]:
        side, kind = (str(self.join.args.get(name) or "").upper() for name in ("side", "kind"))
        known = given(self.join) <= {"this", "side", "kind", "on", "using"}
        conditions = [name for name in ("on", "using") if self.join.args.get(name)]
        if not known or side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER"}:
            shown = refusals.fragment(self.join).strip()
            raise self.fault(f"it uses a JOIN of another kind, at {shown!r}", _FORMS)
        if len(conditions) != 1:
            raise self.fault("it uses a JOIN of a second table without columns to compare", _FORMS)
        if not self.left.columns or not self.right.columns:
            raise self.fault("it uses a JOIN of tables whose columns are not known", _FORMS)
        if self.left.qualifier.casefold() == self.right.qualifier.casefold() or any(
            one == self.right.qualifier.casefold() for one, _ in self.left.qualified
        ):
            raise self.fault(
                f"its JOIN has two tables named {self.right.qualifier[:60]!r}",
                "Name them apart: FROM visits AS a JOIN visits AS b USING (id).",
            )
        return "left" if side == "LEFT" else "inner"

    def on(self) -> tuple[tuple[str, str], ...]:
        """The columns that are compared, by their names on both sides."""
        using = self.join.args.get("using")
        if using:
            pairs = [self.found(None, word.name, word) for word in using]
            return tuple(
                (one, self.theirs(None, word.name, word))
                for one, word in zip(pairs, using, strict=True)
            )
        condition: exp.Expression = self.join.args["on"]
        while isinstance(condition, exp.Paren):
            condition = condition.this
        parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
        return tuple(self.equality(part) for part in parts)

    def equality(self, part: exp.Expr) -> tuple[str, str]:
        while isinstance(part, exp.Paren):
            part = part.this
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
            raise self.fault(f"its JOIN compares {refusals.fragment(part)!r}", _ON, part)
        one, two = sides
        if self.is_right(one) and not self.is_right(two):
            one, two = two, one
        if not self.is_right(two) or self.is_right(one):
            raise self.fault(
                f"its JOIN compares {refusals.fragment(part)!r}, which are not columns of both "
                "sides",
                _ON,
                part,
            )
        return self.found(one.table, one.name, one), self.theirs(two.table, two.name, two)

    def is_right(self, column: exp.Column) -> bool:
        if column.table:
            return bool(column.table.casefold() == self.right.qualifier.casefold())
        name = column.name.casefold()
        return name in self.right.columns and name not in self.left.columns

    def found(self, table: str | None, name: str, at: object) -> str:
        node = self.left.look(table, name, at)
        assert isinstance(node, Name)
        return node.name

    def theirs(self, table: str | None, name: str, at: object) -> str:
        node = self.right.look(table, name, at)
        assert isinstance(node, Name)
        return node.name
