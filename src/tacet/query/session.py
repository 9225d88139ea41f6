"""The session: tables, a unit and a budget. `evaluate` is the one door to the data.

The order is the guarantee: the plan is checked, its price computed and compared with the sources'
fingerprints; the charge is reserved, durably; only then does the engine run; the charge is
committed; noise is added; the release leaves. A crash anywhere leaves the charge spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np

from tacet import checks
from tacet.accounting.charges import charge, request_price
from tacet.bits import RandomBits, SecureBits
from tacet.errors import InvalidParameter, LedgerMismatch
from tacet.ledger.opening import open_ledger
from tacet.ledger.protocol import Ledger
from tacet.privacy.guarantees import Guarantee
from tacet.query.aggregates.answers import Answer, Assume, Exact
from tacet.query.aggregates.moments import Mean
from tacet.query.aggregates.quantiles import Quantile
from tacet.query.aggregates.sums import Sum
from tacet.query.allocation import Allocation, allocate
from tacet.query.columns import Bounds, Categories, Dates, Fact, Text
from tacet.query.compile import compile_query
from tacet.query.engines.protocol import Engine, Tallies
from tacet.query.explanation import Explanation, explained, provenance
from tacet.query.expressions.types import encodable
from tacet.query.plan import Query
from tacet.query.release import Release
from tacet.query.scope import Scope, id_reading, readings
from tacet.query.select import ordered, question
from tacet.query.sql.types import Select
from tacet.query.sqltext import identifier
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
    frames are copied).

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
        _check_tables(tables)
        if not isinstance(unit, Person | Row):
            raise InvalidParameter(
                "unit", unit, expected="tacet.Person('id column', max_rows=...) or tacet.Row()"
            )
        _check_options(budget, columns, ledger, bits)
        for argument, note in (("analyst", analyst), ("purpose", purpose)):
            if note is not None and not (checks.is_text(note) and encodable(note)):
                raise InvalidParameter(argument, note, expected="text, or None")
        self.unit = unit
        self._closed = False
        self._bits: RandomBits = SecureBits() if bits is None else bits
        self._process = os.getpid()
        self._analyst, self._purpose = analyst, purpose
        from tacet.query.engines.duckdb import DuckDB

        self._engine: Engine = DuckDB(tables, memory_limit=memory_limit, threads=threads)
        try:
            facts = dict(columns or {})
            self._scopes = _scopes(self._engine, unit, facts)
            self._owns_ledger = ledger is None or isinstance(ledger, str)
            self._ledger = (
                open_ledger(ledger) if ledger is None or isinstance(ledger, str) else ledger
            )
            self._dataset = _account_name(dataset, durable=self._ledger.durable)
            terms = {"unit": str(unit), "neighbors": str(unit.neighbors)}
            self._budget = self._ledger.open_account(self._dataset, budget, terms).budget
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
        self._engine.check_sources()
        self._ledger.commit(reservation)
        return Release(
            query=query,
            groups=tuple(group.label for group in query.groups),
            keys=query.keys,
            answers=_answers(query, allocation, tallies, self._bits),
            request=budget,
            charge=cost,
            remaining=self.remaining,
            event=event,
            provenance=provenance(query, allocation, cost),
            salt=f"{salt:032x}",
            reproducible=reproducible,
        )

    def sql(
        self,
        text: str,
        *,
        budget: Guarantee,
        keys: Mapping[str, Any] | None = None,
    ) -> Release:
        """Answer a SELECT: COUNT, SUM, AVG, MEDIAN, QUANTILE with WHERE and GROUP BY.

        keys: for each column of GROUP BY its public values, where they are not declared already.
        ORDER BY and LIMIT arrange the released table. See docs/sql.md. Raises as `evaluate` does.
        """
        query, select = self.read_sql(text, keys=keys)
        return ordered(self.evaluate(query, budget=budget), select)

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


def _check_tables(tables: Mapping[str, Any]) -> None:
    expected = "a mapping of table names to sources, such as {'visits': 'visits.csv'}"
    if not _is_mapping(tables) or len(tables) == 0:
        raise InvalidParameter("tables", tables, expected=expected)
    for name in tables:
        if not checks.is_text(name) or "\x00" in name:
            raise InvalidParameter("tables", name, expected=expected)


def _check_options(budget: object, columns: object, ledger: object, bits: object) -> None:
    if budget is not None and not isinstance(budget, Guarantee):
        raise InvalidParameter(
            "budget", budget, expected="a guarantee such as tacet.PureDP(1) or tacet.ZCDP(0.5)"
        )
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidParameter(
            "columns",
            columns,
            expected="facts by column name, such as {'age': tacet.Bounds(0, 120)}",
        )
    if not (ledger is None or isinstance(ledger, str) or hasattr(ledger, "open_account")):
        raise InvalidParameter("ledger", ledger, expected='None or "sqlite:///budget.db"')
    if bits is not None and not isinstance(bits, RandomBits):
        raise InvalidParameter("bits", bits, expected="None, or tacet.SeededBits(7) in a test")


def _check_assumption(assuming: object, query: Query) -> None:
    if assuming is None:
        return
    if not isinstance(assuming, Assume):
        raise InvalidParameter(
            "assuming", assuming, expected="tacet.Assume(rows=500, values={'age': [20, 30, 40]})"
        )
    known = [a.column for a in query.aggregates.values() if isinstance(a, Sum | Mean | Quantile)]
    for name in assuming.values:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none here"
            raise InvalidParameter(
                "assuming", name, expected=f"columns as the aggregates name them: {listed}"
            )


def _is_question(value: object) -> bool:
    return isinstance(value, Query) and len(value.aggregates) > 0


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _account_name(dataset: str | None, *, durable: bool) -> str:
    if dataset is None and durable:
        raise InvalidParameter(
            "dataset", None, expected="the account's name in the ledger, such as 'visits-2024'"
        )
    if dataset is not None and not (
        checks.is_text(dataset) and dataset.strip() and encodable(dataset)
    ):
        raise InvalidParameter("dataset", dataset, expected="a name that is not empty")
    return "session" if dataset is None else dataset


def _scopes(engine: Engine, unit: Unit, facts: Mapping[str, Fact]) -> dict[str, Scope]:
    every = {name for schema in engine.schema.values() for name in schema}
    for name, fact in facts.items():
        if not isinstance(fact, Bounds | Categories | Dates | Text):
            raise InvalidParameter(
                f"columns[{name!r}]",
                fact,
                expected="tacet.Bounds(0, 120), Categories([...]), Dates() or Text()",
            )
        if name not in every:
            raise InvalidParameter(
                "columns", name, expected=f"a column of the tables: {', '.join(sorted(every))}"
            )
    return {table: _scope(table, schema, unit, facts) for table, schema in engine.schema.items()}


def _scope(table: str, schema: Mapping[str, str], unit: Unit, facts: Mapping[str, Fact]) -> Scope:
    ids = {}
    for name in unit.id if isinstance(unit, Person) else ():
        if name not in schema:
            raise InvalidParameter(
                "unit",
                name,
                expected=f"the column that names a person in table {table!r}: {', '.join(schema)}",
            )
        ids[name] = id_reading(name, schema[name], sql=identifier(name))
    return Scope(
        table=table,
        leaves={
            name: readings(name, kind, facts.get(name), sql=identifier(name))
            for name, kind in schema.items()
        },
        ids=ids,
        derived={},
        facts={name: fact for name, fact in facts.items() if name in schema},
    )


def _answers(
    query: Query, allocation: Allocation, tallies: Tallies, bits: RandomBits
) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for name, aggregate in query.aggregates.items():
        exact = _exact(query, name, tallies)
        # The noise was made by this very aggregate, a line of `allocate` further up.
        noise: Any = allocation.noises[name]
        answers[name] = aggregate.release(exact, noise, bits)
    return answers


def _exact(query: Query, name: str, tallies: Tallies) -> Exact:
    """The engine's integers by cell, in the order of the public keys; no rows count as 0."""
    aggregate, cells = query.aggregates[name], len(query.keys)
    if isinstance(aggregate, Quantile):
        assert aggregate.steps is not None
        histogram = np.zeros((cells, aggregate.steps + 1), dtype=np.int64)
        at, bins, rows = tallies.histograms[query.bin_of(aggregate)]
        histogram[at, bins] = rows
        return Exact(histogram=histogram)
    sums = []
    for measure in query.measures_of(aggregate):
        column = [0] * cells
        found = tallies.sums[query.measures.index(measure)]
        for cell, value in zip(tallies.cells.tolist(), found, strict=True):
            column[cell] = value
        sums.append(column)
    return Exact(sums=tuple(sums))
