"""Laplace and normal noise on a grid, by the functions that mechanisms are made of."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.mechanisms.noise.continuous import gaussian_chunk, laplace_chunk
from unacorda.mechanisms.noise.rounding import add_to_floats, add_to_integers, grid_ratio

Floats = NDArray[np.float64]
Scale = float | Fraction


def rounded_laplace(
    values: Sequence[int],
    *,
    unit_log2: int,
    scale: Scale,
    grid_log2: int | None = None,
    bits: RandomBits,
) -> list[int]:
    """Exact values in units of 2^unit_log2 plus Laplace noise, in steps of the grid."""
    grid, ratio = grid_ratio("scale", scale, grid_log2)
    return add_to_integers(values, unit_log2, grid=grid, ratio=ratio, bits=bits, draw=laplace_chunk)


def rounded_gaussian(
    values: Sequence[int],
    *,
    unit_log2: int,
    sigma: Scale,
    grid_log2: int | None = None,
    bits: RandomBits,
) -> list[int]:
    """Exact values in units of 2^unit_log2 plus normal noise, in steps of the grid."""
    grid, ratio = grid_ratio("sigma", sigma, grid_log2)
    return add_to_integers(
        values, unit_log2, grid=grid, ratio=ratio, bits=bits, draw=gaussian_chunk
    )


def rounded_laplace_floats(
    values: Floats, *, scale: Scale, grid_log2: int | None = None, bits: RandomBits
) -> Floats:
    """A float64 array plus Laplace noise, on the grid."""
    grid, ratio = grid_ratio("scale", scale, grid_log2)
    return add_to_floats(values, grid=grid, ratio=ratio, bits=bits, draw=laplace_chunk)


def rounded_gaussian_floats(
    values: Floats, *, sigma: Scale, grid_log2: int | None = None, bits: RandomBits
) -> Floats:
    """A float64 array plus normal noise, on the grid."""
    grid, ratio = grid_ratio("sigma", sigma, grid_log2)
    return add_to_floats(values, grid=grid, ratio=ratio, bits=bits, draw=gaussian_chunk)
