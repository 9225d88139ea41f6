r"""Stability-based selection: the best candidate if it has a large lead, else nothing.

The price is (epsilon, delta), however many candidates there are. Let Delta bound how far one score
moves between neighbors x, x', and D = 2 Delta, or Delta where scores are monotone (between two
given neighbors all move the same way). With g the gap from the best score to the second, and j
the level max(1, ceil(g / D)), the best candidate i (the first of those with the largest score) is
released with probability pi_j, else None, where pi_0 = 0 and

    pi_{j+1} = min(e^epsilon pi_j + delta, 1 - e^-epsilon (1 - pi_j - delta), 1),

the probabilities with which `PartitionSelection` keeps a key of j people.

**Theorem.** This is (epsilon, delta)-DP. Where scores may take any values, no (epsilon, delta)-DP
rule that only ever names a candidate of largest score releases with a larger probability at any
gap that is no multiple of D.

*Proof.* Lemma: if x and x' have different best candidates i and i', then g + g' <= D. For
s_i - s_i' >= g and s'_i' - s'_i >= g', so g + g' <= (s_i - s'_i) + (s'_i' - s_i'), and both
brackets are at most Delta; monotone, one is at most Delta and the other at most 0. If they have the
same best, |g - g'| <= D: the best score and the second each move by at most Delta, monotone the
same way.
Different best: both levels are 1, and pi_1 = delta. For any set S of answers, P(S) <= P(i) + P(None
in S) <= delta + P'(S), since P(None) = P'(None) = 1 - delta. Same best: the levels differ by at
most 1, the answers are i and None, and for two answers (epsilon, delta)-DP says just
pi_{j+1} <= e^epsilon pi_j + delta and 1 - pi_j <= e^epsilon (1 - pi_{j+1}) + delta; the recursion
takes the largest number that both allow. (The other two follow as pi_j <= pi_{j+1}.)
Largest: let a rule name i with probability r at a gap of level j. Move the scores in steps of
Delta, i down and all others up (monotone: only i down). After j - 1 steps the gap is in (0, D),
after one more i is not best, and is named with probability 0 = pi_0. No step allows more than the
recursion, so r <= pi_j. QED

pi_j rises from 0 to 1: it is the rule "release iff level + noise > threshold" for geometric noise
cut off on both sides, which meets delta exactly. The well-known rule
"g / D + Lap(1 / epsilon) > ln(1 / delta) / epsilon" is not (epsilon, delta)-DP for epsilon > ln 2:
at g = D, where the best may change, it releases with probability e^epsilon delta / 2. Its right
threshold is 1 + ln(1 / (2 delta)) / epsilon; it then releases no more often than pi_j at any gap.

Source: Thakurta and Smith 2013 (distance to instability); Chaudhuri, Hsu, Song 2014,
arXiv:1409.2177 (large margins); Desfontaines, Voss, Gipson, Mandayam 2022, arXiv:2006.03684,
Theorem 1 (the recursion, there for counts of people); proved here for gaps.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.mechanisms.noise.error_bounds import confident
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.mechanisms.protocol import ApproxCalibrated
from unacorda.mechanisms.selection.scores import Real, check_selection, exact_score, one_row
from unacorda.numerics import least_whole
from unacorda.privacy import events
from unacorda.privacy.rounding import float_above


@dataclass(frozen=True, slots=True, kw_only=True)
class StableSelection(ApproxCalibrated):
    """Release the candidate of largest score if its lead is large enough, else None.

    The leader is always released if its lead is at least about 2 sensitivity (1 + 2 ln(1 / delta) /
    epsilon), or half of that for monotone scores. The module has the rule and its proof.

    Source: Thakurta and Smith 2013; Desfontaines, Voss, Gipson, Mandayam 2022, arXiv:2006.03684,
    Theorem 1.

    Parameters
    ----------
    epsilon, sensitivity, monotone
        As for `Exponential`.
    delta
        Above 0, below 1.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> leader = StableSelection(epsilon=1, delta=1e-6, sensitivity=1)
    >>> leader.event
    Approximate(epsilon=1, delta=1e-06)
    >>> leader.release([500, 20, 3], bits=SeededBits(1))
    0
    >>> leader.release([500, 499, 3], bits=SeededBits(1)) is None
    True
    """

    epsilon: Real
    delta: Real
    sensitivity: Real
    monotone: bool = False

    def __post_init__(self) -> None:
        check_selection(epsilon=self.epsilon, sensitivity=self.sensitivity, monotone=self.monotone)
        _ = self.rule

    @property
    def event(self) -> events.Approximate:
        """What one release costs."""
        return events.Approximate(epsilon=self.epsilon, delta=self.delta)

    @property
    def rule(self) -> PartitionSelection:
        """The coin for each level of the lead."""
        return PartitionSelection(epsilon=self.epsilon, delta=self.delta)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> int | None:
        """Release the index of the best candidate, or None.

        Parameters
        ----------
        scores
            As for `Exponential.release`. The candidates are public. A single one is always
            released.
        bits
            By default a secure source.

        Returns
        -------
        int or None
            None if the lead is too small.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row, rule = one_row(scores), self.rule
        best = int(np.argmax(row))
        level = rule.sure_from
        if row.size > 1:
            level = min(self._level(exact_score(row[best]) - _largest_but(row, best)), level)
        # The coin is tossed also where nothing depends on it.
        return best if rule.release_array([level], bits=source_of(bits))[0] else None

    def probability(self, lead: Real) -> Fraction:
        """Compute the probability that the best candidate is released.

        Parameters
        ----------
        lead
            Its lead over the second, 0 or above, in the unit of the scores.

        Returns
        -------
        Fraction
            The probability, exactly.

        Raises
        ------
        InvalidParameter
            For a negative lead.

        Examples
        --------
        >>> leader = StableSelection(epsilon=1, delta=1e-6, sensitivity=1)
        >>> [round(float(leader.probability(lead)), 6) for lead in (1, 20, 30, 55)]
        [1e-06, 0.012818, 0.889595, 1.0]
        """
        gap = checks.exact("lead", lead)
        checks.demand(gap >= 0, "lead", lead, expected="a number, 0 or above")
        return self.rule.probability(min(self._level(gap), self.rule.sure_from))

    def lead_bound(self, confidence: Number) -> float:
        """Compute the lead at which the best candidate is released with this probability.

        It is tight except for rounding. A released candidate always has the best score, so there is
        no loss to bound.

        Parameters
        ----------
        confidence
            The probability.

        Returns
        -------
        float
            In the unit of the scores, rounded up.

        Raises
        ------
        InvalidParameter
            For a probability out of its range.

        Examples
        --------
        >>> leader = StableSelection(epsilon=1, delta=1e-6, sensitivity=1)
        >>> leader.lead_bound(0.95)
        30.0
        """
        wanted, rule = confident(confidence), self.rule
        most = rule.sure_from
        first = least_whole(lambda lead: rule.probability(min(lead, most)) >= wanted, start=1)
        return float_above((first - 1) * self._step())

    def _level(self, gap: Fraction) -> int:
        return max(ceil(gap / self._step()), 1)

    def _step(self) -> Fraction:
        """By how much a lead can move."""
        return checks.exact("sensitivity", self.sensitivity) * (1 if self.monotone else 2)


def _largest_but(row: NDArray[Any], best: int) -> Fraction:
    """The largest score, leaving one candidate out."""
    parts = [part.max() for part in (row[:best], row[best + 1 :]) if part.size]
    return max(exact_score(part) for part in parts)
