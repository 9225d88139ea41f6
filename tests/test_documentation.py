"""The Python in the pages of docs/ runs, and prints what the page says."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from tests.tiers import mostly_slow

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if ">>>" in page.read_text()
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert "accounting.md" in PAGES


@pytest.mark.parametrize("page", mostly_slow(PAGES, quick=3))
def test_examples_of_the_page_run(page: str) -> None:
    text = (DOCS / page).read_text()
    code = "\n".join(block for block in BLOCK.findall(text) if ">>>" in block)
    if "import torch" in code:
        pytest.importorskip("torch")  # the test extra does not bring it
    example = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)
