"""No row moves the numbers that moments are found from further than their noise is told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import exp, mpf, sqrt
from tests.support.cases import in_subtests
from tests.support.seams import CROSSED, PAIRED, SQUARED, Reach, Strategy, noise_quantile

SIZE = 40  # of the grid on [-1, 1] by which rows are tried


def _rows(strategy: Strategy) -> Any:
    """What every row of a fine grid adds, and nothing."""
    u = np.arange(-SIZE, SIZE + 1) / SIZE
    if len(strategy.matrix[0]) == 3:
        moments = np.stack([np.ones_like(u), u, u**2], axis=-1)
    else:
        u, v = np.array(list(itertools.product(u[::8], u[::8]))).T
        squares = [u**2, v**2] if len(strategy.matrix[0]) == 6 else []
        moments = np.stack([np.ones_like(u), u, v, *squares, u * v], axis=-1)
    added = moments @ np.array(strategy.matrix, dtype=float).T
    return np.concatenate([added, np.zeros((1, added.shape[1]))])


ALL = {
    "squared, l1": (SQUARED.l1, 1),
    "squared, l2": (SQUARED.l2, 2),
    "paired, l1": (PAIRED.l1, 1),
    "paired, l2": (PAIRED.l2, 2),
    "crossed, l1": (CROSSED.l1, 1),
    "crossed, l2": (CROSSED.l2, 2),
}
HULLS = {"squared, l2": 0.99, "crossed, l1": 0.95}


@in_subtests("name", ALL)
@in_subtests("replaced", [False, True])
def test_sensitivities_are_those_of_the_worst_rows(name: str, *, replaced: bool) -> None:
    """Of several rows in one cell: at most as told, and nearly (a polygon stands for a curve)."""
    strategy, power = ALL[name]
    added = _rows(strategy)
    for rows in (1, 2, 5):
        reach = Reach.within(max_rows=rows, cells=1, replaced=replaced)
        told = strategy.sensitivity(reach, one=1)
        limit = float(told.l1) if power == 1 else float(told.l2_squared)
        worst = 0.0
        for here, there in itertools.product(range(rows + 1), range(rows + 1 if replaced else 1)):
            # The sum of several rows is as far off as that of the farthest one so many times.
            change = here * added[:, None, :] - there * added[None, :, :]
            worst = max(worst, float((np.abs(change) ** power).sum(axis=-1).max()))
        assert worst <= limit * (1 + 1e-12)
        assert worst >= limit * (HULLS.get(name, 1 - 1e-12) if replaced else 1 - 1e-12)


@in_subtests("name", ALL)
def test_sensitivities_grow_with_the_unit_of_one(name: str) -> None:
    strategy, _ = ALL[name]
    reach = Reach.within(max_rows=2, cells=3, replaced=False)
    one, many = (strategy.sensitivity(reach, one=unit) for unit in (1, 2**40 + 1))
    assert many.l1 == one.l1 * (2**40 + 1)
    assert many.l2_squared == one.l2_squared * (2**40 + 1) ** 2


@in_subtests("name", ALL)
def test_the_moments_come_back(name: str) -> None:
    strategy, _ = ALL[name]
    matrix = np.array(strategy.matrix, dtype=float)
    np.testing.assert_allclose(strategy.inverse @ matrix, np.eye(len(matrix)), atol=1e-14)


def _beyond(weights: Any, t: float) -> Any:
    """P(|sum of weighted Laplace noises of standard deviation 1| > t), by partial fractions."""
    scales = [mpf(float(w)) / sqrt(2) * (1 + mpf(10) ** -9 * i) for i, w in enumerate(weights)]
    total = mpf(0)
    for i, one in enumerate(scales):
        part = exp(-t / one)
        for j, other in enumerate(scales):
            part *= 1 if i == j else one**2 / (one**2 - other**2)
        total += part
    return total


@pytest.mark.parametrize("chance", [0.05, 0.045, 0.005, 0.00125])
def test_no_combination_of_laplace_noises_is_beyond_its_quantile_more_often(chance: float) -> None:
    """Weights of length 1: few and many, level and not, also next to a single one."""
    from mpmath import mp

    source = np.random.default_rng(1)
    shares = [np.array([x, 1 - x]) for x in np.linspace(0.5, 1 - 1e-5, 40)]
    shares += [np.ones(k) / k for k in (3, 4, 6)]
    shares += [w for k in (2, 3, 4, 6) for w in source.dirichlet([0.4] * k, 30)]
    t = noise_quantile(chance, laplace=True)
    with mp.workdps(60):
        for share in shares:
            assert _beyond(np.sqrt(np.maximum(share, 1e-12)), t) <= chance
        # For a single one it is exact, up to what is added for rounding.
        assert _beyond([1.0], t) == pytest.approx(chance, rel=1e-4)


def test_the_normal_quantile_is_the_normal_s() -> None:
    assert math.erfc(noise_quantile(0.045, laplace=False) / math.sqrt(2)) == pytest.approx(
        0.045, rel=1e-4
    )
    assert Fraction(noise_quantile(0.05, laplace=False)) > Fraction(1.959963984)
