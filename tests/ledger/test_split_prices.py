"""Histories with questions about parts, priced again: against what single persons have met."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from tests.ledger.ledgers import TERMS, reserve
from tests.support.cases import in_subtests
from tests.support.seams import Ledger, SplitPart, met, odometer, open_ledger, reprice, standing
from tests.support.seams import LedgerSplit as Split

from unacorda.accounting import epsilon
from unacorda.accounting.odometers import Odometer
from unacorda.privacy.events import Event, Exponential, Gaussian, Laplace
from unacorda.privacy.guarantees import ZCDP, Guarantee, PureDP

LOUD, QUIET = Laplace(noise_multiplier=1), Exponential(epsilon=1)


def opened(budget: Guarantee, neighbors: str = "AddRemove", **changes: Any) -> tuple[Ledger, Split]:
    ledger = open_ledger(None)
    ledger.open_account("visits", budget, {**TERMS, "neighbors": neighbors})
    arguments: dict[str, Any] = {"limit": budget, "max_parts": 1, "digest": "", "salt": b""}
    return ledger, ledger.open_split("visits", **{**arguments, **changes})


def ask(ledger: Ledger, of: Split, key: str, event: Event, charge: Guarantee) -> Any:
    return reserve(ledger, charge, event=event, part=SplitPart(split=of.sequence, key=key))


def test_an_odometer_reads_what_the_worst_part_has_met() -> None:
    """The account adds epsilons: by these a part that loses more would seem to cost nothing."""
    ledger, of = opened(PureDP(100))
    loud, quiet, tenth = Laplace(noise_multiplier=10), Exponential(epsilon=0.1), PureDP("0.1")
    for _ in range(30):
        ask(ledger, of, "a", quiet, tenth)
    few = odometer(ledger, "visits", delta=1e-6).epsilon
    for _ in range(30):
        ask(ledger, of, "b", loud, tenth)
    assert ledger.spent("visits") == PureDP(3)
    both = odometer(ledger, "visits", delta=1e-6).epsilon
    alone, other = opened(PureDP(100))
    for _ in range(30):
        ask(alone, other, "b", loud, tenth)
    assert both == odometer(alone, "visits", delta=1e-6).epsilon > 1.2 * few


def test_a_question_called_off_leaves_the_sums_of_the_others() -> None:
    ledger, of = opened(PureDP(100))
    first = ask(ledger, of, "a", LOUD, PureDP("0.01"))
    ask(ledger, of, "b", LOUD, PureDP("0.01"))  # owed already, so that its charge is nothing
    ledger.void(first)
    assert ledger.spent("visits") == PureDP("0.01")
    assert 0.01 <= odometer(ledger, "visits", delta=1e-6).epsilon < 0.0101


@pytest.mark.parametrize("neighbors", ["AddRemove", "ReplaceOne"])
def test_a_replaced_person_is_read_as_one_who_leaves_and_one_who_joins(neighbors: str) -> None:
    ledger, of = opened(ZCDP(9), neighbors)
    for key in "aab":
        ask(ledger, of, key, Gaussian(noise_multiplier=10), ZCDP("0.005"))
    meter = Odometer(delta=1e-6, sharp_at=9)
    for _ in range(2):
        meter = meter.spend(ZCDP("0.005") if neighbors == "AddRemove" else ZCDP("0.02"))
    assert odometer(ledger, "visits", delta=1e-6).epsilon == meter.epsilon
    fixed = reprice(ledger, "visits", delta=1e-6).fixed
    if neighbors == "ReplaceOne":
        assert fixed is None  # no theorem here composes them
    else:
        assert fixed == epsilon([Gaussian(noise_multiplier=10) * 2], delta=1e-6)


@pytest.mark.slow
def test_a_history_costs_what_the_worst_person_has_met() -> None:
    ledger, of = opened(PureDP(100), max_parts=2)
    asked: dict[str, list[Event]] = {
        "a": [LOUD] * 3,
        "b": [QUIET] * 4,
        "c": [LOUD, QUIET],
        "d": [LOUD],
    }
    for key, events in asked.items():
        for event in events:
            ask(ledger, of, key, event, PureDP(1))
    reserve(ledger, PureDP(1), event=QUIET)  # about everybody
    worst = max(
        epsilon([*asked[one], *asked[other], QUIET], delta=1e-6)
        for one, other in itertools.combinations(asked, 2)
    )
    assert reprice(ledger, "visits", delta=1e-6).fixed == pytest.approx(worst, rel=1e-9)
    assert reprice(ledger, "visits", delta=1e-6).questions == 11


@in_subtests("seed", range(20))
def test_nobody_has_met_more_than_one_of_the_multisets_holds(seed: int) -> None:
    """All ways in which a person can be in parts, and in parts of one of them."""
    source = random.Random(seed)
    most, within = source.randint(1, 3), source.randint(1, 2)
    keys, inner_keys = "abcdefgh"[: source.randint(1, 8)], "xyz"
    ledger, of = opened(PureDP(1000), max_parts=most)
    inner = ledger.open_split(
        "visits",
        limit=PureDP(1000),
        max_parts=within,
        digest="",
        salt=b"",
        inside=SplitPart(split=of.sequence, key="a"),
    )
    asked: dict[str, Counter[str]] = {}
    for _ in range(source.randint(1, 25)):
        event = Laplace(noise_multiplier=source.randint(1, 4))
        key = source.choice([*keys, *inner_keys, ""])
        if key == "":
            reserve(ledger, PureDP(1), event=event)
        else:
            ask(ledger, inner if key in inner_keys else of, key, event, PureDP(1))
        asked.setdefault(key, Counter())[event.to_json()] += 1
    found = met(standing(ledger.entries("visits")), ledger.splits("visits"))
    assert len(found) <= 32
    none: Counter[str] = Counter()
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(keys, count) for count in range(most + 1)
    ):
        for nested in itertools.combinations(inner_keys, within):
            own = asked.get("", none) + sum((asked.get(key, none) for key in chosen), none)
            if "a" in chosen:
                own += sum((asked.get(key, none) for key in nested), none)
            assert any(own <= held for held in found)
    everything = sum(asked.values(), none)
    assert all(held <= everything for held in found)
