"""One step whose loss has atoms at its largest and its least value, and a density between."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unacorda.accounting.contour.laws import Edged, Finite, TooExtreme, law_of
from unacorda.checks import exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.events import Event, PoissonSampled
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["Steps", "Way", "steps_of"]

_LEAST_RATE = Fraction(1, 10**15)
_STEEPEST, _FLATTEST = 150, Fraction(1, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """`count` steps on Poisson samples of rate `rate`; 1: no sample.

    Without the sample, under Q, z = -u has the mass `atom`, z = u the mass e^-u atom, and between
    lies the density inner/2 e^(-(z + u)/2); z is the loss, u the edge.
    """

    edge: Fraction
    atom: Any
    inner: Any
    rate: Fraction
    count: int

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions in question, first that of a unit removed; one where both are alike."""
        return tuple(Way.of(self, remove=way) for way in ((True, False), (True,))[self.rate == 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The steps in one direction: their extreme losses with their masses, in working precision.

    top, bottom: losses; most, least: ln of the masses there; density: of the loss just below the
    top, over the mass there; f: the likelihood ratio 1 - q + q e^z at z of the top.
    """

    steps: Steps
    remove: bool
    top: Any
    bottom: Any
    most: Any
    least: Any
    density: Any
    f: Any

    @classmethod
    def of(cls, steps: Steps, *, remove: bool) -> Way:
        """Removed: the loss ln f under f Q; added: -ln f under Q."""
        mp = context()
        u, q, atom = mpf(steps.edge), mpf(steps.rate), steps.atom
        high = 1 + q * mp.expm1(u)
        low = 1 + q * mp.expm1(-u)
        if remove:
            top, bottom, most, least = (
                mp.log(high),
                mp.log(low),
                high * atom * mp.exp(-u),
                low * atom,
            )
            f, turn = high, mp.exp(-u)
        else:
            top, bottom = -mp.log(low), -mp.log(high)
            most, least, f, turn = atom, atom * mp.exp(-u), low, mp.exp(u)
        return cls(
            steps=steps,
            remove=remove,
            top=top,
            bottom=bottom,
            most=mp.log(most),
            least=mp.log(least),
            density=steps.inner / (2 * atom) * f * turn / q,
            f=f,
        )

    @property
    def width(self) -> Any:
        """The distance of the extreme losses."""
        return self.top - self.bottom

    @property
    def largest(self) -> Any:
        """The largest loss of all steps together."""
        return self.steps.count * self.top


def steps_of(flat: Sequence[tuple[Event, int]], neighbors: Neighbors) -> Steps:
    """The steps, of events as `flatten` gives them.

    Raises UnsupportedEvent where they are not all alike, or the losses of one are of another kind.

    Source      docs/proofs/contour.md, sections 11 and 12.
    """
    if len(flat) != 1:
        raise _unsupported(flat)
    event, count = flat[0]
    rate, inner = Fraction(1), event
    if isinstance(event, PoissonSampled):
        if neighbors is ReplaceOne:
            raise _unsupported(flat)
        rate, inner = exact("rate", event.rate), event.event
    try:
        law = law_of(inner, reach=1)
    except TooExtreme:
        law = None
    match law:
        case Edged(edge=edge, atom=atom, inner=between) if atom > 0 and law.infinite == 0:
            pass
        case Finite(masses=masses) if len(masses) == 2 and sum(masses) == 0 and rate < 1:
            edge = max(masses)
            atom, between = 1 / (1 + context().exp(-mpf(edge))), context().mpf(0)
            if law.infinite != 0 or law.lost > 0:
                raise _unsupported(flat)
        case _:
            raise _unsupported(flat)
    if not (rate >= _LEAST_RATE and _FLATTEST <= edge <= _STEEPEST):
        raise _unsupported(flat)
    return Steps(edge=edge, atom=atom, inner=between, rate=rate, count=count)


def _unsupported(flat: Sequence[tuple[Event, int]]) -> UnsupportedEvent:
    return UnsupportedEvent(
        tuple(event for event, _ in flat),
        kind="steps with losses between two edges",
        try_instead="Equal steps of Laplace noise, or of discrete Laplace noise on a sample.",
    )
