"""Every estimate, test, model and trainer is attacked: no search for an event breaks its promise.

A new one fails here until it has data to be attacked with. Each audit can fail: where a release is
bought for more than is claimed, it says so. Fits tell little of any one person, most of their
budget being spent where she has no say, so that it takes a much larger one to be found.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from tests.contracts.audited_fits import FITS, NOTHING_TOLD, released
from tests.tiers import mostly_slow

from unacorda import inference
from unacorda.audit import Finding, search
from unacorda.inference import sums
from unacorda.inference.sums import additive_noise
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.privacy.guarantees import Guarantee


def audited(name: str, *, spent: Guarantee | None = None) -> Finding:
    """What a search finds; a claim that holds is called violated with probability 1e-6."""
    fit = FITS[name]
    return search(
        released(fit, budget=spent or fit.claim),
        [fit.pair],
        claim=fit.claim,
        explore=fit.runs,
        confirm=fit.runs,
    )


def spenders() -> set[str]:
    """Public functions with a budget to spend, and classes that have `fit`."""
    offered = {name: getattr(inference, name) for name in dir(inference)}
    return {
        name
        for name, one in offered.items()
        if (hasattr(one, "fit") if isinstance(one, type) else _spends(one))
    }


def _spends(function: Callable[..., object]) -> bool:
    return "budget" in inspect.signature(function).parameters


def test_every_estimator_has_an_audit() -> None:
    assert len(spenders()) >= 40
    assert spenders() ^ (set(FITS) | set(NOTHING_TOLD)) == set()
    assert not set(FITS) & set(NOTHING_TOLD)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", mostly_slow(FITS, quick=2))
def test_no_search_breaks_an_estimator(name: str) -> None:
    found = audited(name)
    assert not found.violated, repr(found)


@pytest.mark.parametrize("name", mostly_slow(FITS, quick=2))
def test_a_release_bought_for_more_than_is_claimed_is_found(name: str) -> None:
    found = audited(name, spent=FITS[name].louder)
    assert found.violated, repr(found)


def _quiet_mean(patch: pytest.MonkeyPatch) -> None:
    right = Laplace.release_exact

    def wrong(self: Laplace, *told: Any, **named: Any) -> Any:
        return right(dataclasses.replace(self, scale=self.scale / 4), *told, **named)

    patch.setattr(Laplace, "release_exact", wrong)


def _hardly_any_noise_in_sums(patch: pytest.MonkeyPatch) -> None:
    right = Gaussian.release_exact

    def wrong(self: Gaussian, *told: Any, **named: Any) -> Any:
        return right(dataclasses.replace(self, sigma=self.sigma / 400), *told, **named)

    patch.setattr(Gaussian, "release_exact", wrong)


def _an_eighth_of_a_move(patch: pytest.MonkeyPatch) -> None:
    # Noise alone would not be missed: waves are kept by how much of it there should be.
    def wrong(budget: Guarantee, *, l1: Fraction, l2: Fraction) -> Any:
        return additive_noise(budget, l1=l1 / 8, l2=l2 / 8)

    patch.setattr(sums, "additive_noise", wrong)


@pytest.mark.parametrize(
    ("fault", "name"),
    mostly_slow(
        [
            (_quiet_mean, "mean"),
            (_hardly_any_noise_in_sums, "NoisySGD"),
            (_an_eighth_of_a_move, "density"),
            *(
                (_hardly_any_noise_in_sums, name)
                for name in (
                    "LinearRegression",
                    "MEstimator",
                    "SparseRegression",
                    "HeldOutSearch",
                    "CrossValidatedSearch",
                )
            ),
        ]
    ),
)
def test_planted_faults_are_found(fault: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = audited(name)
    assert found.violated, repr(found)
