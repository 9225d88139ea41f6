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

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.query.aggregates.answers import Forecast
from unacorda.query.allocation import allocate_together
from unacorda.query.plan import Query
from unacorda.query.supposed import Assumed
from unacorda.query.together import Together
from unacorda.query.units import Person

__all__ = ["Gauge", "Halved", "Outlook", "outlooks_of"]

_PARTS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
_ROWS = 1_000  # of a cell, for errors that depend on them
_LIMITS = ("max_rows", "max_groups", "max_rows_per_group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One number for the error of an aggregate.

    unit: empty for a standard deviation; else the level that it is of, what it is that the error
    passes in 5% of answers, or the rows of a cell in which the standard deviation is this.
    """

    value: float
    unit: str

    @staticmethod
    def of(forecast: Forecast) -> Gauge | None:
        """The standard error, or what is known in its place."""
        if forecast.standard_error is not None:
            return Gauge(value=forecast.standard_error, unit="")
        if forecast.levels:
            return Gauge(value=forecast.levels[-1], unit="finest level")
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

    @staticmethod
    def joined(outlooks: Mapping[str, Outlook]) -> Outlook:
        """Those of several questions as one; an aggregate is named after its question too."""
        budgets: dict[Guarantee, dict[str, Gauge]] = {}
        limits: dict[tuple[str, int, int], dict[str, float]] = {}
        for question, one in outlooks.items():
            for budget, errors in one.budgets:
                found = budgets.setdefault(budget, {})
                found |= {f"{question}: {name}": gauge for name, gauge in errors.items()}
            for half in one.limits:
                times = limits.setdefault((half.limit, half.now, half.then), {})
                times |= {f"{question}: {name}": value for name, value in half.times.items()}
        halves = [
            Halved(limit=limit, now=now, then=then, times=times)
            for (limit, now, then), times in limits.items()
        ]
        return Outlook(
            budgets=tuple(budgets.items()),
            limits=tuple(sorted(halves, key=lambda one: one.most)),
            cuts=tuple(
                f"{question}: {cut}" for question, one in outlooks.items() for cut in one.cuts
            ),
        )

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


def outlooks_of(
    together: Together,
    request: Guarantee,
    forecasts: Sequence[Mapping[str, Forecast]],
    assumed: Sequence[Assumed],
) -> list[Outlook]:
    """Other budgets, half of each limit, and what bounds do to assumed data, by question.

    Other budgets are for all questions together. forecasts: by question and aggregate, what the
    request itself buys. assumed: of the data, by question and aggregate.
    """
    now = [_known(found) for found in forecasts]
    budgets = []
    for part in _PARTS:
        budget = _times(request, part)
        budgets.append((budget, now if part == 1 else _gauges(together, budget, assumed)))
    halves = [_halved(together, name, request, now, assumed) for name in _LIMITS]
    outlooks = []
    for place, (query, known) in enumerate(zip(together.queries, assumed, strict=True)):
        limits = [found[place] for found in halves if found and found[place].times]
        cuts = (*_rows_cut(query, known), *_values_cut(query, known))
        outlooks.append(
            Outlook(
                budgets=tuple((budget, errors[place]) for budget, errors in budgets if any(errors)),
                limits=tuple(sorted(limits, key=lambda one: one.most)),
                cuts=cuts,
            )
        )
    return outlooks


def _gauges(
    together: Together, budget: Guarantee, assumed: Sequence[Assumed]
) -> list[dict[str, Gauge]]:
    """By question and aggregate; empty for a budget that no noise can keep."""
    try:
        found = allocate_together(together.queries, budget, weights=together.weights)
    except InvalidParameter:
        return [{} for _ in together.queries]
    return [
        _known(
            {
                name: aggregate.forecast(one.noises[name], one.reach, known[name])
                for name, aggregate in query.aggregates.items()
            }
        )
        for query, one, known in zip(together.queries, found, assumed, strict=True)
    ]


def _known(forecasts: Mapping[str, Forecast]) -> dict[str, Gauge]:
    gauges = {name: Gauge.of(forecast) for name, forecast in forecasts.items()}
    return {name: gauge for name, gauge in gauges.items() if gauge is not None}


def _times(request: Guarantee, part: Fraction) -> Guarantee:
    """The request with its number, as it is written, times a part; its delta stays."""
    number, *rest = request.additive
    scaled = number * (part**2 if isinstance(request, GDP) else part)
    return request.with_additive([scaled, *rest])


def _halved(
    together: Together,
    limit: str,
    request: Guarantee,
    now: Sequence[Mapping[str, Gauge]],
    assumed: Sequence[Assumed],
) -> list[Halved]:
    """By question; nothing where the unit has no such limit, or one that cannot be halved."""
    unit = together.queries[0].unit
    most = getattr(unit, limit, None)
    if not isinstance(unit, Person) or most is None or most < 2:
        return []
    limits = {name: getattr(unit, name) for name in _LIMITS} | {limit: most // 2}
    other = Person(unit.id, **limits, neighbors=unit.neighbors)
    queries = tuple(dataclasses.replace(query, unit=other) for query in together.queries)
    found = _gauges(dataclasses.replace(together, queries=queries), request, assumed)
    return [
        Halved(
            limit=limit,
            now=most,
            then=most // 2,
            times={
                name: then[name].value / gauge.value
                for name, gauge in before.items()
                if name in then and gauge.unit == then[name].unit and gauge.value > 0
            },
        )
        for before, then in zip(now, found, strict=True)
    ]


def _rows_cut(query: Query, known: Assumed) -> list[str]:
    unit = query.limited
    assume = next((one for one in known.values() if one is not None), None)  # as for all
    per_person = None if assume is None else assume.rows_per_person
    if not isinstance(unit, Person) or assume is None or per_person is None:
        return []
    rows = np.asarray(per_person, dtype=np.int64)
    in_groups = None
    if unit.max_rows_per_group is not None:
        groups = query.cells if unit.max_groups is None else min(unit.max_groups, query.cells)
        in_groups = groups * unit.max_rows_per_group
    bounds = [most for most in (unit.max_rows, in_groups) if most is not None]
    gone = 1 - float(np.minimum(rows, min(bounds)).sum() / rows.sum())
    least = "" if unit.max_groups is None and unit.max_rows_per_group is None else "at least "
    over = f"{100 * float(np.mean(rows > min(bounds))):.3g}%"
    if assume.rows_kept is not None:
        gone, over, least = 1 - assume.rows_kept, f"{least}{over}", ""
    text = (
        f"rows per person: {least}{100 * gone:.3g}% of the rows go, of {over} of the "
        "people; counts and sums are less by as much, means are nearer to those of people with few"
    )
    return [text]


def _values_cut(query: Query, known: Assumed) -> list[str]:
    lines = []
    for name, aggregate in query.aggregates.items():
        assume, bounds = known[name], aggregate.bounds
        for column in aggregate.assumes:
            values = None if assume is None else assume.of(column)
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
