"""Events: what a mechanism did, as frozen values; accountants price them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.privacy.events import algebra, codec, matrices, noise, promises, selection
from unacorda.privacy.events.algebra import *  # noqa: F403
from unacorda.privacy.events.algebra import Event
from unacorda.privacy.events.matrices import *  # noqa: F403
from unacorda.privacy.events.noise import *  # noqa: F403
from unacorda.privacy.events.promises import *  # noqa: F403
from unacorda.privacy.events.selection import *  # noqa: F403

__all__: list[str] = []
__all__ += algebra.__all__
__all__ += matrices.__all__
__all__ += noise.__all__
__all__ += promises.__all__
__all__ += selection.__all__

EVENT_KINDS: tuple[type[Event], ...] = tuple(
    kind
    for kind in map(globals().__getitem__, __all__)
    if isinstance(kind, type) and kind is not Event
)
"""Every kind of event: what these modules list, and nothing else."""


def from_json(text: str) -> Event:
    """Reads the event that `Event.to_json` wrote.

    Parameters
    ----------
    text
        The JSON text of an event.

    Returns
    -------
    Event
        Equal to the event that was written.

    Raises
    ------
    InvalidParameter
        For any other text.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from unacorda.privacy.events import Gaussian
    >>> from_json(Gaussian(noise_multiplier=Fraction(1, 3)).to_json())
    Gaussian(noise_multiplier=Fraction(1, 3))
    """
    event: Event = codec.read(text, EVENT_KINDS)
    return event
