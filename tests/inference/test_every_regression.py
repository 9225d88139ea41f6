"""Every regression: sensitivities by brute force, the price, neighbors, coverage, refusals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.inference.designs import logit_fit, ols, poisson_fit
from tests.inference.regressions import REGRESSIONS, TRUTH, Case, parameters
from tests.inference.watched_fits import Floats, watch, worst_rows
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, ReplaceOne, SeededBits, accounting, inference
from unacorda.errors import InvalidParameter
from unacorda.inference.losses import Check, Huber, LogCosh
from unacorda.inference.sums import NoisySums
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.guarantees import Guarantee

ALL = pytest.mark.parametrize("name", REGRESSIONS)


def drawn_rows(name: str, n: int, seed: int) -> tuple[Floats, Floats]:
    return REGRESSIONS[name].draw(n, np.random.default_rng(seed))


def suited(name: str, y: Floats) -> Floats:
    return (y > 0).astype(np.float64) if name == "logistic" else y


def odd_weights(rows: int, drawn: np.random.Generator) -> Floats:
    """Of every size, also what is outside [0, 1] and what is no number."""
    weights = drawn.random(rows) * 10.0 ** -drawn.integers(0, 4, rows)
    weights[: rows // 2] = drawn.integers(0, 2, rows // 2)
    odd = [math.nan, math.inf, -math.inf, -1.0, 7.0, 1e308, 5e-324, 1e-200]
    weights[drawn.permutation(rows)[: len(odd)]] = odd
    return weights


class Liar:
    """A loss whose scores and curvatures are far beyond what it says, or no numbers."""

    score_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    def score(self, prediction: Floats, target: Floats) -> Floats:
        return np.where(target > 3, math.nan, 1e9 * target)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        return np.where(target > 3, math.inf, 1e9 * target)


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", mostly_slow(["liar", *REGRESSIONS, "ranges"], quick=2))
def test_no_two_people_are_farther_apart_than_a_release_says(
    monkeypatch: pytest.MonkeyPatch, name: str, weighted: bool
) -> None:
    """Every release against every pair of rows, far out ones among them."""
    case = {
        "liar": Case(of="MEstimator", options={"loss": Liar()}),
        "ranges": Case(of="LinearRegression", options={}, bounds=()),
    }.get(name) or REGRESSIONS[name]
    seen = watch(monkeypatch)
    x, y = worst_rows(160, 2, seed=1)
    weights = odd_weights(160, np.random.default_rng(1)) if weighted else None
    case.make(SeededBits(1), budget=GDP(12)).fit(x, suited(name, y), sample_weight=weights)
    assert len(seen) > 12
    for release in seen:
        assert release.farthest <= release.sensitivity * (1 + 2**-29)
        assert release.longest <= release.row_bound * (1 + 2**-29)
    assert max(release.farthest / release.sensitivity for release in seen) > 0.95


@ALL
@pytest.mark.parametrize("kind", ["far", "missing", "flipped", "huge"])
def test_replayed_releases_move_no_farther_on_neighbors(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """With the same outputs a neighbor has the same noise, and all movements pay for mu."""
    x, y = drawn_rows(name, 400, seed=3)
    other = x.copy(), y.copy()
    change = {
        "far": ([1e9, -1e9], 8.0),
        "missing": ([math.nan, 1.0], 1.0),
        "flipped": (x[0], 1 - y[0]),
        "huge": ([1e308, -1e308], 1e308),
    }[kind]
    other[0][0], other[1][0] = change
    script: list[tuple[Floats, float]] = []
    moved = 0.0
    mean = NoisySums.mean

    def exact(sums: NoisySums, part: Any) -> Floats:
        return np.asarray(part(slice(0, sums.rows))).reshape(-1)

    seen: list[Floats] = []

    def noting(self: NoisySums, part: Any, **options: Any) -> tuple[Floats, float]:
        seen.append(exact(self, part))
        found = mean(self, part, **options)
        script.append(found)
        return found

    monkeypatch.setattr(NoisySums, "mean", noting)
    model = REGRESSIONS[name].make(SeededBits(3), budget=GDP(8))
    first = clone(model).fit(x, y)
    play = iter(list(zip(script, seen, strict=True)))

    def again(self: NoisySums, part: Any, **options: Any) -> tuple[Floats, float]:
        nonlocal moved
        (values, deviation), before = next(play)
        gap = float(np.linalg.norm(exact(self, part) - before))
        moved += (gap / (deviation * self.number)) ** 2
        _, noise = mean(self, part, **options)
        assert noise == deviation
        return values, noise

    monkeypatch.setattr(NoisySums, "mean", again)
    second = model.fit(*other)
    np.testing.assert_array_equal(first.conf_int(), second.conf_int())
    assert next(play, None) is None
    assert moved <= 64 * (1 + 1e-6)


@ALL
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_the_event_costs_the_budget(name: str, weighted: bool) -> None:
    x, y = drawn_rows(name, 5000, seed=1)
    weights = np.random.default_rng(1).random(5000) if weighted else None
    model = REGRESSIONS[name].make(SeededBits(1), budget=ApproxDP(1, 1e-6))
    model.fit(x, y, sample_weight=weights)
    delta = accounting.delta(model.event_, epsilon=1, neighbors=ReplaceOne)
    # The accountant's bound is an upper one: 2 parts in 10^13 above 10^-6 where all is spent.
    assert 0.99e-6 < delta <= 1e-6 * (1 + 1e-9)
    assert model.guarantee_ == ApproxDP(1, 1e-6)


@pytest.mark.parametrize("budget", [GDP(1), ZCDP(0.3)], ids=repr)
def test_the_event_says_every_release(monkeypatch: pytest.MonkeyPatch, budget: Guarantee) -> None:
    drawn: list[float] = []
    release = Gaussian.release_exact

    def noting(self: Gaussian, *args: Any, **options: Any) -> Any:
        drawn.append(float(self.event.noise_multiplier))
        return release(self, *args, **options)

    monkeypatch.setattr(Gaussian, "release_exact", noting)
    model = REGRESSIONS["linear"].make(SeededBits(1), budget=budget)
    model.fit(*drawn_rows("linear", 5000, seed=1))
    spent = sum(multiplier**-2 for multiplier in drawn)
    rho = 0.3 if isinstance(budget, ZCDP) else 0.5
    assert accounting.rho(model.event_, neighbors=ReplaceOne) == pytest.approx(spent / 2)
    assert rho * 0.999 < accounting.rho(model.event_, neighbors=ReplaceOne) <= rho


@pytest.mark.long
@pytest.mark.statistical
@ALL
def test_intervals_cover(name: str) -> None:
    # 30 fits of 3 parameters: below 0.78 with p < 1e-6 at a coverage of 0.95.
    drawn, bits, covered = np.random.default_rng(5), SeededBits(5), []
    truth = {"tukey": TRUTH, "ridge": None}.get(name, TRUTH)
    for _ in range(30):
        x, y = REGRESSIONS[name].draw(4000, drawn)
        model = REGRESSIONS[name].make(bits).fit(x, y)
        low, high = model.conf_int().T
        solution = ridge_of(x, y, 0.3)[0] if truth is None else truth
        covered.append(np.mean((low <= solution) & (high >= solution)))
    # A ridge's target moves with the sample here, so that it is covered too often.
    assert np.mean(covered) >= 0.78


def ridge_of(x: Floats, y: Floats, penalty: float) -> tuple[Floats, Floats]:
    """The least penalized squares, slopes in fifths of the width of (-3, 3)."""
    a = np.column_stack([np.ones(len(x)), x])
    held = penalty * np.diag([0.0, 1.2**2, 1.2**2])
    theta = np.linalg.solve(a.T @ a / len(x) + held, a.T @ y / len(x))
    return np.asarray(theta), np.asarray(a @ theta)


@ALL
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_without_noise_it_is_the_fit_without_privacy(name: str, weighted: bool) -> None:
    """On misspecified data too: the estimand is that of OLS, of likelihood, of the loss."""
    drawn = np.random.default_rng(2)
    x, y = REGRESSIONS[name].draw(3000, drawn)
    x = np.column_stack([np.exp(x[:, 0] / 2), x[:, 1] > 1])
    kept = drawn.random(3000) < 0.5 if weighted else np.ones(3000, dtype=bool)
    model = REGRESSIONS[name].make(SeededBits(2), budget=GDP(10**5))
    model.fit(x, y, sample_weight=kept if weighted else None)
    x, y = x[kept], y[kept]
    rows = np.column_stack([np.ones(len(x)), x])
    if name in ("linear", "ridge"):
        expected = ols(x, y)[0] if name == "linear" else ridge_of(x, y, 0.3)[0]
    elif name == "logistic":
        expected = logit_fit(x, y)[0]
    elif name == "poisson":
        expected = poisson_fit(x, y)[0]
    else:
        loss: Any = {
            "median": Check(0.5, bandwidth=0.15),
            "robust": Huber(3.0),
            "huber": Huber(2.0),
        }.get(name, REGRESSIONS["tukey"].options["loss"])
        solved = optimize.root(lambda t: loss.score(rows @ t, y) @ rows / len(y), ols(x, y)[0])
        assert solved.success
        expected = solved.x
    within = 3.0 if name in ("robust", "median") else 0.3  # of other losses, near these
    assert np.isfinite(model.sampling_error_).all()
    gap = np.abs(parameters(model) - expected) / model.sampling_error_
    assert gap.max() < within
    assert model.diagnostics_["rows"] == pytest.approx(kept.sum(), rel=1e-3)


@ALL
def test_shifts_scales_and_wider_bounds_change_no_prediction(name: str) -> None:
    x, y = drawn_rows(name, 20_000, seed=4)
    moved = x * [1e4, 1e-3] + [5e5, 2.0]
    case = REGRESSIONS[name]
    options: dict[str, Any] = {"feature_bounds": ([4e5, 1.98], [7e5, 2.02])}
    if "target_bounds" in case.bounds:
        options["target_bounds"] = (-200, 100)
    if name == "ridge":  # its penalty is in the unit of the bounds
        options["feature_bounds"] = ([4.7e5, 1.997], [5.3e5, 2.003])
    plain = case.make(SeededBits(4), budget=GDP(3)).fit(x, y)
    other = case.make(SeededBits(5), budget=GDP(3), **options).fit(moved, y)
    back = parameters(other)
    slopes = back[1:] * [1e4, 1e-3]
    error = np.hypot(plain.sampling_error_, plain.privacy_error_)[1:]
    assert (np.abs(slopes - parameters(plain)[1:]) < 1.5 * error).all()


@pytest.mark.parametrize("name", ["linear", "logistic", "median"])
def test_bounds_that_are_left_out_are_found(name: str) -> None:
    x, y = drawn_rows(name, 8000, seed=6)
    x = x * [3.0, 1e-3] + [50.0, 0.0]
    bits = SeededBits(6)
    case = REGRESSIONS[name]
    model = getattr(inference, case.of)(budget=GDP(1), bits=bits).fit(x, y)
    assert np.isfinite(model.conf_int()).all()
    slopes = parameters(model)[1:] * [3.0, 1e-3]
    error = np.hypot(model.sampling_error_, model.privacy_error_)[1:] * [3.0, 1e-3]
    assert (np.abs(slopes - TRUTH[1:]) < 5 * error).all()
    lower, upper = model.feature_bounds_
    assert (lower < np.quantile(x, 0.01, axis=0)).all()
    assert (upper > np.quantile(x, 0.99, axis=0)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["constant", "collinear", "one-hot", "missing", "huge", "all"])
@ALL
def test_data_of_any_kind_raise_nothing_and_answer_in_numbers(name: str, kind: str) -> None:
    x, y = drawn_rows(name, 3000, seed=5)
    match kind:
        case "constant":
            x[:, 1] = 7.0
        case "collinear":
            x[:, 1] = 2 * x[:, 0]
        case "one-hot":
            x = np.column_stack([x[:, 0] > 0, x[:, 0] <= 0]).astype(np.float64)
        case "missing":
            x[::7, 1], y[::5] = math.nan, -math.inf
        case "huge":
            x[::7], y[::5] = 1e308, -1e308
        case _:
            x[:], y[:] = math.nan, math.inf
    model = REGRESSIONS[name].make(SeededBits(5)).fit(x, y)
    assert np.isfinite(model.coef_).all()
    assert not np.isnan(model.conf_int()).any()
    unidentified = kind in ("constant", "collinear", "one-hot", "all")
    if unidentified and name != "ridge":
        # No curvature in some direction, as released: no interval rather than a wrong one.
        assert np.isinf(model.conf_int()).all()
        assert model.cannot_
        table = model.summary()
        assert "cannot tell errors" in str(table)
        assert all(math.isnan(row["z"]) for row in table.to_dicts())
    if kind == "missing":
        assert np.isfinite(model.conf_int()).all()


@pytest.mark.filterwarnings("error")
@ALL
@pytest.mark.parametrize("value", [0.0, math.nan, -1.0])
def test_without_any_weight_intervals_are_infinite(name: str, value: float) -> None:
    x, y = drawn_rows(name, 2000, seed=5)
    model = REGRESSIONS[name].make(SeededBits(5)).fit(x, y, sample_weight=np.full(2000, value))
    assert np.isfinite(model.coef_).all()
    assert np.isinf(model.conf_int()).all() or name == "ridge"


def test_separated_classes_get_no_interval() -> None:
    x, _ = drawn_rows("logistic", 3000, seed=6)
    model = REGRESSIONS["logistic"].make(SeededBits(6)).fit(x, x[:, 0] > 0)
    assert np.isfinite(model.coef_).all()
    assert np.isinf(model.conf_int()).all()


def test_outliers_widen_least_squares_and_not_the_robust_line() -> None:
    drawn = np.random.default_rng(8)
    x, y = REGRESSIONS["linear"].draw(5000, drawn)
    y = y + np.where(drawn.random(5000) < 0.1, 30 * drawn.normal(size=5000), 0.0)
    widths = []
    for name in ("linear", "robust"):
        model = REGRESSIONS[name].make(SeededBits(8), target_bounds=(-60, 60)).fit(x, y)
        assert np.abs(model.coef_ - TRUTH[1:]).max() < 4 * model.sampling_error_[1:].max() + 0.05
        widths.append(model.conf_int()[1:] @ [-1, 1])
    assert (widths[1] < widths[0] / 2).all()


@pytest.mark.long
def test_tukey_lets_far_outliers_be() -> None:
    x, y = drawn_rows("tukey", 20_000, seed=3)
    y[:2000] = 50.0
    bounds = {"target_bounds": (-100, 100)}
    found = REGRESSIONS["tukey"].make(SeededBits(3), **bounds).fit(x, y)
    other = REGRESSIONS["huber"].make(SeededBits(3), **bounds).fit(x, y)
    assert abs(found.intercept_ - 0.5) < 0.1 < abs(other.intercept_ - 0.5)


def test_dispersion_of_counts_is_found() -> None:
    drawn = np.random.default_rng(4)
    x, y = REGRESSIONS["poisson"].draw(20_000, drawn)
    make = REGRESSIONS["poisson"].make
    assert make(SeededBits(4)).fit(x, y).dispersion_ == pytest.approx(1.0, abs=0.2)
    twice = 2 * drawn.poisson(np.exp(TRUTH[0] + x @ TRUTH[1:]) / 2)
    assert make(SeededBits(4)).fit(x, twice).dispersion_ == pytest.approx(2.0, abs=0.4)


@pytest.mark.parametrize("name", ["linear", "logistic", "huber"])
def test_influence_is_what_one_more_row_does(name: str) -> None:
    """The influence function against refits without noise, with and without a row."""
    x, y = drawn_rows(name, 4000, seed=9)
    make = REGRESSIONS[name].make
    model = make(SeededBits(9), budget=GDP(10**5)).fit(x, y)
    rows, targets = np.array([[0.3, -0.5], [1.0, 1.5]]), np.array([1.0, 0.0])
    found = model.influence(rows, targets)
    for row, target, told in zip(rows, targets, found, strict=True):
        more = np.vstack([x, [row] * 40]), np.append(y, [target] * 40)
        refit = make(SeededBits(9), budget=GDP(10**5)).fit(*more)
        moved = (parameters(refit) - parameters(model)) * 4040 / 40
        np.testing.assert_allclose(moved, told, rtol=0.1, atol=0.1)
    assert (np.abs(found).max(axis=0) <= model.gross_error_sensitivity_).all()
    far = model.influence(np.full((1, 2), 1e6), np.array([1.0]))
    assert (np.abs(far[0]) <= model.gross_error_sensitivity_ * (1 + 1e-9)).all()
    with pytest.raises(InvalidParameter, match=r"^y="):
        model.influence(rows, np.ones(3))


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("linear", {"budget": PureDP(1)}, "budget"),
        ("linear", {"budget": 1.0}, "budget"),
        ("logistic", {"budget": GDP(Fraction(1, 1000))}, "budget"),
        ("linear", {"tuning": 0.0}, "tuning"),
        ("linear", {"tuning": 1e-200}, "tuning"),
        ("linear", {"feature_bounds": (1, 1)}, "feature_bounds"),
        ("linear", {"feature_bounds": (0, math.inf)}, "feature_bounds"),
        ("linear", {"feature_bounds": ([0, 0, 0], [1, 1, 1])}, "feature_bounds"),
        ("linear", {"feature_bounds": "wide"}, "feature_bounds"),
        ("linear", {"target_bounds": (2, 1)}, "target_bounds"),
        ("linear", {"target_bounds": 5}, "target_bounds"),
        ("linear", {"target_bounds": (1, 2, 3)}, "target_bounds"),
        ("median", {"target_bounds": (0, None)}, "target_bounds"),
        ("ridge", {"penalty": -1.0}, "penalty"),
        ("logistic", {"classes": (1, 1)}, "classes"),
        ("logistic", {"classes": (0, 1, 2)}, "classes"),
        ("logistic", {"classes": None}, "classes"),
        ("poisson", {"largest": -1.0}, "largest"),
        ("poisson", {"largest": 1e200}, "largest"),
        ("median", {"quantile": 1.0}, "quantile"),
        ("median", {"quantile": "half"}, "quantile"),
        ("huber", {"loss": Huber(1e-150)}, "score_bound"),
        ("huber", {"loss": Huber}, "loss"),
        ("huber", {"loss": "huber"}, "loss"),
        ("huber", {"penalty": -1.0}, "penalty"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    name: str, change: dict[str, Any], named: str
) -> None:
    model = REGRESSIONS[name].make(SeededBits(6)).set_params(**change)
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        model.fit(*drawn_rows(name, 1000, seed=6))


def test_fewer_people_than_parameters_are_a_budget_too_small() -> None:
    with pytest.raises(InvalidParameter, match="n_samples=3 and 11 parameters"):
        REGRESSIONS["linear"].make().fit(np.zeros((3, 10)), np.zeros(3))


@pytest.mark.parametrize(
    "weights",
    [1.0, np.ones(499), np.ones((500, 1)), np.ones(500, dtype=complex), np.array(["a"] * 500)],
    ids=["one", "too few", "column", "complex", "text"],
)
@ALL
def test_weights_of_another_shape_or_kind_are_named(name: str, weights: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^sample_weight="):
        REGRESSIONS[name].make().fit(*drawn_rows(name, 500, seed=6), sample_weight=weights)


@pytest.mark.parametrize(
    ("x", "y", "named"),
    [
        (np.ones(9), np.ones(9), "X"),
        (np.ones((9, 1)), np.ones(8), "y"),
        (np.array([["a"]] * 9), np.ones(9), "X"),
        (np.ones((9, 1), dtype=complex), np.ones(9), "X"),
        (np.ones((9, 1)), None, "y"),
    ],
)
@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_shapes_and_dtypes_are_named(name: str, x: Any, y: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        REGRESSIONS[name].make().fit(x, y)


@pytest.mark.parametrize("left_out", ["score", "curvature", "score_bound", "curvature_bound"])
def test_what_a_psi_lacks_is_named(left_out: str) -> None:
    parts = {name: part for name, part in vars(Liar).items() if name != left_out}
    lacking = type("Lacking", (), parts)()
    with pytest.raises(InvalidParameter, match=r"^loss=.*curvature_bound"):
        REGRESSIONS["huber"].make(loss=lacking).fit(np.zeros((9, 1)), np.zeros(9))


@pytest.mark.parametrize("of", ["score", "curvature"])
@pytest.mark.parametrize("change", [lambda a: a - a.mean(), np.sort, lambda a: a[:1], np.cumsum])
def test_losses_that_look_at_other_rows_are_refused(of: str, change: Any) -> None:
    class Meddling(LogCosh):
        """Its answers for a row depend on the others."""

    def answer(_: object, prediction: Any, target: Any) -> Any:
        return change(getattr(LogCosh, of)(LogCosh(1.0), prediction, target))

    setattr(Meddling, of, answer)
    with pytest.raises(InvalidParameter, match="each row"):
        REGRESSIONS["huber"].make(loss=Meddling(1.0)).fit(np.zeros((100, 1)), np.zeros(100))


@pytest.mark.long
def test_labels_of_any_kind_are_those_that_were_named() -> None:
    x, y = drawn_rows("logistic", 3000, seed=4)
    words = np.where(y > 0, "yes", "no")
    make = REGRESSIONS["logistic"].make
    models = [
        make(SeededBits(5), classes=("no", "yes")).fit(x, labels)
        for labels in (words, words.astype(object), list(words))
    ]
    whole = make(SeededBits(5)).fit(x, y.astype(bool))
    for model in models:
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert set(model.predict(x)) == {"no", "yes"}
        assert model.predict_proba(x).shape == (3000, 2)
    # A row with another label has weight 0, which raises nothing.
    other = words.copy()
    other[:300] = "no answer"
    apart = make(SeededBits(5), classes=("no", "yes")).fit(x, other)
    assert np.abs(apart.coef_[0] - TRUTH[1:]).max() < 0.4


def test_seeded_fits_repeat_and_others_do_not() -> None:
    x, y = drawn_rows("linear", 2000, seed=7)
    make = REGRESSIONS["linear"].make
    same = [make(SeededBits(7)).fit(x, y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(same[0], same[1])
    other = clone(make(SeededBits(7))).set_params(bits=None).fit(x, y).coef_
    assert (other != same[0]).all()


def test_it_works_in_a_pipeline_and_keeps_the_callers_arrays() -> None:
    x, y = drawn_rows("linear", 2000, seed=8)
    before = x.copy()
    pipeline = make_pipeline(FunctionTransformer(), REGRESSIONS["linear"].make(SeededBits(8)))
    assert pipeline.fit(x, y).score(x, y) > 0.05
    np.testing.assert_array_equal(x, before)


@pytest.mark.long
def test_means_need_no_scikit_learn_and_models_say_which_extra() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
from unacorda import errors, inference
inference.mean
try:
    inference.LinearRegression
except errors.MissingExtra as error:
    print(error.extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "inference\n"
