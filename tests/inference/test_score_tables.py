"""Tables of scores: sensitivities by brute force, numbers against scikit-learn, their intervals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from unacorda import (
    GDP,
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    SeededBits,
    inference,
)
from unacorda.errors import InvalidParameter
from unacorda.inference.diagnostics.cells import NoisyCells, critical
from unacorda.inference.diagnostics.scoring import RowNorms, RowOwners, score_bins, score_edges
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy.neighbors import Neighbors

Floats = NDArray[np.float64]

QUIET = GDP(10**6)
"""A budget whose noise is far below one row."""


def drawn(n: int, *, seed: int = 1, apart: float = 1.19) -> tuple[Floats, NDArray[np.bool_]]:
    """Calibrated scores and labels, 30 % positives, of an area of 0.80."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    z = rng.normal(size=n) + apart * y
    return 1 / (1 + np.exp(-(apart * z - apart**2 / 2 + math.log(3 / 7)))), y


def released_counts(table: inference.ScoreTable) -> Floats:
    return np.concatenate([table.positives, table.negatives, table.missing])


def neighbors_of(rows: tuple[Any, ...], relation: Neighbors, k: int) -> Iterator[tuple[Any, ...]]:
    """Tables in which the last k rows, those of one person, are others, fewer or none."""
    rest = rows[:-k]
    kinds = [(s, c) for s in (0.1, 0.6, math.nan) for c in (0, 1)]
    sizes = [0] if relation is AddRemove else range(k + 1)
    for size in sizes:
        for other in itertools.product(kinds, repeat=size):
            yield (*rest, *other)


@pytest.mark.parametrize("relation", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("k", [1, 2])
def test_sensitivities_are_the_largest_of_all_tables_of_three_rows(
    relation: Neighbors, k: int
) -> None:
    edges = score_edges(2)

    def counts(rows: tuple[Any, ...]) -> Floats:
        scores, codes = (np.array(part) for part in zip(*rows, strict=True)) if rows else ([], [])
        places = np.asarray(codes, dtype=np.int64) * 3 + score_bins(np.asarray(scores), edges)
        return np.bincount(places, minlength=6).astype(float)

    kinds = [(s, c) for s in (0.1, 0.6, math.nan) for c in (0, 1)]
    apart = [
        counts(rows) - counts(other)
        for rows in itertools.product(kinds, repeat=3)
        for other in neighbors_of(rows, relation, k)
    ]
    owners = RowOwners(rows=k, neighbors=relation)
    normal = owners.noise(GDP(1), RowNorms.of_counts())
    laplace = owners.noise(PureDP(1), RowNorms.of_counts())
    assert isinstance(normal, Gaussian)
    assert isinstance(laplace, Laplace)
    l2, l1 = (max(np.linalg.norm(one, order) for one in apart) for order in (2, 1))
    assert l2 <= float(normal.l2_sensitivity) <= l2 * (1 + 1e-12)
    assert float(laplace.l1_sensitivity) == l1


def test_the_noise_is_that_of_the_sensitivity() -> None:
    scores, y = drawn(100)
    for named, factor in (
        ({"neighbors": AddRemove}, 1.0),
        ({"neighbors": ReplaceOne}, math.sqrt(2)),
        ({"neighbors": AddRemove, "rows_per_person": 3}, 3.0),
        ({"neighbors": ReplaceOne, "rows_per_person": 3}, 3 * math.sqrt(2)),
    ):
        table = inference.score_table(None, scores, y, budget=ZCDP(Fraction(1, 8)), **named)
        assert table.deviation == pytest.approx(2 * factor, rel=1e-9)
    whole = inference.class_tables(None, scores, y, budget=ZCDP(Fraction(1, 8)))
    assert whole.deviation == pytest.approx(2 * math.sqrt(6), rel=1e-9)


def test_numbers_are_those_of_scikit_learn_up_to_the_bins() -> None:
    scores, y = drawn(20_000)
    table = inference.score_table(None, scores, y, budget=QUIET, bins=512)
    assert table.auc().value == pytest.approx(metrics.roc_auc_score(y, scores), abs=5e-4)
    assert table.brier().value == pytest.approx(metrics.brier_score_loss(y, scores), abs=5e-4)
    assert table.log_loss().value == pytest.approx(metrics.log_loss(y, scores), abs=5e-4)
    for at in (0.25, 0.5, 0.75):
        called = scores >= at
        for name, right in (
            ("accuracy", metrics.accuracy_score),
            ("precision", metrics.precision_score),
            ("recall", metrics.recall_score),
            ("f1", metrics.f1_score),
        ):
            assert getattr(table, name)(at).value == pytest.approx(right(y, called), abs=1e-4)
        counts = table.confusion_matrix(at)["count"].to_numpy().reshape(2, 2)
        assert np.rint(counts).tolist() == metrics.confusion_matrix(y, called).tolist()
    false, true, _ = metrics.roc_curve(y, scores)
    curve = table.roc()
    at = np.interp(curve["false_positive_rate"], false, true)
    assert np.abs(curve["true_positive_rate"] - at).max() < 0.01
    assert table.kolmogorov_smirnov().value == pytest.approx((true - false).max(), abs=0.01)
    sampling = table.auc().sampling_error
    assert 0.003 < sampling < 0.004  # of DeLong, some sqrt(A (1 - A) / (3 P))


def test_binned_areas_count_ties_by_half() -> None:
    scores = np.array([0.1, 0.1, 0.1, 0.9])
    table = inference.score_table(None, scores, [0, 1, 0, 1], budget=QUIET)
    assert table.auc().value == pytest.approx(0.75, abs=1e-4)


def test_a_perfect_and_a_random_classifier_and_equal_scores() -> None:
    y = np.arange(4000) % 2
    perfect = inference.score_table(None, np.where(y, 0.9, 0.1), y, budget=ZCDP(1))
    assert perfect.auc().value > 0.99
    assert perfect.accuracy().value > 0.99
    assert perfect.kolmogorov_smirnov().value > 0.98
    random = inference.score_table(None, np.random.default_rng(2).random(4000), y, budget=QUIET)
    assert abs(random.auc().value - 0.5) < 4 * random.auc().sampling_error
    equal = inference.score_table(None, np.full(4000, 0.5), y, budget=QUIET)
    assert equal.auc().value == pytest.approx(0.5, abs=1e-4)
    assert equal.summary().loc[:, "cannot"].eq("").all()
    assert equal.calibration()["observed"].to_numpy() == pytest.approx([0.5], abs=1e-3)


@pytest.mark.parametrize("only", [0, 1])
def test_one_class_alone_gets_a_sentence_in_place_of_an_area(only: int) -> None:
    table = inference.score_table(
        None, drawn(500)[0], np.full(500, only), budget=ZCDP(1), bits=SeededBits(1)
    )
    area = table.auc()
    assert math.isnan(area.value)
    assert (area.lower, area.upper) == (0.0, 1.0)
    assert "fewer than the noise can tell from none" in area.cannot
    assert f"{'second' if only == 0 else 'first'} class" in area.cannot
    assert len(table.summary()) == 9
    assert len(table.roc()) == 65


def test_rows_without_a_score_are_counted_apart_and_other_labels_nowhere() -> None:
    scores, y = drawn(1000)
    clean = inference.score_table(None, scores[10:], y[10:], budget=QUIET)
    scores[:5], labels = math.nan, [*y[:5].tolist(), *["?"] * 5, *y[10:].tolist()]
    table = inference.score_table(None, scores, labels, budget=QUIET)
    assert np.rint(table.positives).tolist() == np.rint(clean.positives).tolist()
    assert np.rint(table.negatives).tolist() == np.rint(clean.negatives).tolist()
    assert np.rint(table.missing).tolist() == [y[:5].sum(), 5 - y[:5].sum()]


def test_scores_beyond_the_ends_count_at_them() -> None:
    table = inference.score_table(None, [-1.0, 2.0, math.inf], [0, 1, 1], budget=QUIET, bins=4)
    assert np.rint(table.positives).tolist() == [0, 0, 0, 2]
    assert np.rint(table.negatives).tolist() == [1, 0, 0, 0]


def test_models_are_asked_row_by_row_and_never_shown_a_missing_number() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    model = LogisticRegression().fit(X, y)  # raises an error at NaN
    plain = inference.score_table(model, X, y, budget=QUIET)
    expected = inference.score_table(None, model.predict_proba(X)[:, 1], y, budget=QUIET)
    assert np.rint(released_counts(plain)).tolist() == np.rint(released_counts(expected)).tolist()
    X[0, 1] = math.nan
    table = inference.score_table(model, X, y, budget=QUIET)
    assert round(sum(table.missing)) == 1
    same = inference.score_table(lambda x: model.predict_proba(x)[:, 1], X, y, budget=QUIET)
    assert np.rint(released_counts(same)).tolist() == np.rint(released_counts(table)).tolist()


def test_of_each_person_the_first_rows_count() -> None:
    person: Any = ["a"] * 5 + ["b"] * 3 + [None] * 4 + ["c"]
    scores = np.linspace(0, 1, len(person))
    table = inference.score_table(
        None, scores, np.ones(len(person)), person=person, rows_per_person=2, budget=QUIET, bins=12
    )
    assert np.rint(table.positives).tolist() == [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]


def test_bins_at_quantiles_serve_scores_that_crowd_at_an_end() -> None:
    rng = np.random.default_rng(3)
    odds = rng.normal(-5, 1, 40_000)
    scores = 1 / (1 + np.exp(-odds))
    y = rng.random(40_000) < scores
    right = metrics.roc_auc_score(y, scores)
    even = inference.score_table(None, scores, y, budget=QUIET)
    quantiles = inference.score_table(None, scores, y, budget=ZCDP(10), binning="quantiles")
    assert abs(even.auc().value - right) > 0.05
    assert abs(quantiles.auc().value - right) < 0.01
    assert (np.diff(quantiles.edges) > 0).all()


def test_quantiles_of_hardly_any_row_are_bins_all_the_same() -> None:
    bits = SeededBits(5)
    for _ in range(20):  # of which some have fewer than no rows by their noise
        table = inference.score_table(
            None, [0.2, 0.9], [0, 1], budget=ZCDP(1e-4), bins=4, binning="quantiles", bits=bits
        )
        assert 0.5 in table.edges
        assert (np.diff(table.edges) > 0).all()
        assert len(table.summary()) == 9
        for curve in (table.roc(), table.lift(), table.calibration(), table.precision_recall()):
            assert len(curve) >= 1


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), GDP(1), RenyiDP(8, 2)])
def test_every_budget_is_kept(budget: Any) -> None:
    scores, y = drawn(3000)
    table = inference.score_table(None, scores, y, budget=budget, bits=SeededBits(1))
    assert table.guarantee == budget
    assert table.noise in ("laplace", "normal")
    assert table.noise == "laplace" or budget != PureDP(1)
    assert 0.6 < table.auc().value < 1.0


def test_more_classes_have_a_matrix_and_a_table_each() -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 6000)
    scores = rng.dirichlet([1, 1, 1], 6000) * 0.5 + np.eye(3)[y] * 0.5
    scores[0] = math.nan
    found = inference.class_tables(None, scores, y, classes=[0, 1, 2], budget=QUIET)
    right = metrics.confusion_matrix(y[1:], scores[1:].argmax(axis=1))
    assert np.rint(found.counts).tolist() == right.tolist()
    assert np.rint(found.missing).tolist() == np.bincount(y[:1], minlength=3).tolist()
    areas = [metrics.roc_auc_score(y[1:] == one, scores[1:, one]) for one in range(3)]
    assert found.summary()["value"].to_numpy() == pytest.approx(areas, abs=0.005)
    assert found.confusion_matrix()["count"].sum() == pytest.approx(5999, abs=0.01)


def test_curves_rise_and_bins_of_the_calibration_stand_out() -> None:
    scores, y = drawn(3000)
    table = inference.score_table(None, scores, y, budget=ZCDP(0.05), bits=SeededBits(4))
    curve = table.roc()
    for name in ("false_positive_rate", "true_positive_rate"):
        assert (np.diff(curve[name]) >= 0).all()
        assert curve[name].between(0, 1).all()
    lines = table.calibration()
    width = np.rint((lines["high"] - lines["low"]) * 64)
    assert (lines["rows"] >= 3 * table.deviation * np.sqrt(2 * width) * 0.99)[:-1].all()
    assert lines["low"].iloc[0] == 0
    assert lines["high"].iloc[-1] == 1
    lift = table.lift()
    assert lift["lift"].iloc[-1] == pytest.approx(1, abs=0.02)
    assert (table.precision_recall()["lower"] <= table.precision_recall()["upper"]).all()


def test_what_a_notebook_shows_is_the_summary() -> None:
    scores, y = drawn(1000)
    table = inference.score_table(None, scores, y, budget=ZCDP(0.5))
    assert "<table" in table._repr_html_()
    assert "64 bins" in repr(table)
    assert "<table" in inference.class_tables(None, scores, y, budget=ZCDP(1))._repr_html_()


@pytest.mark.parametrize(
    ("named", "argument"),
    [
        ({"bins": 1}, "bins"),
        ({"bins": [0.0, 0.5]}, "bins"),
        ({"bins": [0.0, 0.5, 1.0], "binning": "quantiles"}, "bins"),
        ({"binning": "odd"}, "binning"),
        ({"classes": (0,)}, "classes"),
        ({"classes": (0, 1, 2)}, "classes"),
        ({"rows_per_person": 0}, "rows_per_person"),
        ({"person": [1]}, "person"),
        ({"budget": GDP(0)}, "budget"),
        ({"y": [1]}, "y"),
        ({"X": np.zeros((4, 3))}, "model"),
        ({"model": "auc", "X": np.zeros((4, 3))}, "model"),
        ({"model": lambda x: x[:2], "X": np.zeros((4, 3))}, "model"),
        ({"model": lambda x: 1 / 0, "X": np.zeros((4, 3))}, "model"),
    ],
)
def test_bad_arguments_are_named(named: dict[str, Any], argument: str) -> None:
    asked: dict[str, Any] = {"model": None, "X": [0.1, 0.2, 0.3, 0.4], "y": [0, 1, 0, 1]} | named
    with pytest.raises(InvalidParameter) as caught:
        inference.score_table(**{"budget": GDP(1), **asked})
    assert caught.value.argument == argument


def test_intervals_are_refused_another_name() -> None:
    table = inference.score_table(None, *drawn(100), budget=GDP(1))
    wrong: Any = "sampling"
    for ask in (table.auc, table.accuracy, table.roc):
        with pytest.raises(InvalidParameter, match="'noise' or 'both'") as caught:
            ask(interval=wrong)
        assert caught.value.argument == "interval"


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_ratios_hold_the_truth_where_noise_is_as_large_as_the_counts(law: Any) -> None:
    rng = np.random.default_rng(5)
    counts = np.array([30.0, 10.0, 60.0])
    over, under = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])
    covered = 0
    for _ in range(2000):
        noise = rng.normal(0, 8, 3) if law == "normal" else rng.laplace(0, 8 / math.sqrt(2), 3)
        cells = NoisyCells(counts=counts + noise, deviation=8.0, law=law)
        found = cells.ratio(over, under)
        covered += found.lower <= 0.75 <= found.upper
    assert covered / 2000 > 0.935
    assert critical(0.95, "normal") < critical(0.95, "laplace")


NUMBERS = ["auc", "accuracy", "precision", "recall", "f1", "brier", "log_loss"]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("n", "rho", "bins"), [(500, 0.1, 20), (5000, 0.1, 64), (5000, 0.01, 64)])
def test_intervals_of_the_noise_cover_the_table_itself(n: int, rho: float, bins: int) -> None:
    """1,000 runs: a coverage of 95 % is within 2 % by more than three deviations."""
    scores, y = drawn(n, seed=5)
    exact = inference.score_table(None, scores, y, budget=QUIET, bins=bins)
    truth = {name: getattr(exact, name)().value for name in NUMBERS}
    covered = dict.fromkeys(NUMBERS, 0)
    bits = SeededBits(6)
    for _ in range(1000):
        table = inference.score_table(None, scores, y, budget=ZCDP(rho), bins=bins, bits=bits)
        for name in NUMBERS:
            found = getattr(table, name)()
            covered[name] += found.lower <= truth[name] <= found.upper
    shares = {name: count / 1000 for name, count in covered.items()}
    assert all(0.93 <= share <= 0.98 for share in shares.values()), shares


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("n", "rho", "bins"), [(2000, 0.1, 50), (20_000, 0.01, 100)])
def test_intervals_of_both_errors_cover_the_area_of_the_population(
    n: int, rho: float, bins: int
) -> None:
    whole, labels = drawn(2_000_000, seed=7)
    area = metrics.roc_auc_score(labels, whole)
    bits, covered = SeededBits(8), 0
    for run in range(1000):
        table = inference.score_table(
            None, *drawn(n, seed=100 + run), budget=ZCDP(rho), bins=bins, bits=bits
        )
        found = table.auc(interval="both")
        covered += found.lower <= area <= found.upper
    assert 0.934 <= covered / 1000 <= 0.98


@pytest.mark.parametrize("largest", [1.0, 1e39, np.inf])
def test_no_number_of_a_row_stops_a_model_of_others(largest: float) -> None:
    """Trees of scikit-learn hold 32 bits, and raise errors at numbers beyond."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    x = np.random.default_rng(1).random((60, 2))
    y = (x[:, 0] > 0.5).astype(int)
    model = ensemble.RandomForestClassifier(3, random_state=0).fit(x, y)
    x[0, 0] = largest
    found = inference.score_table(model, x, y, budget=GDP(10**6), bits=SeededBits(1))
    assert round(sum(found.missing)) == (largest > 1)


def test_no_rows_are_a_release_like_others() -> None:
    x, y = np.zeros((0, 2)), np.zeros(0)
    common: dict[str, Any] = {"budget": GDP(1), "residual_bound": 1, "bits": SeededBits(1)}

    def first(rows: Any) -> Any:
        return rows[:, 0]

    inference.residual_table(first, x, y, target_bounds=(0, 1), **common)
    inference.importance(first, x, y, feature_bounds=(0, 1), **common)
    inference.score_table(first, x, y, budget=GDP(1), bits=SeededBits(1))


def exact_error(table: inference.ScoreTable, exact: inference.ScoreTable) -> float:
    """The calibration error of exact counts in the bins as a noisy table joins them."""
    groups = table._joined()
    rows = groups @ np.rint(exact.positives + exact.negatives)
    sums = groups @ (np.rint(exact.positives + exact.negatives) * exact._centres)
    off, some = groups @ np.rint(exact.positives) - sums, rows > 0
    return float((off[some] ** 2 / rows[some]).sum() / rows.sum())


def skewed(n: int, shift: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores whose log odds are stretched and shifted."""
    scores, y = drawn(n)
    odds = np.log(scores / (1 - scores)) * (1 + shift / 2) + shift
    return 1 / (1 + np.exp(-odds)), y


def test_the_calibration_error_is_that_of_the_joined_bins() -> None:
    scores, y = skewed(5000, 1.5)
    exact = inference.score_table(None, scores, y, budget=QUIET)
    assert exact.calibration_error().value == pytest.approx(exact_error(exact, exact), rel=1e-4)
    noisy = inference.score_table(None, scores, y, budget=ZCDP(Fraction(1, 1000)))
    assert len(noisy._joined()) < 32
    assert exact_error(noisy, exact) < exact_error(exact, exact)
    empty = inference.score_table(None, [math.nan] * 9, [0] * 9, budget=GDP(1), bits=SeededBits(8))
    assert 0 <= empty.calibration_error().lower <= empty.calibration_error().upper <= 1


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("shift", [0.0, 1.5])
@pytest.mark.parametrize(("n", "rho", "bins"), [(500, 0.3, 20), (5000, 0.1, 64)])
def test_intervals_of_the_calibration_error_cover(
    n: int, rho: float, bins: int, shift: float
) -> None:
    """Of 1,000 intervals of 95 % at least 922 hold, but once in 17,000; near 0 more."""
    scores, y = skewed(n, shift)
    exact = inference.score_table(None, scores, y, budget=QUIET, bins=bins)
    bits, covered = SeededBits(7), 0
    for _ in range(1000):
        table = inference.score_table(None, scores, y, budget=ZCDP(rho), bins=bins, bits=bits)
        found = table.calibration_error()
        covered += found.lower <= exact_error(table, exact) + 1e-12 <= found.upper + 2e-12
    assert covered >= 922
