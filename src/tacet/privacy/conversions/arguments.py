"""What conversions accept: numbers as they are, checked once, results remembered."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import ParamSpec, TypeAlias, TypeVar

from tacet.errors import InvalidParameter

__all__ = ["Real", "cached", "non_negative", "order", "share"]

Real: TypeAlias = float | Fraction
"""A float stands for the number it holds, so that chains of conversions stay safe."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def cached(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Remember the last thousand results: a session asks the same question often."""
    remembered: Callable[..., _R] = functools.lru_cache(maxsize=1024)(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return remembered(*args, **kwargs)

    return call


def _is_real(value: object) -> bool:
    """Whether a value is a real number, whatever the caller's types promised."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def non_negative(**arguments: Real) -> None:
    """Every named argument is finite and not below zero; else InvalidParameter."""
    for name, value in arguments.items():
        if not (_is_real(value) and 0 <= value < math.inf):
            raise InvalidParameter(name, value, expected="a finite number, 0 or above")


def share(**arguments: Real) -> None:
    """Every named argument lies in [0, 1]; else InvalidParameter."""
    for name, value in arguments.items():
        if not (_is_real(value) and 0 <= value <= 1):
            raise InvalidParameter(name, value, expected="a number from 0 to 1")


def order(alpha: Real) -> None:
    """The Renyi order is finite and above 1; else InvalidParameter."""
    if not (_is_real(alpha) and 1 < alpha < math.inf):
        raise InvalidParameter("alpha", alpha, expected="a finite number above 1")
