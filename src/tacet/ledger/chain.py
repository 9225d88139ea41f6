"""The next entry of an account, and the check of all of them: pure functions, shared by ledgers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from tacet.accounting.filters import Filter
from tacet.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from tacet.ledger.protocol import Account, Entry, Reservation
from tacet.privacy.events import Event
from tacet.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = [
    "committed_entry",
    "filter_after",
    "matching_account",
    "new_account",
    "refuse_reproducible",
    "reserved_entry",
    "verify_entries",
]


def new_account(dataset: str, budget: Guarantee | None, terms: Mapping[str, str]) -> Account:
    """The account as it will be stored; InvalidParameter where a part of it is missing."""
    if not dataset:
        raise InvalidParameter("dataset", dataset, expected="a name for the account, as text")
    if budget is None:
        expected = f"a budget, since no account named {dataset!r} has been opened yet"
        raise InvalidParameter("budget", budget, expected=expected)
    return Account(dataset=dataset, budget=budget, terms=_sorted(terms), opened=_now())


def matching_account(
    account: Account, budget: Guarantee | None, terms: Mapping[str, str]
) -> Account:
    """The account, if budget (or its absence) and terms are those it was opened with."""
    if budget is not None and budget != account.budget:
        raise LedgerMismatch(
            f"Account {account.dataset!r} was opened with budget {account.budget}, not {budget}. "
            "Leave the budget out, or open an account of another name for other data."
        )
    if _sorted(terms) != account.terms:
        before, now = dict(account.terms), dict(terms)
        names = sorted(name for name in before | now if before.get(name) != now.get(name))
        changes = "; ".join(
            f"{name}: {before.get(name)!r}, now {now.get(name)!r}" for name in names
        )
        raise LedgerMismatch(
            f"Account {account.dataset!r} was opened under other terms ({changes}). "
            "Ask under the terms it was opened with. Another account over the same people adds to "
            "what this one tells about them, and neither knows of the other."
        )
    return account


def filter_after(account: Account, last: Entry | None) -> Filter:
    """The account's filter once the last entry stands."""
    start = Filter(account.budget)
    return start if last is None else start.spend(guarantee_from_json(last.spent))


def reserved_entry(
    account: Account,
    last: Entry | None,
    *,
    charge: Guarantee,
    event: Event,
    request: Guarantee,
    plan_digest: str,
    salt: bytes,
    analyst: str | None,
    purpose: str | None,
    reproducible: bool,
) -> Entry:
    """The entry that debits the charge; BudgetExceeded where less is left."""
    before = filter_after(account, last)
    if not before.admits(charge):
        raise BudgetExceeded(asked=charge, left=before.remaining, account=account.dataset)
    sequence = 1 if last is None else last.sequence + 1
    return _sealed(
        sequence=sequence,
        dataset=account.dataset,
        state="reserved",
        reservation=sequence,
        event=event.to_json(),
        request=request.to_json(),
        charge=charge.to_json(),
        spent=before.spend(charge).spent.to_json(),
        plan_digest=plan_digest,
        salt=salt.hex(),
        analyst=analyst,
        purpose=purpose,
        reproducible=reproducible,
        previous=_account_digest(account) if last is None else last.digest,
    )


def committed_entry(last: Entry | None, reserved: Entry | None, reservation: Reservation) -> Entry:
    """The entry that notes a reservation's answer as computed.

    last: the account's last entry; reserved: the entry at the reservation's sequence.
    """
    if last is None or reserved is None or reserved.state != "reserved":
        raise InvalidParameter("reservation", reservation, expected="one that this ledger made")
    return _sealed(
        sequence=last.sequence + 1,
        dataset=reserved.dataset,
        state="committed",
        reservation=reserved.sequence,
        event="",
        request="",
        charge="",
        spent=last.spent,
        plan_digest=reserved.plan_digest,
        salt=reserved.salt,
        analyst=reserved.analyst,
        purpose=reserved.purpose,
        reproducible=reserved.reproducible,
        previous=last.digest,
    )


def verify_entries(account: Account, entries: Iterable[Entry]) -> int:
    """The number of entries, if sequence, hashes and sums are right; LedgerMismatch otherwise."""
    previous, count = _account_digest(account), 0
    sums = Filter(account.budget)
    for count, entry in enumerate(entries, start=1):
        honest = (
            entry.sequence == count
            and entry.dataset == account.dataset
            and entry.previous == previous
            and entry.digest == _entry_digest(entry)
        )
        if honest and entry.state == "reserved":
            sums = sums.spend(guarantee_from_json(entry.charge))
        if not honest or guarantee_from_json(entry.spent) != sums.spent:
            raise LedgerMismatch(
                f"Entry {count} of account {account.dataset!r} was changed, or one is missing."
            )
        previous = entry.digest
    return count


def refuse_reproducible(*, reproducible: bool) -> None:
    """Ledgers that outlive the process take no seeded noise: InvalidParameter."""
    if reproducible:
        raise InvalidParameter(
            "reproducible",
            reproducible,
            expected=(
                "noise from secure bits: whoever knows a seed can take seeded noise off again, so "
                "a ledger that outlives the process must not record it as protected; use an "
                "in-memory ledger for tests"
            ),
        )


def _sealed(
    *,
    sequence: int,
    dataset: str,
    state: Literal["reserved", "committed"],
    reservation: int,
    event: str,
    request: str,
    charge: str,
    spent: str,
    plan_digest: str,
    salt: str,
    analyst: str | None,
    purpose: str | None,
    reproducible: bool,
    previous: str,
) -> Entry:
    entry = Entry(
        sequence=sequence,
        dataset=dataset,
        state=state,
        reservation=reservation,
        event=event,
        request=request,
        charge=charge,
        spent=spent,
        plan_digest=plan_digest,
        salt=salt,
        analyst=analyst,
        purpose=purpose,
        time=_now(),
        reproducible=reproducible,
        previous=previous,
        digest="",
    )
    return dataclasses.replace(entry, digest=_entry_digest(entry))


def _account_digest(account: Account) -> str:
    return _digest(
        {
            "dataset": account.dataset,
            "budget": account.budget.to_json(),
            "terms": dict(account.terms),
            "opened": account.opened,
        }
    )


def _entry_digest(entry: Entry) -> str:
    return _digest({**dataclasses.asdict(entry), "digest": ""})


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _sorted(terms: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(terms.items()))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
