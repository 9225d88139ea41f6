"""What else a question could cost and err by: other budgets, and what bounds would cut.

Errors are worked out as those of the question itself, from its noise at that budget.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.query.aggregates.base import Assumed, Forecast
from unacorda.query.allocation import allocate_together
from unacorda.query.plan.query import Query, QueryBatch
from unacorda.query.schema.units import Person

__all__ = [
    "Gauge",
    "Outlook",
    "outlooks_of",
]

_PARTS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
_ROWS = 1_000  # of a cell, for errors that depend on them


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
class Outlook:
    """Other ways to ask. budgets: each with the errors by aggregate that it would buy.

    cuts: what bounds would do to the assumed data, in words.
    """

    budgets: tuple[tuple[Guarantee, Mapping[str, Gauge]], ...]
    cuts: tuple[str, ...]

    @staticmethod
    def joined(outlooks: Mapping[str, Outlook]) -> Outlook:
        """Those of several questions as one; an aggregate is named after its question too."""
        budgets: dict[Guarantee, dict[str, Gauge]] = {}
        for question, one in outlooks.items():
            for budget, errors in one.budgets:
                found = budgets.setdefault(budget, {})
                found |= {f"{question}: {name}": gauge for name, gauge in errors.items()}
        return Outlook(
            budgets=tuple(budgets.items()),
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
            "cuts": list(self.cuts),
        }

    @property
    def lines(self) -> list[str]:
        """For people."""
        lines = [*_table(self.budgets)]
        if self.cuts:
            lines += ["", "What bounds would cut, if the data were as assumed"]
            lines += [f"  {text}" for text in self.cuts]
        return lines


def outlooks_of(
    together: QueryBatch,
    request: Guarantee,
    forecasts: Sequence[Mapping[str, Forecast]],
    assumed: Sequence[Assumed],
) -> list[Outlook]:
    """Other budgets, and what bounds do to assumed data, by question.

    Other budgets are for all questions together. forecasts: by question and aggregate, what the
    request itself buys. assumed: of the data, by question and aggregate.
    """
    now = [_known(found) for found in forecasts]
    budgets = []
    for part in _PARTS:
        budget = _times(request, part)
        budgets.append((budget, now if part == 1 else _gauges(together, budget, assumed)))
    outlooks = []
    for place, (query, known) in enumerate(zip(together.queries, assumed, strict=True)):
        cuts = (*_rows_cut(query, known), *_values_cut(query, known))
        outlooks.append(
            Outlook(
                budgets=tuple((budget, errors[place]) for budget, errors in budgets if any(errors)),
                cuts=cuts,
            )
        )
    return outlooks


def _gauges(
    together: QueryBatch, budget: Guarantee, assumed: Sequence[Assumed]
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
