r"""The law of a column: a histogram, and a distribution function with a band.

Both are post-processing of one noisy histogram over public cells. Under replacement a person
moves two counts by one: sqrt 2 in the l2 norm, 2 in the l1 norm.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.inference.records import Floats, column, half_width
from unacorda.inference.sums import law_of, noisy_counts
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Distribution", "Histogram", "distribution", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Noisy counts of cells. edges: (m + 1,); counts, the errors: (m,), in people of n.

    sampling_error is that of the count of a fresh sample of n people.
    """

    edges: Floats
    counts: Floats
    sampling_error: Floats
    privacy_error: float
    noise: Literal["normal", "laplace"]
    n: int

    @property
    def standard_error(self) -> Floats:
        """The root of the sum of both squares, cell by cell."""
        return np.hypot(self.sampling_error, self.privacy_error)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Ends for the expected count of each cell, each covering this often."""
        half = half_width(confidence, self.sampling_error, self.privacy_error)
        return self.counts - half, self.counts + half

    def to_pandas(self) -> Any:
        """A data frame of lower, upper, count and standard error, one line a cell."""
        frames = require("pandas", extra="frames")
        return frames.DataFrame(
            {
                "lower": self.edges[:-1],
                "upper": self.edges[1:],
                "count": self.counts,
                "standard_error": self.standard_error,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A distribution function with a band. edges: (m + 1,); values: (m + 1,), rising from 0 to 1.

    values[k] is the share of people below edges[k]; half_width: of a band that holds the
    population's function at all edges at once, with the confidence that was asked for.
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
    """Counts of public cells, with their errors.

    x: one number a person, n public; edges: public, rising; each cell holds its lower edge, the
    last its upper edge too. What lies beyond counts in the first or last cell, NaN in the middle
    one. budget: any guarantee, kept under the replacement of one person. Counts are unbiased and
    add up to n only up to noise.
    Raises InvalidParameter for arguments that cannot be used.
    Source: Dwork, McSherry, Nissim, Smith 2006, section 3.1.

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
    r"""The distribution function at public edges, with a band that holds it at all of them.

    Arguments and errors as for `histogram`. Sums of the noisy counts from the left, less their
    share of the whole noise (n is public), so that the noise is a bridge, whose largest excursion
    has a bound; the sample's is below sqrt(log(2 / beta) / (2 n)) with probability 1 - beta. Each
    gets half of 1 - confidence. Then the sums are made to rise, which takes none out of the band.
    Source: Massart 1990 (Dvoretzky, Kiefer, Wolfowitz with the constant 2); Doob 1949 (bridges);
    docs/proofs/distributions.md.

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
