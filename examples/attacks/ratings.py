"""Whose ratings are these? A few things that somebody said, and a table without names.

    python examples/attacks/ratings.py [--picture ratings.svg]

A service publishes what 3,000 made-up people rated and when, their names replaced by numbers. An
acquaintance knows some films a person saw, about how she liked them and about when. Few ratings are
enough to find her record, and with it all others. Noise on single records is no remedy: it takes
the worth of the table before it hides anybody. What is private are counts about all of them, such
as unacorda's sessions answer. Needs `pip install 'unacorda[plots]'`.
Source: Narayanan and Shmatikov 2008.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unacorda import plots
from unacorda.attacks import linkage

Floats = NDArray[np.float64]

PEOPLE, FILMS, TRIED = 3000, 600, 60
KNOWN = (1, 2, 3, 4, 6, 8)
NOISES = (0.0, 2.0, 6.0)


def table() -> tuple[Floats, Floats]:
    """Ratings from 1 to 5 and their days, NaN where there is none; some films are seen by many."""
    drawn = np.random.default_rng(2026)
    popular = np.sort(drawn.beta(0.4, 6.0, size=FILMS))
    seen = drawn.random((PEOPLE, FILMS)) < popular
    ratings = np.where(seen, drawn.integers(1, 6, size=seen.shape), np.nan)
    return ratings, np.where(seen, drawn.uniform(0, 1000, size=seen.shape), np.nan)


def share_found(known: int, noise: float) -> float:
    """The share of people who are found by so many films, the released ratings and days noisy."""
    ratings, days = table()
    drawn = np.random.default_rng(known)
    told = ratings + noise * drawn.laplace(size=ratings.shape)
    when = days + 30 * noise * drawn.laplace(size=days.shape)
    right = 0
    for person in range(TRIED):
        films = np.flatnonzero(~np.isnan(ratings[person]))
        chosen = drawn.choice(films, size=min(known, films.size), replace=False)
        facts, about = np.full(FILMS, np.nan), np.full(FILMS, np.nan)
        facts[chosen] = ratings[person, chosen] + drawn.integers(-1, 2, size=chosen.size)
        about[chosen] = days[person, chosen] + drawn.uniform(-14, 14, size=chosen.size)
        right += linkage(told, facts, times=when, known_times=about).match == person
    return right / TRIED


def main() -> None:
    """Link, print the shares and draw them."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("ratings.svg"))
    options = ask.parse_args()
    shares = {
        f"noise of {noise:g} stars": [share_found(known, noise) for known in KNOWN]
        for noise in NOISES
    }
    for name, line in shares.items():
        told = ", ".join(
            f"{share:.0%} by {known}" for share, known in zip(line, KNOWN, strict=True)
        )
        print(f"{name}: found {told}")
    axes = plots.coverage(KNOWN, shares, nominal=1.0, nominal_name="everybody")
    axes.set(xscale="linear", xlabel="films known", ylabel="share of people found", ylim=(0, 1.35))
    axes.legend(loc="upper left", ncols=2)
    axes.figure.savefig(options.picture)
    print(f"drawn: {options.picture}")


if __name__ == "__main__":
    main()
