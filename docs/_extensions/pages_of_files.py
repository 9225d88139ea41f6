"""Pages of files that lie outside of docs/, and links to them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {
    "CHANGELOG.md": "project/changelog",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "benchmarks/README.md": "project/benchmarks",
    **{
        f"benchmarks/{page.name}": f"project/benchmarks-{page.stem}"
        for page in sorted((ROOT / "benchmarks").glob("*.md"))
        if page.name != "README.md"
    },
}
"""Files of the repository, and their page."""

LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\(([^)\s]+)\)")


def write_pages(_: object) -> None:
    """Write a page for each file, with what the file says."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text()
        written = ROOT / "docs" / f"{page}.md"
        written.parent.mkdir(exist_ok=True)
        text = _with_links(text, ROOT / source, written)
        if not written.exists() or written.read_text() != text:
            written.write_text(text)


def rewrite_links(app: Any, page: str, source: list[str]) -> None:
    """Point links to files outside of docs/ to their pages; other files are named without one."""
    own = Path(app.srcdir) / f"{page}.md"
    if page not in PAGES.values() and own.suffix == ".md":
        source[0] = _with_links(source[0], own, own)


def _with_links(text: str, own: Path, written: Path) -> str:
    return LINK.sub(lambda found: _moved(found, own, written), text)


def _moved(found: re.Match[str], own: Path, written: Path) -> str:
    """The link of a file, as it is from the page that is written of it."""
    text, address = found.groups()
    if "://" in address or address.startswith(("#", "mailto:")):
        return found.group()
    place, _, anchor = address.partition("#")
    target = (own.parent / place).resolve()
    if not target.is_relative_to(ROOT):
        return found.group()
    inside = str(target.relative_to(ROOT))
    if inside in PAGES:
        target = ROOT / "docs" / f"{PAGES[inside]}.md"
    elif target.is_dir() and (target / "README.md").exists():
        target = target / "README.md"
    elif target == ROOT / "docs" / "proofs":
        target = target / "index.md"
    elif target == ROOT / "README.md":
        target = ROOT / "docs" / "index.md"
    elif not target.is_relative_to(ROOT / "docs"):
        return f"{text} (`{inside}`)" if inside not in text else text
    near = os.path.relpath(target, written.parent)
    return f"[{text}]({near}{'#' + anchor if anchor else ''})"


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", lambda app, _: write_pages(app))
    app.connect("source-read", rewrite_links)
    return {"parallel_read_safe": True}
