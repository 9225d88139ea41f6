"""Models as one table over all cells, against which trees of cliques are checked."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["dense", "summed"]


def dense(
    sizes: Sequence[int], factors: Mapping[tuple[int, ...], NDArray[Any]]
) -> tuple[NDArray[Any], float]:
    """All probabilities, and the logarithm of the sum of all products of factors."""
    logs = np.zeros(tuple(sizes))
    for columns, factor in factors.items():
        logs = logs + factor.reshape([s if a in columns else 1 for a, s in enumerate(sizes)])
    top = logs.max()
    weights = np.exp(logs - top)
    return weights / weights.sum(), float(np.log(weights.sum()) + top)


def summed(table: NDArray[Any], columns: tuple[int, ...]) -> NDArray[Any]:
    """The marginal over some columns."""
    return np.asarray(table.sum(axis=tuple(a for a in range(table.ndim) if a not in columns)))
