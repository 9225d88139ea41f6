"""Both sides of a curve of which the profile is known at a few epsilons, against the curve."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unacorda.privacy import conversions
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.tradeoff import TradeoffCurve

Law = tuple[Fraction, ...]
WEIGHTS = st.integers(1, 40).map(Fraction)


def profile(p: Law, q: Law, t: Fraction) -> Fraction:
    """The larger hockey-stick divergence of both orders at e^epsilon = t, also below 1."""
    one = sum((max(Fraction(0), a - t * b) for a, b in zip(p, q, strict=True)), Fraction(0))
    two = sum((max(Fraction(0), b - t * a) for a, b in zip(p, q, strict=True)), Fraction(0))
    return max(one, two)


def least_misses(p: Law, q: Law, rate: Fraction) -> Fraction:
    """The sup over t > 0 of 1 - delta(t) - t rate: at a kink, or where both orders meet."""
    ratios = {a / b for a, b in zip(p, q, strict=True)}
    kinks = sorted({Fraction(0)} | ratios | {1 / r for r in ratios})
    places = [*kinks, kinks[-1] + 1]
    for low, high in itertools.pairwise(kinks):
        ends = []
        for t in (low, high):
            one = sum(max(Fraction(0), a - t * b) for a, b in zip(p, q, strict=True))
            two = sum(max(Fraction(0), b - t * a) for a, b in zip(p, q, strict=True))
            ends.append(one - two)
        if ends[0] * ends[1] < 0:
            places.append(low + (high - low) * ends[0] / (ends[0] - ends[1]))
    return max(1 - profile(p, q, t) - t * rate for t in places)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1, 20), Fraction(1)]))
def test_the_curve_of_a_finite_pair_lies_between(data: st.DataObject, loose: Fraction) -> None:
    size = data.draw(st.integers(2, 5))
    raw, other = (data.draw(st.lists(WEIGHTS, min_size=size, max_size=size)) for _ in "pq")
    p = tuple(w / sum(raw) for w in raw)
    q = tuple(w / sum(other) for w in other)
    grid = sorted(data.draw(st.sets(st.integers(0, 60), max_size=9)))
    epsilons = [Fraction(place, 12) for place in grid]
    # a float e^epsilon is within 1e-15 of the number: delta is read a little to either side
    near = [(e, Fraction(math.exp(e))) for e in epsilons]
    gap = Fraction(1, 10**12)
    promised = [(e, min(Fraction(1), profile(p, q, t * (1 - gap)))) for e, t in near]
    attained = [(e, profile(p, q, t * (1 + gap)) * (1 - loose)) for e, t in near]
    curve = TradeoffCurve.of_profile(promised, attained=attained)
    for text in ("0", "1e-6", "0.01", "0.1", "0.37", "0.8", "1"):
        rate = Fraction(text)
        truth = least_misses(p, q, rate)
        found = curve.beta_interval(alpha=rate)
        assert found.lower <= truth <= found.upper <= 1 - rate + Fraction(1, 10**15)


@pytest.mark.long
def test_a_close_profile_gives_a_close_curve() -> None:
    """Between two places delta lies above chords: the error is that of second order."""
    exact = TradeoffCurve.of_guarantee(GDP(1))
    for points, width in ((26, 3e-3), (101, 2e-4)):
        grid = [4 * (k / (points - 1)) ** 1.5 for k in range(points)]
        deltas = [(e, conversions.approx_dp_delta_from_gdp(1.0, epsilon=e)) for e in grid]
        curve = TradeoffCurve.of_profile(
            deltas, attained=[(e, math.nextafter(d, 0.0)) for e, d in deltas]
        )
        for rate in (0.001, 0.01, 0.3, 0.7, 0.99):
            outer, inner = curve.beta_interval(alpha=rate), exact.beta_interval(alpha=rate)
            assert outer.lower <= inner.lower <= inner.upper <= outer.upper
            assert outer.width < width


def test_straight_pieces_are_exact() -> None:
    """Randomised response: one kink, at e^epsilon; delta is a straight line up to there."""
    epsilons = [0.0, 0.25, 0.5, 0.75, 1.0]
    deltas = [(e, conversions.approx_dp_delta_from_pure(1.0, epsilon=e)) for e in epsilons]
    curve = TradeoffCurve.of_profile(
        deltas, attained=[(e, math.nextafter(d, 0.0)) for e, d in deltas]
    )
    for rate in (0.01, 0.1, 0.5, 0.9):
        truth = max(1 - math.e * rate, (1 - rate) / math.e)
        found = curve.beta_interval(alpha=rate)
        assert found.lower == pytest.approx(truth, rel=1e-13)
        assert found.upper == pytest.approx(truth, rel=1e-12)


def test_without_pairs_only_the_ends_are_known() -> None:
    curve = TradeoffCurve.of_profile([])
    for rate in (0.0, 0.3, 1.0):
        found = curve.beta_interval(alpha=rate)
        assert found.lower == 0
        assert found.upper == pytest.approx(1 - rate, abs=1e-15)
    curve = TradeoffCurve.of_profile([], attained=[(0.0, 0.5)])
    assert curve.beta_interval(alpha=0.25).upper == pytest.approx(0.5)  # 1 - 0.5 - 0.25 / 1 and
    assert curve.beta_interval(alpha=0.0).upper == 1.0  # nothing is known of larger epsilons
