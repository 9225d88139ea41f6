"""Rules of training by matrix factorisation, of trees, and of both on cyclic samples."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from unacorda.accounting.matrices import (
    SquaredNorms,
    count_bands,
    group_columns,
    squared_move,
    squared_sensitivity,
    squared_tree_move,
    squared_tree_sensitivity,
)
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.rules import base
from unacorda.checks import Number, exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP, ZCDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import root_down, root_up

_E = TypeVar("_E", events.MatrixFactorization, events.TreeAggregation, events.CyclicPoissonSampled)
_Steps = TypeVar("_Steps", events.MatrixFactorization, events.TreeAggregation)


class _PlainRules(base.Rules[_E]):
    """All costs are those of the plain event."""

    def zcdp(self, event: _E) -> ZCDP:
        whole = self.plain(event)
        return base.rules_of(whole).zcdp(whole)

    def gdp(self, event: _E, *, fine: bool) -> GDP:
        whole = self.plain(event)
        return base.rules_of(whole).gdp(whole, fine=fine)

    def renyi_price(self, event: _E, order: Fraction) -> RenyiDP:
        whole = self.plain(event)
        return base.rules_of(whole).renyi_price(whole, order)

    def renyi(self, event: _E, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        return base.renyi_of_event(self._under(event, neighbors), alpha, neighbors)

    def rho(self, event: _E, neighbors: Neighbors) -> Fraction:
        whole = self._under(event, neighbors)
        return base.rules_of(whole).rho(whole, neighbors)

    def curve(self, event: _E, asked: base.Profile) -> PrivacyProfile:
        return asked.of(self._under(event, asked.neighbors))

    def _under(self, event: _E, neighbors: Neighbors) -> events.Event:
        """The plain event under a relation, its own numbers read as add/remove."""
        return self.of_both_units(event) if neighbors is ReplaceOne else self.plain(event)


class _StepsRules(_PlainRules[_Steps]):
    """One Gaussian of the sensitivity of all steps of a unit together."""

    theorem = "Gaussian noise of the sensitivity of all steps of a unit together"
    source = "Denisov et al. 2022; docs/proofs/matrices.md"
    mirrored = True

    @abstractmethod
    def sensitivity(self, event: _Steps) -> Fraction:
        """The square of the l2 sensitivity for noise of 1, from above."""

    @abstractmethod
    def move(self, event: _Steps) -> Fraction:
        """The square of a distance by which some unit moves what is released."""

    def plain(self, event: _Steps) -> events.Event:
        return _gaussian_above(event.noise_multiplier, self.sensitivity(event))

    def replaced(self, event: _Steps, units: int) -> events.Event:
        return base.under_replacement(self.plain(event), units=units)

    def of_both_units(self, event: _Steps) -> events.Event:
        return self.replaced(event, 1)

    def below(self, event: _Steps, neighbors: Neighbors) -> events.Event:
        pair = _gaussian_below(event.noise_multiplier, self.move(event))
        return base.under_replacement(pair) if neighbors is ReplaceOne else pair

    def doubles(self, event: _Steps) -> bool:
        return self.plain(event) == self.below(event, AddRemove)


@base.rules_for(events.MatrixFactorization)
class MatrixRules(_StepsRules[events.MatrixFactorization]):
    """Steps through an encoder."""

    def sensitivity(self, event: events.MatrixFactorization) -> Fraction:
        return squared_sensitivity(event)

    def move(self, event: events.MatrixFactorization) -> Fraction:
        return squared_move(event)


@base.rules_for(events.TreeAggregation)
class TreeRules(_StepsRules[events.TreeAggregation]):
    """Steps as the leaves of a binary tree."""

    def sensitivity(self, event: events.TreeAggregation) -> Fraction:
        return Fraction(squared_tree_sensitivity(**_pattern(event)))

    def move(self, event: events.TreeAggregation) -> Fraction:
        return Fraction(squared_tree_move(**_pattern(event)))


@base.rules_for(events.CyclicPoissonSampled)
class CyclicRules(_PlainRules[events.CyclicPoissonSampled]):
    """One Poisson-sampled Gaussian for each column of a unit's group."""

    sampled = one_unit = True
    theorem = "Poisson samples of Gaussian noise, one for each turn of a unit's group"
    source = "Choquette-Choo, Ganesh et al. 2023, Thm. 4"

    def plain(self, event: events.CyclicPoissonSampled) -> events.Event:
        one = event.event
        if (count := count_bands(one)) > one.separation:
            raise UnsupportedEvent(
                event,
                kind="cyclic Poisson sampling",
                try_instead=f"Its encoder has {count} bands: use a separation of that.",
            )
        return _turns(event, group_columns(one)[0], _gaussian_above)

    def of_both_units(self, event: events.CyclicPoissonSampled) -> events.Event:
        return event

    def below(
        self, event: events.CyclicPoissonSampled, neighbors: Neighbors
    ) -> events.Event | None:
        """The unit is of one group and always gives the same."""
        pair = _turns(event, group_columns(event.event)[1], _gaussian_below)
        return base.rules_of(pair).below(pair, neighbors)

    def _under(self, event: events.CyclicPoissonSampled, neighbors: Neighbors) -> events.Event:
        return self.plain(event)


def _pattern(event: events.TreeAggregation) -> dict[str, int]:
    names = ("steps", "participations", "separation")
    return {name: getattr(event, name) for name in names}


def _turns(
    event: events.CyclicPoissonSampled,
    columns: SquaredNorms,
    noise: Callable[[Number, Fraction], events.Gaussian | events.Pure],
) -> events.Event:
    """Samples of the noise of each column of a group, as often as it occurs."""
    sigma = event.event.noise_multiplier
    return events.compose(
        [
            noise(sigma, square).poisson_sampled(rate=event.rate) * turns
            for square, turns in columns or ((Fraction(0), 1),)
        ]
    )


def _gaussian_above(sigma: Number, square: Fraction) -> events.Gaussian:
    """The Gaussian of sigma / sqrt(square), rounded down; of nothing, a noise beyond all bounds."""
    own = exact("noise_multiplier", sigma)
    return events.Gaussian(
        noise_multiplier=_root(own * own / square, root_down) if square else own * 10**15
    )


def _gaussian_below(sigma: Number, square: Fraction) -> events.Gaussian | events.Pure:
    """The Gaussian of sigma / sqrt(square), rounded up; of nothing, what costs nothing."""
    own = exact("noise_multiplier", sigma)
    if not square:
        return events.Pure(epsilon=0)
    return events.Gaussian(noise_multiplier=_root(own * own / square, root_up))


def _root(square: Fraction, rounded: Callable[[Fraction], float]) -> Fraction:
    """The root, exactly where it is rational."""
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root * root == square else Fraction(rounded(square))
