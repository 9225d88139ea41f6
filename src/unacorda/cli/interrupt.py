"""A command that is interrupted: what was charged since it began."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

__all__ = ["Invocation"]


@dataclass(slots=True)
class Invocation:
    """A command as it was called, and the account that pays, once that is known.

    arguments: as written; account: the address of its ledger and its name there.
    """

    arguments: Sequence[str]
    account: tuple[str, str] | None = None
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
        if self.account is None:
            return "No ledger was charged."
        ledger, name = self.account
        try:
            return self._charged(ledger, name)
        except Exception:  # noqa: BLE001  # whatever it is, the interrupt is what is reported
            return f"What account {name!r} was charged stands in unacorda ledger show."

    def _charged(self, ledger: str, name: str) -> str:
        from unacorda.cli.ledger import accounts, opened
        from unacorda.privacy.guarantees import guarantee_from_json

        nothing = f"Nothing was charged to account {name!r}."
        if name not in accounts(ledger):
            return nothing
        with opened(ledger, must_exist=True) as book:
            entries = book.entries(name)
        voided = {entry.reservation for entry in entries if entry.state == "voided"}
        charges = [
            guarantee_from_json(entry.charge)
            for entry in entries
            if entry.state == "reserved"
            and entry.reservation not in voided
            and datetime.fromisoformat(entry.time) >= self.began
        ]
        if not charges:
            return nothing
        first, *others = charges
        return f"Account {name!r} was charged {sum(others, start=first)}, which stays spent."
