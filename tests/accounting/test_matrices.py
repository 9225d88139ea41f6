"""Sensitivities of matrix mechanisms and trees against every pattern and every sign."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.profile_bounds import profile_bounds
from tests.support.cases import in_subtests

from unacorda.accounting.accountant import delta_interval, epsilon, epsilon_interval, tradeoff
from unacorda.accounting.explanation import explain
from unacorda.accounting.matrices import (
    group_columns,
    squared_columns,
    squared_matrix_sensitivity,
    squared_toeplitz_sensitivity,
    squared_tree_sensitivity,
)
from unacorda.accounting.prices import price, renyi, rho
from unacorda.accounting.rules.base import dominated, plain
from unacorda.checks import exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    CyclicPoissonSampled,
    Gaussian,
    Laplace,
    MatrixFactorization,
    PoissonSampled,
    Pure,
    Repeated,
    TreeAggregation,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne


def patterns(steps: int, participations: int, separation: int) -> Iterator[tuple[int, ...]]:
    for many in range(1, participations + 1):
        for chosen in itertools.combinations(range(steps), many):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def worst_over_signs(
    rows: Sequence[Sequence[Fraction]], participations: int, separation: int
) -> Fraction:
    """One-dimensional contributions of +1 and -1, exactly: a lower bound of the square."""
    steps, worst = len(rows), Fraction(0)
    for pattern in patterns(steps, participations, separation):
        for signs in itertools.product((1, -1), repeat=len(pattern) - 1):
            total = Fraction(0)
            for i, row in enumerate(rows):
                moved = sum(
                    (s * row[j] for s, j in zip((1, *signs), pattern, strict=True) if j <= i),
                    start=Fraction(0),
                )
                total += moved * moved
            worst = max(worst, total)
    return worst


def absolute_over_patterns(
    rows: Sequence[Sequence[Fraction]], participations: int, separation: int
) -> Fraction:
    """The largest sum of |C^T C| over patterns, exactly."""
    steps = len(rows)
    full = [[*row, *[Fraction(0)] * (steps - len(row))] for row in rows]
    gram = [
        [sum((row[i] * row[j] for row in full), start=Fraction(0)) for j in range(steps)]
        for i in range(steps)
    ]
    return max(
        sum((abs(gram[i][j]) for i in pattern for j in pattern), start=Fraction(0))
        for pattern in patterns(steps, participations, separation)
    )


def toeplitz_rows(column: Sequence[Fraction], steps: int) -> list[list[Fraction]]:
    return [
        [column[i - j] if i - j < len(column) else Fraction(0) for j in range(i + 1)]
        for i in range(steps)
    ]


ENTRIES = st.integers(-6, 6).map(lambda k: Fraction(k, 4))


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_any_encoder_by_every_pattern_and_sign(
    data: st.DataObject, steps: int, participations: int, separation: int
) -> None:
    rows = [
        data.draw(st.lists(ENTRIES, min_size=i + 1, max_size=i + 1), label="row")
        for i in range(steps)
    ]
    found = squared_matrix_sensitivity(rows, participations=participations, separation=separation)
    assert worst_over_signs(rows, participations, separation) <= found
    absolute = absolute_over_patterns(rows, participations, separation)
    assert absolute <= found
    if participations == 1 or separation >= steps:
        assert found == max(squared_columns(rows))


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=7),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_falling_toeplitz_encoders_are_exact(
    falls: list[int], more: int, participations: int, separation: int
) -> None:
    column = [Fraction(value, 3) for value in itertools.accumulate(falls)][::-1]
    steps = len(column) + more
    found = squared_toeplitz_sensitivity(
        column, steps=steps, participations=participations, separation=separation
    )
    rows = toeplitz_rows(column, steps)
    assert found == worst_over_signs(rows, participations, separation)
    general = squared_matrix_sensitivity(rows, participations=participations, separation=separation)
    assert found <= general


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ENTRIES, min_size=1, max_size=6),
    st.integers(0, 2),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_any_toeplitz_encoder_is_bounded(
    column: list[Fraction], more: int, participations: int, separation: int
) -> None:
    steps = len(column) + more
    found = squared_toeplitz_sensitivity(
        column, steps=steps, participations=participations, separation=separation
    )
    rows = toeplitz_rows(column, steps)
    assert worst_over_signs(rows, participations, separation) <= found


@pytest.mark.parametrize(("participations", "separation"), [(3, 2), (2, 3), (5, 1), (4, 3)])
def test_random_vectors_move_no_more(participations: int, separation: int) -> None:
    """Vectors of norm 1 in four dimensions, by random restarts of a rising search."""
    draw = np.random.default_rng(7)
    rows = [[Fraction(int(k), 8) for k in draw.integers(-8, 9, size=i + 1)] for i in range(10)]
    above = np.zeros((10, 10))
    for i, row in enumerate(rows):
        above[i, : i + 1] = [float(c) for c in row]
    gram = above.T @ above
    bound = squared_matrix_sensitivity(rows, participations=participations, separation=separation)
    reached = 0.0
    for pattern in patterns(10, participations, separation):
        inner = gram[np.ix_(pattern, pattern)]
        x = draw.normal(size=(len(pattern), 4))
        for _ in range(30):
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            x = inner @ x + 1e-12
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        reached = max(reached, float(np.sum(inner * (x @ x.T))))
    assert reached <= float(bound)
    assert float(bound) <= 2.0 * reached  # the bound is not idle


def test_banded_encoders_by_every_pattern() -> None:
    draw = np.random.default_rng(3)
    for bands in (1, 2, 3):
        rows = [
            [Fraction(int(draw.integers(1, 9)) if i - j < bands else 0, 4) for j in range(i + 1)]
            for i in range(9)
        ]
        for participations in (2, 3, 4):
            truth = absolute_over_patterns(rows, participations, bands)
            found = squared_matrix_sensitivity(
                rows, participations=participations, separation=bands
            )
            assert truth <= found <= truth * (1 + Fraction(1, 10**12))


def test_large_encoders_agree_with_small_arithmetic() -> None:
    steps = 3000
    floats = [1.0]  # of the square root of the matrix of ones: C(2k, k) / 4^k
    for k in range(1, steps):
        floats.append(floats[-1] * (2 * k - 1) / (2 * k))
    found = squared_toeplitz_sensitivity(floats, steps=steps, participations=30, separation=100)
    sums = np.zeros(steps)
    for turn in range(30):
        sums[100 * turn :] += np.array(floats)[: steps - 100 * turn]
    assert float(found) == pytest.approx(float(np.sum(sums**2)), rel=1e-12)
    assert found >= Fraction(math.fsum(sums**2)) * (1 - Fraction(1, 10**14))
    everywhere = squared_toeplitz_sensitivity([1.0] * 10**6, steps=10**6, participations=10**6,
                                              separation=1)  # fmt: skip
    n = 10**6
    assert float(everywhere) == pytest.approx(n * (n + 1) * (2 * n + 1) / 6, rel=1e-9)
    assert everywhere >= n * (n + 1) * (2 * n + 1) // 6


def test_a_single_participation_of_the_square_root() -> None:
    """Fichtenberger, Henzinger, Upadhyay 2023: the squared norm is about 1 + ln(n)/pi."""
    column = [1.0]
    for k in range(1, 4096):
        column.append(column[-1] * (2 * k - 1) / (2 * k))
    found = float(squared_toeplitz_sensitivity(column, steps=4096, participations=1, separation=1))
    # C(2k, k)/4^k lies between 1/sqrt(pi (k + 1/2)) and 1/sqrt(pi (k + 1/4))
    low = 1 + (math.log(4096.5) - math.log(1.5)) / math.pi
    high = 1 + sum(1 / (math.pi * (k + 0.25)) for k in range(1, 4096))
    assert low <= found <= high


def tree_by_every_pattern(steps: int, participations: int, separation: int) -> int:
    height = (steps - 1).bit_length()
    worst = 0
    for pattern in patterns(steps, participations, separation):
        total = 0
        for h in range(height + 1):
            counts: dict[int, int] = {}
            for leaf in pattern:
                counts[leaf >> h] = counts.get(leaf >> h, 0) + 1
            total += sum(many * many for many in counts.values())
        worst = max(worst, total)
    return worst


@pytest.mark.long
@in_subtests("steps", [1, 2, 3, 5, 8, 11, 13, 16, 19])
@in_subtests("separation", [1, 2, 3, 4, 5, 7])
def test_trees_by_every_pattern(steps: int, separation: int) -> None:
    for participations in range(1, 6):
        found = squared_tree_sensitivity(
            steps=steps, participations=participations, separation=separation
        )
        assert found == tree_by_every_pattern(steps, participations, separation)


def test_a_tree_is_a_matrix() -> None:
    """All node sums of eight leaves as rows: their Gram matrix, and the tree's own answer."""
    rows = [[1 if leaf >> h == node else 0 for leaf in range(8)] for h in range(4)
            for node in range(8 >> h)]  # fmt: skip
    gram = np.array(rows).T @ np.array(rows)
    for participations, separation in ((1, 1), (3, 2), (4, 1), (2, 5)):
        worst = max(int(gram[np.ix_(p, p)].sum()) for p in patterns(8, participations, separation))
        assert worst == squared_tree_sensitivity(
            steps=8, participations=participations, separation=separation
        )


@pytest.mark.parametrize("steps", [10**6, 2**20, 10**12])
def test_large_trees(steps: int) -> None:
    once = squared_tree_sensitivity(steps=steps, participations=1, separation=1)
    assert once == (steps - 1).bit_length() + 1
    several = squared_tree_sensitivity(steps=steps, participations=100, separation=977)
    assert 100 * once <= several <= 100**2 * once


def test_plain_events() -> None:
    assert plain(Laplace(noise_multiplier=1)) == Laplace(noise_multiplier=1)
    one = MatrixFactorization(noise_multiplier=2, encoder=(1,), steps=9)
    assert plain(one) == Gaussian(noise_multiplier=2)
    assert plain(one * 3) == Gaussian(noise_multiplier=2) * 3
    many = MatrixFactorization(noise_multiplier=2, encoder=(1,), steps=9, participations=4)
    assert plain(many) == Gaussian(noise_multiplier=1)
    rows = MatrixFactorization(noise_multiplier=2, encoder=((1,), (0, 1), (0, 0, 1)), steps=3)
    assert plain(rows) == Gaussian(noise_multiplier=2)
    tree = TreeAggregation(noise_multiplier=2, steps=8)
    assert plain(tree) == Gaussian(noise_multiplier=1)
    silent = MatrixFactorization(noise_multiplier=2, encoder=(0,), steps=3)
    assert epsilon(silent, delta=1e-6) < 1e-9


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_the_pair_below_is_one_of_the_patterns(
    data: st.DataObject, steps: int, participations: int, separation: int
) -> None:
    rows = [
        data.draw(st.lists(ENTRIES, min_size=i + 1, max_size=i + 1), label="row")
        for i in range(steps)
    ]
    event = MatrixFactorization(
        noise_multiplier=1,
        encoder=tuple(map(tuple, rows)),
        steps=steps,
        participations=participations,
        separation=separation,
    )
    worst = worst_over_signs(rows, participations, separation)
    below = dominated(event, AddRemove)
    if worst == 0:
        assert below == Pure(epsilon=0)
        return
    assert isinstance(below, Gaussian)
    assert 1 / exact("noise_multiplier", below.noise_multiplier) ** 2 <= worst
    assert epsilon_interval(event, delta=1e-5).lower <= epsilon(below, delta=1e-5)


def test_trees_below_and_above() -> None:
    tree = TreeAggregation(noise_multiplier=3, steps=100, participations=4, separation=25)
    least = Fraction(9, tree_by_every_pattern(100, 1, 25) * 4**2)
    assert exact("noise_multiplier", dominated(tree, AddRemove).noise_multiplier) ** 2 >= least  # type: ignore[union-attr]
    found = epsilon_interval(tree, delta=1e-6)
    assert found.upper - found.lower <= 1e-9 * found.upper


def test_a_curve_claims_no_more_than_a_pattern_reaches() -> None:
    """|C^T C| is more than C^T C with any signs: the best test is known from both sides only."""
    signed = MatrixFactorization(
        noise_multiplier=2, encoder=((1,), (1, 1), (1, -0.5, 1)), steps=3, participations=3
    )
    curve = tradeoff(signed, points=5)
    reached = tradeoff(Gaussian(noise_multiplier=dominated(signed, AddRemove).noise_multiplier))  # type: ignore[union-attr]
    found = curve.beta_interval(alpha=0.1)
    assert found.lower < found.upper
    assert found.upper == reached.beta_interval(alpha=0.1).upper
    interval = epsilon_interval(signed, delta=1e-5)
    assert interval.lower < 0.99 * interval.upper


@pytest.mark.slow
def test_cyclic_samples() -> None:
    banded = MatrixFactorization(noise_multiplier=3, encoder=(3, 4), steps=12, separation=2)
    cyclic = banded.cyclic_poisson_sampled(rate=0.1)
    step = PoissonSampled(event=Gaussian(noise_multiplier=Fraction(3, 5)), rate=0.1)
    assert plain(cyclic) == Repeated(event=step, count=6)
    assert epsilon(cyclic, delta=1e-5) == epsilon(step * 6, delta=1e-5)
    assert epsilon(cyclic, delta=1e-5, neighbors=ReplaceOne) > epsilon(cyclic, delta=1e-5)
    rows = MatrixFactorization(
        noise_multiplier=3, encoder=((3,), (4, 3), (0, 4, 3)), steps=3, separation=2
    )
    half = Fraction(1, 2)
    once = [Gaussian(noise_multiplier=m).poisson_sampled(rate=half) for m in (1, Fraction(3, 5))]
    assert plain(rows.cyclic_poisson_sampled(rate=0.5)) == once[0] + once[1]
    # without noise correlated over steps this is a Poisson sample of each unit's own steps
    apart = MatrixFactorization(noise_multiplier=1, encoder=(1,), steps=100, separation=1)
    assert plain(apart.cyclic_poisson_sampled(rate=0.01)) == PoissonSampled(
        event=Gaussian(noise_multiplier=1), rate=0.01
    ) * 100  # fmt: skip
    for wide in (
        MatrixFactorization(noise_multiplier=1, encoder=(1, 0, 1), steps=5, separation=2),
        MatrixFactorization(
            noise_multiplier=1, encoder=((1,), (0, 1), (1, 0, 1)), steps=3, separation=2
        ),
    ):
        with pytest.raises(UnsupportedEvent, match="3 bands"):
            epsilon(CyclicPoissonSampled(event=wide, rate=0.5), delta=1e-5)


def random_rows(generator: np.random.Generator, steps: int, bands: int) -> tuple[Any, ...]:
    return tuple(
        tuple(float(generator.integers(1, 9)) / 8 if i - j < bands else 0 for j in range(i + 1))
        for i in range(steps)
    )


@pytest.mark.parametrize("steps", [4, 7, 60])
def test_the_columns_of_every_group_are_dominated(steps: int) -> None:
    generator = np.random.default_rng(steps)
    rows = random_rows(generator, steps, 3)
    event = MatrixFactorization(noise_multiplier=1, encoder=rows, steps=steps, separation=3)
    above, below = (
        sorted([square for square, count in norms for _ in range(count)], reverse=True)
        for norms in group_columns(event)
    )
    squares = squared_columns(rows)
    groups = [sorted(squares[start::3], reverse=True) for start in range(3)]
    for group in groups:
        assert len(group) <= len(above)
        assert all(one <= most for one, most in zip(group, above, strict=False))
    assert any(
        len(group) == len(below)
        and all(one >= least for one, least in zip(group, below, strict=True))
        for group in groups
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 2))
def test_the_group_of_the_first_step_is_the_worst(column: list[int], more: int, wider: int) -> None:
    steps, width = len(column) + more, len(column) + wider
    event = MatrixFactorization(
        noise_multiplier=1, encoder=tuple(column), steps=steps, separation=width
    )
    above, below = group_columns(event)
    squares = squared_columns(toeplitz_rows(list(map(Fraction, column)), steps))
    groups = [sorted(squares[start::width], reverse=True) for start in range(min(width, steps))]
    assert above == below
    assert sorted(square for square, count in above for _ in range(count)) == sorted(
        square for square in groups[0] if square
    )
    for group in groups:
        assert all(one <= most for one, most in zip(group, groups[0], strict=False))


@pytest.mark.long
@pytest.mark.statistical
def test_cyclic_samples_against_the_scheme_itself() -> None:
    """Runs of the whole release; by Hoeffding a mean errs by more than the slack once in 1e9."""
    generator, steps, rate, runs = np.random.default_rng(17), 6, 0.3, 200_000
    matrix = np.zeros((steps, steps))
    for i, row in enumerate(rows := random_rows(generator, steps, 2)):
        matrix[i, : i + 1] = row
    event = MatrixFactorization(noise_multiplier=1, encoder=rows, steps=steps, separation=2)
    slack, at = math.sqrt(math.log(2e9) / (2 * runs)), 0.4
    deltas = []
    for group in (0, 1):
        columns = matrix[:, group::2]
        sampled = np.array(list(itertools.product((0, 1), repeat=columns.shape[1])))
        moves = sampled @ columns.T
        chances = np.prod(np.where(sampled, rate, 1 - rate), axis=1)

        def ratio(released: Any, moves: Any = moves, chances: Any = chances) -> Any:
            return np.exp(released @ moves.T - np.sum(moves * moves, axis=1) / 2) @ chances

        noise = generator.normal(size=(runs, steps))
        drawn = noise + moves[generator.choice(len(moves), p=chances, size=runs)]
        deltas.append(float(np.mean(np.maximum(1 - math.exp(at) / ratio(drawn), 0))))
        deltas.append(float(np.mean(np.maximum(1 - math.exp(at) * ratio(noise), 0))))
    found = delta_interval(event.cyclic_poisson_sampled(rate=rate), epsilon=at)
    assert max(deltas) - slack <= found.upper
    assert found.lower <= max(deltas) + slack
    assert found.upper <= 1.1 * found.lower  # so that the slack, a tenth of it, tells something
    assert slack <= 0.1 * found.lower


def test_every_engine_takes_them() -> None:
    event = MatrixFactorization(noise_multiplier=5, encoder=(1, 0.75), steps=5)
    same = Gaussian(noise_multiplier=4)
    assert epsilon_interval(event, delta=1e-6) == epsilon_interval(same, delta=1e-6)
    assert delta_interval(event * 2, epsilon=1) == delta_interval(same * 2, epsilon=1)
    assert renyi(event, alpha=3) == renyi(same, alpha=3)
    assert rho(event) == rho(same) == 1 / 32
    assert price(event, ZCDP) == price(same, ZCDP)
    assert price(event, GDP) == price(same, GDP)
    assert price(event, RenyiDP, alpha=2) == price(same, RenyiDP, alpha=2)
    assert price(event, ApproxDP, delta=1e-6) == price(same, ApproxDP, delta=1e-6)
    assert profile_bounds(event, 0.5) == profile_bounds(same, 0.5)
    with pytest.raises(UnsupportedEvent):
        price(event, PureDP)
    inside = TreeAggregation(noise_multiplier=2, steps=8).fixed_size_sampled(size=1, population=9)
    assert epsilon(inside, delta=1e-6, neighbors=ReplaceOne) < epsilon(
        Gaussian(noise_multiplier=Fraction(1, 2)), delta=1e-6
    )
    assert "Gaussian" in str(explain(event, delta=1e-6))


@pytest.mark.parametrize("name", ["steps", "participations", "separation"])
def test_refusals(name: str) -> None:
    arguments: dict[str, Any] = {"steps": 3, "participations": 1, "separation": 1, name: 0}
    call: Callable[..., object] = squared_tree_sensitivity
    with pytest.raises(InvalidParameter):
        call(**arguments)
