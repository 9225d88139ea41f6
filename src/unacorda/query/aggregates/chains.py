r"""Several quantiles drawn at once, as a chain of parts that hold the right numbers of rows.

Let N be a number that is known, near the number n of rows; the share p_i of them is to lie in part
i = 1 ... k. A chain is a rising list of places e_1 <= ... <= e_(k-1), which cut the rows into parts
of n_1, ..., n_k of them (rows at a point are spread evenly over its places, as in `cuts`). It is
drawn with probability proportional to

    exp(-f loss),    loss = |n_1 - p_1 N| + ... + |n_k - p_k N|.

**Theorem.** Given N, the draws of all cells together have bounded range 2 f g, where g bounds the
number of rows that a unit brings or takes away, in all cells. *Proof.* A row lies in one part, or
by shares that add up to 1 in several, and N does not follow the data: the row moves the loss of
every chain by 1 at most, and so its log-probability, up to the normaliser. QED

So all quantiles together cost what one does that is drawn from losses of sensitivity 1. N is a
noisy count, which is paid for beside. What a budget that adds up by squares (zCDP, GDP) leaves for
each level of `splits` is more, so that there the levels are as good.

**What error is expected.** Where values hardly repeat, the errors t_i = n_i - p_i N of the parts
are independent with density proportional to exp(-f |t|), given that their sum is n - N. Under this
condition their mean is (n - N) / k, and with mu = f |n - N| / k, s = sqrt(1 + mu^2), the variance
of each is s (s + 1) / f^2: that of Laplace noise tilted to this mean. The rank of cut j is off by
(P_j - j / k) (N - n), P_j = p_1 + ... + p_j, and about this has a variance of
j (k - j) / k times that of a part; what the condition takes off is 1 / k of it, nearly.

Where many rows have one value and the grid is finer than the values, no list of places comes near
to all shares, and the loss is level over many lists: errors are then more, by a fourth or so, than
those of a tree of cuts. On a grid of the values themselves they are not.

Source: the loss with n in place of N, which a row moves by up to 2, Gillenwater, Joseph, Kulesza
2021, arXiv:2102.08244 (JointExp); McSherry and Talwar 2007; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.privacy import events
from unacorda.query.aggregates.chain_draws import chain_points
from unacorda.query.aggregates.counted import Counted
from unacorda.query.aggregates.cuts import PLACES_LOG2
from unacorda.query.aggregates.grid_counts import Aim
from unacorda.query.noise.additive import AdditiveNoise, Share, additive_noise
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.noise.sensitivity import Sensitivity, of_counts, of_vectors
from unacorda.query.schema.units import Reach

__all__ = ["Chain", "chain_moves"]

_MOST_CELLS = 256  # each takes tens of milliseconds
_MOST_CUTS = 32
_PARTS = tuple(Fraction(step, 32) for step in range(1, 13))  # of the share, for the count
_CHANCES = tuple((step + 0.5) / 32 for step in range(32))


def chain_moves(reach: Reach) -> Sensitivity:
    """How far a unit moves the largest change of a chain's loss, cell by cell.

    By 1 for each row that comes and each that goes.
    """
    return of_vectors(reach, [(1,), (-1,)], each="each moves the loss of a chain by at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The draws of all quantiles at once, the count before them, and the ends of intervals.

    wanted: rising; ends: of each wanted quantile, of either end, where bought.
    """

    wanted: tuple[Fraction, ...]
    count: AdditiveNoise
    draws: Draws
    ends: Mapping[Fraction, Draws] = field(default_factory=dict)

    @staticmethod
    def options(
        share: Share, reach: Reach, wanted: Sequence[Fraction], ends: Mapping[Fraction, Draws]
    ) -> Iterator[Chain]:
        """Chains within a share, by the part of it that counts; none where they would take long."""
        few = 1 < len(wanted) <= _MOST_CUTS and reach.cells <= _MOST_CELLS
        for part in _PARTS if few and wanted[0] > 0 and wanted[-1] < 1 else ():
            yield Chain(
                wanted=tuple(wanted),
                count=additive_noise(share * part, of_counts(reach), unit_log2=0, counts=True),
                draws=draws_for(share * (1 - part), reach, chain_moves),
                ends=ends,
            )

    @property
    def rate(self) -> Fraction:
        """The exponent that a row is worth."""
        return self.draws.mechanism.factor

    @property
    def event(self) -> events.Event:
        """What the counts and all draws of all cells together cost."""
        both = [draws.event for draws in self.ends.values() for _ in range(2)]
        return events.compose([self.count.event, self.draws.event, *both])

    @property
    def loudness(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        return math.log(math.fsum(sd**2 for sd in self.deviations.values())) / 2

    @property
    def deviations(self) -> dict[Fraction, float]:
        """By wanted quantile the root mean square of its rank error, where values hardly repeat."""
        spread, parts, f = self.count.standard_deviation, len(self.wanted) + 1, float(self.rate)
        stretched = [math.hypot(1.0, f * spread * size / parts) for size in self._sizes]
        own = math.fsum(s * (s + 1) for s in stretched) / len(stretched) / f**2 * (1 - 1 / parts)
        return {
            q: math.hypot(
                (float(q) - place / parts) * spread,
                math.sqrt(own * place * (parts - place) / parts),
            )
            for place, q in enumerate(self.wanted, start=1)
        }

    @property
    def aims(self) -> tuple[Aim, ...]:
        """Where all cuts look."""
        return tuple(Aim(q=q, scale=deviation) for q, deviation in self.deviations.items())

    @property
    def _sizes(self) -> list[float]:
        """Sizes of the count's error, evenly likely, for a standard deviation of 1."""
        if self.count.laplace:
            return [-math.log(1 - chance) / math.sqrt(2) for chance in _CHANCES]
        return [statistics.NormalDist().inv_cdf((1 + chance) / 2) for chance in _CHANCES]

    def rank_error(self, *, points: int) -> float:
        """By so many ranks at most every wanted quantile is off, with 95% probability.

        Some chain has loss |n - N|, but for shares of 2^-16 of a point's rows, so that with M
        chains a loss passes |n - N| + t with probability at most M exp(-f t): McSherry and Talwar
        2007, Theorem 6. A cut is off by max(P, 1 - P) of the loss at most.
        """
        cuts, places = len(self.wanted), float(points << PLACES_LOG2)
        chains = cuts * math.log(places + cuts) - math.lgamma(cuts + 1)
        loss = (chains + math.log(40)) / float(self.rate)
        loss += self.count.half_width(Fraction(39, 40))
        return loss * float(max(self.wanted[-1], 1 - self.wanted[0]))

    @property
    def words(self) -> str:
        """What is done."""
        epsilon = float(self.draws.mechanism.epsilon)
        return (
            f"exponential mechanism with epsilon = {epsilon:.6g} for all {len(self.wanted)} cuts "
            f"at once, after a count with {self.count}"
        )

    def points(self, counted: Counted, bits: RandomBits) -> Mapping[Fraction, NDArray[np.int64]]:
        """By quantile the points of the grid that its cut falls on, in every cell."""
        rows = counted.totals.tolist()
        found = chain_points(
            counted,
            wanted=self.wanted,
            totals=[round(total) for total in self.count.release(rows, bits=bits)],
            rate=self.rate,
            bits=bits,
        )
        return dict(zip(self.wanted, found, strict=True))
