"""PyDP's mechanisms; see mechanisms_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from mechanisms_protocol import DELTA, EPSILON, LOWER, UPPER, Release, serve
from pydp.algorithms import laplacian
from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
from pydp.algorithms.partition_selection import create_truncated_geometric_partition_strategy


def quantile(rows: list[float]) -> Release:
    def release() -> float:
        median = laplacian.Percentile(
            epsilon=EPSILON, percentile=0.5, lower_bound=LOWER, upper_bound=UPPER, dtype="float"
        )
        return median.quick_result(rows)

    return release


def keys(counts: list[int]) -> Release:
    rule = create_truncated_geometric_partition_strategy(EPSILON, DELTA, 1)
    return lambda: [rule.should_keep(count) for count in counts]


def noise(values: list[float]) -> Release:
    add = LaplaceMechanism(EPSILON, 1.0)
    return lambda: [add.add_noise(value) for value in values]


if __name__ == "__main__":
    serve(
        {
            "quantile/tree": quantile,
            "keys/optimal rule": keys,
            "noise/Laplace": noise,
        },
        limit=3.0,
    )
