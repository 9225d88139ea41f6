"""Tokens that an organization's issuer signed: who is believed, and all that is not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import functools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.server.served import CONFIGURATION, COUNT, Served, served, written
from tests.server.test_routes import ASK, problem
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.server.config import read_config


@functools.cache
def keys() -> dict[str, Any]:
    """The issuer's keys by algorithm."""
    return {
        "RS256": rsa.generate_private_key(public_exponent=65_537, key_size=2_048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }


OTHER = ed25519.Ed25519PrivateKey.generate()


class LocalIssuer:
    """An issuer on this machine: its documents, and tokens that it signs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys = {name: key for name, key in keys().items() if name != "EdDSA"}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                said = json.dumps(issuer.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/staff"
        self.jwks_uri = f"{self.url}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def document(self, path: str) -> Any:
        if path.endswith("openid-configuration"):
            return {"issuer": self.url, "jwks_uri": self.jwks_uri}
        algorithms = {"RS256": "RSAAlgorithm", "ES256": "ECAlgorithm", "EdDSA": "OKPAlgorithm"}
        return {
            "keys": [
                json.loads(getattr(jwt.algorithms, algorithms[name]).to_jwk(key.public_key()))
                | {"kid": name, "alg": name, "use": "sig"}
                for name, key in self.keys.items()
            ]
        }

    def token(self, *, alg: str = "RS256", key: Any = None, kid: str = "", **claims: Any) -> str:
        """A token; a claim that is None is left out."""
        now = int(time.time())
        stated = {"iss": self.url, "aud": "unacorda", "sub": "u1", "exp": now + 300, "iat": now}
        stated |= {"preferred_username": "ana"} | claims
        stated = {name: one for name, one in stated.items() if one is not None}
        used = keys()[alg] if key is None else key
        return jwt.encode(stated, used, algorithm=alg, headers={"kid": kid or alg})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[LocalIssuer]:
    found = LocalIssuer()
    yield found
    found.close()


@pytest.fixture(scope="module")
def ask(issuer: LocalIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    block = f'[oidc]\nissuer = "{issuer.url}"\naudience = "unacorda"\ncurators = ["office"]\n'
    with served(tmp_path_factory.mktemp("served"), CONFIGURATION + block) as found:
        yield found


def test_an_analyst_and_a_curator_are_believed(ask: Served, issuer: LocalIssuer) -> None:
    for alg in ("RS256", "ES256"):
        said = ask("GET", "/v1/me", of=issuer.token(alg=alg)).json()
        assert (said["analyst"], said["role"], said["datasets"]) == ("ana", "analyst", ["visits"])
    assert ask("POST", ASK, COUNT, of=issuer.token()).status_code == 201
    assert ask("POST", ASK, COUNT).status_code == 200  # ana's own token names the same analyst
    office = issuer.token(preferred_username="eve", groups=["staff", "office"])
    assert ask("GET", "/v1/admin/datasets", of=office).status_code == 200
    stop = ask("POST", "/v1/admin/datasets/labs/stop", of=office)
    assert stop.status_code == 200
    (act,) = ask("GET", "/v1/admin/acts", of=office).json()["acts"]
    assert (act["by"], act["token"]) == ("eve", "oidc:u1")
    problem(ask("GET", "/v1/admin/datasets", of=issuer.token(groups=["staff"])), "not-allowed")
    problem(ask("GET", "/v1/admin/datasets", of=issuer.token(groups="office")), "not-allowed")
    assert ask("GET", "/v1/me").status_code == 200  # tokens of the server are taken as before


def public_pem() -> bytes:
    key: Any = keys()["RS256"].public_key()
    found: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def by_hand(head: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts)


def confused(issuer: LocalIssuer) -> str:
    """Signed by HMAC, with the issuer's public key as its secret."""
    whole = by_hand({"alg": "HS256", "kid": "RS256"}, claims_of(issuer)).rpartition(".")[0]
    key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signed = key.sign(whole.encode(), public_pem())
    return f"{whole}.{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"


def claims_of(issuer: LocalIssuer) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(issuer.token(), options={"verify_signature": False})
    return claims


WRONG: dict[str, Callable[[LocalIssuer], str]] = {
    "expired": lambda one: one.token(exp=int(time.time()) - 120),
    "not yet": lambda one: one.token(nbf=int(time.time()) + 600),
    "another audience": lambda one: one.token(aud="mail"),
    "another issuer": lambda one: one.token(iss="https://evil.example"),
    "no audience": lambda one: one.token(aud=None),
    "no end": lambda one: one.token(exp=None),
    "no subject": lambda one: one.token(sub=None),
    "no analyst": lambda one: one.token(preferred_username=None),
    "an analyst that is no text": lambda one: one.token(preferred_username=["ana"]),
    "an empty analyst": lambda one: one.token(preferred_username=" "),
    "control characters": lambda one: one.token(preferred_username="ana\n"),
    "another key": lambda one: one.token(alg="EdDSA", key=OTHER),
    "another key under a known name": lambda one: one.token(alg="EdDSA", key=OTHER, kid="RS256"),
    "no algorithm": lambda one: by_hand({"alg": "none", "kid": "RS256"}, claims_of(one)),
    "a public key as a secret": confused,
    "a weaker algorithm": lambda one: one.token(alg="RS512", key=keys()["RS256"], kid="RS256"),
    "a key by address": lambda one: by_hand(
        {"alg": "RS256", "jku": "http://127.0.0.1:1/", "x5u": "file:///etc/passwd"}, claims_of(one)
    ),
    "a changed claim": lambda one: one.token().replace(
        one.token().split(".")[1], one.token(preferred_username="ben").split(".")[1]
    ),
    "nothing": lambda one: "..",
    "too long": lambda one: one.token(pad="x" * 20_000),
}


@in_subtests("name", WRONG)
def test_whatever_else_is_signed_is_not_believed(
    ask: Served, issuer: LocalIssuer, name: str
) -> None:
    said = problem(ask("GET", "/v1/me", of=WRONG[name](issuer), address=name), "no-token")
    assert said["detail"] == "Send Authorization: Bearer with a token that has not ended."


def test_unknown_keys_are_asked_for_once_a_minute(
    ask: Served, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask.service.issuer is not None
    assert ask("GET", "/v1/me", of=issuer.token(), address="a").status_code == 200
    before = len(issuer.asked)
    for number in range(5):
        strange = issuer.token(alg="EdDSA", key=OTHER, kid=f"k{number}")
        problem(ask("GET", "/v1/me", of=strange, address="b"), "no-token")
    assert len(issuer.asked) == before
    issuer.keys["EdDSA"] = keys()["EdDSA"]  # the issuer has a new key
    problem(ask("GET", "/v1/me", of=issuer.token(alg="EdDSA"), address="c"), "no-token")
    monkeypatch.setattr("unacorda.server.oidc._REFRESH_SECONDS", 0.0)
    assert ask("GET", "/v1/me", of=issuer.token(alg="EdDSA"), address="d").status_code == 200
    assert len(issuer.asked) == before + 2


@pytest.mark.long
def test_keys_from_elsewhere_are_not_fetched(tmp_path: Path) -> None:
    issuer = LocalIssuer()
    issuer.jwks_uri = "http://keys.example/keys"
    block = f'[oidc]\nissuer = "{issuer.url}"\naudience = "unacorda"\n'
    try:
        with served(tmp_path, CONFIGURATION + block) as ask:
            problem(ask("GET", "/v1/me", of=issuer.token()), "no-token")
        assert len(issuer.asked) == 1
    finally:
        issuer.close()


@in_subtests(
    "block",
    [
        'audience = "a"',
        'issuer = "https://a.example"',
        'issuer = "http://a.example"\naudience = "a"',
        'issuer = "ftp://a.example"\naudience = "a"',
        'issuer = "https://a.example"\naudience = 1',
        'issuer = "https://a.example"\naudience = "a"\ncurators = "office"',
        'issuer = "https://a.example"\naudience = "a"\nalgorithms = ["none"]',
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, block: str) -> None:
    with pytest.raises(InvalidParameter, match="oidc"):
        read_config(written(tmp_path, f"{CONFIGURATION}[oidc]\n{block}\n"))
