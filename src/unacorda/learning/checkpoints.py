r"""Checkpoints of a private training: its state, and the number of steps begun.

A step is counted on disk before its random numbers are drawn, and its number labels its sampling
and its noise. So a step that a crash interrupts is charged and never drawn again; two sums with the
same noise would show their difference exactly. A training that continues from a checkpoint draws a
new secret for independent noise, so two copies of one checkpoint share none. With correlated noise
a run and its copy share earlier draws, and only one of them may continue. The secret of the noise
is in a file of its own that only its owner can read: an attacker with it and the weights can
subtract the noise.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.learning.noise.keys import NoiseKey
from unacorda.learning.plan import TrainingPlan

__all__ = ["Checkpoint"]

torch: Any = later("torch")

_SECRET = 32  # bytes


@dataclass
class Checkpoint:
    """The files of a checkpoint: weights at `path`, and `.begun`, `.key`, `.reserved` next to it.

    A lock on the count of steps admits one training at a time.
    """

    path: Path
    _count: int | None = None
    _release: Any = None

    @property
    def _reserved(self) -> Path:
        return self.path.with_name(self.path.name + ".reserved")

    @property
    def _begun(self) -> Path:
        return self.path.with_name(self.path.name + ".begun")

    @property
    def _key(self) -> Path:
        return self.path.with_name(self.path.name + ".key")

    def start(self, key: NoiseKey, plan: TrainingPlan) -> None:
        """Write secret, plan and count of a new training; InvalidParameter if one exists."""
        if self._begun.exists() or self._key.exists() or self.path.exists():
            expected = "resume=True to go on with the training there, or another path"
            raise InvalidParameter("checkpoint", str(self.path), expected=expected)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self._key, flags, 0o600), "wb") as file:
            file.write(b"1" if key.secure else b"0")
            file.write(key.secret)
            file.write(_digest(plan))
            file.flush()
            os.fsync(file.fileno())
        self._lock(create=True)

    def key(self) -> NoiseKey:
        """The secret of the training; InvalidParameter if one of its files is missing."""
        if not (self._begun.exists() and self._key.exists()):
            expected = "the path of a training that was begun with checkpoint=, with all its files"
            raise InvalidParameter("checkpoint", str(self.path), expected=expected)
        held = self._key.read_bytes()
        return NoiseKey(held[1 : 1 + _SECRET], held[:1] == b"1")

    def resume(self, plan: TrainingPlan, account: str) -> tuple[dict[str, Any] | None, int, bool]:
        """Lock the files; return the state, the steps begun, whether the budget was reserved.

        Raises InvalidParameter if another training holds them, and for those of another plan.
        """
        if self._key.read_bytes()[1 + _SECRET :] != _digest(plan):
            expected = "the checkpoint of this very plan: model, numbers, sampling and budget"
            raise InvalidParameter("checkpoint", str(self.path), expected=expected)
        self._lock(create=False)
        try:
            return self.load(), self.begun, self.reserved(account)
        except BaseException:
            self.close()
            raise

    def _lock(self, *, create: bool) -> None:
        import fcntl  # of POSIX alone

        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
        held = os.open(self._begun, flags, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            expected = "no other training at work there: end it, or close() it in this process"
            raise InvalidParameter("checkpoint", str(self.path), expected=expected) from None
        self._count, self._release = held, weakref.finalize(self, os.close, held)

    def close(self) -> None:
        """Let another training continue from these files."""
        if self._release is not None:
            self._release()
            self._count = None

    def begin(self) -> int:
        """Count a step, durably, and give its number, from 0 on."""
        if self._count is None:
            raise RuntimeError("this training was closed: resume it from its checkpoint")
        number = os.lseek(self._count, 0, os.SEEK_END)
        os.write(self._count, b".")
        os.fsync(self._count)
        return number

    @property
    def begun(self) -> int:
        """How many steps were begun."""
        return self._begun.stat().st_size

    def reserved(self, account: str) -> bool:
        """Whether the budget was reserved in the account of this digest."""
        return self._reserved.exists() and self._reserved.read_text("utf-8") == account

    def reserve(self, account: str) -> None:
        """Note that the budget was reserved in the account of this digest."""
        self._reserved.write_text(account, "utf-8")

    def save(self, **state: Any) -> None:
        """Write the state of a training, whole or not at all."""
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path)

    def load(self) -> dict[str, Any] | None:
        """The last saved state, or None."""
        if not self.path.exists():
            return None
        held: dict[str, Any] = torch.load(self.path, weights_only=True)
        return held


def _digest(plan: TrainingPlan) -> bytes:
    from unacorda import __version__

    text = json.dumps([__version__, plan.to_dict()], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()
