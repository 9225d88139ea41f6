"""Local regressions: what devices send, that each is asked once, intervals that cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.inference.watched_fits import Floats, worst_rows

from unacorda import GDP, ZCDP, ApproxDP, PureDP, ReplaceOne, SeededBits, accounting, inference
from unacorda.bits import ScriptedBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.estimates.local import NoisyVector
from unacorda.inference.losses import Huber, LogCosh, Logistic, Loss
from unacorda.inference.regression.local import Device, dealt, shares
from unacorda.inference.regression.rows import scaling
from unacorda.inference.sums import unpacked
from unacorda.mechanisms.local import Directions
from unacorda.privacy.guarantees import Guarantee

TRUTH = np.array([0.3, 0.8, -0.5])
SCALES = scaling((-2.5, 2.5), features=2)


def people(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    x = drawn.normal(size=(n, 2)) @ np.array([[1.0, 0.3], [0.0, 0.95]])
    return x, (drawn.random(n) < expit(TRUTH[0] + x @ TRUTH[1:])).astype(float)


def device(loss: Loss, budget: Guarantee) -> Device:
    return Device(loss=loss, scales=SCALES, budget=budget)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Floats]]:
    """From now on what is handed to a randomiser, and to which."""
    seen: list[tuple[Any, Floats]] = []

    def watch(kind: type, change: Callable[[Any, Floats], Floats]) -> None:
        real = kind.release  # type: ignore[attr-defined]

        def noting(self: Any, x: Any, **named: Any) -> Any:
            seen.append((self, np.asarray(x)))
            return real(self, x, **named)

        monkeypatch.setattr(kind, "release", noting)

    for kind in (Directions, NoisyVector):
        watch(kind, lambda _, x: x)
    return seen


@pytest.mark.parametrize("loss", [Logistic(), Huber(1.345), LogCosh(3.0)], ids=repr)
@pytest.mark.parametrize("budget", [PureDP(2), GDP(1)], ids=repr)
def test_no_vector_is_longer_than_its_ball(
    loss: Loss, budget: Guarantee, sent: list[tuple[Any, Floats]]
) -> None:
    x, y = worst_rows(240, 2, seed=1)
    one, theta = device(loss, budget), np.array([0.2, -3.0, 1.0])
    one.gradient(x, y, theta=theta, bits=SeededBits(1))
    one.moment(x, bits=SeededBits(2))
    one.curvature(x, y, theta=theta, bits=SeededBits(3))
    assert len(sent) == 3
    for kind, rows in sent:
        longest = np.linalg.norm(rows, axis=1).max() / float(kind.radius)
        assert longest <= 1 + 1e-12  # what rounding is beyond is cut by the randomiser
        assert longest > 0.8


def test_noisy_vectors_are_cut_to_their_ball_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    from unacorda.mechanisms.additive.real import Gaussian

    seen: list[Any] = []
    real = Gaussian.release

    def noting(self: Gaussian, x: Any, **named: Any) -> Any:
        seen.append((self, np.asarray(x)))
        return real(self, x, **named)

    monkeypatch.setattr(Gaussian, "release", noting)
    reports = NoisyVector(size=3, radius=0.7, noise_multiplier=2)
    drawn = np.random.default_rng(3).standard_cauchy((300, 3))
    strange = [[math.nan, 1, 2], [math.inf, 0, 0], [1e308, 1e308, -1e308], [0, -0.0, 5e-324]]
    reports.release(np.vstack([drawn, strange]), bits=SeededBits(1))
    ((noise, rows),) = seen
    gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert gaps.max() <= float(noise.l2_sensitivity)
    assert gaps.max() > 0.99 * float(noise.l2_sensitivity)
    assert reports.event.noise_multiplier == 2


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("budget", [PureDP(3), GDP(3)], ids=repr)
def test_reports_are_unbiased(budget: Guarantee) -> None:
    drawn = np.random.default_rng(4)
    x, y = people(60_000, drawn)
    one, theta = device(Logistic(), budget), np.array([0.1, 0.5, -0.2])
    rows = SCALES.rows(x, np.ones(len(x)))
    weights = np.minimum(1, float(one._radius**2) / (rows**2).sum(axis=1))
    p = expit(rows @ theta)
    gradients = one.gradient(x, y, theta=theta, bits=SeededBits(1))
    off = gradients.mean(axis=0) - ((p - y) * weights) @ rows / len(x)
    assert np.abs(off).max() < 6 * math.sqrt(one.gradients.variance / len(x))
    bent = (rows * (weights * p * (1 - p))[:, None]).T @ rows / len(x)
    told = one.curvature(x, y, theta=theta, bits=SeededBits(2))
    assert told.shape == (60_000, 6)
    off = 0.25 * one.matrix(told) - bent
    assert np.abs(off).max() < 6 * 0.25 * one.matrix_deviation(len(x))
    moment = (rows * weights[:, None]).T @ rows / len(x)
    off = one.matrix(one.moment(x, bits=SeededBits(3))) - moment
    assert np.abs(off).max() < 6 * one.matrix_deviation(len(x))
    assert unpacked(told[0], 3).shape == (3, 3)


@pytest.mark.parametrize("budget", [PureDP(2), GDP(1)], ids=repr)
def test_everybody_is_asked_once_at_most(budget: Guarantee, sent: list[tuple[Any, Floats]]) -> None:
    n = 40_000
    x, y = people(n, np.random.default_rng(5))
    model = inference.LocalLogisticRegression(
        budget=budget, feature_bounds=(-2.5, 2.5), bits=SeededBits(5)
    ).fit(x, y)
    asked = sum(len(rows) for _, rows in sent)
    assert 0.999 * n < asked <= n
    assert len(sent) == 2 + model.n_iter_
    # One report of either kind is what the event says; neither costs more.
    for kind, _ in sent:
        for at in (0.0, 0.5, 1.0, 2.0):
            most = accounting.delta(model.event_, epsilon=at, neighbors=ReplaceOne)
            assert accounting.delta(kind.event, epsilon=at, neighbors=ReplaceOne) <= most


def test_rounds_are_dealt_out_at_random_and_share_nobody() -> None:
    one = device(Logistic(), PureDP(2))
    parts = shares(one, 50_000, asked=PureDP(2))
    assert sum(parts) == 1
    groups = dealt(parts, 50_000, bits=SeededBits(6))
    together = np.concatenate(groups)
    assert len(np.unique(together)) == len(together) > 49_980
    assert all(abs(group.mean() - 25_000) < 6 * 14_434 / math.sqrt(len(group)) for group in groups)


@pytest.mark.parametrize(
    "budget", [PureDP("1.5"), ApproxDP("1.5", 1e-6), ZCDP(0.5), GDP(1)], ids=repr
)
def test_the_event_costs_no_more_than_the_budget(budget: Guarantee) -> None:
    event = device(Logistic(), budget).event
    match budget:
        case PureDP():
            assert accounting.epsilon(event, delta=0, neighbors=ReplaceOne) <= 1.5
        case ApproxDP():
            assert accounting.delta(event, epsilon=1.5, neighbors=ReplaceOne) <= 1e-6
        case ZCDP():
            assert accounting.rho(event, neighbors=ReplaceOne) <= 0.5
        case _:
            assert accounting.rho(event, neighbors=ReplaceOne) <= 0.5 + 1e-12


def share_covered(
    budget: Guarantee, *, n: int, fits: int, seed: int, linear: bool
) -> tuple[float, float]:
    """The share of intervals that cover, among those that are given; and of those given."""
    drawn, bits = np.random.default_rng(seed), SeededBits(seed)
    covered: list[float] = []
    for _ in range(fits):
        x, y = people(n, drawn)
        model: Any
        if linear:
            y = TRUTH[0] + x @ TRUTH[1:] + drawn.standard_t(3, n)
            model = inference.LocalLinearRegression(
                residual_bound=2.0, budget=budget, feature_bounds=(-2.5, 2.5), bits=bits
            )
        else:
            model = inference.LocalLogisticRegression(
                budget=budget, feature_bounds=(-2.5, 2.5), bits=bits
            )
        low, high = model.fit(x, y).conf_int().T
        if np.isfinite(low).all():
            covered.append(float(np.mean((low <= TRUTH) & (high >= TRUTH))))
    return float(np.mean(covered)), len(covered) / fits


@pytest.mark.parametrize("side", [0, 1, None], ids=["separated", "all alike", "far coefficients"])
def test_classes_that_no_finite_line_parts_have_no_intervals(side: int | None) -> None:
    # Coefficients are infinite, or 5, where steps end near 4.5: intervals would not hold them.
    drawn = np.random.default_rng(9)
    x = drawn.normal(size=(30_000, 2))
    far = drawn.random(30_000) < expit(5 * x[:, 0])
    y = far if side is None else x[:, 0] > 1e9 * side
    for seed in range(3):
        model = inference.LocalLogisticRegression(
            budget=GDP(4), feature_bounds=(-3, 3), bits=SeededBits(seed)
        ).fit(x, y.astype(int))
        assert np.isinf(model.conf_int()).all()
        assert model.diagnostics_["signal"] < 2


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(900)
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("budget", [PureDP(2), GDP(1.5)], ids=repr)
def test_intervals_cover(budget: Guarantee, linear: bool) -> None:
    # 250 fits of 3 parameters: a deviation of at most 0.0138; 5 of them are 0.07.
    covered, given = share_covered(budget, n=40_000, fits=250, seed=7, linear=linear)
    assert given > 0.9
    assert covered > 0.95 - 0.07


@pytest.mark.long
@pytest.mark.statistical
def test_errors_are_about_as_large_as_they_are_said_to_be() -> None:
    drawn, bits = np.random.default_rng(8), SeededBits(8)
    off = []
    for _ in range(12):
        x, y = people(40_000, drawn)
        model = inference.LocalLogisticRegression(
            budget=GDP(2), feature_bounds=(-2.5, 2.5), bits=bits
        ).fit(x, y)
        error = np.hypot(model.sampling_error_, model.privacy_error_)
        off += ((np.append(model.intercept_, model.coef_) - TRUTH) / error).tolist()
        assert (model.privacy_error_ > model.sampling_error_).all()
    # 36 numbers of variance about 1: their mean square is within 0.2 and 3 but for 1e-7.
    assert 0.2 < np.mean(np.square(off)) < 3


@pytest.mark.long
@pytest.mark.statistical
def test_correlated_features_cost_a_root_less_than_unwhitened_ones_would() -> None:
    # Of 0.9, so that a second moment is 0.1 in one direction. Without whitening the error of a
    # slope is 0.1 and more, and intervals are infinite; with it 0.045: twice that of the root mean
    # square of 10, nearly uncorrelated in pairs, has p < 1e-6.
    drawn, bits = np.random.default_rng(15), SeededBits(15)
    off = []
    for _ in range(5):
        shared = drawn.normal(size=(200_000, 1)) * math.sqrt(0.9)
        x = shared + drawn.normal(size=(200_000, 2)) * math.sqrt(0.1)
        y = TRUTH[0] + x @ TRUTH[1:] + drawn.normal(size=200_000)
        model = inference.LocalLinearRegression(
            residual_bound=1.5, budget=GDP(1.5), feature_bounds=(-2.5, 2.5), bits=bits
        ).fit(x, y)
        assert np.isfinite(model.conf_int()).all()
        off += (model.coef_ - TRUTH[1:]).tolist()
        assert (
            np.abs(off[-2:] / np.hypot(model.sampling_error_, model.privacy_error_)[1:]).max() < 6
        )
    assert math.sqrt(np.mean(np.square(off))) < 0.085


def test_sorted_people_and_outliers_do_no_harm() -> None:
    drawn = np.random.default_rng(9)
    x, _ = people(40_000, drawn)
    y = 5 + x @ TRUTH[1:] + drawn.standard_t(2, 40_000)
    order = np.argsort(y)
    y[order[::50]] += 1e6
    x[order[7::1000]] *= 1e5
    x[order[5::997], 0] = math.nan
    model = inference.LocalLinearRegression(
        residual_bound=2.0, budget=GDP(3), feature_bounds=(-2.5, 2.5), start=3, bits=SeededBits(9)
    ).fit(x[order], y[order])
    assert np.abs(model.coef_ - TRUTH[1:]).max() < 0.2
    assert abs(model.intercept_ - 5) < 0.3
    assert model.predict(x[:3]).shape == (3,)


def test_other_labels_report_nothing_and_text_is_read() -> None:
    x, y = people(40_000, np.random.default_rng(10))
    named = np.where(y > 0, "yes", "no").astype(object)
    named[::20] = "perhaps"
    model = inference.LocalLogisticRegression(
        budget=GDP(3), feature_bounds=(-2.5, 2.5), classes=("no", "yes"), bits=SeededBits(10)
    ).fit(x, named)
    assert np.abs(model.coef_[0] - TRUTH[1:]).max() < 0.25
    assert [row["name"] for row in model.summary().to_dicts()] == ["intercept", "x0", "x1"]
    assert "noise hides" not in str(model.summary())
    assert set(model.predict(x[:50])) == {"no", "yes"}
    assert np.allclose(model.predict_proba(x[:4]).sum(axis=1), 1)


def test_constant_features_get_no_interval() -> None:
    x, y = people(40_000, np.random.default_rng(11))
    x[:, 1] = x[:, 0]
    model = inference.LocalLogisticRegression(
        budget=GDP(2), feature_bounds=(-2.5, 2.5), bits=SeededBits(11)
    ).fit(x, y)
    assert model.diagnostics_["signal"] < 2
    assert np.isinf(model.conf_int()).all()
    assert np.isinf(model.sampling_error_).all()
    assert np.isinf(model.privacy_error_).all()
    assert np.isfinite(model.coef_).all()
    told = str(model.summary())
    assert "each report, its row replaced" in told
    assert "noise hides the curvature" in told


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, 0.0])
def test_data_of_any_kind_raise_nothing_and_answer_in_numbers(value: float) -> None:
    x, y = people(3000, np.random.default_rng(12))
    x[:], y[::2] = value, value
    for model in (
        inference.LocalLinearRegression(
            residual_bound=1.0, budget=GDP(10), feature_bounds=(-3, 3), bits=SeededBits(1)
        ),
        inference.LocalLogisticRegression(
            budget=PureDP(10), feature_bounds=(-3, 3), bits=SeededBits(1)
        ),
    ):
        assert np.isfinite(model.fit(x, y).coef_).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": 1.0}, "budget"),
        ({"budget": PureDP(0.01)}, "budget"),
        ({"budget": PureDP(1e-300)}, "budget"),
        ({"loss": 3}, "loss"),
        ({"start": math.inf}, "start"),
        ({"feature_bounds": (1, 0)}, "feature_bounds"),
    ],
)
def test_arguments_that_cannot_be_used_are_named_before_a_bit_is_drawn(
    change: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"loss": Logistic(), "budget": PureDP(2), "feature_bounds": (-3, 3)}
    model = inference.LocalMEstimator(bits=ScriptedBits([]), **(given | change))
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        model.fit(*people(1000, np.random.default_rng(13)))


def test_bounds_and_people_are_asked_for() -> None:
    x, y = people(9, np.random.default_rng(14))
    with pytest.raises(InvalidParameter, match=r"^X=.*n_samples=9"):
        inference.LocalLogisticRegression(budget=GDP(10**6), feature_bounds=(-3, 3)).fit(x, y)
    with pytest.raises(MissingBound):
        inference.LocalLogisticRegression(budget=GDP(1)).fit(x, y)
    with pytest.raises(MissingBound):
        inference.LocalLinearRegression(budget=GDP(1), feature_bounds=(-3, 3)).fit(x, y)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": 0}, "size"),
        ({"radius": 0}, "radius"),
        ({"radius": 1e-300}, "radius"),
        ({"budget": 2}, "budget"),
        ({"budget": PureDP(1e-300)}, "budget"),
    ],
)
def test_randomizers_of_vectors_name_what_they_cannot_use(
    change: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"size": 2, "radius": 1, "budget": PureDP(1)}
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        inference.vector_randomizer(**(given | change))


@pytest.mark.parametrize("epsilon", [0.5, 2, 6])
@pytest.mark.parametrize("size", [1, 5, 50])
def test_vectors_get_the_least_variance(epsilon: float, size: int) -> None:
    for budget in (ApproxDP(epsilon, 1e-6), ApproxDP(epsilon, 0.1), GDP(epsilon)):
        chosen = inference.vector_randomizer(size=size, radius=2, budget=budget)
        pure = Directions(epsilon=PureDP.within(budget).epsilon, size=size, radius=2)
        assert chosen.variance <= pure.variance
        if isinstance(budget, GDP):
            assert chosen.variance <= (4 / epsilon) ** 2 * (1 + 1e-9)
