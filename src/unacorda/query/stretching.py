"""How much more than its share each part of a batch may spend, when all are priced as one.

An (epsilon, delta) request is split over mechanisms by a kind of guarantee that adds up: pure
epsilons, or squared mus of Gaussian DP. Their sum is only a bound of what the mechanisms cost
together at the request's delta. Here the exact composition of all of them is priced, and all shares
are multiplied by one common factor, the largest for which the price still keeps the request. Ten
medians gain a fifth of their error. Nothing is gained where all is normal noise, of which the sum
is the price, and next to nothing (3% at most in all cases tried) where all is Laplace noise: where
that is the quieter of the two, its parts are too few for their composition to be much below the
sum. Neither is looked for, nor for Laplace noise of all levels of a tree at once (`Pure`).

The factor is a function of the mechanisms and the request alone, a multiple of 1/128, and itself
was priced: what is promised does not rest on the search.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from unacorda.accounting.accountant import quick_epsilon
from unacorda.accounting.calibration.calibrate import calibrate
from unacorda.accounting.engines import only_gaussian
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import Composed, DiscreteLaplace, Event, Laplace, Pure, Repeated
from unacorda.privacy.guarantees import ApproxDP

__all__ = ["common_factor"]

_STEPS = 128  # per unit of the factor
_MOST = 16
_MOST_PARTS = 100  # kinds of mechanisms; pricing more takes seconds each time


def common_factor(family: Callable[[Fraction], Event], request: ApproxDP) -> Fraction:
    """The largest factor, from 1 to 16, of all shares within the request.

    family: what all mechanisms do together when every share is multiplied by a factor.
    """
    event = family(Fraction(1))
    parts = event.parts if isinstance(event, Composed) else (event,)
    alone = len(parts) == 1 and not isinstance(event, Repeated)
    if (
        alone
        or only_gaussian(event)
        or all(map(_is_laplace, parts))
        or not request.epsilon
        or not 0 < request.delta < 1
        or len(parts) > _MOST_PARTS
    ):
        return Fraction(1)
    try:
        steps = calibrate(
            lambda count: family(Fraction(count, _STEPS)),
            target=request.epsilon,
            price=lambda one: quick_epsilon(one, delta=request.delta),
            find="most",
            whole=True,
            within=(_STEPS, _MOST * _STEPS),
            guess=1.2 * _STEPS,
        )
    except (InvalidParameter, UnsupportedEvent, OverflowError, ValueError):
        return Fraction(1)  # nothing better than the sum is known
    return Fraction(steps, _STEPS)


def _is_laplace(event: Event) -> bool:
    alone = event.event if isinstance(event, Repeated) else event
    return isinstance(alone, Laplace | DiscreteLaplace | Pure)
