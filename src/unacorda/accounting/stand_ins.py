"""Events that engines know in place of others: one that costs no less, one that costs no more."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.accounting import matrices
from unacorda.accounting.amplification import events as rewritten
from unacorda.accounting.amplification.relations import under_replacement, units_replaced
from unacorda.checks import exact
from unacorda.privacy.events import (
    Approximate,
    Composed,
    CyclicPoissonSampled,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    MatrixMechanism,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Repeated,
    Shuffled,
    Staircase,
    TreeAggregation,
    compose,
)
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["lower_stand_in", "upper_stand_in", "whole_stand_in"]


def upper_stand_in(event: Event, neighbors: Neighbors) -> Event:
    """An event that costs no less and that the engines know, shuffled parts left as they are.

    The event itself where nothing is to do.

    Bound       upper.
    Source      units_replaced, matrices.plain, pure_selections.
    """
    return rewritten.pure_selections(whole_stand_in(event, neighbors), neighbors)


def whole_stand_in(event: Event, neighbors: Neighbors) -> Event:
    """As `upper_stand_in`, for engines that know private selection as well.

    Bound       upper.
    Source      units_replaced, matrices.plain.
    """
    return matrices.plain(units_replaced(event, neighbors))


def lower_stand_in(event: Event, neighbors: Neighbors) -> Event | None:
    """An event that costs no more: a pair that the event allows, or None where none is known.

    The event itself where the engines read it without loss. A matrix mechanism or a tree is the
    Gaussian of one pattern of participation, on cyclic samples one for each turn of a group.

    Bound       lower.
    Source      matrices.plain_below; the event.

    >>> mixture = GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.5, 0.5))
    >>> lower_stand_in(mixture, ReplaceOne) is None
    True
    """
    match event:
        case Repeated(event=one, count=count):
            other = lower_stand_in(one, neighbors)
            if other is one:
                return event
            return None if other is None else compose([other], count=count)
        case Composed(parts=parts):
            others = [lower_stand_in(part, neighbors) for part in parts]
            if all(other is part for other, part in zip(others, parts, strict=True)):
                return event
            known = [other for other in others if other is not None]
            return compose(known) if known else None  # what is left out costs 0 or more
        case MatrixMechanism() | TreeAggregation():
            below = matrices.plain_below(event)
            return under_replacement(below) if neighbors is ReplaceOne else below
        case CyclicPoissonSampled():
            return lower_stand_in(matrices.plain_below(event), neighbors)
        case GaussianMixture() if neighbors is ReplaceOne:
            return under_replacement(event) if _doubles(event) else None
        case PoissonSampled(event=one, rate=rate) if (
            neighbors is ReplaceOne and exact("rate", rate) == 1
        ):
            # a staircase is read as the pure guarantee of two units there
            read = _doubles(one) and not isinstance(one, Staircase)
            return units_replaced(event, neighbors) if read else None
        case FixedSizeSampled(event=one) if not _doubles(one):
            return None
        case Shuffled():
            return None
        case _:
            return event if whole_stand_in(event, neighbors) == event else None


def _doubles(event: Event) -> bool:
    """Whether some pair of replaced units is as far apart as `under_replacement` reads it."""
    match event:
        case Repeated(event=one) | PoissonSampled(event=one):
            return _doubles(one)
        case Composed(parts=parts):
            return all(map(_doubles, parts))
        case GaussianMixture(shifts=shifts, weights=weights):
            drawn = [
                exact("shifts", shift)
                for shift, weight in zip(shifts, weights, strict=True)
                if weight
            ]
            return len(set(drawn)) == 1
        case Approximate(delta=delta):
            return delta == 0
        case Staircase():
            return True  # its laws inside samples are of the replaced unit itself
        case MatrixMechanism() | TreeAggregation():
            return _noise_of(event) == _noise_of(matrices.plain_below(event))
        case NegativeBinomialTries() | PoissonTries():
            return False
        case _:
            return True


def _noise_of(event: Event) -> Fraction | None:
    known = matrices.plain(event)
    return (
        exact("noise_multiplier", known.noise_multiplier) if isinstance(known, Gaussian) else None
    )
