"""The linear map from single draws of noise to what is released, by putting draws in one by one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unacorda.mechanisms.correlated import grid

Floats = NDArray[np.float64]

UNIT = 2.0**40  # of a draw that is put in, in release steps


class Script:
    """Stands for the normal sampler: noise in whole steps, given in advance."""

    def __init__(self, noise: Floats) -> None:
        self.noise, self.used = noise, 0

    def chunk(
        self, offsets: Floats, exact: Callable[[int], Fraction], *, ratio: Fraction, bits: Any
    ) -> Floats:
        true = [exact(i) for i in range(offsets.size)]
        assert all(float(one) == offset for one, offset in zip(true, offsets, strict=True))
        floors = np.array([float(one // 1) for one in true])
        given = self.noise[self.used : self.used + offsets.size]
        assert given.size == offsets.size
        self.used += offsets.size
        return floors + given


def noise_map(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any], draws: int) -> Floats:
    """Column k: what is released if draw k is 1 release step and all others are 0."""
    columns = []
    for k in range(draws):
        script = Script(UNIT * (np.arange(draws) == k))
        monkeypatch.setattr(grid, "gaussian_chunk", script.chunk)
        columns.append(np.asarray(run(), np.float64).reshape(-1) / UNIT)
        assert script.used == draws
    monkeypatch.undo()
    return np.array(columns).T
