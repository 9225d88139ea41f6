"""What is no table is refused in words that name the argument and the hint."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.query.exact_answers import opened
from tests.query.test_sources import arrow

import unacorda
from unacorda.errors import InvalidParameter, SourceUnreadable, UnacordaError

Maker = Callable[[Path], Any]


def file(name: str, content: bytes) -> Maker:
    def make(folder: Path) -> Any:
        (folder / name).write_bytes(content)
        return str(folder / name)

    return make


def folder_named(name: str) -> Maker:
    def make(folder: Path) -> Any:
        (folder / name).mkdir()
        return str(folder / name)

    return make


def pipe(folder: Path) -> Any:
    os.mkfifo(folder / "pipe.csv")
    return str(folder / "pipe.csv")


def differing(folder: Path) -> Any:
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"id": ["1"]}), folder / "b.parquet")
    return str(folder / "*.parquet")


def cut_parquet(folder: Path) -> Any:
    pq.write_table(arrow(), folder / "whole.parquet")
    return file("cut.parquet", (folder / "whole.parquet").read_bytes()[:-9])(folder)


def in_database(statement: str, table: str) -> Maker:
    def make(folder: Path) -> Any:
        with duckdb.connect(str(folder / "file.duckdb")) as connection:
            connection.execute("CREATE TABLE people AS SELECT 1 AS id")
            connection.execute(statement)
        return f"{folder / 'file.duckdb'}::{table}"

    return make


NO_TABLES: dict[str, tuple[Maker, type[UnacordaError], str]] = {
    "a missing file": (lambda f: f"{f}/no.csv", SourceUnreadable, "No such file"),
    "a missing Parquet file": (lambda f: f"{f}/no.parquet", SourceUnreadable, "No file matches"),
    "a pattern without files": (lambda f: f"{f}/*.parquet", SourceUnreadable, "No file matches"),
    "a pattern of CSV": (lambda f: f"{f}/*.csv", InvalidParameter, "Parquet files alone"),
    "a missing database": (lambda f: f"{f}/no.duckdb::t", SourceUnreadable, "No such file"),
    "a folder": (folder_named("t.csv"), SourceUnreadable, "no regular file"),
    "a Parquet folder": (folder_named("t.parquet"), SourceUnreadable, "no regular file"),
    "a pipe": (pipe, SourceUnreadable, "no regular file"),
    "an empty file": (file("t.csv", b""), SourceUnreadable, "nothing can be read"),
    "an empty first line": (file("t.csv", b"\nid\n1\n"), SourceUnreadable, "first line is empty"),
    "a header in Latin-1": (
        file("t.csv", b"\xe9,x\n"),
        SourceUnreadable,
        "is not in UTF-8",
    ),
    "a header with U+0000": (file("t.csv", b"a\0,x\n"), SourceUnreadable, r"holds U\+0000"),
    "a name twice": (
        file("t.csv", b"id,x,id\n"),
        SourceUnreadable,
        "columns 1 and 3 have",
    ),
    "a name in capitals": (
        file("t.csv", b"id,x,ID\n"),
        SourceUnreadable,
        "columns 1 and 3 have",
    ),
    "a name left out": (
        file("t.csv", b"id,,x\n"),
        SourceUnreadable,
        "column 2 has no name",
    ),
    "an open quote": (file("t.csv", b'"id,x\n1,2\n'), SourceUnreadable, "not closed"),
    "a header without end": (file("t.csv", b"a" * (1 << 20)), SourceUnreadable, "does not end"),
    "no gzip": (file("t.csv.gz", b"id,x\n"), SourceUnreadable, "no usable header"),
    "half a gzip": (file("t.csv.gz", gzip.compress(b"id,x\n")[:9]), SourceUnreadable, "header"),
    "no Parquet": (file("t.parquet", b"PAR1 or not"), SourceUnreadable, "Parquet footer"),
    "an empty Parquet file": (file("t.parquet", b""), SourceUnreadable, "Parquet footer"),
    "a cut Parquet file": (cut_parquet, SourceUnreadable, "Parquet footer"),
    "differing Parquet files": (differing, SourceUnreadable, "differ in their columns"),
    "no database": (
        lambda f: file("t.duckdb", b"not one")(f) + "::t",
        SourceUnreadable,
        "no DuckDB database",
    ),
    "a view": (
        in_database("CREATE VIEW v AS SELECT *, random() FROM people", "v"),
        InvalidParameter,
        "base table.*materialise",
    ),
    "a generated column": (
        in_database("CREATE TABLE g (id INT, r DOUBLE GENERATED ALWAYS AS (random()))", "g"),
        InvalidParameter,
        "generated columns.*materialise",
    ),
    "an unknown table": (
        in_database("SELECT 1", "persons"),
        InvalidParameter,
        "file: people",
    ),
    "a system table": (
        in_database("SELECT 1", "information_schema.tables"),
        InvalidParameter,
        "a table of that file: people",
    ),
    "no table name": (in_database("SELECT 1", ""), InvalidParameter, "file.duckdb::table"),
    "an unknown ending": (file("t.xlsx", b"x"), InvalidParameter, "ending in .csv"),
    "an address": (lambda f: "https://example.org/t.csv", SourceUnreadable, "No such file"),
    "a dictionary": (lambda f: {"id": [1]}, InvalidParameter, "pandas, polars or Arrow"),
    "nothing": (lambda f: None, InvalidParameter, "pandas, polars or Arrow"),
    "an empty list": (lambda f: [], InvalidParameter, "pandas, polars or Arrow"),
    "a series": (lambda f: pd.Series([1]), InvalidParameter, "pandas, polars or Arrow"),
    "a frame without columns": (lambda f: pd.DataFrame(), InvalidParameter, "column names"),
    "numbered columns": (lambda f: pd.DataFrame([[1, 2]]), InvalidParameter, "are text"),
    "two names alike": (
        lambda f: pd.DataFrame([[1, 2]], columns=["id", "Id"]),
        InvalidParameter,
        "more than capitals",
    ),
    "one name twice": (
        lambda f: pa.table([[1], [2]], names=["id", "id"]),
        InvalidParameter,
        "differ",
    ),
    "an empty name": (lambda f: pl.DataFrame({"": [1]}), InvalidParameter, "are text"),
    "a name with U+0000": (lambda f: pl.DataFrame({"a\0": [1]}), InvalidParameter, "are text"),
    "columns in levels": (
        lambda f: pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
        InvalidParameter,
        "are text",
    ),
}


@pytest.mark.parametrize("case", NO_TABLES)
def test_what_is_no_table_is_refused_with_the_mend(case: str, tmp_path: Path) -> None:
    make, kind, words = NO_TABLES[case]
    with pytest.raises(kind, match=words) as caught:
        opened(make(tmp_path))
    assert caught.value.__cause__ is None
    if isinstance(caught.value, InvalidParameter):
        assert caught.value.argument == "tables['t']"


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_header_in_one_column_is_noted_with_its_delimiter(sign: str, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"id{sign}age\n1{sign}30\n")
    options: dict[str, Any] = {"unit": unacorda.Row(), "budget": unacorda.PureDP(1)}
    with pytest.warns(UserWarning, match=r"unacorda\.Csv\(.*, delimiter=") as caught:
        unacorda.Session({"visits": str(path)}, **options).close()
    assert repr(sign) in str(caught[0].message)
    assert caught[0].filename == __file__
    split = unacorda.Csv(str(path), delimiter=sign)
    with unacorda.Session({"visits": split}, **options) as session:
        assert "age" in session.table("visits").rows.scope.names


def test_a_header_in_another_encoding_is_told_how_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes("id,Größe\n1,30\n".encode("cp1252"))
    with pytest.raises(SourceUnreadable, match=r"pandas\.read_csv\(path, encoding='cp1252'"):
        opened(str(path))
