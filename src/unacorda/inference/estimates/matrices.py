r"""Covariance and correlation matrices from one release of first and second moments.

Columns are scaled to u in [-1, 1]^p. The sums of u and of a u u^T are released together, with the
Frobenius norm for the matrix. An entry off the diagonal appears twice, so its noise is 1 / sqrt 2
of the diagonal's. a^2 = 2 / p favors the matrix, since the means enter a covariance nearly squared.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.inference.records import (
    ArrayErrors,
    Floats,
    half_width,
    matrix,
    public_pair,
    shareable,
    unit_values,
)
from unacorda.inference.sums import ROUNDED, floored, noisy_mean, sum_noise
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.rounding import root_up


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixEstimate(ArrayErrors):
    """Holds a symmetric matrix and the errors of its entries, all of shape (p, p).

    Parameters
    ----------
    value
        Positive semidefinite.
    sampling_error, privacy_error
        Standard deviations of the entries.
    columns
        Names of rows and columns, for `to_pandas`.

    Examples
    --------
    >>> estimate = MatrixEstimate(
    ...     value=np.eye(2),
    ...     sampling_error=np.full((2, 2), 0.01),
    ...     privacy_error=np.full((2, 2), 0.02),
    ...     columns=("a", "b"),
    ... )
    >>> low, high = estimate.interval()
    >>> bool((low < estimate.value).all())
    True
    """

    value: Floats
    sampling_error: Floats
    privacy_error: Floats
    columns: tuple[str, ...]

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Returns intervals of the entries, both errors as normal.

        Parameters
        ----------
        confidence
            The coverage of each, strictly between 0 and 1.

        Returns
        -------
        lower, upper : arrays of shape (p, p)
            Ends, entry by entry.
        """
        half = half_width(confidence, self.sampling_error, self.privacy_error)
        return self.value - half, self.value + half

    def to_pandas(self) -> Any:
        """The value as a pandas data frame; MissingExtra where pandas is not installed."""
        frames = require("pandas", extra="frames")
        return frames.DataFrame(self.value, index=self.columns, columns=self.columns)


def covariance_matrix(
    X: ArrayLike,
    *,
    bounds: Sequence[tuple[float, float]],
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> MatrixEstimate:
    """Estimates the covariance matrix of bounded columns, with the errors of its entries.

    The value is the nearest positive semidefinite matrix (negative eigenvalues become 0). Sampling
    errors are those of a normal population.

    Source: docs/proofs/row_sums.md, section 4; Anderson 2003, Theorem 3.4.4 (sampling errors).

    Parameters
    ----------
    X
        Shape (n, p), one row per person; n is public. A missing value counts as the middle of its
        bounds.
    bounds
        A public (lower, upper) per column, to which values are clamped.
    budget, bits
        As for `mean`.

    Returns
    -------
    MatrixEstimate
        The matrix and its errors, in the products of the units of the columns.

    Raises
    ------
    InvalidParameter, MissingBound
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> x = np.arange(10000) % 100
    >>> estimate = covariance_matrix(
    ...     np.stack([x, 99 - x], axis=1),
    ...     bounds=[(0, 100), (0, 100)],
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> bool(np.abs(estimate.value - [[833, -833], [-833, 833]]).max() < 10)
    True
    """
    moments = _moments(X, bounds=bounds, budget=budget, bits=source_of(bits))
    value, noise, halves, n = moments.covariance, moments.noise, moments.halves, moments.n
    spread = np.sqrt((np.outer(value.diagonal(), value.diagonal()) + value**2) / max(n - 1, 1))
    scale = np.outer(halves, halves)
    return MatrixEstimate(
        value=scale * value,
        sampling_error=scale * spread,
        privacy_error=scale * noise,
        columns=moments.columns,
    )


def correlation_matrix(
    X: ArrayLike,
    *,
    bounds: Sequence[tuple[float, float]],
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> MatrixEstimate:
    """Estimates the correlation matrix of bounded columns, with the errors of its entries.

    It is `covariance_matrix`, scaled to a unit diagonal. Errors are to first order: sampling (1 -
    r^2) / sqrt n, as in a normal population; noise by the delta method. If the noise hides a
    column's variance, its correlations are 0 with an error of 1.

    Source: Anderson 2003, Theorem 4.2.4 (sampling errors).

    Parameters
    ----------
    X, bounds, budget, bits
        As for `covariance_matrix`.

    Returns
    -------
    MatrixEstimate
        Correlations from -1 to 1, and their errors.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> x = np.arange(10000) % 100
    >>> estimate = correlation_matrix(
    ...     np.stack([x, 99 - x], axis=1),
    ...     bounds=[(0, 100), (0, 100)],
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> bool(estimate.value[0, 1] < -0.98)
    True
    """
    moments = _moments(X, bounds=bounds, budget=budget, bits=source_of(bits))
    variances, noise = moments.covariance.diagonal(), moments.noise
    heard = variances > 2 * noise.diagonal()
    roots = np.sqrt(np.where(heard, variances, 1.0))
    value = np.clip(moments.covariance / np.outer(roots, roots), -1.0, 1.0)
    unheard = ~np.outer(heard, heard)
    value[unheard] = 0.0
    np.fill_diagonal(value, 1.0)
    own = noise.diagonal() / roots**2
    slope = np.hypot(noise / np.outer(roots, roots), value * np.hypot.outer(own, own) / 2)
    sampling = (1 - value**2) / math.sqrt(moments.n)
    slope[unheard], sampling[unheard] = 1.0, 0.0
    np.fill_diagonal(slope, 0.0)
    np.fill_diagonal(sampling, 0.0)
    return MatrixEstimate(
        value=value,
        sampling_error=sampling,
        privacy_error=np.minimum(slope, 1.0),
        columns=moments.columns,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments:
    """Released: the covariance of scaled columns, the deviation of its noise, and public sizes."""

    covariance: Floats
    noise: Floats
    halves: Floats
    n: int
    columns: tuple[str, ...]


def _moments(
    X: ArrayLike,
    *,
    bounds: Sequence[tuple[float, float]],
    budget: Guarantee,
    bits: RandomBits,
) -> _Moments:
    names = getattr(X, "columns", None)
    table = matrix("X", X)
    n, p = table.shape
    ranges = _ranges(bounds, columns=p)
    units = np.stack(
        [unit_values(table[:, j], lower=low, upper=high) for j, (low, high) in enumerate(ranges)],
        axis=1,
    )
    weight = math.sqrt(2 / p)
    upper = np.triu_indices(p)
    # Off the diagonal an entry stands for two: sqrt 2 of it has the matrix's Frobenius norm.
    twice = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))

    def part(rows: slice) -> Floats:
        block = units[rows]
        squares = (block.T @ block)[upper] * twice
        return np.concatenate([block.sum(axis=0), weight * squares])

    a = Fraction(root_up(Fraction(2, p)))
    l2 = Fraction(root_up(Fraction(2))) * (a * p + 1 / (2 * a)) * ROUNDED
    size = p + len(twice)
    row_bound = Fraction(root_up(p + a**2 * p**2)) * ROUNDED
    # |u - v|_1 <= 2 p; products differ by 2 at most, squares by 1.
    l1 = (2 * p + a * (p + Fraction(root_up(Fraction(2))) * p * (p - 1))) * ROUNDED
    noise = sum_noise(
        shareable(budget, releases=size),
        rows=n,
        size=size,
        row_bound=row_bound,
        l1=l1,
        l2=l2,
        ratio=math.isqrt(size - 1) + 1,
    )
    sums, error = noisy_mean(part, noise, rows=n, size=size, row_bound=row_bound, bits=bits)
    means = sums[:p]
    second, deviation = np.empty((p, p)), np.empty((p, p))
    second[upper] = second.T[upper] = sums[p:] / (weight * twice)
    deviation[upper] = deviation.T[upper] = error / (weight * twice)
    covariance = second - np.outer(means, means) + error**2 * np.eye(p)
    crossed = error * np.hypot.outer(means, means) * np.where(np.eye(p), math.sqrt(2), 1.0)
    return _Moments(
        covariance=floored(covariance * n / max(n - 1, 1), 0.0),
        noise=np.sqrt(deviation**2 + crossed**2 + error**4),
        halves=np.array([(high - low) / 2 for low, high in ranges]),
        n=n,
        columns=tuple(map(str, names if names is not None else range(p))),
    )


def _ranges(bounds: Sequence[tuple[float, float]], *, columns: int) -> list[tuple[float, float]]:
    try:
        given = list(bounds)
    except TypeError:
        given = []
    if len(given) != columns:
        raise InvalidParameter(
            "bounds", bounds, expected=f"a pair (lower, upper) for each of {columns} columns"
        )
    return [public_pair(f"bounds[{j}]", pair, of=f"column {j}") for j, pair in enumerate(given)]
