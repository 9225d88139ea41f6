"""All aggregates there are: those of the modules of this package that have a tag of their own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import pkgutil

from unacorda.query import aggregates
from unacorda.query.aggregates.base import Aggregate

__all__ = ["EVERY"]


def _found() -> tuple[type[Aggregate], ...]:
    found = pkgutil.iter_modules(aggregates.__path__, f"{aggregates.__name__}.")
    modules = [importlib.import_module(module.name) for module in found if module.name != __name__]
    kinds = {
        kind.tag: kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Aggregate) and "tag" in vars(kind)
    }
    return tuple(kinds[tag] for tag in sorted(kinds))


EVERY = _found()
"""The classes of what `agg` takes."""
