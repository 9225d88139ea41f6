"""Integer thresholds in place of probabilities: exact laws, and never above e^epsilon.

Every probability is a whole number of chances in 2^64. Truths are rounded down and lies up, so
the ratio of the two stays at or below e^epsilon whatever the rounding; docs/proofs/local.md,
section 1.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.refine import exp_bounds
from unacorda.privacy import events
from unacorda.privacy.events.fields import Real

__all__ = [
    "MOST_ANSWERS",
    "MOST_CATEGORIES",
    "WHOLE",
    "Kary",
    "Support",
    "exp_down",
    "kary",
    "pair_event",
    "weak",
]

WHOLE: Final = 1 << 64
"""The chances in one random word."""

MOST_CATEGORIES: Final = 1 << 30
MOST_ANSWERS: Final = 1 << 24
"""Beyond it a lie's share of 2^64 would be too small a number to be set finely."""

_LARGEST_EXPONENT: Final = 64  # lies of fewer than one chance in 2^64 cannot be told apart
_PLACES: Final = 192
_CLAIMED_CATEGORIES: Final = 10**15


class Support(NamedTuple):
    """How probably a report supports a category.

    own: the category that it was made of; other: any other one.
    """

    own: Fraction
    other: Fraction

    def variance(self, share: Fraction) -> Fraction:
        """Variance of one report's estimate of this share."""
        own, other = self
        noise = share * own * (1 - own) + (1 - share) * other * (1 - other)
        return noise / (own - other) ** 2


def exp_down(epsilon: Fraction) -> Fraction:
    """A rational number that is at most e^epsilon, and 1 or more.

    It is within 2^-90, relative, of e^epsilon or of e^64, whichever is less.

    >>> float(exp_down(Fraction(1)))
    2.718281828459045
    """
    _, high = exp_bounds(-min(epsilon, Fraction(_LARGEST_EXPONENT)), _PLACES)
    return max(Fraction(1 << _PLACES, high), Fraction(1))


@dataclass(frozen=True, slots=True)
class Kary:
    """A k-ary answer: each false one has `lie` chances in 2^64, the true one the rest.

    >>> Kary(4, 1 << 61).truth == 5 << 61
    True
    """

    categories: int
    lie: int

    @property
    def truth(self) -> int:
        """The chances of the true answer in 2^64."""
        return WHOLE - (self.categories - 1) * self.lie

    def steps(self, size: int, bits: RandomBits) -> NDArray[np.int64]:
        """Which answers to give: k - 1 means the true one, 0 to k - 2 the false ones."""
        words = bits.words(size)
        # Each false answer owns `lie` consecutive words, the true one all that are left.
        np.floor_divide(words, np.uint64(self.lie), out=words)
        np.minimum(words, np.uint64(self.categories - 1), out=words)
        return words.view(np.int64)

    def answers(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        """One answer for each truth; the false ones count from it in a circle."""
        answers = self.steps(truths.size, bits)
        answers += truths
        answers += 1
        answers -= self.categories * (answers >= self.categories)
        return answers


@functools.lru_cache(maxsize=1024)
def kary(epsilon: Fraction, categories: int) -> Kary:
    """The most truthful k-ary answer whose odds of truth to a given lie are at most e^epsilon.

    Raises InvalidParameter where epsilon is too small for 64 bits to tell truth from lies.

    >>> answer = kary(Fraction(1), 4)
    >>> Fraction(answer.truth, answer.lie) <= exp_down(Fraction(1))
    True
    """
    answer = Kary(categories, math.ceil(WHOLE / (exp_down(epsilon) + categories - 1)))
    if answer.truth <= answer.lie:
        raise weak(epsilon)
    return answer


def weak(epsilon: Fraction) -> InvalidParameter:
    """The refusal of an epsilon so small that reports would say nothing."""
    expected = "large enough for probabilities in steps of 2^-64 to tell two values apart"
    return InvalidParameter("epsilon", _shown(epsilon), expected=expected)


def pair_event(epsilon: Real, *, weight: Fraction) -> events.RandomizedResponse | events.Pure:
    """What a report costs whose two laws differ on two events only, by e^epsilon either way.

    weight: at least the probability of the two events together, for every two inputs. The others
    have equal probability under both laws. Priced as k-ary randomised response with the largest k
    that is certainly no more private, and as pure where k would be 2, for the binary answer
    promises more about the reports of others when shuffled;
    docs/proofs/local.md, section 7.
    """
    least_exp = exp_down(checks.exact("epsilon", epsilon))
    categories = math.floor(1 + (least_exp + 1) / weight - least_exp)
    if categories < 3:
        return events.Pure(epsilon=epsilon)
    return events.RandomizedResponse(
        epsilon=epsilon, categories=min(categories, _CLAIMED_CATEGORIES)
    )


def _shown(epsilon: Fraction) -> Fraction | float:
    return float(epsilon) if epsilon > Fraction(1, 10**300) else epsilon
