"""The sign-in cookie of a browser: 256 random bits; the store has only a hash."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict
from typing import Final

from unacorda.server.store import AnswerStore, SignIn, Token
from unacorda.server.tokens import is_valid

LONGEST_SECONDS: Final = 8 * 3_600
IDLE_SECONDS: Final = 1_800
_NOTED_SECONDS: Final = 60


def sign_in(store: AnswerStore, token: Token) -> str:
    """Sign the holder of a token in; returns the value of the cookie.

    A person signed in by an issuer is stored with it, as the store has no token of theirs.
    """
    value, now = secrets.token_urlsafe(32), time.time()
    own = bool(token.hash)
    holder = None if own else json.dumps({**asdict(token), "ends": now + LONGEST_SECONDS})
    made = SignIn(hash=_hash(value), token=token.id, made=now, used=now, holder=holder)
    store.add_sign_in(made, before=now - LONGEST_SECONDS)
    return value


def signed_in(store: AnswerStore, value: str) -> Token | None:
    """The token behind a cookie, while the sign-in and the token last."""
    found = store.sign_in(_hash(value))
    now = time.time()
    if found is None or now >= found.made + LONGEST_SECONDS or now >= found.used + IDLE_SECONDS:
        return None
    token = store.token(found.token) if found.holder is None else Token(**json.loads(found.holder))
    if token is None or not is_valid(token):
        return None
    if found.used < now - _NOTED_SECONDS:
        store.use_sign_in(found.hash)
    return token


def sign_out(store: AnswerStore, value: str) -> None:
    """Forget a cookie."""
    store.end_sign_in(_hash(value))


def form_token(value: str) -> str:
    """The secret in every form of a signed-in browser, which no other site knows."""
    return hmac.digest(value.encode(), b"form", "sha256").hex()


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
