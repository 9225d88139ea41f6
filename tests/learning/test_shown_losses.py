"""Losses that a training shows: what a unit moves, what they come to, what they cost."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from torch import nn  # noqa: E402

from unacorda import ApproxDP, SeededBits, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.clipping.sums import ClippedSums  # noqa: E402
from unacorda.learning.shown_losses import LOSS  # noqa: E402

HOSTILE = (-math.inf, -1e30, -1.0, 0.0, 1e-9, 2.0, 4.0, 1e30, math.inf, math.nan)


@pytest.mark.parametrize("spent", [1e-3, 0.02, 0.5, 0.99])
@pytest.mark.parametrize("norm", [1e-9, 0.3, 7.0])
def test_no_unit_moves_gradient_and_loss_by_more_than_stated(spent: float, norm: float) -> None:
    shown = learning.ShownLosses(largest=4.0, spent=spent)
    moved = [
        math.hypot(norm, float(shown.summed(torch.tensor([[a, b]]), torch.tensor([w]), norm=norm)))
        for a in HOSTILE
        for b in HOSTILE
        for w in ([1.0, 0.0], [0.5, 0.5], [0.0, 1.0])
    ]
    assert max(moved) <= shown.stretched(norm) < max(moved) * (1 + 1e-12)


@pytest.mark.parametrize("bound", [0.5, learning.FollowedQuantile(norm=0.5, spent=0.1)])
def test_a_unit_more_moves_all_that_a_step_releases_by_its_sensitivity_at_most(bound: Any) -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    clipped = ClippedSums(model, bound=bound, shown=learning.ShownLosses(largest=4.0, spent=0.1))
    rows = 5 * torch.randn(7, 3)

    def released(some: Any) -> Any:
        found = clipped.sums(model(some).square().sum(1))
        return torch.cat([each.flatten() for each in found.values()])

    for without in range(7):
        moved = released(rows) - released(rows[[k for k in range(7) if k != without]])
        assert 0.5 < float(moved.norm()) <= clipped.sensitivity


def test_rows_that_fill_a_batch_up_have_no_loss_and_units_have_their_mean() -> None:
    shown = learning.ShownLosses(largest=4.0)
    model = nn.Linear(1, 1)
    clipped = ClippedSums(model, bound=1.0, shown=shown)

    def share(losses: list[float], weights: list[float], rows_per_unit: int = 1) -> float:
        given = torch.tensor(losses) + 0 * model(torch.zeros(len(losses), 1)).squeeze(1)
        found = clipped.sums(given, torch.tensor(weights), rows_per_unit=rows_per_unit)[LOSS]
        return 4 * float(found) / shown._weight(1.0)  # of losses, less 2 for each unit

    assert share([1.0, 3.5, math.nan], [1.0, 1.0, 0.0]) == pytest.approx(0.5)
    assert share([1.0, 2.0, 9.0, 7.0, 0.0, 0.0], [0.5, 0.5, 1.0, 0.0, 0.0, 0.0], 2) == (
        pytest.approx(-0.5 + 2.0)
    )
    assert share([1.0, math.nan], [1.0, 1.0]) == pytest.approx(-1.0 + 2.0)


def run(losses: Any = None, *, clip: Any = 1.0, stop: int = 99, **more: Any) -> Any:
    """A training of 12 steps whose losses are 0, 1, 2 and 3, in equal shares."""
    rows = torch.arange(400).remainder(4)[:, None].float(), torch.zeros(400, 1)
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.0)
    private = learning.PrivateTraining(
        model, torch.optim.SGD(model.parameters(), lr=0.0), rows, budget=ApproxDP(8, 1e-5),
        units=400, batch_size=100, steps=12, clip=clip, losses=losses, spare=0, bits=SeededBits(1),
        **more,
    )  # fmt: skip
    for x, _ in private:
        private.step(x.squeeze(1) + model(x).squeeze(1))
        if private.steps_done == stop and private._current is None:
            private.save()
            break
    private.close()
    return private


@pytest.mark.statistical
@pytest.mark.parametrize(
    "more",
    [{}, {"noise": learning.Banded(bands=2)}, {"clip": learning.FollowedQuantile(norm=1.0)}],
    ids=["alone", "banded", "followed"],
)
def test_the_mean_loss_of_each_step_is_shown_with_the_stated_error(more: Any) -> None:
    shown = learning.ShownLosses(largest=4.0, spent=0.2)
    found = run(shown, **more)
    stated = shown.error(noise_multiplier=found.plan.noise_multiplier, batch_size=100)
    # A sampled step has 100 units but for a deviation of 10: s of a unit is -.5, -.25, 0 or .25.
    spread = math.hypot(stated, 4 * math.sqrt(100 * 0.094) / 100)
    off = np.array(found.shown_losses) - 1.5
    assert len(off) == 12
    # Twelve normals: one beyond 4.5 deviations has a chance below 1e-4.
    assert np.abs(off).max() < 4.5 * spread
    assert "off by" in str(found.plan)


def test_losses_cost_gradients_their_share_and_nothing_else(tmp_path: Any) -> None:
    plain, told = run(), run(learning.ShownLosses(largest=4.0, spent=0.19))
    assert plain.shown_losses == []
    assert told.plan.event == plain.plan.event
    assert told.plan.noise == pytest.approx(plain.plan.noise / 0.9, rel=1e-9)
    assert "largest=4.0" in told.record().to_dict()["plan"]["losses"]
    half = run(learning.ShownLosses(largest=4.0), checkpoint=tmp_path / "a", stop=5)
    again = run(learning.ShownLosses(largest=4.0), checkpoint=tmp_path / "a", resume=True)
    assert again.shown_losses[:5] == half.shown_losses
    assert len(again.shown_losses) == 12
    model = nn.Linear(1, 1, bias=False)
    canaries = learning.dirac(model, count=1, norm=1.0, bits=SeededBits(2))
    assert len(run(learning.ShownLosses(largest=4.0), canaries=canaries).shown_losses) == 12


@pytest.mark.parametrize("name", ["largest", "spent"])
@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_wrong_numbers_are_refused_by_name(name: str, wrong: float) -> None:
    with pytest.raises(InvalidParameter, match=name):
        learning.ShownLosses(**{"largest": 1.0} | {name: wrong})
    with pytest.raises(InvalidParameter, match="losses"):
        run(wrong)
