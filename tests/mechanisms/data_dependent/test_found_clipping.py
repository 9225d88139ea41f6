"""Sums clipped at a found level: what moves, the laws, the errors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.data_dependent.removal_laws import ascending, excess
from tests.tiers import mostly_slow

import unacorda
from unacorda import accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.found_clipping import STEPS, FoundClipping, steps_at
from unacorda.mechanisms.data_dependent.removal import geometric_grid
from unacorda.privacy import events

LEVELS = (0.5, 1, 3, 10)
DOMAIN = (0.0, 0.3, 1.0, 2.5, 7.0, 1e300)


def made(**changed: Any) -> FoundClipping:
    given: dict[str, Any] = {"epsilon": 1, "levels": LEVELS}
    return FoundClipping(**(given | changed))


def skewed(count: int) -> Any:
    return np.random.default_rng(5).lognormal(10, 1.5, count)


# ---- the guarantee: what a person moves, and the law of the level


@pytest.mark.parametrize("level", [0.0, 0.1, 0.5, 1.0, 3.0, 1e-200, 1e299])
def test_a_person_moves_a_clipped_sum_by_at_most_the_level(level: float) -> None:
    widest = 0
    for size in range(4):
        for x in itertools.combinations_with_replacement(DOMAIN, size):
            here = [steps_at(np.array([*x, one]), level) for one in DOMAIN]
            for added in here:
                assert 0 <= added - steps_at(np.array(x), level) <= STEPS
            widest = max(widest, max(here) - min(here))
    assert widest == (STEPS if level else 0)


def test_both_steps_are_in_the_event() -> None:
    mechanism = made(epsilon=2, share=Fraction(1, 4))
    noise = events.DiscreteLaplace(scale=STEPS / Fraction(3, 2), sensitivity=STEPS)
    assert mechanism.event == events.compose([events.Pure(epsilon=Fraction(1, 2)), noise])
    assert accounting.epsilon(mechanism.event, delta=0) == pytest.approx(2, rel=1e-9)


def test_levels_of_neighbors_differ_by_no_more_than_their_share() -> None:
    # Counts above each level, of a search that has epsilon 1/2: scales 4.
    counts = [c for c in itertools.product(range(7), repeat=4) if list(c) == sorted(c)[::-1]]
    laws = {c: ascending(c, target=made().target, threshold_scale=4, query_scale=4) for c in counts}
    worst = 0.0
    for one, two in itertools.permutations(counts, 2):
        moves = {b - a for a, b in zip(one, two, strict=True)}
        if moves <= {0, 1}:
            worst = max(worst, *(abs(math.log(laws[one][k] / laws[two][k])) for k in range(4)))
            assert excess(laws[one], laws[two], epsilon=0.5) < 1e-12
    assert 0.3 < worst <= 0.5 + 1e-9


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", mostly_slow([unacorda.AddRemove, unacorda.ReplaceOne]))
def test_levels_and_sums_have_their_laws(neighbors: Any) -> None:
    values = [0.2] * 9 + [0.7] * 4 + [2.0] * 2 + [5.0]
    mechanism, bits, count = made(neighbors=neighbors, epsilon=2, target=3), SeededBits(6), 4_000
    released = [mechanism.release(values, bits=bits) for _ in range(count)]
    law = ascending([7, 3, 1, 0], target=3, threshold_scale=2, query_scale=2)
    wrong = ascending([7, 3, 1, 0], target=4, threshold_scale=2, query_scale=2)
    seen = np.array([sum(r.level == level for r in released) for level in LEVELS])

    def accepted(masses: dict[int, float]) -> float:
        expected = np.array([masses[k] for k in range(4)]) * count
        return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), 3))

    assert accepted(law) > 1e-8
    assert accepted(wrong) < 1e-9
    at_one = np.array([r.value for r in released if r.level == 1])
    assert stats.kstest(at_one - (1.8 + 2.8 + 3), stats.laplace(scale=1).cdf).pvalue > 1e-8
    assert stats.kstest(at_one - (1.8 + 2.8 + 3), stats.laplace(scale=1.3).cdf).pvalue < 1e-4
    deviations = {r.level: r.standard_deviation for r in released}
    assert deviations[1] == pytest.approx(math.sqrt(2))
    assert deviations[3] == pytest.approx(3 * math.sqrt(2))


@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_people_above_the_level_are_counted_from_above(confidence: float) -> None:
    mechanism = made(levels=range(30))
    reach = mechanism.people(confidence)
    counts = [reach + 1] * 29 + [0]
    law = ascending(counts, target=mechanism.target, threshold_scale=4, query_scale=4)
    miss = sum(p for k, p in law.items() if k < 29)
    assert 0.2 * (1 - confidence) < miss <= 1 - confidence


# ---- errors


@pytest.mark.long
@pytest.mark.statistical
def test_a_found_level_beats_the_target() -> None:
    values, bits = skewed(10_000), SeededBits(4)
    mechanism = made(levels=geometric_grid(1, 10**12, ratio=1.2))
    drawn = [mechanism.release(values, bits=bits).value for _ in range(101)]
    assert float(np.median(np.abs(np.array(drawn) / values.sum() - 1))) < 0.04


def test_missing_and_extreme_totals_count_as_documented() -> None:
    odd = [math.nan, -math.inf, -3, -0.0, math.inf, 2.0]
    even = [0.0, 0.0, 0.0, 0.0, 1e300, 2.0]
    mechanism = made()
    for seed in range(5):
        here, there = (mechanism.release(x, bits=SeededBits(seed)) for x in (odd, even))
        assert here == there
    assert isinstance(mechanism.release([]).value, float)


def test_the_last_level_is_told() -> None:
    released = made().release([1000] * 200, bits=SeededBits(1))
    assert (released.level, released.reached) == (10.0, False)
    assert "underestimate by design" in str(released)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("epsilon", {"epsilon": -1}),
        ("epsilon", {"epsilon": 1e-6}),
        ("levels", {"levels": [1]}),
        ("levels", {"levels": [-1, 1]}),
        ("levels", {"levels": [Fraction(1), Fraction(1) + Fraction(1, 10**30)]}),
        ("neighbors", {"neighbors": unacorda.ZeroOut}),
        ("share", {"share": 1}),
        ("target", {"target": -1}),
    ],
)
def test_bad_parameters_are_named(name: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=name):
        made(**changed)


def test_bad_data_is_refused_by_shape_and_dtype_alone() -> None:
    for values in (np.array([[1.0]]), np.array(["a"]), np.array([1j])):
        with pytest.raises(InvalidParameter, match="values"):
            made().release(values, bits=ScriptedBits([]))
