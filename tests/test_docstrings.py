"""Docstrings of public names: every argument is described, an example runs, sections come last."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

REFERENCES = Path(__file__).parents[1] / "docs" / "_extensions" / "references.py"
HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
ITEM = re.compile(r"^[*\w][*\w, ]*$", re.MULTILINE)
SOURCES = re.compile(r"^(Source|Bound|Statement|Edges): .*", re.MULTILINE)
VERB = re.compile(
    r"(Add|Aggregate|Answer|Append|Ask|Choose|Close|Compute|Draw|Estimate|Find|Give|Group|Join|"
    r"Keep|List|Open|Project|Read|Return|Sample|Test|Turn|Verify|Write)\b"
)
"""The first word of the docstring of a method."""

LOOSE = re.compile(r"\bRaises [A-Z]|(?:^|[;.] )[a-z]\w*(?:, \w+)*: (?!`)", re.MULTILINE)
"""Arguments and errors that are described in running text."""

NOT_ARGUMENTS = {"Query.agg": {"unnamed"}, "Watched": {"_hook"}}
"""What stands in a signature for the sake of a message, or of the class itself."""


def stated(table: str) -> dict[str, str]:
    """A table of the reference: of modules, or of classes whose objects calls return."""
    for node in ast.parse(REFERENCES.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == table:
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError(f"the reference has no {table}")


def rooms() -> list[str]:
    """The modules of which the reference has pages."""
    return list(stated("ROOMS"))


def returned() -> Iterator[tuple[str, type, list[str]]]:
    """The classes whose objects calls return, with the members that are for callers."""
    for path, members in stated("RETURNED").items():
        module, _, name = path.rpartition(".")
        yield name, getattr(importlib.import_module(module), name), members.split()


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


def class_faults(name: str, found: type, members: list[str]) -> list[str]:
    """What is missing in the docstring of a class whose objects calls return."""
    text = inspect.getdoc(found) or ""
    parts, wrong = sections(text), []
    known = {one.name for one in fields(found)} if is_dataclass(found) else set()
    shown = {one for one in known if not one.startswith("_")}
    if ">>> " not in parts.get("Examples", ""):
        wrong.append(f"{name}: it has no section Examples")
    if shown and "Attributes" not in parts:
        wrong.append(f"{name}: it has no section Attributes")
    elif strange := {
        one for one in described(parts.get("Attributes", "")) - known if not hasattr(found, one)
    } - {""}:
        wrong.append(f"{name}: it has no attribute {', '.join(sorted(strange))}")
    return wrong + [fault for one in members for fault in member_faults(name, found, one)]


def member_faults(name: str, owner: type, member: str) -> list[str]:
    """What is missing in the docstring of a member: the parts of NumPy's form, and a first verb."""
    one = inspect.getattr_static(owner, member)
    function = getattr(one, "__func__", getattr(one, "fget", one))
    full, text = f"{name}.{member}", inspect.getdoc(function) or ""
    parts, wrong = sections(text), faults(f"{name}.{member}", function)
    if LOOSE.search(SOURCES.sub("", before(text))):
        wrong.append(f"{full}: arguments or errors are described outside of a section")
    if isinstance(one, property):
        return wrong
    if not VERB.match(text):
        wrong.append(f"{full}: its first word is no verb of the list")
    if arguments(function) - NOT_ARGUMENTS.get(function.__qualname__, set()) and (
        "Parameters" not in parts
    ):
        wrong.append(f"{full}: it does not describe its arguments")
    if inspect.signature(function).return_annotation != "None" and "Returns" not in parts:
        wrong.append(f"{full}: it does not describe what it returns")
    return wrong


def before(text: str) -> str:
    """The text before the first section."""
    first = HEADING.search(text)
    return text if first is None else text[: first.start()]


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
    whole = [(name, one) for name, one, _ in returned() if name in {"Query", "Ledger"}]
    owners = [*public(), *whole]
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


def test_a_returned_object_that_is_not_described_is_seen() -> None:
    @dataclass
    class Returned:
        """The answer.

        value: a number.
        """

        value: int

        @property
        def half(self) -> float:
            """Half of it. Raises InvalidParameter where it is odd."""
            return self.value / 2

        def plus(self, other: int) -> int:
            """The sum.

            other: a number.
            """
            return self.value + other

    outside = "arguments or errors are described outside of a section"
    assert class_faults("R", Returned, ["half", "plus"]) == [
        "R: it has no section Examples",
        "R: it has no section Attributes",
        f"R.half: {outside}",
        f"R.plus: {outside}",
        "R.plus: its first word is no verb of the list",
        "R.plus: it does not describe its arguments",
        "R.plus: it does not describe what it returns",
    ]


@pytest.mark.long
def test_what_calls_return_is_described() -> None:
    known = list(returned())
    assert len(known) > 20
    assert [fault for each in known for fault in class_faults(*each)] == []
