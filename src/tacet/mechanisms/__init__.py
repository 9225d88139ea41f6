"""Mechanisms: how a number, an array or a choice is released.

Each is a frozen value with an `event`, which says what a release costs, and a `release`. They are
loaded when they are first named.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacet.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace, Geometric
    from tacet.mechanisms.additive.real import Gaussian, Laplace
    from tacet.mechanisms.additive.staircase import Staircase
    from tacet.mechanisms.additive.truncated import TruncatedLaplace
    from tacet.mechanisms.keys.partitions import PartitionSelection
    from tacet.mechanisms.keys.thresholded import ThresholdedGaussian, ThresholdedLaplace
    from tacet.mechanisms.selection import Exponential
    from tacet.mechanisms.sparse_vector.numeric import NumericSparse
    from tacet.mechanisms.sparse_vector.threshold import AboveThreshold, Sparse

__all__ = [
    "AboveThreshold",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Geometric",
    "Laplace",
    "NumericSparse",
    "PartitionSelection",
    "Sparse",
    "Staircase",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "TruncatedLaplace",
]

_HOMES = {
    "AboveThreshold": "sparse_vector.threshold",
    "DiscreteGaussian": "additive.integer",
    "DiscreteLaplace": "additive.integer",
    "Exponential": "selection",
    "Gaussian": "additive.real",
    "Geometric": "additive.integer",
    "Laplace": "additive.real",
    "NumericSparse": "sparse_vector.numeric",
    "PartitionSelection": "keys.partitions",
    "Sparse": "sparse_vector.threshold",
    "Staircase": "additive.staircase",
    "ThresholdedGaussian": "keys.thresholded",
    "ThresholdedLaplace": "keys.thresholded",
    "TruncatedLaplace": "additive.truncated",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tacet.mechanisms' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tacet.mechanisms.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
