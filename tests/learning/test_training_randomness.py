"""Random numbers of PyTorch in a training's forward passes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from torch import nn  # noqa: E402

from unacorda import ApproxDP, SeededBits, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402


def masks(key: int, *, public: int = 0, physical: int = 16) -> tuple[list[Any], Any]:
    """The dropout of each physical batch of two steps, and a number that is drawn afterwards."""
    model = nn.Linear(6, 1)
    private = learning.PrivateTraining(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        (torch.ones(16, 6), torch.zeros(16, 1)),
        budget=ApproxDP(1, 1e-6),
        units=16,
        batch_size=16,
        steps=2,
        clip=1.0,
        physical=physical,
        bits=SeededBits(key),
    )
    torch.manual_seed(public)
    seen = []
    for x, y in private:
        dropped = nn.functional.dropout(x, 0.5)
        seen.append(dropped)
        private.step((model(dropped) - y).square().sum(1))
    return seen, torch.rand(1).item()


def test_dropout_hangs_on_the_secret_and_on_no_known_seed() -> None:
    (first, after), (again, _), (other, later) = masks(1), masks(1, public=7), masks(2)
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))
    assert not torch.equal(first[0], first[1])
    torch.manual_seed(0)
    assert after == later == torch.rand(1).item()


def test_each_physical_batch_has_random_numbers_of_its_own() -> None:
    found, _ = masks(1, physical=4)
    full = [tuple(each.flatten().tolist()) for each in found if bool((each != 0).any(1).all())]
    assert len(full) > 2
    assert len(set(full)) == len(full)


class Remembering(nn.Module):  # type: ignore[misc]
    """Centers its rows by a mean that it keeps of earlier ones while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("unknown", torch.full((2,), torch.nan))

    def forward(self, x: Any) -> Any:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.layer(x - self.mean)


@pytest.mark.parametrize("remembers", [True, False])
def test_buffers_that_rows_change_are_refused(remembers: bool) -> None:
    model = Remembering().train(remembers)
    options: dict[str, Any] = {"batch_size": 5, "steps": 2, "clip": 1.0, "units": 20}
    data, sgd = (torch.randn(20, 3), torch.zeros(20, 1)), torch.optim.SGD(model.parameters())

    def made() -> learning.PrivateTraining:
        return learning.PrivateTraining(model, sgd, data, budget=ApproxDP(1, 1e-6), **options)

    if remembers:
        with pytest.raises(InvalidParameter, match=r"mean.*no forward pass changes"):
            made()
    else:
        made().close()
