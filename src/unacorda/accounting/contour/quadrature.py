"""One quadrature: the sum over nodes and both certified sides of delta at any epsilon."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.laplace import LaplaceTilt
from unacorda.accounting.contour.plan import Plan, log_kappa
from unacorda.accounting.contour.sampled_gaussian import SampledGaussianTilt
from unacorda.accounting.contour.tilts import UNIT, Factor, Floats, GaussianSum, Tilt
from unacorda.balls import Ball, ball, float_down, float_up
from unacorda.privacy.estimates import Interval

MOST_WORK = 1_000_000
_TAIL_GOAL = 2e-10  # of the nodes' sum: a smaller tail is not worth more work


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """delta at one epsilon in the unit of its QuadratureSum: a near value and certified bounds.

    tail: how much of the width the nodes left out account for.
    """

    near: float
    lower: float
    upper: float
    tail: float = 0.0


class QuadratureSum:
    """The nodes at abscissa c, with every error bound; delta is in the unit e^log_unit.

    tail: ln sup of |phi| beyond the nodes; log_alias: a certified K at the abscissa `plan.alias`;
    log_null: ln of a bound of E e^-L; work: nodes times atoms, of all parts.
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        tilts: Sequence[Tilt],
        plan: Plan,
        *,
        log_unit: float,
        log_null: float,
    ) -> None:
        """Evaluate the nodes of a plan. tilts: of the factors, at its abscissa."""
        t: Floats = plan.h * np.arange(plan.nodes, dtype=np.float64)
        log = np.zeros(plan.nodes, dtype=np.complex128)
        error = np.zeros(plan.nodes)
        for part in tilts:
            value, wrong = part.nodes(t)
            log += value
            error += wrong
        error += 4 * UNIT * len(tilts) * np.abs(log)
        s = plan.c + 1j * t
        kernel = 1 / (s * (s + 1))
        level = np.minimum(log.real, 600.0)
        modulus = np.exp(level) * np.abs(kernel)
        modulus[0] *= 0.5
        kernel[0] *= 0.5
        reach = np.minimum(error, 600.0 - level)
        wrong = np.abs(kernel) * np.where(
            reach < 1,
            np.exp(level) * np.expm1(np.minimum(reach, 1.0)),
            np.exp(np.minimum(level + error, 600.0)) * 2,
        )
        goal = _TAIL_GOAL * plan.h * float(modulus.sum())
        means = [part.mean for part in tilts]
        self.plan, self.log_unit, self.t = plan, log_unit, t
        self.k = math.fsum(part.log_m for part in tilts)
        self.k_error = math.fsum(part.log_m_error for part in tilts)
        self.mean = math.fsum(means)
        self.mean_size = math.fsum(abs(mean) for mean in means)
        self.real: Floats = np.exp(level) * kernel.real
        self.imaginary: Floats = np.exp(level) * kernel.imag
        self.phase = log.imag
        self.size: Floats = modulus * (1 + 1e-9)
        self.error = math.fsum(wrong) * (1 + 1e-9)
        self.error += 20 * UNIT * math.fsum(modulus * (1 + np.abs(level)))
        self.tail = _tail(tilts, plan, goal=goal)
        self.slack = math.fsum(part.slack for part in tilts)
        self.log_alias = math.fsum(factor.log_m_upper(plan.alias) for factor in factors)
        falls = math.fsum(max(-f.loss, 0.0) for f in factors if isinstance(f, GaussianSum))
        self.log_null = log_null + falls
        sizes = (p.weights.size if isinstance(p, SampledGaussianTilt) else 1 for p in tilts)
        self.work = plan.nodes * sum(sizes)

    def at(self, epsilon: float) -> Sides:
        """Both sides of delta(epsilon); epsilon, a float, counts as exact.

        Source      docs/proofs/contour.md, Theorem 1.
        """
        plan, u = self.plan, UNIT
        turn = self.t * (self.mean - epsilon) + self.phase
        terms = self.real * np.cos(turn) - self.imaginary * np.sin(turn)
        total = math.fsum(terms)
        wide = abs(self.mean) + self.mean_size + abs(epsilon)
        slip = self.error + u * float(
            self.size @ (8.0 + 6.0 * np.abs(turn) + 6.0 * np.abs(self.phase) + 4.0 * wide * self.t)
        )
        log_scale = self.k - plan.c * epsilon - self.log_unit
        if log_scale > 690.0:
            return Sides(near=math.nan, lower=0.0, upper=math.inf)
        scale = math.exp(log_scale) / math.pi
        loose = math.expm1(
            min(
                self.k_error
                + 6 * u * (2 + abs(self.k) + plan.c * abs(epsilon) + abs(self.log_unit)),
                600.0,
            )
        )
        near = scale * plan.h * total
        high = scale * plan.h * (total + slip)
        low = scale * plan.h * (total - slip)
        high *= 1 + math.copysign(loose, high)
        low *= 1 - math.copysign(min(loose, 1.0), low)
        beyond = math.exp(min(self.tail, 0.0)) * math.atan2(plan.c, self.t[-1]) / plan.c
        beyond *= scale * (1 + loose) * (1 + 1e-12)
        left, kept = self._left(epsilon)
        right = self._right(epsilon)
        slack = self.slack * math.exp(min(-self.log_unit, 700.0)) * (1 + 1e-9)
        near -= left
        upper = high + beyond - kept + slack
        lower = low - beyond - left - right
        pad = 4 * u * (abs(high) + abs(low) + left + kept)
        return Sides(near=near, lower=max(lower - pad, 0.0), upper=upper + pad, tail=2 * beyond)

    def _left(self, epsilon: float) -> tuple[float, float]:
        """The aliases k < 0: (an upper bound, a lower bound), in the unit."""
        plan = self.plan
        drop = math.exp(-plan.c * plan.x)
        first = (
            math.exp(min(-plan.c * plan.x - self.log_unit, 700.0))
            / (1 - drop)
            * (1 + 1e-14 * (4 + plan.c * plan.x + abs(self.log_unit)))
        )
        if epsilon >= plan.x * (1 - 1e-12) or first > 1e200:
            return first, 0.0
        second = epsilon + self.log_null - (plan.c + 1) * plan.x - self.log_unit
        second = math.exp(min(second, 700.0))
        second = second / (1 - math.exp(-(plan.c + 1) * plan.x)) * (1 + 1e-9)
        loose = 3e-14 * (4 + plan.c * plan.x + abs(self.log_unit)) + self.slack
        return first, max(0.0, first * (1 - min(loose, 1.0)) - second)

    def _right(self, epsilon: float) -> float:
        """An upper bound of the aliases k > 0, in the unit, by Chernoff's bound at c'."""
        plan, other = self.plan, self.plan.alias
        if not math.isfinite(self.log_alias):
            return math.inf
        gap = (other - plan.c) * plan.x
        log_bound = float(log_kappa(np.array(other))) + self.log_alias - other * epsilon - gap
        bound = math.exp(min(log_bound - self.log_unit + 1e-9, 700.0))
        return bound / -math.expm1(-gap) * (1 + 1e-9)


def within_cap(
    factors: Sequence[Factor],
    plan: Plan,
    *,
    log_unit: float,
    log_null: float = 0.0,
    work: int = MOST_WORK,
) -> QuadratureSum | None:
    """The quadrature, with fewer nodes (and a longer tail) where the plan's are too many."""
    for _ in range(5):
        tilts = _tilts(factors, plan, work)
        if tilts is not None:
            return QuadratureSum(factors, tilts, plan, log_unit=log_unit, log_null=log_null)
        if plan.nodes < 64:
            break
        plan = replace(plan, nodes=plan.nodes // 2)
    return None


def _tilts(factors: Sequence[Factor], plan: Plan, work: int) -> list[Tilt] | None:
    """The parts at the plan's abscissa; None where one cannot be certified within the work cap."""
    last, most = plan.h * (plan.nodes - 1), max(work // plan.nodes, 16)
    found: list[Tilt] = []
    for factor in factors:
        part = factor.tilt(plan.c, last=last, most=most)
        if part is None:
            return None
        found.append(part)
    return found


def _tail(tilts: Sequence[Tilt], plan: Plan, *, goal: float) -> float:
    """Ln of a bound of |phi| beyond the nodes, as good as constant: its mean under the kernel."""

    def lead(t: float) -> float:
        return min(0.0, math.fsum(part.tail(t) for part in tilts))

    last = plan.h * (plan.nodes - 1)
    found = lead(last)
    whole = math.atan2(plan.c, last) / plan.c
    for part in tilts:
        if isinstance(part, LaplaceTilt) and math.exp(found) * whole > goal > 0:
            rest = part.tail_integral(
                start=plan.nodes - 1, h=plan.h, known=found, lead=lead, goal=goal
            )
            found = min(found, math.log(max(rest / whole, 1e-300)) + 1e-12)
    return found


def chernoff_upper(factors: Sequence[Factor], c: float, *, log_delta: float) -> float:
    """A certified epsilon, by Chernoff's bound at c: delta - slack >= kappa M(c) e^(-c epsilon)."""
    slack = math.fsum(factor.slack for factor in factors)
    room = math.exp(log_delta) - slack * (1 + 1e-9)
    if room <= 0:
        return math.inf
    k = math.fsum(factor.log_m_upper(c) for factor in factors)
    if not math.isfinite(k):
        return math.inf
    bound = k + float(log_kappa(np.array(c))) - math.log(room)
    return max(0.0, bound / c + 1e-12 * (abs(k) + abs(log_delta) + 1 + 2 * abs(math.log(c))) / c)


def chernoff_delta(factors: Sequence[Factor], c: float, *, epsilon: float) -> float:
    """A certified delta at epsilon, by Chernoff's bound at c; at most 1."""
    k = math.fsum(factor.log_m_upper(c) for factor in factors)
    if not math.isfinite(k):
        return 1.0
    level = k + float(log_kappa(np.array(c))) - c * epsilon
    level += 1e-12 * (abs(k) + c * epsilon + 1 + 2 * abs(math.log(c)))
    slack = math.fsum(factor.slack for factor in factors)
    return min(1.0, math.exp(min(level, 1.0)) * (1 + 1e-9) + slack * (1 + 1e-9) + 1e-320)


# The delta of all losses from that of the finite ones, and back.

_HIDDEN = 2.0**-130
"""A difference from p that is smaller, relatively, is taken to be hidden by rounding."""


def without_infinite(infinite: Ball, target: Fraction) -> Ball:
    """The delta that the finite losses may have: (target - p) / (1 - p), p = P(infinite loss).

    Bound       within 2^-60 of itself; 0 where p is 1, or rounding hides which of both is more.
    Source      docs/proofs/contour.md, section 1.
    """
    left = ball(target) - infinite
    if not infinite < 1 or not abs(left) > _HIDDEN * infinite:
        return ball(0)
    return left / (1 - infinite)


def with_infinite(infinite: Ball, found: Interval) -> Interval:
    """With infinite losses: p + (1 - p) * (delta of the finite losses), rounded outward.

    Bound       both.
    Source      docs/proofs/contour.md, section 1.
    """
    if infinite == 0:
        return found
    low, high = (infinite + (1 - infinite) * ball(end) for end in found)
    return Interval(float_down(low), min(1.0, float_up(high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The end of one pass: the bounds it proved, and where it believes epsilon to be.

    tailed: the tail makes most of the width, so that the same abscissa can do no better.
    """

    lower: float
    upper: float
    near: float
    tailed: bool = False


def invert(at: Callable[[float], Sides], start: float, *, slope: float) -> Search:
    """Newton on ln delta from `start`, then steps outward until both sides are certain."""
    zero = at(0.0)
    if zero.upper <= 1.0:
        return Search(lower=0.0, upper=0.0, near=0.0)
    near = _root(lambda e: at(e).near, start, slope=slope)
    sides = at(near)
    if not math.isfinite(sides.near):
        return Search(lower=0.0, upper=math.inf, near=math.nan)
    rate = max(slope, 1e-9)
    least = 4e-16 * max(near, 1e-300) + 1e-300
    upper = math.inf
    width = max(1.1 * max(sides.upper - 1.0, 0.0) / rate, least)
    while width < 4.0 * (near + 1.0):
        if at(near + width).upper <= 1.0:
            upper = near + width
            break
        width *= 1.7
    lower = 0.0
    width = max(1.1 * max(1.0 - sides.lower, 0.0) / rate, least)
    while width < near:
        if at(near - width).lower >= 1.0 + 1e-15:
            lower = near - width
            break
        width *= 1.7
    tailed = sides.tail > 0.7 * (sides.upper - sides.lower)
    return Search(lower=lower, upper=upper, near=near, tailed=tailed)


def _root(value: Callable[[float], float], start: float, *, slope: float) -> float:
    """About where value(epsilon) = 1: secant steps on its logarithm, kept in a bracket."""
    low, high = 0.0, math.inf
    place, rate = start, slope
    before: tuple[float, float] | None = None
    for _ in range(60):
        height = value(place)
        if math.isnan(height):
            low = max(low, place)
            place = place * 1.5 + 1e-3 if high == math.inf else 0.5 * (low + high)
            continue
        if height > 1:
            low = place
        else:
            high = place
        if height <= 0:
            place, before = 0.5 * (low + high), None
            continue
        level = math.log(height)
        if abs(level) < 1e-15 or (high < math.inf and high - low <= 4e-16 * high):
            break
        if before is not None and before[0] != place:
            guess = -(level - before[1]) / (place - before[0])
            rate = guess if guess > 0.05 * slope else rate
        before = (place, level)
        step = level / rate
        following = place + step
        if not low <= following <= high:
            following = 0.5 * (low + high) if high < math.inf else 2 * place + 1e-6
        if abs(following - place) <= 2e-16 * place:
            break
        place = following
    return place
