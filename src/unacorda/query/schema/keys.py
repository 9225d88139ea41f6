"""Public keys of groups: lists of values, dates and tuples, and keys that are written as text."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Kind, encodable

Key = str | int | bool | dt.date | None
"""A value that a group may have; None stands for rows where the column is NULL."""

MOST_KEYS = 1_000_000
"""In one question, all combinations counted."""

_PAST_EXACT = 2**53  # doubles tell all smaller whole numbers apart
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")


def check_keys(argument: str, values: Iterable[Key]) -> tuple[Key, ...]:
    """The keys as a tuple: not empty, no duplicates, one type (None may join any).

    Raises InvalidParameter, which names the first key that is not valid. Warns if two texts look
    the same (equal after Unicode NFC) but differ in their code points.
    """
    checks.demand(_is_list(values), argument, values, expected="a list of public values")
    keys = tuple(plain_key(argument, value) for value in itertools.islice(values, MOST_KEYS + 1))
    few = len(keys) <= MOST_KEYS
    checks.demand(few, argument, "a longer list", expected=f"at most {MOST_KEYS:,} values")
    checks.demand(keys, argument, [], expected="at least one value")
    kinds = sorted({type(key).__name__ for key in keys if key is not None})
    expected = f"values of one type, not {' and '.join(kinds)}"
    checks.demand(len(kinds) <= 1, argument, keys, expected=expected)
    if len(set(keys)) < len(keys):
        again = next(key for key, times in Counter(keys).items() if times > 1)
        raise InvalidParameter(argument, again, expected="no value twice in the list of keys")
    texts = [key for key in keys if isinstance(key, str)]
    if len({unicodedata.normalize("NFC", text) for text in texts}) < len(texts):
        warnings.warn(
            f"{argument}: two keys look alike and differ in their code points (Unicode NFC); "
            "they are counted as two.",
            stacklevel=3,
        )
    return keys


def _is_list(values: object) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, str | bytes)


def plain_key(argument: str, value: object) -> Key:
    """Convert a key to a plain Python value.

    The key may come from an array or an enumeration. Raises InvalidParameter for values that cannot
    be keys: floats (NaN too), instants, bytes, lists, and text that the engine cannot hold.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # NumPy scalars
    elif hasattr(value, "as_py"):
        value = value.as_py()  # Arrow scalars
    match value:
        case None | bool():
            return value
        case str() if encodable(value):
            return str.__str__(value)
        case str():
            expected = "text in valid Unicode, without U+0000"
        case int() if abs(value) < _PAST_EXACT:
            return int(value)
        case int():
            expected = "whole numbers below 2^53, or text"
        case dt.datetime() if _is_day(value):
            return value.date()  # as pandas' lists of days hold them
        case dt.datetime():
            expected = "dates without a time of day as keys"
        case dt.date():
            return value
        case float():
            expected = "text, whole numbers, booleans or dates; cut numbers into classes"
        case _:
            expected = "text, a whole number, a boolean, a date or None"
    raise InvalidParameter(argument, value, expected=expected)


def _is_day(value: dt.datetime) -> bool:
    """Whether it is midnight by no clock in particular; NaT is not equal to itself."""
    there = value == value and value.tzinfo is None  # noqa: PLR0124
    return there and value.time() == dt.time() and not getattr(value, "nanosecond", 0)


_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def dates(
    first: str | dt.date,
    last: str | dt.date,
    *,
    every: Literal["day", "week", "month", "quarter", "year"] = "day",
) -> tuple[dt.date, ...]:
    """List the dates from `first` up to `last`: `group_by("day", keys=unacorda.dates(..., ...))`.

    Parameters
    ----------
    first, last
        The first and the last date, both included, as dates or as text such as "2024-01-31".
    every
        "day", "week", "month", "quarter" or "year". For all but "day", the list has the first day
        of every period that overlaps the range, as DATE_TRUNC gives it. Weeks begin on Mondays.

    Returns
    -------
    tuple of datetime.date
        At most 1,000,000 dates, rising.

    Raises
    ------
    InvalidParameter
        For a value that is not a date, an empty range, another step, and too many dates.

    Examples
    --------
    >>> [str(day) for day in dates("2024-01-15", "2024-03-01", every="month")]
    ['2024-01-01', '2024-02-01', '2024-03-01']
    """
    start, end = date_of("first", first), date_of("last", last)
    checks.demand(start <= end, "last", last, expected=f"a date from {start} on")
    checks.choice(("day", "week", "month", "quarter", "year"), every=every)
    if every in _MONTHS:
        step = _MONTHS[every]
        months = range(_month(start) // step * step, _month(end) + 1, step)
        return tuple(dt.date(month // 12, month % 12 + 1, 1) for month in months)
    step = 7 if every == "week" else 1
    begin = start.toordinal() - (start.weekday() if every == "week" else 0)
    days = range(max(begin, 1), end.toordinal() + 1, step)
    checks.demand(len(days) <= MOST_KEYS, "last", last, expected=f"at most {MOST_KEYS:,} dates")
    return tuple(map(dt.date.fromordinal, days))


def _month(day: dt.date) -> int:
    return day.year * 12 + day.month - 1


def date_of(argument: str, value: object) -> dt.date:
    """A date, or its text YYYY-MM-DD, as a date."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    try:
        return dt.date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        pass
    raise InvalidParameter(argument, value, expected="a date, or text such as '2024-01-31'")


def key_kinds(keys: Sequence[Key]) -> tuple[Kind, ...]:
    """The kinds of column that can have these keys as values."""
    sample = next((key for key in keys if key is not None), None)
    if sample is None:
        return tuple(Kind)
    kind = Kind.of(sample)
    return (kind, Kind.NUMBER) if kind is Kind.INTEGER else (kind,)


def tuples_of(columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
    """Check keys of several columns that are given as tuples."""
    expected = f"a list of tuples, one value for each of {', '.join(columns)}"
    checks.demand(_is_list(keys), "keys", keys, expected=expected)
    rows = [
        tuple(key) if isinstance(key, tuple | list) else None
        for key in itertools.islice(keys, MOST_KEYS + 1)
    ]
    few = len(rows) <= MOST_KEYS
    checks.demand(few, "keys", "a longer list", expected=f"at most {MOST_KEYS:,} tuples")
    fits = rows and all(row is not None and len(row) == len(columns) for row in rows)
    checks.demand(fits, "keys", keys, expected=expected)
    names = [f"keys[{name!r}]" for name in columns]
    whole = [tuple(map(plain_key, names, row)) for row in rows if row is not None]
    for index, name in enumerate(names):
        # Distinguished by type too: 1 and True are equal.
        found = dict.fromkeys((type(row[index]), row[index]) for row in whole)
        check_keys(name, [key for _, key in found])
    checks.demand(len(set(whole)) == len(whole), "keys", keys, expected="no key twice")
    return tuple(whole)


_TRUTHS = {"true": True, "false": False}


def _integer(key: str) -> int:
    if not _WHOLE.fullmatch(key) or len(key) > 20:
        raise ValueError(key)
    return int(key)


_READERS: Mapping[Kind, tuple[Callable[[str], Key], str]] = {
    Kind.DATE: (dt.date.fromisoformat, "dates, as YYYY-MM-DD"),
    Kind.BOOLEAN: (lambda key: _TRUTHS[key.lower()], "true or false"),
    Kind.INTEGER: (_integer, "whole numbers, since the column holds numbers"),
    Kind.TEXT: (str, "text"),
}


def typed_keys(argument: str, written: Sequence[str], kinds: set[Kind]) -> list[Key]:
    """Keys that are written as text, as values of a column that may be read as these kinds.

    A column of whole numbers, dates, booleans or text takes keys of that kind. One of text that is
    not declared takes whole numbers where every key is one (01 is not), booleans where every key is
    true or false, and text otherwise. Raises InvalidParameter, naming `argument`, for a key that
    does not fit.

    >>> typed_keys("keys", ["2024-01-31"], {Kind.DATE})
    [datetime.date(2024, 1, 31)]
    """
    kind = Kind.TEXT
    if kinds == {Kind.DATE}:
        kind = Kind.DATE
    elif kinds == {Kind.BOOLEAN} or (
        Kind.BOOLEAN in kinds and {key.lower() for key in written} <= _TRUTHS.keys()
    ):
        kind = Kind.BOOLEAN
    elif any(one.numeric for one in kinds):
        whole = all(_WHOLE.fullmatch(key) for key in written)
        if whole or all(one.numeric for one in kinds):  # in the latter the first is at fault
            kind = Kind.INTEGER
    read, expected = _READERS[kind]
    found: list[Key] = []
    for key in written:
        with suppress(ValueError, KeyError):
            found.append(read(key))
            continue
        raise InvalidParameter(argument, key, expected=expected)
    return found
