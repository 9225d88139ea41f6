"""Correlated noise: errors of many answers cancel, since they share the same draws."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.correlated.marginals import Marginals
    from unacorda.mechanisms.correlated.matrix import MatrixMechanism
    from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
    from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz
    from unacorda.mechanisms.correlated.workloads import Prefixes, Ranges

__all__ = ["BinaryTree", "Marginals", "MatrixMechanism", "Prefixes", "Ranges", "SquareRootToeplitz"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "marginals": "Marginals",
        "matrix": "MatrixMechanism",
        "prefix_sums": "BinaryTree",
        "toeplitz": "SquareRootToeplitz",
        "workloads": "Prefixes Ranges",
    },
)
