"""Charts for templates: positions of points in pixels, with their labels."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from unacorda.display import estimate, number
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.results.explanation import Gauge, Outlook

_WIDTH: Final = 340.0
_HEIGHT: Final = 190.0
_LEFT: Final = 54.0
_RIGHT: Final = 14.0
_TOP: Final = 12.0
_BOTTOM: Final = 34.0
_LINE: Final = 26.0
_SPEND_HEIGHT: Final = 150.0
_MOST_LINES: Final = 40
_CHARACTER: Final = 7.5
_WIDE: Final = 420.0
_MOST_CHARACTERS: Final = 18

Offers = Mapping[Guarantee, Mapping[str, Gauge]]
"""By budget the errors by answer that it buys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """A budget with its error. x, y: pixels; budget, error: texts."""

    x: float
    y: float
    budget: str
    error: str
    affordable: bool
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorChart:
    """The error of one answer against the budget, both on logarithmic axes.

    ticks: positions and labels along the two axes. left: the position of the remaining budget, if
    shown.
    """

    name: str
    unit: str
    points: tuple[ChartPoint, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    left: float | None
    width: float = _WIDTH
    height: float = _HEIGHT
    bottom: float = _HEIGHT - _BOTTOM
    start: float = _LEFT
    end: float = _WIDTH - _RIGHT

    @property
    def line(self) -> str:
        """The points as an SVG polyline has them."""
        return " ".join(f"{one.x:.1f},{one.y:.1f}" for one in self.points)


def main_number(budget: Guarantee) -> float:
    """The first number of a budget: epsilon, rho or mu."""
    return float(next(iter(budget.parameters.values())))


def half_width(gauge: Gauge) -> float:
    """The half width of the 95% interval, from a standard deviation if necessary."""
    return gauge.value if gauge.unit.endswith("95%") else 1.96 * gauge.value


def offers_of(outlooks: Iterable[Outlook]) -> dict[Guarantee, Mapping[str, Gauge]]:
    """The budgets of several outlooks with their errors, least first."""
    found = {budget: errors for one in outlooks for budget, errors in one.budgets}
    return dict(sorted(found.items(), key=lambda one: main_number(one[0])))


def error_charts(offers: Offers, *, chosen: Guarantee, left: Guarantee) -> list[ErrorChart]:
    """A chart for each answer whose error is known beforehand."""
    names = dict.fromkeys(name for errors in offers.values() for name in errors)
    charts = (_error_chart(name, offers, chosen=chosen, left=left) for name in names)
    return [one for one in charts if one is not None]


def _error_chart(
    name: str, offers: Offers, *, chosen: Guarantee, left: Guarantee
) -> ErrorChart | None:
    known = {
        budget: errors[name]
        for budget, errors in offers.items()
        if name in errors and 0 < errors[name].value < math.inf and main_number(budget) > 0
    }
    if len(known) < 2:
        return None
    budgets = [main_number(one) for one in known]
    values = [half_width(one) for one in known.values()]
    along = _LogScale.over(budgets, _LEFT, _WIDTH - _RIGHT)
    up = _LogScale.over(values, _HEIGHT - _BOTTOM, _TOP)
    edge = main_number(left)
    return ErrorChart(
        name=name,
        unit=next(iter(known.values())).unit,
        points=tuple(
            ChartPoint(
                x=along(main_number(budget)),
                y=up(half_width(gauge)),
                budget=str(budget),
                error=short(half_width(gauge)),
                affordable=budget <= left,
                chosen=budget == chosen,
            )
            for budget, gauge in known.items()
        ),
        x_ticks=tuple((along(one), f"{one:g}") for one in along.ticks()),
        y_ticks=tuple((up(one), short(one)) for one in up.ticks()),
        left=along(edge) if budgets[0] <= edge <= budgets[-1] else None,
    )


@dataclass(frozen=True, slots=True)
class _LogScale:
    """Places of positive numbers between two pixels, by their logarithms."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _LogScale:
        low, high = min(values), max(values)
        return cls(low, high if high > low else 2 * low, start, end)

    def __call__(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """At most four round numbers in the range: 1, 2 and 5 by powers of ten."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        powers = [float(f"1e{power}") for power in range(first, last + 1)]
        finer = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in "125"]
        fine = [one for one in finer if self.low <= one <= self.high]
        coarse = [one for one in powers if self.low <= one <= self.high]
        found = fine if len(fine) <= 4 or len(coarse) < 2 else coarse
        step = -(-len(found) // 4)
        return found[::step] if found else [self.low]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalLine:
    """One value with its interval, in pixels; shown: for people."""

    label: str
    shown: str
    y: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalChart:
    """The values of one answer with their 95% intervals, one per line; more: lines omitted."""

    name: str
    lines: tuple[IntervalLine, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float
    start: float
    more: int
    width: float = _WIDE


def interval_chart(
    name: str, labels: Sequence[str], rows: Sequence[tuple[Any, Any, Any]]
) -> IntervalChart | None:
    """A chart of values with the ends of their intervals; None if no line has all three."""
    whole = [
        (label, *row)
        for label, row in zip(labels, rows, strict=True)
        if all(isinstance(one, int | float) and math.isfinite(one) for one in row)
    ]
    if not whole:
        return None
    kept = whole[:_MOST_LINES]
    low = min(0.0, *(float(row[2]) for row in kept))
    high = max(0.0, *(float(row[3]) for row in kept))
    if low == 0 and all(row[2] > (row[3] - row[2]) for row in kept):
        least = min(float(row[2]) for row in kept)
        low = least if least > 0.7 * high else 0.0  # all far from zero: show what differs
    if high == low:
        return None

    longest = min(max(len(label) for label, *_ in kept), _MOST_CHARACTERS)
    start = _CHARACTER * longest + 16

    def place(value: float) -> float:
        return start + (value - low) / (high - low) * (_WIDE - start - 24)

    step = _round_step((high - low) / 4)
    first = math.ceil(low / step)
    ticks = [one * step for one in range(first, math.floor(high / step) + 1)]
    return IntervalChart(
        name=name,
        lines=tuple(
            IntervalLine(
                label=label
                if len(label) <= _MOST_CHARACTERS
                else f"{label[: _MOST_CHARACTERS - 1]}…",
                shown=estimate(value, lower, upper),
                y=_LINE * (number_of + 0.5),
                value=place(value),
                low=place(lower),
                high=place(upper),
            )
            for number_of, (label, value, lower, upper) in enumerate(kept)
        ),
        ticks=tuple((place(one), f"{one:,.6g}") for one in ticks),
        height=_LINE * len(kept) + 26,
        start=start,
        more=len(whole) - len(kept),
    )


def _round_step(least: float) -> float:
    """The least of 1, 2 and 5 by powers of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= least)


def spent_share(spent: Guarantee, limit: Guarantee) -> float:
    """The share of a limit that is spent, from 0 to 1, for its most depleted number."""
    pairs = zip(spent.additive, limit.additive, strict=True)
    parts = [min(float(one / whole), 1.0) if whole else float(one > 0) for one, whole in pairs]
    closed = not any(limit.additive)
    return 1.0 if closed else max(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendChart:
    """The spent share of a budget over time, as steps. begin, end: dates as texts."""

    line: str
    begin: str
    end: str
    spent: str
    bottom: float = _SPEND_HEIGHT - 22
    width: float = _WIDE
    height: float = _SPEND_HEIGHT
    start: float = _LEFT


def spend_chart(
    steps: Sequence[tuple[dt.datetime, Guarantee]], budget: Guarantee
) -> SpendChart | None:
    """A chart of the shares of a budget that were spent at these times; None for fewer than two."""
    if len(steps) < 2 or steps[0][0] >= steps[-1][0]:
        return None
    begin, whole = steps[0][0], (steps[-1][0] - steps[0][0]).total_seconds()
    bottom = _SPEND_HEIGHT - 22
    points: list[tuple[float, float]] = []
    for time, spent in steps:
        along = max((time - begin).total_seconds() / whole, 0.0)  # a clock may go back
        x = _LEFT + along * (_WIDE - _LEFT - 14)
        y = bottom - spent_share(spent, budget) * (bottom - _TOP)
        points += [(x, points[-1][1])] if points else []
        points.append((x, y))
    return SpendChart(
        line=" ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        begin=f"{begin:%Y-%m-%d %H:%M}",
        end=f"{steps[-1][0]:%Y-%m-%d %H:%M}",
        spent=f"{100 * spent_share(steps[-1][1], budget):.3g} %",
    )


def short(value: float) -> str:
    """A number for an axis or a table."""
    return number(float(f"{value:.3g}"))
