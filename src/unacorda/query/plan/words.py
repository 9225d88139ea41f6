"""Rows as the caller wrote them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.query.plan.relation import (
    Derive,
    Explode,
    KeyPair,
    Lookup,
    Matched,
    PeoplePart,
    Relation,
    RowFilter,
    SourceTable,
    Step,
)

__all__ = ["pair_in_words", "shown"]


def shown(rows: Relation) -> str:
    """Rows as the caller wrote them."""
    match rows.source:
        case SourceTable(name=name):
            parts = [f"table({name!r})"]
        case Matched(left=left, right=right, max_rows=most, how=how, pairs=pairs):
            matches = "".join(f", {pair_in_words(pair)}" for pair in pairs)
            kept = "" if how == "inner" else f", how={how!r}"
            parts = [f"{shown(left)}.join({shown(right)}{matches}{kept}, max_rows={most})"]
        case _:
            parts = [f"{shown(rows.sides[0])}.union({shown(rows.sides[1])})"]
    return ".".join([*parts, *map(_step, rows.steps)])


def _step(step: Step) -> str:
    match step:
        case RowFilter(expression=expression):
            return f"where({expression.text!r})"
        case Derive(label=label, expression=expression):
            return f"derive({label}={expression.text!r})"
        case Explode(label=label, expression=expression):
            text, sign = expression.text, step.separator
            return f"explode({text!r}, separator={sign!r}, most={step.most}, into={label!r})"
        case PeoplePart(label=label, key=key):
            return f"part({label!r}, {key!r})"
        case Lookup(table=table, how=how):
            on = ", ".join(map(pair_in_words, step.pairs))
            return f"join({table!r}, {on}{'' if how == 'inner' else ', how=' + repr(how)})"


def pair_in_words(pair: KeyPair) -> str:
    """Which columns of two tables have to be equal."""
    one, two = pair.left_label, pair.right_label
    return one if one == two else f"{one} = {two}"
