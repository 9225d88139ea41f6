"""One question of the command line: a data file, a SELECT, a unit, public facts and a price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.cli.datafile import ALWAYS, DataFile
from unacorda.cli.keys import group_of, keys_by_group
from unacorda.cli.options import SEARCH_SHARE
from unacorda.errors import BudgetExceeded, InvalidParameter

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.plan.query import Query
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.results.simulation import Assume
    from unacorda.query.schema.facts import Fact
    from unacorda.query.schema.units import Unit
    from unacorda.query.session import Session

__all__ = ["CommandQuestion", "known_rows"]


def known_rows(
    file: DataFile,
    request: Guarantee,
    *,
    unit: Unit,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    **session: Any,
) -> Unit | None:
    """The unit with the rows of a person that an account knows; None where it knows none.

    Free, and reads no data. BudgetExceeded where they are to be found and less than the request is
    left, since the search would be paid for in vain.
    """
    if getattr(unit, "search", None) is None or ledger is None or dataset is None:
        return None
    from unacorda.accounting.charges import request_price
    from unacorda.query.results import row_search
    from unacorda.query.session import Session, check_affordable

    wanted: Any = unit
    tables = {file.name: file.source()}
    rest: Any = {**session, "dataset": dataset, "ledger": ledger}
    with Session(tables, unit=wanted.searched, **rest) as free:
        begun = {name: free.table(name) for name in free.tables}
        found = row_search.known_rows(wanted, begun, ledger=ledger, dataset=dataset)
        if found is None:
            check_affordable(request_price(request, free.budget), free.remaining, dataset)
            return None
        return found.with_rows(found.max_rows or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuestion:
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
        return session.explain(query, budget=self.request, assuming=self._assumed())

    def suggest(self, session: Session, errors: Any, *, delta: Fraction) -> Guarantee:
        """The least budget of the session's kind that reaches these standard errors; free."""
        query = self._query(session)
        if isinstance(errors, Fraction):
            errors = dict.fromkeys(query.aggregates, errors)
        return session.suggest_budget(query, error=errors, delta=delta, assuming=self._assumed())

    def _assumed(self) -> Assume | None:
        from unacorda.query.results.simulation import Assume

        return None if self.assuming is None else Assume.from_table(self.assuming)

    def answer(self, session: Session) -> Release:
        """The answer, for its price."""
        keys, weights = self._keys(session), self.level_weights
        return session.sql(self.sql, budget=self.request, keys=keys, level_weights=weights)

    @property
    def searches(self) -> bool:
        """Whether the rows of a person are to be found."""
        return getattr(self.unit, "search", None) is not None

    @property
    def unsearched(self) -> CommandQuestion:
        """The question as far as it is known: with the most rows, for what a search leaves it."""
        rest = self.request * (1 - SEARCH_SHARE)
        return replace(self, unit=getattr(self.unit, "searched", self.unit), request=rest)

    def known(self, **account: Any) -> CommandQuestion | None:
        """The question with the rows of a person that the account knows; None where it knows none.

        Raises as `known_rows`.
        """
        unit = known_rows(self.file, self.request, unit=self.unit, columns=self.facts, **account)
        return None if unit is None else replace(self, unit=unit)

    def found(self, **account: Any) -> CommandQuestion:
        """The question with the rows of a person that the account knows, or that it pays for now.

        account: its budget, dataset, ledger and so on; the budget of the request where none is
        kept. Raises what the question raises before it reads data, and BudgetExceeded where not
        all of the request is left, before the search is paid for.
        """
        from unacorda.query.session import Session

        known = self.known(**account)
        if known is not None:
            return known
        free = self.unsearched
        with free.session(**account) as session:
            free.explain(session)
        tables = {self.file.name: self.file.source()}
        with Session(tables, unit=self.unit, columns=self.facts, **account) as session:
            unit: Any = session.unit
            return replace(free, unit=unit.with_rows(unit.max_rows))

    def rehearse(self, *, budget: Guarantee | None, account: str) -> None:
        """Raise what the question would raise before it reads data, in an account of its own.

        So a question that cannot be asked does not open an account, which could not be undone.
        """
        from unacorda.accounting.charges import request_price
        from unacorda.accounting.filters import Filter
        from unacorda.query.session import check_affordable

        if self.searches:
            self.unsearched.rehearse(budget=budget, account=account)
            limit = budget or self.request
            check_affordable(request_price(self.request, limit), limit, account)
            return
        with self.session(budget=budget, dataset=account) as session:
            cost = self.explain(session).cost
            if not Filter(session.budget).admits(cost):
                raise BudgetExceeded(asked=cost, left=session.budget, account=account)

    def _query(self, session: Session) -> Query:
        keys, weights = self._keys(session), self.level_weights
        query, _ = session.read_sql(self.sql, keys=keys, level_weights=weights)
        return query

    def _keys(self, session: Session) -> dict[str, Any] | str:
        from unacorda.query.noise.key_selection import private_keys
        from unacorda.query.sql.binder import rows

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
