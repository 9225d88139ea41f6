"""Every conversion against an independent computation, and against its own inverse."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions as c

EPSILONS = [1e-8, 1e-3, 0.5, 1.0, 3.0, 40.0, 1e4]
DELTAS = [1e-300, 1e-100, 1e-15, 1e-6, 0.01, 0.5]
TINY = 1e-13


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workdps(80):
        yield


def close_above(value: float, truth: Any, slack: float = TINY) -> bool:
    """Not below the truth, and above it by rounding only."""
    return bool(truth <= mpmath.mpf(value) <= truth * (1 + slack))


def close_below(value: float, truth: Any, slack: float = TINY) -> bool:
    return bool(truth * (1 - slack) <= mpmath.mpf(value) <= truth)


def normal(x: Any) -> Any:
    """The normal distribution function by its integral, not by erfc."""
    tail = mpmath.quad(lambda t: mpmath.exp(-t * t / 2), mpmath.linspace(x, x - 40, 41))
    return -tail / mpmath.sqrt(2 * mpmath.pi)


def hockey_stick_of_normals(mu: Any, epsilon: Any) -> Any:
    """E max(0, P - e^eps Q) for N(mu, 1) and N(0, 1), by quadrature of the densities."""
    start = epsilon / mu + mu / 2
    points = [start + k / (1 + start) for k in range(0, 150, 3)]
    top = mpmath.mpf(-(start**2)) / 2
    return mpmath.quad(
        lambda x: (
            (mpmath.exp(mu * x - mu * mu / 2) - mpmath.exp(epsilon)) * mpmath.exp(-x * x / 2 - top)
        ),
        points,
    ) * (mpmath.exp(top) / mpmath.sqrt(2 * mpmath.pi))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_dp_to_zcdp_and_back(epsilon: float) -> None:
    e = mpmath.mpf(epsilon)
    truth = e * mpmath.expm1(e) / (mpmath.exp(e) + 1)
    rho = c.zcdp_from_pure(epsilon)
    assert close_above(rho, truth)
    back = c.pure_from_zcdp(rho)
    assert epsilon * (1 - TINY) <= back <= epsilon * (1 + TINY)
    assert mpmath.mpf(back) * mpmath.tanh(mpmath.mpf(back) / 2) <= mpmath.mpf(rho)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_pure_rho_is_the_supremum_over_orders_of_randomised_response(epsilon: float) -> None:
    orders = [1 + 10 ** (k / 10) for k in range(-60, 20)]
    by_order = [c.renyi_from_pure(epsilon, alpha=a) / a for a in orders]
    assert max(by_order) <= c.zcdp_from_pure(epsilon)
    assert max(by_order) >= c.zcdp_from_pure(epsilon) * (1 - 1e-5)


@in_subtests("epsilon", EPSILONS)
@in_subtests("alpha", [1.0001, 1.5, 2, 8.0, 1000.0])
def test_renyi_of_randomised_response(epsilon: float, alpha: float) -> None:
    with mpmath.workdps(200):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        p = 1 / (1 + mpmath.exp(-e))
        q = 1 / (1 + mpmath.exp(e))
        truth = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        value = c.renyi_from_pure(epsilon, alpha=alpha)
        assert close_above(value, truth)
    assert value <= epsilon * (1 + 1e-15)
    assert c.pure_from_renyi(value, alpha=alpha) == pytest.approx(epsilon, rel=1e-9)
    assert c.renyi_from_pure(c.pure_from_renyi(value, alpha=alpha), alpha=alpha) <= value


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "alpha"), [(0.1, 2.0), (1.0, 1.5), (2.0, 8.0), (1e-4, 3.0)])
def test_renyi_of_laplace_by_quadrature(epsilon: float, alpha: float) -> None:
    e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)

    def integrand(x: Any) -> Any:
        return mpmath.exp(-a * abs(x) - (1 - a) * abs(x - e)) / 2

    moment = mpmath.quad(integrand, [-600, -50, -5, 0, e, e + 5, 50, 600])
    truth = mpmath.log(moment) / (a - 1)
    value = c.renyi_from_laplace(epsilon, alpha=alpha)
    assert value == pytest.approx(float(truth), rel=1e-9)
    assert value <= c.renyi_from_pure(epsilon, alpha=alpha)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", mostly_slow([0.01, 0.5, 1.0, 4.0, 20.0]))
@pytest.mark.parametrize(
    ("forth", "back", "part"),
    [
        (c.gdp_from_pure, c.pure_from_gdp, 1),
        (c.gdp_from_bounded_range, c.bounded_range_from_gdp, 2),
    ],
)
def test_gaussian_mu_of_pure_and_bounded_range(
    epsilon: float,
    forth: Callable[[float], float],
    back: Callable[[float], float],
    part: int,
) -> None:
    share = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon) / part))
    mu = forth(epsilon)
    assert normal(-mpmath.mpf(mu) / 2) <= share * (1 + mpmath.mpf(10) ** -30)
    assert normal(-mpmath.mpf(mu) * (1 - mpmath.mpf(10) ** -14) / 2) > share
    assert back(mu) == pytest.approx(epsilon, rel=1e-13)
    assert back(mu) >= epsilon


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 1.0, 100.0, 1e4])
def test_mu_round_trips_on_the_whole_range(epsilon: float) -> None:
    for forth, back in (
        (c.gdp_from_pure, c.pure_from_gdp),
        (c.gdp_from_bounded_range, c.bounded_range_from_gdp),
    ):
        mu = forth(epsilon)
        assert epsilon <= back(mu) <= epsilon * (1 + 1e-12)
        assert back(math.nextafter(mu, 0)) < epsilon


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_no_pair_of_bounded_range_needs_more_than_the_symmetric_one(epsilon: float) -> None:
    mu = c.gdp_from_bounded_range(epsilon)

    def needed(shift: float) -> Any:
        low = mpmath.mpf(shift)
        ends = [1 / (1 + mpmath.exp(-x)) for x in (low, low + epsilon)]
        roots = [mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1) for p in ends]
        return roots[1] - roots[0]

    for k in range(-40, 41):
        assert needed(-epsilon / 2 + k / 10) <= mu
    assert needed(-epsilon / 2) >= mu * (1 - 1e-14)


@pytest.mark.long
def test_hazard_inequality_of_the_proof() -> None:
    def hazard(x: Any) -> Any:
        return mpmath.npdf(x) / mpmath.ncdf(-x)

    for k in range(1, 400):
        x = mpmath.mpf(k) / 20
        assert hazard(x) - hazard(-x) > x


def test_rational_conversions_are_exact() -> None:
    tenth = Fraction(1, 10)
    assert c.zcdp_from_bounded_range(tenth) == Fraction(1, 800)
    assert c.zcdp_from_gdp(tenth) == Fraction(1, 200)
    assert c.renyi_from_zcdp(tenth, alpha=8) == Fraction(8, 10)
    assert c.gdp_from_zcdp(0.5) == pytest.approx(1.0, abs=1e-15)
    assert c.gdp_from_zcdp(0.5) <= 1
    assert c.bounded_range_from_zcdp(Fraction(1, 8)) <= 1
    assert c.bounded_range_from_zcdp(Fraction(1, 8)) == pytest.approx(1.0, abs=1e-15)
    assert c.approximate_zcdp_from_approx_dp(1.0, delta=tenth) == (c.zcdp_from_pure(1.0), tenth)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    mostly_slow(
        [(1.0, 1.0), (0.1, 1.0), (0.01, 0.2), (3.0, 0.0), (2.0, 30.0), (1e-4, 1e-3)], quick=3
    ),
)
def test_gaussian_delta_by_quadrature_of_densities(mu: float, epsilon: float) -> None:
    with mpmath.workdps(40):
        truth = hockey_stick_of_normals(mpmath.mpf(mu), mpmath.mpf(epsilon))
    assert c.approx_dp_delta_from_gdp(mu, epsilon=epsilon) == pytest.approx(float(truth), rel=1e-9)


@in_subtests("mu", [1e-6, 1e-3, 0.3, 1.0, 5.0, 140.0])
@in_subtests("epsilon", [0.0, *EPSILONS])
def test_gaussian_delta_is_rounded_up(mu: float, epsilon: float) -> None:
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        z = (-e / m + m / 2, e / m + m / 2)
        root = mpmath.sqrt(2)
        truth = (mpmath.erfc(-z[0] / root) - mpmath.exp(e) * mpmath.erfc(z[1] / root)) / 2
        value = mpmath.mpf(c.approx_dp_delta_from_gdp(mu, epsilon=epsilon))
        assert truth <= value
        if truth > 1e-300:
            assert value <= truth * (1 + mpmath.mpf(10) ** -15)
        else:
            assert value <= 1e-299


@pytest.mark.parametrize("epsilon", mostly_slow([0.0, *EPSILONS]))
@pytest.mark.parametrize("delta", DELTAS)
def test_the_largest_mu_and_rho_meet_their_target(epsilon: float, delta: float) -> None:
    mu = c.gdp_from_approx_dp(epsilon, delta=delta)
    assert c.approx_dp_delta_from_gdp(mu, epsilon=epsilon) <= delta
    assert c.approx_dp_delta_from_gdp(mu * (1 + 1e-9), epsilon=epsilon) > delta
    rho = c.zcdp_from_approx_dp(epsilon, delta=delta)
    assert c.approx_dp_delta_from_zcdp(rho, epsilon=epsilon) <= delta
    assert c.approx_dp_delta_from_zcdp(max(rho * (1 + 1e-8), 1e-323), epsilon=epsilon) >= delta
    assert rho <= mu**2 / 2 * (1 + 1e-12)  # Gaussian DP says more than its zCDP
    for back in (
        c.approx_dp_from_gdp(mu, delta=delta),
        c.approx_dp_from_zcdp(rho, delta=delta),
    ):
        assert back <= epsilon * (1 + 1e-9) + (1e-11 if delta >= 1e-4 else 1e-20)
        if epsilon >= 1e-3 and delta < 0.4:
            assert back >= epsilon * (1 - 1e-6)


@pytest.mark.parametrize("rho", mostly_slow([1e-12, 1e-4, 0.05, 0.5, 30.0], quick=2))
@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-6, 0.1])
def test_zcdp_epsilon_is_the_infimum_over_orders(rho: float, delta: float) -> None:
    r, tail = mpmath.mpf(rho), -mpmath.log(mpmath.mpf(delta))

    def at(log_b: Any) -> Any:
        b = mpmath.exp(log_b)
        a = 1 + b
        return r * a + (tail - mpmath.log(a)) / b + mpmath.log(b / a)

    grid = [mpmath.mpf(k) / 20 for k in range(-200, 700)]
    best = min(grid, key=at)
    low, high = best - mpmath.mpf("0.06"), best + mpmath.mpf("0.06")
    for _ in range(200):  # golden section: the function of log b has one minimum here
        third = (high - low) / 3
        low, high = (
            (low, high - third) if at(low + third) < at(high - third) else (low + third, high)
        )
    truth = max(at(low), mpmath.mpf(0))
    value = c.approx_dp_from_zcdp(rho, delta=delta)
    if delta < 1e-4:
        assert value >= truth * (1 - mpmath.mpf(10) ** -25)
    assert value <= truth * (1 + mpmath.mpf(10) ** -9)
    assert value >= c.approx_dp_from_gdp(c.gdp_from_zcdp(rho), delta=delta)
    assert value <= rho + 2 * math.sqrt(rho * float(tail))


@pytest.mark.long
@pytest.mark.parametrize(
    ("rho", "delta"), mostly_slow([(1e-4, 1e-3), (0.05, 0.1), (0.5, 1e-3), (30.0, 0.3)], quick=2)
)
def test_zcdp_is_converted_at_the_order_that_says_most(rho: float, delta: float) -> None:
    orders = 1 + np.exp(np.linspace(-8, 10, 400))
    value = c.approx_dp_from_zcdp(rho, delta=delta)
    alone = [c.approx_dp_from_renyi(rho * a, alpha=a, delta=delta) for a in orders[::8]]
    assert value <= min(alone) * (1 + 1e-9)
    # Coins that are rho-zCDP, at the least odds that all orders allow, are no farther apart.
    worst = 0.0
    for p in [*np.geomspace(delta, 0.5, 60), *(1 - np.geomspace(1e-6, 0.5, 60))]:

        def allowed(q: float, p: float = p) -> bool:
            terms = np.logaddexp(
                orders * math.log(p) + (1 - orders) * math.log(q),
                orders * math.log1p(-p) + (1 - orders) * math.log1p(-q),
            )
            return bool(np.all(terms <= (orders - 1) * orders * rho))

        low, high = math.log(1e-300), math.log(p)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if allowed(math.exp(middle)) else (middle, high)
        worst = max(worst, p - math.exp(value) * math.exp(high))
    assert worst <= delta * (1 + 1e-3)  # orders between those of the grid allow less
    assert worst >= delta * 0.7


@pytest.mark.parametrize(
    ("value", "reference", "source"),
    [
        (1 / c.gdp_from_approx_dp(1.0, delta=1e-5), 3.730632, "Balle and Wang 2018, analytic"),
        (math.sqrt(1 / (2 * c.zcdp_from_approx_dp(1.0, delta=1e-5))), 4.045, "through zCDP"),
        (c.approx_dp_from_zcdp(0.5, delta=1e-6), 5.2215344, "CKS 2020, Prop. 12"),
        (c.zcdp_from_pure(1.0), 0.46211716, "tanh(1/2)"),
        (c.approx_dp_delta_from_gdp(1.0, epsilon=1.0), 0.12693674, "Phi(-1/2) - e Phi(-3/2)"),
    ],
)
def test_reference_values(value: float, reference: float, source: str) -> None:
    assert value == pytest.approx(reference, rel=2e-4 if "through" in source else 1e-6)


def test_delta_of_pure_and_its_inverse() -> None:
    for pure in (0.1, 1.0, 5.0):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
        for epsilon in (0.0, 0.05, 0.9):
            truth = max(mpmath.mpf(0), p - mpmath.exp(epsilon) * (1 - p))
            value = c.approx_dp_delta_from_pure(pure, epsilon=epsilon)
            assert value == pytest.approx(float(truth), rel=1e-14, abs=0)
            if truth:
                assert close_above(value, truth)
                assert close_below(
                    c.pure_from_approx_dp(epsilon, delta=value), pure * (1 + TINY), 1
                )
                assert c.pure_from_approx_dp(epsilon, delta=value) == pytest.approx(pure, rel=1e-12)


@pytest.mark.parametrize("alpha", [1.5, 8.0, 64.0])
def test_renyi_to_approximate_dp_and_back(alpha: float) -> None:
    for delta in (1e-12, 1e-6):
        epsilon = c.approx_dp_from_renyi(0.7, alpha=alpha, delta=delta)
        again = c.approx_dp_delta_from_renyi(0.7, alpha=alpha, epsilon=epsilon)
        assert delta * (1 - 1e-9) <= again <= delta * (1 + 1e-12)
        assert epsilon <= 0.7 + math.log(1 / delta) / (alpha - 1)


def test_a_part_of_which_nothing_is_known() -> None:
    whole = c.delta_of_mixture(Fraction(1, 10), part=Fraction(1, 5))
    assert whole == Fraction(7, 25)
    assert c.delta_of_part(whole, part=Fraction(1, 5)) == Fraction(1, 10)
    assert c.delta_of_part(0.1, part=0.2) is None
    assert c.delta_of_part(1, part=1) == 1


def test_edges() -> None:
    assert c.zcdp_from_pure(0) == c.pure_from_zcdp(0) == c.gdp_from_pure(0) == 0
    assert c.pure_from_gdp(0) == c.gdp_from_bounded_range(0) == c.bounded_range_from_gdp(0) == 0
    assert c.renyi_from_pure(0, alpha=2) == c.renyi_from_laplace(0, alpha=2) == 0
    assert c.approx_dp_from_gdp(1.0, delta=0) == c.approx_dp_from_zcdp(1.0, delta=0) == math.inf
    assert c.approx_dp_from_gdp(1.0, delta=1) == c.approx_dp_from_zcdp(1.0, delta=1) == 0
    assert c.approx_dp_from_gdp(0, delta=0) == c.approx_dp_from_zcdp(0, delta=0) == 0
    assert c.approx_dp_from_gdp(0.1, delta=0.5) == 0
    assert c.gdp_from_approx_dp(1.0, delta=0) == c.zcdp_from_approx_dp(1.0, delta=0) == 0
    assert c.gdp_from_approx_dp(1.0, delta=1) == c.zcdp_from_approx_dp(1.0, delta=1) == math.inf
    assert c.pure_from_approx_dp(1.0, delta=1) == math.inf
    assert c.approx_dp_delta_from_gdp(1e-9, epsilon=1.0) == 5e-324
    assert c.approx_dp_delta_from_zcdp(0, epsilon=0) == 0
    assert c.approx_dp_from_renyi(1.0, alpha=2, delta=0) == math.inf


LISTS = [
    "advanced_composition",
    "advanced_composition_of_approximate",
    "basic_composition",
    "delta_of_independent_failures",
]


@in_subtests("name", sorted(set(dir(c)) - set(LISTS)))
def test_refuses_wrong_numbers_and_says_its_source(name: str) -> None:
    function = getattr(c, name)
    document = inspect.getdoc(function) or ""
    for line in ("Statement", "Bound", "Edges", "Source"):
        assert line in document
    parameters = list(inspect.signature(function).parameters)
    good = {"alpha": 2.0, "delta": 0.1, "part": 0.05}
    for wrong in (-1.0, math.nan, math.inf):
        for chosen in parameters:
            arguments = {p: wrong if p == chosen else good.get(p, 1.0) for p in parameters}
            first = arguments.pop(parameters[0])
            with pytest.raises(InvalidParameter) as caught:
                function(first, **arguments)
            assert caught.value.argument == chosen


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.floats(1e-6, 50), st.floats(1e-6, 50), st.floats(1e-12, 0.3))
def test_monotone(small: float, large: float, delta: float) -> None:
    small, large = sorted((small, large))
    for rising in (c.zcdp_from_pure, c.gdp_from_pure, c.pure_from_gdp, c.pure_from_zcdp):
        assert rising(small) <= rising(large)
    assert c.approx_dp_from_gdp(small, delta=delta) <= c.approx_dp_from_gdp(large, delta=delta)
    assert c.approx_dp_from_zcdp(small, delta=delta) <= c.approx_dp_from_zcdp(large, delta=delta)
    assert c.gdp_from_approx_dp(small, delta=delta) <= c.gdp_from_approx_dp(large, delta=delta)


@pytest.mark.long
def test_threads_do_not_share_their_precision() -> None:
    expected = [c.gdp_from_approx_dp(1 + k / 7, delta=1e-9) for k in range(12)]
    results: list[list[float]] = [[] for _ in range(4)]

    def work(place: int) -> None:
        for k in range(12):
            inner = inspect.unwrap(c.gdp_from_approx_dp)
            results[place].append(inner(1 + k / 7, delta=1e-9))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    with mpmath.workdps(3):
        for thread in threads:
            thread.join()
    assert all(result == expected for result in results)


_BARELY_ABOVE_1 = 1 + Fraction(1, 10**20)


def test_orders_that_no_float_tells_from_1_are_converted() -> None:
    near = c.approx_dp_from_renyi(0.1, alpha=1 + 1e-12, delta=0.01)
    found = c.approx_dp_from_renyi(0.1, alpha=_BARELY_ABOVE_1, delta=0.01)
    assert near * (1 - 1e-9) <= found <= near * (1 + 1e-6)
    assert c.approx_dp_delta_from_renyi(0.04, alpha=1 + Fraction(1, 10**400), epsilon=0.1) <= 1
    assert c.renyi_from_approx_dp(1.0, alpha=_BARELY_ABOVE_1, delta=0.01) > 0.0176
    # Here the place does depend on how near to 1 the order is.
    assert c.approx_dp_from_renyi(1 / 3, alpha=1 + 4.3e-10, delta=1.7e-12) < 1.2e10
    assert c.renyi_from_approx_dp(0.0098667, alpha=1 + 8.8867e-12, delta=0.0093344) > 0.000356


def test_conversions_at_the_ends_of_floats_keep_their_bounds() -> None:
    assert c.renyi_from_approx_dp(1.7e308, delta=1e-9, alpha=100) > 1.69e308
    mu, delta = 1.88e-168, 1e-300
    epsilon = c.approx_dp_from_gdp(mu, delta=delta)
    assert c.approx_dp_delta_from_gdp(mu, epsilon=epsilon) <= delta
    assert c.approx_dp_delta_from_gdp(mu, epsilon=epsilon * (1 - 1e-9)) > delta
