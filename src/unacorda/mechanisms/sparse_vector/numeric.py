r"""Numeric sparse vector: numbers for those questions that are above a threshold.

A `SparseVector` search decides which questions are answered, and each of them is released with
fresh noise of its own. The noisy value that was compared is never released: it holds the threshold
noise only against the level, and alone it would tell what the comparison must hide.

The event is the composition of the search and the `count` answers, so the accountant sees the
noise of the answers as it is. Where they interleave, the search is an interactive mechanism; that
prices compose all the same is the theorem of Vadhan and Wang 2021, arXiv:2105.14427 (pure DP),
Lyu, NeurIPS 2022 (Renyi), and Vadhan and Zhang 2023, arXiv:2207.08335 (trade-off curves).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.mechanisms.sparse_vector.comparison import questions, share_ratio
from unacorda.mechanisms.sparse_vector.streams import NumericStream
from unacorda.mechanisms.sparse_vector.threshold import SparseVector
from unacorda.privacy import events
from unacorda.privacy.guarantees import PureDP

__all__ = ["NumericSparse"]

Real: TypeAlias = float | Fraction

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericSparse(PureCalibrated):
    r"""Release the first `count` questions above a threshold, as numbers with fresh noise.

    answers: the noise of an answer, an additive mechanism for one number whose sensitivity is at
    least that of the questions; epsilon is then the price of the search alone. Left out, epsilon
    is the price of everything under pure privacy: answers get Laplace noise, and
    e_T : e_Q : e_N = 1 : m^{2/3} : (2 c^2)^{1/3} with m = 2 c (monotone and not refreshed: c) makes
    the sum of the variances of comparison and answer least, s_T^2 + s_Q^2 + 2 s_N^2. The others as
    for `SparseVector`.
    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7.

    >>> from unacorda.mechanisms.additive.real import Gaussian
    >>> NumericSparse(epsilon=1, count=4, sensitivity=1, threshold=100).event
    Composed(parts=(Pure(epsilon=Fraction(80, 131)), Repeated(event=Laplace(noise_multiplier=Fraction(524, 51)), count=4)))
    >>> normal = Gaussian(sigma=5, l2_sensitivity=1)
    >>> NumericSparse(epsilon=1, count=4, sensitivity=1, threshold=100, answers=normal).event
    Composed(parts=(Pure(epsilon=1), Repeated(event=Gaussian(noise_multiplier=5), count=4)))
    """  # noqa: E501  # what a doctest prints is one line

    epsilon: Real
    count: int
    sensitivity: Real
    threshold: Real
    monotone: bool = False
    refresh: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default
    answers: Laplace | Gaussian | None = None

    def __post_init__(self) -> None:
        given = self.answers
        if given is not None and not isinstance(given, Laplace | Gaussian):
            raise InvalidParameter("answers", given, expected="a Laplace or Gaussian mechanism")
        whole = self._sparse(self.epsilon)  # checks what is written, in the caller's words
        moved = given.l1_sensitivity if isinstance(given, Laplace) else None
        moved = given.l2_sensitivity if isinstance(given, Gaussian) else moved
        if moved is not None and checks.exact("answers", moved) < checks.exact(
            "sensitivity", whole.sensitivity
        ):
            raise InvalidParameter(
                "answers", given, expected=f"one of sensitivity {whole.sensitivity} or more"
            )
        for name in ("epsilon", "count", "sensitivity", "threshold", "grid_log2"):
            object.__setattr__(self, name, getattr(whole, name))
        _ = self.search, self.answer  # refused now rather than at the first release

    @classmethod
    def for_guarantee(cls, guarantee: PureDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a PureDP guarantee on the search and on all answers.

        parameters: those of the class, but for epsilon and answers. Raises InvalidParameter for
        another guarantee.
        """
        if parameters.get("answers") is not None:
            raise InvalidParameter(
                "answers", parameters["answers"], expected="None: the guarantee is of these too"
            )
        return super(NumericSparse, cls).for_guarantee(guarantee, **parameters)

    @property
    def search(self) -> SparseVector:
        """The search for questions above the threshold."""
        return self._sparse(self._parts()[0])

    @property
    def answer(self) -> Laplace | Gaussian:
        """The noise of one answer."""
        if self.answers is not None:
            return self.answers
        sensitivity = checks.exact("sensitivity", self.sensitivity)
        scale = sensitivity * self.count / self._parts()[1]
        return Laplace(scale=scale, l1_sensitivity=sensitivity)

    @property
    def event(self) -> events.Event:
        """What one run costs, however many questions it hears."""
        return events.compose([self.search.event, self.answer.event * self.count])

    def start(self, *, bits: RandomBits | None = None) -> NumericStream:
        """A stream that is fed one question at a time and stops after `count` answers."""
        source = bits or _SECURE
        return NumericStream(self.search.start(bits=source), answers=self.answer, bits=source)

    def release(
        self, values: ArrayLike, *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The indices of the first `count` questions found above the threshold, and their answers.

        Values and refusals as for `SparseVector.release`.
        """
        array, source = questions(values), bits or _SECURE
        found = self.search.release(array, bits=source)
        released: NDArray[np.float64] = self.answer.release(array[found], bits=source)
        return found, released

    def _parts(self) -> tuple[Any, Fraction]:
        """The epsilons of the search and of all answers; the second where it is not given."""
        if self.answers is not None:
            return self.epsilon, Fraction(0)
        epsilon = checks.exact("epsilon", self.epsilon)
        once = 1 if self.refresh else self.count
        moves = once if self.monotone and not self.refresh else 2 * once
        searched = 1 + share_ratio(moves)
        if self.refresh:  # then c searches of 1 + 2^(2/3) each stand against c answers
            searched *= self.count
            answered = Fraction(self.count) * _answer_ratio(1)
        else:
            answered = _answer_ratio(self.count)
        share = searched / (searched + answered)
        return epsilon * share, epsilon * (1 - share)

    def _sparse(self, epsilon: Real) -> SparseVector:
        return SparseVector(
            epsilon=epsilon,
            count=self.count,
            sensitivity=self.sensitivity,
            threshold=self.threshold,
            monotone=self.monotone,
            refresh=self.refresh,
            grid_log2=self.grid_log2,
        )


def _answer_ratio(count: int) -> Fraction:
    """The best e_N / e_T, (2 count^2)^(1/3), as a multiple of 1/16."""
    return Fraction(round(16 * (2 * count * count) ** (1 / 3)), 16)
