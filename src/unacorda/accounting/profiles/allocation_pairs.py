"""Lower bounds of random allocation: noise on a number, shifted in some of the steps.

Let every step add its statistic, rounded to a whole number, to one sum. That is a postprocessing
of all outputs. Without the unit the sum has the law of t independent terms; with it k of these
terms, whichever they are, are of the shifted noise. So both laws are convolutions.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from unacorda.accounting.pld.convolution import Side, Window, tilted, total
from unacorda.accounting.pld.grid import Law
from unacorda.accounting.pld.sources import curve_of_atoms
from unacorda.accounting.profiles.atoms import Atoms
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import Curve
from unacorda.accounting.profiles.locations import GRAIN, LocationFamily, cell_masses, on_grain

_U = 2.0**-53
_PLACES = 1 << 14
_SIZE, _LARGEST = 1 << 16, 1 << 18
_DEVIATIONS = 20.0
_FINE = 0.05
"""Terms are rounded to this share of their deviation, where the largest size allows."""
_GROWTH = 4.0
_CAP = 16.0
"""Ratios beyond this times the gap to be told from 0, and the noise of their sum, are as one."""
_REACH = 9.0
_FARTHEST = 250.0


class _Statistic(NamedTuple):
    """What a step adds to the sum: ln(1 + curve x)/curve, or x up to `largest` where curve is 0."""

    curve: float
    largest: float

    def of(self, x: Array) -> Array:
        """At likelihood ratios, or at differences of two."""
        sizes = np.minimum(np.abs(x), self.largest)
        found = np.log1p(self.curve * sizes) / self.curve if self.curve else sizes
        return np.asarray(np.copysign(found, x))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationPair:
    """The pair (noise shifted in `uses` of `steps` steps, drawn at random; other noise).

    opposite: whether the other noise is shifted too, in steps of its own, the other way; else it
    is not shifted.

    Bound       lower, of one pair that random allocation allows.
    Source      Feldman and Shenfeld 2025, arXiv:2502.08202 (the pair); docs/proofs/allocation.md.
    """

    noise: LocationFamily
    steps: int
    uses: int = 1
    opposite: bool = False
    _known: dict[tuple[_Statistic, bool], Curve] = field(default_factory=dict, repr=False)

    def profile(self, *, remove: bool) -> Curve:
        """The profile of the sum of one statistic; remove: the first pair, else turned round.

        Bound       lower: it is a postprocessing.
        Source      as the class.
        """
        largest = math.exp(min(float(self.noise.move) * self.noise.far, _FARTHEST))
        return self._profile(_Statistic(self.uses / (2 * self.steps), largest), remove=remove)

    def below(self, epsilon: Box, *, remove: bool) -> Array:
        """Bounds the profile for one use, by sums of ratios on lattices fine enough for epsilon.

        Bound       lower: the largest of several postprocessings.
        Source      as the class.
        """
        lower, upper = np.ravel(epsilon.lower), np.ravel(epsilon.upper)
        found = np.zeros_like(upper)
        # the average ratio decides; a lattice reaches a few times as far as e^epsilon
        unit = math.sqrt(self.steps)
        shift = np.asarray(on_grain(self.noise.move))
        most = min(float(self.noise.loss(shift, shift + _REACH)), _FARTHEST)
        gaps = self.steps * np.abs(np.expm1(np.clip(upper, 0.0, most) * (1 if remove else -1)))
        rungs = np.ceil(np.log(np.maximum(gaps / unit, 1.0)) / math.log(_GROWTH))
        rungs[upper > most] = -1.0  # hardly any mass has such a loss
        for rung in np.unique(rungs[rungs >= 0]):
            at = rungs == rung
            statistic = _Statistic(0.0, 1 + _CAP * unit * _GROWTH ** float(rung))
            known = self._profile(statistic, remove=remove).evaluate(Box(lower[at], upper[at]))
            found[at] = known.lower
        return found.reshape(np.shape(epsilon.upper))

    def _profile(self, statistic: _Statistic, *, remove: bool) -> Curve:
        key = statistic, remove
        if key not in self._known:
            self._known[key] = self._made(statistic, remove=remove)
        return self._known[key]

    def _made(self, statistic: _Statistic, *, remove: bool) -> Curve:
        """The laws of the sum of all steps, modulo the length of a transform."""
        shift = on_grain(self.noise.move)
        reach = shift + (self.noise.far if self.noise.edge else 0.0)
        places = np.linspace(-reach if self.opposite else -1.3 * self.noise.edge, reach, _PLACES)
        values = statistic.of(self._ratios(places, shift))
        weights = cell_masses(self.noise, places, side=-1)
        inner = np.concatenate((values[:1], (values[1:] + values[:-1]) / 2, values[-1:]))
        mean = float(weights @ inner)
        deviation = math.sqrt(max(float(weights @ (inner - mean) ** 2), 1e-300))
        length = _DEVIATIONS * deviation * math.sqrt(self.steps)
        length += 2 * self.uses * (float(values[-1]) - mean)
        size = _SIZE
        while size < _LARGEST and length / size > _FINE * deviation:
            size *= 2
        width = length / size
        first = math.floor(float(values[0]) / width) + 1
        levels = np.arange(first, math.ceil(float(values[-1]) / width))
        ends = np.round(np.interp(levels * width, values, places) / GRAIN) * GRAIN

        def sums(moved: float, side: Side) -> Array:
            """Masses of the sum, where noise is moved in some steps."""
            terms = []
            for move, count in ((moved, self.uses), (0.0, self.steps - self.uses)):
                masses = cell_masses(self.noise, ends - move, side=side)
                law = Law(first=first - 1, weights=masses, infinity=0.0)
                terms.append((tilted(law, step=Fraction(1), tilt=0.0, side=side), count))
            window = Window(first=0, size=size, tilt=0.0, higher=1 / size, lower=-1 / size)
            found = total(terms, step=Fraction(1), window=window, side=side)
            scale = math.exp(found.exponent + side * found.charge(0.0)) * (1 + side * 16 * _U)
            return np.asarray(np.maximum(found.values + side * found.error, 0.0) * scale)

        pair = shift, -shift if self.opposite else 0.0
        p, q = pair if remove else pair[::-1]
        return _law_of_pair(sums(p, -1), sums(q, 1))

    def _ratios(self, places: Array, shift: float) -> Array:
        """Likelihood ratios of a step, or their difference for both shifts."""
        x = np.exp(np.minimum(self.noise.loss(np.asarray(shift), places), _FARTHEST))
        if not self.opposite:
            return np.asarray(x)
        return np.asarray(
            x - np.exp(np.minimum(self.noise.loss(np.asarray(-shift), places), _FARTHEST))
        )


def _law_of_pair(p: Array, q: Array) -> Curve:
    """The profile of two laws of which the first is known from below, the second from above."""
    held = (p > 0) & (q > 0)
    p, q = p[held], q[held]
    logs = np.log(p), np.log(q)
    return curve_of_atoms(
        Atoms(
            losses=np.asarray(logs[0] - logs[1]),
            masses=p,
            error=8 * _U * float(np.max(np.abs(logs[0]) + np.abs(logs[1]) + 1, initial=0.0)),
            trust=8 * _U,
            lower=True,
        )
    )
