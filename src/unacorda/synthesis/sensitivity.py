"""Sensitivities of counts, scores and distances, where a unit has several rows.

Proofs: docs/proofs/synthesis.md, section 1; the tests enumerate small tables.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unacorda.mechanisms.parameters import whole
from unacorda.privacy.neighbors import Neighbors, ReplaceOne, check_neighbors

GRID_LOG2: Final = 16
"""Scores are whole multiples of 2^-16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorMove:
    """By how much a vector moves: in the l1 norm, and in the l2 norm, squared."""

    l1: int
    l2_squared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSensitivity:
    """By how much what is computed of counts moves between neighbors.

    Under AddRemove and ZeroOut a unit's rows appear or vanish, under ReplaceOne they become others.

    Parameters
    ----------
    rows
        How many rows a unit has at most; all of them may lie in one cell.
    neighbors
        The neighboring relation.

    Source: docs/proofs/synthesis.md, section 1.

    >>> from unacorda.privacy.neighbors import AddRemove
    >>> CountSensitivity(rows=3, neighbors=AddRemove).counts
    VectorMove(l1=3, l2_squared=9)
    >>> CountSensitivity(rows=3, neighbors=ReplaceOne).counts
    VectorMove(l1=6, l2_squared=18)
    """

    rows: int
    neighbors: Neighbors

    def __post_init__(self) -> None:
        whole("rows", self.rows, least=1, most=1 << 20)
        check_neighbors(self.neighbors)

    @property
    def _replaced(self) -> int:
        """2 where one unit's rows are taken out and others put in, else 1."""
        return 2 if self.neighbors is ReplaceOne else 1

    @property
    def counts(self) -> VectorMove:
        """Of a table of counts: the rows that change."""
        replaced = self._replaced
        return VectorMove(l1=replaced * self.rows, l2_squared=replaced * self.rows**2)

    def distances(self, tables: int) -> VectorMove:
        """Of the vector of the l1 distances of several tables from public ones."""
        each = self.counts.l1
        return VectorMove(l1=tables * each, l2_squared=tables * each**2)

    def score(self, weight: int) -> int:
        """Of weight * sum of max(|x - m| - h, 0) over the cells, in steps of the grid.

        weight: a whole number above 0, the largest of all candidates.
        """
        return weight * self.counts.l1 << GRID_LOG2
