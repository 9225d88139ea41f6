"""Splits of accounts: what is owed is always that of the theorem, whoever writes and reopens."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.ledgers import DURABLE, KINDS, TERMS, address, reserve
from tests.postgres_server import empty_schema, server
from tests.support.cases import in_subtests
from tests.support.seams import (
    Entry,
    Ledger,
    Reservation,
    SplitPart,
    account_digest,
    entry_digest,
    export_account,
    open_ledger,
    verify_entries,
    verify_export,
)
from tests.support.seams import LedgerSplit as Split
from tests.tiers import mostly_slow

from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch, WrongUnit
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    guarantee_from_json,
)

PLENTY = PureDP(1000)


@pytest.fixture(params=KINDS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(address(request.param, tmp_path))
    opened.open_account("visits", PLENTY, TERMS)
    yield opened
    opened.close()


def split(ledger: Ledger, **changes: Any) -> Split:
    arguments: dict[str, Any] = {
        "limit": PLENTY,
        "max_parts": 1,
        "digest": "parts of county",
        "salt": bytes(range(16)),
    }
    return ledger.open_split("visits", **{**arguments, **changes})


def part(of: Split, key: str) -> SplitPart:
    return SplitPart(split=of.sequence, key=key)


def largest(spends: dict[str, Fraction], count: int) -> Fraction:
    return sum(sorted(spends.values())[-count:], Fraction(0))


@pytest.mark.parametrize("seed", mostly_slow(range(12), quick=2))
def test_the_debt_is_that_of_the_theorem_after_every_step(ledger: Ledger, seed: int) -> None:
    """Two writers, nested parts, commits, and questions called off, in any order."""
    source = random.Random(seed)
    most, inner_most = source.randint(1, 3), source.randint(1, 2)
    writers = [
        ledger,
        Ledger(ledger._store),
    ]  # the second one knows what it reads, as after a crash
    outer = split(ledger, max_parts=most, name="county")
    inner = split(ledger, max_parts=inner_most, inside=part(outer, "a"), digest="ages")
    assert split(writers[1], max_parts=most, name="county") == outer
    spent = {
        "outer": dict.fromkeys("abcd", Fraction(0)),
        "inner": dict.fromkeys("xyz", Fraction(0)),
    }
    plain = Fraction(0)
    open_ones: list[tuple[Ledger, Reservation, str, str, Fraction]] = []
    for _ in range(30):
        action = source.random()
        if action < 0.7 or not open_ones:
            where = source.choice(["outer", "inner", "whole"])
            price = Fraction(source.randint(1, 40), 7)
            writer = source.choice(writers)
            key = source.choice(list(spent[where])) if where != "whole" else ""
            of = {"outer": outer, "inner": inner}.get(where)
            made = reserve(writer, PureDP(price), part=None if of is None else part(of, key))
            open_ones.append((writer, made, where, key, price))
            sign = 1
        else:
            writer, made, where, key, price = open_ones.pop(source.randrange(len(open_ones)))
            void = action > 0.85
            (writer.void if void else writer.commit)(made)
            sign = -1 if void else 0
        if where == "whole":
            plain += sign * price
        else:
            spent[where][key] += sign * price
        nested = largest(spent["inner"], inner_most)
        sums = {**spent["outer"], "a": spent["outer"]["a"] + nested}
        for book in writers:
            assert book.spent("visits") == PureDP(plain + largest(sums, most))
            assert book.spent("visits", part=part(outer, "a")) == PureDP(sums["a"])
            assert book.spent("visits", part=part(inner, "x")) == PureDP(spent["inner"]["x"])
    count = ledger.verify("visits")
    assert verify_export(export_account(ledger, "visits")) == ("visits", count)
    fresh = Ledger(ledger._store)
    found = {one.sequence: sums for one, sums in fresh.splits("visits").items()}
    for of, right in ((outer, sums), (inner, spent["inner"])):
        told = {key: Fraction(one.additive[0]) for key, one in found[of.sequence].items()}
        assert {key: right[key] for key in told} == told
        assert not any(number for key, number in right.items() if key not in told)


PAIRS: list[tuple[Guarantee, Guarantee, Guarantee]] = [
    (PureDP(99), PureDP(3), PureDP(6)),
    (ZCDP(99), ZCDP(3), ZCDP(12)),
    (GDP(99), GDP(3), GDP(6)),
    (ApproxDP(99, "0.5"), ApproxDP(3, 0), ApproxDP(6, 0)),
]


@pytest.mark.parametrize(("budget", "charge", "owed"), PAIRS)
def test_a_replaced_person_counts_twice(
    budget: Guarantee, charge: Guarantee, owed: Guarantee
) -> None:
    ledger = open_ledger(None)
    ledger.open_account("visits", budget, {**TERMS, "neighbors": "ReplaceOne"})
    of = split(ledger, limit=budget)
    for key in "ab":
        made = reserve(ledger, charge, part=part(of, key))
        assert ledger.spent("visits") == owed
        assert ledger.spent("visits", part=part(of, key)) == charge  # its own, of who joins it
        ledger.commit(made)
    assert ledger.verify("visits") == 5


def test_parts_of_parts_pay_for_a_replaced_person_at_every_step() -> None:
    """The price of a pair is no multiple in (epsilon, delta): it is taken before sums are."""
    ledger = open_ledger(None)
    ledger.open_account("visits", ApproxDP(9, "0.9"), {**TERMS, "neighbors": "ReplaceOne"})
    outer = split(ledger, limit=ApproxDP(9, "0.9"))
    inner = split(ledger, limit=ApproxDP(9, "0.9"), inside=part(outer, "a"))
    reserve(ledger, ApproxDP(1, "1e-6"), part=part(inner, "x"))
    reserve(ledger, ApproxDP(1, "3e-6"), part=part(inner, "y"))
    spent = ledger.spent("visits")
    assert isinstance(spent, ApproxDP)
    assert spent.epsilon == 2
    assert 3e-6 * (1 + 2.718281828459045) <= spent.delta <= 3e-6 * 3.7182819
    assert ledger.spent("visits", part=part(outer, "a")) == ApproxDP(1, "3e-6")
    assert ledger.verify("visits") == 4


def test_what_cannot_be_split_is_refused(ledger: Ledger) -> None:
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"limit": ZCDP(1)}, WrongUnit, "unit"),
        ({"limit": 1}, InvalidParameter, "budget"),
        ({"max_parts": 0}, InvalidParameter, "max_parts"),
        ({"name": ""}, InvalidParameter, "name"),
        ({"name": "a\x00"}, InvalidParameter, "name"),
        ({"sub_account": "nobody"}, LedgerMismatch, "no sub-account named 'nobody'"),
        (
            {"inside": SplitPart(split=7, key="a")},
            LedgerMismatch,
            "Entry 7 of account 'visits' opens no",
        ),
    ]
    for arguments, kind, text in bad:
        with pytest.raises(kind, match=text):
            split(ledger, **arguments)
    with pytest.raises(LedgerMismatch, match="opens no split"):
        reserve(ledger, PureDP(1), part=SplitPart(split=1, key="a"))
    with pytest.raises(LedgerMismatch, match="no account named 'births'"):
        ledger.open_split("births", limit=PLENTY, max_parts=1, digest="", salt=b"")
    assert ledger.entries("visits") == ()
    ledger.open_account("bare", PLENTY, {})
    with pytest.raises(LedgerMismatch, match="which tables are neighbors"):
        ledger.open_split("bare", limit=PLENTY, max_parts=1, digest="", salt=b"")
    replaced = {**TERMS, "neighbors": "ReplaceOne"}
    ledger.open_account("orders", RenyiDP(2, 1), replaced)
    with pytest.raises(InvalidParameter, match="under ReplaceOne"):
        ledger.open_split("orders", limit=RenyiDP(2, 1), max_parts=1, digest="", salt=b"")


def test_a_name_stands_for_one_split_in_its_place(ledger: Ledger) -> None:
    ledger.open_sub_account("visits", "ana", PLENTY)
    first = split(ledger, name="county")
    assert split(ledger, name="county", salt=b"another") == first  # with the salt it has
    assert split(ledger).sequence != split(ledger).sequence  # without a name each is a new one
    for changes in ({"max_parts": 2}, {"limit": PureDP(7)}, {"digest": "other"}):
        with pytest.raises(LedgerMismatch, match="Split 'county' was opened with limit"):
            split(ledger, name="county", **changes)
    hers = split(ledger, name="county", sub_account="ana")
    within = split(ledger, name="county", inside=part(first, "a"))
    assert len({first.sequence, hers.sequence, within.sequence}) == 3
    assert split(ledger, name="county", sub_account="ana") == hers
    assert split(ledger, name="county", inside=part(first, "a")) == within
    assert split(ledger, name="county", inside=part(first, "b")) != within


def test_limits_of_parts_analysts_and_the_whole(ledger: Ledger) -> None:
    ledger.open_sub_account("visits", "ana", PureDP(3))
    of = split(ledger, limit=PureDP(2), sub_account="ana")
    inner = split(ledger, limit=PureDP(9), inside=part(of, "a"))
    reserve(ledger, PureDP(2), part=part(of, "a"))
    reserve(ledger, PureDP(1), part=part(of, "b"))
    assert (ledger.spent("visits", "ana"), ledger.spent("visits")) == (PureDP(2), PureDP(2))
    assert ledger.remaining("visits", part=part(of, "b")) == PureDP(1)
    for place in (part(of, "a"), part(inner, "x")):  # the part that it lies in has no more either
        with pytest.raises(BudgetExceeded) as caught:
            reserve(ledger, PureDP("0.1"), part=place)
        assert caught.value.account == "visits, part a"
    reserve(ledger, PureDP(1), sub_account="ana")
    more = split(ledger, sub_account="ana")
    with pytest.raises(BudgetExceeded) as own:
        reserve(ledger, PureDP("0.1"), part=part(more, "a"))
    assert own.value.account == "visits/ana"
    rest = split(ledger)
    with pytest.raises(BudgetExceeded) as whole:
        reserve(ledger, PureDP(998), part=part(rest, "a"))
    assert whole.value.account == "visits"
    before = ledger.entries("visits")
    assert ledger.verify("visits") == len(before)
    assert {entry.sub_account for entry in before if entry.split == of.sequence} == {"ana"}


@pytest.mark.parametrize("kind", DURABLE)
def test_many_writers_on_one_split_owe_what_one_would(kind: str, tmp_path: Path) -> None:
    place = address(kind, tmp_path)
    books = [open_ledger(place) for _ in range(3)]
    books[0].open_account("visits", PureDP(20), TERMS)
    granted: list[tuple[str, Fraction]] = []

    def work(book: Ledger, seed: int) -> None:
        source = random.Random(seed)
        of = split(book, limit=PureDP(15), max_parts=2, name="county")
        for _ in range(12):
            key, price = source.choice("abcd"), Fraction(source.randint(1, 20), 10)
            with contextlib.suppress(BudgetExceeded):
                book.commit(reserve(book, PureDP(price), part=part(of, key)))
                granted.append((key, price))

    threads = [threading.Thread(target=work, args=(book, n)) for n, book in enumerate(books * 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = {key: sum((p for k, p in granted if k == key), Fraction(0)) for key in "abcd"}
    assert books[1].spent("visits") == PureDP(largest(spent, 2))
    assert largest(spent, 2) <= 20
    assert len(books[0].splits("visits")) == 1
    assert books[2].verify("visits") == 1 + 2 * len(granted)
    for book in books:
        book.close()


def kept() -> tuple[Any, list[Entry]]:
    """Parts a and b, of which a was called off once: places of entries below."""
    ledger = open_ledger(None)
    ledger.open_account("visits", PureDP(9), TERMS)
    ledger.open_sub_account("visits", "ana", PureDP(9))
    of = split(ledger, limit=PureDP(5), name="county")
    ledger.commit(reserve(ledger, PureDP(2), part=part(of, "a")))
    reserve(ledger, PureDP(3), part=part(of, "b"))
    ledger.void(reserve(ledger, PureDP(2), part=part(of, "a")))
    reserve(ledger, PureDP(1))
    return ledger.account("visits"), list(ledger.entries("visits"))


ACCOUNT, ENTRIES = kept()
SPLIT, FIRST, COMMIT, SECOND, CALLED_OFF, VOID, WHOLE = range(1, 8)


def forged(place: int, **changes: Any) -> list[Entry]:
    """The entries with one changed, and all hashes and sums of the whole made anew."""
    entries = list(ENTRIES)
    entries[place] = dataclasses.replace(entries[place], **changes)
    previous, made = account_digest(ACCOUNT), []
    for entry in entries:
        chained = dataclasses.replace(entry, previous=previous)
        made.append(dataclasses.replace(chained, digest=entry_digest(chained)))
        previous = made[-1].digest
    return made


def test_an_honest_history_is_whole() -> None:
    assert verify_entries(ACCOUNT, ENTRIES) == verify_entries(ACCOUNT, forged(0)) == 8
    assert [guarantee_from_json(entry.charge) for entry in ENTRIES if entry.charge] == [
        PureDP(number) for number in (2, 1, 1, 1)
    ]


@in_subtests(
    ("place", "changes", "why"),
    [
        (FIRST, {"part_charge": PureDP(1).to_json()}, "not what its split owes more"),
        (SECOND, {"part_charge": PureDP(2).to_json()}, "not what its split owes more"),
        (SECOND, {"part": "a"}, "not what its split owes more"),
        (FIRST, {"part_charge": PureDP(6).to_json()}, "more than its part has"),
        (FIRST, {"part_charge": None}, "half a part"),
        (FIRST, {"part": None}, "half a part"),
        (FIRST, {"split": None}, "half a part"),
        (FIRST, {"split": 1}, "cannot be read"),
        (FIRST, {"part_charge": "{}"}, "cannot be read"),
        (FIRST, {"sub_account": "ana", "sub_spent": PureDP(2).to_json()}, "another sub-account's"),
        (COMMIT, {"part": "b"}, "ends no reservation"),
        (COMMIT, {"split": None, "part": None}, "ends no reservation"),
        (VOID, {"part": "b"}, "ends no reservation"),
        (SPLIT, {"definition": None}, "cannot be read"),
        (SPLIT, {"definition": '{"name":"county","max_parts":0,"inside":null}'}, "cannot be read"),
        (SPLIT, {"definition": '{"name":"county","max_parts":3,"inside":null}'}, "owes more"),
        (SPLIT, {"definition": '{"name":"x","max_parts":1,"inside":[99,"a"]}'}, "cannot be read"),
        (SPLIT, {"split": 1}, "another split than its own"),
        (SPLIT, {"split": None}, "another split than its own"),
        (SPLIT, {"request": PureDP(1).to_json()}, "more than its part has"),
        (SPLIT, {"request": ZCDP(1).to_json()}, "cannot be read"),
        (WHOLE, {"split": 2, "part": "a", "part_charge": PureDP(1).to_json()}, "owes more"),
    ],
)
def test_no_split_can_be_told_otherwise(place: int, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(LedgerMismatch, match=why):
        verify_entries(ACCOUNT, forged(place, **changes))


def test_two_of_one_name_are_found() -> None:
    ledger = open_ledger(None)
    ledger.open_account("visits", PureDP(9), TERMS)
    split(ledger, name="county")
    split(ledger, name="town")
    entries = list(ledger.entries("visits"))
    entries[1] = dataclasses.replace(entries[1], definition=entries[0].definition)
    entries[1] = dataclasses.replace(entries[1], digest=entry_digest(entries[1]))
    with pytest.raises(LedgerMismatch, match="opens a split twice"):
        verify_entries(ledger.account("visits"), entries)


@pytest.mark.service
def test_what_was_changed_behind_its_back_is_not_built_upon() -> None:
    url = empty_schema()
    name = url.rpartition("%3D")[2]
    with contextlib.closing(open_ledger(url)) as ledger:
        ledger.open_account("visits", PLENTY, TERMS)
        of = split(ledger)
        for key in "aab":
            reserve(ledger, PureDP(1), part=part(of, key))
        with contextlib.closing(server().connect()) as behind:
            behind.execute(f"ALTER TABLE {name}.unacorda_entries DISABLE TRIGGER ALL".encode())
            little = PureDP("0.1").to_json()
            changed = f"UPDATE {name}.unacorda_entries SET part_charge = %s WHERE sequence = 2"
            behind.execute(changed.encode(), [little])
        with contextlib.closing(open_ledger(url)) as other:
            for _ in range(2):
                with pytest.raises(LedgerMismatch, match="Entry 2 of account 'visits' was changed"):
                    reserve(other, PureDP(1), part=part(of, "b"))
