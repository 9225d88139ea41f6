"""Which features of a table go with its target: as `associations`, by sums in the engine."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unacorda.inference.associations import CENTRING, CUT, UNIT
from unacorda.inference.designs import Scaling
from unacorda.inference.loss_texts import cut_text, number
from unacorda.inference.scalers import centre_and_scale
from unacorda.inference.table_people import TableSums
from unacorda.inference.table_quartiles import table_quartiles
from unacorda.inference.tables import Table
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP

__all__ = ["best_by_table_labels", "best_by_table_numbers"]

Chosen = tuple[NDArray[np.int64], events.Event]


def best_by_table_numbers(
    table: Table, scales: Scaling, *, ends: tuple[float, float], count: int, budget: GDP
) -> Chosen:
    """The features that go best with a number, rising, and what finding them cost.

    ends: public bounds of the target, whose quartiles are found first.
    """
    sums = TableSums(table=table.chosen([]), budget=budget)
    quartiles = table_quartiles(
        sums.table, ["y"], ends=[ends], rows=sums.rows, share=CENTRING, pay=sums.paid
    )
    centre, scale = centre_and_scale(quartiles, np.array([ends[1] - ends[0]]))
    target = _grid("y", float(centre[0]), 1 / float(scale[0]))
    return _best(table, sums, scales, target=target, most=UNIT, count=count)


def best_by_table_labels(
    table: Table, scales: Scaling, *, second: str, count: int, budget: GDP
) -> Chosen:
    """The features that go best with the second of two labels, rising, and what finding them cost.

    second: an expression of y, 1 for that label, 0 for the first, NULL for any other.
    """
    sums = TableSums(table=table.chosen([]), budget=budget, target=second)
    share, _ = sums.target_mean(most=1, share=CENTRING)
    middle = round(min(max(share, 0.0), 1.0) * UNIT)
    target = f"({second}) * {UNIT} - {middle}"
    most = max(middle, UNIT - middle)
    return _best(table, sums, scales, target=target, most=most, count=count)


def _grid(text: str, centre: float, factor: float) -> str:
    """SQL of a whole number from -1024 to 1024, as of `grid_values`."""
    scaled = f"({text} - {number(centre)}) * {number(factor / CUT)}"
    return f"round({cut_text(scaled, -1, 1)} * {UNIT})"


def _best(
    table: Table, sums: TableSums, scales: Scaling, *, target: str, most: int, count: int
) -> Chosen:
    columns: Mapping[str, str] = {
        f"u{place}": _grid(f"x{place}", centre, factor)
        for place, (centre, factor) in enumerate(zip(scales.centre, scales.factor, strict=True))
    }
    chosen, event = table.best(
        [{"r": target, **columns}],
        [f"{name} * r" for name in columns],
        bound=UNIT * most,
        count=count,
        budget=sums.budget * sums.left,
    )
    return np.sort(np.array(chosen, dtype=np.int64)), events.compose([sums.event, event])
