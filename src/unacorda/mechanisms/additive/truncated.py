"""Truncated Laplace noise: never beyond a public bound, at the price of a delta."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import intervals, rounded
from unacorda.mechanisms.parameters import (
    Real,
    decimal_up,
    keep,
    positive,
    quotient,
    readable,
    some_of,
    whole,
)
from unacorda.mechanisms.shapes import cut_laplace_chunk
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.guarantees import ApproxDP

__all__ = ["TruncatedLaplace"]

_SECURE = SecureBits()
_FARTHEST = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedLaplace:
    r"""Release x + Z, Z Laplace noise of a scale given that |Z| <= bound, rounded to a grid.

    scale, bound: above 0, in the unit of x; sensitivity: by how much one number of x can move, at
    most twice the bound; l0_sensitivity: how many numbers of an array can move, 1 by default;
    grid_log2: outputs are multiples of 2^grid_log2, by default floor(log2 scale) - 20. Where the
    supports of two neighbours part everything is told: a delta of
    (e^((sensitivity - bound)/scale) - e^(-bound/scale)) / (2 (1 - e^(-bound/scale))) for a bound
    from the sensitivity on.
    Source: Geng, Ding, Guo, Kumar 2020, arXiv:1810.00877, Theorem 1.

    >>> TruncatedLaplace(scale=2, sensitivity=1, bound=30).event
    TruncatedLaplace(noise_multiplier=2, bound=30)
    """

    scale: Real
    sensitivity: Real
    bound: Real
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        scale, bound = positive("scale", self.scale), positive("bound", self.bound)
        sensitivity = positive("sensitivity", self.sensitivity)
        if checks.exact("sensitivity", sensitivity) > 2 * checks.exact("bound", bound):
            expected = f"at least half the sensitivity, {sensitivity}: below it nothing is private"
            raise InvalidParameter("bound", self.bound, expected=expected)
        if checks.exact("bound", bound) > _FARTHEST * checks.exact("scale", scale):
            raise InvalidParameter("bound", self.bound, expected="at most 2^40 times the scale")
        grid, _ = rounded.grid_ratio("scale", checks.exact("scale", scale), self.grid_log2)
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        keep(self, scale=scale, sensitivity=sensitivity, bound=bound)
        keep(self, l0_sensitivity=moved, grid_log2=grid)

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP, *, sensitivity: Number, l0_sensitivity: int = 1
    ) -> TruncatedLaplace:
        """The least noise of this kind that keeps an ApproxDP guarantee.

        scale = l0 sensitivity / epsilon; bound = scale ln(1 + (e^(epsilon/l0) - 1) l0 / (2 delta)),
        rounded up at the 15th digit, and at least the sensitivity.

        >>> TruncatedLaplace.for_guarantee(ApproxDP(1, 1e-6), sensitivity=1).bound
        13.66368939597
        """
        epsilon = some_of(guarantee, ApproxDP).epsilon
        positive("delta", guarantee.delta)
        moved = whole("l0_sensitivity", l0_sensitivity, least=1, most=1 << 40)
        exact = checks.exact("sensitivity", sensitivity)
        mp, share = context(), min(guarantee.delta / moved, Fraction(1, 2))
        ratio = mp.log1p(mp.expm1(mpf(epsilon / moved)) / (2 * mpf(share)))
        scale = exact * moved / epsilon
        bound = checks.exact("bound", decimal_up(ratio * mpf(scale)))
        return TruncatedLaplace(
            scale=scale,
            sensitivity=exact,
            bound=readable(max(bound, exact)),
            l0_sensitivity=moved,
        )

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        one = events.TruncatedLaplace(
            noise_multiplier=quotient(self.scale, self.sensitivity),
            bound=quotient(self.bound, self.sensitivity),
        )
        return one * self.l0_sensitivity

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of each released number, rounding included."""
        mp = context()
        reach = mpf(self._reach())
        left = mp.exp(-reach)
        square = (2 - left * (reach * reach + 2 * reach + 2)) / (1 - left)
        ideal = float(mp.sqrt(square) * mpf(checks.exact("scale", self.scale)))
        return intervals.rounded_deviation(ideal, grid_log2=self.grid_log2)

    def error_bound(self, confidence: Number, *, on_grid: bool = False) -> float:
        """Half width q with P(|released - x| <= q) >= confidence, for one number, rounded up.

        on_grid: x is known to be a multiple of the grid. A confidence of 1 gives the bound.

        >>> round(TruncatedLaplace(scale=1, sensitivity=1, bound=3).error_bound(0.95), 5)
        2.32998
        """
        exact = checks.exact("confidence", confidence)
        bound = checks.exact("bound", self.bound)
        if exact == 1:
            width = bound
        else:
            mp, miss = context(), mpf(1 - intervals.confident(confidence))
            left = mp.exp(-mpf(self._reach()))
            ratio = decimal_up(-mp.log(miss * (1 - left) + left))
            scaled = checks.exact("scale", self.scale) * checks.exact("ratio", ratio)
            width = min(scaled, bound)
        return intervals.on_grid_width(width, grid_log2=self.grid_log2, on_grid=on_grid)

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The noisy number or float64 array, of the shape of x; see `Laplace.release`."""
        grid, ratio = rounded.grid_ratio("scale", checks.exact("scale", self.scale), self.grid_log2)
        draw = functools.partial(cut_laplace_chunk, reach=self._reach())
        return rounded.released(x, grid=grid, ratio=ratio, bits=bits or _SECURE, draw=draw)

    def _reach(self) -> Fraction:
        """The bound in units of the scale."""
        return checks.exact("bound", self.bound) / checks.exact("scale", self.scale)
