"""Accounts of a ledger, and their permanent entries."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee

Term: TypeAlias = "str | tuple[Term, ...]"
"""One term of an account: a text, or terms in their order."""

State: TypeAlias = Literal[
    "opened", "limited", "split", "reserved", "stepped", "committed", "voided"
]
"""What an entry does."""

LIMITS = ("max_rows", "max_groups", "max_rows_per_group")
"""What may bound how much of a question is one person's, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTerms:
    """A dataset's budget and the terms under which it was opened; neither ever changes.

    dataset: the account's name; terms: those of the guarantee, such as the unit and the neighbors,
    as (name, term) pairs in the order of the names; opened: UTC time, ISO 8601.
    """

    dataset: str
    budget: Guarantee
    terms: tuple[tuple[str, Term], ...]
    opened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of an account; none is ever changed or removed.

    sequence: 1, 2, 3, ... within the dataset. state: "reserved" debits the charge; "committed"
    notes that the answer of an earlier reservation was computed; "voided" notes that its question
    never reached the data, and gives the charge back; "opened" opens a sub-account, whose budget is
    the request; "limited" changes the budget of a sub-account to the request, no less than it has
    spent; "split" opens a split, each part of which may spend the request; "stepped" has the next
    answer of a series that was reserved as a whole, and debits nothing. reservation: the sequence
    of the reservation (for a reservation or an opening its own; for a step that of its series).
    event, request, charge: JSON texts, empty if the state has none. spent: JSON text of all that is
    spent after this entry. plan_digest: hash of the plan, salt: hex of the sampling salt; neither
    depends on the data. time: UTC, ISO 8601, by the clock; the sequence gives the order.
    reproducible: whether the noise came from a seed, and so protects no one. previous, digest:
    SHA-256 of the entry before (or of the account) and of this one. sub_account: the name of the
    sub-account that is debited too, and sub_spent: JSON text of all that it has spent after this
    entry; None without a sub-account. split: the sequence of the entry that opened the split (its
    own in that entry), part: the key of the debited part, and part_charge: JSON text of its debit;
    the charge is then the increase of what the split owes. None without a split. definition: JSON
    text of a split or a series that is opened. series: the name of a series, only in its
    reservation. step: the number of a step, from 0. limits: JSON text of the contribution bounds,
    in a reservation. search: the digest of a search that an account pays for once, in its
    reservation and its end; found: JSON text of the answer, which is public, in the end that
    commits it or in a step.
    """

    sequence: int
    dataset: str
    state: State
    reservation: int
    event: str
    request: str
    charge: str
    spent: str
    plan_digest: str
    salt: str
    analyst: str | None
    purpose: str | None
    time: str
    reproducible: bool
    previous: str
    digest: str
    sub_account: str | None = None
    sub_spent: str | None = None
    split: int | None = None
    part: str | None = None
    part_charge: str | None = None
    definition: str | None = None
    limits: str | None = None
    search: str | None = None
    found: str | None = None
    series: str | None = None
    step: int | None = None

    @property
    def debited(self) -> SplitPart | None:
        """The debited part, or None."""
        if self.split is None or self.part is None:
            return None
        return SplitPart(split=self.split, key=self.part)

    @property
    def closes(self) -> bool:
        """Whether it closes a sub-account by limiting it to what it has spent."""
        return self.state == "limited" and self.request == self.sub_spent


FIELDS = tuple(field.name for field in dataclasses.fields(Entry))
"""The names of what an entry says, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPart:
    """One part of a split. split: the sequence of the entry that opened it; key: any text."""

    split: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSplit:
    """People in overlapping parts, each person in at most `max_parts`.

    sequence: of the entry that opened it. name: for finding it again, if it has one. limit: the
    most that each part may spend. digest: of all that determines who is in which part, except the
    salt, which is hex. inside: the part that was split, None for the whole. sub_account: which owes
    for it.
    """

    sequence: int
    name: str | None
    limit: Guarantee
    max_parts: int
    digest: str
    salt: str
    inside: SplitPart | None
    sub_account: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A debited charge, committed or not.

    charge: what the dataset is debited.
    """

    dataset: str
    sequence: int
    charge: Guarantee
    sub_account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSearch:
    """A question whose answer the account keeps, so that it is paid for once.

    digest: of the search; seen: the sequence of the newest entry about it that the caller has seen,
    0 for none.
    """

    digest: str
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """The terms of a series of answers, which is found again by its name.

    definition: JSON text of all that determines its answers, except the data.
    """

    name: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRecord:
    """A series of answers in an account.

    sequence: of its reservation. digest: of its plan; salt: of its sample of rows, hex. request:
    the budget that was offered. steps: the answers so far, JSON texts, oldest first.
    """

    sequence: int
    name: str
    definition: str
    digest: str
    salt: str
    request: Guarantee
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The charge of a question to a ledger.

    cost: what is debited; event: of the release; request: the budget that was offered. plan_digest:
    hash of the plan, salt: of the sample of rows; neither depends on the data. reproducible:
    whether the noise comes from a seed, and so protects no one. analyst, purpose: noted. limits:
    the contribution bounds by name; noted. search: of a question whose answer is kept. series: of a
    question whose answers follow step by step.
    """

    cost: Guarantee
    event: Event
    request: Guarantee
    reproducible: bool
    plan_digest: str = ""
    salt: bytes = b""
    analyst: str | None = None
    purpose: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    search: RowSearch | None = None
    series: SeriesTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The state of a search in an account.

    found: the answer, JSON text, None before there is one; paid: what was requested for it. seen:
    the sequence of the newest entry about it, 0 for none. begun: UTC time of a search that may
    still run, or None.
    """

    found: str | None
    paid: Guarantee | None
    seen: int
    begun: str | None


class SearchBegun(Exception):  # caught within the package, always
    """Another process has begun or ended the same search since the caller looked."""


class SeriesOpened(Exception):  # caught within the package, always
    """A series of this name exists already."""
