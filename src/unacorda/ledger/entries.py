"""Accounts of a ledger, and their permanent entries."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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
    """The budget of a dataset and the terms of its account. Neither ever changes.

    Attributes
    ----------
    dataset
        The name of the account.
    budget
        The budget.
    terms
        Pairs (name, term), sorted by name, such as the privacy unit and the neighboring relation.
    opened
        The time of opening: UTC, ISO 8601.

    Examples
    --------
    >>> from unacorda.ledger import open_ledger
    >>> from unacorda.privacy.guarantees import PureDP
    >>> account = open_ledger(None).open_account("visits", PureDP(1), {"unit": "person"})
    >>> account.budget, account.terms
    (PureDP(epsilon=1.0), (('unit', 'person'),))
    """

    dataset: str
    budget: Guarantee
    terms: tuple[tuple[str, Term], ...]
    opened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of an account. Entries are never changed or removed.

    Attributes
    ----------
    sequence, dataset
        1, 2, 3, ... within the dataset, and the name of the account.
    state
        What the entry does. "reserved" charges the account. "committed" says that the answer of a
        reservation was computed. "voided" gives its charge back, since its question never reached
        the data. "opened" opens a sub-account, and "limited" changes its budget. "split" opens a
        split. "stepped" holds the next answer of a series and charges nothing.
    reservation
        The sequence of the reservation that is committed or voided, or of the series of a step.
        A reservation has its own.
    event, request, charge
        The privacy event, the budget offered and the charge, as JSON texts; empty if there is none.
    spent
        All that the dataset has spent after this entry, as JSON text.
    plan_digest, salt
        The hash of the plan, and the sampling salt. Neither depends on the data.
    analyst, purpose
        Who asked, and for what; None if nothing was said.
    time
        The time of writing: UTC, ISO 8601.
    reproducible
        Whether the noise came from a seed, and so protects no one.
    previous, digest
        The SHA-256 of the entry before and of this entry.
    sub_account, sub_spent
        The sub-account that is charged too, and all that it has spent after this entry.
    split, part, part_charge
        The sequence of the entry that opened the split, the key of the part that is charged, and
        the charge to it.
    definition
        The JSON text of a split or a series that is opened.
    limits
        The contribution bounds of the question, as JSON text.
    search, found
        The digest of a private search that an account pays for once, and its published answer.
    series, step
        The name of a series, and the number of a step, from 0.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> from unacorda.ledger import open_ledger
    >>> ledger, visits = open_ledger(None), pandas.DataFrame({"id": [1, 2, 3]})
    >>> with unacorda.Session(
    ...     {"visits": visits},
    ...     unit=unacorda.Person("id", max_rows=1),
    ...     budget=unacorda.PureDP(1),
    ...     dataset="visits",
    ...     ledger=ledger,
    ... ) as session:
    ...     question = session.table("visits").agg(n=unacorda.count())
    ...     release = session.evaluate(question, budget=unacorda.PureDP("0.5"))
    ...     entries = [(one.sequence, one.state) for one in ledger.entries("visits")]
    >>> entries
    [(1, 'reserved'), (2, 'committed')]
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

    def to_dict(self) -> dict[str, Any]:
        """Return the entry in plain values, its JSON texts as what they hold.

        Returns
        -------
        dict
            None for a text that is empty.
        """
        fields = {name: getattr(self, name) for name in FIELDS}
        held = {name: json.loads(fields[name]) if fields[name] else None for name in _TEXTS}
        return {**fields, **held}

    @property
    def closes(self) -> bool:
        """Whether the entry closes a sub-account, by limiting it to what it has spent."""
        return self.state == "limited" and self.request == self.sub_spent


_TEXTS = (
    *("event", "request", "charge", "spent", "sub_spent", "part_charge", "definition"),
    *("limits", "found"),
)
"""Of what an entry says, the texts of JSON."""

FIELDS = tuple(field.name for field in dataclasses.fields(Entry))
"""The names of what an entry says, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPart:
    """One part of a split. split: the sequence of the entry that opened it; key: any text."""

    split: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSplit:
    """A split of people into parts, each person in at most `max_parts`.

    Attributes
    ----------
    sequence
        The sequence of the entry that opened it.
    name
        The name under which it is found again; None if it has none.
    limit
        The most that each part may spend.
    max_parts
        The most parts of one person.
    digest, salt
        A hash of all that determines who is in which part, except the salt. The salt is in
        hexadecimal digits.
    inside
        The part that was split; None for the whole table.
    sub_account
        The sub-account that pays for it; None for the account of the dataset.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> from unacorda.ledger import open_ledger
    >>> ledger = open_ledger(None)
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "town": ["A", "B", "B"]})
    >>> with unacorda.Session(
    ...     {"visits": visits},
    ...     unit=unacorda.Person("id", max_rows=1),
    ...     budget=unacorda.PureDP(1),
    ...     dataset="visits",
    ...     ledger=ledger,
    ... ) as session:
    ...     parts = session.split("town", keys=["A", "B"], budget=unacorda.PureDP("0.5"))
    ...     [(split.limit, split.max_parts) for split in ledger.splits("visits")]
    [(PureDP(epsilon=0.5), 1)]
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
