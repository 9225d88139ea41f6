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

from unacorda import checks, elements
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.response import arguments, frequencies
from unacorda.mechanisms.response.draws import CHUNK, below
from unacorda.mechanisms.response.thresholds import (
    WHOLE,
    Kary,
    Support,
    exp_down,
    kary,
    pair_event,
    weak,
)
from unacorda.privacy import events
from unacorda.privacy.events.fields import Real

__all__ = ["LocalHashing"]

_SECURE = SecureBits()
_PRIME: Final = (1 << 31) - 1
_MOST_CELLS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHashing:
    r"""Draw a hash function into g cells and tell the cell of the true category, or another cell.

    The function is v -> floor(g ((a v + b) mod (2^31 - 1)) / 2^31), a and b uniform and a not 0;
    the cell is told by g-ary randomised response. A report is the three integers a, b and the
    cell, whatever k is. g is the better of the two whole numbers about e^epsilon + 1, up to 2^20.
    epsilon: above 0; categories: k, from 2 to 2^30. The variance is about that of `OUE`; the
    server works once for every report and every category that is asked for, and need not ask
    for all. Two categories fall into one cell with exactly the probability `collision`, so
    estimates are exactly unbiased.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimal local hashing.

    >>> mechanism = LocalHashing(epsilon=1.0, categories=10**9)
    >>> mechanism.cells
    4
    >>> mechanism.encode([5, 123_456_789]).shape
    (2, 3)
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        _design(arguments.set_up(self), self.categories)

    @property
    def cells(self) -> int:
        """Into how many cells the categories are hashed, g."""
        return self._answer.categories

    @property
    def collision(self) -> Fraction:
        """The probability that two given categories fall into one cell, exactly."""
        return _collision(self.cells)

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: nothing where two categories share a cell."""
        answer = self._answer
        weight = (1 - self.collision) * Fraction(answer.truth + answer.lie, WHOLE)
        least = exp_down(checks.exact("epsilon", self.epsilon))
        return pair_event(self.epsilon, least_exp=least, weight=weight)

    @property
    def support(self) -> Support:
        """The probabilities that the told cell is that of the true category and of another."""
        return _support(self._answer)

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.int64]:
        """The reports of devices that hold these categories: a, b and cell along the last axis.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        Raises InvalidParameter for a dtype that is not integer.
        """
        truths, shape = arguments.indices(values, categories=self.categories)
        answer, source = self._answer, bits or _SECURE
        reports = np.empty((truths.size, 3), dtype=np.int64)
        for start in range(0, truths.size, CHUNK):
            part = truths[start : start + CHUNK]
            rows = reports[start : start + CHUNK]
            rows[:, 0] = below(_PRIME - 1, size=part.size, bits=source) + 1
            rows[:, 1] = below(_PRIME, size=part.size, bits=source)
            told = answer.steps(part.size, source)
            told += (rows[:, 0] * part + rows[:, 1]) % _PRIME * self.cells >> 31
            told += 1
            told -= self.cells * (told >= self.cells)
            rows[:, 2] = told
        return reports.reshape(*(shape or ()), 3)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.int64]:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike, *, among: ArrayLike | None = None) -> NDArray[np.int64]:
        """How many reports tell the cell of each category; tallies of batches add up.

        among: the categories to ask for, by default all of them.
        """
        rows = _reports(reports, cells=self.cells)
        asked = self._asked(among).tolist()
        sums = np.zeros(len(asked), dtype=np.int64)
        for start in range(0, len(rows), CHUNK):
            factor, offset, cell = rows[start : start + CHUNK].T
            # The told cell is the interval of remainders from `least`, `width` of them.
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

    def estimate(
        self, tally: ArrayLike, *, count: int, among: ArrayLike | None = None
    ) -> frequencies.Frequencies:
        """The shares of all categories, or of those asked for, from a tally of `count` reports."""
        return frequencies.frequencies(
            tally, count=count, support=self.support, size=self._asked(among).size
        )

    def aggregate(
        self, reports: ArrayLike, *, among: ArrayLike | None = None
    ) -> frequencies.Frequencies:
        """The shares of all categories, or of those asked for, from rows of three integers."""
        rows = _reports(reports, cells=self.cells)
        return self.estimate(self.tally(rows, among=among), count=len(rows), among=among)

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, given its share among `count` people."""
        share = frequencies.frequency(frequency)
        return frequencies.variance(self.support, count=count, frequency=share)

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
    def _answer(self) -> Kary:
        return _design(checks.exact("epsilon", self.epsilon), self.categories)


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
    return min(
        found,
        key=lambda answer: frequencies.variance(_support(answer), count=1, frequency=share),
    )


def _reports(reports: ArrayLike, *, cells: int) -> NDArray[np.int64]:
    rows = arguments.answers(reports, limit=_PRIME, width=3)
    if rows[:, 0].min() < 1 or rows[:, 2].max() >= cells:
        raise InvalidParameter(
            "reports", None, expected=f"rows of a, b and a cell below {cells}, as `encode` returns"
        )
    return rows
