"""Types times hostile values: with and without the one person who has it, the same outcomes.

Every source is opened twice, without and with a row whose value its type can barely hold, or cannot
hold at all, and is asked the same questions. What happens is decided by the type: both times an
answer, or both times the same refusal, before anything is spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.extremes import DAYS, INSTANTS
from tests.support.parquet_footers import annotated, edited, logical
from tests.support.seams import Session

import unacorda
from unacorda.errors import EngineFailed, UnacordaError

NAN, INF = float("nan"), float("inf")
BUDGET, EACH = unacorda.ApproxDP(10**5, "0.5"), unacorda.ApproxDP(1, "1e-6")

# ---- what is asked -----------------------------------------------------------------------------

Rows = Any
Ask = Callable[[Session, Rows], Any]


def _agg(**aggregates: Any) -> Ask:
    return lambda session, rows: session.evaluate(rows.agg(**aggregates), budget=EACH)


def _where(condition: str) -> Ask:
    return lambda session, rows: session.evaluate(
        rows.where(condition).agg(n=unacorda.count()), budget=EACH
    )


def _derived(expression: str) -> Ask:
    return lambda session, rows: session.evaluate(
        rows.derive(y=expression).agg(n=unacorda.count("y")), budget=EACH
    )


def _grouped(keys: Any) -> Ask:
    return lambda session, rows: session.evaluate(
        rows.group_by("w", keys=keys).agg(n=unacorda.count()), budget=EACH
    )


QUESTIONS: dict[str, Ask] = {
    "count": _agg(n=unacorda.count()),
    "other column": _agg(total=unacorda.sum("k", 0, 10)),
    "present": _agg(n=unacorda.count("w")),
    "not null": _where("w IS NOT NULL"),
    "people": _agg(n=unacorda.count_people()),
    "sum": _agg(n=unacorda.sum("w", 0, 100)),
    "mean": _agg(n=unacorda.mean("w", 0, 100)),
    "variance": _agg(n=unacorda.variance("w", 0, 100)),
    "median": _agg(n=unacorda.median("w", 0, 100)),
    "least": _agg(n=unacorda.min("w", 0, 100)),
    "largest": _agg(n=unacorda.max("w", 0, 100)),
    "distinct": _agg(n=unacorda.count_distinct("w")),
    "proportion": _agg(n=unacorda.proportion("w = 1")),
    "proportion of texts": _agg(n=unacorda.proportion("w = 'a'")),
    "proportion of days": _agg(n=unacorda.proportion("w > DATE '2000-01-01'")),
    "proportion of truths": _agg(n=unacorda.proportion("w")),
    "private keys": _grouped(unacorda.private_keys()),
    "keys of numbers": _grouped([0, 1, None]),
    "keys of texts": _grouped(["a", "?", None]),
    "keys of days": _grouped([dt.date(2024, 1, 1), None]),
    "year": _derived("YEAR(w)"),
    "hour": _derived("HOUR(w)"),
    "next day": _derived("w + INTERVAL 1 DAY"),
    "text": _where("CAST(w AS VARCHAR) LIKE '%1%'"),
    "length": _derived("LENGTH(CAST(w AS VARCHAR))"),
    "number": _derived("TRY_CAST(CAST(w AS VARCHAR) AS DOUBLE) * 2"),
    "larger": _where("w > 10"),
    "equal text": _where("w = 'a'"),
    "among texts": _where("w IN ('a', 'b?', '')"),
    "later": _where("w > TIMESTAMP '2000-01-01 00:00:00'"),
    "true": _where("w"),
}


def outcomes(source: Any, unit: Any) -> list[str]:
    """What became of opening and of every question; a session that failed is asked no more."""
    try:
        session = unacorda.Session(
            {"t": source}, unit=unit, budget=BUDGET, bits=unacorda.SeededBits(3)
        )
    except UnacordaError as error:
        path = source if isinstance(source, str) else "the file"
        return [f"opening: {str(error).replace(path, 'the file')}"]
    found = []
    with session:
        for name, ask in QUESTIONS.items():
            before = session.spent
            try:
                ask(session, session.table("t"))
                found.append(f"{name}: an answer")
            except EngineFailed:
                found.append(f"{name}: FAILED")
            except UnacordaError as error:
                assert session.spent == before, name
                found.append(f"{name}: {type(error).__name__} {error}")
    return found


UNITS = (unacorda.Person("k", max_rows=2), unacorda.Person("w", max_rows=2))
"""The second one's id is the hostile column itself."""


def check(without: Any, sources: Sequence[Any], *, units: Sequence[Any] = UNITS) -> None:
    """The same outcomes with hostile rows as without."""
    for unit in units:
        expected = outcomes(without, unit)
        assert [one for one in expected if "FAILED" in one] == []
        for source in sources:
            assert outcomes(source, unit) == expected


# ---- Parquet: physical types, annotations, hostile values --------------------------------------


@dataclass(frozen=True, kw_only=True)
class Written:
    """A column of a file: its physical type, its annotation, plain values and hostile ones."""

    physical: Any
    plain: Sequence[Any]
    hostile: Sequence[Any]
    facts: dict[str, Any] = field(default_factory=dict)


WIDTHS = {pa.int32(): 32, pa.int64(): 64}
ENDS32 = (2**31 - 1, -(2**31), -(2**31) + 1, 255, 256, 65_536, -1, 86_400_000, 99_999, 100_000)
ENDS64 = (
    *(2**63 - 1, -(2**63), -(2**63) + 1, -(2**63) + 2, 9_300_000_000_000_000, -(10**16)),
    *(86_400_000_000, 10**18, -1, 2**32, 2**53 + 1, -9_223_372_022_400_000_001),
)
BYTES = (
    b"M\xfcller",
    b"\xff",
    b"",
    b"\0",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b'{"a":',
    b"\x7f" * 40,
)
TEXTS = (b"a", b"b", b"1")


def raw(size: int, *values: int) -> tuple[bytes, ...]:
    return tuple(value.to_bytes(size, "big", signed=True) for value in values)


def _parquet() -> dict[str, Written]:
    found: dict[str, Written] = {}

    def whole(name: str, physical: Any, **facts: Any) -> None:
        ends = ENDS32 if physical == pa.int32() else ENDS64
        found[name] = Written(physical=physical, plain=(0, 1, 2), hostile=ends, facts=facts)

    def of_bytes(name: str, physical: Any, plain: Any, hostile: Any, **facts: Any) -> None:
        found[name] = Written(physical=physical, plain=plain, hostile=hostile, facts=facts)

    of_bytes("text", pa.binary(), TEXTS, BYTES, converted="UTF8")
    whole("TIMESTAMP_MILLIS", pa.int64(), converted="TIMESTAMP_MILLIS")
    whole("TIMESTAMP_MICROS", pa.int64(), converted="TIMESTAMP_MICROS")
    whole("DECIMAL(5,2) in 32 bits", pa.int32(), converted="DECIMAL", decimal=(5, 2))
    for unit in ("ms", "us", "ns"):
        for utc in (False, True):
            newer = logical("TIMESTAMP", unit=unit, utc=utc)
            whole(f"instants in {unit}, {utc}", pa.int64(), newer=newer)
            time = logical("TIME", unit=unit, utc=utc)
            physical = pa.int32() if unit == "ms" else pa.int64()
            whole(f"times in {unit}, {utc}", physical, newer=time)
    for older in ("UINT_8", "UINT_16", "UINT_32", "INT_8", "INT_16", "INT_32", "DATE"):
        whole(older, pa.int32(), converted=older)
    whole("TIME_MILLIS", pa.int32(), converted="TIME_MILLIS")
    for older in ("UINT_64", "INT_64", "TIME_MICROS"):
        whole(older, pa.int64(), converted=older)
    for physical, bits in ((pa.int32(), (8, 16, 32)), (pa.int64(), (8, 32, 64))):
        for size in bits:
            for signed in (False, True):
                newer = logical("INTEGER", bits=size, signed=signed)
                whole(f"{signed} {size} in {physical}", physical, newer=newer)
    whole("plain 32", pa.int32())
    whole("plain 64", pa.int64())
    whole("days", pa.int32(), newer=logical("DATE"))
    whole("unknown", pa.int32(), newer=logical("UNKNOWN"))
    for digits, scale in ((1, 0), (4, 1), (9, 9), (9, 0)):
        facts: dict[str, Any] = {"converted": "DECIMAL", "decimal": (digits, scale)}
        whole(f"DECIMAL({digits},{scale}) in 32 bits", pa.int32(), **facts)
    for digits, scale in ((4, 1), (10, 2), (18, 18)):
        newer = logical("DECIMAL", precision=digits, scale=scale)
        whole(f"DECIMAL({digits},{scale}) in 64 bits", pa.int64(), newer=newer)
    for size, digits in ((4, 5), (8, 18), (16, 20), (16, 38), (32, 38), (32, 50)):
        of_bytes(
            f"DECIMAL({digits},2) in {size} bytes",
            pa.binary(size),
            raw(size, 0, 100, 200),
            raw(size, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), -1, 10 ** (2 * size)),
            converted="DECIMAL",
            decimal=(digits, 2),
        )
    for digits in (10, 38):
        of_bytes(
            f"DECIMAL({digits},2) in bytes",
            pa.binary(),
            (b"\0", b"\x01", b"\x64"),
            (b"", b"\x7f" * 17, b"\x80" + b"\0" * 15, b"\xff" * 40),
            converted="DECIMAL",
            decimal=(digits, 2),
        )
    for older in ("ENUM", "JSON", "BSON"):
        plain = (b"1", b"2", b"{}") if older == "JSON" else TEXTS
        of_bytes(older, pa.binary(), plain, BYTES, converted=older)
    of_bytes("newer text", pa.binary(), TEXTS, BYTES, newer=logical("STRING"))
    of_bytes("newer JSON", pa.binary(), (b"1", b"2", b"3"), BYTES, newer=logical("JSON"))
    of_bytes("bytes", pa.binary(), TEXTS, BYTES)
    sixteen = raw(16, 2**127 - 1, -(2**127), -1)
    of_bytes("UUID", pa.binary(16), raw(16, 0, 1, 2), sixteen, newer=logical("UUID"))
    of_bytes("text of one length", pa.binary(16), (b"a" * 16,) * 3, sixteen, converted="UTF8")
    halves = tuple(struct.pack("<e", value) for value in (NAN, INF, -INF, -0.0, 6e-8))
    ones = tuple(struct.pack("<e", value) for value in (0.0, 1.0, 2.0))
    of_bytes("FLOAT16", pa.binary(2), ones, halves, newer=logical("FLOAT16"))
    spans = (b"\0" * 12, b"\x01" * 12, b"\x02" * 12)
    of_bytes("INTERVAL", pa.binary(12), spans, (b"\xff" * 12,), converted="INTERVAL")
    for name, physical in (("FLOAT", pa.float32()), ("DOUBLE", pa.float64())):
        ends = (NAN, INF, -INF, -0.0, 3e38, 1e-45)
        of_bytes(name, physical, (0.0, 1.0, 2.0), ends)
    of_bytes("BOOLEAN", pa.bool_(), (True, False, True), (False, None))
    return found


PARQUET = _parquet()


def stored(case: Written, folder: Path, values: Sequence[Any], name: str, **options: Any) -> str:
    """A file in which person k has the k-th value, and everybody a second row without one."""
    people = list(range(1, len(values) + 1))
    column = pa.array([*values, *(None for _ in values)], case.physical)
    path = folder / f"{name}.parquet"
    annotated(path, {"w": column, "k": [*people, *people]}, column="w", **case.facts, **options)
    return str(path)


LAYOUTS: dict[str, dict[str, Any]] = {
    "dictionaries": {},
    "plain": {"use_dictionary": False},
    "no statistics": {"statistics": False, "use_dictionary": False},
    "small groups": {"row_group_size": 2},
}


def check_files(name: str, folder: Path, units: Sequence[Any] = UNITS, **layout: Any) -> None:
    case = PARQUET[name]
    values = [case.plain, [*case.plain, *case.hostile], [*case.plain, case.hostile[0]]]
    files = [stored(case, folder, one, f"t{n}", **layout) for n, one in enumerate(values)]
    check(files[0], files[1:] if units is UNITS else files[1:2], units=units)


@pytest.mark.long
@pytest.mark.parametrize("case", ["text", "TIMESTAMP_MILLIS", "DECIMAL(38,2) in 16 bytes"])
def test_no_value_of_a_parquet_file_decides_what_happens(case: str, tmp_path: Path) -> None:
    check_files(case, tmp_path, UNITS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("case", PARQUET)
def test_no_value_of_any_type_of_parquet_does(case: str, tmp_path: Path) -> None:
    check_files(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "dictionaries"])
@pytest.mark.parametrize("case", PARQUET)
def test_nor_does_it_in_another_layout(case: str, layout: str, tmp_path: Path) -> None:
    check_files(case, tmp_path, UNITS[:1], **LAYOUTS[layout])


def instants_of_96_bits(folder: Path, values: Sequence[tuple[int, int]], name: str) -> str:
    """Nanoseconds of a day, and its Julian number."""
    path = folder / f"{name}.parquet"
    column = pa.array([struct.pack("<qi", *value) for value in values], pa.binary(12))
    table = pa.table({"w": column, "k": list(range(1, len(values) + 1))})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False, store_schema=False)

    def edit(footer: Any) -> None:
        element = footer[2][1][1][1]
        element[1] = (5, 3)
        element.pop(2, None)
        for group in footer[4][1][1]:
            group[1][1][1][0][3][1][1] = (5, 3)

    return str(edited(path, edit))


@pytest.mark.slow
def test_no_instant_of_96_bits_decides_what_happens(tmp_path: Path) -> None:
    epoch = 2_440_588
    plain = [(0, epoch), (1_000, epoch), (2_000, epoch)]
    hostile = [
        *((2**63 - 1, 2**31 - 1), (-(2**63), -(2**31)), (0, 2**31 - 1), (0, -(2**31)), (-1, 0)),
        *((0, epoch + 106_751_991), (0, epoch + 106_751_992), (0, epoch - 106_751_992)),
        *((0, epoch - 106_751_991), (2**63 - 1, epoch), (-(2**63), epoch)),
    ]
    without = instants_of_96_bits(tmp_path, plain, "without")
    check(without, [instants_of_96_bits(tmp_path, [*plain, *hostile], "with")])


def test_files_that_differ_below_the_engines_types_are_refused_by_their_footers(
    tmp_path: Path,
) -> None:
    columns = {"w": pa.array([0, 1]), "k": [1, 2]}
    for name in ("MICROS", "MILLIS"):
        annotated(tmp_path / f"{name}.parquet", columns, column="w", converted=f"TIMESTAMP_{name}")
    with pytest.raises(unacorda.errors.SourceUnreadable, match="differ in their columns or types"):
        unacorda.Session(
            {"t": str(tmp_path / "*.parquet")}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
        )


@pytest.mark.parametrize("name", ["TIMESTAMP_MILLIS", "DECIMAL(10,2) in bytes"])
def test_what_a_file_cannot_be_read_in_is_refused_with_the_fix(name: str, tmp_path: Path) -> None:
    source = stored(PARQUET[name], tmp_path, PARQUET[name].plain, "t")
    with unacorda.Session(
        {"t": source}, unit=unacorda.Person("k", max_rows=1), budget=unacorda.PureDP(1)
    ) as session:
        with pytest.raises(unacorda.errors.InvalidParameter, match=r"give the table as a frame"):
            session.table("t").agg(n=unacorda.count("w"))
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))


@pytest.mark.parametrize("at", ["text", "narrow numbers", "decimals"])
def test_no_row_is_read_by_what_others_hold(at: str, tmp_path: Path) -> None:
    """A reader that skips groups of rows by their statistics skips by what is written there.

    What is read is another value here, so that one more row in a group would move many.
    """
    cases: dict[str, tuple[Any, list[Any], str, Any, dict[str, Any]]] = {
        "text": (b"M\xff", [b"Mz", b"Mzz"], "w = 'M?'", pa.binary(), {"converted": "UTF8"}),
        "narrow numbers": (256, [300, 301], "w = 0", pa.int32(), {"converted": "UINT_8"}),
        "decimals": (
            65_541,
            [65_600, 65_601],
            "w < 1",
            pa.int32(),
            {"converted": "DECIMAL", "decimal": (4, 1)},
        ),
    }
    odd, normal, condition, physical, facts = cases[at]
    one: Any = {"text": b"A", "narrow numbers": 0, "decimals": 0}[at]
    found: list[float] = []
    for extra in ([], [one]):
        values = [*normal, *(odd for _ in range(50)), *extra]
        path = tmp_path / f"{len(found)}.parquet"
        column = pa.array(values, physical)
        annotated(path, {"w": column, "k": list(range(len(values)))}, column="w", **facts)
        with unacorda.Session(
            {"t": str(path)},
            unit=unacorda.Row(),
            budget=unacorda.PureDP(10**5),
            bits=unacorda.SeededBits(3),
        ) as session:
            query = session.table("t").where(condition).agg(n=unacorda.count())
            release = session.evaluate(query, budget=unacorda.PureDP(10**4))
            found.append(release.to_dicts()[0]["n"])
    assert abs(found[0] - found[1]) <= 1


# ---- frames ------------------------------------------------------------------------------------


def of_numbers(kind: Any, values: Sequence[int], size: int) -> Any:
    """An Arrow column of raw numbers that nothing checks."""
    data = b"".join(value.to_bytes(size, "little", signed=value < 0) for value in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def of_texts(kind: Any, values: Sequence[bytes]) -> Any:
    width = "int64" if kind in (pa.large_string(), pa.large_binary()) else "int32"
    ends = np.cumsum([0, *map(len, values)]).astype(width).tobytes()
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def runs(values: Sequence[int]) -> Any:
    ends = list(range(1, len(values) + 1))
    return pa.RunEndEncodedArray.from_arrays(ends, of_numbers(pa.timestamp("s"), values, 8))


def _wide(kind: Any, size: int) -> Callable[[Sequence[Any]], Any]:
    return lambda values: of_numbers(kind, values, size)


Make = Callable[[Sequence[Any]], Any]


def arrays(kind: Any) -> Make:
    return lambda values: pa.array(values, kind)


def numpy_arrays(dtype: Any) -> Make:
    return lambda values: np.array(values, dtype=dtype)


ENDS = {8: (0, 127, -128), 16: (2**15 - 1, -(2**15)), 32: ENDS32, 64: ENDS64}
RAW_TEXTS = ([b"a", b"b", b"1"], BYTES)


def _arrow() -> dict[str, tuple[Make, Sequence[Any], Sequence[Any]]]:
    plain = (0, 1, 2)
    found: dict[str, tuple[Make, Sequence[Any], Sequence[Any]]] = {}
    found["string"] = (lambda v: of_texts(pa.string(), v), *RAW_TEXTS)
    for unit in ("s", "ms", "us", "ns"):
        ends = (*ENDS64, *INSTANTS[unit][:3], *INSTANTS[unit][-3:])
        for zone in ("UTC", None, "Asia/Tokyo"):
            kind = pa.timestamp(unit, zone)
            found[str(kind)] = (_wide(kind, 8), plain, ends)
        found[f"duration {unit}"] = (_wide(pa.duration(unit), 8), plain, ENDS64)
    found["large_string"] = (lambda v: of_texts(pa.large_string(), v), *RAW_TEXTS)
    found["string_view"] = (
        lambda v: pa.array(v, pa.binary_view()).view(pa.string_view()),
        *RAW_TEXTS,
    )
    found["dictionary"] = (
        lambda v: of_texts(pa.string(), v).dictionary_encode(),
        *RAW_TEXTS,
    )
    found["runs"] = (runs, plain, ENDS64)
    found["binary"] = (lambda v: pa.array(v, pa.binary()), *RAW_TEXTS)
    found["binary of a length"] = (
        lambda v: pa.array(v, pa.binary(2)),
        (b"aa", b"bb", b"cc"),
        (b"\xff\xff",),
    )
    found["date32"] = (_wide(pa.date32(), 4), plain, (*ENDS32, *DAYS))
    found["date64"] = (_wide(pa.date64(), 8), plain, ENDS64)
    for unit, size in (("s", 4), ("ms", 4), ("us", 8), ("ns", 8)):
        kind = pa.time32(unit) if size == 4 else pa.time64(unit)
        found[str(kind)] = (_wide(kind, size), plain, ENDS[8 * size])
    for size in (8, 16, 32, 64):
        ends = ENDS[size]
        signed, unsigned = (getattr(pa, f"{sign}int{size}")() for sign in ("", "u"))
        found[str(signed)] = (_wide(signed, size // 8), plain, ends)
        least = [value % 2**size for value in ends]
        found[str(unsigned)] = (arrays(unsigned), plain, least)
    floats = (NAN, INF, -INF, -0.0, 6e-8)
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        found[str(kind)] = (
            numpy_arrays(kind.to_pandas_dtype()),
            (0.0, 1.0, 2.0),
            floats,
        )
    for digits, scale, bits in ((4, 1, 128), (9, 9, 128), (18, 0, 128), (38, 2, 128)):
        kind = pa.decimal128(digits, scale)
        ends = (2**127 - 1, -(2**127), 10**digits, -(10**digits), 10**38)
        found[str(kind)] = (_wide(kind, bits // 8), (0, 10, 20), ends)
    kind = pa.decimal128(5, -2)
    found["decimal of hundreds"] = (_wide(kind, 16), plain, (2**127 - 1, -(2**127)))
    wide = (2**255 - 1, -(2**255), 10**76, 10**40)
    for digits in (30, 50, 76):
        kind = pa.decimal256(digits, 2)
        found[str(kind)] = (_wide(kind, 32), plain, wide)
    for kind, size in ((pa.decimal32(5, 2), 4), (pa.decimal64(15, 2), 8)):
        found[str(kind)] = (_wide(kind, size), plain, ENDS[8 * size])
    found["bool"] = (pa.array, (True, False, True), (None,))
    found["null"] = (lambda v: pa.nulls(len(v)), (None, None, None), (None,))
    found["uuid"] = (
        lambda v: pa.array(v, pa.uuid()),
        raw(16, 0, 1, 2),
        raw(16, -1, 2**127 - 1),
    )
    found["list"] = (lambda v: pa.array(v, pa.list_(pa.int64())), ([0], [1], None), ([2**62],))
    found["struct"] = (pa.array, ({"a": 1}, {"a": 2}, None), ({"a": None},))
    months = pa.month_day_nano_interval()
    found["interval"] = (
        lambda v: pa.array(v, months),
        ((0, 0, 0), (1, 1, 1), None),
        ((2**31 - 1, -(2**31), 2**63 - 1),),
    )
    return found


ARROW = _arrow()


def instants(unit: str) -> Make:
    return lambda values: np.array(values, dtype="int64").view(f"M8[{unit}]")


def zoned(unit: str) -> Make:
    return lambda values: pd.DatetimeIndex(instants(unit)(values)).tz_localize("UTC")


class Rude:
    """A value that does its worst when it is asked anything."""

    def __str__(self) -> str:
        raise RecursionError

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


ODD: tuple[Any, ...] = (
    *(2**64, -(2**200), 2**63, 10**5_000, 1.0, True, np.bool_(False), NAN, INF, -0.0, 1e300),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("1E+999999"), Decimal("1E-999999"), Fraction(1, 3)),
    *(Fraction(10**400, 3), 1j, "\ud800", "a\0b", "", b"\xff", [1], {"a": 1}, np.array([1, 2])),
    *(None, pd.NA, pd.NaT, dt.date.max, dt.datetime.min, dt.timedelta.max, uuid.UUID(int=0)),  # noqa: DTZ901
    *(pd.Timestamp.max, np.datetime64("NaT"), np.datetime64(2**62, "s"), Rude(), object, len),
    *(np.float16(0.1), np.longdouble("1e4000"), np.int8(-1), np.str_("x"), memoryview(b"a")),
)


def objects(values: Sequence[Any]) -> Any:
    held = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        held[at] = value
    return pd.Series(held, dtype=object)


def series(dtype: str) -> Make:
    return lambda values: pd.Series(list(values), dtype=dtype)


PANDAS: dict[str, tuple[Make, Sequence[Any], Sequence[Any]]] = {
    "boolean": (series("boolean"), (True, False, True), (pd.NA,)),
    "objects of numbers": (objects, (0, 1, 2), ODD),
    **{f"M8[{u}]": (instants(u), (0, 1, 2), ENDS64) for u in ("ns", "s", "ms", "us")},
    **{f"M8[{u}], zoned": (zoned(u), (0, 1, 2), ENDS64) for u in ("ns", "s", "ms", "us")},
    "m8[s]": (lambda v: np.array(v, "int64").view("m8[s]"), (0, 1, 2), ENDS64),
    "objects of texts": (objects, ("a", "b", "1"), ODD),
    "objects of truths": (objects, (True, False, True), ODD),
    "objects of nothing": (objects, (None, None, None), ODD),
    **{
        name: (series(name), (0, 1, 2), (pd.NA, 2**7 - 1))
        for name in ("Int8", "Int64", "UInt64", "Float32", "Float64")
    },
    **{
        name: (numpy_arrays(name), (0, 1, 2), (NAN, INF, -INF, -0.0))
        for name in ("float16", "float32", "float64", "longdouble", ">f8")
    },
    **{
        name: (numpy_arrays(name), (0, 1, 2), (2**8 - 1,))
        for name in ("uint8", ">i8", "<u4", "uint64")
    },
    "complex": (lambda v: np.array(v, complex), (0, 1, 2), (NAN, complex(1, INF), 1j)),
    "str": (series("str"), ("a", "b", "1"), (None, "", "a\0b", "9" * 5_000)),
    "str of Python": (
        lambda v: pd.Series(list(v), dtype=pd.StringDtype("python")),
        ("a", "b", "1"),
        (None, "", "\ud800", "a\0b"),
    ),
    "string[pyarrow]": (series("string[pyarrow]"), ("a", "b", "1"), (None, "", "a\0b")),
    "category": (lambda v: pd.Categorical(list(v)), ("a", "b", "1"), (None, "z", "\0")),
    "numbered category": (lambda v: pd.Categorical(list(v)), (0, 1, 2), (None, 2**64, 0.5)),
    "period": (
        lambda v: pd.PeriodIndex([pd.Period(ordinal=one, freq="M") for one in v]),
        (0, 1, 2),
        (10**6,),
    ),
    "interval": (
        lambda v: pd.arrays.IntervalArray.from_breaks([*v, v[-1] + 1]),
        (0, 1, 2),
        (2**53, 10**18),
    ),
    "sparse": (pd.arrays.SparseArray, (0.0, 1.0, 2.0), (NAN, INF)),
    "timestamp[s][pyarrow]": (
        lambda v: pd.array(of_numbers(pa.timestamp("s"), v, 8), pd.ArrowDtype(pa.timestamp("s"))),
        (0, 1, 2),
        ENDS64,
    ),
}


def polar(dtype: Any) -> Make:
    return lambda values: pl.Series(list(values), dtype=dtype)


def ticks(dtype: Any) -> Make:
    return lambda values: pl.Series(list(values), dtype=pl.Int64).cast(dtype)


POLARS: dict[str, tuple[Make, Sequence[Any], Sequence[Any]]] = {
    "Datetime(ms)": (ticks(pl.Datetime("ms")), (0, 1, 2), ENDS64),
    "Object": (polar(pl.Object), (0, 1, 2), ODD),
    "Int128": (polar(pl.Int128), (0, 1, 2), (2**127 - 1, -(2**127), 10**38)),
    **{
        f"Datetime({u}), {z}": (ticks(pl.Datetime(u, z)), (0, 1, 2), ENDS64)
        for u in ("us", "ns", "ms")
        for z in (None, "UTC")
    },
    **{f"Duration({u})": (ticks(pl.Duration(u)), (0, 1, 2), ENDS64) for u in ("ms", "us", "ns")},
    "Time": (ticks(pl.Time), (0, 1, 2), (86_399_999_999_999,)),
    "Date": (lambda v: pl.Series(list(v), dtype=pl.Int32).cast(pl.Date), (0, 1, 2), DAYS),
    "Decimal": (
        polar(pl.Decimal(38, 2)),
        (Decimal(0), Decimal(1), Decimal(2)),
        (Decimal(10**35), -Decimal(10**35), None),
    ),
    "Categorical": (polar(pl.Categorical), ("a", "b", "1"), (None, "\0", "z")),
    "Enum": (polar(pl.Enum(["a", "b", "1", "z"])), ("a", "b", "1"), (None, "z")),
    "String": (polar(pl.String), ("a", "b", "1"), (None, "\0", "")),
    "Binary": (polar(pl.Binary), (b"a", b"b", b"1"), (None, b"\xff")),
    "List": (polar(pl.List(pl.Int64)), ([0], [1], [2]), (None, [])),
    "Struct": (lambda v: pl.Series(list(v)), ({"a": 1}, {"a": 2}, {"a": 3}), ({"a": None},)),
    "Null": (polar(pl.Null), (None, None, None), (None,)),
    "Boolean": (polar(pl.Boolean), (True, False, True), (None,)),
    "UInt64": (polar(pl.UInt64), (0, 1, 2), (2**64 - 1, None)),
    "Float32": (polar(pl.Float32), (0.0, 1.0, 2.0), (NAN, INF, -0.0, None)),
}

FRAMES: dict[str, tuple[Callable[[Any, list[int]], Any], Any]] = {
    "Arrow": (lambda w, k: pa.table({"w": w, "k": k}), ARROW),
    "pandas": (lambda w, k: pd.DataFrame({"w": w, "k": k}), PANDAS),
    "polars": (lambda w, k: pl.DataFrame({"w": w, "k": k}), POLARS),
}
CASES = [(library, name) for library, (_, cases) in FRAMES.items() for name in cases]


def check_frames(library: str, case: str, units: Sequence[Any] = UNITS) -> None:
    framed, cases = FRAMES[library]
    make, plain, hostile = cases[case]

    def source(values: Sequence[Any]) -> Any:
        return framed(make(values), list(range(1, len(values) + 1)))

    sources = [source([*plain, *hostile]), source([*plain, hostile[0]])]
    check(source(plain), sources if units is UNITS else sources[:1], units=units)


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "case"),
    [
        *(("Arrow", "string"), ("Arrow", "timestamp[s, tz=UTC]"), ("pandas", "boolean")),
        *(("pandas", "objects of numbers"), ("polars", "Datetime(ms)")),
    ],
)
def test_no_value_of_a_frame_decides_what_happens(library: str, case: str) -> None:
    check_frames(library, case, UNITS[:1])


@pytest.mark.slow
@pytest.mark.parametrize(("library", "case"), CASES)
def test_no_value_of_any_type_of_a_frame_does(library: str, case: str) -> None:
    check_frames(library, case)
