"""Numbers: arithmetic, rounding, roots and curves; and dates.

Each operation is written in DuckDB, made total, and bounded. Operands are neither NaN nor infinite,
and no result is: an operation whose result could leave the doubles sees its operands held to the
sizes that numbers have (`values.kept`). What has no value there is NULL: quotients by 0, roots of
negative numbers, logarithms at or below 0; the operand is guarded, never the call.

Dates and instants lie in the years 1 to 9999, as do the results of operations on them. An operand
that an operation would take out of these years is NULL to it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from unacorda.query.expressions import ranges
from unacorda.query.expressions.language import Kind, Literal, Operation, double, literal
from unacorda.query.expressions.ranges import LARGEST, PLAIN, Range, Size
from unacorda.query.expressions.values import (
    KindMismatch,
    Rule,
    Value,
    any_nullable,
    described,
    each,
    extracted,
    form,
    guarded,
    held,
    in_years,
    kept,
    let,
    number,
    numeric,
    of_kind,
    of_one_kind,
)

_DOUBLES = Size(1e-300, 1e300)
"""Within the normal doubles, with room for what computing them errs."""
_NEARLY = 1 + 2.0**-40
_NOT_ZERO = "{0} <> 0e0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A function of one number or two.

    sql: with {0} and {1} for the numbers, {name} for the operation; defined: where it has a value,
    a condition on the last of them; range, size: of the result, from those of the numbers; whole:
    whether it is an integer, or as the numbers are where that is None; plain: whether the numbers
    are held to the sizes of numbers whatever comes out.
    """

    sql: str
    range: Callable[..., Range]
    size: Callable[..., Size]
    defined: str | None = None
    whole: bool | None = False
    plain: bool = False

    def __call__(self, node: Operation, *operands: Value) -> Value:
        values = [numeric(operand) for operand in operands]
        size = self.size(*(value.size for value in values))
        if self.plain or (len(values) > 1 and not size.within(_DOUBLES)):
            values = [kept(value) for value in values]
            size = self.size(*(value.size for value in values))
        parts, last = [value.sql for value in values], values[-1]
        guard = self.defined != _NOT_ZERO or last.range.contains(0.0)
        if self.defined is not None and guard:
            parts[-1] = guarded(last.sql, self.defined)
        return number(
            self.sql.format(*parts, name=node.name),
            range=self.range(*(value.range for value in values)),
            size=size,
            integer=_integers(*values) if self.whole is None else self.whole,
            nullable=self.defined is not None or any_nullable(values),
        )


def _integers(*values: Value) -> bool:
    return all(value.kind == Kind.INTEGER for value in values)


# ---- sizes, and rows of the table that several functions share ----------------------------------


def _of_sum(a: Size, b: Size) -> Size:
    step = min(a.step, b.step)
    return Size(step, (a.most + b.most) * _NEARLY, step)


def _of_product(a: Size, b: Size) -> Size:
    return Size(a.least * b.least / _NEARLY, a.most * b.most * _NEARLY)


def _of_quotient(a: Size, b: Size) -> Size:
    return Size(a.least / max(b.most, b.least) / _NEARLY, a.most / b.least * _NEARLY)


def _of_remainder(a: Size, b: Size) -> Size:
    step = min(a.step, b.step)
    return Size(step, min(a.most, b.most), step)


def _same(size: Size) -> Size:
    return size


_arithmetic = partial(_Function, sql="({0} {name} {1})", whole=None)
_rounding = partial(
    _Function, range=ranges.whole, size=lambda a: Size(1.0, a.most + 1, 1.0), whole=True
)
"""To a whole number next to it."""


def _of_root(root: Callable[[float], float]) -> Callable[[Size], Size]:
    return lambda a: Size(root(a.least) / 2, root(a.most) * 2)


def _within(lower: float, upper: float) -> Callable[..., Range]:
    """The range of a function, whatever its operands."""
    return lambda *_: Range(lower, upper)


_FARTHEST = 1_100.0
"""No logarithm of a double is larger; none but 0 is smaller than 2^-55, the distance from 1."""
_logarithm = partial(_Function, defined="{0} > 0e0", size=lambda _: Size(2.0**-55, _FARTHEST))

_HALF = math.nextafter(math.pi / 2, 2.0)
_WHOLE = math.nextafter(math.pi, 4.0)
_LARGEST_TANGENT = 1e18  # no double lies nearer than 6e-17 to an odd multiple of pi / 2
_NEAREST = 1e-25  # nor nearer to a multiple of pi than this, but 0
_curve = partial(_Function, size=lambda a: Size(min(a.least / 2, _NEAREST), _LARGEST_TANGENT))


def _angle(factor: float) -> Rule:
    return _Function(
        sql=f"({{0}} * {double(factor)})",
        range=partial(ranges.multiply, Range(factor, factor)),
        size=partial(_of_product, Size(factor, factor)),
        plain=True,
    )


# ---- functions of their own --------------------------------------------------------------------


def _round(node: Operation, operand: Value) -> Value:
    a, digits = kept(numeric(operand)), node.option
    assert isinstance(digits, int)
    if digits > 0 and _integers(a):
        return a
    unit = f"1e{abs(digits)}"
    if digits > 0:
        sql = f"(round({a.sql} * {unit}) / {unit})"
    elif digits < 0:
        sql = f"(round({a.sql} / {unit}) * {unit})"
    else:
        sql = f"round({a.sql})"
    return number(
        sql,
        range=ranges.round_to(a.range, digits),
        size=Size(10.0**-digits / 2, a.size.most * _NEARLY + 10.0**-digits),
        integer=digits <= 0 or _integers(a),
        nullable=a.nullable,
    )


_MOST_EXPONENT = 230.0
"""The exponential of it is a number, and that of its negative."""


def _exponential(_: Operation, operand: Value) -> Value:
    """Of a number that is held to what has one."""
    a = numeric(operand)
    sql, least, most = a.sql, a.range.lower, a.range.upper
    if a.size.most > _MOST_EXPONENT:
        sql = held(sql, least=a.size.least, most=_MOST_EXPONENT)
        least = min(max(least, -_MOST_EXPONENT), _MOST_EXPONENT)
        most = most if most == math.inf else max(min(most, _MOST_EXPONENT), -_MOST_EXPONENT)
    return number(f"exp({sql})", range=ranges.exponential(Range(least, most)), nullable=a.nullable)


_MOST_CONSTANT = 1_000.0
"""Up to here a base between 1/2 and 2 gives a double."""


def _power(_: Operation, *operands: Value) -> Value:
    """A base to an exponent; NULL for 0 to a negative one, and for what is not a real number.

    A base to a constant is held to what gives a double. Else the logarithm of the result is looked
    at: what would be larger than e^230 is 1e100, what is smaller than e^-230 0, and of negative
    bases both are NULL.
    """
    base, exponent = (kept(numeric(operand)) for operand in operands)
    y, size = exponent.range.lower, PLAIN
    if y != exponent.range.upper or abs(y) > _MOST_CONSTANT:
        sql = let(_any_power, base.sql, exponent.sql)
        found = ranges.power(base.range, exponent.range)
        lower, upper = (
            end if math.isinf(end) else min(max(end, -LARGEST), LARGEST)
            for end in (found.lower, found.upper)
        )
        # e^-230 and what is below is 0, e^230 and what is above 1e100: with room for both.
        lower, upper = 0.0 if 0 < lower < 2e-100 else lower, LARGEST if upper > 7e99 else upper
        found = Range(lower, upper)
    elif y == 0:
        sql = let("(CASE WHEN {0} IS NOT NULL THEN 1e0 END)".format, base.sql)
        found = Range(1.0, 1.0)
    else:
        power = min(1_000.0 / abs(y), 332.0)
        to, whole, known = Size(2.0 ** -math.floor(power), 2.0**power), base.range, base.size
        most = min(known.most, to.most)
        least = min(max(known.least, to.least), most)
        if (least, most) != (known.least, known.most):  # what is smaller is 0: it is not stepped
            lower, upper = (
                end if math.isinf(end) else min(max(end, -most), most)
                for end in (whole.lower, whole.upper)
            )
            lower = 0.0 if 0 < lower < least else lower
            upper = 0.0 if -least < upper < 0 else upper
            text = held(base.sql, least=least, most=most)
            base = replace(base, sql=text, range=Range(lower, upper))
        real = "{0} >= 0e0" if y != math.floor(y) else "{0} IS NOT NULL"
        within = guarded(base.sql, real if y > 0 else f"{real} AND {_NOT_ZERO}")
        sql, found = f"pow({within}, {exponent.sql})", ranges.power(base.range, exponent.range)
        if y > 0 or least > 0:  # else the base is 0, and the power NULL
            ends = sorted(one**y for one in (least, most))
            size = Size(ends[0] / 2, ends[1] * 2)
    return number(sql, range=found, size=size)


def _any_power(x: str, y: str) -> str:
    far = f"{y} * ln(abs({x}))"
    most = double(_MOST_EXPONENT)
    whole = f"({x} > 0e0 OR {y} = floor({y}))"
    return (
        f"(CASE WHEN {x} = 0e0 THEN CASE WHEN {y} > 0e0 THEN 0e0 WHEN {y} = 0e0 THEN 1e0 END "
        f"WHEN {whole} AND abs({far}) <= {most} THEN pow({x}, {y}) "
        f"WHEN {x} > 0e0 THEN CASE WHEN {far} > 0e0 THEN {double(LARGEST)} "
        f"WHEN {far} < 0e0 THEN 0e0 END END)"
    )


NUMBERS: dict[str, Rule] = {
    "+": _arithmetic(range=ranges.add, size=_of_sum),
    "-": _arithmetic(range=lambda a, b: ranges.add(a, ranges.negate(b)), size=_of_sum),
    "*": _arithmetic(range=ranges.multiply, size=_of_product),
    "/": _arithmetic(range=ranges.divide, size=_of_quotient, whole=False, defined=_NOT_ZERO),
    "%": _arithmetic(range=ranges.remainder, size=_of_remainder, defined=_NOT_ZERO),
    "NEGATIVE": _Function(sql="(- {0})", range=ranges.negate, size=_same, whole=None),
    "ABS": _Function(sql="abs({0})", range=ranges.absolute, size=_same, whole=None),
    "FLOOR": _rounding(sql="floor({0})"),
    "CEIL": _rounding(sql="ceil({0})"),
    "TRUNC": _rounding(sql="trunc({0})"),
    "ROUND": _round,
    "SIGN": _rounding(
        sql="CAST(sign({0}) AS DOUBLE)", range=_within(-1.0, 1.0), size=lambda _: PLAIN
    ),
    "SQRT": _Function(
        sql="sqrt({0})", defined="{0} >= 0e0", range=ranges.root, size=_of_root(math.sqrt)
    ),
    "CBRT": _Function(sql="cbrt({0})", range=ranges.cube_root, size=_of_root(math.cbrt)),
    "LN": _logarithm(sql="ln({0})", range=partial(ranges.logarithm, function=math.log)),
    "LOG2": _logarithm(sql="log2({0})", range=partial(ranges.logarithm, function=math.log2)),
    "LOG10": _logarithm(sql="log10({0})", range=partial(ranges.logarithm, function=math.log10)),
    "EXP": _exponential,
    "POWER": _power,
    "SIN": _curve(sql="sin({0})", range=_within(-1.0, 1.0)),
    "COS": _curve(sql="cos({0})", range=_within(-1.0, 1.0)),
    "TAN": _curve(sql="tan({0})", range=_within(-_LARGEST_TANGENT, _LARGEST_TANGENT)),
    "ASIN": _curve(sql="asin({0})", range=_within(-_HALF, _HALF), defined="abs({0}) <= 1e0"),
    "ACOS": _curve(sql="acos({0})", range=_within(0.0, _WHOLE), defined="abs({0}) <= 1e0"),
    "ATAN": _curve(sql="atan({0})", range=_within(-_HALF, _HALF), plain=True),
    "ATAN2": _Function(
        sql="atan2({0}, {1})",
        range=_within(-_WHOLE, _WHOLE),
        size=lambda a, b: Size(min(_of_quotient(a, b).least / 2, 0.5), _WHOLE),
        plain=True,
    ),
    "RADIANS": _angle(math.pi / 180),
    "DEGREES": _angle(180 / math.pi),
    "PI": lambda _: number(double(math.pi), range=Range(math.pi, math.pi), nullable=False),
}
"""Operations on numbers, by name."""


# ---- dates and instants --------------------------------------------------------------------------


_SECONDS = -62_135_596_800, 253_402_300_800
"""The beginnings of the years 1 and 10000, since that of 1970."""
PARTS = {
    "CENTURY": Range(1.0, 100.0),
    "DECADE": Range(0.0, 999.0),
    "YEAR": Range(1.0, 9999.0),
    "QUARTER": Range(1.0, 4.0),
    "MONTH": Range(1.0, 12.0),
    "DAY": Range(1.0, 31.0),
    "WEEK": Range(1.0, 53.0),
    "DOW": Range(0.0, 6.0),
    "DOY": Range(1.0, 366.0),
    "ISODOW": Range(1.0, 7.0),
    "ISOYEAR": Range(1.0, 9999.0),
    "HOUR": Range(0.0, 23.0),
    "MINUTE": Range(0.0, 59.0),
    "SECOND": Range(0.0, 59.0),
    "EPOCH": Range(*map(float, _SECONDS)),
}
"""What EXTRACT takes out of a date or timestamp, and where that lies."""

_DAYS = 3_652_059.0  # more than two days are apart
UNITS = {
    "YEAR": _DAYS / 365,
    "QUARTER": _DAYS / 90,
    "MONTH": _DAYS / 28,
    "WEEK": _DAYS / 7 + 1,
    "DAY": _DAYS,
    "HOUR": _DAYS * 24,
    "MINUTE": _DAYS * 24 * 60,
    "SECOND": _DAYS * 24 * 60 * 60,
}
"""The steps in which dates are counted, cut and moved; more of each than lie between two dates."""
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_OF_INSTANTS = ("HOUR", "MINUTE", "SECOND")
_FIRST, _LAST = dt.datetime.min, dt.datetime.max  # noqa: DTZ901


def _moment(value: Value, unit: str) -> Value:
    """A date or an instant that has this part; raises KindMismatch for any other value."""
    if unit not in _OF_INSTANTS:
        return of_kind(value, Kind.DATE, Kind.TIMESTAMP)
    if value.kind == Kind.DATE:
        raise KindMismatch(
            f"a timestamp where {described(value)} stands; a date has no time of day"
        )
    return of_kind(value, Kind.TIMESTAMP)


def _extract(node: Operation, operand: Value) -> Value:
    part = str(node.option)
    moment = _moment(operand, part)
    return number(
        f"CAST(extract({part} FROM {moment.sql}) AS DOUBLE)",
        range=PARTS[part],
        integer=part != "EPOCH",
        nullable=moment.nullable,
    )


def _between(sql: str, most: float | None = None) -> Rule:
    """A number of units between two dates; sql: with {0} and {1} for them; most: if known."""

    def rule(node: Operation, *operands: Value) -> Value:
        unit = str(node.option or "YEAR")
        moments = tuple(_moment(operand, unit) for operand in operands)
        first, second = of_one_kind(moments, otherwise=Kind.DATE)
        size = most or UNITS[unit]
        return number(
            f"CAST({sql.format(first.sql, second.sql, unit=unit.lower())} AS DOUBLE)",
            range=Range(-size, size),
            integer=True,
            nullable=first.nullable or second.nullable,
        )

    return rule


def _date_trunc(node: Operation, operand: Value) -> Value:
    """The beginning of the unit; of a date it is a date."""
    unit = str(node.option)
    moment = _moment(operand, unit)
    return _of_date(moment, f"date_trunc('{unit.lower()}', {moment.sql})")


def _date_add(node: Operation, operand: Value, step: Value) -> Value:
    """A date moved by a number of units; NULL where that is in no year."""
    unit = str(node.option)
    moment, steps = _moment(operand, unit), step.node.value if isinstance(step.node, Literal) else 0
    assert isinstance(steps, int)
    if steps == 0:
        return _of_date(moment, f"CAST({moment.sql} AS TIMESTAMP)")
    end = _end(steps, unit)
    if end is None:
        return _of_date(moment, "CAST(NULL AS TIMESTAMP)")
    said = literal(end if moment.kind == Kind.TIMESTAMP else end.date())
    inside = guarded(moment.sql, f"{{0}} {'>=' if steps < 0 else '<'} {said}")
    return _of_date(moment, f"({inside} + INTERVAL ({steps}) {unit})")


def _end(steps: int, unit: str) -> dt.datetime | None:
    """The first instant that steps forward take beyond the years, or that steps back do not.

    None where no instant stays within them. Months are counted from the year 0 on: a step leads
    into a month, of which it may take an earlier day.
    """
    try:
        if unit in _MONTHS:
            month = (12 if steps < 0 else 120_000) - steps * _MONTHS[unit]
            return dt.datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001
        moved = dt.timedelta(**{f"{unit.lower()}s": abs(steps)})
        return _FIRST + moved if steps < 0 else _LAST - moved + dt.timedelta(microseconds=1)
    except (OverflowError, ValueError):
        return None


def _of_date(moment: Value, sql: str) -> Value:
    """A timestamp that DuckDB makes of a date or an instant, in the kind of that."""
    sql = f"CAST({sql} AS DATE)" if moment.kind == Kind.DATE else sql
    return Value(sql=sql, kind=moment.kind)


def _called(gives: Kind) -> Rule:
    """A function of a date or an instant."""
    of = each(Kind.DATE, Kind.TIMESTAMP)
    return form("{function}({0})", of=of, gives=gives, nullable=True)


_CODE = re.compile("%(.)", re.DOTALL)
_SAID = {
    "Y": "[0-9]{4}",
    **dict.fromkeys("ymd", "[0-9]{1,2}"),
    "H": "(?:[01]?[0-9]|2[0-3])",
    **dict.fromkeys("MS", "[0-5]?[0-9]"),
}
"""How a text says the parts of an instant, by the letters of a format."""


def _parsed(_: Operation, *operands: Value) -> Value:
    """The instant that a text says in a format.

    What a format leaves out is 1900, January, the first day, midnight. Two digits from 69 on are a
    year of the twentieth century.
    """
    operand, layout = (of_kind(operand, Kind.TEXT) for operand in operands)
    assert isinstance(layout.node, Literal)
    pattern, places = "", dict[str, int]()
    for place, part in enumerate(_CODE.split(str(layout.node.value))):
        if place % 2 == 0 or part == "%":
            pattern += re.escape(part)
        else:
            places[part] = len(places) + 2
            pattern += f"({_SAID[part]})"

    def instant(x: str) -> str:
        def said(letter: str, default: str, width: int = 2) -> str:
            if letter not in places:
                return f"'{default}'"
            return f"lpad({extracted(x, pattern, places[letter])}, {width}, '0')"

        short = said("y", "00")
        century = f"(CASE WHEN {short} >= '69' THEN '19' ELSE '20' END)"
        year = f"{century} || {short}" if "y" in places else said("Y", "1900", 4)
        day = f"{year} || '-' || {said('m', '01')} || '-' || {said('d', '01')}"
        clock = " || ':' || ".join(said(letter, "00") for letter in "HMS")
        return f"TRY_CAST(({day} || ' ' || {clock}) AS TIMESTAMP)"

    return Value(sql=in_years(let(instant, operand.sql), "TIMESTAMP"), kind=Kind.TIMESTAMP)


def _of_seconds(_: Operation, operand: Value) -> Value:
    """The instant so many seconds after the beginning of 1970."""
    least, most = _SECONDS
    within = guarded(numeric(operand).sql, f"{{0}} >= {least}e0 AND {{0}} < {most}e0")
    sql = in_years(f"make_timestamp(CAST(round({within} * 1e6) AS BIGINT))", "TIMESTAMP")
    return Value(sql=sql, kind=Kind.TIMESTAMP)


def _made(_: Operation, *operands: Value) -> Value:
    """The date of a year from 1 to 9999, a month and a day; NULL where there is none."""
    digits = []
    for operand, most in zip(operands, (9999, 12, 31), strict=True):
        inside = f"{{0}} >= 1e0 AND {{0}} <= {most}e0 AND {{0}} = floor({{0}})"
        whole = f"CAST({guarded(numeric(operand).sql, inside)} AS INTEGER)"
        digits.append(f"lpad(CAST({whole} AS VARCHAR), {len(str(most))}, '0')")
    written = " || '-' || ".join(digits)
    return Value(sql=f"TRY_CAST(({written}) AS DATE)", kind=Kind.DATE)


DATES: dict[str, Rule] = {
    "EXTRACT": _extract,
    "DATE_DIFF": _between("date_diff('{unit}', {0}, {1})"),  # ends of units
    "DATE_SUB": _between("date_sub('{unit}', {0}, {1})"),  # whole units
    "AGE": _between("date_part('year', age({0}, {1}))", 9999.0),
    "DATE_TRUNC": _date_trunc,
    "DATE_ADD": _date_add,
    "LAST_DAY": _called(Kind.DATE),
    "DAYNAME": _called(Kind.TEXT),
    "MONTHNAME": _called(Kind.TEXT),
    "TRY_STRPTIME": _parsed,
    "TO_TIMESTAMP": _of_seconds,
    "MAKE_DATE": _made,
}
"""Operations on dates and instants, by name."""
