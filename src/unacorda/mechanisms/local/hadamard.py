"""Hadamard response: a report of few bits, decoded for all categories at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import arguments
from unacorda.mechanisms.local.draws import chunks, halves
from unacorda.mechanisms.local.frequencies import Frequencies, FrequencyOracle
from unacorda.mechanisms.local.thresholds import WHOLE, Kary, kary, pair_event, weak
from unacorda.privacy import events

__all__ = ["HadamardResponse"]

_SPARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardResponse(FrequencyOracle):
    r"""Send one of about k symbols, those of one half block e^epsilon times as often as others.

    The symbols form `blocks` blocks of `block` symbols each, `block` a power of two, and each
    block serves block - 1 categories: category j of a block prefers the symbols y for which the
    number of common ones of j + 1 and y is even. epsilon: above 0; categories: k, from 2 to
    2^30. A report is one integer below `symbols`, at most 4 k, and the server needs
    about k log k steps. The number of blocks is the power of two with the least total error. In
    `variance` the other people hold the other categories equally often, and it is an average over
    categories, whose blocks differ in how many they serve.
    Source: Acharya, Sun, Zhang 2019, arXiv:1802.04705.

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
        """The law of which half block is told, the true one being half of the own block."""
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
        counts = arguments.tallied(tally, count=count, size=self.symbols)
        if counts.sum() != count:
            raise InvalidParameter("count", count, expected="the sum of the tally")
        sums = _walsh_hadamard(counts.reshape(self.blocks, self.block))
        gap = float(self._gap)
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
        return arguments.answers(reports, limit=self.symbols)

    def _count(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(rows, minlength=self.symbols).astype(np.int64)

    def _report_variance(self, share: Fraction) -> Fraction:
        return _variance(self._design, categories=self.categories, frequency=share)

    def _symbols(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        told = self.half_blocks.steps(truths.size, bits)
        symbol = (halves(truths.size, bits) & np.uint32(self.block - 1)).astype(np.int64)
        block, row = np.divmod(truths, self.block - 1)
        row += 1
        # The own block's other half is told as 0, the true half as the last answer; the rest
        # are the halves of the blocks after it, in a circle.
        block += (told + 1) >> 1
        block &= self.blocks - 1
        odd = np.bitwise_count(row & symbol) & 1
        true = told == self.half_blocks.categories - 1
        wrong = (true & (odd == 1)) | ((told == 0) & (odd == 0))
        # Flipping the row's lowest bit pairs each symbol of a half with one of the other half.
        symbol ^= (row & -row) * wrong
        symbol += block * self.block
        return symbol

    @property
    def _design(self) -> _Design:
        return _design(self._exact_epsilon, self.categories)

    @property
    def _gap(self) -> Fraction:
        return Fraction(self.half_blocks.truth - self.half_blocks.lie, WHOLE)


class _Design(NamedTuple):
    """The symbols and the law of the half blocks."""

    blocks: int
    block: int
    answer: Kary


@functools.lru_cache(maxsize=1024)
def _design(epsilon: Fraction, categories: int) -> _Design:
    """Of all powers of two for the number of blocks, the one with the least total error."""
    found = []
    blocks = 1
    while True:
        served = -(-categories // blocks)
        block = 1 << served.bit_length()  # the least power of two above it
        try:
            found.append(_Design(blocks, block, kary(epsilon, 2 * blocks)))
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


def _variance(design: _Design, *, categories: int, frequency: Fraction) -> Fraction:
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
