"""What tells people apart: a column as it stands, or a row-wise expression of columns."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping

from unacorda.errors import InvalidParameter
from unacorda.query.columns import Bounds
from unacorda.query.expressions.types import Column, Kind
from unacorda.query.scope import INTEGERS, TEXTS, Identity, Leaf, Scope, by_code_point, plain_type
from unacorda.query.sqltext import identifier

__all__ = ["identity"]


def identity(name: str, schema: Mapping[str, str], scope: Scope) -> Identity:
    """What the unit calls a person by: the column of that very name, or else an expression.

    schema: the engine's type of each column. Raises InvalidParameter, and UnsafeExpression for what
    is not row-wise.
    """
    found = name if name in schema else _expressed(name, scope)
    return _column(found, schema[found]) if isinstance(found, str) else found


def _column(name: str, sql_type: str) -> Identity:
    """The column in which people are told apart: whole numbers, text, UUIDs, dates.

    A float is an id only where it is whole and below 2^53, else NULL, and then its row is dropped.
    Raises InvalidParameter for columns of other types.
    """
    base, sql = plain_type(sql_type), identifier(name)
    if base in {"DOUBLE", "FLOAT", "REAL"}:
        base, sql = "BIGINT", _whole(f"{sql}::DOUBLE")
    elif base in {"ENUM", '"NULL"'}:
        base, sql = "VARCHAR", f"TRY_CAST({sql} AS VARCHAR)"
    elif base == "VARCHAR":
        sql = by_code_point(sql)
    elif base not in INTEGERS | TEXTS | {"DATE", "DECIMAL"}:
        raise InvalidParameter(
            "id", name, expected=f"a column of whole numbers, text, UUIDs or dates, not {base}"
        )
    leaf = Leaf(sql=sql, column=Column(f"{name} as id", Kind.TEXT), label=name)
    return Identity(sql=identifier(leaf.name), leaves=(leaf,), type=base)


def _expressed(text: str, scope: Scope) -> Identity | str:
    """The row-wise expression in which people are told apart, or the column that is all of it.

    Numbers are ids as floats are: only where they are whole and below 2^53. Raises UnsafeExpression
    and InvalidParameter as `Scope.parse` does, and for one of another type, of no column, or of a
    column with public bounds, beyond which all people would be one.
    """
    expression = scope.parse(text, argument="unit")
    leaves = scope.used(expression.columns)
    for leaf in leaves:
        if expression.sql == identifier(leaf.name):
            return leaf.label
        if isinstance(scope.facts.get(leaf.label), Bounds):
            raise InvalidParameter(
                "unit",
                text,
                expected=f"an expression of columns without Bounds: beyond those of {leaf.label!r} "
                "all people would be one",
            )
    sql, made = f"({expression.sql})", "DATE"
    if expression.kind.numeric:
        sql, made = _whole(sql), "BIGINT"
    elif expression.kind is Kind.TEXT:
        sql, made = by_code_point(sql), "VARCHAR"
    if not leaves or expression.kind in (Kind.BOOLEAN, Kind.TIMESTAMP):
        raise InvalidParameter(
            "unit",
            text,
            expected="an expression of columns that gives whole numbers, text or dates",
        )
    return Identity(sql=sql, leaves=leaves, type=made)


def _whole(number: str) -> str:
    """A double where it is a whole number that no other one is rounded to, else NULL."""
    whole = f"{number} = floor({number}) AND abs({number}) < 9007199254740992.0e0"
    return f"TRY_CAST(CASE WHEN {whole} THEN {number} END AS BIGINT)"
