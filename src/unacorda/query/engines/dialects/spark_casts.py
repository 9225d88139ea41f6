"""Casts, dates and instants as Spark writes them.

Dates and instants in Spark: days of the Gregorian calendar, and instants in UTC without a zone.

What DuckDB counts by ends of units, Spark counts from the beginnings of units.

Conversions in Spark: what DuckDB reads out of a text or rounds to a whole number, exactly.

The engines read different texts as numbers ("1d" is one to Spark, "1_000" to DuckDB), dates
("2024" is one to Spark, "2024/01/31" to DuckDB) and truth. So a text is first compared with what
DuckDB reads, by regular expressions without nested repetition, and then written as Spark reads it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

import duckdb
from sqlglot import exp

from unacorda.query.engines.dialects.spark_functions import bound, finite, floor, literal
from unacorda.query.engines.dialects.typed import (
    Refused,
    Typed,
    Untranslatable,
    Writer,
    Writing,
    text_to_boolean,
)
from unacorda.query.engines.dialects.values import TYPES

__all__ = [
    "ANONYMOUS",
    "CASTS",
    "MOMENTS",
]

_PLAIN_PARTS = {
    **{part: part for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY")},
    **{part: part for part in ("HOUR", "MINUTE")},
    "ISODOW": "DOW_ISO",
    "ISOYEAR": "YEAROFWEEK",
}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


def _micros(value: Typed) -> str:
    """Microseconds since the beginning of 1970, in UTC."""
    return f"unix_micros(CAST({value.sql} AS TIMESTAMP))"


def _extract(writer: Writer, node: exp.Expression) -> Typed:
    part, value = node.this.name.upper(), writer.value(node.args["expression"])
    x = f"(CASE WHEN {finite(value)} THEN {value.sql} END)"
    match part:
        case "EPOCH":
            if value.type == "DATE":
                return Typed(f"(CAST(unix_date({x}) AS DOUBLE) * 86400D)", "DOUBLE")
            return Typed(f"(CAST({_micros(Typed(x, value.type))} AS DOUBLE) / 1000000D)", "DOUBLE")
        case "SECOND":
            return Typed(f"CAST(floor(extract(SECOND FROM {x})) AS BIGINT)", "BIGINT")
        case "DOW":
            return Typed(f"(CAST(extract(DOW FROM {x}) AS BIGINT) - 1)", "BIGINT")
        case "DECADE":
            return Typed(f"CAST(extract(YEAR FROM {x}) AS BIGINT) DIV 10", "BIGINT")
        case "CENTURY":
            found = bound(
                f"CAST(extract(YEAR FROM {x}) AS BIGINT)",
                lambda y: (
                    f"(CASE WHEN {y} > 0 THEN ({y} - 1) DIV 100 + 1 ELSE {y} DIV 100 - 1 END)"
                ),
            )
            return Typed(found, "BIGINT")
        case _ if part in _PLAIN_PARTS:
            return Typed(f"CAST(extract({_PLAIN_PARTS[part]} FROM {x}) AS BIGINT)", "BIGINT")
        case _:
            raise Untranslatable(f"EXTRACT({part})")


def _index(value: Typed, unit: str) -> str:
    """How many ends of a unit lie before a moment, from one that is the same for all."""
    days = f"unix_date(CAST({value.sql} AS DATE))"
    year, month = (
        f"CAST(extract({part} FROM {value.sql}) AS BIGINT)" for part in ("YEAR", "MONTH")
    )
    match unit:
        case "YEAR":
            return year
        case "QUARTER":  # towards 0, as DuckDB counts before Christ
            return f"(({year} * 12 + {month} - 1) DIV 3)"
        case "MONTH":
            return f"({year} * 12 + {month})"
        case "DAY":
            return f"CAST({days} AS BIGINT)"
        case _:
            micros, size = _micros(value), f"{_MICROS[unit]}L"
            return f"(({micros} - pmod({micros}, {size})) DIV {size})"


def _date_diff(writer: Writer, node: exp.Expression) -> Typed:
    end, start = writer.value(node.this), writer.value(node.args["expression"])
    unit = node.args["unit"].name.upper()
    held = " AND ".join(finite(value) for value in (start, end))
    if unit == "WEEK":  # of seven days since the start
        counted = f"(({_index(end, 'DAY')} - {_index(start, 'DAY')}) DIV 7)"
    else:
        counted = f"({_index(end, unit)} - {_index(start, unit)})"
    return Typed(f"(CASE WHEN {held} THEN {counted} END)", "BIGINT")


def _whole_units(start: Typed, end: Typed, unit: str, *, last_days: bool) -> str:
    """How many whole units lie between two moments; negative backwards.

    last_days: a month is whole on its last day, however late in the month it was begun.
    """
    if unit in ("YEAR", "QUARTER", "MONTH"):
        months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}[unit]
        return f"({_months(start, end, last_days=last_days)} DIV {months})"
    apart = " - ".join(
        _micros(Typed(f"CAST({value.sql} AS TIMESTAMP_NTZ)", "TIMESTAMP")) for value in (end, start)
    )
    size = {"WEEK": 604_800_000_000, "DAY": 86_400_000_000, **_MICROS}[unit]
    return f"(({apart}) DIV {size}L)"


def _months(start: Typed, end: Typed, *, last_days: bool) -> str:
    a, b = (f"CAST({value.sql} AS TIMESTAMP_NTZ)" for value in (start, end))
    month = "CAST(year({0}) AS BIGINT) * 12 + month({0})"
    clock = "pmod(unix_micros(CAST({0} AS TIMESTAMP)), 86400000000L)"
    begun = "day(p.a)"
    if last_days:
        last = "last_day(CAST(p.b AS DATE)) = CAST(p.b AS DATE)"
        begun = f"CASE WHEN {last} THEN least({begun}, day(p.b)) ELSE {begun} END"
    earlier = f"{clock.format('p.b')} < {clock.format('p.a')}"
    early = f"day(p.b) < {begun} OR (day(p.b) = {begun} AND {earlier})"
    counted = (
        f"(({month.format('p.b')}) - ({month.format('p.a')}) - CASE WHEN {early} THEN 1 ELSE 0 END)"
    )
    pair = "named_struct('a', least(q.a, q.b), 'b', greatest(q.a, q.b))"
    known = "q.a IS NOT NULL AND q.b IS NOT NULL"
    signed = f"CASE WHEN q.a > q.b THEN -1 ELSE 1 END * transform(array({pair}), p -> {counted})[0]"
    return (
        f"transform(array(named_struct('a', {a}, 'b', {b})), "
        f"q -> CASE WHEN {known} THEN {signed} END)[0]"
    )


def _date_sub(writer: Writer, node: exp.Expression) -> Typed:
    unit, start, end = node.expressions
    found = _whole_units(writer.value(start), writer.value(end), unit.name.upper(), last_days=True)
    return Typed(found, "BIGINT")


def _date_part(writer: Writer, node: exp.Expression) -> Typed:
    """Only whole years of an age are asked for."""
    part, age = node.expressions
    if part.name != "year" or not isinstance(age, exp.Anonymous) or age.name.lower() != "age":
        raise Untranslatable("DATE_PART")
    later, earlier = (writer.value(operand) for operand in age.expressions)
    return Typed(_whole_units(earlier, later, "YEAR", last_days=False), "BIGINT")


def _date_trunc(writer: Writer, node: exp.Expression) -> Typed:
    value, unit = writer.value(node.this), node.args["unit"].name.upper()
    cut = f"CAST(date_trunc('{unit}', CAST({value.sql} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"
    return Typed(cut, "TIMESTAMP")


def _moved(writer: Writer, node: exp.Expression) -> Typed:
    """A date or an instant and an interval: DuckDB gives an instant."""
    value, step = writer.value(node.this), node.args["expression"]
    amount, unit = step.this.unnest().sql(), step.args["unit"].name.upper()
    moved = f"timestampadd({unit}, {amount}, CAST({value.sql} AS TIMESTAMP_NTZ))"
    return Typed(moved, "TIMESTAMP")


def _last_day(writer: Writer, node: exp.Expression) -> Typed:
    return Typed(f"last_day(CAST({writer.value(node.this).sql} AS DATE))", "DATE")


def _named(part: str, names: tuple[str, ...]) -> Writing:
    listed = ", ".join(f"'{name}'" for name in names)

    def write(writer: Writer, node: exp.Expression) -> Typed:
        number = f"extract({part} FROM {writer.value(node.this).sql})"
        return Typed(f"elt({number}, {listed})", "TEXT")

    return write


def _of_micros(writer: Writer, node: exp.Expression) -> Typed:
    """Microseconds since the beginning of 1970, as an instant."""
    micros = writer.value(node.this).sql
    return Typed(f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)", "TIMESTAMP")


def _finite(writer: Writer, node: exp.Expression) -> Typed:
    (operand,) = node.expressions
    return Typed(finite(writer.value(operand)), "BOOLEAN")


ANONYMOUS: dict[str, Writing] = {
    "isfinite": _finite,
    "date_sub": _date_sub,
    "date_part": _date_part,
    "try_strptime": Refused("TRY_STRPTIME"),
}
"""By the name of a function that the parser does not know."""

MOMENTS: dict[type[object], Writing] = {
    exp.Extract: _extract,
    exp.DateDiff: _date_diff,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.LastDay: _last_day,
    exp.Dayname: _named("DOW", _DAYS),
    exp.Monthname: _named("MONTH", _MONTHS),
    exp.UnixToTime: _of_micros,
    exp.TimeToStr: Refused("STRFTIME"),
    exp.StrToTime: Refused("TRY_STRPTIME"),
}
"""By the node of the tree."""

INTERVALS: Writing = _moved
"""A sum with an interval."""


_SPACE = r"[ \t\n\x0B\f\r]*"
_PLAIN_NUMBER = rf"\A{_SPACE}\+?-?([0-9_]+\.?[0-9_]*|\.[0-9_]+)([eE][+-]?[0-9_]+)?{_SPACE}\z"
_LOST_MARK = r"(\A|[^0-9])_|_([^0-9]|\z)"
_NO_NUMBER = rf"(?i)\A{_SPACE}\+?-?(nan|inf|infinity){_SPACE}\z"
_ENDS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}

_DAY = rf"\A{_SPACE}(-?)([0-9]+)([-/ \\])([0-9]{{1,2}})\3([0-9]{{1,2}})(?![0-9])(?i:( \(BC\))?)"
_TOO_LATE = r"(?!0*24:(?!0?0(?::0?0(?:\.(?:0{0,5}(?![0-9])|0{6}[0-9]*))?)?(?![0-9:.])))"
_ZONE = r"(?: ?[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?|Z)?"
_CLOCK = (
    rf"T?{_SPACE}{_TOO_LATE}0*([0-9]|1[0-9]|2[0-4]):([0-5]?[0-9])"
    rf"(?::([0-5]?[0-9])(?:\.([0-9]*))?)?(?:{_ZONE}{_SPACE}| [A-Za-z0-9_/+-]*{_SPACE})"
)
_INFINITE = rf"(?i)\A{_SPACE}-?(infinity{_SPACE}|inf)\z"
_EPOCH = rf"(?i)\A{_SPACE}epoch{_SPACE}\z"


def _cast(writer: Writer, node: exp.Expression) -> Typed:
    to = node.args["to"]
    target = TYPES.get(to.this.name)
    operand = node.this
    if target is None:
        raise Untranslatable(f"CAST to {to.sql()}")
    if isinstance(operand, exp.Literal) and operand.is_string and target in ("DATE", "TIMESTAMP"):
        return _constant(operand.name, target)
    if target == "UBIGINT" and isinstance(operand, exp.Literal):
        whole = int(operand.name)
        return Typed(f"{whole - (1 << 64) if whole >= 1 << 63 else whole}L", "BIGINT")
    value = writer.value(operand)
    if value.type == target:
        return value
    if value.type == "NULL":
        return Typed(f"CAST(NULL AS {_SPARK[target]})", _stored(target))
    write = _FROM.get((value.type, target)) or _FROM.get((value.type, _stored(target)))
    if write is None:
        raise Untranslatable(f"CAST of {_WORDS.get(value.type, value.type)} AS {_name(target)}")
    return Typed(write(value.sql, target), _stored(target))


_WORDS = {"TEXT": "text", "DOUBLE": "a number", "DATE": "a date", "TIMESTAMP": "an instant"}


def _name(target: str) -> str:
    return "VARCHAR" if target == "TEXT" else target


def _stored(target: str) -> str:
    """The types that are distinguished further up."""
    return "BIGINT" if target in _ENDS else target


_SPARK = {
    "DOUBLE": "DOUBLE",
    "BIGINT": "BIGINT",
    **dict.fromkeys(_ENDS, "BIGINT"),
    "HUGEINT": "DECIMAL(38,0)",
    "TEXT": "STRING",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}


def _constant(text: str, target: str) -> Typed:
    """A date or an instant that this package wrote: ISO 8601."""
    sign = "+" if len(text.partition("-")[0]) > 4 else ""
    return Typed(f"{_SPARK[target]}'{sign}{text}'", target)


def _plain(sql: str, target: str) -> str:
    return f"CAST({sql} AS {_SPARK[target]})"


def _near(x: str, target: str) -> str:
    """A double as the next whole number, ties to even; NULL beyond the type's ends."""
    end = f"{2 ** _ENDS[target]}D"

    def inside(v: str) -> str:
        held = f"rint({v}) >= -{end} AND rint({v}) < {end}"
        return f"(CASE WHEN {held} THEN CAST(rint({v}) AS BIGINT) END)"

    return bound(x, inside)


def _within(x: str, target: str) -> str:
    end = 2 ** _ENDS[target]
    return bound(x, lambda v: f"(CASE WHEN {v} BETWEEN -{end}L AND {end - 1}L THEN {v} END)")


def _huge(x: str, target: str) -> str:
    """A whole double below 2^100 as a decimal of 38 digits, exactly, by its upper and lower part.

    Spark's own conversion takes the double's shortest decimal, which is another whole number.
    """
    del target

    def joined(v: str) -> str:
        high = floor(f"({v} / 1099511627776D)")
        low = f"({v} - {high} * 1099511627776D)"
        parts = [f"CAST(CAST({part} AS BIGINT) AS DECIMAL(20,0))" for part in (high, low)]
        return f"CAST({parts[0]} * 1099511627776BD + {parts[1]} AS DECIMAL(38,0))"

    return f"transform(array({x}), h -> {joined('h')})[0]"


def _wide_to_double(x: str, target: str) -> str:
    """A whole decimal of more than 18 digits as DuckDB makes it: of two halves of 64 bits.

    The halves of numbers below 0 are rounded by themselves, so that it is not the next double.
    """
    del target

    def joined(v: str) -> str:
        rest, unit = f"({v} % 18446744073709551616BD)", "18446744073709551616BD"
        low = f"({rest} + CASE WHEN {rest} < 0 THEN {unit} ELSE 0BD END)"
        high = f"({v} DIV {unit} - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)"
        halves = f"CAST({high} AS DOUBLE) * 18446744073709551616D + CAST({low} AS DOUBLE)"
        near = f"{v} < 0 AND {v} >= -18446744073709551616BD"
        return f"(CASE WHEN {near} THEN - CAST(- {v} - 1 AS DOUBLE) - 1D ELSE {halves} END)"

    return bound(f"CAST({x} AS DECIMAL(38,0))", joined)


def _text_to_double(x: str, target: str) -> str:
    del target
    plain, lost, other = (literal(p) for p in (_PLAIN_NUMBER, _LOST_MARK, _NO_NUMBER))
    clean = literal("_+ \t\n\x0b\x0c\r")

    def read(v: str) -> str:
        return (
            f"(CASE WHEN {v} RLIKE {plain} AND NOT {v} RLIKE {lost} "
            f"THEN TRY_CAST(translate({v}, {clean}, '') AS DOUBLE) "
            f"WHEN {v} RLIKE {other} THEN CASE WHEN {v} RLIKE '(?i)nan' THEN CAST('NaN' AS DOUBLE) "
            f"WHEN contains({v}, '-') THEN CAST('-Infinity' AS DOUBLE) "
            "ELSE CAST('Infinity' AS DOUBLE) END END)"
        )

    return bound(x, read)


def _text_to_boolean(x: str, target: str) -> str:
    del target
    return text_to_boolean(x, bound)


def _text_to_date(x: str, target: str) -> str:
    del target

    def read(v: str) -> str:
        day = _moment(v, rf"{_DAY}{_SPACE}\z", clock=False)
        both = _moment(v, rf"{_DAY}{_CLOCK}\z", clock=False)
        infinite = f"date_from_unix_date({_signed(v, '2147483647')})"
        return _told_apart(v, day, both, infinite, "DATE'1970-01-01'")

    return bound(x, read)


def _text_to_timestamp(x: str, target: str) -> str:
    del target

    def read(v: str) -> str:
        day = _moment(v, rf"{_DAY}\z", clock=False)
        whole = (_date_to_timestamp(day[0], "TIMESTAMP"), day[1])
        both = _moment(v, rf"{_DAY}{_CLOCK}\z", clock=True)
        infinite = _instant(_signed(v, "9223372036854775807L"))
        return _told_apart(v, whole, both, infinite, _instant("0L"))

    return bound(x, read)


def _told_apart(
    v: str, day: tuple[str, str], both: tuple[str, str], infinite: str, epoch: str
) -> str:
    """What a text says, by which of the patterns it is in."""
    return (
        f"(CASE WHEN {v} RLIKE {day[1]} THEN {day[0]} WHEN {v} RLIKE {both[1]} THEN {both[0]} "
        f"WHEN {v} RLIKE {literal(_INFINITE)} THEN {infinite} "
        f"WHEN {v} RLIKE {literal(_EPOCH)} THEN {epoch} END)"
    )


def _signed(v: str, number: str) -> str:
    return f"CASE WHEN contains({v}, '-') THEN -{number} ELSE {number} END"


def _instant(micros: str) -> str:
    return f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"


def _moment(v: str, pattern: str, *, clock: bool) -> tuple[str, str]:
    """SQL of the moment that a text says, and the literal of the pattern that it must be in."""
    written = literal(pattern)
    digits = f"ltrim('0', regexp_extract({v}, {written}, 2))"
    fields = {
        "y": f"CASE WHEN length({digits}) <= 7 THEN CAST(concat('0', {digits}) AS INT) END",
        "n": f"regexp_extract({v}, {written}, 1) = '-'",
        "b": f"regexp_extract({v}, {written}, 6) <> ''",
        "m": f"regexp_extract({v}, {written}, 4)",
        "d": f"regexp_extract({v}, {written}, 5)",
    }
    if clock:
        fields |= {
            name: f"CAST(concat('0', regexp_extract({v}, {written}, {group})) AS BIGINT)"
            for name, group in (("h", 7), ("i", 8), ("s", 9))
        }
        fields["f"] = f"CAST(rpad(left(regexp_extract({v}, {written}, 10), 6), 6, '0') AS BIGINT)"
    made = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    # A year before Christ has no sign beside.
    year = "CASE WHEN d.n AND d.b THEN NULL WHEN d.n THEN -d.y WHEN d.b THEN 1 - d.y ELSE d.y END"
    found = f"transform(array({year}), y -> {_written('y', 'd.m', 'd.d')})[0]"
    if clock:
        micros = "((d.h * 60L + d.i) * 60L + d.s) * 1000000L + d.f"
        days = f"CAST(unix_date({found}) AS BIGINT)"
        # Before 1970 from the end of the day: its beginning may lie before all instants.
        shift = "CASE WHEN k < 0 THEN 1L ELSE 0L END"
        part = f"{micros} - ({shift}) * 86400000000L"
        whole = f"try_add(try_multiply(k + {shift}, 86400000000L), {part})"
        whole = f"transform(array({days}), k -> {whole})[0]"
        held = f"m >= {_FIRST_MICROS} AND m < 9223372036854775807L"
        inside = f"CASE WHEN {held} THEN {_instant('m')} END"
        found = f"transform(array({whole}), m -> {inside})[0]"
    return f"transform(array(named_struct({made})), d -> {found})[0]", written


_FIRST_MICROS = (
    "-9223372022400000000L" if duckdb.__version__ == "2.0.0" else "-9223372036854775806L"
)
"""The first instant that DuckDB reads from a text: in its 2.0.0 the beginning of a day."""


def _written(year: str, month: str, day: str) -> str:
    """A date as Spark reads it: a sign, at least four digits, month and day."""
    size = f"CAST(abs({year}) AS STRING)"
    digits = f"lpad({size}, greatest(4, length({size})), '0')"
    sign = f"CASE WHEN {year} < 0 THEN '-' ELSE '+' END"
    date = f"TRY_CAST(concat({sign}, {digits}, '-', {month}, '-', {day}) AS DATE)"
    # The ends of Spark's days are no days to DuckDB.
    inside = "abs(CAST(unix_date(w) AS BIGINT)) < 2147483647L"
    return f"transform(array({date}), w -> CASE WHEN {inside} THEN w END)[0]"


def _date_to_timestamp(x: str, target: str) -> str:
    """The beginning of a day that an instant can hold, else NULL; an end of time stays one."""
    del target
    held = "{0} BETWEEN DATE'-290308-12-22' AND DATE'+294247-01-10'"
    endless = "abs(CAST(unix_date({0}) AS BIGINT)) = 2147483647L"
    end = _instant(
        "CASE WHEN unix_date({0}) < 0 THEN -9223372036854775807L ELSE 9223372036854775807L END"
    )

    def found(v: str) -> str:
        plain = f"CAST({v} AS TIMESTAMP_NTZ)"
        return (
            f"(CASE WHEN {held.format(v)} THEN {plain} "
            f"WHEN {endless.format(v)} THEN {end.format(v)} END)"
        )

    return bound(x, found)


def _timestamp_to_date(x: str, target: str) -> str:
    del target

    def found(v: str) -> str:
        end = f"CASE WHEN year({v}) < 0 THEN -2147483647 ELSE 2147483647 END"
        return (
            f"(CASE WHEN {finite(Typed(v, 'TIMESTAMP'))} THEN CAST({v} AS DATE) "
            f"WHEN {v} IS NOT NULL THEN date_from_unix_date({end}) END)"
        )

    return bound(x, found)


def _text_of(kind: str) -> Callable[[str, str], str]:
    """A date or an instant as text: in the years 1 to 9999 both engines write alike."""

    def write(x: str, target: str) -> str:
        del target

        def written(v: str) -> str:
            plain, year = f"CAST({v} AS STRING)", f"year({v})"
            before = f"CAST(1 - {year} AS STRING)"
            day = f"right(CAST(CAST({v} AS DATE) AS STRING), 6)"
            clock = f"regexp_extract({plain}, '( .*)$', 1)"
            digits = f"lpad({before}, greatest(4, length({before})), '0')"
            early = f"concat({digits}, {day}, ' (BC)', {clock})"
            endless = f"CASE WHEN {year} < 0 THEN '-infinity' ELSE 'infinity' END"
            return (
                f"(CASE WHEN NOT {finite(Typed(v, kind))} THEN {endless} "
                f"WHEN {year} < 1 THEN {early} ELSE ltrim('+', {plain}) END)"
            )

        return bound(x, written)

    return write


_FROM = {
    ("BIGINT", "DOUBLE"): _plain,
    ("HUGEINT", "DOUBLE"): _plain,
    ("HASH", "DOUBLE"): _plain,
    ("DECIMAL", "DOUBLE"): _plain,
    ("WIDE", "DOUBLE"): _wide_to_double,
    ("BOOLEAN", "DOUBLE"): _plain,
    ("TEXT", "DOUBLE"): _text_to_double,
    **{("DOUBLE", name): _near for name in _ENDS},
    **{("BIGINT", name): _within for name in _ENDS},
    ("BOOLEAN", "BIGINT"): _plain,
    ("DOUBLE", "HUGEINT"): _huge,
    ("BIGINT", "HUGEINT"): _plain,
    ("BIGINT", "TEXT"): _plain,
    ("HUGEINT", "TEXT"): _plain,
    ("DECIMAL", "TEXT"): _plain,
    ("WIDE", "TEXT"): _plain,
    ("BOOLEAN", "TEXT"): _plain,
    ("DATE", "TEXT"): _text_of("DATE"),
    ("TIMESTAMP", "TEXT"): _text_of("TIMESTAMP"),
    ("TEXT", "BOOLEAN"): _text_to_boolean,
    ("TEXT", "DATE"): _text_to_date,
    ("TEXT", "TIMESTAMP"): _text_to_timestamp,
    ("DATE", "TIMESTAMP"): _date_to_timestamp,
    ("TIMESTAMP", "DATE"): _timestamp_to_date,
}

CASTS: dict[type[object], Writing] = {exp.Cast: _cast, exp.TryCast: _cast}
"""By the node of the tree."""
