r"""The best k of many candidates, in one pass over the noisy scores, with or without their gaps.

One draw of noise for each score, of scale 2 k Delta / epsilon (monotone: k Delta / epsilon), and
the k largest noisy scores, in order:

- **Gumbel noise** is k exponential mechanisms of epsilon / k each, one after the other, each among
  those not yet chosen. The event is their composition, for the accountant to price: at a
  price rho in zCDP the noise has scale Delta sqrt(k / (2 rho)).
- **Exponential noise** costs epsilon in all, as pure privacy, and no smaller composition is known:
  for pure budgets, where its noise is the lightest. The gaps between the noisy scores, down to
  the best one not chosen, come with it at no further cost.

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

Source: Durfee and Rogers 2019, arXiv:1905.04273, Section 4.1 (Gumbel noise is peeling); Ding, Wang,
Zhang, Kifer 2019, arXiv:1904.12773 (gaps, Laplace noise); docs/proofs/noisy_max.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.checks import Number
from unacorda.mechanisms.arrays import float_multiples
from unacorda.mechanisms.rounded import grid_ratio
from unacorda.mechanisms.selection.contest import difference_in_steps, leaders
from unacorda.mechanisms.selection.losses import noisy_max_loss
from unacorda.mechanisms.selection.noisy_max import check_noise
from unacorda.mechanisms.selection.scores import Real, check_selection, factor_of, one_row
from unacorda.privacy import events

__all__ = ["NoisyMaxWithGap", "TopK", "TopKWithGaps"]

Kind: TypeAlias = Literal["gumbel", "exponential"]

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    r"""The `count` best candidates by score plus noise, the best first.

    epsilon: of all answers together under pure privacy; count: k, 1 or more; noise: "gumbel" or
    "exponential", see the module for which is better; sensitivity, monotone: as for `Exponential`.
    Source: Durfee and Rogers 2019, Section 4.1; the module.

    >>> from unacorda.bits import SeededBits
    >>> best = TopK(epsilon=3, sensitivity=1, count=3)
    >>> best.event
    Repeated(event=Exponential(epsilon=Fraction(1, 1)), count=3)
    >>> best.release([0, 300, 200, 5, 100], bits=SeededBits(1))
    array([1, 2, 4])
    >>> TopK(epsilon=3, sensitivity=1, count=3, noise="exponential").event
    Pure(epsilon=3)
    """

    epsilon: Real
    sensitivity: Real
    count: int
    noise: Kind = "gumbel"
    monotone: bool = False

    def __post_init__(self) -> None:
        check_selection(
            epsilon=self.epsilon,
            sensitivity=self.sensitivity,
            monotone=self.monotone,
            count=self.count,
        )
        check_noise(self.noise, ("gumbel", "exponential"))

    @property
    def event(self) -> events.Event:
        """What one release costs."""
        if self.noise == "exponential":
            return events.Pure(epsilon=self.epsilon)
        each = checks.exact("epsilon", self.epsilon) / self.count
        return events.Exponential(epsilon=each) * self.count

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return _scale(self)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> NDArray[np.int64]:
        """The indices of the chosen candidates, the best by noisy score first.

        scores: as for `Exponential.release`, at least `count` of them.
        """
        row = one_row(scores, least=self.count)
        first = leaders(
            row,
            factor=1 / self.scale,
            noise=self.noise,
            count=self.count,
            bits=bits or _SECURE,
        )
        return np.array([entrant.index for entrant in first], dtype=np.int64)

    def loss_bound(self, confidence: Number, *, candidates: int) -> float:
        """How far the worst of the chosen lies below the `count`-th best score, at most.

        Whatever the scores are, with probability `confidence` or more, in the unit of the scores,
        rounded up.
        Source: docs/proofs/noisy_max.md, section 4.

        >>> best = TopK(epsilon=3, sensitivity=1, count=3)
        >>> round(best.loss_bound(0.95, candidates=1000), 3)
        20.962
        """
        return _loss_bound(self, self.noise, confidence, candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxWithGap:
    r"""Tell whose score plus noise is largest, and by how much, for the price of the index.

    The noise is exponential, of scale 2 sensitivity / epsilon, monotone half of it; the gap is the
    distance to the second largest noisy score, 0 or above, as a multiple of 2^grid_log2, by
    default about a millionth of the scale. epsilon, sensitivity, monotone: as for `Exponential`.
    Source: Ding, Wang, Zhang, Kifer 2019, arXiv:1904.12773 (with Laplace noise); exponential
    noise: docs/proofs/noisy_max.md, section 3.

    >>> from unacorda.bits import SeededBits
    >>> best = NoisyMaxWithGap(epsilon=1, sensitivity=1, grid_log2=0)
    >>> best.event
    Pure(epsilon=1)
    >>> index, gap = best.release([0, 1000, 200], bits=SeededBits(1))
    >>> index, 750 < gap < 850
    (1, True)
    """

    epsilon: Real
    sensitivity: Real
    monotone: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        _set_up(self)

    @property
    def event(self) -> events.Pure:
        """What one release costs."""
        return events.Pure(epsilon=self.epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return _scale(self)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> tuple[int, float]:
        """The index of the chosen candidate and its noisy gap.

        scores: as for `Exponential.release`, at least two.
        """
        indices, gaps = _with_gaps(self, 1, scores, bits or _SECURE)
        return int(indices[0]), float(gaps[0])

    def loss_bound(self, confidence: Number, *, candidates: int) -> float:
        """How far below the best score the chosen one lies; see `PermuteAndFlip.loss_bound`."""
        return _loss_bound(self, "exponential", confidence, candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKWithGaps:
    r"""The `count` best candidates by score plus noise, and each one's gap to the next.

    epsilon: of all answers together; the noise is exponential, of scale 2 count sensitivity /
    epsilon, monotone half of it; count: 1 or more; the others as for `NoisyMaxWithGap`.
    Source: Ding, Wang, Zhang, Kifer 2019, arXiv:1904.12773 (with Laplace noise); exponential
    noise: docs/proofs/noisy_max.md, section 3.

    >>> from unacorda.bits import SeededBits
    >>> best = TopKWithGaps(epsilon=2, sensitivity=1, count=2, monotone=True, grid_log2=0)
    >>> best.event, best.scale
    (Pure(epsilon=2), Fraction(1, 1))
    >>> indices, gaps = best.release([0, 3000, 200, 1000], bits=SeededBits(1))
    >>> indices
    array([1, 3])
    """

    epsilon: Real
    sensitivity: Real
    count: int
    monotone: bool = False
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        _set_up(self)

    @property
    def event(self) -> events.Pure:
        """What one release costs."""
        return events.Pure(epsilon=self.epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a score, exactly."""
        return _scale(self)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The indices of the chosen candidates, the best first, and as many noisy gaps.

        The last gap is that to the best candidate not chosen. scores: as for
        `Exponential.release`, more than `count` of them.
        """
        return _with_gaps(self, self.count, scores, bits or _SECURE)

    def loss_bound(self, confidence: Number, *, candidates: int) -> float:
        """How far the chosen lie below the `count`-th best score; see `TopK.loss_bound`."""
        return _loss_bound(self, "exponential", confidence, candidates)


def _set_up(mechanism: NoisyMaxWithGap | TopKWithGaps) -> None:
    """Check the numbers of a mechanism that is being made, and fix its grid."""
    check_selection(
        epsilon=mechanism.epsilon,
        sensitivity=mechanism.sensitivity,
        monotone=mechanism.monotone,
        count=_count(mechanism),
    )
    grid, _ = grid_ratio("sensitivity", mechanism.scale, mechanism.grid_log2)
    object.__setattr__(mechanism, "grid_log2", grid)


def _count(mechanism: TopK | NoisyMaxWithGap | TopKWithGaps) -> int:
    return 1 if isinstance(mechanism, NoisyMaxWithGap) else mechanism.count


def _scale(mechanism: TopK | NoisyMaxWithGap | TopKWithGaps) -> Fraction:
    return 1 / factor_of(
        mechanism.epsilon,
        mechanism.sensitivity,
        monotone=mechanism.monotone,
        count=_count(mechanism),
    )


def _loss_bound(
    mechanism: TopK | NoisyMaxWithGap | TopKWithGaps,
    noise: Kind,
    confidence: Number,
    candidates: int,
) -> float:
    return noisy_max_loss(
        noise,
        mechanism.scale,
        confidence=confidence,
        candidates=candidates,
        count=_count(mechanism),
    )


def _with_gaps(
    mechanism: NoisyMaxWithGap | TopKWithGaps,
    count: int,
    scores: ArrayLike | Sequence[Fraction],
    bits: RandomBits,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    row = one_row(scores, least=count + 1)
    scale = mechanism.scale
    first = leaders(row, factor=1 / scale, noise="exponential", count=count + 1, bits=bits)
    grid = mechanism.grid_log2
    steps = [
        difference_in_steps(one, other, steps=scale / Fraction(2) ** grid)
        for one, other in pairwise(first)
    ]
    indices = np.array([entrant.index for entrant in first[:count]], dtype=np.int64)
    return indices, float_multiples(steps, grid)
