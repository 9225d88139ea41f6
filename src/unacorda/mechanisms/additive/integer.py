"""Integer noise: discrete Laplace and Gaussian noise added to whole numbers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise import discrete, error_bounds, rounding
from unacorda.mechanisms.parameters import (
    Real,
    inverse_root_up,
    positive,
    some_of,
    whole,
)
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ZCDP, PureDP

_RANGE = {"least": -(1 << 62), "most": 1 << 62}


class IntegerNoise(ABC):
    """Noise of one integer law on every number."""

    __slots__ = ()

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Release the noisy integer or int64 array, of the shape of x.

        Parameters
        ----------
        x
            An integer of any size, or an array or list, in which values beyond +-2^62 count as
            these ends. Elements of a list that are other numbers count as the nearest integer,
            halves up; what is no number counts as 0.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a dtype that is not integer.
        """
        noise = partial(self._noise, bits=source_of(bits))
        return self._kept(rounding.add_integers(x, noise))

    def release_exact(self, values: Sequence[int], *, bits: RandomBits | None = None) -> list[int]:
        """Release exact integers of any size; other elements count as in `release`.

        Parameters
        ----------
        values
            Integers.
        bits
            Random bits, from the system by default.

        Returns
        -------
        list
            Noisy integers, clamped where bounds are given.
        """
        exact = elements.wholes(values)
        noise = self._noise(len(exact), bits=source_of(bits))
        return list(map(self._kept, map(operator.add, exact, noise.tolist())))

    @abstractmethod
    def _noise(self, size: int, *, bits: RandomBits) -> NDArray[np.int64]:
        """The noise of so many numbers."""

    def _kept(self, noisy: Any) -> Any:
        """What is released of a noisy number or array, which may be changed in place."""
        return noisy


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(IntegerNoise):
    r"""Release integers x + X, X two-sided geometric: P(X = k) proportional to exp(-|k| / scale).

    Clamping the result to them is postprocessing; for one count in [lower, upper] of sensitivity 1
    it is the best there is: from it follows the best answer at this price for all prior beliefs
    and every loss that grows with the error.

    Source: Ghosh, Roughgarden, Sundararajan 2009, arXiv:0811.2841, Definition 2.1, Theorem 3.2.

    Parameters
    ----------
    scale
        Above 0, at most 2^40.
    l1_sensitivity
        By how much the integers x can move in the l1 norm.
    lower, upper
        Public bounds on every released integer, by default none.

    Examples
    --------
    >>> DiscreteLaplace(scale=2, l1_sensitivity=1).error_bound(0.95)
    6
    """

    scale: Real
    l1_sensitivity: Real
    lower: int | None = None
    upper: int | None = None

    def __post_init__(self) -> None:
        scale = positive("scale", self.scale)
        discrete.within_range("scale", checks.exact("scale", scale))
        keep(self, scale=scale, l1_sensitivity=positive("l1_sensitivity", self.l1_sensitivity))
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None:
                keep(self, **{name: whole(name, bound, **_RANGE)})
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise InvalidParameter("upper", self.upper, expected=f"at least lower, {self.lower}")

    @staticmethod
    def for_guarantee(
        guarantee: PureDP,
        *,
        l1_sensitivity: Number,
        lower: int | None = None,
        upper: int | None = None,
    ) -> DiscreteLaplace:
        """Make the least noise that keeps a PureDP: scale l1_sensitivity / epsilon, exactly.

        Parameters
        ----------
        guarantee
            A PureDP.
        l1_sensitivity
            In the unit of the integers, above 0.
        lower, upper
            Public bounds of what is released, as of the class.

        Raises
        ------
        InvalidParameter
            For another guarantee, and a sensitivity that is not above 0.

        Examples
        --------
        >>> DiscreteLaplace.for_guarantee(PureDP(0.1), l1_sensitivity=3).scale
        30
        """
        epsilon = some_of(guarantee, PureDP).epsilon
        sensitivity = checks.exact("l1_sensitivity", l1_sensitivity)
        return DiscreteLaplace(
            scale=sensitivity / epsilon, l1_sensitivity=sensitivity, lower=lower, upper=upper
        )

    @property
    def event(self) -> events.DiscreteLaplace:
        """What one release costs, of the whole array together."""
        return events.DiscreteLaplace(scale=self.scale, sensitivity=self.l1_sensitivity)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise on each number, before it is clamped to the bounds."""
        return error_bounds.discrete_laplace_deviation(checks.exact("scale", self.scale))

    def error_bound(self, confidence: Number) -> int:
        """Compute the least integer q with P(|released - x| <= q) >= confidence, for one number.

        Bounds only help, where x keeps them.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        """
        return error_bounds.discrete_laplace_half_width(
            checks.exact("scale", self.scale), confidence=confidence
        )

    def _noise(self, size: int, *, bits: RandomBits) -> NDArray[np.int64]:
        scale = checks.exact("scale", self.scale)
        return discrete.discrete_laplace(scale=scale, size=size, bits=bits)

    def _kept(self, noisy: Any) -> Any:
        if not isinstance(noisy, np.ndarray):
            noisy = noisy if self.lower is None else max(noisy, self.lower)
            return noisy if self.upper is None else min(noisy, self.upper)
        for bound, clamp in ((self.lower, np.maximum), (self.upper, np.minimum)):
            if bound is not None:
                clamp(noisy, bound, out=noisy)
        return noisy


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(IntegerNoise):
    r"""Release integers x + X, P(X = k) proportional to exp(-k^2 / (2 sigma^2)).

    It keeps zCDP with rho = sensitivity^2 / (2 sigma^2), but not the GDP of the normal.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010v4, Theorem 4.

    Parameters
    ----------
    sigma
        Above 0, at most 2^40.
    l2_sensitivity
        By how much the integers x can move in the l2 norm.

    Examples
    --------
    >>> DiscreteGaussian(sigma=3, l2_sensitivity=1).error_bound(0.95)
    6
    """

    sigma: Real
    l2_sensitivity: Real

    def __post_init__(self) -> None:
        sigma = positive("sigma", self.sigma)
        discrete.within_range("sigma", checks.exact("sigma", sigma))
        keep(self, sigma=sigma, l2_sensitivity=positive("l2_sensitivity", self.l2_sensitivity))

    @staticmethod
    def for_guarantee(guarantee: ZCDP, *, l2_sensitivity: Number) -> DiscreteGaussian:
        """Make the least noise that keeps a ZCDP guarantee: sigma = sensitivity / sqrt(2 rho).

        It is rounded up at the 15th digit; the delta of the guarantee is not made use of.

        Parameters
        ----------
        guarantee
            A ZCDP.
        l2_sensitivity
            In the unit of the integers, above 0.

        Raises
        ------
        InvalidParameter
            For another guarantee, and a sensitivity that is not above 0.

        Examples
        --------
        >>> DiscreteGaussian.for_guarantee(ZCDP(0.125), l2_sensitivity=2).sigma
        4
        """
        rho = some_of(guarantee, ZCDP).rho
        sensitivity = checks.exact("l2_sensitivity", l2_sensitivity)
        sigma = sensitivity * inverse_root_up(2 * rho)
        return DiscreteGaussian(sigma=sigma, l2_sensitivity=sensitivity)

    @property
    def event(self) -> events.DiscreteGaussian:
        """What one release costs, of the whole array together."""
        return events.DiscreteGaussian(sigma=self.sigma, sensitivity=self.l2_sensitivity)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each released number, at most sigma."""
        return error_bounds.discrete_gaussian_deviation(checks.exact("sigma", self.sigma))

    def error_bound(self, confidence: Number) -> int:
        """Bound the error: an integer q with P(|released - x| <= q) >= confidence.

        It is the least one up to sigma = 200.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        """
        return error_bounds.discrete_gaussian_half_width(
            checks.exact("sigma", self.sigma), confidence=confidence
        )

    def _noise(self, size: int, *, bits: RandomBits) -> NDArray[np.int64]:
        sigma = checks.exact("sigma", self.sigma)
        return discrete.discrete_gaussian(sigma=sigma, size=size, bits=bits)
