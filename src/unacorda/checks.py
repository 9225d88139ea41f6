"""Checks of arguments: each names the argument, the value and the hint, and returns the value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import numbers
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from unacorda.errors import InvalidParameter

__all__ = [
    "Number",
    "boolean",
    "choice",
    "demand",
    "exact",
    "finite",
    "is_text",
    "non_negative",
    "once",
    "positive",
    "positive_integer",
    "probability",
    "read_text",
]

Number = int | float | str | Decimal | Fraction
"""What a caller may write for a number that is kept exactly."""


_LARGEST_EXPONENT = 5000


def exact(argument: str, value: Number) -> Fraction:
    """The number the caller wrote: a float means the decimal it prints as, so 0.1 is 1/10.

    Raises InvalidParameter where the value is no finite number.

    >>> exact("epsilon", 0.1)
    Fraction(1, 10)
    >>> exact("epsilon", "1/3")
    Fraction(1, 3)
    """
    expected, hint = "a finite number", "int, float, decimal text, Decimal or Fraction"
    if isinstance(value, bool):
        raise InvalidParameter(argument, value, expected=expected, hint=hint)
    try:
        if type(value) is float:
            return _decimal(value)
        if isinstance(value, Fraction):
            return value
        if isinstance(value, numbers.Integral):
            return Fraction(int(value))
        if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
            return _decimal(float(value))  # also NumPy's floats
        if isinstance(value, str | Decimal) and abs(_exponent(value)) <= _LARGEST_EXPONENT:
            return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        pass
    raise InvalidParameter(argument, value, expected=expected, hint=hint)


@functools.lru_cache(maxsize=8192)  # compositions of many parts read each number several times
def _decimal(value: float) -> Fraction:
    return Fraction(*Decimal(repr(value)).as_integer_ratio())  # faster than Fraction(text)


def _exponent(value: str | Decimal) -> int:
    """The power of ten that a number is written with; a vast one would take all memory to write."""
    if isinstance(value, Decimal):
        return value.adjusted()
    _, _, power = value.lower().partition("e")
    return int(power) if power else 0


def demand(fits: object, argument: str, value: object, *, expected: str) -> None:
    """Raise InvalidParameter for an argument unless it fits."""
    if not fits:
        raise InvalidParameter(argument, value, expected=expected)


def boolean(**arguments: object) -> None:
    """Raise InvalidParameter for a named argument that is neither True nor False."""
    for name, value in arguments.items():
        demand(isinstance(value, bool), name, value, expected="True or False")


def choice(choices: Sequence[str], **arguments: object) -> None:
    """Raise InvalidParameter for a named argument that is none of these texts."""
    for name, value in arguments.items():
        expected = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        demand(value in choices, name, value, expected=expected)


def is_text(value: object) -> bool:
    """Whether a value is text that is not empty, whatever the caller's types promised."""
    return isinstance(value, str) and value != ""


def _float(name: str, value: object, fits: Callable[[float], bool], *, expected: str) -> float:
    """The value as a float, if it is a real number that a float holds, and that fits."""
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if math.isfinite(number) and fits(number):
            return number
    raise InvalidParameter(name, value, expected=expected)


def finite(**arguments: float) -> float:
    """The one named argument as a float, if it is a finite real number."""
    ((name, value),) = arguments.items()
    return _float(name, value, lambda _: True, expected="a finite number")


def positive(**arguments: float) -> float:
    """The one named argument as a float, if it is finite and above zero."""
    ((name, value),) = arguments.items()
    return _float(name, value, lambda number: number > 0, expected="a finite number above 0")


def non_negative(**arguments: float) -> float:
    """The one named argument as a float, if it is finite and not below zero."""
    ((name, value),) = arguments.items()
    return _float(name, value, lambda number: number >= 0, expected="a finite number, 0 or above")


def probability(**arguments: float) -> float:
    """The one named argument as a float, if it lies strictly between 0 and 1."""
    ((name, value),) = arguments.items()
    expected = "a number strictly between 0 and 1"
    return _float(name, value, lambda number: 0 < number < 1, expected=expected)


def positive_integer(**arguments: int) -> int:
    """The one named argument as an int, if it is a whole number above zero."""
    ((name, value),) = arguments.items()
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InvalidParameter(name, value, expected="a whole number, 1 or above")
    return int(value)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which no name stands twice: what `json.loads` takes as a hook."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def read_text(name: str, path: Path) -> str:
    """The text of a file that an argument names, or of standard input for -.

    Raises InvalidParameter, with why, where there is none.
    """
    try:
        if path == Path("-"):
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
    except UnicodeDecodeError:
        reason = "it is not in UTF-8"
    except ValueError:  # U+0000 in the name
        reason = "it cannot be opened"
    raise InvalidParameter(name, str(path), expected=f"a file in UTF-8 that can be read ({reason})")
