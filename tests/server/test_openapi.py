"""Requests drawn from the OpenAPI document, and worse ones: every response is a documented one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.served import COUNT, Served, served

from unacorda.server.fields import ENDPOINTS, openapi_document

DOCUMENT = openapi_document("http://127.0.0.1:8040")
OPERATIONS = [
    (path, method, operation)
    for path, of in DOCUMENT["paths"].items()
    for method, operation in of.items()
]
KNOWN: dict[str, list[Any]] = {
    "dataset": ["visits", "labs"],
    "analyst": ["ana", "ben"],
    "sql": [COUNT["sql"], "SELECT AVG(age) AS m FROM visits", "SELECT county FROM visits"],
    "question": [
        {"table": "visits", "aggregates": {"n": {"count": {}}}},
        {"table": "visits", "steps": [{"where": "age > 3"}], "aggregates": {"n": {"count": {}}}},
    ],
    "budget": [{"rho": "0.001"}, {"epsilon": 0.01}, {"rho": 1e9}],
    "error": [10, "5", {"n": 3}],
    "role": ["analyst", "curator"],
    "delta": ["1e-6"],
    "after": ["0", "3"],
    "before": ["2"],
    "spreadsheet": ["true", "false"],
}
"""Values that mean something, by name: others would hardly come near them."""

TEXT = st.text(max_size=20) | st.sampled_from(["../..", "' OR 1=1", "\u202e", "a" * 2_000, "\x00"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3)
    ),
    max_leaves=8,
)


def valid(name: str, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema of the document."""
    found: st.SearchStrategy[Any] = st.sampled_from(KNOWN[name]) if name in KNOWN else st.nothing()
    for one in schema.get("oneOf", [schema]):
        match one["type"]:
            case "string":
                found |= TEXT
            case "integer":
                found |= st.integers()
            case "number":
                found |= st.floats(allow_nan=False, allow_infinity=False) | st.integers()
            case "boolean":
                found |= st.booleans()
            case "object":
                found |= st.dictionaries(st.text(max_size=8), ANYTHING, max_size=3)
            case other:
                raise AssertionError(other)
    return found


def bodies(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Bodies of a schema, and others."""
    if "properties" not in schema:
        return ANYTHING
    fields = {name: valid(name, one) for name, one in schema["properties"].items()}
    needed = {name: fields[name] for name in schema["required"]}
    more = {name: one for name, one in fields.items() if name not in needed}
    fits = st.fixed_dictionaries(needed, optional=more)
    wrong = st.fixed_dictionaries({}, optional=dict.fromkeys((*fields, "extra"), ANYTHING))
    return fits | fits | wrong | ANYTHING


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


def check(ask: Served, data: st.DataObject) -> None:
    """One request of one operation is answered as the document says."""
    path, method, operation = data.draw(st.sampled_from(OPERATIONS))
    query = {}
    for one in operation.get("parameters", ()):
        text = data.draw(st.sampled_from(KNOWN.get(one["name"], ["a"])) | TEXT)
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(text, safe="") or "x")
        elif data.draw(st.booleans()):
            query[one["name"]] = text
    body = None
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(data.draw(bodies(schema))).encode()
    of = data.draw(st.sampled_from(["ana", "ben", "eve", "office"]))
    found = ask(method, f"{path}?{urlencode(query)}" if query else path, body, of=of)
    beyond = {404, 405} if "%2F" in path or path.endswith(("/.", "/..")) else set()
    assert found.status_code in {int(code) for code in operation["responses"]} | beyond, found.text
    assert found.status_code < 500 or found.status_code == 503, found.text
    if found.status_code >= 400:
        assert found.headers["content-type"] == "application/problem+json"
        said = found.json()
        assert said["status"] == found.status_code
        assert "/tmp" not in found.text  # no path of a file
    elif found.headers.get("content-type") == "application/json":
        found.json()


@pytest.mark.long
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_few_requests_are_answered_as_documented(ask: Served, data: st.DataObject) -> None:
    check(ask, data)


@pytest.mark.slow
@settings(
    max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_many_requests_are_answered_as_documented(ask: Served, data: st.DataObject) -> None:
    check(ask, data)


def test_every_operation_is_drawn_from() -> None:
    assert {one["operationId"] for _, _, one in OPERATIONS} == set(ENDPOINTS)


@pytest.mark.long
def test_operations_do_not_need_their_docstrings() -> None:
    load = "import unacorda.server.app; from unacorda.server.fields import CURATING"
    command = [sys.executable, "-OO", "-c", f"{load}; print(*CURATING)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == [name for name, one in ENDPOINTS.items() if one.curator]
