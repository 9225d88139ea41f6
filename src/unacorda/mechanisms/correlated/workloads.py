"""Workloads: sets of linear queries on a histogram, without a matrix if it would be large."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.events.fields import keep

Floats: TypeAlias = NDArray[np.float64]

LARGEST_CELLS = 1 << 12
"""Histograms of more cells need strategies that are not written as matrices."""


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Any linear queries, given by their matrix A of shape (queries, cells), all numbers finite.

    >>> Queries([[1, 1, 0], [0, 1, 1]]).gram.tolist()
    [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]]
    """

    matrix: Floats

    def __post_init__(self) -> None:
        matrix = real_matrix("workload", self.matrix)
        if not matrix.any():
            raise InvalidParameter(
                "workload", matrix.shape, expected="a query with a coefficient other than 0"
            )
        keep(self, matrix=matrix)

    @property
    def cells(self) -> int:
        """The length of the histogram."""
        return int(self.matrix.shape[1])

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.matrix.shape[0])

    @property
    def gram(self) -> Floats:
        """A^T A."""
        product: Floats = self.matrix.T @ self.matrix
        return product

    def answers(self, histogram: Floats) -> Floats:
        """A x."""
        product: Floats = self.matrix @ histogram
        return product

    def variances(self, covariance: Floats) -> Floats:
        """The diagonal of A K A^T."""
        found: Floats = np.einsum("ij,ij->i", self.matrix @ covariance, self.matrix)
        return np.maximum(found, 0.0)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The sums of the first 1, 2, ..., `cells` cells.

    Parameters
    ----------
    cells
        The number of cells.

    Examples
    --------
    >>> Prefixes(3).answers(np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0]
    """

    cells: int

    def __post_init__(self) -> None:
        keep(self, cells=whole("cells", self.cells, least=1, most=LARGEST_CELLS))

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return self.cells

    @property
    def gram(self) -> Floats:
        """A^T A: how many prefixes hold both cells."""
        places = np.arange(self.cells)
        return (self.cells - np.maximum.outer(places, places)).astype(np.float64)

    def answers(self, histogram: Floats) -> Floats:
        """Compute the exact sums, A x.

        Parameters
        ----------
        histogram
            The counts of the cells.

        Returns
        -------
        array
            The sums.
        """
        return np.cumsum(histogram)

    def variances(self, covariance: Floats) -> Floats:
        """Compute the variance of each sum, the diagonal of A K A^T.

        Parameters
        ----------
        covariance
            The covariance matrix K of the noisy cells.

        Returns
        -------
        array
            The variances.
        """
        return np.maximum(np.diag(_sums_to(covariance))[1:], 0.0)


@dataclass(frozen=True, slots=True)
class Ranges:
    """The sums over all ranges of cells, in the order of `bounds`.

    Parameters
    ----------
    cells
        The number of cells.

    Examples
    --------
    >>> ranges = Ranges(3)
    >>> ranges.bounds.tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    >>> ranges.answers(np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0, 2.0, 5.0, 3.0]
    """

    cells: int

    def __post_init__(self) -> None:
        keep(self, cells=whole("cells", self.cells, least=1, most=LARGEST_CELLS))

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return self.cells * (self.cells + 1) // 2

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The first cell of each range, and the one behind its last."""
        first, last = np.triu_indices(self.cells)
        return np.stack([first, last + 1], axis=1).astype(np.int64)

    @property
    def gram(self) -> Floats:
        """A^T A: how many ranges hold both cells."""
        places = np.arange(self.cells, dtype=np.float64)
        before = np.minimum.outer(places, places) + 1
        found: Floats = before * (self.cells - np.maximum.outer(places, places))
        return found

    def answers(self, histogram: Floats) -> Floats:
        """Compute the exact sums, A x.

        Parameters
        ----------
        histogram
            The counts of the cells.

        Returns
        -------
        array
            The sums, in the order of `bounds`.
        """
        sums = np.concatenate([[0.0], np.cumsum(histogram)])
        start, stop = self.bounds.T
        found: Floats = sums[stop] - sums[start]
        return found

    def variances(self, covariance: Floats) -> Floats:
        """Compute the variance of each sum, the diagonal of A K A^T.

        Parameters
        ----------
        covariance
            The covariance matrix K of the noisy cells.

        Returns
        -------
        array
            The variances, in the order of `bounds`.
        """
        sums = _sums_to(covariance)
        start, stop = self.bounds.T
        own = np.diag(sums)
        found: Floats = own[stop] - 2 * sums[start, stop] + own[start]
        return np.maximum(found, 0.0)


Workload: TypeAlias = Queries | Prefixes | Ranges
"""Queries A on a histogram of `cells` numbers, one row of A each."""


def as_workload(value: Workload | ArrayLike) -> Workload:
    """The workload itself, or that of a matrix of queries."""
    if isinstance(value, Workload):
        return value
    return Queries(value)  # type: ignore[arg-type]  # read as a matrix there, or refused


def real_matrix(argument: str, value: ArrayLike) -> Floats:
    """A finite real matrix with columns for at most 4096 cells; else InvalidParameter."""
    array = elements.floats(argument, value, expected="a matrix of real numbers")
    if array.ndim != 2 or 0 in array.shape or array.shape[1] > LARGEST_CELLS:
        raise InvalidParameter(
            argument,
            array.shape,
            expected=f"the shape (rows, cells), at most {LARGEST_CELLS} cells",
        )
    matrix = np.array(array)
    if not np.isfinite(matrix).all():
        raise InvalidParameter(argument, "a matrix with NaN or infinity", expected="finite numbers")
    matrix.setflags(write=False)
    return matrix


def _sums_to(covariance: Floats) -> Floats:
    """Sums of the covariance over the first i and the first j cells, for i and j from 0."""
    sums = np.zeros((covariance.shape[0] + 1, covariance.shape[1] + 1))
    sums[1:, 1:] = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    return sums
