"""Several quantiles drawn at once (Gillenwater, Joseph and Kulesza 2021).

**Drawing** a chain, exactly, from few counts (what a chain is and costs stands below). By rejection
from bins, as in `grid`: a list of bins B_1 <= ... <= B_(k-1) is proposed, even places
in them, and these are accepted with a probability that makes up for the difference. Let K_i be an
upper bound on exp(-f |n_i - p_i N|) over the places of two bins that follow each other, from their
counts, and b_j(B) one on what the rest of the chain weighs, from B_j = B on:

    b_j(B) >= sum over B' >= B of |B'| K_(j+1)(B, B') b_(j+1)(B').

B_j is chosen with probability v_j(B_j) / V_j, where v_j is |B_j| K_j b_j in whole numbers of some
unit, rounded up, and V_j the sum of them. The places are accepted with probability

    exp(-f loss) product of |B_j| V_j / v_j(B_j), divided by Z,

with Z the first V_1 in that unit, rounded up. By the inequality that is at most 1, and times the
probability of the proposal it is exp(-f loss) / Z whatever was proposed: the law is exact, though
b_j are doubles. Errors of their computation, of at most 2^-50 of a number's size for each bin that
is added up, are added to them (`raised` below). K_j falls off on both sides of a stretch where it
is 1, so that all b_j of a cut are found in three sums over the bins.

What is refused is proposed anew, from smaller bins in place of those that were chosen. At first
places far from where any cut is sought are put together in few bins.

**A chain** is made of parts that hold the right numbers of rows. Let N be a number that is known,
near the number n of rows; the share p_i of them is to lie in part i = 1 ... k. A chain is a rising
list of places e_1 <= ... <= e_(k-1), which cut the rows into parts of n_1, ..., n_k of them (rows
at a point are spread evenly over its places, as in `quantile_tree`). It is drawn with probability
proportional to

    exp(-f loss),    loss = |n_1 - p_1 N| + ... + |n_k - p_k N|.

**Theorem.** Given N, the draws of all cells together have bounded range 2 f g, where g bounds the
number of rows that a unit brings or takes away, in all cells. *Proof.* A row lies in one part, or
by shares that add up to 1 in several, and N does not follow the data: the row moves the loss of
every chain by 1 at most, and so its log-probability, up to the normaliser. QED

So all quantiles together cost what one does that is drawn from losses of sensitivity 1. N is a
noisy count, which is paid for beside. What a budget that adds up by squares (zCDP, GDP) leaves for
each level of `quantile_tree` is more, so that there the levels are as good.

**What error is expected.** Where values hardly repeat, the errors t_i = n_i - p_i N of the parts
are independent with density proportional to exp(-f |t|), given that their sum is n - N. Under this
condition their mean is (n - N) / k, and with mu = f |n - N| / k, s = sqrt(1 + mu^2), the variance
of each is s (s + 1) / f^2: that of Laplace noise tilted to this mean. The rank of cut j is off by
(P_j - j / k) (N - n), P_j = p_1 + ... + p_j, and about this has a variance of
j (k - j) / k times that of a part; what the condition takes off is 1 / k of it, nearly.

Where many rows have one value and the grid is finer than the values, no list of places comes near
to all shares, and the loss is level over many lists: there is less to gain over a tree of cuts.

Source: the loss with n in place of N, which a row moves by up to 2, Gillenwater, Joseph, Kulesza
2021, arXiv:2102.08244 (JointExp); McSherry and Talwar 2007; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.refinement import LazyUniform
from unacorda.privacy import events
from unacorda.query.aggregates.grid import Floats, GridCounts, Integers, PlaceBins, is_below
from unacorda.query.aggregates.quantile_tree import PLACES_LOG2, QuantileDraws, row_weight, spread
from unacorda.query.noise.additive import (
    AdditiveNoise,
    Sensitivity,
    Share,
    additive_noise,
    of_counts,
    of_vectors,
)
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.schema.units import Reach

_UNIT_LOG2 = 40  # of the weights of bins
_PIECES = 64  # at most, that a bin is cut into
_ROUNDS = 4  # of cutting beforehand
_FINE = 0.1  # of f times the rows of a bin about where a cut is sought
_NEAR = 10.0  # of f times the ranks that are so near
_GROWING = 4.0  # bins further away hold a fourth of the distance


@dataclass(slots=True, kw_only=True)
class _ChainCell:
    """The places of one cell, and the bins that its cuts are proposed from.

    stretches: of places among which rows are spread evenly; starts: those that bins begin with.
    """

    cell: int
    total: int
    stretches: PlaceBins
    starts: Integers

    @staticmethod
    def of(
        cell: int, bins: PlaceBins, total: int, wanted: Sequence[Fraction], rate: Fraction
    ) -> _ChainCell:
        """Bins that are the finer, the nearer they are to where a cut is sought."""
        stretches = spread(bins.of(bins.sizes > 0))
        starts = np.arange(len(stretches.lows))
        line = _ChainCell(cell=cell, total=total, stretches=stretches, starts=starts)
        for _ in range(_ROUNDS):
            low, high = (_fineness(ranks, line, wanted, float(rate)) for ranks in line.ranks())
            pieces = np.ceil(np.minimum(high - low, _PIECES)).astype(np.int64)
            line.cut(np.clip(pieces, 1, line.stretches.sizes))
            line.starts = np.arange(len(line.stretches.lows))
        steps = np.floor(_fineness(line.ranks()[0], line, wanted, float(rate)))
        line.starts = np.flatnonzero(np.diff(steps, prepend=-np.inf) > 0)
        return line

    def cut(self, pieces: Integers) -> None:
        """Stretches in so many pieces each, every one a bin."""
        if (pieces == 1).all():
            return
        first, of = np.cumsum(pieces) - pieces, np.repeat(np.arange(len(pieces)), pieces)
        number = np.arange(len(of)) - first[of]
        cut = np.flatnonzero(pieces[of] > 1)
        # What follows the pieces is another bin.
        after = first[np.flatnonzero(pieces[:-1] > 1) + 1]
        self.starts = np.unique(np.concatenate([first[self.starts], cut, after]))
        lows, sizes, weights, before = self.stretches.of(of)
        starts, ends = (sizes * count // pieces[of] for count in (number, number + 1))
        level = weights // sizes
        self.stretches = PlaceBins(
            lows + starts, ends - starts, level * (ends - starts), before + level * starts
        )

    def refine(self, chosen: Iterable[int]) -> None:
        """Smaller bins in place of some that were refused."""
        sizes, starts = self.stretches.sizes, [self.starts]
        ends, pieces = np.append(self.starts[1:], len(sizes)), np.ones_like(sizes)
        for number in set(chosen):
            start, end = int(self.starts[number]), int(ends[number])
            if end - start > 1:
                starts.append(start + (end - start) * np.arange(1, _PIECES) // _PIECES)
            else:
                pieces[start] = min(_PIECES, int(sizes[start]))
        self.starts = np.unique(np.concatenate(starts))
        self.cut(pieces)

    def ranks(self) -> tuple[Floats, Floats]:
        """The least and the greatest number of rows below a place of each bin."""
        unit = 1 / row_weight()
        _, sizes, weights, before = self.stretches
        last = np.append(self.starts[1:], len(sizes)) - 1
        most = before[last] + weights[last] - weights[last] // sizes[last]
        return np.asarray(before[self.starts] * unit), np.asarray(most * unit)

    def rank(self, place: int) -> int:
        """The weight of the rows below a place."""
        at = int(np.searchsorted(self.stretches.lows, place, side="right")) - 1
        low, size, weight, before = map(int, self.stretches.of(at))
        return before + weight // size * (place - low)

    @property
    def places(self) -> Integers:
        """How many each bin has."""
        lows, sizes, _, _ = self.stretches
        return np.diff(np.append(lows[self.starts], lows[-1] + sizes[-1]))

    @property
    def weight(self) -> int:
        """Of all rows."""
        return int(self.stretches.before[-1] + self.stretches.weights[-1])

    @property
    def rows(self) -> float:
        """How many there are."""
        return float(self.weight) / row_weight()


def _fineness(ranks: Floats, line: _ChainCell, wanted: Sequence[Fraction], rate: float) -> Floats:
    """A number that rises with the rank, by 1 from each bin to the next.

    Bins about where a cut is sought hold `_FINE` / f rows, and further off a share of the distance.
    """
    # Where N is off, all parts may be so on its side: cuts lie as well anywhere in between.
    spare = line.rows - line.total
    first = np.array([float(q) * line.total + min(spare, 0.0) for q in wanted]) * rate
    last = first + abs(spare) * rate
    apart = first[1:] > last[:-1]
    first, last = first[np.append(True, apart)], last[np.append(apart, True)]

    def beyond(far: Floats) -> Floats:
        near = np.minimum(far, _NEAR) / _FINE
        return near + np.log1p(np.maximum(far - _NEAR, 0) / (_FINE * _GROWING)) * _GROWING

    gaps = first[1:] - last[:-1]
    spans = np.append((last - first) / _FINE, 0.0)[:-1]
    starts = np.append(0.0, np.cumsum(spans[:-1] + 2 * beyond(gaps / 2)))
    x = ranks * rate
    at = np.searchsorted(first, x, side="right") - 1
    own = np.maximum(at, 0)
    past = np.maximum(x - last[own], 0)
    half = np.append(gaps, np.inf)[own] / 2
    inside = starts[own] + np.minimum(x - first[own], last[own] - first[own]) / _FINE
    found = inside + beyond(np.minimum(past, half))
    rest = np.where(past > half, 2 * half - past, 0.0)
    found += np.where(past > half, beyond(half) - beyond(np.maximum(rest, 0.0)), 0.0)
    return np.where(at < 0, -beyond(np.maximum(first[0] - x, 0.0)), found)


@dataclass(slots=True, kw_only=True)
class _Chain:
    """A proposal: the bins and places of a cell, and what it takes to accept them.

    chance: the product of |B| V / v; normaliser: the logarithm of Z.
    """

    bins: list[int]
    places: list[int]
    chance: Fraction
    normaliser: Fraction


def chain_places(
    counted: GridCounts,
    slots: Integers,
    *,
    wanted: Sequence[Fraction],
    totals: Sequence[int],
    rate: Fraction,
    bits: RandomBits,
) -> Integers:
    """The places of the grid that the cuts fall on, quantiles by cells; in every cell they rise.

    slots: those of a grid; wanted: quantiles, rising, above 0 and below 1; totals: N of every cell;
    rate: f.
    """
    shares = [b - a for a, b in zip([Fraction(0), *wanted], [*wanted, Fraction(1)], strict=True)]
    open_ = [
        _ChainCell.of(cell, bins.of(number), max(totals[cell], 0), wanted, rate)
        for cells, bins in counted.batches(slots)
        for number, cell in enumerate(cells.tolist())
    ]
    found = np.empty((len(wanted), counted.cells), dtype=np.int64)
    while open_:
        refused = []
        for line in open_:
            chain = _proposed(line, shares, rate, bits)
            if _accepted(chain, _loss(chain, line, shares), rate, bits):
                drawn = [place >> PLACES_LOG2 for place in chain.places]
                found[:, line.cell] = np.searchsorted(slots, drawn, side="right") - 1
            else:
                line.refine(chain.bins)
                refused.append(line)
        open_ = refused
    return found


# ---- proposals


def _ahead(line: _ChainCell, shares: Sequence[Fraction], rate: float) -> list[Floats]:
    """The logarithm of b_j by bin, for every cut j.

    Ranks are counted from where each cut is sought, so that numbers that matter are small.
    """
    low, high = line.ranks()
    sizes, every = np.log(line.places), np.arange(len(low))
    aims = [float(share) * line.total for share in shares]
    starts = np.cumsum([0.0, *aims])
    unit = (len(low) + 64) * 2.0**-50  # of errors, by the size of the numbers
    fixed = unit * 4_096 + _rounded(line, rate)

    def raised(found: Floats, start: float) -> Floats:
        return found + unit * (np.abs(found) + rate * (np.abs(low - start) + high - low)) + fixed

    left = line.rows - starts[-2]
    short, long = aims[-1] - (left - (low - starts[-2])), left - (high - starts[-2]) - aims[-1]
    found = [raised(-rate * np.maximum(np.maximum(short, long), 0), starts[-2])]
    for number in range(len(aims) - 2, 0, -1):
        aim, here, start = aims[number], starts[number], starts[number + 1]
        weights = sizes + found[-1]
        near = np.logaddexp.accumulate(weights + rate * (high - start))
        level = np.logaddexp.accumulate(weights)
        far = np.logaddexp.accumulate((weights - rate * (low - start))[::-1])[::-1]
        few = np.searchsorted(high, low + aim, side="left")
        many = np.searchsorted(low, high + aim, side="right")
        short = _between(near, every, few, unit) - rate * (low - here)
        right = _between(level, np.maximum(every, few), many, unit)
        long = np.append(far, -np.inf)[many] + rate * (high - here)
        found.append(raised(np.logaddexp(np.logaddexp(short, right), long), here))
    return found[::-1]


def _rounded(line: _ChainCell, rate: float) -> float:
    """More than what the rounding of ranks to doubles does to an exponent."""
    return 2.0**-47 * rate * (line.rows + line.total)


def _between(sums: Floats, first: Integers, end: Integers, unit: float) -> Floats:
    """The logarithm of what was added from `first` on, before `end`: at least so much."""
    top = sums[np.maximum(end - 1, 0)]
    before = np.where(first > 0, sums[np.maximum(first - 1, 0)], -np.inf)
    with np.errstate(divide="ignore"):
        spare = unit * (np.abs(top) + 4_096)
        part = np.log(-np.expm1(-(np.maximum(top - before, 0) + spare)))
    return np.where(end > first, top + part, -np.inf)


def _proposed(
    line: _ChainCell, shares: Sequence[Fraction], rate: Fraction, bits: RandomBits
) -> _Chain:
    f, (low, high) = float(rate), line.ranks()
    places = line.places
    sizes, ahead = np.log(places), _ahead(line, shares, f)
    chain = _Chain(bins=[], places=[], chance=Fraction(1), normaliser=Fraction(0))
    at, rank_low, rank_high = 0, 0.0, 0.0
    for number, rest in enumerate(ahead):
        aim = float(shares[number]) * line.total
        short, long = aim - (high[at:] - rank_low), low[at:] - rank_high - aim
        logs = sizes[at:] - f * np.maximum(np.maximum(short, long), 0) + rest[at:]
        top = float(logs.max())
        with np.errstate(under="ignore"):
            weights = np.floor(np.exp(logs - top) * 2.0**_UNIT_LOG2).astype(np.int64) + 1
        ends = np.cumsum(weights)
        whole = int(ends[-1])
        if not number:
            spare = (len(ahead) + 1) * (2.0**-18 + _rounded(line, f))
            normaliser = top + math.log(whole) - _UNIT_LOG2 * math.log(2) + spare
            chain.normaliser = Fraction(normaliser)
        chosen = int(np.searchsorted(ends, bits.below(whole), side="right"))
        at += chosen
        size = int(places[at])
        chain.bins.append(at)
        chain.places.append(int(line.stretches.lows[line.starts[at]]) + bits.below(size))
        chain.chance *= Fraction(size * whole, int(weights[chosen]))
        rank_low, rank_high = float(low[at]), float(high[at])
    return chain


def _loss(chain: _Chain, line: _ChainCell, shares: Sequence[Fraction]) -> Fraction | None:
    """In rows; None where the places do not rise."""
    if any(a > b for a, b in itertools.pairwise(chain.places)):
        return None
    ends = [0, *(line.rank(place) for place in chain.places), line.weight]
    parts = (Fraction(b - a, row_weight()) for a, b in itertools.pairwise(ends))
    pairs = zip(parts, shares, strict=True)
    return sum((abs(part - share * line.total) for part, share in pairs), Fraction(0))


def _accepted(chain: _Chain, loss: Fraction | None, rate: Fraction, bits: RandomBits) -> bool:
    """A coin that shows heads with probability chance e^(-rate loss) / Z, exactly."""
    if loss is None:
        return False
    exponent = -rate * loss - chain.normaliser
    log = float(exponent) + math.log(chain.chance.numerator) - math.log(chain.chance.denominator)
    word = int(bits.words(1)[0])
    near = math.exp(min(log, 0.0))
    if abs(word * 2.0**-64 - near) > 2.0**-40 * (64 - float(exponent)):
        return word * 2.0**-64 < near
    return is_below(LazyUniform(word, length=64, bits=bits), exponent, chance=chain.chance)


_MOST_CELLS = 256  # each takes some ten milliseconds, with very many rows some forty
_MOST_CUTS = 32
_PARTS = tuple(Fraction(step, 32) for step in range(1, 13))  # of the share, for the count
_CHANCES = tuple((step + 0.5) / 32 for step in range(32))


def chain_moves(reach: Reach) -> Sensitivity:
    """How far a unit moves the largest change of a chain's loss, cell by cell.

    By 1 for each row that comes and each that goes.
    """
    return of_vectors(reach, [(1,), (-1,)], each="each moves the loss of a chain by at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(QuantileDraws):
    """The draws of all quantiles at once, and the count before them."""

    count: AdditiveNoise
    draws: Draws

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
    def costs(self) -> Sequence[events.Event]:
        return [self.count.event, self.draws.event]

    @property
    def deviations(self) -> dict[Fraction, float]:
        """By wanted quantile the root mean square of its rank error, where values hardly repeat."""
        spread, parts, f = self.count.standard_deviation, len(self.wanted) + 1, float(self.rate)
        # Sizes of the count's error, evenly likely, for a standard deviation of 1.
        if self.count.laplace:
            sizes = [-math.log(1 - chance) / math.sqrt(2) for chance in _CHANCES]
        else:
            sizes = [statistics.NormalDist().inv_cdf((1 + chance) / 2) for chance in _CHANCES]
        stretched = [math.hypot(1.0, f * spread * size / parts) for size in sizes]
        own = math.fsum(s * (s + 1) for s in stretched) / len(stretched) / f**2 * (1 - 1 / parts)
        return {
            q: math.hypot(
                (float(q) - place / parts) * spread,
                math.sqrt(own * place * (parts - place) / parts),
            )
            for place, q in enumerate(self.wanted, start=1)
        }

    def rank_error(self, *, slots: int) -> float:
        """A bound on the rank error of every wanted quantile, with 95% probability.

        Some chain has loss |n - N|, but for shares of 2^-16 of a point's rows, so that with M
        chains a loss passes |n - N| + t with probability at most M exp(-f t): McSherry and Talwar
        2007, Theorem 6. A cut is off by max(P, 1 - P) of the loss at most.
        """
        cuts, places = len(self.wanted), float(slots << PLACES_LOG2)
        chains = cuts * math.log(places + cuts) - math.lgamma(cuts + 1)
        loss = (chains + math.log(40)) / float(self.rate)
        loss += self.count.half_width(Fraction(39, 40))
        return loss * float(max(self.wanted[-1], 1 - self.wanted[0]))

    @property
    def words(self) -> str:
        epsilon = float(self.draws.mechanism.epsilon)
        return (
            f"exponential mechanism with epsilon = {epsilon:.6g} for all {len(self.wanted)} cuts "
            f"at once, after a count with {self.count}"
        )

    def places(
        self, counted: GridCounts, slots: Integers, bits: RandomBits
    ) -> Mapping[Fraction, Integers]:
        """By quantile the places of the grid that its cut falls on, in every cell."""
        rows = counted.totals.tolist()
        found = chain_places(
            counted,
            slots,
            wanted=self.wanted,
            totals=[round(total) for total in self.count.release(rows, bits=bits)],
            rate=self.rate,
            bits=bits,
        )
        return dict(zip(self.wanted, found, strict=True))
