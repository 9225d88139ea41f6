"""Sign-in by an organization: tokens that an OpenID Connect issuer has signed.

Programs send them as bearer tokens; the page gets one by the authorization code flow with PKCE.

Algorithms are pinned. The keys come only from the issuer in the configuration, and no content of a
token is used as an address.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from unacorda.extras import require
from unacorda.server.opener import OPENER, is_safe_address
from unacorda.server.store import Token
from unacorda.server.tokens import Role

_ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
_REQUIRED: Final = ("exp", "iss", "aud", "sub")
_LEEWAY_SECONDS: Final = 60
_REFRESH_SECONDS: Final = 60.0
"""No more often than so are the issuer's keys asked for again."""
_KEEP_SECONDS: Final = 3_600.0
_FETCH_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The accepted issuer and its claims.

    issuer: its address, as in tokens. audience: the required audience of tokens. analyst_claim: the
    claim with the analyst's name, which people must not be able to change themselves. groups_claim,
    curators: the claim that lists groups, and the groups whose members are curators. client_id,
    client_secret: the page's credentials at the issuer; without the first there is no sign-in by
    the issuer, and the second is for confidential clients. scope: the scope that the page requests.
    """

    issuer: str
    audience: str
    analyst_claim: str = "preferred_username"
    groups_claim: str = "groups"
    curators: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str = "openid profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRequest:
    """The identifiers of a sign-in by the page: `state`, `nonce`, and the verifier of PKCE.

    All three are derived from a secret that the browser keeps in a cookie until it returns.

    >>> one = CodeRequest.of("secret")
    >>> len({one.state, one.nonce, one.verifier, one.challenge})
    4
    """

    state: str
    nonce: str
    verifier: str

    @staticmethod
    def of(secret: str) -> CodeRequest:
        """The request of a secret."""
        parts = (hmac.digest(secret.encode(), name, "sha256") for name in (b"s", b"n", b"v"))
        state, nonce, verifier = map(_base64url, parts)
        return CodeRequest(state=state, nonce=nonce, verifier=verifier)

    @property
    def challenge(self) -> str:
        """The challenge for the verifier (RFC 7636, method S256)."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class Issuer:
    """An issuer, with its metadata and keys, which are fetched when they are needed."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._jwt: Any = require("jwt", extra="oidc")
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._fetched = -_KEEP_SECONDS
        self._stated: Mapping[str, Any] = {}
        self._stated_at = -_KEEP_SECONDS

    def holder_of(self, text: str) -> Token | None:
        """The holder of a bearer token, with the role from its groups; None if it is not valid."""
        claims = self._claims(text, self.settings.audience)
        return None if claims is None else self._holder(claims)

    def sign_in_address(self, request: CodeRequest, *, redirect: str) -> str | None:
        """The address where a browser signs in before it returns to `redirect`, or None."""
        with self._lock:
            address = self._endpoint("authorization_endpoint")
        if address is None:
            return None
        stated = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": self.settings.scope,
            "state": request.state,
            "nonce": request.nonce,
            "code_challenge": request.challenge,
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(stated)}"

    def signed_in(self, code: str, request: CodeRequest, *, redirect: str) -> Token | None:
        """The holder who signed in with the browser's code, or None."""
        settings = self.settings
        with self._lock:
            address = self._endpoint("token_endpoint")
        if address is None or settings.client_id is None:
            return None
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "client_id": settings.client_id,
            "code_verifier": request.verifier,
        }
        headers = {"Accept": "application/json"}
        if settings.client_secret is not None:
            names = (settings.client_id, settings.client_secret)
            both = ":".join(quote_plus(one) for one in names)
            headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
        text = _fetched(address, form=form, headers=headers).get("id_token")
        claims = self._claims(text, settings.client_id) if isinstance(text, str) else None
        if claims is None or claims.get("azp", settings.client_id) != settings.client_id:
            return None
        nonce = str(claims.get("nonce", "")).encode()
        same = hmac.compare_digest(nonce, request.nonce.encode())
        return self._holder(claims) if same else None

    def _claims(self, text: str, audience: str) -> dict[str, Any] | None:
        """What a token says, if the issuer signed it for an audience and it is valid now."""
        try:
            head = self._jwt.get_unverified_header(text)
            key = self._key(head.get("kid"))
            if head.get("alg") not in _ALGORITHMS or key is None:
                return None
            claims: dict[str, Any] = self._jwt.decode(
                text,
                key=key.key,
                algorithms=[head["alg"]] if key.algorithm_name == head["alg"] else [],
                audience=audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": list(_REQUIRED)},
            )
        except (self._jwt.PyJWTError, ValueError, TypeError):
            return None
        return claims

    def _holder(self, claims: dict[str, Any]) -> Token | None:
        analyst, subject = claims.get(self.settings.analyst_claim), claims["sub"]
        for one in (analyst, subject):
            if not (isinstance(one, str) and one.strip() and one.isprintable()):
                return None
        groups = claims.get(self.settings.groups_claim, [])
        listed = groups if isinstance(groups, list) else []
        curator = any(one in self.settings.curators for one in listed if isinstance(one, str))
        role: Role = "curator" if curator else "analyst"
        return Token(
            id=f"oidc:{subject}",
            hash="",
            analyst=str(analyst),
            role=role,
            note=self.settings.issuer,
            made=float(claims.get("iat", 0)),
            ends=float(claims["exp"]),
            used=None,
            revoked=None,
        )

    def _key(self, name: object) -> Any:
        """The key of a name; the issuer is asked where it is unknown, once a minute at most."""
        with self._lock:
            age = time.monotonic() - self._fetched
            if age > _KEEP_SECONDS or (name not in self._keys and age > _REFRESH_SECONDS):
                self._fetched = time.monotonic()  # also where it fails: then no more often either
                found = self._fetch_keys()
                self._keys = found or self._keys
            return self._keys.get(name) if isinstance(name, str) else None

    def _endpoint(self, name: str) -> str | None:
        """An address that the issuer says it has; None for one that is not safe, or not said."""
        age = time.monotonic() - self._stated_at
        if age > (_KEEP_SECONDS if self._stated else _REFRESH_SECONDS):
            self._stated_at = time.monotonic()  # also where it fails
            issuer = self.settings.issuer
            stated = _fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            self._stated = stated if stated.get("issuer") == issuer else {}
        address = self._stated.get(name)
        if not (isinstance(address, str) and is_safe_address(address)):
            return None
        downgraded = self.settings.issuer.startswith("https:") and not address.startswith("https:")
        return None if downgraded else address

    def _fetch_keys(self) -> dict[str, Any]:
        address = self._endpoint("jwks_uri")
        listed = None if address is None else _fetched(address).get("keys")
        found = {}
        for one in listed if isinstance(listed, list) else ():
            try:
                key = self._jwt.PyJWK(one)
            except (self._jwt.PyJWTError, ValueError, TypeError):
                continue  # of a kind that is not believed
            signs = key.public_key_use in (None, "sig")
            if key.key_id and signs and key.algorithm_name in _ALGORITHMS:
                found[key.key_id] = key
        return found


def _fetched(
    address: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at an address that the configuration leads to; empty where there is none.

    form: what is posted to it.
    """
    data = None if form is None else urlencode(form).encode()
    try:
        request = urllib.request.Request(address, data=data, headers=dict(headers or {}))  # noqa: S310  # checked by those who call
        with OPENER.open(request, timeout=_FETCH_SECONDS) as response:
            found = json.loads(response.read(_MOST_BYTES))
    except (OSError, ValueError, HTTPException):
        return {}
    return found if isinstance(found, dict) else {}
