"""Tokens of analysts and curators, and cookies of browsers that are signed in by one.

Each has 256 random bits, of which a server stores only a hash.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict
from typing import Final, Literal, TypeAlias

from unacorda import checks
from unacorda.checks import demand
from unacorda.server.store import AnswerStore, SignIn, Token

Role: TypeAlias = Literal["analyst", "curator"]

PREFIX: Final = "unacorda"
_LONGEST_DAYS: Final = 366
_SECONDS_OF_A_DAY: Final = 86_400
_NOTED_SECONDS: Final = 60
LONGEST_SECONDS: Final = 8 * 3_600
IDLE_SECONDS: Final = 1_800
"""Of a sign-in, in all and without a request."""


def make_token(
    store: AnswerStore, analyst: str, *, role: Role, days: int = 90, note: str = ""
) -> str:
    """Make a new token, which is shown only once.

    analyst: its holder; days: its lifetime, at most a year; note: for the list of tokens.
    """
    named = checks.is_text(analyst) and analyst.strip() and analyst.isprintable()
    demand(named, "analyst", analyst, expected="a name")
    demand(role in ("analyst", "curator"), "role", role, expected="'analyst' or 'curator'")
    demand(type(days) is int and 1 <= days <= _LONGEST_DAYS, "days", days, expected="1 to 366 days")
    name, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
    store.add_token(
        Token(
            id=name,
            hash=_hash(secret),
            analyst=analyst,
            role=role,
            note=note,
            made=now,
            ends=now + days * _SECONDS_OF_A_DAY,
            used=None,
            revoked=None,
        )
    )
    return f"{PREFIX}_{name}_{secret}"


def holder_of(store: AnswerStore, text: str) -> Token | None:
    """The valid token of a text, or None, in time that reveals nothing."""
    prefix, _, rest = text.partition("_")
    name, _, secret = rest.partition("_")
    known = store.token_or_none(name)
    same = hmac.compare_digest(known.hash, _hash(secret))
    if prefix != PREFIX or known.id != name or not same or not is_valid(known):
        return None
    if known.used is None or known.used < time.time() - _NOTED_SECONDS:
        store.use_token(known.id)
    return known


def is_valid(token: Token) -> bool:
    """Whether a token is not revoked and has not expired."""
    return token.revoked is None and token.ends > time.time()


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


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
