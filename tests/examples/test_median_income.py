"""The example of the private median income runs, and says what is true."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

import pytest
from tests.examples.running import lines_of, names_of

from unacorda.bits import SeededBits

EXAMPLE = "median_income.py"


@pytest.mark.long
def test_it_runs() -> None:
    assert len(lines_of(EXAMPLE)) == 6


def test_it_says_what_is_true() -> None:
    names = names_of(EXAMPLE)
    incomes, report = names["incomes"], names["report"]
    values = incomes()
    assert len(values) == 1000
    ordered = sorted(values)
    first, *told, last = report(values, bits=SeededBits(1))
    assert first.endswith(f"{ordered[499]:,}")
    assert last
    for line in told:
        answer = int(re.search(r": ([\d,]+) by", line)[1].replace(",", ""))  # type: ignore[index]
        ranks = float(re.search(r"within ([\d.]+) ranks", line)[1])  # type: ignore[index]
        below = sum(value < answer for value in ordered)
        up_to = sum(value <= answer for value in ordered)
        assert below - ranks <= 500 <= up_to + ranks
        if line.startswith("epsilon 1:"):
            assert abs(answer - ordered[499]) < 500
    # The same answers for a seed; they follow the budget's own selection.
    assert report(values, bits=SeededBits(1))[1:-1] == told
    assert ["permute" in line for line in told] == [True, True, False, False]
