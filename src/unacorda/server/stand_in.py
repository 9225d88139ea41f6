"""Made-up tables for trying questions, drawn from public facts or read from a public file.

Their answers have the exact form and noise of a release, and do not depend on the data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb

from unacorda.privacy.guarantees import Guarantee
from unacorda.query.expressions.language import identifier, quoted
from unacorda.query.schema.table import Bounds, Categories, Dates, Fact
from unacorda.query.session import Session
from unacorda.server.problems import Problem
from unacorda.settings import Dataset

_ROWS: Final = 1_000
_ROWS_OF_A_PERSON: Final = 2
_DAYS: Final = 365
_SECONDS: Final = 20.0
_LARGEST_DRAW: Final = 1_000_003
_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT")


class StandIn:
    """A made-up copy of a dataset: its tables, columns and types, with made-up rows."""

    def __init__(self, settings: Dataset, session: Session) -> None:
        self._settings, self._session = settings, session
        self._folder = tempfile.TemporaryDirectory(prefix="unacorda-stand-in-")
        self._tables: Mapping[str, str] | None = None
        self._lock = threading.Lock()

    def ask(self, stated: Mapping[str, Any], *, budget: Guarantee) -> dict[str, Any]:
        """The release of a question about made-up rows. stated: its body."""
        settings = self._settings
        public = settings.public if settings.engine is None else {}
        with Session(
            self._made(),
            unit=self._session.unit,
            budget=self._session.budget,
            columns=settings.columns,
            public=public,
            dataset=f"made-up {settings.name}",
            timeout=_SECONDS,
            memory_limit=settings.memory_limit,
        ) as session:
            parts = stated.get("questions", {"": stated.get("sql") or stated.get("question")})
            queries: Any = {
                name: one if isinstance(one, str) else session.read_json(one)
                for name, one in parts.items()
            }
            asked = queries if "questions" in stated else queries[""]
            release = session.evaluate(asked, budget=budget)
        said: dict[str, Any] = json.loads(release.to_json())
        return {"made_up": True, "release": {"made_up": True, **said}}

    def close(self) -> None:
        """Remove the tables."""
        self._folder.cleanup()

    def _made(self) -> Mapping[str, str]:
        with self._lock:
            if self._tables is None:
                self._tables = self._make()
            return self._tables

    def _make(self) -> Mapping[str, str]:
        names = self._session.tables
        if self._settings.stand_in is not None:
            if len(names) > 1:
                raise Problem("refused", "A stand_in is of a dataset with one table.")
            return {names[0]: self._settings.stand_in}
        path = Path(self._folder.name) / "made_up.duckdb"
        with closing(duckdb.connect(path)) as made:
            for name in names:
                scope = self._session.table(name).scope
                ids = self._session.unit.in_table(name).id
                columns = [
                    f"{_drawn(kind, scope.facts.get(column), number, person=column in ids)} "
                    f"AS {identifier(column)}"
                    for number, (column, kind) in enumerate(scope.types.items())
                ]
                rows = f"SELECT {', '.join(columns)} FROM range({_ROWS}) AS r(i)"
                made.execute(f"CREATE TABLE {identifier(name)} AS {rows}")
        return {name: f"{path}::{name}" for name in names}


def _drawn(kind: str, fact: Fact | None, number: int, *, person: bool) -> str:
    """SQL of one value in a row i. person: it names the person, of whom there are some rows."""
    # within [0, 1), from the row and the column alone
    share = f"(hash(i * 4096 + {number}) % {_LARGEST_DRAW} / {_LARGEST_DRAW}.0)"
    if person:
        return _cast(f"i // {_ROWS_OF_A_PERSON}", kind)
    match fact:
        case Bounds(lower=lower, upper=upper):
            return _cast(f"{lower!r} + {share} * {upper - lower!r}", kind)
        case Categories(values=values):
            listed = ", ".join("NULL" if one is None else quoted(str(one), "'") for one in values)
            place = f"(1 + CAST(floor({share} * {len(values)}) AS INTEGER))"
            return _cast(f"list_extract([{listed}], {place})", kind)
        case Dates(first=first, last=last) if first is not None and last is not None:
            days = (last - first).days + 1
            return _cast(f"DATE '{first}' + CAST({share} * {days - 1} AS INTEGER)", kind)
        case _:
            return _cast(_plain(kind, share), kind)


def _plain(kind: str, share: str) -> str:
    match kind.upper():
        case "VARCHAR":
            return f"'value ' || CAST(floor({share} * 10) AS INTEGER)"
        case "BOOLEAN":
            return f"{share} < 0.5"
        case whole if whole in _WHOLE:
            return f"floor({share} * 100)"
        case "FLOAT" | "DOUBLE":
            return share
        case dated if dated == "DATE" or dated.startswith("TIMESTAMP"):
            return f"DATE '2024-01-01' + CAST({share} * {_DAYS} AS INTEGER)"
        case _:
            return "NULL"


def _cast(text: str, kind: str) -> str:
    return f"TRY_CAST({text} AS {kind})"
