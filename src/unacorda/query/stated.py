"""The rows of a question in plain values: what they can be put together from again."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unacorda.query.codec import encode
from unacorda.query.public import Public
from unacorda.query.rows import (
    Derive,
    Explode,
    Filter,
    Lookup,
    Matched,
    Part,
    Rows,
    Step,
    Table,
    United,
)
from unacorda.query.schema.table import Scope

__all__ = ["stated_rows"]


def stated_rows(rows: Rows, names: Iterable[str]) -> dict[str, Any]:
    """Rows in plain values: of each table the columns that these identifiers need."""
    names = frozenset(names)
    wanted = rows.wanted(names)
    return {
        **_source(rows, names),
        "steps": [_step(step, wanted) for step in rows.steps],
    }


def _source(rows: Rows, names: frozenset[str]) -> dict[str, Any]:
    used = {leaf.label for leaf in rows.leaves(names)}
    match rows.source:
        case Table(name=name, scope=scope):
            columns = {label: _column(scope, label) for label in scope.types if label in used}
            return {"table": name, "columns": columns}
        case Matched() as source:
            return {
                "join": {
                    "how": source.how,
                    "max_rows": list(source.max_rows),
                    "on": [[pair.left_label, pair.right_label] for pair in source.pairs],
                    "names": {new: old for new, old in source.names.items() if new in used},
                },
                "of": _sides(rows, names),
            }
        case United():
            return {"union": sorted(used & set(rows.scope.leaves)), "of": _sides(rows, names)}


def _sides(rows: Rows, names: frozenset[str]) -> list[dict[str, Any]]:
    return [
        {"id": list(side.scope.ids), **stated_rows(side, needed)}
        for side, needed in rows.of_sides(names)
    ]


def _step(step: Step, wanted: frozenset[str]) -> dict[str, Any]:
    match step:
        case Filter(expression=expression):
            return {"where": expression.text}
        case Derive(label=label, expression=expression):
            return {"derive": label, "as": expression.text}
        case Explode(label=label, expression=expression):
            return {
                "explode": expression.text,
                "into": label,
                "separator": step.separator,
                "most": step.most,
            }
        case Part():
            return {
                "part": step.label,
                "key": encode(step.key),
                "keys": encode(step.keys),
                "max_parts": step.max_parts,
                "salt": f"{step.salt:032x}",
            }
        case Lookup(table=table, public=public):
            names = {
                new: old
                for new, old in step.names.items()
                if any(leaf.name in wanted for leaf in step.leaves[new])
            }
            labels = dict.fromkeys([*names.values(), *(pair.right_label for pair in step.pairs)])
            return {
                "lookup": table,
                "columns": {label: _public_column(public, label) for label in labels},
                "how": step.how,
                "on": [[pair.left_label, pair.right_label] for pair in step.pairs],
                "most": step.most,
                "names": names,
            }


def _column(scope: Scope, name: str) -> dict[str, Any]:
    fact = scope.facts.get(name)
    declared = {} if fact is None else {"fact": encode(fact)}
    return {"type": scope.types[name], **declared}


def _public_column(public: Public, label: str) -> dict[str, Any]:
    found = _column(public.scope, label)
    ranges = [
        [leaf.column.lower, leaf.column.upper]
        for leaf in public.leaves(label)
        if leaf.column.kind.numeric
    ]
    finite = [one for one in ranges if "fact" not in found and abs(one[0]) < float("inf")]
    return {**found, "range": finite[0]} if finite else found
