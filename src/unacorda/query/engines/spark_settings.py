"""Settings of Spark on which the meaning of a statement rests.

A session of the engine starts with what the caller gave to Spark as a whole. All of `spark.sql`
goes back to Spark's defaults but for a closed list that says how fast and where to compute, and
what changes an answer, or lets a value end a question, is set.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from unacorda.errors import InvalidParameter

__all__ = ["SETTINGS", "WHY", "pin"]

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
    for name in _names(spark, known):
        kept = name.startswith(_OF_THE_CALLER)
        if not kept and name.startswith("spark.sql.") and spark.conf.isModifiable(name):
            spark.conf.unset(name)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    parts = "spark.sql.shuffle.partitions"
    spark.conf.set(parts, caller.conf.get(parts))


def _names(spark: Any, known: Any) -> list[str]:
    listed = known.getAllConfs()
    return [str(name) for name in spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed)]  # noqa: SLF001


def _check_room(spark: Any) -> None:
    """The number of lines that an answer has may depend on the data: it is not to be a limit."""
    name = "spark.driver.maxResultSize"
    written = spark.sparkContext.getConf().get(name, "1g")
    java = spark._jvm.org.apache.spark.network.util.JavaUtils  # noqa: SLF001
    if 0 < java.byteStringAsBytes(written) < _LEAST_RESULT:
        raise InvalidParameter(name, written, expected="at least '1g', or '0' for no limit")
