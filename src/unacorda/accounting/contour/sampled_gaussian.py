"""Poisson-subsampled Gaussian: its cumulant by the trapezoid rule, with every error bounded.

In units of the noise: Q = N(0, 1), P = (1 - q) Q + q N(mu, 1), f = dP/dQ = 1 - q + q e^(mu x -
mu^2 / 2), mu = 1 / noise multiplier. `remove` is the pair (P, Q), whose loss is ln f under P, so
M(s) = E_Q f^(s+1); `add` is (Q, P), whose loss is -ln f under Q, so M(s) = E_Q f^(-s).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from unacorda.accounting.contour.tilts import (
    UNIT,
    AtomTilt,
    Factor,
    Floats,
    RatioAtoms,
    log_sum,
    mean_excess,
    short,
    tilt,
)

SHARE_ERROR = 1e-14
"""log_ndtr(z) counts as right within (1 + z^2) times this, relative, its argument rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The piece of a law with the weight P(low < x + width Z < high), Z standard normal.

    low may be -inf, high inf; between two numbers lie at least two widths. log_norm: ln of the
    piece's probability, with its absolute error; drift: (P - Q) / norm of the piece's masses
    under P and Q, with its absolute error; log_null: ln of the mass under the other law over the
    norm, rounded up.
    """

    low: float
    high: float
    width: float
    log_norm: float = 0.0
    norm_error: float = 0.0
    drift: float = 0.0
    drift_error: float = 0.0
    log_null: float = 0.0

    def log_share(self, x: Floats) -> Floats:
        """The logarithm of the weight."""
        return self.log_share_and_error(x)[0]

    def log_share_and_error(self, x: Floats) -> tuple[Floats, Floats]:
        """The logarithm of the weight, and a bound on its absolute error."""
        up, down = (x - self.low) / self.width, (self.high - x) / self.width
        if math.isinf(self.low):
            return _log_normal(down)
        if math.isinf(self.high):
            return _log_normal(up)
        near = up < down  # the nearer end gives the leading term, the other one is taken off
        level, slip = _log_normal(np.where(near, up, down))
        beyond, also = _log_normal(-np.where(near, down, up))
        part = np.exp(beyond - level)
        share: Floats = level + np.log1p(-part)
        wrong: Floats = 1.3 * (slip * (1 + part) + part * also) + 1e-15 * np.abs(share)
        return share, wrong

    def hazard(self, left: Floats, right: Floats) -> Floats:
        """The normal densities about both ends over the weight, rounded up.

        That about `low` falls in x and is taken at `left`; that about `high` rises, at `right`.
        """
        return self._hazard(left, self.low) + self._hazard(right, self.high)

    def _hazard(self, x: Floats, place: float) -> Floats:
        if math.isinf(place):
            return np.zeros_like(x)
        z = (x - place) / self.width
        level = -0.5 * z * z - LOG_ROOT - math.log(self.width) - self.log_share(x)
        hazard: Floats = np.exp(np.minimum(level + 1e-9, 600.0))
        return hazard


def _log_normal(z: Floats) -> tuple[Floats, Floats]:
    level: Floats = log_ndtr(z)
    error: Floats = SHARE_ERROR * (1 + z * z) * np.abs(level)
    return level, error


LOG_ROOT = 0.5 * math.log(2 * math.pi)
MOST_POINTS = 8000
_GRID = ("x", "log_mass", "ell", "share", "edge_mass", "edge_ell", "edge_share")
_NO_GRID: dict[str, Any] = dict.fromkeys(_GRID, np.empty(0))
"""Before `on_grid`."""
_MOST_ABSCISSA = 1e20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian(Factor):
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
    under: float = 0.0
    lost: float = 0.0
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

        Of a piece both are over its norm. Given v = x + width Z, x is normal about
        v / (1 + width^2), or nearer to mu, with deviation width / sqrt(1 + width^2).
        """
        if self.cut is None:
            under_q = upper_tail(-low) + upper_tail(high)
            moved = upper_tail(self.mu - low) + upper_tail(high - self.mu)
            under_p = (1 - self.q) * under_q + self.q * moved + 1e-320
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
        loss = self.ell if self.remove else -self.ell
        room = load / np.maximum(loss, 1e-300)
        return float(room[loss > 0].min(initial=_MOST_ABSCISSA)) - self.remove

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
        power = self.power(c)
        log_weight = power * self.ell + self.log_mass
        weights = np.exp(log_weight - log_weight.max())
        weights /= weights.sum()
        shape = Paths(self, power, self.x, self.ell, weights)
        if t >= self.until:
            return self.count * planned_log_tail(self, shape, power, t)
        far = self.count * planned_log_tail(self, shape, power, self.until)
        away = self.ell - float(weights @ self.ell)
        sine = np.sin(0.5 * t * away)
        real, imaginary = 1 - 2 * float(weights @ (sine * sine)), float(weights @ np.sin(t * away))
        return max(far, self.count * math.log(max(math.hypot(real, imaginary), 1e-300)))

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of count * ln M_A(c), A the restricted law; may be infinite.

        Bound       upper. Loose by up to a grid point's weight where the law sticks to its end.
        Source      docs/proofs/contour.md, Theorem 5.
        """
        power = self.power(c)
        if not 0 < c <= self.limit:
            return math.inf
        exponent = power * self.ell
        at_edge = self.edge_mass
        log_edge = at_edge + power * self.edge_ell
        if float(log_edge.max()) > 650.0:
            return math.inf
        log_weight = np.concatenate([log_edge[:1], self.log_mass + exponent, log_edge[1:]])
        share = np.concatenate([self.edge_share[:1], self.share, self.edge_share[1:]])
        widest = _widest(share, self.mu * self.step)
        bend = (self.sharpness + max(0.0, -power) * self.mu**2 * widest) * self.step**2 / 8
        depths = _depths(self)
        depths = depths[depths <= 2 * math.pi / (self.step * self.sharpness)]
        if not depths.size:
            return math.inf
        swell = np.tile(bend, (depths.size, 1))
        if power < 0:
            swell = swell + _grown(power, widest, 0.5 * self.mu * depths)
        lines = log_sum(swell + log_weight) + math.log(2)
        if not self.jumps:
            lines = np.logaddexp(lines, math.log1p(2 * abs(power)) - self.log_norm)
        sides = lines + 0.5 * self.sharpness * depths * depths + _log_kernel(depths, self.step)
        ends = log_sum(swell[:, [0, -1]] + log_edge)
        level = float(np.min(np.exp(np.minimum(sides, 650.0)) + np.exp(np.minimum(ends, 650.0))))
        if self.jumps:
            assert self.cut is not None
            top = float(log_weight.max())
            total = math.exp(min(top, 650.0)) * float(np.exp(log_weight - top).sum()) * (1 + 1e-10)
            bound = (total + level * (1 + 1e-9)) * (1 + self.cut.norm_error)
            k = math.log(bound) if bound < 1e270 else math.inf
        else:
            plain = float(np.exp(at_edge).sum() + np.exp(at_edge + self.edge_ell).sum())
            level += (1 + abs(power)) * plain
            # the planning grid's places are no exact floats
            away = 4 * UNIT * max(abs(self.low), abs(self.high))
            atoms = _atoms(self, self.x, step=self.step, away=away)
            total = math.fsum(mean_excess(atoms, power))
            rest = (1 + abs(power)) * self.lost
            if self.cut is not None:
                rest += float(self.offset(power)) + (1 + abs(power)) * self.cut.drift_error
            bound = total + level * (1 + 1e-9) + rest
            k = math.log1p(max(bound, -0.999999)) if bound < 1e300 else math.inf
        return self.count * (k + 1e-12 * abs(k))

    def tilt(self, c: float, *, last: float, most: int) -> SampledGaussianTilt | None:
        """The law at c, good for nodes up to t = `last`; None where that takes above `most` atoms.

        The step is the largest for which every sum errs by less than about 1e-13 / count of M(c).
        """
        power = self.power(c)
        depths = _depths(self)
        scale = float(np.max(power * self.ell + self.log_mass)) - math.log(self.step)
        lines = _log_lines(self, power, last, depths, scale)
        log_count = math.log(self.count / _TOLERANCE)
        wanted = lines + math.log(2.0) + log_count
        plain = 0.5 * self.sharpness * depths * depths + math.log(2 + 4 * abs(power)) + log_count
        step = (
            2
            * math.pi
            * min(
                float(np.max(depths / np.maximum(wanted, 1.0))),
                float(np.max(depths / np.maximum(plain, 1.0))),
            )
        )
        found: SampledGaussianTilt | None = None
        for _ in range(4):
            if not step > (self.high - self.low) / most:
                return found
            made = _tilt_at(self, c, last, step=short(step), lines=lines + scale)
            if made is not None and (found is None or made.quadrature < found.quadrature):
                found = made
            if found is not None and found.quadrature * self.count < 1e-11:
                return found
            step *= 0.6
        return found


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
    whole = SampledGaussian(
        q=q,
        mu=mu,
        count=count,
        remove=remove,
        low=low,
        high=low + step * points,
        step=step,
        **_NO_GRID,
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
        hazard=None if law.cut is None else law.cut.hazard(x, x),
    )


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


# On x + i y(x) the modulus of p f^s falls in t, whatever the path, so one sum over cells bounds all
# later nodes. The height y(x) follows the variance that lies above x: rare jumps ask for much,
# the bulk for little.

_FLAT = (0.5, 1.1)
_LATE = (0.1, 1e-2, 1e-3, 1e-5)
_ASKING = 1e-9
_DEEP = 10.0
"""Rare jumps are apart from the bulk where both peaks are so many times the valley between."""
_CLEAR = (1e-2, 1e-5)
_MOST_CELLS = 700


class Paths:
    """The shape of good paths for one tilted law, given by its weights at equally spaced places x.

    height: the second-order optimum over t; slope, square, bend: of w / f on average; ramps: from
    0 at the bulk to 1 at rare jumps that lie apart from it, a row each.
    """

    def __init__(
        self, law: SampledGaussian, power: float, x: Floats, ell: Floats, weights: Floats
    ) -> None:
        self.mu, self.x, self.ell, self.weights = law.mu, x, ell, weights
        self.share = share = ratio(law.q, law.mu, x)[1]
        self.height = _heights(x, ell, weights)
        self.slope = law.mu * float(weights @ share)
        self.square = law.mu**2 * float(weights @ (share * share))
        self.bend = 1.0 - power * law.mu**2 * float(weights @ (share * (1 - share)))
        self.ramps = _ramps(x, weights)

    def at(self, t: float, *, rough: bool = False) -> Floats:
        """Heights of several paths for this t, a row each, at most pi / (2 mu).

        Where rare jumps turn by more than a radian the second order no longer counts: their
        weight is taken off by what the path has won from them, again and again. rough: fewer.
        """
        most = min(0.4999 * math.pi / self.mu, 12.0)
        best = t * self.slope / (max(self.bend, 0.05) + t * t * self.square)
        path = np.minimum(t * self.height, most)
        rows = [path] if rough else [0.6 * path, path]
        turn = t * self.share * np.sin(self.mu * path)
        won = self.weights * turn
        if float(won[turn > 1.0].sum()) > 0.1 * float(won.sum()):
            for _ in range(2 if rough else 3):
                left = self.weights * np.exp(np.minimum(0.5 * path * path - turn, 0.0))
                left /= max(float(left.sum()), 1e-290)
                path = np.minimum(t * _heights(self.x, self.ell, left), most)
                turn = t * self.share * np.sin(self.mu * path)
                rows.append(path)
            rows = [path] if rough else [*rows, 0.7 * path]
        if float(self.weights @ (t * self.height > 10 * most)) > _ASKING:
            # much of the law asks for more than can be had: a path may rise later, where less lies
            rows += [np.minimum(late * t * self.height, most) for late in _LATE]
        rows += [np.full_like(path, min(scale * best, most)) for scale in _FLAT[rough:]]
        alone = min(t * self.mu, most)  # the best height for jumps alone, which are nearly normal
        rows += [alone * ramp for ramp in self.ramps[rough:]]
        heights: Floats = np.maximum(np.stack(rows), 1e-300)
        return heights


def _ramps(x: Floats, weights: Floats) -> Floats:
    """Paths that rise in the valley between two peaks of a law, where hardly any of it lies."""
    highest = np.maximum.accumulate(weights), np.maximum.accumulate(weights[::-1])[::-1]
    deep = np.minimum(*highest) / np.maximum(weights, 1e-290)
    valley = int(np.argmax(deep))
    if not deep[valley] > _DEEP:
        return np.empty((0, x.size))
    between, jumps = np.cumsum(weights[valley::-1])[::-1], np.cumsum(weights[valley:])
    rows = []
    for clear in _CLEAR:
        start = x[np.searchsorted(-between, -clear * jumps[-1])]
        end = x[valley + np.searchsorted(jumps, clear * jumps[-1])]
        rows.append(np.clip((x - start) / max(end - start, 1e-300), 0.0, 1.0))
    return np.stack(rows)


def _heights(x: Floats, ell: Floats, weights: Floats) -> Floats:
    """The mean of ln f - m above x, over the density at x: the best height over t, for small t."""
    far = weights * (ell - float(weights @ ell))
    total = np.cumsum(far)
    below = 0.5 * far - total  # as much as above, but exact on the left
    above = np.cumsum(far[::-1])[::-1] - 0.5 * far
    left = np.cumsum(weights) < 0.5
    rest = np.where(left, below, above) * float(x[1] - x[0])
    heights: Floats = np.maximum(rest, 0.0) / np.maximum(weights, 1e-290)
    return heights


class _Cells:
    """A tilted law between its ends in cells: bounds of their probabilities, and what bounds f.

    log_m: ln M(c) of it, right within `slip`, relative. The logarithm of the density has its second
    derivative in [-under, over]: a cell's probability is that of its chord within e^(over h^2 / 8)
    and e^(under h^2 / 8).

    edges: the cells' ends; least, most: of the probability; share: w / f at the edges; narrow,
    wide: least and greatest p0 p1; hazard: the greatest of the cut, or None; log_ends: ln of the
    tilted density at both ends.
    """

    def __init__(
        self,
        law: SampledGaussian,
        power: float,
        ends: tuple[float, float],
        *,
        log_m: float,
        slip: float,
    ) -> None:
        count = min(math.ceil((ends[1] - ends[0]) / min(0.1, 0.1 / law.mu)), _MOST_CELLS)
        self.law, self.power = law, power
        self.edges = edges = np.linspace(*ends, count + 1)
        h = float(edges[1] - edges[0]) * (1 + 1e-12)
        ell, self.share = ratio(law.q, law.mu, edges)
        log_density = power * ell + law.log_density(edges) - log_m
        self.narrow, self.wide = _products(self.share)
        curve = law.mu**2 * self.wide
        over = np.maximum(power * curve - 1.0, 0.0) if power > 0 else np.zeros_like(curve)
        under = law.sharpness + max(0.0, -power) * curve
        upper = np.maximum(log_density[1:], log_density[:-1])
        gap = np.maximum(np.abs(np.diff(log_density)), 1e-6)
        chord = h * np.exp(np.minimum(upper, 600.0)) * (-np.expm1(-gap) / gap)
        loose = slip + 2e-6
        bulge = under * h * h / 8
        self.least = chord * np.exp(-over * h * h / 8) * (1 - loose)
        swollen = chord * np.exp(np.minimum(bulge, 600.0)) * (1 + loose)
        self.most = np.where(bulge > 600.0, 1.0, swollen)
        self.hazard = None if law.cut is None else law.cut.hazard(edges[:-1], edges[1:])
        self.log_ends = log_density[[0, -1]] + 1e-9
        middle, law_ell = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (ell[1:] + ell[:-1])
        self.paths = Paths(law, power, middle, law_ell, chord / float(chord.sum()))

    def log_tail(self, t: float) -> float:
        """A certified bound of ln sup over t' >= t of |phi(t')| of one step; at most 0.

        Bound       upper: on the best of several paths, the greatest modulus in each cell.
        Source      docs/proofs/contour.md, Theorem 4.
        """
        law, power = self.law, self.power
        inner = self.paths.at(t)
        y = np.concatenate(
            [inner[:, :1], 0.5 * (inner[:, 1:] + inner[:, :-1]), inner[:, -1:]], axis=1
        )
        low, high = np.minimum(y[:, 1:], y[:, :-1]), np.maximum(y[:, 1:], y[:, :-1])
        slope = (high - low) / np.diff(self.edges)
        sine = np.sin(0.5 * law.mu * (low if power > 0 else high))
        bend = self.narrow if power > 0 else self.wide
        lift = 0.5 * power * np.log1p(-4 * bend * sine * sine)
        rise = 0.5 * high * high + 0.5 * np.log1p(slope * slope)
        if self.hazard is not None:
            rise += _growth(law, high, self.hazard)
        turn = t * _turn(self.share[:-1], law.mu * low)
        psi = lift + rise - turn + 1e-13 * (np.abs(lift) + rise + turn)
        change = np.expm1(np.minimum(psi, 600.0))
        gain = np.minimum(change, 0.0) @ self.least + np.maximum(change, 0.0) @ self.most
        gain += 1e-12 * (np.abs(change) @ self.most)
        ends = y[:, [0, -1]]
        level = np.log(ends) + 0.5 * ends * ends + self.log_ends
        if power < 0:
            sine = np.sin(0.5 * law.mu * ends)
            level += 0.5 * power * np.log1p(-4 * self.wide[[0, -1]] * sine * sine)
        if self.hazard is not None:
            level += _growth(law, ends, self.hazard[[0, -1]])
        beyond = np.exp(np.minimum(level, 600.0)).sum(axis=1)
        far = (psi > 600.0).any(axis=1)
        gain = np.where(far, np.inf, gain + beyond)
        plain = np.where(far, np.inf, np.exp(np.minimum(psi, 600.0)) @ self.most + beyond)
        best = math.log1p(max(float(gain.min()), -0.99))
        return min(best, math.log(float(plain.min()) + 1e-300), 0.0) * (1 - 1e-9)


def _products(share: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest p0 p1 between neighbors, of w / f at ascending places."""
    both = share * (1 - share)
    wide = np.maximum(both[1:], both[:-1])
    wide[(share[:-1] <= 0.5) & (share[1:] >= 0.5)] = 0.25
    return np.minimum(both[1:], both[:-1]), wide


def _turn(share: Floats, angle: Floats) -> Floats:
    """The argument of f at the height angle / mu above a place where w / f is `share`."""
    half = np.sin(0.5 * angle)
    turn: Floats = np.arctan2(share * np.sin(angle), 1 - 2 * share * half * half)
    return turn


def planned_log_tail(law: SampledGaussian, part: Paths, power: float, t: float) -> float:
    """About what `log_tail` will be, from sums at the places of the paths."""
    y, share = part.at(t, rough=True), part.share
    half = np.sin(0.5 * law.mu * y)
    psi = 0.5 * power * np.log1p(-4 * share * (1 - share) * half * half) + 0.5 * y * y
    psi -= t * _turn(share, law.mu * y)
    psi += 0.5 * np.log1p((np.diff(y, axis=1, append=y[:, -1:]) / (part.x[1] - part.x[0])) ** 2)
    if law.hazard is not None:
        psi += _growth(law, y, law.hazard)
    gain = float((np.expm1(np.minimum(psi, 600.0)) @ part.weights).min())
    return math.log1p(max(gain, -1 + 1e-15))


def _growth(law: SampledGaussian, y: Floats, hazard: Floats) -> Floats:
    """Ln of a bound of |weight(x + iy)| / weight(x) of the cut.

    Below the cut's width by the path from x to x + iy, above it by the bound e^(y^2 / 2 width^2).
    """
    assert law.cut is not None
    square = 0.5 * (y / law.cut.width) ** 2
    near = np.log1p(y * np.exp(np.minimum(square, 0.5)) * hazard)
    growth: Floats = np.where(square < 0.5, near, square)
    return growth


_TOLERANCE = 1e-13
_CELLS = 240
_DEPTHS = np.geomspace(0.03, 1.0, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussianTilt(AtomTilt):
    """The law at abscissa c: its atoms, and what bounds the nodes beyond the last one.

    ends: of x, half a step outside the atoms; slack: the probability outside, all steps together.
    """

    law: SampledGaussian
    c: float
    ends: tuple[float, float]

    def tail(self, t: float) -> float:
        """A certified bound of ln sup over t' >= t of |phi(t')|^count.

        Bound       upper: x is moved to a path above the real line, where |f^s| falls in t; up to
                    `until` |phi| falls itself.
        Source      docs/proofs/contour.md, Theorems 4 and 6.
        """
        until = self.law.until
        if t >= until:
            return self._far(t)
        log, error = self.nodes(np.array([t]))
        return min(max(float(log[0].real + error[0]), self._far(until)), 0.0)

    def _far(self, t: float) -> float:
        """The bound by a path."""
        power, slip = self.law.power(self.c), self.quadrature + 1e-9
        part = _Cells(self.law, power, self.ends, log_m=self.log_sum, slip=slip)
        return self.count * part.log_tail(t)


def _tilt_at(
    law: SampledGaussian, c: float, last: float, *, step: float, lines: Floats
) -> SampledGaussianTilt | None:
    """The law at c on one grid, whose ends lie half a step outside the atoms, within the law's."""
    power = law.power(c)
    depths = _depths(law)
    first, final = math.ceil(law.low / step + 0.5), math.floor(law.high / step - 0.5)
    x: Floats = step * np.arange(first, final + 1, dtype=np.float64)
    edges = np.array([step * (first - 0.5), step * (final + 0.5)])
    edge_ell, edge_share = ratio(law.q, law.mu, edges)
    atoms = _atoms(law, x, step=step)
    log_weight = power * atoms.log_ratio + atoms.log_mass
    top = float(log_weight.max())
    total = top + math.log(float(np.exp(log_weight - top).sum()))
    log_ends = power * edge_ell + law.log_density(edges) - total
    sides = lines - total + _log_kernel(depths, step)
    segments = _log_segments(law, power, last, depths, step=step, share=edge_share)
    whole = np.exp(np.minimum(sides, 600.0)) + np.exp(np.minimum(segments + log_ends, 600.0)).sum(1)
    relative = float(whole.min()) * 1.01
    if not relative < 1e-3:
        return None
    outer = float(np.exp(-0.5 * edges * edges).sum())
    outer += float(np.exp(-0.5 * (edges - law.mu) ** 2).sum())
    near = depths[depths <= 2 * math.pi / (step * law.sharpness)]
    if not near.size:
        return None
    plain = 0.5 * law.sharpness * near * near + _log_kernel(near, step)
    base = math.exp(min(float(np.min(plain)), 600.0))
    base += 2 * step / math.pi * outer
    under, lost = law.beyond(float(edges[0]), float(edges[1]))
    norm = math.exp(law.log_norm) * (1 - 1e-9)
    excess = relative * math.exp(min(total, 600.0)) + (1 + 2 * abs(power)) * base / norm
    excess += (1 + abs(power)) * lost
    if law.cut is not None:
        excess += (1 + abs(power)) * law.cut.drift_error
    return tilt(
        atoms,
        power=power,
        sign=1.0 if law.remove else -1.0,
        count=law.count,
        relative=relative,
        excess=excess * 1.01,
        offset=None if law.jumps else float(law.offset(power)),
        make=functools.partial(
            SampledGaussianTilt,
            law=law,
            c=c,
            ends=(float(edges[0]), float(edges[1])),
            slack=law.count * under,
        ),
    )


def _log_segments(
    law: SampledGaussian, power: float, t: float, depths: Floats, *, step: float, share: Floats
) -> Floats:
    """The logarithms of both vertical sides' integrals up to each depth, over the end's density.

    Both halves together: 2 * int of e^(v^2 / 2 + t arg f) |f / f(end)|^a / (1 + e^(2 pi v / k)).
    On each piece of v the argument is at most v times its mean slope, or its slope at 0: it is
    concave for w / f < 1/2 and convex above.
    """
    v = np.concatenate([[0.0], depths])
    angle = (law.mu * v[1:])[:, None]
    turn = np.maximum(_turn(share, angle) / angle, share)
    rate = 2 * math.pi / step - t * law.mu * turn * (1 + 1e-12)
    width = np.diff(v)[:, None]
    fall = np.maximum(np.abs(rate * width), 1e-9)
    mean = np.log(-np.expm1(-fall) / fall) + np.maximum(-rate * width, 0.0)
    pieces = np.log(2 * width) + 0.5 * law.sharpness * (v[1:] ** 2)[:, None]
    pieces = pieces + mean - rate * v[:-1, None]
    if power < 0:
        both = np.minimum(share * (1 - share) + 1e-300, 0.25)
        pieces = pieces + _grown(power, both, 0.5 * law.mu * depths)
    segments: Floats = np.logaddexp.accumulate(pieces, axis=0)
    return segments + 1e-6


def _atoms(law: SampledGaussian, x: Floats, *, step: float, away: float = 0.0) -> RatioAtoms:
    """The atoms at x, places a step apart, with the errors of their numbers.

    away: how far the places are from exact floats; 0 for others than the law's planning grid.

    Source      docs/proofs/contour.md, sections 5 and 7.
    """
    ell, share = ratio(law.q, law.mu, x)
    mass_error = UNIT * (x * x + 4 * abs(math.log(step)) + 12) + away * (np.abs(x) + away)
    if law.cut is not None:
        log_share, share_error = law.cut.log_share_and_error(x)
        mass_error += share_error + law.cut.norm_error
        mass_error += 4 * UNIT * (np.abs(log_share) + abs(law.cut.log_norm))
        if law.hazard is not None and away:
            mass_error += 2 * away * law.hazard
    slip = away * law.mu * np.minimum(2 * share, 1.0)
    return RatioAtoms(
        log_mass=math.log(step) + law.log_density(x),
        log_mass_error=mass_error,
        log_ratio=ell,
        log_ratio_error=ratio_error(law.q, law.mu, x, ell, share) + slip,
    )


def _depths(law: SampledGaussian) -> Floats:
    """Distances from the real line to which contours are moved, below pi / mu."""
    return min(0.95 * math.pi / law.mu, 14.0) * _DEPTHS


def _log_kernel(depths: Floats, step: float) -> Floats:
    """The logarithm of 2 / (e^(2 pi d / k) - 1), rounded up: both horizontal sides together."""
    turns = 2 * math.pi * depths / step
    kernel: Floats = math.log(2) + 1e-9 - turns - np.log(-np.expm1(-turns))
    return kernel


def _widest(share: Floats, reach: float) -> Floats:
    """A bound on p0 p1 within mu * distance <= reach: its logarithm has slope at most mu."""
    widest: Floats = np.minimum(share * (1 - share) * math.exp(reach) + 1e-300, 0.25)
    return widest


def _grown(power: float, widest: Floats, half: Floats) -> Floats:
    """The logarithm of (|f(z)| / f)^power, power < 0, at height 2 half / mu."""
    sine = np.sin(half)[:, None]
    grown: Floats = 0.5 * power * np.log1p(-4 * widest * sine * sine)
    return grown


def _log_lines(
    law: SampledGaussian, power: float, t: float, depths: Floats, scale: float
) -> Floats:
    """The logarithm of a bound of the integral of |p f^(a - it)| on the lower line, over e^scale.

    Cells of one width: on each the weight is at most its larger end times e^(kappa h^2 / 8), the
    argument at most that of the right end.
    """
    edges = np.linspace(law.low, law.high, _CELLS + 1)
    h = float(edges[1] - edges[0]) * (1 + 1e-12)
    ell, share = ratio(law.q, law.mu, edges)
    log_weight = power * ell + law.log_density(edges) - scale
    _, widest = _products(share)
    bend = (law.sharpness + max(0.0, -power) * law.mu**2 * widest) * h * h / 8
    top = np.maximum(log_weight[1:], log_weight[:-1]) + bend + math.log(h)
    level = top + t * _turn(share, law.mu * depths[:, None])[:, 1:]
    if power < 0:
        level = level + _grown(power, widest, 0.5 * law.mu * depths)
    lines = log_sum(level)
    return lines + 0.5 * law.sharpness * depths * depths + 1e-6
