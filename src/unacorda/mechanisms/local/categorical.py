"""Randomised response: the category itself, truly or not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local import arguments
from unacorda.mechanisms.local.draws import chunks
from unacorda.mechanisms.local.frequencies import PureOracle
from unacorda.mechanisms.local.thresholds import MOST_ANSWERS, WHOLE, Kary, Support, kary
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, float_up, mpf

__all__ = ["RandomizedResponse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(PureOracle):
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

    most_categories = MOST_ANSWERS

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
        answer = self._design
        return Support(Fraction(answer.truth, WHOLE), Fraction(answer.lie, WHOLE))

    @property
    def _design(self) -> Kary:
        return kary(self._exact_epsilon, self.categories)

    def _randomize(self, truths: NDArray[np.int64], bits: RandomBits) -> NDArray[np.int64]:
        reports, answer = np.empty_like(truths), self._design
        for part in chunks(truths.size):
            reports[part] = answer.answers(truths[part], bits)
        return reports

    def _read(self, reports: ArrayLike) -> NDArray[np.int64]:
        return arguments.answers(reports, limit=self.categories)

    def _count(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(rows, minlength=self.categories).astype(np.int64)
