"""From a parsed text to a tree: which forms, calls and literals there are.

A function that DuckDB and sqlglot spell in several ways is read to one operation of the tree.

There is an allow-list of nodes, and of what may stand in each. Nothing of sqlglot's own rendering
reaches the engine, and an argument the list does not know refuses the node, so that no part of what
was written is silently left out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from unacorda.errors import UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.functions import DERIVED, FORMATS
from unacorda.query.expressions.syntax import MOST_LEVELS, condition
from unacorda.query.expressions.tree import (
    Literal,
    Name,
    Node,
    Operation,
    names,
    size_of,
)
from unacorda.query.expressions.types import literal_moment, literal_number

__all__ = ["NAMED", "PARTS", "RULES", "UNITS", "Reader", "bare", "given", "meaning"]

_MOST_POSITION = 1_000_000
"""The last character of a text that a position may name."""

_Word = Callable[["Reader", exp.Expression], str]
"""How a word is read that is an option of an operation."""


_Read = Callable[["Reader", exp.Expression], Node]
"""How one kind of node is read."""


def given(node: exp.Expression) -> set[str]:
    """The arguments that a node of sqlglot carries."""
    return {key for key, value in node.args.items() if value not in (None, False, [], "")}


def bare(node: object) -> object:
    """The node without brackets around it."""
    while isinstance(node, exp.Paren) and given(node) == {"this"}:
        node = node.this
    return node


def _operation(name: str, *parts: str | _Read, option: str | _Word | None = None) -> _Read:
    """A rule for an operation.

    parts: its operands, by the names of required arguments or by how they are read; option: what
    is fixed of it, or the word that says so.
    """

    def read(reader: Reader, node: exp.Expression) -> Node:
        operands = tuple(
            reader.node(node.args.get(part)) if isinstance(part, str) else part(reader, node)
            for part in parts
        )
        chosen = option if option is None or isinstance(option, str) else option(reader, node)
        return Operation(name, operands, chosen)

    return read


_Rule = tuple[_Read, str]
"""How one kind of node is read, and which arguments of it are known."""


def _one(name: str) -> _Rule:
    return _operation(name, "this"), "this"


def _two(name: str, *, others: str = "") -> _Rule:
    return _operation(name, "this", "expression"), f"this expression {others}"


def _whole(key: str, *, least: int, most: int, otherwise: int | None = None) -> _Read:
    """A literal whole number in a range; otherwise: what is meant where it is left out."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        if otherwise is not None and node.args.get(key) is None:
            return Literal(otherwise)
        found = reader.node(node.args.get(key))
        if isinstance(found, Literal) and type(found.value) is int and least <= found.value <= most:
            return found
        raise reader.refuse(node, f"Write a literal whole number from {least} to {most} there.")

    return read


def _text(key: str, hint: str, *, empty: bool = False) -> _Read:
    """A text literal, which may be empty or not."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        text = reader.literal(node.args.get(key), node, hint)
        if not text and not empty:
            raise reader.refuse(node, hint)
        return Literal(text)

    return read


def _list(name: str, *, most: int | None = None) -> _Read:
    """A rule for an operation of any number of operands, or at most some."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        first = [node.this] if node.args.get("this") is not None else []
        operands = [*first, *node.expressions]
        if most is not None and len(operands) > most:
            raise reader.refuse(node, f"Write at most {most} parts; derive some of them first.")
        return Operation(name, reader.nodes(*operands))

    return read


_TYPES = {
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "TEXT": "VARCHAR",
    "VARCHAR": "VARCHAR",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
}


def _chain(name: str) -> _Read:
    """AND or OR: a chain of them is one operation, however long."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        waiting: list[object] = [node]
        operands: list[object] = []
        while waiting:
            part = bare(waiting.pop())
            if type(part) is type(node) and isinstance(part, exp.Expression):
                if not given(part) <= {"this", "expression"}:
                    raise reader.refuse(part)
                waiting += [part.args.get("expression"), part.this]
            else:
                operands.append(part)
        return Operation(name, reader.nodes(*operands))

    return read


def _column(reader: Reader, node: exp.Expression) -> Node:
    table = node.args.get("table")
    if table is not None and table.name not in reader.qualifiers:
        raise reader.refuse(node, "Write the name of the column alone.")
    if not isinstance(node.this, exp.Identifier):
        raise errors.refusal(reader.text, node.this)
    return Name(node.this.name)


def _literal(reader: Reader, node: exp.Expression) -> Node:
    if node.args.get("is_string"):
        return Literal(node.this)
    value = literal_number(node.this)
    if value is None:
        raise reader.refuse(
            node,
            "A double does not hold this number exactly, or its size is not from 1e-100 to 1e100: "
            "write it with a decimal point to have it rounded, or in quotes if it names something.",
        )
    return Literal(value)


def _negative(reader: Reader, node: exp.Expression) -> Node:
    match reader.node(node.this):
        case Literal(int() | float() as value) if not isinstance(value, bool):
            return Literal(-value if value else value)
        case Operation("NEGATIVE", (inner,)):
            return inner
        case operand:
            return Operation("NEGATIVE", (operand,))


def _is(reader: Reader, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match bare(node.args.get("expression")):
        case exp.Null():
            return Operation("IS NULL", (operand,))
        case exp.Boolean() as truth:
            return Operation("IS NOT DISTINCT FROM", (operand, reader.node(truth)))
        case _:
            raise reader.refuse(node, "Write IS NULL, IS TRUE, IS FALSE or =.")


def _like(name: str) -> _Rule:
    pattern = _text("expression", "Write the pattern as a text literal: x LIKE 'a%'.", empty=True)
    return _operation(name, "this", pattern), "this expression negate"


def _in(reader: Reader, node: exp.Expression) -> Node:
    if node.args.get("query") is not None:
        raise errors.refusal(reader.text, node.args["query"])
    choices = reader.nodes(*node.expressions)
    if not choices or not all(isinstance(choice, Literal) for choice in choices):
        raise reader.refuse(node, "Write a list of literals: x IN (1, 2, 3).")
    return Operation("IN", (reader.node(node.this), *choices))


def _case(reader: Reader, node: exp.Expression) -> Node:
    parts: list[Node] = []
    for arm in node.args.get("ifs") or ():
        if not isinstance(arm, exp.If) or given(arm) != {"this", "true"}:
            raise reader.refuse(node)
        parts += reader.nodes(arm.this, arm.args["true"])
    default = node.args.get("default")
    parts.append(Literal(None) if default is None else reader.node(default))
    if node.args.get("this") is None:
        return Operation("CASE", tuple(parts))
    return Operation("SWITCH", (reader.node(node.this), *parts))


def _if(reader: Reader, node: exp.Expression) -> Node:
    otherwise = node.args.get("false")
    default: Node = Literal(None) if otherwise is None else reader.node(otherwise)
    return Operation("CASE", (*reader.nodes(node.this, node.args.get("true")), default))


def _cast(reader: Reader, node: exp.Expression) -> Node:
    to, name = node.args.get("to"), None
    if isinstance(to, exp.DataType) and given(to) <= {"this"}:
        name = _TYPES.get(getattr(to.this, "name", ""))
    if name is None:
        raise reader.refuse(
            node, f"The types are {', '.join(dict.fromkeys(_TYPES.values()))}, without lengths."
        )
    operand = reader.node(node.this)
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        if name == "VARCHAR":
            return operand
        if name in ("DATE", "TIMESTAMP"):
            value = literal_moment(operand.value, date=name == "DATE")
            if value is not None:
                return Literal(value)
            if type(node) is exp.Cast:  # also DATE '...', which must be a date
                hint = "Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'."
                raise reader.refuse(node, hint)
    return Operation("TRY_CAST", (operand,), name)


_MOST_PADDING = 10_000
_MOST_STEPS = 100_000
_MOST_LETTERS = 20
_MOST_PARTS = 100
_MOST_GROWTH = 10

_END = _whole("expression", least=0, most=_MOST_POSITION)
_PLACE = _whole("part_index", least=1, most=_MOST_POSITION)
_SPLIT_MEND = "Write the separator as a text literal that is not empty: SPLIT_PART(x, '-', 1)."

PARTS = (
    *("CENTURY", "DECADE", "YEAR", "QUARTER", "MONTH", "DAY", "WEEK", "DOW", "DOY"),
    *("ISODOW", "ISOYEAR", "HOUR", "MINUTE", "SECOND", "EPOCH"),
)
"""What EXTRACT takes out of a date or timestamp."""

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""The steps in which dates are counted, cut and moved."""

_UNIT_OF = dict(zip(UNITS, UNITS, strict=True))
_SPELLINGS = {"DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFYEAR": "DOY", "WEEKOFYEAR": "WEEK"}
_PART_OF = dict(zip(PARTS, PARTS, strict=True)) | _SPELLINGS
_FORMAT = re.compile("([^%]|" + "|".join(map(re.escape, FORMATS)) + ")*", re.DOTALL)
_FORMAT_MEND = (
    "Write the format as a text literal with %Y %y %m %d %j %b %B %a %A %H %I %p %M %S, as in "
    "'%Y-%m-%d', or %U %W %V %G %u %w."
)
_READABLE = re.compile("([^%]|%[YymdHMS%])*", re.DOTALL)
_READABLE_MEND = (
    "Write the format as a text literal with %Y %y %m %d %H %M %S, each once, as in '%d.%m.%Y'."
)


# ---- numbers -----------------------------------------------------------------------------------


_DIGITS = _whole("decimals", least=-15, most=15, otherwise=0)


def _round(reader: Reader, node: exp.Expression) -> Node:
    digits = _DIGITS(reader, node)
    assert isinstance(digits, Literal)
    assert isinstance(digits.value, int)
    return Operation("ROUND", (reader.node(node.this),), digits.value)


def _log(reader: Reader, node: exp.Expression) -> Node:
    base = reader.node(node.this)
    if node.args.get("expression") is not None and isinstance(base, Literal):
        name = {10: "LOG10", 2: "LOG2"}.get(base.value if type(base.value) is int else 0)
        if name:
            return Operation(name, (reader.node(node.args["expression"]),))
    raise reader.refuse(node, "Write LN(x), LOG10(x) or LOG2(x).")


# ---- text --------------------------------------------------------------------------------------


def _trim(reader: Reader, node: exp.Expression) -> Node:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}[position]
    hint = "Write the characters to cut as a text literal: TRIM(x, '.,')."
    cut = [] if node.args.get("expression") is None else [_text("expression", hint, empty=True)]
    return _operation(name, "this", *cut)(reader, node)


def _replace(reader: Reader, node: exp.Expression) -> Node:
    hint = (
        "Write what is replaced and its replacement as text literals, the first not empty and the "
        f"second at most {_MOST_GROWTH} times as long: REPLACE(x, 'a', 'b')."
    )
    old = reader.literal(node.args.get("expression"), node, hint)
    new = reader.literal(node.args.get("replacement"), node, hint)
    if not old or len(new) > _MOST_GROWTH * len(old):
        raise reader.refuse(node, hint)
    return Operation("REPLACE", (reader.node(node.this), Literal(old), Literal(new)))


def _pad(reader: Reader, node: exp.Expression) -> Node:
    hint = "Write what it is filled with as a text literal: LPAD(x, 5, '0')."
    filling = _text("fill_pattern", hint)(reader, node)
    length = _whole("expression", least=0, most=_MOST_PADDING)(reader, node)
    name = "LPAD" if node.args.get("is_left") else "RPAD"
    return Operation(name, (reader.node(node.this), length, filling))


def _joined_with(reader: Reader, node: exp.Expression) -> Node:
    hint = "Write the separator as a text literal: CONCAT_WS(', ', x, y)."
    found = _list("CONCAT_WS", most=_MOST_PARTS)(reader, node)
    assert isinstance(found, Operation)
    if len(found.operands) < 2 or not isinstance(found.operands[0], Literal):
        raise reader.refuse(node, hint)
    reader.literal(node.expressions[0], node, hint)
    return found


# ---- dates -------------------------------------------------------------------------------------


def _part(part: str) -> _Rule:
    return _operation("EXTRACT", "this", option=part), "this"


def _named_part(reader: Reader, node: exp.Expression, word: object, operand: object) -> Node:
    """EXTRACT(part FROM x) in any spelling; of AGE(later, earlier) only whole years."""
    inside = bare(operand)
    if isinstance(inside, exp.Anonymous) and inside.name.upper() == "AGE":
        if len(inside.expressions) == 2 and reader.word(word, node, {"YEAR": "YEAR"}):
            return Operation("AGE", reader.nodes(*inside.expressions))
        raise reader.refuse(inside, "Write DATE_PART('year', AGE(later, earlier)).")
    return Operation("EXTRACT", (reader.node(operand),), reader.word(word, node, _PART_OF))


def _extract(reader: Reader, node: exp.Expression) -> Node:
    return _named_part(reader, node, node.this, node.args.get("expression"))


def _date_part(reader: Reader, node: exp.Expression) -> Node:
    if len(node.expressions) != 2:
        raise reader.refuse(node, "Write DATE_PART('year', x).")
    return _named_part(reader, node, *node.expressions)


def _unit(reader: Reader, node: exp.Expression) -> str:
    return reader.word(node.args.get("unit"), node, _UNIT_OF)


def _date_sub(reader: Reader, node: exp.Expression) -> Node:
    parts = node.expressions
    if len(parts) == 2 and isinstance(parts[1], exp.Interval):
        return _moved(reader, parts[0], parts[1], sign=-1)
    if len(parts) != 3:
        raise reader.refuse(node, "Write DATE_SUB('year', earlier, later).")
    return Operation("DATE_SUB", reader.nodes(*parts[1:]), reader.word(parts[0], node, _UNIT_OF))


def _sum(name: str) -> _Read:
    """`+` and `-`, of numbers or of a date and an interval."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        left, right = bare(node.this), bare(node.args.get("expression"))
        if isinstance(right, exp.Interval):
            return _moved(reader, left, right, sign=1 if name == "+" else -1)
        if isinstance(left, exp.Interval) and name == "+":
            return _moved(reader, right, left, sign=1)
        return _operation(name, "this", "expression")(reader, node)

    return read


def _date_add(reader: Reader, node: exp.Expression) -> Node:
    step = bare(node.args.get("expression"))
    if not isinstance(step, exp.Interval):
        raise reader.refuse(node, "Write x + INTERVAL 7 DAY.")
    return _moved(reader, node.this, step, sign=1)


def _moved(reader: Reader, moment: object, step: exp.Interval, *, sign: int) -> Node:
    """A date moved by a literal number of steps."""
    hint = (
        f"Write x + INTERVAL 7 DAY, with a whole number up to {_MOST_STEPS:,} in digits and one of "
        f"{', '.join(UNITS)}."
    )
    amount, unit = step.this, step.args.get("unit")
    digits = amount.name if isinstance(amount, exp.Literal) else ""
    name = unit.name.upper() if isinstance(unit, exp.Var) else ""
    name = name if name in UNITS else name.removesuffix("S")
    plain = given(step) <= {"this", "unit"} and name in UNITS
    if not plain or not re.fullmatch(r"-?[0-9]{1,7}", digits) or abs(int(digits)) > _MOST_STEPS:
        raise reader.refuse(step, hint)
    return Operation("DATE_ADD", (reader.node(moment), Literal(sign * int(digits))), name)


def _format(reader: Reader, node: exp.Expression) -> Node:
    layout = reader.literal(node.args.get("format"), node, _FORMAT_MEND)
    if not _FORMAT.fullmatch(layout) or layout.count("%") > _MOST_LETTERS:
        raise reader.refuse(node, _FORMAT_MEND)
    operand = reader.node(node.this)
    if size_of(operand) > _MOST_REPEATED:
        raise reader.refuse(node, "Derive the date as a column first.")
    return Operation("STRFTIME", (operand, Literal(layout)))


def _parsed_time(reader: Reader, node: exp.Expression) -> Node:
    if isinstance(node, exp.Anonymous):
        operand, layout = node.expressions if len(node.expressions) == 2 else (None, None)
    else:
        operand, layout = node.this, node.args.get("format")
    written = reader.literal(layout, node, _READABLE_MEND)
    letters = re.findall("%([^%])", written.replace("%%", ""))
    again = len(set(letters)) < len(letters) or {"Y", "y"} <= set(letters)
    if not letters or again or not _READABLE.fullmatch(written):
        raise reader.refuse(node, _READABLE_MEND)
    return Operation("TRY_STRPTIME", (reader.node(operand), Literal(written)))


def _made_date(reader: Reader, node: exp.Expression) -> Node:
    parts = [node.args.get(key) for key in ("year", "month", "day")]
    if None in parts:
        raise reader.refuse(node, "Write MAKE_DATE(year, month, day).")
    return Operation("MAKE_DATE", reader.nodes(*parts))


# ---- functions that sqlglot does not know ------------------------------------------------------


def _anonymous(name: str, hint: str, *, operands: int = 1, option: str | None = None) -> _Read:
    def read(reader: Reader, node: exp.Expression) -> Node:
        if len(node.expressions) != operands:
            raise reader.refuse(node, hint)
        return Operation(name, reader.nodes(*node.expressions), option)

    return read


def _anonymous_part(part: str) -> _Read:
    return _anonymous("EXTRACT", f"Write EXTRACT({part} FROM x).", option=part)


_MOST_REPEATED = 20
"""How large an operand may be that stands several times in what a function is written as."""


def _derived(name: str) -> _Read:
    """A function that is written in the language itself."""
    operands, definition = DERIVED[name]
    named = operands.split()

    def read(reader: Reader, node: exp.Expression) -> Node:
        if len(node.expressions) != len(named):
            raise reader.refuse(node, f"Write {name}({', '.join(named)}).")
        values = reader.nodes(*node.expressions)
        stand = Counter(names(meaning(definition)))
        for operand, value in zip(named, values, strict=True):
            if stand[operand] > 1 and size_of(value) > _MOST_REPEATED:
                raise reader.refuse(node, f"Derive its {operand} as a column first.")
        return Operation(name, values)

    return read


@functools.lru_cache(maxsize=1_024)
def meaning(definition: str) -> Node:
    """The tree of what a function means of its operands."""
    return Reader(text=definition).read(condition(definition, argument="definition"))


NAMED: dict[str, _Read] = {
    "PREFIX": _anonymous("STARTS_WITH", "STARTS_WITH takes 2 operands.", operands=2),
    "SUFFIX": _anonymous("ENDS_WITH", "ENDS_WITH takes 2 operands.", operands=2),
    "DATE_PART": _date_part,
    "DATEPART": _date_part,
    "DATE_SUB": _date_sub,
    "DATESUB": _date_sub,
    "TRY_STRPTIME": _parsed_time,
    "WEEKDAY": _anonymous_part("DOW"),
    **{part: _anonymous_part(part) for part in ("CENTURY", "DECADE", "ISOYEAR")},
    **{name: _derived(name) for name in DERIVED},
}
"""Functions by the name that was written, in capitals."""

RULES: dict[type[object], _Rule] = {
    exp.Column: (_column, "this table"),
    exp.Literal: (_literal, "this is_string"),
    exp.Boolean: (lambda _, node: Literal(bool(node.this)), "this"),
    exp.Null: (lambda _, __: Literal(None), ""),
    exp.Neg: (_negative, "this"),
    exp.And: (_chain("AND"), "this expression"),
    exp.Or: (_chain("OR"), "this expression"),
    exp.Not: _one("NOT"),
    exp.Is: (_is, "this expression"),
    exp.Like: _like("LIKE"),
    exp.ILike: _like("ILIKE"),
    exp.In: (_in, "this expressions query"),
    exp.Between: (_operation("BETWEEN", "this", "low", "high"), "this low high negate"),
    exp.Case: (_case, "this ifs default"),
    exp.If: (_if, "this true false"),
    exp.Coalesce: (_list("COALESCE"), "this expressions"),
    exp.Least: (_list("LEAST"), "this expressions ignore_nulls"),
    exp.Greatest: (_list("GREATEST"), "this expressions ignore_nulls"),
    exp.Cast: (_cast, "this to"),
    exp.TryCast: (_cast, "this to safe"),
    exp.DPipe: _two("||", others="safe"),
    exp.Mul: _two("*"),
    exp.Div: _two("/", others="typed safe"),
    exp.Mod: _two("%"),
    exp.Pow: _two("POWER"),
    exp.EQ: _two("="),
    exp.NEQ: _two("<>"),
    exp.LT: _two("<"),
    exp.LTE: _two("<="),
    exp.GT: _two(">"),
    exp.GTE: _two(">="),
    exp.NullSafeEQ: _two("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _two("IS DISTINCT FROM"),
    exp.Add: (_sum("+"), "this expression"),
    exp.Sub: (_sum("-"), "this expression"),
    exp.Round: (_round, "this decimals"),
    exp.Log: (_log, "this expression"),
    exp.Pi: (_operation("PI"), ""),
    exp.Concat: (_list("CONCAT", most=_MOST_PARTS), "expressions safe coalesce"),
    exp.ConcatWs: (_joined_with, "expressions safe coalesce"),
    exp.Substring: (
        _operation(
            "SUBSTRING",
            "this",
            _whole("start", least=1, most=_MOST_POSITION),
            _whole("length", least=0, most=_MOST_POSITION, otherwise=_MOST_POSITION),
        ),
        "this start length",
    ),
    exp.Left: (_operation("LEFT", "this", _END), "this expression"),
    exp.Right: (_operation("RIGHT", "this", _END), "this expression"),
    exp.Trim: (_trim, "this expression position"),
    exp.Replace: (_replace, "this expression replacement"),
    exp.Pad: (_pad, "this expression fill_pattern is_left"),
    exp.SplitPart: (
        _operation("SPLIT_PART", "this", _text("delimiter", _SPLIT_MEND), _PLACE),
        "this delimiter part_index",
    ),
    exp.StrPosition: (_operation("STRPOS", "this", "substr"), "this substr"),
    exp.Extract: (_extract, "this expression"),
    exp.DateDiff: (
        _operation("DATE_DIFF", "expression", "this", option=_unit),  # sqlglot holds end first
        "this expression unit date_part_boundary",
    ),
    exp.DateTrunc: (_operation("DATE_TRUNC", "this", option=_unit), "this unit"),
    exp.TimestampTrunc: (_operation("DATE_TRUNC", "this", option=_unit), "this unit"),
    exp.DateAdd: (_date_add, "this expression"),
    exp.TimeToStr: (_format, "this format"),
    exp.StrToTime: (_parsed_time, "this format"),
    exp.Date: (_operation("TRY_CAST", "this", option="DATE"), "this"),
    exp.DateFromParts: (_made_date, "year month day"),
    exp.UnixToTime: _one("TO_TIMESTAMP"),
    exp.TimeToUnix: _part("EPOCH"),
    exp.DayOfMonth: _part("DAY"),
    exp.DayOfWeek: _part("DOW"),
    exp.DayOfWeekIso: _part("ISODOW"),
    exp.DayOfYear: _part("DOY"),
    exp.Week: _part("WEEK"),
    exp.WeekOfYear: _part("WEEK"),
    **{
        kind: _one(kind.sql_names()[0])
        for kind in (
            *(exp.Abs, exp.Floor, exp.Ceil, exp.Trunc, exp.Sign, exp.Sqrt, exp.Cbrt, exp.Ln),
            *(exp.Exp, exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan),
            *(exp.Radians, exp.Degrees, exp.Lower, exp.Upper, exp.Length),
            *(exp.Dayname, exp.Monthname, exp.LastDay),
        )
    },
    **{
        kind: _two(kind.sql_names()[0])
        for kind in (exp.Atan2, exp.StartsWith, exp.EndsWith, exp.Contains, exp.Nullif)
    },
    **{
        kind: _part(kind.sql_names()[0])
        for kind in (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute, exp.Second)
    },
}
"""By the kind of node how it is read, and the arguments of it that are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads nodes of one text.

    text: the whole text, for messages; qualifiers: table names that may precede a column;
    level: how many nodes stand above; special: what is asked first what a node means, where more
    than rows is read.
    """

    text: str
    qualifiers: frozenset[str] = frozenset()
    level: int = 0
    special: Callable[[exp.Expression], Node | None] | None = None

    def read(self, node: object) -> Node:
        """Our tree of a node.

        Raises UnsafeExpression naming the first part that is not allowed.
        """
        try:
            return self.node(node)
        except RecursionError:
            raise errors.too_deep(self.text) from None

    def node(self, node: object) -> Node:
        """Our tree of a node that stands one level further down."""
        node = bare(node)
        if self.level > MOST_LEVELS:
            raise errors.too_deep(self.text)
        if self.special is not None and isinstance(node, exp.Expression):
            found = self.special(node)
            if found is not None:
                return found
        read, known = RULES.get(type(node), (None, ""))
        if isinstance(node, exp.Anonymous):
            read, known = NAMED.get(str(node.name).upper()), "this expressions"
        if read is None or not isinstance(node, exp.Expression):
            raise errors.refusal(self.text, node)
        if not given(node) <= set(known.split()):
            raise self.refuse(node)
        found = read(replace(self, level=self.level + 1), node)
        return Operation("NOT", (found,)) if node.args.get("negate") else found

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """Our trees of several nodes."""
        return tuple(self.node(node) for node in nodes)

    def refuse(self, node: object, hint: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""
        return errors.refusal(self.text, node, form=True, hint=hint)

    def literal(self, node: object, within: exp.Expression, hint: str) -> str:
        """A text literal; raises UnsafeExpression for anything else."""
        found = self.node(node) if node is not None else None
        if isinstance(found, Literal) and isinstance(found.value, str):
            return found.value
        raise self.refuse(within, hint)

    def word(self, node: object, within: exp.Expression, known: Mapping[str, str]) -> str:
        """What one of these words means, such as a unit; UnsafeExpression for any other."""
        name = node.name.upper() if isinstance(node, exp.Var | exp.Literal) else ""
        if name not in known:
            raise self.refuse(
                within, f"Write one of {', '.join(dict.fromkeys(known.values()))} there."
            )
        return known[name]
