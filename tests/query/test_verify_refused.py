"""Text that is no release of a session: refused, and the place is named."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.query.stated_releases import (
    LEDGER,
    STATED,
    changed,
    differing,
    leaves,
)
from tests.support.cases import in_subtests
from tests.support.seams import Release

from unacorda.errors import InvalidParameter

# ---- what is no release


@in_subtests(
    ("text", "argument"),
    [
        ("", "text"),
        ("no json", "text"),
        ("[1, 2]", "text"),
        ("[" * 100_000, "text"),
        ('{"a":' * 100_000, "text"),
        ('{"format": 1, "format": 2}', "text"),
        (f'{{"format": {"9" * 5_000}}}', "text"),
        ('{"format": "unacorda release 2"}', "format"),
        ('{"format": "unacorda release 1"}', "query"),
        (None, "text"),
        (b"{}", "text"),
    ],
)
def test_text_that_is_no_release_is_refused(text: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Release.verify(text)
    assert caught.value.argument == argument
    assert len(str(caught.value)) < 600


@in_subtests(
    ("path", "value", "argument"),
    [
        (("digest",), "x" * 64, "digest"),
        (("salt",), 5, "salt"),
        (("event",), json.loads('{"a":' * 400 + "1" + "}" * 400), "event"),
        (("exact", "charge"), {"guarantee": "__import__"}, "exact.charge"),
        (("exact", "charge", "rho"), "1" * 10_000, "exact.charge"),
        (("exact", "charge", "rho"), "1e999999999", "exact.charge"),
        (("exact", "charge", "rho"), "3/10 ", "exact.charge"),
        (("software",), {"numpy": 2}, "software['numpy']"),
        (("reproducible",), "no", "reproducible"),
    ],
)
def test_a_field_of_another_form_is_named(path: tuple[Any, ...], value: Any, argument: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Release.verify(changed(path, lambda _: value))
    assert caught.value.argument == argument


@in_subtests(
    ("path", "value", "said"),
    [
        (("unit", "kind"), "os.system", "a Person or a Row"),
        (("unit", "max_rows"), 10**9, "max_rows"),
        (("unit", "max_rows"), 10**30, "max_rows"),
        (("unit", "id"), ["nobody"], "nobody"),
        (("aggregates", "n", "kind"), "aggregate", "aggregates['n']"),
        (("aggregates", "n", "kind"), "quantile", "the fields kind, weight, column, lower"),
        (("aggregates", "n", "weight"), "0", "weight"),
        (("aggregates", "n", "weight"), "-1", "weight"),
        (("aggregates", "n", "weight"), 1, "aggregates['n'].weight"),
        (("aggregates", "p50", "resolution"), [1], "aggregates['p50'].resolution"),
        (("aggregates", "p50", "q"), "0.5", "lowest terms"),
        (("aggregates", "p50", "column"), "(SELECT 1)", "(SELECT 1)"),
        (("aggregates",), {}, "agg"),
        (("columns", "age", "fact"), {"kind": "bounds", "lower": 1.0, "upper": 0.0}, "lower"),
        (("columns", "age", "type"), "DATE", "age"),
        (("steps",), [{"where": "TRUE"}] * 2_000, "query.steps"),
        (("steps",), [{"drop": "everything"}], "query.steps[0]"),
        (("steps", 0, "where"), "1" * 20_000, "cannot be used"),
        (("keys",), [], "keys"),
        (("keys",), [["A"]], "keys"),
        (("keys", 0, 0), 1.5, "query.keys"),
        (("keys", 0, 1), {"date": "2024-02-31"}, "query.keys"),
        (("groups",), ["county", "county"], "county"),
        (("table",), 7, "query.table"),
        (("more",), 7, "query"),
    ],
)
def test_a_question_that_no_session_takes_is_said_so(
    path: tuple[Any, ...], value: Any, said: str
) -> None:
    stated = copy.deepcopy(STATED)
    part = stated["query"]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    found = Release.verify(json.dumps(stated))
    assert differing(found)[0] in {"question", "event"}
    assert said in str(found)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1/3", "count", "bounds", "person", "add_remove", "VARCHAR", "GDP", "x"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "type", "fact", "date", "where"]), inner)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def check_anything_somewhere(path: tuple[Any, ...], value: Any) -> None:
    text = changed(path, lambda _: value)
    with contextlib.suppress(InvalidParameter):
        found = Release.verify(text, ledger=LEDGER)
        assert found.to_dict()["holds"] is found.holds
        assert str(found)


@pytest.mark.long
@settings(max_examples=30)
@given(path=st.sampled_from(list(leaves(STATED))), value=JSON)
@example(path=("query", "steps"), value=None)
@example(path=("query", "steps"), value=[None, {"of": [3]}])
def test_whatever_stands_anywhere_is_a_report_or_a_named_error(
    path: tuple[Any, ...], value: Any
) -> None:
    check_anything_somewhere(path, value)


@pytest.mark.slow
@settings(max_examples=600)
@given(path=st.sampled_from(list(leaves(STATED))), value=JSON)
def test_whatever_stands_anywhere_is_a_report_or_a_named_error_at_length(
    path: tuple[Any, ...], value: Any
) -> None:
    check_anything_somewhere(path, value)


@pytest.mark.long
@settings(max_examples=40)
@given(value=JSON)
def test_any_json_is_a_named_error(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        Release.verify(json.dumps(value))
