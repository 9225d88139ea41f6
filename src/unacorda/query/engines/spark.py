"""Spark: the same questions over tables that outgrow one machine.

**Settings** on which the meaning of a statement rests. A session of the engine starts with what the
caller gave to Spark as a whole. All of `spark.sql` goes back to Spark's defaults but for a closed
list that says how fast and where to compute, and what changes an answer, or lets a value end a
question, is set.

**One question** has views of its own; rows that are read twice are kept. What is kept is computed
again where Spark loses it; the rows are then the same, since a bound row is a function of the table
and the salt alone (no random function, no order of partitions).

The statements are those that DuckDB runs, translated construct by construct; what has no equal in
Spark is refused before anything is spent. Counts and sums leave as integers; rows never do.
Everything Spark raises while it answers leaves as one `EngineFailed` of constant text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar

from unacorda.checks import demand
from unacorda.errors import EngineFailed
from unacorda.extras import require
from unacorda.query.engines.dialects.spark import translate
from unacorda.query.engines.dialects.statements import NamedTable, Translated, TranslatedEngine
from unacorda.query.engines.engine import EngineQuery
from unacorda.query.engines.spark_sources import ended, opened, quietly, unlogged
from unacorda.query.schema.sources import Csv

_PINNED = {
    "spark.sql.session.timeZone": ("UTC", "days and hours of instants are those of UTC"),
    "spark.sql.ansi.enabled": ("true", "what overflows is no other number"),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false", "a text in quotes is no column"),
    "spark.sql.ansi.relationPrecedence": ("false", "joins are in the order of the statement"),
    "spark.sql.ansi.enforceReservedKeywords": ("false", "no name becomes a word of the language"),
    "spark.sql.storeAssignmentPolicy": ("ANSI", "nothing is narrowed silently"),
    "spark.sql.caseSensitive": ("true", "names that differ in capitals are two columns"),
    "spark.sql.groupByOrdinal": ("true", "a group by a number is one by its place"),
    "spark.sql.orderByOrdinal": ("true", "an order by a number is one by its place"),
    "spark.sql.variable.substitute": ("false", "a text with ${...} is itself"),
    "spark.sql.parser.escapedStringLiterals": ("false", "a backslash in a text is escaped"),
    "spark.sql.parser.quotedRegexColumnNames": ("false", "a quoted name is one column"),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", "the types of decimals are known"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP means an instant"),
    "spark.sql.sources.useV1SourceList": (
        "avro,csv,json,kafka,orc,parquet,text",
        "files are read by the reader that is known here",
    ),
    "spark.sql.files.ignoreCorruptFiles": ("false", "a file that breaks off is no shorter table"),
    "spark.sql.files.ignoreMissingFiles": ("false", "a file that is gone is no empty table"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "the reader whose conversions are known"),
    "spark.sql.parquet.filterPushdown": ("false", "statistics of a file may be wrong: none counts"),
    "spark.sql.parquet.recordLevelFilter.enabled": ("false", "no row is left out by the reader"),
    "spark.sql.parquet.aggregatePushdown": ("false", "counts are of rows, not of statistics"),
    "spark.sql.parquet.binaryAsString": ("false", "bytes are no text"),
    "spark.sql.parquet.int96AsTimestamp": ("true", "twelve bytes are an instant"),
    "spark.sql.parquet.int96TimestampConversion": ("false", "an instant is not moved by a zone"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true", "an instant is not moved by a zone"),
    "spark.sql.parquet.mergeSchema": ("false", "all files have the same columns"),
    "spark.sql.parquet.respectSummaryFiles": ("false", "a schema is that of the files themselves"),
    "spark.sql.parquet.fieldId.read.enabled": ("false", "columns are known by their names"),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "EXCEPTION stops at an early day"),
    "spark.sql.parquet.int96RebaseModeInRead": ("CORRECTED", "EXCEPTION stops at an early day"),
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "EXCEPTION stops at a text"),
    "spark.sql.legacy.parquet.nanosAsLong": ("false", "a type is what the footer says"),
    "spark.sql.legacy.setopsPrecedence.enabled": ("false", "unions are in order"),
    "spark.sql.legacy.sizeOfNull": ("false", "the size of NULL is NULL"),
    "spark.sql.legacy.ctePrecedencePolicy": ("CORRECTED", "an inner name hides an outer one"),
    "spark.sql.execution.arrow.pyspark.enabled": ("false", "frames of Arrow are copied one way"),
    "spark.sql.execution.arrow.useLargeVarTypes": ("false", "texts leave in one type"),
    "spark.sql.execution.pandas.convertToArrowArraySafely": ("true", "nothing is cut silently"),
}
SETTINGS = {name: value for name, (value, _) in _PINNED.items()}
"""What is set, whatever the caller set."""
WHY = {name: why for name, (_, why) in _PINNED.items()}
"""Why each of them is set."""

_OF_THE_CALLER = (
    *("spark.sql.shuffle.", "spark.sql.adaptive.", "spark.sql.codegen.", "spark.sql.broadcast"),
    *("spark.sql.autoBroadcastJoinThreshold", "spark.sql.join.preferSortMergeJoin"),
    *("spark.sql.inMemoryColumnarStorage.", "spark.sql.leafNodeDefaultParallelism"),
    *("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"),
    *("spark.sql.files.minPartitionNum", "spark.sql.files.maxPartitionNum"),
    *("spark.sql.windowExec.buffer.", "spark.sql.sortMergeJoinExec.buffer."),
    *("spark.sql.sources.parallelPartitionDiscovery.", "spark.sql.redaction."),
)
"""How a statement is computed, not what it means."""

_LEAST_RESULT = 1 << 30


def pin(spark: Any, caller: Any) -> None:
    """Set all that a statement's meaning rests on in a session of the engine.

    caller: the session that the user has, or this process's own. Raises InvalidParameter for a
    setting of Spark as a whole that could stop a question.
    """
    _check_room(spark)
    known = spark._jsparkSession.sessionState().conf()  # noqa: SLF001
    collections = spark._jvm.scala.jdk.javaapi.CollectionConverters  # noqa: SLF001
    for name in map(str, collections.asJava(known.getAllConfs())):
        kept = name.startswith(_OF_THE_CALLER)
        if not kept and name.startswith("spark.sql.") and spark.conf.isModifiable(name):
            spark.conf.unset(name)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    parts = "spark.sql.shuffle.partitions"
    spark.conf.set(parts, caller.conf.get(parts))


def _check_room(spark: Any) -> None:
    """The number of lines that an answer has may depend on the data: it is not to be a limit."""
    name = "spark.driver.maxResultSize"
    written = spark.sparkContext.getConf().get(name, "1g")
    java = spark._jvm.org.apache.spark.network.util.JavaUtils  # noqa: SLF001
    fits = not 0 < java.byteStringAsBytes(written) < _LEAST_RESULT
    demand(fits, name, written, expected="at least '1g', or '0' for no limit")


T = TypeVar("T")

_ARROW = {
    "DOUBLE": "float64",
    "BIGINT": "int64",
    "TEXT": "string",
    "BOOLEAN": "bool_",
    "DATE": "date32",
}


class _SparkQuery(EngineQuery):
    """The views of one question. tables: those that its statements read; number: tells it apart."""

    def __init__(
        self,
        spark: Any,
        tables: Mapping[str, NamedTable],
        *,
        number: int,
        timeout: float | None = None,
    ) -> None:
        self._tag, context = f"unacorda-{uuid.uuid4()}", spark.sparkContext
        super().__init__(timeout=timeout, interrupt=lambda: context.cancelJobsWithTag(self._tag))
        self._spark, self._number = spark, number
        self._tables = dict(tables)
        self._kept: dict[str, Any] = {}
        self._views: list[str] = []

    def limited(self, work: Callable[[], T]) -> T:
        context = self._spark.sparkContext
        with unlogged():
            context.addJobTag(self._tag)
            try:
                return super().limited(work)
            finally:
                context.removeJobTag(self._tag)

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        translated, frame = self._select(sql, lists)
        view = f"{name}_{self._number}"
        self._views.append(view)  # first, so that `close` drops what a failure leaves
        if keep:
            self._kept[view] = frame = frame.persist()
        frame.createOrReplaceTempView(view)
        self._tables[name] = NamedTable(view=view, columns=translated.columns)

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> dict[str, list[Any]]:
        _, frame = self._select(sql, lists)
        with quietly():
            found: dict[str, list[Any]] = frame.toArrow().to_pydict()
        return found

    def rows(
        self, sql: str, lists: Sequence[Sequence[object]] = (), *, public: bool = False
    ) -> list[tuple[Any, ...]]:
        _, frame = self._select(sql, lists, public=public)
        with quietly():
            found = frame.toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def forget(self, name: str) -> None:
        view = self._tables.pop(name).view
        self._views.remove(view)
        self._drop(view)

    def close(self) -> None:
        with unlogged():
            while self._views:
                self._drop(self._views.pop())

    def _drop(self, view: str) -> None:
        with quietly():
            if view in self._kept:
                self._kept.pop(view).unpersist()
            self._spark.catalog.dropTempView(view)

    def _select(
        self, sql: str, lists: Sequence[Sequence[object]], *, public: bool = False
    ) -> tuple[Translated, Any]:
        view = f"lists{len(self._views)}_{self._number}"
        translated = translate(sql, tables=self._tables, parameters=view, public=public)
        with quietly():
            if lists:
                self._hold(view, lists, translated.parameters)
            return translated, self._spark.sql(translated.sql)

    def _hold(self, view: str, lists: Sequence[Sequence[object]], types: Sequence[str]) -> None:
        import pyarrow as pa

        columns = {
            f"p{number}": pa.array(list(values), type=getattr(pa, _ARROW[kind])())
            for number, (values, kind) in enumerate(zip(lists, types, strict=True), start=1)
        }
        columns["row"] = pa.array(range(len(lists[0])), type=pa.int64())
        self._spark.createDataFrame(pa.table(columns)).createOrReplaceTempView(view)
        self._views.append(view)


class Spark(TranslatedEngine):
    """Tables in Spark. spark: the caller's session.

    The caller's own settings, views and cache are left alone: questions are asked in a session of
    their own beside it. tables, timeout: as for DuckDB.

    Raises InvalidParameter, SourceUnreadable, MissingExtra; reads schemas only, but copies CSV
    files, and frames of pandas, polars and Arrow.
    """

    called = "Spark"
    translate = staticmethod(translate)
    once = False  # what WITH names is written out wherever its name stands

    def __init__(
        self, tables: Mapping[str, Any], *, spark: Any, timeout: float | None = None
    ) -> None:
        super().__init__(timeout=timeout)
        expected = "a SparkSession that is not a Spark Connect one"
        demand(hasattr(spark, "_jsparkSession"), "engine", type(spark), expected=expected)
        expected = "a SparkSession that is running"
        demand(not ended(spark), "engine", "a stopped SparkSession", expected=expected)
        with quietly():
            require("pyarrow", extra="spark")
            self._spark = spark.newSession()
            pin(self._spark, spark)
        self._numbers = itertools.count()
        self._views: dict[str, NamedTable] = {}
        for number, (name, source) in enumerate(tables.items()):
            view = f"source{number}"
            found = opened(self._spark, name, source, caller=spark, view=view)
            self.schema[name], self._scans[name] = found.schema, view
            self._views[view] = found.table
            self._files += found.files
        named = [repr(one) for one in tables.values() if isinstance(one, str | PathLike | Csv)]
        self.identity = f"spark {self._spark.version}", *named, *map(repr, self._files)

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if Spark ended. Reads no data."""
        super().check_open()
        if ended(self._spark):
            raise EngineFailed(asked=False)

    @property
    def room(self) -> float:
        """No end: what is beyond the memory Spark keeps on its disks."""
        return math.inf

    def close(self) -> None:
        """Forget the tables; a second call does nothing. A local Spark stays for the next one."""
        with self._lock, quietly():
            tables, self._views, self._closed = self._views, {}, True
            for table in tables.values() if not ended(self._spark) else ():
                self._spark.catalog.dropTempView(table.view)

    @property
    def _tables(self) -> Mapping[str, NamedTable]:
        return self._views

    def _begin(self) -> _SparkQuery:
        with self._lock:
            number = next(self._numbers)
            return _SparkQuery(self._spark, self._views, number=number, timeout=self._timeout)
