"""Canaries that are examples: in a dataset or not, their scores, and what cannot be used."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from unacorda import SeededBits, audit, learning
from unacorda.errors import InvalidParameter

torch: Any = pytest.importorskip("torch")


class Listed:
    """A map-style dataset of pairs, as simple as one can be."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def pair(n: int, *, seed: int = 1) -> tuple[Any, Any]:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, generator=drawn), torch.arange(n) % 4


def listed(n: int, kind: Any = int) -> Listed:
    x, y = pair(n)
    return Listed([(row, kind(int(label))) for row, label in zip(x, y, strict=True)])


cross_entropy = torch.nn.CrossEntropyLoss(reduction="none")
CHOSEN = learning.canaries(pair(6), bits=SeededBits(1))


def linear(seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5))


@pytest.mark.parametrize("source", [pair(40), listed(40)], ids=["tensors", "dataset"])
def test_labels_and_coins_are_those_of_the_array_helper(source: Any) -> None:
    x, y = pair(40)
    arrays = audit.mislabelled(x.numpy(), y.numpy(), count=30, bits=SeededBits(2))
    found = learning.mislabelled(source, count=30, bits=SeededBits(2))
    assert (found.included == arrays.included).all()
    assert (found.targets.numpy() == arrays.targets).all()
    assert (found.targets != y[:30]).all()
    assert torch.equal(found.features, x[:30])


def test_those_that_are_in_stand_behind_the_data() -> None:
    x, y = pair(10)
    chosen = learning.canaries(pair(6, seed=2), bits=SeededBits(1))
    data = chosen.added_to((x, y))
    assert isinstance(data, torch.utils.data.TensorDataset)
    assert torch.equal(data.tensors[0][:10], x)
    assert torch.equal(data.tensors[0][10:], chosen.features[torch.tensor(chosen.included)])
    assert torch.equal(data.tensors[1][10:], chosen.targets[torch.tensor(chosen.included)])


@pytest.mark.parametrize("kind", [int, np.int64, torch.tensor], ids=["int", "numpy", "tensor"])
def test_a_loader_serves_both(kind: Any) -> None:
    data = learning.canaries(pair(9, seed=2), bits=SeededBits(1)).added_to(listed(10, kind))
    assert type(data[-1][1]) is type(data[0][1])
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    served = torch.cat([x for x, _ in loader])
    assert len(served) == len(data)
    assert torch.allclose(
        served.sort(dim=0).values, torch.stack([x for x, _ in data]).sort(dim=0).values
    )
    assert sum(len(y) for _, y in loader) == len(data)


def test_the_dataset_ends_where_a_list_would_and_can_be_pickled() -> None:
    chosen = learning.canaries(pair(9, seed=2), bits=SeededBits(1))
    data = chosen.added_to(listed(10))
    assert len(data) == 10 + chosen.included.sum()
    for beyond in (len(data), -len(data) - 1):
        with pytest.raises(IndexError):
            data[beyond]
    again = pickle.loads(pickle.dumps(data))
    assert torch.equal(again[-1][0], data[len(data) - 1][0])


def test_loss_scores_are_minus_the_loss_and_by_how_much_it_fell() -> None:
    model, (x, y) = linear(), pair(20)
    start = learning.snapshot(model)
    before = cross_entropy(model[0](x), y).detach().numpy()
    torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model[0].weight.add_(0.3)
        model[0].bias[0] += 1.0
    after = cross_entropy(model[0](x), y).detach().numpy()
    chosen = learning.canaries((x, y), bits=SeededBits(1))
    for batch in (1, 7, 256):
        scores = chosen.scored_by_loss(model, cross_entropy, batch=batch)
        assert np.allclose(scores, -after)
        fell = chosen.scored_by_loss(model, cross_entropy, initial=start, batch=batch)
        assert np.allclose(fell, before - after, atol=1e-6)
    assert model.training
    assert model[1].training
    assert all(each.grad is None for each in model.parameters())


def test_projections_are_products_of_clipped_gradients() -> None:
    model, (x, y) = linear(), pair(20)
    start = learning.snapshot(model)
    along = [torch.randn_like(each) for each in start]
    expected = []
    for row, label in zip(x, y, strict=True):
        model.eval().zero_grad()
        cross_entropy(model(row[None]), label[None]).sum().backward()
        gradient = torch.cat([each.grad.reshape(-1) for each in model.parameters()])
        product = gradient @ torch.cat([each.reshape(-1) for each in along])
        expected.append(float(product * min(1, 0.8 / gradient.norm())))
    model.train().zero_grad(set_to_none=True)
    chosen = learning.canaries((x, y), bits=SeededBits(1))
    for batch in (1, 7, 256):
        scores = chosen.scored_by_projection(along, model, cross_entropy, norm=0.8, batch=batch)
        assert np.allclose(scores, expected, atol=1e-5)
    with torch.no_grad():
        model[0].weight[0].add_(0.3)
    moved = chosen.scored_by_projection(along, model, cross_entropy, norm=0.8)
    assert not np.allclose(moved, expected, atol=1e-3)
    back = chosen.scored_by_projection(along, model, cross_entropy, norm=0.8, initial=start)
    assert np.allclose(back, expected, atol=1e-5)


def test_a_model_with_hooks_is_refused_and_a_copy_is_not() -> None:
    model, hooked = linear(), linear()
    hooked[0].register_full_backward_hook(lambda *_: None)
    along = learning.snapshot(model)
    with pytest.raises(InvalidParameter, match="a copy from before"):
        CHOSEN.scored_by_projection(along, hooked, cross_entropy)
    with torch.no_grad():
        hooked[0].weight.mul_(2)
    now = learning.snapshot(hooked)
    found = CHOSEN.scored_by_projection(along, model, cross_entropy, initial=now)
    assert not np.allclose(found, CHOSEN.scored_by_projection(along, model, cross_entropy))


def test_some_losses_that_are_nan_say_nothing_and_all_are_refused() -> None:
    x, y = pair(6)
    x[2] = math.nan
    chosen = learning.canaries((x, y), bits=SeededBits(1))
    scores = chosen.scored_by_loss(linear(), cross_entropy)
    assert (np.isneginf(scores) == (np.arange(6) == 2)).all()
    model = linear()
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    with pytest.raises(InvalidParameter, match="model"):
        chosen.scored_by_loss(model, cross_entropy)


def test_gradients_that_are_nan_are_refused_by_the_audit() -> None:
    x, y = pair(6)
    x[2] = math.nan
    chosen = learning.canaries((x, y), bits=SeededBits(1))
    scores = chosen.scored_by_projection(learning.snapshot(linear()), linear(), cross_entropy)
    with pytest.raises(InvalidParameter, match="scores"):
        audit.one_run(scores, chosen.included)


def test_repr_tells_neither_data_nor_coins() -> None:
    chosen = learning.canaries(pair(6))
    assert repr(chosen) == "ExampleCanaries(6)"
    assert repr(chosen.added_to(listed(3))) == "WithCanaries(Listed)"


MEAN = torch.nn.CrossEntropyLoss()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: learning.canaries((torch.zeros(3, 2), torch.zeros(2))), "examples"),
        (lambda: learning.canaries((torch.zeros(0, 2), torch.zeros(0))), "examples"),
        (lambda: learning.canaries(Listed([])), "examples"),
        (lambda: learning.canaries(iter([(torch.zeros(2), 1)])), "examples"),
        (lambda: learning.canaries(Listed([(torch.zeros(2), "label")])), "examples"),
        (lambda: learning.canaries(Listed([(np.zeros(2), 1)])), "examples"),
        (lambda: learning.canaries(Listed([torch.zeros(2)])), "examples"),
        (
            lambda: learning.canaries(Listed([(torch.zeros(2), 1), (torch.zeros(3), 1)])),
            "examples",
        ),
        (lambda: learning.mislabelled(pair(6), count=0), "count"),
        (lambda: learning.mislabelled(pair(6), count=7), "examples"),
        (lambda: learning.mislabelled(listed(6), count=7), "examples"),
        (lambda: learning.mislabelled((torch.eye(3), torch.ones(3)), count=3), "examples"),
        (lambda: learning.mislabelled((torch.eye(3), torch.eye(3)), count=3), "examples"),
        (lambda: CHOSEN.added_to((torch.zeros(3, 2), torch.zeros(3))), "dataset"),
        (lambda: CHOSEN.added_to((torch.zeros(3, 3), torch.zeros(3, 1))), "dataset"),
        (lambda: CHOSEN.added_to(Listed([])), "dataset"),
        (lambda: CHOSEN.scored_by_loss(linear(), MEAN), "loss"),
        (lambda: CHOSEN.scored_by_loss(linear(), lambda outputs, targets: 0.0), "loss"),
        (lambda: CHOSEN.scored_by_loss(linear(), cross_entropy, batch=0), "batch"),
        (lambda: CHOSEN.scored_by_loss(torch.tanh, cross_entropy), "model"),
        (lambda: CHOSEN.scored_by_loss([torch.zeros(3)], cross_entropy), "model"),
        (lambda: CHOSEN.scored_by_loss(linear(), cross_entropy, initial=[]), "initial"),
        (lambda: CHOSEN.scored_by_projection([], linear(), cross_entropy), "updates"),
        (
            lambda: CHOSEN.scored_by_projection(
                learning.snapshot(linear()), linear(), cross_entropy, norm=0.0
            ),
            "norm",
        ),
        (
            lambda: CHOSEN.scored_by_projection(
                learning.snapshot(linear()), linear(), lambda outputs, targets: outputs
            ),
            "loss",
        ),
    ],
    ids=range(25),
)
def test_bad_input_is_named(make: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        make()
