"""What sessions do besides answering about public groups is attacked, and no promise is broken.

Keys that are found, parts that a session is split into, first looks at a table, models fit to one.
What else of a session may spend fails here until it is said what attacks it. Each audit can fail:
it says so where a release is bought for more than is claimed, and of faults that are planted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tests.contracts.audited_sessions import DOORS
from tests.contracts.planted_in_bounds import groups_not_bound
from tests.support.seams import KeyRule, splitting
from tests.tiers import mostly_slow

import unacorda
from unacorda import inference
from unacorda.audit import Finding, search
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.guarantees import Guarantee

AGGREGATES = "test_every_aggregate_is_audited"

SPENDS: Mapping[str, str] = {
    "evaluate": AGGREGATES,
    "sql": AGGREGATES,
    "find_bounds": AGGREGATES,
    "describe": "describe",
    "fit": "LinearRegression",
    "over_time": "over_time",
    "split": "split",
    "suggest_bounds": "suggest_bounds",
    "suggest_over_time": "suggest_bounds",
}
"""What may spend, and what it is audited by."""

FREE: Mapping[str, str] = {
    "best_limits": "reads what was released before",
    "close": "reads nothing",
    "explain": "reads no data",
    "explain_over_time": "reads no data",
    "for_analyst": "a session like any other: what it asks is debited there too",
    "for_purpose": "a session like any other, with a note",
    "interrupt": "ends what runs, as a timeout does",
    "read_json": "reads no data",
    "read_sql": "reads no data",
    "suggest_budget": "reads no data",
    "table": "begins a question",
}


def audited(name: str, *, spent: Guarantee | None = None) -> Finding:
    """What a search finds; a claim that holds is called violated with probability 1e-6."""
    door = DOORS[name]
    return search(
        door.sample(spent or door.claim),
        door.pairs,
        claim=door.claim,
        explore=door.runs,
        confirm=door.runs,
    )


def fits_tables() -> set[str]:
    """Public classes that can be fit to a table."""
    offered = {name: getattr(inference, name) for name in dir(inference)}
    return {name for name, one in offered.items() if hasattr(one, "fit_table")}


def test_all_that_a_session_can_be_asked_is_audited() -> None:
    public = {name for name in dir(unacorda.Session) if not name.startswith("_")}
    asked = {name for name in public if callable(getattr(unacorda.Session, name))}
    assert asked == set(SPENDS) | set(FREE)
    assert not set(SPENDS) & set(FREE)
    for name in set(SPENDS.values()):
        assert name in DOORS or importlib.util.find_spec(f"tests.contracts.{name}") is not None
    assert "synthesize" in DOORS  # which evaluate makes as well


def test_every_model_that_fits_tables_has_an_audit() -> None:
    assert len(fits_tables()) >= 6
    assert fits_tables() == {name for name in DOORS if name[0].isupper()}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", mostly_slow(DOORS))
def test_no_search_breaks_what_a_session_promises(name: str) -> None:
    found = audited(name)
    assert not found.violated, repr(found)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", mostly_slow(DOORS))
def test_what_is_bought_for_more_than_is_claimed_is_found(name: str) -> None:
    found = audited(name, spent=DOORS[name].louder)
    assert found.violated, repr(found)


def _every_key_is_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyRule, "kept", lambda _, people, *, bits: np.ones(people.shape, dtype=bool))


def _five_people_without_noise(patch: pytest.MonkeyPatch) -> None:
    # A rule that costs more than was paid for is refused by the account: this one says it costs it.
    patch.setattr(KeyRule, "kept", lambda _, people, *, bits: people >= 5)


def _people_in_all_parts(patch: pytest.MonkeyPatch) -> None:
    right = splitting.parted

    def wrong(*given: Any, max_parts: int, **named: Any) -> Any:
        return right(*given, max_parts=6, **named)

    patch.setattr("unacorda.query.session.parted", wrong)


def _hardly_any_noise(patch: pytest.MonkeyPatch) -> None:
    right = Gaussian.release_exact

    def wrong(self: Gaussian, *told: Any, **named: Any) -> Any:
        return right(dataclasses.replace(self, sigma=self.sigma / 200), *told, **named)

    patch.setattr(Gaussian, "release_exact", wrong)


FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "every key is named": (_every_key_is_named, "private keys"),
    "five people without noise": (_five_people_without_noise, "private keys, several a person"),
    "keys of a person not bound": (groups_not_bound, "private keys"),
    "people in all parts": (_people_in_all_parts, "split"),
    "people in all parts, replaced": (_people_in_all_parts, "split, people replaced"),
    "hardly any noise": (_hardly_any_noise, "RidgeRegression"),
}


@pytest.mark.parametrize("name", mostly_slow(FAULTS))
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, door = FAULTS[name]
    fault(monkeypatch)
    found = audited(door)
    assert found.violated, repr(found)
