"""Tokens of analysts and curators: 256 random bits; a server stores only a hash."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Final, Literal, TypeAlias

from unacorda import checks
from unacorda.checks import demand
from unacorda.server.store import AnswerStore, Token

Role: TypeAlias = Literal["analyst", "curator"]

PREFIX: Final = "unacorda"
_LONGEST_DAYS: Final = 366
_SECONDS_OF_A_DAY: Final = 86_400
_NOTED_SECONDS: Final = 60


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


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
