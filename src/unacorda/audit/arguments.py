"""Arguments of audits and attacks: arrays of numbers, functions, choices among words."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def floats(name: str, values: ArrayLike) -> Floats:
    """The values as an array of floats; an element of a list that is no number is NaN.

    Raises InvalidParameter for another dtype.

    >>> floats("scores", [1, True, 0.5]).tolist()
    [1.0, 1.0, 0.5]
    """
    return np.array(elements.floats(name, values))


def truths(name: str, values: ArrayLike) -> Bools:
    """The values as booleans; 0 and 1 are accepted, other values raise InvalidParameter.

    >>> truths("included", [1, 0]).tolist()
    [True, False]
    """
    found = floats(name, values)
    if not np.isin(found, (0, 1)).all():
        raise InvalidParameter(name, "other values", expected="True or False, or 1 and 0")
    return found.astype(np.bool_)


def level(**arguments: float) -> float:
    """The one named argument as a float that is not NaN; it may be infinite."""
    ((name, value),) = arguments.items()
    if not isinstance(value, bool) and isinstance(value, numbers.Real):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf if value > 0 else -math.inf
        if not math.isnan(found):
            return found
    raise InvalidParameter(name, value, expected="a number, which may be infinite")


def one_of(name: str, value: object, *words: str) -> None:
    """Raise InvalidParameter if the value is none of the words."""
    if not isinstance(value, str) or value not in words:
        *some, last = (f'"{word}"' for word in words)
        raise InvalidParameter(name, value, expected=f"{', '.join(some)} or {last}")


def called(**arguments: Callable[..., Any]) -> None:
    """Raise InvalidParameter if the named argument is not a function."""
    ((name, value),) = arguments.items()
    if not callable(value):
        raise InvalidParameter(name, value, expected="a function")


def items_of(name: str, values: Iterable[Any], *, expected: str) -> list[Any]:
    """The values as a list; InvalidParameter if they are not iterable."""
    try:
        return list(values)
    except TypeError:
        pass
    # Out here, so that what went wrong inside does not depend on this error.
    raise InvalidParameter(name, values, expected=expected)
