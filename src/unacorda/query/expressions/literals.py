"""Constants: what a number, date or time written in an expression means."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import re

from unacorda.query.expressions.types import LARGEST

__all__ = ["moment", "number"]

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?", re.ASCII)


def number(text: str) -> int | float | None:
    """The number a literal means, or None where it can not be used.

    Digits alone are a whole number, which a double must hold exactly: every one up to 2^53, and
    beyond it only some. With a point or an exponent it is the double next to the decimal. What
    is no number of the language, such as 1e200, is not usable.

    >>> number("18"), number("0.1"), number("9007199254740993"), number("1e999")
    (18, 0.1, None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    if value and not 1e-100 <= value <= LARGEST:
        return None
    if not text.isdigit():
        return value
    exact = int(value)
    return exact if text.lstrip("0") in (str(exact), "") or exact == 0 else None


def moment(text: str, *, date: bool) -> dt.date | dt.datetime | None:
    """The date or the time (UTC) a text literal means, or None where it is none.

    >>> moment("2024-02-29", date=True), moment("2024-02-30", date=True)
    (datetime.date(2024, 2, 29), None)
    >>> moment("2024-02-29 12:30", date=False)
    datetime.datetime(2024, 2, 29, 12, 30)
    """
    if not (_DATE if date else _TIMESTAMP).fullmatch(text):
        return None
    try:
        if date:
            return dt.date.fromisoformat(text)
        return _time(text)
    except ValueError:
        return None


def _time(text: str) -> dt.datetime:
    whole, _, part = text.partition(".")
    moment = dt.datetime.fromisoformat(whole)
    return moment.replace(microsecond=int(part.ljust(6, "0"))) if part else moment
