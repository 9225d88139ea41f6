"""What conversions accept: numbers as they are, checked once, results remembered."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import inspect
import numbers
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import ParamSpec, TypeAlias, TypeVar

from unacorda.checks import demand
from unacorda.errors import InvalidParameter

Real: TypeAlias = float | Fraction
"""A float stands for the number it holds, so that chains of conversions stay safe."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LARGEST = sys.float_info.max


def cached(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Remember the last thousand results: a session asks the same question often.

    What is no number is refused before it is looked up: lists have no hash, and True equals 1.
    """
    remembered: Callable[..., _R] = functools.lru_cache(maxsize=1024)(function)
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            demand(_is_real(value), name, value, expected="a number, float or Fraction")
        return remembered(*args, **kwargs)

    return call


def _is_real(value: object) -> bool:
    """Whether a value is a real number, whatever the caller's types promised."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def non_negative(**arguments: Real) -> None:
    """Every named argument is from 0 to the largest float; else InvalidParameter."""
    for name, value in arguments.items():
        if not (_is_real(value) and 0 <= value <= _LARGEST):
            expected = "a finite number, 0 or above, at most 1.7e308"
            raise InvalidParameter(name, value, expected=expected)


def share(**arguments: Real) -> None:
    """Every named argument lies in [0, 1]; else InvalidParameter."""
    for name, value in arguments.items():
        demand(_is_real(value) and 0 <= value <= 1, name, value, expected="a number from 0 to 1")


def order(alpha: Real) -> None:
    """The Renyi order is above 1 and at most the largest float; else InvalidParameter."""
    if not (_is_real(alpha) and 1 < alpha <= _LARGEST):
        raise InvalidParameter("alpha", alpha, expected="a finite number above 1, at most 1.7e308")


def stretch(value: Real) -> None:
    """The stretch of a path of two steps is finite and above 1; else InvalidParameter."""
    if not (_is_real(value) and 1 < value <= _LARGEST):
        raise InvalidParameter("stretch", value, expected="a finite number above 1")


def whole(**arguments: int) -> int:
    """The one named argument as an int, if it is a whole number, 1 or above."""
    ((name, value),) = arguments.items()
    if not (_is_real(value) and 1 <= value < float("inf") and int(value) == value):
        raise InvalidParameter(name, value, expected="a whole number, 1 or above")
    return int(value)


def numbers_of(**arguments: Iterable[Real]) -> list[Real]:
    """The numbers that the one named argument lists; InvalidParameter where it is no list."""
    ((name, value),) = arguments.items()
    if not isinstance(value, str | bytes):
        try:
            return list(value)
        except TypeError:
            pass
    raise InvalidParameter(name, value, expected="a list of numbers")
