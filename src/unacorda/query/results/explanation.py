"""What questions would do, cost and err by, in plain words: functions of the questions alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.base import Assumed, Forecast
from unacorda.query.allocation import PricedBatch
from unacorda.query.plan.query import Query
from unacorda.query.results.simulation import Assume, SimulatedBias, simulated
from unacorda.query.results.what_if import Outlook, outlooks_of
from unacorda.query.results.words import FoundKeys, rows_in_words
from unacorda.query.schema.units import Person

__all__ = [
    "Explanation",
    "Explanations",
    "explained",
    "explanation_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The plan of a question before it is asked. Printing it gives a page for people.

    rows: what happens to the rows, in order. keys: how private keys are found, and which appear how
    often, None where all are public. forecasts: by aggregate, what is known of its error.
    parts: each aggregate's part of the budget. request, cost: what was offered, and what the
    account would be charged. left: what the account holds now. outlook: what other budgets and
    limits would do. beside: by aggregate, the noise beside the range of its values, where known.
    levels: of a question with margins their names, as the release has them in `margin`. about:
    which rows errors are about, where contribution bounds can drop some.
    bias: what the limits on a person's rows did to a public table, where one was given.
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

    @property
    def affordable(self) -> bool:
        """Whether the account could pay for the question now."""
        return all(a <= b for a, b in zip(self.cost.additive, self.left.additive, strict=True))

    def standard_error(self, name: str, level: str | None = None) -> float | None:
        """The expected error of one aggregate, where it is known (see `Forecast`).

        level: of a question with margins, as the release names it in `margin`, else the finest; the
        error is the largest there. Raises InvalidParameter for a level that there is not.
        """
        if level is not None and level not in self.levels:
            listed = "; ".join(self.levels) or "none: the question has no margins"
            raise InvalidParameter("level", level, expected=listed)
        return self.forecasts[name].errors[-1 if level is None else self.levels.index(level)]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
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

    def __str__(self) -> str:
        lines = [*self.steps, "", *self.price, *self.aggregates("the budget")]
        if more := self.outlook.lines:
            lines += ["", *more]
        return "\n".join(lines)

    @property
    def steps(self) -> list[str]:
        """What happens to the rows, for people."""
        numbered = [f"  {number}. {text}" for number, text in enumerate(self.rows, start=1)]
        return ["What happens to the rows", *numbered]

    @property
    def price(self) -> list[str]:
        """What it costs and what is left, for people."""
        lines = [f"What it costs: {self.cost}, of the {self.request} that was offered"]
        lines += [f"What is left: {self.left}"]
        if not self.affordable:
            lines[-1] += ". The question would be refused: it costs more than that"
        return lines

    def aggregates(self, whole: str) -> list[str]:
        """What is known of the keys and of every aggregate, for people; whole: what is split."""
        lines = [] if self.keys is None else ["", *self.keys.lines]
        for name, forecast in self.forecasts.items():
            share = f"{100 * self.parts[name]:.3g}% of {whole}"
            lines += ["", f"{name} ({share})", f"  sensitivity: {forecast.sensitivity}"]
            lines += [f"  noise: {forecast.noise}"]
            lines += [f"  {text}" for text in _errors(forecast, self.about)]
            lines += [f"  {self.beside[name]}"] if name in self.beside else []
            lines += [f"  {note}" for note in forecast.notes]
        return lines if self.bias is None else [*lines, "", *self.bias.words]


def explained(
    priced: PricedBatch, *, left: Guarantee, assuming: Assume | None
) -> list[Explanation]:
    """The explanations of questions with this noise and price."""
    queries, found = priced.together.queries, priced.allocations
    assumed: list[Assumed] = [dict.fromkeys(query.aggregates, assuming) for query in queries]
    biases: list[SimulatedBias | None] = [None for _ in queries]
    if assuming is not None and assuming.table is not None:
        tried = [simulated(q, one, assuming) for q, one in zip(queries, found, strict=True)]
        assumed, biases = [known for known, _ in tried], [bias for _, bias in tried]
    forecasts = [
        {
            name: aggregate.forecast(one.noises[name], one.reach, known[name])
            for name, aggregate in query.aggregates.items()
        }
        for query, one, known in zip(queries, found, assumed, strict=True)
    ]
    outlooks = outlooks_of(priced.together, priced.request, forecasts, assumed)
    return [
        Explanation(
            rows=rows_in_words(query),
            forecasts=forecasts[place],
            parts={name: float(part) for name, part in query.parts().items()},
            request=priced.request,
            cost=priced.charge,
            left=left,
            keys=FoundKeys.of(query, found[place]),
            outlook=outlooks[place],
            beside=_beside(query, forecasts[place]),
            bias=biases[place],
            levels=query.levels,
            about=" on the kept rows" if isinstance(query.unit, Person) else "",
        )
        for place, query in enumerate(queries)
    ]


def _beside(query: Query, forecasts: Mapping[str, Forecast]) -> dict[str, str]:
    """By aggregate, its noise as a part of the range of one value."""
    found = {}
    for name, aggregate in query.aggregates.items():
        error, bounds = forecasts[name].standard_error, aggregate.bounds
        if error is not None and bounds is not None and aggregate.in_units:
            part = error / (bounds[1] - bounds[0])
            size = f"{100 * part:.3g}% of it" if part < 10 else f"{part:,.0f} times as wide"
            found[name] = (
                f"noise beside the range of one value, {bounds[0]:g} to {bounds[1]:g}: {size}"
            )
    return found


def _errors(forecast: Forecast, about: str) -> list[str]:
    """What is known of an error; about: which rows an exact answer is of."""
    lines = []
    if forecast.standard_error is not None:
        when = f", assuming {forecast.assumed_rows:,} rows" if forecast.assumed_rows else ""
        text = f"expected error{when}: {forecast.standard_error:.4g} (standard deviation)"
        if forecast.half_width is not None:
            text += (
                f"; 95% of answers are within {forecast.half_width:.4g} of the exact answer{about}"
            )
        lines.append(text)
    if forecast.rank_error is not None:
        lines.append(
            f"rank error: off by at most {forecast.rank_error:,.0f} ranks (rows) with 95% "
            "probability; in units of the column only where its law is assumed"
        )
    if forecast.people_error is not None:
        lines.append(
            f"people beyond what is found: at most {forecast.people_error:,} in a cell with 95% "
            "probability; how far beyond is not known"
        )
    if forecast.table and not forecast.assumed_rows:
        lines.append("expected error by rows in the cell: ")
        lines[-1] += ", ".join(f"{rows:,}: {error:.3g}" for rows, error in forecast.table)
    return lines


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanations:
    """The plan of questions before they are asked together. Printing it gives a page for people.

    members: by name, in the order asked; `explanations["name"]`, or `[0]`, is one. parts: each
    question's part of the budget. scans: how often the table is read for all of them.
    """

    members: Mapping[str, Explanation]
    parts: Mapping[str, float]
    scans: int

    @property
    def request(self) -> Guarantee:
        """What was offered for all of them."""
        return self[0].request

    @property
    def cost(self) -> Guarantee:
        """What the account would be charged for all of them, once."""
        return self[0].cost

    @property
    def left(self) -> Guarantee:
        """What the account holds now."""
        return self[0].left

    @property
    def affordable(self) -> bool:
        """Whether the account could pay for all of them now."""
        return self[0].affordable

    @property
    def outlook(self) -> Outlook:
        """What other budgets and limits would do, for all of them."""
        return Outlook.joined({name: one.outlook for name, one in self.members.items()})

    def __getitem__(self, name: str | int) -> Explanation:
        names = list(self.members)
        if isinstance(name, str) and name in self.members:
            return self.members[name]
        if isinstance(name, int) and -len(names) <= name < len(names):
            return self.members[names[name]]
        raise InvalidParameter("name", name, expected=f"one of {', '.join(map(repr, names))}")

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
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
        return str(self)

    def __str__(self) -> str:
        scans = "one scan" if self.scans == 1 else f"{self.scans:,} scans"
        lines = [f"{len(self):,} questions together, from {scans} of the table", *self[0].price]
        shown: dict[tuple[str, ...], str] = {}
        for name, one in self.members.items():
            lines += ["", f"Question {name!r} ({100 * self.parts[name]:.3g}% of the budget)"]
            if one.rows in shown:
                lines += [f"  rows as in question {shown[one.rows]!r}"]
            else:
                shown[one.rows] = name
                lines += [f"  {text}" for text in one.steps]
            lines += [f"  {text}" if text else "" for text in one.aggregates("this part")]
        if more := self.outlook.lines:
            lines += ["", *more]
        return "\n".join(lines)


def explanation_of(
    priced: PricedBatch, *, left: Guarantee, assuming: Assume | None
) -> Explanation | Explanations:
    """The explanation of one question, or of several; left: what the account holds."""
    asked = priced.together
    found = explained(priced, left=left, assuming=assuming)
    if asked.single:
        return found[0]
    return Explanations(
        members=dict(zip(asked.names, found, strict=True)),
        parts=asked.parts,
        scans=len(priced.scans),
    )
