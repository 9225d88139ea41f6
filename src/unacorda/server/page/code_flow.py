"""Sign-in at the page by an organization's issuer: the authorization code flow with PKCE.

Until the browser returns it keeps one secret in a cookie; state, nonce and verifier are derived
from it. Only the issuer's own addresses are contacted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from unacorda.server.oidc import CodeRequest, Issuer
from unacorda.server.page.forms import Show
from unacorda.server.problems import Problem
from unacorda.server.requests import check_failures, count_failure
from unacorda.server.service import Service
from unacorda.server.store import Token

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

CALLBACK: Final = "/sign-in/callback"
"""Where the issuer sends a browser back to; it must know the address."""

_SECONDS: Final = 600
_LONGEST: Final = 4_096  # characters of a code
_NOT_SIGNED_IN: Final = "Your organization did not sign you in here. Try again, or use a token."
_NOT_REACHED: Final = "Your organization's sign-in cannot be reached. Try again, or use a token."


class CodeFlow:
    """The two steps of a sign-in: to the issuer, and back with a code."""

    def __init__(
        self,
        service: Service,
        *,
        show: Show,
        leave: Callable[[str], Response],
        sign_in: Callable[[Response, Token], None],
    ) -> None:
        self._service, self._show, self._leave, self._sign_in = service, show, leave, sign_in
        url = service.config.public_url
        self._redirect = f"{url}{CALLBACK}"
        self._secure = url.startswith("https:")
        self._cookie = "__Host-unacorda-issuer" if self._secure else "unacorda-issuer"

    @property
    def offered(self) -> bool:
        """Whether the issuer knows the page."""
        issuer = self._service.issuer
        return issuer is not None and issuer.settings.client_id is not None

    async def leave(self, _: Request) -> Response:
        """Send a browser to the issuer."""
        secret = secrets.token_urlsafe(32)
        address = await asyncio.to_thread(
            self._issuer().sign_in_address, CodeRequest.of(secret), redirect=self._redirect
        )
        if address is None:
            raise Problem("unavailable", _NOT_REACHED)
        found = self._leave(address)
        # Strict would keep it from a browser that comes back from another site.
        found.set_cookie(self._cookie, secret, max_age=_SECONDS, samesite="lax", **self._kept)
        return found

    async def come_back(self, request: Request) -> Response:
        """Sign the holder of a code in."""
        issuer, query = self._issuer(), request.query_params
        await check_failures(request, self._service.store)
        secret, code = request.cookies.get(self._cookie, ""), query.get("code", "")
        known = CodeRequest.of(secret)
        same = hmac.compare_digest(query.get("state", "").encode(), known.state.encode())
        theirs = query.get("iss", issuer.settings.issuer) == issuer.settings.issuer  # RFC 9207
        holder = None
        if secret and same and theirs and 0 < len(code) <= _LONGEST:
            holder = await asyncio.to_thread(issuer.signed_in, code, known, redirect=self._redirect)
        if holder is None:
            await count_failure(request, self._service.store)
            raise Problem("no-token", _NOT_SIGNED_IN)
        # A cookie of the same site is not sent with what another site has led to: a page leads on.
        found = self._show("signed_in.html", None)
        await asyncio.to_thread(self._sign_in, found, holder)
        found.delete_cookie(self._cookie, samesite="lax", **self._kept)
        return found

    @property
    def _kept(self) -> dict[str, Any]:
        return {"path": "/", "secure": self._secure, "httponly": True}

    def _issuer(self) -> Issuer:
        if self._service.issuer is None or not self.offered:
            raise Problem("not-found", "There is no sign-in by an organization here.")
        return self._service.issuer
