r"""What every statistic has: its value, its sensitivities, and the losses of its answers.

A statistic is a value that holds public parameters alone. **Nothing that it computes from data is
private**, and none of it is ever to be released; the mechanisms are what releases.

Numbers: integers or floats of at most 64 bits, one dimension, a record each. Each record counts as
a float64, NaN as 0, and is then clamped to the bounds, infinities too; a bound counts as the
float64 nearest to it. Which values are there, and how many, raises nothing.

The loss of an answer y is the least number of records to change so that the statistic, rounded to
the grid, is y. Where it is not known whether the statistic can stop at y, it is the least number
that bring it to y or beyond: the passing loss, the larger of the distances to {f >= y} and to
{f <= y}. Both are distances to sets of tables (or the larger of two), so between neighbors they
move by at most 1, whatever f is; both are 0 at f(x) and nowhere else; and an answer of loss k or
less lies between the least and the largest value that f takes within k changes.

All losses end at a public `most`: the least of a loss and a constant moves by at most 1 too.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.rounding import floor_log2
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.neighbors import Neighbors

Steps = NDArray[np.int64]

_LARGEST: Final = Fraction(2) ** 1000
_NARROWEST: Final = 2.0**-100  # so that the least answers are no subnormal numbers
_EXACT_LOG2: Final = 52  # float64 holds all multiples of the grid up to that many steps
_REACH: Final = 1000


class Statistic(ABC):
    """A statistic whose sensitivities near given data are known. None of its methods is private.

    Examples
    --------
    >>> from unacorda.mechanisms.data_dependent import Median
    >>> statistic: Statistic = Median(lower=0, upper=10)
    >>> statistic.value([1, 2, 8, 9])
    2.0
    """

    __slots__ = ()

    @abstractmethod
    def value(self, values: ArrayLike) -> Any:
        """Return the answer itself. NOT private: never release it.

        Parameters
        ----------
        values
            The data.

        Returns
        -------
        Any
            The statistic of the clamped data.
        """

    @abstractmethod
    def local(
        self, values: ArrayLike, *, distance: int, neighbors: Neighbors
    ) -> Fraction | int | None:
        """Return the local sensitivity, exactly. NOT private: never release it.

        Parameters
        ----------
        values
            The data.
        distance
            The number of records that change, 1 or above.
        neighbors
            The relation that is protected.

        Returns
        -------
        Fraction or int or None
            None where it is infinite.
        """

    @abstractmethod
    def down(self, values: ArrayLike, *, distance: int) -> Fraction | int:
        """Return the down sensitivity, exactly. NOT private: never release it.

        Parameters
        ----------
        values
            The data.
        distance
            The number of records that are removed, 1 or above.

        Returns
        -------
        Fraction or int
            0 or above.
        """

    @abstractmethod
    def smooth(self, values: ArrayLike, *, smoothness: float, neighbors: Neighbors) -> float:
        """Return the smooth sensitivity, nearly: see `smooth_sensitivity`. NOT private.

        Parameters
        ----------
        values
            The data.
        smoothness
            How fast distance discounts local sensitivity.
        neighbors
            The relation that is protected.

        Returns
        -------
        float
            In the unit of the statistic, up to rounding.
        """


class Invertible(ABC):
    """A statistic whose answers have losses: how many records have to change to reach each."""

    __slots__ = ()

    most: ClassVar[int] = 1 << 20
    """Where losses end, however small epsilon is."""

    @property
    @abstractmethod
    def answers(self) -> tuple[Fraction, Fraction]:
        """The interval of the answers; of no meaning for a mode."""

    @abstractmethod
    def answer_grid(self, log2: int | None, *, answers: tuple[Fraction, Fraction]) -> AnswerGrid:
        """Return the grid of the answers, whose step is also that of the values.

        Parameters
        ----------
        log2
            The logarithm of the step to base 2; None for one as fine as float64 holds.
        answers
            The least and the greatest one.

        Returns
        -------
        AnswerGrid
            The multiples of the step between them.
        """

    @abstractmethod
    def losses(
        self, values: ArrayLike, *, neighbors: Neighbors, grid: AnswerGrid, most: int
    ) -> Runs:
        """Return the loss of every step of the grid. NOT private: never release it.

        Parameters
        ----------
        values
            The data.
        neighbors
            The relation that is protected.
        grid
            Of the answers.
        most
            No loss is larger.

        Returns
        -------
        Runs
            Losses of the steps of the grid.
        """


class Between(Protocol):
    """What has public bounds, or a lower one alone."""

    @property
    def lower(self) -> Number:
        """The lower bound."""
        ...

    @property
    def upper(self) -> Number | None:
        """The upper bound."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenBounds(Statistic, Invertible):
    """A statistic of numbers that are clamped to public bounds, lower < upper."""

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        keep_bounds(self)

    @property
    def answers(self) -> tuple[Fraction, Fraction]:
        """The bounds."""
        return Fraction(self.lower), Fraction(self.upper)

    def answer_grid(self, log2: int | None, *, answers: tuple[Fraction, Fraction]) -> AnswerGrid:
        """The grid of the values, within the answers."""
        return grid_of_answers(self, log2, answers=answers)

    @property
    def width(self) -> float:
        """The distance of the bounds; refused where it is too small for smooth sensitivities."""
        return width_of(self)


@dataclass(frozen=True, slots=True)
class AnswerGrid:
    """The multiples of 2^log2 from first 2^log2 to last 2^log2; a step is one of them."""

    first: int
    last: int
    log2: int

    @staticmethod
    def within(
        lower: Fraction, upper: Fraction, log2: int | None, *, reach: Fraction = Fraction(0)
    ) -> AnswerGrid:
        """The grid of an interval, lower < upper; as fine as float64 holds where log2 is None.

        reach: of the largest number that has to be held too. Raises InvalidParameter for a log2
        that float64 does not hold, or of which no multiple needs to be in the interval.
        """
        coarsest = min(floor_log2(upper - lower), _REACH)
        finest = max(floor_log2(max(abs(lower), abs(upper), reach)) - _EXACT_LOG2, -_REACH)
        if log2 is None:
            log2 = min(finest, coarsest)
        else:
            log2 = whole("grid_log2", log2, least=finest, most=coarsest)
        step = Fraction(2) ** log2
        return AnswerGrid(ceil(lower / step), floor(upper / step), log2)

    @staticmethod
    def around(lower: Fraction, upper: Fraction, log2: int) -> AnswerGrid:
        """The grid of an interval, widened to the next multiples."""
        step = Fraction(2) ** log2
        return AnswerGrid(floor(lower / step), ceil(upper / step), log2)

    @property
    def size(self) -> int:
        """How many steps there are."""
        return self.last - self.first + 1

    def steps(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest step to each value; NaN counts as 0, what lies outside as the nearer end."""
        known = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.rint(np.ldexp(known, -self.log2))
        return np.clip(scaled, self.first, self.last).astype(np.int64)

    def point(self, step: int) -> float:
        """The number at a step, exactly."""
        return float(np.ldexp(float(step), self.log2))

    def nearest(self, value: Fraction) -> int:
        """The nearest step to an exact number, the upper of two; within the ends."""
        return min(
            max(floor(value / Fraction(2) ** self.log2 + Fraction(1, 2)), self.first), self.last
        )


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Every step of a grid, in runs of one loss. Private: it tells the data.

    starts: the first step of each run, rising; counts: how many steps it holds, 1 or more;
    losses: 0 or above.
    """

    starts: Steps
    counts: Steps
    losses: Steps

    def loss(self, step: int) -> int:
        """The loss at a step."""
        return int(self.losses[np.searchsorted(self.starts, step, side="right") - 1])


def from_reach(lows: Sequence[int], highs: Sequence[int], *, grid: AnswerGrid, most: int) -> Runs:
    """The passing losses, from the least and the largest step that k changes lead to.

    lows, highs: for k = 0, 1, ... at most `most`; lows[0] = highs[0] is the answer. Steps beyond
    the last ones have the loss `most`.
    """
    up = np.clip(np.array(highs, dtype=np.int64), grid.first, grid.last)
    down = np.clip(np.array(lows, dtype=np.int64), grid.first, grid.last)
    ends = np.concatenate([[grid.first], down[::-1], up + 1, [grid.last + 1]]).astype(np.int64)
    changes = np.concatenate(
        [
            [most],
            np.arange(down.size - 1, 0, -1),
            [0],
            np.arange(1, up.size),
            [most],
        ]
    )
    counts = np.diff(ends)
    kept = counts > 0
    losses = np.minimum(changes, most).astype(np.int64)
    return Runs(ends[:-1][kept], counts[kept], losses[kept])


def at_one_step(step: int, *, grid: AnswerGrid, most: int) -> Runs:
    """Losses of an answer that no change of records can move."""
    return from_reach([step], [step], grid=grid, most=most)


def grid_of_answers(
    statistic: Between, log2: int | None, *, answers: tuple[Fraction, Fraction]
) -> AnswerGrid:
    """The part within the answers of the grid of values, as fine as float64 holds by default."""
    low, high = Fraction(statistic.lower), Fraction(statistic.upper or 0)
    reach = max(map(abs, answers))
    values = AnswerGrid.within(low, high, None, reach=reach)
    if log2 is not None:
        values = AnswerGrid.within(low, high, log2, reach=reach)
    return AnswerGrid.within(*answers, values.log2)


def steps_of_values(statistic: Between, values: ArrayLike, log2: int) -> tuple[Steps, AnswerGrid]:
    """The values as sorted steps of a grid with this step within the bounds, and that grid."""
    low, high, step = Fraction(statistic.lower), Fraction(statistic.upper or 0), Fraction(2) ** log2
    inner = AnswerGrid(ceil(low / step), floor(high / step), log2)
    inside = clamped(values, lower=float(low), upper=float(high))
    return np.sort(inner.steps(inside)), inner


def clamped_values(statistic: Between, values: ArrayLike) -> NDArray[np.float64]:
    """Each record as the statistic counts it, in the order they came. NOT private.

    Raises InvalidParameter for another dtype or more dimensions.

    >>> from unacorda.mechanisms.data_dependent import Median
    >>> clamped_values(Median(lower=0, upper=10), [3.5, float("nan"), float("inf"), -0.0]).tolist()
    [3.5, 0.0, 10.0, 0.0]
    """
    upper = None if statistic.upper is None else float(statistic.upper)
    return clamped(values, lower=float(statistic.lower), upper=upper)


def keep_bounds(statistic: Between) -> None:
    """Put the exact bounds in place of what was written, if they can be used."""
    for name in ("lower", "upper"):
        given = getattr(statistic, name)
        bound = checks.exact(name, given)
        checks.demand(abs(bound) <= _LARGEST, name, given, expected="within +-2^1000")
        object.__setattr__(statistic, name, bound)
    low, high = ends_of(statistic)
    if low >= high:
        expected = f"a number above lower, which is {statistic.lower}"
        raise InvalidParameter("upper", statistic.upper, expected=expected)


def ends_of(statistic: Between) -> tuple[Fraction, Fraction]:
    """The bounds as float64 has them, exactly."""
    assert statistic.upper is not None
    return Fraction(float(statistic.lower)), Fraction(float(statistic.upper))


def width_of(statistic: Between) -> float:
    """The distance of the bounds; refused where it is too small for smooth sensitivities."""
    assert statistic.upper is not None
    width = float(statistic.upper) - float(statistic.lower)
    if width < _NARROWEST:
        raise InvalidParameter(
            "statistic", statistic, expected="bounds at least 2^-100 apart; take a smaller unit"
        )
    return width


# What raises is a shape or a dtype, never a value. Nothing here is private.

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_PIECE: Final = 18
_CHUNK: Final = 1 << 14
_FLOATS_END: Final = float(np.finfo(np.float64).max)


def clamped(values: ArrayLike, *, lower: float, upper: float | None) -> Floats:
    """Each value as float64, NaN as 0, within the bounds, in a new array.

    upper: None for the largest float64. Raises InvalidParameter for another dtype than integers
    and floats of at most 64 bits, and for more dimensions than one.
    """
    array = elements.floats("values", values, dimensions=1)
    checks.demand(
        array.ndim == 1, "values", array.shape, expected="one dimension, one record per element"
    )
    numbers = np.array(array)
    numbers[np.isnan(numbers)] = 0.0
    np.clip(numbers, lower, _FLOATS_END if upper is None else upper, out=numbers)
    numbers += 0.0  # turns -0.0 into 0.0
    return numbers


def exact_sum(numbers: Floats) -> Fraction:
    """The sum of the floats, without any rounding.

    >>> exact_sum(np.array([0.5, 2.0**60, -(2.0**60)]))
    Fraction(1, 2)
    """
    if not numbers.size:
        return Fraction(0)
    (low, middle, high), powers, unit = _pieces(numbers)
    return _gathered([low, middle, high], powers, 1) * unit


def exact_sum_of_squares(numbers: Floats) -> Fraction:
    """The sum of the squares of the floats, without any rounding.

    >>> exact_sum_of_squares(np.array([0.5, -3.0]))
    Fraction(37, 4)
    """
    if not numbers.size:
        return Fraction(0)
    (low, middle, high), powers, unit = _pieces(numbers)
    cross = 2 * low * high + middle * middle
    parts = [low * low, 2 * low * middle, cross, 2 * middle * high, high * high]
    return _gathered(parts, powers, 2) * unit * unit


def multiplicities(values: ArrayLike) -> tuple[list[Any], Integers]:
    """The different values, sorted, and how often each occurs; all that is missing is one value.

    Raises InvalidParameter unless they are integers or text in one dimension, or a list.

    >>> found, repeats = multiplicities(["b", 1, None, "b", True])
    >>> found, repeats.tolist()
    ([1, 'b', None], [2, 2, 1])
    """
    codes, found = elements.codes("values", values, kinds="iubU")
    return found, np.bincount(codes, minlength=len(found)).astype(np.int64)


def _pieces(numbers: Floats) -> tuple[list[Integers], Integers, Fraction]:
    """Whole numbers of 18 bits: added at their places, times 2^powers and a unit, the floats."""
    mantissas, exponents = np.frexp(numbers)
    least = int(exponents.min())
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    mask = (1 << _PIECE) - 1
    pieces = [whole & mask, (whole >> _PIECE) & mask, whole >> 2 * _PIECE]  # the last one is signed
    return pieces, exponents.astype(np.int64) - least, Fraction(2) ** (least - 53)


def _gathered(parts: list[Integers], powers: Integers, factor: int) -> int:
    """The sum of all parts, each at its place of 18 bits, times 2^(factor powers)."""
    total = 0
    for start in range(0, powers.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        for place, part in enumerate(parts):
            # Below 2^38 each, so that a chunk's sums are whole numbers that float64 holds.
            sums = np.bincount(powers[chunk], weights=part[chunk])
            for power in np.flatnonzero(sums).tolist():
                total += int(sums[power]) << (factor * power + _PIECE * place)
    return total
