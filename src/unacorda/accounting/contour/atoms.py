"""A law that is a finite sum: tilting it to an abscissa, its nodes and their round-off."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from unacorda.accounting.contour.series import UNIT, Complexes, Floats, weighted_excess

_CHUNK = 1 << 16
_Tilt = TypeVar("_Tilt", bound="AtomTilt")


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioAtoms:
    """Atoms of the null law Q with the logarithm of the ratio f = dP/dQ at each.

    log_mass: ln Q at each atom, and its absolute error; log_ratio: ln f, and its absolute error.
    """

    log_mass: Floats
    log_mass_error: Floats
    log_ratio: Floats
    log_ratio_error: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilt(ABC):
    """One part at abscissa c, certified; phi(t) = M(c + it) / M(c), all copies together.

    log_m: the logarithm of M(c), with its absolute error; mean: the slope of the phase that `nodes`
    leaves out; slack: probability that was cut off, rounded up.
    """

    log_m: float
    log_m_error: float
    mean: float = 0.0
    slack: float = 0.0

    @abstractmethod
    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t) without the phase mean * t, and a bound on its absolute error."""

    def tail(self, t: float) -> float:  # noqa: ARG002 - no decay is claimed
        """A bound of ln sup over t' >= t of |phi(t')|; at most 0."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomTilt(Tilt):
    """`count` copies of a law of atoms, tilted to the abscissa c.

    mean: count times the centre of the losses; weights, centred: the tilted law of L - centre;
    slope: the round-off of one factor's value at c + it, per unit of t; quadrature: relative error
    of the same; log_sum: ln M(c) of one copy by its plain sum.
    """

    count: int
    weights: Floats
    centred: Floats
    slope: float
    quadrature: float
    log_sum: float

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t)^count without the phase mean * t, and a bound on its error."""
        real, imaginary = np.empty_like(t), np.empty_like(t)
        rows = max(_CHUNK // self.weights.size, 1)  # what fits into the cache at once
        for start in range(0, t.size, rows):
            here = slice(start, start + rows)
            angle = np.multiply.outer(t[here], 0.5 * self.centred)
            sine = np.sin(angle)
            real[here] = -2.0 * ((sine * sine) @ self.weights)
            np.multiply(sine, np.cos(angle, out=angle), out=sine)
            imaginary[here] = 2.0 * (sine @ self.weights)
        slip = self.slope * t + self.quadrature
        return logarithm(real, imaginary, slip, self.count)


def logarithm(
    real: Floats, imaginary: Floats, slip: Floats, count: int | Floats
) -> tuple[Complexes, Floats]:
    """The logarithm of (1 + r)^count, r known within `slip`, and a bound on its error."""
    square = real * (2.0 + real) + imaginary * imaginary
    modulus = np.hypot(1.0 + real, imaginary)
    lost = slip > 0.5 * modulus
    safe = np.where(lost, 2.0 * slip + 1e-300, modulus)
    level = np.where(square > -0.5, 0.5 * np.log1p(np.maximum(square, -0.5)), np.log(safe))
    level = np.where(lost, np.log(safe), level)
    phase = np.where(lost, 0.0, np.arctan2(imaginary, 1.0 + real))
    near = -np.log1p(-np.minimum(slip / safe, 0.75)) * (1 + 1e-9)
    error = count * near + 8 * UNIT * count * (np.abs(level) + np.abs(phase))
    error = np.where(lost, 1.2 + 0.42 * count, error)
    return count * (level + 1j * phase), error


def tilt(
    atoms: RatioAtoms,
    *,
    power: float,
    sign: float,
    count: int,
    relative: float,
    excess: float,
    offset: float | None = 0.0,
    make: Callable[..., _Tilt],
) -> _Tilt:
    """Tilt the law of L = sign * ln f under f^(power) dQ; power is c + 1 or -c.

    The two ways to ln M(c), by the excess of one sign and by the plain sum, are both bounded, and
    the better one is taken. relative, excess: how far the sums may lie from the law they stand for,
    of M(c + it) for every t up to the last node, in units of M(c), and absolute, of M(c) - 1
    computed as the mean of f^a - 1 - a (f - 1). offset: what that leaves out of M(c) - 1, its error
    counted in excess; None where only the plain sum is at hand. make: the class of the result.
    """
    size = atoms.log_mass.size
    exponent = power * atoms.log_ratio
    log_weight = atoms.log_mass + exponent
    top = float(log_weight.max())
    raw = np.exp(log_weight - top)
    total = math.fsum(raw)
    log_sum = top + math.log(total)
    weights = raw / total
    spread = (
        atoms.log_mass_error
        + abs(power) * atoms.log_ratio_error
        + UNIT * (np.abs(atoms.log_mass) + 2 * np.abs(exponent) + np.abs(log_weight - top) + 12)
    )
    loss = sign * atoms.log_ratio
    centre = math.fsum(weights * loss)
    centred = loss - centre
    far = weights * np.abs(centred)
    slope = float(((size + 60) * UNIT + spread) @ far + weights @ atoms.log_ratio_error)
    direct = float(weights @ spread) + relative + 8 * UNIT * (1 + abs(log_sum))
    log_m, error = log_sum, direct
    if log_sum < 1.0 and offset is not None:
        above, above_error = mean_excess(atoms, power)
        above_error += excess + 4 * UNIT * (above + abs(offset))
        above += offset
        if (
            above > -0.5
            and (error_of_log := above_error / min(1.0, 1 + above - above_error)) < direct
        ):
            log_m, error = math.log1p(above), error_of_log
    return make(
        log_m=count * log_m,
        log_m_error=count * (error * 1.01 + 2 * UNIT * abs(log_m)),
        count=count,
        mean=count * centre,
        weights=weights,
        centred=centred,
        slope=slope * 1.01,
        quadrature=2 * relative / (1 - min(relative, 0.5)),
        log_sum=log_sum,
    )


def mean_excess(atoms: RatioAtoms, power: float) -> tuple[float, float]:
    """M - 1 as the sum of Q (f^a - 1 - a (f - 1)), and a bound on its round-off.

    Bound       both: the sum lies within the second number of the first.
    Source      docs/proofs/contour.md, section 5.
    """
    exponent = power * atoms.log_ratio
    mass = np.exp(atoms.log_mass)
    steep = weighted_excess(atoms.log_mass, mass, exponent)
    plain = weighted_excess(atoms.log_mass, mass, atoms.log_ratio)
    above = math.fsum(steep) - power * math.fsum(plain)
    lean = mass + np.exp(np.minimum(atoms.log_mass + atoms.log_ratio, 700.0))
    tilted = np.exp(np.minimum(atoms.log_mass + exponent, 700.0))
    shares = np.minimum(tilted + mass, (tilted + mass) * np.abs(exponent))
    flat = np.minimum(lean, lean * np.abs(atoms.log_ratio))
    size = np.abs(atoms.log_mass) + 4
    far = UNIT * (
        np.where(np.abs(exponent) < 0.5, 0.0, tilted) @ (size + np.abs(exponent))
        + abs(power)
        * (np.where(np.abs(atoms.log_ratio) < 0.5, 0.0, lean) @ (size + np.abs(atoms.log_ratio)))
    )
    error = far + float(
        (steep + abs(power) * plain) @ (60 * UNIT + 1.01 * atoms.log_mass_error)
        + (shares + flat) @ (abs(power) * atoms.log_ratio_error)
        + UNIT * (shares @ np.abs(exponent))
    )
    return max(above, 0.0), error * 1.01
