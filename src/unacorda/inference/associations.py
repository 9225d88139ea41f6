r"""Which features go with a target: the best by noisy covariances of cut values.

Values are cut and put on a grid of whole numbers, so that sums of products are exact in float64 in
any order: no round-off has to be counted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.inference.budgets import selection_epsilon
from unacorda.inference.records import Floats
from unacorda.inference.scalers import RobustScaler
from unacorda.inference.sums import BLOCK, NoisySums
from unacorda.mechanisms.selection.noisy_max import TopK
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP

__all__ = [
    "CENTRING",
    "CUT",
    "UNIT",
    "absolute_sums",
    "best_by_labels",
    "best_by_numbers",
    "grid_values",
]

UNIT: Final = 1 << 10
"""Steps of a value of 1."""

CUT: Final = 0.75
"""Deviations at which values are cut: docs/proofs/sparse.md, section 2."""

CENTRING: Final = Fraction(1, 5)
"""The share of the budget that centres the target."""

Chosen = tuple[NDArray[np.int64], events.Event]


def grid_values(values: Floats, *, centre: Floats | float, deviation: Floats | float) -> Floats:
    """Whole numbers from -1024 to 1024: deviations from the centre, cut at 3/4, over 3/4.

    What is no number counts as the centre.

    >>> grid_values(np.array([0.0, 0.375, -9.0, np.nan]), centre=0.0, deviation=1.0).tolist()
    [0.0, 512.0, -1024.0, 0.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (values - centre) / (deviation * CUT)
    scaled = np.clip(scaled, -1.0, 1.0)
    np.copyto(scaled, 0.0, where=np.isnan(scaled))
    return np.asarray(np.rint(scaled * UNIT) + 0.0)


def absolute_sums(units: Floats, target: Floats) -> NDArray[np.int64]:
    """|sum over rows of unit * target|, one a column, exactly; both of whole numbers, small ones.

    Numbers of at most 2^11 in absolute value; fewer than 2^31 rows.
    Bound   replacing a row moves each by at most 2 max |unit| max |target|
    Source  docs/proofs/sparse.md, section 1
    """
    totals = np.zeros(units.shape[1], dtype=np.int64)
    for start in range(0, len(units), BLOCK):
        rows = slice(start, start + BLOCK)
        totals += (target[rows] @ units[rows]).astype(np.int64)
    return np.abs(totals)


def best_by_numbers(
    units: Floats,
    target: Floats,
    *,
    ends: tuple[float, float],
    count: int,
    budget: GDP,
    bits: RandomBits,
) -> Chosen:
    """The columns that go best with a number, rising, and what finding them cost.

    units: of `grid_values`; ends: public bounds of the target, whose quartiles are found first.
    """
    scaler = RobustScaler(budget=budget * CENTRING, feature_bounds=ends, bits=bits)
    scaler.fit(target[:, None])
    centred = grid_values(
        target, centre=float(scaler.center_[0]), deviation=float(scaler.scale_[0])
    )
    chosen, event = _best(
        units, centred, most=UNIT, count=count, budget=budget * (1 - CENTRING), bits=bits
    )
    return chosen, events.compose([scaler.event_, event])


def best_by_labels(
    units: Floats,
    second: Floats,
    known: Floats,
    *,
    count: int,
    budget: GDP,
    bits: RandomBits,
) -> Chosen:
    """The columns that go best with the second of two labels, rising, and what finding them cost.

    second: 1 where a label is the second, else 0; known: 1 where it is one of both, else 0.
    """
    sums = NoisySums(rows=len(second), budget=budget, bits=bits)
    share, _ = sums.mean(
        lambda rows: second[rows].sum(keepdims=True),
        size=1,
        row_bound=Fraction(1),
        sensitivity=Fraction(1),
        share=CENTRING,
    )
    middle = round(min(max(float(share[0]), 0.0), 1.0) * UNIT)
    chosen, event = _best(
        units,
        (second * UNIT - middle) * known,
        most=max(middle, UNIT - middle),
        count=count,
        budget=budget * (1 - CENTRING),
        bits=bits,
    )
    return chosen, events.compose([sums.event, event])


def _best(
    units: Floats, target: Floats, *, most: int, count: int, budget: GDP, bits: RandomBits
) -> Chosen:
    each = selection_epsilon(budget, releases=count)
    mechanism = TopK(epsilon=each * count, sensitivity=2 * UNIT * most, count=count)
    chosen = mechanism.release(absolute_sums(units, target), bits=bits)
    return np.sort(chosen), mechanism.event
