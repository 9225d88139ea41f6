"""The next character of Python's own library, privately, judged on people whose privacy counts too.

    python examples/private_characters.py [--picture private_characters.svg] [--quick]

The source files of the standard library that runs this are cut into pieces of 40 characters, and
each piece stands for a person. A small network guesses every character from the 8 before it. It is
trained for epsilon 8, 3 and 1 at delta 1e-6; characters are those of a public list, ASCII and one
for all others. A tenth of the files is held out. Its pieces stand for people as well: each judgment
of a model is a release with epsilon 0.1, with the error from its noise next to it.
An audit does not find a canary that takes part in one step of 500. So a last run, at epsilon 8,
has 1000 pieces and 2000 canaries, each in half of 20 steps. Coins of canaries are guessed
afterwards: the lower bound that follows is no higher than what was promised, unless the library is
wrong or luck is bad.
Takes some six minutes on one core; --quick shows epsilon 8 alone, after a tenth of the steps.
Needs `pip install 'unacorda[learning,plots]'`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unacorda import ApproxDP, PureDP, learning

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
LEFT_OUT = {"site-packages"}
PIECE, CONTEXT, CHARACTERS = 40, 8, 97  # newline, 32 to 126, and all others
RATE, STEPS, CLIP, DELTA = 0.002, 250, 1.4, 1e-6  # the clip in bits, too
CANARIES, BOUND = 2000, 10.0  # bits that a character counts as at most, on average over a piece


def library() -> tuple[Any, Any]:
    """Pieces to train on, and those of a tenth of the files to judge by."""
    files = [path for path in sorted(LIBRARY.rglob("*.py")) if not LEFT_OUT & set(path.parts[:-1])]
    order = np.random.default_rng(0).permutation(len(files))
    codes = np.full(256, 96)
    codes[10], codes[32:127] = 0, np.arange(1, 96)
    pieces = []
    for one in order:
        code = codes[np.frombuffer(files[one].read_bytes(), dtype=np.uint8)]
        whole = len(code) // PIECE * PIECE
        pieces.append(torch.tensor(code[:whole].reshape(-1, PIECE)))
    tenth = len(files) // 10
    return torch.cat(pieces[tenth:]), torch.cat(pieces[:tenth])


class Network(torch.nn.Module):
    """An embedding, a hidden layer over eight characters, and scores of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(CHARACTERS, 16)
        self.hidden = torch.nn.Conv1d(16, 64, CONTEXT)
        self.scores = torch.nn.Linear(64, CHARACTERS)

    def forward(self, pieces: Any) -> Any:
        """Scores of every character that has eight before it."""
        given = self.embedding(pieces[:, :-1]).transpose(1, 2)
        return self.scores(torch.relu(self.hidden(given)).transpose(1, 2))


def bits(scores: Any, pieces: Any) -> Any:
    """Bits a character, one number a piece."""
    nats = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), pieces[:, CONTEXT:].flatten(), reduction="none"
    )
    return nats.reshape(len(pieces), -1).mean(dim=1) / math.log(2)


def judged(model: Any, held_out: Any) -> Any:
    """Bits a character of pieces that are held out, with noise for their sake."""
    return learning.evaluate(
        model, (held_out, held_out), bits, budget=PureDP(0.1), bound=BOUND, batch_size=1000
    )


def without_privacy(pieces: Any, *, steps: int) -> Any:
    """A network trained as usual, with rates that fall at the end."""
    model = Network()
    optimizer = torch.optim.Adam(model.parameters())
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    for _ in range(steps):
        batch = pieces[torch.randint(len(pieces), (512,))]
        optimizer.zero_grad()
        bits(model(batch), batch).mean().backward()
        optimizer.step()
        rates.step()
    return model


def privately(
    pieces: Any, epsilon: float, *, units: int, steps: int, rate: float = RATE, canaries: int = 0
) -> tuple[Any, Any]:
    """A network trained privately, with the moving average of its weights, and its training."""
    model = Network()
    training = learning.PrivateTraining(
        model,
        torch.optim.Adam(model.parameters(), lr=0.03),
        (pieces,),
        budget=ApproxDP(epsilon, DELTA),
        units=units + canaries,
        batch_size=round(rate * (units + canaries)),
        steps=steps,
        clip=CLIP,
        average=0.97,
        physical=600,
        canaries=learning.scattered(model, count=canaries, norm=CLIP) if canaries else None,
    )
    for (batch,) in training:
        training.step(bits(model(batch), batch))
    training.close()
    model.load_state_dict(training.averaged)
    return model, training


def main() -> None:
    """Train, print the plan and the table, audit, draw."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("private_characters.svg"))
    ask.add_argument("--quick", action="store_true", help="epsilon 8 alone, a tenth of the steps")
    options = ask.parse_args()
    epsilons, part = ((8.0,), 0.1) if options.quick else ((8.0, 3.0, 1.0), 1)
    steps = round(part * STEPS)
    pieces, held_out = library()
    units = round(len(pieces), -3)  # the library is public; that of a company would be estimated

    shown = {"no privacy": judged(without_privacy(pieces, steps=8 * steps), held_out)}
    for epsilon in epsilons:
        model, training = privately(pieces, epsilon, units=units, steps=steps)
        shown[f"epsilon {epsilon:g}"] = judged(model, held_out)
    print(training.plan, end="\n\n")
    for name, found in shown.items():
        print(f"{name:<12} {found.value:.3f} bits a character (noise: {found.noise_error:.3f})")

    few = pieces[:1000]
    found = privately(few, 8, units=1000, steps=20, rate=0.5, canaries=CANARIES)[1].audit()
    print(
        f"\nOne run shows an epsilon of {found.found:.2f} at least; promised: {found.promised:.2f}"
    )
    draw(shown, options.picture)


def draw(shown: dict[str, Any], path: Path) -> None:
    """Bars of bits a character, with the error that the noise of judging gives them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.bar(
        list(shown),
        [found.value for found in shown.values()],
        yerr=[2 * found.noise_error for found in shown.values()],
    )
    axes.bar_label(bars, fmt="%.2f")
    axes.set_ylabel("bits a character")
    axes.margins(y=0.1)
    figure.savefig(path)
    print(f"A picture is in {path}.")


if __name__ == "__main__":
    main()
