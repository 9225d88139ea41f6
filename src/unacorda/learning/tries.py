r"""The price of a search for hyperparameters: the distribution of its tries, and their budgets.

One training and one score are a run; the best of a random number of runs keeps the budget. Source:
Papernot and Steinke 2022, arXiv:2110.03620; docs/proofs/training.md, section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from unacorda import accounting, checks
from unacorda.accounting.selection import stop_of
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.learning.plan import TrainingPlan, training_event
from unacorda.learning.sampling import Batches, Sampling
from unacorda.mechanisms.parameters import exact_root_down
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ApproxDP
from unacorda.privacy.neighbors import Neighbors

__all__ = ["SearchLaw", "SearchPlan", "TrainingPrice", "price_training"]

_TOLERANCE: Final = 1e-3

_DEARER: Final = 1.3
"""Of the noise of one training, that of a training of a search, roughly."""


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What a search will do, and its cost; computing it is free.

    Attributes
    ----------
    budget, neighbors, unit
        What is promised.
    event
        Of the whole search.
    each
        The budget of one training.
    score
        That of one score.
    candidates
        How many there are.
    tries
        Their mean number.
    most_tries
        The number that 99 of 100 searches do not exceed.
    noise_ratio
        The noise of a training over that of a single one with the whole budget.
    by_curve
        Whether trainings are priced by their whole curves, which needs the same sampling for all
        candidates, or only by epsilon and delta.

    Examples
    --------
    >>> from unacorda.privacy.neighbors import AddRemove
    >>> plan = SearchPlan(
    ...     budget=ApproxDP(2, 1e-6),
    ...     neighbors=AddRemove,
    ...     unit="a row",
    ...     event=events.NegativeBinomialTries(event=events.Pure(epsilon=0.5), shape=1, stop=0.2),
    ...     each=ApproxDP(1, 1e-7),
    ...     score=GDP(0.1),
    ...     candidates=3,
    ...     tries=5.0,
    ...     most_tries=21,
    ...     noise_ratio=1.7,
    ...     by_curve=False,
    ... )
    >>> plan.each
    ApproxDP(epsilon=1.0, delta=1e-07)
    """

    budget: ApproxDP
    neighbors: Neighbors
    unit: str
    event: events.NegativeBinomialTries
    each: ApproxDP
    score: GDP
    candidates: int
    tries: float
    most_tries: int
    noise_ratio: float
    by_curve: bool

    def __str__(self) -> str:
        by = "whole curve" if self.by_curve else "epsilon and delta, as candidates sample unlike"
        facts = {
            "promise": f"{self.budget} ({self.neighbors}), for {self.unit}",
            "candidates": f"{self.candidates:,}",
            "tries": f"{self.tries:.4g} on average, {self.most_tries:,} or fewer 99 times in 100",
            "each training": f"{self.each}, priced by its {by}",
            "noise": f"{self.noise_ratio:.3g} times that of one training with the whole budget",
            "each score": f"sums over held-out units, standard deviation {1 / self.score.mu:.3g}",
        }
        return "\n".join(f"{name:<13}  {text}" for name, text in facts.items())


@dataclass(frozen=True)
class SearchLaw:
    """What a search may cost, and the law of its number of tries."""

    budget: ApproxDP
    tries: float
    shape: float
    share: float

    def __post_init__(self) -> None:
        given: object = self.budget
        if not isinstance(given, ApproxDP) or not 0 < self.budget.delta < 1:
            expected = (
                "ApproxDP with a delta, such as ApproxDP(2, 1e-6): the best of a random number of "
                "sampled trainings has no price in another kind"
            )
            raise InvalidParameter("budget", self.budget, expected=expected)
        if not 0 < checks.finite(share=self.share) < 1:
            raise InvalidParameter("share", self.share, expected="strictly between 0 and 1")
        stop_of(shape=self.shape, tries=self.tries)

    @cached_property
    def stop(self) -> float:
        """The gamma of the law."""
        return stop_of(shape=self.shape, tries=self.tries)

    @cached_property
    def score(self) -> GDP:
        """The budget of one score."""
        return GDP.within(self.budget) * Fraction(checks.exact("share", self.share))

    def event(self, training: events.Event) -> events.NegativeBinomialTries:
        """The event of a search whose trainings have this event."""
        score = events.Gaussian(noise_multiplier=exact_root_down(1 / self.score.mu_squared))
        run = events.compose([training, score])
        return events.NegativeBinomialTries(event=run, shape=self.shape, stop=self.stop)


@dataclass(frozen=True, kw_only=True)
class TrainingPrice:
    """The budget of one training, its event, and the requirements of a training with this event."""

    each: ApproxDP
    training: events.Event
    scheme: tuple[Sampling, Batches] | None = None
    noise: float = 0.0

    def holds(self, plan: TrainingPlan) -> bool:
        """Whether a training of this plan has this price at most."""
        alike = self.scheme in (None, (plan.sampling, plan.batches))
        return plan.budget == self.each and alike and plan.noise_multiplier >= self.noise


@lru_cache(maxsize=64)
def price_training(
    law: SearchLaw,
    scheme: tuple[Sampling, Batches] | None,
    neighbors: Neighbors,
    alone: float = 1.0,
) -> TrainingPrice:
    """Price one training: the least noise, or the most epsilon, with which a search keeps the law.

    scheme: the sampling of all candidates, which gives the event and its curve; None if they
    differ, so that only epsilon and delta are known; alone: the noise of one training with the
    whole budget, from which the search starts. Bound       upper: a run has this event, or one that
    more noise makes of it. Source      docs/proofs/training.md, section 6.
    """
    delta = law.budget.delta

    def by_noise(noise: float) -> events.Event:
        assert scheme is not None
        return training_event(*scheme, neighbors, noise)

    rest = Fraction(f"{float(delta) / (2 * law.tries):.3g}")

    def by_epsilon(epsilon: float) -> events.Event:
        return events.Approximate(epsilon=epsilon, delta=rest)

    try:
        if scheme is not None:
            with suppress(UnsupportedEvent):
                noise = accounting.calibrate(
                    lambda noise: law.event(by_noise(noise)),
                    target=law.budget,
                    neighbors=neighbors,
                    within=(1e-3, 1e6),
                    guess=_DEARER * alone,
                    tolerance=_TOLERANCE,
                )
                event = by_noise(noise)
                epsilon = accounting.epsilon(event, delta=delta, neighbors=neighbors)
                # So much less that the noise which keeps it is above this one, past all rounding.
                each = ApproxDP(_below(epsilon), delta)
                return TrainingPrice(each=each, training=event, scheme=scheme, noise=noise)
        epsilon = accounting.calibrate(
            lambda epsilon: law.event(by_epsilon(epsilon)),
            target=law.budget,
            find="most",
            neighbors=neighbors,
            within=(1e-3, 1e3),
            tolerance=_TOLERANCE,
        )
    except InvalidParameter as error:
        expected = f"more epsilon, fewer tries than {law.tries:g}, or a smaller share={law.share:g}"
        raise InvalidParameter("budget", law.budget, expected=expected) from error
    return TrainingPrice(each=ApproxDP(_below(epsilon), rest), training=by_epsilon(epsilon))


def _below(epsilon: float) -> float:
    """A short number that is a little smaller, by more than the accountant rounds."""
    return float(f"{(1 - _TOLERANCE) * epsilon:.4g}")
