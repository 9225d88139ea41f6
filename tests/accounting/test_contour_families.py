"""The contour engine on Gaussian, Laplace, pure, sampled and mixed compositions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
from tests.accounting.by_contours import delta_interval, epsilon_interval
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import Directions
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    Pure,
    RandomizedResponse,
)

MP = mpmath.mp.clone()
MP.dps = 34


def gaussian_delta(mu: Any, epsilon: float) -> Any:
    e = MP.mpf(epsilon)
    return MP.ncdf(mu / 2 - e / mu) - MP.exp(e) * MP.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(
    ("sigma", "count", "delta"),
    [
        (1.0, 1, 1e-5),
        (50.0, 10**6, 1e-10),
        (1e4, 10**12, 1e-5),
        (0.1, 1, 1e-6),
        (1000.0, 1, 1e-4),
        (3.0, 20, 1e-30),
        (3.0, 20, 1e-250),
        (0.5, 3, 0.4),
    ],
)
def test_gaussian_sums_hold_the_closed_form(sigma: float, count: int, delta: float) -> None:
    found = epsilon_interval([(Gaussian(noise_multiplier=sigma), count)], delta=delta)
    mu = MP.sqrt(count) / MP.mpf(sigma)
    assert gaussian_delta(mu, found.lower) >= delta >= gaussian_delta(mu, found.upper)
    assert found.upper - found.lower <= 1e-11 * found.upper
    back = delta_interval([(Gaussian(noise_multiplier=sigma), count)], epsilon=found.upper)
    truth = gaussian_delta(mu, found.upper)
    assert back.lower <= truth <= back.upper


def test_no_epsilon_where_delta_alone_suffices() -> None:
    found = epsilon_interval([(Gaussian(noise_multiplier=100.0), 1)], delta=0.1)
    assert found == (0.0, 0.0)


def point_law(epsilon: float, top: float) -> list[tuple[Any, Any]]:
    e, p = MP.mpf(epsilon), MP.mpf(top)
    return [(e, p), (-e, p * MP.exp(-e)), (MP.mpf(0), 1 - p * (1 + MP.exp(-e)))]


def sampled_law(law: list[tuple[Any, Any]], rate: float, *, remove: bool) -> list[tuple[Any, Any]]:
    """Law of the loss of the mixture pair, from the law of the pair's own loss under P."""
    q = MP.mpf(rate)
    out = []
    for loss, mass in law:
        null, ratio = mass * MP.exp(-loss), 1 - q + q * MP.exp(loss)
        out.append((MP.log(ratio), null * ratio) if remove else (-MP.log(ratio), null))
    return out


def convolved(laws: list[list[tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
    total: dict[Any, Any] = {MP.mpf(0): MP.mpf(1)}
    for law in laws:
        following: dict[Any, Any] = {}
        for (left, first), (right, second) in itertools.product(total.items(), law):
            key = MP.mpf(MP.nstr(left + right, 28))
            following[key] = following.get(key, 0) + first * second
        total = following
    return list(total.items())


def delta_with_gaussian(atoms: list[tuple[Any, Any]], mu: Any, epsilon: float) -> Any:
    """delta of an enumerated law together with one Gaussian pair."""
    return MP.fsum(mass * gaussian_tail(mu, MP.mpf(epsilon) - loss) for loss, mass in atoms)


def gaussian_tail(mu: Any, e: Any) -> Any:
    """E (1 - exp(e - L))_+ of a Gaussian loss, for e of either sign."""
    return MP.ncdf(mu / 2 - e / mu) - MP.exp(e) * MP.ncdf(-mu / 2 - e / mu)


PURE_LAWS: list[tuple[Event, Callable[[], list[tuple[Any, Any]]], int]] = [
    (Pure(epsilon=0.5), lambda: point_law(0.5, 1 / (1 + MP.exp(MP.mpf(-0.5)))), 6),
    (
        RandomizedResponse(epsilon=1.0, categories=4),
        lambda: point_law(1.0, 1 / (1 + 3 * MP.exp(MP.mpf(-1)))),
        4,
    ),
]


def test_pure_and_randomised_response_beside_a_gaussian_against_enumeration() -> None:
    laws = [law() for _, law, count in PURE_LAWS for _ in range(count)]
    atoms = convolved(laws)
    composition = [(event, count) for event, _, count in PURE_LAWS]
    composition.append((Gaussian(noise_multiplier=2.0), 1))
    for delta in (1e-3, 1e-8, 1e-20):
        found = epsilon_interval(composition, delta=delta)
        mu = MP.mpf(1) / 2
        assert delta_with_gaussian(atoms, mu, found.lower) >= delta
        assert delta_with_gaussian(atoms, mu, found.upper) <= delta
        assert found.upper - found.lower < 1e-10 * found.upper


@pytest.mark.long
@pytest.mark.parametrize("direction", mostly_slow(["remove", "add"]))
def test_sampled_pure_beside_a_gaussian_against_enumeration(direction: Directions) -> None:
    events = [PoissonSampled(event=event, rate=0.1) for event, _, _ in PURE_LAWS]
    laws = [
        sampled_law(law(), 0.1, remove=direction == "remove")
        for _, law, count in PURE_LAWS
        for _ in range(count)
    ]
    atoms = convolved(laws)
    composition: list[tuple[Event, int]] = [
        (event, count) for event, (_, _, count) in zip(events, PURE_LAWS, strict=True)
    ]
    composition.append((Gaussian(noise_multiplier=3.0), 1))
    for delta in (1e-4, 1e-9):
        found = epsilon_interval(composition, delta=delta, directions=direction)
        mu = 1 / MP.mpf(3)
        assert delta_with_gaussian(atoms, mu, found.lower) >= delta
        assert delta_with_gaussian(atoms, mu, found.upper) <= delta
        assert found.upper - found.lower < 1e-10 * found.upper


def test_one_laplace_step_holds_its_formula() -> None:
    u = MP.mpf(1) / 2
    for epsilon in (0.02, 0.05, 0.48):
        truth = 1 - MP.exp((MP.mpf(epsilon) - u) / 2)
        found = delta_interval([(Laplace(noise_multiplier=2.0), 1)], epsilon=epsilon)
        assert found.lower <= truth <= found.upper


def laplace_reference(
    scales: list[tuple[float, int]], sigma: float | None, epsilon: float, *, c: float, x: float
) -> Any:
    """Laplace mechanisms (and a Gaussian) by the closed transforms in 34 digits."""
    h, e = 2 * MP.pi / x, MP.mpf(epsilon)

    def log_m(s: Any) -> Any:
        total = s * (s + 1) / (2 * MP.mpf(sigma) ** 2) if sigma else MP.mpc(0)
        for b, count in scales:
            u = 1 / MP.mpf(b)
            value = ((s + 1) * MP.exp(s * u) + s * MP.exp(-(s + 1) * u)) / (2 * s + 1)
            total += count * MP.log(value)
        return total

    total, n = MP.mpf(0), 0
    while True:
        s = MP.mpc(c, n * h)
        term = MP.exp(log_m(s) - s * e) / (s * (s + 1)) * (MP.mpf(1) / 2 if n == 0 else 1)
        total += term.real
        if n > 5 and abs(term) < MP.mpf(10) ** -22 * abs(total):
            break
        n += 1
        assert n < 20_000
    return h / MP.pi * total


@pytest.mark.long
@pytest.mark.parametrize(
    ("scales", "sigma", "delta"),
    mostly_slow(
        [
            ([(1.0, 10), (3.0, 7)], 10.0, 1e-6),
            ([(2.0, 40)], 4.0, 1e-12),
            ([(5.0, 900)], None, 1e-8),
            ([(20.0, 5000), (35.0, 800)], None, 1e-20),
        ]
    ),
)
def test_laplace_compositions_hold_long_arithmetic(
    scales: list[tuple[float, int]], sigma: float | None, delta: float
) -> None:
    composition: list[tuple[Event, int]] = [
        (Laplace(noise_multiplier=b), count) for b, count in scales
    ]
    if sigma:
        composition.append((Gaussian(noise_multiplier=sigma), 1))
    found = epsilon_interval(composition, delta=delta)
    assert found.upper - found.lower < 1e-9 * found.upper
    c = -0.8 * math.log(delta) / found.upper
    x = 4 * found.upper + 60 / c
    low, high = (laplace_reference(scales, sigma, e, c=c, x=x) for e in found)
    assert low >= delta * (1 - 1e-14)
    assert high <= delta * (1 + 1e-14)


def test_many_equal_laplace_steps_approach_their_gaussian() -> None:
    count = 10**12
    found = epsilon_interval([(Laplace(noise_multiplier=1e6), count)], delta=1e-5)
    limit = epsilon_interval([(Gaussian(noise_multiplier=1e6), count)], delta=1e-5)
    assert found.upper - found.lower < 1e-10 * found.upper
    assert found.upper == pytest.approx(limit.upper, rel=1e-6)


def test_different_laplace_scales_count_together() -> None:
    draw = random.Random(5)
    scales = [(10 * 20 ** draw.random(), 1) for _ in range(1000)]
    found = epsilon_interval([(Laplace(noise_multiplier=b), n) for b, n in scales], delta=1e-6)
    assert found.upper - found.lower < 1e-6 * found.upper
    split = [(Laplace(noise_multiplier=b), n) for b, n in reversed(scales)]
    again = epsilon_interval(split, delta=1e-6)
    assert again.lower <= found.upper
    assert found.lower <= again.upper


def test_infinite_losses_enter_exactly() -> None:
    parts: list[tuple[Event, int]] = [
        (Approximate(epsilon=0.1, delta=1e-9), 100),
        (Gaussian(noise_multiplier=5.0), 10),
    ]
    found = epsilon_interval(parts, delta=1e-6)
    infinite = 1 - (1 - MP.mpf("1e-9")) ** 100
    left = float((MP.mpf("1e-6") - infinite) / (1 - infinite))
    finite: list[tuple[Event, int]] = [(Pure(epsilon=0.1), 100), parts[1]]
    alone = epsilon_interval(finite, delta=left)
    assert found.upper == pytest.approx(alone.upper, rel=1e-12)
    assert epsilon_interval(parts, delta=0.99e-7).upper == math.inf
    least = delta_interval(parts, epsilon=50.0)
    assert least.lower >= float(infinite) * (1 - 1e-12)
    assert least.upper == pytest.approx(float(infinite), rel=1e-9)


def test_without_decay_the_interval_is_wide_but_valid() -> None:
    """Forty pure steps have a lattice loss: the engine claims no more than it can prove."""
    composition: list[tuple[Event, int]] = [(Pure(epsilon=0.2), 40)]
    top = 1 / (1 + MP.exp(MP.mpf("-0.2")))
    found = epsilon_interval(composition, delta=1e-6)

    def truth(epsilon: float) -> Any:
        total = MP.mpf(0)
        for k in range(41):
            loss = MP.mpf("0.2") * (40 - 2 * k)
            mass = MP.binomial(40, k) * top ** (40 - k) * (1 - top) ** k
            total += mass * max(MP.mpf(0), 1 - MP.exp(MP.mpf(epsilon) - loss))
        return total

    assert truth(found.upper) <= 1e-6
    assert found.lower == 0 or truth(found.lower) >= 1e-6


def test_compositions_are_flattened_and_whole_samples_are_none() -> None:
    step = Gaussian(noise_multiplier=2.0)
    nested = (step * 3 + Laplace(noise_multiplier=4.0)) * 2
    flat: list[tuple[Event, int]] = [(step, 6), (Laplace(noise_multiplier=4.0), 2)]
    assert epsilon_interval([(nested, 1)], delta=1e-5) == epsilon_interval(flat, delta=1e-5)
    whole = [(step.poisson_sampled(rate=1.0), 4)]
    assert epsilon_interval(whole, delta=1e-5) == epsilon_interval([(step, 4)], delta=1e-5)
    assert epsilon_interval([], delta=1e-5) == (0.0, 0.0)
    assert delta_interval([], epsilon=0.0) == (0.0, 0.0)


def test_refuses_what_it_cannot_price() -> None:
    with pytest.raises(UnsupportedEvent):
        epsilon_interval([(DiscreteGaussian(sigma=2.0, sensitivity=2.0), 1)], delta=1e-5)
    with pytest.raises(UnsupportedEvent):
        epsilon_interval([(Pure(epsilon=1.0).shuffled(count=5), 1)], delta=1e-5)
