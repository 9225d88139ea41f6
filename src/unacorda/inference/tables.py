"""What fits ask of a table that an engine reads: sums of expressions with noise, and no row.

The table is a session's, handed in; it cuts what it sums to stated lengths, adds the noise of a
stated part of its budget, and is all that privacy rests on. Whoever asks chooses which numbers are
summed, and what is made of the noisy sums.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.sums import SumRequest
from unacorda.privacy.guarantees import GDP

__all__ = ["Table", "note_table", "table_range"]


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
    def replaced(self) -> bool:
        """Whether neighbors differ by a unit that is replaced; else it is added or removed."""
        ...

    @property
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        ...

    def count(self, budget: GDP) -> tuple[float, float]:
        """How many rows have all numbers, features and target; others count nowhere."""
        ...

    def sums(
        self, columns: Sequence[Mapping[str, str]], wishes: Sequence[SumRequest]
    ) -> Sequence[tuple[Sequence[float], float]]:
        """Answer wishes in one scan.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight where
        there is one, and the names of the mappings before.
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


def table_range(given: tuple[float, float] | None, table: Table) -> tuple[float, float] | None:
    """Public bounds of the target, or else those that its column was declared with."""
    if given is None and all(map(math.isfinite, table.target_bounds)):
        return table.target_bounds
    return given
