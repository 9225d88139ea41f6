"""Curves of atoms, of what a caller has, and of profiles that are known by bounds only.

A caller has finite pairs, functions, sampled curves, laws of SciPy, or samples.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unacorda.accounting.pld.grid import law_below
from unacorda.accounting.profiles.boxes import Array, Box, running_sum
from unacorda.accounting.profiles.curves import (
    DiscreteLoss,
    PrivacyProfile,
    chords_above,
    falls,
    lattice_of,
    minorant,
)
from unacorda.checks import demand
from unacorda.errors import InvalidParameter

_U = 2.0**-53
_DELTAS = (1e-4, 1e-6, 1e-9)
_TRUSTED = 1e-12
"""Relative error granted to SciPy's cdf, sf and logpdf, which state none."""


def finite_pair(p: ArrayLike, q: ArrayLike) -> PrivacyProfile:
    """The profile of two laws on the same finite set: the sum of (p - e^epsilon q)+, exactly.

    p, q: non-negative masses of one shape, each of sum 1 up to rounding (1e-9): the numbers that
    the floats hold are meant, and are divided by their sum.
    """
    first, second = _masses("p", p), _masses("q", q)
    demand(first.shape == second.shape, "q", None, expected="the same number of masses as p")
    first, second = first / math.fsum(first), second / math.fsum(second)
    return curve_of_atoms(atoms_of_pair(first, second))


def atoms_of_pair(p: Array, q: Array, *, trust: float = 8 * _U) -> DiscreteLoss:
    """The loss of two finite laws whose masses are known to a relative error.

    Bound       both, by the error.
    Source      the definition.
    """
    inside = (p > 0) & (q > 0)
    first, second = np.log(p[inside]), np.log(q[inside])
    losses = first - second
    largest = float(np.max(np.abs(first) + np.abs(second), initial=0.0))
    infinite = math.fsum(p[q == 0])
    return DiscreteLoss(
        losses=losses,
        masses=p[inside],
        infinity=infinite * (1 - trust),
        infinity_above=infinite * (1 + trust),
        error=8 * _U * largest + 2 * trust,
        trust=trust,
        spacing=lattice_of(losses),
    )


def curve_of_atoms(atoms: DiscreteLoss) -> PrivacyProfile:
    """The profile of a law from its atoms, as near as these are known.

    Statement   the sum of p (1 - e^{epsilon - loss})+ and the mass of infinite loss.
    Bound       both.
    Source      Steinke 2022, Proposition 7.
    """
    present = atoms.masses > 0
    losses, masses = atoms.losses[present], atoms.masses[present]
    # beyond 1e300 no epsilon is asked below such a loss
    with np.errstate(under="ignore"):
        second = np.exp(np.minimum(np.log(masses) - losses, 690.0))
    ladder = _Ladder(losses, masses, second)
    # the exponential carries what its argument lost
    error = atoms.error + 8 * _U * (800 + max(map(abs, atoms.ends)))

    def evaluate(epsilon: Box) -> Box:
        lower = ladder.profile(epsilon.upper + error, sign=-1) * (1 - atoms.trust)
        upper = ladder.profile(epsilon.lower - error, sign=1) * (1 + atoms.trust)
        found = Box(lower + atoms.infinity, upper + atoms.infinity_above)
        found = Box(found.lower * (1 - 2 * _U), found.upper * (1 + 2 * _U))
        return found.at_least((-epsilon.expm1()).at_least(0.0)).at_most(1.0)

    return PrivacyProfile(
        evaluate=evaluate,
        infinity=Fraction(min(atoms.infinity, 1.0)),
        infinity_above=Fraction(min(atoms.infinity_above, 1.0)),
        atoms=atoms,
    )


def curve_through(epsilons: Array, values: Array) -> PrivacyProfile:
    """The profile of the convex minorant, in e^epsilon, of points and of (0, 1).

    Bound       upper, of every profile that is nowhere above the points: it is convex there.
    Source      docs/proofs/pld.md, Theorem 4.
    """
    x = np.exp(epsilons)
    kept = minorant(np.append(0.0, x), np.append(1.0, values))[1:] - 1
    return curve_of_atoms(chords_above(epsilons[kept], x[kept], values[kept]))


def curve_of_both(at: Array, ahead: Array, behind: Array) -> PrivacyProfile:
    """As `curve_through`, from bounds of a profile and of the one of the pair turned round.

    at: epsilons from 0 on, ascending; ahead, behind: the bounds there, of either. Below 0 a profile
    is 1 - e^-at (1 - behind): a sum of positive numbers, which loses no digits.
    """
    turned = np.minimum((np.exp(-at) * behind - np.expm1(-at)) * (1 + 16 * _U), 1.0)
    values = np.concatenate((turned[:0:-1], np.minimum(ahead, turned[0])))
    return curve_through(np.concatenate((-at[:0:-1], at)), np.minimum.accumulate(values))


def largest_pair(pairs: Sequence[tuple[Array, Array]]) -> int:
    """The number of the pair of laws whose epsilon is nowhere far from the largest.

    Epsilons are compared at three deltas, as shares of the largest of all pairs.

    Bound       none: it is a choice.
    Source      the definition.
    """
    found = np.array([[_about_epsilon(*pair, delta) for delta in _DELTAS] for pair in pairs])
    shares = found / np.maximum(found.max(axis=0), 1e-300)
    return int(np.argmax(shares.min(axis=1)))


def _about_epsilon(first: Array, second: Array, delta: float) -> float:
    """By sums from the largest ratio downward."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        order = np.argsort(-first / second)
        over, under = np.cumsum(first[order]), np.cumsum(second[order])
        found = np.log(np.maximum(over - delta, 0.0) / under)
    return float(np.max(found, initial=0.0, where=found < math.inf))


def from_function(profile: Callable[[Array], Any], *, error: float = 0.0) -> PrivacyProfile:
    """A curve from a caller's function of epsilon, which is believed.

    profile: takes an array of epsilon within +-700 and returns delta, or (lower, upper); it has to
    fall in epsilon, be convex in e^epsilon, and at least 1 - e^epsilon; what is left at 700 counts
    as infinite loss. error: relative, of each answer.
    """

    def both(epsilon: Array) -> tuple[Array, Array]:
        found = profile(epsilon)
        lower, upper = found if isinstance(found, tuple) else (found, found)
        low = np.asarray(lower, dtype=np.float64) * (1 - error - 2 * _U)
        high = np.asarray(upper, dtype=np.float64) * (1 + error + 2 * _U)
        if np.isnan(low).any() or np.isnan(high).any() or low.shape != epsilon.shape:
            raise InvalidParameter("profile", profile, expected="a number for every epsilon")
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def evaluate(epsilon: Box) -> Box:
        low, _ = both(np.clip(epsilon.upper, -700.0, 700.0))
        _, high = both(np.clip(epsilon.lower, -700.0, 700.0))
        low = np.where(epsilon.upper < -700, 0.0, low)
        high = np.where(epsilon.lower < -700, 1.0, high)
        return Box(low, high).at_least((-epsilon.expm1()).at_least(0.0)).at_most(1.0)

    low, high = both(np.asarray([700.0]))
    return PrivacyProfile(
        evaluate=evaluate,
        infinity=Fraction(float(low[0])),
        infinity_above=Fraction(float(high[0])),
    )


def sampled(epsilons: ArrayLike, deltas: ArrayLike) -> tuple[PrivacyProfile, PrivacyProfile]:
    """The curves that pass through known points of a profile, lowest and highest.

    Above: chords in e^epsilon, (0, 1) before the first point, constant after the last. Below: the
    lines through neighboring points, prolonged, and 1 - e^epsilon.
    """
    expected = "two arrays of one length, 2 or more"
    places = _numbers("profile", epsilons, expected=expected)
    values = _numbers("profile", deltas, expected=expected)
    if places.ndim != 1 or places.shape != values.shape or len(places) < 2:
        raise InvalidParameter("profile", epsilons, expected=expected)
    if not (np.all(np.diff(places) > 0) and np.all(np.abs(places) < 700)):
        raise InvalidParameter("profile", epsilons, expected="epsilons ascending, within +-700")
    x = np.append(0.0, np.exp(places))
    values = np.append(1.0, values)
    slopes = np.diff(values) / np.diff(x)
    bent = np.diff(slopes) >= -1e-9 * np.abs(slopes[:-1])
    if not (np.all((values >= 0) & (values <= 1)) and np.all(slopes <= 0) and bent.all()):
        raise InvalidParameter(
            "profile", deltas, expected="deltas in [0, 1], falling, convex in e^epsilon"
        )

    def line(at: Array) -> Array:
        index = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 1)
        before = np.clip(index - 1, 0, len(slopes) - 1)
        after = np.clip(index + 1, 0, len(slopes) - 1)
        one = values[before + 1] + slopes[before] * (at - x[before + 1])
        two = values[after] + slopes[after] * (at - x[after])
        known = np.where(index >= 1, one, 0.0)
        return np.maximum(known, np.where(index + 1 < len(slopes), two, 0.0))

    def evaluate(epsilon: Box) -> Box:
        low, high = (np.exp(np.clip(end, -745.0, 709.0)) for end in (epsilon.upper, epsilon.lower))
        # x, slopes and products are each rounded a few times; a slope times x is at most 2 here
        slack = 64 * _U * (1 + np.abs(epsilon.lower))
        found = Box(line(low) - slack, np.interp(high, x, values) + slack)
        return found.at_least((-epsilon.expm1()).at_least(0.0)).at_most(1.0)

    infinity_above = Fraction(float(values[-1]))
    known = places, x[1:], values[1:]
    return (
        PrivacyProfile(
            evaluate=evaluate, infinity_above=infinity_above, atoms=chords_above(*known)
        ),
        PrivacyProfile(
            evaluate=evaluate, infinity_above=infinity_above, atoms=_below_chords(*known)
        ),
    )


def _below_chords(places: Array, x: Array, values: Array) -> DiscreteLoss:
    """A law whose profile lies below every convex one through the points.

    The points are lowered by as much as the chords beside them can be too high, the first one to
    1 - x, the last one to 0; their convex minorant is taken.
    """
    left, right = falls(x, values)
    kinks = np.maximum(left - right, 0.0) + 16 * _U * (left + right)
    one, two = kinks[:-1], kinks[1:]
    both = one + two
    gaps = np.divide(one * two, both, out=np.zeros_like(both), where=both > 0) * np.diff(x)
    gaps[-1] = float(kinks[-2]) * float(x[-1] - x[-2])
    gaps = gaps * (1 + 64 * _U) + 16 * _U * values[:-1]
    lowered = values - np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps))
    lowered[0] = min(float(lowered[0]), -math.expm1(float(places[0])) * (1 - 16 * _U))
    lowered[-1] = 0.0
    lowered = np.maximum(lowered, 0.0)
    kept = minorant(np.append(0.0, x), np.append(1.0, lowered))[1:] - 1
    left, right = falls(x[kept], lowered[kept])
    masses = np.maximum(left - right - 16 * _U * (left + right), 0.0) * x[kept]
    return DiscreteLoss(losses=places[kept], masses=masses * (1 - 16 * _U), trust=16 * _U)


def empirical(losses: ArrayLike, *, confidence: float) -> tuple[PrivacyProfile, PrivacyProfile]:
    """Curves above and below the profile, each side at once with the confidence stated.

    losses: independent draws of ln(P/Q) under P, plus infinity allowed. With n draws the
    distribution function is within sqrt(ln(2/(1 - confidence)) / (2 n)) of the empirical one at
    every loss, so the profile is as close to the empirical one at every epsilon.

    Source      Massart 1990 (the constant of the inequality of Dvoretzky, Kiefer, Wolfowitz).
    """
    expected = "a list of losses, none NaN or -inf"
    drawn = _numbers("losses", losses, expected=expected)
    if drawn.ndim != 1 or not len(drawn) or np.isnan(drawn).any() or np.any(drawn == -math.inf):
        raise InvalidParameter("losses", None, expected=expected)
    count = len(drawn)
    band = math.sqrt(math.log(2 / (1 - confidence)) / (2 * count)) * (1 + 8 * _U)
    ordered = np.sort(drawn[drawn < math.inf])
    infinite = (count - len(ordered)) / count
    # the loss is at least the empirical one without its largest share of `band`, and at most the
    # empirical one whose least share of `band` is infinite; whole draws are dropped, or kept
    most = ordered[max(math.floor(band * count) - 1, 0) :]
    least = ordered[: max(count - math.ceil(band * count) - 1, 0)]
    high = min(1.0, (infinite + band) * (1 + 8 * _U))
    return (
        curve_of_atoms(_draws(most, count, high)),
        curve_of_atoms(_draws(least, count, max((infinite - band) * (1 - 8 * _U), 0.0))),
    )


def _draws(losses: Array, count: int, infinity: float) -> DiscreteLoss:
    masses = np.full(len(losses), 1.0 / count)
    return DiscreteLoss(
        losses=losses, masses=masses, infinity=infinity, infinity_above=infinity, trust=4 * _U
    )


def cells(first: Any, second: Any, *, points: Array) -> tuple[PrivacyProfile, PrivacyProfile]:
    """Curves above and below that of two continuous SciPy laws, from masses between the points.

    points: ascending; the loss ln(p/q) has to be monotone between neighbors. What SciPy gives for
    the mass of a cell and for the loss at its ends is believed to a relative 1e-12. Mass beyond
    the end points counts as infinite loss above and as none below.
    """
    edges = np.asarray(points, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 3 or not np.all(np.diff(edges) > 0):
        raise InvalidParameter("points", None, expected="three or more numbers, ascending")
    p, q = _cell_masses(first, edges), _cell_masses(second, edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = np.asarray(first.logpdf(edges) - second.logpdf(edges), dtype=np.float64)
    trust = _TRUSTED * np.abs(loss)
    low = np.minimum(loss[:-1] - trust[:-1], loss[1:] - trust[1:])
    high = np.maximum(loss[:-1] + trust[:-1], loss[1:] + trust[1:])
    outside = float(first.cdf(edges[0]) + first.sf(edges[-1])) * (1 + _TRUSTED)
    losses, masses, infinite = _spread(p, q, low, high)
    above = DiscreteLoss(
        losses=losses,
        masses=masses,
        infinity_above=min((infinite + outside) * (1 + _TRUSTED), 1.0),
        error=2.2 * _TRUSTED,
        trust=1.1 * _TRUSTED,
    )
    # where q comes out as 0 it is below what its tail cannot tell from 0
    tail = np.minimum(np.asarray(second.cdf(edges[1:])), np.asarray(second.sf(edges[:-1])))
    least = np.where(q > 0, q, _TRUSTED * tail + 1e-300)
    below = atoms_of_pair(p, least, trust=_TRUSTED)
    return curve_of_atoms(above), curve_of_atoms(below)


def quantiles(first: Any, second: Any, points: ArrayLike | None) -> Array:
    """The caller's points, or quantiles of both laws, dense in the tails."""
    if points is not None:
        return _numbers("points", points, expected="three or more numbers, ascending")
    logs = np.geomspace(1e-16, 0.5, 4000)
    found = [law.ppf(logs) for law in (first, second)] + [law.isf(logs) for law in (first, second)]
    everything: Array = np.unique(np.concatenate(found))
    return everything[np.isfinite(everything)]


def lattice_laws(first: Any, second: Any) -> tuple[PrivacyProfile, PrivacyProfile]:
    """Curves above and below that of two discrete SciPy laws, tabulated but for 1e-17 of each."""
    starts = [int(law.ppf(1e-17)) - 1 for law in (first, second)]
    ends = [int(law.isf(1e-17)) + 1 for law in (first, second)]
    places = np.arange(min(starts), max(ends) + 1)
    if len(places) > 10_000_000:
        raise InvalidParameter("p", None, expected="distributions on at most 10^7 whole numbers")
    p, q = np.asarray(first.pmf(places)), np.asarray(second.pmf(places))
    outside = float(first.cdf(places[0] - 1) + first.sf(places[-1])) + 1e-16
    start, end = second.support()
    inside = (places >= start) & (places <= end)
    # a mass too small for a float is not 0: above none is taken, below a float's least one is
    above = atoms_of_pair(p, np.where(q > 1e-300, q, 0.0), trust=_TRUSTED)
    below = atoms_of_pair(p, np.where(inside, np.maximum(q, 1e-300), 0.0), trust=_TRUSTED)
    most = min(above.infinity_above + outside, 1.0)
    return curve_of_atoms(replace(above, infinity_above=most)), curve_of_atoms(below)


class _Ladder:
    """Atoms of finite loss, ascending, with both masses of all that lie at or beyond each."""

    def __init__(self, losses: Array, p: Array, q: Array) -> None:
        order = np.argsort(losses, kind="stable")
        first, self.error = running_sum(p[order][::-1])
        second, _ = running_sum(q[order][::-1])
        self.losses: Array = losses[order]
        self.first: Array = np.append(first[::-1], 0.0)
        self.second: Array = np.append(second[::-1], 0.0)

    def profile(self, epsilon: Array, *, sign: int) -> Array:
        """The sum of p (1 - e^{epsilon - loss})+, rounded up (sign 1) or down (sign -1)."""
        index = np.searchsorted(self.losses, epsilon, side="right")
        # an atom on the wrong side of epsilon by rounding counts by as little as it is beside it
        near = np.searchsorted(self.losses, epsilon - 8 * _U * (1 + np.abs(epsilon)), side="right")
        second = np.exp(np.minimum(epsilon, 709.0)) * self.second[index]
        slack = self.error * 2 + 32 * _U * (1 + np.abs(epsilon))
        value = self.first[index] - second + sign * slack * (self.first[near] + second)
        return np.clip(value, 0.0, 1.0)


def _spread(p: Array, q: Array, low: Array, high: Array) -> tuple[Array, Array, float]:
    """Each cell's masses at the ends of its range, both masses kept; and the mass at infinity."""
    known = np.isfinite(low) & np.isfinite(high) & (p > 0)
    infinite = math.fsum(p[~known])
    p, q, low, high = p[known], q[known], low[known], high[known]
    with np.errstate(under="ignore", over="ignore"):
        share = -np.expm1(low - high)
        wide = share > 1e-9
        upper = (p - np.exp(np.minimum(low, 709.0)) * q + 16 * _U * p) / np.where(wide, share, 1.0)
        upper = np.where(wide, np.clip(upper * (1 + 4 * _U), 0.0, p), p)
    return np.concatenate((low, high)), np.concatenate((p - upper, upper)), infinite


def _cell_masses(law: Any, edges: Array) -> Array:
    """Masses between edges, from whichever tail is smaller."""
    left, right = np.asarray(law.cdf(edges)), np.asarray(law.sf(edges))
    return np.maximum(np.where(left[1:] < 0.5, np.diff(left), -np.diff(right)), 0.0)


def _masses(name: str, value: ArrayLike) -> Array:
    expected = "a list of masses, 0 or above, with sum 1"
    masses = _numbers(name, value, expected=expected)
    good = masses.ndim == 1 and len(masses) > 0 and bool(np.all(masses >= 0))
    demand(good and abs(math.fsum(masses) - 1) <= 1e-9, name, None, expected=expected)
    return masses


def _numbers(name: str, value: ArrayLike, *, expected: str) -> Array:
    """The numbers that a caller lists, as floats; text is none."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if np.asarray(value).dtype.kind not in "USc":
            return np.asarray(value, dtype=np.float64)
    raise InvalidParameter(name, None, expected=expected)


Profile: TypeAlias = Callable[[Array], Array]
"""Upper bounds of delta at epsilons from 0 on, at most 1."""

_LARGEST = 600.0
_SCALE = np.concatenate(([0.0], np.geomspace(1e-6, _LARGEST, 400)))
_SMALL = (1e-300, 1e-40, 1e-9)
_POINTS = 600
_CELLS = 1 << 12
_SAMPLES, _SAMPLED, _FALL = 48, 1e-9, 0.5
"""Points of a curve that takes long to be asked, the least delta, and ln of its falls between."""
_NEAR = 1.05


def upper_of(curve: PrivacyProfile) -> Profile:
    """The upper side of a curve."""
    return lambda epsilon: curve(epsilon).upper


def laid_down(
    forward: Profile, backward: Profile, *, attained: PrivacyProfile, places: Sequence[float] = ()
) -> PrivacyProfile:
    """A curve nowhere below a profile of which only upper bounds are known.

    forward, backward: of both directions, this one first; attained: of one pair that occurs;
    places: where the bounds have corners.

    Statement   the convex minorant, in e^epsilon, of the points of `forward` at many epsilons, of
                1 - e^-epsilon (1 - backward) at their negatives, and of (0, 1).
    Bound       upper: a profile is convex there, so it lies below the chords of what is above it.
    Source      docs/proofs/pld.md, Theorem 4.
    """
    found = forward(_SCALE)
    ends = [_end(found, small) for small in _SMALL]
    grids = [np.linspace(0.0, end, _POINTS) for end in ends]
    at = np.concatenate((*grids, np.geomspace(1e-6, max(ends), _POINTS), list(places)))
    at = np.unique(np.clip(at, 0.0, _LARGEST))
    ahead = np.minimum.accumulate(np.minimum(forward(at), 1.0))
    behind = np.minimum.accumulate(np.minimum(backward(at), 1.0))
    law = curve_of_both(at, ahead, behind)

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0).lower
        return Box(least, np.maximum(law.evaluate(epsilon).upper, least))

    return PrivacyProfile(
        evaluate=evaluate,
        infinity=min(attained.infinity, law.most_infinity),
        infinity_above=law.most_infinity,
        atoms=law.atoms,
        attained=attained,
    )


def sampled_above(curve: PrivacyProfile, delta: Callable[[float], float]) -> PrivacyProfile:
    """A curve nowhere above another one, by its delta at a few epsilons from 0 on.

    curve: both bounds of a profile, returned as it is where they are near; delta: an upper bound
    of the same profile that takes longer to be asked.

    Bound       upper: of both bounds the lower one; a profile lies below its chords.
    Source      docs/proofs/pld.md, Theorem 4.
    """
    lower = curve.attained or curve
    places = np.linspace(0.0, end_of_upper(curve, above=_SAMPLED), _SAMPLES)
    if np.all(curve(places).upper <= _NEAR * lower(places).upper + _SAMPLED):
        return curve
    epsilons, values, step = [0.0], [min(delta(0.0), 1.0)], float(places[1])
    while values[-1] > _SAMPLED and len(values) < 4 * _SAMPLES:
        epsilons.append(epsilons[-1] + step)
        values.append(min(delta(epsilons[-1]), values[-1]))
        fall = math.log(values[-2] / max(values[-1], 1e-300))
        step *= min(max(_FALL / max(fall, 1e-300), 0.5), 2.0)
    law = curve_through(np.array(epsilons), np.array(values))

    def evaluate(epsilon: Box) -> Box:
        found = curve.evaluate(epsilon)
        upper = np.minimum(found.upper, law.evaluate(epsilon).upper)
        return Box(found.lower, np.maximum(upper, found.lower))

    return replace(curve, evaluate=evaluate, atoms=None, attained=lower)


def laid_below(curve: PrivacyProfile) -> PrivacyProfile:
    """A curve nowhere above another one that takes long to be asked: its law on one grid.

    Bound       lower.
    Source      law_below.
    """
    end = end_of_losses(curve, above=_SMALL[-1])
    count = _CELLS // 2
    step = Fraction(end) / count
    law = law_below(curve, step=step, first=-count - 2, last=count + 2)
    losses: Array = np.asarray((np.arange(len(law.weights)) + law.first) * float(step))
    held = law.weights > 0
    return curve_of_atoms(
        DiscreteLoss(
            losses=losses[held],
            masses=law.weights[held],
            infinity=law.infinity,
            infinity_above=law.infinity,
            error=8 * _U * end,
            spacing=step,
        )
    )


def end_of_losses(curve: PrivacyProfile, *, above: float) -> float:
    """About the epsilon from which on delta is the mass of infinite loss, but for `above`.

    Bound       none: it is a place to look at.
    Source      the definition.
    """
    return _end(curve(_SCALE).lower, above)


def end_of_upper(curve: PrivacyProfile, *, above: float) -> float:
    """As `end_of_losses`, of the upper bound of the profile."""
    return _end(curve(_SCALE).upper, above)


def by_divergences(orders: Sequence[float], divergences: Sequence[float]) -> Profile:
    """The profile that Renyi divergences of both directions allow.

    Statement   the least over the orders a of e^{(a-1)(D_a - epsilon)} (1 - 1/a)^{a-1} / a.
    Bound       upper, rounded up.
    Source      Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    known = [
        (order, divergence)
        for order, divergence in zip(orders, divergences, strict=True)
        if divergence < math.inf
    ]

    def evaluate(epsilon: Array) -> Array:
        found = np.ones_like(epsilon)
        for order, divergence in known:
            less = order - 1
            fixed = less * math.log1p(-1 / order) - math.log(order)
            power = less * (divergence - epsilon) + fixed
            size = less * (abs(divergence) + np.abs(epsilon)) + abs(fixed) + 4
            with np.errstate(under="ignore"):
                value = np.exp(np.minimum(power + 16 * _U * size, 0.0)) + 1e-320
            found = np.minimum(found, value)
        return found

    return evaluate


def _end(values: Array, above: float) -> float:
    """The first place of the scale at which a falling function is at its end, but for `above`."""
    under = np.flatnonzero(values <= float(values[-1]) * (1 + 1e-9) + above)
    return float(_SCALE[max(int(under[0]), 1)]) if len(under) else _LARGEST
