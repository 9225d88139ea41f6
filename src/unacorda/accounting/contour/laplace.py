"""Laplace noise: many mechanisms of different scales at once, by the closed cumulant.

M(s) = A(s) e^(s u) + B(s) e^(-(s + 1) u), A = (s + 1) / (2 s + 1), B = s / (2 s + 1), u = 1 / b,
and M(s) - 1 = A G(s u) + B G(-(s + 1) u) with G(y) = e^y - 1 - y.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.contour.tilts import (
    UNIT,
    Complexes,
    Factor,
    Floats,
    Tilt,
    excess,
    logarithm,
)

# How small many different Laplace mechanisms make |phi| beyond the nodes, stretch by stretch.
#
# With z = c + 1/2 + it, M(c + it) e^(u/2) = cosh(zu) + sinh(zu) / (2z), of modulus at most
# sqrt(sinh^2((c + 1/2) u) + cos^2(tu)) + sqrt(sinh^2((c + 1/2) u) + sin^2(tu)) / (2 |z|). Each
# scale turns at its own speed, so that the product is small long before its least bound is.

MANY = 30
"""With fewer different scales the stretches are not looked at."""

_TURN = 0.3  # half a stretch turns the fastest scale by no more than this angle
_TURNED = 4.0  # slower scales are asked alone once they have turned by this angle
_SOME = 96  # scales that are asked first
_LAPLACE_CELLS_BLOCK = 1 << 7
_WORK = 1_500_000
_COSINE = tuple((-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k) for k in range(5))
"""Of powers of x^2: at least cos(pi x), by at most 3e-5 for |x| <= 1/2 (an alternating series)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turning:
    """Laplace mechanisms at abscissa c: u, counts, and above = M(c) - 1 of each."""

    u: Floats
    counts: Floats
    above: Floats
    c: float

    def levels(self, first: Floats, last: Floats) -> Floats:
        """For each stretch [first, last] of t a bound of ln |phi|.

        Bound       upper; the roundings are covered by a relative 1e-9 of each factor.
        Source      docs/proofs/contour.md, section 3.
        """
        u, rate = self.u[:, None], self.c + 0.5
        near = u * ((first + last) * (0.5 / math.pi))
        work = np.rint(near)
        near -= work
        np.abs(near, out=near)
        half = u * float(np.max((last - first) * (0.5 / math.pi) + 1e-15 * last)) + 1e-15
        near -= half
        np.maximum(near, 0.0, out=near)
        slow, fall = (0.5 * np.expm1(-2 * rate * u)) ** 2, np.exp(-2 * rate * u)
        np.multiply(near, near, out=work)
        cosine = work * _COSINE[-1]
        for coefficient in _COSINE[-2:0:-1]:
            cosine += coefficient
            cosine *= work
        cosine += _COSINE[0]
        cosine *= cosine
        cosine *= fall
        cosine += slow
        np.sqrt(cosine, out=cosine)
        share = 0.5 / np.hypot(rate, first)
        if first[0] > 25.0:  # the second term is small, whatever the sine
            cosine += np.multiply(np.sqrt(slow + fall), share, out=work)
        else:
            near += 2 * half
            sine = np.sin(math.pi * np.minimum(near, 0.5))  # at the farthest point
            sine *= sine
            cosine += share * np.sqrt(sine * fall + slow)
        level: Floats
        if np.all(self.counts == 1):
            level = np.log(np.maximum(np.prod(cosine, axis=0), 1e-300))
        else:
            level = self.counts @ np.log(cosine)
        level += float(self.counts @ (1e-9 + self.c * self.u * (1 + 1e-14) - np.log1p(self.above)))
        return level

    def integral(
        self, *, start: int, h: float, known: float, lead: Callable[[float], float], goal: float
    ) -> float:
        """A bound of the integral of |phi| / (c^2 + t^2) from t = start h on.

        lead: a bound of ln |phi| of all parts from some t on; known: from start h on; goal: what
        is small enough, so that no more work is done.
        """
        most = math.log(goal) - 3.0
        passed, place, work = 0.0, start, 0
        whole = known
        best = math.exp(whole) * math.atan2(self.c, place * h) / self.c
        order = np.argsort(self.u)
        while best > goal and work < _WORK and passed < best:
            some = self._some(order, place * h)
            step = max(1, int(2 * _TURN / (float(some.u.max()) * h))) if place > start else 1
            edges = h * (place + step * np.arange(_LAPLACE_CELLS_BLOCK + 1, dtype=np.float64))
            left, right = edges[:-1], edges[1:]
            first = left if step > 1 else right  # of a stretch that is one node, the node alone
            level = some.levels(first, right)
            high = np.flatnonzero(level > most)
            if some.u.size < self.u.size and high.size:
                level[high] = np.minimum(level[high], self.levels(first[high], right[high]))
                work += high.size * self.u.size
            level = np.minimum(level, whole)
            passed += float(np.exp(level) @ ((right - left) / (self.c**2 + left * right)))
            place += step * _LAPLACE_CELLS_BLOCK
            work += level.size * some.u.size
            whole = lead(place * h)
            beyond = math.exp(whole) * math.atan2(self.c, place * h) / self.c
            best = min(best, passed + beyond)
        return best * (1 + 1e-9)

    def _some(self, order: NDArray[np.intp], t: float) -> Turning:
        """Those to ask first from t on: of many that have turned, the slower half alone.

        They turn as far as any, and their stretches are longer. order: that of u.
        """
        turned = order[np.searchsorted(self.u[order], _TURNED / t) :]
        if turned.size >= 4 * _SOME:
            order = turned[: turned.size // 2]
        if order.size <= _SOME:
            return self
        places = order[np.linspace(0, order.size - 1, _SOME).astype(np.intp)]
        return replace(self, u=self.u[places], counts=self.counts[places], above=self.above[places])


_FEW = 100
_BLOCK = 1 << 17
_BINS = 48  # of scales, where a plan is made for more


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceSum(Factor):
    """Laplace mechanisms: u = 1 / noise multiplier and the number of copies of each."""

    u: Floats
    counts: Floats

    @property
    def limit(self) -> float:
        """Where c u reaches 600."""
        return 600.0 / float(self.u.max()) - 1

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K, K' and K'' at abscissas cs."""
        u, counts = _binned(self.u, self.counts)
        c = cs[:, None]
        rise, fall = np.expm1(c * u), np.expm1(-(c + 1) * u)
        two = 2 * c + 1
        top = (c + 1) * (rise - c * u) + c * (fall + (c + 1) * u)
        slope = rise - c * u + (c + 1) * u * rise + fall + (c + 1) * u - c * u * fall
        bend = 2 * u * rise + (c + 1) * u * u * (rise + 1) - 2 * u * fall + c * u * u * (fall + 1)
        m = 1 + top / two
        first = (slope / two - 2 * top / two**2) / m
        second = (bend / two - 4 * slope / two**2 + 8 * top / two**3) / m - first * first
        big = np.log1p(np.maximum(top / two, 0.0))
        return big @ counts, first @ counts, np.maximum(second @ counts, 1e-300)

    def _above(self, c: float) -> tuple[Floats, Floats]:
        """M(c) - 1 of each scale by terms of one sign, and its relative error."""
        u, two = self.u, 2 * c + 1
        above = ((c + 1) * excess(c * u) + c * excess(-(c + 1) * u)) / two
        return above, UNIT * (100 + 8 * (c + 1) * u)

    def planned_tail(self, c: float, t: float) -> float:
        """The tilt's bound, or where |phi| stands at t if there are many different scales."""
        above = self._above(c)[0]
        if self.u.size < MANY:
            return self._tail(c, t, above)
        bound = self._tail(c, t, above)
        at = np.array([t])
        here = Turning(u=self.u, counts=self.counts, above=above, c=c).levels(at, at)
        return min(bound, float(here[0]))

    def _tail(self, c: float, t: float, above: Floats) -> float:
        """The logarithm of a bound of |phi| from t on: the product of the bounds of the scales.

        Source      docs/proofs/contour.md, sections 3 and 8.
        """
        level = self._levels(c, np.full_like(self.u, t), above)
        until = 0.5 * math.pi / self.u * (1 - 1e-12)  # |phi| of each falls up to here
        if self.u.size < MANY and np.any(t < until):
            beyond = self._levels(c, until, above)
            here = np.maximum(self._at(c, t, above, until > t), beyond)
            level = np.where(t < until, np.minimum(level, here), level)
        return min(0.0, float(level @ self.counts) * (1 - 1e-11))

    def _levels(self, c: float, t: Floats, above: Floats) -> Floats:
        """Ln of (|A(c + it)| e^(cu) + e^(-(c + 1) u) / 2) / M(c), of each scale at its own t.

        |A| falls in t, and |B| rises to 1/2.
        """
        lean = np.hypot(c + 1, t) / np.hypot(2 * c + 1, 2 * t) - 0.5
        # [...] - M(c), arranged so that nothing of order one is left to cancel
        part = lean * np.exp(c * self.u) + 0.5 * (
            np.expm1(c * self.u) + np.expm1(-(c + 1) * self.u)
        )
        shift = part - above + UNIT * (40 + 8 * (c + 1) * self.u) * (1 + np.exp(c * self.u))
        levels: Floats = np.log1p(shift / (1 + above))
        return levels

    def _at(self, c: float, t: float, above: Floats, wanted: NDArray[np.bool_]) -> Floats:
        """Ln of |phi(t)| of one copy of each scale, rounded up; 0 for those not wanted."""
        found = np.zeros_like(self.u)
        if wanted.any():
            counts = self.counts[wanted]
            at = np.full(counts.shape, t)
            log, error = _powers(c, at, self.u[wanted], above[wanted], counts)
            found[wanted] = (log.real + error) / counts
        return found

    def tilt(self, c: float, *, last: float, most: int) -> LaplaceTilt | None:  # noqa: ARG002
        """The part at c; None beyond `limit`, or for more than eight times `most` scales."""
        if not 0 < c <= self.limit or self.u.size > 8 * most:
            return None
        above, slip = self._above(c)
        log_m = math.fsum(self.counts * np.log1p(above))
        error = math.fsum(self.counts * above / (1 + above) * slip) + 12 * UNIT * log_m
        return LaplaceTilt(law=self, c=c, above=above, log_m=log_m, log_m_error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceTilt(Tilt):
    """LaplaceSum at abscissa c; above: M(c) - 1 of each scale."""

    law: LaplaceSum
    c: float
    above: Floats

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t), and a bound on its error: products, of powers logarithms."""
        few = self.law.counts <= _FEW
        total = np.zeros(t.size, dtype=np.complex128)
        error = np.zeros(t.size)
        if few.any():
            width = max(1, _BLOCK // t.size)
            places = np.flatnonzero(few)
            for start in range(0, places.size, width):
                log, wrong = self._product(t, places[start : start + width])
                total += log
                error += wrong
        for j in np.flatnonzero(~few):
            log, wrong = self._power(t, int(j))
            total += log
            error += wrong
        return total, error + 4 * UNIT * self.law.u.size * (1 + np.abs(total))

    def tail(self, t: float) -> float:
        """A bound of ln sup over t' >= t of |phi(t')|: only the atoms survive."""
        return self.law._tail(self.c, t, self.above)  # noqa: SLF001 - the same file's formula

    def tail_integral(
        self, *, start: int, h: float, known: float, lead: Callable[[float], float], goal: float
    ) -> float:
        """A bound of the integral of |phi| / (c^2 + t^2) from t = start h on, all parts together.

        lead: a bound of ln |phi| of all parts from some t on; known: from start h on; goal: what
        is small enough.
        """
        law = self.law
        if law.u.size < MANY:
            return math.exp(known) * math.atan2(self.c, start * h) / self.c
        turning = Turning(u=law.u, counts=law.counts, above=self.above, c=self.c)
        return turning.integral(start=start, h=h, known=known, lead=lead, goal=goal)

    def _product(self, t: Floats, places: NDArray[np.intp]) -> tuple[Complexes, Floats]:
        c, u, counts = self.c, self.law.u[places], self.law.counts[places]
        s = c + 1j * t
        rise, fall = (s + 1) / (2 * s + 1), s / (2 * s + 1)
        up = np.exp(c * u) / (1 + self.above[places])
        down = np.exp(-(c + 1) * u) / (1 + self.above[places])
        angle = np.multiply.outer(t, u)
        turn = np.cos(angle) + 1j * np.sin(angle)
        value = rise[:, None] * (turn * up) + fall[:, None] * (turn.conj() * down)
        high, low = np.multiply.outer(np.abs(rise), up), np.multiply.outer(np.abs(fall), down)
        slip = UNIT * (80 + 6 * angle + 10 * (c + 1) * u)
        room = slip * (high + low) / np.maximum((high - low) * (1 - 1e-9) - 4 * slip, 1e-300)
        wrong = np.where(room < 0.5, room * 1.5, np.inf) @ counts
        if np.any(counts > 1):
            logs = np.log(np.maximum(np.abs(value), 1e-300)) + 1j * np.angle(value)
            return logs @ counts, wrong + 20 * UNIT * (np.abs(logs) @ counts)
        product = np.prod(value, axis=1)
        size = np.abs(product)
        log = np.log(np.maximum(size, 1e-290)) + 1j * np.angle(product)
        return log, np.where(size < 1e-290, np.maximum(wrong, 1.2), wrong)

    def _power(self, t: Floats, j: int) -> tuple[Complexes, Floats]:
        law = self.law
        at, counts = np.full_like(t, law.u[j]), np.full_like(t, law.counts[j])
        return _powers(self.c, t, at, np.full_like(t, self.above[j]), counts)


def _powers(
    c: float, t: Floats, u: Floats, above: Floats, counts: Floats
) -> tuple[Complexes, Floats]:
    """The logarithm of phi(t), to the power of the count, and a bound on its error."""
    s: Complexes = (c + 1j * t).astype(np.complex128)
    two = 2 * s + 1
    first, second = (s + 1) * excess(s * u) / two, s * excess(-(s + 1) * u) / two
    m = 1 + above
    shift = (first + second - above) / m
    size = (np.abs(first) + np.abs(second) + above) / m
    slip = UNIT * (160 + 12 * np.abs(s + 1) * u) * size + 4 * UNIT * np.abs(shift)
    return logarithm(shift.real, shift.imag, slip, counts)


def _binned(u: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Fewer scales with the same sum of counts and of counts * u^2, for planning."""
    if u.size <= 2 * _BINS:
        return u, counts
    low, high = math.log(float(u.min())), math.log(float(u.max()))
    place = ((np.log(u) - low) * (_BINS / max(high - low, 1e-9))).astype(np.intp)
    place = np.minimum(place, _BINS - 1)
    many, square = np.zeros(_BINS), np.zeros(_BINS)
    np.add.at(many, place, counts)
    np.add.at(square, place, counts * u * u)
    full = many > 0
    return np.sqrt(square[full] / many[full]), many[full]
