"""A private search for the rung of a ladder that only few people pass.

Rungs are asked about from below: do at most `allowed` people pass this one? One person changes each
of these counts by at most 1, and all of them in one direction, also where their number is replaced
by another: who has more passes every rung that the other passes. So it is the search of the
shifted inverse, `mechanisms.adaptive.solvers.Ascending`, whose losses these counts are: it finds
the first rung without paying for those before it. Cells are parts of the people's rows: a person is
in at most `hits` of them, and only their searches can tell anything of them; the price is that of
`hits` searches.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.adaptive.solvers import Ascending, least_whole
from unacorda.privacy import events
from unacorda.privacy.guarantees import PureDP
from unacorda.query.noise.additive import CONFIDENCE, Share, selection_epsilon

__all__ = [
    "ThresholdSearch",
    "search_for",
]

_MISS = (1 - CONFIDENCE) / 2  # of climbing on where no one is left, and of stopping too soon


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSearch:
    """The searches in every cell.

    allowed: how many people the rung aimed at is passed by; hits: in how many cells one unit's
    change can be felt; runs: how many ladders are searched in each.
    """

    solver: Ascending
    allowed: int
    hits: int
    runs: int = 1

    @property
    def event(self) -> events.Event:
        """What the searches of all cells cost together."""
        return self.solver.event * (self.hits * self.runs)

    @property
    def passing(self) -> int:
        """So many people at most pass a found rung, in one cell with 95% probability.

        Unless it is the last one, which is taken where no other is.
        """
        return self.solver.people(self.allowed, miss=1 - float(CONFIDENCE))

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
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
    solver = Ascending(
        epsilon=selection_epsilon(part),
        points=rungs,
        monotone=True,
        bounded_range=not isinstance(part, PureDP),
    )
    allowed = least_whole(lambda aim: solver.overshoot(aim) <= _MISS)
    return ThresholdSearch(solver=solver, allowed=allowed, hits=hits, runs=runs)
