"""Sources of tables: files, database tables and data frames, before any row is read; public tables.

Public tables are joined to, never protected; what is in them may be read and shown. From one a
question may take the range of a number, the values of a column as keys, and how many rows share a
key. None of it depends on anyone whom a session protects.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import csv
import dataclasses
import glob
import gzip
import math
import os
import stat
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, Final, final

from unacorda import checks
from unacorda.errors import InvalidParameter, SourceChanged, SourceUnreadable
from unacorda.query.expressions.language import Column, Kind, double, identifier
from unacorda.query.schema.keys import MOST_KEYS, plain_key, typed_keys
from unacorda.query.schema.table import Categories, ColumnReading, Fact, TableSchema

_LONGEST_HEADER = 1 << 20
_FRAMES = {"pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame", "pyarrow.Table"}
_DELIMITERS = {".csv": ",", ".txt": ",", ".tsv": "\t"}
_ENDINGS = (*_DELIMITERS, ".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Csv:
    """A CSV file with another delimiter or quote than a comma and a double quote.

    Parameters
    ----------
    path
        Where the file is.
    delimiter, quote
        One ASCII character each; they must differ.

    Raises
    ------
    InvalidParameter
        For values that are not such characters.

    Examples
    --------
    >>> Csv("visits.csv", delimiter=";").quote
    '"'
    """

    path: str | os.PathLike[str]
    delimiter: str = ","
    quote: str = '"'

    def __post_init__(self) -> None:
        for name, sign in (("delimiter", self.delimiter), ("quote", self.quote)):
            single = checks.is_text(sign) and len(sign) == 1 and sign.isascii()
            fits = single and sign not in "\r\n\0"
            checks.demand(fits, name, sign, expected="one ASCII character")
        expected = "another sign than the delimiter"
        checks.demand(self.delimiter != self.quote, "quote", self.quote, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The identity of a file without reading it: path, size, time, inode."""

    path: str
    size: int
    modified: int
    inode: int

    @staticmethod
    def of(path: str) -> Fingerprint:
        """The fingerprint of an existing file; SourceUnreadable if it is missing."""
        try:
            found = os.stat(path)
            size, modified, inode = found.st_size, found.st_mtime_ns, found.st_ino
            if stat.S_ISREG(found.st_mode):  # opening a pipe would wait for its writer
                with open(path, "rb"):
                    return Fingerprint(path=path, size=size, modified=modified, inode=inode)
            reason = "it is no regular file"
        except (OSError, ValueError) as error:  # ValueError: U+0000 in the name
            reason = getattr(error, "strerror", None) or "it cannot be opened"
        raise SourceUnreadable(f"The file {path!r} cannot be read: {reason}.")

    def check(self) -> None:
        """Raise SourceChanged if the file is gone or was replaced."""
        try:
            same = Fingerprint.of(self.path) == self
        except SourceUnreadable:
            same = False
        if not same:
            raise SourceChanged(
                f"The file {self.path!r} was changed, replaced or removed after the session opened "
                "it. A session's data is fixed: open a new session on the new file."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile:
    """A CSV file whose header has been read: every column is text."""

    file: Fingerprint
    columns: tuple[str, ...]
    delimiter: str
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parquet:
    """One or more Parquet files with one schema, in sorted order."""

    files: tuple[Fingerprint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTable:
    """A base table of a DuckDB file."""

    file: Fingerprint
    table: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frame:
    """Columns in memory: a pandas or polars data frame, an Arrow table; copied when opened."""

    value: Any

    def __repr__(self) -> str:
        return f"Frame({type(self.value).__name__})"


Opened = CsvFile | Parquet | DatabaseTable | Frame


def is_table(value: object) -> bool:
    """Whether a value that may also be a list is a whole table: a file or a data frame.

    >>> is_table("counties.csv"), is_table(["A", "B"]), is_table("A")
    (True, False, False)
    """
    if isinstance(value, str):
        return "::" in value or value.lower().removesuffix(".gz").endswith(_ENDINGS)
    if isinstance(value, Csv | os.PathLike):
        return True
    kind = _kind(value)
    return kind in _FRAMES or (kind.startswith("ibis.") and hasattr(value, "to_pyarrow"))


def without_tables(scope: TableSchema, columns: Mapping[str, str], keys: Any) -> Any:
    """The keys of `group_by`, where public tables stand replaced by the lists that they hold.

    columns: by its name in a table the column to group by.
    """
    if isinstance(keys, Mapping):
        return {
            name: _keys_of_table(scope, {name: columns[name]}, values, argument=f"keys[{name!r}]")
            if name in columns and is_table(values)
            else values
            for name, values in keys.items()
        }
    listed = keys is None or not is_table(keys)
    return keys if listed else _keys_of_table(scope, columns, keys, argument="keys")


def _keys_of_table(
    scope: TableSchema, columns: Mapping[str, str], source: object, *, argument: str
) -> list[Any]:
    """The lines of a public table as keys: tuples, or single values where there is one column.

    columns: by its name in the table (capitals do not matter) the column to group by; others are
    not looked at. Text is read as what the column to group by holds, as in `typed_keys`. Raises
    InvalidParameter for a missing column, no lines, too many, a key twice and missing values.
    """
    if scope.read_public is None:
        raise InvalidParameter(argument, source, expected="lists of keys, outside a session")
    found: list[str] = []

    def choose(names: Sequence[str]) -> Sequence[str]:
        known = {name.casefold(): name for name in reversed(names)}
        table = f"a table with the columns {', '.join(names)}"
        for name in columns:
            expected = f"one with the column {name!r}, as every column of group_by"
            checks.demand(name.casefold() in known, argument, table, expected=expected)
            found.append(known[name.casefold()])
        return found

    rows = scope.read_public(source, choose, most=MOST_KEYS + 1)
    checks.demand(rows, argument, "a table without lines", expected="at least one key")
    few = len(rows) <= MOST_KEYS
    checks.demand(few, argument, "a longer table", expected=f"at most {MOST_KEYS:,} lines")
    values = []
    for name, group, column in zip(found, columns.values(), zip(*rows, strict=True), strict=True):
        expected = (
            "a value in every line: leave such lines out, or list the keys, in which None stands "
            "for rows without a value"
        )
        line, place = f"a line without {name!r}", f"{argument}, column {name!r}"
        checks.demand(None not in column, argument, line, expected=expected)
        if all(isinstance(value, str) for value in column):
            kinds = {reading.kind for reading in scope.column(group, argument="group_by")}
            values.append(typed_keys(place, column, kinds))
        else:
            values.append([plain_key(place, value) for value in column])
    keys = list(zip(*values, strict=True)) if len(columns) > 1 else values[0]
    if len(set(keys)) < len(keys):
        again = next(key for key, times in Counter(keys).items() if times > 1)
        named = ", ".join(map(identifier, found))
        expected = f"each key in one line of the table: keep {named} alone, each once"
        raise InvalidParameter(argument, again, expected=expected)
    return keys


def locate(name: str, source: object) -> Opened:
    """Find the source that the caller gave for table `name`.

    Raises InvalidParameter for a value that is not a source, and SourceUnreadable for files that
    are missing or have no usable header.
    """
    if isinstance(source, Csv):
        return _csv(os.fspath(source.path), source.delimiter, source.quote)
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if isinstance(source, str):
        return _from_text(name, source)
    listed = source if isinstance(source, list | tuple) else ()
    if listed and all(isinstance(path, str | os.PathLike) for path in listed):
        return _parquet(map(os.fspath, listed))
    kind = _kind(source)
    if kind == "polars.LazyFrame":
        return _computed(name, source.collect)  # type: ignore[attr-defined]  # known by its name
    if kind.startswith("ibis."):
        return _computed(name, source.to_pyarrow)  # type: ignore[attr-defined]  # executed once
    if kind in _FRAMES:
        return Frame(value=source)
    raise InvalidParameter(
        f"tables[{name!r}]",
        type(source),
        expected="a path to .csv, .tsv or .parquet (globs too), 'file.duckdb::table', "
        "unacorda.Csv, or a pandas, polars or Arrow table",
    )


DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}
"""Characters that stand between columns of CSV files, each as it is written in a message."""


def unsplit(found: Opened) -> str | None:
    """The character that may stand between columns of a CSV file whose header is one column."""
    if not isinstance(found, CsvFile) or len(found.columns) != 1:
        return None
    return next((sign for sign in DELIMITERS if sign in found.columns[0]), None)


def note_delimiter(source: object, found: Opened) -> None:
    """Warn where a CSV file seems to have another delimiter; its header is public."""
    sign = unsplit(found)
    if sign is not None:
        path = os.fspath(source.path if isinstance(source, Csv) else source)  # type: ignore[call-overload]
        warnings.warn(
            f"the header of {path!r} is one column, which holds {sign!r}. If that stands between "
            f"columns, give the table as unacorda.Csv({path!r}, delimiter={sign!r}).",
            stacklevel=6,  # of who opens the session
        )


def _kind(source: object) -> str:
    """The library and the name of its type."""
    return f"{type(source).__module__.split('.')[0]}.{type(source).__name__}"


def _computed(name: str, compute: Callable[[], Any]) -> Frame:
    value = None
    with contextlib.suppress(Exception):  # its text may show a value
        value = compute()
    if value is None:
        raise SourceUnreadable(
            f"The lazy table given for {name!r} failed when it was computed. The cause is not "
            "shown, because it may depend on the data. Compute it first and give its result."
        )
    return Frame(value=value)


def _from_text(name: str, text: str) -> Opened:
    if "::" in text:
        path, _, table = text.partition("::")
        checks.demand(table, f"tables[{name!r}]", text, expected="'file.duckdb::table'")
        return DatabaseTable(file=Fingerprint.of(os.path.abspath(path)), table=table)
    plain = text.lower().removesuffix(".gz")
    ending = next((ending for ending in _ENDINGS if plain.endswith(ending)), None)
    expected = "a path ending in .csv, .tsv (also .gz) or .parquet, or 'file.duckdb::table'"
    if ending in _DELIMITERS:
        if os.path.lexists(text) or not glob.has_magic(text):
            return _csv(text, _DELIMITERS[ending], '"')
        expected = "one file: a pattern stands for Parquet files alone"
    elif ending is not None:
        return _parquet([text])
    raise InvalidParameter(f"tables[{name!r}]", text, expected=expected)


def _parquet(patterns: Iterable[str]) -> Parquet:
    paths: list[str] = []
    for pattern in patterns:
        found = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
        if not found:
            raise SourceUnreadable(f"No file matches {pattern!r}.")
        paths += found
    files = tuple(Fingerprint.of(os.path.abspath(path)) for path in dict.fromkeys(paths))
    return Parquet(files=files)


def _csv(path: str, delimiter: str, quote: str) -> CsvFile:
    file = Fingerprint.of(os.path.abspath(path))
    opener = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as stream:
            start = stream.read(_LONGEST_HEADER)
    except (OSError, EOFError):
        start = b""
    columns, fault = _header(start, delimiter, quote)
    lowered = [name.casefold() for name in columns]
    if not fault and "" in lowered:
        fault = f"column {lowered.index('') + 1} has no name"
    if not fault and len(set(lowered)) < len(lowered):
        second = next(n for n, name in enumerate(lowered) if name in lowered[:n])
        fault = f"columns {lowered.index(lowered[second]) + 1} and {second + 1} have the same name"
    if fault:  # no name is shown: without a header they would be somebody's data
        raise SourceUnreadable(
            f"The file {path!r} has no usable header: {fault}. Its first line must name every "
            "column, in UTF-8, each name once (capitals do not tell names apart)."
        )
    return CsvFile(file=file, columns=columns, delimiter=delimiter, quote=quote)


def _header(start: bytes, delimiter: str, quote: str) -> tuple[tuple[str, ...], str]:
    """The names in the first line, and why it is not readable, where it is not."""
    line = start.split(b"\n", 1)[0].split(b"\r", 1)[0]
    if not start:
        return (), "nothing can be read from it"
    if len(line) == _LONGEST_HEADER:
        return (), f"the first line does not end within {_LONGEST_HEADER:,} bytes"
    try:
        text = line.decode("utf-8-sig")
        rows = csv.reader([text], delimiter=delimiter, quotechar=quote, strict=True)
        names = tuple(name.strip() for name in next(rows, []))
    except UnicodeDecodeError:
        return (), (
            "the first line is not in UTF-8 (for a file of another encoding give the frame that "
            "pandas.read_csv(path, encoding='cp1252', dtype=str) reads)"
        )
    except csv.Error:
        return (), "a quote in the first line is not closed, or a field of it is too long"
    if "\0" in text:
        return (), "the first line holds U+0000"
    return names, "" if names else "the first line is empty"


# ---- public tables -------------------------------------------------------------------------------


_MOST_VALUES = 10_000  # that are read from a column as keys
_KEYS = {Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """A public table, as a question sees it: what is stated of one that is not at hand.

    scope: what its columns mean, before anything is read from it; ranges: of numbers, by column;
    count: how many rows share a key at most.
    """

    scope: TableSchema
    ranges: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    count: int = 0

    def leaves(self, label: str) -> tuple[ColumnReading, ...]:
        """The readings of a column, numbers with the range that they have there."""
        read = [(leaf, self._range(leaf)) for leaf in self.scope.leaves[label]]
        return tuple(leaf if ends is None else _ranged(leaf, *ends) for leaf, ends in read)

    def fact(self, label: str) -> Fact | None:
        """What was declared of a column, or the values that it has, where they are keys and few."""
        return self.scope.facts.get(label)

    def most(self, keys: Sequence[str]) -> int:
        """The largest number of rows that share a key; keys: SQL, of which none may be NULL."""
        del keys
        return self.count

    def _range(self, leaf: ColumnReading) -> tuple[float, float] | None:
        return self.ranges.get(leaf.label) if leaf.column.kind.numeric else None


_KEY: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSelect:
    """A SELECT over one public table. Only a table that was opened as public makes one."""

    sql: str
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise TypeError("what is read of a public table is selected by that table alone")


def public_sql(asked: object) -> str:
    """The SQL that an engine may run without a charge; TypeError for all that is no such SELECT."""
    if not isinstance(asked, PublicSelect):
        raise TypeError("without a charge an engine reads public tables alone")
    return asked.sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Public):
    """A public table that an engine holds, read where nothing is stated.

    source: as the session was given it; relation: SQL of it; look: runs a SELECT over public
    tables alone. What is found is kept.
    """

    source: object = dataclasses.field(repr=False, compare=False)
    relation: str
    look: Callable[[PublicSelect], Sequence[tuple[Any, ...]]]
    known: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def fact(self, label: str) -> Fact | None:
        """See `Public.fact`."""
        declared, found = self.scope.facts.get(label), self.scope.leaves[label]
        if declared is not None or not found or found[0].column.kind not in _KEYS:
            return declared
        listed = self._asked(f"SELECT DISTINCT {found[0].sql} AS x", f" LIMIT {_MOST_VALUES + 2}")
        values: list[Any] = [value for (value,) in listed if value is not None]
        if found[0].column.kind is Kind.INTEGER:
            values = [int(value) for value in values]
        if not 0 < len(values) <= _MOST_VALUES:
            return None
        with suppress(InvalidParameter), warnings.catch_warnings():  # what no key can be
            warnings.simplefilter("ignore")
            return Categories(sorted(values))
        return None

    def most(self, keys: Sequence[str]) -> int:
        """See `Public.most`."""
        names = [f"j{index}" for index in range(len(keys))]
        selected = ", ".join(f"{sql} AS {name}" for sql, name in zip(keys, names, strict=True))
        present = " AND ".join(f"{name} IS NOT NULL" for name in names)
        ((found,),) = self._asked(
            f"SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM (SELECT {selected}",
            f") WHERE {present} GROUP BY {', '.join(names)})",
        )
        return int(found)

    def _range(self, leaf: ColumnReading) -> tuple[float, float] | None:
        if not leaf.column.kind.numeric or math.isfinite(leaf.column.lower):
            return None
        inner = f"SELECT min(x), max(x) FROM (SELECT {leaf.sql} AS x"
        ((low, high),) = self._asked(inner, ")")
        if low is None:
            return None
        if low == high:  # a range has two ends
            low, high = min(low, 0.0), max(high, 0.0) or float(low == 0)
        return low, high

    def _asked(self, head: str, tail: str) -> Sequence[tuple[Any, ...]]:
        sql = f"{head} FROM {self.relation}{tail}"
        if sql not in self.known:
            self.known[sql] = self.look(PublicSelect(sql=sql, key=_KEY))
        found: Sequence[tuple[Any, ...]] = self.known[sql]
        return found


def _ranged(leaf: ColumnReading, lower: float, upper: float) -> ColumnReading:
    """The reading of a number, clamped to a range that is known of its column."""
    present, clamped = f"{leaf.sql} IS NOT NULL", f"least({leaf.sql}, {double(upper)})"
    sql = f"CASE WHEN {present} THEN greatest({clamped}, {double(lower)}) END"  # NULL is ignored
    column = leaf.column
    return dataclasses.replace(leaf, sql=sql, column=Column(column.name, column.kind, lower, upper))


def join_key(kind: Kind, sql: str) -> str:
    """SQL of what is compared in a join; NULL meets nothing.

    Numbers are compared as doubles, of which those of 2^53 and more stand for several whole ones:
    they meet nothing.
    """
    return f"CASE WHEN abs({sql}) < 9007199254740992e0 THEN {sql} END" if kind.numeric else sql
