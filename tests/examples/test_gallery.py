"""The gallery: every picture can be drawn anew, and says what the one that is shown says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unacorda import plots

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "gallery.md").read_text()
SHOWN = re.findall(r"!\[[^\]]+\]\(gallery/(\w+)\.svg\)", PAGE)


@pytest.fixture(scope="module")
def gallery() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "gallery.py"))


def words(path: Path) -> set[str]:
    """The texts of a picture that are more than a number: labels, legends, titles."""
    found = {
        "".join(node.itertext()).strip()
        for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    }
    return {text for text in found if re.search(r"[a-z]{3}", text)}


def test_every_kind_of_picture_is_shown(gallery: dict[str, Any]) -> None:
    assert sorted([*gallery["PICTURES"], "new_axes"]) == sorted(plots.__all__)
    assert sorted([*SHOWN, "new_axes"]) == sorted(plots.__all__)
    assert {path.stem for path in (DOCS / "gallery").iterdir()} == set(SHOWN)
    for name in SHOWN:
        assert f"`plots.{name}`" in PAGE


@pytest.mark.long
@pytest.mark.parametrize("name", SHOWN)
def test_drawn_anew_it_says_the_same(gallery: dict[str, Any], tmp_path: Path, name: str) -> None:
    kept = DOCS / "gallery" / f"{name}.svg"
    assert kept.stat().st_size < 80_000  # small enough to be kept
    anew = gallery["draw"](name, tmp_path)
    assert len(words(kept)) >= 2
    assert words(anew) == words(kept)
