"""Questions in another engine's SQL: the statements that `compile` writes for DuckDB, translated.

The statement is read by sqlglot's parser and written again, node by node, from a closed table of
what means the same there. What stands in no table is refused by its name; nothing is handed on as
it stands.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from unacorda.query.engines.dialects.functions import CASTS, NUMBERS, TEXTS
from unacorda.query.engines.dialects.moments import DATES
from unacorda.query.engines.dialects.typed import (
    TYPES,
    Dialect,
    Typed,
    Untranslatable,
    Values,
    Writing,
    chain,
    form,
    form_of_same_type,
    given,
    united,
)

__all__ = ["COMMON", "LAYER", "NamedTable", "Translated", "translate", "window"]


def _column(writer: Values, node: exp.Expression) -> Typed:
    relation = node.args.get("table")
    name = node.name
    if relation is None and name in writer.names:
        return writer.names[name]
    return writer.column(name, None if relation is None else relation.name)


def _identifier(writer: Values, node: exp.Expression) -> Typed:
    if node.name in writer.names:
        return writer.names[node.name]
    raise Untranslatable(f"the name {node.name}")


def _paren(writer: Values, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    return value if value.sql.startswith("(") else replace(value, sql=f"({value.sql})")


def _compared(sign: str) -> Writing:
    return form(f"({{}} {sign} {{}})", "BOOLEAN", "this", "expression")


def _is(writer: Values, node: exp.Expression) -> Typed:
    if not isinstance(node.args["expression"], exp.Null):
        raise Untranslatable("IS")
    return Typed(f"({writer.value(node.this).sql} IS NULL)", "BOOLEAN")


def _in(writer: Values, node: exp.Expression) -> Typed:
    choices = ", ".join(writer.value(choice).sql for choice in node.expressions)
    return Typed(f"({writer.value(node.this).sql} IN ({choices}))", "BOOLEAN")


def _case(writer: Values, node: exp.Expression) -> Typed:
    subject = node.args.get("this")
    head = "" if subject is None else f" {writer.value(subject).sql}"
    arms = [(writer.value(arm.this), writer.value(arm.args["true"])) for arm in node.args["ifs"]]
    default = node.args.get("default")
    last = None if default is None else writer.value(default)
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in arms)
    results = [then for _, then in arms] + ([] if last is None else [last])
    tail = "" if last is None else f" ELSE {last.sql}"
    return Typed(f"(CASE{head} {whens}{tail} END)", united(*results))


def _coalesce(writer: Values, node: exp.Expression) -> Typed:
    values = [writer.value(part) for part in (node.this, *node.expressions)]
    listed = ", ".join(value.sql for value in values)
    return Typed(f"coalesce({listed})", united(*values))


# ---- aggregates and windows --------------------------------------------------------------------


def _filtered(writer: Values, node: exp.Expression) -> Typed:
    value, condition = writer.value(node.this), writer.value(node.args["expression"].this)
    return replace(value, sql=f"{value.sql} FILTER (WHERE {condition.sql})")


def _window(writer: Values, node: exp.Expression) -> Typed:
    value, alias = writer.value(node.this), node.args.get("alias")
    over = f"({window(writer, node)})" if alias is None else writer.dialect.quoted(alias.name)
    return replace(value, sql=f"{value.sql} OVER {over}")


def window(writer: Values, node: exp.Expression) -> str:
    """What stands in the brackets of a window. NULLs come last, as DuckDB sorts them."""
    parts = []
    if node.args.get("partition_by"):
        listed = ", ".join(writer.value(part).sql for part in node.args["partition_by"])
        parts.append(f"PARTITION BY {listed}")
    order = node.args.get("order")
    if order is not None:
        if any(part.args.get("desc") for part in order.expressions):
            raise Untranslatable("ORDER BY DESC")
        listed = ", ".join(
            f"{writer.value(part.this).sql} NULLS LAST" for part in order.expressions
        )
        parts.append(f"ORDER BY {listed}")
    return " ".join(parts)


def _anonymous(writer: Values, node: exp.Expression) -> Typed:
    name = node.name.lower()
    write = writer.dialect.named.get(name)
    if write is None:
        raise Untranslatable(name.upper())
    return write(writer, node)


def _same(writer: Values, node: exp.Expression) -> Typed:
    a, b = writer.value(node.this), writer.value(node.args["expression"])
    return Typed(writer.dialect.same(a, b), "BOOLEAN")


def _differing(writer: Values, node: exp.Expression) -> Typed:
    return Typed(f"(NOT {_same(writer, node).sql})", "BOOLEAN")


def _field(writer: Values, node: exp.Expression) -> Typed:
    value, name = writer.value(node.this), node.args["expression"].name
    if name not in value.fields:
        raise Untranslatable("a struct")
    return value.fields[name]


def _let(writer: Values, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]: a body that says the value by a name."""
    transform, dialect = node.this, writer.dialect
    if not isinstance(transform, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = transform.this.expressions, transform.args["expression"]
    alias = f"bound{len(writer.names)}"
    if isinstance(operand, exp.Struct):
        parts = {p.this.name: writer.value(p.args["expression"]) for p in operand.expressions}
        value = dialect.bound_fields({part: one.sql for part, one in parts.items()})
        fields = {p: Typed(f"{alias}.{dialect.quoted(p)}", one.type) for p, one in parts.items()}
        own = Typed(alias, "STRUCT", fields)
    else:
        known = writer.value(operand)
        value, own = dialect.bound_value(known.sql), Typed(dialect.bound_name(alias), known.type)
    (name,) = function.expressions
    names = {**writer.names, name.name: own}
    body = replace(writer, names=names).value(function.this)
    return Typed(dialect.bound(value, alias, body.sql), body.type)


def _exploded(writer: Values, node: exp.Expression) -> Typed:
    """unnest(list_slice(string_split(text, separator), 1, most)): a row for each part of a text."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            text, separator = writer.value(split.this).sql, split.args["expression"].name
            return Typed(writer.dialect.exploded(text, separator, int(most.name)), "TEXT")
        case _:
            raise Untranslatable("UNNEST")


def _count(writer: Values, node: exp.Expression) -> Typed:
    counted = node.this
    if isinstance(counted, exp.Star):
        return Typed("count(*)", "BIGINT")
    if isinstance(counted, exp.Distinct):
        parts: list[exp.Expression] = counted.expressions
        if len(parts) == 1 and isinstance(parts[0], exp.Tuple):  # combinations of values
            parts = parts[0].expressions
        found = [writer.value(part).sql for part in parts]
        return Typed(writer.dialect.count_distinct(found), "BIGINT")
    return Typed(f"count({writer.value(counted).sql})", "BIGINT")


def _sum(writer: Values, node: exp.Expression) -> Typed:
    value = writer.value(node.this)
    if value.type not in ("BIGINT", "HUGEINT"):
        raise Untranslatable("SUM of what is not whole")
    return Typed(writer.dialect.total(value.sql), "HUGEINT")


COMMON: dict[type[object], Writing] = {
    exp.Column: _column,
    exp.Identifier: _identifier,
    exp.Paren: _paren,
    exp.Null: lambda _, __: Typed("NULL", "NULL"),
    exp.Boolean: lambda _, node: Typed("TRUE" if node.this else "FALSE", "BOOLEAN"),
    exp.EQ: _compared("="),
    exp.NEQ: _compared("<>"),
    exp.LT: _compared("<"),
    exp.LTE: _compared("<="),
    exp.GT: _compared(">"),
    exp.GTE: _compared(">="),
    exp.And: chain("AND", "BOOLEAN"),
    exp.Or: chain("OR", "BOOLEAN"),
    exp.Not: form("(NOT {})", "BOOLEAN", "this"),
    exp.Is: _is,
    exp.Between: form("({} BETWEEN {} AND {})", "BOOLEAN", "this", "low", "high"),
    exp.In: _in,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: _differing,
    exp.StructExtract: _field,
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Min: form_of_same_type("min({})"),
    exp.Max: form_of_same_type("max({})"),
    exp.Filter: _filtered,
    exp.Window: _window,
    exp.RowNumber: form("row_number()", "BIGINT"),
    exp.Rank: form("rank()", "BIGINT"),
    exp.DenseRank: form("dense_rank()", "BIGINT"),
    exp.CumeDist: form("cume_dist()", "DOUBLE"),
    exp.PercentRank: form("percent_rank()", "DOUBLE"),
    exp.Anonymous: _anonymous,
    exp.Bracket: _let,
    exp.Explode: _exploded,
    **NUMBERS,
    **TEXTS,
    **DATES,
    **CASTS,
}
"""By the node of the tree."""


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
    dialect: Dialect,
    tables: Mapping[str, NamedTable],
    parameters: str = "",
    public: bool = False,
) -> Translated:
    """A statement over these tables; parameters: the name of its lists.

    public: it reads public tables alone, and so may have DISTINCT and LIMIT. Raises Untranslatable,
    naming what has no equal.
    """
    found: list[str] = []
    reading = _StatementReading(
        dialect=dialect, tables=tables, parameters=parameters, found=found, public=public
    )
    try:
        text, columns = reading.query(sqlglot.parse_one(sql, read="duckdb"), {})
    except RecursionError:
        raise Untranslatable("parts that are nested so deeply") from None
    types = {name: value.type for name, value in columns.items()}
    return Translated(sql=text, columns=types, parameters=tuple(found))


_Columns = Mapping[str, Typed]
_Relation = tuple[str | None, _Columns]
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
_CONDITIONS = {"SEMI": "EXISTS", "ANTI": "NOT EXISTS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatementReading:
    dialect: Dialect
    tables: Mapping[str, NamedTable]
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
            parts.append(f"{self._quoted(one.alias)} AS ({text})")
        return f"WITH {', '.join(parts)} ", known

    def _select(self, node: exp.Select, known: Mapping[str, _Columns]) -> tuple[str, _Columns]:
        source = node.args.get("from_")
        if source is None:
            return self._lists(node)
        text, name, columns = self._relation(source.this, known, 0)
        relations, conditions = [(name, columns)], []
        for number, join in enumerate(node.args.get("joins") or (), start=1):
            joined, name, columns = self._relation(join.this, known, number)
            self._check(join)
            kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
            if (kind, side) not in _JOINS or join.args.get("method"):
                raise Untranslatable("this JOIN")
            if kind and not self.dialect.semi_joins:
                conditions.append(self._condition(join, kind, joined, relations, (name, columns)))
                continue
            if not kind:
                relations.append((name, columns))
            text += _JOINS[kind, side] + joined
            if join.args.get("using"):
                text += f" USING ({', '.join(self._quoted(c.name) for c in join.args['using'])})"
            else:
                text += f" ON {self._values(relations).value(join.args['on']).sql}"
        writer = self._values(relations)
        items = self._items(node, writer)
        listed = ", ".join(f"{value.sql} AS {self._quoted(name)}" for name, value in items)
        first = "SELECT DISTINCT" if self.public and node.args.get("distinct") else "SELECT"
        query = f"{first} {listed} FROM {text}"
        if node.args.get("where"):
            conditions.append(writer.value(node.args["where"].this).sql)
        if conditions:
            query += f" WHERE {' AND '.join(conditions)}"
        if node.args.get("group"):
            query += f" GROUP BY {self._groups(node, writer, items)}"
        if node.args.get("having"):
            query += f" HAVING {writer.value(node.args['having'].this).sql}"
        if node.args.get("windows"):
            windows = node.args["windows"]
            listed = ", ".join(f"{self._quoted(w.name)} AS ({window(writer, w)})" for w in windows)
            query += f" WINDOW {listed}"
        if self.public and node.args.get("limit"):
            query += f" LIMIT {int(node.args['limit'].expression.name)}"
        return query, {name: Typed(self._quoted(name), value.type) for name, value in items}

    def _quoted(self, name: str) -> str:
        return self.dialect.quoted(name)

    def _values(self, relations: Sequence[_Relation]) -> Values:
        return Values(relations, self.dialect)

    def _condition(
        self,
        join: exp.Expression,
        kind: str,
        joined: str,
        relations: Sequence[_Relation],
        other: _Relation,
    ) -> str:
        """That the other table has a row of equal values in columns of the same names, or none."""
        if not join.args.get("using"):
            raise Untranslatable("this JOIN")
        here, there = self._values(relations), self._values([other])
        same = " AND ".join(
            f"{here.column(column.name, None).sql} = {there.column(column.name, None).sql}"
            for column in join.args["using"]
        )
        return f"{_CONDITIONS[kind]} (SELECT 1 FROM {joined} WHERE {same})"

    def _items(self, node: exp.Select, writer: Values) -> list[tuple[str, Typed]]:
        items: list[tuple[str, Typed]] = []
        for item in node.expressions:
            match item:
                case exp.Star() | exp.Column(this=exp.Star()):
                    wanted = item.args.get("table") if isinstance(item, exp.Column) else None
                    for relation, columns in writer.relations:
                        if wanted is None or wanted.name == relation:
                            items += [
                                (name, replace(value, sql=self._qualified(relation, name)))
                                for name, value in columns.items()
                            ]
                case exp.Alias():
                    items.append((item.alias, writer.value(item.this)))
                case exp.Column():
                    items.append((item.name, writer.value(item)))
                case _:
                    items.append((f"item {len(items)}", writer.value(item)))
        return items

    def _groups(self, node: exp.Select, writer: Values, items: list[tuple[str, Typed]]) -> str:
        """By columns, or by what has been named in this SELECT."""
        named = dict(items)
        places = {value.sql: place for place, (_, value) in enumerate(items, start=1)}
        parts = []
        for part in node.args["group"].expressions:
            try:
                sql = writer.value(part).sql
            except Untranslatable:
                if not isinstance(part, exp.Column) or part.name not in named:
                    raise
                sql = named[part.name].sql
            parts.append(str(places[sql]) if self.dialect.by_place and sql in places else sql)
        return ", ".join(parts)

    def _relation(
        self, node: exp.Expression, known: Mapping[str, _Columns], number: int
    ) -> tuple[str, str | None, _Columns]:
        """A relation, its name, and its columns; number: its place among those of a SELECT."""
        self._check(node)
        alias = node.alias or None
        if alias is not None and given(node.args["alias"]) != {"this"}:
            raise Untranslatable("column names in the alias of a table")
        as_alias = f" AS {self._quoted(alias)}" if alias else ""
        if isinstance(node, exp.Table):
            name = node.name
            if name in known:
                return self._quoted(name) + as_alias, alias or name, known[name]
            if name not in self.tables:
                raise Untranslatable(f"the table {name}")
            table = self.tables[name]
            columns = {c: Typed(self._quoted(c), kind) for c, kind in table.columns.items()}
            body = f"({table.body})" if table.body else self._quoted(table.view)
            return f"{body} AS {self._quoted(alias or name)}", alias or name, columns
        text, selected = self.query(node, known)
        if alias is None and not self.dialect.nameless:
            alias = f"rows{number}"
            as_alias = f" AS {self._quoted(alias)}"
        end = self.dialect.layer if alias == LAYER else ""
        return f"({text}{end}){as_alias}", alias, selected

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
                column = f"p{number}"
            elif isinstance(value, exp.Cast) and isinstance(value.this, exp.Explode):  # a range
                kind, column = "BIGINT", "row"
            else:
                raise Untranslatable("SELECT without FROM")
            items.append(f"{self._quoted(column)} AS {self._quoted(name)}")
            columns[name] = Typed(self._quoted(name), kind)
        lists = self.dialect.parameter_table(self.parameters, tuple(self.found))
        return f"SELECT {', '.join(items)} FROM {lists}", columns

    def _qualified(self, relation: str | None, name: str) -> str:
        prefix = "" if relation is None else f"{self._quoted(relation)}."
        return prefix + self._quoted(name)
