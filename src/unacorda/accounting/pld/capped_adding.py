"""Bounds of what an added unit costs, which is hardly ever more than what a removed one does.

Contours tell them in no time: losses of an added unit have an upper end.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from unacorda.accounting.contour import engine as contour
from unacorda.privacy.events import Event

__all__ = ["delta_of_added", "epsilon_of_added"]


def epsilon_of_added(composition: Sequence[tuple[Event, int]], delta: Fraction) -> float:
    """An epsilon at which the composition with an added unit has at most this delta, or inf.

    Bound       upper.
    Source      docs/proofs/contour.md, Theorems 1 to 7.
    """
    try:
        return contour.epsilon_interval(composition, delta=delta, directions="add").upper
    except (ArithmeticError, ValueError):  # where floats overflow nothing is proved
        return math.inf


def delta_of_added(composition: Sequence[tuple[Event, int]], epsilon: Fraction) -> float:
    """A delta that the composition with an added unit has at most at an epsilon.

    Bound       upper.
    Source      docs/proofs/contour.md, Theorems 1 to 7.
    """
    try:
        return contour.delta_interval(composition, epsilon=epsilon, directions="add").upper
    except (ArithmeticError, ValueError):
        return 1.0
