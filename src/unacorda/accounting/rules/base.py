"""What the accountant knows of one kind of event, as methods; each kind has an object of them.

`rules_of` finds it by the event's type. To add a kind, write its event under `privacy/events` and
its `Rules` in the file of this package with the same name.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from unacorda.accounting.laws import FiniteLoss, Law
from unacorda.accounting.profiles.curves import PrivacyProfile
from unacorda.accounting.profiles.noises import of_law, within
from unacorda.checks import demand
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import guarantees
from unacorda.privacy.events import Composed, Event, Gaussian, Repeated, compose
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

_E = TypeVar("_E", bound=Event)
_Kind = TypeVar("_Kind", bound=guarantees.Guarantee)
Direction: TypeAlias = Literal["remove", "add"]
"""remove: the unit is in the first table, not in the second; add: the other way round."""
CurveOf: TypeAlias = Callable[[Event, Direction, Neighbors], PrivacyProfile]
"""One direction's profile; raises UnsupportedEvent where none is known."""

RULES: dict[type[Any], Rules[Any]] = {}
"""The rules of each kind of event, by its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Which profile of an event is asked for.

    inside: the curves of compositions, selections and shuffled events, wherever they stand in the
    event; None: these are refused. quick: lattices that take long are coarser, and bounds too.
    """

    direction: Direction = "remove"
    neighbors: Neighbors = AddRemove
    inside: CurveOf | None = None
    quick: bool = False

    @property
    def remove(self) -> bool:
        """Whether the first table holds the unit."""
        return self.direction == "remove"

    def of(self, event: Event) -> PrivacyProfile:
        """The profile of an event."""
        return rules_of(event).curve(event, self)

    def both(
        self, event: Event, *, neighbors: Neighbors | None = None
    ) -> tuple[PrivacyProfile, PrivacyProfile]:
        """Both directions, under another relation where one is given."""
        asked = self if neighbors is None else replace(self, neighbors=neighbors)
        forward, backward = replace(asked, direction="remove"), replace(asked, direction="add")
        return forward.of(event), backward.of(event)


@dataclass(frozen=True, slots=True)
class Together:
    """Copies of one event: profiles, with how often each, that compose to no less than all copies.

    pair: one that every copy may have.
    """

    above: tuple[tuple[PrivacyProfile, int], ...]
    pair: PrivacyProfile


class Rules(Generic[_E]):
    """All that the accountant knows of one kind of event.

    Defaults state that nothing is known, or follow from what is: a pure epsilon gives every cost,
    a law the profile. A noise usually states `theorem`, `source`, `replaced`, `pure` or `zcdp`, and
    `law` or `curve`.
    """

    theorem: ClassVar[str]
    source: ClassVar[str]
    symmetric: ClassVar[bool] = False
    """Both directions have one law of the loss."""
    symmetric_if_replaced: ClassVar[bool] = False
    """They have where one unit is replaced by another, or what is known is of the worse one."""
    mirrored: ClassVar[bool] = False
    """The two laws of a pair are each other's mirror images, as hard to tell either way."""
    opposite: ClassVar[bool] = False
    """Two units may move the event so that each likelihood is large where the other is not."""
    attains_pure: ClassVar[bool] = False
    """Some pair has the pure epsilon as a loss: no smaller one is enough at delta 0."""
    keeps_size: ClassVar[str | None] = None
    """Names a scheme that keeps the number of units, and knows nothing of adding one."""
    sampled: ClassVar[bool] = False
    """A sample, or shuffled: its costs do not add by a price of its own."""
    slow_moments: ClassVar[bool] = False
    """Renyi divergences take long and prove no more than the profile."""
    one_unit: ClassVar[bool] = False
    """All numbers inside speak of adding or removing a unit, whatever relation is asked."""

    def inside(self, event: _E) -> tuple[Event, ...]:
        """The events of which this one consists."""
        return ()

    def one_law(self, neighbors: Neighbors) -> bool:
        """Whether it is known that both directions have one law, or the worse one is meant."""
        return self.symmetric or (self.symmetric_if_replaced and neighbors is ReplaceOne)

    def cite(self, event: _E, neighbors: Neighbors) -> tuple[str, str]:
        """The theorem that prices the event, in words, and its source."""
        return self.theorem, self.source

    # ---- the event under other relations, and as another event

    def replaced(self, event: _E, units: int) -> Event:
        """The event, its numbers read as add/remove, where so many units are replaced at once."""
        raise UnsupportedEvent(
            event,
            kind="a sample of fixed size",
            try_instead="Sample an event whose price under replacement is known.",
        )

    def of_both_units(self, event: _E) -> Event:
        """The event where one unit is replaced, if its numbers still compare a unit with none."""
        return event

    def plain(self, event: _E) -> Event:
        """An event that costs no less and that every engine knows."""
        return event

    def apart(self, event: _E, asked: Profile) -> tuple[Event, PrivacyProfile] | None:
        """A composition that costs no less, and the profile of one pair; None if one does both."""
        return None

    def together(
        self, event: _E, count: int, among: Sequence[tuple[Event, int]], asked: Profile
    ) -> Together | None:
        """What is known of `count` copies; None where their own profiles compose without loss.

        among: all parts of the composition, these copies included.
        """
        return None

    def below(self, event: _E, neighbors: Neighbors) -> Event | None:
        """An event that costs no more, of a pair that the event allows; None where unknown."""
        return event if plain(units_replaced(event, neighbors)) == event else None

    def doubles(self, event: _E) -> bool:
        """Whether some pair of replaced units is as far apart as `replaced` reads it."""
        return True

    def without_mass(self, event: _E, neighbors: Neighbors) -> tuple[Fraction, Event]:
        """The mass of which nothing is known, rounded up, and the event that the rest is."""
        return Fraction(0), event

    # ---- costs that add

    def pure(self, event: _E) -> Fraction | None:
        """The pure epsilon, exactly; None where the event has none."""
        return None

    def approximate(self, event: _E) -> tuple[Fraction, Fraction] | None:
        """(epsilon, delta) that need no choice of delta; None where there are none."""
        pure = self.pure(event)
        return None if pure is None else (pure, Fraction(0))

    def pure_price(self, event: _E) -> guarantees.PureDP:
        """The pure epsilon; raises UnsupportedEvent where there is none."""
        pure = self.pure(event)
        if pure is None:
            raise self.no_price(event, "PureDP")
        return guarantees.PureDP(pure)

    def zcdp(self, event: _E) -> guarantees.ZCDP:
        """The rho, and the delta that comes with it."""
        return known(guarantees.zcdp_of(self._promise(event, "ZCDP")))

    def gdp(self, event: _E, *, fine: bool) -> guarantees.GDP:
        """The mu, and the delta that comes with it; fine: without rounding it to 2^-80."""
        return known(guarantees.gdp_of(self._promise(event, "GDP")))

    def renyi_price(self, event: _E, order: Fraction) -> guarantees.RenyiDP:
        """The Renyi divergence of an order as a cost."""
        promise = self._promise(event, "RenyiDP")
        if isinstance(promise, guarantees.ApproxDP):
            raise self.has_delta(event)
        return known(guarantees.renyi_of(promise, alpha=order))

    def no_price(self, event: _E, kind: str) -> UnsupportedEvent:
        """The error that the event has no cost of this kind."""
        if self.sampled:
            hint = (
                "Sampled and shuffled events are priced by their privacy loss, not by a sum: "
                "ask epsilon() or delta() of them, or renyi() and rho() where no delta is among "
                "them."
            )
        elif kind == "PureDP":
            hint = "Price it as ZCDP, GDP or ApproxDP."
        else:
            hint = "Price it as RenyiDP, or by its epsilon at a delta."
        return UnsupportedEvent(event, kind=kind, try_instead=hint)

    def has_delta(self, event: _E) -> UnsupportedEvent:
        """The error that an event with a delta has no Renyi divergence."""
        return UnsupportedEvent(
            event, kind="RenyiDP", try_instead="Renyi DP has no delta: use ZCDP or ApproxDP."
        )

    def _promise(self, event: _E, kind: str) -> guarantees.PureDP | guarantees.ApproxDP:
        pair = self.approximate(event)
        if pair is None:
            raise self.no_price(event, kind)
        epsilon, delta = pair
        return guarantees.ApproxDP(epsilon, delta) if delta else guarantees.PureDP(epsilon)

    # ---- the privacy loss under a relation

    def renyi(self, event: _E, alpha: Fraction, neighbors: Neighbors) -> Fraction:
        """The Renyi divergence of order alpha between neighbors, from above."""
        return self.renyi_price(event, alpha).epsilon

    def rho(self, event: _E, neighbors: Neighbors) -> Fraction:
        """The rho of zCDP without a delta, from above."""
        price = self.zcdp(event)
        if price.delta > 0:
            raise UnsupportedEvent(
                event,
                kind="zCDP without a delta",
                try_instead="Use price(event, ZCDP), which keeps the delta, or epsilon().",
            )
        return price.rho

    def finite_loss(self, event: _E, neighbors: Neighbors) -> FiniteLoss | None:
        """The mass of infinite loss, and the largest finite one; None where it is unbounded."""
        pure = self.pure(event)
        return None if pure is None else FiniteLoss(pure, Fraction(0), self.attains_pure)

    def curve(self, event: _E, asked: Profile) -> PrivacyProfile:
        """The profile delta(epsilon), from both sides.

        That of the law, where there is one, else what follows from an epsilon and a delta.
        """
        law = self.law(event, reach=0)
        if law is not None:
            return of_law(law, remove=asked.remove)
        pair = self.approximate(event)
        if pair is None:
            raise _no_profile(event)
        return within(*pair)

    def concentrated(self, event: _E) -> Fraction | None:
        """The rho of an event whose profile is known by its zCDP only; None for all others."""
        return None

    def law(self, event: _E, *, reach: int) -> Law | None:
        """The law of the loss: see `law_of`."""
        return None


_R = TypeVar("_R", bound=type[Rules[Any]])


def curve_by_caller(event: Event, asked: Profile) -> PrivacyProfile:
    """The profile that the caller knows of what has no closed one; UnsupportedEvent if none."""
    if asked.inside is None:
        raise _no_profile(event)
    return asked.inside(event, asked.direction, asked.neighbors)


def _no_profile(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="a closed privacy profile",
        try_instead="Compose privacy loss distributions, or ask the accountant.",
    )


def rules_for(*kinds: type[Any]) -> Callable[[_R], _R]:
    """Register a class of rules for kinds of events."""

    def register(rules: _R) -> _R:
        for kind in kinds:
            RULES[kind] = rules()
        return rules

    return register


def rules_of(event: Event) -> Rules[Any]:
    """The rules of an event's kind.

    Bound       none: it only looks.
    Source      the event.
    """
    return RULES[type(event)]


def known(guarantee: _Kind | None) -> _Kind:
    """A conversion that always exists."""
    assert guarantee is not None
    return guarantee


def under_replacement(event: Event, *, units: int = 1) -> Event:
    """The event inside a sample of fixed size, its numbers read as add/remove, under replacement.

    Replacing one unit is removing one and adding another: shifts double. Randomised response is
    the exception: its epsilon speaks of replacing one answer from the start. units: how many are
    replaced at once, or how often one was drawn.

    Bound       upper: what satisfies the argument under add/remove satisfies the result.
    Source      group privacy of two steps; for bounded range, ranges of log-ratios add; for
                staircases, docs/proofs/contour.md, section 11.

    >>> from unacorda.privacy.events import Gaussian
    >>> under_replacement(Gaussian(noise_multiplier=1.0))
    Gaussian(noise_multiplier=Fraction(1, 2))
    """
    return rules_of(event).replaced(event, units)


def units_replaced(event: Event, neighbors: Neighbors) -> Event:
    """Mixtures, matrices, trees and samples of everybody, in compositions too, under replacement.

    Their numbers compare a unit with none: under replacement both units count, each at steps of
    its own. Under the other relations the event itself.

    Bound       upper.
    Source      under_replacement.
    """
    return rules_of(event).of_both_units(event) if neighbors is ReplaceOne else event


def plain(event: Event) -> Event:
    """Matrix mechanisms and allocations to many steps, in compositions too, as simpler events.

    A matrix mechanism or a tree is one Gaussian of its sensitivity; on cyclic Poisson samples it is
    as many Poisson-sampled Gaussians of the largest column as a group has turns. Allocation
    to every step is no sample.
    Raises UnsupportedEvent for cyclic samples where the bands exceed the separation.

    Bound       upper: noise multipliers are rounded down.
    Source      Denisov et al. 2022, arXiv:2202.08312, Thm. 2.1 (adaptive inputs); Choquette-Choo,
                Ganesh et al. 2023, arXiv:2306.08153, Thm. 4 (cyclic samples);
                docs/proofs/matrices.md.

    >>> from unacorda.privacy.events import MatrixFactorization
    >>> plain(MatrixFactorization(noise_multiplier=2.0, encoder=(1, 0.75), steps=5))
    Gaussian(noise_multiplier=Fraction(8, 5))
    """
    return rules_of(event).plain(event)


def dominating(event: Event, neighbors: Neighbors) -> Event:
    """An event that costs no less and that the engines know; the event itself if nothing is to do.

    Bound       upper.
    Source      units_replaced, plain.
    """
    return plain(units_replaced(event, neighbors))


def dominated(event: Event, neighbors: Neighbors) -> Event | None:
    """An event that costs no more: a pair that the event allows, or None where none is known.

    The event itself where the engines read it without loss.

    Bound       lower.
    Source      the event's rules.

    >>> from unacorda.privacy.events import GaussianMixture
    >>> mixture = GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.5, 0.5))
    >>> dominated(mixture, ReplaceOne) is None
    True
    """
    return rules_of(event).below(event, neighbors)


def without_mass(event: Event, neighbors: Neighbors) -> tuple[Fraction, Event]:
    """The mass of which nothing is known, rounded up, and the event that the rest is.

    Raises UnsupportedEvent for a Poisson sample under replacement of an event with a delta that
    is not pure but for it.

    Bound       upper, of the mass.
    Source      accounting/findings; Kairouz, Oh, Viswanath 2015 (approximate
                events); group privacy of two steps (a sample under replacement).
    """
    return rules_of(event).without_mass(event, neighbors)


def finite_loss(event: Event, neighbors: Neighbors) -> FiniteLoss | None:
    r"""The delta that no epsilon takes away, and the epsilon that is enough there; None if unknown.

    The event's numbers and relation have been checked. `mass` is an exact rational number wherever
    the theorem has one, so that a delta that equals it is distinguished from one just below.

    Bound       upper, both rounded up; tight but for replaced units, where the mass is least.
    Source      composed_loss, sampled_loss, sampled_replaced_loss.

    >>> from unacorda.privacy.events import Approximate
    >>> found = finite_loss(
    ...     Approximate(epsilon=1, delta=1e-6).poisson_sampled(rate=0.01), AddRemove
    ... )
    >>> found.mass, round(float(found.epsilon), 7)
    (Fraction(1, 100000000), 0.0170369)
    """
    return rules_of(event).finite_loss(event, neighbors)


def pure_of(event: Event, neighbors: Neighbors) -> Fraction | None:
    """The pure epsilon under a relation, exact or rounded up; None where there is none.

    Bound       upper.
    Source      finite_loss.
    """
    found = finite_loss(event, neighbors)
    return None if found is None or found.mass else found.epsilon


@functools.lru_cache(maxsize=8192)
def renyi_of_event(event: Event, alpha: Fraction, neighbors: Neighbors) -> Fraction:
    """The Renyi divergence of order alpha between the event's outputs on any two neighbors.

    Bound       upper.
    Source      the event's rules.
    """
    return rules_of(event).renyi(event, alpha, neighbors)


@functools.lru_cache(maxsize=512)
def law_of(event: Event, *, reach: int) -> Law | None:
    """The law of the loss of an event that is no sample; None where none is known here.

    reach: how many sigma of a discrete Gaussian are kept on either side.
    Raises TooExtreme.

    Bound       exact, for the worst pair of the event; upper for Exponential, where all pairs
                count together.
    Source      docs/proofs/contour.md, section 11.
    """
    return rules_of(event).law(event, reach=reach)


def curve_of(
    event: Event,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
    inside: CurveOf | None = None,
    quick: bool = False,
) -> PrivacyProfile:
    """The profile sup over A of P(A) - e^epsilon Q(A) of one direction of an event.

    direction: see Direction; the worse of both is the event's delta. neighbors: sampling is
    priced only under the relation that its theorem names. The numbers inside a fixed-size sample
    speak of adding or removing one unit, as everywhere, and are read here for replacing one.
    inside: the curves of compositions, selections and shuffled events, wherever they stand in the
    event; None: these are refused. quick: as `Profile` takes it.

    Raises UnsupportedEvent for compositions other than of Gaussian events, shuffled ones, and
    sampling schemes under another relation; InvalidParameter for unknown words.

    Bound       both, of the worst pair that the event allows; for ZeroConcentrated, and discrete
                Gaussian noise of l2 sensitivity sqrt(2) or more, of the supremum over pairs.
    Source      the rules of the event's kind; docs/proofs/pld.md.

    >>> import numpy as np
    >>> from unacorda.privacy.events import Gaussian
    >>> found = curve_of(Gaussian(noise_multiplier=1.0))(np.array([1.0]))
    >>> float(found.lower[0]) <= 0.12693673750664397 <= float(found.upper[0])
    True
    """
    demand(direction in ("remove", "add"), "direction", direction, expected="'remove' or 'add'")
    return Profile(direction=direction, neighbors=neighbors, inside=inside, quick=quick).of(event)


def with_parts(event: Event, rewrite: Callable[[Event], Event]) -> Event:
    """A composition with each part rewritten; the event itself where no part changes.

    rewrite: gives back its argument where it has nothing to do.

    Bound       none: that of `rewrite`.
    Source      the event.

    >>> from unacorda.privacy.events import Pure
    >>> with_parts(Pure(epsilon=1) * 2, lambda event: Pure(epsilon=2))
    Repeated(event=Pure(epsilon=2), count=2)
    """
    match event:
        case Repeated(event=one, count=count):
            other = rewrite(one)
            return event if other is one else compose([other], count=count)
        case Composed(parts=parts):
            others = [rewrite(part) for part in parts]
            same = all(other is part for other, part in zip(others, parts, strict=True))
            return event if same else compose(others)
        case _:
            return rewrite(event)


def counted(event: Event) -> Iterator[tuple[Event, int]]:
    """The different events of which a composition consists, with how often each occurs.

    Bound       none: it only looks.
    Source      the event.
    """
    for part in event.parts if isinstance(event, Composed) else (event,):
        yield (part.event, part.count) if isinstance(part, Repeated) else (part, 1)


def leaves(event: Event) -> Iterator[Event]:
    """The different events of which a composition consists; the event itself if it is none.

    Bound       none: it only looks.
    Source      the event.
    """
    return (one for one, _ in counted(event))


def only_gaussian(event: Event) -> bool:
    """Whether the event is Gaussian mechanisms and nothing else.

    Bound       none: it only looks.
    Source      the event.
    """
    return all(isinstance(one, Gaussian) for one in leaves(event))
