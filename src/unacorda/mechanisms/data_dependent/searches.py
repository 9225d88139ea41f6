r"""Searches on a public grid for the first point whose removal loss is about a target.

Losses decrease along the grid. The last point is not tested; it is the answer if no other is. Let m
be the number of points, t the target, l_i the loss at point i. What is proved of an answer i, with
probabilities from the law of the noise (docs/proofs/adaptive_shifted_inverse.md):

- `overshoot(t)`: l_{i-1} = 0, so that f may be at most the point before, has at most this
  probability; otherwise the answer is at most f rounded up to the grid.
- `people(t, miss)`: l_i is at most this number but for probability `miss`; otherwise f of the
  data without so many people is at most the answer (unless it is the last point).

**AboveThresholdSearch.** AboveThreshold with questions -l_i, i = 0, 1, ...: point i is taken where
l_i <= L + nu_i - rho, rho and nu_i geometric of scales s_T and s_Q. With p = e^{-1/s_T} and
q = e^{-1/s_Q}: the first point of loss 0 is passed only where rho - nu > L there, which has
probability p^{L+1} (1 - q) / (1 - p q); and a point of loss L + c or more is taken only where
some nu_j - rho >= c, of probability at most sum over rho of (1 - p) p^rho min(1, m q^{rho + c}).

**Noisy binary search** tolerates wrong answers. Bisection needs every answer right, so its noise is
that of the worst of log2 m answers. Here each point of the grid has a weight, initially the same,
and each answer changes the weights. A question is asked at the weighted median k: the loss at k - 1
or at k, minus the target, with fresh noise. With y the noisy answer, all weights after the point in
question are multiplied by e^{rate y}: a wrong answer costs a little weight, and later ones correct
it. A coin chooses between k - 1 and k, so that the median splits the weight into halves on average.
After a fixed number 2 h of questions the median of the 2 h + 1 medians is the answer.

What is proved (docs/proofs/adaptive_shifted_inverse.md, section 4): with F(d) = e^{-rate d} times
the moment generating function of the noise at the rate, and rho(d) = (1 + F(d)) / 2, the answer
has a loss before it of 0 with probability at most (m - 1) rho(target)^h, and a loss of target + d
or more with probability at most (m - 1) rho(d)^h, whatever the losses in between are.

rate = 2 / (3 scale), or 2 / (3 sigma). The number of questions is the least at which rho = 2/3
(Laplace noise) or 9/10 (Gaussian noise) is enough: it follows from the number of points, the
confidence and the kind of noise.

Questions depend on earlier answers and coins. Each adds noise to an integer of sensitivity 1, under
every neighboring relation, so the event is their composition. Source: Burnashev and Zigangirov 1974
(the median and its coin); Karp and Kleinberg 2007 (the problem, with answers that are coins near
the target).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.sparse_vector.streams import first_above
from unacorda.mechanisms.sparse_vector.threshold import SparseVector
from unacorda.numerics import least_whole
from unacorda.privacy import events

Integers: TypeAlias = NDArray[np.int64]
Real: TypeAlias = float | Fraction

MOST_PEOPLE: Final = 2**40
_STEEP: Final = Fraction(2000)
_UP: Final = 1 + 2.0**-30  # raises a probability by more than float64 has lost in it

_LAPLACE: Final = Fraction(2, 3)
_GAUSSIAN: Final = Fraction(9, 10)
_COIN: Final = 1 << 32
_SLACK: Final = 2.0**-30  # more than float64 loses in weights, and than the coin is off


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveThresholdSearch:
    """AboveThreshold from the first point upwards.

    monotone: between two neighbors all losses change in the same direction; bounded_range: monotone
    losses with the noise of the general case, for the event of the exponential mechanism. Source:
    Lyu, Su, Li 2017, Algorithm 7; docs/proofs/sparse_vector.md, Theorems 1 and 2.
    """

    epsilon: Real
    points: int
    monotone: bool
    bounded_range: bool = False

    @property
    def event(self) -> events.Event:
        """What one search costs."""
        return self._search(0).event

    def overshoot(self, target: int) -> float:
        """P(rho - nu > L), that the answer is above f rounded up to the grid, rounded up."""
        level, a, b = self._law(target)
        if level >= 0:
            return min(1.0, _UP * _both(level + 1, a, b))
        return min(1.0, _UP * (1 - _both(-level, b, a)) + 2.0**-50)

    def people(self, target: int, *, miss: float) -> int:
        """The largest loss that is found but for the probability."""
        level, a, b = self._law(target)
        asked = math.log(self.points - 1)

        def covers(c: int) -> bool:
            # Of one more than `sure` steps of rho, some of the points may be found for certain.
            sure = max(0, math.ceil(asked / b) - c)
            rest = math.exp(max(asked - b * (c + sure), -700.0))
            return _UP * (-math.expm1(-a * sure) + rest * _both(sure, a, b, a)) <= miss

        return max(level + least_whole(covers) - 1, 0)

    def choose(self, losses: Integers, *, target: int, bits: RandomBits) -> int:
        """The index of the answer."""
        search = self._search(target)
        found = search.release(-losses[:-1], bits=bits)
        return int(found[0]) if found.size else losses.size - 1

    def choose_rows(self, losses: Integers, *, target: int, bits: RandomBits) -> Integers:
        """The indices of the answers to many questions, each a row."""
        comparison = self._search(target).comparison
        found = first_above(comparison, -losses[:, :-1], bits=bits)
        return np.where(found < 0, losses.shape[1] - 1, found)

    def _search(self, target: int) -> SparseVector:
        # On whole numbers, as losses are: a grid of step 1.
        return SparseVector(
            epsilon=self.epsilon,
            sensitivity=1,
            threshold=-target,
            monotone=self.monotone or self.bounded_range,
            refresh=self.bounded_range,
            grid_log2=0,
        )

    def _law(self, target: int) -> tuple[int, float, float]:
        """L, 1 / s_T and 1 / s_Q."""
        comparison = self._search(target).comparison
        a, b = 1 / comparison.threshold_scale, 1 / comparison.query_scale
        # e^-2000 is 0 among floats: a larger rate changes nothing, and may be too large for one
        return -comparison.level, float(min(Fraction(a), _STEEP)), float(min(Fraction(b), _STEEP))


def _both(k: int, a: float, b: float, numerator: float | None = None) -> float:
    """e^{-a k} (1 - e^{-n}) / (1 - e^{-a-b}); n = b: P(rho - nu >= k) for k >= 0."""
    other = b if numerator is None else numerator
    return math.exp(max(-a * k, -700.0)) * math.expm1(-other) / math.expm1(-a - b)


def halves_of(points: int, *, miss: Fraction, gaussian: bool) -> int:
    """Half the number of questions: the least h with (points - 1) ratio^h <= miss."""
    ratio = _GAUSSIAN if gaussian else _LAPLACE
    return least_whole(lambda h: (points - 1) * ratio**h <= miss)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyBinarySearch:
    """Noisy binary search at the median of weights that adapt to the answers.

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
        """The same: half of the medians are above the first point of loss 0."""
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


Solver: TypeAlias = AboveThresholdSearch | NoisyBinarySearch
"""A way to find the point; epsilon or noise and the number of points are its fields."""
