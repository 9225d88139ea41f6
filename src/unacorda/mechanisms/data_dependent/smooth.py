r"""Noise that follows the data: as large as a smooth bound on the local sensitivity there.

Noise at the local sensitivity itself is not private, for how much noise there is would tell.
A bound S(x) that is at least the local sensitivity everywhere, and that moves between neighbors by
a factor of at most e^smoothness, can be used, with noise whose law hardly changes when it is moved
*and* stretched a little. How much that takes is proved in docs/proofs/adaptive_smooth.md and
evaluated in `smooth_scales`.

Source: Nissim, Raskhodnikova, Smith 2007, Definitions 2.1 and 2.2 (smooth bounds); Bun and Steinke
2019, arXiv:1906.02830 (Student's t). The constants are our own: they are least, and hold at every
epsilon.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Self, TypeAlias, TypedDict, cast, get_args

from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.sensitivities import smooth_sensitivity
from unacorda.mechanisms.data_dependent.smooth_scales import Noise, default_smoothness, least_scale
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
from unacorda.mechanisms.parameters import Real, positive, readable, whole
from unacorda.mechanisms.protocol import PureCalibrated
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ApproxDP, PureDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, check_added_or_replaced

ROUNDING: Final = Fraction(1, 1 << 30)
"""By how much, relative, a smooth bound may be rounded up: the noise makes up for it."""

_SECURE = SecureBits()
_GRID_BITS = 50  # the default grid divides the interval of the statistic about so many times
_GRID_REACH: Final = 1000
_LARGEST: Final = Fraction(2) ** 1000
_LEAST_EPSILON: Final = Fraction(1, 10**6)
_LARGEST_EPSILON: Final = 500
_LEAST_SMOOTHNESS: Final = Fraction(1, 1 << 16)
_LEAST_DELTA: Final = Fraction(1, 2**1000)
_LARGEST_POWER: Final = 20
_NOISES = get_args(Noise)


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

    student is the best for nearly all data: it lets S be far less smooth. laplace has lighter
    tails, and wins where S is the same at any smoothness. The noise is unbiased; clamping the
    answer to the interval costs nothing. How much noise there was depends on the data and is not
    told.

    Parameters
    ----------
    statistic
        What is asked, or None where only `release_at` is used.
    epsilon
        Above 0, at most 500.
    delta
        0 for student, else above 0 and below 1.
    noise
        The law of Z, one of the table.
    tail_power
        The power p, from 2 to 20, 4 by default: the density of student falls like |z|^-p.
    neighbors
        AddRemove or ReplaceOne.
    smoothness
        S may move by e^smoothness, by default what needs the least noise where values are
        spread evenly.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about 2^50 of them in the statistic's
        interval.

    Source: Nissim, Raskhodnikova, Smith 2007, Lemma 2.6, with the least constants, for every
    epsilon: docs/proofs/adaptive_smooth.md, Theorems 1 to 3.

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
        if self.noise not in _NOISES:
            raise InvalidParameter("noise", self.noise, expected=" or ".join(map(repr, _NOISES)))
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
        """Make the mechanism that spends all of a guarantee on one release.

        PureDP: student noise by default; ApproxDP: laplace noise. parameters: those of the class,
        but for epsilon and delta. Raises InvalidParameter for another guarantee, and for noise
        that does not keep it.

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
        """How much wider than Z the noise is, in units of S(x); public.

        >>> SmoothSensitivity(epsilon=1, smoothness=0.2, grid_log2=0).noise_scale
        1.49558127347387
        """
        scale = self._scale(self.smoothness)
        assert scale is not None
        return scale

    def release(self, values: ArrayLike, *, bits: RandomBits | None = None) -> float:
        """The noisy answer.

        values: of one dimension, a record each, as the statistic reads them. Raises
        InvalidParameter for another shape or dtype, and where there is no statistic.
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
        """The noisy answer where its exact value and the smooth bound are known.

        value: the answer, exactly; NaN counts as 0, what is beyond +-2^1000 as these ends.
        smooth_sensitivity: a bound S on how far the value moves to any neighbor, with S(x) <=
        e^smoothness S(x') for all neighbors; it may have been rounded up by one part in 2^30.
        What is not a number from 0 to 2^1001 counts as 2^1001. Both are yours to prove; neither is
        ever told. What is no number counts as NaN does.
        """
        answer = _clamped(exact_number(value, nan=Fraction(0)), -_LARGEST, _LARGEST)
        bound = exact_number(smooth_sensitivity, nan=2 * _LARGEST)
        if not 0 <= bound <= 2 * _LARGEST:
            bound = 2 * _LARGEST
        step = rounded_sum(
            answer,
            self._draw(bits or _SECURE),
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


def _clamped(value: Fraction, low: Fraction, high: Fraction) -> Fraction:
    return max(low, min(value, high))
