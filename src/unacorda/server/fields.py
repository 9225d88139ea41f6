"""The bodies of requests: one table checks them and writes the OpenAPI document."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from unacorda._version import __version__
from unacorda.server.curation import OPERATIONS, Curation
from unacorda.server.problems import MEDIA_TYPE, TITLES, Problem

Kind: TypeAlias = Literal["object", "text", "flag", "whole number", "number or object"]


def _is_plain(sign: str) -> bool:
    return sign.isprintable() or sign in "\t\n\r"


_FITS: Final[Mapping[Kind, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "text": lambda value: isinstance(value, str) and all(map(_is_plain, value)),
    "flag": lambda value: isinstance(value, bool),
    "whole number": lambda value: type(value) is int,
    "number or object": lambda value: (
        isinstance(value, int | Decimal | str | dict) and not isinstance(value, bool)
    ),
}
_SAID: Final[Mapping[Kind, str]] = {
    "object": "an object",
    "text": "text without control characters",
    "flag": "true or false",
    "whole number": "a whole number",
    "number or object": "a number, a text of one, or an object",
}
_SCHEMAS: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "object": {"type": "object"},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "whole number": {"type": "integer"},
    "number or object": {"oneOf": [{"type": "number"}, {"type": "string"}, {"type": "object"}]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One member of a body. kind: its type; says: its description."""

    name: str
    kind: Kind
    says: str
    required: bool = False


_QUESTION: Final = (
    Field(name="question", kind="object", says="A question in the form of docs/questions.md."),
    Field(name="sql", kind="text", says="A SELECT, in place of `question`."),
    Field(name="questions", kind="object", says="A batch by name, of questions and SELECTs."),
)
_ASSUMING: Final = Field(
    name="assuming", kind="object", says='Assumptions about the data: {"rows": 1000} in a group.'
)
_BUDGET: Final = Field(
    name="budget",
    kind="object",
    says='The most that it may cost: {"epsilon": "1/10"}, {"rho": 0.01}, ... Numbers are exact.',
)
_ERROR: Final = Field(
    name="error",
    kind="number or object",
    says="In place of a budget: the target standard error, or one for each answer by name.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method of an address.

    gives: a description of the response; fields: of its body; record: its body is a release; query:
    of its query string, all texts; open: without a token; curator: for curators only; makes:
    answers 201; media: the type of the response.
    """

    method: Literal["get", "post", "delete"]
    path: str
    says: str
    gives: str
    fields: tuple[Field, ...] | None = None
    query: tuple[Field, ...] = ()
    problems: tuple[str, ...] = ()
    record: bool = False
    open: bool = False
    curator: bool = False
    makes: bool = False
    media: str = "application/json"


_ASKING: Final = (
    "not-json",
    "not-found",
    "too-large",
    "not-a-type",
    "refused",
    "unavailable",
    "too-long",
)
_PAYING: Final = (
    *("budget-exceeded", "lost", "engine-failed", "busy", "source-changed", "stopped"),
    *("suspended", "ledger-failed", "withdrawn"),
)
_SAYS: Final = {
    "dataset": "The dataset.",
    "analyst": "The analyst.",
    "budget": 'The limit: {"rho": "1/10"}.',
    "role": "analyst or curator.",
    "days": "Its lifetime in days, at most 366.",
    "note": "For the list of tokens.",
    "after": "The number of the last one on the page before.",
    "delta": "The delta, such as 1e-6.",
}
"""By the arguments of operations of curators."""
_TYPED: Final[Mapping[str, Kind]] = {
    "str": "text",
    "int": "whole number",
    "Mapping[str, Any]": "object",
}


def _curating(name: str, stated: Mapping[str, Any]) -> Endpoint:
    """An operation of curators; its fields are the arguments that do not stand in its path."""
    answer = getattr(Curation, name)
    fields = tuple(
        Field(
            name=argument.name,
            kind=_TYPED[argument.annotation],
            says=_SAYS[argument.name],
            required=argument.default is argument.empty,
        )
        for argument in inspect.signature(answer).parameters.values()
        if argument.kind is argument.KEYWORD_ONLY and f"{{{argument.name}}}" not in stated["path"]
    )
    asks = stated["method"] == "post" and bool(fields)
    problems = ("not-allowed", "not-found", "refused", "ledger-failed")
    return Endpoint(
        **stated,
        says=inspect.cleandoc(answer.__doc__ or ""),  # none under python -OO
        fields=fields if asks else None,
        query=() if asks else fields,
        problems=(*problems, "not-json", "too-large", "not-a-type") if asks else problems,
        curator=True,
    )


CURATING: Final = {name: _curating(name, one) for name, one in OPERATIONS.items()}

ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "me": Endpoint(
        method="get", path="/v1/me", says="The holder of the token.", gives="Name, role."
    ),
    "datasets": Endpoint(
        method="get",
        path="/v1/datasets",
        says="The datasets that you may query.",
        gives="Their names.",
    ),
    "dataset": Endpoint(
        method="get",
        path="/v1/datasets/{dataset}",
        says="Tables, public facts, and your limit.",
        gives="The public facts before a question.",
        problems=("not-found", "unavailable"),
    ),
    "explain": Endpoint(
        method="post",
        path="/v1/datasets/{dataset}/explain",
        says="Forecast the steps, the cost and the errors of a question. Free.",
        gives="Steps, cost and expected errors.",
        fields=(*_QUESTION, _BUDGET, _ERROR, _ASSUMING),
        problems=(*_ASKING, "busy"),
    ),
    "suggest": Endpoint(
        method="post",
        path="/v1/datasets/{dataset}/suggest",
        says="The least budget for these standard errors. Free.",
        gives="The budget, and budgets of all kinds on request.",
        fields=(
            *_QUESTION,
            Field(
                name="error",
                kind="number or object",
                says="A standard error, or one for each answer by name.",
                required=True,
            ),
            _ASSUMING,
            Field(
                name="kinds", kind="flag", says="Compute it in each kind that the account takes."
            ),
        ),
        problems=(*_ASKING, "busy"),
    ),
    "rehearse": Endpoint(
        method="post",
        path="/v1/datasets/{dataset}/try",
        says="Answer a question on made-up rows, to see its form. Free.",
        gives="`made_up`, which is true, and the release.",
        fields=(*_QUESTION, _BUDGET, _ERROR, _ASSUMING),
        problems=(*_ASKING, "busy", "budget-exceeded"),
    ),
    "ask": Endpoint(
        method="post",
        path="/v1/datasets/{dataset}/ask",
        says="Answer a question and pay for it. An equal question again is free.",
        gives="The stored release.",
        fields=(
            *_QUESTION,
            _BUDGET,
            _ERROR,
            _ASSUMING,
            Field(name="purpose", kind="text", says="The purpose, which is noted in the ledger."),
            Field(name="fresh", kind="flag", says="Pay again for fresh noise."),
        ),
        problems=(*_ASKING, *_PAYING, "too-many"),
    ),
    "questions": Endpoint(
        method="get",
        path="/v1/datasets/{dataset}/questions",
        says="Your questions, the newest first; ?before=NUMBER for the next page.",
        gives="The questions, their state and cost.",
        query=(
            Field(
                name="before", kind="text", says="The number of the last one on the page before."
            ),
        ),
        problems=("not-found", "unavailable", "refused"),
    ),
    "question": Endpoint(
        method="get",
        path="/v1/questions/{id}",
        says="One question of yours.",
        gives="The question, its state and cost.",
        problems=("not-found",),
    ),
    "withdraw": Endpoint(
        method="delete",
        path="/v1/questions/{id}",
        says="Withdraw a question that has not begun, for free. One that runs stays paid.",
        gives="Nothing.",
        problems=("not-found", "runs", "refused"),
    ),
    "release_csv": Endpoint(
        method="get",
        path="/v1/releases/{id}.csv",
        says="Exact rows as CSV; with ?spreadsheet=true no text is a formula.",
        gives="Values with their standard errors and intervals.",
        query=(Field(name="spreadsheet", kind="text", says="true or false."),),
        problems=("not-found", "refused"),
        media="text/csv",
    ),
    "release_json": Endpoint(
        method="get",
        path="/v1/releases/{id}.json",
        says="The stored release of a question of yours.",
        gives="The bytes that were stored.",
        problems=("not-found",),
    ),
    "release": Endpoint(
        method="get",
        path="/v1/releases/{id}",
        says="The stored release of a question of yours.",
        gives="The bytes that were stored.",
        problems=("not-found",),
    ),
    "verify": Endpoint(
        method="post",
        path="/v1/verify",
        says="Check a release, as far as possible without the data. Free.",
        gives="The checks, and whether it is a stored release of yours.",
        record=True,
        problems=("not-json", "too-large", "not-a-type", "refused", "too-long", "busy"),
    ),
    "openapi": Endpoint(
        method="get", path="/openapi.json", says="This document.", gives="OpenAPI 3.1.", open=True
    ),
    **CURATING,
}
"""Every operation by name; the routes are made of it."""


def check_body(body: Any, fields: tuple[Field, ...]) -> Mapping[str, Any]:
    """Check that a body is an object with only these fields and all required ones."""
    if not isinstance(body, dict):
        raise Problem("not-json", "The body must be an object of JSON.")
    known = {field.name: field for field in fields}
    for name, value in body.items():
        if name not in known:
            detail = f"There is no such field. The fields are {', '.join(known)}."
            raise Problem("refused", detail, {"pointer": _pointer(name)})
        if not _FITS[known[name].kind](value):
            detail = f"This must be {_SAID[known[name].kind]}. {known[name].says}"
            raise Problem("refused", detail, {"pointer": _pointer(name)})
    for field in fields:
        if field.required and field.name not in body:
            raise Problem("refused", f"{field.name} is missing. {field.says}", {"pointer": ""})
    return body


def _pointer(name: str) -> str:
    shown = name if name.isprintable() else "..."
    return f"/{shown[:100].replace('~', '~0').replace('/', '~1')}"


def openapi_document(address: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of all operations, at this address."""
    paths: dict[str, dict[str, Any]] = {}
    for name, one in ENDPOINTS.items():
        paths.setdefault(one.path, {})[one.method] = _endpoint_as_json(name, one)
    problem = {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            **{part: {"type": "string"} for part in ("type", "title", "detail", "pointer")},
            "status": {"type": "integer"},
        },
    }
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "unacorda", "version": __version__},
        "servers": [{"url": address}],
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": bearer}, "schemas": {"Problem": problem}},
        "paths": paths,
    }


def _endpoint_as_json(name: str, one: Endpoint) -> dict[str, Any]:
    given = {"description": one.gives, "content": {one.media: {}}}
    found: dict[str, Any] = {
        "operationId": name,
        "summary": one.says,
        "responses": {"201" if one.makes else "200": given},
    }
    if name == "ask":
        found["responses"]["201"] = {"description": "The release, made and paid for now."}
        said = "It goes on longer than Prefer: wait= says; Location tells where to look."
        found["responses"]["202"] = {"description": said}
    if one.method == "delete":
        found["responses"] = {"204": {"description": one.gives}}
    for kind in (*one.problems, *(() if one.open else ("no-token", "too-many"))):
        status, title = TITLES[kind]
        found["responses"][str(status)] = {
            "description": title,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    if one.open:
        found["security"] = []
    inside = re.findall(r"{(\w+)}", one.path)
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
        for part in inside
    ]
    for field in one.query:
        stated = {"name": field.name, "in": "query", "schema": _SCHEMAS[field.kind]}
        parameters.append({**stated, "description": field.says})
    if parameters:
        found["parameters"] = parameters
    if one.record:
        whole = {"schema": {"type": "object"}}
        found["requestBody"] = {"required": True, "content": {"application/json": whole}}
    if one.fields is not None:
        schema = {
            "type": "object",
            "additionalProperties": False,
            "required": [field.name for field in one.fields if field.required],
            "properties": {
                field.name: {**_SCHEMAS[field.kind], "description": field.says}
                for field in one.fields
            },
        }
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return found
