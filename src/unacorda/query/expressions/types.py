"""The values of the expression language: kinds, columns, parsed expressions and constants."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import enum
import math
import re
from dataclasses import dataclass

from unacorda import checks

__all__ = [
    "LARGEST",
    "SMALLEST",
    "Column",
    "Expression",
    "Kind",
    "literal_moment",
    "literal_number",
]


LARGEST, SMALLEST = 1e100, 2.0**-332
"""The sizes to which numbers are held: every one that a column has is between them, or 0."""


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
        match value:
            case bool():
                return Kind.BOOLEAN
            case int():
                return Kind.INTEGER
            case float():
                return Kind.NUMBER
            case str():
                return Kind.TEXT
            case dt.datetime():
                return Kind.TIMESTAMP
            case dt.date():
                return Kind.DATE


@dataclass(frozen=True, slots=True)
class Column:
    """A normalised column: what an expression may count on when it names one.

    name: the identifier in the SQL the engine runs; any text that UTF-8 can hold, without U+0000.
    kind: numbers and integers are nullable DOUBLE columns; text is VARCHAR; then BOOLEAN, DATE and
    TIMESTAMP (UTC), of the years 1 to 9999.
    lower, upper: a public fact about every non-NULL number of the column, to which the producer
    has clamped it; infinite where nothing is known but the sizes that numbers have; of no meaning
    for other kinds. least, most: the sizes of its numbers that are not 0; step: a power of 2 of
    which all of them are multiples, where it is known.

    Raises InvalidParameter for an unusable name or bounds out of order.

    >>> age = Column("age", Kind.INTEGER, 0, 120)
    >>> age.lower, age.upper, age.most
    (0.0, 120.0, 1e+100)
    """

    name: str
    kind: Kind
    lower: float = -math.inf
    upper: float = math.inf
    least: float = SMALLEST
    most: float = LARGEST
    step: float | None = None

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
    least, most, step: as of a column.
    columns: the names of the columns it reads.
    text: the same expression in the input language, comments and needless brackets dropped;
    parsing it again gives an equal expression.
    """

    sql: str
    kind: Kind
    lower: float
    upper: float
    columns: frozenset[str]
    text: str
    least: float = SMALLEST
    most: float = LARGEST
    step: float | None = None

    def named(self, identifier: str) -> Column:
        """The column that it is under a name."""
        return Column(
            identifier, self.kind, self.lower, self.upper, self.least, self.most, self.step
        )


def encodable(text: str) -> bool:
    r"""Whether the engine can be given this text: no U+0000 and no lone surrogate.

    >>> encodable("né"), encodable("a\x00"), encodable("\ud800")
    (True, False, False)
    """
    return "\x00" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


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
