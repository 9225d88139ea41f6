"""`unacorda ask`: a server asked from a shell."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.server.test_running import configured, running

from unacorda.server.config import read_config
from unacorda.server.store import opened
from unacorda.server.tokens import make_token

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    path = configured(tmp_path_factory.mktemp("served"))
    config = read_config(path)
    with running(path), opened(config.store) as store:
        token = path.with_name("token")
        token.write_text(make_token(store, "ana", role="analyst") + "\n")
        yield config.public_url, token


@pytest.mark.long
def test_it_answers_explains_and_tries(clinic: tuple[str, Path], run: Run) -> None:
    url, token = clinic
    ask = ("ask", url, "--token-file", str(token))
    first = run(*ask, "--rho", "0.01", COUNT)
    assert first.code == 0, first.err
    assert "cost" in first.out
    assert "is left" in first.out
    assert "answered before" in run(*ask, "--rho", "0.01", COUNT).out
    release = json.loads(run(*ask, "--rho", "0.01", "--json", COUNT).out)
    assert release["format"] == "unacorda release 1"
    assert run(*ask, "--rho", "0.01", "--explain", COUNT).code == 0
    assert json.loads(run(*ask, "--rho", "0.01", "--explain", "--json", COUNT).out)["affordable"]
    tried = run(*ask, "--rho", "0.05", "--try", COUNT)
    assert "made up" in tried.out + tried.err
    assert "rho" in run(*ask, "--error", "20", COUNT).out


@pytest.mark.long
def test_what_cannot_be_asked_is_refused(clinic: tuple[str, Path], run: Run) -> None:
    url, token = clinic
    ask = ("ask", url, "--token-file", str(token))
    for wrong in (
        (*ask, COUNT),
        (*ask, "--rho", "0.01", "--error", "2", COUNT),
        (*ask, "--rho", "0.01", "--explain", "--try", COUNT),
        (*ask, "--rho", "x", COUNT),
        ("ask", url, "--rho", "0.01", COUNT),
        ("ask", "http://ask.example", "--token-file", str(token), "--rho", "0.01", COUNT),
    ):
        assert run(*wrong).code == 2, wrong
    assert run(*ask, "--rho", "0.01", "SELECT nix FROM visits").code != 0
    dear = run(*ask, "--rho", "3", COUNT)
    assert dear.code != 0
    assert "left" in dear.err
