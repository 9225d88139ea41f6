"""How far the transform of a law with a density has faded at large t: parts of it, by parts.

Of the tilted law on [z, high] the transform at t is at most spread(z) / t; what lies elsewhere
counts with its mass. The best z falls with t: the steep end of a law fades long before the flat
one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unacorda.accounting.contour.ratios import Ratio
from unacorda.accounting.contour.rule import bound_of_density, pieces_of
from unacorda.accounting.contour.series import Floats

__all__ = ["Fading", "fading"]

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
