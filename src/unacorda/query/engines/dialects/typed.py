"""SQL with its types, the shapes that statements have, and what differs between engines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import duckdb
from sqlglot import exp

__all__ = [
    "SPACES",
    "UNEQUAL",
    "Refused",
    "Span",
    "Typed",
    "Untranslatable",
    "Writer",
    "Writing",
    "call",
    "case_table",
    "chained",
    "distinct_parts",
    "given",
    "hull",
    "is_made_date",
    "lambda_parts",
    "parts_of_text",
    "text_to_boolean",
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


_LAST_BIT = (
    "its last bit differs between libraries, which ROUND moves and does not remove",
    "x * x or SQRT(x) where they do",
)
_CURVES = ("LN", "EXP", "POWER", "CBRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "ATAN2")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_FORMATS = ("its formats differ", "EXTRACT and comparisons with dates")

UNEQUAL: dict[str, tuple[str, str]] = {
    **dict.fromkeys((*_CURVES, "LOG2 and LOG10"), _LAST_BIT),
    **dict.fromkeys(("STRFTIME", "TRY_STRPTIME"), _FORMATS),
    **dict.fromkeys(
        [f"CAST of text AS {kind}" for kind in _WHOLE],
        (
            "DuckDB reads fractions, exponents and other bases there",
            "ROUND(CAST(text AS DOUBLE))",
        ),
    ),
    **dict.fromkeys(
        ("CAST of text AS DATE", "CAST of text AS TIMESTAMP"),
        ("it has fewer years than DuckDB and reads other texts", "a column of that type"),
    ),
    "CAST of a number AS VARCHAR": (
        "other digits are written",
        "CAST(ROUND(x) AS INTEGER), which has one text",
    ),
    "REVERSE": (
        "DuckDB turns what a reader sees as one sign, others turn code points",
        "a condition on SUBSTRING(x, 1, 1) or on RIGHT(x, 1)",
    ),
}
"""By the name of the construct, as the translation to an engine calls it."""


_TRUE, _FALSE = ("t", "true", "1", "y", "yes"), ("f", "false", "0", "n", "no")


def lambda_parts(node: exp.Expression) -> tuple[exp.Expression, str, exp.Expression]:
    """Of list_transform([value], lambda name: body)[1] the value, the name and the body."""
    inner = node.this
    if not isinstance(inner, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = inner.this.expressions, inner.args["expression"]
    (name,) = function.expressions
    return operand, name.name, function.this


def parts_of_text(node: exp.Expression) -> tuple[exp.Expression, str, int]:
    """Of unnest(list_slice(string_split(text, separator), 1, most)) the text, the other two."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            return split.this, split.args["expression"].name, int(most.name)
        case _:
            raise Untranslatable("UNNEST")


def distinct_parts(node: exp.Expression) -> list[exp.Expression]:
    """What count(DISTINCT ...) counts: columns, or those of one tuple."""
    parts: list[exp.Expression] = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Tuple):
        return list(parts[0].expressions)
    return parts


def is_made_date(node: exp.Expr) -> bool:
    """Whether it is lpad(year, 4, '0') || '-' || lpad(month, ...) || '-' || lpad(day, ...)."""
    parts: list[exp.Expr] = [node.unnest()]
    while isinstance(parts[0], exp.DPipe):
        parts[:1] = [parts[0].this, parts[0].args["expression"]]
    widths = [p.args["expression"].name if isinstance(p, exp.Pad) else p.name for p in parts]
    pads = [isinstance(part, exp.Pad) for part in parts]
    return widths == ["4", "-", "2", "-", "2"] and pads == [True, False, True, False, True]


def chained(writer: Writer, node: exp.Expression) -> list[Typed]:
    """The operands of a || b || ..., in order."""
    parts: list[object] = [node]
    found: list[Typed] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.DPipe):
            parts += [part.args["expression"], part.this]
        else:
            found.append(writer.value(part))
    return found


def call(name: str, *parts: str, type: str = "TEXT") -> Writing:
    """A function of the same name and value on both engines, of the parts of its node in order."""

    def write(writer: Writer, node: exp.Expression) -> Typed:
        operands = [writer.value(node.args[part]).sql for part in parts if node.args.get(part)]
        return Typed(f"{name}({', '.join(operands)})", type)

    return write


def text_to_boolean(x: str, bound: Callable[[str, Callable[[str], str]], str]) -> str:
    """SQL of the words that DuckDB reads as true or false; any other text is NULL.

    bound: how this engine gives a name to what is used several times.
    """
    true, false = (", ".join(f"'{word}'" for word in words) for words in (_TRUE, _FALSE))
    return bound(
        f"lower({x})",
        lambda v: f"(CASE WHEN {v} IN ({true}) THEN TRUE WHEN {v} IN ({false}) THEN FALSE END)",
    )


SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""The space separators of Unicode, which TRIM cuts."""


@functools.cache
def case_table(function: str) -> tuple[str, str]:
    """The code points that DuckDB's LOWER or UPPER changes, and what to, in one order."""
    query = (
        "SELECT string_agg(c, '' ORDER BY i), string_agg(d, '' ORDER BY i) FROM (SELECT i, chr(i) "
        f"AS c, {function}(chr(i)) AS d FROM (SELECT unnest(range(1, 1114112))::INTEGER AS i) "
        "WHERE i NOT BETWEEN 55296 AND 57343) WHERE c <> d"
    )
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    before, after = found
    assert len(before) == len(after)
    return str(before), str(after)
