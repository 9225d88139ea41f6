"""Counts of cells by place on a grid, as an engine would give them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.seams import GridCounts

__all__ = ["counted_cells"]


def counted_cells(counts: NDArray[Any]) -> GridCounts:
    """Of rows by cell and place."""
    cells, places = np.nonzero(counts)
    return GridCounts.of(counts.shape[1] - 1, len(counts), (cells, places, counts[cells, places]))
