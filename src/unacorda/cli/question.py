"""One question of the command line: tables, a SELECT, a unit, public facts and a price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.checks import demand
from unacorda.cli.params import KEPT_SHARE, KEYS_ONCE, SEARCH_SHARE, GivenKeys
from unacorda.cli.tables import ALWAYS, DataTables, known_rows
from unacorda.errors import BudgetExceeded, InvalidParameter, UnsafeExpression

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.plan.query import Query
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.results.simulation import Assume
    from unacorda.query.schema.facts import Fact
    from unacorda.query.schema.units import Unit
    from unacorda.query.session import Session
    from unacorda.query.sql.postprocess import Select

__all__ = ["CommandQuestion"]

_MOST_LACKING = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuestion:
    """What is asked of tables; nothing is opened before `session` is.

    data: the tables; sql: the SELECT; request: what the answer may cost; level_weights: of ROLLUP
    and CUBE; assuming: a public file on which an explanation tries it out. no_kept: whether the
    share of rows that are kept is left out.
    """

    data: DataTables
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    keys: GivenKeys
    request: Guarantee
    level_weights: GivenLevelWeights = None
    assuming: str | None = None
    no_kept: bool = False

    def session(self, **account: Any) -> Session:
        """A session over the tables; account: its budget, dataset, ledger and so on.

        The table of a single file has the name the SELECT calls it by, the file's or `data`.
        """
        table = self._table()
        return self.data.session(table=table, unit=self.unit, columns=self.facts, **account)

    def explain(self, session: Session) -> Explanation:
        """What the question would do and cost; free."""
        query = self._query(session)
        kept = self._kept(query)
        return session.explain(query, budget=self.request, kept=kept, assuming=self._assumed())

    def suggest(self, session: Session, errors: Any, *, delta: Fraction) -> Guarantee:
        """The least budget of the session's kind that reaches these standard errors; free."""
        query = self._query(session)
        if isinstance(errors, Fraction):
            errors = dict.fromkeys(query.aggregates, errors)
        if (kept := self._kept(query)) is not None:
            query = query.with_kept(kept)
        return session.suggest_budget(query, error=errors, delta=delta, assuming=self._assumed())

    def _assumed(self) -> Assume | None:
        from unacorda.query.results.simulation import Assume

        return None if self.assuming is None else Assume.from_table(self.assuming)

    def answer(self, session: Session) -> Release:
        """The answer, for its price."""
        asked: dict[str, Any] = {"keys": self._keys(session), "level_weights": self.level_weights}
        kept = self._kept(self._query(session))
        return session.sql(self.sql, budget=self.request, kept=kept, **asked)

    def _kept(self, query: Query) -> Fraction | None:
        """The part of the budget for the share of rows kept, where bounds on rows drop some."""
        asks = not self.no_kept and query.drops_rows and query.bounded_by_rows
        return KEPT_SHARE if asks else None

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
        unit = known_rows(self.data, self.request, unit=self.unit, columns=self.facts, **account)
        return None if unit is None else self._with_bound(self.request, **account)

    def _with_bound(self, request: Guarantee, **account: Any) -> CommandQuestion:
        """The question with the bound on rows that errs least for a request.

        The search is read in the account, or paid for. Its tables are called as their files, as
        those of every question about them are.
        """
        free = replace(self.unsearched, request=request)
        with self.data.session(unit=self.unit, columns=self.facts, **account) as session:
            usual: Any = session.unit
            with free.session(**account) as named:
                best = session.best_limits(self._query(named), budget=request)
        return replace(free, unit=usual.with_rows(best or usual.max_rows))

    def found(self, **account: Any) -> CommandQuestion:
        """The question with the rows of a person that the account knows, or that it pays for now.

        account: its budget, dataset, ledger and so on; the budget of the request where none is
        kept. Raises what the question raises before it reads data, and BudgetExceeded where not
        all of the request is left, before the search is paid for.
        """
        known = self.known(**account)
        if known is not None:
            return known
        free = self.unsearched
        with free.session(**account) as session:
            free.explain(session)
        return self._with_bound(free.request, **account)

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
        """The keys as values of the columns that the SELECT groups by, or the table of them.

        A column of whole numbers, dates, booleans or text takes keys of that kind. A column of a
        CSV file without a declaration takes whole numbers where every key is one (01 is not), and
        text otherwise. InvalidParameter for keys of other columns and for keys that do not fit.
        """
        from unacorda.query.noise.key_selection import private_keys
        from unacorda.query.plan.groups import typed_keys
        from unacorda.query.sql.select import parse_select

        if isinstance(self.keys, str):
            return self.keys
        select = parse_select(self.sql, start=session.table)
        found: dict[str, Any] = {}
        for column, written in self.keys.items():
            option = "--private-keys" if written is None else "--keys"
            name = _group_of(column, select, option=option)
            demand(name not in found, option, column, expected=KEYS_ONCE)
            if written is None:
                found[name] = private_keys()
            else:
                readings = select.rows.scope.column(name, argument=option)
                kinds = {reading.kind for reading in readings}
                found[name] = typed_keys(f"{option}, {column!r}", written, kinds)
        return found

    def _table(self) -> str | None:
        """What the SELECT calls the table of a single file; UnsafeExpression for another name."""
        from unacorda.query.sql.select import tables_of

        if self.data.file is None:
            return None
        named, tables = self.data.name, tables_of(self.sql)
        known = {name.casefold() for name in (named, ALWAYS, *self.data.public)}
        for table, place in tables.items():
            if table.casefold() not in known:
                names = " or ".join(dict.fromkeys([named, ALWAYS]))
                hint = f"Write {names}: the table of {self.data.file!r} is called by the file's "
                hint += f"name, or {ALWAYS!r}. More tables are named by --table and --public."
                reason = f"{table[:60]!r} is none of the tables of people"
                raise UnsafeExpression(self.sql, reason=reason, hint=hint, place=place)
        public = {name.casefold() for name in self.data.public}
        return next((table for table in tables if table.casefold() not in public), named)

    def lacking(self) -> list[InvalidParameter]:
        """What the question lacks, found by what is raised as one after the other is supposed."""
        from unacorda.privacy.guarantees import ApproxDP
        from unacorda.query.schema.facts import Bounds

        found: list[InvalidParameter] = []
        unit = getattr(self.unit, "searched", self.unit)
        question = replace(self, unit=unit, request=ApproxDP(1, "1e-6"))
        while len(found) < _MOST_LACKING:
            try:
                with question.session(budget=question.request) as session:
                    question.explain(session)
            except InvalidParameter as fault:
                known = {(one.lacks, one.column) for one in found}
                if fault.lacks is None or (fault.lacks, fault.column) in known:
                    return found
                found.append(fault)
                column = fault.column or ""
                if fault.lacks == "bounds":
                    question = replace(question, facts={**question.facts, column: Bounds(0, 1)})
                elif not isinstance(question.keys, str):
                    question = replace(question, keys={**question.keys, column: None})
            else:
                break
        return found


def _group_of(column: str, select: Select, *, option: str) -> str:
    """The group column of this name, or of its alias; InvalidParameter where there is none."""
    groups = select.group_names
    names = [groups[name] for name in groups if name.casefold() == column.casefold()]
    if not names:
        listed = ", ".join(select.shown) or "none, since it has no GROUP BY"
        expected = f"a column that the SELECT groups by: {listed}"
        raise InvalidParameter(option, column, expected=expected)
    return names[0]
