"""Tables of Spark: what may be opened, and how files are read.

**Parquet**: every column is read as the numbers or bytes that the file holds. Spark's own
conversions stop at a value: instants in milliseconds that overflow, decimals of more digits than
declared. So the footers decide how a column is read, and an expression that gives NULL for what
does not fit makes the value. A calendar is never changed, statistics are never used, and no plan of
the caller's that is cached stands for the files.

A frame that is computed anew whenever it is read can give other rows each time (`rand()`, `sample`,
`limit`): only base relations are taken, and of files those of Parquet alone, in a plan that is made
here. How a column is read follows from its type: no value ends an opening or a question.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import urllib.parse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from unacorda.checks import demand
from unacorda.errors import InvalidParameter, SourceUnreadable
from unacorda.query.engines.dialects.spark import quoted
from unacorda.query.engines.dialects.statements import NamedTable
from unacorda.query.engines.duckdb import csv_scan
from unacorda.query.engines.engine import opening
from unacorda.query.engines.frames import copied
from unacorda.query.schema.sources import (
    CsvFile,
    DatabaseTable,
    Fingerprint,
    Frame,
    Parquet,
    locate,
    note_delimiter,
)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings that PySpark gives of versions of pandas and Arrow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Unlogged(logging.Filter):
    """Lets nothing through while this thread runs a question: PySpark logs messages with values."""

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.depths


_UNLOGGED = _Unlogged()


@contextmanager
def unlogged() -> Iterator[None]:
    """Without what PySpark's own loggers write of a failure: its text may show a row."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_UNLOGGED)  # a second time has no effect
    thread, depths = threading.get_ident(), _UNLOGGED.depths
    depths[thread] = depths.get(thread, 0) + 1
    try:
        yield
    finally:
        depths[thread] -= 1
        if not depths[thread]:
            del depths[thread]


def ended(spark: Any) -> bool:
    """Whether a Spark was stopped, or its Java process is gone."""
    with unlogged():
        try:
            context = spark.sparkContext._jsc  # noqa: SLF001  # None once it was stopped
            return context is None or bool(context.sc().isStopped())
        except Exception:  # noqa: BLE001  # no one answers
            return True


_PER_TICK = {"SECONDS": 1_000_000, "MILLIS": 1_000}
_LAST_INSTANT = 2**63 - 1
_FIRST_INSTANT = -9_223_372_022_400_000_000  # 290309-12-22 (BC), as DuckDB's
_FIRST_DAY = -2_147_483_646
_INT_DIGITS, _LONG_DIGITS = 9, 18
_WORD = 18_446_744_073_709_551_616  # 2^64
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER"}
_TEXTS = {"STRING", "ENUM", "JSON"}


class _Read(NamedTuple):
    """How a column is read.

    sql_type: DuckDB's name of its type, public. kind: the type that is computed with, None where
    there is none. sql: the value, where {0} stands for the column. parquet: the type in which Spark
    reads that of a file, in the words of its JSON.
    """

    sql_type: str
    kind: str | None = None
    sql: str = "{0}"
    parquet: str = ""


_Columns = dict[str, _Read]

_PLAIN = {
    "BOOLEAN": _Read("BOOLEAN", "BOOLEAN", parquet="boolean"),
    "FLOAT": _Read("FLOAT", "DOUBLE", "CAST({0} AS DOUBLE)", "float"),
    "DOUBLE": _Read("DOUBLE", "DOUBLE", parquet="double"),
    "INT32": _Read("INTEGER", "BIGINT", "CAST({0} AS BIGINT)", "integer"),
    "INT64": _Read("BIGINT", "BIGINT", parquet="long"),
    "INT96": _Read("TIMESTAMP", "TIMESTAMP", "CAST({0} AS TIMESTAMP_NTZ)", "timestamp"),
}


def _stored_columns(spark: Any, table: str, uris: Sequence[str]) -> _Columns:
    """The columns of Parquet files, by their footers.

    Raises SourceUnreadable where the files do not have the same columns in the same physical and
    logical types, or a name twice.
    """
    known = {}
    for uri in uris:
        schema = _footer(spark, uri)
        written = str(schema.toString()).partition("{")[2]
        if written not in known:
            known[written] = [
                (str(field.getName()), _stored(field)) for field in schema.getFields()
            ]
    columns, *others = known.values()
    if any(other != columns for other in others):
        raise SourceUnreadable(
            f"The Parquet files of table {table!r} differ in their columns or types."
        )
    if len(dict(columns)) < len(columns):
        raise SourceUnreadable(f"A Parquet file of table {table!r} has two columns of one name.")
    return dict(columns)


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


def _stored(field: Any) -> _Read:
    """How a column of a Parquet file is read."""
    if not field.isPrimitive() or field.getRepetition().name() == "REPEATED":
        return _Read("STRUCT[]")
    stored = field.asPrimitiveType()
    annotation = stored.getLogicalTypeAnnotation()
    logical = "" if annotation is None else str(annotation.toString())
    return _parquet(str(stored.getPrimitiveTypeName().name()), logical)


def _parquet(physical: str, logical: str) -> _Read:
    label, facts = logical.partition("(")[0], re.findall(r"\w+", logical.partition("(")[2])
    match physical, label:
        case _, "" if physical in _PLAIN:
            return _PLAIN[physical]
        case "INT32" | "INT64", "INTEGER":
            bits, signed = int(facts[0]), facts[1] == "true"
            return _integer(physical, bits, signed=signed)
        case "INT32", "DATE":
            return _Read("DATE", "DATE", _days("{0}"), "integer")
        case "INT64", "TIMESTAMP":
            return _Read("TIMESTAMP", "TIMESTAMP", _instants("{0}", unit=facts[0]), "long")
        case "INT32" | "INT64" | "BINARY" | "FIXED_LEN_BYTE_ARRAY", "DECIMAL":
            return _decimal(physical, int(facts[0]), int(facts[1]))
        case "BINARY", _ if label in _TEXTS:
            return _Read("VARCHAR", "TEXT", "try_validate_utf8({0})", "string")
        case _:
            return _Read(f"{label or physical}[]")


def _integer(physical: str, bits: int, *, signed: bool) -> _Read:
    if physical == "INT64":
        if bits != 64:  # no such type
            return _Read(f"INTEGER({bits})[]")
        return _PLAIN["INT64"] if signed else _Read("UBIGINT", "WIDE", parquet="decimal(20,0)")
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    read = "integer" if signed or bits < 32 else "long"
    within = f"(CASE WHEN {{0}} BETWEEN {least} AND {most} THEN CAST({{0}} AS BIGINT) END)"
    return _Read(("" if signed else "U") + _INTEGERS[bits], "BIGINT", within, read)


def _instants(ticks: str, *, unit: str) -> str:
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


def _days(counted: str) -> str:
    """SQL of dates that are counted since 1970; NULL before the first of DuckDB."""
    return f"date_from_unix_date(CASE WHEN {counted} >= {_FIRST_DAY} THEN {counted} END)"


def _decimal(physical: str, digits: int, scale: int) -> _Read:
    named = f"DECIMAL({digits},{scale})"
    kind = "WIDE" if scale == 0 and digits > _LONG_DIGITS else "DECIMAL"
    in_bytes = not physical.startswith("INT")
    if digits > (38 if in_bytes else _LONG_DIGITS):  # beyond what either engine has
        return _Read(f"{named}[]")
    if in_bytes:
        whole, read = _of_bytes("{0}"), "binary"
        value = f"concat(CAST({whole} AS STRING), 'E-{scale}')" if scale else whole
    elif physical == "INT64" and digits <= _INT_DIGITS:
        # Spark holds these in 32 bits, and fails at its own dictionary for a longer number.
        value, read = "{0}", f"decimal(38,{scale})"
    else:
        unit = f"1E-{scale}BD" if scale else "1BD"
        value, read = f"CAST({{0}} AS DECIMAL(19,0)) * {unit}", _PLAIN[physical].parquet
    return _Read(named, kind, f"try_cast({value} AS {named})", read)


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


def _relation(spark: Any, uris: Sequence[str], columns: _Columns, *, partitions: Any = None) -> Any:
    """Files as a frame of what is read of them, which nothing that is cached stands for.

    partitions: the partitions of Spark's own file index, None where there are none.
    """
    jvm = spark._jvm  # noqa: SLF001
    sources = jvm.org.apache.spark.sql.execution.datasources
    utilities, none = jvm.PythonUtils, jvm.scala.Option.empty()
    fields = [
        {"name": name, "type": one.parquet, "nullable": True, "metadata": {}}
        for name, one in columns.items()
        if one.kind is not None
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
        getattr(getattr(sources, "NoopCache$"), "MODULE$"),
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


_MATERIALISE = (
    "It could give other rows each time it is read: materialise it first (frame.write.parquet(...) "
    "and its path, or frame.localCheckpoint())"
)
_REWRITE = (
    "files of Parquet: other readers stop at a value, or can be made to. Write them anew "
    "(frame.write.parquet(...)), or give the path of a single CSV file"
)
_HELD = {
    "tinyint": _Read("TINYINT", "BIGINT", "CAST({0} AS BIGINT)"),
    "smallint": _Read("SMALLINT", "BIGINT", "CAST({0} AS BIGINT)"),
    "int": _Read("INTEGER", "BIGINT", "CAST({0} AS BIGINT)"),
    "bigint": _Read("BIGINT", "BIGINT", "CAST({0} AS BIGINT)"),
    "float": _Read("FLOAT", "DOUBLE", "CAST({0} AS DOUBLE)"),
    "double": _Read("DOUBLE", "DOUBLE", "CAST({0} AS DOUBLE)"),
    "boolean": _Read("BOOLEAN", "BOOLEAN"),
    "date": _Read("DATE", "DATE"),
    "timestamp": _Read("TIMESTAMP", "TIMESTAMP", "CAST({0} AS TIMESTAMP_NTZ)"),
    "timestamp_ntz": _Read("TIMESTAMP", "TIMESTAMP", "CAST({0} AS TIMESTAMP_NTZ)"),
}
"""By Spark's name of a type."""
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


class SparkTable(NamedTuple):
    """A table as a view. schema: DuckDB's types by column; files: the local ones behind it."""

    table: NamedTable
    schema: dict[str, str]
    files: tuple[Fingerprint, ...]


def opened(spark: Any, name: str, source: Any, *, caller: Any, view: str) -> SparkTable:
    """Register what the caller wrote for a table as a view of this session.

    caller: the session whose tables are meant by names.

    Raises InvalidParameter, SourceUnreadable, without the engine's own words.
    """

    def register() -> SparkTable:
        with quietly(), unlogged():
            return _registered(*_frame(spark, name, source, caller), view)

    failed = f"The source given for table {name!r} could not be opened by Spark."
    return opening(register, otherwise=failed)


_Found = tuple[Any, _Columns, tuple[Fingerprint, ...]]


def _frame(spark: Any, name: str, source: Any, caller: Any) -> _Found:
    """The source as a frame of this session, how its columns are read, and its local files."""
    if type(source).__module__.startswith("pyspark."):
        return _own_frame(spark, name, source)
    if isinstance(source, str) and _is_table_name(source):
        expected = "a table of Spark's catalogue, or a path ending in .csv, .tsv or .parquet"
        demand(caller.catalog.tableExists(source), f"tables[{name!r}]", source, expected=expected)
        return _own_frame(spark, name, caller.table(source))
    located = locate(name, source)
    note_delimiter(source, located)
    match located:
        case CsvFile(file=file):
            return *_copied(spark, _parsed(located)), (file,)
        case Parquet(files=files):
            uris = [Path(file.path).as_uri() for file in files]
            columns = _stored_columns(spark, name, uris)
            return _relation(spark, uris, columns), columns, files
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
    argument, whole = f"tables[{name!r}]", hasattr(frame, "_jdf") and hasattr(frame, "toArrow")
    expected = "a Spark DataFrame, not one of Spark Connect"
    demand(whole, argument, type(frame), expected=expected)
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    base, unfit = _base(plan)
    expected = f"a table as it is stored. {_MATERIALISE}"
    demand(not unfit, argument, f"a DataFrame made by {unfit}", expected=expected)
    if base.getClass().getSimpleName() != "LogicalRelation":
        moved = _moved(spark, plan, base)
        return moved, _held_columns(moved), ()
    return _files(spark, name, frame, base.relation())


def _files(spark: Any, name: str, frame: Any, stored: Any) -> _Found:
    """A relation of files, read anew: neither a listing nor a cache of the caller's is used."""
    kind = str(stored.fileFormat().getClass().getName())
    read = kind == "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
    reader = f"a table read by {kind.rpartition('.')[2].removesuffix('$')}"
    demand(read, f"tables[{name!r}]", reader, expected=_REWRITE)
    index = stored.location()
    if index.getClass().getSimpleName() == "CatalogFileIndex":
        index = index.filterPartitions(spark._jvm.PythonUtils.toSeq([]))  # noqa: SLF001
    uris = sorted({str(uri) for uri in index.inputFiles()})
    if not uris:
        empty = spark.createDataFrame([], frame.schema)
        return empty, _held_columns(empty), ()
    local = [url for url in map(urllib.parse.urlparse, uris) if url.scheme in ("", "file")]
    files = tuple(Fingerprint.of(urllib.parse.unquote(url.path)) for url in local)
    columns = _stored_columns(spark, name, uris)
    partitions = index.partitionSpec()
    read = _relation(spark, uris, columns, partitions=partitions)
    if placed := partitions.partitionColumns().size():
        columns |= dict(list(_held_columns(read).items())[-placed:])
    missing = [column for column in frame.columns if column not in columns]
    if missing:
        raise SourceUnreadable(
            f"The Parquet files of table {name!r} lack columns that the table has: "
            f"{', '.join(map(repr, missing))}."
        )
    return read, {column: columns[column] for column in frame.columns}, files


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


def _parsed(source: CsvFile) -> Any:
    """A CSV file as text, by DuckDB: Spark's reader stops at a line of very many fields."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET temp_directory = ''")  # nothing of it is written to disk
        return connection.sql(f"SELECT * FROM {csv_scan(source)}").to_arrow_table()


def _copied(spark: Any, table: Any) -> tuple[Any, _Columns]:
    """An Arrow table, copied: instants and dates as the numbers that count them."""
    import pyarrow as pa

    sent, columns = {}, {}
    for name in table.column_names:
        values, columns[name] = _sent(table.column(name))
        if columns[name].kind is not None:
            sent[name] = values
    if not sent:
        sent = {"nothing": pa.nulls(table.num_rows, pa.int8())}
    return spark.createDataFrame(pa.table(sent)), columns


def _sent(values: Any) -> tuple[Any, _Read]:
    """An Arrow column in a type that Spark has, and how it is read."""
    import pyarrow as pa

    kind, types = values.type, pa.types
    if types.is_null(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return values.cast(pa.string()), _held("string")
    if types.is_timestamp(kind):
        sql = _instants("{0}", unit=_ARROW_UNITS[kind.unit])
        return values.cast(pa.int64()), _Read("TIMESTAMP", "TIMESTAMP", sql)
    if types.is_date32(kind):
        return values.cast(pa.int32()), _Read("DATE", "DATE", _days("{0}"))
    if types.is_decimal128(kind):
        return values, _held(f"decimal({kind.precision},{kind.scale})")
    if types.is_uint64(kind):
        return values.cast(pa.decimal128(20, 0)), _held("decimal(20,0)")
    if types.is_unsigned_integer(kind):
        return values.cast(pa.int64()), _held("bigint")
    return values, _held(_ARROW_TYPES.get(str(kind), f"{kind}[]"))


def _registered(
    frame: Any, columns: _Columns, files: tuple[Fingerprint, ...], view: str
) -> SparkTable:
    """A view in which every column has one of the few types that questions are asked in."""
    kinds = {name: one.kind for name, one in columns.items() if one.kind is not None}
    parts = [f"{columns[name].sql.format(quoted(name))} AS {quoted(name)}" for name in kinds]
    frame.selectExpr(*(parts or ["1 AS nothing"])).createOrReplaceTempView(view)
    schema = {name: one.sql_type for name, one in columns.items()}
    return SparkTable(table=NamedTable(view=view, columns=kinds), schema=schema, files=files)


def _held_columns(frame: Any) -> _Columns:
    """How columns are read that Spark holds in types of its own."""
    return {field.name: _held(field.dataType.simpleString()) for field in frame.schema.fields}


def _held(kind: str) -> _Read:
    if kind in _HELD:
        return _HELD[kind]
    if kind.startswith("decimal"):
        digits, scale = (int(part) for part in kind[8:-1].split(","))
        most = f"{10**digits - 1}E-{scale}BD"
        within = f"(CASE WHEN {{0}} BETWEEN -{most} AND {most} THEN {{0}} END)"
        wide = scale == 0 and digits > _LONG_DIGITS
        return _Read(kind.upper(), "WIDE" if wide else "DECIMAL", within)
    if kind.startswith(("string", "varchar", "char")):
        # By code point; what is not UTF-8 is NULL.
        plain = "CAST({0} AS STRING)" if kind == "string" else "collate({0}, 'UTF8_BINARY')"
        return _Read("VARCHAR", "TEXT", f"try_validate_utf8({plain})")
    return _Read(kind.upper().removesuffix("[]") + "[]")
