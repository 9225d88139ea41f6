"""A first look is near the truth, costs no more than allowed, and is safe to show."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import Description, verify_record

import unacorda
from unacorda.errors import BudgetExceeded, InvalidParameter

PEOPLE = 4_000


def people() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    days = dt.date(2020, 1, 1)
    return pd.DataFrame(
        {
            "id": np.arange(PEOPLE),
            "age": rng.integers(18, 80, PEOPLE),
            "height": rng.normal(170, 9, PEOPLE).round(1),
            "smokes": rng.random(PEOPLE) < 0.25,
            "day": [days + dt.timedelta(days=int(k)) for k in rng.integers(0, 700, PEOPLE)],
            "county": rng.choice(["A", "B", "C"], PEOPLE, p=[0.5, 0.3, 0.2]),
            "remark": rng.choice(["fine", "12", ""], PEOPLE),
            "nothing": [None] * PEOPLE,
        }
    )


def look(path: Path, budget: unacorda.PureDP | unacorda.ZCDP, **options: object) -> Description:
    csv = path / "people.csv"
    people().to_csv(csv, index=False)
    with unacorda.Session(
        {"people": str(csv)},
        unit=unacorda.Person("id", max_rows=1),
        budget=budget,
        columns={"county": unacorda.Categories(["A", "B", "C", "D"])},
        bits=unacorda.SeededBits(3),
        **options,  # type: ignore[arg-type]
    ) as session:
        found = session.describe("people", budget=budget)
        assert session.remaining == found.remaining
        assert all(a <= b for a, b in zip(session.spent.additive, budget.additive, strict=True))
        return found


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Description:
    return look(tmp_path_factory.mktemp("look"), unacorda.PureDP(1000))


@pytest.mark.long
def test_kinds_are_voted_on_by_people(generous: Description) -> None:
    kinds = {column.name: (column.kind, column.source) for column in generous.columns}
    assert kinds == {
        "age": ("number", "vote"),
        "height": ("number", "vote"),
        "smokes": ("boolean", "vote"),
        "day": ("date", "vote"),
        "county": ("category", "declared"),
        "remark": ("text", "vote"),  # a third of its values are numbers: too few
        "nothing": ("text", "vote"),
    }


def test_with_much_budget_the_look_is_the_truth(generous: Description) -> None:
    truth, by_name = people(), {column.name: column for column in generous.columns}
    assert generous.people.value == pytest.approx(PEOPLE, abs=5)
    assert generous.rows.value == pytest.approx(PEOPLE, abs=5)
    for name in ("age", "height"):
        found = by_name[name]
        assert found.mean is not None
        assert found.range is not None
        low, high = (float(end.replace(",", "")) for end in found.range)
        assert low <= truth[name].quantile(0.02)
        assert truth[name].quantile(0.98) <= high
        assert found.found
        assert found.mean.value == pytest.approx(truth[name].mean(), abs=1)
        middle = float(found.quantiles["50%"])
        assert middle == pytest.approx(truth[name].median(), abs=2)
        assert sum(bar.count.value for bar in found.bars) == pytest.approx(PEOPLE, abs=60)
    smokes = {bar.label: bar.count.value for bar in by_name["smokes"].bars}
    assert smokes["true"] == pytest.approx(truth["smokes"].sum(), abs=10)
    counties = {bar.label: bar.count.value for bar in by_name["county"].bars}
    assert counties["A"] == pytest.approx((truth["county"] == "A").sum(), abs=10)
    assert counties["D"] == pytest.approx(0, abs=10)
    middle_day = dt.date.fromisoformat(by_name["day"].quantiles["50%"])
    ordered = sorted(truth["day"])
    assert abs((middle_day - ordered[PEOPLE // 2]).days) < 40
    assert by_name["nothing"].present is not None
    assert by_name["nothing"].present.value == pytest.approx(0, abs=5)


@pytest.mark.long
@in_subtests(
    "names", [["county"], ["county", "remark"], ["age"], ["age", "county", "smokes"]], ids=str
)
@in_subtests("typed", [True, False])
def test_no_part_of_a_pure_budget_is_left_over(
    names: list[str], typed: bool, tmp_path: Path
) -> None:
    """Columns without ranges, or without pictures, leave their shares to the others."""
    frame, path = people()[["id", *names]], tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    with unacorda.Session(
        {"t": frame if typed else str(path)},
        unit=unacorda.Person("id", max_rows=2),
        budget=unacorda.PureDP(50),
        bits=unacorda.SeededBits(1),
    ) as session:
        found = session.describe("t", budget=unacorda.PureDP(49))
        assert found.spent == unacorda.PureDP(49)
        assert session.remaining == unacorda.PureDP(1)


@pytest.mark.long
@pytest.mark.parametrize("budget", [unacorda.PureDP(1), unacorda.ZCDP("0.1")], ids=str)
def test_it_stays_within_its_budget_and_every_step_is_told(
    budget: unacorda.PureDP | unacorda.ZCDP, tmp_path: Path
) -> None:
    steps: list[tuple[int, int]] = []
    frame = people()[["id", "age", "county"]]
    with unacorda.Session(
        {"t": frame}, unit=unacorda.Person("id", max_rows=2), budget=budget * 2
    ) as session:
        found = session.describe("t", budget=budget, progress=lambda *step: steps.append(step))
        assert all(a <= b for a, b in zip(session.spent.additive, budget.additive, strict=True))
        assert found.spent == session.spent
        assert not found.reproducible
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    "budget",
    [unacorda.ApproxDP(60, 1e-4), unacorda.ZCDP(60, delta=1e-4)],
    ids=["approximate", "zCDP"],
)
def test_with_a_delta_common_values_of_text_are_found(
    budget: unacorda.ApproxDP | unacorda.ZCDP,
) -> None:
    frame = people()[["id", "county"]]
    frame["name"] = [f"person {k}" for k in range(PEOPLE)]
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("id", max_rows=1),
        budget=budget,
        columns={"county": unacorda.Text(), "name": unacorda.Text()},
        bits=unacorda.SeededBits(4),  # one of these names alone appears with probability delta
    ) as session:
        found = session.describe("t", budget=budget)
        assert all(a <= b for a, b in zip(session.spent.additive, budget.additive, strict=True))
    county, name = found.columns
    assert [bar.label for bar in county.bars] == ["A", "B", "C"]
    assert county.bars[0].count.value == pytest.approx((frame["county"] == "A").sum(), abs=50)
    assert name.bars == ()
    assert "rarer ones are missing" in str(found)


@pytest.mark.long
def test_the_same_noise_gives_the_same_look(tmp_path: Path) -> None:
    one, other = (look(tmp_path, unacorda.PureDP(1)) for _ in range(2))
    assert one == other
    assert one.reproducible
    assert "protects no one" in one.to_html()


def test_what_cannot_be_paid_is_refused_before_anything_is_spent() -> None:
    with unacorda.Session(
        {"t": people()}, unit=unacorda.Person("id", max_rows=1), budget=unacorda.PureDP(1)
    ) as session:
        with pytest.raises(BudgetExceeded):
            session.describe("t", budget=unacorda.PureDP(2))
        with pytest.raises(unacorda.errors.WrongUnit):
            session.describe("t", budget=unacorda.ZCDP(1))
        with pytest.raises(InvalidParameter, match="table"):
            session.describe("other", budget=unacorda.PureDP(1))
        with pytest.raises(InvalidParameter, match="budget"):
            session.describe("t", budget=unacorda.PureDP(0))
        assert session.spent == unacorda.PureDP(0)


def test_values_that_were_found_do_not_break_the_text() -> None:
    forged = "x\r\nspent nothing\x1b[2J\u2028"
    frame = pd.DataFrame({"id": range(90), "t": [forged] * 90})
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.ApproxDP(60, 1e-3),
        columns={"t": unacorda.Text()},
    ) as session:
        look = session.describe("t", budget=unacorda.ApproxDP(30, "1e-4"))
        query = session.table("t").group_by("t", keys=[forged]).agg(n=unacorda.count())
        release = session.evaluate(query, budget=unacorda.PureDP(9))
    assert look.columns[0].bars[0].label == forged  # plain values are as they are
    assert release.to_dicts()[0]["t"] == forged
    for text in (str(look), str(release)):
        assert "x\\r\\nspent nothing\\x1b[2J\\u2028" in text
        assert not any(line.startswith("spent nothing") for line in text.splitlines())


@pytest.mark.long
def test_columns_may_have_any_name() -> None:
    names = ["n", "n_se", "n_", "people", 'a"b']
    frame = pd.DataFrame({"value": range(60)} | {name: ["a", "b", "c"] * 20 for name in names})
    frame["x"] = range(60)
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("value", max_rows=1),
        budget=unacorda.PureDP(1000),
        columns={name: unacorda.Categories(["a", "b", "c"]) for name in names},
    ) as session:
        found = session.describe("t", budget=unacorda.PureDP(1000))
    for column in found.columns[:-1]:
        assert [round(bar.count.value) for bar in column.bars] == [20, 20, 20], column.name
    assert verify_record(found.to_json()).holds


def test_a_table_of_ids_alone_has_nothing_to_describe() -> None:
    with (
        unacorda.Session(
            {"t": people()[["id"]]},
            unit=unacorda.Person("id", max_rows=1),
            budget=unacorda.PureDP(1),
        ) as session,
        pytest.raises(InvalidParameter, match="more columns than the person's"),
    ):
        session.describe("t", budget=unacorda.PureDP(1))


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and whether tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_names_cannot_break_out_of_it() -> None:
    wicked = '<script>alert("x")</script>&"'
    frame = pd.DataFrame({"id": range(50), wicked: range(50), "<b>": ["a"] * 50})
    with unacorda.Session(
        {"<i>t</i>": frame},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(1),
        columns={"<b>": unacorda.Categories(["a", "</svg><script>"])},
    ) as session:
        html = session.describe("<i>t</i>", budget=unacorda.PureDP(1)).to_html()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    kinds = {tag for tag, _ in tags.seen}
    assert not kinds & {"script", "i", "b", "link", "img", "iframe", "object"}
    assert {"svg", "rect", "section", "table"} <= kinds
    assert not any({"src", "href", "onload"} & set(attributes) for _, attributes in tags.seen)
    assert "http" not in html
    assert "url(" not in html


@pytest.mark.long
def test_it_is_plain_values_and_plain_text(generous: Description) -> None:
    plain = json.loads(generous.to_json())
    assert [column["name"] for column in plain["columns"]] == [c.name for c in generous.columns]
    text = str(generous)
    assert text.isprintable() or "\n" in text
    for column in generous.columns:
        assert f"\n{column.name}: {column.kind}" in text
    assert "by a private vote" in text
    assert "found privately" in text


def test_columns_of_other_types_and_single_rows_are_described() -> None:
    frame = pa.table({"x": [1.5, 2.5], "tags": [["a"], ["b"]]})
    with unacorda.Session({"t": frame}, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
        found = session.describe("t", budget=unacorda.PureDP(1))
    assert [(c.name, c.kind) for c in found.columns] == [("x", "number"), ("tags", "other")]


@pytest.mark.long
def test_bars_of_whole_numbers_hold_as_many_of_them_each() -> None:
    month, day = (
        [1 + place % 12 for place in range(1_240)],
        [1 + place % 31 for place in range(1_240)],
    )
    born = [dt.date(2024, 1, 1) + dt.timedelta(days=place % 31) for place in range(1_240)]
    frame = pa.table({"month": month, "day": day, "born": born, "share": [m / 12 for m in month]})
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(10**5),
        columns={
            "month": unacorda.Bounds(1, 12),
            "day": unacorda.Bounds(1, 31),
            "share": unacorda.Bounds(0, 1),
        },
    ) as session:
        look = session.describe("t", budget=unacorda.PureDP(10**5))
    bars = {column.name: column.bars for column in look.columns}
    assert [bar.label for bar in bars["month"]] == [str(number) for number in range(1, 13)]
    assert {round(bar.count.value) for bar in bars["month"]} <= {103, 104}
    assert [bar.label for bar in bars["day"][-2:]] == ["29 to 30", "31"]
    assert [round(bar.count.value) for bar in bars["day"][-2:]] == [80, 40]
    assert len(bars["share"]) == 20
    assert sum(round(bar.count.value) for bar in bars["born"]) == 1_240


@pytest.mark.long
def test_missing_values_are_shown_apart_from_the_lowest_bar() -> None:
    frame = people()
    frame["age"] = frame["age"].astype("Int64").mask(frame.index % 5 == 0)
    frame["height"] = frame["height"].mask(frame.index % 4 == 0)
    frame["smokes"] = frame["smokes"].astype("boolean").mask(frame.index % 3 == 0)
    frame["county"] = frame["county"].mask(frame.index % 10 == 0)
    frame["remark"] = frame["remark"].mask(frame.index % 2 == 0)
    columns: dict[str, unacorda.Bounds | unacorda.Categories] = {
        "age": unacorda.Bounds(18, 80),
        "height": unacorda.Bounds(140, 200),
        "county": unacorda.Categories(["A", "B", "C"]),
    }
    with unacorda.Session(
        {"people": frame.drop(columns=["day", "nothing"])},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.ZCDP(10_000, delta="1e-6"),
        columns=columns,
        bits=unacorda.SeededBits(3),
    ) as session:
        found = session.describe("people", budget=session.budget)
    by_name = {column.name: column for column in found.columns}
    for name in ("age", "height", "smokes", "county", "remark"):
        column, lacking = by_name[name], int(frame[name].isna().sum())
        assert column.missing is not None
        assert column.missing.value == pytest.approx(lacking, abs=10)
        assert sum(bar.count.value for bar in column.bars) == pytest.approx(
            PEOPLE - lacking, abs=30
        )
    lowest = int((frame["age"] < 22).sum())  # 63 whole numbers: four a bar
    assert by_name["age"].bars[0].count.value == pytest.approx(lowest, abs=10)
    assert re.search(r"missing +\d", str(found))
    assert "people with a missing value" in found.to_html()
    assert verify_record(found.to_json()).holds


@pytest.mark.long
def test_a_look_at_few_people_says_that_its_noise_is_large() -> None:
    frame = pd.DataFrame({"x": [float(n) for n in range(50)]})
    with unacorda.Session(
        {"t": frame}, unit=unacorda.Row(), budget=unacorda.PureDP(200)
    ) as session:
        rough = session.describe("t", budget=unacorda.PureDP("0.1"))
        sharp = session.describe("t", budget=unacorda.PureDP(100))
    assert "The noise is large for this number of people" in str(rough)
    assert rough.warning
    assert rough.warning in rough.to_html()
    assert sharp.warning == ""


def test_votes_that_noise_hides_decide_nothing(tmp_path: Path) -> None:
    # With noise of hundreds of people a column of 50 people could be of any type.
    file = tmp_path / "few.csv"
    pd.DataFrame({"id": range(50), "age": [20 + i % 60 for i in range(50)]}).to_csv(
        file, index=False
    )
    for seed in range(3):
        with unacorda.Session(
            {"few": str(file)},
            unit=unacorda.Person("id", max_rows=1),
            budget=unacorda.PureDP(1),
            bits=unacorda.SeededBits(seed),
        ) as session:
            found = session.describe("few", budget=unacorda.PureDP("0.01"), only=["age"])
        (age,) = found.columns
        assert (age.kind, age.range) == ("text", None)
        assert "noise hides its type" in str(found)
        assert age.present is not None
        for count in (age.present, found.people, found.rows):  # in its interval, no end below 0
            assert count.low is not None
            assert count.high is not None
            assert 0 <= count.low <= count.value <= count.high
            assert count.low < count.high


def test_numbers_within_the_noise_are_not_printed_as_findings() -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5]})
    bounds = {"x": unacorda.Bounds(0, 10)}
    with unacorda.Session(
        {"t": frame}, unit=unacorda.Row(), budget=unacorda.PureDP(1), columns=bounds
    ) as session:
        found = session.describe("t", budget=unacorda.PureDP(1))
    (column,) = found.columns
    column = dataclasses.replace(
        column, source="vote", kind="date", quantiles={"50%": "9909-12-07"}, intervals={}
    )
    changed = dataclasses.replace(found, columns=(column,))
    for text in (str(changed), changed.to_html()):
        assert "date, by a private vote" in text
        assert "9909" not in text
        assert "no usable interval" in text


def test_a_mean_of_which_nothing_is_known_is_no_usable_answer() -> None:
    frame = pd.DataFrame({"id": range(30), "x": [i * 0.37 for i in range(30)]})
    bounds = {"x": unacorda.Bounds("0.1", "10.3")}  # no multiples of the unit that means have
    with unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(10),
        columns=bounds,
        bits=unacorda.SeededBits(3),
    ) as session:
        rough = session.describe("t", budget=unacorda.PureDP("0.01"))
        fine = session.describe("t", budget=unacorda.PureDP(9))
    assert [len(re.findall("mean +no usable answer", str(look))) for look in (rough, fine)] == [
        1,
        0,
    ]
