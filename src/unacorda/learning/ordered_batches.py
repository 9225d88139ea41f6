r"""Batches of data in order, without sampling: each unit once per epoch, always at the same step.

Proof: docs/proofs/training_noise.md, section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from unacorda.errors import InvalidParameter
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.correlated import Correlated
from unacorda.learning.sampling import Batches, BitsOf, Draws, Sampling, Whole
from unacorda.privacy.events import Event, Gaussian
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["OrderedBatches"]

_INDEPENDENT: Final = Banded(bands=1)


@dataclass(frozen=True, kw_only=True)
class OrderedBatches(Sampling):
    """Batches of consecutive units in the order of the data, the same in each epoch.

    There is no sampling. With `unit=` the order is that of the ids. The last batch of an epoch may
    be smaller, and its sum is also divided by batch_size. It needs ZeroOut or ReplaceOne, where a
    unit keeps its position; removing one would move all later units to other batches.

    Source: Kairouz et al. 2021, arXiv:2103.00039 (DP-FTRL); Denisov et al. 2022, arXiv:2202.08312;
    Choquette-Choo et al. 2023, arXiv:2211.06530.

    Parameters
    ----------
    noise
        The noise with bands or buffers; `noise=` of a training sets it.

    Examples
    --------
    >>> OrderedBatches().noise
    Banded(bands=1)
    """

    noise: Correlated = _INDEPENDENT
    conditions = ("places of units are public: neighbors differ in what one place holds",)

    def check_relation(self, neighbors: Neighbors) -> None:
        """Raise InvalidParameter under AddRemove."""
        if neighbors is AddRemove:
            expected = (
                "ZeroOut or ReplaceOne: a unit that is removed from data in order moves all later "
                "ones to other batches, which no noise hides"
            )
            raise InvalidParameter("neighbors", neighbors, expected=expected)

    @staticmethod
    def epoch(units: int, batch_size: int) -> Fraction:
        """The number of steps from one use of a unit to the next: the batches of an epoch."""
        return Fraction(-(-units // batch_size))

    def check(self, of: Batches, neighbors: Neighbors) -> None:
        """Raise InvalidParameter under AddRemove, and for more bands than steps."""
        Sampling.check(self, of, neighbors)
        if isinstance(self.noise, Banded) and self.noise.bands > of.steps:
            expected = f"at most {of.steps}, the steps"
            raise InvalidParameter("bands", self.noise.bands, expected=expected)

    @property
    def correlated(self) -> Correlated | None:
        """The noise, unless it has only one band."""
        return None if self.noise == _INDEPENDENT else self.noise

    def fitted(self, of: Batches) -> OrderedBatches:
        """The scheme with the buffers of least error."""
        if isinstance(self.noise, Banded):
            return self
        separation = int(self.epoch(of.units, of.batch_size))
        return replace(self, noise=self.noise.fitted(steps=of.steps, separation=separation))

    def event(self, noise: Event, alone: Event, of: Batches) -> Event:
        """The matrix mechanism with one participation per epoch, always at the same step."""
        del alone
        if not isinstance(noise, Gaussian):
            raise InvalidParameter("noise", noise, expected="a Gaussian event")
        separation = int(self.epoch(of.units, of.batch_size))
        return self.noise.event_in_order(
            noise.noise_multiplier, steps=of.steps, separation=separation
        )

    def draws(self, population: int, of: Batches, bits: BitsOf) -> Draws:
        """A block of places; no coins."""
        del bits
        blocks = int(self.epoch(of.units, of.batch_size))

        def block(step: int) -> Whole:
            start = step % blocks * of.batch_size
            return np.arange(start, min(start + of.batch_size, population))

        return block
