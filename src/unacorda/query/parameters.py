"""What a model is fit with, in words that are the same in every process.

Of a model with parameters, as scikit-learn has them, these; of a dataclass its fields; of another
object what it holds. So no address in memory is among them. What cannot be told so is named by its
class alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["stated"]

_DEEPEST = 20


def stated(value: object, *, deepest: int = _DEEPEST) -> Any:
    """A value as JSON holds it; equal ones alike, also in another process.

    >>> from fractions import Fraction
    >>> stated({"share": Fraction(1, 3), "ends": (0, 2.5)})
    {'dict': {'share': {'Fraction': '1/3'}, 'ends': [0, 2.5]}}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, enum.Enum):
        return {_name(type(value)): value.name}
    if isinstance(value, Fraction | Decimal | dt.date | dt.timedelta | bytes | complex):
        return {type(value).__name__: str(value)}
    if deepest == 0:
        return {"unstated": _name(type(value))}

    def inner(part: object) -> Any:
        return stated(part, deepest=deepest - 1)

    if isinstance(value, np.ndarray | np.generic):
        return {f"numpy {value.dtype}": inner(value.tolist())}
    if isinstance(value, list | tuple):
        return [inner(part) for part in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((inner(part) for part in value), key=repr)}
    if isinstance(value, Mapping):
        return {"dict": {str(key): inner(part) for key, part in value.items()}}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return {"named": _name(value)}
    return {_name(type(value)): {name: inner(part) for name, part in _held(value).items()}}


def _held(value: object) -> Mapping[str, object]:
    """What an object is made of."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return dict(getattr(value, "__dict__", {}))


def _name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"
