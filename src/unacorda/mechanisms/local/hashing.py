"""Frequency oracles of short reports: local hashing and Hadamard response."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.bits import RandomBits
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local.frequencies import Frequencies, FrequencyOracle, PureOracle
from unacorda.mechanisms.local.reports import (
    WHOLE,
    Kary,
    Support,
    below,
    checked_reports,
    checked_tally,
    chunks,
    exp_down,
    halves,
    kary,
    pair_event,
    weak,
)
from unacorda.privacy import events

_PRIME: Final = (1 << 31) - 1
_MOST_CELLS: Final = 1 << 20

_SPARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHashing(PureOracle):
    r"""Draw a hash function into g cells and report the cell of the true category, or another cell.

    The function is v -> floor(g ((a v + b) mod (2^31 - 1)) / 2^31), a and b uniform and a not 0;
    the cell is reported by g-ary randomized response. A report is the three integers a, b and the
    cell, whatever k is. g is the better of the two whole numbers about e^epsilon + 1, up to 2^20.
    The variance is about that of `UnaryEncoding`. The server's work is proportional to reports
    times requested categories, and it need not request all. Two categories fall into one cell with
    exactly the probability `collision`, so estimates are exactly unbiased.

    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), optimal local hashing.

    Parameters
    ----------
    epsilon
        Above 0.
    categories
        k, from 2 to 2^30.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
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
        """The probabilities that the reported cell is that of the true category and of another."""
        return _support(self._design)

    def tally(self, reports: ArrayLike, *, among: ArrayLike | None = None) -> NDArray[np.int64]:
        """Count how many reports name the cell of each category; tallies of batches add up.

        Parameters
        ----------
        reports
            Rows of three integers, as `encode` returns them.
        among
            The categories to ask for, by default all of them.
        """
        return self._count(self._read(reports), among=among)

    def estimate(
        self, tally: ArrayLike, *, count: int, among: ArrayLike | None = None
    ) -> Frequencies:
        """Estimate the shares of all categories, or of those asked for, from a tally of reports.

        Parameters
        ----------
        tally
            The sum of tallies.
        count
            The number of reports in them.
        among
            The categories that the tally is of, by default all of them.
        """
        return self._shares(tally, count=count, size=self._asked(among).size)

    def aggregate(self, reports: ArrayLike, *, among: ArrayLike | None = None) -> Frequencies:
        """Estimate the shares of all categories, or of those asked for, from reports.

        Parameters
        ----------
        reports
            As `encode` returns them.
        among
            The categories to ask for, by default all of them.
        """
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
        rows = checked_reports(reports, limit=_PRIME, width=3)
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
        return _cells_for(self._exact_epsilon, self.categories)


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
def _cells_for(epsilon: Fraction, categories: int) -> Kary:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardResponse(FrequencyOracle):
    r"""Send one of about k symbols, those of one half block e^epsilon times as often as others.

    The symbols form `blocks` blocks of `block` symbols each, `block` a power of two, and each block
    serves block - 1 categories: category j of a block prefers the symbols y for which the number of
    common ones of j + 1 and y is even. A report is one integer below `symbols`, at most 4 k, and
    the server needs about k log k steps. The number of blocks is the power of two with the least
    total error. In `variance` the other people hold the other categories equally often, and it is
    an average over categories, whose blocks differ in how many they serve.

    Source: Acharya, Sun, Zhang 2019, arXiv:1802.04705.

    Parameters
    ----------
    epsilon
        Above 0.
    categories
        k, from 2 to 2^30.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> mechanism = HadamardResponse(epsilon=2.0, categories=100)
    >>> mechanism.blocks, mechanism.block, mechanism.symbols
    (4, 32, 128)
    """

    @property
    def blocks(self) -> int:
        """How many blocks there are, a power of two."""
        return self._design.blocks

    @property
    def block(self) -> int:
        """How many symbols a block has, a power of two; it serves one category fewer."""
        return self._design.block

    @property
    def symbols(self) -> int:
        """How many different reports there are."""
        return self.blocks * self.block

    @property
    def half_blocks(self) -> Kary:
        """The law of which half block is reported, the true one being half of the own block."""
        return self._design.answer

    @property
    def event(self) -> events.RandomizedResponse | events.Pure:
        """What one report costs: two categories of one block share half of their symbols."""
        answer = self.half_blocks
        weight = Fraction(answer.truth + answer.lie, WHOLE)
        if self.categories <= self.block - 1:
            weight /= 2
        return pair_event(self.epsilon, weight=weight)

    def estimate(self, tally: ArrayLike, *, count: int) -> Frequencies:
        """The shares of all categories, from the tally of `count` reports.

        A report counts +1 for the categories of its block that prefer it and -1 for the others,
        which is exactly unbiased up to a factor. Four reports are added to those of each block
        before the errors are computed, so that these are never too small.
        """
        counts = checked_tally(tally, count=count, size=self.symbols)
        demand(counts.sum() == count, "count", count, expected="the sum of the tally")
        sums = _walsh_hadamard(counts.reshape(self.blocks, self.block))
        gap = (self.half_blocks.truth - self.half_blocks.lie) / WHOLE
        scores = sums[:, 1:].reshape(-1)[: self.categories]
        inside = np.repeat(sums[:, 0], self.block - 1)[: self.categories]
        return Frequencies(
            values=scores / count / gap,
            count=count,
            constant=(inside + _SPARE) / count / gap**2,
            slope=-1.0,
        )

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        reports = np.empty_like(truths)
        for part in chunks(truths.size):
            reports[part] = self._symbols(truths[part], bits)
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.int64]:
        return checked_reports(reports, limit=self.symbols)

    def _count(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(rows, minlength=self.symbols).astype(np.int64)

    def _report_variance(self, share: Fraction) -> Fraction:
        return _variance(self._design, categories=self.categories, frequency=share)

    def _symbols(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        reported = self.half_blocks.steps(truths.size, bits)
        symbol = (halves(truths.size, bits) & np.uint32(self.block - 1)).astype(np.int64)
        block, row = np.divmod(truths, self.block - 1)
        row += 1
        # The own block's other half is reported as 0, the true half as the last answer; the rest
        # are the halves of the blocks after it, in a circle.
        block += (reported + 1) >> 1
        block &= self.blocks - 1
        odd = np.bitwise_count(row & symbol) & 1
        true = reported == self.half_blocks.categories - 1
        wrong = (true & (odd == 1)) | ((reported == 0) & (odd == 0))
        # Flipping the row's lowest bit pairs each symbol of a half with one of the other half.
        symbol ^= (row & -row) * wrong
        symbol += block * self.block
        return symbol

    @property
    def _design(self) -> _BlockDesign:
        return _blocks_for(self._exact_epsilon, self.categories)


class _BlockDesign(NamedTuple):
    """The symbols and the law of the half blocks."""

    blocks: int
    block: int
    answer: Kary


@functools.lru_cache(maxsize=1024)
def _blocks_for(epsilon: Fraction, categories: int) -> _BlockDesign:
    """Of all powers of two for the number of blocks, the one with the least total error."""
    found = []
    blocks = 1
    while True:
        served = -(-categories // blocks)
        block = 1 << served.bit_length()  # the least power of two above it
        try:
            found.append(_BlockDesign(blocks, block, kary(epsilon, 2 * blocks)))
        except InvalidParameter:
            break  # more blocks would need finer steps than 2^-64
        if served == 1:
            break
        blocks *= 2
    if not found:
        raise weak(epsilon)
    share = Fraction(1, categories)
    return min(
        found,
        key=lambda one: (_variance(one, categories=categories, frequency=share), one.blocks),
    )


def _variance(design: _BlockDesign, *, categories: int, frequency: Fraction) -> Fraction:
    """Variance of one report's score about the share, over the square of its gap."""
    _, block, answer = design
    full, left = divmod(categories, block - 1)
    # Of a random category's people, how many others live in its block, on average.
    beside = Fraction(full * (block - 1) * (block - 2) + left * (left - 1), categories)
    inside = frequency + (1 - frequency) * beside / (categories - 1)
    truth, lie = Fraction(answer.truth, WHOLE), Fraction(answer.lie, WHOLE)
    square = (truth + lie) * inside + 2 * lie * (1 - inside)
    return square / (truth - lie) ** 2 - frequency


def _walsh_hadamard(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each row, the sum over y of (-1)^(common ones of j and y) times its entry y, for all j."""
    sums = rows.copy()
    step = 1
    while step < rows.shape[1]:
        pairs = sums.reshape(rows.shape[0], -1, 2, step)
        first, second = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0], pairs[:, :, 1] = first, second
        step *= 2
    return sums
