"""The tests on neighboring tables find what they are for: faults that are planted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from tests.query.neighbor_moves import (
    EVERY,
    UNITS,
    Moves,
    moves_of,
    open_session,
    rows_of_others,
)
from tests.query.neighbor_tables import make_pairs
from tests.support.planting import plant
from tests.support.seams import (
    Clamp,
    Person,
    Reach,
    Sensitivity,
    bound_pairs,
    bound_rows,
    chains,
    compiler,
    cutting,
    distinct,
    double,
    of_balls,
    of_counts,
    of_people,
    of_ranks,
    of_splits,
    of_sums,
    of_vectors,
    quantiles,
    ranks,
    splits,
    steps_of,
)

from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne


def _one_row_too_many(patch: pytest.MonkeyPatch) -> None:
    right = bound_rows

    def wrong(rows: str, *, unit: Person, salt: int, **given: Any) -> str:
        assert unit.max_rows is not None
        more = Person(unit.id, max_rows=unit.max_rows + 1, neighbors=unit.neighbors)
        return right(rows, unit=more, salt=salt, **given)

    plant(patch, bound_rows, wrong)


def _bound_by_cell(patch: pytest.MonkeyPatch) -> None:
    right = bound_rows

    def wrong(rows: str, *, unit: Person, salt: int, **given: Any) -> str:
        each = Person(unit.id, max_groups=1_000, max_rows_per_group=unit.max_rows)
        return right(rows, unit=each, salt=salt, **given)

    plant(patch, bound_rows, wrong)


def _groups_not_bound(patch: pytest.MonkeyPatch) -> None:
    def wrong(unit: Person, *, cells: int) -> Any:
        return dataclasses.replace(steps_of(unit, cells=cells), groups=None)

    plant(patch, steps_of, wrong)


def _pairs_not_bound(patch: pytest.MonkeyPatch) -> None:
    def wrong(rows: str, *, most: int | None, **others: Any) -> str:
        del most
        return bound_pairs(rows, most=None, **others)

    plant(patch, bound_pairs, wrong)


def _rows_of_a_group_not_bound(patch: pytest.MonkeyPatch) -> None:
    def wrong(unit: Person, *, cells: int) -> Any:
        return dataclasses.replace(steps_of(unit, cells=cells), each=None)

    plant(patch, steps_of, wrong)


def _every_key_for_every_row(patch: pytest.MonkeyPatch) -> None:
    right = compiler._join_keys
    patch.setattr(
        compiler,
        "_join_keys",
        lambda query: right(query).replace('AND steps."region', 'OR steps."region'),
    )


def _rounding_after_clamping(patch: pytest.MonkeyPatch) -> None:
    def wrong(clamp: Clamp, value: str) -> str:
        # The bounds as the caller wrote them, 2.5 of whole numbers: it becomes 3.
        inside = f"greatest(least({value}, 2.5e0), {double(-0.25)})"
        return f"CASE WHEN {value} IS NOT NULL THEN CAST(round({inside}) AS BIGINT) END"

    patch.setattr("unacorda.query.aggregates.measures.grid_unit", lambda *_, **__: 0)
    patch.setattr(Clamp, "sql", wrong)


def _a_replaced_person_counts_once(patch: pytest.MonkeyPatch) -> None:
    right = Reach.of

    def wrong(unit: Any, *, cells: int, most: int | None = None) -> Reach:
        rows = right(unit, cells=cells, most=most).rows
        return Reach.within(max_rows=rows, cells=cells, replaced=False)

    patch.setattr(Reach, "of", staticmethod(wrong))


def _the_flatter_side_of_a_quantile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        quantiles,
        "of_ranks",
        lambda reach, *, quantile: of_ranks(
            Reach.within(max_rows=reach.rows, cells=1, replaced=False),
            quantile=Fraction(1, 2) + abs(quantile - Fraction(1, 2)) / 2,
        ),
    )


def _distance_to_the_lower_rank_alone(patch: pytest.MonkeyPatch) -> None:
    def wrong(weights: Any, before: Any, ends: Any, *, q: Fraction, shift: int) -> Any:
        return 2 * before * q.denominator  # a score that a row moves by more than one rank

    patch.setattr(ranks, "_rank_losses", wrong)  # what draws use, and `rank_losses`


def _one_row_of_a_part(patch: pytest.MonkeyPatch) -> None:
    right = splits.moves_of

    def wrong(level: Any, reach: Reach) -> Sensitivity:
        less = Reach.within(max_rows=reach.rows - 1, cells=reach.cells, replaced=reach.replaced)
        return right(level, less)

    patch.setattr(splits, "moves_of", wrong)
    patch.setattr(cutting, "_WORTH", math.inf)  # no chains


def _one_row_of_a_chain(patch: pytest.MonkeyPatch) -> None:
    right = chains.chain_moves

    def wrong(reach: Reach) -> Sensitivity:
        less = Reach.within(max_rows=reach.rows - 1, cells=reach.cells, replaced=reach.replaced)
        return right(less)

    patch.setattr(chains, "chain_moves", wrong)
    patch.setattr(cutting, "_WORTH", -math.inf)  # chains alone


def _distinct_values_of_one_row(patch: pytest.MonkeyPatch) -> None:
    one = Reach.within(max_rows=1, cells=1, replaced=False)
    patch.setattr(distinct, "of_counts", lambda _: of_counts(one))


def _less(moved: Sensitivity) -> Sensitivity:
    """Nine tenths of it."""
    part = Fraction(9, 10)
    return dataclasses.replace(moved, l1=moved.l1 * part, l2_squared=moved.l2_squared * part**2)


def _nine_tenths(right: Callable[..., Sensitivity]) -> Callable[[pytest.MonkeyPatch], None]:
    def fault(patch: pytest.MonkeyPatch) -> None:
        plant(patch, right, lambda *given, **named: _less(right(*given, **named)))

    fault.__name__ = f"nine_tenths_of_{right.__name__}"
    return fault


def _forget() -> None:
    for remembered in (Clamp.of, cutting.finding):
        remembered.cache_clear()


@pytest.mark.parametrize(
    ("fault", "kind", "neighbors", "names"),
    [
        (_one_row_of_a_part, "two rows", AddRemove, ["quartiles", "tails", "close", "iqr"]),
        (_one_row_of_a_chain, "two rows", AddRemove, ["quartiles", "tails", "close", "iqr"]),
        (_distinct_values_of_one_row, "two rows", AddRemove, ["distinct", "distinct_notes"]),
        (_one_row_too_many, "two rows", AddRemove, ["rows", "sum_whole", "mean_whole", "median"]),
        (_bound_by_cell, "three rows", AddRemove, ["rows", "present", "sum_text", "third"]),
        (_groups_not_bound, "two rows in each of two groups", AddRemove, ["rows"]),
        (_pairs_not_bound, "two rows in each of two groups", AddRemove, ["people", "people_who"]),
        (_rows_of_a_group_not_bound, "two rows in each of two groups", AddRemove, ["rows"]),
        (_every_key_for_every_row, "single rows", AddRemove, ["rows", "people", "mean_text"]),
        (_rounding_after_clamping, "one row", AddRemove, ["sum_whole_in_parts"]),
        (_a_replaced_person_counts_once, "one row", ReplaceOne, ["rows", "people", "sum_tiny"]),
        (_the_flatter_side_of_a_quantile, "one row", AddRemove, ["low", "high", "least"]),
        (_distance_to_the_lower_rank_alone, "one row", AddRemove, ["median"]),
        (_nine_tenths(of_counts), "two rows", AddRemove, ["rows", "present", "if_large"]),
        (_nine_tenths(of_people), "two rows", AddRemove, ["people", "people_with_note"]),
        (_nine_tenths(of_sums), "two rows", AddRemove, ["sum_whole", "sum_text"]),
        (_nine_tenths(of_splits), "two rows", AddRemove, ["mean_whole", "share_large"]),
        (_nine_tenths(of_vectors), "two rows", AddRemove, ["weighted"]),
        (_nine_tenths(of_balls), "one row", AddRemove, ["vectors_of_one"]),
        (_nine_tenths(of_ranks), "two rows", AddRemove, ["median", "third"]),
    ],
)
def test_planted_faults_are_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    neighbors: Neighbors,
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, limits = UNITS[kind]
    pairs = make_pairs(
        count=80, ids=ids, neighbors=neighbors, rows=limits is None, text=False, seed=3
    )
    aggregates = {name: EVERY[name] for name in names}

    def worst() -> Moves:
        with open_session(pairs, limits=limits, neighbors=neighbors) as session:
            return moves_of(
                session, pipeline="plain", grouped=True, aggregates=aggregates, pairs=80, salt=9
            )

    assert max(worst().values()) <= 1
    fault(monkeypatch)
    _forget()  # what was worked out without the fault, and then with it
    found = worst()
    _forget()
    for name in names:
        assert max(share for (known, _), share in found.items() if known == name) > 1, name


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("PARTITION BY u0", "PARTITION BY hash(u0) % 64"),  # two people share one bound
        ("row_number() OVER rows", "row_number() OVER (ORDER BY u0)"),  # what others own decides
    ],
)
def test_planted_couplings_of_people_are_found(
    was: str, becomes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bound_rows

    def wrong(rows: str, *, unit: Person, salt: int, **given: Any) -> str:
        text = right(rows, unit=unit, salt=salt, **given)
        assert was in text
        return text.replace(was, becomes)

    plant(monkeypatch, bound_rows, wrong)
    before, after = rows_of_others("three rows", AddRemove)
    assert before != after


def test_a_choice_that_is_drawn_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, salts = bound_rows, itertools.count()

    def wrong(rows: str, *, unit: Person, salt: int, **given: Any) -> str:
        return right(rows, unit=unit, salt=next(salts), **given)

    plant(monkeypatch, bound_rows, wrong)
    before, after = rows_of_others("three rows", AddRemove)
    assert before != after
