"""Losses on one lattice: delta by a finite sum over the circle, certified from both sides.

For losses on E + g Z, N points t_j = 2 pi j / (g N) and abscissa c > 0,

    (1/N) sum over j of M(s_j) sum over losses l > epsilon of e^(-s_j l) (1 - e^(epsilon - l)),

s_j = c + i t_j,

is delta(epsilon) plus the sum over k != 0 of e^(c k g N) delta(epsilon + k g N): the aliases of
the contour quadrature with x = g N, and nothing else.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.closed import ThreePoint, ThreePointTilt
from unacorda.accounting.contour.plan import Curve, Plan, abscissas, curve, log_kappa, plan_at
from unacorda.accounting.contour.quadrature import Sides
from unacorda.accounting.contour.series import UNIT, Complexes, Floats
from unacorda.accounting.lattices.laws import Composition

__all__ = ["Circle", "CircleSum"]

_MOST_NODES = 1 << 15
_MOST_WORK = 1_000_000
_GOAL = 1e-14  # of delta: what the points left out may add
_TURN = 0.25  # half a stretch turns the fastest law by no more than this share of a radian


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """A composition with its cumulant on a grid of abscissas."""

    composition: Composition
    law: ThreePoint
    whole: Curve
    spacing: Fraction
    largest: Fraction

    @classmethod
    def of(cls, composition: Composition) -> Circle:
        """The composition, which has one law or more."""
        laws = composition.laws
        law = ThreePoint(
            epsilon=np.array([float(one.epsilon) for one, _ in laws]),
            top=np.array([one.masses()[2] for one, _ in laws]),
            counts=np.array([float(count) for _, count in laws]),
        )
        return cls(
            composition=composition,
            law=law,
            whole=curve([law], abscissas([law])),
            spacing=composition.spacing,
            largest=composition.largest,
        )

    def sum_at(self, *, c: float, epsilon: float, log_unit: float) -> CircleSum | None:
        """The sum for epsilons near this one, where delta is about e^log_unit; None if too long."""
        plan = plan_at([self.law], self.whole, c=c, epsilon=epsilon, log_delta=log_unit)
        g = float(self.spacing)
        if plan is None or plan.x > 1e15 * g:
            return None
        points = max(3, math.ceil(plan.x / g)) | 1
        h = 2 * math.pi / (g * points)
        tilt = self.law.tilt(plan.c, last=0.0, most=_MOST_NODES)
        if tilt is None:
            return None
        half = (points - 1) // 2
        bend = float(self.law.cumulants(np.array([plan.c]))[2][0])
        excess = max(tilt.log_m - plan.c * epsilon - log_unit, 0.0)
        wanted = math.sqrt(2 * (36.0 + excess) / bend) / h
        nodes = math.ceil(wanted) + 8 if wanted < half else half
        for _ in range(6):
            nodes = half if nodes >= 0.7 * half else nodes
            stretches = 0 if nodes == half else half * h * float(self.law.epsilon.max()) / _TURN
            if nodes > _MOST_NODES or max(nodes, stretches) * tilt.high.size > _MOST_WORK:
                return None
            beyond = 0.0 if nodes == half else self._beyond(tilt, h=h, nodes=nodes, half=half)
            if beyond * math.exp(min(excess, 600.0)) <= _GOAL:
                return self._sum(
                    tilt, plan, points=points, nodes=nodes, beyond=beyond, log_unit=log_unit
                )
            nodes = nodes * 2
        return None

    def _sum(
        self,
        tilt: ThreePointTilt,
        plan: Plan,
        *,
        points: int,
        nodes: int,
        beyond: float,
        log_unit: float,
    ) -> CircleSum:
        g = float(self.spacing)
        angle = (2 * math.pi / points) * np.arange(nodes + 1, dtype=np.float64)
        t = angle / g
        log, error = tilt.nodes(t)
        fall = -math.expm1(-plan.c * g)
        sine = np.sin(0.5 * angle)
        return CircleSum(
            spacing=self.spacing,
            largest=self.largest,
            c=plan.c,
            points=points,
            log_unit=log_unit,
            k=tilt.log_m,
            k_error=tilt.log_m_error,
            t=t,
            level=np.exp(np.minimum(log.real, 0.0)) * np.where(t > 0, 2.0, 1.0),
            phase=log.imag,
            error=np.expm1(np.minimum(error, 600.0)),
            turn=math.exp(-plan.c * g) * (np.cos(angle) - 1j * np.sin(angle)),
            first=(fall + 2 * (1 - fall) * sine * sine) + 1j * (1 - fall) * np.sin(angle),
            beyond=beyond,
            alias=plan.alias,
            log_alias=self.law.log_m_upper(plan.alias),
        )

    def _beyond(self, tilt: ThreePointTilt, *, h: float, nodes: int, half: int) -> float:
        """A bound of 2 / N times the sum of |phi| over the points that are left out.

        Stretch by stretch: |phi|^2 of one law is a convex square of the cosine, so largest at an
        end of the cosine's range.
        """
        e, counts = self.law.epsilon, self.law.counts
        high, low = tilt.high, tilt.low
        rest = np.maximum(1 - high - low, 0.0)
        step = max(1, int(2 * _TURN / (float(e.max()) * h)))
        many = -(-(half - nodes) // step)
        edges = np.minimum(nodes + step * np.arange(many + 1, dtype=np.float64), half + 0.5) * h
        middle = np.multiply.outer((edges[:-1] + edges[1:]) * (0.25 / math.pi), e)
        middle -= np.rint(middle)
        reach = np.multiply.outer((edges[1:] - edges[:-1]) * (0.25 / math.pi), e) + 1e-12
        near = np.maximum(np.abs(middle) - reach, 0.0)
        far = np.minimum(np.abs(middle) + reach, 0.5)
        steep, bent = 8 * high * low + 2 * rest * (high + low), 4 * high * low
        lost = np.full_like(near, np.inf)
        for place in (near, far):
            v = 2 * np.sin(math.pi * place) ** 2
            lost = np.minimum(lost, v * (steep - bent * v))
        lost = np.clip(lost * (1 - 1e-10) - 1e-14, 0.0, 1 - 1e-15)
        level = 0.5 * (np.log1p(-lost) @ counts)
        return float(np.exp(level).sum()) * 2 * step / (2 * half + 1) * (1 + 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class CircleSum:
    """The points at abscissa c with every error bound; delta is told in the unit e^log_unit.

    level: |phi|, twice but at t = 0; turn: e^-(c + it) g; first: 1 - turn; beyond: a bound of the
    points left out, per unit of the kernel's size; alias, log_alias: c' and a certified K there.
    """

    spacing: Fraction
    largest: Fraction
    c: float
    points: int
    log_unit: float
    k: float
    k_error: float
    t: Floats
    level: Floats
    phase: Floats
    error: Floats
    turn: Complexes
    first: Complexes
    beyond: float
    alias: float
    log_alias: float

    def at(self, epsilon: Fraction) -> Sides:
        """Both sides of delta at exactly this epsilon, 0 or above.

        Source      docs/proofs/lattices.md, Theorem 1; the aliases: docs/proofs/contour.md.
        """
        if epsilon >= self.largest:
            return Sides(near=0.0, lower=0.0, upper=0.0)
        g, c, u = float(self.spacing), self.c, UNIT
        down = math.ceil((self.largest - epsilon) / self.spacing) - 1
        place = self.largest - down * self.spacing  # the least loss above epsilon
        y, loss = float(place - epsilon), float(place)
        left = float(self.spacing - (place - epsilon))
        second = self.first * math.exp(-g) - math.expm1(-g)  # 1 - turn e^-g
        start, more = -math.expm1(-y), -math.exp(-y) * math.expm1(-left)
        below = self.first * second
        kernel = (start + self.turn * more) / below
        angle = self.phase - self.t * loss
        terms = self.level * (kernel.real * np.cos(angle) - kernel.imag * np.sin(angle))
        size = self.level * np.abs(kernel)
        total = math.fsum(terms)
        slip = float(
            size
            @ (
                self.error * (1 + 1e-9)
                + u * (100 + 8 * np.abs(angle) + 8 * np.abs(self.phase) + 8 * self.t * abs(loss))
            )
        )
        log_scale = self.k - c * loss - self.log_unit - math.log(self.points)
        if log_scale > 690.0:
            return Sides(near=math.nan, lower=0.0, upper=math.inf)
        loose = self.k_error + 8 * u * (4 + abs(self.k) + c * abs(loss) + abs(self.log_unit))
        scale = math.exp(log_scale)
        slip += abs(total) * math.expm1(min(loose, 600.0)) * (1 + 1e-9)
        slip += (start + more) / float(np.abs(below[-1])) * self.beyond * self.points
        first, kept = self._left(epsilon)
        right = self._right(float(epsilon))
        near = scale * total - first
        pad = 16 * u * (scale * abs(total) + first)
        upper = near + first - kept + scale * slip + pad
        return Sides(near=near, lower=max(near - scale * slip - right - pad, 0.0), upper=upper)

    def _left(self, epsilon: Fraction) -> tuple[float, float]:
        """The aliases k < 0: (an upper bound, a lower bound), in the unit."""
        x = self.points * float(self.spacing)
        drop = math.exp(-self.c * x)
        loose = 2e-14 * (4 + self.c * x + abs(self.log_unit))
        first = math.exp(min(-self.c * x - self.log_unit, 700.0)) / (1 - drop) * (1 + loose)
        at = float(epsilon)
        if at >= x * (1 - 1e-12) or first > 1e200:
            return first, 0.0
        second = math.exp(min(at - (self.c + 1) * x - self.log_unit, 700.0))
        second = second / -math.expm1(-(self.c + 1) * x) * (1 + 1e-9)
        return first, max(0.0, first * (1 - 3 * min(loose, 0.3)) - second)

    def _right(self, epsilon: float) -> float:
        """An upper bound of the aliases k > 0, in the unit."""
        x = self.points * float(self.spacing)
        if epsilon + x * (1 - 1e-12) >= float(self.largest) * (1 + 1e-12):
            return 0.0
        if not math.isfinite(self.log_alias):
            return math.inf
        gap = (self.alias - self.c) * x
        bound = float(log_kappa(np.array(self.alias))) + self.log_alias - self.alias * epsilon - gap
        bound += 1e-12 * (1 + abs(self.log_alias) + self.alias * epsilon + gap)
        return math.exp(min(bound - self.log_unit, 700.0)) / -math.expm1(-gap) * (1 + 1e-9)
