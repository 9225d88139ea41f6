"""Which cases of a long test run by default, and which with the slow ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["mostly_slow"]


def mostly_slow(cases: Iterable[Any], *, quick: int = 1) -> list[Any]:
    """The cases for `parametrize`, the first `quick` of them as they are, the others marked slow.

    A case is a value, or a tuple of values for several arguments.
    """
    found = list(cases)
    return [*found[:quick], *(_slow(case) for case in found[quick:])]


def _slow(case: Any) -> Any:
    # `pytest.param` keeps its own class to itself; it is a tuple of values, marks and id.
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
