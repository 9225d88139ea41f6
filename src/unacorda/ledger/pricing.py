"""Pricing a history again, by the numerical accountant and by an odometer.

The filter of an account adds prices of one kind, since questions are chosen adaptively. Afterwards
a tighter price of the same history is often possible. These prices are for reports: no budget grows
by them.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda.accounting.accountant import epsilon
from unacorda.accounting.odometers import Odometer
from unacorda.accounting.parallel import ParallelComposition, pair_price
from unacorda.accounting.prices import zcdp_price
from unacorda.balls import ball, float_up
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.ledger.entries import Entry, PeopleSplit, SplitPart
from unacorda.ledger.ledger import Ledger
from unacorda.ledger.splits import neighbors_of, split_of
from unacorda.privacy.events import from_json
from unacorda.privacy.guarantees import (
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_json,
    share,
    zcdp_of,
)
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

_OFTEN = Fraction(1, 20)
_MOST = 32
"""The most multisets of events that are kept apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repriced:
    """The cost of all charges to a dataset as (epsilon, delta)-DP, at one delta.

    Attributes
    ----------
    dataset
        The name of the account.
    questions
        The number of charges that were not voided.
    spent
        What the ledger counts.
    delta
        The delta of `fixed`.
    neighbors
        The neighboring relation.
    fixed
        The epsilon of all events together. It is valid if all noise was fixed before the first
        answer. The questions may depend on earlier answers. For a split, the events of any
        `max_parts` parts count. None if no theorem here composes the events.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.ledger import open_ledger, reprice
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", unacorda.ZCDP(1), {"neighbors": "AddRemove"})
    >>> cost = reprice(ledger, "visits", delta=1e-6)
    >>> cost.questions, cost.fixed
    (0, 0.0)
    """

    dataset: str
    questions: int
    spent: Guarantee
    delta: Fraction
    neighbors: Neighbors
    fixed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OdometerReading:
    """(epsilon, delta)-DP of all answers so far, read at any time and for any reason.

    Attributes
    ----------
    epsilon, delta
        The guarantee.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.ledger import odometer, open_ledger
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", unacorda.PureDP(1), {"neighbors": "AddRemove"})
    >>> odometer(ledger, "visits", delta=1e-6).epsilon
    0.0
    """

    epsilon: float
    delta: Fraction


def reprice(ledger: Ledger, dataset: str, *, delta: Number) -> Repriced:
    """Price the whole history of a dataset again, by the numerical accountant.

    If the noise was chosen adaptively too, use `odometer`.

    Bound: upper. Source: those of the accountant.

    Parameters
    ----------
    ledger
        The ledger.
    dataset
        The name of the account.
    delta
        From 0 to below 1; the events' own deltas are part of it.

    Returns
    -------
    Repriced
        The sum of the ledger, and the epsilon of all events together.

    Raises
    ------
    LedgerMismatch
        If there is no such account, or it has no neighboring relation.
    InvalidParameter
        For a delta out of its range.

    Examples
    --------
    >>> from unacorda.ledger.entries import Charge
    >>> from unacorda.ledger.ledger import open_ledger
    >>> from unacorda.privacy.events import Gaussian
    >>> from unacorda.privacy.guarantees import ZCDP
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", ZCDP(1), {"neighbors": "AddRemove"})
    >>> for number in range(10):
    ...     asked = Charge(
    ...         cost=ZCDP("0.005"),
    ...         event=Gaussian(noise_multiplier=10),
    ...         request=ZCDP("0.005"),
    ...         reproducible=False,
    ...     )
    ...     reservation = ledger.reserve("visits", asked)
    >>> found = reprice(ledger, "visits", delta=1e-6)
    >>> found.spent, round(found.fixed, 3), round(odometer(ledger, "visits", delta=1e-6).epsilon, 3)
    (ZCDP(rho=0.05), 1.368, 2.163)
    """
    account, entries = ledger.account(dataset), ledger.entries(dataset)
    questions = standing(entries)
    share_of_delta = share("delta", delta)
    neighbors = neighbors_of(account)
    splits = [split_of(entry) for entry in entries if entry.state == "split"]
    fixed: float | None = None
    # Events about parts are stated for who is added or removed, and a replaced person is both.
    if neighbors is not ReplaceOne or all(entry.debited is None for entry in questions):
        with contextlib.suppress(UnsupportedEvent):
            fixed = max(
                epsilon(
                    [from_json(text) * count for text, count in events.items()],
                    delta=share_of_delta,
                    neighbors=neighbors,
                )
                for events in met(questions, splits)
            )
    return Repriced(
        dataset=dataset,
        questions=len(questions),
        spent=ledger.spent(dataset),
        delta=share_of_delta,
        neighbors=neighbors,
        fixed=fixed,
    )


def odometer(ledger: Ledger, dataset: str, *, delta: Number) -> OdometerReading:
    r"""Bound the privacy loss so far, at all times simultaneously, for adaptive questions.

    Statement: each question costs the zCDP price of its event, if that has no delta of its own and
    is smaller, else its charge. A question about a part costs the increase of what its split owes,
    with the largest sums taken in zCDP. If the costs' own deltas are within that of the budget, the
    reading is that of `accounting.odometers.Odometer` at delta minus the budget's. If the costs
    have no delta, the plain sum of epsilons is a reading too.

    Bound: upper, rounded up.

    Source: docs/proofs/filters.md, Theorem 5. Of two readings, one of which spends d and the other
    d' outside of epsilon, the smaller is one that spends d + d': a set of transcripts is divided
    into those on which the one is smaller, and the others.

    Parameters
    ----------
    ledger
        The ledger.
    dataset
        The name of the account.
    delta
        The delta of the reading, above that of the account's budget and below 1. It must be the
        same at every reading and fixed before the first answer.

    Returns
    -------
    OdometerReading
        Epsilon and delta of all answers so far.

    Raises
    ------
    InvalidParameter
        For another delta, and for an account in Renyi DP, which has no odometer here.
    LedgerMismatch
        If there is no such account.

    Examples
    --------
    >>> from unacorda.ledger.entries import Charge
    >>> from unacorda.ledger.ledger import open_ledger
    >>> from unacorda.privacy.events import Laplace
    >>> from unacorda.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", PureDP(1), {"neighbors": "AddRemove"})
    >>> cost, event = PureDP("0.25"), Laplace(noise_multiplier=4)
    >>> charge = Charge(cost=cost, event=event, request=cost, reproducible=False)
    >>> reservation = ledger.reserve("visits", charge)
    >>> round(odometer(ledger, "visits", delta=1e-6).epsilon, 6)
    0.25
    """
    account = ledger.account(dataset)
    whole = zcdp_of(account.budget)
    if whole is None:
        expected = "an account in PureDP, ApproxDP, ZCDP or GDP, for an odometer"
        raise InvalidParameter("dataset", dataset, expected=expected)
    total = share("delta", delta)
    if not whole.delta < total < 1:
        expected = f"a number above the budget's own delta, {float(whole.delta)!r}, and below 1"
        raise InvalidParameter("delta", delta, expected=expected)
    # Any fixed number is valid. A budget of epsilons is mostly spent in many small parts.
    sharp = whole.rho or _OFTEN
    if isinstance(account.budget, PureDP | ApproxDP):
        sharp = min(sharp, _OFTEN)
    meter = Odometer(delta=total - whole.delta, own_delta=whole.delta, sharp_at=sharp)
    entries = ledger.entries(dataset)
    owed = _Owed(split_of(entry) for entry in entries if entry.state == "split")
    pairs = bool(owed) and neighbors_of(account) is ReplaceOne
    for entry in standing(entries):
        meter = meter.spend(owed.spend(entry.debited, _concentrated(entry, pairs=pairs)))
    reading = meter.epsilon
    spent = ledger.spent(dataset)
    if isinstance(spent, PureDP | ApproxDP) and meter.spent.delta == 0:
        reading = min(reading, float_up(ball(spent.epsilon)))
    return OdometerReading(epsilon=reading, delta=total)


def _concentrated(entry: Entry, *, pairs: bool) -> Guarantee:
    """The cost of one question in zCDP, or as it was charged where that is all there is.

    pairs: whether a question about a part is priced for a replaced person.
    """
    charge = guarantee_from_json(entry.charge if entry.part_charge is None else entry.part_charge)
    pair = pairs and entry.part_charge is not None
    known = zcdp_of(pair_price(charge) if pair else charge)
    try:
        price = zcdp_price(from_json(entry.event))
    except UnsupportedEvent:
        price = None
    if price is not None and price.delta == 0:
        price = ZCDP(4 * price.rho) if pair else price
        if known is None or price.rho <= known.rho:
            return price
    return charge if entry.part_charge is None or known is None else known


def standing(entries: Sequence[Entry]) -> list[Entry]:
    """The questions that were charged and not voided."""
    called_off = {entry.reservation for entry in entries if entry.state == "voided"}
    return [
        entry for entry in entries if entry.state == "reserved" and entry.sequence not in called_off
    ]


class _Owed:
    """What the splits of an account owe in zCDP, whatever the account itself adds."""

    def __init__(self, splits: Iterable[PeopleSplit]) -> None:
        self._splits = {split.sequence: split for split in splits}
        self._sums = {
            sequence: ParallelComposition(ZCDP(0), max_parts=split.max_parts)
            for sequence, split in self._splits.items()
        }

    def __bool__(self) -> bool:
        """Whether there are splits."""
        return bool(self._splits)

    def spend(self, part: SplitPart | None, cost: Guarantee) -> Guarantee:
        """By how much the account owes more for a cost; all of it, where it is about no part."""
        while part is not None:
            cost = self._sums[part.split].spend(part.key, cost)
            part = self._splits[part.split].inside
        return cost


def met(questions: Iterable[Entry], splits: Iterable[PeopleSplit]) -> list[Counter[str]]:
    """Multisets of events, one of which contains the events of any single person.

    A person is in at most `max_parts` parts of a split. If there are too many ways to choose them,
    one multiset covers several ways: each event as often as in any of them.
    """
    asked: dict[SplitPart | None, Counter[str]] = {}
    for entry in questions:
        asked.setdefault(entry.debited, Counter())[entry.event] += 1
    within: dict[SplitPart | None, list[PeopleSplit]] = {}
    for split in splits:
        within.setdefault(split.inside, []).append(split)
    keys: dict[int, set[str]] = {}
    for place in [*asked, *within]:
        if place is not None:
            keys.setdefault(place.split, set()).add(place.key)

    def met_in(place: SplitPart | None) -> list[Counter[str]]:
        found = [asked.get(place, Counter())]
        for split in within.get(place, []):
            parts = [
                met_in(SplitPart(split=split.sequence, key=key))
                for key in sorted(keys.get(split.sequence, ()))
            ]
            chosen = _chosen(parts, split.max_parts)
            found = _few([one + other for one in found for other in chosen])
        return found

    return met_in(None)


def _chosen(parts: list[list[Counter[str]]], most: int) -> list[Counter[str]]:
    """What somebody has met who is in `most` of these parts."""
    few = [_few(ways) for ways in parts]
    count = min(most, len(few))
    ways = math.comb(len(few), count) * math.prod(sorted(map(len, few))[len(few) - count :])
    if ways > _MOST:
        return [_most_of([_most_of(ways, 1) for ways in few], count)]
    return _few(
        [
            sum(chosen, Counter[str]())
            for some in itertools.combinations(few, count)
            for chosen in itertools.product(*some)
        ]
    )


def _few(ways: list[Counter[str]]) -> list[Counter[str]]:
    """Without those that others hold; one for all, where they are many."""
    kept: list[Counter[str]] = []
    for way in sorted(ways, key=Counter.total, reverse=True):
        if not any(way <= other for other in kept):
            kept.append(way)
    return kept if len(kept) <= _MOST else [_most_of(kept, 1)]


def _most_of(ways: Iterable[Counter[str]], count: int) -> Counter[str]:
    """Of every event as many as any `count` of these have together."""
    listed = list(ways)
    events = {event for way in listed for event in way}
    return Counter(
        {event: sum(heapq.nlargest(count, (way[event] for way in listed))) for event in events}
    )
