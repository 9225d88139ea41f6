"""Hadamard response: a report of few bits, decoded for all categories at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.arrays import shaped
from unacorda.mechanisms.response import arguments, frequencies
from unacorda.mechanisms.response.draws import CHUNK, halves
from unacorda.mechanisms.response.thresholds import WHOLE, Kary, exp_down, kary, pair_event, weak
from unacorda.privacy import events
from unacorda.privacy.events.fields import Real

__all__ = ["HadamardResponse"]

_SECURE = SecureBits()
_SPARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardResponse:
    r"""Send one of about k symbols, those of one half block e^epsilon times as often as others.

    The symbols form `blocks` blocks of `block` symbols each, `block` a power of two, and each
    block serves block - 1 categories: category j of a block prefers the symbols y for which the
    number of common ones of j + 1 and y is even. epsilon: above 0; categories: k, from 2 to
    2^30. A report is one integer below `symbols`, at most 4 k, and the server needs
    about k log k steps. The number of blocks is the power of two with the least total error.
    Source: Acharya, Sun, Zhang 2019, arXiv:1802.04705.

    >>> mechanism = HadamardResponse(epsilon=2.0, categories=100)
    >>> mechanism.blocks, mechanism.block, mechanism.symbols
    (4, 32, 128)
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        _design(arguments.set_up(self), self.categories)

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
        least = exp_down(checks.exact("epsilon", self.epsilon))
        return pair_event(self.epsilon, least_exp=least, weight=weight)

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these categories, int64 of the same shape.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        Raises InvalidParameter for a dtype that is not integer.
        """
        truths, shape = arguments.indices(values, categories=self.categories)
        source = bits or _SECURE
        reports = np.empty_like(truths)
        for start in range(0, truths.size, CHUNK):
            part = truths[start : start + CHUNK]
            reports[start : start + CHUNK] = self._symbols(part, source)
        return shaped(reports, shape)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """How many reports are each of the symbols; tallies of batches add up."""
        told = arguments.answers(reports, limit=self.symbols)
        return np.bincount(told, minlength=self.symbols).astype(np.int64)

    def estimate(self, tally: ArrayLike, *, count: int) -> frequencies.Frequencies:
        """The shares of all categories, from the tally of `count` reports.

        A report counts +1 for the categories of its block that prefer it and -1 for the others,
        which is exactly unbiased up to a factor. Four reports are added to those of each block
        before the errors are computed, so that these are never too small.
        """
        counts = frequencies.tallied(tally, count=count, size=self.symbols)
        if counts.sum() != count:
            raise InvalidParameter("count", count, expected="the sum of the tally")
        sums = _walsh_hadamard(counts.reshape(self.blocks, self.block))
        gap = float(self._gap)
        scores = sums[:, 1:].reshape(-1)[: self.categories]
        inside = np.repeat(sums[:, 0], self.block - 1)[: self.categories]
        return frequencies.Frequencies(
            values=scores / count / gap,
            count=count,
            constant=(inside + _SPARE) / count / gap**2,
            slope=-1.0,
        )

    def aggregate(self, reports: ArrayLike) -> frequencies.Frequencies:
        """The shares of all categories, from reports of any shape."""
        return self.estimate(self.tally(reports), count=np.size(reports))

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, given its share among `count` people.

        The other people hold the other categories equally often, and it is an average over
        categories, whose blocks differ in how many they serve.
        """
        share = frequencies.frequency(frequency)
        return float(
            _variance(self._design, categories=self.categories, frequency=share)
            / checks.positive_integer(count=count)
        )

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
        return _design(checks.exact("epsilon", self.epsilon), self.categories)

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
