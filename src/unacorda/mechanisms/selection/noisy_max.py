r"""Report noisy max: add noise to every score, tell whose is largest, and nothing else.

With scores that move by at most Delta between neighbours, noise of scale 2 Delta / epsilon is
enough: Laplace, Gumbel or exponential (mean 2 Delta / epsilon). Where scores are monotone, that is,
between two given neighbours all of them move the same way, half of that is.

**Why.** Let i win at noise X, against M = max over j != i of s_j + X_j. Fix all noise but X_i. On
the neighbour M' <= M + Delta and s'_i >= s_i - Delta, so i wins there too if X_i grows by 2 Delta
(monotone: by Delta, since M' - s'_i <= M - s_i + Delta both where all scores rise and where all
fall). Each of the three laws has P(X >= y + d) >= e^{-d / scale} P(X >= y) for d >= 0, so i loses
no more than a factor e^epsilon. Noise on one side serves as well as noise on two.

**Half the scale is not enough** for scores that are not monotone: the loss then reaches
2 epsilon (i falls by Delta while the others rise).

Which one? Gumbel noise is the exponential mechanism, of bounded range, which costs epsilon^2 / 8 in
zCDP; exponential noise is permute-and-flip, never worse than the exponential mechanism at the same
epsilon, but not of bounded range: between two candidates of equal score and a neighbour where
they are 2 Delta apart, the log-ratios stretch over epsilon + ln(2 - e^-epsilon). So choose by the
unit of the budget: exponential noise under pure privacy, Gumbel noise under the others. Laplace
noise is that of the textbooks, and wider than exponential noise for nothing.

Scores are compared as the exact numbers they are, with ideal continuous noise (see `contest`):
there are no ties to break, and no rounding to count.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.contest import NOISES, Noise, leaders
from unacorda.mechanisms.selection.losses import noisy_max_loss
from unacorda.mechanisms.selection.scores import Real, check_selection, factor_of, one_row
from unacorda.privacy import events

__all__ = ["PermuteAndFlip", "ReportNoisyMax", "check_noise"]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip:
    r"""Visit candidates in random order and take the first that passes a coin.

    The coin of a candidate of score s falls with probability exp(epsilon (s - best) / (2
    sensitivity)). It is drawn by exponential noise instead, which has the same law.
    epsilon, sensitivity, monotone: as for `Exponential`, the 2 dropped likewise. Never worse than
    the exponential mechanism at the same epsilon; see the module for when to prefer which.
    Source: McKenna and Sheldon 2020, arXiv:2010.12603, Algorithm 1 and Theorem 1; as exponential
    noise: Ding, Kifer, Saghaian, Steinke, Wang, Xiao, Zhang 2021, arXiv:2105.07260.

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
        """The index of the chosen candidate; scores and refusals as for `Exponential.release`."""
        return _winner(scores, 1 / self.scale, "exponential", bits)

    def loss_bound(self, confidence: Number, *, candidates: int) -> float:
        """How far below the best score the chosen one lies, at most, whatever the scores are.

        With probability `confidence` or more, in the unit of the scores, rounded up; the least
        number of which that is true.
        Source: docs/proofs/noisy_max.md, section 4.

        >>> choice = PermuteAndFlip(epsilon=1, sensitivity=1)
        >>> round(choice.loss_bound(0.95, candidates=1000), 3)
        18.35
        """
        return noisy_max_loss(
            "exponential", self.scale, confidence=confidence, candidates=candidates
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNoisyMax:
    r"""Tell whose score plus noise is largest.

    noise: of scale 2 sensitivity / epsilon, monotone half of it: "exponential" (one-sided, the
    same law as permute-and-flip), "gumbel" (the same law as the exponential mechanism) or
    "laplace"; epsilon, sensitivity, monotone: as for `Exponential`.
    Source: Dwork and Roth 2014, Claim 3.9 (monotone); Ding et al. 2021, arXiv:2105.07260; the
    module.

    >>> from unacorda.bits import SeededBits
    >>> ReportNoisyMax(noise="gumbel", epsilon=1, sensitivity=1).event
    Exponential(epsilon=1)
    >>> best = ReportNoisyMax(noise="laplace", epsilon=1, sensitivity=1, monotone=True)
    >>> best.event
    Pure(epsilon=1)
    >>> best.release([0, 100, 20], bits=SeededBits(1))
    1
    """

    epsilon: Real
    sensitivity: Real
    noise: Noise
    monotone: bool = False

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone)
        check_noise(self.noise, NOISES)

    @property
    def event(self) -> events.Pure | events.Exponential:
        """What one choice costs."""
        kind = events.Exponential if self.noise == "gumbel" else events.Pure
        return kind(epsilon=self.epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return 1 / factor_of(self.epsilon, self.sensitivity, monotone=self.monotone)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> int:
        """The index of the chosen candidate; scores and refusals as for `Exponential.release`."""
        return _winner(scores, 1 / self.scale, self.noise, bits)

    def loss_bound(self, confidence: Number, *, candidates: int) -> float:
        """How far below the best score the chosen one lies, at most, whatever the scores are.

        With probability `confidence` or more, in the unit of the scores, rounded up; the least
        number of which that is true, with Laplace noise to about a hundredth of the scale (a
        tenth at small confidence).
        Source: docs/proofs/noisy_max.md, section 4.

        >>> noise = ReportNoisyMax(noise="laplace", epsilon=1, sensitivity=1)
        >>> round(noise.loss_bound(0.95, candidates=1000), 3)
        20.171
        """
        return noisy_max_loss(self.noise, self.scale, confidence=confidence, candidates=candidates)


def check_noise(noise: str, allowed: Sequence[str]) -> None:
    """Refuse a noise that is none of the allowed."""
    if noise not in allowed:
        raise InvalidParameter("noise", noise, expected="one of " + ", ".join(map(repr, allowed)))


def _winner(
    scores: ArrayLike | Sequence[Fraction],
    factor: Fraction,
    noise: Noise,
    bits: RandomBits | None,
) -> int:
    row = one_row(scores)
    return leaders(row, factor=factor, noise=noise, count=1, bits=bits or _SECURE)[0].index
