r"""The plan of a private training: its public facts, before a row is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from unacorda import accounting, checks, display
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.buffered import Buffered
from unacorda.learning.noise.comparison import NoiseChoice, compare_bands
from unacorda.learning.noise.correlated import Correlated
from unacorda.learning.ordered_batches import OrderedBatches
from unacorda.learning.sampling import (
    Batches,
    CyclicSampling,
    PoissonSampling,
    Sampling,
    public_units,
)
from unacorda.learning.shown_losses import ShownLosses
from unacorda.privacy import events
from unacorda.privacy.guarantees import ApproxDP, Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = [
    "TrainingPlan",
    "TrainingRecord",
    "least_error",
    "planned",
    "sampling_of",
    "training_event",
]

_MOST_NOISE = 1e6
_MUCH_NOISE = 100.0
_CRASHES = 100  # of a hundred steps one is planned for again


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a training will do, and its cost; computing it is free.

    Attributes
    ----------
    units, batch_size, steps
        The stated, public numbers.
    epochs
        How often a unit takes part on average.
    sampling
        The sampling scheme.
    noise_multiplier
        The noise over the sensitivity of a sum.
    sensitivity
        The largest l2 norm of what a unit adds to a sum.
    noise
        The standard deviation of the noise in a coordinate of the sum; if the bound is adaptive,
        that of the first step.
    event, budget, neighbors
        What is promised.
    unit
        In words.
    by_unit
        Whether units are given, in place of single rows.
    rows
        The most rows of one unit in a step.
    dataset
        Types and shapes of a row.
    clip
        The bound, in words.
    physical
        How many rows are computed together.
    spare
        How many of the steps are reserved to replace those that a crash interrupts.
    losses
        How losses are shown, if they are.
    comparison
        Predicted errors of correlated noise, if the noise was chosen by them.
    rules
        How gradients of each module are found.
    conditions
        The conditions of the guarantee, in words.

    Examples
    --------
    >>> import torch, unacorda
    >>> from unacorda.learning.training import PrivateTraining
    >>> model = torch.nn.Linear(2, 1)
    >>> training = PrivateTraining(
    ...     model,
    ...     torch.optim.SGD(model.parameters(), lr=0.1),
    ...     (torch.zeros(200, 2), torch.zeros(200, 1)),
    ...     budget=unacorda.ApproxDP(2, 1e-5),
    ...     units=200,
    ...     batch_size=50,
    ...     epochs=1,
    ...     clip=1.0,
    ... )
    >>> training.plan.steps, training.plan.epochs
    (4, 1.0)
    >>> training.close()
    """

    units: int
    batch_size: int
    steps: int
    sampling: Sampling
    noise_multiplier: float
    sensitivity: float
    event: events.Event
    budget: Guarantee
    neighbors: Neighbors
    unit: str
    by_unit: bool
    rows: int
    dataset: str
    clip: str
    physical: int
    spare: int = 0
    losses: ShownLosses | None = None
    comparison: tuple[NoiseChoice, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()

    @property
    def batches(self) -> Batches:
        """The public numbers that sampling goes by."""
        return Batches(units=self.units, batch_size=self.batch_size, steps=self.steps)

    @property
    def epochs(self) -> float:
        """How often a unit takes part, on average."""
        return float(self.steps / self.sampling.epoch(self.units, self.batch_size))

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each coordinate of a sum."""
        return self.noise_multiplier * self.sensitivity

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, as in the record of a release."""
        return {
            "units": self.units,
            "batch_size": self.batch_size,
            "steps": self.steps,
            "sampling": repr(self.sampling),
            "noise_multiplier": self.noise_multiplier,
            "sensitivity": self.sensitivity,
            "event": self.event.to_json(),
            "budget": repr(self.budget),
            "neighbors": self.neighbors.value,
            "unit": self.unit,
            "rows": self.rows,
            "dataset": self.dataset,
            "clip": self.clip,
            "physical": self.physical,
            "spare": self.spare,
            "losses": None if self.losses is None else repr(self.losses),
            "rules": dict(self.rules),
            "conditions": list(self.conditions),
        }

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The main facts, as pairs of a name and a text."""
        average = "" if isinstance(self.sampling, OrderedBatches) else " on average"
        spread = f"{self.noise / self.batch_size:.3g} in each coordinate of the mean gradient"
        found = [
            ("promise", f"{self.budget} ({self.neighbors}), for {self.unit}"),
            ("units", f"{self.units:,} stated"),
            ("batch", f"{self.batch_size:,}{average}, by {self.sampling}"),
            ("steps", f"{self.steps:,} ({self.epochs:.3g} epochs)"),
            ("noise", f"multiplier {self.noise_multiplier:.4g}, standard deviation {spread}"),
            ("rows at once", f"{self.physical:,}"),
        ]
        if self.rows > 1:
            found.append(("rows of a unit", f"{self.rows:,} in a step"))
        if self.losses is not None:
            off = self.losses.error(
                noise_multiplier=self.noise_multiplier, batch_size=self.batch_size
            )
            text = f"a mean of each step, up to {self.losses.largest:g}, off by {off:.2g}"
            found.append(("losses", text))
        found += [("gradients", f"{path}: {rule}") for path, rule in self.rules.items()]
        found += [("error", str(choice)) for choice in self.comparison]
        return [*found, *(("condition", text) for text in self.conditions)]

    def __str__(self) -> str:
        facts = self.facts
        wide, lines, before = max(len(name) for name, _ in facts), [], ""
        for name, text in facts:
            lines.append(f"{'' if name == before else name:<{wide}}  {text}")
            before = name
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return display.facts(self.facts)


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """The record of how released weights were made.

    Attributes
    ----------
    plan
        The plan, in plain values.
    steps
        How many steps were taken.
    secure
        Whether noise and sampling used secure bits; otherwise the weights are not private.

    Examples
    --------
    >>> TrainingRecord(plan={"units": 200}, steps=4, secure=True).secure
    True
    """

    plan: dict[str, Any]
    steps: int
    secure: bool

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {"plan": self.plan, "steps": self.steps, "secure": self.secure}


def planned(
    *,
    sampling: Sampling,
    budget: Guarantee,
    neighbors: Neighbors,
    units: int | None,
    population: int,
    batch_size: int,
    epochs: float | None,
    steps: int | None,
    spare: int | None,
    sensitivity: float,
    conditions: tuple[str, ...] = (),
    **more: Any,
) -> TrainingPlan:
    """The plan with the least noise that keeps the budget.

    Raises InvalidParameter for numbers that do not fit, and for a budget that no noise keeps; the
    message names one that is possible.
    """
    sampling.check_relation(neighbors)
    if units is None:
        if not public_units(neighbors):
            raise InvalidParameter(
                "units",
                units,
                expected="the number of units as far as it is public: under AddRemove how many "
                "there are is private, and len(dataset) must not decide rate or noise",
            )
        units = population
    checks.positive_integer(units=units)
    if public_units(neighbors) and units != population:
        raise InvalidParameter("units", units, expected=f"{population:,}, the number that there is")
    if (epochs is None) == (steps is None):
        raise InvalidParameter("steps", steps, expected="steps= or epochs=, one of them")
    if steps is None:
        assert epochs is not None
        a_epoch = sampling.epoch(units, checks.positive_integer(batch_size=batch_size))
        steps = max(1, round(checks.positive(epochs=epochs) * a_epoch))
    steps = checks.positive_integer(steps=steps)
    spare = -(-steps // _CRASHES) if spare is None else spare
    if spare < 0 or spare != int(spare):
        raise InvalidParameter("spare", spare, expected="a whole number of steps, 0 or above")
    steps += spare
    batches = Batches(units=units, batch_size=batch_size, steps=steps)
    sampling.check(batches, neighbors)
    sampling = sampling.fitted(batches)
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected="a guarantee, such as ApproxDP(2, 1e-6)")
    try:
        noise = _least_noise(sampling, batches, budget, neighbors)
    except UnsupportedEvent as error:
        expected = (
            "ApproxDP with a delta, such as ApproxDP(2, 1e-6): sampled steps have no other price"
        )
        raise InvalidParameter("budget", budget, expected=expected) from error
    except InvalidParameter as error:
        would_do = _that_would_do(sampling, batches, budget, neighbors)
        raise InvalidParameter(
            "budget",
            budget,
            expected=f"a larger one{would_do}: no noise multiplier up to "
            f"{_MOST_NOISE:g} keeps it for {steps:,} steps of {batch_size:,} of {units:,} units; "
            "or take fewer steps",
        ) from error
    assert math.isfinite(noise)
    return TrainingPlan(
        sampling=sampling,
        noise_multiplier=noise,
        sensitivity=sensitivity,
        event=training_event(sampling, batches, neighbors, noise),
        budget=budget,
        neighbors=neighbors,
        units=units,
        batch_size=batch_size,
        steps=steps,
        spare=spare,
        conditions=(*conditions, *sampling.conditions),
        **more,
    )


def _that_would_do(
    sampling: Sampling, batches: Batches, budget: Guarantee, neighbors: Neighbors
) -> str:
    """A budget of the same delta that much noise keeps, in words; empty for other budgets."""
    if not isinstance(budget, ApproxDP) or not budget.delta:
        return ""
    event = training_event(sampling, batches, neighbors, _MUCH_NOISE)
    epsilon = accounting.epsilon(event, delta=budget.delta, neighbors=neighbors)
    enough = float(f"{1.05 * epsilon:.1e}")
    delta = float(budget.delta)
    return f", such as ApproxDP({enough:g}, {delta:g}) with noise of {_MUCH_NOISE:g} clips"


def training_event(
    sampling: Sampling, batches: Batches, neighbors: Neighbors, noise: float
) -> events.Event:
    """The event of all steps with this noise multiplier."""
    # A unit that is replaced moves a sum twice as far as one that is left out.
    own = checks.exact("noise_multiplier", noise) / (2 if neighbors is ReplaceOne else 1)
    alone = events.Gaussian(noise_multiplier=own)
    return sampling.event(events.Gaussian(noise_multiplier=noise), alone, batches)


@lru_cache(maxsize=256)
def _least_noise(
    sampling: Sampling, batches: Batches, budget: Guarantee, neighbors: Neighbors
) -> float:
    """The least noise multiplier that keeps the budget; the same for each model of a search."""
    return accounting.calibrate(
        lambda noise: training_event(sampling, batches, neighbors, noise),
        target=budget,
        neighbors=neighbors,
        within=(1e-3, _MOST_NOISE),
        tolerance=1e-4,
    )


def sampling_of(sampling: Sampling | None, noise: Correlated | str | None) -> Any:
    """The sampling scheme for the given noise and sampling."""
    if sampling is not None and not isinstance(sampling, Sampling):
        expected = "such as learning.PoissonSampling()"
        raise InvalidParameter("sampling", sampling, expected=expected)
    if noise is None:
        return sampling or PoissonSampling()
    if noise != "auto" and not isinstance(noise, Banded | Buffered):
        expected = 'Banded(bands=8), Buffered(), "auto" or None'
        raise InvalidParameter("noise", noise, expected=expected)
    if sampling == OrderedBatches():
        return sampling if isinstance(noise, str) else OrderedBatches(noise=noise)
    if sampling is not None:
        expected = "OrderedBatches(), or None with noise=, which samples groups of units in turn"
        raise InvalidParameter("sampling", sampling, expected=expected)
    if isinstance(noise, Buffered):
        expected = "Banded(bands=8): buffers reach over all steps, and need OrderedBatches()"
        raise InvalidParameter("noise", noise, expected=expected)
    return CyclicSampling(bands=noise.bands) if isinstance(noise, Banded) else PoissonSampling()


def least_error(plan: TrainingPlan) -> tuple[tuple[NoiseChoice, ...], Sampling]:
    """Predicted errors of correlated noise, and the sampling scheme of the least; free of data."""
    ordered = isinstance(plan.sampling, OrderedBatches)
    if plan.neighbors is ReplaceOne and not ordered:
        return (), plan.sampling
    epoch = plan.sampling.epoch(plan.units, plan.batch_size)
    who = {"separation": int(epoch)} if ordered else {"rate": 1 / epoch}
    table = compare_bands(plan.budget, steps=plan.steps, neighbors=plan.neighbors, **who)
    best = min(table, key=lambda choice: choice.error).noise
    if best == Banded(bands=1):
        return tuple(table), plan.sampling
    if isinstance(best, Banded) and not ordered:
        return tuple(table), CyclicSampling(bands=best.bands)
    return tuple(table), OrderedBatches(noise=best)


def check_followed(plan: TrainingPlan, *, noise: Any, canaries: Any) -> None:
    """Raise InvalidParameter for options that do not fit an adaptive bound.

    Correlated noise subtracts earlier noise, which must have the scale of the step's own. A
    canary's norm must be below the bound of every step.
    """
    if noise is not None or plan.sampling.correlated is not None:
        expected = f"None with {plan.clip}: correlated noise needs one bound in all steps"
        raise InvalidParameter("noise", noise, expected=expected)
    if canaries is not None:
        expected = f"None with {plan.clip}: their norm would be above the bound of some step"
        raise InvalidParameter("canaries", canaries, expected=expected)
