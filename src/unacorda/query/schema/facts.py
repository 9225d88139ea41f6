"""Public facts about columns, lists of dates as keys, and the public keys of groups."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import math
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Kind, encodable
from unacorda.query.expressions.ranges import LARGEST, SMALLEST

Key = str | int | bool | dt.date | None
"""A value that a group may have; None stands for rows where the column is NULL."""

MOST_KEYS = 1_000_000
"""In one question, all combinations counted."""

_FARTHEST = max(Fraction(LARGEST), Fraction(10**100))
_NEAREST = min(Fraction(SMALLEST), Fraction(1, 10**100))
_PAST_EXACT = 2**53  # doubles tell all smaller whole numbers apart


@dataclass(frozen=True, slots=True, init=False)
class Bounds:
    """A column of numbers and the range to which its values are clamped.

    Take the numbers from the questionnaire, from physics or from regulations. They must not be read
    from the data.

    Parameters
    ----------
    lower, upper
        Public numbers in the column's unit, lower < upper, of a size up to 1e100.

    Raises
    ------
    InvalidParameter
        For numbers that are not such a range.

    Examples
    --------
    >>> Bounds(0, 120)
    Bounds(lower=0.0, upper=120.0)
    """

    tag: ClassVar[str] = "bounds"

    lower: float
    upper: float

    def __init__(self, lower: Number, upper: Number) -> None:
        low, high = interval(lower, upper)
        object.__setattr__(self, "lower", float(low))
        object.__setattr__(self, "upper", float(high))


@dataclass(frozen=True, slots=True, init=False)
class Categories:
    """A column with a public list of values; `group_by` then needs no `keys`.

    Parameters
    ----------
    values
        At most 1,000,000 values, each once: text, whole numbers, booleans or dates, all of one
        type; None for NULL. They must be public, not read from the data.

    Raises
    ------
    InvalidParameter
        For an empty list, values of two types, a repeated value, and numbers that are not whole.

    Examples
    --------
    >>> Categories(["A", "B"]).values
    ('A', 'B')
    """

    tag: ClassVar[str] = "categories"

    values: tuple[Key, ...]

    def __init__(self, values: Iterable[Key]) -> None:
        object.__setattr__(self, "values", check_keys("values", values))


@dataclass(frozen=True, slots=True, init=False)
class Dates:
    """A column of dates (in text: YYYY-MM-DD).

    The range determines the dates of a synthetic table. Answers to other questions are about all
    dates.

    Parameters
    ----------
    first, last
        The ends of a public range, as dates or as text, first < last; or neither.

    Raises
    ------
    InvalidParameter
        For a value that is not a date, for one end without the other, and for an empty range.

    Examples
    --------
    >>> Dates("2024-01-01", "2024-12-31").last
    datetime.date(2024, 12, 31)
    """

    tag: ClassVar[str] = "dates"

    first: dt.date | None
    last: dt.date | None

    def __init__(
        self, first: str | dt.date | None = None, last: str | dt.date | None = None
    ) -> None:
        start = None if first is None else _date("first", first)
        end = None if last is None else _date("last", last)
        alone = (start is None) != (end is None)
        missing = "first" if start is None else "last"
        checks.demand(not alone, missing, None, expected="both a first and a last date, or neither")
        if start is not None and end is not None:
            checks.demand(start < end, "last", last, expected=f"a date after {start}")
        object.__setattr__(self, "first", start)
        object.__setattr__(self, "last", end)


@dataclass(frozen=True, slots=True)
class Text:
    """A column of text, even where its values look like numbers.

    Examples
    --------
    >>> columns = {"zip_code": Text()}
    >>> columns["zip_code"]
    Text()
    """

    tag: ClassVar[str] = "text"


Fact = Bounds | Categories | Dates | Text
"""What may be declared of a column, each kind fixing its type."""


def interval(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Check the two ends of a public range and return them exactly.

    Raises InvalidParameter for NaN, infinity, lower >= upper, ends beyond the range of numbers, and
    ends that are equal in float64, the type of the values.
    """
    low, high = checks.exact("lower", lower), checks.exact("upper", upper)
    checks.demand(low < high, "lower", lower, expected=f"a number below upper={upper!r}")
    fits = max(abs(low), abs(high)) <= _FARTHEST and high - low >= _NEAREST
    checks.demand(
        fits, "upper", upper, expected="bounds within 1e100 that are at least 1e-100 apart"
    )
    expected = "a float64 above that of the lower bound"
    checks.demand(float(low) != float(high), "upper", upper, expected=expected)
    return low, high


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
    start, end = _date("first", first), _date("last", last)
    checks.demand(start <= end, "last", last, expected=f"a date from {start} on")
    if every in _MONTHS:
        step = _MONTHS[every]
        months = range(_month(start) // step * step, _month(end) + 1, step)
        return tuple(dt.date(month // 12, month % 12 + 1, 1) for month in months)
    expected = "'day', 'week', 'month', 'quarter' or 'year'"
    checks.demand(every in {"day", "week"}, "every", every, expected=expected)
    step = 7 if every == "week" else 1
    begin = start.toordinal() - (start.weekday() if every == "week" else 0)
    days = range(max(begin, 1), end.toordinal() + 1, step)
    checks.demand(len(days) <= MOST_KEYS, "last", last, expected=f"at most {MOST_KEYS:,} dates")
    return tuple(map(dt.date.fromordinal, days))


def _month(day: dt.date) -> int:
    return day.year * 12 + day.month - 1


def _date(argument: str, value: object) -> dt.date:
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
    check_few([rows])
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


def check_few(lists: Sequence[Sequence[object]]) -> None:
    """Raise InvalidParameter if there are too many combinations."""
    cells = math.prod(map(len, lists))
    checks.demand(cells <= MOST_KEYS, "keys", f"{cells:,} keys", expected=f"at most {MOST_KEYS:,}")
