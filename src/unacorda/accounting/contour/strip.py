"""The subsampled Gaussian certified: contours moved off the real line bound every sum over x."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.atoms import Atoms, AtomTilt, Quadrature, mean_excess, tilt
from unacorda.accounting.contour.sampled_gaussian import (
    LOG_ROOT,
    SampledGaussian,
    ratio,
    ratio_error,
)
from unacorda.accounting.contour.series import UNIT, Complexes, Floats, log_sum
from unacorda.accounting.contour.tail import cells, log_tail

_TOLERANCE = 1e-13
_CELLS = 240
_DEPTHS = np.geomspace(0.03, 1.0, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussianTilt:
    """The law at abscissa c: its atoms, and what bounds the nodes beyond the last one.

    ends: of x, half a step outside the atoms; slack: the probability outside, all steps together.
    """

    law: SampledGaussian
    c: float
    atoms: AtomTilt
    ends: tuple[float, float]
    slack: float

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
        """A certified bound of ln sup over t' >= t of |phi(t')|^count.

        Bound       upper: x is moved to a path above the real line, where |f^s| falls in t; up to
                    `until` |phi| falls itself.
        Source      docs/proofs/contour.md, Theorems 4 and 6.
        """
        until = self.law.until
        if t >= until:
            return self._far(t)
        log, error = self.atoms.nodes(np.array([t]))
        return min(max(float(log[0].real + error[0]), self._far(until)), 0.0)

    def _far(self, t: float) -> float:
        """The bound by a path."""
        law, (low, high) = self.law, self.ends
        part = cells(
            law,
            law.power(self.c),
            low=low,
            high=high,
            log_m=self.atoms.log_sum,
            slip=self.atoms.quadrature + 1e-9,
        )
        return law.count * log_tail(part, t)


def sampled_gaussian_tilt(
    law: SampledGaussian, c: float, *, last: float, most: int
) -> SampledGaussianTilt | None:
    """The law at c, good for nodes up to t = `last`; None where that takes above `most` atoms.

    The step is the largest for which every sum errs by less than about 1e-13 / count of M(c).
    """
    power = law.power(c)
    depths = _depths(law)
    scale = float(np.max(power * law.ell + law.log_mass)) - math.log(law.step)
    lines = _log_lines(law, power, last, depths, scale)
    log_count = math.log(law.count / _TOLERANCE)
    wanted = lines + math.log(2.0) + log_count
    plain = 0.5 * law.sharpness * depths * depths + math.log(2 + 4 * abs(power)) + log_count
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
        if not step > (law.high - law.low) / most:
            return found
        made = _tilt_at(law, c, last, step=_short(step), lines=lines + scale)
        if made is not None and (found is None or made.atoms.quadrature < found.atoms.quadrature):
            found = made
        if found is not None and found.atoms.quadrature * law.count < 1e-11:
            return found
        step *= 0.6
    return found


def _tilt_at(
    law: SampledGaussian, c: float, last: float, *, step: float, lines: Floats
) -> SampledGaussianTilt | None:
    """The law at c on one grid, whose ends lie half a step outside the atoms, within the law's."""
    power = law.power(c)
    depths = _depths(law)
    first, final = math.ceil(law.low / step + 0.5), math.floor(law.high / step - 0.5)
    x: Floats = step * np.arange(first, final + 1, dtype=np.float64)
    edges = np.array([step * (first - 0.5), step * (final + 0.5)])
    ell, share = ratio(law.q, law.mu, x)
    edge_ell, edge_share = ratio(law.q, law.mu, edges)
    square = 0.5 * x * x
    mass_error = UNIT * (2 * square + 4 * abs(math.log(step)) + 12)
    density = -LOG_ROOT - square
    cut = law.cut
    if cut is not None:
        log_share, share_error = cut.log_share_and_error(x)
        density = density + log_share - cut.log_norm
        mass_error = mass_error + share_error + cut.norm_error
        mass_error += 4 * UNIT * (np.abs(log_share) + abs(cut.log_norm))
    atoms = Atoms(
        log_mass=math.log(step) + density,
        log_mass_error=mass_error,
        log_ratio=ell,
        log_ratio_error=ratio_error(law.q, law.mu, x, ell, share),
    )
    log_weight = power * ell + atoms.log_mass
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
    if cut is not None:
        excess += (1 + abs(power)) * cut.drift_error
    return SampledGaussianTilt(
        law=law,
        c=c,
        atoms=tilt(
            atoms,
            power=power,
            sign=1.0 if law.remove else -1.0,
            count=law.count,
            quadrature=Quadrature(relative=relative, excess=excess * 1.01),
            offset=None if law.jumps else float(law.offset(power)),
        ),
        ends=(float(edges[0]), float(edges[1])),
        slack=law.count * under,
    )


def _short(value: float) -> float:
    """The value cut to 24 binary digits, so that small multiples of it are exact floats."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 24)), exponent - 24)


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
    half = np.sin(0.5 * angle)
    turn = np.arctan2(share * np.sin(angle), 1 - 2 * share * half * half)
    rate = 2 * math.pi / step - t * law.mu * np.maximum(turn / angle, share) * (1 + 1e-12)
    width = np.diff(v)[:, None]
    fall = np.maximum(np.abs(rate * width), 1e-9)
    mean = np.log(-np.expm1(-fall) / fall) + np.maximum(-rate * width, 0.0)
    pieces = np.log(2 * width) + 0.5 * law.sharpness * (v[1:] ** 2)[:, None]
    pieces = pieces + mean - rate * v[:-1, None]
    if power < 0:
        both = np.minimum(share * (1 - share) + 1e-300, 0.25)
        pieces = pieces + 0.5 * power * np.log1p(-4 * both * half * half)
    segments: Floats = np.logaddexp.accumulate(pieces, axis=0)
    return segments + 1e-6


def sampled_gaussian_log_m_upper(law: SampledGaussian, c: float) -> float:
    """A certified upper bound of count * ln M_A(c), A the restricted law; may be infinite.

    Bound       upper. Loose by up to a grid point's weight where the law sticks to its end.
    Source      docs/proofs/contour.md, Theorem 5.
    """
    power = law.power(c)
    if not 0 < c <= law.limit:
        return math.inf
    exponent = power * law.ell
    at_edge = law.edge_mass
    log_edge = at_edge + power * law.edge_ell
    if float(log_edge.max()) > 650.0:
        return math.inf
    log_weight = np.concatenate([log_edge[:1], law.log_mass + exponent, log_edge[1:]])
    share = np.concatenate([law.edge_share[:1], law.share, law.edge_share[1:]])
    widest = _widest(share, law.mu * law.step)
    bend = (law.sharpness + max(0.0, -power) * law.mu**2 * widest) * law.step**2 / 8
    depths = _depths(law)
    depths = depths[depths <= 2 * math.pi / (law.step * law.sharpness)]
    if not depths.size:
        return math.inf
    swell = np.tile(bend, (depths.size, 1))
    if power < 0:
        swell = swell + _grown(power, widest, 0.5 * law.mu * depths)
    lines = log_sum(swell + log_weight) + math.log(2)
    if not law.jumps:
        lines = np.logaddexp(lines, math.log1p(2 * abs(power)) - law.log_norm)
    sides = lines + 0.5 * law.sharpness * depths * depths + _log_kernel(depths, law.step)
    ends = log_sum(swell[:, [0, -1]] + log_edge)
    level = float(np.min(np.exp(np.minimum(sides, 650.0)) + np.exp(np.minimum(ends, 650.0))))
    if law.jumps:
        assert law.cut is not None
        top = float(log_weight.max())
        total = math.exp(min(top, 650.0)) * float(np.exp(log_weight - top).sum()) * (1 + 1e-10)
        bound = (total + level * (1 + 1e-9)) * (1 + law.cut.norm_error)
        k = math.log(bound) if bound < 1e270 else math.inf
    else:
        plain = float(np.exp(at_edge).sum() + np.exp(at_edge + law.edge_ell).sum())
        level += (1 + abs(power)) * plain
        above, error = mean_excess(_planned_atoms(law), power)
        total = above + error
        rest = (1 + abs(power)) * law.lost
        if law.cut is not None:
            rest += float(law.offset(power)) + (1 + abs(power)) * law.cut.drift_error
        bound = total + level * (1 + 1e-9) + rest
        k = math.log1p(max(bound, -0.999999)) if bound < 1e300 else math.inf
    return law.count * (k + 1e-12 * abs(k))


def _planned_atoms(law: SampledGaussian) -> Atoms:
    """The atoms of the planning grid, which are not exact floats, with the errors of their numbers.

    Source      docs/proofs/contour.md, sections 5 and 7.
    """
    x = law.x
    square, away = 0.5 * x * x, 4 * UNIT * max(abs(law.low), abs(law.high))
    mass_error = UNIT * (2 * square + 4 * abs(math.log(law.step)) + 12) + away * (np.abs(x) + away)
    if law.cut is not None:
        assert law.hazard is not None
        log_share, share_error = law.cut.log_share_and_error(x)
        mass_error = mass_error + share_error + law.cut.norm_error + 2 * away * law.hazard
        mass_error += 4 * UNIT * (np.abs(log_share) + abs(law.cut.log_norm))
    ratio_wrong = ratio_error(law.q, law.mu, x, law.ell, law.share)
    return Atoms(
        log_mass=law.log_mass,
        log_mass_error=mass_error,
        log_ratio=law.ell,
        log_ratio_error=ratio_wrong + away * law.mu * np.minimum(2 * law.share, 1.0),
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
    both = share * (1 - share)
    widest = np.maximum(both[1:], both[:-1])
    widest[(share[:-1] < 0.5) & (share[1:] > 0.5)] = 0.25
    bend = (law.sharpness + max(0.0, -power) * law.mu**2 * widest) * h * h / 8
    top = np.maximum(log_weight[1:], log_weight[:-1]) + bend + math.log(h)
    angle = law.mu * depths[:, None]
    half = np.sin(0.5 * angle)
    turn = np.arctan2(share * np.sin(angle), 1 - 2 * share * half * half)
    level = top + t * turn[:, 1:]
    if power < 0:
        level = level + _grown(power, widest, 0.5 * law.mu * depths)
    lines = log_sum(level)
    return lines + 0.5 * law.sharpness * depths * depths + 1e-6
