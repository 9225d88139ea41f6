"""One person's salary from sums that are each about many.

    python examples/attacks/differencing.py [--picture differencing.svg]

A small office answers sums of salaries for any group of five people or more. Two groups that differ
by one person give her salary away; and so do less obvious ones, which only linear algebra finds.
With noise the same combination has the noise of all its answers: the picture shows what it says of
everybody, with a budget of epsilon 1 for all the questions. Needs `pip install 'unacorda[plots]'`.
Source: Denning 1980.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda import PureDP, plots
from unacorda.attacks import Exposed, differencing
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms import Laplace

Floats = NDArray[np.float64]

NAMES = ("Ada", "Ben", "Cleo", "Dov", "Eva", "Finn", "Gail", "Hal")
SALARIES = np.array([52.0, 61.0, 47.0, 120.0, 58.0, 75.0, 49.0, 66.0])  # thousands
LARGEST = 200.0

QUESTIONS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],  # everybody
        [1, 1, 1, 0, 1, 1, 1, 1],  # everybody but the manager
        [1, 1, 1, 1, 1, 0, 0, 0],  # three groups of five, each pair with little in common
        [0, 0, 0, 1, 1, 1, 1, 1],
        [1, 0, 1, 0, 1, 0, 1, 1],
    ]
)


def exposed() -> list[Exposed]:
    """Whose salaries follow from the answers, by the log of questions alone."""
    return differencing(QUESTIONS)


def noisy(found: Exposed, *, epsilon: float, bits: RandomBits) -> Any:
    """What the combination says where all answers together cost epsilon, and its deviation."""
    noise = Laplace.for_guarantee(PureDP(epsilon), l1_sensitivity=len(QUESTIONS) * LARGEST)
    answers = np.asarray(noise.release((QUESTIONS @ SALARIES).tolist(), bits=bits))
    return found.value(answers), noise.standard_deviation * found.deviation


def main() -> None:
    """Find out, print whose salary is known, and draw it."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("differencing.svg"))
    options = ask.parse_args()
    bits, names, values, halves = SecureBits(), [], [], []
    for found in exposed():
        name, true = NAMES[found.person], SALARIES[found.person]
        exact = found.value(QUESTIONS @ SALARIES)
        said, deviation = noisy(found, epsilon=1.0, bits=bits)
        print(f"{name} earns {true:g}: {exact:.4g} by sums; noisy: {said:.4g} +- {deviation:.4g}")
        names += [f"{name}, exact sums", f"{name}, noisy sums"]
        values += [exact, said]
        halves += [0.0, 2 * deviation]
    ends = np.array(values) - halves, np.array(values) + halves
    axes = plots.errors(names, values, *ends, possible=(0, LARGEST))
    axes.set_xlabel("salary in thousands, with intervals of two deviations")
    axes.figure.savefig(options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
