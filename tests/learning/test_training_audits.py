"""Real training, audited by its canaries: promises hold, their breaches show, theory is met."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unacorda import SeededBits, accounting, audit, events, learning

torch: Any = pytest.importorskip("torch")

from tests.learning.loops import apart, descend, network, people  # noqa: E402  # needs torch

DELTA = 1e-5
SURE = 1 - 1e-7  # a bound exceeds the truth with probability 1e-7 at most
COUNT = 2000


def audited(make: Any, *, seed: int, **options: Any) -> tuple[Any, Any]:
    """Scores and coins of canaries in a network of 3,100 parameters trained on 200 people."""
    model = network(10, 60, 40, seed=seed)
    canaries = make(model, count=COUNT, bits=SeededBits(seed))
    data = people(200, features=10, classes=40, seed=seed)
    seen = descend(model, data, canaries, seed=seed, **options)
    return canaries.scored_by_projection(seen), canaries.included


@pytest.mark.statistical
@pytest.mark.parametrize("make", [learning.dirac, learning.scattered])
@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_power_is_that_of_the_theory(make: Any, mu: float) -> None:
    # 20 steps of everybody with noise sqrt(20) / mu are Gaussian DP of mu exactly, and the sum of
    # the noisy gradients along a canary's own is normal with means 20 and 0. The estimate of mu has
    # a deviation of about sqrt(4 / m + mu^2 / 2 m); 5.5 of them are left with probability 4e-8.
    scores, included = audited(make, seed=11, noise_multiplier=math.sqrt(20) / mu, steps=20)
    deviation = math.sqrt(4 / COUNT + mu**2 / (2 * COUNT))
    assert abs(apart(scores, included) - mu) < 5.5 * deviation
    found = audit.one_run_f_dp(scores, included, delta=DELTA, confidence=SURE)
    assert found.mu is not None
    assert found.mu <= mu
    # What the same audit says of scores drawn from the theory; three quarters are left to chance.
    drawn = np.random.default_rng(11)
    ideal = audit.one_run_f_dp(
        mu * included + drawn.normal(size=COUNT), included, delta=DELTA, confidence=SURE
    )
    assert ideal.mu is not None
    assert found.mu > 0.75 * ideal.mu > 0.1


@pytest.mark.statistical
@pytest.mark.parametrize("make", [learning.dirac, learning.scattered])
def test_samples_keep_the_accountants_promise_and_cut_noise_does_not(make: Any) -> None:
    promised = accounting.epsilon(
        events.Gaussian(noise_multiplier=4.0).poisson_sampled(rate=0.25) * 40, delta=DELTA
    )
    assert 1 < promised < 2
    scores, included = audited(make, seed=12, noise_multiplier=4.0, rate=0.25, steps=40)
    for found in (
        audit.one_run(scores, included, delta=DELTA, confidence=SURE),
        audit.one_run_f_dp(scores, included, delta=DELTA, confidence=SURE),
        audit.one_run_f_dp(scores, included, delta=DELTA, confidence=SURE, family="approximate"),
    ):
        assert not found.contradicts(promised)
    # Planted: the noise is divided by the size of the batch, 50, once more than it should be.
    scores, included = audited(make, seed=12, noise_multiplier=4.0 / 50, rate=0.25, steps=40)
    found = audit.one_run_f_dp(scores, included, delta=DELTA, confidence=SURE)
    assert found.contradicts(promised)


@pytest.mark.statistical
def test_a_clip_that_is_left_out_shows() -> None:
    # The canaries' gradients are twelve times as long as what the loop promises to cut them to.
    promised = accounting.epsilon(events.Gaussian(noise_multiplier=20.0) * 20, delta=DELTA)

    def long(model: Any, **options: Any) -> Any:
        return learning.dirac(model, norm=12.0, **options)

    for clipped in (True, False):
        scores, included = audited(long, seed=13, noise_multiplier=20.0, steps=20, clipped=clipped)
        found = audit.one_run_f_dp(scores, included, delta=DELTA, confidence=SURE)
        assert found.contradicts(promised) is not clipped


@pytest.mark.statistical
def test_wrong_labels_are_memorised_and_noise_prevents_it() -> None:
    promised = accounting.epsilon(events.Gaussian(noise_multiplier=50.0) * 50, delta=DELTA)
    assert 0.3 < promised < 0.5
    x, y = people(1600, features=40, classes=10, seed=14)
    canaries = learning.mislabelled((x[:1500], y[:1500]), count=1500, bits=SeededBits(14))
    data = canaries.added_to((x[1500:], y[1500:])).tensors
    loss = torch.nn.CrossEntropyLoss(reduction="none")

    def epsilons(noise_multiplier: float) -> list[float]:
        model = network(40, 128, 10, seed=14)
        start = learning.snapshot(model)
        descend(
            model, data, noise_multiplier=noise_multiplier, steps=50, learning_rate=10.0, seed=14
        )
        moved = learning.movement(start, model)
        return [
            audit.one_run_f_dp(scores, canaries.included, delta=DELTA, confidence=SURE).epsilon
            for scores in (
                canaries.scored_by_loss(model, loss),
                canaries.scored_by_loss(model, loss, initial=start),
                canaries.scored_by_projection(moved, model, loss),
            )
        ]

    assert max(epsilons(50.0)) <= promised
    assert min(epsilons(0.5)) > promised  # planted: a hundredth of the noise


@pytest.mark.statistical
def test_a_few_steps_are_seen_along_the_first_gradients() -> None:
    # By chance scores are 5.5 deviations apart, 0.284, with probability 4e-8.
    x, y = people(1600, features=40, classes=10, seed=14)
    canaries = learning.mislabelled((x[:1500], y[:1500]), count=1500, bits=SeededBits(14))
    data = canaries.added_to((x[1500:], y[1500:])).tensors
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    model = network(40, 128, 10, seed=14)
    start = learning.snapshot(model)
    descend(model, data, noise_multiplier=0.5, steps=5, learning_rate=0.1, seed=14)
    moved = learning.movement(start, model)
    seen = canaries.scored_by_projection(moved, model, loss, initial=start)
    assert apart(seen, canaries.included) > 0.3
    fell = canaries.scored_by_loss(model, loss, initial=start)
    assert apart(fell, canaries.included) > 0.3
    # Losses that are not compared with those before say nothing yet: labels were wrong already.
    assert apart(canaries.scored_by_loss(model, loss), canaries.included) < 0.284
