"""Docstrings of public names list their parameters, all of them and no others, in NumPy's form."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOMS = ["unacorda.accounting", "unacorda.inference", "unacorda.events"]
"""Packages whose `__all__` is asked."""

SECTION = re.compile(r"^([A-Z][a-z]+)\n(-+)$", re.MULTILINE)


def sections_of(doc: str) -> dict[str, str]:
    """The text of each underlined section, by its title."""
    found = list(SECTION.finditer(doc))
    ends = [*(match.start() for match in found[1:]), len(doc)]
    return {m.group(1): doc[m.end() : end] for m, end in zip(found, ends, strict=False)}


def listed_in(doc: str) -> list[str]:
    """The names that the section `Parameters` lists; their meanings are indented.

    >>> listed_in("Adds.\\n\\nParameters\\n----------\\nx, y\\n    Numbers.\\n\\nIt is exact.")
    ['x', 'y']
    """
    paragraphs = sections_of(doc).get("Parameters", "").strip("\n").split("\n\n")
    heads = [
        line
        for paragraph in paragraphs
        if re.match(r"\S[^\n]*\n {4}\S", paragraph)  # prose after the section has nothing indented
        for line in paragraph.split("\n")
        if not line.startswith(" ")
    ]
    return [name.strip().lstrip("*") for line in heads for name in line.split(",")]


def documented(room: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each public function and class, and the public methods that its package writes."""
    module = importlib.import_module(room)
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value):
            continue
        yield name, value
        if not isinstance(value, type):
            continue
        for of, member in inspect.getmembers(value):
            method = inspect.unwrap(member) if callable(member) else member
            written_here = inspect.isfunction(method) and method.__module__.startswith(room)
            if written_here and not of.startswith("_"):
                yield f"{name}.{of}", method


CASES = {f"{room}.{name}": value for room in ROOMS for name, value in documented(room)}


@pytest.mark.parametrize("name", CASES)
def test_its_parameters_are_listed(name: str) -> None:
    value = CASES[name]
    parameters = [
        each.lstrip("*") for each in inspect.signature(value).parameters if each != "self"
    ]
    doc = inspect.getdoc(value)
    assert doc
    for match in SECTION.finditer(doc):
        assert len(match.group(1)) == len(match.group(2)), "a title is underlined by its length"
    assert sorted(listed_in(doc)) == sorted(parameters)


def test_nothing_else_passes_for_a_list() -> None:
    doc = (
        "Adds.\n\nx: a number.\n\nParameters\n----------\ny\n    A number.\n\nReturns\n-------\nz\n"
    )
    assert listed_in(doc) == ["y"]
    assert "Parameters" not in sections_of("Parameters are x and y.")
    assert CASES
