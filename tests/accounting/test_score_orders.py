"""Lower ends of private selection, against enumerated and drawn runs, and all orders of scores."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats
from tests.support.cases import in_subtests
from tests.support.planting import plant

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.accounting.pld import selection
from unacorda.accounting.pld.parts import curve_of_any
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
)
from unacorda.privacy.neighbors import AddRemove

Floats = NDArray[np.float64]
FIRST = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)]
SECOND = [Fraction(1, 4), Fraction(3, 10), Fraction(9, 20)]


def geometric(stop: Fraction, most: int) -> list[float]:
    return [float(stop) * float(1 - stop) ** (k - 1) for k in range(1, most + 1)]


def best_of_runs(law: list[Fraction], ranks: tuple[int, ...], stop: Fraction) -> Floats:
    """The law of the best output of runs, run by run: the best of k + 1 is the better of both."""
    one = np.array([float(p) for p in law])
    wins = np.array([[rank > other for other in ranks] for rank in ranks])  # of the best before
    best, found = one, np.zeros(len(law))
    for chance in geometric(stop, 400):
        found = found + chance * best
        best = best * (wins @ one) + one * ((~wins).T @ best)
    return found


def of_outputs(masses: Floats, p: Floats, q: Floats) -> list[float]:
    """The sums of the parts into which the masses of outputs are cut; the last one is whole."""
    parts = np.maximum(np.ceil(np.maximum(p, q) * 256), 1).astype(int)
    ends = np.append(0, np.cumsum(parts))
    return [float(masses[i:j].sum()) for i, j in itertools.pairwise(ends)]


@in_subtests("stop", [Fraction(3, 5), Fraction(9, 10)])
def test_masses_are_those_of_enumerated_runs(stop: Fraction) -> None:
    """Of outputs with the losses 0 and log 2, and a third that wins over both."""
    runs = selection._negative_binomial(1.0, float(stop))
    p, q = (np.array([float(law[i]) for i in (1, 0)]) for law in (FIRST, SECOND))
    found = selection._best_run(np.log(p / q), p, q, 0.0, runs)
    assert found is not None
    for law, masses in zip((FIRST, SECOND), found[:2], strict=True):
        truth = best_of_runs(law, (1, 0, 2), stop)
        sums = [*of_outputs(masses, p, q), float(masses[-2])]
        assert sums == pytest.approx([truth[i] for i in (1, 0, 2)], rel=1e-12)


def test_poisson_masses_are_those_of_enumerated_runs() -> None:
    mean = 2.5
    runs = selection._poisson(mean)
    p, q = np.array([0.3, 0.5]), np.array([0.3, 0.25])
    found = selection._best_run(np.log(p / q), p, q, 0.0, runs)
    assert found is not None
    for law, masses in zip((p, q), found[:2], strict=True):
        below = np.array([0.0, law[0], law[0] + law[1], 1.0])
        truth = np.zeros(3)
        for k in range(1, 60):
            truth += stats.poisson.pmf(k, mean) * np.diff(below**k)
        sums = [*of_outputs(masses, p, q), float(masses[-3])]
        assert sums == pytest.approx(truth, rel=1e-10)
        assert masses[-1] == pytest.approx(math.exp(-mean), rel=1e-12)


@in_subtests(
    "event",
    [
        PoissonTries(event=Gaussian(noise_multiplier=1), mean=2.5, most=4),
        NegativeBinomialTries(event=Gaussian(noise_multiplier=1), shape=0, stop=0.2, most=3),
        NegativeBinomialTries(event=Gaussian(noise_multiplier=1), shape=-0.5, stop=0.1, most=7),
    ],
)
def test_masses_under_a_cap_are_those_of_enumerated_runs(event: Any) -> None:
    most = int(event.most)
    if isinstance(event, PoissonTries):
        chances = stats.poisson.pmf(np.arange(most + 1), float(event.mean))
    else:
        k, eta = np.arange(1, most + 1), float(event.shape)
        grown = special.gamma(k + eta) / special.factorial(k)
        chances = np.append(0.0, grown * (1 - float(event.stop)) ** k)
    chances = chances / chances.sum()
    runs = selection._runs_of(event)
    assert runs is not None
    own = np.array([0.2, 0.05, 0.6, 0.15])
    above = np.append(np.cumsum(own[:0:-1])[::-1], 0.0)
    below = np.append(0.0, np.cumsum(own))
    truth = np.diff([float(np.sum(chances * x ** np.arange(len(chances)))) for x in below])
    assert runs.masses(above, own) == pytest.approx(truth, rel=1e-12)
    assert runs.none == pytest.approx(chances[0], abs=1e-15)


@pytest.mark.long
@in_subtests("stop", [Fraction(1, 20), Fraction(1, 2)])
@in_subtests("epsilon", [0.3, 1.5])
def test_no_order_of_few_scores_is_above_the_upper_end(stop: Fraction, epsilon: float) -> None:
    """Of a run with four outputs, two of each sign: all orders, ties left out."""
    local = 0.5
    weights = [Fraction(w, 10) for w in (3, 7)]
    high = Fraction(math.exp(local) / (1 + math.exp(local)))
    first = [high * w for w in weights] + [(1 - high) * w for w in weights]
    second = [(1 - high) * w for w in weights] + [high * w for w in weights]
    event = NegativeBinomialTries(event=Pure(epsilon=local), shape=1, stop=stop)
    found = delta_interval(event, epsilon=Fraction(epsilon))
    most = 0.0
    for ranks in itertools.permutations(range(4)):
        laws = [best_of_runs(law, ranks, stop) for law in (first, second)]
        for one, two in itertools.permutations(laws):
            most = max(most, float(np.maximum(one - math.exp(epsilon) * two, 0).sum()))
    assert most <= found.upper + 1e-9
    if stop >= Fraction(1, 2):
        assert found.lower >= most * 0.9


def drawn_best(
    drawn: np.random.Generator, shift: float, start: float, stop: float, rounds: int
) -> Floats:
    """Noise of the best of a geometric number of runs: high wins, but low wins over all."""
    counts = drawn.geometric(stop, size=rounds)
    best = np.full(rounds, np.nan)
    score = np.full(rounds, -math.inf)
    for k in range(1, counts.max() + 1):
        live = counts >= k
        x = drawn.normal(shift, 1, size=rounds)
        own = np.where(x < start, 1e9 - x, x)
        better = live & (own > score)
        best, score = np.where(better, x, best), np.where(better, own, score)
    return best


@pytest.mark.long
def test_drawn_runs_exceed_the_share_of_the_attained_pair() -> None:
    """300,000 rounds, 5 errors: a false alarm has a probability below 1e-6."""
    noise, stop, start, rounds = 1.5, 0.3, 0.2, 300_000
    event = NegativeBinomialTries(event=Gaussian(noise_multiplier=noise), shape=1, stop=stop)
    drawn = np.random.default_rng(3)
    first = drawn_best(drawn, 1 / noise, start, stop, rounds)
    second = drawn_best(drawn, 0.0, start, stop, rounds)
    epsilon = 0.8
    one = delta_interval(Gaussian(noise_multiplier=noise), epsilon=Fraction("0.8")).upper
    places = np.linspace(start, 3, 60)
    gaps = [np.mean(first >= c) - math.exp(epsilon) * np.mean(second >= c) for c in places]
    at = places[int(np.argmax(gaps))]
    hits = [np.mean(drawn_best(drawn, m, start, stop, rounds) >= at) for m in (1 / noise, 0.0)]
    gap = hits[0] - math.exp(epsilon) * hits[1]
    error = 5 * math.sqrt((hits[0] + math.exp(2 * epsilon) * hits[1]) / rounds)
    found = delta_interval(event, epsilon=Fraction("0.8"))
    assert one * 1.5 < gap  # one run alone shows much less
    assert gap - error <= found.upper
    assert found.lower <= found.upper
    assert found.lower >= 0.85 * (gap - error)


EVENTS: list[Event] = [
    NegativeBinomialTries(event=Pure(epsilon=0.3), shape=0, stop=0.05),
    NegativeBinomialTries(event=Laplace(noise_multiplier=3), shape=1, stop=0.1),
    NegativeBinomialTries(event=Gaussian(noise_multiplier=3), shape=0.5, stop=0.1),
    NegativeBinomialTries(event=RandomizedResponse(epsilon=0.5, categories=2), shape=1, stop=0.2),
    NegativeBinomialTries(event=DiscreteLaplace(scale=4, sensitivity=1), shape=-0.5, stop=0.1),
    PoissonTries(event=Gaussian(noise_multiplier=4), mean=6),
    PoissonTries(event=Laplace(noise_multiplier=4), mean=6),
]


@pytest.mark.long
@in_subtests("event", EVENTS)
def test_the_ends_are_near(event: Event) -> None:
    found = epsilon_interval(event, delta=1e-6)
    assert found.lower <= found.upper <= found.lower * 1.1


def test_a_mass_that_shows_everything_stays() -> None:
    event = NegativeBinomialTries(event=Approximate(epsilon=0.5, delta=1e-4), shape=1, stop=0.1)
    found = delta_interval(event, epsilon=3)
    failed = 1e-3 / (1 + 9e-4)  # 1 - f(1 - 1e-4), about: a run fails
    assert found.lower <= found.upper
    assert failed * 0.9 <= found.lower


@pytest.mark.long
@in_subtests(
    "event",
    [
        PoissonTries(event=Gaussian(noise_multiplier=4), mean=6, most=9999),
        PoissonTries(event=Gaussian(noise_multiplier=4), mean=10**5),
        NegativeBinomialTries(event=Gaussian(noise_multiplier=4), shape=1, stop=1),
        NegativeBinomialTries(event=Gaussian(noise_multiplier=4), shape=1e-9, stop=0.5),
    ],
)
def test_other_laws_keep_the_lower_end_of_one_run(event: Any) -> None:
    run = curve_of_any(event.event, direction="remove", neighbors=AddRemove)
    assert selection.curve_of_best_order(event, run) is None
    found, one = (epsilon_interval(e, delta=1e-5) for e in (event, event.event))
    assert one.lower * 0.9 <= found.lower <= found.upper


def test_compositions_have_the_pair_in_every_release() -> None:
    one = NegativeBinomialTries(event=Laplace(noise_multiplier=20), shape=1, stop=0.2)
    found = epsilon_interval(one * 8, delta=1e-6)
    alone = epsilon_interval(Laplace(noise_multiplier=20) * 8, delta=1e-6)
    assert alone.upper * 1.3 < found.lower <= found.upper


def test_a_planted_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than there are: the lower end passes the upper one, or what is enumerated."""
    right = selection._negative_binomial
    plant(monkeypatch, right, lambda shape, stop: right(shape, stop / 4))
    event = NegativeBinomialTries(event=Pure(epsilon=0.31), shape=1, stop=0.2)
    run = curve_of_any(event.event, direction="remove", neighbors=AddRemove)
    pair = selection.curve_of_best_order(event, run)
    assert pair is not None
    pure = 0.31 + 2 * math.log((math.exp(0.31) + 0.2) / (1 + 0.2 * math.exp(0.31)))
    assert float(pair(np.asarray(pure)).lower) > 0
