"""From events to the parts of one direction: which laws of the loss dominate them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from unacorda.accounting.amplification.sampling import replaced_response
from unacorda.accounting.contour.laplace import LaplaceSum
from unacorda.accounting.contour.sampled_gaussian import sampled_gaussian
from unacorda.accounting.contour.tilts import (
    UNIT,
    Factor,
    FiniteLaw,
    Floats,
    GaussianSum,
    RatioAtoms,
    ThreePoint,
)
from unacorda.accounting.laws import Edged, Finite, Law, Normal, TooExtreme
from unacorda.accounting.profiles.boxes import Box, box, choose, hull
from unacorda.accounting.rules import base
from unacorda.balls import Ball, ball, float_up
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.events import Composed, Event, Gaussian, PoissonSampled, Pure, Repeated
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

_COMPOSITION = Repeated | Composed


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one direction, and the probability that some loss is infinite.

    infinite: the chance of an infinite loss; 0 where no part has infinite losses.
    """

    factors: tuple[Factor, ...]
    infinite: Ball


def flatten(
    composition: Iterable[tuple[Event, int]], *, neighbors: Neighbors = AddRemove
) -> tuple[tuple[Event, int], ...]:
    """Atomic events with their counts: repetitions multiplied out, compositions opened.

    A sample of everybody is no sample, but its numbers compare a unit with none: under ReplaceOne
    they are read as `under_replacement` does, and so are those of Gaussian mixtures.
    """
    counts: dict[Event, int] = {}
    for event, count in composition:
        for alone, times in base.counted(event):
            one = _plain(base.units_replaced(alone, neighbors), neighbors)
            if isinstance(one, _COMPOSITION):
                for inner, many in flatten([(one, times * count)], neighbors=neighbors):
                    counts[inner] = counts.get(inner, 0) + many
            else:
                counts[one] = counts.get(one, 0) + times * count
    return tuple((event, count) for event, count in counts.items() if count)


def _plain(event: Event, neighbors: Neighbors) -> Event:
    """A sample of everybody is no sample; of a sample's sample the rates multiply."""
    if isinstance(event, PoissonSampled):
        rate = exact("rate", event.rate)
        inner = _plain(event.event, AddRemove)  # its numbers compare a unit with none
        if isinstance(inner, PoissonSampled):
            return PoissonSampled(event=inner.event, rate=rate * exact("rate", inner.rate))
        if rate == 1 and neighbors is not ReplaceOne:
            return inner
        if rate == 1:
            with contextlib.suppress(UnsupportedEvent):
                return base.under_replacement(inner)
        return PoissonSampled(event=inner, rate=event.rate)
    return event


def parts_of(
    events: Sequence[tuple[Event, int]],
    *,
    direction: base.Direction,
    log_delta: float,
    neighbors: Neighbors = AddRemove,
) -> Parts | None:
    """The parts; None where one is too extreme for floats.

    events: as `flatten` gives them; log_delta: ln of about the delta in question.
    Raises UnsupportedEvent for an event whose loss has no dominating law here.
    """
    maker = _Maker(
        remove=direction == "remove",
        log_delta=log_delta,
        steps=sum(count for _, count in events) + 1,
        neighbors=neighbors,
    )
    try:
        for event, count in events:
            maker.take(event, count)
    except TooExtreme:
        return None
    factors, infinite = maker.whole()
    return Parts(factors=factors, infinite=infinite)


_NEARLY = 0.999
"""Infinite losses likelier than this are not sampled: hardly a finite one is left."""


@dataclass(slots=True, kw_only=True)
class _Maker:
    """Collects the parts; what has a formula for many different mechanisms goes together."""

    remove: bool
    log_delta: float
    steps: int
    neighbors: Neighbors
    factors: list[Factor] = field(default_factory=list)
    v: Fraction = Fraction(0)
    laplace: list[tuple[float, int]] = field(default_factory=list)
    points: list[tuple[float, float, int]] = field(default_factory=list)
    log_finite: Ball = field(default_factory=lambda: ball(0))
    loss: Ball = field(default_factory=lambda: ball(0))

    def whole(self) -> tuple[tuple[Factor, ...], Ball]:
        """The parts, and the probability that some loss is infinite."""
        factors = list(self.factors)
        if self.laplace:
            pairs = np.array(self.laplace, dtype=np.float64)
            factors.append(LaplaceSum(u=pairs[:, 0], counts=pairs[:, 1]))
        if self.points:
            table = np.array(self.points, dtype=np.float64)
            factors.append(ThreePoint(epsilon=table[:, 0], top=table[:, 1], counts=table[:, 2]))
        if self.v or not self.loss.is_zero():
            loss = float(self.loss)
            factors.append(GaussianSum(v=float(self.v), loss=loss, error=2 * UNIT * abs(loss)))
        return tuple(factors), -self.log_finite.expm1()

    def take(self, event: Event, count: int) -> None:
        """Add `count` copies of an event."""
        match event:
            case PoissonSampled(event=inner, rate=rate):
                if self.neighbors is ReplaceOne:
                    self._opposed(event, count)
                else:
                    self._sampled(event, inner, exact("rate", rate), count)
            case _:
                self._whole(event, count)

    def _whole(self, event: Event, count: int) -> None:
        """Of what is no sample."""
        match self._law(event):
            case Normal(square=square):
                self.v += count * square
            case Edged() as law if law.atom == law.inner:  # Laplace noise
                self.laplace.append((float(law.edge), count))
            case Finite() as law:
                if law.on_three_points:
                    self.points += [
                        (float(loss), float(mass), count)
                        for loss, mass in law.masses.items()
                        if loss > 0
                    ]
                else:
                    self._add(whole(law, count=count, remove=self.remove))
                self._fail(law.infinite, count)
            case _:
                raise _unsupported(event)

    def _law(self, event: Event) -> Law | None:
        # what has a probability below e^-far is left out
        far = max(-self.log_delta, 0.0) + math.log(self.steps) + 44.0
        return base.law_of(event, reach=math.ceil(math.sqrt(2 * far)))

    def _add(self, factor: Factor | None) -> None:
        if factor is None:
            raise TooExtreme
        self.factors.append(factor)

    def _fail(self, infinite: Ball, count: int) -> None:
        """Count copies of a step whose loss is infinite with this probability."""
        self.log_finite += count * ((-infinite).log1p() if infinite < 1 else ball(-math.inf))

    def _sampled(self, event: Event, inner: Event, rate: Fraction, count: int) -> None:
        """On a Poisson sample, under add/remove."""
        law = self._law(inner)
        if isinstance(law, Finite) and law.infinite > _NEARLY:
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
            case Finite():
                if set(law.masses) != {Fraction(0)} or not law.infinite.is_zero():
                    self._add(sampled(law, rate=rate, count=count, remove=self.remove))
            case _:
                raise _unsupported(event)
        if isinstance(law, Finite) and not law.infinite.is_zero():
            # of the mixture `rate * infinite` is an infinite loss; what is left is divided by its
            # mass, and that moves the loss
            left = count * (-ball(rate) * law.infinite).log1p()
            self.loss += left if self.remove else -left
            self.log_finite += left if self.remove else 0

    def _opposed(self, event: Event, count: int) -> None:
        """On a Poisson sample, one unit replaced: what is only pure."""
        assert isinstance(event, PoissonSampled)
        if not isinstance(event.event, Pure):
            raise _unsupported(event)
        pure = exact("epsilon", event.event.epsilon)
        largest, top, _ = replaced_response(pure, rate=exact("rate", event.rate))
        if largest > 0:
            self.points.append((float(largest), float(top), count))


def _root(square: Fraction, event: Event) -> Fraction:
    """The noise multiplier: as given, or the root of its square to 2^-100."""
    if isinstance(event, Gaussian):
        return exact("noise_multiplier", event.noise_multiplier)
    scale = 1 << max(0, 220 - square.numerator.bit_length() + square.denominator.bit_length())
    return Fraction(math.isqrt(square.numerator * scale * scale // square.denominator), scale)


def _unsupported(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="the contour engine",
        try_instead="Its parts: Gaussian and Laplace noise, discrete noise that moves by one, "
        "pure, approximate and randomised-response events; on Poisson samples all but Laplace.",
    )


_FAR = 40.0
"""Of larger losses the exponential is not formed; of smaller ones the logarithm of a tiny rate
would cancel."""


def whole(law: Finite, *, count: int, remove: bool) -> FiniteLaw:
    """`count` copies of a finite law, given that all losses are finite."""
    losses = sorted(law.masses)
    log_mass = [law.masses[loss].log() - ball(loss) for loss in losses]
    atoms = _atoms(log_mass, _boxes(losses))
    return FiniteLaw(atoms=atoms, remove=remove, count=count, lost=law.lost)


def sampled(law: Finite, *, rate: Fraction, count: int, remove: bool) -> FiniteLaw:
    """`count` copies on a Poisson sample, in one direction, given that all losses are finite.

    What only Q can give, of mass `infinite`, has the ratio 1 - rate; what only P can give is an
    infinite loss of the mixture. The mixture is divided by its mass beside that.

    Source      docs/proofs/contour.md, section 12.
    """
    infinite = law.infinite
    losses = sorted(law.masses)
    levels = [((1 - infinite) * law.masses[loss]).log() - ball(loss) for loss in losses]
    ratio = _drawn(_boxes(losses), rate)
    if infinite > 0:
        levels.append(infinite.log())
        last = box(1 - rate).log()
        ratio = Box(np.append(ratio.lower, last.lower), np.append(ratio.upper, last.upper))
        gain = -float((-ball(rate) * infinite).log1p())
        ratio = ratio + Box(np.asarray(gain * (1 - 4 * UNIT)), np.asarray(gain * (1 + 4 * UNIT)))
    return FiniteLaw(atoms=_atoms(levels, ratio), remove=remove, count=count, lost=law.lost)


def _drawn(loss: Box, rate: Fraction) -> Box:
    """ln(1 - rate + rate e^loss)."""
    if rate == 1:
        return loss
    q, rest = box(rate), box(1 - rate)
    low, high = loss.at_most(_FAR), loss.at_least(_FAR)
    near = (low.expm1() * q).log1p()
    far = high + q.log() + (rest / q * (-high).exp()).log1p()
    # the far form where it is sure to hold, both where the loss may lie on either side
    far = choose(loss.lower >= _FAR, far, hull(far, near))
    return choose(loss.upper > _FAR, far, near)


def _boxes(losses: Sequence[Fraction]) -> Box:
    near = np.array([float(loss) for loss in losses])
    return Box(np.nextafter(near, -np.inf), np.nextafter(near, np.inf))


def _atoms(log_mass: Sequence[Ball], ratio: Box) -> RatioAtoms:
    mass: Floats = np.array([float(value) for value in log_mass])
    radius = np.array([float_up(value.rad()) for value in log_mass])
    middle = 0.5 * (ratio.lower + ratio.upper)
    return RatioAtoms(
        log_mass=mass,
        log_mass_error=2 * UNIT * np.abs(mass) + radius,
        log_ratio=middle,
        log_ratio_error=np.maximum(ratio.upper - middle, middle - ratio.lower) * (1 + 1e-9),
    )
