"""Tokens that an organization's issuer signed: who is believed, and all that is not."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import functools
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.server.served import CONFIGURATION, COUNT, Served, served, written
from tests.server.test_page import Browser, hidden
from tests.server.test_routes import ASK, problem
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter
from unacorda.server.config import read_config
from unacorda.server.oidc import CodeRequest
from unacorda.server.tokens import IDLE_SECONDS, LONGEST_SECONDS


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
                if "/authorize?" in self.path:
                    self.send_response(303)
                    self.send_header("Location", issuer.authorize(self.path))
                    self.end_headers()
                    return
                self.say(200, issuer.document(self.path))

            def do_POST(self) -> None:
                issuer.asked.append(self.path)
                length = int(self.headers["Content-Length"])
                given = dict(parse_qsl(self.rfile.read(length).decode()))
                said = issuer.redeem(given, self.headers.get("Authorization"))
                self.say(200 if "id_token" in said else 400, said)

            def say(self, status: int, value: Any) -> None:
                said = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/staff"
        self.jwks_uri = f"{self.url}/keys"
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {}
        self.secret: str | None = None
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def document(self, path: str) -> Any:
        if path.endswith("openid-configuration"):
            ends = {"authorization_endpoint": "authorize", "token_endpoint": "token"}
            found = {name: f"{self.url}/{end}" for name, end in ends.items()}
            return {"issuer": self.url, "jwks_uri": self.jwks_uri, **found}
        algorithms = {"RS256": "RSAAlgorithm", "ES256": "ECAlgorithm", "EdDSA": "OKPAlgorithm"}
        return {
            "keys": [
                json.loads(getattr(jwt.algorithms, algorithms[name]).to_jwk(key.public_key()))
                | {"kid": name, "alg": name, "use": "sig"}
                for name, key in self.keys.items()
            ]
        }

    def authorize(self, path: str) -> str:
        """Where a browser that signs in is sent back to."""
        asked = dict(parse_qsl(urlsplit(path).query))
        code = f"code{len(self.codes)}"
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def redeem(self, given: dict[str, str], authorization: str | None) -> dict[str, Any]:
        """What a code is worth, once."""
        asked = self.codes.pop(given.get("code", ""), None)
        challenge = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        said = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        client = base64.b64encode(f"page:{quote_plus(self.secret or '')}".encode()).decode()
        fits = asked is not None and (
            asked["code_challenge"] == said
            and asked["code_challenge_method"] == "S256"
            and asked["redirect_uri"] == given["redirect_uri"]
            and asked["client_id"] == given["client_id"]
            and given["grant_type"] == "authorization_code"
            and authorization == (None if self.secret is None else f"Basic {client}")
        )
        if asked is None or not fits:
            return {"error": "invalid_grant"}
        claims = {"aud": "page", "nonce": asked["nonce"], **self.claims}
        return {"access_token": "a", "token_type": "Bearer", "id_token": self.token(**claims)}

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
    assert issuer.asked[before:] == ["/staff/keys"]  # what it says of itself is kept longer


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
        'issuer = "https://a.example"\naudience = "a"\nclient_id = 1',
        'issuer = "https://a.example"\naudience = "a"\nclient_secret = "a"',
        'issuer = "https://a.example"\naudience = "a"\nclient_id = "a"\nclient_secret = "env:NO"',
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, block: str) -> None:
    with pytest.raises(InvalidParameter, match="oidc"):
        read_config(written(tmp_path, f"{CONFIGURATION}[oidc]\n{block}\n"))


@pytest.fixture(scope="module")
def paged(issuer: LocalIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose page the issuer knows."""
    block = f"""
[oidc]
issuer = "{issuer.url}"
audience = "unacorda"
client_id = "page"
curators = ["office"]
"""
    with served(tmp_path_factory.mktemp("served"), CONFIGURATION + block) as found:
        yield found


@pytest.fixture(autouse=True)
def as_usual(issuer: LocalIssuer) -> Iterator[None]:
    yield
    issuer.claims, issuer.secret = {}, None


def come_back(page: Browser, issuer: LocalIssuer, **changed: str) -> Any:
    """The response to a browser that comes back from the issuer; changed: what it brings."""
    away = page.get("/sign-in/organization")
    assert away.status_code == 303
    address = away.headers["location"]
    assert address.startswith(f"{issuer.url}/authorize?")
    back = urlsplit(issuer.authorize(address))
    query = {**dict(parse_qsl(back.query)), **changed}
    return page.get(f"{back.path}?{urlencode(query)}")


def test_a_browser_signs_in_by_the_organization(paged: Served, issuer: LocalIssuer) -> None:
    page = Browser(paged)
    assert "/sign-in/organization" in page.get("/sign-in").text
    found = come_back(page, issuer)
    assert found.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/"' in found.text
    shown = [one.lower() for one in found.headers.get_list("set-cookie")]
    assert [("samesite=strict" in one, "max-age=0" in one) for one in shown] == [
        (True, False),
        (False, True),
    ]
    assert all("httponly" in one and "domain" not in one for one in shown)
    assert "Visits" in page.get("/").text
    asked = urlsplit(page.get("/sign-in/organization").headers["location"])
    said = dict(parse_qsl(asked.query))
    assert said["response_type"] == "code"
    assert said["redirect_uri"] == f"{paged.service.config.public_url}/sign-in/callback"
    assert said["scope"] == "openid profile"
    assert len(said["nonce"]) == len(said["state"]) == len(said["code_challenge"]) == 43
    policy = found.headers["content-security-policy"]
    assert "form-action 'self'" in policy
    assert issuer.url not in policy


def test_a_curator_of_the_organization_acts_under_their_name(
    paged: Served, issuer: LocalIssuer
) -> None:
    issuer.claims = {"preferred_username": "eve", "groups": ["office"]}
    page = Browser(paged)
    assert come_back(page, issuer).status_code == 200
    page.form_token = hidden(page.get("/"), "form_token")
    assert page.post("/curator/operations", {"dataset": "labs", "do": "stop"}).status_code == 303
    act = paged.service.store.acts()[-1]
    assert (act.by, act.token) == ("eve", "oidc:u1")
    assert page.post("/sign-out").status_code == 303
    assert page.get("/").status_code == 303


CHANGED: dict[str, dict[str, str]] = {
    "another state": {"state": "x"},
    "no state": {"state": ""},
    "another code": {"code": "x"},
    "no code": {"code": ""},
    "a long code": {"code": "x" * 5_000},
    "another issuer": {"iss": "https://evil.example"},
    "an error": {"code": "", "error": "access_denied", "error_description": "<b>no</b>"},
}


@in_subtests("name", CHANGED)
def test_what_comes_back_otherwise_signs_no_one_in(
    paged: Served, issuer: LocalIssuer, name: str
) -> None:
    page = Browser(paged, address=name)
    found = come_back(page, issuer, **CHANGED[name])
    assert found.status_code == 401
    assert "did not sign you in" in found.text
    assert "<b>" not in found.text
    assert page.get("/").status_code == 303


CLAIMS: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "for programs": {"aud": "unacorda"},
    "of another party": {"aud": ["page", "mail"], "azp": "mail"},
    "expired": {"exp": 1},
    "no analyst": {"preferred_username": None},
    "another key": {"alg": "EdDSA", "key": OTHER},
}


@in_subtests("name", CLAIMS)
def test_a_token_for_something_else_signs_no_one_in(
    paged: Served, issuer: LocalIssuer, name: str
) -> None:
    issuer.claims = CLAIMS[name]
    page = Browser(paged, address=f"claims {name}")
    assert come_back(page, issuer).status_code == 401
    assert page.get("/").status_code == 303


@pytest.mark.long
def test_a_code_is_bound_to_the_browser_that_left(paged: Served, issuer: LocalIssuer) -> None:
    page, thief = Browser(paged, address="p"), Browser(paged, address="t")
    away = page.get("/sign-in/organization").headers["location"]
    back = urlsplit(issuer.authorize(away))
    thief.get("/sign-in/organization")
    assert thief.get(f"{back.path}?{back.query}").status_code == 401
    assert page.get(f"{back.path}?{back.query}").status_code == 200
    assert page.get(f"{back.path}?{back.query}").status_code == 401  # the code is used
    for _ in range(10):
        page.get("/sign-in/callback?code=a&state=b")
    assert page.get("/sign-in/callback?code=a&state=b").status_code == 429


@pytest.mark.long
def test_such_a_sign_in_ends_too(
    paged: Served, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.claims = {"exp": int(time.time()) + 5}  # of the token, which has done its work
    page = Browser(paged, address="ends")
    assert come_back(page, issuer).status_code == 200
    begun = time.time()
    monkeypatch.setattr("time.time", lambda: begun + 1_000)
    assert page.get("/").status_code == 200
    for later in (1_000 + IDLE_SECONDS + 61, LONGEST_SECONDS + 1):
        monkeypatch.setattr("time.time", functools.partial(float, begun + later))
        assert page.get("/").status_code == 303


@pytest.mark.long
def test_under_tls_and_with_a_secret(tmp_path: Path) -> None:
    issuer = LocalIssuer()
    issuer.secret = "a secret"
    block = f"""
[oidc]
issuer = "{issuer.url}"
audience = "unacorda"
client_id = "page"
client_secret = "file:secret"
"""
    (tmp_path / "secret").write_text("a secret\n")
    url = 'public_url = "https://ask.example"\n'
    try:
        text = CONFIGURATION.replace("timeout = 20\n", url) + block
        with served(tmp_path, text) as ask:
            assert "a secret" not in repr(ask.service.config)
            host: dict[str, Any] = {"of": None, "host": "https://ask.example"}
            away = ask("GET", "/sign-in/organization", **host)
            cookie = away.headers["set-cookie"]
            assert cookie.startswith("__Host-unacorda-issuer=")
            assert "Secure" in cookie
            assert "SameSite=lax" in cookie
            back = urlsplit(issuer.authorize(away.headers["location"]))
            kept = {"Cookie": cookie.partition(";")[0]}
            found = ask("GET", f"{back.path}?{back.query}", headers=kept, **host)
            assert found.status_code == 200
            assert "__Host-unacorda=" in found.headers["set-cookie"]
    finally:
        issuer.close()


def test_without_a_client_there_is_no_such_sign_in(ask: Served) -> None:
    page = Browser(ask)
    assert "organization" not in page.get("/sign-in").text
    for path in ("/sign-in/organization", "/sign-in/callback?code=a&state=b"):
        assert page.get(path).status_code == 404


def test_what_the_issuer_is_shown_says_nothing_of_the_secret() -> None:
    """The values of RFC 7636, appendix B, and parts that are all different."""
    stated = CodeRequest(state="", nonce="", verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert stated.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    one, other = CodeRequest.of("a"), CodeRequest.of("b")
    assert not {one.state, one.nonce, one.verifier} & {other.state, other.nonce, other.verifier}
