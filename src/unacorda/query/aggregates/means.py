"""Means, proportions and weighted means.

**Means**: a noisy centered sum over a noisy count, both from one vector with low sensitivity. Write
a = sum of (x - lower) and b = sum of (upper - x) over the rows of a cell. One row adds (x - lower,
upper - x) to the pair, whose entries are non-negative and add up to the width w = upper - lower: k
rows move the pair by at most k w, in the l1 norm as in the l2 norm. The noisy pair gives the
centered sum s = (a - b) / 2 and the count n = (a + b) / w, and the mean is c + s / max(n, 1) with c
the middle of the bounds. Under Laplace noise this halves the variance of charging s and n apart
(each would get half of epsilon); under normal noise it is the same.

The interval is Fieller's (1954): all m for which the noise of s - (m - c) n can explain the
released values. It has its coverage for every count; an interval from the ratio of standard errors
does not.

**Weighted means**, in which another column weighs each row. A row with value x in [lower, upper]
and weight w in [0, W] adds (w (x - lower), w (upper - x)) to a pair of sums: not negative, and
together at most W (upper - lower), in both norms. Mean, error and interval follow from the noisy
pair as for `mean`, with the sum of the weights in place of the number of rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.query.aggregates.base import (
    TABLE_ROWS,
    Answer,
    Assumption,
    Exact,
    Forecast,
    answer_of,
    given_bounds,
    halve,
    weight_of,
    widened,
)
from unacorda.query.aggregates.grid import Flags, Floats
from unacorda.query.aggregates.linear import Linear, OfClamped
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Measure,
    PresentCount,
    SumOf,
    Times,
    TrueCount,
)
from unacorda.query.aggregates.moment_strategies import moment_clamp
from unacorda.query.aggregates.ratios import OfTwo, RatioSide, refuse_negative
from unacorda.query.expressions.language import Kind, Written, written
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Sensitivity,
    noise_quantile,
    of_splits,
)
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Reach

_AT_AN_END = "a mean at an end of the range has this error; in the middle it is 1.4 times less"
_STEPS = 512
_CELLS = 2_000  # whose intervals are searched at once
_NORMAL_95 = 1.959963984540055  # the 97.5% point of the normal law, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitMean(Linear):
    """A mean of values in a public range, from noisy sums of x - lower and of upper - x.

    even: what a forecast assumes about the rows of its table, in words.
    """

    even: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def clamp(self) -> Clamp:
        """The range in integers."""

    @property
    def most(self) -> int:
        """The most that one row counts, in its unit."""
        return 1

    @property
    def lowest(self) -> int:
        """The origin of the summed values."""
        return self.clamp.lower

    @property
    def limits(self) -> tuple[float, float]:
        return self.clamp.range

    def sensitivity(self, reach: Reach) -> Sensitivity:
        return of_splits(reach, width=self.clamp.width * self.most)

    @property
    def per_row(self) -> float:
        """How much a row of the forecast's table adds to the count."""
        return 1.0

    def expected(self, assume: Assumption) -> tuple[Floats | None, int]:
        """The assumed values, None for an end of the range, and their number."""
        return assume.of(*self.assumes), assume.rows

    def integers_of(self, exact: Exact) -> Sequence[int]:
        """Both sums, cell by cell, from the sums of values and the counts."""
        found: list[int] = []
        for total, count in zip(*exact.sums, strict=True):
            above = total - count * self.lowest
            found += [above, count * self.clamp.width - above]
        return found

    def answers(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Mapping[str, Answer]:
        noisy = noise.doubles(self.integers_of(exact), bits=bits)
        a, b = noisy[0::2], noisy[1::2]
        low, high = self.limits
        half, centre = (high - low) / 2, low + (high - low) / 2
        rows_seen = np.maximum((a + b) / (high - low), 1.0)
        values = centre + (a - b) / 2 / rows_seen
        offset = np.clip(values - centre, -half, half) / half
        errors = noise.standard_deviation * np.sqrt((1 + offset**2) / 2) / rows_seen
        u_low, u_high = ratio_interval(
            a - b, a + b, scale=noise.standard_deviation, laplace=noise.laplace
        )
        reach = errors * noise_quantile(0.05, laplace=noise.laplace)
        found = centre + u_low * half, centre + u_high * half
        ends = widened(values, reach, found, self.limits)
        return {"": answer_of(values, errors, ends, self.limits)}

    def forecast(self, noise: AdditiveNoise, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error: a table by number of rows, or one number for assumed rows."""
        low, high = self.limits
        width, deviation = high - low, noise.standard_deviation
        error, values = None, None
        if assume is not None:
            values, rows = self.expected(assume)
            at = width / 2
            if values is not None:
                at = float(np.mean(np.clip(values, low, high))) - low - width / 2
            error = _expected_error(at, width, rows=rows, noise=noise)
        return Forecast(
            noise=f"{noise}{self.each}",
            sensitivity=self.sensitivity(reach).reason,
            standard_error=error,
            assumed_rows=None if assume is None else assume.rows,
            table=tuple((n, min(deviation / n / self.per_row, width / 2)) for n in TABLE_ROWS),
            notes=(
                *self.notes,
                *(() if assume else self.even),
                *([_AT_AN_END] if values is None else []),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMean(OfClamped, SplitMean):
    """The mean of a number column over rows where it is present, values clamped."""

    tag: ClassVar[str] = "mean"
    functions: ClassVar[tuple[str, ...]] = ("mean",)
    each: ClassVar[str] = " on each of two sums, of x - lower and of upper - x"

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        (value,) = values
        return (SumOf(Clamped(value, self.clamp)), PresentCount((value,)))


def mean(
    column: Written, lower: Number | None = None, upper: Number | None = None, *, weight: Number = 1
) -> BoundedMean:
    """Average a number column over the rows in which it is present, values clamped to a range.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    lower, upper
        Public clamping bounds in the column's unit, lower < upper. Left out, they are those
        declared of the column.
    weight
        This aggregate's part of the budget, relative to the others in the same `agg`; above 0.

    Returns
    -------
    BoundedMean
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, and a weight that is not above 0.
    MissingBound
        Where one bound is given without the other.

    Examples
    --------
    >>> mean("age", 0, 120).lower
    Fraction(0, 1)
    """
    low, high = given_bounds(lower, upper)
    return BoundedMean(column=written(column), lower=low, upper=high, weight=weight_of(weight))


def ratio_interval(
    difference: Floats, total: Floats, *, scale: float, laplace: bool
) -> tuple[Floats, Floats]:
    """Ends of {u in [-1, 1] : the noise of difference - u total explains its distance from 0}.

    difference, total: a - b and a + b, where a and b carry independent noise of standard deviation
    `scale`, Laplace or normal. The set holds the true ratio with probability at least 0.95. If the
    set is empty, the interval is the nearer end of the range.
    """
    grid = np.linspace(-1.0, 1.0, _STEPS + 1)

    def explained(u: Floats, d: Floats, t: Floats) -> Flags:
        return np.asarray(np.abs(d - u * t) <= scale * _quantile(np.abs(u), laplace=laplace))

    guess = np.clip(np.divide(difference, total, out=np.zeros_like(total), where=total > 0), -1, 1)
    ends = []
    for side in (1.0, -1.0):
        # The outermost grid point that is explained, then bisection towards the next one out.
        d, t = side * difference, total
        inside = side * guess
        for start in range(0, len(d), _CELLS):
            part = slice(start, start + _CELLS)
            seen = np.where(explained(grid[:, None], d[part], t[part]), grid[:, None], -1.0)
            inside[part] = np.maximum(inside[part], seen.max(axis=0))
        outside = np.minimum(inside + 2.0 / _STEPS, 1.0)
        _, outside = halve(functools.partial(explained, d=d, t=t), inside, outside, rounds=40)
        ends.append(side * outside)
    return ends[1], ends[0]


def _quantile(u: Floats, *, laplace: bool) -> Floats:
    """95% half width of (1 - u) X - (1 + u) Y for X, Y of standard deviation 1; u in [0, 1]."""
    if not laplace:
        return np.asarray(_NORMAL_95 * np.sqrt(2 * (1 + u**2)) * (1 + 2.0**-18))
    nodes, widths = _laplace_table()
    # The half width is convex in u, so that the chord lies above it.
    return np.interp(u, nodes, widths)


@functools.cache
def _laplace_table() -> tuple[Floats, Floats]:
    """Half widths at nodes of u, by bisection on the tail of a weighted sum of two Laplace laws.

    P(|alpha X - beta Y| > z) = (alpha^2 e^(-z/alpha) - beta^2 e^(-z/beta)) / (alpha^2 - beta^2)
    for unit scales; at alpha = beta its limit, e^(-z/alpha) (1 + z / (2 alpha)).
    """
    nodes = np.linspace(0.0, 1.0, 2 * _STEPS + 1)
    small, large = (1 - nodes)[1:-1], (1 + nodes)[1:-1]

    def within(z: Floats) -> Flags:
        difference = large**2 * np.exp(-z / large) - small**2 * np.exp(-z / small)
        return np.asarray(difference / (large**2 - small**2) > 1 - float(CONFIDENCE))

    _, high = halve(within, np.zeros_like(small), np.full_like(small, 8.0), rounds=60)
    centre = 4.113
    for _ in range(60):
        centre -= (math.exp(-centre) * (1 + centre / 2) - 0.05) / (
            -math.exp(-centre) * (1 + centre) / 2
        )
    widths = np.concatenate(([centre], high, [2 * math.log(20)]))
    return nodes, widths / math.sqrt(2) * (1 + 2.0**-18)  # the grid's rounding is below 2^-19


def _expected_error(at: float, width: float, *, rows: int, noise: AdditiveNoise) -> float:
    """Root mean squared error of the mean about its exact value, by numerical integration.

    at: the assumed mean less the middle of the range. With D = X - Y and T = X + Y of the two
    noises, the error is (at rows + D / 2) / max(rows + T / width, 1) - at. Given T, D has mean 0;
    its second moment is that of a normal law, or under Laplace noise of scale b, where X and Y
    have joint density proportional to exp(-max(|T|, |D|) / b),
    (|T|^3 / 3 + b (T^2 + 2 b |T| + 2 b^2)) / (|T| + b). What is left is an integral over T.
    """
    from scipy.integrate import quad  # takes long to load

    deviation = noise.standard_deviation
    scale = deviation / math.sqrt(2)  # of the Laplace law

    def density(t: float) -> float:
        if noise.laplace:
            return (1 + abs(t) / scale) * math.exp(-abs(t) / scale) / (4 * scale)
        return math.exp(-((t / deviation) ** 2) / 4) / (2 * deviation * math.sqrt(math.pi))

    def spread(t: float) -> float:
        if noise.laplace:
            t = abs(t)
            tail = scale * (t**2 + 2 * scale * t + 2 * scale**2)
            return (t**3 / 3 + tail) / (t + scale)
        return 2 * deviation**2

    def integrand(t: float) -> float:
        seen = max(rows + t / width, 1.0)
        return density(t) * ((at * rows / seen - at) ** 2 + spread(t) / (4 * seen**2))

    reach = 60 * deviation
    # The count reaches 1 at a kink, beside which the integrand falls like 1 / count^2.
    kinks = [(count - rows) * width for count in (1, 2, 4, 10, 100, 1_000)]
    inside = {kink for kink in kinks if -reach < kink < 0}
    ends = sorted({-reach, 0.0, reach} | inside | {-deviation, deviation})
    pieces = [quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(ends)]
    return math.sqrt(math.fsum(pieces))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion(SplitMean):
    """The share of rows that meet a condition, among those where it is known.

    It is the mean of a column of ones and zeros, with the same noise, error and interval.
    """

    tag: ClassVar[str] = "proportion"
    functions: ClassVar[tuple[str, ...]] = ("proportion",)
    reads: ClassVar[Mapping[str, Kind | None]] = {"condition": Kind.BOOLEAN}
    clamp: ClassVar[Clamp] = Clamp(lower=0, upper=1, unit_log2=0)
    each: ClassVar[str] = (
        " on each of two counts, of rows that fulfil the condition and that do not"
    )

    condition: str

    @property
    def assumes(self) -> tuple[str, ...]:
        return (self.condition,)

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        (value,) = values
        return (TrueCount(value), PresentCount((value,)))


def proportion(condition: Written, *, weight: Number = 1) -> Proportion:
    """Estimate the share of rows for which a row-wise SQL condition is true.

    Rows for which it is NULL are left out.

    It is the mean of 1 where the condition is true and 0 where it is false.

    Parameters
    ----------
    condition
        A row-wise SQL condition, or the name of a boolean column.
    weight
        This aggregate's part of the budget, relative to the others in the same `agg`; above 0.

    Returns
    -------
    Proportion
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For a weight that is not above 0.

    Examples
    --------
    >>> proportion("smokes = 'yes'").condition
    "smokes = 'yes'"
    """
    return Proportion(condition=written(condition), weight=weight_of(weight))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMean(OfTwo, SplitMean):
    """The mean of a number column, weighted by another column, both clamped."""

    tag: ClassVar[str] = "weightedmean"
    functions: ClassVar[tuple[str, ...]] = ("weighted_mean",)
    named: ClassVar[tuple[tuple[str, str], ...]] = (
        ("column", "bounds"),
        ("weights", "weights_bounds"),
    )
    even: ClassVar[tuple[str, ...]] = ("the errors by rows are for weights at their upper bound",)
    each: ClassVar[str] = " on each of two weighted sums, of x - lower and of upper - x"
    lowest: ClassVar[int] = 0  # above the lower bound weighted values are summed

    def bound_to(self, scope: TableSchema) -> WeightedMean:
        found = OfTwo.bound_to(self, scope)
        refuse_negative("weights_bounds", found.sides[1])
        return found

    @property
    def clamps(self) -> tuple[Clamp, Clamp]:
        """The public ranges in integers, of values and of weights; products fit in 63 bits."""
        (x, w), (first, second) = self.sides, self.expressions
        values = moment_clamp(first, x.lower, x.upper)
        weights = moment_clamp(second, Fraction(0), w.upper)
        assert w.lower is not None
        least = round(w.lower / Fraction(2) ** weights.unit_log2)
        return values, dataclasses.replace(weights, lower=min(least, weights.upper))

    def measures(self, values: Sequence[str]) -> tuple[Measure, ...]:
        (value, weight), (x, w) = values, self.clamps
        weighted = Times(Clamped(value, x, above=True), Clamped(weight, w))
        terms = (weighted, Clamped(weight, w))
        return tuple(SumOf(term, present=tuple(values)) for term in terms)

    @property
    def clamp(self) -> Clamp:
        return self.clamps[0]

    @property
    def most(self) -> int:
        return self.clamps[1].upper

    @property
    def unit_log2(self) -> int:
        """The unit in which the largest weight is between 1/2 and 1."""
        return self.clamp.unit_log2 - self.most.bit_length()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.clamping

    @property
    def per_row(self) -> float:
        return self.most * 2.0 ** -self.most.bit_length()

    def expected(self, assume: Assumption) -> tuple[Floats | None, int]:
        """The weighted mean; where no weights are assumed, all are at their upper bound."""
        pair = self.assumed(assume)
        if pair is None:
            return None, max(1, round(assume.rows * self.per_row))
        x, w = pair[0], pair[1] / self.clamps[1].range[1] * self.per_row
        mean = float(w.mean())
        middle = np.array([np.sum(w * x) / np.sum(w)]) if mean > 0 else None
        return middle, max(1, round(assume.rows * mean))


def weighted_mean(
    column: Written,
    weights: Written,
    bounds: tuple[Number, Number] | None = None,
    weights_bounds: tuple[Number, Number] | None = None,
    *,
    weight: Number = 1,
) -> WeightedMean:
    """Average a number column, each row weighted by another column.

    The sum of weights times values is divided by the sum of weights, over rows where both are
    present.

    Parameters
    ----------
    column
        A column or an expression of numbers.
    weights
        A column or an expression of numbers, of which none is below 0.
    bounds, weights_bounds
        Public clamping bounds (lower, upper) of each, by default as declared; the weights' lower
        bound is 0 or above.
    weight
        This aggregate's part of the budget, relative to the others in the same `agg`; above 0.

    Returns
    -------
    WeightedMean
        An aggregate, for `Query.agg`.

    Raises
    ------
    InvalidParameter
        For bounds that are no range, weights below 0, and a weight that is not above 0.

    Examples
    --------
    >>> weighted_mean("income", "persons", (0, 100_000), (0, 10)).assumes
    ('income', 'persons')
    """
    return WeightedMean(
        sides=(
            RatioSide.of("bounds", column, bounds),
            RatioSide.of("weights_bounds", weights, weights_bounds),
        ),
        weight=weight_of(weight),
    )
