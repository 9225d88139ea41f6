r"""Noise correlated over steps by a banded matrix: its price, its error, its recurrence.

C is the lower triangular Toeplitz matrix of the first coefficients of (1 - x)^(-1/2).
Proof: docs/proofs/training_noise.md, section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.learning.noise.in_order import ToeplitzNoise
from unacorda.mechanisms.correlated.toeplitz import (
    as_fractions,
    scale_for,
    square_root_coefficients,
)
from unacorda.privacy import events

__all__ = ["Banded", "BandedRows", "largest_of"]

signal: Any = later("scipy.signal")

Floats = NDArray[np.float64]

_LARGEST_BANDS: Final = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Banded(ToeplitzNoise):
    """Noise correlated over `bands` steps; one band is independent noise.

    With sampling, units are split into `bands` groups independently of the data, and step t samples
    only from group t mod `bands`. Data in order need no groups.

    Source: Choquette-Choo et al. 2023 (BandMF); Kalinin and Lampert 2024.

    Parameters
    ----------
    bands
        The number of steps whose noise is correlated, 1 or more.

    Raises
    ------
    InvalidParameter
        For a number out of its range.

    Examples
    --------
    >>> Banded(bands=4).coefficients.round(3).tolist()
    [1.0, 0.5, 0.375, 0.312]
    """

    bands: int

    def __post_init__(self) -> None:
        checks.positive_integer(bands=self.bands)
        if self.bands > _LARGEST_BANDS:
            raise InvalidParameter("bands", self.bands, expected=f"at most {_LARGEST_BANDS}")

    @property
    def coefficients(self) -> Floats:
        """The first column of C, exactly as it is used."""
        whole = square_root_coefficients(self.bands).astype(np.float64)
        return np.ldexp(whole, -scale_for(self.bands))

    def inverse(self, steps: int) -> Floats:
        """Return the first column of C^-1."""
        impulse = np.zeros(steps)
        impulse[0] = 1.0
        column: Floats = signal.lfilter([1.0], self.coefficients, impulse)
        return column

    def event(
        self, noise_multiplier: float | Fraction, *, rate: Fraction | float, steps: int
    ) -> events.CyclicPoissonSampled:
        """Return the event of all steps.

        Parameters
        ----------
        noise_multiplier
            As in `events.MatrixFactorization`.
        rate
            Of a unit in a step of its own group.
        steps
            How many there are.

        Returns
        -------
        CyclicPoissonSampled
            What an accountant prices.
        """
        mechanism = self.event_in_order(noise_multiplier, steps=steps, separation=self.bands)
        return mechanism.cyclic_poisson_sampled(rate=rate)

    def encoder(self, steps: int) -> tuple[Fraction, ...]:
        """Return the first column of C, exactly."""
        del steps
        return as_fractions(self.bands)

    def rows(self) -> BandedRows:
        """Return the recurrence of the rows of C^-1 N."""
        return BandedRows(self)


class BandedRows:
    """The rows of C^-1 N one after the other: W_t = N_t - sum over j of c_j W_{t-j}.

    truncation: how many units the integers of a row are off by, before C^-1.
    """

    truncation = 1

    def __init__(self, noise: Banded) -> None:
        self._bands, self._coefficients = noise.bands, noise.coefficients
        self._whole = square_root_coefficients(noise.bands).tolist()
        self._scale_log2 = scale_for(noise.bands)
        self._rows: deque[list[Floats]] = deque(maxlen=noise.bands - 1)
        self._largest: deque[float] = deque(maxlen=noise.bands - 1)

    def advance(self, fresh: list[Floats]) -> float:
        """Turn normals into the next row, in place; what it is off by, in units of 2^-53.

        The error is that of C times the computed rows.
        """
        size = largest_of(fresh)
        for age, (row, largest) in enumerate(zip(self._rows, self._largest, strict=True), 1):
            weight = float(self._coefficients[age])
            size += weight * largest
            for new, old in zip(fresh, row, strict=True):
                np.subtract(new, weight * old, out=new)
        self._rows.appendleft(fresh)
        self._largest.appendleft(largest_of(fresh))
        return 2 * self._bands * size  # each of the products and sums is below `size`

    def last_entry(self, normals: Sequence[int]) -> int:
        """Return the last entry of C^-1 N in fixed point."""
        found: deque[int] = deque(maxlen=self._bands)
        for normal in normals:
            # The deque is longest when it has `bands` entries, one more than are used.
            older = sum(m * w for m, w in zip(self._whole[1:], found, strict=False))
            found.appendleft(normal - (older >> self._scale_log2))
        return found[0]


def largest_of(parts: Sequence[Floats]) -> float:
    """Return the size of the largest number."""
    return max((float(np.abs(part).max(initial=0.0)) for part in parts), default=0.0)
