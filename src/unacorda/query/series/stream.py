"""A series of answers: opened in a ledger, and answered step by step, in order and once.

Each step is an entry of its own, written before its numbers leave: a process that dies before has
released nothing, two processes cannot make one step, and no step is made twice with two noises.
Nothing secret is kept: the exact integers of earlier steps are counted anew from the table, by
choices that later rows do not change.

Bounds on the steps of a person are compared by the error that they are expected to bring. With a
larger bound more noise is added, and with a smaller one more rows are dropped. From a released
histogram of people by number of rows before the series begins both are known for every bound, if
people go on as before: a person with n rows in N steps is taken to have one every N / n steps.
Which bound errs least is postprocessing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np

from unacorda import checks
from unacorda.accounting.charges import charge, request_price
from unacorda.checks import demand, is_text
from unacorda.errors import LedgerMismatch, UnacordaError
from unacorda.ledger.entries import SeriesOpened, SeriesRecord, SeriesTerms
from unacorda.ledger.ledger import Ledger
from unacorda.over_time.bounds import OverTime, SlidingWindow, Wanted
from unacorda.over_time.encoders import HORIZON
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.linear import CountPeople
from unacorda.query.aggregates.row_counts import RowHistogram
from unacorda.query.engines.compile import StepRange
from unacorda.query.engines.engine import Admission, Tallies, admitted
from unacorda.query.execution import ExecutionContext, check_engine, salt_from
from unacorda.query.plan.codec import with_steps
from unacorda.query.plan.query import Query
from unacorda.query.row_bounds import BoundErrors, error_lines, rows_question
from unacorda.query.series.answers import SeriesAnswers, SeriesForecast
from unacorda.query.series.plan import KEPT, ONCE, ROWS, Floats, SeriesPlan

_Integers: TypeAlias = dict[str, list[list[int]]]
"""By name, step and cell."""


class Series:
    """A series of answers about a growing table, opened by `Session.over_time`.

    All answers are paid for when the series is opened. Several processes may use it: each step has
    one answer.

    Examples
    --------
    >>> import tempfile
    >>> import pandas
    >>> import unacorda
    >>> days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    >>> visits = pandas.DataFrame({"id": range(600), "seen": days * 200})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     unacorda.Session(
    ...         {"visits": visits},
    ...         unit=unit,
    ...         budget=unacorda.ZCDP(1),
    ...         dataset="visits",
    ...         ledger=f"sqlite:///{folder}/budget.db",
    ...     ) as session,
    ... ):
    ...     series = session.over_time(
    ...         session.table("visits").agg(n=unacorda.count()),
    ...         name="visits by day",
    ...         by="seen",
    ...         start="2026-01-01",
    ...         steps=10,
    ...         person=unacorda.OverTime(max_steps=1),
    ...         budget=unacorda.ZCDP(1),
    ...     )
    ...     first = series.answer("2026-01-01")
    ...     answers = series.answer("2026-01-02")
    ...     series.answered, abs(answers["n_total"][1] - 400) < 30
    (2, True)
    """

    def __init__(self, context: ExecutionContext, plan: SeriesPlan, record: SeriesRecord) -> None:
        self._context, self._plan, self._record = context, plan, record

    @property
    def name(self) -> str:
        """The name of the series in the ledger."""
        return self._record.name

    @property
    def plan(self) -> SeriesPlan:
        """What its answers are made by."""
        return self._plan

    @property
    def answered(self) -> int:
        """The number of steps that were answered, by any process."""
        self._look()
        return len(self._record.steps)

    def explain(self) -> SeriesForecast:
        """Return the cost and the expected errors; free.

        It reads no data.

        Returns
        -------
        SeriesForecast
            Printing it gives text.
        """
        return SeriesForecast.of(self._plan, self._context.budget)

    def answer(self, day: object) -> SeriesAnswers:
        """Answer the step of a day: the next step, or one that was answered before.

        If the table cannot be read, nothing is released and the step can be asked again.

        Parameters
        ----------
        day
            A date or a time in the step. The step must be over.

        Returns
        -------
        SeriesAnswers
            The answers of all steps so far.

        Raises
        ------
        InvalidParameter
            For a day outside the series, a step that is not over, and one after the next.
        EngineFailed, SourceChanged
            If the table cannot be read, or is not the one that the session opened.
        """
        calendar = self._plan.calendar
        step = calendar.step_of(day)
        self._look()
        following = len(self._record.steps)
        label = calendar.label(min(following, (calendar.steps or following + 1) - 1))
        expected = f"the next step, {label}; answer_until({str(day)!r}) answers all before it too"
        demand(step <= following, "day", day, expected=expected)
        return self._answer(step)

    def answer_until(self, day: object) -> SeriesAnswers:
        """Answer all steps up to that of a day, from the table as it is now.

        Parameters
        ----------
        day
            A date or a time in the last step. The step must be over.

        Returns
        -------
        SeriesAnswers
            The answers of all steps so far.

        Raises
        ------
        InvalidParameter, EngineFailed, SourceChanged
            As `answer`.
        """
        step = self._plan.calendar.step_of(day)
        self._look()
        return self._answer(step)

    def answers(self) -> SeriesAnswers:
        """Return all answers so far, read from the ledger alone.

        Returns
        -------
        SeriesAnswers
            The answers of all steps so far.
        """
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
        plan.calendar.check_closed(last)
        earliest = max(0, first + 1 - plan.encoder.bands)
        exact, kept = self._exact(earliest, last)
        for step in range(first, last + 1):
            found, of_kept = (
                {
                    name: noise.release(integers[name][step - earliest :: -1], bits=context.bits)
                    for name, noise in noises.items()  # of the history, the newest first
                }
                for noises, integers in ((plan.noises, exact), (plan.kept_noises, kept))
            )
            text = plan.text_of(found, of_kept)
            if not context.ledger.add_step(context.dataset, self._record, text):
                self._look()  # what was drawn here is forgotten
                return
            self._record = dataclasses.replace(self._record, steps=(*self._record.steps, text))

    def _exact(self, first: int, last: int) -> tuple[_Integers, _Integers]:
        """The exact integers of steps by aggregate, step and cell. Private.

        Then those of the share of rows kept, a single cell each; empty where it is not asked.
        """
        plan, steps = self._plan, last + 1 - first
        over = StepRange(step=plan.step, person=plan.person or ONCE, first=first, last=last)
        asked = plan.kept is not None
        tallies = self._tallies(dataclasses.replace(over, kept=asked))
        sums = [_by_step(tallies, column, len(plan.query.keys), steps) for column in tallies.sums]
        kept = {}
        if asked:
            kept[KEPT] = [[sum(cells)] for cells in sums.pop()]
            every = self._tallies(dataclasses.replace(over, rows=True))
            kept[ROWS] = _by_step(every, every.sums[0], 1, steps)
        of = dict(zip(plan.query.measures, sums, strict=True))
        return {name: of[reads.measures[0]] for name, reads in plan.query.reads.items()}, kept

    def _tallies(self, over: StepRange) -> Tallies:
        """The engine's integers."""
        admission = self._context.admission
        check_engine(admission.engine)
        salt = int(self._record.salt, 16)
        tallies = admission.engine.run(admitted(admission, self._plan.query, salt=salt, over=over))
        admission.engine.check_sources()
        return tallies

    def __repr__(self) -> str:
        return f"Series({self.name!r}; {self.answered:,} steps answered)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A series belongs to a session: open it again by its name.")


def open_series(context: ExecutionContext, name: object, plan: SeriesPlan | None) -> Series:
    """Open a series, or find the one of this name again.

    plan: None where it is only to be found. Raises LedgerMismatch where the name stands for another
    plan, or its tables are others; InvalidParameter where there is none and no plan.
    """
    ledger, dataset = context.ledger, context.dataset
    expected = "a name for the series, by which the ledger knows it again"
    demand(is_text(name), "name", name, expected=expected)
    assert isinstance(name, str)
    part = None if isinstance(ledger, Ledger) else ledger.scope[1]
    expected = "the whole session: who is in a part of it is not settled while rows still come"
    demand(part is None, "session", "a part of the people", expected=expected)
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
    parts = _differences(known, now) if now else ["query"]
    if "query" in parts and now:
        parts.remove("query")
        parts += _differences(known["query"], now["query"])
    return LedgerMismatch(
        f"Series {name!r} was opened with another plan: {', '.join(parts)} differ. Its price and "
        "its noise were settled for that one. Ask what it was opened with, of tables with the same "
        "columns, or give another name, for a series of its own."
    )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [part for part in {**one, **other} if one.get(part) != other.get(part)]


def _by_step(tallies: Tallies, column: list[int], cells: int, steps: int) -> list[list[int]]:
    """Integers by step and cell; no rows count as 0."""
    found = [[0] * cells for _ in range(steps)]
    for cell, value in zip(tallies.cells.tolist(), column, strict=True):
        found[cell // cells][cell % cells] = value
    return found


def _session_rows(admission: Admission, stated: Mapping[str, Any]) -> Query:
    begun = admission.begin(stated["table"])
    return dataclasses.replace(begun, rows=with_steps(begun.rows, stated["steps"], at="query"))


# ---- bounds on the steps of a person -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBound(BoundErrors):
    """What is expected of a bound on steps: root mean squares over all steps.

    Of the first kind of sums that is wanted, in the mean over groups.
    """

    person: OverTime


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedSteps:
    """Contribution bounds with the least expected error for a series.

    Attributes
    ----------
    person
        The bounds, for `Session.over_time`.
    budget
        The budget that is left for the series.
    expected
        The expected noise and the expected error from dropped rows, for each bound compared.
    spent
        The cost of the private histogram from which the bounds were computed.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> days = [f"2026-01-{day:02}" for day in range(1, 31)]
    >>> visits = pandas.DataFrame({"id": range(600), "seen": days * 20})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.ZCDP(1), bits=bits
    ... ) as session:
    ...     found = session.suggest_over_time(
    ...         session.table("visits").agg(n=unacorda.count()),
    ...         before=10,
    ...         budget=unacorda.ZCDP(1),
    ...         by="seen",
    ...         start="2026-01-11",
    ...         steps=10,
    ...     )
    >>> print(found.person)
    1 row in each of the first 2 steps
    >>> found.spent, found.budget
    (ZCDP(rho=0.1), ZCDP(rho=0.9))
    """

    person: OverTime
    budget: Guarantee
    expected: tuple[StepBound, ...]
    spent: Guarantee

    def __str__(self) -> str:
        least = next(n for n, one in enumerate(self.expected) if one.person == self.person)
        bounds = {str(one.person): one for one in self.expected}
        return "\n".join(error_lines("bound", bounds, least=least, left=1))


def earlier_rows(plan: SeriesPlan, *, before: int) -> Query:
    """The histogram of people by number of rows in the steps before the series begins."""
    step = plan.step.text
    rows = plan.query.rows.where(f"({step}) >= {-before} AND ({step}) < 0")
    return rows_question(dataclasses.replace(plan.query, rows=rows))


def errors_of_bounds(
    plan: SeriesPlan, budget: Guarantee, histogram: RowHistogram, *, before: int
) -> tuple[StepBound, ...]:
    """What is expected of bounds by powers of two, for good and anew in each `before` steps.

    plan: the series, with any bound; budget: all of it is the series'. histogram: of people by
    number of rows in `before` steps.
    """
    names = [n for n, a in plan.query.aggregates.items() if not isinstance(a, CountPeople)]
    checks.demand(names, "query", "people so far", expected="a question whose rows are bounded")
    length, kind = plan.steps or HORIZON, plan.wanted[0]
    times = np.arange(1, length + 1) / before  # in units of the window that was seen
    renews = plan.steps is not None and before < length
    powers = [1 << doubling for doubling in range(before.bit_length() if renews else 0)]
    bounds = [OverTime(max_steps=power, within=before) for power in powers]
    bounds += [OverTime(max_steps=1 << doubling) for doubling in range(length.bit_length())]
    found = []
    for person in bounds:
        bounded = dataclasses.replace(plan, person=person, budget=budget).settled()
        noise = bounded.noises[names[0]].standard_errors(kind, length)
        assert person.max_steps is not None
        if person.within is not None:
            lost = times * histogram.dropped(person.max_steps)
        else:
            limits = person.max_steps / times
            lost = times * np.array([histogram.dropped(limit) for limit in limits])
        dropped = _of_kind(lost, kind) / len(plan.query.keys)
        found.append(
            StepBound(
                person=person,
                noise=float(np.sqrt(np.mean(noise**2))),
                dropped=float(np.sqrt(np.mean(dropped**2))),
            )
        )
    return tuple(found)


def _of_kind(totals: Floats, kind: Wanted) -> Floats:
    """Sums of a kind, of totals."""
    if kind == "totals":
        return totals
    width = kind.width if isinstance(kind, SlidingWindow) else 1
    before = np.zeros_like(totals)
    before[width:] = totals[:-width]
    return totals - before
