"""Losses with atoms that no contour sees to the end: beside a Gaussian of almost no cost.

Let D(v) be delta at some epsilon when a Gaussian mechanism of noise multiplier v^(-1/2) is composed
with the rest. With v' at least 4 v e^(v'/4),

    2 D(v) - D(v') <= D(0) <= D(v),

and all three are close together for small v, while |phi| of the Gaussian ends the contour.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from tacet.accounting.contour import engine
from tacet.accounting.contour.laplace_cells import MANY
from tacet.accounting.contour.parts import flatten, parts_of
from tacet.accounting.contour.plan import abscissas, curve, saddle_for_delta, saddle_for_epsilon
from tacet.checks import Number, exact
from tacet.errors import UnsupportedEvent
from tacet.privacy.estimates import Interval
from tacet.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
)

__all__ = ["delta_interval", "epsilon_interval"]

_WITH_ATOMS = Laplace | DiscreteLaplace | Pure | Approximate | RandomizedResponse
_GOOD = 1e-8  # an interval this narrow is not worth more work
_NODES = 12_000
_PRODUCTS = 1_000_000  # nodes times laws
_LAST = 60.0  # v t^2 / 2 is half of this at the last node
_LEAST = 10  # noise multiplier: v is at most 0.01
_STRETCH = 8_000.0  # stretches of many Laplace mechanisms reach about this over the largest u


def epsilon_interval(composition: Iterable[tuple[Event, int]], *, delta: Number) -> Interval:
    """An interval that holds the least epsilon of events whose losses have atoms.

    composition, delta: as engine.epsilon_interval, whose interval is the start.
    Events: Laplace and discrete Laplace noise, pure, approximate, randomised response. Raises
    UnsupportedEvent for others: Gaussian noise among them ends the contour by itself.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    events = _events(composition)
    target = exact("delta", delta)
    known = engine.epsilon_interval(events, delta=delta)
    if known.width <= _GOOD * known.upper or known.upper == math.inf:
        return known
    noise, c = _noise(events, log_delta=math.log(target))
    above = engine.epsilon_interval([*events, (Gaussian(noise_multiplier=noise), 1)], delta=delta)
    upper, lower = min(known.upper, above.upper), known.lower
    step = 1.7 * (c + 1) / noise**2
    for _ in range(8):
        at = Fraction(above.lower) - Fraction(step)
        if at <= lower or math.isinf(above.upper):
            break
        if _below(events, noise, at) > target:
            lower = _down(at)
            break
        step *= 1.6
    return Interval(min(lower, upper), upper)


def delta_interval(composition: Iterable[tuple[Event, int]], *, epsilon: Number) -> Interval:
    """An interval that holds the least delta; otherwise as epsilon_interval.

    Bound       both sides.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    events = _events(composition)
    at = exact("epsilon", epsilon)
    known = engine.delta_interval(events, epsilon=at)
    if known.width <= 10 * _GOOD * known.upper:
        return known
    noise, _ = _noise(events, epsilon=float(at))
    beside = [*events, (Gaussian(noise_multiplier=noise), 1)]
    upper = min(known.upper, engine.delta_interval(beside, epsilon=at).upper)
    lower = max(known.lower, _down(_below(events, noise, at)))
    return Interval(min(lower, upper), upper)


def _below(events: Sequence[tuple[Event, int]], noise: int, epsilon: Fraction) -> Fraction:
    """2 D(v) - D(v'), from below."""
    # v' = 4 v / (1 - 3 v)^2 is below 4.3 v, and 1 / (1 - 3 v)^2 above 1 + 6 v, for v up to 0.01
    other = Fraction(noise, 2) * (1 - Fraction(3, noise * noise))
    ends = [
        engine.delta_interval([*events, (Gaussian(noise_multiplier=one), 1)], epsilon=epsilon)
        for one in (Fraction(noise), other)
    ]
    return 2 * Fraction(ends[0].lower) - Fraction(ends[1].upper)


def _noise(
    events: Sequence[tuple[Event, int]],
    *,
    log_delta: float | None = None,
    epsilon: float = 0.0,
) -> tuple[int, float]:
    """A noise multiplier for which the nodes just reach the Gaussian's end, and the saddle c."""
    near = -46.0 if log_delta is None else log_delta
    parts = parts_of(events, direction="remove", log_delta=near)
    if parts is None or not parts.factors:
        raise _unsupported(events)
    whole = curve(parts.factors, abscissas(parts.factors))
    if log_delta is None:
        c, near = saddle_for_epsilon(whole, epsilon)
    else:
        c, _ = saddle_for_delta(whole, log_delta)
    nodes = min(_NODES, _PRODUCTS // len(events))
    reach = nodes * 2 * math.pi * c / (30.0 - near)
    scales = [
        float(exact("noise_multiplier", one.noise_multiplier))
        for one, _ in events
        if isinstance(one, Laplace)
    ]
    if len(scales) >= MANY:
        reach = max(reach, _STRETCH * min(scales))
    return max(_LEAST, math.ceil(reach / math.sqrt(_LAST))), c


def _events(composition: Iterable[tuple[Event, int]]) -> tuple[tuple[Event, int], ...]:
    events = flatten(composition)
    if not events or not all(isinstance(one, _WITH_ATOMS) for one, _ in events):
        raise _unsupported(events)
    return events


def _unsupported(events: Sequence[tuple[Event, int]]) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(one for one, _ in events),
        kind="a contour beside a small Gaussian",
        try_instead="Laplace, pure, approximate and randomised-response events.",
    )


def _down(value: Fraction) -> float:
    near = float(value)
    return max(0.0, near if Fraction(near) <= value else math.nextafter(near, -math.inf))
