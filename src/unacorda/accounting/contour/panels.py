"""Laws with a density: atoms, and an interval cut into panels, each by Gauss and Legendre.

Under Q a coordinate z has the density sum of e^(a + b z + c z^2) on [low, high], c <= 0, and the
likelihood ratio f(z); beside it lie atoms. Mirrored laws hold with each mass m at ratio f the mass
m f at ratio 1/f. Panels are halved until the certified error is small.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unacorda.accounting.contour.atoms import Atoms, AtomTilt, Quadrature, tilt
from unacorda.accounting.contour.finite import weighed
from unacorda.accounting.contour.ratios import Ratio
from unacorda.accounting.contour.rule import (
    ORDER,
    bound_of_density,
    joined,
    pieces_of,
    points_of,
)
from unacorda.accounting.contour.series import Complexes, Floats, log_sum

__all__ = ["PanelTilt", "Panels", "panels"]


# How far the transform of a law with a density has faded at large t: parts of it, by parts.
#
# Of the tilted law on [z, high] the transform at t is at most spread(z) / t; what lies elsewhere
# counts with its mass. The best z falls with t: the steep end of a law fades long before the flat
# one.

_PLENTY = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """Bounds of |phi(t)| of one copy: the least of rest + spread / t over places in the law.

    rest: a bound of the tilted mass that is not above the place; the first counts the atoms alone.
    """

    rest: Floats
    spread: Floats

    def at(self, t: float) -> float:
        """A bound of |phi(t')| for all t' >= t, which may exceed 1."""
        return float(np.min(self.rest + self.spread / t)) * (1 + 1e-9)

    def last(self, count: int) -> float:
        """A t from which on `count` copies have faded well, or as well as they ever do."""
        gone = 1 - self.rest
        enough = gone * count >= _PLENTY
        if not enough.any():
            enough = gone >= 0.5 * float(gone.max())
        far = 2 * self.spread[enough] / np.maximum(gone[enough], 1e-9)
        return float(far.min())


def fading(
    rows: Floats,
    ratio: Ratio,
    edges: Floats,
    *,
    powers: Sequence[float],
    log_m: float,
    slip: float,
    jumps: float,
) -> Fading:
    """Of the law q f^a of each power a, both together, over e^log_m; jumps: the mass of its atoms.

    log_m: ln M(c), right within `slip`.

    Source      docs/proofs/contour.md, section 12.
    """
    pieces = pieces_of(edges)
    above, spread = np.zeros_like(pieces), np.zeros_like(pieces)
    for power in powers:
        masses, spreads = _above(rows, ratio, pieces, power, log_m)
        above, spread = above + masses, spread + spreads
    loose = 2 * slip + 1e-9
    rest = np.maximum(1 - above * (1 - 1e-7 - loose), 0.0)
    rest[0] = min(jumps * (1 + loose), 1.0)
    return Fading(rest=rest[:-1], spread=spread[:-1] * (1 + loose))


def _above(
    rows: Floats, ratio: Ratio, pieces: Floats, power: float, log_m: float
) -> tuple[Floats, Floats]:
    """At each piece's start: the mass above it, rounded down, and t |transform| of it, rounded up.

    End values and variation of q f^a / (ln f)'. On a piece where the logarithm of that density has
    a slope of one sign, the variation is the difference of the ends; elsewhere at most length
    times the largest derivative.
    """
    low, high = pieces[:-1], pieces[1:]
    still = np.zeros_like(pieces)
    ell, wrong = ratio.log(pieces)
    if abs(power) * float(wrong.max()) > 1e-9:
        return still, still + math.inf
    gauge = bound_of_density(rows, pieces, pieces, still) + power * ell - log_m
    least, _ = ratio.slope(pieces, pieces)
    value = np.exp(np.minimum(gauge - np.log(least), 650.0)) * (1 + 1e-8)
    slopes = np.array([b + 2 * c * pieces for _, b, c in rows])
    down, up = slopes.min(axis=0), slopes.max(axis=0)
    under, over = ratio.slope(low, high)
    bends = ratio.bend(low, high)
    lower = np.minimum(down[:-1], down[1:]) + np.minimum(power * under, power * over) - bends[1]
    upper = np.maximum(up[:-1], up[1:]) + np.maximum(power * under, power * over) - bends[0]
    steep = np.maximum(np.abs(lower), np.abs(upper))
    width = high - low
    largest = np.maximum(value[:-1], value[1:]) * np.exp(np.minimum(steep * width, 600.0))
    # the values are known within 1e-8: that much of them is no difference
    apart = np.abs(np.diff(value)) + 1e-7 * np.maximum(value[:-1], value[1:])
    varied = np.where(lower * upper > 0, apart, largest * steep * width)
    after = np.append(np.cumsum(varied[::-1])[::-1], 0.0)
    # each row's exponent is concave, and ln f rises: on a piece both are least at an end
    levels = np.array([a + b * pieces + c * pieces * pieces for a, b, c in rows])
    floor = np.logaddexp.reduce(np.minimum(levels[:, :-1], levels[:, 1:]), axis=0)
    floor = floor + np.minimum(power * ell[:-1], power * ell[1:]) - log_m - 1e-8
    masses = np.exp(np.minimum(floor, 0.0)) * width
    above: Floats = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    spread: Floats = (value + value[-1] + after) * (1 + 1e-9)
    return np.minimum(above, 1.0), spread


_TOLERANCE = 1e-13
_ROUNDS = 14
_HEIGHTS = np.array([0.3, 0.6, 1.0, 1.5, 2.2, 3.2])
_PLANNING = 400
_SEVERAL = 12
_COARSE = 6000
_MOST_PLACES = 2000
_ENOUGH = -60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """`count` copies of a law in one direction.

    rows: of a, b, c; edges: the ends of the panels used before c is chosen; atoms: those of the
    law beside the density, mirrors included; lost: a bound on what [low, high] leaves out of both
    laws; planning: points on `edges`; width: a bound of the distance of any two losses.
    """

    rows: Floats
    ratio: Ratio
    edges: Floats
    mirrored: bool
    atoms: Atoms
    remove: bool
    count: int
    lost: float
    planning: Atoms
    width: float
    found: dict[float, PanelTilt | None] = field(default_factory=dict, compare=False, repr=False)
    decays: dict[float, Decay] = field(default_factory=dict, compare=False, repr=False)

    @property
    def slack(self) -> float:
        """What was cut off, all copies together."""
        return self.count * self.lost

    def power(self, c: float) -> float:
        """The power a of f in M(c) = E_Q f^a."""
        return c + 1 if self.remove else -c

    @property
    def limit(self) -> float:
        """Where a mass times f^a reaches e^600."""
        ell = self.planning.log_ratio * (1.0 if self.remove else -1.0)
        room = (600.0 - self.planning.log_mass) / np.maximum(ell, 1e-300)
        most = float(room[ell > 0].min(initial=1e20))
        return max(most - 1.0 if self.remove else most, 1e-6)

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        from unacorda.accounting.contour.closed import FiniteLaw

        law = FiniteLaw(atoms=self.planning, remove=self.remove, count=self.count)
        return law.cumulants(cs)

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """Where the law is cut, no sum is the worse for it."""
        return np.zeros_like(cs + k)

    def planned_tail(self, c: float, t: float) -> float:
        """About the tilt's tail."""
        at = self._rough(c)
        return 0.0 if at is None else at.tail(t)

    def _rough(self, c: float) -> PanelTilt | None:
        if c not in self.found:
            if len(self.found) > 8:
                self.found.clear()
            self.found[c] = self.tilt(c, last=0.0, most=50_000)
        return self.found[c]

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of K(c); infinite where none is at hand."""
        at = self._rough(c)
        return math.inf if at is None else at.log_m + at.log_m_error

    def tilt(self, c: float, *, last: float, most: int) -> PanelTilt | None:
        """The part at c, good for nodes up to t = `last`; None where it takes too many atoms."""
        if not 0 < c <= self.limit:
            return None
        powers = [self.power(c)]
        if self.mirrored:
            powers.append(1 - powers[0])
        log_weight = self.planning.log_mass + powers[0] * self.planning.log_ratio
        goal = float(log_sum(log_weight)) + math.log(_TOLERANCE / self.count)
        until = math.pi / self.width
        edges, level = self._refined(self.edges, powers, max(last, until), goal, most)
        points = self._points(edges)
        if points.log_mass.size > max(most, _PLANNING):
            return None
        plain = self._errors(edges, [0.0, 1.0], 0.0)
        spoilt = self.lost + math.exp(float(log_sum(plain))) * (2 if self.mirrored else 1)
        power = powers[0]
        log_weight = points.log_mass + power * points.log_ratio
        total = float(log_sum(log_weight)) - 1e-9
        relative = (math.exp(min(level - total, 50.0)) + self.lost) * 1.01
        if not relative < 1e-3:
            return None
        excess = math.exp(min(level, 600.0)) + 2 * (1 + abs(power)) * spoilt
        jumps = (
            float(log_sum(self.atoms.log_mass + power * self.atoms.log_ratio))
            if (self.atoms.log_mass.size)
            else -math.inf
        )
        faded = fading(
            self.rows,
            self.ratio,
            edges,
            powers=powers,
            log_m=total,
            slip=relative + 1e-8,
            jumps=math.exp(jumps - total),
        )
        atoms = tilt(
            points,
            power=power,
            sign=1.0 if self.remove else -1.0,
            count=self.count,
            quadrature=Quadrature(relative=relative, excess=excess * 1.01),
        )
        return PanelTilt(
            law=self,
            c=c,
            atoms=atoms,
            faded=faded,
            until=until,
            slack=self.slack,
        )

    def decay(self, c: float, faded: Fading) -> Decay:
        """Bounds of |phi| of one copy at abscissa c, before `faded` serves."""
        if c not in self.decays:
            if len(self.decays) > 8:
                self.decays.clear()
            self.decays[c] = self._decay(c, faded)
        return self.decays[c]

    def _decay(self, c: float, faded: Fading) -> Decay:
        """The modulus on a grid of t, and in between by its largest slope, a bound of E|L - m|."""
        last = faded.last(self.count)
        if self.count < _SEVERAL or not last < 1e12:
            return _NO_DECAY
        power = self.power(c)
        powers = [power, 1 - power] if self.mirrored else [power]
        log_weight = self.planning.log_mass + power * self.planning.log_ratio
        goal = float(log_sum(log_weight)) + math.log(min(1e-3, 0.3 / self.count))
        edges, level = self._refined(self.edges, powers, last, goal, _COARSE)
        points = self._points(edges)
        total = float(log_sum(points.log_mass + power * points.log_ratio)) - 1e-9
        relative = math.exp(min(level - total, 50.0)) + self.lost
        if not relative < 1e-2:
            return _NO_DECAY
        rule = Quadrature(relative=relative, excess=1.0)
        one = tilt(points, power=power, sign=1.0, count=1, quadrature=rule)
        weights = np.exp(self.atoms.log_mass + power * self.atoms.log_ratio)
        slope = float(weights @ np.abs(self.atoms.log_ratio - one.centre))
        slope += self._apart(edges, power, one.centre)
        if self.mirrored:
            slope += self._apart(edges, 1 - power, -one.centre)
        slope *= math.exp(-total) * (1 + 1e-6)
        square = float(one.weights @ (one.centred * one.centred))
        reach = 1 / math.sqrt(max(square * self.count, 1e-300))
        places = [max(reach, math.pi / self.width)]
        while places[-1] < last and len(places) < _MOST_PLACES // 4:
            fallen = -math.expm1(-0.5 * square * places[-1] ** 2)
            places.append(min(places[-1] + max(0.25 * fallen / slope, 0.3 * reach), last))
        grid = np.array(places)

        def modulus(at: Floats) -> Floats:
            log, error = one.nodes(at)
            return np.exp(np.minimum(log.real + error, 0.0))

        size = modulus(grid)
        while True:
            gap = slope * np.diff(grid)
            between = 0.5 * (size[:-1] + size[1:] + gap) * (1 + 1e-9)
            wide = gap > 0.6 * (1 - np.maximum(size[:-1], size[1:]))
            wide &= (between - 1) * self.count > _ENOUGH
            if not wide.any() or grid.size + int(wide.sum()) > _MOST_PLACES:
                break
            middles = 0.5 * (grid[:-1] + grid[1:])[wide]
            order = np.argsort(np.concatenate([grid, middles]), kind="stable")
            grid = np.concatenate([grid, middles])[order]
            size = np.concatenate([size, modulus(middles)])[order]
        beyond = faded.at(float(grid[-1]))
        bounds = np.minimum(np.append(between, beyond), 1.0)
        return Decay(places=grid, bounds=np.maximum.accumulate(bounds[::-1])[::-1])

    def _apart(self, edges: Floats, power: float, centre: float) -> float:
        """A bound of int q f^power |ln f - centre| dz, cell by cell."""
        pieces = pieces_of(edges)
        low, high = pieces[:-1], pieces[1:]
        ell, _ = self.ratio.log(pieces)
        level = bound_of_density(self.rows, low, high, np.zeros_like(low))
        level = level + np.maximum(power * ell[:-1], power * ell[1:])
        far = np.maximum(np.abs(ell[:-1] - centre), np.abs(ell[1:] - centre))
        return float(np.exp(np.minimum(level, 600.0)) @ (far * (high - low)))

    def _refined(
        self, edges: Floats, powers: list[float], last: float, goal: float, most: int
    ) -> tuple[Floats, float]:
        """Panels halved until each errs by less than its share of e^goal; ln of the whole error."""
        errors = self._errors(edges, powers, last)
        for _ in range(_ROUNDS):
            bad = errors > goal - math.log(2.0 * edges.size)
            if not bad.any() or edges.size * ORDER * len(powers) > most:
                break
            middles = 0.5 * (edges[:-1] + edges[1:])[bad]
            edges = np.sort(np.concatenate([edges, middles]))
            errors = self._errors(edges, powers, last)
        return edges, float(log_sum(errors))

    def _errors(self, edges: Floats, powers: list[float], last: float) -> Floats:
        """The logarithm of a bound on each panel's error in the sum of int q f^(a + it).

        8 S rho^(-2 n) / (1 - 1 / rho) half the width, S the largest modulus on a Bernstein ellipse,
        bounded on the rectangle about it; or 4 S half the width, S the largest on the panel.

        Source      docs/proofs/contour.md, sections 8 and 12.
        """
        half = 0.5 * (edges[1:] - edges[:-1])
        middle = 0.5 * (edges[1:] + edges[:-1])
        room = 0.49 * math.pi / (self.ratio.steepest * half)
        heights = np.minimum(_HEIGHTS[:, None], room[None, :])
        rho = heights + np.sqrt(heights * heights + 1)
        wide = half * np.sqrt(heights * heights + 1) * (1 + 1e-12)
        low, high, y = middle - wide, middle + wide, half * heights * (1 + 1e-12)
        level = bound_of_density(self.rows, low, high, y)
        under, over = self.ratio.moduli(low, high, y)
        if last > 0:
            level = level + last * self.ratio.argument(low, high, y)
        parts = [np.maximum(power * over, power * under) for power in powers]
        whole = parts[0] if len(parts) == 1 else np.logaddexp(*parts)
        bound = level + whole + np.log(8 * half) - 2 * ORDER * np.log(rho) - np.log1p(-1 / rho)
        left, right, still = edges[:-1], edges[1:], np.zeros_like(half)
        under, over = self.ratio.moduli(left, right, still)
        parts = [np.maximum(power * over, power * under) for power in powers]
        whole = parts[0] if len(parts) == 1 else np.logaddexp(*parts)
        plain = bound_of_density(self.rows, left, right, still) + whole + np.log(4 * half)
        best: Floats = np.minimum(bound.min(axis=0), plain) + 1e-6
        return best

    def _points(self, edges: Floats) -> Atoms:
        """The atoms and the points of all panels, mirrors included."""
        inner = points_of(self.rows, self.ratio, edges)
        if self.mirrored:
            inner = weighed(inner, centre=0.0)
        return joined(self.atoms, inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """Bounds of |phi(t)| of one copy for all t from each of some places on; before them none."""

    places: Floats
    bounds: Floats

    def at(self, t: float) -> float:
        """A bound of |phi| for all t' >= t."""
        place = int(np.searchsorted(self.places, t, side="right")) - 1
        return float(self.bounds[place]) if place >= 0 else 1.0


_NO_DECAY = Decay(places=np.zeros(1), bounds=np.ones(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelTilt:
    """The tilted atoms; faded: how far their law has faded at large t.

    until: |phi| falls up to here, for no two losses lie farther apart than pi / until.
    """

    law: Panels
    c: float
    atoms: AtomTilt
    faded: Fading
    until: float
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
        """A bound of ln sup over t' >= t of |phi(t')|^count.

        By parts, or on a grid of t; up to `until` by the value at t itself.
        """
        if t <= 0:
            return 0.0
        if t >= self.until:
            return self._far(t)
        log, error = self.atoms.nodes(np.array([t]))
        here = float(log[0].real + error[0])
        return min(max(here, self._far(self.until)), 0.0)

    def _far(self, t: float) -> float:
        """The bound without the value at t."""
        most = self.faded.at(t) + 2 * self.atoms.quadrature
        if math.log(max(most, 1e-300)) * self.atoms.count > _ENOUGH:
            decay = self.law.decay(self.c, self.faded)
            most = min(most, decay.at(t) + 2 * self.atoms.quadrature)
        return self.atoms.count * math.log(most) * (1 - 1e-11) if most < 1 else 0.0


def panels(
    *,
    rows: Floats,
    ratio: Ratio,
    edges: Floats,
    atoms: Atoms,
    mirrored: bool,
    remove: bool,
    count: int,
    lost: float,
) -> Panels:
    """The law with its planning points, a few on each of the panels between `edges`."""
    inner = points_of(rows, ratio, edges)
    if mirrored:
        inner = weighed(inner, centre=0.0)
    return Panels(
        rows=rows,
        ratio=ratio,
        edges=edges,
        mirrored=mirrored,
        atoms=atoms,
        remove=remove,
        count=count,
        lost=lost,
        planning=joined(atoms, inner),
        width=_width(ratio, edges, atoms, mirrored=mirrored),
    )


def _width(ratio: Ratio, edges: Floats, atoms: Atoms, *, mirrored: bool) -> float:
    """A bound of the distance of any two losses: ln f rises between the edges."""
    ell, wrong = ratio.log(edges[[0, -1]])
    lowest = min(
        float(ell[0] - wrong[0]),
        float((atoms.log_ratio - atoms.log_ratio_error).min(initial=math.inf)),
    )
    highest = max(
        float(ell[1] + wrong[1]),
        float((atoms.log_ratio + atoms.log_ratio_error).max(initial=-math.inf)),
    )
    if mirrored:
        highest = max(highest, -lowest)
        lowest = -highest
    return (highest - lowest) * (1 + 1e-12)
