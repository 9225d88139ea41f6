"""Of private keys that are not named nothing leaves; SELECTs find keys too."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, cast

import polars as pl
import pytest
from tests.query.exact_answers import opened
from tests.query.test_private_keys import MANY, ROOMY, frame, named, person
from tests.support.seams import BoundedSum, KeyRule, ledger_of, select_keys, verify_record

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.privacy.guarantees import ZCDP, ApproxDP

# ---- nothing of the others ----------------------------------------------------------------------

SECRET = "kuru, Ms Smith"


@pytest.mark.long
def test_suppressed_keys_leave_no_trace() -> None:
    rare = frame({"a": MANY, SECRET: 1})
    plain = frame({"a": MANY})
    texts = []
    for table in (rare, plain):
        budget = ZCDP(1, delta="1e-9")
        with opened(table, unit=person(), budget=budget, seed=3) as session:
            keys = unacorda.private_keys()
            query = session.table("t").group_by("key", keys=keys).agg(n=unacorda.count())
            release = session.evaluate(query, budget=budget)
            entries = ledger_of(session).entries("session")
            told = [release.to_json(), repr(release), str(release.query), repr(session)]
            told += [
                query.digest(),
                str(session.explain(query, budget=ZCDP("0.1", delta="1e-9"), detail=True)),
            ]
            assert all(SECRET not in text for text in (*told, repr(entries)))
            left = json.loads(release.to_json())
            for name in ("rows", "salt"):
                left.pop(name)
            texts.append(json.dumps(left) + query.digest() + str(len(release.keys)))
    assert texts[0] == texts[1]


def test_only_chosen_keys_are_read_off_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    with opened(frame({"a": MANY, SECRET: 1}), unit=person(), budget=ROOMY) as session:
        find = session._engine.find

        def watched(found: Any) -> Any:
            keyed: Any = find(found)
            keys = keyed.keys

            def listed(places: list[int]) -> Any:
                read.append(keys(places))
                return read[-1]

            keyed.keys = listed
            return keyed

        monkeypatch.setattr(session._engine, "find", watched)
        query = (
            session.table("t").group_by("key", keys=unacorda.private_keys()).agg(n=unacorda.count())
        )
        assert named(session, query) == ["a"]
    assert read == [[("a",)]]


@pytest.mark.long
def test_the_order_of_rows_is_without_effect() -> None:
    table = frame({"b": MANY, "a": MANY, "c": 2})
    found = []
    for turned in (table, table.reverse(), table.sample(fraction=1, shuffle=True, seed=1)):
        with opened(turned, unit=person(), budget=ROOMY, seed=9) as session:
            query = session.table("t").group_by("key", keys=unacorda.private_keys())
            found.append(session.evaluate(query.agg(n=unacorda.count()), budget=ROOMY).to_dicts())
    assert found[0] == found[1] == found[2]


@pytest.mark.long
def test_no_key_at_all_is_an_empty_table() -> None:
    for table in (frame({"a": 1}), frame({"a": 1}).head(0)):
        with opened(table, unit=person(), budget=ROOMY) as session:
            query = session.table("t").group_by("key", keys=unacorda.private_keys())
            asked = query.agg(
                n=unacorda.count(), q=unacorda.median("id", 0, 9), s=unacorda.sum("id")
            )
            release = session.evaluate(asked, budget=ROOMY)
            assert release.keys == ()
            assert release.to_dicts() == []
            assert len(release.to_pandas()) == len(release.to_polars()) == 0
            assert str(release)
            assert verify_record(release.to_json()).holds


# ---- SQL ----------------------------------------------------------------------------------------


def test_a_select_finds_keys() -> None:
    table = frame({"a": MANY, "b": MANY, "c": 1}, sex=["F", "M"] * MANY + ["F"])
    with opened(table, unit=person(), budget=ApproxDP(9, "1e-2")) as session:
        text = "SELECT key AS k, sex, COUNT(*) AS n FROM t GROUP BY k, sex ORDER BY n DESC LIMIT 3"
        for keys in (
            {"key": unacorda.private_keys(), "sex": ["F", "M"]},
            unacorda.private_keys(),
        ):
            release = session.sql(text, budget=ROOMY, keys=keys)
            assert len(release.keys) == 3
            assert {key for key, _ in release.keys} == {"a", "b"}
        with pytest.raises(InvalidParameter, match="private_keys"):
            session.sql(text, budget=ROOMY)


def test_finished_counts_are_those_of_public_keys() -> None:
    """With the same salt, the chosen keys' rows are the rows they have as public keys."""
    lines = [(n % 7, "abc"[n % 3], float(n)) for n in range(200)]
    table = pl.DataFrame(lines, schema=["id", "key", "x"], orient="row")
    with opened(table, unit=person(max_rows=50), budget=ROOMY) as session:
        start = session.table("t").where("x < 150")
        private = start.group_by("key", keys=unacorda.private_keys()).agg(
            s=unacorda.sum("x", 0, 200)
        )
        asked = session._admission.admit(private, salt=4)
        keyed = session._engine.find(asked)
        every = PartitionSelection(epsilon=50, delta=0.5)
        rule = KeyRule(mechanism=every, delta=Fraction(1, 2))
        query, tallies = select_keys(asked, keyed, rule=rule, bits=SeededBits(1))
        assert query.keys == (("a",), ("b",), ("c",))
        clamp = cast("BoundedSum", private.aggregates["s"]).clamp
        expected = [sum(x for _, k, x in lines if k == key and x < 150) for key in "abc"]
        sums = dict(zip(tallies.cells.tolist(), tallies.sums[0], strict=True))
        assert [clamp.absolute(sums[cell]) for cell in range(3)] == expected
        keyed.close()
