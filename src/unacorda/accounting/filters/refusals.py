"""What a filter says about a limit or a cost that it cannot work with."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy.guarantees import Additive, ApproxDP


def cannot_add(cost: object, limit: object, *, hint: str | None = None) -> Exception:
    """The error for a cost that is no guarantee of a kind that the filter adds.

    A guarantee of another kind is WrongUnit. Anything else (an event, a privacy loss
    distribution, a trade-off curve) is UnsupportedEvent, and the message says why: curves may be
    convolved where all mechanisms are fixed before the first answer. Where later mechanisms are
    chosen after seeing earlier answers, the test "does the convolution of what was asked so far
    stay below the target?" bounds each path by itself, but not the mixture over paths that the
    chooser makes of them.
    """
    if isinstance(cost, Additive):
        return WrongUnit(cost, limit, hint=hint or f"Charge in the unit of {limit}.")
    return UnsupportedEvent(
        cost,
        kind="a filter",
        try_instead=(
            "A filter adds numbers; it does not convolve privacy loss distributions or trade-off "
            "curves, because that is unsound where questions are chosen after seeing answers. "
            "Compose what is fixed beforehand, price that batch once as a guarantee (PureDP, "
            "ZCDP, GDP, RenyiDP or ApproxDP), and spend the guarantee."
        ),
    )


def approximate_limit(limit: object) -> ApproxDP:
    """The limit, if it is ApproxDP with a delta strictly between 0 and 1."""
    if isinstance(limit, ApproxDP) and 0 < limit.delta < 1:
        return limit
    if isinstance(limit, Additive):
        expected = "ApproxDP with a delta strictly between 0 and 1"
        raise InvalidParameter("limit", limit, expected=expected)
    raise cannot_add(limit, None)
