"""What is foreseen of a synthesis is what it does."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.synthesis.test_synthesis_budgets import domain_of

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, PureDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne
from unacorda.synthesis.forecast import forecast
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import synthesize
from unacorda.synthesis.tables import CodedRows

SIZES = (2, 3, 4)


def plan_of(**choices: Any) -> SynthesisPlan:
    return SynthesisPlan(domain=domain_of(SIZES), **{"workload": 2} | choices)


@pytest.mark.parametrize("budget", [ZCDP("0.5"), PureDP(2)])
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_the_noise_is_the_one_that_was_foreseen(budget: Any, neighbors: Any) -> None:
    given: dict[str, Any] = {"budget": budget, "rows_per_unit": 3, "neighbors": neighbors}
    codes = np.random.default_rng(1).integers(0, SIZES, size=(4000, 3))
    seen = forecast(plan_of(), **given)
    found = synthesize(CodedRows(codes, sizes=SIZES), plan_of(), bits=SeededBits(1), **given)
    assert found.rounds[0].deviation == seen.table_deviation
    assert seen.columns == {"c0": 2, "c1": 3, "c2": 4}
    assert (seen.tables, seen.candidates, seen.planned) == (3, 3, 12)
    assert repr(seen.event) == repr(found.event)
    alone = synthesize(
        CodedRows(codes, sizes=SIZES), plan_of(workload=1), bits=SeededBits(1), **given
    )
    single = forecast(plan_of(workload=1), **given)
    assert alone.marginals[(0,)].variance ** 0.5 == pytest.approx(single.single_deviation)
    assert single.table_deviation is None
    assert found.errors is not None
    for error, half in [
        (found.errors.tables[0], seen.half_width),
        (found.errors.mean, seen.mean_half_width),
    ]:
        assert half is not None
        reach = max(error.upper - error.error, error.error - error.lower)
        assert reach * found.row_count == pytest.approx(half)


def test_few_rows_have_more_of_the_budget_for_single_columns() -> None:
    budget: Any = {"budget": ZCDP("0.01"), "rows_per_unit": 1, "neighbors": AddRemove}
    many, few, fewest = (forecast(plan_of(), assuming=n, **budget) for n in (10**6, 500, 10))
    assert many.single_deviation > few.single_deviation > fewest.single_deviation
    assert many.single_deviation == forecast(plan_of(), **budget).single_deviation
    # Three cells in the mean, of which noise moves half: at most 5 in 100 rows.
    assert 3 * few.single_deviation * math.sqrt(2 / math.pi) / 2 <= 500 / 20
    ratio = (many.single_deviation / fewest.single_deviation) ** 2
    assert ratio == pytest.approx(7, rel=1e-3)  # tenths at most
    codes = np.random.default_rng(1).integers(0, SIZES, size=(500, 3))
    found = synthesize(CodedRows(codes, sizes=SIZES), plan_of(), bits=SeededBits(1), **budget)
    assert found.rounds[0].deviation == few.table_deviation


def test_errors_on_an_assumed_table_are_those_of_a_release() -> None:
    generator = np.random.default_rng(1)
    first = generator.integers(0, 12, size=3_000)
    codes = np.stack([first % size for size in SIZES], axis=1)
    given: dict[str, Any] = {"rows_per_unit": 2, "neighbors": ReplaceOne}
    public = CodedRows(codes, sizes=SIZES)
    errors = []
    for rho in ("0.001", "0.1"):
        seen = forecast(plan_of(), budget=ZCDP(rho), assuming=public, **given)
        assert len(set(seen.expected_errors)) == 3
        assert seen.expected_error is not None
        released = [
            synthesize(public, plan_of(), budget=ZCDP(rho), bits=SeededBits(seed), **given)
            for seed in range(10, 14)
        ]
        measured = [
            np.mean(
                [
                    np.abs(public.counts(c) - CodedRows(one.codes, sizes=SIZES).counts(c)).sum()
                    for c in ((0, 1), (0, 2), (1, 2))
                ]
            )
            / 6_000
            for one in released
        ]
        assert 1 / 3 < seen.expected_error / float(np.mean(measured)) < 3
        assert f"mean error of a table {seen.expected_error:.4f}" in str(seen)
        errors.append(seen.expected_error)
    assert errors[1] < errors[0] / 3
    assert forecast(plan_of(), budget=ZCDP(1), assuming=9, **given).expected_error is None
    empty = CodedRows(np.zeros((0, 3), np.int64), sizes=SIZES)
    nothing = forecast(plan_of(), budget=ZCDP(1), assuming=empty, **given)
    assert nothing.expected_error is not None


def test_without_a_report_no_errors_are_foreseen() -> None:
    seen = forecast(plan_of(report=0), budget=ZCDP("0.5"), rows_per_unit=1, neighbors=AddRemove)
    assert seen.half_width is None
    assert "Errors" not in str(seen)


def test_budgets_that_learn_little_are_seen_beforehand() -> None:
    large, small = (
        forecast(plan_of(), budget=ZCDP(rho), rows_per_unit=1, neighbors=AddRemove)
        for rho in (1, Fraction(1, 10**6))
    )
    assert large.rows_needed < 50
    assert small.rows_needed > 10_000
    assert f"{small.rows_needed:,}" in str(small)
    with pytest.raises(InvalidParameter, match="budget"):
        forecast(plan_of(), budget=GDP(0), rows_per_unit=1, neighbors=AddRemove)
