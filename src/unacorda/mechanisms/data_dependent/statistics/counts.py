"""Statistics of categories and items: the mode, and the number of distinct values.

**Sensitivities.** The mode is 0/1: its distance from another category is 1. A value that no record
has can always be thought of, so a distinct count can always rise.

**Losses of the mode**: by how many the most frequent category is ahead of another one.

Under addition and removal that is the least number of changes that make the other one a mode. A
record moves one count, so that all counts move the same way, and the loss differs from minus the
count by the same number for all categories: half the usual factor is enough.

Under replacement one change lowers one count and raises another, so that the loss moves by up to 2.
It still differs from minus the count by a number that all categories share, and a count moves by at
most 1: selection, which that number does not touch, pays for 1 and not for 2. The least number of
changes is smaller (the least t with the sum over others of (c_z - c_y - t)+ at most t) and moves by
1, but is no better: the counts lie farther apart. So counts serve both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.statistics.base import (
    AnswerGrid,
    Invertible,
    Runs,
    Statistic,
    multiplicities,
)
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Category: TypeAlias = str | int
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode(Statistic, Invertible):
    """The most frequent of public categories; of several, the one that stands first.

    A record that is none of them counts for none; for empty data it is the first category.

    Parameters
    ----------
    categories
        Text or whole numbers, each once, at least one.

    Raises
    ------
    InvalidParameter
        For other categories.

    Examples
    --------
    >>> Mode(categories=("red", "green")).value(["green", "red", "blue"])
    'red'
    """

    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        given = tuple(self.categories)
        kinds = {_kind(category) for category in given}
        if kinds not in ({"text"}, {"whole number"}) or len(set(given)) < len(given):
            raise InvalidParameter(
                "categories",
                self.categories,
                expected="text, or whole numbers within int64, each once and at least one",
            )
        object.__setattr__(self, "categories", given)

    def counts(self, values: ArrayLike) -> NDArray[np.int64]:
        """Count the records of each category, in the order of the categories. NOT private.

        Parameters
        ----------
        values
            The data.

        Returns
        -------
        ndarray
            One number per category.
        """
        found, repeats = multiplicities(values)
        of = dict(zip(found, repeats.tolist(), strict=True))
        return np.array([of.get(category, 0) for category in self.categories], dtype=np.int64)

    def value(self, values: ArrayLike) -> Category:
        """The answer itself. NOT private: never release it."""
        return self.categories[int(self.counts(values).argmax())]

    @property
    def answers(self) -> tuple[Fraction, Fraction]:
        """Of no meaning: its answers are categories."""
        return Fraction(0), Fraction(1)

    def answer_grid(self, log2: int | None, *, answers: tuple[Fraction, Fraction]) -> AnswerGrid:  # noqa: ARG002
        """The places of the categories."""
        return AnswerGrid(0, len(self.categories) - 1, 0)

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> int:
        """1 where `distance` records can change the mode, else 0."""
        return int(self._to_another(values, neighbors) <= distance)

    def down(self, values: ArrayLike, *, distance: int) -> int:
        """1 where removing `distance` records can change the mode, else 0."""
        gaps, highest = self._gaps(values)
        return int(bool((gaps <= min(distance, highest)).any()))

    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """The discount of the distance to data whose mode one more record can change."""
        steps = self._to_another(values, neighbors) - 1
        return 0.0 if steps == math.inf else max(math.exp(-smoothness * steps), 2.0**-900)

    def losses(  # they have no end, and are those of both relations
        self,
        values: ArrayLike,
        *,
        neighbors: Neighbors,  # noqa: ARG002
        grid: AnswerGrid,  # noqa: ARG002
        most: int,  # noqa: ARG002
    ) -> Runs:
        """By how many records each category is behind, a run each."""
        counts = self.counts(values)
        places = np.arange(counts.size, dtype=np.int64)
        return Runs(places, np.ones_like(counts), counts.max() - counts)

    def _gaps(self, values: ArrayLike) -> tuple[Integers, int]:
        """How far each other category is behind, in records that come or go; the mode's count."""
        counts = self.counts(values)
        first = int(counts.argmax())
        gaps = counts[first] - counts + (np.arange(counts.size) > first)
        return np.delete(gaps, first), int(counts[first])

    def _to_another(self, values: ArrayLike, neighbors: Neighbors) -> float:
        """How many records have to change before the mode does; infinite where it cannot."""
        gaps, _ = self._gaps(values)
        nothing = neighbors is ReplaceOne and not multiplicities(values)[0]
        if not gaps.size or nothing:
            return math.inf
        nearest = int(gaps.min())
        # Replacing a record of the mode by one of the other closes the gap by two.
        return -(-nearest // 2) if neighbors is ReplaceOne else nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctCount(Statistic):
    """How many different values there are, integers or text, one a record; 0 for empty data.

    >>> DistinctCount().value(["a", "b", "a"])
    2
    """

    def value(self, values: ArrayLike) -> int:
        """The answer itself. NOT private: never release it."""
        return len(multiplicities(values)[0])

    def local(self, values: ArrayLike, *, distance: int, neighbors: Neighbors) -> int:
        """The local sensitivity at this distance."""
        if neighbors is not ReplaceOne:
            return distance
        _, repeats = multiplicities(values)
        count, different = int(repeats.sum()), repeats.size
        # New values take the places of repeated ones; or the rarest fall to the most frequent.
        return max(min(distance, count - different), _vanished(np.sort(repeats)[:-1], distance))

    def down(self, values: ArrayLike, *, distance: int) -> int:
        """How many distinct values can vanish where so many records are removed."""
        _, repeats = multiplicities(values)
        return _vanished(np.sort(repeats), distance)

    def smooth(
        self,
        values: ArrayLike,
        *,
        smoothness: float,  # noqa: ARG002 - the same at every one
        neighbors: Neighbors,
    ) -> float:
        """1, as a single record can always matter, but where a single one is replaced."""
        _, repeats = multiplicities(values)
        return 0.0 if neighbors is ReplaceOne and repeats.sum() < 2 else 1.0


def _vanished(repeats: Integers, distance: int) -> int:
    """How many of the rarest values have no more than so many records together."""
    return int(np.searchsorted(np.cumsum(repeats), distance, side="right"))


def _kind(category: object) -> str:
    if isinstance(category, str):
        return "text"
    whole = isinstance(category, int | np.integer) and not isinstance(category, bool)
    return "whole number" if whole and -(2**63) <= int(category) < 2**63 else "neither"  # type: ignore[call-overload]
