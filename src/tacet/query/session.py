"""The session: tables, a unit and a budget. `evaluate` is the one door to the data.

The order is the guarantee: the plan is checked, its price computed and compared with the sources'
fingerprints; the charge is reserved, durably; only then does the engine run; the charge is
committed; noise is added; the release leaves. A crash anywhere leaves the charge spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn, Self, overload

from tacet import checks
from tacet.accounting.charges import request_price
from tacet.bits import RandomBits, SecureBits
from tacet.checks import Number
from tacet.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from tacet.ledger.opening import open_ledger
from tacet.ledger.protocol import Ledger
from tacet.privacy.guarantees import Guarantee
from tacet.query.aggregates.answers import Assume
from tacet.query.aggregates.found import RowsPerPerson, find_bounds
from tacet.query.answering import Priced
from tacet.query.arrange import arranged
from tacet.query.batch import Batch
from tacet.query.columns import Bounds, Fact
from tacet.query.counting import begun
from tacet.query.describing.description import Description
from tacet.query.describing.questions import Progress, describe
from tacet.query.engines.protocol import Engine
from tacet.query.explanation import Explanation, explained
from tacet.query.expressions.types import encodable
from tacet.query.opening import (
    account_name,
    check_assumption,
    check_options,
    check_tables,
    scopes_of,
)
from tacet.query.plan import Query
from tacet.query.private_keys import GivenKeys
from tacet.query.release import Release
from tacet.query.select import question, rows
from tacet.query.sql.types import Select
from tacet.query.together import Several, Together, members_of, naming, weights_of
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
        keys: GivenKeys = None,
    ) -> Explanation:
        """What a question would do, cost and err by. Free: reads no data and spends nothing.

        query: also a SELECT, as `sql` takes it, with its keys. assuming: what to suppose of the
        data, for errors that depend on it. A budget above what is left is explained too.
        """
        question, _ = self._read(query, keys, together=False)
        priced = Priced.of(Together.alone(question), budget, self._budget)
        check_assumption(assuming, question)
        (allocation,) = priced.allocations
        return explained(
            question, allocation, priced.charge, left=self.remaining, assuming=assuming
        )

    @overload
    def evaluate(
        self,
        query: Query | str,
        *,
        budget: Guarantee,
        weights: None = None,
        keys: GivenKeys = None,
    ) -> Release: ...
    @overload
    def evaluate(
        self,
        query: Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        keys: GivenKeys = None,
    ) -> Batch: ...
    def evaluate(
        self,
        query: Query | str | Several,
        *,
        budget: Guarantee,
        weights: Sequence[Number] | Mapping[str, Number] | None = None,
        keys: GivenKeys = None,
    ) -> Release | Batch:
        """Spend at most `budget` and answer a question, or several together: all or none.

        query: a question or a SELECT; a list, or a dict by name, of them is a batch. A batch is
        priced as one and reserved as one, and questions about the same rows (table, steps, groups
        and keys) are answered in one scan. weights: each question's part of the budget relative to
        the others', in the form of the questions; 1 where none is given. keys: for the GROUP BY of
        a SELECT, as `sql` takes them.

        Raises, before anything is spent or read: InvalidParameter, WrongUnit (the account does
        not take such a budget), BudgetExceeded, SourceChanged; what is about one question of a
        batch names it. Raises EngineFailed or SourceChanged after the charge was reserved; it then
        stays spent.
        """
        given = members_of(query)
        members = {"": query} if given is None else given
        if given is None and weights is not None:
            raise InvalidParameter("weights", weights, expected="it for several questions alone")
        asked, selects = [], []
        for name, member in members.items():
            with naming(name):
                found, select = self._read(member, keys, together=given is not None)
                asked.append(found)
                selects.append(select)
        names = tuple(members)
        listed = not isinstance(query, Mapping)
        together = Together(
            names=names, queries=tuple(asked), weights=weights_of(weights, names, listed=listed)
        )
        answered = self._answered(together, budget)
        releases = tuple(
            release if select is None else arranged(release, select)
            for release, select in zip(answered, selects, strict=True)
        )
        return releases[0] if given is None else Batch(names=names, releases=releases)

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

    def describe(
        self, table: str, *, budget: Guarantee, progress: Progress | None = None
    ) -> Description:
        """Take a first look at a table: ranges, means, quantiles and pictures of its columns.

        What undeclared columns of text hold is put to a private vote, undeclared ranges are found
        privately; all of it together costs at most the budget. Printing it gives a page of text,
        `to_html()` one with pictures. progress: told how many questions are done, of how many.
        Raises as `evaluate` does; what is spent by then stays spent.
        """
        price, left = request_price(budget, self._budget), self.remaining
        # All of it is asked for at once, lest a look end half way.
        if any(a > b for a, b in zip(price.additive, left.additive, strict=True)):
            raise BudgetExceeded(asked=price, left=left, account=self._dataset)
        return describe(self, table, budget=budget, progress=progress)

    def sql(
        self,
        text: str,
        *,
        budget: Guarantee,
        keys: GivenKeys = None,
    ) -> Release:
        """Answer a SELECT: COUNT, SUM, AVG, MIN, MAX, MEDIAN, QUANTILE with WHERE and GROUP BY.

        keys: for each column of GROUP BY its public values, where they are not declared already,
        or `tacet.private_keys()`, also for all such columns at once.
        ORDER BY and LIMIT arrange the released table. See docs/sql.md. Raises as `evaluate` does.
        """
        query, select = self.read_sql(text, keys=keys)
        (release,) = self._answered(Together.alone(query), budget)
        return arranged(release, select)

    def read_sql(self, text: str, *, keys: GivenKeys = None) -> tuple[Query, Select]:
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

    def _read(
        self, query: object, keys: GivenKeys, *, together: bool
    ) -> tuple[Query, Select | None]:
        """A question as the caller gave it; together: keys may be for another SELECT beside it."""
        if isinstance(query, str):
            if keys and together:
                names = rows(query, start=self.table)[1].group_names
                if isinstance(keys, Mapping):
                    keys = {name: keys[name] for name in keys if name in names}
                elif not names:
                    keys = None
            return self.read_sql(query, keys=keys)
        if not isinstance(query, Query) or not query.aggregates:
            raise InvalidParameter(
                "query", query, expected="session.table(...)....agg(n=tacet.count(), ...)"
            )
        # `derive` makes a new scope: what tells it to be ours are its source columns.
        known = self._scopes.get(query.table)
        if known is None or query.unit != self.unit or query.scope.leaves is not known.leaves:
            raise InvalidParameter(
                "query", query.table, expected="a question begun with this session's table(...)"
            )
        return query, None

    def _answered(self, together: Together, budget: Guarantee) -> tuple[Release, ...]:
        """The answers to all questions, or none: the order is the guarantee."""
        priced = Priced.of(together, budget, self._budget)
        self._may_spend()
        self._engine.check_sources()
        salt = int.from_bytes(self._bits.words(2).tobytes(), "little")
        statements = priced.statements(self._engine.scan, salt=salt)
        reservation = self._ledger.reserve(
            self._dataset,
            charge=priced.charge,
            event=priced.event,
            request=budget,
            plan_digest=together.digest(),
            salt=salt.to_bytes(16, "big"),
            analyst=self._analyst,
            purpose=self._purpose,
            reproducible=not self._bits.secure,
        )
        with ExitStack() as kept:
            counted = [
                kept.enter_context(closing(begun(self._engine, scan.query, statement)))
                for scan, statement in zip(priced.scans, statements, strict=True)
            ]
            self._engine.check_sources()
            self._ledger.commit(reservation)
            answers = priced.answers(counted, self._bits)
        return priced.releases(
            answers, remaining=self.remaining, salt=salt, reproducible=not self._bits.secure
        )

    def _may_spend(self) -> None:
        if self._closed:
            raise InvalidParameter("session", "closed", expected="one that is open: open a new one")
        if not self._ledger.durable and os.getpid() != self._process:
            raise LedgerMismatch(
                "This process is a copy of the one that opened the session, and the budget lives "
                "in memory: both would spend it. Use ledger='sqlite:///budget.db'."
            )
