"""The next entry of an account, sealed by the hash of the one before: pure functions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from unacorda import checks
from unacorda.accounting.filters import Filter
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.ledger.entries import LIMITS, Account, Charge, Entry, SplitPart, Term
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = [
    "End",
    "account_digest",
    "changed",
    "check_admitted",
    "check_first",
    "check_limits",
    "check_name",
    "check_notes",
    "ended_entry",
    "entry_digest",
    "honest",
    "is_storable",
    "matching_account",
    "new_account",
    "opened_entry",
    "other_account",
    "refunded",
    "refuse_reproducible",
    "reserved_entry",
    "split_entry",
    "terms_of",
]

End: TypeAlias = Literal["committed", "voided"]


def new_account(dataset: str, budget: Guarantee | None, terms: Mapping[str, Term]) -> Account:
    """The account as it will be stored; InvalidParameter where a part of it is missing."""
    if not isinstance(budget, Guarantee):
        expected = f"a budget, since no account named {dataset!r} has been opened yet"
        raise InvalidParameter("budget", budget, expected=expected)
    return Account(dataset=dataset, budget=budget, terms=terms_of(terms), opened=_now())


def terms_of(terms: Mapping[str, Any]) -> tuple[tuple[str, Term], ...]:
    """Terms as an account holds them, lists as tuples; InvalidParameter for what is none."""
    for name, term in terms.items():
        if not (is_storable(name) and _is_term(term)):
            expected = "names, each with a text or a list of such"
            raise InvalidParameter("terms", {name: term}, expected=expected)
    return tuple(sorted((name, _frozen(term)) for name, term in terms.items()))


def _is_term(term: object) -> bool:
    if isinstance(term, tuple | list):
        return all(map(_is_term, term))
    return is_storable(term)


def _frozen(term: Any) -> Term:
    return term if isinstance(term, str) else tuple(map(_frozen, term))


def matching_account(
    account: Account, budget: Guarantee | None, terms: Mapping[str, Term]
) -> Account:
    """The account, if budget (or its absence) and terms are those it was opened with."""
    if budget is not None and budget != account.budget:
        raise LedgerMismatch(
            f"Account {account.dataset!r} was opened with budget {account.budget}, not {budget}. "
            "Leave the budget out, or open an account of another name for other data."
        )
    if terms_of(terms) != account.terms:
        before, now = dict(account.terms), dict(terms_of(terms))
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


def check_name(argument: str, name: object) -> None:
    """InvalidParameter for what can be no name of an account."""
    if not (checks.is_text(name) and is_storable(name)):
        raise InvalidParameter(argument, name, expected="a name for the account, as text")


def is_storable(text: object) -> bool:
    """Whether it is text that every database keeps: no U+0000, no half of a character."""
    if not isinstance(text, str) or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_notes(**notes: str | None) -> None:
    """InvalidParameter for notes that no database keeps: with U+0000 or half a character."""
    for argument, text in notes.items():
        if text is not None and not is_storable(text):
            raise InvalidParameter(argument, text, expected="text without U+0000, or None")


def check_limits(limits: Mapping[str, int]) -> None:
    """InvalidParameter for what are no limits on rows."""
    for name, value in limits.items():
        if name not in LIMITS or type(value) is not int or value < 1:
            expected = f"whole numbers, 1 or above, of {', '.join(LIMITS)}"
            raise InvalidParameter("limits", {name: value}, expected=expected)


def refuse_reproducible(*, reproducible: bool) -> None:
    """Ledgers that outlive the process take no seeded noise: InvalidParameter."""
    if reproducible:
        raise InvalidParameter(
            "reproducible",
            reproducible,
            expected=(
                "noise from secure bits: who knows a seed can take seeded noise off again, so "
                "a ledger that outlives the process must not record it as protected; use an "
                "in-memory ledger for tests"
            ),
        )


def check_admitted(
    charge: Guarantee, whole: Filter, part: Filter | None, *, dataset: str, sub_account: str | None
) -> None:
    """BudgetExceeded where the dataset or its sub-account has less left than the charge."""
    if not whole.admits(charge):
        raise BudgetExceeded(asked=charge, left=whole.remaining, account=dataset)
    if part is not None and not part.admits(charge):
        raise BudgetExceeded(asked=charge, left=part.remaining, account=f"{dataset}/{sub_account}")


def refunded(sums: Filter, charge: Guarantee) -> Filter:
    """The filter before a charge that it has spent."""
    return Filter(sums.limit).spend(sums.spent - charge)


def opened_entry(account: Account, last: Entry | None, name: str, budget: Guarantee) -> Entry:
    """The entry that opens a sub-account; WrongUnit for a budget that the account does not add."""
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected=f"a budget as {account.budget}")
    Filter(account.budget).admits(budget)
    return _next(
        account,
        last,
        state="opened",
        request=budget.to_json(),
        spent=_nothing(account.budget) if last is None else last.spent,
        sub_account=name,
        sub_spent=_nothing(budget),
    )


def split_entry(
    account: Account,
    last: Entry | None,
    *,
    limit: Guarantee,
    digest: str,
    salt: bytes,
    definition: Mapping[str, Any],
    sub_account: str | None,
    sub_spent: Guarantee | None,
) -> Entry:
    """The entry that opens a split; WrongUnit for a limit that the account does not add."""
    if not isinstance(limit, Guarantee):
        raise InvalidParameter("budget", limit, expected=f"a budget as {account.budget}")
    Filter(account.budget).admits(limit)
    return _next(
        account,
        last,
        state="split",
        request=limit.to_json(),
        spent=_nothing(account.budget) if last is None else last.spent,
        plan_digest=digest,
        salt=salt.hex(),
        sub_account=sub_account,
        sub_spent=None if sub_spent is None else sub_spent.to_json(),
        definition=_encode(dict(definition)),
    )


def reserved_entry(
    account: Account,
    last: Entry | None,
    charge: Charge,
    *,
    event: str,
    due: Guarantee,
    spent: Guarantee,
    sub_account: str | None,
    sub_spent: Guarantee | None,
    part: SplitPart | None,
) -> Entry:
    """The entry that debits a charge that was admitted.

    event: the charge's as JSON text; due: what the dataset owes for it; spent, sub_spent: the sums
    once it stands; part: of a split, which is debited the cost itself.
    """
    return _next(
        account,
        last,
        state="reserved",
        event=event,
        request=charge.request.to_json(),
        charge=due.to_json(),
        spent=spent.to_json(),
        plan_digest=charge.plan_digest,
        salt=charge.salt.hex(),
        analyst=charge.analyst,
        purpose=charge.purpose,
        reproducible=charge.reproducible,
        sub_account=sub_account,
        sub_spent=None if sub_spent is None else sub_spent.to_json(),
        part=part,
        part_charge=None if part is None else charge.cost.to_json(),
        limits=_encode(dict(charge.limits)),
        search=None if charge.search is None else charge.search.digest,
    )


def ended_entry(
    last: Entry,
    reserved: Entry,
    state: End,
    spent: Guarantee,
    sub_spent: Guarantee | None,
    *,
    found: str | None = None,
) -> Entry:
    """The entry that commits or voids a reservation; spent, sub_spent: the sums after it.

    found: the answer of a search, JSON text.
    """
    return _sealed(
        sequence=last.sequence + 1,
        dataset=reserved.dataset,
        state=state,
        reservation=reserved.sequence,
        spent=spent.to_json(),
        plan_digest=reserved.plan_digest,
        salt=reserved.salt,
        analyst=reserved.analyst,
        purpose=reserved.purpose,
        reproducible=reserved.reproducible,
        previous=last.digest,
        sub_account=reserved.sub_account,
        sub_spent=None if sub_spent is None else sub_spent.to_json(),
        split=reserved.split,
        part=reserved.part,
        search=reserved.search,
        found=found,
    )


def changed(dataset: str, sequence: int, why: str) -> LedgerMismatch:
    """What to raise of an entry that no ledger wrote."""
    return LedgerMismatch(
        f"Entry {sequence} of account {dataset!r} was changed, or one is missing: {why}."
    )


def other_account(dataset: str) -> LedgerMismatch:
    """What to raise where an account is not the one that its entries were chained to."""
    return changed(dataset, 1, "the account's budget or terms were changed")


def check_first(account: Account, first: Entry | None) -> None:
    """LedgerMismatch where an account is not the one that its first entry was chained to."""
    if first is not None and first.previous != account_digest(account):
        raise other_account(account.dataset)


def honest(entry: Entry, sums: str) -> Guarantee:
    """The sums in an entry's text; LedgerMismatch where its digest shows that it was changed.

    This is asked of the last entry before anything is spent on top of it.
    """
    if entry.digest != entry_digest(entry):
        raise changed(entry.dataset, entry.sequence, "its digest is not that of its text")
    return guarantee_from_json(sums)


def entry_digest(entry: Entry) -> str:
    """The SHA-256 of an entry's text, its digest left out."""
    return _fields_digest({name: getattr(entry, name) for name in _NAMES})


def account_digest(account: Account) -> str:
    """The SHA-256 of an account's text, which the first entry chains to."""
    return _digest(
        {
            "dataset": account.dataset,
            "budget": account.budget.to_json(),
            "terms": dict(account.terms),
            "opened": account.opened,
        }
    )


_NONE = {
    **dict.fromkeys(("event", "request", "charge", "plan_digest", "salt"), ""),
    **dict.fromkeys(("analyst", "purpose", "sub_account", "sub_spent", "split", "part")),
    **dict.fromkeys(("part_charge", "definition", "limits", "search", "found")),
    "reproducible": False,
}
"""What an entry says where its state has nothing to say."""


def _next(
    account: Account,
    last: Entry | None,
    *,
    state: Literal["opened", "split", "reserved"],
    part: SplitPart | None = None,
    **fields: Any,
) -> Entry:
    sequence = 1 if last is None else last.sequence + 1
    return _sealed(
        sequence=sequence,
        dataset=account.dataset,
        state=state,
        reservation=sequence,
        previous=account_digest(account) if last is None else last.digest,
        split=part.split if part is not None else sequence if state == "split" else None,
        part=None if part is None else part.key,
        **fields,
    )


_NAMES = tuple(field.name for field in dataclasses.fields(Entry))


def _sealed(**stated: Any) -> Entry:
    fields = {**_NONE, **stated, "time": _now()}
    return Entry(**fields, digest=_fields_digest(fields))


def _fields_digest(fields: dict[str, Any]) -> str:
    return _digest({**fields, "digest": ""})


# What is no text or number was put there by force: it has some digest, and not the right one.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(_encode(fields).encode()).hexdigest()


def _nothing(budget: Guarantee) -> str:
    return Filter(budget).spent.to_json()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
