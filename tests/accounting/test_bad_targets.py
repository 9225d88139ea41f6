"""Bad input to calibrations, prices and charges: an error that names it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.support.cases import in_subtests

from unacorda import accounting
from unacorda.accounting.calibration import Advantage
from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy.events import Event, Gaussian, Pure
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import Neighbors

FACE: Any = accounting
"""Whatever its types promise, callers hand it anything."""
ONE: Any = Gaussian(noise_multiplier=1)
STEPS = ONE.poisson_sampled(rate=0.01) * 1000


def _noise(value: float) -> Event:
    return Gaussian(noise_multiplier=value)


def test_targets_that_are_none_or_cannot_be_met() -> None:
    target: Any
    for target in (None, "x", ONE, 1, Neighbors.ADD_REMOVE):
        with pytest.raises(InvalidParameter) as refused:
            FACE.calibrate(_noise, target=target)
        assert refused.value.argument == "target"
    for target in (ZCDP(0), ApproxDP(0, 0), GDP(0), RenyiDP(2, 0), Advantage(0)):
        with pytest.raises((InvalidParameter, UnsupportedEvent)):
            FACE.calibrate(lambda x: ONE + _noise(x), target=target)
    with pytest.raises(InvalidParameter, match="can meet"):
        FACE.calibrate(lambda x: ONE + _noise(x), target=ZCDP("0.4"))
    with pytest.raises(UnsupportedEvent, match="PureDP"):
        FACE.calibrate(_noise, target=PureDP(1))
    with pytest.raises(InvalidParameter, match="find"):
        FACE.calibrate(_noise, target=ZCDP(1), find="best")
    with pytest.raises(InvalidParameter, match="neighbors"):
        FACE.calibrate(
            lambda x: _noise(x).fixed_size_sampled(size=1, population=9),
            target=ApproxDP(1, 1e-5),
        )


@in_subtests(
    "within",
    [3, None, (1,), (1, 2, 3), (0, 1), (2, 1), (-1, 1), (1, math.inf), (math.nan, 1), ("a", 1),
     (True, 2), (np.array([1]), 2), (1, 10**301), (Decimal("nan"), 1)],
    ids=repr,
)  # fmt: skip
def test_ranges_that_are_none(within: Any) -> None:
    if within is None:
        return
    with pytest.raises(InvalidParameter) as refused:
        FACE.calibrate(_noise, target=ZCDP(1), within=within)
    assert refused.value.argument == "within"


def test_calibration_refuses_what_is_no_function_and_no_number() -> None:
    for family in (3, None, ONE):
        with pytest.raises(InvalidParameter, match="family"):
            FACE.calibrate(family, target=ZCDP(1))
    for price in (3, "rho"):
        with pytest.raises(InvalidParameter, match="price"):
            FACE.calibrate(_noise, target=1, price=price)
    for cost in ("x", None, True, 1j):
        with pytest.raises(InvalidParameter, match="price"):
            FACE.calibrate(_noise, target=1, price=lambda _, cost=cost: cost)
    with pytest.raises(InvalidParameter, match="target"):
        FACE.calibrate(_noise, target=-1, price=FACE.rho)
    with pytest.raises(InvalidParameter, match="target"):
        FACE.calibrate(_noise, target=1, price=lambda _: math.nan)
    over: Any
    for over in (3, [1], {"steps": 3}, {"steps": []}, None):
        with pytest.raises(InvalidParameter, match="over"):
            FACE.calibrate_grid(_noise, target=ZCDP(1), over=over)


def test_a_list_of_events_can_be_calibrated() -> None:
    found = FACE.calibrate(lambda x: [_noise(x), _noise(x)], target=ZCDP(1))
    assert found == pytest.approx(1, rel=1e-8)


def test_prices_ask_for_what_they_need() -> None:
    with pytest.raises(UnsupportedEvent) as unknown:
        FACE.price(ONE, PureDP)
    assert "ZCDP" in unknown.value.try_instead
    with pytest.raises(InvalidParameter, match="delta"):
        FACE.price(ONE, ApproxDP)
    with pytest.raises(InvalidParameter, match="alpha"):
        FACE.price(ONE, RenyiDP)
    kind: Any
    for kind in (int, ZCDP(1), "ZCDP", None):
        with pytest.raises(InvalidParameter, match="kind"):
            FACE.price(ONE, kind)
    for delta in (0, -1, 1.5, "1e-301", True, math.nan, "x"):
        with pytest.raises(InvalidParameter, match="delta"):
            FACE.price(ONE, ApproxDP, delta=delta)
    for alpha in (1, 0, -1, math.nan, True, "x"):
        with pytest.raises(InvalidParameter, match="alpha"):
            FACE.price(ONE, RenyiDP, alpha=alpha)
    for kind in (ZCDP, GDP):
        with pytest.raises(UnsupportedEvent, match="privacy loss"):
            FACE.price(STEPS, kind)


def test_charges_name_what_does_not_fit() -> None:
    with pytest.raises(InvalidParameter, match="event"):
        FACE.charge(Pure(epsilon=2), PureDP(1), PureDP(5))
    with pytest.raises(WrongUnit, match="PureDP"):
        FACE.charge(ONE, ZCDP(1), PureDP(5))
    for wrong in (3, None, "PureDP"):
        with pytest.raises(WrongUnit):
            FACE.charge(ONE, wrong, ZCDP(5))
        with pytest.raises(WrongUnit):
            FACE.charge(ONE, PureDP(1), wrong)
