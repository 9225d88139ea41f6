"""The example of the flights over time runs, and its table is that of the page."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.examples.running import lines_of, names_of

from unacorda import OverTime

EXAMPLE = "flights_over_time.py"
PAGE = (Path(__file__).parents[2] / "docs" / "over-time.md").read_text()


def test_the_bound_keeps_what_the_page_states() -> None:
    kept_by_day = names_of(EXAMPLE)["kept_by_day"]
    for person, stated in (
        (OverTime(max_steps=10), ("15%", "2%", "116,182")),
        (OverTime(max_steps=20, within=30), ("99%", "99%", "1,999")),
    ):
        every, kept = kept_by_day(person)
        assert every.sum() == 251_411
        late = kept[-30:].sum() / every[-30:].sum()
        lost = (every - kept).cumsum()
        bias = (lost.astype(float) ** 2).mean() ** 0.5
        assert (f"{kept.sum() / every.sum():.0%}", f"{late:.0%}", f"{bias:,.0f}") == stated


@pytest.mark.slow
def test_the_table_of_the_page_is_what_it_prints() -> None:
    rows = re.findall(r"^\| .*?(\d+%) \| (\d+%) \| ([\d,]+) \| (\d+) \|$", PAGE, re.MULTILINE)
    text = " ".join(" ".join(line.split()) for line in lines_of(EXAMPLE))
    assert len(rows) == 7
    for row in rows:
        assert " ".join(row) in text
