"""Poisson, ridge and own losses: sensitivities by brute force, prices, coverage, refusals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize
from tests.inference.watched_fits import Floats, watch, worst_rows
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, ReplaceOne, SeededBits, accounting
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.losses import Huber, LogCosh, SmoothedHuber, Tukey
from unacorda.inference.m_estimator import MEstimator, RidgeRegression
from unacorda.inference.poisson import PoissonRegression
from unacorda.inference.quantile_regression import QuantileRegression
from unacorda.inference.row_values import cut

SLOPES = np.array([0.4, -0.3])


def counts(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x = drawn.normal(size=(n, 2))
    return x, drawn.poisson(np.exp(0.5 + x @ SLOPES)).astype(float)


def line(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x = drawn.normal(size=(n, 2))
    return x, 0.5 + x @ SLOPES + drawn.standard_t(3, n)


def upper_line(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    """Of which 0.5 and the slopes are the 0.8-quantile, the errors being skewed."""
    x = drawn.normal(size=(n, 2))
    return x, 0.5 + x @ SLOPES + drawn.exponential(size=n) + math.log(0.2)


class Liar:
    """A loss whose scores and curvatures are far beyond what it says, or no numbers."""

    score_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    def score(self, prediction: Floats, target: Floats) -> Floats:
        return np.where(target > 3, math.nan, 1e9 * target)

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        return np.where(target > 3, math.inf, 1e9 * target)


class Bent:
    """psi(r) = r / (1 + |r|) alone: the loss that it comes from is said nowhere."""

    score_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    def score(self, prediction: Floats, target: Floats) -> Floats:
        return np.asarray((prediction - target) / (1 + np.abs(target - prediction)))

    def curvature(self, prediction: Floats, target: Floats) -> Floats:
        return np.asarray((1 + np.abs(target - prediction)) ** -2.0)


def poisson(bits: SeededBits | None, **options: Any) -> PoissonRegression:
    chosen: dict[str, Any] = {
        "budget": GDP(1),
        "feature_bounds": (-3, 3),
        "largest": 15,
        "bits": bits,
    }
    return PoissonRegression(**(chosen | options))


def own(bits: SeededBits | None, **options: Any) -> MEstimator:
    chosen: dict[str, Any] = {
        "loss": LogCosh(1.5),
        "budget": GDP(1),
        "feature_bounds": (-3, 3),
        "bits": bits,
    }
    return MEstimator(**(chosen | options))


def middle(bits: SeededBits | None, **options: Any) -> QuantileRegression:
    chosen: dict[str, Any] = {
        "budget": GDP(1),
        "feature_bounds": (-3, 3),
        "target_bounds": (-8, 10),
        "bits": bits,
    }
    return QuantileRegression(**(chosen | options))


def ridge(bits: SeededBits | None, **options: Any) -> RidgeRegression:
    chosen: dict[str, Any] = {
        "residual_bound": 2.0,
        "budget": GDP(1),
        "feature_bounds": (-3, 3),
        "bits": bits,
    }
    return RidgeRegression(**(chosen | options))


@pytest.mark.parametrize(
    "make",
    mostly_slow(
        [
            poisson,
            own,
            ridge,
            middle,
            lambda bits, **options: own(bits, loss=Tukey(4.0), **options),
            lambda bits, **options: own(bits, loss=Liar(), **options),
        ]
    ),
    ids=["poisson", "log cosh", "ridge", "quantile", "tukey", "liar"],
)
@pytest.mark.parametrize("seed", range(2))
def test_no_two_people_are_farther_apart_than_a_release_says(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], seed: int
) -> None:
    seen = watch(monkeypatch)
    make(SeededBits(seed), budget=GDP(10)).fit(*worst_rows(200, 2, seed=seed))
    for release in seen:
        assert release.farthest <= release.sensitivity * (1 + 2**-29)
        assert release.longest <= release.row_bound * (1 + 2**-29)
    assert max(release.farthest / release.sensitivity for release in seen) > 0.7


@pytest.mark.parametrize("make", [poisson, own, ridge, middle])
def test_the_event_costs_the_budget(make: Callable[..., Any]) -> None:
    model = make(SeededBits(1), budget=ApproxDP(1, 1e-6)).fit(
        *counts(30_000, np.random.default_rng(1))
    )
    delta = accounting.delta(model.event_, epsilon=1, neighbors=ReplaceOne)
    assert 0.95e-6 < delta <= 1e-6


def share_covered(
    make: Callable[..., Any], draw: Callable[..., tuple[Floats, Floats]], *, fits: int
) -> float:
    drawn, bits = np.random.default_rng(fits), SeededBits(fits)
    covered = []
    for _ in range(fits):
        low, high = make(bits).fit(*draw(4000, drawn)).conf_int().T
        truth = np.append(0.5, SLOPES)
        assert np.isfinite(low).all()
        covered.append(np.mean((low <= truth) & (high >= truth)))
    return float(np.mean(covered))


CASES = pytest.mark.parametrize(
    ("make", "draw"),
    [
        (poisson, counts),
        (own, line),
        (lambda bits: own(bits, loss=SmoothedHuber(1.0)), line),
        (lambda bits: ridge(bits, penalty=0.0), line),
        (middle, line),
        (lambda bits: middle(bits, quantile=0.8), upper_line),
    ],
    ids=["poisson", "log cosh", "smoothed huber", "no penalty", "median", "upper quantile"],
)


@pytest.mark.statistical
@CASES
def test_intervals_cover(make: Callable[..., Any], draw: Callable[..., Any]) -> None:
    # 25 fits of 3 parameters: below 0.77 with p < 1e-6 at a coverage of 0.95.
    assert share_covered(make, draw, fits=25) >= 0.77


@pytest.mark.slow
@pytest.mark.statistical
@CASES
def test_intervals_cover_within_few_points(
    make: Callable[..., Any], draw: Callable[..., Any]
) -> None:
    # 400 fits of 3 parameters: a deviation of 0.0065 to 0.007; 5 of them are 0.035.
    assert 0.95 - 0.035 <= share_covered(make, draw, fits=400) <= 0.95 + 0.035


def test_without_noise_a_ridge_is_the_least_penalised_loss() -> None:
    x, y = line(3000, np.random.default_rng(2))
    model = ridge(SeededBits(2), budget=GDP(10**6), penalty=0.7).fit(x, y)
    scaled = np.column_stack([np.ones(len(x)), x * 2.5 / 3])
    square = (111 / 64) ** 2  # sqrt 3 rounded up to a 64th

    def weights(given: Floats) -> Floats:
        cut: Floats = np.minimum(1, square / np.sum(given**2, axis=1))
        return cut

    values, vectors = np.linalg.eigh((scaled * weights(scaled)[:, None]).T @ scaled / len(x))
    white = weights(scaled @ (vectors / np.sqrt(values)))

    def objective(theta: Floats) -> float:
        loss = Huber(2.0).value(scaled @ theta, y)
        return float(white @ loss / len(x) + 0.35 * theta[1:] @ theta[1:])

    solved = optimize.minimize(objective, np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(model.coef_ * 3 / 2.5, solved.x[1:], atol=2e-3)
    assert model.intercept_ == pytest.approx(solved.x[0], abs=2e-3)


def test_psi_alone_is_enough() -> None:
    x, y = line(3000, np.random.default_rng(9))
    model = own(SeededBits(9), loss=Bent(), budget=GDP(10**6)).fit(x, y)
    scores = Bent().score(model.predict(x), y)
    white = np.minimum(1, 3 / (1 + np.sum((x * 2.5 / 3) ** 2, axis=1)))
    # Weighted by lengths before whitening, which errors that are symmetric hardly tell apart.
    for column in (np.ones(len(x)), *x.T):
        assert abs(np.mean(white * column * scores)) < 3e-3
    assert np.isfinite(model.conf_int()).all()


@pytest.mark.parametrize("left_out", ["score", "curvature", "score_bound", "curvature_bound"])
def test_what_a_psi_lacks_is_named(left_out: str) -> None:
    parts = {name: part for name, part in vars(Bent).items() if name != left_out}
    with pytest.raises(InvalidParameter, match=r"^loss=.*curvature_bound"):
        own(SeededBits(9), loss=type("Lacking", (), parts)()).fit(np.zeros((9, 1)), np.zeros(9))


def test_tukey_lets_far_outliers_be() -> None:
    x, y = line(20_000, np.random.default_rng(3))
    y[:2000] = 50.0
    model = own(SeededBits(3), loss=Tukey(5.0)).fit(x, y)
    assert abs(model.intercept_ - 0.5) < 0.06
    other = own(SeededBits(3), loss=Huber(1.5)).fit(x, y)
    assert abs(other.intercept_ - 0.5) > 0.1


def test_a_thousand_counts_are_enough_for_intervals() -> None:
    # The signal is 4 on average and below 3.1 in 1 of 20 fits; below 2 intervals are infinite.
    drawn, bits = np.random.default_rng(16), SeededBits(16)
    for largest in (12, 12, 15, 20):
        x = drawn.normal(size=(1000, 4))
        y = drawn.poisson(np.exp(0.5 + x @ [0.3, -0.2, 0.1, 0.0]))
        model = poisson(bits, largest=largest, feature_bounds=(-3, 3)).fit(x, y)
        assert model.diagnostics_["signal"] > 2
        assert np.isfinite(model.conf_int()).all()


def test_counts_whose_logarithms_noise_moves_have_no_intervals() -> None:
    drawn, bits = np.random.default_rng(17), SeededBits(17)
    for _ in range(4):
        x = drawn.normal(size=(500, 4))
        y = drawn.poisson(np.exp(0.5 + x @ [0.8, -0.5, 0.3, 0.0]))
        model = poisson(bits, largest=40, feature_bounds=(-3, 3)).fit(x, y)
        assert np.isinf(model.conf_int()).all()


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_of_a_thousand_counts_cover() -> None:
    # 200 fits of 5 parameters: a deviation of 0.009 at most; 5 of them are 0.045.
    drawn, bits, truth = np.random.default_rng(18), SeededBits(18), [0.5, 0.3, -0.2, 0.1, 0.0]
    covered = []
    for _ in range(200):
        x = drawn.normal(size=(1000, 4))
        y = drawn.poisson(np.exp(truth[0] + x @ truth[1:]))
        low, high = poisson(bits, largest=12, feature_bounds=(-3, 3)).fit(x, y).conf_int().T
        covered.append(np.mean((low <= truth) & (high >= truth)))
    assert 0.95 - 0.045 <= np.mean(covered) <= 0.95 + 0.045


def test_dispersion_of_counts_is_found() -> None:
    drawn = np.random.default_rng(4)
    x, y = counts(20_000, drawn)
    assert poisson(SeededBits(4)).fit(x, y).dispersion_ == pytest.approx(1.0, abs=0.1)
    twice = 2 * drawn.poisson(np.exp(0.5 + x @ SLOPES) / 2)
    assert poisson(SeededBits(4)).fit(x, twice).dispersion_ == pytest.approx(2.0, abs=0.2)


def test_huge_targets_over_a_small_bound_warn_of_nothing() -> None:
    x, y = line(3000, np.random.default_rng(8))
    y[:9] = 1e308
    assert np.isfinite(own(SeededBits(8), loss=LogCosh(1e-3)).fit(x, y).coef_).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [poisson, own, ridge, middle])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0])
def test_data_of_any_kind_raise_nothing_and_answer_in_numbers(
    make: Callable[..., Any], value: float
) -> None:
    x, y = line(3000, np.random.default_rng(5))
    x[::3, 1], y[::5] = value, value
    assert np.isfinite(make(SeededBits(5)).fit(x, y).coef_).all()
    x[:], y[:] = value, value
    assert np.isfinite(make(SeededBits(5)).fit(x, y).coef_).all()


@pytest.mark.parametrize(
    ("make", "options", "named"),
    [
        (poisson, {"largest": -1.0}, "largest"),
        (poisson, {"largest": 1e200}, "largest"),
        (poisson, {"largest": 1e-200}, "largest"),
        (own, {"loss": Huber(1e-150)}, "score_bound"),
        (own, {"loss": Huber(1e100)}, "score_bound"),
        (poisson, {"budget": GDP(0.001)}, "budget"),
        (own, {"loss": Huber}, "loss"),
        (own, {"loss": "huber"}, "loss"),
        (own, {"penalty": -1.0}, "penalty"),
        (own, {"start": math.nan}, "start"),
        (ridge, {"residual_bound": 0.0}, "residual_bound"),
        (ridge, {"residual_bound": 1e60}, "residual_bound"),
        (middle, {"quantile": 1.0}, "quantile"),
        (middle, {"quantile": 1e-300}, "quantile"),
        (middle, {"quantile": "half"}, "quantile"),
        (middle, {"target_bounds": (1, 1)}, "target_bounds"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    make: Callable[..., Any], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        make(SeededBits(6), **options).fit(*line(500, np.random.default_rng(6)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, np.int8])
@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 1 / 3])
def test_numbers_of_any_type_are_cut_at_the_bound_itself(kind: Any, bound: float) -> None:
    found = cut(np.array([5, -5, 0], dtype=kind), -bound, bound)
    assert found.tolist() == [bound, -bound, 0.0]


@pytest.mark.parametrize(
    ("make", "left_out"),
    [(poisson, "largest"), (ridge, "residual_bound"), (middle, "target_bounds")],
)
def test_bounds_are_asked_for(make: Callable[..., Any], left_out: str) -> None:
    for missing in (left_out, "feature_bounds"):
        with pytest.raises(MissingBound):
            make(None, **{missing: None}).fit(*line(500, np.random.default_rng(7)))


@pytest.mark.parametrize("of", ["score", "curvature"])
@pytest.mark.parametrize("change", [lambda a: a - a.mean(), np.sort, lambda a: a[:1], np.cumsum])
def test_losses_that_look_at_other_rows_are_refused(of: str, change: Any) -> None:
    class Meddling(LogCosh):
        """Its answers for a row depend on the others."""

    def answer(_: object, prediction: Any, target: Any) -> Any:
        return change(getattr(LogCosh, of)(LogCosh(1.0), prediction, target))

    setattr(Meddling, of, answer)
    model = MEstimator(loss=Meddling(1.0), budget=GDP(1), feature_bounds=(-3, 3))
    with pytest.raises(InvalidParameter, match="each row"):
        model.fit(np.zeros((100, 1)), np.zeros(100))
