"""Synthetic tables of sessions: cells of rows, bounds on people, budgets and refusals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pytest

import unacorda
from unacorda import GDP, ZCDP, AddRemove, ApproxDP, PureDP, SeededBits
from unacorda.accounting.prices import price
from unacorda.errors import BudgetExceeded, InvalidParameter, WrongUnit
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.tables import CodedRows

NO_NOISE = ZCDP(1_000_000)
PRIVATE_OF_TWO = unacorda.private_keys(max_groups=2)
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
FACTS = {
    "county": unacorda.Categories(["A", "B"]),
    "age": unacorda.Bounds(0, 120),
    "day": unacorda.Categories(DAYS),
    "cost": unacorda.Bounds(0, 1000),
}


COLUMNS = ["county", "age", "pregnant", "cost"]
BINS: dict[str, Any] = {"age": [0, 18, 65, 120], "cost": range(0, 1001, 250)}


def visits() -> pandas.DataFrame:
    generator = np.random.default_rng(1)
    rows = 900
    county = generator.choice(["A", "B", "C"], size=rows, p=[0.5, 0.4, 0.1]).astype(object)
    county[:20] = None
    age = generator.integers(0, 100, size=rows).astype(float)
    age[5:25] = np.nan
    return pandas.DataFrame(
        {
            "patient": generator.integers(0, 300, size=rows),
            "county": county,
            "age": age,
            "pregnant": (generator.random(rows) < 0.3) & (county == "A"),
            "day": generator.choice(np.array(DAYS, dtype=object), size=rows),
            "cost": np.where(age > 50, 700.0, 20.5) + generator.random(rows),
        }
    )


@pytest.fixture(scope="module")
def table() -> pandas.DataFrame:
    return visits()


def opened(table: Any, **given: Any) -> unacorda.Session:
    choices: dict[str, Any] = {
        "unit": unacorda.Row(),
        "budget": NO_NOISE * 2,
        "columns": FACTS,
        "bits": SeededBits(1),
    }
    return unacorda.Session({"visits": table}, **choices | given)


def made(session: unacorda.Session, budget: Any, columns: Any, **given: Any) -> SyntheticTable:
    """A synthetic table of all visits."""
    return session.evaluate(session.table("visits").synthesize(columns, **given), budget=budget)


def counts_of(found: SyntheticTable, name: str) -> list[float]:
    """As they were measured, of one column."""
    counts: list[float] = found.marginals[found.plan.domain.places([name])].counts.tolist()
    return counts


def test_rows_fall_into_the_cells_of_their_values(table: pandas.DataFrame) -> None:
    columns = ["county", "age", "pregnant", "day", "cost > 100", "cost"]
    bins: Any = {"age": [0, 18, 65, 120], "cost": range(0, 1001, 250)}
    with opened(table) as session:
        found = made(session, NO_NOISE, columns, bins=bins, workload=2)
    county, age, pregnant, day, *_ = found.plan.domain.columns
    assert isinstance(county, CategoryColumn)
    assert isinstance(age, BinnedColumn)
    assert county.labels == ("A", "B", "other")
    assert age.labels == ("[0, 18)", "[18, 65)", "[65, 120]", None)
    assert pregnant.labels == (False, True, None)
    assert day.labels == (*DAYS, "other")
    seen = table["county"]
    expected = [sum(seen == "A"), sum(seen == "B"), sum((seen == "C") | seen.isna())]
    assert counts_of(found, "county") == expected
    ages = table["age"]
    expected = [sum(ages < 18), sum((ages >= 18) & (ages < 65)), sum(ages >= 65), sum(ages.isna())]
    assert counts_of(found, "age") == expected
    assert counts_of(found, "pregnant") == [sum(~table["pregnant"]), sum(table["pregnant"]), 0]
    assert counts_of(found, "day") == [*(sum(table["day"] == one) for one in DAYS), 0]
    assert counts_of(found, "cost > 100") == [
        sum(table["cost"] <= 100),
        sum(table["cost"] > 100),
        0,
    ]
    assert counts_of(found, "cost") == [sum(table["cost"] < 250), 0, sum(table["cost"] > 250), 0, 0]
    assert len(found.codes) == len(table)
    assert found.errors is not None
    assert found.errors.mean.error < 0.05
    rows = found.to_pandas()
    assert list(rows) == columns
    assert set(rows["county"]) <= {"A", "B", "other"}
    assert rows["age"].dropna().between(0, 120).all()


def test_questions_with_conditions_and_derived_columns_are_synthesized(
    table: pandas.DataFrame,
) -> None:
    with opened(table) as session:
        asked = session.table("visits").where("age >= 18").derive(old="age >= 65", half="age / 2")
        wanted = asked.synthesize(["old", "half", "county"], bins={"half": [0, 30, 60]})
        found = session.evaluate(wanted, budget=NO_NOISE)
    adults = table[table["age"] >= 18]
    assert counts_of(found, "old") == [sum(adults["age"] < 65), sum(adults["age"] >= 65), 0]
    assert counts_of(found, "half") == [sum(adults["age"] < 60), sum(adults["age"] >= 60), 0]


def test_texts_and_values_with_odd_signs_are_listed_by_bins() -> None:
    odd = ["it's", 'a "b"', "other", "x"]
    table = pandas.DataFrame({"t": odd * 50 + [None] * 7})
    with opened(table, columns={}) as session:
        found = made(session, NO_NOISE, ["t"], bins={"t": [*odd[:3], None]})
    assert found.plan.domain.columns[0].labels == (*odd[:3], None, "(other)")
    assert counts_of(found, "t") == [50, 50, 50, 7, 50]


def test_people_have_no_more_rows_than_their_bound(table: pandas.DataFrame) -> None:
    many = pandas.concat([table, table[table["patient"] == 7]] * 20, ignore_index=True)
    unit = unacorda.Person("patient", max_rows=2)
    with opened(many, unit=unit) as session:
        found = made(session, NO_NOISE, ["county"])
    people = table["patient"].nunique()
    assert sum(counts_of(found, "county")) == 2 * people  # all have two, as each row came often


@pytest.mark.parametrize("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_the_noise_is_that_of_the_bound_and_the_relation(
    table: pandas.DataFrame, neighbors: Any
) -> None:
    deviations = []
    for most in (1, 4):
        unit = unacorda.Person("patient", max_rows=most, neighbors=neighbors)
        with opened(table, unit=unit) as session:
            found = made(session, ZCDP("0.02"), ["county"], report=0)
        deviations.append(found.marginals[(0,)].variance ** 0.5)
    factor = 2**0.5 if neighbors is unacorda.ReplaceOne else 1
    assert deviations == pytest.approx([5 * factor, 20 * factor], rel=1e-3)


BUDGETS = [
    (ZCDP("0.1"), ZCDP(1)),
    (PureDP(1), PureDP(2)),
    (ApproxDP(1, "1e-7"), ApproxDP(2, "1e-6")),
    (PureDP(1), ZCDP(1)),
]


@pytest.mark.parametrize(("budget", "whole"), BUDGETS)
def test_the_account_is_charged_with_the_request(
    table: pandas.DataFrame, budget: Any, whole: Any
) -> None:
    with opened(table, budget=whole) as session:
        found = made(session, budget, ["county", "day"])
        cost = whole - session.remaining
    assert cost.additive[0] > 0
    if type(budget) is type(whole):
        assert cost <= budget
    else:
        assert cost <= ZCDP("0.5")
    assert len(found.codes) == pytest.approx(900, abs=300)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_run_that_is_stopped_stays_spent(table: pandas.DataFrame, rounds: int) -> None:
    seen: list[Any] = []

    def stop(summary: Any) -> None:
        seen.append(summary)
        if len(seen) == rounds:
            raise KeyboardInterrupt

    with opened(table, budget=ZCDP(1)) as session:
        with pytest.raises(KeyboardInterrupt):
            made(session, ZCDP("0.75"), ["county", "day"], watch=stop)
        assert session.remaining == ZCDP("0.25")
        with pytest.raises(BudgetExceeded):
            made(session, ZCDP("0.75"), ["county", "day"])
        assert session.remaining == ZCDP("0.25")


REFUSED: list[tuple[str, Callable[[unacorda.Session], Any]]] = [
    ("columns", lambda s: made(s, ZCDP(1), ["name"])),
    ("columns", lambda s: made(s, ZCDP(1), [])),
    ("columns", lambda s: made(s, ZCDP(1), "age")),
    ("columns", lambda s: made(s, ZCDP(1), ["height"])),
    ("bins", lambda s: made(s, ZCDP(1), ["age"])),
    ("edges", lambda s: made(s, ZCDP(1), ["age"], bins={"age": [3, 1]})),
    ("edges", lambda s: made(s, ZCDP(1), ["age"], bins={"age": [0, float("nan")]})),
    ("bins", lambda s: made(s, ZCDP(1), ["age"], bins={"age": 0})),
    ("bins", lambda s: made(s, ZCDP(1), ["age"], bins={"age": 10_001})),
    ("bins", lambda s: made(s, ZCDP(1), ["free"], bins={"free": 5})),
    ("bins", lambda s: made(s, ZCDP(1), ["county"], bins={"age": 3})),
    ("bins", lambda s: made(s, ZCDP(1), ["seen"], bins={"seen": 5})),
    ("bins", lambda s: made(s, ZCDP(1), ["seen"], bins={"seen": ["2024-13-01", "2025-01-01"]})),
    ("bins", lambda s: made(s, ZCDP(1), ["seen"])),
    ("bins", lambda s: made(s, ZCDP(1), ["name"], bins={"name": PRIVATE_OF_TWO})),
    ("budget", lambda s: made(s, ZCDP(1), ["name"], bins={"name": unacorda.private_keys()})),
    ("budget", lambda s: made(s, PureDP(1), ["name"], bins={"name": unacorda.private_keys()})),
    ("budget", lambda s: made(s, GDP(1), ["name"], bins={"name": unacorda.private_keys()})),
    ("finding", lambda s: made(s, ZCDP(1), ["county"], finding=1)),
    ("workloads", lambda s: made(s, ZCDP(1), ["county"], workloads=1)),
    ("scores", lambda s: made(s, ZCDP(1), ["county"], scores="soft")),
    ("never", lambda s: made(s, ZCDP(1), ["cost"], bins={"cost": 5}, never=["cost < 500"])),
    ("never", lambda s: made(s, ZCDP(1), ["county"], never="county = 'A'")),
    ("table", lambda s: s.evaluate(s.table("people").synthesize(["county"]), budget=ZCDP(1))),
    ("synthesize", lambda s: s.table("visits").agg(n=unacorda.count()).synthesize(["county"])),
    ("budget", lambda s: made(s, ZCDP(0), ["county"])),
    (
        "workload",
        lambda s: made(s, ZCDP(1), ["age", "county"], bins={"age": 100}, max_cells=200),
    ),
    (
        "weights",
        lambda s: s.evaluate(
            s.table("visits").synthesize(["county"]),  # type: ignore[call-overload]
            budget=ZCDP(1),
            weights=[1],
        ),
    ),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_cannot_be_synthesized_is_refused_for_nothing(
    table: pandas.DataFrame, place: int
) -> None:
    argument, ask = REFUSED[place]
    more = table.assign(name="Ann", free=table["age"], seen="2024-02-03")
    with opened(more, columns=FACTS | {"seen": unacorda.Dates()}) as session:
        with pytest.raises(InvalidParameter) as caught:
            ask(session)
        assert caught.value.argument == argument
        assert session.remaining == NO_NOISE * 2


@pytest.mark.parametrize(
    ("budget", "example"),
    [(ZCDP(1), "ZCDP(0.1, 1e-6)"), (GDP(1), "GDP(0.5, 1e-6)"), (PureDP(1), "ApproxDP(1, 1e-6)")],
)
def test_a_budget_without_delta_for_texts_says_which_has_one(
    table: pandas.DataFrame, budget: Any, example: str
) -> None:
    with (
        opened(table.assign(name="Ann"), budget=budget) as session,
        pytest.raises(InvalidParameter) as caught,
    ):
        made(session, budget, ["name"], bins={"name": unacorda.private_keys()})
    assert example in str(caught.value)


def test_an_unknown_argument_names_the_nearest(table: pandas.DataFrame) -> None:
    with opened(table) as session, pytest.raises(InvalidParameter, match="did you mean workload"):
        session.table("visits").synthesize(["county"], workloads=2)


def test_budgets_of_other_units_are_refused(table: pandas.DataFrame) -> None:
    with opened(table, budget=PureDP(1)) as session, pytest.raises(WrongUnit):
        made(session, ZCDP(1), ["county"])


def test_accounts_in_gaussian_dp_are_charged_what_is_asked(table: pandas.DataFrame) -> None:
    with opened(table, budget=GDP(1)) as session:
        found = made(session, GDP("0.6"), ["county", "day"])
        assert session.remaining.additive[0] == pytest.approx(1 - 0.6**2, rel=1e-12)
        assert price(found.steps, GDP).mu_squared <= Fraction("0.36")
        assert found.errors is not None
        half = (found.errors.mean.upper - found.errors.mean.lower) / 2 * found.row_count
        foreseen = session.explain(
            session.table("visits").synthesize(["county", "day"]), budget=GDP("0.6")
        )
        assert foreseen.mean_half_width is not None
        assert half <= foreseen.mean_half_width * (1 + 1e-9)


@pytest.mark.long
def test_a_public_table_is_tried_out_within_the_limits_on_people(table: pandas.DataFrame) -> None:
    def explained(session: unacorda.Session, assuming: unacorda.Assume | None) -> Any:
        asked = session.table("visits").where("age >= 18").synthesize(COLUMNS, bins=BINS)
        return session.explain(asked, budget=ZCDP("0.5"), assuming=assuming)

    like = unacorda.Assume.from_table(table)
    with opened(table) as session:
        seen, plain = explained(session, like), explained(session, None)
        few = explained(session, unacorda.Assume(rows=50))
        assert plain.expected_error is None
        assert few.expected_error is None
        assert few.single_deviation < plain.single_deviation
        assert seen.expected_error is not None
        asked = session.table("visits").where("age >= 18").synthesize(COLUMNS, bins=BINS)
        found = session.evaluate(asked, budget=ZCDP("0.5"))
        assert found.errors is not None
        off = found.errors.mean
        assert off.lower - 0.02 < seen.expected_error < off.upper + 0.02
        assert session.remaining == NO_NOISE * 2 - ZCDP("0.5")
    # A person's rows are limited in the public table as well, so that fewer count.
    with opened(table, unit=unacorda.Person("patient", max_rows=1)) as session:
        assert explained(session, like).expected_error > seen.expected_error
        found_privately = session.table("visits").synthesize(["cost"], bins={"cost": 5})
        sought = session.explain(found_privately, budget=ZCDP(1), assuming=like)
        assert sought.expected_error is None
        with pytest.raises(InvalidParameter, match="assuming"):
            explained(session, unacorda.Assume.from_table(table.drop(columns="cost")))
        with pytest.raises(InvalidParameter, match="assuming"):
            explained(session, 900)  # type: ignore[arg-type]


def test_releases_repeat_and_go_through_json(table: pandas.DataFrame) -> None:
    found = []
    for rows in (table, table.iloc[::-1]):
        with opened(rows) as session:
            found.append(
                made(
                    session,
                    ZCDP("0.1"),
                    ["county", "day", "age", "pregnant"],
                    bins={"age": 6},
                    never=["county = 'B' AND pregnant", {"day": DAYS[0], "age": [None]}],
                    weights={("day", "county", "age"): 2},
                )
            )
    one, two = found
    assert (one.codes == two.codes).all()
    assert one.errors == two.errors
    again = SyntheticTable.from_json(one.to_json())
    assert again.to_json() == one.to_json()
    assert again.errors == one.errors
    assert again.rounds == one.rounds
    assert (again.table("age", "county").counts == one.table("age", "county").counts).all()
    drawn = [each.sample(50, where={"day": DAYS[1]}, seed=3) for each in (one, again)]
    assert all((drawn[0][name] == drawn[1][name]).all() for name in ("county", "day", "pregnant"))
    rows = one.to_pandas()
    assert not ((rows["county"] == "B") & (rows["pregnant"] == True)).any()  # noqa: E712 - an object
    assert not ((rows["day"] == DAYS[0]) & rows["age"].isna()).any()
    assert "900" in repr(one) or "rows of county" in repr(one)


def test_the_release_says_what_is_protected_and_what_its_rows_are_not(
    table: pandas.DataFrame,
) -> None:
    unit = unacorda.Person("patient", max_rows=3)
    with opened(table, unit=unit) as session:
        asked = session.table("visits").synthesize(["county", "cost"], bins={"cost": 3})
        found = session.evaluate(asked, budget=ZCDP("0.25"))
    protects, rows, fits, seeded = found.provenance
    assert protects.startswith("Protects a person (patient)")
    assert "at most 3" in protects
    assert str(ZCDP("0.25")) in protects  # also of what the edges were found for
    assert "none is a person" in rows
    assert "rows of one person do not belong together" in rows
    assert "intervals are too narrow" in fits
    assert "protects no one" in seeded
    assert found.reproducible
    again = SyntheticTable.from_json(found.to_json())
    assert (again.provenance, again.reproducible) == (found.provenance, True)
    held = found.to_arrow().schema.metadata[b"provenance"].decode().split("\n")
    assert tuple(held) == found.provenance
    page = found._repr_html_()
    assert all(sentence.replace("`", "`") in page for sentence in found.provenance[:2])
    assert f"{len(found.codes):,} synthetic rows" in page


def test_rows_are_data_frames_with_one_type_a_column(table: pandas.DataFrame) -> None:
    grades = table.assign(grade=table["patient"] % 3, whole=table["age"].astype("Int64"))
    facts = {**FACTS, "grade": unacorda.Categories([0, 1])}
    with opened(grades, columns=facts) as session:
        asked = session.table("visits").synthesize(
            ["county", "grade", "whole", "pregnant", "day"], bins={"whole": [0, 18, 120]}
        )
        found = session.evaluate(asked, budget=NO_NOISE)
    types = {name: str(kind) for name, kind in found.to_polars().schema.items()}
    assert types == {
        "county": "String",
        "grade": "String",
        "whole": "Int64",
        "pregnant": "Boolean",
        "day": "String",  # as "other" is a label, too
    }
    frame = found.to_pandas()
    assert str(frame["whole"].dtype) == "Int64"
    assert frame["whole"].isna().sum() == sum(found.columns()["whole"] != found.columns()["whole"])
    arrow = found.to_arrow().to_pydict()
    assert arrow["whole"] == [None if x is pandas.NA else x for x in frame["whole"]]
    assert set(arrow["grade"]) <= {"0", "1", "other"}
    errors = found.errors
    assert errors is not None
    told = errors.to_pandas()
    assert told["error"].iloc[0] == errors.mean.error
    assert len(told) == 1 + len(errors.tables)
    assert (told["lower"] <= told["upper"]).all()
    assert "mean of all" in errors._repr_html_()
    counts = found.table("grade", "county").to_pandas()
    assert len(counts) == 9
    assert counts["count"].sum() == pytest.approx(found.row_count)
    assert "measured" in found.table("grade", "county")._repr_html_()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"synthetic_table": 2}', "1" * 5000])
def test_other_texts_are_no_synthetic_tables(text: str) -> None:
    with pytest.raises(InvalidParameter, match="text"):
        SyntheticTable.from_json(text)


@pytest.mark.parametrize("number", [10**400, math.nan, math.inf, "x", None, []], ids=repr)
@pytest.mark.parametrize(
    "place",
    [("row_count",), ("marginals", 0, 2), ("errors", "mean", "error"), ("errors", "confidence")],
)
def test_other_numbers_are_no_synthetic_tables(place: tuple[Any, ...], number: object) -> None:
    sex = CategoryColumn(name="sex", values=("F", "M"), other=None)
    stated = json.loads(
        synthesize(
            CodedRows([[0], [1]], sizes=(2,)),
            SynthesisPlan(domain=Domain(columns=(sex,)), workload=1),
            budget=ZCDP(1),
            rows_per_unit=1,
            neighbors=AddRemove,
            bits=SeededBits(1),
        ).to_json()
    )
    *outer, last = place
    within = stated
    for one in outer:
        within = within[one]
    within[last] = number
    with pytest.raises(InvalidParameter, match="text"):
        SyntheticTable.from_json(json.dumps(stated))


def test_conditions_that_leave_no_row_are_refused_before_anything_is_spent(
    table: pandas.DataFrame,
) -> None:
    never = ["pregnant", "NOT pregnant", "pregnant IS NULL"]
    with opened(table) as session, pytest.raises(InvalidParameter, match="leave some cell"):
        session.table("visits").synthesize(["county", "pregnant"], workload=2, never=never)


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_hardly_any_rows_are_synthesized(table: pandas.DataFrame, rows: int) -> None:
    with opened(table.head(rows)) as session:
        found = made(session, ZCDP(1), ["county", "pregnant"])
    assert found.table("county").counts.sum() == pytest.approx(found.row_count)


def test_columns_of_nothing_but_nulls_are_synthesized(table: pandas.DataFrame) -> None:
    empty = table.head(200).assign(county=None, age=np.nan)
    with opened(empty) as session:
        found = made(session, NO_NOISE, ["county", "age"], bins={"age": [0, 18, 120]})
    assert counts_of(found, "county") == [0, 0, 200]  # the cell of all other values
    assert counts_of(found, "age") == [0, 0, 200]
    assert found.to_pandas()["age"].isna().all()


def test_explaining_costs_nothing_and_foresees_the_noise(table: pandas.DataFrame) -> None:
    edges = range(0, 121, 20)
    unit = unacorda.Person("patient", max_rows=2)
    with opened(table, unit=unit, budget=ZCDP(1)) as session:
        asked = session.table("visits").synthesize(
            ["county", "age"], bins={"age": edges}, workload=2
        )
        seen = session.explain(asked, budget=ZCDP(1))
        assert session.remaining == ZCDP(1)
        found = session.evaluate(asked, budget=ZCDP(1))
        with pytest.raises(WrongUnit):
            session.explain(asked, budget=unacorda.RenyiDP(2, 1))
    assert found.rounds[0].deviation == seen.table_deviation
    assert seen.columns == {"county": 3, "age": 7}
