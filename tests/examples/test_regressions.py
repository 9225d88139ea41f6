"""The examples of regressions run, and their pictures show what they computed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.examples.running import lines_of, names_of

from unacorda import SeededBits


def drawn_to(path: Path) -> bool:
    return path.read_text().rstrip().endswith("</svg>")


@pytest.mark.slow
def test_wages_of_real_people(tmp_path: Path) -> None:
    picture = tmp_path / "wages.svg"
    lines = lines_of("wages.py", "--picture", str(picture))
    assert lines[0] == "LinearRegression"
    assert any(line.startswith("steps of schooling - 10") for line in lines)
    assert lines[-1] == f"drawn: {picture}"
    assert drawn_to(picture)


def test_private_wages_are_near_those_in_the_clear(tmp_path: Path) -> None:
    example = names_of("wages.py")
    model, (theta, error) = example["fitted"](30.0, bits=SeededBits(1)), example["in_the_clear"]()
    # Huber's estimate and that of least squares differ by a part of their sampling errors.
    assert np.abs(model.coef_ - theta[1:]).max() < 3 * error[1:].max()
    figure = example["picture"](model, (theta, error), tmp_path / "wages.svg")
    (axes,) = figure.axes
    shown = [np.asarray(line.get_xdata()) for line in axes.lines]
    assert any(np.array_equal(line, model.coef_) for line in shown)
    assert any(np.array_equal(line, theta[1:]) for line in shown)


def test_the_last_step_alone_covers_too_seldom() -> None:
    example = names_of("last_step.py")
    drawn = np.random.default_rng(11)
    # NumPy's seeded generator: the same shares in every run.
    none, last, every = np.mean([example["one_fit"](500, drawn) for _ in range(60)], axis=0)
    assert none < last < 0.92 < every < 0.99


def test_the_errors_of_descent_are_those_of_many_runs() -> None:
    example = names_of("last_step.py")
    drawn = np.random.default_rng(2)
    x, y = example["people"](400, drawn)
    noise, step, steps = 0.1, example["STEP"], example["STEPS"]
    huber = example["HUBER"]
    ends = np.zeros((800, 4))
    for _ in range(steps):
        residuals = np.clip(y - ends @ x.T, -huber, huber)
        ends = ends + step * (residuals @ x / len(y) + noise * drawn.normal(size=ends.shape))
    none, _, every = example["errors"](x, y, ends.mean(axis=0), noise)
    privacy = np.sqrt(every**2 - none**2)
    assert np.abs(ends.std(axis=0) / privacy - 1).max() < 0.15


@pytest.mark.long
def test_coverage_of_a_few_fits(tmp_path: Path) -> None:
    example = names_of("coverage.py")
    drawn, bits = np.random.default_rng(4), SeededBits(4)
    found = {
        model: [example["one_fit"](500, model, drawn, bits=bits) for _ in example["SIZES"]]
        for model in ("linear", "logistic")
    }
    for line in found.values():
        assert all(each.both >= each.sampling for each in line)
        assert np.mean([each.both for each in line]) > 0.6
    figure = example["picture"](found, tmp_path / "coverage.svg")
    for axes, line in zip(figure.axes, found.values(), strict=True):
        shown = [list(drawn_line.get_ydata()) for drawn_line in axes.lines]
        assert [each.both for each in line] in shown
        assert [each.sampling for each in line] in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coverage.py", "last_step.py"])
def test_they_run_whole(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "whole.svg"
    lines = lines_of(name, "--fits", "3", "--picture", str(picture))
    assert lines[-1] == f"drawn: {picture}"
    assert drawn_to(picture)


@pytest.mark.slow
def test_newton_steps_end_nearer_than_descent(tmp_path: Path) -> None:
    picture = tmp_path / "iterates.svg"
    lines = lines_of("iterates.py", "--picture", str(picture))
    descent, newton = (float(line.split(" are ")[1].split()[0]) for line in lines[:2])
    assert newton < descent
    assert drawn_to(picture)
    example = names_of("iterates.py")
    x, y = example["people"]()
    best = example["minimum"](x, y)
    assert np.linalg.norm(example["gradient"](x, y, best)) < 1e-12
    step = 1e-6 * np.array([1.0, 2.0])
    turned = (example["gradient"](x, y, best + step) - example["gradient"](x, y, best)) / 1e-6
    assert np.allclose(turned, example["curvature"](x, best) @ [1.0, 2.0], rtol=1e-4)


@pytest.mark.slow
def test_delays_of_flights_grow_over_the_day(tmp_path: Path) -> None:
    picture = tmp_path / "flights.svg"
    lines = lines_of("flight_delays.py", "--picture", str(picture))
    assert lines[0] == "LinearRegression"
    assert drawn_to(picture)
    (hour,) = [line for line in lines if line.startswith("an hour later in the day")]
    private, clear = (
        float(part.split()[0]) for part in (hour.split(": ")[1], hour.split("noise ")[1])
    )
    assert private == pytest.approx(clear, abs=0.1)  # nine deviations of the noise
    assert clear > 0.5
