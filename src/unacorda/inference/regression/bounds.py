r"""Bounds of sums, chosen from released counts: ranges of columns, radii, longest gradients, caps.

All but `find_ranges` are functions of released and public numbers, so they cost nothing. The metric
works also if a range is up to four times too wide, or if a few rows lie beyond it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.inference.records import Floats
from unacorda.inference.regression.rows import (
    GRADIENT,
    Counts,
    OctaveCounts,
    Released,
    Rows,
    Value,
    share_of,
)
from unacorda.inference.sums import ROOT_TWO, NoisySums, edges, range_of

_SEEN, _STANDS_OUT, _CERTAIN = 2.5, 3.5, 4.0
"""From how many deviations of its noise on a count is taken for one: the dearer one is that is seen
by chance, the more."""

_CUT: Final = 1.0
"""At most so many gradients are cut as the root of the number of rows times this, whatever the
noise: the move by cutting them is then a part of the sampling error that does not grow with n."""

_MEAN_SQUARE: Final = 0.72
"""Of the square of a bin's upper edge, the mean of squares within half an octave below it."""

_MEAN: Final = 0.85
"""Of a bin's upper edge, the mean within half an octave below it."""

_NEXT: Final = 5
"""Bins that are counted beyond an edge, of a tail: the noise of empty ones far out adds up."""


_HEAVIEST, _LIGHTEST, _LIGHT = 1.5, 2.5, 6.0
"""Indices of a Pareto tail beyond what counts show. Where the mean may be bent, a lighter tail than
the second is not believed, as what few rows add lies where noise hides them."""

_HIDDEN: Final = 0.6
"""Deviations of their noise that rows beyond what counts show are taken to be more."""

_APART: Final = 4.0
"""Rows of a tail, in deviations of the noise of the sum of their directions, for a pull to show."""

_CHANCE: Final = 1.5
"""Deviations of the squared length under independent signs from which on a pull is seen."""

_ONE_SIDED, _HEAVY = 2.5, 3.0
"""Deviations under independent signs from which on the farthest residuals have one sign, and the
index of their tail from which on this matters little: few rows then hold little of the sum."""

_OUTER: Final = 0.13
"""The largest share of rows that is a tail."""

_UNSETTLED: Final = (1.5, 4.0)
"""The variance of the sum of directions of the longer half over that of coins, as coefficients are
not at the end of the steps yet: where people are many, and where they are few for the features."""

_UNSETTLED_SCORES: Final = 2.0
"""The factor of the variance of scores of far rows where people are few, as above."""

_FAR_ONE_WAY, _HALF_ONE_WAY = 0.3, 0.04
"""Parts of the far gradients and of the longer half that point one way, from which on a line is
taken for bent."""

_OF_SKEWNESS, _MORE_THAN_SKEWED = 0.35, 0.2
"""The part of the far gradients that points one way because scores are skewed, at skewness 1, and
the further part from which on a mean is taken for bent."""

_FAR_WIDER: Final = 2.0
"""The mean square of gradients over that of the model from which on scores are taken for skewed."""

_ONE_WAY: Final = 0.7
"""The least part of the farthest gradients that is then taken to point one way: farther out than
directions are asked for, it is larger."""

_FARTHER_OUT, _FAR_SCORE = 5.0, 0.5
"""The mean score in one direction that is then assumed of the farthest rows: a multiple of that of
all far rows, and at most this part of the standard deviation of a score."""

_CHEAP_LEVEL: Final = 0.05
"""Noise of the mean square of gradients, of that mean, that a larger bound of it may cost."""

_CHEAP, _DEAR, _DEAREST = 0.3, 0.7, 1.5
"""Noise of steps, of the sampling error of a coefficient, that a larger bound may always cost, that
it costs where gradients pull, and that it may cost there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Released counts of rows beyond each radius, by the squares of radii, rising."""

    squares: Floats
    beyond: Floats

    def at(self, square_radius: float) -> float:
        """About the number of rows beyond a radius."""
        return float(np.interp(square_radius, self.squares, np.maximum(self.beyond, 0.0)))

    def end(self, people: float) -> float:
        """The square of the radius beyond which no more than so many rows lie."""
        out = np.nonzero(self.beyond > people)[0]
        return float(self.squares[min(out[-1] + 1, len(self.squares) - 1)] if len(out) else 0.0)


def tail_of(rows: Rows, *, share: float) -> tuple[Tail, float]:
    """Counts of |a|^2 by quarter octaves, and the deviation of the noise in each.

    Only visible bins are kept, as the noise of many empty bins adds up.
    """
    asked = OctaveCounts(
        of=lambda row: row.square,
        first=rows.size * 2.0**-0.5,
        per_octave=4,
        bins=35,
        share=share_of(share),
    )
    (found,) = rows.ask(asked)
    far = np.where(found.counts > _SEEN * found.deviation, found.counts, 0.0)
    return Tail(squares=found.edges, beyond=np.cumsum(far[::-1])[::-1][1:]), found.deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Counts of lengths by half octaves up to a top, where longer ones are counted too.

    deviation: that of the noise of a bin; the last is two bins, and has the noise of both.
    """

    edges: Floats
    counts: Floats
    deviation: float

    @property
    def deviations(self) -> Floats:
        """The deviation of the noise of each bin."""
        found = np.full(len(self.counts), self.deviation)
        found[-1] *= math.sqrt(2)
        return found

    @property
    def mean_square(self) -> float:
        """The mean of squares of lengths, up to the first bin that does not stand out."""
        seen = self.counts > _SEEN * self.deviations
        fullest = int(np.argmax(self.counts))
        seen[fullest:] = np.logical_and.accumulate(seen[fullest:])
        counts = np.where(seen, self.counts, 0.0)
        return _MEAN_SQUARE * float(counts @ self.edges**2) / max(float(counts.sum()), 1.0)

    def upper_edge(self, share: float) -> float:
        """The edge below which so large a share of the counts lies, of bins that stand out."""
        below = np.cumsum(np.where(self.counts > self.deviations, self.counts, 0.0))
        place = int(np.searchsorted(below, share * below[-1]))
        return float(self.edges[min(place, len(self.edges) - 1)])

    def pooled(self, other: Lengths) -> Lengths:
        """The mean with other counts of the same lengths, by the inverse of their variances."""
        own, more = self.deviation**-2, other.deviation**-2
        return Lengths(
            edges=self.edges,
            counts=(own * self.counts + more * other.counts) / (own + more),
            deviation=(own + more) ** -0.5,
        )


def lengths_below(top: float, *, of: Value, share: float, bins: int = 44) -> OctaveCounts:
    """The histogram that `lengths_of` reads."""
    return OctaveCounts(
        of=of, first=top * 2.0 ** (-(bins - 1) / 2), per_octave=2, bins=bins, share=share_of(share)
    )


def lengths_of(found: Counts) -> Lengths:
    """Counts of lengths, those beyond the last edge with the bin below it."""
    counts = np.append(found.counts[:-2], found.counts[-2] + found.counts[-1])
    return Lengths(edges=found.edges, counts=counts, deviation=found.deviation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientBound:
    """A bound of gradients, and the share of rows whose gradient is not cut, by counts."""

    bound: float
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoTail:
    """The tail of lengths: the rows beyond an edge, and the index of a power that they fall by.

    Source: Hill 1975 (the index of a tail from its upper part).
    """

    edge: float
    beyond: float
    index: float
    lengths: Lengths

    @classmethod
    def of(cls, lengths: Lengths, *, lightest: float = _LIGHTEST) -> ParetoTail:
        """The tail beyond the first edge that no counts are seen beyond, by slopes around it."""
        beyond, edges = _beyond(lengths, _NEXT), lengths.edges
        noise = lengths.deviation * math.sqrt(_NEXT)
        # From the fullest bin on without a gap: far out, counts are seen by chance.
        start = int(np.argmax(lengths.counts[:-1]))
        hidden = np.append(beyond[start:] <= 3 * noise, True)
        last = max(start + int(np.argmax(hidden)) - 1, 0)
        rows = max(float(beyond[last]), noise)
        first, total = last, max(float(lengths.counts.sum()), 1.0)
        while first > 0 and beyond[first] < min(3 * rows, 0.2 * total):
            first -= 1
        index = _slope(edges[[first, last]], float(beyond[first]), rows) if first < last else 0.0
        end = min(last + 1, len(beyond) - 1)
        if end > last:  # where rows end all at once, these say so, and those before do not
            index = max(index, _slope(edges[[last, end]], rows, max(beyond[end], 0.0) + noise))
        # Counts beyond the end are low, as those that are not seen are, and those before high.
        led = rows * math.pow(edges[end] / edges[last], -index)
        left = math.sqrt(led * (max(float(beyond[end]), 0.0) + _HIDDEN * noise))
        index = min(max(index, _HEAVIEST), lightest)
        return cls(edge=float(edges[end]), beyond=left, index=index, lengths=lengths)

    def excess(self, bound: float) -> float:
        """The sum over rows of how much longer than a bound they are."""
        if bound >= self.edge:
            rows = self.beyond * math.pow(bound / self.edge, -self.index)
            return rows * bound / (self.index - 1)
        middle = _MEAN * self.lengths.edges
        between = (middle > bound) & (middle <= self.edge)
        seen = np.maximum(self.lengths.counts[between], 0.0) @ (middle[between] - bound)
        return float(seen) + self.beyond * (self.edge - bound + self.edge / (self.index - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """How far the longest gradients point one way: 0 if their signs are like coin tosses.

    tail: of their lengths before weighting and clipping; direction: of unit length; strength: the
    length of the mean of their directions without noise and chance, at most 1, and more where bent;
    0 if noise and chance may explain it; bent: the mean is treated as one that the model does not
    fit.
    """

    tail: ParetoTail
    direction: Floats
    strength: float
    bent: bool

    def moved(self, bound: float) -> float:
        """The sum of gradients that a bound may take away, all in that direction."""
        return self.strength * self.tail.excess(bound)

    def of_gradients(self, lengths: Lengths) -> Pull:
        """The pull of the longest gradients, where that of rows with far features was seen."""
        return Pull(
            tail=ParetoTail.of(lengths),
            direction=self.direction,
            strength=max(self.strength, _ONE_WAY),
            bent=True,
        )

    def or_one_sided(
        self,
        above: tuple[float, float],
        below: tuple[float, float],
        rows: Rows,
        direction: Floats,
    ) -> Pull:
        """The same, or one along a direction if far residuals of a heavy tail have one sign.

        above, below: the means of far rows with a positive and with a negative residual, and their
        deviations. Signs alone show outliers on one side better than directions do, which spread
        over the features.
        """
        (up, noise), (down, _) = above, below
        total, odd = max(up + down, noise) * rows.number, (up - down) * rows.number
        variance = 2 * (noise * rows.number) ** 2 + rows.repeated * total
        if self.bent or odd**2 <= _ONE_SIDED**2 * variance:
            return self
        if ParetoTail.of(self.tail.lengths, lightest=_LIGHT).index >= _HEAVY:
            return self
        strength = min(math.sqrt(odd**2 - variance) / total, 1.0)
        return Pull(
            tail=self.tail,
            direction=np.asarray(direction / np.linalg.norm(direction)),
            strength=max(strength, _ONE_WAY),
            bent=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionSum:
    """The noisy sum of the directions of so many rows, each of unit length.

    excess: over the variance of the sum that the signs of coins would have.
    """

    mean: Released
    rows: Rows
    beyond: float
    excess: float = 1.0

    @property
    def total(self) -> Floats:
        """The sum itself."""
        return self.mean.values * self.rows.number

    @property
    def length(self) -> float:
        """The length of the sum."""
        return float(np.linalg.norm(self.total))

    @property
    def direction(self) -> Floats:
        """The direction of the sum, of unit length."""
        return np.asarray(self.total / max(self.length, 1e-300))

    @property
    def variance(self) -> float:
        """The variance of each number of the sum if signs are those of coins."""
        size, noise = len(self.mean.values), self.mean.deviation * self.rows.number
        return noise**2 + self.excess * self.rows.repeated * max(self.beyond, 1.0) / size

    @property
    def strength(self) -> float:
        """The length of the mean direction, noise and chance taken off; 0 if they may be all."""
        size = len(self.mean.values)
        if self.length**2 <= (size + _CHANCE * math.sqrt(2 * size)) * self.variance:
            return 0.0
        left = self.length**2 - size * self.variance
        return min(math.sqrt(left) / max(self.beyond, 1.0), 1.0)


def pull_of(
    farthest: Released,
    longer: Released,
    rows: Rows,
    lengths: Lengths,
    *,
    place: int,
    thrift: float,
) -> Pull:
    """The pull of long gradients, from the means of directions.

    farthest: of the rows beyond an edge of counts; longer: of the longer half of all rows, which
    shows that the mean is not linear if the tail is too small to; thrift: 1 if people are few.
    """
    beyond = float(_beyond(lengths, 2 * _NEXT)[place])
    tail = DirectionSum(mean=farthest, rows=rows, beyond=beyond)
    excess = _UNSETTLED[thrift >= 1]
    half = DirectionSum(mean=longer, rows=rows, beyond=rows.number / 2, excess=excess)
    strength, bent = tail.strength, half.strength
    shown = tail if strength > 0 or bent == 0 else half
    is_bent = strength >= _FAR_ONE_WAY or bent >= _HALF_ONE_WAY
    return Pull(
        tail=ParetoTail.of(lengths),
        direction=shown.direction,
        strength=max(strength, _ONE_WAY) if is_bent else strength,
        bent=is_bent,
    )


def pull_of_skewed(
    farthest: Released, rows: Rows, lengths: Lengths, *, place: int, skewness: float
) -> Pull:
    """The pull of long gradients beyond what scores of this skewness have if the model holds.

    In the metric of the curvature the mean square of gradients is their number of coordinates if
    the model holds. If it is larger, skewness explains less; if it is far larger, scores are skewed
    by more than the model has, and a pull is assumed where none is seen.
    """
    beyond = float(_beyond(lengths, 2 * _NEXT)[place])
    tail = DirectionSum(mean=farthest, rows=rows, beyond=beyond)
    wider = max(lengths.mean_square / rows.size, 1.0)
    strength = max(tail.strength - _OF_SKEWNESS * skewness / wider, 0.0)
    least = 0.0
    if strength >= _MORE_THAN_SKEWED:
        least = _ONE_WAY
    elif wider > _FAR_WIDER:
        least = _OF_SKEWNESS
    return Pull(
        tail=ParetoTail.of(lengths, lightest=_LIGHTEST if least else _LIGHT),
        direction=tail.direction,
        strength=max(strength, least),
        bent=least > 0,
    )


def pull_of_far(
    scores: Released, rows: Rows, lengths: Lengths, *, beyond: float, variance: float, few: bool
) -> Pull | None:
    """The pull of rows with far features, whose scores cancel if the model holds; None if not seen.

    scores: the mean of score times direction over so many rows with the farthest features, scores
    within [-1, 1]; variance: of scores, at most, if the model holds; lengths: of features; few:
    whether people are few for their features. Farther out the mean score is larger.
    """
    excess = variance * (_UNSETTLED_SCORES if few else 1.0)
    one = DirectionSum(mean=scores, rows=rows, beyond=beyond, excess=excess)
    if one.strength == 0:
        return None
    farther = min(_FARTHER_OUT * one.strength, _FAR_SCORE * math.sqrt(variance))
    return Pull(
        tail=ParetoTail.of(lengths),
        direction=one.direction,
        strength=max(one.strength, farther),
        bent=True,
    )


def can_show_pull(rows: Rows, *, share: float) -> bool:
    """True if a pull of a tail would show above the noise of the sum of its directions."""
    return _enough(rows, share) <= _OUTER * rows.number


def pull_edge(rows: Rows, lengths: Lengths, *, share: float) -> tuple[float, int]:
    """The last edge beyond which enough rows lie for their pull to show, and its place."""
    enough = np.nonzero(_beyond(lengths, 2 * _NEXT) > _enough(rows, share))[0]
    place = int(enough[-1]) if len(enough) else int(np.argmax(lengths.counts[:-1]))
    return float(lengths.edges[place]), place


def _enough(rows: Rows, share: float) -> float:
    return _APART * rows.number * rows.noise(GRADIENT, 1.0, share) * math.sqrt(rows.size)


def _slope(edges: Floats, before: float, after: float) -> float:
    """The power by which counts fall from one edge to the next."""
    return math.log(max(before / after, 1.0)) / math.log(edges[1] / edges[0])


def _beyond(lengths: Lengths, bins: int) -> Floats:
    """Counts of the next bins beyond each edge."""
    up_to = np.concatenate([[0.0], np.cumsum(lengths.counts)])
    place = np.arange(1, len(lengths.edges))
    return np.asarray(up_to[np.minimum(place + bins, len(lengths.counts))] - up_to[place])


def gradient_bound(
    rows: Rows,
    lengths: Lengths,
    *,
    share: float,
    most: float,
    pull: Pull | None = None,
) -> GradientBound:
    """The largest bound whose noise is at most `most` of the sampling error that it leaves.

    It is not larger than the end of the counts, unless that is cheap, and not so small that more
    than a few rows are clipped: then it lies between two edges, as noise is dear. If the longest
    gradients pull one way, counts do not show all rows that matter. Then the bound is as large as a
    costlier noise allows, and minimizes the sum of squares of noise and of the shift that clipping
    may cause. share: of mu^2, for the steps that use the bound; most: a ratio of standard
    deviations. Source: docs/proofs/regression.md, section 3.
    """
    edges, sd, n = lengths.edges, lengths.deviations, rows.number
    # Far out a bin that is seen by chance is dear: counts there have to stand out, those beyond a
    # gap of two bins for certain.
    middle = int(np.argmax(lengths.counts))
    seen = np.where(np.arange(len(edges)) <= middle, 1.0, _SEEN) * sd
    hidden = lengths.counts[middle:] <= seen[middle:]
    ends = np.nonzero(hidden[:-1] & hidden[1:])[0]
    if len(ends):  # beyond a gap
        apart = middle + int(ends[0])
        seen[apart:] = _CERTAIN * sd[apart:]
    counts = np.where(np.abs(lengths.counts) > seen, lengths.counts, 0.0)
    below = np.cumsum(counts)
    total = float(below[-1])
    tail = np.maximum(total - below, 0.0)
    second = np.cumsum(np.maximum(counts, 0) * edges**2 * _MEAN_SQUARE) + tail * edges**2
    second = np.maximum(second, 1e-300) / max(total, 1.0) / rows.size
    noise = n * np.array([rows.noise(GRADIENT, float(edge), share) ** 2 for edge in edges])

    def last(ratio: float) -> int:
        """The last edge with noise of at most this ratio."""
        good = np.nonzero((noise <= ratio**2 * second) & (below > 0.5 * total))[0]
        return int(good[-1]) if len(good) else 0

    kept = 1 - min(0.2, _CUT / math.sqrt(max(n, 1.0)))
    least = min(int(np.searchsorted(below, kept * total)), len(edges) - 1)
    enough = np.nonzero(tail <= 1e-4 * n)[0]
    end = int(enough[0]) if len(enough) else len(edges) - 1
    place = min(max(last(most), least), max(end, last(_CHEAP)))
    if pull is not None:
        place = max(place, last(_DEAR) if pull.bent else 0)
        farther = slice(place, max(place, last(_DEAREST)) + 1)
        moved = np.array([pull.moved(float(edge)) for edge in edges[farther]])
        place += int(np.argmin(noise[farther] + moved**2 / n))
    if place == least > last(most):
        among = below[[place - 1, place]]
        bound = np.interp(kept * total, among, edges[[place - 1, place]])
        return GradientBound(bound=float(bound), within=kept)
    return GradientBound(
        bound=float(edges[place]),
        within=float(np.clip(1 - tail[place] / max(total, 1.0), 0.2, 1.0)),
    )


def level_bound(rows: Rows, lengths: Lengths, *, share: float, most: float) -> float:
    """Where lengths are cut for the mean of their squares, at most so far out.

    The larger of two bounds: one minimizes noise plus the loss by clipping, as counts show it. At
    the other the noise is `_CHEAP_LEVEL` of the mean, as counts do not show all rows. share: of
    mu^2.
    """
    edges, sd, n = lengths.edges, lengths.deviations, rows.number
    counts = np.where(lengths.counts > _SEEN * sd, lengths.counts, 0.0)[: len(edges)]
    squares = edges**2
    beyond = np.cumsum(counts[::-1])[::-1] - counts
    summed = np.cumsum((counts * squares)[::-1])[::-1] - counts * squares
    missed = np.maximum(_MEAN_SQUARE * summed - beyond * squares, 0.0)
    noise = n * rows.noise(1.0, 1.0, share) * squares
    cheap = np.nonzero(noise <= _CHEAP_LEVEL * _MEAN_SQUARE * float(counts @ squares))[0]
    place = max(int(np.argmin(noise + missed)), int(cheap[-1]) if len(cheap) else 0)
    return min(most, float(edges[place]))


def median_of(lengths: Lengths) -> float:
    """The edge at the median of lengths."""
    counts = np.maximum(lengths.counts, 0.0)
    place = int(np.searchsorted(np.cumsum(counts), 0.5 * max(float(counts.sum()), 1.0)))
    return float(lengths.edges[min(place, len(lengths.edges) - 1)])


def within_of(lengths: Lengths, bound: float) -> float:
    """The share of rows at or below a bound."""
    edges, below = lengths.edges, np.cumsum(lengths.counts)
    found = np.interp(bound, edges, below[: len(edges)])
    return float(np.clip(found / max(float(below[-1]), 1.0), 0.2, 1.0))


def cap_of(found: Counts, top: float, *, affordable: float = math.inf) -> float:
    """A bound that no row exceeds, as far as counts show.

    It is half an octave above the last visible bin, if its noise is affordable. A bin is visible
    alone or together with all bins above it, as few people may lie in several. Beyond the
    affordable bound it must stand out for certain, as a bin that is visible by chance is costly
    there. The bound is at most the sure bound `top`.
    """
    lengths = lengths_of(found)
    least = np.where(lengths.edges <= affordable, _SEEN, _CERTAIN) * lengths.deviations
    beyond = np.cumsum(lengths.counts[::-1])[::-1]
    bins = np.arange(len(beyond), 0, -1)
    seen = np.nonzero((lengths.counts > least) | (beyond > least * np.sqrt(bins)))[0]
    if not len(seen):
        return min(top, affordable)
    end, above = lengths.edges[[seen[-1], min(seen[-1] + 1, len(lengths.edges) - 1)]]
    return float(min(top, max(end, min(above, affordable))))


def sure_end_of(found: Counts, top: float) -> float:
    """A looser bound, an octave above the last bin that stands out for certain."""
    lengths = lengths_of(found)
    seen = np.nonzero(lengths.counts > _CERTAIN * lengths.deviations)[0]
    if not len(seen):
        return top
    return float(min(top, lengths.edges[min(seen[-1] + 2, len(lengths.edges) - 1)]))


def radius_counts(rows: Rows, *, share: float) -> OctaveCounts:
    """The histogram of |a|^2 that `best_radius` reads."""
    return OctaveCounts(
        of=lambda row: row.square,
        first=rows.size / 2,
        per_octave=2,
        bins=27,
        share=share_of(share),
    )


def best_radius(
    rows: Rows,
    found: Counts,
    *,
    share: float,
    score: float,
    tolerance: float,
    pull: Pull | None = None,
) -> tuple[float, Tail]:
    """The square of the largest radius whose predicted variance is within a tolerance of the least.

    With a pull of far rows, which weights would hide, it is the one with the least sum of variance
    and squared shift.

    In the metric of the curvature M = I, weights leave m = E[w |a|^2] / E[|a|^2] of it and
    q = E[w^2 |a|^2] / E[|a|^2] of Q, so that the variance is (q + noise) / m^2. share: of mu^2, of
    the steps that it is for; score: the bound of scores.
    Source: docs/proofs/regression.md, section 4.
    """
    grid = found.edges
    middle = np.concatenate([[grid[0] * 0.7], grid[:-1] * 2**0.25, [grid[-1] * 1.2]])
    counts = np.where(found.counts > _STANDS_OUT * found.deviation, found.counts, 0.0)
    tail = Tail(squares=grid, beyond=np.cumsum(counts[::-1])[::-1][1:])
    if counts.sum() <= 0:
        return float(grid[2]), tail
    total = float(counts @ middle)
    noise = rows.number * rows.noise(GRADIENT, score, share) ** 2
    variances = []
    for square in grid:
        weights = np.minimum(1.0, square / middle)
        left = float(counts @ (weights * middle)) / total
        spread = float(counts @ (weights**2 * middle)) / total
        variances.append((spread + square * noise) / left**2)
    good = np.nonzero(np.array(variances) <= (1 + tolerance) * min(variances))[0][-1]
    out = np.nonzero(tail.beyond > 0)[0]
    needed = int(out[-1]) + 1 if len(out) else 0
    place = min(int(good), needed, len(grid) - 1)
    if pull is not None:
        moved = np.array([score * pull.moved(math.sqrt(square)) for square in grid[place:]])
        place += int(np.argmin(variances[place:] + moved**2 / rows.number))
    return float(grid[place]), tail


def find_ranges(
    columns: Sequence[Floats], own: Floats, sums: NoisySums, *, share: Fraction
) -> list[tuple[float, float]]:
    """Ranges of columns, paid together from a share of mu^2; each row is in one bin of each."""
    ends = edges()
    size = len(ends) + 1

    def part(block: slice) -> Floats:
        places = (np.searchsorted(ends, column[block], side="right") for column in columns)
        counted = [np.bincount(one, weights=own[block], minlength=size) for one in places]
        return np.concatenate(counted)

    longest = math.nextafter(math.sqrt(len(columns)), math.inf)
    counts, deviation = sums.mean(
        part,
        size=size * len(columns),
        row_bound=Fraction(longest),
        sensitivity=Fraction(longest) * ROOT_TWO,
        share=share,
    )
    return [range_of(one, deviation) for one in counts.reshape(len(columns), size)]
