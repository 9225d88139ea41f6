"""Health endpoints of a server at a separate address: liveness, readiness and counts.

They show no time by question or dataset, and no name of an analyst. The address is for operators of
the server, and needs no token: keep it on this machine, or in a network of operators.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Final

from unacorda.server.service import Service

_SECONDS: Final = 10.0
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


def readiness(service: Service) -> list[str]:
    """The reasons why a server takes no questions; empty if it is ready."""
    found = ["it ends"] if service.ending else []
    for what, check in (
        ("the ledger cannot be written", service.ledger.check_writable),
        ("the store cannot be written", service.store.beat),
    ):
        try:
            check()
        except Exception:  # noqa: BLE001  # its text may hold an address
            found.append(what)
    closed = [name for name, one in service.datasets.items() if one.session.closed]
    return found + (["an engine is closed"] if closed else [])


def metrics(service: Service) -> str:
    """Counts in the text format of Prometheus.

    They are requests by operation and status, questions that wait and run, and their total waiting
    time.
    """
    lines = ["# TYPE unacorda_requests_total counter"]
    for (operation, status), count in sorted(service.requests.items()):
        labels = f'operation="{operation}",status="{status}"'
        lines.append(f"unacorda_requests_total{{{labels}}} {count}")
    numbers = {
        ("questions_waiting", "gauge"): service.turns.waiting,
        ("questions_running", "gauge"): service.turns.running,
        ("waited_seconds_total", "counter"): round(service.turns.waited, 3),
        ("datasets_open", "gauge"): len(service.datasets),
        ("datasets_unavailable", "gauge"): len(service.unavailable),
    }
    for (name, kind), number in numbers.items():
        lines += [f"# TYPE unacorda_{name} {kind}", f"unacorda_{name} {number}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def reporting(service: Service, address: tuple[str, int] | None) -> Iterator[None]:
    """Answer /healthz, /readyz and /metrics at an address while inside; None for none."""
    if address is None:
        yield
        return

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_GET(self) -> None:
            match self.path:
                case "/healthz":
                    self._send(200, "up\n")
                case "/readyz":
                    why = readiness(service)
                    self._send(503 if why else 200, "".join(f"{one}\n" for one in why or ["ready"]))
                case "/metrics":
                    self._send(200, metrics(service))
                case _:
                    self._send(404, "/healthz, /readyz or /metrics\n")

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, status: int, text: str) -> None:
            self.send_response_only(status)
            whole = text.encode()
            for name, value in (("Content-Type", _TEXT), ("Content-Length", str(len(whole)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(whole)

    with http.server.ThreadingHTTPServer(address, Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
