"""Tables that add up: the least squares fit, its variances, and what it gains."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import optimize
from tests.query.exact_answers import opened
from tests.support.cases import in_subtests
from tests.support.seams import Margins, allocate, level_shares, verify_record
from tests.tiers import mostly_long, mostly_slow

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

TREE = (("a", 1), ("b", 1), ("a", 2), ("c", 1), ("c", 2), ("c", 3))
PINNED = {
    "normal": [1244, 1065, 1787],
    "Laplace": [1303, 1202, 1591],
    "overall": [524, 934, 2638],
    "unlike": [999, 997, 998, 1102],
}
BOX = tuple(itertools.product("xy", (1, 2, 3), (True, False)))
SHAPES = {
    "tree": Margins(kind="rollup", keys=TREE),
    "deep": Margins(kind="rollup", keys=BOX),
    "cube": Margins(kind="cube", keys=BOX),
    "flat": Margins(kind="cube", keys=(("a",),)),
}


def matrix(margins: Margins) -> NDArray[np.float64]:
    """All nodes of all levels as sums of cells, one line each."""
    lines = [
        (places == node).astype(float)
        for nodes, places in zip(margins.nodes, margins.node_of, strict=True)
        for node in range(len(nodes))
    ]
    return np.array(lines)


@pytest.mark.parametrize("name", SHAPES)
def test_the_fit_is_that_of_the_normal_equations(name: str) -> None:
    margins, source = SHAPES[name], np.random.default_rng(2)
    variances = source.uniform(0.2, 5, len(margins.levels)).tolist()
    sizes = [len(nodes) for nodes in margins.nodes]
    measured = [source.normal(0, 9, size) for size in sizes]
    lines = matrix(margins)
    weights = np.repeat(1 / np.array(variances), sizes)
    inverse = np.linalg.inv(lines.T @ (weights[:, None] * lines))
    cells = inverse @ lines.T @ (weights * np.concatenate(measured))
    assert np.allclose(np.concatenate(margins.fit(measured, variances)[0]), lines @ cells)
    spread = np.diag(lines @ inverse @ lines.T)
    assert np.allclose(np.concatenate(margins.fitted_variances(variances)), spread)


def table() -> pl.DataFrame:
    lines = [(n % 50, "AB"[n % 2], f"{'AB'[n % 2]}{n % 7}", n % 3, n % 5) for n in range(600)]
    return pl.DataFrame(lines, schema=["id", "region", "county", "x", "y"], orient="row")


COUNTIES = [(r, f"{r}{n}") for r in "AB" for n in range(7)]


@pytest.mark.parametrize(
    "budget", mostly_long([ZCDP("0.1"), PureDP(1), GDP("0.5"), ApproxDP(1, "1e-6")]), ids=str
)
def test_a_rollup_adds_up_and_is_verified(budget: Any) -> None:
    with opened(table(), unit=unacorda.Person("id", max_rows=4), budget=budget) as session:
        query = session.table("t").group_by("region", "county", keys=COUNTIES, margins="rollup")
        asked = query.agg(n=unacorda.count(), s=unacorda.sum("x", 0, 2))
        release = session.evaluate(asked, budget=budget)
        assert "add up" in str(session.explain(asked, budget=budget, detail=True))
    rows = release.to_dicts()
    assert [row["margin"] for row in rows] == ["all"] + ["region"] * 2 + ["region, county"] * 14
    for name in ("n", "s"):
        whole = [row[name] for row in rows]
        assert math.isclose(whole[0], whole[1] + whole[2], abs_tol=1e-6)
        assert math.isclose(whole[1], sum(whole[3:10]), abs_tol=1e-6)
        assert math.isclose(whole[2], sum(whole[10:]), abs_tol=1e-6)
    assert rows[0]["region"] is rows[0]["county"] is None
    assert rows[3]["county"] == "A0"
    checked = verify_record(release.to_json())
    assert checked.holds, str(checked)
    assert release.to_pandas().shape[0] == 17


def test_a_cube_adds_up_in_every_direction() -> None:
    keys = {"region": ["A", "B"], "x": [0, 1, 2], "y": range(5)}
    with opened(table(), unit=unacorda.Person("id", max_rows=4), budget=ZCDP(1)) as session:
        query = session.table("t").group_by("region", "x", "y", keys=keys, margins="cube")
        release = session.evaluate(query.agg(n=unacorda.count()), budget=ZCDP(1))
    found = dict(zip(release.keys, release.answers["n"].values, strict=True))
    assert len(found) == (1 + 2) * (1 + 3) * (1 + 5)
    for region, x in itertools.product(("A", "B"), range(3)):
        parts = sum(found["region, x, y", region, x, y] for y in range(5))
        assert math.isclose(found["region, x", region, x, None], parts, abs_tol=1e-6)
    for y in range(5):
        parts = sum(found["x, y", None, x, y] for x in range(3))
        assert math.isclose(found["y", None, None, y], parts, abs_tol=1e-6)
    by_x = sum(found["x", None, x, None] for x in range(3))
    assert math.isclose(found["all", None, None, None], by_x, abs_tol=1e-6)


@pytest.mark.long
@pytest.mark.statistical
def test_the_error_promised_is_the_error_measured() -> None:
    """400 releases: a variance within 30% of the promised one at every level (z > 5)."""
    keys = {"region": ["A", "B"], "x": [0, 1, 2]}
    frame, budget = table(), ZCDP("0.1")
    with opened(frame, unit=unacorda.Row(), budget=ZCDP(1000)) as session:
        query = session.table("t").group_by("region", "x", keys=keys, margins="cube")
        asked = query.agg(n=unacorda.count())
        cells = [
            frame.filter((pl.col("region") == region) & (pl.col("x") == x)).height
            for region, x in asked.keys
        ]
        truth = Margins(kind="cube", keys=asked.keys).sums(cells)
        exact = np.concatenate(truth)
        releases = [session.evaluate(asked, budget=budget).answers["n"] for _ in range(400)]
    errors = np.array([answer.values for answer in releases]) - exact
    promised = np.array(releases[0].standard_errors)
    level = np.concatenate([np.full(len(part), place) for place, part in enumerate(truth)])
    for place in range(len(truth)):
        at = level == place
        ratio = (errors[:, at] ** 2).mean() / (promised[at] ** 2).mean()
        assert 0.7 < ratio < 1.3
    inside = [abs(e) <= 1.96 * p for e, p in zip(errors.T, promised, strict=True)]
    assert 0.92 < np.mean(inside) < 0.98


def of_levels(
    name: Any, keys: Any, budget: Any, *, asks: Any, weights: Any = None
) -> tuple[Any, Any, Margins]:
    """Variances of every level, and where each is asked alone with an equal part of the budget."""
    columns = [f"c{n}" for n in range(len(keys[0]))]
    frame = pl.DataFrame({column: [0] for column in columns} | {"id": [0], "x": [0.0]})
    unit = unacorda.Person("id", max_rows=6, max_groups=2)
    with opened(frame, unit=unit, budget=budget) as session:
        query = session.table("t").group_by(
            *columns, keys=list(keys), margins=name, level_weights=weights
        )
        noise: Any = allocate(query.agg(n=asks), budget).noises["n"]
        levels = Margins(kind=name, keys=query.keys)
        equal = budget * Fraction(1, len(levels.levels))
        alone = []
        for nodes in levels.nodes:
            start = session.table("t")
            if len(nodes) > 1:
                start = start.derive(k="0 * c0").group_by("k", keys=range(len(nodes)))
            alone.append(allocate(start.agg(n=asks), equal).noises["n"])
    found = levels.fitted_variances([level.standard_deviation**2 for level in noise.levels])
    return found, np.array([one.standard_deviation**2 for one in alone]), levels  # type: ignore[attr-defined]


SQUARE = tuple(itertools.product(range(10), range(10)))
UNEVEN = (*((0, c) for c in range(30)), (1, 0), (2, 0), (2, 1), *((3, c) for c in range(3)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "keys", "gain", "laplace_gain"),
    mostly_slow(
        [
            ("rollup", tuple(itertools.product(range(4), range(5))), 0.22, 0.39),
            ("rollup", SQUARE, 0.14, 0.15),
            ("rollup", UNEVEN, 0.21, 0.25),
            ("rollup", tuple(itertools.product(range(2), range(3), range(4))), 0.30, 0.53),
            ("cube", tuple(itertools.product(range(2), range(3))), 0.35, 0.60),
            ("cube", SQUARE, 0.22, 0.45),
            ("cube", tuple(itertools.product(range(2), range(10), range(5))), 0.43, 0.70),
        ],
        quick=2,
    ),
    ids=["4x5", "10x10", "uneven", "2x3x4", "cube2x3", "cube10x10", "cube2x10x5"],
)
@in_subtests("budget", [ZCDP("0.1"), GDP("0.3"), PureDP(1)], ids=str)
def test_no_level_errs_more_than_asked_alone_and_all_together_much_less(
    name: Any, keys: Any, gain: float, laplace_gain: float, budget: Any
) -> None:
    """Against as many questions, one for each level, with equal parts of the same budget."""
    found, alone, levels = of_levels(name, keys, budget, asks=unacorda.count())
    ratios = np.array([level.mean() for level in found]) / alone
    assert ratios.max() <= 1 + 1e-8, ratios
    sizes = np.array([len(nodes) for nodes in levels.nodes])
    whole = math.sqrt(float(ratios @ sizes / sizes.sum()))
    wanted = laplace_gain if isinstance(budget, PureDP) else gain
    assert 1 - wanted - 0.07 < whole < 1 - wanted, whole


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "keys"),
    mostly_slow(
        [
            ("rollup", SQUARE),
            ("rollup", tuple(itertools.product(range(20), range(7), range(12)))),
            ("cube", SQUARE),
            ("cube", tuple(itertools.product(range(30), range(20), range(25)))),
        ],
        quick=3,
    ),
    ids=["10x10", "20x7x12", "cube10x10", "cube30x20x25"],
)
def test_under_normal_noise_nothing_linear_is_better_in_the_finest_level(
    name: Any, keys: Any
) -> None:
    """The bounds of docs/proofs/margins.md, which hold for all linear unbiased answers."""
    found, alone, levels = of_levels(name, keys, GDP("0.3"), asks=unacorda.count())
    nodes = [len(part) for part in levels.nodes]
    if name == "rollup":
        fans = [below / above for above, below in itertools.pairwise(nodes)]
        left = len(nodes) - 1 - sum((fan - 1) / (fan + 1) for fan in fans[:-1])
        bound = fans[-1] ** -2 + (1 - 1 / fans[-1]) ** 2 / left
    else:
        sizes = [len(set(column)) for column in zip(*keys, strict=True)]
        kept = math.prod(1 - 1 / size for size in sizes)
        left = 2 ** len(sizes) * (1 - math.prod(size / (size + 1) for size in sizes))
        left += math.prod((size - 1) / (size + 1) for size in sizes)
        bound = 1 - math.prod(1 - size**-2 for size in sizes) + kept**2 / left
    ratio = float(found[-1].mean()) / alone[-1]
    assert bound * (1 - 1e-9) <= ratio <= bound * 1.02


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("rollup", SQUARE),
        ("cube", SQUARE),
        ("rollup", tuple(itertools.product(range(50), range(60)))),
    ],
)
def test_overall_is_the_least_error_of_all_linear_answers(name: Any, keys: Any) -> None:
    """Under normal noise it is the bound of Cauchy and Schwarz in docs/proofs/margins.md."""
    found, alone, levels = of_levels(
        name, keys, GDP("0.1"), asks=unacorda.count(), weights="overall"
    )
    nodes = np.array([len(part) for part in levels.nodes], dtype=float)
    ratios = np.array([part.mean() for part in found]) / alone
    whole, cells = float(ratios @ nodes / nodes.sum()), nodes[-1]
    sets = [set(level) for level in levels.levels]
    inside = np.array([[inner <= level for inner in sets] for level in sets], dtype=float)
    parts = np.linalg.solve(inside, nodes) / cells
    costs = inside.T @ (nodes * (cells / nodes) ** 2)
    bound = float(parts @ np.sqrt(costs)) ** 2 / nodes.sum() / len(nodes)
    assert bound * (1 - 1e-9) <= whole <= bound * 1.01


@pytest.mark.long
@pytest.mark.parametrize("laplace", mostly_slow([False, True]))
@pytest.mark.parametrize("name", ["rollup", "cube"])
def test_no_other_shares_are_better(name: Any, laplace: bool) -> None:
    """1,500 splits at random, of which those are compared that make no level worse."""
    levels = Margins(kind=name, keys=tuple(itertools.product(range(3), range(5))))
    nodes = tuple(len(part) for part in levels.nodes)
    units = tuple(1.0 - 0.1 * place for place in range(len(nodes)))
    power = 2 if laplace else 1
    sizes = np.array(nodes)

    def ratios(shares: Any) -> Any:
        variances = [u / float(s) ** power for u, s in zip(units, shares, strict=True)]
        fitted = levels.fitted_variances(variances)
        return np.array([part.mean() for part in fitted]) / np.array(units) / len(nodes) ** power

    mine = ratios(level_shares(levels.levels, nodes, units, laplace=laplace))
    assert mine.max() <= 1
    source, least = np.random.default_rng(3), math.inf
    for _ in range(1_500):
        found = ratios(source.dirichlet(np.ones(len(nodes))))
        if found.max() <= 1:
            least = min(least, float(found @ sizes))
    assert float(mine @ sizes) < least * 1.003


@pytest.mark.long
@in_subtests("laplace", [False, True])
@in_subtests("name", ["rollup", "cube"])
@in_subtests("sizes", [(3, 4), (10, 10), (2, 7, 3)], ids=str)
def test_a_solver_of_another_kind_finds_no_better_shares(
    name: Any, sizes: tuple[int, ...], laplace: bool
) -> None:
    """SciPy's, which programs the same problem by sequential squares."""
    levels = Margins(kind=name, keys=tuple(itertools.product(*map(range, sizes))))
    nodes = tuple(len(part) for part in levels.nodes)
    power, sizes_of = 2 if laplace else 1, np.array(nodes, dtype=float)
    sets = [set(level) for level in levels.levels]
    inside = np.array([[inner <= level for inner in sets] for level in sets], dtype=float)
    cells, parts = nodes[-1] / sizes_of, np.linalg.solve(inside, sizes_of) / nodes[-1]

    def ratios(shares: Any) -> Any:
        precision = inside.T @ (cells * np.asarray(shares, dtype=float) ** power)
        return cells**2 * (inside @ (parts / precision)) / len(nodes) ** power

    def mean(shares: Any) -> float:
        return float(ratios(shares) @ sizes_of / sizes_of.sum())

    mine = level_shares(levels.levels, nodes, (1.0,) * len(nodes), laplace=laplace)
    assert sum(mine) == 1
    assert ratios(mine).max() <= 1
    other = optimize.minimize(
        mean,
        [1 / len(nodes)] * len(nodes),
        bounds=[(1e-3, 1)] * len(nodes),
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1},
            {"type": "ineq", "fun": lambda x: 1 - ratios(x)},
        ],
        method="SLSQP",
    )
    assert other.success
    assert ratios(other.x).max() <= 1 + 1e-6
    assert mean(mine) <= mean(other.x) * 1.005


def test_shares_are_the_same_everywhere() -> None:
    """They are found by steps that are defined to the last digit; releases are checked by them."""
    rollup, cube = ((), (0,), (0, 1)), ((), (0,), (1,), (0, 1))
    found = {
        "normal": level_shares(rollup, (1, 10, 100), (1.0,) * 3, laplace=False),
        "Laplace": level_shares(rollup, (1, 10, 100), (1.0,) * 3, laplace=True),
        "overall": level_shares(rollup, (1, 3, 7), (1.0,) * 3, laplace=False, limited=False),
        "unlike": level_shares(cube, (1, 40, 50, 2_000), (1.0, 0.9, 0.8, 0.7), laplace=True),
    }
    steps = {name: [int(share * 4096) for share in shares] for name, shares in found.items()}
    assert steps == PINNED


@pytest.mark.parametrize("budget", [ZCDP("0.1"), PureDP(1)], ids=str)
def test_weights_of_levels_are_honoured_and_recorded(budget: Any) -> None:
    with opened(table(), budget=budget) as session:
        start = session.table("t")
        query = start.group_by(
            "region", "county", keys=COUNTIES, margins="rollup", level_weights=[1, "0.5", 8.5]
        )
        asked = query.agg(n=unacorda.count())
        noise: Any = allocate(asked, budget).noises["n"]
        release = session.evaluate(asked, budget=budget)
    single = [
        allocate(start.agg(n=unacorda.count()), budget * Fraction(part)).noises["n"]
        for part in ("0.1", "0.05", "0.85")
    ]
    assert [one.mechanism for one in noise.levels] == [one.mechanism for one in single]  # type: ignore[attr-defined]
    text = release.to_json()
    assert verify_record(text).holds, str(verify_record(text))
    overall = text.replace('"level_weights": ["1", "1/2", "17/2"]', '"level_weights": "overall"')
    assert overall == text or not verify_record(overall).holds
    changed = verify_record(text.replace('"17/2"', '"9/2"'))
    assert not changed.holds


@in_subtests(
    ("margins", "weights"),
    [
        (None, [1, 1, 1]),
        ("rollup", [1, 1]),
        ("rollup", [1, 0, 1]),
        ("rollup", [1, -1, 1]),
        ("rollup", [1, math.nan, 1]),
        ("rollup", 3),
        ("rollup", "123"),
        ("rollup", "evenly"),
        (None, "overall"),
        ("cube", [1, 1, 1]),
    ],
)
def test_weights_of_no_levels_are_refused(margins: Any, weights: Any) -> None:
    with opened(table(), budget=PureDP(1)) as session:
        keys = {"region": ["A"], "county": ["A1"]}
        with pytest.raises(InvalidParameter, match="level_weights"):
            session.table("t").group_by(
                "region", "county", keys=keys, margins=margins, level_weights=weights
            )


def test_no_shares_are_chosen_for_keys_that_are_not_known() -> None:
    with (
        opened(table(), budget=PureDP(1)) as session,
        pytest.raises(InvalidParameter, match="not known"),
    ):
        session.table("t").group_by(
            "region", keys=unacorda.private_keys(), margins="rollup", level_weights="overall"
        )


def test_what_does_not_add_up_is_refused() -> None:
    with opened(table(), budget=PureDP(1)) as session:
        start = session.table("t")
        with pytest.raises(InvalidParameter, match="margins"):
            start.group_by("region", keys=["A"], margins="sideways")  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="mapping"):
            start.group_by("region", "county", keys=COUNTIES, margins="cube")
        with pytest.raises(InvalidParameter, match=r"one column at most.*no full table"):
            start.group_by("region", "x", keys=unacorda.private_keys(), margins="cube")
        query = start.group_by("region", keys=["A", "B"], margins="rollup")
        for aggregate in (unacorda.mean("x", 0, 2), unacorda.count_people(), unacorda.sum("x")):
            if isinstance(session.unit, unacorda.Row) and aggregate == unacorda.count_people():
                continue  # a row is in one group
            with pytest.raises(InvalidParameter, match="add up"):
                query.agg(n=aggregate)
        with pytest.raises(InvalidParameter, match="margin"):
            query.agg(margin=unacorda.count())
