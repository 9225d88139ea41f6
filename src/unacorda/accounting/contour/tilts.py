"""The parts of a composition, tilted to an abscissa: sums of atoms and closed cumulants.

A part is a `Factor`; at one abscissa it is a `Tilt`, whose characteristic function is known at
nodes with its round-off. Gaussian noise and laws of the loss on -e, 0, e have a closed cumulant.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
_Numbers = TypeVar("_Numbers", Floats, Complexes)

UNIT = 2.0**-53
"""Rounding unit of float64. exp, expm1, log1p, sin, cos, arctan2 count as 4 units."""

_SWITCH = 0.5
_SMALL = 0.06


def excess(y: _Numbers) -> _Numbers:
    """e^y - 1 - y, for |y| < 700, within 45 units relative.

    Bound       below 1/2 in modulus by its series to y^17 (to y^11 if all are below 0.06).
    Source      docs/proofs/contour.md, section 5.

    >>> float(excess(np.array([1e-9]))[0])
    5.000000001666667e-19
    """
    size = np.abs(y)
    largest = float(size.max(initial=0.0))
    if largest < _SWITCH:
        return _series(y, 11 if largest < _SMALL else 17)
    near = size < _SWITCH
    return np.where(near, _series(np.where(near, y, 0.0), 17), np.expm1(y) - y)


def weighted_excess(log_mass: Floats, mass: Floats, y: Floats) -> Floats:
    """The product mass * (e^y - 1 - y), also where e^y alone would overflow; mass = e^log_mass."""
    size = np.abs(y)
    largest = float(size.max(initial=0.0))
    if largest < _SWITCH:
        return mass * _series(y, 11 if largest < _SMALL else 17)
    near = size < _SWITCH
    far = np.exp(np.minimum(log_mass + y, 700.0)) - mass * (1.0 + y)
    return np.where(near, mass * _series(np.where(near, y, 0.0), 17), far)


def log_sum(levels: Floats) -> Floats:
    """For each row the logarithm of its sum of exponentials; no overflow, rounded up by 1e-9."""
    peak: Floats = levels.max(axis=-1)
    total: Floats = np.log(np.exp(levels - peak[..., None]).sum(axis=-1))
    total += peak + 1e-9
    return total


def short(value: float) -> float:
    """The value with 24 binary digits: its multiples up to 2^29 are exact floats."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 24)), exponent - 24)


def _series(y: _Numbers, degree: int) -> _Numbers:
    total = y * (1.0 / math.factorial(degree))
    for power in range(degree - 1, 2, -1):
        total += 1.0 / math.factorial(power)
        total *= y
    total += 0.5
    total *= y * y
    return total


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


class Factor(ABC):
    """One part of a composition in one direction: a law of the privacy loss, some copies of it.

    By default nothing is cut off, and of the tilt no decay is claimed.
    """

    __slots__ = ()

    @property
    def slack(self) -> float:
        """Probability that was cut off, all copies together, rounded up."""
        return 0.0

    @property
    @abstractmethod
    def limit(self) -> float:
        """The largest abscissa at which M is formed in floats."""

    @abstractmethod
    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K = ln M, K' and K'' at abscissas cs; for planning, not certified."""

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """About the tilted probability cut off, times copies; k is K(cs). For planning."""
        return np.zeros_like(cs + k)

    def planned_tail(self, c: float, t: float) -> float:  # noqa: ARG002 - the same everywhere
        """About what the tilt's tail(t) will be."""
        return 0.0

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of K(c); infinite where none is at hand."""
        at = self.tilt(c, last=0.0, most=_MANY)
        return math.inf if at is None else at.log_m + at.log_m_error

    @abstractmethod
    def tilt(self, c: float, *, last: float, most: int) -> Tilt | None:
        """The part at c, good for nodes up to t = last; None where it takes above `most` atoms."""


_FEW, _MANY = 64, 1 << 62
"""A law of at most the first number of atoms is never refused for its work; none has the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianSum(Factor):
    """Gaussian mechanisms and a loss that is a number: M(s) = e^(V s (s + 1) / 2 + loss s).

    v: V, the sum of 1 / noise multiplier^2; error: absolute, of the loss.
    """

    v: float
    loss: float = 0.0
    error: float = 0.0
    limit: float = 1e10

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        k = 0.5 * self.v * cs * (cs + 1) + self.loss * cs
        return k, self.v * (cs + 0.5) + self.loss, np.full_like(cs, self.v)

    def planned_tail(self, c: float, t: float) -> float:  # noqa: ARG002 - the same at every c
        """Minus V t^2 / 2."""
        return -0.5 * self.v * t * t

    def tilt(self, c: float, *, last: float, most: int) -> GaussianTilt:  # noqa: ARG002
        """The part at c; its errors are of eight roundings, those of V included."""
        square = 0.5 * self.v * c * (c + 1)
        return GaussianTilt(
            law=self,
            c=c,
            log_m=square + c * self.loss,
            log_m_error=8 * UNIT * square + c * (self.error + 4 * UNIT * abs(self.loss)),
            mean=self.v * (c + 0.5) + self.loss,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianTilt(Tilt):
    """GaussianSum at abscissa c: phi(t) = e^(i t (V (c + 1/2) + loss) - V t^2 / 2)."""

    law: GaussianSum
    c: float

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of |phi|, and the roundings of it and of the mean."""
        level, loss = -0.5 * self.law.v * t * t, self.law.loss
        slip = 5 * UNIT * self.law.v * (self.c + 0.5) + self.law.error + 2 * UNIT * abs(loss)
        return level.astype(np.complex128), 6 * UNIT * np.abs(level) + slip * t

    def tail(self, t: float) -> float:
        """-V t^2 / 2, rounded up."""
        return -0.5 * self.law.v * t * t * (1 - 8 * UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreePoint(Factor):
    """Losses e, 0, -e with probabilities p, r, p e^-e: pure privacy (r = 0), randomised response.

    Arrays over different mechanisms; counts: copies of each. p + r + p e^-e = 1.
    """

    epsilon: Floats
    top: Floats
    counts: Floats

    @property
    def limit(self) -> float:
        """Where c e reaches 600."""
        return 600.0 / float(self.epsilon.max(initial=1e-8))

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        e = self.epsilon
        y = np.multiply.outer(cs, e)
        high, low = self.top * np.exp(y), self.top * np.exp(-e - y)
        above = self.top * np.expm1(y) + self.top * np.exp(-e) * np.expm1(-y)
        m = 1 + above
        first = e * (high - low) / m
        second = e * e * (high + low) / m - first * first
        counts = self.counts
        return np.log1p(above) @ counts, first @ counts, np.maximum(second @ counts, 1e-300)

    def _above(self, c: float) -> tuple[Floats, Floats]:
        """M(c) - 1 of each mechanism by terms of one sign, and its relative error."""
        e = self.epsilon
        down = self.top * np.exp(-e)
        above = self.top * excess(c * e) + down * excess(-c * e)
        above = above + c * e * self.top * -np.expm1(-e)
        return above, UNIT * (100 + 8 * c * e)

    def tilt(self, c: float, *, last: float, most: int) -> ThreePointTilt | None:  # noqa: ARG002
        """The part at c; None beyond `limit`, or for more than eight times `most` laws."""
        if not 0 < c <= self.limit or self.epsilon.size > 8 * most:
            return None
        above, slip = self._above(c)
        each = np.log1p(above)
        log_m = math.fsum(self.counts * each)
        return ThreePointTilt(
            law=self,
            log_m=log_m,
            log_m_error=math.fsum(self.counts * above / (1 + above) * slip) + 12 * UNIT * log_m,
            high=self.top * np.exp(c * self.epsilon) / (1 + above),
            low=self.top * np.exp(-self.epsilon * (1 + c)) / (1 + above),
            slip=slip,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreePointTilt(Tilt):
    """ThreePoint at an abscissa: the tilted probabilities of the losses e and -e."""

    law: ThreePoint
    high: Floats
    low: Floats
    slip: Floats

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t), mechanism by mechanism."""
        total = np.zeros(t.size, dtype=np.complex128)
        error = np.zeros(t.size)
        for j in range(self.law.epsilon.size):
            high, low, e = float(self.high[j]), float(self.low[j]), float(self.law.epsilon[j])
            angle = t * e
            half = np.sin(0.5 * angle)
            real = -2 * (high + low) * half * half
            imaginary = (high - low) * np.sin(angle)
            size = np.minimum(angle, 2.0) * (high + low)
            slip = 2 * float(self.slip[j]) * size + 8 * UNIT * angle * (high + low)
            log, wrong = logarithm(real, imaginary, slip, int(self.law.counts[j]))
            total += log
            error += wrong
        return total, error + 2 * UNIT * self.law.epsilon.size * np.abs(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteLaw(Factor):
    """`count` copies of a pair of laws on finitely many points.

    lost: a bound on what the atoms leave out of both laws, and of their relative error.
    """

    atoms: RatioAtoms
    remove: bool
    count: int
    lost: float = 0.0

    @property
    def slack(self) -> float:
        """What was cut off, all copies together."""
        return self.count * self.lost

    def power(self, c: float) -> float:
        """The power a of f in M(c) = E_Q f^a."""
        return c + 1 if self.remove else -c

    @property
    def limit(self) -> float:
        """Where c |ln f| reaches 500."""
        return 500.0 / max(float(np.abs(self.atoms.log_ratio).max()), 1e-8) - 1

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        powers = cs + 1 if self.remove else -cs
        loss = self.atoms.log_ratio * (1.0 if self.remove else -1.0)
        mass = np.exp(self.atoms.log_mass)
        y = np.multiply.outer(powers, self.atoms.log_ratio)
        plain = np.multiply.outer(powers, np.expm1(self.atoms.log_ratio))
        weight = mass * np.exp(np.minimum(y, 700.0))
        above = (mass * (np.expm1(np.minimum(y, 700.0)) - plain)).sum(axis=1)
        total = weight.sum(axis=1)
        first = weight @ loss / total
        second = weight @ (loss * loss) / total - first * first
        count = self.count
        big = np.log1p(np.maximum(above, 0.0))
        return count * big, count * first, count * np.maximum(second, 1e-300)

    def tilt(self, c: float, *, last: float, most: int) -> AtomTilt | None:  # noqa: ARG002
        """The part at c; None beyond `limit`, or for many more than `most` atoms."""
        if not 0 < c <= self.limit or self.atoms.log_mass.size > 8 * most + _FEW:
            return None
        power = self.power(c)
        return tilt(
            self.atoms,
            power=power,
            sign=1.0 if self.remove else -1.0,
            count=self.count,
            relative=self.lost,
            excess=2 * (1 + abs(power)) * self.lost,
            make=AtomTilt,
        )


def atoms_of(factors: Iterable[Factor]) -> int | None:
    """How many atoms the parts have together; None where one is no closed law of atoms."""
    found = 1
    for factor in factors:
        match factor:
            case FiniteLaw(atoms=atoms):
                found += atoms.log_mass.size
            case ThreePoint(epsilon=epsilon):
                found += 3 * epsilon.size
            case GaussianSum():
                pass
            case _:
                return None
    return found
