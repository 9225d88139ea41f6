"""Check the built pages: what they load, and how long they are.

python docs/_extensions/check_pages.py build/docs
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
MOST_WORDS = 1500
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["'](https?:)?//[^"']*""",
    re.IGNORECASE,
)
LINKED = re.compile(r"""<link\b[^>]*\brel=["'](?:canonical|alternate)["']""", re.IGNORECASE)
IMPORTED = re.compile(r"""(?:url\(|@import\s+)["']?(?:https?:)?//""")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\|.*$|<!--.*?-->", re.MULTILINE)
TABLES = ("project", "reference", "_made")
"""Where rows of tables are no words: figures, options and functions are looked up, not read."""


def faults(site: Path) -> list[str]:
    """What is wrong, a line each."""
    found = []
    for page in sorted(site.rglob("*.html")):
        found += [
            f"{page.relative_to(site)} loads from elsewhere: {tag.group()[:120]}"
            for tag in LOADED.finditer(page.read_text())
            if not LINKED.match(tag.group())
        ]
    found += [
        f"{sheet.relative_to(site)} loads from elsewhere"
        for sheet in sorted(site.rglob("*.css"))
        if IMPORTED.search(sheet.read_text(errors="replace"))
    ]
    return found + [fault for page in sorted(DOCS.rglob("*.md")) for fault in too_long(page)]


def too_long(page: Path) -> list[str]:
    """What is wrong with the length of a page."""
    name = str(page.relative_to(DOCS).with_suffix(""))
    folder, text = name.partition("/")[0], BLOCK.sub("", page.read_text())
    if folder == "proofs" or name.startswith("reference/python"):
        return []
    words = len((ROW.sub("", text) if folder in TABLES else text).split())
    return [f"docs/{name}.md has {words:,} words: at most {MOST_WORDS:,}"] * (words > MOST_WORDS)


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)
