"""What an account is opened under: the promise alone, as values that no spelling can confuse."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.support.seams import Entry, ledger_of, open_ledger

import unacorda
from unacorda import AddRemove, Person, PureDP, ReplaceOne, Row, Session
from unacorda.errors import LedgerMismatch

FRAME = pd.DataFrame(
    {"id": [1, 1, 2, 3], "a": list("wxyz"), "b": list("mnop"), "a, b": list("qrst"), "k": [0] * 4}
)
TABLES = {"t": FRAME, "u": FRAME.assign(id2=FRAME.id)}


def opened(ledger: str, unit: Any, tables: Any = None, **options: Any) -> Session:
    settings: dict[str, Any] = {"budget": PureDP(1), "ledger": ledger, "dataset": "d"}
    return Session({"t": FRAME} if tables is None else tables, unit=unit, **settings | options)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'budget.db'}"


TWO = {"t": "id", "u": "id2"}
OTHERS: dict[str, tuple[Any, Any, Any]] = {
    "a comma in a name": (Person("a, b", max_rows=1), Person(("a", "b"), max_rows=1), None),
    "two names, a comma": (Person(("a", "b"), max_rows=1), Person("a, b", max_rows=1), None),
    "another order": (Person(("a", "b"), max_rows=1), Person(("b", "a"), max_rows=1), None),
    "another column": (Person("id", max_rows=1), Person("a", max_rows=1), None),
    "a row for a person": (Person("id", max_rows=1), Row(), None),
    "a person for a row": (Row(), Person("id", max_rows=1), None),
    "another relation": (
        Person("id", max_rows=1, neighbors=AddRemove),
        Person("id", max_rows=1, neighbors=ReplaceOne),
        None,
    ),
    "another relation of rows": (Row(), Row(neighbors=ReplaceOne), None),
    "names by table": (Person("id", max_rows=1), Person(TWO, max_rows=1), TABLES),
    "other names by table": (
        Person({"t": "id", "u": "id"}, max_rows=1),
        Person(TWO, max_rows=1),
        TABLES,
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_promise_is_another_account(case: str, ledger: str) -> None:
    first, other, tables = OTHERS[case]
    opened(ledger, first, tables).close()
    with pytest.raises(LedgerMismatch, match="opened under other terms"):
        opened(ledger, other, tables)
    with closing(open_ledger(ledger)) as book:
        assert book.entries("d") == ()


def test_texts_of_a_person_that_read_alike_are_terms_that_differ() -> None:
    one, other = Person("a, b", max_rows=1), Person(("a", "b"), max_rows=1)
    assert str(one) == str(other)
    assert one.terms != other.terms


SAME: dict[str, tuple[Any, Any, Any]] = {
    "the same": (Person("id", max_rows=1), Person("id", max_rows=1), None),
    "more rows": (Person("id", max_rows=1), Person("id", max_rows=50), None),
    "groups": (
        Person("id", max_rows=1),
        Person("id", max_groups=3, max_rows_per_group=2),
        None,
    ),
    "tables in another order": (
        Person(TWO, max_rows=1),
        Person(dict(reversed(TWO.items())), max_rows=2),
        TABLES,
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_limits_are_no_terms(case: str, ledger: str) -> None:
    first, other, tables = SAME[case]
    opened(ledger, first, tables).close()
    opened(ledger, other, tables).close()


@pytest.mark.long
def test_each_question_is_charged_for_its_own_limits_and_notes_them(ledger: str) -> None:
    units = {
        Person("id", max_rows=1): {"max_rows": 1},
        Person("id", max_rows=50): {"max_rows": 50},
        Person("id", max_groups=3, max_rows_per_group=2): {
            "max_groups": 3,
            "max_rows_per_group": 2,
        },
        Person("id", max_rows=4, max_groups=3): {"max_rows": 4, "max_groups": 3},
    }
    share = Fraction(1, 7)
    errors: list[float] = []
    for number, unit in enumerate(units, start=1):
        with opened(ledger, unit) as session:
            query = session.table("t").agg(n=unacorda.count())
            release = session.evaluate(query, budget=PureDP(share))
            errors.append(release.answers["n"].standard_errors[0] or 0)
            assert session.spent == PureDP(share * number)
            checked = unacorda.Release.verify(release.to_json(), ledger=ledger_of(session))
            assert checked.holds
    assert errors[1] == pytest.approx(50 * errors[0], rel=0.01)  # its own noise, too
    with closing(open_ledger(ledger)) as book:
        noted = [entry.limits for entry in book.entries("d") if entry.state == "reserved"]
        assert [json.loads(text or "") for text in noted] == list(units.values())
        assert book.spent("d") == PureDP(4 * share)
        assert book.verify("d") == 8


def test_single_rows_have_no_limits(ledger: str) -> None:
    with opened(ledger, Row()) as session:
        session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PureDP("0.5"))
        assert ledger_of(session).entries("d")[0].limits == "{}"


def test_limits_that_a_release_does_not_have_are_found(
    ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(ledger, Person("id", max_rows=2)) as session:
        query = session.table("t").agg(n=unacorda.count())
        text = session.evaluate(query, budget=PureDP("0.5")).to_json()
        book, kept = ledger_of(session), ledger_of(session).entries
        changed = [Entry(**_other(entry)) for entry in kept("d")]
        monkeypatch.setattr(book, "entries", lambda _dataset: tuple(changed))
        found = {one.name: one for one in unacorda.Release.verify(text, ledger=book).checks}
        assert found["entry"].outcome == "differs"
        assert "limits" in found["entry"].detail


def _other(entry: Any) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in entry.__dataclass_fields__}
    return {**fields, "limits": '{"max_rows":3}'}


@pytest.mark.long
def test_a_split_goes_on_under_other_limits(ledger: str) -> None:
    frame = pd.DataFrame({"id": [i // 3 for i in range(300)], "k": [i % 2 for i in range(300)]})
    asked: dict[str, Any] = {"keys": [0, 1], "budget": PureDP("0.5"), "name": "by k"}
    owed = []
    for rows in (1, 30):
        unit = Person("id", max_rows=rows)
        with opened(ledger, unit, {"t": frame}) as session:
            parts = session.split("k", **asked)
            for part, share in zip(parts.values(), ("0.1", "0.2"), strict=True):
                question = part.table("t").agg(n=unacorda.count())
                release = part.evaluate(question, budget=PureDP(share))
                assert f"at most {rows} row" in str(part.unit)
                assert unacorda.Release.verify(release.to_json(), ledger=ledger_of(session)).holds
            owed.append(session.spent)
            assert ledger_of(session).verify("d")
    assert owed == [PureDP("0.2"), PureDP("0.4")]  # of the larger part alone, for each session


def test_an_analyst_has_one_limit_over_all_limits_on_rows(ledger: str) -> None:
    for rows, left in ((1, "0.2"), (30, "0.1")):
        with opened(ledger, Person("id", max_rows=rows)) as session:
            ana = session.for_analyst("ana", PureDP("0.3"))
            ana.evaluate(ana.table("t").agg(n=unacorda.count()), budget=PureDP("0.1"))
            assert ana.remaining == PureDP(left)
            assert session.remaining == PureDP(left) + PureDP("0.7")


@pytest.mark.long
def test_a_fit_notes_its_limits(ledger: str) -> None:
    frame = pd.DataFrame({"id": range(400), "x": [i % 20 for i in range(400)], "y": [1.0] * 400})
    model = unacorda.inference.LinearRegression(budget=unacorda.GDP(5))
    columns = {"x": unacorda.Bounds(0, 20), "y": unacorda.Bounds(0, 2)}
    options: dict[str, Any] = {"budget": unacorda.GDP(9), "columns": columns}
    with opened(ledger, Person("id", max_rows=7), {"t": frame}, **options) as session:
        session.fit(model, "t", features=["x"], target="y")
        assert [json.loads(e.limits) for e in ledger_of(session).entries("d") if e.limits] == [
            {"max_rows": 7}
        ]


@pytest.mark.parametrize("terms", [{"unit": 3}, {"unit": None}, {"unit": ["a", 3]}, {3: "a"}])
def test_terms_are_names_and_texts(terms: Any) -> None:
    with pytest.raises(unacorda.errors.InvalidParameter, match="terms"):
        open_ledger(None).open_account("d", PureDP(1), terms)
