"""Theorems and their sources: every public function that bounds a number says what it proves."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

from unacorda import accounting

INNER = re.compile(
    r"accounting\.(contour|pld|filters|calibration|rules|laws"
    r"|profiles\.(amplified|atoms|boxes|curves))\b"
)
"""Rooms whose functions are steps of a proof, told where the engine states its theorem."""

COUNTS = ["shuffled_parts"]
"""Functions that bound nothing."""


def stated() -> Iterator[tuple[str, str]]:
    """The name and the docstring of every public function of the other modules."""
    for found in pkgutil.walk_packages(accounting.__path__, f"{accounting.__name__}."):
        if INNER.search(found.name):
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            own = inspect.isfunction(inspect.unwrap(value)) if callable(value) else False
            if own and value.__module__ == found.name and not name.startswith("_"):
                yield f"{found.name}.{name}", inspect.getdoc(value) or ""


def test_every_function_says_its_source_and_bound() -> None:
    known = list(stated())
    assert len(known) > 80
    for name, document in known:
        if name.rpartition(".")[2] not in COUNTS:
            assert "Source" in document, name
            assert "Bound" in document, name
