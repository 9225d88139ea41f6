"""Names, kinds and canonical text of the expression language."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import pytest
from tests.query.expression_row import COLUMNS
from tests.support.cases import in_subtests
from tests.support.seams import Column, Kind, parse

from unacorda.errors import InvalidParameter, UnsafeExpression


def test_unknown_columns_list_what_is_available() -> None:
    with pytest.raises(InvalidParameter) as fault:
        parse("agee > 3", columns=COLUMNS)
    assert "Did you mean 'age'" in fault.value.expected
    assert "price" in fault.value.expected


def test_a_name_matches_exactly_before_it_matches_without_case() -> None:
    columns = {"a": Column("first", Kind.NUMBER), "A": Column("second", Kind.NUMBER)}
    assert parse("a", columns=columns).sql == '"first"'
    assert parse("A", columns=columns).columns == {"second"}
    columns = {"Ab": columns["a"], "aB": columns["A"]}
    with pytest.raises(InvalidParameter, match="could be any of Ab, aB"):
        parse("ab", columns=columns)


def test_the_expected_kind_is_demanded() -> None:
    assert parse("NULL", columns={}, expect=Kind.BOOLEAN).kind == Kind.BOOLEAN
    assert parse("age", columns=COLUMNS, expect=Kind.NUMBER).kind == Kind.INTEGER
    with pytest.raises(InvalidParameter, match="a boolean where"):
        parse("age", columns=COLUMNS, expect=Kind.BOOLEAN)
    with pytest.raises(InvalidParameter, match="an integer where"):
        parse("price", columns=COLUMNS, expect=Kind.INTEGER)


def test_text_that_is_no_text_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter, match="text"):
        parse(3, columns={})  # type: ignore[arg-type]


def test_integers_are_refused_where_a_double_can_not_hold_them() -> None:
    assert parse("9007199254740992", columns={}).lower == 2.0**53
    assert parse("18446744073709551616", columns={}).lower == 2.0**64  # 2^64 is a double
    assert parse("9007199254740993.0", columns={}).lower == 2.0**53  # rounded, as it says
    with pytest.raises(UnsafeExpression, match="decimal point"):
        parse("9007199254740993", columns={})


@in_subtests(
    ("text", "canonical"),
    [
        ("a+b*c", '"a" + "b" * "c"'),
        ("(a+b)*c", '("a" + "b") * "c"'),
        ("a-(b-c)", '"a" - ("b" - "c")'),
        ("((a)) /* note */ > 1.50", '"a" > 1.5'),
        ("NOT (p AND q) OR p", 'NOT ("p" AND "q") OR "p"'),
        ("p AND (q AND p)", '"p" AND "q" AND "p"'),
        ("-(-a)", '"a"'),
        ("-(3)", "-3"),
        ("IF(p, 1, 2)", 'CASE WHEN "p" THEN 1 ELSE 2 END'),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    columns = {name: Column(name, Kind.NUMBER) for name in "abc"}
    columns |= {name: Column(name, Kind.BOOLEAN) for name in "pq"}
    found = parse(text, columns=columns)
    assert found.text == canonical
    assert parse(canonical, columns=columns) == found


def test_a_column_states_what_it_can_not_be() -> None:
    for name in ("", "a\x00b", "\ud800"):
        with pytest.raises(InvalidParameter):
            Column(name, Kind.TEXT)
    for lower, upper in ((1, 0), (math.nan, 0), (0, math.nan)):
        with pytest.raises(InvalidParameter):
            Column("a", Kind.NUMBER, lower, upper)
