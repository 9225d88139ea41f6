"""Keys in a mapping are needed only for the columns that declare none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pandas as pd
import pytest

import unacorda
from unacorda.errors import InvalidParameter


def _session() -> unacorda.Session:
    table = pd.DataFrame({"id": [1, 2], "city": ["A", "B"], "adult": [True, False], "n": [1, 2]})
    return unacorda.Session(
        {"t": table},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(1),
        columns={"city": unacorda.Categories(["A", "B"])},
    )


def test_declared_and_boolean_columns_need_no_keys_beside_others() -> None:
    with _session() as session:
        query = session.table("t").group_by("city", "adult", "n", keys={"n": [1, 2]})
    assert len(query.keys) == 8
    assert query.keys[0] == ("A", False, 1)


def test_an_undeclared_column_still_needs_keys_and_unknown_names_are_refused() -> None:
    with _session() as session:
        with pytest.raises(InvalidParameter, match="public values of 'n'"):
            session.table("t").group_by("city", "n", keys={"city": ["A"]})
        with pytest.raises(InvalidParameter, match="one list for each"):
            session.table("t").group_by("city", keys={"city": ["A"], "n": [1]})
