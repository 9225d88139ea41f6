r"""The metric of the features, released once: center, spread, two rounds of whitening.

Weights, radius and metric stay fixed afterwards, so that released matrices and later steps use the
same rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from unacorda.inference.records import Floats
from unacorda.inference.regression.bounds import Tail, tail_of
from unacorda.inference.regression.covariance import shrunk
from unacorda.inference.regression.rows import MATRIX, Matrix, Rows, power, share_of
from unacorda.inference.sums import Moment, inverse_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The counts of |a|^2 beyond each radius after whitening, and where they end.

    noise: the deviation of I, taken for the second moment of the rows.
    """

    tail: Tail
    end: float
    noise: float


LEAST_THRIFT: Final = 0.02
"""The least thrift, from which on a second round of whitening has nothing to add."""


_AFFORDABLE, _CHEAP, _FEW = 0.25, 0.05, 4.0
"""Norms of the noise of the Gram matrix, of norm 1, with the largest radius that rows need, and
with one that costs little; the last is the factor of the latter where people are few, as noise in
the counts then hides more rows."""

_FARTHER: Final = 64.0
"""The largest square of a radius, in multiples of that where counts end."""


def thrift(rows: Rows) -> float:
    """The part of their shares that matrices need; it falls with n mu, as their noise does."""
    needed = 3000 * math.pow(rows.size / 5, 1.5)
    return min(1.0, max(LEAST_THRIFT, (needed / power(rows)) ** 2))


def whiten(rows: Rows) -> Metric:
    """Whiten rows by released numbers; at most .13 of mu^2, less where n mu is large.

    Source: docs/proofs/regression.md, section 2.
    """
    d, f = rows.size, max(0.3, min(1.0, 16 * thrift(rows)))
    means = rows.feature_means(share_of(0.01 * f)).values
    octaves, edges, deviation = rows.feature_octaves(means, share_of(0.04 * f))
    rows.standardize(means, _spread(octaves, edges, deviation))
    counted, per_norm, left = 0.008 * f, math.sqrt(2 * d), math.inf
    # Where n mu is large the first matrix is that of nearly all rows, and one round is enough.
    for share in (0.04 * f, 0.06 * f) if thrift(rows) > LEAST_THRIFT else (0.1 * f,):
        # What 1 % exceed, as far as the noise of the matrix allows: a category of share q has
        # |a|^2 = 1 / q, and with a smaller radius its scale would grow from round to round.
        most = 0.35 / (rows.noise(MATRIX, 1.0, share) * per_norm)
        tail, noise = tail_of(rows, share=counted)
        square = max(
            min(tail.end(max(0.01 * rows.number, 2 * noise)) or tail.squares[0], most), 1.5 * d
        )
        found = gram(rows, square, share)
        root = inverse_root(found.matrix, found.norm)
        left = found.deviation * float(np.linalg.norm(root, 2)) ** 2
        rows.transform(root)
    tail, noise = tail_of(rows, share=counted)
    end = tail.end(max(0.0005 * rows.number, 2 * noise)) or float(tail.squares[0])
    return Metric(tail=tail, end=end, noise=left)


def fixed_radius(rows: Rows, metric: Metric, *, share: float) -> float:
    """The squared radius, which few rows exceed, unless the noise of the Gram matrix forbids it.

    It lies beyond the end of the counts if that costs little, as noise hides some rows there.
    """
    one = rows.noise(MATRIX, 1.0, share) * math.sqrt(2 * rows.size)
    cheap = _CHEAP * max(1.0, _FEW * thrift(rows))
    square = max(min(metric.end, _AFFORDABLE / one), min(_FARTHER * metric.end, cheap / one))
    return max(square, 1.25 * rows.size)


def gram(rows: Rows, square_radius: float, share: float) -> Moment:
    """The released mean of w a a^T."""
    asked = Matrix(
        of=lambda row: row.weight(square_radius), bound=square_radius, share=share_of(share)
    )
    (found,) = rows.ask(asked)
    return Moment(matrix=found.matrix, deviation=found.deviation)


def pooled(metric: Metric, found: Moment) -> Moment:
    """A released second moment, pooled with the multiple of I that the last whitening left.

    By the inverse of their variances, or with less of I as far as they differ by more than noise.
    """
    size, variance = len(found.matrix), found.deviation**2
    target = float(np.trace(found.matrix)) / size * np.eye(size)
    _, kept = shrunk(found, target)
    kept = max(kept, metric.noise**2 / (metric.noise**2 + variance))
    return Moment(
        matrix=target + kept * (found.matrix - target), deviation=math.sqrt(kept * variance)
    )


def _spread(octaves: Floats, edges: Floats, deviation: float) -> Floats:
    """Root mean squares of deviations, by the counts that stand out of their noise."""
    half = math.sqrt(edges[1] / edges[0])
    middle = np.concatenate([edges[:1] / half, edges * half])
    counts = np.where(octaves > 2 * deviation, octaves, 0.0)
    people = counts.sum(axis=1)
    spread = np.sqrt((counts @ middle**2) / np.maximum(people, 1.0))
    return np.where(people > 0, spread, 1.0)
