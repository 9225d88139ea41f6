"""GROUP BY ROLLUP and CUBE: sums over group columns, as `group_by(margins=)` answers them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests
from tests.support.seams import ledger_of, verify_record

import unacorda
from unacorda import ApproxDP, PureDP
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter

FRAME = pd.DataFrame(
    {
        "id": range(120),
        "region": ["N"] * 70 + ["S"] * 50,
        "county": ["a", "b"] * 35 + ["c"] * 50,
        "age": [20, 30, 40, 50] * 30,
    }
)
KEYS: dict[str, Any] = {"region": ["N", "S"], "county": ["a", "b", "c"]}
EXACTLY = PureDP(10**4)


def session() -> unacorda.Session:
    return unacorda.Session(
        {"t": FRAME},
        unit=unacorda.Person("id", max_rows=1),
        budget=ApproxDP(10**5, "0.1"),
        columns={"age": unacorda.Bounds(0, 100)},
        bits=SeededBits(6),
    )


@pytest.mark.parametrize("kind", ["rollup", "cube"])
def test_a_select_is_answered_as_the_builder_answers(kind: Any) -> None:
    text = f"SELECT region, county, COUNT(*) AS n, SUM(age) AS s FROM t GROUP BY {kind}(1, county)"
    with session() as first, session() as second:
        selected = first.sql(text, budget=EXACTLY, keys=KEYS)
        table = second.table("t").group_by("region", "county", keys=KEYS, margins=kind)
        built = second.evaluate(
            table.agg(n=unacorda.count(), s=unacorda.sum("age")), budget=EXACTLY
        )
        assert selected.to_dicts() == built.to_dicts()
        assert selected.charge == built.charge
        assert verify_record(selected.to_json(), ledger=ledger_of(first)).holds
    lines = {(row["margin"], row["region"], row["county"]): row for row in selected.to_dicts()}
    assert lines["all", None, None]["n"] == pytest.approx(120, abs=0.5)
    assert lines["region", "N", None]["s"] == pytest.approx(FRAME["age"][:70].sum(), rel=0.02)
    assert (("county", None, "c") in lines) == (kind == "cube")


def test_sums_are_arranged_like_other_lines() -> None:
    text = (
        "SELECT region, UPPER(county) AS place, COUNT(*) AS n, SUM(age) / COUNT(*) AS mean FROM t "
        "GROUP BY ROLLUP(region, place) HAVING margin <> 'all' AND n > 20 "
        "ORDER BY margin DESC, n DESC LIMIT 4"
    )
    keys = [("N", "A"), ("N", "B"), ("S", "C")]
    with session() as one:
        release = one.sql(text, budget=EXACTLY, keys=keys)
        assert verify_record(release.to_json(), ledger=ledger_of(one)).holds
    found = [
        tuple(row[name] for name in ("margin", "region", "place")) for row in release.to_dicts()
    ]
    assert found[0] == ("region, place", "S", "C")
    assert {line[2] for line in found[1:3]} == {"A", "B"}
    assert found[3] == ("region", "N", None)
    assert release.answers["mean"].values[0] == pytest.approx(FRAME["age"][70:].mean(), rel=0.02)
    assert release.answers["mean"].standard_errors[0] is not None


@pytest.mark.parametrize("weights", ["overall", [1, 2, 5]])
def test_levels_may_be_weighted(weights: Any) -> None:
    text = "SELECT region, county, COUNT(*) AS n FROM t GROUP BY ROLLUP(region, county)"
    with session() as first, session() as second:
        release = first.sql(text, budget=PureDP(1), keys=KEYS, level_weights=weights)
        table = second.table("t").group_by(
            "region", "county", keys=KEYS, margins="rollup", level_weights=weights
        )
        built = second.evaluate(table.agg(n=unacorda.count()), budget=PureDP(1))
        assert release.to_dicts() == built.to_dicts()
        assert verify_record(release.to_json(), ledger=ledger_of(first)).holds
        plain = second.sql(text, budget=PureDP(1), keys=KEYS).answers["n"].standard_errors
        # So few keys are weighed best by the weights under which no level errs more.
        same = plain == release.answers["n"].standard_errors
        assert same is (weights == "overall")
        query, _ = second.read_sql(text, keys=KEYS, level_weights=weights)
        assert query.level_weights == table.level_weights


@pytest.mark.parametrize(
    "text", ["SELECT COUNT(*) AS n FROM t", "SELECT region, COUNT(*) AS n FROM t GROUP BY region"]
)
def test_weights_of_no_levels_are_refused(text: str) -> None:
    with session() as one, pytest.raises(InvalidParameter, match=r"level_weights.*ROLLUP"):
        one.sql(text, budget=PureDP(1), keys=None, level_weights=[1, 2])
    rolled = "SELECT region, COUNT(*) AS n FROM t GROUP BY ROLLUP(region)"
    with session() as one, pytest.raises(InvalidParameter, match=r"level_weights.*2 levels"):
        one.sql(rolled, budget=PureDP(1), keys={"region": ["N"]}, level_weights=[1])


ROLLED = "SELECT region, county, COUNT(*) AS n FROM t GROUP BY ROLLUP(region, county)"
PLAIN = "SELECT COUNT(*) AS n FROM t"


def test_weights_stand_beside_a_text_everywhere() -> None:
    given: dict[str, Any] = {"keys": KEYS, "level_weights": [1, 2, 5]}
    with session() as one:
        query, _ = one.read_sql(ROLLED, **given)
        told = one.explain(ROLLED, budget=PureDP(1), detail=True, **given)
        assert str(told) == str(one.explain(query, budget=PureDP(1), detail=True))
        assert str(told) != str(one.explain(ROLLED, budget=PureDP(1), keys=KEYS, detail=True))
        wished: dict[str, Any] = {"error": 5, "kind": PureDP}
        least = one.suggest_budget(ROLLED, **wished, **given)
        assert least == one.suggest_budget(query, **wished)
        assert least != one.suggest_budget(ROLLED, keys=KEYS, **wished)
        asked: list[Any] = [ROLLED, PLAIN, one.table("t").agg(n=unacorda.count())]
        batch = one.evaluate(asked, budget=PureDP(1), **given)
        weights = [release.query.level_weights for release in batch]
        assert weights == [query.level_weights, None, None]
        assert one.evaluate(ROLLED, budget=PureDP(1), **given).query.level_weights == weights[0]
        both = one.explain(asked, budget=PureDP(1), **given)
        assert str(both) != str(one.explain(asked, budget=PureDP(1), keys=KEYS))


@in_subtests(
    ("asked", "given", "said"),
    [
        ([PLAIN], {"level_weights": [1]}, "level_weights.*ROLLUP"),
        (None, {"level_weights": [1]}, r"level_weights.*group_by\("),
        ([PLAIN, ROLLED], {"keys": KEYS, "level_weights": [1]}, "question '1'.*3 levels"),
        (None, {"keys": KEYS}, r"keys.*group_by\("),
        ([PLAIN], {"keys": ["N"]}, "keys.*SELECT with GROUP BY"),
        ([PLAIN], {"keys": {"region": ["N"]}}, "keys.*region.*SELECT with GROUP BY"),
        ([PLAIN, ROLLED], {"keys": KEYS | {"district": ["N"]}}, "district.*county, region"),
    ],
)
def test_what_no_select_takes_is_refused(asked: Any, given: dict[str, Any], said: str) -> None:
    with session() as one:
        asked = one.table("t").agg(n=unacorda.count()) if asked is None else asked
        for ask in (one.evaluate, one.explain):
            with pytest.raises(InvalidParameter, match=said):
                ask(asked, budget=PureDP(1), **given)
        assert not any(one.spent.additive)


def test_keys_may_be_found() -> None:
    text = "SELECT region, county, COUNT(*) AS n FROM t GROUP BY ROLLUP(region, county)"
    with session() as one:
        found = one.sql(text, budget=ApproxDP(40, "0.01"), keys=unacorda.private_keys())
        assert ("all", None, None) in found.keys
        assert ("region, county", "S", "c") in found.keys


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        ("SELECT region, AVG(age) AS m FROM t GROUP BY ROLLUP(region)", KEYS, "add up"),
        ("SELECT region, COUNT(*) AS margin FROM t GROUP BY ROLLUP(region)", KEYS, "differ"),
        (
            "SELECT region, county, COUNT(*) FROM t GROUP BY CUBE(region, county)",
            [("N", "a"), ("S", "c")],
            "a mapping of lists",
        ),
    ],
)
def test_what_does_not_add_up_is_refused(text: str, keys: Any, words: str) -> None:
    if isinstance(keys, dict) and "county" not in text:
        keys = {"region": keys["region"]}
    with session() as one, pytest.raises(InvalidParameter, match=words):
        one.read_sql(text, keys=keys)
