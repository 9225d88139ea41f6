"""The engine computes what a second, plain evaluator of the tree computes, row by row."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.support.seams import (
    Column,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    Reader,
    condition,
    parse,
)
from tests.tiers import mostly_slow

_COLUMNS = {
    "x": Column("x", Kind.NUMBER, -10, 10),
    "k": Column("k", Kind.INTEGER, 0, 5),
    "p": Column("p", Kind.BOOLEAN),
    "w": Column("w", Kind.TEXT),
}
_ROWS: list[dict[str, float | bool | str | None]] = [
    {"x": x, "k": k, "p": p, "w": w}
    for i, x in enumerate([None, -10.0, -2.5, -0.0, 0.0, 0.1, 3.0, 10.0])
    for j, k in enumerate([None, 0.0, 1.0, 2.0, 5.0])
    for p, w in [((None, True, False)[(i + j) % 3], (None, "", "a", "Ab")[(i * 3 + j) % 4])]
]
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_Cell = float | bool | str | None


def reference(node: Node, row: dict[str, _Cell]) -> _Cell:
    match node:
        case Literal(value):
            return float(value) if type(value) is int else value  # type: ignore[return-value]
        case Name(name):
            return row[name]
        case Operation(name, operands):
            return operation(name, [reference(operand, row) for operand in operands])


def operation(name: str, cells: list[_Cell]) -> _Cell:
    match name:
        case "AND":
            return False if False in cells else (None if None in cells else True)
        case "OR":
            return True if True in cells else (None if None in cells else False)
        case "COALESCE":
            return next((cell for cell in cells if cell is not None), None)
        case "LEAST" | "GREATEST":
            present = [cell for cell in cells if cell is not None]
            pick = min if name == "LEAST" else max
            return pick(present) if present else None
        case "CASE":
            *pairs, default = cells
            arms = zip(pairs[::2], pairs[1::2], strict=True)
            return next((result for test, result in arms if test), default)
        case "IS NULL":
            return cells[0] is None
        case "IS DISTINCT FROM":
            return cells[0] != cells[1]
        case "IS NOT DISTINCT FROM":
            return cells[0] == cells[1]
        case "NULLIF":
            return None if cells[0] is not None and cells[0] == cells[1] else cells[0]
        case "IN":
            first, *choices = cells
            return operation("OR", [operation("=", [first, choice]) for choice in choices])
        case "BETWEEN":
            cell, low, high = cells
            both = [operation(">=", [cell, low]), operation("<=", [cell, high])]
            return operation("AND", both)
        case _:
            return None if None in cells else strict(name, cells)


def strict(name: str, cells: list[_Cell]) -> _Cell:
    """An operation that gives NULL for NULL, on other cells."""
    if name in _COMPARE:
        return bool(_COMPARE[name](cells[0], cells[1]))
    if name == "NOT":
        return not cells[0]
    if name == "||":
        return str(cells[0]) + str(cells[1])
    return arithmetic(name, [float(cell) for cell in cells if cell is not None])


def arithmetic(name: str, numbers: list[float]) -> float | None:
    first, second = numbers[0], numbers[-1]
    match name:
        case "+":
            return first + second
        case "-":
            return first - second
        case "*":
            return first * second
        case "/":
            return first / second if second else None
        case "%":
            return math.fmod(first, second) if second else None
        case "NEGATIVE":
            return -first
        case "ABS":
            return abs(first)
        case "FLOOR":
            return float(math.floor(first))
        case "CEIL":
            return float(math.ceil(first))
        case "SQRT":
            return math.sqrt(first) if first >= 0 else None
        case "SIGN":
            return float((first > 0) - (first < 0))
        case _:
            raise AssertionError(name)


def _texts(levels: int) -> dict[str, st.SearchStrategy[str]]:
    """Random numbers, truths and words of few operations, on ordinary operands."""
    numbers: st.SearchStrategy[str] = st.sampled_from(["x", "k", "0", "1", "2.5", "-3", "NULL"])
    truths: st.SearchStrategy[str] = st.sampled_from(["p", "TRUE", "FALSE", "NULL"])
    words: st.SearchStrategy[str] = st.sampled_from(["w", "'a'", "''", "NULL"])
    for _ in range(levels):
        n, b, s = numbers, truths, words
        signs = st.sampled_from(["+", "-", "*", "/", "%"])
        tests = st.sampled_from([*_COMPARE, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        numbers = st.one_of(
            n,
            st.builds("({}) {} ({})".format, n, signs, n),
            st.builds("{}({})".format, st.sampled_from(["ABS", "FLOOR", "SQRT", "SIGN", "-"]), n),
            st.builds("COALESCE({}, {})".format, n, n),
            st.builds("LEAST({}, {}, {})".format, n, n, n),
            st.builds("NULLIF({}, {})".format, n, n),
            st.builds("CASE WHEN {} THEN {} ELSE {} END".format, b, n, n),
        )
        truths = st.one_of(
            b,
            st.builds("({}) {} ({})".format, n, tests, n),
            st.builds("({}) {} ({})".format, s, tests, s),
            st.builds("({}) {} ({})".format, b, st.sampled_from(["AND", "OR"]), b),
            st.builds("NOT ({})".format, b),
            st.builds("({}) IS NULL".format, st.one_of(n, b, s)),
            st.builds("({}) IN (1, 2.5, NULL)".format, n),
            st.builds("({}) BETWEEN ({}) AND ({})".format, n, n, n),
        )
        words = st.one_of(s, st.builds("({}) || ({})".format, s, s))
    return {"number": numbers, "truth": truths, "word": words}


@pytest.fixture(scope="module")
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (i BIGINT, x DOUBLE, k DOUBLE, p BOOLEAN, w VARCHAR)")
        rows = [[i, *row.values()] for i, row in enumerate(_ROWS)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        yield connection


def same(found: _Cell, expected: _Cell) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-12, abs_tol=0.0)
    return found == expected and type(found) is type(expected)


@pytest.mark.long
@pytest.mark.parametrize("kind", mostly_slow(["number", "truth", "word"]))
@seed(50)
@settings(max_examples=60, deadline=None, database=None)
@given(data=st.data())
def test_the_engine_agrees_with_the_reference(
    table: duckdb.DuckDBPyConnection, kind: str, data: st.DataObject
) -> None:
    text = data.draw(_texts(3)[kind])
    kinds = {"number": Kind.NUMBER, "truth": Kind.BOOLEAN, "word": Kind.TEXT}
    found = parse(text, columns=_COLUMNS, expect=kinds[kind])
    tree = Reader(text=text).read(condition(text, argument="where"))
    cells = [cell for (cell,) in table.execute(f"SELECT {found.sql} FROM t ORDER BY i").fetchall()]
    for cell, row in zip(cells, _ROWS, strict=True):
        assert same(cell, reference(tree, row)), (text, row)


def test_the_reference_can_tell_a_wrong_engine(table: duckdb.DuckDBPyConnection) -> None:
    # DuckDB's own text differs: x / 0 is not NULL there. The comparison must notice.
    cells = [c for (c,) in table.execute("SELECT x / k FROM t ORDER BY i").fetchall()]
    tree = Operation("/", (Name("x"), Name("k")))
    assert not all(same(c, reference(tree, row)) for c, row in zip(cells, _ROWS, strict=True))
