"""How an element of a list is read depends on that element alone, and every one is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile_elements import FEW, HOSTILE

from unacorda import elements
from unacorda.errors import InvalidParameter

READERS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda values: elements.numbers("x", values, dimensions=1),
    "floats": lambda values: elements.floats("x", values, dimensions=1),
    "integers": lambda values: elements.integers("x", values, dimensions=1),
    "labels": lambda values: decoded(elements.codes("x", values)),
    "rows": lambda values: elements.numbers("x", values, dimensions=2, width=2),
}


def decoded(read: tuple[Any, list[Any]]) -> Any:
    return np.array([*read[1], None], dtype=object)[read[0]]


def exactly(value: Any) -> Any:
    """The number itself, whichever type holds it; text for what has no equal."""
    if isinstance(value, list):
        return [exactly(one) for one in value]
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return Fraction(value)


@pytest.mark.parametrize("others", [FEW, pytest.param(tuple(HOSTILE), marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS)
def test_each_element_is_read_as_if_it_were_alone(reader: str, others: tuple[str, ...]) -> None:
    read = READERS[reader]
    alone = {name: exactly(read([value]).tolist()[0]) for name, value in HOSTILE.items()}
    for one in HOSTILE:
        for other in others:
            both = read([HOSTILE[one], HOSTILE[other], 1, HOSTILE[one]]).tolist()
            found = [exactly(value) for value in both]
            assert found[0] == found[3] == alone[one], (one, other)
            assert found[1] == alone[other], (one, other)


@pytest.mark.long
@given(st.lists(st.sampled_from(list(HOSTILE))))
def test_lists_are_read_element_by_element(names: list[str]) -> None:
    values = [HOSTILE[name] for name in names]
    for read in READERS.values():
        whole = [exactly(value) for value in read(values).tolist()]
        assert whole == [exactly(read([value]).tolist()[0]) for value in values]


def test_what_numbers_are_read_as() -> None:
    assert elements.number(2**60 + 127) == 2**60 + 127
    assert elements.number(Decimal(2**60 + 127)) == 2**60 + 127
    assert elements.number(np.longdouble(1) / 3) == Fraction(
        *(np.longdouble(1) / 3).as_integer_ratio()
    )
    assert elements.number(Decimal("-1e999999")) == -math.inf
    assert elements.number(Decimal("1e-999999")) == 0
    for name in ("None", "text of a number", "complex", "list", "raising", "masked", "timedelta64"):
        assert math.isnan(elements.number(HOSTILE[name])), name
    assert elements.integers(
        "x", [2**64, -(2**64), math.inf, 2.5, -0.5, None, 2.0**63]
    ).tolist() == [*(2**63 - 1, -(2**63), 2**63 - 1, 3, 0, 0, 2**63 - 1)]


@pytest.mark.long
@given(st.fractions(), st.integers(0, 3), st.fractions(0, 1))
def test_whole_numbers_keep_whole_distances(value: Fraction, steps: int, part: Fraction) -> None:
    moved = abs(elements.whole(value + steps * part) - elements.whole(value))
    assert moved <= steps


def test_labels_of_one_number_are_one() -> None:
    codes, found = elements.codes("x", [1, "1", 1.0, True, b"1", None, math.nan, Decimal(1), 2**70])
    assert found == [1, 2**70, "1", b"1", None]
    assert codes.tolist() == [0, 2, 0, 0, 3, 4, 4, 0, 1]
    assert elements.codes("x", ["a\0", "a"])[1] == ["a", "a\0"]


# ---- the containers


SAME: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "objects": lambda values: np.array([*values, None], dtype=object)[:-1],
    "pandas objects": lambda values: pandas.Series(values, dtype=object),
    "list of arrays": lambda values: [np.array(value) for value in values],
}
WITH_NULLS: dict[str, Callable[[list[Any]], Any]] = {
    "masked": lambda values: np.ma.MaskedArray(
        [0 if value is None else value for value in values], [value is None for value in values]
    ),
    "pandas Int64": lambda values: pandas.Series(values, dtype="Int64"),
    "pandas boolean": lambda values: pandas.Series(
        [None if value is None else bool(value) for value in values], dtype="boolean"
    ),
    "pandas Float64": lambda values: pandas.Series(
        [None if value is None else float(value) for value in values], dtype="Float64"
    ),
    "polars": lambda values: polars.Series(values, dtype=polars.Int64),
    "pyarrow": lambda values: pyarrow.array(values, pyarrow.int64()),
    "pandas arrow": lambda values: pandas.Series(values, dtype=pandas.ArrowDtype(pyarrow.int64())),
}


@pytest.mark.parametrize("kind", SAME)
def test_sequences_of_other_types_are_read_alike(kind: str) -> None:
    values = [1, 2.5, 2**53 + 1, math.nan, True]
    found = elements.numbers("x", SAME[kind](values)).tolist()
    assert [exactly(one) for one in found] == [exactly(elements.number(one)) for one in values]


@pytest.mark.parametrize("kind", WITH_NULLS)
@pytest.mark.parametrize("missing", [False, True])
def test_a_missing_value_leaves_the_others_as_they_are(kind: str, missing: bool) -> None:
    first = 1 if "boolean" in kind or "Float" in kind else 2**60 + 127
    values = WITH_NULLS[kind]([first, None if missing else 0])
    assert elements.numbers("x", values).tolist()[0] == first
    assert elements.floats("x", values).tolist()[0] == float(first)
    assert elements.integers("x", values).tolist() == [first, 0]
    assert math.isnan(elements.floats("x", values)[1]) == missing


def ticks(kind: Any) -> Any:
    """The first tick of an Arrow type, and one that no Python value of a date can say."""
    size = 2**31 - 1 if kind.bit_width == 32 else 2**62
    return pyarrow.array([0, size], f"int{kind.bit_width}").view(kind)


FAR: dict[str, Any] = {
    **{
        f"{kind}": ticks(kind)
        for unit in ("s", "ms", "us", "ns")
        for kind in (pyarrow.timestamp(unit), pyarrow.timestamp(unit, "UTC"))
    },
    **{f"duration {unit}": ticks(pyarrow.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"{kind}": ticks(kind) for kind in (pyarrow.date32(), pyarrow.time64("us"))},
    "pandas arrow": pandas.Series(
        ticks(pyarrow.timestamp("s")), dtype=pandas.ArrowDtype(pyarrow.timestamp("s"))
    ),
    "pandas category": pandas.Series(
        ticks(pyarrow.timestamp("s")), dtype=pandas.ArrowDtype(pyarrow.timestamp("s"))
    ).astype("category"),
    "polars instants": polars.Series([0, 2**62]).cast(polars.Datetime("ms")),
    "polars days": polars.Series([0, 2**31 - 1], dtype=polars.Int32).cast(polars.Date),
    "runs": pyarrow.RunEndEncodedArray.from_arrays([1, 2], ticks(pyarrow.timestamp("s"))),
    "structs": pyarrow.StructArray.from_arrays([ticks(pyarrow.timestamp("s"))], names=["a"]),
}
"""Columns that their own libraries fail to list."""


@pytest.mark.parametrize("kind", FAR)
def test_columns_of_dates_are_missing_however_far_a_date_is(kind: str) -> None:
    assert np.isnan(elements.floats("x", FAR[kind])).all()
    assert elements.codes("x", FAR[kind])[1] == [None]


def test_labels_that_are_not_utf_8_are_read_by_themselves() -> None:
    raw = pyarrow.array([b"a", b"M\xfcller", None])
    text = pyarrow.StringArray.from_buffers(3, *raw.buffers()[1:], raw.buffers()[0])
    for column in (
        *(text, text.dictionary_encode(), pyarrow.chunked_array([text])),
        pandas.Series(text, dtype="str"),
        pandas.Series(text, dtype=pandas.ArrowDtype(pyarrow.string())),
    ):
        assert elements.codes("x", column)[1] == ["M\ufffdller", "a", None]


def test_the_index_of_a_series_does_not_decide_how_it_is_read() -> None:
    index = ["columns", "to_pylist", "dtype", "categories", "iloc"]
    for dtype in ("float64", "Int64", object):
        values = pandas.Series(range(5), index=index, dtype=dtype)
        assert elements.floats("x", values).tolist() == [0, 1, 2, 3, 4]


def test_masked_cells_show_nothing() -> None:
    hidden = np.ma.MaskedArray([424242.0, 1.0], [True, False])
    assert elements.floats("x", hidden).tolist()[1:] == [1.0]
    assert math.isnan(elements.floats("x", hidden)[0])


def test_columns_of_a_frame_are_read_one_by_one() -> None:
    frame = pandas.DataFrame(
        {"a": [2**60 + 127, 1], "b": [0.5, None], "c": pandas.array([None, 3])}
    )
    for table in (
        frame,
        polars.DataFrame({"a": [2**60 + 127, 1], "b": [0.5, None], "c": [None, 3]}),
    ):
        found = elements.numbers("X", table).tolist()
        assert found[0][0] == 2**60 + 127
        assert found[0][1] == 0.5
        assert math.isnan(found[0][2])
        assert math.isnan(found[1][1])
        assert found[1][2] == 3


@pytest.mark.parametrize(
    "values",
    [
        *({1: 2}, {1}, iter([1]), object(), np.array(["1"]), np.array([1j]), np.array([b"1"])),
        *(
            np.array([1], np.longdouble),
            np.array(["2020"], "M8[D]"),
            np.array([(1,)], [("a", int)]),
        ),
    ],
)
def test_other_containers_and_dtypes_are_refused_by_type(values: Any) -> None:
    if type(values) is object:
        assert math.isnan(elements.floats("x", values))
        return
    with pytest.raises(InvalidParameter, match="x=") as caught:
        elements.numbers("x", values)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_row_of_another_width_is_missing() -> None:
    rows = [[1, 2], [3], None, [4, 5, 6], "ab", np.array([7, 8]), (9, 10), 5]
    found = elements.floats("x", rows, dimensions=2, width=2)
    assert found[[0, 5, 6]].tolist() == [[1, 2], [7, 8], [9, 10]]
    assert np.isnan(found[[1, 2, 3, 4, 7]]).all()
    assert elements.numbers("x", rows).shape == (8, 2)
    assert elements.numbers("x", [None, 3], dimensions=2, width=4).shape == (2, 4)
    assert elements.numbers("x", [[[1, 2]], [[3, 4]]]).shape == (2, 1, 2)


@pytest.mark.long
def test_long_lists_are_read_fast() -> None:
    many: list[Any] = [float(number) for number in range(10**5)]
    for last in (1.0, 1, None, 2**70):
        values, took = [*many, last], []
        for _ in range(3):
            begin = time.perf_counter()
            elements.numbers("x", values)
            took.append(time.perf_counter() - begin)
        assert min(took) < 0.5  # about 0.02 s on an idle core
