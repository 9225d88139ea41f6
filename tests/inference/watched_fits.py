"""Fits whose every release is looked at: how far any two people's contributions are apart."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from unacorda.inference.sums import NoisySums

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Seen:
    """The largest distance of two people's vectors, the longest, and what was claimed of them."""

    farthest: float
    longest: float
    sensitivity: float
    row_bound: float


def watch(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """From now on each noisy mean notes what replacing one of its people by another can do."""
    seen: list[Seen] = []
    released = NoisySums.mean

    def noting(
        self: NoisySums,
        part: Callable[[slice], Floats],
        *,
        size: int,
        row_bound: Fraction,
        sensitivity: Fraction,
        share: Fraction,
    ) -> tuple[Floats, float]:
        each = np.array([part(slice(row, row + 1)).reshape(-1) for row in range(self.rows)])
        gaps = np.linalg.norm(each[:, None, :] - each[None, :, :], axis=2)
        seen.append(
            Seen(
                farthest=float(gaps.max()),
                longest=float(np.linalg.norm(each, axis=1).max()),
                sensitivity=float(sensitivity),
                row_bound=float(row_bound),
            )
        )
        return released(
            self, part, size=size, row_bound=row_bound, sensitivity=sensitivity, share=share
        )

    monkeypatch.setattr(NoisySums, "mean", noting)
    return seen


def worst_rows(rows: int, features: int, *, seed: int) -> tuple[Floats, Floats]:
    """People of every size: zeros, far out on both sides, with the same and opposite features."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(rows, features)) * 10.0 ** drawn.integers(-3, 9, (rows, 1))
    x[: rows // 4] = np.sign(x[: rows // 4]) * 10.0 ** drawn.integers(0, 3, (rows // 4, 1))
    half = rows // 2
    x[half : 2 * half] = -x[:half]
    x[-1] = 0.0
    x[0], x[1], x[2] = 1e300, -1e300, np.nan
    y = drawn.normal(size=rows) * 10.0 ** drawn.integers(-2, 6, rows)
    y[half : 2 * half] = np.where(drawn.random(half) < 0.5, y[:half], -y[:half])
    y[3], y[4] = np.inf, 1e308
    return x, y
