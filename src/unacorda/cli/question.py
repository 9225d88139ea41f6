"""One question of the command line: a data file, a SELECT, a unit, public facts and a price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.cli.datafile import ALWAYS, DataFile
from unacorda.cli.keys import group_of, keys_by_group
from unacorda.errors import BudgetExceeded, InvalidParameter

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.columns import Fact
    from unacorda.query.explanation import Explanation
    from unacorda.query.margins import GivenLevelWeights
    from unacorda.query.plan import Query
    from unacorda.query.release import Release
    from unacorda.query.session import Session
    from unacorda.query.units import Unit

__all__ = ["Question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a data file; nothing is opened before `session` is.

    file: the data; sql: the SELECT; keys: the public values of group columns as written; table: a
    file that holds them all; private: the group columns whose values are found; request: what the
    answer may cost; level_weights: of ROLLUP and CUBE; assuming: a public file on which an
    explanation tries it out.
    """

    file: DataFile
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    keys: Mapping[str, Sequence[str]]
    request: Guarantee
    table: str | None = None
    private: tuple[str, ...] = ()
    level_weights: GivenLevelWeights = None
    assuming: str | None = None

    def session(self, **account: Any) -> Session:
        """A session over the file; account: its budget, dataset, ledger and so on.

        The table has the name the SELECT calls it by, which is the file's or `data`.
        """
        from unacorda.query.session import Session

        table = self._table()
        return Session({table: self.file.source()}, unit=self.unit, columns=self.facts, **account)

    def explain(self, session: Session) -> Explanation:
        """What the question would do and cost; free."""
        query = self._query(session)
        return session.explain(query, budget=self.request, assuming=self.assuming)

    def suggest(self, session: Session, errors: Any, *, delta: Fraction) -> Guarantee:
        """The least budget of the session's kind that reaches these standard errors; free."""
        query = self._query(session)
        if isinstance(errors, Fraction):
            errors = dict.fromkeys(query.aggregates, errors)
        return session.suggest_budget(query, error=errors, delta=delta, assuming=self.assuming)

    def answer(self, session: Session) -> Release:
        """The answer, for its price."""
        keys, weights = self._keys(session), self.level_weights
        return session.sql(self.sql, budget=self.request, keys=keys, level_weights=weights)

    def rehearse(self, *, budget: Guarantee | None, account: str) -> None:
        """Raise what the question would raise before it reads data, in an account of its own.

        So a question that cannot be asked does not open an account, which could not be undone.
        """
        from unacorda.accounting.filters import Filter

        with self.session(budget=budget, dataset=account) as session:
            cost = self.explain(session).cost
            if not Filter(session.budget).admits(cost):
                raise BudgetExceeded(asked=cost, left=session.budget, account=account)

    def _query(self, session: Session) -> Query:
        keys, weights = self._keys(session), self.level_weights
        query, _ = session.read_sql(self.sql, keys=keys, level_weights=weights)
        return query

    def _keys(self, session: Session) -> dict[str, Any] | str:
        from unacorda.query.private_keys import private_keys
        from unacorda.query.select import rows

        if self.table is not None:
            if self.private:
                raise InvalidParameter(
                    "--private-keys", self.private[0], expected="no --keys @FILE beside it"
                )
            return self.table
        query, select = rows(self.sql, start=session.table)
        found: dict[str, Any] = dict(keys_by_group(self.keys, select=select, query=query))
        for column in self.private:
            name = group_of(column, select, option="--private-keys")
            if name in found:
                raise InvalidParameter(
                    "--private-keys", column, expected="each column once, and in one option alone"
                )
            found[name] = private_keys()
        return found

    def _table(self) -> str:
        from unacorda.query.sql.parse import parse_select

        named = self.file.name

        def columns_of(table: str) -> tuple[str, ...]:
            """None are known yet; this is where the name of another table is refused."""
            if table.casefold() not in {named.casefold(), ALWAYS}:
                names = " or ".join(dict.fromkeys([named, ALWAYS]))
                raise InvalidParameter(
                    "FROM",
                    table,
                    expected=f"{names}: the table of {self.file.data!r} is called by the file's "
                    f"name, or {ALWAYS!r}",
                )
            return ()

        return parse_select(self.sql, columns_of=columns_of).table
