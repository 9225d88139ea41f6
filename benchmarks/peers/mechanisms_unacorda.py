"""unacorda's mechanisms; see mechanisms_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
from mechanisms_protocol import CATEGORIES, DELTA, EPSILON, LOWER, UPPER, Release, serve

from unacorda import mechanisms


def selection(kind: Any) -> Any:
    def method(scores: list[float]) -> Release:
        choose, values = kind(epsilon=EPSILON, sensitivity=1), np.array(scores)
        return lambda: choose.release(values)

    return method


def threshold(values: list[float]) -> Release:
    above = mechanisms.SparseVector(epsilon=EPSILON, sensitivity=1, threshold=1000)
    array = np.array(values)
    return lambda: above.release(array)


def response(categories: int) -> Any:
    def method(data: list[int]) -> Release:
        tell = mechanisms.RandomizedResponse(epsilon=EPSILON, categories=categories)
        values = np.array(data, dtype=np.int64)
        return lambda: tell.release(values)

    return method


def quantile(rows: list[float]) -> Release:
    median = mechanisms.selection.PiecewiseConstantExponential(
        epsilon=EPSILON, sensitivity=0.5, lower=LOWER, upper=UPPER
    )
    values = np.array(rows)
    distance = -np.abs(np.arange(len(rows) + 1) - len(rows) / 2)
    return lambda: median.release(np.sort(values), scores=distance)


def keys(counts: list[int]) -> Release:
    rule = mechanisms.PartitionSelection(epsilon=EPSILON, delta=DELTA)
    values = np.array(counts)
    return lambda: rule.release_array(values)


def noise(values: list[float]) -> Release:
    add = mechanisms.Laplace(scale=1 / EPSILON, l1_sensitivity=1)
    array = np.array(values)
    return lambda: add.release(array)


if __name__ == "__main__":
    serve(
        {
            "selection/exponential": selection(mechanisms.Exponential),
            "selection/permute and flip": selection(mechanisms.PermuteAndFlip),
            "threshold/above threshold": threshold,
            "response/k-ary": response(CATEGORIES),
            "binary response/binary": response(2),
            "quantile/exponential": quantile,
            "keys/optimal rule": keys,
            "noise/Laplace": noise,
        },
        limit=3.0,
    )
