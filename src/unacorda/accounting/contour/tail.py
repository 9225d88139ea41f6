"""How far a subsampled Gaussian's |phi| has fallen: its integral moved to a curved path.

On x + i y(x) the modulus of p f^s falls in t, whatever the path, so one sum over cells bounds all
later nodes. The height y(x) follows the variance that lies above x: rare jumps ask for much,
the bulk for little.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.sampled_gaussian import SampledGaussian, ratio
from unacorda.accounting.contour.series import Floats

_FLAT = (0.5, 1.1)
_LATE = (0.1, 1e-2, 1e-3, 1e-5)
_ASKING = 1e-9
_DEEP = 10.0
"""Rare jumps are apart from the bulk where both peaks are so many times the valley between."""
_CLEAR = (1e-2, 1e-5)
_MOST_CELLS = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The shape of good paths for one tilted law at equally spaced places x.

    height: the second-order optimum over t; slope, square, bend: of w / f on average; ramps: from
    0 at the bulk to 1 at rare jumps that lie apart from it, a row each.
    """

    mu: float
    x: Floats
    ell: Floats
    share: Floats
    weights: Floats
    height: Floats
    slope: float
    square: float
    bend: float
    ramps: Floats

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


def paths(law: SampledGaussian, power: float, x: Floats, ell: Floats, weights: Floats) -> Paths:
    """The paths for a law given by its weights at equally spaced places."""
    share = ratio(law.q, law.mu, x)[1]
    return Paths(
        mu=law.mu,
        x=x,
        ell=ell,
        share=share,
        weights=weights,
        height=_heights(x, ell, weights),
        slope=law.mu * float(weights @ share),
        square=law.mu**2 * float(weights @ (share * share)),
        bend=1.0 - power * law.mu**2 * float(weights @ (share * (1 - share))),
        ramps=_ramps(x, weights),
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A tilted law in cells: bounds of each cell's probability, and what bounds f on it.

    edges: the cells' ends; least, most: of the probability; share: w / f at the edges; narrow,
    wide: least and greatest p0 p1; hazard: the greatest of the cut, or None; log_ends: ln of the
    tilted density at both ends.
    """

    law: SampledGaussian
    power: float
    edges: Floats
    least: Floats
    most: Floats
    share: Floats
    narrow: Floats
    wide: Floats
    hazard: Floats | None
    log_ends: Floats
    paths: Paths


def cells(
    law: SampledGaussian, power: float, *, low: float, high: float, log_m: float, slip: float
) -> Cells:
    """The law on [low, high] in cells; log_m: ln M(c) of it, right within `slip`, relative.

    The logarithm of the density has its second derivative in [-under, over]: a cell's probability
    is that of its chord within e^(over h^2 / 8) and e^(under h^2 / 8).
    """
    count = min(math.ceil((high - low) / min(0.1, 0.1 / law.mu)), _MOST_CELLS)
    edges = np.linspace(low, high, count + 1)
    h = float(edges[1] - edges[0]) * (1 + 1e-12)
    ell, share = ratio(law.q, law.mu, edges)
    log_density = power * ell + law.log_density(edges) - log_m
    both = share * (1 - share)
    wide = np.maximum(both[1:], both[:-1])
    wide[(share[:-1] <= 0.5) & (share[1:] >= 0.5)] = 0.25
    curve = law.mu**2 * wide
    over = np.maximum(power * curve - 1.0, 0.0) if power > 0 else np.zeros_like(wide)
    under = law.sharpness + max(0.0, -power) * curve
    upper = np.maximum(log_density[1:], log_density[:-1])
    gap = np.maximum(np.abs(np.diff(log_density)), 1e-6)
    chord = h * np.exp(np.minimum(upper, 600.0)) * (-np.expm1(-gap) / gap)
    loose = slip + 2e-6
    bulge = under * h * h / 8
    middle = 0.5 * (edges[1:] + edges[:-1])
    law_ell = 0.5 * (ell[1:] + ell[:-1])
    total = float(chord.sum())
    return Cells(
        law=law,
        power=power,
        edges=edges,
        least=chord * np.exp(-over * h * h / 8) * (1 - loose),
        most=np.where(bulge > 600.0, 1.0, chord * np.exp(np.minimum(bulge, 600.0)) * (1 + loose)),
        share=share,
        narrow=np.minimum(both[1:], both[:-1]),
        wide=wide,
        hazard=None if law.cut is None else law.cut.falling(edges[:-1]) + law.cut.rising(edges[1:]),
        log_ends=log_density[[0, -1]] + 1e-9,
        paths=paths(law, power, middle, law_ell, chord / total),
    )


def log_tail(part: Cells, t: float) -> float:
    """A certified bound of ln sup over t' >= t of |phi(t')| of one step; at most 0.

    Bound       upper: on the best of several paths, the greatest modulus in each cell.
    Source      docs/proofs/contour.md, Theorem 4.
    """
    law, power = part.law, part.power
    inner = part.paths.at(t)
    y = np.concatenate([inner[:, :1], 0.5 * (inner[:, 1:] + inner[:, :-1]), inner[:, -1:]], axis=1)
    low, high = np.minimum(y[:, 1:], y[:, :-1]), np.maximum(y[:, 1:], y[:, :-1])
    slope = (high - low) / np.diff(part.edges)
    sine = np.sin(0.5 * law.mu * (low if power > 0 else high))
    bend = part.narrow if power > 0 else part.wide
    lift = 0.5 * power * np.log1p(-4 * bend * sine * sine)
    rise = 0.5 * high * high + 0.5 * np.log1p(slope * slope)
    if part.hazard is not None:
        rise += _growth(law, high, part.hazard)
    angle = law.mu * low
    half = np.sin(0.5 * angle)
    left = part.share[:-1]
    turn = t * np.arctan2(left * np.sin(angle), 1 - 2 * left * half * half)
    psi = lift + rise - turn + 1e-13 * (np.abs(lift) + rise + turn)
    change = np.expm1(np.minimum(psi, 600.0))
    gain = np.minimum(change, 0.0) @ part.least + np.maximum(change, 0.0) @ part.most
    gain += 1e-12 * (np.abs(change) @ part.most)
    ends = y[:, [0, -1]]
    level = np.log(ends) + 0.5 * ends * ends + part.log_ends
    if power < 0:
        sine = np.sin(0.5 * law.mu * ends)
        level += 0.5 * power * np.log1p(-4 * part.wide[[0, -1]] * sine * sine)
    if part.hazard is not None:
        level += _growth(law, ends, part.hazard[[0, -1]])
    beyond = np.exp(np.minimum(level, 600.0)).sum(axis=1)
    far = (psi > 600.0).any(axis=1)
    gain = np.where(far, np.inf, gain + beyond)
    plain = np.where(far, np.inf, np.exp(np.minimum(psi, 600.0)) @ part.most + beyond)
    best = min(math.log1p(max(float(gain.min()), -0.99)), math.log(float(plain.min()) + 1e-300))
    return min(best, 0.0) * (1 - 1e-9)


def planned_log_tail(law: SampledGaussian, part: Paths, power: float, t: float) -> float:
    """About what `log_tail` will be, from sums at the places of the paths."""
    y, share = part.at(t, rough=True), part.share
    half = np.sin(0.5 * law.mu * y)
    psi = 0.5 * power * np.log1p(-4 * share * (1 - share) * half * half) + 0.5 * y * y
    psi -= t * np.arctan2(share * np.sin(law.mu * y), 1 - 2 * share * half * half)
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
