"""Losses of the mode: by how many the most frequent category is ahead of another one.

Under addition and removal that is the least number of changes that make the other one a mode. A
record moves one count, so that all counts move the same way, and the loss differs from minus the
count by the same number for all categories: half the usual factor is enough.

Under replacement one change lowers one count and raises another, so that the loss moves by up to 2.
It still differs from minus the count by a number that all categories share, and a count moves by at
most 1: selection, which that number does not touch, pays for 1 and not for 2. The least number of
changes is smaller (the least t with the sum over others of (c_z - c_y - t)+ at most t) and moves by
1, but is no better: the counts lie farther apart. So counts serve both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np

from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps

__all__ = ["behind_the_mode"]


def behind_the_mode(counts: Steps) -> Runs:
    """The loss of each category, one run for each, from how many records it has."""
    return Runs(np.arange(counts.size, dtype=np.int64), np.ones_like(counts), counts.max() - counts)
