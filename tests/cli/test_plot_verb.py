"""`unacorda plot`: every kind draws what the library computes, and whatever cannot be is named."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.image import imread
from tests.cli.conftest import Run
from tests.support.cases import in_subtests
from tests.support.cli_seams import plot
from tests.support.seams import open_ledger

import unacorda
from unacorda import accounting, events, plots
from unacorda.attacks import Attack, error_region

EVENTS = "gaussian(noise_multiplier=2) * 4"
EVENT = events.Gaussian(noise_multiplier=2) * 4


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    drawn = random.Random(1)
    lines = ["score,included"]
    lines += [f"{1.0 * (place % 2) + drawn.gauss(0, 1)!r},{place % 2}" for place in range(2000)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/budget.db"
    visits = pd.DataFrame({"id": range(20), "age": [30] * 20})
    unit = unacorda.Person("id", max_rows=1)
    given: dict[str, Any] = {"unit": unit, "ledger": url, "dataset": "visits"}
    with unacorda.Session({"t": visits}, budget=unacorda.ZCDP(2, delta=1e-6), **given) as session:
        for rho in (1, 0.5):
            query = session.table("t").agg(n=unacorda.count())
            session.evaluate(query, budget=unacorda.ZCDP(rho))
    return url


@pytest.fixture
def release(tmp_path: Path) -> Path:
    visits = pd.DataFrame({"id": range(40), "age": [30] * 40, "town": ["A", "B"] * 20})
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session({"t": visits}, unit=unit, budget=unacorda.PureDP(9)) as session:
        query = session.table("t").group_by("town", keys=["A", "B", None])
        found = session.evaluate(
            query.agg(n=unacorda.count(), p=unacorda.median("age", 0, 99)),
            budget=unacorda.PureDP(9),
        )
    path = tmp_path / "answer.json"
    path.write_text(found.to_json())
    return path


def drawn(run: Run, tmp_path: Path, *arguments: str, ending: str = "svg") -> dict[str, Any]:
    path = tmp_path / f"curve.{ending}"
    ran = run("plot", *arguments, "--output", str(path), "--json")
    assert ran.code == 0, ran.err
    told: dict[str, Any] = json.loads(ran.out)
    assert told["output"] == str(path)
    head = path.read_bytes()[:60]
    starts = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert head.startswith(starts[ending])
    return told


@pytest.mark.long
@pytest.mark.parametrize(("kind", "ending"), [("tradeoff", "pdf"), ("profile", "png")])
def test_curves_are_certified_from_both_sides(
    run: Run, tmp_path: Path, kind: str, ending: str
) -> None:
    told = drawn(run, tmp_path, kind, EVENTS, ending=ending)
    first = "beta" if kind == "tradeoff" else "delta"
    pairs = zip(told[f"{first}_lower"], told[f"{first}_upper"], strict=True)
    assert all(lower <= upper for lower, upper in pairs)
    path = tmp_path / f"curve.{ending}"
    assert run("plot", kind, "--output", str(path), EVENTS).out.startswith("Drawn: ")


@pytest.mark.long
def test_what_an_audit_rules_out_is_beside_the_curve(
    run: Run, tmp_path: Path, scores: Path
) -> None:
    asked = ("tradeoff", "--scores", str(scores), "--confidence", "0.9")
    told = drawn(run, tmp_path, *asked, "gaussian(noise_multiplier=1)")
    rows = [line.split(",") for line in scores.read_text().splitlines()[1:]]
    found = error_region(
        [float(row[0]) for row in rows], [row[1] == "1" for row in rows], confidence=0.9
    )
    assert told["audited"]["misses"] == found.misses.tolist()
    assert set(found.false_alarms.tolist()) <= set(told["alpha"])
    assert told["audited"]["refuted"] is False
    other = drawn(run, tmp_path, *asked, "gaussian(noise_multiplier=4)")
    assert other["audited"]["refuted"] is True


@pytest.mark.long
def test_losses_have_a_mean_and_the_epsilon_of_a_delta(run: Run, tmp_path: Path) -> None:
    told = drawn(run, tmp_path, "loss", "--delta", "1e-5", EVENTS)
    losses, masses = told["remove"]["losses"], told["remove"]["masses"]
    assert 0.99 < sum(masses) <= 1
    mean = sum(a * b for a, b in zip(losses, masses, strict=True))
    assert mean == pytest.approx(0.5, abs=0.02)  # mu^2 / 2, with mu = sqrt(4) / 2
    assert told["epsilon"] == accounting.epsilon(EVENT, delta=1e-5)
    both = drawn(run, tmp_path, "loss", "gaussian(noise_multiplier=1).poisson_sampled(rate=0.1)")
    assert both["remove"] != both["add"]
    cut = drawn(run, tmp_path, "loss", "approximate(epsilon=1, delta=0.01)")
    assert cut["remove"]["infinity"] == pytest.approx(0.01)


@pytest.mark.long
def test_ratios_of_samples_are_those_of_the_accountant(run: Run, tmp_path: Path) -> None:
    many = "gaussian(noise_multiplier=1) * 100"
    told = drawn(run, tmp_path, "amplification", "--delta", "1e-5", many)
    assert told["ratio"][-1] == pytest.approx(1)
    place = 5
    rate = told["rate"][place]
    each = events.Gaussian(noise_multiplier=1).poisson_sampled(rate=rate) * 100
    cost = accounting.epsilon(each, delta=1e-5)
    assert told["epsilon"][place] == pytest.approx(cost, rel=1e-9)
    whole = accounting.epsilon(events.Gaussian(noise_multiplier=1) * 100, delta=1e-5)
    assert told["ratio"][place] == pytest.approx(cost / rate / whole)


@pytest.mark.long
def test_what_was_spent_is_that_of_the_ledger(run: Run, tmp_path: Path, ledger: str) -> None:
    told = drawn(run, tmp_path, "budget", "--ledger", ledger)
    (name, shares), (other, none) = told["spent"].items()
    assert (name, other) == ("rho, of 2", "delta, of 1e-06")
    assert [shares[0], *sorted(set(shares))] == [0, 0, 0.5, 0.75]
    assert set(none) == {0}
    times = [dt.datetime.fromisoformat(text) for text in told["time"]]
    assert times == sorted(times)
    assert len(times) == len(shares)
    assert drawn(run, tmp_path, "budget", "--ledger", ledger, "--dataset", "visits")["spent"]


@pytest.mark.parametrize(
    ("budget", "name"),
    [
        (unacorda.PureDP(1), "epsilon, of 1"),
        (unacorda.GDP(2), "mu squared, of 4"),
        (unacorda.RenyiDP(alpha=8, epsilon=3), "epsilon, of 3"),
    ],
)
def test_budgets_of_every_kind_are_shown(budget: Any, name: str) -> None:
    book = open_ledger(None)
    book.open_account("visits", budget, {})
    found = plot.spending(book, "visits", now=dt.datetime.now(dt.UTC))
    assert found.numbers["spent"] == {name: [0, 0]}


@pytest.mark.long
def test_a_release_is_drawn_with_its_intervals(run: Run, tmp_path: Path, release: Path) -> None:
    told = drawn(run, tmp_path, "errors", str(release), "--column", "n")
    rows = json.loads(release.read_text())["rows"]
    assert told["names"] == ["A", "B", "NULL"]
    assert told["values"] == [row["n"] for row in rows]
    assert told["lower"] == [row["n_low"] for row in rows]
    ranks = drawn(run, tmp_path, "errors", str(release), "--column", "p")
    assert ranks["lower"][:2] == [None, None]  # a quantile has none


@pytest.mark.long
def test_an_attack_is_drawn_beside_what_a_promise_allows(
    run: Run, tmp_path: Path, scores: Path
) -> None:
    told = drawn(run, tmp_path, "roc", str(scores), "--promised", "1", "--delta", "1e-5")
    rows = [line.split(",") for line in scores.read_text().splitlines()[1:]]
    table = pd.DataFrame(rows, columns=["score", "included"]).astype(float)
    attack = Attack(scores=table["score"].to_numpy(), truth=table["included"].to_numpy() == 1)
    assert told["true_positive_rate"] == attack.roc()[1].tolist()
    assert told["auc"] == attack.auc
    for rate, most in zip(told["limit_at"], told["limit"], strict=True):
        straight = min(math.e * rate + 1e-5, 1 - (1 - 1e-5 - rate) / math.e)
        assert most == pytest.approx(min(1, straight), rel=1e-6)
    assert "limit" not in drawn(run, tmp_path, "roc", str(scores))


@pytest.mark.long
def test_a_mean_errs_more_than_no_mechanism_beats(run: Run, tmp_path: Path) -> None:
    asked = ("utility", "--dimension", "100", "--people", "1000", "--delta", "1e-6")
    told = drawn(run, tmp_path, *asked)
    for epsilon, error, least in zip(
        told["epsilon"], told["error"], told["lower_bound"], strict=True
    ):
        found = accounting.lower_bound(
            dimension=100, people=1_000, epsilon=epsilon, delta=Fraction("1e-6")
        )
        assert least == found.mean < error
    assert told["error"][-1] < 1.1 / math.sqrt(1_000)


def test_a_picture_has_the_size_and_the_resolution_that_are_asked_for(
    run: Run, tmp_path: Path, release: Path
) -> None:
    given = (str(release), "--column", "n", "--size", "3,2")
    for dpi, shape in (([], (300, 450)), (["--dpi", "40"], (80, 120))):
        drawn(run, tmp_path, "errors", *given, *dpi, ending="png")
        assert imread(tmp_path / "curve.png").shape[:2] == shape


def test_long_titles_are_broken_and_kept_whole() -> None:
    axes = plots.new_axes(size=(4, 3))
    text = " + ".join([EVENTS] * 6)
    axes.set_title(text)
    plot._wrap_title(axes)
    lines = axes.get_title().split("\n")
    assert max(map(len, lines)) <= 48
    assert " ".join(lines) == text


def test_every_kind_is_in_the_help(run: Run) -> None:
    text = run("plot", "--help").out
    assert all(f"  {kind} " in text for kind in plot.plot.commands)
    assert set(plot.plot.commands) == {
        "amplification", "budget", "errors", "loss", "profile", "roc", "tradeoff", "utility",
    }  # fmt: skip


@in_subtests(
    ("arguments", "named"),
    [
        (["circle", EVENTS], "'circle'"),
        (["profile"], "EVENTS"),
        (["errors"], "FILE"),
        (["budget", EVENTS], "unexpected extra argument"),
        (["profile", ""], "EVENTS"),
        (["profile", "gaussian("], "EVENTS"),
        (["profile", "pure(epsilon=0)"], "EVENTS"),
        (["profile", EVENTS, "--neighbors", "none"], "--neighbors"),
        (["profile", EVENTS, "--delta", "1e-5"], "--delta"),
        (["tradeoff", EVENTS, "--column", "n"], "--column"),
        (["tradeoff", EVENTS, "--confidence", "0.9"], "--confidence"),
        (["tradeoff", EVENTS, "--scores", "nowhere.csv"], "--scores"),
        (["amplification", EVENTS], "--delta"),
        (["amplification", EVENTS, "--delta", "0"], "--delta"),
        (["amplification", EVENTS, "--delta", "much"], "--delta"),
        (["amplification", EVENTS, "--delta", "1"], "--delta"),
        (["amplification", "pure(epsilon=0)", "--delta", "1e-5"], "EVENTS"),
        (["utility", "--people", "9", "--delta", "1e-6"], "--dimension"),
        (["utility", "--dimension", "0", "--people", "9", "--delta", "1e-6"], "--dimension"),
        (["utility", "--dimension", "1", "--people", "few", "--delta", "1e-6"], "--people"),
        (["utility", "--dimension", "1", "--people", "9", "--delta", "0"], "--delta"),
        (["budget"], "--ledger"),
        (["budget", "--ledger", "sqlite:///nowhere.db"], "--ledger"),
        (["budget", "--ledger", "nowhere.db"], "--ledger"),
        (["errors", "nowhere.json"], "FILE"),
        (["roc", "nowhere.csv"], "FILE"),
        (["profile", EVENTS, "--size", "8x5"], "--size"),
        (["profile", EVENTS, "--size", "0,5"], "--size"),
        (["profile", EVENTS, "--dpi", "10000"], "--dpi"),
        (["roc", "nowhere.csv", "--neighbors", "add-remove"], "--neighbors"),
    ],
)
def test_what_cannot_be_drawn_is_named(
    run: Run, tmp_path: Path, arguments: list[str], named: str
) -> None:
    path = tmp_path / "a.svg"
    ran = run("plot", *arguments, "--output", str(path))
    assert ran.code == 2
    assert named in ran.err
    assert "failed" not in ran.err
    assert not path.exists()


@pytest.mark.parametrize("output", ["a.gif", "a", "nowhere/a.svg", "", "folder.svg"])
def test_a_picture_needs_a_place(run: Run, tmp_path: Path, output: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    ran = run("plot", "profile", EVENTS, "--output", str(tmp_path / output) if output else "")
    assert ran.code == 2
    assert "--output" in ran.err


@pytest.mark.long
def test_an_account_that_is_not_there_is_code_five(run: Run, tmp_path: Path, ledger: str) -> None:
    path = str(tmp_path / "a.svg")
    ran = run("plot", "budget", "--ledger", ledger, "--dataset", "calls", "--output", path)
    assert ran.code == 5
    assert "calls" in ran.err
    with_two = open_ledger(ledger)
    with_two.open_account("calls", unacorda.PureDP(1), {})
    with_two.close()
    ran = run("plot", "budget", "--ledger", ledger, "--output", path)
    assert ran.code == 2
    assert "--dataset" in ran.err
    assert "calls" in ran.err


@in_subtests(
    "text",
    [
        "",
        "[]",
        "no JSON",
        "{}",
        '{"rows": []}',
        '{"rows": [1]}',
        '{"rows": [{"n": 1}]}',
        '{"rows": [{"n": 1, "n_se": 1, "n_low": 0}]}',
        '{"rows": [{"n": "x", "n_se": 1, "n_low": 0, "n_high": 2}]}',
        '{"rows": [{"n": 1, "n_se": 1, "n_low": [0], "n_high": 2}]}',
        '{"rows": [{"n": 1, "n_se": 1, "n_low": 0, "n_high": 2}, {"n": 1}]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_release_is_named(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "answer.json"
    path.write_text(text)
    ran = run("plot", "errors", str(path), "--output", str(tmp_path / "a.svg"))
    assert ran.code == 2
    assert "FILE" in ran.err


def test_a_column_has_to_be_one_of_the_release(run: Run, tmp_path: Path, release: Path) -> None:
    for column in ([], ["--column", "town"], ["--column", "q"]):
        ran = run("plot", "errors", str(release), *column, "--output", str(tmp_path / "a.svg"))
        assert ran.code == 2
        assert "--column" in ran.err
        assert "n, p" in ran.err
    long = {"rows": json.loads(release.read_text())["rows"] * 34}
    release.write_text(json.dumps(long))
    ran = run("plot", "errors", str(release), "--column", "n", "--output", str(tmp_path / "a.svg"))
    assert ran.code == 2
    assert "100 lines" in ran.err
