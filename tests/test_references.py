"""The references that are made of the code's own tables: complete, and their examples run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas
import pytest

import unacorda
from unacorda import mechanisms
from unacorda.server.fields import check_body
from unacorda.server.oidc import OidcSettings
from unacorda.settings import DATASET, OIDC, SERVER, Dataset

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(DOCS / "_extensions")
    return importlib.import_module("code_tables")


def test_pages_are_within_their_limit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = importlib.import_module("check_pages")
    written = ("_made/", "project/", "reference/commands", "reference/python/")
    here = [
        page for page in DOCS.rglob("*.md") if not str(page.relative_to(DOCS)).startswith(written)
    ]
    assert len(here) > 80
    assert [fault for page in here for fault in pages.too_long(page)] == []
    monkeypatch.setattr(pages, "MOST_WORDS", 200)
    assert pages.too_long(DOCS / "sql.md")
    assert pages.too_long(DOCS / "proofs" / "contour.md") == []


def test_every_part_is_on_a_page(made: Any) -> None:
    pages = [page.read_text() for page in (DOCS / "reference").glob("*.md")]
    parts = made.parts()
    assert len(parts) == 8
    for name, lines in parts.items():
        assert sum(f"```{{include}} ../_made/{name}\n" in page for page in pages) == 1, name
        assert len(lines) > 5


def test_every_request_has_its_parameters_and_problems(made: Any) -> None:
    parts = made.parts()
    anchors = set(re.findall(r"^\(([\w-]+)\)=$", "\n".join(parts["problems.md"]), re.MULTILINE))
    sections = {}
    for name in ("asking.md", "curating.md"):
        for section in re.split(r"^## ", "\n".join(parts[name]), flags=re.MULTILINE)[1:]:
            sections[section.partition("\n")[0]] = section
            assert set(re.findall(r"http\.md#([\w-]+)", section)) <= anchors
    assert len(sections) == len(made.ENDPOINTS)
    for one in made.ENDPOINTS.values():
        section = sections[f"{one.method.upper()} {one.path}"]
        for field in (*(one.fields or ()), *one.query):
            assert f"| `{field.name}` |" in section, one.path
        assert ("Authorization" in section) != one.open
        if one.fields is not None:
            (body,) = re.findall(r"^ +-d '(.*)'$", section, re.MULTILINE)
            assert check_body(json.loads(body), one.fields), "the example is refused"
            assert "budget" in body or "budget" not in {field.name for field in one.fields}


def test_functions_have_an_example_each(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(made.functions())
    assert text.count("\n| `") == len(made.language.FUNCTIONS)
    assert "| `DATE_SUB` |" in text
    monkeypatch.setattr(made.language, "FUNCTIONS", (*made.language.FUNCTIONS, "NEW"))
    with pytest.raises(AssertionError, match="NEW"):
        made.functions()


@pytest.mark.long
def test_the_examples_of_aggregates_can_be_asked(made: Any, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("id,age,cost,county\n")
    facts: dict[str, Any] = {"age": unacorda.Bounds(0, 120), "cost": unacorda.Bounds(0, 1000)}
    columns = {**facts, "county": unacorda.Categories(["A", "B"])}
    with unacorda.Session(
        {"visits": tmp_path / "visits.csv"},
        unit=unacorda.Person("id", max_rows=2),
        budget=unacorda.PureDP(1),
        columns=columns,
    ) as session:
        for example, _ in made.AGGREGATES.values():
            told = session.explain(f"SELECT {example} AS a FROM visits", budget=unacorda.PureDP(1))
            assert told.affordable, example


def test_options_say_what_counts_where_they_are_left_out() -> None:
    assert {name: one.default for name, one in OIDC.items()} == {
        "issuer": None,
        "audience": None,
    } | {
        field.name: list(field.default) if isinstance(field.default, tuple) else field.default
        for field in fields(OidcSettings)
        if field.name not in {"issuer", "audience"}
    }
    known = {field.name for field in fields(Dataset)} - {"name", "most_a_question"}
    assert set(DATASET) == known
    for options in (SERVER, DATASET, OIDC):
        for name, one in options.items():
            assert one.says.endswith("."), name
            assert one.form, name


def returned_by(owner: type, named: set[str]) -> set[str]:
    """Classes of the package that methods are annotated to return and that have no page."""
    module = importlib.import_module(owner.__module__)
    lazy = re.findall(
        r"from (unacorda\.[\w.]+) import ([\w, ]+)", Path(str(module.__file__)).read_text()
    )
    homes = {name: home for home, names in lazy for name in names.split(", ")}
    found = set()
    for name, method in vars(owner).items():
        function = method.fget if isinstance(method, property) else method
        stated = getattr(function, "__annotations__", {}).get("return", "")
        if not name.startswith("_"):
            found |= set(re.findall(r"\b[A-Z]\w+", str(stated)))
    return {one for one in found & set(homes) if one not in named}


def test_what_sessions_return_has_a_page(made: Any) -> None:
    references = importlib.import_module("references")
    named = {path.rpartition(".")[2] for path in references.RETURNED}
    named |= {name for room in references.ROOMS for name in references.names_of(room)}
    shown = {"Guarantee", "Key"}  # unions of types
    for owner in (unacorda.Session, unacorda.Remote, unacorda.Release):
        assert returned_by(owner, named | shown) == set()
    assert "Query" in returned_by(unacorda.Session, named - {"Query"})
    for path, members in references.RETURNED.items():
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert (found.__doc__ or "").strip(), path
        for member in members.split():
            one = inspect.getattr_static(found, member)
            assert (getattr(one, "fget", one) or one).__doc__, f"{path}.{member}"


def test_every_package_of_mechanisms_has_a_page(made: Any) -> None:
    references = importlib.import_module("references")
    packages = [one for one in pkgutil.iter_modules(mechanisms.__path__) if one.ispkg]
    rooms = {f"unacorda.mechanisms.{one.name}" for one in packages}
    named = {room for room in rooms if getattr(importlib.import_module(room), "__all__", ())}
    assert len(named) > 5
    assert named - set(references.ROOMS) == set()
    index = (DOCS / "reference" / "index.md").read_text().splitlines()
    assert [room for room in references.ROOMS if f"python/{room}" not in index] == []


def test_completion_of_a_question_lists_what_is_for_callers(made: Any) -> None:
    references = importlib.import_module("references")
    with unacorda.Session(
        {"visits": pandas.DataFrame({"age": [30, 41]})},
        unit=unacorda.Row(),
        budget=unacorda.PureDP(1),
    ) as session:
        question = session.table(session.tables[0])
    listed = [name for name in dir(question) if not name.startswith("_")]
    members = references.RETURNED["unacorda.query.plan.query.Query"].split()
    assert listed == sorted(members)
