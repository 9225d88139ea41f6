"""How many numbers a second each additive mechanism releases, and each choice of private keys.

    python benchmarks/additive.py [--size 1000000] [--rounds 5]

Every mechanism releases an array of the given size, bits from the secure source; processor time,
and the best round counts. Vectors have the stated dimension, and the size counts their numbers.
Set OPENBLAS_NUM_THREADS=1: more threads do nothing for matrices this small.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tables import Report, add_json
from unacorda import mechanisms as m
from unacorda.mechanisms import shaped


def releases(size: int) -> dict[str, Callable[[], Any]]:
    zeros, counts = np.zeros(size), np.arange(size) % 50
    found: dict[str, Callable[[], Any]] = {
        "Laplace": lambda: m.Laplace(scale=10, l1_sensitivity=1).release(zeros),
        "Gaussian": lambda: m.Gaussian(sigma=10, l2_sensitivity=1).release(zeros),
        "DiscreteLaplace": lambda: m.DiscreteLaplace(scale=10, l1_sensitivity=1).release(counts),
        "DiscreteGaussian": lambda: m.DiscreteGaussian(sigma=10, l2_sensitivity=1).release(counts),
        "DiscreteLaplace, bounded": lambda: m.DiscreteLaplace(
            scale=10, l1_sensitivity=1, lower=0
        ).release(counts),
        "Staircase": lambda: shaped.Staircase(epsilon=1, sensitivity=1).release(zeros),
        "TruncatedLaplace": lambda: shaped.TruncatedLaplace(
            scale=1, sensitivity=1, bound=14
        ).release(zeros),
        "BoundedLaplace": lambda: shaped.BoundedLaplace(
            epsilon=1, sensitivity=1, lower=-5, upper=5
        ).release(zeros),
        "PartitionSelection": lambda: m.PartitionSelection(epsilon=1, delta=1e-6).release_array(
            counts
        ),
        "ThresholdedLaplace": lambda: m.ThresholdedLaplace(scale=1, threshold=16).release_array(
            counts
        ),
        "ThresholdedGaussian": lambda: m.ThresholdedGaussian(sigma=5, threshold=25).release_array(
            counts
        ),
    }
    for dimension in (2, 10, 100):
        vectors = np.zeros((size // dimension, dimension))
        for norm in (2.0, math.inf):
            noise = shaped.KNorm(norm=norm, epsilon=1, sensitivity=1, dimension=dimension)
            found[f"KNorm, norm {norm:g}, {dimension} numbers"] = (
                lambda noise=noise, x=vectors: noise.release(x)  # type: ignore[misc]
            )
        shape = np.full((dimension, dimension), 0.5) + 0.5 * np.eye(dimension)
        normal = shaped.MultivariateGaussian(covariance=shape, l2_sensitivity=1)
        found[f"MultivariateGaussian, {dimension} numbers"] = (
            lambda normal=normal, x=vectors: normal.release(x)  # type: ignore[misc]
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    add_json(parser)
    options = parser.parse_args()
    with Report(__file__, options.json) as report:
        row = report.table("speed", [("mechanism", ""), ("M/s", ".3g")])
        for name, release in releases(options.size).items():
            best = math.inf
            for _ in range(options.rounds):
                began = time.process_time()
                release()
                best = min(best, time.process_time() - began)
            row(name, options.size / best / 1e6)


if __name__ == "__main__":
    main()
