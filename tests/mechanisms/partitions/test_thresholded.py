"""Thresholded counts of private keys: the enumerated law against the price, and the sampler."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.divergences import exceeds, farthest
from tests.mechanisms.laws import as_mpf, chi_square_p, discrete_laplace_tail, sign_p
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian, ThresholdedLaplace
from unacorda.privacy import events
from unacorda.privacy.guarantees import ApproxDP, PureDP

EPSILONS = (0.0, 0.1, 0.3, 0.5, 0.75, 1.0)
Tail = Callable[[int], mpf]
"""P(noise >= k) for every integer k."""


def laplace_noise(scale: Fraction) -> Tail:
    q = mp.exp(-1 / as_mpf(scale))
    return lambda k: q**k / (1 + q) if k > 0 else 1 - q ** (1 - k) / (1 + q)


def gaussian_noise(sigma: Fraction) -> Tail:
    s = as_mpf(sigma) * mp.sqrt(2)
    return lambda k: mp.erfc((k - mpf("0.5")) / s) / 2


def law(count: int, tail: Tail, *, threshold: int, cap: int) -> dict[int | None, mpf]:
    """What one key shows: None, or a noisy count, all from the cap on taken together."""
    if count == 0:  # an absent key shows nothing
        return {None: mpf(1)}
    masses: dict[int | None, mpf] = {None: 1 - tail(threshold - count), cap: tail(cap - count)}
    for v in range(threshold, cap):
        masses[v] = tail(v - count) - tail(v + 1 - count)
    return masses


def product(*laws: dict[int | None, mpf]) -> dict[tuple[int | None, ...], mpf]:
    return {
        places: mp.fprod(one[place] for one, place in zip(laws, places, strict=True))
        for places in itertools.product(*laws)
    }


def pairs(
    tail: Tail, *, threshold: int, step: int, keys: int, reach: int = 30
) -> list[tuple[dict[Any, mpf], dict[Any, mpf]]]:
    """Neighbors whose one person raises the counts of `keys` keys by `step`."""
    one = [
        tuple(law(n, tail, threshold=threshold, cap=threshold + reach) for n in (b + step, b))
        for b in (0, 1, threshold - 1, threshold + 8)
    ]
    chosen = itertools.combinations_with_replacement(one, keys)
    return [(product(*(a for a, _ in row)), product(*(b for _, b in row))) for row in chosen]


@pytest.mark.parametrize("step", mostly_slow([1, 2]))
def test_laplace_keeps_its_price(step: int) -> None:
    with mp.workprec(200):
        mechanism = ThresholdedLaplace(scale=2, threshold=8, linf_sensitivity=step)
        found = pairs(laplace_noise(Fraction(2)), threshold=8, step=step, keys=1)
        assert exceeds(mechanism.event, found, epsilons=EPSILONS) == []
        # The delta at the full epsilon is reached, by a key that one person alone has.
        assert farthest(found, step / 2) == pytest.approx(mechanism.delta, rel=1e-12)
        # The threshold must rise with what one person adds.
        wrong = ThresholdedLaplace(scale=2, threshold=9, linf_sensitivity=step)
        assert exceeds(wrong.event, found, epsilons=EPSILONS)


@pytest.mark.slow
def test_laplace_keeps_its_price_with_two_keys() -> None:
    with mp.workprec(200):
        mechanism = ThresholdedLaplace(scale=2, threshold=6, l0_sensitivity=2)
        found = pairs(laplace_noise(Fraction(2)), threshold=6, step=1, keys=2, reach=20)
        assert exceeds(mechanism.event, found, epsilons=EPSILONS) == []
        assert farthest(found, 1) == pytest.approx(mechanism.delta, rel=1e-12)
        # What is right for one key is wrong for two.
        one = ThresholdedLaplace(scale=2, threshold=6)
        assert exceeds(one.event, found, epsilons=EPSILONS)


@pytest.mark.parametrize(("keys", "step"), mostly_slow([(1, 1), (1, 2), (2, 1)]))
def test_gaussian_keeps_its_price(keys: int, step: int) -> None:
    with mp.workprec(200):
        sigma, threshold = Fraction(3, 2), 6
        fields: dict[str, Any] = {"sigma": sigma, "threshold": threshold}
        fields |= {"l0_sensitivity": keys, "linf_sensitivity": step}
        noise = gaussian_noise(sigma)
        found = pairs(noise, threshold=threshold, step=step, keys=keys, reach=18)
        assert exceeds(ThresholdedGaussian(**fields).event, found, epsilons=EPSILONS) == []
        for epsilon in EPSILONS[1:]:
            mechanism = ThresholdedGaussian(**fields, epsilon=epsilon)
            assert exceeds(mechanism.event, found, epsilons=(epsilon,)) == []
            # Only what rounding to whole numbers takes away is left over.
            assert farthest(found, epsilon) > 0.7 * mpf(mechanism.delta(epsilon))
        if keys == 2:
            wrong = ThresholdedGaussian(**(fields | {"l0_sensitivity": 1}))
            assert exceeds(wrong.event, found, epsilons=EPSILONS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sigma", "threshold", "keys"), mostly_slow([(4, 12, 3), (2, 5, 2), (6, 30, 4)], quick=2)
)
def test_the_exact_delta_is_the_integral_over_the_ideal_pair(
    sigma: int, threshold: int, keys: int
) -> None:
    # Independent of the closed form: integrate (P - e^eps Q)+ over the shared keys' one direction.
    shown = stats.norm.sf((threshold - 1.5) / sigma)
    x = np.linspace(-12, 12, 400_001)
    for epsilon in (0.1, 0.7, 1.5):
        best = 0.0
        for shared in range(keys + 1):
            mu = np.sqrt(shared) / sigma
            stay = (1 - shown) ** (keys - shared)
            p, q = stats.norm.pdf(x, mu), stats.norm.pdf(x)
            growth = np.exp(epsilon)
            seen = 1 - stay + np.trapezoid(np.maximum(stay * p - growth * q, 0), x)
            gone = np.trapezoid(np.maximum(q - growth * stay * p, 0), x)
            best = max(best, seen, gone)
        mechanism = ThresholdedGaussian(sigma=sigma, threshold=threshold, l0_sensitivity=keys)
        assert float(mechanism.delta(epsilon)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 30])
def test_a_count_is_shown_as_often_as_its_law_says(count: int) -> None:
    with mp.workprec(200):
        for mechanism, noise in (
            (ThresholdedLaplace(scale=1.5, threshold=6), laplace_noise(Fraction(3, 2))),
            (ThresholdedGaussian(sigma=1.5, threshold=6), gaussian_noise(Fraction(3, 2))),
        ):
            hidden = law(count, noise, threshold=6, cap=50)[None]
            assert mechanism.probability(count) == pytest.approx(float(1 - hidden), rel=1e-12)
    wrong: list[Any] = [-1, 0.5, None, True]
    for other in wrong:
        with pytest.raises(InvalidParameter, match="count"):
            ThresholdedLaplace(scale=1, threshold=5).probability(other)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 1e-9), (4.0, 0.01)])
@pytest.mark.parametrize(("keys", "step"), [(1, 1), (7, 1), (3, 4)])
def test_a_guarantee_is_kept_with_the_least_threshold(
    epsilon: float, delta: float, keys: int, step: int
) -> None:
    target = ApproxDP(epsilon, delta)
    lap = ThresholdedLaplace.for_guarantee(target, l0_sensitivity=keys, linf_sensitivity=step)
    assert exact("scale", lap.scale) * target.epsilon == keys * step
    assert exact("delta", lap.delta) <= target.delta
    lower = ThresholdedLaplace(
        scale=lap.scale,
        threshold=lap.threshold - 1,
        l0_sensitivity=keys,
        linf_sensitivity=step,
    )
    assert exact("delta", lower.delta) > target.delta
    normal = ThresholdedGaussian.for_guarantee(target, l0_sensitivity=keys, linf_sensitivity=step)
    assert isinstance(normal.event, events.Approximate)
    assert exact("epsilon", normal.event.epsilon) == target.epsilon
    assert exact("delta", normal.event.delta) <= target.delta
    looser = ThresholdedGaussian(
        sigma=normal.sigma,
        threshold=normal.threshold - 1,
        l0_sensitivity=keys,
        linf_sensitivity=step,
    )
    assert exact("delta", looser.delta(epsilon)) > target.delta


@pytest.mark.statistical
def test_shown_counts_have_the_law() -> None:
    counts = np.full(200_000, 1000)
    kept, noisy = ThresholdedLaplace(scale=5, threshold=500).release_array(
        counts, bits=SeededBits(5)
    )
    assert kept.all()
    noise = noisy - 1000
    assert chi_square_p(np.abs(noise), discrete_laplace_tail(Fraction(5)), width=5) > 1e-7
    assert chi_square_p(np.abs(noise), discrete_laplace_tail(Fraction(11, 2)), width=5) < 1e-12
    assert sign_p(noise) > 1e-7
    kept, noisy = ThresholdedGaussian(sigma=5, threshold=500).release_array(
        counts, bits=SeededBits(6)
    )
    assert kept.all()

    for sigma, right in ((Fraction(5), True), (Fraction(11, 2), False)):
        tail = gaussian_noise(sigma)

        def both(k: float, tail: Tail = tail) -> float:
            return float(2 * tail(int(k)))

        p = chi_square_p(np.abs(noisy - 1000), both, width=5)
        assert p > 1e-7 if right else p < 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_keys_show_as_often_as_delta_says(kind: str) -> None:
    mechanism: Any
    if kind == "laplace":
        mechanism = ThresholdedLaplace(scale=3, threshold=6)
        chance = float(mechanism.delta)
    else:
        mechanism = ThresholdedGaussian(sigma=3, threshold=6)
        chance = float(stats.norm.sf(4.5 / 3))
    kept, noisy = mechanism.release_array(np.ones(200_000, dtype=np.int64), bits=SeededBits(9))
    assert stats.binomtest(int(kept.sum()), kept.size, chance).pvalue > 1e-7
    assert stats.binomtest(int(kept.sum()), kept.size, chance * 1.1).pvalue < 1e-7
    assert noisy[kept].min() >= 6
    assert (noisy[~kept] == 0).all()


@pytest.mark.parametrize(
    "mechanism",
    [ThresholdedLaplace(scale=2, threshold=1), ThresholdedGaussian(sigma=2, threshold=1)],
)
def test_absent_keys_never_show_and_shown_ones_leave_sorted(mechanism: Any) -> None:
    for word in (0, 2**64 - 1, 1 << 63, 1):
        bits = ScriptedBits([word] * 64, then=SeededBits(1))
        kept, noisy = mechanism.release_array(np.array([[0, -3], [-(2**62), 0]]), bits=bits)
        assert not kept.any()
        assert not noisy.any()
    counts = {"b": 10**30, "a": 10**4, "d": 0, "c": 10**4}
    shown = mechanism.release(counts)
    assert list(shown) == ["a", "b", "c"]
    assert abs(shown["b"] - 2**53) < 1000
    assert all(type(value) is int for value in shown.values())
    assert mechanism.release({}) == {}
    kept, noisy = mechanism.release_array(np.uint64(2**64 - 1))
    assert kept.shape == noisy.shape == ()


@in_subtests("kind", [ThresholdedLaplace, ThresholdedGaussian])
@in_subtests(
    ("field", "wrong"),
    [
        ("scale", 0),
        ("scale", float("inf")),
        ("scale", 2.0**60),
        ("threshold", 0),
        ("threshold", 2.5),
        ("l0_sensitivity", 0),
        ("l0_sensitivity", 10**6),
        ("linf_sensitivity", 0.5),
    ],
)
def test_wrong_numbers_are_refused(kind: Any, field: str, wrong: Any) -> None:
    scale = "scale" if kind is ThresholdedLaplace else "sigma"
    name = scale if field == "scale" else field
    with pytest.raises(InvalidParameter):
        kind(**{scale: 1, "threshold": 5, name: wrong})


def test_wrong_guarantees_and_counts_are_refused() -> None:
    wrong: list[Any] = [PureDP(1), ApproxDP(1, 0), ApproxDP(0, 0.1), 1.0]
    for kind in (ThresholdedLaplace, ThresholdedGaussian):
        for guarantee in wrong:
            with pytest.raises(InvalidParameter):
                kind.for_guarantee(guarantee)
        one: Any = kind(**{("scale" if kind is ThresholdedLaplace else "sigma"): 1, "threshold": 5})
        for counts in (np.array([1.5]), np.array(["a"])):
            with pytest.raises(InvalidParameter, match="counts"):
                one.release_array(counts, bits=ScriptedBits([]))
        with pytest.raises(InvalidParameter, match="counts"):
            one.release([("a", 1)], bits=ScriptedBits([]))
    with pytest.raises(InvalidParameter, match="epsilon"):
        ThresholdedGaussian(sigma=1, threshold=5).delta(-1)


def test_a_delta_far_out_is_that_of_the_gaussian() -> None:
    step, epsilon = 2000, 2_000_000
    noisy = ThresholdedGaussian(sigma=1, threshold=3 * step, linf_sensitivity=step)
    with mp.workdps(60):
        # One key that others have as well: its count moves by 2,000 sigma.
        mu = mpf(step)
        truth = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)
        assert truth <= as_mpf(exact("delta", noisy.delta(epsilon))) <= truth * (1 + mpf(1e-14))
