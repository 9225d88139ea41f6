"""Local hashing: the category's value under a random hash function, told with k-ary response."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import arguments
from unacorda.mechanisms.local.draws import below, chunks
from unacorda.mechanisms.local.frequencies import Frequencies, PureOracle
from unacorda.mechanisms.local.thresholds import (
    WHOLE,
    Kary,
    Support,
    exp_down,
    kary,
    pair_event,
    weak,
)
from unacorda.privacy import events

__all__ = ["LocalHashing"]

_PRIME: Final = (1 << 31) - 1
_MOST_CELLS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHashing(PureOracle):
    r"""Draw a hash function into g cells and tell the cell of the true category, or another cell.

    The function is v -> floor(g ((a v + b) mod (2^31 - 1)) / 2^31), a and b uniform and a not 0;
    the cell is told by g-ary randomised response. A report is the three integers a, b and the
    cell, whatever k is. g is the better of the two whole numbers about e^epsilon + 1, up to 2^20.
    epsilon: above 0; categories: k, from 2 to 2^30. The variance is about that of `UnaryEncoding`;
    the server works once for every report and every category that is asked for, and need not ask
    for all. Two categories fall into one cell with exactly the probability `collision`, so
    estimates are exactly unbiased.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimal local hashing.

    >>> mechanism = LocalHashing(epsilon=1.0, categories=10**9)
    >>> mechanism.cells
    4
    >>> mechanism.encode([5, 123_456_789]).shape
    (2, 3)
    """

    @property
    def cells(self) -> int:
        """Into how many cells the categories are hashed, g."""
        return self._design.categories

    @property
    def collision(self) -> Fraction:
        """The probability that two given categories fall into one cell, exactly."""
        return _collision(self.cells)

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: nothing where two categories share a cell."""
        answer = self._design
        weight = (1 - self.collision) * Fraction(answer.truth + answer.lie, WHOLE)
        return pair_event(self.epsilon, weight=weight)

    @property
    def support(self) -> Support:
        """The probabilities that the told cell is that of the true category and of another."""
        return _support(self._design)

    def tally(self, reports: ArrayLike, *, among: ArrayLike | None = None) -> NDArray[np.int64]:
        """How many reports name the cell of each category; tallies of batches add up.

        among: the categories to ask for, by default all of them.
        """
        return self._count(self._read(reports), among=among)

    def estimate(
        self, tally: ArrayLike, *, count: int, among: ArrayLike | None = None
    ) -> Frequencies:
        """The shares of all categories, or of those asked for, from a tally of `count` reports."""
        return self._shares(tally, count=count, size=self._asked(among).size)

    def aggregate(self, reports: ArrayLike, *, among: ArrayLike | None = None) -> Frequencies:
        """The shares of all categories, or of those asked for, from rows of three integers."""
        rows = self._read(reports)
        return self.estimate(self._count(rows, among=among), count=len(rows), among=among)

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        reports, answer = np.empty((truths.size, 3), dtype=np.int64), self._design
        for part in chunks(truths.size):
            own, rows = truths[part], reports[part]
            rows[:, 0] = below(_PRIME - 1, size=own.size, bits=bits) + 1
            rows[:, 1] = below(_PRIME, size=own.size, bits=bits)
            cells = (rows[:, 0] * own + rows[:, 1]) % _PRIME * self.cells >> 31
            rows[:, 2] = answer.answers(cells, bits)
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.int64]:
        rows = arguments.answers(reports, limit=_PRIME, width=3)
        if rows[:, 0].min() < 1 or rows[:, 2].max() >= self.cells:
            expected = f"rows of a, b and a cell below {self.cells}, as `encode` returns"
            raise InvalidParameter("reports", None, expected=expected)
        return rows

    def _count(
        self, rows: NDArray[np.int64], *, among: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        asked = self._asked(among).tolist()
        sums = np.zeros(len(asked), dtype=np.int64)
        for part in chunks(len(rows)):
            factor, offset, cell = rows[part].T
            # The named cell is the interval of remainders from `least`, `width` of them.
            least = -(-(cell << 31) // self.cells)
            width = (-(-(cell + 1 << 31) // self.cells) - least).astype(np.uint32)
            step, before = factor.astype(np.uint32), None
            for index, value in enumerate(asked):
                if before is None or value != before + 1:
                    place = ((factor * value + offset) % _PRIME).astype(np.uint32)
                else:
                    place += step
                    np.minimum(place, place - np.uint32(_PRIME), out=place)
                before = value
                sums[index] += np.count_nonzero(place - least.astype(np.uint32) < width)
        return sums

    def _asked(self, among: ArrayLike | None) -> NDArray[np.int64]:
        if among is None:
            return np.arange(self.categories)
        asked = elements.numbers("among", among)
        fits = asked.ndim == 1 and asked.size > 0 and asked.dtype.kind in "iu"
        if not fits or asked.min() < 0 or asked.max() >= self.categories:
            raise InvalidParameter(
                "among", among, expected=f"integers from 0 to {self.categories - 1}, one or more"
            )
        return asked.astype(np.int64)

    @property
    def _design(self) -> Kary:
        return _design(self._exact_epsilon, self.categories)


def _collision(cells: int) -> Fraction:
    """Of all pairs of different remainders, the share whose two fall into one cell.

    The two images of two categories are uniform over all such pairs. Of 2^31 numbers each cell
    would have size or size + 1; one number, in the last cell, is no remainder.
    """
    size, larger = divmod(1 << 31, cells)
    pairs = larger * (size + 1) * size + (cells - larger - 1) * size * (size - 1)
    return Fraction(pairs + (size - 1) * (size - 2), _PRIME * (_PRIME - 1))


def _support(answer: Kary) -> Support:
    truth, lie = Fraction(answer.truth, WHOLE), Fraction(answer.lie, WHOLE)
    together = _collision(answer.categories)
    return Support(truth, truth * together + lie * (1 - together))


@functools.lru_cache(maxsize=1024)
def _design(epsilon: Fraction, categories: int) -> Kary:
    """Of the two numbers of cells about e^epsilon + 1 the one with the smaller total error."""
    ideal = min(math.floor(exp_down(epsilon)) + 1, _MOST_CELLS - 1)
    share = Fraction(1, categories)
    found = []
    for cells in (ideal, ideal + 1):
        try:
            found.append(kary(epsilon, cells))
        except InvalidParameter:
            continue
    if not found:
        raise weak(epsilon)
    return min(found, key=lambda answer: float(_support(answer).variance(share)))
