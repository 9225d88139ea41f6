"""Vectors of bounded length, reported as one of several directions that are drawn beforehand.

The directions are drawn independently of the vector, so they reveal nothing. The device reports one
of them, with a preference for the nearest. Rounding of directions and angles in float64 biases the
mean a little and does not affect privacy. docs/proofs/local.md, section 9.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local.reports import WHOLE, below, exp_down, keep_epsilon, pair_event, weak
from unacorda.mechanisms.noise import discrete
from unacorda.mechanisms.noise.discrete import LARGEST_SIGMA
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.events.fields import Real

_AXES: Final = (1, 2, 4, 8, 16, 32)
_WORTH: Final = 0.97
"""More axes are drawn only where fewer reach less than this share of the signal."""

_MOST_SIZE: Final = 1 << 16
_FARTHEST: Final = Fraction(10**100)
_ENTRIES: Final = 1 << 20  # of axes that are held at once

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directions(PureCalibrated):
    r"""Send a direction, one near the vector's own at odds e^epsilon.

    Axes are drawn at random; of their two ends each, the `nearest` with the least angles to the
    vector are preferred. A vector that is shorter than the radius counts, at random, as one of that
    length in its own or in the opposite direction. For one axis this is the mechanism of Duchi and
    others for the ball; with more it comes near to the least error that is possible. A report is a
    vector of length 1.

    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390, section 4.2.3 (one axis); Bhowmick
    et al. 2018, arXiv:1812.00984 (PrivUnit, the limit of many axes); Isik et al. 2023,
    arXiv:2306.04924 (the nearest of random directions).

    Parameters
    ----------
    epsilon
        Above 0.
    size
        How many numbers a vector has, from 1 to 2^16.
    radius
        A public l2 norm, above 0, to which vectors are clipped.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = Directions(epsilon=4.0, size=3)
    >>> mechanism.axes, mechanism.nearest
    (16, 4)
    >>> from unacorda.bits import SeededBits
    >>> mechanism.release([[0.6, 0.0, 0.8]] * 5, bits=SeededBits(1)).shape
    (5, 3)
    """

    epsilon: Real
    size: int
    radius: Real = 1

    def __post_init__(self) -> None:
        keep_epsilon(self)
        fields.keep(self, radius=fields.positive("radius", self.radius))
        size = fields.whole("size", self.size, least=1)
        if size > _MOST_SIZE:
            raise InvalidParameter("size", size, expected=f"a whole number from 1 to {_MOST_SIZE}")
        fields.keep(self, size=size)
        if not 1 / _FARTHEST <= checks.exact("radius", self.radius) <= _FARTHEST:
            raise InvalidParameter("radius", self.radius, expected="from 1e-100 to 1e100")
        _design(checks.exact("epsilon", self.epsilon), size)

    @property
    def axes(self) -> int:
        """How many axes are drawn, each with two ends."""
        return self._design.axes

    @property
    def nearest(self) -> int:
        """How many ends are preferred."""
        return self._design.nearest

    @property
    def chances(self) -> int:
        """The chances, in 2^64, that one of the preferred ends is reported."""
        return self._design.near

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """The cost of one report: ends that are preferred for neither vector reveal nothing."""
        design = self._design
        near, others = Fraction(design.near, WHOLE), 2 * design.axes - design.nearest
        weight = near + (1 - near) * design.nearest / others
        return pair_event(self.epsilon, weight=weight)

    @property
    def variance(self) -> float:
        """The mean variance of the numbers of one decoded report, of a vector of length 0.

        That of a vector of length r is smaller by r^2 / size.
        """
        return self._length**2 / self.size

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Make the reports of devices that hold these vectors, along the last axis; float64.

        Parameters
        ----------
        x
            Integers or floats; NaN counts as 0, longer vectors as clipped to the radius.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another dtype, or another length of the last axis.
        """
        array = elements.floats("x", x, width=self.size)
        if array.ndim == 0 or array.shape[-1] != self.size:
            raise InvalidParameter("x", array.shape, expected=f"vectors of {self.size} numbers")
        rows = array.reshape(-1, self.size)
        reports, source = np.empty_like(rows), source_of(bits)
        step = max(1, _ENTRIES // (self.size * self.axes))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            reports[part] = self._point(rows[part], source)
        return reports.reshape(array.shape)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Report vectors and decode them; each result is an unbiased estimate of its vector.

        Parameters
        ----------
        x
            A vector a person.
        bits
            Random bits, from the system by default.

        Returns
        -------
        ndarray
            A vector a person.
        """
        return self.decode(self.encode(x, bits=bits))

    def decode(self, reports: ArrayLike) -> Any:
        """Decode reports to unbiased estimates, in the unit of the vectors.

        Parameters
        ----------
        reports
            What `encode` gave, one row per person.

        Returns
        -------
        ndarray
            A vector a report.
        """
        return elements.floats("reports", reports) * self._length

    def _point(self, rows: Floats, bits: RandomBits) -> Floats:
        """One direction a row."""
        design, count = self._design, len(rows)
        axes = _drawn(count * design.axes, self.size, bits).reshape(count, design.axes, self.size)
        unit, length = _unit(rows, self._radius)
        # A vector of length 0 goes either way as often; of the radius, always its own.
        words = bits.words(count)
        unit[words >= np.ldexp((1 + length) / 2, 64).astype(np.float64)] *= -1.0
        along = np.einsum("ijk,ik->ij", axes, unit)
        axes[along < 0] *= -1.0
        order = np.argsort(-np.abs(along), axis=1, kind="stable")
        place = self._places(count, bits)
        axis = np.take_along_axis(order, place[:, None] % design.axes, axis=1)[:, 0]
        ends = axes[np.arange(count), axis]
        ends[place >= design.axes] *= -1.0
        return ends

    def _places(self, count: int, bits: RandomBits) -> NDArray[np.int64]:
        """Which of the ends, the nearest first, then those across from them, is reported."""
        design = self._design
        near = bits.words(count) < np.uint64(design.near)
        inside = below(design.nearest, size=count, bits=bits)
        outside = below(2 * design.axes - design.nearest, size=count, bits=bits)
        return np.where(near, inside, outside + design.nearest)

    @property
    def _design(self) -> _CodebookDesign:
        return _design(checks.exact("epsilon", self.epsilon), self.size)

    @property
    def _radius(self) -> float:
        return float(self.radius)

    @property
    def _length(self) -> float:
        """Of a decoded report."""
        return self._radius / self._design.signal


class _CodebookDesign(NamedTuple):
    """Ends and chances, and the mean of a reported direction along the vector's own."""

    axes: int
    nearest: int
    near: int
    signal: float


@functools.lru_cache(maxsize=256)
def _design(epsilon: Fraction, size: int) -> _CodebookDesign:
    """The fewest axes that reach nearly the largest signal of all, and the best of their ends."""
    odds = exp_down(epsilon)
    best = []
    for axes in _AXES if size > 1 else (1,):
        found = [_ends(odds, size, axes, nearest) for nearest in range(1, axes + 1)]
        best.append(max(found, key=lambda one: one.signal))
    enough = _WORTH * max(one.signal for one in best)
    design = next(one for one in best if one.signal >= enough)
    if design.signal <= 0:
        raise weak(epsilon)
    return design


def _ends(odds: Fraction, size: int, axes: int, nearest: int) -> _CodebookDesign:
    others = 2 * axes - nearest
    near = min(math.floor(WHOLE * nearest * odds / (nearest * odds + others)), WHOLE - 1)
    share = Fraction(near, WHOLE)
    # The other ends are opposite: all together they sum to nothing.
    lean = float(share - (1 - share) * nearest / others)
    return _CodebookDesign(axes, nearest, near, lean * _nearness(size, axes, nearest))


@functools.lru_cache(maxsize=4096)
def _nearness(size: int, axes: int, nearest: int) -> float:
    """The mean cosine of the nearest ends' angles to a vector.

    >>> round(_nearness(3, 1, 1), 9)  # uniform on [0, 1] in three dimensions
    0.5
    """
    if size == 1:
        return 1.0
    top = min(math.pi / 2, 14 / math.sqrt(size))
    nodes, weights = _nodes()
    angle = (nodes + 1) * (top / 2)  # from the plane across
    sine = np.sin(angle)
    log_density = (size - 2) * np.log(np.cos(angle)) - special.betaln(0.5, (size - 1) / 2)
    below_it = special.betainc(0.5, (size - 1) / 2, sine**2)
    # The chance that at most nearest - 1 of the other axes are nearer, over that of being reported.
    among = special.bdtr(nearest - 1, axes - 1, 1 - below_it) * axes / nearest
    return float(np.sum(weights * sine * np.exp(log_density) * among) * top)


@functools.cache
def _nodes() -> tuple[Floats, Floats]:
    return cast("tuple[Floats, Floats]", np.polynomial.legendre.leggauss(400))


def _drawn(count: int, size: int, bits: RandomBits) -> Floats:
    """Uniform directions: normals on a grid of 1/200, seen from their origin."""
    drawn = discrete.discrete_gaussian(sigma=LARGEST_SIGMA, size=count * size, bits=bits)
    rows = drawn.reshape(count, size).astype(np.float64)
    rows[:, 0] += rows.any(axis=1) == 0  # of no length
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def _unit(rows: Floats, radius: float) -> tuple[Floats, Floats]:
    """Vectors of length 1, and how long they were, in units of the radius, at most 1."""
    finite = np.clip(np.nan_to_num(rows, nan=0.0), -1e300, 1e300) + 0.0
    largest = np.abs(finite).max(axis=1)
    unit = finite / np.where(largest > 0, largest, 1.0)[:, None]
    unit[:, 0] += largest == 0
    norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    unit /= norm[:, None]
    return unit, np.minimum(largest / radius * norm, 1.0)
