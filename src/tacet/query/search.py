r"""A private search for the rung of a ladder that only few people pass.

Rungs are asked about from below: do at most `allowed` people pass this one? One person changes
each of these counts by at most 1, and where she is added or removed all in the same direction, so
that AboveThreshold, monotone, finds the first rung without paying for those before it. Cells are
parts of the people's rows: a person is in at most `hits` of them, and only their runs can tell
anything of her; the price is that of `hits` runs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacet.bits import RandomBits
from tacet.mechanisms.sparse_vector.threshold import AboveThreshold, Sparse
from tacet.privacy import events
from tacet.privacy.guarantees import PureDP
from tacet.query.aggregates.arguments import CONFIDENCE
from tacet.query.noise import Share, selection_epsilon

__all__ = ["Search", "search_for"]

# How many people may pass, times epsilon: three times the scale of the threshold's noise. With
# fewer, one search in 2 e^3 climbs on where nobody is left.
_PATIENCE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The searches in every cell.

    allowed: how many people the rung aimed at is passed by; hits: in how many cells one unit's
    change can be felt; runs: how many ladders are searched in each.
    """

    mechanism: AboveThreshold | Sparse
    allowed: int
    hits: int
    runs: int = 1

    @property
    def event(self) -> events.Event:
        """What the runs of all cells cost together."""
        return self.mechanism.event * (self.hits * self.runs)

    @property
    def loudness(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        return math.log(self.mechanism.standard_deviation)

    def passing(self, rungs: int) -> int:
        """So many people at most pass a found rung, in one cell with 95% probability."""
        return self.allowed + math.floor(self.mechanism.interval(CONFIDENCE, queries=rungs))

    def find(self, above: NDArray[np.int64], bits: RandomBits) -> list[int]:
        """By cell the index of the first rung found; the last one where none is.

        above: by cell and rung, how many people pass it.
        """
        last = above.shape[1] - 1
        return [self._first(-row, last, bits) for row in above]

    def _first(self, questions: NDArray[np.int64], last: int, bits: RandomBits) -> int:
        found = self.mechanism.release(questions, bits=bits)
        if isinstance(found, np.ndarray):
            return int(found[0]) if found.size else last
        return last if found is None else found


def search_for(share: Share, *, hits: int, replaced: bool, runs: int = 1) -> Search:
    """The searches within a share.

    hits, runs: as `Search` has them; replaced: whether units are replaced, so that counts may move
    both ways.
    """
    part = share * Fraction(1, hits * runs)
    epsilon = selection_epsilon(part)
    if not isinstance(part, PureDP) and replaced:
        # Pure privacy with half the range: what the range costs, it costs at most.
        epsilon = epsilon / 2
    # Of bounded range epsilon are runs with the noise of the general case.
    ranged = not isinstance(part, PureDP) and not replaced
    loudness = Fraction(4, 3) if ranged or replaced else Fraction(1)
    allowed = math.ceil(_PATIENCE * loudness / epsilon)
    if ranged:
        sparse = Sparse(
            epsilon=epsilon, count=1, sensitivity=1, threshold=-allowed, monotone=True, refresh=True
        )
        return Search(mechanism=sparse, allowed=allowed, hits=hits, runs=runs)
    pure = AboveThreshold(epsilon=epsilon, sensitivity=1, threshold=-allowed, monotone=not replaced)
    return Search(mechanism=pure, allowed=allowed, hits=hits, runs=runs)
