"""Many small cases in one test: each is a subtest, so that all that fail are told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["in_subtests"]

_Test = Callable[..., None]


def in_subtests(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[_Test], _Test]:
    """As `pytest.mark.parametrize`, but in one test, whose fixtures all cases share.

    For cases that change nothing that a later one sees, such as refusals.
    """
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    found = list(cases)
    several = len(listed) > 1
    if callable(ids):
        ids = ["-".join(str(ids(v)) for v in (case if several else (case,))) for case in found]
    labels = [None] * len(found) if ids is None else [str(label) for label in ids]
    assert found, "no cases"
    assert not any(hasattr(case, "marks") for case in found), "a case with marks is a test"

    def decorate(test: _Test) -> _Test:
        signature = inspect.signature(test)
        outer = [p for name, p in signature.parameters.items() if name not in listed]
        asked = "subtests" in signature.parameters
        if not asked:
            own = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            outer.insert(0, own)

        @functools.wraps(test)
        def every_case(**fixtures: Any) -> None:
            subtests: pytest.Subtests = fixtures["subtests"]
            passed = fixtures if asked else {k: v for k, v in fixtures.items() if k != "subtests"}
            for label, case in zip(labels, found, strict=True):
                values = dict(zip(listed, case if several else (case,), strict=True))
                with subtests.test(label, **({} if label else values)):
                    test(**passed, **values)

        vars(every_case).pop("__wrapped__")
        vars(every_case)["__signature__"] = signature.replace(parameters=outer)
        return every_case

    return decorate
