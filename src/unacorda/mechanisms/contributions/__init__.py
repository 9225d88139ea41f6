"""Bounded contributions: clipped rows and users, and sums that are exact."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.contributions.clipping import (
        clip_rows,
        clip_users,
        clipping_sensitivity,
    )
    from unacorda.mechanisms.contributions.sums import fixed_point_sensitivity, fixed_point_sum

__all__ = [
    "clip_rows",
    "clip_users",
    "clipping_sensitivity",
    "fixed_point_sensitivity",
    "fixed_point_sum",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "clipping": "clip_rows clip_users clipping_sensitivity",
        "sums": "fixed_point_sensitivity fixed_point_sum",
    },
)
