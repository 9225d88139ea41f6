"""Parts whose cumulant is a formula: Gaussian noise, and laws of the loss on -e, 0, e."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.atoms import (
    AtomTilt,
    RatioAtoms,
    Tilt,
    logarithm,
    tilt,
)
from unacorda.accounting.contour.series import UNIT, Complexes, Floats, excess


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
