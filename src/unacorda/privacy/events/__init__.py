"""Events: what a mechanism did, as frozen values; accountants price them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TypeAlias

from unacorda.privacy.events import algebra, matrices, noise, promises, selection
from unacorda.privacy.events.algebra import *  # noqa: F403
from unacorda.privacy.events.matrices import *  # noqa: F403
from unacorda.privacy.events.noise import *  # noqa: F403
from unacorda.privacy.events.promises import *  # noqa: F403
from unacorda.privacy.events.selection import *  # noqa: F403

__all__ = ["Event"]
__all__ += algebra.__all__
__all__ += matrices.__all__
__all__ += noise.__all__
__all__ += promises.__all__
__all__ += selection.__all__

Event: TypeAlias = (
    noise.Noise | promises.Promise | algebra.Combined | selection.Tries | matrices.Correlated
)
"""The closed union: of a kind without rules (accounting/rules) the accountant knows nothing."""
