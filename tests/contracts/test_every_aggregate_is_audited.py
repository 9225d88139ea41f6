"""Every aggregate is attacked through a session: no search for an event breaks its promise.

A new aggregate fails here until somebody has said what it is attacked with. Each audit can fail:
where an answer is bought for more than is claimed, it says so.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from tests.contracts.audited_tables import FAR, PAIRS, REPLACED, Pair, crowds, released
from tests.contracts.planted_in_bounds import groups_not_bound
from tests.support.cases import in_subtests
from tests.support.seams import (
    EVERY,
    Aggregate,
    AutomaticSum,
    BinCounts,
    BoundedMean,
    BoundedQuantile,
    BoundedSum,
    BoundedVariance,
    Clamp,
    Consistent,
    Correlation,
    Count,
    CountDistinct,
    CountIf,
    CountPeople,
    Covariance,
    EqualBins,
    Extreme,
    FoundBounds,
    Person,
    Proportion,
    Quantiles,
    QuartileRange,
    Ratio,
    Reach,
    RowsKept,
    RowsPerPerson,
    Sensitivity,
    Top,
    Unit,
    VectorSum,
    WeightedMean,
    aggregates,
    bounding,
    distinct,
    moments,
    of_counts,
    of_ranks,
    of_splits,
    quantiles,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.audit import Finding, search
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.privacy.guarantees import Guarantee

PERSON = unacorda.Person("who", max_rows=2)
REPLACEABLE = unacorda.Person("who", max_rows=2, neighbors=unacorda.ReplaceOne)


@dataclass(frozen=True, kw_only=True)
class Audited:
    """A question, tables that tell of somebody in it, and how many times the claim is too much."""

    ask: Callable[[], Aggregate]
    pairs: Sequence[Pair] = tuple(PAIRS)
    replaced: Sequence[Pair] = tuple(REPLACED)
    louder: int = 4
    margins: bool = False


CROWDED: dict[str, Any] = {"pairs": crowds(), "replaced": crowds(replaced=True)}
TWICE: dict[str, Any] = {
    "pairs": crowds([FAR, FAR]),
    "replaced": crowds([FAR, FAR], replaced=True),
}

AUDITED: Mapping[type[Aggregate], Audited] = {
    Count: Audited(ask=unacorda.count),
    CountPeople: Audited(ask=unacorda.count_people),
    Consistent: Audited(ask=unacorda.count, pairs=PAIRS[:1], replaced=REPLACED[3:4], margins=True),
    CountIf: Audited(ask=lambda: unacorda.count_if("x > 2")),
    BoundedSum: Audited(ask=lambda: unacorda.sum("x", -3, 10)),
    AutomaticSum: Audited(ask=lambda: unacorda.sum("x"), **CROWDED, louder=8),
    BoundedMean: Audited(ask=lambda: unacorda.mean("x", -3, 10)),
    Proportion: Audited(ask=lambda: unacorda.proportion("x > 2")),
    BoundedVariance: Audited(ask=lambda: unacorda.variance("x", 0, 10)),
    Covariance: Audited(ask=lambda: unacorda.covariance("x", "whole", (0, 10), (-4, 9))),
    Correlation: Audited(ask=lambda: unacorda.correlation("x", "whole", (0, 10), (-4, 9))),
    WeightedMean: Audited(ask=lambda: unacorda.weighted_mean("x", "whole", (-3, 10), (0, 9))),
    VectorSum: Audited(ask=lambda: unacorda.vector_sum(["x", "whole"], norm=3)),
    Ratio: Audited(ask=lambda: unacorda.ratio("x", "whole", (0, 10), (0, 9))),
    BoundedQuantile: Audited(ask=lambda: unacorda.median("x", 0, 10, resolution=5)),
    Quantiles: Audited(
        ask=lambda: unacorda.quantiles("x", [0.25, 0.75], 0, 10, resolution=5), louder=8
    ),
    QuartileRange: Audited(ask=lambda: unacorda.iqr("x", 0, 10, resolution=5), louder=8),
    BinCounts: Audited(ask=lambda: unacorda.histogram("x", [-3, 0, 0.1, 3, 10])),
    EqualBins: Audited(
        ask=lambda: unacorda.histogram("x", bins=3, lower=-10, upper=10, resolution=2.5)
    ),
    CountDistinct: Audited(ask=lambda: unacorda.count_distinct("x")),
    Top: Audited(ask=lambda: unacorda.top("note", 2, ["z", "", "abc", "-2", "none"])),
    Extreme: Audited(ask=lambda: unacorda.max("x", 0, 10, resolution=5), **CROWDED, louder=8),
    FoundBounds: Audited(ask=lambda: unacorda.find_bounds("x"), **TWICE, louder=12),
    # One answer for all groups: copies in groups would share it.
    RowsKept: Audited(
        ask=unacorda.rows_kept, pairs=PAIRS[:2], replaced=REPLACED[:2], louder=20, margins=True
    ),
    RowsPerPerson: Audited(ask=lambda: RowsPerPerson(most=50), **TWICE, louder=8),
}


def unaudited(members: Iterable[type], audits: Collection[type]) -> set[str]:
    return {member.__name__ for member in members} ^ {audit.__name__ for audit in audits}


def written() -> set[type[Aggregate]]:
    """Every aggregate in the package, listed or not."""
    found: set[type[Aggregate]] = set()
    for module in pkgutil.iter_modules(aggregates.__path__, f"{aggregates.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, Aggregate):
                found.add(value)
    return {one for one in found if not inspect.isabstract(one)}


def audited(
    audit: Audited,
    *,
    unit: Unit = PERSON,
    claim: Guarantee,
    spent: Guarantee | None = None,
    explore: int = 600,
    confirm: int = 2000,
) -> Finding:
    """What a search finds; a claim that holds is called violated with probability 1e-6."""
    if audit.margins:  # asked one by one, which takes longer
        explore, confirm = 200, 200
    return search(
        released(audit.ask, unit=unit, budget=spent or claim, margins=audit.margins),
        audit.pairs if unit.neighbors is unacorda.AddRemove else audit.replaced,
        claim=claim,
        explore=explore,
        confirm=confirm,
    )


def test_every_aggregate_has_an_audit() -> None:
    assert len(written()) >= 20
    assert unaudited(written(), AUDITED) == set()
    # What `margins` makes of counts and sums is no word of its own for `agg`.
    assert unaudited([*EVERY, Consistent], AUDITED) == set()


def test_one_without_an_audit_would_be_named() -> None:
    class Unknown:
        """An aggregate that nobody attacks."""

    assert unaudited([*AUDITED, Unknown], AUDITED) == {"Unknown"}
    assert unaudited(AUDITED, [kind for kind in AUDITED if kind is not BoundedSum]) == {
        "BoundedSum"
    }


@in_subtests("kind", AUDITED)
def test_every_audit_asks_its_aggregate(kind: type[Aggregate]) -> None:
    table = {"who": [1], "region": ["a"], "x": [1.5], "whole": [2], "note": ["z"]}
    unit = unacorda.Person("who", max_rows=2)
    pandas = pytest.importorskip("pandas")
    with unacorda.Session(
        {"t": pandas.DataFrame(table)}, unit=unit, budget=unacorda.PureDP(1)
    ) as session:
        rows: Any = session.table("t")
        if AUDITED[kind].margins:
            rows = rows.group_by("region", keys=["a", "b"], margins="rollup")
        query = rows.agg(answer=AUDITED[kind].ask())
    assert [type(found) for found in query.aggregates.values()] == [kind]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(AUDITED))
def test_no_search_breaks_an_aggregate(kind: type[Aggregate]) -> None:
    found = audited(AUDITED[kind], claim=unacorda.PureDP(2))
    assert not found.violated, repr(found)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("kind", AUDITED)
def test_no_search_breaks_an_aggregate_where_people_are_replaced(kind: type[Aggregate]) -> None:
    found = audited(AUDITED[kind], unit=REPLACEABLE, claim=unacorda.GDP(1))
    assert not found.violated, repr(found)


@pytest.mark.parametrize("kind", mostly_slow(AUDITED))
def test_an_answer_bought_for_more_than_is_claimed_is_found(kind: type[Aggregate]) -> None:
    claim = unacorda.PureDP(2)
    found = audited(AUDITED[kind], claim=claim, spent=claim * AUDITED[kind].louder)
    assert found.violated, repr(found)


def _half_the_noise(patch: pytest.MonkeyPatch) -> None:
    # Drawn at half the scale that was paid for: what is paid for less is refused by the account.
    right = DiscreteLaplace.release_exact

    def wrong(self: DiscreteLaplace, value: Any, *, bits: Any = None) -> Any:
        return right(dataclasses.replace(self, scale=Fraction(self.scale) / 2), value, bits=bits)

    patch.setattr(DiscreteLaplace, "release_exact", wrong)


def _people_not_bound(patch: pytest.MonkeyPatch) -> None:
    right = bounding.bound_rows

    def wrong(rows: str, *, unit: Person, salt: int, **given: Any) -> str:
        return right(rows, unit=unit.found(1_000), salt=salt, **given)

    patch.setattr("unacorda.query.engines.compile.bound_rows", wrong)


def _clamped_too_far_out(patch: pytest.MonkeyPatch) -> None:
    right = Clamp.sql

    def wrong(clamp: Clamp, value: str) -> str:
        wider = dataclasses.replace(clamp, lower=clamp.lower * 4, upper=clamp.upper * 4)
        return right(wider, value)

    patch.setattr(Clamp, "sql", wrong)


def _a_replaced_person_counts_once(patch: pytest.MonkeyPatch) -> None:
    right = Reach.of

    def wrong(unit: Any, *, cells: int, most: int | None = None) -> Reach:
        rows = right(unit, cells=cells, most=most).rows
        return Reach.within(max_rows=rows, cells=cells, replaced=False)

    patch.setattr(Reach, "of", staticmethod(wrong))


def _a_count_of_a_mean_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def wrong(reach: Reach, *, width: int) -> Sensitivity:
        told = of_splits(reach, width=width)
        return dataclasses.replace(told, l1=told.l1 / 4, l2_squared=told.l2_squared / 16)

    patch.setattr(moments, "of_splits", wrong)


def _a_quarter_of_a_rank(patch: pytest.MonkeyPatch) -> None:
    def wrong(reach: Reach, *, quantile: Fraction) -> Sensitivity:
        told = of_ranks(reach, quantile=quantile)
        return dataclasses.replace(told, l1=told.l1 / 4, l2_squared=told.l2_squared / 16)

    patch.setattr(quantiles, "of_ranks", wrong)


def _one_value_of_a_person(patch: pytest.MonkeyPatch) -> None:
    one = Reach.within(max_rows=1, cells=1, replaced=False)
    patch.setattr(distinct, "of_counts", lambda _: of_counts(one))


ONE_GROUP = unacorda.Person("who", max_groups=1, max_rows_per_group=1)
FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], type[Aggregate], Unit]] = {
    "half the noise": (_half_the_noise, Count, PERSON),
    "people not bound": (_people_not_bound, BoundedSum, PERSON),
    "groups not bound": (groups_not_bound, CountPeople, ONE_GROUP),
    "clamped too far out": (_clamped_too_far_out, BoundedSum, PERSON),
    "a replaced person counts once": (_a_replaced_person_counts_once, Count, REPLACEABLE),
    "the count of a mean for nothing": (_a_count_of_a_mean_for_nothing, BoundedMean, PERSON),
    "a quarter of a rank": (_a_quarter_of_a_rank, BoundedQuantile, PERSON),
    "one value of a person": (_one_value_of_a_person, CountDistinct, PERSON),
}


@pytest.mark.parametrize("name", mostly_slow(FAULTS))
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, kind, unit = FAULTS[name]
    claim = unacorda.PureDP(2)
    assert not audited(AUDITED[kind], unit=unit, claim=claim, confirm=600).violated
    fault(monkeypatch)
    found = audited(AUDITED[kind], unit=unit, claim=claim, confirm=4000)
    assert found.violated, repr(found)
