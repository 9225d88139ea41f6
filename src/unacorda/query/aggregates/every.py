"""All aggregates there are: those of the modules of this package that have a tag of their own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import pkgutil

from unacorda.query import aggregates
from unacorda.query.aggregates.base import Aggregate

__all__ = ["EVERY"]


def _found() -> tuple[type[Aggregate], ...]:
    kinds: dict[str, type[Aggregate]] = {}
    for module in pkgutil.iter_modules(aggregates.__path__):
        if f"{aggregates.__name__}.{module.name}" == __name__:
            continue
        held = vars(importlib.import_module(f"{aggregates.__name__}.{module.name}"))
        for kind in held.values():
            if isinstance(kind, type) and issubclass(kind, Aggregate) and "tag" in vars(kind):
                kinds[kind.tag] = kind
    return tuple(kinds[tag] for tag in sorted(kinds))


EVERY = _found()
"""The classes of what `agg` takes."""
