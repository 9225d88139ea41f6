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
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

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

__all__ = [
    "CALLS",
    "FORMS",
    "MOST_POSITION",
    "NAMED",
    "PARTS",
    "UNITS",
    "Read",
    "Reader",
    "Reading",
    "Rule",
    "bare",
    "fixed",
    "given",
    "listed",
    "maybe_not",
    "meaning",
    "one",
    "rules",
    "two",
]

MOST_POSITION = 1_000_000
"""The last character of a text that a position may name."""


class Reading(Protocol):
    """What a rule may ask of the reader; all but `text` raise UnsafeExpression."""

    @property
    def text(self) -> str:
        """The whole text, for messages."""

    @property
    def qualifiers(self) -> frozenset[str]:
        """Table names that may precede a column."""

    def node(self, node: object) -> Node:
        """The tree of a node that stands one level further down."""

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """The trees of several nodes."""

    def refuse(self, node: object, hint: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""

    def unknown(self, node: object) -> UnsafeExpression:
        """The refusal of a node that no rule allows."""

    def whole(self, node: object, within: exp.Expression, *, least: int, most: int) -> int:
        """A literal whole number in a range."""

    def literal(self, node: object, within: exp.Expression, hint: str) -> str:
        """A text literal."""

    def word(self, node: object, within: exp.Expression, known: tuple[str, ...]) -> str:
        """One of some words, such as the unit of a date, in capitals."""


Read = Callable[[Reading, exp.Expression], Node]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of node is read, and which arguments of it are known."""

    read: Read
    arguments: frozenset[str]


def rules(table: dict[type[object], tuple[Read, str]]) -> dict[type[object], Rule]:
    """Rules by the kind of node, from a reading and the names of the arguments it knows."""
    return {kind: Rule(read, frozenset(keys.split())) for kind, (read, keys) in table.items()}


def given(node: exp.Expression) -> list[str]:
    """The arguments that a node carries."""
    return [key for key, value in node.args.items() if value not in (None, False, [], "")]


def bare(node: object) -> object:
    """The node without brackets around it."""
    while isinstance(node, exp.Paren) and given(node) == ["this"]:
        node = node.this
    return node


def fixed(name: str, *keys: str) -> Read:
    """A rule for an operation whose operands are these arguments, all of them required."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        return Operation(name, reader.nodes(*(node.args.get(key) for key in keys)))

    return read


def one(name: str) -> Read:
    """A rule for an operation of one operand."""
    return fixed(name, "this")


def two(name: str) -> Read:
    """A rule for an operation of two operands."""
    return fixed(name, "this", "expression")


def listed(name: str, *, most: int | None = None) -> Read:
    """A rule for an operation of any number of operands, or at most some."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        first = [node.this] if node.args.get("this") is not None else []
        operands = [*first, *node.expressions]
        if most is not None and len(operands) > most:
            raise reader.refuse(node, f"Write at most {most} parts; derive some of them first.")
        return Operation(name, reader.nodes(*operands))

    return read


def maybe_not(node: exp.Expression, found: Node) -> Node:
    """The negation where sqlglot holds one as an argument of the node."""
    return Operation("NOT", (found,)) if node.args.get("negate") else found


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


def _chain(name: str) -> Read:
    """AND or OR: a chain of them is one operation, however long."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        waiting: list[object] = [node]
        operands: list[object] = []
        while waiting:
            part = bare(waiting.pop())
            if type(part) is type(node) and isinstance(part, exp.Expression):
                if not set(given(part)) <= {"this", "expression"}:
                    raise reader.refuse(part)
                waiting += [part.args.get("expression"), part.this]
            else:
                operands.append(part)
        return Operation(name, reader.nodes(*operands))

    return read


def _column(reader: Reading, node: exp.Expression) -> Node:
    table = node.args.get("table")
    if table is not None and table.name not in reader.qualifiers:
        raise reader.refuse(node, "Write the name of the column alone.")
    if not isinstance(node.this, exp.Identifier):
        raise reader.unknown(node.this)
    return Name(node.this.name)


def _literal(reader: Reading, node: exp.Expression) -> Node:
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


def _negative(reader: Reading, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match operand:
        case Literal(bool()):
            pass
        case Literal(int() | float() as value):
            return Literal(-value if value else value)
        case Operation("NEGATIVE", (inner,)):
            return inner
        case _:
            pass
    return Operation("NEGATIVE", (operand,))


def _is(reader: Reading, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match bare(node.args.get("expression")):
        case exp.Null():
            return Operation("IS NULL", (operand,))
        case exp.Boolean() as truth:
            return Operation("IS NOT DISTINCT FROM", (operand, reader.node(truth)))
        case _:
            raise reader.refuse(node, "Write IS NULL, IS TRUE, IS FALSE or =.")


def _like(name: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        operand, pattern = reader.nodes(node.this, node.args.get("expression"))
        if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
            raise reader.refuse(node, "Write the pattern as a text literal: x LIKE 'a%'.")
        return maybe_not(node, Operation(name, (operand, pattern)))

    return read


def _in(reader: Reading, node: exp.Expression) -> Node:
    if node.args.get("query") is not None:
        raise reader.unknown(node.args["query"])
    choices = reader.nodes(*node.expressions)
    if not choices or not all(isinstance(choice, Literal) for choice in choices):
        raise reader.refuse(node, "Write a list of literals: x IN (1, 2, 3).")
    return Operation("IN", (reader.node(node.this), *choices))


def _between(reader: Reading, node: exp.Expression) -> Node:
    return maybe_not(node, fixed("BETWEEN", "this", "low", "high")(reader, node))


def _case(reader: Reading, node: exp.Expression) -> Node:
    parts: list[Node] = []
    for arm in node.args.get("ifs") or ():
        if not isinstance(arm, exp.If) or set(given(arm)) != {"this", "true"}:
            raise reader.refuse(node)
        parts += reader.nodes(arm.this, arm.args["true"])
    default = node.args.get("default")
    parts.append(Literal(None) if default is None else reader.node(default))
    if node.args.get("this") is None:
        return Operation("CASE", tuple(parts))
    return Operation("SWITCH", (reader.node(node.this), *parts))


def _if(reader: Reading, node: exp.Expression) -> Node:
    otherwise = node.args.get("false")
    default: Node = Literal(None) if otherwise is None else reader.node(otherwise)
    return Operation("CASE", (*reader.nodes(node.this, node.args.get("true")), default))


def _cast(reader: Reading, node: exp.Expression) -> Node:
    to = node.args.get("to")
    name = _TYPES.get(to.this.name) if isinstance(to, exp.DataType) and _plain(to) else None
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
                raise reader.refuse(
                    node, "Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'."
                )
    return Operation("TRY_CAST", (operand,), name)


def _plain(to: exp.DataType) -> bool:
    return isinstance(to.this, exp.DataType.Type) and set(given(to)) <= {"this"}


FORMS: dict[type[object], Rule] = rules(
    {
        exp.Column: (_column, "this table"),
        exp.Literal: (_literal, "this is_string"),
        exp.Boolean: (lambda _, node: Literal(bool(node.this)), "this"),
        exp.Null: (lambda _, __: Literal(None), ""),
        exp.Neg: (_negative, "this"),
        exp.And: (_chain("AND"), "this expression"),
        exp.Or: (_chain("OR"), "this expression"),
        exp.Not: (one("NOT"), "this"),
        exp.Is: (_is, "this expression"),
        exp.Like: (_like("LIKE"), "this expression negate"),
        exp.ILike: (_like("ILIKE"), "this expression negate"),
        exp.In: (_in, "this expressions query"),
        exp.Between: (_between, "this low high negate"),
        exp.Case: (_case, "this ifs default"),
        exp.If: (_if, "this true false"),
        exp.Coalesce: (listed("COALESCE"), "this expressions"),
        exp.Least: (listed("LEAST"), "this expressions ignore_nulls"),
        exp.Greatest: (listed("GREATEST"), "this expressions ignore_nulls"),
        exp.Nullif: (two("NULLIF"), "this expression"),
        exp.Cast: (_cast, "this to"),
        exp.TryCast: (_cast, "this to safe"),
        exp.DPipe: (two("||"), "this expression safe"),
        exp.Mul: (two("*"), "this expression"),
        exp.Div: (two("/"), "this expression typed safe"),
        exp.Mod: (two("%"), "this expression"),
        exp.Pow: (two("POWER"), "this expression"),
        exp.EQ: (two("="), "this expression"),
        exp.NEQ: (two("<>"), "this expression"),
        exp.LT: (two("<"), "this expression"),
        exp.LTE: (two("<="), "this expression"),
        exp.GT: (two(">"), "this expression"),
        exp.GTE: (two(">="), "this expression"),
        exp.NullSafeEQ: (two("IS NOT DISTINCT FROM"), "this expression"),
        exp.NullSafeNEQ: (two("IS DISTINCT FROM"), "this expression"),
    }
)


_MOST_DIGITS = 15
_MOST_PADDING = 10_000
_MOST_STEPS = 100_000
_MOST_LETTERS = 20
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
    hint = "Write the characters to cut as a text literal: TRIM(x, '.,')."
    return Operation(
        name, (reader.node(node.this), Literal(reader.literal(characters, node, hint)))
    )


def _replace(reader: Reading, node: exp.Expression) -> Node:
    hint = (
        "Write what is replaced and its replacement as text literals, the first not empty and the "
        f"second at most {_MOST_GROWTH} times as long: REPLACE(x, 'a', 'b')."
    )
    old = reader.literal(node.args.get("expression"), node, hint)
    new = reader.literal(node.args.get("replacement"), node, hint)
    if not old or len(new) > _MOST_GROWTH * len(old):
        raise reader.refuse(node, hint)
    return Operation("REPLACE", (reader.node(node.this), Literal(old), Literal(new)))


def _pad(reader: Reading, node: exp.Expression) -> Node:
    hint = "Write what it is filled with as a text literal: LPAD(x, 5, '0')."
    filling = reader.literal(node.args.get("fill_pattern"), node, hint)
    if not filling:
        raise reader.refuse(node, hint)
    length = reader.whole(node.args.get("expression"), node, least=0, most=_MOST_PADDING)
    name = "LPAD" if node.args.get("is_left") else "RPAD"
    return Operation(name, (reader.node(node.this), Literal(length), Literal(filling)))


def _split(reader: Reading, node: exp.Expression) -> Node:
    hint = "Write the separator as a text literal that is not empty: SPLIT_PART(x, '-', 1)."
    separator = reader.literal(node.args.get("delimiter"), node, hint)
    if not separator:
        raise reader.refuse(node, hint)
    part = reader.whole(node.args.get("part_index"), node, least=1, most=MOST_POSITION)
    return Operation("SPLIT_PART", (reader.node(node.this), Literal(separator), Literal(part)))


def _joined_with(reader: Reading, node: exp.Expression) -> Node:
    hint = "Write the separator as a text literal: CONCAT_WS(', ', x, y)."
    found = listed("CONCAT_WS", most=_MOST_PARTS)(reader, node)
    assert isinstance(found, Operation)
    if len(found.operands) < 2 or not isinstance(found.operands[0], Literal):
        raise reader.refuse(node, hint)
    reader.literal(node.expressions[0], node, hint)
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
    hint = (
        f"Write x + INTERVAL 7 DAY, with a whole number up to {_MOST_STEPS:,} in digits and one of "
        f"{', '.join(UNITS)}."
    )
    amount, unit = step.this, step.args.get("unit")
    if not set(given(step)) <= {"this", "unit"} or not isinstance(amount, exp.Literal):
        raise reader.refuse(step, hint)
    if not re.fullmatch(r"-?[0-9]{1,7}", amount.name) or abs(int(amount.name)) > _MOST_STEPS:
        raise reader.refuse(step, hint)
    name = unit.name.upper() if isinstance(unit, exp.Var) else ""
    name = name if name in UNITS else name.removesuffix("S")
    if name not in UNITS:
        raise reader.refuse(step, hint)
    return Operation("DATE_ADD", (reader.node(moment), Literal(sign * int(amount.name))), name)


def _format(reader: Reading, node: exp.Expression) -> Node:
    layout = reader.literal(node.args.get("format"), node, _FORMAT_MEND)
    if not _FORMAT.fullmatch(layout) or layout.count("%") > _MOST_LETTERS:
        raise reader.refuse(node, _FORMAT_MEND)
    operand = reader.node(node.this)
    if size_of(operand) > _MOST_REPEATED:
        raise reader.refuse(node, "Derive the date as a column first.")
    return Operation("STRFTIME", (operand, Literal(layout)))


def _parsed_time(reader: Reading, node: exp.Expression) -> Node:
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


_MOST_REPEATED = 20
"""How large an operand may be that stands several times in what a function is written as."""


def _derived(name: str) -> Read:
    """A function that is written in the language itself."""
    operands, definition = DERIVED[name]
    named = operands.split()

    def read(reader: Reading, node: exp.Expression) -> Node:
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


def _anonymous_part(part: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        if len(node.expressions) != 1:
            raise reader.refuse(node, f"Write EXTRACT({part} FROM x).")
        return Operation("EXTRACT", (reader.node(node.expressions[0]),), part)

    return read


NAMED: dict[str, Read] = {
    "PREFIX": _anonymous("STARTS_WITH", 2),
    "SUFFIX": _anonymous("ENDS_WITH", 2),
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

CALLS: dict[type[object], Rule] = rules(
    {
        exp.Add: (_sum("+"), "this expression"),
        exp.Sub: (_sum("-"), "this expression"),
        exp.Round: (_round, "this decimals"),
        exp.Log: (_log, "this expression"),
        exp.Trunc: (one("TRUNC"), "this"),
        exp.Atan2: (two("ATAN2"), "this expression"),
        exp.Pi: (lambda _, __: Operation("PI", ()), ""),
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
                *(exp.Lower, exp.Upper, exp.Length, exp.Dayname, exp.Monthname),
            )
        },
        **{
            kind: (_part(kind.__name__.upper()), "this")
            for kind in (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute)
        },
        exp.Second: (_part("SECOND"), "this"),
    }
)


_RULES = {**FORMS, **CALLS}
_NAMED = {name: Rule(read, frozenset({"this", "expressions"})) for name, read in NAMED.items()}


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
        rule = _rule(node) if isinstance(node, exp.Expression) else None
        if rule is None or not isinstance(node, exp.Expression):
            raise self.unknown(node)
        if not set(given(node)) <= rule.arguments:
            raise self.refuse(node)
        return rule.read(replace(self, level=self.level + 1), node)

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """Our trees of several nodes."""
        return tuple(self.node(node) for node in nodes)

    def refuse(self, node: object, hint: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""
        return errors.refusal(self.text, node, form=True, hint=hint)

    def unknown(self, node: object) -> UnsafeExpression:
        """The refusal of a node that no rule allows."""
        return errors.refusal(self.text, node)

    def whole(self, node: object, within: exp.Expression, *, least: int, most: int) -> int:
        """A literal whole number in a range.

        Raises UnsafeExpression for anything else.
        """
        found = self.node(node)
        if isinstance(found, Literal) and type(found.value) is int and least <= found.value <= most:
            return found.value
        raise self.refuse(within, f"Write a literal whole number from {least} to {most} there.")

    def literal(self, node: object, within: exp.Expression, hint: str) -> str:
        """A text literal.

        Raises UnsafeExpression for anything else.
        """
        found = self.node(node) if node is not None else None
        if isinstance(found, Literal) and isinstance(found.value, str):
            return found.value
        raise self.refuse(within, hint)

    def word(self, node: object, within: exp.Expression, known: tuple[str, ...]) -> str:
        """One of some words, such as the unit of a date, in capitals.

        Raises UnsafeExpression for anything else.
        """
        name = node.name.upper() if isinstance(node, exp.Var | exp.Literal) else ""
        if name not in known:
            raise self.refuse(within, f"Write one of {', '.join(known)} there.")
        return name


def _rule(node: exp.Expression) -> Rule | None:
    if isinstance(node, exp.Anonymous):
        return _NAMED.get(str(node.name).upper())
    return _RULES.get(type(node))
