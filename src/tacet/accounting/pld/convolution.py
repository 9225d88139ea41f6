"""Sums of independent losses on a grid: tilted laws, fast Fourier transforms, every error counted.

The laws are multiplied by e^{c loss} and scaled to mass 1, so that the losses that matter for a
tiny delta become the common ones; the transform's round-off is then small beside them. What lies
outside the window of the cyclic transform is bounded by Chernoff's inequality.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tacet.accounting.pld.grid import Law
from tacet.accounting.profiles.boxes import Array

__all__ = ["Sum", "Window", "cumulant", "total"]

_U = 2.0**-53
_Complex: TypeAlias = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the sum is looked at: nodes first..first + size - 1, under a tilt c.

    higher, lower: orders for Chernoff's bound of what lies above and below, on either side of c.
    """

    first: int
    size: int
    tilt: float
    higher: float
    lower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The law of a sum: e^{exponent - tilt loss} times values, each within +-error, and bounds.

    above, below: logarithms of Chernoff bounds of the tilted mass outside the window; infinity:
    the mass at infinity. The sum is of laws rounded to one side, which `total` was told.
    """

    step: Fraction
    window: Window
    values: Array = field(repr=False)
    exponent: float
    error: float
    above: float
    below: float
    infinity: float

    def delta_above(self, epsilon: float) -> float:
        """An upper bound of the profile of the sum; see docs/proofs/pld.md, Theorem 2."""
        losses, slack = self._losses(epsilon)
        lowered = epsilon - slack
        start = int(np.searchsorted(losses, lowered, side="right"))
        distances = losses[start:] - lowered
        kernel = np.exp(-self.window.tilt * distances) * -np.expm1(-distances)
        inner = float(np.sum((np.maximum(self.values[start:], 0.0) + self.error) * kernel))
        height = self.exponent - self.window.tilt * lowered
        outside = _exp(self.above - self.window.tilt * self._top() + self.exponent)
        if lowered < losses[0]:  # what lies below the window may matter, and is not known
            return 1.0
        finite = _exp(height + self._charge(epsilon)) * inner * (1 + 1e-13) + outside
        return min(1.0, (self.infinity + finite) * (1 + 8 * _U))

    def delta_below(self, epsilon: float) -> float:
        """A lower bound of the profile of the sum."""
        losses, slack = self._losses(epsilon)
        raised = epsilon + slack
        start = int(np.searchsorted(losses, raised, side="right"))
        distances = losses[start:] - raised
        kernel = np.exp(-self.window.tilt * distances) * -np.expm1(-distances)
        inner = float(np.sum(np.maximum(self.values[start:] - self.error, 0.0) * kernel))
        # a loss that the transform wraps into the sum appears with at most the kernel's peak
        wrapped = (_exp(self.above) + _exp(self.below)) * (float(np.max(kernel, initial=0.0)))
        height = self.exponent - self.window.tilt * raised
        inner = max(inner * (1 - 1e-13) - wrapped, 0.0)
        finite = _exp(height - self._charge(epsilon)) * inner
        return min(1.0, max(0.0, (self.infinity + finite) * (1 - 8 * _U)))

    def masses(self) -> tuple[Array, Array]:
        """Losses of the window and their masses, without the tilt; round-off below 0 is cut."""
        losses, _ = self._losses(0.0)
        with np.errstate(under="ignore"):
            weights = np.maximum(self.values, 0.0) * np.exp(
                np.minimum(self.exponent - self.window.tilt * losses, 700.0)
            )
        return losses, weights

    def _losses(self, epsilon: float) -> tuple[Array, float]:
        """Losses of the window in floats, and a bound of their errors and of a difference's."""
        numbers = np.arange(self.window.first, self.window.first + self.window.size)
        losses: Array = np.asarray(numbers * float(self.step), dtype=np.float64)
        return losses, 8 * _U * (float(np.max(np.abs(losses[[0, -1]]))) + abs(epsilon))

    def _charge(self, epsilon: float) -> float:
        """The error of the logarithm of a term: of the window's tilt and the exponent."""
        reach = max(abs(self._top()), abs(self._bottom()), abs(epsilon))
        return 16 * _U * (abs(self.exponent) + self.window.tilt * reach + 4)

    def _top(self) -> float:
        return (self.window.first + self.window.size) * float(self.step)

    def _bottom(self) -> float:
        return self.window.first * float(self.step)


def cumulant(law: Law, *, step: Fraction, order: float) -> tuple[float, float]:
    """The logarithm of the sum of w e^{order loss} over finite losses, and a bound of its error."""
    losses = np.arange(law.first, law.first + len(law.weights)) * float(step)
    present = law.weights > 0
    if not present.any():
        return -math.inf, 0.0
    exponents = np.log(law.weights[present]) + order * losses[present]
    peak = float(np.max(exponents))
    value = peak + math.log(float(np.sum(np.exp(exponents - peak))))
    reach = abs(order) * float(np.max(np.abs(losses[[0, -1]])))
    return value, 16 * _U * (reach + 750.0 + abs(peak) + math.log2(len(losses) + 1))


def total(
    laws: Sequence[tuple[Law, int]], *, step: Fraction, window: Window, side: int
) -> Sum | None:
    """The law of the sum of `count` independent losses of each law; None where one is empty.

    side: 1 where the laws are rounded up for `delta_above`, -1 down for `delta_below`.

    Bound       upper or lower, as the side says: values of the tilted sum of the rounded laws,
                wrapped round the window, lie within `error` of those given.
    Source      Higham 2002, Section 24.1 (the transform); docs/proofs/pld.md, Theorem 2.
    """
    size = window.size
    spectrum: _Complex = np.ones(size // 2 + 1, dtype=np.complex128)
    slack = np.zeros(size // 2 + 1)
    rounding = 8 * _U * (math.log2(size) + 1)
    exponent = 0.0
    rises, drops = [0.0, 0.0], [0.0, 0.0]  # cumulants at the orders above and below, their errors
    for law, count in laws:
        height, _ = cumulant(law, step=step, order=window.tilt)
        if height == -math.inf:
            return None
        for order, sums in ((window.higher, rises), (window.lower, drops)):
            value, error = cumulant(law, step=step, order=order)
            sums[0] += count * value
            sums[1] += count * error
        exponent += count * height
        tilted = _folded(law, step=step, window=window, height=height, side=side)
        mass = float(np.sum(tilted))
        transformed = fft.rfft(tilted)
        charge = rounding * mass * 1.01
        sizes = np.abs(transformed)
        power = _power(transformed, count)
        with np.errstate(under="ignore"):
            near = np.exp((count - 1) * np.log(np.maximum(sizes + charge, 1e-300)))
            one = count * (charge + 8 * _U * sizes) * near
            slack = slack * (np.abs(power) + one) + np.abs(spectrum) * one
            spectrum = spectrum * power
            slack += 4 * _U * np.abs(spectrum)
    values = np.roll(fft.irfft(spectrum, size), -(window.first % size))
    everything = 2 * float(np.sum(slack + rounding * np.abs(spectrum)))
    top = (window.first + size) * float(step)
    bottom = window.first * float(step)
    return Sum(
        step=step,
        window=window,
        values=values,
        exponent=exponent,
        error=everything / size * 1.01,
        above=_chernoff(rises, exponent, window.tilt, window.higher, top),
        below=_chernoff(drops, exponent, window.tilt, window.lower, bottom),
        infinity=_infinity(laws, side=side),
    )


def _chernoff(sums: list[float], exponent: float, tilt: float, order: float, edge: float) -> float:
    """The logarithm of Chernoff's bound of the tilted mass beyond the edge."""
    height = sums[0] - exponent - (order - tilt) * edge
    return height + sums[1] + 16 * _U * (abs(sums[0]) + abs(exponent) + abs(order * edge))


def _folded(law: Law, *, step: Fraction, window: Window, height: float, side: int) -> Array:
    """The tilted law of mass about one, rounded to one side, wrapped round the window's length.

    Each weight is moved by its own error, so that the result is exactly the tilt of some law that
    lies beyond the given one; no error of the tilt is left to be multiplied by the count.
    """
    losses = np.arange(law.first, law.first + len(law.weights)) * float(step)
    powers = window.tilt * losses
    with np.errstate(under="ignore", divide="ignore", over="ignore", invalid="ignore"):
        mild = np.abs(powers - height) < 650.0
        tilted = np.where(
            mild,
            law.weights * np.exp(powers - height),
            np.exp(np.log(law.weights) + (powers - height)),
        )
    # l, c l and the difference are rounded; a logarithm brings at most 750 units more
    errors = 4 * _U * (np.abs(powers) * 2 + abs(height) + np.where(mild, 8.0, 760.0))
    tilted *= 1 + side * errors
    shift = law.first % window.size
    length = -(-(shift + len(tilted)) // window.size) * window.size
    padded = np.zeros(length)
    padded[shift : shift + len(tilted)] = tilted
    folded: Array = padded.reshape(-1, window.size).sum(axis=0)
    return folded * (1 + side * 2 * _U * (length // window.size))


def _power(values: _Complex, count: int) -> _Complex:
    """The power by squaring: at most 2 count roundings pass into any factor."""
    result: _Complex = np.ones_like(values)
    with np.errstate(under="ignore"):
        while count:
            if count & 1:
                result = result * values
            count >>= 1
            if count:
                values = values * values
    return result


def _infinity(laws: Sequence[tuple[Law, int]], *, side: int) -> float:
    """The mass of sums with an infinite term: prod M - prod (M - m), M being all mass of a law."""
    whole = apart = 0.0
    for law, count in laws:
        mass = float(np.sum(law.weights)) + law.infinity
        whole += count * math.log(mass)
        share = law.infinity / mass
        apart += count * math.log1p(-share) if share < 1 else -math.inf
    error = sum(count for _, count in laws) * 64 * _U
    return math.exp(whole + side * error) * -math.expm1(apart) * (1 + side * 1e-13)


def _exp(value: float) -> float:
    """The exponential of a number, infinite beyond the floats."""
    return math.exp(value) if value < 709 else math.inf
