"""Docstrings of public names: every argument is described, an example runs, sections come last."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REFERENCES = Path(__file__).parents[1] / "docs" / "_extensions" / "references.py"
HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
ITEM = re.compile(r"^[*\w][*\w, ]*$", re.MULTILINE)
NOT_ARGUMENTS = {"Query.agg": {"unnamed"}, "Watched": {"_hook"}}
"""What stands in a signature for the sake of a message, or of the class itself."""


def rooms() -> list[str]:
    """The modules of which the reference has pages."""
    for node in ast.parse(REFERENCES.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ROOMS":
            return list(ast.literal_eval(node.value))
    raise AssertionError("the reference names no modules")


def public() -> Iterator[tuple[str, Any]]:
    """The public names and the methods of public classes, by where they are."""
    seen = set()
    for room in rooms():
        module = importlib.import_module(room)
        names = getattr(module, "__all__", None) or [
            name for name, one in vars(module).items() if getattr(one, "__module__", "") == room
        ]
        for name in names:
            found = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(found) or id(found) in seen:
                continue
            seen.add(id(found))
            yield f"{room}.{name}", found


def is_described(owner: type, method: Any) -> bool:
    """Whether a method has no arguments, or says them, or overrides one that does."""
    names = arguments(method) - NOT_ARGUMENTS.get(method.__qualname__, set())
    bases = [base.__dict__.get(method.__name__) for base in owner.__mro__]
    texts = [inspect.getdoc(getattr(one, "__func__", one)) or "" for one in bases if one]
    return not names or any("Parameters" in sections(text) for text in texts)


def methods(name: str, found: type) -> Iterator[tuple[str, Any]]:
    for method, value in vars(found).items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and not method.startswith("_"):
            yield f"{name}.{method}", function


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring, by heading."""
    found = list(HEADING.finditer(text))
    ends = [*(one.start() for one in found[1:]), len(text)]
    return {one[1]: text[one.end() : end] for one, end in zip(found, ends, strict=False)}


def described(section: str) -> set[str]:
    names = ",".join(ITEM.findall(section)).split(",")
    return {name.strip().lstrip("*") for name in names}


def arguments(found: Any) -> set[str]:
    try:
        names = set(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return set()
    return names - {"self", "cls", "args", "kwargs"}


def faults(name: str, found: Any) -> list[str]:
    """What is wrong with the docstring of a function or a class."""
    text = inspect.getdoc(found) or ""
    parts, expected = sections(text), arguments(found)
    expected -= NOT_ARGUMENTS.get(getattr(found, "__qualname__", ""), set())
    wrong = []
    if "Parameters" in parts and described(parts["Parameters"]) != expected:
        differ = ", ".join(sorted(described(parts["Parameters"]) ^ expected))
        wrong.append(f"{name}: its arguments are others: {differ}")
    for heading, part in parts.items():
        if heading != "Examples" and re.search(
            r"^(?:(Source|Bound|Statement)[: ]|>>>)", part, re.MULTILINE
        ):
            wrong.append(f"{name}: text follows the section {heading}")
    return wrong


def test_a_method_without_words_for_its_arguments_is_seen() -> None:
    class First:
        def stated(self, a: int) -> int:
            """Return it.

            Parameters
            ----------
            a
                A number.
            """
            return a

        def bare(self, a: int) -> int:
            """Return it."""
            return a

    class Second(First):
        def stated(self, a: int) -> int:
            """Return one more."""
            return a + 1

        def bare(self, a: int) -> int:
            return a + 1

    assert is_described(Second, Second.stated)
    assert not is_described(First, First.bare)
    assert not is_described(Second, Second.bare)


def test_a_fault_is_seen() -> None:
    def summed(a: int, *, b: int) -> None:
        """Sum up.

        Parameters
        ----------
        a, c
            Numbers.

        Source: none.
        """

    assert faults("f", summed) == [
        "f: its arguments are others: b, c",
        "f: text follows the section Parameters",
    ]


@pytest.mark.long
def test_every_public_name_says_its_arguments_and_has_an_example() -> None:
    known = [(name, one) for name, one in public() if not name.startswith("unacorda.errors.")]
    assert len(known) > 300
    wrong = []
    for name, found in known:
        text = inspect.getdoc(found) or ""
        parts = sections(text)
        if arguments(found) and not {"Parameters", "Attributes"} & set(parts):
            wrong.append(f"{name}: it does not describe its arguments")
        if ">>> " not in text:
            wrong.append(f"{name}: it has no example")
        wrong += faults(name, found)
    assert wrong == []


@pytest.mark.long
def test_methods_describe_the_arguments_that_they_have() -> None:
    from unacorda.ledger.ledger import Ledger
    from unacorda.query.plan.query import Query

    owners = [*public(), ("Query", Query), ("Ledger", Ledger)]
    classes = [(name, one) for name, one in owners if inspect.isclass(one)]
    found = [(one, *each) for name, one in classes for each in methods(name, one)]
    assert len(found) > 300
    wrong = [fault for _, name, method in found for fault in faults(name, method)]
    wrong += [
        f"{name}: it does not describe its arguments"
        for one, name, method in found
        if not is_described(one, method)
    ]
    assert wrong == []
