"""`unacorda server`: an example that is checked, and tokens that come and go."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from unacorda.server.config import read_config
from unacorda.server.store import opened


@pytest.mark.long
def test_an_example_is_written_and_checked(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert run("server", "example", str(folder)).code == 0
    assert run("server", "example", str(folder)).code == 2  # not over what is there
    file = folder / "server.toml"
    said = json.loads(run("server", "check", str(file), "--json").out)
    assert said["unavailable"] == {}
    assert said["datasets"]["visits"]["analysts"] == ["ana", "ben"]
    file.write_text(file.read_text().replace("ben = { rho = 0.05 }", "ben = { rho = 0.06 }"))
    ran = run("server", "check", str(file))
    assert ran.code == 0
    assert "ben: ledger rho 0.05, file rho 0.06" in " ".join(ran.err.split())
    file.write_text(file.read_text().replace('"visits.csv"', '"none.csv"'))
    assert run("server", "check", str(file)).code == 2


@pytest.mark.long
def test_tokens_are_made_listed_and_revoked(run: Run, tmp_path: Path) -> None:
    run("server", "example", str(tmp_path / "demo"))
    file = str(tmp_path / "demo" / "server.toml")
    assert "No tokens yet" in run("server", "token", "list", file).out
    made = run("server", "token", "add", file, "ana", "--days", "3", "--note", "a try").out.strip()
    prefix, name, secret = made.split("_", 2)
    assert prefix == "unacorda"
    assert len(secret) == 43
    listed = run("server", "token", "list", file, "--json").out
    (token,) = json.loads(listed)["tokens"]
    assert (token["id"], token["analyst"], token["role"]) == (name, "ana", "analyst")
    assert secret not in listed
    assert "hash" not in token
    assert run("server", "token", "revoke", file, name).code == 0
    assert run("server", "token", "revoke", file, name).code == 2
    assert run("server", "token", "add", file, "ana", "--days", "400").code == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('listen = "0.0.0.0:80"', "behind_proxy"),
        ('listen = "nowhere"', "listen"),
        ('public_url = "ask.example"', "public_url"),
        ('ledger = "mysql://x:secret@y"', "ledger"),
        ('store = "env:UNACORDA_NO_SUCH"', "store"),
        ("queue = 0", "queue"),
        ("timeout = -1", "timeout"),
        ("wings = 2", "wings"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    run: Run, tmp_path: Path, line: str, said: str
) -> None:
    run("server", "example", str(tmp_path / "demo"))
    file = tmp_path / "demo" / "server.toml"
    file.write_text(file.read_text().replace("[server]\n", f"[server]\n{line}\n", 1))
    if "listen" in line:
        file.write_text(file.read_text().replace('listen = "127.0.0.1:8040"\n', ""))
    ran = run("server", "check", str(file))
    assert ran.code == 2
    assert said in ran.err
    assert "secret" not in ran.err


@pytest.mark.long
def test_limits_are_opened_changed_and_closed(run: Run, tmp_path: Path) -> None:
    run("server", "example", str(tmp_path / "demo"))
    file = str(tmp_path / "demo" / "server.toml")
    verb = ("server", "analyst")
    added = run(*verb, "add", file, "visits", "eve", "rho=0.05")
    assert added.out.strip() == "eve in visits: rho 0.05 of 0.05 left", added.out
    assert run(*verb, "add", file, "visits", "eve", "rho=0.05").code == 2
    assert run(*verb, "limit", file, "visits", "eve", "rho=0.07").code == 0
    assert run(*verb, "close", file, "visits", "eve").code == 0
    for wrong in (
        ("limit", file, "visits", "nix", "rho=1"),
        ("limit", file, "nix", "eve", "rho=1"),
        ("limit", file, "visits", "eve", "rho=-1"),
        ("limit", file, "visits", "eve", "much"),
        ("add", file, "visits", "zoe", "epsilon=1"),
    ):
        assert run(*verb, *wrong).code == 2, wrong
    with opened(read_config(Path(file)).store) as store:
        assert store.verify_acts() == 5
        assert [one.what for one in store.acts()] == [
            *("add analyst", "limit", "close", "add analyst", "add analyst, refused")
        ]
    document = json.loads(run("server", "openapi", file).out)
    assert document["openapi"] == "3.1.0"


@pytest.mark.long
def test_rows_of_a_person_are_found_once(run: Run, tmp_path: Path) -> None:
    run("server", "example", str(tmp_path / "demo"))
    file = tmp_path / "demo" / "server.toml"
    verb = ("server", "find-max-rows", str(file))
    first = run(*verb, "visits", "--budget", "rho=0.01").out
    assert re.fullmatch(r'unit = \{ person = "patient", max_rows = \d+ \}\n', first), first
    assert run(*verb, "visits", "--budget", "rho=0.01").out == first
    said = json.loads(run("server", "check", str(file), "--json").out)["datasets"]["visits"]
    assert said["left"] == "ZCDP(rho=0.49)"
    assert run(*verb, "nix", "--budget", "rho=0.01").code == 2
    file.write_text(file.read_text().replace("max_rows = 4", 'max_rows = "auto"'))
    assert run("server", "check", str(file)).code == 2
    file.write_text(re.sub(r"unit = .*", first.strip(), file.read_text()))
    assert run("server", "check", str(file)).code == 0
