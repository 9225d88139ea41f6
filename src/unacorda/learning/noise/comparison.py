"""Noise compared: predicted errors of prefix sums at equal privacy; the data play no part."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda import accounting, checks
from unacorda.errors import InvalidParameter
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.buffered import Buffered
from unacorda.learning.noise.correlated import Correlated
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import AddRemove, Neighbors

__all__ = ["NoiseChoice", "compare_bands"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseChoice:
    """Correlated noise, the multiplier that keeps a budget with it, and the error that it gives.

    Attributes
    ----------
    noise
        Its kind.
    noise_multiplier
        The noise over the sensitivity, no unit.
    error
        The root mean square error of prefix sums over that of independent noise.

    Examples
    --------
    >>> from unacorda.learning.noise.banded import Banded
    >>> NoiseChoice(noise=Banded(bands=4), noise_multiplier=0.9, error=0.71).error
    0.71
    """

    noise: Correlated
    noise_multiplier: float
    error: float

    @property
    def bands(self) -> int | None:
        """How many bands there are; None with buffers, which reach over all steps."""
        return self.noise.bands if isinstance(self.noise, Banded) else None

    def __str__(self) -> str:
        few = f"buffers={self.noise.buffers}" if isinstance(self.noise, Buffered) else ""
        return (
            f"{self.error:.2f} of independent noise's in prefix sums with "
            f"{few or f'bands={self.bands}'}, multiplier {self.noise_multiplier:.4g}"
        )


def compare_bands(
    budget: Guarantee,
    *,
    rate: Fraction | float | None = None,
    separation: int | None = None,
    steps: int,
    neighbors: Neighbors = AddRemove,
    candidates: Sequence[int] = (1, 2, 4, 8, 16, 32),
    buffers: Sequence[int] = (1, 2),
    within: tuple[float, float] = (1e-3, 1e6),
) -> list[NoiseChoice]:
    """Compare predicted errors of correlated noise at equal privacy; the data play no part.

    The first choice is independent noise.

    Parameters
    ----------
    budget
        The guarantee that each choice keeps.
    rate
        The share of steps that a unit takes part in, on average: batch size over units.
    separation
        In place of the rate, where units come in order: each once in this number of steps.
    steps
        How many there are.
    neighbors
        The relation that the guarantee speaks of.
    candidates
        Numbers of bands. Those above 1 / rate or above the steps are left out.
    buffers
        Numbers of buffers that are tried with a separation.
    within
        The least and the largest noise multiplier that are looked at.

    Returns
    -------
    list of NoiseChoice
        In the order in which they were tried.

    Raises
    ------
    InvalidParameter
        For numbers out of their range, and where neither or both of rate and separation are given.

    Examples
    --------
    >>> from unacorda import ApproxDP
    >>> table = compare_bands(ApproxDP(8, 1e-6), rate=0.01, steps=800, candidates=(4,))
    >>> [(choice.bands, round(choice.error, 2)) for choice in table]
    [(1, 1.0), (4, 0.71)]
    """
    steps = checks.positive_integer(steps=steps)
    if (rate is None) == (separation is None):
        raise InvalidParameter("rate", rate, expected="rate= or separation=, one of them")
    exact = Fraction(0 if rate is None else rate)
    if rate is not None and not 0 < exact <= 1:
        raise InvalidParameter("rate", rate, expected="a number above 0, at most 1")
    fitting = [bands for bands in candidates if 1 < bands <= steps and bands * exact <= 1]
    tried: list[Correlated] = [Banded(bands=bands) for bands in (1, *fitting)]
    if separation is not None and steps > 1:
        few = [Buffered(buffers=count) for count in buffers]
        tried += [noise.fitted(steps=steps, separation=separation) for noise in few]
    found: list[NoiseChoice] = []
    first = math.nan
    for noise in tried:

        def family(multiplier: float, noise: Correlated = noise) -> events.Event:
            if separation is not None:
                return noise.event_in_order(multiplier, steps=steps, separation=separation)
            assert isinstance(noise, Banded)
            return noise.event(multiplier, rate=exact * noise.bands, steps=steps)

        multiplier = accounting.calibrate(
            family, target=budget, neighbors=neighbors, within=within, tolerance=1e-4
        )
        error = multiplier * noise.prefix_error(steps)
        first = error if not found else first
        found.append(NoiseChoice(noise=noise, noise_multiplier=multiplier, error=error / first))
    return found
