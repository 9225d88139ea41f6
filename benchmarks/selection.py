"""Selection by low-sensitivity questions, beside the mechanisms that may do more.

    python benchmarks/selection.py [--levels 4 6 8 10 12 14 16] [--shuffles 8] [--draws 3000]

The open problem (Steinke 2019): scores of |Y| candidates that each move by at most 1; how much
worse than the best is the chosen one, on average, where only questions of sensitivity 1 are
answered with normal noise? A binary tree does 0.34 k^(3/2), k = log2 |Y|; the exponential
mechanism, which is no such thing, k ln 2. All are run at rho = 1/2 in zCDP. Each number is the
expected excess (best score less chosen score), the largest over one free parameter of the family,
found for each mechanism apart:

- needle: one candidate is ahead of all others by t;
- ladder: the score of leaf y is -c times its number of ones in base 2, so that every wrong turn of
  the tree costs c. In a shuffled tree the same scores stand in random order.

The excess is exact: closed forms for the exponential mechanism and permute-and-flip, from level to
level for trees, averaged over a few orders where the leaves are shuffled. A last table draws from
the mechanisms themselves and compares.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tables import Report, add_json
from unacorda import accounting
from unacorda.bits import SeededBits
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip
from unacorda.mechanisms.selection.tree import TreeSelection
from unacorda.privacy import events
from unacorda.privacy.guarantees import ZCDP

Floats: TypeAlias = NDArray[np.float64]
Groups: TypeAlias = Sequence[tuple[float, int]]
"""Scores and how many candidates have each."""

RHO = 0.5
BOUNDED_RANGE = math.sqrt(8 * RHO)  # epsilon of the exponential mechanism
HERMITE, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
LEGENDRE, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(400)
STEPS = np.geomspace(0.25, 32, 29)


def pure_epsilon() -> float:
    """The epsilon of which `Pure` costs RHO in zCDP."""
    noise = accounting.calibrate(lambda noise: events.Pure(epsilon=1 / noise), target=ZCDP(RHO))
    return 1 / float(noise)


# ---- families


def needle(levels: int, lead: float) -> Groups:
    return [(0.0, 1), (-lead, 2**levels - 1)]


def ladder(levels: int, step: float) -> Groups:
    return [(-step * ones, math.comb(levels, ones)) for ones in range(levels + 1)]


FAMILIES: dict[str, Callable[[int, float], Groups]] = {"needle": needle, "ladder": ladder}


def leaves(name: str, levels: int, parameter: float) -> Floats:
    """The scores in the order of the leaves."""
    if name == "needle":
        return np.append(0.0, np.full(2**levels - 1, -parameter))
    ones = np.array([index.bit_count() for index in range(2**levels)])
    return -parameter * ones.astype(float)


# ---- expected excess


def exponential(groups: Groups) -> float:
    weights = [count * math.exp(BOUNDED_RANGE / 2 * score) for score, count in groups]
    excess = [-score * weight for (score, _), weight in zip(groups, weights, strict=True)]
    return math.fsum(excess) / math.fsum(weights)


def permute_and_flip(groups: Groups, epsilon: float) -> float:
    """P(i) = integral over v from 0 to 1 of w_i prod over j != i of (1 - w_j v), in ln v."""
    log_v = -20 * (1 - LEGENDRE)  # down to e^-40
    v = np.exp(log_v)
    coins = [math.exp(epsilon / 2 * score) for score, _ in groups]
    rest = np.zeros_like(v)
    for coin, (_, count) in zip(coins, groups, strict=True):
        rest += count * np.log1p(-np.minimum(coin * v, 1 - 1e-16))
    total = 0.0
    for coin, (score, count) in zip(coins, groups, strict=True):
        own = rest - np.log1p(-np.minimum(coin * v, 1 - 1e-16))
        total += -score * count * coin * float((20 * LEGENDRE_WEIGHTS * v * np.exp(own)).sum())
    return total


def tree(scores: Floats, branching: int) -> float:
    """From the leaves up: the expected excess below each node, given that the walk gets there."""
    levels = round(math.log(scores.size, branching))
    spread = math.sqrt(levels * branching)  # of normal noise on each child, see `tree`
    best, expected = scores, scores.max() - scores
    while best.size > 1:
        children = best.reshape(-1, branching)
        chances = np.ones_like(children)
        if branching == 2:
            chances[:, 0] = special.ndtr((children[:, 0] - children[:, 1]) / (spread * 2**0.5))
            chances[:, 1] = 1 - chances[:, 0]
        else:
            for child in range(branching):
                ahead = (children[:, [child]] - np.delete(children, child, axis=1)) / spread
                inner = special.ndtr(ahead[:, :, None] + HERMITE).prod(axis=1)
                chances[:, child] = inner @ HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()
        expected = (chances * expected.reshape(-1, branching)).sum(axis=1)
        best = children.max(axis=1)
    return float(expected[0])


def worst(excess: Callable[[float], float], steps: Sequence[float]) -> tuple[float, float]:
    """The largest excess and the parameter there."""
    return max((excess(step), step) for step in steps)


def excesses(
    name: str, levels: int, *, epsilon: float, shuffles: int
) -> list[tuple[float, float] | None]:
    generator = np.random.default_rng(levels)
    size = 2**levels

    def shuffled(branching: int, parameter: float) -> float:
        scores = leaves(name, levels, parameter)
        if name == "needle":  # its place does not matter
            return tree(scores, branching)
        return float(
            np.mean([tree(scores[generator.permutation(size)], branching) for _ in range(shuffles)])
        )

    groups = FAMILIES[name]
    whole, steps = levels % 2 == 0, STEPS if name == "needle" else STEPS[6:21]
    return [
        worst(lambda p: tree(leaves(name, levels, p), 2), STEPS),
        worst(lambda p: shuffled(2, p), steps),
        worst(lambda p: tree(leaves(name, levels, p), 4), steps) if whole else None,
        worst(lambda p: shuffled(4, p), steps) if whole else None,
        worst(lambda p: exponential(groups(levels, p)), STEPS),
        worst(lambda p: permute_and_flip(groups(levels, p), epsilon), STEPS),
    ]


def drawn(levels: int, draws: int, epsilon: float) -> list[tuple[str, float, float, float]]:
    """What the mechanisms themselves do on a ladder, beside what is computed."""
    scores, groups, bits = leaves("ladder", levels, 2.0), ladder(levels, 2.0), SeededBits(1)
    walks = {
        f"tree, {b}-ary": (TreeSelection(noise_multiplier=1, sensitivity=1, branching=b), b)
        for b in (2, 4)
    }
    cases: list[tuple[str, Any, float]] = [
        *((name, walk, tree(scores, b)) for name, (walk, b) in walks.items()),
        ("exponential", Exponential(epsilon=BOUNDED_RANGE, sensitivity=1), exponential(groups)),
        (
            "permute-and-flip",
            PermuteAndFlip(epsilon=epsilon, sensitivity=1),
            permute_and_flip(groups, epsilon),
        ),
    ]
    found = []
    for name, mechanism, exact in cases:
        lost = -scores[[mechanism.release(scores, bits=bits) for _ in range(draws)]]
        found.append((name, exact, float(lost.mean()), float(lost.std() / draws**0.5)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--levels", type=int, nargs="+", default=[4, 6, 8, 10, 12, 14, 16])
    parser.add_argument("--shuffles", type=int, default=8)
    parser.add_argument("--draws", type=int, default=3000)
    add_json(parser)
    given = parser.parse_args()
    epsilon = pure_epsilon()
    print(
        f"rho = {RHO}: tree of noise multiplier 1, exponential mechanism of bounded range "
        f"{BOUNDED_RANGE:g}, permute-and-flip of epsilon {epsilon:.3f}"
    )
    names = ["tree", "shuffled", "4-ary", "4-ary shuffled", "exponential", "permute-and-flip"]
    columns = [("candidates", ">"), *((name, ">") for name in names), ("tree / k^1.5", ".2f")]
    with Report(__file__, given.json) as report:
        for name in FAMILIES:
            title = f"{name}: largest expected excess (at parameter)"
            row = report.table(f"losses-{name}", columns, title=title)
            for levels in given.levels:
                found = excesses(name, levels, epsilon=epsilon, shuffles=given.shuffles)
                cells = [f"{one[0]:.2f} ({one[1]:.1f})" if one else "-" for one in found]
                row(f"2^{levels}", *cells, found[0][0] / levels**1.5 if found[0] else None)
        columns = [("mechanism", ""), *((one, ".3f") for one in ("computed", "drawn"))]
        title = "2^6 candidates, ladder of step 2: computed, and drawn from the mechanisms"
        row = report.table("drawn", [*columns, ("standard error", ".3f")], title=title)
        for found in drawn(6, given.draws, epsilon):
            row(*found)


if __name__ == "__main__":
    main()
