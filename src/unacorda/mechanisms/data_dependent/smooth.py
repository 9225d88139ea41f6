r"""Noise that adapts to the data: its scale is a smooth bound on the local sensitivity.

Noise scaled to the local sensitivity itself is not private, since the amount of noise would reveal
it. A bound S(x) works that is at least the local sensitivity everywhere, and changes between
neighbors by a factor of at most e^smoothness. Its noise needs a distribution that changes little
when it is shifted *and* scaled a little. The required noise is proved in
docs/proofs/adaptive_smooth.md and evaluated below.

Source: Nissim, Raskhodnikova, Smith 2007, Definitions 2.1 and 2.2 (smooth bounds); Bun and Steinke
2019, arXiv:1906.02830 (Student's t). The constants are our own: they are least, and hold at every
epsilon.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, Self, TypeAlias, TypedDict, cast, get_args

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.balls import ball, float_up, normal_cdf
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.sensitivities import smooth_sensitivity
from unacorda.mechanisms.data_dependent.standard_noise import (
    StandardLaplace,
    StandardNoise,
    StandardNormal,
    StandardStudent,
    exact_number,
    rounded_sum,
)
from unacorda.mechanisms.data_dependent.statistics.base import BetweenBounds
from unacorda.mechanisms.data_dependent.statistics.sums import Sum
from unacorda.mechanisms.data_dependent.statistics.variances import Variance
from unacorda.mechanisms.noise import rounding
from unacorda.mechanisms.parameters import Real, decimal_up, positive, readable, whole
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ApproxDP, PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

ROUNDING: Final = Fraction(1, 1 << 30)
"""By how much, relative, a smooth bound may be rounded up: the noise makes up for it."""

_GRID_BITS = 50  # the default grid divides the interval of the statistic about so many times
_GRID_REACH: Final = 1000
_LARGEST: Final = Fraction(2) ** 1000
_LEAST_EPSILON: Final = Fraction(1, 10**6)
_LARGEST_EPSILON: Final = 500
_LEAST_SMOOTHNESS: Final = Fraction(1, 1 << 16)
_LEAST_DELTA: Final = Fraction(1, 2**1000)
_LARGEST_POWER: Final = 20

Noise: TypeAlias = Literal["student", "laplace", "gaussian"]


Numeric: TypeAlias = BetweenBounds | Sum
"""Statistics that are numbers between public ends, a `Sum` where it has an upper bound."""


class _Promise(TypedDict):
    epsilon: Fraction
    delta: Fraction
    tail_power: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothSensitivity(PureCalibrated):
    r"""Release f(x) + noise_scale S(x) Z, rounded to a public grid, S a smooth bound.

    =========  ==================================  ====================  =================
    noise      density of Z                        event                 variance of Z
    =========  ==================================  ====================  =================
    student    like (1 + z^2/(p - 1))^(-p/2)       Pure                  (p - 1)/(p - 3)
    laplace    exp(-abs(z)) / 2                    Approximate           2
    gaussian   normal                              Approximate           1
    =========  ==================================  ====================  =================

    student is best for nearly all data, as it needs much less smoothness of S. laplace has lighter
    tails, and is better if S is the same at any smoothness. The noise is unbiased; clamping the
    answer to the interval costs nothing. The amount of noise depends on the data and is not
    released.

    Source: Nissim, Raskhodnikova, Smith 2007, Lemma 2.6, with the least constants, for every
    epsilon: docs/proofs/adaptive_smooth.md, Theorems 1 to 3.

    Parameters
    ----------
    statistic
        The statistic, or None if only `release_at` is used.
    epsilon
        Above 0, at most 500.
    delta
        0 for student, else above 0 and below 1.
    noise
        The distribution of Z, from the table.
    tail_power
        The power p, from 2 to 20, 4 by default: the density of student falls like |z|^-p.
    neighbors
        AddRemove or ReplaceOne.
    smoothness
        S may change by a factor of e^smoothness. By default the smoothness with the least noise for
        evenly spread values.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about 2^50 of them in the statistic's
        interval.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> ages = SmoothSensitivity(statistic=Median(lower=0, upper=120), epsilon=1)
    >>> ages.event, ages.smoothness
    (Pure(epsilon=1), 0.224)
    >>> round(ages.release([30 + k % 40 for k in range(2000)], bits=SeededBits(1)), 2)
    50.44
    """

    statistic: Numeric | None = None
    epsilon: Real
    delta: Real = 0
    noise: Noise = "student"
    tail_power: Real | None = None
    neighbors: Neighbors = AddRemove
    # Both are numbers once it is made; None asks for the default.
    smoothness: Real = cast("Real", None)  # noqa: RUF009 - Real is immutable
    grid_log2: int = cast("int", None)

    def __post_init__(self) -> None:
        checks.choice(get_args(Noise), noise=self.noise)
        check_added_or_replaced(self.neighbors)
        epsilon = positive("epsilon", self.epsilon)
        if not _LEAST_EPSILON <= checks.exact("epsilon", epsilon) <= _LARGEST_EPSILON:
            raise InvalidParameter("epsilon", self.epsilon, expected="a number from 1e-6 to 500")
        self._check_statistic()
        keep(self, epsilon=epsilon, delta=self._delta(), tail_power=self._tail_power())
        keep(self, smoothness=self._smoothness())
        keep(self, grid_log2=public_grid(self.statistic, self.grid_log2))

    @classmethod
    def for_guarantee(cls, guarantee: PureDP | ApproxDP, **parameters: Any) -> Self:
        """Make the mechanism that spends a whole guarantee on one release.

        Parameters
        ----------
        guarantee
            A PureDP, with student noise by default, or an ApproxDP, with laplace noise.
        **parameters
            Those of the class, but for epsilon and delta.

        Raises
        ------
        InvalidParameter
            For another guarantee, and for noise that does not keep it.

        Examples
        --------
        >>> SmoothSensitivity.for_guarantee(ApproxDP(1, 1e-6), grid_log2=0).noise
        'laplace'
        """
        noise, delta = "student", Fraction(0)
        if isinstance(guarantee, ApproxDP):
            noise, delta = "laplace", guarantee.delta
            guarantee = PureDP(guarantee.epsilon)
        given = {"delta": delta, "noise": noise, **parameters}
        return super(SmoothSensitivity, cls).for_guarantee(guarantee, **given)

    @property
    def event(self) -> events.Event:
        """What one release costs."""
        if self.noise == "student":
            return events.Pure(epsilon=self.epsilon)
        return events.Approximate(epsilon=self.epsilon, delta=self.delta)

    @property
    def noise_scale(self) -> Real:
        """The public scale of the noise relative to Z, in units of S(x).

        >>> SmoothSensitivity(epsilon=1, smoothness=0.2, grid_log2=0).noise_scale
        1.49558127347387
        """
        scale = self._scale(self.smoothness)
        assert scale is not None
        return scale

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> float:
        """Release the noisy answer.

        Parameters
        ----------
        values
            One dimension, one record each, for the statistic.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For another shape or dtype, and if there is no statistic.
        """
        if self.statistic is None:
            raise InvalidParameter("statistic", None, expected="one, or the use of release_at")
        smooth = smooth_sensitivity(
            self.statistic,
            values,
            smoothness=checks.exact("smoothness", self.smoothness),
            neighbors=self.neighbors,
        )
        return self.release_at(self.statistic.value(values), smooth_sensitivity=smooth, bits=bits)

    def release_at(
        self,
        value: float | Fraction,
        *,
        smooth_sensitivity: float | Fraction,
        bits: RandomBits | None = None,
    ) -> float:
        """Release the noisy answer from its exact value and the smooth bound.

        You must prove both; neither is ever released. Values that are not numbers count as NaN.

        Parameters
        ----------
        value
            The exact answer; NaN counts as 0, and it is clamped to +-2^1000.
        smooth_sensitivity
            A bound S on the change of the value to any neighbor, with S(x) <= e^smoothness S(x')
            for all neighbors; it may be rounded up by one part in 2^30. A value that is not a
            number from 0 to 2^1001 counts as 2^1001.
        bits
            By default a secure source.
        """
        answer = max(-_LARGEST, min(exact_number(value, nan=Fraction(0)), _LARGEST))
        bound = exact_number(smooth_sensitivity, nan=2 * _LARGEST)
        if not 0 <= bound <= 2 * _LARGEST:
            bound = 2 * _LARGEST
        step = rounded_sum(
            answer,
            self._draw(source_of(bits)),
            scale=checks.exact("scale", self.noise_scale) * bound,
            grid_log2=self.grid_log2,
        )
        return float(rounding.float_multiples([step], self.grid_log2)[0])

    def _check_statistic(self) -> None:
        statistic = self.statistic
        if statistic is None:
            return
        if not isinstance(statistic, Numeric):
            raise InvalidParameter(
                "statistic", statistic, expected="a rank statistic, Mean, Variance or Sum"
            )
        if statistic.upper is None:
            raise InvalidParameter("statistic", statistic, expected="one with an upper bound")

    def _draw(self, bits: RandomBits) -> StandardNoise:
        match self.noise:
            case "student":
                degrees = self._promise()["tail_power"] - 1
                return StandardStudent(degrees=degrees, bits=bits)
            case "laplace":
                return StandardLaplace(bits=bits)
            case "gaussian":
                return StandardNormal(bits=bits)

    def _delta(self) -> Real:
        delta = checks.exact("delta", self.delta)
        if self.noise == "student":
            if delta != 0:
                expected = f"0: {self.noise} noise needs none; name noise='laplace' to spend it"
                raise InvalidParameter("delta", self.delta, expected=expected)
            return 0
        if not _LEAST_DELTA <= delta < 1:
            expected = (
                f"a number from 2^-1000 to 1 for {self.noise} noise; student noise needs none"
            )
            raise InvalidParameter("delta", self.delta, expected=expected)
        return readable(delta)

    def _tail_power(self) -> Real | None:
        given = self.tail_power
        if self.noise != "student":
            if given is not None:
                expected = f"None: {self.noise} noise has no such power"
                raise InvalidParameter("tail_power", given, expected=expected)
            return None
        power = checks.exact("tail_power", 4 if given is None else given)
        if not 2 <= power <= _LARGEST_POWER:
            raise InvalidParameter("tail_power", given, expected="a number from 2 to 20")
        return readable(power)

    def _smoothness(self) -> Real:
        given = cast("Real | None", self.smoothness)
        if given is None:
            found = default_smoothness(self.noise, **self._promise())
            found = None if found is None else max(found, _LEAST_SMOOTHNESS)
            if found is None or self._scale(found) is None:
                raise InvalidParameter(
                    "epsilon",
                    self.epsilon,
                    expected="a larger one, or a larger delta: no noise keeps it",
                )
            return readable(found)
        found = checks.exact("smoothness", given)
        if found < _LEAST_SMOOTHNESS:
            raise InvalidParameter("smoothness", given, expected="at least 2^-16, about 1.6e-5")
        if self._scale(found) is None:
            raise InvalidParameter(
                "smoothness", given, expected="a smaller one: no noise keeps the promise"
            )
        return readable(found)

    def _scale(self, smoothness: Real) -> Real | None:
        # A bound rounded up by a part in 2^30 moves by as much more between neighbors.
        exact = checks.exact("smoothness", smoothness) + ROUNDING
        return least_scale(self.noise, smoothness=exact, **self._promise())

    def _promise(self) -> _Promise:
        power = 4 if self.tail_power is None else self.tail_power
        return {
            "epsilon": checks.exact("epsilon", self.epsilon),
            "delta": checks.exact("delta", self.delta),
            "tail_power": checks.exact("tail_power", power),
        }


def public_grid(statistic: Numeric | None, grid_log2: int | None) -> int:
    """The exponent of the output grid: as given, or by the length of the statistic's interval."""
    if grid_log2 is None:
        if statistic is None:
            raise InvalidParameter("grid_log2", None, expected="a whole number, or a statistic")
        assert statistic.upper is not None
        length = checks.exact("upper", statistic.upper) - checks.exact("lower", statistic.lower)
        if isinstance(statistic, Variance):
            length *= length
        return max(min(rounding.floor_log2(length) - _GRID_BITS, _GRID_REACH), -_GRID_REACH)
    return whole("grid_log2", grid_log2, least=-_GRID_REACH, most=_GRID_REACH)


# Released is f(x) + s S(x) Z, Z of a standard law symmetric about 0, where S bounds the local
# sensitivity of f and moves by a factor of at most e^xi between neighbors. So two neighbors are
# two laws whose centres are at most 1/s apart, in units of the narrower one's width, and whose
# widths differ by a factor e^t, 0 <= t <= xi. What is the worst such pair is proved in
# docs/proofs/adaptive_smooth.md; each function here evaluates it, rounded outward.

_NUDGE = Fraction(1, 10**12)
_TRIES = 40
_STEPS = 80  # halvings that leave less than one float
_LEAST_SHARE = 2.0**-10  # of epsilon, that the smoothness takes at least by default


def laplace_delta(*, epsilon: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least delta of Laplace noise at an epsilon, rounded up; 1.0 where none is proved.

    (1 - e^-xi) exp(-(epsilon + xi) / (e^xi - 1)) cosh(shift / (e^xi - 1)), where shift <= epsilon
    and xi + shift e^-xi <= epsilon. Attained.
    """
    xi = ball(smoothness)
    if shift > epsilon or smoothness + Fraction(float_up(ball(shift) * (-xi).exp())) > epsilon:
        return 1.0
    growth = xi.expm1()
    far, near = ball(epsilon + smoothness + shift), ball(epsilon + smoothness - shift)
    return float_up(-(-xi).expm1() * ((-near / growth).exp() + (-far / growth).exp()) / 2)


def gaussian_delta(*, epsilon: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least delta of normal noise at an epsilon, rounded up; 1.0 where none is proved.

    That of N(shift, e^(2 xi)) against N(0, 1), where shift + shift^2 / 2 <= epsilon - xi. Attained.
    """
    if shift + shift * shift / 2 > epsilon - smoothness:
        return 1.0
    width, centre = ball(smoothness).exp(), ball(shift)
    # The log-ratio less epsilon is curve x^2 + slope x - fall, 0 at both ends.
    curve, slope = -(-2 * ball(smoothness)).expm1() / 2, centre / width**2
    fall = slope * centre / 2 + ball(smoothness) + ball(epsilon)
    root = (slope * slope + 4 * curve * fall).sqrt()
    first, last = -(root + slope) / (2 * curve), 2 * fall / (root + slope)
    growth = ball(epsilon).exp()
    ends = normal_cdf((first - centre) / width) + normal_cdf((centre - last) / width)
    lost = ends - growth * (normal_cdf(first) + normal_cdf(-last))
    return min(1.0, max(0.0, float_up(lost)))


def student_epsilon(*, degrees: Fraction, smoothness: Fraction, shift: Fraction) -> float:
    r"""The least epsilon of Student's t noise with degrees >= 1, rounded up. Attained.

    The larger of (nu + 1) asinh(shift / (2 sqrt nu)), at equal widths, and
    (nu - 1) xi / 2 + (nu + 1) theta / 2, cosh theta = cosh xi + shift^2 e^-xi / (2 nu).
    """
    xi, nu = ball(smoothness), ball(degrees)
    level = (nu + 1) * (ball(shift) / (2 * nu.sqrt())).asinh()
    # cosh theta = 1 + 2 sinh^2(theta / 2), which loses no digits where theta is small.
    half = ((xi / 2).sinh() ** 2 + ball(shift) ** 2 * (-xi).exp() / (4 * nu)).sqrt()
    wider = (nu - 1) * xi / 2 + (nu + 1) * half.asinh()
    return float_up(level.max(wider))


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
        written = decimal_up(ball(scale))
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
            return least <= epsilon
        case "laplace":
            lost = laplace_delta(epsilon=epsilon, smoothness=smoothness, shift=shift)
            return lost <= delta
        case "gaussian":
            lost = gaussian_delta(epsilon=epsilon, smoothness=smoothness, shift=shift)
            return lost <= delta


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
