"""What notebooks show, what a release gives by name, and hints for words of other packages."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from tests.query.exact_answers import opened
from tests.support.seams import Session

import unacorda
from unacorda import PureDP
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.errors import QUERY, RELEASE, SESSION

HOSTILE = "<script>alert('&')</script>\x1b[31m"
FRAME = pd.DataFrame({"id": [1, 2, 3], HOSTILE: ["<b>", "</td>", "a"], "age": [30, 40, 50]})


class _Texts(HTMLParser):
    """The texts and tags of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert all(name == "scope" for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def texts(html: str) -> str:
    """The text of HTML whose tags are closed and are those of tables and paragraphs."""
    parser = _Texts()
    parser.feed(html)
    parser.close()
    allowed = {"table", "thead", "tbody", "tr", "th", "td", "p", "h4", "pre", "br"}
    assert parser.tags <= allowed
    assert not parser.open
    return parser.text


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    unit = unacorda.Person("id", max_rows=1)
    with opened(FRAME, unit=unit, budget=PureDP(1_000)) as session:
        yield session


def query(session: Session) -> Any:
    grouped = session.table("t").group_by(HOSTILE, keys=["<b>", "</td>"])
    return grouped.agg(**{"n<i>": unacorda.count()})


def test_every_value_is_shown_as_html_in_which_names_and_values_are_data(session: Session) -> None:
    one = query(session)
    budget = PureDP(1)
    release = session.evaluate(one, budget=budget)
    batch = session.evaluate({"<u>": one, "b": one}, budget=budget)
    shown = {
        "query": one,
        "session": session,
        "release": release,
        "batch": batch,
        "explanation": session.explain(one, budget=budget),
        "detail": session.explain(one, budget=budget, detail=True),
        "explanations": session.explain({"<u>": one, "b": one}, budget=budget),
    }
    for name, value in shown.items():
        found = texts(value._repr_html_())
        assert "\x1b" not in found, name
        assert ("n<i>" in found) is (name != "session"), name
    assert "</td>" in texts(release._repr_html_())
    assert "<u>" in texts(batch._repr_html_())


def test_an_explanation_is_its_text(session: Session) -> None:
    short = session.explain(query(session), budget=PureDP(1))
    detail = session.explain(query(session), budget=PureDP(1), detail=True)
    several = session.explain([query(session)] * 2, budget=PureDP(1))
    for one in (short, detail, several):
        assert repr(one) == str(one)
    assert len(str(short).splitlines()) < 8 < len(str(detail).splitlines())
    assert "share of the budget" in str(short)
    assert "What other budgets would buy" in str(detail)
    assert short.to_dict() == detail.to_dict()


def test_a_release_gives_columns_rows_and_one_number(session: Session) -> None:
    release = session.evaluate(query(session), budget=PureDP(1))
    assert len(release) == 2
    assert list(release) == release.to_dicts() == [release[0], release[1]]
    assert release[HOSTILE] == ["<b>", "</td>"]
    assert release["n<i>"] == [row["n<i>"] for row in release]
    assert release["n<i>_low"] == [row["n<i>_low"] for row in release]
    with pytest.raises(InvalidParameter, match="2 rows"):
        release.scalar()
    with pytest.raises(InvalidParameter, match="one of the columns"):
        release["m"]
    alone = session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PureDP(1))
    assert alone.scalar() == alone["n"][0]


def test_a_release_without_rows_is_a_release(session: Session) -> None:
    asked = session.table("t").agg(n=unacorda.count())
    release = session.evaluate(asked, budget=PureDP(1))
    assert bool(release)
    assert copy.copy(release) == release


FOREIGN: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "filter": (lambda s: s.table("t").filter("age > 1"), AttributeError, r"\.where\("),
    "groupby": (lambda s: s.table("t").groupby("age"), AttributeError, r"\.group_by\("),
    "select": (lambda s: s.table("t").select("age"), AttributeError, r"\.agg\("),
    "with_columns": (lambda s: s.table("t").with_columns(), AttributeError, r"\.derive\("),
    "mean": (lambda s: s.table("t").mean(), AttributeError, r"unacorda\.mean\("),
    "collect": (lambda s: s.table("t").collect(), AttributeError, r"session\.evaluate\("),
    "a column": (lambda s: s.table("t")["age"], TypeError, r"\.where\("),
    "a table": (lambda s: s["t"], TypeError, r"session\.table\("),
    "no name": (lambda s: s.table("t").agg(unacorda.count()), TypeError, r"agg\(n=unacorda\.count"),
    "a mapping": (lambda s: s.table("t").agg({"age": "mean"}), TypeError, "by a name"),
    "a list": (lambda s: s.table("t").group_by(["age"]), InvalidParameter, "each an argument"),
    "query": (lambda s: s.query("SELECT 1"), AttributeError, r"session\.sql\("),
    "unheard of": (lambda s: s.table("t").frobnicate, AttributeError, "no attribute 'frobnicate'"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_words_of_other_packages_get_a_hint_before_any_budget(session: Session, name: str) -> None:
    ask, fault, hint = FOREIGN[name]
    before = session.spent
    with pytest.raises(fault, match=hint):
        ask(session)
    assert session.spent == before


def test_no_hint_hides_a_name_that_there_is(session: Session) -> None:
    for kind, hints in (
        (type(session.table("t")), QUERY),
        (Session, SESSION),
        (unacorda.Release, RELEASE),
    ):
        assert not [name for name in hints if name in dir(kind)], kind
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(session)


def test_a_misspelled_name_is_told_the_nearest(session: Session) -> None:
    query = session.table("t").agg(n=unacorda.count())
    release = session.evaluate(query, budget=PureDP(1))
    for found, name, near in (
        (session, "evaluat", "evaluate"),
        (query, "grup_by", "group_by"),
        (release, "to_panda", "to_pandas"),
    ):
        with pytest.raises(AttributeError, match=rf"{name}'\. Did you mean '{near}'\?"):
            getattr(found, name)


def test_facts_may_be_declared_by_table() -> None:
    tables = {"a": FRAME[["id", "age"]], "b": FRAME[["id", "age"]]}
    ages: Any = {"a": {"age": unacorda.Bounds(0, 50)}, "age": unacorda.Bounds(0, 90)}
    options: dict[str, Any] = {"unit": unacorda.Person("id", max_rows=1), "budget": PureDP(1)}
    with unacorda.Session(tables, columns=ages, **options) as session:
        asked = {name: session.table(name).agg(m=unacorda.mean("age")) for name in tables}
        assert asked["a"].aggregates["m"].bounds == (0, 50)
        assert asked["b"].aggregates["m"].bounds == (0, 90)


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ({"labs": {"age": unacorda.Bounds(0, 1)}}, "one of the tables: t"),
        ({"t": {"aeg": unacorda.Bounds(0, 1)}}, "a column of table 't'"),
        ({"t": {"age": 5}}, r"columns\['t'\]\['age'\]=5"),
        ({"t": {"age": {}}}, r"columns\['t'\]\['age'\]"),
        ({"aeg": unacorda.Bounds(0, 1)}, "a column of the tables"),
        ({"age": 5}, r"columns\['age'\]=5"),
    ],
)
def test_facts_that_fit_no_column_are_refused(columns: Any, hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        opened(FRAME, columns=columns)
