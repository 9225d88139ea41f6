"""Faults are planted in a function wherever it is used, in whichever module it stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from typing import Any

import pytest

__all__ = ["plant"]


def plant(patch: pytest.MonkeyPatch, right: Any, wrong: Any) -> None:
    """Put a function in another's place in every module of the package that knows it."""
    places = [
        (module, name)
        for key, module in list(sys.modules.items())
        if key == "unacorda" or key.startswith("unacorda.")
        for name, value in list(vars(module).items())
        if value is right
    ]
    assert places, right
    for module, name in places:
        patch.setattr(module, name, wrong)
