"""Several quantiles drawn at once (Gillenwater, Joseph and Kulesza 2021).

**Drawing** a chain, exactly, from few counts (what a chain is and costs stands below). By rejection
from bins, as in `rejection_sampling`: a list of bins B_1 <= ... <= B_(k-1) is proposed, even places
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

What is refused is proposed anew, from smaller bins in place of those that were chosen.

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
to all shares, and the loss is level over many lists: errors are then more, by a fourth or so, than
those of a tree of cuts. On a grid of the values themselves they are not.

Source: the loss with n in place of N, which a row moves by up to 2, Gillenwater, Joseph, Kulesza
2021, arXiv:2102.08244 (JointExp); McSherry and Talwar 2007; proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.refine import LazyUniform, exp_bounds
from unacorda.privacy import events
from unacorda.query.aggregates.grid_counts import CHILD_BINS_LOG2, Aim, Asked, Counted, Finer
from unacorda.query.aggregates.quantile_tree import PLACES_LOG2
from unacorda.query.noise.additive import AdditiveNoise, Share, additive_noise
from unacorda.query.noise.selection import Draws, draws_for
from unacorda.query.noise.sensitivity import Sensitivity, of_counts, of_vectors
from unacorda.query.schema.units import Reach

__all__ = [
    "Chain",
    "chain_moves",
    "chain_points",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_UNIT_LOG2 = 40  # of the weights of bins
_PIECES = 64  # at most, of a bin that is cut without the engine
_FINE = 0.1  # of f times the rows of a bin: bins with more are cut before the first proposal


@dataclass(slots=True, kw_only=True)
class _Line:
    """The bins of one cell: first place, places, rows times 2^16, and the rows below, likewise."""

    cell: int
    total: int
    lows: Integers
    sizes: Integers
    weights: Integers
    before: Integers

    def cut(self, children: dict[int, tuple[Integers, Integers, Integers]]) -> None:
        """Smaller bins, by the number of the bin that they replace."""
        parts: list[tuple[Integers, Integers, Integers]] = []
        start = 0
        for place in sorted(children):
            part = slice(start, place)
            parts += [(self.lows[part], self.sizes[part], self.weights[part]), children[place]]
            start = place + 1
        parts.append((self.lows[start:], self.sizes[start:], self.weights[start:]))
        self.lows, self.sizes, self.weights = (
            np.concatenate([part[column] for part in parts]) for column in range(3)
        )
        self.before = np.cumsum(self.weights) - self.weights

    def ranks(self) -> tuple[Floats, Floats]:
        """The least and the greatest number of rows below a place of each bin."""
        unit = 2.0**-PLACES_LOG2
        last = np.where(self.across, self.weights, self.weights - self.weights // self.sizes)
        low, high = self.before * unit, (self.before + last) * unit
        return np.asarray(low), np.asarray(high)

    @property
    def rows(self) -> float:
        """How many there are."""
        return float(self.before[-1] + self.weights[-1]) * 2.0**-PLACES_LOG2

    @property
    def across(self) -> NDArray[np.bool_]:
        """Which bins have several points."""
        last = self.lows + self.sizes - 1
        return np.asarray(self.lows >> PLACES_LOG2 != last >> PLACES_LOG2)

    def pieces(self, place: int, count: int) -> tuple[Integers, Integers, Integers]:
        """A bin whose rows are spread evenly, in so many parts."""
        low, size, weight = (int(x[place]) for x in (self.lows, self.sizes, self.weights))
        lows = low + size * np.arange(count + 1, dtype=np.int64) // count
        sizes = np.diff(lows)
        there = sizes > 0
        return lows[:-1][there], sizes[there], sizes[there] * (weight // size)


@dataclass(slots=True, kw_only=True)
class _Chain:
    """A proposal: the bins and places of a cell, and what it takes to accept them.

    chance: the product of |B| V / v; normaliser: the logarithm of Z.
    """

    bins: list[int]
    places: list[int]
    chance: Fraction
    normaliser: Fraction


def chain_points(
    counted: Counted,
    *,
    wanted: Sequence[Fraction],
    totals: Sequence[int],
    rate: Fraction,
    bits: RandomBits,
) -> Integers:
    """The points of the grid that the cuts fall on, quantiles by cells; in every cell they rise.

    wanted: quantiles, rising, above 0 and below 1; totals: N of every cell; rate: f.
    """
    shares = [b - a for a, b in zip([Fraction(0), *wanted], [*wanted, Fraction(1)], strict=True)]
    lines = [
        _Line(
            cell=cell,
            total=max(totals[cell], 0),
            lows=bins.lows[there] << PLACES_LOG2,
            sizes=bins.sizes[there] << PLACES_LOG2,
            weights=bins.weights[there] << PLACES_LOG2,
            before=bins.before[there] << PLACES_LOG2,
        )
        for batch in counted.batches()
        for number, cell in enumerate(batch.cells.tolist())
        for bins in [batch.bins.of(number)]
        for there in [bins.sizes > 0]
    ]
    finer = counted.finer
    open_ = lines
    while open_:
        open_ = _cut(open_, [_coarse(line, wanted, rate) for line in open_], finer)
    found = np.empty((len(wanted), counted.cells), dtype=np.int64)
    open_ = lines
    while open_:
        chains = [_proposed(line, shares, rate, bits) for line in open_]
        ranks = _ranks(open_, chains, finer)
        refused, coarse = [], []
        for line, chain, below in zip(open_, chains, ranks, strict=True):
            if _accepted(chain, _loss(below, line, shares), rate, bits):
                found[:, line.cell] = [place >> PLACES_LOG2 for place in chain.places]
                continue
            refused.append(line)
            twice = {b for b in chain.bins if chain.bins.count(b) > 1}
            open_bins = (b for b in chain.bins if line.weights[b] or b in twice)
            coarse.append({b: _PIECES for b in open_bins if line.sizes[b] > 1})
        _cut(refused, coarse, finer)
        open_ = refused
    return found


def _coarse(line: _Line, wanted: Sequence[Fraction], rate: Fraction) -> dict[int, int]:
    """The bins near where cuts are sought whose counts leave much open, and in how many parts."""
    f, (low, high) = float(rate), line.ranks()
    reach = (10 + 3 * math.sqrt(len(wanted) + 1)) / f
    near = np.zeros(len(low), dtype=np.bool_)
    for q in wanted:
        aim = float(q) * line.total
        near |= (high > aim - reach) & (low < aim + reach)
    parts = np.minimum(np.ceil((f / _FINE) * (high - low)), _PIECES)
    heavy = np.flatnonzero(near & (parts > 1) & (line.sizes > 1))
    return dict(zip(heavy.tolist(), parts[heavy].astype(int).tolist(), strict=True))


def _cut(
    lines: Sequence[_Line], coarse: Sequence[dict[int, int]], finer: Finer | None
) -> list[_Line]:
    """Smaller bins in place of these; the lines whose bins may have to be cut again."""
    asked = []
    for number, (line, places) in enumerate(zip(lines, coarse, strict=True)):
        across = line.across
        asked += [(number, place) for place in places if across[place] and line.weights[place]]
    counted = dict(zip(asked, _children(lines, asked, finer), strict=True))
    again = []
    for number, (line, places) in enumerate(zip(lines, coarse, strict=True)):
        if not places:
            continue
        children = {
            place: counted[number, place]
            if (number, place) in counted
            else line.pieces(place, count)
            for place, count in places.items()
        }
        if any((number, place) in counted for place in places):
            again.append(line)
        line.cut(children)
    return again


def _children(
    lines: Sequence[_Line], asked: Sequence[tuple[int, int]], finer: Finer | None
) -> list[tuple[Integers, Integers, Integers]]:
    """Of bins with several points, counts by smaller bins; empty ones side by side are one."""
    if not asked:
        return []
    assert finer is not None
    question = _question(lines, asked, None)
    answer = finer(question)
    found = []
    order = np.argsort(answer.lines, kind="stable")
    ends = np.searchsorted(answer.lines[order], np.arange(len(asked) + 1))
    for number in range(len(asked)):
        first, last = question.lows[number], question.highs[number]
        lows = np.arange(first, last + 1, 1 << question.shifts[number], dtype=np.int64)
        counts = np.zeros(len(lows), dtype=np.int64)
        rows = order[ends[number] : ends[number + 1]]
        counts[answer.children[rows]] = answer.counts[rows]
        begins = np.flatnonzero((counts > 0) | (np.concatenate([[1], counts[:-1]]) > 0))
        lows, counts = lows[begins], counts[begins]
        sizes = np.diff(np.append(lows, last + 1))
        found.append((lows << PLACES_LOG2, sizes << PLACES_LOG2, counts << PLACES_LOG2))
    return found


def _question(
    lines: Sequence[_Line], asked: Sequence[tuple[int, int]], points: Sequence[int] | None
) -> Asked:
    """What the engine is asked of bins; points: around which it counts, else their first ones."""
    firsts, lasts = [], []
    for number, place in asked:
        low, size = int(lines[number].lows[place]), int(lines[number].sizes[place])
        firsts.append(low >> PLACES_LOG2)
        lasts.append((low + size - 1) >> PLACES_LOG2)
    return Asked(
        cells=[lines[number].cell for number, _ in asked],
        lows=firsts,
        highs=lasts,
        shifts=[
            max((last - first).bit_length() - CHILD_BINS_LOG2, 0)
            for first, last in zip(firsts, lasts, strict=True)
        ],
        points=firsts if points is None else points,
    )


# ---- proposals


def _ahead(line: _Line, shares: Sequence[Fraction], rate: float) -> list[Floats]:
    """The logarithm of b_j by bin, for every cut j.

    Ranks are counted from where each cut is sought, so that numbers that matter are small.
    """
    low, high = line.ranks()
    sizes, every = np.log(line.sizes), np.arange(len(low))
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


def _rounded(line: _Line, rate: float) -> float:
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


def _proposed(line: _Line, shares: Sequence[Fraction], rate: Fraction, bits: RandomBits) -> _Chain:
    f, (low, high) = float(rate), line.ranks()
    sizes, ahead = np.log(line.sizes), _ahead(line, shares, f)
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
        size = int(line.sizes[at])
        chain.bins.append(at)
        chain.places.append(int(line.lows[at]) + bits.below(size))
        chain.chance *= Fraction(size * whole, int(weights[chosen]))
        rank_low, rank_high = float(low[at]), float(high[at])
    return chain


def _ranks(
    lines: Sequence[_Line], chains: Sequence[_Chain], finer: Finer | None
) -> list[list[int] | None]:
    """Of every line the rows below its places, times 2^16; None where places do not rise."""
    asked, points = [], []
    found: list[list[int] | None] = []
    for number, (line, chain) in enumerate(zip(lines, chains, strict=True)):
        if any(a > b for a, b in itertools.pairwise(chain.places)):
            found.append(None)
            continue
        across, ranks = line.across, []
        for at, place in zip(chain.bins, chain.places, strict=True):
            weight, size = int(line.weights[at]), int(line.sizes[at])
            if across[at] and weight:
                asked.append((number, at))
                points.append(place)
            inside = 0 if across[at] else weight // size * (place - int(line.lows[at]))
            ranks.append(int(line.before[at]) + inside)
        found.append(ranks)
    if not asked:
        return found
    assert finer is not None
    answer = finer(_question(lines, asked, [place >> PLACES_LOG2 for place in points]))
    below, level = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64)
    np.add.at(below, answer.lines, answer.below)
    np.add.at(level, answer.lines, answer.level)
    told = iter(zip(points, below.tolist(), level.tolist(), strict=True))
    for line, chain, known in zip(lines, chains, found, strict=True):
        across = line.across
        for number, at in enumerate(chain.bins if known is not None else []):
            if known is not None and across[at] and line.weights[at]:
                place, under, here = next(told)
                within = place & ((1 << PLACES_LOG2) - 1)
                known[number] += (under << PLACES_LOG2) + here * within
    return found


def _loss(ranks: Sequence[int] | None, line: _Line, shares: Sequence[Fraction]) -> Fraction | None:
    """In rows; None where the places do not rise."""
    if ranks is None:
        return None
    ends = [0, *ranks, int(line.before[-1] + line.weights[-1])]
    parts = [b - a for a, b in itertools.pairwise(ends)]
    return sum(
        (
            abs(Fraction(part, 1 << PLACES_LOG2) - share * line.total)
            for part, share in zip(parts, shares, strict=True)
        ),
        Fraction(0),
    )


def _accepted(chain: _Chain, loss: Fraction | None, rate: Fraction, bits: RandomBits) -> bool:
    """A coin that shows heads with probability chance e^(-rate loss) / Z, exactly."""
    if loss is None:
        return False
    exponent = -rate * loss - chain.normaliser
    top, bottom = chain.chance.numerator, chain.chance.denominator
    word = int(bits.words(1)[0])
    near = math.exp(min(float(exponent) + math.log(top) - math.log(bottom), 0.0))
    if abs(word * 2.0**-64 - near) > 2.0**-40 * (64 - float(exponent)):
        return word * 2.0**-64 < near
    uniform = LazyUniform(word, length=64, bits=bits)
    while True:
        places = uniform.places + top.bit_length()
        low, high = exp_bounds(exponent, places)
        spare = places - uniform.length
        if (uniform.value + 1) * bottom << spare <= top * low:
            return True
        if uniform.value * bottom << spare >= top * high:
            return False
        uniform.extend()


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
    def log_scale(self) -> float:
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
