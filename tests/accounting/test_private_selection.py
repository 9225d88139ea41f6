"""Private selection against enumeration: every order of scores of small mechanisms, many digits."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import delta, epsilon
from unacorda.accounting.findings import epsilon_from_renyi
from unacorda.accounting.pld.selection import hockey_sticks
from unacorda.accounting.prices import price, pure_epsilon, renyi, rho
from unacorda.accounting.rules.base import without_mass
from unacorda.accounting.selection import (
    log_mean_tries,
    pure_of_tries,
    renyi_of_tries,
    without_failure,
)
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    Laplace,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
)
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne
from unacorda.privacy.rounding import float_above

ONE = Pure(epsilon=1)
Law = list[Any]
Generating = Callable[[Any], Any]
LAWS = [(-0.9, 0.3), (-0.5, 0.01), (0.0, 0.05), (0.0, 0.6), (1.0, 0.1), (1.0, 0.9), (2.5, 0.02)]


def tries(shape: float, stop: float) -> NegativeBinomialTries:
    return NegativeBinomialTries(event=ONE, shape=shape, stop=stop)


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workdps(50):
        yield


def generating(shape: float, stop: float) -> Generating:
    """E x^K of the truncated negative binomial law."""
    eta, gamma = mpmath.mpf(str(shape)), mpmath.mpf(str(stop))
    if eta == 0:
        return lambda x: mpmath.log(1 - (1 - gamma) * x) / mpmath.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def poisson(mean: float) -> Generating:
    return lambda x: mpmath.exp(mpmath.mpf(mean) * (x - 1))


def best_of(law: Sequence[Any], f: Generating) -> Law:
    """The law of the best of K runs; outcomes by rising score; last, that there was no run."""
    sums = [mpmath.mpf(0)]
    for mass in law:
        sums.append(sums[-1] + mass)
    sums[-1] = mpmath.mpf(1)
    return [f(b) - f(a) for a, b in itertools.pairwise(sums)] + [f(mpmath.mpf(0))]


def divergence(p: Sequence[Any], q: Sequence[Any], alpha: Any) -> Any:
    a = mpmath.mpf(alpha.numerator) / alpha.denominator if isinstance(alpha, Fraction) else alpha
    a = mpmath.mpf(a)
    total = mpmath.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True) if x > 0)
    return mpmath.log(total) / (a - 1)


def both(p: Sequence[Any], q: Sequence[Any], alpha: Any) -> Any:
    return max(divergence(p, q, alpha), divergence(q, p, alpha))


def above(p: Sequence[Any], q: Sequence[Any], alpha: Fraction) -> Fraction:
    return Fraction(float(both(p, q, alpha))) * (1 + Fraction(1, 10**12))


def hockey_stick(p: Sequence[Any], q: Sequence[Any], at: float) -> Any:
    grown = mpmath.exp(mpmath.mpf(at))
    return max(
        mpmath.fsum(max(x - grown * y, mpmath.mpf(0)) for x, y in zip(one, two, strict=True))
        for one, two in ((p, q), (q, p))
    )


def response(epsilon: float, categories: int) -> tuple[Law, Law]:
    grown = mpmath.exp(mpmath.mpf(str(epsilon)))
    rest = [mpmath.mpf(1)] * (categories - 2)
    whole = grown + categories - 1
    return (
        [x / whole for x in [grown, mpmath.mpf(1), *rest]],
        [x / whole for x in [mpmath.mpf(1), grown, *rest]],
    )


def sharpest(epsilon: float, width: float) -> tuple[Law, Law]:
    """A pure pair whose middle outcome sits where the score tells most."""
    e, k = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(width)
    s = 1 / (1 + e)
    return [1 - s - e * k, e * k, s], [(1 - s) / e - k, k, e * s]


def cut_gaussian(shift: float) -> tuple[Law, Law]:
    """N(shift, 1) and N(0, 1) in cells: a post-processing of both."""
    edges = [mpmath.mpf(x) / 4 for x in range(-14, 20)]

    def law(mean: float) -> Law:
        below = [mpmath.mpf(0), *(mpmath.ncdf(x - mean) for x in edges), mpmath.mpf(1)]
        return [b - a for a, b in itertools.pairwise(below)]

    return law(shift), law(0.0)


def test_the_middle_of_the_sharpest_pair_is_a_law() -> None:
    p, q = sharpest(0.7, 1e-3)
    assert mpmath.almosteq(mpmath.fsum(p), 1)
    assert mpmath.almosteq(mpmath.fsum(q), 1)


@pytest.mark.parametrize(("shape", "stop"), mostly_slow(LAWS, quick=3))
def test_the_mean_and_the_failures_by_their_series(shape: float, stop: float) -> None:
    eta, gamma = mpmath.mpf(str(shape)), mpmath.mpf(str(stop))

    def weight(k: int) -> Any:
        """Of the law's definition, up to a constant."""
        return (1 - gamma) ** k * (mpmath.rf(eta + 1, k - 1) / mpmath.factorial(k))

    weights = [weight(k) for k in range(1, 1500)]
    whole = mpmath.fsum(weights)
    if stop >= 0.05:
        mean = mpmath.fsum(k * w for k, w in enumerate(weights, 1)) / whole
        found = log_mean_tries(shape=shape, stop=Fraction(str(stop)))
        assert mpmath.log(mean) <= found * (1 + 1e-15) + 1e-15
        assert found <= mpmath.log(mean) + 1e-9
        mass, rest = without_failure(tries(shape, stop), Fraction(1, 50), ONE)
        assert isinstance(rest, NegativeBinomialTries)
        later = Fraction(rest.stop)
        kept = [w * mpmath.mpf("0.98") ** k for k, w in enumerate(weights, 1)]
        assert abs(float(mass) - (1 - mpmath.fsum(kept) / whole)) < 1e-9
        # given that none failed, K has the same shape and a larger stop
        step = kept[4] / kept[3] / (weights[4] / weights[3]) * (1 - gamma)
        assert mpmath.almosteq(1 - step, mpmath.mpf(later.numerator) / later.denominator, 1e-40)


@pytest.mark.parametrize(("shape", "stop"), LAWS)
@pytest.mark.parametrize("alpha", mostly_slow([1.25, 2, 6, 40]))
def test_negative_binomial_by_every_order_of_scores(
    shape: float, stop: float, alpha: float
) -> None:
    f = generating(shape, stop)
    for own, categories in ((0.4, 3), (2.0, 2)):
        p, q = response(own, categories)
        known = {
            pure: renyi_of_tries(
                tries(shape, stop),
                lambda a, p=p, q=q: above(p, q, a),  # type: ignore[misc]
                pure=pure,
                alpha=Fraction(alpha),
            )
            for pure in (None, Fraction(str(own)))
        }
        event = NegativeBinomialTries(
            event=RandomizedResponse(epsilon=own, categories=categories), shape=shape, stop=stop
        )
        priced = renyi(event, alpha=alpha)
        whole = pure_epsilon(event)
        assert whole is not None
        assert priced <= min(known.values()) * (1 + 1e-9)
        for order in itertools.permutations(range(categories)):
            one, two = best_of([p[i] for i in order], f), best_of([q[i] for i in order], f)
            truth = both(one[:-1], two[:-1], alpha)
            assert truth <= min(*known.values(), priced, whole)
            losses = [abs(mpmath.log(x / y)) for x, y in zip(one[:-1], two[:-1], strict=True)]
            assert max(losses) <= whole


@in_subtests("mean", [0.2, 1.0, 7.0, 60.0])
@in_subtests("alpha", [1.25, 2, 6, 40])
def test_poisson_by_every_order_of_scores(mean: float, alpha: float) -> None:
    f = poisson(mean)
    p, q = response(0.8, 3)
    event = PoissonTries(event=RandomizedResponse(epsilon=0.8, categories=3), mean=mean)
    plainly = renyi_of_tries(
        event,
        lambda a: above(p, q, a),
        delta=lambda x: float(hockey_stick(p, q, x)) * (1 + 1e-12),
        alpha=Fraction(alpha),
    )
    whole = pure_epsilon(event)
    assert whole is not None
    for order in itertools.permutations(range(3)):
        one, two = best_of([p[i] for i in order], f), best_of([q[i] for i in order], f)
        truth = both(one, two, alpha)
        assert truth <= min(plainly, renyi(event, alpha=alpha), whole)
        assert max(abs(mpmath.log(x / y)) for x, y in zip(one, two, strict=True)) <= whole


@pytest.mark.parametrize("own", [0.1, 1.0, 5.0])
def test_the_pure_bounds_are_reached(own: float) -> None:
    p, q = sharpest(own, 1e-12)
    for shape, stop in LAWS:
        f = generating(shape, stop)
        one, two = best_of(p, f), best_of(q, f)
        bound = float_above(pure_of_tries(tries(shape, stop), Fraction(own)))
        assert mpmath.log(one[1] / two[1]) <= bound <= mpmath.log(one[1] / two[1]) * (1 + 1e-6)
        assert bound <= (2 + shape) * own * (1 + 1e-12)  # Corollary 4
    for mean in (0.3, 10.0):
        one, two = best_of(p, poisson(mean)), best_of(q, poisson(mean))
        event = PoissonTries(event=ONE, mean=mean)
        bound = float_above(pure_of_tries(event, Fraction(own)))
        assert mpmath.log(one[1] / two[1]) <= bound <= mpmath.log(one[1] / two[1]) * (1 + 1e-6)


def test_renyi_is_close_at_large_orders() -> None:
    p, q = sharpest(1.0, 1e-3)
    f = generating(1.0, 0.01)
    truth = divergence(best_of(p, f)[:-1], best_of(q, f)[:-1], 300)
    event = NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0.01)
    assert truth <= renyi(event, alpha=300) <= truth * 1.05


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shift", [0.25, 1.0])
def test_gaussian_runs_in_cells(shift: float, reverse: bool) -> None:
    p, q = cut_gaussian(shift)
    if reverse:
        p, q = p[::-1], q[::-1]
    run = Gaussian(noise_multiplier=1 / shift)
    cases: list[tuple[Event, Generating]] = [
        (NegativeBinomialTries(event=run, shape=shape, stop=stop), generating(shape, stop))
        for shape, stop in LAWS
    ]
    cases += [(PoissonTries(event=run, mean=mean), poisson(mean)) for mean in (0.5, 6.0)]
    for event, f in cases:
        one, two = best_of(p, f), best_of(q, f)
        if isinstance(event, NegativeBinomialTries):
            one, two = one[:-1], two[:-1]
        for alpha in (1.5, 4, 20):
            assert both(one, two, alpha) <= renyi(event, alpha=alpha)
        for at in (0.0, 0.3, 1.0, 2.5):
            assert hockey_stick(one, two, at) <= delta(event, epsilon=at)
        spent = epsilon(event, delta=1e-4)
        assert hockey_stick(one, two, spent) <= 1e-4


@pytest.mark.slow
def test_the_profile_of_a_run_beats_its_divergences() -> None:
    run = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01) * 1000
    for shape in (0, 1):
        event = NegativeBinomialTries(event=run, shape=shape, stop=0.1)
        moments = epsilon_from_renyi(event, delta=Fraction(1, 10**5), neighbors=AddRemove)
        assert epsilon(event, delta=1e-5) < 0.8 * moments


@pytest.mark.long
@pytest.mark.parametrize("own", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_runs_that_may_fail(own: float) -> None:
    """The worst (epsilon, delta) pair, in every order of its four outcomes."""
    fail = mpmath.mpf("0.01")
    s = 1 / (1 + mpmath.exp(-mpmath.mpf(own)))
    p = [fail, (1 - fail) * s, (1 - fail) * (1 - s), mpmath.mpf(0)]
    q = [mpmath.mpf(0), (1 - fail) * (1 - s), (1 - fail) * s, fail]
    run = Approximate(epsilon=own, delta=0.01)
    cases: list[tuple[Event, Generating]] = [
        (NegativeBinomialTries(event=run, shape=1, stop=0.2), generating(1, 0.2)),
        (NegativeBinomialTries(event=run, shape=0, stop=0.1), generating(0, 0.1)),
        (PoissonTries(event=run, mean=3), poisson(3)),
    ]
    for event, f in cases:
        bounds = {at: delta(event, epsilon=at) for at in (0.0, 0.4, 1.0)}
        for order in itertools.permutations(range(4)):
            one, two = best_of([p[i] for i in order], f), best_of([q[i] for i in order], f)
            for at, bound in bounds.items():
                assert hockey_stick(one, two, at) <= bound
        mass, rest = without_mass(event, AddRemove)
        assert mass >= 1 - f(1 - fail)
        assert mass <= 1 - f(1 - fail) + mpmath.mpf("1e-15")
        assert pure_epsilon(rest) is not None


def test_failures_of_poisson_runs() -> None:
    mass, rest = without_failure(PoissonTries(event=ONE, mean=8), Fraction(1, 4), ONE)
    assert rest == PoissonTries(event=ONE, mean=6)
    assert float(mass) == pytest.approx(1 - math.exp(-2), rel=1e-15)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.floats(-0.999, 50),
    st.floats(1e-9, 1),
    st.floats(1e-6, 20),
    st.floats(1.001, 1e4),
    st.floats(1, 2),
)
def test_more_runs_cost_more(
    shape: float, stop: float, own: float, alpha: float, factor: float
) -> None:
    slack = 1 + 1e-12
    run = Pure(epsilon=own)
    one = NegativeBinomialTries(event=run, shape=shape, stop=stop)
    assert renyi(run, alpha=alpha) <= renyi(one, alpha=alpha) * slack
    whole = pure_epsilon(one)
    assert whole is not None
    assert own <= whole * slack
    fewer = NegativeBinomialTries(event=run, shape=shape, stop=min(1.0, stop * factor))
    later = pure_epsilon(fewer)
    assert later is not None
    assert later <= whole * slack


def test_one_run_is_the_event_itself() -> None:
    run = Gaussian(noise_multiplier=2.0)
    once = NegativeBinomialTries(event=run, shape=3, stop=1)
    assert renyi(once, alpha=7) == renyi(run, alpha=7)
    assert epsilon(once, delta=1e-6) == pytest.approx(epsilon(run, delta=1e-6), rel=1e-12)
    alone = NegativeBinomialTries(event=Pure(epsilon=0.1), shape=3, stop=1)
    assert price(alone, PureDP) == PureDP(Fraction(1, 10))


@in_subtests("shape", [-0.999999999, -1e-300, 0, 1e-300, 1e6, 1e300])
@in_subtests("stop", [Fraction(1, 10**400), 1e-300, 0.5, Fraction(10**30 - 1, 10**30)])
def test_numbers_of_any_size(shape: float, stop: Any) -> None:
    event = NegativeBinomialTries(event=Gaussian(noise_multiplier=1), shape=shape, stop=stop)
    for alpha in map(Fraction, (1 + 1e-9, 2, 1e6)):
        found = renyi_of_tries(event, lambda a: a / 2, pure=Fraction(10**5), alpha=alpha)
        assert found >= min(alpha / 2, Fraction(10**5)) * (1 - Fraction(1, 10**9))
    assert 0 <= log_mean_tries(shape=shape, stop=stop) < math.inf
    mass, rest = without_failure(event, Fraction(1, 10**9), ONE)
    assert 0 < mass <= 1
    assert isinstance(rest, NegativeBinomialTries)
    assert Fraction(stop) <= Fraction(rest.stop) <= 1
    losses = np.linspace(-3, 3, 61)
    sticks = hockey_sticks(event, losses, np.minimum(np.exp(-losses) / 2, 1))
    assert sticks is None or np.all(np.isfinite(sticks.weights) & np.isfinite(sticks.shifts))
    many = PoissonTries(event=ONE, mean=1e9)
    assert renyi_of_tries(many, lambda a: a, delta=lambda _: 1e-9, alpha=Fraction(2)) > 2


@pytest.mark.long
def test_prices_in_accounts() -> None:
    pure = NegativeBinomialTries(event=Laplace(noise_multiplier=2) * 2, shape=1, stop=0.01)
    spent = price(pure, PureDP).epsilon
    assert 2.9 < spent < 3
    assert price(pure, ZCDP).rho <= spent**2 / 2
    assert price(pure, GDP).mu_squared > 0
    assert Fraction(rho(pure)) >= price(pure, ZCDP).rho
    noisy = NegativeBinomialTries(event=Gaussian(noise_multiplier=4), shape=0, stop=0.1)
    assert float(price(noisy, RenyiDP, alpha=8).epsilon) == pytest.approx(renyi(noisy, alpha=8))
    assert price(PoissonTries(event=Pure(epsilon=1), mean=5), PureDP).epsilon > 1
    for refused in (lambda: price(noisy, PureDP), lambda: price(noisy, GDP)):
        with pytest.raises(UnsupportedEvent):
            refused()
    with pytest.raises(UnsupportedEvent, match="ZCDP"):
        price(noisy, ZCDP)
    with pytest.raises(UnsupportedEvent):
        rho(noisy)
    assert epsilon(pure * 2, delta=1e-6) <= 2 * float(spent) * (1 + 1e-9)
    assert epsilon(noisy + pure, delta=1e-6) > epsilon(noisy, delta=1e-6)


def test_selection_inside_a_sample() -> None:
    best = NegativeBinomialTries(event=Pure(epsilon=0.5), shape=1, stop=0.1)
    assert renyi(best.poisson_sampled(rate=0.1), alpha=4) < renyi(best, alpha=4) / 10
    fixed = best.fixed_size_sampled(size=1, population=10)
    found, whole = pure_epsilon(fixed, neighbors=ReplaceOne), pure_epsilon(best)
    assert found is not None
    assert whole is not None
    assert found < 2 * whole


@pytest.mark.parametrize(
    "call",
    [
        lambda: log_mean_tries(shape=-1, stop=0.5),
        lambda: log_mean_tries(shape=1, stop=0),
    ],
    ids=["shape", "stop"],
)
def test_refusals(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter):
        call()
