"""Private choices in cells: one candidate by exponential noise, or the first rung that few pass.

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

**The first rung of a ladder that only few people pass.** Rungs are asked about from below: do at
most `allowed` people pass this one? One person changes each of these counts by at most 1, and all
of them in one direction, also where their number is replaced by another: who has more passes every
rung that the other passes. So it is the search of the shifted inverse, `AboveThresholdSearch` of
`mechanisms.data_dependent.solvers`, whose losses these counts are: it finds the first rung without
paying for those before it. Cells are parts of the people's rows: a person is in at most `hits` of
them, and only their searches can tell anything of them; the price is that of `hits` searches.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.data_dependent.searches import AboveThresholdSearch, least_whole
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, bounded_range_within
from unacorda.privacy.rounding import root_down, root_up
from unacorda.query.noise.additive import CONFIDENCE, Share
from unacorda.query.noise.sensitivity import Sensitivity
from unacorda.query.schema.units import Reach

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
    in_one = Reach.within(max_rows=reach.per_cell, cells=1, replaced=reach.replaced)
    whole, each = moves(reach), moves(in_one).l1
    together = Exponential(epsilon=bounded_range_within(share), sensitivity=whole.l1 * unit)
    yield Draws(mechanism=together, event=together.event)
    if isinstance(share, PureDP):
        return
    apart = bounded_range_within(share * Fraction(1, reach.felt))
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


_MISS = (1 - CONFIDENCE) / 2  # of climbing on where no one is left, and of stopping too soon


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSearch:
    """The searches in every cell.

    allowed: how many people the rung aimed at is passed by; hits: in how many cells one unit's
    change can be felt; runs: how many ladders are searched in each.
    """

    solver: AboveThresholdSearch
    allowed: int
    hits: int
    runs: int = 1

    @property
    def event(self) -> events.Event:
        return self.solver.event * (self.hits * self.runs)

    @property
    def passing(self) -> int:
        """So many people at most pass a found rung, in one cell with 95% probability.

        Unless it is the last one, which is taken where no other is.
        """
        return self.solver.people(self.allowed, miss=1 - float(CONFIDENCE))

    @property
    def log_scale(self) -> float:
        return math.log(1 + self.passing)

    def find(self, above: NDArray[np.int64], bits: RandomBits) -> list[int]:
        """By cell the index of the first rung found; the last one where none is.

        above: by cell and rung, how many people pass it.
        """
        found: list[int] = self.solver.choose_rows(above, target=self.allowed, bits=bits).tolist()
        return found


def search_for(share: Share, *, rungs: int, hits: int, runs: int = 1) -> ThresholdSearch:
    """The searches within a share, on ladders of so many rungs.

    hits, runs: as `ThresholdSearch` has them.

    Pure privacy is spent by the search at its least noise; other shares by a search whose
    likelihoods have a bounded range, which costs a quarter of it and has half as much noise again.
    """
    part = share * Fraction(1, hits * runs)
    solver = AboveThresholdSearch(
        epsilon=bounded_range_within(part),
        points=rungs,
        monotone=True,
        bounded_range=not isinstance(part, PureDP),
    )
    allowed = least_whole(lambda aim: solver.overshoot(aim) <= _MISS)
    return ThresholdSearch(solver=solver, allowed=allowed, hits=hits, runs=runs)
