"""Where Spark's tables come from: files, tables of its catalogue, its own frames, and others'.

A frame that is computed anew whenever it is read can give other rows each time (`rand()`, `sample`,
`limit`): only base relations are taken. No reader stops at a row.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter, SourceUnreadable, UnacordaError
from unacorda.query.dialects.spark import quoted
from unacorda.query.dialects.statements import Table
from unacorda.query.engines.frames import copied
from unacorda.query.engines.sources import (
    CsvFile,
    DatabaseTable,
    Fingerprint,
    Frame,
    Parquet,
    locate,
)
from unacorda.query.engines.spark_local import quietly, unlogged

__all__ = ["OpenedTable", "opened"]

_MATERIALISE = (
    "It could give other rows each time it is read: materialise it first (frame.write.parquet(...) "
    "and its path, or frame.localCheckpoint())"
)
_WHOLE = {"tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT"}
_FLOATS = {"float": "FLOAT", "double": "DOUBLE"}
_PLAIN = {"boolean": "BOOLEAN", "date": "DATE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTable:
    """A table as a view. schema: DuckDB's types by column; files: the local ones behind it."""

    table: Table
    schema: dict[str, str]
    files: tuple[Fingerprint, ...]


def opened(spark: Any, name: str, source: Any, *, caller: Any, view: str) -> OpenedTable:
    """Register what the caller wrote for a table as a view of this session.

    caller: the session whose tables are meant by names.

    Raises InvalidParameter, SourceUnreadable, without the engine's own words.
    """
    failed: str | None = None
    try:
        with quietly(), unlogged():
            frame, files, empty = _frame(spark, name, source, caller)
            return _registered(frame, view, files=files, empty_is_null=empty)
    except UnacordaError:
        raise
    except Exception:  # noqa: BLE001  # its text may show a value
        failed = f"The source given for table {name!r} could not be opened by Spark."
    raise SourceUnreadable(failed)


def _frame(
    spark: Any, name: str, source: Any, caller: Any
) -> tuple[Any, tuple[Fingerprint, ...], bool]:
    """The source as a frame of this session, its local files, and whether empty text is NULL."""
    if type(source).__module__.startswith("pyspark."):
        return _own_frame(spark, name, source)
    if isinstance(source, str) and _is_table_name(source):
        return _catalogue_table(spark, name, source, caller)
    located = locate(name, source)
    match located:
        case CsvFile(file=file):
            return _csv(spark, located), (file,), True
        case Parquet(files=files):
            return _parquet(spark, name, files), files, False
        case Frame(value=value):
            return _copied(spark, name, value), (), False
        case DatabaseTable():
            raise InvalidParameter(
                f"tables[{name!r}]", source, expected="engine='duckdb' for a table of a DuckDB file"
            )


def _is_table_name(text: str) -> bool:
    return re.fullmatch(r"[\w`-]+(\.[\w`-]+){0,2}", text) is not None and not re.search(
        r"\.(csv|tsv|txt|parquet|pq|gz)$", text.lower()
    )


def _own_frame(spark: Any, name: str, frame: Any) -> tuple[Any, tuple[Fingerprint, ...], bool]:
    if not hasattr(frame, "_jdf") or not hasattr(frame, "toArrow"):
        raise InvalidParameter(
            f"tables[{name!r}]", type(frame), expected="a Spark DataFrame, not one of Spark Connect"
        )
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    unfit = _unfit(plan)
    if unfit is not None:
        raise InvalidParameter(
            f"tables[{name!r}]",
            f"a DataFrame made by {unfit}",
            expected=f"a table as it is stored. {_MATERIALISE}",
        )
    return _moved(spark, plan), _local_files(frame), False


def _moved(spark: Any, plan: Any) -> Any:
    """A plan of another session of the same Spark, in this one."""
    from pyspark.sql.classic.dataframe import DataFrame

    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)  # noqa: SLF001


def _unfit(plan: Any) -> str | None:
    """The first step of a plan that is no base relation, by Spark's name; None where all are."""
    kind = plan.getClass().getSimpleName()
    match kind:
        case "LocalRelation" | "HiveTableRelation" | "Range":
            return None
        case "LogicalRelation":
            inner = str(plan.relation().getClass().getSimpleName())
            return None if inner == "HadoopFsRelation" else inner
        case "LogicalRDD":
            return None if plan.rdd().isCheckpointed() else "an RDD"
        case "SubqueryAlias":
            return _unfit(plan.child())
        case "Project":
            listed = plan.projectList()
            kinds = {listed.apply(i).getClass().getSimpleName() for i in range(listed.size())}
            return _unfit(plan.child()) if kinds == {"AttributeReference"} else "Project"
        case _:
            return str(kind)


def _local_files(frame: Any) -> tuple[Fingerprint, ...]:
    found = (urllib.parse.urlparse(file) for file in frame.inputFiles())
    paths = [urllib.parse.unquote(url.path) for url in found if url.scheme in ("", "file")]
    return tuple(map(Fingerprint.of, paths))


def _catalogue_table(
    spark: Any, name: str, table: str, caller: Any
) -> tuple[Any, tuple[Fingerprint, ...], bool]:
    if not caller.catalog.tableExists(table):
        raise InvalidParameter(
            f"tables[{name!r}]",
            table,
            expected="a table of Spark's catalogue, or a path ending in .csv, .tsv or .parquet",
        )
    return _own_frame(spark, name, caller.table(table))


def _parquet(spark: Any, name: str, files: Sequence[Fingerprint]) -> Any:
    paths = [_escaped(file.path) for file in files]
    schemas = [spark.read.parquet(path).schema.simpleString() for path in paths]
    if any(schema != schemas[0] for schema in schemas):
        raise SourceUnreadable(
            f"The Parquet files of table {name!r} differ in their columns or types."
        )
    return spark.read.parquet(*paths)


def _csv(spark: Any, source: CsvFile) -> Any:
    """Every column as text, never stopping: a line with another number of fields is left out."""
    schema = ", ".join(f"{quoted(name)} STRING" for name in source.columns)
    reader = spark.read.schema(schema).options(
        header=True,
        sep=source.delimiter,
        quote=source.quote,
        escape=source.quote,
        multiLine=True,
        mode="DROPMALFORMED",
        maxCharsPerColumn=-1,
    )
    return reader.csv(_escaped(source.file.path))


def _escaped(path: str) -> str:
    """A path without the signs of a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _copied(spark: Any, name: str, value: Any) -> Any:
    """A frame of pandas, polars or Arrow, copied."""
    import pyarrow as pa

    table = copied(name, value)
    columns = [_held(column) for column in table.columns]
    return spark.createDataFrame(pa.table(columns, names=table.column_names))


def _held(column: Any) -> Any:
    """An Arrow column in a type that Spark has."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _held(column.cast(kind.value_type))
    if pa.types.is_uint64(kind):
        return column.cast(pa.decimal128(20, 0))
    if pa.types.is_unsigned_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_null(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view":
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    if pa.types.is_date64(kind):
        return column.cast(pa.date32())
    return column


def _registered(
    frame: Any, view: str, *, files: tuple[Fingerprint, ...], empty_is_null: bool
) -> OpenedTable:
    """A view in which every column has one of the few types that questions are asked in."""
    schema, columns, parts = {}, {}, []
    for field in frame.schema.fields:
        schema[field.name], kind, sql = _read(field.dataType.simpleString(), quoted(field.name))
        if kind is None:
            continue
        if empty_is_null and kind == "TEXT":
            sql = f"nullif({sql}, '')"
        columns[field.name] = kind
        parts.append(f"{sql} AS {quoted(field.name)}")
    frame.selectExpr(*(parts or ["1 AS nothing"])).createOrReplaceTempView(view)
    return OpenedTable(table=Table(view=view, columns=columns), schema=schema, files=files)


def _read(kind: str, column: str) -> tuple[str, str | None, str]:
    """DuckDB's name of a column's type, the type that is computed with, and SQL that makes it."""
    if kind in _WHOLE:
        return _WHOLE[kind], "BIGINT", f"CAST({column} AS BIGINT)"
    if kind in _FLOATS:
        return _FLOATS[kind], "DOUBLE", f"CAST({column} AS DOUBLE)"
    if kind in _PLAIN:
        return _PLAIN[kind], _PLAIN[kind], column
    if kind.startswith("decimal"):
        wide = kind.endswith(",0)") and int(kind[8:-3]) > 18
        return kind.upper(), "WIDE" if wide else "DECIMAL", column
    if kind.startswith(("string", "varchar", "char")):
        # By code point; what is not UTF-8 is NULL.
        plain = (
            f"CAST({column} AS STRING)" if kind == "string" else f"collate({column}, 'UTF8_BINARY')"
        )
        return "VARCHAR", "TEXT", f"try_validate_utf8({plain})"
    if kind in ("timestamp", "timestamp_ntz"):
        return "TIMESTAMP", "TIMESTAMP", f"CAST({column} AS TIMESTAMP_NTZ)"
    return kind.upper() + "[]", None, column
