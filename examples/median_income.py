"""The median income of 1,000 Californians, told privately in several ways.

    python examples/median_income.py

The data are public (Public Use Microdata Sample of the US Census, bundled with the package), so
that the true median can stand beside the answers. Incomes are whole dollars, and all that is
assumed of them is that they lie between 0 and a billion.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
from importlib import resources

from unacorda import ZCDP, PureDP
from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms import InverseSensitivity
from unacorda.mechanisms.data_dependent import Median

BILLION = 10**9
BUDGETS = (PureDP(0.1), PureDP(1), ZCDP(0.005), ZCDP(0.5))


def incomes() -> list[int]:
    """One whole number a person."""
    file = resources.files("unacorda.cli") / "data" / "pums.csv"
    with file.open() as lines:
        return [int(float(row["income"])) for row in csv.DictReader(lines)]


def report(values: list[int], *, bits: RandomBits) -> list[str]:
    """A line for every budget: the mechanism it buys, the answer, and how far that may be off."""
    median = Median(lower=0, upper=BILLION)
    lines = [f"the true median: {median.value(values):,.0f}"]
    for budget in BUDGETS:
        # grid_log2=0: whole dollars. The budget chooses the selection.
        mechanism = InverseSensitivity.for_guarantee(budget, statistic=median, grid_log2=0)
        answer = mechanism.release(values, bits=bits)
        # Adding or removing two people moves the median by a rank.
        ranks = mechanism.error_bound(0.95) / 2
        lines.append(
            f"{budget}: {answer:,.0f} by {mechanism.selection}; with 95 % probability within "
            f"{ranks:g} ranks of the middle, whatever the data"
        )
    laplace = BILLION / 2
    lines.append(
        f"Laplace noise for the worst data there could be: off by {laplace:,.0f} or more at "
        "epsilon 1, more often than not"
    )
    return lines


def main() -> None:
    """Print the report, each run with new noise."""
    print("\n".join(report(incomes(), bits=SecureBits())))


if __name__ == "__main__":
    main()
