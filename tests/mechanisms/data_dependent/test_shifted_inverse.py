"""The shifted inverse by an ascending search: exact laws against its event, ranks, faults."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.data_dependent.removal_laws import (
    Law,
    ascending,
    excess,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

import unacorda
from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.mechanisms.data_dependent import DistinctCount, KthLargest, Maximum, Sum
from unacorda.mechanisms.data_dependent.removal import geometric_grid, removal_losses, rising
from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse
from unacorda.privacy import events

GRID = (0, 1, 2, 4, 6, 11)
TOTAL = Sum(lower=0, upper=None)
STATISTICS: list[Any] = [
    TOTAL,
    Maximum(lower=0, upper=9),
    KthLargest(k=2, lower=0, upper=9),
    DistinctCount(),
]
SLACK = 1e-9


def made(**changed: Any) -> ShiftedInverse:
    given: dict[str, Any] = {"statistic": TOTAL, "epsilon": 1, "grid": GRID, "target": 2}
    return ShiftedInverse(**(given | changed))


def law_of(mechanism: ShiftedInverse, losses: Sequence[int]) -> Law:
    """The law that the documentation of a solver gives."""
    target = mechanism.target
    assert mechanism.epsilon is not None
    epsilon = float(mechanism.epsilon)
    one_way = mechanism.neighbors is unacorda.AddRemove or mechanism.statistic is not None
    if one_way and not mechanism.bounded_range:
        return ascending(
            losses, target=target, threshold_scale=2 / epsilon, query_scale=2 / epsilon
        )
    share = 1 / (1 + round(16 * 2 ** (2 / 3)) / 16)
    return ascending(
        losses,
        target=target,
        threshold_scale=1 / (epsilon * share),
        query_scale=2 / (epsilon * (1 - share)),
    )


def loss_pairs(
    statistic: Any, *, replaced: bool, domain: Sequence[int] = (0, 1, 3, 5), most: int = 4
) -> Iterator[tuple[list[int], list[int]]]:
    """Losses of neighboring datasets, each pair in both orders."""
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    grid = rising(GRID)
    for size in range(most + 1):
        for x in itertools.combinations_with_replacement(domain, size):
            for person in domain:
                here = (*x, 0) if replaced else x
                others = [(*x, other) for other in domain] if replaced else [here]
                for other in others:
                    there = (*x, person)
                    pair = tuple(
                        tuple(removal_losses(statistic, np.array(d, dtype=int), grid=grid).tolist())
                        for d in (other, there)
                    )
                    seen.add((pair[0], pair[1]))
                    seen.add((pair[1], pair[0]))
    for one, two in sorted(seen):
        if one != two:
            yield list(one), list(two)


SOLVERS: list[dict[str, Any]] = [{}, {"bounded_range": True}]


# ---- the guarantee, exactly


@pytest.mark.parametrize("replaced", mostly_slow([False, True]))
@in_subtests("solver", SOLVERS)
@in_subtests("statistic", STATISTICS)
def test_neighbors_differ_by_no_more_than_the_event(
    statistic: Any, solver: dict[str, Any], replaced: bool
) -> None:
    neighbors = unacorda.ReplaceOne if replaced else unacorda.AddRemove
    mechanism = made(statistic=statistic, neighbors=neighbors, **solver)
    curve = {e: accounting.delta(mechanism.event, epsilon=e) for e in (0.0, 0.3, 0.7, 1.0)}
    pairs = list(loss_pairs(statistic, replaced=replaced, most=3 if replaced else 4))
    laws = {tuple(one): law_of(mechanism, one) for one, _ in pairs}
    widest = 0.0
    for one, two in pairs:
        here, there = laws[tuple(one)], laws[tuple(two)]
        for epsilon, delta in curve.items():
            assert excess(here, there, epsilon=epsilon) <= delta + SLACK
        ratios = [math.log(here[k] / there[k]) for k in here]
        widest = max(widest, max(ratios) - min(ratios))
        if mechanism.bounded_range:
            assert max(ratios) - min(ratios) <= 1 + SLACK
    assert widest > 0.4


def falling(points: int, most: int) -> Iterator[tuple[int, ...]]:
    for losses in itertools.product(range(most, -1, -1), repeat=points):
        if all(one >= two for one, two in itertools.pairwise(losses)):
            yield losses


@pytest.mark.long
def test_any_losses_under_replacement_get_the_noise_of_the_general_case() -> None:
    # Losses that move by one either way, as those of an arbitrary function may.
    mechanism = made(statistic=None, neighbors=unacorda.ReplaceOne)
    assert mechanism.event == events.Pure(epsilon=1)
    laws = {losses: law_of(mechanism, losses) for losses in falling(6, 5)}
    one_way = {
        losses: ascending(losses, target=2, threshold_scale=2, query_scale=2) for losses in laws
    }
    worst, planted = 0.0, 0.0
    for one, two in itertools.permutations(laws, 2):
        if all(abs(a - b) <= 1 for a, b in zip(one, two, strict=True)):
            worst = max(worst, *(math.log(laws[one][k] / laws[two][k]) for k in range(6)))
            planted = max(planted, *(math.log(one_way[one][k] / one_way[two][k]) for k in range(6)))
    assert 0.6 < worst <= 1 + SLACK
    assert planted > 1.04  # the noise for losses that move one way


# ---- the law of what is drawn


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("solver", mostly_slow(SOLVERS))
def test_draws_have_the_exact_law(solver: dict[str, Any]) -> None:
    mechanism, losses, count = made(**solver), [9, 6, 4, 3, 1, 0], 6_000
    bits = SeededBits(77)
    drawn = np.bincount(
        [mechanism.release_losses(losses, bits=bits).index for _ in range(count)], minlength=6
    )

    def accepted(law: Law) -> float:
        expected = np.array([law[k] for k in range(6)]) * count
        return float(stats.chi2.sf(((drawn - expected) ** 2 / expected).sum(), 5))

    assert accepted(law_of(mechanism, losses)) > 1e-8
    assert accepted(law_of(made(**(solver | {"target": 3})), losses)) < 1e-9


def test_a_release_is_the_answer_to_its_losses() -> None:
    values = [3, 1, 1, 5]
    losses = removal_losses(TOTAL, values, grid=rising(GRID))
    for solver in SOLVERS:
        mechanism = made(**solver)
        for seed in range(5):
            here = mechanism.release(values, bits=SeededBits(seed))
            assert here == mechanism.release_losses(losses, bits=SeededBits(seed))
            assert here.value == GRID[here.index]
            assert here.reached == (here.index < 5)


# ---- the rank guarantee


@in_subtests("confidence", [0.5, 0.95, 0.999])
@in_subtests("solver", SOLVERS)
def test_ranks_hold_with_the_stated_confidence(solver: dict[str, Any], confidence: float) -> None:
    mechanism = made(target=None, confidence=confidence, grid=range(40), **solver)
    miss = (1 - confidence) / 2
    reach, deep = mechanism.people, 3 * mechanism.people + 40
    for zeros in (1, 7, 20, 39):
        for jump in (
            [deep] * (40 - zeros),
            list(range(40 - zeros, 0, -1)),
            [reach + 1] * (40 - zeros),
        ):
            losses = jump + [0] * zeros
            law = law_of(mechanism, losses)
            above = sum(p for k, p in law.items() if k > 0 and losses[k - 1] == 0)
            below = sum(p for k, p in law.items() if losses[k] > reach)
            assert above <= miss + SLACK
            assert below <= miss + SLACK


def test_the_default_target_is_the_least_for_its_confidence() -> None:
    for epsilon, target in ((1, 6), (0.1, 60), (3, 2)):
        mechanism = made(target=None, epsilon=epsilon)
        assert mechanism.target == target
        losses = [10**6] * 5 + [0] * 2000
        law = ascending(
            losses, target=target - 1, threshold_scale=2 / epsilon, query_scale=2 / epsilon
        )
        assert sum(p for k, p in law.items() if k > 5) > 0.025


def test_a_small_target_lowers_the_confidence_that_is_told() -> None:
    assert made(target=None).release([1], bits=SeededBits(1)).confidence == 0.95
    told = made(target=2).release([1], bits=SeededBits(1)).confidence
    law = ascending([10**6] * 5 + [0] * 2000, target=2, threshold_scale=2, query_scale=2)
    assert 0 <= 0.975 - sum(p for k, p in law.items() if k > 5) - told < 1e-6
    assert made(target=0, solver="tolerant search").release([1]).confidence == 0.0


@pytest.mark.statistical
def test_a_sum_without_bounds_is_within_six_percent() -> None:
    draws = np.random.default_rng(5).lognormal(10, 1.5, 10_000)
    mechanism = made(grid=geometric_grid(1, 10**12), target=None)
    bits = SeededBits(9)
    errors = [mechanism.release(draws, bits=bits).value / draws.sum() - 1 for _ in range(101)]
    # With these bits the median is -3 %.
    assert -0.06 < float(np.median(errors)) < 0


def test_people_above_every_point_are_told() -> None:
    released = made(target=None).release([100] * 300, bits=SeededBits(2))
    assert (released.value, released.reached) == (11.0, False)
    assert "the end of the grid" in str(released)
    assert "underestimate by design" in str(released)


# ---- what is refused, before any bit is drawn


@in_subtests(
    ("name", "changed"),
    [
        ("epsilon", {"epsilon": 0}),
        ("epsilon", {"epsilon": None}),
        ("epsilon", {"epsilon": math.nan}),
        ("epsilon", {"epsilon": 1e-12}),
        ("grid", {"grid": [3, 2]}),
        ("grid", {"grid": [-1, 2]}),
        ("neighbors", {"neighbors": unacorda.ZeroOut}),
        ("solver", {"solver": "descending"}),
        ("target", {"target": -1}),
        ("target", {"target": 2.5}),
        ("confidence", {"confidence": 1}),
        ("statistic", {"statistic": Sum(lower=-1, upper=1)}),
        ("solver", {"solver": "binary search"}),
        (
            "bounded_range",
            {"bounded_range": True, "statistic": None, "neighbors": unacorda.ReplaceOne},
        ),
        ("noise", {"noise": DiscreteLaplace(scale=1, l1_sensitivity=1)}),
    ],
)
def test_bad_parameters_are_named(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=name):
        made(**changed)


def test_bad_data_is_refused_by_shape_and_dtype_alone() -> None:
    nothing = ScriptedBits([])
    for values in (np.array([[1.0]]), np.array(["a"]), np.array([1j])):
        with pytest.raises(InvalidParameter, match="values"):
            made().release(values, bits=nothing)
    for losses in ([1, 0], np.array([1.0] * 6), np.array([[0] * 6])):
        with pytest.raises(InvalidParameter, match="losses"):
            made().release_losses(losses, bits=nothing)
    with pytest.raises(InvalidParameter, match="release_losses"):
        made(statistic=None).release([1], bits=nothing)


def test_losses_that_rise_or_are_negative_are_made_to_fall() -> None:
    mechanism = made(epsilon=Fraction(3, 10))
    for seed in range(20):
        odd = mechanism.release_losses([9, -5, 3, 2, 2**62, 0], bits=SeededBits(seed))
        even = mechanism.release_losses([9, 0, 0, 0, 0, 0], bits=SeededBits(seed))
        assert odd == even
