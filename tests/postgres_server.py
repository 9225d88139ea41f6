"""A PostgreSQL server that the tests start themselves: one a process, when first asked for.

It runs from the binaries of `pgserver`, or of the system, in a folder of its own, reached through a
socket in that folder alone. As root it runs as another user, since PostgreSQL refuses root. It ends
with the process that started it, also where that is killed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from tests.support.services import check_admitted

__all__ = ["Server", "empty_schema", "server"]

_SECONDS = 60
_names = itertools.count(1)


class Server:
    """A running server. Superuser and user of every address: `postgres`, without a password."""

    def __init__(self) -> None:
        self._user = _other_user()
        # Paths of sockets may have about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_place(self._user)))
        self._data = self.folder / "data"
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._programs = _programs(self._user, self.folder)
        self._call("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
                   "--no-sync", "--no-instructions", "-D", str(self._data))  # fmt: skip
        self._process = self.start()
        atexit.register(self._end)

    @property
    def url(self) -> str:
        """Its address."""
        return f"postgresql+psycopg://postgres@/postgres?host={self.folder}"

    def connect(self) -> psycopg.Connection:
        """A connection that commits by itself, to look behind a ledger's back."""
        return psycopg.connect(host=str(self.folder), user="postgres", autocommit=True)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server's process and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "max_connections": "60",
            "max_wal_senders": "0",
            "wal_level": "minimal",
            "autovacuum": "off",
        }
        chosen = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *chosen],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                group=_group(self._user),
                extra_groups=None if self._user is None else [],
                env=_environment(self.folder),
                cwd=self.folder,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509  # one system call
            )
        self._process = process
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start:\n{text}") from None
                time.sleep(0.05)
            else:
                return process

    def crash(self) -> None:
        """Kill the server as a power loss would end it, but for what the kernel still holds."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_SECONDS)

    def _end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            if self._process.poll() is None:
                self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            check=False,
            text=True,
            user=self._user,
            group=_group(self._user),
            extra_groups=None if self._user is None else [],
            env=_environment(self.folder),
            cwd=self.folder,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")


def server() -> Server:
    """The server of this process; for tests that are marked `service`."""
    check_admitted("PostgreSQL")
    return _server()


@functools.cache
def _server() -> Server:
    return Server()


def empty_schema() -> str:
    """The address of a new schema without tables, which costs less than a new database."""
    running = server()
    name = f"test_{next(_names)}"
    with contextlib.closing(running.connect()) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{running.url}&options=-csearch_path%3D{name}"


@functools.cache
def _binary(name: str) -> str:
    folders: list[Path] = []
    spec = importlib.util.find_spec("pgserver")  # found, not imported: it would start helpers
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "pginstall" / "bin")
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    for folder in folders:
        if (folder / name).is_file() and (folder / "initdb").is_file():
            return str(folder / name)
    raise RuntimeError(
        "These tests start a PostgreSQL server and found none. Run: pip install pgserver "
        "(Python below 3.13), or: apt-get install postgresql"
    )


def _programs(user: str | None, folder: Path) -> Path:
    """The folder of the server's programs: a copy where they lie in a home that is root's alone.

    The libraries that a wheel brings lie beside its package, and stay there.
    """
    found = Path(_binary("postgres")).parent
    if user is None or _open_to_others(found):
        return found
    installed = found.parent
    package = installed.parent
    copy = folder / "programs"
    shutil.copytree(installed, copy / package.name / installed.name, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    return copy / package.name / installed.name / found.name


def _place(user: str | None) -> str | None:
    """A folder for temporary files that the user of the server reaches; None: the usual one."""
    if user is None or _open_to_others(Path(tempfile.gettempdir())):
        return None
    return next((place for place in ("/tmp", "/var/tmp") if _open_to_others(Path(place))), None)


def _open_to_others(path: Path) -> bool:
    """Whether every user may pass through a folder and all above it."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.resolve().parents))


def _environment(home: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    return {**kept, "HOME": str(home), "LC_ALL": "C", "TZ": "UTC"}


def _other_user() -> str | None:
    """Whom to run as, where this process is root's."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return next(user.pw_name for user in pwd.getpwall() if user.pw_uid != 0)


def _group(user: str | None) -> int | None:
    return None if user is None else pwd.getpwnam(user).pw_gid


def _die_with_parent() -> Callable[[], None] | None:
    """What makes a child end with this process, where the system has a way: Linux."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return functools.partial(prctl, 1, int(signal.SIGQUIT), 0, 0, 0)  # PR_SET_PDEATHSIG
