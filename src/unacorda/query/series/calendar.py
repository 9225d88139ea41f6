"""The steps of a series: how long they are, when they begin, and in which one a row lies."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias, cast, get_args

from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.over_time.bounds import MOST_STEPS

Every: TypeAlias = Literal["hour", "day", "week", "month"]
"""How long a step is."""

_DAYS = {"hour": Fraction(1, 24), "day": Fraction(1), "week": Fraction(7), "month": Fraction(28)}
_LATEST: Final = dt.timedelta(hours=14)
"""By how much a clock somewhere on earth is ahead of UTC at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Steps of one length from a start on.

    steps: how many there are, None without an end.
    """

    every: Every
    start: dt.datetime
    steps: int | None

    @staticmethod
    def of(*, every: object, start: object, steps: object) -> Calendar:
        """The calendar of these arguments; InvalidParameter for what is none."""
        expected = "how long a step is: 'hour', 'day', 'week' or 'month'"
        demand(every in get_args(Every), "every", every, expected=expected)
        length = cast("Every", every)
        begin = _moment("start", start)
        whole = begin if length == "hour" else begin.replace(hour=0)
        if length == "month":
            whole = whole.replace(day=1)
        whole = whole.replace(minute=0, second=0, microsecond=0)
        shown = str(whole if length == "hour" else whole.date())
        expected = f"the beginning of a {length}, such as {shown!r}"
        demand(begin == whole, "start", start, expected=expected)
        if steps is not None:
            whole_number = isinstance(steps, int) and not isinstance(steps, bool)
            expected = f"a whole number from 1 to {MOST_STEPS:,}"
            fits = whole_number and 1 <= cast("int", steps) <= MOST_STEPS
            demand(fits, "steps", steps, expected=expected)
            months = 1.09 if length == "month" else 1
            years = float(cast("int", steps) * _DAYS[length]) / 365 * months + begin.year
            demand(years < 9_990, "steps", steps, expected="an end before the year 9990")
        return Calendar(every=length, start=begin, steps=cast("int | None", steps))

    def begins(self, step: int) -> dt.datetime:
        """When a step begins."""
        if self.every == "month":
            months = self.start.year * 12 + self.start.month - 1 + step
            return self.start.replace(year=months // 12, month=months % 12 + 1)
        return self.start + step * dt.timedelta(**{f"{self.every}s": 1})

    def label(self, step: int) -> dt.date:
        """The name of a step: its date, or the instant at which it begins."""
        begins = self.begins(step)
        return begins if self.every == "hour" else begins.date()

    def step_of(self, day: object) -> int:
        """The step in which a day or an instant lies; InvalidParameter where none of them does."""
        moment = _moment("day", day)
        if self.every == "month":
            step = (moment.year - self.start.year) * 12 + moment.month - self.start.month
        else:
            step = (moment - self.start) // dt.timedelta(**{f"{self.every}s": 1})
        last = "" if self.steps is None else f" to {self.label(self.steps - 1)}"
        inside = step >= 0 and (self.steps is None or step < self.steps)
        expected = f"one of the series, {self.label(0)}{last or ' and later'}"
        demand(inside, "day", day, expected=expected)
        return step

    def check_closed(self, step: int) -> None:
        """Raise InvalidParameter for a step that has not ended anywhere on earth."""
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        ended = self.begins(step + 1) <= now + _LATEST
        expected = "a step that has ended: rows that come after its answer would count nowhere"
        demand(ended, "day", str(self.label(step)), expected=expected)

    def number(self, by: str, *, kind: Literal["date", "timestamp"]) -> str:
        """The text of the expression of the step of a row, from 0.

        by: that of when the row became visible, of this kind.
        """
        begin: dt.date = self.start if kind == "timestamp" else self.start.date()
        literal = {dt.datetime: "TIMESTAMP", dt.date: "DATE"}[type(begin)]
        unit, width = ("day", 7) if self.every == "week" else (self.every, 1)
        text = f"date_diff('{unit}', {literal} '{begin}', {by})"
        return f"floor({text} / {width})" if width > 1 else text


def _moment(argument: str, given: object) -> dt.datetime:
    """The instant that a caller means; a date is its beginning."""
    found: object = given
    if isinstance(given, str):
        try:
            found = dt.datetime.fromisoformat(given)
        except ValueError:
            found = None
    elif isinstance(given, dt.date) and not isinstance(given, dt.datetime):
        found = dt.datetime(given.year, given.month, given.day)  # noqa: DTZ001
    if isinstance(found, dt.datetime) and found.tzinfo is None:
        return found
    expected = "a date such as '2025-01-31', or an instant without a time zone"
    raise InvalidParameter(argument, given, expected=expected)
