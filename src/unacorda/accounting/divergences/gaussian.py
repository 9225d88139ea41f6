"""Renyi divergence of the Poisson-sampled Gaussian by a certified numerical integral.

With z ~ N(0, s^2) and f(z) = 1 - q + q e^{(2z - 1)/(2 s^2)} the moments are M = E[f^t], t = a
(the sampled law over the other) or t = 1 - a (the other way round). Since E f = 1,
M - 1 = E[g], g = f^t - 1 - t (f - 1) >= 0: the trapezoid rule sums terms of one sign.

What is added to the sum, so that it lies above the integral:

- the error of the rule, at most 2 N / (e^{2 pi d/h} - 1), where N bounds the integral of |g| times
  the density on the lines Im z = +-d, d = u s^2, 0 < u < pi: there |f(z + id)| <= f(z), and
  |f(z + id)| >= f(z) cos(u/2), and the density grows by e^{d^2/(2 s^2)};
- the nodes left out on both sides, by Gaussian tails;
- the round-off of every term, from the sizes of its own parts.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from unacorda.privacy.conversions.arguments import Real, cached, order
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.rounding import float_above

__all__ = ["renyi_of_sampled_gaussian"]

_Array = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_DIGITS = 90.0
"""Errors of the rule and of the ends are kept below e^-90, relative."""
_MOST_NODES = 400_000


@cached
def renyi_of_sampled_gaussian(noise_multiplier: Real, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a Gaussian mechanism on a Poisson sample.

    noise_multiplier: sigma over the add/remove sensitivity; rate: strictly between 0 and 1.

    Statement   the larger of log E[f^a]/(a - 1) and log E[f^{1-a}]/(a - 1), f the likelihood
                ratio of the mixture; see the module.
    Bound       upper: the integral by the trapezoid rule, with its error, the ends and the
                round-off added.
    Edges       more than 400,000 nodes -> inf: use renyi_at_large_orders.
    Source      Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Thms. 4 and 5 (the pair); Trefethen
                and Weideman 2014, Thm. 5.1 (the rule).

    >>> round(renyi_of_sampled_gaussian(1.0, rate=0.01, alpha=2), 9)  # log(1 + q^2 (e - 1))
    0.000171813
    """
    order(alpha)
    # The divergence grows with the rate and falls with the noise: round both to the safe side.
    q, sigma = float(rate), float(noise_multiplier)
    q = q if Fraction(q) >= Fraction(rate) else math.nextafter(q, 1.0)
    sigma = sigma if Fraction(sigma) <= Fraction(noise_multiplier) else math.nextafter(sigma, 0.0)
    a, b = Fraction(alpha), Fraction(alpha) - 1
    # The moments grow with a and with a - 1, and the logarithm is divided by a - 1 itself.
    if q >= 1 - 1e-9 or sigma < 1e-3 or sigma > 1e8:
        return float_up(mpf(a) / (2 * mpf(sigma) ** 2))
    found = 0.0
    for exponent in (float_above(a), -float_above(b)):
        plan = _plan(q, sigma, exponent)
        if plan is None:
            return math.inf
        above = _moment_above_one(plan)
        found = max(found, float_up(context().log1p(above) / mpf(b)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where the integrand is evaluated, and what the evaluation leaves out (as logarithms)."""

    rate: float
    sigma: float
    exponent: float
    step: float
    first: int
    last: int
    left_out: float
    rule: float


def _plan(q: float, sigma: float, t: float) -> _Plan | None:
    angles = np.pi * np.geomspace(1e-9, 0.95, 120)
    digits = _DIGITS + math.log(2 + 2 * abs(t))
    edge = angles**2 * sigma**2 / 2 + (0.0 if t > 0 else t * np.log(np.cos(angles / 2)))
    steps = 2 * np.pi * angles * sigma**2 / (edge + digits)
    best = int(np.argmax(steps))
    step = float(steps[best])
    spill = math.log(0.5 + step / sigma)
    if t > 0:
        low_r, low_log = math.sqrt(2 * digits), math.log(max(t, 1.0)) + spill
        low = -low_r * sigma
        high_r, high_log = _upper_end(q, sigma, t, spill)
        high = t + high_r * sigma
    else:
        low_r = math.sqrt(2 * (digits + t * math.log1p(-q)))
        low, low_log = -low_r * sigma, t * math.log1p(-q) + spill
        high_r, high_log = math.sqrt(2 * digits), math.log(-t * q) + spill
        high = 1 + high_r * sigma
    first, last = math.ceil(low / step), math.floor(high / step)
    if last - first > _MOST_NODES or not math.isfinite(high):
        return None
    left_out = float(np.logaddexp(low_log - low_r**2 / 2, high_log - high_r**2 / 2)) + 1e-9
    rule = math.log(2) - digits + 1e-9  # 2 e^{edge} / (e^{edge + digits} - 1)
    return _Plan(
        rate=q,
        sigma=sigma,
        exponent=t,
        step=step,
        first=first,
        last=last,
        left_out=left_out,
        rule=rule,
    )


def _upper_end(q: float, sigma: float, t: float, spill: float) -> tuple[float, float]:
    """An r such that the density times f^t is small beyond z = t + r s; the log of its size.

    Either f^t <= 1 - q + q w^t (convexity) or f <= q w (1 + (1-q)/(q w)); w^t times the density
    is e^{t(t-1)/(2 s^2)} times that of N(t, s^2).
    """
    shifted = t * (t - 1) / (2 * sigma**2)
    goal = max(0.0, t * math.log(q) + shifted) - _DIGITS
    r = math.sqrt(2 * _DIGITS)
    while True:
        z = t + r * sigma
        rest = math.exp(min(700.0, math.log1p(-q) - math.log(q) - (2 * z - 1) / (2 * sigma**2)))
        convex = float(np.logaddexp(math.log1p(-q), math.log(q) + shifted))
        size = min(convex, t * (math.log(q) + math.log1p(rest)) + shifted) + spill
        size += 1e-9 * (1 + abs(size))
        if size - r**2 / 2 <= goal or r > 1e6:
            return r, size
        r *= 1.1


def _moment_above_one(plan: _Plan) -> Any:
    """M - 1 from above."""
    mp, t = context(), plan.exponent
    z = plan.step * np.arange(plan.first, plan.last + 1, dtype=np.float64)
    x = (2 * z - 1) / (2 * plan.sigma**2)
    fall = z**2 / (2 * plan.sigma**2)
    loss, loss_error = _log_ratio(plan.rate, x)
    y = t * loss
    scale = max(0.0, float(np.max(y - fall)))
    first, first_error = _above_line(y, abs(t) * loss_error + 4 * _UNIT * np.abs(y), fall, scale)
    second, second_error = _above_line(loss, loss_error, fall, scale)
    terms = first - t * second
    errors = first_error + abs(t) * second_error + 4 * _UNIT * (first + abs(t) * second)
    total = mpf(math.fsum(terms)) + mpf(math.fsum(errors)) * 1.01 + mpf(1e-290)
    unit = mpf(plan.step) / (mpf(plan.sigma) * mp.sqrt(2 * mp.pi))
    above = max(total, mpf(0.0)) * unit * mp.exp(mpf(scale)) + mp.exp(mpf(plan.left_out))
    rule = mp.exp(mpf(plan.rule))
    # N <= e^{...} (M + 1 + 2|t|) = e^{...} ((M - 1) + 2 + 2|t|); M - 1 is on both sides.
    return (above + rule * (2 + 2 * abs(t))) / (1 - rule)


def _log_ratio(q: float, x: _Array) -> tuple[_Array, _Array]:
    """log(1 - q + q e^x) and a bound of its error."""
    logs = abs(math.log(q)) + abs(math.log1p(-q))
    low = -1.0 if q > 0.5 else -math.inf
    near = (x >= low) & (x <= -math.log(q))  # 1 + q (e^x - 1) is from 1/3 to 2: no cancellation
    inner = q * np.expm1(np.where(near, x, 0.0))
    outer = np.logaddexp(math.log1p(-q), math.log(q) + x)
    value = np.where(near, np.log1p(inner), outer)
    slip = 256 * _UNIT * np.abs(inner) * (1 + np.maximum(x, 0.0))
    error = np.where(near, slip, 16 * _UNIT * (np.abs(x) + logs + 1))
    return value, error


def _above_line(v: _Array, error: _Array, fall: _Array, scale: float) -> tuple[_Array, _Array]:
    """(e^v - 1 - v) e^{-fall - scale} and a bound of its error, v itself being off by `error`."""
    near = np.abs(v) < 0.5
    small = np.where(near, v, 0.0)
    series = np.ones_like(small)
    for k in range(20, 2, -1):
        series = 1 + small / k * series
    series *= small**2 / 2
    weight = np.exp(-fall - scale)
    grown = np.exp(v - fall - scale)
    value = np.where(near, series * weight, grown - weight * (1 + v))
    size = np.where(near, series * weight, grown + weight * (1 + np.abs(v)))
    slope = np.where(near, 2 * np.abs(small) * weight, grown + weight)
    exponents = 16 + 8 * (fall + scale + np.abs(v))
    return value, size * exponents * _UNIT + slope * error * (1 + error)
