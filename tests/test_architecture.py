"""How the package hangs together: imports without circles, class names without doubles.

One question to a session runs code of few modules of `unacorda.query`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import unacorda

SOURCE = Path(__file__).parents[1] / "src"
ROOT = "unacorda"


IMPORT = re.compile(r"^ *((?:from [\w.]+ import (?:\([^)]*\)|.*))|import .*)$", re.MULTILINE)
"""Statements that import, alone in their lines: the text is not parsed, which would take long."""


@cache
def texts() -> Mapping[str, str]:
    """Every module by its name."""
    found = {}
    for path in sorted((SOURCE / ROOT).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text()
    return found


def imported(text: str, known: Collection[str]) -> Iterator[str]:
    """Modules that a module imports anywhere: in functions and for types alone too.

    A name that is taken out of a package imports the package too, whatever the name is. What
    Python runs on the way to a module, the packages around it, is not counted, but for the root.
    """
    for statement in IMPORT.findall(text):
        if ROOT not in statement:
            continue
        match ast.parse(statement).body[0]:
            case ast.Import(names=names):
                for one in names:
                    if one.name in known:
                        yield one.name
            case ast.ImportFrom(module=str(module), names=names, level=0) if module in known:
                yield ROOT
                yield module
                inner = (f"{module}.{one.name}" for one in names)
                yield from (name for name in inner if name in known)


def circles(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one node (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            component = frozenset(stack[place:])
            del stack[place:]
            if len(component) > 1:
                found.add(component)

    for node in edges:
        if node not in index:
            visit(node)
    return found


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}


def test_an_import_is_seen_wherever_it_stands() -> None:
    text = """
from unacorda.a import (
    one,
    b,
)
if TYPE_CHECKING:
    from unacorda.c import two  # for types

def later():
    import unacorda.d
    from math import pi
"""
    known = {"unacorda", "unacorda.a", "unacorda.a.b", "unacorda.c", "unacorda.d"}
    assert set(imported(text, known)) == known


def test_no_modules_import_each_other() -> None:
    known = texts()
    edges = {name: set(imported(text, known)) - {name} for name, text in known.items()}
    assert circles(edges) == set()


def is_mechanism_of_event(name: str, paths: set[Path]) -> bool:
    """Whether these are the files of an event and of the mechanism that reports it."""
    if len(paths) != 2:
        return False
    event, mechanism = sorted(paths, key=lambda path: "events" not in path.parts)
    return (
        event.is_relative_to(SOURCE / ROOT / "privacy" / "events")
        and mechanism.is_relative_to(SOURCE / ROOT / "mechanisms")
        and f"events.{name}(" in mechanism.read_text()
    )


def test_no_two_classes_have_one_name() -> None:
    """Only a mechanism and the event that it reports have one, as `Gaussian` does."""
    places: dict[str, set[Path]] = defaultdict(set)
    for path in (SOURCE / ROOT).rglob("*.py"):
        for name in re.findall(r"^ *class (\w+)[(:\[]", path.read_text(), re.MULTILINE):
            places[name].add(path)
    doubles = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {n for n, paths in doubles.items() if not is_mechanism_of_event(n, paths)} == set()


def test_one_question_runs_few_modules() -> None:
    rows = pa.table({"id": [1, 1, 2], "county": ["a", "b", "a"], "age": [30.0, 31.0, 40.0]})
    facts: dict[str, Any] = {
        "age": unacorda.Bounds(0, 100),
        "county": unacorda.Categories(["a", "b"]),
    }
    unit, budget = unacorda.Person("id", max_rows=2), unacorda.PureDP(1)
    ran: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and f"{ROOT}/query/" in frame.f_code.co_filename:
            ran.add(frame.f_code.co_filename)

    def modules(question: Any) -> int:
        session.evaluate(question, budget=budget)  # the first one imports
        ran.clear()
        sys.setprofile(note)
        try:
            session.evaluate(question, budget=budget)
        finally:
            sys.setprofile(None)
        return len(ran)

    with unacorda.Session(
        {"visits": rows}, unit=unit, budget=unacorda.PureDP(9), columns=facts
    ) as session:
        wanted = {"n": unacorda.count(), "m": unacorda.mean("age")}
        assert modules(session.table("visits").group_by("county").agg(**wanted)) <= 18
        text = "SELECT county, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY county ORDER BY n"
        assert modules(text) <= 24
