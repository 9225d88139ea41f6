"""The sparse vector technique: which questions of a stream exceed a threshold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.sparse_vector.threshold import NumericSparse, SparseVector

__all__ = ["NumericSparse", "SparseVector"]

__getattr__, __dir__ = lazy(__name__, {"threshold": "NumericSparse SparseVector"})
