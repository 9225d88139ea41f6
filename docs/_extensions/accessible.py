"""What the theme leaves out for those who read by keyboard or by ear."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CHANGES = (
    # A button without a word.
    (
        re.compile(r'<summary>(?=<span class="toctree-toggle")'),
        '<summary aria-label="Pages below">',
    ),
    # A table that scrolls has to be reached by keyboard.
    (re.compile(r"<table (?!tabindex)"), '<table tabindex="0" '),
    # A heading without words is none.
    (re.compile(r'<th(?: class="[^"]*")?>(?:<p></p>)?</th>'), "<td></td>"),
)


def change(app: Any, error: Exception | None) -> None:
    """Change the pages when all are written."""
    if error is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = changed = page.read_text()
        for pattern, words in CHANGES:
            changed = pattern.sub(words, changed)
        if changed != text:
            page.write_text(changed)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", change)
    return {"parallel_read_safe": True}
