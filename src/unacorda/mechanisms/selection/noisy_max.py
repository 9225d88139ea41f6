r"""Noisy maxima: permute-and-flip, and the best k of many candidates, with or without their gaps.

Each score with sensitivity Delta gets noise of scale 2 k Delta / epsilon, and the k largest noisy
scores are chosen, in order. If scores are monotone, that is, all change in the same direction
between two given neighbors, half of that scale suffices.

**Why, for k = 1.** Let i win at noise X, against M = max over j != i of s_j + X_j. Fix all noise
but X_i. On the neighbor M' <= M + Delta and s'_i >= s_i - Delta, so i wins there too if X_i grows
by 2 Delta (monotone: by Delta, since M' - s'_i <= M - s_i + Delta both where all scores rise and
where all fall). Each law here has P(X >= y + d) >= e^{-d / scale} P(X >= y) for d >= 0, so i loses
no more than a factor e^epsilon. Noise on one side serves as well as noise on two.

**Half the scale is not enough** for scores that are not monotone: the loss then reaches
2 epsilon (i falls by Delta while the others rise).

- **Gumbel noise** is the exponential mechanism, of bounded range, which costs epsilon^2 / 8 in
  zCDP; for k candidates it is k exponential mechanisms of epsilon / k each, one after the other,
  each among those not yet chosen. The event is their composition, for the accountant to price: at
  a price rho in zCDP the noise has scale Delta sqrt(k / (2 rho)).
- **Exponential noise** is permute-and-flip for k = 1, never worse than the exponential mechanism
  at the same epsilon, but not of bounded range: between two candidates of equal score and a
  neighbor where they are 2 Delta apart, the log-ratios stretch over epsilon + ln(2 - e^-epsilon).
  k candidates cost epsilon in all, as pure privacy, and no smaller composition is known. The gaps
  between the noisy scores, down to the best one not chosen, come with it at no further cost.

So choose by the kind of the budget: exponential noise for pure privacy, Gumbel noise for the
others. Laplace noise, as in textbooks, is wider than exponential noise without any advantage.

**Why gaps are free with exponential noise.** It was known for Laplace noise (Ding, Wang, Zhang,
Kifer 2019): hold the gaps, and the noisy scores of the winners move as the best of the others
does, the noise of each by at most 2 Delta either way. Exponential noise has nothing below 0, so
that argument fails for it; but the logarithm of the density of winners and gaps still moves by at
most 2 k Delta / scale (monotone: half of that), because a candidate's part in the law of the best
of the others never changes faster than all of them together. Proof in docs/proofs/noisy_max.md,
section 3. At the same epsilon the noise has half the variance of Laplace noise.

Under (epsilon, delta) Laplace noise of a scale of the order of Delta sqrt(k ln(n / delta)) /
epsilon is enough for the order of the best k of n (Qiao, Su, Zhang 2021, arXiv:2105.08233). Gumbel
noise with the accountant needs about Delta sqrt(2 k ln(1 / delta)) / epsilon whatever n is, so
that is what is offered.

Scores are compared as the exact numbers they are, with ideal continuous noise (see `contest`):
there are no ties to break, and no rounding to count.

Source: Durfee and Rogers 2019, arXiv:1905.04273, Section 4.1 (Gumbel noise is peeling); Ding, Wang,
Zhang, Kifer 2019, arXiv:1904.12773 (gaps, Laplace noise); docs/proofs/noisy_max.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import float_multiples, grid_ratio
from unacorda.mechanisms.protocol import PureCalibrated, RangeCalibrated
from unacorda.mechanisms.selection.contest import difference_in_steps, noisy_argmax
from unacorda.mechanisms.selection.scores import (
    Noise,
    Real,
    check_selection,
    factor_of,
    noisy_max_loss,
    one_row,
)
from unacorda.privacy import events
from unacorda.privacy.guarantees import ZCDP, PureDP


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(PureCalibrated):
    r"""Visit candidates in random order and choose the first that passes a coin toss.

    A candidate of score s passes with probability exp(epsilon (s - best) / (2 sensitivity)). The
    implementation uses exponential noise, which has the same distribution. It is never worse than
    the exponential mechanism at the same epsilon; the module compares them.

    Source: McKenna and Sheldon 2020, arXiv:2010.12603, Algorithm 1 and Theorem 1; as exponential
    noise: Ding, Kifer, Saghaian, Steinke, Wang, Xiao, Zhang 2021, arXiv:2105.07260.

    Parameters
    ----------
    epsilon, sensitivity, monotone
        As for `Exponential`, the 2 dropped likewise.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> choice = PermuteAndFlip(epsilon=1, sensitivity=1)
    >>> choice.event
    Pure(epsilon=1)
    >>> choice.release([0, 100, 20], bits=SeededBits(1))
    1
    """

    epsilon: Real
    sensitivity: Real
    monotone: bool = False

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone)

    @property
    def event(self) -> events.Pure:
        """What one choice costs."""
        return events.Pure(epsilon=self.epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return 1 / factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> int:
        """Release the index of the chosen candidate.

        Parameters
        ----------
        scores, bits
            As for `Exponential.release`.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row = one_row(scores)
        first = noisy_argmax(
            row, factor=1 / self.scale, noise="exponential", count=1, bits=source_of(bits)
        )
        return first[0].index

    def error_bound(self, confidence: Number, *, candidates: int) -> float:
        """Bound how far below the best score the chosen one lies, whatever the scores are.

        It holds with probability `confidence` or more, in the unit of the scores, rounded up; it is
        the least number of which that is true. Source: docs/proofs/noisy_max.md, section 4.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        candidates
            How many there are, 1 or more.

        Examples
        --------
        >>> choice = PermuteAndFlip(epsilon=1, sensitivity=1)
        >>> round(choice.error_bound(0.95, candidates=1000), 3)
        18.35
        """
        return noisy_max_loss(
            "exponential", self.scale, confidence=confidence, candidates=candidates
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(RangeCalibrated):
    r"""The `count` best candidates by score plus noise, the best first.

    Source: Durfee and Rogers 2019, Section 4.1 (Gumbel noise); Ding, Wang, Zhang, Kifer 2019,
    arXiv:1904.12773 (gaps, with Laplace noise); docs/proofs/noisy_max.md, sections 2 and 3.

    Parameters
    ----------
    epsilon
        The cost of all answers together under pure privacy.
    count
        How many candidates are chosen, 1 or more.
    noise
        "gumbel" or "exponential", see the module for which is better.
    sensitivity, monotone
        As for `Exponential`.
    grid_log2
        Gaps are multiples of 2^grid_log2, by default about a millionth of the scale.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> best = TopK(epsilon=3, sensitivity=1, count=3)
    >>> best.event
    Repeated(event=Exponential(epsilon=Fraction(1, 1)), count=3)
    >>> best.release([0, 300, 200, 5, 100], bits=SeededBits(1))
    array([1, 2, 4])
    >>> lead = TopK(epsilon=1, sensitivity=1, count=1, noise="exponential", grid_log2=0)
    >>> lead.event
    Pure(epsilon=1)
    >>> indices, gaps = lead.release_with_gaps([0, 1000, 200], bits=SeededBits(1))
    >>> indices, bool(750 < gaps[0] < 850)
    (array([1]), True)
    """

    epsilon: Real
    sensitivity: Real
    count: int
    noise: Noise = "gumbel"
    monotone: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        check_selection(
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            monotone=self.monotone,
            count=self.count,
        )
        checks.choice(get_args(Noise), noise=self.noise)
        grid, _ = grid_ratio("sensitivity", self.scale, self.grid_log2)
        object.__setattr__(self, "grid_log2", grid)

    @classmethod
    def for_guarantee(cls, guarantee: PureDP | ZCDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a guarantee, with the better noise by default.

        PureDP: exponential noise; ZCDP: Gumbel noise at epsilon sqrt(8 count rho), rounded down at
        the 15th digit.

        Parameters
        ----------
        guarantee
            A PureDP or ZCDP.
        **parameters
            Those of the class, but for epsilon.

        Raises
        ------
        InvalidParameter
            For another guarantee, and for ZCDP with exponential noise.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import ZCDP
        >>> TopK.for_guarantee(ZCDP(0.5), count=4, sensitivity=1).epsilon
        4
        """
        pure = isinstance(guarantee, PureDP)
        noise = parameters.setdefault("noise", "exponential" if pure else "gumbel")
        if isinstance(guarantee, ZCDP):
            checks.demand(noise == "gumbel", "noise", noise, expected="'gumbel', for ZCDP")
            guarantee = guarantee * checks.positive_integer(count=parameters["count"])
        return super(TopK, cls).for_guarantee(guarantee, **parameters)

    @property
    def event(self) -> events.Event:
        """What one release costs, with gaps or without."""
        if self.noise == "exponential":
            return events.Pure(epsilon=self.epsilon)
        each = checks.exact("epsilon", self.epsilon) / self.count
        return events.Exponential(epsilon=each) * self.count

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return 1 / factor_of(
            self.epsilon, self.sensitivity, monotone=self.monotone, count=self.count
        )

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> NDArray[np.int64]:
        """Release the indices of the chosen candidates, the best by noisy score first.

        Parameters
        ----------
        scores
            As for `Exponential.release`, at least `count` of them.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row, count = one_row(scores, least=self.count), self.count
        first = noisy_argmax(
            row, factor=1 / self.scale, noise=self.noise, count=count, bits=source_of(bits)
        )
        return np.array([entrant.index for entrant in first], dtype=np.int64)

    def release_with_gaps(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Release the same indices, and the lead of each over the next, at no further cost.

        The last gap is that to the best candidate not chosen.

        Parameters
        ----------
        scores
            As for `Exponential.release`, more than `count` of them.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype, and with Gumbel noise, whose gaps are not free.
        """
        if self.noise != "exponential":
            raise InvalidParameter("noise", self.noise, expected="'exponential', for gaps")
        row, count, scale = one_row(scores, least=self.count + 1), self.count + 1, self.scale
        first = noisy_argmax(
            row, factor=1 / scale, noise=self.noise, count=count, bits=source_of(bits)
        )
        steps = [
            difference_in_steps(one, other, steps=scale / Fraction(2) ** self.grid_log2)
            for one, other in pairwise(first)
        ]
        indices = np.array([entrant.index for entrant in first[:-1]], dtype=np.int64)
        return indices, float_multiples(steps, self.grid_log2)

    def error_bound(self, confidence: Number, *, candidates: int) -> float:
        """Bound the loss of the worst chosen score below the `count`-th best one.

        It holds for all scores with probability `confidence` or more, in the unit of the scores,
        rounded up. Source: docs/proofs/noisy_max.md, section 4.

        Parameters
        ----------
        confidence
            Between 0 and 1.
        candidates
            How many there are, `count` or more.

        Examples
        --------
        >>> best = TopK(epsilon=3, sensitivity=1, count=3)
        >>> round(best.error_bound(0.95, candidates=1000), 3)
        20.962
        """
        return noisy_max_loss(
            self.noise,
            self.scale,
            confidence=confidence,
            candidates=candidates,
            count=self.count,
        )
