"""Whatever the data holds: an answer by a rule, never an error, and every text stays the same."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import gzip
import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import asked, exact, opened
from tests.support.cases import in_subtests
from tests.support.seams import Query, Session
from tests.tiers import mostly_slow

import unacorda

SECRET = "Ms Smith, HIV positive"
NAN, INF = float("nan"), float("inf")

# ---- every text is a function of the question --------------------------------------------------

BLAND = pd.DataFrame(
    {"id": ["1", "2", "3", "4"], "x": ["1", "2", "3", "4"], "s": ["a", "b", "a", "b"]}, dtype=object
)


class Loud:
    """A value that does its worst when it is read."""

    def __str__(self) -> str:
        raise RecursionError(SECRET)

    __repr__ = __str__


def frame(ids: list[Any], xs: list[Any], texts: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"id": ids, "x": xs, "s": texts}, dtype=object)


HOSTILE = {
    "no rows": frame([], [], []),
    "no row passes the filter": frame(["1"], ["-5"], ["a"]),
    "only NULL": frame([None] * 3, [None] * 3, [None] * 3),
    "no ids": frame([None] * 3, [1, 2, 3], ["a", "b", "c"]),
    "one person owns all": frame([SECRET] * 500, list(range(500)), ["a"] * 500),
    "text among numbers": frame([1, 2], ["30000," + SECRET, "1e999"], ["a", "b"]),
    "not finite": frame([1, 2, 3, 4], [NAN, INF, -INF, -0.0], ["a", "b", "a", "b"]),
    "zeros to divide by": frame([1, 2], [0, "0"], ["a", "b"]),
    "extremes": frame([1, 2, 3], [1.8e308, -1.8e308, 5e-324], ["a", "a", "a"]),
    "objects": frame([Loud(), 1, b"\xff"], [Loud(), [1], {"a": 1}], [Loud(), Loud(), "a"]),
    "strange text": frame(["", "\0", "\ud800"], ["\n", "٣", "1;--"], ["'", '"', "\u202e"]),
    "keys of nobody": frame([1, 2], [1, 2], ["z", "y"]),
    "a long field": frame([1, 2], ["9" * 3_000_000, "1"], ["a" * 3_000_000, "a"]),
}


def ask(session: Session) -> Query:
    return (
        session.table("t")
        .where("x >= 0 OR x IS NULL OR 1 / x < 0")
        .derive(y="ln(x) / (x - 1) + x * 1e90", z="TRY_CAST(s AS DATE)")
        .group_by("s", keys=["b", "a", None])
        .agg(
            n=unacorda.count(),
            days=unacorda.count("z"),
            people=unacorda.count_people(weight=2),
            total=unacorda.sum("y", -1e6, 1e6),
            mean=unacorda.mean("x", 0, 10),
            middle=unacorda.median("x", 0, 10, interval=0.5),
        )
    )


@contextlib.contextmanager
def overheard(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that leaves a program on the side: warnings, log records of every level, both streams."""
    heard: list[str] = []
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        caplog.at_level(logging.NOTSET),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        yield heard
    records = [record.getMessage() for record in caplog.records if "asyncio" not in record.name]
    heard += [str(warning.message) for warning in caught]
    heard += [*records, out.getvalue(), err.getvalue()]
    caplog.clear()


def texts_of(source: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    with (
        overheard(caplog) as heard,
        opened(source, unit=unacorda.Person("id", max_rows=2)) as session,
    ):
        query = ask(session)
        explanation = session.explain(query, budget=unacorda.PureDP(0.5))
        release = session.evaluate(query, budget=unacorda.PureDP(0.5))
        shown = [
            *(str(explanation), repr(explanation.to_dict()), repr(session), query.digest()),
            *(repr(release.provenance), repr(release.columns), repr(release.keys)),
            *(repr(release.charge), repr(release.remaining), repr(release.event), release.salt),
            *(repr(list(row)) for row in release.to_dicts()),
            *(repr(release.answers[name].standard_errors) for name in ("n", "total", "middle")),
            repr(release.to_arrow().schema),
            repr(session.spent),
        ]
    return [*shown, *heard]


@pytest.mark.long
@pytest.mark.parametrize("case", mostly_slow(HOSTILE, quick=3))
def test_no_text_tells_hostile_data_from_bland(case: str, caplog: pytest.LogCaptureFixture) -> None:
    shown = texts_of(HOSTILE[case], caplog)
    assert shown == texts_of(BLAND, caplog)
    assert not any("Smith" in text for text in shown)


@pytest.mark.long
@pytest.mark.parametrize(
    "case", mostly_slow([name for name in HOSTILE if name != "a long field"], quick=4)
)
def test_the_same_holds_for_files_of_text(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.csv"
    heard = []
    for source in (BLAND, HOSTILE[case]):
        lines = [
            ",".join(written(value) for value in row)
            for row in source.itertuples(index=False, name=None)
        ]
        path.write_bytes("\n".join(["id,x,s", *lines, ""]).encode(errors="surrogatepass"))
        heard.append(texts_of(path, caplog))
    assert heard[0] == heard[1]


def written(value: object) -> str:
    """A value in a careless file: nothing is quoted."""
    try:
        return "" if value is None else str(value)
    except RecursionError:
        return '"'


# ---- numbers -----------------------------------------------------------------------------------


def test_what_is_not_finite_is_clamped_or_absent() -> None:
    frame = pl.DataFrame({"x": [NAN, INF, -INF, -0.0, None, 3.0]})
    answers = asked(
        frame,
        {
            "n": unacorda.count(),
            "present": unacorda.count("x"),
            "total": unacorda.sum("x", -2, 10),
            "mean": unacorda.mean("x", -2, 10),
            "middle": unacorda.median("x", -2, 10, resolution=1),
        },
    )
    assert answers == {
        "n": 6,
        "present": 4,
        "total": 11,
        "mean": (11, 4),
        "middle": {0: 1, 2: 1, 5: 1, 12: 1},
    }


def test_division_by_zero_and_its_kin_are_absent_and_raise_nothing() -> None:
    frame = pl.DataFrame({"x": [0, 1, -1, None]})
    with opened(frame) as session:
        table = session.table("t")
        for expression, present in {
            "1 / x": 2,
            "1 % x": 2,
            "sqrt(x)": 2,
            "ln(x)": 1,
            "x / (x - x)": 0,
            "power(0, x)": 2,
            "1e100 * 1e100 * x": 3,
        }.items():
            query = table.derive(y=expression).agg(n=unacorda.count("y"))
            assert exact(session, query) == {"n": [present]}, expression
        query = table.where("1 / x > 0").agg(n=unacorda.count())
        assert exact(session, query) == {"n": [1]}


@in_subtests(
    "bound", [2**51, 2**52, 2**53, 2**62, 2**200, Fraction(1, 2**200), Fraction(1, 3), 10**15 + 1]
)
def test_sums_are_exact_far_beyond_64_bits(bound: Any) -> None:
    """The sum is that of values rounded to the public unit, taken in whole numbers without end."""
    rows = 70_001
    frame = pl.DataFrame({"x": [INF] * rows + [-INF] * 7})
    with opened(frame) as session:
        query = session.table("t").agg(
            total=unacorda.sum("x", 0, bound), mean=unacorda.mean("x", 0, bound)
        )
        found = exact(session, query)
        aggregate = query.aggregates["total"]
    assert isinstance(aggregate, type(unacorda.sum("x", 0, 1)))
    top = aggregate.clamp.upper * Fraction(2) ** aggregate.clamp.unit_log2
    assert abs(top - bound) <= Fraction(2) ** aggregate.clamp.unit_log2 / 2
    assert found == {"total": [rows * top], "mean": [(rows * top, rows + 7)]}
    if bound == 2**62:
        assert rows * top > 2**64


def test_sums_of_whole_numbers_agree_with_plain_python() -> None:
    values = [2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 3, None]
    frame = pl.DataFrame({"x": values}, schema={"x": pl.Int64})
    found = asked(frame, {"total": unacorda.sum("x", -(2**52), 2**52)})
    kept = [min(max(v, -(2**52)), 2**52) for v in values if v is not None]
    assert found == {"total": sum(kept)}


def test_hostile_numbers_fall_into_the_bins_of_plain_python() -> None:
    values = [-1e308, -1.0, -0.05, -0.049999999999999996, 0.05, 0.95, 1.0, 1e308, 5e-324, NAN]
    found = asked(pl.DataFrame({"x": values}), {"m": unacorda.median("x", 0, 1, resolution=0.1)})
    bins = [
        min(max(math.floor(min(max(v, -9.0), 9.0) * 10.0 + 0.5), 0), 10)
        for v in values
        if not math.isnan(v)
    ]
    assert found["m"] == {at: bins.count(at) for at in bins}


@pytest.mark.long
@in_subtests(
    ("text", "value"),
    [
        *(("7", 7), (" 7 ", 7), ("7.5", 7.5), ("-7", -7), ("7e0", 7), ("+7", 7), (".5", 0.5)),
        *(("1e99", 10), ("-1e99", -10), ("1e-99", 0), ("1" + "0" * 140, 10), ("5.", 5)),
        *(("1_0", None), ("1e400", None), ("-inf", None), ("1e-400", None), ("1e", None)),
        *(
            ("nan", None),
            ("7,5", None),
            ("0x7", None),
            ("٣", None),
            ("7 years", None),
            ("7\0", None),
        ),
        *(("", None), ("TRUE", None), ("30000,Smith HIV+", None), ("--", None), ("½", None)),
    ],
)
def test_text_is_a_number_or_absent(text: str, value: float | None) -> None:
    found = asked(
        pl.DataFrame({"x": [text]}),
        {
            "total": unacorda.sum("x", -10, 10),
            "n": unacorda.count("x + 0"),
            "all": unacorda.count(),
        },
    )
    assert found == {"total": value or 0, "n": int(value is not None), "all": 1}


# ---- lines of text -----------------------------------------------------------------------------

LINES: dict[str, tuple[bytes, list[int]]] = {
    "Windows lines": (b"id,x\r\n1,2\r\n2,3\r\n", [2, 3]),
    "old Mac lines": (b"id,x\r1,2\r2,3\r", [2, 3]),
    "mixed lines": (b"id,x\r\n1,2\n2,3\r\n", [2, 3]),
    "no last line end": (b"id,x\n1,2\n2,3", [2, 3]),
    "a byte order mark": (b"\xef\xbb\xbfid,x\n1,2\n", [2]),
    "header only": (b"id,x\n", []),
    "header without end": (b"id,x", []),
    "too few fields": (b"id,x\n1\n2,3\n", [3]),
    "too many fields": (b"id,x\n1,2,Smith\n2,3,,,\n", [2, 3]),
    "empty lines": (b"id,x\n\n1,2\n\n", [2]),
    "invalid UTF-8": (b"id,x\n1,2\n\xff\xfe,9\n\xc3(,9\n2,3\n", [2, 3]),
    "U+0000": (b"id,x\n\0,2\n1,3\n", [2, 3]),
    "an open quote": (b'id,x\n1,2\n2,"3\n3,4\n', [2]),
    "an open quote in front": (b'id,x\n1,2\n"2,3\n3,4\n', [2]),
    "a quote inside": (b'id,x\n1"1,2\n2,"3"\n', [2, 3]),
    "text behind a quote": (b'id,x\n"1"1,2\n2,3\n', [2, 3]),
    "quoted lines": (b'id,x\n"1\n1",2\n2,3\n', [2, 3]),
    "remarks": (b"#id,x\n#1,2\n2,3\n", [2, 3]),
    "a field of many megabytes": (b"id,x\n" + b"1" * 40_000_000 + b",9\n2,3\n", [3]),
    "a quoted field of many megabytes": (b'id,x\n"' + b"1\n" * 10_000_000 + b'",9\n2,3\n', [3]),
}


@pytest.mark.long
@pytest.mark.parametrize("packed", mostly_slow([False, True]), ids=["plain", "gzip"])
@in_subtests("case", LINES)
def test_lines_that_cannot_be_read_are_left_out(case: str, packed: bool, tmp_path: Path) -> None:
    """The guarantee speaks of the table as it is parsed; parsing it never fails."""
    content, values = LINES[case]
    if packed and len(content) > 1_000_000:
        content = content.replace(b"1" * 1_000, b"1" * 100).replace(b"1\n" * 1_000, b"1\n" * 100)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    column = content.removeprefix(b"\xef\xbb\xbf")[:2].decode().strip("\n,")
    name = "#id" if column == "#i" else "id"
    with opened(path) as session:
        query = session.table("t").where(f"\"{name}\" <> 'none'").agg(x=unacorda.sum("x", 0, 100))
        assert session.evaluate(query, budget=unacorda.PureDP(0.5)).columns[0] == "x"
        assert exact(session, query)["x"] == [sum(values)]


@pytest.mark.long
def test_the_same_lines_give_the_same_table_however_many_threads_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{i},{i % 7}{'' if i % 1_000 else chr(34)}" for i in range(200_000)]
    path.write_text("id,x\n" + "\n".join(lines) + "\n")
    aggregates = {"n": unacorda.count(), "x": unacorda.sum("x", 0, 10)}
    found = [asked(path, aggregates, threads=threads) for threads in (1, 2, 4, 1)]
    assert found[1:] == found[:-1]


# ---- people and keys ---------------------------------------------------------------------------


def test_one_person_who_owns_every_row_has_her_share_and_no_more() -> None:
    frame = pl.DataFrame({"id": [SECRET] * 10_000, "x": [5.0] * 10_000})
    unit = unacorda.Person("id", max_rows=3)
    aggregates = {
        "n": unacorda.count(),
        "p": unacorda.count_people(),
        "x": unacorda.sum("x", 0, 10),
    }
    assert asked(frame, aggregates, unit=unit) == {"n": 3, "p": 1, "x": 15}


def test_rows_without_an_id_are_dropped_also_where_one_of_several_is_missing() -> None:
    frame = pa.table({"a": [1, 1, None, 2, None], "b": ["x", None, "x", "x", None]})
    unit = unacorda.Person(("a", "b"), max_rows=1)
    aggregates = {"n": unacorda.count(), "p": unacorda.count_people()}
    assert asked(frame, aggregates, unit=unit) == {"n": 2, "p": 2}


def test_keys_compare_by_code_point() -> None:
    texts = ["é", "e\u0301", "E", "e", " e", "", None, "a\0b", "\U0001f600", "x" * 10_000]
    frame = pl.DataFrame({"s": texts * 2})
    keys = [*(text for text in texts if text != "a\0b"), "nobody"]
    with opened(frame) as session:
        with pytest.warns(UserWarning, match="look alike") as caught:
            query = session.table("t").group_by("s", keys=keys).agg(n=unacorda.count())
        assert not any("é" in str(warning.message) for warning in caught)
        assert exact(session, query)["n"] == [2] * (len(keys) - 1) + [0]


def test_numbers_and_their_keys_meet_whatever_type_they_have() -> None:
    for values in ([1, 2, 2, None], [1.0, 2.0, 2.0, NAN], ["1", "2", " 2 ", "two"]):
        with opened(pl.DataFrame({"k": values})) as session:
            query = session.table("t").group_by("k", keys=[2, 1, 3, None]).agg(n=unacorda.count())
            assert exact(session, query)["n"] == [2, 1, 0, 1], values


def test_python_is_left_as_it_was() -> None:
    limit, hook = sys.getrecursionlimit(), sys.excepthook
    with opened(HOSTILE["objects"], unit=unacorda.Person("id", max_rows=2)) as session:
        session.evaluate(ask(session), budget=unacorda.PureDP(0.5))
    assert (sys.getrecursionlimit(), sys.excepthook) == (limit, hook)
