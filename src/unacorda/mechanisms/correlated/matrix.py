r"""The matrix mechanism: many linear queries on a histogram through a few measurements of it.

The release is y = C x + noise with the strategy C; x is estimated from it by least squares, and
every query from that. `strategies` has strategies for workloads.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.correlated.grid import LARGEST_ROW, Grid, grid_for, halves
from unacorda.mechanisms.correlated.strategies import cell_covariance, svd_bound
from unacorda.mechanisms.correlated.workloads import Workload, as_workload, real_matrix
from unacorda.mechanisms.parameters import Real, exact_root_down, exponent, positive, whole
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_U = Fraction(1, 1 << 53)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MatrixMechanism:
    r"""Release the answers to a workload of linear queries on a histogram, by a strategy.

    Source: Li, Hay, Rastogi, Miklau, McGregor 2010; Li, Miklau, Hay, McGregor, Rastogi 2015;
    docs/proofs/correlated.md.

    Parameters
    ----------
    workload
        A matrix of queries, one row each, or `Prefixes`, `Ranges`.
    strategy
        A matrix of measurements, one column for each cell, from whose rows each query can be
        computed. It is rounded to multiples of a power of two, about 2^-30.
    sigma
        Standard deviation of the noise of each measurement, above 0.
    sensitivity
        The largest change of one cell by a unit, above 0.
    moved
        The most cells that a unit changes.
    grid_log2
        Values count as the nearest multiples of 2^grid_log2, by default 2^-24 of sensitivity or
        noise; 0 keeps whole numbers whole, up to 2^56.

    Examples
    --------
    >>> from unacorda.mechanisms.correlated import strategies
    >>> strategy = strategies.identity(3)
    >>> sums = MatrixMechanism(
    ...     workload=[[1, 1, 0], [1, 1, 1]], strategy=strategy, sigma=2, sensitivity=1
    ... )
    >>> sums.event
    Gaussian(noise_multiplier=2)
    >>> sums.standard_errors().round(3).tolist()
    [2.828, 3.464]
    >>> sums.release([10, 20, 30]).shape
    (2,)
    """

    workload: Workload
    strategy: Floats
    sigma: Real
    sensitivity: Real
    moved: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default
    _numbers: Integers = field(init=False)
    _scale_log2: int = field(init=False)
    _square: Fraction = field(init=False)
    _covariance: Floats = field(init=False)

    def __post_init__(self) -> None:
        workload = as_workload(self.workload)
        numbers, scale_log2 = _rounded(real_matrix("strategy", self.strategy))
        measured = np.ldexp(numbers.astype(np.float64), -scale_log2)
        measured.setflags(write=False)
        covariance = cell_covariance(workload, measured)
        keep(
            self,
            workload=workload,
            strategy=measured,
            sigma=positive("sigma", self.sigma),
            sensitivity=positive("sensitivity", self.sensitivity),
            moved=whole("moved", self.moved, least=1, most=workload.cells),
            _numbers=numbers,
            _scale_log2=scale_log2,
            _covariance=covariance,
        )
        keep(self, grid_log2=self.grid.input_log2, _square=_squared_move(numbers, self.moved))

    @property
    def grid(self) -> Grid:
        """The public numbers of the release; one cell moves by whole steps."""
        return grid_for(
            sigma=checks.exact("sigma", self.sigma),
            sensitivity=checks.exact("sensitivity", self.sensitivity),
            dimension=1,
            grid_log2=exponent(self.grid_log2),
            scale_log2=self._scale_log2,
        )

    @property
    def event(self) -> events.Gaussian:
        """The cost of one release: noise over the largest column norm, rounded down.

        If a unit changes several cells, noise over the square root of `moved` times the largest sum
        of as many of |C^T C| in a row.
        """
        move = self.grid.moved / Fraction(2) ** self._scale_log2
        ratio = (checks.exact("sigma", self.sigma) / move) ** 2 / self._square
        return events.Gaussian(noise_multiplier=exact_root_down(ratio))

    def standard_errors(self) -> Floats:
        """Standard deviation of the noise in each answer, shape (queries,), before any data."""
        return self.grid.deviation * np.sqrt(self.workload.variances(self._covariance))

    @property
    def expected_error(self) -> float:
        """The root of the mean, over all queries, of the expected squared error."""
        total = float(np.sum(self.workload.gram * self._covariance))
        return self.grid.deviation * math.sqrt(total / self.workload.queries)

    @property
    def lower_bound(self) -> float:
        """The singular value bound on `expected_error` of all strategies at this price."""
        noise = float(self.event.noise_multiplier) * float(self.grid.moved)
        return noise * math.sqrt(svd_bound(self.workload) / self.workload.queries)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """Release the noisy answers, shape (queries,), functions of one estimate of the cells.

        Parameters
        ----------
        x
            Shape (cells,), integers or floats of at most 64 bits; NaN counts as 0, values end at
            2^56 grid steps.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        return self.workload.answers(self.release_cells(x, bits=bits))

    def release_cells(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """Release the noisy cells behind the answers, shape (cells,), by least squares.

        `workload.answers` computes the answers from them, and other queries that the strategy
        measures can be computed too. The cells themselves are valid only if its columns are
        independent.

        Parameters
        ----------
        x, bits
            As for `release`.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        array = elements.numbers("x", x, dimensions=1)
        if array.shape != (self.workload.cells,):
            raise InvalidParameter("x", array.shape, expected=f"the shape ({self.workload.cells},)")
        grid = self.grid
        high, low = (self._numbers @ half for half in halves(grid.steps(array)))
        noisy = grid.release(high, low, scale_log2=self._scale_log2, bits=source_of(bits))
        estimate: Floats = self._covariance @ (self.strategy.T @ noisy)
        return estimate

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        return (
            f"MatrixMechanism({self.workload.queries} queries, {rows} measurements of {cells} "
            f"cells, sigma={self.sigma}, sensitivity={self.sensitivity}, moved={self.moved})"
        )


def _rounded(strategy: Floats) -> tuple[Integers, int]:
    """The strategy as whole multiples of 2^-scale_log2, as fine as exact products allow."""
    longest = float(np.abs(strategy).sum(axis=1).max())
    if not 2.0**-20 <= longest <= 2.0**20:
        raise InvalidParameter(
            "strategy", strategy.shape, expected="rows of numbers of about 1; scale it and sigma"
        )
    # Half of the room is left for what rounding adds to a row.
    scale_log2 = LARGEST_ROW.bit_length() - 2 - math.ceil(math.log2(longest))
    numbers: Integers = np.rint(np.ldexp(strategy, scale_log2)).astype(np.int64)
    return numbers, scale_log2


def _squared_move(numbers: Integers, moved: int) -> Fraction:
    """The square of how far `moved` cells, each moved by 1, move all measurements; rounded up."""
    columns = numbers.T.astype(object)
    squares = [int(column @ column) for column in columns]
    if moved == 1:
        return Fraction(max(squares))
    # |sum over i, j of d_i d_j G_ij| <= sum over i of the sum over j of |G_ij|, |d| <= 1.
    sizes = np.abs(numbers).astype(np.float64)
    gram = np.abs(numbers.astype(np.float64).T @ numbers.astype(np.float64))
    gram += (numbers.shape[0] + 8) * float(_U) * 1.01 * (sizes.T @ sizes)
    largest = np.sort(gram, axis=1)[:, -moved:].sum(axis=1).max()
    bound = Fraction(float(largest)) * moved * (1 + (moved + 8) * _U)
    return min(bound, Fraction(moved**2 * max(squares)))
