"""A command that is interrupted: what was charged since it began."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

__all__ = ["Invocation"]


@dataclass(slots=True)
class Invocation:
    """A command as it was called.

    arguments: as written; charges: what the account that pays was charged since a time, in words;
    None before it is known.
    """

    arguments: Sequence[str]
    charges: Callable[[datetime], str] | None = None
    interrupted: bool = False
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first interrupt raise KeyboardInterrupt; while it is reported, ignore others."""
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if ignored or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.interrupted = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def charged(self) -> str:
        """What was charged since the command began, in words."""
        if self.charges is None:
            return "No ledger was charged."
        try:
            return self.charges(self.began)
        except Exception:  # noqa: BLE001  # whatever it is, the interrupt is what is reported
            return "What the account was charged stands in unacorda ledger show."
