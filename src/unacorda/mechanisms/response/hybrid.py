"""Numbers between public bounds: `Duchi`'s bit or `Piecewise`'s place, whichever a coin says.

The first errs least for values near the bounds, the second for values in the middle; mixed in the
right proportion they err alike for all values. docs/proofs/response.md, section 8.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms.arrays import shaped
from unacorda.mechanisms.response import arguments
from unacorda.mechanisms.response.numbers import STEPS, Duchi, Piecewise
from unacorda.mechanisms.response.thresholds import WHOLE
from unacorda.privacy import events
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.events.fields import Real

__all__ = ["Hybrid"]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    r"""Send a place near the value with probability 1 - e^(-epsilon/2), else one bit about it.

    The place is told as by `Piecewise`, the bit as by `Duchi`; the probability makes the error the
    same for all values. epsilon: above 0; lower, upper: public bounds of the values. A report is
    one integer, below 2^30 + `places.window` a place, the two above it the bit. For epsilon above
    0.61 its largest error is below that of both.
    Source: Wang et al. 2019, arXiv:1907.00782, section III-C (hybrid mechanism).

    >>> mechanism = Hybrid(epsilon=2.0, lower=0, upper=100)
    >>> mechanism.event
    Pure(epsilon=2.0)
    >>> kinds = [kind(epsilon=2.0, lower=0, upper=100) for kind in (Duchi, Piecewise, Hybrid)]
    >>> [round(kind.variance(count=1000) ** 0.5, 2) for kind in kinds]
    [2.08, 1.75, 1.61]
    """

    epsilon: Real
    lower: Real
    upper: Real

    def __post_init__(self) -> None:
        arguments.keep_epsilon(self)
        Duchi(epsilon=self.epsilon, lower=self.lower, upper=self.upper)
        Piecewise(epsilon=self.epsilon, lower=self.lower, upper=self.upper)

    @property
    def bit(self) -> Duchi:
        """How the bit is told."""
        return Duchi(epsilon=self.epsilon, lower=self.lower, upper=self.upper)

    @property
    def places(self) -> Piecewise:
        """How a place is told."""
        return Piecewise(epsilon=self.epsilon, lower=self.lower, upper=self.upper)

    @property
    def event(self) -> events.Pure:
        """What one report costs: epsilon either way, whichever way it went."""
        return events.Pure(epsilon=self.epsilon)

    @property
    def chances(self) -> int:
        """The chances of a place in 2^64: those at which the value drops out of the variance."""
        return min(round(WHOLE / (1 + self.places.spread.square)), WHOLE - 1)

    def encode(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these numbers, int64 of the same shape.

        x: integers or floats; NaN counts as 0, whatever lies beyond a bound as the bound.
        Raises InvalidParameter for another dtype.
        """
        ends, source = arguments.bounds(self.lower, self.upper), bits or _SECURE
        shape = arguments.places(x, ends=ends, last=STEPS)[1]
        places = np.asarray(self.places.encode(x, bits=source))  # both, to take the same time
        told = np.asarray(self.bit.encode(x, bits=source)) + self._places
        chosen = source.words(places.size) < np.uint64(self.chances)
        return shaped(np.where(chosen, places.reshape(-1), told.reshape(-1)), shape)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The decoded report, a float64 or an array: each is an unbiased estimate by itself."""
        return self.decode(self.encode(x, bits=bits))

    def decode(self, reports: ArrayLike) -> Any:
        """What each report counts in the mean, in the unit of the values."""
        decoded = self._decoded(reports) + float(self.bit.spread.centre)
        return shaped(decoded, None if np.ndim(reports) == 0 else np.shape(reports))

    def aggregate(self, reports: ArrayLike) -> Estimate:
        """The mean of all values; its sampling error is what the reports scatter beside noise."""
        decoded = self._decoded(reports)
        count, shift = decoded.size, float(decoded.mean())
        half = float(self.bit.spread.half)
        noise = self.variance(count=1, x=None)
        left = (float(np.var(decoded, ddof=1)) if count > 1 else math.inf) - noise
        most = half**2 - min(abs(shift), half) ** 2
        return Estimate(
            value=float(self.bit.spread.centre) + shift,
            sampling_error=math.sqrt(min(max(left, 0.0), most) / count),
            privacy_error=math.sqrt(noise / count),
        )

    def variance(self, *, count: int, x: float | None = None) -> float:
        """Variance of the mean of `count` values x: the same for all but 2^-60 of it."""
        share = Fraction(self.chances, WHOLE)
        places, bit = (kind.variance(count=count, x=x) for kind in (self.places, self.bit))
        if x is None:  # each kind alone is worst elsewhere
            centre = float(self.bit.spread.centre)
            places, bit = (kind.variance(count=count, x=centre) for kind in (self.places, self.bit))
        return float(share) * places + float(1 - share) * bit

    @property
    def _places(self) -> int:
        return STEPS + self.places.window

    def _decoded(self, reports: ArrayLike) -> NDArray[np.float64]:
        """The reports about the centre of the bounds, flat."""
        told = arguments.answers(reports, limit=self._places + 2)
        places, bit = self.places.spread, self.bit.spread
        near = (told - float(places.middle)) * float(places.scale)
        far = (told - self._places - float(bit.middle)) * float(bit.scale)
        return np.where(told < self._places, near, far)
