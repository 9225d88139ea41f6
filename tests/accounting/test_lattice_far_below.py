"""Lower ends of so many few-valued losses that no sum of them is formed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import pytest

from unacorda.accounting import accountant
from unacorda.accounting.lattices.compositions import delta_interval, epsilon_interval
from unacorda.accounting.lattices.far_below import delta_far_below, epsilon_far_below
from unacorda.accounting.lattices.laws import composition_of
from unacorda.privacy.events import DiscreteLaplace, Event, Pure, RandomizedResponse


@pytest.mark.parametrize(
    "events",
    [
        [(Pure(epsilon=0.5), 2000)],
        [(RandomizedResponse(epsilon=1.0, categories=5), 700), (Pure(epsilon=0.25), 300)],
    ],
)
def test_far_below_is_below_the_exact_sums(events: list[tuple[Event, int]]) -> None:
    composition = composition_of(events)
    for share in (0.2, 0.5, 0.7, 0.9):
        epsilon = epsilon_interval(events, delta=0.5).upper * share
        exact = delta_interval(events, epsilon=epsilon)
        assert 0 < delta_far_below(composition, Fraction(epsilon)) <= exact.upper
    assert delta_far_below(composition, Fraction(1)) > 0.999
    for delta in (0.9, 0.5, 1e-3, 1e-9):
        least = epsilon_far_below(composition, Fraction(delta))
        assert 0 < least <= epsilon_interval(events, delta=delta).upper
        assert least > 0.6 * epsilon_interval(events, delta=0.5).upper


def test_billions_of_copies_have_lower_ends() -> None:
    noise = DiscreteLaplace(scale=3.337, sensitivity=1) * 5_988_257_765
    found = accountant.delta_interval(noise, epsilon=0.002217)
    assert found.lower > 1 - 1e-14
    epsilon = accountant.epsilon_interval(noise, delta=1e-9)
    assert epsilon.upper < 1.001 * epsilon.lower
