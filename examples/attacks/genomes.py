"""Who was in the study? Membership from the averages of many genetic markers.

    python examples/attacks/genomes.py [--picture genomes.svg]

A study of 200 people publishes how frequent each of its markers is. Whoever knows a person's
markers, and how frequent they are in the population, can tell whether she was one of them: each
marker says nearly nothing, and there are thousands. Markers are made up, with frequencies as they
are found (most are rare). The defence is Gaussian noise on the counts, for epsilon 1 and delta
1e-5; the attack on it proves no more than was promised. Needs `pip install 'unacorda[plots]'`.
Source: Homer et al. 2008, PLoS Genetics 4(8).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda import ApproxDP, plots
from unacorda.attacks import Attack, membership
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy.tradeoff import TradeoffCurve

Floats = NDArray[np.float64]

PEOPLE, PROMISED, DELTA = 400, 1.0, 1e-5
MARKERS = (100, 1000, 10_000)
LEAST = 0.01  # with fewer false alarms than this, one in a hundred, single people decide


def markers(count: int) -> tuple[Floats, Floats]:
    """People with 0, 1 or 2 copies of each marker, as halves; and the population's frequencies."""
    drawn = np.random.default_rng(2026)
    frequency = np.clip(drawn.beta(0.5, 2.0, size=count), 0.02, 0.5)
    copies = drawn.binomial(2, frequency, size=(PEOPLE, count))
    return copies / 2, frequency


def defence(count: int, *, bits: RandomBits) -> Any:
    """Averages from noisy sums; a person moves all sums by sqrt(count) at most."""
    noise = Gaussian.for_guarantee(ApproxDP(PROMISED, DELTA), l2_sensitivity=math.sqrt(count))

    def defended(rows: Floats) -> Floats:
        released: Floats = np.asarray(noise.release(rows.sum(axis=0), bits=bits))
        return released / (PEOPLE / 2)  # about how many are in, which is public

    return defended


def attacks(*, bits: RandomBits) -> dict[str, Attack]:
    """The attack on exact averages of more and more markers, and on noisy ones of the most."""
    found = {}
    for count in MARKERS:
        people, population = markers(count)
        found[f"{count:,} markers"] = membership(people, population=population, bits=bits)
    people, population = markers(MARKERS[-1])
    found[f"{MARKERS[-1]:,}, with noise"] = membership(
        people,
        population=population,
        defended=defence(MARKERS[-1], bits=bits),
        promised=PROMISED,
        delta=DELTA,
        bits=bits,
    )
    return found


def allowed() -> tuple[Floats, Floats]:
    """False-positive rates, and the most that the promise lets any attack find at these."""
    curve = TradeoffCurve.of_guarantee(ApproxDP(PROMISED, DELTA))
    rates = np.geomspace(LEAST, 1, 100)
    return rates, np.array([curve.true_positive_rate(fpr=float(rate)) for rate in rates])


def _told(name: str, attack: Attack) -> str:
    proved = "" if attack.bound is None else f": epsilon ≥ {attack.bound.epsilon:.2g}"
    return f"{name}{proved}"


def main() -> None:
    """Attack, print what each attack found, and draw it."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("genomes.svg"))
    options = ask.parse_args()
    found = attacks(bits=SecureBits())
    for name, attack in found.items():
        print(f"{name}: {attack}")
    axes = plots.roc(
        {_told(name, attack): attack.roc() for name, attack in found.items()},
        limits={f"most that epsilon {PROMISED:g} allows": allowed()},
        least=LEAST,
    )
    axes.set_title("who was in the study")
    axes.figure.savefig(options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
