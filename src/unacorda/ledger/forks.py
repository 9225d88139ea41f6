"""Forks of a process whose threads use a ledger: no unfinished transaction is copied."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """A store with connections, which a parent and its child must not share."""

    def before_fork(self) -> None:
        """Prepare the parent while no thread is in a transaction."""

    def after_fork_in_child(self) -> None:
        """Prepare the child before anything else."""


_stores: weakref.WeakSet[Forked] = weakref.WeakSet()
_inside = threading.local()  # depth: how many blocks this thread is in, a fork among them


class _Gate:
    """Which threads are inside, and how many fork: one, unless a signal came in a block."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal may come while its own thread holds it
        self.changed = threading.Condition(self.lock)
        self.inside: set[int] = set()
        self.forking = 0


_gate = _Gate()


class _Block:
    """What `no_fork` gives: one for all, since what it knows is in the gate and in the threads."""

    __slots__ = ()

    def __enter__(self) -> None:
        depth = getattr(_inside, "depth", 0)
        if depth == 0:
            gate = _gate
            with gate.lock:
                while gate.forking:
                    gate.changed.wait()
                gate.inside.add(threading.get_ident())
        _inside.depth = depth + 1

    def __exit__(self, *_raised: object) -> None:
        depth = _inside.depth - 1
        if depth == 0:
            gate = _gate
            with gate.lock:
                gate.inside.discard(threading.get_ident())
                if gate.forking:
                    gate.changed.notify_all()
        _inside.depth = depth


_BLOCK = _Block()


def no_fork() -> _Block:
    """A block during which forks by other threads wait.

    A child has the memory of its parent and one thread. Locks that other threads held, in a driver,
    a pool or a library below them, would never be released there. Blocks may be nested.
    """
    return _BLOCK


def tell_of_forks(store: Forked) -> None:
    """Notify a store of forks, as long as it exists."""
    _stores.add(store)


def _before() -> None:
    depth = getattr(_inside, "depth", 0)
    me = {threading.get_ident()}
    with _gate.lock:
        if depth == 0:  # who is inside is waited for, and so must not wait
            _gate.changed.wait_for(lambda: not _gate.forking)
        _gate.forking += 1
        _gate.changed.wait_for(lambda: _gate.inside <= me)
    _inside.depth = depth + 1
    if depth == 0:  # else a signal came in the middle of a transaction, which is left alone
        for store in list(_stores):
            store.before_fork()


def _after_in_parent() -> None:
    _inside.depth -= 1
    with _gate.lock:
        _gate.forking -= 1
        _gate.changed.notify_all()


def _after_in_child() -> None:
    global _gate  # noqa: PLW0603  # its locks may be held by threads that are not here
    _inside.depth -= 1
    _gate = _Gate()
    if _inside.depth:
        _gate.inside.add(threading.get_ident())
    for store in list(_stores):
        store.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
