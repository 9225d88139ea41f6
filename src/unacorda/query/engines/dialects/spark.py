"""Questions in Spark SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Mapping

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.moments import NAMED
from unacorda.query.engines.dialects.statements import COMMON
from unacorda.query.engines.dialects.typed import Dialect, Typed, Values, form, form_of_doubles

__all__ = [
    "quoted",
    "translate",
]

_SALT_PARTS = 2
_PARTS = {"ISODOW": "DOW_ISO", "ISOYEAR": "YEAROFWEEK"}


def quoted(name: str) -> str:
    """A name as a Spark identifier.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    r"""Text as a Spark literal.

    >>> print(_literal("it's"), _literal("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _bound_fields(fields: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({listed})"


def _exploded(text: str, separator: str, most: int) -> str:
    # Spark's separator is a regular expression: here one that stands for itself.
    itself = _literal("\\Q" + separator.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    return f"explode(slice(split({text}, {itself}, -1), 1, {most}))"


def _shifted(writer: Values, node: exp.Expression) -> Typed:
    value, by = writer.value(node.this), writer.value(node.args["expression"])
    name = "shiftrightunsigned" if value.type == "HASH" else "shiftright"
    return Typed(f"{name}({value.sql}, CAST({by.sql} AS INT))", "BIGINT")


def _hash(writer: Values, node: exp.Expression) -> Typed:
    parts = [writer.value(part).sql for part in node.expressions]
    salted = parts[-_SALT_PARTS:] + parts[:-_SALT_PARTS]  # the salt seeds all that follows
    return Typed(f"xxhash64({', '.join(salted)})", "HASH")


def _number(value: float) -> str:
    return f"({value!r}D)" if value < 0 else f"{value!r}D"


def _moment(iso: str, kind: str) -> str:
    sign = "+" if len(iso.partition("-")[0]) > len("9999") else ""
    return f"{_TYPES[kind]}'{sign}{iso}'"


def _whole(value: int) -> str:
    size = abs(value + (value < 0))
    mark = "" if size < 1 << 31 else "L" if size < 1 << 63 else "BD"
    return f"({value}{mark})" if value < 0 else f"{value}{mark}"


def _pattern_group(text: str, pattern: str, group: int) -> str:
    return f"regexp_extract({text}, {_literal(pattern)}, {group})"


def _part(name: str, moment: str) -> str:
    match name:
        case "SECOND":
            return f"CAST(floor(extract(SECOND FROM {moment})) AS BIGINT)"
        case "DOW":
            return f"(CAST(extract(DOW FROM {moment}) AS BIGINT) - 1)"
        case _:
            return f"CAST(extract({_PARTS.get(name, name)} FROM {moment}) AS BIGINT)"


_TYPES = {
    "DOUBLE": "DOUBLE",
    "BIGINT": "BIGINT",
    "HUGEINT": "DECIMAL(38,0)",
    "TEXT": "STRING",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
_SPARK = Dialect(
    types=_TYPES,
    writers={
        **COMMON,
        exp.Mod: form_of_doubles("try_mod({}, {})", "this", "expression"),
        exp.BitwiseRightShift: _shifted,
        exp.StrPosition: form("instr({}, {})", "BIGINT", "this", "substr"),
        exp.StartsWith: form("startswith({}, {})", "BOOLEAN", "this", "expression"),
        exp.EndsWith: form("endswith({}, {})", "BOOLEAN", "this", "expression"),
        exp.Contains: form("contains({}, {})", "BOOLEAN", "this", "expression"),
    },
    named={"hash": _hash, **NAMED},
    qualified=False,
    semi_joins=True,
    nameless=True,
    by_place=False,
    quoted=quoted,
    literal=_literal,
    number=_number,
    whole=_whole,
    moment=_moment,
    parameter_table=lambda parameters, _: quoted(parameters),
    bound="transform(array({}), {} -> {})[0]".format,
    bound_value=str,
    bound_name=str,
    bound_fields=_bound_fields,
    exploded=_exploded,
    converted=lambda text, kind: f"TRY_CAST({text} AS {_TYPES[kind]})",
    pattern_group=_pattern_group,
    trimmed="trim({2} {1} FROM {0})".format,
    near="rint({})".format,
    divided="({} DIV {})".format,
    part=_part,
    days="CAST(unix_date(CAST({} AS DATE)) AS BIGINT)".format,
    micros="unix_micros(CAST({} AS TIMESTAMP))".format,
    instant="CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)".format,
    truncated="CAST(date_trunc('{1}', CAST({0} AS TIMESTAMP)) AS TIMESTAMP_NTZ)".format,
    moved="timestampadd({2}, {1}, {0})".format,
    last_day="last_day(CAST({} AS DATE))".format,
    same=lambda a, b: f"({a.sql} <=> {b.sql})",
    count_distinct=lambda parts: f"count(DISTINCT {', '.join(parts)})",
    total="sum(CAST({} AS DECIMAL(38,0)))".format,
    text=str,
)

translate = functools.partial(statements.translate, dialect=_SPARK)
"""A statement in Spark SQL; parameters: the view with its lists, p1, p2, ..., and `row`."""
