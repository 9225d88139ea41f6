"""Columns without a type are read as their uses need: as the best of all combinations would be."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from tests.query.expression_grammar import texts_of
from tests.support.cases import in_subtests
from tests.support.seams import Column, Kind, parse

from unacorda.errors import InvalidParameter, UnsafeExpression

KINDS = {"": Kind.TEXT, "_n": Kind.NUMBER, "_d": Kind.DATE, "_b": Kind.BOOLEAN}
NAMES = ("x", "s", "d")
SAME = {
    **dict.fromkeys(("y", "ratio", "age", "n"), "x"),
    **dict.fromkeys(("u", "b"), "s"),
    "t": "d",
}
"""Which of them stands for each column of the grammar."""
OPEN = {name: [Column(f"{name}{ending}", kind) for ending, kind in KINDS.items()] for name in NAMES}


def best(text: str, expect: Kind | None) -> Any:
    """By trying every combination: the readings nearest to the first, then in their order."""
    ways = itertools.product(range(len(KINDS)), repeat=len(NAMES))
    for way in sorted(ways, key=lambda way: (sum(way), way)):
        columns = {name: OPEN[name][pick] for name, pick in zip(NAMES, way, strict=True)}
        try:
            return parse(text, columns=columns, expect=expect)
        except UnsafeExpression:
            return None
        except InvalidParameter:
            continue
    return None


def found(text: str, expect: Kind | None) -> Any:
    try:
        return parse(text, columns=OPEN, expect=expect)
    except InvalidParameter:
        return None


@pytest.mark.long
def test_what_is_read_is_the_best_of_all_combinations() -> None:
    read = 0

    @settings(max_examples=150)
    @given(texts_of(Kind.BOOLEAN, levels=2))
    def alike(text: str) -> None:
        nonlocal read
        three = re.sub(r"'[^']*'|\b[a-z]+\b", lambda word: SAME.get(word[0], word[0]), text)
        right = best(three, Kind.BOOLEAN)
        read += right is not None
        assert found(three, Kind.BOOLEAN) == right

    alike()
    assert read > 50


@pytest.mark.parametrize("expect", [None, *KINDS.values()])
@in_subtests(
    "text",
    [
        *("x", "x = s", "x > 3", "x > 3 AND s = 'a'", "x = d AND x < 5", "COALESCE(x, s)"),
        *("x + 1 = s", "CASE WHEN x THEN s ELSE d END", "EXTRACT(YEAR FROM d) + x", "x IN (1, 2)"),
        *("x = s AND s = d AND d = DATE '2024-01-31'", "NOT x OR s LIKE 'a%'", "x < s", "x || s"),
        *("(x = s) = (d = x)", "LENGTH(x) + x", "x = 3 AND LOWER(x) = 'a'", "d + INTERVAL 1 DAY"),
    ],
)
def test_texts_that_a_csv_file_meets(text: str, expect: Kind | None) -> None:
    assert found(text, expect) == best(text, expect)


def test_many_columns_without_a_type_take_no_longer_than_their_text() -> None:
    """Forty columns have 4^40 combinations."""
    columns = {f"c{i}": [Column(f"c{i}{e}", k) for e, k in KINDS.items()] for i in range(40)}
    text = " AND ".join(f"c{i} > {i}" if i % 2 else f"c{i} = 'a'" for i in range(40))
    read = parse(text, columns=columns)
    assert read.columns == {f"c{i}_n" if i % 2 else f"c{i}" for i in range(40)}
    chain = " AND ".join(f"c{i} = c{i + 1}" for i in range(39)) + " AND c39 > 0"
    assert parse(chain, columns=columns).columns == {f"c{i}_n" for i in range(40)}
