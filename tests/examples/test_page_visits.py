"""The example of the page visits runs, and says what is true."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.examples.running import lines_of, names_of

from unacorda.bits import SeededBits

EXAMPLE = "page_visits.py"


@pytest.mark.long
def test_it_runs() -> None:
    assert len(lines_of(EXAMPLE)) == 3


def test_it_says_what_is_true() -> None:
    names = names_of(EXAMPLE)
    visits, report = names["visits"], names["report"]
    per_person = visits()
    total = per_person.sum()

    def told(line: str) -> list[int]:
        return [int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*", line)]

    first, below, found = report(per_person, bits=SeededBits(1))
    assert told(first) == [total, len(per_person)]
    answer, _, people, _ = told(below)
    assert np.sort(per_person)[:-people].sum() <= answer <= 1.01 * total + 1
    level, value, deviation = told(found)
    assert abs(value - np.minimum(per_person, level).sum()) < 5 * deviation
    assert abs(value / total - 1) < 0.3
