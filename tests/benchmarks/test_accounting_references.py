"""The references of the accounting benchmark, against integrals, sums and closed forms."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mpmath
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MP = mpmath.mp.clone()
MP.dps = 22


@pytest.fixture(autouse=True)
def _scripts_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def module(name: str) -> Any:
    return importlib.import_module(name)


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    return MP.ncdf(mu / 2 - epsilon / mu) - MP.exp(epsilon) * MP.ncdf(-mu / 2 - epsilon / mu)


def close(found: Any, truth: Any, tolerance: str) -> bool:
    return bool(abs(MP.mpf(str(found)) / truth - 1) < MP.mpf(tolerance))


def test_gaussians_are_their_closed_form() -> None:
    parts = [
        {"kind": "gaussian", "noise": 5.0, "count": 9},
        {"kind": "gaussian", "noise": 2.5, "count": 4},
    ]
    found = module("accounting_references").epsilon_of(parts, 1e-7, "remove")
    assert found.difference < 1e-25
    assert close(gaussian_delta(MP.mpf(1), MP.mpf(str(found.value))), MP.mpf("1e-7"), "1e-18")


@pytest.mark.long
@pytest.mark.parametrize("direction", ["remove", pytest.param("add", marks=pytest.mark.slow)])
def test_a_sampled_gaussian_beside_a_gaussian_is_an_integral(direction: str) -> None:
    """delta of the two is the mean over the sampled one's loss of the other's delta, shifted."""
    q, mu, other, epsilon = MP.mpf("0.2"), MP.mpf(1), MP.mpf("0.5"), MP.mpf("0.9")

    def loss(x: Any) -> Any:
        ratio = MP.log(1 - q + q * MP.exp(mu * x - mu**2 / 2))
        return ratio if direction == "remove" else -ratio

    def density(x: Any) -> Any:
        return MP.npdf(x) * (MP.exp(loss(x)) if direction == "remove" else 1)

    def given(x: Any) -> Any:
        return density(x) * gaussian_delta(other, epsilon - loss(x))

    truth = MP.quad(given, [-14, -7, -3, 0, 2, 4, 7, 15])
    parts = [
        {"kind": "sampled_gaussian", "rate": 0.2, "noise": 1.0, "count": 1},
        {"kind": "gaussian", "noise": 2.0, "count": 1},
    ]
    found = module("accounting_references").epsilon_of(parts, float(truth), direction)
    assert found.difference < 1e-18
    assert close(found.value, epsilon, "1e-14")  # delta was rounded to a float


@pytest.mark.slow
def test_many_laplaces_and_a_gaussian_are_an_integral() -> None:
    """Two Laplace losses have atoms and a density; beside a Gaussian, delta is smooth."""
    u, epsilon, other = MP.mpf("0.4"), MP.mpf("0.7"), MP.mpf("0.8")
    # the loss of one: u with mass 1/2, -u with e^-u / 2, and density e^((l - u) / 2) / 4 between
    line = [(u, MP.mpf(1) / 2), (-u, MP.exp(-u) / 2)]

    def mean(value: Any) -> Any:
        between = MP.quad(lambda x: MP.exp((x - u) / 2) / 4 * value(x), [-u, 0, u])
        return between + sum(mass * value(x) for x, mass in line)

    assert close(mean(lambda _: MP.mpf(1)), 1, "1e-18")
    truth = mean(lambda x: mean(lambda y: gaussian_delta(other, epsilon - x - y)))
    parts = [
        {"kind": "laplace", "noise": 2.5, "count": 2},
        {"kind": "gaussian", "noise": 1.25, "count": 1},
    ]
    found = module("accounting_references").epsilon_of(parts, float(truth), "remove")
    assert close(found.value, epsilon, "1e-14")


def test_pure_promises_beside_a_gaussian_are_a_sum() -> None:
    e, k, epsilon, other = MP.mpf("0.3"), 5, MP.mpf("1.1"), MP.mpf("0.5")
    p = 1 / (1 + MP.exp(-e))
    truth = sum(
        MP.binomial(k, j)
        * p ** (k - j)
        * (1 - p) ** j
        * gaussian_delta(other, epsilon - (k - 2 * j) * e)
        for j in range(k + 1)
    )
    parts = [
        {"kind": "pure", "epsilon": 0.3, "count": 5},
        {"kind": "gaussian", "noise": 2.0, "count": 1},
    ]
    found = module("accounting_references").epsilon_of(parts, float(truth), "remove")
    assert close(found.value, epsilon, "1e-14")


@pytest.mark.parametrize("epsilon", ["0.15", "0.45", "0.6", "1.2"])
def test_homogeneous_promises_are_their_sum(epsilon: str) -> None:
    e, d, k, at = MP.mpf("0.3"), MP.mpf("0.001"), 5, MP.mpf(epsilon)
    p = 1 / (1 + MP.exp(-e))
    lost = sum(
        MP.binomial(k, j) * p ** (k - j) * (1 - p) ** j * max(0, 1 - MP.exp(at - (k - 2 * j) * e))
        for j in range(k + 1)
    )
    delta = float(1 - (1 - d) ** k * (1 - lost))
    part = {"kind": "approximate", "epsilon": 0.3, "delta": 0.001, "count": 5}
    assert close(module("accounting_references").homogeneous(part, delta).value, at, "1e-13")


def test_too_small_a_delta_has_no_epsilon() -> None:
    part = {"kind": "approximate", "epsilon": 0.3, "delta": 0.001, "count": 5}
    assert module("accounting_references").homogeneous(part, 0.001).value == MP.inf


@pytest.mark.slow
def test_the_least_noise_gives_the_epsilon_back() -> None:
    part = {"kind": "sampled_gaussian", "rate": 0.1, "noise": 0.0, "count": 20}
    references = module("accounting_references")
    found = references.noise_of(part, 1.0, 1e-5, "remove")
    assert found.difference < 1e-18
    back = references.epsilon_of([{**part, "noise": found.value}], 1e-5, "remove")
    assert close(back.value, 1, "1e-18")


def test_every_question_has_a_reference_that_agrees_with_itself() -> None:
    cases = module("accounting_cases")
    kept = cases.references()
    assert list(kept) == list(cases.CASES)
    assert all(one["difference"] < 1e-18 for one in kept.values())


def test_a_kept_reference_is_what_the_script_computes_today() -> None:
    cases, references = module("accounting_cases"), module("accounting_references")
    kept = cases.references()["homogeneous"]["answer"]
    assert references.reference(cases.CASES["homogeneous"])["answer"] == kept


def test_a_changed_question_loses_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = module("accounting_cases")
    changed = {**cases.CASES["laplaces"], "delta": 2e-6}
    monkeypatch.setitem(cases.CASES, "laplaces", changed)
    assert set(cases.CASES) - set(cases.references()) == {"laplaces"}
