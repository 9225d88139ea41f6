"""Questions as JSON, the other way: what `questions` reads, of the parts of a question."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.automatic import FoundBounds
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.aggregates.extremes import Extreme
from unacorda.query.aggregates.histograms import BinCounts, EqualBins, Top
from unacorda.query.aggregates.linear import (
    BoundedSum,
    Count,
    CountDistinct,
    CountIf,
    CountPeople,
    VectorSum,
)
from unacorda.query.aggregates.means import BoundedMean, Proportion, WeightedMean
from unacorda.query.aggregates.quantiles import BoundedQuantile, Quantiles, QuartileRange
from unacorda.query.aggregates.ratios import Ratio
from unacorda.query.aggregates.row_counts import RowsKept
from unacorda.query.aggregates.variances import BoundedVariance, Correlation, Covariance
from unacorda.query.expressions.quoting import identifier
from unacorda.query.noise.key_selection import PrivateKeys
from unacorda.query.plan.codec import encode
from unacorda.query.plan.person_values import (
    PersonCount,
    PersonExtreme,
    PersonFirst,
    PersonMean,
    PersonSum,
)
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
    name, arguments = _made_by(value)
    if isinstance(value, Aggregate) and value.weight != 1:
        arguments = {**arguments, "weight": value.weight}
    return {name: {key: encode(one) for key, one in arguments.items() if one is not None}}


def _made_by(value: Any) -> tuple[str, dict[str, Any]]:
    def of(*names: str) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    bounds = ("column", "lower", "upper")
    match value:
        case Count():
            return "count", of("column")
        case CountPeople():
            return "count_people", of("column")
        case CountDistinct():
            return "count_distinct", of("column")
        case CountIf():
            return "count_if", of("condition")
        case BoundedSum():
            return "sum", of(*bounds)
        case VectorSum():
            return "vector_sum", of("columns", "norm")
        case BoundedMean():
            return "mean", of(*bounds)
        case Proportion():
            return "proportion", of("condition")
        case WeightedMean(sides=(one, other)):
            arguments = {"column": one.column, "weights": other.column}
            return "weighted_mean", arguments | _both(("bounds", one), ("weights_bounds", other))
        case Ratio(sides=(one, other)):
            arguments = {"numerator": one.column, "denominator": other.column}
            pairs = ("numerator_bounds", one), ("denominator_bounds", other)
            return "ratio", arguments | _both(*pairs)
        case Covariance(sides=(one, other)):
            arguments = {"x": one.column, "y": other.column}
            return "covariance", arguments | of("ddof") | _both(
                ("x_bounds", one), ("y_bounds", other)
            )
        case Correlation(sides=(one, other)):
            arguments = {"x": one.column, "y": other.column}
            return "correlation", arguments | _both(("x_bounds", one), ("y_bounds", other))
        case BoundedVariance():
            return "stdev" if value.root else "variance", of(*bounds, "ddof")
        case Extreme():
            return value.side, of(*bounds, "resolution")
        case BoundedQuantile():
            return "quantile", of(*bounds, "resolution", "q", "interval")
        case QuartileRange():
            return "iqr", of(*bounds, "resolution", "interval")
        case Quantiles():
            arguments = of(*bounds, "resolution", "interval")
            return "quantiles", arguments | {"q": value.wanted}
        case BinCounts():
            return "histogram", of("column", "edges")
        case EqualBins():
            arguments = of(*bounds, "resolution")
            return "histogram", arguments | {"bins": len(value.wanted) + 1}
        case Top():
            return "top", {"column": value.column, "k": value.size, "values": value.listed}
        case FoundBounds():
            return "find_bounds", of("column")
        case RowsKept():
            return "rows_kept", {}
        case PersonExtreme():
            name = "condition" if value.function in ("all", "any") else "column"
            return value.function, {name: value.column}
        case PersonFirst():
            return value.function, of("column", "by")
        case PersonCount():
            return "count", of("column")
        case PersonSum():
            return "sum", of(*bounds)
        case PersonMean():
            return "mean", of(*bounds)
        case _:
            expected = "a question of the public functions, which JSON has names for"
            raise InvalidParameter("query", type(value).__name__, expected=expected)


def _both(*sides: tuple[str, Any]) -> dict[str, Any]:
    """The bounds of two columns, as far as they were written."""
    return {name: None if side.lower is None else (side.lower, side.upper) for name, side in sides}
