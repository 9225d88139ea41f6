"""Histograms and distribution functions: sensitivity, coverage, bad edges."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, PureDP, inference
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee


def test_cells_hold_what_they_say() -> None:
    x = [-5.0, 0.0, 0.999, 1.0, 2.0, 3.0, 99.0, math.nan, math.inf, -math.inf]
    cells = inference.histogram(x, edges=[0, 1, 2, 3], budget=PureDP(1000), bits=SeededBits(1))
    assert np.rint(cells.counts).tolist() == [4, 2, 4]  # NaN in the middle one
    frame = cells.to_pandas()
    assert frame.columns.tolist() == ["lower", "upper", "count", "standard_error"]


def test_a_replaced_person_moves_two_counts_by_one() -> None:
    edges, points = [0.0, 1.0, 2.0, 3.0], [-1.0, 0.5, 1.5, 2.5, 9.0, math.nan]
    loud = PureDP(1000)
    for first, second in itertools.product(points, repeat=2):
        a, b = (
            np.rint(inference.histogram([0.5, x], edges=edges, budget=loud).counts)
            for x in (first, second)
        )
        assert np.abs(a - b).sum() <= 2
        assert np.linalg.norm(a - b) <= math.sqrt(2)


@pytest.mark.parametrize(
    ("budget", "error"), [(GDP(1), math.sqrt(2)), (PureDP(1), 2 * math.sqrt(2))], ids=repr
)
def test_noise_is_what_the_budget_asks_for(budget: Guarantee, error: float) -> None:
    cells = inference.histogram([1.0], edges=[0, 1, 2], budget=budget)
    assert cells.privacy_error == pytest.approx(error, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "budget", mostly_slow([GDP(0.5), PureDP(1), ApproxDP(0.5, 1e-6)], quick=2), ids=repr
)
@pytest.mark.parametrize("cells", [1, 2, 40])
def test_bands_hold_the_whole_function(budget: Guarantee, cells: int) -> None:
    # At least 95 % by the theorem: fewer than 166 of 200 with p < 1e-9.
    drawn, bits = np.random.default_rng(1), SeededBits(2)
    edges = np.linspace(0, 1, cells + 1)
    truth = edges**2
    held = 0
    for _ in range(200):
        law = inference.distribution(
            np.sqrt(drawn.random(400)), edges=edges, budget=budget, bits=bits
        )
        lower, upper = law.band()
        held += bool(((lower <= truth) & (truth <= upper)).all())
        assert (np.diff(law.values) >= 0).all()
    assert held >= 166


@pytest.mark.parametrize("edges", [[0], [0, 0], [1, 0], [0, math.nan], [0, math.inf], [[0, 1]]])
def test_edges_that_cannot_be_used_are_named(edges: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^edges="):
        inference.histogram([1.0], edges=edges, budget=GDP(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0, 1, 1.5, math.nan])
def test_confidence_must_lie_within_0_and_1(confidence: float) -> None:
    with pytest.raises(InvalidParameter, match=r"^confidence="):
        inference.distribution([1.0], edges=[0, 1], budget=GDP(1), confidence=confidence)
