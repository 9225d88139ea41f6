"""The example of noise at local sensitivity runs, and what it shows is so."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.examples.running import lines_of, names_of

EXAMPLE = "local_sensitivity.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return names_of(EXAMPLE)


@pytest.mark.long
def test_it_runs() -> None:
    lines = lines_of(EXAMPLE)
    assert "data (1, 2, 2): 0: 0.063, 1: 0.170, 2: 0.462" in lines[0]
    assert "data (2, 2, 2): 0: 0.000, 1: 0.000, 2: 1.000" in lines[1]
    # Noise at local sensitivity is no better for a larger epsilon; at the global one it holds.
    local = [line for line in lines if line.startswith("noise at local sensitivity, epsilon")]
    assert len(local) == 2
    assert all("delta 0.876" in line for line in local)
    assert sum("global sensitivity" in line and "delta 0.000" in line for line in lines) == 2


def test_the_laws_are_discrete_laplace(example: dict[str, Any]) -> None:
    law = example["law"](3, 0.7)
    assert math.isclose(math.fsum(law.values()), 1, rel_tol=1e-12)
    assert math.isclose(law[3] / law[5], math.exp(2 / 0.7), rel_tol=1e-12)


def test_the_tells_are_what_one_law_has_and_the_other_has_not(example: dict[str, Any]) -> None:
    scale_of, law = example["at_local_sensitivity"], example["law"]
    noisy, bare = law(2, scale_of((1, 2, 2))), law(2, scale_of((2, 2, 2)))
    assert scale_of((1, 2, 2)) == 1
    assert scale_of((2, 2, 2)) == 0
    # Whatever is not 2: 1 - tanh(1/2), for every epsilon.
    for epsilon in (0.5, 50):
        found = example["excess"](noisy, bare, epsilon)
        assert math.isclose(found, 1 - math.tanh(0.5), rel_tol=1e-9)


@pytest.mark.long
def test_the_worst_pair_is_the_worst(example: dict[str, Any]) -> None:
    delta, one, other = example["worst"](example["at_local_sensitivity"], 10.0)
    assert math.isclose(delta, 1 - math.tanh(1 / 8), rel_tol=1e-9)  # scale 4 beside scale 0
    assert {one, other} in [{(0, 4, 4), (4, 4, 4)}, {(0, 0, 4), (0, 0, 0)}]
    assert example["worst"](example["at_global_sensitivity"], 1.0)[0] < 1e-12
    # The same noise is no more private than that.
    assert example["worst"](example["at_global_sensitivity"], 0.9)[0] > 0.001
