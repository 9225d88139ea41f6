r"""Gaussian noise of a training step: the ideal real mechanism, rounded to a grid.

The sum S becomes the multiple of a grid that is nearest to S + scale N, N standard normal, with
exactly the law of that number, whatever the size of S. Rounding is postprocessing of the Gaussian
mechanism and costs nothing. Each normal is one real number that follows from the key, the attempt,
the step and its place: float64 evaluates it, and more bits of the same number decide where float64
leaves the rounding open. Proof: docs/proofs/training_noise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import KeyedBits
from unacorda.extras import later
from unacorda.learning.noise.keys import NoiseKey
from unacorda.mechanisms.noise.continuous import CHUNK, gaussian_chunk
from unacorda.mechanisms.noise.rounding import add_to_floats, floor_log2

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "add_gaussian",
    "add_gaussian_to_array",
    "flat_on_cpu",
    "grid_of",
    "more_bits",
    "pair_words",
]

torch: Any = later("torch")

_GRID: Final = 12
"""The grid is a power of two, between 2^-13 and 2^-12 of the noise scale."""

_WORDS, _MORE_BITS = 16, 17
"""Labels of a key's streams: first words of normals, and the bits after them."""


def add_gaussian(
    sums: Mapping[str, Tensor],
    *,
    scale: float,
    key: NoiseKey,
    attempt: int,
    step: int,
    share: tuple[int, int] = (0, 1),
) -> dict[str, Tensor]:
    """Add Gaussian noise to a step's sums, rounded to a grid; noise is made on the CPU.

    Parameters
    ----------
    sums
        Float64 tensors; those on the CPU are overwritten. Their order and shapes are the places. A
        NaN counts as 0, an infinite number as the largest one.
    scale
        The standard deviation of the noise in each coordinate.
    key, attempt, step
        Equal ones give equal noise, whatever the sums: no step may repeat its attempt.
    share
        A rank and how many there are: chunks in turn are a rank's own, and others become 0, so that
        the results of all ranks add up to the noisy sums of one process, exactly.

    Raises
    ------
    InvalidParameter
        For a scale that is not a positive finite number.
    """
    noisy, (rank, ranks), before = {}, share, 0
    for part, (name, values) in enumerate(sums.items()):
        flat, own = flat_on_cpu(values), ((rank - before) % ranks, ranks)
        labels = attempt, step, part
        add_gaussian_to_array(flat.numpy(), scale=scale, key=key, labels=labels, share=own)
        before += -(-len(flat) // CHUNK)
        noisy[name] = flat.view(values.shape).to(values.device)
    return noisy


def flat_on_cpu(values: Tensor) -> Tensor:
    """Return a flat float64 tensor on the CPU, of the same memory where the values have that."""
    return values.detach().to(device="cpu", dtype=torch.float64).contiguous().view(-1)


def add_gaussian_to_array(
    sums: NDArray[np.float64],
    *,
    scale: float,
    key: NoiseKey,
    labels: tuple[int, ...],
    share: tuple[int, int] = (0, 1),
) -> None:
    """Add Gaussian noise to a flat array in place, rounded to a grid, chunk by chunk.

    Each chunk and, for the bits after the first words, each pair of normals has a stream of its
    own, so no decision moves the noise of another place. Chunks that are not of `share` become 0.
    """
    grid, ratio = grid_of(scale)
    for chunk, start in enumerate(range(0, sums.size, CHUNK)):
        place = (*labels, chunk)
        part = sums[start : start + CHUNK]
        if chunk % share[1] != share[0]:
            part[:] = 0.0
            continue
        add_to_floats(
            part,
            grid=grid,
            ratio=ratio,
            bits=key.stream(_WORDS, *place),
            draw=partial(gaussian_chunk, more=partial(more_bits, key, place)),
            out=part,
        )


def grid_of(scale: float) -> tuple[int, Fraction]:
    """Return the exponent of the grid, and the noise scale in its steps."""
    exact = Fraction(checks.positive(scale=scale))
    grid = floor_log2(exact) - _GRID
    return grid, exact / Fraction(2) ** grid


def pair_words(
    key: NoiseKey, place: tuple[int, ...], pairs: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the first words of the radii and of the angles of a chunk."""
    words = key.stream(_WORDS, *place).words(2 * pairs)
    return words[:pairs], words[pairs:]


def more_bits(key: NoiseKey, place: tuple[int, ...], pair: int) -> KeyedBits:
    """Return the bits of a pair after its first words, radius and angle in turn."""
    return key.stream(_MORE_BITS, *place, pair)
