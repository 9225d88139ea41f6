"""The order of questions, and the times at which answers are sent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

from unacorda.server.problems import Problem


class RoundRobin:
    """Slots that analysts take in turn, one each at a time.

    An analyst with many questions delays another by at most one question. The next question of an
    analyst begins after `hold` of the last one, when its answer is sent. So an analyst's own
    account does not reveal more precisely when a question ended.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._change = threading.Condition()
        self._waiting: OrderedDict[str, deque[object]] = OrderedDict()
        self._running: dict[str, int] = {}
        self._held: dict[str, float] = {}  # by analyst, until when
        self._claimed: set[str] = set()
        self._closed = False
        self.waited = 0.0
        """Seconds spent waiting, of all together."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._change:
            return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """How many have a slot."""
        with self._change:
            return sum(self._running.values())

    def waiting_of(self, analyst: str) -> int:
        """How many questions of an analyst wait or run."""
        with self._change:
            return len(self._waiting.get(analyst, ())) + self._running.get(analyst, 0)

    def claim(self, analyst: str) -> bool:
        """Whether a question of an analyst can begin at once; its slot then counts as taken.

        Call `slot` or `forgo` afterwards.
        """
        with self._change:
            busy = analyst in self._running or analyst in self._claimed or bool(self._waiting)
            held = self._held.get(analyst, 0.0) > time.monotonic()
            if busy or held or self._free <= len(self._claimed):
                return False
            self._claimed.add(analyst)
            return True

    def forgo(self, analyst: str) -> None:
        """Give up a claim."""
        with self._change:
            self._claimed.discard(analyst)

    @contextlib.contextmanager
    def slot(self, analyst: str, *, waits: Callable[[], object] = lambda: None) -> Iterator[None]:
        """One slot while inside. waits: called if none is free.

        Raises Problem for waiting questions when the server ends.
        """
        start, ticket = time.monotonic(), object()
        with self._change:
            self._waiting.setdefault(analyst, deque()).append(ticket)
            at_once = self._is_next(ticket)
        if not at_once:
            waits()
        with self._change:
            try:
                while not self._is_next(ticket):
                    self._check_open()
                    self._change.wait(self._until_a_hold_ends())
                self._check_open()
            except BaseException:
                self._forget(analyst, ticket)
                self._change.notify_all()
                raise
            finally:
                self._claimed.discard(analyst)
            self._forget(analyst, ticket)
            if analyst in self._waiting:
                self._waiting.move_to_end(analyst)
            self._free -= 1
            self._running[analyst] = 1
            self.waited += time.monotonic() - start
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._free += 1
                del self._running[analyst]
                self._change.notify_all()

    def hold(self, analyst: str, seconds: float) -> None:
        """Begin no question of an analyst for so long; call it inside their slot."""
        now = time.monotonic()
        with self._change:
            self._held = {name: until for name, until in self._held.items() if until > now}
            self._held[analyst] = now + seconds

    def close(self) -> None:
        """Give no more slots; running questions continue."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait at most so long; return whether nothing runs."""
        with self._change:
            return self._change.wait_for(lambda: not self._running, timeout=seconds)

    def _is_next(self, ticket: object) -> bool:
        if not self._free:
            return False
        now = time.monotonic()
        for analyst, tickets in self._waiting.items():
            if analyst not in self._running and self._held.get(analyst, 0.0) <= now:
                return tickets[0] is ticket
        return False

    def _until_a_hold_ends(self) -> float | None:
        now = time.monotonic()
        ends = [
            until for name, until in self._held.items() if name in self._waiting and until > now
        ]
        return min(ends) - now if ends else None

    def _forget(self, analyst: str, ticket: object) -> None:
        self._waiting[analyst].remove(ticket)
        if not self._waiting[analyst]:
            del self._waiting[analyst]

    def _check_open(self) -> None:
        if self._closed:
            raise Problem("stopped", "The server ends. Ask again in a minute.")


AnswerTimes: TypeAlias = Literal["stepped", "at once"] | float
"""When answers leave: at 0.25, 0.5, 1, 2, ... seconds, at once, or at multiples of seconds."""

_FIRST_STEP: Final = 0.25


def leaves_after(times: AnswerTimes, seconds: float) -> float:
    """When an answer that was ready after this time is sent, in seconds after arrival.

    >>> leaves_after(2.0, 2.5), leaves_after("stepped", 2.5), leaves_after("at once", 2.5)
    (4.0, 4.0, 2.5)
    """
    seconds = max(seconds, 0.0)
    match times:
        case "at once":
            return seconds
        case "stepped":
            step = _FIRST_STEP
            while step < seconds:
                step *= 2
            return step
        case _:
            return times * max(math.ceil(seconds / times), 1)
