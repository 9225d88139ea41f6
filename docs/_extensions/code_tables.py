"""Parts of references, made of the tables that the code checks by; pages include them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
from functions import AGGREGATES, FUNCTIONS

from unacorda.query.expressions import language
from unacorda.query.expressions.parse import parse
from unacorda.query.sql.outputs import OFFERED
from unacorda.server.fields import CURATING, ENDPOINTS, Endpoint, openapi_document
from unacorda.server.problems import TITLES
from unacorda.settings import DATASET, OIDC, SERVER, Option

MADE = Path(__file__).parents[1] / "_made"
ADDRESS = "https://ask.example"
SENT = {
    "sql": "SELECT COUNT(*) AS n FROM visits",
    "budget": {"rho": "1/100"},
    "error": 10,
    "dataset": "visits",
    "analyst": "eve",
}
"""What the examples of requests send, by field."""
USUAL = ("sql", "budget")
"""What they send although it is not required, or not alone."""
ASKED = {"delta": "1e-6", "spreadsheet": "true"}
"""What they ask for in the query string, other than a number."""


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table."""
    names = list(heads)
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = [" | ".join(names), " | ".join(["---"] * len(names)), *lines]
    return [*(f"| {one} |" for one in lines), ""]


# ---- HTTP ------------------------------------------------------------------------------------


def operations(endpoints: Mapping[str, Endpoint]) -> list[str]:
    """Operations, as the OpenAPI document of a server says them."""
    paths, lines = openapi_document(ADDRESS)["paths"], list[str]()
    for name, one in endpoints.items():
        stated = paths[one.path][one.method]
        lines += [f"## {one.method.upper()} {one.path}", "", stated["summary"], ""]
        lines += _fields(stated)
        lines += ["```sh", _request(one), "```", ""]
        answers = [
            f"- {code}: {said['description']}{_media(said)}"
            for code, said in sorted(stated["responses"].items())
            if "application/problem+json" not in said.get("content", {})
        ]
        lines += [*answers, ""]
        kinds = (*one.problems, *(() if one.open else ("no-token", "too-many")))
        if kinds:
            listed = ", ".join(f"[{kind}](http.md#{kind})" for kind in dict.fromkeys(kinds))
            lines += [f"Problems: {listed}.", ""]
        assert stated["operationId"] == name
    return lines


def _media(said: Mapping[str, Any]) -> str:
    """The media type of an answer that is no JSON."""
    others = [f" (`{one}`)" for one in said.get("content", {}) if one != "application/json"]
    return "".join(others)


def _fields(stated: Mapping[str, Any]) -> list[str]:
    """The parameters and the members of the body."""
    rows = [
        (f"`{one['name']}`", f"in the {one['in']}", "text", one.get("description", ""))
        for one in stated.get("parameters", ())
    ]
    if "requestBody" in stated:
        schema = stated["requestBody"]["content"]["application/json"]["schema"]
        for name, one in schema.get("properties", {}).items():
            needed = "required" if name in schema["required"] else "in the body"
            kinds = one.get("oneOf", [one])
            kind = ", ".join(each["type"] for each in kinds)
            rows.append((f"`{name}`", needed, kind, one["description"]))
    return table(("name", "", "type", "what it is"), rows) if rows else []


def _request(one: Endpoint) -> str:
    """A request of this operation, for a shell."""
    path = one.path.replace("{dataset}", "visits").replace("{id}", "$ID")
    if one.query:
        name = one.query[0].name
        path += f"?{name}={ASKED.get(name, '100')}"
    words = [f'curl -s "{ADDRESS}{path}"']
    if one.method == "delete":
        words.append("-X DELETE")
    if one.method == "post" and one.fields is None and not one.record:
        words.append("-X POST")
    if not one.open:
        words.append('-H "Authorization: Bearer $TOKEN"')
    if one.record:
        words += ["-H 'Content-Type: application/json'", "--data-binary @release.json"]
    if one.fields is not None:
        names = {part.name for part in one.fields if part.required or part.name in USUAL}
        body = {name: value for name, value in SENT.items() if name in names}
        words += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body)}'"]
    return " \\\n    ".join(words)


def problems() -> list[str]:
    """What a server answers where it does not answer, with an anchor each."""
    lines = list[str]()
    for kind, (status, title) in TITLES.items():
        lines += [f"({kind})=", f"**{kind}** ({status}): {title}.", ""]
    return lines


def options(block: Mapping[str, Option]) -> list[str]:
    """The names of a block of a configuration."""
    rows = [(f"`{name}`", f"`{one.form}`", _default(one), one.says) for name, one in block.items()]
    return table(("name", "written", "default", "meaning"), rows)


def _default(one: Option) -> str:
    return "" if one.default is None else f"`{json.dumps(one.default)}`"


# ---- functions -------------------------------------------------------------------------------


def aggregates() -> list[str]:
    """Every aggregate that a refusal offers, with an example."""
    absent = [name for name in AGGREGATES if name not in OFFERED]
    assert not absent, f"aggregates that are not offered: {absent}"
    rows = [(f"`{name}`", f"`{how}`", what) for name, (how, what) in AGGREGATES.items()]
    return table(("aggregate", "example", "what it is"), rows)


def functions() -> list[str]:
    """Every function that a refusal offers, with an example and what that gives."""
    named = [name for group in FUNCTIONS.values() for name in group]
    missing = sorted(set(language.FUNCTIONS) ^ set(named))
    assert not missing, f"functions without an example, or that are gone: {missing}"
    lines = list[str]()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for title, group in FUNCTIONS.items():
            rows = []
            for name, (how, what) in sorted(group.items()):
                read = parse(how, columns={}, argument="derive")
                ((value,),) = connection.execute(f"SELECT {read.sql}").fetchall()
                rows.append((f"`{name}`", f"`{how}`", f"`{_shown(value)}`", what))
            lines += [f"## {title}", "", *table(("function", "example", "gives", "is"), rows)]
    return lines


def _shown(value: Any) -> str:
    """A value as SQL would write it."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, float):
        return f"{value:.12g}"
    return f"'{value}'"


def parts() -> dict[str, list[str]]:
    """The lines of every part, by its name."""
    asking = {name: one for name, one in ENDPOINTS.items() if name not in CURATING}
    return {
        "asking.md": operations(asking),
        "curating.md": operations(CURATING),
        "problems.md": problems(),
        "server.md": options(SERVER),
        "datasets.md": options(DATASET),
        "oidc.md": options(OIDC),
        "aggregates.md": aggregates(),
        "functions.md": functions(),
    }


def write(*_: object) -> None:
    """Write the parts that have changed."""
    MADE.mkdir(exist_ok=True)
    for name, lines in parts().items():
        part, text = MADE / name, "\n".join(lines).rstrip() + "\n"
        if not part.exists() or part.read_text() != text:
            part.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", write, priority=100)
    return {"parallel_read_safe": True}
