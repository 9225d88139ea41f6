r"""Functions of a row for two evaluations: by NumPy on arrays, by an engine as SQL.

A function of a row is an ordinary Python function of arrays, with operators and NumPy functions.
Called with a `Symbol` in place of each array, it gives the SQL of its value, in the row-wise
language of sessions. So a loss is written only once, also a caller's own.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from unacorda.errors import InvalidParameter

PREDICTION: Final = "p"
"""The column of the linear predictor."""

EXPONENTIAL: Final = "exp_p"
"""The column of e^p: see `exponential_columns`."""

_FARTHEST: Final = 200
"""Where predictions are clipped before e^p is taken; e^-200 is nothing against 1."""

_QUARTERED: Final = 6
_TERMS: Final = 9


class Symbol(NDArrayOperatorsMixin):
    """SQL of a number, or of a condition, of a row. Arithmetic with it gives symbols.

    >>> str(np.clip(Symbol("y") - Symbol("p"), -1.0, 1.0))
    'greatest(least((y - p), (1.0)), (-1.0))'
    """

    __slots__ = ("sql",)

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def __str__(self) -> str:
        return self.sql

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """SQL of the NumPy and SciPy functions of one or two numbers that SQL has too."""
        if method != "__call__" or named or ufunc.__name__ not in _WRITTEN:
            return NotImplemented
        squared = ufunc is np.power and inputs[1] == 2
        return _write("square", inputs[0]) if squared else _write(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, named: Any) -> Any:
        """SQL of `where` and `clip`."""
        del types
        if function is np.where and len(inputs) == 3 and not named:
            condition, then, otherwise = map(_text, inputs)
            return Symbol(f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
        if function is np.clip and len(inputs) == 3 and not named:
            value, least, most = map(_text, inputs)
            return Symbol(f"greatest(least({value}, {most}), {least})")
        return NotImplemented

    def __bool__(self) -> bool:
        raise TypeError("a symbol stands for many rows: use numpy.where in place of if")


def literal(value: float) -> str:
    """A number as SQL, in parentheses, which is read back to the same bits.

    >>> literal(-0.5), literal(1e-7)
    ('(-0.5)', '(1e-07)')
    """
    return f"({float(value)!r})"


def exp(value: Any) -> Any:
    """E to a power clipped to [-300, 300]; of the prediction an engine has it as a column.

    >>> str(exp(Symbol("p"))), float(exp(np.array(1000.0))) < 1e131
    ('exp_p', True)
    """
    if isinstance(value, Symbol):
        return _write("exp", value)
    return np.exp(np.clip(value, -_FARTHEST, _FARTHEST))


def exponential_columns() -> list[dict[str, str]]:
    """Columns, one mapping after the other, that end in e^p, to 12 digits or more.

    It uses only products and sums, which all engines round alike; their EXP functions differ. A
    polynomial of p / 4^6 with an error below 1e-16 is squared twelve times.
    """
    terms = [1.0]
    for power in range(1, _TERMS):
        terms.append(terms[-1] / power)
    text = literal(terms[-1])
    for term in reversed(terms[:-1]):
        text = f"({literal(term)} + exp_y * {text})"
    clipped = _clip(PREDICTION, -_FARTHEST, _FARTHEST)
    columns = [{"exp_y": f"{clipped} / {literal(4**_QUARTERED)}"}, {"exp_0": text}]
    for step in range(1, _QUARTERED + 1):
        before = f"exp_{step - 1}"
        name = EXPONENTIAL if step == _QUARTERED else f"exp_{step}"
        columns.append({name: f"({before} * {before}) * ({before} * {before})"})
    return columns


def sql_of(function: Callable[..., Any], *names: str, argument: str) -> str:
    """The SQL of a function of columns of these names.

    Raises InvalidParameter, naming the argument, for a function that cannot be written as SQL.
    """
    try:
        found: Any = function(*map(Symbol, names))
    except (TypeError, ValueError, AttributeError):
        found = None
    if isinstance(found, int | float | np.number):
        return literal(float(found))
    if not isinstance(found, Symbol):
        raise InvalidParameter(
            argument,
            function,
            expected="a function of operators and of NumPy's abs, sqrt, square, exp, tanh, sign, "
            "minimum, maximum, clip and where, to be fit from a table",
        )
    return found.sql


def column(sql: str) -> Any:
    """A symbol of a column, typed as an argument of functions of rows."""
    return Symbol(sql)


def _write(name: str, *inputs: Any) -> Symbol:
    return Symbol(_WRITTEN[name](*map(_text, inputs)))


def _text(value: Any) -> str:
    return value.sql if isinstance(value, Symbol) else literal(value)


def _clip(value: str, least: float, most: float) -> str:
    return f"greatest(least({value}, {literal(most)}), {literal(least)})"


def _exp(value: str) -> str:
    if value == PREDICTION:
        return EXPONENTIAL
    return f"exp({_clip(value, -_FARTHEST, _FARTHEST)})"


def _expit(value: str) -> str:
    return f"({_exp(value)} / (1 + {_exp(value)}))"


def _tanh(value: str) -> str:
    return f"(1 - 2 / (1 + {_exp(f'(2 * {value})')}))"


_WRITTEN: Final[dict[str, Callable[..., str]]] = {
    "add": lambda a, b: f"({a} + {b})",
    "subtract": lambda a, b: f"({a} - {b})",
    "multiply": lambda a, b: f"({a} * {b})",
    "divide": lambda a, b: f"({a} / {b})",
    "power": lambda a, b: f"power({a}, {b})",
    "negative": lambda a: f"(-{a})",
    "absolute": lambda a: f"abs({a})",
    "fabs": lambda a: f"abs({a})",
    "square": lambda a: f"({a} * {a})",
    "sqrt": lambda a: f"sqrt({a})",
    "sign": lambda a: f"sign({a})",
    "exp": _exp,
    "expit": _expit,
    "tanh": _tanh,
    "minimum": lambda a, b: f"least({a}, {b})",
    "maximum": lambda a, b: f"greatest({a}, {b})",
    "less": lambda a, b: f"({a} < {b})",
    "less_equal": lambda a, b: f"({a} <= {b})",
    "greater": lambda a, b: f"({a} > {b})",
    "greater_equal": lambda a, b: f"({a} >= {b})",
    "logical_and": lambda a, b: f"({a} AND {b})",
    "logical_or": lambda a, b: f"({a} OR {b})",
}
"""SQL of each universal function, by its name."""
