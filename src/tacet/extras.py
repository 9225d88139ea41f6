"""Heavy packages through one door: imported where they are used, missed in plain words."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from typing import Any

from tacet.errors import MissingExtra

__all__ = ["require"]


def require(package: str, *, extra: str) -> Any:
    """The imported package; MissingExtra with the command that installs it, if it is not there.

    >>> require("math", extra="none").pi > 3
    True
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        pass
    raise MissingExtra(package, extra=extra)
