"""Selection by a tree of low-sensitivity questions: its law, its price, its trace."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.tree import TreeSelection, _hadamard
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP

SCORES = [0.0, 1.5, -2.0, 1.0, 0.5, 0.5, 3.0]


def child_law(best: Sequence[float], sigma: float, branching: int) -> NDArray[np.float64]:
    """Who of the children is taken: independent normals of deviation sigma sqrt(b) on each.

    Noise on the contrasts is that noise less its mean, which does not change who is largest.
    """
    spread = sigma * math.sqrt(branching)
    nodes = np.linspace(-12, 12, 2001)
    found = []
    for one in range(len(best)):
        mass = stats.norm.pdf(nodes)
        for other in range(len(best)):
            if other != one:
                mass = mass * special.ndtr(nodes + (best[one] - best[other]) / spread)
        found.append(float(np.trapezoid(mass, nodes)))
    return np.array(found)


def law(
    scores: Sequence[float], sigma: float, branching: int, *, room: int = 0
) -> NDArray[np.float64]:
    """The probability of every leaf, by walking all of a tree with room for so many."""
    while room < len(scores):
        room = max(room * branching, 1)
    if room == 1:
        return np.ones(1)
    step = room // branching
    parts = [list(scores[k : k + step]) for k in range(0, len(scores), step)]
    chances = child_law([max(part) for part in parts], sigma, branching)
    deeper = [law(part, sigma, branching, room=step) for part in parts]
    return np.concatenate([p * one for p, one in zip(chances, deeper, strict=True)])


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("branching", [2, pytest.param(4, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("monotone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_choices_have_the_exact_law(branching: int, monotone: bool) -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1, branching=branching, monotone=monotone)
    depth = {2: 3, 4: 2, 8: 1}[branching]
    assert walk.depth(7) == depth
    sigma = math.sqrt(depth) / (2 if monotone else 1)
    assert walk.sigma(7) == pytest.approx(sigma)
    bits, count = SeededBits(101), 6000
    seen = np.bincount([walk.release(SCORES, bits=bits) for _ in range(count)], minlength=7)

    def accepted(deviation: float) -> float:
        expected = law(SCORES, deviation, branching) * count
        assert expected.sum() == pytest.approx(count)
        return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), 6))

    assert accepted(sigma) > 1e-8
    assert accepted(sigma * 0.7) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("branching", mostly_slow([2, 16]))
def test_contrasts_are_normal_with_the_deviation_that_is_said(branching: int) -> None:
    # 9,000 contrasts of equal scores; the law holds with p > 1e-8, 10% off is refused.
    walk = TreeSelection(noise_multiplier=1, sensitivity=1, branching=branching)
    bits, size = SeededBits(103), 256
    each = walk.depth(size) * (branching - 1)
    told = [
        number
        for _ in range(9000 // each)
        for level in walk.release_with_trace(np.zeros(size), bits=bits).contrasts
        for number in level
    ]
    scaled = np.array(told) / walk.sigma(size)
    assert stats.kstest(scaled, stats.norm.cdf).pvalue > 1e-8
    squares, law = float((scaled**2).sum()), stats.chi2(scaled.size)
    assert 1e-8 < law.cdf(squares) < 1 - 1e-8
    assert law.cdf(squares / 1.21) < 1e-9
    assert law.sf(squares * 1.21) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
def test_shuffled_leaves_are_in_every_order_alike() -> None:
    walk = TreeSelection(noise_multiplier=100, sensitivity=1, shuffle=True)
    bits, orders = SeededBits(102), []
    for _ in range(6000):
        trace = walk.release_with_trace([0, 0, 0, 0], bits=bits)
        assert trace.order is not None
        orders.append(tuple(trace.order.tolist()))
        assert trace.choice == trace.order[2 * trace.path[0] + trace.path[1]]
    seen = np.array([orders.count(order) for order in itertools.permutations(range(4))])
    assert seen.sum() == 6000
    assert stats.chi2.sf(((seen - 250) ** 2 / 250).sum(), 23) > 1e-8


# ---- the price


@pytest.mark.parametrize("branching", [2, 4, 8])
def test_contrasts_move_by_the_sensitivity_and_no_more(branching: int) -> None:
    signs = np.array(_hadamard(branching))
    assert (signs @ signs.T == branching * np.eye(branching)).all()
    assert (signs[0] == 1).all()
    contrasts = signs[1:] / branching
    steps = (-1, 1) if branching == 8 else (-1, 0, 1)
    free = [np.linalg.norm(contrasts @ move) for move in itertools.product(steps, repeat=branching)]
    assert max(free) == pytest.approx(1)
    rising = itertools.product((0, 1), repeat=branching)
    assert max(np.linalg.norm(contrasts @ move) for move in rising) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("branching", "size"), mostly_slow([(2, 4), (2, 8), (4, 4), (4, 16)], quick=3)
)
@pytest.mark.parametrize("multiplier", [0.7, 2.0])
def test_neighbors_keep_the_curve_of_the_event(
    branching: int, size: int, multiplier: float
) -> None:
    walk = TreeSelection(noise_multiplier=multiplier, sensitivity=1, branching=branching)
    assert walk.event == events.Gaussian(noise_multiplier=multiplier)
    sigma, generator = walk.sigma(size), np.random.default_rng(size)
    worst = 0.0
    epsilons = [0.0, 0.5, 1.0]
    claimed = [accounting.delta(walk.event, epsilon=epsilon) for epsilon in epsilons]
    bare = walk.sigma(branching)  # a planted fault: the levels are not counted
    faulty = 0.0
    for _ in range(12):
        # A ladder of scores along which every turn costs the same, half a sensitivity ahead.
        base = -np.array([k.bit_count() for k in range(size)], float)
        base = base * generator.choice([0.5, 1, 2]) + generator.choice([0, 1e-9], size)
        move = generator.choice([-1.0, 1.0], size)
        move[0] = -1.0
        move[1:] = 1.0 if generator.random() < 0.7 else move[1:]
        for deviation in (sigma, bare):
            here = law(base.tolist(), deviation, branching)
            there = law((base + move).tolist(), deviation, branching)
            for epsilon, limit in zip(epsilons, claimed, strict=True):
                stick = float(np.maximum(here - math.exp(epsilon) * there, 0).sum())
                if deviation == sigma:
                    assert stick <= limit + 1e-9
                    worst = max(worst, stick / limit)
                else:
                    faulty = max(faulty, stick / limit)
    assert worst > 0.3
    if size == 8:
        assert faulty > 1.2


def test_two_candidates_are_one_normal_release() -> None:
    # The contrast (a - b) / 2 moves by the sensitivity: the trade-off of two normals, M apart.
    walk = TreeSelection(noise_multiplier=Fraction(3, 2), sensitivity=2)
    assert walk.sigma(2) == 3
    here, there = law([0, 0], 3.0, 2)[0], law([-2, 2], 3.0, 2)[0]
    assert stats.norm.ppf(here) - stats.norm.ppf(there) == pytest.approx(1 / 1.5)


def test_the_guarantee_sets_the_noise() -> None:
    half = TreeSelection.for_guarantee(ZCDP(0.5), sensitivity=1)
    assert half.noise_multiplier == 1
    assert half.sigma(1024) == pytest.approx(math.sqrt(10))
    assert half.sigma(1025) == pytest.approx(math.sqrt(11))
    assert TreeSelection.for_guarantee(GDP(2), sensitivity=1).noise_multiplier == Fraction(1, 2)
    exact = TreeSelection.for_guarantee(ApproxDP(1, 1e-5), sensitivity=3, branching=4, shuffle=True)
    assert accounting.epsilon(exact.event, delta=1e-5) <= 1 + 1e-12
    assert accounting.rho(half.event) == pytest.approx(0.5)


# ---- the trace


@in_subtests("branching", [2, 4, 8, 16])
@in_subtests("size", [1, 2, 3, 5, 16, 17, 100])
def test_the_trace_is_the_walk(branching: int, size: int) -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1, branching=branching)
    signs = np.array(_hadamard(branching))
    for seed in range(10):
        trace = walk.release_with_trace(np.arange(size) % 5, bits=SeededBits(seed))
        assert trace.order is None
        assert len(trace.path) == len(trace.contrasts) == walk.depth(size)
        place = 0
        for level, (child, told) in enumerate(zip(trace.path, trace.contrasts, strict=True)):
            place = place * branching + child
            room = branching ** (walk.depth(size) - level - 1)
            assert place * room < size  # a child that is there
            there = min(branching, -(-size // room) - (place - child))
            assert len(told) == (branching - 1 if there > 1 else 0)
            if told:
                noisy = signs[1:].T @ np.array(told)
                assert child == int(np.argmax(noisy[:there]))
                step = 2.0 ** (math.floor(math.log2(walk.sigma(size))) - 20)
                assert all(value % step == 0 for value in told)
        assert place == trace.choice < size


@pytest.mark.long
def test_little_noise_finds_the_best_wherever_it_is() -> None:
    for branching, shuffle in itertools.product((2, 4, 8, 16), (False, True)):
        walk = TreeSelection(
            noise_multiplier=1e-6, sensitivity=1, branching=branching, shuffle=shuffle
        )
        for size in (2, 7, 33):
            for best in range(size):
                scores = np.zeros(size)
                scores[best] = 1
                assert walk.release(scores, bits=SeededBits(best)) == best


def test_scores_of_any_kind() -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1)
    kinds: list[tuple[Any, Any]] = [
        ([np.nan, 2.0, -0.0], [0.0, 2.0, 0.0]),
        ([np.inf, 2.0, -np.inf], [1.7976931348623157e308, 2, -1.7976931348623157e308]),
        (np.array([1, 2, 3], np.uint64), [1, 2, 3]),
        ([Fraction(1, 4), Fraction(1, 2), 3], [0.25, 0.5, 3.0]),
        ([10**30, 10**30 + 1, 0], [Fraction(10**30), 10**30 + 1, 0]),
    ]
    for strange, plain in kinds:
        for seed in range(8):
            assert walk.release(strange, bits=SeededBits(seed)) == walk.release(
                plain, bits=SeededBits(seed)
            )
    thirds = [Fraction(1, 3), Fraction(2, 3)]
    assert {walk.release(thirds, bits=SeededBits(seed)) for seed in range(20)} == {0, 1}
    assert walk.release([np.inf] * 4 + [-np.inf]) < 4
    assert walk.release([3], bits=ScriptedBits([])) == 0


@pytest.mark.parametrize("scores", [[], 1, np.ones((1, 2)), np.array(["a"]), np.array([1j, 2])])
def test_wrong_scores_are_refused(scores: Any) -> None:
    walk = TreeSelection(noise_multiplier=1, sensitivity=1, shuffle=True)
    with pytest.raises(InvalidParameter, match="scores"):
        walk.release(scores, bits=ScriptedBits([]))


@in_subtests(
    ("name", "value"),
    [
        *(("noise_multiplier", value) for value in (0, -1, math.nan, math.inf, None)),
        *(("sensitivity", value) for value in (0, -1, math.nan, math.inf, None)),
        *(("branching", value) for value in (1, 3, 32, None, 2.5)),
        ("shuffle", 1),
        ("monotone", "no"),
    ],
)
def test_wrong_numbers_are_refused(name: str, value: Any) -> None:
    given: dict[str, Any] = {"noise_multiplier": 1, "sensitivity": 1}
    with pytest.raises(InvalidParameter, match=name):
        TreeSelection(**(given | {name: value}))
