"""A release computed again from its file: what holds, and what is found."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.query.stated_releases import (
    LEDGER,
    STATED,
    changed,
    differing,
    leaves,
    released,
    session_of,
)
from tests.support.cases import in_subtests
from tests.support.seams import Charge, Release, Session, open_ledger
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

BUDGETS = [
    (unacorda.PureDP(1), None),
    (unacorda.PureDP(1), unacorda.PureDP("1/3")),
    (unacorda.ApproxDP(1, 1e-6), None),
    (unacorda.ApproxDP(2, 1e-6), unacorda.PureDP(1)),
    (unacorda.ZCDP("1/3", 1e-8), None),
    (unacorda.ZCDP(1), unacorda.PureDP(1)),
    (unacorda.ZCDP(1, 1e-6), unacorda.ApproxDP(1, 1e-6)),
    (unacorda.GDP(1), None),
    (unacorda.GDP(2), unacorda.PureDP("0.7")),
    (unacorda.RenyiDP(8, 1), None),
    (unacorda.RenyiDP(8, 1), unacorda.ZCDP("0.1")),
]


@pytest.mark.long
@pytest.mark.parametrize(("budget", "request_"), mostly_slow(BUDGETS, quick=2))
def test_a_release_holds_under_every_account(budget: Guarantee, request_: Guarantee | None) -> None:
    found = Release.verify(released(budget, request_).to_json())
    assert found.holds, str(found)
    outcomes = {check.name: check.outcome for check in found.checks}
    assert outcomes.pop("noise") == "noted"  # it came from a seed
    assert set(outcomes.values()) == {"ok"}


@pytest.mark.long
def test_post_processing_holds() -> None:
    assert Release.verify(released(unacorda.PureDP(1)).clamped().to_json()).holds
    with session_of(unacorda.PureDP(1)) as session:
        release = session.sql(
            "SELECT county AS home, COUNT(*) AS n, AVG(age) AS m FROM t WHERE age > 3 "
            "GROUP BY county ORDER BY n DESC LIMIT 2",
            budget=unacorda.PureDP(1),
        )
    found = Release.verify(release.to_json())
    assert found.holds


@pytest.mark.long
@pytest.mark.parametrize(
    "limits",
    mostly_slow(
        [
            {"max_rows": unacorda.auto(budget=unacorda.PureDP("0.5"), most=9)},
            {"max_rows": unacorda.auto(budget=unacorda.PureDP("0.5"), most=9), "max_groups": 2},
            {"max_groups": 2, "max_rows_per_group": 1},
            {"max_rows": 3, "max_groups": 2, "max_rows_per_group": 2},
        ],
        quick=3,
    ),
    ids=str,
)
def test_every_unit_holds(limits: dict[str, Any]) -> None:
    release = released(unacorda.PureDP(2), unacorda.PureDP(1), unit=unacorda.Person("id", **limits))
    assert ("when the session was opened" in release.to_json()) == ("Auto" in str(limits))
    assert Release.verify(release.to_json()).holds


@pytest.mark.long
def test_the_file_tells_nothing_of_columns_that_were_not_asked_about() -> None:
    assert "unused" not in released(unacorda.PureDP(1)).to_json()


def test_the_file_tells_nothing_of_the_values_of_an_enumeration(tmp_path: Path) -> None:
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE names AS ENUM ('Alice Smith', 'Bob')")
        connection.execute("CREATE TABLE t (id names, name names, price DECIMAL(18, 3))")
    unit = unacorda.Person("id", max_rows=1)
    with Session({"t": f"{path}::t"}, unit=unit, budget=unacorda.PureDP(1)) as session:
        query = session.table("t").group_by("name", keys=["x"]).agg(s=unacorda.sum("price", 0, 1))
        text = session.evaluate(query, budget=unacorda.PureDP(1)).to_json()
    assert "Alice" not in text
    assert Release.verify(text).holds


def test_another_version_is_noted_and_no_fault() -> None:
    stated = json.loads(released(unacorda.PureDP(1)).to_json())
    stated["software"]["numpy"] = "0.0.1"
    found = Release.verify(json.dumps(stated))
    assert found.holds
    assert found.checks[0].outcome == "noted"
    assert "numpy 0.0.1, here" in found.checks[0].detail


# ---- every field, changed


# What is not computed again: the released table, the released share of kept rows, and what is
# printed for people.
FREE = ("remaining", "software", "rows", "kept", "computed", "provenance", "request", "spent")
PLACES = [p for p in leaves(STATED) if p[0] not in FREE]


def other(value: Any) -> Any:
    """A value much like it, of the same type where there is one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case "add_remove":
            return "replace_one"
        case str() if value.isdigit() or "/" in value:
            return f"1{value}"
        case str():
            return f"{value}0"
        case list() | dict() if value:
            return value[:-1] if isinstance(value, list) else dict(list(value.items())[:-1])
        case _:
            return ["something"]


def unsound(text: str) -> bool:
    """Whether a file is refused, or says something that does not come out."""
    try:
        return not Release.verify(text, ledger=LEDGER).holds
    except InvalidParameter:
        return True


def test_as_it_was_written_it_holds() -> None:
    found = Release.verify(json.dumps(STATED), ledger=LEDGER, dataset="d")
    assert found.holds
    assert [check.name for check in found.checks][-2:] == ["entry", "chain"]
    assert len(PLACES) > 50
    places = {path[0] for path in PLACES}
    assert {"query", "event", "digest", "salt", "exact"} <= places


@pytest.mark.parametrize("part", mostly_slow(sorted({path[0] for path in PLACES}), quick=3))
def test_a_change_of_any_place_is_found(part: str) -> None:
    unseen = [p for p in PLACES if p[0] == part and not unsound(changed(p, other))]
    assert unseen == []


def test_a_place_of_another_type_is_found() -> None:
    for place, path in enumerate(PLACES):
        if place % 7 == 0:
            assert unsound(changed(path, lambda _: {"kind": "count"})), path


@in_subtests(
    ("path", "value", "said"),
    [
        (("digest",), "0" * 64, ["digest"]),
        (("exact", "charge", "rho"), "1/5", ["charge"]),
        (("exact", "charge"), {"guarantee": "GDP", "mu_squared": "1", "delta": "0"}, ["charge"]),
        (("exact", "request", "rho"), "1/5", ["event", "charge"]),
        (("event", "parts", 0, "sigma"), "1/2", ["event"]),
        (("query", "aggregates", "mean", "weight"), "3", ["digest", "event"]),
        (("query", "aggregates", "twice", "upper"), "100", ["digest"]),
        (("query", "unit", "max_rows"), 1, ["digest", "event"]),
        (("query", "keys", 0, 0), "Z", ["digest"]),
        (("query", "steps", 0, "where"), '"age" >= 19', ["digest"]),
        (("query", "steps", 0, "where"), "age >= 18 OR score > 3", ["question"]),
        (("query", "columns", "age", "type"), "DOUBLE", ["digest"]),
        (("query", "steps", 0, "where"), "random() > 0.5", ["question"]),
    ],
)
def test_what_differs_is_named(path: tuple[Any, ...], value: Any, said: list[str]) -> None:
    found = differing(Release.verify(changed(path, lambda _: value)))
    assert found == said


# ---- ledgers


@pytest.mark.long
def test_a_durable_ledger_has_the_entry(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    texts = [
        released(
            unacorda.PureDP(2), unacorda.PureDP(1), ledger=url, dataset=name, bits=None
        ).to_json()
        for name in ("d", "e")
    ]
    ledger = open_ledger(url)
    for text, name in zip(texts, "de", strict=True):
        for dataset in (None, name):
            found = Release.verify(text, ledger=ledger, dataset=dataset)
            assert found.holds, str(found)
            assert f"of account '{name}'" in str(found)
            assert all(check.outcome == "ok" for check in found.checks)
    assert differing(Release.verify(texts[0], ledger=ledger, dataset="e")) == ["entry"]
    assert differing(Release.verify(texts[0], ledger=ledger, dataset="nix")) == ["entry"]
    assert differing(Release.verify(texts[0], ledger=open_ledger(None))) == ["entry"]
    ledger.close()


def test_an_entry_that_was_never_answered_is_found() -> None:
    ledger = open_ledger(None)
    budget = unacorda.PureDP(1)
    release = released(budget)
    ledger.open_account("d", budget, {})
    charge = Charge(
        cost=release.charge,
        event=release.event,
        request=release.request,
        reproducible=True,
        plan_digest=release.query.digest(),
        limits=release.query.unit.limits,
        salt=bytes.fromhex(release.salt),
    )
    reservation = ledger.reserve("d", charge)
    found = Release.verify(release.to_json(), ledger=ledger)
    assert differing(found) == ["entry"]
    assert "never answered" in str(found)
    ledger.commit(reservation)
    assert Release.verify(release.to_json(), ledger=ledger).holds


def test_a_release_in_memory_is_no_record() -> None:
    release = released(unacorda.PureDP(1))
    with pytest.raises(InvalidParameter, match=r"Release\.verify\(release\.to_json\(\)\)"):
        release.verify()
    assert release.verify(release.to_json()).holds
