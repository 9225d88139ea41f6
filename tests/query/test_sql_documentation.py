"""What docs/expressions.md and docs/sql.md show can be written, and what they state is so."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

from tests.query.select_sessions import read, steps_of
from tests.support.cases import in_subtests
from tests.support.seams import FUNCTIONS, Column, Kind, parse

_DOCS = Path(__file__).parents[2] / "docs"
_PAGE = "".join((_DOCS / name).read_text() for name in ("expressions.md", "sql.md"))
_BLOCKS = re.findall(r"```sql\n(.*?)```", _PAGE, flags=re.DOTALL)
_NUMBERS = ("age", "income", "weight", "height", "hours", "rate")
_COLUMNS = {
    **{name: Column(name, Kind.NUMBER, 0, 100) for name in _NUMBERS},
    **{name: Column(name, Kind.TEXT) for name in ("sex", "county", "answer", "city")},
    **{name: Column(name, Kind.DATE) for name in ("day", "admitted", "discharged")},
}


@in_subtests("line", _BLOCKS[0].splitlines())
def test_each_expression_that_is_shown_is_read(line: str) -> None:
    found = parse(line, columns=_COLUMNS)
    assert parse(found.text, columns=_COLUMNS) == found


def test_the_select_that_is_shown_is_read() -> None:
    found = read(_BLOCKS[1], (*_COLUMNS, "person_id", "insured", "cost"))
    assert len(found.items) + len(found.groups) == 9
    assert steps_of(found)[:1] == ['"age" >= 18']
    assert found.groups == ("county", "decade")
    assert (found.limit, found.offset) == (10, 10)
    assert found.having == '"visits" >= 50'


@in_subtests("name", FUNCTIONS)
def test_each_function_that_a_refusal_offers_is_on_the_page_and_is_read(name: str) -> None:
    assert re.search(rf"\b{name}\b", _PAGE)
    calls = {
        "TRY_CAST": "TRY_CAST(age AS DOUBLE)",
        "EXTRACT": "EXTRACT(YEAR FROM day)",
        "DATE_PART": "DATE_PART('year', day)",
        "DATE_DIFF": "DATE_DIFF('day', day, day)",
        "DATE_SUB": "DATE_SUB('day', day, day)",
        "DATE_TRUNC": "DATE_TRUNC('month', day)",
        "DATE_ADD": "DATE_ADD(day, INTERVAL 7 DAY)",
        "IF": "IF(TRUE, 1, 2)",
        "PI": "PI()",
        **dict.fromkeys(("LEFT", "RIGHT"), f"{name}(city, 3)"),
        **dict.fromkeys(("LPAD", "RPAD"), f"{name}(city, 3, ' ')"),
        "CONCAT_WS": "CONCAT_WS('-', city, city)",
        "REPLACE": "REPLACE(city, 'a', 'b')",
        "SPLIT_PART": "SPLIT_PART(city, '-', 1)",
        "STRFTIME": "STRFTIME(day, '%Y')",
        "SUBSTRING": "SUBSTRING(city, 1, 3)",
        "MAKE_DATE": "MAKE_DATE(age, age, age)",
        "TRY_STRPTIME": "TRY_STRPTIME(city, '%Y')",
        **dict.fromkeys(("HOUR", "MINUTE", "SECOND"), f"{name}(TIMESTAMP '2024-01-01 12:00:00')"),
    }
    texts = ("age", "age, age", "age, 0, 1", "city", "city, city", "day")
    choices = [calls[name]] if name in calls else [f"{name}({text})" for text in texts]
    kinds = []
    for choice in choices:
        try:
            kinds.append(parse(choice, columns=_COLUMNS).kind)
        except ValueError:
            continue
    assert kinds
