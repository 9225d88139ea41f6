"""A time by which plans and prices are to be computed, for servers: it reads no data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from unacorda.errors import DeadlinePassed

_end: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let what is computed inside raise DeadlinePassed after so many seconds, of this thread alone.

    It ends once a charge is reserved: what is paid for is answered.

    >>> with deadline(60):
    ...     check_deadline()
    """
    token = _end.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _end.reset(token)


def check_deadline() -> None:
    """Raise DeadlinePassed where there is a deadline, and it has passed."""
    known = _end.get()
    if known is not None and time.monotonic() > known[0]:
        raise DeadlinePassed(seconds=known[1])


def lift_deadline() -> None:
    """Have no deadline any more."""
    _end.set(None)
