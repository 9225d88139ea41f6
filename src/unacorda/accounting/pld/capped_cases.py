"""delta from one side, of sums below caps and of the case that some loss is above its cap."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.capped_laws import CappedLaw
from unacorda.accounting.pld.convolution import Sum

__all__ = ["Case", "apart_of", "blur_of"]

_U = 2.0**-53
_FEW = -20.0


@dataclass(frozen=True, slots=True)
class Case:
    """delta from one side: the sum below the caps, and the case that some loss is above its cap.

    offset: what the nodes of the sum lack of the losses; apart: the probability of the case, and
    ln of that under the other law; blur: (a, b), where e^(a + b epsilon) is added for it above.
    """

    found: Sum | None
    offset: Fraction
    slack: float
    apart: tuple[float, float]
    blur: tuple[float, float]
    side: int

    def at(self, epsilon: float) -> float:
        """A bound of delta at epsilon."""
        moved = Fraction(epsilon) - self.offset - self.side * Fraction(self.slack)
        near = float(moved)
        inside = Fraction(near) <= moved if self.side > 0 else Fraction(near) >= moved
        if not inside:
            near = math.nextafter(near, -self.side * math.inf)
        mass, log = self.apart
        turn = 16 * _U * (epsilon + 1 + abs(log)) if log > -math.inf else 0.0
        case = max(mass - _exp(epsilon + log - self.side * turn), 0.0)
        if self.side < 0:
            inner = self.found.delta_below(near) if self.found else 0.0
            return max(0.0, (inner + case) * (1 - 1e-14))
        height, slope = self.blur
        turn = 16 * _U * (abs(height) + slope * epsilon) if height > -math.inf else 0.0
        case = min(case + _exp(height + slope * epsilon + turn), mass)
        inner = self.found.delta_above(near) if self.found else 0.0
        return min(1.0, (inner + case) * (1 + 1e-14) + 1e-320)


def apart_of(laws: Sequence[tuple[CappedLaw, int]], side: int) -> tuple[float, float]:
    """The probability that some loss is above its cap, to the side.

    And ln of that under the other law, away from it.

    Bound       to the side.
    Source      docs/proofs/capped.md, Lemma 1.
    """
    present = [(law.tail, count) for law, count in laws if law.tail is not None]
    if not present:
        return 0.0, -math.inf
    own = _log_any([(tail[0] + side * tail[2], count) for tail, count in present], side)
    other = _log_any([(tail[1] - side * tail[2], count) for tail, count in present], -side)
    return _exp(own) * (1 + side * 4 * _U) + max(side, 0) * 1e-320, other


def _log_any(logs: Sequence[tuple[float, int]], side: int) -> float:
    """Ln of the probability of any of so many independent events each, to the side."""
    sizes = [log + math.log(count) for log, count in logs]
    peak = max(sizes)
    if peak == -math.inf:
        return peak
    mean = peak + math.log(math.fsum(math.exp(size - peak) for size in sizes))
    mean += side * 16 * _U * (abs(peak) + 4)
    if mean < _FEW:  # at most the mean number of them, at least that less its square
        return mean if side > 0 else mean + math.log1p(-math.exp(mean)) - 4 * _U
    none = math.fsum(count * math.log1p(-min(math.exp(log), 1.0 - 2 * _U)) for log, count in logs)
    return math.log(-math.expm1(none)) + side * 2e-13


def blur_of(laws: Sequence[tuple[CappedLaw, int]], slope: float, side: int) -> tuple[float, float]:
    """What is added above for losses that outweigh one above its cap.

    Bound       upper.
    Source      docs/proofs/capped.md, Lemma 1.
    """
    present = [(law, count) for law, count in laws if law.tail is not None]
    if side < 0 or not present:
        return -math.inf, 0.0
    if slope == 0.0 or min(law.cap for law, _ in present) <= 0:
        return _likely(laws), 1.0
    height = size = 0.0
    order = 1 + slope
    for law, count in laws:
        error = 8 * _U * (np.abs(law.log_masses) + order * law.offsets + 1)
        logs = law.log_masses - order * law.offsets + np.where(np.isfinite(error), error, 0.0)
        peak = float(logs.max())
        own = peak + math.log(float(np.exp(logs - peak).sum())) - order * law.base
        own += order * law.base_error + 8 * _U * (abs(peak) + order * abs(law.base) + len(logs))
        null = law.tail[1] + law.tail[2] if law.tail else -math.inf
        own = max(float(np.logaddexp(own, null)), 0.0)
        height += count * own
        size += count * (own + 1)
    return _likely(laws, slope) + height + 64 * _U * size, order


def _likely(laws: Sequence[tuple[CappedLaw, int]], slope: float = 0.0) -> float:
    """A bound of ln of the number of losses above caps, in the mean, under the other law.

    Each times e^(-slope cap).
    """
    logs = []
    for law, count in laws:
        if law.tail is not None:
            away = slope * law.cap if slope else 0.0
            log = math.log(count) + law.tail[1] + law.tail[2] - away
            logs.append(log + 16 * _U * (abs(away) + abs(law.tail[1]) + math.log(count)))
    peak = max(logs)
    total = peak + math.log(math.fsum(math.exp(log - peak) for log in logs))
    return total + 16 * _U * (abs(peak) + 4)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
