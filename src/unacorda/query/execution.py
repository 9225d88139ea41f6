"""Answering a batch of questions. The order of the steps is the privacy guarantee.

    admit     what the session did not begin, or the engine cannot compute, is refused
    reserve   the charge is written to the ledger, durably
    run       exact integers leave the engine
    commit
    answer    noise is added, errors and provenance are attached

A program that stores answers (`keep=`) gets them before the commit, so that what is committed was
kept. A crash after the second step keeps the charge. It is given back only where the engine is
found closed or a file another one, before a row is read: neither is a function of what rows hold.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from unacorda.accounting.charges import request_price
from unacorda.bits import RandomBits
from unacorda.checks import Number, demand
from unacorda.deadlines import check_deadline, lift_deadline
from unacorda.errors import LedgerMismatch, UnacordaError
from unacorda.ledger.entries import (
    Charge,
    Reservation,
    RowSearch,
    SearchBegun,
    Searched,
    SeriesTerms,
)
from unacorda.ledger.ledger import Ledger, SubAccount
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.automatic import RowsPerPerson
from unacorda.query.aggregates.base import Aggregate, Answer, Forecast
from unacorda.query.aggregates.hierarchy import GivenLevelWeights
from unacorda.query.aggregates.linear import Count, CountPeople
from unacorda.query.aggregates.row_counts import KeptRows, RowHistogram, RowsKept, row_rungs
from unacorda.query.allocation import PricedBatch
from unacorda.query.engines.engine import (
    Admission,
    Admitted,
    Engine,
    HeldRows,
    ScanResult,
    admitted,
    answers_of,
    exact_by_name,
    select_keys,
)
from unacorda.query.error_targets import split_for, targets_of
from unacorda.query.noise.selection import GivenKeys
from unacorda.query.plan.query import (
    BatchPosition,
    Query,
    QueryBatch,
    Scan,
    members_of,
    naming,
    read_together,
)
from unacorda.query.results.release import Release
from unacorda.query.results.simulation import Assume, assumed_of, check_assumption
from unacorda.query.results.words import FoundKeys, provenance, readings_of
from unacorda.query.row_bounds import best_bound, errors_by_bound
from unacorda.query.schema.keys import Key
from unacorda.query.schema.units import Person, Unit
from unacorda.query.sql.outputs import Select
from unacorda.query.sql.select import build_query, parse_select


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """What a session answers with. admission: of its questions; notes: who asks, and what for.

    budget: of the account that pays, under the name `dataset` in the ledger. histograms: by table,
    of people by number of rows, by which each question gets its bound on them.
    """

    admission: Admission
    ledger: Ledger | SubAccount
    dataset: str
    budget: Guarantee
    bits: RandomBits
    notes: Mapping[str, str | None]
    histograms: Mapping[str, RowHistogram] = field(default_factory=dict)

    def with_purpose(self, purpose: str) -> ExecutionContext:
        """The same with a purpose of its own, after the one there is."""
        own = self.notes["purpose"]
        purpose = purpose if own is None else f"{own} ({purpose})"
        return dataclasses.replace(self, notes={**self.notes, "purpose": purpose})

    def reserve(
        self,
        event: Event,
        request: Guarantee,
        *,
        cost: Guarantee,
        digest: str,
        salt: int,
        unit: Unit,
        search: RowSearch | None = None,
        series: SeriesTerms | None = None,
    ) -> Reservation:
        """Reserve a cost; after this the engine may be asked, and nothing comes back.

        series: that it is of a series, which is opened without a look at the engine.

        Raises as `Ledger.reserve` does, and EngineFailed or SourceChanged where the engine is found
        gone or a file another one: then the charge is given back, since neither is a function of
        what the rows hold.
        """
        charge = Charge(
            cost=cost,
            event=event,
            request=request,
            reproducible=not self.bits.secure,
            plan_digest=digest,
            salt=salt.to_bytes(16, "big"),
            limits=unit.limits if series is None else {},
            analyst=self.notes["analyst"],
            purpose=self.notes["purpose"],
            search=search,
            series=series,
        )
        check_deadline()
        lift_deadline()
        reservation = self.ledger.reserve(self.dataset, charge)
        if series is not None:
            return reservation
        try:
            check_engine(self.admission.engine)
        except BaseException:
            # No row was read, whatever it was, so that the data had no part in it.
            with suppress(UnacordaError):  # then it stays spent
                self.ledger.void(reservation)
            raise
        return reservation

    def hold(self, asked: Admitted, reservation: Reservation, *, keep: bool) -> HeldRows:
        """The bounded rows of a question; the first answer about them commits its charge."""
        engine = asked.engine
        commit = functools.cache(functools.partial(self.ledger.commit, reservation))

        def answered() -> None:
            engine.check_sources()
            commit()

        return engine.hold(asked, keep=keep, answered=answered)


def execute(
    context: ExecutionContext,
    priced: PricedBatch,
    *,
    search: RowSearch | None = None,
    keep: Callable[[tuple[Release, ...]], object] | None = None,
) -> tuple[Release, ...]:
    """The answers to all questions, or none.

    keep: called with them before the charge is committed: what is committed was kept.
    search: that the questions are one, whose answer is kept in the entry that commits its charge:
    it is not known before, and never known without having been paid for.
    Raises as `Session.evaluate` does.
    """
    engine, ledger = context.admission.engine, context.ledger
    check_engine(engine)
    salt = salt_from(context.bits)
    asked = [admitted(context.admission, scan.query, salt=salt) for scan in priced.scans]
    reservation = context.reserve(
        priced.event,
        priced.request,
        cost=priced.charge,
        digest=priced.together.digest(),
        salt=salt,
        unit=priced.together.queries[0].unit,
        search=search,
    )
    with ExitStack() as kept:
        counted = [one.run(kept) for one in asked]
        engine.check_sources()
        if search is None and keep is None:
            ledger.commit(reservation)
        answered = _answers(priced, asked, counted, context.bits)
    if search is not None:
        answers_of_all = (answers for _, answers in answered.values())
        found = _found(answers_of_all, most=priced.together.queries[0].reach.rows)
        ledger.commit(reservation, found=json.dumps(found))
    remaining = ledger.remaining(context.dataset)
    several = not priced.together.single
    releases = []
    for number, (query, allocation) in enumerate(
        zip(priced.together.queries, priced.allocations, strict=True)
    ):
        keys, answers = answered[number]
        share = _kept(query, answers)
        answers = {name: one for name, one in answers.items() if name not in query.aside}
        place = BatchPosition(together=priced.together, number=number) if several else None
        forecasts = allocation.forecasts(query)
        answers = _with_open_ranges(query, forecasts, answers)
        releases.append(
            Release(
                query=query,
                groups=query.released_groups,
                keys=keys,
                answers=answers,
                request=priced.request,
                charge=priced.charge,
                remaining=remaining,
                budget=context.budget,
                event=priced.event,
                provenance=provenance(
                    query, allocation, priced.charge, forecasts=forecasts, place=place
                ),
                readings=readings_of(query, forecasts),
                salt=f"{salt:032x}",
                reproducible=not context.bits.secure,
                batch=place,
                found=FoundKeys.of(query, allocation),
                kept=share,
            )
        )
    if keep is not None:
        keep(tuple(releases))
        ledger.commit(reservation)
    return tuple(releases)


def _with_open_ranges(
    query: Query, forecasts: Mapping[str, Forecast], answers: Mapping[str, Answer]
) -> dict[str, Answer]:
    """The answers; a rank of so few rows that noise leaves it open has its whole range.

    How few rows there are at most is known where the same question counts them, or the people who
    have them, each with `per_cell` rows at most. Where limits choose the groups of a person, the
    choice for rows is another than that for people, whose number then tells nothing of rows. No
    other answer gives a limit to rows, and what is not marked may be of no rows at all.
    """
    found = dict(answers)
    per_person = query.reach.per_cell if query.reach.touched >= query.cells else None
    counts: dict[str, Count | CountPeople] = {}
    times: dict[str, int] = {}
    for name, aggregate in query.aggregates.items():
        if name in found and isinstance(aggregate, Count):
            counts[name], times[name] = aggregate, 1
        elif name in found and isinstance(aggregate, CountPeople) and per_person is not None:
            counts[name], times[name] = aggregate, per_person
    for name, forecast in forecasts.items():
        least, column = forecast.least_rows, getattr(query.aggregates[name], "column", None)
        ends = [
            [None if end is None else end * times[n] for end in found[n].upper]
            for n, count in counts.items()
            if count.column in (None, column)
        ]
        if least is None or not ends:
            continue
        cells = zip(*ends, strict=True)
        opened = [any(end is not None and end <= least for end in cell) for cell in cells]
        for part in query.aggregates[name].parts:
            found[f"{name}{part}"] = found[f"{name}{part}"].opened(opened)
    return found


def _kept(query: Query, answers: Mapping[str, Answer]) -> KeptRows | None:
    """The share of rows kept, where the question asks for it."""
    for name, aggregate in query.aggregates.items():
        histogram = answers[name].of if isinstance(aggregate, RowsKept) else None
        if isinstance(histogram, RowHistogram):
            unit = ", ".join(query.unit.id) or "row"
            return histogram.kept(query.reach.rows, unit=unit)
    return None


_Answered = tuple[tuple[tuple[Key, ...], ...], dict[str, Answer]]
"""The keys of a release, those included that were found, and its noisy answers."""


def _answers(
    priced: PricedBatch, asked: Sequence[Admitted], counted: Sequence[ScanResult], bits: RandomBits
) -> dict[int, _Answered]:
    """The noisy answers to each question; counted: what the engine gave for each scan."""
    found: dict[int, _Answered] = {}
    for scan, one, result in zip(priced.scans, asked, counted, strict=True):
        rule = priced.allocations[scan.members[0]].rule
        whole, tallies = select_keys(one, result, rule=rule, bits=bits)
        given = exact_by_name(whole, tallies)
        for place in scan.members:
            query = priced.together.queries[place].with_keys(whole.keys)
            exact = {name: given[Scan.name_of(place, name)] for name in query.aggregates}
            keys = tuple(key for key in query.released_keys for _ in range(query.lines))
            found[place] = keys, answers_of(query, priced.allocations[place], exact, bits)
    return found


def salt_from(bits: RandomBits) -> int:
    """128 bits for the choice of rows, drawn independently of the data."""
    return int.from_bytes(bits.words(2).tobytes(), "little")


def check_engine(engine: Engine) -> None:
    """Raise EngineFailed or SourceChanged where the engine need not be asked. Reads no data."""
    engine.check_open()
    engine.check_sources()


_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_ROWS = "rows"
_PEOPLE = "people"
_KEPT = 0.99  # of the rows, by the bound of what is no question of its own


def find_rows(
    context: ExecutionContext, wanted: Person, begun: Mapping[str, Query]
) -> tuple[FoundRows, dict[str, Release]]:
    """How many rows of a person to keep, found privately and paid for once per account.

    The search is one question about all tables of a session. Its answer stands in the entry of the
    ledger that commits its charge; who asks the same again, in whatever process, reads it there.
    Where another session is searching already, this one waits a while for its result.

    begun: a question about each table, of the unit of the search. Gives what was found, and by
    table the answers, if found just now.
    """
    ledger, dataset = context.ledger, context.dataset
    assert wanted.search is not None
    assert isinstance(ledger, Ledger)
    together = _search(wanted, begun)
    digest, deadline = together.digest(), time.monotonic() + _WAIT_SECONDS
    while True:
        searched = ledger.searched(dataset, digest)
        if searched.found is not None:
            return _known(wanted, begun, searched), {}
        if _running(searched) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            continue
        priced = PricedBatch.of(together, wanted.search.budget, context.budget)
        search = RowSearch(digest=digest, seen=searched.seen)
        try:
            releases = execute(context, priced, search=search)
        except SearchBegun:
            continue
        answers = [release.answers for release in releases]
        rows = _found(answers, most=together.queries[0].reach.rows)[_ROWS]
        released = {name: one[_ROWS].of for name, one in zip(begun, answers, strict=True)}
        by_table = {name: one for name, one in released.items() if isinstance(one, RowHistogram)}
        found = FoundRows(unit=wanted.found(rows), histograms=by_table)
        return found, dict(zip(begun, releases, strict=True))


def known_rows(
    wanted: Person, begun: Mapping[str, Query], *, ledger: Ledger, dataset: str
) -> Person | None:
    """The unit where the account knows the number already, else None; free, and reads no data."""
    searched = ledger.searched(dataset, _search(wanted, begun).digest())
    return None if searched.found is None else _known(wanted, begun, searched).unit


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """What a search for `max_rows` found: the unit with the number, and histograms by table.

    Histograms are of people by number of rows, where each question gets the bound that errs least.
    """

    unit: Person
    histograms: Mapping[str, RowHistogram]


def _found(answered: Iterable[Mapping[str, Answer]], *, most: int) -> dict[str, Any]:
    """What a search finds, in plain values: the most of its tables, and their histograms."""
    rows, people = [], []
    for answers in answered:
        answer = answers[_ROWS]
        if isinstance(answer.of, RowHistogram):
            rows.append(answer.of.limit_that_keeps(_KEPT, most=most))
            people.append([answer.of.deviation, answer.of.laplace, *answer.of.counts])
        else:
            rows.append(int(answer.values[0]))
    return {_ROWS: max(rows), **({_PEOPLE: people} if people else {})}


def bounded(query: Query, budget: Guarantee, histograms: Mapping[str, RowHistogram]) -> Query:
    """The question with the bound on rows that errs least for its budget.

    As it is where its bound was given, where no bound on rows can drop any, or where another can.
    """
    histogram = histograms.get(query.rows.tables[0].name)
    search, fits = query.unit.search, query.drops_rows and query.bounded_by_rows
    if histogram is None or search is None or not fits:
        return query
    expected = errors_by_bound(query, budget, histogram)
    return query.with_max_rows(best_bound(expected, most=search.most))


def _search(wanted: Person, begun: Mapping[str, Query]) -> QueryBatch:
    """The search, of all tables: another number for its end, or other tables, are another one."""
    most = wanted.searched.max_rows
    assert most is not None
    sought: Aggregate = RowsPerPerson(most=most)
    if wanted.search is not None and wanted.search.objective == "error":
        sought = RowsKept()
    queries = tuple(query.agg(**{_ROWS: sought}) for query in begun.values())
    if len(queries) == 1:
        return QueryBatch.alone(queries[0])
    weights = (Fraction(1),) * len(queries)
    return QueryBatch(names=tuple(begun), queries=queries, weights=weights)


def _known(wanted: Person, begun: Mapping[str, Query], searched: Searched) -> FoundRows:
    """What the account knows, and what was paid for it."""
    assert wanted.search is not None
    assert searched.paid is not None
    found = json.loads(searched.found or "{}")
    rows, people = found.get(_ROWS), found.get(_PEOPLE, [])
    if type(rows) is not int or not 1 <= rows <= wanted.search.most:
        raise LedgerMismatch(f"The number of rows that the account knows, {rows!r}, is none.")
    rungs = row_rungs(wanted.searched.max_rows)
    histograms = {}
    for name, one in zip(begun, people, strict=False):
        if len(one) != len(rungs) + 3:
            raise LedgerMismatch("The histogram of rows that the account knows is none.")
        deviation, laplace, *counts = one
        histograms[name] = RowHistogram(
            rungs=rungs, counts=tuple(counts), deviation=deviation, laplace=laplace
        )
    return FoundRows(unit=wanted.found(rows, paid=searched.paid), histograms=histograms)


def _running(searched: Searched) -> bool:
    """Whether another session may still be searching; a search that began long ago has died."""
    if searched.begun is None:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(searched.begun)
    return abs(age.total_seconds()) < _WAIT_SECONDS


def read_request(
    context: ExecutionContext,
    query: object,
    budget: Guarantee,
    *,
    weights: object = None,
    errors: object = None,
    kept: Number | None = None,
    assuming: Assume | None,
    keys: GivenKeys,
    level_weights: GivenLevelWeights,
) -> tuple[QueryBatch, list[Select | None], Guarantee]:
    """One question or several, the SELECTs that some are, and the budget to be spent on them.

    Nothing is read or spent. errors: the split is then one that reaches them. kept: the part of
    each question's budget for the share of its rows that are kept. Of several, a SELECT
    takes those of the keys that its GROUP BY names, and the level weights where it has levels.
    Raises what is wrong with a question, naming it.
    """
    admission, account = context.admission, context.budget
    several = members_of(query) is not None

    def read(one: object) -> tuple[Query, Select | None]:
        if not isinstance(one, str):
            return admission.asked(one), None
        own, levels = keys, level_weights
        select = parse_select(one, start=admission.begin)
        if several:
            if isinstance(keys, Mapping):
                own = {name: keys[name] for name in keys if name in select.group_names}
            elif not select.groups:
                own = None
            levels = None if select.margins is None else levels
        return admission.asked(build_query(select, keys=own, level_weights=levels)), select

    together, selects = read_together(query, weights, read)
    admission.limits.check(together.queries)
    _check_taken(keys, level_weights, [select for select in selects if select is not None])
    if assuming is not None:
        check_assumption(assuming, *together.queries)
    if context.histograms:
        shares = zip(together.queries, together.parts.values(), strict=True)
        chosen = (bounded(one, budget * Fraction(part), context.histograms) for one, part in shares)
        together = dataclasses.replace(together, queries=tuple(chosen))
    if kept is not None:
        expected = "it without errors=, which share out the whole budget"
        demand(errors is None, "kept", kept, expected=expected)
        queries = []
        for name, query_of in zip(together.names, together.queries, strict=True):
            with naming(name):
                queries.append(query_of.with_kept(kept))
        together = dataclasses.replace(together, queries=tuple(queries))
    if errors is not None:
        demand(together.single, "errors", errors, expected="one question: ask them one by one")
        (one,) = together.queries
        wanted = targets_of(errors, one, argument="errors")
        request_price(budget, account)  # refuses a budget of another unit
        assumed = assumed_of(one, assuming, account=account)
        one, budget = split_for(one, wanted, budget, assumed)
        together = dataclasses.replace(together, queries=(one,))
    return together, selects, budget


def _check_taken(
    keys: GivenKeys, level_weights: GivenLevelWeights, selects: Sequence[Select]
) -> None:
    """Raise InvalidParameter for what stands beside questions none of which takes it."""
    built = ": a question that is built takes its own in group_by(...)"
    expected = f"it with a SELECT with GROUP BY ROLLUP(...) or CUBE(...){built}"
    taken = level_weights is None or any(select.margins is not None for select in selects)
    demand(taken, "level_weights", level_weights, expected=expected)
    names = {name for select in selects for name in select.group_names}
    if isinstance(keys, Mapping):
        strange = sorted(str(key) for key in keys if key not in names)
    else:
        strange = [] if keys is None or names else ["..."]
    expected = f"columns of GROUP BY in a SELECT: {', '.join(sorted(names))}"
    if not names:
        expected = f"them with a SELECT with GROUP BY{built}"
    demand(not strange, "keys", strange, expected=expected)
