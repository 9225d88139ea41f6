"""What prefix-sum mechanisms share: their numbers, their inputs, their shapes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.parameters import Real, keep, positive, whole
from unacorda.mechanisms.correlated.grid import Grid, grid_for, numbers_of

__all__ = [
    "LARGEST_STEPS",
    "PrefixSums",
    "first_steps",
    "flag",
    "grid_of",
    "one_step",
    "rows",
    "set_up",
]

Integers: TypeAlias = NDArray[np.int64]

LARGEST_STEPS: Final = 1 << 40
_LARGEST_DIMENSION = 1 << 30
_GRID_REACH = 900


class PrefixSums(Protocol):
    """A mechanism for all prefix sums of a stream."""

    @property
    def sigma(self) -> Real:
        """Standard deviation of the noise."""
        ...

    @property
    def l2_sensitivity(self) -> Real:
        """The l2 norm of what a unit gives at one step."""
        ...

    @property
    def steps(self) -> int:
        """The most that will come."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers at each step."""
        ...

    @property
    def participations(self) -> int:
        """How often a unit takes part at most."""
        ...

    @property
    def separation(self) -> int:
        """How far apart it does so at least."""
        ...

    @property
    def grid_log2(self) -> int:
        """The exponent of the input grid."""
        ...


def set_up(mechanism: PrefixSums, *, scale_log2: Callable[[], int]) -> None:
    """Check the numbers of a mechanism that is being made, and fix its grid."""
    keep(
        mechanism,
        sigma=positive("sigma", mechanism.sigma),
        l2_sensitivity=positive("l2_sensitivity", mechanism.l2_sensitivity),
        steps=whole("steps", mechanism.steps, least=1, most=LARGEST_STEPS),
        dimension=whole("dimension", mechanism.dimension, least=1, most=_LARGEST_DIMENSION),
        participations=whole(
            "participations", mechanism.participations, least=1, most=LARGEST_STEPS
        ),
        separation=whole("separation", mechanism.separation, least=1, most=LARGEST_STEPS),
    )
    if mechanism.grid_log2 is not None:
        reach = {"least": -_GRID_REACH, "most": _GRID_REACH}
        keep(mechanism, grid_log2=whole("grid_log2", mechanism.grid_log2, **reach))
    keep(mechanism, grid_log2=grid_of(mechanism, scale_log2=scale_log2()).input_log2)


def grid_of(mechanism: PrefixSums, *, scale_log2: int) -> Grid:
    """The public numbers of its release."""
    return grid_for(
        sigma=checks.exact("sigma", mechanism.sigma),
        sensitivity=checks.exact("l2_sensitivity", mechanism.l2_sensitivity),
        dimension=mechanism.dimension,
        grid_log2=mechanism.grid_log2,
        scale_log2=scale_log2,
    )


def flag(argument: str, value: object) -> None:
    """InvalidParameter where the value is neither True nor False."""
    if not isinstance(value, bool):
        raise InvalidParameter(argument, value, expected="True or False")


def first_steps(mechanism: PrefixSums, steps: int | None) -> int:
    """How many prefix sums are meant, by default all; InvalidParameter beyond them."""
    return whole(
        "steps", mechanism.steps if steps is None else steps, least=0, most=mechanism.steps
    )


def rows(mechanism: PrefixSums, values: ArrayLike) -> tuple[NDArray[Any], tuple[int, ...]]:
    """A stream as (steps, dimension), and the shape it came in.

    Raises InvalidParameter for another shape or dtype.
    """
    alone = mechanism.dimension == 1
    array = numbers_of(
        "values",
        values,
        dimensions=1 if alone else 2,
        width=None if alone else mechanism.dimension,
    )
    expected = "at most `steps` values" + (
        "" if mechanism.dimension == 1 else " of `dimension` numbers each"
    )
    inner = () if mechanism.dimension == 1 else (mechanism.dimension,)
    if array.ndim == 0 or array.shape[1:] != inner or array.shape[0] > mechanism.steps:
        raise InvalidParameter("values", array.shape, expected=f"the shape of {expected}")
    return array.reshape(array.shape[0], mechanism.dimension), array.shape


def one_step(mechanism: PrefixSums, value: ArrayLike) -> NDArray[Any]:
    """The value of one step, of shape (dimension,); InvalidParameter for another shape or dtype."""
    array = numbers_of("value", value)
    if array.shape != (() if mechanism.dimension == 1 else (mechanism.dimension,)):
        expected = (
            "one number" if mechanism.dimension == 1 else f"{mechanism.dimension} numbers, flat"
        )
        raise InvalidParameter("value", array.shape, expected=expected)
    return array.reshape(mechanism.dimension)
