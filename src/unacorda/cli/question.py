"""One question of the command line: a data file, a SELECT, a unit, public facts and a price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand
from unacorda.cli.params import KEYS_ONCE, SEARCH_SHARE, GivenKeys, gathered, option
from unacorda.cli.render import notice
from unacorda.errors import BudgetExceeded, InvalidParameter, UnsafeExpression
from unacorda.query.expressions.quoting import escape

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.plan.query import Query
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.results.simulation import Assume
    from unacorda.query.schema.facts import Fact
    from unacorda.query.schema.sources import Csv
    from unacorda.query.schema.units import Unit
    from unacorda.query.session import Session
    from unacorda.query.sql.postprocess import Select

__all__ = ["CommandQuestion", "DataFile", "data", "known_rows", "table_name"]

_ALWAYS = "data"
"""What the table of every file may be called."""

_ENDINGS = re.compile(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", re.IGNORECASE)
_NO_CSV = re.compile(r"::|\.(parquet|pq)$", re.IGNORECASE)
_TABS = {"tab": "\t", "\\t": "\t"}
_SIGNS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of people; nothing is opened before it is asked for.

    path: the file; delimiter: the sign between its columns, where it is CSV and not usual.
    """

    path: str
    delimiter: str | None

    @property
    def name(self) -> str:
        """What its table is called."""
        return table_name(self.path)

    def look(self) -> None:
        """Look for the file, before anything else is asked of it; note where it looks odd.

        Raises SourceUnreadable where it is missing or has no header, and InvalidParameter.
        """
        from unacorda.query.schema.sources import CsvFile, locate

        found = locate(self.name, self.source())
        if not isinstance(found, CsvFile) or len(found.columns) > 1:
            return
        (header,) = found.columns
        for sign, written in _SIGNS.items():
            if sign in header:
                said = f"the header of {self.path!r} is one column, which holds {sign!r}. If that "
                said += f"stands between columns, write --delimiter {written}."
                notice(escape(said))
                return

    def source(self) -> str | Csv:
        """The file as a session takes it; InvalidParameter where it has no delimiter."""
        if self.delimiter is None:
            return self.path
        from unacorda.query.schema.sources import Csv

        text = not _NO_CSV.search(self.path)
        demand(text, "--delimiter", self.delimiter, expected="a CSV file with it")
        return Csv(self.path, delimiter=_TABS.get(self.delimiter.lower(), self.delimiter))

    def session(self, *, table: str | None = None, **options: Any) -> Session:
        """A session over the file; table: what it is called there, by default its name."""
        from unacorda.query.session import Session

        return Session({table or self.name: self.source()}, **options)


data = gathered(
    "file",
    DataFile,
    click.argument(
        "path",
        metavar="DATA",
        help="A file in .csv, .tsv (also .gz) or .parquet (patterns of these too), or "
        "file.duckdb::table.",
    ),
    option(
        "--delimiter",
        "SIGN",
        "The sign between the columns of a CSV file, such as ';' or tab. Otherwise a comma, "
        "and a tab in .tsv.",
    ),
)


def table_name(path: str) -> str:
    """The name of a file's table: its own, without ending, made an identifier.

    >>> table_name("in/2024 visits.csv.gz"), table_name("clinic.duckdb::visits")
    ('t_2024_visits', 'visits')
    """
    _, database, table = path.partition("::")
    bare = table.rpartition(".")[2] if database else _ENDINGS.sub("", PurePath(path).name)
    name = re.sub(r"\W+", "_", bare).strip("_")
    if not name:
        return _ALWAYS
    return f"t_{name}" if name[0].isdigit() else name


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
    from unacorda.query import execution
    from unacorda.query.session import check_affordable

    wanted: Any = unit
    with file.session(unit=wanted.searched, dataset=dataset, ledger=ledger, **session) as free:
        begun = {name: free.table(name) for name in free.tables}
        found = execution.known_rows(wanted, begun, ledger=ledger, dataset=dataset)
        if found is None:
            check_affordable(request_price(request, free.budget), free.remaining, dataset)
            return None
        return found.with_rows(found.max_rows or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuestion:
    """What is asked of a data file; nothing is opened before `session` is.

    file: the data; sql: the SELECT; request: what the answer may cost; level_weights: of ROLLUP and
    CUBE; assuming: a public file on which an explanation tries it out.
    """

    file: DataFile
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    keys: GivenKeys
    request: Guarantee
    level_weights: GivenLevelWeights = None
    assuming: str | None = None

    def session(self, **account: Any) -> Session:
        """A session over the file; account: its budget, dataset, ledger and so on.

        The table has the name the SELECT calls it by, which is the file's or `data`.
        """
        table = self._table()
        return self.file.session(table=table, unit=self.unit, columns=self.facts, **account)

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
        known = self.known(**account)
        if known is not None:
            return known
        free = self.unsearched
        with free.session(**account) as session:
            free.explain(session)
        with self.file.session(unit=self.unit, columns=self.facts, **account) as session:
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

    def _table(self) -> str:
        """What the SELECT calls the table; UnsafeExpression for a name that the file has not."""
        from unacorda.query.sql.select import tables_of

        named = self.file.name
        tables = tables_of(self.sql)
        for table, place in tables.items():
            if table.casefold() not in {named.casefold(), _ALWAYS}:
                names = " or ".join(dict.fromkeys([named, _ALWAYS]))
                hint = f"Write {names}: the table of {self.file.path!r} is called by the file's "
                hint += f"name, or {_ALWAYS!r}."
                reason = f"{table[:60]!r} is none of the tables of people"
                raise UnsafeExpression(self.sql, reason=reason, hint=hint, place=place)
        return next(iter(tables), named)


def _group_of(column: str, select: Select, *, option: str) -> str:
    """The group column of this name, or of its alias; InvalidParameter where there is none."""
    groups = select.group_names
    names = [groups[name] for name in groups if name.casefold() == column.casefold()]
    if not names:
        listed = ", ".join(select.shown) or "none, since it has no GROUP BY"
        expected = f"a column that the SELECT groups by: {listed}"
        raise InvalidParameter(option, column, expected=expected)
    return names[0]
