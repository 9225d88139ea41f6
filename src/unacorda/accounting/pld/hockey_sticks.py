"""Bounds the profile of private selection by a sum of shifted profiles of one run.

Let P and Q be the laws of one run on two neighbors, l the loss of P against Q, w and w' the
probabilities under P and Q of the outputs that win over a given one, and f(x) = E x^K. The best of
K runs has, of that output, the likelihoods P f'(1 - w) and Q f'(1 - w'), so that

    delta(epsilon) <= E_P h(e^{epsilon - l}),  h(c) = sup of (f'(1 - w) - c f'(1 - w'))_+

over the pairs (w, w') that the privacy of a run allows. The function h is convex, so a broken line
lies above it, and a broken line is a sum of hockey-stick functions a_j (1 - c / s_j)_+, each of
which has the expectation a_j delta_run(epsilon - ln s_j).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unacorda.accounting.pld.tables import Profile
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.chords import minorant
from unacorda.accounting.tries import log_mean_of_tries, log_rest_of_cap
from unacorda.checks import exact
from unacorda.privacy.events import PoissonTries
from unacorda.privacy.events.selection import Tries

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
