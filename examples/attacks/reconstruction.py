"""A whole column from counts: 2 n questions about n people.

    python examples/attacks/reconstruction.py [--picture reconstruction.svg]

Somebody may ask how many of a group of people have a disease, for groups of her own choice. Each
answer is harmless. From 256 of them she finds out who has it, exactly if answers are exact, and
nearly so with the small noise that looks sufficient. Noise that pays for all the questions
together, for an epsilon of 1 in all, leaves her with a coin. Needs `pip install 'unacorda[plots]'`.
Source: Dinur and Nissim 2003.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unacorda import PureDP, plots
from unacorda.attacks import reconstruction
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms import DiscreteLaplace

PEOPLE, ROUNDS = 128, 3
QUESTIONS = 2 * PEOPLE
EPSILONS = (1000, 100, 30, 10, 3, 1)


def share_right(epsilon: float, *, bits: RandomBits) -> float:
    """The share of bits found when all questions together cost epsilon; rounds are averaged."""
    drawn = np.random.default_rng(1)
    noise = DiscreteLaplace.for_guarantee(PureDP(epsilon), l1_sensitivity=QUESTIONS)
    shares = []
    for _ in range(ROUNDS):
        secret = drawn.random(PEOPLE) < 0.5
        asked = drawn.random((QUESTIONS, PEOPLE)) < 0.5
        told: NDArray[np.int64] = np.asarray(
            noise.release(asked @ secret.astype(np.int64), bits=bits)
        )
        shares.append(reconstruction(asked, told, method="least squares").share_right(secret))
    return float(np.mean(shares))


def main() -> None:
    """Ask, reconstruct, print the shares and draw them."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("reconstruction.svg"))
    options = ask.parse_args()
    bits = SecureBits()
    found = [share_right(epsilon, bits=bits) for epsilon in EPSILONS]
    for epsilon, share in zip(EPSILONS, found, strict=True):
        print(f"epsilon {epsilon} for {QUESTIONS} questions: {share:.0%} of {PEOPLE} bits found")
    axes = plots.coverage(EPSILONS, {"least squares": found}, nominal=0.5, nominal_name="a coin")
    axes.set(xlabel="epsilon of all questions together", ylabel="share of bits found")
    axes.figure.savefig(options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
