"""Rewriting the parts of a composition."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator

from unacorda.privacy.events import Composed, Event, Gaussian, Repeated, compose


def with_parts(event: Event, rewrite: Callable[[Event], Event]) -> Event:
    """A composition with each part rewritten; the event itself where no part changes.

    rewrite: gives back its argument where it has nothing to do.

    Bound       none: that of `rewrite`.
    Source      the event.

    >>> from unacorda.privacy.events import Pure
    >>> with_parts(Pure(epsilon=1) * 2, lambda event: Pure(epsilon=2))
    Repeated(event=Pure(epsilon=2), count=2)
    """
    match event:
        case Repeated(event=one, count=count):
            other = rewrite(one)
            return event if other is one else compose([other], count=count)
        case Composed(parts=parts):
            others = [rewrite(part) for part in parts]
            same = all(other is part for other, part in zip(others, parts, strict=True))
            return event if same else compose(others)
        case _:
            return rewrite(event)


def leaves(event: Event) -> Iterator[Event]:
    """The different events of which a composition consists; the event itself if it is none.

    Bound       none: it only looks.
    Source      the event.
    """
    for part in event.parts if isinstance(event, Composed) else (event,):
        yield part.event if isinstance(part, Repeated) else part


def only_gaussian(event: Event) -> bool:
    """Whether the event is Gaussian mechanisms and nothing else.

    Bound       none: it only looks.
    Source      the event.
    """
    return all(isinstance(one, Gaussian) for one in leaves(event))
