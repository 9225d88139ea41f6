"""Tree aggregation: its law, its price, its errors, one step at a time and all at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.mechanisms.correlated.linear_maps import noise_map
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import SeededBits
from unacorda.checks import exact
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
from unacorda.privacy import events

Floats = NDArray[np.float64]

WRITTEN: dict[str, Any] = {"sigma": 4, "l2_sensitivity": 1}


def whole_nodes(steps: int) -> list[range]:
    """The partial sums that a stream finishes, as the steps in them, level by level."""
    return [
        range(start, start + 2**height)
        for height in range(steps.bit_length())
        for start in range(0, steps - 2**height + 1, 2**height)
    ]


def node_matrix(steps: int) -> Floats:
    """C: what is released is C x + noise."""
    return np.array([[t in node for t in range(steps)] for node in whole_nodes(steps)], float)


def by_step(steps: int) -> list[int]:
    """The places of the nodes in the order in which a stream finishes them."""
    nodes = whole_nodes(steps)
    return sorted(range(len(nodes)), key=lambda k: (nodes[k].stop, len(nodes[k])))


def best_below(steps: int) -> Floats:
    """Row t: how prefix t + 1 is best estimated from the nodes of its own subtrees (Gauss, Markov).

    Least squares over the incidence matrix of each of them, nothing of it by recursion.
    """
    nodes = whole_nodes(steps)
    found = np.zeros((steps, len(nodes)))
    for t in range(1, steps + 1):
        start = 0
        for height in reversed(range(t.bit_length())):
            if not t >> height & 1:
                continue
            inside = [
                k for k, n in enumerate(nodes) if n.start >= start and n.stop <= start + 2**height
            ]
            design = np.array(
                [[s in nodes[k] for s in range(start, start + 2**height)] for k in inside]
            )
            found[t - 1, inside] = np.linalg.pinv(design.astype(float)).sum(axis=0)
            start += 2**height
    return found


def plain_sum(steps: int) -> Floats:
    """Row t: prefix t + 1 as the sum of the fewest nodes."""
    nodes = whole_nodes(steps)
    found = np.zeros((steps, len(nodes)))
    for t in range(1, steps + 1):
        start = 0
        for height in reversed(range(t.bit_length())):
            if t >> height & 1:
                found[t - 1, nodes.index(range(start, start + 2**height))] = 1
                start += 2**height
    return found


# ---- the law


@in_subtests("honaker", [False, True])
@in_subtests("steps", [1, 2, 3, 8, 13])
def test_each_node_has_one_draw_which_counts_as_it_should(
    monkeypatch: pytest.MonkeyPatch, steps: int, honaker: bool
) -> None:
    tree = BinaryTree(**WRITTEN, steps=steps, honaker=honaker)
    unit = 2.0**tree.grid.release_log2
    true = best_below(steps) if honaker else plain_sum(steps)
    draws = len(whole_nodes(steps))

    def whole() -> Any:
        return tree.release(np.zeros(steps))

    def one_by_one() -> Any:
        stream = tree.start()
        return [stream.add(0) for _ in range(steps)]

    assert noise_map(monkeypatch, whole, draws) / unit == pytest.approx(true, abs=1e-12)
    streamed = noise_map(monkeypatch, one_by_one, draws) / unit
    assert streamed == pytest.approx(true[:, by_step(steps)], abs=1e-12)
    errors = tree.grid.deviation * np.linalg.norm(true, axis=1)
    assert tree.standard_errors() == pytest.approx(errors, rel=1e-12)
    assert tree.standard_errors(1) == pytest.approx(errors[:1], rel=1e-12)


def streamed_noise(tree: BinaryTree, runs: int, seed: int) -> Floats:
    bits = SeededBits(seed)
    rows = []
    for _ in range(runs):
        stream = tree.start(bits=bits)
        rows.append([stream.add(0) for _ in range(tree.steps)])
    return np.array(rows)


def released_noise(tree: BinaryTree, runs: int, seed: int) -> Floats:
    bits = SeededBits(seed)
    return np.array([tree.release(np.zeros(tree.steps), bits=bits) for _ in range(runs)])


def redrawn_noise(tree: BinaryTree, runs: int, seed: int) -> Floats:
    """The fault of noise that is drawn afresh whenever a node is used."""
    estimates = plain_sum(tree.steps) if not tree.honaker else best_below(tree.steps)
    generator = np.random.default_rng(seed)
    noise = generator.normal(scale=float(tree.sigma), size=(runs, *estimates.shape))
    fresh: Floats = np.einsum("rtk,tk->rt", noise, estimates)
    return fresh


def law_p(noise: Floats, covariance: Floats) -> float:
    """The p-value, two-sided, of the sum of squares of whitened noise: chi-square."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), noise.T)
    tail = stats.chi2(noise.size)
    return float(2 * min(tail.cdf((whitened**2).sum()), tail.sf((whitened**2).sum())))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("honaker", mostly_slow([False, True]))
@pytest.mark.parametrize("draw", [streamed_noise, released_noise])
def test_the_noise_has_its_covariance(draw: Any, honaker: bool) -> None:
    # 1000 runs of 7 steps: false alarms of 1e-7; a scale off by 10% is rejected, and noise that is
    # drawn afresh for each use of a node.
    tree = BinaryTree(**WRITTEN, steps=7, honaker=honaker)
    estimates = best_below(7) if honaker else plain_sum(7)
    covariance = estimates @ estimates.T * float(tree.sigma) ** 2
    noise = draw(tree, 1000, 3)
    assert law_p(noise, covariance) > 1e-7
    assert law_p(noise, 1.21 * covariance) < 1e-9
    assert law_p(noise / 0.9, covariance) < 1e-9
    assert law_p(redrawn_noise(tree, 1000, 3), covariance) < 1e-9
    assert np.abs(noise.mean(axis=0) / tree.standard_errors()).max() < 6 / math.sqrt(1000)


# ---- the price


def largest_square(steps: int, participations: int = 1, separation: int = 1) -> int:
    """How far one unit moves all finished sums, squared, over all patterns."""
    nodes = node_matrix(steps)
    worst = 0
    for many in range(1, participations + 1):
        for chosen in itertools.combinations(range(steps), many):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                worst = max(worst, int((nodes[:, chosen].sum(axis=1) ** 2).sum()))
    return worst


def test_one_participation_costs_exactly_the_largest_column() -> None:
    for steps in (*range(1, 40), 63, 64, 65):
        event = BinaryTree(**WRITTEN, steps=steps).event
        square = largest_square(steps)
        assert square == steps.bit_length()
        assert accounting.rho(event) == pytest.approx(square / 32, rel=1e-12)
        assert accounting.rho(event) >= square / 32
        far = BinaryTree(**WRITTEN, steps=steps, participations=4, separation=steps)
        assert far.event == event


@pytest.mark.parametrize(("participations", "separation"), [(2, 1), (3, 1), (2, 3), (3, 2)])
def test_several_participations_cost_no_less_than_the_worst_pattern(
    participations: int, separation: int
) -> None:
    for steps in (2, 3, 4, 7, 8, 11):
        tree = BinaryTree(
            **WRITTEN, steps=steps, participations=participations, separation=separation
        )
        square = largest_square(steps, participations, separation)
        price = 32 * float(accounting.rho(tree.event))
        assert price >= square
        if steps in (2, 4, 8):  # the tree is full, so that nothing is unfinished
            assert price == pytest.approx(square, rel=1e-9)


def test_noise_for_too_few_levels_is_caught() -> None:
    # The fault: log2(steps) levels are counted where there is one more. Its noise for a price of
    # rho costs more than rho.
    steps, rho = 64, 0.5
    for levels, right in ((7, True), (6, False)):
        sigma = math.sqrt(levels / (2 * rho))
        assert (largest_square(steps) / (2 * sigma**2) <= rho * (1 + 1e-9)) is right
        tree = BinaryTree(sigma=sigma, l2_sensitivity=1, steps=steps)
        assert (accounting.rho(tree.event) <= rho * (1 + 1e-9)) is right


def test_the_event_counts_what_the_grid_adds() -> None:
    third = BinaryTree(sigma=1, l2_sensitivity=Fraction(1, 3), steps=4, grid_log2=-1)
    assert third.event == events.TreeAggregation(noise_multiplier=2, steps=4)
    tenth = BinaryTree(sigma=1, l2_sensitivity=0.1, steps=4).event.noise_multiplier
    assert 10 - 1e-5 < tenth < 10
    exactly = BinaryTree(sigma=1, l2_sensitivity=0.25, steps=4).event.noise_multiplier
    assert exact("noise_multiplier", exactly) == 4


# ---- errors


def test_late_errors_and_their_mean_have_their_closed_form() -> None:
    # Without Honaker's estimate the variance is the number of binary digits 1, on average
    # log2(T) / 2 + 1 / T over 1 .. T; with it no prefix is worse, and at n = 2^h n / (2 n - 1).
    plain = BinaryTree(**WRITTEN, steps=1024, honaker=False)
    better = BinaryTree(**WRITTEN, steps=1024)
    unit = plain.grid.deviation
    squares = (plain.standard_errors() / unit) ** 2
    assert squares == pytest.approx([t.bit_count() for t in range(1, 1025)])
    assert squares.mean() == pytest.approx(5 + 1 / 1024)
    honakers = (better.standard_errors() / unit) ** 2
    assert np.all(honakers <= squares + 1e-12)
    for height in range(11):
        assert honakers[2**height - 1] == pytest.approx(2**height / (2 ** (height + 1) - 1))


@pytest.mark.long
def test_answers_are_near_the_truth() -> None:
    values = np.random.default_rng(1).integers(0, 100, 1500)
    for honaker in (False, True):
        tree = BinaryTree(sigma=Fraction(1, 1000), l2_sensitivity=1, steps=1500, honaker=honaker)
        found = tree.release(values)
        assert np.abs(found - np.cumsum(values)).max() < 0.1
        assert tree.release(values[:5]) == pytest.approx(np.cumsum(values[:5]), abs=0.1)
        stream = tree.start()
        one_by_one = [stream.add(int(value)) for value in values]
        assert np.abs(one_by_one - np.cumsum(values)).max() < 0.1


def test_vectors_are_summed_number_by_number() -> None:
    values = np.random.default_rng(1).normal(size=(21, 3))
    tree = BinaryTree(sigma=1e-5, l2_sensitivity=1, steps=21, dimension=3)
    assert tree.release(values) == pytest.approx(np.cumsum(values, axis=0), abs=1e-3)
    stream = tree.start()
    found = np.array([stream.add(value) for value in values])
    assert found == pytest.approx(np.cumsum(values, axis=0), abs=1e-3)


# ---- its memory and its ends


def test_memory_grows_with_the_logarithm_of_the_steps() -> None:
    stream = BinaryTree(**WRITTEN, steps=2**40, dimension=2).start(bits=SeededBits(1))
    counter: Any = stream._counter
    held = []
    for _ in range(300):
        stream.add([1, 2])
        held.append(sum(one.size for one in (*counter._sums, *counter._best)))
    assert set(held) == {2 * 2 * 41}


def test_partial_sums_end_without_overflow() -> None:
    tree = BinaryTree(sigma=1, l2_sensitivity=1, steps=64, honaker=False, grid_log2=0)
    up = tree.release(np.full(64, np.inf))
    assert np.all(np.diff(up[:16]) > 0)
    assert up[-1] == pytest.approx(2.0**60, rel=1e-9)
    stream = tree.start()
    down = [stream.add(-(10**40)) for _ in range(64)]
    assert down[-1] == pytest.approx(-(2.0**60), rel=1e-9)


def test_released_numbers_lie_on_the_grid_whatever_goes_in() -> None:
    tree = BinaryTree(sigma=3, l2_sensitivity=1, steps=8, honaker=False)
    strange = [np.nan, -0.0, 5e-324, 0.1, np.pi * 1e9, -np.inf, 1e-300, 2.0**-40]
    for values in (np.zeros(8), np.array(strange), np.arange(8)):
        found = np.ldexp(tree.release(values, bits=SeededBits(2)), -tree.grid.release_log2)
        assert np.array_equal(found, np.rint(found))
