"""Conditions that no synthetic row meets, as they are written: sex = 'M' AND pregnant."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
from typing import TYPE_CHECKING, Any, Final

from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Literal, Name, Node, Operation, text_of
from unacorda.query.expressions.reader import meaning
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain

if TYPE_CHECKING:
    from unacorda.synthesis.plan import Condition

_FORM: Final = "conditions on single columns joined by AND, such as sex = 'M' AND pregnant"
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def read_condition(text: str, domain: Domain) -> Condition:
    """By column, the cells of the rows that a text names; InvalidParameter where they are none.

    >>> sex = CategoryColumn(name="sex", values=("F", "M"), other=None)
    >>> age = BinnedColumn(name="age", edges=(0, 18, 65, 120), whole=True)
    >>> read_condition("sex <> 'F' AND age < 18", Domain(columns=(sex, age)))
    {'sex': ['M'], 'age': ['[0, 18)']}
    """
    found: dict[str, list[Any]] = {}
    for part in _parts(meaning(text)):
        column, labels = _cells(part, text, domain)
        kept = found.get(column.name, list(column.labels))
        found[column.name] = [label for label in kept if label in labels]
    for name, labels in found.items():
        if not labels:
            expected = f"conditions on {name!r} that one row can meet"
            raise InvalidParameter("never", text, expected=expected)
    return found


def _parts(node: Node) -> list[Node]:
    match node:
        case Operation("AND", operands):
            return [part for one in operands for part in _parts(one)]
        case _:
            return [node]


def _cells(
    node: Node, text: str, domain: Domain
) -> tuple[CategoryColumn | BinnedColumn, list[Any]]:
    """The column of a condition, and the labels of the cells that meet it."""
    whole = _column(node, domain)
    if whole is not None:  # a column of conditions, or one of booleans
        return whole, _labels(whole, [True], text)
    match node:
        case Operation("NOT", (Operation("IS NULL", (one,)),)):
            column = _known(one, text, domain)
            return column, [label for label in column.labels if label is not None]
        case Operation("NOT", (one,)):
            column = _known(one, text, domain)
            return column, _labels(column, [False], text)
        case Operation("IS NULL", (one,)):
            column = _known(one, text, domain)
            return column, _labels(column, [None], text)
        case Operation("=" | "IN", (one, *others)):
            column = _known(one, text, domain)
            return column, _labels(column, [_value(other, text) for other in others], text)
        case Operation("<>" | "!=", (one, Literal(value))):
            column = _known(one, text, domain)
            rest = {*_labels(column, [value], text), None}
            return column, [label for label in column.labels if label not in rest]
        case Operation(("<" | "<=" | ">" | ">=") as sign, (Literal(value), one)):
            return _ordered(one, _TURNED[sign], value, text, domain)
        case Operation(("<" | "<=" | ">" | ">=") as sign, (one, Literal(value))):
            return _ordered(one, sign, value, text, domain)
        case _:
            raise InvalidParameter("never", text, expected=_FORM)


def _ordered(
    node: Node, sign: str, value: Any, text: str, domain: Domain
) -> tuple[BinnedColumn, list[Any]]:
    """The bins below an edge, or those above it."""
    column = _known(node, text, domain)
    if isinstance(column, BinnedColumn) and column.dates:
        value = _days(value)
    if not isinstance(column, BinnedColumn) or not isinstance(value, int | float):
        expected = f"a column of numbers or dates, and one of them; not {column.name}"
        raise InvalidParameter("never", text, expected=expected)
    if column.whole and sign in {"<=", ">"}:
        sign, value = {"<=": "<", ">": ">="}[sign], value + 1
    edges = column.edges
    if sign not in {"<", ">="} or value not in edges[1:-1]:
        starts = [str(label)[1:].partition(",")[0] for label in column.labels[1:11]]
        inner = ", ".join(starts[: len(edges) - 2]) or "there is none"
        expected = f"whole bins: {column.name} < EDGE or {column.name} >= EDGE, one of {inner}"
        raise InvalidParameter("never", text, expected=expected)
    pairs = zip(column.labels, itertools.pairwise(edges), strict=False)
    return column, [label for label, (low, _) in pairs if (low >= value) is (sign == ">=")]


def _days(value: Any) -> Any:
    """A date, or a text of one, as days; anything else as it is."""
    try:
        read = dt.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value
    return read.toordinal() if isinstance(read, dt.date) else read


def _labels(column: CategoryColumn | BinnedColumn, values: list[Any], text: str) -> list[Any]:
    for value in values:
        if not any(label == value and type(label) is type(value) for label in column.labels):
            known = ", ".join("NULL" if one is None else str(one) for one in column.labels[:10])
            expected = f"of {column.name} one of {known}"
            if isinstance(column, BinnedColumn) and value is not None:
                expected = f"whole bins of {column.name}, with < or >= and one of their edges"
            raise InvalidParameter("never", text, expected=expected)
    return values


def _value(node: Node, text: str) -> Any:
    match node:
        case Literal(value) if value is not None:  # nothing equals NULL
            return value
        case _:
            raise InvalidParameter("never", text, expected=_FORM)


def _known(node: Node, text: str, domain: Domain) -> CategoryColumn | BinnedColumn:
    column = _column(node, domain)
    if column is None:
        names = ", ".join(domain.names[:20])
        raise InvalidParameter("never", text, expected=f"{_FORM}; of the columns {names}")
    return column


def _column(node: Node, domain: Domain) -> CategoryColumn | BinnedColumn | None:
    """The synthesized column that a condition is or names, whatever its capitals."""
    for column in domain.columns:
        match node:
            case Name(name) if name.casefold() == column.name.casefold():
                return column
            case Operation() if _same(column.name, node):
                return column
    return None


def _same(name: str, node: Node) -> bool:
    try:
        return text_of(meaning(name)) == text_of(node)
    except InvalidParameter:  # a name that is no expression
        return False
