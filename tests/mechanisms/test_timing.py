"""The time of a scalar draw says nothing about the size of the noise (Jin et al. 2022)."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unacorda.bits import SecureBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.correlated.marginals import Marginals
from unacorda.mechanisms.correlated.matrix import MatrixMechanism
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz
from unacorda.mechanisms.correlated.workloads import Queries
from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian, ThresholdedLaplace
from unacorda.mechanisms.selection.exponential import Exponential, PiecewiseConstantExponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
from unacorda.mechanisms.selection.stable import StableSelection
from unacorda.mechanisms.selection.tree import TreeSelection
from unacorda.mechanisms.shaped.numbers import BoundedLaplace, Staircase, TruncatedLaplace
from unacorda.mechanisms.shaped.vectors import KNorm, MultivariateGaussian
from unacorda.mechanisms.sparse_vector.threshold import NumericSparse, SparseVector

SPARSE = SparseVector(epsilon=10**9, count=10**8, sensitivity=1, threshold=0, refresh=True)
STREAM = SPARSE.start()
TREE = BinaryTree(sigma=10, l2_sensitivity=1, steps=1)
ROOT = SquareRootToeplitz(sigma=10, l2_sensitivity=1, steps=1)
CENTRE = 10**6  # every question is found above, and its gap is this and the noise of both sides


def stream_noise(x: int, *, bits: SecureBits) -> float:
    """The noise in the gap of one question fed to a stream, which has bits of its own."""
    return float(STREAM.ask_with_gap(CENTRE + x) or 0) - CENTRE


def array_noise(x: int, *, bits: SecureBits) -> float:
    """The noise in the gap of one question released as an array."""
    return float(SPARSE.release_with_gap([CENTRE + x], bits=bits)[1][0]) - CENTRE


GAP = TopK(count=1, epsilon=1, sensitivity=5, noise="exponential", grid_log2=-10)


def gap_noise(x: int, *, bits: SecureBits) -> float:
    """The noise in the gap between two candidates, the first of which always leads."""
    return float(GAP.release_with_gaps([CENTRE + x, 0], bits=bits)[1][0]) - CENTRE


PLANE = MultivariateGaussian(covariance=[[100, 50], [50, 100]], l2_sensitivity=1)
SQUARE = KNorm(norm=float("inf"), epsilon=1, sensitivity=5, dimension=2)
DISC = KNorm(norm=2, epsilon=1, sensitivity=5, dimension=2)


def vector_noise(mechanism: KNorm | MultivariateGaussian) -> Callable[..., float]:
    """The size of the noise on two numbers released together."""
    return lambda x, *, bits: float(abs(mechanism.release([x, 0.0], bits=bits)).max())


def tree_noise(x: int, *, bits: SecureBits) -> float:
    """The noise of a tree of one step, as a stream."""
    return float(TREE.start(bits=bits).add(x))


def root_noise(x: int, *, bits: SecureBits) -> float:
    """The noise of one step of the square-root mechanism, as an array."""
    return float(ROOT.release([x], bits=bits)[0])


LADDER = [0, -1, -2, -3, -4, -5, -6, -7]  # the index of a candidate is what it loses
CHOICE: dict[str, Any] = {"epsilon": 1, "sensitivity": 1}
KEPT = PartitionSelection(epsilon=0.5, delta=1e-3)
LEADER = StableSelection(epsilon=0.5, delta=1e-3, sensitivity=1)
COUNTS = ThresholdedLaplace(scale=10, threshold=50)
NORMAL_COUNTS = ThresholdedGaussian(sigma=10, threshold=50)
ONCE = SparseVector(epsilon=1, sensitivity=1, threshold=0)
ANSWERED = NumericSparse(epsilon=3, count=1, sensitivity=1, threshold=0)
TOP = TopK(count=2, **CHOICE)
TOP_GAPS = TopK(count=2, noise="exponential", **CHOICE)
WALK = TreeSelection(noise_multiplier=2, sensitivity=1)
MEDIAN = PiecewiseConstantExponential(epsilon=2, sensitivity=1, lower=-1, upper=1)
TABLES = Marginals(sizes=(2, 3), queries=((0,), (0, 1)), sigma=10)
RECORDS = np.zeros((1, 2), dtype=np.int64)
MATRIX = MatrixMechanism(workload=Queries(np.eye(3)), strategy=np.eye(3), sigma=10, sensitivity=1)
CELLS = np.zeros(3)


def loss_of(mechanism: Any) -> Callable[..., float]:
    """How far below the best the chosen candidate lies."""
    return lambda x, *, bits: float(mechanism.release(LADDER, bits=bits))


def told_at(mechanism: Any, count: int, place: int) -> Callable[..., float]:
    """What is shown of one key: whether it is kept, or its noisy count."""

    def shown(x: int, *, bits: SecureBits) -> float:
        return float(mechanism.release_array([count + x], bits=bits)[place][0]) - place * count

    return shown


def kept_key(x: int, *, bits: SecureBits) -> float:
    """Whether a key is kept that is as often as not."""
    return float(KEPT.release_array([12 + x], bits=bits)[0])


def told_leader(x: int, *, bits: SecureBits) -> float:
    """Whether a leader is told who is as often as not."""
    return float(LEADER.release([22 + x, 0, -3], bits=bits) is not None)


def answer_noise(x: int, *, bits: SecureBits) -> float:
    """The noise of an answer, which is drawn after the question was found above."""
    return float(ANSWERED.release([CENTRE + x], bits=bits)[1][0]) - CENTRE


def once_noise(x: int, *, bits: SecureBits) -> float:
    """The noise in the gap of one question where one answer is given."""
    _, gaps = ONCE.release_with_gap([CENTRE + x], bits=bits)
    return float(gaps[0]) - CENTRE if gaps.size else 0.0


def smooth_noise(mechanism: SmoothSensitivity) -> Callable[..., float]:
    """The noise on a number whose smooth bound is 1."""
    return lambda x, *, bits: mechanism.release_at(x, smooth_sensitivity=1, bits=bits)


STUDENT = SmoothSensitivity(epsilon=1, grid_log2=-20)
SMOOTH_LAPLACE = SmoothSensitivity(epsilon=1, delta=1e-6, noise="laplace", grid_log2=-20)

RELEASES: dict[str, Callable[..., Any]] = {
    "bounded discrete laplace": DiscreteLaplace(
        scale=10, l1_sensitivity=1, lower=-99, upper=99
    ).release,
    "sparse vector, stopped once": once_noise,
    "sparse vector, answered": answer_noise,
    "exponential mechanism": loss_of(Exponential(**CHOICE)),
    "permute and flip": loss_of(PermuteAndFlip(**CHOICE)),
    "walk down a tree": loss_of(WALK),
    "top two": lambda x, *, bits: float(TOP.release(LADDER, bits=bits).sum()),
    "gaps of the top two": lambda x, *, bits: TOP_GAPS.release_with_gaps(LADDER, bits=bits)[1][0],
    "a point of an interval": lambda x, *, bits: MEDIAN.release(
        [-0.5, 0, 0.5], scores=[-2, 0, 0, -2], bits=bits
    ),
    "stable leader": told_leader,
    "kept keys": kept_key,
    "keys with counts": told_at(COUNTS, 50, 0),
    "counts of keys": told_at(COUNTS, CENTRE, 1),
    "keys with counts, normal noise": told_at(NORMAL_COUNTS, 50, 0),
    "counts of keys, normal noise": told_at(NORMAL_COUNTS, CENTRE, 1),
    "marginals": lambda x, *, bits: TABLES.release(RECORDS, bits=bits)[0,][1],
    "matrix mechanism": lambda x, *, bits: MATRIX.release(CELLS, bits=bits)[0],
    "laplace": Laplace(scale=10, l1_sensitivity=1).release,
    "gaussian": Gaussian(sigma=10, l2_sensitivity=1).release,
    "discrete laplace": DiscreteLaplace(scale=10, l1_sensitivity=1).release,
    "small discrete gaussian": DiscreteGaussian(sigma=100, l2_sensitivity=1).release,
    "large discrete gaussian": DiscreteGaussian(sigma=1000, l2_sensitivity=1).release,
    "staircase": Staircase(epsilon=0.5, sensitivity=1).release,
    "cut laplace": TruncatedLaplace(scale=10, sensitivity=1, bound=40).release,
    "bounded laplace": BoundedLaplace(epsilon=1, sensitivity=10, lower=-99, upper=99).release,
    "correlated normals": vector_noise(PLANE),
    "in a square": vector_noise(SQUARE),
    "in a disc": vector_noise(DISC),
    "sparse vector, one at a time": stream_noise,
    "sparse vector, an array": array_noise,
    "noisy max with gap": gap_noise,
    "binary tree, one at a time": tree_noise,
    "square root, an array": root_noise,
    "student at a smooth bound": smooth_noise(STUDENT),
    "laplace at a smooth bound": smooth_noise(SMOOTH_LAPLACE),
}


LONG = {"walk down a tree", "sparse vector, answered", "marginals"}


def difference(release: Callable[..., Any], draws: int) -> float:
    """How much longer a call takes where the noise is large than where it is small, relative.

    The medians of both thirds are compared. A rank correlation would be large wherever the clock
    is steady: on a quiet machine it sees the nanoseconds that a longer integer takes.
    """
    bits = SecureBits()
    times, sizes = np.empty(draws), np.empty(draws)
    for _ in range(200):
        release(0, bits=bits)
    gc.disable()
    try:
        for index in range(draws):
            start = time.perf_counter_ns()
            noise = release(0, bits=bits)
            times[index] = time.perf_counter_ns() - start
            sizes[index] = abs(noise)
    finally:
        gc.enable()
    # Drift of the machine is taken out: a time is told in medians of its block of a hundred calls.
    blocks = times.reshape(-1, 100)
    relative = (blocks / np.median(blocks, axis=1, keepdims=True)).reshape(-1)
    low, high = np.quantile(sizes, [1 / 3, 2 / 3])
    large = (sizes >= high) & (sizes > sizes.min())  # also where there are but two sizes
    small = (sizes <= low) & (sizes < sizes.max())
    return float(np.median(relative[large]) - np.median(relative[small]))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("release", RELEASES)
def test_time_and_noise_are_unrelated(release: str) -> None:
    # Times of a busy machine deviate by a fifth of the median or so: of thirds of 20,000 calls the
    # medians then differ by 0.004. Quiet machines show up to 0.01 where numbers have more digits.
    draws = 20_000 if release in LONG else 60_000
    assert abs(difference(RELEASES[release], draws)) < 0.03


@pytest.mark.slow
def test_a_leak_would_be_seen() -> None:
    def leaks(x: int, *, bits: SecureBits) -> int:
        noise = int(RELEASES["discrete laplace"](x, bits=bits))
        for _ in range(20 * abs(noise)):
            pass
        return noise

    assert difference(leaks, 20_000) > 0.06
