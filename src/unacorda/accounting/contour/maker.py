"""The parts of one direction, collected event by event."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from unacorda.accounting.amplification.sampling import draws, replaced_response
from unacorda.accounting.contour import densities, finite
from unacorda.accounting.contour.atoms import Atoms
from unacorda.accounting.contour.closed import Constant, FiniteLaw, GaussianSum, ThreePoint
from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.laplace import LaplaceSum
from unacorda.accounting.contour.sampled_gaussian import sampled_gaussian
from unacorda.accounting.contour.series import UNIT
from unacorda.accounting.laws import (
    Edged,
    Finite,
    Law,
    MixedNormal,
    Normal,
    ThreePoints,
    TooExtreme,
)
from unacorda.accounting.rules.base import law_of, rules_of
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.events import (
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Pure,
    ReplacementSampled,
)
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["Maker"]

_NEARLY = 0.999
"""Infinite losses likelier than this are not sampled: hardly a finite one is left."""

_SEEN, _LARGEST = 1e-9, 600

_RARE = 1e-17
"""Where more hits than are named are likelier than this, nothing is claimed."""

_MOST_DRAWS = 200
"""A unit that is likely to be drawn more often is not priced here."""


@dataclass(slots=True, kw_only=True)
class Maker:
    """Collects the parts; what has a formula for many different mechanisms goes together."""

    remove: bool
    log_delta: float
    steps: int
    neighbors: Neighbors
    factors: list[Factor] = field(default_factory=list)
    v: Fraction = Fraction(0)
    laplace: list[tuple[float, int]] = field(default_factory=list)
    points: list[tuple[float, float, int]] = field(default_factory=list)
    log_finite: Any = field(default_factory=lambda: context().mpf(0))
    loss: Any = field(default_factory=lambda: context().mpf(0))

    def whole(self) -> tuple[tuple[Factor, ...], Any]:
        """The parts, and the probability that some loss is infinite."""
        factors = list(self.factors)
        if self.v:
            factors.append(GaussianSum(v=float(self.v)))
        if self.laplace:
            pairs = np.array(self.laplace, dtype=np.float64)
            factors.append(LaplaceSum(u=pairs[:, 0], counts=pairs[:, 1]))
        if self.points:
            table = np.array(self.points, dtype=np.float64)
            factors.append(ThreePoint(epsilon=table[:, 0], top=table[:, 1], counts=table[:, 2]))
        if self.loss:
            loss = float(self.loss)
            factors.append(Constant(loss=loss, error=2 * UNIT * abs(loss)))
        return tuple(factors), -context().expm1(self.log_finite)

    def take(self, event: Event, count: int) -> None:
        """Add `count` copies of an event."""
        points = rules_of(event).three_points(event)
        if points is not None:
            if points.epsilon > 0:
                self.points.append((float(points.epsilon), points.top, count))
            if points.infinite:
                self._fail(mpf(points.infinite), count)
            return
        match event:
            case PoissonSampled(event=inner, rate=rate):
                if self.neighbors is ReplaceOne:
                    self._opposed(event, count)
                else:
                    self._sampled(event, inner, exact("rate", rate), count)
            case FixedSizeSampled(event=inner, size=size, population=population):
                self._replaced(
                    event,
                    inner,
                    weights=[mpf(1)],
                    rest=mpf(0),
                    rate=Fraction(size, population),
                    count=count,
                )
            case ReplacementSampled(event=inner):
                self._drawn(event, inner, count)
            case _:
                self._whole(event, count)

    def _whole(self, event: Event, count: int) -> None:
        """Of what is no sample."""
        match self._law(event):
            case Normal(square=square):
                self.v += count * square
            case MixedNormal() as law:
                self._mixture(law, Fraction(1), count)
            case Edged() as law if law.atom == law.inner:  # Laplace noise
                self.laplace.append((float(law.edge), count))
            case Edged() as law:
                self._add(densities.edged(law, rate=Fraction(1), count=count, remove=self.remove))
                self._fail(law.infinite, count)
            case Finite() as law:
                if set(law.masses) != {Fraction(0)}:
                    self._add(finite.whole(law, count=count, remove=self.remove))
                self._fail(law.infinite, count)
            case _:
                raise _unsupported(event)

    def _law(self, event: Event, replaced: int = 0) -> Law | None:
        return law_of(event, reach=math.ceil(math.sqrt(2 * self._far)), replaced=replaced)

    @property
    def _far(self) -> float:
        """What has a probability below e^-far is left out."""
        return max(-self.log_delta, 0.0) + math.log(self.steps) + 44.0

    def _add(self, factor: Factor | None) -> None:
        if factor is None:
            raise TooExtreme
        self.factors.append(factor)

    def _fail(self, infinite: Any, count: int) -> None:
        """Count copies of a step whose loss is infinite with this probability."""
        mp = context()
        self.log_finite += count * mp.log1p(-infinite) if infinite < 1 else -mp.inf

    def _mixture(self, law: MixedNormal, rate: Fraction, count: int) -> None:
        self._add(
            densities.mixed(
                noise_multiplier=law.noise,
                shifts=law.shifts,
                weights=law.weights,
                rate=rate,
                count=count,
                remove=self.remove,
                far=self._far,
            )
        )

    def _sampled(self, event: Event, inner: Event, rate: Fraction, count: int) -> None:
        """On a Poisson sample, under add/remove."""
        points = rules_of(inner).three_points(inner)
        if points is not None and not points.infinite and _sure(points):
            if points.epsilon > 0:
                self._add(_three_sampled(points, rate, count=count, remove=self.remove))
            return
        law = self._law(inner)
        if isinstance(law, Edged | Finite) and law.infinite > _NEARLY:
            raise TooExtreme
        match law:
            case Normal(square=square):
                self._add(
                    sampled_gaussian(
                        noise_multiplier=_root(1 / square, inner),
                        rate=rate,
                        count=count,
                        remove=self.remove,
                        log_delta=self.log_delta,
                        steps=self.steps,
                    )
                )
            case MixedNormal():
                self._mixture(law, rate, count)
            case Edged():
                self._add(densities.edged(law, rate=rate, count=count, remove=self.remove))
            case Finite():
                if set(law.masses) != {Fraction(0)} or law.infinite:
                    self._add(finite.sampled(law, rate=rate, count=count, remove=self.remove))
            case _:
                raise _unsupported(event)
        if isinstance(law, Edged | Finite) and law.infinite:
            # of the mixture `rate * infinite` is an infinite loss; what is left is divided by its
            # mass, and that moves the loss
            left = count * context().log1p(-mpf(rate) * law.infinite)
            self.loss += left if self.remove else -left
            self.log_finite += left if self.remove else 0

    def _opposed(self, event: Event, count: int) -> None:
        """On a Poisson sample, one unit replaced: Gaussian noise, and what is only pure."""
        assert isinstance(event, PoissonSampled)
        if isinstance(event.event, Pure):
            pure = exact("epsilon", event.event.epsilon)
            largest, top, _ = replaced_response(pure, rate=exact("rate", event.rate))
            if largest > 0:
                self.points.append((float(largest), float(top), count))
            return
        law = self._law(event.event)
        if not isinstance(law, Normal):
            raise _unsupported(event)
        self._add(
            densities.opposed(law, rate=exact("rate", event.rate), count=count, far=self._far)
        )

    def _drawn(self, event: ReplacementSampled, inner: Event, count: int) -> None:
        """Draws with replacement: k of them hit the unit with a binomial probability."""
        weights, rest, rate = draws(event.size, event.population, largest=_MOST_DRAWS)
        if rest > _RARE:
            raise TooExtreme
        least = context().exp(-self._far)
        while len(weights) > 1 and rest + weights[-1] < least:
            rest += weights.pop()
        self._replaced(event, inner, weights=weights, rest=rest, rate=rate, count=count)

    def _replaced(
        self,
        event: Event,
        inner: Event,
        *,
        weights: list[Any],
        rest: Any,
        rate: Fraction,
        count: int,
    ) -> None:
        """One unit of a sample replaced, which was drawn k times with weights[k - 1]."""
        if self.neighbors is not ReplaceOne:
            raise _unsupported(event)
        laws = [
            (weight, self._law(inner, k)) for k, weight in enumerate(weights, start=1) if weight > 0
        ]
        lost = 4 * float(rest)
        kinds = {type(law) for _, law in laws}
        if kinds == {Finite}:
            of_points = [(weight, law) for weight, law in laws if isinstance(law, Finite)]
            infinite = mpf(rate) * sum(weight * law.infinite for weight, law in of_points)
            if _NEARLY < infinite < 1:
                raise TooExtreme
            if infinite < 1:
                made = finite.replaced(
                    of_points, rate=rate, count=count, remove=self.remove, lost=lost
                )
                self._add(made)
        elif kinds == {Normal}:
            of_noise = [(weight, law) for weight, law in laws if isinstance(law, Normal)]
            infinite = mpf(0)
            self._add(
                densities.replaced_normal(
                    of_noise,
                    rate=rate,
                    count=count,
                    remove=self.remove,
                    far=self._far,
                    lost=lost,
                )
            )
        elif kinds == {Edged} and len(laws) == 1:
            law = laws[0][1]
            assert isinstance(law, Edged)
            infinite = mpf(rate) * law.infinite
            if _NEARLY < infinite < 1:
                raise TooExtreme
            if infinite < 1:
                self._add(densities.replaced_edged(law, rate=rate, count=count, remove=self.remove))
        else:
            raise _unsupported(event)
        self._fail(infinite, count)


def _root(square: Fraction, event: Event) -> Fraction:
    """The noise multiplier: as given, or the root of its square to 2^-100."""
    if isinstance(event, Gaussian):
        return exact("noise_multiplier", event.noise_multiplier)
    scale = 1 << max(0, 220 - square.numerator.bit_length() + square.denominator.bit_length())
    return Fraction(math.isqrt(square.numerator * scale * scale // square.denominator), scale)


def _sure(points: ThreePoints) -> bool:
    """Whether the mass of the loss 0, 1 less the others, is known well in floats."""
    if points.categories == 2:
        return True
    epsilon = points.epsilon
    return epsilon < _LARGEST and 1 - points.top * (1 + math.exp(-epsilon)) > _SEEN


def _three_sampled(
    points: ThreePoints, rate: Fraction, *, count: int, remove: bool
) -> FiniteLaw | None:
    """The mixture of a law on epsilon, 0, -epsilon with its null law, atom by atom."""
    e, q, top = float(points.epsilon), float(rate), points.top
    if e > 700:
        return None
    rest = max(1 - top * (1 + math.exp(-e)), 0.0)
    ratio = np.array([math.log1p(q * math.expm1(e)), 0.0, math.log1p(q * math.expm1(-e))])
    log_top = math.log(top)
    mass = np.array([log_top - e, math.log(rest) if rest > 1e-12 else -800.0, log_top])
    # of q expm1(e) relative to itself; 1 - 1/f is the share of it in f
    slip = np.array([20.0 + 4 * e, 0.0, 20.0 + 4 * e]) * UNIT
    middle = 40 / max(rest, 1e-12)
    return FiniteLaw(
        atoms=Atoms(
            log_mass=mass,
            log_mass_error=UNIT * np.array([20 + 4 * e, middle, 20 + 4 * e]),
            log_ratio=ratio,
            log_ratio_error=slip * np.abs(np.expm1(-ratio)) * 1.01 + 8 * UNIT * np.abs(ratio),
        ),
        remove=remove,
        count=count,
    )


def _unsupported(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="the contour engine",
        try_instead="Its parts: noise of one number, discrete noise that moves by one, pure, "
        "approximate, bounded-range and randomised-response events, and samples of these.",
    )
