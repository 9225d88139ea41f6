"""Laws with a density as panels: between edges, replaced units of a sample, Gaussian mixtures."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.accounting.contour.finite import mirrored_atoms, sampled_atoms
from unacorda.accounting.contour.panels import Panels, panels
from unacorda.accounting.contour.ratios import Opposed, Sums, drawn_ratio
from unacorda.accounting.contour.series import Floats
from unacorda.accounting.laws import Edged, Normal
from unacorda.privacy.enclosure import context, mpf

__all__ = ["edged", "mixed", "opposed", "replaced_edged", "replaced_normal"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_WIDEST = 600.0
"""Losses beyond this are not formed in floats."""


def edged(law: Edged, *, rate: Fraction, count: int, remove: bool) -> Panels | None:
    """`count` copies on a Poisson sample, given that all losses are finite; rate 1: no sample."""
    mp, v, edge = context(), mpf(law.edge), float(law.edge)
    if not 1e-9 < edge < _WIDEST or not (rate == 1 or 1e-12 < rate < 1):
        return None
    infinite = law.infinite if rate < 1 else mp.mpf(0)
    losses: list[Fraction] = []
    log_mass: list[Any] = []
    if law.atom > 0:
        level = mp.log((1 - infinite) * law.atom)
        losses, log_mass = [-law.edge, law.edge], [level, level - v]
    one = drawn_ratio(float(rate))
    if infinite:
        shift = -float(mp.log1p(-mpf(rate) * infinite))
        one = Sums(weights=one.weights, slopes=one.slopes, falls=one.falls - shift)
    start = float(mp.log((1 - infinite) * law.inner / 2) - v / 2)
    return panels(
        rows=np.array([[start, -0.5, 0.0]]),
        ratio=one,
        edges=_cut(-edge, edge, 1.0),
        atoms=sampled_atoms(losses, log_mass, infinite=infinite, rate=rate),
        mirrored=False,
        remove=remove,
        count=count,
        lost=0.0,
    )


def replaced_edged(law: Edged, *, rate: Fraction, count: int, remove: bool) -> Panels | None:
    """`count` steps in which one unit of a sample is replaced; see `finite.replaced`."""
    mp, v, edge = context(), mpf(law.edge), float(law.edge)
    if not 1e-9 < edge < _WIDEST or not 1e-12 < rate <= 1:
        return None
    whole = 1 - law.infinite
    drop = -mp.expm1(-v)
    # P - Q of losses above 0: of the atom, and of int_0^v (e^z - 1) inner/2 e^(-(z + v)/2)
    rise = law.atom * drop + law.inner * (mp.exp(-v / 2) - 1) ** 2
    kept = 1 - mpf(rate) * law.infinite
    centre = (1 - mpf(rate)) * (whole * rise + law.infinite)
    losses, log_mass = [], []
    if law.atom > 0:
        losses, log_mass = [law.edge], [mp.log(whole * law.atom) - v]
    start = float(mp.log(whole * law.inner / kept / 2) - v / 2)
    return panels(
        rows=np.array([[start, -0.5, 0.0]]),
        ratio=drawn_ratio(float(rate)),
        edges=_cut(0.0, edge, 1.0),
        atoms=mirrored_atoms(losses, log_mass, centre=centre, kept=kept, rate=rate),
        mirrored=True,
        remove=remove,
        count=count,
        lost=0.0,
    )


def replaced_normal(
    laws: Sequence[tuple[Any, Normal]],
    *,
    rate: Fraction,
    count: int,
    remove: bool,
    far: float,
    lost: float,
) -> Panels | None:
    """`count` steps in which one unit of a sample is replaced, the base laws Gaussian.

    far: what has a probability below e^-far is cut off; lost: of the weights that are missing.
    z is the loss of the base: under Q it has the weights' mixture of N(-m, 2 m), m = mu^2 / 2.
    """
    mp = context()
    shifts = [math.sqrt(float(law.square)) for _, law in laws]
    if not (min(shifts) > 1e-9 and 1e-12 < rate <= 1):
        return None
    rows, high, centre = [], 0.0, mp.mpf(0)
    for (weight, law), mu in zip(laws, shifts, strict=True):
        start = float(mp.log(weight) - mpf(law.square) / 8 - mp.log(mpf(law.square)) / 2)
        rows.append([start - _LOG_ROOT, -0.5, -0.5 / mu**2])
        reach = math.sqrt(2 * max(far + float(mp.log(weight)), 1.0))
        high = max(high, mu * reach + 0.5 * mu * mu)
        centre += weight * (1 - mpf(rate)) * mp.erf(mp.sqrt(mpf(law.square) / 8))
    if high > _WIDEST:
        return None
    beyond = mp.mpf(0)
    for weight, law in laws:
        # both laws: what the base has beyond `high`, and its mirror
        root = mp.sqrt(mpf(law.square))
        under_p = mp.erfc((mpf(high) / root - root / 2) / mp.sqrt(2)) / 2
        under_q = mp.erfc((mpf(high) / root + root / 2) / mp.sqrt(2)) / 2
        beyond += 2 * weight * (under_p + under_q)
    return panels(
        rows=np.array(rows),
        ratio=drawn_ratio(float(rate)),
        edges=_cut(0.0, high, max(min(shifts), high / 40)),
        atoms=mirrored_atoms([], [], centre=centre, kept=mp.mpf(1), rate=rate),
        mirrored=True,
        remove=remove,
        count=count,
        lost=lost + float(beyond) * (1 + 1e-9),
    )


def opposed(law: Normal, *, rate: Fraction, count: int, far: float) -> Panels | None:
    """`count` Gaussian steps on a Poisson sample, one unit replaced by its opposite.

    P = (1-q) N(0, 1) + q N(mu, 1) against Q = (1-q) N(0, 1) + q N(-mu, 1), on x >= 0 and mirrored.

    Source      docs/proofs/contour.md, section 14.
    """
    mu, q = math.sqrt(float(law.square)), float(rate)
    reach = math.sqrt(2 * far)
    high = reach + mu
    if not (mu > 1e-9 and mu * high < _WIDEST and 1e-12 < rate < 1):
        return None
    one = Sums(
        weights=np.array([1 - q, q]),
        slopes=np.array([0.0, mu]),
        falls=np.array([0.0, 0.5 * mu * mu]),
    )
    rows = [
        [math.log1p(-q) - _LOG_ROOT, 0.0, -0.5],
        [math.log(q) - 0.5 * mu * mu - _LOG_ROOT, -mu, -0.5],
    ]
    return panels(
        rows=np.array(rows),
        ratio=Opposed(one=one),
        edges=_cut(0.0, high, min(1.0, 1 / mu)),
        atoms=mirrored_atoms([], [], centre=0.0, kept=context().mpf(1), rate=rate),
        mirrored=True,
        remove=True,
        count=count,
        lost=4 * _beyond(reach),
    )


def mixed(
    *,
    noise_multiplier: Fraction,
    shifts: Sequence[Fraction],
    weights: Sequence[Fraction],
    rate: Fraction,
    count: int,
    remove: bool,
    far: float,
) -> Panels | None:
    """`count` steps of a Gaussian mixture, on a Poisson sample where rate is below 1.

    In units of the noise f = 1 - q + q sum of w e^(s x - s^2 / 2) against N(0, 1).
    """
    shares: dict[Fraction, Fraction] = {Fraction(0): 1 - rate}
    for shift, weight in zip(shifts, weights, strict=True):
        place = shift / noise_multiplier
        shares[place] = shares.get(place, Fraction(0)) + rate * weight
    present = sorted((place, share) for place, share in shares.items() if share)
    slopes: Floats = np.array([float(place) for place, _ in present])
    largest = float(slopes.max())
    reach = math.sqrt(2 * far)
    if not largest > 1e-9 or largest * (reach + largest) > _WIDEST or len(present) > 200:
        return None
    ratio = Sums(
        weights=np.array([float(share) for _, share in present]),
        slopes=slopes,
        falls=0.5 * slopes * slopes,
    )
    return panels(
        rows=np.array([[-_LOG_ROOT, 0.0, -0.5]]),
        ratio=ratio,
        edges=_cut(-reach, reach + largest, min(1.0, 1 / largest)),
        atoms=mirrored_atoms([], [], centre=0.0, kept=context().mpf(1), rate=rate),
        mirrored=False,
        remove=remove,
        count=count,
        lost=4 * _beyond(reach),
    )


def _beyond(x: float) -> float:
    """P(N(0, 1) > x), rounded up."""
    return 0.5 * math.erfc(x / math.sqrt(2)) * (1 + 1e-9) + 1e-320


def _cut(low: float, high: float, width: float) -> Floats:
    """Ends of equal pieces about this long, at least two and at most 60."""
    pieces = min(max(math.ceil((high - low) / width), 2), 60)
    edges: Floats = np.linspace(low, high, pieces + 1)
    return edges
