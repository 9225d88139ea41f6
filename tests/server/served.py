"""A server within the test's process, and what asks it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.support.seams import open_ledger

from unacorda.server.app import make_app
from unacorda.server.config import read_config
from unacorda.server.service import Service
from unacorda.server.tokens import make_token

__all__ = ["CONFIGURATION", "COUNT", "HOST", "Served", "served", "written"]

HOST = "http://127.0.0.1:8040"
COUNT: dict[str, Any] = {"sql": "SELECT COUNT(*) AS n FROM visits", "budget": {"rho": "0.01"}}
CONFIGURATION = """
[server]
timeout = 20
answer_after = "at once"

[datasets.visits]
title = "Visits"
tables = { visits = "visits.csv" }
unit = { person = "patient", max_rows = 4 }
budget = { rho = 0.15 }
columns = { age = { bounds = [0, 120] }, county = { categories = ["A", "B"] } }
analysts = { ana = { rho = 0.1 }, ben = { rho = 0.1 } }

[datasets.labs]
tables = { labs = "visits.csv" }
unit = { person = "patient", max_rows = 4 }
budget = { epsilon = 1 }
analysts = { ben = { epsilon = 1 } }
"""


def written(
    folder: Path,
    configuration: str = CONFIGURATION,
    *,
    header: str = "patient,age,county\n",
    more: str | None = None,
) -> Path:
    """A configuration with its table in a folder; more: the value of one more column."""
    drawn = random.Random(1)
    last = "" if more is None else f",{more}"
    lines = [f"{n % 200},{drawn.randint(0, 90)},{drawn.choice('AB')}{last}" for n in range(500)]
    (folder / "visits.csv").write_text(header + "\n".join(lines) + "\n")
    path = folder / "server.toml"
    path.write_text(configuration)
    return path


class Served:
    """A service, its application, and requests to it; tokens by analyst."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.app = make_app(service)
        self.tokens = {
            name: make_token(service.store, name, role="analyst") for name in ("ana", "ben", "eve")
        }
        self.tokens["office"] = make_token(service.store, "office", role="curator")

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        of: str | None = "ana",
        headers: dict[str, str] | None = None,
        host: str = HOST,
        address: str = "10.0.0.1",
    ) -> httpx.Response:
        """The response to one request; body: an object, or the bytes themselves."""
        sent: Any = {"of": of, "headers": headers, "host": host, "address": address}
        return self.all([(method, path, body)], **sent)[0]

    def all(
        self,
        requests: list[tuple[str, str, Any]],
        *,
        of: str | None = "ana",
        headers: dict[str, str] | None = None,
        host: str = HOST,
        address: str = "10.0.0.1",
    ) -> list[httpx.Response]:
        """The responses to requests that are sent at once."""
        sent = {} if of is None else {"Authorization": f"Bearer {self.tokens.get(of, of)}"}
        sent |= {"Content-Type": "application/json"} | (headers or {})

        async def ask() -> list[httpx.Response]:
            transport = httpx.ASGITransport(
                self.app, client=(address, 1), raise_app_exceptions=False
            )
            async with httpx.AsyncClient(transport=transport, base_url=host, timeout=60) as client:
                asked = [
                    client.request(
                        method,
                        path,
                        headers=sent,
                        content=body if isinstance(body, bytes | None) else json.dumps(body),
                    )
                    for method, path, body in requests
                ]
                return await asyncio.gather(*asked)

        return asyncio.run(ask())

    def spent(self, dataset: str = "visits") -> Any:
        """What the dataset has spent, by another ledger object."""
        ledger = open_ledger(self.service.config.ledger)
        try:
            return ledger.spent(dataset)
        finally:
            ledger.close()


@contextmanager
def served(folder: Path, configuration: str = CONFIGURATION, **table: Any) -> Iterator[Served]:
    """A server over the tables of a folder; table: as `written` takes it."""
    service = Service(read_config(written(folder, configuration, **table)))
    try:
        yield Served(service)
    finally:
        service.close()
