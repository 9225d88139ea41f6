"""Spark: the same questions over tables that outgrow one machine.

The statements are those that DuckDB runs, translated construct by construct; what has no equal in
Spark is refused before anything is spent. Counts and sums leave as integers; rows never do.
Everything Spark raises while it answers leaves as one `EngineFailed` of constant text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar

from unacorda.errors import EngineFailed, InvalidParameter
from unacorda.extras import require
from unacorda.query.engines.asking import HeldRows, KeyedRows, check_question, tallied
from unacorda.query.engines.compile import Found, Statement
from unacorda.query.engines.dialects.spark import translate
from unacorda.query.engines.dialects.statements import Table
from unacorda.query.engines.protocol import Admitted, Held, Keyed, Tallies, sql_of
from unacorda.query.engines.spark_asking import Asking, guarded
from unacorda.query.engines.spark_quiet import ended, quietly
from unacorda.query.engines.spark_settings import pin
from unacorda.query.engines.spark_sources import opened
from unacorda.query.plan.public_tables import PublicSelect, public_sql
from unacorda.query.plan.query import Query
from unacorda.query.schema.sources import Csv, Fingerprint

__all__ = ["Spark"]

T = TypeVar("T")


class Spark:
    """Tables in Spark. spark: the caller's session.

    The caller's own settings, views and cache are left alone: questions are asked in a session of
    their own beside it. tables, timeout: as for DuckDB.

    Raises InvalidParameter, SourceUnreadable, MissingExtra; reads schemas only, but copies CSV
    files, and frames of pandas, polars and Arrow.
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        spark: Any,
        timeout: float | None = None,
    ) -> None:
        self._timeout = timeout
        if not hasattr(spark, "_jsparkSession"):
            raise InvalidParameter(
                "engine", type(spark), expected="a SparkSession that is not a Spark Connect one"
            )
        if ended(spark):
            raise InvalidParameter(
                "engine", "a stopped SparkSession", expected="a SparkSession that is running"
            )
        with quietly():
            require("pyarrow", extra="spark")
            self._spark = spark.newSession()
            pin(self._spark, spark)
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._schema: dict[str, dict[str, str]] = {}
        self._scans: dict[str, str] = {}
        self._tables: dict[str, Table] = {}
        self._files: list[Fingerprint] = []
        self._named = tuple(tables.values())
        for number, (name, source) in enumerate(tables.items()):
            found = opened(self._spark, name, source, caller=spark, view=f"source{number}")
            self._schema[name] = found.schema
            self._scans[name] = f"source{number}"
            self._tables[f"source{number}"] = found.table
            self._files += found.files

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """For each table the type of each column, by DuckDB's names: public."""
        return self._schema

    @property
    def narrow(self) -> bool:
        """Whether wide rows are ordered sooner by few columns, and joined: see `bounding`."""
        return False

    @property
    def identity(self) -> Sequence[str]:
        """The software, and what tells its files from others without reading them: public."""
        named = [repr(one) for one in self._named if isinstance(one, str | PathLike | Csv)]
        return f"spark {self._spark.version}", *named, *map(repr, self._files)

    @property
    def once(self) -> bool:
        """Whether what WITH names as MATERIALIZED is computed a single time."""
        return False  # it is written out wherever its name stands

    def scan(self, table: str) -> str:
        """SQL of the relation that holds a table."""
        return self._scans[table]

    def look(self, asked: PublicSelect) -> list[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, as `run`."""
        sql = public_sql(asked)
        return self._guarded(lambda asking: asking.look(sql))

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if Spark ended. Reads no data."""
        if not self._tables or ended(self._spark):
            raise EngineFailed(asked=False)

    def check_sources(self) -> None:
        """Raise SourceChanged if a local file is not the one that was opened. Reads no data."""
        for file in self._files:
            file.check()

    def check(self, query: Query, first: Statement | Found) -> None:
        """Raise UnsupportedConstruct for a question that Spark would answer in another way."""
        check_question(query, first, self._tables, translate, engine="Spark")

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of a question; EngineFailed, of constant text, if anything fails."""
        statement = sql_of(asked, self, Statement)
        return self._guarded(lambda asking: tallied(asking, statement))

    def find(self, asked: Admitted) -> Keyed:
        """Bounded rows and the people behind each private key; EngineFailed, as `run`."""
        found = sql_of(asked, self, Found)
        return self._guarded(lambda asking: KeyedRows.of(asking, found, engine=self))

    @property
    def room(self) -> float:
        """No end: what is beyond the memory Spark keeps on its disks."""
        return math.inf

    def hold(self, asked: Admitted, *, keep: bool) -> Held:
        """Bounded rows for several scans; EngineFailed, as `run`."""
        bounded = sql_of(asked, self, Statement).bounded
        return self._guarded(lambda asking: HeldRows.of(asking, bounded, keep=keep))

    def close(self) -> None:
        """Forget the tables; a second call does nothing. A local Spark stays for the next one."""
        with self._lock, quietly():
            tables, self._tables = self._tables, {}
            for table in tables.values() if not ended(self._spark) else ():
                self._spark.catalog.dropTempView(table.view)

    def _guarded(self, work: Callable[[Asking], T]) -> T:
        """What the work gives with views of its own; EngineFailed, of constant text."""
        return guarded(lambda: self._limited(work))

    def _limited(self, work: Callable[[Asking], T]) -> T:
        asking, done = self._asking(), False
        try:
            found = asking.limited(lambda: work(asking))
            done = True
            return found
        finally:
            if not done:
                asking.close()

    def _asking(self) -> Asking:
        with self._lock:
            number = next(self._numbers)
            return Asking(self._spark, self._tables, number=number, timeout=self._timeout)
