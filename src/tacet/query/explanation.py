"""What a question would do, cost and err by, in plain words: functions of the question alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacet.privacy.guarantees import Guarantee
from tacet.privacy.neighbors import ReplaceOne
from tacet.query.aggregates.answers import Assume, Forecast
from tacet.query.allocation import Allocation
from tacet.query.bounding import limits_in_words
from tacet.query.found_keys import FoundKeys
from tacet.query.outlook import Outlook, outlook_of
from tacet.query.plan import Query
from tacet.query.rows_in_words import lines_of
from tacet.query.together import Place
from tacet.query.units import Person

__all__ = ["Explanation", "explained", "provenance"]

_READING = (
    "Values are as released and may be below zero or out of range; .clamped() mends them. "
    "Standard errors and intervals are about the exact answer on the bounded rows, and count "
    "the noise, not what bounding, clamping or sampling did."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The plan of a question before it is asked. Printing it gives a page for people.

    rows: what happens to the rows, in order. keys: how private keys are found, and which appear how
    often, None where all are public. forecasts: by aggregate, what is known of its error.
    parts: each aggregate's part of the budget. request, cost: what was offered, and what the
    account would be charged. left: what the account holds now. outlook: what other budgets and
    limits would do. beside: by aggregate, the noise beside the range of its values, where known.
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

    @property
    def affordable(self) -> bool:
        """Whether the account could pay for the question now."""
        return all(a <= b for a, b in zip(self.cost.additive, self.left.additive, strict=True))

    def standard_error(self, name: str) -> float | None:
        """The expected error of one aggregate, where it is known (see `Forecast`)."""
        return self.forecasts[name].standard_error

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
            "aggregates": {
                name: {
                    "part": self.parts[name],
                    "noise": forecast.noise,
                    "sensitivity": forecast.sensitivity,
                    "standard_error": forecast.standard_error,
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
        lines = ["What happens to the rows"]
        lines += [f"  {number}. {text}" for number, text in enumerate(self.rows, start=1)]
        lines += ["", f"What it costs: {self.cost}, of the {self.request} that was offered"]
        lines += [f"What is left: {self.left}"]
        if not self.affordable:
            lines[-1] += ". The question would be refused: it costs more than that"
        lines += [] if self.keys is None else ["", *self.keys.lines]
        for name, forecast in self.forecasts.items():
            share = f"{100 * self.parts[name]:.3g}% of the budget"
            lines += ["", f"{name} ({share})", f"  sensitivity: {forecast.sensitivity}"]
            lines += [f"  noise: {forecast.noise}"]
            lines += [f"  {text}" for text in _errors(forecast)]
            lines += [f"  {self.beside[name]}"] if name in self.beside else []
            lines += [f"  {note}" for note in forecast.notes]
        if more := self.outlook.lines:
            lines += ["", *more]
        return "\n".join(lines)


def explained(
    query: Query,
    allocation: Allocation,
    cost: Guarantee,
    *,
    left: Guarantee,
    assuming: Assume | None,
) -> Explanation:
    """The explanation of a question with this noise and price."""
    forecasts = {}
    for name, aggregate in query.aggregates.items():
        forecasts[name] = aggregate.forecast(allocation.noises[name], allocation.reach, assuming)
    return Explanation(
        rows=_rows(query),
        forecasts=forecasts,
        parts={name: float(part) for name, part in query.parts().items()},
        request=allocation.request,
        cost=cost,
        left=left,
        keys=FoundKeys.of(query, allocation),
        outlook=outlook_of(query, allocation.request, forecasts, assuming),
        beside=_beside(query, forecasts),
    )


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


def provenance(
    query: Query, allocation: Allocation, cost: Guarantee, *, place: Place | None = None
) -> tuple[str, ...]:
    """How a release was made, sentence by sentence: no part of it depends on the data."""
    change = "replaced by another" if query.unit.neighbors is ReplaceOne else "left out"
    protects = (
        f"Protects {query.unit}: whether it is in the table or {change} changes the law of this "
        f"answer by no more than {cost} allows."
    )
    noises = [
        f"{name}: {aggregate.forecast(allocation.noises[name], allocation.reach, None).noise}"
        for name, aggregate in query.aggregates.items()
    ]
    together = []
    if place is not None:
        together.append(
            f"Question {place.name!r} of {len(place.together.names):,} that were asked together: "
            f"{cost} is for all of them, once."
        )
    keys = FoundKeys.of(query, allocation)
    return (
        protects,
        *together,
        *_rows(query),
        *([] if keys is None else keys.sentences),
        *noises,
        _READING,
    )


def _rows(query: Query) -> tuple[str, ...]:
    lines = lines_of(query.rows, query.names, query.unit)
    if query.public_groups:
        names = ", ".join(group.label for group in query.public_groups)
        count = f"{len(query.keys):,} public key{'s' if len(query.keys) != 1 else ''}"
        lines.append(f"keep rows whose {names} is one of {count}; every key is answered")
    if query.margins is not None:
        lines.append(f"sum over columns ({query.margins}); all tables add up")
    unit = query.limited
    if isinstance(unit, Person):
        ids = ", ".join(unit.id)
        lines.append(f"drop rows without {ids} (whether or not there are any)")
        lines += limits_in_words(unit, cells=query.cells)
    return tuple(lines)


def _errors(forecast: Forecast) -> list[str]:
    lines = []
    if forecast.standard_error is not None:
        when = f", assuming {forecast.assumed_rows:,} rows" if forecast.assumed_rows else ""
        text = f"expected error{when}: {forecast.standard_error:.4g} (standard deviation)"
        if forecast.half_width is not None:
            text += f"; 95% of answers are within {forecast.half_width:.4g} of the exact one"
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
