"""The functions of the language: which of their arguments must be literals, and in what range.

A function that DuckDB and sqlglot spell in several ways is read to one operation of the tree.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

from sqlglot import exp

from unacorda.query.expressions.rule import (
    MOST_POSITION,
    Read,
    Reading,
    Rule,
    bare,
    given,
    listed,
    one,
    rules,
    two,
)
from unacorda.query.expressions.tree import Literal, Node, Operation

__all__ = ["CALLS", "NAMED", "PARTS", "UNITS"]

_MOST_DIGITS = 15
_MOST_PADDING = 10_000
_MOST_STEPS = 100_000
_MOST_PARTS = 100
_MOST_GROWTH = 10

PARTS = (
    *("CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "DAY", "WEEK", "DOW", "DOY"),
    *("ISODOW", "ISOYEAR", "HOUR", "MINUTE", "SECOND", "EPOCH"),
)
"""What EXTRACT takes out of a date or timestamp."""

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""The steps in which dates are counted, cut and moved."""

_SPELLINGS = {"DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFYEAR": "DOY", "WEEKOFYEAR": "WEEK"}
_FORMAT = re.compile(r"([^%]|%-?[dmHIMSj]|%[aAbBpUwWyYGuV%])*", re.DOTALL)
_READABLE = re.compile(r"([^%]|%-?[dmHIMSj]|%[aAbBpyY%])*", re.DOTALL)
_FORMAT_MEND = (
    "Write the format as a text literal with %Y %y %m %d %j %b %B %a %A %H %I %p %M %S, as in "
    "'%Y-%m-%d'; of STRFTIME also %U %W %V %G %u %w."
)


# ---- numbers -----------------------------------------------------------------------------------


def _round(reader: Reading, node: exp.Expression) -> Node:
    digits = node.args.get("decimals")
    option = 0
    if digits is not None:
        option = reader.whole(digits, node, least=-_MOST_DIGITS, most=_MOST_DIGITS)
    return Operation("ROUND", (reader.node(node.this),), option)


def _log(reader: Reading, node: exp.Expression) -> Node:
    base = reader.node(node.this)
    if node.args.get("expression") is not None and isinstance(base, Literal):
        name = {10: "LOG10", 2: "LOG2"}.get(base.value if type(base.value) is int else 0)
        if name:
            return Operation(name, (reader.node(node.args["expression"]),))
    raise reader.refuse(node, "Write LN(x), LOG10(x) or LOG2(x).")


# ---- text --------------------------------------------------------------------------------------


def _substring(reader: Reading, node: exp.Expression) -> Node:
    start = reader.whole(node.args.get("start"), node, least=1, most=MOST_POSITION)
    length = MOST_POSITION
    if node.args.get("length") is not None:
        length = reader.whole(node.args["length"], node, least=0, most=MOST_POSITION)
    return Operation("SUBSTRING", (reader.node(node.this), Literal(start), Literal(length)))


def _end(name: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        length = reader.whole(node.args.get("expression"), node, least=0, most=MOST_POSITION)
        return Operation(name, (reader.node(node.this), Literal(length)))

    return read


def _trim(reader: Reading, node: exp.Expression) -> Node:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}[position]
    characters = node.args.get("expression")
    if characters is None:
        return Operation(name, (reader.node(node.this),))
    mend = "Write the characters to cut as a text literal: TRIM(x, '.,')."
    return Operation(
        name, (reader.node(node.this), Literal(reader.literal(characters, node, mend)))
    )


def _replace(reader: Reading, node: exp.Expression) -> Node:
    mend = (
        "Write what is replaced and its replacement as text literals, the first not empty and the "
        f"second at most {_MOST_GROWTH} times as long: REPLACE(x, 'a', 'b')."
    )
    old = reader.literal(node.args.get("expression"), node, mend)
    new = reader.literal(node.args.get("replacement"), node, mend)
    if not old or len(new) > _MOST_GROWTH * len(old):
        raise reader.refuse(node, mend)
    return Operation("REPLACE", (reader.node(node.this), Literal(old), Literal(new)))


def _pad(reader: Reading, node: exp.Expression) -> Node:
    mend = "Write what it is filled with as a text literal: LPAD(x, 5, '0')."
    filling = reader.literal(node.args.get("fill_pattern"), node, mend)
    if not filling:
        raise reader.refuse(node, mend)
    length = reader.whole(node.args.get("expression"), node, least=0, most=_MOST_PADDING)
    name = "LPAD" if node.args.get("is_left") else "RPAD"
    return Operation(name, (reader.node(node.this), Literal(length), Literal(filling)))


def _split(reader: Reading, node: exp.Expression) -> Node:
    mend = "Write the separator as a text literal that is not empty: SPLIT_PART(x, '-', 1)."
    separator = reader.literal(node.args.get("delimiter"), node, mend)
    if not separator:
        raise reader.refuse(node, mend)
    part = reader.whole(node.args.get("part_index"), node, least=1, most=MOST_POSITION)
    return Operation("SPLIT_PART", (reader.node(node.this), Literal(separator), Literal(part)))


def _joined_with(reader: Reading, node: exp.Expression) -> Node:
    mend = "Write the separator as a text literal: CONCAT_WS(', ', x, y)."
    found = listed("CONCAT_WS", most=_MOST_PARTS)(reader, node)
    assert isinstance(found, Operation)
    if len(found.operands) < 2 or not isinstance(found.operands[0], Literal):
        raise reader.refuse(node, mend)
    reader.literal(node.expressions[0], node, mend)
    return found


# ---- dates -------------------------------------------------------------------------------------


def _part(part: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        return Operation("EXTRACT", (reader.node(node.this),), part)

    return read


def _named_part(reader: Reading, node: exp.Expression, word: object, operand: object) -> Node:
    """EXTRACT(part FROM x) in any spelling; of AGE(later, earlier) only whole years."""
    inside = bare(operand)
    if isinstance(inside, exp.Anonymous) and inside.name.upper() == "AGE":
        if len(inside.expressions) == 2 and reader.word(word, node, ("YEAR",)):
            return Operation("AGE", reader.nodes(*inside.expressions))
        raise reader.refuse(inside, "Write DATE_PART('year', AGE(later, earlier)).")
    return Operation("EXTRACT", (reader.node(operand),), _spelled(reader, node, word))


def _spelled(reader: Reading, node: exp.Expression, word: object) -> str:
    name = word.name.upper() if isinstance(word, exp.Var | exp.Literal) else ""
    return _SPELLINGS[name] if name in _SPELLINGS else reader.word(word, node, PARTS)


def _extract(reader: Reading, node: exp.Expression) -> Node:
    return _named_part(reader, node, node.this, node.args.get("expression"))


def _date_part(reader: Reading, node: exp.Expression) -> Node:
    if len(node.expressions) != 2:
        raise reader.refuse(node, "Write DATE_PART('year', x).")
    return _named_part(reader, node, *node.expressions)


def _date_diff(reader: Reading, node: exp.Expression) -> Node:
    unit = reader.word(node.args.get("unit"), node, UNITS)
    start, end = reader.nodes(node.args.get("expression"), node.this)  # sqlglot holds end first
    return Operation("DATE_DIFF", (start, end), unit)


def _date_sub(reader: Reading, node: exp.Expression) -> Node:
    parts = node.expressions
    if len(parts) == 2 and isinstance(parts[1], exp.Interval):
        return _moved(reader, parts[0], parts[1], sign=-1)
    if len(parts) != 3:
        raise reader.refuse(node, "Write DATE_SUB('year', earlier, later).")
    return Operation("DATE_SUB", reader.nodes(*parts[1:]), reader.word(parts[0], node, UNITS))


def _date_trunc(reader: Reading, node: exp.Expression) -> Node:
    unit = reader.word(node.args.get("unit"), node, UNITS)
    return Operation("DATE_TRUNC", (reader.node(node.this),), unit)


def _sum(name: str) -> Read:
    """`+` and `-`, of numbers or of a date and an interval."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        left, right = bare(node.this), bare(node.args.get("expression"))
        if isinstance(right, exp.Interval):
            return _moved(reader, left, right, sign=1 if name == "+" else -1)
        if isinstance(left, exp.Interval) and name == "+":
            return _moved(reader, right, left, sign=1)
        return two(name)(reader, node)

    return read


def _date_add(reader: Reading, node: exp.Expression) -> Node:
    step = bare(node.args.get("expression"))
    if not isinstance(step, exp.Interval):
        raise reader.refuse(node, "Write x + INTERVAL 7 DAY.")
    return _moved(reader, node.this, step, sign=1)


def _moved(reader: Reading, moment: object, step: exp.Interval, *, sign: int) -> Node:
    """A date moved by a literal number of steps."""
    mend = (
        f"Write x + INTERVAL 7 DAY, with a whole number up to {_MOST_STEPS:,} in digits and one of "
        f"{', '.join(UNITS)}."
    )
    amount, unit = step.this, step.args.get("unit")
    if not set(given(step)) <= {"this", "unit"} or not isinstance(amount, exp.Literal):
        raise reader.refuse(step, mend)
    if not re.fullmatch(r"-?[0-9]{1,7}", amount.name) or abs(int(amount.name)) > _MOST_STEPS:
        raise reader.refuse(step, mend)
    name = unit.name.upper() if isinstance(unit, exp.Var) else ""
    name = name if name in UNITS else name.removesuffix("S")
    if name not in UNITS:
        raise reader.refuse(step, mend)
    return Operation("DATE_ADD", (reader.node(moment), Literal(sign * int(amount.name))), name)


def _format(reader: Reading, node: exp.Expression) -> Node:
    layout = reader.literal(node.args.get("format"), node, _FORMAT_MEND)
    if not _FORMAT.fullmatch(layout):
        raise reader.refuse(node, _FORMAT_MEND)
    return Operation("STRFTIME", (reader.node(node.this), Literal(layout)))


def _parsed_time(reader: Reading, node: exp.Expression) -> Node:
    if isinstance(node, exp.Anonymous):
        operand, layout = node.expressions if len(node.expressions) == 2 else (None, None)
    else:
        operand, layout = node.this, node.args.get("format")
    written = reader.literal(layout, node, _FORMAT_MEND)
    if not written or not _READABLE.fullmatch(written):
        raise reader.refuse(node, _FORMAT_MEND)
    return Operation("TRY_STRPTIME", (reader.node(operand), Literal(written)))


def _date(reader: Reading, node: exp.Expression) -> Node:
    return Operation("TRY_CAST", (reader.node(node.this),), "DATE")


def _made_date(reader: Reading, node: exp.Expression) -> Node:
    parts = [node.args.get(key) for key in ("year", "month", "day")]
    if None in parts:
        raise reader.refuse(node, "Write MAKE_DATE(year, month, day).")
    return Operation("MAKE_DATE", reader.nodes(*parts))


# ---- functions that sqlglot does not know ------------------------------------------------------


def _anonymous(name: str, operands: int) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        if len(node.expressions) != operands:
            raise reader.refuse(node, f"{name} takes {operands} operand{'s' * (operands > 1)}.")
        return Operation(name, reader.nodes(*node.expressions))

    return read


def _anonymous_part(part: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        if len(node.expressions) != 1:
            raise reader.refuse(node, f"Write EXTRACT({part} FROM x).")
        return Operation("EXTRACT", (reader.node(node.expressions[0]),), part)

    return read


NAMED: dict[str, Read] = {
    "PREFIX": _anonymous("STARTS_WITH", 2),
    "SUFFIX": _anonymous("ENDS_WITH", 2),
    "ISFINITE": _anonymous("ISFINITE", 1),
    "DATE_PART": _date_part,
    "DATEPART": _date_part,
    "DATE_SUB": _date_sub,
    "DATESUB": _date_sub,
    "TRY_STRPTIME": _parsed_time,
    "WEEKDAY": _anonymous_part("DOW"),
    **{part: _anonymous_part(part) for part in ("CENTURY", "DECADE", "ISOYEAR")},
}
"""Functions by the name that was written, in capitals."""

CALLS: dict[type[object], Rule] = rules(
    {
        exp.Add: (_sum("+"), "this expression"),
        exp.Sub: (_sum("-"), "this expression"),
        exp.Round: (_round, "this decimals"),
        exp.Log: (_log, "this expression"),
        exp.Trunc: (one("TRUNC"), "this"),
        exp.Atan2: (two("ATAN2"), "this expression"),
        exp.Pi: (lambda _, __: Operation("PI", ()), ""),
        exp.IsInf: (one("ISINF"), "this"),
        exp.StartsWith: (two("STARTS_WITH"), "this expression"),
        exp.EndsWith: (two("ENDS_WITH"), "this expression"),
        exp.Contains: (two("CONTAINS"), "this expression"),
        exp.Concat: (listed("CONCAT", most=_MOST_PARTS), "expressions safe coalesce"),
        exp.ConcatWs: (_joined_with, "expressions safe coalesce"),
        exp.Substring: (_substring, "this start length"),
        exp.Left: (_end("LEFT"), "this expression"),
        exp.Right: (_end("RIGHT"), "this expression"),
        exp.Trim: (_trim, "this expression position"),
        exp.Replace: (_replace, "this expression replacement"),
        exp.Pad: (_pad, "this expression fill_pattern is_left"),
        exp.SplitPart: (_split, "this delimiter part_index"),
        exp.StrPosition: (
            lambda reader, node: Operation(
                "STRPOS", reader.nodes(node.this, node.args.get("substr"))
            ),
            "this substr",
        ),
        exp.Extract: (_extract, "this expression"),
        exp.DateDiff: (_date_diff, "this expression unit date_part_boundary"),
        exp.DateTrunc: (_date_trunc, "this unit"),
        exp.TimestampTrunc: (_date_trunc, "this unit"),
        exp.DateAdd: (_date_add, "this expression"),
        exp.LastDay: (one("LAST_DAY"), "this"),
        exp.TimeToStr: (_format, "this format"),
        exp.StrToTime: (_parsed_time, "this format"),
        exp.Date: (_date, "this"),
        exp.DateFromParts: (_made_date, "year month day"),
        exp.UnixToTime: (one("TO_TIMESTAMP"), "this"),
        exp.TimeToUnix: (_part("EPOCH"), "this"),
        exp.DayOfMonth: (_part("DAY"), "this"),
        exp.DayOfWeek: (_part("DOW"), "this"),
        exp.DayOfWeekIso: (_part("ISODOW"), "this"),
        exp.DayOfYear: (_part("DOY"), "this"),
        exp.Week: (_part("WEEK"), "this"),
        exp.WeekOfYear: (_part("WEEK"), "this"),
        **{
            kind: (one(kind.__name__.upper()), "this")
            for kind in (
                *(exp.Abs, exp.Floor, exp.Ceil, exp.Sign, exp.Sqrt, exp.Cbrt, exp.Ln, exp.Exp),
                *(exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan),
                *(exp.Radians, exp.Degrees),
                *(exp.Lower, exp.Upper, exp.Length, exp.Reverse, exp.Dayname, exp.Monthname),
            )
        },
        **{
            kind: (_part(kind.__name__.upper()), "this")
            for kind in (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute)
        },
        exp.Second: (_part("SECOND"), "this"),
    }
)
