"""Columns of every type a frame or a database can bring: read by a rule, or refused by name."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import asked, exact, opened
from tests.support.cases import in_subtests

import unacorda
from unacorda.errors import InvalidParameter, SourceUnreadable


class Silent:
    """An object that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("Ms Smith, HIV positive")

    __repr__ = __str__


NAN, INF = float("nan"), float("inf")
DAY = dt.date(2024, 2, 29)
INSTANT = dt.datetime(2024, 2, 29, 23, 30)  # noqa: DTZ001  # columns without a zone exist
LARGE = np.array([2**63, 2**64 - 1, 0], dtype="uint64")

# Of each column of three values: how many are present, and the sum clamped to [0, 100], if numbers.
PANDAS: dict[str, tuple[Any, int, int | None]] = {
    "small integers": (pd.Series([1, 2, 127], dtype="int8"), 3, 103),
    "unsigned integers": (pd.Series(LARGE), 3, 200),
    "nullable integers": (pd.Series([1, None, 3], dtype="Int64"), 2, 4),
    "floats": ([0.5, NAN, 250.0], 2, None),
    "half floats": (np.array([0.5, NAN, 50], dtype="float16"), 2, None),
    "long floats": (np.array([1, NAN, 50], dtype="longdouble"), 2, 51),
    "infinite floats": ([INF, -INF, NAN], 2, 100),
    "nullable floats": (pd.Series([1.0, None, 3.0], dtype="Float64"), 2, 4),
    "integers on Arrow": (pd.Series([1, None, 3], dtype="int64[pyarrow]"), 2, 4),
    "decimals on Arrow": (
        pd.Series(
            [Decimal("1.50"), None, Decimal("2.50")], dtype=pd.ArrowDtype(pa.decimal128(9, 2))
        ),
        2,
        4,
    ),
    "sparse": (pd.arrays.SparseArray([0, 7, 0]), 3, 7),
    "booleans": ([True, False, True], 3, None),
    "nullable booleans": (pd.Series([True, None, False], dtype="boolean"), 2, None),
    "text": (pd.Series(["5", None, "many"], dtype="str"), 2, 5),
    "text on Arrow": (pd.Series(["5", None, ""], dtype="string[pyarrow]"), 2, 5),
    "categories": (pd.Categorical(["5", None, "5"]), 2, 10),
    "numbered categories": (pd.Categorical([5, None, 7]), 2, 12),
    "empty objects": (pd.Series([None, NAN, pd.NaT], dtype=object), 0, 0),
    "objects": (pd.Series([7, "8", Silent()], dtype=object), 2, 15),
    "decimals": (
        pd.Series([Decimal("NaN"), Decimal("sNaN"), Decimal("1e3")], dtype=object),
        1,
        100,
    ),
    "huge integers": (pd.Series([2**200, -(2**200), 5], dtype=object), 3, 105),
    "NumPy's numbers": (
        pd.Series([np.float32("nan"), np.float64(4), np.int64(5)], dtype=object),
        2,
        9,
    ),
    "bytes": (pd.Series([b"5", b"\xff", None], dtype=object), 2, 0),
    "lists": (pd.Series([[1], {"a": 1}, np.array([1, 2])], dtype=object), 3, 0),
    "surrogates": (pd.Series(["\ud800", "5", "a\0b"], dtype=object), 2, 5),
    "days": (pd.Series([DAY, None, INSTANT], dtype=object), 2, 0),
    "instants": (pd.Series([pd.Timestamp(INSTANT), pd.NaT, pd.Timestamp(INSTANT)]), 2, None),
    "instants with a zone": (
        pd.DatetimeIndex(["2024-01-01", None, "2024-07-01"]).tz_localize("Asia/Tokyo"),
        2,
        None,
    ),
    "the last instants": (pd.Series([pd.Timestamp.max, pd.Timestamp.min, pd.NaT]), 0, None),
    "distant instants": (np.array(["0001-01-01", "9999-12-31", "NaT"], dtype="M8[s]"), 2, None),
    "periods": (pd.period_range("2024-01", periods=3, freq="M"), 3, 0),
    "intervals": (pd.interval_range(0, 3, 3), 3, 0),
    "complex numbers": (np.array([1 + 1j, 2, 3]), 3, 5),
    "UUIDs": (pd.Series([uuid.UUID(int=5), None, uuid.UUID(int=6)], dtype=object), 2, 0),
}


@pytest.mark.long
@in_subtests("case", PANDAS)
def test_every_column_of_pandas_is_read_by_a_rule(case: str) -> None:
    """Text, objects and types the engine does not know are text; a number is what text converts to.

    NULL, NaN and what has no text are missing; infinities are clamped, infinite dates missing.
    """
    values, present, total = PANDAS[case]
    frame = pd.DataFrame({"v": values, "w": [1, 2, 3]})
    frame.index = pd.Index([0, 0, 0])
    aggregates = {
        "n": unacorda.count(),
        "present": unacorda.count("v"),
        "rest": unacorda.sum("w", 0, 9),
    }
    assert asked(frame, aggregates) == {"n": 3, "present": present, "rest": 6}
    if total is not None:
        assert asked(frame, {"total": unacorda.sum("v", 0, 100)})["total"] == total


POLARS: dict[str, tuple[pl.Series, int | None]] = {
    "categories": (pl.Series(["a", None, "b"], dtype=pl.Categorical), 2),
    "an enumeration": (pl.Series(["a", None, "b"], dtype=pl.Enum(["a", "b"])), 2),
    "decimals": (pl.Series([Decimal("1.5"), None, None], dtype=pl.Decimal(10, 2)), 1),
    "only NULL": (pl.Series([None, None, None]), 0),
    "booleans": (pl.Series([True, None, False]), 2),
    "NaN": (pl.Series([NAN, None, 1.0], dtype=pl.Float32), 1),
    "days": (pl.Series([DAY, None, dt.date(1, 1, 1)]), 2),
    "nanoseconds": (pl.Series([INSTANT, None, INSTANT], dtype=pl.Datetime("ns")), 2),
    "nanoseconds with a zone": (
        pl.Series([INSTANT, None, INSTANT], dtype=pl.Datetime("ns")).dt.replace_time_zone("UTC"),
        2,
    ),
    "text": (pl.Series(["a\0b", "", None]), 2),
    "lists": (pl.Series([[1], None, [2]]), None),
    "lists of decimals": (
        pl.Series([[Decimal("1.5")], None, None], dtype=pl.List(pl.Decimal(10, 2))),
        None,
    ),
    "lists of instants": (pl.Series([[INSTANT], None, None]), None),
    "arrays": (pl.Series([[1, 2], None, None], dtype=pl.Array(pl.Int64, 2)), None),
    "structs": (pl.Series([{"a": 1}, None, {"a": 2}]), None),
    "durations": (pl.Series([dt.timedelta(1), None, dt.timedelta(2)]), None),
    "times of day": (pl.Series([dt.time(1), None, dt.time(2)]), None),
    "bytes": (pl.Series([b"a", None, b"\xff"]), None),
}


@pytest.mark.long
@in_subtests("case", POLARS)
def test_columns_of_polars_are_read_or_refused_when_they_are_used(case: str) -> None:
    """A column of a type without a reading may be there; a question that uses it is refused."""
    values, present = POLARS[case]
    frame = pl.DataFrame({"v": values, "w": [1, 2, 3]})
    assert asked(frame, {"n": unacorda.count(), "w": unacorda.sum("w", 0, 9)}) == {"n": 3, "w": 6}
    if present is not None:
        assert asked(frame, {"present": unacorda.count("v")}) == {"present": present}
        return
    with opened(frame) as session:
        table = session.table("t")
        questions: dict[str, Callable[[], Any]] = {
            "column": lambda: table.agg(n=unacorda.count("v")),
            "where": lambda: table.where('w > 1 AND "v" IS NOT NULL'),
            "group_by": lambda: table.group_by("v", keys=["a"]),
            "twice": lambda: table.derive(twice="v"),
        }
        for argument, ask in questions.items():
            with pytest.raises(InvalidParameter, match="numbers, text, booleans, dates") as caught:
                ask()
            assert caught.value.argument == argument
        assert session.spent == unacorda.PureDP(0)


ARROW = {
    "a run-end encoding": (pa.RunEndEncodedArray.from_arrays([3], [5]), 3),
    "views": (pa.array(["a", None, "b"], pa.string_view()), 2),
    "distant days": (pa.array([2**31 - 1, 1 - 2**31, 0], pa.date32()), 1),
    "distant seconds": (pa.array([2**62, -(2**62), 0], pa.timestamp("s")), 1),
    "distant microseconds": (pa.array([2**63 - 1, 1 - 2**63, 0], pa.timestamp("us")), 1),
}


@pytest.mark.parametrize("case", ARROW)
def test_columns_of_arrow_are_read_by_a_rule(case: str) -> None:
    values, present = ARROW[case]
    assert asked(pa.table({"v": values}), {"n": unacorda.count("v")}) == {"n": present}


BROKEN = pa.Array.from_buffers(
    pa.string(),
    1,
    [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xffb")],
)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        (pa.array([Decimal("1.5")], pa.decimal256(50, 2)), 1.5),
        (pa.array(np.array([1.5], dtype="float16")), 1.5),
        (BROKEN, 0),
        (pl.DataFrame({"v": [2**100]}, schema={"v": pl.Int128}), 100),
        (pl.DataFrame({"v": [Silent()]}, schema={"v": pl.Object}), 0),
    ],
    ids=["wide decimals", "half floats", "broken text", "128 bits", "objects"],
)
def test_types_that_the_engine_does_not_have_are_read_all_the_same(
    values: Any, total: float
) -> None:
    frame = pa.table({"v": values}) if isinstance(values, pa.Array) else values
    assert asked(frame, {"total": unacorda.sum("v", 0, 100)}) == {"total": total}


def test_text_that_is_not_utf_8_has_a_question_mark_for_each_wrong_byte() -> None:
    with opened(pa.table({"v": BROKEN})) as session:
        query = session.table("t").where("v = '?b'").agg(n=unacorda.count())
        assert exact(session, query) == {"n": [1]}


@pytest.mark.parametrize(
    "values",
    [pl.LazyFrame({"v": ["Ms Smith"]}).select(pl.col("v").cast(pl.Int64))],
    ids=["a failing plan"],
)
def test_frames_the_engine_cannot_hold_are_refused_without_their_values(values: Any) -> None:
    frame = pa.table({"v": values}) if isinstance(values, pa.Array) else values
    with pytest.raises(SourceUnreadable, match="'t'") as caught:
        opened(frame)
    assert "Smith" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


DATABASE = {
    "day": ("DATE '2024-02-29'", True),
    "endless": ("DATE 'infinity'", False),
    "beginless": ("TIMESTAMP '-infinity'", False),
    "zoned": ("TIMESTAMPTZ '2024-02-29 23:30:00-05'", True),
    "endless_zoned": ("TIMESTAMPTZ 'infinity'", False),
    "nanoseconds": ("TIMESTAMP_NS '2024-02-29'", True),
    "seconds": ("TIMESTAMP_S '2024-02-29'", True),
    "enumerated": ("'a'::ENUM ('a', 'b]')", True),
    "uuid": ("'00000000-0000-0000-0000-000000000005'::UUID", True),
    "decimal": ("1.5::DECIMAL(18, 3)", True),
    "huge": ("170141183460469231731687303715884105727::HUGEINT", True),
    "unsigned": ("340282366920938463463374607431768211455::UHUGEINT", True),
    "float": ("'nan'::FLOAT", False),
    "boolean": ("TRUE", True),
    "collated": ("'a'::VARCHAR COLLATE NOCASE", True),
}
WITHOUT_READING = {
    "list": "[1]",
    "decimals": "[1.5::DECIMAL(5, 2)]",
    "enumerations": "['a'::ENUM ('a')]",
    "array": "[1, 2]::INT[2]",
    "struct": "{'a': 1}",
    "map": "MAP {'a': 1}",
    "union_value": "union_value(a := 1)",
    "blob": "'x'::BLOB",
    "span": "INTERVAL 1 DAY",
    "time_of_day": "TIME '01:00'",
    "json": "'{}'::JSON",
    "bits": "'101'::BIT",
}


def test_columns_of_a_database_are_read_or_refused_when_they_are_used(tmp_path: Path) -> None:
    every = {name: value for name, (value, _) in DATABASE.items()} | WITHOUT_READING
    columns = ", ".join(f'{value} AS "{name}"' for name, value in every.items())
    with duckdb.connect(str(tmp_path / "f.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(3)")
    with opened(f"{tmp_path / 'f.duckdb'}::t") as session:
        for name, (_, present) in DATABASE.items():
            query = session.table("t").agg(n=unacorda.count(), here=unacorda.count(name))
            assert exact(session, query) == {"n": [3], "here": [3 * present]}, name
        for name in WITHOUT_READING:
            with pytest.raises(InvalidParameter, match="numbers, text, booleans, dates"):
                session.table("t").agg(n=unacorda.count(name))


@pytest.mark.long
@in_subtests(
    ("values", "people"),
    [
        (pd.Series([1, 1, 2, None], dtype="Int64"), 2),
        (pd.Series([1.0, 1.0, 2.5, NAN]), 1),
        (pd.Series([2.0**53, -(2.0**53), 3.0, -0.0]), 2),
        (pd.Series([INF, -INF, 4.0, 4.0]), 1),
        (pd.Series(["a", "A", "a ", None], dtype="str"), 3),
        (pd.Series(["e\u0301", "é", "", ""], dtype="str"), 3),
        (pd.Series([uuid.UUID(int=5)] * 3 + [None], dtype=object), 1),
        (pd.Series([1, "1", 1.0, Silent()], dtype=object), 1),
        (pd.Series([1, True, Decimal("1.00"), np.float32(1)], dtype=object), 1),
        (pd.Series([2**60, Decimal(2) ** 60, Fraction(2**60), float(2**60)], dtype=object), 1),
        (pd.Series([2**60, 2**60 + 1, Decimal(2**60 + 1), np.bool_(False)], dtype=object), 3),
        (pd.Series([1e22, 10**22, Decimal("1E+22"), "1e22"], dtype=object), 2),
        (pd.Categorical(["a", "b", "a", None]), 2),
        (pd.Series([2**63, 2**64 - 1, 2**63, 0], dtype="uint64"), 3),
        (pd.Series([None] * 4, dtype=object), 0),
        (pl.Series([None] * 4), 0),
        (pl.Series([DAY, DAY, dt.date(1, 1, 1), None]), 2),
        (pl.Series([Decimal("1.50"), Decimal("1.5"), None, None]), 1),
    ],
)
def test_people_are_told_apart_by_ids_of_every_type(values: Any, people: int) -> None:
    """NULL, NaN, fractions and floats that lost digits name nobody: such rows are dropped."""
    frame = pl.DataFrame({"id": values}) if isinstance(values, pl.Series) else None
    source = pd.DataFrame({"id": values}) if frame is None else frame
    unit = unacorda.Person("id", max_rows=1)
    answers = asked(source, {"n": unacorda.count(), "people": unacorda.count_people()}, unit=unit)
    assert answers == {"n": people, "people": people}


@pytest.mark.parametrize(
    "values", [[True, False], [INSTANT, INSTANT], [[1], [2]], [dt.timedelta(1)] * 2], ids=str
)
def test_columns_that_can_name_nobody_are_refused_when_a_session_opens(values: list[Any]) -> None:
    with pytest.raises(InvalidParameter, match="whole numbers, text, UUIDs or dates") as caught:
        opened(pl.DataFrame({"id": values}), unit=unacorda.Person("id", max_rows=1))
    assert caught.value.argument == "id"


def test_a_declaration_that_does_not_fit_the_type_is_refused() -> None:
    frame = pl.DataFrame({"x": [1.5], "b": [True], "d": [DAY]})
    facts: dict[str, Any]
    for facts in (
        {"x": unacorda.Dates()},
        {"b": unacorda.Bounds(0, 1)},
        {"d": unacorda.Categories([1])},
    ):
        with pytest.raises(InvalidParameter, match="fits the type") as caught:
            opened(frame, columns=facts)
        assert caught.value.argument == f"columns[{next(iter(facts))!r}]"


@pytest.mark.parametrize("name", ['a"b', '""', "d'ay", "İx", "%s {}"])
def test_an_undeclared_column_is_read_as_its_use_needs_whatever_its_name(
    name: str, tmp_path: Path
) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    (tmp_path / "t.csv").write_text(f"id,{quoted}\n1,5\n2,7\n", encoding="utf-8")
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session(
        {"t": str(tmp_path / "t.csv")}, unit=unit, budget=unacorda.PureDP(10**6)
    ) as one:
        query = one.table("t").where(f"{quoted} > 6").agg(n=unacorda.count())
        assert one.evaluate(query, budget=unacorda.PureDP(10**4)).to_dicts()[0]["n"] == 1
        one.explain(one.table("t").agg(m=unacorda.mean(name, 0, 9)), budget=unacorda.PureDP(1))


def test_what_is_whole_is_whole_whatever_was_declared() -> None:
    """Ends between whole numbers make numbers of a column; among categories fractions are none."""
    table = pl.DataFrame({"i": [0, 1, 20], "x": [1.0, 1.5, 2.0], "s": ["1", "1.5", "2"]})
    facts = {
        "i": unacorda.Bounds(0.5, 10.5),
        "x": unacorda.Categories([1, 2]),
        "s": unacorda.Categories([1, 2]),
    }
    with opened(table, columns=facts) as session:
        start = session.table("t")
        total = exact(session, start.agg(s=unacorda.sum("i")))["s"]
        assert abs(total[0] - 12) < 1e-9
        for name in ("x", "s"):
            found = exact(session, start.agg(n=unacorda.count(name)))
            assert found == {"n": [2]}
            grouped = start.group_by(name).agg(n=unacorda.count())
            assert exact(session, grouped) == {"n": [1, 1]}
