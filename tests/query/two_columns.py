"""Questions about two columns at once, of which rows may lack one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.many_cells import ask

import unacorda

__all__ = ["RAGGED", "one_answer", "two_columns", "typical_first"]

RAGGED = (
    [30.0, None, 99.0, np.nan, 50.0, np.inf, 20.0] * 50,
    [2.0, 5.0, None, 1.0, 119.0, 60.0, -np.inf] * 50,
)
"""Columns of which rows 0, 4, 5 and 6 of every seven have both."""


def two_columns(x: Any, y: Any, *, cells: int = 1) -> dict[str, Any]:
    """A table in which every one of so many cells holds these pairs, each of its own person."""
    return {
        "id": np.arange(len(x) * cells),
        "cell": np.repeat(np.arange(cells), len(x)),
        "x": pa.array(list(x) * cells, type=pa.float64()),
        "y": pa.array(list(y) * cells, type=pa.float64()),
    }


def one_answer(x: Any, y: Any, aggregate: Any) -> Any:
    """The answer about one cell, almost without noise."""
    table = two_columns(x, y)
    asked = ask(table, {"a": aggregate}, budget=unacorda.ZCDP(10**6), seed=3, cells=1)
    return asked.release.answers["a"]


def typical_first(kinds: Mapping[str, Any], budgets: Mapping[str, Any]) -> list[Any]:
    """Every kind under every budget; all but the first kind are slow."""
    typical = next(iter(kinds))
    return [
        pytest.param(kind, name, marks=() if kind == typical else pytest.mark.slow)
        for kind in kinds
        for name in budgets
    ]
