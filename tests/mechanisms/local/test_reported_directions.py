"""Vectors told by one of some directions: laws for given axes, ratios, means and variances."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats
from tests.mechanisms.local.report_laws import (
    WHOLE,
    at_most_exp,
    hockey_stick,
    shortfall,
    worst_ratio,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import ReplaceOne, accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import directions
from unacorda.mechanisms.local.directions import Directions
from unacorda.privacy import events

EPSILONS = ["1/100", "1/2", "1", "2", "4", "8", "40"]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def law(mechanism: Directions, axes: Floats, vector: Sequence[float]) -> dict[int, Fraction]:
    """The law of the told end, k for the end of axis k and axes + k for the one across from it."""
    size, count = 2 * mechanism.axes, mechanism.nearest
    ends = np.concatenate([axes, -axes])
    length = math.sqrt(sum(entry * entry for entry in vector))
    unit = np.array(vector) / length if length else np.eye(len(vector))[0]
    own = Fraction(1, 2) + Fraction(min(length / float(mechanism.radius), 1.0)) / 2
    near = Fraction(mechanism.chances, WHOLE)
    found = dict.fromkeys(range(size), Fraction(0))
    for sign, weight in ((1, own), (-1, 1 - own)):
        preferred = set(np.argsort(-sign * (ends @ unit))[:count].tolist())
        for end in range(size):
            chance = near / count if end in preferred else (1 - near) / (size - count)
            found[end] += weight * chance
    return found


def fix(monkeypatch: pytest.MonkeyPatch, axes: Floats) -> None:
    """Everybody draws these axes."""

    def drawn(count: int, size: int, bits: Any) -> Floats:
        return np.tile(axes, (count // len(axes), 1))

    monkeypatch.setattr(directions, "_drawn", drawn)


def some_axes(mechanism: Directions, seed: int) -> Floats:
    rows = np.random.default_rng(seed).normal(size=(mechanism.axes, mechanism.size))
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


VECTORS = [[0.6, 0.0, 0.8], [-0.6, 0.0, -0.8], [0.0, 1.0, 0.0], [0.1, -0.3, 0.2], [0.0] * 3]


@in_subtests("epsilon", EPSILONS)
@in_subtests("size", [1, 2, 3, 50])
def test_ratios_are_at_most_e_to_the_epsilon(epsilon: str, size: int) -> None:
    mechanism = Directions(epsilon=Fraction(epsilon), size=size)
    near = Fraction(mechanism.chances, WHOLE)
    ratio = (near / mechanism.nearest) / ((1 - near) / (2 * mechanism.axes - mechanism.nearest))
    assert at_most_exp(ratio, Fraction(epsilon))
    if Fraction(epsilon) <= 8:
        assert shortfall(ratio, Fraction(epsilon)) < 1e-12


@pytest.mark.parametrize("epsilon", ["1/2", "1", "3"])
@pytest.mark.parametrize("seed", range(3))
def test_no_two_vectors_are_farther_apart_than_the_event_says(epsilon: str, seed: int) -> None:
    mechanism = Directions(epsilon=Fraction(epsilon), size=3)
    axes = some_axes(mechanism, seed)
    laws = [law(mechanism, axes, vector) for vector in VECTORS]
    assert at_most_exp(worst_ratio(laws), Fraction(epsilon))  # type: ignore[arg-type]
    for at in (0.0, 0.2, 0.45, 1.0, 2.5):
        priced = accounting.delta(mechanism.event, epsilon=at, neighbors=ReplaceOne)
        found = max(
            hockey_stick(a, b, math.exp(at))  # type: ignore[arg-type]
            for a in laws
            for b in laws
        )
        assert found <= priced + 1e-15
        if at == 0 and isinstance(mechanism.event, events.RandomizedResponse):
            assert found > 0.7 * priced


@pytest.mark.statistical
@pytest.mark.parametrize("vector", VECTORS)
def test_reports_have_their_law(monkeypatch: pytest.MonkeyPatch, vector: list[float]) -> None:
    mechanism = Directions(epsilon=1, size=3)
    axes = some_axes(mechanism, 4)
    fix(monkeypatch, axes)
    told = mechanism.encode([vector] * 60_000, bits=SeededBits(5))
    ends = np.concatenate([axes, -axes])
    place = np.argmax(told @ ends.T, axis=1)
    assert np.abs(told - ends[place]).max() < 1e-12
    counts = np.bincount(place, minlength=len(ends))
    shares = np.array([float(chance) for chance in law(mechanism, axes, vector).values()])
    assert stats.chisquare(counts, shares * 60_000).pvalue > 1e-8
    # Ends that are preferred by a tenth more would be told apart, and so would other vectors.
    bent = shares * np.where(shares > shares.mean(), 1.1, 1.0)
    if np.ptp(shares) > 0.05:
        assert stats.chisquare(counts, bent / bent.sum() * 60_000).pvalue < 1e-9
    other = np.array([float(c) for c in law(mechanism, axes, [0.5, -0.9, 0.1]).values()])
    assert stats.chisquare(counts, other * 60_000).pvalue < 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "size"), mostly_slow([(1.0, 1), (1.0, 2), (2.0, 5), (6.0, 20)])
)
def test_decoded_reports_are_unbiased_and_scatter_as_said(epsilon: float, size: int) -> None:
    mechanism = Directions(epsilon=epsilon, size=size, radius=2)
    vector = np.random.default_rng(size).normal(size=size)
    for length in (0.0, 0.7, 2.0, 9.0):
        cut = vector / np.linalg.norm(vector) * min(length, 2.0)
        told = mechanism.release(
            np.tile(vector / np.linalg.norm(vector) * length, (40_000, 1)), bits=SeededBits(7)
        )
        variance = mechanism.variance - min(length, 2.0) ** 2 / size
        # Six deviations of each mean; of directions uneven by at most twice their mean.
        assert np.abs(told.mean(axis=0) - cut).max() < 6 * math.sqrt(2 * variance / 40_000)
        assert np.var(told, axis=0).mean() == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize("size", [2, 3, 7, 100])
def test_the_mean_cosine_is_that_of_the_nearest_axes(size: int) -> None:
    """By order statistics: another integral, over the ranks one by one."""

    def cosine(u: float) -> float:
        return math.sqrt(float(special.betaincinv(0.5, (size - 1) / 2, u)))

    for axes, nearest in ((1, 1), (4, 2), (16, 3)):
        expected = 0.0
        for rank in range(axes - nearest + 1, axes + 1):

            def integrand(u: float, rank: int = rank, axes: int = axes) -> float:
                return cosine(u) * float(stats.beta.pdf(u, rank, axes - rank + 1))

            expected += integrate.quad(integrand, 0, 1, limit=200)[0] / nearest
        assert directions._nearness(size, axes, nearest) == pytest.approx(expected, rel=1e-6)


def test_many_axes_beat_one_where_epsilon_is_large() -> None:
    one = math.sqrt(20) * directions._ends(Fraction(math.exp(4)), 20, 1, 1).signal
    many = 1 / math.sqrt(Directions(epsilon=4, size=20).variance)
    assert many > 1.8 * one
    # The limit of many axes (PrivUnit in many dimensions): phi(t) (e - 1) / (1 + q (e - 1)).
    shares = np.linspace(0.01, 0.6, 200)
    best = (stats.norm.pdf(stats.norm.isf(shares)) * 53.6 / (1 + shares * 53.6)).max()
    assert 0.9 * best < 1 / math.sqrt(Directions(epsilon=4, size=500).variance) < best


def test_long_and_strange_vectors_count_as_plain_ones() -> None:
    mechanism = Directions(epsilon=2, size=2, radius=3)
    strange = [
        [math.inf, 0],
        [math.nan, 5],
        [1e308, 1e308],
        [-0.0, 1],
        [5e-324, 0],
        [1e200, 1e-200],
    ]
    plain = [[7, 0], [0, 5], [4, 4], [0, 1], [5e-324, 0], [3, 0]]
    a, b = (mechanism.encode(np.array(rows), bits=SeededBits(1)) for rows in (strange, plain))
    assert np.allclose(a, b)
    assert mechanism.encode(np.zeros((0, 2))).shape == (0, 2)
    assert mechanism.encode(np.zeros((4, 3, 2), np.float32)).shape == (4, 3, 2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": 0}, "size"),
        ({"size": 2.5}, "size"),
        ({"size": 10**6}, "size"),
        ({"radius": 0}, "radius"),
        ({"radius": 10**400}, "radius"),
        ({"epsilon": 1e-300}, "epsilon"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        Directions(**({"epsilon": 1, "size": 2} | change))


@pytest.mark.parametrize("x", [1.0, [1.0], np.ones((1, 3)), "ab", np.array([[1j, 2]])])
def test_other_vectors_are_refused_before_a_bit_is_drawn(x: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^x="):
        Directions(epsilon=1, size=2).encode(x, bits=ScriptedBits([]))
