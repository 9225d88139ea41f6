r"""Sampling schemes: which units take part in which step, and the event of all steps.

Only the sampling scheme has its rate, so the same rate is drawn and priced. A coin compares a
64-bit word with a whole number, and the event has that number over 2^64; for most words one byte
decides. Source: docs/proofs/training.md, section 1.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.correlated import Correlated
from unacorda.privacy.events import Event, Gaussian
from unacorda.privacy.neighbors import Neighbors, ReplaceOne, ZeroOut

__all__ = [
    "AllocatedSteps",
    "Batches",
    "CyclicSampling",
    "FixedSizeSampling",
    "FullBatch",
    "PoissonSampling",
    "Sampling",
    "public_units",
]

Whole = NDArray[np.int64]
BitsOf = Callable[[int], RandomBits]
Draws = Callable[[int], Whole]

_WORDS = 1 << 64
_PIECE = 1 << 20  # coins that are thrown at once
_LOWER = 56  # bits of a word below its first byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The public numbers: units as stated, units in a batch on average, and steps."""

    units: int
    batch_size: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Sampling(ABC):
    """A sampling scheme: which units take part in a step.

    Attributes
    ----------
    conditions
        Further conditions of the guarantee, in words.

    Examples
    --------
    >>> PoissonSampling().epoch(60_000, 600)  # steps in which a unit takes part once, on average
    Fraction(100, 1)
    """

    conditions: ClassVar[tuple[str, ...]] = ()

    def check_relation(self, neighbors: Neighbors) -> None:
        """Check that some numbers fit a relation.

        Parameters
        ----------
        neighbors
            The relation that is protected.

        Raises
        ------
        InvalidParameter
            Where none would.
        """
        del neighbors

    @staticmethod
    def epoch(units: int, batch_size: int) -> Fraction:
        """Return the number of steps in which a unit takes part once, on average.

        Parameters
        ----------
        units
            How many there are.
        batch_size
            How many are expected in a step.

        Returns
        -------
        Fraction
            Steps.
        """
        return Fraction(units, batch_size)

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Check that the scheme fits the numbers of a training.

        Parameters
        ----------
        of
            Those numbers.
        neighbors
            The relation that is protected.

        Raises
        ------
        InvalidParameter
            Where it does not.
        """
        checks.positive_integer(units=of.units)
        checks.positive_integer(batch_size=of.batch_size)
        checks.positive_integer(steps=of.steps)
        if of.batch_size > of.units:
            expected = f"at most units={of.units}"
            raise InvalidParameter("batch_size", of.batch_size, expected=expected)
        self.check_relation(neighbors)

    @property
    def correlated(self) -> Correlated | None:
        """How the noise of steps is correlated; None where it is independent."""
        return None

    def fitted(self, of: Batches) -> Sampling:
        """Return the scheme for the numbers of a training, with all open choices made.

        Parameters
        ----------
        of
            Those numbers.

        Returns
        -------
        Sampling
            The scheme itself if no choice is open.
        """
        del of
        return self

    @abstractmethod
    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """Return the event of all steps.

        Parameters
        ----------
        noise
            The event of one step if units are sampled, for adding or removing one.
        alone
            The event of one step if all take part, for the given relation.
        of
            The numbers of the training.

        Returns
        -------
        Event
            An event for an accountant.
        """

    @abstractmethod
    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """Return a function from a step to the positions of its units, rising.

        Parameters
        ----------
        population
            How many units there are, private under AddRemove.
        of
            The numbers of the training.
        bits
            Random bits of a step, or of -1 if the scheme draws all steps together.

        Returns
        -------
        Callable
            From a step to places.
        """


@dataclass(frozen=True, kw_only=True)
class PoissonSampling(Sampling):
    """Each unit takes part in each step independently, at the rate batch_size / units.

    Source: Abadi et al. 2016, arXiv:1607.00133.

    Examples
    --------
    >>> print(PoissonSampling())
    PoissonSampling()
    """

    @staticmethod
    def rate(of: Batches) -> Fraction:
        """Return the rate, a multiple of 2^-64.

        Parameters
        ----------
        of
            The numbers of the training.

        Returns
        -------
        Fraction
            Never above the requested rate.
        """
        return Fraction(of.batch_size * _WORDS // of.units, _WORDS)

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """Poisson samples of the noise."""
        rate = self.rate(of)
        return (alone if rate == 1 else noise.poisson_sampled(rate=rate)) * of.steps

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """The units whose word is below the rate."""
        threshold = int(self.rate(of) * _WORDS)
        return lambda step: _below(threshold, population, bits(step))


@dataclass(frozen=True, kw_only=True)
class FullBatch(Sampling):
    """Every unit takes part in every step: no sampling, and the least noise if it is affordable.

    Examples
    --------
    >>> print(FullBatch())
    FullBatch()
    """

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Raise InvalidParameter if the batch size is not the number of units."""
        Sampling.check(self, of, neighbors)
        if of.batch_size != of.units:
            expected = f"units={of.units}, everybody"
            raise InvalidParameter("batch_size", of.batch_size, expected=expected)

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """The noise, again and again."""
        del noise
        return alone * of.steps

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """All of them."""
        del of, bits
        return lambda _: np.arange(population)


@dataclass(frozen=True, kw_only=True)
class FixedSizeSampling(Sampling):
    """Draws exactly batch_size units without replacement in each step; for ReplaceOne only.

    Source: Balle, Barthe, Gaboardi 2018, arXiv:1807.01647 (sampling without replacement).

    Examples
    --------
    >>> from unacorda.privacy.neighbors import ReplaceOne
    >>> FixedSizeSampling().check_relation(ReplaceOne)
    """

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Raise InvalidParameter under another relation than ReplaceOne."""
        Sampling.check(self, of, neighbors)
        if neighbors is not ReplaceOne:
            expected = "ReplaceOne: a batch of fixed size shows how many units there are"
            raise InvalidParameter("neighbors", neighbors, expected=expected)

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """Samples of fixed size of the noise."""
        del alone
        return noise.fixed_size_sampled(size=of.batch_size, population=of.units) * of.steps

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """The units with the smallest words, drawn again in the rare case of equal ones."""
        size = of.batch_size

        def drawn(step: int) -> Whole:
            source = bits(step)
            while True:
                words = source.words(population)
                order = np.argsort(words, kind="stable")
                edge = words[order[size - 1 : size + 1]]
                if len(edge) < 2 or edge[0] != edge[1]:
                    return np.sort(order[:size]).astype(np.int64)

        return drawn


@dataclass(frozen=True, kw_only=True)
class AllocatedSteps(Sampling):
    """Draws for each unit `uses` of all steps, uniformly without replacement.

    Source: Feldman, Shenfeld 2025, arXiv:2502.08202 (random allocation).

    Parameters
    ----------
    uses
        The exact number of steps in which a unit takes part. None for the number that gives the
        average batch size: steps * batch_size / units, which must be a whole number.

    Examples
    --------
    >>> print(AllocatedSteps(uses=3))
    AllocatedSteps(uses=3)
    """

    uses: int | None = None

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Raise InvalidParameter if the batch size and the number of uses do not agree."""
        Sampling.check(self, of, neighbors)
        uses = self._uses(of)
        if uses != int(uses) or not 1 <= uses <= of.steps:
            expected = "steps such that steps * batch_size / units is a whole number of uses"
            raise InvalidParameter("steps", of.steps, expected=expected)
        if self.uses is not None and self.uses != uses:
            expected = f"{float(uses):g}: steps * batch_size / units"
            raise InvalidParameter("uses", self.uses, expected=expected)

    @staticmethod
    def _uses(of: Batches) -> Fraction:
        return Fraction(of.steps * of.batch_size, of.units)

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """The noise at every step, a part of which applies to each unit."""
        del alone
        uses = int(self._uses(of))
        return noise.randomly_allocated(steps=of.steps, uses=uses)

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """The units that have drawn a step; the steps of all are drawn at the first one."""
        uses, steps = int(self._uses(of)), of.steps

        @cache
        def table() -> tuple[Whole, Whole]:
            source, found, rows = bits(-1), [], max(_PIECE // steps, 1)
            for start in range(0, population, rows):
                count = min(rows, population - start)
                keys = _different(source, count, steps)
                found.append(np.argsort(keys, axis=1, kind="stable")[:, :uses])
            chosen = np.concatenate(found).reshape(-1) if found else np.empty(0, dtype=np.int64)
            order = np.argsort(chosen, kind="stable")
            return order // uses, np.searchsorted(chosen[order], np.arange(steps + 1))

        def drawn(step: int) -> Whole:
            members, edges = table()
            return members[edges[step] : edges[step + 1]]

        return drawn


@dataclass(frozen=True, kw_only=True)
class CyclicSampling(Sampling):
    """Poisson samples of groups of units in turn, for noise that is correlated over `bands`.

    Each unit draws one of `bands` groups independently. Step t samples only from group t mod
    `bands`, at `bands` times the rate.

    Source: Choquette-Choo et al. 2023 (BandMF).

    Parameters
    ----------
    bands
        The number of groups, 1 or more.

    Examples
    --------
    >>> print(CyclicSampling(bands=4))
    CyclicSampling(bands=4)
    """

    bands: int

    @property
    def correlated(self) -> Banded | None:
        """The bands of the noise."""
        return Banded(bands=self.bands) if self.bands > 1 else None

    def rate(self, of: Batches) -> Fraction:
        """Return the rate within a group, a multiple of 2^-64.

        Parameters
        ----------
        of
            The numbers of the training.

        Returns
        -------
        Fraction
            Never above the requested rate.
        """
        return Fraction(of.batch_size * self.bands * _WORDS // of.units, _WORDS)

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Raise InvalidParameter for groups smaller than a batch, and under ReplaceOne."""
        Sampling.check(self, of, neighbors)
        if of.batch_size * self.bands > of.units:
            expected = f"at most {of.units // of.batch_size} bands, units over batch_size"
            raise InvalidParameter("bands", self.bands, expected=expected)
        if neighbors is ReplaceOne:
            expected = "AddRemove or ZeroOut, which cyclic samples are priced under"
            raise InvalidParameter("neighbors", neighbors, expected=expected)

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """Cyclic Poisson samples of the banded matrix mechanism with this noise multiplier."""
        del alone
        if not isinstance(noise, Gaussian):
            raise InvalidParameter("noise", noise, expected="a Gaussian event")
        multiplier = noise.noise_multiplier
        return Banded(bands=self.bands).event(multiplier, rate=self.rate(of), steps=of.steps)

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """The units of the step's group whose word is below the rate."""
        threshold = int(self.rate(of) * _WORDS)

        @cache
        def groups() -> list[Whole]:
            own = (bits(-1).words(population) % np.uint64(self.bands)).astype(np.int64)
            order: Whole = np.argsort(own, kind="stable")
            return np.split(order, np.searchsorted(own[order], np.arange(1, self.bands)))

        def drawn(step: int) -> Whole:
            group = groups()[step % self.bands]
            return group[_below(threshold, len(group), bits(step))]

        return drawn


def _different(bits: RandomBits, rows: int, size: int) -> NDArray[np.uint64]:
    """Rows of words, drawn again where two of a row are equal: every order is as likely."""
    found = bits.words(rows * size).reshape(rows, size)
    while True:
        ordered = np.sort(found, axis=1)
        equal = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(equal):
            return found
        found[equal] = bits.words(len(equal) * size).reshape(-1, size)


def _below(threshold: int, population: int, bits: RandomBits) -> Whole:
    """The places of words below a threshold, of one word a unit.

    The first byte of a word decides, but where it is that of the threshold; there the other bits
    are drawn.
    """
    if threshold >= _WORDS:
        return np.arange(population)
    top, rest = np.uint8(threshold >> _LOWER), np.uint64(threshold & ((1 << _LOWER) - 1))
    found = []
    for start in range(0, population, _PIECE):
        count = min(_PIECE, population - start)
        first = bits.words(-(-count // 8)).view(np.uint8)[:count]
        near = np.flatnonzero(first <= top)
        below = first[near] < top
        equal = np.flatnonzero(~below)
        below[equal] = bits.words(len(equal)) >> np.uint64(64 - _LOWER) < rest
        found.append(start + near[below])
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def public_units(neighbors: Neighbors) -> bool:
    """True if neighbors have equally many units, so that their number is public."""
    return neighbors in {ReplaceOne, ZeroOut}
