"""Private training on data in order: price by brute force, batches, noise, sums, checkpoints."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

torch: Any = pytest.importorskip("torch")

from unacorda import (  # noqa: E402
    GDP,
    AddRemove,
    ApproxDP,
    ReplaceOne,
    SeededBits,
    ZeroOut,
    accounting,
    learning,
)
from unacorda.accounting.matrices import squared_sensitivity  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.noise.banded import Banded  # noqa: E402
from unacorda.learning.noise.buffered import Buffered  # noqa: E402
from unacorda.learning.noise.comparison import compare_bands  # noqa: E402
from unacorda.learning.noise.correlated import CorrelatedNoise  # noqa: E402
from unacorda.learning.noise.gaussian import add_gaussian_to_array  # noqa: E402
from unacorda.learning.noise.keys import NoiseKey  # noqa: E402
from unacorda.learning.ordered_batches import OrderedBatches  # noqa: E402
from unacorda.learning.sampling import Batches  # noqa: E402
from unacorda.privacy.events import Gaussian  # noqa: E402

BUDGET = ApproxDP(8, 1e-5)
KEY = NoiseKey.drawn(SeededBits(1))  # as of the trainings here
Floats = NDArray[np.float64]


def training(x: Any = None, **options: Any) -> Any:
    """A training of 23 units in batches of 5: epochs of 5 steps, the last of 3 units."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3, bias=False).double()
    settings: dict[str, Any] = {
        "budget": BUDGET,
        "neighbors": ZeroOut,
        "batch_size": 5,
        "epochs": 3,
        "spare": 0,
        "clip": 1.0,
        "sampling": OrderedBatches(),
        "noise": Banded(bands=3),
        "bits": SeededBits(1),
    } | options
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    rows = torch.zeros(23, 4, dtype=torch.float64) if x is None else x
    return learning.PrivateTraining(model, optimizer, (rows, torch.arange(len(rows))), **settings)


def released(private: Any, *, steps: int | None = None) -> Floats:
    """The noisy sums of the steps, a row for each; the gradient of a row x is its outer product."""
    found, before = [], private.model.weight.detach().clone()
    for x, _ in private:
        private.step(private.model(x).sum(1))
        now = private.model.weight.detach().clone()
        if private._current is None:  # the last batch of its step
            found.append(((before - now) * private.plan.batch_size).reshape(-1).numpy())
            before = now
        if private.steps_done == steps:
            break
    return np.array(found)


# The price


def encoder(noise: Banded | Buffered, steps: int) -> Floats:
    """C, from the binomial formula or the sums of powers."""
    if isinstance(noise, Banded):
        column = [math.comb(2 * k, k) / 4**k if k < noise.bands else 0.0 for k in range(steps)]
    else:
        terms = list(zip(noise.weights, noise.decays, strict=True))
        column = [1.0, *(sum(w * d**k for w, d in terms) for k in range(steps - 1))]
    return np.array([[column[i - j] if i >= j else 0 for j in range(steps)] for i in range(steps)])


def farthest_move(matrix: Floats, *, participations: int, separation: int) -> float:
    """The largest norm of a sum of columns over all patterns; no entry of C^T C is negative."""
    steps, most = len(matrix), 0.0
    for count in range(1, participations + 1):
        for pattern in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                most = max(most, float(np.linalg.norm(matrix[:, pattern].sum(axis=1))))
    return most


FIXED = Buffered(buffers=2, decays=(0.75, 0.25), weights=(0.25, 0.5))
CASES: list[tuple[Banded | Buffered, int, int]] = [
    *(
        (Banded(bands=bands), steps, separation)
        for bands, steps, separation in [
            (1, 12, 4),
            (3, 12, 4),
            (4, 12, 4),
            (3, 11, 5),
            (7, 12, 4),
            (12, 12, 3),
            (6, 9, 9),
            (2, 6, 1),
        ]
    ),
    (FIXED, 12, 4),
    (FIXED, 6, 1),
    (Buffered(buffers=1), 11, 3),
    (Buffered(), 12, 4),
    (Buffered(), 9, 9),
]


@pytest.mark.parametrize(("noise", "steps", "separation"), CASES, ids=repr)
def test_the_price_is_that_of_the_worst_pattern(
    noise: Banded | Buffered, steps: int, separation: int
) -> None:
    of = Batches(units=2 * separation, batch_size=2, steps=steps)
    scheme, turns = OrderedBatches(noise=noise).fitted(of), -(-steps // separation)
    one = event_of(scheme, of, noise=1.7)
    matrix = encoder(scheme.noise, steps)
    move = farthest_move(matrix, participations=turns, separation=separation)
    assert math.sqrt(squared_sensitivity(one)) == pytest.approx(move, rel=1e-7)
    for neighbors, mu in ((ZeroOut, move / 1.7), (ReplaceOne, 2 * move / 1.7)):
        for epsilon in (0.5, 3.0):
            exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
            found = accounting.delta(one, epsilon=epsilon, neighbors=neighbors)
            assert found == pytest.approx(exact, rel=1e-5)


def event_of(scheme: OrderedBatches, of: Batches, *, noise: float) -> Any:
    scheme.check(of, ZeroOut)
    own = Gaussian(noise_multiplier=noise)
    return scheme.event(own, own, of)


@pytest.mark.parametrize("budget", [BUDGET, GDP(1)], ids=repr)
@pytest.mark.parametrize("noise", [Banded(bands=1), Banded(bands=4), Buffered()], ids=repr)
def test_the_plan_keeps_its_budget_and_replacement_costs_twice_the_noise(
    budget: Any, noise: Any
) -> None:
    plan, other = (
        training(neighbors=relation, noise=noise, budget=budget).plan
        for relation in (ZeroOut, ReplaceOne)
    )
    assert other.noise_multiplier == pytest.approx(2 * plan.noise_multiplier, rel=1e-3)
    for one in (plan, other):
        if isinstance(budget, ApproxDP):
            epsilon = accounting.epsilon(one.event, delta=1e-5, neighbors=one.neighbors)
            assert 0.99 * 8 < epsilon <= 8
    if budget == GDP(1):
        moved = encoder(plan.sampling.noise, 15)[:, ::5].sum(axis=1)
        assert plan.noise_multiplier == pytest.approx(np.linalg.norm(moved), rel=1e-3)


def test_noise_is_compared_without_samples() -> None:
    plan = training(noise="auto", epochs=8).plan
    for choice in plan.comparison:
        moves, errors = [], []
        for noise in (choice.noise, Banded(bands=1)):
            matrix = encoder(noise, 40)
            moves.append(np.linalg.norm(matrix[:, ::5].sum(axis=1)))
            sums = np.tril(np.ones((40, 40))) @ np.linalg.inv(matrix)
            errors.append(math.sqrt((sums**2).sum(axis=1).mean()))
        expected = moves[0] * errors[0] / (moves[1] * errors[1])
        assert choice.error == pytest.approx(expected, rel=1e-3)
    assert [choice.bands for choice in plan.comparison] == [1, 2, 4, 8, 16, 32, None, None]
    best = min(plan.comparison, key=lambda choice: choice.error)
    assert plan.sampling == OrderedBatches(noise=best.noise)
    assert best.error < 0.6
    assert "in prefix sums with buffers=1, multiplier" in str(plan)
    alone = training(noise="auto", epochs=None, steps=1).plan
    assert alone.sampling == OrderedBatches()
    with pytest.raises(InvalidParameter, match="rate= or separation="):
        compare_bands(BUDGET, rate=0.1, separation=3, steps=10)


# Batches


def taken(scheme: Any, of: Batches) -> NDArray[np.bool_]:
    """[step, unit]: who takes part."""
    draw = scheme.draws(of.units, of, lambda step: KEY.stream(1, step))
    found = np.zeros((of.steps, of.units), dtype=bool)
    for step in range(of.steps):
        found[step, draw(step)] = True
    return found


def least_gap(members: NDArray[np.bool_]) -> int:
    """The least number of steps from one use of a unit to its next."""
    return min(int(np.diff(np.flatnonzero(own)).min()) for own in members.T)


class Reshuffled(OrderedBatches):
    """A planted fault: each epoch has an order of its own."""

    def draws(self, population: int, of: Batches, bits: Any) -> Any:
        block = OrderedBatches.draws(self, population, of, bits)
        blocks = int(self.epoch(of.units, of.batch_size))

        def drawn(step: int) -> Any:
            order = np.argsort(bits(-1 - step // blocks).words(population), kind="stable")
            return np.sort(order[block(step)])

        return drawn


@pytest.mark.parametrize(("units", "batch_size"), [(23, 5), (20, 5), (7, 7), (6, 1), (9, 5)])
def test_units_take_part_once_an_epoch_as_the_event_says(units: int, batch_size: int) -> None:
    blocks = -(-units // batch_size)
    of = Batches(units=units, batch_size=batch_size, steps=4 * blocks)
    members = taken(OrderedBatches(), of)
    event = event_of(OrderedBatches(), of, noise=1.0)
    assert (event.participations, event.separation) == (4, blocks)
    assert (members.reshape(4, blocks, units).sum(axis=1) == 1).all()
    assert least_gap(members) == blocks
    assert members[0].nonzero()[0].tolist() == list(range(min(batch_size, units)))
    assert members.sum(axis=1).max() <= batch_size
    if blocks > 2:
        assert least_gap(taken(Reshuffled(), of)) < blocks


def test_steps_are_whole_epochs_and_the_plan_shows_it() -> None:
    plan = training().plan
    assert (plan.units, plan.steps, plan.epochs) == (23, 15, 3.0)
    assert "5, by OrderedBatches(noise=Banded(bands=3))" in str(plan)
    assert plan.conditions[-1].startswith("places of units are public")
    assert plan.to_dict()["conditions"][-1] == plan.conditions[-1]


def steps_seen(private: Any) -> list[list[int]]:
    """The labels of each step's rows, without filling; of steps that are not taken, none."""
    found: list[list[int]] = [[] for _ in range(private.plan.steps)]
    for x, y in private:
        found[private._current.number] += y[private._current.pending > 0].tolist()
        private.step(private.model(x).sum(1))
    return [sorted(labels) for labels in found]


def test_batches_are_rows_in_order_or_units_by_id() -> None:
    epoch = [list(range(start, min(start + 5, 23))) for start in range(0, 23, 5)]
    assert steps_seen(training()) == 3 * epoch
    x = torch.zeros(6, 4, dtype=torch.float64)
    private = training(x, unit=[9, 9, 1, 1, 5, 5], rows=2, batch_size=1, epochs=1)
    assert steps_seen(private) == [[2, 3], [4, 5], [0, 1]]


# Sums and noise


NOISES = [Banded(bands=1), Banded(bands=4), Banded(bands=9), Buffered(buffers=1), FIXED]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_released_noise_is_that_of_the_matrix_mechanism(noise: Any) -> None:
    private = training(noise=noise)
    found = released(private)
    own = private.plan.sampling.noise
    alone = CorrelatedNoise(own, scale=private.plan.noise, key=KEY, steps=15)
    white = np.zeros((15, 12))
    for step in range(15):
        row = np.zeros(12)
        alone.add([row], attempt=0, step=step)
        assert found[step] == pytest.approx(row, rel=1e-9, abs=1e-9)
        add_gaussian_to_array(white[step], scale=private.plan.noise, key=KEY, labels=(0, step, 0))
    # C times it is independent noise, up to the roundings to the grid.
    grid = 2.0**-12 * private.plan.noise
    assert np.abs(encoder(own, 15) @ found - white).max() < 4 * grid
    assert np.abs(encoder(Banded(bands=3), 15) @ found - white).max() > 100 * grid


def move_of(unit: int, **options: Any) -> tuple[float, float]:
    """How far a unit of large gradients moves C times all that is released; the event's bound."""
    x = torch.zeros(23, 4, dtype=torch.float64)
    nothing = released(training(x, **options))
    x = x.clone()
    x[unit] = 1e6
    private = training(x, **options)
    difference = released(private) - nothing
    bound = math.sqrt(squared_sensitivity(private.plan.event)) * private.plan.sensitivity
    # A grid step of each number moves with the sums.
    matrix = encoder(private.plan.sampling.noise, len(nothing))
    slack = private.plan.noise * 2.0**-12 * math.sqrt(difference.size) * np.linalg.norm(matrix, 2)
    return float(np.linalg.norm(matrix @ difference)), bound + float(slack)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_no_unit_moves_what_is_released_farther_than_the_event_states(noise: Any) -> None:
    for unit in (0, 5, 22):
        move, bound = move_of(unit, noise=noise)
        assert move <= bound
        if unit == 0:  # the first units take the farthest move
            assert move > 0.99 * bound - 0.05


def test_an_order_of_each_epoch_moves_more_than_the_event_states() -> None:
    # The least gap falls from 5 to 1 for some unit, whose columns of 4 bands then overlap.
    scheme = Reshuffled(noise=Banded(bands=4))
    members = taken(scheme, Batches(units=23, batch_size=5, steps=15))
    unit = min(range(23), key=lambda one: least_gap(members[:, [one]]))
    move, bound = move_of(unit, sampling=scheme, noise=None)
    assert move > 1.05 * bound


def test_the_sum_of_a_smaller_last_batch_is_divided_by_the_batch_size() -> None:
    x = torch.zeros(23, 4, dtype=torch.float64)
    x[20:, 0] = 0.01  # three units of the last batch, not clipped
    private = training(x, epochs=1)
    found = released(private) - released(training(epochs=1))
    grid = private.plan.noise * 2.0**-12
    assert np.abs(found[:4]).max() <= grid
    assert found[4].reshape(3, 4)[:, 0] == pytest.approx(0.03, abs=grid)


# Going on


@pytest.mark.parametrize("noise", [Banded(bands=3), Buffered()], ids=repr)
def test_a_run_that_goes_on_from_a_checkpoint_has_the_noise_of_one_that_never_stopped(
    tmp_path: Path, noise: Any
) -> None:
    whole = training(noise=noise)
    released(whole)
    first = training(checkpoint=tmp_path / "run", noise=noise)
    released(first, steps=7)
    first.save()
    first.close()
    second = training(checkpoint=tmp_path / "run", resume=True, noise=noise)
    released(second)
    assert torch.equal(second.model.weight, whole.model.weight)
    assert second.steps_done == 15


def test_a_step_that_a_crash_cut_off_is_left_out_and_its_units_wait_for_the_next_epoch(
    tmp_path: Path,
) -> None:
    first = training(checkpoint=tmp_path / "run", spare=1)
    released(first, steps=2)
    first.save()
    next(iter(first))  # begun, and cut off
    first.close()
    second = training(checkpoint=tmp_path / "run", spare=1, resume=True)
    taken_again = [bool(labels) for labels in steps_seen(second)]
    assert taken_again == [False] * 3 + [True] * 13
    assert second.plan.event.steps == 16
    assert (second.steps_done, second.steps_begun) == (15, 16)


# What is refused


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "added and removed units": ({"neighbors": AddRemove}, "moves all later ones"),
    "the same with a number": ({"neighbors": AddRemove, "units": 23}, "moves all later ones"),
    "another number of units": ({"units": 24}, "units"),
    "more bands than steps": ({"noise": Banded(bands=16)}, "at most 15"),
    "noise in two places": ({"sampling": OrderedBatches(noise=Banded(bands=2))}, "sampling"),
    "buffers with samples": ({"sampling": None, "noise": Buffered()}, "OrderedBatches"),
    "a batch beyond all": ({"batch_size": 24}, "batch_size"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case: str) -> None:
    changed, name = BAD[case]
    with pytest.raises(InvalidParameter, match=name):
        training(**changed)
