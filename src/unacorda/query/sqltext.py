"""Names and public values as SQL text, whatever signs they hold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from unacorda.query.columns import Key

__all__ = ["double", "identifier", "literal"]


def identifier(name: str) -> str:
    """A column or table name as a quoted SQL identifier, whatever it holds.

    >>> identifier('a"; DROP TABLE t')
    '"a""; DROP TABLE t"'
    """
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def literal(value: Key) -> str:
    """A public value as a SQL literal.

    >>> literal("O'Hara"), literal(3), literal(None), literal(True)
    ("'O''Hara'", '3', 'NULL', 'TRUE')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return exp.Literal.string(value).sql(dialect="duckdb")


def double(value: float) -> str:
    """A finite double as a SQL literal that the engine reads back to the same bits.

    Without an exponent the engine would read a decimal number.

    >>> double(0.5), double(1e300)
    ('0.5e0', '1e+300')
    """
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"
