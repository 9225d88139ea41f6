"""Counts, proportions and means from measured tables: the best estimates, and what they cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from tests.synthesis.test_synthesis_budgets import domain_of

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import ZCDP, Guarantee, PureDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.measurements import (
    MeasuredValue,
    Measurements,
    measured_counts,
    noise_deviations,
)
from unacorda.synthesis.model import NoisyMarginal
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.tables import CodedRows

SIZES = (2, 3, 2, 4)
HELD: list[tuple[int, ...]] = [(0,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 1, 3), (1, 3)]


def seen(seed: int) -> list[NoisyMarginal]:
    generator = np.random.default_rng(seed)
    return [
        NoisyMarginal(
            columns=c,
            counts=100 * generator.normal(size=[SIZES[a] for a in c]),
            variance=float(generator.uniform(1, 50)),
        )
        for c in HELD
    ]


def indicators(columns: tuple[int, ...]) -> NDArray[Any]:
    """Of each cell over the columns which cells over all columns it is the sum of."""
    places = np.indices(SIZES).reshape(len(SIZES), -1)
    of = np.ravel_multi_index([places[a] for a in columns], [SIZES[a] for a in columns])
    cells = np.arange(math.prod(SIZES[a] for a in columns))
    return np.asarray(cells[:, None] == of, float)


@pytest.mark.parametrize("columns", HELD)
def test_estimates_are_those_of_generalized_least_squares(columns: tuple[int, ...]) -> None:
    """Over all cells of all columns at once, by a pseudoinverse."""
    tables = seen(len(columns))
    design = np.concatenate([indicators(t.columns) / math.sqrt(t.variance) for t in tables])
    target = np.concatenate([t.counts.ravel() / math.sqrt(t.variance) for t in tables])
    inverse = np.linalg.pinv(design.T @ design)
    wanted = indicators(columns)
    found = measured_counts(tables, columns, sizes=SIZES)
    assert found is not None
    expected = wanted @ inverse @ design.T @ target
    np.testing.assert_allclose(found.counts.ravel(), expected, rtol=1e-9, atol=1e-9)
    covariance = wanted @ inverse @ wanted.T
    for first, second in itertools.product(np.eye(len(wanted)), repeat=2):
        one, two = (x.reshape(found.counts.shape) for x in (first, second))
        assert found.covariance(one, two) == pytest.approx(first @ covariance @ second, abs=1e-9)
    assert found.standard_error == pytest.approx(math.sqrt(covariance[0, 0]))


def test_columns_that_no_table_holds_have_no_estimate() -> None:
    assert measured_counts(seen(1), (2, 3), sizes=SIZES) is None


def test_intervals_of_ratios_end_where_the_noise_does() -> None:
    found = measured_counts(seen(3), (0, 1), sizes=SIZES)
    assert found is not None
    top, bottom = np.zeros((2, 3)), np.ones((2, 3))
    top[1, 2] = 1.0
    found.counts[:] = np.array([[40.0, 50, 60], [70, 80, 90]])
    ratio = found.ratio([top] * 3, bottom, limits=(0.0, 1.0), deviations=1.7, confidence=0.9)
    assert ratio.value == pytest.approx(90 / 390)
    for end in (ratio.lower, ratio.upper):
        apart = top - end * bottom
        within = 1.7 * math.sqrt(found.covariance(apart, apart))
        assert abs((apart * found.counts).sum()) == pytest.approx(within)
    assert str(ratio).startswith("0.2308 (")


def test_a_divisor_that_noise_hides_leaves_everything_possible() -> None:
    found = measured_counts(seen(3), (0,), sizes=SIZES)
    assert found is not None
    for counts in ([1.0, 0.5], [-3.0, 1.0]):
        found.counts[:] = counts
        ratio = found.ratio(
            [np.array([1.0, 0])] * 3, np.ones(2), limits=(0, 1), deviations=2.0, confidence=0.95
        )
        assert (ratio.lower, ratio.upper) == (0, 1)
        assert math.isnan(ratio.value) == (sum(counts) <= 0)


def test_sums_of_laplace_noises_are_within_the_deviations_of_a_single_one() -> None:
    """By partial fractions of their law, for even and uneven weights."""
    generator = np.random.default_rng(1)
    for confidence in (0.95, 0.99, 0.999):
        z = noise_deviations(confidence, laplace=True)
        assert z == pytest.approx(-math.log(1 - confidence) / math.sqrt(2))
        for count in (2, 3, 5):
            for _ in range(20):
                weights = np.sort(generator.dirichlet(np.full(count, 0.7))) + 1e-3
                weights = np.sqrt(weights / weights.sum() / 2) * (1 + 1e-7 * np.arange(count))
                beyond = sum(
                    math.exp(-z / one)
                    * math.prod(one**2 / (one**2 - two**2) for two in weights if two != one)
                    for one in weights
                )
                assert beyond <= (1 - confidence) * (1 + 1e-4)
    assert noise_deviations(0.5, laplace=True) == noise_deviations(0.5, laplace=False)


AGES = BinnedColumn(name="age", edges=(0, 20, 40, 90), whole=True, missing=True)
SEX = CategoryColumn(name="sex", values=("F", "M"), other=None)
PLACE = CategoryColumn(name="place", values=("a", "b", "c", "d"), other=None)


def people(rows: int = 1500, unit: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes, and ages, of rows that come `unit` times each."""
    generator = np.random.default_rng(1)
    ages = np.clip(generator.gamma(4, 9, rows).round(), 0, 90)
    ages[generator.random(rows) < 0.05] = np.nan
    sex = (generator.random(rows) < np.where(ages > 35, 0.7, 0.3)).astype(int)
    place = generator.integers(0, 1 << 16, rows) // ((1 + sex) * (1 << 14))
    codes = np.stack([AGES.encode(ages), sex, place], axis=1)
    return np.repeat(codes, unit, axis=0), np.repeat(ages, unit)


def released(seed: int, *, unit: int, budget: Guarantee) -> SyntheticTable:
    codes, _ = people(unit=unit)
    domain = Domain(columns=(AGES, SEX, PLACE))
    return synthesize(
        CodedRows(codes, sizes=domain.sizes),
        SynthesisPlan(domain=domain, report=0, workload=2),
        budget=budget,
        rows_per_unit=unit,
        neighbors=ReplaceOne if unit > 1 else AddRemove,
        bits=SeededBits(seed),
    )


ASKED: dict[str, Callable[[Measurements], MeasuredValue]] = {
    "count": lambda one: one.count({"sex": "F"}),
    "share": lambda one: one.proportion({"place": "b"}),
    "women": lambda one: one.proportion({"place": "b"}, where={"sex": "F"}),
    "age": lambda one: one.mean("age"),
    "age of women": lambda one: one.mean("age", where={"sex": ["F"]}),
}


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [ZCDP("0.02"), PureDP("0.3")])
@pytest.mark.parametrize("unit", [1, 5])
def test_intervals_cover_the_numbers_of_the_data(unit: int, budget: Guarantee) -> None:
    """400 releases, also those whose tables were chosen by earlier answers.

    Each kind covers at least 95% less 5 deviations of the number of hits, false alarm below 1e-6.
    Power: intervals of 0.7 of the width, and so any forgotten factor of k, are rejected.
    """
    codes, ages = people(unit=unit)
    women = codes[:, 1] == 0
    truth = {
        "count": float(women.sum()),
        "share": float((codes[:, 2] == 1).mean()),
        "women": float((codes[women, 2] == 1).mean()),
        "age": float(np.nanmean(ages)),
        "age of women": float(np.nanmean(ages[women])),
    }
    hits = dict.fromkeys(truth, 0)
    asked = dict.fromkeys(truth, 0)
    narrow = dict.fromkeys(truth, 0)
    for seed in range(400):
        found = released(seed, unit=unit, budget=budget).measured
        for name, ask in ASKED.items():
            try:
                answer = ask(found)
            except InvalidParameter:
                continue  # not measured together this time
            asked[name] += 1
            hits[name] += answer.lower <= truth[name] <= answer.upper
            if not name.startswith("age"):
                middle = 0.7 * (answer.upper - answer.value)
                narrow[name] += abs(truth[name] - answer.value) <= middle
    assert min(asked.values()) > 100
    for name, count in asked.items():
        assert binom.cdf(hits[name], count, 0.95) > 1e-7, (name, hits[name] / count)
    for name in ("count", "share"):
        assert binom.cdf(narrow[name], asked[name], 0.95) < 1e-4, name


@pytest.mark.parametrize("end", [0, 1])
def test_the_interval_of_a_mean_counts_the_width_of_the_bins(end: int) -> None:
    """All numbers at one end of their bins: it holds the mean, and hardly more than that."""
    codes, _ = people()
    domain = Domain(columns=(AGES, SEX, PLACE))
    found = synthesize(
        CodedRows(codes, sizes=domain.sizes),
        SynthesisPlan(domain=domain, report=0, workload=2),
        budget=ZCDP(1000),
        rows_per_unit=1,
        neighbors=AddRemove,
        bits=SeededBits(1),
    )
    known = codes[:, 0] < 3
    mean = AGES.ends[end][codes[known, 0]].mean()
    answer = found.measured.mean("age")
    assert answer.lower <= mean <= answer.upper
    assert (answer.lower, answer.upper)[end] == pytest.approx(mean, abs=0.05)
    assert answer.value == pytest.approx(
        (AGES.ends[0] + AGES.ends[1])[codes[known, 0]].mean() / 2, abs=0.05
    )


def test_tables_have_the_measured_counts_next_to_those_of_the_model() -> None:
    found = released(1, unit=1, budget=ZCDP(1))
    table = found.table("sex", "age")
    assert table.labels == (SEX.labels, AGES.labels)
    assert table.measured is not None
    assert table.standard_error is not None
    codes, _ = people()
    exact = CodedRows(codes, sizes=(4, 2, 4)).counts((0, 1)).T
    assert np.abs(table.measured - exact).max() < 6 * table.standard_error
    lines = table.to_dicts()
    assert lines[5]["sex"] == "M"
    assert lines[5]["age"] == "[20, 40)"
    assert lines[5]["count"] == table.counts[1, 1]
    assert lines[5]["measured"] == table.measured[1, 1]
    assert found.measured.count({"sex": "M", "age": 30}).value == pytest.approx(
        lines[5]["measured"]
    )
    assert found.measured.count().value == pytest.approx(found.row_count)


def test_what_was_not_measured_together_is_refused_by_name() -> None:
    found = synthesize(
        CodedRows([[0, 0]] * 50, sizes=(2, 3)),
        SynthesisPlan(domain=domain_of((2, 3)), workload=1),
        budget=ZCDP(1),
        rows_per_unit=1,
        neighbors=AddRemove,
        bits=SeededBits(1),
    )
    assert found.table("c0", "c1").measured is None
    assert found.table("c0", "c1").to_dicts()[0]["measured"] is None
    asked: list[tuple[str, Any]] = [
        ("columns", lambda one: one.proportion({"c0": 1}, where={"c1": 2})),
        ("columns", lambda one: one.proportion({"c9": 1})),
        ("c0", lambda one: one.count({"c0": 5})),
        ("event", lambda one: one.proportion({})),
        ("column", lambda one: one.mean("c0")),
        ("confidence", lambda one: one.count(confidence=1)),
    ]
    for argument, ask in asked:
        with pytest.raises(InvalidParameter) as caught:
            ask(found.measured)
        assert caught.value.argument == argument
    assert "1 tables" not in repr(found.measured)
