"""Private selection: the best of a random number of runs, as events."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.algebra import Event
from unacorda.privacy.events.fields import Real, finite, keep

__all__ = ["NegativeBinomialTries", "PoissonTries"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NegativeBinomialTries(Event):
    r"""The best output of K runs of the event, K of the truncated negative binomial law, K >= 1.

    Each run gives a candidate and its score; only the best is released, and not K.

    Source: Liu and Talwar 2019 (geometric); Papernot and Steinke 2022, Definition 1.

    Parameters
    ----------
    event
        One run, which gives a candidate and its score.
    shape
        eta, above -1: 1 is the geometric law, 0 the logarithmic one.
    stop
        gamma, above 0, at most 1: the smaller, the more runs.
    most
        Where K is drawn anew until it is at most that, 1 or above.

    Examples
    --------
    >>> from unacorda import accounting, events
    >>> tries = NegativeBinomialTries(event=events.Pure(epsilon=0.1), shape=1, stop=0.1)
    >>> round(accounting.epsilon(tries, delta=0), 3)
    0.264
    """

    event: Event
    shape: Real
    stop: Real
    most: int | None = None

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        shape = finite("shape", self.shape, expected="a finite number above -1")
        demand(shape > -1, "shape", self.shape, expected="a finite number above -1")
        demand(self.stop != 0, "stop", self.stop, expected="a number above 0, at most 1")
        keep(self, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonTries(Event):
    """The best output of K runs of the event, K of a Poisson law; no output where K = 0.

    Source: Papernot and Steinke 2022, Theorem 6.

    Parameters
    ----------
    event
        One run, which gives a candidate and its score.
    mean
        E K, above 0.
    most
        Where K is drawn anew until it is at most that, no less than the mean.

    Examples
    --------
    >>> from unacorda import events
    >>> PoissonTries(event=events.Pure(epsilon=0.1), mean=5)
    PoissonTries(event=Pure(epsilon=0.1), mean=5, most=None)
    """

    event: Event
    mean: Real
    most: int | None = None

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        if self.most is not None and self.most < self.mean:
            raise InvalidParameter("most", self.most, expected="the mean or more")


Tries: TypeAlias = NegativeBinomialTries | PoissonTries
"""Events of private selection."""
