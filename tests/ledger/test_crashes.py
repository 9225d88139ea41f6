"""Processes killed at every step, and at random: nothing is lost, doubled, overspent or torn."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.ledgers import DURABLE, address
from tests.tiers import mostly_slow

ROOT = Path(__file__).parents[2]


def crashes(kind: str, url: str | None, folder: Path, *rest: object) -> dict[str, Any]:
    """Run `tests.ledger.crashes`, which checks after each kill; it forks, so not in here."""
    command = [sys.executable, "-m", "tests.ledger.crashes", kind, url, str(folder / "log")]
    done = subprocess.run(
        [*map(str, command), *map(str, rest)],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("place", DURABLE)
@pytest.mark.parametrize(("kills", "seed"), [(30, 1), pytest.param(400, 2, marks=pytest.mark.slow)])
def test_writers_killed_at_random_lose_and_double_nothing(
    tmp_path: Path, place: str, kills: int, seed: int
) -> None:
    found = crashes("random", address(place, tmp_path), tmp_path, kills, 3, seed)
    assert found["kills"] == kills + 3
    assert found["reserved"] >= found["answered"] >= found["released"] > 0


@pytest.mark.long
@pytest.mark.parametrize("place", DURABLE)
@pytest.mark.parametrize("places", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_a_writer_killed_at_any_step_leaves_a_whole_ledger(
    tmp_path: Path, place: str, places: int
) -> None:
    last = {"sqlite": 1400, "postgres": 3600}[place]  # with opening connections
    steps = ",".join(str(last * number // places) for number in range(places))
    found = crashes("steps", address(place, tmp_path), tmp_path, f"{steps},{10**9}")
    assert found["killed"] > 5
    assert found["lived"] >= 1
    assert found["reserved"] > found["answered"] >= found["released"] >= found["lived"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "steps"),
    mostly_slow(
        [
            ("sqlite", [300, 600, 1500]),
            # Its driver is written in Python.
            pytest.param("postgres", [1500, 3000, 6000], marks=pytest.mark.service),
            pytest.param(
                "sqlite", [*range(0, 1000, 25), *range(1000, 13_000, 200)], marks=pytest.mark.slow
            ),
            pytest.param(
                "postgres", [*range(0, 15_000, 250)], marks=[pytest.mark.slow, pytest.mark.service]
            ),
        ]
    ),
)
def test_a_session_killed_between_reservation_and_release_has_paid(
    tmp_path: Path, place: str, steps: list[int]
) -> None:
    listed = ",".join(map(str, [*steps, 10**9]))
    found = crashes("stack", address(place, tmp_path), tmp_path, listed)
    assert found["killed"] >= 3
    assert found["reserved"] > found["answered"] >= found["released"]
