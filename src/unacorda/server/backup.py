"""Copies of a ledger and a store, made while a server runs, with digests to be kept elsewhere."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from unacorda.checks import demand
from unacorda.ledger.export import export_account, verify_export
from unacorda.ledger.ledger import open_ledger
from unacorda.server.config import Config

_SQLITE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The copies. files: names in the folder; digests: by dataset, the last one of its ledger.

    left_to_server: which of ledger and store are PostgreSQL databases, whose own tools copy them.
    """

    files: tuple[str, ...]
    digests: dict[str, str]
    left_to_server: tuple[str, ...]


def back_up(config: Config, folder: Path) -> Backup:
    """Copy the store and the ledger into a new folder, and export every account, verified.

    The store is copied first, so it has seen no entry that the copied ledger lacks. Raises
    InvalidParameter for a folder that is not empty, and LedgerMismatch for a ledger that was
    changed.
    """
    new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    demand(new, "FOLDER", str(folder), expected="a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    files, left = [], []
    for what, address in (("store", config.store), ("ledger", config.ledger)):
        if address.startswith(_SQLITE):
            source = Path(address.removeprefix(_SQLITE))
            expected = f"a configuration whose {what} was used before"
            demand(source.is_file(), "FILE", source.name, expected=expected)
            _copy(source, folder / f"{what}.db")
            files.append(f"{what}.db")
        else:
            left.append(what)
    copied = config.ledger if "ledger" in left else f"{_SQLITE}{folder.resolve() / 'ledger.db'}"
    digests = {}
    with closing(open_ledger(copied)) as ledger:
        for name in ledger.datasets():
            lines = list(export_account(ledger, name))
            verify_export(lines)
            last = ledger.entries(name, after=len(lines) - 2, most=1) if len(lines) > 1 else ()
            digests[name] = last[-1].digest if last else ""
            file = f"account-{len(digests)}.jsonl"
            _write(folder / file, "\n".join(lines) + "\n")
            files.append(file)
    return Backup(files=tuple(files), digests=digests, left_to_server=tuple(left))


def _copy(source: Path, target: Path) -> None:
    """One moment of a SQLite file that others write to."""
    _write(target, "")
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
