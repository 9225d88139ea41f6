"""The pure epsilon of any event, where it has one, and the delta beside it, where it is bounded."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from unacorda.accounting.amplification.relations import check_relation, under_replacement
from unacorda.accounting.amplification.sampling import (
    approx_dp_of_replaced_sample,
    approx_dp_of_sample,
    pure_of_replaced_sample,
)
from unacorda.accounting.arguments import Events, joined
from unacorda.accounting.prices import pure_alone
from unacorda.accounting.tries import pure_of_tries
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import (
    Approximate,
    Composed,
    Event,
    FixedSizeSampled,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    ReplacementSampled,
    Shuffled,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, grid_sum_up

__all__ = ["FiniteLoss", "checked_pure_epsilon", "finite_loss", "pure_epsilon", "pure_of"]

_SEVERAL = 64
_LONG = 1 << 13
"""Bits of a denominator up to which masses are exact."""
_NONE = Fraction(0)
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
    found = finite_loss(event, neighbors)
    return None if found is None or found.mass else found.epsilon


class FiniteLoss(NamedTuple):
    """(epsilon, mass)-DP: but for an infinite loss of this mass, no loss is above epsilon.

    attained: of one pair that the event allows the mass is exactly this, and epsilon its largest
    loss, but for rounding: no smaller epsilon is enough where delta is the mass.
    """

    epsilon: Fraction
    mass: Fraction
    attained: bool = False


def finite_loss(event: Event, neighbors: Neighbors) -> FiniteLoss | None:
    r"""The delta that no epsilon takes away, and the epsilon that is enough there; None if unknown.

    The event's numbers and relation have been checked. `mass` is an exact rational number wherever
    the theorem has one, so that a delta that equals it is told from one just below.

    Statement   (sum of epsilon, 1 - prod(1 - mass)) for compositions; for a sample of rate q
                (log(1 + q (e^epsilon - 1)), q mass), where one unit is replaced
                (log((1 - q + q e^epsilon)/(1 - q)), q mass) if the mass is not 0 and q < 1.
    Bound       upper, both rounded up; tight but for the last, where q mass is least.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3; approx_dp_of_sample; for replaced units
                docs/proofs/amplification.md, Section 6.

    >>> found = finite_loss(
    ...     Approximate(epsilon=1, delta=1e-6).poisson_sampled(rate=0.01), AddRemove
    ... )
    >>> found.mass, round(float(found.epsilon), 7)
    (Fraction(1, 100000000), 0.0170369)
    """
    match event:
        case Repeated(event=one, count=count):
            alone = finite_loss(one, neighbors)
            return None if alone is None else _composed([(alone, count)])
        case Composed(parts=parts):
            known = []
            for part in parts:
                if (found := finite_loss(part, neighbors)) is None:
                    return None
                known.append((found, 1))
            return _composed(known)
        case Shuffled(event=one):
            alone = finite_loss(one, neighbors)
            return None if alone is None else alone._replace(attained=False)
        case PoissonSampled(event=one, rate=rate):
            alone = finite_loss(one, AddRemove)
            share = exact("rate", rate)
            if alone is None or neighbors is not ReplaceOne:
                return None if alone is None else _sampled(alone, share)
            return _sampled_replaced(alone, share)
        case RandomAllocation(event=one, uses=uses):
            alone = finite_loss(one, AddRemove)
            if alone is None or (alone.mass and neighbors is ReplaceOne):
                return None
            times = 2 * uses if neighbors is ReplaceOne else uses
            return _composed([(alone, times)])._replace(attained=False)
        case FixedSizeSampled(event=one, size=size, population=population):
            alone = _of_two(one)
            if alone is None:
                return None
            return _sampled(alone, Fraction(size, population))._replace(attained=False)
        case ReplacementSampled(event=one, size=size, population=population):
            # the draws are changed one after the other, each like a sample of one
            alone = _of_two(one)
            if alone is None or alone.mass:
                return None
            return _composed([(_sampled(alone, Fraction(1, population)), size)])._replace(
                attained=False
            )
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            pure = pure_of(one, neighbors)
            return None if pure is None else FiniteLoss(pure_of_tries(event, pure), _NONE)
        case Approximate(epsilon=epsilon, delta=delta):
            return FiniteLoss(exact("epsilon", epsilon), exact("delta", delta), attained=True)
        case _:
            pure = pure_alone(event)
            worst = isinstance(event, Pure | RandomizedResponse)
            return None if pure is None else FiniteLoss(pure, _NONE, attained=worst)


def _composed(parts: list[tuple[FiniteLoss, int]]) -> FiniteLoss:
    """All of them, each so many times."""
    losses = [part.epsilon * count for part, count in parts]
    # the common denominator of many may have thousands of digits
    total = sum(losses, start=_NONE) if len(losses) <= _SEVERAL else grid_sum_up(losses)
    left = Fraction(1)
    for part, count in parts:
        left = _shortened(left * _power_below(1 - part.mass, count)) if part.mass else left
    bits = sum(part.mass.denominator.bit_length() * count for part, count in parts if part.mass)
    short = bits <= _LONG and len(losses) <= _SEVERAL
    return FiniteLoss(total, 1 - left, short and all(part.attained for part, _ in parts))


def _power_below(base: Fraction, exponent: int) -> Fraction:
    """A power of a number within [0, 1], exact as long as it is short; else rounded down."""
    found = Fraction(1)
    while exponent:
        if exponent & 1:
            found = _shortened(found * base)
        base, exponent = _shortened(base * base), exponent >> 1
    return found


def _shortened(value: Fraction) -> Fraction:
    """The same, rounded down where it has too many digits to be anybody's delta."""
    if value.denominator.bit_length() <= _LONG:
        return value
    return Fraction((value.numerator << _LONG) // value.denominator, 1 << _LONG)


def _of_two(event: Event) -> FiniteLoss | None:
    """Inside a sample of fixed size, under replacement: as one unit leaves and another comes."""
    try:
        return finite_loss(under_replacement(event), ReplaceOne)
    except UnsupportedEvent:
        alone = pure_of(event, AddRemove)
        return None if alone is None else FiniteLoss(2 * alone, _NONE)


def _sampled(loss: FiniteLoss, rate: Fraction) -> FiniteLoss:
    if rate == 1:
        return loss
    amplified, _ = approx_dp_of_sample(loss.epsilon, delta=0, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass, loss.attained and rate > 0)


def _sampled_replaced(loss: FiniteLoss, rate: Fraction) -> FiniteLoss | None:
    if not loss.mass:
        return FiniteLoss(Fraction(pure_of_replaced_sample(loss.epsilon, rate=rate)), _NONE)
    if rate == 1:  # the mass of two steps has e^epsilon in it, which is no rational number
        return None
    amplified = approx_dp_of_replaced_sample(loss.epsilon, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass)
