"""Explanations: what is said before anything is spent, and what an assumption adds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter


@pytest.fixture
def session(tmp_path: Path) -> Iterator[unacorda.Session]:
    path = tmp_path / "visits.csv"
    path.write_text("id,age,sex\n1,30,F\n2,41,M\n3,,F\n")
    with unacorda.Session(
        {"visits": str(path)}, unit=unacorda.Person("id", max_rows=2), budget=PureDP(1)
    ) as opened:
        yield opened


def test_what_is_left_is_said_and_a_refusal_foretold(session: unacorda.Session) -> None:
    query = session.table("visits").agg(n=unacorda.count())
    modest = session.explain(query, budget=PureDP("0.25"))
    assert (modest.affordable, modest.left) == (True, PureDP(1))
    assert "What is left: epsilon 1" in str(modest)
    bold = session.explain(query, budget=PureDP(5))
    assert not bold.affordable
    assert "would be refused" in str(bold)
    assert session.spent == PureDP(0)


def test_a_select_is_explained_like_its_question(session: unacorda.Session) -> None:
    text = "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 18 GROUP BY sex"
    built = session.table("visits").where("age > 18").group_by("sex", keys=["F", "M"])
    assert str(
        session.explain(text, budget=PureDP(1), keys={"sex": ["F", "M"]}, detail=True)
    ) == str(session.explain(built.agg(n=unacorda.count()), budget=PureDP(1), detail=True))


def test_untyped_text_says_how_it_is_read(session: unacorda.Session) -> None:
    query = session.table("visits").where("age > 18").agg(n=unacorda.count())
    assert session.explain(query, budget=PureDP(1)).rows[0] == (
        "read age as number; what does not convert is missing"
    )


@pytest.mark.long
def test_an_assumption_is_named_where_an_error_rests_on_it(session: unacorda.Session) -> None:
    query = session.table("visits").agg(
        m=unacorda.mean("age", 0, 100), p=unacorda.median("age", 0, 100)
    )
    bare = session.explain(query, budget=PureDP(1))
    assert (bare.standard_error("m"), bare.standard_error("p")) == (None, None)
    assume = unacorda.Assume(rows=1_700, values={"age": [20, 40, 60]})
    text = str(session.explain(query, budget=PureDP(1), assuming=assume, detail=True))
    assert text.count("expected error, assuming 1,700 rows") == 2
    assert "by rows in the cell" not in text
    only_rows = session.explain(query, budget=PureDP(1), assuming=unacorda.Assume(rows=1_700))
    worst, middle = (
        only_rows.standard_error("m"),
        session.explain(
            query, budget=PureDP(1), assuming=unacorda.Assume(rows=1_700, values={"age": [50]})
        ).standard_error("m"),
    )
    assert worst is not None
    assert middle is not None
    assert worst == pytest.approx(middle * 2**0.5, rel=0.02)
    assert only_rows.standard_error("p") is None


@pytest.mark.parametrize("assuming", [1_700, {"rows": 1_700}, "many"])
def test_what_is_no_assumption_is_refused(session: unacorda.Session, assuming: Any) -> None:
    query = session.table("visits").agg(m=unacorda.mean("age", 0, 100))
    with pytest.raises(InvalidParameter, match=r"unacorda\.Assume"):
        session.explain(query, budget=PureDP(1), assuming=assuming)


def test_an_assumed_column_that_nobody_asks_about_is_refused(session: unacorda.Session) -> None:
    query = session.table("visits").agg(m=unacorda.mean("age", 0, 100))
    with pytest.raises(InvalidParameter, match=r"'aeg'.*age"):
        session.explain(
            query, budget=PureDP(1), assuming=unacorda.Assume(rows=5, values={"aeg": [1.0]})
        )


def test_a_question_reads_like_what_made_it(session: unacorda.Session) -> None:
    query = session.table("visits").where("age > 18").derive(h="age / 2")
    query = query.group_by("sex", keys=["F"]).agg(n=unacorda.count())
    assert repr(query) == (
        "table('visits').where('\"age\" > 18').derive(h='\"age\" / 2').group_by('sex'; 1 keys)"
        ".agg(n)"
    )


def test_errors_that_are_missing_are_floats_in_frames(session: unacorda.Session) -> None:
    query = session.table("visits").agg(p=unacorda.median("age", 0, 100))
    release = session.evaluate(query, budget=PureDP(1))
    frame = release.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert {str(frame[f"p_{end}"].dtype) for end in ("se", "low", "high")} == {"float64"}
    assert str(release.to_polars().schema["p_se"]) == "Float64"


def _steps_where(session: unacorda.Session, condition: str) -> tuple[str, ...]:
    query = session.table("visits").where(condition).agg(n=unacorda.count())
    return session.explain(query, budget=PureDP(1)).rows


def test_untyped_text_that_is_compared_as_text_is_named(session: unacorda.Session) -> None:
    assert "read age as text, which is compared as text" in _steps_where(session, "age > '9'")
    grouped = session.table("visits").group_by("sex", keys=["F"]).agg(n=unacorda.count())
    assert "read sex as text" in session.explain(grouped, budget=PureDP(1)).rows


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("age BETWEEN '01.07.2025' AND '31.12.2025'", 'CAST("age" AS DATE)'),
        ("'1/7/2025' < age", "TRY_STRPTIME(\"age\", '%d/%m/%Y')"),
        ("sex = 'F' AND NOT age IN ('01.07.2025')", "DATE '2024-01-31'"),
        ("age > '9'", "write a number without quotes"),
    ],
)
def test_texts_that_look_like_dates_or_numbers_get_a_hint(
    session: unacorda.Session, condition: str, hint: str
) -> None:
    query = session.table("visits").where(condition).agg(n=unacorda.count())
    told = session.explain(query, budget=PureDP(1))
    assert len(told.texts) == 1
    assert hint in told.texts[0]
    assert told.texts[0] in str(told)
    assert told.texts[0] in told.rows
    assert told.texts[0] in session.evaluate(query, budget=PureDP("0.01")).readings


def test_a_hint_is_given_for_conditions_of_one_aggregate_too(session: unacorda.Session) -> None:
    query = "SELECT COUNT(*) FILTER (WHERE age > '01.07.2025') AS n FROM visits"
    assert "not as a date" in session.explain(query, budget=PureDP(1)).texts[0]


@pytest.mark.parametrize(
    "condition",
    [
        "age > '2025-07-01'",
        "sex = '9'",
        "age > 9",
        "STRFTIME(CAST(age AS DATE), '%d.%m.%Y') = '01.07.2025'",
    ],
)
def test_other_texts_get_no_hint(session: unacorda.Session, condition: str) -> None:
    query = session.table("visits").where(condition).agg(n=unacorda.count())
    assert session.explain(query, budget=PureDP(1)).texts == ()


def test_counts_say_which_texts_they_count(session: unacorda.Session) -> None:
    visits = session.table("visits")
    query = visits.agg(a=unacorda.count("age"), b=unacorda.count("age + 1"), c=unacorda.count())
    assert session.explain(query, budget=PureDP(1)).texts == (
        "a: every text in age counts, such as 'n/a'; declare Bounds of age to count numbers only",
        "b: values of age that are no number are not counted",
    )


def test_a_count_of_a_declared_column_counts_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("id,age,sex\n1,30,F\n2,n/a,M\n")
    facts: dict[str, Any] = {"age": unacorda.Bounds(0, 100), "sex": unacorda.Text()}
    with unacorda.Session(
        {"visits": str(path)}, unit=unacorda.Row(), budget=PureDP(100), columns=facts
    ) as opened:
        query = opened.table("visits").agg(a=unacorda.count("age"), b=unacorda.count("sex"))
        release = opened.evaluate(query, budget=PureDP(100))
    assert release["a"] == [1]
    assert release.readings == ("a: values of age that are no number are not counted",)


def test_no_usable_answer_says_that_other_texts_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text('id,size\n1,"171,3"\n2,"168,0"\n')
    told = {}
    for sizes in (str(path), pd.DataFrame({"id": [1, 2], "size": [171.3, 168.0]})):
        with unacorda.Session({"visits": sizes}, unit=unacorda.Row(), budget=PureDP(1)) as opened:
            query = opened.table("visits").agg(m=unacorda.mean("size", 100, 220))
            legend = opened.evaluate(query, budget=PureDP("0.001")).legend
        told[type(sizes)] = [line for line in legend if line.startswith("no usable answer")]
    assert told[str][0].endswith(
        "Texts of size that are no plain values, such as '1,5' among numbers, count as missing"
    )
    assert told[pd.DataFrame] == [told[str][0].partition(". Texts")[0]]


def test_a_condition_that_is_too_long_once_written_out_is_answered(
    session: unacorda.Session,
) -> None:
    condition = " OR ".join(["age='01.07.2025'"] * 480)
    assert len(condition) < 10_000
    query = session.table("visits").where(condition).agg(n=unacorda.count())
    assert len(query.to_json()) > 10_000
    (hint,) = session.evaluate(query, budget=PureDP("0.1")).readings
    assert hint.startswith("\"age\" is compared as text with '01.07.2025', not as a date")
