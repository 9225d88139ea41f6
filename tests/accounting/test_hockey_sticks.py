"""The profile of private selection from that of one run, against every order of scores."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.cases import in_subtests

from unacorda import accounting
from unacorda.accounting.pld.selection import hockey_sticks
from unacorda.privacy.events import (
    Gaussian,
    Laplace,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
)
from unacorda.privacy.events.selection import Tries

Floats = NDArray[np.float64]
RUN = Gaussian(noise_multiplier=1)
EVENTS: list[Tries] = [
    NegativeBinomialTries(event=RUN, shape=1, stop=0.05),
    NegativeBinomialTries(event=RUN, shape=0, stop=0.3),
    NegativeBinomialTries(event=RUN, shape=-0.5, stop=0.01),
    NegativeBinomialTries(event=RUN, shape=2.5, stop=0.4),
    NegativeBinomialTries(event=RUN, shape=1, stop=1),
    NegativeBinomialTries(event=RUN, shape=1, stop=0.05, most=12),
    PoissonTries(event=RUN, mean=0.3),
    PoissonTries(event=RUN, mean=8),
    PoissonTries(event=RUN, mean=8, most=9),
]
EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
LOSSES = np.linspace(-6, 6, 401)


def chances(event: Tries) -> Floats:
    """P(K = k) for k = 0, 1, ..., by its recursion."""
    last = 4000 if event.most is None else event.most
    found = np.zeros(last + 1)
    if isinstance(event, PoissonTries):
        found[0] = math.exp(-float(event.mean))
        for k in range(1, last + 1):
            found[k] = found[k - 1] * float(event.mean) / k
    else:
        found[1] = 1.0
        for k in range(2, last + 1):
            found[k] = found[k - 1] * (1 - float(event.stop)) * (k - 1 + float(event.shape)) / k
    found /= found.sum()
    return found[: np.flatnonzero(found > 1e-18)[-1] + 1]


def best_of(law: Floats, numbers: Floats) -> Floats:
    """The law of the best of K runs, outputs by rising score; last, no output."""
    below = np.concatenate(([0.0], np.minimum(np.cumsum(law), 1.0)))
    powers = np.array([float(np.polynomial.polynomial.polyval(x, numbers)) for x in below])
    return np.append(np.diff(powers), numbers[0])


def profile(p: Floats, q: Floats) -> Callable[[Floats], Floats]:
    return lambda at: np.maximum(p - np.multiply.outer(np.exp(at), q), 0.0).sum(axis=-1)


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(
    event=st.sampled_from(EVENTS),
    weights=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=4
    ).filter(lambda pairs: all(sum(side) for side in zip(*pairs, strict=True))),
)
def test_no_order_of_scores_exceeds_the_sum(event: Tries, weights: list[tuple[int, int]]) -> None:
    p, q = (np.array(side) / sum(side) for side in zip(*weights, strict=True))
    sticks = hockey_sticks(event, LOSSES, profile(q, p)(LOSSES))
    assert sticks is not None
    bound = sticks.profile_of(profile(p, q))(EPSILONS)
    numbers = chances(event)
    for order in itertools.permutations(range(len(p))):
        ranks = list(order)
        own, other = (best_of(law[ranks], numbers) for law in (p, q))
        exact = profile(own, other)(EPSILONS)
        assert np.all(exact <= bound * (1 + 1e-9) + 1e-12)


def reached(event: Tries, w: Floats, turned: Floats, at: float) -> float:
    """The largest f'(1 - w) - c f'(1 - w') over these pairs, by the series of f'."""
    numbers = chances(event)
    slopes = numbers[1:] * np.arange(1, len(numbers))
    own, other = (np.polynomial.polynomial.polyval(1 - one, slopes) for one in (w, turned))
    return float(np.max(own - at * other))


@in_subtests("event", EVENTS)
def test_the_sum_lies_closely_above_the_supremum(event: Tries) -> None:
    w = np.linspace(0.0, 1.0, 4001)
    shift = 0.5  # of Gaussian runs: Q(A) at most Phi(Phi^-1(P(A)) + shift)
    turned = scipy.special.ndtr(scipy.special.ndtri(w) + shift)
    losses = np.linspace(-8, 8, 801)
    ndtr = scipy.special.ndtr
    delta = ndtr(shift / 2 - losses / shift) - np.exp(losses) * ndtr(-shift / 2 - losses / shift)
    sticks = hockey_sticks(event, losses, delta)
    assert sticks is not None
    for at in (0.0, 0.2, 0.7, 1.0, 1.3):
        found = float(np.maximum(1 - at * np.exp(-sticks.shifts), 0.0) @ sticks.weights)
        exact = max(reached(event, w, turned, at), 0.0)
        assert found >= exact * (1 - 1e-9)
        if event.most is None:
            assert found <= exact + 0.02 * reached(event, w, turned, 0.0)


def test_equal_laws_add_nothing() -> None:
    event = NegativeBinomialTries(event=RUN, shape=1, stop=0.1)
    sticks = hockey_sticks(event, LOSSES, np.maximum(-np.expm1(LOSSES), 0.0))
    assert sticks is not None
    assert np.all(sticks.shifts <= 1e-9)


def test_numbers_beyond_floats_have_no_sum() -> None:
    event = NegativeBinomialTries(event=RUN, shape=1e300, stop=1e-300)
    assert hockey_sticks(event, LOSSES, np.minimum(np.exp(-LOSSES), 1.0)) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "wide"),
    [
        (NegativeBinomialTries(event=Gaussian(noise_multiplier=3), shape=1, stop=0.1), 1.02),
        (PoissonTries(event=Gaussian(noise_multiplier=2), mean=5), 1.02),
        (PoissonTries(event=Laplace(noise_multiplier=2), mean=5), 1.02),
        (NegativeBinomialTries(event=Pure(epsilon=0.5), shape=0, stop=0.1), 1.02),
        (PoissonTries(event=RandomizedResponse(epsilon=0.5, categories=2), mean=5), 1.02),
    ],
    ids=str,
)
def test_the_ends_of_a_selection_are_near(event: Tries, wide: float) -> None:
    found = accounting.epsilon_interval(event, delta=1e-6)
    assert 0 < found.lower <= found.upper <= wide * found.lower
