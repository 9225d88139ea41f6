"""Partition selection: which keys of a table may be released, and with which noisy counts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.partitions.selection import PartitionSelection
    from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian, ThresholdedLaplace

__all__ = ["PartitionSelection", "ThresholdedGaussian", "ThresholdedLaplace"]

__getattr__, __dir__ = lazy(
    __name__,
    {"selection": "PartitionSelection", "thresholded": "ThresholdedGaussian ThresholdedLaplace"},
)
