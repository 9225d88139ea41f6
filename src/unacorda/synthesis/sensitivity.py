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
    >>> CountSensitivity(rows=3, neighbors=AddRemove).l1
    3
    >>> CountSensitivity(rows=3, neighbors=ReplaceOne).l2_squared
    18
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
    def l1(self) -> int:
        """Of a table of counts, in the l1 norm: the rows that change."""
        return self._replaced * self.rows

    @property
    def l2_squared(self) -> int:
        """Of a table of counts, in the l2 norm, squared."""
        return self._replaced * self.rows**2

    def score(self, weight: int) -> int:
        """Of weight * sum of max(|x - m| - h, 0) over the cells, in steps of the grid.

        weight: a whole number above 0, the largest of all candidates.
        """
        return weight * self.l1 << GRID_LOG2

    def distances_l1(self, tables: int) -> int:
        """Of the vector of the l1 distances of several tables from public ones, in the l1 norm."""
        return tables * self.l1

    def distances_l2_squared(self, tables: int) -> int:
        """Of the same vector in the l2 norm, squared."""
        return tables * self.l1**2
