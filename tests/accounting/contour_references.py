"""Long arithmetic for the contour engine where rare jumps decide: the law cut, inverted anew."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np

__all__ = ["cut_law_delta"]


def cut_law_delta(q: float, sigma: float, count: int, epsilon: float, delta: float) -> Any:
    """delta(epsilon) in the remove direction, 34 digits, within 1e-11 of delta; or None.

    The inversion of the law cut where it loses 1e-13 of delta, by plain sums over a fine grid of
    z (not the engine's) at the saddle point of that law, found in floats. Two shifts must agree.
    """
    mu = 1 / sigma
    top = 2.0
    while count * (
        0.5 * math.erfc(top / 2**0.5) + q * 0.5 * math.erfc((top - mu) / 2**0.5)
    ) > 1e-13 * max(delta, 1e-290):
        top += 0.05
    step = min(0.065, 0.045 / mu)  # a coarse one makes atoms of the jumps
    numbers = np.arange(math.floor(-13.0 / step), math.ceil(top / step))
    places = step * (numbers + 0.3)
    loss = np.log1p(q * np.expm1(mu * places - mu * mu / 2))
    own = np.log(step) - places**2 / 2 - math.log(2 * math.pi) / 2 + loss

    def height(c: float) -> float:
        k = float(np.logaddexp.reduce(own + c * loss) - np.logaddexp.reduce(own))
        return count * k - c * epsilon - math.log(c) - math.log1p(c)

    grid = np.geomspace(1e-3, 1e5, 400)
    c = 0.8 * float(grid[int(np.argmin([height(value) for value in grid]))])
    if height(c) - math.log(delta) > 45:
        return None
    mp = mpmath.mp.clone()
    mp.dps = 34
    rate, m = mp.mpf(q), 1 / mp.mpf(sigma)
    zs = [mp.mpf(step) * (int(number) + mp.mpf("0.3")) for number in numbers]
    logs = [mp.log(1 - rate + rate * mp.exp(m * z - m * m / 2)) for z in zs]
    weights = [
        mp.mpf(step) * mp.exp(-z * z / 2 + mp.mpf(c + 1) * log) / mp.sqrt(2 * mp.pi)
        for z, log in zip(zs, logs, strict=True)
    ]
    total = mp.fsum(weights)
    kept = [
        (weight / total, log)
        for weight, log in zip(weights, logs, strict=True)
        if weight / total > mp.mpf(10) ** -33 / count
    ]
    found: list[Any] = []
    # beyond these shifts lies no loss of the cut law worth counting
    reach = (32 - math.log(delta)) / c + float(loss[-1]) + min(epsilon, 30.0)
    for x in (reach, 1.37 * reach):
        h = 2 * mp.pi / mp.mpf(x)
        turns = [mp.expj(h * log) for _, log in kept]
        now = [mp.mpc(weight) for weight, _ in kept]
        value, small, n, first = mp.mpf(0), 0, 0, None
        while small < 6:
            s = mp.mpc(c, n * h)
            term = mp.fsum(now) ** count / (s * (s + 1)) * (mp.mpf(1) / 2 if n == 0 else 1)
            first = abs(term) if first is None else first
            value += (term * mp.expj(-n * h * mp.mpf(epsilon))).real
            small = small + 1 if abs(term) < mp.mpf(10) ** -31 * first else 0
            now = [old * turn for old, turn in zip(now, turns, strict=True)]
            n += 1
            if n * len(kept) > 1_500_000:
                return None
        found.append(h / mp.pi * mp.exp(count * mp.log(total) - c * mp.mpf(epsilon)) * value)
    return found[1] if abs(found[0] / found[1] - 1) < 1e-12 else None
