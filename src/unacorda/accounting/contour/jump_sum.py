"""delta of a composition split by its jumps: each term at its own saddle point, added up."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unacorda.accounting.contour.factor import Factor
from unacorda.accounting.contour.jumps import Split, Term, leading
from unacorda.accounting.contour.plan import (
    Curve,
    abscissas,
    curve,
    log_kappa,
    plan_at,
    refined_saddle,
    saddle_for_epsilon,
)
from unacorda.accounting.contour.quadrature import Sides, Sum, within_cap
from unacorda.accounting.contour.sampled_gaussian import SampledGaussian
from unacorda.accounting.contour.series import UNIT

_NEGLIGIBLE = -31.0
_BULK = 3.0
_PLANNING, _PLANNING_POINT = (
    100_000,
    600,
)  # the work of planning one term, and each point of its grids


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One term at one plan: its quadrature, or only Chernoff's bound at c, in the unit."""

    made: Sum | None
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
    parts: Split, *, epsilon: float, log_unit: float, work: int
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
    whole = Curve(c=cs, k=k + rest.k, k1=k1 + rest.k1, k2=k2 + rest.k2)
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
