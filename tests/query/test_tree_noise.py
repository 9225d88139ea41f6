"""Noise of all levels at once: its law, how it is drawn, what it costs and what it gains."""

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
from scipy import stats
from tests.query.exact_answers import opened
from tests.support.seams import (
    AdditiveNoise,
    LevelNoise,
    Margins,
    TreeLaw,
    TreeNoise,
    allocate,
    even_shape,
    tree_law,
    tree_noise,
    tree_shares,
    verify,
)
from tests.support.seams import tree_noise_module as tree_noises
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.privacy.events import Pure
from unacorda.privacy.guarantees import ApproxDP, PureDP

EVEN = Margins(kind="rollup", keys=tuple(itertools.product("ab", "xy")))
UNEVEN = Margins(kind="rollup", keys=(("b", 1), ("a", 1), ("b", 2), ("b", 3)))
DEEP = Margins(kind="rollup", keys=(("a", 1, 1), ("b", 1, 1), ("a", 1, 2), ("b", 2, 1)))
TREES = {"even": EVEN, "uneven": UNEVEN, "deep": DEEP}
SCALES = tuple(map(Fraction, ("1.5", "0.7", "1.1", "0.8")))


def levels_of(margins: Margins) -> list[int]:
    return [len(nodes) for nodes in margins.nodes]


def enumerated(margins: Margins, most: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Noise of all nodes, level by level, and how probable it is: of four cells, up to `most`."""
    side = np.arange(-most, most + 1)
    cells = np.stack(np.meshgrid(*[side] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    exponent, nodes = np.zeros(len(cells)), []
    for places, scale in zip(margins.node_of, SCALES, strict=False):
        sums = np.stack(
            [cells[:, places == node].sum(axis=1) for node in range(places.max() + 1)], axis=1
        )
        exponent += np.abs(sums).sum(axis=1) / float(scale)
        nodes.append(sums)
    chances = np.exp(-exponent)
    return np.concatenate(nodes, axis=1), chances / chances.sum()


def law_of(margins: Margins) -> tuple[TreeLaw, list[int], list[int]]:
    """The law, and of every node its level and the number of its law."""
    shape, kinds = margins.tree
    scales = SCALES[: len(margins.levels)]
    law = tree_law(shape, tuple(1 / float(scale) for scale in scales))
    assert law is not None
    numbers = law.numbers(margins.parents, kinds)
    levels = [level for level, found in enumerate(numbers) for _ in found]
    return law, levels, [int(number) for found in numbers for number in found]


@pytest.mark.parametrize("name", mostly_slow(TREES))
def test_the_law_of_every_node_is_that_of_all_noise_counted_out(name: str) -> None:
    nodes, chances = enumerated(TREES[name], 14)
    law, levels, numbers = law_of(TREES[name])
    counted = [0.0] * len(TREES[name].levels)
    for place, (level, number) in enumerate(zip(levels, numbers, strict=True)):
        own = nodes[:, place]
        variance = float(chances @ own.astype(float) ** 2)
        assert math.isclose(law.variances[level][number], variance, rel_tol=1e-5)
        width = law.half_widths[level][number]
        assert chances[np.abs(own) <= width].sum() >= 0.95 > chances[np.abs(own) < width].sum()
        counted[level] += variance
    assert law.means == pytest.approx(
        [whole / size for whole, size in zip(counted, levels_of(TREES[name]), strict=True)], 1e-5
    )
    assert [sum(level) for level in law.nodes] == levels_of(TREES[name])


@pytest.mark.parametrize("name", TREES)
def test_whoever_comes_moves_the_chance_of_any_noise_by_epsilon_at_most(name: str) -> None:
    """Exactly as much where all sums have one sign: then the price is not too large either."""
    margins = TREES[name]
    nodes, chances = enumerated(margins, 6)
    epsilon = sum(1 / float(scale) for scale in SCALES[: len(margins.levels)])
    cells = nodes[:, -4:] + 6
    known = np.zeros((15,) * 4)
    known[tuple(cells.T)] = chances
    for cell in range(4):
        moved = cells.copy()
        moved[:, cell] += 1
        other = known[tuple(moved.T)]
        ratios = np.abs(np.log(chances[other > 0] / other[other > 0]))
        assert ratios.max() == pytest.approx(epsilon, rel=1e-9)


def sign_divergence(margins: Margins, *, most: int = 14) -> float:
    """Of order near 1, between the noise and what one row of the first cell makes of it."""
    nodes, chances = enumerated(margins, most)
    rates = 1 / np.array([float(scale) for scale in SCALES[: len(margins.levels)]])
    starts = np.cumsum([0, *levels_of(margins)])[:-1]
    path = [start + places[0] for start, places in zip(starts, margins.node_of, strict=True)]
    losses = np.where(nodes[:, path] >= 1, -1, 1) @ rates
    assert chances @ np.exp(-losses) == pytest.approx(1, rel=1e-3)  # the moved noise is a law
    return float(chances @ losses)


def test_noises_of_their_own_would_cost_less_than_noise_that_adds_up() -> None:
    """Why the price is that of epsilon: the sum of the levels' prices is too low for every tree.

    zCDP bounds the divergence of every order by rho times it.
    """
    for margins in TREES.values():
        rates = [1 / float(scale) for scale in SCALES[: len(margins.levels)]]
        apart = sum(rate * math.tanh(rate / 2) for rate in rates)
        together = sum(rates) * math.tanh(sum(rates) / 2)
        assert apart * 1.1 < sign_divergence(margins) <= together
    # One path: nothing is less than the price of epsilon.
    z = np.arange(-200, 201)
    law = np.exp(-np.abs(z) * sum(rates))
    law /= law.sum()
    assert law @ np.where(z >= 1, -1, 1) * sum(rates) == pytest.approx(together)


def draws(margins: Margins, count: int, *, scales: Any = SCALES, seed: int = 5) -> Any:
    """Noise of the cells of so many trees, one a line."""
    sizes = levels_of(margins)
    parents = [
        (above + size * np.arange(count)[:, None]).reshape(-1)
        for above, size in zip(margins.parents, sizes, strict=False)
    ]
    many = [size * count for size in sizes]
    kept, bits = law_of(margins)[0].kept, SeededBits(seed)
    drawn = tree_noise(parents, many, scales[: len(sizes)], kept=kept, bits=bits)
    return drawn.reshape(count, -1)


def chance_of(margins: Margins, drawn: Any) -> float:
    """Of a chi-square as large: of the cells' noise within -1 to 1, and all other noise."""
    nodes, chances = enumerated(margins, 14)
    inner = np.abs(nodes[:, -4:]).max(axis=1) <= 1
    codes = (nodes[inner, -4:] + 1) @ (3 ** np.arange(4))
    expected = np.zeros(82)
    expected[codes] = chances[inner]
    expected[81] = 1 - expected.sum()
    near = np.abs(drawn).max(axis=1) <= 1
    found = np.bincount((drawn[near] + 1) @ (3 ** np.arange(4)), minlength=82)
    found[81] = (~near).sum()
    enough = expected * len(drawn) >= 5
    found = np.append(found[enough], found[~enough].sum())
    expected = np.append(expected[enough], expected[~enough].sum()) * len(drawn)
    kept = expected > 0
    return float(stats.chisquare(found[kept], expected[kept]).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("name", mostly_slow(TREES))
def test_what_is_drawn_has_the_law(name: str) -> None:
    """False alarm 1e-7 each; another scale of one level is seen."""
    assert chance_of(TREES[name], draws(TREES[name], 6_000)) > 1e-7
    louder = (*SCALES[:1], SCALES[1] * 2, *SCALES[2:])
    assert chance_of(TREES[name], draws(TREES[name], 6_000, scales=louder)) < 1e-7


def test_wide_trees_are_drawn_piece_by_piece_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many copies are tried at once, the law is one: by its variances."""
    margins = Margins(kind="rollup", keys=tuple(itertools.product(range(9), range(9))))
    found = {}
    for most in (1, 64):
        monkeypatch.setattr(tree_noises, "_MOST_COPIES", most)
        drawn = draws(margins, 150).astype(float)
        found[most] = [float((drawn**2).mean()), float((drawn.sum(axis=1) ** 2).mean())]
    law = law_of(margins)[0]
    for mine in found.values():
        assert mine[0] == pytest.approx(law.means[-1], rel=0.15)
        assert mine[1] == pytest.approx(law.means[0], rel=0.75)


# ---- questions

LINES = [(n, f"r{n % 3}", f"r{n % 3}c{n % 12}", n % 2) for n in range(600)]
TABLE = pl.DataFrame(LINES, schema=["id", "region", "county", "x"], orient="row")
COUNTIES = sorted({(region, county) for _, region, county, _ in LINES})


def asked(session: unacorda.Session, **options: Any) -> Any:
    start = session.table("t").group_by(
        "region", "county", keys=COUNTIES, margins="rollup", **options
    )
    return start.agg(n=unacorda.count())


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, "1e-6")], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"level_weights": "overall"}, {"level_weights": [1, 2, 3]}]
)
def test_counts_are_whole_and_add_up_exactly_at_the_price_asked(budget: Any, options: Any) -> None:
    with opened(TABLE, unit=unacorda.Person("id", max_rows=2), budget=budget) as session:
        query = asked(session, **options)
        noise = allocate(query, budget).noises["n"]
        assert isinstance(noise, TreeNoise)
        assert noise.event == Pure(epsilon=1)
        release = session.evaluate(query, budget=budget)
        assert "all levels at once" in str(session.explain(query, budget=budget))
        assert session.spent.epsilon == 1  # type: ignore[union-attr]
    n = release.answers["n"].values
    assert all(type(value) is int for value in n)
    assert n[0] == sum(n[1:4]) == sum(n[4:])
    parts = [
        sum(v for v, key in zip(n[4:], COUNTIES, strict=True) if key[0] == r)
        for r in ("r0", "r1", "r2")
    ]
    assert n[1:4] == parts
    checked = verify(release.to_json())
    assert checked.holds, str(checked)


@pytest.mark.statistical
def test_the_error_promised_is_the_error_measured_at_every_level() -> None:
    """200 releases: variances within what is five standard errors of theirs, and intervals."""
    with opened(TABLE, unit=unacorda.Row(), budget=PureDP(10_000)) as session:
        query = asked(session)
        releases = [session.evaluate(query, budget=PureDP(1)).answers["n"] for _ in range(200)]
    truth = np.array([600, *[200] * 3, *[50] * 12])
    errors = np.array([answer.values for answer in releases]) - truth
    promised = np.array(releases[0].standard_errors, dtype=float)
    level = np.repeat([0, 1, 2], [1, 3, 12])
    for place, most in ((0, 1.9), (1, 1.5), (2, 1.3)):
        at = level == place
        ratio = (errors[:, at] ** 2).mean() / (promised[at] ** 2).mean()
        assert 1 / most < ratio < most
    low = np.array([answer.lower for answer in releases], dtype=float)
    high = np.array([answer.upper for answer in releases], dtype=float)
    assert np.mean((low <= truth) & (truth <= high)) > 0.94


def limits_of(fans: tuple[int, ...]) -> tuple[float, ...]:
    """What a least squares fit of levels asked apart leaves of their variances."""
    levels = Margins(kind="rollup", keys=tuple(itertools.product(*map(range, fans))))
    fitted = levels.fitted_variances([1.0] * len(levels.levels))
    return tuple(float(part.mean()) for part in fitted)


@pytest.mark.parametrize(
    ("fans", "gain"),
    [((3, 4), 0.38), ((10, 10), 0.22), ((10, 10, 10), 0.30), ((2, 2, 2, 2), 0.55)],
)
def test_no_level_errs_more_than_fitted_and_all_by_a_fifth_less(fans: Any, gain: float) -> None:
    """Beside levels asked apart with equal parts, which are made to add up by least squares."""
    shape, count, limits = even_shape(fans), len(fans) + 1, np.array(limits_of(fans))
    shares = tree_shares(shape, (1.0,) * count, tuple(limits.tolist()))
    law = tree_law(shape, tuple(float(share) / 64 for share in shares))
    assert sum(shares) == 1
    assert law is not None
    ratios = np.array(law.means) / (2 * (64 * count) ** 2)
    sizes = np.array([sum(level) for level in law.nodes])
    assert (ratios <= limits).all()
    whole = math.sqrt(float(ratios @ sizes / (limits @ sizes)))
    assert 1 - gain - 0.02 < whole < 1 - gain, whole


@pytest.mark.parametrize("limited", mostly_slow([True, False]))
@pytest.mark.parametrize("fans", [(3, 4), (10, 10)])
def test_no_other_shares_are_better(fans: Any, limited: bool) -> None:
    """300 splits at random, of which those are compared that make no level worse."""
    shape, count = even_shape(fans), len(fans) + 1
    apart, limits = 2.0 * (64 * count) ** 2, limits_of(fans) if limited else None

    def ratios(shares: Any) -> Any:
        law = tree_law(shape, tuple(float(share) / 64 for share in shares), coarse=True)
        if law is None:  # scales so unlike that it takes long
            return np.full(count, math.inf), None
        return np.array(law.means) / apart, np.array([sum(level) for level in law.nodes])

    mine, sizes = ratios(tree_shares(shape, (1.0,) * count, limits))
    source, least = np.random.default_rng(3), math.inf
    for _ in range(300):
        found, _ = ratios(source.dirichlet(np.ones(count)))
        if limits is None or (found <= limits).all():
            least = min(least, float(found @ sizes))
    assert math.isfinite(least)
    assert float(mine @ sizes) < least * 1.01


def noises(scales: Any) -> list[AdditiveNoise]:
    laws = [DiscreteLaplace(scale=scale, l1_sensitivity=1) for scale in scales]
    return [AdditiveNoise(mechanism=law, unit_log2=0, whole=True) for law in laws]


def test_what_would_take_long_is_not_drawn_at_once() -> None:
    assert TreeNoise.of(noises([3, 3]), even_shape([50])) is not None
    assert TreeNoise.of(noises([3, 3]), even_shape([100_000])) is None
    assert TreeNoise.of(noises([3] * 7), even_shape([6] * 6)) is None
    assert TreeNoise.of(noises([1, 10**7]), even_shape([4])) is None
    keys = [(f"r{n % 300}", n) for n in range(90_000)]
    frame = pl.DataFrame({"region": ["r0"], "county": [0], "id": [1]})
    with opened(frame, unit=unacorda.Row(), budget=PureDP(1)) as session:
        start = session.table("t").group_by("region", "county", keys=keys, margins="rollup")
        noise = allocate(start.agg(n=unacorda.count()), PureDP(1)).noises["n"]
    assert isinstance(noise, LevelNoise)
