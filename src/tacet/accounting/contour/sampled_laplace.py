"""Poisson-subsampled Laplace: two atoms and a piece in between, by Gauss and Legendre.

In units of the noise, u = 1 / noise multiplier: Q has the atoms 1/2 where the loss ratio is
e^-u, e^-u / 2 where it is e^u, and between them the density (u / 4) e^(-u (1 + y) / 2), y in
[-1, 1], with ratio e^(u y); f = 1 - q + q * ratio.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacet.accounting.contour.atoms import Atoms, AtomTilt, Quadrature, tilt
from tacet.accounting.contour.series import UNIT, Complexes, Floats

__all__ = ["SampledLaplace", "SampledLaplaceTilt", "legendre", "sampled_laplace"]

_TOLERANCE = 1e-13
_BITS = 140
_SIZES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLaplace:
    """`count` steps in one direction; planning holds the atoms used before c is chosen."""

    q: float
    u: float
    count: int
    remove: bool
    planning: Atoms
    slack: float = 0.0

    def power(self, c: float) -> float:
        """The power a of f in M(c) = E_Q f^a."""
        return c + 1 if self.remove else -c

    @property
    def limit(self) -> float:
        """Where c |ln f| reaches 500."""
        return 500.0 / max(float(np.abs(self.planning.log_ratio).max()), 1e-8) - 1

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        from tacet.accounting.contour.closed import FiniteLaw

        law = FiniteLaw(atoms=self.planning, remove=self.remove, count=self.count)
        return law.cumulants(cs)

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """Nothing is cut off."""
        return np.zeros_like(cs + k)

    def planned_tail(self, c: float, t: float) -> float:
        """About the tilt's tail."""
        at = self._rough(c)
        return 0.0 if at is None else at.tail(t)

    def _rough(self, c: float) -> SampledLaplaceTilt | None:
        return self.tilt(c, last=0.0, most=_SIZES[-1])

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of K(c); infinite where none is at hand."""
        at = self._rough(c)
        return math.inf if at is None else at.log_m + at.log_m_error

    def tilt(self, c: float, *, last: float, most: int) -> SampledLaplaceTilt | None:
        """The part at c, good for nodes up to t = `last`; None where it takes too many atoms.

        The number of points is the least of a fixed list for which every sum errs by less than
        1e-13 / count of M(c), or the largest.
        """
        if not 0 < c <= self.limit:
            return None
        power = self.power(c)
        goal = math.log(_TOLERANCE / self.count)
        chosen = None
        for size in _SIZES:
            level = _log_error(self.q, self.u, power, last, size)
            plain = _log_error(self.q, self.u, 1.0, 0.0, size) + math.log(1 + 2 * abs(power))
            chosen = (size, level, plain)
            if max(level, plain) < goal:
                break
        if chosen is None or chosen[0] > most or max(chosen[1:]) > -7:
            return None
        size, level, plain = chosen
        atoms = _atoms(self.q, self.u, size)
        log_weight = atoms.log_mass + power * atoms.log_ratio
        top = float(log_weight.max())
        total = top + math.log(float(np.exp(log_weight - top).sum()))
        relative = math.exp(level - total) * 1.01
        if not relative < 1e-3:
            return None
        ends = log_weight[[0, 1]] - total
        # at both ends of the middle piece: weight of the tilted law per unit of loss
        log_f = atoms.log_ratio[[0, 1]]
        sides = np.array([-self.u, self.u])
        gauge = math.log(0.25 / self.q) - 0.5 * (self.u + sides) - sides
        edge = np.exp(gauge + (power + 1) * log_f - total)
        return SampledLaplaceTilt(
            atoms=tilt(
                atoms,
                power=power,
                sign=1.0 if self.remove else -1.0,
                count=self.count,
                quadrature=Quadrature(
                    relative=relative, excess=math.exp(level) * 1.01 + math.exp(plain) * 1.01
                ),
            ),
            jumps=float(np.exp(ends).sum()) * (1 + 1e-9),
            edges=float(edge.sum()) * (1 + 1e-9),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledLaplaceTilt:
    """The tilted atoms; jumps: mass of the two atoms; edges: density of the loss at both ends."""

    atoms: AtomTilt
    jumps: float
    edges: float
    slack: float = 0.0

    @property
    def log_m(self) -> float:
        """The logarithm of M(c), times count."""
        return self.atoms.log_m

    @property
    def log_m_error(self) -> float:
        """A bound on the absolute error of log_m."""
        return self.atoms.log_m_error

    @property
    def mean(self) -> float:
        """The slope of the phase that `nodes` leaves out."""
        return self.atoms.mean

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t)^count without the phase mean * t, and a bound on its error."""
        return self.atoms.nodes(t)

    def tail(self, t: float) -> float:
        """A bound of ln sup over t' >= t of |phi(t')|^count: the atoms, and parts by parts.

        The middle piece's density of the loss is monotone or falls and then rises, so its
        transform is at most 2 (sum of both end values) / t.
        """
        if t <= 0:
            return 0.0
        most = self.jumps + 2 * self.edges / t + 2 * self.atoms.quadrature
        return self.atoms.count * math.log(most) * (1 - 1e-11) if most < 1 else 0.0


def sampled_laplace(
    *, noise_multiplier: Fraction, rate: Fraction, count: int, remove: bool
) -> SampledLaplace | None:
    """One direction of `count` Poisson-subsampled Laplace steps; None where too extreme."""
    u, q = float(1 / noise_multiplier), float(rate)
    if not (u < 200 and 1e-12 < q < 1):
        return None
    size = 64 if u < 8 else 256
    return SampledLaplace(q=q, u=u, count=count, remove=remove, planning=_atoms(q, u, size))


@functools.lru_cache(maxsize=16)
def legendre(size: int) -> tuple[Floats, Floats]:
    """Points and weights of the Gauss-Legendre rule of an even size, each the nearest float.

    NumPy's weights are off by up to 1e-11; its points are the start of two Newton steps in
    fixed point.
    """
    start = np.polynomial.legendre.leggauss(size)[0][size // 2 :]
    points, weights = [], []
    one = 1 << _BITS
    for near in start:
        x = int(math.ldexp(float(near), 60)) << (_BITS - 60)
        for _ in range(2):
            value, slope = _polynomial(x, size)
            x -= (value << _BITS) // slope
        slope = _polynomial(x, size)[1]
        points.append(float(Fraction(x, one)))
        weights.append(float(Fraction(2 * one**4, (one * one - x * x) * slope * slope)))
    right, heights = np.array(points), np.array(weights)
    return np.concatenate([-right[::-1], right]), np.concatenate([heights[::-1], heights])


def _polynomial(x: int, size: int) -> tuple[int, int]:
    """The Legendre polynomial of this degree and its slope at x, in fixed point."""
    before, value = 1 << _BITS, x
    for degree in range(1, size):
        following = ((2 * degree + 1) * x * value >> _BITS) - degree * before
        before, value = value, following // (degree + 1)
    slope = ((x * value >> _BITS) - before) * size
    return value, (slope << _BITS) // ((x * x >> _BITS) - (1 << _BITS))


def _atoms(q: float, u: float, size: int) -> Atoms:
    """The two atoms, then the points of the middle piece. Points and weights count 2^-50."""
    points, weights = legendre(size)
    y = np.concatenate([[-1.0, 1.0], points])
    ratio = np.log1p(q * np.expm1(u * y))
    middle = math.log(u / 4) - 0.5 * u * (1 + points) + np.log(weights)
    log_mass = np.concatenate([[-math.log(2.0), -u - math.log(2.0)], middle])
    share = q * np.exp(u * y - ratio)
    slip = 2.0**-50 + 8 * UNIT * (1 + u * np.abs(y)) + 8 * UNIT * abs(math.log(u / 4))
    below = np.abs(np.expm1(-ratio))
    moved = share * u * (2.0**-50 + 4 * UNIT * np.abs(y))
    return Atoms(
        log_mass=log_mass,
        log_mass_error=slip + u * 2.0**-50,
        log_ratio=ratio,
        log_ratio_error=8 * UNIT * below + moved + 5 * UNIT * np.abs(ratio),
    )


def _log_error(q: float, u: float, power: float, t: float, size: int) -> float:
    """The logarithm of a bound on the Gauss-Legendre error of the middle piece of M(c + it).

    8 S rho^(-2 n) / (1 - 1 / rho), S the largest modulus on a Bernstein ellipse.

    Source      docs/proofs/contour.md, section 8.
    """
    heights = np.minimum(0.95 * math.pi / u, 40.0) * np.geomspace(0.02, 1.0, 12)
    rho = heights + np.sqrt(heights * heights + 1)
    wide = np.sqrt(heights * heights + 1)
    top = np.logaddexp(math.log1p(-q), math.log(q) + u * wide)
    low = np.logaddexp(math.log1p(-q), math.log(q) - u * wide)
    angle = np.minimum(u * heights, math.pi * 0.95)
    level = math.log(u / 4) + 0.5 * u * (wide - 1) + np.maximum(power * top, power * low)
    level = level + t * angle
    if power < 0:
        level = level + power * np.log(np.cos(0.5 * angle))
    bound = level + math.log(8.0) - 2 * size * np.log(rho) - np.log1p(-1 / rho)
    return float(bound.min()) + 1e-6
