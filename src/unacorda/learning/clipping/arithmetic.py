"""Bounds for the rounding of sums, in either arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.learning.clipping.parts import ROUNDING, GradientPart

__all__ = ["Arithmetic", "block_of", "check_size", "rounding_of"]

_LARGEST: Final = 1 << 31

_FREE: Final = 7084
"""The units of a block, and 4, times those of a batch, and one, which `ROUNDING` has room for."""

_BLOCK: Final = 512
"""The most units whose sum is computed in float32."""

_PRICED: Final = (_BLOCK + 4) * (_BLOCK + 1)
"""As `_FREE`, where float32 was asked for, and is paid for."""

Arithmetic: TypeAlias = Literal["float64", "float32"]


def check_size(parts: Mapping[str, Sequence[GradientPart]], units: int) -> None:
    """Raise InvalidParameter if rounding in float64 may change sums by more than `ROUNDING`.

    A gradient may be 2^-10 of the sum of the norms of its places, so units^2 places 2^-42 must be
    at most 2^-11. Source: docs/proofs/training.md, section 3.
    """
    places = max((part.places for own in parts.values() for part in own), default=1)
    if units * units * places > _LARGEST:
        most = math.isqrt(_LARGEST // places)
        shown = f"{units} units of {places} places each"
        raise InvalidParameter("physical", shown, expected=f"at most {most} units at once")


def block_of(arithmetic: Arithmetic, units: int) -> int:
    """The number of units whose sum is computed in float32 before it is added in float64.

    For n units of norm at most the bound, in blocks of b, two of which may be added, the sums of
    both neighbors have an error of at most (b + 4) n / sqrt(3) 2^-24. Source:
    docs/proofs/training.md, section 3.
    """
    room = _FREE if arithmetic == "float64" else _PRICED
    return max(min(room // (units + 1) - 4, units, _BLOCK), 1)


def rounding_of(arithmetic: Arithmetic, units: int | None) -> float:
    """The share of the bound by which a unit's rounding may change a sum; or InvalidParameter.

    Source: docs/proofs/training.md, section 3.
    """
    if arithmetic == "float64":
        return ROUNDING
    if arithmetic != "float32":
        raise InvalidParameter("arithmetic", arithmetic, expected='"float64" or "float32"')
    if units is None:
        raise InvalidParameter("units", units, expected="the largest batch size, with float32")
    most = checks.positive_integer(units=units)
    terms = min((most + 4) * (most + 1), _PRICED) / math.sqrt(3)
    return ROUNDING + 1.001 * 2 * terms * 2.0**-24
