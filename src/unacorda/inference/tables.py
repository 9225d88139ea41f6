"""What fits ask of a table that an engine reads: sums of expressions with noise, and no row.

The table is a session's, handed in; it cuts what it sums to stated lengths, adds the noise of a
stated part of its budget, and is all that privacy rests on. Whoever asks chooses which numbers are
summed, and what is made of the noisy sums.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from unacorda.errors import InvalidParameter
from unacorda.inference.designs import Scaling, scaling
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP

__all__ = ["Table", "Wish", "note_table", "table_bounds", "table_range", "table_scaling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A noisy sum over all rows: of value * vector, or squared of value * vector vector^T, packed.

    vector, value: expressions; bound: the most that the l2 norm of a row's part may be, to which
    it is cut; budget: what may be spent on it. signed: of squared ones whether values may be
    negative; else negative ones count as 0.
    """

    vector: Sequence[str]
    value: str
    bound: Fraction
    budget: GDP
    squared: bool = False
    signed: bool = False


class Table(Protocol):
    """What a fit asks of a table: noisy sums, in their order, with the deviation of the noise."""

    @property
    def features(self) -> Sequence[str]:
        """How the caller named them."""
        ...

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """Public ranges of the features, infinite where nothing is known."""
        ...

    @property
    def target_bounds(self) -> tuple[float, float]:
        """That of the target."""
        ...

    @property
    def weighted(self) -> bool:
        """Whether rows have weights of their own, within [0, 1]: the column `weight`."""
        ...

    @property
    def repeated(self) -> int:
        """How many rows one unit has at most."""
        ...

    @property
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        ...

    def count(self, budget: GDP) -> tuple[float, float]:
        """How many rows have all numbers, features and target; others count nowhere."""
        ...

    def sums(
        self, columns: Sequence[Mapping[str, str]], wishes: Sequence[Wish]
    ) -> Sequence[tuple[Sequence[float], float]]:
        """Answer wishes in one scan.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight where
        there is one, and the names of the mappings before.
        """
        ...

    def parts(self, share: float) -> tuple[Table, Table]:
        """Two parts of the units, drawn blindly, the first about this share of them.

        Each may cost all that is left, since nobody is in both; this table is not asked again.
        """
        ...

    def chosen(self, places: Sequence[int]) -> Table:
        """The rows with the features at these places alone; others may be missing."""
        ...

    def rescaled(self, centre: Sequence[float], scale: Sequence[float]) -> Table:
        """The same rows, each feature less a centre, over a scale; its range counts as unknown."""
        ...

    def best(
        self,
        columns: Sequence[Mapping[str, str]],
        terms: Sequence[str],
        *,
        bound: int,
        count: int,
        budget: GDP,
    ) -> tuple[Sequence[int], events.Event]:
        """The places of the sums that are farthest from 0, but for noise, and what they cost.

        Of all rows that have a target; a feature may be missing. columns: as of `sums`; terms:
        expressions, cut to `bound` in size and rounded, and added up.
        """
        ...

    def keep(self, columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> Table:
        """The same rows with other columns, computed once where there is room for them.

        columns: as of `sums`; names: which of all of them are left. This table is not asked again.
        """
        ...


def note_table(estimator: Any, table: Table) -> None:
    """Note the names of the features on an estimator; InvalidParameter for bits of its own."""
    if estimator.bits is not None:
        expected = "it left out: noise for tables is drawn with the bits of their session"
        raise InvalidParameter("bits", estimator.bits, expected=expected)
    estimator.n_features_in_ = len(table.features)
    estimator.feature_names_in_ = np.array(list(table.features), dtype=object)


def table_scaling(given: tuple[ArrayLike, ArrayLike] | None, table: Table) -> Scaling:
    """The scaling of public bounds, or else of those that the table's columns were declared with.

    MissingBound where there are neither.
    """
    return scaling(table_bounds(given, table), features=len(table.features))


def table_bounds(
    given: tuple[ArrayLike, ArrayLike] | None, table: Table
) -> tuple[ArrayLike, ArrayLike] | None:
    """Public bounds, or else those that the table's columns were declared with, if all were."""
    lower, upper = zip(*table.bounds, strict=True)
    if given is None and all(map(math.isfinite, (*lower, *upper))):
        return lower, upper
    return given


def table_range(given: tuple[float, float] | None, table: Table) -> tuple[float, float] | None:
    """Public bounds of the target, or else those that its column was declared with."""
    if given is None and all(map(math.isfinite, table.target_bounds)):
        return table.target_bounds
    return given
