"""Parts of a released synthetic table as JSON and back: exact, and without anything unreleased."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.junction_tree import Columns, Floats
from unacorda.synthesis.measured_errors import MeasuredErrors, TableError
from unacorda.synthesis.model import NoisyMarginal
from unacorda.synthesis.plan import SynthesisPlan, labels_of
from unacorda.synthesis.rounds import RoundSummary
from unacorda.synthesis.rows import Codes


def encode_plan(plan: SynthesisPlan) -> dict[str, Any]:
    """The public decisions."""
    columns = [
        {"values": [_label(value) for value in column.values], "other": column.other}
        if isinstance(column, CategoryColumn)
        else {name: getattr(column, name) for name in ("edges", "whole", "missing", "dates")}
        for column in plan.domain.columns
    ]
    workload = plan.workload if isinstance(plan.workload, int) else [*map(list, plan.workload)]
    return {
        "domain": [
            {"name": name} | column for name, column in zip(plan.domain.names, columns, strict=True)
        ],
        "workload": workload,
        "weights": [[list(names), str(weight)] for names, weight in plan.weights.items()],
        "never": [
            [[name, [_label(one) for one in labels_of(value)]] for name, value in condition.items()]
            for condition in plan.never
        ],
        "report": str(plan.report),
    } | {name: getattr(plan, name) for name in _PLAIN}


_PLAIN = ("max_cells", "rows")


def plan_from(stated: Mapping[str, Any]) -> SynthesisPlan:
    """The plan that `encode_plan` wrote."""
    columns: list[CategoryColumn | BinnedColumn] = []
    for column in stated["domain"]:
        if "values" in column:
            values = tuple(_labelled(value) for value in column["values"])
            columns.append(
                CategoryColumn(name=column["name"], values=values, other=column["other"])
            )
        else:
            columns.append(BinnedColumn(**column | {"edges": tuple(column["edges"])}))
    return SynthesisPlan(
        domain=Domain(columns=tuple(columns)),
        workload=stated["workload"],
        weights={tuple(names): weight for names, weight in stated["weights"]},
        never=[
            {name: [_labelled(one) for one in labels] for name, labels in condition}
            for condition in stated["never"]
        ],
        report=stated["report"],
        **{name: stated[name] for name in _PLAIN},
    )


def encode_marginals(marginals: Mapping[Columns, NoisyMarginal]) -> list[Any]:
    """The measured tables."""
    return [
        [list(columns), seen.counts.ravel().tolist(), seen.variance]
        for columns, seen in marginals.items()
    ]


def marginals_from(stated: list[Any], plan: SynthesisPlan) -> dict[Columns, NoisyMarginal]:
    """The tables that `encode_marginals` wrote."""
    found = {}
    for columns, counts, variance in stated:
        table = _shaped(counts, tuple(columns), plan)
        found[tuple(columns)] = NoisyMarginal(
            columns=tuple(columns), counts=table, variance=finite_from(variance)
        )
    return found


def encode_tables(tables: Mapping[Columns, Floats]) -> list[Any]:
    """Numbers by columns, as potentials are."""
    return [[list(columns), table.ravel().tolist()] for columns, table in tables.items()]


def tables_from(stated: list[Any], plan: SynthesisPlan) -> dict[Columns, Floats]:
    """The numbers that `encode_tables` wrote."""
    return {tuple(columns): _shaped(table, tuple(columns), plan) for columns, table in stated}


def encode_codes(codes: Codes) -> dict[str, Any]:
    """Rows, compressed: 32 bits a cell, a row after the other, in base 64."""
    packed = zlib.compress(np.ascontiguousarray(codes, "<u4").tobytes())
    return {"rows": len(codes), "cells": base64.b64encode(packed).decode()}


def codes_from(stated: Mapping[str, Any], plan: SynthesisPlan) -> Codes:
    """The rows that `encode_codes` wrote; ValueError for cells that the domain has not."""
    shape = (int(stated["rows"]), len(plan.domain.columns))
    packed = base64.b64decode(stated["cells"], validate=True)
    most = 4 * shape[0] * shape[1]
    found = zlib.decompressobj().decompress(packed, most + 1)
    codes = np.frombuffer(found, "<u4").reshape(shape).astype(np.int64)
    if (codes >= np.array(plan.domain.sizes)).any():
        raise ValueError("cells beyond the domain")
    return codes


def encode_errors(errors: MeasuredErrors | None) -> dict[str, Any] | None:
    """The measured errors."""
    return None if errors is None else dataclasses.asdict(errors)


def errors_from(stated: Mapping[str, Any] | None) -> MeasuredErrors | None:
    """The errors that `encode_errors` wrote."""
    if stated is None:
        return None
    return MeasuredErrors(
        tables=tuple(_error(table) for table in stated["tables"]),
        mean=_error(stated["mean"]),
        confidence=finite_from(stated["confidence"]),
    )


def rounds_from(stated: list[Mapping[str, Any]]) -> tuple[RoundSummary, ...]:
    """The rounds of which `dataclasses.asdict` wrote each."""
    return tuple(
        RoundSummary(**{**one, "tables": tuple(map(tuple, one["tables"]))}) for one in stated
    )


def _error(stated: Mapping[str, Any]) -> TableError:
    numbers = {name: finite_from(stated[name]) for name in ("error", "lower", "upper")}
    return TableError(columns=tuple(map(str, stated["columns"])), **numbers)


def finite_from(stated: Any) -> float:
    """The number that is stated; ValueError for NaN, infinities and text."""
    if isinstance(stated, str) or not math.isfinite(stated):
        raise ValueError("no finite number")
    return float(stated)


def _shaped(numbers: list[float], columns: Columns, plan: SynthesisPlan) -> Floats:
    return np.array(numbers, np.float64).reshape([plan.domain.sizes[a] for a in columns])


def _label(value: Any) -> Any:
    return {"date": value.isoformat()} if isinstance(value, dt.date) else value


def _labelled(stated: Any) -> Any:
    return dt.date.fromisoformat(stated["date"]) if isinstance(stated, dict) else stated
