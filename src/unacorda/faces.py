"""Faces of packages: public names, each loaded from its module when it is first used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any


def face(
    package: str, file: str
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__all__`, `__getattr__` and `__dir__` of a package that loads names as they are read.

    file: its `__init__.py`. The stub of the same name (`.pyi`) lists the names, each with its
    module, for type checkers and for this function.
    """
    with open(f"{file}i", encoding="utf-8") as stub:
        lines = re.findall(r"^from (\S+) import \(?\s*(\w+) as \2\b", stub.read(), re.MULTILINE)
    homes = {name: home for home, name in lines if not name.startswith("_")}

    def read(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(homes[name]), name)

    return sorted(homes), read, lambda: sorted(homes)
