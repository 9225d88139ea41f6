"""Hints for names that users of pandas, polars, Spark and SQL type, with what they mean here."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from unacorda.query.expressions.errors import resembling

_FILTER = ".where(\"age >= 18\") or .where(unacorda.col('age') >= 18)"
_GROUP = '.group_by("county", keys=[...])'
_DERIVE = '.derive(hours="minutes / 60")'
_AGG = ".agg(n=unacorda.count(), m=unacorda.mean('age', 0, 120))"
_EVALUATE = "session.evaluate(query, budget=...), which answers with noise"
_PANDAS = ".to_pandas(), and the method there"

QUERY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("filter", "query", "having"), _FILTER),
    **dict.fromkeys(("groupby", "groupBy", "by", "group"), _GROUP),
    **dict.fromkeys(("with_columns", "with_column", "withColumn", "assign", "mutate"), _DERIVE),
    **dict.fromkeys(("select", "aggregate", "summarize", "summarise"), _AGG),
    "count": ".agg(n=unacorda.count())",
    "size": ".agg(n=unacorda.count())",
    "nunique": '.agg(n=unacorda.count_distinct("county"))',
    "value_counts": '.agg(values=unacorda.top("county", 10))',
    **{
        name: f'.agg(answer=unacorda.{name}("age", 0, 120))'
        for name in ("sum", "mean", "median", "min", "max")
    },
    **dict.fromkeys(("std", "stddev"), '.agg(answer=unacorda.stdev("age", 0, 120))'),
    "var": '.agg(answer=unacorda.variance("age", 0, 120))',
    "quantile": '.agg(answer=unacorda.quantile("age", 0.9, 0, 120))',
    "merge": '.join("zips", on="zip")',
    **dict.fromkeys(("concat", "union_all", "unionAll", "vstack"), ".union(session.table(...))"),
    "describe": "session.describe(table, budget=...)",
    **dict.fromkeys(("collect", "show", "execute", "run", "compute", "release"), _EVALUATE),
    **dict.fromkeys(("evaluate", "head", "limit", "first", "to_pandas", "toPandas"), _EVALUATE),
    "explain": "session.explain(query, budget=...)",
    **dict.fromkeys(("sort", "sort_values", "orderBy", "order_by"), f"{_EVALUATE}, then {_PANDAS}"),
    **dict.fromkeys(("dropna", "drop_nulls"), '.where("age IS NOT NULL")'),
}
"""What to write for names that a query has not."""

SESSION: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("query", "execute", "run", "answer", "release"),
        "session.evaluate(query, budget=...), or session.sql(text, budget=...) for a SELECT",
    ),
    **dict.fromkeys(
        ("filter", "where", "groupby", "group_by", "select", "agg", "read_csv"),
        'session.table("visits"), on which .where, .derive, .group_by and .agg follow',
    ),
    "create_dataframe": "unacorda.Session({name: source}, unit=..., budget=...)",
    **dict.fromkeys(("remaining_budget", "remaining_privacy_budget"), "session.remaining"),
    "fit_model": "session.fit(model, table, features=[...], target=...)",
}
"""What to write for names that a session has not."""

RELEASE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("df", "data", "table", "toPandas", "collect", "show"), ".to_pandas()"),
    **dict.fromkeys(("item", "value"), ".scalar(), where there is one number"),
    "values": '.to_dicts(), or release["name"] for one column',
    "rows": ".to_dicts()",
    "spent": ".charge",
    **dict.fromkeys(("filter", "sort_values", "sort", "groupby", "head"), _PANDAS),
    "interval": 'release["name_low"] and release["name_high"]',
}
"""What to write for names that a release has not."""


def unknown_attribute(
    kind: str, name: str, hints: Mapping[str, str], known: Iterable[str]
) -> AttributeError:
    """The error for an attribute that a value has not; with what to write, where that is known.

    known: the attributes there are, of which the nearest is named.
    """
    hint = f" Write {hints[name]}." if name in hints else ""
    if not hint and not name.startswith("_"):
        close = resembling(name, [one for one in known if not one.startswith("_")])
        hint = f" {close}".rstrip()
    return AttributeError(f"{kind} has no attribute {name!r}.{hint}", name=name)
