"""A part of a translated question with its type, and the name of what cannot be translated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

__all__ = ["Typed", "Untranslatable", "Writer", "Writing", "bound", "given", "united"]

_SHORT = 120


class Untranslatable(Exception):
    """A construct that the other engine cannot compute to the same value; name: as it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class Typed:
    """SQL of the other engine that binds as tightly as an atom, and what it holds.

    type: DOUBLE, BIGINT, HUGEINT, DECIMAL, WIDE (a decimal of more than 18 digits, all of them
    whole), TEXT, BOOLEAN, DATE, TIMESTAMP, HASH (64 bits without a sign), NULL, or STRUCT with the
    types of its fields.
    """

    sql: str
    type: str
    fields: Mapping[str, str] = field(default_factory=dict)


class Writer(Protocol):
    """What translates the parts of a part."""

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        ...


Writing = Callable[[Writer, exp.Expression], Typed]
"""How one kind of node is translated."""


def given(node: exp.Expression) -> set[str]:
    """The parts of a node that say something."""
    return {name for name, part in node.args.items() if part not in (None, False, [])}


def bound(value: str, body: Callable[[str], str], *, name: str = "x") -> str:
    """SQL that uses a value several times: as it stands where short, by a name where long."""
    if len(value) <= _SHORT:
        return body(value)
    return f"transform(array({value}), {name} -> {body(name)})[0]"


def united(*values: Typed) -> str:
    """The type that holds all of these."""
    types = [value.type for value in values if value.type != "NULL"]
    for wide in ("DOUBLE", "HUGEINT"):
        if wide in types and set(types) <= {"DOUBLE", "HUGEINT", "BIGINT", "DECIMAL"}:
            return wide
    return types[0] if types else "NULL"
