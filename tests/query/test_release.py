"""The answer in every shape: the same numbers, aligned text, and what mending does to them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.query.exact_answers import opened
from tests.support.seams import NOTHING, Release

import unacorda
from unacorda.errors import InvalidParameter, MissingExtra
from unacorda.privacy.events import from_json
from unacorda.privacy.guarantees import PureDP

FRAME = pl.DataFrame(
    {
        "id": list(range(2_000)),
        "age": [i % 90 for i in range(2_000)],
        "income": [float(i * 13 % 90_000) for i in range(2_000)],
        "county": ["Aberdeen", "Bute", "Caithness", None] * 500,
        "born": [dt.date(1950 + i % 2, 1, 1) for i in range(2_000)],
        "smokes": [i % 3 == 0 for i in range(2_000)],
    }
)
COUNTIES = ["Aberdeen", "Bute", "Caithness", None, "nowhere"]


def released(epsilon: float = 1, **aggregates: Any) -> Release:
    asked = aggregates or {
        "n": unacorda.count(),
        "people": unacorda.count_people(),
        "income": unacorda.sum("income", 0, 90_000),
        "mean_age": unacorda.mean("age", 0, 120),
        "p50": unacorda.median("age", 0, 120, interval=0.5),
        "p90": unacorda.quantile("age", 0.9, 0, 120),
    }
    with opened(FRAME, unit=unacorda.Person("id", max_rows=1), budget=PureDP(epsilon)) as session:
        query = session.table("t").group_by("county", keys=COUNTIES).agg(**asked)
        return session.evaluate(query, budget=PureDP(epsilon))


@pytest.mark.long
def test_every_format_holds_the_same_table() -> None:
    release = released()
    rows = release.to_dicts()
    assert [row["county"] for row in rows] == COUNTIES
    assert tuple(rows[0]) == release.columns
    assert release.columns[:5] == ("county", "n", "n_se", "n_low", "n_high")
    assert release.to_polars().to_dicts() == rows
    assert release.to_arrow().to_pylist() == rows
    assert json.loads(release.to_json())["rows"] == rows
    frame = release.to_pandas()
    assert tuple(frame.columns) == release.columns
    for row, found in zip(rows, frame.to_dict("records"), strict=True):
        for name, value in row.items():
            got = found[name]
            missing = got is None or (isinstance(got, float) and math.isnan(got))
            assert missing if value is None else got == value


def test_kinds_of_numbers_survive() -> None:
    release = released()
    schema = release.to_arrow().schema
    assert schema.field("n").type == pa.int64()
    assert schema.field("people").type == pa.int64()
    assert schema.field("income").type == schema.field("n_se").type == pa.float64()
    assert schema.field("p50_low").type == pa.float64()
    *groups, nowhere = release["p90_low"]
    assert groups == [None] * 4
    assert nowhere == 0  # of too few rows for a rank to be known: the whole range
    assert all(row["p50_se"] is None for row in release.to_dicts())


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("born", [dt.date(1951, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        ("smokes", [True, None, False]),
        ("age", [5, None, -7, 2**52]),
        ("county", ["", "two\nlines", "\U0001f600", 'quote"', None]),
    ],
)
def test_keys_of_every_kind_leave_as_they_were_given(column: str, keys: list[Any]) -> None:
    with opened(FRAME) as session:
        query = session.table("t").group_by(column, keys=keys).agg(n=unacorda.count())
        release = session.evaluate(query, budget=PureDP(1))
    assert [row[column] for row in release.to_dicts()] == keys
    assert release.to_arrow()[column].to_pylist() == keys
    assert release.to_polars()[column].to_list() == keys
    assert len(json.loads(release.to_json())["rows"]) == len(keys)
    assert str(release)


def test_the_json_text_describes_how_it_was_made() -> None:
    release = released()
    told = json.loads(release.to_json())
    assert from_json(json.dumps(told["event"])) == release.event
    assert told["spent"] == repr(PureDP(1))
    assert told["remaining"] == repr(PureDP(0))
    assert told["salt"] == release.salt
    assert len(told["salt"]) == 32
    assert told["reproducible"] is True
    assert told["query"]["aggregates"]["mean_age"]["kind"] == "mean"
    assert told["query"]["unit"]["max_rows"] == 1
    assert told["digest"] == release.query.digest()
    assert told["software"]["unacorda"] == unacorda.__version__
    assert Release.verify(release.to_json()).holds
    assert list(told["provenance"]) == list(release.provenance)


def test_printed_it_is_an_aligned_table_of_moderate_width() -> None:
    text = str(released())
    lines = text.splitlines()
    assert lines[0].split() == ["county", "n", "people", "income", "mean_age", "p50", "p90"]
    assert lines[-1] == "spent epsilon 1; epsilon 1 used up"
    table, notes = lines[: 1 + len(COUNTIES)], lines[1 + len(COUNTIES) : -1]
    assert [note.partition(":")[0] for note in notes] == [
        "*",
        NOTHING,
        "income is clamped to [0, 90000]",
        "mean_age, p50, p90",
        "p90",
        "Answers are those on the kept rows (at most 1 per id)",
    ]
    assert len({len(line) for line in table}) == 1
    assert max(len(line) for line in lines) <= 120
    assert "NULL" in text
    assert all("±" in line or NOTHING in line for line in table[1:])
    assert repr(released()) == text


def test_many_rows_are_cut_and_counted() -> None:
    with opened(FRAME) as session:
        query = session.table("t").group_by("age", keys=range(90)).agg(n=unacorda.count())
        release = session.evaluate(query, budget=PureDP(1))
    lines = str(release).splitlines()
    assert lines[-2] == "... and 30 more rows"
    assert len(lines) == 1 + 60 + 2
    assert len(release.to_dicts()) == 90


def test_clamped_mends_what_cannot_be_and_nothing_else() -> None:
    raw = released(0.01)
    mended = raw.clamped()
    limits = {"n": (0, math.inf), "people": (0, math.inf), "income": (0, math.inf)}
    changed = 0
    for name, answer in raw.answers.items():
        low, high = limits.get(name, (0, 120))
        for before, after in zip(answer.values, mended.answers[name].values, strict=True):
            assert after == min(max(before, low), high)
            changed += before != after
        assert mended.answers[name].standard_errors == answer.standard_errors
        for ends in (mended.answers[name].lower, mended.answers[name].upper):
            assert all(end is None or low <= end <= high for end in ends)
    assert changed >= 3
    assert mended.clamped().to_dicts() == mended.to_dicts()
    assert mended.charge == raw.charge
    assert "±" in str(mended) or "to" in str(mended)


@pytest.mark.parametrize(
    ("lower", "upper", "limits"),
    [(0, 9, (0, math.inf)), (-9, 0, (-math.inf, 0)), (-9, 9, (-math.inf, math.inf))],
)
def test_a_sum_keeps_the_sign_that_its_bounds_give_it(
    lower: int, upper: int, limits: tuple[float, float]
) -> None:
    values = released(0.01, s=unacorda.sum("age", lower, upper)).clamped().answers["s"].values
    assert all(limits[0] <= value <= limits[1] for value in values)


def test_an_answer_holds_at_least_one_aggregate() -> None:
    with opened(FRAME) as session:
        with pytest.raises(InvalidParameter):
            session.table("t").agg()
        with pytest.raises(InvalidParameter):
            session.evaluate(session.table("t"), budget=PureDP(1))
        assert session.spent == PureDP(0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    release = released()
    for package, convert in (
        ("pandas", release.to_pandas),
        ("polars", release.to_polars),
        ("pyarrow", release.to_arrow),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, package, None)
            with pytest.raises(MissingExtra, match=r"pip install 'unacorda\[frames\]'") as caught:
                convert()
            assert caught.value.package == package


def test_a_release_cannot_be_changed() -> None:
    release = released()
    with pytest.raises(AttributeError):
        release.salt = "0"  # type: ignore[misc]
    for rows in (release.to_dicts(), release.to_dicts()):
        rows[0]["n"] = "changed"
    assert release.to_dicts()[0]["n"] != "changed"
