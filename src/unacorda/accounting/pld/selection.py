"""The profile of private selection: the best of many runs, from the profile of one run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from unacorda.accounting.laws import of_points
from unacorda.accounting.pld.grid import law_below
from unacorda.accounting.pld.sources import (
    Profile,
    atoms_of_pair,
    curve_of_atoms,
    end_of_losses,
    end_of_upper,
    laid_down,
    largest_pair,
    upper_of,
)
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import PrivacyProfile, minorant
from unacorda.accounting.profiles.noises import finite
from unacorda.accounting.selection import log_mean_of_tries, log_rest_of_cap
from unacorda.balls import ball
from unacorda.checks import exact
from unacorda.privacy.events import PoissonTries
from unacorda.privacy.events.selection import Tries

_LOSSES = 192
_FAINT = (1e-40, 1e-9, 1e-3)
"""Losses are looked at as far as delta is above these."""


def selected(
    event: Tries,
    run: tuple[PrivacyProfile, PrivacyProfile],
    others: Callable[[], Profile],
    *,
    pure: float | None,
) -> PrivacyProfile:
    """One direction of the best of K runs.

    run: of one run, in that direction and turned round; others: an upper bound of both directions,
    asked where numbers are too large for this one; pure: an epsilon of both directions of the best
    one, where there is one.

    Statement   a sum of profiles of one run, each at another epsilon, and what a pure epsilon
                allows.
    Bound       upper. Attained is the best of some orders of scores, or one run, if there is any.
    Source      docs/proofs/selection.md, Sections 3, 6 and 7.
    """
    pair = run[0].attained or run[0]
    limit = None if pure is None else finite(of_points(Fraction(pure), 2))
    places = [] if pure is None else [pure, math.nextafter(pure, math.inf)]
    profiles: list[Profile] = []
    for own, turned in (run, run[::-1]):
        losses = _losses(turned)
        sticks = hockey_sticks(event, losses, turned(losses).upper)
        profiles.append(_least(sticks.profile_of(upper_of(own)) if sticks else others(), limit))
        places += [float(np.max(sticks.shifts))] if sticks else []
    return laid_down(
        *profiles,
        attained=curve_of_best_order(event, pair) or _one_run(event, pair),
        places=places,
    )


def _losses(curve: PrivacyProfile) -> Array:
    """Epsilons of both signs at which the profile is worth asking."""
    ends = [end_of_upper(curve, above=faint) for faint in _FAINT]
    found = np.unique([np.linspace(0.0, end, _LOSSES) for end in ends])
    return np.concatenate((-found[:0:-1], found))


def _least(profile: Profile, limit: PrivacyProfile | None) -> Profile:
    if limit is None:
        return profile
    return lambda epsilon: np.minimum(profile(epsilon), limit(epsilon).upper)


def _one_run(event: Tries, run: PrivacyProfile) -> PrivacyProfile:
    """The release where scores tell nothing: one run, or nothing at all where there is none."""
    if not isinstance(event, PoissonTries):
        return run
    none = (-ball(exact("mean", event.mean))).exp()
    if event.most is not None:
        none = none * 2  # a cap leaves at least half of the law
    some = box(max(float(1 - none) * (1 - 1e-15), 0.0))
    rest = -some + 1.0

    def evaluate(epsilon: Box) -> Box:
        return some * run.evaluate(epsilon) + rest * (-epsilon.expm1()).at_least(0.0)

    return PrivacyProfile(
        evaluate=evaluate,
        infinity=Fraction(float(some.lower)) * run.infinity,
        infinity_above=run.infinity if run.infinity_above is None else run.infinity_above,
        spacing=run.spacing,
        atomic=run.atomic,
    )


# Let P and Q be the laws of one run on two neighbors, l the loss of P against Q, w and w' the
# probabilities under P and Q of the outputs that win over a given one, and f(x) = E x^K. The best
# of K runs has, of that output, the likelihoods P f'(1 - w) and Q f'(1 - w'), so that
#
#     delta(epsilon) <= E_P h(e^{epsilon - l}),  h(c) = sup of (f'(1 - w) - c f'(1 - w'))_+
#
# over the pairs (w, w') that the privacy of a run allows. The function h is convex, so a broken
# line lies above it, and a broken line is a sum of hockey-stick functions a_j (1 - c / s_j)_+,
# each of which has the expectation a_j delta_run(epsilon - ln s_j).

_SLACK = 2.0**-48
"""Relative error that is charged for a few float operations, exponents apart."""
_KNOTS = 32
_SPAN = 12.0
"""Knots lie densely as far as twice the largest loss that selection adds, and down to this."""
_CELLS = 2048
_LARGEST = 600.0
"""Logarithms that are larger are not looked at, as floats do not hold the numbers."""


@dataclass(frozen=True, slots=True)
class HockeySticks:
    """A sum over j of weights a_j times the profile of one run at epsilon - shifts_j."""

    shifts: Array
    weights: Array

    def profile_of(self, run: Profile) -> Profile:
        """The bound of the profile of the best run; run: the profile of one, at any epsilon."""

        def value(epsilon: Array) -> Array:
            at = np.subtract.outer(epsilon, self.shifts)
            at -= 4 * _SLACK * (1 + np.abs(at) + np.abs(self.shifts))
            found: Array = (run(at) @ self.weights) * (1 + _SLACK)
            return np.minimum(found, 1.0)

        return value


def hockey_sticks(event: Tries, losses: Array, turned: Array) -> HockeySticks | None:
    """The hockey-stick functions whose sum lies above h; None where floats do not hold it.

    losses: ascending, any real numbers; turned: upper bounds of the profile of one run of Q
    against P there.

    Bound       upper: any knots, any cells and any losses give valid weights.
    Source      docs/proofs/selection.md, Section 3.
    """
    log_most = log_mean_of_tries(event)
    tiny = not isinstance(event, PoissonTries) and event.stop < math.exp(-_LARGEST)
    if log_most > _LARGEST or tiny:
        return None
    start, gain = _cells(event, losses, turned)
    if np.max(gain) > _LARGEST:
        return None
    most = math.exp(log_most) * (1 + _SLACK)
    start = np.minimum(start, most)
    slope = start * np.exp(-gain) * (1 - _SLACK * (1 + np.abs(gain)))
    top = float(np.max(start / slope)) * (1 + _SLACK)
    near = min(max(2 * math.log(top), 1e-9), _SPAN / 2)
    below = np.append(np.geomspace(_SPAN, near, _KNOTS), np.linspace(near, 0.0, 2 * _KNOTS)[1:])
    knots = top * np.exp(-below)
    lines = start[:, None] - np.multiply.outer(slope, knots)
    heights = np.maximum(np.max(lines + _SLACK * start[:, None], axis=0), 0.0)
    heights[-1] = 0.0  # beyond the largest ratio there is nothing
    slopes = np.diff(heights, prepend=most) / np.diff(knots, prepend=0.0)
    weights = np.maximum(np.diff(slopes, append=0.0), 0.0) * knots
    # round-off may have lowered the broken line at a knot: it is raised until it is nowhere below
    sums = np.maximum(1 - np.divide.outer(np.append(0.0, knots[:-1]), knots), 0.0) @ weights
    weights *= float(np.max(np.append(most, heights[:-1]) / sums)) * (1 + _SLACK)
    held = weights > 0
    return HockeySticks(np.log(knots[held]), weights[held])


def _cells(event: Tries, losses: Array, turned: Array) -> tuple[Array, Array]:
    """Of cells that cover all w: f'(1 - w) at most, and the log of f'(1 - w) / f'(1 - w') at most.

    A line w' <= e^x w + delta(x) holds for all w. Along it the ratio is monotone, so its largest
    value in a cell lies at one of both ends; one line serves each cell.
    """
    # of the line for x = -infinity, w' <= 1, too
    rises, heights = np.append(0.0, np.exp(losses)), np.append(1.0, np.minimum(turned, 1.0))
    kept = minorant(rises, heights)
    rises, heights = rises[kept], heights[kept]
    corners = np.diff(-heights) / np.diff(rises)  # descending: beyond each the next line is higher
    ends = np.concatenate(
        ([0.0], np.geomspace(1e-12, 1.0, _CELLS), np.linspace(0.0, 1.0, _CELLS), corners)
    )
    ends = np.unique(np.clip(ends, 0.0, 1.0))
    left, right = ends[:-1], ends[1:]
    middle = np.searchsorted(-corners, -(left + right) / 2)
    rise, height = rises[middle] * (1 + _SLACK), heights[middle] * (1 + _SLACK)
    gains = [_log_ratio(event, w, np.minimum(rise * w + height, 1.0)) for w in (left, right)]
    return _derivative(event, left), np.maximum.reduce([*gains, np.zeros_like(left)])


def _log_ratio(event: Tries, w: Array, turned: Array) -> Array:
    """The logarithm of f'(1 - w) / f'(1 - w'), rounded up; a cap only lowers it."""
    if isinstance(event, PoissonTries):
        mean = float(exact("mean", event.mean))
        return mean * (turned - w) + _SLACK * (1 + mean * (turned + w))
    stop, power = float(exact("stop", event.stop)), 1 + float(exact("shape", event.shape))
    own, other = (stop + (1 - stop) * np.asarray(one) for one in (w, turned))
    return power * np.log(other / own) + _SLACK * (1 + power * (1 - math.log(stop)))


def _derivative(event: Tries, w: Array) -> Array:
    """f'(1 - w), rounded up, under a cap divided by the chance that it is kept."""
    if isinstance(event, PoissonTries):
        power = -float(exact("mean", event.mean)) * w
    else:
        stop, once = float(exact("stop", event.stop)), 1 + float(exact("shape", event.shape))
        power = -once * np.log1p((1 - stop) * w / stop)
    size = log_mean_of_tries(replace(event, most=None)) + log_rest_of_cap(event)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(size + power + _SLACK * (1 + abs(size) + np.abs(power))))


# A run with the loss l of P against Q gets a score that depends on l alone: from some `start` on
# losses are ordered as they are, whatever is below wins over all of these, and an infinite loss
# over all others. A high loss is then released where no run was low, which P makes likelier than
# Q does. With w and w' the probabilities under P and Q of what wins over a cell, and f(x) = E
# x^K, the best of K runs is of a cell of mass p with probability f(1 - w) - f(1 - w - p). Ties
# are broken by a uniform number that is released as well: large masses are cut into parts.

_LOSS_CELLS = 1 << 11
"""Of losses on either side of 0."""
_STARTS = np.linspace(0.02, 0.96, 48)
"""Probabilities under P of what wins over all others."""
_FINEST = 1 / 256
_SEEN_DELTA = 1e-40
"""Losses are looked at as far as delta is above this."""
_LARGEST_MEAN = 1e4
"""Of means and shapes: beyond, powers lose too many digits."""
_MOST = 1000
"""Of caps: their chances are added one by one."""
_UNIT = 2.0**-53

_Masses: TypeAlias = Callable[[Array, Array], Array]
"""(w, p) -> f(1 - w) - f(1 - w - p), for all p, by falling w, the last one's with w = 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """The law of the number of runs: masses of cells, the chance of no run, a factor of errors."""

    masses: _Masses
    none: float
    condition: float


def curve_of_best_order(event: Tries, run: PrivacyProfile) -> PrivacyProfile | None:
    """The curve of the best of many runs of a pair, with the best of some orders of scores.

    run: of a pair that one run allows, in one direction.

    None where K has numbers that are too large for floats, or a large cap.

    Bound       lower: of one pair that the event allows. Of 48 orders it is the one whose epsilon,
                as a share of the largest of all, is largest at the worst of three deltas.
    Source      docs/proofs/selection.md, Section 7.
    """
    runs = _runs_of(event)
    if runs is None:
        return None
    pairs = [pair for pair in _best_runs(run, runs) if pair is not None]
    if not pairs:
        return None
    first, second, trust = pairs[largest_pair([pair[:2] for pair in pairs])]
    return curve_of_atoms(atoms_of_pair(first, second, trust=trust))


def _runs_of(event: Tries) -> _Runs | None:
    if event.most is not None and event.most > _MOST:
        return None
    if isinstance(event, PoissonTries):
        mean = float(exact("mean", event.mean))
        if mean > _LARGEST_MEAN:
            return None
        if event.most is None:
            return _poisson(mean)
        return _capped(1.0, [mean / k for k in range(1, event.most + 1)])
    shape, stop = (float(exact(name, getattr(event, name))) for name in ("shape", "stop"))
    if stop == 1 or abs(shape) > _LARGEST_MEAN or 0 < abs(shape) < 1 / _LARGEST_MEAN:
        return None
    if event.most is None:
        return _negative_binomial(shape, stop)
    factors = [(1 - stop) * (k - 1 + shape) / k for k in range(2, event.most + 1)]
    return _capped(0.0, [1.0, *factors])


def _capped(none: float, factors: Sequence[float]) -> _Runs:
    """A law with finitely many numbers of runs, by the ratio of each chance to the one before.

    none: the chance of no run, or 0, where the first ratio is the chance of one run; chances are
    divided by their sum.
    """
    chances = np.cumprod([none or 1.0, *factors])
    chances[0] = none
    chances /= math.fsum(chances)

    def masses(_above: Array, own: Array) -> Array:
        # x^k - y^k, without differences of near numbers; x = 1 - above, as all masses are here
        x = np.cumsum(own)
        with np.errstate(divide="ignore"):
            fallen = np.log1p(-np.minimum(own / np.maximum(x, 1e-300), 1.0))
        found = np.zeros_like(x)
        power = np.ones_like(x)
        for k, chance in enumerate(chances[1:], start=1):
            power = power * x
            found -= chance * power * np.expm1(k * fallen)
        return found

    return _Runs(masses=masses, none=float(chances[0]), condition=4.0 + len(factors))


def _poisson(mean: float) -> _Runs:
    def masses(above: Array, own: Array) -> Array:
        found: Array = -np.exp(-mean * above) * np.expm1(-mean * own)
        return found

    return _Runs(masses=masses, none=math.exp(-mean), condition=1 + mean)


def _negative_binomial(shape: float, stop: float) -> _Runs:
    whole = -math.log(stop) if shape == 0 else math.expm1(-shape * math.log(stop))

    def masses(above: Array, own: Array) -> Array:
        inner = stop + (1 - stop) * above  # 1 - (1 - stop) x at the upper end of the cell
        grown = np.log1p((1 - stop) * own / inner)
        found: Array = (
            grown / whole
            if shape == 0
            else -np.power(inner, -shape) * np.expm1(-shape * grown) / whole
        )
        return found

    return _Runs(masses=masses, none=0.0, condition=(2 + abs(shape)) * (2 - math.log(stop)))


def _best_runs(run: PrivacyProfile, runs: _Runs) -> list[tuple[Array, Array, float] | None]:
    """The pairs of all starts: masses under P and under Q, and their relative error."""
    losses, p, q, infinity = _law(run)
    over = infinity + np.cumsum(p[::-1])[::-1]
    starts = np.unique(np.searchsorted(-over, _STARTS - 1.0))
    return [
        _best_run(losses[start:], p[start:], q[start:], infinity, runs)
        for start in starts
        if start < len(p)
    ]


def _best_run(
    losses: Array, p: Array, q: Array, infinity: float, runs: _Runs
) -> tuple[Array, Array, float] | None:
    """The cells of these losses, ascending, what wins over them, and the infinite loss."""
    winning = 1 - math.fsum(p) - infinity, 1 - math.fsum(q)
    if min(winning) < _FINEST or math.log(winning[0] / winning[1]) > losses[0] - 1e-9:
        return None  # not below the run's curve, which is 1 - x where x is small
    parts = np.maximum(np.ceil(np.maximum(p, q) / _FINEST), 1).astype(np.int64)
    cells = np.repeat(p / parts, parts), np.repeat(q / parts, parts)
    laws = []
    for own, rest, lost in zip(cells, winning, (infinity, 0.0), strict=True):
        masses = np.concatenate((own, [rest, lost]))
        above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
        found = runs.masses(above, masses)
        laws.append(np.append(found, runs.none) if runs.none else found)
    trust = 64 * _UNIT * (len(laws[0]) + 8) * runs.condition / min(winning)
    return (laws[0], laws[1], trust) if trust < 1e-6 else None


def _law(run: PrivacyProfile) -> tuple[Array, Array, Array, float]:
    """Losses, and masses under P and Q, of a law whose curve is nowhere above that of the run."""
    end = end_of_losses(run, above=_SEEN_DELTA)
    step = Fraction(end) / _LOSS_CELLS
    if run.spacing is not None:
        step = run.spacing / max(1, math.ceil(run.spacing / step))
    count = math.ceil(Fraction(end) / step) + 2
    law = law_below(run, step=step, first=-count, last=count)
    held = law.weights > 0
    losses: Array = np.asarray((np.flatnonzero(held) + law.first) * float(step), dtype=np.float64)
    masses = law.weights[held]
    others = masses * np.exp(-losses) * (1 + 16 * _UNIT * (1 + np.abs(losses)))
    return losses, masses, others, law.infinity
