"""Mechanisms that release a number, an array or a choice.

Each is an immutable value with an `event`, the cost of a release, and a `release`; see `protocol`
for the common parts. The usual mechanisms are here, the others by task:

- `shaped`: noise of other shapes, and on whole vectors;
- `selection`: the best of many candidates; `sparse_vector`: questions above a threshold;
- `partitions`: keys that are private themselves;
- `correlated`: prefix sums, marginals and workloads of linear queries;
- `data_dependent`: medians, quantiles, sums and others with an error that follows the data;
- `local`: reports that are randomized by their owners;
- `retry`: private selection among runs, and mechanisms that never fail;
- `contributions`: clipping, and sums that are exact.

They are loaded when they are first used.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms import (
        contributions,
        correlated,
        data_dependent,
        local,
        partitions,
        retry,
        selection,
        shaped,
        sparse_vector,
    )
    from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
    from unacorda.mechanisms.additive.real import Gaussian, Laplace
    from unacorda.mechanisms.correlated.matrix import MatrixMechanism
    from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
    from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity
    from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity
    from unacorda.mechanisms.local.categories import RandomizedResponse
    from unacorda.mechanisms.partitions.selection import PartitionSelection
    from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian, ThresholdedLaplace
    from unacorda.mechanisms.retry.best import BestOf
    from unacorda.mechanisms.selection.exponential import Exponential
    from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
    from unacorda.mechanisms.sparse_vector.threshold import SparseVector

__all__ = [
    "BestOf",
    "BinaryTree",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "InverseSensitivity",
    "Laplace",
    "MatrixMechanism",
    "PartitionSelection",
    "PermuteAndFlip",
    "RandomizedResponse",
    "SmoothSensitivity",
    "SparseVector",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "TopK",
    "contributions",
    "correlated",
    "data_dependent",
    "local",
    "partitions",
    "retry",
    "selection",
    "shaped",
    "sparse_vector",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "": "contributions correlated data_dependent local partitions retry selection shaped "
        "sparse_vector",
        "additive.integer": "DiscreteGaussian DiscreteLaplace",
        "additive.real": "Gaussian Laplace",
        "correlated.matrix": "MatrixMechanism",
        "correlated.prefix_sums": "BinaryTree",
        "data_dependent.inverse": "InverseSensitivity",
        "data_dependent.smooth": "SmoothSensitivity",
        "local.categories": "RandomizedResponse",
        "partitions.selection": "PartitionSelection",
        "partitions.thresholded": "ThresholdedGaussian ThresholdedLaplace",
        "retry.best": "BestOf",
        "selection.exponential": "Exponential",
        "selection.noisy_max": "PermuteAndFlip TopK",
        "sparse_vector.threshold": "SparseVector",
    },
)
