"""The functions of the language, of which some are written in it and so mean the same everywhere.

What these are made of is total, has ranges and is known to every engine. An operand that stands
several times in a definition is written out as often.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

__all__ = ["DERIVED", "FORMATS", "FUNCTIONS", "defined"]

DERIVED: dict[str, tuple[str, str]] = {
    "CLAMP": ("x low high", "CASE WHEN x IS NOT NULL THEN LEAST(GREATEST(x, low), high) END"),
    "HYPOT": ("x y", "SQRT(x * x + y * y)"),
    "SQUARE": ("x", "x * x"),
}
"""By name, the names of the operands, and what the function means of them."""

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

FORMATS: dict[str, str] = {
    "%Y": "LPAD(CAST(YEAR(x) AS VARCHAR), 4, '0')",
    "%y": "LPAD(CAST(YEAR(x) % 100 AS VARCHAR), 2, '0')",
    "%G": "LPAD(CAST(ISOYEAR(x) AS VARCHAR), 4, '0')",
    "%j": "LPAD(CAST(DAYOFYEAR(x) AS VARCHAR), 3, '0')",
    "%V": "LPAD(CAST(WEEK(x) AS VARCHAR), 2, '0')",
    "%U": "LPAD(CAST(FLOOR((DAYOFYEAR(x) + 6 - DAYOFWEEK(x)) / 7) AS VARCHAR), 2, '0')",
    "%W": "LPAD(CAST(FLOOR((DAYOFYEAR(x) + 7 - ISODOW(x)) / 7) AS VARCHAR), 2, '0')",
    "%u": "CAST(ISODOW(x) AS VARCHAR)",
    "%w": "CAST(DAYOFWEEK(x) AS VARCHAR)",
    "%B": "MONTHNAME(x)",
    "%b": "LEFT(MONTHNAME(x), 3)",
    "%A": "DAYNAME(x)",
    "%a": "LEFT(DAYNAME(x), 3)",
    "%p": "CASE WHEN HOUR(x) < 12 THEN 'AM' ELSE 'PM' END",
    "%%": "'%'",
    **{
        f"%{sign}{letter}": text if sign else f"LPAD({text}, 2, '0')"
        for letter, part in {
            "m": "MONTH(x)",
            "d": "DAY(x)",
            "H": "HOUR(x)",
            "I": "(HOUR(x) + 11) % 12 + 1",
            "M": "MINUTE(x)",
            "S": "SECOND(x)",
        }.items()
        for text in [f"CAST({part} AS VARCHAR)"]
        for sign in ("", "-")
    },
}
"""What the letters of STRFTIME mean of a date or an instant x."""


def defined(name: str, literals: tuple[object, ...]) -> tuple[str, str]:
    """The names of the operands of a function, and what it means of them.

    literals: its operands that are literals, in order.

    >>> defined("SQUARE", ())
    ('x', 'x * x')
    >>> defined("STRFTIME", ("%Y-%-m",))[1][:60]
    'CASE WHEN x IS NOT NULL THEN CONCAT(LPAD(CAST(YEAR(x) AS VAR'
    """
    if name == "STRFTIME":
        (layout,) = literals
        parts = [part for part in _LETTERS.split(str(layout)) if part]
        texts = [FORMATS.get(part) or "'" + part.replace("'", "''") + "'" for part in parts]
        listed = ", ".join(texts) or "''"
        return "x layout", f"CASE WHEN x IS NOT NULL THEN CONCAT({listed}) END"
    return DERIVED[name]


_LETTERS = re.compile("(" + "|".join(map(re.escape, FORMATS)) + ")")
