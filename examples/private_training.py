"""Handwritten digits by a linear model, with and without privacy, and what one run gives away.

    python examples/private_training.py [--picture digits.svg]

1437 images of scikit-learn's digits train a linear classifier for epsilon 8, 3 and 1 at delta 1e-4,
each image a person; the other 360 judge it. The table shows accuracies beside that of the same loop
without noise. A last run at epsilon 1 carries 300 canaries, whose coins are guessed afterwards: the
lower bound that follows is no higher than what was promised.
Needs `pip install 'unacorda[learning,plots]' scikit-learn`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from unacorda import ApproxDP, learning

EPSILONS, DELTA, PEOPLE = (8.0, 3.0, 1.0), 1e-4, 1437


def digits() -> tuple[Any, Any, Any, Any]:
    """Images and labels to train on, and to judge by."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x = torch.tensor(images[order] / 16, dtype=torch.float32)
    y = torch.tensor(labels[order])
    return x[:PEOPLE], y[:PEOPLE], x[PEOPLE:], y[PEOPLE:]


def losses(given: Any, labels: Any) -> Any:
    """One number an image."""
    return torch.nn.functional.cross_entropy(given, labels, reduction="none")


def untrained() -> tuple[Any, Any]:
    """A linear model from zero, and its optimizer."""
    model = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=2.0, momentum=0.9)


def accuracy(model: Any, x: Any, y: Any) -> float:
    """The share of right answers; the images that judge are taken as public here."""
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def main() -> None:
    """Train, print the plan and the table, audit, draw."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("digits.svg"))
    options = ask.parse_args()
    x, y, others, answers = digits()

    model, optimizer = untrained()
    for _ in range(100):
        optimizer.zero_grad()
        losses(model(x), y).mean().backward()
        optimizer.step()
    shown = {"no privacy": accuracy(model, others, answers)}

    for epsilon in EPSILONS:
        model, optimizer = untrained()
        steps = 100 if epsilon > 1 else 30
        training = learning.PrivateTraining(
            model,
            optimizer,
            (x, y),
            budget=ApproxDP(epsilon, DELTA),
            units=PEOPLE,
            batch_size=PEOPLE,
            steps=steps,
            clip=0.3 if epsilon > 1 else 1.0,
            sampling=learning.FullBatch(),
        )
        for images, labels in training:
            training.step(losses(model(images), labels))
        training.close()
        shown[f"epsilon {epsilon:g}"] = accuracy(model, others, answers)
    print(training.plan, end="\n\n")
    for name, share in shown.items():
        print(f"{name:<12} {share:6.1%}")

    model, optimizer = untrained()
    canaries = learning.scattered(model, count=300, norm=1.0)
    training = learning.PrivateTraining(
        model,
        optimizer,
        (x, y),
        budget=ApproxDP(1, DELTA),
        units=PEOPLE + 300,
        batch_size=PEOPLE + 300,
        steps=30,
        clip=1.0,
        sampling=learning.FullBatch(),
        canaries=canaries,
    )
    for images, labels in training:
        training.step(losses(model(images), labels))
    found = training.audit()
    print(
        f"\nOne run shows an epsilon of {found.found:.2f} at least; promised: {found.promised:.2f}"
    )
    draw(shown, options.picture)


def draw(shown: dict[str, float], path: Path) -> None:
    """Bars of accuracies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3))
    axes = figure.add_subplot()
    bars = axes.bar(list(shown), [100 * share for share in shown.values()])
    axes.bar_label(bars, fmt="%.1f")
    axes.set_ylabel("right answers, %")
    axes.set_ylim(0, 105)
    figure.tight_layout()
    figure.savefig(path)
    print(f"A picture is in {path}.")


if __name__ == "__main__":
    main()
