"""Expressions as Python values: `col("age") >= 18` is the text `"age" >= 18`."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
import numbers
from collections.abc import Callable, Iterable
from typing import NoReturn, overload

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import Literal, Name, Node, Operation, text_of

_VALUE = "a column, a finite number, text, a truth value, a date or an instant"


def _operator(name: str) -> Callable[[ColumnExpression, object], ColumnExpression]:
    return lambda column, other: column._with(name, other)  # noqa: SLF001  # the same file


def _reflected(name: str) -> Callable[[ColumnExpression, object], ColumnExpression]:
    return lambda column, other: ColumnExpression(Operation(name, (_node_of(other), column._node)))  # noqa: SLF001


class ColumnExpression:
    """A row-wise expression over columns, made by `col` and operators.

    Arithmetic (+ - * / %), comparisons (== != < <= > >=), conditions (& | ~), `is_in`, `is_null`,
    `is_not_null` and `between`. `str` gives its text in SQL, which stands for it wherever it is
    used; functions are written as text alone.
    """

    __slots__ = ("_node",)
    __hash__ = None  # type: ignore[assignment]  # == makes a condition

    def __init__(self, node: Node) -> None:
        self._node = node

    def __str__(self) -> str:
        return text_of(self._node)

    def __repr__(self) -> str:
        return f"<expression {self}>"

    def is_in(self, values: Iterable[object]) -> ColumnExpression:
        """Compare with a list of values: true where one of them is equal."""
        if isinstance(values, str | ColumnExpression) or not isinstance(values, Iterable):
            raise InvalidParameter("is_in", values, expected="a list of values")
        listed = list(values)
        given = bool(listed) and None not in listed
        checks.demand(given, "is_in", listed, expected="at least one value, none of them None")
        return self._with("IN", *listed)

    def is_null(self) -> ColumnExpression:
        """Test for a missing value."""
        return self._with("IS NULL")

    def is_not_null(self) -> ColumnExpression:
        """Test for a value that is present."""
        return ~self.is_null()

    def between(self, lower: object, upper: object) -> ColumnExpression:
        """Test for values from lower to upper, both included."""
        return self._with("BETWEEN", lower, upper)

    def _with(self, operator: str, *others: object) -> ColumnExpression:
        return ColumnExpression(Operation(operator, (self._node, *map(_node_of, others))))

    def __eq__(self, other: object) -> ColumnExpression:  # type: ignore[override]
        return self._with("=", _not_none(other))

    def __ne__(self, other: object) -> ColumnExpression:  # type: ignore[override]
        return self._with("<>", _not_none(other))

    __lt__ = _operator("<")
    __le__ = _operator("<=")
    __gt__ = _operator(">")
    __ge__ = _operator(">=")
    __add__, __radd__ = _operator("+"), _reflected("+")
    __sub__, __rsub__ = _operator("-"), _reflected("-")
    __mul__, __rmul__ = _operator("*"), _reflected("*")
    __truediv__, __rtruediv__ = _operator("/"), _reflected("/")
    __mod__, __rmod__ = _operator("%"), _reflected("%")
    __and__, __rand__ = _operator("AND"), _reflected("AND")
    __or__, __ror__ = _operator("OR"), _reflected("OR")

    def __neg__(self) -> ColumnExpression:
        return self._with("NEGATIVE")

    def __invert__(self) -> ColumnExpression:
        return self._with("NOT")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "An expression of columns is neither true nor false. Write & for `and`, | for `or`, ~ "
            "for `not`, with brackets around comparisons; .is_in([...]) for `in`; .between(a, b) "
            "for a <= x <= b."
        )


Written = str | ColumnExpression
"""A column or an expression: SQL text, or a Python value that stands for it."""


def col(name: str) -> ColumnExpression:
    r"""Name a column in an expression: `col("age") >= 18` means the text `"age" >= 18`.

    Parameters
    ----------
    name
        The name of the column, as the table has it.

    Returns
    -------
    ColumnExpression
        An expression with Python's operators for comparison and arithmetic, and `&`, `|`, `~`.

    Raises
    ------
    InvalidParameter
        For a name that is no text.

    Examples
    --------
    >>> str((col("age") >= 18) & ~col("county").is_in(["A", "B"]))
    '"age" >= 18 AND NOT "county" IN (\'A\', \'B\')'
    """
    checks.demand(checks.is_text(name), "col", name, expected="the name of a column")
    return ColumnExpression(Name(name))


@overload
def written(value: Written) -> str: ...
@overload
def written(value: Written | None) -> str | None: ...
def written(value: Written | None) -> str | None:
    """Give the text of an expression; of one that is a column alone the column's name."""
    if not isinstance(value, ColumnExpression):
        return value
    node = value._node  # noqa: SLF001  # the same file
    return node.name if isinstance(node, Name) else str(value)


def expression_text(value: Written) -> str:
    """Give the text of an expression, where a column alone is one too."""
    return str(value) if isinstance(value, ColumnExpression) else value


def _not_none(value: object) -> object:
    expected = "a value: write .is_null() or .is_not_null(), as NULL equals nothing"
    checks.demand(value is not None, "expression", value, expected=expected)
    return value


def _node_of(value: object) -> Node:
    if isinstance(value, ColumnExpression):
        return value._node  # noqa: SLF001
    if isinstance(value, bool | str):
        return Literal(value)
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return Literal(utc)
    if isinstance(value, dt.date):
        return Literal(value)
    if isinstance(value, numbers.Integral):
        return Literal(int(value))
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return Literal(float(value))
    raise InvalidParameter("expression", value, expected=_VALUE)
