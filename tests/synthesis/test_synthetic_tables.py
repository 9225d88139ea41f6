"""Synthetic tables as a whole: constraints, conditions, errors that cover, and accuracy."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from tests.synthesis.test_synthesis_budgets import domain_of, released
from tests.tiers import mostly_long

import unacorda
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import ZCDP, PureDP
from unacorda.privacy.neighbors import AddRemove
from unacorda.synthesis.charges import shares_within
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.measured_errors import measure_errors
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import SyntheticTable, synthesize
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import CodedRows, PrivateTables

DATA = Path(unacorda.__file__).parent / "cli" / "data"
FLIGHTS, PUMS = DATA / "flights.parquet", DATA / "pums.csv"


def synthetic_of(
    codes: Any, domain: Domain, *, rho: Any = 1, seed: int = 1, **choices: Any
) -> SyntheticTable:
    return synthesize(
        CodedRows(codes, sizes=domain.sizes),
        SynthesisPlan(domain=domain, **choices),
        budget=ZCDP(rho),
        rows_per_unit=1,
        neighbors=AddRemove,
        bits=SeededBits(seed),
    )


@cache
def flights() -> tuple[NDArray[np.int64], Domain]:
    """Month, hour, carrier, origin, delay and distance of each flight."""
    query = f"SELECT month, hour, carrier, origin, dep_delay, distance FROM '{FLIGHTS}'"
    table = duckdb.connect().execute(query).fetchnumpy()
    names = ("month", "hour", "carrier", "origin")
    listed = [
        CategoryColumn(name=name, values=tuple(sorted(set(table[name].tolist()))), other=None)
        for name in names
    ]
    delays = (-60.0, -10, -5, -2, 0, 5, 15, 30, 60, 120, 1500)
    domain = Domain(
        columns=(
            *listed,
            BinnedColumn(name="dep_delay", edges=delays, whole=True, missing=True),
            BinnedColumn(name="distance", edges=(0.0, 200, 500, 750, 1000, 1500, 2500, 5000)),
        )
    )
    columns = [
        column.encode(np.ma.filled(np.ma.asarray(table[column.name], dtype=float), np.nan))
        if isinstance(column, BinnedColumn)
        else column.encode(np.asarray(table[column.name]))
        for column in domain.columns
    ]
    return np.stack(columns, axis=1), domain


def mean_error(codes: NDArray[np.int64], found: SyntheticTable, *, columns: int) -> float:
    """The mean total variation of the rows' tables over this many columns."""
    sizes = found.plan.domain.sizes
    true, synthetic = CodedRows(codes, sizes=sizes), CodedRows(found.codes, sizes=sizes)
    errors = [
        np.abs(true.counts(c) / len(codes) - synthetic.counts(c) / len(found.codes)).sum() / 2
        for c in itertools.combinations(range(len(sizes)), columns)
    ]
    return float(np.mean(errors))


def first_columns(count: int) -> tuple[NDArray[np.int64], Domain]:
    codes, domain = flights()
    return codes[:, :count], Domain(columns=domain.columns[:count])


@pytest.mark.long
@pytest.mark.statistical
def test_tables_of_few_columns_beat_independent_columns() -> None:
    codes, domain = first_columns(4)
    found = synthetic_of(codes, domain, rho="0.01")
    independent = synthetic_of(codes, domain, rho="0.01", workload=1)
    for columns in (2, 3):
        ours, theirs = (mean_error(codes, one, columns=columns) for one in (found, independent))
        assert ours < theirs / 2


@pytest.mark.slow
@pytest.mark.statistical
def test_tables_of_two_and_three_columns_beat_independent_columns() -> None:
    codes, domain = flights()
    found = synthetic_of(codes, domain, rho="0.1")
    independent = synthetic_of(codes, domain, rho="0.1", workload=1)
    assert mean_error(codes, found, columns=2) < mean_error(codes, independent, columns=2) / 3
    assert mean_error(codes, found, columns=3) < mean_error(codes, independent, columns=3) / 3
    assert mean_error(codes, found, columns=3) < 0.06
    assert len(found.codes) == pytest.approx(len(codes), abs=500)


@pytest.mark.slow
@pytest.mark.statistical
def test_few_rows_are_no_worse_for_tables_that_noise_drowns() -> None:
    generator = np.random.default_rng(3)
    trait = generator.normal(size=(1_000, 1)) + generator.normal(size=(1_000, 6))
    sizes = (20, 2, 16, 6, 18, 2)
    ends = [np.linspace(-3, 3, size + 1)[1:-1] for size in sizes]
    codes = np.stack([np.searchsorted(end, trait[:, a]) for a, end in enumerate(ends)], axis=1)
    domain = domain_of(sizes)
    choices: list[dict[str, Any]] = [{}, {"workload": 1}]
    ratios = {}
    for rho in ("0.002", "0.01", "0.1", "1"):
        errors = [
            mean_error(codes, synthetic_of(codes, domain, rho=rho, seed=seed, **choice), columns=3)
            for choice in choices
            for seed in range(4)
        ]
        ratios[rho] = sum(errors[:4]) / sum(errors[4:])
    assert max(ratios.values()) < 1.05
    assert ratios["1"] < 0.85


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("rho", "error"), [("0.01", 0.291), ("0.1", 0.207), ("1", 0.144)])
def test_the_model_of_pums_errs_as_the_proofs_say(rho: str, error: float) -> None:
    """Means of 5 seeds, as in docs/proofs/synthesis.md, section 3: at most 5% more."""
    names = ("age", "sex", "educ", "race", "income", "married")
    table = duckdb.connect().execute(f"SELECT {', '.join(names)} FROM '{PUMS}'").fetchnumpy()
    columns: list[NDArray[np.int64]] = []
    for name in names:
        values = np.asarray(table[name], float)
        if name in {"age", "income"}:
            edges = np.linspace(values.min(), values.max(), 21)
            columns.append(np.searchsorted(edges[1:-1], values, side="right"))
        else:
            columns.append(np.unique(values, return_inverse=True)[1])
    codes = np.stack(columns, axis=1)
    domain = domain_of(tuple((codes.max(axis=0) + 1).tolist()))
    source = CodedRows(codes, sizes=domain.sizes)
    errors = []
    for seed in range(100, 105):
        model = synthetic_of(codes, domain, rho=rho, seed=seed, report=0).model
        for held in itertools.combinations(range(len(names)), 3):
            off = model.marginal(held) - source.counts(held) / len(codes)
            errors.append(np.abs(off).sum() / 2)
    assert np.mean(errors) < 1.05 * error


@pytest.mark.long
@pytest.mark.statistical
def test_errors_of_the_release_are_near_those_it_has() -> None:
    codes, domain = first_columns(4)
    found = synthetic_of(codes, domain, rho="0.1", workload=2)
    assert found.errors is not None
    true = mean_error(codes, found, columns=2)
    assert found.errors.mean.lower <= true <= found.errors.mean.upper
    assert found.errors.mean.upper - found.errors.mean.lower < 0.001
    one = found.errors.of("origin", "carrier")
    assert one.columns == ("carrier", "origin")
    with pytest.raises(InvalidParameter, match=r"month and hour; .*; \.\.\.|month and hour"):
        found.errors.of("origin")


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [ZCDP("0.01"), PureDP("0.2")])
@pytest.mark.parametrize("unit", mostly_long([5, 1]))
def test_intervals_of_errors_cover_as_they_promise(unit: int, budget: Any) -> None:
    """Above the promise less 5 deviations of the number of hits, false alarm below 1e-6.

    Power: intervals of 0.7 of the width, and so the noise forgotten of k, are rejected.
    """
    generator = np.random.default_rng(1)
    sizes = (3, 4, 2)
    codes = generator.integers(0, sizes, size=(400, 3))
    rows = generator.integers(0, [2, 4, 2], size=(400, 3))
    tables = [(0,), (0, 1), (1, 2), (0, 1, 2)]
    true = [
        np.abs(
            CodedRows(codes, sizes=sizes).counts(c) - CodedRows(rows, sizes=sizes).counts(c)
        ).sum()
        / 800
        for c in tables
    ]
    shares = shares_within(budget)
    hits = narrow = mean_hits = 0
    runs = 500
    for seed in range(runs):
        private = PrivateTables(
            CodedRows(codes, sizes=sizes),
            sensitivity=CountSensitivity(rows=unit, neighbors=AddRemove),
            shares=shares,
            bits=SeededBits(seed),
        )
        found = measure_errors(
            private, rows, domain=domain_of(sizes), tables=tables, count=400, amount=shares.total
        )
        for value, one in zip(true, found.tables, strict=True):
            hits += one.lower <= value <= one.upper
            half = (one.upper - one.error) if one.upper < 1 else (one.error - one.lower)
            narrow += abs(one.error - value) <= 0.7 * half
        mean_hits += found.mean.lower <= np.mean(true) <= found.mean.upper
    trials = runs * len(tables)
    assert binom.cdf(hits, trials, 0.95) > 1e-7
    assert binom.cdf(mean_hits, runs, 0.95) > 1e-7
    assert binom.cdf(narrow, trials, 0.95) < 1e-7


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("unit", [1, 5])
def test_intervals_of_the_errors_of_whole_releases_cover(unit: int) -> None:
    """Of 200 releases: within 3% of what is promised, for each table and for the mean of all.

    Deviations of the share of hits are 0.9% (600 intervals) and 1.5% (200).
    """
    generator = np.random.default_rng(1)
    first = generator.integers(0, 4, size=2000)
    codes = np.stack([first, first // 2 ^ (generator.random(2000) < 0.2), first % 3], axis=1)
    domain = domain_of((4, 2, 3))
    hits, means = [], []
    for seed in range(200):
        found = synthesize(
            CodedRows(codes, sizes=domain.sizes),
            SynthesisPlan(domain=domain, workload=2, report=Fraction(1, 5)),
            budget=ZCDP(Fraction(unit**2, 10)),
            rows_per_unit=unit,
            neighbors=AddRemove,
            bits=SeededBits(seed),
        )
        assert found.errors is not None
        drawn = CodedRows(found.codes, sizes=domain.sizes)
        true = [
            np.abs(CodedRows(codes, sizes=domain.sizes).counts(c) - drawn.counts(c)).sum() / 4000
            for c in found.plan.tables
        ]
        pairs = zip(found.errors.tables, true, strict=True)
        hits += [one.lower <= value <= one.upper for one, value in pairs]
        means.append(found.errors.mean.lower <= np.mean(true) <= found.errors.mean.upper)
    assert np.mean(hits) == pytest.approx(0.95, abs=0.03)
    assert np.mean(means) == pytest.approx(0.95, abs=0.035)


def test_rows_that_never_are_do_not_appear() -> None:
    codes = [[0, 0, 0]] * 200 + [[1, 1, 1]] * 200 + [[0, 1, 0]] * 30
    found = synthetic_of(
        codes,
        domain_of((2, 2, 2)),
        never=[{"c0": 0, "c1": 1}, {"c0": 1, "c2": [0]}],
        rho="0.01",
    )
    rows = found.codes
    assert not ((rows[:, 0] == 0) & (rows[:, 1] == 1)).any()
    assert not ((rows[:, 0] == 1) & (rows[:, 2] == 0)).any()
    more = found.sample(3000, seed=5)
    assert not ((more["c0"] == 0) & (more["c1"] == 1)).any()
    assert found.table("c1", "c0").counts[1, 0] == 0


def test_conditions_hold_for_sampled_rows() -> None:
    found = released(ZCDP(1), rows=2000)
    rows = found.sample(500, where={"c1": [1, 2], "c0": 1}, seed=2)
    assert set(rows["c1"].tolist()) <= {1, 2}
    assert set(rows["c0"].tolist()) == {1}
    again = found.sample(500, where={"c1": [1, 2], "c0": 1}, seed=2)
    assert all((rows[name] == again[name]).all() for name in rows)


def test_conditions_that_are_none_or_leave_nothing_are_refused_by_name() -> None:
    found = released(ZCDP(1), rows=2000, never=[{"c0": 0, "c1": 1}])
    refused: list[tuple[str, Callable[[], object]]] = [
        ("where", lambda: found.sample(5, where="c0 = 1")),  # type: ignore[arg-type]
        ("where", lambda: found.sample(5, where={"c0": 0, "c1": 1})),
        ("where", lambda: found.measured.count("c0 = 1")),  # type: ignore[arg-type]
        ("where", lambda: found.measured.proportion({"c0": 1}, where=["c1"])),  # type: ignore[arg-type]
        ("event", lambda: found.measured.proportion("c0")),  # type: ignore[arg-type]
        ("c0", lambda: found.sample(5, where={"c0": 7})),
    ]
    for argument, ask in refused:
        with pytest.raises(InvalidParameter) as caught:
            ask()
        assert caught.value.argument == argument


def test_seeded_bits_repeat_the_release_and_the_order_of_rows_changes_nothing() -> None:
    codes = np.random.default_rng(1).integers(0, [2, 3, 4], size=(300, 3))
    one = synthetic_of(codes, domain_of((2, 3, 4)))
    two = synthetic_of(codes[::-1], domain_of((2, 3, 4)))
    assert (one.codes == two.codes).all()
    assert one.errors == two.errors


@pytest.mark.parametrize(
    "codes",
    [np.zeros((0, 3), np.int64), [[1, 1, 1]], [[1, 2, 3]] * 50],
    ids=["none", "one", "same"],
)
def test_tables_of_few_rows_are_synthesized(codes: Any) -> None:
    found = synthetic_of(codes, domain_of((2, 3, 4)), rho="0.5")
    assert found.codes.shape[1] == 3
    assert len(found.codes) == max(round(found.row_count), 0)
    assert np.isfinite(found.table("c0", "c1", "c2").counts).all()


def test_a_table_of_one_column_of_one_cell_is_synthesized() -> None:
    found = synthetic_of([[0]] * 20, domain_of((1,)), rho=5)
    assert found.table("c0").counts.tolist() == [pytest.approx(found.row_count)]


def test_counts_of_the_model_have_axes_in_the_order_of_the_names() -> None:
    found = released(ZCDP(1), rows=2000)
    assert found.table("c2", "c0").counts.shape == (4, 2)
    assert (found.table("c2", "c0").counts == found.table("c0", "c2").counts.T).all()
    assert found.table("c0").counts.sum() == pytest.approx(found.row_count)
    assert found.table("c0").standard_error is not None
    for names in [("c9",), ("c0", "c0")]:
        with pytest.raises(InvalidParameter):
            found.table(*names)


def test_fewer_rows_than_the_data_have_keep_errors_in_the_data_s_scale() -> None:
    half = synthetic_of(
        np.random.default_rng(3).integers(0, [2, 3], size=(4000, 2)),
        domain_of((2, 3)),
        rows=1000,
        workload=2,
        report=Fraction(1, 4),
    )
    assert len(half.codes) == 1000
    assert half.errors is not None
    assert half.errors.mean.error < 0.05
