"""Histories priced again: against closed forms, the accountant and the odometer themselves."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from tests.ledger.ledgers import TERMS, reserve
from tests.support.cases import in_subtests
from tests.support.seams import Ledger, odometer, open_ledger, reprice

from unacorda.accounting import epsilon
from unacorda.accounting.odometers import Odometer
from unacorda.errors import InvalidParameter, LedgerMismatch
from unacorda.privacy.events import Event, Exponential, Gaussian, Laplace, Pure
from unacorda.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP, zcdp_of
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

QUIET = Gaussian(noise_multiplier=10)


def with_history(
    budget: Guarantee, *questions: tuple[Event, Guarantee], neighbors: str = "AddRemove"
) -> Ledger:
    ledger = open_ledger(None)
    ledger.open_account("visits", budget, {**TERMS, "neighbors": neighbors})
    for number, (event, charge) in enumerate(questions):
        reservation = reserve(ledger, charge, event=event)
        if number % 2:
            ledger.commit(reservation)
    return ledger


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The closed form for Gaussians together (Balle and Wang 2018)."""

    def excess(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta)

    return float(brentq(excess, 1e-9, 100, xtol=1e-13))


def test_gaussians_cost_what_their_closed_form_says() -> None:
    ledger = with_history(ZCDP(1), *[(QUIET, ZCDP("0.005"))] * 25)
    found = reprice(ledger, "visits", delta=1e-6)
    assert found.questions == 25
    assert found.spent == ZCDP("0.125")
    assert found.fixed == pytest.approx(gaussian_epsilon(0.5, 1e-6), rel=1e-6)
    assert found.fixed is not None
    assert found.fixed >= gaussian_epsilon(0.5, 1e-6) * (1 - 1e-12)


@pytest.mark.slow
def test_all_standing_questions_count_and_what_was_called_off_does_not() -> None:
    first, second = Laplace(noise_multiplier=8), Exponential(epsilon=0.25)
    ledger = with_history(PureDP(1), (first, PureDP("0.125")), (second, PureDP("0.25")))
    ledger.void(reserve(ledger, PureDP("0.5"), event=Pure(epsilon=0.5)))
    found = reprice(ledger, "visits", delta=1e-9)
    assert found.questions == 2
    assert found.fixed == epsilon([first, second], delta=1e-9)
    assert reprice(ledger, "visits", delta=0).fixed == pytest.approx(0.375)


@pytest.mark.long
def test_the_relation_is_the_accounts() -> None:
    sampled = Gaussian(noise_multiplier=2).poisson_sampled(rate=0.1)
    one, other = (
        reprice(with_history(PureDP(9), (sampled, PureDP(1)), neighbors=name), "visits", delta=1e-6)
        for name in ("AddRemove", "ReplaceOne")
    )
    assert (one.neighbors, other.neighbors) == (AddRemove, ReplaceOne)
    assert one.fixed == epsilon(sampled, delta=1e-6, neighbors=AddRemove)
    assert other.fixed == epsilon(sampled, delta=1e-6, neighbors=ReplaceOne)
    assert one.fixed != other.fixed
    with pytest.raises(LedgerMismatch, match="neighbors"):
        reprice(with_history(PureDP(1), neighbors="Friends"), "visits", delta=0)


def test_the_odometer_reads_the_better_prices_of_events() -> None:
    ledger = with_history(ZCDP(1, 1e-7), *[(QUIET, ZCDP("0.01", 1e-9))] * 10)
    meter = Odometer(delta=Fraction("9e-7"), own_delta="1e-7", sharp_at=1)
    for _ in range(10):
        meter = meter.spend(ZCDP("0.005"))
    found = odometer(ledger, "visits", delta=1e-6)
    assert found.epsilon == meter.epsilon
    assert found.delta == Fraction("1e-6")
    assert found.epsilon > reprice(ledger, "visits", delta=1e-6).fixed  # type: ignore[operator]


@pytest.mark.long
def test_a_few_pure_questions_cost_their_sum() -> None:
    ledger = with_history(PureDP(1), *[(Pure(epsilon=0.125), PureDP("0.125"))] * 2)
    assert odometer(ledger, "visits", delta=1e-9).epsilon == pytest.approx(0.25, rel=1e-15)
    many = with_history(PureDP(100), *[(Pure(epsilon=0.01), PureDP("0.01"))] * 1000)
    assert odometer(many, "visits", delta=1e-6).epsilon < 3


def test_deltas_of_costs_are_part_of_the_reading() -> None:
    charge = ApproxDP("0.1", "1e-8")
    worst = with_history(ApproxDP(1, "1e-7"), (Pure(epsilon=5), charge))
    meter = Odometer(delta=Fraction("9e-7"), own_delta="1e-7", sharp_at="0.05")
    assert odometer(worst, "visits", delta=1e-6).epsilon == meter.spend(charge).epsilon
    mixed = with_history(
        ApproxDP(1, "1e-7"), (Pure(epsilon=5), charge), (Gaussian(noise_multiplier=20), charge)
    )
    found = odometer(mixed, "visits", delta=1e-6).epsilon
    assert found == meter.spend(ZCDP(charge_rho(charge), "1e-8")).spend(ZCDP("0.00125")).epsilon


def charge_rho(charge: Guarantee) -> Fraction:
    known = zcdp_of(charge)
    assert known is not None
    return known.rho


@in_subtests("delta", [0, "1e-7", 1, -1, 2, "x"])
def test_a_reading_needs_a_delta_of_its_own(delta: object) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        odometer(with_history(ZCDP(1, "1e-7")), "visits", delta=delta)  # type: ignore[arg-type]


def test_renyi_accounts_have_no_odometer_and_empty_ones_have_cost_nothing() -> None:
    with pytest.raises(InvalidParameter, match="odometer"):
        odometer(with_history(RenyiDP(alpha=8, epsilon=1)), "visits", delta=1e-6)
    empty = with_history(PureDP(0))
    assert odometer(empty, "visits", delta=1e-6).epsilon == 0
    assert reprice(empty, "visits", delta=0).fixed == 0
