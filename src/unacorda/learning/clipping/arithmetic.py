"""What the rounding of sums may move, in either arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.learning.clipping.parts import BLOCK, ROUNDING, GradientPart

__all__ = ["Arithmetic", "check_size", "rounding_of"]

_LARGEST: Final = 1 << 32

Arithmetic: TypeAlias = Literal["float64", "float32"]


def check_size(parts: Mapping[str, Sequence[GradientPart]], units: int) -> None:
    """Raise InvalidParameter where rounding in float64 may move sums by more than `ROUNDING`.

    A gradient may be 2^-10 of the sum of the norms of its places, so that units^2 places 2^-42 has
    to be 2^-10 at most. Source: docs/proofs/training.md, section 3.
    """
    places = max((part.places for own in parts.values() for part in own), default=1)
    if units * units * places > _LARGEST:
        most = math.isqrt(_LARGEST // places)
        shown = f"{units} units of {places} places each"
        raise InvalidParameter("physical", shown, expected=f"at most {most} units at once")


def rounding_of(arithmetic: Arithmetic, units: int | None) -> float:
    """Of the bound, what a unit may move a sum by its rounding; InvalidParameter for others.

    Of n units, each at most the bound long, that are summed in float32 in K blocks of b, both sums
    of neighbors are off by at most (b + K) n 2^-24. Source: docs/proofs/training.md, section 3.
    """
    if arithmetic == "float64":
        return ROUNDING
    if arithmetic != "float32":
        raise InvalidParameter("arithmetic", arithmetic, expected='"float64" or "float32"')
    if units is None:
        raise InvalidParameter("units", units, expected="the most of a batch, with float32")
    many = checks.positive_integer(units=units) + 1
    terms = min(many, BLOCK) + -(-many // BLOCK)
    return ROUNDING + 1.001 * 2 * terms * many * 2.0**-24
