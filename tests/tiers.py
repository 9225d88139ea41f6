"""Which cases of a parametrized test run by default, and which with the long or the slow ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["mostly_long", "mostly_slow"]


def mostly_slow(cases: Iterable[Any], *, quick: int = 1) -> list[Any]:
    """The cases for `parametrize`, the first `quick` of them as they are, the others marked slow.

    A case is a value, or a tuple of values for several arguments.
    """
    return _marked(cases, pytest.mark.slow, quick)


def mostly_long(cases: Iterable[Any], *, quick: int = 1) -> list[Any]:
    """As `mostly_slow`, the others marked long."""
    return _marked(cases, pytest.mark.long, quick)


def _marked(cases: Iterable[Any], mark: pytest.MarkDecorator, quick: int) -> list[Any]:
    found = list(cases)
    return [*found[:quick], *(_with(case, mark) for case in found[quick:])]


def _with(case: Any, mark: pytest.MarkDecorator) -> Any:
    # `pytest.param` keeps its own class to itself; it is a tuple of values, marks and id.
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, mark], id=case.id)
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=mark)
