"""Open every page in Chromium, narrow and wide, light and dark, and say what is wrong.

python docs/_extensions/open_pages.py build/docs [PICTURES]

Needs `pip install '.[browser]'` and Chromium. PICTURES: a folder for pictures of the first pages.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

WIDTHS = (390, 1200)
SCHEMES = ("light", "dark")
NEAR = ("file:", "data:", "blob:")
SHOWN = (
    *("index", "start/first-answer", "understand/epsilon"),
    "reference/python/names/unacorda.Session",
)


def faults_of(page: Any, address: str, axe: Any) -> list[str]:
    """What is wrong with one page as it is shown."""
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(NEAR) else said.append(one.url))
    page.goto(address)
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        said.append(f"scrolls sideways by {wide} pixels")
    if axe is not None:
        found = axe.run(page, options={"preload": False}).response["violations"]
        said += [
            f"axe: {one['id']} ({one['impact']}): {one['nodes'][0]['html'][:120]}" for one in found
        ]
    return said


def main(site: Path, pictures: Path | None) -> int:
    """Open all pages; the number of faults."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    root = hasattr(os, "getuid") and os.getuid() == 0
    pages = sorted(page for page in site.rglob("*.html") if "_static" not in page.parts)
    number = 0
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if root else []
        )
        for width in WIDTHS:
            for scheme in SCHEMES:
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                for path in pages:
                    # The rules of axe do not depend on the width: they run on the wide pages.
                    page = context.new_page()
                    axe = Axe() if width == WIDTHS[-1] else None
                    name = str(path.relative_to(site).with_suffix(""))
                    for fault in faults_of(page, path.resolve().as_uri(), axe):
                        number += 1
                        print(f"{name}, {width} pixels, {scheme}: {fault}", flush=True)
                    if pictures is not None and name in SHOWN:
                        file = f"{name.replace('/', '-')}-{width}-{scheme}.png"
                        page.screenshot(path=str(pictures / file))
                    page.close()
                context.close()
        browser.close()
    print(f"{len(pages)} pages, {number} faults")
    return number


if __name__ == "__main__":
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    sys.exit(1 if main(Path(sys.argv[1]), folder) else 0)
