"""Stability-based selection: its guarantee, met exactly, and thresholds that do not meet it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.stable import StableSelection
from unacorda.privacy import events

GUARANTEES: list[tuple[Any, Any]] = [
    (Fraction(1, 2), Fraction(1, 50)),
    (1, Fraction(1, 10**6)),
    (3, Fraction(1, 1000)),
    (Fraction(1, 100), Fraction(1, 10)),
    (8, Fraction(1, 3)),
]


def recursion(epsilon: Any, delta: Any, levels: int) -> list[mpf]:
    """The probabilities from their definition, step by step."""
    eps, spare = (
        mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator,
        mpf(delta.numerator),
    )
    spare /= delta.denominator
    found = [mpf(0)]
    for _ in range(levels):
        last = found[-1]
        found.append(min(mp.exp(eps) * last + spare, 1 - mp.exp(-eps) * (1 - last - spare), mpf(1)))
    return found


@pytest.mark.parametrize(("epsilon", "delta"), GUARANTEES)
def test_levels_are_those_of_the_recursion(epsilon: Any, delta: Any) -> None:
    mechanism = StableSelection(epsilon=epsilon, delta=delta, sensitivity=3)
    with mp.workdps(60):
        steps = recursion(epsilon, delta, 60)
        for level in range(1, 61):
            for lead in (6 * level - 5.5, 6 * level):
                found = mechanism.probability(lead)
                short = steps[level] - mpf(found.numerator) / found.denominator
                assert 0 <= short < mpf(2) ** -90  # rounded down from step to step
    assert mechanism.probability(0) == mechanism.probability(6)


def release_probability(
    scores: tuple[float, ...], rule: Callable[[float], float]
) -> tuple[int, float]:
    """Who is best, and the probability of being told, by a rule of the gap."""
    order = sorted(range(len(scores)), key=lambda k: (-scores[k], k))
    return order[0], rule(scores[order[0]] - scores[order[1]])


def worst_delta(
    rule: Callable[[float], float], *, epsilon: float, sensitivity: float, monotone: bool
) -> float:
    """The largest hockey-stick divergence over neighbors of three candidates."""
    worst = 0.0
    grid = [k * sensitivity / 2 for k in range(-4, 60, 3)] + [0.0, sensitivity, 2 * sensitivity]
    steps = (0.0, sensitivity) if monotone else (-sensitivity, 0.0, sensitivity)
    up = list(itertools.product(steps, repeat=3))
    for lead in grid:
        base = (lead, 0.0, -sensitivity)
        for move in up + [tuple(-m for m in one) for one in up]:
            moved: Any = tuple(a + b for a, b in zip(base, move, strict=True))
            (best, p), (other, q) = (release_probability(s, rule) for s in (base, moved))
            one = {best: p, None: 1 - p}
            two = {other: q, None: 1 - q}
            for here, there in ((one, two), (two, one)):
                stick = sum(
                    max(mass - math.exp(epsilon) * there.get(k, 0.0), 0) for k, mass in here.items()
                )
                worst = max(worst, stick)
    return worst


@pytest.mark.long
@pytest.mark.parametrize("monotone", mostly_slow([False, True]))
@pytest.mark.parametrize(("epsilon", "delta"), GUARANTEES)
def test_neighbors_keep_the_guarantee_and_touch_it(
    epsilon: Any, delta: Any, monotone: bool
) -> None:
    mechanism = StableSelection(epsilon=epsilon, delta=delta, sensitivity=3, monotone=monotone)
    assert mechanism.event == events.Approximate(epsilon=epsilon, delta=delta)
    numbers: Any = {"epsilon": float(epsilon), "sensitivity": 3.0, "monotone": monotone}
    worst = worst_delta(chances(mechanism), **numbers)
    assert worst <= float(delta) + 1e-13
    assert worst > 0.999 * float(delta)


def chances(mechanism: StableSelection) -> Callable[[float], float]:
    return lambda gap: float(mechanism.probability(gap))


def laplace(threshold: float, epsilon: float, step: float) -> Callable[[float], float]:
    """Release where gap / step + Lap(1 / epsilon) passes a threshold."""
    return lambda gap: float(stats.laplace.sf((threshold - gap / step) * epsilon))


@pytest.mark.long
def test_folklore_thresholds_do_not_keep_it() -> None:
    epsilon, delta = 3.0, 1e-3
    numbers: Any = {"epsilon": epsilon, "sensitivity": 3.0, "monotone": False}
    right = 1 + math.log(1 / (2 * delta)) / epsilon
    assert worst_delta(laplace(right, epsilon, 6.0), **numbers) <= delta * (1 + 1e-9)
    folklore = math.log(1 / delta) / epsilon
    found = worst_delta(laplace(folklore, epsilon, 6.0), **numbers)
    assert found > 5 * delta
    assert found == pytest.approx(math.exp(epsilon) * delta / 2, rel=1e-3)
    # The gap counted as if it moved by the sensitivity alone, on scores that are not monotone.
    assert worst_delta(laplace(right, epsilon, 3.0), **numbers) > 5 * delta
    monotone = StableSelection(epsilon=3, delta=Fraction(1, 1000), sensitivity=3, monotone=True)
    assert worst_delta(chances(monotone), **numbers) > 5 * delta


@pytest.mark.parametrize(("epsilon", "delta"), GUARANTEES)
def test_no_laplace_threshold_releases_more_often(epsilon: Any, delta: Any) -> None:
    mechanism = StableSelection(epsilon=epsilon, delta=delta, sensitivity=1)
    right = 1 + math.log(1 / (2 * delta)) / float(epsilon)
    rule = laplace(right, float(epsilon), 2.0)
    for gap in np.linspace(0.01, 120, 100).tolist():
        assert float(mechanism.probability(gap)) >= rule(gap) * (1 - 1e-12)


@pytest.mark.long
@pytest.mark.statistical
def test_releases_have_the_probability() -> None:
    mechanism = StableSelection(epsilon=1, delta=0.05, sensitivity=0.5)
    bits, count = SeededBits(91), 4000
    leads = (0.0, 1.25, 2.5, 4.0)
    seen = [
        sum(mechanism.release([1, 1 + lead, 0], bits=bits) is not None for _ in range(count))
        for lead in leads
    ]

    def accepted(delta: float) -> float:
        other = StableSelection(epsilon=1, delta=delta, sensitivity=0.5)
        chances = [float(other.probability(lead)) for lead in leads]
        terms = [
            (told - count * p) ** 2 / (count * p * (1 - p))
            for told, p in zip(seen, chances, strict=True)
        ]
        return float(stats.chi2.sf(math.fsum(terms), len(terms)))

    assert accepted(0.05) > 1e-8
    assert accepted(0.055) < 1e-9


def test_words_beside_the_probability_read_on() -> None:
    mechanism = StableSelection(epsilon=1, delta=Fraction(1, 3), sensitivity=1)
    edge, third = 2**64 // 3, (2**128 // 3) & (2**64 - 1)
    for side, told in ((-1, 1), (1, None)):
        bits = ScriptedBits([edge, third + side])
        assert mechanism.release([0, 1], bits=bits) == told
        assert bits.left == 0
    assert mechanism.release([0, 1], bits=ScriptedBits([edge - 1])) == 1
    assert mechanism.release([0, 1], bits=ScriptedBits([edge + 1])) is None


def test_leads_are_counted_exactly_and_rounded_up() -> None:
    # 0.1 + 0.2 > 0.3 in floats, and these are the numbers that count.
    mechanism = StableSelection(epsilon=1, delta=0.01, sensitivity=0.05, monotone=True)
    one = mechanism.probability(Fraction(1, 20))
    assert mechanism.probability(0) == one
    assert float(one) == pytest.approx(0.01)
    assert mechanism.probability(Fraction(1, 20) + Fraction(1, 10**30)) > 2 * one
    for word in (0, 2**58, 2**63):
        bits = ScriptedBits([word])
        exact = mechanism.release([Fraction(1, 10), Fraction(1, 20)], bits=bits)
        assert exact == (0 if word < 2**64 / 100 else None)


def test_the_leader_is_certain_where_the_lead_is_large() -> None:
    mechanism = StableSelection(epsilon=1, delta=1e-6, sensitivity=1)
    lead = 2 * (1 + 2 * math.log(1e6))
    assert mechanism.probability(lead) == 1.0
    for word in (0, 2**64 - 1):
        assert mechanism.release([0, lead, 0], bits=ScriptedBits([word])) == 1
    assert mechanism.probability(1e308) == 1.0
    assert mechanism.release([np.inf, -np.inf], bits=ScriptedBits([7])) == 0
    assert mechanism.release([-5], bits=ScriptedBits([7])) == 0


def test_equal_leaders_are_told_at_most_by_delta() -> None:
    mechanism = StableSelection(epsilon=1, delta=0.01, sensitivity=1)
    for scores in ([5, 5], [0.0, -0.0], [np.nan, 0.0], [np.inf, np.inf, 0]):
        assert mechanism.release(scores, bits=ScriptedBits([2**64 // 99])) is None
        assert mechanism.release(scores, bits=ScriptedBits([2**64 // 101])) == 0


def test_extreme_guarantees() -> None:
    steep = StableSelection(epsilon=600, delta=Fraction(1, 10**20), sensitivity=1)
    assert steep.probability(4) > 1 - Fraction(1, 2**127)
    assert steep.probability(6) == 1
    flat = StableSelection(epsilon=1e-9, delta=1e-3, sensitivity=1)
    assert float(flat.probability(1000)) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("scores", [[], 1, np.ones((1, 2)), np.array(["a"]), np.array([1j, 2])])
def test_wrong_scores_are_refused(scores: Any) -> None:
    mechanism = StableSelection(epsilon=1, delta=0.01, sensitivity=1)
    with pytest.raises(InvalidParameter, match="scores"):
        mechanism.release(scores, bits=ScriptedBits([]))


@in_subtests(
    ("name", "value"),
    [
        *(("epsilon", value) for value in (0, -1, math.nan, None)),
        *(("delta", value) for value in (0, 1, -0.1, 1.5, math.nan, None)),
        *(("sensitivity", value) for value in (0, -1, math.inf, None)),
        ("monotone", 1),
    ],
)
def test_wrong_numbers_are_refused(name: str, value: Any) -> None:
    given: dict[str, Any] = {"epsilon": 1, "delta": 0.1, "sensitivity": 1}
    with pytest.raises(InvalidParameter, match=name):
        StableSelection(**(given | {name: value}))
    with pytest.raises(InvalidParameter, match="lead"):
        StableSelection(**given).probability(-1)
