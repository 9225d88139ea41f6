"""Mechanisms with planted faults, each with the promise that it breaks and inputs to begin from."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, PureDP

__all__ = ["FAINT", "FAULTS", "SIGMA", "SOUND", "Planted"]

Drawn = np.random.Generator


@dataclass(frozen=True)
class Planted:
    """sample: from a generator, an input and a number to outputs."""

    sample: Callable[[Drawn, Any, int], Any]
    claim: Guarantee
    pairs: list[tuple[Any, Any]]
    vary: Callable[[Any, Drawn], Any] | None = None

    def bound_to(self, seed: int) -> Callable[[Any, int], Any]:
        drawn = np.random.default_rng(seed)
        return lambda x, n: self.sample(drawn, x, n)


COUNTS = [(np.array([3.0, 5.0, 2.0]), np.array([3.0, 6.0, 2.0]))]


def halved_scale(drawn: Drawn, x: Any, n: int) -> Any:
    return x + drawn.laplace(scale=0.5, size=n)


def off_by_two(drawn: Drawn, x: Any, n: int) -> Any:
    # A person is in two cells, and the noise is for one.
    return x + drawn.laplace(scale=1.0, size=(n, 2))


def no_threshold_noise(drawn: Drawn, x: Any, n: int) -> Any:
    # The sparse vector technique whose threshold is bare: each answer costs anew.
    noisy = x + drawn.laplace(scale=4.0, size=(n, len(x)))
    return (noisy >= 0).astype(float)


def floating_noise(drawn: Drawn, x: Any, n: int) -> Any:
    # Inverse sampling in float64, added to the answer: which numbers can come out tells it.
    u = drawn.random(n) - 0.5
    return x - np.sign(u) * np.log1p(-2 * np.abs(u))


def same_noise_twice(drawn: Drawn, x: Any, n: int) -> Any:
    return x + drawn.laplace(scale=1.0, size=(n, 1))


def doubled_scores(drawn: Drawn, x: Any, n: int) -> Any:
    # The exponential mechanism with exp(eps u) where exp(eps u / 2) is meant, scores not monotone.
    weights = np.exp(1.0 * x)
    return drawn.choice(len(x), size=n, p=weights / weights.sum())


def winner_with_its_noise(drawn: Drawn, x: Any, n: int) -> Any:
    # The largest noisy count, told with the very noise that chose it.
    noisy = x + drawn.laplace(scale=1.0, size=(n, len(x)))
    best = noisy.argmax(axis=1)
    return np.column_stack([best, noisy[np.arange(n), best]])


def response_of_two(drawn: Drawn, x: Any, n: int) -> Any:
    # The keeping probability of two categories, used for three.
    keep = math.e / (math.e + 1)
    other = (x + drawn.integers(1, 3, size=n)) % 3
    return np.where(drawn.random(n) < keep, x, other)


def missing_is_told(drawn: Drawn, x: Any, n: int) -> Any:
    # NaN passes the clip, and through the noise.
    return float(np.sum(np.clip(x, 0, 1))) + drawn.laplace(scale=1.0, size=n)


def error_when_empty(drawn: Drawn, x: Any, n: int) -> Any:
    if len(x) == 0:
        return ["no rows"] * n
    return [repr(round(value)) for value in len(x) + drawn.laplace(scale=1.0, size=n)]


def local_scale(drawn: Drawn, x: Any, n: int) -> Any:
    # Noise at the local sensitivity of the median.
    z = np.sort(x)
    middle = len(z) // 2
    gap = max(z[middle + 1] - z[middle], z[middle] - z[middle - 1])
    return z[middle] + gap * drawn.laplace(scale=1.0, size=n)


def unsound_test(drawn: Drawn, x: Any, n: int) -> Any:
    # Propose-test-release for a median with the distance until it moves by 1: not 1-Lipschitz.
    z = np.repeat([0.0, 0.6, 1.1], x)
    middle = len(z) // 2
    moved = np.flatnonzero(np.abs(z - z[middle]) > 1)
    distance = np.abs(moved - middle).min() if moved.size else len(z)
    passed = distance + drawn.laplace(scale=1.0, size=n) > math.log(1 / (2 * 1e-3))
    return np.where(passed, np.round(z[middle] + drawn.laplace(scale=1.0, size=n)), np.nan)


def analysts_sigma(drawn: Drawn, x: Any, n: int) -> Any:
    # sqrt(2 ln(1.25 / delta)) / epsilon, beyond epsilon 1 where it does not hold.
    sigma = math.sqrt(2 * math.log(1.25 / 0.1)) / 6.0
    return x + drawn.normal(scale=sigma, size=n)


def paid_once(drawn: Drawn, x: Any, n: int) -> Any:
    return x + drawn.normal(scale=1.0, size=(n, 4))


def sample_not_taken(drawn: Drawn, x: Any, n: int) -> Any:
    # Promised as if one in ten were sampled.
    return x + drawn.laplace(scale=1.0, size=n)


def thresholded_bare(drawn: Drawn, x: Any, n: int) -> Any:
    # A key appears as soon as one person has it.
    return [("a",) if x > 0 else ()] * n


def on_a_grid(values: Any) -> Any:
    return np.round(values * 2**20) / 2**20  # no floating-point noise that tells by itself


SIGMA = 3.7306316348
"""Of normal noise for (1, 1e-5): Balle and Wang 2018, by the analytic formula."""


def half_the_sigma(drawn: Drawn, x: Any, n: int) -> Any:
    return on_a_grid(x + drawn.normal(scale=SIGMA / 2, size=n))


def first_above_a_bare_threshold(drawn: Drawn, x: Any, n: int) -> Any:
    # Monotone queries, noise of scale 2 for half of epsilon; the other half is not spent.
    return (x + drawn.laplace(scale=2.0, size=(n, len(x))) >= 0).argmax(axis=1)


def seldom_without_noise(drawn: Drawn, x: Any, n: int) -> Any:
    noisy = on_a_grid(x + drawn.laplace(scale=1.0, size=n))
    return np.where(drawn.random(n) < 1e-3, x, noisy)


SEEDS = on_a_grid(np.random.default_rng(16).laplace(scale=1.0, size=1 << 16))


def few_seeds(drawn: Drawn, x: Any, n: int) -> Any:
    return x + SEEDS[drawn.integers(0, 1 << 16, size=n)]


def one_more(pair: Any, drawn: Drawn) -> Any:
    x = pair[0] + drawn.integers(-2, 3, size=len(pair[0]))
    return x, x + drawn.choice([-1.0, 1.0], size=len(x))


FAULTS = {
    "half the scale": Planted(halved_scale, PureDP(1), [(0.0, 1.0)]),
    "sensitivity off by two": Planted(off_by_two, PureDP(1), [(0.0, 1.0)]),
    "no threshold noise": Planted(
        no_threshold_noise, PureDP(1), [(np.zeros(40), np.zeros(40))], one_more
    ),
    "floating point": Planted(floating_noise, PureDP(1), [(0.0, 1.0)]),
    "noise used twice": Planted(
        same_noise_twice, PureDP(2), [(np.array([0.0, 0.0]), np.array([0.0, 1.0]))]
    ),
    "doubled scores": Planted(doubled_scores, PureDP(1), [(np.eye(20)[0], 1 - np.eye(20)[0])]),
    "winner with its noise": Planted(
        winner_with_its_noise, PureDP(1), [(np.zeros(3), np.array([1.0, -1.0, -1.0]))]
    ),
    "response of two": Planted(response_of_two, PureDP(1), [(0, 1), (0, 2)]),
    "missing is told": Planted(
        missing_is_told, PureDP(1), [(np.array([0.5]), np.array([0.5, math.nan]))]
    ),
    "error when empty": Planted(error_when_empty, PureDP(1), [(["a"], [])]),
    "local scale": Planted(
        local_scale,
        ApproxDP(1, 1e-3),
        [(np.array([0.0, 0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0, 1.0]))],
    ),
    "unsound test": Planted(unsound_test, ApproxDP(2, 1e-3), [([501, 1, 499], [500, 1, 500])]),
    "an approximate sigma": Planted(analysts_sigma, ApproxDP(6, 0.1 / 20), [(0.0, 1.0)]),
    "paid once": Planted(paid_once, GDP(1), [(0.0, 1.0)]),
    "no sample": Planted(sample_not_taken, PureDP(math.log1p(0.1 * math.expm1(1))), [(0.0, 1.0)]),
    "bare threshold": Planted(thresholded_bare, ApproxDP(5, 0.01), [(0, 1)]),
}


FAINT = {
    "half the sigma": Planted(half_the_sigma, ApproxDP(1, 1e-5), [(0.0, 1.0)]),
    "first above a bare threshold": Planted(
        first_above_a_bare_threshold, PureDP(1), [(np.zeros(40), np.ones(40))]
    ),
    "seldom without noise": Planted(seldom_without_noise, PureDP(1), [(0.0, 1.0)]),
    "a seed of 16 bits": Planted(few_seeds, PureDP(1), [(0.0, 1.0)]),
}
"""Faults that take as many samples as a search takes by itself."""

SOUND = {
    "Gaussian for (1, 1e-5)": Planted(
        lambda drawn, x, n: on_a_grid(x + drawn.normal(scale=SIGMA, size=n)),
        ApproxDP(1, 1e-5),
        [(0.0, 1.0)],
    ),
    "Laplace": Planted(
        lambda drawn, x, n: np.round((x + drawn.laplace(size=n)) * 64), PureDP(1), [(0.0, 1.0)]
    ),
    "Gaussian": Planted(
        lambda drawn, x, n: np.round((x + drawn.normal(size=n)) * 64), GDP(1), [(0.0, 1.0)]
    ),
    "exponential": Planted(
        lambda drawn, x, n: doubled_scores(drawn, np.asarray(x) / 2, n),
        PureDP(1),
        [(np.array([0.0, 1.0]), np.array([1.0, 0.0]))],
    ),
    "nothing": Planted(lambda drawn, x, n: drawn.normal(size=n), PureDP(0.05), [(0.0, 1.0)]),
}
