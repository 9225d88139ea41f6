"""What every noise with a lower triangular Toeplitz matrix has: its event in order, its error."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.privacy import events

__all__ = ["ToeplitzNoise"]


class ToeplitzNoise(ABC):
    """Noise C^-1 N of steps, C lower triangular and Toeplitz."""

    __slots__ = ()

    @abstractmethod
    def inverse(self, steps: int) -> NDArray[np.float64]:
        """Return the first column of C^-1.

        Parameters
        ----------
        steps
            How many there are.

        Returns
        -------
        ndarray
            One number per step.
        """

    @abstractmethod
    def encoder(self, steps: int) -> tuple[Fraction, ...]:
        """Return the first column of C, or numbers that are no smaller, up to its last one.

        Parameters
        ----------
        steps
            How many there are.

        Returns
        -------
        tuple
            Exact numbers.
        """

    def event_in_order(
        self, noise_multiplier: float | Fraction, *, steps: int, separation: int
    ) -> events.MatrixFactorization:
        """Return the event of all steps where a unit takes part once in `separation` steps."""
        return events.MatrixFactorization(
            noise_multiplier=noise_multiplier,
            encoder=self.encoder(steps),
            steps=steps,
            participations=-(-steps // separation),
            separation=separation,
        )

    def prefix_error(self, steps: int) -> float:
        """Return the root mean square error of the prefix sums at a noise scale of 1."""
        variances = np.cumsum(np.cumsum(self.inverse(steps)) ** 2)
        return math.sqrt(float(variances.mean()))
