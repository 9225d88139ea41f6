"""What every request is checked for: the host that it is for, its size, and whose token it has."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

from unacorda.server.config import Config
from unacorda.server.oidc import Issuer
from unacorda.server.problems import Problem
from unacorda.server.store import AnswerStore, Token
from unacorda.server.tokens import PREFIX, holder_of

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BYTES: Final = 1 << 16
_MOST_FAILURES: Final = 10  # wrong tokens a minute from one address
_MOST_CHARACTERS: Final = 200
_MOST_SIGNED: Final = 1 << 14


def check_host(request: Request, config: Config) -> None:
    """Refuse a request for another host than the server's."""
    if request.headers.get("host", "").lower() != config.public_host:
        raise Problem("another-host", "Ask by the address that the curator gave.")


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""


async def read_body(request: Request) -> bytes:
    """The body, if it is no larger than `MOST_BYTES`."""
    whole = b""
    async for part in request.stream():
        whole += part
        if len(whole) > MOST_BYTES:
            raise Problem("too-large", f"A request has at most {MOST_BYTES:,} bytes.")
    return whole


async def check_token(
    request: Request,
    store: AnswerStore,
    text: str | None,
    said: str,
    *,
    issuer: Issuer | None = None,
) -> Token:
    """The token that a text is; Problem, which is counted, with what is said where it is none.

    issuer: whose tokens are taken too.
    """
    address = address_of(request)
    if await asyncio.to_thread(store.failed, address) >= _MOST_FAILURES:
        raise Problem("too-many", "Too many wrong tokens. Wait for a minute.")
    found: Token | None = None
    if text is not None and issuer is not None and not text.startswith(f"{PREFIX}_"):
        if len(text) < _MOST_SIGNED:
            found = await asyncio.to_thread(issuer.holder_of, text.strip())
    elif text is not None and len(text) < _MOST_CHARACTERS:
        found = await asyncio.to_thread(holder_of, store, text.strip())
    if found is None:
        await asyncio.to_thread(functools.partial(store.failed, address, add=1))
        raise Problem("no-token", said)
    return found
