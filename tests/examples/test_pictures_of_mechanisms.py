"""The pictures of mechanisms: all are shown, and drawn anew they say what the shown ones say."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.tiers import mostly_slow

PAGES = Path(__file__).parents[2] / "docs" / "mechanisms"
SHOWN = sorted(
    name
    for page in PAGES.glob("*.md")
    for name in re.findall(r"!\[[^\]]+\]\((\w+)\.svg\)", page.read_text())
)


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    return runpy.run_path(str(PAGES / "pictures.py"))


def drawn(path: Path) -> tuple[list[str], list[list[float]]]:
    """The texts of a picture, and where its lines run, in tenths of a point."""
    texts, lines = [], []
    for node in ElementTree.parse(path).iter():
        if node.tag.endswith("}text"):
            texts.append("".join(node.itertext()).strip())
        elif node.tag.endswith("}path"):
            numbers = re.findall(r"-?\d+(?:\.\d+)?", node.get("d", ""))
            lines.append([round(float(number), 1) for number in numbers])
    return texts, lines


@pytest.mark.long
def test_every_picture_is_shown(pictures: dict[str, Any]) -> None:
    assert sorted(pictures["PICTURES"]) == SHOWN
    assert {path.stem for path in PAGES.glob("*.svg")} == set(SHOWN)


@pytest.mark.parametrize("name", mostly_slow(SHOWN, quick=0))
def test_drawn_anew_it_is_the_same(pictures: dict[str, Any], tmp_path: Path, name: str) -> None:
    texts, lines = drawn(PAGES / f"{name}.svg")
    assert len(texts) > 10
    anew, run = drawn(pictures["draw"](name, tmp_path))
    assert anew == texts
    assert len(run) == len(lines)
    for one, other in zip(run, lines, strict=True):
        assert one == pytest.approx(other, abs=0.3)
