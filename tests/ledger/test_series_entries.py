"""Series in a ledger: one price at the start, and steps that follow each other."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.ledgers import DURABLE, KINDS, TERMS, address, reserve
from tests.support.seams import (
    Ledger,
    SeriesOpened,
    SeriesTerms,
    SplitPart,
    entry_digest,
    export_account,
    open_ledger,
    verify_entries,
    verify_export,
)

from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.privacy.guarantees import ZCDP

PLAN = SeriesTerms(name="daily", definition='{"steps":3}')


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(address(request.param, tmp_path))
    opened.open_account("visits", ZCDP(1), TERMS)
    yield opened
    opened.close()


def begun(ledger: Ledger, cost: float = 0.5, **changes: Any) -> Any:
    reserve(ledger, ZCDP(cost), series=PLAN, **changes)
    found = ledger.series("visits", "daily", sub_account=changes.get("sub_account"))
    assert found is not None
    return found


def test_a_series_is_paid_for_once_and_found_again(ledger: Ledger) -> None:
    assert ledger.series("visits", "daily") is None
    series = begun(ledger)
    assert (series.sequence, series.name, series.definition) == (1, "daily", PLAN.definition)
    assert (series.steps, series.request, series.salt) == ((), ZCDP(0.5), "0001ff")
    assert ledger.spent("visits") == ZCDP(0.5)
    with pytest.raises(SeriesOpened):
        reserve(ledger, ZCDP(0.1), series=PLAN)
    assert ledger.spent("visits") == ZCDP(0.5)
    assert len(ledger.entries("visits")) == 1


def test_a_step_is_of_the_opening_that_was_read(ledger: Ledger) -> None:
    series = begun(ledger)
    other = dataclasses.replace(series, salt="0001fe")
    with pytest.raises(InvalidParameter, match="daily"):
        ledger.add_step("visits", other, "[1]")
    assert ledger.add_step("visits", series, "[1]")


def test_steps_follow_each_other_and_cost_nothing(ledger: Ledger) -> None:
    series = begun(ledger)
    assert ledger.add_step("visits", series, "[1]")
    assert not ledger.add_step("visits", series, "[2]")  # of the same step
    series = ledger.series("visits", "daily")
    assert series is not None
    assert series.steps == ("[1]",)
    reserve(ledger, ZCDP(0.25))
    assert ledger.add_step("visits", series, "[3]")
    series = ledger.series("visits", "daily")
    assert series is not None
    assert series.steps == ("[1]", "[3]")
    assert ledger.spent("visits") == ZCDP(0.75)
    assert ledger.verify("visits") == 4
    states = [entry.state for entry in ledger.entries("visits")]
    assert states == ["reserved", "stepped", "reserved", "stepped"]
    assert verify_export(export_account(ledger, "visits")) == ("visits", 4)


def test_nothing_of_a_series_comes_back(ledger: Ledger) -> None:
    reservation = reserve(ledger, ZCDP(0.5), series=PLAN)
    with pytest.raises(InvalidParameter, match="a series has no end"):
        ledger.void(reservation)
    with pytest.raises(InvalidParameter, match="a series has no end"):
        ledger.commit(reservation)


def test_a_series_that_is_too_dear_is_not_there(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded):
        reserve(ledger, ZCDP(2), series=PLAN)
    assert ledger.series("visits", "daily") is None


def test_analysts_have_series_of_their_own(ledger: Ledger) -> None:
    ledger.open_sub_account("visits", "ana", ZCDP("0.3"))
    whole, own = begun(ledger), begun(ledger, 0.25, sub_account="ana")
    assert ledger.add_step("visits", own, "[1]")
    assert ledger.add_step("visits", whole, "[2]")
    ana = ledger.scoped(sub_account="ana")
    found = ana.series("visits", "daily")
    assert found is not None
    assert found.steps == ("[1]",)
    assert ana.add_step("visits", found, "[4]")
    assert ledger.remaining("visits", "ana") == ZCDP("0.05")
    assert ledger.verify("visits") == 6


def test_a_series_of_a_part_is_refused(ledger: Ledger) -> None:
    split = ledger.open_split("visits", limit=ZCDP("0.5"), max_parts=1, digest="d", salt=b"\x01")
    part = SplitPart(split=split.sequence, key="a")
    with pytest.raises(InvalidParameter, match="not settled while rows still come"):
        reserve(ledger, ZCDP("0.1"), series=PLAN, part=part)


def test_of_many_threads_one_makes_a_step(ledger: Ledger) -> None:
    series, made = begun(ledger), []

    def step(number: int) -> None:
        made.append(ledger.add_step("visits", series, f"[{number}]"))

    threads = [threading.Thread(target=step, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    assert len(ledger.entries("visits")) == 2


@pytest.mark.parametrize("kind", DURABLE)
def test_another_ledger_goes_on_where_it_stands(kind: str, tmp_path: Path) -> None:
    url = address(kind, tmp_path)
    one, other = open_ledger(url), open_ledger(url)
    one.open_account("visits", ZCDP(1), TERMS)
    series = begun(one)
    assert one.add_step("visits", series, "[1]")
    found = other.series("visits", "daily")
    assert found is not None
    assert other.add_step("visits", found, "[2]")
    assert not one.add_step("visits", series, "[3]")
    one.close()
    other.close()


def test_histories_that_no_ledger_writes_are_found(tmp_path: Path) -> None:
    ledger = open_ledger(None)
    ledger.open_account("visits", ZCDP(1), TERMS)
    for found in ("[1]", "[2]"):
        series = ledger.series("visits", "daily") or begun(ledger)
        ledger.add_step("visits", series, found)
    account, entries = ledger.account("visits"), list(ledger.entries("visits"))
    assert verify_entries(account, entries) == 3

    def sealed(place: int, **changes: Any) -> list[Any]:
        changed = [*entries]
        changed[place] = dataclasses.replace(changed[place], **changes)
        for at in range(place, len(changed)):
            before = changed[at - 1].digest if at else changed[0].previous
            linked = dataclasses.replace(changed[at], previous=before)
            changed[at] = dataclasses.replace(linked, digest=entry_digest(linked))
        return changed

    for place, changes, why in (
        (1, {"step": 1}, "not the next step"),
        (2, {"step": 0}, "not the next step"),
        (2, {"found": None}, "not the next step"),
        (1, {"reservation": 2}, "no series"),
        (1, {"state": "committed", "step": None}, "ends a series"),
        (1, {"plan_digest": "other"}, "another series"),
        (0, {"series": None}, "no series"),
        (0, {"definition": None}, "begins no series"),
    ):
        with pytest.raises(LedgerMismatch, match=why):
            verify_entries(account, sealed(place, **changes))
    again = dataclasses.replace(
        entries[0],
        sequence=4,
        reservation=4,
        previous=entries[2].digest,
        spent=ZCDP(1).to_json(),
    )
    again = dataclasses.replace(again, digest=entry_digest(again))
    with pytest.raises(LedgerMismatch, match="begins a series twice"):
        verify_entries(account, [*entries, again])
    assert json.loads(entries[1].found or "") == [1]
