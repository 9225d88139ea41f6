"""Tests that name no source of bits draw the same noise in every run.

`SecureBits` and `SystemBits` ask the operating system through `unacorda.bits.os`. Here that answers
with words that follow from the name of the test, or of the shared fixture, that is running, so
that what passes by luck always passes and what fails by chance always fails. In a process that a
test forks the words are others; processes that it starts anew ask the real system.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Generator
from hashlib import shake_256
from typing import Any

import pytest
from tests.support.services import admit

from unacorda import bits

__all__: list[str] = []

# The test extra does not bring PyTorch; without it docstrings that import it are no examples.
collect_ignore = [] if importlib.util.find_spec("torch") else ["src/unacorda/learning"]


class _System:
    """As much of `os` as bits are drawn from."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.begin("")

    def begin(self, name: str) -> None:
        """Draw what belongs to this name from now on, streams that are already open included."""
        self._name, self._drawn = name, itertools.count()
        bits._GENERATION.advance()  # noqa: SLF001

    @property
    def state(self) -> tuple[str, itertools.count[int]]:
        return self._name, self._drawn

    @state.setter
    def state(self, state: tuple[str, itertools.count[int]]) -> None:
        self._name, self._drawn = state
        bits._GENERATION.advance()  # noqa: SLF001

    def getpid(self) -> int:
        return os.getpid()

    def urandom(self, size: int) -> bytes:
        own = os.getpid()
        process = "" if own == self._process else own
        return shake_256(f"{self._name} {next(self._drawn)} {process}".encode()).digest(size)


_SYSTEM = _System()


def pytest_configure() -> None:
    vars(bits)["os"] = _SYSTEM


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _SYSTEM.begin(item.nodeid)
    admit(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    before = _SYSTEM.state
    _SYSTEM.begin(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}")
    try:
        return (yield)
    finally:
        _SYSTEM.state = before
