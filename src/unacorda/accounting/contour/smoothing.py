"""Losses with atoms that no contour sees to the end: beside a Gaussian of almost no cost.

Let D(v) be delta at some epsilon when a Gaussian mechanism of noise multiplier v^(-1/2) is composed
with the rest. With v' at least 4 v e^(v'/4),

    2 D(v) - D(v') <= D(0) <= D(v),

and all three are close together for small v, while |phi| of the Gaussian ends the contour.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TypeAlias

from unacorda.accounting.contour import engine
from unacorda.accounting.contour.laplace_cells import MANY
from unacorda.accounting.contour.parts import flatten, noises_of, parts_of
from unacorda.accounting.contour.plan import (
    abscissas,
    curve,
    most_nodes,
    saddle_for_delta,
    saddle_for_epsilon,
)
from unacorda.checks import Number, exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, Gaussian, GaussianMixture, Laplace
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["delta_interval", "delta_of", "epsilon_interval", "epsilon_of"]

Parts: TypeAlias = tuple[tuple[Event, int], ...]
"""Events with their numbers of copies, as `flatten` gives them."""

_GOOD = 1e-8  # an interval this narrow is not worth more work
_CLOSE = 1e-5  # an interval less narrow than this is worth many nodes
_NODES = 12_000
_PRODUCTS = 1_000_000  # nodes times laws
_SHARE = 0.8  # of the most nodes of a plan
_LAST = 60.0  # v t^2 / 2 is half of this at the last node
_LEAST = 10  # noise multiplier: v is at most 0.01
_STRETCH = 8_000.0  # stretches of many Laplace mechanisms reach about this over the largest u


def epsilon_interval(
    composition: Iterable[tuple[Event, int]], *, delta: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    """An interval that holds the least epsilon of events whose losses have atoms.

    composition, delta, neighbors: as engine.epsilon_interval, whose interval is the start.
    Raises UnsupportedEvent where that engine does, and for Gaussian noise, sampled or not, which
    ends the contour by itself.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    events = flatten(composition, neighbors=neighbors)
    return epsilon_of(events, exact("delta", delta), neighbors=neighbors)


def delta_interval(
    composition: Iterable[tuple[Event, int]], *, epsilon: Number, neighbors: Neighbors = AddRemove
) -> Interval:
    """An interval that holds the least delta; otherwise as epsilon_interval.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    events = flatten(composition, neighbors=neighbors)
    return delta_of(events, exact("epsilon", epsilon), neighbors=neighbors)


def epsilon_of(events: Parts, target: Fraction, *, neighbors: Neighbors = AddRemove) -> Interval:
    """`epsilon_interval` of events as `flatten` gives them, at a delta between 0 and 1.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    _check(events)
    known = engine.epsilon_of(events, target, neighbors=neighbors)
    if known.width <= _GOOD * known.upper or known.upper == math.inf:
        return known
    for noise, c in _noises(events, neighbors, log_delta=math.log(target)):
        known = _epsilon(events, target, neighbors, known, noise=noise, c=c)
        if known.width <= _CLOSE * known.upper:
            break
    return known


def delta_of(events: Parts, at: Fraction, *, neighbors: Neighbors = AddRemove) -> Interval:
    """`delta_interval` of events as `flatten` gives them, at an epsilon from 0, below 2^1000.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    _check(events)
    known = engine.delta_of(events, at, neighbors=neighbors)
    if known.width <= 10 * _GOOD * known.upper:
        return known
    for noise, _ in _noises(events, neighbors, epsilon=float(at)):
        upper = engine.delta_of(_beside(events, noise), at, neighbors=neighbors).upper
        upper = min(known.upper, upper)
        lower = max(known.lower, _down(_below(events, neighbors, noise, at)))
        known = Interval(min(lower, upper), upper)
        if known.width <= _CLOSE * known.upper:
            break
    return known


def _epsilon(
    events: Parts,
    target: Fraction,
    neighbors: Neighbors,
    known: Interval,
    *,
    noise: int,
    c: float,
) -> Interval:
    """Within what is known, by a Gaussian of this noise; c: about the saddle."""
    above = engine.epsilon_of(_beside(events, noise), target, neighbors=neighbors)
    upper, lower = min(known.upper, above.upper), known.lower
    step = 1.7 * (c + 1) / noise**2
    for _ in range(8):
        at = Fraction(above.lower) - Fraction(step)
        if at <= lower or math.isinf(above.upper):
            break
        if _below(events, neighbors, noise, at) > target:
            lower = _down(at)
            break
        step *= 1.6
    return Interval(min(lower, upper), upper)


def _below(events: Parts, neighbors: Neighbors, noise: int, epsilon: Fraction) -> Fraction:
    """2 D(v) - D(v'), from below."""
    # v' = 4 v / (1 - 3 v)^2 is below 4.3 v, and 1 / (1 - 3 v)^2 above 1 + 6 v, for v up to 0.01
    other = Fraction(noise, 2) * (1 - Fraction(3, noise * noise))
    ends = [
        engine.delta_of(_beside(events, one), epsilon, neighbors=neighbors)
        for one in (Fraction(noise), other)
    ]
    return 2 * Fraction(ends[0].lower) - Fraction(ends[1].upper)


def _beside(events: Parts, noise: int | Fraction) -> Parts:
    """With a Gaussian, whose multiplier speaks of the relation itself: nothing is converted."""
    return (*events, (Gaussian(noise_multiplier=noise), 1))


def _noises(
    events: Parts,
    neighbors: Neighbors,
    *,
    log_delta: float | None = None,
    epsilon: float = 0.0,
) -> Iterator[tuple[int, float]]:
    """Noise multipliers for which the nodes just reach the Gaussian's end, with the saddle c.

    First for some nodes, then for as many as laws of few atoms allow.
    """
    near = -46.0 if log_delta is None else log_delta
    parts = parts_of(events, direction="remove", log_delta=near, neighbors=neighbors)
    if parts is None or not parts.factors:
        raise _unsupported(events)
    whole = curve(parts.factors, abscissas(parts.factors))
    if log_delta is None:
        c, near = saddle_for_epsilon(whole, epsilon)
    else:
        c, _ = saddle_for_delta(whole, log_delta)
    scales = [
        float(exact("noise_multiplier", one.noise_multiplier))
        for one, _ in events
        if isinstance(one, Laplace)
    ]
    least = _STRETCH * min(scales) if len(scales) >= MANY else 0.0
    some = min(_NODES, _PRODUCTS // len(events))
    for nodes in (some, int(_SHARE * most_nodes(parts.factors))):
        if nodes == some or nodes > 2 * some:
            reach = max(nodes * 2 * math.pi * c / (30.0 - near), least)
            yield max(_LEAST, math.ceil(reach / math.sqrt(_LAST))), c


def _check(events: Parts) -> None:
    noises = [noise for event, _ in events for noise in noises_of(event)]
    if not noises or any(isinstance(noise, Gaussian | GaussianMixture) for noise in noises):
        raise _unsupported(events)


def _unsupported(events: Parts) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(one for one, _ in events),
        kind="a contour beside a small Gaussian",
        try_instead="Contours alone: Gaussian noise ends them.",
    )


def _down(value: Fraction) -> float:
    near = float(value)
    return max(0.0, near if Fraction(near) <= value else math.nextafter(near, -math.inf))
