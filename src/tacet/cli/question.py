"""One question of the command line: a data file, a SELECT, a unit, public facts and a price."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tacet.cli.keys import typed_keys
from tacet.errors import BudgetExceeded, InvalidParameter

if TYPE_CHECKING:
    from tacet.privacy.guarantees import Guarantee
    from tacet.query.columns import Fact
    from tacet.query.engines.sources import Csv
    from tacet.query.explanation import Explanation
    from tacet.query.release import Release
    from tacet.query.session import Session
    from tacet.query.units import Unit

__all__ = ["Question", "table_name"]

_ENDINGS = re.compile(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", re.IGNORECASE)
_ALWAYS = "data"
_NO_CSV = re.compile(r"::|\.(parquet|pq)$", re.IGNORECASE)
_TABS = {"tab": "\t", "\\t": "\t"}
_SIGNS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a data file; nothing is opened before `session` is.

    data: the file; delimiter: the sign between its columns, where it is CSV and not usual; sql:
    the SELECT; keys: the public values of group columns as written; request: what the answer may
    cost.
    """

    data: str
    delimiter: str | None
    sql: str
    unit: Unit
    facts: Mapping[str, Fact]
    keys: Mapping[str, Sequence[str]]
    request: Guarantee

    def session(self, **account: Any) -> Session:
        """A session over the file; account: its budget, dataset, ledger and so on.

        The table has the name the SELECT calls it by, which is the file's or `data`.
        """
        from tacet.query.session import Session

        table = self._table()
        return Session({table: self._source()}, unit=self.unit, columns=self.facts, **account)

    def look(self) -> str | None:
        """Look for the file, before anything else is asked of it; a hint where it looks odd.

        Raises SourceUnreadable where it is missing or has no header, and InvalidParameter.
        """
        from tacet.query.engines.sources import CsvFile, locate

        found = locate(table_name(self.data), self._source())
        if not isinstance(found, CsvFile) or len(found.columns) > 1:
            return None
        (header,) = found.columns
        for sign, written in _SIGNS.items():
            if sign in header:
                return (
                    f"the header of {self.data!r} is one column, which holds {sign!r}. If that "
                    f"stands between columns, write --delimiter {written}."
                )
        return None

    def explain(self, session: Session) -> Explanation:
        """What the question would do and cost; free."""
        query, _ = session.read_sql(self.sql, keys=self._keys(session))
        return session.explain(query, budget=self.request)

    def answer(self, session: Session) -> Release:
        """The answer, for its price."""
        return session.sql(self.sql, budget=self.request, keys=self._keys(session))

    def rehearse(self, *, budget: Guarantee | None, account: str) -> None:
        """Raise what the question would raise before it reads data, in an account of its own.

        So a question that cannot be asked does not open an account, which could not be undone.
        """
        from tacet.accounting.filters import Filter

        with self.session(budget=budget, dataset=account) as session:
            cost = self.explain(session).cost
            if not Filter(session.budget).admits(cost):
                raise BudgetExceeded(asked=cost, left=session.budget, account=account)

    def _keys(self, session: Session) -> dict[str, Any]:
        from tacet.query.select import rows

        query, select = rows(self.sql, start=session.table)
        return typed_keys(self.keys, select=select, query=query)

    def _source(self) -> str | Csv:
        if self.delimiter is None:
            return self.data
        from tacet.query.engines.sources import Csv

        if _NO_CSV.search(self.data):
            raise InvalidParameter(
                "--delimiter", self.delimiter, expected="it beside a CSV file alone"
            )
        return Csv(self.data, delimiter=_TABS.get(self.delimiter.lower(), self.delimiter))

    def _table(self) -> str:
        from tacet.query.sql.parse import parse_select

        asked, named = parse_select(self.sql).table, table_name(self.data)
        if asked.casefold() not in {named.casefold(), _ALWAYS}:
            names = " or ".join(dict.fromkeys([named, _ALWAYS]))
            raise InvalidParameter(
                "FROM",
                asked,
                expected=f"{names}: the table of {self.data!r} is called by the file's name, or "
                f"{_ALWAYS!r}",
            )
        return asked


def table_name(data: str) -> str:
    """The name of a file's table: its own, without ending, made an identifier.

    >>> table_name("in/2024 visits.csv.gz"), table_name("clinic.duckdb::visits")
    ('t_2024_visits', 'visits')
    """
    _, database, table = data.partition("::")
    bare = table.rpartition(".")[2] if database else _ENDINGS.sub("", PurePath(data).name)
    name = re.sub(r"\W+", "_", bare).strip("_")
    if not name:
        return _ALWAYS
    return f"t_{name}" if name[0].isdigit() else name
