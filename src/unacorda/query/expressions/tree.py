"""What an expression means before its columns are known: a small tree, and its canonical text."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from unacorda.query.expressions.quoting import identifier, literal

__all__ = [
    "Literal",
    "Name",
    "Node",
    "Operation",
    "depth_of",
    "names",
    "size_of",
    "substituted",
    "text_of",
]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL, and an int is one that a double holds exactly."""

    value: bool | int | float | str | dt.date | dt.datetime | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column, as the caller spelled it."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function over other nodes.

    name: as written in SQL, in capitals. option: what must be constant: the type of a TRY_CAST,
    the part of an EXTRACT, the unit of DATE_DIFF, DATE_SUB, DATE_TRUNC and DATE_ADD, the digits
    of a ROUND. CASE holds condition and result in turn and the default last; SWITCH (CASE x WHEN
    ...) holds x before them. DATE_ADD holds a date and a literal number of units; AGE a later and
    an earlier date, and means whole years.
    """

    name: str
    operands: tuple[Node, ...]
    option: str | int | None = None


Node = Literal | Name | Operation

# How tightly an operator binds, as sqlglot's DuckDB grammar reads it. IS DISTINCT FROM takes all
# that follows, so it binds loosest and is bracketed wherever it is an operand.
_LOOSEST, _OR, _AND, _NOT, _PREDICATE, _JOIN, _SUM, _PRODUCT, _SIGN, _ATOM = range(10)

_FORMS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "||": ("{0} || {1}", _JOIN, (_JOIN, _SUM)),
    "+": ("{0} + {1}", _SUM, (_SUM, _PRODUCT)),
    "-": ("{0} - {1}", _SUM, (_SUM, _PRODUCT)),
    **{sign: (f"{{0}} {sign} {{1}}", _PRODUCT, (_PRODUCT, _SIGN)) for sign in "*/%"},
    **{
        name: (f"{{0}} {name} {{1}}", _PREDICATE, (_JOIN, _JOIN))
        for name in ("=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE")
    },
    **{
        name: (f"{{0}} {name} {{1}}", _LOOSEST, (_JOIN, _JOIN))
        for name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    },
    "NOT": ("NOT {0}", _NOT, (_NOT,)),
    "NEGATIVE": ("-{0}", _SIGN, (_ATOM,)),
    "IS NULL": ("{0} IS NULL", _PREDICATE, (_JOIN,)),
    "BETWEEN": ("{0} BETWEEN {1} AND {2}", _PREDICATE, (_JOIN, _JOIN, _JOIN)),
    "TRY_CAST": ("TRY_CAST({0} AS {option})", _ATOM, (_LOOSEST,)),
    "EXTRACT": ("EXTRACT({option} FROM {0})", _ATOM, (_LOOSEST,)),
    "DATE_DIFF": ("DATE_DIFF('{option}', {0}, {1})", _ATOM, (_LOOSEST, _LOOSEST)),
    "DATE_SUB": ("DATE_SUB('{option}', {0}, {1})", _ATOM, (_LOOSEST, _LOOSEST)),
    "DATE_TRUNC": ("DATE_TRUNC('{option}', {0})", _ATOM, (_LOOSEST,)),
    "AGE": ("DATE_PART('year', AGE({0}, {1}))", _ATOM, (_LOOSEST, _LOOSEST)),
    "ROUND": ("ROUND({0}, {option})", _ATOM, (_LOOSEST,)),
}
"""Operations as they are written, how tightly they bind, and how tightly operands must."""


def text_of(node: Node) -> str:
    """The node in the input language, with the fewest brackets that keep its meaning.

    >>> text_of(Operation("*", (Operation("+", (Name("a"), Literal(1))), Literal(0.5))))
    '("a" + 1) * 0.5'
    """
    return _written(node)[0]


def names(node: Node) -> Iterator[str]:
    """Every column name in the node, as it was spelled, repetitions included.

    >>> list(names(Operation("+", (Name("a"), Name("b")))))
    ['a', 'b']
    """
    match node:
        case Name(name):
            yield name
        case Operation(operands=operands):
            for operand in operands:
                yield from names(operand)
        case Literal():
            return


def size_of(node: Node) -> int:
    """How many nodes it has."""
    operands = node.operands if isinstance(node, Operation) else ()
    return 1 + sum(map(size_of, operands))


def depth_of(node: Node) -> int:
    """How many levels it has."""
    operands = node.operands if isinstance(node, Operation) else ()
    return 1 + max(map(depth_of, operands), default=0)


def substituted(node: Node, found: Mapping[str, Node]) -> Node:
    """The node with others in the places of these names.

    >>> text_of(substituted(Operation("+", (Name("a"), Literal(1))), {"a": Name("b")}))
    '"b" + 1'
    """
    match node:
        case Name(name):
            return found.get(name, node)
        case Operation(operands=operands):
            return replace(node, operands=tuple(substituted(part, found) for part in operands))
        case Literal():
            return node


def _written(node: Node) -> tuple[str, int]:
    match node:
        case Literal(value):
            negative = isinstance(value, int | float) and value < 0
            text = repr(value) if isinstance(value, float) else literal(value)
            return text, (_SIGN if negative else _ATOM)
        case Name(name):
            return identifier(name), _ATOM
        case Operation():
            return _operation(node)


def _operation(node: Operation) -> tuple[str, int]:
    name, operands = node.name, node.operands
    if name in _FORMS:
        form, level, levels = _FORMS[name]
        parts = [_at(operand, level) for operand, level in zip(operands, levels, strict=True)]
        return form.format(*parts, option=node.option), level
    match name:
        case "AND" | "OR":
            level = _AND if name == "AND" else _OR
            return f" {name} ".join(_at(operand, level + 1) for operand in operands), level
        case "IN":
            return f"{_at(operands[0], _JOIN)} IN ({_listed(operands[1:])})", _PREDICATE
        case "CASE":
            return _case("CASE", operands), _ATOM
        case "SWITCH":
            return _case(f"CASE {text_of(operands[0])}", operands[1:]), _ATOM
        case "DATE_ADD":
            steps = operands[1].value if isinstance(operands[1], Literal) else 0
            assert isinstance(steps, int)
            sign = "-" if steps < 0 else "+"
            return f"{_at(operands[0], _SUM)} {sign} INTERVAL {abs(steps)} {node.option}", _SUM
        case _:
            return f"{name}({_listed(operands)})", _ATOM


def _listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(text_of, nodes))


def _case(head: str, operands: tuple[Node, ...]) -> str:
    *pairs, default = operands
    arms = " ".join(
        f"WHEN {text_of(condition)} THEN {text_of(result)}"
        for condition, result in zip(pairs[::2], pairs[1::2], strict=True)
    )
    return f"{head} {arms} ELSE {text_of(default)} END"


def _at(node: Node, level: int) -> str:
    text, binding = _written(node)
    return text if binding >= level else f"({text})"
