"""The best of K runs where K is capped: no price is below what enumeration finds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from mpmath import mp, mpf
from tests.mechanisms.divergences import farthest
from tests.mechanisms.retry.tries_laws import Tries, best_of, largest_loss, masses, steep_pair
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.accounting.selection import (
    log_rest_of_cap,
)
from unacorda.privacy.events import (
    Approximate,
    Event,
    NegativeBinomialTries,
    PoissonTries,
    Pure,
    RandomizedResponse,
)
from unacorda.privacy.guarantees import PureDP

ONE = Pure(epsilon=1)
FAILING = Approximate(epsilon=1, delta=0.01)


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def tries(run: Event) -> list[Tries]:
    return [
        NegativeBinomialTries(event=run, shape=shape, stop=stop, most=most)
        for shape, stop in [(1, 0.1), (0, 0.02), (-0.5, 0.01), (2.5, 0.1)]
        for most in (1, 2, 8, 50)
    ] + [
        PoissonTries(event=run, mean=mean, most=most)
        for mean, most in [(0.5, 1), (3, 3), (3, 6), (10, 30)]
    ]


def pairs(event: Tries) -> list[tuple[list[Any], list[Any]]]:
    """The best of runs that are 1-DP: several tops, both orders of the scores."""
    law = masses(event, 0)
    found = []
    for top in ("0.01", "0.05", "0.15", "0.2689"):
        one, two = steep_pair(mpf(1), mpf("0.01"), top=mpf(top))
        for first, second in ((one, two), (one[::-1], two[::-1])):
            found.append((best_of(first, law), best_of(second, law)))
    return found


def divergence(one: list[Any], two: list[Any], alpha: Fraction) -> Any:
    a = mpf(alpha.numerator) / alpha.denominator
    return mp.log(mp.fsum(p**a * q ** (1 - a) for p, q in zip(one, two, strict=True) if p > 0)) / (
        a - 1
    )


@pytest.mark.long
@pytest.mark.parametrize("event", mostly_slow(tries(ONE), quick=2), ids=str)
def test_no_price_is_below_enumeration(event: Tries) -> None:
    found = pairs(event)
    pure = mpf(float(accounting.price(event, PureDP).epsilon)) * (1 + mpf(10) ** -12)
    assert max(largest_loss(*pair) for pair in found) <= pure
    for alpha in (Fraction(3, 2), Fraction(2), Fraction(4), Fraction(30)):
        price = accounting.renyi(event, alpha=float(alpha))
        exact = max(
            max(divergence(one, two, alpha), divergence(two, one, alpha)) for one, two in found
        )
        assert exact <= price
    named = [(dict(enumerate(one)), dict(enumerate(two))) for one, two in found]
    for epsilon in (0.5, 1.0, 1.5, 2.5):
        assert farthest(named, epsilon) <= accounting.delta(event, epsilon=epsilon) + 1e-18


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    mostly_slow(
        [
            NegativeBinomialTries(event=FAILING, shape=1, stop=0.1, most=2),
            NegativeBinomialTries(event=FAILING, shape=0, stop=0.02, most=50),
            NegativeBinomialTries(event=FAILING, shape=-0.5, stop=0.01, most=8),
            PoissonTries(event=FAILING, mean=3, most=3),
        ]
    ),
    ids=str,
)
def test_nor_where_runs_fail(event: Tries) -> None:
    law = masses(event, 0)
    price = accounting.delta(event, epsilon=1.5)
    one, two = steep_pair(mpf(1), mpf("0.01"), top=mpf("0.1"))
    shown, rest = mpf("0.01"), mpf("0.99")
    for place in (0, 3):  # what shows everything scores lowest or highest
        first, second = [rest * mass for mass in one], [rest * mass for mass in two]
        first[place:place], second[place:place] = [shown, mpf(0)], [mpf(0), shown]
        pair = best_of(first, law), best_of(second, law)
        named = [(dict(enumerate(pair[0])), dict(enumerate(pair[1])))]
        assert (0.01 if place else 0) < farthest(named, 1.5) <= price


def test_a_cap_of_one_is_one_run() -> None:
    event = NegativeBinomialTries(event=ONE, shape=1, stop=0.001, most=1)
    assert accounting.price(event, PureDP).epsilon == 1
    two = NegativeBinomialTries(event=ONE, shape=1, stop=0.001, most=2)
    assert accounting.price(two, PureDP).epsilon == 2


def test_a_cap_never_costs_more_under_pure_privacy() -> None:
    run = RandomizedResponse(epsilon=0.5, categories=4)
    for most in (5, 20, 100):
        for plain, capped in (
            (
                NegativeBinomialTries(event=run, shape=0, stop=0.05),
                NegativeBinomialTries(event=run, shape=0, stop=0.05, most=most),
            ),
            (PoissonTries(event=run, mean=4), PoissonTries(event=run, mean=4, most=most)),
        ):
            assert accounting.price(capped, PureDP) <= accounting.price(plain, PureDP)


@pytest.mark.parametrize(("shape", "stop"), [(1, 0.1), (0, 0.02), (-0.5, 0.01), (2.5, 0.1)])
def test_what_is_cut_off_is_bounded(shape: float, stop: float) -> None:
    for most in (1, 4, 20, 100, 400):
        plain = NegativeBinomialTries(event=ONE, shape=shape, stop=stop)
        exact = -mp.log(mp.fsum(masses(plain, most)))
        bound = log_rest_of_cap(replace(plain, most=most))
        assert bound >= exact
        if most == 400:
            assert bound < 2000 * exact  # Chernoff's bound is the right power, not the right factor


def test_what_is_cut_off_of_a_poisson_law_is_bounded() -> None:
    for mean, most in [(0.5, 1), (3, 3), (3, 9), (40, 40), (40, 90)]:
        plain = PoissonTries(event=ONE, mean=mean)
        exact = -mp.log(mp.fsum(masses(plain, most)))
        bound = log_rest_of_cap(PoissonTries(event=ONE, mean=mean, most=most))
        assert exact <= bound <= min(mp.log(2) * (1 + 1e-15), 50 * exact)


def test_a_law_cut_at_a_number_is_not_covered() -> None:
    # The checks above see a cap that puts what goes on at the cap itself.
    event = NegativeBinomialTries(event=ONE, shape=0, stop=1e-6, most=30)
    law = masses(NegativeBinomialTries(event=ONE, shape=0, stop=1e-6), 30)
    law[-1] += 1 - mp.fsum(law)
    one, two = steep_pair(mpf(1), mpf(10) ** -9, top=mpf("0.1"))
    reached = largest_loss(best_of(one, law), best_of(two, law))
    assert reached > float(accounting.price(event, PureDP).epsilon) + 0.5
    assert not math.isinf(reached)
