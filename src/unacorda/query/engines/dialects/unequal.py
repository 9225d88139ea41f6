"""What is known to have another value on other engines: why, and what may be written instead."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

__all__ = [
    "UNEQUAL",
]

_LAST_BIT = (
    "its last bit differs between libraries, which ROUND moves and does not remove",
    "x * x or SQRT(x) where they do",
)
_CURVES = ("LN", "EXP", "POWER", "CBRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "ATAN2")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_FORMATS = ("its formats differ", "EXTRACT and comparisons with dates")

UNEQUAL: dict[str, tuple[str, str]] = {
    **dict.fromkeys((*_CURVES, "LOG2 and LOG10"), _LAST_BIT),
    **dict.fromkeys(("STRFTIME", "TRY_STRPTIME"), _FORMATS),
    **dict.fromkeys(
        [f"CAST of text AS {kind}" for kind in _WHOLE],
        (
            "DuckDB reads fractions, exponents and other bases there",
            "ROUND(CAST(text AS DOUBLE))",
        ),
    ),
    **dict.fromkeys(
        ("CAST of text AS DATE", "CAST of text AS TIMESTAMP"),
        ("it has fewer years than DuckDB and reads other texts", "a column of that type"),
    ),
    "CAST of a number AS VARCHAR": (
        "other digits are written",
        "CAST(ROUND(x) AS INTEGER), which has one text",
    ),
    "REVERSE": (
        "DuckDB turns what a reader sees as one sign, others turn code points",
        "a condition on SUBSTRING(x, 1, 1) or on RIGHT(x, 1)",
    ),
}
"""By the name of the construct, as the translation to an engine calls it."""
