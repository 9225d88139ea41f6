"""Where Spark's tables come from: files, tables of its catalogue, its own frames, and others'.

A frame that is computed anew whenever it is read can give other rows each time (`rand()`, `sample`,
`limit`): only base relations are taken, and of files those of Parquet alone, in a plan that is made
here. How a column is read follows from its type: no value ends an opening or a question.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter, SourceUnreadable, UnacordaError
from unacorda.query.engines.dialects.spark import quoted
from unacorda.query.engines.dialects.statements import Table
from unacorda.query.engines.duckdb import csv_scan
from unacorda.query.engines.frames import copied
from unacorda.query.engines.spark_parquet import (
    Column,
    days,
    decimal_within,
    instants,
    local_uris,
    relation,
    stored_columns,
)
from unacorda.query.engines.spark_quiet import quietly, unlogged
from unacorda.query.schema.sources import (
    CsvFile,
    DatabaseTable,
    Fingerprint,
    Frame,
    Parquet,
    locate,
)

__all__ = ["OpenedTable", "opened"]

_MATERIALISE = (
    "It could give other rows each time it is read: materialise it first (frame.write.parquet(...) "
    "and its path, or frame.localCheckpoint())"
)
_REWRITE = (
    "files of Parquet: other readers stop at a value, or can be told to. Write them anew "
    "(frame.write.parquet(...)), or give the path of a single CSV file"
)
_WHOLE = {"tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT"}
_FLOATS = {"float": "FLOAT", "double": "DOUBLE"}
_PLAIN = {"boolean": "BOOLEAN", "date": "DATE"}
_ARROW_UNITS = {"s": "SECONDS", "ms": "MILLIS", "us": "MICROS", "ns": "NANOS"}
_ARROW_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
}


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
            frame, columns, files = _frame(spark, name, source, caller)
            return _registered(frame, columns, view, files=files)
    except UnacordaError:
        raise
    except Exception:  # noqa: BLE001  # its text may show a value
        failed = f"The source given for table {name!r} could not be opened by Spark."
    raise SourceUnreadable(failed)


_Found = tuple[Any, Sequence[Column], tuple[Fingerprint, ...]]


def _frame(spark: Any, name: str, source: Any, caller: Any) -> _Found:
    """The source as a frame of this session, how its columns are read, and its local files."""
    if type(source).__module__.startswith("pyspark."):
        return _own_frame(spark, name, source)
    if isinstance(source, str) and _is_table_name(source):
        return _catalogue_table(spark, name, source, caller)
    located = locate(name, source)
    match located:
        case CsvFile(file=file):
            return *_copied(spark, _parsed(located)), (file,)
        case Parquet(files=files):
            uris = local_uris(file.path for file in files)
            columns = stored_columns(spark, name, uris)
            return relation(spark, uris, columns), columns, files
        case Frame(value=value):
            return *_copied(spark, copied(name, value)), ()
        case DatabaseTable():
            raise InvalidParameter(
                f"tables[{name!r}]", source, expected="engine='duckdb' for a table of a DuckDB file"
            )


def _is_table_name(text: str) -> bool:
    return re.fullmatch(r"[\w`-]+(\.[\w`-]+){0,2}", text) is not None and not re.search(
        r"\.(csv|tsv|txt|parquet|pq|gz)$", text.lower()
    )


def _own_frame(spark: Any, name: str, frame: Any) -> _Found:
    if not hasattr(frame, "_jdf") or not hasattr(frame, "toArrow"):
        raise InvalidParameter(
            f"tables[{name!r}]", type(frame), expected="a Spark DataFrame, not one of Spark Connect"
        )
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    base, unfit = _base(plan)
    if unfit:
        raise InvalidParameter(
            f"tables[{name!r}]",
            f"a DataFrame made by {unfit}",
            expected=f"a table as it is stored. {_MATERIALISE}",
        )
    if base.getClass().getSimpleName() != "LogicalRelation":
        moved = _moved(spark, plan, base)
        return moved, [_held(field) for field in moved.schema.fields], ()
    return _files(spark, name, frame, base.relation())


def _files(spark: Any, name: str, frame: Any, stored: Any) -> _Found:
    """A relation of files, read anew: neither a listing nor a cache of the caller's is used."""
    kind = str(stored.fileFormat().getClass().getName())
    if kind != "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat":
        raise InvalidParameter(
            f"tables[{name!r}]",
            f"a table read by {kind.rpartition('.')[2].removesuffix('$')}",
            expected=_REWRITE,
        )
    index = stored.location()
    if index.getClass().getSimpleName() == "CatalogFileIndex":
        index = index.filterPartitions(spark._jvm.PythonUtils.toSeq([]))  # noqa: SLF001
    uris = sorted({str(uri) for uri in index.inputFiles()})
    if not uris:
        empty = spark.createDataFrame([], frame.schema)
        return empty, [_held(field) for field in empty.schema.fields], ()
    local = [url for url in map(urllib.parse.urlparse, uris) if url.scheme in ("", "file")]
    files = tuple(Fingerprint.of(urllib.parse.unquote(url.path)) for url in local)
    columns = {column.name: column for column in stored_columns(spark, name, uris)}
    partitions = index.partitionSpec()
    read = relation(spark, uris, tuple(columns.values()), partitions=partitions)
    placed = partitions.partitionColumns().size()
    columns |= {field.name: _held(field) for field in read.schema.fields[-placed:] if placed}
    missing = [column for column in frame.columns if column not in columns]
    if missing:
        raise SourceUnreadable(
            f"The Parquet files of table {name!r} lack columns that the table has: "
            f"{', '.join(map(repr, missing))}."
        )
    return read, [columns[column] for column in frame.columns], files


def _moved(spark: Any, plan: Any, base: Any) -> Any:
    """A plan of another session of the same Spark, in this one, with NULL allowed everywhere.

    A frame may say that it has none where it has some: these would be 0, or end a question.
    """
    from pyspark.sql.classic.dataframe import DataFrame

    jvm, session = spark._jvm, spark._jsparkSession  # noqa: SLF001
    kind = base.getClass().getSimpleName()
    if kind == "Range":
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), spark)
    if kind == "LogicalRDD":
        rows = base.rdd()
    else:
        any_class = jvm.scala.reflect.ClassTag.AnyRef()
        rows = spark.sparkContext._jsc.sc().parallelize(base.data(), 1, any_class)  # noqa: SLF001
    held = session.internalCreateDataFrame(rows, base.schema().asNullable(), False)  # noqa: FBT003
    places = {number: str(place) for place, (number, _) in enumerate(_attributes(base))}
    frame = DataFrame(held, spark).toDF(*places.values())
    return frame.select(*(frame[places[number]].alias(name) for number, name in _attributes(plan)))


def _attributes(plan: Any) -> list[tuple[int, str]]:
    """The number of each column in a plan, by which others speak of it, and its name."""
    output = plan.output()
    columns = [output.apply(place) for place in range(output.size())]
    return [(column.exprId().id(), column.name()) for column in columns]


def _base(plan: Any) -> tuple[Any, str]:
    """The relation behind a plan; else the first step that is none, by Spark's name."""
    kind = str(plan.getClass().getSimpleName())
    match kind:
        case "LocalRelation" | "Range":
            return plan, ""
        case "LogicalRelation":
            inner = str(plan.relation().getClass().getSimpleName())
            return plan, "" if inner == "HadoopFsRelation" else inner
        case "LogicalRDD":
            return plan, "" if plan.rdd().isCheckpointed() else "an RDD"
        case "SubqueryAlias":
            return _base(plan.child())
        case "Project":
            listed = plan.projectList()
            kinds = {listed.apply(i).getClass().getSimpleName() for i in range(listed.size())}
            return _base(plan.child()) if kinds == {"AttributeReference"} else (plan, "Project")
        case _:
            return plan, kind


def _catalogue_table(spark: Any, name: str, table: str, caller: Any) -> _Found:
    if not caller.catalog.tableExists(table):
        raise InvalidParameter(
            f"tables[{name!r}]",
            table,
            expected="a table of Spark's catalogue, or a path ending in .csv, .tsv or .parquet",
        )
    return _own_frame(spark, name, caller.table(table))


def _parsed(source: CsvFile) -> Any:
    """A CSV file as text, by DuckDB: Spark's reader stops at a line of very many fields."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET temp_directory = ''")  # nothing of it is written to disk
        return connection.sql(f"SELECT * FROM {csv_scan(source)}").to_arrow_table()


def _copied(spark: Any, table: Any) -> tuple[Any, list[Column]]:
    """An Arrow table, copied: instants and dates as the numbers that count them."""
    import pyarrow as pa

    sent, columns = {}, []
    for name in table.column_names:
        values, column = _sent(table.column(name), name)
        columns.append(column)
        if column.kind is not None:
            sent[name] = values
    if not sent:
        sent = {"nothing": pa.nulls(table.num_rows, pa.int8())}
    return spark.createDataFrame(pa.table(sent)), columns


def _sent(values: Any, name: str) -> tuple[Any, Column]:
    """An Arrow column in a type that Spark has, and how it is read."""
    import pyarrow as pa

    kind, types, column = values.type, pa.types, quoted(name)
    if types.is_null(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return values.cast(pa.string()), _typed(name, "string")
    if types.is_timestamp(kind):
        sql = instants(column, unit=_ARROW_UNITS[kind.unit])
        read = Column(name=name, sql_type="TIMESTAMP", kind="TIMESTAMP", sql=sql)
        return values.cast(pa.int64()), read
    if types.is_date32(kind):
        read = Column(name=name, sql_type="DATE", kind="DATE", sql=days(column))
        return values.cast(pa.int32()), read
    if types.is_decimal128(kind):
        return values, _typed(name, f"decimal({kind.precision},{kind.scale})")
    if types.is_uint64(kind):
        return values.cast(pa.decimal128(20, 0)), _typed(name, "decimal(20,0)")
    if types.is_unsigned_integer(kind):
        return values.cast(pa.int64()), _typed(name, "bigint")
    return values, _typed(name, _ARROW_TYPES.get(str(kind), f"{kind}[]"))


def _registered(
    frame: Any, columns: Iterable[Column], view: str, *, files: tuple[Fingerprint, ...]
) -> OpenedTable:
    """A view in which every column has one of the few types that questions are asked in."""
    schema, kinds, parts = {}, {}, []
    for column in columns:
        schema[column.name] = column.sql_type
        if column.kind is not None:
            kinds[column.name] = column.kind
            parts.append(f"{column.sql} AS {quoted(column.name)}")
    frame.selectExpr(*(parts or ["1 AS nothing"])).createOrReplaceTempView(view)
    return OpenedTable(table=Table(view=view, columns=kinds), schema=schema, files=files)


def _held(field: Any) -> Column:
    """How a column is read that Spark holds in one of its own types."""
    return _typed(field.name, field.dataType.simpleString())


def _typed(name: str, kind: str) -> Column:
    sql_type, computed, sql = _read(kind, quoted(name))
    return Column(name=name, sql_type=sql_type, kind=computed, sql=sql)


def _read(kind: str, column: str) -> tuple[str, str | None, str]:
    """DuckDB's name of a column's type, the type that is computed with, and SQL that makes it."""
    if kind in _WHOLE:
        return _WHOLE[kind], "BIGINT", f"CAST({column} AS BIGINT)"
    if kind in _FLOATS:
        return _FLOATS[kind], "DOUBLE", f"CAST({column} AS DOUBLE)"
    if kind in _PLAIN:
        return _PLAIN[kind], _PLAIN[kind], column
    if kind.startswith("decimal"):
        digits, scale = (int(part) for part in kind[8:-1].split(","))
        wide = scale == 0 and digits > 18  # not held in 64 bits
        within = decimal_within(column, digits, scale)
        return kind.upper(), "WIDE" if wide else "DECIMAL", within
    if kind.startswith(("string", "varchar", "char")):
        # By code point; what is not UTF-8 is NULL.
        plain = (
            f"CAST({column} AS STRING)" if kind == "string" else f"collate({column}, 'UTF8_BINARY')"
        )
        return "VARCHAR", "TEXT", f"try_validate_utf8({plain})"
    if kind in ("timestamp", "timestamp_ntz"):
        return "TIMESTAMP", "TIMESTAMP", f"CAST({column} AS TIMESTAMP_NTZ)"
    return kind.upper().removesuffix("[]") + "[]", None, column
