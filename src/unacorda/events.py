"""Events for users: ``from unacorda import events``; they are defined in privacy/events."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.privacy.events import algebra, from_json, matrices, noise, promises, selection
from unacorda.privacy.events.algebra import *  # noqa: F403
from unacorda.privacy.events.matrices import *  # noqa: F403
from unacorda.privacy.events.noise import *  # noqa: F403
from unacorda.privacy.events.promises import *  # noqa: F403
from unacorda.privacy.events.selection import *  # noqa: F403

__all__ = ["from_json"]
__all__ += algebra.__all__
__all__ += matrices.__all__
__all__ += noise.__all__
__all__ += promises.__all__
__all__ += selection.__all__
