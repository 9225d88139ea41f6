"""unacorda: differential privacy that people can use and experts can trust.

The names in `__init__.pyi` are the whole public face, each with the module that it lives in. They
are loaded when they are first used, so that ``import unacorda`` needs nothing outside the standard
library.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import re
from typing import Any

from unacorda._version import __version__ as __version__

with open(f"{__file__}i", encoding="utf-8") as _stub:  # nothing more is loaded for it
    _HOME = {
        name: home
        for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", _stub.read(), re.MULTILINE)
        if not name.startswith("_")
    }

__all__ = sorted(_HOME)  # noqa: PLE0605  # the stub lists them


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unacorda' has no attribute {name!r}")
    home = _HOME[name]
    if home == "unacorda":
        return importlib.import_module(f"unacorda.{name}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
