"""Which law dominates which event: finite laws and laws between edges, whole and on samples."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from tests.accounting import by_grids
from tests.accounting.by_contours import delta_interval, epsilon_interval
from tests.accounting.long_contours import MP, Points, boole, convolved, holds, mixed, own
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting.contour.engine import Directions
from unacorda.accounting.laws import (
    Edged,
    Finite,
    of_discrete_laplace,
    of_staircase,
    of_truncated_laplace,
)
from unacorda.accounting.rules.base import law_of, rules_of
from unacorda.balls import ball
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    Staircase,
    TruncatedLaplace,
)

BOTH: tuple[Directions, Directions] = ("remove", "add")


def gaussian_tail(mu: Any, e: Any) -> Any:
    """E (1 - exp(e - L))_+ of a Gaussian loss, for e of either sign."""
    return MP.ncdf(mu / 2 - e / mu) - MP.exp(e) * MP.ncdf(-mu / 2 - e / mu)


def beside(atoms: Points, mu: Any, epsilon: float) -> Any:
    """delta of an enumerated law together with one Gaussian pair."""
    return MP.fsum(mass * gaussian_tail(mu, MP.mpf(epsilon) - loss) for mass, loss in atoms)


# -------------------------------------------------------- pairs of masses, straight from the noise


def coins(epsilon: float) -> list[tuple[Any, Any]]:
    top = 1 / (1 + MP.exp(-MP.mpf(epsilon)))
    return [(top, 1 - top), (1 - top, top)]


def response(epsilon: float, categories: int) -> list[tuple[Any, Any]]:
    truth, lie = MP.exp(MP.mpf(epsilon)), MP.mpf(1)
    total = truth + categories - 1
    rest = [(lie / total, lie / total)] * (categories - 2)
    return [(truth / total, lie / total), (lie / total, truth / total), *rest]


def lattice(weight: Callable[[int], Any], shift: int, reach: int) -> list[tuple[Any, Any]]:
    table = {x: weight(x) for x in range(-reach - shift, reach + shift + 1)}
    total = MP.fsum(table.values())
    return [(table[x - shift] / total, table[x] / total) for x in range(-reach, reach + shift + 1)]


def geometric(scale: float, shift: int) -> list[tuple[Any, Any]]:
    """Both tails, where the loss is constant, in one atom each."""
    ratio = MP.exp(-1 / MP.mpf(scale))

    def law(x: int) -> Any:
        return ratio ** abs(x) * (1 - ratio) / (1 + ratio)

    inner = [(law(x - shift), law(x)) for x in range(1, shift)]
    whole = 1 / (1 + ratio)
    return [(whole * ratio**shift, whole), (whole, whole * ratio**shift), *inner]


def staircase(epsilon: float, split: float, shift: Any) -> list[tuple[Any, Any]]:
    """Staircase noise against its shift, piece by piece of equal densities."""
    b, g, d = MP.exp(-MP.mpf(epsilon)), MP.mpf(str(split)), MP.mpf(str(shift))
    height = (1 - b) / (2 * (g + b * (1 - g)))

    def level(x: Any) -> Any:
        return MP.mpf(0) if abs(x) < g else MP.floor(abs(x) - g) + 1

    steps = 90
    cuts = sorted(
        {sign * (g + k) + move for sign in (-1, 1) for k in range(steps) for move in (0, d)}
    )
    found = []
    for left, right in itertools.pairwise(cuts):
        middle, length = (left + right) / 2, right - left
        if length > 1e-30:
            found.append(
                (length * height * b ** level(middle - d), length * height * b ** level(middle))
            )
    return found


ENUMERATED: list[tuple[Event, list[tuple[Any, Any]]]] = [
    (RandomizedResponse(epsilon=1.0, categories=4), response(1.0, 4)),
    (DiscreteLaplace(scale=2, sensitivity=1), geometric(2, 1)),
    (DiscreteLaplace(scale=2, sensitivity=3), geometric(2, 3)),
    (
        DiscreteGaussian(sigma=1, sensitivity=1),
        lattice(lambda x: MP.exp(-(MP.mpf(x) ** 2) / 2), 1, 13),
    ),
    (Staircase(epsilon=0.75, split=0.25), staircase(0.75, 0.25, 1)),
    (Staircase(epsilon=0.75, split=0.875), staircase(0.75, 0.875, 1)),
]
NAMES = [str(event)[:40] for event, _ in ENUMERATED]


def joined(points: Points) -> Points:
    """Equal losses in one atom."""
    return convolved([points])


@pytest.mark.parametrize(("event", "pairs"), ENUMERATED, ids=NAMES)
def test_finite_laws_beside_a_gaussian_against_enumeration(
    event: Event, pairs: list[tuple[Any, Any]]
) -> None:
    atoms = convolved([joined(own(pairs))] * 2)
    mu = MP.mpf(1) / 2
    for delta in (1e-3, 1e-9):
        found = epsilon_interval([(event, 2), (Gaussian(noise_multiplier=2.0), 1)], delta=delta)
        assert beside(atoms, mu, found.upper) <= delta * (1 + MP.mpf(10) ** -17)
        assert beside(atoms, mu, found.lower) >= delta * (1 - MP.mpf(10) ** -17)
        assert found.upper - found.lower < 1e-9 * found.upper


@pytest.mark.parametrize("direction", mostly_slow(BOTH, quick=7))
@in_subtests(("event", "pairs"), ENUMERATED, ids=NAMES)
def test_sampled_finite_laws_beside_a_gaussian_against_enumeration(
    event: Event, pairs: list[tuple[Any, Any]], direction: Directions
) -> None:
    atoms = convolved([joined(mixed(pairs, 0.25, remove=direction == "remove"))] * 2)
    steps: list[tuple[Event, int]] = [
        (event.poisson_sampled(rate=0.25), 2),
        (Gaussian(noise_multiplier=2.0), 1),
    ]
    mu = MP.mpf(1) / 2
    for delta in (1e-3, 1e-9):
        found = epsilon_interval(steps, delta=delta, directions=direction)
        assert beside(atoms, mu, found.upper) <= delta * (1 + MP.mpf(10) ** -17)
        assert beside(atoms, mu, found.lower) >= delta * (1 - MP.mpf(10) ** -17)
        assert found.upper - found.lower < 1e-9 * found.upper


@pytest.mark.parametrize("direction", BOTH)
def test_a_composition_inside_a_sample_is_one_law(direction: Directions) -> None:
    inside = Pure(epsilon=0.5) * 2 + RandomizedResponse(epsilon=1.0, categories=3)
    pairs = [
        (a * b * c, x * y * z)
        for (a, x), (b, y), (c, z) in itertools.product(coins(0.5), coins(0.5), response(1.0, 3))
    ]
    atoms = convolved([joined(mixed(pairs, 0.25, remove=direction == "remove"))] * 2)
    # a sample of half of a sample of half
    event = inside.poisson_sampled(rate=0.5).poisson_sampled(rate=0.5)
    found = epsilon_interval(
        [(event, 2), (Gaussian(noise_multiplier=2.0), 1)], delta=1e-6, directions=direction
    )
    assert beside(atoms, MP.mpf(1) / 2, found.upper) <= 1e-6
    assert beside(atoms, MP.mpf(1) / 2, found.lower) >= 1e-6
    assert found.upper - found.lower < 1e-9 * found.upper


def test_gaussians_on_one_sample_are_one_gaussian() -> None:
    together = Gaussian(noise_multiplier=3.0) + Gaussian(noise_multiplier=4.0)
    one = Gaussian(noise_multiplier=2.4)  # 1/9 + 1/16 = 1/2.4^2
    first = epsilon_interval([(together.poisson_sampled(rate=0.05), 300)], delta=1e-6)
    second = epsilon_interval([(one.poisson_sampled(rate=0.05), 300)], delta=1e-6)
    assert first.lower <= second.upper
    assert second.lower <= first.upper
    assert first.upper == pytest.approx(second.upper, rel=1e-11)


@pytest.mark.parametrize("direction", BOTH)
def test_a_sampled_failure_is_an_infinite_loss_in_one_direction_only(direction: Directions) -> None:
    """An (epsilon, delta) step on a sample: enumeration with the shown outcomes written out."""
    rate, fail, count = 0.25, 0.0625, 3
    pairs = [((1 - fail) * p, (1 - fail) * q) for p, q in coins(0.5)]
    pairs += [(MP.mpf(fail), MP.mpf(0)), (MP.mpf(0), MP.mpf(fail))]
    r = MP.mpf(rate)
    both = [(r * p + (1 - r) * q, q) for p, q in pairs]
    both = both if direction == "remove" else [(q, p) for p, q in both]
    infinite = MP.fsum(p for p, q in both if q == 0)
    finite = convolved([own(both)] * count)
    failed = 1 - (1 - infinite) ** count
    steps: list[tuple[Event, int]] = [
        (Approximate(epsilon=0.5, delta=fail).poisson_sampled(rate=rate), count),
        (Gaussian(noise_multiplier=2.0), 1),
    ]
    for epsilon in (0.25, 1.5, 3.0):
        truth = failed + beside(finite, MP.mpf(1) / 2, epsilon)
        found = delta_interval(steps, epsilon=epsilon, directions=direction)
        assert found.lower <= truth * (1 + MP.mpf(10) ** -20)
        assert truth <= found.upper * (1 + MP.mpf(10) ** -20)
        assert found.upper - found.lower < 1e-8 * found.upper


# ----------------------------------------------------------------------- laws between two edges


def cut_laplace(scale: float, bound: float) -> Callable[[Any], Any]:
    b, a = MP.mpf(scale), MP.mpf(bound)
    whole = 2 * b * (1 - MP.exp(-a / b))
    return lambda x: MP.exp(-abs(x) / b) / whole if abs(x) <= a else MP.mpf(0)


def cut_pairs(scale: float, bound: float) -> tuple[list[tuple[Any, Any]], Any]:
    """Masses of cut Laplace noise and its shift where both may occur, and the rest of P."""
    law, a, b = cut_laplace(scale, bound), MP.mpf(bound), MP.mpf(scale)
    if bound >= 1:
        ends = [MP.mpf(0), MP.mpf(1)]
        near = (1 - MP.exp(-(a - 1) / b)) / (2 * (1 - MP.exp(-a / b)))
        atoms = [] if bound == 1 else [(near, near * MP.exp(-1 / b)), (near * MP.exp(-1 / b), near)]
    else:
        ends, atoms = [1 - a, a], []
    pairs = atoms + boole(lambda x: law(x - 1), law, ends, 400)
    return pairs, 1 - MP.fsum(p for p, _ in pairs)


@pytest.mark.parametrize("bound", [0.75, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_law_of_truncated_laplace_noise(scale: float, bound: float) -> None:
    law = law_of(TruncatedLaplace(noise_multiplier=scale, bound=bound), reach=10)
    assert isinstance(law, Edged)
    pairs, infinite = cut_pairs(scale, bound)
    assert abs(law.infinite - infinite) < 1e-13
    for s in (0.5, 3.0):
        plain = MP.fsum(p * (p / q) ** s for p, q in pairs) / (1 - infinite)
        v, power = MP.mpf(law.edge.numerator) / law.edge.denominator, MP.mpf(s)
        inner = (MP.exp(power * v) - MP.exp(-(power + 1) * v)) / (2 * power + 1)
        found = law.atom * (MP.exp(power * v) + MP.exp(-(power + 1) * v)) + law.inner * inner
        assert abs(found / plain - 1) < 1e-11


@pytest.mark.parametrize("direction", mostly_slow(BOTH))
@pytest.mark.parametrize("bound", mostly_slow([0.9375, 30.0]))
def test_truncated_laplace_on_samples_holds_long_sums(bound: float, direction: Directions) -> None:
    scale, rate, count = 2.0, 0.0625, 1000
    pairs, infinite = cut_pairs(scale, bound)
    r = MP.mpf(rate)
    both = [(r * p + (1 - r) * q, q) for p, q in pairs] + [((1 - r) * infinite, infinite)]
    failed = MP.mpf(0)
    if direction == "remove":
        failed = 1 - (1 - r * infinite) ** count
    else:
        both = [(q, p) for p, q in both]
    step = TruncatedLaplace(noise_multiplier=scale, bound=bound).poisson_sampled(rate=rate)
    delta = 1e-4
    if failed > delta:
        found = by_grids.epsilon_interval([(step, count)], delta=delta, directions=direction)
        assert found.upper == math.inf
        return
    left = (MP.mpf(delta) - failed) / (1 - failed)
    law = [(p / (1 - failed) ** (MP.mpf(1) / count), loss) for p, loss in own(both)]
    found = by_grids.epsilon_interval([(step, count)], delta=delta, directions=direction)
    assert found.upper - found.lower < 1e-4 * max(found.upper, 1.0)
    assert holds(found, [(law, count)], float(left))


@pytest.mark.long
def test_truncated_noise_whole_holds_long_sums() -> None:
    pairs, infinite = cut_pairs(3.0, 40.0)
    steps: list[tuple[Event, int]] = [(TruncatedLaplace(noise_multiplier=3.0, bound=40.0), 600)]
    failed = 1 - (1 - infinite) ** 600
    left = float((MP.mpf("1e-3") - failed) / (1 - failed))
    found = by_grids.epsilon_interval(steps, delta=1e-3)
    assert holds(found, [([(p / (1 - infinite), loss) for p, loss in own(pairs)], 600)], left)
    assert by_grids.epsilon_interval(steps, delta=0.99 * float(failed)).upper == math.inf


def ranged(length: float, pieces: int = 400) -> list[tuple[Any, Any]]:
    """The pair whose profile is the supremum over coins: losses z, masses from -d(delta)."""
    r = MP.mpf(length)
    scale = 2 * (1 - MP.exp(-r))
    return boole(
        lambda z: MP.exp((z - r) / 2) / scale,
        lambda z: MP.exp(-(z + r) / 2) / scale,
        [-r, r],
        pieces,
    )


@pytest.mark.long
def test_the_law_of_bounded_range_has_the_largest_profile_of_coins() -> None:
    pairs = ranged(2.0)
    for epsilon in (-1.5, -0.25, 0.0, 0.5, 1.75):
        law = MP.fsum(max(p - MP.exp(MP.mpf(epsilon)) * q, MP.mpf(0)) for p, q in pairs)
        best = max(
            1 / (1 + MP.exp(-y - 2)) - MP.exp(MP.mpf(epsilon)) / (1 + MP.exp(-y))
            for y in [MP.mpf(k) / 200 for k in range(-1600, 1200)]
        )
        best = max(best, 1 - MP.exp(MP.mpf(epsilon)), MP.mpf(0))
        assert abs(law - best) < 2e-5


@pytest.mark.long
@pytest.mark.parametrize("direction", mostly_slow(BOTH))
def test_bounded_ranges_on_samples_hold_long_sums(direction: Directions) -> None:
    rate, count, delta = 0.125, 2000, 1e-6
    step = Exponential(epsilon=0.5).poisson_sampled(rate=rate)
    law = mixed(ranged(0.5), rate, remove=direction == "remove")
    found = by_grids.epsilon_interval([(step, count)], delta=delta, directions=direction)
    assert holds((found.upper * (1 - 1e-3), found.upper), [(law, count)], delta)


# ------------------------------------------------------------------------------------ domination


def stick(pairs: list[tuple[Any, Any]], ratio: Any) -> Any:
    return sum(max(p - ratio * q, 0 * p) for p, q in pairs)


@pytest.mark.parametrize("numerator", [1, 2, 3])
def test_one_coordinate_of_discrete_laplace_noise_dominates_several(numerator: int) -> None:
    """Exactly, at every kink of both profiles, which are linear in e^epsilon in between."""
    a = Fraction(numerator, 4)

    def pairs(shift: int) -> list[tuple[Fraction, Fraction]]:
        whole = 1 / (1 + a)
        inner = [
            (whole * (1 - a) * a ** (shift - x), whole * (1 - a) * a**x) for x in range(1, shift)
        ]
        return [(whole, whole * a**shift), (whole * a**shift, whole), *inner]

    for first, second in itertools.product(range(1, 5), repeat=2):
        split = [
            (p * r, q * s) for (p, q), (r, s) in itertools.product(pairs(first), pairs(second))
        ]
        together = pairs(first + second)
        smaller = pairs(first)
        for ratio in {p / q for p, q in split} | {p / q for p, q in together}:
            assert stick(split, ratio) <= stick(together, ratio)
            assert stick(smaller, ratio) <= stick(together, ratio)


@pytest.mark.long
@pytest.mark.parametrize("split", mostly_slow([0.0, 0.25, 0.5, 0.75, 1.0], quick=2))
def test_the_full_shift_of_a_staircase_is_the_worst(split: float) -> None:
    event = Staircase(epsilon=0.75, split=split)
    law = rules_of(event).law(event, reach=0)
    assert isinstance(law, Finite)
    top = float(law.masses[Fraction(3, 4)])
    for ratio in (0.5, 1.0, 1.5, 2.0):
        own_law = [(top, top * math.exp(-0.75)), (top * math.exp(-0.75), top)]
        rest = 1 - top * (1 + math.exp(-0.75))
        worst = stick([*own_law, (rest, rest)], ratio)
        full = stick(staircase(0.75, split, 1), ratio)
        assert abs(worst - full) < 1e-13
        for shift in (0.125, 0.5, 0.8125):
            assert stick(staircase(0.75, split, shift), ratio) <= worst + 1e-13
    assert max(law.masses) == Fraction(3, 4)


@pytest.mark.long
@pytest.mark.parametrize("bound", [0.5, pytest.param(0.75, marks=pytest.mark.slow), 2.0])
def test_the_full_shift_of_truncated_noise_is_the_worst(bound: float) -> None:
    noise = cut_laplace(1.0, bound)
    grid = [MP.mpf(k) / 400 for k in range(-1200, 1600)]

    def at(shift: Any, ratio: Any) -> Any:
        return MP.fsum(max(noise(x - shift) - ratio * noise(x), 0) for x in grid) / 400

    for ratio in (1.0, 1.25, 2.0):
        worst = at(1, ratio)
        assert all(at(MP.mpf(d) / 8, ratio) <= worst + 2e-3 for d in range(1, 8))


# ---------------------------------------------------------------------------- edges and refusals


def test_what_moves_by_nothing_costs_nothing() -> None:
    still: list[tuple[Event, int]] = [
        (DiscreteLaplace(scale=1, sensitivity=0.5), 3),
        (DiscreteGaussian(sigma=1, sensitivity=0.5), 3),
        (Exponential(epsilon=0), 2),
    ]
    assert epsilon_interval(still, delta=1e-5) == (0.0, 0.0)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(sigma=1e4, sensitivity=1),
        DiscreteLaplace(scale=1e6, sensitivity=10**6),
        (Pure(epsilon=1.0) * 10**6).poisson_sampled(rate=0.5),
        Approximate(epsilon=1.0, delta=1).poisson_sampled(rate=0.5),
    ],
    ids=lambda event: str(event)[:50],
)
def test_extremes_give_valid_intervals(event: Event) -> None:
    found = epsilon_interval([(event, 3)], delta=1e-5)
    assert 0 <= found.lower <= found.upper
    at = delta_interval([(event, 3)], epsilon=1.0)
    assert 0 <= at.lower <= at.upper <= 1


def test_refuses_what_has_no_law() -> None:
    for event in (
        DiscreteGaussian(sigma=2, sensitivity=2),
        (Laplace(noise_multiplier=1.0) + Pure(epsilon=1.0)).poisson_sampled(rate=0.5),
        Gaussian(noise_multiplier=1.0).fixed_size_sampled(size=1, population=2),
    ):
        with pytest.raises(UnsupportedEvent):
            epsilon_interval([(event, 1)], delta=1e-5)


_SMALL = Fraction(1, 10**80)


@pytest.mark.parametrize(
    "law",
    [
        of_discrete_laplace(_SMALL, 2),
        of_staircase(Fraction(1), Fraction(1, 2) + _SMALL),
        of_staircase(Fraction(1), Fraction(1, 2) - _SMALL),
    ],
)
def test_masses_of_rare_losses_keep_their_digits(law: Finite) -> None:
    assert all(mass.rel_accuracy_bits() > 100 for mass in law.masses.values())
    assert abs(sum(law.masses.values(), ball(0)) - 1) < 1e-60


@pytest.mark.parametrize("bound", [Fraction(2), Fraction(2, 3)])
def test_masses_of_wide_truncated_noise_keep_their_digits(bound: Fraction) -> None:
    law = of_truncated_laplace(_SMALL, bound)
    assert law.infinite.rel_accuracy_bits() > 100
    assert law.inner.rel_accuracy_bits() > 100
