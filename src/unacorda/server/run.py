"""A server that runs until a signal ends it: uvicorn, and a deadline for whole requests.

uvicorn waits forever for a client that sends a byte now and then. Here the connection ends if a
request has not arrived completely after ten seconds.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import math
import threading
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final

from unacorda.extras import require
from unacorda.server.app import make_app
from unacorda.server.config import Config
from unacorda.server.health import reporting
from unacorda.server.service import FIELDS, Service

require("uvicorn", extra="server")

import uvicorn  # noqa: E402  # after the error that names the extra
from h11 import IDLE, SEND_BODY  # noqa: E402
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: E402

REQUEST_SECONDS: Final = 10.0
_SPARE_SECONDS: Final = 5  # beyond `shutdown`: answers that were interrupted still leave


class DeadlineProtocol(H11Protocol):
    """HTTP/1.1 with a deadline of `REQUEST_SECONDS` for complete requests."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin the time of the first request."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Read data; the deadline ends with a complete request and begins with the next one."""
        if self._deadline is None:
            self._begin()
        super().data_received(data)
        if self.conn.their_state not in (IDLE, SEND_BODY):
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time."""
        self._stop()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._late)

    def _late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class EndingServer(uvicorn.Server):
    """A server that notifies its service at once when it ends."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take no further questions and connections; late questions are interrupted."""
        threading.Thread(target=self._service.finish).start()  # a signal may hold its locks
        super().handle_exit(sig, frame)


class NamedClients:
    """An application behind a Unix socket that a proxy uses.

    The proxy appends the address that it sees to X-Forwarded-For. The client may have invented
    earlier entries.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Name the client of a request, if the proxy did."""
        if scope["type"] == "http":
            named = [one for name, one in scope["headers"] if name == b"x-forwarded-for"]
            last = named[-1].decode("latin-1").rpartition(",")[2].strip() if named else ""
            with contextlib.suppress(ValueError):
                scope = {**scope, "client": (str(ipaddress.ip_address(last)), 0)}
        await self._app(scope, receive, send)


class JsonLines(logging.Formatter):
    r"""Log lines as JSON: operations by name, ids and statuses, and no other text.

    >>> record = logging.LogRecord("unacorda", logging.INFO, "", 0, "a\nb", None, None)
    >>> JsonLines().format(record).partition(", ")[2]
    '"level": "info", "event": "a\\nb"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line; control characters are escaped."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds")
        said = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(said | getattr(record, FIELDS, {}))


def _log_lines() -> None:
    """Write what the server and what is below it log to the standard error, as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("unacorda", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT; running questions get the configured time to end."""
    _log_lines()
    service = Service(config)
    app: Any = make_app(service)
    proxies = [one for one in config.behind_proxy if one != "unix"]
    made = uvicorn.Config(
        NamedClients(app) if "unix" in config.behind_proxy else app,
        host=config.host,
        port=config.port,
        uds=None if config.socket is None else str(config.socket),
        http=DeadlineProtocol,
        ws="none",
        server_header=False,
        date_header=False,
        access_log=False,
        log_config=None,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        timeout_graceful_shutdown=math.ceil(config.shutdown) + _SPARE_SECONDS,
        h11_max_incomplete_event_size=1 << 16,
    )
    with reporting(service, config.health):
        EndingServer(made, service).run()
