"""Profiles of draws with replacement: an upper bound for every mechanism, and a pair that occurs.

A unit that is drawn k times moves a sum by k times what one draw does. The law of k is the same
for all units, so the law of a noisy sum is a mixture over k.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.amplification import sampling
from unacorda.accounting.pld.sources import curve_of_atoms
from unacorda.accounting.profiles.amplified import turned
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import DiscreteLoss, PrivacyProfile, between, nothing
from unacorda.accounting.profiles.noises import boxed
from unacorda.checks import exact
from unacorda.extras import later
from unacorda.privacy.events import Event, Gaussian, Laplace

_U = 2.0**-53
_CELLS = 1 << 13
_RARE = 1e-24
_SLIP = 128 * _U
"""More than weights, products and sums of all hits are rounded by, relative."""
_FLAT = 1e-200
_HALVINGS = 60
_PLACES = 1 << 10
_LARGEST = 700.0


def with_replacement(
    group: Callable[[int], tuple[PrivacyProfile, PrivacyProfile]],
    noise: LocationFamily | None,
    *,
    size: int,
    population: int,
    replaced: bool,
    remove: bool,
) -> PrivacyProfile:
    """Some draws with replacement, one unit replaced by another; group: the curves of k at once.

    noise: that of the mechanism, if it is noise on a number: the upper end is a little lower then,
    and one pair is known. replaced: by a unit; otherwise by an empty one, and P has the unit if
    `remove`.

    Statement   the sum over k > 0 of w_k delta_k(e_k) for epsilon >= 0, w_k the probability of k
                hits; any e_k >= epsilon such that the sum of w_k e^{e_k} is at most
                e^epsilon - w_0 will do. Below 0 the symmetric pair.
    Bound       upper, for every mechanism that the curves dominate; hits so many that they are
                rarer than 2^-100 count as 1. Lower: of the pair.
    Source      docs/proofs/amplification.md, Section 8; with equal e_k it is Theorem 10 of
                Balle, Barthe, Gaboardi 2018.
    """
    weights, rest, rate = sampling.draws(size, population)
    hits = [k for k, weight in enumerate(weights, start=1) if weight > 0]
    shares = [box(rate) * boxed(weights[k - 1]) for k in hits]
    curves = [group(k) for k in hits]
    left, missed = box(rate) * boxed(rest), box(1 - rate)
    ratios = _ratios(noise, hits, shares, missed)
    attained = nothing()
    if noise is not None:
        # all others give the opposite of what the unit gives, or nothing
        step = noise.move * (2 if replaced else 1)
        attained = shifted_mixture(
            noise, step, size=size, population=population, remove=remove or replaced
        )

    def above(epsilon: Box) -> Box:
        total = Box(np.zeros_like(epsilon.lower), np.zeros_like(epsilon.lower) + left.upper)
        grown = -(-epsilon).expm1()
        for share, ratio, (forward, backward) in zip(
            shares, ratios(epsilon.lower), curves, strict=True
        ):
            inner = epsilon + (box(ratio) * grown).log1p()
            total = total + share * forward.evaluate(inner).at_least(backward.evaluate(inner))
        return total.at_most(1.0)

    infinite = float(left.upper) + sum(
        float(share.upper) * float(max(one.most_infinity for one in both))
        for share, both in zip(shares, curves, strict=True)
    )
    most = min(Fraction(1), Fraction(infinite * (1 + 1e-9)))
    return between(attained, turned(above, above), infinity_above=most)


def _ratios(
    noise: LocationFamily | None, hits: list[int], shares: list[Box], missed: Box
) -> Callable[[Array], list[Array]]:
    """Functions of epsilon r_k >= 0, the sum of w_k r_k at most w_0.

    They give e^{e_k} = e^epsilon + (e^epsilon - 1) r_k. Any are valid. The best of noise under
    shifts are those of losses e_k at one place of the noise, as far as these exceed epsilon.
    """
    weights = np.array([float(share.upper) for share in shares])
    none = float(missed.lower)
    alike = none / (math.fsum(weights) * (1 + _SLIP)) if hits else 0.0
    if noise is None or not none or not hits:
        return lambda epsilon: [np.full_like(epsilon, alike) for _ in hits]
    shifts = np.array([[float(2 * k * noise.move)] for k in hits])

    def gains(epsilon: Array, place: Array) -> Array:
        losses = noise.loss(shifts, place)
        found: Array = np.expm1(np.clip(losses - epsilon, 0.0, 600.0))
        return found

    least, most = float(shifts[0, 0]), float(shifts[-1, 0])
    several = np.linspace(0.0, most + noise.edge, _PLACES)
    places = np.unique(
        [*several, *shifts[:, 0], *np.geomspace(least / 16, _LARGEST / least, _PLACES)]
    )
    low, high = np.zeros_like(places), np.full_like(places, _LARGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        more = weights @ gains(middle, places) > none * -np.expm1(-middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)

    def at(epsilon: Array) -> list[Array]:
        several = gains(epsilon, np.interp(epsilon, high, places))
        whole = np.tensordot(weights, several, axes=1) * (1 + _SLIP)
        flat = whole < _FLAT
        return [
            np.where(flat, alike, none * gain / np.where(flat, 1.0, whole)) * (1 - _SLIP)
            for gain in several
        ]

    return at


def shifted_mixture(
    noise: LocationFamily, shift: Fraction, *, size: int, population: int, remove: bool
) -> PrivacyProfile:
    """The pair (law of Z + K shift, law of Z), or that pair turned round; K counts the hits.

    remove: the mixture comes first.

    Statement   the pair of the probabilities of cells of Z's range.
    Bound       lower: cells are a postprocessing. The likelihood ratio of every shift rises, so
                half-lines are the best events, and mass moved to smaller shifts lowers the profile.
    Source      the definition; docs/proofs/amplification.md, Section 8.
    """
    weights, _, rate = sampling.draws(size, population)
    shares = ((k, float(weight * float(rate))) for k, weight in enumerate(weights, start=1))
    known = [(min(k * shift, Fraction(noise.far + noise.edge)), w) for k, w in shares if w > _RARE]
    if not known:
        return nothing()
    hit = math.fsum(share for _, share in known)
    # the rarest hits count as none
    missed = float(1 - rate) if remove else max(1 - hit * (1 - _SLIP), 0.0)
    side = -1 if remove else 1
    end = min(float(known[-1][0]) + noise.edge, noise.far)
    step = max(math.ceil((end + noise.edge) / _CELLS / GRAIN), 1) * GRAIN
    first, last = -math.ceil(noise.edge / step), math.ceil(end / step)
    points: Array = np.asarray(np.arange(first, last + 1) * step, dtype=np.float64)
    mixed = missed * cell_masses(noise, points, side=side)
    for place, share in known:
        mixed += share * cell_masses(noise, points - on_grain(place), side=side)
    mixed *= 1 + side * _SLIP
    plain = cell_masses(noise, points, side=-side)
    p, q = (mixed, plain) if remove else (plain, mixed)
    return curve_of_cells(p, q)


def curve_of_cells(p: Array, q: Array) -> PrivacyProfile:
    """The profile of two laws of which the first is known from below, the second from above.

    Bound       lower.
    Source      the definition.
    """
    held = (p > 0) & (q > 0)
    p, q = p[held], q[held]
    logs = np.log(p), np.log(q)
    return curve_of_atoms(
        DiscreteLoss(
            losses=np.asarray(logs[0] - logs[1]),
            masses=p,
            error=8 * _U * float(np.max(np.abs(logs[0]) + np.abs(logs[1]) + 1, initial=0.0)),
            trust=8 * _U,
            lower=True,
        )
    )


scipy = later("scipy")

GRAIN = 2.0**-30
"""Shifts and ends of cells are multiples of this: their differences are exact."""
_SPECIAL = 2 * 16 * 2 * _U
"""Of two tails, relative to the larger: SciPy's are assumed to err by at most 16 units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFamily:
    """Symmetric noise on a number, in units of its scale.

    move: how far one unit moves the number; tail: the probability that noise exceeds a number,
    within 16 units of rounding; loss: of a shift at a place; edge: beyond the shifts by this losses
    are constant, or what is left has next to no mass; far: shifts beyond this are all alike.
    """

    move: Fraction
    tail: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    edge: float
    far: float


def location_family(event: Event) -> LocationFamily | None:
    """Reads an event as noise on a number; None where it is none, or no shifts of it are known.

    Bound       exact.
    Source      the event.
    """
    match event:
        case Gaussian(noise_multiplier=m):
            return LocationFamily(
                move=1 / exact("noise_multiplier", m),
                tail=lambda x: np.asarray(scipy.special.ndtr(-x)),
                loss=lambda shift, x: shift * (x - shift / 2),
                edge=9.0,
                far=37.0,
            )
        case Laplace(noise_multiplier=m):
            return LocationFamily(
                move=1 / exact("noise_multiplier", m),
                tail=_laplace_tail,
                loss=lambda shift, x: np.abs(x) - np.abs(x - shift),
                edge=0.0,
                far=600.0,
            )
        case _:
            return None


def _laplace_tail(x: Array) -> Array:
    half = np.exp(-np.abs(x)) / 2
    return np.asarray(np.where(x > 0, half, 1 - half))


def on_grain(shift: Fraction) -> float:
    """Rounds a shift down to a multiple of the grain.

    Bound       lower.
    Source      the definition.
    """
    return math.floor(shift / Fraction(GRAIN)) * GRAIN


def cell_masses(noise: LocationFamily, points: Array, *, side: int) -> Array:
    """Computes the probabilities of the cells between the points and beyond both ends.

    side: 1 rounds them up, -1 down.

    Bound       upper or lower, as the side says.
    Source      Higham 2002, Section 3.1 (round-off).
    """
    above, below = noise.tail(points), noise.tail(-points)
    right = points[:-1] > 0  # of both tails the smaller one loses less
    inner = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    slip = _SPECIAL * np.where(right, above[:-1], below[1:])
    ends = np.array([below[0], above[-1]]) * (1 + side * _SPECIAL)
    found: Array = np.concatenate((ends[:1], np.maximum(inner + side * slip, 0.0), ends[1:]))
    return found
