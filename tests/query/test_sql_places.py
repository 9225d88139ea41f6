"""What is wrong with a SELECT is told with its clause, in the caller's words, and at its place."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import pickle
from typing import Any

import pandas as pd
import pytest
from tests.support.cases import in_subtests

import unacorda
from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression

PUBLIC = pd.DataFrame({"town": ["A", "B"], "people": [1, 2]})
FRAME = pd.DataFrame({"id": range(8), "age": range(8), "educ": range(8), "town": ["A"] * 8})
FRAME["flag"] = True


def session() -> unacorda.Session:
    return unacorda.Session(
        {"t": FRAME, "other": FRAME},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(1),
        columns={"age": unacorda.Bounds(0, 120)},
        public={"towns": PUBLIC},
    )


def refused(text: str) -> InvalidParameter:
    with session() as one, pytest.raises(InvalidParameter) as caught:
        one.sql(text, budget=unacorda.PureDP(1))
    assert not any(one.spent.additive)
    return caught.value


def marked(error: InvalidParameter) -> str:
    """The part above the mark."""
    _, line, mark = error.drawing.split("\n")
    assert str(error).endswith(error.drawing)
    return line[mark.index("^") : mark.rindex("^") + 1]


@in_subtests(
    ("text", "part", "said"),
    [
        ("SELECT COUNT(*) AS n FROM t WHERE agee > 3", "agee", "Did you mean 'age'"),
        ("SELECT AVG(agee) AS m FROM t", "agee", "no column of 't'"),
        ("SELECT COUNT(*) AS n FROM (SELECT nix FROM t)", "nix", "Its columns are id, age"),
        ("WITH a AS (SELECT nix AS x FROM t) SELECT COUNT(*) AS n FROM a", "nix", "Its columns"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY nix", "nix", "no column of 't'"),
        ("SELECT FLOOR(nix) AS f, COUNT(*) AS n FROM t GROUP BY f", "nix", "no column"),
        ("SELECT COUNT(DISTINCT nix) AS n FROM t", "nix", "no column of 't'"),
        ("SELECT AVG(nix) AS m FROM (SELECT *, age AS b FROM t)", "nix", "id, age"),
        ("SELECT COUNT(*) AS n FROM nowhere", "nowhere", "one of the session's tables: t, other"),
        ("SELECT COUNT(*) AS n FROM t JOIN nix USING (id)", "nix", "one of the session's tables"),
    ],
)
def test_what_there_is_not_is_marked(text: str, part: str, said: str) -> None:
    error = refused(text)
    assert isinstance(error, UnsafeExpression)
    assert marked(error) == part
    assert said in str(error)


@pytest.mark.long
@in_subtests(
    ("text", "part"),
    [
        ("SELECT COUNT(*) AS n FROM t UNION SELECT COUNT(*) AS n FROM t", "UNION"),
        ("SELECT COUNT(*) FROM t UNION ALL BY NAME SELECT SUM(age) FROM t", "UNION ALL BY NAME"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t UNION SELECT age FROM other)", "UNION"),
        ("SELECT COUNT(*) FROM (SELECT age FROM t EXCEPT SELECT age FROM other)", "EXCEPT"),
        ("WITH a AS (SELECT age FROM t) DELETE FROM a", "DELETE"),
        ("DROP TABLE t", "DROP"),
        ("SELECT DISTINCT COUNT(DISTINCT id) AS n FROM t", "DISTINCT"),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT age FROM t)", "DISTINCT"),
        ("SELECT COUNT(*) AS n, AVG(age) AS N FROM t", "AVG(age) AS N"),
        ("SELECT COUNT(*) AS n, AVG(age) AS n_se FROM t", "AVG(age)"),
        ("SELECT COUNT(*)", "SELECT COUNT(*)"),
        ("SELECT age, town FROM t", "SELECT age, town FROM t"),
        ("SELECT (age) FROM t", "age"),
        ("SELECT age, COUNT(*) AS n FROM t", "age"),
        ("SELECT age + (1) AS b, COUNT(*) AS n FROM t", "age + (1)"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY FLOOR(age / 2) * 2", "FLOOR(age / 2) * 2"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY town, Town", "Town"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY TRUE", "TRUE"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY ROLLUP ()", "GROUP BY"),
        ("SELECT FLOOR(age) AS educ, SUM(educ) FROM t GROUP BY 1", "FLOOR(age)"),
        ("SELECT age AS margin, COUNT(*) FROM t GROUP BY ROLLUP (margin)", "age"),
        ("SELECT COUNT(*) AS n FROM t WHERE TRUE HAVING TRUE", "HAVING TRUE"),
        ("SELECT COUNT(*) AS n FROM t ORDER BY NULL", "NULL"),
        ("SELECT COUNT(*) AS n FROM t LIMIT NULL", "LIMIT NULL"),
        ("SELECT COUNT(*) AS n FROM t FOR UPDATE", "FOR"),
        ("SELECT COUNT(*) AS n FROM t WHERE age > ?", "?"),
        ("SELECT COUNT(*) AS n FROM t WHERE INTERVAL 3 DAY", "WHERE"),
        ("SELECT QUANTILE(age, [TRUE]) AS q FROM t", "TRUE"),
        ("SELECT HISTOGRAM(age, [0, 1]) AS h, COUNT(*) FROM t", "HISTOGRAM(age, [0, 1])"),
        ("SELECT CAST(COUNT(*) AS INTEGER) FROM t", "CAST(COUNT(*) AS INTEGER)"),
        ("SELECT COUNT(*) AS n FROM t WHERE town = 'A", "'A"),
        ('SELECT COUNT(*) AS n FROM t WHERE "town', '"town'),
        ("SELECT COUNT(*) AS n FROM t /* all", "/* all"),
        (f"SELECT COUNT(*) AS n FROM t WHERE {'(' * 101}1{')' * 101} = 1", "("),
        ("SELECT COUNT(*) AS n FROM t JOIN other USING (nix)", "nix"),
        ("SELECT COUNT(*) AS n FROM t JOIN other USING (age)", "other USING (age)"),
        ("SELECT COUNT(*) AS n FROM t JOIN other ON t.id = other.nix", "other.nix"),
        ("SELECT COUNT(*) AS n FROM t JOIN other ON TRUE", "TRUE"),
        ("SELECT COUNT(*) AS n FROM t JOIN towns USING (town) WHERE towns.nix > 1", "towns.nix"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY town", "town"),
        ("SELECT COUNT(*) AS n, FLOOR(age) AS f FROM t GROUP BY 2", "FLOOR(age)"),
        ("SELECT CORR(age, educ) AS r FROM t", "CORR(age, educ)"),
        ("SELECT flag, AVG(age) AS m FROM t GROUP BY ROLLUP (flag)", "AVG(age)"),
    ],
)
def test_every_refusal_has_a_place(text: str, part: str) -> None:
    error = refused(text)
    assert marked(error) == part
    assert len(error.expected) > 10


@pytest.mark.parametrize(
    ("text", "keys", "part"),
    [
        ("SELECT town, COUNT(*) FROM t GROUP BY town", {"town": ["A", "A"]}, "town"),
        ("SELECT town, age, COUNT(*) FROM t GROUP BY 1, 2", {"age": [1]}, "town"),
        ("SELECT town, age, COUNT(*) FROM t GROUP BY 2, 1", [(1, "A", 2)], "town, age"),
        ("SELECT COUNT(*) FROM t GROUP BY town, age", {"x": [1]}, "town, age"),
        ("SELECT SQRT(age) AS r, COUNT(*) FROM t GROUP BY r", unacorda.private_keys(), "SQRT(age)"),
    ],
)
def test_keys_that_do_not_fit_are_told_at_the_group(text: str, keys: Any, part: str) -> None:
    with session() as one, pytest.raises(InvalidParameter) as caught:
        one.sql(text, budget=unacorda.PureDP(1), keys=keys)
    assert caught.value.argument.startswith("keys")
    assert marked(caught.value) == part


@pytest.mark.long
def test_what_is_wanted_is_told_in_sql() -> None:
    joined = refused("SELECT COUNT(*) AS n FROM t JOIN other USING (age)")
    assert joined.argument == "JOIN"
    assert "as in USING (id)" in joined.expected
    missing = refused("SELECT CORR(age, educ) AS r FROM t")
    assert "bounds for 'educ'" in missing.expected
    assert "'age'" not in missing.expected
    keys = refused("SELECT FLOOR(educ) AS age, COUNT(*) FROM t GROUP BY age")
    assert "values of 'age'" in keys.expected  # not 'age (2)', which nobody wrote
    keys = refused("SELECT town AS place, COUNT(*) FROM t GROUP BY place")
    assert "columns={'town': unacorda.Categories" in keys.hint  # as the table has it


def test_a_column_may_be_called_person() -> None:
    frame = pd.DataFrame({"household": [1, 1, 1, 2], "person": list("abcd")})
    unit = unacorda.Person("household", max_rows=3)
    with unacorda.Session({"t": frame}, unit=unit, budget=unacorda.PureDP(1)) as one:
        query, _ = one.read_sql("SELECT COUNT(DISTINCT person) AS n FROM t")
        assert query.asked == {"n": unacorda.count_distinct("person")}


@in_subtests(
    ("text", "clause", "part", "said"),
    [
        ("SELECT COUNT(*) AS n FROM t WHERE age", "WHERE", "age", "a boolean"),
        ("SELECT COUNT(*) AS n FROM t WHERE age > 'x'", "WHERE", "age > 'x'", "is text; write"),
        ("SELECT COUNT(*) AS n FROM (SELECT age > 'x' AS b FROM t)", "SELECT", "age > 'x'", "kind"),
        ("SELECT SUM(UPPER(town)) AS s FROM t", "SELECT", "SUM(UPPER(town))", "a number"),
        (
            "SELECT AVG(CASE WHEN age THEN 1 END) AS a, COUNT(*) AS n FROM t",
            "SELECT",
            "AVG(CASE WHEN age THEN 1 END)",
            "a boolean",
        ),
        ("SELECT QUANTILE(educ, 0.9) FROM t", "SELECT", "QUANTILE(educ, 0.9)", "public bounds for"),
        ("SELECT VAR_SAMP(educ) AS v FROM t", "SELECT", "VAR_SAMP(educ)", "public bounds for"),
        ("SELECT COUNT(*) AS n FROM t HAVING n > 'x'", "HAVING", "n > 'x'", "parts of one kind"),
        ("SELECT COUNT(*) AS n FROM t ORDER BY n > 'x'", "ORDER BY", "n > 'x'", "of one kind"),
    ],
)
def test_what_does_not_fit_is_marked(text: str, clause: str, part: str, said: str) -> None:
    error = refused(text)
    assert error.argument == clause
    assert said in str(error)
    assert marked(error) == error.value == part


def test_columns_may_have_any_name() -> None:
    with session() as one:
        text = "SELECT FLOOR(educ) AS self, COUNT(*) AS people FROM t GROUP BY self"
        query, _ = one.read_sql(text, keys=[1, 2])
        assert query.released_groups == ("self",)
        query, _ = one.read_sql("SELECT COUNT(*) AS self FROM t")
        assert query.asked == {"self": unacorda.count()}


def test_missing_bounds_are_still_told_apart() -> None:
    error = refused("SELECT AVG(educ) AS a FROM t")
    assert isinstance(error, MissingBound)
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(same), same.drawing) == (str(error), error.drawing)


def test_a_batch_shows_the_place_too() -> None:
    asked = {"a": "SELECT COUNT(*) AS n FROM t", "b": "SELECT COUNT(*) AS n FROM t WHERE age"}
    said = "In question 'b': WHERE"
    with session() as one, pytest.raises(InvalidParameter, match=said) as caught:
        one.evaluate(asked, budget=unacorda.PureDP(1))
    assert marked(caught.value) == "age"


def test_a_person_may_be_called_so() -> None:
    with session() as one:
        for name in ("person", "id", "PERSON"):
            text = f"SELECT COUNT(DISTINCT {name}) AS n FROM t"
            assert "n" in str(one.explain(text, budget=unacorda.PureDP(1)))
        for rows in ("t JOIN towns USING (town)", "(SELECT age FROM t)"):
            query, _ = one.read_sql(f"SELECT COUNT(DISTINCT person) AS n FROM {rows}")
            assert query.asked == {"n": unacorda.count_people()}
