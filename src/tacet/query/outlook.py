"""What else a question could cost and err by: other budgets, halved limits, what bounds would cut.

All of it is worked out as the question itself is, from its noise at that budget or under that unit.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacet.errors import InvalidParameter
from tacet.privacy.guarantees import GDP, Guarantee
from tacet.query.aggregates.answers import Assume, Forecast
from tacet.query.allocation import allocate
from tacet.query.plan import Query
from tacet.query.units import Person

__all__ = ["Gauge", "Halved", "Outlook", "outlook_of"]

_PARTS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
_ROWS = 1_000  # of a cell, for errors that depend on them
_LIMITS = ("max_rows", "max_groups", "max_rows_per_group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One number for the error of an aggregate.

    unit: empty for a standard deviation; else what it is that the error passes in 5% of answers, or
    the rows of a cell in which the standard deviation is this.
    """

    value: float
    unit: str

    @staticmethod
    def of(forecast: Forecast) -> Gauge | None:
        """The standard error, or what is known in its place."""
        if forecast.standard_error is not None:
            return Gauge(value=forecast.standard_error, unit="")
        if forecast.rank_error is not None:
            return Gauge(value=forecast.rank_error, unit="ranks, 95%")
        if forecast.people_error is not None:
            return Gauge(value=forecast.people_error, unit="people, 95%")
        known = dict(forecast.table)
        return Gauge(value=known[_ROWS], unit=f"{_ROWS:,} rows") if _ROWS in known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Halved:
    """What half of one limit on a person's rows would do.

    limit: its name; now, then: the numbers; times: by aggregate, the error then over that now.
    """

    limit: str
    now: int
    then: int
    times: Mapping[str, float]

    @property
    def most(self) -> float:
        """The most that it would help any aggregate: less than 1 where it helps."""
        return min(self.times.values(), default=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Other ways to ask. budgets: each with the errors by aggregate that it would buy.

    limits: halved, the one that costs most first. cuts: what bounds would do to the assumed data,
    in words.
    """

    budgets: tuple[tuple[Guarantee, Mapping[str, Gauge]], ...]
    limits: tuple[Halved, ...]
    cuts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "budgets": [
                {
                    "budget": repr(budget),
                    "errors": {n: [gauge.value, gauge.unit] for n, gauge in errors.items()},
                }
                for budget, errors in self.budgets
            ],
            "limits": [
                {"limit": one.limit, "now": one.now, "then": one.then, "times": dict(one.times)}
                for one in self.limits
            ],
            "cuts": list(self.cuts),
        }

    @property
    def lines(self) -> list[str]:
        """For people."""
        lines = [*_table(self.budgets)]
        if self.limits:
            lines += ["", "What the limits on a person cost (what fewer rows do is not in this)"]
        for place, one in enumerate(self.limits):
            first = " dominates" if place == 0 and len(self.limits) > 1 else ""
            errors = ", ".join(f"{name} {times:.3g}" for name, times in one.times.items())
            lines.append(
                f"  {one.limit}={one.now:,}{first}; {one.then:,} would err, times: {errors}"
            )
        if self.cuts:
            lines += ["", "What bounds would cut, if the data were as assumed"]
            lines += [f"  {text}" for text in self.cuts]
        return lines


def outlook_of(
    query: Query, request: Guarantee, forecasts: Mapping[str, Forecast], assume: Assume | None
) -> Outlook:
    """Other budgets, half of each limit, and what bounds do to assumed data.

    forecasts: by aggregate, what the request itself buys.
    """
    now = _known(forecasts)
    budgets = []
    for part in _PARTS:
        budget = _times(request, part)
        errors = now if part == 1 else _gauges(query, budget, assume)
        if errors:
            budgets.append((budget, errors))
    limits = [one for name in _LIMITS for one in _halved(query, name, request, now, assume)]
    return Outlook(
        budgets=tuple(budgets),
        limits=tuple(sorted(limits, key=lambda one: one.most)),
        cuts=() if assume is None else (*_rows_cut(query, assume), *_values_cut(query, assume)),
    )


def _gauges(query: Query, budget: Guarantee, assume: Assume | None) -> dict[str, Gauge]:
    """By aggregate; empty for a budget that no noise can keep."""
    try:
        found = allocate(query, budget)
    except InvalidParameter:
        return {}
    return _known(
        {
            name: aggregate.forecast(found.noises[name], found.reach, assume)
            for name, aggregate in query.aggregates.items()
        }
    )


def _known(forecasts: Mapping[str, Forecast]) -> dict[str, Gauge]:
    gauges = {name: Gauge.of(forecast) for name, forecast in forecasts.items()}
    return {name: gauge for name, gauge in gauges.items() if gauge is not None}


def _times(request: Guarantee, part: Fraction) -> Guarantee:
    """The request with its number, as it is written, times a part; its delta stays."""
    number, *rest = request.additive
    scaled = number * (part**2 if isinstance(request, GDP) else part)
    return request.with_additive([scaled, *rest])


def _halved(
    query: Query, limit: str, request: Guarantee, now: Mapping[str, Gauge], assume: Assume | None
) -> list[Halved]:
    unit = query.unit
    most = getattr(unit, limit, None)
    if not isinstance(unit, Person) or most is None or most < 2:
        return []
    limits = {name: getattr(unit, name) for name in _LIMITS} | {limit: most // 2}
    other = Person(unit.id, **limits, neighbors=unit.neighbors)
    then = _gauges(dataclasses.replace(query, unit=other), request, assume)
    times = {
        name: then[name].value / gauge.value
        for name, gauge in now.items()
        if name in then and gauge.unit == then[name].unit and gauge.value > 0
    }
    return [Halved(limit=limit, now=most, then=most // 2, times=times)] if times else []


def _rows_cut(query: Query, assume: Assume) -> list[str]:
    unit = query.limited
    if not isinstance(unit, Person) or assume.rows_per_person is None:
        return []
    rows = np.asarray(assume.rows_per_person, dtype=np.int64)
    in_groups = None
    if unit.max_rows_per_group is not None:
        groups = query.cells if unit.max_groups is None else min(unit.max_groups, query.cells)
        in_groups = groups * unit.max_rows_per_group
    bounds = [most for most in (unit.max_rows, in_groups) if most is not None]
    gone = 1 - float(np.minimum(rows, min(bounds)).sum() / rows.sum())
    least = "" if unit.max_groups is None and unit.max_rows_per_group is None else "at least "
    over = float(np.mean(rows > min(bounds)))
    text = (
        f"rows per person: {least}{100 * gone:.3g}% of the rows go, of {100 * over:.3g}% of the "
        "people; counts and sums are less by as much, means are nearer to those of people with few"
    )
    return [text]


def _values_cut(query: Query, assume: Assume) -> list[str]:
    lines = []
    for name, aggregate in query.aggregates.items():
        bounds = aggregate.bounds
        for column in aggregate.assumes if bounds is not None else ():
            values = assume.of(column)
            if values is None or bounds is None:
                continue
            cut = np.clip(values, *bounds)
            outside = float(np.mean(cut != values))
            moved = float(np.mean(cut) - np.mean(values))
            lines.append(
                f"{name}: {100 * outside:.3g}% of the values of {column} are clamped to "
                f"[{bounds[0]:g}, {bounds[1]:g}], which moves their mean by {moved:.3g}"
            )
    return lines


def _table(budgets: Sequence[tuple[Guarantee, Mapping[str, Gauge]]]) -> list[str]:
    """A line for each aggregate, a column for each budget."""
    if not budgets:
        return []
    names = list(dict.fromkeys(name for _, errors in budgets for name in errors))
    heads = ["", *(_number(budget) for budget, _ in budgets)]
    rows = [heads]
    for name in names:
        gauges = [errors.get(name) for _, errors in budgets]
        unit = next((gauge.unit for gauge in gauges if gauge is not None), "")
        label = f"{name} ({unit})" if unit else name
        rows.append([label, *("-" if g is None else _short(g.value) for g in gauges)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    title = "What other budgets would buy: the expected error"
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    return [title, *(f"  {line}" for line in lines)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1_000 <= value < 1e9 else f"{value:.3g}"


def _number(budget: Guarantee) -> str:
    """The main number of a budget, as it is written: epsilon=0.5."""
    found = re.search(r"((?:epsilon|rho|mu)=[^,)]+)", repr(budget))
    assert found is not None
    return found[1]
