"""The embedded engine: DuckDB, closed to the outside before the first question; public tables.

Everything the engine raises while it answers leaves as one `EngineFailed` of constant text, since
its own text may show a row. Counts and sums leave as integers; rows never do.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import contextlib
import glob
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb

from unacorda import checks
from unacorda.errors import InvalidParameter, SourceUnreadable
from unacorda.query.engines.compile import KeyCountSql, Statement
from unacorda.query.engines.engine import (
    Engine,
    EngineQuery,
    KeyedRows,
    Tallies,
    find_keys,
    list_keys,
    opening,
    tallied,
)
from unacorda.query.engines.frames import (
    PARQUET_OPTIONS,
    columns_of,
    parquet_columns,
    parquet_type,
    scanned,
)
from unacorda.query.expressions.language import Column, Expression, identifier, literal, twin
from unacorda.query.plan.query import Query
from unacorda.query.schema.sources import (
    CsvFile,
    DatabaseTable,
    Fingerprint,
    Frame,
    Opened,
    Parquet,
    locate,
    note_delimiter,
)

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([MGTmgt])i?[Bb]")
_UNITS = {"M": 1, "G": 1_000, "T": 1_000_000}
_LEAST_MEMORY = 10  # megabytes; the engine does not start with much less
_KEPT = 3
"""Of the memory, one part of so many is for kept rows, and one for those that are made of them."""
_SPILLED, _ROOM = 16, 16e9
"""What is spilled to disk is at most so many times the memory, and this many bytes in any case."""


class _DuckDBQuery(EngineQuery):
    """The relations of one question: temporary tables of a cursor, or what WITH names."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, *, timeout: float | None) -> None:
        super().__init__(timeout=timeout, interrupt=cursor.interrupt)
        self._cursor = cursor
        self._named: dict[str, str] = {}

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        if keep or lists:
            made = f"CREATE OR REPLACE TEMP TABLE {name} AS {self._before}{sql}"
            self._cursor.execute(made, list(lists))
        else:
            self._named[name] = sql

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._cursor.execute(
            self._before + sql, list(lists)
        ).fetchnumpy()
        return found

    def rows(
        self, sql: str, lists: Sequence[Sequence[object]] = (), *, public: bool = False
    ) -> list[tuple[Any, ...]]:
        del public
        return self._cursor.execute(self._before + sql, list(lists)).fetchall()

    def forget(self, name: str) -> None:
        if self._named.pop(name, None) is None:
            self._cursor.execute(f"DROP TABLE temp.{name}")

    def close(self) -> None:
        self._cursor.close()

    @property
    def _before(self) -> str:
        named = ", ".join(f"{name} AS ({sql})" for name, sql in self._named.items())
        return f"WITH {named} " if named else ""


class DuckDB(Engine):
    """Tables in DuckDB, in this process.

    tables: names to sources. memory_limit: of the engine, as DuckDB writes it (with the default
    the process stays below 2 GB); beyond it the engine spills, encrypted, into a private folder
    that is removed at the end. threads: None for all cores. timeout: seconds of one call.

    Raises InvalidParameter, SourceUnreadable; reads schemas only, but copies frames.
    """

    narrow = True

    def __init__(
        self,
        tables: Mapping[str, Any],
        *,
        memory_limit: str = "1.5GB",
        threads: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(timeout=timeout)
        sources = {name: locate(name, source) for name, source in tables.items()}
        for name, found in sources.items():
            note_delimiter(tables[name], found)
        self._folder = tempfile.mkdtemp(prefix="unacorda-")  # mode 0700
        self._process = os.getpid()
        self._remove = weakref.finalize(self, _remove, self._folder, self._process)
        self._room = 0.0
        self._connection = duckdb.connect(":memory:")
        named = [repr(one) for one in sources.values() if not isinstance(one, Frame)]
        self.identity = f"duckdb {duckdb.__version__}", *named
        try:
            self._configure(memory_limit=memory_limit, threads=threads)
            for number, (name, source) in enumerate(sources.items()):
                self._open(name, source, number)
            self._lock_down()
        except BaseException:
            self.close()
            raise

    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Nothing is refused: statements are written for this engine."""

    @property
    def room(self) -> float:
        """How many numbers of rows may be kept while as many more are computed; 0 where none."""
        return self._room

    def _begin(self) -> _DuckDBQuery:
        with self._lock:
            return _DuckDBQuery(self._connection.cursor(), timeout=self._timeout)

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if os.getpid() == self._process:  # its threads did not follow into a forked child
                self._connection.close()
            self._remove()

    def _configure(self, *, memory_limit: str, threads: int | None) -> None:
        limit, size = _memory(memory_limit)
        options = {
            "TimeZone": "'UTC'",
            "temp_directory": literal(self._folder),
            "temp_file_encryption": "true",
            # Without the extension httpfs, which is not in the package, the engine refuses to
            # encrypt (and so to spill), because it does not vouch for its generator of keys. The
            # folder is private in any case.
            "force_mbedtls_unsafe": "'true'",
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "preserve_insertion_order": "false",
            # It lets a reader of CSV convert, which leaves lines out where a value does not.
            "disabled_optimizers": "'type_pushdown'",
            "memory_limit": literal(limit),
            "max_temp_directory_size": literal(f"{round(max(_SPILLED * size, _ROOM) / 1e6)}MB"),
        }
        if threads is not None:
            options["threads"] = str(checks.positive_integer(threads=threads))
        self._room = size / _KEPT / 8
        for name, value in options.items():
            # A cursor inherits what is set globally, and nothing else.
            self._connection.execute(f"SET GLOBAL {name} = {value}")

    def _lock_down(self) -> None:
        # The engine asks about a pattern before it asks about the file that matches it.
        names = [name for file in self._files for name in (file.path, glob.escape(file.path))]
        paths = ", ".join(map(literal, dict.fromkeys(names)))
        for setting in (
            f"allowed_paths = [{paths}]",
            f"allowed_directories = [{literal(self._folder + os.sep)}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._connection.execute(f"SET {setting}")

    def _open(self, name: str, source: Opened, number: int) -> None:
        match source:
            case CsvFile(file=file, columns=columns):
                self._files.append(file)
                self._scans[name] = csv_scan(source)
                self.schema[name] = dict.fromkeys(columns, "VARCHAR")
            case Parquet(files=files):
                self._files += files
                self._open_parquet(name, files)
            case DatabaseTable(file=file, table=table):
                self._files.append(file)
                self._attach(name, file.path, table, number)
            case Frame(value=value):
                self._copy(name, value, number)

    def _open_parquet(self, name: str, files: tuple[Fingerprint, ...]) -> None:
        schemas = [self._parquet_types(name, file.path) for file in files]
        if any(schema != schemas[0] for schema in schemas):
            raise SourceUnreadable(
                f"The Parquet files of table {name!r} differ in their columns or types."
            )
        listed = ", ".join(_pattern(file.path) for file in files)
        read = f"read_parquet([{listed}], {PARQUET_OPTIONS})"
        self._scans[name] = scanned(read, schemas[0], parquet=True)
        self.schema[name] = schemas[0]

    def _parquet_types(self, name: str, path: str) -> dict[str, str]:
        """The types of a file's columns, none of which the engine would rename."""
        columns: list[tuple[Any, ...]] = []
        types: dict[str, str] = {}
        with contextlib.suppress(duckdb.Error):
            elements = self._connection.execute(
                "SELECT name, type, CAST(type_length AS BIGINT), num_children, converted_type, "
                f"logical_type FROM parquet_schema({_pattern(path)})"
            ).fetchall()
            columns = parquet_columns(elements)
            read = self._describe(f"read_parquet({_pattern(path)}, {PARQUET_OPTIONS})")
            if len(read) == len(columns):
                pairs = zip(read.items(), columns, strict=True)
                types = {name: parquet_type(sql_type, of) for (name, sql_type), of in pairs}
        if twin([column for column, *_ in columns]) is not None:
            raise SourceUnreadable(
                f"The Parquet file {path!r} of table {name!r} has columns of one name (capitals do "
                "not tell names apart)."
            )
        if not types:
            raise SourceUnreadable(f"The file {path!r} has no readable Parquet footer.")
        return types

    def _attach(self, name: str, path: str, table: str, number: int) -> None:
        catalog = f"file{number}"
        attach = f"ATTACH {literal(path)} AS {catalog} (READ_ONLY)"
        opening(
            lambda: self._connection.execute(attach),
            otherwise=f"The file {path!r} is no DuckDB database that can be opened.",
        )
        schema, _, bare = table.rpartition(".")
        wanted = (schema or "main", bare)
        views = self._connection.execute(
            "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = $1", [catalog]
        ).fetchall()
        tables = self._connection.execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = $1",
            [catalog],
        ).fetchall()
        written = {(schema, table): sql for schema, table, sql in tables}
        expected = None
        if wanted in views:
            expected = (
                "a base table. A view can hide random() or another table: materialise it first "
                "(CREATE TABLE ... AS SELECT * FROM the_view)"
            )
        elif wanted not in written:
            names = ", ".join(f"{s}.{t}" if s != "main" else t for s, t in written) or "none"
            expected = f"a table of that file: {names}"
        elif "GENERATED ALWAYS AS" in written[wanted]:
            expected = (
                "a table without generated columns, which can hide random(): materialise it first "
                "(CREATE TABLE ... AS SELECT * FROM the_table)"
            )
        if expected is not None:
            raise InvalidParameter(f"tables[{name!r}]", f"{path}::{table}", expected=expected)
        table = f"{catalog}.{identifier(wanted[0])}.{identifier(bare)}"
        self.schema[name] = self._describe(table)
        self._scans[name] = scanned(table, self.schema[name])

    def _copy(self, name: str, value: Any, number: int) -> None:
        """Copy a frame into the engine, so that what the caller changes later has no effect."""
        view, table = f"frame{number}", f"copy{number}"

        def copy() -> None:
            frame, columns = columns_of(name, value)
            self._connection.register(view, frame)
            self._connection.execute(f"CREATE TABLE {table} AS SELECT {columns} FROM {view}")
            self._connection.unregister(view)

        opening(
            copy,
            otherwise=f"The frame given for table {name!r} could not be copied into the engine: it "
            "is beyond memory_limit, or a column has a type that the engine does not know (cast "
            "it, or leave the column out).",
        )
        self._scans[name] = f"main.{table}"
        self.schema[name] = self._describe(self._scans[name])

    def _describe(self, scan: str) -> dict[str, str]:
        rows = self._connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        return {row[0]: row[1] for row in rows}


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)


def _pattern(path: str) -> str:
    """The pattern that only this file matches."""
    return literal(glob.escape(path))


def _memory(limit: object) -> tuple[str, float]:
    """A memory limit that the engine can read and open with, and its bytes."""
    found = _SIZE.fullmatch(limit.strip()) if isinstance(limit, str) else None
    megabytes = float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    if found is None or megabytes < _LEAST_MEMORY:
        raise InvalidParameter(
            "memory_limit", limit, expected="a size such as '2GB', at least '10MB'"
        )
    return found[0], megabytes * 1e6


def csv_scan(source: CsvFile) -> str:
    """Read every column as text and never stop: a line that is not readable is left out."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in source.columns)
    quote = literal(source.quote)
    return (
        f"read_csv({_pattern(source.file.path)}, auto_detect=false, header=true, "
        f"columns={{{columns}}}, delim={literal(source.delimiter)}, quote={quote}, "
        f"escape={quote}, ignore_errors=true, strict_mode=false)"
    )


class PublicTables(DuckDB):
    """Tables of which everything is known to everybody: an engine that runs what it is given.

    sources: by name, as a session takes them. Raises InvalidParameter and SourceUnreadable, as
    opening a session does. Close it.
    """

    def tallies(self, statement: Statement) -> Tallies:
        """The exact integers of a question, begun wherever it was; as `run`."""
        return self._asked(lambda asking: tallied(asking, statement))

    def keyed(self, found: KeyCountSql) -> KeyedRows:
        """Rows and the people behind each key; as `find`."""
        return self._asked(lambda asking: find_keys(asking, found, engine=self), stay=True)

    def rows(self, select: str, *, statement: Statement | None = None) -> list[tuple[Any, ...]]:
        """The rows of a SELECT over what `scan` gives; EngineFailed where none are to be had.

        statement: whose bounded rows it may read as `held`.
        """

        def read(asking: EngineQuery) -> list[tuple[Any, ...]]:
            if statement is not None:
                list_keys(asking, statement.keys)
                asking.name("held", statement.bounded)
            return asking.rows(select)

        return self._asked(read)


def read_public_table(
    source: object, choose: Callable[[Sequence[str]], Sequence[str]], *, most: int
) -> list[tuple[Any, ...]]:
    """Read the first rows of a public table; a `PublicTableReader`."""
    with contextlib.closing(PublicTables({"keys": source})) as tables:
        listed = ", ".join(map(identifier, choose(list(tables.schema["keys"]))))
        return tables.rows(f"SELECT {listed} FROM {tables.scan('keys')} LIMIT {most}")


def evaluated(
    columns: Mapping[str, tuple[Column, Sequence[Any]]], expressions: Sequence[Expression]
) -> list[list[Any]]:
    """The values of expressions over columns of equal length, one list for each expression."""
    if not expressions:
        return []
    rows = max((len(values) for _, values in columns.values()), default=0)
    line = "line" + "_" * max((len(column.name) for column, _ in columns.values()), default=0)
    lists = {"lines": list(range(rows))}
    parts = [f"unnest($lines::BIGINT[]) AS {line}"]  # longer than the name of any column
    for number, (column, values) in enumerate(columns.values()):
        lists[f"c{number}"] = list(values)
        parts.append(f"unnest($c{number}::{column.kind.sql_type}[]) AS {identifier(column.name)}")
    asked = ", ".join(expression.sql for expression in expressions)
    with _cursor() as cursor:
        found = cursor.execute(
            f"SELECT {asked} FROM (SELECT {', '.join(parts)}) ORDER BY {line}", lists
        ).fetchall()
    return [list(column) for column in zip(*found, strict=True)] or [[] for _ in expressions]


_opened: list[duckdb.DuckDBPyConnection] = []
_opening = threading.Lock()


def _cursor() -> duckdb.DuckDBPyConnection:
    """One of an empty database of the process, which takes longer to open than to ask."""
    with _opening:
        if not _opened:
            _opened.append(duckdb.connect(":memory:", config={"threads": 1}))
        return _opened[0].cursor()


def _close() -> None:
    while _opened:
        _opened.pop().close()


def _before_fork() -> None:
    _opening.acquire()
    _close()  # a child that inherits an open database ends in an abort


os.register_at_fork(
    before=_before_fork, after_in_parent=_opening.release, after_in_child=_opening.release
)
atexit.register(_close)
