r"""Noise correlated over steps, rounded exactly to a grid.

Step t releases S_t + scale (C^-1 N)_t, rounded to a grid: N has a row of independent standard
normals for each step, and C is a lower triangular Toeplitz matrix, of bands or of buffers. This is
postprocessing of the matrix mechanism C S + scale N. Proof: docs/proofs/training_noise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.learning.noise.banded import Banded, largest_of
from unacorda.learning.noise.buffered import Buffered
from unacorda.learning.noise.gaussian import flat_on_cpu, grid_of, more_bits, pair_words
from unacorda.learning.noise.keys import NoiseKey
from unacorda.mechanisms.noise.continuous import CHUNK, cosine_and_sine
from unacorda.mechanisms.noise.refinement import LazyUniform, normal_bounds, signed_uniform
from unacorda.mechanisms.noise.rounding import add_to_floats

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Correlated", "CorrelatedNoise"]

Correlated: TypeAlias = Banded | Buffered
"""Matrices of noise that is correlated over steps."""

Floats = NDArray[np.float64]
Exact = Callable[[int], Fraction]

_TAIL, _HEAD = -13.0, -(2.0**-20)  # of ln U: beyond them a normal is bracketed in integers
_NORMAL: Final = 2.0**-41.5  # bound on the error of a normal
_UNIT: Final = 2.0**-53
_ABSOLUTE: Final = 2.0**-48
_MARGIN: Final = 1.01  # on sums that are computed in floats


class CorrelatedNoise:
    """Adds correlated noise to the sums of one step after the other, rounded exactly to a grid.

    The last `bands - 1` rows of C^-1 N, or the buffers, are kept in float64; exact decisions draw
    the normals of all earlier steps again from the key.

    Parameters
    ----------
    noise, scale, key
        The matrix, the standard deviation of the entries of scale N, and the secret.
    steps
        The most that will come.
    """

    def __init__(self, noise: Correlated, *, scale: float, key: NoiseKey, steps: int) -> None:
        self._grid, self._ratio = grid_of(scale)
        self._key, self._steps = key, checks.positive_integer(steps=steps)
        self._rows = noise.rows()
        self._reach = _MARGIN * float(np.abs(noise.inverse(steps)).sum())
        self._row: list[Floats] = []
        self._largest = 0.0
        self._labels: list[tuple[int, int]] = []
        self._error = 0.0

    def advance(self, sizes: Sequence[int], *, attempt: int, step: int) -> None:
        """Draw the noise of a step that is not released, such as one that a crash cut off."""
        if len(self._labels) >= self._steps:
            expected = f"at most the {self._steps} steps that were planned"
            raise InvalidParameter("step", step, expected=expected)
        if (attempt, step) in self._labels:
            raise InvalidParameter("step", step, expected="a step that was not drawn before")
        fresh = [
            _normals(self._key, (attempt, step, part), size) for part, size in enumerate(sizes)
        ]
        rounded = self._rows.advance(fresh)
        self._error = max(self._error, _NORMAL + _UNIT * _MARGIN * rounded)
        self._row, self._largest = fresh, largest_of(fresh)
        self._labels.append((attempt, step))

    @property
    def drawn(self) -> int:
        """The number of steps whose noise was drawn."""
        return len(self._labels)

    def add_to_tensors(
        self, sums: Mapping[str, Tensor], *, attempt: int, step: int
    ) -> dict[str, Tensor]:
        """Add the noise of the next step to tensors; float64 ones on the CPU are overwritten."""
        flat = {name: flat_on_cpu(values) for name, values in sums.items()}
        self.add([each.numpy() for each in flat.values()], attempt=attempt, step=step)
        return {
            name: flat[name].view(values.shape).to(values.device) for name, values in sums.items()
        }

    def add(self, sums: Sequence[Floats], *, attempt: int, step: int) -> None:
        """Add the noise of the next step to flat arrays, in place."""
        self.advance([part.size for part in sums], attempt=attempt, step=step)
        for part, values in enumerate(sums):
            row = self._row[part]
            for start in range(0, values.size, CHUNK):
                piece = values[start : start + CHUNK]
                add_to_floats(
                    piece,
                    grid=self._grid,
                    ratio=self._ratio,
                    bits=self._key.stream(),  # not read: the noise is drawn
                    draw=partial(self._floors, row=row, part=part, start=start),
                    out=piece,
                )

    def _floors(
        self,
        offsets: Floats,
        exact: Exact,
        *,
        ratio: Fraction,
        bits: RandomBits,
        row: Floats,
        part: int,
        start: int,
    ) -> Floats:
        del bits
        factor = float(ratio)
        value = factor * row[start : start + offsets.size]
        value += offsets
        floors = np.floor(value)
        slack = factor * self._reach * self._error + _ABSOLUTE
        slack += (factor * self._largest + 2) * 2 * _UNIT
        distance = np.abs(value - floors - 0.5)
        for index in np.flatnonzero(~(distance <= 0.5 - slack)).tolist():
            floors[index] = self._floor_exact(
                exact(index), part=part, place=start + index, size=row.size
            )
        return floors

    def _floor_exact(self, offset: Fraction, *, part: int, place: int, size: int) -> int:
        """Return floor(offset + ratio w) for an entry w of C^-1 N, from as many bits as needed."""
        chunk, position = divmod(place, CHUNK)
        pairs = (min(CHUNK, size - chunk * CHUNK) + 1) // 2
        second, pair = divmod(position, pairs)
        uniforms = []
        for labels in self._labels:
            at = (*labels, part, chunk)
            uniforms.append(_uniforms(self._key, at, pairs=pairs, pair=pair))
        reach = Fraction(self._reach)
        while True:
            places = uniforms[0][0].places
            brackets = [normal_bounds(radius, angle, places) for radius, angle in uniforms]
            if all(bracket is not None for bracket in brackets):
                ends = [bracket[second] for bracket in brackets if bracket is not None]
                # An error of each normal, and of each shift, is carried on by C^-1.
                error = reach * (max(high - low for low, high in ends) + self._rows.truncation)
                middle = self._rows.last_entry([low for low, _ in ends])
                unit = 1 << 2 * places
                low = math.floor(offset + self._ratio * (middle - error) / unit)
                high = math.floor(offset + self._ratio * (middle + error) / unit)
                if low == high:
                    return low
            for both in uniforms:
                for uniform in both:
                    uniform.extend()


def _normals(key: NoiseKey, labels: tuple[int, int, int], size: int) -> Floats:
    """Return the normals of a part of a step in float64, each within 2^-41.5 of the truth."""
    found = np.empty(size)
    for chunk, start in enumerate(range(0, size, CHUNK)):
        place, piece = (*labels, chunk), found[start : start + CHUNK]
        pairs = (piece.size + 1) // 2
        radius_words, angle_words = pair_words(key, place, pairs)
        logarithm = np.abs(radius_words.view(np.int64) * 2.0**-63)
        with np.errstate(divide="ignore"):  # ln 0 is bracketed
            np.log(logarithm, out=logarithm)
        radius = np.sqrt(-2.0 * logarithm)
        with np.errstate(invalid="ignore"):
            cosine, sine = cosine_and_sine(angle_words)
            np.multiply(radius, cosine, out=piece[:pairs])
            second = piece.size - pairs
            np.multiply(radius[:second], sine[:second], out=piece[pairs:])
        for pair in np.flatnonzero((logarithm < _TAIL) | (logarithm > _HEAD)).tolist():
            both = _bracketed(*_uniforms(key, place, pairs=pairs, pair=pair))
            piece[pair] = both[0]
            if pair < second:
                piece[pair + pairs] = both[1]
    return found


def _uniforms(
    key: NoiseKey, place: tuple[int, ...], *, pairs: int, pair: int
) -> tuple[LazyUniform, LazyUniform]:
    """Return the radius' and the angle's uniform number of a pair, before further bits."""
    radius_words, angle_words = pair_words(key, place, pairs)
    further = more_bits(key, place, pair)
    _, radius = signed_uniform(int(radius_words.view(np.int64)[pair]), further)
    return radius, LazyUniform(int(angle_words[pair]), length=64, bits=further)


def _bracketed(radius: LazyUniform, angle: LazyUniform) -> tuple[float, float]:
    """Return both normals of a pair to within 2^-48."""
    while True:
        found = normal_bounds(radius, angle, radius.places)
        unit = 1 << 2 * radius.places
        if found is not None and all((high - low) << 50 <= unit for low, high in found):
            first, second = (float(Fraction(low, unit)) for low, _ in found)
            return first, second
        radius.extend()
        angle.extend()
