r"""Devices of a regression: each sends one report, of a gradient or of a curvature.

A device knows its own features and target and what everybody may know: bounds, the loss and, from
the server, where the fit stands. It sends one vector in a ball, randomised, and never another.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from unacorda import elements
from unacorda.bits import RandomBits
from unacorda.inference.local.estimates import VectorReports, vector_randomizer
from unacorda.inference.local.reports import NoisyVector
from unacorda.inference.losses import Loss
from unacorda.inference.records import Floats
from unacorda.inference.regression.designs import Scaling, mallows_weights, radius_of
from unacorda.inference.sums import packed, unpacked
from unacorda.mechanisms.local.directions import Directions
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device's reports, for any number of devices: rows of features x and targets y, one each.

    loss: of (prediction, target), as for `MEstimator`; scales: of the public bounds of features;
    budget: of the one report that a device sends; root: what the server has the scaled features
    multiplied by, which whitens them. Scores and curvatures are cut to the bounds that the loss
    states. Rows with a number that is not finite report a vector of length 0.
    """

    loss: Loss
    scales: Scaling
    budget: Guarantee
    root: Floats | None = None

    @property
    def event(self) -> events.Event:
        """The event of a person's one report, of whichever kind it is.

        Both kinds have normal noise of one multiplier, or directions of one epsilon; of these the
        one that tells vectors apart more often is as costly as the other at least.
        """
        either = (self.gradients.event, self.matrices.event)
        known = [one for one in either if isinstance(one, events.RandomizedResponse)]
        if len(known) == 2:
            return min(known, key=lambda one: one.categories)
        return next((one for one in either if isinstance(one, events.Pure)), either[0])

    @property
    def gradients(self) -> VectorReports:
        """Reports of a gradient, at most the typical length of a row times the score's bound."""
        radius = self._radius * Fraction(self.loss.score_bound)
        return vector_randomizer(size=self.scales.size, radius=radius, budget=self.budget)

    @property
    def matrices(self) -> VectorReports:
        """Reports of a matrix v a a', 0 <= v |a|^2 <= 1, about its centre."""
        d = self.scales.size
        size, radius = d * (d + 1) // 2, _root_up(1 - Fraction(1, d))
        like = self.gradients
        if isinstance(like, NoisyVector):
            return NoisyVector(size=size, radius=radius, noise_multiplier=like.noise_multiplier)
        return Directions(epsilon=like.epsilon, size=size, radius=radius)

    def gradient(
        self, x: ArrayLike, y: ArrayLike, *, theta: Floats, bits: RandomBits | None = None
    ) -> Floats:
        """Reports of the weighted gradients at theta, one row each, unbiased."""
        rows, weights, target = self._read(x, y)
        bound = self.loss.score_bound
        with np.errstate(all="ignore"):  # a warning would tell of the data
            score = self.loss.score(rows @ theta, target)
        weights = weights * np.clip(np.nan_to_num(score), -bound, bound)
        return np.asarray(self.gradients.release(rows * weights[:, None], bits=bits))

    def moment(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Floats:
        """Reports of the weighted matrices of the features, packed, one row each, unbiased."""
        given = self._rows(x)
        rows, weights, _ = self._read(given, np.zeros(len(given)))
        return self._matrices(rows, weights, bits=bits)

    def curvature(
        self, x: ArrayLike, y: ArrayLike, *, theta: Floats, bits: RandomBits | None = None
    ) -> Floats:
        """Reports of the weighted curvatures at theta, over their bound, packed, unbiased.

        What is negative counts as 0.
        """
        rows, weights, target = self._read(x, y)
        bound = self.loss.curvature_bound
        with np.errstate(all="ignore"):  # a warning would tell of the data
            bent = self.loss.curvature(rows @ theta, target)
        share = np.clip(np.nan_to_num(bent), 0.0, bound) / bound
        return self._matrices(rows, weights * share, bits=bits)

    def matrix(self, reports: Floats) -> Floats:
        """The mean matrix of packed reports, in the unit of the rows."""
        return unpacked(reports.mean(axis=0), self.scales.size)

    def matrix_deviation(self, count: int) -> float:
        """About the deviation of a diagonal number of the mean matrix of so many reports."""
        return math.sqrt(self.matrices.variance / count) * float(self._radius**2)

    def _matrices(self, rows: Floats, weights: Floats, *, bits: RandomBits | None) -> Floats:
        d, square = self.scales.size, float(self._radius**2)
        upper = np.triu_indices(d)
        factor = np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) / square
        centre = packed(np.eye(d)) / d  # of the least ball around all of them
        vectors = rows[:, upper[0]] * rows[:, upper[1]] * factor * weights[:, None]
        told = np.asarray(self.matrices.release(vectors - centre, bits=bits))
        return (told + centre) * square

    def _rows(self, x: ArrayLike) -> Floats:
        return elements.floats("x", x, dimensions=2, width=self.scales.size)

    def _read(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats, Floats]:
        given, target = self._rows(x), elements.floats("y", y, dimensions=1)
        present = np.isfinite(given).all(axis=1) & np.isfinite(target)
        rows = self.scales.rows(given, present.astype(np.float64))
        if self.root is not None:
            rows = rows @ self.root
        weights = mallows_weights(rows, self._radius)
        return rows, weights, np.where(present, target, 0.0)

    @property
    def _radius(self) -> Fraction:
        return radius_of(self.scales.size)


def _root_up(square: Fraction) -> Fraction:
    scale = 10**12
    return Fraction(math.isqrt(int(square * scale**2)) + 1, scale)
