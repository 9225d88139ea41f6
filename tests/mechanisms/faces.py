"""All public mechanisms and functions, whatever package shows them, for tests over all."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from typing import Any

from unacorda import mechanisms

FACES = [face for name in dir(mechanisms) if inspect.ismodule(face := getattr(mechanisms, name))]


class Everything:
    """Every public name as an attribute, and all of them as `__all__`.

    Statistics and workloads are left out: they are what mechanisms are asked.
    """

    __all__: list[str]

    def __init__(self) -> None:
        found = {
            name: value
            for face in (*FACES, mechanisms)
            for name in face.__all__
            if not inspect.ismodule(value := getattr(face, name))
            and not any(part in value.__module__ for part in ("statistics", "workloads"))
        }
        self.__dict__.update(found, __all__=sorted(found))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


everything = Everything()
