r"""Numbers computed from noisy counts: ratios of their sums, with the intervals of Fieller.

Let N = a . c and D = d . c for noisy counts c. The interval has all ratios r with (N - r D)^2 <=
z^2 Var(N - r D), a quadratic inequality. It holds the true ratio as often as a normal (or Laplace)
variable is within z deviations, for all sizes of the counts. If D may be 0, the solution is not a
bounded interval, and the interval is the whole range.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from unacorda import checks
from unacorda.inference.records import Floats, data_frame

Errors: TypeAlias = Literal["noise", "both"]
"""What intervals count: the noise alone, or that of a fresh sample of rows as well."""

CLEAR: Final = 5.0
"""The least number of noise deviations of a divisor."""

UNIT: Final = (0.0, 1.0)

_NUMBERS: Final = ("value", "noise_error", "sampling_error", "lower", "upper")
_JOINED: Final = 3.0
"""The least number of rows of joined bins, in deviations of its noise."""


def check_errors(interval: str) -> None:
    """InvalidParameter unless it is "noise" or "both"."""
    checks.demand(interval in ("noise", "both"), "interval", interval, expected="'noise' or 'both'")


def critical(confidence: float, law: str) -> float:
    """The number of deviations that holds the noise with this confidence.

    Sums of Laplace noise have lighter tails than one Laplace number, and heavier ones than normal
    noise. The larger of both values is used.

    >>> round(critical(0.95, "normal"), 3), round(critical(0.95, "laplace"), 3)
    (1.96, 2.118)
    """
    z = NormalDist().inv_cdf((1 + checks.probability(confidence=confidence)) / 2)
    return z if law == "normal" else max(z, -math.log1p(-confidence) / math.sqrt(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A number that judges a model, with its errors and an interval.

    Parameters
    ----------
    value
        The number, within its range; NaN if the noise hides it.
    noise_error, sampling_error
        Standard deviations: by the noise, and over fresh samples of rows; NaN where they are not
        known.
    lower, upper
        The ends of the interval.
    cannot
        The reason why there is no value, else empty.

    Examples
    --------
    >>> found = Diagnostic(
    ...     value=0.83, noise_error=0.01, sampling_error=0.02, lower=0.81, upper=0.85
    ... )
    >>> found.lower < found.value < found.upper
    True
    """

    value: float
    noise_error: float
    sampling_error: float
    lower: float
    upper: float
    cannot: str = ""

    @staticmethod
    def hidden(reason: str, *, limits: tuple[float, float]) -> Diagnostic:
        """Returns no number, but the reason why there is none.

        Parameters
        ----------
        reason
            A sentence.
        limits
            The range of the number, which is the interval.
        """
        return Diagnostic(
            value=math.nan,
            noise_error=math.inf,
            sampling_error=math.nan,
            lower=limits[0],
            upper=limits[1],
            cannot=reason,
        )

    @staticmethod
    def of(
        value: float,
        *,
        noise: float,
        sampling: float,
        interval: Errors,
        z: float,
        limits: tuple[float, float],
    ) -> Diagnostic:
        """Returns a number with an interval symmetric about it, both within their range.

        Parameters
        ----------
        value, limits
            The number and its range.
        noise, sampling
            Its errors.
        interval
            Which errors count: "noise" or "both".
        z
            How many deviations wide the interval is to each side.
        """
        check_errors(interval)
        half = z * (math.hypot(noise, sampling) if interval == "both" else noise)
        low, high = limits
        return Diagnostic(
            value=min(max(value, low), high),
            noise_error=noise,
            sampling_error=sampling,
            lower=min(max(value - half, low), high),
            upper=max(min(value + half, high), low),
        )


def summarize(found: Mapping[Any, Diagnostic], *, index: str = "name") -> Any:
    """A data frame of numbers, one line each."""
    columns = {name: [getattr(one, name) for one in found.values()] for name in _NUMBERS}
    cannot = [one.cannot for one in found.values()]
    return data_frame(**{index: list(found)}, **columns, cannot=cannot).set_index(index)


def join_bins(rows: Floats, *, deviation: float) -> list[tuple[int, int]]:
    """Adjacent bins joined until their rows exceed the noise: first and end of each.

    rows: noisy counts; deviation: of the noise of each. Remaining bins join the last one.

    >>> join_bins(np.array([5.0, 1.0, 1.0, 9.0, 1.0]), deviation=1.0)
    [(0, 1), (1, 5)]
    """
    found, start = [], 0
    for end in range(1, len(rows) + 1):
        if rows[start:end].sum() >= _JOINED * deviation * math.sqrt(end - start):
            found.append((start, end))
            start = end
    if start < len(rows):
        found[-1:] = [(found[-1][0] if found else 0, len(rows))]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Ratios with their errors and the ends of their intervals, arrays of one shape."""

    value: Floats
    noise_error: Floats
    sampling_error: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCells:
    """Counts of rows, each in one cell, with independent noise of one deviation."""

    counts: Floats
    deviation: float
    law: Literal["normal", "laplace"]

    def ratios(
        self,
        over: Floats,
        under: Floats,
        *,
        interval: Errors = "noise",
        confidence: float = 0.95,
        limits: tuple[float, float] = UNIT,
        moments: Floats | None = None,
    ) -> _Ratios:
        """Ratios of weighted sums of the counts; over, under: weights, one line per ratio.

        moments: by lines, the sums over rows of the square of a row's part of the numerator, of its
        product with that of the denominator, and of the square of the latter; by default a row is
        in one cell.

        Source: Fieller 1954, Journal of the Royal Statistical Society B 16.
        """
        check_errors(interval)
        z, low, high = critical(confidence, self.law), *limits
        top, bottom = over @ self.counts, under @ self.counts
        with np.errstate(all="ignore"):
            ratio = np.where(bottom > 0, top / bottom, np.nan)
            value = np.clip(ratio, low, high)
            left = over - value[..., None] * under
            noise = self.deviation * np.sqrt((left**2).sum(axis=-1)) / bottom
            products = np.stack(np.broadcast_arrays(over**2, over * under, under**2), axis=-2)
            own = products @ self.counts if moments is None else moments
            sampled = own[..., 0] - 2 * value * own[..., 1] + value**2 * own[..., 2]
            sampling = np.sqrt(np.maximum(sampled, 0.0)) / bottom
            spread = self.deviation**2 * products.sum(axis=-1)
            if interval == "both":
                spread = spread + own
            square = bottom**2 - z**2 * np.maximum(spread[..., 2], 0.0)
            middle = top * bottom - z**2 * spread[..., 1]
            last = top**2 - z**2 * np.maximum(spread[..., 0], 0.0)
            half = np.sqrt(np.maximum(middle**2 - square * last, 0.0))
            bounded = (square > 0) & (bottom > 0)
            lower = np.where(bounded, (middle - half) / square, low)
            upper = np.where(bounded, (middle + half) / square, high)
        return _Ratios(
            value=value,
            noise_error=np.where(bottom > 0, noise, np.inf),
            sampling_error=np.where(bottom > 0, sampling, np.nan),
            lower=np.clip(lower, low, high),
            upper=np.clip(upper, low, high),
        )

    def ratio(self, over: Floats, under: Floats, **named: Any) -> Diagnostic:
        """One ratio; see `ratios`."""
        found = self.ratios(over[None], under[None], **named)
        numbers: dict[str, Any] = {name: float(getattr(found, name)[0]) for name in _NUMBERS}
        return Diagnostic(**numbers)

    def sums(self, weights: Floats, *, confidence: float) -> tuple[Floats, Floats, Floats]:
        """Weighted sums, their noise, and half the width of their intervals."""
        noise = self.deviation * np.sqrt((weights**2).sum(axis=-1))
        return weights @ self.counts, noise, critical(confidence, self.law) * noise
