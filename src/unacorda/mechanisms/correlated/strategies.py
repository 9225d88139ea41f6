r"""Strategies: measurements from which a workload of queries gets the least noise.

A strategy C is measured with independent noise, and queries are estimated by least squares. Where
a unit moves one cell by 1, its sensitivity is the largest column norm |C|, and at a noise
multiplier of 1 the variances of all queries sum up to |C|^2 trace(W (C^T C)^+), W = A^T A.
Source: Li, Miklau, Hay, McGregor, Rastogi 2015, "The matrix mechanism", VLDB Journal 24.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.workloads import (
    LARGEST_CELLS,
    Workload,
    as_workload,
    real_matrix,
)
from unacorda.mechanisms.parameters import whole

Floats: TypeAlias = NDArray[np.float64]

_LOST = 1e-12  # of the squared norm of a workload: what lies beyond is round-off
_FAINT = 1e-13
_RELAXED = 1.5
_MOST_ITERATIONS = 500
_BRANCHINGS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimised:
    """A strategy, and how near it is to the best.

    matrix: with columns of norm 1; total_variance: of all queries at a noise multiplier of 1;
    lower_bound: no strategy whatever has less, up to the round-off of floats.
    """

    matrix: Floats
    total_variance: float
    lower_bound: float


def identity(cells: int) -> Floats:
    """Each cell by itself.

    >>> identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(whole("cells", cells, least=1, most=LARGEST_CELLS))


def hierarchical(cells: int, *, branching: int) -> Floats:
    """All nodes of a tree over the cells, each the sum of `branching` below it.

    Each cell is in one node of each level; columns have norm 1.
    Source: Hay, Rastogi, Miklau, Suciu 2010, "Boosting the accuracy of differentially private
    histograms through consistency".

    >>> (hierarchical(4, branching=2) * 3**0.5).round(12).tolist()[:3]
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    count = whole("cells", cells, least=1, most=LARGEST_CELLS)
    width = whole("branching", branching, least=2, most=LARGEST_CELLS)
    levels = [np.eye(count)]
    size = width
    while levels[-1].shape[0] > 1:
        nodes = np.arange(count) // size
        levels.append((nodes == np.arange(nodes[-1] + 1)[:, None]).astype(np.float64))
        size *= width
    return np.concatenate(levels[::-1]) / math.sqrt(len(levels))


def haar(cells: int) -> Floats:
    """The Haar wavelets of a histogram, each with entries of one size; columns have norm 1.

    Where `cells` is no power of two, those of the next one, the cells beyond being empty.
    Source: Xiao, Wang, Gehrke 2010, "Differential privacy via wavelet transforms".

    >>> (haar(4) * 3**0.5).round(12).astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    """
    count = whole("cells", cells, least=1, most=LARGEST_CELLS)
    levels = (count - 1).bit_length()
    rows = [np.ones((1, 1 << levels))]
    for height in range(levels, 0, -1):
        half = np.ones(1 << (height - 1))
        rows.append(np.kron(np.eye(1 << (levels - height)), np.concatenate([half, -half])))
    return np.concatenate(rows)[:, :count] / math.sqrt(levels + 1)


def best_hierarchical(workload: Workload | ArrayLike) -> Floats:
    """The tree of least total variance for a workload, of the branchings 2 to 64, or the identity.

    >>> from unacorda.mechanisms.correlated.workloads import Ranges
    >>> best_hierarchical(Ranges(64)).shape
    (127, 64)
    """
    asked = as_workload(workload)
    trees = [identity(asked.cells)]
    trees += [hierarchical(asked.cells, branching=b) for b in _BRANCHINGS if b <= asked.cells]
    return min(trees, key=lambda tree: total_variance(asked, tree))


def total_variance(workload: Workload | ArrayLike, strategy: ArrayLike) -> float:
    """The variances of all queries, summed up, at a noise multiplier of 1 for one cell.

    Raises InvalidParameter where the strategy does not answer every query.

    >>> total_variance([[1, 1], [1, -1]], identity(2))
    4.0
    """
    asked = as_workload(workload)
    matrix = real_matrix("strategy", strategy)
    covariance = cell_covariance(asked, matrix)
    square = float(np.max(np.einsum("ij,ij->j", matrix, matrix)))
    return square * float(np.sum(asked.gram * covariance))


def cell_covariance(workload: Workload, matrix: Floats) -> Floats:
    """The covariance (C^T C)^+ of the least-squares estimates of the cells at sigma = 1.

    Raises InvalidParameter where the strategy does not answer every query.
    """
    if matrix.shape[1] != workload.cells:
        raise InvalidParameter(
            "strategy", matrix.shape, expected=f"{workload.cells} columns, one for each cell"
        )
    values, vectors = linalg.eigh(matrix.T @ matrix)
    seen = values > _FAINT * max(matrix.shape) * values[-1]
    gram = workload.gram
    unseen = vectors[:, ~seen]
    if float(np.sum((gram @ unseen) * unseen)) > _LOST * float(np.trace(gram)):
        raise InvalidParameter(
            "strategy", matrix.shape, expected="rows from which each query can be computed"
        )
    covariance: Floats = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return covariance


def svd_bound(workload: Workload | ArrayLike) -> float:
    r"""A lower bound on `total_variance` of every strategy: (trace W^(1/2))^2 / cells.

    Source: Li and Miklau 2013, arXiv:1309.3292, "Optimal error of query sets under the
    differentially private matrix mechanism", Theorem 5.

    >>> round(svd_bound([[1, 1], [1, -1]]), 9)
    4.0
    """
    asked = as_workload(workload)
    total, _ = _square_root(asked.gram)
    return total * total / asked.cells


def optimal(workload: Workload | ArrayLike, *, tolerance: float = 1e-4) -> Optimised:
    r"""The strategy of least total variance, to within the relative `tolerance`.

    It minimises trace(W X^-1) over Gram matrices X = C^T C with a diagonal of at most 1, which is
    convex. Its dual is to maximise (trace S)^2 / sum(mu), S = (M^(1/2) W M^(1/2))^(1/2), over
    diagonal matrices M = diag(mu); where diag(S) = mu, X = M^(-1/2) S M^(-1/2) solves both. That is
    a fixed point, iterated here; each step gives a strategy and a lower bound for all, and the
    distance of the two ends it. A step takes two eigenvalue problems of the size `cells`.
    Source: Denisov et al. 2022, arXiv:2202.08312, Theorem 3.2 (the iteration); Li and Miklau 2013.

    >>> from unacorda.mechanisms.correlated.workloads import Ranges
    >>> best = optimal(Ranges(16))
    >>> best.lower_bound <= best.total_variance <= 1.0001 * best.lower_bound
    True
    """
    aim = checks.positive(tolerance=tolerance)
    asked = as_workload(workload)
    gram = asked.gram
    used = np.flatnonzero(np.diag(gram) > 0)
    unit = float(np.trace(gram)) / used.size
    inner = gram[np.ix_(used, used)] / unit
    multipliers = np.sqrt(np.diag(inner))
    best, least, lower = np.eye(used.size), math.inf, 0.0
    for _ in range(_MOST_ITERATIONS):
        roots = np.sqrt(multipliers)
        root_trace, found = _square_root(inner * np.outer(roots, roots))
        lower = max(lower, root_trace**2 / float(multipliers.sum()))
        ratios = np.diag(found) / multipliers
        top = float(ratios.max())
        candidate = found / np.outer(roots, roots) / top
        # The room that is left in a column serves the cell itself, which does no harm.
        candidate[np.diag_indices_from(candidate)] = 1.0
        cost = _cost(inner, candidate)
        if cost < least:
            best, least = candidate, cost
        if least <= (1 + aim) * lower:
            break
        # The step of the fixed point is 1; longer ones go faster.
        multipliers = multipliers * np.maximum(ratios, 1e-12) ** _RELAXED
        multipliers = np.maximum(multipliers, 1e-30 * multipliers.max())
    values, vectors = linalg.eigh(best)
    seen = values > _FAINT * values[-1]
    matrix = np.zeros((int(seen.sum()), asked.cells))
    matrix[:, used] = (vectors[:, seen] * np.sqrt(values[seen])).T
    return Optimised(matrix=matrix, total_variance=least * unit, lower_bound=lower * unit)


def _square_root(matrix: Floats) -> tuple[float, Floats]:
    """The trace of the square root of a positive semidefinite matrix, and the root.

    Faint eigenvalues are round-off and count as 0, so that bounds from below stay below.
    """
    values, vectors = linalg.eigh(matrix)
    roots = np.sqrt(np.where(values > _FAINT * values[-1], values, 0.0))
    return float(roots.sum()), (vectors * roots) @ vectors.T


def _cost(gram: Floats, candidate: Floats) -> float:
    """trace(W X^-1), infinite where X is singular and W is not in its range."""
    values, vectors = linalg.eigh(candidate)
    seen = values > _FAINT * values[-1]
    weights = np.einsum("ij,ij->j", vectors, gram @ vectors)
    if float(weights[~seen].sum()) > _LOST * float(weights.sum()):
        return math.inf
    return float(np.sum(weights[seen] / values[seen]))
