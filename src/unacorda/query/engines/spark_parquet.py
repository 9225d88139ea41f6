"""Parquet in Spark: every column is read as the numbers or bytes that the file holds.

Spark's own conversions stop at a value: instants in milliseconds that overflow, decimals of more
digits than declared. So the footers decide how a column is read, and an expression that gives NULL
for what does not fit makes the value. A calendar is never changed, statistics are never used, and
no plan of the caller's that is cached stands for the files.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unacorda.errors import SourceUnreadable
from unacorda.query.engines.dialects.spark import quoted

__all__ = [
    "Column",
    "days",
    "decimal_within",
    "instants",
    "local_uris",
    "relation",
    "stored_columns",
]

_PER_TICK = {"SECONDS": 1_000_000, "MILLIS": 1_000}
_LAST_INSTANT = 2**63 - 1
_FIRST_INSTANT = -9_223_372_022_400_000_000  # 290309-12-22 (BC), as DuckDB's
_FIRST_DAY = -2_147_483_646
_INT_DIGITS, _LONG_DIGITS = 9, 18
_WORD = 18_446_744_073_709_551_616  # 2^64
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER"}
_TEXTS = {"STRING", "ENUM", "JSON"}
_PLAIN = {
    "BOOLEAN": ("BOOLEAN", "boolean", "BOOLEAN", "{0}"),
    "FLOAT": ("FLOAT", "float", "DOUBLE", "CAST({0} AS DOUBLE)"),
    "DOUBLE": ("DOUBLE", "double", "DOUBLE", "{0}"),
    "INT32": ("INTEGER", "integer", "BIGINT", "CAST({0} AS BIGINT)"),
    "INT64": ("BIGINT", "long", "BIGINT", "{0}"),
    "INT96": ("TIMESTAMP", "timestamp", "TIMESTAMP", "CAST({0} AS TIMESTAMP_NTZ)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a column is read.

    name: of the column. sql_type: DuckDB's name of its type, public. read: the type in which Spark
    reads it, in the words of its JSON. kind: the type that is computed with, None where there is
    none. sql: the value, in terms of what is read.
    """

    name: str
    sql_type: str
    read: str = ""
    kind: str | None = None
    sql: str = ""


def stored_columns(spark: Any, table: str, uris: Sequence[str]) -> tuple[Column, ...]:
    """The columns of Parquet files, by their footers.

    Raises SourceUnreadable where the files do not have the same columns in the same physical and
    logical types, or a name twice.
    """
    found: tuple[Column, ...] | None = None
    known: dict[str, tuple[Column, ...]] = {}
    for uri in uris:
        schema = _footer(spark, uri)
        written = str(schema.toString()).partition("{")[2]
        if written not in known:
            known[written] = tuple(_column(field) for field in schema.getFields())
        if found is not None and known[written] != found:
            raise SourceUnreadable(
                f"The Parquet files of table {table!r} differ in their columns or types."
            )
        found = known[written]
    columns = found or ()
    if len({column.name for column in columns}) < len(columns):
        raise SourceUnreadable(f"A Parquet file of table {table!r} has two columns of one name.")
    return columns


def _footer(spark: Any, uri: str) -> Any:
    hadoop = spark._jvm.org.apache.parquet.hadoop  # noqa: SLF001
    settings = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    reader = hadoop.ParquetFileReader.open(
        hadoop.util.HadoopInputFile.fromPath(_path(spark, uri), settings)
    )
    try:
        return reader.getFileMetaData().getSchema()
    finally:
        reader.close()


def _path(spark: Any, uri: str) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(spark._jvm.java.net.URI(uri))  # noqa: SLF001


def local_uris(paths: Iterable[str]) -> list[str]:
    """Local files as Spark names them, signs of patterns and all."""
    return [Path(path).as_uri() for path in paths]


def _column(field: Any) -> Column:
    name = str(field.getName())
    if not field.isPrimitive() or field.getRepetition().name() == "REPEATED":
        return Column(name=name, sql_type="STRUCT[]")
    stored = field.asPrimitiveType()
    physical = str(stored.getPrimitiveTypeName().name())
    annotation = stored.getLogicalTypeAnnotation()
    logical = "" if annotation is None else str(annotation.toString())
    sql_type, read, kind, sql = _reading(physical, logical)
    return Column(name=name, sql_type=sql_type, read=read, kind=kind, sql=sql.format(quoted(name)))


def _reading(physical: str, logical: str) -> tuple[str, str, str | None, str]:
    """DuckDB's type, what Spark reads, the type that is computed with, and SQL for a value."""
    label, facts = logical.partition("(")[0], re.findall(r"\w+", logical.partition("(")[2])
    match physical, label:
        case _, "" if physical in _PLAIN:
            return _PLAIN[physical]
        case "INT32" | "INT64", "INTEGER":
            bits, signed = int(facts[0]), facts[1] == "true"
            return _integer(physical, bits, signed=signed)
        case "INT32", "DATE":
            return "DATE", "integer", "DATE", days("{0}")
        case "INT64", "TIMESTAMP":
            return "TIMESTAMP", "long", "TIMESTAMP", instants("{0}", unit=facts[0])
        case "INT32" | "INT64" | "BINARY" | "FIXED_LEN_BYTE_ARRAY", "DECIMAL":
            return _decimal(physical, int(facts[0]), int(facts[1]))
        case "BINARY", _ if label in _TEXTS:
            return "VARCHAR", "string", "TEXT", "try_validate_utf8({0})"
        case _:
            return f"{label or physical}[]", "", None, ""


def _integer(physical: str, bits: int, *, signed: bool) -> tuple[str, str, str | None, str]:
    if physical == "INT64":
        if bits != 64:  # no such type
            return f"INTEGER({bits})[]", "", None, ""
        return _PLAIN["INT64"] if signed else ("UBIGINT", "decimal(20,0)", "WIDE", "{0}")
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    read = "integer" if signed or bits < 32 else "long"
    within = f"(CASE WHEN {{0}} BETWEEN {least} AND {most} THEN CAST({{0}} AS BIGINT) END)"
    return ("" if signed else "U") + _INTEGERS[bits], read, "BIGINT", within


def instants(ticks: str, *, unit: str) -> str:
    """SQL of instants that are counted since 1970; NULL where microseconds do not hold them."""
    if unit == "NANOS":
        micros = f"({ticks} DIV 1000L)"
    elif unit == "MICROS":
        micros = ticks
    else:
        factor = _PER_TICK[unit]
        most = _LAST_INSTANT // factor
        micros = f"(CASE WHEN {ticks} BETWEEN -{most}L AND {most}L THEN {ticks} * {factor}L END)"
    known = f"transform(array({micros}), n -> CASE WHEN n >= {_FIRST_INSTANT}L THEN n END)[0]"
    return f"CAST(timestamp_micros({known}) AS TIMESTAMP_NTZ)"


def days(counted: str) -> str:
    """SQL of dates that are counted since 1970; NULL before the first of DuckDB."""
    return f"date_from_unix_date(CASE WHEN {counted} >= {_FIRST_DAY} THEN {counted} END)"


def decimal_within(column: str, digits: int, scale: int) -> str:
    """SQL of a decimal in which a value of more digits than its type has is NULL."""
    most = f"{10**digits - 1}E-{scale}BD"
    return f"(CASE WHEN {column} BETWEEN -{most} AND {most} THEN {column} END)"


def _decimal(physical: str, digits: int, scale: int) -> tuple[str, str, str | None, str]:
    named = f"DECIMAL({digits},{scale})"
    kind = "WIDE" if scale == 0 and digits > _LONG_DIGITS else "DECIMAL"
    if digits > 38:  # beyond what either engine has
        return f"{named}[]", "", None, ""
    if physical.startswith("INT"):
        if digits > _LONG_DIGITS:
            return f"{named}[]", "", None, ""
        if physical == "INT64" and digits <= _INT_DIGITS:
            # Spark holds these in 32 bits, and fails at its own dictionary for a longer number.
            return named, f"decimal(38,{scale})", kind, f"try_cast({{0}} AS {named})"
        read = "integer" if physical == "INT32" else "long"
        unit = "1BD" if scale == 0 else f"1E-{scale}BD"
        return named, read, kind, f"try_cast(CAST({{0}} AS DECIMAL(19,0)) * {unit} AS {named})"
    whole = _of_bytes("{0}")
    if scale == 0:
        return named, "binary", kind, f"try_cast({whole} AS {named})"
    text = f"concat(CAST({whole} AS STRING), 'E-{scale}')"
    return named, "binary", kind, f"try_cast({text} AS {named})"


def _of_bytes(column: str) -> str:
    """SQL of the whole number that bytes write in two's complement; NULL beyond 38 digits."""
    negative = "left(b.h, 1) >= '8'"
    fill = f"CASE WHEN {negative} THEN 'F' ELSE '0' END"
    padded = f"lpad(b.h, 32, {fill})"  # lpad also cuts, from the right: only what fits is used
    cut = f"CASE WHEN length(b.h) <= 32 THEN {padded} ELSE right(b.h, 32) END"
    # Bytes in front that say nothing but the sign may be as many as they like.
    more = f"replace(left(b.h, greatest(length(b.h) - 32, 0)), {fill}, '') = ''"
    fits = f"b.h <> '' AND {more} AND (left({cut}, 1) >= '8') = ({negative})"
    split = (
        f"transform(array(named_struct('h', hex({column}))), b -> CASE WHEN {fits} THEN "
        f"named_struct('w', {cut}, 'n', {negative}) END)[0]"
    )
    upper, lower = (f"CAST(conv(substr(s.w, {at}, 16), 16, 10) AS DECIMAL(38,0))" for at in (1, 17))
    # Of a negative number both parts are negative, so that neither is beyond the sum.
    parts = (
        f"CASE WHEN s.n THEN try_add(try_multiply({upper} - {_WORD - 1}BD, {_WORD}BD), "
        f"{lower} - {_WORD}BD) ELSE try_add(try_multiply({upper}, {_WORD}BD), {lower}) END"
    )
    return f"transform(array({split}), s -> {parts})[0]"


def relation(
    spark: Any, uris: Sequence[str], columns: Sequence[Column], *, partitions: Any = None
) -> Any:
    """Files as a frame of what is read of them, which nothing that is cached stands for.

    partitions: the partitions of Spark's own file index, None where there are none.
    """
    jvm = spark._jvm  # noqa: SLF001
    sources = jvm.org.apache.spark.sql.execution.datasources
    utilities, none = jvm.PythonUtils, jvm.scala.Option.empty()
    read = [column for column in columns if column.kind is not None]
    fields = [
        {"name": column.name, "type": column.read, "nullable": True, "metadata": {}}
        for column in read
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    # A cached plan stands for another one that is equal to it, in every session: this one is not.
    options = utilities.toScalaMap(
        {
            "unacorda": secrets.token_hex(16),
            "ignoreCorruptFiles": "false",
            "ignoreMissingFiles": "false",
            "datetimeRebaseMode": "CORRECTED",
            "int96RebaseMode": "CORRECTED",
        }
    )
    session = spark._jsparkSession  # noqa: SLF001
    index = sources.InMemoryFileIndex(
        session,
        utilities.toSeq([_path(spark, uri) for uri in uris]),
        options,
        none,
        _single(sources, "NoopCache"),
        none if partitions is None else jvm.scala.Some(partitions),
        none,
    )
    base = sources.HadoopFsRelation(
        index,
        index.partitionSchema(),
        jvm.org.apache.spark.sql.types.DataType.fromJson(schema),
        none,
        sources.parquet.ParquetFileFormat(),
        options,
        session,
    )
    from pyspark.sql.classic.dataframe import DataFrame

    return DataFrame(session.baseRelationToDataFrame(base), spark)


def _single(package: Any, name: str) -> Any:
    """An object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
