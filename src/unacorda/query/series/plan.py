"""The plan of a series: its steps and what its answers are made by, all of it public.

It is settled when the series is opened, and stands in the entry of the ledger that reserves the
whole price.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from unacorda.checks import choice, demand, exact, is_text, positive_integer
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.mechanisms.parameters import inverse_root_up
from unacorda.over_time.bounds import MOST_STEPS, OverTime, SlidingWindow, Wanted, check_wanted
from unacorda.over_time.encoders import Encoder, choose_encoder
from unacorda.over_time.noise import SeriesNoise
from unacorda.over_time.sensitivity import squared_sensitivity
from unacorda.privacy.events import Event, Gaussian, compose
from unacorda.privacy.guarantees import GDP, Guarantee, PureDP, guarantee_from_json
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.rounding import root_up
from unacorda.query.aggregates.base import Aggregate, expression_of
from unacorda.query.aggregates.linear import BoundedSum, Count, CountIf, CountPeople, Linear
from unacorda.query.expressions.language import Expression, Kind, identifier
from unacorda.query.plan.codec import encode, stated_rows
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import PeoplePart, SourceTable
from unacorda.query.results.record import asked_of
from unacorda.query.schema.units import Person

Floats = NDArray[np.float64]

Every: TypeAlias = Literal["hour", "day", "week", "month"]
"""How long a step is."""

_DAYS = {"hour": Fraction(1, 24), "day": Fraction(1), "week": Fraction(7), "month": Fraction(28)}
_LATEST: Final = dt.timedelta(hours=14)
"""By how much a clock somewhere on earth is ahead of UTC at most."""

ROWS: Final = "rows"
KEPT: Final = "kept"
"""What is counted for the share of rows kept: the rows there are, and those of them that count."""

_MOST_NUMBERS: Final = 100_000
_RENEWS: Final = (
    "a number of steps with within=: without an end a budget that renews in each period protects "
    "no person over a longer time. Give steps=, or bound people for good by max_steps= alone"
)
_MEDIANS: Final = (
    "counts of rows, sums with bounds and people so far: count(), count_if(), sum() and "
    "count_people(). Of a mean ask the sum and the count; of a median or another quantile the "
    "counts of a histogram, .derive(bin='floor(x / 10)').group_by('bin', keys=[...]), whose totals "
    "tell it"
)
ONCE: Final = OverTime(max_steps=1)
_PLAIN: Final = Encoder(numbers=(1,), scale_log2=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Steps of one length from a start on.

    steps: how many there are, None without an end.
    """

    every: Every
    start: dt.datetime
    steps: int | None

    @staticmethod
    def of(*, every: Every, start: object, steps: int | None) -> Calendar:
        """The calendar of these arguments; InvalidParameter for what is none."""
        choice(get_args(Every), every=every)
        begin = _moment("start", start)
        whole = begin if every == "hour" else begin.replace(hour=0)
        if every == "month":
            whole = whole.replace(day=1)
        whole = whole.replace(minute=0, second=0, microsecond=0)
        shown = str(whole if every == "hour" else whole.date())
        expected = f"the beginning of a {every}, such as {shown!r}"
        demand(begin == whole, "start", start, expected=expected)
        if steps is not None:
            few = positive_integer(steps=steps) <= MOST_STEPS
            demand(few, "steps", steps, expected=f"at most {MOST_STEPS:,}")
            months = 1.09 if every == "month" else 1
            years = float(steps * _DAYS[every]) / 365 * months + begin.year
            demand(years < 9_990, "steps", steps, expected="an end before the year 9990")
        return Calendar(every=every, start=begin, steps=steps)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """What the answers of a series are made by, but for the data; all of it public.

    query: what is asked of each step; by: the expression of when a row became visible, of this
    kind; calendar: the steps; person: which rows of a person count, None where only people are
    counted or single rows are protected; wanted: what the noise is made for; budget: the whole
    price; kept: its share for what share of rows the bound keeps, None where that is not asked;
    encoder, sigmas, kept_sigmas: the noise, of each aggregate in the unit of its integers.
    """

    query: Query
    by: str
    kind: Literal["date", "timestamp"]
    calendar: Calendar
    person: OverTime | None
    wanted: tuple[Wanted, ...]
    budget: Guarantee
    kept: Fraction | None
    encoder: Encoder = _PLAIN
    sigmas: Mapping[str, Fraction] = dataclasses.field(default_factory=dict)
    kept_sigmas: Mapping[str, Fraction] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(
        query: Query,
        *,
        by: object,
        every: Every,
        start: object,
        steps: int | None,
        person: object,
        wanted: object,
        budget: object,
        kept: object,
    ) -> SeriesPlan:
        """The plan with the least noise; raises InvalidParameter for what cannot be asked."""
        _check_query(query)
        calendar = Calendar.of(every=every, start=start, steps=steps)
        text, kind = _visible(query, by, calendar.every)
        kinds = check_wanted(wanted)
        limited = _limited(query, person, calendar.steps)
        _check_kinds(kinds, calendar.steps)
        expected = "a guarantee such as unacorda.ZCDP(0.5)"
        demand(isinstance(budget, Guarantee), "budget", budget, expected=expected)
        return SeriesPlan(
            query=query,
            by=text,
            kind=kind,
            calendar=calendar,
            person=limited,
            wanted=kinds,
            budget=cast("Guarantee", budget),
            kept=_kept_share(kept, limited, calendar.steps),
        ).settled()

    def settled(self) -> SeriesPlan:
        """The same with the noise that errs least, for its bound and its budget."""
        encoder = choose_encoder(self.person or ONCE, self.wanted, steps=self.steps)
        multipliers, of_kept = self._multipliers(encoder)
        sigmas = {name: self._sigma(name, one, encoder) for name, one in multipliers.items()}
        kept = {}
        if self.person is not None and of_kept:
            kept = {
                ROWS: of_kept[ROWS] * self._sensitivity(_PLAIN, self.all_steps),
                KEPT: of_kept[KEPT] * self._sensitivity(encoder, self.person),
            }
        return dataclasses.replace(self, encoder=encoder, sigmas=sigmas, kept_sigmas=kept)

    @property
    def steps(self) -> int | None:
        """How many steps there are; None without an end."""
        return self.calendar.steps

    @property
    def all_steps(self) -> OverTime:
        """The bound under which a person counts in every step, with as many rows in each."""
        assert self.person is not None
        return OverTime(max_steps=self.steps, max_rows_per_step=self.person.each)

    @property
    def event(self) -> Event:
        """What all steps together cost: normal noise over the sensitivity of each aggregate."""
        multipliers, of_kept = self._multipliers(self.encoder)
        every = [*multipliers.values(), *of_kept.values()]
        one, *others = (Gaussian(noise_multiplier=multiplier) for multiplier in every)
        return compose([one, *others]) if others else one

    @property
    def step(self) -> Expression:
        """The expression of the step that a row lies in, from 0."""
        return self.query.scope.parse(self.calendar.number(self.by, kind=self.kind), argument="by")

    @property
    def noises(self) -> dict[str, SeriesNoise]:
        """The noise of each aggregate."""
        return {
            name: SeriesNoise(encoder=self.encoder, sigma=sigma)
            for name, sigma in self.sigmas.items()
        }

    @property
    def kept_noises(self) -> dict[str, SeriesNoise]:
        """The noise of the rows there are and of those that count; empty where none are asked."""
        return {
            name: SeriesNoise(encoder=_PLAIN if name == ROWS else self.encoder, sigma=sigma)
            for name, sigma in self.kept_sigmas.items()
        }

    @property
    def asked(self) -> dict[str, Any]:
        """What the caller asked, in plain values; `SeriesPlan.read` gives it back."""
        # With the types of the columns that tell the step: a time zone moves rows to other days.
        read = stated_rows(self.query.rows, [*self.query.names, *self.step.columns])
        rows = self.query.to_dict() | read
        kept = {} if self.kept is None else {"kept": str(self.kept)}
        return {
            "query": {name: part for name, part in rows.items() if name not in ("unit", "search")},
            "by": self.by,
            "kind": self.kind,
            "every": self.calendar.every,
            "start": self.calendar.start.isoformat(),
            "steps": self.steps,
            "person": None if self.person is None else encode(self.person),
            "wanted": [column_of(one) for one in self.wanted],
            "budget": encode(self.budget),
            **kept,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of what was asked."""
        return hashlib.sha256(json.dumps(self.asked, sort_keys=True).encode()).hexdigest()

    @property
    def definition(self) -> str:
        """JSON text of the plan with its noise."""
        noise = {
            "encoder": list(self.encoder.numbers),
            "scale_log2": self.encoder.scale_log2,
            "sigmas": {name: str(sigma) for name, sigma in self.sigmas.items()},
            "kept_sigmas": {name: str(sigma) for name, sigma in self.kept_sigmas.items()},
        }
        return json.dumps({"asked": self.asked, "noise": noise})

    def with_noise_of(self, definition: str) -> SeriesPlan:
        """The same with the noise that was settled when the series was opened."""
        noise = json.loads(definition)["noise"]
        return dataclasses.replace(
            self,
            encoder=Encoder(numbers=tuple(noise["encoder"]), scale_log2=noise["scale_log2"]),
            sigmas={name: Fraction(one) for name, one in noise["sigmas"].items()},
            kept_sigmas={name: Fraction(one) for name, one in noise.get("kept_sigmas", {}).items()},
        )

    @staticmethod
    def read(definition: str, rows_of: Callable[[Mapping[str, Any]], Query]) -> SeriesPlan:
        """The plan of a definition.

        rows_of: the rows that a question in plain values is about, without groups and aggregates.
        Raises InvalidParameter where they do not have what it names.
        """
        asked = json.loads(definition)["asked"]
        person = asked["person"]
        if person is not None:
            person = OverTime(**{name: person[name] for name in person if name != "kind"})
        plan = SeriesPlan(
            query=asked_of(rows_of(asked["query"]), asked["query"]),
            by=asked["by"],
            kind=asked["kind"],
            calendar=Calendar(
                every=asked["every"],
                start=dt.datetime.fromisoformat(asked["start"]),
                steps=asked["steps"],
            ),
            person=person,
            wanted=tuple(_wanted(one) for one in asked["wanted"]),
            budget=guarantee_from_json(json.dumps(asked["budget"])),
            kept=Fraction(asked["kept"]) if "kept" in asked else None,
        )
        return plan.with_noise_of(definition)

    def text_of(self, found: Mapping[str, list[int]], kept: Mapping[str, list[int]]) -> str:
        """The noisy integers of a step as the ledger holds them.

        found: of the aggregates; kept: of the rows there are and of those that count.
        """
        return json.dumps(found if self.kept is None else {"answers": found, "kept": kept})

    def errors(self, name: str, wanted: Wanted, steps: int) -> Floats:
        """Standard errors of the first `steps` sums of a kind, in the unit of the answer."""
        return self._unit(name) * self.noises[name].standard_errors(wanted, steps)

    def values(self, name: str, wanted: Wanted, released: Sequence[str]) -> list[list[Any]]:
        """The sums of a kind by step and cell; counts are rounded to whole numbers."""
        if not released:
            return []
        lines = [json.loads(step) for step in released]
        lines = lines if self.kept is None else [line["answers"] for line in lines]
        found = self.noises[name].estimates([line[name] for line in lines], wanted)
        if self._aggregate(name).counts:
            rounded: list[list[Any]] = np.rint(found).astype(np.int64).tolist()
            return rounded
        scaled: list[list[Any]] = (self._unit(name) * found).tolist()
        return scaled

    def kept_sums(self, name: str, wanted: Wanted, released: Sequence[str]) -> Floats:
        """The sums of a kind, by step, of the rows there are or of those that count."""
        lines = [json.loads(step)["kept"][name] for step in released]
        return np.asarray(self.kept_noises[name].estimates(lines, wanted)[:, 0])

    def _unit(self, name: str) -> float:
        return math.ldexp(1.0, self._aggregate(name).unit_log2)

    def _aggregate(self, name: str) -> Linear:
        return cast("Linear", self.query.aggregates[name])

    def _multipliers(self, encoder: Encoder) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
        """The noise multipliers: the budget as Gaussian DP, by its shares.

        Of each aggregate, and of what is counted for the share of rows kept.
        """
        expected = (
            "GDP, ZCDP, RenyiDP or ApproxDP with a delta above 0: normal noise keeps no pure "
            "guarantee"
        )
        keeps = not isinstance(self.budget, PureDP) and self.budget.additive[0] > 0
        demand(keeps, "budget", self.budget, expected=expected)
        whole = Fraction(0)
        with contextlib.suppress(UnacordaError):
            whole = Fraction(GDP.within(self.budget).mu_squared)
        demand(whole > 0, "budget", self.budget, expected=expected)
        kept = self.kept or Fraction(0)
        parts = self.query.parts().items()
        multipliers = {name: inverse_root_up(whole * (1 - kept) * part) for name, part in parts}
        if not kept:
            return multipliers, {}
        return multipliers, {
            name: inverse_root_up(whole * kept * part)
            for name, part in self._parts_of_kept(encoder).items()
        }

    def _parts_of_kept(self, encoder: Encoder) -> dict[str, Fraction]:
        """How the share for the rows kept is divided: by the errors of the last totals."""
        assert self.person is not None
        assert self.steps is not None
        rows, kept = (
            float(self._sensitivity(one, bound)) * one.deviations("totals", self.steps)[-1]
            for one, bound in ((_PLAIN, self.all_steps), (encoder, self.person))
        )
        part = Fraction(min(max(round(100 * rows / (rows + kept)), 1), 99), 100)
        return {ROWS: part, KEPT: 1 - part}

    def _sigma(self, name: str, multiplier: Fraction, encoder: Encoder) -> Fraction:
        """The noise of an aggregate, in the unit of its integers; rounded up."""
        aggregate, low, high = self._aggregate(name), 0, 1
        if isinstance(aggregate, BoundedSum):
            low, high = aggregate.clamp.lower, aggregate.clamp.upper
        once = self.person is None or isinstance(aggregate, CountPeople)
        bound = ONCE if once else cast("OverTime", self.person)
        moved = self._sensitivity(encoder, bound, signed=low < 0 < high)
        return multiplier * max(abs(low), abs(high)) * moved

    def _sensitivity(self, encoder: Encoder, bound: OverTime, *, signed: bool = False) -> Fraction:
        """The l2 sensitivity of all steps, each row at most 1; rounded up."""
        square = squared_sensitivity(
            encoder.column,
            bound,
            steps=self.steps,
            replaced=self.query.unit.neighbors is ReplaceOne,
            signed=signed,
        )
        return Fraction(root_up(square))


def column_of(wanted: Wanted) -> str:
    """The word for a kind of sum in names of columns.

    >>> column_of("totals")
    'total'
    """
    return {"totals": "total", "steps": "step"}.get(str(wanted), str(wanted))


def _wanted(column: str) -> Wanted:
    """The kind of sum of this word."""
    match column:
        case "total":
            return "totals"
        case "step":
            return "steps"
        case _:
            return SlidingWindow(int(column.removeprefix("window")))


def _check_query(query: Query) -> None:
    """Raise InvalidParameter for what cannot be answered step by step."""
    rows = query.rows
    for step in rows.steps:
        expected = "the whole session: who is in a part of it is not settled while rows still come"
        demand(not isinstance(step, PeoplePart), "query", "a sub-session", expected=expected)
    plain = isinstance(rows.source, SourceTable) and rows.copies == 1
    expected = (
        "rows of one table, with where, derive and joins that make no more of them: which rows of "
        "a person count must not depend on later ones"
    )
    demand(plain, "query", str(rows), expected=expected)
    public = query.private is None and query.margins is None
    expected = "groups with public keys, group_by('county', keys=[...]), without margins: a key "
    demand(public, "keys", "private keys or margins", expected=f"{expected}that appears tells")
    for name, aggregate in query.aggregates.items():
        demand(_is_linear(aggregate), name, _call(aggregate), expected=_MEDIANS)
    numbers = len(query.keys) * len(query.aggregates)
    expected = f"at most {_MOST_NUMBERS:,} numbers in a step"
    demand(numbers <= _MOST_NUMBERS, "keys", f"{numbers:,}", expected=expected)


def _is_linear(aggregate: Aggregate) -> bool:
    people = isinstance(aggregate, CountPeople) and aggregate.column is None
    return people or type(aggregate) in (Count, CountIf, BoundedSum)


def _call(aggregate: Aggregate) -> str:
    return f"{type(aggregate).tag}({getattr(aggregate, 'column', None) or ''})"


def _visible(query: Query, by: object, every: Every) -> tuple[str, Literal["date", "timestamp"]]:
    """The expression of when a row became visible, and its kind."""
    demand(is_text(by), "by", by, expected="a column of dates on which rows became visible")
    assert isinstance(by, str)
    text = identifier(by) if by in query.scope else f"({by})"
    kinds: tuple[Kind, ...] = (Kind.TIMESTAMP,) if every == "hour" else (Kind.DATE, Kind.TIMESTAMP)
    for kind in kinds:
        try:
            expression_of(by, query.scope, kind=kind, argument="by")
        except UnacordaError:
            continue
        return text, "date" if kind is Kind.DATE else "timestamp"
    expression_of(by, query.scope, kind=None, argument="by")  # refuses what is no column
    expected = "a column of timestamps" if every == "hour" else "a column of dates or timestamps"
    raise InvalidParameter("by", by, expected=f"{expected}: when a row became visible")


def _limited(query: Query, person: object, steps: int | None) -> OverTime | None:
    """Which rows of a person count; None where there is nothing to bound."""
    people = isinstance(query.unit, Person)
    needed = not all(isinstance(one, CountPeople) for one in query.aggregates.values())
    if not people or person is None:
        fits = person is None and not (people and needed)
        expected = "unacorda.OverTime(max_steps=...): in how many steps a person counts, for good"
        if not people:
            expected = "it for people alone: single rows are protected, and each lies in one step"
        demand(fits, "person", person, expected=expected)
        return None
    expected = "unacorda.OverTime(max_steps=10, max_rows_per_step=1)"
    demand(isinstance(person, OverTime), "person", person, expected=expected)
    assert isinstance(person, OverTime)
    renews = steps is None and person.within is not None
    demand(not renews, "steps", None, expected=_RENEWS)
    return person


def _check_kinds(wanted: Sequence[Wanted], steps: int | None) -> None:
    """Raise InvalidParameter for sums that so many steps do not have."""
    expected = "how many steps there will be: totals have no bounded error without an end"
    demand(steps is not None or "totals" not in wanted, "steps", None, expected=expected)
    for one in wanted:
        if steps is not None and isinstance(one, SlidingWindow):
            expected = f"windows of at most the {steps:,} steps there are"
            demand(one.width <= steps, "wanted", one, expected=expected)


def _kept_share(kept: object, person: OverTime | None, steps: int | None) -> Fraction | None:
    """The share of the budget for what share of rows the bound keeps."""
    if kept is None:
        return None
    share = exact("kept", cast("Any", kept))
    demand(0 < share < 1, "kept", kept, expected="a share of the budget, such as 0.05")
    expected = "it with a bound, person=unacorda.OverTime(...): without one every row counts"
    demand(person is not None, "kept", kept, expected=expected)
    expected = "steps=: without an end a person may have rows in any number of steps"
    demand(steps is not None, "kept", kept, expected=expected)
    return share
