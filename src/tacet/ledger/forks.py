"""Forks of a process whose threads use a ledger: no transaction is ever copied half way."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol

__all__ = ["Forked", "no_fork", "tell_of_forks"]


class Forked(Protocol):
    """A store that holds connections, of which a parent and its child must not share one."""

    def before_fork(self) -> None:
        """What the parent does while no thread is in a transaction."""

    def after_fork_in_child(self) -> None:
        """What the child does before anything else."""


_stores: weakref.WeakSet[Forked] = weakref.WeakSet()
_inside = threading.local()  # depth: how many blocks this thread is in, a fork among them


class _Gate:
    """How many threads are inside, and whether one of them forks."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.threads = 0
        self.forking = False


_gate = _Gate()


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """A block in which this process is not forked by another thread: forks wait for its end.

    A child has the memory of its parent and one thread. Locks that the others held, in a driver, a
    pool or a library below them, would never be released there. Blocks may be nested.
    """
    depth = getattr(_inside, "depth", 0)
    if depth == 0:
        with _gate.changed:
            _gate.changed.wait_for(lambda: not _gate.forking)
            _gate.threads += 1
    _inside.depth = depth + 1
    try:
        yield
    finally:
        if depth == 0:
            with _gate.changed:
                _gate.threads -= 1
                _gate.changed.notify_all()
        _inside.depth = depth


def tell_of_forks(store: Forked) -> None:
    """From now on a store is told of forks, as long as it is there."""
    _stores.add(store)


def _before() -> None:
    depth = getattr(_inside, "depth", 0)
    mine = 1 if depth else 0
    with _gate.changed:
        _gate.changed.wait_for(lambda: not _gate.forking)
        _gate.forking = True
        _gate.changed.wait_for(lambda: _gate.threads <= mine)
    _inside.depth = depth + 1
    if depth == 0:  # else a signal came in the middle of a transaction, which is left alone
        for store in list(_stores):
            store.before_fork()


def _after_in_parent() -> None:
    _inside.depth -= 1
    with _gate.changed:
        _gate.forking = False
        _gate.changed.notify_all()


def _after_in_child() -> None:
    global _gate  # noqa: PLW0603  # its locks may be held by threads that are not here
    _inside.depth -= 1
    _gate = _Gate()
    _gate.threads = 1 if _inside.depth else 0
    for store in list(_stores):
        store.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
