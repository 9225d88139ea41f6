"""From questions asked together to their releases: priced, compiled, answered, written down.

Nothing here spends: a session reserves between the price and the engine, see `Session.evaluate`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unacorda.accounting.charges import charge, request_price
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.answers import Answer, Exact
from unacorda.query.allocation import Allocation, allocate, allocate_together, beyond, event_of
from unacorda.query.engines.exact_counts import Given, answers_of
from unacorda.query.engines.key_counts import Begun, admitted, finished
from unacorda.query.engines.protocol import Admission, Admitted
from unacorda.query.found_keys import FoundKeys
from unacorda.query.plan.batch import Place, Together, naming
from unacorda.query.plan.query import Query
from unacorda.query.provenance import provenance
from unacorda.query.release import Release
from unacorda.query.scans import Scan, scans_of

__all__ = ["Priced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question with all its keys, those included that were found, and its noisy answers."""

    query: Query
    answers: dict[str, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Questions with their noise and their price. charge: what the account owes for all."""

    together: Together
    allocations: tuple[Allocation, ...]
    request: Guarantee
    charge: Guarantee

    @staticmethod
    def of(together: Together, request: Guarantee, account: Guarantee) -> Priced:
        """Price questions; InvalidParameter or WrongUnit for a request that cannot be.

        What is about one of several questions names it.
        """
        try:
            allocations = allocate_together(together.queries, request, weights=together.weights)
        except InvalidParameter:
            for name, query in zip(together.names, together.queries, strict=True):
                with naming(name):  # where one of them could not be asked by itself either
                    allocate(query, request)
            raise
        request_price(request, account)  # refuses a budget of another unit
        try:
            cost = charge(event_of(allocations), request, account)
        except InvalidParameter:  # as it is written inside
            cost = None
        if cost is None:
            raise beyond(request)
        return Priced(together=together, allocations=allocations, request=request, charge=cost)

    @property
    def event(self) -> Event:
        """What all answers together cost."""
        return event_of(self.allocations)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The scans that answer the questions."""
        return scans_of(self.together.queries)

    def admitted(self, admission: Admission, *, salt: int) -> list[Admitted]:
        """What the engine may run, a scan each; UnsupportedConstruct for what it does not have."""
        return [admitted(admission, scan.query, salt=salt) for scan in self.scans]

    def answers(
        self, asked: Sequence[Admitted], counted: Sequence[Begun], bits: RandomBits
    ) -> list[Answered]:
        """The noisy answers to each question; counted: what the engine gave for each scan."""
        found: dict[int, Answered] = {}
        for scan, one, begun in zip(self.scans, asked, counted, strict=True):
            rule = self.allocations[scan.members[0]].rule
            whole, tallies = finished(one, begun, rule=rule, bits=bits)
            given = Given.of(whole, tallies)
            given.sharpen(
                {
                    scanned: aggregate.aims(self.allocations[place].noises[name])
                    for place in scan.members
                    for name in self.together.queries[place].aggregates
                    for scanned in [Scan.name_of(place, name)]
                    for aggregate in [whole.aggregates[scanned]]
                }
            )
            for place in scan.members:
                query = self.together.queries[place].with_keys(whole.keys)

                def exact(name: str, place: int = place, given: Given = given) -> Exact:
                    return given.exact(Scan.name_of(place, name))

                answers = answers_of(query, self.allocations[place], exact, bits)
                found[place] = Answered(query=query, answers=answers)
        return [found[place] for place in range(len(found))]

    def releases(
        self,
        answered: Sequence[Answered],
        *,
        remaining: Guarantee,
        salt: int,
        reproducible: bool,
    ) -> tuple[Release, ...]:
        """The answers with all that is said of them."""
        releases = []
        for number, query in enumerate(self.together.queries):
            place = None
            if not self.together.single:
                place = Place(together=self.together, number=number)
            lines = query.lines
            releases.append(
                Release(
                    query=query,
                    groups=query.released_groups,
                    keys=tuple(
                        key for key in answered[number].query.released_keys for _ in range(lines)
                    ),
                    answers=answered[number].answers,
                    request=self.request,
                    charge=self.charge,
                    remaining=remaining,
                    event=self.event,
                    provenance=provenance(
                        query, self.allocations[number], self.charge, place=place
                    ),
                    salt=f"{salt:032x}",
                    reproducible=reproducible,
                    batch=place,
                    found=FoundKeys.of(query, self.allocations[number]),
                )
            )
        return tuple(releases)
