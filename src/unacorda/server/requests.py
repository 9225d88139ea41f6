"""Checks of every request: its host, its size and its token."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from unacorda.server.config import Config
from unacorda.server.oidc import Issuer
from unacorda.server.problems import Problem
from unacorda.server.store import AnswerStore, Token
from unacorda.server.tokens import PREFIX, holder_of

if TYPE_CHECKING:
    from starlette.requests import Request

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Of every response."""
MOST_BYTES: Final = 1 << 16
MOST_RECORD: Final = 1 << 22
"""Bytes of a release that is to be verified."""
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


def check_type(request: Request, wanted: str) -> None:
    """Refuse a body that is not stated to be of this type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        raise Problem("not-a-type", f"Send Content-Type: {wanted}.")


async def read_body(request: Request, *, most: int = MOST_BYTES) -> bytes:
    """Read the body, up to a size."""
    whole = bytearray()
    async for part in request.stream():
        whole += part
        if len(whole) > most:
            raise Problem("too-large", f"This request has at most {most:,} bytes.")
    return bytes(whole)


async def check_token(
    request: Request,
    store: AnswerStore,
    text: str | None,
    said: str,
    *,
    issuer: Issuer | None = None,
) -> Token:
    """Find the token of a text; a wrong one is counted and raises Problem.

    issuer: an issuer whose tokens are accepted too.
    """
    found = await asyncio.to_thread(_holder, address_of(request), store, text, issuer)
    if found is None:
        await count_failure(request, store)
        raise Problem("no-token", said)
    return found


def _holder(
    address: str, store: AnswerStore, text: str | None, issuer: Issuer | None
) -> Token | None:
    """The token that a text is, if any; Problem for an address that tries too many."""
    _check_failures(address, store)
    if text is not None and issuer is not None and not text.startswith(f"{PREFIX}_"):
        return issuer.holder_of(text.strip()) if len(text) < _MOST_SIGNED else None
    if text is not None and len(text) < _MOST_CHARACTERS:
        return holder_of(store, text.strip())
    return None


async def check_failures(request: Request, store: AnswerStore) -> None:
    """Refuse an address with too many wrong tokens in this minute."""
    await asyncio.to_thread(_check_failures, address_of(request), store)


def _check_failures(address: str, store: AnswerStore) -> None:
    if store.failed(address) >= _MOST_FAILURES:
        raise Problem("too-many", "Too many wrong tokens. Wait for a minute.")


async def count_failure(request: Request, store: AnswerStore) -> None:
    """Count a wrong token of an address."""
    await asyncio.to_thread(store.failed, address_of(request), add=1)
