"""Rules of compositions: costs add, and whatever else is known is known part by part."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias, TypeVar

from unacorda.accounting.laws import FiniteLoss, Law, both, composed_loss, repeated
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.rules import base
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.conversions import delta_of_independent_failures
from unacorda.privacy.events import Composed, Event, Gaussian, Repeated, compose
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Composition: TypeAlias = Repeated | Composed
_Cost = TypeVar("_Cost", PureDP, ZCDP, GDP, RenyiDP, Fraction)


@base.rules_for(Repeated, Composed)
class CompositionRules(base.Rules[Composition]):
    """The parts of a composition with their counts, each by its own rules."""

    theorem = "a composition of its own"
    source = "Dwork et al. 2006"

    def inside(self, event: Composition) -> tuple[Event, ...]:
        return event.parts if isinstance(event, Composed) else (event.event,)

    def replaced(self, event: Composition, units: int) -> Event:
        return base.with_parts(event, lambda part: base.under_replacement(part, units=units))

    def of_both_units(self, event: Composition) -> Event:
        return base.with_parts(event, lambda part: base.units_replaced(part, ReplaceOne))

    def plain(self, event: Composition) -> Event:
        return base.with_parts(event, base.plain)

    def below(self, event: Composition, neighbors: Neighbors) -> Event | None:
        parts = self.inside(event)
        others = [base.rules_of(part).below(part, neighbors) for part in parts]
        if all(other is part for other, part in zip(others, parts, strict=True)):
            return event
        known = [other for other in others if other is not None]
        count = event.count if isinstance(event, Repeated) else 1
        return compose(known, count=count) if known else None  # what is left out costs 0 or more

    def doubles(self, event: Composition) -> bool:
        return all(base.rules_of(part).doubles(part) for part in self.inside(event))

    def without_mass(self, event: Composition, neighbors: Neighbors) -> tuple[Fraction, Event]:
        found = [base.without_mass(part, neighbors) for part in self.inside(event)]
        count = event.count if isinstance(event, Repeated) else 1
        masses = [mass for mass, _ in found if mass]
        whole = Fraction(0)
        if masses:
            alone = masses[0] if len(masses) == 1 else delta_of_independent_failures(masses)
            whole = min(Fraction(alone) * count, Fraction(1))
        return whole, compose([rest for _, rest in found], count=count)

    def pure(self, event: Composition) -> Fraction | None:
        try:
            return self.pure_price(event).epsilon
        except UnsupportedEvent:
            return None

    def pure_price(self, event: Composition) -> PureDP:
        return _sum(event, lambda part: base.rules_of(part).pure_price(part), PureDP(0))

    def zcdp(self, event: Composition) -> ZCDP:
        return _sum(event, lambda part: base.rules_of(part).zcdp(part), ZCDP(0))

    def gdp(self, event: Composition, *, fine: bool) -> GDP:
        return _sum(event, lambda part: base.rules_of(part).gdp(part, fine=fine), GDP(0))

    def renyi_price(self, event: Composition, order: Fraction) -> RenyiDP:
        return _sum(
            event, lambda part: base.rules_of(part).renyi_price(part, order), RenyiDP(order, 0)
        )

    def renyi(self, event: Composition, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return _sum(event, lambda part: base.renyi_of_event(part, alpha, neighbors), Fraction(0))

    def rho(self, event: Composition, neighbors: Neighbors) -> Fraction:
        return _sum(event, lambda part: base.rules_of(part).rho(part, neighbors), Fraction(0))

    def finite_loss(self, event: Composition, neighbors: Neighbors) -> FiniteLoss | None:
        known = []
        for part in self.inside(event):
            if (found := base.finite_loss(part, neighbors)) is None:
                return None
            known.append((found, event.count if isinstance(event, Repeated) else 1))
        return composed_loss(known)

    def curve(self, event: Composition, asked: base.Profile) -> PrivacyProfile:
        square = squared_mu(event)
        if square is not None:
            return curves.gaussian(square)
        if isinstance(event, Repeated):
            several = base.rules_of(event.event).together(
                event.event, event.count, [(event.event, event.count)], asked
            )
            if several is not None and [times for _, times in several.above] == [1]:
                return several.above[0][0]
        return base.curve_by_caller(event, asked)

    def law(self, event: Composition, *, reach: int) -> Law | None:
        found = (base.law_of(part, reach=reach) for part in self.inside(event))
        if isinstance(event, Repeated):
            return repeated(next(found), event.count)
        return functools.reduce(both, found)


def squared_mu(event: Event) -> Fraction | None:
    """The sum of 1 / noise_multiplier^2 of Gaussian events alone; None for others.

    Bound       exact.
    Source      Dong, Roth, Su 2022, Cor. 3.3.
    """
    match event:
        case Gaussian(noise_multiplier=m):
            return 1 / exact("noise_multiplier", m) ** 2
        case Repeated(event=one, count=count):
            alone = squared_mu(one)
            return None if alone is None else count * alone
        case Composed(parts=parts):
            found = [square for part in parts if (square := squared_mu(part)) is not None]
            return sum(found, start=Fraction(0)) if len(found) == len(parts) else None
        case _:
            return None


def _sum(event: Composition, cost: Callable[[Event], _Cost], start: _Cost) -> _Cost:
    """The costs of all parts, each times its count."""
    if isinstance(event, Repeated):
        return cost(event.event) * event.count
    return sum(map(cost, event.parts), start=start)
