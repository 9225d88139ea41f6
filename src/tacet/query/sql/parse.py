"""Read a SELECT: text in, its parts out."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal as Choice

from sqlglot import exp

from tacet.errors import UnsafeExpression
from tacet.query.expressions import places, refusals
from tacet.query.expressions.syntax import refuse_lost, statement
from tacet.query.expressions.tree import Literal, Name, Node, names, text_of
from tacet.query.margins import MARGIN
from tacet.query.sql.aggregates import OFFERED, Aggregates
from tacet.query.sql.joins import joined, united
from tacet.query.sql.outputs import Outputs, mark
from tacet.query.sql.source import (
    Source,
    clauses,
    free_name,
    from_clause,
    given,
    kept,
    shown_name,
    taken_by,
    written,
)
from tacet.query.sql.types import Computed, Derived, Group, Item, Place, Select

__all__ = ["parse_select"]

_CLAUSES = {
    *("expressions", "from", "from_", "joins", "with", "with_", "where", "group", "having"),
    *("order", "limit", "offset"),
}


def parse_select(
    text: str, *, columns_of: Callable[[str], Collection[str]] | None = None
) -> Select:
    """The parts of a SELECT over one table, or over row-wise sub-selects of one.

    columns_of: the columns of a table by its name, so that no derived column takes the name of one;
    left out, none are known. A name behind GROUP BY, HAVING or ORDER BY means an alias of the
    SELECT list before a column.

    Raises UnsafeExpression for everything outside the subset, naming the clause and what may be
    written instead; InvalidParameter where `text` is no text.

    >>> asked = parse_select("SELECT county, AVG(age) FROM visits WHERE age >= 18 GROUP BY county")
    >>> asked.table, asked.steps, asked.groups
    ('visits', (Condition(expression='"age" >= 18'),), ('county',))
    >>> asked.items[1].alias, asked.items[1].argument
    ('avg_age', '"age"')
    """
    tree = statement(text, argument="sql")
    try:
        found = _select(text, tree, columns_of or (lambda _: ()))
    except RecursionError:
        raise refusals.too_deep(text) from None
    refuse_lost(text, tree)
    return found


def _select(
    text: str, tree: exp.Expression, columns_of: Callable[[str], Collection[str]]
) -> Select:
    if not isinstance(tree, exp.Select):
        raise UnsafeExpression(
            text, reason=f"it is a {type(tree).__name__.upper()}", mend="Write one SELECT."
        )
    clauses(text, tree, _CLAUSES)
    source = from_clause(
        text,
        tree,
        columns_of,
        joined=functools.partial(joined, columns_of=columns_of),
        united=functools.partial(united, columns_of=columns_of),
    )
    aggregates = Aggregates(text=text, source=source)
    reading = _Reading(text=text, source=source, aggregates=aggregates)
    return reading.select(tree, {column.casefold() for column in columns_of(source.table)})


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A selected expression that is no aggregate, under the alias that was written.

    name: the alias, or the name of the column that was written.
    """

    alias: str | None
    name: str
    node: Node
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Over:
    """A selected expression over aggregates."""

    alias: str
    tree: exp.Expression
    place: Place


_Entry = Item | _Key | _Over


def _columns(entry: _Entry) -> tuple[str, ...]:
    """The names of an entry's columns in the released table."""
    return entry.columns if isinstance(entry, Item) else (entry.alias or "",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The reading of one SELECT; every method raises UnsafeExpression."""

    text: str
    source: Source
    aggregates: Aggregates

    def select(self, tree: exp.Select, taken: set[str]) -> Select:
        entries = [self.entry(projection) for projection in tree.expressions]
        if all(isinstance(entry, _Key) for entry in entries):
            raise self.aggregates.fault(
                "it has no aggregate, and only aggregates leave", OFFERED, tree.expressions
            )
        steps = self.source.steps
        condition = tree.args.get("where")
        where = None if condition is None else self.source.read(condition.this)
        if where is not None:
            steps += (kept(self.text, where, tree.args["where"]),)
        grouped, margins = self.levels(tree.args.get("group"))
        keys = self.group_keys(grouped, entries)
        shown = self.shown(keys, entries)
        if margins is not None and any(_same(MARGIN, name) for name in shown.values()):
            raise self.aggregates.fault(
                f"its group is called {MARGIN!r}, as the column that tells sums apart",
                "Give it another name with AS.",
            )
        self.refuse_shadows(keys, shown, where, tree)
        taken = taken | taken_by(steps)
        columns: dict[str, str] = {}
        for key in keys:
            if isinstance(key, Name):
                columns[mark(key)] = key.name
                continue
            name = free_name(shown[mark(key)], taken)
            taken.add(name.casefold())
            columns[mark(key)] = name
            place = next((e.place for e in entries if isinstance(e, _Key) and e.node == key), None)
            steps += (Derived(name=name, expression=written(self.text, key, None), place=place),)
        named = self.named(tree, entries, shown)
        outputs = Outputs(
            text=self.text,
            aggregates=self.aggregates,
            names={name.casefold(): name for entry in named for name in _columns(entry)}
            | ({} if margins is None else {MARGIN: MARGIN}),
            groups=shown,
            items={
                entry.alias: replace(entry, alias="")
                for entry in named
                if isinstance(entry, Item) and entry.parts == ("",)
            },
        )
        items = tuple(self.item(entry, columns, outputs) for entry in named)
        return Select(
            table=self.source.table,
            steps=steps,
            groups=tuple(columns.values()),
            shown=tuple(shown[key] for key in columns),
            margins=margins,
            items=items,
            having=outputs.having(tree.args.get("having")),
            having_place=places.of_node(self.text, tree.args.get("having")),
            order_by=tuple(
                outputs.orderings(tree.args.get("order"), [item.alias for item in items])
            ),
            limit=outputs.whole(tree.args.get("limit"), "LIMIT"),
            offset=outputs.whole(tree.args.get("offset"), "OFFSET") or 0,
            beside=tuple(outputs.beside),
        )

    # ---- the SELECT list -----------------------------------------------------------------------

    def entry(self, projection: exp.Expression) -> _Entry:
        alias = projection.alias if isinstance(projection, exp.Alias) else None
        node = projection.this if isinstance(projection, exp.Alias) else projection
        place = places.of_node(self.text, node)
        if isinstance(node, exp.Star):
            raise self.aggregates.fault(
                "it selects rows (*), and only aggregates leave", OFFERED, node
            )
        found = self.aggregates.aggregate(node)
        if found is not None:
            return replace(found, alias=alias or "", place=place)
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) or node.find(exp.Window):
            self.aggregates.refuse_others(node)
        if any(self.aggregates.aggregate(part) is not None for part in node.walk()):
            if not alias:
                raise self.aggregates.fault(
                    f"its column {refusals.fragment(node)!r} has no name",
                    "Name it with AS: SUM(x) / COUNT(*) AS ratio.",
                    node,
                )
            return _Over(alias=alias, tree=node, place=place)
        self.aggregates.refuse_others(node)
        read = self.source.read(node)
        return _Key(alias=alias, name=shown_name(projection), node=read, place=place)

    def named(self, tree: exp.Select, entries: list[_Entry], shown: dict[str, str]) -> list[_Entry]:
        """The entries with their names; names the caller gave must differ, others get a number."""
        taken: set[str] = set()
        for entry in entries:
            alias = shown[mark(entry.node)] if isinstance(entry, _Key) else entry.alias
            if alias and alias.casefold() in taken:
                raise self.aggregates.fault(
                    f"two output columns are named {alias[:60]!r}", "Name them apart with AS."
                )
            taken |= {alias.casefold()} if alias else set()
        found: list[_Entry] = []
        for entry, projection in zip(entries, tree.expressions, strict=True):
            if isinstance(entry, _Key):
                found.append(replace(entry, alias=shown[mark(entry.node)]))
            elif entry.alias or isinstance(entry, _Over):
                found.append(entry)
            else:
                choices = self.aggregates.names_for(entry, projection)
                alias = next(name for name in choices if name.casefold() not in taken)
                taken.add(alias.casefold())
                found.append(replace(entry, alias=alias))
        return found

    def item(
        self, entry: _Entry, columns: dict[str, str], outputs: Outputs
    ) -> Item | Group | Computed:
        match entry:
            case _Key(alias=alias, node=node):
                return Group(alias=alias or "", column=columns[mark(node)])
            case _Over(alias=alias, tree=tree, place=place):
                return Computed(alias=alias, expression=outputs.computed(tree), place=place)
            case Item():
                return entry

    # ---- GROUP BY ------------------------------------------------------------------------------

    def levels(
        self, clause: exp.Group | None
    ) -> tuple[exp.Group | None, Choice["rollup", "cube"] | None]:
        """The clause with plain columns, and by which of their subsets is summed too."""
        parts = [] if clause is None else clause.expressions
        several = [part for part in parts if isinstance(part, exp.Cube | exp.Rollup)]
        sets = None if clause is None else clause.find(exp.GroupingSets)
        if sets is not None or (several and len(parts) > 1):
            raise self.aggregates.fault(
                f"it groups in more than one way, at {refusals.fragment(sets or several[0])!r}",
                "Write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b), with all columns.",
                sets or several[0],
            )
        if not several:
            return clause, None
        kind: Choice["rollup", "cube"] = "rollup" if isinstance(several[0], exp.Rollup) else "cube"
        return exp.Group(expressions=several[0].expressions), kind

    def group_keys(self, clause: exp.Group | None, entries: list[_Entry]) -> list[Node]:
        """The expressions to group by, each once."""
        plain = [entry.node for entry in entries if isinstance(entry, _Key)]
        if clause is None:
            return []
        if clause.args.get("all") is True and given(clause) == {"all"}:
            return list({mark(node): node for node in plain}.values())
        if given(clause) != {"expressions"}:
            shown = refusals.fragment(clause).strip()
            raise self.aggregates.fault(
                f"it groups in more than one way, at {shown!r}", "Name the columns.", clause
            )
        return [self.group_key(key, entries) for key in clause.expressions]

    def group_key(self, key: object, entries: list[_Entry]) -> Node:
        """What one entry of GROUP BY means: a position, an alias, a column or an expression."""
        node = self.source.reader.read(key)
        if isinstance(node, Literal):
            place = node.value
            if type(place) is int and 1 <= place <= len(entries):
                entry = entries[place - 1]
                if isinstance(entry, _Key):
                    return entry.node
            raise self.aggregates.fault(
                f"it groups by the constant {text_of(node)[:60]}", "Name the group columns.", key
            )
        if isinstance(node, Name):
            for entry in entries:
                if isinstance(entry, _Key) and entry.alias and _same(entry.alias, node.name):
                    return entry.node
        return self.source.resolve(node, key)

    def shown(self, keys: list[Node], entries: list[_Entry]) -> dict[str, str]:
        """Each group's name in the released table by its mark."""
        plain = [entry for entry in entries if isinstance(entry, _Key)]
        aliases = {mark(entry.node): entry.name for entry in plain}
        shown: dict[str, str] = {}
        for key in keys:
            alias = aliases.get(mark(key)) or (
                self.source.shown(key) if isinstance(key, Name) else ""
            )
            if not alias or isinstance(key, Literal):
                raise self.aggregates.fault(
                    f"its group {text_of(key)[:60]!r} has no name",
                    "Select it with one: SELECT FLOOR(age / 10) AS decade, ... GROUP BY decade.",
                )
            if mark(key) in shown or any(_same(alias, other) for other in shown.values()):
                raise self.aggregates.fault(
                    f"it groups by {alias[:60]!r} twice", "Name each group once."
                )
            shown[mark(key)] = alias
        for entry in plain:
            if mark(entry.node) not in shown:
                raise self.aggregates.fault(
                    f"{text_of(entry.node)[:60]!r} is neither an aggregate nor behind GROUP BY",
                    "Put it behind GROUP BY, or inside an aggregate such as AVG(x).",
                )
        return shown

    def refuse_shadows(
        self, keys: list[Node], shown: dict[str, str], where: Node | None, tree: exp.Select
    ) -> None:
        """The name of a group expression must not be that of a column that is read anywhere."""
        read = {name for node in keys for name in names(node)}
        read |= set(names(where)) if where is not None else set()
        for projection in tree.expressions:
            read |= {column.name for column in projection.find_all(exp.Column)}
        for key in keys:
            alias = shown[mark(key)]
            if not isinstance(key, Name) and any(_same(alias, name) for name in read):
                raise self.aggregates.fault(
                    f"{alias[:60]!r} names both a column and an expression",
                    "Give the expression another name with AS.",
                )
