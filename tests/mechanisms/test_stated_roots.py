"""Numbers in events are never above the roots that they stand for, also as the decimals they print.

An event takes a float for the decimal that it prints as, which may be above the float. So a float
below a root may state more noise than there is: `test_the_decimal_of_a_float_may_be_above` finds
some, and with floats in place of fractions the other tests fail.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import numpy as np

from unacorda import GDP, ApproxDP
from unacorda.checks import exact
from unacorda.inference.regression.noisy_sgd import _event as batches_event
from unacorda.learning.tries import SearchLaw
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.correlated.matrix import MatrixMechanism
from unacorda.mechanisms.correlated.workloads import Queries
from unacorda.mechanisms.parameters import exact_root_down
from unacorda.privacy import events
from unacorda.privacy.guarantees import bounded_range_within
from unacorda.privacy.neighbors import AddRemove
from unacorda.privacy.rounding import root_down
from unacorda.synthesis.charges import GaussianShares, shares_within
from unacorda.synthesis.sensitivity import CountSensitivity

SQUARES = [Fraction(n, d) for n in range(1, 40) for d in range(1, 40)]


def number(stated: float | Fraction) -> Fraction:
    """What an event takes it for."""
    return exact("stated", stated)


def test_roots_are_exact_or_the_next_float_below() -> None:
    for square in SQUARES:
        root = number(exact_root_down(square))
        assert square * (1 - Fraction(1, 1 << 51)) < root**2 <= square
        assert number(exact_root_down(square**2)) == square


def test_the_decimal_of_a_float_may_be_above() -> None:
    above = [square for square in SQUARES if number(root_down(square)) ** 2 > square]
    assert len(above) > 50


def test_events_state_no_more_noise_than_there_is() -> None:
    for seed in range(40):
        strategy = np.random.default_rng(seed).normal(size=(3, 3))
        made = MatrixMechanism(
            workload=Queries(np.eye(3)), strategy=strategy, sigma=4, sensitivity=1
        )
        columns = (sum(Fraction(c) ** 2 for c in column) for column in made.strategy.T.tolist())
        assert number(made.event.noise_multiplier) ** 2 * max(columns) <= 16
    for epsilon in range(1, 30):
        law = SearchLaw(budget=ApproxDP(epsilon, 1e-6), share=0.1, shape=1.0, tries=4.0)
        score = law.event(events.Pure(epsilon=1)).event
        assert isinstance(score, events.Composed)
        assert isinstance(score.parts[1], events.Gaussian)
        assert number(score.parts[1].noise_multiplier) ** 2 * law.score.mu_squared <= 1


def test_the_event_of_a_synthesis_covers_all_of_its_tables() -> None:
    move = CountSensitivity(rows=1, neighbors=AddRemove).counts
    for square in SQUARES[:200]:
        shares = shares_within(GDP.from_squared(square))
        said = 1 / number(shares.event.noise_multiplier) ** 2  # type: ignore[union-attr]
        assert shares.total == said <= square
        for tables in (1, 2, 3, 5):
            noise = shares.noise(shares.total / tables, move)
            assert isinstance(noise, Gaussian)
            assert tables * move.l2_squared / number(noise.sigma) ** 2 <= said


def test_choices_among_tables_have_no_wider_range_than_their_amount() -> None:
    sensitivity = CountSensitivity(rows=1, neighbors=AddRemove)
    for square in SQUARES[:200]:
        choice = GaussianShares(total=square).choice(square, sensitivity, weight=1)
        assert number(choice.epsilon) <= bounded_range_within(GDP.from_squared(square))


def test_batches_that_count_as_seen_state_half_of_the_noise_that_is_drawn() -> None:
    drawn = np.random.default_rng(5)
    for noise in drawn.uniform(0.3, 30, 300).tolist():
        event = batches_event(GDP(1), noise, sampling_rate=Fraction(1, 10), steps=3)
        assert isinstance(event, events.Repeated)
        assert isinstance(event.event, events.Gaussian)
        assert number(event.event.noise_multiplier) == number(noise) / 2
