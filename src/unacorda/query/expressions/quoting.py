"""Names and public values as SQL text, whatever signs they hold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable


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
