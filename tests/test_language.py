"""Words that are not the field's: code and pages have none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(mend|wished|foretold|told|whoever|nobody|anybody|she|hers?|neighbours?|neighbouring|loudness)\b",
    re.IGNORECASE,
)


def words(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The words found in each file that has any."""
    found = {str(path.relative_to(ROOT)): WORDS.findall(path.read_text()) for path in paths}
    return {path: here for path, here in found.items() if here}


def test_a_word_is_seen() -> None:
    assert WORDS.findall("Whoever told her of shell, others and neighbors") == [
        "Whoever",
        "told",
        "her",
    ]


def test_the_code_has_none() -> None:
    assert words((ROOT / "src" / "unacorda").rglob("*.py")) == {}


def test_pages_have_none() -> None:
    # Pages that the site makes of other files are no pages of their own.
    made = ("docs/project/", "docs/reference/")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages = [page for page in pages if not str(page.relative_to(ROOT)).startswith(made)]
    assert words(pages) == {}
