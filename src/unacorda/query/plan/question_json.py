"""Questions as JSON, the other way: what `questions` reads, of the parts of a question."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unacorda import checks
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.expressions.language import identifier
from unacorda.query.noise.key_selection import PrivateKeys
from unacorda.query.plan.codec import encode
from unacorda.query.plan.person_values import PersonValue
from unacorda.query.plan.relation import (
    Derive,
    Explode,
    Group,
    Lookup,
    Matched,
    PersonRows,
    Relation,
    RowFilter,
    SourceTable,
)
from unacorda.query.schema.facts import Key


def keys_as_json(
    groups: Sequence[Group], keys: Sequence[tuple[Key, ...]], private: PrivateKeys | None
) -> Any:
    """Keys as `group_by` of a question in JSON has them."""
    if private is None:
        return encode([key for (key,) in keys] if len(groups) == 1 else tuple(keys))
    found = {"private_keys": private_as_json(private)}
    public = [group.label for group in groups if not group.private]
    columns = zip(*keys, strict=True) if public else ()
    listed = {
        name: encode(tuple(dict.fromkeys(column)))
        for name, column in zip(public, columns, strict=True)
    }
    if not listed:
        return found
    return {**listed, **{group.label: found for group in groups if group.private}}


def private_as_json(how: PrivateKeys) -> dict[str, Any]:
    """The arguments of `private_keys`."""
    fields = {"weight": how.weight, "delta": how.delta, "max_groups": how.max_groups}
    return {name: encode(one) for name, one in fields.items() if one is not None}


def rows_as_json(rows: Relation) -> dict[str, Any]:
    """Rows as a question in JSON begins: a table, and the steps from there."""
    source = rows.source
    if isinstance(source, SourceTable):
        found: dict[str, Any] = {"table": source.name, "steps": []}
    else:
        found = rows_as_json(rows.sides[0])
        found["steps"].append(_stated_source(rows))
    for step in rows.steps:
        match step:
            case RowFilter():
                found["steps"].append({"where": step.expression.text})
            case Derive():
                found["steps"].append({"derive": {step.label: step.expression.text}})
            case Explode():
                text, into = step.expression.text, step.label
                split = {"explode": into} if text == identifier(into) else {"explode": text}
                into_new = {} if text == identifier(into) else {"into": into}
                found["steps"].append(
                    {**split, "separator": step.separator, "most": step.most, **into_new}
                )
            case Lookup():
                on = {pair.left_label: pair.right_label for pair in step.pairs}
                columns = dict(step.names)
                found["steps"].append(
                    {"join": step.table, "on": on, "how": step.how, "columns": columns}
                )
            case _:  # the part of the people that a session is about: it begins with that
                continue
    return found


def _stated_source(rows: Relation) -> dict[str, Any]:
    source = rows.source
    if isinstance(source, PersonRows):
        return {
            "per_person": {label: function_as_json(value) for label, value in source.asked.items()}
        }
    beside = rows_as_json(rows.sides[1])
    if not isinstance(source, Matched):
        return {"union": beside}
    ids = zip(source.left.scope.ids, source.right.scope.ids, strict=True)
    return {
        "join": beside,
        "on": dict(ids) | {pair.left_label: pair.right_label for pair in source.pairs},
        "how": source.how,
        "columns": dict(source.names),
        "max_rows": list(source.max_rows),
    }


def function_as_json(value: Any) -> dict[str, Any]:
    """The function that makes an aggregate, or a value of a person, with its arguments."""
    expected = "a question of the public functions, which JSON has names for"
    if isinstance(value, Aggregate):
        checks.demand(bool(value.functions), "query", type(value).tag, expected=expected)
        name, arguments = value.function, value.arguments()
        if value.weight != 1:
            arguments["weight"] = value.weight
    else:
        public = isinstance(value, PersonValue)
        checks.demand(public, "query", type(value).__name__, expected=expected)
        name, arguments = value.called, value.arguments()
    return {name: {key: encode(one) for key, one in arguments.items() if one is not None}}
