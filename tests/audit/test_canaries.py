"""Canaries in training: memorised without privacy, hidden with it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from tests.support.cases import in_subtests

from unacorda import ApproxDP, SeededBits, inference
from unacorda.audit import dirac, mislabelled, one_run_f_dp
from unacorda.errors import InvalidParameter

Floats = np.ndarray[Any, np.dtype[np.float64]]


def people(n: int, seed: int) -> tuple[Floats, Floats]:
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(n, 4))
    return x, (x[:, 0] + 0.2 * drawn.normal(size=n) > 0).astype(float)


def log_loss(model: Any) -> Any:
    def loss(x: Floats, y: Floats) -> Floats:
        chance = np.clip(model.predict_proba(x), 1e-9, 1)
        found: Floats = -np.log(chance[np.arange(len(y)), y.astype(int)])
        return found

    return loss


def test_wrong_labels_are_memorised_by_neighbors_and_not_by_private_fits() -> None:
    x, y = people(4000, 1)
    canaries = mislabelled(x[:500], y[:500], count=500, bits=SeededBits(1))
    assert not np.any(canaries.targets == y[:500])
    rows, labels = canaries.added_to(x[500:], y[500:])
    assert len(rows) == 3500 + canaries.included.sum() == len(labels)
    memory = KNeighborsClassifier(3).fit(rows, labels)
    told = one_run_f_dp(canaries.scored_by_loss(log_loss(memory)), canaries.included, delta=1e-5)
    assert told.epsilon > 1
    private = inference.LogisticRegression(
        budget=ApproxDP(1, 1e-5), feature_bounds=(-3, 3), bits=SeededBits(2)
    ).fit(rows, labels)
    hidden = one_run_f_dp(canaries.scored_by_loss(log_loss(private)), canaries.included, delta=1e-5)
    assert hidden.epsilon <= 1


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("noise_multiplier", [0.5, 2.0])
def test_gradients_of_their_own_are_seen_as_far_as_noise_lets(noise_multiplier: float) -> None:
    # A sum of clipped gradients with normal noise: mu = 1 / noise_multiplier, which the bound
    # exceeds with probability 0.05 at most; under this seed it does not.
    canaries = dirac(3000, dimension=4000, norm=3.0, bits=SeededBits(3))
    drawn = np.random.default_rng(3)
    total = canaries.features[canaries.included].sum(axis=0)
    released = total + 3.0 * noise_multiplier * drawn.normal(size=4000)
    found = one_run_f_dp(canaries.scored_by_projection(released), canaries.included, delta=1e-5)
    assert found.mu is not None
    assert 0.4 / noise_multiplier <= found.mu <= 1 / noise_multiplier


def test_a_loss_that_is_nan_says_nothing() -> None:
    x, y = people(10, 2)
    y[:2] = 0, 1
    canaries = mislabelled(x, y, count=10, bits=SeededBits(1))
    scores = canaries.scored_by_loss(lambda x, y: np.full(len(y), np.nan))
    assert (scores == -np.inf).all()


@in_subtests(
    ("make", "name"),
    [
        (lambda: dirac(5, dimension=4), "count"),
        (lambda: dirac(0, dimension=4), "count"),
        (lambda: dirac(3, dimension=4, norm=0.0), "norm"),
        (lambda: mislabelled(np.ones((3, 1)), [0, 1, 0], count=4), "x"),
        (lambda: mislabelled(np.ones((3, 1)), [1, 1, 1], count=3), "y"),
        (lambda: dirac(2, dimension=4).added_to(np.ones((3, 4)), [0, 1, 0]), "canaries"),
        (lambda: dirac(2, dimension=4).scored_by_loss(lambda x, y: [0.0]), "canaries"),
        (lambda: dirac(2, dimension=4).scored_by_projection([1.0]), "updates"),
        (
            lambda: mislabelled(np.ones((3, 1)), [0, 1, 0], count=3).added_to([[1, 2]], [0]),
            "x",
        ),
        (
            lambda: mislabelled(np.ones((3, 1)), [0, 1, 0], count=3).scored_by_loss(
                lambda x, y: [0.0]
            ),
            "loss",
        ),
    ],
    ids=range(10),
)
def test_bad_input_is_named(make: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        make()
