"""Poisson-subsampled Gaussian: its cumulant by the trapezoid rule, with every error bounded.

In units of the noise: Q = N(0, 1), P = (1 - q) Q + q N(mu, 1), f = dP/dQ = 1 - q + q e^(mu x -
mu^2 / 2), mu = 1 / noise multiplier. `remove` is the pair (P, Q), whose loss is ln f under P, so
M(s) = E_Q f^(s+1); `add` is (Q, P), whose loss is -ln f under Q, so M(s) = E_Q f^(-s).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from unacorda.accounting.contour.cut import Cut
from unacorda.accounting.contour.factor import Tilt
from unacorda.accounting.contour.series import UNIT, Floats

LOG_ROOT = 0.5 * math.log(2 * math.pi)
MOST_POINTS = 8000
_MOST_ABSCISSA = 1e20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian:
    """`count` steps in one direction, restricted to low <= x <= high, with its planning grid.

    q, mu: sampling rate and 1 / noise multiplier; remove: the direction; step: of the planning
    grid x, whose ends are half a step inside low and high; log_mass, ell, share: ln of the grid's
    Q masses, ln f and w / f there; under, lost: bounds on the probability outside, under the own
    law and under both; cut: None, or the piece of every step, made a law by its norm.
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
    edge_mass: Floats
    edge_ell: Floats
    edge_share: Floats
    under: float
    lost: float
    cut: Cut | None = None
    hazard: Floats | None = None

    @property
    def slack(self) -> float:
        """A bound on the probability outside, all steps together."""
        return self.count * self.under

    @property
    def sharpness(self) -> float:
        """The density at x + iy is at most e^(sharpness y^2 / 2) times that at x."""
        return 1.0 if self.cut is None else 1.0 + self.cut.width**-2

    @property
    def log_norm(self) -> float:
        """The logarithm of the probability of the piece; 0 for the whole."""
        return 0.0 if self.cut is None else self.cut.log_norm

    @property
    def until(self) -> float:
        """Up to here |phi| of the restricted law falls: pi over the distance of its losses."""
        apart = float(self.edge_ell[1] - self.edge_ell[0])
        return math.pi / (apart * (1 + 1e-9) + 1e-300)

    @property
    def jumps(self) -> bool:
        """Whether this is a piece of jumps, whose M is a plain sum."""
        return self.cut is not None and self.cut.low > -math.inf

    def log_density(self, x: Floats) -> Floats:
        """The logarithm of the law's density under Q."""
        density: Floats = -0.5 * x * x - LOG_ROOT
        return density if self.cut is None else density + self.cut.log_share(x) - self.log_norm

    def offset(self, power: Floats | float) -> Floats | float:
        """E[1 + a (f - 1)] - 1 of the unrestricted law; 0 for the whole."""
        return 0.0 if self.cut is None else (power - self.remove) * self.cut.drift

    def beyond(self, low: float, high: float) -> tuple[float, float]:
        """The mass outside [low, high], rounded up: under the own law, and under P and Q together.

        Of a piece both are told over its norm. Given v = x + width Z, x is normal about
        v / (1 + width^2), or nearer to mu, with deviation width / sqrt(1 + width^2).
        """
        if self.cut is None:
            under_q, under_p = outside(self.q, self.mu, low, high)
            return under_p if self.remove else under_q, under_p + under_q
        cut = self.cut
        weight = 1 / (1 + cut.width**2)
        spread = cut.width * math.sqrt(weight)
        # of the whole law no more lies there than under both of its parts
        below = _share(low, low - self.mu, cut.log_norm)
        above = _share(-high, self.mu - high, cut.log_norm)
        if cut.low > -math.inf:
            below = min(below, upper_tail((min(cut.low, cut.low * weight) - low) / spread))
        if cut.high < math.inf:
            middle = cut.high * weight
            top = max(middle, middle + self.mu * (1 - weight))
            above = min(above, upper_tail((high - top) / spread))
        lost = (below + above + 1e-320) * (1 + 1e-9)
        return lost, lost * (1 + math.exp(min(cut.log_null, 600.0)))

    def power(self, c: float) -> float:
        """The power a of f in M(c) = E_Q f^a."""
        return c + 1 if self.remove else -c

    @property
    def limit(self) -> float:
        """The largest abscissa at which M(c) is formed in floats."""
        load = 600.0 + (0.5 * self.x * self.x if self.cut is None else -self.log_mass)
        if self.remove:
            room = load / np.maximum(self.ell, 1e-300)
            return float(room[self.ell > 0].min(initial=_MOST_ABSCISSA)) - 1.0
        return float(
            (load / np.maximum(-self.ell, 1e-300))[self.ell < 0].min(initial=_MOST_ABSCISSA)
        )

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at real abscissas, for planning: not certified."""
        if self.jumps:
            return self._of_grid(cs, 0.0)
        powers = cs + 1 if self.remove else -cs
        mass = np.exp(self.log_mass)
        weight = np.exp(np.minimum(np.multiply.outer(powers, self.ell) + self.log_mass, 700.0))
        lift = mass * np.expm1(np.minimum(self.ell, 700.0))
        above = (weight - (mass + np.multiply.outer(powers, lift))).sum(axis=1)
        if self.cut is not None:  # its masses may all be too small for floats
            _, k1, k2 = self._of_grid(cs, 0.0)
            big = np.log1p(np.maximum(above + self.offset(powers), -0.999))
            return self.count * big, k1, k2
        moments = weight @ np.stack([np.ones_like(self.ell), self.ell, self.ell * self.ell], axis=1)
        first = moments[:, 1] / moments[:, 0]
        second = moments[:, 2] / moments[:, 0] - first * first
        sign = 1.0 if self.remove else -1.0
        count = self.count
        big = np.log1p(np.maximum(above, 0.0))
        return count * big, count * sign * first, count * np.maximum(second, 1e-300)

    def plain_cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """As `cumulants`, of what the grid holds made a law: for a rough look at a part of it."""
        own = np.logaddexp.reduce(self.log_mass + (self.ell if self.remove else 0.0))
        return self._of_grid(cs, float(own))

    def _of_grid(self, cs: Floats, log_whole: float) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' of the grid's masses over e^log_whole."""
        powers = cs + 1 if self.remove else -cs
        level = np.multiply.outer(powers, self.ell) + self.log_mass
        top = level.max(axis=1)
        weight = np.exp(level - top[:, None])
        moments = weight @ np.stack([np.ones_like(self.ell), self.ell, self.ell**2], axis=1)
        first = moments[:, 1] / moments[:, 0]
        second = np.maximum(moments[:, 2] / moments[:, 0] - first * first, 1e-300)
        k = top + np.log(moments[:, 0]) - log_whole
        sign, count = (1.0 if self.remove else -1.0), self.count
        return count * k, count * sign * first, count * second

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """About the tilted weight of a grid cell at the ends, times count; k is K(cs)."""
        powers = cs + 1 if self.remove else -cs
        log_weight = np.multiply.outer(powers, self.edge_ell) + self.edge_mass
        share: Floats = np.exp(np.minimum(log_weight - (k / self.count)[:, None], 50.0)).sum(axis=1)
        return self.count * share

    def planned_tail(self, c: float, t: float) -> float:
        """About ln sup over t' >= t of |phi(t')|^count, from the planning grid."""
        from unacorda.accounting.contour.tail import paths, planned_log_tail

        power = self.power(c)
        log_weight = power * self.ell + self.log_mass
        weights = np.exp(log_weight - log_weight.max())
        weights /= weights.sum()
        shape = paths(self, power, self.x, self.ell, weights)
        if t >= self.until:
            return self.count * planned_log_tail(self, shape, power, t)
        far = self.count * planned_log_tail(self, shape, power, self.until)
        away = self.ell - float(weights @ self.ell)
        sine = np.sin(0.5 * t * away)
        real, imaginary = 1 - 2 * float(weights @ (sine * sine)), float(weights @ np.sin(t * away))
        return max(far, self.count * math.log(max(math.hypot(real, imaginary), 1e-300)))

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of count * ln M_A(c), A the restricted law; may be infinite."""
        from unacorda.accounting.contour.strip import sampled_gaussian_log_m_upper

        return sampled_gaussian_log_m_upper(self, c)

    def tilt(self, c: float, *, last: float, most: int) -> Tilt | None:
        """The certified law at c, good for nodes up to t = `last`; None above `most` points."""
        from unacorda.accounting.contour.strip import sampled_gaussian_tilt

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
    if points > MOST_POINTS or not 1e-12 < q < 1 or mu < 1e-9:
        return None
    empty = np.empty(0)
    whole = SampledGaussian(
        q=q,
        mu=mu,
        count=count,
        remove=remove,
        low=low,
        high=low + step * points,
        step=step,
        x=empty,
        log_mass=empty,
        ell=empty,
        share=empty,
        edge_mass=empty,
        edge_ell=empty,
        edge_share=empty,
        under=0.0,
        lost=0.0,
    )
    return on_grid(whole, points)


def on_grid(law: SampledGaussian, points: int) -> SampledGaussian:
    """The law with its planning grid of so many points from `low` on."""
    step = law.step
    x: Floats = law.low + step * (np.arange(points, dtype=np.float64) + 0.5)
    edges = np.array([law.low, law.low + step * points])
    ell, share = ratio(law.q, law.mu, x)
    edge_ell, edge_share = ratio(law.q, law.mu, edges)
    under, lost = law.beyond(law.low, float(edges[1]))
    return replace(
        law,
        high=float(edges[1]),
        x=x,
        log_mass=math.log(step) + law.log_density(x),
        ell=ell,
        share=share,
        edge_mass=math.log(step) + law.log_density(edges),
        edge_ell=edge_ell,
        edge_share=edge_share,
        under=under,
        lost=lost,
        hazard=None if law.cut is None else law.cut.falling(x) + law.cut.rising(x),
    )


def outside(q: float, mu: float, low: float, high: float) -> tuple[float, float]:
    """Probability outside [low, high] under Q and under P, rounded up."""
    under_q = upper_tail(-low) + upper_tail(high)
    return under_q, (1 - q) * under_q + q * (upper_tail(mu - low) + upper_tail(high - mu)) + 1e-320


def _share(one: float, other: float, log_norm: float) -> float:
    """P(N(0, 1) < one) and P(N(0, 1) < other) together, over e^log_norm; rounded up, at most 1."""
    both = float(np.logaddexp(float(log_ndtr(one)), float(log_ndtr(other))))
    return math.exp(min(both - log_norm, 0.0)) * (1 + 1e-6)


def upper_tail(x: float) -> float:
    """P(N(0, 1) > x), rounded up."""
    return 0.5 * math.erfc(x / math.sqrt(2)) * (1 + 1e-9) + 1e-320


def ratio(q: float, mu: float, x: Floats) -> tuple[Floats, Floats]:
    """The logarithm of f, and w / f, w = q e^(mu x - mu^2 / 2)."""
    e = mu * (x - 0.5 * mu)
    against = (1 - q) / q * np.exp(np.minimum(-e, 660.0))
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
