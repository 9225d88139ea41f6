"""Models, data and the loop that every tool of `learning.py` times: a question a line, as JSON."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

CASES = ("logistic", "mlp", "cnn", "transformer", "lora")


class Transformer(nn.Module):
    """Two blocks of width 128 on 64 characters."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(64, 128), nn.Embedding(64, 128)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(128, 64)

    def forward(self, x: Any) -> Any:
        found = self.table(x) + self.places(torch.arange(64).repeat(len(x), 1))
        for block in self.blocks:
            found = block(found)
        return self.head(found)


class Block(nn.Module):
    """Attention of four heads by linear layers, as every tool has rules for, and two more."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(128), nn.LayerNorm(128)
        self.mix, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x: Any) -> Any:
        parts = self.mix(self.first(x)).unflatten(2, (3, 4, 32)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(self.second(x))))


class LowRank(nn.Module):
    """A frozen layer with a trained update of rank 8."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down, self.up = nn.Linear(inputs, 8, bias=False), nn.Linear(8, outputs, bias=False)

    def forward(self, x: Any) -> Any:
        return self.frozen(x) + self.up(self.down(x))


def made(case: str) -> tuple[Any, Any, Any]:
    """A model, its features and its labels."""
    torch.manual_seed(1)
    if case == "noise":
        return nn.Linear(1, 1), torch.zeros(1 << 22, dtype=torch.float64), None
    if case == "logistic":
        return nn.Linear(100, 2), torch.randn(4096, 100), torch.randint(0, 2, (4096,))
    if case == "mlp":
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(256, 10))
        return model, torch.randn(512, 784), torch.randint(0, 10, (512,))
    if case == "cnn":
        first = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
        second = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten()]
        model = nn.Sequential(*first, *second, nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
        return model, torch.randn(512, 1, 28, 28), torch.randint(0, 10, (512,))
    if case == "transformer":
        return Transformer(), torch.randint(0, 64, (32, 64)), torch.randint(0, 64, (32, 64))
    model = nn.Sequential(LowRank(256, 1024), nn.GELU(), LowRank(1024, 1024), nn.GELU(),
                          LowRank(1024, 64))  # fmt: skip
    return model, torch.randn(32, 128, 256), torch.randint(0, 64, (32, 128))


def losses(given: Any, labels: Any) -> Any:
    """One number an example."""
    found = nn.functional.cross_entropy(
        given.flatten(0, -2), labels.flatten(), reduction="none"
    ).unflatten(0, labels.shape)
    return found.flatten(1).mean(1) if found.dim() > 1 else found


def answer(step_of: Callable[[Any, Any, Any, str], Callable[[], None]]) -> None:
    """Answer questions (case, kind, seconds) by examples a second, and megabytes at the peak above
    those of model and data.
    """
    torch.set_num_threads(1)
    print(json.dumps("ready"), flush=True)
    known: dict[tuple[str, str], tuple[Callable[[], None], int]] = {}
    begin = 0.0
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["case"], asked["kind"]
        if key not in known:
            model, x, y = made(asked["case"])
            begin = megabytes()
            known[key] = step_of(model, x, y, asked["kind"]), len(x)
            known[key][0]()
        step, size = known[key]
        step()  # what others have left in the caches is not counted
        began, steps = time.process_time(), 0
        while (seconds := time.process_time() - began) < asked["seconds"] or not steps:
            step()
            steps += 1
        print(json.dumps([size * steps / seconds, megabytes() - begin]), flush=True)


def megabytes() -> float:
    """The most that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
