"""Neighboring relations: which pairs of tables a guarantee compares."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import enum

from unacorda.errors import InvalidParameter


class Neighbors(enum.Enum):
    """A neighboring relation: two tables are neighbors if they differ in this way.

    Used as ``neighbors=unacorda.AddRemove``.

    >>> ReplaceOne
    ReplaceOne
    >>> Neighbors("add_remove") is AddRemove
    True
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"

    def __repr__(self) -> str:
        return {"add_remove": "AddRemove", "replace_one": "ReplaceOne", "zero_out": "ZeroOut"}[
            self.value
        ]

    __str__ = __repr__


AddRemove = Neighbors.ADD_REMOVE
"""One table is the other without one unit (a person with all of their rows, or a row)."""

ReplaceOne = Neighbors.REPLACE_ONE
"""Both tables have the same size; one unit's contribution is replaced by any other."""

ZeroOut = Neighbors.ZERO_OUT
"""Both tables have the same size; one unit's contribution is replaced by an empty one."""


def check_neighbors(value: object) -> None:
    """Refuse a value that is not a relation."""
    if not isinstance(value, Neighbors):
        raise InvalidParameter(
            "neighbors",
            value,
            expected="unacorda.AddRemove, unacorda.ReplaceOne or unacorda.ZeroOut",
        )


def check_added_or_replaced(value: object) -> None:
    """Refuse every relation except AddRemove and ReplaceOne."""
    if value is not AddRemove and value is not ReplaceOne:
        raise InvalidParameter(
            "neighbors", value, expected="unacorda.AddRemove or unacorda.ReplaceOne"
        )
