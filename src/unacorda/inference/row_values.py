"""Numbers of a row that a fit sums up, said once for arrays and once as SQL for tables.

A fit asks for means over people of a number times the whitened features (a gradient), or times the
square matrix of them (a curvature). Who answers, arrays or an engine, is no concern of the steps.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from unacorda.inference.designs import Scaling
from unacorda.inference.loss_texts import curvature_text, score_text
from unacorda.inference.losses import Loss
from unacorda.inference.noisy_sums import Moment
from unacorda.inference.records import Floats
from unacorda.privacy import events

__all__ = ["Matrix", "People", "RowValue", "Source", "Vector", "curvature_of", "cut", "score_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowValue:
    """A number of each row, a function of its prediction and target, at most `bound` in size.

    values: of arrays, which are cut to the bound by whoever sums them; text: SQL, in the language
    of expressions, of the SQL of both.
    """

    values: Callable[[Floats, Floats], Floats]
    text: Callable[[str, str], str]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The mean of w v a: weight, number, whitened features."""

    of: RowValue
    share: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The mean of w v a a^T, or squared that of (w v)^2 a a^T.

    signed: v may be negative, and counts as what it is; else it counts as 0 then.
    """

    of: RowValue
    share: Fraction
    squared: bool = False
    signed: bool = False

    @property
    def trace_bound(self) -> Fraction:
        """What multiplies radius^2 in the most that a row can add."""
        return Fraction(self.of.bound) ** (2 if self.squared else 1)


class People(Protocol):
    """Those whom a fit is about, with whitened features, a target and weights. Private."""

    @property
    def size(self) -> int:
        """How many parameters there are."""
        ...

    @property
    def radius(self) -> Fraction:
        """No weighted row is longer: see `Design`."""
        ...

    @property
    def back(self) -> Floats:
        """From whitened coefficients to those of the features."""
        ...

    @property
    def rows(self) -> float:
        """How many rows there are, public or released."""
        ...

    @property
    def rows_error(self) -> float:
        """The deviation of the noise in that."""
        ...

    @property
    def repeated(self) -> int:
        """How many of the rows may be one person's."""
        ...

    @property
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        ...

    @property
    def event(self) -> events.Event:
        """What has been released so far."""
        ...

    def scaled(self, unit: float) -> People:
        """The same with a target in this released unit."""
        ...

    def ask(
        self, theta: Floats, *, vectors: Sequence[Vector] = (), matrices: Sequence[Matrix] = ()
    ) -> tuple[list[tuple[Floats, float]], list[Moment]]:
        """Noisy means at these coefficients: vectors with the deviation of their noise, moments."""
        ...

    def residuals(
        self, theta: Floats, sigma: float, *, tuning: float, kappa: float, share: Fraction
    ) -> tuple[Floats, float, float]:
        """Noisy means of w a psi and of w (psi^2 - kappa), and the noise of each of the former.

        psi: the residual in sigmas, cut to [-tuning, tuning].
        """
        ...

    def weighted(
        self, theta: Floats, values: Sequence[RowValue], *, length: Fraction, share: Fraction
    ) -> tuple[Floats, float]:
        """Noisy means of w v for several v, none negative, together no longer than `length`."""
        ...


RowsAre = Literal["public", "released", "made up"]
"""How a number of rows is known: beforehand, by an answer about them, or in a rehearsal."""


class Source(Protocol):
    """People before their features are whitened."""

    @property
    def effective(self) -> float:
        """How many people there are, or as many of one row each as noise would hide as well."""
        ...

    @property
    def rows_are(self) -> RowsAre:
        """How their number is known."""
        ...

    @property
    def spent(self) -> Fraction:
        """Of mu^2, what is spent beside what the fit asks for."""
        ...

    @property
    def least_mean_weight(self) -> float:
        """Public: down to which mean weight of people matrices are to be heard."""
        ...

    def target_mean(self, *, most: float, share: Fraction) -> tuple[float, float]:
        """The noisy mean of the target, which is cut to [0, most], and its noise."""
        ...

    def whitened(self, scales: Scaling, *, share: Fraction) -> People:
        """The people, their features whitened by a released second moment."""
        ...


def score_of(loss: Loss) -> RowValue:
    """The derivative of a loss by the prediction."""
    return RowValue(values=loss.score, text=score_text(loss), bound=loss.score_bound)


def curvature_of(loss: Loss) -> RowValue:
    """The second derivative of a loss by the prediction."""
    return RowValue(values=loss.curvature, text=curvature_text(loss), bound=loss.curvature_bound)


def cut(values: Floats, least: float, most: float) -> Floats:
    """Within bounds; what is no number is 0."""
    # As float64 first: a narrower type would round the bounds. NaN stays.
    found: Floats = np.asarray(np.clip(np.asarray(values, dtype=np.float64), least, most))
    found[np.isnan(found)] = 0.0
    return found
