"""How small many different Laplace mechanisms make |phi| beyond the nodes, stretch by stretch.

With z = c + 1/2 + it, M(c + it) e^(u/2) = cosh(zu) + sinh(zu) / (2z), of modulus at most
sqrt(sinh^2((c + 1/2) u) + cos^2(tu)) + sqrt(sinh^2((c + 1/2) u) + sin^2(tu)) / (2 |z|). Each scale
turns at its own speed, so that the product is small long before its least bound over all t is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.contour.series import Floats

__all__ = ["MANY", "Turning"]

MANY = 30
"""With fewer different scales the stretches are not looked at."""

_TURN = 0.3  # half a stretch turns the fastest scale by no more than this angle
_TURNED = 4.0  # slower scales are asked alone once they have turned by this angle
_SOME = 96  # scales that are asked first
_BLOCK = 1 << 7
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
            edges = h * (place + step * np.arange(_BLOCK + 1, dtype=np.float64))
            left, right = edges[:-1], edges[1:]
            first = left if step > 1 else right  # of a stretch that is one node, the node alone
            level = some.levels(first, right)
            high = np.flatnonzero(level > most)
            if some.u.size < self.u.size and high.size:
                level[high] = np.minimum(level[high], self.levels(first[high], right[high]))
                work += high.size * self.u.size
            level = np.minimum(level, whole)
            passed += float(np.exp(level) @ ((right - left) / (self.c**2 + left * right)))
            place += step * _BLOCK
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
        return self._only(order[np.linspace(0, order.size - 1, _SOME).astype(np.intp)])

    def _only(self, places: NDArray[np.intp]) -> Turning:
        return replace(self, u=self.u[places], counts=self.counts[places], above=self.above[places])
