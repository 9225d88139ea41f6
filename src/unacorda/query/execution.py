"""Answering a batch of questions. The order of the steps is the privacy guarantee.

    admit     what the session did not begin, or the engine cannot compute, is refused
    reserve   the charge is written to the ledger, durably
    run       exact integers leave the engine
    commit
    answer    noise is added, errors and provenance are attached

A crash after the second step keeps the charge. It is given back only where the engine is found
closed or a file another one, before a row is read: neither is a function of what rows hold.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from unacorda.accounting.charges import request_price
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.ledger.entries import Charge, Reservation, RowSearch
from unacorda.ledger.ledger import Ledger, SubAccount
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.base import Answer, Exact
from unacorda.query.aggregates.hierarchy import GivenLevelWeights
from unacorda.query.allocation import PricedBatch
from unacorda.query.engines.engine import Admission, Admitted, Engine
from unacorda.query.engines.exact_counts import (
    Given,
    ScanResult,
    admitted,
    answers_of,
    run,
    select_keys,
)
from unacorda.query.error_targets import split_for, targets_of
from unacorda.query.noise.key_selection import GivenKeys
from unacorda.query.plan.query import (
    BatchPosition,
    Query,
    QueryBatch,
    Scan,
    members_of,
    read_together,
)
from unacorda.query.results.release import Release
from unacorda.query.results.row_search import found_in
from unacorda.query.results.simulation import Assume, assumed_of, check_assumption
from unacorda.query.results.words import FoundKeys, provenance
from unacorda.query.sql.postprocess import Select
from unacorda.query.sql.select import build_query, parse_select

__all__ = ["Request", "check_engine", "execute", "read_request", "reserve", "salt_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question with all its keys, those included that were found, and its noisy answers."""

    query: Query
    answers: dict[str, Answer]


def execute(
    priced: PricedBatch,
    admission: Admission,
    ledger: Ledger | SubAccount,
    dataset: str,
    *,
    bits: RandomBits,
    notes: Mapping[str, str | None],
    search: RowSearch | None = None,
) -> tuple[Release, ...]:
    """The answers to all questions, or none.

    admission: of the session that is asked; notes: who asks, and what for.

    search: that the questions are one, whose answer is kept in the entry that commits its charge:
    it is not known before, and never known without having been paid for.
    Raises as `Session.evaluate` does.
    """
    engine = admission.engine
    check_engine(engine)
    salt = salt_from(bits)
    asked = [admitted(admission, scan.query, salt=salt) for scan in priced.scans]
    charge = Charge(
        cost=priced.charge,
        event=priced.event,
        request=priced.request,
        reproducible=not bits.secure,
        plan_digest=priced.together.digest(),
        salt=salt.to_bytes(16, "big"),
        limits=priced.together.queries[0].unit.limits,
        analyst=notes["analyst"],
        purpose=notes["purpose"],
        search=search,
    )
    reservation = reserve(ledger, dataset, engine, charge)
    with ExitStack() as kept:
        counted = [run(one, kept) for one in asked]
        engine.check_sources()
        if search is None:
            ledger.commit(reservation)
        answers = _answers(priced, asked, counted, bits)
    if search is not None:
        ledger.commit(reservation, found=found_in(answers))
    remaining = ledger.remaining(dataset)
    return _releases(priced, answers, remaining=remaining, salt=salt, reproducible=not bits.secure)


def _answers(
    priced: PricedBatch, asked: Sequence[Admitted], counted: Sequence[ScanResult], bits: RandomBits
) -> list[Answered]:
    """The noisy answers to each question; counted: what the engine gave for each scan."""
    found: dict[int, Answered] = {}
    for scan, one, result in zip(priced.scans, asked, counted, strict=True):
        rule = priced.allocations[scan.members[0]].rule
        whole, tallies = select_keys(one, result, rule=rule, bits=bits)
        given = Given.of(whole, tallies)
        for place in scan.members:
            query = priced.together.queries[place].with_keys(whole.keys)

            def exact(name: str, place: int = place, given: Given = given) -> Exact:
                return given.exact(Scan.name_of(place, name))

            answers = answers_of(query, priced.allocations[place], exact, bits)
            found[place] = Answered(query=query, answers=answers)
    return [found[place] for place in range(len(found))]


def _releases(
    priced: PricedBatch,
    answered: Sequence[Answered],
    *,
    remaining: Guarantee,
    salt: int,
    reproducible: bool,
) -> tuple[Release, ...]:
    """The answers with all that is said of them."""
    releases = []
    for number, query in enumerate(priced.together.queries):
        place = None
        if not priced.together.single:
            place = BatchPosition(together=priced.together, number=number)
        lines = query.lines
        releases.append(
            Release(
                query=query,
                groups=query.released_groups,
                keys=tuple(
                    key for key in answered[number].query.released_keys for _ in range(lines)
                ),
                answers=answered[number].answers,
                request=priced.request,
                charge=priced.charge,
                remaining=remaining,
                event=priced.event,
                provenance=provenance(
                    query, priced.allocations[number], priced.charge, place=place
                ),
                salt=f"{salt:032x}",
                reproducible=reproducible,
                batch=place,
                found=FoundKeys.of(query, priced.allocations[number]),
            )
        )
    return tuple(releases)


def salt_from(bits: RandomBits) -> int:
    """128 bits for the choice of rows, drawn independently of the data."""
    return int.from_bytes(bits.words(2).tobytes(), "little")


def reserve(
    ledger: Ledger | SubAccount, dataset: str, engine: Engine, charge: Charge
) -> Reservation:
    """What a question costs, reserved; after this the engine may be asked, and nothing comes back.

    Raises as `Ledger.reserve` does, and EngineFailed or SourceChanged where the engine is found
    gone or a file another one: then the charge is given back, since neither is a function of what
    the rows hold.
    """
    reservation = ledger.reserve(dataset, charge)
    try:
        check_engine(engine)
    except BaseException:
        # No row was read, whatever it was, so that the data had no part in it.
        with suppress(UnacordaError):  # then it stays spent
            ledger.void(reservation)
        raise
    return reservation


def check_engine(engine: Engine) -> None:
    """Raise EngineFailed or SourceChanged where the engine need not be asked. Reads no data."""
    engine.check_open()
    engine.check_sources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a caller asked. selects: the SELECTs that some questions are; budget: to be spent."""

    together: QueryBatch
    selects: tuple[Select | None, ...]
    budget: Guarantee


def read_request(
    query: object,
    budget: Guarantee,
    weights: object,
    errors: object,
    assuming: Assume | None,
    *,
    keys: GivenKeys,
    level_weights: GivenLevelWeights,
    admission: Admission,
    account: Guarantee,
) -> Request:
    """One question or several, with the split that was asked for; nothing is read or spent.

    admission: of the session that is asked. Of several, a SELECT takes those of the
    keys that its GROUP BY names, and the level weights where it has levels. account: what a budget
    is taken from. Raises what is wrong with a question, naming it.
    """
    several = members_of(query) is not None

    def read(one: object) -> tuple[Query, Select | None]:
        if not isinstance(one, str):
            return admission.asked(one), None
        own, levels = keys, level_weights
        select = parse_select(one, start=admission.begin)
        if several:
            if isinstance(keys, Mapping):
                own = {name: keys[name] for name in keys if name in select.group_names}
            elif not select.groups:
                own = None
            levels = None if select.margins is None else levels
        return admission.asked(build_query(select, keys=own, level_weights=levels)), select

    together, selects = read_together(query, weights, read)
    _check_taken(keys, level_weights, [select for select in selects if select is not None])
    if assuming is not None:
        check_assumption(assuming, *together.queries)
    if errors is not None:
        if not together.single:
            raise InvalidParameter("errors", errors, expected="one question: ask them one by one")
        (one,) = together.queries
        wanted = targets_of(errors, one, argument="errors")
        request_price(budget, account)  # refuses a budget of another unit
        (assumed,) = assumed_of([one], assuming, account=account)
        one, budget = split_for(one, wanted, budget, assumed)
        together = dataclasses.replace(together, queries=(one,))
    return Request(together=together, selects=tuple(selects), budget=budget)


def _check_taken(
    keys: GivenKeys, level_weights: GivenLevelWeights, selects: Sequence[Select]
) -> None:
    """Raise InvalidParameter for what stands beside questions none of which takes it."""
    built = ": a question that is built takes its own in group_by(...)"
    if level_weights is not None and all(select.margins is None for select in selects):
        expected = f"it beside a SELECT with GROUP BY ROLLUP(...) or CUBE(...){built}"
        raise InvalidParameter("level_weights", level_weights, expected=expected)
    names = {name for select in selects for name in select.group_names}
    if isinstance(keys, Mapping):
        strange = [key for key in keys if key not in names]
    else:
        strange = [] if keys is None or names else ["..."]
    if strange:
        known = f"columns of GROUP BY in a SELECT: {', '.join(sorted(names))}"
        expected = known if names else f"them beside a SELECT with GROUP BY{built}"
        raise InvalidParameter("keys", sorted(map(str, strange)), expected=expected)
