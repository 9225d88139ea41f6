"""The owners of rows: their contribution bound, and the noise that hides one of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter
from unacorda.inference.sums import additive_noise
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne, check_neighbors
from unacorda.privacy.rounding import root_up

__all__ = ["RowNorms", "RowOwners"]

_MOST_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNorms:
    """The largest norms of the vector of a row, and of the difference of two such vectors.

    A missing row is the vector 0, so that `apart` is at least as large as the norm of one.
    """

    l1: Fraction
    l2_squared: Fraction
    apart_l1: Fraction
    apart_l2_squared: Fraction

    @classmethod
    def of_counts(cls, histograms: int = 1) -> RowNorms:
        """Of a row that is counted in one bin of each of several histograms.

        >>> RowNorms.of_counts(3).apart_l2_squared
        Fraction(6, 1)
        """
        one = Fraction(histograms)
        return cls(l1=one, l2_squared=one, apart_l1=2 * one, apart_l2_squared=2 * one)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOwners:
    """The most rows of a person, and the relation between neighbors.

    A person's vector is the sum over their rows, so its sensitivity is `rows` times that of one row
    (the triangle inequality). This is attained if all rows of a person are equal.

    >>> from unacorda.privacy.guarantees import GDP
    >>> owners = RowOwners(rows=3)
    >>> float(owners.noise(GDP(1), RowNorms.of_counts()).l2_sensitivity)
    4.242640687119286
    """

    rows: int = 1
    neighbors: Neighbors = ReplaceOne

    def __post_init__(self) -> None:
        whole("rows_per_person", self.rows, least=1, most=_MOST_ROWS)
        check_neighbors(self.neighbors)

    @property
    def replaced(self) -> bool:
        """True if one person's rows become others; else they come or go."""
        return self.neighbors is ReplaceOne

    @property
    def protects(self) -> str:
        """The privacy unit, in words."""
        change = "replaced" if self.replaced else "added or removed"
        return f"one row {change}" if self.rows == 1 else f"{self.rows} rows of a person {change}"

    def noise(self, budget: Guarantee, norms: RowNorms) -> Gaussian | Laplace:
        """The least noise, normal or Laplace, for the sum of vectors of these norms."""
        l1 = norms.apart_l1 if self.replaced else norms.l1
        square = norms.apart_l2_squared if self.replaced else norms.l2_squared
        return additive_noise(
            budget, l1=self.rows * l1, l2=self.rows * Fraction(root_up(Fraction(square)))
        )

    def kept(self, person: ArrayLike | None, *, number: int) -> NDArray[np.bool_]:
        """Which of `number` rows count: of each person the first ones, `rows` at the most.

        person: the owner of each row, or None if the caller promises that no owner has more. A row
        without an owner does not count.

        >>> RowOwners(rows=2).kept(["a", "b", "a", "a", None], number=5).tolist()
        [True, True, True, False, False]
        """
        if person is None:
            return np.ones(number, dtype=np.bool_)
        codes, labels = elements.codes("person", person)
        if codes.shape != (number,):
            raise InvalidParameter("person", codes.shape, expected=f"{number} owners, one per row")
        order = np.argsort(codes, kind="stable")
        first = np.searchsorted(codes[order], codes[order], side="left")
        kept = np.empty(number, dtype=np.bool_)
        kept[order] = np.arange(number) - first < self.rows
        known = np.array([label is not None for label in labels], dtype=np.bool_)
        return np.asarray(kept & known[codes]) if number else kept
