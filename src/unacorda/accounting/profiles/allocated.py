"""Curves of random allocation: a unit takes part in one of t steps, and which one is not seen.

With X the likelihood ratio P/Q of a step under Q, the ratio of all steps is R = (X_1 + ... + X_t)/t
of independent copies. delta = E (R - c)+ upward and E (c - R)+ downward, c = e^epsilon, are convex
in each X, and x -> E (X - x)+ is the curve of a step. So X may be replaced by a law on the whole
multiples of a step width whose profile touches the curve at the nodes: docs/proofs/allocation.md.
The law of the sum comes from a tilted transform, with its errors.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from unacorda.accounting.pld.convolution import (
    LossSum,
    Side,
    Window,
    exponential,
    tilted,
)
from unacorda.accounting.pld.grid import Law
from unacorda.accounting.profiles import draws
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import PrivacyProfile, TwoSides, nothing

_U = 2.0**-53
_CHARGE = 16 * _U
_GOALS = (0.3, 1e-2, 1e-5, 1e-8, 1e-11, 1e-15, 1e-20, 1e-30)
"""Deltas near which a sum is laid out; the next is made where the ones before are too rough."""
_BETWEEN = (1e-3, 1e-4, 1e-6, 1e-7, 1e-9)
"""Further ones, made near values that are rough still: of few large ratios a tilt fits no other."""
_SIZE = 1 << 16
_MOST_STEPS = 10**7
_LEAST = 1e-40
_FARTHEST = 250.0
"""Logarithms of c and of X beyond this are not distinguished."""
_LARGEST = 1 << 18
_REACH = 10.0
_FINE = 0.05
"""The width of the grid, in standard deviations of X, is at most this where the size allows."""


def allocated(tails: Tails, *, remove: bool, pair: AllocationPair | None = None) -> PrivacyProfile:
    """The pair ((1/t) sum over i of Q..P..Q, Q..Q), P in place i of t, or the pair turned round.

    tails: of (P, Q) and t, for both directions; pair: that of noise which attains (P, Q).

    Statement   see the module.
    Bound       upper, for every adaptive sequence of t mechanisms whose pairs (P, Q) dominates;
                lower, of the pair; where none is known, max(0, 1 - e^epsilon).
    Source      Feldman and Shenfeld 2025, arXiv:2502.08202 (the pair); docs/proofs/allocation.md.
    """

    def upper(epsilon: Box, near: float | None) -> Array:
        # delta falls in epsilon; the log of c is epsilon or, turned round, its negative
        gain = np.minimum(epsilon.lower, _FARTHEST) * (1.0 if remove else -1.0)
        found = np.ones_like(gain)
        for rise in (True, False):
            here = ((gain >= 0) if rise else (gain < 0)) & (np.abs(gain) <= _FARTHEST)
            if not here.any():
                continue
            at = gain[here]
            goal = None if near is None else np.full_like(at, near)
            if goal is not None and not remove:
                goal *= np.exp(at)
            value = (tails.rising if rise else tails.falling)(at, goal)
            if not remove:
                value = np.exp(-at) * value
            if rise != remove:  # delta = 1 - e^epsilon + e^epsilon delta of the other way round
                value = value - np.expm1(at if remove else -at)
            found[here] = value
        # the average ratio is no riskier than one
        found = np.fmin(found, (tails.forward if remove else tails.backward)(epsilon).upper)
        return np.clip(found * (1 + 32 * _U) + 1e-307, plain(epsilon), 1.0)

    def plain(epsilon: Box) -> Array:
        least = -np.expm1(np.minimum(epsilon.upper, 1.0)) * (1 - 4 * _U) - 1e-300
        return np.asarray(np.maximum(least, 0.0))

    def lower(epsilon: Box) -> Array:
        found = plain(epsilon)
        return found if pair is None else np.maximum(found, pair.below(epsilon, remove=remove))

    return PrivacyProfile.of_sides(
        TwoSides(lower, upper),
        infinity=tails.forward.infinity if remove else Fraction(0),
        attained=nothing() if pair is None else None,
    )


def rising_law(forward: PrivacyProfile, places: Array) -> tuple[Array, float]:
    """Masses of X at `places`, which rise from 0, and what E (X - x)+ may be beyond the last.

    Bound       upper: E (X - x)+ is at most that of the masses, and the remainder, at every x.
    Source      docs/proofs/allocation.md, Section 3.
    """
    values = np.minimum.accumulate(np.concatenate(([1.0], forward(_logs(places)).upper)))
    falls = -np.diff(values) / np.diff(places)
    left, right = np.concatenate(([1.0], falls)), np.append(falls, 0.0)
    return np.maximum(left - right, 0.0) + _CHARGE * (left + right), float(values[-1])


def falling_law(backward: PrivacyProfile, places: Array) -> Array:
    """Masses of X at `places`, which rise from 0; what lies beyond the last is put there.

    Bound       upper: E (x - X)+ is at most that of the masses, at every x.
    Source      docs/proofs/allocation.md, Section 3.
    """
    logs = _logs(places)
    turned = backward(Box(-logs.upper, -logs.lower)).upper  # E (1 - X/x)+
    values = np.concatenate(([0.0], turned * places[1:] * (1 + 4 * _U)))
    rises = np.diff(values) / np.diff(places)
    left, right = np.concatenate(([0.0], rises)), np.append(rises, 1.0)
    masses: Array = np.maximum(right - left, 0.0) + _CHARGE * (left + right)
    return masses


def _logs(places: Array) -> Box:
    logs = np.log(places[1:])
    slack = 8 * _U * (np.abs(logs) + 1)
    return Box(logs - slack, logs + slack)


class Tails:
    """E (R - c)+ and E (c - R)+ of t steps, laid out where they are asked and remembered.

    forward, backward: the curves of (P, Q) and (Q, P) of one step; steps: t, 2 or more.

    Bound       upper.
    Source      docs/proofs/allocation.md.
    """

    def __init__(self, forward: PrivacyProfile, backward: PrivacyProfile, steps: int) -> None:
        many = min(steps, _MOST_STEPS)  # R falls in convex order as t grows
        self.forward, self.backward = forward, backward
        self.rising = _Tail(forward, backward, many, rise=True)
        self.falling = _Tail(forward, backward, many, rise=False)


@dataclass(slots=True)
class _Tail:
    """E (R - c)+ for c >= 1, or E (c - R)+ for c <= 1, from above, at logarithms of c."""

    forward: PrivacyProfile
    backward: PrivacyProfile
    steps: int
    rise: bool
    pieces: dict[float, Callable[[Array], tuple[Array, Array]]] = field(default_factory=dict)

    def __call__(self, log_c: Array, near: Array | None = None) -> Array:
        """At logarithms of c; near: values about which they are to be good, None: wherever."""
        best: Array
        # c may be up to the rounding below its float, where the tail is larger
        gap = np.expm1(log_c)
        gap = gap - 8 * _U * np.abs(gap) if self.rise else gap + 8 * _U * np.abs(gap)
        # R is no riskier than one X
        if self.rise:
            best = self.forward(Box(log_c, log_c)).upper
        else:
            best = self.backward(Box(-log_c, -log_c)).upper * np.exp(log_c) * (1 + 16 * _U)
        if near is not None:
            return self._near(gap, best, near)
        rough = best > _LEAST
        for goal in (*_GOALS, *_BETWEEN):
            if not rough.any():
                break
            if goal in _BETWEEN and not np.any(rough & (best > goal / 30) & (best < goal * 30)):
                continue
            value, error = self._laid_out(goal, gap)
            rough &= ~((error < 0.01 * value) & (value > goal / 100))
            best = np.fmin(best, value)
        return best

    def _near(self, gap: Array, best: Array, near: Array) -> Array:
        """Only what decides where the tail falls to `near`: the nearest layouts first."""
        goals = np.array((*_GOALS, *_BETWEEN))
        ranks = np.argsort(np.abs(np.log(goals[:, None] / np.maximum(near, _LEAST))), axis=0)
        rough = best > np.maximum(near, _LEAST)
        for turn, chosen in enumerate(ranks):
            rough &= (best < 30 * near) if turn else True
            for goal in np.unique(goals[chosen[rough]]):
                value, error = self._laid_out(float(goal), gap)
                best = np.fmin(best, value)
                rough &= ~((error < 0.01 * value) & (value > goal / 100)) & (best > near)
            if not rough.any():
                break
        return best

    def _laid_out(self, goal: float, gap: Array) -> tuple[Array, Array]:
        """The tail by the layout for a goal, and the error in it."""
        with np.errstate(over="ignore", invalid="ignore"):  # wild ones give nan: ignored
            if goal not in self.pieces:
                self.pieces[goal] = self._piece(goal)
            return self.pieces[goal](gap)

    def _piece(self, goal: float) -> Callable[[Array], tuple[Array, Array]]:
        layout = _planned(self.forward, self.steps, goal, rise=self.rise)
        if layout is None:
            return _nothing_known
        step, cut, window = layout
        count = math.ceil(cut / float(step))
        places: Array = np.arange(count + 1, dtype=np.float64) * float(step)
        if self.rise:
            weights, beyond = rising_law(self.forward, places)
        else:
            weights, beyond = falling_law(self.backward, places), 0.0
        law = Law(first=0, weights=weights, infinity=0.0)
        alone = tilted(law, step=step, tilt=window.tilt, side=1)
        found = LossSum([(alone, self.steps)], step=step, window=window, side=1)
        if not math.isfinite(found.error):
            return _nothing_known
        mass = float(np.sum(weights)) * (1 + 1e-12)
        # a sum with a term beyond the last place counts by what it exceeds it, at most
        spill = beyond * math.exp(max(0.0, self.steps * math.log(mass))) if self.rise else 0.0
        return _functional(found, self.steps, spill, rise=self.rise)


def _nothing_known(gap: Array) -> tuple[Array, Array]:
    return 1.0 + np.abs(gap), np.ones_like(gap)


def _functional(
    found: LossSum, steps: int, spill: float, *, rise: bool
) -> Callable[[Array], tuple[Array, Array]]:
    """E (R - 1 - gap)+, or E (1 + gap - R)+, as a function of the gap, and the error in it."""
    window, step = found.window, float(found.step)
    numbers = np.arange(window.first, window.first + window.size, dtype=np.float64)
    sums = numbers * step
    reach = abs(float(sums[0])) + abs(float(sums[-1]))
    charge = 16 * _U * (abs(found.exponent) + abs(window.tilt) * reach + 64)
    powers = found.exponent - window.tilt * sums
    with np.errstate(under="ignore"):
        scale = np.where(powers > 700, math.inf, np.exp(np.minimum(powers, 700.0)) * (1 + charge))
    masses = np.stack(
        [np.maximum(found.values, 0.0) * scale, np.full_like(sums, found.error) * scale]
    )
    ratios = (sums - steps) / steps
    if rise:
        edge = found.above + found.exponent - window.tilt * (sums[-1] + step)
        high = max(sums[-1] + step, 1 / window.tilt)
        outside = exponential(edge) * high / steps
        order = np.arange(len(sums))[::-1]
    else:
        # at the lower edge the sum is at least 0: nothing is below the node 0
        edge = found.below + found.exponent - window.tilt * sums[0]
        outside = 0.0 if window.first <= 0 else exponential(edge)
        order = np.arange(len(sums))
    sign = 1.0 if rise else -1.0
    zeroth = np.concatenate((np.zeros((2, 1)), np.cumsum(masses[:, order], axis=1)), axis=1)
    first = np.concatenate(
        (np.zeros((2, 1)), np.cumsum(masses[:, order] * (sign * ratios[order]), axis=1)), axis=1
    )
    sizes = np.concatenate(
        (np.zeros(1), np.cumsum(np.sum(masses[:, order], axis=0) * np.abs(ratios[order])))
    )
    ranked = sign * ratios[order]  # falls
    slip = 2 * _U * (len(sums) + 16)

    def evaluate(gap: Array) -> tuple[Array, Array]:
        at = sign * gap
        count = np.searchsorted(-ranked, -at, side="left")  # nodes whose kernel is above 0
        slack = slip * (sizes[count] + np.abs(at) * np.sum(zeroth[:, count], axis=0))
        parts = np.maximum(first[:, count] - at * zeroth[:, count], 0.0)
        error = parts[1] + outside + slack + spill
        value = parts[0] + error
        if rise:  # of the value, what the transform may have wrapped round
            powers = found.above + found.exponent - window.tilt * steps * (1 + gap)
            error = error + np.exp(np.minimum(powers, 700.0)) / (window.tilt * steps)
        beyond = at < ranked[-1]  # below the window, or above it: not known
        return np.where(beyond, 1.0 + np.abs(at), value), np.where(beyond, 1.0, error)

    return evaluate


def _planned(
    curve: PrivacyProfile, steps: int, goal: float, *, rise: bool
) -> tuple[Fraction, float, Window] | None:
    """A layout good near delta = goal; any layout gives a valid bound. None for wild ones.

    It is the width of the grid, the largest X kept, and the window of the transform.
    """
    top = _crossing(curve, goal / 1e6)
    places = np.concatenate(([0.0], np.geomspace(min(1e-6, top / 10), top, 3000)))
    weights, _ = rising_law(curve, places)
    weights /= np.sum(weights)
    jump = _crossing(curve, goal / 2) if rise else 0.0
    cut = min(top, 2 * jump + 20) if rise else float(steps)
    held, deviation = places, 1.0
    for _ in range(6):
        held = np.minimum(places, cut)
        mean = float(weights @ held)
        deviation = math.sqrt(max(float(weights @ (held - mean) ** 2), 1e-12))
        later = jump + _REACH * deviation * math.sqrt(steps) + 8 * deviation
        cut = min(later, top) if rise else min(later, float(steps))
    spread = deviation * math.sqrt(steps)
    sizes = np.geomspace(0.02, 200, 160) / spread
    levels = np.array([_level(held, weights, steps, size if rise else -size) for size in sizes])
    # Chernoff: delta <= e^{level - size gap} / (e size), in units of the sum
    gaps = (levels - math.log(goal) - np.log(math.e * sizes)) / sizes
    # the mildest tilt that is nearly the best: where delta cannot be so small none is
    best = min(int(np.argmax(gaps <= np.min(gaps) + 0.02 * np.abs(np.min(gaps)))), len(sizes) - 2)
    # beyond the window the tilted mass wraps round to where the kernel begins, at gaps[best]
    rest = levels[best + 1 :] - sizes[best] * gaps[best] - math.log(goal / 1e4)
    reaches = rest / (sizes[best + 1 :] - sizes[best])
    outer = int(np.argmin(reaches))
    reach = max(float(reaches[outer]), float(gaps[best]) + spread)
    outer += best + 1
    tilt, order = float(sizes[best]), float(sizes[outer])
    if rise:
        low, high = max(steps - _REACH * spread, 0.0), steps + reach
    else:
        low, high = max(steps - reach, 0.0), steps + _REACH * spread
        tilt, order = -tilt, -order
    if not 1e-280 < high - low < 1e280:
        return None
    size = _SIZE
    while size < _LARGEST and (high - low) / size > _FINE * deviation:
        size *= 2
    step = Fraction(2) ** math.ceil(math.log2((high - low) / size))
    window = Window(
        first=math.floor(low / step),
        size=size,
        tilt=tilt,
        higher=order if rise else tilt / 2,
        lower=tilt / 2 if rise else order,
    )
    return step, cut, window


def _level(held: Array, weights: Array, steps: int, order: float) -> float:
    """The logarithm of E e^{order (S - t)}."""
    powers = order * (held - 1)
    peak = float(np.max(powers))
    return steps * (peak + math.log(float(weights @ np.exp(powers - peak))))


def _crossing(curve: PrivacyProfile, goal: float) -> float:
    """About where E (X - x)+ falls to the goal, within bounds."""
    low, high = 0.0, _FARTHEST
    limit = float(curve.infinity) * 1.01
    for _ in range(7):
        places = np.linspace(low, high, 65)
        above = np.flatnonzero(curve(box(places[1:-1])).upper > goal + limit)
        last = int(above[-1]) + 1 if len(above) else 0
        low, high = float(places[last]), float(places[last + 1])
    return math.exp(high)


# Let every step add its statistic, rounded to a whole number, to one sum. That is a postprocessing
# of all outputs. Without the unit the sum has the law of t independent terms; with it k of these
# terms, whichever they are, are of the shifted noise. So both laws are convolutions.

_PLACES = 1 << 14
_SUM_SIZE, _LARGEST_SUM = 1 << 16, 1 << 18
_DEVIATIONS = 20.0
_FINE_TERMS = 0.05
"""Terms are rounded to this share of their deviation, where the largest size allows."""
_GROWTH = 4.0
_CAP = 16.0
"""Ratios beyond this times the gap to be resolved, and the noise of their sum, are as one."""
_SEEN_REACH = 9.0


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

    noise: draws.LocationFamily
    steps: int
    uses: int = 1
    opposite: bool = False
    _known: dict[tuple[_Statistic, bool], PrivacyProfile] = field(default_factory=dict, repr=False)

    def profile(self, *, remove: bool) -> PrivacyProfile:
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
        shift = np.asarray(draws.on_grain(self.noise.move))
        most = min(float(self.noise.loss(shift, shift + _SEEN_REACH)), _FARTHEST)
        gaps = self.steps * np.abs(np.expm1(np.clip(upper, 0.0, most) * (1 if remove else -1)))
        rungs = np.ceil(np.log(np.maximum(gaps / unit, 1.0)) / math.log(_GROWTH))
        rungs[upper > most] = -1.0  # hardly any mass has such a loss
        for rung in np.unique(rungs[rungs >= 0]):
            at = rungs == rung
            statistic = _Statistic(0.0, 1 + _CAP * unit * _GROWTH ** float(rung))
            known = self._profile(statistic, remove=remove).evaluate(Box(lower[at], upper[at]))
            found[at] = known.lower
        return found.reshape(np.shape(epsilon.upper))

    def _profile(self, statistic: _Statistic, *, remove: bool) -> PrivacyProfile:
        key = statistic, remove
        if key not in self._known:
            self._known[key] = self._made(statistic, remove=remove)
        return self._known[key]

    def _made(self, statistic: _Statistic, *, remove: bool) -> PrivacyProfile:
        """The laws of the sum of all steps, modulo the length of a transform."""
        shift = draws.on_grain(self.noise.move)
        reach = shift + (self.noise.far if self.noise.edge else 0.0)
        places = np.linspace(-reach if self.opposite else -1.3 * self.noise.edge, reach, _PLACES)
        values = statistic.of(self._ratios(places, shift))
        weights = draws.cell_masses(self.noise, places, side=-1)
        inner = np.concatenate((values[:1], (values[1:] + values[:-1]) / 2, values[-1:]))
        mean = float(weights @ inner)
        deviation = math.sqrt(max(float(weights @ (inner - mean) ** 2), 1e-300))
        length = _DEVIATIONS * deviation * math.sqrt(self.steps)
        length += 2 * self.uses * (float(values[-1]) - mean)
        size = _SUM_SIZE
        while size < _LARGEST_SUM and length / size > _FINE_TERMS * deviation:
            size *= 2
        width = length / size
        first = math.floor(float(values[0]) / width) + 1
        levels = np.arange(first, math.ceil(float(values[-1]) / width))
        ends = np.round(np.interp(levels * width, values, places) / draws.GRAIN) * draws.GRAIN

        def sums(moved: float, side: Side) -> Array:
            """Masses of the sum, where noise is moved in some steps."""
            terms = []
            for move, count in ((moved, self.uses), (0.0, self.steps - self.uses)):
                masses = draws.cell_masses(self.noise, ends - move, side=side)
                law = Law(first=first - 1, weights=masses, infinity=0.0)
                terms.append((tilted(law, step=Fraction(1), tilt=0.0, side=side), count))
            window = Window(first=0, size=size, tilt=0.0, higher=1 / size, lower=-1 / size)
            found = LossSum(terms, step=Fraction(1), window=window, side=side)
            scale = math.exp(found.exponent + side * found.charge(0.0)) * (1 + side * 16 * _U)
            return np.asarray(np.maximum(found.values + side * found.error, 0.0) * scale)

        pair = shift, -shift if self.opposite else 0.0
        p, q = pair if remove else pair[::-1]
        return draws.curve_of_cells(sums(p, -1), sums(q, 1))

    def _ratios(self, places: Array, shift: float) -> Array:
        """Likelihood ratios of a step, or their difference for both shifts."""
        x = np.exp(np.minimum(self.noise.loss(np.asarray(shift), places), _FARTHEST))
        if not self.opposite:
            return np.asarray(x)
        return np.asarray(
            x - np.exp(np.minimum(self.noise.loss(np.asarray(-shift), places), _FARTHEST))
        )
