"""The profile of private selection: the best of many runs, from the profile of one run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.score_orders import curve_of_best_order
from unacorda.accounting.pld.tables import Profile, laid_down
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import Curve
from unacorda.accounting.tries import growth_of_tries, log_mean_of_tries
from unacorda.checks import exact
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.events import PoissonTries
from unacorda.privacy.events.selection import Tries

__all__ = ["selected"]


def selected(
    event: Tries, run: tuple[Curve, Curve], others: Sequence[Profile], *, pure: float | None
) -> Curve:
    """One direction of the best of K runs.

    run: of one run, in that direction and turned round; others: upper bounds of both directions
    that are known beside; pure: an epsilon of both directions, where there is one.

    Statement   E[K] delta(epsilon - g), where f'(q) <= e^g f'(q') for the probabilities of one
                event of a run, and the least of that and of the others.
    Bound       upper. Attained is the best of some orders of scores, or one run, if there is any.
    Source      docs/proofs/selection.md, Sections 3, 6 and 7.
    """
    ways = (run, run[::-1])
    pair = run[0].attained or run[0]
    growths = [growth_of_tries(event, _of_float(turned)) for _, turned in ways]
    times = box(float_up(context().exp(mpf(log_mean_of_tries(event)))))

    def profile(way: int) -> Profile:
        curve, growth = ways[way][0], growths[way]

        def value(epsilon: Array) -> Array:
            found = (times * curve(box(epsilon) - growth)).upper
            for other in others:
                found = np.minimum(found, other(epsilon))
            return np.minimum(found, 1.0)

        return value

    return laid_down(
        profile(0),
        profile(1),
        attained=curve_of_best_order(event, pair) or _one_run(event, pair),
        places=[*growths, *([] if pure is None else [pure, math.nextafter(pure, math.inf)])],
    )


def _of_float(curve: Curve) -> Callable[[float], float]:
    return lambda epsilon: float(curve(np.asarray(float(epsilon))).upper)


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
