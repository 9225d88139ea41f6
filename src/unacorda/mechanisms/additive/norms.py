"""The K-norm mechanism: noise on whole vectors that follows the norm of their sensitivity."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

from numpy.typing import ArrayLike

from unacorda import checks, elements
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import intervals, rounded
from unacorda.mechanisms.certified import laplace_chunk
from unacorda.mechanisms.parameters import Real, keep, positive, quotient, whole
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.mechanisms.vectors import cube_chunk, sphere_chunk
from unacorda.privacy import events

__all__ = ["KNorm"]

_SECURE = SecureBits()
_MOST_DIMENSIONS: Final = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class KNorm(PureCalibrated):
    r"""Release vectors x + Z, the density of Z proportional to e^(-epsilon |z| / sensitivity).

    norm: 1, 2 or inf, the norm |z|; epsilon: what one release costs, above 0; sensitivity: by how
    much x can move in that norm, above 0; dimension: of the vectors, up to 16384; grid_log2:
    outputs are multiples of 2^grid_log2, by default about a millionth of the noise on one number.
    Norm 1 is Laplace noise. Where one unit moves every number of a long vector, norm inf has a
    sixth of the variance of Laplace noise at the same epsilon; where it moves the vector within an
    l2 ball, norm 2 has half. The rounding is of the ideal sum, so it costs nothing.
    Source: Hardt and Talwar 2010, arXiv:0907.3754, Theorem 4.1 (the mechanism), Remark 4.2 (how to
    draw from it: a radius of the gamma law, a point of the unit ball).

    >>> mechanism = KNorm(norm=float("inf"), epsilon=1, sensitivity=1, dimension=4)
    >>> mechanism.event, round(mechanism.standard_deviation, 3)
    (Pure(epsilon=1), 3.162)
    >>> round(KNorm(norm=1, epsilon=1, sensitivity=4, dimension=4).standard_deviation, 3)
    5.657
    >>> from unacorda.privacy.guarantees import PureDP
    >>> KNorm.for_guarantee(PureDP(0.5), norm=2, sensitivity=3, dimension=10).scale
    6
    """

    norm: float
    epsilon: Real
    sensitivity: Real
    dimension: int
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        if self.norm not in (1, 2, math.inf) or isinstance(self.norm, bool):
            raise InvalidParameter("norm", self.norm, expected="1, 2 or float('inf')")
        dimension = whole("dimension", self.dimension, least=1, most=_MOST_DIMENSIONS)
        keep(
            self,
            epsilon=positive("epsilon", self.epsilon),
            sensitivity=positive("sensitivity", self.sensitivity),
            dimension=dimension,
        )
        wanted = cast("int | None", self.grid_log2)
        scale = checks.exact("scale", self.scale)
        if wanted is None:
            wanted = rounded.default_grid_log2(scale * max(math.isqrt(int(self._spread())), 1))
        grid, _ = rounded.grid_ratio("sensitivity / epsilon", scale, wanted)
        keep(self, grid_log2=grid)

    @property
    def scale(self) -> Real:
        """The scale of the noise, sensitivity / epsilon."""
        return quotient(self.sensitivity, self.epsilon)

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole vector together."""
        if self._is_laplace():
            return events.Laplace(noise_multiplier=quotient(1, self.epsilon))
        return events.Pure(epsilon=self.epsilon)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each released number, rounding included."""
        ideal = math.sqrt(self._spread()) * float(self.scale)
        return intervals.rounded_deviation(ideal, grid_log2=self.grid_log2)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The noisy vectors as a float64 array of the shape of x.

        x: of shape (dimension,), or (..., dimension) for several vectors with noise of their own;
        `event` is the price where one unit moves one of them. Values are read as by
        `Laplace.release`. Raises InvalidParameter for another shape or dtype.
        """
        array = elements.numbers("x", x, width=self.dimension)
        shape = array.shape
        if not shape or shape[-1] != self.dimension:
            raise InvalidParameter("x", shape, expected=f"vectors of length {self.dimension}")
        if self._is_laplace():
            draw: rounded.Chunk = laplace_chunk
        elif self.norm == 2:
            draw = functools.partial(sphere_chunk, dimension=self.dimension)
        else:
            draw = functools.partial(cube_chunk, dimension=self.dimension)
        grid, ratio = rounded.grid_ratio("scale", checks.exact("scale", self.scale), self.grid_log2)
        return rounded.released(
            array, grid=grid, ratio=ratio, bits=bits or _SECURE, draw=draw, together=self.dimension
        )

    def _is_laplace(self) -> bool:
        return self.norm == 1 or self.dimension == 1

    def _spread(self) -> Fraction:
        """The variance of each number, in units of the scale squared."""
        size = self.dimension
        if self._is_laplace():
            return Fraction(2)
        # E R^2 for a radius of the gamma law, times the mean square of a point's coordinate.
        return Fraction(size + 1) if self.norm == 2 else Fraction((size + 1) * (size + 2), 3)
