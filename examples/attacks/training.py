"""Does private training keep its promise? A loop of noisy gradients that audits itself.

    python examples/attacks/training.py [--picture training.svg]

A small network is trained by hand on 400 made-up people: in each of 40 steps a Poisson sample of
them, clipped gradients, normal noise, for epsilon 1 and delta 1e-5. Beside the people stand 2000
gradients that fair coins put in or leave out, and among them 1000 examples with wrong labels. Who
was in is guessed from what the steps released, and from the losses of the trained network. With
the noise that was promised no more is found than was promised; where a line of code divides the
noise by the size of a batch once too often, the audit proves it, from one run. The noise is
PyTorch's, which is good enough for showing this and is not exact.
Needs `pip install 'unacorda[learning,plots]'`.
Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846; Mahloujifar, Melis, Chaudhuri 2024,
arXiv:2410.22235.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unacorda import ApproxDP, accounting, audit, events, learning, plots
from unacorda.attacks import Attack
from unacorda.bits import RandomBits, SecureBits
from unacorda.privacy.tradeoff import TradeoffCurve

Floats = NDArray[np.float64]

PEOPLE, FEATURES, CLASSES = 400, 20, 10
PROMISED, DELTA = 1.0, 1e-5
STEPS, RATE, CLIP = 40, 0.25, 1.0
GRADIENTS, EXAMPLES = 2000, 1000
LEAST = 0.02  # with fewer false alarms than this, one in fifty, single canaries decide

loss = torch.nn.CrossEntropyLoss(reduction="none")


def people(count: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and classes that follow from them."""
    drawn = torch.Generator().manual_seed(seed)
    rule = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
    x = torch.randn(count, FEATURES, generator=drawn)
    return x, (x @ rule).argmax(dim=1)


def promised_noise() -> float:
    """The least noise, in units of the clip, with which all steps together keep the promise."""
    step = events.Gaussian
    return accounting.calibrate(
        lambda noise: step(noise_multiplier=noise).poisson_sampled(rate=RATE) * STEPS,
        target=ApproxDP(PROMISED, DELTA),
    )


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What the gradients' and the examples' scores say of their coins."""

    by_gradients: Attack
    by_labels: Attack


def train(*, noise_multiplier: float, bits: RandomBits) -> Audited:
    """Train once, and audit it."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 80), torch.nn.Tanh(), torch.nn.Linear(80, CLASSES)
    )
    parameters = dict(model.named_parameters())
    start = learning.snapshot(model)
    gradients = learning.scattered(model, count=GRADIENTS, norm=CLIP, bits=bits)
    wrong = learning.mislabelled(people(EXAMPLES, seed=2), count=EXAMPLES, bits=bits)
    x, y = wrong.added_to(people(PEOPLE, seed=1)).tensors
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    noise = torch.Generator().manual_seed(bits.below(2**63))

    def loss_of_one(
        values: dict[str, torch.Tensor], features: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        outputs = torch.func.functional_call(model, values, (features[None],))
        return loss(outputs, label[None])[0]

    per_example = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))
    seen = [torch.zeros_like(each) for each in parameters.values()]
    for _ in range(STEPS):
        batch = torch.from_numpy(bits.words(len(x)) < np.uint64(int(RATE * 2**64)))
        values = {name: each.detach() for name, each in parameters.items()}
        found = list(per_example(values, x[batch], y[batch]).values())
        lengths = torch.stack([each.flatten(1).norm(dim=1) for each in found]).norm(dim=0)
        cut = CLIP / lengths.clamp(min=CLIP)
        of_people = [torch.einsum("i,i...", cut, each) for each in found]
        total = gradients.added_to(of_people, gradients.taking_part(rate=RATE, bits=bits))
        for parameter, own, sums, told in zip(
            parameters.values(), of_people, total, seen, strict=True
        ):
            drawn = torch.randn(own.shape, generator=noise) * (noise_multiplier * CLIP)
            noisy = sums + drawn
            parameter.grad = noisy / (RATE * PEOPLE)
            # Who audits may know everybody but the canaries: what they gave is no secret to her.
            told.add_(noisy - own)
        optimizer.step()
    return Audited(
        by_gradients=_attack(gradients.scored_by_projection(seen), gradients.included),
        by_labels=_attack(wrong.scored_by_loss(model, loss, initial=start), wrong.included),
    )


def _attack(scores: Floats, included: NDArray[np.bool_]) -> Attack:
    bound = audit.one_run_f_dp(scores, included, delta=DELTA)
    return Attack(scores=scores, truth=included, bound=bound, promised=PROMISED)


def attacks(*, bits: RandomBits) -> dict[str, Attack]:
    """Of training as promised, and of training whose noise is that of a mean, not of a sum."""
    noise = promised_noise()
    kept = train(noise_multiplier=noise, bits=bits)
    broken = train(noise_multiplier=noise / (RATE * PEOPLE), bits=bits)
    return {
        "wrong labels": kept.by_labels,
        "gradients": kept.by_gradients,
        "gradients, noise divided twice": broken.by_gradients,
    }


def allowed() -> tuple[Floats, Floats]:
    """False-positive rates, and the most that the promise lets any attack find at these."""
    curve = TradeoffCurve.of_guarantee(ApproxDP(PROMISED, DELTA))
    rates = np.geomspace(LEAST, 1, 100)
    return rates, np.array([curve.true_positive_rate(fpr=float(rate)) for rate in rates])


def main() -> None:
    """Train, audit, print what was proved, and draw it."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("training.svg"))
    options = ask.parse_args()
    found = attacks(bits=SecureBits())
    names = {}
    for name, attack in found.items():
        print(f"{name}: {attack}")
        proved = 0.0 if attack.bound is None else attack.bound.epsilon
        names[f"{name}: epsilon ≥ {proved:.2g}"] = attack.roc()
    axes = plots.roc(
        names, limits={f"most that epsilon {PROMISED:g} allows": allowed()}, least=LEAST
    )
    axes.set_title("which canaries were in the training")
    axes.figure.savefig(options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
