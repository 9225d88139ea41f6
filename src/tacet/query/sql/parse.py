"""Read a SELECT: text in, its parts out."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tacet.errors import UnsafeExpression
from tacet.query.expressions import refusals
from tacet.query.expressions.reader import Reader
from tacet.query.expressions.syntax import refuse_lost, statement
from tacet.query.expressions.tree import Literal, Name, Node, names, text_of
from tacet.query.sql.aggregates import OFFERED, Aggregates, given
from tacet.query.sql.types import Derived, Group, Item, Ordering, Select

__all__ = ["parse_select"]


def parse_select(text: str) -> Select:
    """The parts of a SELECT over one table.

    A name behind GROUP BY or ORDER BY means an alias of the SELECT list before a column.

    Raises UnsafeExpression for everything outside the subset, naming the clause and what may be
    written instead; InvalidParameter where `text` is no text.

    >>> asked = parse_select("SELECT county, AVG(age) FROM visits WHERE age >= 18 GROUP BY county")
    >>> asked.table, asked.where, asked.groups
    ('visits', '"age" >= 18', ('county',))
    >>> asked.items[1]
    Item(alias='avg_age', aggregate=<Aggregate.MEAN: 'avg'>, argument='"age"', quantile=None)
    """
    tree = statement(text, argument="sql")
    if not isinstance(tree, exp.Select):
        raise UnsafeExpression(
            text, reason=f"it is a {type(tree).__name__.upper()}", mend="Write one SELECT."
        )
    for key in sorted(given(tree) - _CLAUSES):
        raise _unsupported(text, key, tree.args[key])
    table, known_as = _table(text, tree)
    reader = Reader(text=text, qualifiers=known_as)
    aggregates = Aggregates(text=text, reader=reader)
    found = _Reading(text=text, reader=reader, aggregates=aggregates).select(table, tree)
    refuse_lost(text, tree)
    return found


_CLAUSES = {"expressions", "from", "from_", "where", "group", "order", "limit"}

_MENDS = {
    "joins": ("JOIN or a second table", "Join the tables before they enter the session."),
    "having": ("HAVING", "Filter the released table instead."),
    "distinct": ("SELECT DISTINCT", "Name the columns behind GROUP BY and add COUNT(*)."),
    "with": ("WITH (a common table expression)", "Write one SELECT over one table."),
    "with_": ("WITH (a common table expression)", "Write one SELECT over one table."),
    "qualify": ("QUALIFY", "Filter the released table instead."),
    "offset": ("OFFSET", "Write LIMIT alone, or slice the released table."),
    "sample": ("a sample of the table", "Ask about the whole table."),
    "into": ("INTO", "The release is the result; store it yourself."),
}


def _unsupported(text: str, key: str, value: object) -> UnsafeExpression:
    clause = key.strip("_").replace("_", " ").upper()
    name, mend = _MENDS.get(key, (clause, "Leave the clause out."))
    shown = refusals.fragment(value[0] if isinstance(value, list) else value).strip()
    at = f", at {shown!r}" if shown else ""
    return UnsafeExpression(text, reason=f"it uses {name}{at}", mend=mend)


def _table(text: str, tree: exp.Select) -> tuple[str, frozenset[str]]:
    source = tree.args.get("from_") or tree.args.get("from")
    mend = "Write FROM and the name of one table of the session."
    if not isinstance(source, exp.From):
        raise UnsafeExpression(text, reason="it has no FROM", mend=mend)
    table = source.this
    alias = table.args.get("alias")
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if (
        not plain
        or not given(table) <= {"this", "alias"}
        or (alias is not None and given(alias) != {"this"})
    ):
        shown = refusals.fragment(table)
        raise UnsafeExpression(
            text, reason=f"it reads more than a plain table, at {shown!r}", mend=mend
        )
    return table.this.name, frozenset({alias.name if alias else table.this.name})


def _unaliased(projection: object) -> tuple[str | None, object]:
    if isinstance(projection, exp.Alias):
        return projection.alias, projection.this
    return None, projection


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


def _mark(node: Node) -> str:
    """What tells group expressions apart; a bare name does not care about case."""
    return text_of(node).casefold() if isinstance(node, Name) else text_of(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A selected expression that is no aggregate, under the alias that was written."""

    alias: str | None
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The reading of one SELECT; every method raises UnsafeExpression."""

    text: str
    reader: Reader
    aggregates: Aggregates

    def select(self, table: str, tree: exp.Select) -> Select:
        selected = [self.projection(projection) for projection in tree.expressions]
        if not any(isinstance(entry, Item) for entry in selected):
            raise self.fault("it has no aggregate, and only aggregates leave", OFFERED)
        keys = self.group_keys(tree.args.get("group"), selected)
        columns = self.columns(keys, selected)
        condition = tree.args.get("where")
        where = None if condition is None else self.reader.read(condition.this)
        derived = tuple(
            Derived(name=columns[_mark(key)], expression=self.aggregates.written(key))
            for key in keys
            if not isinstance(key, Name)
        )
        self.refuse_shadows(derived, where, keys, tree)
        items = self.items(selected, columns)
        return Select(
            table=table,
            where=None if where is None else self.aggregates.written(where),
            derived=derived,
            groups=tuple(columns.values()),
            items=items,
            order_by=tuple(self.orderings(tree.args.get("order"), selected, items)),
            limit=self.limit(tree.args.get("limit")),
        )

    def fault(self, reason: str, mend: str) -> UnsafeExpression:
        return UnsafeExpression(self.text, reason=reason, mend=mend)

    # ---- the SELECT list -----------------------------------------------------------------------

    def projection(self, projection: object) -> Item | _Key:
        alias, node = _unaliased(projection)
        if isinstance(node, exp.Star):
            raise self.fault("it selects rows (*), and only aggregates leave", OFFERED)
        found = self.aggregates.aggregate(node)
        if found is not None:
            return replace(found, alias=alias or "")
        self.aggregates.refuse_others(node)
        return _Key(alias=alias, node=self.reader.read(node))

    def items(
        self, selected: list[Item | _Key], columns: dict[str, str]
    ) -> tuple[Item | Group, ...]:
        """The output columns; names the caller gave must differ, others get a number."""
        taken: set[str] = set()
        for entry in selected:
            alias = entry.alias or (columns[_mark(entry.node)] if isinstance(entry, _Key) else "")
            if alias and alias.casefold() in taken:
                raise self.fault(
                    f"two output columns are named {alias[:60]!r}", "Name them apart with AS."
                )
            taken |= {alias.casefold()} if alias else set()
        items: list[Item | Group] = []
        for entry in selected:
            if isinstance(entry, _Key):
                column = columns[_mark(entry.node)]
                items.append(Group(alias=entry.alias or column, column=column))
            elif entry.alias:
                items.append(entry)
            else:
                alias = next(
                    name
                    for name in self.aggregates.names_for(entry)
                    if name.casefold() not in taken
                )
                taken.add(alias.casefold())
                items.append(replace(entry, alias=alias))
        return tuple(items)

    # ---- GROUP BY ------------------------------------------------------------------------------

    def group_keys(self, clause: exp.Group | None, selected: list[Item | _Key]) -> list[Node]:
        plain = [entry.node for entry in selected if isinstance(entry, _Key)]
        if clause is None:
            return []
        if clause.args.get("all") is True and given(clause) == {"all"}:
            return list({_mark(node): node for node in plain}.values())
        if given(clause) != {"expressions"}:
            shown = refusals.fragment(clause).strip()
            raise self.fault(f"it groups in more than one way, at {shown!r}", "Name the columns.")
        return [self.group_key(key, selected) for key in clause.expressions]

    def group_key(self, key: object, selected: list[Item | _Key]) -> Node:
        """What one entry of GROUP BY means: a position, an alias, a column or an expression."""
        node = self.reader.read(key)
        if isinstance(node, Literal):
            place = node.value
            if type(place) is int and 1 <= place <= len(selected):
                entry = selected[place - 1]
                if isinstance(entry, _Key):
                    return entry.node
            raise self.fault(
                f"it groups by the constant {text_of(node)[:60]}", "Name the group columns."
            )
        if isinstance(node, Name):
            for entry in selected:
                if isinstance(entry, _Key) and entry.alias and _same(entry.alias, node.name):
                    return entry.node
        return node

    def columns(self, keys: list[Node], selected: list[Item | _Key]) -> dict[str, str]:
        """Each group's column by its mark: its own name, or the alias of an expression."""
        plain = [entry for entry in selected if isinstance(entry, _Key)]
        aliases = {_mark(entry.node): entry.alias for entry in plain}
        columns: dict[str, str] = {}
        for key in keys:
            alias = key.name if isinstance(key, Name) else aliases.get(_mark(key))
            if alias is None or isinstance(key, Literal):
                raise self.fault(
                    f"its group {text_of(key)[:60]!r} has no name",
                    "Select it with one: SELECT FLOOR(age / 10) AS decade, ... GROUP BY decade.",
                )
            if any(_same(alias, other) for other in columns.values()):
                raise self.fault(f"it groups by {alias[:60]!r} twice", "Name each group once.")
            columns[_mark(key)] = alias
        for entry in plain:
            if _mark(entry.node) not in columns:
                raise self.fault(
                    f"{text_of(entry.node)[:60]!r} is neither an aggregate nor behind GROUP BY",
                    "Put it behind GROUP BY, or inside an aggregate such as AVG(x).",
                )
        return columns

    def refuse_shadows(
        self, derived: tuple[Derived, ...], where: Node | None, keys: list[Node], tree: exp.Select
    ) -> None:
        """A derived column must not take the name of a column that is read anywhere."""
        read = {name for node in keys for name in names(node)}
        read |= set(names(where)) if where is not None else set()
        for projection in tree.expressions:
            read |= {column.name for column in projection.find_all(exp.Column)}
        for column in derived:
            if any(_same(column.name, name) for name in read):
                raise self.fault(
                    f"{column.name[:60]!r} names both a column and an expression",
                    "Give the expression another name with AS.",
                )

    # ---- ORDER BY and LIMIT --------------------------------------------------------------------

    def orderings(
        self,
        clause: exp.Order | None,
        selected: list[Item | _Key],
        items: tuple[Item | Group, ...],
    ) -> Iterator[Ordering]:
        for ordered in clause.expressions if clause is not None else ():
            if not isinstance(ordered, exp.Ordered) or not given(ordered) <= {
                "this",
                "desc",
                "nulls_first",
            }:
                raise self.fault("it orders in an unknown way", "Write ORDER BY n DESC.")
            yield Ordering(
                alias=self.ordered(ordered.this, selected, items),
                descending=bool(ordered.args.get("desc")),
                nulls_first=bool(ordered.args.get("nulls_first")),
            )

    def ordered(
        self, key: object, selected: list[Item | _Key], items: tuple[Item | Group, ...]
    ) -> str:
        """The output column an entry of ORDER BY means."""
        found = self.aggregates.aggregate(key)
        node = None if found is not None else self.reader.read(key)
        if isinstance(node, Name):
            for item in items:
                if _same(item.alias, node.name):
                    return item.alias
        for place, (entry, item) in enumerate(zip(selected, items, strict=True), start=1):
            if isinstance(entry, _Key):
                same = node is not None and _mark(entry.node) == _mark(node)
            else:
                same = replace(entry, alias="") == found
            if same or (node is not None and _mark(node) == str(place)):
                return item.alias
        raise self.fault(
            f"it orders by {refusals.fragment(key)!r}, which is no output column",
            "Order by a column of the SELECT list.",
        )

    def limit(self, clause: exp.Expression | None) -> int | None:
        if clause is None:
            return None
        found = self.reader.read(clause.expression) if given(clause) == {"expression"} else None
        value = found.value if isinstance(found, Literal) else None
        if type(value) is not int or value < 0:
            raise self.fault("its LIMIT is no literal whole number", "Write LIMIT 10.")
        return value
