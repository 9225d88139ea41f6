"""The example of training that audits itself runs, and finds what it is said to find."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.running import lines_of, names_of

from unacorda import SeededBits

pytest.importorskip("torch")
pytest.importorskip("matplotlib")


@pytest.mark.statistical
def test_a_kept_promise_holds_and_a_broken_one_is_found() -> None:
    # A 95 % bound exceeds the truth in one run of twenty; under this seed neither does.
    found = names_of("attacks/training.py")["attacks"](bits=SeededBits(1))
    assert found["wrong labels"].bound.epsilon <= 1
    assert 0.2 < found["gradients"].bound.epsilon <= 1
    broken = found["gradients, noise divided twice"]
    assert broken.bound.epsilon > 5
    assert broken.auc > 0.99


@pytest.mark.slow
def test_it_runs_whole(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    lines = lines_of("attacks/training.py", "--picture", str(picture))
    assert len(lines) == 4
    assert lines[-1] == f"drawn: {picture}"
    assert picture.read_text().rstrip().endswith("</svg>")
