"""Mechanisms: how a number, an array or a choice is released.

Each is a frozen value with an `event`, which says what a release costs, and a `release`. They are
loaded when they are first named.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacet.mechanisms.adaptive.checking import check_sensitivity
    from tacet.mechanisms.adaptive.found_clipping import FoundClipping
    from tacet.mechanisms.adaptive.grids import geometric_grid
    from tacet.mechanisms.adaptive.inverse import InverseSensitivity
    from tacet.mechanisms.adaptive.item_sets import item_set_losses
    from tacet.mechanisms.adaptive.propose_test_release import ProposeTestRelease
    from tacet.mechanisms.adaptive.race_to_the_top import RaceToTheTop
    from tacet.mechanisms.adaptive.sensitivities import (
        down_sensitivity,
        local_sensitivity,
        smooth_sensitivity,
    )
    from tacet.mechanisms.adaptive.shifted_inverse import ShiftedInverse
    from tacet.mechanisms.adaptive.smooth import SmoothSensitivity
    from tacet.mechanisms.additive.bounded import BoundedLaplace
    from tacet.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace, Geometric
    from tacet.mechanisms.additive.multivariate import MultivariateGaussian
    from tacet.mechanisms.additive.norms import KNorm
    from tacet.mechanisms.additive.real import Gaussian, Laplace
    from tacet.mechanisms.additive.staircase import Staircase
    from tacet.mechanisms.additive.truncated import TruncatedLaplace
    from tacet.mechanisms.clipping import clip_rows, clip_users, clipping_sensitivity
    from tacet.mechanisms.correlated.marginals import Marginals
    from tacet.mechanisms.correlated.matrix import MatrixMechanism
    from tacet.mechanisms.correlated.square_root import SquareRootToeplitz
    from tacet.mechanisms.correlated.tree import BinaryTree
    from tacet.mechanisms.keys.partitions import PartitionSelection
    from tacet.mechanisms.keys.thresholded import ThresholdedGaussian, ThresholdedLaplace
    from tacet.mechanisms.response.categorical import RandomizedResponse
    from tacet.mechanisms.response.directions import Directions
    from tacet.mechanisms.response.hadamard import HadamardResponse
    from tacet.mechanisms.response.hashing import LocalHashing
    from tacet.mechanisms.response.hybrid import Hybrid
    from tacet.mechanisms.response.numbers import Duchi, Piecewise
    from tacet.mechanisms.response.subsets import SubsetSelection
    from tacet.mechanisms.response.unary import OUE, RAPPOR
    from tacet.mechanisms.retry.absorb import AbsorbFailure
    from tacet.mechanisms.retry.best import BestOf
    from tacet.mechanisms.retry.success import ConditionOnSuccess
    from tacet.mechanisms.selection.exponential import Exponential
    from tacet.mechanisms.selection.noisy_max import PermuteAndFlip, ReportNoisyMax
    from tacet.mechanisms.selection.piecewise import PiecewiseConstantExponential
    from tacet.mechanisms.selection.stable import StableSelection
    from tacet.mechanisms.selection.top import NoisyMaxWithGap, TopK, TopKWithGaps
    from tacet.mechanisms.selection.tree import TreeSelection
    from tacet.mechanisms.sparse_vector.gaussian import GaussianAboveThreshold
    from tacet.mechanisms.sparse_vector.numeric import NumericSparse
    from tacet.mechanisms.sparse_vector.threshold import AboveThreshold, Sparse
    from tacet.mechanisms.sums import fixed_point_sensitivity, fixed_point_sum

__all__ = [
    "OUE",
    "RAPPOR",
    "AboveThreshold",
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
    "Geometric",
    "HadamardResponse",
    "Hybrid",
    "InverseSensitivity",
    "KNorm",
    "Laplace",
    "LocalHashing",
    "Marginals",
    "MatrixMechanism",
    "MultivariateGaussian",
    "NoisyMaxWithGap",
    "NumericSparse",
    "PartitionSelection",
    "PermuteAndFlip",
    "Piecewise",
    "PiecewiseConstantExponential",
    "ProposeTestRelease",
    "RaceToTheTop",
    "RandomizedResponse",
    "ReportNoisyMax",
    "ShiftedInverse",
    "SmoothSensitivity",
    "Sparse",
    "SquareRootToeplitz",
    "StableSelection",
    "Staircase",
    "SubsetSelection",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "TopK",
    "TopKWithGaps",
    "TreeSelection",
    "TruncatedLaplace",
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
    "AboveThreshold": "sparse_vector.threshold",
    "AbsorbFailure": "retry.absorb",
    "BestOf": "retry.best",
    "BinaryTree": "correlated.tree",
    "BoundedLaplace": "additive.bounded",
    "ConditionOnSuccess": "retry.success",
    "Directions": "response.directions",
    "DiscreteGaussian": "additive.integer",
    "DiscreteLaplace": "additive.integer",
    "Duchi": "response.numbers",
    "Exponential": "selection.exponential",
    "FoundClipping": "adaptive.found_clipping",
    "Gaussian": "additive.real",
    "GaussianAboveThreshold": "sparse_vector.gaussian",
    "Geometric": "additive.integer",
    "HadamardResponse": "response.hadamard",
    "Hybrid": "response.hybrid",
    "InverseSensitivity": "adaptive.inverse",
    "KNorm": "additive.norms",
    "Laplace": "additive.real",
    "LocalHashing": "response.hashing",
    "Marginals": "correlated.marginals",
    "MatrixMechanism": "correlated.matrix",
    "MultivariateGaussian": "additive.multivariate",
    "NoisyMaxWithGap": "selection.top",
    "NumericSparse": "sparse_vector.numeric",
    "OUE": "response.unary",
    "PartitionSelection": "keys.partitions",
    "PermuteAndFlip": "selection.noisy_max",
    "Piecewise": "response.numbers",
    "PiecewiseConstantExponential": "selection.piecewise",
    "RAPPOR": "response.unary",
    "ProposeTestRelease": "adaptive.propose_test_release",
    "RaceToTheTop": "adaptive.race_to_the_top",
    "RandomizedResponse": "response.categorical",
    "ReportNoisyMax": "selection.noisy_max",
    "ShiftedInverse": "adaptive.shifted_inverse",
    "SmoothSensitivity": "adaptive.smooth",
    "Sparse": "sparse_vector.threshold",
    "SquareRootToeplitz": "correlated.square_root",
    "StableSelection": "selection.stable",
    "Staircase": "additive.staircase",
    "SubsetSelection": "response.subsets",
    "ThresholdedGaussian": "keys.thresholded",
    "ThresholdedLaplace": "keys.thresholded",
    "TopK": "selection.top",
    "TopKWithGaps": "selection.top",
    "TreeSelection": "selection.tree",
    "TruncatedLaplace": "additive.truncated",
    "check_sensitivity": "adaptive.checking",
    "clip_rows": "clipping",
    "clip_users": "clipping",
    "clipping_sensitivity": "clipping",
    "down_sensitivity": "adaptive.sensitivities",
    "fixed_point_sensitivity": "sums",
    "fixed_point_sum": "sums",
    "geometric_grid": "adaptive.grids",
    "item_set_losses": "adaptive.item_sets",
    "local_sensitivity": "adaptive.sensitivities",
    "smooth_sensitivity": "adaptive.sensitivities",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tacet.mechanisms' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacet.mechanisms.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
