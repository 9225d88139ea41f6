"""Where to integrate: abscissa, step and number of nodes. Nothing here is certified."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.tilts import Factor, Floats, atoms_of, short

_SMALLNESS = math.log(1e-12)
_SPOILT = 1e-12
_FRACTIONS = np.array(
    [1.0, 0.95, 0.9, 0.84, 0.77, 0.7, 0.6, 0.5, 0.42, 0.35, 0.25, 0.15, 0.08, 0.04]
)
_BEYOND = np.geomspace(1.03, 2.0, 12)
"""Of the saddle: abscissas for Chernoff's bound beside those of the whole curve."""
_LEAST, _MOST, _UTMOST = 1e-4, 1e10, 1e20
_FAR_OUT, _FARTHEST = 0.02, 1e3
"""Over the deviation of the loss: abscissas start no higher, and end no lower."""
_MOST_NODES = 20_000
_MOST_OF_ATOMS, _MOST_PRODUCTS = 120_000, 1_000_000
"""Nodes, and nodes times atoms, where all parts are closed laws of atoms."""
_MANY = 2_000
_SPARE = 6.0
_PATIENCE = 4
_REFINEMENTS, _FINER = 2, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulantCurve:
    """K, K', K'' of a whole composition on a geometric grid of abscissas, and the saddle there.

    epsilon: the epsilon whose saddle point is c; log_delta: the saddle formula's ln delta of it.
    """

    c: Floats
    k: Floats
    k1: Floats
    k2: Floats

    @property
    def epsilon(self) -> Floats:
        """K' - 1/c - 1/(1 + c)."""
        return self.k1 - 1 / self.c - 1 / (1 + self.c)

    @property
    def log_delta(self) -> Floats:
        """The logarithm of the saddle point formula."""
        bend = self.k2 + 1 / self.c**2 + 1 / (1 + self.c) ** 2
        height = self.k - self.c * self.epsilon - np.log(self.c) - np.log1p(self.c)
        return height - 0.5 * np.log(2 * math.pi * bend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Abscissa c, shift x = 2 pi / h, step h, number of nodes, and c' of the right aliases."""

    c: float
    x: float
    h: float
    nodes: int
    alias: float


def curve(factors: Sequence[Factor], cs: Floats) -> CumulantCurve:
    """The cumulant of the whole, at once for all abscissas."""
    k, k1, k2 = (np.zeros_like(cs) for _ in range(3))
    for factor in factors:
        part = factor.cumulants(cs)
        k, k1, k2 = k + part[0], k1 + part[1], k2 + part[2]
    return CumulantCurve(c=cs, k=k, k1=k1, k2=k2)


def abscissas(factors: Sequence[Factor], start: float = _LEAST, *, most: float = _MOST) -> Floats:
    """The grid of abscissas: geometric, from `start` to the least limit of the parts, or `most`."""
    top = min(most, *(factor.limit for factor in factors)) if factors else most
    top = max(top, 1e-3)
    return np.geomspace(start, top * (1 - 1e-9), int(10 + 7 * math.log10(top / start)))


def whole_curve(factors: Sequence[Factor]) -> CumulantCurve:
    """The curve on all abscissas; they start lower, or end higher, where the loss asks for it."""
    whole = curve(factors, abscissas(factors))
    deviation = math.sqrt(max(float(whole.k2[0]), 1e-300))
    if _LEAST * deviation > _FAR_OUT:
        return curve(factors, abscissas(factors, _FAR_OUT / deviation))
    most = min(_FARTHEST / deviation, _UTMOST)
    return whole if most <= _MOST else curve(factors, abscissas(factors, most=most))


def saddle_for_delta(whole: CumulantCurve, log_delta: float) -> tuple[float, float]:
    """(c, epsilon) near the saddle point at which the formula reads ln delta."""
    level = whole.log_delta
    below = np.flatnonzero(level < log_delta)
    if below.size == 0:
        return float(whole.c[-1]), float(whole.epsilon[-1])
    after = int(below[0])
    if after == 0:
        return float(whole.c[0]), float(whole.epsilon[0])
    part = (level[after - 1] - log_delta) / (level[after - 1] - level[after])
    return _between(whole, after, float(part))


def saddle_for_epsilon(whole: CumulantCurve, epsilon: float) -> tuple[float, float]:
    """(c, ln delta) near the saddle point of this epsilon."""
    place = whole.epsilon
    above = np.flatnonzero(place > epsilon)
    if above.size == 0:
        return float(whole.c[-1]), float(whole.log_delta[-1])
    after = max(int(above[0]), 1)
    apart = max(float(place[after] - place[after - 1]), 1e-300)
    part = min(max(float(epsilon - place[after - 1]) / apart, 0.0), 1.0)
    c, _ = _between(whole, after, part)
    level = whole.log_delta
    return c, float(level[after - 1] + part * (level[after] - level[after - 1]))


def refined_saddle(factors: Sequence[Factor], whole: CumulantCurve, epsilon: float) -> float:
    """The saddle point of this epsilon, also where K' rises steeply between points of the grid.

    Bound       none: it is a place to integrate at.
    Source      epsilon = K' - 1 / c - 1 / (1 + c), narrowed down on finer grids.
    """
    near = whole
    for _ in range(_REFINEMENTS):
        after = int(np.searchsorted(np.maximum.accumulate(near.epsilon), epsilon))
        if not 0 < after < near.c.size:
            break
        low, high = float(near.c[after - 1]), float(near.c[after])
        near = curve(factors, np.geomspace(low, high, _FINER))
    return saddle_for_epsilon(near, epsilon)[0]


def _between(whole: CumulantCurve, after: int, part: float) -> tuple[float, float]:
    c, e = whole.c, whole.epsilon
    log_c = math.log(c[after - 1]) + part * math.log(c[after] / c[after - 1])
    return math.exp(log_c), float(e[after - 1] + part * (e[after] - e[after - 1]))


def log_kappa(c: Floats) -> Floats:
    """The logarithm of c^c / (1 + c)^(1 + c), the constant of the Chernoff bound of delta."""
    kappa: Floats = -c * np.log1p(1 / c) - np.log1p(c)
    return kappa


def chernoff_abscissa(whole: CumulantCurve, log_delta: float) -> float:
    """The abscissa of the least Chernoff bound of epsilon on the grid."""
    bound = (whole.k + log_kappa(whole.c) - log_delta) / whole.c
    return float(whole.c[int(np.argmin(bound))])


def plan_at(
    factors: Sequence[Factor],
    whole: CumulantCurve,
    *,
    c: float,
    epsilon: float,
    log_delta: float,
    careful: bool = False,
) -> Plan | None:
    """Abscissa, step and nodes near the saddle c for this epsilon; None where nothing serves.

    careful: give away digits to a shorter step only where there are some to spare.
    """
    cs = c * _FRACTIONS
    far = c * _BEYOND
    far = far[far < whole.c[-1]]
    both = curve(factors, np.concatenate([cs, far]))
    here = CumulantCurve(
        **{name: getattr(both, name)[: cs.size] for name in ("c", "k", "k1", "k2")}
    )
    height = here.k - cs * epsilon - np.log(cs) - np.log1p(cs)
    outside = np.zeros_like(cs)
    for factor in factors:
        outside = outside + factor.outside(cs, factor.cumulants(cs)[0])
    # what the ends of a restricted law may spoil, amplified as delta is by cancellation
    spoilt = outside * np.exp(np.clip(height - log_delta, 0.0, 600.0))
    spare = 5.0
    if careful:
        spare = min(max(_SPARE - float(height.min()) + log_delta, 0.5), 5.0)
    good = (height - height.min() <= spare) & (spoilt < _SPOILT)
    if not good.any():
        near = height - height.min() <= 12.0
        good = near & (spoilt < 100 * max(_SPOILT, float(spoilt[near].min())))
    reach = -_SMALLNESS - log_delta
    plain = reach / cs
    paired = np.maximum(
        (epsilon + reach) / (cs + 1), math.log1p(0.05 * math.exp(min(-log_delta, 700.0))) / cs
    )
    left = np.minimum(plain, np.maximum(paired, epsilon * (1 + 1e-9) + 1e-9))
    others, k = np.append(whole.c, far), np.append(whole.k, both.k[cs.size :])
    gap = others[None, :] - cs[:, None]
    beyond = np.zeros_like(others)
    for factor in factors:
        beyond = beyond + factor.outside(others, factor.cumulants(others)[0])
    need = (k + beyond + log_kappa(others) - others * epsilon + reach)[None, :]
    wide = gap > 0.02 * cs[:, None]
    right = np.where(wide, need / np.where(wide, gap, 1.0), np.inf)
    alias = np.argmin(right, axis=1)
    shift = np.maximum(left, right[np.arange(cs.size), alias])
    shift = np.maximum(shift, 1e-6 / cs)
    cost = np.where(good & np.isfinite(shift), shift / np.sqrt(here.k2 + 1e-300), np.inf)
    best = int(np.argmin(cost))
    if not np.isfinite(cost[best]):
        return None
    chosen = float(cs[best])
    h = short(2 * math.pi / float(shift[best]))
    excess = max(float(here.k[best]) - chosen * epsilon - log_delta, 0.0)
    wanted = _SMALLNESS - excess
    t = _last(factors, chosen, h=h, wanted=wanted, k2=float(here.k2[best]))
    return Plan(
        c=chosen,
        x=2 * math.pi / h,
        h=h,
        nodes=int(min(max(math.ceil(t / h) + 1, 4), most_nodes(factors))),
        alias=float(others[alias[best]]),
    )


def most_nodes(factors: Sequence[Factor]) -> int:
    """How many nodes a plan has at most: they cost little where laws have few atoms."""
    atoms = atoms_of(factors)
    if atoms is None:
        return _MOST_NODES
    return max(_MOST_NODES, min(_MOST_OF_ATOMS, _MOST_PRODUCTS // atoms))


def _last(factors: Sequence[Factor], c: float, *, h: float, wanted: float, k2: float) -> float:
    """The t from which the tail is below e^wanted, by the secant method on ln t; capped."""

    def lacking(t: float) -> float:
        reached = sum(factor.planned_tail(c, t) for factor in factors)
        return reached - math.log(max(t / max(c, 1e-300), 1e-3)) - wanted

    top = most_nodes(factors) * h
    low, high = 0.0, min(math.sqrt(2 * max(-wanted, 1.0) / max(k2, 1e-300)), top)
    value, tries = lacking(high), 0
    while value > 0:
        if tries == _PATIENCE or high >= top:
            floor = sum(factor.planned_tail(c, 1e6 * top) for factor in factors)
            if floor > wanted:  # atoms: once they are all that is left, only 1 / t is gained
                top = _MANY * h
                t = min(8.0 / math.sqrt(max(k2, 1e-300)), top)
                while t < top and sum(f.planned_tail(c, t) for f in factors) > floor + 0.7:
                    t *= 1.5
                return min(t, top)
            if high >= top:
                break
        low, high, tries = high, min(1.6 * high, top), tries + 1
        value = lacking(high)
    for _ in range(4):
        if high - low < 0.06 * high:
            break
        middle = 0.5 * (low + high) if low > 0 else 0.8 * high
        if lacking(middle) > 0:
            low = middle
        else:
            high = middle
    return high
