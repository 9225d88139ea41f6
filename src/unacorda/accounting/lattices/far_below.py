"""Lower ends far below where the sum of very many losses lies: Chernoff's bound, turned round."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from unacorda.accounting.lattices.laws import Composition
from unacorda.privacy.enclosure import context, float_down, mpf

__all__ = ["delta_far_below", "epsilon_far_below"]

_HALVINGS = 48
_SURE = 40
_ROUNDED = Fraction(1, 2**80)  # more than all roundings, of at least a hundred bits


def delta_far_below(composition: Composition, epsilon: Fraction) -> float:
    """A delta that the finite losses have at least; 0 where that is not told.

    Bound       lower.
    Source      docs/proofs/capped.md, Lemma 5, whose cells are the losses themselves.
    """
    mp = context()
    best, at = mp.mpf(0), mpf(epsilon)
    for order, log in _log_moments(composition):
        room = -log / order - at
        if room > 0:
            above = min(room / 2, mp.mpf(_SURE))
            found = mp.expm1(-above) * mp.expm1(log + order * (at + above))
            best = max(best, found)
    return max(float_down(best * (1 - mpf(_ROUNDED)) - mpf(_ROUNDED) ** 2), 0.0)


def epsilon_far_below(composition: Composition, delta: Fraction) -> float:
    """An epsilon at which the finite losses have at least this delta, or 0; delta is below 1.

    Bound       lower.
    Source      as delta_far_below, with both factors the root of delta.
    """
    mp = context()
    room = mp.log1p(-mp.sqrt(mpf(delta)) * (1 + mpf(_ROUNDED)))
    best = max((room - log) / order + room for order, log in _log_moments(composition))
    return max(float_down(best - (1 + abs(best)) * mpf(_ROUNDED)), 0.0)


def _log_moments(composition: Composition) -> Iterator[tuple[Any, Any]]:
    """Orders s, and bounds from above of ln E e^(-s L), L the sum of the losses."""
    mp = context()
    for halving in range(_HALVINGS):
        order, total = mp.mpf(2) ** -halving, mp.mpf(0)
        for law, count in composition.laws:
            e = mpf(law.epsilon)
            low = mp.exp(-e)
            mean = mp.exp(-order * e) + (law.categories - 2) * low + low * mp.exp(order * e)
            mean /= 1 + (law.categories - 1) * low
            total += count * (mp.log(mean) + mpf(_ROUNDED) ** 2)
        yield order, total
