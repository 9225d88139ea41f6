"""One contract for all ledgers: nothing reserved is ever forgotten, and no budget is passed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.ledgers import EVENT, KINDS, TERMS, address, reserve
from tests.support.cases import in_subtests
from tests.support.seams import (
    Entry,
    Ledger,
    LedgerSearch,
    MemoryStore,
    Reservation,
    SearchBegun,
    SplitPart,
    open_ledger,
)

from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch, WrongUnit
from unacorda.privacy.events import from_json
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, guarantee_from_json


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(address(request.param, tmp_path))
    yield opened
    opened.close()


def test_an_account_starts_with_its_whole_budget(ledger: Ledger) -> None:
    account = ledger.open_account("visits", ZCDP(0.5, 1e-8), TERMS)
    assert account.budget == ledger.account("visits").budget == ZCDP(0.5, 1e-8)
    assert dict(account.terms) == TERMS
    assert ledger.spent("visits") == ZCDP(0)
    assert ledger.remaining("visits") == ZCDP(0.5, 1e-8)
    assert ledger.entries("visits") == ()
    assert ledger.verify("visits") == 0
    assert ledger.datasets() == ("visits",)


def test_it_is_found_again_without_or_with_an_equal_budget(ledger: Ledger) -> None:
    first = ledger.open_account("visits", PureDP(1), TERMS)
    assert ledger.open_account("visits", None, TERMS) == first
    assert ledger.open_account("visits", PureDP("1.0"), dict(reversed(TERMS.items()))) == first


@in_subtests(
    ("budget", "terms"),
    [
        (PureDP(2), TERMS),
        (ZCDP(1), TERMS),
        (None, {}),
        (None, {**TERMS, "unit": "row"}),
        (None, {**TERMS, "max_rows": "3"}),
    ],
)
def test_other_terms_are_a_mismatch(
    ledger: Ledger, budget: Guarantee | None, terms: dict[str, str]
) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    with pytest.raises(LedgerMismatch, match="visits"):
        ledger.open_account("visits", budget, terms)


def test_the_first_opening_needs_a_budget_and_a_name(ledger: Ledger) -> None:
    with pytest.raises(InvalidParameter, match="budget"):
        ledger.open_account("visits", None, TERMS)
    with pytest.raises(InvalidParameter, match="dataset"):
        ledger.open_account("", PureDP(1), TERMS)
    assert ledger.datasets() == ()


def test_an_unknown_account_is_a_mismatch(ledger: Ledger) -> None:
    calls: list[Callable[[], object]] = [
        lambda: ledger.account("visits"),
        lambda: ledger.account("visits\ud800"),
        lambda: ledger.spent("visits"),
        lambda: ledger.remaining("visits"),
        lambda: ledger.entries("visits"),
        lambda: ledger.verify("visits"),
        lambda: reserve(ledger, PureDP(1)),
        lambda: ledger.commit(Reservation(dataset="visits", sequence=1, charge=PureDP(1))),
    ]
    for call in calls:
        with pytest.raises(LedgerMismatch, match="visits"):
            call()


def test_a_reservation_is_spent_whether_or_not_it_is_committed(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    first, second = reserve(ledger, PureDP(0.1)), reserve(ledger, PureDP(0.2))
    assert ledger.spent("visits") == PureDP(0.3)
    ledger.commit(second)
    assert ledger.spent("visits") == PureDP(0.3)
    assert ledger.remaining("visits") == PureDP(0.7)
    assert (first.sequence, second.sequence) == (1, 2)


def test_entries_say_what_was_done(ledger: Ledger) -> None:
    ledger.open_account("visits", GDP(1), TERMS)
    reservation = reserve(ledger, GDP(0.5), request=PureDP(0.3), purpose="report")
    ledger.commit(reservation)
    reserved, committed = ledger.entries("visits")
    assert reserved.state == "reserved"
    assert reserved.sequence == reserved.reservation == committed.reservation == 1
    assert from_json(reserved.event) == EVENT
    assert guarantee_from_json(reserved.request) == PureDP(0.3)
    assert guarantee_from_json(reserved.charge) == reservation.charge == GDP(0.5)
    assert guarantee_from_json(committed.spent) == GDP(0.5)
    assert (reserved.plan_digest, reserved.salt) == ("ab12", "0001ff")
    assert (reserved.analyst, reserved.purpose) == ("ana", "report")
    assert reserved.reproducible is False
    assert committed.state == "committed"
    assert committed.sequence == 2
    assert (committed.event, committed.request, committed.charge) == ("", "", "")
    assert committed.previous == reserved.digest
    for entry in (reserved, committed):
        assert datetime.fromisoformat(entry.time).utcoffset() == timedelta(0)


def test_ten_tenths_fit_and_nothing_more(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    for _ in range(10):
        reserve(ledger, PureDP(0.1))
    before = ledger.entries("visits")
    with pytest.raises(BudgetExceeded) as caught:
        reserve(ledger, PureDP("1e-30"))
    assert caught.value.left == PureDP(0)
    assert caught.value.account == "visits"
    assert ledger.entries("visits") == before


def test_delta_has_its_own_limit(ledger: Ledger) -> None:
    ledger.open_account("visits", ApproxDP(1, 1e-6), TERMS)
    reserve(ledger, ApproxDP(0.1, 1e-6))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, ApproxDP(0.1, 1e-9))
    reserve(ledger, ApproxDP(0.9, 0))


def test_a_charge_in_another_unit_is_refused_and_not_written(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    with pytest.raises(WrongUnit):
        reserve(ledger, ZCDP(0.1))
    assert ledger.entries("visits") == ()


def test_a_reservation_is_committed_once(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    reservation = reserve(ledger, PureDP(0.1))
    ledger.commit(reservation)
    with pytest.raises(InvalidParameter, match="reservation"):
        ledger.commit(reservation)
    for sequence in (0, 2, 3, -1, 10**30):  # 2 is the commit itself
        with pytest.raises(InvalidParameter, match="reservation"):
            ledger.commit(Reservation(dataset="visits", sequence=sequence, charge=PureDP(0.1)))
    assert len(ledger.entries("visits")) == 2


def test_accounts_do_not_share(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_account("births", ZCDP(1), TERMS)
    reserve(ledger, PureDP(1))
    reserve(ledger, ZCDP(0.25), dataset="births")
    assert ledger.remaining("visits") == PureDP(0)
    assert ledger.remaining("births") == ZCDP(0.75)
    assert ledger.datasets() == ("births", "visits")
    assert ledger.entries("births")[0].sequence == 1
    assert ledger.verify("births") == ledger.verify("visits") == 1


def test_the_chain_holds(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    for _ in range(5):
        ledger.commit(reserve(ledger, PureDP(0.1)))
    entries = ledger.entries("visits")
    assert ledger.verify("visits") == len(entries) == 10
    assert len({entry.digest for entry in entries}) == 10
    for before, after in itertools.pairwise(entries):
        assert after.previous == before.digest


def test_threads_never_overspend(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    made, refused = [], []

    def work() -> None:
        for _ in range(5):
            try:
                reservation = reserve(ledger, PureDP(0.1))
            except BudgetExceeded:
                refused.append(1)
            else:
                ledger.commit(reservation)
                made.append(reservation.sequence)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (10, 10)
    assert len(set(made)) == 10
    assert ledger.remaining("visits") == PureDP(0)
    assert ledger.verify("visits") == 20


def test_threads_that_open_one_account_at_once_find_one(ledger: Ledger) -> None:
    start, found = threading.Barrier(6), []

    def work() -> None:
        start.wait()
        found.append(ledger.open_account("visits", PureDP(1), TERMS))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ledger.account("visits")] * 6


def test_seeded_noise_is_for_ledgers_that_forget(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    if ledger.durable:
        with pytest.raises(InvalidParameter, match="seed"):
            reserve(ledger, PureDP(0.1), reproducible=True)
        assert ledger.entries("visits") == ()
    else:
        reserve(ledger, PureDP(0.1), reproducible=True)
        assert ledger.entries("visits")[0].reproducible is True


def test_names_are_text_and_nothing_else(ledger: Ledger) -> None:
    name = "visits'; DROP TABLE unacorda_entries; -- ü"
    ledger.open_account(name, PureDP(1), {"unit": 'person\'s "id"'})
    reserve(ledger, PureDP(0.5), dataset=name, analyst="o'hara", purpose="")
    assert ledger.entries(name)[0].analyst == "o'hara"
    assert ledger.verify(name) == 1


def test_what_was_called_off_before_it_read_anything_comes_back(ledger: Ledger) -> None:
    ledger.open_account("visits", ApproxDP(1, 1e-6), TERMS)
    kept = reserve(ledger, ApproxDP("0.5", 1e-7))
    given_back = reserve(ledger, ApproxDP("0.4", 1e-7))
    ledger.void(given_back)
    assert ledger.spent("visits") == ApproxDP("0.5", 1e-7)
    voided = ledger.entries("visits")[-1]
    assert (voided.state, voided.reservation) == ("voided", given_back.sequence)
    reserve(ledger, ApproxDP("0.5", 1e-7))
    ledger.commit(kept)
    assert ledger.remaining("visits") == ApproxDP(0, "8e-7")
    assert ledger.verify("visits") == 5


def test_nothing_that_ended_or_that_another_made_is_voided(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    committed, voided, standing = (reserve(ledger, PureDP(0.1)) for _ in range(3))
    ledger.commit(committed)
    ledger.void(voided)
    another = Ledger(ledger._store)  # as after a crash: who knows what the first one has read?
    strange = Reservation(dataset="visits", sequence=9, charge=PureDP(0.1))
    for book, reservation in (
        (ledger, committed),
        (ledger, voided),
        (ledger, strange),
        (another, standing),
    ):
        with pytest.raises(InvalidParameter, match="reservation"):
            book.void(reservation)
    with pytest.raises(InvalidParameter, match="reservation"):
        ledger.commit(voided)
    another.commit(standing)
    with pytest.raises(InvalidParameter, match="reservation"):
        ledger.void(standing)  # this one reserved it, but it has been answered meanwhile
    assert ledger.spent("visits") == PureDP(0.2)
    assert ledger.verify("visits") == 6


def test_a_sub_account_spends_from_its_own_and_from_the_whole(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP(0.3))
    ledger.open_sub_account("visits", "bo", PureDP(0.9))
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))  # found again
    assert ledger.sub_accounts("visits") == {"ana": PureDP(0.3), "bo": PureDP(0.9)}
    first = reserve(ledger, PureDP(0.2), sub_account="ana")
    reserve(ledger, PureDP(0.2), analyst="ana")  # a note alone debits no sub-account
    assert first.sub_account == "ana"
    assert ledger.spent("visits") == PureDP(0.4)
    assert ledger.spent("visits", "ana") == PureDP(0.2)
    assert ledger.remaining("visits", "bo") == PureDP(0.9)
    with pytest.raises(BudgetExceeded) as own:
        reserve(ledger, PureDP(0.2), sub_account="ana")
    assert (own.value.account, own.value.left) == ("visits/ana", PureDP(0.1))
    with pytest.raises(BudgetExceeded) as whole:
        reserve(ledger, PureDP(0.7), sub_account="bo")
    assert (whole.value.account, whole.value.left) == ("visits", PureDP(0.6))
    ledger.commit(first)
    ledger.void(reserve(ledger, PureDP(0.1), sub_account="ana"))
    assert ledger.spent("visits", "ana") == PureDP(0.2)
    assert ledger.spent("visits") == PureDP(0.4)
    assert ledger.entries("visits")[-1].sub_account == "ana"
    assert ledger.verify("visits") == 7


def test_sub_accounts_have_their_limit_and_unit_for_good(ledger: Ledger) -> None:
    ledger.open_account("visits", ZCDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", ZCDP(0.3))
    with pytest.raises(LedgerMismatch, match="'ana' of 'visits' was opened with budget"):
        ledger.open_sub_account("visits", "ana", ZCDP(0.4))
    with pytest.raises(WrongUnit):
        ledger.open_sub_account("visits", "bo", PureDP(0.4))
    wrong: Any
    for wrong in ("", None, "a\x00", "\ud800", 7):
        with pytest.raises(InvalidParameter, match="name"):
            ledger.open_sub_account("visits", wrong, ZCDP(0.1))
    with pytest.raises(LedgerMismatch, match="no account named 'births'"):
        ledger.open_sub_account("births", "ana", ZCDP(0.1))
    calls: list[Callable[[], object]] = [
        lambda: ledger.spent("visits", "bo"),
        lambda: ledger.remaining("visits", "bo"),
        lambda: reserve(ledger, ZCDP(0.1), sub_account="bo"),
    ]
    for call in calls:
        with pytest.raises(LedgerMismatch, match="no sub-account named 'bo'"):
            call()
    assert ledger.verify("visits") == 1


def test_a_limit_is_changed_by_an_entry_and_never_below_what_is_spent(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    reserve(ledger, PureDP("0.3"), sub_account="ana")
    assert ledger.change_limit("visits", "ana", PureDP("0.5"), by="office") == PureDP("0.5")
    reserve(ledger, PureDP("0.2"), sub_account="ana")
    with pytest.raises(InvalidParameter, match=r"budget.*has spent"):
        ledger.change_limit("visits", "ana", PureDP("0.4"))
    assert ledger.change_limit("visits", "ana", None) == PureDP("0.5")
    with pytest.raises(BudgetExceeded):
        reserve(ledger, PureDP("0.01"), sub_account="ana")
    ledger.change_limit("visits", "ana", PureDP("0.7"))
    assert ledger.sub_accounts("visits") == {"ana": PureDP("0.7")}
    assert ledger.remaining("visits", "ana") == PureDP("0.2")
    ledger.open_sub_account("visits", "ana", PureDP("0.7"))  # found again
    with pytest.raises(LedgerMismatch, match=r"budget epsilon 0\.7, not epsilon 0\.3"):
        ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    with pytest.raises(WrongUnit):
        ledger.change_limit("visits", "ana", ZCDP(1))
    with pytest.raises(LedgerMismatch, match="no sub-account named 'bo'"):
        ledger.change_limit("visits", "bo", PureDP(1))
    assert [entry.state for entry in ledger.entries("visits")] == [
        *("opened", "reserved", "limited", "reserved", "limited", "limited")
    ]
    assert ledger.entries("visits")[2].analyst == "office"
    assert ledger.spent("visits") == PureDP("0.5")
    assert ledger.verify("visits") == 6


@pytest.mark.parametrize("changes", [20, pytest.param(500, marks=pytest.mark.long)])
def test_limits_may_change_while_others_ask(ledger: Ledger, changes: int) -> None:
    """Of one writer who changes them and one who spends nobody passes the limit of the moment."""
    unit = PureDP("1e-4")
    ledger.open_account("visits", unit * 10_000, TERMS)
    ledger.open_sub_account("visits", "ana", unit)
    spent = 0

    def ask() -> None:
        nonlocal spent
        for _ in range(changes):
            try:
                reserve(ledger, unit, sub_account="ana")
            except BudgetExceeded:
                continue
            spent += 1

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(changes):
        ledger.change_limit("visits", "ana", None)
        ledger.change_limit("visits", "ana", unit * (2 * changes + number))
    asking.join()
    assert ledger.spent("visits", "ana") == ledger.spent("visits") == unit * spent
    assert ledger.verify("visits") == 1 + 2 * changes + spent


@in_subtests("name", [None, 5, "", "\x00", ("ana",)])
def test_only_a_sub_account_has_a_limit_that_changes(ledger: Ledger, name: Any) -> None:
    """No other name reaches the budget of the whole."""
    ledger.open_account("visits", PureDP(1), TERMS)
    with pytest.raises(InvalidParameter, match="name"):
        ledger.change_limit("visits", name, PureDP(100))
    assert ledger.entries("visits") == ()
    with pytest.raises(BudgetExceeded):
        reserve(ledger, PureDP(2))


def test_a_closed_sub_account_spends_nothing_of_what_comes_back(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    running = reserve(ledger, PureDP("0.2"), sub_account="ana")
    assert ledger.change_limit("visits", "ana", None) == PureDP("0.2")
    ledger.void(running)
    assert ledger.remaining("visits", "ana") == PureDP(0)
    for cost in (PureDP("0.1"), PureDP(0)):
        with pytest.raises(BudgetExceeded, match="visits/ana"):
            reserve(ledger, cost, sub_account="ana")
    ledger.change_limit("visits", "ana", PureDP("0.1"))
    reserve(ledger, PureDP("0.1"), sub_account="ana")
    assert ledger.verify("visits") == 6


def test_a_closed_sub_account_asks_no_part_of_its_splits(ledger: Ledger) -> None:
    """Not one that owes nothing either, since another has spent as much."""
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    asked: dict[str, Any] = {"limit": PureDP(1), "max_parts": 1, "digest": "d", "salt": bytes(16)}
    split = ledger.open_split("visits", sub_account="ana", **asked)
    one, other = (SplitPart(split=split.sequence, key=key) for key in ("A", "B"))
    reserve(ledger, PureDP("0.2"), part=one)
    ledger.change_limit("visits", "ana", None)
    with pytest.raises(BudgetExceeded, match="visits/ana"):
        reserve(ledger, PureDP("0.2"), part=other)
    ledger.change_limit("visits", "ana", PureDP("0.25"))
    reserve(ledger, PureDP("0.2"), part=other)
    assert ledger.spent("visits", "ana") == PureDP("0.2")
    assert ledger.verify("visits") == 6


def test_a_limit_that_changes_between_two_looks_holds() -> None:
    """What is read statement by statement may be of two moments."""

    class Changing(MemoryStore):
        """Memory in which another ledger changes a limit before the next look at an account."""

        change: Callable[[], object] | None = None

        def last(self, dataset: str, **which: Any) -> Entry | None:
            change, looks = self.change, "sub_account" in which
            if change is not None and looks:
                self.change = None
                change()
            return super().last(dataset, **which)

    store = Changing()
    ledger, other = Ledger(store), Ledger(store)
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.9"))
    store.change = lambda: other.change_limit("visits", "ana", PureDP("0.1"))
    ledger.remaining("visits", "ana")
    with pytest.raises(BudgetExceeded):
        reserve(ledger, PureDP("0.5"), sub_account="ana")
    assert ledger.remaining("visits", "ana") == PureDP("0.1")


def test_many_sub_accounts_are_opened_at_once_or_not_at_all(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    wanted = {"ana": PureDP("0.3"), **{f"a{n}": PureDP("0.1") for n in range(20)}}
    ledger.open_sub_accounts("visits", wanted)
    assert ledger.sub_accounts("visits") == wanted
    refused: list[tuple[Any, type[Exception]]] = [
        ({"eve": PureDP("0.1"), "ana": PureDP("0.4")}, LedgerMismatch),
        ({"eve": PureDP("0.1"), "mal": ZCDP("0.4")}, WrongUnit),
        ({"eve": PureDP("0.1"), "": PureDP("0.4")}, InvalidParameter),
        ([("eve", PureDP("0.1"))], InvalidParameter),
    ]
    for budgets, error in refused:
        with pytest.raises(error):
            ledger.open_sub_accounts("visits", budgets)
    assert ledger.sub_accounts("visits") == wanted
    assert ledger.verify("visits") == 21


def test_entries_are_read_page_by_page(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP("0.3"))
    for number in range(9):
        reserve(ledger, PureDP("0.01"), sub_account="ana" if number % 3 == 0 else None)
    whole = ledger.entries("visits")
    pages: list[Entry] = []
    after = 0
    while page := ledger.entries("visits", after=after, most=4):
        pages.extend(page)
        after = page[-1].sequence
    assert tuple(pages) == whole
    assert ledger.entries("visits", after=7) == whole[7:]
    of_ana = [entry.sequence for entry in ledger.entries("visits", sub_account="ana")]
    assert of_ana == [1, 2, 5, 8]
    assert ledger.entries("visits", sub_account="ana", after=2, most=1) == whole[4:5]
    assert ledger.entries("visits", after=1 << 63) == ()
    assert ledger.entries("visits", most=1 << 63) == whole
    with pytest.raises(LedgerMismatch, match="no sub-account named 'bo'"):
        ledger.entries("visits", sub_account="bo")
    wrong: Any
    for wrong in (-1, 0.5, True):
        with pytest.raises(InvalidParameter, match="after"):
            ledger.entries("visits", after=wrong)
    with pytest.raises(InvalidParameter, match="most"):
        ledger.entries("visits", most=0)


def test_the_last_digest_kept_elsewhere_shows_that_entries_were_dropped(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    for _ in range(3):
        reserve(ledger, PureDP(0.1))
    for entry in ledger.entries("visits"):
        assert ledger.verify("visits", containing=entry.digest) == 3
    with pytest.raises(LedgerMismatch, match="dropped, or all written anew"):
        ledger.verify("visits", containing="0" * 64)


@pytest.mark.parametrize("note", ["a\x00b", "\ud800"])
def test_notes_that_no_database_keeps_are_refused_by_all(ledger: Ledger, note: str) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    for argument in ("analyst", "purpose"):
        wrong: dict[str, Any] = {argument: note}
        with pytest.raises(InvalidParameter, match=argument):
            reserve(ledger, PureDP(0.1), **wrong)
    with pytest.raises(InvalidParameter, match="dataset"):
        ledger.open_account(note, PureDP(1), TERMS)
    with pytest.raises(InvalidParameter, match="terms"):
        ledger.open_account("births", PureDP(1), {"unit": note})
    assert ledger.verify("visits") == 0


def test_clocks_may_jump(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    times = iter(["2031-01-01T00:00:00+00:00", "1970-01-01T00:00:00+00:00", "2031-01-01T00:00:00"])
    monkeypatch.setattr("unacorda.ledger.chain._now", lambda: next(times))
    reserve(ledger, PureDP(0.4))
    reserve(ledger, PureDP(0.4))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, PureDP(0.4))
    assert [entry.time[:4] for entry in ledger.entries("visits")] == ["2031", "1970"]
    assert ledger.verify("visits") == 2
    assert ledger.spent("visits") == PureDP(0.8)


def test_closing_twice_loses_nothing(ledger: Ledger) -> None:
    ledger.open_account("d", PureDP(1), {})
    ledger.close()
    ledger.close()
    assert ledger.remaining("d") == PureDP(1)


def test_a_search_that_others_went_on_with_is_not_begun(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    first = reserve(ledger, PureDP("0.1"), search=LedgerSearch(digest="rows", seen=0))
    ledger.commit(first, found="3")
    for seen in (0, first.sequence):  # the second knows the question, and not its answer
        with pytest.raises(SearchBegun):
            reserve(ledger, PureDP("0.1"), search=LedgerSearch(digest="rows", seen=seen))
    newest = ledger.searched("visits", "rows").seen
    reserve(ledger, PureDP("0.1"), search=LedgerSearch(digest="rows", seen=newest))
    assert ledger.spent("visits") == PureDP("0.2")


def test_the_last_entry_is_the_newest_of_those_that_are_meant(ledger: Ledger) -> None:
    ledger.open_account("visits", PureDP(1), TERMS)
    for name in ("ana", "bob"):
        ledger.open_sub_account("visits", name, PureDP("0.3"))
    split = ledger.open_split("visits", limit=PureDP("0.1"), max_parts=1, digest="d", salt=b"s")
    for key in "ab":
        ledger.commit(reserve(ledger, PureDP("0.01"), part=SplitPart(split=3, key=key)))
    for seen in (0, 9):
        search = LedgerSearch(digest="rows", seen=seen)
        ledger.commit(reserve(ledger, PureDP("0.01"), search=search, sub_account="ana"), found="3")
    assert split.sequence == 3
    wanted: list[tuple[dict[str, Any], list[int]]] = [
        ({}, list(range(1, 12))),
        ({"sequence": 4}, [4]),
        ({"sequence": 0}, []),
        ({"sequence": 12}, []),
        ({"ends": 4}, [5]),
        ({"ends": 5}, []),
        ({"opens": "bob"}, [2]),
        ({"opens": "eve"}, []),
        ({"opened": True}, [1, 2]),
        ({"limits": "bob"}, [2]),
        ({"sub_account": "ana"}, [1, 8, 9, 10, 11]),
        ({"splits_after": 0}, [3, 4, 5, 6, 7]),
        ({"splits_after": 5}, [6, 7]),
        ({"splits_after": 7}, []),
        ({"search": "rows"}, [8, 9, 10, 11]),
        ({"search": "others"}, []),
    ]
    with ledger._store.reading() as transaction:
        for which, sequences in wanted:
            found = transaction.entries("visits", **which)
            assert [entry.sequence for entry in found] == sequences, which
            last = transaction.last("visits", **which)
            assert ([] if last is None else [last.sequence]) == sequences[-1:], which
