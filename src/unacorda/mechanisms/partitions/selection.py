r"""Partition selection by the optimal rule, with one coin per key.

A key with n people is kept with probability p(n), where p(0) = 0 and p(n) is the largest that
(epsilon, delta)-DP of one key allows after p(n - 1). The probabilities are multiples of 2^-128,
each rounded down **after** the one before it was. The guarantee of one key is a condition on two
neighboring probabilities, so the rounded ones satisfy it exactly (docs/proofs/keys.md, section 1).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.continuous import CHUNK
from unacorda.mechanisms.noise.refinement import exp_bounds
from unacorda.mechanisms.parameters import Real, positive, whole
from unacorda.mechanisms.protocol import ApproxCalibrated
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep

Key = TypeVar("Key", bound=Hashable)

_END = 1 << 53  # counts above it count as it: one unit still moves them by no more than before

_BITS: Final = 128
_ONE: Final = 1 << _BITS
_PLACES: Final = 256
_LONGEST: Final = 1 << 20
_LEAST_DELTA: Final = Fraction(1, 1 << 80)


def counted(counts: ArrayLike) -> NDArray[np.int64]:
    """The counts as int64, from 0 to 2^53; a count below 0 is that of an absent key, 0.

    Raises InvalidParameter for a dtype that is not integer.
    """
    whole = np.minimum(elements.integers("counts", counts), _END)
    return np.maximum(whole, 0)


def unzipped(counts: Mapping[Key, int]) -> tuple[list[Key], NDArray[np.int64]]:
    """The keys and their counts, each read as an element of a list; of any size."""
    if not isinstance(counts, Mapping):
        kind: Any = type(counts).__name__
        raise InvalidParameter(
            "counts", kind, expected="a mapping from key to count; for arrays use release_array"
        )
    return list(counts), counted(list(counts.values()))


def in_order(keys: Iterable[Key]) -> list[Key]:
    """The keys, sorted, since their order in the table would reveal something about it.

    Only released keys come here, so keys that do not compare can be sorted by their text.
    """
    kept = list(keys)
    try:
        return sorted(kept)  # type: ignore[type-var]
    except TypeError:
        return sorted(kept, key=lambda key: (type(key).__name__, repr(key)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSelection(ApproxCalibrated):
    r"""Select the keys to release, each by its number of people.

    Each key is kept with the largest probability that (epsilon, delta) / l0_sensitivity allows at
    its count; a key without records is never kept.

    Source: Desfontaines, Voss, Gipson, Mandayam 2022, arXiv:2006.03684, Theorem 1 and Section 3.

    Parameters
    ----------
    epsilon, delta
        The largest cost of the whole selection, both above 0, delta below 1.
    l0_sensitivity
        The most keys of one person.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> rule = PartitionSelection(epsilon=1.0, delta=1e-5)
    >>> rule.release({"flu": 812, "cold": 97, "kuru": 1}, bits=SeededBits(1))
    ['cold', 'flu']
    >>> round(float(rule.probability(12)), 6)
    0.760311
    """

    epsilon: Real
    delta: Real
    l0_sensitivity: int = 1

    def __post_init__(self) -> None:
        epsilon, delta = positive("epsilon", self.epsilon), positive("delta", self.delta)
        checks.demand(delta < 1, "delta", self.delta, expected="a number between 0 and 1")
        keys = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        keep(self, epsilon=epsilon, delta=delta, l0_sensitivity=keys)
        one_epsilon, one_delta = self._one_key()
        if one_delta < _LEAST_DELTA:
            raise InvalidParameter(
                "delta", self.delta, expected="delta / l0_sensitivity of at least 2^-80"
            )
        if one_epsilon < _LEAST_DELTA or table_length(one_epsilon, float(one_delta)) > _LONGEST:
            raise InvalidParameter(
                "epsilon",
                self.epsilon,
                expected="a larger one: at this one a key is only sure of being kept from over a "
                "million people on",
            )

    def _one_key(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of one key, exactly."""
        epsilon, delta = checks.exact("epsilon", self.epsilon), checks.exact("delta", self.delta)
        return epsilon / self.l0_sensitivity, delta / self.l0_sensitivity

    @property
    def event(self) -> events.Event:
        """The cost of one release: as many (epsilon, delta) choices as one person has keys."""
        epsilon, delta = self._one_key()
        return events.Approximate(epsilon=epsilon, delta=delta) * self.l0_sensitivity

    @property
    def sure_from(self) -> int:
        """The least count from which on a key is always kept."""
        return len(thresholds(*self._one_key())[0])

    def probability(self, count: int) -> Fraction:
        """Compute the probability with which a key of this many people is kept, exactly.

        Parameters
        ----------
        count
            The number of people who have it.
        """
        number = whole("count", count, least=0, most=1 << 62)
        high, low = thresholds(*self._one_key())
        if number >= len(high):
            return Fraction(1)
        return Fraction(int(high[number]) << 64 | int(low[number]), _ONE)

    def release(self, counts: Mapping[Key, int], *, bits: RandomBits | None = None) -> list[Key]:
        """Release the selected keys, sorted.

        Parameters
        ----------
        counts
            The number of different people of each key, integers. Counts below 1 mean absent keys,
            which are never kept.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a value that is not a mapping to integers.
        """
        keys, values = unzipped(counts)
        kept = self.release_array(values, bits=bits)
        return in_order(keys[position] for position in np.flatnonzero(kept).tolist())

    def release_array(
        self, counts: ArrayLike, *, bits: RandomBits | None = None
    ) -> NDArray[np.bool_]:
        """Release whether each key is kept, for an array of counts of any shape.

        The keys that are not kept, their number and the order of the array stay private.

        Parameters
        ----------
        counts
            Integers. Elements of a list are rounded to the nearest integer; other values count as
            0.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a dtype that is not integer.
        """
        values, source = counted(counts), source_of(bits)
        high, low = thresholds(*self._one_key())
        flat, sure = values.reshape(-1), len(high)
        kept = np.empty(flat.size, dtype=np.bool_)
        for start in range(0, flat.size, CHUNK):
            index = flat[start : start + CHUNK]
            # A sure count is looked up as the last one, and its coin is tossed all the same.
            goal, words = high.take(index, mode="clip"), source.words(index.size)
            part = words < goal
            ties = np.flatnonzero(words == goal)
            if ties.size:
                part[ties] = source.words(ties.size) < low.take(index[ties], mode="clip")
            np.logical_or(part, index >= sure, out=kept[start : start + CHUNK])
        return kept.reshape(values.shape)


@lru_cache(maxsize=64)
def thresholds(epsilon: Fraction, delta: Fraction) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """First and second words of p(n) 2^128 for one key, n = 0, 1, ... as long as p(n) < 1."""
    chances = rising_chances(epsilon, delta, refusal=epsilon)
    high = np.array([number >> 64 for number in chances], dtype=np.uint64)
    low = np.array([number & (1 << 64) - 1 for number in chances], dtype=np.uint64)
    high.flags.writeable = low.flags.writeable = False
    return high, low


@lru_cache(maxsize=64)
def rising_chances(
    epsilon: Fraction, delta: Fraction, *, refusal: Fraction | None, longest: int = _LONGEST
) -> tuple[int, ...]:
    """p(n) 2^128 for n = 0, 1, ... as long as p(n) < 1, each rounded down from the rounded p(n).

    p(0) = 0, p(n + 1) = min(e^epsilon p(n) + delta, 1 - e^-refusal (1 - p(n) - delta), 1), with
    refusal at least epsilon; without one it is min(e^epsilon p(n) + delta, 1). If there are more
    than `longest`, the first `longest` + 1 of them.
    """
    slow = exp_bounds(-epsilon, _PLACES)[1]  # e^-epsilon and e^-refusal, from above
    falling = 0 if refusal is None else exp_bounds(-refusal, _PLACES)[1]
    least = math.floor(delta * _ONE)
    chances: list[int] = []
    chance = 0
    while chance < _ONE and len(chances) <= longest:
        chances.append(chance)
        rising = (chance << _PLACES) // slow + least
        left = max(_ONE - chance - least, 0)
        chance = min(rising, _ONE - (-(-falling * left >> _PLACES)))
    return tuple(chances)


def table_length(exact: Fraction, delta: float) -> float:
    """The approximate number of counts with p(n) < 1, by the closed form of the source."""
    if exact > 700:
        return 3
    epsilon = float(exact)
    half = math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon
    return 2 * half + 3
