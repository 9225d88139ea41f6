"""Selection of the best of many candidates, by noisy maxima of several kinds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.selection.exponential import Exponential, PiecewiseConstantExponential
    from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
    from unacorda.mechanisms.selection.stable import StableSelection
    from unacorda.mechanisms.selection.tree import TreeSelection

__all__ = [
    "Exponential",
    "PermuteAndFlip",
    "PiecewiseConstantExponential",
    "StableSelection",
    "TopK",
    "TreeSelection",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "exponential": "Exponential PiecewiseConstantExponential",
        "noisy_max": "PermuteAndFlip TopK",
        "stable": "StableSelection",
        "tree": "TreeSelection",
    },
)
