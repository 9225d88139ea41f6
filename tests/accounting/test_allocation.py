"""Random allocation against enumeration, quadrature and the scheme run step by step."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats
from tests.accounting.profile_bounds import profile_bounds
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import (
    delta,
    delta_interval,
    epsilon,
    epsilon_interval,
    findings,
)
from unacorda.accounting.explanation import explain
from unacorda.accounting.findings import (
    delta_of_pairs,
    epsilon_of_pairs,
)
from unacorda.accounting.laws import of_points
from unacorda.accounting.prices import price, pure_epsilon, renyi, rho
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.allocated import Tails, allocated
from unacorda.accounting.profiles.noises import finite
from unacorda.accounting.rules.allocation import (
    LaplaceTransform,
    renyi_added,
    renyi_removed,
    whole_moments,
)
from unacorda.accounting.rules.base import Profile, plain, rules_of, without_mass
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    compose,
)
from unacorda.privacy.guarantees import ZCDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne, ZeroOut


def call(x: float, sigma: float) -> float:
    """E (X - x)+ of the Gaussian likelihood ratio."""
    if x <= 0:
        return 1 - x
    mu, a = 1 / sigma, math.log(x) * sigma
    return float(special.ndtr(mu / 2 - a) - x * special.ndtr(-mu / 2 - a))


def two_steps(sigma: float, c: float, *, rise: bool) -> float:
    """E (R - c)+ or E (c - R)+ for two steps, by quadrature over one of them."""
    mu = 1 / sigma

    def inside(z: float) -> float:
        left = 2 * c - math.exp(mu * z - mu * mu / 2)
        value = call(left, sigma)
        if not rise:
            value += left - 1
        return value * float(stats.norm.pdf(z)) / 2

    edge = (math.log(2 * c) + mu * mu / 2) / mu
    pieces = [
        integrate.quad(inside, a, b, epsabs=1e-15, epsrel=1e-11, limit=400)[0]
        for a, b in ((-12.0, edge), (edge, 14.0))
    ]
    return float(sum(pieces))


@pytest.mark.long
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_two_gaussian_steps_by_quadrature(sigma: float) -> None:
    event = Gaussian(noise_multiplier=sigma).randomly_allocated(steps=2)
    for at in (0.0, 0.1, 0.5, 1.0):
        c = math.exp(at)
        below, removed = map(float, profile_bounds(event, at, direction="remove"))
        under, added = map(float, profile_bounds(event, at, direction="add"))
        truth = two_steps(sigma, c, rise=True)
        turned = c * two_steps(sigma, 1 / c, rise=False)
        assert truth * (1 - 1e-3) <= below <= truth * (1 + 1e-9)
        assert turned * (1 - 1e-3) <= under <= turned * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= removed <= truth * (1 + 1e-4)
        assert turned * (1 - 1e-9) <= added <= turned * (1 + 1e-3)
        below = float(profile_bounds(event, -at, direction="remove")[1])
        dual = 1 - 1 / c + turned / c
        assert dual * (1 - 1e-9) <= below <= dual * (1 + 1e-4)
        assert delta(event, epsilon=at) >= max(truth, turned) * (1 - 1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    ("own", "steps"), mostly_slow([(0.5, 2), (1.0, 5), (2.0, 50), (0.5, 200), (4.0, 1000)])
)
def test_coins_by_counting_heads(own: float, steps: int) -> None:
    """Binary randomised response at one of t steps: the ratio depends on the number of ones."""
    event = RandomizedResponse(epsilon=own, categories=2).randomly_allocated(steps=steps)
    with mpmath.workdps(40):
        x = mpmath.mpf(str(own))
        tail = 1 / (1 + mpmath.exp(x))
        null = [
            mpmath.binomial(steps, k) * tail**k * (1 - tail) ** (steps - k)
            for k in range(steps + 1)
        ]
        ratios = [
            (k * mpmath.exp(x) + (steps - k) * mpmath.exp(-x)) / steps for k in range(steps + 1)
        ]
        for at in (-0.3, 0.0, 0.05, 0.2, 0.45, 1.2):
            grown = mpmath.exp(mpmath.mpf(at))
            removed = mpmath.fsum(n * max(r - grown, 0) for n, r in zip(null, ratios, strict=True))
            added = mpmath.fsum(
                n * max(1 - grown * r, 0) for n, r in zip(null, ratios, strict=True)
            )
            for truth, direction in ((removed, "remove"), (added, "add")):
                low, high = profile_bounds(event, at, direction=direction)  # type: ignore[arg-type]
                assert float(low) <= truth * (1 + mpmath.mpf("1e-15"))
                assert truth * (1 - mpmath.mpf("1e-30")) <= float(high)
                assert float(high) <= truth * mpmath.mpf("1.01") + mpmath.mpf("1e-35")
        for alpha in (1.5, 2, 4.5, 30):
            moments = [
                mpmath.fsum(n * r**power for n, r in zip(null, ratios, strict=True))
                for power in (mpmath.mpf(alpha), 1 - mpmath.mpf(alpha))
            ]
            truth = max(mpmath.log(moment) for moment in moments) / (alpha - 1)
            found = renyi(event, alpha=alpha)
            assert truth * (1 - mpmath.mpf("1e-15")) <= found <= renyi(event.event, alpha=alpha)
            if alpha in (2, 30):
                assert found <= truth * mpmath.mpf("1.01")


@pytest.mark.long
@pytest.mark.parametrize(("steps", "uses"), mostly_slow([(4, 2), (5, 3)]))
def test_several_uses_by_every_allocation(steps: int, uses: int) -> None:
    """Coins at every set of steps, all outputs enumerated."""
    own = 0.8
    head = 1 / (1 + math.exp(-own))
    sets = list(itertools.combinations(range(steps), uses))
    event = RandomizedResponse(epsilon=own, categories=2).randomly_allocated(steps=steps, uses=uses)
    mixed, null = [], []
    for outcome in itertools.product((0, 1), repeat=steps):
        coins = [head if bit == 0 else 1 - head for bit in outcome]
        null.append(math.prod(coins))
        mixed.append(
            sum(
                math.prod(1 - c if i in chosen else c for i, c in enumerate(coins))
                for chosen in sets
            )
            / len(sets)
        )
    for at in (0.0, 0.5):
        grown = math.exp(at)
        truth = max(
            sum(max(p - grown * q, 0.0) for p, q in zip(one, two, strict=True))
            for one, two in ((mixed, null), (null, mixed))
        )
        assert truth <= delta(event, epsilon=at) * (1 + 1e-9)
    for alpha in (2, 5):
        moments = [
            sum(p**alpha * q ** (1 - alpha) for p, q in zip(one, two, strict=True))
            for one, two in ((mixed, null), (null, mixed))
        ]
        assert max(math.log(m) / (alpha - 1) for m in moments) <= renyi(event, alpha=alpha)
    assert pure_epsilon(event) == pytest.approx(own * uses)


def test_adaptive_steps_stay_within() -> None:
    """The second of two steps answers truly or falsely, as the first answer says."""
    own = 1.0
    head = 1 / (1 + math.exp(-own))
    event = Pure(epsilon=own).randomly_allocated(steps=2)
    null, mixed = [], []
    for first, second in itertools.product((0, 1), repeat=2):
        without = [head if first == 0 else 1 - head, head if second == first else 1 - head]
        null.append(without[0] * without[1])
        mixed.append(((1 - without[0]) * without[1] + without[0] * (1 - without[1])) / 2)
    for at in (0.0, 0.3, 0.7):
        grown = math.exp(at)
        for one, two in ((mixed, null), (null, mixed)):
            truth = sum(max(p - grown * q, 0.0) for p, q in zip(one, two, strict=True))
            assert truth <= delta(event, epsilon=at) * (1 + 1e-9)


def test_moments_by_enumeration() -> None:
    """E R^a over the multinomial law, for whole a."""
    sigma, steps = 1.3, 3
    moments = whole_moments(lambda n: n / (2 * sigma**2), steps=steps, largest=5)
    for a in range(2, 6):
        total = mpmath.mpf(0)
        for counts in itertools.product(range(a + 1), repeat=steps):
            if sum(counts) != a:
                continue
            ways = math.factorial(a) / math.prod(math.factorial(n) for n in counts)
            total += ways * mpmath.exp(sum(n * (n - 1) for n in counts) / (2 * sigma**2))
        truth = total / steps**a - 1
        assert truth * (1 - mpmath.mpf("1e-14")) <= moments[a] <= truth * (1 + mpmath.mpf("1e-12"))
    assert renyi_removed(lambda k: moments[k], alpha=300) == math.inf


@pytest.mark.long
@pytest.mark.parametrize("sigma", [0.8, 2.0])
@pytest.mark.parametrize("power", mostly_slow([0.25, 1.0, 3.0, 8.0]))
def test_negative_moments_by_quadrature(sigma: float, power: float) -> None:
    # the trapezoid rule on normal noise, to 12 deviations beyond where the moment sits
    mu = 1 / sigma
    nodes = np.linspace(-12 - power * mu, 12, 1200)
    x, w = np.exp(mu * nodes - mu * mu / 2), stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    truth = math.log(np.sum(((x[:, None] + x[None, :]) / 2) ** -power * w[:, None] * w[None, :]))
    curve = curves.gaussian(1 / Fraction(sigma) ** 2)
    transform = LaplaceTransform(curve, curve, 2)
    found = renyi_added(transform, lambda a: a / (2 * Fraction(sigma) ** 2), alpha=1 + power)
    assert truth / power * (1 - 1e-9) <= found <= truth / power * 1.02


@pytest.mark.long
def test_many_steps_approach_the_quadratic_form() -> None:
    """For t large the divergence is near a Var(X)/(2 t), Var(X) = e^{1/sigma^2} - 1."""
    event = Gaussian(noise_multiplier=1.0).randomly_allocated(steps=10**6)
    for alpha in (2, 8):  # between whole orders a chord stands for the curve
        near = alpha * math.expm1(1.0) / 2e6
        assert near * 0.999 <= renyi(event, alpha=alpha) <= near * 1.01


@pytest.mark.long
def test_many_steps_approach_a_normal_law() -> None:
    """For t large R is near N(1, Var(X)/t): delta by the normal law's own integral."""
    event = Gaussian(noise_multiplier=1.0).randomly_allocated(steps=10**6)
    spread = math.sqrt(math.expm1(1.0)) / 1000
    for at in (0.0, 0.001, 0.003):
        z = math.expm1(at) / spread
        near = spread * (float(stats.norm.pdf(z)) - z * float(stats.norm.sf(z)))
        found = delta(event, epsilon=at)
        assert 0.97 * near <= found <= 1.03 * near


@pytest.mark.long
@pytest.mark.statistical
def test_profile_against_the_scheme_itself() -> None:
    """Runs of the scheme; the mean of a bounded variable is within Hoeffding's 1e-9 bound."""
    rng, sigma, steps, runs = np.random.default_rng(11), 1.0, 20, 200_000
    z = rng.normal(size=(runs, steps)) * sigma
    ratio = np.mean(np.exp((2 * z - 1) / (2 * sigma**2)), axis=1)
    shifted = z
    shifted[:, 0] += 1
    removed = np.mean(np.exp((2 * shifted - 1) / (2 * sigma**2)), axis=1)
    slack = math.sqrt(math.log(2e9) / (2 * runs))
    event = Gaussian(noise_multiplier=sigma).randomly_allocated(steps=steps)
    for at in (0.0, 0.2, 0.6):
        seen = float(np.mean(np.maximum(1 - math.exp(at) / removed, 0)))
        turned = float(np.mean(np.maximum(1 - math.exp(at) * ratio, 0)))
        for up, down in zip(
            profile_bounds(event, at, direction="remove"),
            profile_bounds(event, at, direction="add"),
            strict=True,
        ):
            assert abs(float(up) - seen) <= slack
            assert abs(float(down) - turned) <= slack


def of_all_steps(sigma: float, steps: int, uses: int, epsilon: float, *, opposite: bool) -> float:
    """The larger divergence of all outputs of two or three steps, by plain sums over them."""
    z = np.linspace(-7.0, 8.0, 161) * sigma
    step = float(z[1] - z[0])
    plain_law, up, down = (stats.norm.pdf(z, loc=move, scale=sigma) for move in (0, 1, -1))

    def mixed(law: Any) -> Any:
        several = []
        for chosen in itertools.combinations(range(steps), uses):
            whole = np.ones(())
            for place in range(steps):
                whole = np.multiply.outer(whole, law if place in chosen else plain_law)
            several.append(whole)
        return sum(several) / len(several)

    first, second = mixed(up), mixed(down if opposite else plain_law)
    gaps = (first - math.exp(epsilon) * second, second - math.exp(epsilon) * first)
    return max(float(np.sum(gap[gap > 0])) for gap in gaps) * step**steps


@pytest.mark.long
@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(
    ("steps", "uses"), [(2, 1), *(pytest.param(3, k, marks=pytest.mark.long) for k in (1, 2))]
)
def test_both_ends_by_all_outputs(steps: int, uses: int, opposite: bool) -> None:
    event = Gaussian(noise_multiplier=1.5).randomly_allocated(steps=steps, uses=uses)
    for at in (0.2, 0.8):
        truth = of_all_steps(1.5, steps, uses, at, opposite=opposite)
        found = delta_interval(event, epsilon=at, neighbors=ReplaceOne if opposite else AddRemove)
        assert found.lower <= truth * (1 + 2e-3)
        assert found.lower >= truth * (0.8 if opposite or uses > 1 else 0.995)
        assert truth * (1 - 2e-3) <= found.upper


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("uses", [1, 3])
def test_epochs_against_the_scheme_itself(uses: int) -> None:
    """Two epochs of twelve steps; by Hoeffding a mean errs by more than the slack once in 1e9."""
    rng, sigma, steps, runs, at = np.random.default_rng(13), 2.0, 12, 200_000, 0.3
    ratio = np.ones(runs)
    for _ in range(2):
        z = rng.normal(size=(runs, steps)) * sigma
        z[:, :uses] += 1
        x = np.exp((2 * z - 1) / (2 * sigma**2))
        sums = [np.ones(runs)] + [np.zeros(runs)] * uses  # elementary symmetric polynomials
        for place in range(steps):
            for order in range(uses, 0, -1):
                sums[order] = sums[order] + sums[order - 1] * x[:, place]
        ratio = ratio * sums[uses] / math.comb(steps, uses)
    seen = float(np.mean(np.maximum(1 - math.exp(at) / ratio, 0)))
    slack = math.sqrt(math.log(2e9) / (2 * runs))
    event = Gaussian(noise_multiplier=sigma).randomly_allocated(steps=steps, uses=uses)
    found = delta_interval(event * 2, epsilon=at)
    assert found.lower <= seen + slack
    assert seen - slack <= found.upper
    assert found.upper <= found.lower * (1.05 if uses > 1 else 1.001)


@pytest.mark.long
@pytest.mark.parametrize(("sigma", "steps"), [(0.662, 12), (0.6, 100), (0.75, 250)])
def test_a_few_large_ratios_decide(sigma: float, steps: int) -> None:
    """With little noise one step shows the unit or none does; both ends are found apart."""
    found = epsilon_interval(
        Gaussian(noise_multiplier=sigma).randomly_allocated(steps=steps), delta=1e-6
    )
    assert found.lower > 1.5
    assert found.upper <= 1.01 * found.lower


@pytest.mark.long
@pytest.mark.parametrize("uses", [1, 4])
def test_lower_ends_are_close(uses: int) -> None:
    """Of several uses the upper end shows the attacker more than the scheme does."""
    event = Gaussian(noise_multiplier=2.0).randomly_allocated(steps=200, uses=uses)
    for asked in (event, event * 3):
        found = epsilon_interval(asked, delta=1e-6)
        assert found.upper <= found.lower * (1.02 if uses > 1 else 1.001)
    laplace = Laplace(noise_multiplier=1.0).randomly_allocated(steps=20, uses=uses)
    found = epsilon_interval(laplace, delta=1e-6)
    assert found.upper <= 1.25 * found.lower
    replaced = epsilon_interval(event, delta=1e-6, neighbors=ReplaceOne)
    assert replaced.upper <= 1.25 * replaced.lower
    assert epsilon_interval(Pure(epsilon=1).randomly_allocated(steps=9), delta=1e-6).lower == 0.0


@pytest.mark.long
@pytest.mark.parametrize(
    "base",
    mostly_slow(
        [
            Gaussian(noise_multiplier=1.0),
            Gaussian(noise_multiplier=4.0) * 9,
            Laplace(noise_multiplier=1.0),
            RandomizedResponse(epsilon=1.0, categories=4),
            Approximate(epsilon=0.5, delta=1e-7),
        ],
        quick=2,
    ),
    ids=["gaussian", "gaussians", "laplace", "response", "approximate"],
)
def test_hiding_never_costs(base: Event) -> None:
    whole = epsilon(base, delta=1e-5)
    few = epsilon(base.randomly_allocated(steps=5), delta=1e-5)
    many = epsilon(base.randomly_allocated(steps=100), delta=1e-5)
    assert many < few <= whole * (1 + 1e-9)
    poisson = epsilon(base.poisson_sampled(rate=0.01) * 100, delta=1e-5)
    assert many < 1.1 * poisson


@pytest.mark.slow
def test_against_poisson_samples_of_one_epoch_and_of_ten() -> None:
    one = Gaussian(noise_multiplier=1.0).randomly_allocated(steps=100)
    sampled = Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01) * 100
    assert epsilon(one, delta=1e-5) < 0.9 * epsilon(sampled, delta=1e-5)
    assert epsilon(one * 10, delta=1e-5) < epsilon(sampled * 10, delta=1e-5)
    grids = findings(one * 10, delta=1e-5)[-1]
    assert grids.engine == "privacy loss distribution (FFT)"
    assert grids.interval.upper <= 1.001 * grids.interval.lower


@pytest.mark.slow
def test_rewriting_and_relations() -> None:
    base = Gaussian(noise_multiplier=1.0)
    assert plain(base.randomly_allocated(steps=1)) == base.poisson_sampled(rate=1)
    assert plain(base.randomly_allocated(steps=4, uses=4)) == base.poisson_sampled(rate=1) * 4
    several = base.randomly_allocated(steps=7, uses=3)
    apart = rules_of(several).apart(several, Profile())
    assert apart is not None
    assert apart[0] == compose(
        [base.randomly_allocated(steps=2)], count=2
    ) + base.randomly_allocated(steps=3)
    event = base.randomly_allocated(steps=50)
    assert epsilon(event, delta=1e-5, neighbors=ZeroOut) == epsilon(event, delta=1e-5)
    replaced = epsilon(event, delta=1e-5, neighbors=ReplaceOne)
    assert epsilon(event, delta=1e-5) < replaced
    assert replaced < epsilon(Gaussian(noise_multiplier=0.5), delta=1e-5)
    assert replaced <= 2 * epsilon(event, delta=1e-6)
    half = delta(event, epsilon=0.4)
    assert delta(event, epsilon=0.8, neighbors=ReplaceOne) <= half * (1 + math.exp(0.4)) * (
        1 + 1e-9
    )
    low, high = profile_bounds(event, [0.8], neighbors=ReplaceOne)
    found = delta(event, epsilon=0.8, neighbors=ReplaceOne)
    assert low[0] <= found <= high[0] * (1 + 1e-12)
    assert high[0] <= half * (1 + math.exp(0.4))  # the way between both units is chosen best
    with pytest.raises(UnsupportedEvent):
        price(event, ZCDP)
    assert rho(event) == 0.5
    assert rho(event, neighbors=ReplaceOne) == 2.0
    pure = Pure(epsilon=0.25).randomly_allocated(steps=9, uses=2)
    assert pure_epsilon(pure) == 0.5
    assert pure_epsilon(pure, neighbors=ReplaceOne) == 1.0
    failing = Approximate(epsilon=0.5, delta=1e-3).randomly_allocated(steps=9, uses=2)
    mass, rest = without_mass(failing, AddRemove)
    assert mass >= 1 - Fraction(999, 1000) ** 2
    assert rest == Pure(epsilon=0.5) * 2
    assert "drawn at random" in str(explain(event, delta=1e-5))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, 10**5, 10**12])
@pytest.mark.parametrize("sigma", mostly_slow([0.05, 200.0]))
def test_numbers_of_any_size(sigma: float, steps: int) -> None:
    event = Gaussian(noise_multiplier=sigma).randomly_allocated(steps=steps)
    for at in (0.0, 1e-6, 1.0, 500.0):
        interval = delta_interval(event, epsilon=at)
        assert 0 <= interval.lower <= interval.upper <= 1
        alone = float(profile_bounds(event.event, at)[1])
        assert interval.upper <= alone * (1 + 1e-6) + 1e-15
    assert 0 <= renyi(event, alpha=3) <= 3 / (2 * sigma**2) * (1 + 1e-9)


@pytest.mark.long
def test_ends_of_a_curve() -> None:
    curve = finite(of_points(Fraction(1, 2), 2, Fraction(1, 100)))
    for remove in (True, False):
        found = allocated(Tails(curve, curve, 10), remove=remove)
        asked: Any = np.array([-math.inf, -1e4, -700.0, 0.0, 700.0, 1e4, math.inf])
        box = found(asked)
        assert np.all(box.lower <= box.upper)
        assert box.upper[0] == 1
        assert box.upper[-1] == pytest.approx(0.01 if remove else 0, abs=1e-9)
        assert np.all(np.diff(box.upper) <= 1e-15)


@pytest.mark.slow
def test_replacing_a_unit_by_every_allocation() -> None:
    """Coins at one of three steps; the unit's coin is turned one way or the other."""
    own, steps = 0.7, 3
    up, down = 1 / (1 + math.exp(-own / 2)), 1 / (1 + math.exp(own / 2))
    laws: list[list[float]] = [[], []]
    for outcome in itertools.product((0, 1), repeat=steps):
        for law, head in zip(laws, (up, down), strict=True):
            law.append(
                sum(
                    math.prod(
                        (head if bit == 0 else 1 - head) if i == place else 0.5
                        for i, bit in enumerate(outcome)
                    )
                    for place in range(steps)
                )
                / steps
            )
    # against a fair coin each is own/2-DP
    event = Pure(epsilon=own / 2).randomly_allocated(steps=steps)
    for at in (0.0, 0.1, 0.3):
        truth = sum(max(p - math.exp(at) * q, 0.0) for p, q in zip(*laws, strict=True))
        assert truth <= delta(event, epsilon=at, neighbors=ReplaceOne) * (1 + 1e-9)


def test_pairs_by_their_own_arithmetic() -> None:
    def delta_at(x: Any) -> float:
        return math.exp(-4 * float(x) - 3)

    def epsilon_at(part: Any) -> float:
        return max(0.0, -(math.log(float(part)) + 3) / 4)

    goal = Fraction(1, 10**6)
    found = epsilon_of_pairs(epsilon_at, delta=goal)
    assert delta_of_pairs(delta_at, epsilon=Fraction(found)) <= goal
    assert delta_of_pairs(delta_at, epsilon=Fraction(found * 0.98)) > goal
    assert epsilon_of_pairs(lambda _: math.inf, delta=goal) == math.inf


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "steps", "target"), mostly_slow([(0.7, 500, 1e-5), (1.0, 100, 1e-6)])
)
def test_the_upper_end_alone_is_that_of_both(noise: float, steps: int, target: float) -> None:
    """Tails laid out near one delta alone are above those laid out wherever they matter."""
    event = Gaussian(noise_multiplier=noise).randomly_allocated(steps=steps)
    alone = epsilon(event, delta=target)
    both = epsilon_interval(event, delta=target)
    assert alone == both.upper
    assert both.upper <= both.lower * 1.02
    found = delta(event, epsilon=alone)
    assert 0.98 * target < found <= target
