"""How long an engine may work for one call, after which it is interrupted.

Expiry leaves as any failure does: as `EngineFailed`, of constant text. That it came depends on the
data, as the running time does: see docs/promise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from unacorda import checks
from unacorda.errors import InvalidParameter

__all__ = ["check_timeout", "interrupted_after"]

_AGAIN = 0.05  # seconds; an interrupt between two statements stops neither
_LONGEST = 10_000_000.0  # seconds; what threads can wait for has an end


def check_timeout(timeout: object) -> float | None:
    """The seconds; InvalidParameter for what is no number of them, or None."""
    if timeout is None:
        return None
    expected = f"seconds, above 0 and at most {_LONGEST:,.0f}, or None"
    try:
        seconds = checks.positive(timeout=timeout)  # type: ignore[arg-type]
    except InvalidParameter:
        seconds = 2 * _LONGEST
    if seconds > _LONGEST:
        raise InvalidParameter("timeout", timeout, expected=expected)
    return seconds


@contextlib.contextmanager
def interrupted_after(seconds: float | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """Interrupt what runs inside once it has run so long, again and again until it ends.

    Raises TimeoutError at its end where it ended by itself, but late. None: never.
    """
    if seconds is None:
        yield
        return
    ended, late = threading.Event(), threading.Event()

    def watch() -> None:
        pause = seconds
        while not ended.wait(pause):
            late.set()
            with contextlib.suppress(Exception):  # it may have ended, or be closed
                interrupt()
            pause = _AGAIN

    watcher = threading.Thread(target=watch, name="unacorda timeout", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()  # so that nothing that runs later is interrupted
    if late.is_set():
        raise TimeoutError
