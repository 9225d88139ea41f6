"""What a ledger keeps: accounts, and the entries that stand below them for good."""

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

    dataset: the account's name; terms: what the promise is about, such as the unit and the
    neighbors, as (name, term) pairs in the order of the names; opened: UTC time, ISO 8601.
    """

    dataset: str
    budget: Guarantee
    terms: tuple[tuple[str, Term], ...]
    opened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of an account; none is ever changed or removed.

    sequence: 1, 2, 3, ... within the dataset. state: "reserved" debits the charge; "committed" says
    that the answer of an earlier reservation was computed, "voided" that its question never reached
    the data, and gives the charge back; "opened" opens a sub-account, whose budget is the request;
    "limited" gives a sub-account another budget, the request, no less than what it has spent;
    "split" opens a split, each part of which may spend the request; "stepped" holds the next answer
    of a series that was reserved as a whole, and debits nothing. reservation: the sequence of the
    reservation that is meant (a reservation's, or an opening's, own; of a step its series'). event,
    request, charge: JSON texts, empty where the state has none. spent: JSON text of all that is
    spent once this entry stands. plan_digest: hash of the plan, salt: hex of the sampling salt,
    neither a function of the data. time: UTC, ISO 8601, as the clock had it; the sequence is the
    order. reproducible: whether the noise came from a seed, and so protects no one. previous,
    digest: SHA-256 of the entry before (or of the account) and of this one. sub_account: the name
    of the sub-account that is debited too, and sub_spent: JSON text of all that it has spent once
    this entry stands; None where no sub-account is meant. split: the sequence of the entry that
    opened the split (its own, of that entry), part: the key of the part that is debited, and
    part_charge: JSON text of what it is debited; the charge is then what the split owes more for
    that. None where no split is meant. definition: JSON text of a split or a series that is opened.
    series: the name of a series, of its reservation alone. step: the number of a step, from 0.
    limits: of a reservation, JSON text of the limits on rows that its question keeps. search: the
    digest of a search that an account pays for once, of its reservation and of its end; found: of
    the end that commits it, or of a step, JSON text of the answer, which is public.
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
        """The part that is debited, None where none is."""
        if self.split is None or self.part is None:
            return None
        return SplitPart(split=self.split, key=self.part)

    @property
    def closes(self) -> bool:
        """Whether it closes a sub-account: it limits it to what it has spent."""
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
    """People divided into parts, of which everybody is in at most `max_parts`.

    sequence: of the entry that opened it. name: by which it is found again, if it has one. limit:
    what each part may spend. digest: of all that says who is in which part, but for the salt, which
    is hex. inside: the part that was split, None for the whole. sub_account: which owes for it.
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
    """A charge that stands from now on, whether or not it is committed.

    charge: what the dataset is debited.
    """

    dataset: str
    sequence: int
    charge: Guarantee
    sub_account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSearch:
    """A question whose answer is kept with the account, so that it is paid for once.

    digest: of what is searched; seen: the sequence of the newest entry about it that its asker has
    seen, 0 for none.
    """

    digest: str
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """That a charge is of a series of answers, found again by its name.

    definition: JSON text of all that its answers are made by, but for the data.
    """

    name: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRecord:
    """A series of answers as an account knows it.

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
    """What a question asks of a ledger.

    cost: what is debited; event: what will be released; request: the budget that was offered.
    plan_digest: hash of the plan, salt: of the sample of rows, neither a function of the data.
    reproducible: whether the noise comes from a seed, and so protects no one. analyst, purpose:
    noted. limits: on the rows that one person brings into the question, by name; noted. search:
    that the question is one, whose answer is kept. series: that answers follow, step by step.
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
    """What an account knows of a search.

    found: the answer, JSON text, None before there is one; paid: what was requested for it. seen:
    the sequence of the newest entry about it, 0 for none. begun: UTC time of a search that may
    still run, None where none does.
    """

    found: str | None
    paid: Guarantee | None
    seen: int
    begun: str | None


class SearchBegun(Exception):  # caught within the package, always
    """Somebody else began the same search, or ended it, since its asker looked."""


class SeriesOpened(Exception):  # caught within the package, always
    """There is a series of this name already."""
