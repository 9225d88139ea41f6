"""Faults that are planted in more than one audit."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses

import pytest
from tests.support.planting import plant
from tests.support.seams import bound_pairs, steps_of


def groups_not_bound(patch: pytest.MonkeyPatch) -> None:
    """Of a person all groups are kept, whatever the unit says."""
    plant(
        patch,
        steps_of,
        lambda unit, *, cells: dataclasses.replace(steps_of(unit, cells=cells), groups=None),
    )
    plant(patch, bound_pairs, lambda rows, **given: bound_pairs(rows, **(given | {"most": None})))
