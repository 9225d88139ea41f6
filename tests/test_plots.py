"""Pictures show the values that they were given, and name values that do not fit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacet import plots
from tacet.attacks import Attack
from tacet.errors import InvalidParameter

GRID = np.linspace(0, 1, 5)


def shown(axes: Any) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]


def test_tradeoff_curves_and_what_was_audited() -> None:
    axes = plots.tradeoff({"mu": (GRID, (1 - GRID) ** 2)}, audited=([0.1], [0.3]))
    assert (list(GRID), list((1 - GRID) ** 2)) in shown(axes)
    assert ([0.1], [0.3]) in shown(axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mu", "audited"]


def test_profiles_have_their_bands() -> None:
    lower, upper = np.array([0.1, 0.01]), np.array([0.2, 0.02])
    axes = plots.profile({"one": ([0.0, 1.0], lower, upper)})
    assert ([0.0, 1.0], list(upper)) in shown(axes)
    corners = {tuple(place) for place in axes.collections[0].get_paths()[0].vertices.tolist()}
    assert {(0.0, 0.1), (1.0, 0.01), (0.0, 0.2), (1.0, 0.02)} <= corners


def test_losses_ratios_budgets_and_coverage() -> None:
    assert ([-1.0, 1.0], [0.3, 0.7]) in shown(plots.weights_of_loss([-1, 1], [0.3, 0.7]))
    assert ([0.1, 0.2], [1.1, 1.5]) in shown(plots.amplification([0.1, 0.2], {"a": [1.1, 1.5]}))
    spent = plots.budget([1, 2, 3], [0.1, 0.3, 0.4], limit=2.0)
    assert ([1, 2, 3], [0.1, 0.3, 0.4]) in shown(spent)
    assert spent.get_ylim()[1] > 2
    assert ([10.0, 100.0], [0.9, 0.95]) in shown(plots.coverage([10, 100], {"a": [0.9, 0.95]}))


def test_errors_of_a_release() -> None:
    axes = plots.errors(["a", "b"], [3.0, 5.0], [1.0, 0.5])
    (bars,) = axes.collections
    ends = sorted(tuple(segment[:, 0]) for segment in bars.get_segments())
    assert ends == [(2.0, 4.0), (4.5, 5.5)]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]


def test_an_attack_on_log_axes(tmp_path: Path) -> None:
    attack = Attack(scores=np.arange(8.0), truth=np.arange(8) % 2 == 1)
    axes = plots.roc({"attack": attack.roc()}, least=0.01)
    alarms, hits = attack.roc()
    assert (list(np.maximum(alarms, 0.01)), list(np.maximum(hits, 0.01))) in shown(axes)
    axes.figure.savefig(tmp_path / "roc.svg")
    assert (tmp_path / "roc.svg").stat().st_size > 1000


def test_given_axes_are_drawn_on() -> None:
    axes = plots.coverage([10, 100], {"a": [0.9, 0.95]})
    assert plots.coverage([10, 100], {"b": [0.8, 0.85]}, axes=axes) is axes
    assert len(axes.get_legend().get_texts()) == 2


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: plots.tradeoff({"mu": (GRID, GRID[:2])}), "mu"),
        (lambda: plots.profile({"one": ([0.0], [0.0, 1.0], [0.0])}), "one"),
        (lambda: plots.weights_of_loss([], []), "masses"),
        (lambda: plots.budget([1], [0.1, 0.2], limit=1), "spent"),
        (lambda: plots.errors(["a"], [1.0, 2.0], [1.0, 2.0]), "names"),
        (lambda: plots.roc({"attack": ([[0.0]], [[1.0]])}), "attack"),
    ],
    ids=["tradeoff", "profile", "loss", "budget", "errors", "roc"],
)
def test_values_that_do_not_fit_are_named(draw: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        draw()
