"""Without PyTorch the room can be entered, and says at the first step what is missing."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from unacorda import ApproxDP, learning
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
        lambda: learning.evaluate(None, [], learning.hits, budget=None),
        lambda: learning.movement([], []),
        lambda: learning.watch(None, []),
        lambda: learning.ClippedSums(None, bound=1.0),
        lambda: learning.PrivateTraining(
            None, None, (), budget=ApproxDP(1, 1e-6), batch_size=1, clip=1.0
        ),
        lambda: learning.fit(None, max, (), budget=ApproxDP(1, 1e-6)),
        lambda: learning.plan_search(max, [1], budget=ApproxDP(1, 1e-6), tries=2),
        lambda: learning.search(max, [1], loss=max, held_out=(), budget=ApproxDP(1, 1e-6), tries=2),
    ]
    for call in calls:
        with pytest.raises(MissingExtra, match=r"pip install 'unacorda\[learning\]'"):
            call()
