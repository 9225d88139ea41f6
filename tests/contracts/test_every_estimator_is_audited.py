"""Every estimate, test, model and trainer is attacked: no search for an event breaks its promise.

A new one fails here until it has data to be attacked with. Each audit can fail: where a release is
bought for more than is claimed, it says so. Fits tell little of any one person, most of their
budget being spent where she has no say, so that it takes a much larger one to be found.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.audited_fits import FITS, NOTHING_TOLD, released
from tests.tiers import mostly_slow

from unacorda import inference
from unacorda.audit import Finding, search
from unacorda.inference import distributions
from unacorda.inference.means import additive_noise
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


def spenders(source: str) -> set[str]:
    """Public functions with a budget and bits to spend it with, and classes that have `fit`."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            names = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            if "budget" in names:
                found.add(node.name)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            if "fit" in methods:
                found.add(node.name)
    return found


def test_every_estimator_has_an_audit() -> None:
    home = Path(inference.__file__).parent
    written = set().union(*(spenders(file.read_text("utf-8")) for file in home.glob("*.py")))
    models = {name for name in written if name[0].isupper()}
    offered = (written & set(inference.__all__)) | models
    assert len(offered) >= 40
    assert offered ^ (set(FITS) | set(NOTHING_TOLD)) == set()
    assert not set(FITS) & set(NOTHING_TOLD)


def test_one_without_an_audit_would_be_named() -> None:
    source = "class Fresh:\n    def fit(self, X): ...\ndef guess(x, *, budget): ...\ndef f(x): ..."
    assert spenders(source) == {"Fresh", "guess"}


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

    patch.setattr(distributions, "additive_noise", wrong)


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
