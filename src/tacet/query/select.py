"""From an analyst's SELECT to a question, and from the release to the table it asked for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tacet.errors import InvalidParameter
from tacet.query.aggregates.aggregate import Aggregate
from tacet.query.aggregates.counts import count, count_people
from tacet.query.aggregates.extremes import max as greatest
from tacet.query.aggregates.extremes import min as least
from tacet.query.aggregates.moments import mean
from tacet.query.aggregates.quantiles import quantile
from tacet.query.aggregates.sums import sum as total
from tacet.query.plan import Query, answer_columns
from tacet.query.release import Release
from tacet.query.sql.parse import parse_select
from tacet.query.sql.types import Aggregate as Asked
from tacet.query.sql.types import Group, Item, Select
from tacet.query.units import Person, Unit

__all__ = ["ordered", "question"]

_PERSON = "person"


def question(
    text: str, *, start: Callable[[str], Query], keys: Mapping[str, Any]
) -> tuple[Query, Select]:
    """The question that a SELECT asks, and the SELECT as it was read.

    start: from a table's name to a query without steps; keys: public values by group column, by
    the name in the SELECT or of the column itself. Raises UnsafeExpression and InvalidParameter.
    """
    select = parse_select(text)
    _check_names(select)
    if not hasattr(keys, "keys"):
        raise InvalidParameter("keys", keys, expected="public values by group column")
    query = start(select.table)
    if select.where is not None:
        query = query.where(select.where)
    for derived in select.derived:
        query = query.derive(**{derived.name: derived.expression})
    if select.groups:
        query = query.group_by(*select.groups, keys=_keys(select, keys))
    elif keys:
        raise InvalidParameter("keys", list(keys), expected="keys only with a GROUP BY")
    aggregates = {
        item.alias: _aggregate(item, query) for item in select.items if isinstance(item, Item)
    }
    return query.agg(**aggregates), select


def ordered(release: Release, select: Select) -> Release:
    """The release in the order, length and names that the SELECT asked for: post-processing."""
    release = dataclasses.replace(release, groups=_shown(select))
    indices = list(range(len(release.keys)))
    for ordering in reversed(select.order_by):
        values = _column(release, ordering.alias)
        # Python's sort is stable, so that earlier orderings win.
        present = [i for i in indices if values[i] is not None]
        absent = [i for i in indices if values[i] is None]
        present.sort(key=values.__getitem__, reverse=ordering.descending)
        indices = [*absent, *present] if ordering.nulls_first else [*present, *absent]
    if select.limit is not None:
        indices = indices[: select.limit]
    return dataclasses.replace(
        release,
        keys=tuple(release.keys[i] for i in indices),
        answers={name: answer.picked(indices) for name, answer in release.answers.items()},
    )


def _shown(select: Select) -> tuple[str, ...]:
    """The names of the group columns in the released table."""
    names = {item.column: item.alias for item in select.items if isinstance(item, Group)}
    return tuple(names.get(group, group) for group in select.groups)


def _check_names(select: Select) -> None:
    shown = _shown(select)
    taken = [item.alias for item in select.items if isinstance(item, Item)]
    answers = set().union(*map(answer_columns, taken))
    if len(set(shown)) < len(shown) or answers & set(shown):
        raise InvalidParameter(
            "sql",
            sorted(answers & set(shown)) or list(shown),
            expected="output columns that differ, also from the columns that each aggregate gets "
            "beside its own (name_se, name_low, name_high): name them apart with AS",
        )


def _column(release: Release, name: str) -> Sequence[Any]:
    if name in release.answers:
        return release.answers[name].values
    index = release.groups.index(name)
    return [key[index] for key in release.keys]


def _keys(select: Select, keys: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not keys:
        return None
    unknown = set(keys) - set(select.groups)
    if unknown:
        raise InvalidParameter(
            "keys", sorted(unknown), expected=f"columns of GROUP BY: {', '.join(select.groups)}"
        )
    return keys


def _aggregate(item: Item, query: Query) -> Aggregate:
    match item.aggregate:
        case Asked.COUNT_ROWS:
            return count()
        case Asked.COUNT:
            return count(item.argument)
        case Asked.COUNT_DISTINCT:
            return _people(item, query.unit)
        case Asked.SUM:
            return total(_argument(item))
        case Asked.MEAN:
            return mean(_argument(item))
        case Asked.MIN:
            return least(_argument(item))
        case Asked.MAX:
            return greatest(_argument(item))
        case Asked.QUANTILE:
            assert item.quantile is not None
            return quantile(_argument(item), item.quantile)


def _argument(item: Item) -> str:
    assert item.argument is not None
    bare = item.argument.removeprefix('"').removesuffix('"')
    # A column alone is passed on by its own name, which messages then show.
    return bare if item.argument == f'"{bare}"' and '"' not in bare else item.argument


def _people(item: Item, unit: Unit) -> Aggregate:
    named = (item.argument or "").strip('"').casefold()
    ids = unit.id if isinstance(unit, Person) else ()
    if named == _PERSON or (len(ids) == 1 and named == ids[0].casefold()):
        return count_people()
    raise InvalidParameter(
        "sql",
        f"COUNT(DISTINCT {item.argument})",
        expected=f"COUNT(DISTINCT {ids[0] if len(ids) == 1 else _PERSON}), which counts people",
    )
