"""Several quantiles at once: the joint law of the cuts, what they cost, and how wrong they are."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.query.counted_cells import counted_cells
from tests.query.many_cells import ask, repeated, values_of
from tests.query.test_sensitivity import tables
from tests.support.cases import in_subtests
from tests.support.seams import (
    Assumption,
    Cutting,
    Exact,
    Quantiles,
    QuantileTree,
    Reach,
    TreeCut,
    counted,
    cuts,
    cutting,
    moves_of,
    plan_for,
    trials,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.accounting.charges import charge
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy import events

PLACES = 2
POINTS = 3
ONE = Reach.within(max_rows=1, cells=1, replaced=False)
WANTED = {
    "quartiles": [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)],
    "around": [Fraction(1, 4), Fraction(3, 4)],  # with a cut that nobody asked for
    "close": [Fraction(1, 2), Fraction(51, 100)],  # each by itself
}


def joint_law(
    counts: Sequence[int], noise: Cutting, *, slots: Sequence[int] | None = None
) -> NDArray[Any]:
    """Logarithms of the probabilities of all cuts together, by hand, in a fixed order.

    slots: of each point, else 1; its rows are spread evenly over all of their places.
    """
    pairs = zip(counts, slots or [1] * len(counts), strict=True)
    mass = [Fraction(c, own * PLACES) for c, own in pairs for _ in range(own * PLACES)]
    logs: dict[tuple[int, ...], float] = {(): 0.0}
    order = [split for level in noise.plan.levels for split in level]
    levels = zip(noise.plan.levels, noise.epsilons, noise.plan.moves, strict=True)
    rates = [e / (2 * moves) for level, e, moves in levels for _ in level]
    for number, split in enumerate(order):
        longer: dict[tuple[int, ...], float] = {}
        for drawn, log in logs.items():
            known = {order[k].at: place for k, place in enumerate(drawn)}
            known |= {Fraction(0): 0, Fraction(1): len(mass)}
            low, high = known[split.low], known[split.high]
            total = sum(mass[low:high], Fraction(0))
            rate = rates[number] / max(split.share, 1 - split.share)
            losses = [
                float(rate * abs(sum(mass[low:place], Fraction(0)) - split.share * total))
                for place in range(low, high)
            ] or [0.0]
            whole = math.log(sum(math.exp(-loss) for loss in losses))
            for step, loss in enumerate(losses):
                longer[(*drawn, low + step)] = log - loss - whole
        logs = longer
    length = len(mass)
    law = np.full((length + 1,) * len(order), -np.inf)
    for drawn, log in logs.items():
        law[drawn] = log
    return law[tuple(slice(length) for _ in order)]


def neighboring(reach: Reach, *, most: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Tables by cell of a unit beside some others, and the tables to compare each with."""
    own = [x for n in range(reach.rows + 1) for x in tables(reach.cells, POINTS, n)]
    rests = (itertools.islice(tables(reach.cells, POINTS, n), 12) for n in (0, 1, most))
    for rest in itertools.chain.from_iterable(rests):
        stack = [rest + mine for mine in own]
        yield stack, stack if reach.replaced else stack[:1]


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize(
    "reach",
    mostly_slow(
        [
            ONE,
            Reach.within(max_rows=2, cells=1, replaced=False),
            Reach.within(max_rows=2, cells=2, replaced=False),
            Reach.within(max_rows=1, cells=1, replaced=True),
            Reach.within(max_rows=1, cells=2, replaced=True),
        ]
    ),
    ids=str,
)
def test_no_cuts_of_all_groups_tell_more_than_the_budget(reach: Reach, wanted: str) -> None:
    """By enumeration: the largest log-ratio, and Renyi divergences."""
    epsilon, rho = 1.5, 0.3
    pure = Cutting.within(unacorda.PureDP(Fraction(epsilon)), reach, WANTED[wanted], {})
    concentrated = Cutting.within(unacorda.ZCDP("3/10"), reach, WANTED[wanted], {})
    known: dict[Any, NDArray[Any]] = {}

    def law(noise: Cutting, row: Any) -> NDArray[Any]:
        key = (noise is pure, tuple(row.tolist()))
        if key not in known:
            found = joint_law(key[1], noise)
            known[key] = found[np.isfinite(found)]
        return known[key]

    most = 0.0
    for left, right in neighboring(reach, most=4):
        for one, other in itertools.product(left, right):
            ratio = [law(pure, a) - law(pure, b) for a, b in zip(one, other, strict=True)]
            ends = [abs(float(sum(end(r) for r in ratio))) for end in (np.max, np.min)]
            most = max(most, *ends)
            for alpha in (1.1, 8.0):
                divergence = sum(
                    np.log(np.exp(alpha * p + (1 - alpha) * q).sum()) / (alpha - 1)
                    for a, b in zip(one, other, strict=True)
                    for p, q in [(law(concentrated, a), law(concentrated, b))]
                )
                assert divergence <= rho * alpha * (1 + 1e-9)
    assert most <= epsilon * (1 + 1e-12)
    assert most > 0.35 * epsilon


@pytest.mark.long
def test_half_the_rows_would_be_found() -> None:
    told = Cutting.within(unacorda.PureDP("3/2"), ONE, WANTED["quartiles"], {})
    worst = 0.0
    for left, right in neighboring(Reach.within(max_rows=2, cells=1, replaced=False), most=4):
        for one, other in itertools.product(left, right):
            first, second = joint_law(one[0], told), joint_law(other[0], told)
            possible = np.isfinite(first)
            worst = max(worst, float(np.abs(first[possible] - second[possible]).max()))
    assert worst > 1.5


@pytest.fixture
def _forgetting() -> Iterator[None]:
    """Ways of cutting are remembered, and those of other places would be taken by other tests."""
    cutting.finding.cache_clear()
    yield
    cutting.finding.cache_clear()


@pytest.mark.statistical
@pytest.mark.usefixtures("_forgetting")
@pytest.mark.parametrize("wanted", WANTED)
def test_cuts_have_their_joint_law(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 cells. Chi-square, false alarm 1e-8 a case."""
    monkeypatch.setattr(cuts, "PLACES_LOG2", 1)
    values, points, cells = [0.0, 1.0, 1.0, 1.0, 3.0, 4.0], 5, 600
    made = unacorda.quantiles("x", WANTED[wanted], 0, points - 1, resolution=1)
    table = repeated(values, cells=cells)
    asked = ask(table, {"a": made}, budget=unacorda.PureDP(4), seed=3, cells=cells)
    drawn = [values_of(asked.release, f"a{part}").astype(int) for part in made.parts]
    noise: Any = made.noise(unacorda.PureDP(4), ONE)
    law = np.exp(joint_law([values.count(v) for v in range(points)], noise))
    places = np.ravel_multi_index(tuple(drawn), (points,) * len(drawn))
    seen = np.bincount(places, minlength=points ** len(drawn))
    for wrong in (False, True):
        chances = _answers(law**1.7 if wrong else law, noise, made, points)
        assert (_pvalue(seen, chances) > 1e-8) is not wrong


@pytest.mark.statistical
def test_points_with_more_slots_are_drawn_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 cells; chi-square over the points of all cuts, false alarm 1e-8."""
    monkeypatch.setattr(cuts, "PLACES_LOG2", 1)
    counts, slots = [2, 0, 3, 1, 1], [2, 1, 4, 1, 2]
    noise = Cutting.within(unacorda.PureDP(3), ONE, WANTED["quartiles"], {})
    drawn = noise.places(
        counted_cells(np.array([counts] * 4_000)),
        np.concatenate([[0], np.cumsum(slots)]),
        SeededBits(8),
    )
    order = [split.at for level in noise.plan.levels for split in level]
    shape = (len(counts),) * len(order)
    seen = np.bincount(
        np.ravel_multi_index(tuple(drawn[at] for at in order), shape), minlength=5 ** len(order)
    )
    for known in (slots, None):
        widths = np.array(known or [1] * 5) * PLACES
        point_of = np.repeat(np.arange(5), widths)
        law = np.exp(joint_law(counts, noise, slots=known))
        chances = np.zeros(shape)
        for place in np.ndindex(law.shape):
            chances[tuple(point_of[list(place)])] += law[place]
        pvalue = _pvalue(seen, chances.ravel() / chances.sum())
        assert (pvalue > 1e-8) is (known is slots)


def _answers(law: NDArray[Any], noise: Cutting, made: Quantiles, points: int) -> NDArray[Any]:
    """From the law of all cuts to that of the sorted points of those that are wanted."""
    order = [split.at for level in noise.plan.levels for split in level]
    chances = np.zeros((points,) * len(made.wanted))
    for place in np.ndindex(law.shape):
        found = sorted(place[order.index(q)] // PLACES for q in made.wanted)
        chances[tuple(found)] += law[place]
    flat: NDArray[Any] = chances.ravel() / chances.sum()
    return flat


def _pvalue(seen: NDArray[Any], chances: NDArray[Any]) -> float:
    order = np.argsort(chances)
    expected, found = chances[order] * seen.sum(), seen[order]
    groups = np.cumsum(expected) // 10
    e = np.bincount(np.unique(groups, return_inverse=True)[1], weights=expected)
    f = np.bincount(np.unique(groups, return_inverse=True)[1], weights=found)
    return float(stats.chisquare(f, e * f.sum() / e.sum()).pvalue)


@pytest.mark.long
@pytest.mark.statistical
def test_wrong_ways_to_refuse_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bins of 1, 8 and 64 places among which 83 rows are spread: 20,000 draws, by bins.

    Never refusing gives bins their bounds' weight; refusing always favors what is settled. False
    alarm 1e-8.
    """
    sizes, levels = np.array([1, 8, 64]), np.array([3, 2, 1])
    weights, lows = sizes * levels, np.cumsum(sizes) - sizes
    before, lines, aim, factor = np.cumsum(weights) - weights, 20_000, 30, Fraction(1, 5)
    below = np.repeat(before, sizes) + np.repeat(levels, sizes) * np.concatenate(
        [np.arange(size) for size in sizes]
    )
    chances = np.exp(-float(factor) * np.abs(below - aim))

    def pvalue() -> float:
        rows = [np.tile(column, (lines, 1)) for column in (lows, sizes, weights, before)]
        drawn = trials.draw_spread(
            counted.PlaceBins(*rows),
            np.full(lines, aim),
            denominator=1,
            factor=factor,
            bits=SeededBits(3),
        )
        assert (below[drawn.places] == drawn.below).all()
        seen = np.bincount(drawn.places, minlength=len(chances))
        return _pvalue(seen, chances / chances.sum())

    assert pvalue() > 1e-8
    for heads in (True, False):
        monkeypatch.setattr(trials, "accepts", lambda x, *_, h=heads: (x == 0) | h)
        assert pvalue() < 1e-8


# ---- errors --------------------------------------------------------------------------------------


def _alone(wanted: Sequence[Fraction], *, squares: bool) -> float:
    """The sum of variances where each is drawn from all rows, for an even part of the budget."""
    m = len(wanted)
    return sum(8 * float(max(q, 1 - q)) ** 2 * (m if squares else m * m) for q in wanted)


@in_subtests("squares", [False, True])
@in_subtests(
    "wanted",
    [
        ["1/4", "3/4"],
        ["1/4", "1/2", "3/4"],
        [0.05, 0.95],
        [0.1, 0.5, 0.9],
        [0.05, 0.25, 0.5, 0.75, 0.95],
        [f"{i}/10" for i in range(1, 10)],
        [f"{i}/100" for i in range(1, 100)],
    ],
    ids=len,
)
def test_the_expected_error_is_a_fifth_less_than_one_by_one(
    wanted: list[Any], *, squares: bool
) -> None:
    quantiles = [Fraction(str(q)) for q in wanted]
    plan = plan_for(quantiles, ONE, squares=squares)
    assert plan.variance < 0.8**2 * _alone(quantiles, squares=squares)
    assert sum(plan.parts) == 1
    assert min(plan.parts) > 0


@pytest.mark.parametrize("squares", [False, True])
def test_no_plan_is_worse_than_one_by_one(*, squares: bool) -> None:
    for wanted in (["1/2", "0.51"], ["0.9", "0.99"], ["0", "1/2", "1"], ["0.01", "0.02"], ["1/3"]):
        quantiles = [Fraction(q) for q in wanted]
        plan = plan_for(quantiles, ONE, squares=squares)
        assert plan.variance <= 1.0001 * _alone(quantiles, squares=squares)


@pytest.mark.long
@pytest.mark.statistical
def test_errors_are_as_promised_and_smaller_than_one_by_one() -> None:
    """400 cells of 2,000 rows: the error in ranks by its root mean square, to within 15 %.

    A root mean square of 400 two-sided exponential draws has a standard error below 6 %.
    """
    rows, cells = 2_000, 400
    values = [float(v) for v in range(rows)]
    wanted = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    made = unacorda.quantiles("x", wanted, 0, 4_000, resolution=1)
    noise: Any = made.noise(unacorda.PureDP(1), ONE)
    histogram = np.zeros((cells, 4_001), dtype=np.int64)
    histogram[:, :rows] = 1
    answers = made.answers(Exact(rankings=(counted_cells(histogram),)), noise, SeededBits(4))
    told = made.forecast(noise, ONE, Assumption(rows=rows, values={"x": values}))
    squares = []
    for q, part in zip(wanted, made.parts, strict=True):
        error = np.array(answers[part].values) - float(q) * (rows - 1)
        measured = float(np.sqrt(np.mean(error**2)))
        assert measured == pytest.approx(noise.deviations[q], rel=0.2)
        assert measured < 0.8 * math.sqrt(2) * 2 * float(max(q, 1 - q)) * 3
        squares.append(measured**2)
        assert told.rank_error is not None
        assert np.mean(np.abs(error) > told.rank_error) < 0.05
    assert told.standard_error == pytest.approx(math.sqrt(sum(squares) / 3), rel=0.15)


def test_many_rows_do_not_pass_64_bits() -> None:
    """2^40 rows and shares with large denominators: whole numbers of any size."""
    counts = np.zeros((1, 11), dtype=np.int64)
    counts[0, 3] = counts[0, 7] = 2**39
    wanted = [Fraction(123_457, 10**6), Fraction(1, 2), Fraction(987_653, 10**6)]
    noise = Cutting.within(unacorda.PureDP(1), ONE, wanted, {})
    found = noise.places(counted_cells(counts), np.arange(12), SeededBits(2))
    assert found[wanted[0]] == [3]
    assert found[wanted[2]] == [7]


@pytest.mark.long
def test_equal_rows_go_to_both_sides_in_proportion() -> None:
    """60 % of the rows at one point, 35 % below: the first quartile is below, not at the point."""
    counts = np.zeros((100, 101), dtype=np.int64)
    counts[:, 0:35], counts[:, 50], counts[:, 96:101] = 100, 6_000, 100
    made = unacorda.quantiles("x", [0.25, 0.5, 0.9, 0.97], 0, 100, resolution=1)
    noise: Any = made.noise(unacorda.PureDP(5), ONE)
    answers = made.answers(Exact(rankings=(counted_cells(counts),)), noise, SeededBits(4))
    assert {round(v) for v in answers["_25"].values} <= {24, 25}
    assert set(answers["_50"].values) == set(answers["_90"].values) == {50.0}
    assert {round(v) for v in answers["_97"].values} <= {97, 98}


# ---- what a user sees ----------------------------------------------------------------------------


def session(budget: Any) -> unacorda.Session:
    values = np.random.default_rng(3).lognormal(3, 1, 5_000)
    return unacorda.Session(
        {"t": pa.table({"id": np.arange(5_000), "x": values})},
        unit=unacorda.Person("id", max_rows=1),
        budget=budget,
        bits=SeededBits(1),
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "budget",
    [unacorda.PureDP(5), unacorda.ApproxDP(5, 1e-6), unacorda.GDP(2), unacorda.PureDP(1e-3)],
    ids=str,
)
def test_a_release_names_its_quantiles_and_they_rise(budget: Any) -> None:
    with session(budget) as opened:
        query = opened.table("t").agg(
            x=unacorda.quantiles("x", [0.5, "1/3", 0.999, 0.05], 0, 1_000, resolution=1e-9),
            i=unacorda.iqr("x", 0, 1_000),
        )
        release = opened.evaluate(query, budget=budget)
    names = [name for name in release.columns if not name.endswith(("_se", "_low", "_high"))]
    assert names == ["x_5", "x_33_3333", "x_50", "x_99_9", "i", "i_from", "i_to"]
    (row,) = release.to_dicts()
    assert row["x_5"] <= row["x_33_3333"] <= row["x_50"] <= row["x_99_9"]
    assert row["i"] == pytest.approx(row["i_to"] - row["i_from"])
    assert row["i"] >= 0
    assert row["x_5_se"] is None
    if budget != unacorda.PureDP(1e-3):
        assert row["x_50"] == pytest.approx(math.exp(3), rel=0.1)
        assert row["i"] == pytest.approx(math.exp(3.6745) - math.exp(2.3255), rel=0.15)


def test_nothing_is_charged_beyond_the_request_and_cuts_cost_what_levels_cost() -> None:
    with session(unacorda.PureDP(2)) as opened:
        query = opened.table("t").agg(x=unacorda.quantiles("x", [0.25, 0.5, 0.75], 0, 1_000))
        explained = opened.explain(query, budget=unacorda.PureDP(1), detail=True)
        assert opened.evaluate(query, budget=unacorda.PureDP(1)).charge == unacorda.PureDP(1)
        text = str(explained)
    assert "in 2 rounds of cuts, 3 in all" in text
    assert "expected rank errors, where values hardly repeat: 25%: 3" in text


@in_subtests(
    "q",
    [
        *([], "0.5", 0.5, None, {"a": 1}, {0.5}, list(np.linspace(0, 1, 101))),
        *([0.5, 0.5], [0.5, 1.5], [-0.1], [float("nan")], [True, "x"], [None]),
        *([0.5, 0.5000001], ["1/3000001"]),
    ],
    ids=lambda q: str(q)[:20],
)
def test_what_is_no_list_of_quantiles_is_refused(q: Any) -> None:
    with pytest.raises(InvalidParameter, match="q"):
        unacorda.quantiles("x", q, 0, 1)


def test_a_plan_is_a_function_of_public_numbers() -> None:
    reach = Reach.within(max_rows=6, max_rows_per_group=2, cells=9, replaced=True)
    plans = [plan_for(WANTED["quartiles"], reach, squares=True) for _ in range(2)]
    assert plans[0] == plans[1]
    assert isinstance(plans[0], QuantileTree)
    assert plans[0].moves[0] >= 6


# ---- many groups, and intervals ------------------------------------------------------------------


def test_the_rows_of_a_unit_move_the_parts_of_a_level_no_further_than_told() -> None:
    """All ways to lay rows that come and that leave into the parts of two cells, in both norms."""
    low, middle, high = Fraction(0), Fraction(2, 5), Fraction(1)
    level = (
        TreeCut(at=Fraction(1, 10), low=low, high=middle),
        TreeCut(at=Fraction(3, 5), low=middle, high=high),
    )
    for replaced, rows in ((False, 3), (True, 2)):
        reach = Reach.within(max_rows=rows, cells=2, replaced=replaced)
        told = moves_of(level, reach.split(2))
        ways = [way for way in itertools.product(range(rows + 1), repeat=4) if sum(way) <= rows]
        attained: Any = [0, 0]
        for come, leave in itertools.product(ways, ways if replaced else [(0,) * 4]):
            sums = [Fraction(0), Fraction(0)]
            for part, (k, gone) in enumerate(zip(come, leave, strict=True)):
                split = level[part % 2]
                ends = (split.share, split.share - 1)
                moved = max(abs(k * x - gone * y) for x in ends for y in ends) / split.steepness
                sums = [sums[0] + moved, sums[1] + moved**2]
            attained = [max(pair) for pair in zip(attained, sums, strict=True)]
        assert attained[0] <= told.l1
        assert attained[1] <= told.l2_squared
        assert attained[1] > told.l2_squared / 2


@pytest.mark.parametrize("share", [unacorda.ZCDP(1), unacorda.GDP(1)], ids=str)
def test_where_groups_share_people_cuts_are_paid_for_group_by_group(share: Any) -> None:
    """A person with a row in each of 100 groups: by squares 10 rows, all in one group 100."""
    spread = Reach.within(max_groups=100, max_rows_per_group=1, cells=100, replaced=False)
    together = Reach.within(max_rows=100, cells=1, replaced=False)
    wanted = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]
    apart, alone = (Cutting.within(share, reach, wanted, {}) for reach in (spread, together))
    for q in wanted:
        assert apart.deviations[q] < 0.13 * alone.deviations[q]
    unit = type(share)(10**3)
    assert charge(apart.event, share, unit) <= share
    once = Reach.within(max_rows=1, cells=1, replaced=False)
    assert Cutting.within(share, once, wanted, {}).event == events.compose(
        [events.Exponential(epsilon=e) for e in Cutting.within(share, once, wanted, {}).epsilons]
    )


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_cover_quantiles_and_their_range() -> None:
    """300 cells of 400 rows: each interval by at least 95 %, false alarm below 1e-7 a check."""
    cells, values = 300, np.random.default_rng(5).gamma(2, 20, 400).round(1)
    table = {
        "id": np.arange(cells * 400),
        "cell": np.repeat(np.arange(cells), 400),
        "x": np.tile(values, cells),
    }
    wanted = [0.25, 0.5, 0.75]
    asked = ask(
        table,
        {
            "q": unacorda.quantiles("x", wanted, 0, 300, resolution=0.1, interval=0.6),
            "r": unacorda.iqr("x", 0, 300, resolution=0.1, interval=0.6),
        },
        budget=unacorda.ZCDP(8),
        seed=12,
        cells=cells,
    )
    truths = {
        f"q_{round(100 * q)}": float(np.quantile(values, q, method="inverted_cdf")) for q in wanted
    }
    truths["r"] = truths["q_75"] - truths["q_25"]
    least = stats.binom.ppf(1e-7, cells, 0.95)
    for name, truth in truths.items():
        answer = asked.release.answers[name]
        assert asked.covered(name, truth).sum() >= least
        width = np.array(answer.upper, dtype=float) - np.array(answer.lower, dtype=float)
        assert width.min() >= 0
        assert np.median(width) < 0.9 * truth
        assert not asked.covered(name, truth + 60).any()


@pytest.mark.long
def test_intervals_may_be_asked_of_nothing_and_with_next_to_no_budget() -> None:
    table = {"id": [1], "cell": [0], "x": [5.0]}
    for budget in (unacorda.PureDP(1), unacorda.PureDP("1e-12")):
        asked = ask(
            table,
            {
                "q": unacorda.quantiles("x", [0.1, 0.9], 0, 10, interval=0.5),
                "r": unacorda.iqr("x", 0, 10, interval=0.5),
            },
            budget=budget,
            seed=1,
            cells=2,
        )
        for name in ("q_10", "q_90", "r"):
            answer = asked.release.answers[name]
            ends = zip(answer.lower, answer.upper, strict=True)
            assert all(0 <= low <= high <= 10 for low, high in ends)  # type: ignore[operator]
    for interval in (1, -0.1, float("nan")):
        with pytest.raises(InvalidParameter, match="interval"):
            unacorda.quantiles("x", [0.1], 0, 1, interval=interval)
        with pytest.raises(InvalidParameter, match="interval"):
            unacorda.iqr("x", 0, 1, interval=interval)
