"""From an analyst's SELECT to the question that it asks, and what acts on the released table.

The latter is post-processing. An expression there is one over the names of released columns; an
aggregate in it stands for the released column that it is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Literal as Choice

from sqlglot import exp

from unacorda import checks
from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.aggregates.hierarchy import MARGIN, GivenLevelWeights
from unacorda.query.expressions import errors
from unacorda.query.expressions.language import Literal, Name, Node, names, text_of
from unacorda.query.expressions.reader import Reader, bare, given, refuse_lost, statement
from unacorda.query.noise.selection import GivenKeys
from unacorda.query.plan.query import Query, answer_columns
from unacorda.query.schema.sources import without_tables
from unacorda.query.sql.from_clause import (
    Start,
    bounds_hint,
    clauses,
    free_name,
    from_clause,
    identity,
    placed,
    plain,
    shown_name,
    unbounded,
    written,
)
from unacorda.query.sql.outputs import (
    OFFERED,
    Aggregates,
    Computed,
    Item,
    Ordering,
    Select,
    check_arrangement,
    names_for,
)

_HAVING = (
    "HAVING keeps the released rows whose noisy numbers satisfy it, so that it may use released "
    "columns only. Select the aggregate, which then takes its part of the budget: SELECT county, "
    "COUNT(*) AS n FROM visits GROUP BY county HAVING n >= 50."
)
_ORDER = "Order by a column of the SELECT list, or compute with such columns."
_ORDERED = {"this", "desc", "nulls_first"}
_SELECTED = "Put it behind GROUP BY, or inside an aggregate such as AVG(x)."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outputs(Aggregates):
    """The released columns of one SELECT; every method raises UnsafeExpression.

    names: the columns that were selected, as they are shown, by their names without capitals.
    groups: the shown name of each group by its mark. items: aggregates without their alias, by it.
    inner: aggregates that computed columns made necessary, filled while reading.
    """

    names: dict[str, str]
    groups: dict[str, str]
    items: dict[str, Item]
    inner: list[Item] = field(default_factory=list)

    def computed(self, entry: exp.Alias) -> Computed:
        """A column made of aggregates, each of which is asked for if it is not selected."""
        expression = self.expression(entry.this, clause="SELECT", hint="")
        return Computed(alias=entry.alias, expression=expression, at=entry.this)

    def ordering(self, ordered: exp.Expression, order: list[str]) -> Ordering:
        """A sort key; order: the released columns by position."""
        if not isinstance(ordered, exp.Ordered) or not given(ordered) <= _ORDERED:
            reason = "it orders in an unknown way"
            raise self.source.fault(reason, "Write ORDER BY n DESC.", ordered)
        by = ordered.this
        number = int(by.name) if isinstance(by, exp.Literal) and by.is_int else 0
        if 1 <= number <= len(order):
            key = text_of(Name(order[number - 1]))
        else:
            key = self.expression(by, clause="ORDER BY", hint=_ORDER)
        return Ordering(
            expression=key,
            descending=bool(ordered.args.get("desc")),
            nulls_first=bool(ordered.args.get("nulls_first")),
            at=ordered,
        )

    def whole(self, clause: exp.Expression | None, word: str) -> int | None:
        """The literal whole number of LIMIT or OFFSET."""
        if clause is None:
            return None
        if given(clause) == {"expression"}:
            match Reader(text=self.source.text).read(clause.expression):
                case Literal(value) if type(value) is int and value >= 0:
                    return value
        reason = f"its {word} is no literal whole number"
        raise self.source.fault(reason, f"Write {word} 10.", clause)

    def expression(self, node: exp.Expression, *, clause: str, hint: str) -> str:
        """An expression over released columns, in the input language."""
        whole = bare(node)

        def special(part: exp.Expression) -> Node | None:
            item = self.aggregate(part)
            if item is not None:
                return Name(self.column_of(item, part, clause, hint))
            if isinstance(part, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.Window):
                self.refuse_others(part)
            if part is not whole and not isinstance(part, exp.Column):
                return None
            shown = self.released(part)
            several = len(self.source.qualifiers) > 1 and given(part) == {"this", "table"}
            named = several or self.source.alone(part) is not None
            if shown is None and isinstance(part, exp.Column) and named:
                raise self.missing(node, clause, hint)
            return None if shown is None else Name(shown)

        known = frozenset(self.source.qualifiers)
        found = Reader(text=self.source.text, qualifiers=known, special=special).read(whole)
        if isinstance(found, Literal):
            raise self.missing(node, clause, hint)
        return written(self.source.text, found, node)

    def released(self, part: exp.Expression) -> str | None:
        """The column that a column or group expression is, as it is shown; aliases come first."""
        if part.find(exp.AggFunc):
            return None
        name = self.source.alone(part)
        if name is not None:
            shown = self.names.get(name.casefold())
            if shown is not None or name in self.items:
                return shown or name
        with contextlib.suppress(UnsafeExpression):
            return self.groups.get(identity(self.source.read(part)))
        return None

    def column_of(self, item: Item, node: exp.Expression, clause: str, hint: str) -> str:
        """The released column that an aggregate is."""
        if item.aggregate.parts != ("",):
            raise self.source.fault(
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
        alias = next(n for n in names_for(item, node) if n.casefold() not in taken)
        self.items[alias] = item
        self.inner.append(replace(item, alias=alias, at=node))
        return alias

    def missing(self, node: object, clause: str, hint: str) -> UnsafeExpression:
        """The refusal of something that is no released column."""
        reason = f"{clause} has {errors.fragment(node)!r}, which is no output column"
        return self.source.fault(reason, hint or _SELECTED, node)


_CLAUSES = {
    *("expressions", "from", "from_", "joins", "with", "with_", "where", "group", "having"),
    *("order", "limit", "offset"),
}


def parse_select(text: str, *, start: Start) -> Select:
    """The parts of a SELECT over one table, or over row-wise sub-selects of one.

    start: from a table's name to a query without steps. A name behind GROUP BY, HAVING or ORDER BY
    means an alias of the SELECT list before a column.

    Raises UnsafeExpression for everything outside the subset, naming the clause and what may be
    written instead; InvalidParameter where `text` is no text, and for steps that do not fit.
    """
    tree = statement(text, argument="sql")
    if not isinstance(tree, exp.Select):
        raise _other(text, tree)
    try:
        clauses(text, tree, _CLAUSES)
        source = from_clause(text, tree, start)
        found = _SelectReading(source=source).select(tree)
    except RecursionError:
        raise errors.too_deep(text) from None
    refuse_lost(text, tree)
    _check_names(found)
    return found


def tables_of(text: str) -> dict[str, tuple[int, int] | None]:
    """The tables that a SELECT reads, and where they are written. Raises as `parse_select`."""
    tree = statement(text, argument="sql")
    entries = {entry.alias.casefold() for entry in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if table.name.casefold() not in entries]
    return {table.name: errors.of_node(text, table) for table in tables}


def _other(text: str, tree: exp.Expression) -> UnsafeExpression:
    """The refusal of a statement that is no SELECT, or more than one."""
    word = tree.key.upper()
    reason, hint = f"its verb is {word}", "Write one SELECT."
    if isinstance(tree, exp.SetOperation):
        reason, place = f"it puts SELECTs together by {word}", errors.between(text, tree)
        hint = (
            "Write one SELECT, and ask the others by themselves. UNION ALL may stand between "
            "row-wise SELECTs behind FROM."
        )
    else:
        place = errors.of_word(text, word) or errors.of_node(text, tree)
    return UnsafeExpression(text, reason=reason, hint=hint, place=place)


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """An expression that is selected or grouped by and no aggregate, under the alias it was given.

    name: the alias, or the name of the column that was written. at: as it was written.
    """

    alias: str = ""
    name: str = ""
    node: Node
    at: exp.Expression

    @property
    def mark(self) -> str:
        """The identity of the expression."""
        return identity(self.node)


_Entry = Item | _Key | exp.Alias
"""What stands in the SELECT list; an alias is that of an expression over aggregates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectReading(Aggregates):
    """The reading of one SELECT; every method raises UnsafeExpression."""

    def select(self, tree: exp.Select) -> Select:
        source, text = self.source, self.source.text
        entries = [self.entry(projection) for projection in tree.expressions]
        if all(isinstance(entry, _Key) for entry in entries):
            at = tree.expressions[0] if len(tree.expressions) == 1 else tree
            raise source.fault("it has no aggregate, and only aggregates leave", OFFERED, at)
        where = tree.args.get("where")
        read: set[str] = set()
        if where is not None:
            read = set(names(source.read(where.this)))
            source = source.where(where)
        margins, keys = self.grouping(tree.args.get("group"), entries)
        shown = self.shown(margins, keys, entries)
        self.refuse_shadows(keys, shown, read, tree)
        columns: dict[str, str] = {}
        for key in keys:
            if isinstance(key.node, Name):
                columns[key.mark] = key.node.name
                continue
            label = columns[key.mark] = free_name(shown[key.mark], source.taken)
            source = source.derive(label, key.node, key.at)
        named = self.named(tree, entries, shown)
        items = [entry for entry in named if isinstance(entry, Item)]
        released = [entry.alias for entry in named if not isinstance(entry, Item)]
        released += [name for item in items for name in item.columns]
        released += [] if margins is None else [MARGIN]
        outputs = _Outputs(
            source=self.source,
            names={name.casefold(): name for name in released},
            groups=shown,
            items={i.alias: replace(i, alias="") for i in items if i.aggregate.parts == ("",)},
        )
        made = [
            outputs.computed(entry) if isinstance(entry, exp.Alias) else entry
            for entry in named
            if not isinstance(entry, _Key)
        ]
        having, order = tree.args.get("having"), tree.args.get("order")
        kept = None
        if having is not None:
            kept = outputs.expression(having.this, clause="HAVING", hint=_HAVING)
        orderings = [] if order is None else order.expressions
        places = [entry.alias for entry in named]
        return Select(
            text=text,
            rows=source.people,
            groups=tuple(columns.values()),
            shown=tuple(shown[key] for key in columns),
            groups_at=tuple(key.at for key in keys),
            margins=margins,
            items=tuple(made),
            having=kept,
            having_at=having,
            order_by=tuple(outputs.ordering(ordered, places) for ordered in orderings),
            limit=outputs.whole(tree.args.get("limit"), "LIMIT"),
            offset=outputs.whole(tree.args.get("offset"), "OFFSET") or 0,
            inner=tuple(outputs.inner),
        )

    # ---- the SELECT list -----------------------------------------------------------------------

    def entry(self, projection: exp.Expression) -> _Entry:
        named = isinstance(projection, exp.Alias)
        alias, node = (projection.alias, projection.this) if named else ("", projection)
        if isinstance(node, exp.Star):
            raise self.source.fault("it selects rows (*), and only aggregates leave", OFFERED, node)
        found = self.aggregate(node)
        if found is not None:
            return replace(found, alias=alias)
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) or node.find(exp.Window):
            self.refuse_others(node)
        if any(self.aggregate(part) is not None for part in node.walk()):
            if isinstance(projection, exp.Alias):
                return projection
            reason = f"its column {errors.fragment(node)!r} has no name"
            raise self.source.fault(reason, "Name it with AS: SUM(x) / COUNT(*) AS ratio.", node)
        self.refuse_others(node)
        return _Key(alias=alias, name=shown_name(projection), node=self.source.read(node), at=node)

    def named(self, tree: exp.Select, entries: list[_Entry], shown: dict[str, str]) -> list[_Entry]:
        """The entries with their names; names the caller gave must differ, others get a number."""
        taken: set[str] = set()
        found = [
            replace(entry, alias=shown[entry.mark]) if isinstance(entry, _Key) else entry
            for entry in entries
        ]
        for entry, projection in zip(found, tree.expressions, strict=True):
            if entry.alias and entry.alias.casefold() in taken:
                reason = f"two output columns are named {entry.alias[:60]!r}"
                raise self.source.fault(reason, "Name them apart with AS.", projection)
            taken.add(entry.alias.casefold())
        for place, (entry, projection) in enumerate(zip(found, tree.expressions, strict=True)):
            if isinstance(entry, Item) and not entry.alias:
                choices = names_for(entry, projection)
                alias = next(name for name in choices if name.casefold() not in taken)
                taken.add(alias.casefold())
                found[place] = replace(entry, alias=alias)
        return found

    # ---- GROUP BY ------------------------------------------------------------------------------

    def grouping(
        self, clause: exp.Group | None, entries: list[_Entry]
    ) -> tuple[Choice["rollup", "cube"] | None, list[_Key]]:
        """By which subsets of the columns is summed too, and the expressions to group by."""
        if clause is None:
            return None, []
        if clause.args.get("all") is True and given(clause) == {"all"}:
            plain = [entry for entry in entries if isinstance(entry, _Key)]
            return None, list({key.mark: key for key in plain}.values())
        parts = list(clause.expressions)
        several = [part for part in parts if isinstance(part, exp.Cube | exp.Rollup)]
        sets = clause.find(exp.GroupingSets)
        if sets is not None or (several and len(parts) > 1):
            at = sets or several[0]
            reason = f"it groups in more than one way, at {errors.fragment(at)!r}"
            hint = "Write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b), with all columns."
            raise self.source.fault(reason, hint, at)
        if given(clause) != {"expressions"}:
            reason = f"it groups in more than one way, at {errors.fragment(clause).strip()!r}"
            raise self.source.fault(reason, "Name the columns.", clause)
        kind: Choice["rollup", "cube"] | None = None
        if several:
            kind = "rollup" if isinstance(several[0], exp.Rollup) else "cube"
            parts = list(several[0].expressions)
        if not parts:
            raise self.source.fault("it groups by no column", "Name the columns.", several[0])
        return kind, [self.group_key(part, entries) for part in parts]

    def group_key(self, at: exp.Expression, entries: list[_Entry]) -> _Key:
        """What one entry of GROUP BY means: a position, an alias, a column or an expression."""
        alias = self.source.alone(at)
        for entry in entries if alias is not None else ():
            if isinstance(entry, _Key) and entry.alias and _same(entry.alias, str(alias)):
                return entry
        node = self.source.read(at)
        if isinstance(node, Literal):
            number = node.value
            if type(number) is int and 1 <= number <= len(entries):
                entry = entries[number - 1]
                if isinstance(entry, _Key):
                    return entry
            reason = f"it groups by the constant {text_of(node)[:60]}"
            raise self.source.fault(reason, "Name the group columns.", at)
        return _Key(node=node, at=at)

    def shown(self, margins: str | None, keys: list[_Key], entries: list[_Entry]) -> dict[str, str]:
        """Each group's name in the released table by its mark."""
        plain = [entry for entry in entries if isinstance(entry, _Key)]
        aliases = {entry.mark: entry.name for entry in plain}
        shown: dict[str, str] = {}
        for key in keys:
            alias, node = aliases.get(key.mark), key.node
            if not alias and isinstance(node, Name):
                alias = self.source.shown(node)
            if not alias or isinstance(node, Literal):
                reason = f"its group {text_of(node)[:60]!r} has no name"
                hint = "Select it with one: SELECT FLOOR(age / 10) AS decade, ... GROUP BY decade."
                raise self.source.fault(reason, hint, key.at)
            if key.mark in shown or any(_same(alias, other) for other in shown.values()):
                reason = f"it groups by {alias[:60]!r} twice"
                raise self.source.fault(reason, "Name each group once.", key.at)
            if margins is not None and _same(MARGIN, alias):
                reason = f"its group is called {MARGIN!r}, as the column that tells sums apart"
                raise self.source.fault(reason, "Give it another name with AS.", key.at)
            shown[key.mark] = alias
        for entry in plain:
            if entry.mark not in shown:
                reason = f"{text_of(entry.node)[:60]!r} is neither an aggregate nor behind GROUP BY"
                raise self.source.fault(reason, _SELECTED, entry.at)
        return shown

    def refuse_shadows(
        self, keys: list[_Key], shown: dict[str, str], where: set[str], tree: exp.Select
    ) -> None:
        """The name of a group expression must not be that of a column that is read anywhere.

        where: the columns that WHERE reads.
        """
        read = where | {name for key in keys for name in names(key.node)}
        for projection in tree.expressions:
            read |= {column.name for column in projection.find_all(exp.Column)}
        for key in keys:
            alias = shown[key.mark]
            if not isinstance(key.node, Name) and any(_same(alias, name) for name in read):
                reason = f"{alias[:60]!r} names both a column and an expression"
                raise self.source.fault(reason, "Give the expression another name with AS.", key.at)


def build_query(
    select: Select, *, keys: GivenKeys, level_weights: GivenLevelWeights = None
) -> Query:
    """The question that a SELECT asks.

    keys: public values by group column, by the name in the SELECT or of the column itself, a table
    with columns of these names, or a list, for several columns of tuples in the order of GROUP BY.
    level_weights: of ROLLUP and CUBE, as `group_by` takes them. Raises UnsafeExpression and
    InvalidParameter.
    """
    query, aggregates = select.rows, select.aggregates
    fits = level_weights is None or select.margins is not None
    expected = "it with GROUP BY ROLLUP(...) or CUBE(...)"
    checks.demand(fits, "level_weights", level_weights, expected=expected)
    if select.groups:
        with _grouping(select):
            query = query.group_by(
                *select.groups,
                keys=_keys(select, keys),
                margins=select.margins,
                level_weights=level_weights,
            )
    else:
        none = keys is None or (isinstance(keys, Mapping) and not keys)
        checks.demand(none, "keys", keys, expected="a GROUP BY with keys=")
    try:
        query = query.agg(**{item.alias: item.aggregate for item in aggregates})
    except InvalidParameter as error:
        for item in aggregates:
            with placed("SELECT", select.text, item.at):
                _check(item, query, alone=len(aggregates) == 1)
                if error.argument == item.alias:  # it does not suit the groups or the rows
                    raise
        with _grouping(select):
            raise
    check_arrangement(select, query)
    return query


def _check(item: Item, query: Query, *, alone: bool) -> None:
    """Raise what is wrong with one aggregate, in the words of SQL; alone: it is the only one."""
    kind, rest = InvalidParameter, dict[str, Any]()
    try:
        lines = item.aggregate.bound_to(query.scope).lines
    except MissingBound as error:
        texts = item.arguments
        place = next((n for n, text in enumerate(texts) if plain(text) == error.column), 0)
        constant = not re.search(r'"(?:[^"]|"")+"', " ".join(texts[place:]))
        names = dict.fromkeys(name for text in texts[place:] for name in unbounded(query, text))
        value, column = texts[place], plain(texts[place])
        expected = "a column: of a constant there is nothing to find. COUNT(*) counts rows"
        if names:
            kind, expected = MissingBound, f"public bounds for {column!r}"
            hint = bounds_hint(names)
            if '"' not in column:  # of a column by itself that of the table
                column = next(iter(names)) if len(names) == 1 else text_of(Name(column))
            rest = {"column": column, "hint": hint}
        elif not constant:
            expected = f"public bounds for {column!r}: write LEAST(GREATEST({column}, 0), 100)"
    except InvalidParameter as error:
        if item.name != "approx_top_k" or error.argument != "values":
            raise
        value, expected = item.arguments[1], "a column of public values"
        hint = (
            f"open the session with columns={{{value!r}: unacorda.Categories([...])}}. Where no "
            "list of them is public, GROUP BY it with unacorda.private_keys()"
        )
        rest = {"lacks": "keys", "column": value, "hint": hint}
    else:
        if lines == 1 or alone:
            return
        value = item.alias
        expected = (
            "no other aggregate next to one that makes several lines: ask for the others in a "
            "SELECT of their own"
        )
    raise kind("SELECT", value, expected=expected, **rest)


@contextlib.contextmanager
def _grouping(select: Select) -> Iterator[None]:
    """Tell what is wrong with groups and their keys at the place of the group.

    Columns that are no table's are called by the names that the SELECT shows.
    """
    try:
        yield
    except InvalidParameter as error:
        fault = error
    else:
        return
    places = [errors.of_node(select.text, at) for at in select.groups_at]
    known = [place for place in places if place is not None]
    if not known or fault.argument.partition("[")[0] not in {"keys", "group_by", "margins"}:
        raise fault
    made = select.rows.scope.derived
    for name, shown, own in zip(select.groups, select.shown, places, strict=True):
        said = (fault.argument, fault.expected, fault.hint, fault.value)
        if own is not None and any(isinstance(s, str) and repr(name) in s for s in said):
            column = shown if name in made else name
            argument, expected, hint = (s.replace(repr(name), repr(column)) for s in said[:3])
            fault = fault.about(argument, fault.value, expected=expected, hint=hint, column=column)
            raise fault.placed(select.text, own)
    raise fault.placed(select.text, (min(known)[0], max(known)[1]))


def _check_names(select: Select) -> None:
    taken = set(select.labels)
    for item in (*select.items, *select.inner):
        columns = {name for column in item.columns for name in answer_columns(column)}
        expected = (
            "output columns that differ, also from the columns that each aggregate gets next to "
            "its own (name_se, name_low, name_high), and two would be named "
            f"{', '.join(map(repr, sorted(columns & taken)))}: name them apart with AS"
        )
        with placed("SELECT", select.text, item.at):
            checks.demand(not columns & taken, "sql", item.alias, expected=expected)
        taken |= columns


def _keys(select: Select, keys: Any) -> GivenKeys:
    """The keys by the names of the columns; tables are read by the names in the SELECT."""
    if keys is None:
        return None
    scope, columns = select.rows.scope, dict(zip(select.shown, select.groups, strict=True))
    if not isinstance(keys, Mapping):
        listed: GivenKeys = without_tables(scope, columns, keys)
        return listed  # which group_by checks
    names = select.group_names
    unknown = sorted(str(key) for key in keys if key not in names)
    expected = f"columns of GROUP BY: {', '.join(select.shown) or 'none'}"
    checks.demand(not unknown, "keys", unknown, expected=expected)
    found = {names[key]: values for key, values in without_tables(scope, names, keys).items()}
    once = len(found) == len(keys)
    checks.demand(once, "keys", list(keys), expected="each group column once")
    return found
