"""Mechanisms: how a number, an array or a choice is released.

Each is a frozen value with an `event`, which says what a release costs, and a `release`. They are
loaded when they are first named.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
    from unacorda.mechanisms.additive.real import Gaussian, Laplace
    from unacorda.mechanisms.additive.shaped import BoundedLaplace, Staircase, TruncatedLaplace
    from unacorda.mechanisms.additive.vectors import KNorm, MultivariateGaussian
    from unacorda.mechanisms.clipping import clip_rows, clip_users, clipping_sensitivity
    from unacorda.mechanisms.correlated.marginals import Marginals
    from unacorda.mechanisms.correlated.matrix import MatrixMechanism
    from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
    from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz
    from unacorda.mechanisms.data_dependent.checking import check_sensitivity
    from unacorda.mechanisms.data_dependent.found_clipping import FoundClipping
    from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity
    from unacorda.mechanisms.data_dependent.propose_test_release import ProposeTestRelease
    from unacorda.mechanisms.data_dependent.removal import geometric_grid, item_set_losses
    from unacorda.mechanisms.data_dependent.sensitivities import (
        down_sensitivity,
        local_sensitivity,
        smooth_sensitivity,
    )
    from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse
    from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity
    from unacorda.mechanisms.keys.partitions import PartitionSelection
    from unacorda.mechanisms.keys.thresholded import ThresholdedGaussian, ThresholdedLaplace
    from unacorda.mechanisms.local.categories import (
        RandomizedResponse,
        SubsetSelection,
        UnaryEncoding,
    )
    from unacorda.mechanisms.local.directions import Directions
    from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
    from unacorda.mechanisms.local.means import Duchi, Hybrid, Piecewise
    from unacorda.mechanisms.retry.best import BestOf
    from unacorda.mechanisms.retry.success import AbsorbFailure, ConditionOnSuccess
    from unacorda.mechanisms.selection.exponential import Exponential, PiecewiseConstantExponential
    from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
    from unacorda.mechanisms.selection.stable import StableSelection
    from unacorda.mechanisms.selection.tree import TreeSelection
    from unacorda.mechanisms.sparse_vector.gaussian import GaussianAboveThreshold
    from unacorda.mechanisms.sparse_vector.threshold import NumericSparse, SparseVector
    from unacorda.mechanisms.sums import fixed_point_sensitivity, fixed_point_sum

__all__ = [
    "AbsorbFailure",
    "BestOf",
    "BinaryTree",
    "BoundedLaplace",
    "ConditionOnSuccess",
    "Directions",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Duchi",
    "Exponential",
    "FoundClipping",
    "Gaussian",
    "GaussianAboveThreshold",
    "HadamardResponse",
    "Hybrid",
    "InverseSensitivity",
    "KNorm",
    "Laplace",
    "LocalHashing",
    "Marginals",
    "MatrixMechanism",
    "MultivariateGaussian",
    "NumericSparse",
    "PartitionSelection",
    "PermuteAndFlip",
    "Piecewise",
    "PiecewiseConstantExponential",
    "ProposeTestRelease",
    "RandomizedResponse",
    "ShiftedInverse",
    "SmoothSensitivity",
    "SparseVector",
    "SquareRootToeplitz",
    "StableSelection",
    "Staircase",
    "SubsetSelection",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "TopK",
    "TreeSelection",
    "TruncatedLaplace",
    "UnaryEncoding",
    "check_sensitivity",
    "clip_rows",
    "clip_users",
    "clipping_sensitivity",
    "down_sensitivity",
    "fixed_point_sensitivity",
    "fixed_point_sum",
    "geometric_grid",
    "item_set_losses",
    "local_sensitivity",
    "smooth_sensitivity",
]

_HOMES = {
    "AbsorbFailure": "retry.success",
    "BestOf": "retry.best",
    "BinaryTree": "correlated.prefix_sums",
    "BoundedLaplace": "additive.shaped",
    "ConditionOnSuccess": "retry.success",
    "Directions": "local.directions",
    "DiscreteGaussian": "additive.integer",
    "DiscreteLaplace": "additive.integer",
    "Duchi": "local.means",
    "Exponential": "selection.exponential",
    "FoundClipping": "data_dependent.found_clipping",
    "Gaussian": "additive.real",
    "GaussianAboveThreshold": "sparse_vector.gaussian",
    "HadamardResponse": "local.hashing",
    "Hybrid": "local.means",
    "InverseSensitivity": "data_dependent.inverse",
    "KNorm": "additive.vectors",
    "Laplace": "additive.real",
    "LocalHashing": "local.hashing",
    "Marginals": "correlated.marginals",
    "MatrixMechanism": "correlated.matrix",
    "MultivariateGaussian": "additive.vectors",
    "NumericSparse": "sparse_vector.threshold",
    "PartitionSelection": "keys.partitions",
    "PermuteAndFlip": "selection.noisy_max",
    "Piecewise": "local.means",
    "PiecewiseConstantExponential": "selection.exponential",
    "ProposeTestRelease": "data_dependent.propose_test_release",
    "RandomizedResponse": "local.categories",
    "ShiftedInverse": "data_dependent.shifted_inverse",
    "SmoothSensitivity": "data_dependent.smooth",
    "SparseVector": "sparse_vector.threshold",
    "SquareRootToeplitz": "correlated.toeplitz",
    "StableSelection": "selection.stable",
    "Staircase": "additive.shaped",
    "SubsetSelection": "local.categories",
    "ThresholdedGaussian": "keys.thresholded",
    "ThresholdedLaplace": "keys.thresholded",
    "TopK": "selection.noisy_max",
    "TreeSelection": "selection.tree",
    "TruncatedLaplace": "additive.shaped",
    "UnaryEncoding": "local.categories",
    "check_sensitivity": "data_dependent.checking",
    "clip_rows": "clipping",
    "clip_users": "clipping",
    "clipping_sensitivity": "clipping",
    "down_sensitivity": "data_dependent.sensitivities",
    "fixed_point_sensitivity": "sums",
    "fixed_point_sum": "sums",
    "geometric_grid": "data_dependent.removal",
    "item_set_losses": "data_dependent.removal",
    "local_sensitivity": "data_dependent.sensitivities",
    "smooth_sensitivity": "data_dependent.sensitivities",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unacorda.mechanisms' has no attribute {name!r}")
    return getattr(importlib.import_module(f"unacorda.mechanisms.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
