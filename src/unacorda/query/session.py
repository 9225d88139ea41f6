"""The session: tables, a unit and a budget. `evaluate` is the one door to the data.

The order is the guarantee: the plan is checked, its price computed, the charge reserved, durably;
only then does the engine run; the charge is committed, noise is added, the release leaves.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, overload

from unacorda.accounting.charges import request_price
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.ledger.entries import Search
from unacorda.ledger.ledger import Ledger
from unacorda.ledger.opening import open_ledger
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.found import find_bounds
from unacorda.query.aggregates.margins import GivenLevelWeights
from unacorda.query.allocation import PricedBatch
from unacorda.query.describing.description import Description
from unacorda.query.describing.questions import Progress, describe
from unacorda.query.engines.opening import open_engine
from unacorda.query.engines.protocol import Engine
from unacorda.query.engines.public import read_public_table
from unacorda.query.engines.timeouts import check_timeout
from unacorda.query.error_targets import Wish, budgets_of, least_budget, targets_of
from unacorda.query.execution import Request, execute, read_request
from unacorda.query.fit_rows import rows_of
from unacorda.query.fitting import M, fitted
from unacorda.query.noise.key_selection import GivenKeys
from unacorda.query.opening import (
    account_name,
    check_affordable,
    check_notes,
    check_options,
    check_tables,
    starts_of,
)
from unacorda.query.plan.batch import QueryBatch, Several, check_single
from unacorda.query.plan.query import Query
from unacorda.query.results.assumptions import Supposed
from unacorda.query.results.batch import Batch
from unacorda.query.results.explanation import Explanation, Explanations, explanation_of
from unacorda.query.results.release import Release
from unacorda.query.results.row_search import find_rows
from unacorda.query.results.simulation import assumed_of
from unacorda.query.schema.facts import Bounds, Fact
from unacorda.query.schema.table import scopes_of
from unacorda.query.schema.units import Person, Unit
from unacorda.query.sql.binder import question
from unacorda.query.sql.postprocess import arranged
from unacorda.query.sql.types import Select
from unacorda.query.subsessions import SubSessions

__all__ = ["Session"]


class Session(SubSessions):
    """Private answers about tables of people, within one budget.

    tables: names to sources: a path to .csv or .tsv (also .gz), .parquet (globs too) or
    'file.duckdb::table', a `unacorda.Csv`, a pandas or polars data frame, an Arrow table.
    unit: who is protected: `unacorda.Person("id column", max_rows=...)` or `unacorda.Row()`.
    budget: the most that all answers together may cost; its kind fixes how costs add up. May be
    left out where the ledger already knows the data set. columns: public facts about columns:
    `Bounds`, `Categories`, `Dates`, `Text`. public: tables without people, to join with. dataset:
    the account's name in the ledger. ledger: None for this process's memory, or
    "sqlite:///file.db" or "postgresql://...". analyst, purpose: noted with every entry. bits:
    `SeededBits` in tests only. engine: "duckdb", a SparkSession,
    "postgresql://user@host/database" or a SQLAlchemy Engine of such. memory_limit, threads: what
    DuckDB may use.
    timeout: seconds after which what is asked of the engine is interrupted, call by call; it then
    fails as it would for any other cause, `EngineFailed`, and the charge stays. That it fails
    depends on the data, and no noise hides it: see docs/promise.md.

    Raises InvalidParameter, SourceUnreadable, LedgerMismatch. Opening reads schemas (frames are
    copied), unless `max_rows` is to be found: a question, paid for and refused like any other.

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

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        unit: Unit,
        budget: Guarantee | None = None,
        columns: Mapping[str, Fact] | None = None,
        public: Mapping[str, Any] | None = None,
        dataset: str | None = None,
        ledger: str | Ledger | None = None,
        analyst: str | None = None,
        purpose: str | None = None,
        bits: RandomBits | None = None,
        engine: Any = "duckdb",
        memory_limit: str = "1.5GB",
        threads: int | None = None,
        timeout: float | None = None,
    ) -> None:
        check_tables(tables, public)
        check_options(unit, budget, columns, ledger, bits)
        check_notes(analyst=analyst, purpose=purpose)
        self.unit: Unit = unit
        self._closed, self._process = False, os.getpid()
        self._bits = source_of(bits)
        self._notes = {"analyst": analyst, "purpose": purpose}
        public, every = public or {}, {**tables, **(public or {})}
        self._engine: Engine = open_engine(
            engine, every, memory_limit, threads, check_timeout(timeout)
        )
        try:
            known = scopes_of(
                self._engine.schema,
                unit,
                columns or {},
                public=public,
                read_public=read_public_table,
            )
            self._starts = starts_of(self._engine, known, public)
            self._owns_ledger = ledger is None or isinstance(ledger, str)
            self._ledger = (
                open_ledger(ledger) if ledger is None or isinstance(ledger, str) else ledger
            )
            self._dataset = account_name(dataset, durable=self._ledger.durable)
            self._budget = self._ledger.open_account(self._dataset, budget, unit.terms).budget
            if isinstance(unit, Person) and unit.search is not None:
                self.unit = unit.searched
                begun = {name: self.table(name) for name in self.tables}
                rest: Any = {"ledger": self._ledger, "dataset": self._dataset}
                self.unit, self.searches = find_rows(unit, begun, ask=self._answered, **rest)
        except BaseException:
            self._engine.close()
            raise

    @property
    def budget(self) -> Guarantee:
        """What all answers together may cost."""
        return self._budget

    @property
    def spent(self) -> Guarantee:
        """What has been spent, reservations without an answer included."""
        return self._ledger.spent(self._dataset)

    @property
    def remaining(self) -> Guarantee:
        """What is left."""
        return self._ledger.remaining(self._dataset)

    @property
    def durable(self) -> bool:
        """Whether anything remembers the spend once this process is gone."""
        return self._ledger.durable

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(self._starts)

    def table(self, name: str) -> Query:
        """Begin a question about one table."""
        return self._admission.begin(name)

    @overload
    def explain(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        weights: None = None,
        errors: Wish | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Explanation: ...
    @overload
    def explain(
        self,
        query: Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Sequence[Any] | Mapping[str, Any] | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Explanations: ...
    def explain(
        self,
        query: Query | str | Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Wish | Sequence[Any] | Mapping[str, Any] | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Explanation | Explanations:
        """What a question, or several together, would do, cost and err by. Free: reads no data.

        assuming: what to suppose of the data, for errors that depend on it: `Assume`, or a public
        table with these columns, on which it is tried out with and without its limits; for a
        question about several tables a mapping of their names to such. The rest as in `evaluate`.
        """
        asked = self._asked((query, budget, weights, errors, assuming), keys, level_weights)
        priced = PricedBatch.of(asked.together, asked.budget, self._budget)
        return explanation_of(priced, left=self.remaining, assuming=assuming)

    @overload
    def evaluate(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        weights: None = None,
        errors: Wish | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Release: ...
    @overload
    def evaluate(
        self,
        query: Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Sequence[Any] | Mapping[str, Any] | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Batch: ...
    def evaluate(
        self,
        query: Query | str | Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        errors: Wish | Sequence[Any] | Mapping[str, Any] | None = None,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Release | Batch:
        """Spend at most `budget` and answer a question, or several together: all or none.

        query: a question or a SELECT; a list, or a dict by name, of them is a batch, which is
        priced and reserved as one, with one scan for all questions about the same rows (table,
        steps, groups, keys). weights: each question's part of the budget relative to the others',
        in the form of the questions; else 1. errors: wished standard errors, a number or by
        aggregate, for a batch in the form of the questions (None for one without): the split that
        reaches them with the least is taken, and no more is spent, unless others share what is
        left. assuming: as in `explain`. keys, level_weights: for the GROUP BY of a SELECT, as `sql`
        takes them.

        Raises, before anything is spent or read: InvalidParameter, WrongUnit (the account does
        not take such a budget), BudgetExceeded, SourceChanged; what is about one question of a
        batch names it. Raises EngineFailed or SourceChanged after the charge was reserved; it then
        stays spent, unless the engine had not been asked yet, which gives it back.
        """
        if errors is None and assuming is not None:
            raise InvalidParameter("assuming", assuming, expected="it beside errors=")
        asked = self._asked((query, budget, weights, errors, assuming), keys, level_weights)
        together = asked.together
        releases = tuple(map(arranged, self._answered(together, asked.budget), asked.selects))
        return releases[0] if together.single else Batch(names=together.names, releases=releases)

    def suggest_budget(
        self,
        query: Query | str,
        *,
        error: Wish,
        kind: type[Guarantee] | None = None,
        delta: Number = 0,
        assuming: Supposed | None = None,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Guarantee:
        """The least budget with which `evaluate` reaches these standard errors: pass it on.

        Free: reads no data. error: a number or by aggregate; of tables with margins it is that of
        the finest level, or by level: {"n": {"all": 10, "region": 5}}. kind: PureDP, ZCDP, ... of
        the budget, else the account's. delta: of it; ApproxDP needs one. The rest as in `evaluate`.
        The number is rounded up to three digits. The aggregates keep their weights.

        Raises InvalidParameter for errors that no budget reaches or that are not known beforehand,
        WrongUnit for a kind that the account does not take.
        """
        check_single(query)
        make = budgets_of(kind, delta, account=self._budget)
        some = make(Fraction(1, 10))
        request_price(some, self._budget)  # refuses a kind that it does not take
        asked = self._asked((query, some, None, None, assuming), keys, level_weights)
        wished = [targets_of(error, asked.together.queries[0])]
        assumed = assumed_of(asked.together.queries, assuming, account=self._budget)
        return least_budget(asked.together, make, wished, assumed)

    def find_bounds(self, table: str | Query, column: str, *, budget: Guarantee) -> Bounds:
        """Find privately a range that few people have values outside of, and pay for it.

        table: its name, or a question begun with `table` that has no aggregates yet. The bounds
        are round numbers, and public from now on: write them with an aggregate, or declare them in
        `columns=` of later sessions. What it does is told by `explain` of the same question,
        `session.table(...).agg(range=unacorda.find_bounds(column))`. Raises as `evaluate` does.
        """
        query = self._admission.begun(table)
        if query.groups:
            raise InvalidParameter(
                "table",
                query,
                expected="no groups: .agg(range=unacorda.find_bounds(...)) takes them",
            )
        release = self.evaluate(query.agg(range=find_bounds(column)), budget=budget)
        return Bounds(*release.answers["range"].intervals[0])

    def describe(
        self, table: str, *, budget: Guarantee, progress: Progress | None = None
    ) -> Description:
        """Take a first look at a table: ranges, means, quantiles and pictures of its columns.

        What undeclared columns of text hold is put to a private vote, undeclared ranges are found
        privately; all of it together costs at most the budget. Printing it gives a page of text,
        `to_html()` one with pictures. progress: told how many questions are done, of how many.
        Raises as `evaluate` does, before the first question where the budget is more than is left.
        """
        check_affordable(request_price(budget, self._budget), self.remaining, self._dataset)
        return describe(self, table, budget=budget, progress=progress)

    def fit(
        self,
        model: M,
        table: str | Query,
        *,
        features: Sequence[str],
        target: str,
        weight: str | None = None,
    ) -> M:
        """Fit a model of `unacorda.inference` to a table, by noisy sums: no row leaves the engine.

        model: such as LinearRegression(budget=...); it is changed and handed back. Its whole budget
        is reserved once, before the engine runs, and a fit that fails keeps it. table: its name, or
        a question begun with `table`. features, target: columns or expressions; a row that lacks
        one of them counts nowhere. weight: likewise, of each row, within [0, 1]: what is outside is
        clipped to it, what is missing is 0. Bounds that the model is not given are those of
        `columns=`, and where there are none are found for a twentieth of the budget.
        Raises as `evaluate` does, and InvalidParameter for what the model cannot use, columns of
        text among it. Too few people are no error: by the number of rows as it was released,
        intervals are infinite then, and `cannot_` says why.
        """
        query = self._admission.begun(table)
        rows = rows_of(query, features=features, target=target, weight=weight)
        self._may_spend()
        rest: Any = {"account": self._budget, "bits": self._bits, "notes": self._notes}
        return fitted(model, rows, self._admission, self._ledger, self._dataset, **rest)

    def sql(
        self,
        text: str,
        *,
        budget: Guarantee,
        keys: GivenKeys = None,
        level_weights: GivenLevelWeights = None,
    ) -> Release:
        """Answer a SELECT: COUNT, SUM, AVG, MIN, MAX, MEDIAN, QUANTILE with WHERE and GROUP BY.

        keys: for each column of GROUP BY its public values, where they are not declared already,
        or `unacorda.private_keys()`, also for all such columns at once; or a public table with
        columns named as they are selected; or one list, as `group_by` takes it. level_weights: of
        ROLLUP and CUBE, as `group_by` takes them. ORDER BY and LIMIT arrange what is released. See
        docs/sql.md. Raises as `evaluate` does.
        """
        query, select = self.read_sql(text, keys=keys, level_weights=level_weights)
        (release,) = self._answered(QueryBatch.alone(query), budget)
        return arranged(release, select)

    def read_sql(
        self, text: str, *, keys: GivenKeys = None, level_weights: GivenLevelWeights = None
    ) -> tuple[Query, Select]:
        """The question a SELECT asks, and the SELECT itself; reads and spends nothing."""
        return question(text, start=self.table, keys=keys, level_weights=level_weights)

    def __repr__(self) -> str:
        return f"Session({', '.join(self._starts)}; protects {self.unit}; left {self.remaining})"

    def _asked(self, given: Any, keys: GivenKeys, level_weights: GivenLevelWeights) -> Request:
        rest: Any = {"keys": keys, "level_weights": level_weights, "account": self._budget}
        return read_request(*given, admission=self._admission, **rest)

    def _answered(
        self, together: QueryBatch, budget: Guarantee, search: Search | None = None
    ) -> tuple[Release, ...]:
        """The answers to all questions, or none; search: that they are one."""
        priced = PricedBatch.of(together, budget, self._budget)
        self._may_spend()
        ledger, dataset, notes = self._ledger, self._dataset, self._notes
        rest: Any = {"bits": self._bits, "notes": notes, "search": search}
        return execute(priced, self._admission, ledger, dataset, **rest)
