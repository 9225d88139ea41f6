"""Randomised response: the category itself, truly or not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.arrays import shaped
from unacorda.mechanisms.response import arguments, frequencies
from unacorda.mechanisms.response.draws import CHUNK
from unacorda.mechanisms.response.thresholds import MOST_ANSWERS, WHOLE, Kary, Support, kary
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.events.fields import Real

__all__ = ["RandomizedResponse"]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse:
    r"""Tell one of k categories: the true one with odds e^epsilon against each other one.

    epsilon: above 0; a float means the decimal it prints as. categories: k, from 2 to 2^24; 2 is
    the binary form. A report is a category index. Up to k = 3 e^epsilon + 2, about, it is more
    accurate than unary encodings and hashing.
    Source: Warner 1965 (k = 2); Kairouz, Bonawitz, Ramage 2016, arXiv:1602.07387 (any k).

    >>> mechanism = RandomizedResponse(epsilon=1.0, categories=4)
    >>> mechanism.event
    RandomizedResponse(epsilon=1.0, categories=4)
    >>> reports = mechanism.encode([0, 0, 3, 2, 0])
    >>> len(mechanism.aggregate(reports))
    4
    """

    epsilon: Real
    categories: int

    def __post_init__(self) -> None:
        kary(arguments.set_up(self, most=MOST_ANSWERS), self.categories)

    @staticmethod
    def resampling(probability: checks.Number, *, categories: int = 2) -> RandomizedResponse:
        """The form "with this probability forget the truth and answer uniformly at random".

        Its epsilon is ln(1 + k (1 - p) / p), for two answers ln(2/p - 1), rounded up. The
        probability itself is no epsilon, and p = e^-epsilon does not give epsilon: for k = 2
        that costs ln(2 e^epsilon - 1), which is more.

        >>> round(float(RandomizedResponse.resampling("1/2").epsilon), 6)
        1.098612
        """
        share = checks.exact("probability", probability)
        if not 0 < share < 1:
            raise InvalidParameter(
                "probability", probability, expected="a number strictly between 0 and 1"
            )
        answers = RandomizedResponse(epsilon=1, categories=categories).categories
        bound = float_up(context().log1p(mpf(answers * (1 - share) / share)))
        # One more float up, since a float means the decimal it prints as.
        epsilon = math.nextafter(bound, math.inf)
        return RandomizedResponse(epsilon=epsilon, categories=answers)

    @property
    def event(self) -> events.RandomizedResponse:
        """What one report costs."""
        return events.RandomizedResponse(epsilon=self.epsilon, categories=self.categories)

    @property
    def support(self) -> Support:
        """The probabilities of the true answer and of a given false one, exactly."""
        answer = self._answer
        return Support(Fraction(answer.truth, WHOLE), Fraction(answer.lie, WHOLE))

    def encode(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The reports of devices that hold these categories, int64 of the same shape.

        values: integers; those beyond 0 .. k - 1 count as the nearest category.
        Raises InvalidParameter for a dtype that is not integer.
        """
        truths, shape = arguments.indices(values, categories=self.categories)
        answer, source = self._answer, bits or _SECURE
        reports = np.empty_like(truths)
        for start in range(0, truths.size, CHUNK):
            part = truths[start : start + CHUNK]
            told = answer.steps(part.size, source)
            told += part
            told += 1
            told -= self.categories * (told >= self.categories)
            reports[start : start + CHUNK] = told
        return shaped(reports, shape)

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """The same as `encode`."""
        return self.encode(values, bits=bits)

    def tally(self, reports: ArrayLike) -> NDArray[np.int64]:
        """How many reports tell each category; tallies of batches add up."""
        told = arguments.answers(reports, limit=self.categories)
        return np.bincount(told, minlength=self.categories).astype(np.int64)

    def estimate(self, tally: ArrayLike, *, count: int) -> frequencies.Frequencies:
        """The shares of all categories, from the tally of `count` reports."""
        return frequencies.frequencies(
            tally, count=count, support=self.support, size=self.categories
        )

    def aggregate(self, reports: ArrayLike) -> frequencies.Frequencies:
        """The shares of all categories, from reports of any shape."""
        return self.estimate(self.tally(reports), count=np.size(reports))

    def variance(self, *, count: int, frequency: checks.Number = 0) -> float:
        """Variance of the estimated share of a category, given its share among `count` people.

        >>> RandomizedResponse(epsilon=1, categories=4).variance(count=1000) ** 0.5
        0.0399...
        """
        share = frequencies.frequency(frequency)
        return frequencies.variance(self.support, count=count, frequency=share)

    @property
    def _answer(self) -> Kary:
        return kary(checks.exact("epsilon", self.epsilon), self.categories)
