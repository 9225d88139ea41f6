"""Renyi divergence of mixtures of Gaussians, on Poisson samples too, by a certified integral.

In units of the largest shift z ~ N(0, s^2), and f(z) = sum of w_i e^{(2 r_i z - r_i^2)/(2 s^2)}
with shifts 0 <= r_i <= 1; a sampled Gaussian has the shifts 0 and 1. The moments are M = E[f^t],
t = a (the mixture over the noise) or t = 1 - a (the other way round). Since E f = 1,
M - 1 = E[g], g = f^t - 1 - t (f - 1) >= 0: the trapezoid rule sums terms of one sign.

What is added to the sum, so that it lies above the integral:

- the error of the rule, at most 2 N / (e^{2 pi d/h} - 1), where N bounds the integral of |g| times
  the density on the lines Im z = +-d, d = u s^2, 0 < u < pi: there |f(z + id)| <= f(z), and
  |f(z + id)| >= f(z) cos(u/2), as all terms lie in a sector of angle u; the density grows by
  e^{d^2/(2 s^2)};
- the nodes left out on both sides, by Gaussian tails;
- the round-off of every term, from the sizes of its own parts.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from unacorda.privacy.conversions.arguments import Real, cached
from unacorda.privacy.enclosure import context, float_up, mpf
from unacorda.privacy.rounding import float_above

_Array = npt.NDArray[np.float64]
_UNIT = 2.0**-53
_DIGITS = 90.0
"""Errors of the rule and of the ends are kept below e^-90, relative."""
_MOST_NODES = 400_000


@cached
def renyi_of_sampled_gaussian(noise_multiplier: Real, *, rate: Real, alpha: Real) -> float:
    r"""Renyi divergence, under add/remove, of a Gaussian mechanism on a Poisson sample.

    noise_multiplier: sigma over the add/remove sensitivity; rate: strictly between 0 and 1.

    Statement   renyi_of_gaussian_mixture of one shift.
    Bound       upper.
    Source      Mironov, Talwar, Zhang 2019, arXiv:1908.10530, Thms. 4 and 5 (the pair).

    >>> round(renyi_of_sampled_gaussian(1.0, rate=0.01, alpha=2), 9)  # log(1 + q^2 (e - 1))
    0.000171813
    """
    one = (Fraction(1),)
    return renyi_of_gaussian_mixture(noise_multiplier, one, one, rate=rate, alpha=alpha)


def renyi_of_gaussian_mixture(
    noise: Real,
    shifts: Sequence[Fraction],
    weights: Sequence[Fraction],
    *,
    rate: Real,
    alpha: Real,
) -> float:
    r"""Renyi divergence of a mixture of Gaussians, on a Poisson sample where rate is below 1.

    noise: their sigma; shifts: 0 or above; weights: of sum 1.

    Statement   the larger of log E[f^a]/(a - 1) and log E[f^{1-a}]/(a - 1), f the likelihood
                ratio of the mixture; see the module.
    Bound       upper: the integral by the trapezoid rule, with its error, the ends and the
                round-off added.
    Edges       no shift -> 0.0; more than 400,000 nodes -> inf: use renyi_at_large_orders.
    Source      the definition; Trefethen and Weideman 2014, Thm. 5.1 (the rule).

    >>> round(renyi_of_gaussian_mixture(2, [Fraction(1)], [Fraction(1)], rate=1, alpha=4), 9)
    0.5
    """
    law = _Mixture.of(noise, shifts, weights, Fraction(rate))
    if law is None:
        return 0.0
    sigma = law.sigma
    a, b = Fraction(alpha), Fraction(alpha) - 1
    # The moments grow with a and with a - 1, and the logarithm is divided by a - 1 itself.
    if float(law.logs[-1]) > -1e-9 or sigma < 1e-3 or sigma > 1e8:
        return float_up(mpf(a) / (2 * mpf(sigma) ** 2))
    found = 0.0
    for exponent in (float_above(a), -float_above(b)):
        above = _moment_above_one(law, exponent)
        if above is None:
            return math.inf
        found = max(found, float_up(context().log1p(above) / mpf(b)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixture:
    """Shifts in units of the largest, ascending; their weights, and logarithms of these.

    sigma: the noise in that unit. The divergence grows with the shifts, with a weight that a
    larger shift takes from a smaller one, and falls with the noise: all are rounded so.
    """

    sigma: float
    shifts: _Array
    weights: _Array
    logs: _Array

    @classmethod
    def of(
        cls, noise: Real, shifts: Sequence[Fraction], weights: Sequence[Fraction], rate: Fraction
    ) -> _Mixture | None:
        """None where nothing is shifted."""
        shares: dict[Fraction, Fraction] = {Fraction(0): 1 - rate}
        for shift, weight in zip(shifts, weights, strict=True):
            shares[shift] = shares.get(shift, Fraction(0)) + rate * weight
        places = sorted(shift for shift, share in shares.items() if share)
        largest = places[-1]
        if not largest:
            return None
        ratio = Fraction(noise) / largest
        sigma = float(ratio)
        logs = [float(context().log(mpf(shares[place]))) for place in places]
        return cls(
            sigma=sigma if Fraction(sigma) <= ratio else math.nextafter(sigma, 0.0),
            shifts=np.array([min(float_above(place / largest), 1.0) for place in places]),
            weights=np.array([float(shares[place]) for place in places]),
            logs=np.array(logs),
        )

    def exponent(self, shift: _Array | float, z: _Array | float) -> _Array:
        """What e is raised to in the term of a shift."""
        return np.asarray(shift * (2 * z - shift) / (2 * self.sigma**2))

    def powers(self, t: float) -> _Array:
        """The logarithm of E of the t-th power of each term's exponential."""
        return np.asarray(t * (t - 1) * self.shifts**2 / (2 * self.sigma**2))


def _plan(law: _Mixture, t: float) -> tuple[float, _Array, float, float] | None:
    """Step and places of the rule, and what the ends and the rule leave out, as logarithms."""
    sigma = law.sigma
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
        high_r, high_log = _upper_end(law, t, spill)
        high = t + high_r * sigma
    else:
        # f is at least its first term, and that to the power t is a Gaussian about t r too
        size = t * float(law.logs[0]) + float(law.powers(t)[0])
        low_r, low_log = math.sqrt(2 * (digits + size)), size + spill
        low = t * float(law.shifts[0]) - low_r * sigma
        high_r, high_log = math.sqrt(2 * digits), math.log(-t) + spill
        high = 1 + high_r * sigma
    first, last = math.ceil(low / step), math.floor(high / step)
    if last - first > _MOST_NODES or not math.isfinite(high):
        return None
    left_out = float(np.logaddexp(low_log - low_r**2 / 2, high_log - high_r**2 / 2)) + 1e-9
    rule = math.log(2) - digits + 1e-9  # 2 e^{edge} / (e^{edge + digits} - 1)
    return step, step * np.arange(first, last + 1, dtype=np.float64), left_out, rule


def _upper_end(law: _Mixture, t: float, spill: float) -> tuple[float, float]:
    """An r such that the density times f^t is small beyond z = t + r s; the log of its size.

    Either f^t <= sum of w_i e_i^t (convexity) or f is the last term times 1 plus the ratio of the
    others to it, which falls; e_i^t times the density is at most that of N(t r_i, s^2) times
    e^{t (t - 1) r_i^2/(2 s^2)}.
    """
    powers = law.powers(t)
    convex = float(np.logaddexp.reduce(law.logs + powers))
    shifted, largest = float(powers[-1]), float(law.logs[-1])
    goal = max(0.0, t * largest + shifted) - _DIGITS
    r = math.sqrt(2 * _DIGITS)
    while True:
        logs = law.logs + law.exponent(law.shifts, t + r * law.sigma)
        others = float(np.logaddexp.reduce(logs[:-1], initial=-math.inf)) - float(logs[-1])
        size = min(convex, t * (largest + math.log1p(math.exp(min(700.0, others)))) + shifted)
        size += spill
        size += 1e-9 * (1 + abs(size))
        if size - r**2 / 2 <= goal or r > 1e6:
            return r, size
        r *= 1.1


def _moment_above_one(law: _Mixture, t: float) -> Any:
    """M - 1 from above; None where it takes too many nodes."""
    plan = _plan(law, t)
    if plan is None:
        return None
    step, z, left_out, rule = plan
    mp, sigma = context(), law.sigma
    fall = z**2 / (2 * sigma**2)
    loss, loss_error = _log_ratio(law, z)
    y = t * loss
    scale = max(0.0, float(np.max(y - fall)))
    first, first_error = _above_line(y, abs(t) * loss_error + 4 * _UNIT * np.abs(y), fall, scale)
    second, second_error = _above_line(loss, loss_error, fall, scale)
    terms = first - t * second
    errors = first_error + abs(t) * second_error + 4 * _UNIT * (first + abs(t) * second)
    total = mpf(math.fsum(terms)) + mpf(math.fsum(errors)) * 1.01 + mpf(1e-290)
    unit = mpf(step) / (mpf(sigma) * mp.sqrt(2 * mp.pi))
    above = max(total, mpf(0.0)) * unit * mp.exp(mpf(scale)) + mp.exp(mpf(left_out))
    missed = mp.exp(mpf(rule))
    # N <= e^{...} (M + 1 + 2|t|) = e^{...} ((M - 1) + 2 + 2|t|); M - 1 is on both sides.
    return (above + missed * (2 + 2 * abs(t))) / (1 - missed)


def _log_ratio(law: _Mixture, z: _Array) -> tuple[_Array, _Array]:
    """Log f and a bound of its error, that of the weights and shifts as floats included."""
    inner, slip = np.zeros_like(z), np.zeros_like(z)
    outer, most = np.full_like(z, -math.inf), np.zeros_like(z)
    for shift, weight, log in zip(law.shifts, law.weights, law.logs, strict=True):
        x = law.exponent(shift, z)
        part = weight * np.expm1(np.minimum(x, 700.0))  # f is 1 plus the sum of these
        inner += part
        slip += 256 * _UNIT * np.abs(part) * (1 + np.abs(x))
        outer = np.logaddexp(outer, log + x)
        most = np.maximum(most, np.abs(x) + abs(log))
    near = (inner >= -2 / 3) & (inner <= 1)  # f is from 1/3 to 2: no cancellation
    terms = 16 * law.weights.size * _UNIT
    value = np.where(near, np.log1p(np.where(near, inner, 0.0)), outer)
    return value, np.where(near, slip, terms * (most + 1))


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
