"""Public lists of dates, as keys of a group."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from typing import Literal

from unacorda.errors import InvalidParameter
from unacorda.query.columns import MOST_KEYS

__all__ = ["dates"]

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def dates(
    first: str | dt.date,
    last: str | dt.date,
    *,
    every: Literal["day", "week", "month", "quarter", "year"] = "day",
) -> tuple[dt.date, ...]:
    """The dates from `first` up to `last`: `group_by("day", keys=unacorda.dates(..., ...))`.

    Of weeks, months, quarters and years the first day, as DATE_TRUNC gives it, of every one that
    has a day in the range; weeks begin on Mondays. Raises InvalidParameter for what is no date, an
    empty range, or more than a million dates.

    >>> [str(day) for day in dates("2024-01-15", "2024-03-01", every="month")]
    ['2024-01-01', '2024-02-01', '2024-03-01']
    """
    start, end = _date("first", first), _date("last", last)
    if end < start:
        raise InvalidParameter("last", last, expected=f"a date from {start} on")
    if every in _MONTHS:
        step = _MONTHS[every]
        months = range(_month(start) // step * step, _month(end) + 1, step)
        return tuple(dt.date(month // 12, month % 12 + 1, 1) for month in months)
    if every not in {"day", "week"}:
        raise InvalidParameter(
            "every", every, expected="'day', 'week', 'month', 'quarter' or 'year'"
        )
    step = 7 if every == "week" else 1
    begin = start.toordinal() - (start.weekday() if every == "week" else 0)
    days = range(max(begin, 1), end.toordinal() + 1, step)
    if len(days) > MOST_KEYS:
        raise InvalidParameter("last", last, expected=f"at most {MOST_KEYS:,} dates")
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
