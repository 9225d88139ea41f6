"""All page visits of a site, where nobody knows how often one person may come.

    python examples/page_visits.py

Most people come once, and a few crawlers come thousands of times. A person may have made any number
of visits, so noise for the worst case has no scale; and a bound set by hand either cuts off too
much or pays for people who are not there. Two ways without such a bound, each for epsilon 1.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits, SecureBits
from unacorda.mechanisms.data_dependent import FoundClipping, ShiftedInverse, Sum, geometric_grid

PEOPLE = 20_000
LARGEST = 10**9  # where the public grids end: nobody believes in so many visits in all


def visits() -> NDArray[np.int64]:
    """How often each person came, made up: Zipf's law, from once up to ten thousand times."""
    times = np.arange(1, 10_001)
    chances = times**-2.2
    drawn = np.random.default_rng(2026).choice(times, size=PEOPLE, p=chances / chances.sum())
    return drawn.astype(np.int64)


def report(per_person: NDArray[np.int64], *, bits: RandomBits) -> list[str]:
    """The true total, and a line for each way to tell it privately."""
    shifted = ShiftedInverse(
        statistic=Sum(lower=0, upper=None),
        epsilon=1,
        grid=geometric_grid(1, LARGEST, ratio=1.01, whole=True),
    )
    clipped = FoundClipping(epsilon=1, levels=geometric_grid(1, LARGEST, ratio=1.2, whole=True))
    below = shifted.release(per_person, bits=bits)
    found = clipped.release(per_person, bits=bits)
    sure = f"{below.confidence:.0%} sure"
    return [
        f"the true total: {per_person.sum():,} visits of {per_person.size:,} people",
        (
            f"shifted inverse: {below.value:,.0f}; all people made no fewer visits, to within 1 %, "
            f"and without some {below.people} of them they made no more ({sure})"
        ),
        (
            f"clipped at {found.level:,.0f} visits a person, as found: {found.value:,.0f}, give or "
            f"take {found.standard_deviation:,.0f} for the noise"
        ),
    ]


def main() -> None:
    """Print the report, each run with new noise."""
    print("\n".join(report(visits(), bits=SecureBits())))


if __name__ == "__main__":
    main()
