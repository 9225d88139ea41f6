"""The questions of docs/sql-examples.md can be asked of the table that the page names."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import unacorda

PAGE = (Path(__file__).parents[2] / "docs" / "sql-examples.md").read_text()
FLIGHTS = Path(unacorda.__file__).parent / "cli" / "data" / "flights.parquet"
SELECTS = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_every_question_of_the_page_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FLIGHTS, "flights.parquet")
    Path("carriers.csv").write_text("carrier,name\nUA,United Air Lines Inc.\n")
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    with names["session"] as session:
        assert len(SELECTS) == 20
        for text in SELECTS:
            assert session.explain(text, budget=unacorda.PureDP("0.1")).affordable, text
