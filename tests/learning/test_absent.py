"""Without PyTorch the room can be entered, and says at the first step what is missing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from unacorda import learning
from unacorda.errors import MissingExtra


@pytest.mark.long
def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, unacorda.learning; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_every_function_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    calls: list[Callable[[], object]] = [
        lambda: learning.dirac([], count=1),
        lambda: learning.scattered([], count=1),
        lambda: learning.canaries([]),
        lambda: learning.mislabelled([], count=1),
        lambda: learning.snapshot([]),
        lambda: learning.movement([], []),
        lambda: learning.watch(None, []),
    ]
    for call in calls:
        with pytest.raises(MissingExtra, match=r"pip install 'unacorda\[learning\]'"):
            call()
