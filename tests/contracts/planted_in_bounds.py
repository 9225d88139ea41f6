"""Faults that are planted in more than one audit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import pytest
from tests.support.seams import bounding


def groups_not_bound(patch: pytest.MonkeyPatch) -> None:
    """Of a person all groups are kept, whatever the unit says."""
    right = bounding.steps_of
    patch.setattr(
        bounding,
        "steps_of",
        lambda unit, *, cells: dataclasses.replace(right(unit, cells=cells), groups=None),
    )
