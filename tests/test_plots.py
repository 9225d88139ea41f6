"""Pictures show the values that they were given, and name values that do not fit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from unacorda import plots
from unacorda.attacks import Attack
from unacorda.errors import InvalidParameter

GRID = np.linspace(0, 1, 5)


def shown(axes: Any) -> list[tuple[list[Any], list[Any]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def corners(axes: Any) -> set[tuple[float, float]]:
    """Of all that is filled."""
    paths = [path for found in axes.collections for path in found.get_paths()]
    return {(float(x), float(y)) for path in paths for x, y in path.vertices}


def test_tradeoff_curves_and_what_was_audited() -> None:
    seen = ([0.3, 0.1], [0.2, 0.3])  # in any order
    axes = plots.tradeoff({"mu": (GRID, (1 - GRID) ** 2)}, audited=seen, confidence=0.95)
    assert (list(GRID), list((1 - GRID) ** 2)) in shown(axes)
    assert ([0.1, 0.3], [0.3, 0.2]) in shown(axes)
    assert names(axes) == ["guessing", "mu", "audited (0.95 confidence)", "ruled out by it"]
    assert {(0.1, 0.3), (0.3, 0.3), (0.3, 0.2), (1.0, 0.2), (1.0, 1.0)} <= corners(axes)
    assert (0.1, 0.2) not in corners(axes)  # a step is not cut


def test_profiles_have_their_bands() -> None:
    lower, upper = np.array([0.1, 0.01]), np.array([0.2, 0.02])
    axes = plots.profile({"one": ([0.0, 1.0], lower, upper)})
    assert ([0.0, 1.0], list(upper)) in shown(axes)
    assert {(0.0, 0.1), (1.0, 0.01), (0.0, 0.2), (1.0, 0.02)} <= corners(axes)


def test_losses_with_the_epsilon_of_a_delta() -> None:
    axes = plots.privacy_loss({"remove": ([-1, 1], [0.3, 0.7])}, epsilon=0.8)
    assert ([-1.0, 1.0], [0.3, 0.7]) in shown(axes)
    assert ([0.8, 0.8], [0, 1]) in shown(axes)
    assert names(axes) == ["remove", "epsilon 0.8"]
    assert axes.get_ylim()[0] == 0
    at = plots.privacy_loss({"remove": ([-1, 1], [0.3, 0.7])}, epsilon=0.8, delta=1e-5)
    assert names(at) == ["remove", "epsilon 0.8 at delta 1e-05"]


def test_ratios_of_samples_and_the_line_where_they_are_free() -> None:
    axes = plots.amplification([0.1, 0.2], {"a": [1.1, 1.5], "b": [1, 1]})
    assert ([0.1, 0.2], [1.1, 1.5]) in shown(axes)
    assert ([0, 1], [1, 1]) in shown(axes)
    assert names(axes) == ["in proportion to the rate", "a", "b"]


def test_budgets_over_numbers_and_over_instants() -> None:
    spent = plots.budget([1, 2, 3], {"rho": [0.1, 0.3, 0.4]}, limit=2.0)
    assert ([1, 2, 3], [0.1, 0.3, 0.4]) in shown(spent)
    assert ([0, 1], [2.0, 2.0]) in shown(spent)
    assert spent.get_ylim()[1] > 2
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 5, 9)]
    axes = plots.budget(days, {"epsilon": [0, 1, 3], "delta": [0, 0, 1e-6]}, limit=2.0)
    assert (days, [0, 1, 3]) in shown(axes)
    assert axes.get_ylim()[1] > 3
    axes.figure.canvas.draw()
    assert axes.get_xticklabels()[-1].get_text() in ("09", "9")


def test_budgets_over_any_length_of_time_are_drawn_without_a_warning() -> None:
    first = dt.datetime(2026, 11, 23, 8, 12, 42, tzinfo=dt.UTC)
    axes = plots.budget([first, first], {"rho": [0, 1]}, limit=2.0)
    places = axes.xaxis.get_major_locator()
    for seconds in (1, 7, 200, 260, 400, 10_800, 15_000, 259_200, 388_800, 129_600_000):
        found = places.tick_values(first, first + dt.timedelta(seconds=seconds))
        assert 3 <= len(found) <= 11


def test_coverage_beside_what_was_promised() -> None:
    axes = plots.coverage([10, 100], {"a": [0.9, 0.95]})
    assert ([10.0, 100.0], [0.9, 0.95]) in shown(axes)
    assert names(axes) == ["promised: 0.95", "a"]
    coin = plots.coverage([10, 100], {"a": [0.9, 0.95]}, nominal=0.5, nominal_name="a coin")
    assert names(coin)[0] == "a coin: 0.5"


@pytest.mark.long
def test_influence_within_its_bounds() -> None:
    grid = np.array([-3.0, 0.0, 3.0])
    curves = {"cut": np.clip(grid, -2, 2), "whole": grid}
    axes = plots.influence(grid, curves, bounds={"cut": 2.0}, xlabel="age")
    assert ([-3.0, 0.0, 3.0], [-2.0, 0.0, 2.0]) in shown(axes)
    assert names(axes) == ["cut", "whole"]
    levels = sorted(line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":")
    assert levels == [-2.0, 2.0]
    assert axes.get_xlabel() == "age"


def test_errors_of_a_release() -> None:
    nan = float("nan")
    axes = plots.errors(["a", "b", "c"], [3, 5, 6], [2, 4.5, nan], [4, 5.5, nan], possible=(0, 9))
    (bars,) = axes.collections
    ends = [tuple(segment[:, 0]) for segment in bars.get_segments()]
    assert ends == [(2.0, 4.0), (4.5, 5.5)]
    assert ([3.0, 5.0, 6.0], [0, 1, 2]) in shown(axes)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert names(axes) == ["known beforehand"]


def test_errors_of_series_share_the_lines_of_their_groups() -> None:
    given: Any = (["a", "a", "b"], [3e4, 5, 6], [2e4, 4.5, 5], [4e4, 5.5, 7])
    axes = plots.errors(*given, series=["x", "y", "x"], bars=True)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert names(axes) == ["x", "y"]
    first, second = axes.containers
    assert [bar.get_width() for bar in first] == [3e4, 6.0]
    places = [bar.get_y() + bar.get_height() / 2 for bar in (*first, *second)]
    assert places[0] < 0 < places[2]
    assert round(places[1] - places[0], 9) == 1
    axes.figure.canvas.draw()
    assert "40,000" in [text.get_text() for text in axes.get_xticklabels()]


def test_errors_over_numbers_and_over_dates() -> None:
    nan = float("nan")
    axes = plots.errors_over([2, 1, 2], [3, 5, 6], [2, 4, nan], [4, 6, nan], series=["x", "x", "y"])
    assert ([2, 1], [3.0, 5.0]) in shown(axes)
    assert ([2], [6.0]) in shown(axes)
    assert names(axes) == ["x", "y"]
    bars = [segment.tolist() for found in axes.collections for segment in found.get_segments()]
    assert bars == [[[2, 2], [2, 4]], [[1, 4], [1, 6]]]
    days = [dt.date(2026, month, 1) for month in (1, 5, 9)]
    dated = plots.errors_over(days, [1e4, 2e4, 3e4], [0, 0, 0], [4e4] * 3)
    dated.figure.canvas.draw()
    assert "40,000" in [text.get_text() for text in dated.get_yticklabels()]
    assert any("Mar" in text.get_text() for text in dated.get_xticklabels())


def test_new_axes_have_a_size_and_a_resolution(tmp_path: Path) -> None:
    axes = plots.new_axes(size=(3, 2), dpi=40)
    assert plots.coverage([10], {"a": [0.9]}, axes=axes) is axes
    axes.figure.savefig(tmp_path / "a.png")
    assert imread(tmp_path / "a.png").shape[:2] == (80, 120)
    for given in ({"size": (0, 1)}, {"dpi": -1.0}):
        with pytest.raises(InvalidParameter, match=f"^{next(iter(given))}="):
            plots.new_axes(**given)


@pytest.mark.parametrize(
    ("axis", "expected"),
    [("x", ["0.001", "0.1", "10", "1,000"]), ("y", ["0.001", "0.1", "10", "1,000"])],
)
def test_rates_on_log_axes_are_plain_numbers(axis: str, expected: list[str]) -> None:
    axes = plots.roc({"a": ([0.001, 1.0], [0.001, 1.0])})
    form = getattr(axes, f"{axis}axis").get_major_formatter()
    assert [form(one, 0) for one in (0.001, 0.1, 10, 1000)] == expected
    assert form(1e-6, 0) == "1e-6"


@pytest.mark.long
def test_an_attack_on_log_axes(tmp_path: Path) -> None:
    attack = Attack(scores=np.arange(8.0), truth=np.arange(8) % 2 == 1)
    axes = plots.roc({"attack": attack.roc()}, least=0.01)
    alarms, hits = attack.roc()
    assert (list(np.maximum(alarms, 0.01)), list(np.maximum(hits, 0.01))) in shown(axes)
    limits = {"promise": ([0.001, 0.5], [0.002, 1.0])}
    limited = plots.roc({"attack": attack.roc()}, limits=limits, least=0.01)
    assert ([0.01, 0.5], [0.01, 1.0]) in shown(limited)
    assert names(limited) == ["chance", "promise", "attack"]
    axes.figure.savefig(tmp_path / "roc.svg")
    assert (tmp_path / "roc.svg").stat().st_size > 1000


def test_errors_over_epsilon_and_what_none_beats() -> None:
    axes = plots.utility([0.1, 1.0], {"a": [0.5, 0.1], "b": [0.4, 0.2]}, least=[0.1, 0.02])
    assert ([0.1, 1.0], [0.5, 0.1]) in shown(axes)
    assert ([0.1, 1.0], [0.1, 0.02]) in shown(axes)
    assert names(axes) == ["a", "b", "no mechanism errs less"]
    assert names(plots.utility([1.0], {"a": [0.5]})) == ["a"]


def test_given_axes_are_drawn_on() -> None:
    axes = plots.coverage([10, 100], {"a": [0.9, 0.95]})
    assert plots.coverage([10, 100], {"b": [0.8, 0.85]}, axes=axes) is axes
    assert [name for name in names(axes) if name in "ab"] == ["a", "b"]


@pytest.mark.parametrize(
    ("draw", "given", "argument"),
    [
        (plots.tradeoff, [(GRID, GRID)], "curves"),
        (plots.tradeoff, [{"mu": GRID}], "curves\\['mu'\\]"),
        (plots.profile, [{"one": (GRID, GRID)}], "curves\\['one'\\]"),
        (plots.privacy_loss, [[(GRID, GRID)]], "laws"),
        (plots.amplification, [[0.1], [1.1]], "ratios"),
        (partial(plots.budget, limit=1), [[1], [0.1]], "spent"),
        (plots.coverage, [[10], [0.9]], "shares"),
        (plots.influence, [[10], [0.9]], "curves"),
        (plots.roc, [([0.1], [0.2])], "curves"),
        (plots.utility, [[0.1], [0.2]], "errors"),
    ],
)
def test_lines_without_names_are_refused(
    draw: Callable[..., Any], given: list[Any], argument: str
) -> None:
    with pytest.raises(InvalidParameter, match=f"^{argument}="):
        draw(*given)


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: plots.tradeoff({"mu": (GRID, GRID[:2])}), "mu"),
        (lambda: plots.profile({"one": ([0.0], [0.0, 1.0], [0.0])}), "one"),
        (lambda: plots.privacy_loss({"add": ([], [])}), "add"),
        (lambda: plots.budget([1], {"rho": [0.1, 0.2]}, limit=1), "rho"),
        (lambda: plots.errors(["a"], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), "names"),
        (lambda: plots.errors(["a"], [1.0], [1.0], [1.0, 2.0]), "upper"),
        (lambda: plots.errors(["a"], [1.0], [1.0], [2.0], series=[]), "series"),
        (lambda: plots.errors_over([1, 2], [1.0], [1.0], [2.0]), "places"),
        (lambda: plots.coverage(["many"], {"a": [1.0]}), "a"),
        (lambda: plots.amplification([0.1], {"a": [[1.0]]}), "a"),
        (lambda: plots.roc({"attack": ([[0.0]], [[1.0]])}), "attack"),
    ],
    ids=[
        "tradeoff",
        "profile",
        "loss",
        "budget",
        "errors",
        "ends",
        "series",
        "places",
        "text",
        "ratios",
        "roc",
    ],
)
def test_values_that_do_not_fit_are_named(draw: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        draw()


def test_new_axes_have_colours_that_all_tell_apart() -> None:
    """Distances in the eyes of people without red or green cones, by the matrices of Viénot."""
    curves = {str(k): (GRID, GRID) for k in range(6)}
    drawn = [line for line in plots.tradeoff(curves).lines if len(line.get_xdata()) == GRID.size]
    colours = [np.array(to_rgb(line.get_color())) ** 2.2 for line in drawn]
    assert len(colours) == 6
    blind = {
        "protan": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
        "deutan": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
        "nobody": np.eye(3),
    }
    for name, seen in blind.items():
        for one, other in itertools.combinations(colours, 2):
            gap = np.linalg.norm(
                np.clip(seen @ one, 0, 1) ** 0.45 - np.clip(seen @ other, 0, 1) ** 0.45
            )
            assert gap > 0.1, name


BAND: dict[str, Any] = {"lower": [0.1, 0.2], "upper": [0.5, 0.8]}


def test_curves_of_classifiers_have_bands() -> None:
    for draw, x, y in (
        (plots.roc_curve, "false_positive_rate", "true_positive_rate"),
        (plots.precision_recall_curve, "recall", "precision"),
        (plots.lift_curve, "share", "lift"),
        (plots.calibration_curve, "score", "observed"),
    ):
        axes = draw({"model": {x: [0.0, 1.0], y: [0.3, 0.6], **BAND}})
        assert ([0.0, 1.0], [0.3, 0.6]) in shown(axes)
        assert {(0.0, 0.1), (1.0, 0.2), (0.0, 0.5), (1.0, 0.8)} <= corners(axes)
        assert "model" in names(axes)


def test_residuals_have_a_band_and_their_spread() -> None:
    frame = {"low": [0, 1], "high": [1, 2], "mean": [0.3, 0.6], "spread": [1.0, 2.0], **BAND}
    axes = plots.residual_plot(frame, xlabel="age")
    assert ([0.5, 1.5], [0.3, 0.6]) in shown(axes)
    assert ([0.5, 1.5], [1.3, 2.6]) in shown(axes)
    assert {(0.5, 0.1), (1.5, 0.2), (0.5, 0.5), (1.5, 0.8)} <= corners(axes)
    assert axes.get_xlabel() == "age"


def test_histograms_and_normal_plots_of_residuals() -> None:
    axes = plots.residual_histogram({"low": [-1, 0], "high": [0, 1], "count": [5, 6], **BAND})
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches] == [
        (-1.0, 1.0, 5.0),
        (0.0, 1.0, 6.0),
    ]
    axes = plots.normal_plot({"residual": [-1.0, 1.0], "normal": [-0.5, np.inf], **BAND})
    assert ([-0.5], [-1.0]) in shown(axes)


def test_importance_is_sorted_and_scores_of_candidates_have_intervals() -> None:
    frame = {"feature": ["a", "b"], "importance": [0.3, 0.6], **BAND}
    axes = plots.importance_plot(frame)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b", "a"]
    axes = plots.validation_plot({"c": ["x", "y"], "score": [0.3, 0.6], **BAND}, parameter="c")
    assert ([0, 1], [0.3, 0.6]) in [([int(x) for x in a], b) for a, b in shown(axes)]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["x", "y"]


def test_answers_over_time_have_a_line_and_a_band_each() -> None:
    days = [dt.date(2025, 1, day) for day in (1, 2, 3)]
    curves = {"a": ([1, 2, 3], [0, 1, 2], [2, 3, 4]), "b": ([4, 4, 4], [3, 3, 3], [5, 5, 5])}
    axes = plots.answers_over_time(days, curves, ylabel="n_total")
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 2, 3], [4, 4, 4]]
    assert len(axes.collections) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(InvalidParameter, match="equal lengths"):
        plots.answers_over_time(days[:2], curves)
