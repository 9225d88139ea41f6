"""Laws of the loss that are given by their atoms."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from unacorda.accounting.profiles.boxes import Array

_SHARES = 64
_LARGEST = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Atoms:
    """Finite losses and their masses under P, and the mass of infinite loss.

    error: of any loss, absolute; trust: of any mass, relative; infinity_above: where the mass of
    infinite loss is not known, its upper bound; spacing: see `lattice_of`; lower: whether the law
    stands for another one from below, not from above.
    """

    losses: Array = field(repr=False)
    masses: Array = field(repr=False)
    infinity: float = 0.0
    infinity_above: float = 0.0
    error: float = 0.0
    trust: float = 0.0
    spacing: Fraction | None = None
    lower: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest finite loss."""
        if not len(self.losses):
            return 0.0, 0.0
        return float(np.min(self.losses)), float(np.max(self.losses))


def lattice_of(losses: Array) -> Fraction | None:
    """A number of which all losses are whole multiples, but for 1e-11 of it; None if none is.

    Bound       none: who counts an atom as at a multiple has to count how far away it is.
    Source      trial division of the least loss.
    """
    sizes = np.unique(np.abs(losses))
    sizes = sizes[sizes > 1e-9]
    if not 0 < len(sizes) <= 1 << 16:
        return None
    least, largest = float(sizes[0]), float(sizes[-1])
    for share in range(1, _SHARES + 1):
        many = round(largest * share / least)
        if many > 1 << 20:
            return None
        spacing = largest / many  # the largest loss tells it best
        away = np.abs(losses - np.rint(losses / spacing) * spacing)
        if float(np.max(away)) <= min(_LARGEST * spacing, 1e-13 * (1 + largest)):
            return Fraction(spacing)
    return None
