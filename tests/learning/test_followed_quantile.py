"""A bound that follows a quantile of norms: what a unit moves, where it comes to, what it costs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from torch import nn  # noqa: E402

from unacorda import ApproxDP, SeededBits, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.clipping.bounds import COUNT  # noqa: E402
from unacorda.learning.clipping.sums import ClippedSums  # noqa: E402
from unacorda.learning.noise.steps import StepNoise  # noqa: E402


def squares(norms: Any) -> dict[str, Any]:
    """Squared norms of units, of two parameters."""
    each = torch.as_tensor(norms, dtype=torch.float32) ** 2
    return {"a": 0.36 * each, "b": 0.64 * each}


def moved_by(bound: Any, norm: float) -> float:
    """The length of what a unit of this norm adds, gradient and count as one vector."""
    found = squares([norm])
    weight = float(bound.weights(found)["a"])
    length = weight * norm if math.isfinite(norm) else 0.0
    return math.hypot(length, float(bound.counted(found, torch.ones(1))))


@pytest.mark.parametrize("spent", [1e-3, 0.02, 0.5])
@pytest.mark.parametrize("norm", [1e-9, 0.3, 7.0])
def test_no_unit_moves_gradients_and_count_by_more_than_stated(spent: float, norm: float) -> None:
    bound = learning.FollowedQuantile(norm=norm, spent=spent)
    tried = [moved_by(bound, norm * f) for f in (0, 0.5, 0.999, 1, 1.001, 50, math.inf, math.nan)]
    assert max(tried) <= bound.sensitivity
    assert bound.sensitivity < max(tried) * (1 + 1e-3)


def test_rows_that_fill_a_batch_up_are_not_counted() -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    sums = ClippedSums(model, bound=learning.FollowedQuantile(norm=0.5))
    rows = torch.randn(6, 3)

    def count(some: Any, weights: Any = None, rows_per_unit: int = 1) -> float:
        losses = model(some).square().sum(1)
        return float(sums.sums(losses, weights, rows_per_unit=rows_per_unit)[COUNT])

    filled = torch.cat([rows, torch.zeros(4, 3)])
    assert count(filled, torch.tensor([1.0] * 6 + [0.0] * 4)) == count(rows)
    # A unit of two rows, of which one fills it up, is there; one of no row is not.
    halves = torch.tensor([1.0, 0, 1, 0, 0, 0])
    assert count(rows, halves, 2) == count(rows[[0, 2]])
    assert float(sums.no_sums()[COUNT]) == 0
    per_unit = sums.bound.counted(squares([1e-9]), torch.ones(1))
    frozen = torch.ones(4, requires_grad=True) * 2  # losses that depend on no parameter
    assert float(sums.sums(frozen)[COUNT]) == pytest.approx(4 * float(per_unit))


@pytest.mark.parametrize("quantile", [0.2, 0.8])
def test_the_bound_comes_to_the_quantile_of_norms(quantile: float) -> None:
    norms = np.random.default_rng(1).lognormal(0, 1, 4000)
    bound: Any = learning.FollowedQuantile(norm=30.0, quantile=quantile, rate=0.3)
    noise = np.random.default_rng(2)
    for _ in range(150):
        exact = float(bound.counted(squares(norms), torch.ones(len(norms))))
        bound = bound.moved(exact + noise.normal(0, 2 * bound.sensitivity), batch_size=len(norms))
    assert abs(float((norms <= bound.norm).mean()) - quantile) < 0.03


def run(clip: Any, *, checkpoint: Any = None, resume: bool = False, stop: int = 99) -> Any:
    """A training of 12 steps on rows whose gradients are about 20 long."""
    drawn = torch.Generator().manual_seed(1)
    rows = 10 * torch.randn(300, 2, generator=drawn), torch.zeros(300, 1)
    torch.manual_seed(1)
    model = nn.Linear(2, 1)
    private = learning.PrivateTraining(
        model, torch.optim.SGD(model.parameters(), lr=0.0), rows, budget=ApproxDP(8, 1e-5),
        units=300, batch_size=100, steps=12, clip=clip, checkpoint=checkpoint, resume=resume,
        spare=0, bits=SeededBits(1),
    )  # fmt: skip
    for x, y in private:
        private.step((model(x) - y).square().sum(1))
        if private.steps_done == stop and private._current is None:
            private.save()
            break
    private.close()
    return private


def test_noise_has_the_scale_of_the_bound_of_its_step(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, float]] = []
    plain: Any = StepNoise.add

    def noted(self: Any, sums: Any, step: int, *, scale: float) -> Any:
        seen.append((float(sums[COUNT]), scale))
        return plain(self, sums, step, scale=scale)

    with monkeypatch.context() as patch:
        patch.setattr(StepNoise, "add", noted)
        private = run(learning.FollowedQuantile(norm=0.1, rate=0.5))
    scales = [scale for _, scale in seen]
    multiplier, first = private.plan.noise_multiplier, private.plan.sensitivity
    assert scales[0] == pytest.approx(multiplier * first)
    for one, following in itertools.pairwise(scales):
        # Nobody is within the norm: it grows by exp(rate quantile), but for the noise.
        assert one < following <= one * math.exp(0.25) * (1 + 1e-12)
    assert private._clipped.bound.norm > 0.3
    assert private.plan.noise_multiplier == run(1.0).plan.noise_multiplier  # at no further price
    half = run(learning.FollowedQuantile(norm=0.1, rate=0.5), checkpoint=tmp_path / "a", stop=6)
    again = run(
        learning.FollowedQuantile(norm=0.1, rate=0.5), checkpoint=tmp_path / "a", resume=True
    )
    assert half._clipped.bound.norm < again._clipped.bound.norm
    assert again._clipped.bound.norm == pytest.approx(private._clipped.bound.norm, rel=0.3)


@pytest.mark.parametrize("name", ["norm", "quantile", "rate", "spent"])
@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan])
def test_wrong_numbers_are_refused_by_name(name: str, wrong: float) -> None:
    with pytest.raises(InvalidParameter, match=name):
        learning.FollowedQuantile(**{"norm": 1.0} | {name: wrong})
