"""Poisson-subsampled Gaussian: its cumulant by the trapezoid rule, with every error bounded.

In units of the noise: Q = N(0, 1), P = (1 - q) Q + q N(mu, 1), f = dP/dQ = 1 - q + q e^(mu x -
mu^2 / 2), mu = 1 / noise multiplier. `remove` is the pair (P, Q), whose loss is ln f under P, so
M(s) = E_Q f^(s+1); `add` is (Q, P), whose loss is -ln f under Q, so M(s) = E_Q f^(-s).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacet.accounting.contour.factor import Tilt
from tacet.accounting.contour.series import UNIT, Floats

__all__ = [
    "LOG_ROOT",
    "SampledGaussian",
    "outside",
    "ratio",
    "ratio_error",
    "sampled_gaussian",
    "shifted",
    "tail_angles",
]

LOG_ROOT = 0.5 * math.log(2 * math.pi)
_MOST_POINTS = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian:
    """`count` steps in one direction, restricted to low <= x <= high, with its planning grid.

    q, mu: sampling rate and 1 / noise multiplier; remove: the direction; step: of the planning
    grid x, whose ends are half a step inside low and high; log_mass, ell, share: ln of the grid's
    Q masses, ln f and w / f there; slack: a bound on the probability outside, times count.
    """

    q: float
    mu: float
    count: int
    remove: bool
    low: float
    high: float
    step: float
    x: Floats
    log_mass: Floats
    ell: Floats
    share: Floats
    edge_ell: Floats
    edge_share: Floats
    lost: float
    slack: float

    def power(self, c: float) -> float:
        """The power a of f in M(c) = E_Q f^a."""
        return c + 1 if self.remove else -c

    @property
    def limit(self) -> float:
        """The largest abscissa at which M(c) is formed in floats."""
        load = 600.0 + 0.5 * self.x * self.x
        if self.remove:
            room = load / np.maximum(self.ell, 1e-300)
            return float(room[self.ell > 0].min(initial=1e10)) - 1.0
        return float((load / np.maximum(-self.ell, 1e-300))[self.ell < 0].min(initial=1e10))

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at real abscissas, for planning: not certified."""
        powers = cs + 1 if self.remove else -cs
        mass = np.exp(self.log_mass)
        weight = np.exp(np.minimum(np.multiply.outer(powers, self.ell) + self.log_mass, 700.0))
        lift = mass * np.expm1(np.minimum(self.ell, 700.0))
        above = (weight - (mass + np.multiply.outer(powers, lift))).sum(axis=1)
        moments = weight @ np.stack([np.ones_like(self.ell), self.ell, self.ell * self.ell], axis=1)
        first = moments[:, 1] / moments[:, 0]
        second = moments[:, 2] / moments[:, 0] - first * first
        sign = 1.0 if self.remove else -1.0
        count = self.count
        big = np.log1p(np.maximum(above, 0.0))
        return count * big, count * sign * first, count * np.maximum(second, 1e-300)

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """About the tilted weight of a grid cell at the ends, times count; k is K(cs)."""
        powers = cs + 1 if self.remove else -cs
        edges = np.array([self.low, self.high])
        at_edge = math.log(self.step) - LOG_ROOT - 0.5 * edges * edges
        log_weight = np.multiply.outer(powers, self.edge_ell) + at_edge
        share: Floats = np.exp(np.minimum(log_weight - (k / self.count)[:, None], 50.0)).sum(axis=1)
        return self.count * share

    def planned_tail(self, c: float, t: float) -> float:
        """About ln sup over t' >= t of |phi(t')|^count, from the planning grid."""
        log_weight = self.power(c) * self.ell + self.log_mass
        weights = np.exp(log_weight - log_weight.max())
        weights /= weights.sum()
        angles = tail_angles(self, c, weights, self.share, t)
        gain, _ = shifted(self, c, weights, self.share, angles, t=t)
        return self.count * math.log1p(max(float(gain.min()), -1 + 1e-15))

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of count * ln M_A(c), A the restricted law; may be infinite."""
        from tacet.accounting.contour.strip import sampled_gaussian_log_m_upper

        return sampled_gaussian_log_m_upper(self, c)

    def tilt(self, c: float, *, last: float, most: int) -> Tilt | None:
        """The certified law at c, good for nodes up to t = `last`; None above `most` points."""
        from tacet.accounting.contour.strip import sampled_gaussian_tilt

        return sampled_gaussian_tilt(self, c, last=last, most=most)


def sampled_gaussian(
    *,
    noise_multiplier: Fraction,
    rate: Fraction,
    count: int,
    remove: bool,
    log_delta: float,
    steps: int,
) -> SampledGaussian | None:
    """One direction of `count` Poisson-subsampled Gaussian steps; None where too extreme.

    log_delta: ln of about the delta in question; steps: number of steps in the whole composition.
    Together they set how far out x is kept, so that what is lost is about 1e-18 of delta.
    """
    mu = float(1 / noise_multiplier)
    q = float(rate)
    reach = math.sqrt(2 * (max(-log_delta, 0.0) + math.log(steps) + 44.0))
    low, high = -reach, reach + mu
    step = min(0.25 / mu, 0.4)
    points = math.ceil((high - low) / step)
    if points > _MOST_POINTS or not 1e-12 < q < 1 or mu < 1e-9:
        return None
    x: Floats = low + step * (np.arange(points, dtype=np.float64) + 0.5)
    ell, share = ratio(q, mu, x)
    high = low + step * points
    under_q, under_p = outside(q, mu, low, high)
    edge_ell, edge_share = ratio(q, mu, np.array([low, high]))
    return SampledGaussian(
        q=q,
        mu=mu,
        count=count,
        remove=remove,
        low=low,
        high=high,
        step=step,
        x=x,
        log_mass=math.log(step) - LOG_ROOT - 0.5 * x * x,
        ell=ell,
        share=share,
        edge_ell=edge_ell,
        edge_share=edge_share,
        lost=under_p + under_q,
        slack=count * (under_p if remove else under_q),
    )


def outside(q: float, mu: float, low: float, high: float) -> tuple[float, float]:
    """Probability outside [low, high] under Q and under P, rounded up."""
    under_q = _beyond(-low) + _beyond(high)
    return under_q, (1 - q) * under_q + q * (_beyond(mu - low) + _beyond(high - mu)) + 1e-320


def _beyond(x: float) -> float:
    """P(N(0, 1) > x), rounded up."""
    return 0.5 * math.erfc(x / math.sqrt(2)) * (1 + 1e-9) + 1e-320


def ratio(q: float, mu: float, x: Floats) -> tuple[Floats, Floats]:
    """The logarithm of f, and w / f, w = q e^(mu x - mu^2 / 2)."""
    e = mu * (x - 0.5 * mu)
    against = (1 - q) / q * np.exp(np.minimum(-e, 700.0))
    share = 1 / (1 + against)
    near = np.log1p(q * np.expm1(np.minimum(e, 50.0)))
    if float(e.max()) <= 50.0:
        return near, share
    return np.where(e > 50.0, e + math.log(q) + np.log1p(against), near), share


def ratio_error(q: float, mu: float, x: Floats, ell: Floats, share: Floats) -> Floats:
    """A bound on the error of ln f as computed, parameters rounded to floats included."""
    e = np.abs(mu * (x - 0.5 * mu))
    slip = 5 * UNIT * (mu * np.abs(x) + mu * mu)
    below = np.minimum(np.abs(np.expm1(np.minimum(-ell, 700.0))), 1 / (1 - q))
    near = 8 * UNIT * below + share * slip + 5 * UNIT * np.abs(ell)
    if float(e.max()) <= 50.0:
        return near
    far = slip + 8 * UNIT * (e + abs(math.log(q)) + 1)
    return np.where(e > 49.0, np.maximum(far, near), near)


def tail_angles(law: SampledGaussian, c: float, weights: Floats, share: Floats, t: float) -> Floats:
    """Candidate shifts theta = mu y of the line for the tail: near the best to second order."""
    slope = law.mu * float(weights @ share)
    square = law.mu**2 * float(weights @ (share * share))
    bend = 1.0 - law.power(c) * law.mu**2 * float(weights @ (share * (1 - share)))
    best = law.mu * t * slope / (max(bend, 0.05) + t * t * square)
    most = min(0.8 * math.pi, 12.0 * law.mu)
    return np.clip(best * np.array([0.2, 0.4, 0.65, 0.9, 1.2, 1.7, 2.5]), 1e-300, most)


def shifted(
    law: SampledGaussian, c: float, weights: Floats, share: Floats, angles: Floats, *, t: float
) -> tuple[Floats, Floats]:
    """For each angle the mean of e^psi - 1 on the shifted line, and the size of its parts."""
    half = np.sin(0.5 * angles)[:, None]
    lift = 0.5 * law.power(c) * np.log1p(-4 * share * (1 - share) * half * half)
    turn = np.arctan2(share * np.sin(angles)[:, None], 1 - 2 * share * half * half)
    rise = (0.5 * (angles / law.mu) ** 2)[:, None]
    psi = lift + rise - t * turn
    change = np.expm1(np.minimum(psi, 600.0))
    size = (np.abs(change) + (1 + change) * (np.abs(lift) + rise + t * turn)) @ weights
    gain = np.where((psi > 600.0).any(axis=1), np.inf, change @ weights)
    return gain, size
