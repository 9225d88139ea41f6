r"""The distribution of a column: a histogram, a distribution function with a band, a density.

All three are postprocessing of one noisy histogram over public cells. A replaced person changes two
counts by one: sqrt 2 in the l2 norm, 2 in the l1 norm. For a density the heights of cells are
smoothed by local cubics. The bandwidth is chosen from the released heights, for the least error.
Intervals use half of that bandwidth.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.records import (
    ArrayErrors,
    Floats,
    column,
    data_frame,
    half_width,
    public_range,
)
from unacorda.inference.sums import law_of, noisy_counts
from unacorda.privacy.guarantees import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(ArrayErrors):
    """Holds the noisy counts of cells, with their errors.

    Parameters
    ----------
    edges
        Of the cells, rising, shape (m + 1,), in the unit of x.
    counts
        Of people in each cell, shape (m,), unbiased.
    sampling_error
        Of the count of a fresh sample of n people, shape (m,).
    privacy_error
        The standard deviation of the noise of each count.
    noise
        The distribution of the noise: "normal" or "laplace".
    n
        The number of people, public.

    Examples
    --------
    >>> import unacorda
    >>> cells = histogram(
    ...     range(1000), edges=[0, 100, 1000], budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> cells.n, cells.counts.shape
    (1000, (2,))
    """

    edges: Floats
    counts: Floats
    sampling_error: Floats
    privacy_error: float
    noise: Literal["normal", "laplace"]
    n: int

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Returns intervals for the expected count of each cell.

        Parameters
        ----------
        confidence
            The coverage of each, strictly between 0 and 1.

        Returns
        -------
        lower, upper : arrays of shape (m,)
            Ends, in people.
        """
        half = half_width(confidence, self.sampling_error, self.privacy_error)
        return self.counts - half, self.counts + half

    def to_pandas(self) -> Any:
        """A data frame of lower, upper, count and standard error, one line per cell."""
        return data_frame(
            lower=self.edges[:-1],
            upper=self.edges[1:],
            count=self.counts,
            standard_error=self.standard_error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Holds a distribution function with a confidence band.

    Parameters
    ----------
    edges
        Rising, shape (m + 1,), in the unit of x.
    values
        The share of people below each edge, rising from 0 to 1, shape (m + 1,).
    half_width
        Of a band that covers the population's function at all edges simultaneously.
    confidence
        The coverage of the band.

    Examples
    --------
    >>> law = Distribution(
    ...     edges=np.array([0.0, 1.0, 2.0]),
    ...     values=np.array([0.0, 0.4, 1.0]),
    ...     half_width=0.1,
    ...     confidence=0.95,
    ... )
    >>> law.values.tolist()
    [0.0, 0.4, 1.0]
    """

    edges: Floats
    values: Floats
    half_width: float
    confidence: float

    def band(self) -> tuple[Floats, Floats]:
        """Lower and upper ends at each edge, within [0, 1]."""
        lower, upper = self.values - self.half_width, self.values + self.half_width
        return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def histogram(
    x: ArrayLike,
    *,
    edges: ArrayLike,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Histogram:
    """Counts people in public cells, with sampling and privacy errors.

    Counts are unbiased and add up to n only up to noise.

    Source: Dwork, McSherry, Nissim, Smith 2006, section 3.1.

    Parameters
    ----------
    x
        One number per person, shape (n,); n is public. Values beyond the edges count in the first
        or last cell, NaN in the middle one.
    edges
        Public, rising, shape (m + 1,); each cell holds its lower edge, the last its upper edge too.
    budget, bits
        As for `mean`.

    Returns
    -------
    Histogram
        Counts and errors of the m cells.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> cells = histogram(
    ...     range(1000), edges=[0, 100, 1000], budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> bool(np.abs(cells.counts - [100, 900]).max() < 6)
    True
    """
    cuts = _edges(edges)
    values, m = column("x", x), cuts.size - 1
    cells = np.clip(np.searchsorted(cuts, values, side="right") - 1, 0, m - 1)
    cells[np.isnan(values)] = m // 2
    counts, noise = noisy_counts(
        np.bincount(cells, minlength=m), budget=budget, bits=source_of(bits)
    )
    shares = np.clip(counts / values.size, 0.0, 1.0)
    return Histogram(
        edges=cuts,
        counts=counts,
        sampling_error=np.sqrt(values.size * shares * (1 - shares)),
        privacy_error=noise.standard_deviation,
        noise=law_of(noise),
        n=values.size,
    )


def distribution(
    x: ArrayLike,
    *,
    edges: ArrayLike,
    budget: Guarantee,
    confidence: float = 0.95,
    bits: RandomBits | None = None,
) -> Distribution:
    r"""Estimates the distribution function at public edges, with a simultaneous band.

    The noisy counts are summed from the left, minus their share of the total noise (n is public).
    So the noise is a bridge, whose largest excursion has a bound. The sampling error is below
    sqrt(log(2 / beta) / (2 n)) with probability 1 - beta. Each gets half of 1 - confidence. Then
    the sums are made monotone, which leaves the band valid.

    Source: Massart 1990 (Dvoretzky, Kiefer, Wolfowitz with the constant 2); Doob 1949 (bridges);
    docs/proofs/distributions.md.

    Parameters
    ----------
    x, edges, budget, bits
        As for `histogram`.
    confidence
        Of the band, strictly between 0 and 1.

    Returns
    -------
    Distribution
        The function at the m + 1 edges, and the half width of the band.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, edges and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> law = distribution(
    ...     range(1000),
    ...     edges=range(0, 1001, 50),
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> bool(np.abs(law.values - np.linspace(0, 1, 21)).max() < law.half_width < 0.08)
    True
    """
    checks.probability(confidence=confidence)
    cells = histogram(x, edges=edges, budget=budget, bits=bits)
    m, beta = cells.counts.size, (1 - confidence) / 2
    sums = np.append(0.0, np.cumsum(cells.counts))
    steps = np.arange(m + 1) / m
    shares = (sums - steps * (sums[-1] - cells.n)) / cells.n
    excursion = _excursion(cells, steps=m, beta=beta) / cells.n if m > 1 else 0.0
    from_right = np.minimum.accumulate(shares[::-1])[::-1]
    rising = np.clip((np.maximum.accumulate(shares) + from_right) / 2, 0.0, 1.0)
    return Distribution(
        edges=cells.edges,
        values=rising,
        half_width=min(excursion + math.sqrt(math.log(2 / beta) / (2 * cells.n)), 1.0),
        confidence=confidence,
    )


def _edges(edges: ArrayLike) -> Floats:
    cuts = column("edges", edges, least=2)
    if not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise InvalidParameter("edges", edges, expected="finite numbers, each above the one before")
    return cuts


def _excursion(cells: Histogram, *, steps: int, beta: float) -> float:
    """A bound on the largest absolute value of the bridge of noise, but for a chance of beta."""
    sigma = cells.privacy_error
    if cells.noise == "normal":
        return sigma * math.sqrt(steps * math.log(2 / beta) / 2)
    # log E e^(sX) = -log(1 - b^2 s^2) <= 2 log(2) b^2 s^2 up to b s = 1 / sqrt 2; the squares of
    # a bridge's coefficients add up to at most steps / 4. Both signs, every edge.
    b, tail = sigma / math.sqrt(2), math.log(2 * (steps - 1) / beta)
    spread = 2 * math.log(2) * b**2 * steps / 4
    s = min(math.sqrt(tail / spread), 1 / (math.sqrt(2) * b))
    return spread * s + tail / s


_CELLS: Final = 256
_TERMS: Final = 4
"""Of a cubic: its error on a smooth density falls with the fourth power of the bandwidth."""

_REACHES: Final = [_CELLS * 2 ** (-k / 4) for k in range(27)]
"""Bandwidths in cells, the last one so that a cubic has five cells to go by."""

_HALF: Final = 4
"""So many places further on a bandwidth is half as wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Density(ArrayErrors):
    """Holds a smooth density over public bounds, with errors; arrays have shape (m,).

    Parameters
    ----------
    points
        Middles of the cells, in the unit of x.
    values
        0 or above; they integrate to 1 by the midpoint rule over the points.
    bandwidth
        How far they are smoothed, in the unit of x.
    centre
        Heights smoothed with half that bandwidth, where the bias at peaks is small compared with
        the errors.
    sampling_error, privacy_error
        Standard deviations of `centre`.
    path
        An angle that determines how much wider a band is than intervals.

    Examples
    --------
    >>> import unacorda
    >>> shape = density(
    ...     np.linspace(0, 100, 1000),
    ...     lower=0,
    ...     upper=100,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> shape.points.shape == shape.values.shape
    True
    """

    points: Floats
    values: Floats
    bandwidth: float
    centre: Floats
    sampling_error: Floats
    privacy_error: Floats
    path: float

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Returns intervals for the density at each point.

        They include sampling and privacy errors as normal, and cover the density where it is smooth
        in the sense of `density`.

        Parameters
        ----------
        confidence
            The coverage of each, strictly between 0 and 1, else InvalidParameter.

        Returns
        -------
        lower, upper : arrays of shape (m,)
            Ends, 0 or above.
        """
        checks.probability(confidence=confidence)
        return self._around(NormalDist().inv_cdf((1 + confidence) / 2))

    def band(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Returns a band that covers the density at all points simultaneously.

        Source: Naiman 1986; docs/proofs/distributions.md.

        Parameters
        ----------
        confidence
            The probability with which it does; else as for `interval`.

        Returns
        -------
        lower, upper : arrays of shape (m,)
            Ends, 0 or above.
        """
        checks.probability(confidence=confidence)

        def missed(times: float) -> float:
            crossings = self.path / math.pi * math.exp(-(times**2) / 2)
            return 2 * NormalDist().cdf(-times) + crossings - (1 - confidence)

        return self._around(brentq(missed, 0.0, 38.0))

    def to_pandas(self, confidence: float = 0.95) -> Any:
        """Returns a data frame of point, value, standard error and interval, one line per point.

        Parameters
        ----------
        confidence
            Of the intervals.
        """
        lower, upper = self.interval(confidence)
        return data_frame(
            point=self.points,
            value=self.values,
            standard_error=self.standard_error,
            lower=lower,
            upper=upper,
        )

    def _around(self, times: float) -> tuple[Floats, Floats]:
        half = times * self.standard_error
        return np.maximum(self.centre - half, 0.0), np.maximum(self.centre + half, 0.0)


def density(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Density:
    r"""Estimates a smooth density of a bounded column, with errors, intervals and a band.

    A noisy histogram of 256 cells is smoothed by local cubics. The bandwidth minimizes an unbiased
    estimate of the squared error. Intervals use half that bandwidth: there the bias is a sixteenth,
    and the deviation some 1.4 times as large. So they cover the density where it has four
    derivatives and its features are wide enough to be visible through sampling and noise. They miss
    it at jumps and kinks. For features that are too narrow they cover the smoothed density.

    Source: Cheng, Fan, Marron 1997 (cubics fitted to cells, up to the bounds); Mallows 1973 (the
    choice of a smoother by its error); Calonico, Cattaneo, Farrell 2018 (intervals by less
    smoothing); docs/proofs/distributions.md.

    Parameters
    ----------
    x, budget, bits
        As for `mean`.
    lower, upper
        Public bounds, in the unit of x; values beyond them count in the outermost cells.

    Returns
    -------
    Density
        Heights at 256 points, in the inverse unit of x.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> shape = density(
    ...     np.linspace(0, 100, 10000),
    ...     lower=0,
    ...     upper=100,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> bool(np.abs(shape.values - 0.01).max() < 0.002)
    True
    >>> low, high = shape.interval()
    >>> bool((high - low).max() < 0.004)
    True
    """
    low, high = public_range(lower, upper, of="x")
    edges = np.linspace(low, high, _CELLS + 1)
    if not (np.diff(edges) > 0).all():
        expected = (
            f"so far above lower, {lower}, that floats tell {_CELLS} cells between them apart"
        )
        raise InvalidParameter("upper", upper, expected=expected)
    cells = histogram(x, edges=edges, budget=budget, bits=bits)
    # Heights, 1 on average: n is public, so that the noise of the whole can go.
    heights = cells.counts * (_CELLS / cells.n)
    heights += 1 - heights.mean()
    chosen = _choice(heights, cells)
    smooth = np.maximum(_smoother(_REACHES[chosen]) @ heights, 0.0)
    smooth = smooth / smooth.mean() if smooth.any() else np.ones(_CELLS)
    rough = _smoother(_REACHES[chosen + _HALF])
    unit = 1 / (high - low)
    return Density(
        points=low + (high - low) * (np.arange(_CELLS) + 0.5) / _CELLS,
        values=smooth * unit,
        bandwidth=_REACHES[chosen] / _CELLS * (high - low),
        centre=rough @ heights * unit,
        sampling_error=_sampling_error(rough, smooth, n=cells.n) * unit,
        privacy_error=_privacy_error(rough, cells) * unit,
        path=_path(rough, smooth, cells),
    )


def _smoother(reach: float) -> Floats:
    """The matrix that takes heights to smoothed ones; reach: of each cubic, in cells.

    A cubic, and so a constant, stays the same. Towards the bounds a cubic looks as far inwards
    as it takes to see five cells.
    """
    places = np.arange(_CELLS, dtype=np.float64)
    away = places - places[:, None]
    fifth = np.sort(np.abs(away), axis=1)[:, 4:5]
    away /= np.maximum(reach, fifth + 0.5)
    weights = np.maximum(1 - away**2, 0.0)
    moments, power = [], weights
    for _ in range(2 * _TERMS - 1):
        moments.append(power.sum(axis=1))
        power = power * away
    terms = np.arange(_TERMS)
    squares = np.moveaxis(np.array(moments)[terms[:, None] + terms], 2, 0)
    first = np.broadcast_to(np.eye(_TERMS)[:, :1], (_CELLS, _TERMS, 1))
    cubic = np.linalg.solve(squares, first)
    smoother = np.zeros_like(away)
    for term in reversed(terms):
        smoother = smoother * away + cubic[:, term]
    return np.asarray(smoother * weights)


def _choice(heights: Floats, cells: Histogram) -> int:
    """The place of the bandwidth whose squared error seems the least, by an unbiased estimate."""
    variances = (_CELLS / cells.n) ** 2 * (cells.counts + cells.privacy_error**2)
    risks = []
    for reach in _REACHES[:-_HALF]:
        smoother = _smoother(reach)
        left = smoother @ heights - heights
        risks.append(left @ left + 2 * (np.diag(smoother) @ variances))
    return int(np.argmin(risks))


def _sampling_error(smoother: Floats, heights: Floats, *, n: int) -> Floats:
    """Of smoothed heights of n people who fall into cells by these; that of one at the least."""
    shares = heights / _CELLS
    squares = smoother**2
    whole = (squares @ shares - (smoother @ shares) ** 2) / n
    one = (squares.sum(axis=1) / n) ** 2
    error: Floats = _CELLS * np.sqrt(np.maximum(whole, one))
    return error


def _privacy_error(smoother: Floats, cells: Histogram) -> Floats:
    """Of smoothed heights whose noise adds up to 0, which takes 1 / m from its squares."""
    squares = (smoother**2).sum(axis=1) - 1 / _CELLS
    error: Floats = cells.privacy_error * _CELLS / cells.n * np.sqrt(squares)
    return error


def _path(smoother: Floats, heights: Floats, cells: Histogram) -> float:
    """The sum of the angles between neighboring estimates, their correlations being cosines."""
    deviations = np.sqrt(cells.n / _CELLS * heights + cells.privacy_error**2)
    ways = smoother * deviations
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    cosines = np.einsum("ij,ij->i", ways[1:], ways[:-1])
    return float(np.arccos(np.clip(cosines, -1.0, 1.0)).sum())
