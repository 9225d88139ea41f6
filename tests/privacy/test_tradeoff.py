"""Trade-off curves against exact tests of small mechanisms and against their own properties."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.tradeoff import TradeoffCurve

ALPHAS = [0.0, 1e-300, 1e-9, 0.01, 0.05, 0.3, 0.5, 0.9, 0.999999, 1.0]
GUARANTEES = [
    PureDP(0),
    PureDP(1),
    PureDP(50),
    ApproxDP(0.5, 0.01),
    ApproxDP(0, 0.25),
    GDP(0),
    GDP(1),
    GDP(0.01, delta=0.001),
    GDP(30),
    ZCDP(0.5),
    ZCDP(0.1, delta=1e-6),
    RenyiDP(8, 0.5),
]


curve_of = functools.cache(TradeoffCurve.of_guarantee)


@pytest.fixture(params=GUARANTEES, ids=repr)
def curve(request: pytest.FixtureRequest) -> TradeoffCurve:
    return curve_of(request.param)


@pytest.mark.long
def test_curves_fall_are_convex_and_lie_below_the_diagonal(curve: TradeoffCurve) -> None:
    rates = [k / 40 for k in range(41)]
    values = [curve.beta(alpha=rate) for rate in rates]
    for rate, value in zip(rates, values, strict=True):
        interval = curve.beta_interval(alpha=rate)
        assert 0 <= interval.lower <= interval.upper <= 1 - rate + 1e-15
        assert curve.true_positive_rate(fpr=rate) >= 1 - value - 1e-15
    for one, two in itertools.pairwise(values):
        assert two <= one
    for one, two, three in zip(values, values[1:], values[2:], strict=False):
        assert two <= (one + three) / 2 + 1e-14


@pytest.mark.long
def test_a_curve_is_its_own_inverse(curve: TradeoffCurve) -> None:
    for rate in (1e-6, 0.01, 0.2, 0.4):
        missed = curve.beta(alpha=rate)
        if missed > 1e-300:
            assert curve.beta(alpha=missed) <= rate * (1 + 1e-9)


def upper_quantile(rate: float) -> Any:
    return mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(-x)) - mpmath.log(mpmath.mpf(rate)), 37)


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 3.0, 30.0])
def test_gaussian_curve_by_another_quantile(mu: float) -> None:
    curve = TradeoffCurve.of_guarantee(GDP(mu))
    with mpmath.workdps(60):
        for rate in ALPHAS[1:-1]:
            z = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1)
            if rate < 1e-20:
                z = upper_quantile(rate)
            truth = mpmath.ncdf(z - mpmath.mpf(str(mu)))
            interval = curve.beta_interval(alpha=rate)
            assert interval.lower <= truth <= interval.upper
            assert interval.upper <= interval.lower * (1 + 1e-15) + 1e-320


def test_the_last_end_is_exact(curve: TradeoffCurve) -> None:
    assert curve.beta_interval(alpha=1.0) == (0.0, 0.0)


def test_the_first_end_is_exact() -> None:
    assert TradeoffCurve.of_guarantee(PureDP(3)).beta(alpha=0) == pytest.approx(1, abs=1e-15)
    assert TradeoffCurve.of_guarantee(GDP(3)).beta(alpha=0) == pytest.approx(1, abs=1e-15)
    assert TradeoffCurve.of_guarantee(ApproxDP(3, 0.25)).beta(alpha=0) == pytest.approx(0.75)
    assert TradeoffCurve.of_guarantee(GDP(3, delta=0.25)).beta(alpha=0) == pytest.approx(0.75)


def randomised_response(epsilon: float) -> tuple[list[float], list[float]]:
    high = math.exp(epsilon) / (1 + math.exp(epsilon))
    return [high, 1 - high], [1 - high, high]


def neyman_pearson(p: list[float], q: list[float], rate: float) -> float:
    """The least miss rate of a test of Q against P, by its likelihood ratio, randomised."""
    outcomes = sorted(range(len(p)), key=lambda k: -p[k] / q[k] if q[k] else -math.inf)
    left, found = rate, 0.0
    for k in outcomes:
        share = 1.0 if q[k] <= left else left / q[k]
        found += share * p[k]
        left -= share * q[k]
        if left <= 0:
            break
    return 1 - found


@in_subtests("epsilon", [0.1, 1.0, 4.0])
@in_subtests("rate", [0.0, 0.01, 0.2, 0.5, 0.9])
def test_randomised_response_is_the_curve_of_pure_dp(epsilon: float, rate: float) -> None:
    curve = TradeoffCurve.of_guarantee(PureDP(epsilon))
    exact = neyman_pearson(*randomised_response(epsilon), rate)
    interval = curve.beta_interval(alpha=rate)
    assert interval.lower == pytest.approx(exact, abs=1e-14)
    assert interval.upper == pytest.approx(exact, abs=1e-14)
    best = max(
        1 - r - neyman_pearson(*randomised_response(epsilon), r)
        for r in (k / 1000 for k in range(1001))
    )
    assert curve.advantage >= best - 1e-12
    assert curve.advantage == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)


def profile(p: list[float], q: list[float], epsilon: float) -> float:
    grown = math.exp(epsilon)
    one = sum(max(0.0, a - grown * b) for a, b in zip(p, q, strict=True))
    two = sum(max(0.0, b - grown * a) for a, b in zip(p, q, strict=True))
    return max(one, two)


LAWS = st.lists(st.floats(0.01, 1), min_size=2, max_size=5)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), st.floats(0, 1), st.floats(0.01, 0.99))
def test_profiles_enclose_the_exact_curve_of_a_finite_mechanism(
    data: st.DataObject, rate: float, prior: float
) -> None:
    raw = data.draw(LAWS)
    other = data.draw(st.lists(st.floats(0.01, 1), min_size=len(raw), max_size=len(raw)))
    p = [w / sum(raw) for w in raw]
    q = [w / sum(other) for w in other]
    grid = [k / 8 for k in range(48)]
    points = [(e, profile(p, q, e)) for e in grid]
    curve = TradeoffCurve.of_profile(
        [(e, min(1.0, d + 1e-13)) for e, d in points],
        attained=[(e, max(0.0, d - 1e-13)) for e, d in points],
    )
    # the attacker takes the better of the two directions, or mixes them: convex hull
    knots = [k / 400 for k in range(401)] + [rate]
    both = {r: min(neyman_pearson(p, q, r), neyman_pearson(q, p, r)) for r in knots}
    interval = curve.beta_interval(alpha=rate)
    assert interval.lower <= both[rate] + 1e-12
    at = neyman_pearson(p, q, rate)
    assert curve.true_positive_rate(fpr=rate) >= 1 - at - 1e-12
    best = max(1 - r - miss for r, miss in both.items())
    assert curve.advantage >= best - 1e-12
    assert curve.advantage <= points[0][1] + 1e-9
    hull = min(
        both[a] + (both[b] - both[a]) * (rate - a) / (b - a)
        for a in knots[:-1:25]
        for b in knots[:-1:25]
        if a <= rate <= b and a < b
    )
    # the true curve is the hull of `both`; a coarse hull lies above it
    assert interval.lower <= hull + 1e-12
    risk = min((1 - prior) * r + prior * miss for r, miss in both.items())
    assert curve.bayes_risk(prior=prior) <= risk + 1e-12


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 5), st.floats(0.001, 0.999))
def test_bayes_risk_of_gaussian_is_that_of_the_best_threshold(mu: float, prior: float) -> None:
    curve = TradeoffCurve.of_guarantee(GDP(mu))
    normal = NormalDist()
    cut = mu / 2 + math.log((1 - prior) / prior) / mu
    truth = (1 - prior) * (1 - normal.cdf(cut)) + prior * normal.cdf(cut - mu)
    assert curve.bayes_risk(prior=prior) == pytest.approx(truth, rel=1e-6, abs=1e-9)
    assert curve.bayes_risk(prior=prior) <= truth * (1 + 1e-9) + 1e-12
    assert curve.bayes_risk(prior=0.5) == pytest.approx((1 - curve.advantage) / 2, rel=1e-12)


@pytest.mark.long
def test_the_upper_side_comes_from_what_is_attained() -> None:
    grid = [k / 50 for k in range(400)]
    exact = TradeoffCurve.of_guarantee(GDP(1))
    points = [(e, conversions.approx_dp_delta_from_gdp(1.0, epsilon=e)) for e in grid]
    curve = TradeoffCurve.of_profile(
        points, attained=[(e, math.nextafter(d, 0.0)) for e, d in points]
    )
    for rate in (1e-6, 0.01, 0.3, 0.7, 0.99):
        outer, inner = curve.beta_interval(alpha=rate), exact.beta_interval(alpha=rate)
        assert outer.lower <= inner.lower
        assert inner.upper <= outer.upper
        assert outer.width < 0.02
    assert curve.advantage == pytest.approx(exact.advantage, rel=1e-12)


def _gaussian_points(mu: float, epsilons: list[Any], slack: float) -> list[tuple[Any, float]]:
    deltas = (conversions.approx_dp_delta_from_gdp(mu, epsilon=e) for e in epsilons)
    return [(e, min(delta * (1 + slack), 1.0)) for e, delta in zip(epsilons, deltas, strict=True)]


@in_subtests(
    "epsilons",
    [
        [0.5, 700.0],
        [0.5, 200.0],
        [0.0, 1.0, 700.0],
        [1.0, 1 + Fraction(1, 10**80), Fraction(1, 10**400), 700.0],
        [0.5, 1e6, 1e100],
    ],
)
def test_places_far_out_or_all_but_equal_leave_bounds_from_both_sides(epsilons: list[Any]) -> None:
    promised = _gaussian_points(1.0, epsilons, 1e-12)
    attained = _gaussian_points(1.0, epsilons, -1e-12)
    curve = TradeoffCurve.of_profile(promised, attained=attained)
    near = TradeoffCurve.of_profile(promised[:1], attained=attained[:1])
    for alpha in (1e-3, 0.3, 0.7, 0.9, 0.99):
        truth = TradeoffCurve.of_guarantee(GDP(1)).beta(alpha=alpha)
        found, alone = curve.beta_interval(alpha=alpha), near.beta_interval(alpha=alpha)
        assert alone.lower <= found.lower <= truth <= found.upper <= alone.upper * (1 + 1e-12)


def test_pairs_beyond_all_floats_say_nothing_and_hide_nothing() -> None:
    pairs: list[tuple[Any, Any]] = [(1.0, 0.1), (1e300, 0.05)]
    curve = TradeoffCurve.of_profile(pairs, attained=pairs)
    alone = TradeoffCurve.of_profile(pairs[:1], attained=pairs[:1])
    assert curve.beta_interval(alpha=0.3) == alone.beta_interval(alpha=0.3)
    assert curve.advantage == alone.advantage
    assert curve.bayes_risk(prior=0.3) == alone.bayes_risk(prior=0.3)
    assert curve.beta(alpha=0) == pytest.approx(0.95)


def test_a_curve_keeps_its_upper_end_where_delta_does_not_fall() -> None:
    pairs = [(1.0, 1e-6), (100.0, 1e-6)]
    curve = TradeoffCurve.of_profile(pairs, attained=pairs)
    assert curve.beta_interval(alpha=0).upper < 0.9999991
    assert curve.beta_interval(alpha=1).upper == 0


@in_subtests("places", [20, 200, 400])
def test_a_gaussian_curve_is_sharp_at_rates_near_1(places: int) -> None:
    gap = Fraction(1, 10**places)
    low, high = TradeoffCurve.of_guarantee(GDP(0.01)).beta_interval(alpha=1 - gap)
    assert high <= max(low * (1 + 1e-14), 5e-324)
    assert 0 <= low <= high <= gap * 2**20 or places == 400


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [ZCDP(0.5), RenyiDP(8, 4)])
def test_concentrated_kinds_allow_more_than_the_gaussian_that_keeps_them(
    guarantee: Guarantee,
) -> None:
    curve, gaussian = TradeoffCurve.of_guarantee(guarantee), TradeoffCurve.of_guarantee(GDP(1))
    for rate in (1e-6, 0.01, 0.3, 0.7, 0.99):
        interval = curve.beta_interval(alpha=rate)
        assert interval.lower <= gaussian.beta(alpha=rate)
        assert interval.upper == pytest.approx(1 - rate)
    assert gaussian.advantage <= curve.advantage < 1


def test_a_single_pair_by_hand() -> None:
    curve = TradeoffCurve.of_guarantee(ApproxDP(Fraction(1), Fraction(1, 10)))
    for rate, truth in [
        (0.1, 0.9 - math.e / 10),
        (0.5, 0.4 / math.e),
        (0.9, 0.0),
        (0.95, 0.0),
    ]:
        assert curve.beta(alpha=rate) == pytest.approx(truth, rel=1e-12)
    # 1 - delta - (t - 1) a with a = (1 - delta)/(1 + t)
    assert curve.advantage == pytest.approx((math.e - 1 + 0.2) / (math.e + 1), rel=1e-12)
    assert TradeoffCurve().beta(alpha=0.3) == 0.0
    assert TradeoffCurve().advantage == 1.0
    assert TradeoffCurve().true_positive_rate(fpr=0.3) == 1.0
    assert TradeoffCurve().bayes_risk(prior=0.3) == 0.0
    assert curve.bayes_risk(prior=0) == curve.bayes_risk(prior=1) == 0.0


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, True, "half"])
def test_refuses_what_is_no_rate(wrong: Any) -> None:
    curve = TradeoffCurve.of_guarantee(PureDP(1))
    calls: list[tuple[str, Callable[[], float]]] = [
        ("alpha", lambda: curve.beta(alpha=wrong)),
        ("fpr", lambda: curve.true_positive_rate(fpr=wrong)),
        ("prior", lambda: curve.bayes_risk(prior=wrong)),
    ]
    for name, call in calls:
        with pytest.raises(InvalidParameter, match=name):
            call()


@pytest.mark.parametrize(
    "wrong", [(1.0,), (1.0, 2.0), (-1.0, 0.5), (math.inf, 0.5), (math.nan, 0.5), 3]
)
def test_refuses_what_is_no_pair(wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        TradeoffCurve.of_profile([wrong])
    with pytest.raises(InvalidParameter):
        TradeoffCurve.of_profile([], attained=[wrong])


def test_values_are_frozen_and_equal_by_content() -> None:
    assert TradeoffCurve.of_guarantee(GDP(1)) == TradeoffCurve.of_guarantee(GDP(1))
    assert hash(TradeoffCurve.of_profile([(1, 0.5)])) == hash(
        TradeoffCurve.of_profile([(1.0, 0.5)])
    )
    with pytest.raises(InvalidParameter, match="part"):
        TradeoffCurve(mu_squared=Fraction(1), part=Fraction(2))
    with pytest.raises(InvalidParameter, match="mu_squared"):
        TradeoffCurve(mu_squared=Fraction(-1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("size", [2, 10, 1000])
def test_no_guess_of_a_randomised_answer_succeeds_more_often(epsilon: float, size: int) -> None:
    """The best guess of one of `size` equally likely values is what was answered."""
    odds = math.exp(epsilon)
    success = odds / (odds + size - 1)
    bound = TradeoffCurve.of_guarantee(PureDP(epsilon)).reconstruction(baseline=1 / size)
    assert success <= bound <= min(1, odds / size) * (1 + 1e-12)
    assert bound <= success * (1 + odds / size) * (1 + 1e-12)


@pytest.mark.parametrize("baseline", [-0.1, 1.5, math.nan, "x"])
def test_a_baseline_is_a_probability(baseline: Any) -> None:
    with pytest.raises(InvalidParameter, match="baseline"):
        TradeoffCurve.of_guarantee(PureDP(1)).reconstruction(baseline=baseline)
