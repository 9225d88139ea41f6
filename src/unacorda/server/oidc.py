"""Sign-in by an organization: bearer tokens that an OpenID Connect issuer has signed.

Algorithms are pinned, the keys come from the issuer that the configuration names and from nowhere
else, and nothing that a token says leads to an address.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from unacorda.extras import require
from unacorda.server.opener import OPENER
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
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Whom to believe.

    issuer: its address, as tokens name it. audience: for whom tokens must be. analyst_claim: which
    claim names the analyst; one that people cannot change themselves. groups_claim, curators: the
    claim that lists groups, and those whose members are curators.
    """

    issuer: str
    audience: str
    analyst_claim: str = "preferred_username"
    groups_claim: str = "groups"
    curators: tuple[str, ...] = ()


def is_safe_address(address: str) -> bool:
    """Whether an address is https, or on this machine."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in _LOCAL
    return bool(parts.netloc) and (parts.scheme == "https" or local)


class Issuer:
    """An issuer and its keys, which are fetched when a token needs them."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._jwt: Any = require("jwt", extra="oidc")
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._fetched = -_KEEP_SECONDS

    def holder_of(self, text: str) -> Token | None:
        """Whose a token is, with the role that its groups give; None where it is not valid now."""
        try:
            head = self._jwt.get_unverified_header(text)
            key = self._key(head.get("kid"))
            if head.get("alg") not in _ALGORITHMS or key is None:
                return None
            claims: dict[str, Any] = self._jwt.decode(
                text,
                key=key.key,
                algorithms=[head["alg"]] if key.algorithm_name == head["alg"] else [],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": list(_REQUIRED)},
            )
        except (self._jwt.PyJWTError, ValueError, TypeError):
            return None
        return self._holder(claims)

    def _holder(self, claims: dict[str, Any]) -> Token | None:
        analyst, subject = claims.get(self._settings.analyst_claim), claims["sub"]
        for one in (analyst, subject):
            if not (isinstance(one, str) and one.strip() and one.isprintable()):
                return None
        groups = claims.get(self._settings.groups_claim, [])
        listed = groups if isinstance(groups, list) else []
        curator = any(one in self._settings.curators for one in listed if isinstance(one, str))
        role: Role = "curator" if curator else "analyst"
        return Token(
            id=f"oidc:{subject}",
            hash="",
            analyst=str(analyst),
            role=role,
            note=self._settings.issuer,
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

    def _fetch_keys(self) -> dict[str, Any]:
        issuer = self._settings.issuer.rstrip("/")
        try:
            stated = _fetched(f"{issuer}/.well-known/openid-configuration")
            address = stated["jwks_uri"]
            if stated["issuer"] != self._settings.issuer or not is_safe_address(address):
                return {}
            listed = _fetched(address)["keys"]
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        found = {}
        for one in listed:
            try:
                key = self._jwt.PyJWK(one)
            except (self._jwt.PyJWTError, ValueError, TypeError):
                continue  # of a kind that is not believed
            signs = key.public_key_use in (None, "sig")
            if key.key_id and signs and key.algorithm_name in _ALGORITHMS:
                found[key.key_id] = key
        return found


def _fetched(address: str) -> Any:
    """The JSON at an address that the configuration leads to."""
    with OPENER.open(address, timeout=_FETCH_SECONDS) as response:
        return json.loads(response.read(_MOST_BYTES))
