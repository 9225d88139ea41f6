"""The same table through every source gives the same numbers, as long as it stays the same."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import datetime as dt
import gzip
import math
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.query.exact_answers import asked, exact, opened
from tests.support.cases import in_subtests
from tests.support.seams import Session

import unacorda
from unacorda.errors import SourceChanged

ROWS: list[tuple[Any, ...]] = [
    (1, 2.5, "a", dt.date(2024, 1, 31), True),
    (1, -3.25, "b", dt.date(2024, 2, 1), False),
    (2, None, "a", None, None),
    (2, 7.0, 'it\'s "q", so', dt.date(1999, 12, 31), True),
    (3, 1e99, "é😀", dt.date(2024, 1, 31), False),
    (3, -1e99, None, dt.date(2024, 1, 31), True),
    (None, 4.0, "a", dt.date(2024, 1, 31), True),
    (4, 0.125, "two\nlines", dt.date(2030, 6, 1), None),
    (5, math.nan, "b", dt.date(2024, 1, 31), True),
]
NAMES = ["id", "x", "s", "d", "b"]
KEYS = ["b", "a", None, 'it\'s "q", so', "é😀", "two\nlines", "nobody"]


def arrow(rows: list[tuple[Any, ...]] = ROWS) -> pa.Table:
    types = [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.bool_()]
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    return pa.table(
        {
            name: pa.array(list(column), kind)
            for name, column, kind in zip(NAMES, columns, types, strict=True)
        }
    )


def text(rows: list[tuple[Any, ...]] = ROWS, **dialect: Any) -> str:
    folder: list[str] = []

    class Sink:
        def write(self, line: str) -> int:
            folder.append(line)
            return len(line)

    writer = csv.writer(Sink(), **dialect)
    writer.writerow(NAMES)
    writer.writerows([["" if v is None else v for v in row] for row in rows])
    return "".join(folder)


def from_csv(folder: Path) -> Any:
    path = folder / "visits.csv"
    path.write_text(text(), encoding="utf-8", newline="")
    return str(path)


def from_unix_csv_with_mark(folder: Path) -> Any:
    path = folder / "visits.txt"
    path.write_text(text(lineterminator="\n"), encoding="utf-8-sig", newline="")
    return path


def from_gzip(folder: Path) -> Any:
    path = folder / "visits.CSV.gz"
    path.write_bytes(gzip.compress(text().encode()))
    return str(path)


def from_tsv(folder: Path) -> Any:
    path = folder / "visits.tsv"
    path.write_text(text(delimiter="\t"), encoding="utf-8", newline="")
    return str(path)


def from_other_signs(folder: Path) -> Any:
    path = folder / "visits.dat"
    path.write_text(text(delimiter=";", quotechar="'"), encoding="utf-8", newline="")
    return unacorda.Csv(path, delimiter=";", quote="'")


def from_parquet(folder: Path) -> Any:
    pq.write_table(arrow(), folder / "visits.parquet")
    return folder / "visits.parquet"


def from_glob(folder: Path) -> Any:
    pq.write_table(arrow(ROWS[:4]), folder / "part-1.parquet")
    pq.write_table(arrow(ROWS[4:]), folder / "part-2.parquet")
    return str(folder / "part-*.parquet")


def from_files(folder: Path) -> Any:
    """Listed twice a file counts once; the order of columns is without effect."""
    pq.write_table(arrow(ROWS[:4]), folder / "one.pq")
    pq.write_table(arrow(ROWS[4:]).select(NAMES[::-1]), folder / "two.pq")
    return [str(folder / "one.pq"), folder / "two.pq", folder / "one.pq"]


def from_database(folder: Path) -> Any:
    rows = arrow()
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE SCHEMA clinic; CREATE TABLE clinic.visits AS FROM rows")
    return f"{folder / 'visits.duckdb'}::clinic.visits"


def from_pandas(folder: Path) -> Any:
    return pd.DataFrame(ROWS, columns=NAMES, index=[0] * len(ROWS))


def from_objects(folder: Path) -> Any:
    return pd.DataFrame(ROWS, columns=NAMES, dtype=object)


def from_pandas_on_arrow(folder: Path) -> Any:
    return arrow().to_pandas(types_mapper=pd.ArrowDtype)


def from_polars(folder: Path) -> Any:
    return pl.from_arrow(arrow())


def from_lazy(folder: Path) -> Any:
    frame = pl.from_arrow(arrow())
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy()


def from_arrow(folder: Path) -> Any:
    return arrow()


def from_dictionary(folder: Path) -> Any:
    table = arrow()
    return table.set_column(2, "s", table["s"].dictionary_encode())


SOURCES = [
    *(from_csv, from_unix_csv_with_mark, from_gzip, from_tsv, from_other_signs),
    *(from_parquet, from_glob, from_files, from_database),
    *(from_pandas, from_objects, from_pandas_on_arrow, from_polars, from_lazy),
    *(from_arrow, from_dictionary),
]


def clamped(value: float | None) -> Fraction | None:
    if value is None or math.isnan(value):
        return None
    return Fraction(min(max(value, -10.0), 10.0))


@pytest.mark.long
@in_subtests("make", SOURCES, ids=lambda make: make.__name__.removeprefix("from_"))
def test_every_source_gives_the_numbers_of_plain_python(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    facts = {"x": unacorda.Bounds(-10, 10), "d": unacorda.Dates(), "s": unacorda.Text()}
    unit = unacorda.Person("id", max_rows=5)
    with opened(make(tmp_path), unit=unit, columns=facts) as session:
        assert session.spent == unacorda.PureDP(0)
        query = (
            session.table("t")
            .where("d IS NULL OR d <= DATE '2024-12-31'")
            .derive(double="x * 2")
            .group_by("s", keys=KEYS)
            .agg(
                n=unacorda.count(),
                dated=unacorda.count("d"),
                yes=unacorda.count("CASE WHEN b THEN 1 END"),
                people=unacorda.count_people(),
                total=unacorda.sum("x"),
                mean=unacorda.mean("double", -20, 20),
                middle=unacorda.median("x", resolution=0.25),
            )
        )
        found = exact(session, query)
    for at, key in enumerate(KEYS):
        rows = [
            row
            for row in ROWS
            if row[2] == key and row[0] is not None and (not row[3] or row[3].year <= 2024)
        ]
        present = [value for value in (clamped(row[1]) for row in rows) if value is not None]
        assert found["n"][at] == len(rows)
        assert found["dated"][at] == sum(row[3] is not None for row in rows)
        assert found["yes"][at] == sum(row[4] is True for row in rows)
        assert found["people"][at] == len({row[0] for row in rows})
        assert found["total"][at] == sum(present)
        assert found["mean"][at] == (2 * sum(present), len(present))
        bins = [math.floor((value + 10) * 4 + Fraction(1, 2)) for value in present]
        assert found["middle"][at] == {at: bins.count(at) for at in bins}


def test_two_tables_of_one_database_stand_side_by_side(tmp_path: Path) -> None:
    source = from_database(tmp_path)
    tables = {"one": source, "two": source, "three": from_parquet(tmp_path)}
    with Session(tables, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        assert session.tables == ("one", "two", "three")
        for name in tables:
            query = session.table(name).agg(n=unacorda.count())
            assert exact(session, query)["n"] == [len(ROWS)]


@pytest.mark.long
@in_subtests(
    "name", ["data[1]", "da*ta", "da?ta", "a'b", "x\ny", "é😀", "{a,b}", "a\\b", "**", "$HOME", "~"]
)
@in_subtests("ending", [".csv", ".parquet"])
def test_a_name_that_is_a_pattern_names_that_file_alone(
    name: str, ending: str, tmp_path: Path
) -> None:
    for other in ("data1", "daXta", "a", "b", "zzz"):
        (tmp_path / f"{other}{ending}").write_bytes(b"another file")
    path = tmp_path / f"{name}{ending}"
    if ending == ".csv":
        path.write_text("id,x\n1,2\n3,4\n")
    else:
        pq.write_table(pa.table({"id": [1, 3], "x": [2, 4]}), path)
    assert asked(str(path), {"total": unacorda.sum("x", 0, 10)}) == {"total": 6}


def test_a_relative_path_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_csv(tmp_path)
    monkeypatch.chdir(tmp_path)
    with opened("visits.csv") as session:
        monkeypatch.chdir("/")
        query = session.table("t").agg(n=unacorda.count())
        session.evaluate(query, budget=unacorda.PureDP(0.5))
        assert exact(session, query)["n"] == [len(ROWS)]


def test_what_the_caller_does_to_a_frame_later_has_no_effect() -> None:
    values = np.array([1.0, 2.0, 3.0])
    frame = pd.DataFrame({"x": values, "s": ["a", "b", "c"]}, copy=False)
    with opened(frame) as session:
        query = session.table("t").where("s <> 'z'").agg(total=unacorda.sum("x", 0, 10))
        frame.loc[:, "s"] = "z"
        values.flags.writeable = True
        values[:] = 9.0
        assert exact(session, query)["total"] == [6]


def test_opening_leaves_the_callers_frame_as_it_was() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "s": ["a", None]}, index=[5, 5], dtype=object)
    before = frame.copy(deep=True)
    opened(frame).close()
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("change", ["touch", "grow", "replace", "remove"])
@pytest.mark.parametrize("make", [from_csv, from_parquet, from_glob, from_database])
def test_a_source_that_changes_is_refused_before_anything_is_spent(
    make: Callable[[Path], Any], change: str, tmp_path: Path
) -> None:
    source = make(tmp_path)
    with opened(source) as session:
        path = min(p for p in tmp_path.iterdir() if p.is_file())
        alter(path, change)
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(SourceChanged, match="open a new session"):
            session.evaluate(query, budget=unacorda.PureDP(0.5))
        assert session.spent == unacorda.PureDP(0)
        assert "expected error" in str(
            session.explain(query, budget=unacorda.PureDP(0.5), detail=True)
        )


def alter(path: Path, change: str) -> None:
    if change == "touch":
        os.utime(path, ns=(1, 1))
    elif change == "grow":
        with path.open("ab") as stream:
            stream.write(b"\n")
    elif change == "replace":
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        times = path.stat()
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
        copy.replace(path)
    else:
        path.unlink()


@pytest.mark.slow
def test_instants_are_read_in_utc_wherever_the_machine_is(tmp_path: Path) -> None:
    code = """
import pandas as pd, sys
from tests.query.exact_answers import exact, opened
import unacorda
frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-01 23:30Z", "2024-07-01 02:00Z"], utc=True)})
with opened(frame) as session:
    query = session.table("t").derive(h="EXTRACT(HOUR FROM t)").group_by("h", keys=[23, 2])
    print(exact(session, query.agg(n=unacorda.count()))["n"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": "America/New_York", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[1, 1]\n"


def test_a_line_stays_where_a_value_of_it_does_not_convert(tmp_path: Path) -> None:
    """Whatever is asked: a reader that converts by itself would leave the whole line out."""
    path = tmp_path / "t.csv"
    path.write_text("id,x,d\n1,2.5,2024-01-31\n2,1d,2024-02-30\n3,,\n4,-,soon\n", encoding="utf-8")
    found = asked(
        str(path),
        {
            "n": unacorda.count(),
            "x": unacorda.sum("x", 0, 10),
            "known": unacorda.count("x"),
            "late": unacorda.count_if("CAST(d AS DATE) > '2024-01-01'"),
        },
    )
    assert found == {"n": 4, "x": Fraction(5, 2), "known": 3, "late": 1}
