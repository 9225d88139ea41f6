"""From text to a tree: what is refused, and which forms, calls and literals there are.

A function that DuckDB and sqlglot spell in several ways is read to one operation of the tree.

There is an allow-list of nodes, and of what may stand in each. Nothing of sqlglot's own rendering
reaches the engine, and an argument the list does not know refuses the node, so that no part of what
was written is silently left out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions import errors
from unacorda.query.expressions.arithmetic import PARTS, UNITS
from unacorda.query.expressions.language import (
    DERIVED,
    FORMATS,
    Literal,
    Name,
    Node,
    Operation,
    encodable,
    identifier,
    literal_moment,
    literal_number,
    names,
    size_of,
)

# ---- from text to sqlglot's tree ---------------------------------------------------------------

MOST_CHARACTERS = 10_000
MOST_LEVELS = 100

_OTHER_DIALECTS = {
    "`": 'Write names in double quotes, as in "age", or plainly.',
    r"(?i)\bSELECT\s+TOP\b": "Write LIMIT 3 at the end in place of TOP 3.",
    r"(?i)\bDECODE\s*\(": "Write CASE WHEN x = 'a' THEN 1 ELSE 0 END for DECODE.",
}
"""What to write in place of other dialects, by patterns of them."""

_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)
_NO_NAMES = (TokenType.VAR, TokenType.AND, TokenType.OR, TokenType.NOT)
_NOISE = ("within", "nulls", "last")  # WITHIN GROUP, NULLS LAST


def condition(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one expression.

    Raises InvalidParameter where text is none, UnsafeExpression where it is too long, nested too
    deeply, more than one statement, or not understood.

    >>> condition("age > 3", argument="where").key
    'gt'
    """
    _checked(text, argument)
    return _parsed(text, into=exp.Condition)


def statement(text: str, *, argument: str) -> exp.Expression:
    """The tree sqlglot makes of one SELECT; a semicolon may end it.

    Raises like `condition`.
    """
    if isinstance(text, str):
        text = text.rstrip().removesuffix(";")
    first, *_ = _checked(text, argument)
    if first.token_type not in (TokenType.SELECT, TokenType.WITH):
        raise UnsafeExpression(
            text,
            reason="it begins neither with SELECT nor with WITH",
            hint="Write SELECT ..., COUNT(*) FROM table WHERE ... GROUP BY ...",
            place=errors.span(first),
        )
    return _parsed(text, into=None)


def refuse_lost(text: str, tree: exp.Expression) -> None:
    """Raise where sqlglot left out of its tree a literal or a name that was written.

    It drops, for one, the time zone in DATE_TRUNC('day', x, 'UTC'). To be called once the tree is
    known to be otherwise in order.

    Raises UnsafeExpression naming what was left out.
    """
    kept = Counter(
        word for node in tree.walk() for value in node.args.values() for word in _words(value)
    )
    tokens = errors.tokens_of(text)
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        called = after is not None and after.token_type == TokenType.L_PAREN
        named = token.token_type == TokenType.VAR and not called
        if not named and token.token_type not in _LITERALS:
            continue
        for word in _words(token.text):
            found = word if word in kept else f"0.{word}"
            kept[found] -= 1
            if kept[found] < 0 and word not in _NOISE:
                raise UnsafeExpression(
                    text,
                    reason=f"a part of it would be without effect: {word[:60]!r}",
                    hint="Leave it out.",
                    place=errors.span(token),
                )


def _words(value: object) -> list[str]:
    if isinstance(value, exp.DataType.Type):
        return [value.name.casefold()]
    words = value.casefold().split() if isinstance(value, str) else []
    return [word.removeprefix("-") for word in words]


def _checked(text: str, argument: str) -> Sequence[Token]:
    """The words of a text that may be parsed."""
    if not isinstance(text, str):
        raise InvalidParameter(argument, type(text).__name__, expected="a text (str)")
    if len(text) > MOST_CHARACTERS:
        raise UnsafeExpression(
            text,
            reason=f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}",
            hint="Write it shorter, or derive a part of it as a column first.",
            place=(MOST_CHARACTERS, MOST_CHARACTERS + 1),
        )
    if not encodable(text):
        at = next(at for at, sign in enumerate(text) if not encodable(sign))
        raise UnsafeExpression(
            text,
            reason="it holds U+0000 or half of a surrogate pair",
            hint="Remove it.",
            place=(at, at + 1),
        )
    tokens = errors.tokens_of(text)
    if not tokens:
        raise UnsafeExpression(
            text,
            reason="it is empty, or a quote or comment in it is not closed",
            hint="Write an expression, and close every quote.",
            place=errors.unclosed(text),
        )
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise UnsafeExpression(
                text,
                reason="it holds a semicolon",
                hint="Write one statement only, without ';'.",
                place=errors.span(token),
            )
    levels = itertools.accumulate(errors.NESTING.get(token.token_type, 0) for token in tokens)
    if max(levels) > MOST_LEVELS:
        raise errors.too_deep(text)
    return tokens


def _parsed(text: str, *, into: type[exp.Condition] | None) -> exp.Expression:
    place = None
    try:
        tree = sqlglot.parse_one(text, read="duckdb", into=into)
    except RecursionError:
        raise errors.too_deep(text) from None
    except errors.FAULTS as error:
        place = errors.of_error(text, error) if isinstance(error, SqlglotError) else None
    else:
        if isinstance(tree, exp.Expression):
            return tree
    other = (hint for pattern, hint in _OTHER_DIALECTS.items() if re.search(pattern, text))
    raise UnsafeExpression(
        text,
        reason="it is not understood" + ("" if place is None else f", at {text[slice(*place)]!r}"),
        hint=next(
            other,
            _word_hint(text, place, into=into)
            or "Check brackets, commas, quotes and the order of words. A column name with spaces "
            "or special characters is written in double quotes.",
        ),
        place=place,
    )


def _word_hint(
    text: str, place: tuple[int, int] | None, *, into: type[exp.Condition] | None
) -> str:
    """What to write where a word of SQL stands for a column; empty where quotes do not help."""
    tokens = errors.tokens_of(text)
    stopped = next((at for at, one in enumerate(tokens) if place and one.start == place[0]), None)
    if stopped is None:
        return ""
    for token in tokens[max(0, stopped - 1) : stopped + 1][::-1]:
        word = text[slice(*errors.span(token))]
        if token.token_type in _NO_NAMES or not word.isidentifier():
            continue
        alike = [one for one in tokens if one.text.casefold() == word.casefold()]
        for meant in ([token], alike):
            if _understood(text, meant, into=into):
                return (
                    f"{word[:60]!r} is a word of SQL: if it is a column's name, write it in double "
                    f"quotes: {identifier(word[:60])}."
                )
    return ""


def _understood(text: str, meant: Sequence[Token], *, into: type[exp.Condition] | None) -> bool:
    """Whether a text is understood once these words of it are columns in double quotes."""
    quoted, end = "", 0
    for token in meant:
        start, after = errors.span(token)
        quoted, end = f"{quoted}{text[end:start]}{identifier(text[start:after])}", after
    try:
        tree = sqlglot.parse_one(quoted + text[end:], read="duckdb", into=into)
    except errors.FAULTS:
        return False
    word = meant[0].text.casefold()
    found = [node for node in tree.find_all(exp.Column) if node.name.casefold() == word]
    return len(found) == len(meant)


# ---- how nodes are read ------------------------------------------------------------------------

_Word = Callable[["Reader", exp.Expression], str]
"""How a word is read that is an option of an operation."""
_Read = Callable[["Reader", exp.Expression], Node]
"""How one kind of node is read."""
_Rule = tuple[_Read, str]
"""How one kind of node is read, and which arguments of it are known."""


def given(node: exp.Expression) -> set[str]:
    """The arguments that a node of sqlglot carries."""
    return {key for key, value in node.args.items() if value not in (None, False, [], "")}


def bare(node: object) -> object:
    """The node without brackets around it."""
    while isinstance(node, exp.Paren) and given(node) == {"this"}:
        node = node.this
    return node


@dataclass(frozen=True, slots=True)
class _Whole:
    """An argument that is a literal whole number; otherwise: what is meant where it is left out."""

    key: str
    least: int
    most: int
    otherwise: int | None = None

    def __call__(self, reader: Reader, node: exp.Expression) -> Literal:
        if self.otherwise is not None and node.args.get(self.key) is None:
            return Literal(self.otherwise)
        found, least, most = reader.node(node.args.get(self.key)), self.least, self.most
        if isinstance(found, Literal) and type(found.value) is int and least <= found.value <= most:
            return found
        raise reader.refuse(node, f"Write a literal whole number from {least} to {most} there.")


@dataclass(frozen=True, slots=True)
class _Text:
    """An argument that is a text literal, as the hint says it, which may be empty or not."""

    key: str
    hint: str
    empty: bool = False

    def __call__(self, reader: Reader, node: exp.Expression) -> Literal:
        text = reader.literal(node.args.get(self.key), node, f"Write {self.hint}.")
        if not text and not self.empty:
            raise reader.refuse(node, f"Write {self.hint}.")
        return Literal(text)


def _row(
    name: str, *parts: str | _Whole | _Text, option: str | _Word | None = None, free: str = ""
) -> _Rule:
    """A rule for an operation.

    parts: its operands, by their arguments; option: what is fixed of it, or the word that says so;
    free: arguments that are known besides.
    """

    def read(reader: Reader, node: exp.Expression) -> Node:
        operands = tuple(
            reader.node(node.args.get(part)) if isinstance(part, str) else part(reader, node)
            for part in parts
        )
        chosen = option if option is None or isinstance(option, str) else option(reader, node)
        return Operation(name, operands, chosen)

    keys = (part if isinstance(part, str) else part.key for part in parts)
    return read, " ".join((*keys, free))


def _two(name: str, *, free: str = "") -> _Rule:
    return _row(name, "this", "expression", free=free)


def _part(part: str) -> _Rule:
    return _row("EXTRACT", "this", option=part)


def _list(name: str, *, most: int | None = None) -> _Read:
    """A rule for an operation of any number of operands, or at most some."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        first = [] if node.args.get("this") is None else [node.this]
        operands = [*first, *node.expressions]
        if most is not None and len(operands) > most:
            raise reader.refuse(node, f"Write at most {most} parts; derive some of them first.")
        return Operation(name, reader.nodes(*operands))

    return read


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


CAST_TYPES = {
    **dict.fromkeys(("DOUBLE", "FLOAT"), "DOUBLE"),
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    **dict.fromkeys(("TEXT", "VARCHAR"), "VARCHAR"),
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "TIMESTAMP"),
}
"""The types of a CAST, from sqlglot's names of them."""


def _cast(reader: Reader, node: exp.Expression) -> Node:
    to, name = node.args.get("to"), None
    if isinstance(to, exp.DataType) and given(to) <= {"this"}:
        name = CAST_TYPES.get(getattr(to.this, "name", ""))
    if name is None:
        raise reader.refuse(
            node, f"The types are {', '.join(dict.fromkeys(CAST_TYPES.values()))}, without lengths."
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


_MOST_STEPS = 100_000
_MOST_LETTERS = 20
_MOST_PARTS = 100
_MOST_GROWTH = 10
_MOST_POSITION = 1_000_000
"""The last character of a text that a position may name."""

_SPELLINGS = {"DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFYEAR": "DOY", "WEEKOFYEAR": "WEEK"}
_PART_OF = {part: part for part in PARTS} | _SPELLINGS
_UNIT_OF = {unit: unit for unit in UNITS}
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


_DIGITS = _Whole("decimals", -15, 15, otherwise=0)


def _round(reader: Reader, node: exp.Expression) -> Node:
    digits = _DIGITS(reader, node).value
    assert isinstance(digits, int)
    return Operation("ROUND", (reader.node(node.this),), digits)


def _log(reader: Reader, node: exp.Expression) -> Node:
    base = reader.node(node.this)
    if node.args.get("expression") is not None and isinstance(base, Literal):
        name = {10: "LOG10", 2: "LOG2"}.get(base.value if type(base.value) is int else 0)
        if name:
            return Operation(name, (reader.node(node.args["expression"]),))
    raise reader.refuse(node, "Write LN(x), LOG10(x) or LOG2(x).")


# ---- text --------------------------------------------------------------------------------------


_END = _Whole("expression", 0, _MOST_POSITION)
_PLACE = _Whole("part_index", 1, _MOST_POSITION)
_PADDED = _Whole("expression", 0, 10_000)
_FILLING = _Text("fill_pattern", "what it is filled with as a text literal: LPAD(x, 5, '0')")
_PATTERN = _Text("expression", "the pattern as a text literal: x LIKE 'a%'", empty=True)
_CUT = _Text("expression", "the characters to cut as a text literal: TRIM(x, '.,')", empty=True)
_SEPARATOR = _Text(
    "delimiter", "the separator as a text literal that is not empty: SPLIT_PART(x, '-', 1)"
)


def _trim(reader: Reader, node: exp.Expression) -> Node:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}[position]
    cut = [] if node.args.get("expression") is None else [_CUT(reader, node)]
    return Operation(name, (reader.node(node.this), *cut))


def _pad(reader: Reader, node: exp.Expression) -> Node:
    name = "LPAD" if node.args.get("is_left") else "RPAD"
    filling, length = _FILLING(reader, node), _PADDED(reader, node)
    return Operation(name, (reader.node(node.this), length, filling))


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


def _joined_with(reader: Reader, node: exp.Expression) -> Node:
    hint = "Write the separator as a text literal: CONCAT_WS(', ', x, y)."
    if len(node.expressions) < 2:
        raise reader.refuse(node, hint)
    reader.literal(node.expressions[0], node, hint)
    return _list("CONCAT_WS", most=_MOST_PARTS)(reader, node)


# ---- dates -------------------------------------------------------------------------------------


def _extract(reader: Reader, node: exp.Expression) -> Node:
    """EXTRACT(part FROM x) in any spelling; of AGE(later, earlier) only whole years."""
    named = isinstance(node, exp.Anonymous)
    parts = node.expressions if named else [node.this, node.args.get("expression")]
    if len(parts) != 2:
        raise reader.refuse(node, "Write DATE_PART('year', x).")
    word, operand = parts[0], bare(parts[1])
    if isinstance(operand, exp.Anonymous) and operand.name.upper() == "AGE":
        if len(operand.expressions) == 2 and reader.word(word, node, {"YEAR": "YEAR"}):
            return Operation("AGE", reader.nodes(*operand.expressions))
        raise reader.refuse(operand, "Write DATE_PART('year', AGE(later, earlier)).")
    return Operation("EXTRACT", (reader.node(operand),), reader.word(word, node, _PART_OF))


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
    """`+` and `-`, of numbers or of a date and an interval; DATE_ADD is one of these alone."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        left, right = bare(node.this), bare(node.args.get("expression"))
        if isinstance(right, exp.Interval):
            return _moved(reader, left, right, sign=-1 if name == "-" else 1)
        if name == "DATE_ADD":
            raise reader.refuse(node, "Write x + INTERVAL 7 DAY.")
        if isinstance(left, exp.Interval) and name == "+":
            return _moved(reader, right, left, sign=1)
        return Operation(name, reader.nodes(left, right))

    return read


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


_MOST_REPEATED = 20
"""How large an operand may be that stands several times in what a function is written as."""


def _named(name: str, hint: str, *operands: str, option: str | None = None) -> _Read:
    """A function of so many operands; the hint is what to write in place of another number."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        if len(node.expressions) != len(operands):
            raise reader.refuse(node, hint)
        values = reader.nodes(*node.expressions)
        stand = Counter(names(meaning(DERIVED[name][1]))) if name in DERIVED else Counter[str]()
        for operand, value in zip(operands, values, strict=True):
            if stand[operand] > 1 and size_of(value) > _MOST_REPEATED:
                raise reader.refuse(node, f"Derive its {operand} as a column first.")
        return Operation(name, values, option)

    return read


@functools.lru_cache(maxsize=1_024)
def meaning(definition: str) -> Node:
    """The tree of what a function means of its operands."""
    return Reader(text=definition).read(condition(definition, argument="definition"))


NAMED: dict[str, _Read] = {
    "PREFIX": _named("STARTS_WITH", "STARTS_WITH takes 2 operands.", "x", "start"),
    "SUFFIX": _named("ENDS_WITH", "ENDS_WITH takes 2 operands.", "x", "end"),
    "DATE_PART": _extract,
    "DATEPART": _extract,
    "DATE_SUB": _date_sub,
    "DATESUB": _date_sub,
    "TRY_STRPTIME": _parsed_time,
    "WEEKDAY": _named("EXTRACT", "Write EXTRACT(DOW FROM x).", "x", option="DOW"),
    **{
        part: _named("EXTRACT", f"Write EXTRACT({part} FROM x).", "x", option=part)
        for part in ("CENTURY", "DECADE", "ISOYEAR")
    },
    **{
        name: _named(name, f"Write {name}({', '.join(operands.split())}).", *operands.split())
        for name, (operands, _) in DERIVED.items()
    },
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
    exp.Not: _row("NOT", "this"),
    exp.Is: (_is, "this expression"),
    exp.Like: _row("LIKE", "this", _PATTERN, free="negate"),
    exp.ILike: _row("ILIKE", "this", _PATTERN, free="negate"),
    exp.In: (_in, "this expressions query"),
    exp.Between: _row("BETWEEN", "this", "low", "high", free="negate"),
    exp.Case: (_case, "this ifs default"),
    exp.If: (_if, "this true false"),
    exp.Coalesce: (_list("COALESCE"), "this expressions"),
    exp.Least: (_list("LEAST"), "this expressions ignore_nulls"),
    exp.Greatest: (_list("GREATEST"), "this expressions ignore_nulls"),
    exp.Cast: (_cast, "this to"),
    exp.TryCast: (_cast, "this to safe"),
    exp.DPipe: _two("||", free="safe"),
    exp.Mul: _two("*"),
    exp.Div: _two("/", free="typed safe"),
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
    exp.Pi: _row("PI"),
    exp.Concat: (_list("CONCAT", most=_MOST_PARTS), "expressions safe coalesce"),
    exp.ConcatWs: (_joined_with, "expressions safe coalesce"),
    exp.Substring: _row(
        "SUBSTRING",
        "this",
        _Whole("start", 1, _MOST_POSITION),
        _Whole("length", 0, _MOST_POSITION, otherwise=_MOST_POSITION),
    ),
    exp.Left: _row("LEFT", "this", _END),
    exp.Right: _row("RIGHT", "this", _END),
    exp.Trim: (_trim, "this expression position"),
    exp.Replace: (_replace, "this expression replacement"),
    exp.Pad: (_pad, "this expression fill_pattern is_left"),
    exp.SplitPart: _row("SPLIT_PART", "this", _SEPARATOR, _PLACE),
    exp.StrPosition: _row("STRPOS", "this", "substr"),
    exp.Extract: (_extract, "this expression"),
    # sqlglot holds the end first.
    exp.DateDiff: _row(
        "DATE_DIFF", "expression", "this", option=_unit, free="unit date_part_boundary"
    ),
    exp.DateTrunc: _row("DATE_TRUNC", "this", option=_unit, free="unit"),
    exp.TimestampTrunc: _row("DATE_TRUNC", "this", option=_unit, free="unit"),
    exp.DateAdd: (_sum("DATE_ADD"), "this expression"),
    exp.TimeToStr: (_format, "this format"),
    exp.StrToTime: (_parsed_time, "this format"),
    exp.Date: _row("TRY_CAST", "this", option="DATE"),
    exp.DateFromParts: (_made_date, "year month day"),
    exp.UnixToTime: _row("TO_TIMESTAMP", "this"),
    exp.TimeToUnix: _part("EPOCH"),
    exp.DayOfMonth: _part("DAY"),
    exp.DayOfWeek: _part("DOW"),
    exp.DayOfWeekIso: _part("ISODOW"),
    exp.DayOfYear: _part("DOY"),
    exp.Week: _part("WEEK"),
    exp.WeekOfYear: _part("WEEK"),
    **{
        kind: _row(kind.sql_names()[0], "this")
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
