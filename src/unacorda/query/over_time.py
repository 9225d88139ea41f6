"""Answers over time: one question about a table that grows, step by step, for one price.

What a series is made by is settled when it is opened, from public numbers alone, and stands in the
entry of the ledger that reserves its whole price. Each step is an entry of its own, written before
its numbers leave: a process that dies before has released nothing, two processes cannot make one
step, and no step is made twice with two noises. Nothing secret is kept: the exact integers of
earlier steps are counted anew from the table, by choices that later rows do not change.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.charges import charge, request_price
from unacorda.checks import demand, is_text
from unacorda.errors import InvalidParameter, LedgerMismatch, UnacordaError
from unacorda.extras import require
from unacorda.ledger.entries import SeriesOpened, SeriesRecord, SeriesTerms
from unacorda.ledger.ledger import Ledger, SubAccount
from unacorda.mechanisms.parameters import inverse_root_up
from unacorda.over_time.bounds import (
    MOST_STEPS,
    OverTime,
    SlidingWindow,
    Wanted,
    check_wanted,
)
from unacorda.over_time.encoders import HORIZON, Encoder, choose_encoder
from unacorda.over_time.noise import SeriesNoise
from unacorda.over_time.sensitivity import squared_sensitivity
from unacorda.privacy.events import Event, Gaussian, compose
from unacorda.privacy.guarantees import GDP, Guarantee, PureDP, guarantee_from_json
from unacorda.privacy.neighbors import ReplaceOne
from unacorda.privacy.rounding import root_up
from unacorda.query.aggregates.base import Aggregate, expression_of
from unacorda.query.aggregates.linear import Count, CountIf, CountPeople, Linear, Sum
from unacorda.query.engines.compile import StepRange
from unacorda.query.engines.engine import Admission, Tallies, admitted
from unacorda.query.execution import ExecutionContext, check_engine, salt_from
from unacorda.query.expressions.language import Expression, Kind
from unacorda.query.expressions.markup import aligned, heading, paragraph, table
from unacorda.query.expressions.quoting import identifier
from unacorda.query.plan.codec import decode, encode, rows_of, stated_rows, with_steps
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import PeoplePart, SourceTable
from unacorda.query.results.display import number
from unacorda.query.schema.facts import Key
from unacorda.query.schema.units import Person, Row, Unit

if TYPE_CHECKING:
    import pandas

Every: TypeAlias = Literal["hour", "day", "week", "month"]
"""How long a step is."""

Floats = NDArray[np.float64]

_Z: Final = 1.959964
_SHOWN: Final = 8
_MOST_NUMBERS: Final = 100_000
_DAYS = {"hour": Fraction(1, 24), "day": Fraction(1), "week": Fraction(7), "month": Fraction(28)}
_LATEST: Final = dt.timedelta(hours=14)
"""By how much a clock somewhere on earth is ahead of UTC at most."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """What the answers of a series are made by, but for the data; all of it public.

    query: what is asked of each step; by: the expression of when a row became visible, of this
    kind; every, start, steps: the steps, None without an end; person: which rows of a person count,
    None where only people are counted or single rows are protected; wanted: what the noise is made
    for; budget: the whole price; encoder, sigmas: the noise, of each aggregate in the unit of its
    integers.
    """

    query: Query
    by: str
    kind: Literal["date", "timestamp"]
    every: Every
    start: dt.datetime
    steps: int | None
    person: OverTime | None
    wanted: tuple[Wanted, ...]
    budget: Guarantee
    encoder: Encoder
    sigmas: Mapping[str, Fraction]

    @staticmethod
    def of(
        query: Query,
        *,
        by: object,
        every: object,
        start: object,
        steps: object,
        person: object,
        wanted: object,
        budget: object,
    ) -> SeriesPlan:
        """The plan with the least noise; raises InvalidParameter for what cannot be asked."""
        _check_query(query)
        expected = "how long a step is: 'hour', 'day', 'week' or 'month'"
        demand(every in get_args(Every), "every", every, expected=expected)
        length = cast("Every", every)
        text, kind = _visible(query, by, length)
        begin = _moment("start", start)
        whole = begin if length == "hour" else begin.replace(hour=0)
        if length == "month":
            whole = whole.replace(day=1)
        whole = whole.replace(minute=0, second=0, microsecond=0)
        expected = f"the beginning of a {length}, such as {_shown(whole, length)!r}"
        demand(begin == whole, "start", start, expected=expected)
        kinds = check_wanted(wanted)
        limited = _limited(query, person, steps)
        count = _count(steps, kinds, limited, begin, length)
        known = isinstance(budget, Guarantee)
        demand(known, "budget", budget, expected="a guarantee such as unacorda.ZCDP(0.5)")
        assert isinstance(budget, Guarantee)
        return SeriesPlan(
            query=query,
            by=text,
            kind=kind,
            every=length,
            start=begin,
            steps=count,
            person=limited,
            wanted=kinds,
            budget=budget,
            encoder=_PLAIN,
            sigmas={},
        ).settled()

    def settled(self) -> SeriesPlan:
        """The same with the noise that errs least, for its bound and its budget."""
        encoder = choose_encoder(self.person or _ONCE, self.wanted, steps=self.steps)
        return dataclasses.replace(self, encoder=encoder, sigmas=self._sigmas(encoder))

    @property
    def event(self) -> Event:
        """What all steps together cost: normal noise over the sensitivity of each aggregate."""
        one, *others = (Gaussian(noise_multiplier=m) for m in self._multipliers().values())
        return compose([one, *others]) if others else one

    @property
    def step(self) -> Expression:
        """The expression of the step that a row lies in, from 0."""
        begin: dt.date = self.start if self.kind == "timestamp" else self.start.date()
        said = {dt.datetime: "TIMESTAMP", dt.date: "DATE"}[type(begin)]
        unit, width = ("day", 7) if self.every == "week" else (self.every, 1)
        text = f"date_diff('{unit}', {said} '{begin}', {self.by})"
        text = f"floor({text} / {width})" if width > 1 else text
        return self.query.scope.parse(text, argument="by")

    @property
    def noises(self) -> dict[str, SeriesNoise]:
        """The noise of each aggregate."""
        return {
            name: SeriesNoise(encoder=self.encoder, sigma=sigma)
            for name, sigma in self.sigmas.items()
        }

    @property
    def asked(self) -> dict[str, Any]:
        """What the caller asked, in plain values; `SeriesPlan.read` gives it back."""
        # With the types of the columns that tell the step: a time zone moves rows to other days.
        read = stated_rows(self.query.rows, [*self.query.names, *self.step.columns])
        rows = self.query.to_dict() | read
        return {
            "query": {name: part for name, part in rows.items() if name not in ("unit", "search")},
            "by": self.by,
            "kind": self.kind,
            "every": self.every,
            "start": self.start.isoformat(),
            "steps": self.steps,
            "person": None if self.person is None else encode(self.person),
            "wanted": [_named(one) for one in self.wanted],
            "budget": encode(self.budget),
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
        }
        return json.dumps({"asked": self.asked, "noise": noise})

    def with_noise_of(self, definition: str) -> SeriesPlan:
        """The same with the noise that was settled when the series was opened."""
        noise = json.loads(definition)["noise"]
        encoder = Encoder(numbers=tuple(noise["encoder"]), scale_log2=noise["scale_log2"])
        sigmas = {name: Fraction(sigma) for name, sigma in noise["sigmas"].items()}
        return dataclasses.replace(self, encoder=encoder, sigmas=sigmas)

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
            query=_read_query(asked["query"], rows_of(asked["query"])),
            by=asked["by"],
            kind=asked["kind"],
            every=asked["every"],
            start=dt.datetime.fromisoformat(asked["start"]),
            steps=asked["steps"],
            person=person,
            wanted=tuple(_wanted(one) for one in asked["wanted"]),
            budget=guarantee_from_json(json.dumps(asked["budget"])),
            encoder=_PLAIN,
            sigmas={},
        )
        return plan.with_noise_of(definition)

    def begins(self, step: int) -> dt.datetime:
        """When a step begins."""
        if self.every == "month":
            months = self.start.year * 12 + self.start.month - 1 + step
            return self.start.replace(year=months // 12, month=months % 12 + 1)
        return self.start + step * dt.timedelta(**{f"{self.every}s": 1})

    def label(self, step: int) -> dt.date:
        """What a step is called: its date, or the instant at which it begins."""
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
        expected = "a step that has ended: rows that come after its answer would count nowhere"
        demand(
            self.begins(step + 1) <= now + _LATEST, "day", str(self.label(step)), expected=expected
        )

    def errors(self, name: str, wanted: Wanted, steps: int) -> Floats:
        """Standard errors of the first `steps` sums of a kind, in the unit of the answer."""
        return self._unit(name) * self.noises[name].standard_errors(wanted, steps)

    def values(self, name: str, wanted: Wanted, released: Sequence[str]) -> list[list[Any]]:
        """The sums of a kind by step and cell; counts are rounded to whole numbers."""
        lines = [json.loads(step)[name] for step in released]
        found = self.noises[name].estimates(lines, wanted)
        if self._aggregate(name).counts:
            rounded: list[list[Any]] = np.rint(found).astype(np.int64).tolist()
            return rounded
        scaled: list[list[Any]] = (self._unit(name) * found).tolist()
        return scaled

    def _unit(self, name: str) -> float:
        return math.ldexp(1.0, self._aggregate(name).unit_log2)

    def _aggregate(self, name: str) -> Linear:
        return cast("Linear", self.query.aggregates[name])

    def _multipliers(self) -> dict[str, Fraction]:
        """The noise multiplier of each aggregate: the budget as Gaussian DP, by its shares."""
        expected = (
            "GDP, ZCDP, RenyiDP or ApproxDP with a delta above 0: normal noise keeps no pure "
        )
        expected += "guarantee"
        kept = not isinstance(self.budget, PureDP) and self.budget.additive[0] > 0
        demand(kept, "budget", self.budget, expected=expected)
        whole = Fraction(0)
        with contextlib.suppress(UnacordaError):
            whole = Fraction(GDP.within(self.budget).mu_squared)
        demand(whole > 0, "budget", self.budget, expected=expected)
        return {name: inverse_root_up(whole * part) for name, part in self.query.parts().items()}

    def _sigmas(self, encoder: Encoder) -> dict[str, Fraction]:
        """The noise of each aggregate, in the unit of its integers; rounded up."""
        replaced = self.query.unit.neighbors is ReplaceOne
        found = {}
        for name, multiplier in self._multipliers().items():
            aggregate = self._aggregate(name)
            counts_people = isinstance(aggregate, CountPeople)
            low, high = (0, 1)
            if isinstance(aggregate, Sum):
                low, high = aggregate.clamp.lower, aggregate.clamp.upper
            square = squared_sensitivity(
                encoder.column,
                _ONCE if self.person is None or counts_people else self.person,
                steps=self.steps,
                replaced=replaced,
                signed=low < 0 < high,
            )
            found[name] = multiplier * max(abs(low), abs(high)) * Fraction(root_up(square))
        return found


_ONCE: Final = OverTime(max_steps=1)
_PLAIN: Final = Encoder(numbers=(1,), scale_log2=0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SeriesForecast:
    """What a series will do, cost and err by. Free: a function of public numbers alone.

    errors: by name and kind of sum the standard errors step by step, of the first `HORIZON` steps
    where there is no end.
    """

    plan: SeriesPlan
    cost: Guarantee
    errors: Mapping[str, Mapping[str, Floats]]

    def __str__(self) -> str:
        plan = self.plan
        end = "without an end" if plan.steps is None else f"{plan.steps:,} steps"
        who = "each person once, at their first row"
        if not isinstance(plan.query.unit, Person):
            who = "every row"
        elif plan.person is not None:
            who = f"of each person {plan.person}, for good"
        lines = [
            f"a {plan.every} a step from {plan.label(0)} on, {end}; costs {self.cost}, once",
            f"counts {who}: what comes later is dropped, and by how much is not known",
            f"noise: normal, correlated over {plan.encoder.bands:,} steps",
        ]
        for name, kinds in self.errors.items():
            for kind, found in kinds.items():
                first, last, mean = found[0], found[-1], math.sqrt(float(np.mean(found**2)))
                lines.append(
                    f"{name} {kind}: standard error {number(float(first))} in the first step, "
                    f"{number(float(last))} in the last, {number(mean)} on average"
                )
        lines.append(
            f"promised by you: rows are only added, and {plan.by} is when a row became visible; "
            "it, the id and what decides whether a row counts never change"
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(map(paragraph, str(self).splitlines()))


@dataclass(frozen=True, kw_only=True, repr=False)  # without slots, so that columns are made once
class SeriesAnswers:
    """The answers of a series up to a step. Everything in it may be published.

    name: of the series; plan: what they are made by; released: the noisy numbers, step by step, as
    the ledger has them. An earlier answer never changes.
    """

    name: str
    plan: SeriesPlan
    released: tuple[str, ...]

    @functools.cached_property
    def _columns(self) -> dict[str, list[Any]]:
        plan, steps = self.plan, len(self.released)
        keys = plan.query.released_keys
        found: dict[str, list[Any]] = {
            plan.every: [plan.label(step) for step in range(steps) for _ in keys]
        }
        for place, group in enumerate(plan.query.released_groups):
            found[group] = [key[place] for _ in range(steps) for key in keys]
        for name in plan.query.aggregates:
            for kind in plan.wanted:
                values = plan.values(name, kind, self.released)
                errors = plan.errors(name, kind, steps) if steps else ()
                column = f"{name}_{_named(kind)}"
                found[column] = [value for line in values for value in line]
                found[f"{column}_se"] = [float(error) for error in errors for _ in keys]
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, errors included."""
        return tuple(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        expected = f"one of the columns {', '.join(self._columns)}"
        demand(name in self._columns, "name", name, expected=expected)
        return list(self._columns[name])

    def __len__(self) -> int:
        return len(self.released) * len(self.plan.query.released_keys)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each step and key, in their order."""
        columns = self._columns
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame (extra `frames`)."""
        frame: pandas.DataFrame = require("pandas", extra="frames").DataFrame(self._columns)
        return frame

    def plot(self, kind: Wanted = "totals", name: str | None = None, *, axes: Any = None) -> Any:
        """Draw sums of a kind with bands of 95%, a line for each key; gives axes (extra `plots`).

        kind: what is wanted, 'totals', 'steps' or `unacorda.window(28)`; name: of the aggregate,
        needed where there are several; axes: to draw on, such as `unacorda.plots.new_axes()`.
        """
        from unacorda import plots

        names, plan = tuple(self.plan.query.aggregates), self.plan
        chosen = names[0] if name is None and len(names) == 1 else name
        demand(chosen in names, "name", name, expected=f"one of {', '.join(names)}")
        expected = f"one of {', '.join(map(repr, map(_asked, plan.wanted)))}, which were asked"
        demand(kind in plan.wanted, "kind", kind, expected=expected)
        keys, column = plan.query.released_keys, f"{chosen}_{_named(kind)}"
        days = [plan.label(step) for step in range(len(self.released))]
        values = np.array(self._columns[column], dtype=np.float64).reshape(-1, len(keys))
        half = _Z * np.array(self._columns[f"{column}_se"]).reshape(-1, len(keys))
        lines = {
            ", ".join(map(number, key)) or str(chosen): place for place, key in enumerate(keys)
        }
        curves = {
            key: (values[:, at], values[:, at] - half[:, at], values[:, at] + half[:, at])
            for key, at in lines.items()
        }
        return plots.answers_over_time(days, curves, ylabel=column, axes=axes)

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        """The last lines as text."""
        heads = [name for name in self._columns if not name.endswith("_se")]
        found = []
        for line in self.to_dicts()[-_SHOWN:]:
            cells = []
            for name in heads:
                error = line.get(f"{name}_se")
                said = "" if error is None else f" ± {number(_Z * error)}"
                cells.append(f"{number(line[name])}{said}")
            found.append(cells)
        return heads, found

    def __repr__(self) -> str:
        heads, lines = self._lines()
        texts = [line.rstrip() for line in aligned([heads, *lines], left=len(heads))]
        more = len(self) - len(lines)
        above = [f"... {more:,} lines before"] if more else []
        return "\n".join([texts[0], *above, *texts[1:], "± ends of 95% intervals of the noise"])

    def _repr_html_(self) -> str:
        heads, lines = self._lines()
        return heading(self.name) + table(heads, lines)


class Series:
    """A series of answers, opened by `Session.over_time`: every step costs nothing further.

    Safe to use from several processes: of one step there is one answer.
    """

    def __init__(self, context: ExecutionContext, plan: SeriesPlan, record: SeriesRecord) -> None:
        self._context, self._plan, self._record = context, plan, record

    @property
    def name(self) -> str:
        """By which it is found again."""
        return self._record.name

    @property
    def plan(self) -> SeriesPlan:
        """What its answers are made by."""
        return self._plan

    @property
    def answered(self) -> int:
        """How many steps have been answered, by whatever process."""
        self._look()
        return len(self._record.steps)

    def explain(self) -> SeriesForecast:
        """What it does, costs and errs by; free, and reads no data."""
        return forecast(self._plan, self._context.budget)

    def answer(self, day: object) -> SeriesAnswers:
        """Answer the step of a day, which is the next one or was answered before.

        day: a date, or an instant, that lies in the step; one that has ended. What is answered are
        all steps up to it. Raises InvalidParameter for a step after the next, EngineFailed and
        SourceChanged where the table cannot be read: nothing is released then, and the step can be
        asked again.
        """
        step = self._plan.step_of(day)
        self._look()
        following = len(self._record.steps)
        label = self._plan.label(min(following, (self._plan.steps or following + 1) - 1))
        expected = f"the next step, {label}; answer_until({str(day)!r}) answers all before it too"
        demand(step <= following, "day", day, expected=expected)
        return self._answer(step)

    def answer_until(self, day: object) -> SeriesAnswers:
        """Answer all steps up to that of a day; of the table as it is now. Raises as `answer`."""
        step = self._plan.step_of(day)
        self._look()
        return self._answer(step)

    def answers(self) -> SeriesAnswers:
        """All answers so far; reads the ledger alone."""
        self._look()
        return SeriesAnswers(name=self.name, plan=self._plan, released=self._record.steps)

    def _look(self) -> None:
        found = self._context.ledger.series(self._context.dataset, self.name)
        opening = self._record.sequence, self._record.salt  # of which no other has the salt
        if found is None or (found.sequence, found.salt) != opening:
            raise LedgerMismatch(f"The ledger has no series {self.name!r} any more.")
        self._record = found

    def _answer(self, last: int) -> SeriesAnswers:
        while len(self._record.steps) <= last:
            self._make(len(self._record.steps), last)
        released = self._record.steps[: last + 1]
        return SeriesAnswers(name=self.name, plan=self._plan, released=released)

    def _make(self, first: int, last: int) -> None:
        """Make steps, each written to the ledger before the next; what another has made stands."""
        plan, context = self._plan, self._context
        plan.check_closed(last)
        earliest = max(0, first + 1 - plan.encoder.bands)
        exact = self._exact(earliest, last)
        noises = plan.noises
        for step in range(first, last + 1):
            found = {}
            for name, noise in noises.items():
                history = exact[name][step - earliest :: -1]  # the newest first
                found[name] = noise.release(history, bits=context.bits)
            text = json.dumps(found)
            if not context.ledger.add_step(context.dataset, self._record, text):
                self._look()  # what was drawn here is forgotten
                return
            self._record = dataclasses.replace(self._record, steps=(*self._record.steps, text))

    def _exact(self, first: int, last: int) -> dict[str, list[list[int]]]:
        """The exact integers of steps by aggregate, step and cell. Private."""
        plan, admission = self._plan, self._context.admission
        check_engine(admission.engine)
        over = StepRange(step=plan.step, person=plan.person or _ONCE, first=first, last=last)
        asked = admitted(admission, plan.query, salt=int(self._record.salt, 16), over=over)
        tallies = admission.engine.run(asked)
        admission.engine.check_sources()
        return _by_step(plan.query, tallies, steps=last + 1 - first)

    def __repr__(self) -> str:
        return f"Series({self.name!r}; {self.answered:,} steps answered)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A series belongs to a session: open it again by its name.")


def forecast(plan: SeriesPlan, account: Guarantee) -> SeriesForecast:
    """What a plan costs in an account, and what its sums err by; reads no data."""
    steps = plan.steps or HORIZON
    return SeriesForecast(
        plan=plan,
        cost=charge(plan.event, plan.budget, account),
        errors={
            name: {_named(kind): plan.errors(name, kind, steps) for kind in plan.wanted}
            for name in plan.query.aggregates
        },
    )


def open_series(context: ExecutionContext, name: object, plan: SeriesPlan | None) -> Series:
    """Open a series, or find the one of this name again.

    plan: None where it is only to be found. Raises LedgerMismatch where the name stands for another
    plan, or its tables are others; InvalidParameter where there is none and no plan.
    """
    ledger, dataset = context.ledger, context.dataset
    expected = "a name for the series, by which the ledger knows it again"
    demand(is_text(name), "name", name, expected=expected)
    assert isinstance(name, str)
    _check_scope(ledger)
    record = ledger.series(dataset, name)
    if record is None:
        expected = f"what is asked: there is no series {name!r} in this account yet"
        demand(plan is not None, "query", None, expected=expected)
        assert plan is not None
        if not ledger.durable:
            warnings.warn(
                "The ledger is in memory: once this process ends, the series is lost, and opening "
                "it again is paid for again. Use ledger='sqlite:///budget.db'.",
                UserWarning,
                stacklevel=4,
            )
        request_price(plan.budget, context.budget)  # refuses a budget of another unit
        with contextlib.suppress(SeriesOpened):  # somebody was faster
            context.reserve(
                plan.event,
                plan.budget,
                cost=charge(plan.event, plan.budget, context.budget),
                digest=plan.digest,
                salt=salt_from(context.bits),
                unit=plan.query.unit,
                series=SeriesTerms(name=name, definition=plan.definition),
            )
        record = ledger.series(dataset, name)
        assert record is not None
    if plan is None:
        try:
            plan = SeriesPlan.read(record.definition, partial(_session_rows, context.admission))
        except (UnacordaError, KeyError, TypeError, ValueError):
            plan = None
    if plan is None or plan.digest != record.digest:
        raise _another(name, record, plan)
    return Series(context, plan.with_noise_of(record.definition), record)


def _another(name: str, record: SeriesRecord, plan: SeriesPlan | None) -> LedgerMismatch:
    """What to raise where a name stands for another plan."""
    known = json.loads(record.definition)["asked"]
    now = {} if plan is None else plan.asked
    parts = [part for part in known if known[part] != now.get(part)] if now else ["query"]
    if "query" in parts and now:
        parts.remove("query")
        inner = known["query"], now["query"]
        parts += [part for part in inner[0] | inner[1] if inner[0].get(part) != inner[1].get(part)]
    return LedgerMismatch(
        f"Series {name!r} was opened with another plan: {', '.join(parts)} differ. Its price and "
        "its noise were settled for that one. Ask what it was opened with, of tables with the same "
        "columns, or give another name, for a series of its own."
    )


def _by_step(query: Query, tallies: Tallies, *, steps: int) -> dict[str, list[list[int]]]:
    """The integers of each aggregate, by step and cell; no rows count as 0."""
    cells = len(query.keys)
    sums = []
    for column in tallies.sums:
        found = [[0] * cells for _ in range(steps)]
        for cell, value in zip(tallies.cells.tolist(), column, strict=True):
            found[cell // cells][cell % cells] = value
        sums.append(found)
    of = dict(zip(query.measures, sums, strict=True))
    return {name: of[reads.measures[0]] for name, reads in query.reads.items()}


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
    return people or type(aggregate) in (Count, CountIf, Sum)


def _call(aggregate: Aggregate) -> str:
    return f"{type(aggregate).tag}({getattr(aggregate, 'column', None) or ''})"


def _visible(query: Query, by: object, every: Every) -> tuple[str, Literal["date", "timestamp"]]:
    """The expression of when a row became visible, and its kind."""
    demand(is_text(by), "by", by, expected="a column of dates: when a row became visible")
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


def _limited(query: Query, person: object, steps: object) -> OverTime | None:
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


def _count(
    steps: object,
    wanted: Sequence[Wanted],
    person: OverTime | None,
    start: dt.datetime,
    every: Every,
) -> int | None:
    """How many steps there are; None without an end."""
    del person
    if steps is None:
        expected = "how many steps there will be: totals have no bounded error without an end"
        demand("totals" not in wanted, "steps", None, expected=expected)
        return None
    whole = isinstance(steps, int) and not isinstance(steps, bool) and 1 <= steps <= MOST_STEPS
    expected = f"a whole number from 1 to {MOST_STEPS:,}"
    demand(whole, "steps", steps, expected=expected)
    assert isinstance(steps, int)
    years = float(steps * _DAYS[every]) / 365 * (1.09 if every == "month" else 1) + start.year
    demand(years < 9_990, "steps", steps, expected="an end before the year 9990")
    for one in wanted:
        if isinstance(one, SlidingWindow):
            expected = f"windows of at most the {steps:,} steps there are"
            demand(one.width <= steps, "wanted", one, expected=expected)
    return steps


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


def _shown(moment: dt.datetime, every: Every) -> str:
    return str(moment if every == "hour" else moment.date())


def _named(wanted: Wanted) -> str:
    """What a kind of sum is called in columns."""
    return {"totals": "total", "steps": "step"}.get(str(wanted), str(wanted))


def _asked(wanted: Wanted) -> str:
    """A kind of sum as a caller writes it."""
    return f"window({wanted.width})" if isinstance(wanted, SlidingWindow) else wanted


def _wanted(name: str) -> Wanted:
    """The kind of sum that is called so."""
    match name:
        case "total":
            return "totals"
        case "step":
            return "steps"
        case _:
            return SlidingWindow(int(name.removeprefix("window")))


def read_answers(ledger: Ledger, dataset: str, name: str) -> SeriesAnswers:
    """All answers of a series so far, of the ledger alone; InvalidParameter where there is none."""
    record, account = ledger.series(dataset, name), ledger.account(dataset)
    expected = f"a series of account {dataset!r}"
    demand(record is not None, "name", name, expected=expected)
    assert record is not None
    terms: Mapping[str, Any] = dict(account.terms)

    def rows_stated(stated: Mapping[str, Any]) -> Query:
        unit: Unit = Row()
        if terms.get("unit") == "person":
            ids = terms["id"]
            if not isinstance(ids[0], str):  # by table
                (ids,) = (own for table, *own in ids if table == stated["table"])
            unit = Person(tuple(ids), max_rows=1)
        return Query(rows=rows_of(stated, unit), unit=unit)

    plan = SeriesPlan.read(record.definition, rows_stated)
    return SeriesAnswers(name=name, plan=plan, released=record.steps)


def _session_rows(admission: Admission, stated: Mapping[str, Any]) -> Query:
    begun = admission.begin(stated["table"])
    return dataclasses.replace(begun, rows=with_steps(begun.rows, stated["steps"], at="query"))


def _read_query(stated: Mapping[str, Any], query: Query) -> Query:
    """The query that was asked, of its rows."""
    groups = decode(stated["groups"], tuple[str, ...], at="query.groups")
    keys = decode(stated["keys"], tuple[tuple[Key, ...], ...], at="query.keys")
    if groups:
        listed: Any = keys if len(groups) > 1 else [key for (key,) in keys]
        query = query.group_by(*groups, keys=listed)
    return query.agg(**decode(stated["aggregates"], Mapping[str, Aggregate], at="query.aggregates"))


def _check_scope(ledger: Ledger | SubAccount) -> None:
    part = None if isinstance(ledger, Ledger) else ledger.scope[1]
    expected = "the whole session: who is in a part of it is not settled while rows still come"
    demand(part is None, "session", "a part of the people", expected=expected)
