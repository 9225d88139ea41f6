"""Learning: what training with PyTorch needs to be doubted, canaries in a model's training.

Needs `pip install 'unacorda[learning]'`; PyTorch is imported where it is used, so that whoever
lacks it reads `MissingExtra` from the function that she called.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.learning.examples import ExampleCanaries, canaries, mislabelled
from unacorda.learning.gradients import GradientCanaries, dirac, scattered
from unacorda.learning.parameters import Watched, movement, snapshot, watch

__all__ = [
    "ExampleCanaries",
    "GradientCanaries",
    "Watched",
    "canaries",
    "dirac",
    "mislabelled",
    "movement",
    "scattered",
    "snapshot",
    "watch",
]
