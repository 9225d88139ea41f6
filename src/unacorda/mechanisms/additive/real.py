"""Real noise: Laplace and normal noise added to numbers, rounded to a public grid."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise import error_bounds, rounding
from unacorda.mechanisms.noise.continuous import gaussian_chunk, laplace_chunk
from unacorda.mechanisms.parameters import (
    Real,
    inverse_root_up,
    positive,
    quotient,
    some_of,
)
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP


class GridNoise(ABC):
    """Noise of one continuous law on every number, rounded to a public grid.

    The output is a multiple of 2^grid_log2, and its law that of the rounded ideal sum, so the cost
    is that of ideal noise.
    """

    __slots__ = ()

    grid_log2: int

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each released number, rounding included."""
        return error_bounds.rounded_deviation(self._deviation(), grid_log2=self.grid_log2)

    def error_bound(self, confidence: Number, *, on_grid: bool = False) -> float:
        """Bound the error of one number: P(|released - x| <= bound) >= confidence, rounded up.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        on_grid
            Whether x is known to be a multiple of the grid.
        """
        width = self._half_width(confidence)
        return error_bounds.on_grid_width(width, grid_log2=self.grid_log2, on_grid=on_grid)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Release the noisy number or float64 array, of the shape of x.

        Parameters
        ----------
        x
            A number or an array. NaN counts as 0, infinities and values beyond +-2^1000 (in grid
            steps where these are finer than 1) as these ends.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a dtype that is neither integer nor a float of at most 64 bits.
        """
        ratio, draw = self._law()
        return rounding.released(
            x, grid=self.grid_log2, ratio=ratio, bits=source_of(bits), draw=draw
        )

    def release_exact(
        self, values: Sequence[int], *, unit_log2: int, bits: RandomBits | None = None
    ) -> list[Fraction]:
        """Release noisy values of exact integers of any size, each meaning value 2^unit_log2."""
        steps = self._steps(values, unit_log2, source_of(bits))
        return rounding.fraction_multiples(steps, self.grid_log2)

    def release_doubles(
        self, values: Sequence[int], *, unit_log2: int, bits: RandomBits | None = None
    ) -> NDArray[np.float64]:
        """Release what `release_exact` does, each number rounded once to the nearest float64."""
        steps = self._steps(values, unit_log2, source_of(bits))
        return rounding.float_multiples(steps, self.grid_log2)

    def _steps(self, values: Sequence[int], unit_log2: int, bits: RandomBits) -> list[int]:
        ratio, draw = self._law()
        return rounding.add_to_integers(
            values, unit_log2, grid=self.grid_log2, ratio=ratio, bits=bits, draw=draw
        )

    @abstractmethod
    def _law(self) -> tuple[Fraction, rounding.Chunk]:
        """The scale of the noise in grid steps, and how noise of scale 1 is drawn."""

    @abstractmethod
    def _deviation(self) -> float:
        """Standard deviation of the ideal noise."""

    @abstractmethod
    def _half_width(self, confidence: Number) -> Fraction:
        """Half width of the ideal noise at a confidence, rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(GridNoise):
    r"""Release x + Laplace noise, density proportional to exp(-|z| / scale), rounded to a grid.

    The rounding is of the ideal sum, so the cost is that of ideal noise.

    Source: Dwork, McSherry, Nissim, Smith 2006, Proposition 1.

    Parameters
    ----------
    scale
        Above 0, in the unit of x.
    l1_sensitivity
        By how much x can move in the l1 norm, in the same unit.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default floor(log2 scale) - 20.

    Examples
    --------
    >>> Laplace(scale=2.0, l1_sensitivity=1).event
    Laplace(noise_multiplier=2)
    >>> round(Laplace(scale=1, l1_sensitivity=1).error_bound(0.95), 5)
    2.99573
    >>> Laplace(scale=0.01, l1_sensitivity=1, grid_log2=0).release_exact([5], unit_log2=0)
    [Fraction(5, 1)]
    """

    scale: Real
    l1_sensitivity: Real
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        scale = positive("scale", self.scale)
        grid, _ = rounding.grid_ratio("scale", checks.exact("scale", scale), self.grid_log2)
        sensitivity = positive("l1_sensitivity", self.l1_sensitivity)
        keep(self, scale=scale, l1_sensitivity=sensitivity, grid_log2=grid)

    @staticmethod
    def for_guarantee(guarantee: PureDP, *, l1_sensitivity: Number) -> Laplace:
        """Make the least noise that keeps a PureDP: scale l1_sensitivity / epsilon, exactly.

        Parameters
        ----------
        guarantee
            A PureDP.
        l1_sensitivity
            In the unit of x, above 0.

        Raises
        ------
        InvalidParameter
            For another guarantee, and a sensitivity that is not above 0.

        Examples
        --------
        >>> Laplace.for_guarantee(PureDP(0.1), l1_sensitivity=3).scale
        30
        """
        epsilon = some_of(guarantee, PureDP).epsilon
        sensitivity = checks.exact("l1_sensitivity", l1_sensitivity)
        return Laplace(scale=sensitivity / epsilon, l1_sensitivity=sensitivity)

    @property
    def event(self) -> events.Laplace:
        """What one release costs, of the whole array together."""
        return events.Laplace(noise_multiplier=quotient(self.scale, self.l1_sensitivity))

    def _law(self) -> tuple[Fraction, rounding.Chunk]:
        return rounding.grid_ratio("scale", self._exact(), self.grid_log2)[1], laplace_chunk

    def _deviation(self) -> float:
        return math.sqrt(2) * float(self.scale)

    def _half_width(self, confidence: Number) -> Fraction:
        return self._exact() * error_bounds.laplace_quantile(confidence)

    def _exact(self) -> Fraction:
        return checks.exact("scale", self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(GridNoise):
    r"""Release x + normal noise of standard deviation sigma, rounded to a grid.

    Source: Balle and Wang 2018, arXiv:1805.06530, Theorem 8; the rounding is post-processing.

    Parameters
    ----------
    sigma
        Above 0, in the unit of x.
    l2_sensitivity
        By how much x can move in the l2 norm.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default floor(log2 sigma) - 20.

    Examples
    --------
    >>> Gaussian(sigma=3.0, l2_sensitivity=1.5).event
    Gaussian(noise_multiplier=2)
    >>> round(Gaussian(sigma=1, l2_sensitivity=1).error_bound(0.95), 5)
    1.95996
    """

    sigma: Real
    l2_sensitivity: Real
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        sigma = positive("sigma", self.sigma)
        grid, _ = rounding.grid_ratio("sigma", checks.exact("sigma", sigma), self.grid_log2)
        sensitivity = positive("l2_sensitivity", self.l2_sensitivity)
        keep(self, sigma=sigma, l2_sensitivity=sensitivity, grid_log2=grid)

    @staticmethod
    def for_guarantee(guarantee: ApproxDP | GDP | ZCDP, *, l2_sensitivity: Number) -> Gaussian:
        """Make the least noise that keeps a guarantee, its multiplier rounded up at the 15th digit.

        ApproxDP by the analytic formula (Balle and Wang 2018, Theorem 8), GDP by sigma =
        sensitivity / mu, ZCDP by sigma = sensitivity / sqrt(2 rho).

        Parameters
        ----------
        guarantee
            An ApproxDP, GDP or ZCDP. The delta of a GDP or ZCDP guarantee is not made use of.
        l2_sensitivity
            In the unit of x, above 0.

        Raises
        ------
        InvalidParameter
            For another guarantee, and a sensitivity that is not above 0.

        Examples
        --------
        >>> round(float(Gaussian.for_guarantee(ApproxDP(1, 1e-5), l2_sensitivity=1).sigma), 3)
        3.731
        """
        sensitivity = checks.exact("l2_sensitivity", l2_sensitivity)
        sigma = sensitivity * inverse_root_up(mu_squared(guarantee))
        return Gaussian(sigma=sigma, l2_sensitivity=sensitivity)

    @property
    def event(self) -> events.Gaussian:
        """What one release costs, of the whole array together."""
        return events.Gaussian(noise_multiplier=quotient(self.sigma, self.l2_sensitivity))

    def _law(self) -> tuple[Fraction, rounding.Chunk]:
        return rounding.grid_ratio("sigma", self._exact(), self.grid_log2)[1], gaussian_chunk

    def _deviation(self) -> float:
        return float(self.sigma)

    def _half_width(self, confidence: Number) -> Fraction:
        return self._exact() * error_bounds.normal_quantile(confidence)

    def _exact(self) -> Fraction:
        return checks.exact("sigma", self.sigma)


def mu_squared(guarantee: ApproxDP | GDP | ZCDP) -> Fraction:
    """The largest mu^2 of a normal shift that keeps the guarantee; InvalidParameter for 0."""
    if isinstance(guarantee, ApproxDP):
        square = GDP.within(guarantee).mu_squared
    elif isinstance(guarantee, GDP):
        square = guarantee.mu_squared
    elif isinstance(guarantee, ZCDP):
        square = 2 * guarantee.rho
    else:
        raise InvalidParameter("guarantee", guarantee, expected="ApproxDP, GDP or ZCDP")
    checks.demand(
        square != 0, "guarantee", guarantee, expected="a guarantee that allows some privacy loss"
    )
    return square
