"""What is exported is checked without the ledger, and no other text passes for it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.ledger.ledgers import KINDS, TERMS, address, reserve
from tests.support.cases import in_subtests
from tests.support.seams import export_account, open_ledger, read_export, verify_export

from unacorda.errors import LedgerMismatch
from unacorda.privacy.guarantees import PureDP


def exported(kind: str, folder: Path) -> list[str]:
    ledger = open_ledger(address(kind, folder))
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.5"))
    ledger.commit(reserve(ledger, PureDP("0.1"), sub_account="ana", purpose="Bericht für März\n"))
    reserve(ledger, PureDP("1/3"))
    lines = list(export_account(ledger, "visits"))
    assert read_export(lines) == (ledger.account("visits"), list(ledger.entries("visits")))
    ledger.close()
    return lines


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_holds_everything_and_is_whole(kind: str, tmp_path: Path) -> None:
    lines = exported(kind, tmp_path)
    assert verify_export(lines) == ("visits", 4)
    assert verify_export([f"{line}\n" for line in lines] + ["\n"]) == ("visits", 4)
    last = json.loads(lines[-1])["digest"]
    assert verify_export(lines, containing=last) == ("visits", 4)
    with pytest.raises(LedgerMismatch, match="dropped"):
        verify_export(lines[:-1], containing=last)


def test_a_changed_export_is_found(tmp_path: Path) -> None:
    lines = exported("memory", tmp_path)
    for old, new in (("ana", "eve"), ("1/3", "1/4"), ("person", "row"), ("visits", "births")):
        changed = [line.replace(old, new, 1) for line in lines]
        assert changed != lines
        with pytest.raises(LedgerMismatch):
            verify_export(changed)
    with pytest.raises(LedgerMismatch):
        verify_export(lines[:1] + lines[2:])


@in_subtests(
    "lines",
    [
        [],
        [""],
        ["nothing"],
        ["[]"],
        ["{}"],
        ["null"],
        ['{"format": "unacorda ledger export 3"}'],
        ['{"format": "unacorda ledger export 2"}'],
        ["[" * 100_000],
    ],
)
def test_other_text_is_no_export(lines: list[str]) -> None:
    with pytest.raises(LedgerMismatch, match="no export"):
        verify_export(lines)


@pytest.mark.parametrize("line", ["{}", "7", '{"sequence": 1}', "broken"])
def test_other_lines_are_no_entries(line: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerMismatch, match="no export"):
        verify_export([*exported("memory", tmp_path), line])
