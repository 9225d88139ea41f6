"""Questions in Spark SQL: the statements that `compile` writes for DuckDB, translated.

The statement is read by sqlglot's parser and written again, node by node, from a closed table of
what has an equal in Spark: the same value for every input, NULL, NaN, infinities and all. What
stands in no table is refused by its name; nothing is handed on as it stands.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from tacet.query.dialects.spark_casts import TYPES
from tacet.query.dialects.spark_values import Sources, Values, quoted, window
from tacet.query.dialects.typed import Typed, Untranslatable, given

__all__ = ["Table", "Translated", "translate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A relation that is there already. view: its name in Spark; columns: their types."""

    view: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A statement in Spark SQL. columns: what it gives, with types; parameters: of its lists."""

    sql: str
    columns: Mapping[str, str]
    parameters: tuple[str, ...]


def translate(
    sql: str, *, tables: Mapping[str, Table], parameters: str = "", public: bool = False
) -> Translated:
    """A statement over these tables; parameters: the view with its lists, p1, p2, ..., and `row`.

    public: it reads public tables alone, and so may have DISTINCT and LIMIT. Raises Untranslatable,
    naming what has no equal.
    """
    found: list[str] = []
    reading = _Reading(tables=tables, parameters=parameters, found=found, public=public)
    text, columns = reading.query(sqlglot.parse_one(sql, read="duckdb"), {})
    types = {name: value.type for name, value in columns.items()}
    return Translated(sql=text, columns=types, parameters=tuple(found))


_Columns = Mapping[str, Typed]
_SAID: Mapping[type, set[str]] = {
    exp.Select: {
        *("expressions", "from_", "joins", "where", "group", "having", "windows", "with_"),
    },
    exp.Union: {"this", "expression", "with_", "distinct"},
    exp.Subquery: {"this", "alias"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Table: {"this", "db", "alias"},
    exp.Join: {"this", "on", "using", "kind", "side"},
}
_JOINS = {
    ("", ""): " JOIN ",
    ("", "LEFT"): " LEFT JOIN ",
    ("SEMI", ""): " LEFT SEMI JOIN ",
    ("ANTI", ""): " LEFT ANTI JOIN ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    tables: Mapping[str, Table]
    parameters: str
    found: list[str]
    public: bool

    def query(self, node: object, known: Mapping[str, _Columns]) -> tuple[str, _Columns]:
        """A SELECT or a UNION ALL; known: what WITH has named so far."""
        self._check(node)
        match node:
            case exp.Subquery():
                return self.query(node.this, known)
            case exp.Union() | exp.Select():
                head, known = self._named(node, known)
            case _:
                raise Untranslatable(type(node).__name__.upper())
        if isinstance(node, exp.Select):
            text, columns = self._select(node, known)
            return head + text, columns
        if node.args.get("distinct"):
            raise Untranslatable("UNION")
        first, columns = self.query(node.this, known)
        second, _ = self.query(node.args["expression"], known)
        return f"{head}({first}) UNION ALL ({second})", columns

    def _check(self, node: object) -> None:
        """Raise Untranslatable for what is not a part of a statement, or says more than is read."""
        if not isinstance(node, exp.Expression) or type(node) not in _SAID:
            raise Untranslatable(type(node).__name__.upper())
        more = {"distinct", "limit"} if self.public and isinstance(node, exp.Select) else set()
        beyond = given(node) - _SAID[type(node)] - more
        if beyond:
            raise Untranslatable(", ".join(sorted(name.upper() for name in beyond)))

    def _named(
        self, node: exp.Expression, known: Mapping[str, _Columns]
    ) -> tuple[str, Mapping[str, _Columns]]:
        named = node.args.get("with_")
        if named is None:
            return "", known
        parts, known = [], dict(known)
        for one in named.expressions:
            self._check(one)
            text, columns = self.query(one.this, known)
            known[one.alias] = columns
            parts.append(f"{quoted(one.alias)} AS ({text})")
        return f"WITH {', '.join(parts)} ", known

    def _select(self, node: exp.Select, known: Mapping[str, _Columns]) -> tuple[str, _Columns]:
        source = node.args.get("from_")
        if source is None:
            return self._lists(node)
        text, name, columns = self._relation(source.this, known)
        relations = [(name, columns)]
        for join in node.args.get("joins") or ():
            joined, name, columns = self._relation(join.this, known)
            self._check(join)
            kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
            if (kind, side) not in _JOINS or join.args.get("method"):
                raise Untranslatable("this JOIN")
            if not kind:
                relations.append((name, columns))
            how = _JOINS[kind, side]
            text += how + joined
            if join.args.get("using"):
                text += (
                    f" USING ({', '.join(quoted(column.name) for column in join.args['using'])})"
                )
            else:
                text += f" ON {Values(Sources(tuple(relations))).value(join.args['on']).sql}"
        writer = Values(Sources(tuple(relations)))
        items = self._items(node, writer)
        listed = ", ".join(f"{value.sql} AS {quoted(name)}" for name, value in items)
        first = "SELECT DISTINCT" if self.public and node.args.get("distinct") else "SELECT"
        query = f"{first} {listed} FROM {text}"
        if node.args.get("where"):
            query += f" WHERE {writer.value(node.args['where'].this).sql}"
        if node.args.get("group"):
            query += f" GROUP BY {self._groups(node, writer, items)}"
        if node.args.get("having"):
            query += f" HAVING {writer.value(node.args['having'].this).sql}"
        if node.args.get("windows"):
            windows = node.args["windows"]
            listed = ", ".join(f"{quoted(w.name)} AS ({window(writer, w)})" for w in windows)
            query += f" WINDOW {listed}"
        if self.public and node.args.get("limit"):
            query += f" LIMIT {int(node.args['limit'].expression.name)}"
        return query, {name: Typed(quoted(name), value.type) for name, value in items}

    def _items(self, node: exp.Select, writer: Values) -> list[tuple[str, Typed]]:
        items: list[tuple[str, Typed]] = []
        for item in node.expressions:
            match item:
                case exp.Star() | exp.Column(this=exp.Star()):
                    wanted = item.args.get("table") if isinstance(item, exp.Column) else None
                    for relation, columns in writer.sources.relations:
                        if wanted is None or wanted.name == relation:
                            items += [
                                (name, Typed(_qualified(relation, name), value.type))
                                for name, value in columns.items()
                            ]
                case exp.Alias():
                    items.append((item.alias, writer.value(item.this)))
                case exp.Column():
                    items.append((item.name, writer.value(item)))
                case _:
                    items.append((f"item {len(items)}", writer.value(item)))
        return items

    @staticmethod
    def _groups(node: exp.Select, writer: Values, items: list[tuple[str, Typed]]) -> str:
        """By columns, or by what has been named in this SELECT."""
        named = dict(items)
        parts = []
        for part in node.args["group"].expressions:
            try:
                parts.append(writer.value(part).sql)
            except Untranslatable:
                if not isinstance(part, exp.Column) or part.name not in named:
                    raise
                parts.append(named[part.name].sql)
        return ", ".join(parts)

    def _relation(
        self, node: exp.Expression, known: Mapping[str, _Columns]
    ) -> tuple[str, str | None, _Columns]:
        self._check(node)
        alias = node.alias or None
        if alias is not None and given(node.args["alias"]) != {"this"}:
            raise Untranslatable("names of columns beside that of a table")
        as_alias = f" AS {quoted(alias)}" if alias else ""
        if isinstance(node, exp.Table):
            name = node.name
            if name in known:
                return quoted(name) + as_alias, alias or name, known[name]
            if name not in self.tables:
                raise Untranslatable(f"the table {name}")
            table = self.tables[name]
            columns = {c: Typed(quoted(c), kind) for c, kind in table.columns.items()}
            return f"{quoted(table.view)} AS {quoted(alias or name)}", alias or name, columns
        text, selected = self.query(node, known)
        return f"({text}){as_alias}", alias, selected

    def _lists(self, node: exp.Select) -> tuple[str, _Columns]:
        """SELECT unnest($1::BIGINT[]) AS a, ...: lists of one length, side by side."""
        items: list[str] = []
        columns: dict[str, Typed] = {}
        for item in node.expressions:
            name, value = item.alias, item.this
            if isinstance(value, exp.Explode):  # unnest($1::TYPE[])
                number, to = int(value.this.this.name), value.this.args["to"].expressions[0]
                kind = TYPES.get(to.this.name, "")
                kind = "BIGINT" if kind in ("INTEGER", "SMALLINT", "TINYINT") else kind
                if number != len(self.found) + 1 or not kind:
                    raise Untranslatable("this list")
                self.found.append(kind)
                items.append(f"`p{number}` AS {quoted(name)}")
            elif isinstance(value, exp.Cast) and isinstance(value.this, exp.Explode):  # a range
                kind = "BIGINT"
                items.append(f"`row` AS {quoted(name)}")
            else:
                raise Untranslatable("SELECT without FROM")
            columns[name] = Typed(quoted(name), kind)
        return f"SELECT {', '.join(items)} FROM {quoted(self.parameters)}", columns


def _qualified(relation: str | None, name: str) -> str:
    return quoted(name) if relation is None else f"{quoted(relation)}.{quoted(name)}"
