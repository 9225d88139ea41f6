"""Tables of counts behind noise: the one place of a synthesis where exact counts are seen.

`CountTables` is what the data are to a synthesis: exact counts over some columns. `PrivateTables`
holds one, and answers with noise of this package's mechanisms alone; each answer is paid for from
one budget before the counts are read.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.bits import RandomBits, source_of
from unacorda.checks import demand
from unacorda.errors import InternalError, InvalidParameter
from unacorda.privacy.events import Event, compose
from unacorda.synthesis.charges import CountNoise, Shares
from unacorda.synthesis.junction_tree import Columns, Floats
from unacorda.synthesis.model import NoisyMarginal
from unacorda.synthesis.sensitivity import GRID_LOG2, CountSensitivity

Counts: TypeAlias = NDArray[np.int64]

_MOST_ROWS: Final = 1 << 40  # cells count up to that; clamping them moves nothing apart
_LEAST_VARIANCE: Final = 1e-6  # noise that is nearly always 0 is no reason to divide by 0
_HALF: Final = 32
_KEPT_CELLS: Final = 1 << 22


class CountTables(Protocol):
    """Exact counts of bounded rows. Whatever calls them must be `PrivateTables`."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has; public."""
        ...

    def counts(self, columns: Columns) -> Counts:
        """How many rows lie in each cell over the columns, of the shape of their cells.

        The same rows each time. Nothing that depends on the data may be raised.
        """
        ...


class CodedRows:
    """Rows in memory, as the places of their cells.

    A unit's rows must be bounded before. Tables are kept for the next round while they have fewer
    than 2^22 cells in all.

    Parameters
    ----------
    codes
        Whole numbers of shape (rows, columns); what lies outside a column counts as its nearest
        cell.
    sizes
        How many cells each column has.

    Raises InvalidParameter for another shape or dtype.

    >>> CodedRows([[0, 2], [1, 1], [0, 2]], sizes=(2, 3)).counts((0, 1)).tolist()
    [[0, 0, 2], [0, 1, 0]]
    """

    def __init__(self, codes: ArrayLike, *, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        width = len(self._sizes)
        fits = width >= 1 and min(self._sizes) >= 1
        demand(fits, "sizes", sizes, expected="the number of cells of each column, at least 1")
        expected = "whole numbers of 64 bits"
        array = elements.integers("codes", codes, dimensions=2, width=width, expected=expected)
        if array.ndim != 2 or array.shape[1] != width:
            raise InvalidParameter("codes", array.shape, expected=f"the shape (rows, {width})")
        self._codes = np.asfortranarray(np.clip(array, 0, np.array(self._sizes, np.int64) - 1))
        self._kept: dict[Columns, Counts] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return self._sizes

    def counts(self, columns: Columns) -> Counts:
        """How many rows lie in each cell over the columns."""
        if columns in self._kept:
            return self._kept[columns]
        shape = tuple(self._sizes[a] for a in columns)
        places = np.zeros(len(self._codes), np.int64)
        for a in columns:
            places *= self._sizes[a]
            places += self._codes[:, a]
        cells = math.prod(shape)
        table = np.bincount(places, minlength=cells).astype(np.int64).reshape(shape)
        if sum(kept.size for kept in self._kept.values()) + cells < _KEPT_CELLS:
            self._kept[columns] = table
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A table that may be measured next. All of it is public.

    Its score is weight * (sum over cells of max(|count - expected| - threshold, 0)), in whole
    steps of 2^-16: expected and threshold are first put on that grid.

    Parameters
    ----------
    columns
        Of the table.
    weight
        A whole number above 0.
    expected
        What the model expects in each cell.
    threshold
        In counts, 0 or above.
    """

    columns: Columns
    weight: int
    expected: Floats
    threshold: float = 0.0


def score(counts: Counts, candidate: Candidate) -> int:
    """The score of a candidate in steps of the grid, exactly.

    It moves by at most weight 2^16 times what the counts move in the l1 norm.
    Source: docs/proofs/synthesis.md, section 2.

    >>> table = Candidate(columns=(0,), weight=2, expected=np.array([1.0, 2.5]), threshold=0.25)
    >>> score(np.array([3, 2]), table) / 2**16
    4.0
    """
    exact = _clamped(counts) << GRID_LOG2
    differences = np.abs(exact - _on_grid(candidate.expected))
    above = np.maximum(differences - _on_grid(candidate.threshold), 0)
    # In halves, so that no sum leaves 64 bits.
    total = (int((above >> _HALF).sum()) << _HALF) + int((above & ((1 << _HALF) - 1)).sum())
    return candidate.weight * total


class PrivateTables:
    """Noisy answers about tables of counts, from one budget.

    Parameters
    ----------
    source
        The exact counts; they are read nowhere else.
    sensitivity
        How many rows a unit has, and the neighboring relation.
    shares
        The budget.
    bits
        Where noise comes from, `SecureBits()` by default.

    >>> from unacorda.bits import SeededBits
    >>> from unacorda.privacy.neighbors import AddRemove
    >>> from unacorda.synthesis.charges import ConcentratedShares
    >>> private = PrivateTables(
    ...     CodedRows([[0], [1], [1]], sizes=(2,)),
    ...     sensitivity=CountSensitivity(rows=1, neighbors=AddRemove),
    ...     shares=ConcentratedShares(total=Fraction(1, 2)),
    ...     bits=SeededBits(1),
    ... )
    >>> private.measure((0,), amount=Fraction(1, 2)).counts.tolist()
    [2.0, 2.0]
    >>> private.left
    Fraction(0, 1)
    """

    def __init__(
        self,
        source: CountTables,
        *,
        sensitivity: CountSensitivity,
        shares: Shares,
        bits: RandomBits | None = None,
    ) -> None:
        self._source, self._bits = source, source_of(bits)
        self._spent = Fraction(0)
        self._steps: list[Event] = []
        self.sizes = tuple(source.sizes)
        self.sensitivity, self.shares = sensitivity, shares

    @property
    def left(self) -> Fraction:
        """The amount that is not spent yet."""
        return self.shares.total - self._spent

    @property
    def steps(self) -> Event:
        """What was released so far, composed. Later steps were chosen by what earlier ones gave."""
        return compose(self._steps)

    def measure(self, columns: Columns, *, amount: Fraction) -> NoisyMarginal:
        """A table of counts with noise for this amount; InternalError where less is left."""
        noise = self.shares.noise(amount, self.sensitivity.counts)
        self._pay(amount, noise.event)
        exact = self._exact(columns)
        noisy = noise.release(exact, bits=self._bits)
        return NoisyMarginal(
            columns=columns,
            counts=np.asarray(noisy, np.float64).reshape(exact.shape),
            variance=max(float(noise.standard_deviation) ** 2, _LEAST_VARIANCE),
        )

    def choose(
        self, candidates: Sequence[Candidate], *, count: int, amount: Fraction, apart: Apart
    ) -> list[Candidate]:
        """Candidates with high scores, one choice after the other, each for this amount.

        count: how many at most; apart: which of the remaining candidates may be chosen after
        those chosen so far, by public facts. Raises InternalError where less is left.
        """
        if not candidates:
            return []
        weight = max(candidate.weight for candidate in candidates)
        choice = self.shares.choice(amount, self.sensitivity, weight=weight)
        scores: list[int] | None = None
        left = list(range(len(candidates)))
        chosen: list[Candidate] = []
        while left and len(chosen) < count:
            self._pay(amount, choice.event)
            if scores is None:
                scores = [score(self._exact(c.columns), c) for c in candidates]
            place = choice.release([Fraction(scores[i]) for i in left], bits=self._bits)
            chosen.append(candidates[left.pop(place)])
            if len(chosen) < count:
                left = [i for i in left if apart(candidates[i], chosen)]
        return chosen

    def distances(
        self, tables: Sequence[tuple[Columns, Counts]], *, amount: Fraction
    ) -> tuple[list[int], CountNoise]:
        """The l1 distances of public tables from the exact ones, with noise, all for this amount.

        tables: each the columns and whole counts. With the mechanism, whose noise is in each.
        """
        noise = self.shares.noise(amount, self.sensitivity.distances(len(tables)))
        self._pay(amount, noise.event)
        exact = []
        for columns, public in tables:
            differences = np.abs(self._exact(columns) - np.clip(public, 0, _MOST_ROWS))
            exact.append(int(differences.sum()))
        noisy = noise.release(np.array(exact, np.int64), bits=self._bits)
        return [int(one) for one in noisy], noise

    def _exact(self, columns: Columns) -> Counts:
        return _clamped(self._source.counts(columns))

    def _pay(self, amount: Fraction, event: Event) -> None:
        """Take the amount out of what is left; nothing is read before."""
        if not 0 < amount <= self.left:
            found = f"a step asks for {amount} where {self.left} is left"
            raise InternalError("the budget of a synthesis", contradiction=found)
        self._spent += amount
        self._steps.append(event)


class Apart(Protocol):
    """Whether a candidate may be chosen in the same round as others; public."""

    def __call__(self, candidate: Candidate, chosen: Sequence[Candidate], /) -> bool:
        """True where it may."""
        ...


def _clamped(counts: Counts) -> Counts:
    """Counts from 0 to 2^40."""
    return np.minimum(np.maximum(counts, 0), _MOST_ROWS)


def _on_grid(value: Any) -> NDArray[np.int64]:
    """The nearest multiple of 2^-16 to a number from 0 to 2^40, in steps."""
    clamped = np.fmin(np.fmax(np.asarray(value, np.float64), 0.0), float(_MOST_ROWS))
    steps: NDArray[np.int64] = np.rint(clamped * (1 << GRID_LOG2)).astype(np.int64)
    return steps
