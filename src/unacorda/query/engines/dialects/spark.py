"""Questions in Spark SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import ClassVar

from sqlglot import exp

from unacorda.query.engines.dialects import statements
from unacorda.query.engines.dialects.values import COMMON, Typed, Values, forms

_PARTS = {"ISODOW": "DOW_ISO", "ISOYEAR": "YEAROFWEEK"}


def quoted(name: str) -> str:
    """A name as a Spark identifier.

    >>> quoted("a`b c")
    '`a``b c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _shifted(writer: Values, node: exp.Expression) -> str:
    value, by = writer.value(node.this), writer.sql(node.args["expression"])
    name = "shiftrightunsigned" if value.type == "HASH" else "shiftright"
    return f"{name}({value.sql}, CAST({by} AS INT))"


class _Spark(Values):
    writers = COMMON | forms(
        {
            "DOUBLE": {exp.Mod: "try_mod({this:double}, {expression:double})"},
            # Of decimals DIV gives 64 bits, which hold whatever is divided here.
            "HUGEINT": {exp.IntDiv: "CAST(({this} DIV {expression}) AS DECIMAL(38,0))"},
            "BIGINT": {exp.BitwiseRightShift: _shifted, exp.StrPosition: "instr({this}, {substr})"},
            "TEXT": {
                exp.RegexpExtract: (
                    "regexp_extract({this}, {expression:constant}, {group:constant})"
                ),
                exp.Dayname: "date_format({this}, 'EEEE')",
                exp.Monthname: "date_format({this}, 'MMMM')",
            },
            "BOOLEAN": {
                exp.NullSafeEQ: "({this} <=> {expression})",
                exp.IsNan: "({this:double} = CAST('NaN' AS DOUBLE))",
                exp.StartsWith: "startswith({this}, {expression})",
                exp.EndsWith: "endswith({this}, {expression})",
                exp.Contains: "contains({this}, {expression})",
            },
        }
    )
    types: ClassVar = {
        "DOUBLE": "DOUBLE",
        "BIGINT": "BIGINT",
        "HUGEINT": "DECIMAL(38,0)",
        "TEXT": "STRING",
        "BOOLEAN": "BOOLEAN",
        "DATE": "DATE",
        "TIMESTAMP": "TIMESTAMP_NTZ",
    }
    quoted = staticmethod(quoted)
    near = "rint({})".format
    divided = "({} DIV {})".format
    days = "CAST(unix_date(CAST({} AS DATE)) AS BIGINT)".format
    micros = "unix_micros(CAST({} AS TIMESTAMP))".format
    instant = "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)".format
    truncated = "CAST(date_trunc('{1}', CAST({0} AS TIMESTAMP)) AS TIMESTAMP_NTZ)".format
    last_day = "last_day(CAST({} AS DATE))".format
    moved = "timestampadd({2}, {1}, {0})".format
    count_distinct = "count(DISTINCT {})".format
    total = "sum(CAST({} AS DECIMAL(38,0)))".format
    text = str

    def literal(self, text: str) -> str:
        r"""Text as a Spark literal.

        >>> print(_Spark().literal("it's"), _Spark().literal("a\\b"))
        'it\'s' 'a\\b'
        """
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def number(self, value: float) -> str:
        return f"({value!r}D)" if value < 0 else f"{value!r}D"

    def whole(self, value: int) -> str:
        size = abs(value + (value < 0))
        mark = "" if size < 1 << 31 else "L" if size < 1 << 63 else "BD"
        return f"({value}{mark})" if value < 0 else f"{value}{mark}"

    def moment(self, iso: str, kind: str) -> str:
        sign = "+" if len(iso.partition("-")[0]) > len("9999") else ""
        return f"{self.types[kind]}'{sign}{iso}'"

    def parameter_table(self, parameters: str, _: Sequence[str]) -> str:
        return quoted(parameters)

    def bound(self, name: str, fields: Mapping[str, str], body: str) -> str:
        listed = ", ".join(f"'{field}', {value}" for field, value in fields.items())
        return f"transform(array(named_struct({listed})), {name} -> {body})[0]"

    def exploded(self, text: str, separator: str, most: int) -> str:
        # Spark's separator is a regular expression: here one that stands for itself.
        itself = self.literal("\\Q" + separator.replace("\\E", "\\E\\\\E\\Q") + "\\E")
        return f"explode(slice(split({text}, {itself}, -1), 1, {most}))"

    def converted(self, text: str, kind: str) -> str:
        return f"TRY_CAST({text} AS {self.types[kind]})"

    def part(self, name: str, moment: str) -> str:
        match name:
            case "SECOND":
                return f"CAST(floor(extract(SECOND FROM {moment})) AS BIGINT)"
            case "DOW":
                return f"(CAST(extract(DOW FROM {moment}) AS BIGINT) - 1)"
            case _:
                return f"CAST(extract({_PARTS.get(name, name)} FROM {moment}) AS BIGINT)"

    def hashed(self, values: Sequence[Typed], seed: int, salt: int) -> str:
        # The salt seeds all that follows.
        listed = [self.whole(seed), self.whole(salt), *(value.sql for value in values)]
        return f"xxhash64({', '.join(listed)})"


translate = functools.partial(statements.translate, dialect=_Spark())
"""A statement in Spark SQL; parameters: the view with its lists, p1, p2, ..., and `row`."""
