"""Questions that people put to an accountant, drawn from a seed: 420 realistic ones for each.

The draws of a family stand together, and their order is part of the file: one seed must always
give the same questions. What they were answered is kept by `golden_intervals.py` beside it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
    Staircase,
    TreeAggregation,
    TruncatedLaplace,
    ZeroConcentrated,
    compose,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["SEEDS", "Question", "questions"]

SEEDS = (20_261_123, 20_261_128)
"""Of the corpus and of its second draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. kind: its family; measure: what is asked for; at: the other of the two."""

    kind: str
    event: Event
    neighbors: Neighbors = AddRemove
    measure: Literal["epsilon", "delta"] = "epsilon"
    at: float


@cache
def questions(seed: int) -> tuple[Question, ...]:
    """All questions of a seed, in an order that is always the same."""
    drawn = _Drawn(seed)
    return (
        *_training(drawn),
        *_workloads(drawn),
        *_promises(drawn),
        *_sampled_sizes(drawn),
        *_shuffled(drawn),
        *_allocated(drawn),
        *_selected(drawn),
        *_correlated(drawn),
        *_other_noise(drawn),
    )


class _Drawn(random.Random):
    """A source of parameters as people write them: of three digits, even in their logarithm."""

    def number(self, low: float, high: float) -> float:
        return _written(math.exp(self.uniform(math.log(low), math.log(high))))

    def count(self, low: float, high: float) -> int:
        return max(1, round(math.exp(self.uniform(math.log(low), math.log(high)))))


def _written(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits}g}")


def _gaussian(multiplier: float, rate: float, steps: int) -> Event:
    return Gaussian(noise_multiplier=multiplier).poisson_sampled(rate=rate) * steps


def _training(r: _Drawn) -> Iterator[Question]:
    """DP-SGD: as it is published, in a box around that, in two phases, and with replacement."""
    for rate in (0.001, 0.004, 0.01, 0.02):
        for multiplier in (0.6, 0.8, 1.0, 1.5, 3.0):
            for steps in (500, 5000):
                event = _gaussian(multiplier, rate, steps)
                yield Question(kind="dpsgd-canonical", event=event, at=r.choice([1e-5, 1e-6, 1e-8]))
    for _ in range(80):
        rate, multiplier, steps = r.number(1e-5, 0.2), r.number(0.3, 10), r.count(1, 1e6)
        at = r.number(1e-12, 1e-3)
        yield Question(kind="dpsgd-box", event=_gaussian(multiplier, rate, steps), at=at)
    for _ in range(25):
        rate, multiplier, steps = r.number(1e-4, 0.1), r.number(0.5, 5), r.count(10, 1e5)
        event, at = _gaussian(multiplier, rate, steps), r.choice([0.5, 1, 2, 3, 5, 8])
        yield Question(kind="dpsgd-delta", event=event, measure="delta", at=at)
    for _ in range(15):
        phases = [
            _gaussian(r.number(0.6, 3), r.number(1e-3, 0.05), r.count(100, 1e4)) for _ in range(2)
        ]
        event = phases[0] + phases[1] + Gaussian(noise_multiplier=r.number(5, 50)) * r.count(1, 20)
        yield Question(kind="dpsgd-phases", event=event, at=r.choice([1e-5, 1e-6]))
    for _ in range(10):
        event = _gaussian(r.number(0.6, 5), r.number(1e-3, 0.05), r.count(10, 1e4))
        at = r.choice([1e-5, 1e-6])
        yield Question(kind="dpsgd-replace", event=event, neighbors=ReplaceOne, at=at)


def _parts(r: _Drawn, count: int, most: list[int], part: Callable[[], Event]) -> Event:
    """So many releases, in at most so many kinds."""
    kinds = min(count, r.choice(most))
    return compose([part() * max(1, count // kinds) for _ in range(kinds)])


def _asked(r: _Drawn, number: int, kind: str, event: Event, at: list[float]) -> Question:
    """Every fifth question is about delta."""
    if number % 5 == 4:
        return Question(kind=kind, event=event, measure="delta", at=r.choice([0.5, 1, 2, 4]))
    return Question(kind=kind, event=event, at=r.choice(at))


def _workloads(r: _Drawn) -> Iterator[Question]:
    """Answers to one to 10,000 queries, with noise that grows with their number."""
    families = ["laplace", "gauss", "dlap", "dgauss", "mixed", "mixed", "laplace-few", "dlap-few"]
    for number in range(70):
        count, family = r.count(1, 1e4), r.choice(families)

        def part(count: int = count, family: str = family) -> Event:
            one = r.choice(["laplace", "gauss", "dlap", "dgauss"]) if family == "mixed" else family
            spread = math.sqrt(count) * r.choice([0.5, 1, 2, 4]) * math.exp(r.uniform(-0.5, 0.5))
            scale = _written(max(spread, 0.5))
            match one.removesuffix("-few"):
                case "laplace":
                    return Laplace(noise_multiplier=scale)
                case "gauss":
                    return Gaussian(noise_multiplier=scale)
                case "dlap":
                    return DiscreteLaplace(scale=scale, sensitivity=1)
                case _:
                    return DiscreteGaussian(sigma=scale, sensitivity=1)

        if family.endswith("few"):
            kinds = r.choice([1, 1, 2, 3])
            event = compose([part() * max(1, count // kinds) for _ in range(kinds)])
        else:
            event = _parts(r, count, [1, 2, 5, 20, 100, 500, 2000], part)
        yield _asked(r, number, f"workload-{family}", event, [1e-5, 1e-6, 1e-9, 1e-10])


def _promises(r: _Drawn) -> Iterator[Question]:
    """Guarantees that others have stated, composed."""
    for number in range(40):
        count = r.count(1, 1000)
        family = r.choice(["pure", "rr", "approx", "exp", "mixed", "zcdp"])

        def part(count: int = count, family: str = family) -> Event:
            one = r.choice(["pure", "rr", "approx", "exp"]) if family == "mixed" else family
            share = r.choice([0.3, 1, 2]) / math.sqrt(count) * math.exp(r.uniform(-0.3, 0.3))
            epsilon = _written(max(0.001, share), 2)
            match one:
                case "pure":
                    return Pure(epsilon=epsilon)
                case "rr":
                    return RandomizedResponse(epsilon=epsilon, categories=r.choice([2, 4, 10]))
                case "approx":
                    return Approximate(epsilon=epsilon, delta=_written(1e-7 / count, 2))
                case "exp":
                    return Exponential(epsilon=epsilon)
                case _:
                    return ZeroConcentrated(rho=_written(epsilon * epsilon, 2))

        event = _parts(r, count, [1, 1, 2, 5, 20, 100], part)
        yield _asked(r, number, f"promises-{family}", event, [1e-5, 1e-6, 1e-9])


def _sampled_sizes(r: _Drawn) -> Iterator[Question]:
    """Samples of a fixed size, without replacement and with it."""
    for _ in range(20):
        population = r.count(1000, 1e6)
        size = max(1, int(population * r.number(1e-3, 0.1)))
        noise = r.choice(
            [
                Gaussian(noise_multiplier=r.number(0.8, 5)),
                Gaussian(noise_multiplier=r.number(0.8, 5)),
                Laplace(noise_multiplier=r.number(1, 10)),
                Pure(epsilon=r.number(0.1, 2)),
            ]
        )
        event = noise.fixed_size_sampled(size=size, population=population) * r.count(1, 1e4)
        at = r.choice([1e-5, 1e-6])
        yield Question(kind="fixed-size", event=event, neighbors=ReplaceOne, at=at)
    for _ in range(10):
        population = r.count(1000, 1e6)
        size = max(1, int(population * r.number(1e-3, 0.1)))
        noise = r.choice(
            [
                Gaussian(noise_multiplier=r.number(0.8, 5)),
                Laplace(noise_multiplier=r.number(1, 10)),
            ]
        )
        event = noise.sampled_with_replacement(size=size, population=population) * r.count(1, 1e3)
        at = r.choice([1e-5, 1e-6])
        yield Question(kind="with-replacement", event=event, neighbors=ReplaceOne, at=at)


def _shuffled(r: _Drawn) -> Iterator[Question]:
    for number in range(14):
        answers = r.choice(
            [
                RandomizedResponse(epsilon=r.number(0.5, 4), categories=r.choice([2, 5, 20])),
                Pure(epsilon=r.number(0.5, 4)),
            ]
        )
        event: Event = answers.shuffled(count=r.count(1000, 1e6))
        if number % 3 == 2:
            event = event * r.count(2, 20)
        delta = r.choice([1e-6, 1e-8])
        measure: Literal["epsilon", "delta"] = "epsilon" if number % 4 else "delta"
        at = delta if measure == "epsilon" else 0.5
        yield Question(kind="shuffle", event=event, neighbors=ReplaceOne, measure=measure, at=at)


def _allocated(r: _Drawn) -> Iterator[Question]:
    for _ in range(14):
        noise = Gaussian(noise_multiplier=r.number(0.6, 5))
        event = noise.randomly_allocated(steps=r.count(10, 3000), uses=r.choice([1, 1, 1, 2, 4]))
        yield Question(kind="allocation", event=event, at=r.choice([1e-5, 1e-6]))
    for _ in range(3):
        noise = Gaussian(noise_multiplier=r.number(0.8, 3))
        epochs = noise.randomly_allocated(steps=r.count(50, 1000)) * r.count(2, 20)
        yield Question(kind="allocation-epochs", event=epochs, at=1e-5)


def _selected(r: _Drawn) -> Iterator[Question]:
    """The best of many runs, and choices by the exponential mechanism."""
    for _ in range(14):
        runs: list[Event] = [
            Gaussian(noise_multiplier=r.number(2, 10)),
            Laplace(noise_multiplier=r.number(1, 10)),
            Pure(epsilon=r.number(0.1, 1)),
            _gaussian(r.number(0.8, 2), 0.01, r.count(100, 2000)),
        ]
        base = r.choice(runs)
        ways: list[Event] = [
            NegativeBinomialTries(event=base, shape=1, stop=r.number(0.01, 0.5)),
            NegativeBinomialTries(event=base, shape=0, stop=r.number(0.01, 0.5)),
            PoissonTries(event=base, mean=r.choice([5, 10, 30])),
        ]
        best = r.choice(ways)
        yield Question(kind="selection", event=best, at=r.choice([1e-5, 1e-6]))
    for _ in range(10):
        event = Exponential(epsilon=r.number(0.05, 1)) * r.count(1, 200)
        yield Question(kind="exponential", event=event, at=r.choice([1e-5, 1e-6, 1e-9]))


def _band(width: int) -> tuple[float, ...]:
    return tuple(_written(1 - place / width, 4) for place in range(width))


def _correlated(r: _Drawn) -> Iterator[Question]:
    """Noise of one encoder, of a tree, and of an encoder whose people are drawn by turns."""
    for _ in range(8):
        steps, width = r.count(16, 1000), r.choice([2, 4, 8, 16])
        matrix = MatrixFactorization(
            noise_multiplier=r.number(0.8, 10),
            encoder=_band(width),
            steps=steps,
            participations=r.choice([1, 1, 3]),
            separation=max(width, steps // 4),
        )
        yield Question(kind="matrix", event=matrix, at=1e-6)
    for _ in range(6):
        tree = TreeAggregation(
            noise_multiplier=r.number(2, 20),
            steps=r.count(16, 4096),
            participations=r.choice([1, 2]),
            separation=16,
        )
        yield Question(kind="tree", event=tree, at=1e-6)
    for _ in range(6):
        width = r.choice([2, 4, 8])
        banded = MatrixFactorization(
            noise_multiplier=r.number(0.8, 5),
            encoder=_band(width),
            steps=r.count(100, 2000),
            participations=1,
            separation=width,
        )
        event = banded.cyclic_poisson_sampled(rate=r.number(0.005, 0.2))
        yield Question(kind="bandmf", event=event, at=1e-6)


def _other_noise(r: _Drawn) -> Iterator[Question]:
    """Noise that is not normal: sampled, and by itself."""
    for _ in range(20):
        base = r.choice(
            [
                Laplace(noise_multiplier=r.number(0.5, 10)),
                DiscreteLaplace(scale=r.number(0.5, 10), sensitivity=1),
                DiscreteGaussian(sigma=r.number(0.8, 10), sensitivity=1),
                Pure(epsilon=r.number(0.1, 2)),
                RandomizedResponse(epsilon=r.number(0.1, 2), categories=4),
                GaussianMixture(
                    noise_multiplier=r.number(0.8, 3), shifts=(0, 1), weights=(0.5, 0.5)
                ),
                Staircase(epsilon=r.number(0.2, 2), split=0.3),
            ]
        )
        event = base.poisson_sampled(rate=r.number(0.001, 0.1)) * r.count(1, 3000)
        yield Question(kind="sampled-others", event=event, at=r.choice([1e-5, 1e-6]))
    for _ in range(15):
        base = r.choice(
            [
                TruncatedLaplace(noise_multiplier=r.number(2, 20), bound=r.number(50, 400)),
                Staircase(epsilon=r.number(0.1, 1), split=0.3),
                DiscreteGaussian(sigma=r.number(1, 20), sensitivity=r.choice([1, 2, 1.5])),
                DiscreteLaplace(scale=r.number(1, 20), sensitivity=r.choice([2, 3, 1.5])),
            ]
        )
        event = base * r.choice([1, 1, 3, 10, 50, 300])
        yield Question(kind="other-noise", event=event, at=r.choice([1e-5, 1e-6]))
