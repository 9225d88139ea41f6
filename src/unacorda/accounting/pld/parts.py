"""The pairs of which a composition consists, each with how often it occurs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import math
from fractions import Fraction

import numpy as np

from unacorda.accounting.amplification.events import delta_of_shuffled_event
from unacorda.accounting.amplification.shuffling import CountLaw
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.laws import Finite, TooExtreme
from unacorda.accounting.pld.selection import selected
from unacorda.accounting.pld.sources import (
    Profile,
    atoms_of_pair,
    by_divergences,
    curve_of_atoms,
    laid_below,
    laid_down,
    sampled_above,
    upper_of,
)
from unacorda.accounting.pld.stages import Part, curve_of_sum, three_points
from unacorda.accounting.prices import checked_pure_epsilon, renyi
from unacorda.accounting.profiles import curves
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import PrivacyProfile, nothing
from unacorda.accounting.rules.base import Direction, curve_of, law_of, rules_of, without_mass
from unacorda.accounting.rules.base import Profile as Asked
from unacorda.balls import ball, float_down
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import events
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

_FEW_KINDS = 64
"""Of more kinds together atoms are no quicker than profiles."""
_ORDERS = tuple(1 + 2.0 ** (k / 2) for k in range(-8, 27))


def parts_of(
    event: events.Event, *, direction: Direction, neighbors: Neighbors, quick: bool = False
) -> tuple[Part, ...]:
    """The parts of an event, compositions opened.

    quick: lattices that take long are coarser.

    Gaussian ones, concentrated ones, and those of which only Renyi divergences are known are each
    added up. Raises UnsupportedEvent where not even these are.

    Bound       both: the composition of the upper curves dominates the event; the composition of
                the lower ones is one that the event allows.
    Source      Bun and Steinke 2016, Lemma 1.7 (zCDP adds); Mironov 2017, Prop. 1 (Renyi
                divergences add); docs/proofs/pld.md.
    """
    found: list[Part] = []
    mu_squared, rho, rest = Fraction(0), Fraction(0), Fraction(1)
    others: list[events.Event] = []
    flat = flatten([(event, 1)], neighbors=neighbors)
    for one, count in flat:
        if isinstance(one, events.Gaussian):
            mu_squared += count / exact("noise_multiplier", one.noise_multiplier) ** 2
            continue
        if len(flat) <= _FEW_KINDS and (curve := _on_three_points(one)) is not None:
            found.append(Part(curve, curve, count))
            continue
        asked = Asked(direction=direction, neighbors=neighbors, inside=_inside, quick=quick)
        if copies := rules_of(one).together(one, count, flat, asked):
            found += [Part(curve, None, times) for curve, times in copies.above]
            found.append(Part(None, copies.pair, count))
            continue
        apart = rules_of(one).apart(one, asked)
        try:
            if apart is not None:
                split, pair = apart
                several = parts_of(split, direction=direction, neighbors=neighbors)
                for part in several:
                    above = None if part.above is None else part.above.above
                    found.append(Part(above, None, part.times * count))
                found.append(Part(None, pair, count))
                continue
            curve = curve_of_any(one, direction=direction, neighbors=neighbors)
        except UnsupportedEvent:
            others.append(events.compose([one], count=count))
            continue
        cost = rules_of(one).concentrated(one)
        if cost is None:
            found.append(Part(curve, curve.attained or curve, count))
            continue
        rho += count * cost
        mass = exact("delta", one.delta) if isinstance(one, events.ZeroConcentrated) else 0
        # rational powers grow with the count: beyond some the mass is rounded up
        rest *= (1 - mass) ** count if count < 1000 else max(1 - mass * count, Fraction(0))
        found.append(Part(None, curve.attained or curve, count))
    if mu_squared:
        curve = curves.gaussian(mu_squared)
        found.append(Part(curve, curve, 1))
    if rho or rest < 1:
        found.append(Part(curves.zero_concentrated(rho, 1 - rest), None, 1))
    if others:
        profile = _by_renyi(events.compose(others), neighbors)
        found.append(Part(laid_down(profile, profile, attained=curves.nothing()), None, 1))
    return tuple(found)


def _on_three_points(event: events.Event) -> PrivacyProfile | None:
    with contextlib.suppress(TooExtreme):
        law = law_of(event, reach=0)
        if isinstance(law, Finite) and law.on_three_points:
            return three_points(law)
    return None


@functools.lru_cache(maxsize=64)
def curve_of_any(
    event: events.Event, *, direction: Direction, neighbors: Neighbors
) -> PrivacyProfile:
    """The profile of one direction of any event, compositions and what is made of them included.

    Raises UnsupportedEvent where no theorem here gives one.

    Bound       both, as curve_of.
    Source      curve_of; docs/proofs/pld.md, Theorem 3 (compositions); selected.
    """
    if direction == "add" and same_in_both_directions(event, neighbors):
        return curve_of_any(event, direction="remove", neighbors=neighbors)
    match event:
        case events.Repeated() | events.Composed():
            return curve_of_sum(parts_of(event, direction=direction, neighbors=neighbors))
        case events.NegativeBinomialTries() | events.PoissonTries():
            return _selected(event, direction, neighbors)
        case events.Shuffled() if neighbors is AddRemove:
            raise UnsupportedEvent(
                event, kind="a privacy profile", try_instead="Shuffling keeps the number of units."
            )
        case events.Shuffled():
            return curve_of_shuffled(event)
        case events.PoissonSampled() | events.RandomAllocation() if neighbors is ReplaceOne:
            curve = curve_of(event, direction=direction, neighbors=neighbors, inside=_inside)
            if curve.atomic:
                return curve
            pair = curve.attained or laid_below(curve)
            return laid_down(upper_of(curve), upper_of(curve), attained=pair)
        case _:
            return curve_of(event, direction=direction, neighbors=neighbors, inside=_inside)


def _inside(event: events.Event, direction: Direction, neighbors: Neighbors) -> PrivacyProfile:
    return curve_of_any(event, direction=direction, neighbors=neighbors)


def _selected(
    event: events.NegativeBinomialTries | events.PoissonTries,
    direction: Direction,
    neighbors: Neighbors,
) -> PrivacyProfile:
    """The best of many runs; raises UnsupportedEvent where one run has no profile."""
    ways: tuple[Direction, Direction] = ("remove", "add")
    one, other = (
        _curve_of_run(event.event, way, neighbors)
        for way in (ways if direction == "remove" else ways[::-1])
    )
    pure = checked_pure_epsilon(event, neighbors)
    return selected(event, (one, other), lambda: _by_renyi(event, neighbors), pure=pure)


@functools.lru_cache(maxsize=16)
def _curve_of_run(
    event: events.Event, direction: Direction, neighbors: Neighbors
) -> PrivacyProfile:
    """The curve of one run, by contour quadrature where grids are too coarse for many steps."""
    curve = curve_of_any(event, direction=direction, neighbors=neighbors)
    if not isinstance(event, events.Repeated | events.Composed):
        return curve
    flat = flatten([(event, 1)], neighbors=neighbors)

    def asked(epsilon: float) -> float:
        at = Fraction(epsilon)
        return contour.delta_of(flat, at, directions=direction, neighbors=neighbors).upper

    try:
        return sampled_above(curve, asked)
    except UnsupportedEvent:
        return curve


def _by_renyi(event: events.Event, neighbors: Neighbors) -> Profile:
    """What Renyi divergences say of both directions; UnsupportedEvent where there are none."""
    mass, rest = without_mass(event, neighbors)
    found = [renyi(rest, alpha=order, neighbors=neighbors) for order in _ORDERS]
    profile = by_divergences(_ORDERS, found)
    if not mass:
        return profile
    failed = float(mass) * (1 + 1e-15)
    return lambda epsilon: failed + profile(epsilon)


def same_in_both_directions(event: events.Event, neighbors: Neighbors) -> bool:
    """Whether it is known that removing and adding a unit have the same profile.

    Bound       none: False where it is not known.
    Source      the noise is symmetric, or the profile is that of the worst of both directions.
    """
    flat = flatten([(event, 1)], neighbors=neighbors)
    return all(rules_of(one).one_law(neighbors) for one, _ in flat)


# Of binary answers the pair is the number of ones, where all others hold a zero; of more
# categories it is how many more answers are of the first than of the second category, where all
# others hold the third. Each other answer then adds 1 or -1 with probability q each, which is
# Bin(n - 1, b) less another one, b (1 - b) = q.

_FAINT = 1e-16
"""As far as delta is above this, nodes are near, most of all where losses are likely."""
_BODY = np.concatenate((np.linspace(0.0, 0.36, 22), np.linspace(0.4, 1.0, 17)))
_TAIL = np.array([1.2, 1.5, 2.0, 4.0])
_CLOSER = 1.4
_REACH = 14.0
"""Standard deviations of binomial laws that are kept."""
_KEPT = 1e20
"""Masses are taken that exceed by this what may be missing of them."""
_TRUSTED = 1e-10
"""What chances, which are floats, may change of a mass, relative."""
_MOST = 10**7
_LARGEST_EPSILON = 30


def curve_of_shuffled(event: events.Shuffled) -> PrivacyProfile:
    """The curve of shuffled reports, under replacement, which is the same in both directions.

    Raises UnsupportedEvent where the local report is not pure.

    Bound       above, by chords between certified deltas; below, of one pair of datasets.
    Source      delta_of_shuffled_event; docs/proofs/amplification.md, Sections 9 and 10.
    """

    def delta(epsilon: float) -> float:
        return delta_of_shuffled_event(event, epsilon=epsilon).upper

    end = 8 / math.sqrt(event.count)  # about
    while delta(end) > _FAINT and end < 1e3:
        end *= _CLOSER
    while end > 1e-9 and delta(end / _CLOSER) <= _FAINT:
        end /= _CLOSER
    nodes = end * np.concatenate((_BODY, _TAIL))
    deltas = np.minimum.accumulate([delta(float(node)) for node in nodes])
    places = np.exp(nodes)

    def profile(epsilons: Array) -> Array:
        """Chords in e^epsilon, which lie above a profile."""
        found = np.interp(np.exp(np.minimum(epsilons, 700.0)), places, deltas) * (1 + 1e-12)
        return np.asarray(np.minimum(found + 1e-300, 1.0))

    return laid_down(profile, profile, attained=_attained(event), places=nodes.tolist())


def _attained(event: events.Shuffled) -> PrivacyProfile:
    report, others = event.event, event.count - 1
    if not isinstance(report, events.Pure | events.RandomizedResponse) or others >= _MOST:
        return nothing()
    local = float_down(ball(exact("epsilon", report.epsilon)))
    if local > _LARGEST_EPSILON:
        return nothing()
    grown = math.exp(local)
    categories = (
        report.categories if isinstance(report, events.RandomizedResponse) else 2 + (grown > 2)
    )
    each = 1 / (grown + categories - 1)
    if categories == 2:
        law, adds = CountLaw.binomial(others, each, reach=_REACH), [grown * each, each]
    elif each <= 0.25:
        part = CountLaw.binomial(others, 2 * each / (1 + math.sqrt(1 - 4 * each)), reach=_REACH)
        law, adds = part.plus(part.turned(0)), [each, 1 - (grown + 1) * each, grown * each]
    else:
        return nothing()
    first, second = (np.convolve(law.masses, one) for one in (adds, adds[::-1]))
    if law.edge:
        whole = np.pad(law.masses, len(adds) - 1)
        views = np.lib.stride_tricks.sliding_window_view(whole, len(adds))
        held = views.min(axis=1) >= _KEPT * law.edge
        first, second = first[held], second[held]
    return curve_of_atoms(atoms_of_pair(first, second, trust=4 * law.error + _TRUSTED))
