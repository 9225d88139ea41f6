"""Private keys: who is named is what the rule promises, and of the others nothing leaves."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.support.cases import in_subtests
from tests.support.seams import KeyRule, Query, Session, allocate, key_rule, verify_record
from tests.tiers import mostly_slow

import unacorda
from unacorda.accounting.charges import charge
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

MANY = 400
ROOMY = ApproxDP(2, "1e-3")


def frame(people: dict[Any, int], **more: Any) -> pl.DataFrame:
    """One row for every person under every key, different people under each."""
    keys = [key for key, count in people.items() for _ in range(count)]
    return pl.DataFrame({"id": range(len(keys)), "key": keys, **more}, strict=False)


def named(session: Session, query: Query, *, budget: Any = ROOMY) -> list[Any]:
    return [key[0] if len(key) == 1 else key for key in session.evaluate(query, budget=budget).keys]


def person(**limits: Any) -> unacorda.Person:
    return unacorda.Person("id", **(limits or {"max_rows": 1}))


# ---- what is named ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (["b", "a", "Z", "é", "", None], ["", "Z", "a", "b", "é", None]),
        ([3, -1, 2**53 - 1, 10, None], [-1, 3, 10, 2**53 - 1, None]),
        ([True, False, None], [False, True, None]),
        ([dt.date(2024, 2, 1), dt.date(1, 1, 1)], [dt.date(1, 1, 1), dt.date(2024, 2, 1)]),
        (["a\x00", "a"], ["a", "a\x00"]),
    ],
    ids=["text", "whole", "boolean", "date", "nul"],
)
def test_keys_that_many_have_are_named_in_their_own_order(keys: list[Any], order: Any) -> None:
    table = frame(dict.fromkeys(keys, MANY))
    how = {"key": unacorda.private_keys()}
    with opened(table, unit=person(), budget=ROOMY) as session:
        query = session.table("t").group_by("key", keys=how).agg(n=unacorda.count_people())
        release = session.evaluate(query, budget=ROOMY)
    assert [key for (key,) in release.keys] == order
    assert [abs(n - MANY) < 60 for n in release.answers["n"].values] == [True] * len(order)


def test_whole_numbers_that_doubles_have_not_count_under_null() -> None:
    far = pl.DataFrame({"id": range(800), "x": [2**53] * 400 + [-(2**63)] * 400})
    with opened(far, unit=person(), budget=ROOMY) as session:
        query = (
            session.table("t").group_by("x", keys=unacorda.private_keys()).agg(n=unacorda.count())
        )
        assert named(session, query) == [None]


def test_columns_are_found_together_beside_public_ones_in_the_order_of_the_columns() -> None:
    cells = [("M", "b", 1), ("F", "b", 1), ("F", "a", 2), ("X", "a", 2)]
    lines = [(*cell, n) for n, cell in enumerate(cells * MANY)]
    table = pl.DataFrame(lines, schema=["sex", "county", "year", "id"], orient="row")
    both = {"county": unacorda.private_keys(), "year": unacorda.private_keys(), "sex": ["M", "F"]}
    with opened(table, unit=person(), budget=ROOMY) as session:
        start = session.table("t")
        query = start.group_by("sex", "county", "year", keys=both).agg(n=unacorda.count())
        expected = [(s, *key) for s in ("M", "F") for key in (("a", 2), ("b", 1))]
        release = session.evaluate(query, budget=ROOMY)
    assert list(release.keys) == expected
    # ("M", "a", 2) has nobody; that year 2 goes with county "a" alone was found.
    assert [round(n / MANY) for n in release.answers["n"].values] == [0, 1, 1, 1]


def test_declared_columns_stay_public_where_all_keys_are_private() -> None:
    table = frame({"a": MANY}, flag=[True] * MANY)
    with opened(table, unit=person(), budget=ROOMY) as session:
        asked = session.table("t").group_by("key", "flag", keys=unacorda.private_keys())
        assert named(session, asked.agg(n=unacorda.count())) == [("a", False), ("a", True)]


@pytest.mark.long
def test_people_are_bound_before_keys_are_found() -> None:
    lines = [(who, key) for who in range(30) for key in range(100)]  # everybody has every key
    table = pl.DataFrame(lines, schema=["id", "key"], orient="row")
    rare = unacorda.private_keys(max_groups=1)
    for unit, how in (
        (person(max_rows=1), unacorda.private_keys()),
        (person(max_rows=100), rare),
        (person(max_groups=1, max_rows_per_group=5), unacorda.private_keys()),
    ):
        with opened(table, unit=unit, budget=ApproxDP(3, "1e-9")) as session:
            query = session.table("t").group_by("key", keys=how).agg(n=unacorda.count())
            # 30 people under one key each: a key has 30 at the very most, and about 0.3.
            assert named(session, query, budget=ApproxDP(3, "1e-9")) == []


def test_rows_are_units_of_their_own() -> None:
    table = pl.DataFrame({"key": ["a"] * MANY + ["b"]})
    with opened(table, budget=ROOMY) as session:
        query = (
            session.table("t").group_by("key", keys=unacorda.private_keys()).agg(n=unacorda.count())
        )
        assert named(session, query) == ["a"]


def test_every_aggregate_counts_the_chosen_keys_alone() -> None:
    table = pl.DataFrame(
        {"id": range(801), "key": ["a"] * 400 + ["b"] * 400 + ["c"], "x": [1.0] * 400 + [3.0] * 401}
    )
    with opened(table, unit=person(), budget=ApproxDP(9, "1e-3")) as session:
        query = session.table("t").group_by("key", keys=unacorda.private_keys())
        asked = query.agg(
            n=unacorda.count(),
            m=unacorda.mean("x", 0, 4),
            q=unacorda.quantile("x", 0.5, 0, 4, resolution=1),
            top=unacorda.max("x", 0, 4, resolution=1),
            s=unacorda.sum("x"),
        )
        release = session.evaluate(asked, budget=ApproxDP(9, "1e-3"))
    assert release.keys == (("a",), ("b",))
    found = release.to_dicts()
    assert [row["q"] for row in found] == [1.0, 3.0]
    assert [round(row["m"]) for row in found] == [1, 3]


def test_explain_and_the_release_say_from_how_many_people_on_keys_appear() -> None:
    table = frame({"a": MANY, "b": 1})
    budget = ZCDP("0.1", delta="1e-6")
    with opened(table, unit=person(max_rows=2), budget=budget) as session:
        query = (
            session.table("t").group_by("key", keys=unacorda.private_keys()).agg(n=unacorda.count())
        )
        explanation = session.explain(query, budget=budget)
        release = session.evaluate(query, budget=budget)
    rule = allocate(query, budget).rule
    assert rule is not None
    found = explanation.to_dict()["keys"]
    assert found["appear"] == [[float(c), n] for c, n in rule.chances]
    assert found["delta"] == 1e-6
    for text in (str(explanation), str(release), *release.provenance[-4:-3]):
        assert all(str(n) in text for _, n in rule.chances), text
        assert "missing" in text or "appears" in text
    chances = [n for _, n in rule.chances]
    assert chances == sorted(chances)
    for chance, people in rule.chances:
        assert rule.mechanism.probability(people) >= chance
        assert rule.mechanism.probability(people - 1) < chance


def test_the_rule_that_names_more_keys_is_taken() -> None:
    delta = Fraction(1, 10**6)
    for hits in (1, 2, 5, 20):
        rule = key_rule(PureDP(1), delta=delta, hits=hits, replaced=False)
        coins = KeyRule(
            mechanism=PartitionSelection(epsilon=1, delta=delta, l0_sensitivity=hits), delta=delta
        )
        noisy = KeyRule(
            mechanism=ThresholdedGaussian.for_guarantee(ApproxDP(1, delta), l0_sensitivity=hits),
            delta=delta,
        )
        needed = min(rule.people_for(Fraction(19, 20)) for rule in (coins, noisy))
        assert rule.people_for(Fraction(19, 20)) == needed
    kinds = [
        type(key_rule(PureDP(1), delta=delta, hits=hits, replaced=False).mechanism)
        for hits in (1, 20)
    ]
    assert kinds == [PartitionSelection, ThresholdedGaussian]


# ---- what it costs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget",
    mostly_slow([ApproxDP(1, "1e-6"), ZCDP("0.1", delta="1e-6"), GDP("0.5", delta="1e-6")]),
)
@in_subtests("how", [{}, {"delta": "1e-7", "weight": 3}, {"max_groups": 2}])
@in_subtests("neighbors", [unacorda.AddRemove, unacorda.ReplaceOne])
def test_the_charge_is_at_most_the_request(budget: Any, how: Any, neighbors: Any) -> None:
    unit = unacorda.Person("id", max_rows=3, neighbors=neighbors)
    with opened(frame({"a": 9}), unit=unit, budget=budget) as session:
        keys = unacorda.private_keys(**how)
        query = session.table("t").group_by("key", keys=keys)
        asked = query.agg(n=unacorda.count(), m=unacorda.mean("id", 0, 9))
        release = session.evaluate(asked, budget=budget)
        assert session.spent == release.charge
    pairs = zip(release.charge.additive, budget.additive, strict=True)
    assert all(spent <= most for spent, most in pairs)
    assert release.charge.additive[-1] > 0
    assert verify_record(release.to_json()).holds


def test_parts_of_a_budget_follow_weights() -> None:
    with opened(frame({"a": 9}), unit=person(), budget=ROOMY) as session:
        query = session.table("t").group_by("key", keys=unacorda.private_keys(weight=3))
        asked = query.agg(n=unacorda.count(), m=unacorda.mean("id", 0, 9, weight=2))
        assert asked.keys_part == Fraction(1, 2)
        assert sum(asked.parts().values()) == Fraction(1, 2)
        rare = allocate(asked, ZCDP(1, delta="1e-6"))
    assert rare.rule is not None
    price = charge(rare.rule.event, ZCDP("0.5", delta="1e-6"), ZCDP(1, delta=1))
    assert price.additive[0] == Fraction(1, 2)


@pytest.mark.long
def test_questions_asked_together_share_the_delta() -> None:
    budget = ApproxDP(3, "1e-6")
    with opened(frame({"a": MANY, "b": 1}), unit=person(), budget=budget) as session:
        private = session.table("t").group_by("key", keys=unacorda.private_keys())
        given = session.table("t").group_by("key", keys=unacorda.private_keys(delta="2e-7"))
        plain = session.table("t").agg(n=unacorda.count())
        batch = session.evaluate(
            {"a": private.agg(n=unacorda.count()), "b": given.agg(n=unacorda.count()), "c": plain},
            budget=budget,
        )
        assert session.spent.implies(budget)
        assert batch["a"].keys == batch["b"].keys == (("a",),)
        assert all(verify_record(release.to_json()).holds for release in batch)


def test_budgets_without_a_delta_are_refused_before_anything_is_spent() -> None:
    for budget in (PureDP(1), ApproxDP(1, 0), ZCDP(1), GDP(1)):
        with opened(frame({"a": 9}), unit=person(), budget=budget) as session:
            query = session.table("t").group_by("key", keys=unacorda.private_keys())
            with pytest.raises(InvalidParameter, match="delta"):
                session.evaluate(query.agg(n=unacorda.count()), budget=budget)
            assert session.spent.additive[0] == 0


@in_subtests(
    ("build", "match"),
    [
        (lambda t: t.group_by("x", keys=unacorda.private_keys()), "FLOOR"),
        (lambda t: t.group_by("at", keys=unacorda.private_keys()), "CAST"),
        (lambda t: t.group_by("key"), "private_keys"),
        (lambda t: t.group_by("key", keys={"other": unacorda.private_keys()}), "keys"),
        (
            lambda t: t.group_by(
                "key",
                "x",
                keys={"key": unacorda.private_keys(), "x": unacorda.private_keys(weight=2)},
            ),
            "same",
        ),
        (
            lambda t: t.group_by(
                "key", "id", keys={"key": unacorda.private_keys(), "id": range(2000)}
            ),
            "1,000",
        ),
        (lambda _: unacorda.private_keys(weight=0), "weight"),
        (lambda _: unacorda.private_keys(delta=1), "delta"),
        (lambda _: unacorda.private_keys(max_groups=0), "max_groups"),
        (lambda _: unacorda.private_keys(max_groups=2000), "max_groups"),
    ],
)
def test_what_can_not_be_found_is_refused(build: Any, match: str) -> None:
    table = frame({"a": 2}, x=[0.5, 1.5], at=[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2)
    with (
        opened(table, unit=person(), budget=ROOMY) as session,
        pytest.raises(InvalidParameter, match=match),
    ):
        build(session.table("t"))


def test_too_many_groups_and_too_much_delta_are_refused() -> None:
    with opened(frame({"a": 2}), unit=person(max_rows=5000), budget=ROOMY) as session:
        query = (
            session.table("t").group_by("key", keys=unacorda.private_keys()).agg(n=unacorda.count())
        )
        with pytest.raises(InvalidParameter, match="max_groups"):
            session.explain(query, budget=ROOMY)
        much = session.table("t").group_by("key", keys=unacorda.private_keys(delta="0.1"))
        with pytest.raises(InvalidParameter, match="delta"):
            session.explain(much.agg(n=unacorda.count()), budget=ROOMY)


def test_keys_that_are_too_many_for_the_bins_are_answered_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is refused once it is paid for: which keys are left out follows from the chosen."""
    people = frame({"c": 60, "a": 60, "b": 60}, x=[0.5] * 180)
    with opened(people, unit=person(max_rows=1), budget=ROOMY) as session:
        query = session.table("t").group_by("key", keys=unacorda.private_keys())
        asked = query.agg(m=unacorda.histogram("x", [k / 50 for k in range(51)]))
        monkeypatch.setattr("unacorda.query.plan.query._MOST_BINS", 110)
        told = "at most 2 of the keys that are found are answered"
        assert told in str(session.explain(asked, budget=ROOMY, detail=True))
        release = session.evaluate(asked, budget=ROOMY)
    assert tuple(dict.fromkeys(release.keys)) == (("a",), ("b",))
    assert any(told in sentence for sentence in release.provenance)
