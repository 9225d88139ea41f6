"""Contribution bounds while rows still arrive, and the kinds of answers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from unacorda import checks
from unacorda.display import counted
from unacorda.errors import InvalidParameter

MOST_STEPS = 100_000
"""Of one series."""
_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Contribution bounds of a series: the first rows of a person count.

    Whether a row counts depends on the person's rows up to its step, since later rows have not
    arrived.

    Parameters
    ----------
    max_steps
        A person counts in their first `max_steps` steps with rows; None if only `max_rows` bounds
        them.
    max_rows_per_step
        The most rows of a person that count in one step, chosen by a salted hash; by default 1, or
        `max_rows` if that is the only bound.
    within
        The length of a period in steps. `max_steps` applies anew in each period, so contributions
        are spread over time, and the noise grows with the number of periods.
    max_rows
        The most rows of a person that count in total.

    Raises
    ------
    InvalidParameter
        If neither `max_steps` nor `max_rows` is given, if a number is not a whole number above 0,
        or if `within` is shorter than `max_steps` or given with `max_rows`.

    Examples
    --------
    >>> OverTime(max_steps=10)
    OverTime(max_steps=10, max_rows_per_step=1, within=None, max_rows=None)
    >>> print(OverTime(max_steps=3, within=30))
    1 row in each of the first 3 steps of every 30
    """

    tag: ClassVar[str] = "over_time"

    max_steps: int | None = None
    max_rows_per_step: int | None = None
    within: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        for name, most in (
            ("max_steps", MOST_STEPS),
            ("max_rows_per_step", _MOST_ROWS),
            ("within", MOST_STEPS),
            ("max_rows", _MOST_ROWS),
        ):
            value = getattr(self, name)
            if value is not None:
                number = checks.positive_integer(**{name: value})
                checks.demand(number <= most, name, value, expected=f"at most {most:,}")
                object.__setattr__(self, name, number)
        bounded = self.max_steps is not None or self.max_rows is not None
        expected = "in how many steps a person counts, such as max_steps=10; or max_rows="
        checks.demand(bounded, "max_steps", None, expected=expected)
        if self.max_rows_per_step is None:
            each = 1 if self.max_steps is not None else self.max_rows
            object.__setattr__(self, "max_rows_per_step", each)
        if self.within is not None:
            fits = self.max_steps is not None and self.max_rows is None
            expected = "it with max_steps= alone: the steps that count in each period"
            checks.demand(fits, "within", self.within, expected=expected)
            assert self.max_steps is not None
            expected = f"at least max_steps={self.max_steps}: no period has more steps than it has"
            checks.demand(self.within >= self.max_steps, "within", self.within, expected=expected)

    @property
    def each(self) -> int:
        """How many rows of a person count in one step."""
        assert self.max_rows_per_step is not None
        return self.max_rows_per_step

    @property
    def once(self) -> bool:
        """Whether only one row of a person counts in total."""
        return self.within is None and 1 in (self.max_rows, (self.max_steps or 2) * self.each)

    def __str__(self) -> str:
        rows = counted(self.each, "row")
        parts = []
        if self.max_steps is not None:
            first = "first step" if self.max_steps == 1 else f"first {self.max_steps:,} steps"
            every = "" if self.within is None else f" of every {self.within:,}"
            where = "in the" if self.max_steps == 1 else "in each of the"
            parts.append(f"{rows} {where} {first}{every}")
        if self.max_rows is not None:
            whole = "the first row" if self.max_rows == 1 else f"the first {self.max_rows:,} rows"
            if self.max_steps is None and self.each < self.max_rows:
                whole += f", {rows} in a step"
            parts.append(whole)
        return ", and of these ".join(parts)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Sums over the last `width` steps. Made by `window`."""

    tag: ClassVar[str] = "window"

    width: int

    def __post_init__(self) -> None:
        width = checks.positive_integer(width=self.width)
        expected = f"from 2 to {MOST_STEPS:,} steps: one alone is 'steps'"
        checks.demand(2 <= width <= MOST_STEPS, "width", self.width, expected=expected)
        object.__setattr__(self, "width", width)

    def __str__(self) -> str:
        return f"window{self.width}"


def window(width: int) -> SlidingWindow:
    """Ask for sums over the last `width` steps: `wanted=("totals", unacorda.window(28))`.

    Parameters
    ----------
    width
        The number of steps, from 2 on.

    Returns
    -------
    SlidingWindow
        For `wanted=` of `Session.over_time`.

    Raises
    ------
    InvalidParameter
        For a width that is not a whole number in its range.

    Examples
    --------
    >>> window(28)
    SlidingWindow(width=28)
    """
    return SlidingWindow(width)


Wanted: TypeAlias = SlidingWindow | Literal["steps", "totals"]
"""What is made of the steps: sums from the first on, over the last few, or each by itself."""


def check_wanted(wanted: Any) -> tuple[Wanted, ...]:
    """Check the wanted answers, without repetition; InvalidParameter for an unknown kind.

    >>> check_wanted("totals")
    ('totals',)
    """
    listed = (wanted,) if isinstance(wanted, str | SlidingWindow) else wanted
    expected = "'totals', 'steps', unacorda.window(28), or several of them in a tuple"
    if not isinstance(listed, tuple | list) or not listed:
        raise InvalidParameter("wanted", wanted, expected=expected)
    for one in listed:
        known = isinstance(one, SlidingWindow) or one in ("totals", "steps")
        checks.demand(known, "wanted", one, expected=expected)
    return tuple(dict.fromkeys(listed))
