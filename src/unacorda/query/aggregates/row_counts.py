"""Histograms of people by their number of rows, and what bounds on rows keep.

A question's rows are counted person by person before contribution bounding, and people are counted
by number of rows in bins between public rungs. One person is in one bin, however many rows they
have: the sensitivity of all bins together is 1, and of a replaced person 2 in the l1 norm and the
root of 2 in the l2 norm. Everything below is postprocessing of the noisy counts.

**The share of rows kept.** With a bound of m rows, a person with n rows keeps min(n, m). The share
is the sum of min(n, m) over people divided by the sum of n: a ratio of two sums over bins. The
number of rows in a bin is only known to lie between its rungs. The confidence limits are Fieller's,
which need no interval for each bin (docs/proofs/rows_kept.md):

- *at most*: holds for all tables, since a person with more rows than a rung counts as having just
  as many as the rung;
- *at least*: holds where no person has more rows than a rung that stands with it. Without such a
  condition there is no lower limit: one person may have any number of rows, of which all but m are
  dropped, and the noise hides that person's presence.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.numerics import bisect
from unacorda.query.aggregates.base import Answer, Assumption, Exact, Forecast, Single, weight_of
from unacorda.query.aggregates.grid import Floats
from unacorda.query.aggregates.measures import Thresholds, growing_rungs
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Share,
    additive_noise,
    of_one_bin,
)
from unacorda.query.schema.units import Person, Reach, Unit

_TOP = 100_000  # rows of one person; above it the last bin is open
_ONE_SIDED = (
    "the share has an upper limit, and a lower one where no person has more rows than a number "
    "that is released with it"
)
_SURE, _SURE_OF_NEXT, _SURE_OF_WIDEST = 6, 4.5, 4  # standard deviations
_WIDEST = 16  # bins together
_LEAST = 1e-3  # of the deviation, to divide by
_FITTED = 10  # bins above the last in which people are seen
_RATIOS = np.linspace(0.05, 1.0, 39)
_CURVE = 0.95  # by which the ratio of a bin to the one below falls
_USUAL, _SPREAD = 0.7, 0.2  # of that ratio, where the counts are no help
_STEPS = 60  # of bisection; then the ends are 2^-60 apart
_ROUNDED_UP = 1 + 2.0**-18  # the grid's rounding is below 2^-19
_ROUNDING = 1e-9  # of what is summed, far above what doubles lose


def row_rungs(limit: int | None = None) -> tuple[int, ...]:
    """Public numbers of rows, rising by factors of about 5/4, with the limit among them.

    >>> row_rungs()[:12]
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18)
    """
    rungs = growing_rungs(max(_TOP, 10 * (limit or 0)))
    return tuple(sorted({*rungs, limit or 1}))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """An estimate of the share of a question's rows that its contribution bounds keep.

    Attributes
    ----------
    share
        The estimate.
    at_most
        A 97.5% upper confidence limit.
    at_least
        A 97.5% lower confidence limit. It holds if no person has more than `no_more` rows.
    no_more
        The number of rows that the lower limit assumes.
    limit
        The bound on the rows of a person.
    unit
        The column with the person's id.
    histogram
        The released counts of people by number of rows, from which all of this is computed.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> rows = [person for person in range(3000) for _ in range(1 + person % 4)]
    >>> visits = pandas.DataFrame({"id": rows})
    >>> unit, bits = unacorda.Person("id", max_rows=2), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(2), bits=bits
    ... ) as session:
    ...     question = session.table("visits").agg(n=unacorda.count()).with_kept("0.1")
    ...     kept = session.evaluate(question, budget=unacorda.PureDP(2)).kept
    >>> round(kept.share, 2), round(kept.at_least, 2), round(kept.at_most, 2), kept.no_more
    (0.7, 0.7, 0.74, 4)
    """

    share: float
    at_most: float
    at_least: float
    no_more: int
    limit: int
    unit: str
    histogram: RowHistogram

    @property
    def sentence(self) -> str:
        """The estimate and its limits in words, rounded outward."""
        bound = f"at most {self.limit:,} per {self.unit}"
        if self.at_most >= 1 and self.at_least <= 0:
            return f"Rows kept: the noise hides what share ({bound})"
        most = f"{math.ceil(1_000 * self.at_most) / 10:g}%"
        least = f"{math.floor(1_000 * self.at_least) / 10:g}%"
        return (
            f"Rows kept: about {100 * self.share:.3g}%, at most {most} ({bound}); at least {least} "
            f"if no {self.unit} has more than {self.no_more:,} rows"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values, for JSON.

        Returns
        -------
        dict
            All fields.
        """
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistogram:
    """Noisy counts of people by number of rows: at rung i, those above the rung before it.

    counts: one more than there are rungs; the last is of people above all rungs. deviation: the
    standard deviation of the noise in each; laplace: whether its tails are the Laplace's.
    """

    rungs: tuple[int, ...]
    counts: tuple[float, ...]
    deviation: float
    laplace: bool

    def people(self) -> Floats:
        """Estimates of the people in each bin.

        Up to the last bins in which people are clearly visible, alone or together, the estimates
        are the noisy counts, at least 0. Above, noise hides the few people with many rows, and a
        tail is fitted to the noisy counts: from bin to bin it shrinks by a factor that itself
        decreases. It is postprocessing, and no confidence limit depends on it.
        """
        counts = np.array(self.counts, dtype=np.float64)
        start, end = self._seen(counts)
        found: Floats = np.zeros_like(counts)
        if end == 0:
            return found
        found[:end] = np.maximum(counts[:end], 0.0)
        tail, apart = self._tail(counts, start, end)
        if apart > _SURE:  # where rows end all at once, the last bins say nothing of those above
            found[end:], _ = self._tail(counts, end, end)
        else:
            alone = end - start <= 2
            found[end if alone else start :] = tail[end - start if alone else 0 :]
        return found

    def _tail(self, counts: Floats, start: int, end: int) -> tuple[Floats, float]:
        """The fitted people from a bin on, and how far those below `end` are from the counts.

        That in standard deviations of the noise and of the people themselves, at the farthest bin.
        """
        deviation = max(self.deviation, _LEAST)
        steps = np.arange(len(counts) - start)
        observed = counts[start : end + _FITTED]
        shapes = _RATIOS[:, None] ** steps * _CURVE ** (steps * (steps - 1) / 2)
        seen = shapes[:, : len(observed)]
        heights = np.maximum(seen @ observed / np.sum(seen**2, axis=1), 0.0)
        tails = shapes * heights[:, None]
        apart = np.sum((observed - tails[:, : len(observed)]) ** 2, axis=1) / (2 * deviation**2)
        unusual = (_RATIOS - _USUAL) ** 2 / (2 * _SPREAD**2)
        tail = tails[np.argmin(apart + unusual)]
        below = slice(0, end - start)
        off = np.abs(tail[below] - observed[below]) / np.hypot(deviation, np.sqrt(tail[below]))
        tail = np.minimum(tail, counts[start:] + _SURE / 2 * deviation)
        tail[tail < 1 / 2] = 0.0
        return tail, float(off.max(initial=0.0))

    def _seen(self, counts: Floats) -> tuple[int, int]:
        """Where the tail begins, and the end of the last bins in which people are surely seen.

        They are sought in single bins first, then in two together, in four and so on; then in the
        next bins above, together, as these cannot be seen by chance far out.
        """
        below = np.concatenate([[0.0], np.cumsum(counts)])
        for width in (1, 2, 4, 8, _WIDEST):
            ends = np.arange(1, len(counts) + 1)
            sums = below[ends] - below[np.maximum(ends - width, 0)]
            sure = _SURE if width < _WIDEST else _SURE_OF_WIDEST
            seen = ends[sums > sure * self.deviation * math.sqrt(width)]
            if len(seen):
                return self._extended(below, max(int(seen.max()) - width - 1, 0), int(seen.max()))
        return 0, 0

    def _extended(self, below: Floats, start: int, end: int) -> tuple[int, int]:
        """The same, farther out as long as people are seen in the next bins together."""
        for width in (2, 4, 6):
            further = min(end + width, len(below) - 1)
            people = below[further] - below[end]
            if people > _SURE_OF_NEXT * self.deviation * math.sqrt(width):
                return self._extended(below, max(further - width - 1, 0), further)
        return start, end

    def dropped(self, limit: int) -> float:
        """An estimate of the number of rows that a limit drops."""
        typical = self._typical()
        return float(self.people() @ np.maximum(typical - limit, 0.0))

    def rows(self) -> float:
        """An estimate of the number of rows."""
        return float(self.people() @ self._typical())

    def doubled(self) -> list[tuple[int, int, float, float]]:
        """Wider bins, each of about twice as many rows: the ends, the people and half an interval.

        They end where no people are estimated.
        """
        last = int(np.flatnonzero(self.people()).max(initial=0))
        found, start = [], 0
        for rung in [1, *self._doubling(1)]:
            end = self.rungs.index(rung) + 1
            if start > last:
                break
            half = _sum_quantile(float(1 - CONFIDENCE), laplace=self.laplace) * self.deviation
            low = self.rungs[start - 1] + 1 if start else 1
            people = math.fsum(self.counts[start:end])
            found.append((low, rung, people, half * math.sqrt(end - start)))
            start = end
        return found

    def limit_that_keeps(self, share: float, *, most: int) -> int:
        """The least rung up to `most` that is estimated to keep this share of rows."""
        rows, rungs = self.rows(), [rung for rung in self.rungs if rung <= most]
        enough = (rung for rung in rungs if self.dropped(rung) <= (1 - share) * rows)
        return next(enough, rungs[-1])

    def kept(self, limit: int, *, unit: str) -> KeptRows:
        """The share of rows that a limit keeps, with its confidence limits."""
        rows = self.rows()
        share = 1.0 if rows <= 0 else 1 - self.dropped(limit) / rows
        at_most = self._at_most(limit)
        seen = min(int(np.flatnonzero(self.people()).max(initial=0)), len(self.rungs) - 1)
        no_more = next(rung for rung in self._doubling(limit) if rung >= self.rungs[seen])
        at_least = self._at_least(limit, no_more)
        share = min(max(share, min(at_least, at_most)), at_most)
        return KeptRows(
            share=share,
            at_most=at_most,
            at_least=min(at_least, share),
            no_more=no_more,
            limit=limit,
            unit=unit,
            histogram=self,
        )

    def _at_most(self, limit: int) -> float:
        """The least of the limits over all rungs that more rows are counted as."""
        low, high = self._ends()
        within = high <= limit
        z = self._quantile(len(self._doubling(limit)))
        found = 1.0
        for rung in self._doubling(limit):
            rows = np.where(within, high, np.minimum(low, rung + 1))
            found = min(found, self._limit(np.where(within, high, limit), rows, z))
        return found

    def _at_least(self, limit: int, no_more: int) -> float:
        """The limit where no person has more rows than this rung."""
        low, high = self._ends()
        within, there = high <= limit, high <= no_more
        z = self._quantile(len(self._doubling(limit)))
        dropped = np.where(within, 0.0, high - np.minimum(low, limit))
        rows = np.where(within, low, high)
        # Of the share dropped it is the upper limit.
        return 1 - self._limit(np.where(there, dropped, 0.0), np.where(there, rows, 0.0), z)

    def _limit(self, part: Floats, whole: Floats, z: float) -> float:
        """The largest share in [0, 1] that a part may have of a whole, rounded up.

        part, whole: of one person in each bin; z: standard deviations of the noise. The excess is
        convex in the share: where it is negative at 1, it is so on one interval that ends there.
        """

        def excess(share: float) -> float:
            weights = part - share * whole
            terms = weights * np.array(self.counts)
            lost = _ROUNDING * math.fsum(np.abs(terms))
            error = self.deviation * float(np.linalg.norm(weights))
            return math.fsum(terms) + z * error + lost

        if excess(1.0) >= 0:
            return 1.0
        if excess(0.0) < 0:
            return 0.0
        return bisect(lambda share: excess(share) < 0, 0.0, 1.0, rounds=_STEPS)[1]

    def _ends(self) -> tuple[Floats, Floats]:
        """The least and the largest number of rows in each bin; of the open one, infinity."""
        low: Floats = np.array([0, *self.rungs], dtype=np.float64) + 1
        high: Floats = np.array([*self.rungs, math.inf])
        return low, high

    def _typical(self) -> Floats:
        """A number of rows within each bin: the middle, of the open one its start."""
        low, high = self._ends()
        middle: Floats = (low + np.where(np.isinf(high), low, high)) / 2
        return middle

    def _doubling(self, limit: int) -> list[int]:
        """The rungs that a confidence limit may rest on: from twice the limit, each twice the last.

        The highest rung is always one of them.
        """
        found = [limit]
        for rung in self.rungs:
            if rung >= 2 * found[-1]:
                found.append(rung)
        return list(dict.fromkeys([*found[1:], self.rungs[-1]]))

    def _quantile(self, choices: int) -> float:
        """Standard deviations that a sum is beyond, on one side, with the chance 0.025 / choices.

        choices: among how many such sums the noisy counts choose.
        """
        return _sum_quantile(float(1 - CONFIDENCE) / choices, laplace=self.laplace)


_CURVATURE = 0.4626  # 3^(3/2) times the normal's density at the root of 3


@functools.lru_cache(maxsize=256)
def _sum_quantile(beyond: float, *, laplace: bool) -> float:
    r"""The standard deviations that a weighted sum of noises is beyond with at most this chance.

    Statement   exp(-sqrt(2) z) + 3^(3/2) phi(sqrt 3) z^-2 exp(-z^2 / 3) <= beyond (Laplace noise).
    Bound       upper, of any number of terms, both tails together.
    Edges       beyond in (0, 1/4].
    Source      docs/proofs/rows_kept.md, section 3.
    """
    if not laplace:
        return -NormalDist().inv_cdf(beyond / 2) * _ROUNDED_UP

    def tails(z: float) -> float:
        return math.exp(-math.sqrt(2) * z) + _CURVATURE / z**2 * math.exp(-(z**2) / 3)

    return bisect(lambda z: tails(z) <= beyond, 1.0, 1_000.0, rounds=_STEPS)[1] * _ROUNDED_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsKept(Single):
    """The share of the question's rows, of all groups together, that the bound on rows keeps.

    aside: whether it is shown below the table of a release, not as a column. limit: the bound, once
    the question is known.
    """

    tag: ClassVar[str] = "rowskept"
    functions: ClassVar[tuple[str, ...]] = ("rows_kept",)
    renamed: ClassVar[Mapping[str, str]] = {"aside": "", "limit": ""}
    overall: ClassVar[bool] = True

    aside: bool = False
    limit: int | None = None

    def within(self, reach: Reach) -> RowsKept:
        """The same with the bound among its rungs."""
        return dataclasses.replace(self, limit=reach.rows)

    @property
    def rungs(self) -> tuple[int, ...]:
        """The public numbers of rows between which people are counted."""
        return row_rungs(self.limit)

    def ladders(self, values: Sequence[str], unit: Unit) -> tuple[Thresholds, ...]:
        number = "count(*)::HUGEINT" if isinstance(unit, Person) else "1::HUGEINT"
        return (Thresholds(number=number, rungs=self.rungs, type="HUGEINT", overall=True),)

    def noise(self, share: Share, reach: Reach) -> AdditiveNoise:
        return additive_noise(share, of_one_bin(reach), unit_log2=0, counts=False)

    def histogram(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> RowHistogram:
        """The noisy histogram."""
        (people,) = exact.people
        counts = noise.release(people.people[0].tolist(), bits=bits)
        return RowHistogram(
            rungs=self.rungs,
            counts=tuple(map(float, counts)),
            deviation=noise.standard_deviation,
            laplace=noise.laplace,
        )

    def release(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Answer:
        """The share; there is an upper limit alone."""
        histogram = self.histogram(exact, noise, bits)
        assert self.limit is not None  # it is known with the question
        kept = histogram.kept(self.limit, unit="person")
        return Answer(
            values=[kept.share],
            standard_errors=[None],
            lower=[None],
            upper=[kept.at_most],
            limits=(0.0, 1.0),
            of=histogram,
        )

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        return Forecast(
            noise=f"{noise}, on the people in each of {len(self.rungs) + 1:,} bins by "
            "number of rows",
            sensitivity=of_one_bin(reach).reason,
            notes=(f"standard deviation of the noise: {noise.standard_deviation:.4g}", _ONE_SIDED),
        )


def rows_kept(*, weight: Number = 1) -> RowsKept:
    """Estimate the share of rows that contribution bounding keeps, over all groups together.

    If `max_rows` drops rows, answers are about the kept ones. The share has an upper confidence
    limit. A lower limit holds only if no person has more than some number of rows. The release has
    both in `kept`.

    Parameters
    ----------
    weight
        As in `count`.

    Returns
    -------
    RowsKept
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> rows_kept().overall
    True
    """
    return RowsKept(weight=weight_of(weight))
