"""The cost and the expected errors of a question, with this budget and with others.

Errors are computed as those of the question itself, from its noise at that budget.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.display import aligned, escape, paragraph, preformatted, table
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.query.aggregates.base import Assumed, Forecast
from unacorda.query.allocation import PricedBatch, allocate_together
from unacorda.query.plan.query import Query, place_of
from unacorda.query.results.simulation import Assume, SimulatedBias, simulated
from unacorda.query.results.words import (
    FoundKeys,
    filtered_in_words,
    kept_rows,
    rows_in_words,
    texts_in_words,
)
from unacorda.query.schema.units import Person

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
        known = {
            "": forecast.standard_error,
            "finest level": forecast.levels[-1] if forecast.levels else None,
            "ranks, 95%": forecast.rank_error,
            "people, 95%": forecast.people_error,
            f"{_ROWS:,} rows": dict(forecast.table).get(_ROWS),
        }
        gauges = (Gauge(value=one, unit=unit) for unit, one in known.items() if one is not None)
        return next(gauges, None)


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
        cuts: list[str] = []
        for question, one in outlooks.items():
            cuts += [f"{question}: {cut}" for cut in one.cuts]
            for budget, errors in one.budgets:
                found = budgets.setdefault(budget, {})
                found |= {f"{question}: {name}": gauge for name, gauge in errors.items()}
        return Outlook(budgets=tuple(budgets.items()), cuts=tuple(cuts))

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
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
        lines = _table(self.budgets)
        if self.cuts:
            lines += ["", "What bounds would cut, if the data were as assumed"]
            lines += [f"  {text}" for text in self.cuts]
        return lines


def _outlooks(
    priced: PricedBatch, forecasts: Sequence[Mapping[str, Forecast]], assumed: Sequence[Assumed]
) -> list[Outlook]:
    """Other budgets for all questions together, and what bounds do to assumed data, by question.

    forecasts: by question and aggregate, what the request itself buys. assumed: of the data,
    likewise.
    """
    together, request = priced.together, priced.request
    number, *delta = request.additive
    budgets: list[tuple[Guarantee, list[dict[str, Gauge]]]] = []
    for part in _PARTS:  # of the number as it is written; a delta stays
        scaled = number * (part**2 if isinstance(request, GDP) else part)
        budget, found = request.with_additive([scaled, *delta]), forecasts
        if part != 1:
            try:
                bought = allocate_together(together.queries, budget, weights=together.weights)
            except InvalidParameter:  # a budget that no noise can keep
                continue
            of_all = zip(together.queries, bought, assumed, strict=True)
            found = [one.forecasts(query, known) for query, one, known in of_all]
        budgets.append((budget, list(map(_gauges, found))))
    return [
        Outlook(
            budgets=tuple((budget, errors[place]) for budget, errors in budgets if any(errors)),
            cuts=(*_rows_cut(query, known), *_values_cut(query, known)),
        )
        for place, (query, known) in enumerate(zip(together.queries, assumed, strict=True))
    ]


def _gauges(forecasts: Mapping[str, Forecast]) -> dict[str, Gauge]:
    gauges = {name: Gauge.of(forecast) for name, forecast in forecasts.items()}
    return {name: gauge for name, gauge in gauges.items() if gauge is not None}


def _rows_cut(query: Query, known: Assumed) -> list[str]:
    unit = query.limited
    assume = next((one for one in known.values() if one is not None), None)  # as for all
    per_person = None if assume is None else assume.rows_per_person
    if not isinstance(unit, Person) or assume is None or per_person is None:
        return []
    rows = np.asarray(per_person, dtype=np.int64)
    bounds = [] if unit.max_rows is None else [unit.max_rows]
    if unit.max_rows_per_group is not None:
        groups = query.cells if unit.max_groups is None else min(unit.max_groups, query.cells)
        bounds.append(groups * unit.max_rows_per_group)
    gone = 1 - float(np.minimum(rows, min(bounds)).sum() / rows.sum())
    least = "" if unit.max_groups is None and unit.max_rows_per_group is None else "at least "
    over = f"{100 * float(np.mean(rows > min(bounds))):.3g}%"
    if assume.rows_kept is not None:
        gone, over, least = 1 - assume.rows_kept, f"{least}{over}", ""
    dropped = f"{least}{100 * gone:.3g}% of the rows are dropped, of {over} of the people"
    effect = (
        "counts and sums are less by as much, means are closer to those of people with few rows"
    )
    return [f"rows per person: {dropped}; {effect}"]


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
    """A line for each aggregate, a column for each budget, by its main number: epsilon=0.5."""
    if not budgets:
        return []
    numbers = [re.search(r"(?:epsilon|rho|mu)=[^,)]+", repr(budget)) for budget, _ in budgets]
    rows = [["", *(found[0] for found in numbers if found is not None)]]
    for name in dict.fromkeys(name for _, errors in budgets for name in errors):
        gauges = [errors.get(name) for _, errors in budgets]
        unit = next((gauge.unit for gauge in gauges if gauge is not None), "")
        label = f"{name} ({unit})" if unit else name
        rows.append([label, *("-" if g is None else _short(g.value) for g in gauges)])
    lines = [f"  {line}" for line in aligned(rows, left=1)]
    return ["What other budgets would buy: the expected error", *lines]


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1_000 <= value < 1e9 else f"{value:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """The plan of a question, with its expected errors and its cost.

    `print` shows a table of errors. With `explain(..., detail=True)` it shows a page, with the
    rows, the noise and the errors under other budgets.

    Attributes
    ----------
    rows
        The steps from the table to the rows that are counted, in words.
    forecasts
        By aggregate, the noise and its expected error.
    parts
        By aggregate, its share of the budget.
    request, cost
        The budget that was offered, and what the account would be charged.
    left
        What the account has left now.
    keys
        How private keys are found, and how likely keys are to appear. None if all keys are public.
    outlook
        The expected errors under other budgets.
    beside
        By aggregate, the noise relative to the range of its values, where that is known.
    bias
        What contribution bounds did to the answers on a public table, if one was given.
    levels
        The levels of a question with margins, named as in the column `margin` of the release.
    about
        The rows that the errors are about, if contribution bounds can drop some.
    detail
        Whether printing shows the whole page.
    filtered
        The answers that are too low because their conditions are tested after bounding.
    of_people
        The aggregates that count people. They are about all rows of a person.
    texts
        Notes on texts: which of them are counted, and which are compared with dates or numbers.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(2)) as session:
    ...     question = session.table("visits").agg(n=unacorda.count())
    ...     plan = session.explain(question, budget=unacorda.PureDP(1))
    >>> plan.cost, plan.left, plan.affordable
    (PureDP(epsilon=1.0), PureDP(epsilon=2.0), True)
    >>> round(plan.standard_error("n"), 2)
    1.36
    """

    rows: tuple[str, ...]
    forecasts: Mapping[str, Forecast]
    parts: Mapping[str, float]
    request: Guarantee
    cost: Guarantee
    left: Guarantee
    keys: FoundKeys | None = None
    outlook: Outlook
    beside: Mapping[str, str]
    bias: SimulatedBias | None = None
    levels: tuple[str, ...] = ()
    about: str = ""
    detail: bool = False
    filtered: tuple[str, ...] = ()
    of_people: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    @property
    def affordable(self) -> bool:
        """Whether the account has enough left for the question."""
        return self.cost <= self.left

    def standard_error(self, name: str, level: str | None = None) -> float | None:
        """Return the expected standard error of one aggregate.

        Parameters
        ----------
        name
            The name of the aggregate.
        level
            For a question with margins a level, as the release names it in `margin`. The default is
            the finest level. If errors of a level differ, the largest is returned.

        Returns
        -------
        float or None
            None if the error depends on the data and nothing was assumed about them.

        Raises
        ------
        InvalidParameter
            For an unknown level.
        KeyError
            For an unknown aggregate.
        """
        if level is not None and level not in self.levels:
            listed = "; ".join(self.levels) or "none: the question has no margins"
            raise InvalidParameter("level", level, expected=listed)
        return self.forecasts[name].errors[-1 if level is None else self.levels.index(level)]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON.

        Returns
        -------
        dict
            The steps, the budgets, and the noise and errors of each aggregate.
        """
        return {
            "steps": list(self.rows),
            "request": repr(self.request),
            "cost": repr(self.cost),
            "left": repr(self.left),
            "affordable": self.affordable,
            "keys": None if self.keys is None else self.keys.to_dict(),
            "outlook": self.outlook.to_dict(),
            "bias": None if self.bias is None else self.bias.to_dict(),
            "aggregates": {
                name: {
                    "part": self.parts[name],
                    "noise": forecast.noise,
                    "sensitivity": forecast.sensitivity,
                    "standard_error": forecast.standard_error,
                    "levels": dict(zip(self.levels, forecast.levels, strict=True)),
                    "half_width": forecast.half_width,
                    "rank_error": forecast.rank_error,
                    "people_error": forecast.people_error,
                    "table": [list(line) for line in forecast.table],
                    "notes": list(forecast.notes),
                }
                for name, forecast in self.forecasts.items()
            },
        }

    def __repr__(self) -> str:
        return "\n".join(self.page if self.detail else [*self.summary, _MORE])

    def _repr_html_(self) -> str:
        if self.detail:
            return preformatted("\n".join(self.page))
        return table(HEADS, self.errors) + "".join(map(paragraph, [*self.remarks, _MORE]))

    @property
    def page(self) -> list[str]:
        """The whole text."""
        lines = [*self.steps, "", *self.price, *self.aggregates("the budget")]
        more = self.outlook.lines
        return [*lines, "", *more] if more else lines

    @property
    def summary(self) -> list[str]:
        """The expected error of every answer and the cost, for people."""
        return [*aligned([HEADS, *self.errors], left=1), "", *self.remarks]

    @property
    def errors(self) -> list[tuple[str, str, str, str]]:
        """A line for each answer: its name, expected error, 95% half-width, share of the budget."""
        return [
            (escape(name), *_error_cells(forecast), f"{100 * self.parts[name]:.3g}%")
            for name, forecast in self.forecasts.items()
        ]

    @property
    def remarks(self) -> list[str]:
        """The notes below the table of errors."""
        found = [] if self.keys is None else [self.keys.sentence]
        about = "The expected error is the standard deviation of the noise about the answer"
        return [
            f"{about}{self.about}.",
            *(() if self.bias is None else self.bias.words),
            *map(escape, (*self.filtered, *self.texts)),
            *found,
            *self.outlook.cuts,
            *self.price,
        ]

    @property
    def steps(self) -> list[str]:
        """What happens to the rows, for people."""
        numbered = [f"  {number}. {text}" for number, text in enumerate(self.rows, start=1)]
        return ["What happens to the rows", *numbered]

    @property
    def price(self) -> list[str]:
        """What it costs and what is left, for people."""
        refused = ". The question would be refused: it costs more than that"
        return [
            f"What it costs: {self.cost}, of the {self.request} that was offered",
            f"What is left: {self.left}{'' if self.affordable else refused}",
        ]

    def aggregates(self, whole: str) -> list[str]:
        """What is known of the keys and of every aggregate, for people; whole: what is split."""
        lines = [] if self.keys is None else ["", *self.keys.lines]
        for name, forecast in self.forecasts.items():
            share = f"{100 * self.parts[name]:.3g}% of {whole}"
            known = [f"sensitivity: {forecast.sensitivity}", f"noise: {forecast.noise}"]
            known += _errors(forecast, "" if name in self.of_people else self.about)
            known += [self.beside[name]] if name in self.beside else []
            lines += ["", f"{name} ({share})", *(f"  {x}" for x in (*known, *forecast.notes))]
        return lines if self.bias is None else [*lines, "", *self.bias.words]


def _beside(query: Query, forecasts: Mapping[str, Forecast]) -> dict[str, str]:
    """By aggregate, its noise as a part of the range of one value."""
    found = {}
    for name, aggregate in query.aggregates.items():
        error, bounds = forecasts[name].standard_error, aggregate.bounds
        if error is not None and bounds is not None and aggregate.in_units:
            part = error / (bounds[1] - bounds[0])
            size = f"{100 * part:.3g}% of it" if part < 10 else f"{part:,.0f} times as wide"
            ends = f"{bounds[0]:g} to {bounds[1]:g}"
            found[name] = f"noise against the range of one value, {ends}: {size}"
    return found


HEADS = ("answer", "expected error", "95% within", "share of the budget")
"""The heads of the short table of an explanation."""
_MORE = "explain(..., detail=True) shows the rows, the noise, and what other budgets would buy."


def _error_cells(forecast: Forecast) -> tuple[str, str]:
    """The expected error and the half-width of the 95% interval as text."""
    gauge = Gauge.of(forecast)
    if gauge is None:
        return "depends on the data", "-"
    unit = f" ({gauge.unit})" if gauge.unit else ""
    half = forecast.half_width
    return f"{_short(gauge.value)}{unit}", "-" if half is None else f"± {_short(half)}"


def _errors(forecast: Forecast, about: str) -> list[str]:
    """What is known of an error; about: which rows an exact answer is of."""
    lines = []
    if forecast.standard_error is not None:
        when = f", assuming {forecast.assumed_rows:,} rows" if forecast.assumed_rows else ""
        text = f"expected error{when}: {forecast.standard_error:.4g} (standard deviation)"
        if forecast.half_width is not None:
            within = f"within {forecast.half_width:.4g} of the exact answer{about}"
            text += f"; 95% of answers are {within}"
        lines.append(text)
    if forecast.rank_error is not None:
        lines.append(
            f"rank error: off by at most {forecast.rank_error:,.0f} ranks (rows) with 95% "
            "probability; in units of the column only with assumed values"
        )
    if forecast.people_error is not None:
        lines.append(
            f"people beyond what is found: at most {forecast.people_error:,} in a cell with 95% "
            "probability; how far beyond is not known"
        )
    if forecast.table and not forecast.assumed_rows:
        listed = ", ".join(f"{rows:,}: {error:.3g}" for rows, error in forecast.table)
        lines.append(f"expected error by rows in the cell: {listed}")
    return lines


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanations:
    """The plan of several questions that are evaluated together.

    `explanations["name"]` and `explanations[0]` give the plan of one question. `print` shows a
    table of all expected errors.

    Attributes
    ----------
    members
        The plan of each question by name, in the order asked.
    parts
        By question, its share of the budget.
    scans
        How often the table is read for all questions.
    detail
        Whether printing shows the whole page.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(2)) as session:
    ...     rows = session.table("visits")
    ...     questions = {
    ...         "people": rows.agg(n=unacorda.count()),
    ...         "ages": rows.agg(mean_age=unacorda.mean("age", 0, 120)),
    ...     }
    ...     plans = session.explain(questions, budget=unacorda.PureDP(1))
    >>> plans.cost, plans.parts, plans.scans
    (PureDP(epsilon=1.0), {'people': 0.5, 'ages': 0.5}, 1)
    >>> round(plans["people"].standard_error("n"), 2)
    2.8
    """

    members: Mapping[str, Explanation]
    parts: Mapping[str, float]
    scans: int
    detail: bool = False

    @property
    def request(self) -> Guarantee:
        """The budget that was offered for all questions."""
        return self[0].request

    @property
    def cost(self) -> Guarantee:
        """What the account would be charged for all questions together."""
        return self[0].cost

    @property
    def left(self) -> Guarantee:
        """What the account has left now."""
        return self[0].left

    @property
    def affordable(self) -> bool:
        """Whether the account has enough left for all questions."""
        return self[0].affordable

    @property
    def outlook(self) -> Outlook:
        """What other budgets and limits would do, for all of them."""
        return Outlook.joined({name: one.outlook for name, one in self.members.items()})

    def __getitem__(self, name: str | int) -> Explanation:
        names = tuple(self.members)
        return self.members[names[place_of(name, names)]]

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    def to_dict(self) -> dict[str, Any]:
        """Return the plans as plain values, for JSON.

        Returns
        -------
        dict
            The budgets, and the plan of each question.
        """
        whole = {"request", "cost", "left", "affordable", "outlook"}
        return {
            "request": repr(self.request),
            "cost": repr(self.cost),
            "left": repr(self.left),
            "affordable": self.affordable,
            "scans": self.scans,
            "questions": {
                name: {
                    "part": self.parts[name],
                    **{key: v for key, v in one.to_dict().items() if key not in whole},
                }
                for name, one in self.members.items()
            },
            "outlook": self.outlook.to_dict(),
        }

    def __repr__(self) -> str:
        return "\n".join(self.page if self.detail else [*self.summary, _MORE])

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    @property
    def summary(self) -> list[str]:
        """The expected error of every answer and the cost, for people."""
        rows: list[tuple[str, ...]] = [("question", *HEADS)]
        remarks: dict[str, None] = {}
        for name, one in self.members.items():
            whole = 100 * self.parts[name]
            for (answer, *cells, _), part in zip(one.errors, one.parts.values(), strict=True):
                rows.append((escape(name), answer, *cells, f"{whole * part:.3g}%"))
            remarks |= dict.fromkeys(one.remarks)
        return [self._scanned, *aligned(rows, left=1), "", *remarks]

    @property
    def _scanned(self) -> str:
        scans = "one scan" if self.scans == 1 else f"{self.scans:,} scans"
        return f"{len(self):,} questions together, from {scans} of the table"

    @property
    def page(self) -> list[str]:
        """The whole text."""
        lines = [self._scanned, *self[0].price]
        shown: dict[tuple[str, ...], str] = {}
        for name, one in self.members.items():
            lines += ["", f"Question {name!r} ({100 * self.parts[name]:.3g}% of the budget)"]
            if one.rows in shown:
                lines += [f"  rows as in question {shown[one.rows]!r}"]
            else:
                shown[one.rows] = name
                lines += [f"  {text}" for text in one.steps]
            lines += [f"  {text}" if text else "" for text in one.aggregates("this part")]
        more = self.outlook.lines
        return [*lines, "", *more] if more else lines


def explanation_of(
    priced: PricedBatch, *, left: Guarantee, assuming: Assume | None, detail: bool = False
) -> Explanation | Explanations:
    """Explain one question or several; left: what the account holds; detail: print all of it."""
    together, allocations = priced.together, priced.allocations
    tried = [
        simulated(query, allocation, assuming)
        for query, allocation in zip(together.queries, allocations, strict=True)
    ]
    assumed = [known for known, _ in tried]
    of_all = zip(together.queries, allocations, assumed, strict=True)
    forecasts = [one.forecasts(query, known) for query, one, known in of_all]
    outlooks = _outlooks(priced, forecasts, assumed)
    found = [
        Explanation(
            rows=rows_in_words(query),
            forecasts=forecasts[place],
            parts={name: float(part) for name, part in query.parts().items()},
            request=priced.request,
            cost=priced.charge,
            left=left,
            keys=FoundKeys.of(query, allocations[place]),
            outlook=outlooks[place],
            beside=_beside(query, forecasts[place]),
            bias=tried[place][1],
            levels=query.levels,
            about=kept_rows(query),
            detail=detail,
            filtered=filtered_in_words(query),
            of_people=frozenset(query.aggregates.keys() - query.filters.keys()),
            texts=texts_in_words(query),
        )
        for place, query in enumerate(together.queries)
    ]
    if together.single:
        return found[0]
    return Explanations(
        members=dict(zip(together.names, found, strict=True)),
        parts=together.parts,
        scans=len(priced.scans),
        detail=detail,
    )
