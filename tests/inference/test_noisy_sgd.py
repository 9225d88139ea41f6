"""Noisy descent: sensitivities, exact sums, its price, and what clipping does to coefficients."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp
from tests.inference.watched_fits import Floats, worst_rows
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import (
    GDP,
    ZCDP,
    AddRemove,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    SeededBits,
    accounting,
    inference,
)
from unacorda.bits import ScriptedBits
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.losses import Huber, Logistic, Loss, Poisson
from unacorda.inference.regression import noisy_sgd
from unacorda.inference.regression.noisy_sgd import NoisySGD, Squared, noise_for
from unacorda.inference.regression.rows import scaling
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee

BUDGET = ApproxDP(1, 1e-6)
TRUTH = np.array([-1.0, 1.0, -0.5])


def people(n: int, drawn: np.random.Generator) -> tuple[Floats, Floats]:
    """Skewed features, by which clipping does its worst."""
    x = drawn.exponential(size=(n, 2))
    return x, (drawn.random(n) < expit(TRUTH[0] + x @ TRUTH[1:])).astype(float)


def descent(x: Floats, y: Floats, *, loss: Loss, **change: Any) -> noisy_sgd._Descent:
    present = np.isfinite(x).all(axis=1) & np.isfinite(y)
    rows = scaling((0, 4), features=x.shape[1]).rows(x, present.astype(float))
    given: dict[str, Any] = {
        "rows": rows,
        "target": np.where(present, y, 0.0),
        "loss": loss,
        "clip": 0.7,
        "noise": 1.0,
        "rate": Fraction(1),
        "bits": SeededBits(1),
    }
    return noisy_sgd._Descent(**(given | change))


@in_subtests("loss", [Squared(), Logistic(), Poisson(50.0), Huber(1.0)], ids=repr)
@in_subtests("clip", [0.7, 3.0, 1e-5])
def test_no_persons_gradient_is_longer_than_the_clip(loss: Loss, clip: float) -> None:
    x, y = worst_rows(240, 2, seed=2)
    run = descent(x, y, loss=loss, clip=clip)
    steps = run.clipped(np.arange(240), np.array([0.3, -2.0, 1.0])).tolist()
    longest = max(sum(entry * entry for entry in row) for row in steps)
    most = (Fraction(str(clip)) / Fraction(2) ** run.unit_log2) ** 2
    assert longest <= most
    assert longest > 0.999 * most


def test_one_person_more_moves_the_sum_by_no_more_than_her_own_gradient() -> None:
    x, y = worst_rows(100, 2, seed=3)
    theta = np.array([0.1, 0.5, -0.5])
    whole = descent(x, y, loss=Squared())
    gone = descent(x[:-1], y[:-1], loss=Squared())
    mine = whole.clipped(np.array([99]), theta)[0].tolist()
    difference = [a - b for a, b in zip(whole.sums(theta), gone.sums(theta), strict=True)]
    assert difference == mine  # exactly, whatever the order of the sum


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 3), Fraction(1)])
def test_everybody_is_in_a_batch_by_a_coin_of_her_own(rate: Fraction) -> None:
    n = 30_000
    ones = descent(np.zeros((n, 1)), np.full(n, -1.0), loss=Squared(), rate=rate, clip=8.0)
    unit = 2.0**ones.unit_log2
    sizes = [ones.sums(np.zeros(2))[0] * unit for _ in range(50)]  # each adds 1 to the intercept
    drawn = sum(round(size) for size in sizes)
    assert sizes == [round(size) for size in sizes]
    assert stats.binomtest(drawn, 50 * n, float(rate)).pvalue > 1e-8
    if rate < 1:
        assert len({round(size) for size in sizes}) > 10


@pytest.mark.long
def test_the_noise_is_what_the_event_says(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Gaussian] = []
    real = Gaussian.release_exact

    def noting(self: Gaussian, values: Any, **named: Any) -> Any:
        used.append(self)
        return real(self, values, **named)

    monkeypatch.setattr(Gaussian, "release_exact", noting)
    x, y = people(500, np.random.default_rng(4))
    model = NoisySGD(
        loss=Logistic(),
        budget=BUDGET,
        clip=0.3,
        steps=40,
        sampling_rate=0.1,
        feature_bounds=(0, 4),
        bits=SeededBits(4),
    ).fit(x, y)
    assert len(used) == 40
    for noise in used:
        one = events.Gaussian(noise_multiplier=noise.event.noise_multiplier)
        assert one.poisson_sampled(rate=0.1) * 40 == model.event_
        assert noise.l2_sensitivity == 0.3  # the decimal


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "steps"), mostly_slow([(0.05, 100), (1.0, 20), (0.5, 5)], quick=2)
)
def test_the_event_costs_the_budget_under_replacement(rate: float, steps: int) -> None:
    x, y = people(300, np.random.default_rng(5))
    model = NoisySGD(
        loss=Logistic(),
        budget=BUDGET,
        sampling_rate=rate,
        steps=steps,
        feature_bounds=(0, 4),
        bits=SeededBits(5),
    ).fit(x, y)
    spent = accounting.epsilon(model.event_, delta=1e-6, neighbors=ReplaceOne)
    assert 0.99 < spent <= 1
    # Replacement costs more than coming or going: who prices the latter promises too much.
    assert accounting.epsilon(model.event_, delta=1e-6, neighbors=AddRemove) < 0.8 * spent


def renyi_of_a_step(noise: float, rate: float, alpha: float) -> float:
    """By quadrature: somebody at +1 in the unit of the clip against somebody at -1, if drawn."""
    at = np.linspace(-60 * noise - 1, 60 * noise + 1, 400_001)
    normal = stats.norm(scale=noise).logpdf
    out = np.log1p(-rate) + normal(at) if rate < 1 else np.full(at.size, -np.inf)
    first, second = (np.logaddexp(out, math.log(rate) + normal(at - end)) for end in (1, -1))
    whole = logsumexp(alpha * first + (1 - alpha) * second) + math.log(at[1] - at[0])
    return float(whole) / (alpha - 1)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0])
def test_renyi_budgets_are_kept_and_used(rate: float) -> None:
    noise = noise_for(RenyiDP(4, 1), sampling_rate=Fraction(str(rate)), steps=30)
    assert 0.3 < 30 * renyi_of_a_step(noise, rate, 4.0) <= 1 + 1e-6


@pytest.mark.parametrize("rate", [0.05, 1.0])
@pytest.mark.parametrize("budget", [GDP("0.8"), GDP("0.8", delta=1e-6), ZCDP("0.32")], ids=repr)
def test_in_gaussian_and_concentrated_dp_batches_are_priced_as_if_coins_were_seen(
    budget: Guarantee, rate: float
) -> None:
    # Two clips apart in each of 25 batches: mu = 2 sqrt(25) / noise, rho = mu^2 / 2.
    x, y = people(200, np.random.default_rng(13))
    model = NoisySGD(
        loss=Logistic(),
        budget=budget,
        sampling_rate=rate,
        steps=25,
        feature_bounds=(0, 4),
        bits=SeededBits(13),
    ).fit(x, y)
    assert 12.5 <= model.noise_multiplier_ <= 12.5 * 1.0002
    assert model.guarantee_ == budget
    most = accounting.rho(model.event_, neighbors=ReplaceOne)
    assert 0.3199 < most <= 0.32


def mean_score(x: Floats, y: Floats, *, clip: float | None) -> Floats:
    """The mean gradient at the truth over its deviation: clipped, or weighted."""
    rows = np.column_stack([np.ones(len(x)), x])
    gradients = rows * (expit(rows @ TRUTH) - y)[:, None]
    if clip is None:
        factor = np.minimum(1, 3 / (rows**2).sum(axis=1))  # by the features alone
    else:
        factor = np.minimum(1, clip / np.linalg.norm(gradients, axis=1))
    gradients = gradients * factor[:, None]
    return np.asarray(gradients.mean(axis=0) / gradients.std(axis=0) * math.sqrt(len(x)))


@pytest.mark.statistical
def test_clipped_scores_do_not_vanish_at_the_truth_and_weighted_ones_do() -> None:
    x, y = people(200_000, np.random.default_rng(6))
    assert np.abs(mean_score(x, y, clip=None)).max() < 6
    assert np.abs(mean_score(x, y, clip=0.5)).max() > 50


@pytest.mark.long
@pytest.mark.statistical
def test_clipping_bends_coefficients_and_more_people_do_not_mend_it() -> None:
    for n in (10_000, 60_000):
        x, y = people(n, np.random.default_rng(7))
        budget = ApproxDP(8, 1e-6)
        clipped = NoisySGD(
            loss=Logistic(),
            budget=budget,
            clip=0.5,
            learning_rate=1.0,
            steps=400,
            feature_bounds=(0, 4),
            bits=SeededBits(7),
        ).fit(x, y)
        assert clipped.coef_[0] > 1.8  # 1 in truth
        weighted = inference.LogisticRegression(
            budget=budget, feature_bounds=(0, 4), bits=SeededBits(8)
        ).fit(x, y)
        error = np.hypot(weighted.sampling_error_, weighted.privacy_error_)
        told = np.append(weighted.intercept_, weighted.coef_)
        assert (np.abs(told - TRUTH) < 6 * error).all()


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(["squared", "huber", "poisson"], quick=2))
def test_a_wide_clip_finds_the_coefficients(kind: str) -> None:
    drawn = np.random.default_rng(9)
    x = drawn.normal(size=(20_000, 2))
    line = 0.5 + x @ [0.4, -0.3]
    losses: dict[str, Loss] = {"squared": Squared(), "huber": Huber(2.0), "poisson": Poisson(50.0)}
    y = drawn.poisson(np.exp(line)) if kind == "poisson" else line + drawn.normal(size=20_000)
    model = NoisySGD(
        loss=losses[kind],
        budget=ApproxDP(8, 1e-6),
        clip=8.0,
        learning_rate=0.2,
        steps=300,
        feature_bounds=(-2.5, 2.5),
        bits=SeededBits(9),
    ).fit(x, y)
    assert np.abs(np.append(model.intercept_, model.coef_) - [0.5, 0.4, -0.3]).max() < 0.1
    assert model.predict(x[:5]).shape == (5,)


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, 0.0])
def test_data_of_any_kind_raise_nothing_and_answer_in_numbers(value: float) -> None:
    x, y = people(300, np.random.default_rng(10))
    x[:], y[::2] = value, value
    for loss in (Squared(), Logistic(), Poisson(9.0)):
        model = NoisySGD(loss=loss, budget=BUDGET, steps=20, feature_bounds=(0, 4))
        assert np.isfinite(model.fit(x, y).coef_).all()


@in_subtests(
    ("change", "named"),
    [
        ({"budget": 1.0}, "budget"),
        ({"budget": PureDP(1)}, "budget"),
        ({"budget": GDP(0)}, "budget"),
        ({"budget": ApproxDP(1, 0)}, "budget"),
        ({"clip": 0}, "clip"),
        ({"clip": 1e200}, "clip"),
        ({"sampling_rate": 0}, "sampling_rate"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"steps": 0}, "steps"),
        ({"steps": 10**9}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"start": math.nan}, "start"),
        ({"loss": Squared}, "loss"),
        ({"loss": 3}, "loss"),
        ({"feature_bounds": (1, 0)}, "feature_bounds"),
    ],
)
def test_arguments_that_cannot_be_used_are_named_before_a_bit_is_drawn(
    change: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"loss": Squared(), "budget": BUDGET, "feature_bounds": (0, 4)}
    model = NoisySGD(bits=ScriptedBits([]), **(given | change))
    with pytest.raises(InvalidParameter, match=f"^{named}="):
        model.fit(*people(100, np.random.default_rng(11)))


def test_bounds_are_asked_for() -> None:
    with pytest.raises(MissingBound):
        NoisySGD(loss=Squared(), budget=BUDGET).fit(*people(100, np.random.default_rng(12)))
