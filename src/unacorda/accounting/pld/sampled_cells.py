"""Masses of a Poisson-sampled Gaussian step between places, and what they say of its loss.

The step's output x is drawn from (1 - q) N(0, 1) + q N(mu, 1), or from N(0, 1) without the unit.
The ratio of both densities is (1 - q) e^o, where the offset o(x) = ln(1 + e^z) grows with x, from 0
on, and z = ln(q / (1 - q)) + mu x - mu^2 / 2. Of a set of outputs, o is that of the ratio of its
masses. Errors: docs/proofs/capped.md, Lemma 2.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from unacorda.accounting.contour.legendre import legendre
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Cells", "SampledGaussian"]

_U = 2.0**-53
_POINTS = 8
_NARROW = 0.12
_MOST_CELLS = 1 << 22
_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_NORMAL_ERROR = 1e-14
"""log_ndtr(x) counts as right within (1 + x^2) times this, relative; its argument is rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Sets of outputs: ln of the mass under N(0, 1), and z; both with bounds of their errors."""

    log_null: Array
    null_error: Array
    z: Array
    z_error: Array

    @property
    def offset(self) -> Array:
        """o, see the file's first lines."""
        found: Array = np.logaddexp(0.0, self.z)
        return found

    @property
    def offset_error(self) -> Array:
        """A bound of its error, as ln(1 + e^z) moves by less than z, and by less in proportion."""
        offset = self.offset
        steep = np.minimum(1.0, offset * (1 + 8 * _U))
        found: Array = steep * np.expm1(self.z_error) + 8 * _U * offset
        return found


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """A step with the rate q = rate and mu = mean; both numbers are meant exactly."""

    rate: float
    mean: float

    @property
    def base(self) -> float:
        """ln(1 - q), within 4 units of its last place."""
        return math.log1p(-self.rate)

    @property
    def log_odds(self) -> float:
        """ln(q / (1 - q)), within 4 units of the sizes of its terms."""
        return math.log(self.rate) - math.log1p(-self.rate)

    def places(self, offsets: Array) -> Array:
        """Places at about which the offset is this, above 0."""
        z = offsets + np.log(-np.expm1(-offsets))
        found: Array = (z - self.log_odds) / self.mean + 0.5 * self.mean
        return found

    def offset_at(self, place: float) -> float:
        """About the offset at a place."""
        return float(np.logaddexp(0.0, self.z(np.array([place]))[0][0]))

    def z(self, places: Array) -> tuple[Array, Array]:
        """What z is at places, and a bound of its error."""
        gap = self.mean * (places - 0.5 * self.mean)
        return self.log_odds + gap, self._error(np.abs(places))

    def cells(self, edges: Array) -> Cells:
        """Narrow cells between finite edges, by Gauss and Legendre: see `mesh`.

        Source      docs/proofs/capped.md, Lemma 2.
        """
        points, weights = legendre(_POINTS)
        half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
        moved = half[:, None] * points
        inner = np.exp(-moved * (middle[:, None] + 0.5 * moved))
        null = inner @ weights
        with np.errstate(divide="ignore"):
            log_null = np.log(half * null) - 0.5 * middle * middle - _LOG_ROOT
        raised = (inner * np.exp(self.mean * moved)) @ weights
        z, error = self.z(middle)
        size = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
        null_error = 8 * _U * (8 + size * size + np.where(half > 0, np.abs(log_null), 0.0))
        return Cells(
            log_null=log_null,
            null_error=null_error,
            z=z + np.log(raised / null),
            z_error=error + 32 * _U,
        )

    def mesh(self, low: float, high: float) -> Array:
        """Places from low to high between which cells are narrow.

        OverflowError where they would be more than four million: nothing is proved then.
        """
        far = max(abs(low), abs(high)) + self.mean + 1.0
        count = math.ceil((high - low) * far / (2 * _NARROW)) + 1
        if count > _MOST_CELLS:
            raise OverflowError(f"{count} cells")
        return np.linspace(low, high, count + 1)

    def grouped(self, edges: Array) -> Cells:
        """Cells of any width between increasing finite edges: narrow ones, gathered."""
        fine = np.union1d(edges, self.mesh(float(edges[0]), float(edges[-1])))
        cells = self.cells(fine)
        if len(fine) == len(edges):
            return cells
        starts = np.searchsorted(fine, edges[:-1])
        return _gathered(cells, starts)

    def below(self, place: float) -> Cells:
        """Everything below a place, as one cell."""
        return self._half_line(place, place - self.mean, place)

    def above(self, place: float) -> Cells:
        """Everything above a place, as one cell."""
        return self._half_line(-place, self.mean - place, place)

    def _half_line(self, null: float, moved: float, place: float) -> Cells:
        one, other = float(log_ndtr(null)), float(log_ndtr(moved))
        slip = 4 * _U * (1 + abs(place) + self.mean) ** 2
        wrong = _NORMAL_ERROR * (1 + null * null) * abs(one)  # its argument is exact
        also = _NORMAL_ERROR * (1 + moved * moved) * abs(other) + slip
        z = self.log_odds + other - one
        error = wrong + also + self._error(np.array([0.0])) + 4 * _U * (abs(one) + abs(other))
        return Cells(
            log_null=np.array([one]), null_error=np.array([wrong]), z=np.array([z]), z_error=error
        )

    def _error(self, size: Array) -> Array:
        known = abs(math.log(self.rate)) + abs(math.log1p(-self.rate)) + 1
        found: Array = 8 * _U * (known + self.mean * (size + self.mean))
        return found


def _gathered(cells: Cells, starts: NDArray[np.int64]) -> Cells:
    """Cells from each start to the next one as one."""
    counts = np.diff(np.append(starts, len(cells.z)))
    peaks = np.maximum.reduceat(cells.log_null, starts)
    firsts = cells.z[starts]
    with np.errstate(under="ignore", invalid="ignore"):
        shares = np.exp(cells.log_null - np.repeat(peaks, counts))
        shares = np.where(np.isnan(shares), 0.0, shares)  # nothing in an empty cell
        turned = shares * np.exp(cells.z - np.repeat(firsts, counts))
        null, moved = np.add.reduceat(shares, starts), np.add.reduceat(turned, starts)
        log_null = peaks + np.log(null)
        z = firsts + np.log(moved / null)
    null_error = np.maximum.reduceat(cells.null_error, starts)
    z_error = np.maximum.reduceat(cells.z_error, starts)
    many = 16 * _U * (counts + 1)
    return Cells(
        log_null=log_null,
        null_error=null_error + many,
        z=z,
        z_error=z_error + 2 * null_error * (counts > 1) + many,
    )
