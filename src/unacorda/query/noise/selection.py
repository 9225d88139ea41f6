"""One exponential mechanism in every cell, at one rate f, and what all cells together cost.

Candidate e of a cell is drawn with probability proportional to exp(-f loss(e)). Let a unit move the
losses of cell j by at most g_j. Then their log-probabilities move within a range of 2 f g_j, so
that the draw of cell j has bounded range e_j = 2 f g_j. Cells draw apart. What is known of all g_j
together is the sensitivity of the losses: the sum of g_j is at most l1, that of their squares at
most l2^2, none is above g, and at most n are not 0. From this, for a share of the budget:

- **together**: bounded ranges of parts add up, so that all draws have bounded range 2 f l1, and
  cost what a single one does. Under PureDP nothing is better.
- **apart**: n draws of bounded range 2 f g. It serves where a unit's rows spread evenly.
- **by squares**: bounded range e is (e^2 / 8)-zCDP, and (e sqrt(pi / 8))-GDP (the curve of the best
  mu over e is concave and begins with that slope: docs/proofs/bounded_range.md, step 4). Both add
  up by squares: all draws are (f^2 l2^2 / 2)-zCDP and f l2 sqrt(pi / 2)-GDP.

The one with the largest rate is taken; where two are level, the first, as more is known of it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.privacy.rounding import root_down, root_up
from unacorda.query.noise.additive import Share, selection_epsilon
from unacorda.query.noise.sensitivity import Sensitivity
from unacorda.query.schema.units import Reach

__all__ = [
    "Draws",
    "draws_for",
]

_PI = Fraction(3_141_592_653_589_794, 10**15)  # rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The draw of one cell, and the event of those of all cells together."""

    mechanism: Exponential
    event: events.Event


def draws_for(
    share: Share, reach: Reach, moves: Callable[[Reach], Sensitivity], *, unit: int = 1
) -> Draws:
    """The draws of the largest rate within a share.

    moves: how far a unit within a reach moves the largest change of a loss, cell by cell; unit:
    losses are kept times this.

    >>> from unacorda.query.noise.sensitivity import of_counts
    >>> reach = Reach.within(max_groups=4, max_rows_per_group=3, cells=9, replaced=False)
    >>> [draws_for(share, reach, of_counts).mechanism for share in (PureDP(1), ZCDP(2))]
    [Exponential(epsilon=Fraction(1, 1), sensitivity=Fraction(12, 1), monotone=False), \
Exponential(epsilon=Fraction(2, 1), sensitivity=Fraction(3, 1), monotone=False)]
    """
    # Of level ones `max` takes the first.
    return max(_ways(share, reach, moves, unit=unit), key=lambda draws: draws.mechanism.factor)


def _ways(
    share: Share, reach: Reach, moves: Callable[[Reach], Sensitivity], *, unit: int
) -> Iterator[Draws]:
    whole, each = moves(reach), moves(reach.one_cell).l1
    together = Exponential(epsilon=selection_epsilon(share), sensitivity=whole.l1 * unit)
    yield Draws(mechanism=together, event=together.event)
    if isinstance(share, PureDP):
        return
    apart = selection_epsilon(share * Fraction(1, reach.felt))
    single = Exponential(epsilon=apart, sensitivity=each * unit)
    yield Draws(mechanism=single, event=single.event * reach.felt)
    event: events.Event
    match share:
        case ZCDP(rho=rho):
            squared, event = 8 * rho, events.ZeroConcentrated(rho=rho)
        case GDP():
            multiplier = Fraction(root_up(1 / share.mu_squared))
            squared, event = 8 / (_PI * multiplier**2), events.Gaussian(noise_multiplier=multiplier)
    epsilon = Fraction(root_down(squared * each**2 / whole.l2_squared))
    yield Draws(
        mechanism=Exponential(epsilon=epsilon, sensitivity=each * unit),
        event=event,
    )
