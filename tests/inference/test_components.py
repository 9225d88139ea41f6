"""Principal components: sensitivity, errors as told, the gate, and what cannot be used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, ReplaceOne, SeededBits, accounting
from unacorda.errors import InvalidParameter
from unacorda.inference import PCA, LogisticRegression
from unacorda.inference.sums import packed
from unacorda.inference.transformers import ball_moments, in_ball
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.shaped.vectors import KNorm
from unacorda.privacy.guarantees import Guarantee

Floats = np.ndarray[Any, np.dtype[np.float64]]


def model(k: int | None = None, **options: Any) -> PCA:
    chosen: dict[str, Any] = {"budget": GDP(1), "feature_bounds": (-8, 8)}
    return PCA(k, **(chosen | options))


def people(n: int, deviations: list[float], *, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, len(deviations))) * deviations


def strange_rows(p: int) -> Floats:
    drawn = np.random.default_rng(p)
    rows = drawn.normal(size=(120, p)) * 10.0 ** drawn.integers(-3, 5, (120, 1))
    rows[:40] = np.sign(rows[:40])
    rows[40:80] = -rows[:40]
    unit = np.zeros((3, p))
    unit[1], unit[2] = math.inf, math.nan
    return np.concatenate([rows, np.eye(p), -np.eye(p), unit, np.full((1, p), -1e308)])


@pytest.mark.parametrize("p", [1, 2, 3, 6])
@pytest.mark.parametrize(("with_mean", "claimed"), [(True, 2.5), (False, math.sqrt(2))])
def test_no_two_rows_are_farther_apart_than_is_claimed(
    p: int, with_mean: bool, claimed: float
) -> None:
    rows = in_ball(strange_rows(p), centre=np.zeros(p), unit=np.ones(p))
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    if p > 1:  # the worst pair: c = -1/4 of the proof, or orthogonal rows
        pair = np.zeros((2, p))
        pair[:, 0] = 1.0, -0.25
        pair[1, 1] = math.sqrt(1 - 1 / 16)
        rows = np.concatenate([rows, pair])
    weight = math.sqrt(2) if with_mean else 1.0
    squares = np.array([weight * packed(np.outer(row, row)) for row in rows])
    vectors = np.concatenate([rows, squares], axis=1) if with_mean else squares
    farthest = max(float(np.linalg.norm(vectors - one, axis=1).max()) for one in vectors)
    assert farthest <= claimed * (1 + 1e-12)
    if p > 1:
        assert farthest >= claimed * (1 - 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("budget", [GDP(1), PureDP(1)], ids=repr)
@pytest.mark.parametrize("center", [True, False])
def test_sums_of_neighbors_are_within_the_sensitivity_of_the_noise(
    budget: Guarantee, center: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums: list[Floats] = []
    bounds: list[float] = []

    def exact(self: Gaussian, steps: list[int], *, unit_log2: int, bits: Any) -> list[float]:
        sums.append(np.array([math.ldexp(step, unit_log2) for step in steps]))
        bounds.append(float(self.l2_sensitivity))
        return list(sums[-1])

    def floats(self: KNorm, x: Floats, *, bits: Any) -> Floats:
        sums.append(x)
        bounds.append(float(self.sensitivity))
        return x

    monkeypatch.setattr(Gaussian, "release_exact", exact)
    monkeypatch.setattr(KNorm, "release", floats)
    rows = strange_rows(3)
    x = rows[:20].copy()
    for row in rows:
        x[7] = row
        model(budget=budget, center=center, row_norm=1.0).fit(x)
    farthest = max(float(np.linalg.norm(one - other)) for one in sums for other in sums)
    assert len(set(bounds)) == 1
    assert 0.8 * bounds[0] < farthest <= bounds[0]
    assert bounds[0] < (2.5 if center else math.sqrt(2)) * (1 + 1e-8)


@in_subtests("scale", [False, True])
@in_subtests("budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.1), GDP(0.5), RenyiDP(4, 1)], ids=repr)
def test_the_event_is_within_the_budget(budget: Guarantee, scale: bool) -> None:
    fitted = model(budget=budget, scale=scale).fit(people(300, [3.0, 1.0], seed=1))
    assert fitted.guarantee_ == budget
    match budget:
        case PureDP() | ApproxDP():
            delta = float(getattr(budget, "delta", 0.0))
            spent = accounting.epsilon(fitted.event_, delta=delta, neighbors=ReplaceOne)
            assert 0.7 < spent <= 1 + 1e-9
        case RenyiDP():
            assert accounting.renyi(fitted.event_, alpha=4, neighbors=ReplaceOne) <= 1
        case _:
            rho = 0.1 if isinstance(budget, ZCDP) else 0.125
            spent = accounting.rho(fitted.event_, neighbors=ReplaceOne)
            assert 0.7 * rho < spent <= rho * (1 + 1e-9)


def test_without_noise_it_is_scikit_learns() -> None:
    x = people(400, [3.0, 1.0, 0.5], seed=2) + np.array([5.0, -5.0, 0.0])
    ours = model(2, budget=GDP(10**8), feature_bounds=(-30, 30)).fit(x)
    theirs = decomposition.PCA(2).fit(x)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-4)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.02)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-4)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(x)),
        theirs.inverse_transform(theirs.transform(x)),
        atol=1e-2,
    )
    assert ours.get_feature_names_out().tolist() == ["pca0", "pca1"]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("budget", "n"),
    mostly_slow([(GDP(1), 5000), (PureDP(1), 20_000), (ApproxDP(1, 1e-6), 20_000)]),
    ids=repr,
)
def test_intervals_cover_distinct_variances_and_angles_are_as_told(
    budget: Guarantee, n: int
) -> None:
    # Each of 2 eigenvalues, 100 samples at a coverage of 0.95: fewer than 80 with p < 1e-7.
    truth = np.array([4.0, 1.5, 0.5])
    drawn, bits = np.random.default_rng(3), SeededBits(3)
    turn = np.linalg.qr(drawn.normal(size=(3, 3)))[0]
    covered, angles, told = np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(100):
        x = drawn.normal(size=(n, 3)) * np.sqrt(truth) @ turn.T + 0.5
        fitted = model(2, budget=budget, bits=bits).fit(x)
        assert fitted.distinct_.all()
        lower, upper = fitted.conf_int().T
        covered += (lower <= truth[:2]) & (truth[:2] <= upper)
        cosine = np.abs(np.einsum("kj,jk->k", fitted.components_, turn[:, :2]))
        angles += 1 - cosine**2
        told += fitted.angle_error_**2
    assert covered.min() >= 80
    # Mean squares of 100 angles of 2 degrees of freedom: within a factor of 2 by far.
    assert (angles / told > 0.5).all()
    assert (angles / told < 2).all()


@pytest.mark.statistical
def test_directions_of_noise_are_not_distinct_and_their_intervals_are_wide() -> None:
    # Ten equal eigenvalues: a gap of noise has a mean of some 1 and a deviation of at most sqrt 2
    # of s (Gaussian concentration), 2 s sqrt 20 is asked: p < 1e-5 a fit, more than 1 of 50 < 1e-6.
    bits, wrong = SeededBits(4), 0
    for seed in range(50):
        x = people(3000, [1.0] * 10, seed=seed)
        fitted = model(feature_bounds=(-4, 4), bits=bits).fit(x)
        wrong += bool(fitted.distinct_.any())
        lower, upper = fitted.conf_int().T
        assert ((lower <= 1) & (upper >= 1)).all()
        assert (fitted.angle_error_[fitted.distinct_ == 0] == math.pi / 2).all()
    assert wrong <= 1


def test_a_span_that_stands_apart_is_told_by_its_signal() -> None:
    x = people(20_000, [3.0, 3.0, 1.0, 1.0], seed=5)
    bits = SeededBits(5)
    assert model(2, bits=bits).fit(x).diagnostics_["signal"] > 10
    assert model(1, bits=bits).fit(x).diagnostics_["signal"] < 2
    assert not model(1, bits=bits).fit(x).distinct_.any()


def test_a_row_far_out_moves_little_and_a_constant_column_is_no_error() -> None:
    x = people(2000, [1.0, 0.0, 1.0], seed=6)
    x[0] = [1e300, math.nan, -math.inf]
    fitted = model(bits=SeededBits(6)).fit(x)
    for name in ("components_", "covariance_", "explained_variance_", "mean_", "privacy_error_"):
        assert np.isfinite(getattr(fitted, name)).all()
    assert np.linalg.eigvalsh(fitted.covariance_).min() > -1e-9
    assert (fitted.explained_variance_ < 2).all()
    assert fitted.explained_variance_[-1] < 0.1
    assert fitted.explained_variance_ratio_.max() <= 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, 0.0])
def test_data_of_any_kind_raise_nothing(value: float) -> None:
    fitted = model(scale=True, bits=SeededBits(7)).fit(np.full((50, 2), value))
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(model(bits=SeededBits(7)).fit(np.full((1, 2), value)).conf_int()).all()


def test_private_scaling_finds_the_units() -> None:
    x = people(20_000, [3.0, 0.5], seed=8) + np.array([40.0, 2.0])
    fitted = model(scale=True, feature_bounds=(0, 100), bits=SeededBits(8)).fit(x)
    np.testing.assert_allclose(fitted.scale_, [3.0, 0.5], rtol=0.15)
    np.testing.assert_allclose(fitted.mean_, [40.0, 2.0], atol=0.1)
    np.testing.assert_allclose(fitted.explained_variance_, [1, 1], atol=0.3)


def test_it_stands_in_a_pipeline_and_is_cloned() -> None:
    x = people(5000, [3.0, 1.0, 0.2], seed=9)
    y = (x[:, 0] > 0).astype(int)
    pipeline = make_pipeline(
        model(1, budget=GDP(0.5), bits=SeededBits(9)),
        LogisticRegression(budget=GDP(0.5), feature_bounds=(-8, 8), bits=SeededBits(10)),
    )
    assert clone(pipeline).fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("k", [0, -1, 4, 1.5, "mle", True, math.nan])
def test_numbers_of_components_out_of_range_are_named(k: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^n_components="):
        model(k).fit(people(50, [1.0] * 3, seed=1))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"budget": 1.0}, "budget"),
        ({"budget": PureDP(0)}, "budget"),
        ({"feature_bounds": (1, 0)}, "feature_bounds"),
        ({"feature_bounds": ([0, 0], [1, 1])}, "feature_bounds"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": math.nan}, "row_norm"),
        ({"center": "yes"}, "center"),
        ({"scale": 2}, "scale"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(options: dict[str, Any], name: str) -> None:
    bits = SeededBits(1)
    with pytest.raises(InvalidParameter, match=f"^{name}="):
        model(bits=bits, **options).fit(people(50, [1.0] * 3, seed=1))
    assert bits.below(1 << 62) == SeededBits(1).below(1 << 62)  # nothing was drawn


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r"^X="):
        model().fit(np.array([["a", "b"]]))
    with pytest.raises(InvalidParameter, match=r"^X="):
        model(1).fit(np.zeros((5, 2))).inverse_transform(np.zeros((5, 2)))
    with pytest.raises(InvalidParameter, match=r"^confidence="):
        model(1).fit(np.zeros((5, 2))).conf_int(1.0)


def test_a_pure_budget_for_too_many_numbers_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="one with a delta"):
        model(budget=PureDP(1)).fit(np.zeros((5, 200)))


def test_moments_of_one_row_are_finite() -> None:
    one = np.ones(1)
    found = ball_moments(
        one[None], centre=one, unit=one, with_mean=True, budget=GDP(1), bits=SeededBits(1)
    )
    assert np.isfinite(found.covariance).all()
