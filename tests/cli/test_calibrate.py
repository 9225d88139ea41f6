"""`unacorda calibrate`: the value is on the safe side and close to the edge, or there is none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal
from tests.support.cases import in_subtests
from tests.support.cli_seams import aim_of, main, read_event
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import epsilon_interval
from unacorda.privacy.neighbors import Neighbors

SAMPLED = "gaussian(noise_multiplier=x).poisson_sampled(rate=0.01) * 1000"
FIELDS = {
    "name", "value", "find", "fails", "events", "event", "neighbors", "target", "cost", "left",
    "evaluations",
}  # fmt: skip


def found(run: Run, *arguments: str) -> dict[str, Any]:
    ran = run("calibrate", "--json", *arguments)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    fields: dict[str, Any] = json.loads(ran.out, parse_constant=pytest.fail)
    assert set(fields) == FIELDS
    cost, target = fields["cost"], fields["target"]
    assert cost["upper"] <= target["at_most"]
    assert fields["left"] == pytest.approx(target["at_most"] - cost["upper"], abs=1e-12)
    assert cost["lower"] is None or cost["lower"] <= cost["upper"]
    assert (cost["measure"], cost["at"]) == (target["measure"], target["at"])
    return fields


@in_subtests(
    ("options", "events", "truth", "find"),
    [
        (("--rho", "0.5"), "gaussian(noise_multiplier=x) * 100", 10.0, "least"),
        (("--rho", "0.5"), "gaussian(noise_multiplier=10) * n", 100, "most"),
        (("--mu", "1"), "gaussian(noise_multiplier=x) * 25", 5.0, "least"),
        (("--epsilon", "1"), "laplace(noise_multiplier=x) * 7", 7.0, "least"),
        (("--epsilon", "1"), "laplace(noise_multiplier=10) * n", 10, "most"),
        (("--epsilon", "1"), "pure(epsilon=x / 3)", 3.0, "most"),
        (("--epsilon", "1"), "pure(epsilon=1 / x)", 1.0, "least"),
        (("--epsilon", "1", "--alpha", "4"), "gaussian(noise_multiplier=x)", 2**0.5, "least"),
        (
            ("--epsilon", "0.1"),
            "pure(epsilon=1).poisson_sampled(rate=q)",
            math.expm1(0.1) / math.expm1(1),
            "most",
        ),
        (
            ("--advantage", "0.1"),
            "gaussian(noise_multiplier=x)",
            0.5 / norm.ppf(0.55),
            "least",
        ),
        (
            ("--epsilon", "0", "--delta", "0.1"),
            "gaussian(noise_multiplier=x)",
            0.5 / norm.ppf(0.55),
            "least",
        ),
        (
            ("--tpr", "0.1", "--fpr", "0.01"),
            "gaussian(noise_multiplier=x)",
            1 / (norm.ppf(0.1) - norm.ppf(0.01)),
            "least",
        ),
        (("--rho", "1", "--delta", "1e-9"), "zero_concentrated(rho=x, delta=1e-9)", 1.0, "most"),
    ],
)
def test_values_of_closed_forms(
    run: Run, options: tuple[str, ...], events: str, truth: float, find: str
) -> None:
    fields = found(run, *options, events)
    assert fields["find"] == find
    assert fields["value"] == pytest.approx(truth, rel=3e-9)
    if isinstance(truth, int):
        assert (fields["value"], fields["fails"]) == (truth, truth + 1)
        assert isinstance(fields["value"], int)
    elif find == "least":
        assert fields["fails"] < truth * (1 + 1e-12)
        assert fields["value"] >= truth * (1 - 1e-12)
    else:
        assert fields["fails"] > truth * (1 - 1e-12)
        assert fields["value"] <= truth * (1 + 1e-12)


@pytest.mark.parametrize(
    ("events", "relation"),
    mostly_slow(
        [
            (SAMPLED, "add-remove"),
            (SAMPLED, "zero-out"),
            pytest.param(
                "laplace(noise_multiplier=x).poisson_sampled(rate=0.1)",
                "replace-one",
                marks=pytest.mark.slow,
            ),
            ("gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * n", "add-remove"),
            ("gaussian(noise_multiplier=1).poisson_sampled(rate=q) * 100", "add-remove"),
            (
                "laplace(noise_multiplier=1).fixed_size_sampled(size=m, population=1000)",
                "replace-one",
            ),
            ("laplace(noise_multiplier=1).fixed_size_sampled(size=9, population=m)", "zero-out"),
            pytest.param(
                "pure(epsilon=x).shuffled(count=10000)", "replace-one", marks=pytest.mark.slow
            ),
        ],
        quick=4,
    ),
)
def test_the_value_meets_the_target_and_its_neighbor_does_not(
    run: Run, events: str, relation: str
) -> None:
    fields = found(run, "--epsilon", "0.9", "--delta", "1e-6", "--neighbors", relation, events)
    neighbors = Neighbors(relation.replace("-", "_"))
    priced = epsilon_interval(read_event(fields["events"]), delta=1e-6, neighbors=neighbors)
    assert priced.upper <= 0.9
    name, value, fails = fields["name"], fields["value"], fields["fails"]
    assert fails != value
    closest = 1 if isinstance(value, int) else 3e-9 * value
    assert abs(fails - value) <= closest * (1 + 1e-9)
    missed = read_event(
        events.replace(f"={name}", f"={fails!r}").replace(f"* {name}", f"* {fails}")
    )
    assert epsilon_interval(missed, delta=1e-6, neighbors=neighbors).upper > 0.9


@settings(max_examples=5, deadline=None)
@given(st.floats(0.01, 5), st.integers(1, 50), st.floats(1e-9, 1e-3))
def test_any_gaussian_is_found(epsilon: float, count: int, delta: float) -> None:
    from tests.support.cli_seams import CliSearch as Search
    from tests.support.cli_seams import read_template

    from unacorda.accounting.calibration import measure
    from unacorda.privacy.guarantees import ApproxDP
    from unacorda.privacy.neighbors import AddRemove

    aim = measure(ApproxDP(epsilon, delta), neighbors=AddRemove)
    template = read_template(f"gaussian(noise_multiplier=x) * {count}")
    find, result = Search(template=template, name="x", measure=aim, neighbors=AddRemove).run()
    mu = math.sqrt(count) / result.parameter
    excess = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert excess == pytest.approx(delta, rel=1e-5)
    assert find == "least"


def test_the_output_says_value_cost_and_what_is_left(run: Run) -> None:
    ran = run("calibrate", "--epsilon", "2", "--delta", "1e-5", SAMPLED)
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0].startswith("x:        ")
    assert lines[0].endswith("is the least with epsilon of at most 2 at delta=1e-5")
    assert lines[1].startswith("costs:    epsilon from 1.99999999")
    assert lines[1].endswith("is left")
    value = lines[0].split()[1]
    assert f"events:   gaussian(noise_multiplier={value}).poisson_sampled" in ran.out
    assert len(value) <= 12, "ten digits"


def test_a_range_that_passes_whole_says_so(run: Run) -> None:
    fields = found(run, "--epsilon", "9", "pure(epsilon=1).poisson_sampled(rate=q)")
    assert (fields["value"], fields["fails"]) == (1.0, None)
    ran = run("calibrate", "--epsilon", "9", "pure(epsilon=1).poisson_sampled(rate=q)")
    assert "fails:    nothing in the range" in ran.out


def test_options_of_the_search(run: Run) -> None:
    fields = found(run, "--rho", "0.5", "--within", "2:5000", "gaussian(noise_multiplier=x) * 4")
    assert fields["value"] == pytest.approx(2, rel=1e-8)
    fields = found(run, "--rho", "0.5", "--within", "3:5", "gaussian(noise_multiplier=x) * 4")
    assert (fields["value"], fields["fails"]) == (3, None)
    fields = found(run, "--rho", "0.5", "--tolerance", "0.1", "gaussian(noise_multiplier=x) * 4")
    assert 2 <= fields["value"] <= 2.3
    fields = found(run, "--rho", "0.5", "--find", "least", "gaussian(noise_multiplier=x) * 4")
    assert fields["find"] == "least"


@in_subtests(
    ("arguments", "said"),
    [
        ((SAMPLED,), "one target"),
        (("--delta", "1e-6", SAMPLED), "one target"),
        (("--epsilon", "1", "--rho", "1", SAMPLED), "one target"),
        (("--tpr", "0.1", SAMPLED), "one target"),
        (("--fpr", "0.1", SAMPLED), "one target"),
        (("--epsilon", "1", "--alpha", "2", "--delta", "1e-6", SAMPLED), "one target"),
        (("--epsilon", "1", "--delta", "1", SAMPLED), "--delta"),
        (("--epsilon", "1", "--delta", "nan", SAMPLED), "--delta"),
        (("--epsilon", "1", "--delta", "1e-400", SAMPLED), "0, or a number from 1e-300"),
        (("--rho", "1", "--within", "1e-400:5", SAMPLED), "1e-300 <= LOW"),
        (("--epsilon=-1", "--delta", "1e-6", SAMPLED), "--epsilon"),
        (("--epsilon", "1", "--alpha", "1", SAMPLED), "--alpha"),
        (("--rho", "x", SAMPLED), "--rho"),
        (("--advantage", "1.5", SAMPLED), "--advantage"),
        (("--tpr", "0.01", "--fpr", "0.1", SAMPLED), "--tpr"),
        (("--tpr", "2", "--fpr", "0.1", SAMPLED), "--tpr"),
        (("--epsilon", "1", "--delta", "1e-6"), "EVENTS"),
        (("--epsilon", "1", "gaussian(noise_multiplier=1)"), "one free name"),
        (("--epsilon", "1", "laplace(noise_multiplier=x) * n"), "one free name"),
        (("--epsilon", "1", "laplas(noise_multiplier=x)"), "EVENTS, column 1"),
        (("--epsilon", "1", "laplace(noise_multiplier=x) * pure"), "EVENTS, column 31"),
        (("--epsilon", "1", "laplace(noise_multiplier=-x)"), "a finite number above 0"),
        (("--epsilon", "1", "x"), "EVENTS, column 1"),
        (("--epsilon", "1", "--find", "best", SAMPLED), "--find"),
        (("--epsilon", "1", "--within", "1", SAMPLED), "--within"),
        (("--epsilon", "1", "--within", "0:1", SAMPLED), "--within"),
        (("--epsilon", "1", "--within", "2:1", SAMPLED), "--within"),
        (("--epsilon", "1", "--within", "1:2.5", "laplace(noise_multiplier=9) * n"), "--within"),
        (("--rho", "1", "--within", "1e-9:2", "pure(epsilon=1).poisson_sampled(rate=x)"), "rate=2"),
        (("--epsilon", "1", "--tolerance", "0", SAMPLED), "--tolerance"),
        (("--epsilon", "1", "--tolerance", "1", SAMPLED), "--tolerance"),
        (("--epsilon", "1", "--tolerance", "1e-15", SAMPLED), "--tolerance"),
        (("--epsilon", "1", "--neighbors", "none", SAMPLED), "--neighbors"),
        (("--rho", "1", "pure(epsilon=1).shuffled(count=n)"), "--neighbors"),
        (("--rho", "1", "--find", "most", "gaussian(noise_multiplier=x)"), "--find"),
        (("--rho", "1", "--find", "least", "gaussian(noise_multiplier=9) * n"), "--find"),
        (("--epsilon", "1", "randomized_response(epsilon=1, categories=k)"), "changes the cost"),
        (("--mu", "1", SAMPLED), "has no price"),
        (("--epsilon", "1", SAMPLED), "no price"),
    ],
)
def test_wrong_values_end_with_2(run: Run, arguments: tuple[str, ...], said: str) -> None:
    ran = run("calibrate", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 1500


def test_a_target_that_cannot_be_met_says_what_the_cheapest_costs(run: Run) -> None:
    events = "gaussian(noise_multiplier=2) + gaussian(noise_multiplier=x)"
    ran = run("calibrate", "--rho", "0.1", events)
    assert ran.code == 2
    assert "the cost is 0.125 or more, and the target is 0.1" in ran.err
    ran = run("calibrate", "--rho", "0.001", "gaussian(noise_multiplier=2) * n")
    assert ran.code == 2
    assert "the cost is 0.125 or more" in ran.err


@pytest.mark.slow
def test_the_spinner_is_for_terminals_and_not_for_json() -> None:
    asked = ("calibrate", "--rho", "0.5", "gaussian(noise_multiplier=x)")
    assert "Calibrating" in on_terminal(*asked).out
    shown = on_terminal(*asked, "--json").out
    assert "Calibrating" not in shown
    json.loads(shown)


def test_aims_have_words() -> None:
    from fractions import Fraction

    assert aim_of({"mu": Fraction(1), "delta": None}).name == "mu of at most 1"
    assert aim_of({"epsilon": Fraction(1, 2), "delta": Fraction(0)}).name == (
        "epsilon of at most 0.5 at delta=0"
    )


def test_main_takes_the_arguments_of_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--rho=0.5", "gaussian(noise_multiplier=x)"]) == 0
    assert capsys.readouterr().out.startswith("x:        1")
