"""Private training with noise correlated over steps: samples, noise, plans, checkpoints."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

torch: Any = pytest.importorskip("torch")

from unacorda import AddRemove, ApproxDP, ReplaceOne, SeededBits, ZeroOut, accounting, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.noise.banded import Banded  # noqa: E402
from unacorda.learning.noise.correlated import CorrelatedNoise  # noqa: E402
from unacorda.learning.noise.keys import NoiseKey  # noqa: E402
from unacorda.learning.sampling import Batches, CyclicSampling  # noqa: E402

BUDGET = ApproxDP(8, 1e-5)
KEY = NoiseKey(bytes(range(32)), secure=False)


def training(**options: Any) -> Any:
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3).double()
    settings: dict[str, Any] = {
        "budget": BUDGET,
        "units": 200,
        "batch_size": 10,
        "steps": 12,
        "clip": 1.0,
        "noise": Banded(bands=4),
        "bits": SeededBits(1),
    } | options
    rows = torch.zeros(200, 4, dtype=torch.float64), torch.zeros(200, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return learning.PrivateTraining(model, optimizer, rows, **settings)


def run(private: Any, *, steps: int | None = None) -> Any:
    """The weights after some steps whose sums are 0: noise alone moves them."""
    for x, _ in private:
        private.step(0 * private.model(x).sum(1))
        if private.steps_done == steps:
            break
    return torch.cat([p.detach().reshape(-1) for p in private.model.parameters()])


def test_released_sums_have_the_noise_of_the_matrix_mechanism() -> None:
    private = training()
    start = torch.cat([p.detach().reshape(-1) for p in private.model.parameters()])
    moved = (start - run(private)).numpy() * private.plan.batch_size
    noise = CorrelatedNoise(
        Banded(bands=4), scale=private.plan.noise, key=NoiseKey.drawn(SeededBits(1)), steps=12
    )
    total = np.zeros(15)
    for step in range(12):
        parts = [np.zeros(12), np.zeros(3)]
        noise.add(parts, attempt=0, step=step)
        total += np.concatenate(parts)
    assert moved == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("neighbors", [AddRemove, ZeroOut], ids=repr)
def test_the_plan_keeps_its_budget(neighbors: Any) -> None:
    plan = training(neighbors=neighbors).plan
    assert plan.sampling == CyclicSampling(bands=4)
    found = accounting.epsilon(plan.event, delta=1e-5, neighbors=neighbors)
    assert 0.99 * 8 < found <= 8
    assert plan.event.rate == CyclicSampling(bands=4).rate(plan.batches)
    assert plan.event.event.separation == 4


def test_units_are_drawn_as_the_event_says() -> None:
    of, scheme = Batches(units=300, batch_size=25, steps=400), CyclicSampling(bands=4)
    scheme.check(of, ZeroOut)
    draw = scheme.draws(300, of, lambda step: KEY.stream(1, step))
    taken = np.zeros((400, 300), dtype=bool)
    for step in range(400):
        taken[step, draw(step)] = True
    counts = taken.reshape(100, 4, 300).sum(axis=0)
    groups = counts.argmax(axis=0)
    assert (counts > 0).sum(axis=0).tolist() == [1] * 300  # one group, with probability 1 - 1e-15
    # 300 tests of 100 coins and 4 of groups: one falls below 1e-8 with a chance of 3e-6.
    rate = float(scheme.rate(of))
    assert rate == pytest.approx(1 / 3)
    assert min(binomtest(int(c), 100, rate).pvalue for c in counts.max(axis=0)) > 1e-8
    assert min(binomtest(int(c), 300, 0.25).pvalue for c in np.bincount(groups)) > 1e-8


def test_auto_takes_the_least_predicted_error_and_shows_the_table() -> None:
    plan = training(noise="auto", steps=60, epochs=None).plan
    errors = {choice.bands: choice.error for choice in plan.comparison}
    assert set(errors) == {1, 2, 4, 8, 16}
    best = min(errors, key=lambda bands: errors[bands])
    assert best > 1
    assert plan.sampling == CyclicSampling(bands=best)
    assert str(plan).count("of independent noise's in prefix sums") == 5
    alone = training(noise="auto", steps=1).plan
    assert alone.sampling == learning.PoissonSampling()


@pytest.mark.long
def test_a_run_that_goes_on_from_a_checkpoint_has_the_noise_of_one_that_never_stopped(
    tmp_path: Path,
) -> None:
    whole = run(training())
    path = tmp_path / "run"
    first = training(checkpoint=path, spare=0)
    run(first, steps=5)
    first.save()
    first.close()
    second = training(checkpoint=path, spare=0, resume=True)
    assert torch.equal(run(second), whole)
    assert second.steps_done == 12


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "another sampling": ({"sampling": learning.PoissonSampling()}, "sampling"),
    "no noise": ({"noise": 4}, "noise"),
    "more groups than batches": ({"noise": Banded(bands=21)}, "20 bands"),
    "replaced units": ({"neighbors": ReplaceOne}, "neighbors"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case: str) -> None:
    changed, name = BAD[case]
    with pytest.raises(InvalidParameter, match=name):
        training(**changed)


def test_canaries_need_the_coins_of_poisson_samples() -> None:
    canaries = learning.scattered(torch.nn.Linear(4, 3), count=3, bits=SeededBits(1))
    with pytest.raises(InvalidParameter, match="sampling"):
        training(canaries=canaries)
