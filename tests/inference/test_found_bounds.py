"""Bounds that are left out are found within a share of the budget, and are stated by the fit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inference.regressions import REGRESSIONS, TRUTH, parameters

from unacorda import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    RenyiDP,
    ReplaceOne,
    SeededBits,
    accounting,
    events,
    inference,
)
from unacorda.errors import InvalidParameter
from unacorda.inference import sums
from unacorda.inference.sums import column_ranges, edges, noisy_counts, range_of
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.guarantees import Guarantee

BUDGETS = [GDP(1), PureDP(1), ZCDP("0.5"), ApproxDP(1, 1e-6), RenyiDP(8, 2)]


def rows(name: str, n: int = 4000) -> Any:
    return REGRESSIONS[name].draw(n, np.random.default_rng(8))


def first_try(name: str, **options: Any) -> Any:
    case = REGRESSIONS[name]
    given = {name: value for name, value in case.options.items() if name != "largest"}
    return getattr(inference, case.of)(budget=GDP(1), bits=SeededBits(8), **given, **options)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_every_regression_fits_without_bounds(name: str) -> None:
    model = first_try(name).fit(*rows(name))
    assert np.isfinite(model.conf_int()).all()
    if name != "ridge":  # whose truth is another
        error = np.hypot(model.sampling_error_, model.privacy_error_)
        assert (abs(parameters(model) - TRUTH) < 5 * error).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.001, 0.05, 0.25])
@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_share_of_bounds_is_a_part_of_what_is_charged(
    name: str, share: float, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[events.Event] = []
    real = Gaussian.release_exact

    def noting(self: Gaussian, *arguments: Any, **named: Any) -> Any:
        released.append(self.event)
        return real(self, *arguments, **named)

    monkeypatch.setattr(Gaussian, "release_exact", noting)
    x, y = rows(name, 2000)
    weights = np.full(len(x), 0.5) if weighted else None
    model = first_try(name, bounds_share=share).fit(x, y, sample_weight=weights)
    squares = [Fraction(1) / Fraction(one.noise_multiplier) ** 2 for one in released]  # type: ignore[attr-defined]
    assert squares[int(weighted)] == pytest.approx(share, rel=1e-6)  # after the mean weight
    assert 0.75 < sum(squares) <= 1
    assert accounting.rho(model.event_, neighbors=ReplaceOne) <= 0.5
    whole = accounting.rho(events.compose(released), neighbors=ReplaceOne)
    assert accounting.rho(model.event_, neighbors=ReplaceOne) == pytest.approx(whole, rel=1e-9)


def test_nothing_is_charged_for_bounds_that_are_given() -> None:
    x, y = rows("linear")
    both: dict[str, Any] = {"feature_bounds": (-3, 3), "target_bounds": (-8, 10)}
    fits = [
        inference.LinearRegression(budget=GDP(1), bits=SeededBits(8), bounds_share=share, **both)
        for share in (0.05, 0.25)
    ]
    first, second = (fit.fit(x, y) for fit in fits)
    assert first.event_ == second.event_
    assert (first.coef_ == second.coef_).all()
    assert first.found_bounds_ == []


@pytest.mark.parametrize("share", [0.0, -1.0, 0.5, float("nan"), "much"])
@pytest.mark.parametrize("kind", ["LinearRegression", "RobustScaler", "PCA"])
def test_a_share_that_cannot_be_is_refused_before_anything_is_drawn(kind: str, share: Any) -> None:
    bits = SeededBits(1)
    x, y = rows("linear", 100)
    with pytest.raises(InvalidParameter, match=r"^bounds_share="):
        getattr(inference, kind)(budget=GDP(1), bounds_share=share, bits=bits).fit(x, y)
    assert bits.below(1 << 62) == SeededBits(1).below(1 << 62)


def test_the_text_of_a_fit_states_the_bounds_that_it_found() -> None:
    x, y = rows("linear")
    frame = pd.DataFrame(x, columns=["age", "dose"])
    text = str(first_try("linear").fit(frame, y).summary())
    for word in ("age [-", "dose [-", "target [-", "0.05 of the budget", "nothing is clamped"):
        assert word in " ".join(text.split())
    half = first_try("linear", feature_bounds=(-4, 4)).fit(frame, y)
    assert "age [" not in str(half.summary())
    assert "target [" in str(half.summary())
    counts = first_try("poisson").fit(*rows("poisson"))
    said = f"counts above {counts.largest_:g} count as {counts.largest_:g}"
    assert said in " ".join(str(counts.summary()).split())
    bounds = {"feature_bounds": (-4, 4), "largest": 20}
    known = first_try("poisson", **bounds).fit(*rows("poisson")).summary()
    assert "counts above 320 count as 320" in " ".join(str(known).split())
    given = inference.LinearRegression(budget=GDP(1), feature_bounds=(-4, 4), target_bounds=(-9, 9))
    assert "bounds" not in str(given.fit(x, y).summary())


def test_the_text_of_a_fit_states_that_gradients_are_clipped() -> None:
    x, y = rows("linear")
    clipped = first_try("linear", tuning=1.0).fit(x, y)
    assert clipped.diagnostics_["cut"] > 0.01
    assert f"{clipped.diagnostics_['cut']:.2%} of the gradients are clipped" in str(
        clipped.summary()
    )
    whole = first_try("linear").fit(*REGRESSIONS["logistic"].draw(9000, np.random.default_rng(1)))
    assert whole.diagnostics_["cut"] == 0
    assert "are clipped" not in str(whole.summary())


def test_a_dummy_whose_ones_noise_hides_keeps_its_unit() -> None:
    """Of 45 ones; a bin stands out from some 45 on."""
    drawn = np.random.default_rng(6)
    x = np.column_stack([drawn.normal(size=1500), np.arange(1500) < 45]).astype(float)
    y = x @ [1.0, 3.0] + drawn.normal(size=1500)
    model = inference.LinearRegression(budget=GDP(1), bits=SeededBits(6)).fit(x, y)
    low, high = model.conf_int().T
    assert low[2] < 3.0 < high[2]
    assert high[2] - low[2] < 3.0


def test_a_range_is_that_of_bins_that_stand_out() -> None:
    counts = np.zeros(len(edges()) + 1)
    assert range_of(counts, 1.0) == (-1.0, 1.0)
    counts[np.searchsorted(edges(), 0.0, side="right")] = 1000.0
    assert range_of(counts, 1.0) == (-1.0, 1.0)
    counts[np.searchsorted(edges(), -5.0, side="right")] = 100.0
    low, high = range_of(counts, 1.0)
    assert (low, high) == (-16.0, 2.0**-40)
    assert range_of(counts, 100.0) == (-1.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_no_bin_of_noise_widens_a_range(budget: Guarantee) -> None:
    # 200 runs of 3 x 103 bins that noise alone exceeds with p = 3.2e-5 each: 0.98 of runs are
    # clean; fewer than 180 with p < 1e-6.
    x = np.full((20_000, 3), 100.0)
    bits = SeededBits(3)
    clean = 0
    for _ in range(200):
        lower, upper, _ = column_ranges(x, budget=budget, bits=bits)
        clean += bool((lower == 64).all() and (upper == 256).all())
    assert clean >= 180


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(numbers, min_size=3, max_size=3), st.lists(numbers, min_size=3, max_size=3))
def test_a_replaced_row_moves_two_counts_of_each_column_by_one(
    row: list[float], other: list[float]
) -> None:
    counted: list[np.ndarray[Any, Any]] = []
    noise = {"budget": GDP(1), "bits": SeededBits(1)}
    real = noisy_counts

    def noting(counts: Any, *, moved: int, **named: Any) -> Any:
        counted.append(counts)
        assert moved == 6
        return real(counts, moved=moved, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "noisy_counts", noting)
        for one in (row, other):
            column_ranges(np.array([[1.0, -2.0, 0.0], one]), **noise)  # type: ignore[arg-type]
    moved = np.abs(counted[0] - counted[1])
    assert moved.max() <= 1
    assert moved.sum() <= 6


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_transformers_work_on_the_first_try(budget: Guarantee) -> None:
    x = np.random.default_rng(1).normal([50, 0, 1000], [3, 1, 20], size=(8000, 3))
    scaler = inference.RobustScaler(budget=budget, bits=SeededBits(1)).fit(x)
    assert (abs(scaler.center_ - [50, 0, 1000]) < [0.5, 0.2, 4]).all()
    assert (abs(scaler.scale_ / [3, 1, 20] - 1) < 0.2).all()
    model = inference.PCA(2, budget=budget, bits=SeededBits(1)).fit(x)
    assert model.distinct_[0]
    low, high = model.conf_int(0.9999)[0]
    assert low < 400 < high
    assert high < 480
    assert 40 < model.row_norm_ < 80
