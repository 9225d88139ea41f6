"""The row-wise expression language: its names, kinds, columns, trees, and their SQL text.

Python's operators make the same trees: `col("age") >= 18` is the text `"age" >= 18`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import enum
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, overload

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.ranges import LARGEST, PLAIN, Size

# ---- names and public values as SQL text ---------------------------------------------------------


def folded(name: str) -> str:
    """What is the same of two names that an engine may take for one.

    DuckDB compares names without regard to the capitals of ASCII, Spark by default to those of all
    alphabets, for which "\u0131" (i without a dot) and "\u0130" (I with one) are "i". Names that
    any of them takes for one are one here, on every engine.

    >>> folded("Z") == folded("z"), folded("Z") == folded("zz")
    (True, False)
    """
    return name.upper().casefold().replace("i\u0307", "i")


def twin(names: Iterable[str]) -> str | None:
    """The first name that is another before it but for capitals; None where all differ in more.

    >>> twin(["a", "b", "A"])
    'A'
    """
    known: set[str] = set()
    for name in names:
        if folded(name) in known:
            return name
        known.add(folded(name))
    return None


def encodable(text: str) -> bool:
    r"""Whether the engine can be given this text: no U+0000 and no lone surrogate.

    >>> encodable("né"), encodable("a\x00"), encodable("\ud800")
    (True, False, False)
    """
    return "\x00" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def quoted(text: str, mark: str) -> str:
    """Text in quotes of a kind, each such mark in it doubled.

    >>> print(quoted('a"b', '"'), quoted("it's", "'"))
    "a""b" 'it''s'
    """
    return mark + text.replace(mark, mark * 2) + mark


def identifier(name: str) -> str:
    """A column or table name as a quoted SQL identifier, whatever it holds.

    >>> identifier('a"; DROP TABLE t')
    '"a""; DROP TABLE t"'
    """
    return quoted(name, '"')


def literal(value: str | int | dt.date | None) -> str:
    """A public value as a SQL literal.

    >>> literal("O'Hara"), literal(3), literal(None), literal(True)
    ("'O''Hara'", '3', 'NULL', 'TRUE')
    """
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value).upper()
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return quoted(value, "'")


def double(value: float) -> str:
    """A finite double as SQL that the engine reads back to the same bits, and as one atom.

    Without an exponent the engine would read a decimal number.

    >>> double(0.5), double(-5.0), double(1e300)
    ('0.5e0', '(-5.0e0)', '1e+300')
    """
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if value < 0 else text


# ---- kinds, columns and expressions --------------------------------------------------------------


class Kind(enum.Enum):
    """What a column or an expression holds; NULL is a value of every kind."""

    NUMBER = "number"
    """A double, never NaN or infinite."""
    INTEGER = "integer"
    """A double that is a whole number."""
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """An instant, in UTC."""

    def __init__(self, name: str) -> None:
        self.numeric = name in ("number", "integer")
        """Whether arithmetic applies."""
        self.sql_type = "DOUBLE" if self.numeric else "VARCHAR" if name == "text" else name.upper()
        """The engine's type of a column of it."""

    @staticmethod
    def of(value: float | str | dt.date) -> Kind:
        """The kind of a public value.

        >>> Kind.of(True), Kind.of(1)
        (<Kind.BOOLEAN: 'boolean'>, <Kind.INTEGER: 'integer'>)
        """
        # The kinds of more special types first: a truth value is an int, an instant a date.
        return next(kind for type_, kind in _KINDS.items() if isinstance(value, type_))


_KINDS: dict[type[object], Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    dt.datetime: Kind.TIMESTAMP,
    dt.date: Kind.DATE,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A normalised column: what an expression may count on when it names one.

    name: the identifier in the SQL the engine runs; any text that UTF-8 can hold, without U+0000.
    kind: numbers and integers are nullable DOUBLE columns; text is VARCHAR; then BOOLEAN, DATE and
    TIMESTAMP (UTC), of the years 1 to 9999.
    lower, upper: a public fact about every non-NULL number of the column, to which the producer
    has clamped it; infinite where nothing is known but the sizes that numbers have; of no meaning
    for other kinds. size: the sizes of its numbers that are not 0.

    Raises InvalidParameter for an unusable name or bounds out of order.

    >>> age = Column("age", Kind.INTEGER, 0, 120)
    >>> age.lower, age.upper, age.size.most
    (0.0, 120.0, 1e+100)
    """

    name: str
    kind: Kind
    lower: float = -math.inf
    upper: float = math.inf
    size: Size = PLAIN

    def __post_init__(self) -> None:
        named = self.name and encodable(self.name)
        expected = "a name of at least one character, without U+0000"
        checks.demand(named, "name", self.name, expected=expected)
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        expected = f"a number that is at most upper={self.upper}"  # NaN is not
        checks.demand(self.lower <= self.upper, "lower", self.lower, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression: safe DuckDB text with its kind and range.

    sql: DuckDB text written by this package from allowed parts only; evaluating it raises on no
    row whatsoever, and a number it gives is 0 or of a size from 2^-664 to 1e200, and never -0.0
    unless it is a bare column. kind: what it gives.
    lower, upper: every non-NULL number it gives lies between them, infinite where nothing is
    known; of no meaning for other kinds. An expression that only gives NULL has 0 and 0.
    size: as of a column. columns: the names of the columns it reads.
    node: the same as a tree. text: the same in the input language, comments and needless brackets
    dropped; parsing it again gives an equal expression.
    """

    sql: str
    kind: Kind
    lower: float
    upper: float
    columns: frozenset[str]
    node: Node = field(compare=False, repr=False)
    text: str
    size: Size = PLAIN

    def named(self, identifier: str) -> Column:
        """The column that it is under a name."""
        return Column(identifier, self.kind, self.lower, self.upper, self.size)


# ---- trees -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL, and an int is one that a double holds exactly."""

    value: bool | int | float | str | dt.date | dt.datetime | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column, as the caller spelled it."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function over other nodes.

    name: as written in SQL, in capitals. option: what must be constant: the type of a TRY_CAST,
    the part of an EXTRACT, the unit of DATE_DIFF, DATE_SUB, DATE_TRUNC and DATE_ADD, the digits
    of a ROUND. CASE holds condition and result in turn and the default last; SWITCH (CASE x WHEN
    ...) holds x before them. DATE_ADD holds a date and a literal number of units; AGE a later and
    an earlier date, and means whole years.
    """

    name: str
    operands: tuple[Node, ...]
    option: str | int | None = None


Node = Literal | Name | Operation


def _parts(node: Node) -> tuple[Node, ...]:
    return node.operands if isinstance(node, Operation) else ()


def names(node: Node) -> Iterator[str]:
    """Every column name in the node, as it was spelled, repetitions included.

    >>> list(names(Operation("+", (Name("a"), Name("b")))))
    ['a', 'b']
    """
    if isinstance(node, Name):
        yield node.name
    for part in _parts(node):
        yield from names(part)


def size_of(node: Node) -> int:
    """How many nodes it has."""
    return 1 + sum(map(size_of, _parts(node)))


def depth_of(node: Node) -> int:
    """How many levels it has."""
    return 1 + max(map(depth_of, _parts(node)), default=0)


# How tightly an operator binds, as sqlglot's DuckDB grammar reads it. IS DISTINCT FROM takes all
# that follows, so it binds loosest and is bracketed wherever it is an operand.
_LOOSEST, _OR, _AND, _NOT, _PREDICATE, _JOIN, _SUM, _PRODUCT, _SIGN, _ATOM = range(10)

_FORMS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "||": ("{0} || {1}", _JOIN, (_JOIN, _SUM)),
    "+": ("{0} + {1}", _SUM, (_SUM, _PRODUCT)),
    "-": ("{0} - {1}", _SUM, (_SUM, _PRODUCT)),
    **{sign: (f"{{0}} {sign} {{1}}", _PRODUCT, (_PRODUCT, _SIGN)) for sign in "*/%"},
    **{
        name: (f"{{0}} {name} {{1}}", _PREDICATE, (_JOIN, _JOIN))
        for name in ("=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE")
    },
    **{
        name: (f"{{0}} {name} {{1}}", _LOOSEST, (_JOIN, _JOIN))
        for name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    },
    "NOT": ("NOT {0}", _NOT, (_NOT,)),
    "NEGATIVE": ("-{0}", _SIGN, (_ATOM,)),
    "IS NULL": ("{0} IS NULL", _PREDICATE, (_JOIN,)),
    "BETWEEN": ("{0} BETWEEN {1} AND {2}", _PREDICATE, (_JOIN, _JOIN, _JOIN)),
    "TRY_CAST": ("TRY_CAST({0} AS {option})", _ATOM, (_LOOSEST,)),
    "EXTRACT": ("EXTRACT({option} FROM {0})", _ATOM, (_LOOSEST,)),
    "DATE_DIFF": ("DATE_DIFF('{option}', {0}, {1})", _ATOM, (_LOOSEST, _LOOSEST)),
    "DATE_SUB": ("DATE_SUB('{option}', {0}, {1})", _ATOM, (_LOOSEST, _LOOSEST)),
    "DATE_TRUNC": ("DATE_TRUNC('{option}', {0})", _ATOM, (_LOOSEST,)),
    "AGE": ("DATE_PART('year', AGE({0}, {1}))", _ATOM, (_LOOSEST, _LOOSEST)),
    "ROUND": ("ROUND({0}, {option})", _ATOM, (_LOOSEST,)),
}
"""Operations as they are written, how tightly they bind, and how tightly operands must."""


def text_of(node: Node) -> str:
    """The node in the input language, with the fewest brackets that keep its meaning.

    >>> text_of(Operation("*", (Operation("+", (Name("a"), Literal(1))), Literal(0.5))))
    '("a" + 1) * 0.5'
    """
    return _written(node)[0]


def _at(node: Node, level: int) -> str:
    """The node as an operand of what binds its operands so tightly."""
    text, binding = _written(node)
    return text if binding >= level else f"({text})"


def _listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(text_of, nodes))


def _written(node: Node) -> tuple[str, int]:
    """The node as it is written, and how tightly that binds."""
    match node:
        case Literal(value):
            negative = isinstance(value, int | float) and value < 0
            text = repr(value) if isinstance(value, float) else literal(value)
            return text, (_SIGN if negative else _ATOM)
        case Name(name):
            return identifier(name), _ATOM
        case Operation(name, operands, option) if name in _FORMS:
            form, level, levels = _FORMS[name]
            parts = [_at(operand, least) for operand, least in zip(operands, levels, strict=True)]
            return form.format(*parts, option=option), level
        case Operation("AND" | "OR" as name, operands):
            level = _AND if name == "AND" else _OR
            return f" {name} ".join(_at(operand, level + 1) for operand in operands), level
        case Operation("IN", (first, *choices)):
            return f"{_at(first, _JOIN)} IN ({_listed(choices)})", _PREDICATE
        case Operation("CASE", arms):
            return f"CASE {_arms(arms)}", _ATOM
        case Operation("SWITCH", (first, *arms)):
            return f"CASE {text_of(first)} {_arms(arms)}", _ATOM
        case Operation("DATE_ADD", (moment, Literal(int(steps))), unit):
            sign = "-" if steps < 0 else "+"
            return f"{_at(moment, _SUM)} {sign} INTERVAL {abs(steps)} {unit}", _SUM
        case Operation(name, operands):
            return f"{name}({_listed(operands)})", _ATOM


def _arms(operands: Iterable[Node]) -> str:
    *pairs, default = map(text_of, operands)
    arms = zip(pairs[::2], pairs[1::2], strict=True)
    written = " ".join(f"WHEN {condition} THEN {result}" for condition, result in arms)
    return f"{written} ELSE {default} END"


# ---- literals ----------------------------------------------------------------------------------

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?", re.ASCII)


def literal_number(text: str) -> int | float | None:
    """The number a literal means, or None where it can not be used.

    Digits alone are a whole number, which a double must hold exactly: every one up to 2^53, and
    beyond it only some. With a point or an exponent it is the double next to the decimal. What
    is no number of the language, such as 1e200, is not usable.

    >>> [literal_number(text) for text in ("18", "0.1", "9007199254740993", "1e999")]
    [18, 0.1, None, None]
    """
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    if value and not 1e-100 <= value <= LARGEST:
        return None
    if not text.isdigit():
        return value
    exact = int(text.lstrip("0") or "0")
    return exact if exact == value else None


def literal_moment(text: str, *, date: bool) -> dt.date | dt.datetime | None:
    """The date or the time (UTC) a text literal means, or None where it is none.

    >>> literal_moment("2024-02-29", date=True), literal_moment("2024-02-30", date=True)
    (datetime.date(2024, 2, 29), None)
    >>> literal_moment("2024-02-29 12:30", date=False)
    datetime.datetime(2024, 2, 29, 12, 30)
    """
    if not (_DATE if date else _TIMESTAMP).fullmatch(text):
        return None
    try:
        return (dt.date if date else dt.datetime).fromisoformat(text)
    except ValueError:
        return None


# ---- functions that are written in the language ------------------------------------------------

DERIVED: dict[str, tuple[str, str]] = {
    "CLAMP": ("x low high", "CASE WHEN x IS NOT NULL THEN LEAST(GREATEST(x, low), high) END"),
    "HYPOT": ("x y", "SQRT(x * x + y * y)"),
    "SQUARE": ("x", "x * x"),
}
"""By name, the names of the operands, and what the function means of them.

What they are made of is total, has ranges and means the same on every engine, and so do they. An
operand that stands several times in a definition is written out as often.
"""

_WRITTEN = (
    *("ABS", "SIGN", "ROUND", "FLOOR", "CEIL", "TRUNC", "MOD", "SQRT", "CBRT", "POWER", "EXP"),
    *("LN", "LOG2", "LOG10", "PI", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "ATAN2"),
    *("DEGREES", "RADIANS", "COALESCE", "IF", "IFNULL", "NULLIF", "LEAST", "GREATEST", "TRY_CAST"),
    *("LOWER", "UPPER", "LENGTH", "LEFT", "RIGHT", "SUBSTRING", "SPLIT_PART", "STRPOS", "REPLACE"),
    *("TRIM", "LTRIM", "RTRIM", "LPAD", "RPAD", "CONCAT", "CONCAT_WS", "CONTAINS", "STARTS_WITH"),
    *("ENDS_WITH", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "ISODOW", "DAYOFYEAR"),
    *("HOUR", "MINUTE", "SECOND", "EPOCH", "EXTRACT", "DATE_PART", "DATE_TRUNC", "DATE_DIFF"),
    *("DATE_SUB", "DATE_ADD", "LAST_DAY", "DAYNAME", "MONTHNAME", "MAKE_DATE", "TO_TIMESTAMP"),
    *("STRFTIME", "TRY_STRPTIME"),
)
FUNCTIONS = tuple(sorted((*_WRITTEN, *DERIVED)))
"""The names that a refusal offers."""

_TWO_DIGITS = {
    "m": "MONTH(x)",
    "d": "DAY(x)",
    "H": "HOUR(x)",
    "I": "(HOUR(x) + 11) % 12 + 1",
    "M": "MINUTE(x)",
    "S": "SECOND(x)",
}


def _padded(number: str, digits: int = 2) -> str:
    return f"LPAD(CAST({number} AS VARCHAR), {digits}, '0')"


FORMATS: dict[str, str] = {
    "%Y": _padded("YEAR(x)", 4),
    "%y": _padded("YEAR(x) % 100"),
    "%G": _padded("ISOYEAR(x)", 4),
    "%j": _padded("DAYOFYEAR(x)", 3),
    "%V": _padded("WEEK(x)"),
    "%U": _padded("FLOOR((DAYOFYEAR(x) + 6 - DAYOFWEEK(x)) / 7)"),
    "%W": _padded("FLOOR((DAYOFYEAR(x) + 7 - ISODOW(x)) / 7)"),
    "%u": "CAST(ISODOW(x) AS VARCHAR)",
    "%w": "CAST(DAYOFWEEK(x) AS VARCHAR)",
    "%B": "MONTHNAME(x)",
    "%b": "LEFT(MONTHNAME(x), 3)",
    "%A": "DAYNAME(x)",
    "%a": "LEFT(DAYNAME(x), 3)",
    "%p": "CASE WHEN HOUR(x) < 12 THEN 'AM' ELSE 'PM' END",
    "%%": "'%'",
    **{f"%{letter}": _padded(part) for letter, part in _TWO_DIGITS.items()},
    **{f"%-{letter}": f"CAST({part} AS VARCHAR)" for letter, part in _TWO_DIGITS.items()},
}
"""What the letters of STRFTIME mean of a date or an instant x."""


# ---- expressions as Python values --------------------------------------------------------------

_WRITABLE = "a column, a finite number, text, a truth value, a date or an instant"


def _operator(name: str) -> Callable[[ColumnExpression, object], ColumnExpression]:
    return lambda column, other: column._with(name, other)  # noqa: SLF001  # the same file


def _reflected(name: str) -> Callable[[ColumnExpression, object], ColumnExpression]:
    return lambda column, other: ColumnExpression(Operation(name, (_operand(other), column._node)))  # noqa: SLF001


class ColumnExpression:
    """A row-wise expression over columns, made by `col` and operators.

    The operators are arithmetic (+ - * / %), comparisons (== != < <= > >=) and conditions (& | ~).
    `str` gives the expression in SQL. Functions such as LENGTH have no operator: write the whole
    expression as SQL text.

    Examples
    --------
    >>> from unacorda import col
    >>> (col("age") >= 18) & col("town").is_in(["A", "B"])
    <expression "age" >= 18 AND "town" IN ('A', 'B')>
    >>> col("weight") / (col("height") * col("height"))
    <expression "weight" / ("height" * "height")>
    """

    __slots__ = ("_node",)
    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, node: Node) -> None:
        self._node = node

    def __str__(self) -> str:
        return text_of(self._node)

    def __repr__(self) -> str:
        return f"<expression {self}>"

    def is_in(self, values: Iterable[object]) -> ColumnExpression:
        """Test whether the value is in a list.

        Parameters
        ----------
        values
            At least one value, none of them None.

        Returns
        -------
        ColumnExpression
            A condition. It is NULL if the value is missing.

        Raises
        ------
        InvalidParameter
            For an empty list, a text, and None among the values.
        """
        if isinstance(values, str | ColumnExpression) or not isinstance(values, Iterable):
            raise InvalidParameter("is_in", values, expected="a list of values")
        listed = list(values)
        given = bool(listed) and None not in listed
        checks.demand(given, "is_in", listed, expected="at least one value, none of them None")
        return self._with("IN", *listed)

    def is_null(self) -> ColumnExpression:
        """Test for a missing value.

        Returns
        -------
        ColumnExpression
            A condition.
        """
        return self._with("IS NULL")

    def is_not_null(self) -> ColumnExpression:
        """Test for a value that is present.

        Returns
        -------
        ColumnExpression
            A condition.
        """
        return ~self.is_null()

    def between(self, lower: object, upper: object) -> ColumnExpression:
        """Test for values from lower to upper, both included.

        Parameters
        ----------
        lower, upper
            Constants or expressions.

        Returns
        -------
        ColumnExpression
            A condition. It is NULL if the value or an end is missing.
        """
        return self._with("BETWEEN", lower, upper)

    def _with(self, operator: str, *others: object) -> ColumnExpression:
        return ColumnExpression(Operation(operator, (self._node, *map(_operand, others))))

    def __eq__(self, other: object) -> ColumnExpression:  # type: ignore[override]
        return self._with("=", _not_null(other))

    def __ne__(self, other: object) -> ColumnExpression:  # type: ignore[override]
        return self._with("<>", _not_null(other))

    __lt__ = _operator("<")
    __le__ = _operator("<=")
    __gt__ = _operator(">")
    __ge__ = _operator(">=")
    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __mod__, __rmod__ = _operator("%"), _reflected("%")
    __and__, __rand__ = _operator("AND"), _reflected("AND")
    __or__, __ror__ = _operator("OR"), _reflected("OR")

    def __neg__(self) -> ColumnExpression:
        return self._with("NEGATIVE")

    def __invert__(self) -> ColumnExpression:
        return self._with("NOT")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "An expression of columns is neither true nor false. Write & for `and`, | for `or`, ~ "
            "for `not`, with brackets around comparisons; .is_in([...]) for `in`; .between(a, b) "
            "for a <= x <= b."
        )


Written = str | ColumnExpression
"""A column or an expression: SQL text, or a Python value that stands for it."""


def col(name: str) -> ColumnExpression:
    r"""Name a column in an expression: `col("age") >= 18` is the text `"age" >= 18`.

    Parameters
    ----------
    name
        The name of the column, as the table has it.

    Returns
    -------
    ColumnExpression
        An expression with Python's operators for comparison and arithmetic, and `&`, `|`, `~`.

    Raises
    ------
    InvalidParameter
        For a name that is no text.

    Examples
    --------
    >>> str((col("age") >= 18) & ~col("county").is_in(["A", "B"]))
    '"age" >= 18 AND NOT "county" IN (\'A\', \'B\')'
    """
    checks.demand(checks.is_text(name), "col", name, expected="the name of a column")
    return ColumnExpression(Name(name))


@overload
def written(value: Written) -> str: ...
@overload
def written(value: Written | None) -> str | None: ...
def written(value: Written | None) -> str | None:
    """Return the text of an expression; for a single column the column's name."""
    if not isinstance(value, ColumnExpression):
        return value
    node = value._node  # noqa: SLF001  # the same file
    return node.name if isinstance(node, Name) else str(value)


def expression_text(value: Written) -> str:
    """Return the text of an expression, also of a single column."""
    return str(value) if isinstance(value, ColumnExpression) else value


def _not_null(value: object) -> object:
    expected = "a value: write .is_null() or .is_not_null(), as NULL equals nothing"
    checks.demand(value is not None, "expression", value, expected=expected)
    return value


def _operand(value: object) -> Node:
    if isinstance(value, ColumnExpression):
        return value._node  # noqa: SLF001
    if isinstance(value, bool | str):
        return Literal(value)
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return Literal(utc)
    if isinstance(value, dt.date):
        return Literal(value)
    if isinstance(value, numbers.Integral):
        return Literal(int(value))
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return Literal(float(value))
    raise InvalidParameter("expression", value, expected=_WRITABLE)
