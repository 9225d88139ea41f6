"""Canaries that are gradients: their directions, their coins, and where they join a loop."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unacorda import SeededBits, audit, learning
from unacorda.errors import InvalidParameter

torch: Any = pytest.importorskip("torch")


def model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


MAKERS = pytest.mark.parametrize("make", [learning.dirac, learning.scattered])


def zeros() -> list[Any]:
    return [torch.zeros_like(each) for each in model().parameters()]


@MAKERS
@pytest.mark.parametrize("count", [1, 7, 37])
def test_directions_are_of_the_length_of_clipping_and_at_right_angles(
    make: Any, count: int
) -> None:
    canaries = make(model(), count=count, norm=3.0, bits=SeededBits(2))
    none = [torch.empty(0, *each.shape, dtype=torch.float64) for each in zeros()]
    rows = canaries.appended_to(none, np.arange(count))
    flat = torch.cat([each.reshape(count, -1) for each in rows], dim=1)
    assert torch.allclose(flat @ flat.T, 9 * torch.eye(count, dtype=torch.float64))


@MAKERS
def test_coins_are_those_of_the_array_helper_under_the_same_bits(make: Any) -> None:
    coins = audit.dirac(30, dimension=37, bits=SeededBits(3)).included
    assert (make(model(), count=30, bits=SeededBits(3)).included == coins).all()
    assert (make(model(), count=30).included != make(model(), count=30).included).any()


@pytest.mark.statistical
def test_coins_and_samples_are_fair() -> None:
    # Each share is off by 5.5 deviations with probability 4e-8; a rate off by a tenth fails.
    big = torch.nn.Linear(40_000, 1, bias=False)
    canaries = learning.dirac(big, count=40_000, bits=SeededBits(4))
    inside = int(canaries.included.sum())
    assert abs(inside - 20_000) < 5.5 * 100
    bits = SeededBits(5)
    assert (canaries.taking_part(bits=bits) == np.flatnonzero(canaries.included)).all()
    steps = [canaries.taking_part(rate=0.3, bits=bits) for _ in range(2)]
    for members in steps:
        assert canaries.included[members].all()
        assert abs(members.size - 0.3 * inside) < 5.5 * math.sqrt(0.21 * inside)
    both = np.intersect1d(steps[0], steps[1]).size
    assert abs(both - 0.09 * inside) < 5.5 * math.sqrt(0.09 * 0.91 * inside)


@MAKERS
def test_the_sum_and_the_rows_say_the_same(make: Any) -> None:
    canaries = make(model(), count=9, bits=SeededBits(6))
    members = np.array([5, 0, 8])
    total = canaries.added_to(zeros(), members)
    rows = canaries.appended_to([torch.ones(2, *each.shape) for each in zeros()], members)
    for one, several in zip(total, rows, strict=True):
        assert several.shape == (5, *one.shape)
        assert torch.allclose(several.sum(dim=0) - 2, one)
    scores = canaries.scored_by_projection(total)
    assert np.allclose(scores, np.isin(np.arange(9), members))


def test_nobody_may_take_part() -> None:
    canaries = learning.dirac(model(), count=9, bits=SeededBits(6))
    total = canaries.added_to(zeros(), [])
    assert all((each == 0).all() for each in total)
    rows = canaries.appended_to([torch.ones(2, *each.shape) for each in zeros()], [])
    assert [len(each) for each in rows] == [2] * 4


def test_only_what_is_trained_is_looked_at_and_types_stay() -> None:
    frozen = model().double()
    frozen[0].requires_grad_(requires_grad=False)
    canaries = learning.dirac(frozen, count=12, bits=SeededBits(1))
    assert canaries.shapes == ((2, 5), (2,))
    with pytest.raises(InvalidParameter, match="count"):
        learning.dirac(frozen, count=13)
    given = [torch.zeros(2, 5, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float64)]
    total = canaries.added_to(given, canaries.taking_part())
    assert [each.dtype for each in total] == [torch.bfloat16, torch.float64]


def test_a_list_of_tensors_is_a_model_too() -> None:
    tensors = [torch.zeros(3, 2), torch.zeros(())]
    canaries = learning.scattered(tensors, count=7, bits=SeededBits(1))
    members = np.arange(7)
    assert [tuple(each.shape) for each in canaries.added_to(tensors, members)] == [(3, 2), ()]
    rows = canaries.appended_to([torch.zeros(1, 3, 2), torch.zeros(1)], members)
    assert [tuple(each.shape) for each in rows] == [(8, 3, 2), (8,)]


def test_movement_is_against_the_start() -> None:
    trained = model()
    start = learning.snapshot(trained)
    canaries = learning.dirac(trained, count=5, bits=SeededBits(1))
    total = canaries.added_to(zeros(), [2, 3])
    with torch.no_grad():
        for parameter, each in zip(trained.parameters(), total, strict=True):
            parameter.sub_(0.25 * each)
    scores = canaries.scored_by_projection(learning.movement(start, trained))
    assert np.allclose(scores, [0, 0, 0.25, 0.25, 0], atol=1e-6)


def test_watching_sees_what_the_optimiser_is_given_and_stops() -> None:
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    seen = learning.watch(optimizer, trained)
    for step in (1.0, 2.0):
        for parameter in trained.parameters():
            parameter.grad = torch.full_like(parameter, step)
        optimizer.step()
    next(trained.parameters()).grad = None
    optimizer.step()
    seen.stop()
    optimizer.step()
    assert seen.steps == 3
    assert [float(each.mean()) for each in seen.total] == [3.0, 5.0, 5.0, 5.0]
    assert not any(each.requires_grad for each in seen.total)


def test_an_optimiser_that_wraps_another_is_watched_inside() -> None:
    trained = model()

    class Wrapping:
        original_optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)

        def step(self) -> None:
            for parameter in trained.parameters():
                parameter.grad = torch.ones_like(parameter)
            self.original_optimizer.step()

    wrapping = Wrapping()
    seen = learning.watch(wrapping, trained)
    wrapping.step()
    assert all((each == 1).all() for each in seen.total)


@pytest.mark.statistical
def test_a_step_whose_gradients_are_yet_to_come_is_refused() -> None:
    trained = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    seen = learning.watch(optimizer, trained)

    def closure() -> Any:
        trained.weight.grad = torch.ones(1, 1)
        return torch.zeros(())

    with pytest.raises(InvalidParameter, match=r"^optimizer='SGD' .* no closure"):
        optimizer.step(closure)
    with pytest.raises(InvalidParameter, match=r"^optimizer='SGD' .* no closure"):
        optimizer.step(closure=closure)
    closure()
    optimizer.step(closure=None)
    assert (seen.steps, seen.total[0].item()) == (1, 1.0)


def test_many_runs_of_one_canary() -> None:
    # mu is 2; the bound exceeds it with probability 1e-7 at most.
    drawn = torch.Generator().manual_seed(7)
    bits, scores, included = SeededBits(7), [], []
    tensors = [torch.zeros(3)]
    for _ in range(2000):
        canary = learning.dirac(tensors, count=1, coordinates=[1], bits=bits)
        noisy = canary.added_to([torch.randn(3, generator=drawn) / 2], canary.taking_part())
        scores.append(canary.scored_by_projection(noisy)[0])
        included.append(canary.included[0])
    found = audit.many_runs(scores, included, delta=1e-5, gaussian=True, confidence=1 - 1e-7)
    assert found.mu is not None
    assert 1 < found.mu <= 2


def test_repr_tells_no_coin() -> None:
    assert repr(learning.dirac(model(), count=5)) == "GradientCanaries(5)"


CANARIES = learning.dirac(model(), count=5, bits=SeededBits(1))
NAN = [torch.full_like(each, math.nan) for each in zeros()]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: learning.dirac(model(), count=0), "count"),
        (lambda: learning.scattered(model(), count=38), "count"),
        (lambda: learning.dirac(model(), count=3, norm=0.0), "norm"),
        (lambda: learning.scattered(model(), count=3, norm=math.inf), "norm"),
        (lambda: learning.dirac(model(), count=2, coordinates=[3, 3]), "coordinates"),
        (lambda: learning.dirac(model(), count=2, coordinates=[0, 37]), "coordinates"),
        (lambda: learning.dirac(model(), count=2, coordinates=[0]), "coordinates"),
        (lambda: learning.dirac(model(), count=2, coordinates=[0.0, 1.0]), "coordinates"),
        (lambda: learning.dirac(3, count=2), "model"),
        (lambda: learning.dirac([], count=2), "model"),
        (lambda: learning.dirac(torch.zeros(3), count=2), "model"),
        (lambda: learning.dirac(model(), count=2, bits=7), "bits"),  # type: ignore[arg-type]
        (lambda: CANARIES.taking_part(bits=7), "bits"),  # type: ignore[arg-type]
        (lambda: CANARIES.taking_part(rate=0.0), "rate"),
        (lambda: CANARIES.taking_part(rate=1.5), "rate"),
        (lambda: CANARIES.added_to(zeros()[:3], [0]), "gradients"),
        (lambda: CANARIES.added_to(torch.zeros(37), [0]), "gradients"),
        (lambda: CANARIES.added_to(zeros(), [5]), "taking_part"),
        (lambda: CANARIES.added_to(zeros(), [1, 1]), "taking_part"),
        (lambda: CANARIES.added_to(zeros(), CANARIES.included), "taking_part"),
        (lambda: CANARIES.appended_to(zeros(), [0]), "per_example"),
        (
            lambda: CANARIES.appended_to(
                [torch.zeros(n, *each.shape) for n, each in enumerate(zeros())], [0]
            ),
            "per_example",
        ),
        (lambda: CANARIES.appended_to([None] * 4, [0]), "per_example"),
        (lambda: CANARIES.scored_by_projection(NAN), "updates"),
        (lambda: CANARIES.scored_by_projection(zeros()[::-1]), "updates"),
        (lambda: CANARIES.scored_by_projection(None), "updates"),  # type: ignore[arg-type]
        (lambda: learning.movement(zeros()[:1], model()), "start"),
        (lambda: learning.watch(model(), model()), "optimizer"),
    ],
    ids=range(28),
)
def test_bad_input_is_named(make: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        make()


def test_coins_that_all_fell_alike_are_refused_by_the_audit() -> None:
    canaries = learning.dirac(model(), count=1, bits=SeededBits(1))
    with pytest.raises(InvalidParameter, match="included"):
        audit.one_run(canaries.scored_by_projection(zeros()), canaries.included)
