"""`unacorda account`: what a composition costs, as table and as JSON, and what is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal
from tests.support.cases import in_subtests
from tests.support.cli_seams import rounded

from unacorda.accounting.explanation import sampling_notes
from unacorda.privacy import conversions
from unacorda.privacy.events import Gaussian, Laplace, Pure

STEPS = "gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 10000"
FIELDS = {"measure", "at", "lower", "upper", "relative_width", "engine", "source", "why"}


def asked(run: Run, *arguments: str) -> dict[str, Any]:
    ran = run("account", "--json", *arguments)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out, parse_constant=pytest.fail)
    for answer in found["answers"]:
        assert set(answer) == FIELDS
        assert (answer["why"] is None) is (answer["upper"] is not None)
        if answer["upper"] is not None and answer["lower"] is not None:
            assert 0 <= answer["lower"] <= answer["upper"]
        if answer["upper"] is not None:
            assert answer["engine"]
            assert answer["source"]
    return found


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8, by SciPy's normal distribution."""
    low = norm.cdf(mu / 2 - epsilon / mu)
    return float(low - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def test_every_question_about_gaussians_has_the_number_of_its_formula(run: Run) -> None:
    found = asked(
        run, "--epsilon", "1", "--epsilon", "0", "--alpha", "8", "--alpha", "1.5", "--rho", "--mu",
        "--tradeoff", "gaussian(noise_multiplier=4) * 4",
    )  # fmt: skip
    mu = 0.5
    truths = [
        ("delta", {"epsilon": 1.0}, gaussian_delta(mu, 1)),
        ("delta", {"epsilon": 0.0}, 2 * norm.cdf(mu / 2) - 1),
        ("Renyi divergence", {"alpha": 8.0}, 8 * mu**2 / 2),
        ("Renyi divergence", {"alpha": 1.5}, 1.5 * mu**2 / 2),
        ("rho", {}, mu**2 / 2),
        ("mu", {}, mu),
        ("advantage", {}, 2 * norm.cdf(mu / 2) - 1),
        *(
            ("true-positive rate", {"fpr": rate}, norm.cdf(norm.ppf(rate) + mu))
            for rate in (0.001, 0.01, 0.1)
        ),
    ]
    assert len(found["answers"]) == len(truths)
    for answer, (measure, at, truth) in zip(found["answers"], truths, strict=True):
        assert (answer["measure"], answer["at"]) == (measure, at)
        assert answer["upper"] == pytest.approx(truth, rel=1e-9)
        if answer["lower"] is not None:
            assert answer["lower"] == pytest.approx(truth, rel=1e-9)
    assert found["events"] == "gaussian(noise_multiplier=4) * 4"
    assert found["event"] == json.loads((Gaussian(noise_multiplier=4) * 4).to_json())
    assert found["neighbors"] == "AddRemove"
    assert found["notes"] == []


def test_deltas_and_epsilons_are_inverse(run: Run) -> None:
    found = asked(run, "--delta", "1e-5", "--delta", "1e-6", "--delta", "1/100000", STEPS)
    first, second, third = (answer["upper"] for answer in found["answers"])
    assert first == third < second
    (back,) = asked(run, "--epsilon", repr(first), STEPS)["answers"]
    assert back["lower"] <= 1e-5
    assert back["upper"] == pytest.approx(1e-5, rel=1e-9)


def test_pure_epsilon_is_asked_at_delta_0(run: Run) -> None:
    (found,) = asked(run, "--delta", "0", "laplace(noise_multiplier=3) * 2")["answers"]
    assert found["upper"] == pytest.approx(2 / 3, rel=1e-15)
    assert found["upper"] >= 2 / 3
    (none,) = asked(run, "--delta", "0", "gaussian(noise_multiplier=1)")["answers"]
    assert none["upper"] is None
    assert "no finite bound" in none["why"]


def test_the_mu_of_a_sample_is_that_of_its_pure_epsilon(run: Run) -> None:
    ran = run("account", "--mu", "--json", "laplace(noise_multiplier=1).poisson_sampled(rate=0.1)")
    assert ran.code == 0
    (found,) = json.loads(ran.out)["answers"]
    pure = math.log1p(0.1 * math.expm1(1))
    assert found["upper"] == pytest.approx(conversions.gdp_from_pure(pure), rel=1e-9)


def test_what_no_theorem_gives_is_said_beside_what_one_does(run: Run) -> None:
    ran = run("account", "--mu", "--delta", "1e-5", STEPS)
    assert ran.code == 0
    assert re.search(r"^mu +- +- +- +- +-$", ran.out, flags=re.MULTILINE)
    assert "mu: no theorem here gives it" in ran.out
    epsilon, mu = asked(run, "--mu", "--delta", "1e-5", STEPS)["answers"]
    assert epsilon["upper"] is not None
    assert mu["upper"] is None
    ran = run("account", "--mu", STEPS)
    assert ran.code == 2
    assert "has no price in mu" in ran.err


def test_the_delta_of_approximate_parts_is_told(run: Run) -> None:
    text = "zero_concentrated(rho=0.5, delta=1e-9) * 2"
    (found,) = asked(run, "--rho", text)["answers"]
    assert found["at"] == {"delta": 2e-9}
    assert found["upper"] == 1.0
    (found,) = asked(run, "--mu", "approximate(epsilon=1, delta=1e-9) * 2")["answers"]
    assert found["at"] == {"delta": 2e-9}


@in_subtests(
    ("relation", "events", "ratio"),
    [
        ("add-remove", "laplace(noise_multiplier=2)", 1.0),
        ("replace-one", "laplace(noise_multiplier=2)", 1.0),
        ("zero-out", "laplace(noise_multiplier=2)", 1.0),
        ("replace-one", "laplace(noise_multiplier=2).fixed_size_sampled(size=9, population=9)", 2),
        ("zero-out", "laplace(noise_multiplier=2).fixed_size_sampled(size=9, population=9)", 2),
        ("Replace_One", "laplace(noise_multiplier=2).poisson_sampled(rate=1)", 2),
    ],
)
def test_relations(run: Run, relation: str, events: str, ratio: float) -> None:
    found = asked(run, "--delta", "0", "--neighbors", relation, events)
    assert found["answers"][0]["upper"] == pytest.approx(ratio / 2, rel=1e-12)
    assert found["neighbors"].lower() == relation.replace("-", "").replace("_", "").lower()


@pytest.mark.parametrize(
    "method", ["fixed_size_sampled(size=9, population=99)", "shuffled(count=9)"]
)
def test_a_scheme_without_the_relation_is_refused_with_the_option(run: Run, method: str) -> None:
    ran = run("account", "--delta", "1e-5", f"pure(epsilon=1).{method}")
    assert ran.code == 2
    assert ran.out == ""
    assert "--neighbors" in ran.err
    assert "replace-one or zero-out" in ran.err


def test_the_table_is_aligned_and_rounded_outward(run: Run) -> None:
    ran = run("account", "--delta", "1e-5", "--epsilon", "1", STEPS)
    heads, first, second, *_ = ran.out.splitlines()
    assert heads.split() == ["from", "to", "relative", "width", "engine", "source"]
    assert first.startswith("epsilon at delta=1e-5 ")
    assert second.startswith("delta at epsilon=1 ")
    assert first.index("contour") == heads.index("engine") == second.index("contour")
    answers = asked(run, "--delta", "1e-5", "--epsilon", "1", STEPS)["answers"]
    for line, answer in zip((first, second), answers, strict=True):
        low, high = (float(text) for text in line.partition("=")[2].split()[1:3])
        assert low <= answer["lower"] <= answer["upper"] <= high
        assert high - low <= 4e-9 * high


@in_subtests("value", [1 / 3, 2 / 3, 1e-12 / 7, 1e20 / 3, 5e-324, 0.0, 20.0, 1e300])
def test_rounding_never_crosses(value: float) -> None:
    low, high = rounded(value, up=False, digits=5), rounded(value, up=True, digits=5)
    assert float(low) <= value <= float(high)
    assert float(high) - float(low) <= 1.1e-4 * value


def test_explanations_name_theorems_and_engines(run: Run) -> None:
    ran = run("account", "--delta", "1e-5", "--explain", f"{STEPS} + laplace(noise_multiplier=20)")
    assert "10000 x gaussian(noise_multiplier=1).poisson_sampled(rate=0.01)" in ran.out
    assert "1 x laplace(noise_multiplier=20)" in ran.out
    assert "Zhu, Dong, Wang 2022" in ran.out
    assert re.search(r"contour quadrature: from [\d.]+ to [\d.]+", ran.out)
    found = asked(run, "--delta", "1e-5", "--explain", STEPS)
    (part,) = found["parts"]
    assert (part["count"], part["event"]["event"]) == (10_000, "PoissonSampled")
    assert "contour quadrature" in found["findings"]["epsilon at delta=1e-5"][0]


def test_sampling_that_is_not_free_is_noted(run: Run) -> None:
    ran = run("account", "--delta", "1e-5", STEPS)
    assert ran.err.startswith("note: Sampling 0.01 of the units is not free")
    assert run("account", "--delta", "1e-5", "gaussian(noise_multiplier=1)").err == ""
    (note,) = asked(run, "--rho", "laplace(noise_multiplier=1).poisson_sampled(rate=0.01)")["notes"]
    assert "not free" in note


def test_notes_compare_with_the_noise_that_the_whole_table_needs() -> None:
    # With much noise a sample is a scaled copy of the table: nothing is lost, nothing is noted.
    free = Gaussian(noise_multiplier=50).poisson_sampled(rate=0.1) * 100
    assert sampling_notes(free, delta=1e-6) == ()
    # All rows: no sample.
    assert sampling_notes(Gaussian(noise_multiplier=0.1).poisson_sampled(rate=1), delta=1e-6) == ()
    assert sampling_notes(Laplace(noise_multiplier=1), delta=1e-6) == ()
    assert sampling_notes(Pure(epsilon=0).poisson_sampled(rate=0.5)) == ()
    # One step of noise 1/2 at rate 1/100: the whole table's noise by Balle and Wang's formula.
    step = Gaussian(noise_multiplier=0.5).poisson_sampled(rate=0.01)
    (note,) = sampling_notes(step, delta=1e-6)
    said = re.search(r"epsilon=([\d.]+) .* need ([\d.]+) of the noise", note)
    assert said is not None
    epsilon = float(said[1])
    low, high = 1e-3, 1e3  # mu of the whole table
    for _ in range(100):
        mu = math.sqrt(low * high)
        low, high = (mu, high) if gaussian_delta(mu, epsilon) < 1e-6 else (low, mu)
    assert float(said[2]) == pytest.approx(1 / low / (0.5 / 0.01), rel=0.06)  # two digits


def test_json_events_come_from_a_file_or_stdin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Gaussian(noise_multiplier=2) * 3 + Laplace(noise_multiplier=5)
    path = tmp_path / "event.json"
    path.write_text(event.to_json())
    from_file = asked(run, "--delta", "1e-5", "--event-json", str(path))
    stdin = io.TextIOWrapper(io.BytesIO(event.to_json().encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert asked(run, "--delta", "1e-5", "--event-json", "-") == from_file
    text = "gaussian(noise_multiplier=2) * 3 + laplace(noise_multiplier=5)"
    assert asked(run, "--delta", "1e-5", text) == from_file
    assert from_file["events"] == text


def test_output_events_can_be_read_again(run: Run, tmp_path: Path) -> None:
    first = asked(run, "--delta", "1e-5", STEPS)
    path = tmp_path / "event.json"
    path.write_text(json.dumps(first["event"]))
    assert asked(run, "--delta", "1e-5", "--event-json", str(path)) == first
    assert asked(run, "--delta", "1e-5", first["events"]) == first


DEEP = '{"event": "Shuffled", "count": 2, "of": ' * 300 + "{}" + "}" * 300
SAMPLED = '{"event": "PoissonSampled", "rate": 0.5, "of": ' * 60


@in_subtests(
    "content",
    [
        b"",
        b"{",
        b"3",
        b"[]",
        b"null",
        b'{"event": "Nix"}',
        b'{"event": "Gaussian"}',
        b'{"event": "Gaussian", "noise_multiplier": -1}',
        b'{"event": "Gaussian", "noise_multiplier": NaN}',
        b'{"event": "Gaussian", "noise_multiplier": "1e999999999"}',
        b'{"event": "Gaussian", "noise_multiplier": 1, "more": 2}',
        b'{"event": "GaussianMixture", "noise_multiplier": 1, "shifts": 3, "weights": 1}',
        b"\xff\xfe",
        DEEP.encode(),
        f'{SAMPLED}{{"event": "Pure", "epsilon": 1}}{"}" * 60}'.encode(),
        b"[" * 1_000_000,
    ],
    ids=range(16),
)
def test_json_that_is_no_event_ends_with_2(run: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(content)
    ran = run("account", "--delta", "1e-5", "--event-json", str(path))
    assert ran.code == 2
    assert ran.out == ""
    assert "--event-json" in ran.err
    assert len(ran.err) < 1500


@in_subtests(
    ("arguments", "said"),
    [
        ((STEPS,), "a question: --delta 1e-6"),
        (("--delta", "1e-5"), "EVENTS"),
        (("--delta", "1e-5", "--event-json", "x.json", STEPS), "EVENTS"),
        (("--delta", "1e-5", "--event-json", "/no/such/file"), "--event-json"),
        (("--delta", "1e-5", "--event-json", "/"), "--event-json"),
        (("--delta", "1", STEPS), "--delta"),
        (("--delta=-1e-5", STEPS), "--delta"),
        (("--delta", "nan", STEPS), "--delta"),
        (("--delta", "1e-5x", STEPS), "--delta"),
        (("--delta", "1e999999999", STEPS), "--delta"),
        (("--delta", "", STEPS), "--delta"),
        (("--delta", "1e-400", STEPS), "--delta='1e-400' cannot be used: expected 0, or a number"),
        (("--delta", "1e-4999", STEPS), "a number from 1e-300."),
        (("--alpha", "1e101", STEPS), "above 1, at most 1e100."),
        (("--epsilon=-1", STEPS), "--epsilon"),
        (("--epsilon", "inf", STEPS), "--epsilon"),
        (("--epsilon", "1e301", STEPS), "0 or above, at most 1e300."),
        (("--alpha", "1", STEPS), "--alpha"),
        (("--alpha", "0.5", STEPS), "--alpha"),
        (("--alpha", "nan", STEPS), "--alpha"),
        (("--rho", "--neighbors", "friends", STEPS), "--neighbors"),
        (("--rho", "--neighbors", "", STEPS), "--neighbors"),
        (("--rho", "gauss(noise_multiplier=1)"), "EVENTS, column 1"),
        (("--rho", "--bogus", STEPS), "--bogus"),
        (("--rho", STEPS, STEPS), "unexpected extra argument"),
    ],
)
def test_wrong_values_end_with_2(run: Run, arguments: tuple[str, ...], said: str) -> None:
    ran = run("account", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in " ".join(ran.err.split())
    assert len(ran.err) < 500
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 1500


@pytest.mark.slow
def test_a_terminal_of_80_columns_cuts_nothing() -> None:
    ran = on_terminal("account", "--delta", "1e-5", "gaussian(noise_multiplier=1)")
    assert ran.code == 0
    assert "…" not in ran.out
    assert "closed form" in ran.out
    assert "Balle" not in ran.out
    assert "Zhu, Dong, Wang 2022" in ran.out


@pytest.mark.slow
def test_the_spinner_is_for_terminals_and_not_for_json() -> None:
    plain = on_terminal("account", "--delta", "1e-5", STEPS)
    assert "Pricing" in plain.out
    as_json = on_terminal("account", "--json", "--delta", "1e-5", "laplace(noise_multiplier=2)")
    assert "Pricing" not in as_json.out
    json.loads(as_json.out)
