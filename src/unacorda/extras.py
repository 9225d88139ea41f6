"""Heavy packages: imported where they are used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from unacorda.errors import MissingExtra

__all__ = ["later", "require"]

_INSTALLED_AS = {"sklearn": "scikit-learn"}
"""What a package is called where it is installed from, where that is not its own name."""


def require(package: str, *, extra: str) -> Any:
    """The imported package; MissingExtra with the command that installs it, if it is not there.

    >>> require("math", extra="none").pi > 3
    True
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        pass
    whole = package.partition(".")[0]
    raise MissingExtra(_INSTALLED_AS.get(whole, whole), extra=extra)


class _Later:
    """A module that is imported when something of it is first asked for.

    From then on its names are found as those of the module itself, also where these change.
    """

    __slots__ = "__dict__", "_module", "_name"

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who looks at every value of a module imports nothing
            raise AttributeError(name)
        if self._module is None:
            self._module = importlib.import_module(self._name)
            self.__dict__ = self._module.__dict__
        return getattr(self._module, name)


def later(package: str) -> Any:
    """A stand-in for a package that takes long to load: it is imported at its first use.

    >>> later("math").pi > 3
    True
    """
    return _Later(package)
