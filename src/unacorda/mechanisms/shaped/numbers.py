r"""Noise of other shapes: the staircase, and Laplace noise that is truncated or bounded.

The staircase has the least expected error that epsilon-DP allows for one number. Truncated noise
never exceeds a public bound, at the price of a delta. Bounded noise is conditioned on an answer
within public bounds.

The condition changes the distribution by a factor that depends on the data, so the scale must be
larger than sensitivity / epsilon, by a factor of up to 2. Here everything is on the public grid,
where the distribution is geometric and its normalizer a closed form. No draw is ever rejected: a
coin chooses a side, and a geometric number is taken modulo the room on that side
(docs/proofs/noise.md, section 10).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.balls import Ball, ball
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import GridNoise
from unacorda.mechanisms.noise import continuous, discrete, error_bounds, rounding
from unacorda.mechanisms.noise.refinement import LazyUniform, exp_bounds
from unacorda.mechanisms.parameters import (
    Real,
    decimal_up,
    positive,
    quotient,
    readable,
    some_of,
    whole,
)
from unacorda.mechanisms.protocol import PerNumberCalibrated
from unacorda.numerics import bisect
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ApproxDP

_BEST = cast("float", None)  # a number once the mechanism is made
_LARGEST_EPSILON: Final = 100
_LEAST_EPSILON: Final = Fraction(1, 10**12)
_FARTHEST = 1 << 40

Floats: TypeAlias = NDArray[np.float64]
_FARTHEST_STEP: Final = 1 << 53
_FAR: Final = 1e6
_SLACK = 2.0**-42  # the comparison of the coin errs by less than 2^-43


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase(PerNumberCalibrated, GridNoise):
    r"""Release x + Z, Z of a density that falls in steps by e^-epsilon, rounded to a grid.

    The rounding is of the ideal sum.

    Source: Geng and Viswanath 2014, arXiv:1212.1186, equation (15), and the best split for E|Z|.

    Parameters
    ----------
    epsilon
        Of one number, from 1e-12 to 100.
    sensitivity
        The sensitivity of one number of x, above 0.
    l0_sensitivity
        How many numbers of an array can move, 1 by default.
    split
        The share of each stretch of length `sensitivity` before the density falls, from 0 to 1,
        by default 1 / (1 + e^(epsilon/2)), which makes E|Z| = sensitivity / (2 sinh(epsilon/2))
        the least that any epsilon-DP noise on one number has.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about a millionth of that.

    Examples
    --------
    >>> Staircase(epsilon=2.0, sensitivity=1).event
    Staircase(epsilon=2, split=0.26894142137)
    >>> round(Staircase(epsilon=5, sensitivity=1).mean_absolute_error, 3)  # of Laplace noise: 0.2
    0.083
    >>> round(Staircase(epsilon=2, sensitivity=1).error_bound(0.95), 5)
    1.26827
    """

    epsilon: Real
    sensitivity: Real
    split: Real = _BEST
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        epsilon = positive("epsilon", self.epsilon)
        if not _LEAST_EPSILON <= checks.exact("epsilon", epsilon) <= _LARGEST_EPSILON:
            raise InvalidParameter("epsilon", self.epsilon, expected="a number from 1e-12 to 100")
        sensitivity = positive("sensitivity", self.sensitivity)
        chosen, wanted = cast("Real | None", self.split), cast("int | None", self.grid_log2)
        share = checks.exact("split", _best_split(float(epsilon)) if chosen is None else chosen)
        checks.demand(0 <= share <= 1, "split", chosen, expected="a number from 0 to 1")
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        keep(self, epsilon=epsilon, sensitivity=sensitivity)
        keep(self, split=readable(share), l0_sensitivity=moved)
        grid = self._default_grid() if wanted is None else wanted
        rounding.grid_ratio("sensitivity", self._longest(), grid)
        keep(self, grid_log2=int(grid))

    def _longest(self) -> Fraction:
        """The larger of one step and of the noise, on which the grid must not be too fine."""
        epsilon = checks.exact("epsilon", self.epsilon)
        return checks.exact("sensitivity", self.sensitivity) * max(1 / epsilon, Fraction(1))

    def _default_grid(self) -> int:
        sensitivity = checks.exact("sensitivity", self.sensitivity)
        error = Fraction(1 / (2 * math.sinh(float(self.epsilon) / 2)))
        finest = rounding.floor_log2(self._longest()) - 38
        return max(rounding.default_grid_log2(sensitivity * error), finest)

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        return events.Staircase(epsilon=self.epsilon, split=self.split) * self.l0_sensitivity

    @property
    def mean_absolute_error(self) -> float:
        """E|Z| before the rounding to the grid."""
        first, _ = self._moments()
        return first * float(self.sensitivity)

    def _moments(self) -> tuple[float, float]:
        """E|Z| and E Z^2 for steps of length 1: |Z| = G + R, G geometric, R within one step."""
        split = ball(checks.exact("split", self.split))
        b = (-ball(checks.exact("epsilon", self.epsilon))).exp()
        total = split + b * (1 - split)
        first, second = ((split**k + b * (1 - split**k)) / (k * total) for k in (2, 3))
        steps, squares = b / (1 - b), b * (1 + b) / (1 - b) ** 2
        return float(steps + first), float(squares + 2 * steps * first + second)

    def _deviation(self) -> float:
        _, second = self._moments()
        return math.sqrt(second) * float(self.sensitivity)

    def _half_width(self, confidence: Number) -> Fraction:
        miss = ball(1 - error_bounds.confident(confidence))
        split, b = ball(checks.exact("split", self.split)), (-ball(self._epsilon())).exp()
        total = split + b * (1 - split)
        steps = (-miss.log() / ball(self._epsilon())).floor()
        # P(|Z| > steps + y) = b^steps (1 - (1 - b) F(y)), F linear up to the split and from it on.
        inside = (1 - miss / b**steps).max(0) * total / (1 - b)
        y = inside.max(split + (inside - split) / b)
        width = checks.exact("width", decimal_up(steps + y.min(1)))
        return width * checks.exact("sensitivity", self.sensitivity)

    def _law(self) -> tuple[Fraction, rounding.Chunk]:
        split = checks.exact("split", self.split)
        draw = functools.partial(continuous.staircase_chunk, epsilon=self._epsilon(), split=split)
        sensitivity = checks.exact("sensitivity", self.sensitivity)
        return sensitivity / Fraction(2) ** self.grid_log2, draw

    def _epsilon(self) -> Fraction:
        return checks.exact("epsilon", self.epsilon)


def _best_split(epsilon: float) -> float:
    """1 / (1 + e^(epsilon/2)) to 12 digits; any split is as private, this one the most useful."""
    return float(f"{1 / (1 + math.exp(epsilon / 2)):.12g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedLaplace(GridNoise):
    r"""Release x + Z, Z Laplace noise of a scale given that |Z| <= bound, rounded to a grid.

    Outside the common support of two neighbors everything is revealed. That is a delta of
    (e^((sensitivity - bound)/scale) - e^(-bound/scale)) / (2 (1 - e^(-bound/scale))) for a bound
    from the sensitivity on.

    Source: Geng, Ding, Guo, Kumar 2020, arXiv:1810.00877, Theorem 1.

    Parameters
    ----------
    scale, bound
        Above 0, in the unit of x.
    sensitivity
        By how much one number of x can move, at most twice the bound.
    l0_sensitivity
        How many numbers of an array can move, 1 by default.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default floor(log2 scale) - 20.

    Examples
    --------
    >>> TruncatedLaplace(scale=2, sensitivity=1, bound=30).event
    TruncatedLaplace(noise_multiplier=2, bound=30)
    """

    scale: Real
    sensitivity: Real
    bound: Real
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        scale, bound = positive("scale", self.scale), positive("bound", self.bound)
        sensitivity = positive("sensitivity", self.sensitivity)
        if checks.exact("sensitivity", sensitivity) > 2 * checks.exact("bound", bound):
            expected = f"at least half the sensitivity, {sensitivity}: below it nothing is private"
            raise InvalidParameter("bound", self.bound, expected=expected)
        if checks.exact("bound", bound) > _FARTHEST * checks.exact("scale", scale):
            raise InvalidParameter("bound", self.bound, expected="at most 2^40 times the scale")
        grid, _ = rounding.grid_ratio("scale", checks.exact("scale", scale), self.grid_log2)
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        keep(self, scale=scale, sensitivity=sensitivity, bound=bound)
        keep(self, l0_sensitivity=moved, grid_log2=grid)

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP, *, sensitivity: Number, l0_sensitivity: int = 1
    ) -> TruncatedLaplace:
        """Make the least noise of this kind that keeps an ApproxDP guarantee.

        scale = l0 sensitivity / epsilon; bound = scale ln(1 + (e^(epsilon/l0) - 1) l0 / (2 delta)),
        rounded up at the 15th digit, and at least the sensitivity.

        Parameters
        ----------
        guarantee
            An ApproxDP, with a delta above 0.
        sensitivity
            Of each number, above 0.
        l0_sensitivity
            How many numbers one unit moves at most, 1 or more.

        Raises
        ------
        InvalidParameter
            For another guarantee, and numbers out of their range.

        Examples
        --------
        >>> TruncatedLaplace.for_guarantee(ApproxDP(1, 1e-6), sensitivity=1).bound
        13.66368939597
        """
        epsilon = some_of(guarantee, ApproxDP).epsilon
        positive("delta", guarantee.delta)
        moved = whole("l0_sensitivity", l0_sensitivity, least=1, most=1 << 40)
        exact = checks.exact("sensitivity", sensitivity)
        share = min(guarantee.delta / moved, Fraction(1, 2))
        each, twice = ball(epsilon / moved), 2 * ball(share)
        # Far out, where Arb may know nothing of e^each, the 1 of the logarithm is nothing.
        ratio = each - twice.log() if each > _FAR else (each.expm1() / twice).log1p()
        scale = exact * moved / epsilon
        bound = checks.exact("bound", decimal_up(ratio * ball(scale)))
        return TruncatedLaplace(
            scale=scale,
            sensitivity=exact,
            bound=readable(max(bound, exact)),
            l0_sensitivity=moved,
        )

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        one = events.TruncatedLaplace(
            noise_multiplier=quotient(self.scale, self.sensitivity),
            bound=quotient(self.bound, self.sensitivity),
        )
        return one * self.l0_sensitivity

    def error_bound(self, confidence: Number, *, on_grid: bool = False) -> float:
        """Bound the error as `Laplace.error_bound` does; at a confidence of 1 by the bound."""
        if checks.exact("confidence", confidence) == 1:
            width = checks.exact("bound", self.bound)
            return error_bounds.on_grid_width(width, grid_log2=self.grid_log2, on_grid=on_grid)
        return super(TruncatedLaplace, self).error_bound(confidence, on_grid=on_grid)

    def _law(self) -> tuple[Fraction, rounding.Chunk]:
        scale = checks.exact("scale", self.scale)
        draw = functools.partial(continuous.cut_laplace_chunk, reach=self._reach())
        return rounding.grid_ratio("scale", scale, self.grid_log2)[1], draw

    def _deviation(self) -> float:
        reach = ball(self._reach())
        left = (-reach).exp()
        square = (2 - left * (reach * reach + 2 * reach + 2)) / (1 - left)
        return float(square.sqrt() * ball(checks.exact("scale", self.scale)))

    def _half_width(self, confidence: Number) -> Fraction:
        miss = ball(1 - error_bounds.confident(confidence))
        left = (-ball(self._reach())).exp()
        ratio = decimal_up(-(miss * (1 - left) + left).log())
        scaled = checks.exact("scale", self.scale) * checks.exact("ratio", ratio)
        return min(scaled, checks.exact("bound", self.bound))

    def _reach(self) -> Fraction:
        """The bound in units of the scale."""
        return checks.exact("bound", self.bound) / checks.exact("scale", self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedLaplace(PerNumberCalibrated):
    r"""Release a number of [lower, upper], P(y) proportional to e^(-|y - x| / scale) on the grid.

    The scale is the least that keeps epsilon; Laplace noise of scale sensitivity / epsilon does not
    (see `scale`). The release is biased, most of all near a bound.

    Source: Holohan, Antonatos, Braghin, Mac Aonghusa 2018, arXiv:1808.10410, Theorem 3.5; on the
    grid, docs/proofs/noise.md, section 10.

    Parameters
    ----------
    epsilon
        Of one number, above 0.
    sensitivity
        By how much one number of x can move.
    lower, upper
        Public bounds, to which x is clamped first.
    l0_sensitivity
        How many numbers of an array can move, 1 by default.
    grid_log2
        Outputs are multiples of 2^grid_log2, by default about a millionth of the noise.

    Examples
    --------
    >>> rating = BoundedLaplace(epsilon=1, sensitivity=1, lower=0, upper=5)
    >>> round(float(rating.scale), 3)
    1.589
    >>> rating.event
    Pure(epsilon=1)
    """

    epsilon: Real
    sensitivity: Real
    lower: Real
    upper: Real
    l0_sensitivity: int = 1
    grid_log2: int = cast("int", None)  # an int once it is made; None asks for the default

    def __post_init__(self) -> None:
        epsilon, sensitivity = (
            positive("epsilon", self.epsilon),
            positive("sensitivity", self.sensitivity),
        )
        lower, upper = checks.exact("lower", self.lower), checks.exact("upper", self.upper)
        checks.demand(lower < upper, "upper", self.upper, expected=f"above lower, {self.lower}")
        moved = whole("l0_sensitivity", self.l0_sensitivity, least=1, most=1 << 40)
        noise = checks.exact("sensitivity", sensitivity) / checks.exact("epsilon", epsilon)
        wanted = cast("int | None", self.grid_log2)
        smallest = min(checks.exact("sensitivity", sensitivity), upper - lower)
        farthest = max(abs(lower), abs(upper))
        grid, _ = rounding.grid_ratio(
            "sensitivity",
            min(noise, smallest),
            _default_grid(noise, smallest, farthest) if wanted is None else wanted,
        )
        keep(self, epsilon=epsilon, sensitivity=sensitivity, lower=readable(lower))
        keep(self, upper=readable(upper), l0_sensitivity=moved, grid_log2=grid)
        first, last = self._ends()
        if last <= first:
            raise InvalidParameter(
                "grid_log2", grid, expected="a finer one: two of its numbers within the bounds"
            )
        if max(-first, last) > _FARTHEST_STEP:
            raise InvalidParameter(
                "grid_log2", grid, expected="a coarser one: the bounds are beyond 2^53 steps of it"
            )
        discrete.within_range("sensitivity / epsilon in grid steps", self._ratio())

    @property
    def event(self) -> events.Event:
        """What one release costs, of the whole array together."""
        return events.Pure(epsilon=self.epsilon) * self.l0_sensitivity

    @property
    def scale(self) -> Real:
        """The scale of the noise, in the unit of x: as little as keeps epsilon, rounded up."""
        return readable(self._ratio() * self._step())

    def release(self, x: ArrayLike, *, bits: RandomBits | None = None) -> Any:
        """Release the noisy number or float64 array within the bounds, of the shape of x.

        Parameters
        ----------
        x
            NaN counts as 0; values are clamped to the bounds.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a dtype that is neither integer nor a float of at most 64 bits.
        """
        exact, floats, shape = rounding.summands(x)
        first, last = self._ends()
        if floats is None:
            end, half = max(-first, last) + 1, Fraction(1, 2)
            scaled = [rounding.exact_steps(value, self._step(), end=end) for value in exact]
            places = [min(max(math.floor(value + half), first), last) for value in scaled]
            steps = np.array(places, dtype=np.float64)
        else:
            steps = _nearest(floats, self.grid_log2, first=first, last=last)
        _move(steps, ratio=self._ratio(), first=first, last=last, bits=source_of(bits))
        return rounding.shaped(np.ldexp(steps, self.grid_log2), shape)

    def _step(self) -> Fraction:
        return Fraction(2) ** self.grid_log2

    def _ends(self) -> tuple[int, int]:
        """The least and the greatest multiple of the grid within the bounds."""
        step = self._step()
        lower, upper = checks.exact("lower", self.lower), checks.exact("upper", self.upper)
        return math.ceil(lower / step), math.floor(upper / step)

    def _ratio(self) -> Fraction:
        """The scale in steps of the grid."""
        first, last = self._ends()
        moved = math.ceil(checks.exact("sensitivity", self.sensitivity) / self._step())
        epsilon = checks.exact("epsilon", self.epsilon)
        return least_scale(epsilon, moved=min(moved, last - first), length=last - first)


def _default_grid(noise: Fraction, smallest: Fraction, farthest: Fraction) -> int:
    """A millionth of the noise, a move or the room; coarser beside large noise or far bounds.

    But never so coarse that rounding a move up adds more than a few parts in a thousand.
    """
    fine = rounding.default_grid_log2(min(noise, smallest))
    coarse = max(rounding.floor_log2(noise) - 32, rounding.floor_log2(farthest) - 52)
    return min(max(fine, coarse), rounding.floor_log2(smallest) - 8)


@lru_cache(maxsize=256)
def least_scale(epsilon: Fraction, *, moved: int, length: int) -> Fraction:
    r"""The least scale, in grid steps, that keeps epsilon on {0, ..., length}, rounded up.

    With q = e^(-1/scale) and W(x) = 1 + q - q^(x + 1) - q^(length - x + 1), which the normaliser
    is proportional to, the largest loss of a move by at most `moved` is
    moved / scale + ln(W(moved) / W(0)), and it falls as the scale rises.

    Bound       upper: of the scale at the 15th digit.
    Source      Holohan, Antonatos, Braghin, Mac Aonghusa 2018, Theorem 3.5, on a grid:
                docs/proofs/noise.md, section 10.
    """
    goal = ball(epsilon)

    def loss(rate: Ball) -> Ball:
        # Sums of expm1 keep all digits where the rate is small.
        centre = -(-rate * (moved + 1)).expm1() - (-rate).exp() * (-rate * (length - moved)).expm1()
        return moved * rate + (centre / -(-rate * (length + 1)).expm1()).log()

    low, high = epsilon / (2 * moved + 1), epsilon / moved
    low, _ = bisect(lambda rate: not loss(ball(rate)) <= goal, low, high, rounds=100)
    return checks.exact("scale", decimal_up(1 / ball(low)))


@np.errstate(over="ignore", under="ignore")  # cut right after; below any half step
def _nearest(floats: Floats, grid_log2: int, *, first: int, last: int) -> Floats:
    """floor(x / grid + 1/2), cut to the ends: it moves no farther than x, rounded up, does.

    Rounding halves to even would: 1/2 and 3/2 become 0 and 2.
    """
    scaled = np.ldexp(np.nan_to_num(floats, nan=0.0, posinf=np.inf, neginf=-np.inf), -grid_log2)
    np.clip(scaled, float(first), float(last), out=scaled)
    steps = np.floor(scaled)
    steps += scaled - steps >= 0.5
    return steps


@np.errstate(over="ignore", under="ignore")  # e^-inf is 0
def _move(steps: Floats, *, ratio: Fraction, first: int, last: int, bits: RandomBits) -> None:
    """Replace each step, a whole number, by a draw of the law around it, within the ends."""
    rate = float(1 / ratio)
    fall = math.exp(-rate)
    for start in range(0, steps.size, continuous.CHUNK):
        part = steps[start : start + continuous.CHUNK]
        room = last + 1 - part  # from the step itself to the upper end
        below = part - first
        words = bits.words(part.size)
        up_weight = 1 - np.exp(room * -rate)
        total = up_weight + fall - np.exp((below + 1) * -rate)
        total *= words * 2.0**-64
        total -= up_weight
        up = total < 0
        for index in np.flatnonzero(~(np.abs(total, out=total) > _SLACK)).tolist():
            uniform = LazyUniform(int(words[index]), length=64, bits=bits)
            up[index] = _goes_up(uniform, int(room[index]), int(below[index]), ratio)
        distance, _ = continuous.magnitude_chunk(part.size, scale=ratio, shift=None, bits=bits)
        # The room is 1 at least on the side that is taken. Whole numbers below 2^54: exact.
        space = np.where(up, room, below)
        np.maximum(space, 1.0, out=space)
        distance -= np.floor(distance / space) * space
        part += np.where(up, distance, -1 - distance)


def _goes_up(uniform: LazyUniform, room: int, below: int, ratio: Fraction) -> bool:
    """Whether U < (1 - q^room) / (1 + q - q^room - q^(below + 1)), q = e^(-1/ratio), exactly."""
    if below == 0:
        return True
    while True:
        places = uniform.places
        ends = [exp_bounds(-n / ratio, places) for n in (room, Fraction(1), below + 1)]
        one = 1 << places
        # The weight above and the weight below, each from below and from above.
        up_low, up_high = one - ends[0][1], one - ends[0][0]
        down_low, down_high = max(ends[1][0] - ends[2][1], 0), ends[1][1] - ends[2][0]
        # U < up / (up + down) if and only if U down < (1 - U) up.
        left, whole_ = uniform.value, 1 << uniform.length
        if (left + 1) * down_high <= (whole_ - left - 1) * up_low:
            return True
        if left * down_low >= (whole_ - left) * up_high:
            return False
        uniform.extend()
