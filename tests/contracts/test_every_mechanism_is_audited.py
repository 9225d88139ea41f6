"""Every mechanism is attacked: a search for events that break its promise finds none.

A new mechanism fails here until it has neighbors to be attacked with.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_every_data_dependent_mechanism_is_covered import MADE, VALUES
from tests.contracts.test_every_data_dependent_mechanism_is_covered import make as adaptive
from tests.mechanisms.every_mechanism import EVERY, make

from unacorda import SeededBits, accounting
from unacorda.audit import search
from unacorda.privacy.guarantees import ApproxDP

DELTAS = (1e-2, 0.1, 0.3, 0.6)
SCORES = ([1, 5, 3, 2], [2, 4, 4, 1])
ONE_NUMBER = ([0.5, 1, 2, -3], [1.5, 1, 2, -3])
ONE_WHOLE = ([1, 2, 3, 4], [2, 2, 3, 4])
ONE_DEVICE = ([0, 1, 2, 3], [1, 1, 2, 3])
ONE_VALUE = ([0.9, 0, 0, 0], [-0.9, 0, 0, 0])
KEYS = ({"a": 20, "b": 8}, {"a": 20, "b": 9})
ONE_STEP = ([1, 5, 3, 2], [2, 5, 3, 2])

NEIGHBORS: dict[str, tuple[Any, Any]] = {
    "BinaryTree": ONE_STEP,
    "BoundedLaplace": ONE_NUMBER,
    "Directions": ([0.5, 0.5, 0.5, 0.5], [-0.5, -0.5, -0.5, -0.5]),
    "DiscreteGaussian": ONE_WHOLE,
    "DiscreteLaplace": ONE_WHOLE,
    "DiscreteLaplace bounded": ONE_WHOLE,
    "Duchi": ONE_VALUE,
    "Exponential": SCORES,
    "Gaussian": ONE_NUMBER,
    "HadamardResponse": ONE_DEVICE,
    "Hybrid": ONE_VALUE,
    "KNorm": ONE_NUMBER,
    "Laplace": ONE_NUMBER,
    "LocalHashing": ONE_DEVICE,
    "Marginals": ([[0, 1], [1, 2]], [[0, 1], [1, 2], [0, 0]]),
    "MatrixMechanism": ONE_STEP,
    "MultivariateGaussian": ONE_NUMBER,
    "NumericSparse": SCORES,
    "PartitionSelection": ({"a": 2}, {"a": 3}),
    "PermuteAndFlip": SCORES,
    "Piecewise": ONE_VALUE,
    "PiecewiseConstantExponential": SCORES,
    "RandomizedResponse": ONE_DEVICE,
    "SparseVector": SCORES,
    "SparseVector once": SCORES,
    "SquareRootToeplitz": ONE_STEP,
    "StableSelection": ([1, 12, 3, 2], [2, 11, 4, 1]),
    "Staircase": ONE_NUMBER,
    "SubsetSelection": ONE_DEVICE,
    "ThresholdedGaussian": KEYS,
    "ThresholdedLaplace": KEYS,
    "TopK": SCORES,
    "TopK with gaps": SCORES,
    "TreeSelection": SCORES,
    "TruncatedLaplace": ONE_NUMBER,
    "UnaryEncoding": ONE_DEVICE,
    "UnaryEncoding symmetric": ONE_DEVICE,
}


def numbers(answer: Any) -> list[float] | str:
    """An answer as a line of numbers, or as text where it has another shape each time."""
    if isinstance(answer, Mapping):
        return repr(sorted(answer.items()))
    if dataclasses.is_dataclass(answer):
        return repr(answer)
    line = np.asarray(answer)
    if line.dtype.kind in "biuf" and line.ndim <= 2:
        return [float(value) for value in line.ravel()]
    return repr(answer)


def refuted(mechanism: Any, release: Any, pair: tuple[Any, Any], *, samples: int) -> str | None:
    """What broke the promise of the mechanism's event, None if nothing did."""
    bits = SeededBits(17)

    def sample(value: Any, count: int) -> list[Any]:
        told = [numbers(release(mechanism, value, bits)) for _ in range(count)]
        lengths = {len(one) for one in told if isinstance(one, list)}
        alike = len(lengths) == 1 and all(isinstance(one, list) for one in told)
        return told if alike else [repr(one) for one in told]

    # The least of these deltas at which the promise has an epsilon.
    promises = ((accounting.epsilon(mechanism.event, delta=delta), delta) for delta in DELTAS)
    epsilon, delta = next(promise for promise in promises if promise[0] < math.inf)
    claim = ApproxDP(epsilon, delta)
    found = search(sample, [pair, pair[::-1]], claim=claim, explore=samples, confirm=3 * samples)
    return repr(found) if found.violated else None


def test_every_mechanism_has_neighbors() -> None:
    assert set(NEIGHBORS) == set(EVERY)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(NEIGHBORS))
def test_no_search_breaks_a_mechanism(name: str) -> None:
    # A false alarm has a probability of 1e-6.
    assert refuted(make(name), EVERY[name], NEIGHBORS[name], samples=800) is None


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(MADE))
def test_no_search_breaks_a_mechanism_that_follows_the_data(name: str) -> None:
    pair = (VALUES, [*VALUES, 9.0])
    broken = refuted(
        adaptive(name),
        lambda mechanism, value, bits: mechanism.release(value, bits=bits),
        pair,
        samples=800,
    )
    assert broken is None


def test_a_broken_one_would_be_caught() -> None:
    class Louder:
        """A mechanism that says it has twice the noise it has."""

        event = make("Laplace").event

    def release(_: Any, value: Any, bits: SeededBits) -> Any:
        return make("Laplace").release(np.asarray(value) * 3, bits=bits)

    assert refuted(Louder(), release, NEIGHBORS["Laplace"], samples=800) is not None
