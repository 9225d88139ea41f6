"""The pure epsilon of any event, where it has one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting.amplification.relations import check_relation, under_replacement
from unacorda.accounting.amplification.sampling import (
    approx_dp_of_sample,
    pure_of_replaced_sample,
)
from unacorda.accounting.arguments import Events, joined
from unacorda.accounting.prices import pure_alone
from unacorda.accounting.tries import pure_of_tries
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Composed,
    Event,
    FixedSizeSampled,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomAllocation,
    Repeated,
    ReplacementSampled,
    Shuffled,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, grid_sum_up

__all__ = ["checked_pure_epsilon", "pure_epsilon", "pure_of"]

_SEVERAL = 64
_NOTHING = Pure(epsilon=0)


def pure_epsilon(events: Events, *, neighbors: Neighbors = AddRemove) -> float | None:
    r"""The epsilon for which the events together are epsilon-DP, or None where they are not pure.

    Statement   sums over compositions; log(1 + rate (e^epsilon - 1)) for a sample; shuffling
                amplifies no pure guarantee.
    Bound       upper, rounded up.
    Source      pure_price; approx_dp_of_sample.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> pure_epsilon(Pure(epsilon=1.0) * 3), pure_epsilon(Gaussian(noise_multiplier=1.0))
    (3.0, None)
    """
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else checked_pure_epsilon(event, neighbors)


def checked_pure_epsilon(event: Event, neighbors: Neighbors) -> float | None:
    """`pure_epsilon` of an event whose numbers and relation have been checked.

    Bound       upper, rounded up.
    Source      as pure_epsilon.
    """
    found = pure_of(event, neighbors)
    return None if found is None else float_above(found)


def pure_of(event: Event, neighbors: Neighbors) -> Fraction | None:
    """The same as an exact number, or one rounded up.

    Bound       upper.
    Source      as pure_epsilon.
    """
    match event:
        case Repeated(event=one, count=count):
            alone = pure_of(one, neighbors)
            return None if alone is None else alone * count
        case Composed(parts=parts):
            known = []
            for part in parts:
                if (epsilon := pure_of(part, neighbors)) is None:
                    return None
                known.append(epsilon)
            # the common denominator of many may have thousands of digits
            return sum(known, start=Fraction(0)) if len(known) <= _SEVERAL else grid_sum_up(known)
        case Shuffled(event=one):
            return pure_of(one, neighbors)
        case PoissonSampled(event=one, rate=rate):
            alone = pure_of(one, AddRemove)
            if alone is None or neighbors is not ReplaceOne:
                return None if alone is None else _sampled(alone, exact("rate", rate))
            return Fraction(pure_of_replaced_sample(alone, rate=exact("rate", rate)))
        case RandomAllocation(event=one, uses=uses):
            alone = pure_of(one, AddRemove)
            times = 2 * uses if neighbors is ReplaceOne else uses
            return None if alone is None else alone * times
        case FixedSizeSampled(event=one, size=size, population=population):
            alone = _of_two(one)
            return None if alone is None else _sampled(alone, Fraction(size, population))
        case ReplacementSampled(event=one, size=size, population=population):
            # the draws are changed one after the other, each like a sample of one
            alone = _of_two(one)
            return None if alone is None else _sampled(alone, Fraction(1, population)) * size
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            alone = pure_of(one, neighbors)
            return None if alone is None else pure_of_tries(event, alone)
        case _:
            return pure_alone(event)


def _of_two(event: Event) -> Fraction | None:
    """Inside a sample of fixed size, under replacement: as one unit leaves and another comes."""
    try:
        return pure_of(under_replacement(event), ReplaceOne)
    except UnsupportedEvent:
        alone = pure_of(event, AddRemove)
        return None if alone is None else 2 * alone


def _sampled(epsilon: Fraction, rate: Fraction) -> Fraction:
    return Fraction(approx_dp_of_sample(epsilon, delta=0, rate=rate)[0])
