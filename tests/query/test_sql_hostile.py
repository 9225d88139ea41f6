"""Random SELECTs: refused with our own errors, or answered whatever the rows hold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.query.expression_grammar import nasty_table
from tests.query.select_grammar import selects
from tests.query.select_sessions import read
from tests.support.cases import in_subtests
from tests.support.seams import Session
from tests.tiers import mostly_slow

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import PureDP

_RELAXED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_COLUMNS = ("a", "s", "x", "y")
_WORDS = """
    SELECT WITH a AS ( ) , * FROM t a s x y WHERE GROUP BY ALL HAVING ORDER LIMIT OFFSET 1 2 3
    COUNT(*) SUM(x) AVG(x) COUNT(DISTINCT MEDIAN( QUANTILE( FILTER WITHIN DISTINCT UNION JOIN ON
    RECURSIVE MATERIALIZED LATERAL VALUES UNNEST( PIVOT UNPIVOT QUALIFY WINDOW OVER ROWS FETCH
    FIRST ONLY TABLESAMPLE SAMPLE USING DESC ASC NULLS LAST CASE WHEN THEN ELSE END INTERVAL DAY
    :: DATE + - / > = <> AND OR NOT IN BETWEEN LIKE 'x' NULL TRUE "x" ; -- /* */ . [ ] { } -> := $1
    EXCLUDE REPLACE COLUMNS( STRUCT LIST [1] SUMMARIZE DESCRIBE PRAGMA ROLLUP( CUBE( GROUPING SETS
"""


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    file = tmp_path_factory.mktemp("sql") / "nasty.duckdb"
    with duckdb.connect(str(file)) as connection:
        nasty_table(connection)
        connection.execute("CREATE TABLE rows AS SELECT *, rowid // 2 AS id FROM nasty")
    with Session(
        {"nasty": f"{file}::rows"},
        unit=unacorda.Person("id", max_rows=2),
        budget=PureDP(10**9),
        columns={"age": unacorda.Bounds(0, 120), "ratio": unacorda.Bounds(-1, 1)},
        bits=SeededBits(1),
        threads=1,
    ) as session:
        yield session


def answered(session: Session, text: str) -> bool:
    """Whether a SELECT is answered; it is refused before anything is spent."""
    before = session.spent
    try:
        release = session.sql(text, budget=PureDP(1))
    except InvalidParameter as refusal:
        assert session.spent == before
        assert refusal.expected  # noqa: PT017
        return False
    assert len(release.to_dicts()) <= 9  # two booleans, and their margins
    return True


@pytest.mark.long
def test_random_selects_are_answered_or_refused(nasty: Session) -> None:
    found: list[bool] = []

    @seed(60)
    @settings(_RELAXED, max_examples=30)
    @given(text=selects())
    def tried(text: str) -> None:
        found.append(answered(nasty, text))

    tried()
    assert sum(found) > len(found) / 2


@pytest.mark.slow
@seed(61)
@settings(_RELAXED, max_examples=300)
@given(text=selects())
def test_many_random_selects_are_answered_or_refused(nasty: Session, text: str) -> None:
    answered(nasty, text)


@pytest.mark.long
@seed(63)
@settings(_RELAXED, max_examples=150)
@given(words=st.lists(st.sampled_from(_WORDS.split()), max_size=16))
def test_soup_raises_only_our_errors(words: list[str]) -> None:
    for start in ("", "SELECT COUNT(*) ", "WITH a AS (SELECT * FROM t) SELECT COUNT(*) FROM a "):
        with contextlib.suppress(InvalidParameter):
            read(start + " ".join(words), _COLUMNS)


@pytest.mark.slow
@seed(64)
@settings(_RELAXED, max_examples=4_000)
@given(words=st.lists(st.sampled_from(_WORDS.split()), max_size=30))
def test_much_soup_raises_only_our_errors(words: list[str]) -> None:
    for start in ("", "SELECT COUNT(*) ", "WITH a AS (SELECT * FROM t) SELECT COUNT(*) FROM a "):
        with contextlib.suppress(InvalidParameter):
            read(start + " ".join(words), _COLUMNS)


@in_subtests("levels", [10, 60, 1_000, 4_000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    mostly_slow(
        [
            ("(SELECT * FROM ", ")"),
            ("SELECT COUNT(*) FROM (", ")"),
            ("SELECT COUNT(*) + (", ") AS n FROM t"),
            ("WITH a AS (", ") SELECT COUNT(*) FROM a"),
            ("SELECT SUM(", ") FROM t"),
            ("SELECT COUNT(*) FILTER (WHERE ", ")"),
            ("SELECT COUNT(*) FROM t HAVING (", ")"),
            ("SELECT COUNT(*) FROM t ORDER BY - ", ""),
            ("SELECT COUNT(*) FROM t UNION ", ""),
            ("SELECT COUNT(*) OVER (ORDER BY ", ")"),
        ],
        quick=1,
    ),
)
def test_nesting_ends_soon_in_an_answer_or_a_refusal(
    opening: str, closing: str, levels: int
) -> None:
    levels = min(levels, 9_900 // (len(opening) + len(closing)))
    began = time.monotonic()
    for middle in ("t", "x", "SELECT COUNT(*) FROM t"):
        with contextlib.suppress(InvalidParameter):
            read(opening * levels + middle + closing * levels, _COLUMNS)
    assert time.monotonic() - began < 30


@pytest.mark.long
def test_as_many_steps_as_can_be_written_are_answered(nasty: Session) -> None:
    chain = ["a0 AS (SELECT *, x + 1 AS c0 FROM nasty WHERE x > 0)"]
    chain += [
        f"a{i} AS (SELECT *, c{i - 1} + 1 AS c{i}, c{i - 1} * 2 AS e{i} FROM a{i - 1} "
        f"WHERE c{i - 1} IS NOT NULL)"
        for i in range(1, 20)
    ]
    assert answered(
        nasty, f"WITH {', '.join(chain)} SELECT COUNT(*), AVG(LEAST(GREATEST(c19, 0), 9)) FROM a19"
    )
    wide = ", ".join(f"x + {i} AS w{i}" for i in range(99))
    assert answered(nasty, f"SELECT COUNT(w98) FROM (SELECT {wide} FROM nasty)")


@pytest.mark.long
def test_the_file_is_not_touched(nasty: Session, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    for text in (f"COPY nasty TO '{target}'", f"SELECT COUNT(*) FROM '{target}'"):
        assert not answered(nasty, text)
    assert not target.exists()
