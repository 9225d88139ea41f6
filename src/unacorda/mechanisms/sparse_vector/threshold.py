r"""Sparse vector: find the first question, or the first c, above a threshold.

The questions of a stream are numbers with at most the given `sensitivity`. Only those found above
the threshold cost budget, not those below it. Questions may be chosen adaptively. `comparison` has
the noise, its grid and the proof.

Two ways to c answers, `refresh=False` and `refresh=True`:

- **The threshold noise is drawn once.** Price: `Pure(epsilon)`, and no less: long streams reach
  that loss (monotone: in one direction). The noise of one comparison has standard deviation
  (1 + m^{2/3})^{3/2} sensitivity / epsilon, m = 2 c, or c where monotone. Best wherever epsilons
  are added up, and for few answers.
- **It is drawn afresh after each answer above**: c runs of one answer, each with epsilon / c,
  and the event is their composition, for the accountant to price numerically; only under pure
  privacy does it come to epsilon. At a fixed price rho in zCDP the noise is
  (1 + 2^{2/3})^{3/2} sensitivity sqrt(c / (2 rho)), monotone half of that: less than the other
  form's from 2 answers on, monotone from the first. At a total of (1, 1e-6)-DP it is the better
  form from 67 answers on, monotone from 76 on or sooner.

Where the questions are monotone, a run of one answer with s_T = D / e_T, s_Q = D / e has its
log-likelihood ratios in [-e, e_T + e] or in the negative of it, by the two cases of the proof: an
interval of length e_T + 2 e. So it has bounded range and not only pure privacy, as the exponential
mechanism does, and a run with the noise of the general case has the event `Exponential(epsilon)`,
in zCDP a quarter of `Pure(epsilon)`. `refresh=True` uses this.

Noise is one-sided and geometric. With normal noise the loss of one answer above is unbounded, so
every question would cost budget. Any noise with a loss of at most e at one answer, P(nu >= y) <=
e^e P(nu >= y + d), has a tail no lighter than the geometric one used here, P(nu >= y + k d) >=
e^{-k e} P(nu >= y).

**Numeric sparse vector.** A `SparseVector` search decides which questions are answered, and each of
them is released with fresh noise of its own. The noisy value that was compared is never released:
it holds the threshold noise only against the level, and alone it would tell what the comparison
must hide.

The event is the composition of the search and the `count` answers, so the accountant knows the
noise of the answers. When they interleave, the search is an interactive mechanism. Prices compose
also then, by theorems of Vadhan and Wang 2021, arXiv:2105.14427 (pure DP), Lyu, NeurIPS 2022
(Renyi), and Vadhan and Zhang 2023, arXiv:2207.08335 (trade-off curves).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.noise.rounding import float_multiples
from unacorda.mechanisms.parameters import exponent
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.mechanisms.sparse_vector.comparison import (
    Comparison,
    comparison_for,
    questions,
    share_ratio,
)
from unacorda.mechanisms.sparse_vector.streams import (
    NumericStream,
    ThresholdStream,
    search,
)
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.guarantees import PureDP

Real: TypeAlias = float | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(PureCalibrated):
    r"""Find the first `count` questions above a threshold; those below it cost nothing.

    Floats mean the decimals they print as.

    Source: Dwork and Roth 2014, Algorithms 1 and 2, with the composition left to the accountant;
    Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7; proof in `comparison`.

    Parameters
    ----------
    epsilon
        The cost of all answers together under pure privacy.
    sensitivity
        The sensitivity of any one question, above 0.
    threshold
        Public.
    count
        The number of answers above before it stops, 1 (AboveThreshold) or more.
    monotone
        Whether all questions change in the same direction between two given neighbors, as counts do
        if a person is added or removed (but not if one is replaced).
    refresh
        Draw the threshold noise afresh after each answer (see the module for which is better):
        monotone questions then get the noise of the general case and the smaller event.
    grid_log2
        Values are rounded down to multiples of 2^grid_log2, by default about a millionth of the
        sensitivity.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> first = SparseVector(epsilon=1, sensitivity=1, threshold=1000)
    >>> first.event
    Pure(epsilon=1)
    >>> first.release([0, 10, 2000, 3000], bits=SeededBits(1))
    array([2])
    >>> SparseVector(epsilon=1, count=5, sensitivity=1, threshold=100, refresh=True).event
    Repeated(event=Pure(epsilon=Fraction(1, 5)), count=5)
    """

    epsilon: Real
    sensitivity: Real
    threshold: Real
    monotone: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default
    count: int = 1
    refresh: bool = False

    def __post_init__(self) -> None:
        fields.keep(self, count=fields.whole("count", self.count, least=1))
        checks.boolean(refresh=self.refresh, monotone=self.monotone)
        fields.keep(
            self,
            epsilon=fields.positive("epsilon", self.epsilon),
            sensitivity=fields.positive("sensitivity", self.sensitivity),
            threshold=fields.finite("threshold", self.threshold, expected="a finite number"),
        )
        fields.keep(self, grid_log2=self.comparison.grid_log2)

    @property
    def event(self) -> events.Event:
        """What one run costs, however many questions it hears."""
        if not self.refresh:
            return events.Pure(epsilon=self.epsilon)
        each = checks.exact("epsilon", self.epsilon) / self.count
        kind = events.Exponential if self.monotone else events.Pure
        return kind(epsilon=each) * self.count

    @property
    def comparison(self) -> Comparison:
        """The public numbers behind a comparison."""
        epsilon = checks.exact("epsilon", self.epsilon)
        return comparison_for(
            epsilon=epsilon / self.count if self.refresh else epsilon,
            sensitivity=checks.exact("sensitivity", self.sensitivity),
            threshold=checks.exact("threshold", self.threshold),
            count=1 if self.refresh else self.count,
            # A monotone run with the noise of the general case has bounded range epsilon.
            monotone=self.monotone and not self.refresh,
            grid_log2=exponent(self.grid_log2),
        )

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise in one comparison, which has mean 0."""
        return self.comparison.deviation

    def start(self, *, bits: RandomBits | None = None) -> ThresholdStream:
        """Start a stream that takes one question at a time and stops after `count` answers above.

        Parameters
        ----------
        bits
            By default a secure source.
        """
        return ThresholdStream(
            self.comparison, count=self.count, refresh=self.refresh, bits=source_of(bits)
        )

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> NDArray[np.int64]:
        """Release the indices of the first `count` questions above the threshold, or of fewer.

        Parameters
        ----------
        values
            One dimension, integers or floats of at most 64 bits. NaN counts as 0; values are
            clamped at 2^60 grid steps.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        return self.release_with_gap(values, bits=bits)[0]

    def release_with_gap(
        self, values: ArrayLike, *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Release the same indices and their noisy gaps above the threshold, at no further cost.

        The noise in a gap has mean 0 over all questions, but the selected ones tend to have upward
        noise.

        Source: Ding, Wang, Xiao, Wang, Zhang, Kifer 2023, arXiv:2012.01592 (the free gap).

        Parameters
        ----------
        values, bits
            As for `release`.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        heard, comparison = questions(values), self.comparison
        found, gaps = search(
            comparison, heard, count=self.count, refresh=self.refresh, bits=source_of(bits)
        )
        return found, float_multiples(gaps.tolist(), comparison.grid_log2)

    def error_bound(self, confidence: checks.Number, *, queries: int) -> float:
        """Compute the distance from the threshold at which `queries` answers are correct.

        This holds for all of them up to the stop, with probability `confidence` or more; rounded
        up.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        queries
            How many are asked, 1 or more.

        Examples
        --------
        >>> first = SparseVector(epsilon=1, sensitivity=1, threshold=0, monotone=True)
        >>> round(first.error_bound(0.95, queries=1000), 2)
        21.19
        """
        levels = self.count if self.refresh else 1
        return self.comparison.half_width(confidence, queries=queries, levels=levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericSparse(PureCalibrated):
    """Release the first `count` questions above a threshold, as numbers with fresh noise.

    Without `answers`, epsilon is the price of everything under pure privacy: answers get Laplace
    noise, and e_T : e_Q : e_N = 1 : m^{2/3} : (2 c^2)^{1/3} with m = 2 c (monotone and not
    refreshed: c) makes the sum of the variances of comparison and answer least, s_T^2 + s_Q^2 + 2
    s_N^2.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 7.

    Parameters
    ----------
    epsilon
        The total cost; only that of the search if `answers` are given.
    count, sensitivity, threshold, monotone, refresh, grid_log2
        As for `SparseVector`.
    answers
        The noise of an answer, an additive mechanism for one number whose sensitivity is at least
        that of the questions.

    Examples
    --------
    >>> from unacorda.mechanisms import Gaussian
    >>> normal = Gaussian(sigma=5, l2_sensitivity=1)
    >>> search = NumericSparse(epsilon=1, count=4, sensitivity=1, threshold=100, answers=normal)
    >>> search.event
    Composed(parts=(Pure(epsilon=1), Repeated(event=Gaussian(noise_multiplier=5), count=4)))
    >>> NumericSparse(epsilon=1, count=4, sensitivity=1, threshold=100).search.epsilon
    Fraction(80, 131)
    """

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
        """Open a stream that is fed one question at a time and stops after `count` answers.

        Parameters
        ----------
        bits
            By default a secure source.

        Returns
        -------
        NumericStream
            The stream.
        """
        source = source_of(bits)
        return NumericStream(self.search.start(bits=source), answers=self.answer, bits=source)

    def release(
        self, values: ArrayLike, *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Release the first `count` questions found above the threshold, and answers to them.

        Parameters
        ----------
        values
            As for `SparseVector.release`.
        bits
            By default a secure source.

        Returns
        -------
        tuple of arrays
            The indices, and the answers with fresh noise.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        array, source = questions(values), source_of(bits)
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
        own = {one.name: getattr(self, one.name) for one in dataclasses.fields(SparseVector)}
        return SparseVector(**own | {"epsilon": epsilon})


def _answer_ratio(count: int) -> Fraction:
    """The best e_N / e_T, (2 count^2)^(1/3), as a multiple of 1/16."""
    return Fraction(round(16 * (2 * count * count) ** (1 / 3)), 16)
