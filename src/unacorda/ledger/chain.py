"""The next entry of an account, chained to the one before by its hash, as pure functions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from unacorda import checks
from unacorda.accounting.filters import Filter
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.ledger.entries import (
    FIELDS,
    LIMITS,
    AccountTerms,
    Charge,
    Entry,
    SplitPart,
    State,
    Term,
)
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json

End: TypeAlias = Literal["committed", "voided"]

Sums: TypeAlias = Mapping[str | None, Filter]
"""What is spent of the dataset's budget, under None, and of that of a sub-account, under its name.

Of the sub-account that an entry debits too, where it debits one.
"""


def new_account(dataset: str, budget: Guarantee | None, terms: Mapping[str, Term]) -> AccountTerms:
    """Make an account to store; InvalidParameter if a part is missing."""
    if not isinstance(budget, Guarantee):
        expected = f"a budget, since no account named {dataset!r} has been opened yet"
        raise InvalidParameter("budget", budget, expected=expected)
    return AccountTerms(dataset=dataset, budget=budget, terms=terms_of(terms), opened=_now())


def terms_of(terms: Mapping[str, Any]) -> tuple[tuple[str, Term], ...]:
    """Normalize the terms of an account, lists as tuples; InvalidParameter for invalid terms."""
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
    account: AccountTerms, budget: Guarantee | None, terms: Mapping[str, Term]
) -> AccountTerms:
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
    """Raise InvalidParameter for an invalid name of an account."""
    if not (checks.is_text(name) and is_storable(name)):
        raise InvalidParameter(argument, name, expected="a name for the account, as text")


def is_storable(text: object) -> bool:
    """Whether every database can store a text: without U+0000 and lone surrogates."""
    if not isinstance(text, str) or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_notes(**notes: str | None) -> None:
    """Raise InvalidParameter for notes that no database can store."""
    for argument, text in notes.items():
        if text is not None and not is_storable(text):
            raise InvalidParameter(argument, text, expected="text without U+0000, or None")


def check_limits(limits: Mapping[str, int]) -> None:
    """Raise InvalidParameter for invalid limits on rows."""
    for name, value in limits.items():
        if name not in LIMITS or type(value) is not int or value < 1:
            expected = f"whole numbers, 1 or above, of {', '.join(LIMITS)}"
            raise InvalidParameter("limits", {name: value}, expected=expected)


def check_reproducible(*, reproducible: bool) -> None:
    """Raise InvalidParameter for seeded noise in a ledger that outlives the process."""
    if reproducible:
        expected = (
            "noise from secure bits: who knows a seed can take seeded noise off again, so a ledger "
            "that outlives the process must not record it as protected; use an in-memory ledger "
            "for tests"
        )
        raise InvalidParameter("reproducible", reproducible, expected=expected)


def check_admitted(charge: Guarantee, sums: Sums, *, dataset: str) -> None:
    """Raise BudgetExceeded if the dataset or its sub-account has less left than the charge."""
    for name, own in sums.items():
        if not own.admits(charge):
            account = dataset if name is None else f"{dataset}/{name}"
            raise BudgetExceeded(asked=charge, left=own.remaining, account=account)


def check_not_closed(limits: Entry, cost: Guarantee) -> None:
    """Raise BudgetExceeded if the newest entry about a sub-account's limit closes it."""
    if limits.closes:
        account = f"{limits.dataset}/{limits.sub_account}"
        raise BudgetExceeded(asked=cost, left=cost - cost, account=account)


def refunded(sums: Filter, charge: Guarantee) -> Filter:
    """The filter before a charge that it has spent."""
    return Filter(sums.limit).spend(sums.spent - charge)


def opened_entry(
    account: AccountTerms, last: Entry | None, whole: Filter, name: str, budget: Guarantee
) -> Entry:
    """The entry that opens a sub-account; WrongUnit for a budget in another unit."""
    _check_addable(account, budget)
    sums = {None: whole, name: Filter(budget)}
    return _next(account, last, sums, state="opened", request=budget.to_json())


def limited_entry(
    account: AccountTerms, last: Entry, sums: Sums, name: str, budget: Guarantee, *, by: str | None
) -> Entry:
    """The entry that changes a sub-account's budget; BudgetExceeded below what is spent.

    sums: the current ones, under the old budget.
    """
    _check_addable(account, budget)
    spent = sums[name].spent
    if not spent <= budget:
        expected = f"at least what {name!r} has spent, {spent}; None closes the sub-account"
        raise InvalidParameter("budget", budget, expected=expected)
    return _next(account, last, sums, state="limited", request=budget.to_json(), analyst=by)


def split_entry(
    account: AccountTerms,
    last: Entry | None,
    sums: Sums,
    *,
    limit: Guarantee,
    digest: str,
    salt: bytes,
    definition: Mapping[str, Any],
) -> Entry:
    """The entry that opens a split; WrongUnit for a limit in another unit."""
    _check_addable(account, limit)
    return _next(
        account,
        last,
        sums,
        state="split",
        request=limit.to_json(),
        plan_digest=digest,
        salt=salt.hex(),
        definition=_encode(dict(definition)),
    )


def _check_addable(account: AccountTerms, budget: object) -> None:
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected=f"a budget as {account.budget}")
    Filter(account.budget).admits(budget)


def reserved_entry(
    account: AccountTerms,
    last: Entry | None,
    sums: Sums,
    charge: Charge,
    *,
    event: str,
    due: Guarantee,
    part: SplitPart | None,
) -> Entry:
    """The entry that debits an admitted charge.

    sums: after it; event: the charge's as JSON text; due: what the dataset owes for it; part: of a
    split, which is debited the cost itself.
    """
    return _next(
        account,
        last,
        sums,
        state="reserved",
        event=event,
        request=charge.request.to_json(),
        charge=due.to_json(),
        plan_digest=charge.plan_digest,
        salt=charge.salt.hex(),
        analyst=charge.analyst,
        purpose=charge.purpose,
        reproducible=charge.reproducible,
        split=None if part is None else part.split,
        part=None if part is None else part.key,
        part_charge=None if part is None else charge.cost.to_json(),
        limits=_encode(dict(charge.limits)),
        search=None if charge.search is None else charge.search.digest,
        series=None if charge.series is None else charge.series.name,
        definition=None if charge.series is None else charge.series.definition,
    )


_OF_BOTH = ("plan_digest", "salt", "analyst", "purpose", "reproducible", "split", "part", "search")
"""What the end of a reservation, or a step of it, says as the reservation did."""


def ended_entry(
    account: AccountTerms,
    last: Entry,
    sums: Sums,
    reserved: Entry,
    *,
    state: End,
    found: str | None,
) -> Entry:
    """The entry that commits or voids a reservation; sums: after it.

    found: the answer of a search, JSON text.
    """
    same = {name: getattr(reserved, name) for name in _OF_BOTH}
    ends = reserved.sequence
    return _next(account, last, sums, state=state, reservation=ends, found=found, **same)


def stepped_entry(
    account: AccountTerms, last: Entry, sums: Sums, reserved: Entry, *, step: int, found: str
) -> Entry:
    """The entry with the answer of the next step of a series; sums: as they are."""
    same = {name: getattr(reserved, name) for name in _OF_BOTH}
    ends = reserved.sequence
    return _next(
        account, last, sums, state="stepped", reservation=ends, step=step, found=found, **same
    )


def changed_ledger(dataset: str, sequence: int, why: str) -> LedgerMismatch:
    """The error for an entry that no ledger wrote."""
    return LedgerMismatch(
        f"Entry {sequence} of account {dataset!r} was changed, or one is missing: {why}."
    )


def other_account(dataset: str) -> LedgerMismatch:
    """The error for an account that its entries are not chained to."""
    return changed_ledger(dataset, 1, "the account's budget or terms were changed")


def honest_sums(entry: Entry, sums: str) -> Guarantee:
    """The sums in an entry's text; LedgerMismatch if its digest shows a change.

    It is called for the last entry before anything is spent.
    """
    if entry.digest != entry_digest(entry):
        raise changed_ledger(entry.dataset, entry.sequence, "its digest is not that of its text")
    return guarantee_from_json(sums)


def entry_digest(entry: Entry) -> str:
    """The SHA-256 of an entry's text, its digest left out."""
    return _digest({**{name: getattr(entry, name) for name in FIELDS}, "digest": ""})


def account_digest(account: AccountTerms) -> str:
    """The SHA-256 of an account's text, which the first entry chains to."""
    return _digest(account_fields(account))


def account_fields(account: AccountTerms) -> dict[str, Any]:
    """An account in plain values; `read_account` gives it back."""
    return {
        "dataset": account.dataset,
        "budget": account.budget.to_json(),
        "terms": dict(account.terms),
        "opened": account.opened,
    }


def read_account(dataset: str, budget: str, terms: Mapping[str, Any], opened: str) -> AccountTerms:
    """The account of plain values; raises their errors if they are invalid."""
    limit = guarantee_from_json(budget)
    return AccountTerms(dataset=dataset, budget=limit, terms=terms_of(terms), opened=opened)


_NONE = {
    **dict.fromkeys(("event", "request", "charge", "plan_digest", "salt"), ""),
    **dict.fromkeys(("analyst", "purpose", "part", "part_charge", "definition", "limits")),
    **dict.fromkeys(("search", "found", "series", "step")),
    "reproducible": False,
}
"""What an entry says where its state has nothing to say."""


def _next(
    account: AccountTerms,
    last: Entry | None,
    sums: Sums,
    *,
    state: State,
    **fields: Any,
) -> Entry:
    sequence = 1 if last is None else last.sequence + 1
    debited = [name for name in sums if name is not None]
    stated = {
        **_NONE,
        "sequence": sequence,
        "dataset": account.dataset,
        "state": state,
        "reservation": sequence,
        "spent": sums[None].spent.to_json(),
        "time": _now(),
        "previous": account_digest(account) if last is None else last.digest,
        "sub_account": debited[0] if debited else None,
        "sub_spent": sums[debited[0]].spent.to_json() if debited else None,
        "split": sequence if state == "split" else None,
        **fields,
    }
    return Entry(**stated, digest=_digest({**stated, "digest": ""}))


# What is no text or number was put there by force: it has some digest, and not the right one.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(_encode(fields).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
