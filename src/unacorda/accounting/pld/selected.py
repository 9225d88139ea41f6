"""The profile of private selection: the best of many runs, from the profile of one run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.hockey_sticks import hockey_sticks
from unacorda.accounting.pld.score_orders import curve_of_best_order
from unacorda.accounting.pld.tables import Profile, end_of_upper, laid_down
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import Curve, approximate
from unacorda.checks import exact
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.events import PoissonTries
from unacorda.privacy.events.selection import Tries

_LOSSES = 192
_FAINT = (1e-40, 1e-9, 1e-3)
"""Losses are looked at as far as delta is above these."""


def selected(
    event: Tries, run: tuple[Curve, Curve], others: Callable[[], Profile], *, pure: float | None
) -> Curve:
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
    limit = None if pure is None else approximate(Fraction(pure))
    places = [] if pure is None else [pure, math.nextafter(pure, math.inf)]
    profiles: list[Profile] = []
    for own, turned in (run, run[::-1]):
        losses = _losses(turned)
        sticks = hockey_sticks(event, losses, turned(losses).upper)
        profiles.append(_least(sticks.profile_of(_upper(own)) if sticks else others(), limit))
        places += [float(np.max(sticks.shifts))] if sticks else []
    return laid_down(
        *profiles,
        attained=curve_of_best_order(event, pair) or _one_run(event, pair),
        places=places,
    )


def _losses(curve: Curve) -> Array:
    """Epsilons of both signs at which the profile is worth asking."""
    ends = [end_of_upper(curve, above=faint) for faint in _FAINT]
    found = np.unique([np.linspace(0.0, end, _LOSSES) for end in ends])
    return np.concatenate((-found[:0:-1], found))


def _upper(curve: Curve) -> Profile:
    return lambda epsilon: curve(epsilon).upper


def _least(profile: Profile, limit: Curve | None) -> Profile:
    if limit is None:
        return profile
    return lambda epsilon: np.minimum(profile(epsilon), limit(epsilon).upper)


def _one_run(event: Tries, run: Curve) -> Curve:
    """The release where scores tell nothing: one run, or nothing at all where there is none."""
    if not isinstance(event, PoissonTries):
        return run
    none = context().exp(-mpf(exact("mean", event.mean)))
    if event.most is not None:
        none = none * 2  # a cap leaves at least half of the law
    some = box(max(float(1 - none) * (1 - 1e-15), 0.0))
    rest = -some + 1.0

    def evaluate(epsilon: Box) -> Box:
        return some * run.evaluate(epsilon) + rest * (-epsilon.expm1()).at_least(0.0)

    return Curve(
        evaluate=evaluate,
        infinity=Fraction(float(some.lower)) * run.infinity,
        infinity_above=run.infinity if run.infinity_above is None else run.infinity_above,
        spacing=run.spacing,
        atomic=run.atomic,
    )
