r"""A noisy search of a grid that lives with wrong answers: weights on points, moved by each answer.

Halving must have every answer right, so its noise is that of the worst of log2 m answers. Here each
point of the grid has a weight, at first the same. A question is asked at the weighted median k: the
loss at k - 1 or at k, less the target, with noise of its own. With y the noisy answer, all weights
after the point that was asked are multiplied by e^{rate y}: a wrong answer costs a little weight
and is made up for by later ones. Between k - 1 and k a coin decides, so that each side of the
median is split in halves on average. After a fixed number 2 h of questions the median of the
2 h + 1 medians is the answer.

What is proved (docs/proofs/adaptive_shifted_inverse.md, section 4): with F(d) = e^{-rate d} times
the moment generating function of the noise at the rate, and rho(d) = (1 + F(d)) / 2, the answer
has a loss before it of 0 with probability at most (m - 1) rho(target)^h, and a loss of target + d
or more with probability at most (m - 1) rho(d)^h, whatever the losses in between are.

rate = 2 / (3 scale), or 2 / (3 sigma). The number of questions is the least at which rho = 2/3
(Laplace noise) or 9/10 (Gaussian noise) is enough: it follows from the number of points, the
confidence and the kind of noise.

Questions are chosen after earlier answers and coins; each is noise added to an integer of
sensitivity 1, under every neighbouring relation, so their composition is the event.
Source: Burnashev and Zigangirov 1974 (the median and its coin); Karp and Kleinberg 2007 (the
problem, with answers that are coins near the target).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from unacorda.bits import RandomBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.data_dependent.solvers import Integers, least_whole
from unacorda.privacy import events

__all__ = ["TolerantSearch", "halves_of"]

_LAPLACE: Final = Fraction(2, 3)
_GAUSSIAN: Final = Fraction(9, 10)
_STEEP: Final = Fraction(2000)
_COIN: Final = 1 << 32
_SLACK: Final = 2.0**-30  # more than float64 loses in weights, and than the coin is off


def halves_of(points: int, *, miss: Fraction, gaussian: bool) -> int:
    """Half the number of questions: the least h with (points - 1) ratio^h <= miss."""
    ratio = _GAUSSIAN if gaussian else _LAPLACE
    return least_whole(lambda h: (points - 1) * ratio**h <= miss)


@dataclass(frozen=True, slots=True, kw_only=True)
class TolerantSearch:
    """Ask at the median of weights that follow the answers.

    noise: of one question; halves: half the number of questions, at least 1.
    """

    noise: DiscreteLaplace | DiscreteGaussian
    points: int
    halves: int

    @property
    def queries(self) -> int:
        """How many questions are asked and paid for."""
        return 2 * self.halves

    @property
    def event(self) -> events.Event:
        """What one search costs."""
        return self.noise.event * self.queries

    def overshoot(self, target: int) -> float:
        """Half of the medians are above the first point of loss 0."""
        return self._missed(target)

    def people(self, target: int, *, miss: float) -> int:
        """The largest loss that is found but for the probability."""
        return max(target + least_whole(lambda d: self._missed(d) <= miss) - 1, 0)

    def choose(self, losses: Integers, *, target: int, bits: RandomBits) -> int:
        """The index of the answer."""
        # Points from one start to the next have the same weight, e^{rate sum}; sums are exact.
        starts, sums, medians = [0], [0], []
        noise = self.noise.release_exact([0] * self.queries, bits=bits)
        for added in noise:
            median, chance = self._median(starts, sums)
            medians.append(median)
            asked = median - 1 if bits.below(_COIN) < chance * _COIN else median
            moved = int(losses[asked]) - target + added
            split = bisect.bisect_left(starts, asked + 1)
            if split == len(starts) or starts[split] > asked + 1:
                starts.insert(split, asked + 1)
                sums.insert(split, sums[split - 1])
            sums[split:] = [one + moved for one in sums[split:]]
        medians.append(self._median(starts, sums)[0])
        return sorted(medians)[self.halves]

    def _median(self, starts: list[int], sums: list[int]) -> tuple[int, float]:
        """The (lower) weighted median, and the chance that the point before it is asked.

        With weights summing to 1: P = (1/2 - weight after the median) / weight of the median.
        """
        top, rate = max(sums), self._rate
        each = [math.exp(rate * (one - top)) for one in sums]
        sizes = [end - start for start, end in pairwise([*starts, self.points])]
        half = math.fsum(one * size for one, size in zip(each, sizes, strict=True)) / 2
        left, piece = 0.0, 0
        while left + each[piece] * sizes[piece] < half and piece < len(sizes) - 1:
            left += each[piece] * sizes[piece]
            piece += 1
        inside = min(max(math.ceil((half - left) / each[piece]) - 1, 0), sizes[piece] - 1)
        median = starts[piece] + inside
        if median in (0, self.points - 1):
            return median, float(median > 0)
        right = 2 * half - left - (inside + 1) * each[piece]
        return median, (half - right) / each[piece]

    @property
    def _rate(self) -> float:
        return 2 / 3 * self._inverse

    @property
    def _inverse(self) -> float:
        """1 / scale or 1 / sigma; less noise than 1/2000 is treated as if it were that much."""
        noise = self.noise
        scale = noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma
        return float(min(1 / Fraction(scale), _STEEP))

    def _missed(self, margin: int) -> float:
        """(m - 1) rho(margin)^h, or a little more."""
        log = 2 / 9  # a discrete Gaussian is below the normal of its sigma in this
        if isinstance(self.noise, DiscreteLaplace):
            a = self._inverse
            log = 2 * _log_below(a) - _log_below(a / 3) - _log_below(5 * a / 3)
        log -= self._rate * margin
        if log >= 0:
            return 1.0
        rho = 0.5 + math.exp(max(log, -700.0)) / 2 + _SLACK
        missed = self.halves * math.log(rho) + math.log(self.points - 1)
        return min(1.0, (1 + _SLACK) * math.exp(max(missed, -700.0)))


def _log_below(a: float) -> float:
    """ln(1 - e^{-a})."""
    return math.log(-math.expm1(-a))
