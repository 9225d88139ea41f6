"""The values of the expression language: kinds, normalised columns, parsed expressions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from unacorda.errors import InvalidParameter

__all__ = ["LARGEST", "SMALLEST", "Column", "Expression", "Kind"]

LARGEST, SMALLEST = 1e150, 1e-150
"""The sizes between which every number is that is not 0."""


class Kind(enum.Enum):
    """What a column or an expression holds; NULL is a value of every kind."""

    NUMBER = "number"
    """A double: 0, or of a size from SMALLEST to LARGEST."""
    INTEGER = "integer"
    """A whole number up to LARGEST, as a double."""
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """An instant, in UTC."""

    @property
    def numeric(self) -> bool:
        """Whether arithmetic applies.

        >>> Kind.INTEGER.numeric, Kind.TEXT.numeric
        (True, False)
        """
        return self in (Kind.NUMBER, Kind.INTEGER)


@dataclass(frozen=True, slots=True)
class Column:
    """A normalised column: what an expression may count on when it names one.

    name: the identifier in the SQL the engine runs; any text that UTF-8 can hold, without U+0000.
    kind: numbers and integers are nullable DOUBLE columns; text is VARCHAR; then BOOLEAN, DATE and
    TIMESTAMP (UTC), of the years 1 to 9999.
    lower, upper: a public fact about every non-NULL number of the column, to which the producer
    has clamped it; infinite where nothing is known but the sizes that numbers have; of no meaning
    for other kinds. least, most: the sizes of its numbers that are not 0.

    Raises InvalidParameter for an unusable name or bounds out of order.

    >>> age = Column("age", Kind.INTEGER, 0, 120)
    >>> age.lower, age.upper, age.least, age.most
    (0.0, 120.0, 1e-150, 1e+150)
    """

    name: str
    kind: Kind
    lower: float = -math.inf
    upper: float = math.inf
    least: float = SMALLEST
    most: float = LARGEST

    def __post_init__(self) -> None:
        if not self.name or not encodable(self.name):
            raise InvalidParameter(
                "name", self.name, expected="a name of at least one character, without U+0000"
            )
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))
        if not self.lower <= self.upper:  # also false where one is NaN
            raise InvalidParameter(
                "lower", self.lower, expected=f"a number that is at most upper={self.upper}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression: safe DuckDB text with its kind and range.

    sql: DuckDB text written by this package from allowed parts only; evaluating it raises on no
    row whatsoever, and a number it gives is 0 or of a size from SMALLEST to LARGEST, and never -0.0
    unless it is a bare column. kind: what it gives.
    lower, upper: every non-NULL number it gives lies between them, infinite where nothing is
    known; of no meaning for other kinds. An expression that only gives NULL has 0 and 0.
    least, most: the sizes of its numbers that are not 0.
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

    def named(self, identifier: str) -> Column:
        """The column that it is under a name."""
        return Column(identifier, self.kind, self.lower, self.upper, self.least, self.most)


def encodable(text: str) -> bool:
    r"""Whether the engine can be given this text: no U+0000 and no lone surrogate.

    >>> encodable("né"), encodable("a\x00"), encodable("\ud800")
    (True, False, False)
    """
    return "\x00" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)
