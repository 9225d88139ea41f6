"""Noise on whole vectors: K-norm mechanisms and correlated normal noise.

K-norm noise has the shape of the sensitivity's norm. Normal noise of any covariance is priced by
the changes that a unit can make.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import mu_squared
from unacorda.mechanisms.noise import error_bounds, rounding
from unacorda.mechanisms.noise.continuous import laplace_chunk
from unacorda.mechanisms.noise.vectors import cube_chunk, linear_chunk, sphere_chunk
from unacorda.mechanisms.parameters import (
    Real,
    exact_root_down,
    inverse_root_up,
    positive,
    quotient,
    readable,
    whole,
)
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP

_MOST_DIMENSIONS: Final = 1 << 14

Floats = NDArray[np.float64]
Rows = tuple[tuple[Real, ...], ...]
_MOST_CORRELATED: Final = 1024
_MOST_CORNERS: Final = 16  # dimensions of a box whose corners are all looked at
_UNIT: Final = 2.0**-53
_OUTWARD: Final = 1 + 2.0**-40  # above the rounding of any norm here


@dataclass(frozen=True, slots=True, kw_only=True)
class KNorm(PureCalibrated):
    r"""Release vectors x + Z, the density of Z proportional to e^(-epsilon |z| / sensitivity).

    Norm 1 is Laplace noise. If one unit changes every number of a long vector, norm inf has a sixth
    of the variance of Laplace noise at the same epsilon. If it changes the vector within an l2
    ball, norm 2 has half. The ideal sum is rounded, which costs nothing.

    Source: Hardt and Talwar 2010, arXiv:0907.3754, Theorem 4.1 (the mechanism), Remark 4.2 (how to
    draw from it: a radius of the gamma law, a point of the unit ball).

    Parameters
    ----------
    norm
        1, 2 or inf, the norm |z|.
    epsilon
        What one release costs, above 0.
    sensitivity
        The sensitivity of x in that norm, above 0.
    dimension
        Of the vectors, up to 16384.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about a millionth of the noise on one
        number.

    Examples
    --------
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
            wanted = rounding.default_grid_log2(scale * max(math.isqrt(int(self._spread())), 1))
        grid, _ = rounding.grid_ratio("sensitivity / epsilon", scale, wanted)
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
        return error_bounds.rounded_deviation(ideal, grid_log2=self.grid_log2)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Release the noisy vectors as a float64 array of the shape of x.

        Parameters
        ----------
        x
            Of shape (dimension,), or (..., dimension) for several vectors with noise of their own;
            `event` is the price where one unit moves one of them. Values are read as by
            `Laplace.release`.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        array = elements.numbers("x", x, width=self.dimension)
        shape = array.shape
        if not shape or shape[-1] != self.dimension:
            raise InvalidParameter("x", shape, expected=f"vectors of length {self.dimension}")
        if self._is_laplace():
            draw: rounding.Chunk = laplace_chunk
        elif self.norm == 2:
            draw = functools.partial(sphere_chunk, dimension=self.dimension)
        else:
            draw = functools.partial(cube_chunk, dimension=self.dimension)
        grid, ratio = rounding.grid_ratio(
            "scale", checks.exact("scale", self.scale), self.grid_log2
        )
        return rounding.released(
            array, grid=grid, ratio=ratio, bits=source_of(bits), draw=draw, together=self.dimension
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MultivariateGaussian:
    r"""Release vectors x + Z, Z normal with any covariance, rounded to a grid.

    What is released keeps mu = max sqrt(v' C^-1 v) over all such moves v, where C is the covariance
    of the noise as it is drawn: factor factor', equal to `covariance` to about 15 digits.

    Source: Dong, Roth, Su 2022, Theorem 2.7, after the linear map that makes C the identity.

    Parameters
    ----------
    covariance
        A symmetric positive definite matrix of up to 1024 rows.
    l2_sensitivity
        The l2 sensitivity, if one unit can change x by any vector of at most this l2 norm. Give one
        of this, moves and box.
    moves
        The rows of a matrix: one unit changes x by any convex combination of them and their
        negatives.
    box
        A bound for each number: one unit makes any change within all of them (at most 16 numbers if
        the noise is correlated).
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about a millionth of the least standard
        deviation.

    Examples
    --------
    >>> noise = MultivariateGaussian(covariance=[[4, 0], [0, 9]], moves=[[2, 0], [0, 3]])
    >>> noise.event
    Gaussian(noise_multiplier=1)
    >>> MultivariateGaussian(covariance=[[4, 0], [0, 9]], l2_sensitivity=1).event
    Gaussian(noise_multiplier=2)
    """

    covariance: ArrayLike  # kept as tuples of numbers, like moves and box
    l2_sensitivity: Real | None = None
    moves: ArrayLike | None = None
    box: ArrayLike | None = None
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default
    factor: Floats = field(init=False, repr=False, compare=False)
    noise_multiplier: Real = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        factor = _factor(self.covariance)
        size = factor.shape[0]
        covariance = np.asarray(self.covariance, np.float64)
        keep(self, factor=factor, covariance=tuple(map(tuple, covariance.tolist())))
        given = [
            name for name in ("l2_sensitivity", "moves", "box") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            raise InvalidParameter(
                "l2_sensitivity", given, expected="exactly one of l2_sensitivity, moves and box"
            )
        if self.l2_sensitivity is not None:
            keep(self, l2_sensitivity=positive("l2_sensitivity", self.l2_sensitivity))
            multiplier = _for_ball(factor, checks.exact("l2_sensitivity", self.l2_sensitivity))
        elif self.moves is not None:
            rows = _rows("moves", self.moves, size)
            keep(self, moves=rows)
            multiplier = _for_moves(factor, rows)
        else:
            (box,) = _rows("box", (self.box,), size)
            keep(self, box=tuple(readable(abs(checks.exact("box", side))) for side in box))
            multiplier = _for_box(factor, box)
        keep(self, noise_multiplier=multiplier, grid_log2=_grid(factor, self.grid_log2))

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP | GDP | ZCDP,
        *,
        covariance: ArrayLike,
        l2_sensitivity: Real | None = None,
        moves: ArrayLike | None = None,
        box: ArrayLike | None = None,
    ) -> MultivariateGaussian:
        """Make the least multiple of a covariance that keeps a guarantee, to about 12 digits.

        Parameters
        ----------
        guarantee
            An ApproxDP, GDP or ZCDP.
        covariance
            Whose multiple is taken, positive definite.
        l2_sensitivity, moves, box
            The changes of x by one unit, as for the class.

        Raises
        ------
        InvalidParameter
            For another guarantee, and for arrays that do not fit.

        Examples
        --------
        >>> shape = [[2, 1], [1, 2]]
        >>> noise = MultivariateGaussian.for_guarantee(GDP(0.5), covariance=shape, box=[1, 1])
        >>> round(noise.covariance[0][0], 6)
        16.0
        """
        needed = inverse_root_up(mu_squared(guarantee))
        _factor(covariance)
        matrix = np.asarray(covariance, dtype=np.float64)

        def at(scaled: Floats) -> MultivariateGaussian:
            return MultivariateGaussian(
                covariance=scaled, l2_sensitivity=l2_sensitivity, moves=moves, box=box
            )

        ratio = needed / checks.exact("noise_multiplier", at(matrix).noise_multiplier)
        factor = float(ratio * ratio)
        while True:
            found = at(matrix * factor)
            if checks.exact("noise_multiplier", found.noise_multiplier) >= needed:
                return found
            factor *= 1 + 2.0**-40

    @property
    def event(self) -> events.Gaussian:
        """What one release costs, of the whole vector together."""
        return events.Gaussian(noise_multiplier=self.noise_multiplier)

    @property
    def standard_deviations(self) -> tuple[float, ...]:
        """The standard deviation of each released number, rounding included."""
        return tuple(
            error_bounds.rounded_deviation(deviation, grid_log2=self.grid_log2)
            for deviation in np.sqrt((self.factor**2).sum(axis=1)).tolist()
        )

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Release the noisy vectors as a float64 array of the shape of x.

        Parameters
        ----------
        x
            Of shape (n,) for a covariance of n rows, or (..., n) for several vectors with noise of
            their own; `event` is the price where one unit moves one of them. Values are read as by
            `Laplace.release`.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        size = self.factor.shape[0]
        array = elements.numbers("x", x, width=size)
        shape = array.shape
        checks.demand(shape and shape[-1] == size, "x", shape, expected=f"vectors of length {size}")
        return rounding.released(
            array,
            grid=self.grid_log2,
            ratio=1 / Fraction(2) ** self.grid_log2,
            bits=source_of(bits),
            draw=functools.partial(linear_chunk, factor=self.factor),
            together=size,
        )


def _factor(covariance: ArrayLike) -> Floats:
    """The lower triangular matrix that noise is made with, near the root of the covariance."""
    expected = f"a symmetric positive definite matrix of 1 to {_MOST_CORRELATED} rows"
    try:
        matrix = np.array(covariance, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter("covariance", covariance, expected=expected) from None
    shape = matrix.shape
    fine = len(shape) == 2 and shape[0] == shape[1] and 1 <= shape[0] <= _MOST_CORRELATED
    if not fine or not np.isfinite(matrix).all() or (matrix != matrix.T).any():
        raise InvalidParameter("covariance", shape, expected=expected)
    diagonal = np.diagonal(matrix)
    if (diagonal <= 0).any() or not 1e-200 < diagonal.max() < 1e200:
        raise InvalidParameter("covariance", shape, expected=f"{expected}, of 1e-200 to 1e200")
    if not np.count_nonzero(matrix - np.diag(diagonal)):
        factor = np.diag(np.sqrt(diagonal))
    else:
        half = (math.frexp(diagonal.max())[1] + 1) // 2  # powers of two change no digit
        try:
            factor = np.ldexp(np.linalg.cholesky(np.ldexp(matrix, -2 * half)), half)
        except np.linalg.LinAlgError:
            raise InvalidParameter("covariance", shape, expected=expected) from None
    factor.flags.writeable = False
    return factor


def _rows(name: str, given: object, size: int) -> Rows:
    """Rows of finite numbers, as they print, each of the length of the vectors."""
    expected = f"{size} finite numbers" if name == "box" else f"rows of {size} finite numbers"
    try:
        rows = tuple(
            tuple(readable(checks.exact(name, entry)) for entry in row)
            for row in cast("Any", given)
        )
    except (TypeError, InvalidParameter):
        raise InvalidParameter(name, given, expected=expected) from None
    if not rows or any(len(row) != size for row in rows):
        raise InvalidParameter(name, given, expected=expected)
    if not any(entry for row in rows for entry in row):
        raise InvalidParameter(name, given, expected=f"{expected}, not all 0")
    return rows


def _grid(factor: Floats, wanted: int | None) -> int:
    """The grid's exponent, checked against the least and the greatest standard deviation."""
    deviations = np.linalg.norm(factor, axis=1)
    least, greatest = float(deviations.min()), float(deviations.max())
    grid = rounding.default_grid_log2(least) if wanted is None else wanted
    rounding.grid_ratio("covariance", greatest, grid)
    return int(grid)


# ---- the largest move in units of the noise; every bound is on the safe side
def _is_diagonal(factor: Floats) -> bool:
    return not np.count_nonzero(factor - np.diag(np.diagonal(factor)))


def _for_ball(factor: Floats, length: Fraction) -> Real:
    if _is_diagonal(factor):
        return readable(Fraction(float(np.diagonal(factor).min())) / length)
    return readable(Fraction(_least_singular_value(factor)) / length)


def _for_moves(factor: Floats, moves: Rows) -> Real:
    if _is_diagonal(factor):
        scales = [Fraction(scale) for scale in np.diagonal(factor).tolist()]
        squares = [
            sum(
                ((checks.exact("moves", x) / s) ** 2 for x, s in zip(row, scales, strict=True)),
                Fraction(0),
            )
            for row in moves
        ]
        return exact_root_down(1 / max(squares))
    return _from_norm(factor, np.array([[float(entry) for entry in row] for row in moves]))


def _for_box(factor: Floats, box: tuple[Real, ...]) -> Real:
    if _is_diagonal(factor):
        return _for_moves(factor, (box,))
    sides = np.array([float(side) for side in box])
    if sides.size > _MOST_CORNERS:
        raise InvalidParameter(
            "box", len(box), expected=f"at most {_MOST_CORNERS} numbers; or give moves"
        )
    # The length is convex, so a corner is the farthest; opposite corners are equally far.
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=sides.size - 1))).reshape(
        -1, sides.size - 1
    )
    return _from_norm(factor, np.hstack([np.ones((len(signs), 1)), signs]) * sides)


def _from_norm(factor: Floats, moves: Floats) -> Real:
    """1 / max |factor^-1 v| over the rows v, rounded down.

    With y the computed solution and r = v - factor y, the true one is at most
    |y| + |r| / (the least singular value); r itself is computed within a known error.
    """
    solved = solve_triangular(factor, moves.T, lower=True)
    left = np.abs(moves.T - factor @ solved)
    left += (factor.shape[0] + 6) * _UNIT * (np.abs(moves.T) + np.abs(factor) @ np.abs(solved))
    lengths = np.linalg.norm(solved, axis=0)
    lengths += np.linalg.norm(left, axis=0) / _least_singular_value(factor)
    return Fraction(1.0 / (float(lengths.max()) * _OUTWARD))


def _least_singular_value(factor: Floats) -> float:
    """A lower bound on it.

    If the Cholesky factorisation of A - m I runs through in floats, then A - m I is positive
    definite up to an error of at most (n + 2) 2^-53 trace(A); A = factor factor' is itself
    computed within as much.

    Bound       lower.
    Source      Rump 2006, Verification of positive definiteness, Theorem 2.3.
    """
    size = factor.shape[0]
    product = factor @ factor.T
    trace, middle = float(np.trace(product)), float(np.linalg.eigvalsh(product)[0])
    for shrink in (2.0**-30, 2.0**-20, 2.0**-10, 0.5):
        guess = middle * (1 - shrink)
        error = 8 * (size + 4) * _UNIT * (trace + size * abs(guess))
        try:
            np.linalg.cholesky(product - guess * np.eye(size))
        except np.linalg.LinAlgError:
            continue
        if guess > error:
            return math.sqrt(guess - error) / _OUTWARD
    raise InvalidParameter(
        "covariance", factor.shape, expected="one whose condition number is below about 1e11"
    )
