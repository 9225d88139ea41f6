"""The examples of private training run: plans, tables and pictures come out."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.examples.running import lines_of

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("private_training", r"epsilon 8 +9\d\.\d%"),
        ("private_flights", r"epsilon 8 +0\.[67]\d\d +0\.[567]\d\d"),
        ("private_characters", r"epsilon 8 +[34]\.\d\d\d bits a character .noise: 0\.0\d\d."),
    ],
)
def test_they_run_whole(name: str, table: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    quick = [] if name == "private_training" else ["--quick"]
    lines = lines_of(f"{name}.py", "--picture", str(picture), *quick)
    assert lines[0].startswith("promise ")
    assert any(re.fullmatch(table, line) for line in lines)
    assert re.match(r"One run shows an epsilon of \d+\.\d\d at least; promised: \d", lines[-2])
    assert lines[-1] == f"A picture is in {picture}."
    assert picture.read_text().rstrip().endswith("</svg>")
