"""Sessions: tables, a unit and a budget. `evaluate` is the one door to the data.

A session checks its tables when it opens. Sub-sessions serve analysts with limits of their own, and
parts of the data. `execution` has the order of the steps in which a question is answered.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from unacorda import checks
from unacorda.accounting.charges import request_price
from unacorda.accounting.filters import Filter
from unacorda.addresses import shown
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.display import facts
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.ledger.entries import SplitPart
from unacorda.ledger.ledger import Ledger, SubAccount, open_ledger
from unacorda.privacy.guarantees import Guarantee, left_of
from unacorda.query.aggregates.automatic import find_bounds
from unacorda.query.aggregates.hierarchy import GivenLevelWeights
from unacorda.query.aggregates.row_counts import RowHistogram
from unacorda.query.allocation import PricedBatch
from unacorda.query.engines.compile import SqlContext, relation
from unacorda.query.engines.duckdb import read_public_table
from unacorda.query.engines.engine import (
    Admission,
    Engine,
    QuestionLimits,
    check_timeout,
    open_engine,
)
from unacorda.query.error_targets import Wish, budgets_of, least_budget, targets_of
from unacorda.query.execution import ExecutionContext, bounded, execute, find_rows, read_request
from unacorda.query.expressions.errors import SESSION, unknown_attribute
from unacorda.query.expressions.language import encodable, folded, twin
from unacorda.query.noise.selection import GivenKeys
from unacorda.query.plan.codec import encode
from unacorda.query.plan.joins import parted
from unacorda.query.plan.query import Query, QueryBatch, Several, check_single
from unacorda.query.plan.relation import Relation, SourceTable
from unacorda.query.plan.synthesis import Synthesis
from unacorda.query.results.explanation import Explanation, Explanations, explanation_of
from unacorda.query.results.release import Batch, Release
from unacorda.query.results.simulation import Assume, assumed_of
from unacorda.query.row_bounds import (
    SuggestedBounds,
    best_bound,
    check_suggestible,
    errors_by_bound,
    rows_question,
)
from unacorda.query.schema.keys import Key, check_keys
from unacorda.query.schema.sources import Looked, Public
from unacorda.query.schema.table import Bounds, DeclaredFacts, TableSchema, scopes_of
from unacorda.query.schema.units import Person, Row, Unit
from unacorda.query.sql.outputs import Select, arranged
from unacorda.query.sql.select import build_query, parse_select

if TYPE_CHECKING:
    from datetime import date

    from unacorda.over_time.bounds import OverTime, Wanted
    from unacorda.query.describe import Progress
    from unacorda.query.fit import M
    from unacorda.query.results.description import Description
    from unacorda.query.series.answers import SeriesForecast
    from unacorda.query.series.plan import Every, SeriesPlan
    from unacorda.query.series.stream import Series, SuggestedSteps
    from unacorda.synthesis.forecast import SynthesisForecast
    from unacorda.synthesis.release import SyntheticTable


_STEPS: Mapping[str, Any] = {"every": "day", "steps": None, "wanted": ("totals",)}
"""What of a series is left out by default."""


def check_affordable(price: Guarantee, left: Guarantee, account: str) -> None:
    """Raise BudgetExceeded if less is left than a price of the same kind."""
    if not price <= left:
        raise BudgetExceeded(asked=price, left=left, account=account)


class Session:
    """Private answers about tables of people, within one budget.

    Opening a session reads schemas and copies data frames. It asks a question only where `max_rows`
    has to be found privately; that question is paid for and may be refused like any other. A
    session is a context manager.

    Threads may share a session and its sub-sessions: each question is charged in one step, so that
    they never overspend. Processes share a durable ledger instead, each with a session of its own.

    Parameters
    ----------
    tables
        By name the sources: a path to .csv or .tsv (also .gz), to .parquet (globs too) or
        'file.duckdb::table', a `unacorda.Csv`, a pandas or polars data frame, an Arrow table.
    unit
        The privacy unit: `unacorda.Person("id column", max_rows=...)` or `unacorda.Row()`.
    budget
        The guarantee of all answers together. Its class determines how costs compose. It may be
        omitted where the ledger already has an account of the dataset.
    columns
        Public facts about columns: `Bounds`, `Categories`, `Dates`, `Text`. By column, of every
        table that has it, or by table: `{"labs": {"value": Bounds(0, 500)}}`.
    public
        Tables without people, to join with, by name.
    dataset
        The name of the account in the ledger; needed with a durable one.
    ledger
        None for the memory of this process, "sqlite:///file.db", "postgresql://..." or a ledger.
    analyst, purpose
        Texts, noted with every entry.
    bits
        `SeededBits` in tests only.
    engine
        "duckdb", a SparkSession, "postgresql://user@host/database" or a SQLAlchemy Engine of such.
    memory_limit, threads
        How much DuckDB may use, such as "1.5GB" and 4; by default "1.5GB" and all cores. Other
        engines take neither.
    timeout
        The longest time of one call to the engine, in seconds. A longer call is interrupted and
        raises `EngineFailed`, and the charge stays. Whether that happens depends on the data, and
        no noise hides it: see docs/promise.md.
    most_aggregates, most_cells
        The most aggregates in a question or batch, and the most numbers in its release (with
        private keys, in one row). A larger question is refused by its text alone. The questions of
        `describe` may be larger, as its table is.

    Raises
    ------
    InvalidParameter
        For arguments that do not fit.
    SourceUnreadable
        For a source that is missing or not a table.
    LedgerMismatch
        If the account was opened with another budget or another unit.

    Examples
    --------
    >>> import unacorda
    >>> import pandas as pd
    >>> with Session(
    ...     {"visits": pd.DataFrame({"id": [1, 1, 2, 3], "age": [30, 30, 41, 62]})},
    ...     unit=unacorda.Person("id", max_rows=2),
    ...     budget=unacorda.PureDP(1),
    ... ) as session:
    ...     query = session.table("visits").where("age >= 18").agg(n=unacorda.count())
    ...     release = session.evaluate(query, budget=unacorda.PureDP(0.5))
    ...     session.remaining
    PureDP(epsilon=0.5)
    """

    searches: Mapping[str, Release] = MappingProxyType({})
    """By table the answers by which `max_rows` was found, of the session that found it alone."""

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        unit: Unit,
        budget: Guarantee | None = None,
        columns: DeclaredFacts | None = None,
        public: Mapping[str, Any] | None = None,
        dataset: str | None = None,
        ledger: str | Ledger | None = None,
        analyst: str | None = None,
        purpose: str | None = None,
        bits: RandomBits | None = None,
        engine: Any = "duckdb",
        memory_limit: str | None = None,
        threads: int | None = None,
        timeout: float | None = None,
        most_aggregates: int | None = None,
        most_cells: int | None = None,
    ) -> None:
        _check_tables(tables, public)
        self._notes = {"analyst": analyst, "purpose": purpose}
        _check_options(unit, budget, columns, ledger, bits, **self._notes)
        self._limits = QuestionLimits(most_aggregates=most_aggregates, most_cells=most_cells)
        self.unit: Unit = unit
        self._closed, self._process = False, os.getpid()
        self._above: tuple[Session, ...] = ()  # those it came from
        self._histograms: Mapping[str, RowHistogram] = {}  # of people by rows, by table
        self._bits = source_of(bits)
        public, every = public or {}, {**tables, **(public or {})}
        self._engine: Engine = open_engine(
            engine,
            every,
            timeout=check_timeout(timeout),
            memory_limit=memory_limit,
            threads=threads,
        )
        try:
            known = scopes_of(
                self._engine.schema,
                unit,
                columns or {},
                public=public,
                read_public=read_public_table,
            )
            self._starts = _starts_of(self._engine, known, public)
            self._owns_ledger = ledger is None or isinstance(ledger, str)
            self._ledger: Ledger | SubAccount = (
                open_ledger(ledger) if ledger is None or isinstance(ledger, str) else ledger
            )
            self._dataset = _account_name(dataset, durable=self._ledger.durable)
            self._account_budget = self._ledger.open_account(
                self._dataset, budget, unit.terms
            ).budget
            if isinstance(unit, Person) and unit.search is not None:
                self.unit = unit.searched
                begun = {name: self.table(name) for name in self.tables}
                searching = self._context.with_purpose("rows of a person")
                found, self.searches = find_rows(searching, unit, begun)
                self.unit, self._histograms = found.unit, found.histograms
        except BaseException:
            self._engine.close()
            raise

    @property
    def budget(self) -> Guarantee:
        """The guarantee of all answers together; of an analyst, the current limit."""
        return (
            self._ledger.limit(self._dataset)
            if isinstance(self._ledger, SubAccount)
            else self._account_budget
        )

    @property
    def spent(self) -> Guarantee:
        """The budget spent so far, including reservations without an answer."""
        return self._ledger.spent(self._dataset)

    @property
    def account(self) -> tuple[Ledger | SubAccount, str]:
        """The ledger and the account's name, for code that spends outside the session.

        `learning.PrivateTraining(..., session=session)` reserves its budget there.
        """
        self._check_alive()
        return self._ledger, self._dataset

    @property
    def source_identity(self) -> tuple[str, ...]:
        """The engine's version, and the names, sizes and times of files."""
        return tuple(self._engine.identity)

    @property
    def remaining(self) -> Guarantee:
        """What is left of the budget."""
        return self._ledger.remaining(self._dataset)

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives this process."""
        return self._ledger.durable

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(self._starts)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def table(self, name: str) -> Query:
        """Begin a question about one table.

        Parameters
        ----------
        name
            One of `tables`.

        Returns
        -------
        Query
            A question without aggregates, to which `where`, `group_by`, `agg` and others add.

        Raises
        ------
        InvalidParameter
            For a table that the session does not have.
        """
        return self._admission.begin(name)

    @overload
    def explain(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        weights: None = None,
        errors: Wish | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        detail: bool = False,
    ) -> Explanation: ...
    @overload
    def explain(
        self, query: Synthesis[Query], *, budget: Guarantee, assuming: Assume | None = None
    ) -> SynthesisForecast: ...
    @overload
    def explain(
        self,
        query: Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        detail: bool = False,
    ) -> Explanations: ...
    def explain(
        self,
        query: Query | str | Several | Synthesis[Query],
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Wish | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        detail: bool = False,
    ) -> Explanation | Explanations | SynthesisForecast:
        """Forecast the cost and the errors of a question, or of several together; free.

        It reads no data. For a synthetic table it forecasts the noise of the measurements, and the
        error on an assumed table.

        Parameters
        ----------
        query, budget, weights, errors, kept, keys, level_weights
            As in `evaluate`.
        assuming
            What to assume about the data, for errors that depend on them: `Assume(...)`, or
            `Assume.from_table(...)` of a public table with these columns. The question is run on
            that table with and without contribution bounds.
        detail
            Print everything that is known, beyond the expected errors and the cost.

        Returns
        -------
        Explanation, Explanations or SynthesisForecast
            For one question, a batch or a synthetic table. Printing it gives text.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit.
        WrongUnit
            For a budget of a class that the account does not take.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     query = session.table("visits").agg(n=unacorda.count())
        ...     forecast = session.explain(query, budget=unacorda.PureDP(0.5))
        ...     round(forecast.standard_error("n"), 2), session.spent
        (2.8, PureDP(epsilon=0.0))
        """
        asked: dict[str, Any] = {"weights": weights, "errors": errors, "kept": kept, "keys": keys}
        asked["level_weights"] = level_weights
        if isinstance(query, Synthesis):
            _check_alone(asked)
            from unacorda.query.synthesize import foresee

            self._admission.check(query.query)
            request_price(budget, self.budget)  # refuses a budget of another unit
            return foresee(query, budget=budget, assuming=assuming)
        together, _, budget = read_request(self._context, query, budget, assuming=assuming, **asked)
        priced = PricedBatch.of(together, budget, self.budget)
        return explanation_of(priced, left=self.remaining, assuming=assuming, detail=detail)

    @overload
    def evaluate(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        weights: None = None,
        errors: Wish | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        keep: Callable[[Release], object] | None = None,
    ) -> Release: ...
    @overload
    def evaluate(self, query: Synthesis[Query], *, budget: Guarantee) -> SyntheticTable: ...
    @overload
    def evaluate(
        self,
        query: Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        keep: Callable[[Batch], object] | None = None,
    ) -> Batch: ...
    def evaluate(
        self,
        query: Query | str | Several | Synthesis[Query],
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Wish | None = None,
        kept: Number | None = None,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        keep: Callable[[Any], object] | None = None,
    ) -> Release | Batch | SyntheticTable:
        """Spend at most `budget` and answer a question, or several together: all or none.

        A batch is priced and reserved as one, with one scan for all questions about the same rows
        (table, steps, groups, keys).

        Parameters
        ----------
        query
            A question or a SELECT; a batch of them, as a list or a dict by name; or a synthetic
            table, as `Query.synthesize` gives it, alone.
        budget
            A guarantee: the most that the answer may cost.
        weights
            For a batch, each question's share of the budget relative to the others', as a list or
            dict like the questions; by default 1 each.
        errors
            The target standard errors of one question, in the units of its answers: one number, or
            one by aggregate. The budget is allocated so that the least budget reaches them. No more
            than that is spent, unless other aggregates share the rest.
        kept
            The share of each question's budget, such as 0.05, that measures which share of its rows
            contribution bounding keeps, `release.kept`. It is not spent where no bound can drop
            rows.
        assuming
            As in `explain`; with errors alone.
        keys, level_weights
            For the GROUP BY of a SELECT, as `sql` takes them.
        keep
            A function that is called with the return value before the ledger notes that it was
            computed, so that it can store every answer that the ledger notes. An exception that it
            raises is passed on, and the charge stays.

        Returns
        -------
        Release, Batch or SyntheticTable
            For one question, a batch or a synthetic table.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit; in a batch, the message names the question. This,
            WrongUnit and BudgetExceeded are raised before anything is spent or read.
        WrongUnit
            For a budget of a class that the account does not take.
        BudgetExceeded
            Where the account has less left.
        SourceChanged
            If a file is not the one that was opened. A charge that is already reserved stays spent,
            unless the engine had not been called yet; then it is given back.
        EngineFailed
            If the engine fails or is interrupted; the same holds for the charge.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     query = session.table("visits").agg(n=unacorda.count())
        ...     release = session.evaluate(query, budget=unacorda.PureDP(0.5))
        ...     release.columns, release.charge
        (('n', 'n_se', 'n_low', 'n_high'), PureDP(epsilon=0.5))
        """
        asked: dict[str, Any] = {"weights": weights, "errors": errors, "kept": kept, "keys": keys}
        asked |= {"assuming": assuming, "level_weights": level_weights}
        if isinstance(query, Synthesis):
            _check_alone(asked | {"keep": keep})
            from unacorda.query.synthesize import synthesize_rows

            self._check_alive()
            return synthesize_rows(self._context, query, budget=budget)
        expected = "a function of one argument, which stores what is released"
        checks.demand(keep is None or callable(keep), "keep", keep, expected=expected)
        alone = errors is None and assuming is not None
        checks.demand(not alone, "assuming", assuming, expected="errors= with it")
        together, selects, budget = read_request(self._context, query, budget, **asked)

        def made(answered: tuple[Release, ...]) -> Release | Batch:
            releases = tuple(
                release if select is None else arranged(release, select)
                for release, select in zip(answered, selects, strict=True)
            )
            single = together.single
            return releases[0] if single else Batch(names=together.names, releases=releases)

        if keep is None:
            return made(self._answered(together, budget))
        kept_answers: list[Release | Batch] = []

        def store(answered: tuple[Release, ...]) -> None:
            kept_answers.append(made(answered))
            keep(kept_answers[0])

        self._answered(together, budget, keep=store)
        return kept_answers[0]

    def best_limits(self, query: Query, *, budget: Guarantee) -> int | None:
        """Return the `max_rows` that a question would get.

        Parameters
        ----------
        query
            A question.
        budget
            What it would be asked with.

        Returns
        -------
        int or None
            None if the session has found no histogram of people by number of rows, or if no bound
            can drop rows.
        """
        chosen = bounded(query, budget, self._histograms)
        return None if chosen is query else chosen.unit.limits["max_rows"]

    def suggest_bounds(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        share: Number = "0.1",
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> SuggestedBounds:
        """Find the `max_rows` with the least expected error for a question, and pay for it.

        Too large a bound adds noise, and too small a one drops rows. After it,
        `session.evaluate(found.query, budget=found.budget)` asks the question with that bound for
        what is left of the budget. `session.unit` stays as it is, and its own `max_rows` is not
        used.

        The expected error is that of a count of rows in each group. It has two parts: noise, and
        dropped rows, which are assumed to be spread equally over the groups. With private keys it
        is the error of all groups together.

        Parameters
        ----------
        query
            A question or a SELECT.
        budget
            For the question and the search together.
        share
            The share of it, between 0 and 1, that is spent now on a private histogram of people by
            number of rows. The bound is computed from that histogram.
        keys, level_weights
            For the GROUP BY of a SELECT, as `sql` takes them.

        Returns
        -------
        SuggestedBounds
            The question with the bound, the budget that is left for it, and what was spent.

        Raises
        ------
        InvalidParameter
            As `evaluate`, and if no bound on rows can drop any, or if another bound can.
        WrongUnit, BudgetExceeded, SourceChanged, EngineFailed
            As `evaluate`.
        """
        check_single(query)
        part = _share_of(share)
        together, _, budget = read_request(
            self._context, query, budget, assuming=None, keys=keys, level_weights=level_weights
        )
        (one,) = together.queries
        check_suggestible(one)
        rest = budget * (1 - part)
        PricedBatch.of(together, rest, self.budget)  # refuses what could not be asked with it
        release = self._searched(rows_question(one), budget, part)
        assert release.kept is not None
        histogram = release.kept.histogram
        expected = errors_by_bound(one, rest, histogram)
        best = best_bound(expected)
        return SuggestedBounds(
            query=one.with_max_rows(best),
            budget=rest,
            max_rows=best,
            expected=expected,
            kept=histogram.kept(best, unit=release.kept.unit),
            spent=release.charge,
        )

    def suggest_budget(
        self,
        query: Query | str,
        *,
        error: Wish,
        kind: type[Guarantee] | None = None,
        delta: Number = 0,
        assuming: Assume | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Guarantee:
        """Compute the least budget that reaches these standard errors; free.

        It reads no data. Pass the budget on to `evaluate`. The number is rounded up to three
        digits. The aggregates keep their weights.

        Parameters
        ----------
        query
            A question or a SELECT.
        error
            The target standard error, in the units of the answers: one number, or one by aggregate.
            For tables with margins it is that of the finest level.
        kind
            The class of the budget, such as PureDP or ZCDP; by default that of the account.
        delta
            Of the budget; ApproxDP needs one.
        assuming, keys, level_weights
            As in `evaluate`.

        Returns
        -------
        Guarantee
            To pass on to `evaluate`.

        Raises
        ------
        InvalidParameter
            For errors that no budget reaches or that are not known beforehand.
        WrongUnit
            For a class that the account does not take.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     query = session.table("visits").agg(n=unacorda.count())
        ...     session.suggest_budget(query, error=5)
        PureDP(epsilon=0.282)
        """
        check_single(query)
        make = budgets_of(kind, delta, account=self.budget)
        some = make(Fraction(1, 10))
        request_price(some, self.budget)  # refuses a kind that it does not take
        together, _, _ = read_request(
            self._context, query, some, assuming=assuming, keys=keys, level_weights=level_weights
        )
        (one,) = together.queries
        assumed = assumed_of(one, assuming, account=self.budget)
        return least_budget(one, make, targets_of(error, one), assumed)

    def find_bounds(self, table: str | Query, column: str, *, budget: Guarantee) -> Bounds:
        """Find a range that holds the values of almost all people, privately, and pay for it.

        The bounds are round numbers and public from then on. Pass them to an aggregate, or declare
        them in `columns=` of later sessions. `explain` forecasts the same question,
        `session.table(...).agg(range=unacorda.find_bounds(column))`.

        Parameters
        ----------
        table
            Its name, or a question begun with `table` that has no groups and no aggregates yet.
        column
            A column or an expression of numbers.
        budget
            A guarantee: the most that it may cost.

        Returns
        -------
        Bounds
            The range.

        Raises
        ------
        InvalidParameter, WrongUnit, BudgetExceeded, SourceChanged, EngineFailed
            As `evaluate`.
        """
        query = self._admission.begun(table)
        expected = "no groups: .agg(range=unacorda.find_bounds(...)) takes them"
        checks.demand(not query.groups, "table", query, expected=expected)
        release = self.evaluate(query.agg(range=find_bounds(column)), budget=budget)
        return Bounds(*release.answers["range"].intervals[0])

    def describe(
        self,
        table: str,
        *,
        budget: Guarantee,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Description:
        """Take a first look at a table: ranges, means, quantiles and pictures of its columns.

        The values of undeclared text columns, and undeclared ranges, are found privately.
        Everything together costs at most the budget. Printing the description gives a page of text;
        `to_html()` gives one with pictures.

        Parameters
        ----------
        table
            Its name.
        budget
            A guarantee: the most that all questions may cost together.
        only, skip
            Columns to include, and columns to leave out. Columns with names of ids or row numbers
            are left out unless `only` names them.
        progress
            A function that is called with the number of questions done and the number of all.

        Returns
        -------
        Description
            What was found, column by column.

        Raises
        ------
        InvalidParameter, WrongUnit, SourceChanged, EngineFailed
            As `evaluate`.
        BudgetExceeded
            If the budget is more than is left, before the first question.
        """
        from unacorda.query.describe import describe

        self._check_affordable(budget)
        changes = {"_limits": QuestionLimits(), "searches": self.searches}
        asking = self._child(self._ledger, **changes)
        return describe(asking, table, budget=budget, only=only, skip=skip, progress=progress)

    def fit(
        self,
        model: M,
        table: str | Query,
        *,
        features: Sequence[str],
        target: str,
        weight: str | None = None,
    ) -> M:
        """Fit a model of `unacorda.inference` by noisy sums; no row leaves the engine.

        Too few people raise no error. If the released number of rows is too small, intervals are
        infinite and `cannot_` gives the reason.

        Parameters
        ----------
        model
            Such as LinearRegression(budget=...). It is fitted in place and returned. Its whole
            budget is reserved before the engine runs, and stays spent if the fit fails. Bounds that
            it lacks are those of `columns=`; where there are none, they are found privately with
            its `bounds_share`.
        table
            Its name, or a question begun with `table`.
        features, target
            Columns or expressions. Rows in which one of them is missing are not used.
        weight
            A column or expression with each row's weight in [0, 1]. Values outside are clamped, so
            divide survey weights by a public bound: "weight / 300". Missing ones are 0. `summary()`
            says so. If the bounds of its columns allow more than 1, or only 0 and less, it is
            refused.

        Returns
        -------
        The model
            Fitted.

        Raises
        ------
        InvalidParameter
            As `evaluate`, and for columns that the model cannot use, such as text.
        WrongUnit, BudgetExceeded, SourceChanged, EngineFailed
            As `evaluate`.
        """
        from unacorda.query.fit import fitted, rows_of

        query = self._admission.begun(table)
        rows = rows_of(query, features=features, target=target, weight=weight)
        self._check_alive()
        return fitted(self._context, model, rows)

    def over_time(
        self,
        query: Query | None = None,
        *,
        name: str,
        by: str | None = None,
        every: Every = "day",
        start: str | date | None = None,
        steps: int | None = None,
        person: OverTime | None = None,
        wanted: Wanted | Sequence[Wanted] = ("totals",),
        budget: Guarantee | None = None,
        kept: Number | None = None,
    ) -> Series:
        """Ask the same question of a growing table at every step, for one price paid now.

        A person is protected with all rows that they will ever have. Opening the series reserves
        the whole budget and reads no data; each `answer(day)` then costs nothing. A later session,
        in any process, continues the series by its name. See docs/over-time.md.

        You promise that rows are only added. Their dates and ids must not change, nor anything that
        decides whether a row counts (`where`, joins, groups that are not listed). A row that
        arrives late must have a late date.

        Parameters
        ----------
        query
            Counts of rows, sums with bounds and counts of people so far, over one table, by public
            keys.
        name
            Of the series in the ledger.
        by
            A column with the date at which a row became visible. Rows without a date are not used.
        every
            The length of a step: 'hour', 'day', 'week' or 'month'.
        start
            The first step. Earlier rows are not used.
        steps
            The number of steps; None for a series without an end, if totals are not wanted.
        person
            The contribution bounds of a person. They are not needed for `count_people`, which
            counts each person at their first row, nor where the unit is a row.
        wanted
            The answers that the noise is optimized for: 'totals', 'steps', `unacorda.window(28)`,
            or several of them.
        budget
            A guarantee: the price of all answers.
        kept
            The share of the budget, such as 0.05, that measures which share of rows the bounds keep
            (`answers.kept()`); only for a series with an end. By default nothing is spent on it.

        Returns
        -------
        Series
            Its `answer` releases the numbers of a step.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit.
        WrongUnit
            For a budget of a class that the account does not take.
        BudgetExceeded
            Where the account has less left.
        LedgerMismatch
            For the name of a series with another plan.
        """
        from unacorda.query.series.stream import open_series

        plan = None
        if query is not None:
            asked: dict[str, Any] = {"every": every, "start": start, "steps": steps, "kept": kept}
            asked |= {"by": by, "person": person, "wanted": wanted, "budget": budget}
            plan = self._series_plan(query, **asked)
        self._check_alive()
        return open_series(self._context, name, plan)

    def explain_over_time(self, query: Query, **asked: Any) -> SeriesForecast:
        """Forecast the cost and the errors of `over_time` with these arguments; free.

        It reads no data.

        Parameters
        ----------
        query
            As in `over_time`.
        **asked
            `by`, `start`, `steps`, `person`, `budget` and others, as of `over_time`.

        Returns
        -------
        SeriesForecast
            Printing it gives text.

        Raises
        ------
        InvalidParameter, WrongUnit
            As `over_time`.
        """
        from unacorda.query.series.answers import SeriesForecast

        choices = {"person": None, "kept": None, **_STEPS, **asked}
        return SeriesForecast.of(self._series_plan(query, **choices), self.budget)

    def suggest_over_time(
        self, query: Query, *, before: int, budget: Guarantee, share: Number = "0.1", **asked: Any
    ) -> SuggestedSteps:
        """Find contribution bounds for a series from the rows before its start, and pay for it.

        Too large a bound adds noise, and too small a one drops rows. A `share` of the budget is
        spent now, on a private histogram of people by number of rows in the `before` steps before
        the start. The candidates are powers of two, for the whole series or anew in each `before`
        steps. The one with the least error is chosen, as if people went on as before and each row
        had its own step. Then `session.over_time(query, person=found.person, budget=found.budget,
        ...)` opens the series for what is left of the budget.

        Parameters
        ----------
        query
            As in `over_time`.
        before
            How many steps before the start are read, from 1 to 10,000.
        budget
            For the series and the search together.
        share
            The share of it, between 0 and 1, that is spent now.
        **asked
            `by`, `every`, `start`, `steps` and `wanted`, as of `over_time`.

        Returns
        -------
        SuggestedSteps
            The bounds, the budget that is left, and what was spent.

        Raises
        ------
        InvalidParameter
            As `over_time`, and if the unit is a row or has bounds by group.
        WrongUnit, BudgetExceeded, SourceChanged, EngineFailed
            As `evaluate`.
        """
        from unacorda.over_time.bounds import OverTime
        from unacorda.query.series.stream import SuggestedSteps, earlier_rows, errors_of_bounds

        steps = checks.positive_integer(before=before)
        checks.demand(steps <= 10_000, "before", before, expected="at most 10,000 steps")
        part = _share_of(share)
        expected = "a session whose unit is unacorda.Person('id', max_rows=...)"
        checks.demand(isinstance(self.unit, Person), "query", query, expected=expected)
        one = OverTime(max_steps=1)
        choices = {"person": one, "kept": None, "budget": budget, **_STEPS, **asked}
        plan = self._series_plan(query, **choices)
        earlier, rest = earlier_rows(plan, before=steps), budget * (1 - part)
        release = self._searched(earlier, budget, part)
        assert release.kept is not None
        expected_errors = errors_of_bounds(plan, rest, release.kept.histogram, before=steps)
        best = min(expected_errors, key=lambda one: one.error)
        return SuggestedSteps(
            person=best.person, budget=rest, expected=expected_errors, spent=release.charge
        )

    def _series_plan(self, query: Query, **asked: Any) -> SeriesPlan:
        from unacorda.query.series.plan import SeriesPlan

        return SeriesPlan.of(self._admission.asked(query), **asked)

    def sql(
        self,
        text: str,
        *,
        budget: Guarantee,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
        kept: Number | None = None,
    ) -> Release:
        """Answer a SELECT: COUNT, SUM, AVG, MIN, MAX, MEDIAN, QUANTILE with WHERE and GROUP BY.

        ORDER BY and LIMIT are applied to the release. See docs/sql.md.

        Parameters
        ----------
        text
            The SELECT.
        budget
            A guarantee: the most that the answer may cost.
        keys
            The keys of GROUP BY: by column, its public values (unless they are declared already) or
            `unacorda.private_keys()`; or `private_keys()` once for all such columns; or a public
            table with the columns as they are named in the SELECT; or one list, as `group_by` takes
            it.
        level_weights
            Of ROLLUP and CUBE, as `group_by` takes them.
        kept
            As in `evaluate`.

        Returns
        -------
        Release
            The answer.

        Raises
        ------
        InvalidParameter, WrongUnit, BudgetExceeded, SourceChanged, EngineFailed
            As `evaluate`.
        UnsafeExpression
            For SQL that cannot be answered privately.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     release = session.sql(
        ...         "SELECT COUNT(*) AS n FROM visits WHERE age >= 40", budget=unacorda.PureDP(0.5)
        ...     )
        ...     len(release), session.remaining
        (1, PureDP(epsilon=0.5))
        """
        checks.demand(isinstance(text, str), "sql", type(text).__name__, expected="a text (str)")
        return self.evaluate(text, budget=budget, keys=keys, level_weights=level_weights, kept=kept)

    def read_sql(
        self, text: str, *, keys: GivenKeys = None, level_weights: GivenLevelWeights = None
    ) -> tuple[Query, Select]:
        """Parse a SELECT into a question and the SELECT itself, without data or budget.

        Parameters
        ----------
        text, keys, level_weights
            As in `sql`.

        Returns
        -------
        tuple of Query and Select
            The question, and the SELECT that is applied to its release.

        Raises
        ------
        InvalidParameter, UnsafeExpression
            As `sql`.
        """
        select = parse_select(text, start=self.table)
        query = build_query(select, keys=keys, level_weights=level_weights)
        return self._admission.asked(query), select

    def read_json(self, question: str | Mapping[str, Any]) -> Query:
        """Read a question from JSON, without data or budget.

        Parameters
        ----------
        question
            The text, or its parsed object, as `Query.to_json` writes it: a table, its steps,
            `group_by` and aggregates, under the names of the methods and functions. Numbers are
            decimals, or strings such as "1/3". See docs/questions.md.

        Returns
        -------
        Query
            The question.

        Raises
        ------
        InvalidParameter, UnsafeExpression
            If it is not a question; `pointer` gives the place in the object.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     query = session.table("visits").where("age >= 40").agg(n=unacorda.count())
        ...     session.read_json(query.to_json()) == query
        True
        """
        from unacorda.query.plan.questions import read_question

        most = self._limits.most_cells
        return self._admission.asked(read_question(question, self.table, most_keys=most))

    def split(
        self,
        column: str,
        *,
        keys: Iterable[Key],
        budget: Guarantee,
        max_parts: int = 1,
        name: str | None = None,
    ) -> dict[Key, Self]:
        """Open one sub-session per key, for questions about parts of the data in any order.

        Each person's rows are kept in at most `max_parts` parts, the same ones for all questions. A
        sub-session may be split again. See docs/rows.md.

        Parameters
        ----------
        column
            The column whose value is the key of a row.
        keys
            Public values of the column.
        budget
            A guarantee: the most that each sub-session may spend. This session is debited the sum
            of the `max_parts` largest spends, as they grow.
        max_parts
            The most parts of one person, from 1 on.
        name
            A name by which the ledger keeps the split. A later session that gives it continues with
            the same parts and their spending. The data must be the same: a changed file is refused,
            but a data frame cannot be checked. Without a name each split is new and is charged
            anew.

        Returns
        -------
        dict
            A session by key.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit.
        WrongUnit
            For a budget of a class that the account does not take.
        LedgerMismatch
            For the name of another split.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "town": ["A", "B", "B"]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     towns = session.split("town", keys=["A", "B"], budget=unacorda.PureDP(0.5))
        ...     for town in towns.values():
        ...         query = town.table("visits").agg(n=unacorda.count())
        ...         release = town.evaluate(query, budget=unacorda.PureDP(0.5))
        ...     session.spent
        PureDP(epsilon=0.5)
        """
        self._check_alive()
        _check_limit(budget)
        Filter(self.budget).admits(budget)  # refuses one of another unit
        asked: dict[str, Any] = {"keys": check_keys("keys", keys), "max_parts": max_parts}
        unsalted = parted(self._starts, self.unit, column, **asked, salt=0)
        self._engine.check_sources()
        split = self._ledger.open_split(
            self._dataset,
            limit=budget,
            max_parts=max_parts,
            digest=_digest_of(unsalted, self._engine, self.unit, max_parts),
            salt=self._bits.words(2).tobytes(),
            name=name,
        )
        found = parted(self._starts, self.unit, column, **asked, salt=int(split.salt, 16))
        children = {}
        for key, starts in found.items():
            part = SplitPart(split=split.sequence, key=json.dumps(encode(key)))
            ledger = self._ledger.scoped(part=part)
            children[key] = self._child(ledger, unit=self.unit.in_part, _starts=starts)
        return children

    def for_analyst(self, name: str, budget: Guarantee | None = None) -> Self:
        """Open a sub-session with a limit of its own; its spending is debited here too.

        No budget is reserved: the limits may add up to more than the session's budget.

        Parameters
        ----------
        name
            The name of an analyst or a project, noted with every entry.
        budget
            The limit, which the ledger keeps. Later calls omit it or give the same one, until
            `Ledger.change_limit` changes it.

        Returns
        -------
        Session
            Of the analyst.

        Raises
        ------
        InvalidParameter
            If the name has no limit yet, or in a sub-session of a part or of another analyst.
        LedgerMismatch
            If the ledger has another limit.
        WrongUnit
            For a limit of a class that the account does not take.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     alice = session.for_analyst("alice", unacorda.PureDP(0.25))
        ...     alice.remaining, session.remaining
        (PureDP(epsilon=0.25), PureDP(epsilon=1.0))
        """
        self._check_alive()
        if budget is not None:
            _check_limit(budget)
        ledger = self._ledger
        if not isinstance(ledger, Ledger):
            expected = "a session that is no part and no analyst's: begin with "
            expected += "session.for_analyst(...), which can be split"
            raise InvalidParameter("name", name, expected=expected)
        if budget is not None:
            ledger.open_sub_account(self._dataset, name, budget)
        elif not ledger.has_sub_account(self._dataset, name):
            expected = f"the limit of {name!r}, who has none yet"
            raise InvalidParameter("budget", budget, expected=expected)
        notes = {**self._notes, "analyst": name}
        return self._child(ledger.scoped(sub_account=name), _notes=notes)

    def for_purpose(self, purpose: str) -> Self:
        """Open the same session with a purpose that is noted with every entry.

        Parameters
        ----------
        purpose
            A text.

        Returns
        -------
        Session
            With the same account; the purpose follows the session's own.

        Raises
        ------
        InvalidParameter
            For a purpose that is no text.
        """
        notes = self._context.with_purpose(purpose).notes
        _check_notes(notes)
        return self._child(self._ledger, _notes=notes)

    def interrupt(self) -> None:
        """Interrupt the engine's running calls, for all sessions of these tables.

        Interrupted questions raise EngineFailed, as after a timeout, and their cost stays spent.
        Later questions are answered.
        """
        self._engine.interrupt()

    def close(self) -> None:
        """Close the engine and a ledger that this session opened. Spent budget stays spent."""
        self._closed = True
        if not self._above:
            self._engine.close()
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session holds a budget: it cannot be pickled or copied.")

    if not TYPE_CHECKING:  # a checker of types is to know which attributes there are

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("A session", name, SESSION, dir(type(self)))

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError("A session holds no rows to look at. Write session.table(name).")

    def _repr_html_(self) -> str:
        return facts(
            [
                ("tables", ", ".join(self._starts)),
                ("protects", self.unit),
                ("budget", self.budget),
                ("left", self.remaining),
            ]
        )

    def __repr__(self) -> str:
        left = left_of(self.remaining, self.budget)
        return f"Session({', '.join(self._starts)}; protects {self.unit}; {left})"

    @property
    def _admission(self) -> Admission:
        return Admission(
            engine=self._engine, starts=self._starts, unit=self.unit, limits=self._limits
        )

    @property
    def _context(self) -> ExecutionContext:
        return ExecutionContext(
            admission=self._admission,
            ledger=self._ledger,
            dataset=self._dataset,
            budget=self.budget,
            bits=self._bits,
            notes=self._notes,
            histograms=self._histograms,
        )

    def _child(self, ledger: Ledger | SubAccount, **changes: Any) -> Self:
        """A session over the same engine, which closes with this one and debits it too."""
        child, above = object.__new__(type(self)), (*self._above, self)
        rest = {"_owns_ledger": False, "_above": above, "searches": {}, **changes}
        vars(child).update(vars(self), **rest, _ledger=ledger)
        return child

    def _check_alive(self) -> None:
        """Raise unless the session may spend."""
        if self._closed or any(above.closed for above in self._above):
            raise InvalidParameter("session", "closed", expected="one that is open: open a new one")
        if not self._ledger.durable and os.getpid() != self._process:
            raise LedgerMismatch(
                "This process is a copy of the one that opened the session, and the budget lives "
                "in memory: both would spend it. Use ledger='sqlite:///budget.db'."
            )

    def _check_affordable(self, budget: Guarantee) -> None:
        """Raise BudgetExceeded where less is left than a budget."""
        check_affordable(request_price(budget, self.budget), self.remaining, self._dataset)

    def _searched(self, histogram: Query, budget: Guarantee, part: Fraction) -> Release:
        """A histogram of rows for a part of a budget that the account must have."""
        self._check_affordable(budget)
        (release,) = self._answered(QueryBatch.alone(histogram), budget * part)
        return release

    def _answered(
        self,
        together: QueryBatch,
        budget: Guarantee,
        *,
        keep: Callable[[tuple[Release, ...]], object] | None = None,
    ) -> tuple[Release, ...]:
        """The answers to all questions, or none."""
        priced = PricedBatch.of(together, budget, self.budget)
        self._check_alive()
        return execute(self._context, priced, keep=keep)


def _share_of(share: Number) -> Fraction:
    """The share of a budget that a search for bounds may spend."""
    part = checks.exact("share", share)
    checks.demand(0 < part < 1, "share", share, expected="a part of the budget, such as 0.1")
    return part


def _check_alone(given: Mapping[str, object]) -> None:
    """Raise InvalidParameter for choices that a synthetic table does not have."""
    for name, value in given.items():
        expected = "it for questions alone: a synthetic table has its choices in synthesize(...)"
        checks.demand(value is None, name, value, expected=expected)


def _check_tables(tables: object, public: object) -> None:
    """Raise InvalidParameter unless these are named sources, of which none has two names."""
    expected = "a mapping of table names to sources, such as {'visits': 'visits.csv'}"
    private = _names_of("tables", tables, expected=expected)
    checks.demand(private, "tables", tables, expected=expected)
    expected = "a mapping of names to tables without people, such as {'zips': 'zips.csv'}"
    for name in () if public is None else _names_of("public", public, expected=expected):
        expected = "another name than a private table has (capitals do not tell names apart)"
        checks.demand(folded(name) not in map(folded, private), "public", name, expected=expected)


def _names_of(argument: str, tables: object, *, expected: str) -> list[str]:
    """The names in a mapping; InvalidParameter where one is none, or two differ by capitals."""
    if not isinstance(tables, Mapping):
        raise InvalidParameter(argument, tables, expected=expected)
    for name in tables:
        checks.demand(
            checks.is_text(name) and "\x00" not in name, argument, name, expected=expected
        )
    again = twin(tables)
    expected = "names of tables that differ by more than capitals"
    checks.demand(again is None, argument, again, expected=expected)
    return list(tables)


def _check_options(
    unit: object, budget: object, columns: object, ledger: object, bits: object, **notes: str | None
) -> None:
    """Raise InvalidParameter for options of another type, and notes that no ledger can keep."""
    expected = "unacorda.Person('id column', max_rows=...) or unacorda.Row()"
    checks.demand(isinstance(unit, Person | Row), "unit", unit, expected=expected)
    if budget is not None:
        _check_limit(budget)
    expected = "facts by column name, such as {'age': unacorda.Bounds(0, 120)}"
    declared = columns is None or isinstance(columns, Mapping)
    checks.demand(declared, "columns", columns, expected=expected)
    expected = 'None, "sqlite:///budget.db" or "postgresql://user@host/database"'
    kept = ledger is None or isinstance(ledger, str) or hasattr(ledger, "open_account")
    checks.demand(kept, "ledger", shown(ledger), expected=expected)
    source_of(bits)
    _check_notes(notes)


def _check_notes(notes: Mapping[str, str | None]) -> None:
    """Raise InvalidParameter for notes that no ledger can keep."""
    for argument, note in notes.items():
        fits = note is None or (checks.is_text(note) and encodable(note))
        checks.demand(fits, argument, note, expected="text, or None")


def _check_limit(budget: object) -> None:
    """Raise InvalidParameter for what limits nothing."""
    expected = "a guarantee such as unacorda.PureDP(1) or unacorda.ZCDP(0.5)"
    checks.demand(isinstance(budget, Guarantee), "budget", budget, expected=expected)


def _account_name(dataset: str | None, *, durable: bool) -> str:
    """The account's name in the ledger; InvalidParameter where there must be one and is none."""
    if dataset is None:
        expected = "the account's name in the ledger, such as 'visits-2024'"
        checks.demand(not durable, "dataset", dataset, expected=expected)
        return "session"
    named = checks.is_text(dataset) and dataset.strip() and encodable(dataset)
    checks.demand(named, "dataset", dataset, expected="a non-empty name")
    return dataset


def _starts_of(
    engine: Engine, scopes: Mapping[str, TableSchema], public: Mapping[str, object]
) -> dict[str, Relation]:
    """By name the rows of every private table, with all public tables beside them.

    public: their sources, by name.
    """
    beside: dict[str, Public] = {
        name: Looked(
            scope=scopes[name], source=source, relation=engine.scan(name), look=engine.look
        )
        for name, source in public.items()
    }
    return {
        name: Relation(source=SourceTable(name=name, scope=scope), scope=scope, public=beside)
        for name, scope in scopes.items()
        if name not in beside
    }


def _digest_of(
    found: Mapping[Key, Mapping[str, Relation]], engine: Engine, unit: Unit, max_parts: int
) -> str:
    """SHA-256 of all that says who is in which part, but for the salt and the data themselves.

    found: the parts with the salt 0. The SQL that draws, how columns and ids are read included,
    the software that runs it, and what tells files from others: another of these draws other parts.
    """
    first = next(iter(found.values()))
    stated = {
        "tables": {
            name: relation(rows, (), SqlContext(unit=unit, scan=engine.scan, salt=0))
            for name, rows in first.items()
        },
        "keys": [encode(key) for key in found],
        "max_parts": max_parts,
        "terms": unit.terms,
        "engine": list(engine.identity),
    }
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
