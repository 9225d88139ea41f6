"""Read a SELECT: text in, its parts out, and what acts on the released table.

All are post-processing. An expression there is one over the names of released columns; an
aggregate in it stands for the released column that it is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as Choice

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.aggregates.hierarchy import MARGIN
from unacorda.query.expressions import errors
from unacorda.query.expressions.reader import Reader
from unacorda.query.expressions.syntax import refuse_lost, statement
from unacorda.query.expressions.tree import Literal, Name, Node, Operation, names, text_of
from unacorda.query.sql.aggregates import OFFERED, Aggregates
from unacorda.query.sql.from_clause import (
    Source,
    clauses,
    free_name,
    from_clause,
    given,
    joined,
    kept,
    shown_name,
    taken_by,
    united,
    written,
)
from unacorda.query.sql.types import Computed, Derived, Item, Ordering, Place, Select, SelectGroup

__all__ = ["Outputs", "mark", "parse_select"]


_HAVING = (
    "HAVING keeps the released rows whose noisy numbers satisfy it, so that it may use released "
    "columns only. Select the aggregate, which then takes its part of the budget: SELECT county, "
    "COUNT(*) AS n FROM visits GROUP BY county HAVING n >= 50."
)
_ORDER = "Order by a column of the SELECT list, or compute with such columns."
_SELECTED = "Put it behind GROUP BY, or inside an aggregate such as AVG(x)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The released columns of one SELECT; every method raises UnsafeExpression.

    names: the columns that were selected, as they are shown, by their names without capitals.
    groups: the shown name of each group by its mark. items: aggregates without their alias, by it.
    inner: aggregates that computed columns made necessary, filled while reading.
    """

    text: str
    aggregates: Aggregates
    names: dict[str, str]
    groups: dict[str, str]
    items: dict[str, Item]
    inner: list[Item] = field(default_factory=list)

    def computed(self, node: exp.Expression) -> str:
        """A column made of aggregates, each of which is asked for if it is not selected."""
        return self.expression(node, clause="SELECT", hint="")

    def having(self, clause: exp.Expression | None) -> str | None:
        """The condition on released rows."""
        if clause is None:
            return None
        return self.expression(clause.this, clause="HAVING", hint=_HAVING)

    def orderings(self, clause: exp.Expression | None, order: list[str]) -> Iterator[Ordering]:
        """The sort keys; order: the released columns by position."""
        for ordered in clause.expressions if clause is not None else ():
            if not isinstance(ordered, exp.Ordered) or not given(ordered) <= {
                "this",
                "desc",
                "nulls_first",
            }:
                raise self.aggregates.fault(
                    "it orders in an unknown way", "Write ORDER BY n DESC.", ordered
                )
            place = ordered.this
            number = int(place.name) if isinstance(place, exp.Literal) and place.is_int else 0
            if 1 <= number <= len(order):
                key = text_of(Name(order[number - 1]))
            else:
                key = self.expression(place, clause="ORDER BY", hint=_ORDER)
            yield Ordering(
                expression=key,
                descending=bool(ordered.args.get("desc")),
                nulls_first=bool(ordered.args.get("nulls_first")),
                place=errors.of_node(self.text, ordered),
            )

    def whole(self, clause: exp.Expression | None, word: str) -> int | None:
        """The literal whole number of LIMIT or OFFSET."""
        if clause is None:
            return None
        found: Node | None = None
        if given(clause) == {"expression"}:
            found = Reader(text=self.text).read(clause.expression)
        value = found.value if isinstance(found, Literal) else None
        if type(value) is not int or value < 0:
            raise self.aggregates.fault(
                f"its {word} is no literal whole number", f"Write {word} 10.", clause
            )
        return value

    def expression(self, node: object, *, clause: str, hint: str) -> str:
        """An expression over released columns, in the input language."""
        shown = self.group(node)
        if shown is not None:
            return text_of(Name(shown))

        def special(part: exp.Expression) -> Node | None:
            item = self.aggregates.aggregate(part)
            if item is not None:
                return Name(self.column_of(item, part, clause, hint))
            if isinstance(part, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
                self.aggregates.refuse_others(part)
            return None

        reader = replace(self.aggregates.source.reader, special=special)
        found = self.released(reader.read(node), node, clause, hint)
        if isinstance(found, Literal):
            raise self.missing(node, clause, hint)
        return written(self.text, found, node)

    def group(self, node: object) -> str | None:
        """The group that a whole expression is, as it is shown; aliases come first."""
        if not isinstance(node, exp.Expression) or node.find(exp.AggFunc):
            return None
        source = self.aggregates.source
        found = source.reader.read(node)
        if isinstance(found, Name) and found.name.casefold() in self.names:
            return self.names[found.name.casefold()]
        with contextlib.suppress(UnsafeExpression):
            return self.groups.get(mark(source.resolve(found, node)))
        return None

    def column_of(self, item: Item, node: object, clause: str, hint: str) -> str:
        """The released column that an aggregate is."""
        if item.parts != ("",):
            raise self.aggregates.fault(
                f"{clause} computes with several quantiles at once, at {errors.fragment(node)!r}",
                "Select them under a name and write the name of one of their columns, as in p_25.",
                node,
            )
        for alias, known in self.items.items():
            if known == item:
                return alias
        if hint:
            raise self.missing(node, clause, hint)
        taken = {name.casefold() for name in (*self.names.values(), *self.items)}
        alias = next(n for n in self.aggregates.names_for(item, node) if n.casefold() not in taken)
        self.items[alias] = item
        self.inner.append(replace(item, alias=alias, place=errors.of_node(self.text, node)))
        return alias

    def released(self, node: Node, at: object, clause: str, hint: str) -> Node:
        """The same over the names of released columns."""
        match node:
            case Name(name):
                shown = self.names.get(name.casefold())
                if shown is None and name in self.items:
                    shown = name
                if shown is None:
                    with contextlib.suppress(UnsafeExpression):
                        shown = self.groups.get(mark(self.aggregates.source.resolve(node, at)))
                if shown is None:
                    raise self.missing(at, clause, hint)
                return Name(shown)
            case Operation(operands=operands):
                found = tuple(self.released(part, at, clause, hint) for part in operands)
                return replace(node, operands=found)
            case _:
                return node

    def missing(self, node: object, clause: str, hint: str) -> UnsafeExpression:
        """The refusal of something that is no released column."""
        shown = errors.fragment(node)
        return self.aggregates.fault(
            f"{clause} has {shown!r}, which is no output column", hint or _SELECTED, node
        )


def mark(node: Node) -> str:
    """What tells group expressions apart; a bare name does not care about case."""
    return text_of(node).casefold() if isinstance(node, Name) else text_of(node)


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
        raise errors.too_deep(text) from None
    refuse_lost(text, tree)
    return found


def _select(
    text: str, tree: exp.Expression, columns_of: Callable[[str], Collection[str]]
) -> Select:
    if not isinstance(tree, exp.Select):
        raise _other(text, tree)
    clauses(text, tree, _CLAUSES)
    source = from_clause(
        text,
        tree,
        columns_of,
        joined=functools.partial(joined, columns_of=columns_of),
        united=functools.partial(united, columns_of=columns_of),
    )
    aggregates = Aggregates(text=text, source=source)
    reading = _SelectReading(text=text, source=source, aggregates=aggregates)
    return reading.select(tree, {column.casefold() for column in columns_of(source.table)})


def _other(text: str, tree: exp.Expression) -> UnsafeExpression:
    """The refusal of a statement that is no SELECT, or more than one."""
    word = tree.key.upper()
    if not isinstance(tree, exp.SetOperation):
        place = errors.of_word(text, word) or errors.of_node(text, tree)
        return UnsafeExpression(
            text, reason=f"its verb is {word}", hint="Write one SELECT.", place=place
        )
    return UnsafeExpression(
        text,
        reason=f"it puts SELECTs together by {word}",
        hint="Write one SELECT, and ask the others by themselves. UNION ALL may stand between "
        "row-wise SELECTs behind FROM.",
        place=errors.between(text, tree),
    )


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """An expression that is selected or grouped by and no aggregate, under the alias it was given.

    name: the alias, or the name of the column that was written. at: as it was written.
    """

    alias: str | None
    name: str
    node: Node
    at: exp.Expression
    place: Place

    @property
    def mark(self) -> str:
        """What tells it apart."""
        return mark(self.node)


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
class _SelectReading:
    """The reading of one SELECT; every method raises UnsafeExpression."""

    text: str
    source: Source
    aggregates: Aggregates

    def select(self, tree: exp.Select, taken: set[str]) -> Select:
        entries = [self.entry(projection) for projection in tree.expressions]
        if all(isinstance(entry, _Key) for entry in entries):
            raise self.aggregates.fault(
                "it has no aggregate, and only aggregates leave",
                OFFERED,
                tree.expressions[0] if len(tree.expressions) == 1 else tree,
            )
        steps = self.source.steps
        condition = tree.args.get("where")
        where = None if condition is None else self.source.read(condition.this)
        if where is not None:
            steps += (kept(self.text, where, tree.args["where"]),)
        clause = tree.args.get("group")
        margins, parts = self.levels(clause)
        keys = self.group_keys(clause, parts, entries)
        shown = self.shown(keys, entries)
        if margins is not None:
            self.refuse_margin(keys, shown)
        self.refuse_shadows(keys, shown, where, tree)
        taken = taken | taken_by(steps)
        columns: dict[str, str] = {}
        for key in keys:
            if isinstance(key.node, Name):
                columns[key.mark] = key.node.name
                continue
            name = free_name(shown[key.mark], taken)
            taken.add(name.casefold())
            columns[key.mark] = name
            expression = written(self.text, key.node, key.at)
            steps += (Derived(name=name, expression=expression, place=key.place),)
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
            group_places=tuple(key.place for key in keys),
            margins=margins,
            items=items,
            having=outputs.having(tree.args.get("having")),
            having_place=errors.of_node(self.text, tree.args.get("having")),
            order_by=tuple(
                outputs.orderings(tree.args.get("order"), [item.alias for item in items])
            ),
            limit=outputs.whole(tree.args.get("limit"), "LIMIT"),
            offset=outputs.whole(tree.args.get("offset"), "OFFSET") or 0,
            inner=tuple(outputs.inner),
        )

    # ---- the SELECT list -----------------------------------------------------------------------

    def entry(self, projection: exp.Expression) -> _Entry:
        alias = projection.alias if isinstance(projection, exp.Alias) else None
        node = projection.this if isinstance(projection, exp.Alias) else projection
        place = errors.of_node(self.text, node)
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
                    f"its column {errors.fragment(node)!r} has no name",
                    "Name it with AS: SUM(x) / COUNT(*) AS ratio.",
                    node,
                )
            return _Over(alias=alias, tree=node, place=place)
        self.aggregates.refuse_others(node)
        read, name = self.source.read(node), shown_name(projection)
        return _Key(alias=alias, name=name, node=read, at=node, place=place)

    def named(self, tree: exp.Select, entries: list[_Entry], shown: dict[str, str]) -> list[_Entry]:
        """The entries with their names; names the caller gave must differ, others get a number."""
        taken: set[str] = set()
        for entry, projection in zip(entries, tree.expressions, strict=True):
            alias = shown[entry.mark] if isinstance(entry, _Key) else entry.alias
            if alias and alias.casefold() in taken:
                raise self.aggregates.fault(
                    f"two output columns are named {alias[:60]!r}",
                    "Name them apart with AS.",
                    projection,
                )
            taken |= {alias.casefold()} if alias else set()
        found: list[_Entry] = []
        for entry, projection in zip(entries, tree.expressions, strict=True):
            if isinstance(entry, _Key):
                found.append(replace(entry, alias=shown[entry.mark]))
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
    ) -> Item | SelectGroup | Computed:
        match entry:
            case _Key(alias=alias):
                return SelectGroup(alias=alias or "", column=columns[entry.mark])
            case _Over(alias=alias, tree=tree, place=place):
                return Computed(alias=alias, expression=outputs.computed(tree), place=place)
            case Item():
                return entry

    # ---- GROUP BY ------------------------------------------------------------------------------

    def levels(
        self, clause: exp.Group | None
    ) -> tuple[Choice["rollup", "cube"] | None, list[exp.Expression]]:
        """By which subsets of the columns is summed too, and the entries that name columns."""
        parts = [] if clause is None else list(clause.expressions)
        several = [part for part in parts if isinstance(part, exp.Cube | exp.Rollup)]
        sets = None if clause is None else clause.find(exp.GroupingSets)
        if sets is not None or (several and len(parts) > 1):
            raise self.aggregates.fault(
                f"it groups in more than one way, at {errors.fragment(sets or several[0])!r}",
                "Write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b), with all columns.",
                sets or several[0],
            )
        if not several:
            return None, parts
        if not several[0].expressions:
            raise self.aggregates.fault("it groups by no column", "Name the columns.", several[0])
        kind: Choice["rollup", "cube"] = "rollup" if isinstance(several[0], exp.Rollup) else "cube"
        return kind, list(several[0].expressions)

    def group_keys(
        self, clause: exp.Group | None, parts: list[exp.Expression], entries: list[_Entry]
    ) -> list[_Key]:
        """The expressions to group by, each once."""
        if clause is None:
            return []
        if clause.args.get("all") is True and given(clause) == {"all"}:
            plain = [entry for entry in entries if isinstance(entry, _Key)]
            return list({key.mark: key for key in plain}.values())
        if given(clause) != {"expressions"}:
            shown = errors.fragment(clause).strip()
            raise self.aggregates.fault(
                f"it groups in more than one way, at {shown!r}", "Name the columns.", clause
            )
        return [self.group_key(part, entries) for part in parts]

    def group_key(self, at: exp.Expression, entries: list[_Entry]) -> _Key:
        """What one entry of GROUP BY means: a position, an alias, a column or an expression."""
        node = self.source.reader.read(at)
        plain = [entry for entry in entries if isinstance(entry, _Key)]
        if isinstance(node, Literal):
            number = node.value
            if type(number) is int and 1 <= number <= len(entries):
                entry = entries[number - 1]
                if isinstance(entry, _Key):
                    return entry
            raise self.aggregates.fault(
                f"it groups by the constant {text_of(node)[:60]}", "Name the group columns.", at
            )
        if isinstance(node, Name):
            for entry in plain:
                if entry.alias and _same(entry.alias, node.name):
                    return entry
        found, place = self.source.resolve(node, at), errors.of_node(self.text, at)
        return _Key(alias=None, name="", node=found, at=at, place=place)

    def shown(self, keys: list[_Key], entries: list[_Entry]) -> dict[str, str]:
        """Each group's name in the released table by its mark."""
        plain = [entry for entry in entries if isinstance(entry, _Key)]
        aliases = {entry.mark: entry.name for entry in plain}
        shown: dict[str, str] = {}
        for key in keys:
            node = key.node
            alias = aliases.get(key.mark) or (
                self.source.shown(node) if isinstance(node, Name) else ""
            )
            if not alias or isinstance(node, Literal):
                raise self.aggregates.fault(
                    f"its group {text_of(node)[:60]!r} has no name",
                    "Select it with one: SELECT FLOOR(age / 10) AS decade, ... GROUP BY decade.",
                    key.at,
                )
            if key.mark in shown or any(_same(alias, other) for other in shown.values()):
                raise self.aggregates.fault(
                    f"it groups by {alias[:60]!r} twice", "Name each group once.", key.at
                )
            shown[key.mark] = alias
        for entry in plain:
            if entry.mark not in shown:
                raise self.aggregates.fault(
                    f"{text_of(entry.node)[:60]!r} is neither an aggregate nor behind GROUP BY",
                    "Put it behind GROUP BY, or inside an aggregate such as AVG(x).",
                    entry.at,
                )
        return shown

    def refuse_margin(self, keys: list[_Key], shown: dict[str, str]) -> None:
        """No group may be called as the column that tells sums apart."""
        for key in keys:
            if _same(MARGIN, shown[key.mark]):
                raise self.aggregates.fault(
                    f"its group is called {MARGIN!r}, as the column that tells sums apart",
                    "Give it another name with AS.",
                    key.at,
                )

    def refuse_shadows(
        self, keys: list[_Key], shown: dict[str, str], where: Node | None, tree: exp.Select
    ) -> None:
        """The name of a group expression must not be that of a column that is read anywhere."""
        read = {name for key in keys for name in names(key.node)}
        read |= set(names(where)) if where is not None else set()
        for projection in tree.expressions:
            read |= {column.name for column in projection.find_all(exp.Column)}
        for key in keys:
            alias = shown[key.mark]
            if not isinstance(key.node, Name) and any(_same(alias, name) for name in read):
                raise self.aggregates.fault(
                    f"{alias[:60]!r} names both a column and an expression",
                    "Give the expression another name with AS.",
                    key.at,
                )
