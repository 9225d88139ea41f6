"""Every mechanism once: how it is made, what it takes and what it refuses, for tests over all."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from tests.mechanisms.faces import everything as mechanisms

from unacorda.bits import RandomBits
from unacorda.mechanisms.correlated.workloads import Prefixes
from unacorda.privacy.events import NegativeBinomialTries, Pure
from unacorda.privacy.guarantees import ApproxDP, PureDP

NAN, INF = math.nan, math.inf
LARGEST, LEAST = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Case:
    """One mechanism.

    made: the arguments of its class; value: what it releases; refused: what it does not;
    odd: values it takes at which arithmetic might break; release: how, by its one method.
    """

    made: dict[str, Any]
    value: Any
    refused: tuple[Any, ...]
    odd: tuple[Any, ...] = ()
    release: Callable[..., Any] = lambda mechanism, value, bits: mechanism.release(value, bits=bits)

    def __call__(self, mechanism: Any, value: Any, bits: RandomBits) -> Any:
        return self.release(mechanism, value, bits)


NO_NUMBERS: tuple[Any, ...] = (
    np.array(["a"]),
    np.array([1j]),
    {"a": 1},
    {1},
    np.array([1], np.longdouble),
)
ODD_NUMBERS = (
    ["a", None, 10**400, Fraction(1, 3)],
    [1j, [1], 2**60 + 127, 2**64],
    [NAN, INF, -INF, -0.0],
    [5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308],
    [LARGEST, LEAST, 0, 1],
    np.array([2**64 - 1, 2**63, 0, 1], np.uint64),
    np.array([NAN, 65504, -INF, 0], np.float16),
    np.array([True, False, True, False]),
)
WHOLE_ONLY = (*NO_NUMBERS, np.array([0.5]), np.array(1.0))
ODD_WHOLES = (
    [LARGEST, LEAST, 0, 1],
    [NAN, INF, 0.5, 1],
    ["a", None, 10**400, Fraction(1, 3)],
    np.array([2**64 - 1, 2**63, 0, 1], np.uint64),
    np.array([-128, 127, 0, 1], np.int8),
)
NO_SCORES: tuple[Any, ...] = (
    [],
    1,
    np.array([[1, 2], [3, 4]]),
    np.array(["a", "b"]),
    np.array([1j, 2]),
    "ab",
    None,
    {0: 1},
    NAN,
)
ODD_SCORES = (*ODD_NUMBERS, [Fraction(1, 3), 10**400, -(10**400), 0])
NO_COUNTS = ([("a", 1)], 3, None, "ab")
ODD_COUNTS: tuple[Any, ...] = (
    {"a": LARGEST, "b": LEAST, "c": 10**400, "d": -(10**400), "e": 0},
    {"a": np.uint64(2**64 - 1), "b": np.int64(LEAST)},
    {"a": 1.5, "b": "1", "c": NAN, "d": None},
    {},
)
NO_INDICES = WHOLE_ONLY
ODD_INDICES = (
    [LARGEST, LEAST, 0, 1],
    [NAN, "a", None, 10**400],
    np.array([2**64 - 1, 2**63, 0, 1], np.uint64),
)
NO_STREAM = (*NO_NUMBERS, "a", None, np.array([[1], [2]]))
ODD_STREAM = ODD_NUMBERS
TABLE = [[0, 1], [1, 2], [9, -9], [LARGEST, LEAST]]
NO_RECORDS = (np.array([[0.5, 1]]), np.array([[0]]), np.arange(2), "ab", None, np.ones((1, 3)))


ODD_TABLES = ([[0, 1], [1], None, [NAN, "a"]], [[0.5, 10**400], [None, 1j]])


def encoded(mechanism: Any, value: Any, bits: RandomBits) -> Any:
    return mechanism.encode(value, bits=bits)


def pieces(mechanism: Any, value: Any, bits: RandomBits) -> Any:
    return mechanism.release([0.2, 0.5, 0.7], scores=value, bits=bits)


def scores(**made: Any) -> Case:
    return Case({"epsilon": 1, "sensitivity": 1, **made}, [1, 5, 3, 2], NO_SCORES, ODD_SCORES)


def reals(**made: Any) -> Case:
    return Case(made, [0.5, 1, 2, -3], NO_NUMBERS, ODD_NUMBERS)


def devices(**made: Any) -> Case:
    return Case({"epsilon": 1, **made}, [0, 1, 2, 3], NO_INDICES, ODD_INDICES, encoded)


def streams(made: dict[str, Any]) -> Case:
    return Case(made, [1, 5, 3, 2], NO_STREAM, ODD_STREAM)


PLANE = np.eye(4) * 2 + 1

# Each under the name of its class, which a variant of it may follow.
EVERY: dict[str, Case] = {
    "BinaryTree": streams({"sigma": 2, "l2_sensitivity": 1, "steps": 4}),
    "BoundedLaplace": reals(epsilon=1, sensitivity=1, lower=-4, upper=4),
    "Directions": Case({"epsilon": 3, "size": 4}, [0.5, 1, 2, -3], NO_NUMBERS, ODD_NUMBERS),
    "DiscreteGaussian": Case(
        {"sigma": 2, "l2_sensitivity": 1}, [1, 2, 3, 4], WHOLE_ONLY, ODD_WHOLES
    ),
    "DiscreteLaplace": Case(
        {"scale": 2, "l1_sensitivity": 1}, [1, 2, 3, 4], WHOLE_ONLY, ODD_WHOLES
    ),
    "DiscreteLaplace bounded": Case(
        {"scale": 2, "l1_sensitivity": 1, "lower": -9, "upper": 9},
        [1, 2, 3, 4],
        WHOLE_ONLY,
        ODD_WHOLES,
    ),
    "Duchi": Case(
        {"epsilon": 1, "lower": -1, "upper": 1}, [0.5, 1, 2, -3], NO_NUMBERS, ODD_NUMBERS
    ),
    "Exponential": scores(),
    "Gaussian": reals(sigma=2, l2_sensitivity=1),
    "HadamardResponse": devices(categories=4),
    "Hybrid": Case(
        {"epsilon": 1, "lower": -1, "upper": 1}, [0.5, 1, 2, -3], NO_NUMBERS, ODD_NUMBERS
    ),
    "KNorm": reals(norm=2, epsilon=1, sensitivity=1, dimension=4),
    "Laplace": reals(scale=2, l1_sensitivity=1),
    "LocalHashing": devices(categories=4),
    "Marginals": Case(
        {"sizes": (2, 3), "queries": ((0,), (0, 1)), "sigma": 2}, TABLE, NO_RECORDS, ODD_TABLES
    ),
    "MatrixMechanism": Case(
        {"workload": Prefixes(4), "strategy": np.eye(4), "sigma": 2, "sensitivity": 1},
        [1, 2, 3, 4],
        (*NO_STREAM, [1, 2, 3], np.array([[1, 2, 3, 4]]), 1),
        ODD_STREAM,
    ),
    "MultivariateGaussian": reals(covariance=PLANE, l2_sensitivity=1),
    "NumericSparse": streams({"epsilon": 3, "count": 2, "sensitivity": 1, "threshold": 3}),
    "PartitionSelection": Case(
        {"epsilon": 1, "delta": 1e-3}, {"a": 20, "b": 1}, NO_COUNTS, ODD_COUNTS
    ),
    "PermuteAndFlip": scores(),
    "Piecewise": Case(
        {"epsilon": 1, "lower": -1, "upper": 1}, [0.5, 1, 2, -3], NO_NUMBERS, ODD_NUMBERS
    ),
    "PiecewiseConstantExponential": Case(
        {"epsilon": 1, "sensitivity": 1, "lower": 0, "upper": 1},
        [1, 5, 3, 2],
        NO_SCORES,
        ODD_SCORES,
        pieces,
    ),
    "RandomizedResponse": devices(categories=4),
    "SparseVector": streams({"epsilon": 1, "count": 2, "sensitivity": 1, "threshold": 3}),
    "SparseVector once": streams({"epsilon": 1, "sensitivity": 1, "threshold": 3}),
    "SquareRootToeplitz": streams({"sigma": 2, "l2_sensitivity": 1, "steps": 4}),
    "StableSelection": scores(delta=1e-3),
    "Staircase": reals(epsilon=1, sensitivity=1),
    "SubsetSelection": devices(categories=4),
    "ThresholdedGaussian": Case(
        {"sigma": 2, "threshold": 9}, {"a": 20, "b": 1}, NO_COUNTS, ODD_COUNTS
    ),
    "ThresholdedLaplace": Case(
        {"scale": 2, "threshold": 9}, {"a": 20, "b": 1}, NO_COUNTS, ODD_COUNTS
    ),
    "TopK": scores(count=2),
    "TopK with gaps": replace(
        scores(count=2, noise="exponential"),
        release=lambda mechanism, value, bits: mechanism.release_with_gaps(value, bits=bits),
    ),
    "TreeSelection": Case(
        {"noise_multiplier": 1, "sensitivity": 1, "shuffle": True},
        [1, 5, 3, 2],
        NO_SCORES,
        ODD_SCORES,
    ),
    "TruncatedLaplace": reals(scale=2, sensitivity=1, bound=9),
    "UnaryEncoding": devices(categories=4),
    "UnaryEncoding symmetric": devices(categories=4, variant="symmetric"),
}

# These run other mechanisms, and are tested with the runs they make.
OF_RUNS: dict[str, dict[str, Any]] = {
    "AbsorbFailure": {"guarantee": PureDP(1), "limit": 0, "failure": 0.01},
    "BestOf": {"event": NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0.1)},
    "ConditionOnSuccess": {
        "guarantee": PureDP(1),
        "test": ApproxDP(1, 1e-3),
        "sensitivity": 1,
        "limit": 0,
        "failure": 0.5,
        "rounds": 10,
    },
}


def kind(name: str) -> Any:
    """The class of a mechanism."""
    return getattr(mechanisms, name.split(maxsplit=1)[0])


def make(name: str, **changed: Any) -> Any:
    """The mechanism, with some of its arguments changed."""
    written = EVERY[name].made if name in EVERY else OF_RUNS[name]
    return kind(name)(**{**written, **changed})
