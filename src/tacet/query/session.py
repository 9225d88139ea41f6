"""The session: tables, a unit and a budget. `evaluate` is the one door to the data.

The order is the guarantee: the plan is checked, its price computed and compared with the sources'
fingerprints; the charge is reserved, durably; only then does the engine run; the charge is
committed; noise is added; the release leaves. A crash anywhere leaves the charge spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn, Self

from tacet import checks
from tacet.accounting.charges import charge, request_price
from tacet.bits import RandomBits, SecureBits
from tacet.errors import InvalidParameter, LedgerMismatch
from tacet.ledger.opening import open_ledger
from tacet.ledger.protocol import Ledger
from tacet.privacy.guarantees import Guarantee
from tacet.query.aggregates.answers import Assume
from tacet.query.aggregates.found import RowsPerPerson, find_bounds
from tacet.query.allocation import Allocation, allocate
from tacet.query.arrange import arranged
from tacet.query.columns import Bounds, Fact
from tacet.query.compile import compile_query
from tacet.query.engines.protocol import Engine
from tacet.query.exact import answers_of
from tacet.query.explanation import Explanation, explained, provenance
from tacet.query.expressions.types import encodable
from tacet.query.opening import account_name, check_options, check_tables, scopes_of
from tacet.query.plan import Query
from tacet.query.release import Release
from tacet.query.select import question
from tacet.query.sql.types import Select
from tacet.query.units import Person, Row, Unit

__all__ = ["Session"]


class Session:
    """Private answers about tables of people, within one budget.

    tables: names to sources: a path to .csv or .tsv (also .gz), .parquet (globs too) or
    'file.duckdb::table', a `tacet.Csv`, a pandas or polars data frame, an Arrow table.
    unit: whose presence is hidden: `tacet.Person("id column", max_rows=...)` or `tacet.Row()`.
    budget: the most that all answers together may cost; its kind fixes how costs add up. May be
    left out where the ledger already knows the data set. columns: public facts about columns:
    `Bounds`, `Categories`, `Dates`, `Text`. dataset: the account's name in the ledger.
    ledger: None for this process's memory, or "sqlite:///file.db". analyst, purpose: noted with
    every entry. bits: `SeededBits` in tests only. memory_limit, threads: of the engine.

    Raises InvalidParameter, SourceUnreadable, LedgerMismatch. Opening reads schemas, no rows (data
    frames are copied), unless the unit's `max_rows` is to be found: that is a question, paid for
    like any other, and raises what `evaluate` raises.

    >>> import tacet
    >>> table = {"id": [1, 1, 2, 3], "age": [30, 30, 41, 62]}
    >>> import pandas as pd
    >>> with Session(
    ...     {"visits": pd.DataFrame(table)},
    ...     unit=tacet.Person("id", max_rows=2),
    ...     budget=tacet.PureDP(1),
    ... ) as session:
    ...     query = session.table("visits").where("age >= 18").agg(n=tacet.count())
    ...     release = session.evaluate(query, budget=tacet.PureDP(0.5))
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
        dataset: str | None = None,
        ledger: str | Ledger | None = None,
        analyst: str | None = None,
        purpose: str | None = None,
        bits: RandomBits | None = None,
        memory_limit: str = "2GB",
        threads: int | None = None,
    ) -> None:
        check_tables(tables)
        if not isinstance(unit, Person | Row):
            raise InvalidParameter(
                "unit", unit, expected="tacet.Person('id column', max_rows=...) or tacet.Row()"
            )
        check_options(budget, columns, ledger, bits)
        for argument, note in (("analyst", analyst), ("purpose", purpose)):
            if note is not None and not (checks.is_text(note) and encodable(note)):
                raise InvalidParameter(argument, note, expected="text, or None")
        self.unit: Unit = unit
        self._closed = False
        self._bits: RandomBits = SecureBits() if bits is None else bits
        self._process = os.getpid()
        self._analyst, self._purpose = analyst, purpose
        from tacet.query.engines.duckdb import DuckDB

        self._engine: Engine = DuckDB(tables, memory_limit=memory_limit, threads=threads)
        try:
            facts = dict(columns or {})
            self._scopes = scopes_of(self._engine, unit, facts)
            self._owns_ledger = ledger is None or isinstance(ledger, str)
            self._ledger = (
                open_ledger(ledger) if ledger is None or isinstance(ledger, str) else ledger
            )
            self._dataset = account_name(dataset, durable=self._ledger.durable)
            terms = {"unit": unit.terms, "neighbors": str(unit.neighbors)}
            self._budget = self._ledger.open_account(self._dataset, budget, terms).budget
            self._find_rows()
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
        return tuple(self._scopes)

    def table(self, name: str) -> Query:
        """Begin a question about one table."""
        if not checks.is_text(name) or name not in self._scopes:
            known = ", ".join(self._scopes)
            raise InvalidParameter("table", name, expected=f"one of the session's tables: {known}")
        return Query(table=name, unit=self.unit, scope=self._scopes[name])

    def explain(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        assuming: Assume | None = None,
        keys: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """What a question would do, cost and err by. Free: reads no data and spends nothing.

        query: also a SELECT, as `sql` takes it, with its keys. assuming: what to suppose of the
        data, for errors that depend on it. A budget above what is left is explained too.
        """
        if isinstance(query, str):
            query, _ = self.read_sql(query, keys=keys)
        allocation, cost = self._priced(query, budget)
        _check_assumption(assuming, query)
        return explained(query, allocation, cost, left=self.remaining, assuming=assuming)

    def evaluate(self, query: Query, *, budget: Guarantee) -> Release:
        """Spend at most `budget` and answer.

        Raises, before anything is spent or read: InvalidParameter, WrongUnit (the account does
        not take such a budget), BudgetExceeded, SourceChanged. Raises EngineFailed or
        SourceChanged after the charge was reserved; it then stays spent.
        """
        allocation, cost = self._priced(query, budget)
        self._may_spend()
        self._engine.check_sources()
        salt = int.from_bytes(self._bits.words(2).tobytes(), "little")
        event, reproducible = allocation.event, not self._bits.secure
        statement = compile_query(
            query, unit=self.unit, scan=self._engine.scan(query.table), salt=salt
        )
        reservation = self._ledger.reserve(
            self._dataset,
            charge=cost,
            event=event,
            request=budget,
            plan_digest=query.digest(),
            salt=salt.to_bytes(16, "big"),
            analyst=self._analyst,
            purpose=self._purpose,
            reproducible=reproducible,
        )
        tallies = self._engine.run(statement, measures=len(query.measures))
        with closing(tallies):
            self._engine.check_sources()
            self._ledger.commit(reservation)
            answers = answers_of(query, allocation, tallies, self._bits)
        return Release(
            query=query,
            groups=tuple(group.label for group in query.groups),
            keys=tuple(key for key in query.keys for _ in range(query.lines)),
            answers=answers,
            request=budget,
            charge=cost,
            remaining=self.remaining,
            event=event,
            provenance=provenance(query, allocation, cost),
            salt=f"{salt:032x}",
            reproducible=reproducible,
        )

    def find_bounds(self, table: str | Query, column: str, *, budget: Guarantee) -> Bounds:
        """Find privately a range that few people have values outside of, and pay for it.

        table: its name, or a question begun with `table` that has no aggregates yet. The bounds
        are round numbers, and public from now on: write them with an aggregate, or declare them in
        `columns=` of later sessions. What it does is told by `explain` of the same question,
        `session.table(...).agg(range=tacet.find_bounds(column))`. Raises as `evaluate` does.
        """
        query = table if isinstance(table, Query) else self.table(table)
        if query.groups:
            raise InvalidParameter(
                "table", query, expected="no groups: .agg(range=tacet.find_bounds(...)) takes them"
            )
        release = self.evaluate(query.agg(range=find_bounds(column)), budget=budget)
        (low,), (high,) = release.answers["range"].lower, release.answers["range"].upper
        assert low is not None
        assert high is not None
        return Bounds(low, high)

    def sql(
        self,
        text: str,
        *,
        budget: Guarantee,
        keys: Mapping[str, Any] | None = None,
    ) -> Release:
        """Answer a SELECT: COUNT, SUM, AVG, MIN, MAX, MEDIAN, QUANTILE with WHERE and GROUP BY.

        keys: for each column of GROUP BY its public values, where they are not declared already.
        ORDER BY and LIMIT arrange the released table. See docs/sql.md. Raises as `evaluate` does.
        """
        query, select = self.read_sql(text, keys=keys)
        return arranged(self.evaluate(query, budget=budget), select)

    def read_sql(self, text: str, *, keys: Mapping[str, Any] | None = None) -> tuple[Query, Select]:
        """The question a SELECT asks, and the SELECT itself; reads and spends nothing."""
        return question(text, start=self.table, keys=keys or {})

    def close(self) -> None:
        """Release the engine and a ledger that this session opened. Nothing spent comes back."""
        self._closed = True
        self._engine.close()
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({', '.join(self._scopes)}; protects {self.unit}; left {self.remaining})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session holds a budget: it cannot be pickled or copied.")

    def _find_rows(self) -> None:
        """Replace a unit whose `max_rows` is to be found by one that has it."""
        if not isinstance(self.unit, Person) or self.unit.search is None:
            return
        wanted, search, found = self.unit, self.unit.search, 1
        self.unit = wanted.searched
        assert self.unit.max_rows is not None
        for name in self._scopes:
            query = self.table(name).agg(rows=RowsPerPerson(most=self.unit.max_rows))
            release = self.evaluate(query, budget=search.budget * Fraction(1, len(self._scopes)))
            found = max(found, int(release.answers["rows"].values[0]))
        self.unit = wanted.found(found)

    def _priced(self, query: Query, budget: Guarantee) -> tuple[Allocation, Guarantee]:
        if not _is_question(query):
            raise InvalidParameter(
                "query", query, expected="session.table(...)....agg(n=tacet.count(), ...)"
            )
        self._belongs(query)
        allocation = allocate(query, budget)
        request_price(budget, self._budget)  # refuses a budget of another unit
        return allocation, charge(allocation.event, budget, self._budget)

    def _belongs(self, query: Query) -> None:
        # `derive` makes a new scope: what tells it to be ours are its source columns.
        known = self._scopes.get(query.table)
        if known is None or query.unit != self.unit or query.scope.leaves is not known.leaves:
            raise InvalidParameter(
                "query", query.table, expected="a question begun with this session's table(...)"
            )

    def _may_spend(self) -> None:
        if self._closed:
            raise InvalidParameter("session", "closed", expected="one that is open: open a new one")
        if not self._ledger.durable and os.getpid() != self._process:
            raise LedgerMismatch(
                "This process is a copy of the one that opened the session, and the budget lives "
                "in memory: both would spend it. Use ledger='sqlite:///budget.db'."
            )


def _check_assumption(assuming: object, query: Query) -> None:
    if assuming is None:
        return
    if not isinstance(assuming, Assume):
        raise InvalidParameter(
            "assuming", assuming, expected="tacet.Assume(rows=500, values={'age': [20, 30, 40]})"
        )
    known = [name for a in query.aggregates.values() for name in a.assumes]
    for name in assuming.values:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none here"
            raise InvalidParameter(
                "assuming", name, expected=f"columns as the aggregates name them: {listed}"
            )


def _is_question(value: object) -> bool:
    return isinstance(value, Query) and len(value.aggregates) > 0
