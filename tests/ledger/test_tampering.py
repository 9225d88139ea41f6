"""Each kind of tampering is found: with hashes left as they were, and with all made anew."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from tests.ledger.ledgers import TERMS, reserve
from tests.support.cases import in_subtests
from tests.support.seams import (
    AccountTerms,
    Entry,
    account_digest,
    entry_digest,
    open_ledger,
    verify_entries,
)

from unacorda.errors import LedgerMismatch
from unacorda.privacy.guarantees import ZCDP, PureDP

NAMES = [field.name for field in dataclasses.fields(Entry)]
ZERO, MUCH = PureDP(0).to_json(), PureDP(100).to_json()


def kept() -> tuple[AccountTerms, list[Entry]]:
    """An account with a sub-account: one entry of each state, and one that still runs."""
    ledger = open_ledger(None)
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    ledger.commit(reserve(ledger, PureDP("0.1"), sub_account="ana"))
    ledger.void(reserve(ledger, PureDP("0.4")))
    reserve(ledger, PureDP("0.2"))
    ledger.change_limit("visits", "ana", PureDP("0.2"))
    return ledger.account("visits"), list(ledger.entries("visits"))


ACCOUNT, ENTRIES = kept()
OPENED, FIRST, COMMIT, CALLED_OFF, VOID, RUNS, LIMIT = range(7)


def sealed(entries: list[Entry], account: AccountTerms = ACCOUNT) -> list[Entry]:
    """The entries with sequences and hashes as whoever may write could make them."""
    previous, made = account_digest(account), []
    for number, entry in enumerate(entries, start=1):
        own = entry.reservation == entry.sequence
        chained = dataclasses.replace(
            entry,
            sequence=number,
            reservation=number if own else entry.reservation,
            previous=previous,
        )
        made.append(dataclasses.replace(chained, digest=entry_digest(chained)))
        previous = made[-1].digest
    return made


def with_changes(place: int, **changes: Any) -> list[Entry]:
    entries = list(ENTRIES)
    entries[place] = dataclasses.replace(entries[place], **changes)
    return entries


def test_what_was_left_alone_is_whole() -> None:
    assert verify_entries(ACCOUNT, ENTRIES) == 7
    assert verify_entries(ACCOUNT, sealed(ENTRIES)) == 7
    assert sealed(ENTRIES) == ENTRIES


@in_subtests("place", range(len(ENTRIES)))
@in_subtests("name", NAMES)
def test_no_field_of_any_entry_can_be_changed(name: str, place: int) -> None:
    value = getattr(ENTRIES[place], name)
    others: list[Any] = [None, "", "x", b"x", 0, 7, not value, MUCH]
    for other in others:
        if other == value and type(other) is type(value):
            continue
        with pytest.raises(LedgerMismatch, match=f"Entry {place + 1} of account 'visits'"):
            verify_entries(ACCOUNT, with_changes(place, **{name: other}))


@pytest.mark.parametrize("place", range(len(ENTRIES) - 1))
def test_no_entry_but_the_last_can_be_dropped_moved_or_doubled(place: int) -> None:
    rest = [*ENTRIES[:place], *ENTRIES[place + 1 :]]
    swapped = [*ENTRIES[:place], ENTRIES[place + 1], ENTRIES[place], *ENTRIES[place + 2 :]]
    doubled = [*ENTRIES[: place + 1], *ENTRIES[place:]]
    for entries in (rest, swapped, doubled):
        with pytest.raises(LedgerMismatch, match="was changed, or one is missing"):
            verify_entries(ACCOUNT, entries)


def test_dropped_last_entries_show_by_a_digest_kept_elsewhere() -> None:
    assert verify_entries(ACCOUNT, ENTRIES[:-1]) == 6
    with pytest.raises(LedgerMismatch, match="dropped"):
        verify_entries(ACCOUNT, ENTRIES[:-1], containing=ENTRIES[-1].digest)


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": PureDP(2)},
        {"dataset": "births"},
        {"terms": ()},
        {"terms": (("neighbors", "AddRemove"), ("unit", "row"))},
        {"opened": "2020-01-01T00:00:00.000000+00:00"},
    ],
)
def test_the_account_cannot_be_changed(changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerMismatch, match="Entry 1 "):
        verify_entries(dataclasses.replace(ACCOUNT, **changes), ENTRIES)


def dropped(place: int) -> Callable[[], list[Entry]]:
    return lambda: [*ENTRIES[:place], *ENTRIES[place + 1 :]]


@in_subtests(
    ("make", "why"),
    [
        (lambda: with_changes(FIRST, charge=ZERO), "its sum is not that of the charges"),
        (lambda: with_changes(RUNS, spent=ZERO), "its sum is not that of the charges"),
        (lambda: with_changes(FIRST, sub_spent=ZERO), "its sub-account's sum"),
        (lambda: with_changes(RUNS, sub_spent=ZERO), "sums of no sub-account"),
        (lambda: with_changes(FIRST, sub_account="bo"), "it cannot be read"),
        (lambda: with_changes(FIRST, sub_account=None, sub_spent=None), "it ends no reservation"),
        (lambda: with_changes(RUNS, charge=MUCH, spent=MUCH), "it spends more than there is"),
        (lambda: with_changes(OPENED, request=ZERO), "it spends more than there is"),
        (lambda: with_changes(OPENED, request=ZCDP(1).to_json()), "it cannot be read"),
        (lambda: with_changes(RUNS, charge=ZCDP("0.2").to_json()), "it cannot be read"),
        (lambda: with_changes(RUNS, charge="{}"), "it cannot be read"),
        (lambda: with_changes(RUNS, charge="nothing"), "it cannot be read"),
        (lambda: with_changes(COMMIT, state="voided"), "its sum is not that of the charges"),
        (lambda: with_changes(VOID, state="committed"), "its sum is not that of the charges"),
        (lambda: with_changes(VOID, reservation=2), "it ends no reservation that stands"),
        (lambda: with_changes(COMMIT, state="refunded"), "its state is 'refunded'"),
        (lambda: with_changes(RUNS, reservation=1), "it reserves for another entry"),
        (lambda: with_changes(LIMIT, request=ZERO), "less than it has spent"),
        (lambda: with_changes(LIMIT, request=ZCDP(1).to_json()), "it cannot be read"),
        (lambda: with_changes(LIMIT, sub_account="bo"), "it limits no sub-account"),
        (lambda: with_changes(LIMIT, sub_account=None, sub_spent=None), "it limits no sub-account"),
        (lambda: with_changes(LIMIT, sub_spent=ZERO), "its sub-account's sum"),
        (lambda: [*ENTRIES, ENTRIES[OPENED]], "it opens a sub-account twice"),
        (lambda: [*ENTRIES, ENTRIES[COMMIT]], "it ends no reservation that stands"),
        (lambda: [*ENTRIES, ENTRIES[VOID]], "it ends no reservation that stands"),
        (dropped(FIRST), "it ends no reservation that stands"),
        (dropped(CALLED_OFF), "it ends no reservation that stands"),
        (dropped(OPENED), "it cannot be read"),
        (lambda: ENTRIES[:VOID] + ENTRIES[RUNS:], "its sum is not that of the charges"),
    ],
)
def test_histories_that_no_ledger_writes_are_found_under_new_hashes_too(
    make: Callable[[], list[Entry]], why: str
) -> None:
    with pytest.raises(LedgerMismatch, match=why):
        verify_entries(ACCOUNT, sealed(make()))


@pytest.mark.parametrize("names", [("spent",), ("charge",), ("time", "analyst")])
def test_nothing_is_spent_on_top_of_an_entry_that_was_changed(names: tuple[str, ...]) -> None:
    ledger = open_ledger(None)
    ledger.open_account("visits", PureDP(1), TERMS)
    reserve(ledger, PureDP("0.9"))
    store: Any = ledger._store
    entries = store._entries["visits", "", None]
    (entry,) = entries
    entries[0] = dataclasses.replace(entry, **dict.fromkeys(names, ZERO))
    another = type(ledger)(store)  # a process that has not seen the sums
    with pytest.raises(LedgerMismatch, match="Entry 1 of account 'visits' was changed"):
        reserve(another, PureDP("0.9"))
    with pytest.raises(LedgerMismatch, match="was changed"):
        another.remaining("visits")
