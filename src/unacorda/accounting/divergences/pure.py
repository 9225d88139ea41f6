"""The pure epsilon of any event, where it has one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.accounting.amplification.relations import check_relation
from unacorda.accounting.arguments import Events, joined
from unacorda.accounting.rules.base import pure_of
from unacorda.privacy.events import Event, Pure
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import float_above

__all__ = ["checked_pure_epsilon", "pure_epsilon"]

_NOTHING = Pure(epsilon=0)


def pure_epsilon(events: Events, *, neighbors: Neighbors = AddRemove) -> float | None:
    r"""The epsilon for which the events together are epsilon-DP, or None where they are not pure.

    Statement   sums over compositions; log(1 + rate (e^epsilon - 1)) for a sample; shuffling
                amplifies no pure guarantee.
    Bound       upper, rounded up.
    Source      pure_price; approx_dp_of_sample.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> pure_epsilon(Pure(epsilon=1.0) * 3), pure_epsilon(Gaussian(noise_multiplier=1.0))
    (3.0, None)
    """
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else checked_pure_epsilon(event, neighbors)


def checked_pure_epsilon(event: Event, neighbors: Neighbors) -> float | None:
    """`pure_epsilon` of an event whose numbers and relation have been checked.

    Bound       upper, rounded up.
    Source      as pure_epsilon.
    """
    found = pure_of(event, neighbors)
    return None if found is None else float_above(found)
