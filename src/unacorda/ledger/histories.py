"""Which events of a history one person can have met: few of those about parts of the people."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from unacorda.accounting.parallel import ParallelComposition
from unacorda.ledger.entries import Entry, PeopleSplit, SplitPart
from unacorda.privacy.guarantees import ZCDP, Guarantee

__all__ = ["Owed", "met", "part_of", "standing"]

_MOST = 32


def standing(entries: Sequence[Entry]) -> list[Entry]:
    """The questions that were charged and not called off."""
    called_off = {entry.reservation for entry in entries if entry.state == "voided"}
    return [
        entry for entry in entries if entry.state == "reserved" and entry.sequence not in called_off
    ]


def part_of(entry: Entry) -> SplitPart | None:
    """The part that a question was about; None for one about everybody."""
    if entry.split is None or entry.part is None:
        return None
    return SplitPart(split=entry.split, key=entry.part)


class Owed:
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
    """Multisets of events, of which one holds all that any single person has met.

    Of a split a person has met at most `max_parts` parts. Where there are too many ways to choose
    them, one multiset stands for several: of every event as many as the ways have at most.
    """
    asked: dict[SplitPart | None, Counter[str]] = {}
    for entry in questions:
        asked.setdefault(part_of(entry), Counter())[entry.event] += 1
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
