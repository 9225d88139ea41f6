"""Questions in another engine's SQL: the statements that `compile` writes for DuckDB, translated.

The statement is read by sqlglot's parser and written again, node by node, from a closed table of
what means the same there. What stands in no table is refused by its name, also by the engines that
run them (`TranslatedEngine`); nothing is handed on as it stands.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import exp

from unacorda.errors import UnsupportedConstruct
from unacorda.query.engines.compile import KeyCountSql, Statement, compile_chosen
from unacorda.query.engines.dialects.values import TYPES, Typed, Untranslatable, Values, window
from unacorda.query.engines.engine import Engine
from unacorda.query.expressions.reader import given
from unacorda.query.plan.query import Query

LAYER = "layer"
"""The name of a SELECT in FROM whose values are to be computed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A relation that is there already. view: its name there; columns: their types.

    body: a SELECT that is read in its place, where it has no name.
    """

    view: str
    columns: Mapping[str, str]
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A statement of the other engine. columns: what it gives; parameters: types of its lists."""

    sql: str
    columns: Mapping[str, str]
    parameters: tuple[str, ...]


def translate(
    sql: str,
    *,
    dialect: Values,
    tables: Mapping[str, NamedTable],
    parameters: str = "",
    public: bool = False,
) -> Translated:
    """A statement over these tables; parameters: the name of its lists.

    public: it reads public tables alone, and so may have DISTINCT and LIMIT. Raises Untranslatable,
    naming what has no equal.
    """
    reading = _StatementReading(dialect=dialect, parameters=parameters, found=[], public=public)
    try:
        text, columns = reading.query(sqlglot.parse_one(sql, read="duckdb"), tables)
    except RecursionError:
        raise Untranslatable("parts that are nested so deeply") from None
    return Translated(sql=text, columns=columns, parameters=tuple(reading.found))


_Columns = Mapping[str, str]
_Tables = Mapping[str, NamedTable]
_SAID: Mapping[type, set[str]] = {
    exp.Select: {
        *("expressions", "from_", "joins", "where", "group", "having", "windows", "with_")
    },
    exp.Union: {"this", "expression", "with_", "distinct"},
    exp.Subquery: {"this", "alias"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Table: {"this", "db", "alias"},
    exp.Join: {"this", "on", "using", "kind", "side"},
}
_JOINS = {("", ""), ("", "LEFT"), ("SEMI", ""), ("ANTI", "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatementReading:
    dialect: Values
    parameters: str
    found: list[str]
    public: bool

    def query(self, node: object, tables: _Tables) -> tuple[str, _Columns]:
        """A SELECT or a UNION ALL over tables, and what WITH has named so far."""
        checked, head = self._checked(node), ""
        if isinstance(checked, exp.Subquery):
            return self.query(checked.this, tables)
        if checked.args.get("with_"):
            parts, tables = [], dict(tables)
            if given(checked.args["with_"]) != {"expressions"}:
                raise Untranslatable("WITH RECURSIVE")
            for one in checked.args["with_"].expressions:
                _check_alias(one)
                text, columns = self.query(self._checked(one).this, tables)
                tables[one.alias] = NamedTable(view=one.alias, columns=columns)
                parts.append(f"{self.dialect.quoted(one.alias)} AS ({text})")
            head = f"WITH {', '.join(parts)} "
        if isinstance(checked, exp.Select):
            text, columns = self._select(checked, tables)
            return head + text, columns
        if not isinstance(checked, exp.Union) or checked.args.get("distinct"):
            raise Untranslatable(type(checked).__name__.upper())
        first, columns = self.query(checked.this, tables)
        second, _ = self.query(checked.args["expression"], tables)
        side = self.dialect.quoted("side")  # no engine needs brackets around a side
        sides = (f"SELECT * FROM ({text}) AS {side}" for text in (first, second))
        return head + " UNION ALL ".join(sides), columns

    def _checked(self, node: object) -> exp.Expression:
        """A part of a statement that says no more than is read; else raises Untranslatable."""
        if not isinstance(node, exp.Expression) or type(node) not in _SAID:
            raise Untranslatable(type(node).__name__.upper())
        more = {"distinct", "limit"} if self.public and isinstance(node, exp.Select) else set()
        beyond = given(node) - _SAID[type(node)] - more
        if beyond:
            raise Untranslatable(", ".join(sorted(name.upper() for name in beyond)))
        return node

    def _select(self, node: exp.Select, tables: _Tables) -> tuple[str, _Columns]:
        parts, quoted, over = node.args, self.dialect.quoted, type(self.dialect)
        if parts.get("from_") is None:
            return self._lists(node)
        text, name, columns = self._relation(parts["from_"].this, tables, 0)
        relations, conditions = {name: columns}, []
        for number, join in enumerate(parts.get("joins") or (), start=1):
            joined, name, columns = self._relation(self._checked(join).this, tables, number)
            shared, on = [c.name for c in join.args.get("using") or ()], join.args.get("on")
            if (join.kind, join.side) not in _JOINS or not (shared or on):
                raise Untranslatable("this JOIN")
            here, both = over(relations), over({**relations, name: columns})
            same = [f"{here.column(c).sql} = {both.column(c, name).sql}" for c in shared]
            condition = " AND ".join(same) or both.sql(on)
            if join.kind:
                exists = "EXISTS" if join.kind == "SEMI" else "NOT EXISTS"
                conditions.append(f"{exists} (SELECT 1 FROM {joined} WHERE {condition})")
            else:
                relations[name] = columns
                text += f"{' LEFT' if join.side else ''} JOIN {joined} ON {condition}"
        writer = over(relations)
        items = _items(node, writer)
        listed = ", ".join(f"{value.sql} AS {quoted(name)}" for name, value in items)
        first = "SELECT DISTINCT" if parts.get("distinct") else "SELECT"
        if parts.get("distinct") and given(parts["distinct"]):
            raise Untranslatable("DISTINCT ON")
        query = f"{first} {listed} FROM {text}"
        if parts.get("where"):
            conditions.append(writer.sql(parts["where"].this))
        if conditions:
            query += f" WHERE {' AND '.join(conditions)}"
        if parts.get("group"):
            query += f" GROUP BY {', '.join(_groups(node, writer, items))}"
        if parts.get("having"):
            query += f" HAVING {writer.sql(parts['having'].this)}"
        if parts.get("windows"):
            named = (f"{quoted(one.name)} AS ({window(writer, one)})" for one in parts["windows"])
            query += f" WINDOW {', '.join(named)}"
        if parts.get("limit"):
            query += f" LIMIT {int(parts['limit'].expression.name)}"
        return query, {name: value.type for name, value in items}

    def _relation(self, node: object, tables: _Tables, number: int) -> tuple[str, str, _Columns]:
        """A relation, its name, and its columns; number: its place among those of a SELECT."""
        checked, quoted = self._checked(node), self.dialect.quoted
        _check_alias(checked)
        if not isinstance(checked, exp.Table):
            text, columns = self.query(checked, tables)
            name = checked.alias or f"rows{number}"
            end = self.dialect.layer if name == LAYER else ""
            return f"({text}{end}) AS {quoted(name)}", name, columns
        table = tables.get(checked.name)
        if table is None or checked.text("db") not in ("", "main"):  # where DuckDB has its own
            raise Untranslatable(f"the table {checked.name}")
        body = f"({table.body})" if table.body else quoted(table.view)
        name = checked.alias or checked.name
        return f"{body} AS {quoted(name)}", name, table.columns

    def _lists(self, node: exp.Select) -> tuple[str, _Columns]:
        """SELECT unnest($1::BIGINT[]) AS a, ...: lists of one length, side by side."""
        items, columns, quoted = [], {}, self.dialect.quoted
        for item in node.expressions:
            match item.this:
                case exp.Explode(this=exp.Cast() as held):
                    kind = TYPES.get(held.args["to"].expressions[0].this.name, "")
                    kind = "BIGINT" if kind in ("INTEGER", "SMALLINT", "TINYINT") else kind
                    self.found.append(kind)
                    column = f"p{len(self.found)}"
                    if not kind or held.this.name != column[1:]:
                        raise Untranslatable("this list")
                case exp.Cast(this=exp.Explode()):  # a range
                    kind, column = "BIGINT", "row"
                case _:
                    raise Untranslatable("SELECT without FROM")
            items.append(f"{quoted(column)} AS {quoted(item.alias)}")
            columns[item.alias] = kind
        lists = self.dialect.parameter_table(self.parameters, tuple(self.found))
        return f"SELECT {', '.join(items)} FROM {lists}", columns


def _check_alias(node: exp.Expression) -> None:
    if node.alias and given(node.args["alias"]) != {"this"}:
        raise Untranslatable("column names in the alias of a table")


def _items(node: exp.Select, writer: Values) -> list[tuple[str, Typed]]:
    items: list[tuple[str, Typed]] = []
    for item in node.expressions:
        match item:
            case exp.Star() | exp.Column(this=exp.Star()):
                wanted = item.args.get("table")
                if given(item if isinstance(item, exp.Star) else item.this):
                    raise Untranslatable("a part of *")
                for relation, columns in writer.relations.items():
                    if wanted is None or wanted.name == relation:
                        items += [(name, writer.column(name, relation)) for name in columns]
            case exp.Alias():
                items.append((item.alias, writer.value(item.this)))
            case exp.Column():
                items.append((item.name, writer.value(item)))
            case _:
                items.append((f"item {len(items)}", writer.value(item)))
    return items


def _groups(node: exp.Select, writer: Values, items: list[tuple[str, Typed]]) -> list[str]:
    """By places of what is selected, by columns, or by what has been named in this SELECT."""
    named = dict(items)
    places = {value.sql: str(place) for place, (_, value) in enumerate(items, start=1)}
    parts = []
    if given(node.args["group"]) != {"expressions"}:
        raise Untranslatable("GROUP BY ALL")
    for part in node.args["group"].expressions:
        if isinstance(part, exp.Literal):
            raise Untranslatable("GROUP BY a place")
        try:
            sql = writer.sql(part)
        except Untranslatable:
            if not isinstance(part, exp.Column) or part.name not in named:
                raise
            sql = named[part.name].sql
        parts.append(places.get(sql, sql))
    return parts


class TranslatedEngine(Engine):
    """An engine that runs what DuckDB runs in another dialect.

    called: its name, for refusals; translate: a statement into its dialect.
    """

    called: ClassVar[str]
    translate: ClassVar[Callable[..., Translated]]

    @property
    @abstractmethod
    def _tables(self) -> Mapping[str, NamedTable]:
        """The tables of the session, by what statements call them."""

    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Raise UnsupportedConstruct for a question that it would answer otherwise."""
        translate, name = type(self).translate, None
        try:
            held = check_statement(first, self._tables, translate)
            if isinstance(first, KeyCountSql):
                chosen = compile_chosen(query, unit=query.limited, places=[0], parts=[0])
                check_statement(chosen, held, translate)
        except Untranslatable as error:
            name = error.name
        if name is not None:
            raise UnsupportedConstruct(name, engine=self.called)


def check_statement(
    statement: Statement | KeyCountSql,
    tables: Mapping[str, NamedTable],
    translate: Callable[..., Translated],
) -> dict[str, NamedTable]:
    """Translate all of a question without running it; gives the relations that it would name.

    Raises Untranslatable.
    """
    others: tuple[str, ...] = ()
    if isinstance(statement, KeyCountSql):
        named = statement.named
    else:
        named = {"bounded": statement.bounded}
        people = () if statement.people is None else (statement.people,)
        others = (statement.counts, *people, *statement.ladders, *statement.rankings)
    keys = {} if statement.keys is None else {"keys": statement.keys.sql}
    known = dict(tables)
    for name, sql in (keys | named).items():
        known[name] = NamedTable(view=name, columns=translate(sql, tables=known).columns)
    for sql in others:
        translate(sql, tables=known)
    if isinstance(statement, KeyCountSql):
        known.pop("keys", None)
    return known
