"""Jumps split off: the composition as a mixture over how many of its steps jump.

Each step of a subsampled Gaussian is marked by a second coin as a jump, more often the larger
its loss. Given the number of jumps the rest is a composition of two bounded laws, with a saddle
point of its own; so a delta between the bulk and one rare jump costs no digits.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from unacorda.accounting.contour.plan import (
    CumulantCurve,
    abscissas,
    curve,
    log_kappa,
    plan_at,
    refined_saddle,
    saddle_for_epsilon,
)
from unacorda.accounting.contour.quadrature import QuadratureSum, Sides, invert, within_cap
from unacorda.accounting.contour.sampled_gaussian import (
    MOST_POINTS,
    SHARE_ERROR,
    Cut,
    SampledGaussian,
    on_grid,
)
from unacorda.accounting.contour.tilts import UNIT, Factor, Floats
from unacorda.privacy.estimates import Interval

_WIDTHS = (0.5, 0.25, 0.2)
"""Of the cuts, for one, two and more places: narrow ones keep a layer's losses alike."""

_LEFT_OUT = -30.0
_ENDED = 12.0  # deviations
_RAREST, _OFTENEST = -1e4, math.log(0.999)  # ln of the probability of a piece
_BEYOND = -28.0
_MOST_JUMPS = 40
_MOST_TERMS = 120
_MOST_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The composition given its numbers of jumps, and the probability of those numbers.

    log_mass: ln of that probability, with its absolute error; log_null: ln of a bound of
    E e^-L under this law; whole: its cumulant on a grid.
    """

    factors: tuple[Factor, ...]
    whole: CumulantCurve
    log_mass: float
    mass_error: float
    log_null: float

    def log_deltas(self, epsilons: Floats) -> Floats:
        """About ln of this term's part in delta, by the saddle formula."""
        place, level = np.maximum.accumulate(self.whole.epsilon), self.whole.log_delta
        beyond = level[-1] - self.whole.c[-1] * (epsilons - place[-1])
        inner = np.interp(epsilons, place, level)
        parts: Floats = np.minimum(np.where(epsilons >= place[-1], beyond, inner), 0.0)
        return self.log_mass + parts


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpSplit:
    """A composition split by its numbers of jumps; log_rest: ln of the mass of the terms left out.

    Source      docs/proofs/contour.md, Theorem 9.
    """

    terms: tuple[Term, ...]
    log_rest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cutting:
    """One law in pieces: the bulk, and jumps of rising size.

    log_top: ln of a bound of the probability that any step lies above all pieces.
    """

    bulk: SampledGaussian
    jumps: tuple[SampledGaussian, ...]
    log_top: float


def split(
    factors: Sequence[Factor], *, log_delta: float, aims: Sequence[float]
) -> JumpSplit | None:
    """Split the parts with the leading jumps; None where nothing can be split.

    aims: about ln of the expected numbers of jumps above each place, falling.
    """
    laws = leading(factors, log_delta)
    others = [factor for factor in factors if not any(factor is law for law in laws)]
    width = _WIDTHS[min(len(aims), len(_WIDTHS)) - 1]
    reach = math.sqrt(2 * (32.0 + math.log(sum(law.count for law in laws) + 1) - log_delta))
    cuttings = [_cutting(law, aims, log_delta + _BEYOND, width=width, reach=reach) for law in laws]
    if not cuttings:
        return None
    rest = -math.inf
    ranges: list[range] = []
    whole: list[_Cutting] = []
    for cutting in cuttings:
        if cutting is None:
            return None
        whole.append(cutting)
        rest = float(np.logaddexp(rest, cutting.log_top))
        for jump in cutting.jumps:
            most = _most_jumps(cutting.bulk.count, jump.log_norm, log_delta + _LEFT_OUT)
            if most is None:
                return None
            ranges.append(range(most + 1))
            if most < cutting.bulk.count:
                more = _log_more(cutting.bulk.count, jump.log_norm, most)
                rest = float(np.logaddexp(rest, more))
    cs = abscissas([*others, *(cutting.bulk for cutting in whole)])
    fixed = curve(others, cs)
    short = cs[cs <= min(jump.limit for cutting in whole for jump in cutting.jumps)]
    pieces = [law for cutting in whole for law in (cutting.bulk, *cutting.jumps)]
    curves = [curve([replace(law, count=1)], short if law.jumps else cs) for law in pieces]
    terms: list[Term] = []
    for numbers in itertools.product(*ranges):
        counts = _counts(whole, numbers)
        if counts is None:
            continue
        log_mass, error = _log_mass(pieces, counts)
        if log_mass < log_delta + _LEFT_OUT:
            rest = float(np.logaddexp(rest, log_mass + error))
            continue
        if len(terms) == _MOST_TERMS:
            return None
        grid = short if any(numbers) else cs
        k, k1, k2 = (part[: grid.size].copy() for part in (fixed.k, fixed.k1, fixed.k2))
        log_null = 0.0
        for law, count, one in zip(pieces, counts, curves, strict=True):
            if count:
                assert law.cut is not None
                k += count * one.k[: grid.size]
                k1 += count * one.k1[: grid.size]
                k2 += count * one.k2[: grid.size]
                log_null += count * law.cut.log_null
        chosen = zip(pieces, counts, strict=True)
        terms.append(
            Term(
                factors=(*others, *(replace(law, count=n) for law, n in chosen if n)),
                whole=CumulantCurve(c=grid, k=k, k1=k1, k2=k2),
                log_mass=log_mass,
                mass_error=math.expm1(error),
                log_null=log_null + 1e-12 * abs(log_null),
            )
        )
    return JumpSplit(terms=tuple(terms), log_rest=rest + 1e-9) if terms else None


def _cutting(
    law: SampledGaussian,
    aims: Sequence[float],
    log_beyond: float,
    *,
    width: float,
    reach: float,
) -> _Cutting | None:
    """The law cut where about e^aim steps lie above, and where about e^log_beyond do."""
    own = law.log_mass + (law.ell if law.remove else 0.0)
    above = np.logaddexp.accumulate(own[::-1])[::-1] + math.log(law.count)
    spread = math.hypot(1.0, width)  # of x and the noise of the cut together
    places = [spread * float(np.interp(-aim, -above, law.x)) for aim in (*aims, log_beyond)]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + 3 * width)
    if places[-1] > law.high:
        return None
    edges = [-math.inf, *places]
    pieces = [
        piece_of(law, low, high, width=width, reach=reach)
        for low, high in itertools.pairwise(edges)
    ]
    top = piece_of(law, places[-1], math.inf, width=width, reach=math.inf)
    if top is None or any(law is None for law in pieces):
        return None
    bulk, *jumps = [law for law in pieces if law is not None]
    assert top.cut is not None
    beyond = top.cut.log_norm + top.cut.norm_error + math.log(law.count) + 1e-9
    return _Cutting(bulk=bulk, jumps=tuple(jumps), log_top=beyond)


def piece_of(
    law: SampledGaussian,
    low: float,
    high: float,
    *,
    width: float,
    reach: float,
) -> SampledGaussian | None:
    """A piece of an uncut law, made a probability; None where it is too small for floats.

    reach: how many deviations beyond the piece's centres its grid goes; infinite where only the
    cut is wanted, the grid staying the law's own.

    Source      docs/proofs/contour.md, Theorem 9.
    """
    spread = math.hypot(1.0, width)
    mu, q = law.mu, law.q
    inner, outer = low if low > -math.inf else high, high if low > -math.inf else math.inf
    z = np.array([inner, inner - mu, outer, outer - mu]) / spread
    logs = log_ndtr(-z)
    slip = SHARE_ERROR * (1 + float(z[0]) ** 2 + float(z[1]) ** 2)
    slip *= 3 * (1 + abs(float(logs[0])) + abs(float(logs[1])))
    # the outer terms are taken off at less than half of the inner ones
    q_jump = _log_less(float(logs[0]), float(logs[2]))
    moved = _log_less(float(logs[1]), float(logs[3]))
    p_jump = float(np.logaddexp(math.log1p(-q) + q_jump, math.log(q) + moved))
    own = p_jump if law.remove else q_jump
    if not _RAREST < own < _OFTENEST:
        return None
    if low > -math.inf:
        log_norm, norm_error, share = own, 3 * slip, 1.0
    else:
        share = -math.exp(own) / -math.expm1(own)
        log_norm, norm_error = _log_rest(own), -3 * slip * share
        norm_error += 12 * UNIT * abs(log_norm)
    drift = share * q * (math.exp(moved - own) - math.exp(q_jump - own))
    wrong = 3 * slip * q * (math.exp(moved - own) + math.exp(q_jump - own)) * abs(share)
    wrong += 8 * UNIT * abs(own) * abs(drift)
    norm_error += 8 * UNIT * abs(own) * abs(share) + 1e-300
    drift_error = (wrong + abs(drift) * (norm_error + 8 * UNIT)) * 1.01 + 1e-300
    null_share = 1 - drift if law.remove else 1 + drift
    cut = Cut(
        low=low,
        high=high,
        width=width,
        log_norm=log_norm,
        norm_error=norm_error * 1.01,
        drift=drift,
        drift_error=drift_error,
        log_null=math.log(max(null_share, 1e-300)) + drift_error / max(null_share, 1e-12) + 1e-15,
    )
    if math.isinf(reach):
        return replace(law, cut=cut)
    weight = 1 / (1 + width**2)
    reach *= width * math.sqrt(weight)
    start = law.low if low == -math.inf else max(law.low, min(low, low * weight) - reach)
    top = high * weight + mu * (1 - weight)
    end = law.high
    if high < math.inf:  # the cut ends the piece, if need be later than the law
        middle = max(high * weight, top)
        end = min(max(law.high, middle + _ENDED * width * math.sqrt(weight)), middle + reach)
    step = min(law.step, 0.6 / math.sqrt(1 + width**-2), (end - start) / 24)
    points = math.ceil((end - start) / step)
    if points > MOST_POINTS:
        return None
    return on_grid(replace(law, cut=cut, step=step, low=start), points)


def _log_less(level: float, other: float) -> float:
    """ln(e^level - e^other)."""
    return level + math.log1p(-math.exp(other - level))


def _log_rest(level: float) -> float:
    """ln(1 - e^level), level < 0: its digits count, times as many copies as there are."""
    if level < -math.log(2):
        return math.log1p(-math.exp(level))
    return math.log(-math.expm1(level))


def _counts(whole: Sequence[_Cutting], numbers: Sequence[int]) -> list[int] | None:
    """How many steps each piece has; None where there are more jumps than steps."""
    counts: list[int] = []
    left = list(numbers)
    for cutting in whole:
        here, left = left[: len(cutting.jumps)], left[len(cutting.jumps) :]
        if sum(here) > cutting.bulk.count:
            return None
        counts += [cutting.bulk.count - sum(here), *here]
    return counts


def leading(factors: Sequence[Factor], log_delta: float) -> list[SampledGaussian]:
    """The parts whose single steps lose most with a probability of about delta."""
    found: list[tuple[float, SampledGaussian]] = []
    for factor in factors:
        if isinstance(factor, SampledGaussian) and factor.cut is None and factor.remove:
            own = factor.log_mass + factor.ell
            above = np.logaddexp.accumulate(own[::-1])[::-1] + math.log(factor.count)
            found.append((float(np.interp(-log_delta, -above, factor.ell)), factor))
    found.sort(key=lambda pair: -pair[0])
    return [law for loss, law in found[:_MOST_PARTS] if loss > 0.3 * found[0][0]]


def _most_jumps(count: int, log_p: float, log_limit: float) -> int | None:
    """The least number that is exceeded with a probability below e^log_limit."""
    for most in range(_MOST_JUMPS):
        if most >= count or _log_more(count, log_p, most) < log_limit:
            return most
    return None


def _log_more(count: int, log_p: float, most: int) -> float:
    """Ln of a bound of P(more than `most` jumps), by the union over their places."""
    choose = math.fsum(math.log((count - j) / (j + 1)) for j in range(most + 1))
    return choose + (most + 1) * (log_p + 1e-6)


def _log_mass(pieces: Sequence[SampledGaussian], counts: Sequence[int]) -> tuple[float, float]:
    """Ln of the multinomial probability of these numbers of steps, and its absolute error."""
    log_mass, error, steps = 0.0, 0.0, 0
    for law, count in reversed(list(zip(pieces, counts, strict=True))):
        assert law.cut is not None
        # a law's bulk comes first, so its jumps have been counted before it
        if law.jumps:
            choose = -math.lgamma(count + 1)
            steps += count
        else:
            choose = math.fsum(math.log(count + j + 1) for j in range(steps))
            steps = 0
        part = count * law.cut.log_norm
        log_mass += choose + part
        error += count * law.cut.norm_error + 8 * UNIT * (abs(choose) + abs(part) + abs(log_mass))
        error += 1e-14 * abs(choose)
    return log_mass, error * 1.01


NARROW = 1e-9
MOST_WORK = 25_000_000
PLACES = ((1.0,), (0.4, 0.9), (0.2, 0.45, 0.9), (0.1, 0.4, 0.8))
"""Of the cuts: shares of ln delta at which about the numbers of jumps above them lie."""
_MANY = 10**6
_TRIES = 6
_SETTLED = 1e-7
"""More places are not tried for less."""


def is_narrow(low: float, high: float) -> bool:
    """Whether an interval is not worth more work.

    Bound       none: it only looks.
    Source      none.
    """
    return high < math.inf and high - low <= max(NARROW * high, 1e-12)


def epsilon_by_jumps(factors: Sequence[Factor], log_delta: float, *, known: Interval) -> Interval:
    """Bounds of epsilon by splitting off jumps; [0, inf] where nothing can be split.

    known: where it lies.

    Bound       both.
    Source      docs/proofs/contour.md, Theorem 9.
    """
    low, high, work = 0.0, math.inf, MOST_WORK
    near = rough_epsilon(factors, log_delta=log_delta)
    many = are_many(factors)
    for places in PLACES:
        parts = split(factors, log_delta=log_delta, aims=[part * log_delta for part in places])
        if not math.isfinite(near):
            break
        if parts is None:  # more places make smaller pieces
            continue
        work = MOST_WORK if many else work
        settled = False
        for _ in range(_TRIES):
            bottom, top = max(low, known.lower), min(high, known.upper)
            if not bottom <= near <= top:
                near = 0.5 * (bottom + top)
            made, work = sum_of_terms(parts, epsilon=near, log_unit=log_delta, work=work)
            found = invert(made.at, near, slope=made.c)
            low, high = max(low, found.lower), min(high, found.upper)
            sides = made.at(near)
            low = max(low, near) if sides.lower >= 1.0 + 1e-15 else low
            high = min(high, near) if sides.upper <= 1.0 else high
            if is_narrow(max(low, known.lower), min(high, known.upper)):
                return Interval(low, high)
            before, near = near, found.near if math.isfinite(found.near) else near
            close = abs(near - before) <= 0.02 * before
            if work <= 0 or (close and settled):
                break
            settled = close
        if work <= 0 and not many:
            break
        if high < math.inf and high - low <= _SETTLED * high:
            break
    return Interval(low, high)


def are_many(factors: Sequence[Factor]) -> bool:
    """Whether there are more copies than sums on grids serve: then no work is spared here.

    Bound       none: it only looks.
    Source      none.
    """
    return any(isinstance(one, SampledGaussian) and one.count > _MANY for one in factors)


_NEGLIGIBLE = -31.0
_BULK = 3.0
_PLANNING, _PLANNING_POINT = 100_000, 600
"""The work of planning one term, and each point of its grids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One term at one plan: its quadrature, or only Chernoff's bound at c, in the unit."""

    made: QuadratureSum | None
    most: float
    mass_error: float
    c: float
    log_chernoff: float
    slack: float

    def at(self, epsilon: float) -> Sides:
        """Both sides of this term's part at epsilon."""
        bound = math.exp(min(self.log_chernoff - self.c * epsilon * (1 - 1e-12), 700.0))
        most = min(self.most, bound + self.slack)
        if self.made is None:
            return Sides(near=0.0, lower=0.0, upper=most, tail=0.0)
        sides = self.made.at(epsilon)
        return Sides(
            near=min(max(sides.near, 0.0), self.most) if math.isfinite(sides.near) else sides.near,
            lower=sides.lower * (1 - self.mass_error),
            upper=min(sides.upper * (1 + self.mass_error), most),
            tail=sides.tail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpSum:
    """delta of a split composition at any epsilon, from both sides; c: the leading abscissa."""

    pieces: tuple[_Piece, ...]
    rest: float
    c: float

    def at(self, epsilon: float) -> Sides:
        """Both sides of delta(epsilon) in the unit; epsilon, a float, counts as exact.

        Source      docs/proofs/contour.md, Theorem 9.
        """
        sides = [part.at(epsilon) for part in self.pieces]
        upper = math.fsum(side.upper for side in sides) + self.rest
        return Sides(
            near=math.fsum(side.near for side in sides),
            lower=math.fsum(side.lower for side in sides) * (1 - 4 * UNIT),
            upper=upper * (1 + 4 * UNIT),
            tail=math.fsum(side.tail for side in sides),
        )


def sum_of_terms(
    parts: JumpSplit, *, epsilon: float, log_unit: float, work: int
) -> tuple[JumpSum, int]:
    """Every term by quadrature at its own saddle point for this epsilon, in the unit e^log_unit.

    Also the work left of `work`, atoms times nodes; the greatest terms are served first.
    """
    place = np.array(epsilon)
    heights = [float(term.log_deltas(place)) for term in parts.terms]
    order = sorted(range(len(heights)), key=lambda index: -heights[index])
    pieces: list[_Piece] = []
    for index in order:
        part, used = _piece(
            parts.terms[index], epsilon=epsilon, log_unit=log_unit, work=max(work // 3, 0)
        )
        points = sum(
            factor.x.size
            for factor in parts.terms[index].factors
            if isinstance(factor, SampledGaussian)
        )
        work -= used + _PLANNING + _PLANNING_POINT * points
        pieces.append(part)
    return JumpSum(
        pieces=tuple(pieces),
        rest=math.exp(min(parts.log_rest - log_unit + 1e-9, 700.0)),
        c=saddle_for_epsilon(parts.terms[order[0]].whole, epsilon)[0],
    ), work


def _piece(term: Term, *, epsilon: float, log_unit: float, work: int) -> tuple[_Piece, int]:
    """One term and the work it took: its quadrature, where Chernoff's bound leaves any need."""
    whole, own_unit = term.whole, log_unit - term.log_mass
    c = float(whole.c[int(np.argmin(whole.k + log_kappa(whole.c) - whole.c * epsilon))])
    k = math.fsum(factor.log_m_upper(c) for factor in term.factors)
    level = k + float(log_kappa(np.array(c))) - own_unit + 1e-9
    level += 1e-12 * (abs(k) + abs(own_unit) + abs(level))
    slack = math.fsum(factor.slack for factor in term.factors)
    most = math.exp(min(-own_unit + term.mass_error + 1e-9, 700.0))
    bare = _Piece(
        made=None,
        most=most,
        mass_error=term.mass_error,
        c=c,
        log_chernoff=level + term.mass_error,
        slack=slack * most,
    )
    if work == 0 or bare.at(epsilon).upper < math.exp(_NEGLIGIBLE):
        return bare, 0
    place = refined_saddle(term.factors, whole, epsilon)
    for _ in range(2):
        plan = plan_at(
            term.factors, whole, c=place, epsilon=epsilon, log_delta=own_unit, careful=True
        )
        if plan is not None:
            made = within_cap(
                term.factors, plan, log_unit=own_unit, log_null=term.log_null, work=work
            )
            if made is not None:
                return replace(bare, made=made), made.work
        place *= 0.5
    return bare, 0


def rough_log_delta(
    factors: Sequence[Factor], *, log_delta: float
) -> Callable[[float], float] | None:
    """About ln delta of epsilon: the bulk by its saddle point, one and two jumps added.

    log_delta: about the values in question. None where no part has jumps.
    """
    laws = leading(factors, log_delta)
    if not laws:
        return None
    law = laws[0]
    own = law.log_mass + law.ell
    above = np.logaddexp.accumulate(own[::-1])[::-1] + math.log(law.count)
    place = min(max(int(np.searchsorted(-above, _BULK)), 3), law.x.size - 8)
    near = slice(None, place)
    bulk = replace(
        law,
        x=law.x[near],
        ell=law.ell[near],
        share=law.share[near],
        log_mass=law.log_mass[near],
    )
    others = [factor for factor in factors if factor is not law]
    cs = abscissas([bulk, *others])
    rest = curve(others, cs)
    k, k1, k2 = bulk.plain_cumulants(cs)
    whole = CumulantCurve(c=cs, k=k + rest.k, k1=k1 + rest.k1, k2=k2 + rest.k2)
    term = Term(factors=(), whole=whole, log_mass=0.0, mass_error=0.0, log_null=0.0)
    jump, weight = law.ell[place:], own[place:] - above[0] + 2 * math.log(law.count)
    few = slice(None, None, max(1, jump.size // 24))
    share = np.logaddexp.reduce(weight) - np.logaddexp.reduce(weight[few])
    two = np.add.outer(jump[few], jump[few]).ravel()
    twice = np.add.outer(weight[few], weight[few]).ravel() + 2 * share - math.log(2)
    kept = twice > log_delta - 12.0
    losses = np.concatenate([[0.0], jump, two[kept]])
    weights = np.concatenate([[0.0], weight, twice[kept]])
    return lambda epsilon: float(np.logaddexp.reduce(weights + term.log_deltas(epsilon - losses)))


def rough_epsilon(factors: Sequence[Factor], *, log_delta: float) -> float:
    """About epsilon, by `rough_log_delta`; nan where no part has jumps."""
    level = rough_log_delta(factors, log_delta=log_delta)
    if level is None:
        return math.nan
    low, high = 0.0, 1.0
    while level(high) > log_delta and high < 1e12:
        low, high = high, 2 * high
    while high - low > 1e-3 * high and high > 1e-12:
        middle = 0.5 * (low + high)
        if level(middle) > log_delta:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
