"""Values of another engine's SQL: typed, and written form by form from a closed table.

The language of expressions computes nothing that an engine could not: its numbers are doubles that
neither overflow nor are NaN, its dates are of the years 1 to 9999, and a text is matched with a
pattern before it is read (`expressions.values`). So a translation is by construct.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from string import Formatter
from typing import Any, ClassVar, NamedTuple

import duckdb
from sqlglot import exp

from unacorda.query.expressions.reader import CAST_TYPES, given

TYPES = {
    **CAST_TYPES,
    **dict.fromkeys(("UTINYINT", "UINT"), "BIGINT"),
    "UBIGINT": "UBIGINT",
    "INT128": "HUGEINT",
    **dict.fromkeys(("TEXT", "VARCHAR"), "TEXT"),
}
"""From sqlglot's names of DuckDB's types."""

_PARTS = {
    *("this", "expression", "expressions", "table", "is_string", "to", "ifs", "default"),
    *("low", "high", "decimals", "substr", "start", "length", "delimiter", "part_index"),
    *("replacement", "fill_pattern", "is_left", "position", "unit", "alias", "over", "order"),
    *("partition_by", "big_int", "value_constructor", "ignore_nulls", "safe", "coalesce", "typed"),
    *("date_part_boundary", "scale", "group", "null_if_pos_overflow"),
}
"""What a node may say to a function that translates it."""
_FLAGS = {"big_int", "safe", "typed", "coalesce", "null_if_pos_overflow"}
"""What follows from DuckDB's dialect, and changes no value: forms may leave it out."""
_LONG = 120
"""Characters beyond which values are written once, under a name."""


class Untranslatable(Exception):
    """A construct that the other engine does not have; name: as it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


class Typed(NamedTuple):
    """SQL of the other engine that binds as tightly as an atom, and what it holds.

    type: DOUBLE, BIGINT, HUGEINT, DECIMAL, WIDE (a decimal of more than 18 digits, all of them
    whole), TEXT, BOOLEAN, DATE, TIMESTAMP, HASH (64 bits without a sign) or NULL.
    """

    sql: str
    type: str


Writing = Callable[["Values", exp.Expression], Typed]
"""How one kind of node is translated."""


Relations = Mapping[str, Mapping[str, str]]
_NONE: Mapping[str, Any] = {}


_OWN_TYPES = {"DOUBLE", "BIGINT", "HUGEINT", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP"}
_OWN: tuple[type[exp.Expression], ...] = (
    *(exp.Mod, exp.IntDiv, exp.BitwiseRightShift, exp.StrPosition, exp.RegexpExtract, exp.IsNan),
    *(exp.Dayname, exp.Monthname, exp.NullSafeEQ, exp.StartsWith, exp.EndsWith, exp.Contains),
)
"""What every engine writes in its own way."""


class Values:
    """Translates the values of a SELECT; a subclass is an engine's own SQL.

    Python refuses a subclass that leaves out any of the following, and says what.

    relations: those that it reads, in order, by name, each with its columns' types. names: of
    lambdas, with their values, those of a struct as `name.field`. depth: how many lambdas are open.

    types: its names of types. writers: how it translates nodes of the tree: `COMMON`, the nodes
    that each engine writes by itself, and those of `COMMON` that it writes otherwise. layer: what
    ends a SELECT in FROM that is named `layer`, so that its values are computed once, and not
    written out wherever they are used.

    All others write SQL:

    - quoted, literal, number, whole: a name, a text, a double, a whole number. moment: a date or an
      instant, of its text and its type.
    - parameter_table: the relation whose columns p1, p2, ... are lists of these types, with `row`
      from 0 on.
    - bound: what uses values as the fields of a name, of the name, the values and the use.
    - exploded: a row for each part of a text, of its separator and the most parts.
    - converted: a number, date or instant out of a text of digits; NULL where it says none.
    - text: a text that nothing has given a collation to, by code point.
    - near: the whole double next to a double, of two the even one. divided: the quotient of two
      whole numbers, rounded towards 0.
    - part: a part of a date or instant, as DuckDB names and counts them, as a whole number. days,
      micros: since the beginning of 1970; instant: the one so many microseconds after it.
      truncated: the beginning of a unit. moved: an instant so many units later. last_day: that of a
      month.
    - count_distinct: how many different values there are, or combinations of them, without any
      NULL. total: the sum of whole numbers, in 128 bits. hashed: a hash of 64 bits of values, by a
      seed and a salt.
    """

    types: ClassVar[Mapping[str, str]]
    writers: ClassVar[Mapping[type[object], Writing]]
    layer = ""
    quoted: Callable[[str], str]
    literal: Callable[[str], str]
    number: Callable[[float], str]
    whole: Callable[[int], str]
    moment: Callable[[str, str], str]
    parameter_table: Callable[[str, Sequence[str]], str]
    bound: Callable[[str, Mapping[str, str], str], str]
    exploded: Callable[[str, str, int], str]
    converted: Callable[[str, str], str]
    near: Callable[[str], str]
    divided: Callable[[str, str], str]
    part: Callable[[str, str], str]
    days: Callable[[str], str]
    micros: Callable[[str], str]
    instant: Callable[[str], str]
    truncated: Callable[[str, str], str]
    moved: Callable[[str, int, str], str]
    last_day: Callable[[str], str]
    count_distinct: Callable[[str], str]
    total: Callable[[str], str]
    hashed: Callable[[Sequence[Typed], int, int], str]
    text: Callable[[str], str]

    def __init_subclass__(cls) -> None:
        left_out = [name for name in Values.__annotations__ if not hasattr(cls, name)]
        if not left_out:
            left_out = [f"the type {name}" for name in sorted(_OWN_TYPES - set(cls.types))]
            left_out += [f"exp.{node.__name__}" for node in _OWN if node not in cls.writers]
        if left_out:
            raise TypeError(f"the dialect {cls.__name__} leaves out {', '.join(left_out)}")

    def __init__(
        self, relations: Relations = _NONE, names: Mapping[str, Typed] = _NONE, depth: int = 0
    ) -> None:
        self.relations, self.names, self.depth = relations, names, depth

    def column(self, name: str, relation: str | None = None) -> Typed:
        """A column by name."""
        for known, columns in self.relations.items():
            if name in columns and relation in (None, known):
                return Typed(f"{self.quoted(known)}.{self.quoted(name)}", columns[name])
        raise Untranslatable(f"the column {name}")

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        write = self.writers.get(type(node))
        if write is None or not isinstance(node, exp.Expression) or not given(node) <= _PARTS:
            raise Untranslatable(type(node).__name__.upper())
        return write(self, node)

    def sql(self, node: object) -> str:
        """A part, or a list of them, whatever the type."""
        return ", ".join(map(self.sql, node)) if isinstance(node, list) else self.value(node).sql

    def double(self, node: object) -> str:
        """A part that is a number, as a double."""
        return self.as_double(self.value(node))

    def as_double(self, value: Typed) -> str:
        """A number as a double."""
        if value.type not in ("DOUBLE", "BIGINT", "HASH", "NULL"):
            raise Untranslatable(f"arithmetic of {value.type} and a number")
        return value.sql if value.type == "DOUBLE" else self.cast(value.sql, "DOUBLE")

    def constant(self, node: object) -> str:
        """A literal as an argument of a function: a text, or a whole number of 31 bits."""
        if isinstance(node, exp.Literal) and node.is_string and node.name:
            return self.literal(node.name)
        if isinstance(node, exp.Literal) and node.name.isdigit() and int(node.name) < 1 << 31:
            return node.name
        raise Untranslatable("a function with what is no literal")

    def cast(self, sql: str, kind: str) -> str:
        """A value as one of the types."""
        return f"CAST({sql} AS {self.types[kind]})"

    def let(self, value: str, body: Callable[[str], str]) -> str:
        """SQL that uses a value several times, under a name where it is long."""
        return self.bind("bx", {"v": value}, body)

    def bind(self, name: str, values: Mapping[str, str], body: Callable[..., str]) -> str:
        """SQL that uses values several times, as the fields of a name where they are long."""
        if sum(map(len, values.values())) <= _LONG:
            return body(*values.values())
        return self.bound(name, values, body(*(f"{name}.{self.quoted(v)}" for v in values)))


def united(*values: Typed) -> str:
    """The type that holds all of these."""
    types = [value.type for value in values if value.type != "NULL"]
    for wide in ("DOUBLE", "HUGEINT"):
        if wide in types and set(types) <= {"DOUBLE", "HUGEINT", "BIGINT", "DECIMAL"}:
            return wide
    return types[0] if types else "NULL"


Form = str | Callable[[Values, exp.Expression], str]
"""How nodes of one type are translated: by a text with their parts in brackets, or a function.

`{x:double}` is a part as a double, `{x:constant}` one that must be a literal; `{x:days}` and the
like are what an engine writes with it.
"""


def forms(by_type: Mapping[str, Mapping[type[object], Form]]) -> dict[type[object], Writing]:
    """Nodes by the type of their values; "" is that of the first part in their text."""
    return {
        node: _of_text(form, kind) if isinstance(form, str) else _of_type(form, kind)
        for kind, written in by_type.items()
        for node, form in written.items()
    }


def _of_type(form: Callable[[Values, exp.Expression], str], kind: str) -> Writing:
    return lambda writer, node: Typed(form(writer, node), kind)


def _of_text(form: str, kind: str) -> Writing:
    named = {name: how for _, name, how, _ in Formatter().parse(form) if name}
    text = re.sub(r":\w+}", "}", form)

    def write(writer: Values, node: exp.Expression) -> Typed:
        if not given(node) <= {*named, *_FLAGS}:
            raise Untranslatable(type(node).__name__.upper())
        said, found = {}, kind
        for name, how in named.items():
            part = node.args.get(name)
            if how == "constant" or isinstance(part, list):
                said[name] = writer.constant(part) if how else writer.sql(part)
                continue
            value = writer.value(part)
            found = found or value.type
            if how == "double":
                said[name] = writer.as_double(value)
            else:
                said[name] = getattr(writer, how)(value.sql) if how else value.sql
        return Typed(text.format(**said), found)

    return write


# ---- names and conditions ----------------------------------------------------------------------


def _column(writer: Values, node: exp.Expression) -> Typed:
    relation = node.args.get("table")
    if relation is None and node.name in writer.names:
        return writer.names[node.name]
    return writer.column(node.name, None if relation is None else relation.name)


def _is(writer: Values, node: exp.Expression) -> str:
    if not isinstance(node.args["expression"], exp.Null):
        raise Untranslatable("IS")
    return f"({writer.sql(node.this)} IS NULL)"


def _chain(sign: str) -> Form:
    """All operands of an operator in one pair of brackets, however many there are."""
    return lambda writer, node: (
        f"({f' {sign} '.join(writer.sql(part) for part in node.flatten(unnest=False))})"
    )


def _case(writer: Values, node: exp.Expression) -> Typed:
    subject, default = node.args.get("this"), node.args.get("default")
    text, results = "(CASE", []
    if subject is not None:
        text += f" {writer.sql(subject)}"
    for arm in node.args["ifs"]:
        when, then = writer.sql(arm.this), writer.value(arm.args["true"])
        text += f" WHEN {when} THEN {then.sql}"
        results.append(then)
    if default is not None:
        results.append(writer.value(default))
        text += f" ELSE {results[-1].sql}"
    return Typed(f"{text} END)", united(*results))


def _one_of(name: str) -> Writing:
    """COALESCE, LEAST and GREATEST."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        values = [writer.value(part) for part in (node.this, *node.expressions)]
        kind = united(*values)
        if len(values) == 1:
            return values[0]
        operands = [writer.as_double(v) if kind == "DOUBLE" else v.sql for v in values]
        return Typed(f"{name}({', '.join(operands)})", kind)

    return write


# ---- values under a name, and rows of parts ----------------------------------------------------


def _let(writer: Values, node: exp.Expression) -> Typed:
    """list_transform([value], lambda name: body)[1]: a body that says the value by a name."""
    transform = node.this
    if not isinstance(transform, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = transform.this.expressions, transform.args["expression"]
    (name,), alias = function.expressions, f"bound{writer.depth}"
    fields, names, called = {"v": operand}, dict(writer.names), name.name
    if isinstance(operand, exp.Struct):
        fields = {part.this.name: part.args["expression"] for part in operand.expressions}
        called += ".{}"
    values = {field: writer.value(part) for field, part in fields.items()}
    for field, value in values.items():
        names[called.format(field)] = Typed(f"{alias}.{writer.quoted(field)}", value.type)
    body = type(writer)(writer.relations, names, writer.depth + 1).value(function.this)
    listed = {field: value.sql for field, value in values.items()}
    return Typed(writer.bound(alias, listed, body.sql), body.type)


def _field(writer: Values, node: exp.Expression) -> Typed:
    name = f"{node.this.name}.{node.args['expression'].name}"
    if name not in writer.names:
        raise Untranslatable("a struct")
    return writer.names[name]


def _exploded(writer: Values, node: exp.Expression) -> str:
    """unnest(list_slice(string_split(text, separator), 1, most)): a row for each part of a text."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            text, separator = writer.sql(split.this), split.args["expression"].name
            return writer.exploded(text, separator, int(most.name))
        case _:
            raise Untranslatable("UNNEST")


# ---- aggregates and windows --------------------------------------------------------------------


def _count(writer: Values, node: exp.Expression) -> str:
    counted = node.this
    if isinstance(counted, exp.Star):
        return "count(*)"
    if not isinstance(counted, exp.Distinct):
        return f"count({writer.sql(counted)})"
    parts: list[exp.Expression] = counted.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Tuple):  # combinations of values
        parts = parts[0].expressions
    return writer.count_distinct(writer.sql(parts))


def _sum(writer: Values, node: exp.Expression) -> str:
    value = writer.value(node.this)
    if value.type not in _WHOLE:
        raise Untranslatable("SUM of what is not whole")
    return writer.total(value.sql)


def _window(writer: Values, node: exp.Expression) -> Typed:
    value, alias = writer.value(node.this), node.args.get("alias")
    if alias is None:
        return Typed(f"{value.sql} OVER ({window(writer, node)})", value.type)
    if not given(node) <= {"this", "over", "alias"}:
        raise Untranslatable("a window made of another")
    return Typed(f"{value.sql} OVER {writer.quoted(alias.name)}", value.type)


def window(writer: Values, node: exp.Expression) -> str:
    """What stands in the brackets of a window. NULLs come last, as DuckDB sorts them."""
    parts, order = [], node.args.get("order")
    if not given(node) <= {"this", "over", "partition_by", "order"}:
        raise Untranslatable("this window")
    if node.args.get("partition_by"):
        parts.append(f"PARTITION BY {writer.sql(node.args['partition_by'])}")
    if order is not None:
        if any(not given(part) <= {"this", "desc"} for part in order.expressions):
            raise Untranslatable("ORDER BY with NULLS FIRST")
        listed = (
            f"{writer.sql(part.this)}{' DESC' if part.args.get('desc') else ''} NULLS LAST"
            for part in order.expressions
        )
        parts.append(f"ORDER BY {', '.join(listed)}")
    return " ".join(parts)


# ---- numbers -----------------------------------------------------------------------------------

_WHOLE = ("BIGINT", "HUGEINT")


def _literal(writer: Values, node: exp.Expression) -> Typed:
    if node.args.get("is_string"):
        return Typed(writer.literal(node.name), "TEXT")
    if not node.name.isdigit():
        return Typed(writer.number(float(node.name)), "DOUBLE")
    whole = int(node.name)
    return Typed(writer.whole(whole), "HUGEINT" if whole >= 1 << 63 else "BIGINT")


def _arithmetic(sign: str) -> Writing:
    def write(writer: Values, node: exp.Expression) -> Typed:
        right = node.args["expression"]
        if isinstance(right, exp.Interval) and sign == "+":
            return _moved(writer, node.this, right)
        values = [writer.value(node.this), writer.value(right)]
        kind = united(*values)
        if kind != "DOUBLE" and kind not in _WHOLE:
            raise Untranslatable(f"arithmetic of {kind}")
        a, b = (writer.as_double(v) if kind == "DOUBLE" else v.sql for v in values)
        return Typed(f"({a} {sign} {b})", kind)

    return write


def rounded(form: str) -> Writing:
    """A double as a whole one; whole numbers are what they are."""

    def write(writer: Values, node: exp.Expression) -> Typed:
        def whole(v: str) -> str:
            return form.format(v=v, near=writer.near(v))

        value = writer.value(node.this)
        if node.args.get("decimals") is not None:
            raise Untranslatable("ROUND to digits")
        if value.type != "DOUBLE":
            return value
        often = form.count("{") > 1
        return Typed(writer.let(value.sql, whole) if often else whole(value.sql), "DOUBLE")

    return write


_FLOOR = "(CASE WHEN {near} > {v} THEN {near} - 1 ELSE {near} END)"
_CEILING = "(CASE WHEN {near} < {v} THEN {near} + 1 ELSE {near} END)"
_TRUNCATED = f"(CASE WHEN {{v}} < 0 THEN {_CEILING} ELSE {_FLOOR} END)"
_AWAY = "(CASE WHEN abs({v} - {near}) = 0.5 THEN {v} + sign({v}) * 0.5 ELSE {near} END)"
"""Ties go away from 0."""


def _logarithm(writer: Values, node: exp.Expression) -> str:
    base, operand = node.this.name, writer.double(node.args["expression"])
    match base:
        case "10":
            return f"log10({operand})"
        case "2":
            return f"(ln({operand}) / {writer.number(math.log(2))})"
        case _:
            raise Untranslatable("LOG")


# ---- texts -------------------------------------------------------------------------------------


SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""The space separators of Unicode, which TRIM cuts."""
_ESCAPES = "!#$^~|;:+=@&?<>"


@functools.cache
def case_table(function: str) -> tuple[str, str]:
    """The code points that DuckDB's LOWER or UPPER changes, and what to, in one order.

    DuckDB changes the case of every code point by itself, others by whole texts or by a locale (the
    German sharp s becomes two letters). So they are given its table.
    """
    query = (
        "SELECT string_agg(c, '' ORDER BY i), string_agg(d, '' ORDER BY i) FROM (SELECT i, chr(i) "
        f"AS c, {function}(chr(i)) AS d FROM (SELECT unnest(range(1, 1114112))::INTEGER AS i) "
        "WHERE i NOT BETWEEN 55296 AND 57343) WHERE c <> d"
    )
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    before, after = found
    assert len(before) == len(after)
    return str(before), str(after)


def _cased(function: str) -> Callable[[Values, exp.Expression], str]:
    def write(writer: Values, node: exp.Expression) -> str:
        before, after = map(writer.literal, case_table(function))
        return f"translate({writer.sql(node.this)}, {before}, {after})"

    return write


def _trim(writer: Values, node: exp.Expression) -> str:
    side, cut = str(node.args.get("position") or "BOTH").upper(), node.args.get("expression")
    signs = writer.literal(SPACES) if cut is None else writer.sql(cut)
    return f"trim({side} {signs} FROM {writer.sql(node.this)})"


def _pad(writer: Values, node: exp.Expression) -> str:
    parts = (writer.constant(node.args.get(part)) for part in ("expression", "fill_pattern"))
    side = "l" if node.args.get("is_left") else "r"
    return f"{side}pad({', '.join([writer.sql(node.this), *parts])})"


def _joined(writer: Values, node: exp.Expression) -> str:
    """CONCAT passes over NULL, as CONCAT_WS does."""
    if not {writer.value(part).type for part in node.expressions} <= {"TEXT", "NULL"}:
        raise Untranslatable("CONCAT of what is no text")
    apart = [exp.Literal.string("")] if type(node) is exp.Concat else []
    return writer.text(f"concat_ws({writer.sql([*apart, *node.expressions])})")


def _like(writer: Values, node: exp.Expression) -> str:
    pattern = node.args["expression"]
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Untranslatable("LIKE with a pattern that is no literal")
    # DuckDB's LIKE has no escape; here it is a sign that the pattern does not hold.
    said, sign = pattern.name, next((sign for sign in _ESCAPES if sign not in pattern.name), None)
    if sign is None:
        raise Untranslatable("LIKE with this pattern")
    if isinstance(node, exp.ILike):
        value = _cased("lower")(writer, node)
        said = said.translate(str.maketrans(*case_table("lower")))
    else:
        value = writer.sql(node.this)
    return f"({value} LIKE {writer.literal(said)} ESCAPE '{sign}')"


def _collated(writer: Values, node: exp.Expression) -> Typed:
    """By code point: as every text is here."""
    value = writer.value(node.this)
    if node.args["expression"].name != "C" or value.type not in ("TEXT", "NULL"):
        raise Untranslatable("COLLATE")
    return value


# ---- casts -------------------------------------------------------------------------------------


_ENDS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_UNIT = 1 << 40
_PLAIN = {
    **dict.fromkeys((*_WHOLE, "DECIMAL", "WIDE", "HASH"), ("DOUBLE", "HUGEINT", "TEXT")),
    "BOOLEAN": ("DOUBLE", "BIGINT", "TEXT"),
    "DATE": ("TIMESTAMP", "TEXT"),
    "TIMESTAMP": ("DATE", "TEXT"),
}
"""What is converted by CAST alone."""
_WRITTEN = re.compile("([0-9]{4}-[0-9]{2}-[0-9]{2})( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?")


def _cast(writer: Values, node: exp.Expression) -> Typed:
    to, operand = node.args["to"], node.this
    target = TYPES.get(to.this.name)
    if target is None:
        raise Untranslatable(f"CAST to {to.sql()}")
    if isinstance(operand, exp.Literal) and operand.is_string and target in ("DATE", "TIMESTAMP"):
        return Typed(_moment(writer, operand.name, target), target)
    value, stored = writer.value(operand), "BIGINT" if target in _ENDS else target
    if value.type == target:
        return value
    if value.type == "NULL" and stored in writer.types:
        return Typed(writer.cast("NULL", stored), stored)
    if value.type == "TEXT" and stored in ("DOUBLE", "DATE", "TIMESTAMP"):
        if not isinstance(operand.unnest(), exp.RegexpExtract | exp.DPipe):
            raise Untranslatable(f"CAST of text AS {target}")  # which no pattern has matched
        return Typed(writer.converted(value.sql, stored), stored)
    if stored == "BIGINT" and value.type in ("DOUBLE", "BIGINT"):
        return Typed(_within(writer, value, _ENDS[target]), stored)
    if (value.type, stored) == ("DOUBLE", "HUGEINT"):
        return Typed(writer.let(value.sql, lambda v: _huge(writer, v)), stored)
    if stored not in _PLAIN.get(value.type, ()):
        raise Untranslatable(f"CAST of {value.type} AS {target}")
    sql = f"CAST({value.sql} AS int)" if value.type == "BOOLEAN" and stored != "TEXT" else value.sql
    plain = writer.cast(sql, stored)
    return Typed(writer.text(plain) if stored == "TEXT" else plain, stored)


def _moment(writer: Values, said: str, target: str) -> str:
    """A date or an instant of a question: of the years 1 to 9999, or the beginning of 10000."""
    if said != "10000-01-01":
        found = _WRITTEN.fullmatch(said)
        if found is None or (target == "DATE" and found[2]):
            raise Untranslatable(f"CAST of text AS {target}")
        datetime.fromisoformat(said)
    return writer.moment(said, target)


def _within(writer: Values, value: Typed, bits: int) -> str:
    """A number as a whole one, a tie to the even one; NULL beyond the ends of a type."""
    if value.type == "BIGINT":
        ends = f"{writer.whole(-(1 << bits))} AND {writer.whole((1 << bits) - 1)}"
        return writer.let(value.sql, lambda v: f"(CASE WHEN {v} BETWEEN {ends} THEN {v} END)")
    low, high = writer.number(-(2.0**bits)), writer.number(2.0**bits)

    def held(v: str) -> str:
        inside = f"{v} >= {low} AND {v} < {high}"
        return f"(CASE WHEN {inside} THEN {writer.cast(v, 'BIGINT')} END)"

    return writer.let(writer.near(value.sql), held)


def _huge(writer: Values, v: str) -> str:
    """A whole double below 2^100 in 128 bits, exactly, by its upper and lower part.

    Engines convert the shortest decimal that is next to a double, which is another whole number.
    """
    parts = f"({v} / {_UNIT})"
    high = _FLOOR.format(v=parts, near=writer.near(parts))
    low = f"({v} - {high} * {_UNIT})"
    upper, lower = (f"CAST({writer.cast(part, 'BIGINT')} AS DECIMAL(20,0))" for part in (high, low))
    joined = f"({upper} * CAST({_UNIT} AS DECIMAL(14,0)) + {lower})"
    return writer.cast(joined, "HUGEINT")


# ---- dates and instants of the years 1 to 9999 -------------------------------------------------

_IN_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAY = 86_400_000_000
_MICROS = {"WEEK": 7 * _DAY, "DAY": _DAY}
_MICROS |= {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_BEFORE_1970 = 62_135_596_800_000_000  # microseconds from the beginning of the year 1


def _extract(writer: Values, node: exp.Expression) -> Typed:
    name, value = node.this.name.upper(), writer.value(node.args["expression"])
    match name:
        case "EPOCH" if value.type == "DATE":
            return Typed(f"({writer.cast(writer.days(value.sql), 'DOUBLE')} * 86400)", "DOUBLE")
        case "EPOCH":
            return Typed(f"({writer.cast(writer.micros(value.sql), 'DOUBLE')} / 1000000)", "DOUBLE")
        case "DECADE":
            sql = writer.divided(writer.part("YEAR", value.sql), "10")
        case "CENTURY":
            sql = writer.divided(f"({writer.part('YEAR', value.sql)} + 99)", "100")
        case _:
            sql = writer.part(name, value.sql)
    return Typed(sql, "BIGINT")


def _index(writer: Values, x: str, unit: str) -> str:
    """How many ends of a unit lie before a moment, from one that is the same for all."""
    match unit:
        case "YEAR":
            return writer.part("YEAR", x)
        case "QUARTER":
            return f"({writer.part('YEAR', x)} * 4 + {writer.part('QUARTER', x)})"
        case "MONTH":
            return f"({writer.part('YEAR', x)} * 12 + {writer.part('MONTH', x)})"
        case "DAY":
            return writer.days(x)
        case _:
            since = f"({writer.micros(x)} + {_BEFORE_1970})"
            return writer.divided(since, str(_MICROS[unit]))


def _date_diff(writer: Values, node: exp.Expression) -> str:
    end, start = writer.sql(node.this), writer.sql(node.args["expression"])
    unit = node.args["unit"].name.upper()
    own = "DAY" if unit == "WEEK" else unit  # of seven days since the start
    apart = f"({_index(writer, end, own)} - {_index(writer, start, own)})"
    return writer.divided(apart, "7") if unit == "WEEK" else apart


def _whole_units(
    writer: Values, start: object, end: object, unit: str, *, last_days: bool
) -> Typed:
    """How many whole units lie between two moments; negative backwards.

    last_days: a month is whole on its last day, however late in the month it was begun.
    """
    a, b = (writer.cast(writer.sql(one), "TIMESTAMP") for one in (start, end))
    if unit not in _IN_MONTHS:
        apart = f"({writer.micros(b)} - {writer.micros(a)})"
        return Typed(writer.divided(apart, str(_MICROS[unit])), "BIGINT")

    def between(x: str, y: str) -> str:
        begun, here = writer.part("DAY", x), writer.part("DAY", y)
        if last_days:
            last = f"{writer.days(writer.last_day(y))} = {writer.days(y)}"
            begun = f"(CASE WHEN {last} AND {here} < {begun} THEN {here} ELSE {begun} END)"
        clocks = [f"({writer.micros(v)} - {writer.days(v)} * {_DAY})" for v in (x, y)]
        early = f"{here} < {begun} OR ({here} = {begun} AND {clocks[1]} < {clocks[0]})"
        months = f"{_index(writer, y, 'MONTH')} - {_index(writer, x, 'MONTH')}"
        return f"({months} - (CASE WHEN {early} THEN 1 ELSE 0 END))"

    def signed(p: str, q: str) -> str:
        ends = {"x": f"(CASE WHEN {p} > {q} THEN {q} ELSE {p} END)"}
        ends["y"] = f"(CASE WHEN {p} > {q} THEN {p} ELSE {q} END)"
        sign = f"(CASE WHEN {p} > {q} THEN -1 WHEN {p} <= {q} THEN 1 END)"
        return f"({sign} * {writer.bind('bx', ends, between)})"

    months = writer.bind("bp", {"p": a, "q": b}, signed)
    return Typed(writer.divided(months, str(_IN_MONTHS[unit])), "BIGINT")


def _date_trunc(writer: Values, node: exp.Expression) -> str:
    value = writer.cast(writer.sql(node.this), "TIMESTAMP")
    return writer.truncated(value, node.args["unit"].name)


def _instant(writer: Values, node: exp.Expression) -> str:
    if node.args.get("scale") != exp.UnixToTime.MICROS:
        raise Untranslatable("an instant in other units than microseconds")
    return writer.instant(writer.sql(node.this))


def _moved(writer: Values, moment: object, step: exp.Interval) -> Typed:
    """A date or an instant and an interval: DuckDB gives an instant."""
    value = writer.cast(writer.sql(moment), "TIMESTAMP")
    amount, unit = int(step.this.unnest().sql()), step.args["unit"].name.upper()
    return Typed(writer.moved(value, amount, unit), "TIMESTAMP")


# ---- functions that the parser does not know ---------------------------------------------------


def _anonymous(writer: Values, node: exp.Expression) -> Typed:
    match node.name.lower(), node.expressions:
        case "date_sub", [unit, start, end]:
            return _whole_units(writer, start, end, unit.name.upper(), last_days=True)
        case "date_part", [
            exp.Literal(name="year"),
            exp.Anonymous(expressions=[later, earlier]) as age,
        ] if age.name.lower() == "age":  # only whole years of an age are asked for
            return _whole_units(writer, earlier, later, "YEAR", last_days=False)
        case "hash", [*values, high, low]:
            top = 1 << 63  # the ends are unsigned
            seed, salt = ((int(part.this.name) + top) % (2 * top) - top for part in (high, low))
            return Typed(writer.hashed(list(map(writer.value, values)), seed, salt), "HASH")
        case name, _:
            raise Untranslatable(name.upper())


COMMON: dict[type[object], Writing] = {
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.Bracket: _let,
    exp.StructExtract: _field,
    exp.Collate: _collated,
    exp.Extract: _extract,
    exp.Anonymous: _anonymous,
    exp.Coalesce: _one_of("coalesce"),
    exp.Least: _one_of("least"),
    exp.Greatest: _one_of("greatest"),
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Floor: rounded(_FLOOR),
    exp.Ceil: rounded(_CEILING),
    exp.Trunc: rounded(_TRUNCATED),
    exp.Round: rounded(_AWAY),
    exp.Window: _window,
    **forms(
        {
            "": {
                exp.Paren: "{this}",  # what is written binds as tightly
                exp.Neg: "(- {this})",
                exp.Abs: "abs({this})",
                exp.Min: "min({this})",
                exp.Max: "max({this})",
                exp.Filter: "{this} FILTER ({expression})",
            },
            "NULL": {exp.Null: "NULL"},
            "BOOLEAN": {
                exp.Where: "WHERE {this}",
                exp.Boolean: lambda _, node: "TRUE" if node.this else "FALSE",
                exp.EQ: "({this} = {expression})",
                exp.NEQ: "({this} <> {expression})",
                exp.LT: "({this} < {expression})",
                exp.LTE: "({this} <= {expression})",
                exp.GT: "({this} > {expression})",
                exp.GTE: "({this} >= {expression})",
                exp.Between: "({this} BETWEEN {low} AND {high})",
                exp.In: "({this} IN ({expressions}))",
                exp.Not: "(NOT {this})",
                exp.Is: _is,
                exp.And: _chain("AND"),
                exp.Or: _chain("OR"),
                exp.NullSafeNEQ: lambda w, node: f"(NOT {w.writers[exp.NullSafeEQ](w, node).sql})",
                exp.Like: _like,
                exp.ILike: _like,
            },
            "BIGINT": {
                exp.Count: _count,
                exp.RowNumber: "row_number()",
                exp.Rank: "rank()",
                exp.DenseRank: "dense_rank()",
                exp.Length: "CAST(length({this}) AS BIGINT)",
                exp.DateDiff: _date_diff,
            },
            "HUGEINT": {exp.Sum: _sum},
            "DOUBLE": {  # of curves the last bit is that of an engine's library
                exp.CumeDist: "cume_dist()",
                exp.PercentRank: "percent_rank()",
                exp.Div: "({this:double} / NULLIF({expression:double}, 0))",
                exp.Log: _logarithm,
                exp.Pow: "power({this:double}, {expression:double})",
                exp.Atan2: "atan2({this:double}, {expression:double})",
                **{
                    kind: f"{kind.__name__.lower()}({{this:double}})"
                    for kind in (
                        *(exp.Sign, exp.Sqrt, exp.Cbrt, exp.Ln, exp.Exp, exp.Sin, exp.Cos, exp.Tan),
                        *(exp.Asin, exp.Acos, exp.Atan),
                    )
                },
            },
            "TEXT": {
                exp.Lower: _cased("lower"),
                exp.Upper: _cased("upper"),
                exp.Trim: _trim,
                exp.Left: "left({this}, {expression:constant})",
                exp.Right: "right({this}, {expression:constant})",
                exp.Substring: "substr({this}, {start:constant}, {length:constant})",
                exp.SplitPart: "split_part({this}, {delimiter:constant}, {part_index:constant})",
                exp.Replace: "replace({this}, {expression}, {replacement})",
                exp.Pad: _pad,
                exp.Concat: _joined,
                exp.ConcatWs: _joined,
                exp.DPipe: _chain("||"),
                exp.Explode: _exploded,
            },
            "DATE": {exp.LastDay: "{this:last_day}"},
            "TIMESTAMP": {
                exp.TimestampTrunc: _date_trunc,
                exp.DateTrunc: _date_trunc,
                exp.UnixToTime: _instant,
            },
        }
    ),
}
"""By the node of the tree: what stands here and in no table of an engine is refused."""
