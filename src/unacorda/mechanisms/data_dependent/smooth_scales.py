r"""How much noise a smooth bound on the sensitivity needs: certified, and tight for three laws.

Released is f(x) + s S(x) Z, Z of a standard law symmetric about 0, where S bounds the local
sensitivity of f and moves by a factor of at most e^xi between neighbors. So two neighbors are
two laws whose centres are at most 1/s apart, in units of the narrower one's width, and whose widths
differ by a factor e^t, 0 <= t <= xi. What is the worst such pair is proved in
docs/proofs/adaptive_smooth.md; each function here evaluates it, rounded outward.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from unacorda import checks
from unacorda.mechanisms.parameters import Real, decimal_up
from unacorda.privacy.enclosure import context, float_up, mpf, sum_up

Noise: TypeAlias = Literal["student", "laplace", "gaussian"]

_NUDGE = Fraction(1, 10**12)
_TRIES = 40
_STEPS = 80  # halvings that leave less than one float
_LEAST_SHARE = 2.0**-10  # of epsilon, that the smoothness takes at least by default


def laplace_delta(*, epsilon: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least delta of Laplace noise at an epsilon, rounded up; 1.0 where none is proved.

    (1 - e^-xi) exp(-(epsilon + xi) / (e^xi - 1)) cosh(shift / (e^xi - 1)), where shift <= epsilon
    and xi + shift e^-xi <= epsilon. Attained.
    """
    mp, xi = context(), mpf(smoothness)
    if shift > epsilon or smoothness + Fraction(float_up(shift * mp.exp(-xi))) > epsilon:
        return 1.0
    growth = mp.expm1(xi)
    far, near = mpf(epsilon + smoothness + shift), mpf(epsilon + smoothness - shift)
    return float_up(-mp.expm1(-xi) * (mp.exp(-near / growth) + mp.exp(-far / growth)) / 2)


def gaussian_delta(*, epsilon: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least delta of normal noise at an epsilon, rounded up; 1.0 where none is proved.

    That of N(shift, e^(2 xi)) against N(0, 1), where shift + shift^2 / 2 <= epsilon - xi. Attained.
    """
    if shift + shift * shift / 2 > epsilon - smoothness:
        return 1.0
    mp, width, centre = context(), context().exp(mpf(smoothness)), mpf(shift)
    # The log-ratio less epsilon is curve x^2 + slope x - fall, 0 at both ends.
    curve, slope = -mp.expm1(-2 * mpf(smoothness)) / 2, centre / width**2
    fall = slope * centre / 2 + mpf(smoothness) + mpf(epsilon)
    root = mp.sqrt(slope * slope + 4 * curve * fall)
    first, last = -(root + slope) / (2 * curve), 2 * fall / (root + slope)
    growth = mp.exp(mpf(epsilon))
    return sum_up(
        [
            _tail((centre - first) / width),
            _tail((last - centre) / width),
            -growth * _tail(-first),
            -growth * _tail(last),
        ]
    )


def student_epsilon(*, degrees: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least epsilon of Student's t noise with degrees >= 1, rounded up. Attained.

    The larger of (nu + 1) asinh(shift / (2 sqrt nu)), at equal widths, and
    (nu - 1) xi / 2 + (nu + 1) theta / 2, cosh theta = cosh xi + shift^2 e^-xi / (2 nu).
    """
    mp, xi, nu = context(), mpf(smoothness), mpf(degrees)
    level = (nu + 1) * mp.asinh(mpf(shift) / (2 * mp.sqrt(nu)))
    # cosh theta = 1 + 2 sinh^2(theta / 2), which loses no digits where theta is small.
    half = mp.sqrt(mp.sinh(xi / 2) ** 2 + mpf(shift) ** 2 * mp.exp(-xi) / (4 * nu))
    wider = (nu - 1) * xi / 2 + (nu + 1) * mp.asinh(half)
    return float_up(max(level, wider))


@lru_cache(maxsize=128)
def least_scale(
    noise: Noise, *, epsilon: Fraction, delta: Fraction, smoothness: Fraction, tail_power: Fraction
) -> Real | None:
    """The least scale s, rounded up at the 15th digit and certified; None where there is none.

    tail_power: the density falls like |z|^-tail_power, for student.
    """
    if smoothness >= epsilon:
        return None  # the change of width alone costs so much, with any of these laws
    guess = _shift(noise, float(epsilon), float(delta), float(smoothness), float(tail_power))
    if not guess > 0:
        return None
    for tried in range(_TRIES):
        # The first try is that of floats, which err by less than one of the first few nudges.
        scale = (1 + (tried > 0) * _NUDGE * 2**tried) / Fraction(guess)
        written = decimal_up(mpf(scale))
        exact = checks.exact("scale", written)
        if _holds(noise, epsilon, delta, smoothness, tail_power, shift=1 / exact):
            return written
    return None


def _holds(
    noise: Noise,
    epsilon: Fraction,
    delta: Fraction,
    smoothness: Fraction,
    tail_power: Fraction,
    *,
    shift: Fraction,
) -> bool:
    """Whether noise of scale 1 / shift is certain to keep the promise."""
    match noise:
        case "student":
            degrees = tail_power - 1
            least = student_epsilon(degrees=degrees, smoothness=smoothness, shift=shift)
            return Fraction(least) <= epsilon
        case "laplace":
            lost = laplace_delta(epsilon=epsilon, smoothness=smoothness, shift=shift)
            return Fraction(lost) <= delta
        case "gaussian":
            lost = gaussian_delta(epsilon=epsilon, smoothness=smoothness, shift=shift)
            return Fraction(lost) <= delta


def _tail(distance: Any) -> Any:
    """P(N(0, 1) >= distance)."""
    mp = context()
    return mp.erfc(distance / mp.sqrt(2)) / 2


# ---- in floats: where to look, which proves nothing


@lru_cache(maxsize=128)
def default_smoothness(
    noise: Noise, *, epsilon: Fraction, delta: Fraction, tail_power: Fraction
) -> Fraction | None:
    """The smoothness that needs the least noise on evenly spread values; None where none does.

    There the local sensitivity k changes away is k + 1 gaps, so that S is the largest
    (k + 1) e^(-k xi) and the noise s(xi) S. Three digits.
    """
    numbers = float(epsilon), float(delta), float(tail_power)

    def noise_at(log_xi: float) -> float:
        xi = math.exp(log_xi)
        shift = _shift(noise, numbers[0], numbers[1], xi, numbers[2])
        first = max(math.floor(1 / xi) - 1, 0)
        spread = max((k + 1) * math.exp(-k * xi) for k in (first, first + 1))
        return spread / shift if shift > 0 else math.inf

    # Beyond ln 2 the bound S is the local sensitivity itself, and gets no smaller.
    low = math.log(numbers[0] * _LEAST_SHARE)
    high = math.log(min(numbers[0], math.log(2)))
    width = (high - low) / 16
    middle = min((low + k * width for k in range(17)), key=noise_at)
    best = min((middle + k * width / 8 for k in range(-8, 9)), key=noise_at)
    if math.isinf(noise_at(best)):
        return None
    return Fraction(f"{math.exp(best):.2e}")


def _shift(noise: Noise, epsilon: float, delta: float, xi: float, tail_power: float) -> float:
    """About the largest shift in units of the noise that keeps the promise; 0.0 where none does."""
    match noise:
        case "student":
            return _student_shift(epsilon, xi, tail_power - 1)
        case "laplace":
            return _laplace_shift(epsilon, delta, xi)
        case "gaussian":
            least = math.sqrt(1 + 2 * max(epsilon - xi, 0.0)) - 1
            return _largest(lambda shift: _gaussian_loss(shift, epsilon, xi) <= delta, least, least)


def _student_shift(epsilon: float, xi: float, degrees: float) -> float:
    angle = (2 * epsilon - (degrees - 1) * xi) / (degrees + 1)
    if angle <= xi:
        return 0.0
    # cosh a - cosh b as a product, which loses no digits.
    square = 4 * degrees * math.sinh((angle + xi) / 2) * math.sinh((angle - xi) / 2)
    level = 2 * math.sqrt(degrees) * math.sinh(epsilon / (degrees + 1))
    return min(math.sqrt(square * math.exp(xi)), level)


def _laplace_shift(epsilon: float, delta: float, xi: float) -> float:
    growth = math.expm1(xi)
    height = math.log(delta / -math.expm1(-xi)) + (epsilon + xi) / growth
    if height <= 0 or xi >= epsilon:
        return 0.0
    reach = growth * (height + math.log1p(math.sqrt(-math.expm1(-2 * height))))
    return min(reach, epsilon, (epsilon - xi) * math.exp(xi))


def _gaussian_loss(shift: float, epsilon: float, xi: float) -> float:
    from scipy.special import erfcx

    width, root2 = math.exp(xi), math.sqrt(2)
    curve, slope = -math.expm1(-2 * xi) / 2, shift / width**2
    fall = slope * shift / 2 + xi + epsilon
    root = math.sqrt(slope * slope + 4 * curve * fall)
    lost = 0.0
    for end, side in ((2 * fall / (root + slope), -1), ((root + slope) / (2 * curve), 1)):
        wide = (end + side * shift) / width
        lost += math.erfc(wide / root2) / 2
        # Both densities are equal at an end but for e^epsilon.
        lost -= math.exp(-wide * wide / 2) / width * float(erfcx(end / root2)) / 2
    return lost


def _largest(holds: Callable[[float], bool], start: float, most: float = math.inf) -> float:
    """About the largest number, at most `most`, for which a falling condition holds, or 0.0."""
    if not start > 0:
        return 0.0
    low = start
    while not holds(low):
        low /= 4
        if low < 1e-30:
            return 0.0
    high = min(4 * low, most)
    while high < most and holds(high):
        low, high = high, min(4 * high, most)
    if high == most and holds(most):
        return most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
