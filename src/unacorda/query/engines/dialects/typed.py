"""A part of a translated question with its type, and the name of what cannot be translated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

__all__ = [
    "Refused",
    "Span",
    "Typed",
    "Untranslatable",
    "Writer",
    "Writing",
    "given",
    "hull",
    "united",
]


class Untranslatable(Exception):
    """A construct that the other engine cannot compute to the same value; name: as it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where the finite values of a part lie: what is known without reading any.

    low: every one but 0 is 2^low or larger in size; least, most: the ends, which may be infinite.
    """

    low: int
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Typed:
    """SQL of the other engine that binds as tightly as an atom, and what it holds.

    type: DOUBLE, BIGINT, HUGEINT, DECIMAL, WIDE (a decimal of more than 18 digits, all of them
    whole), TEXT, BOOLEAN, DATE, TIMESTAMP, HASH (64 bits without a sign), NULL, or STRUCT with its
    fields. span: of a number, where anything is known.
    """

    sql: str
    type: str
    fields: Mapping[str, Typed] = field(default_factory=dict)
    span: Span | None = None


class Writer(Protocol):
    """What translates the parts of a part."""

    def value(self, node: object) -> Typed:
        """A part with its type; Untranslatable, naming what has no equal."""
        ...


Writing = Callable[[Writer, exp.Expression], Typed]
"""How one kind of node is translated."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Translates no node: a construct that is known, and has no equal, by its name."""

    name: str

    def __call__(self, _writer: Writer, _node: exp.Expression) -> Typed:
        """Raise Untranslatable."""
        raise Untranslatable(self.name)


def given(node: exp.Expression) -> set[str]:
    """The parts of a node that say something."""
    return {name for name, part in node.args.items() if part not in (None, False, [])}


def united(*values: Typed) -> str:
    """The type that holds all of these."""
    types = [value.type for value in values if value.type != "NULL"]
    for wide in ("DOUBLE", "HUGEINT"):
        if wide in types and set(types) <= {"DOUBLE", "HUGEINT", "BIGINT", "DECIMAL"}:
            return wide
    return types[0] if types else "NULL"


def hull(*values: Typed) -> Span | None:
    """The span that holds all of these; None where one is not known."""
    known = [value.span for value in values if value.type != "NULL"]
    spans = [span for span in known if span is not None]
    if not spans or len(spans) < len(known):
        return None
    return Span(
        low=min(span.low for span in spans),
        least=min(span.least for span in spans),
        most=max(span.most for span in spans),
    )
