"""A release computed again from its file: what holds, what is found, what is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tacet
from tacet.errors import InvalidParameter
from tacet.ledger.opening import open_ledger
from tacet.privacy.guarantees import Guarantee
from tacet.query.columns import Fact
from tacet.query.release import Release
from tacet.query.session import Session
from tacet.query.verification import Verification

FRAME = pl.DataFrame(
    {
        "id": [i // 2 for i in range(400)],
        "age": [i % 90 for i in range(400)],
        "score": [f"{i / 7}" for i in range(400)],
        "county": ["A", "B", "C", None] * 100,
        "born": [dt.date(1950 + i % 2, 1, 1) for i in range(400)],
        "unused": [None] * 400,
    }
)
COLUMNS: dict[str, Fact] = {
    "age": tacet.Bounds(0, 120),
    "county": tacet.Categories(["A", "B", None]),
}


def session_of(budget: Guarantee, **options: Any) -> Session:
    options = {"unit": tacet.Person("id", max_rows=2), "bits": tacet.SeededBits(7), **options}
    return Session({"t": FRAME}, budget=budget, columns=COLUMNS, **options)


def released(budget: Guarantee, request: Guarantee | None = None, **options: Any) -> Release:
    with session_of(budget, **options) as session:
        query = (
            session.table("t")
            .where("age >= 18 OR score > 3")
            .derive(double="age * 2")
            .group_by("county", "born", keys={"born": [dt.date(1950, 1, 1)]})
            .agg(
                n=tacet.count(),
                mean=tacet.mean("age", weight="1/3"),
                total=tacet.sum("score"),
                twice=tacet.sum("double", 0, 240),
                p50=tacet.median("age", steps=12, interval=0.5),
                most=tacet.max("double", 0, 240),
                found=tacet.find_bounds("score"),
            )
        )
        return session.evaluate(query, budget=budget if request is None else request)


def differing(found: Verification) -> list[str]:
    return [check.name for check in found.checks if check.outcome == "differs"]


BUDGETS = [
    (tacet.PureDP(1), None),
    (tacet.PureDP(1), tacet.PureDP("1/3")),
    (tacet.ApproxDP(1, 1e-6), None),
    (tacet.ApproxDP(2, 1e-6), tacet.PureDP(1)),
    (tacet.ZCDP("1/3", 1e-8), None),
    (tacet.ZCDP(1), tacet.PureDP(1)),
    (tacet.ZCDP(1, 1e-6), tacet.ApproxDP(1, 1e-6)),
    (tacet.GDP(1), None),
    (tacet.GDP(2), tacet.PureDP("0.7")),
    (tacet.RenyiDP(8, 1), None),
    (tacet.RenyiDP(8, 1), tacet.ZCDP("0.1")),
]


@pytest.mark.parametrize(("budget", "request_"), BUDGETS)
def test_a_release_holds_under_every_account(budget: Guarantee, request_: Guarantee | None) -> None:
    found = Release.verify(released(budget, request_).to_json())
    assert found.holds, str(found)
    outcomes = {check.name: check.outcome for check in found.checks}
    assert outcomes.pop("noise") == "noted"  # it came from a seed
    assert set(outcomes.values()) == {"ok"}


def test_post_processing_holds() -> None:
    assert Release.verify(released(tacet.PureDP(1)).clamped().to_json()).holds
    with session_of(tacet.PureDP(1)) as session:
        release = session.sql(
            "SELECT county AS home, COUNT(*) AS n, AVG(age) AS m FROM t WHERE age > 3 "
            "GROUP BY county ORDER BY n DESC LIMIT 2",
            budget=tacet.PureDP(1),
        )
    found = Release.verify(release.to_json())
    assert found.holds
    assert "2 of 3 rows" in str(found)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_rows": tacet.auto(budget=tacet.PureDP("0.5"), most=9)},
        {"max_rows": tacet.auto(budget=tacet.PureDP("0.5"), most=9), "max_groups": 2},
        {"max_groups": 2, "max_rows_per_group": 1},
        {"max_rows": 3, "max_groups": 2, "max_rows_per_group": 2},
    ],
    ids=str,
)
def test_every_unit_holds(limits: dict[str, Any]) -> None:
    release = released(tacet.PureDP(2), tacet.PureDP(1), unit=tacet.Person("id", **limits))
    assert ("when the session was opened" in release.to_json()) == ("Auto" in str(limits))
    assert Release.verify(release.to_json()).holds


def test_the_file_tells_nothing_of_columns_that_were_not_asked_about() -> None:
    assert "unused" not in released(tacet.PureDP(1)).to_json()


def test_the_file_tells_nothing_of_the_values_of_an_enumeration(tmp_path: Path) -> None:
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE names AS ENUM ('Alice Smith', 'Bob')")
        connection.execute("CREATE TABLE t (id names, name names, price DECIMAL(18, 3))")
    unit = tacet.Person("id", max_rows=1)
    with Session({"t": f"{path}::t"}, unit=unit, budget=tacet.PureDP(1)) as session:
        query = session.table("t").group_by("name", keys=["x"]).agg(s=tacet.sum("price", 0, 1))
        text = session.evaluate(query, budget=tacet.PureDP(1)).to_json()
    assert "Alice" not in text
    assert Release.verify(text).holds


def test_another_version_is_noted_and_no_fault() -> None:
    stated = json.loads(released(tacet.PureDP(1)).to_json())
    stated["software"]["numpy"] = "0.0.1"
    found = Release.verify(json.dumps(stated))
    assert found.holds
    assert found.checks[0].outcome == "noted"
    assert "numpy 0.0.1, here" in found.checks[0].detail


# ---- every field, changed


LEDGER = open_ledger(None)
STATED = json.loads(
    released(tacet.ZCDP(1, 1e-6), tacet.ZCDP("0.3"), ledger=LEDGER, dataset="d").to_json()
)
# What follows from nothing else in the file: numbers that were drawn, and what depends on others.
FREE = ("remaining", "software")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all single values, and of all objects and lists."""
    if path:
        yield path
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from leaves(part, (*path, name))
        else:
            yield (*path, name)


def drawn(path: tuple[Any, ...]) -> bool:
    """Whether a released number stands there."""
    return path[0] == "rows" and len(path) == 3 and path[2] not in ("county", "n_se", "twice_se")


PLACES = [p for p in leaves(STATED) if p[0] not in FREE and not drawn(p) and p != ("rows",)]


def changed(path: tuple[Any, ...], change: Any) -> str:
    """The file with one place changed; change: from the old value to the new."""
    stated = copy.deepcopy(STATED)
    part = stated
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = change(part[path[-1]])
    return json.dumps(stated)


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
    assert len(PLACES) > 150
    places = {path[0] for path in PLACES}
    assert {"query", "event", "digest", "salt", "exact", "provenance", "spent"} <= places


@pytest.mark.parametrize("part", sorted({path[0] for path in PLACES}))
def test_a_change_of_any_place_is_found(part: str) -> None:
    unseen = [p for p in PLACES if p[0] == part and not unsound(changed(p, other))]
    assert unseen == []


def test_a_place_of_another_type_is_found() -> None:
    for place, path in enumerate(PLACES):
        if place % 7 == 0:
            assert unsound(changed(path, lambda _: {"kind": "count"})), path


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("digest",), "0" * 64, ["digest"]),
        (("exact", "charge", "rho"), "1/5", ["charge"]),
        (("exact", "charge"), {"guarantee": "GDP", "mu_squared": "1", "delta": "0"}, ["charge"]),
        (("exact", "request", "rho"), "1/5", ["event", "charge", "words", "errors"]),
        (("event", "parts", 0, "sigma"), "1/2", ["event"]),
        (("query", "aggregates", "mean", "weight"), "3", ["digest", "event", "words", "errors"]),
        (("query", "aggregates", "twice", "upper"), "100", ["digest", "words", "errors"]),
        (("query", "unit", "max_rows"), 1, ["digest", "event", "words", "errors"]),
        (("query", "keys", 0, 0), "Z", ["digest", "rows"]),
        (("query", "steps", 0, "where"), '"age" >= 19', ["digest", "words"]),
        (("query", "steps", 0, "where"), "age >= 18 OR score > 3", ["question"]),
        (("query", "columns", "age", "type"), "DOUBLE", ["digest", "words"]),
        (("query", "steps", 0, "where"), "random() > 0.5", ["question"]),
        (("rows", 1, "county"), "A", ["rows"]),
        (("rows", 0, "n_se"), 0.5, ["errors"]),
        (("spent",), "ZCDP(rho=0.1)", ["words"]),
    ],
)
def test_what_differs_is_named(path: tuple[Any, ...], value: Any, said: list[str]) -> None:
    found = differing(Release.verify(changed(path, lambda _: value)))
    assert found == said


# ---- ledgers


def test_a_durable_ledger_has_the_entry(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    texts = [
        released(tacet.PureDP(2), tacet.PureDP(1), ledger=url, dataset=name, bits=None).to_json()
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
    budget = tacet.PureDP(1)
    release = released(budget)
    ledger.open_account("d", budget, {})
    noted: dict[str, Any] = {
        "charge": release.charge,
        "event": release.event,
        "request": release.request,
        "plan_digest": release.query.digest(),
        "salt": bytes.fromhex(release.salt),
        "analyst": None,
        "purpose": None,
        "reproducible": True,
    }
    reservation = ledger.reserve("d", **noted)
    found = Release.verify(release.to_json(), ledger=ledger)
    assert differing(found) == ["entry"]
    assert "never answered" in str(found)
    ledger.commit(reservation)
    assert Release.verify(release.to_json(), ledger=ledger).holds


# ---- what is no release


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("", "text"),
        ("no json", "text"),
        ("[1, 2]", "text"),
        ("[" * 100_000, "text"),
        ('{"a":' * 100_000, "text"),
        ('{"format": 1, "format": 2}', "text"),
        (f'{{"format": {"9" * 5_000}}}', "text"),
        ('{"format": "tacet release 2"}', "format"),
        ('{"format": "tacet release 1"}', "rows"),
        (None, "text"),
        (b"{}", "text"),
    ],
)
def test_text_that_is_no_release_is_refused(text: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Release.verify(text)
    assert caught.value.argument == argument
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("path", "value", "argument"),
    [
        (("rows",), {"n": 1}, "rows"),
        (("rows",), [[1]], "rows"),
        (("rows", 0, "n"), [[[]]], "rows"),
        (("digest",), "x" * 64, "digest"),
        (("salt",), 5, "salt"),
        (("event",), json.loads('{"a":' * 400 + "1" + "}" * 400), "event"),
        (("exact", "charge"), {"guarantee": "__import__"}, "exact.charge"),
        (("exact", "charge", "rho"), "1" * 10_000, "exact.charge"),
        (("exact", "charge", "rho"), "1e999999999", "exact.charge"),
        (("exact", "charge", "rho"), "3/10 ", "exact.charge"),
        (("software",), {"numpy": 2}, "software['numpy']"),
        (("provenance",), "text", "provenance"),
        (("reproducible",), "no", "reproducible"),
    ],
)
def test_a_field_of_another_form_is_named(path: tuple[Any, ...], value: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Release.verify(changed(path, lambda _: value))
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("unit", "kind"), "os.system", "a Person or a Row"),
        (("unit", "max_rows"), 10**9, "max_rows"),
        (("unit", "max_rows"), 10**30, "max_rows"),
        (("unit", "id"), ["nobody"], "nobody"),
        (("aggregates", "n", "kind"), "aggregate", "aggregates['n']"),
        (("aggregates", "n", "kind"), "quantile", "the fields kind, weight, column, lower"),
        (("aggregates", "n", "weight"), "0", "weight"),
        (("aggregates", "n", "weight"), "-1", "weight"),
        (("aggregates", "n", "weight"), 1, "aggregates['n'].weight"),
        (("aggregates", "p50", "steps"), 2**70, "aggregates['p50'].steps"),
        (("aggregates", "p50", "q"), "0.5", "lowest terms"),
        (("aggregates", "p50", "column"), "(SELECT 1)", "(SELECT 1)"),
        (("aggregates",), {}, "agg"),
        (("columns", "age", "fact"), {"kind": "bounds", "lower": 1.0, "upper": 0.0}, "lower"),
        (("columns", "age", "type"), "DATE", "age"),
        (("steps",), [{"where": "TRUE"}] * 2_000, "query.steps"),
        (("steps",), [{"drop": "everything"}], "query.steps[0]"),
        (("steps", 0, "where"), "1" * 20_000, "cannot be used"),
        (("keys",), [], "keys"),
        (("keys",), [["A"]], "keys"),
        (("keys", 0, 0), 1.5, "query.keys"),
        (("keys", 0, 1), {"date": "2024-02-31"}, "query.keys"),
        (("groups",), ["county", "county"], "county"),
        (("table",), 7, "query.table"),
        (("more",), 7, "query"),
    ],
)
def test_a_question_that_no_session_takes_is_said_so(
    path: tuple[Any, ...], value: Any, said: str
) -> None:
    stated = copy.deepcopy(STATED)
    part = stated["query"]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    found = Release.verify(json.dumps(stated))
    assert differing(found)[0] in {"question", "event"}
    assert said in str(found)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1/3", "count", "bounds", "person", "add_remove", "VARCHAR", "GDP", "x"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "type", "fact", "date", "where"]), inner)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def check_anything_somewhere(path: tuple[Any, ...], value: Any) -> None:
    text = changed(path, lambda _: value)
    with contextlib.suppress(InvalidParameter):
        found = Release.verify(text, ledger=LEDGER)
        assert found.to_dict()["holds"] is found.holds
        assert str(found)


@settings(max_examples=30)
@given(path=st.sampled_from(list(leaves(STATED))), value=JSON)
@example(path=("query", "steps"), value=None)
@example(path=("query", "steps"), value=[None, {"of": [3]}])
def test_whatever_stands_anywhere_is_a_report_or_a_named_error(
    path: tuple[Any, ...], value: Any
) -> None:
    check_anything_somewhere(path, value)


@pytest.mark.slow
@settings(max_examples=600)
@given(path=st.sampled_from(list(leaves(STATED))), value=JSON)
def test_whatever_stands_anywhere_is_a_report_or_a_named_error_at_length(
    path: tuple[Any, ...], value: Any
) -> None:
    check_anything_somewhere(path, value)


@settings(max_examples=40)
@given(value=JSON)
def test_any_json_is_a_named_error(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        Release.verify(json.dumps(value))
