"""Eigenvalues and directions of a noisy covariance: how far off they are, and which are noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from unacorda.inference.ball_moments import BallMoments
from unacorda.inference.records import Floats

__all__ = ["Spectrum", "spectrum"]

_CLEAR: Final = 2.0
"""A gap in sizes of what blurs it, from which on the directions on both sides are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """What released moments say, direction by direction, the largest eigenvalue first.

    vectors: one a column; values: eigenvalues as they were released; variances: these, what noise
    and sample add to them on average taken out where the direction is distinct; sampling_error,
    privacy_error: of variances; distinct: whether both gaps beside it are clear; angle_error: in
    radians; after: the gap below each in sizes of what blurs it; norm: of the noise alone.
    """

    vectors: Floats
    values: Floats
    variances: Floats
    sampling_error: Floats
    privacy_error: Floats
    distinct: Floats
    angle_error: Floats
    after: Floats
    norm: float


def spectrum(found: BallMoments, *, rows: int) -> Spectrum:
    """The spectrum of a released covariance of so many rows; no further release.

    Source: docs/proofs/components.md, section 3; Anderson 2003, section 13.5 (sampling errors of
    a normal population); Weyl 1912 (an eigenvalue moves by no more than the norm of the noise).

    >>> from unacorda.privacy import events
    >>> released = BallMoments(
    ...     mean=np.zeros(2),
    ...     covariance=np.diag([0.1, 0.4]),
    ...     mean_noise=0.0,
    ...     matrix_noise=0.01,
    ...     event=events.Pure(epsilon=1),
    ... )
    >>> told = spectrum(released, rows=10**6)
    >>> told.values.round(6).tolist(), told.distinct.tolist(), told.privacy_error.tolist()
    ([0.4, 0.1], [True, True], [0.01, 0.01])
    """
    values, vectors = (array[..., ::-1] for array in np.linalg.eigh(found.covariance))
    size = values.size
    # The largest number of each direction is positive, so that its sign is determined.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(size)]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)

    mean = (vectors.T @ found.mean) ** 2
    crossed = found.mean_noise**2 * (mean[:, None] + mean)
    private = found.matrix_noise**2 / 2 + crossed
    positive = np.maximum(values, 0.0)
    sampled = np.outer(positive, positive) / rows
    norm = math.hypot(
        found.matrix_noise * math.sqrt(2 * size),
        2 * found.mean_noise * math.sqrt(size * float(mean.sum())),
    )

    drawn = 2 * np.sqrt(positive * positive.sum() / rows)
    blur = np.hypot(norm, drawn)
    gaps = values[:-1] - values[1:]
    after = np.append(gaps / np.maximum(blur[:-1], 1e-300), math.inf)
    before = np.insert(gaps / np.maximum(blur[1:], 1e-300), 0, math.inf)
    distinct = np.minimum(after, before) >= _CLEAR

    apart = values[:, None] - values
    np.fill_diagonal(apart, math.inf)
    apart[apart == 0.0] = 1e-300  # never of a distinct direction
    with np.errstate(over="ignore"):
        added = ((private + sampled) / apart).sum(axis=1)
        turned = np.sqrt(((private + sampled) / apart**2).sum(axis=1))
    own = np.sqrt(found.matrix_noise**2 + 2 * crossed.diagonal())
    return Spectrum(
        vectors=vectors,
        values=values,
        variances=np.maximum(np.where(distinct, values - added, values), 0.0),
        sampling_error=np.where(distinct, positive * math.sqrt(2 / rows), drawn),
        privacy_error=np.where(distinct, own, norm),
        distinct=distinct,
        angle_error=np.where(distinct, np.minimum(turned, math.pi / 2), math.pi / 2),
        after=after,
        norm=norm,
    )
