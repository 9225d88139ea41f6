"""The configuration of a server: the blocks [server] and [datasets.NAME] of one TOML file."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from unacorda.accounting.charges import request_price
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.server.oidc import OidcSettings
from unacorda.server.opener import LOCAL, is_safe_address
from unacorda.server.scheduling import AnswerTimes
from unacorda.settings import SERVER, Dataset, Settings, guarantee_of, read_settings

_FIXED_SECONDS: Final = 1.0
_SQLITE = "sqlite:///"
_UNIX = "unix:"
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(s|min|h)")
_UNITS: Final = {"s": 1, "min": 60, "h": 3_600}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


Reuse: TypeAlias = Literal["own", "dataset", "off"]
"""Whose stored release of an equal question is given again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a server: the options of `settings.SERVER`, each as it is used.

    Times are seconds. datasets: by name; host, port: where it listens, or, with a socket, the host
    of requests; health: the address and port of the health endpoints, or None.
    """

    datasets: Mapping[str, Dataset]
    ledger: str
    store: str
    host: str
    port: int
    socket: Path | None
    public_url: str
    behind_proxy: tuple[str, ...]
    questions_at_once: int
    queue: int
    timeout: float
    planning: float
    answer_after: AnswerTimes
    shutdown: float
    health: tuple[str, int] | None
    reuse: Reuse
    oidc: OidcSettings | None
    most_aggregates: int
    most_cells: int

    @property
    def public_host(self) -> str:
        """The host, with its port if any, that requests must name."""
        return urlsplit(self.public_url).netloc.lower()


def read_config(path: Path) -> Config:
    """Read a configuration; InvalidParameter, with the place, for errors in it.

    Secrets may be elsewhere: addresses may be ``env:NAME`` or ``file:PATH``.
    """
    settings = read_settings(path)
    defaults = {name: one.default for name, one in SERVER.items()}
    found, place = {**defaults, **settings.server}, f"{path}, server"
    listen, url, health = found["listen"], found["public_url"], found["health"]
    socket = _socket(f"{place}.listen", path, listen)
    host, port = ("localhost", 0) if socket else _listen(f"{place}.listen", listen)
    proxies = found["behind_proxy"]
    listed = isinstance(proxies, list) and all(isinstance(one, str) for one in proxies)
    demand(listed, f"{place}.behind_proxy", proxies, expected="a list of addresses")
    expected = "127.0.0.1 or localhost; another address only with behind_proxy, which ends TLS"
    demand(host in LOCAL or proxies, f"{place}.listen", listen, expected=expected)
    expected = "an address with a socket: how people reach the server"
    demand(socket is None or url is not None, f"{place}.public_url", None, expected=expected)
    expected = '"unix" only where listen is a socket'
    demand(socket or "unix" not in proxies, f"{place}.behind_proxy", proxies, expected=expected)
    reuse = found["reuse"]
    expected = '"own", "dataset" or "off"'
    demand(reuse in ("own", "dataset", "off"), f"{place}.reuse", reuse, expected=expected)
    url = f"http://{host}:{port}" if url is None else url
    parts = urlsplit(url) if isinstance(url, str) else None
    whole = parts is not None and parts.scheme in ("http", "https") and parts.netloc
    demand(whole, f"{place}.public_url", url, expected='an address such as "https://ask.example"')
    return Config(
        datasets=_checked(settings, found["least_a_question"]),
        ledger=_address(path, "ledger", settings.ledger or found["ledger"]),
        store=_address(path, "store", found["store"]),
        host=host,
        port=port,
        socket=socket,
        reuse=reuse,
        public_url=url.rstrip("/"),
        behind_proxy=tuple(proxies),
        questions_at_once=_whole(place, found, "questions_at_once"),
        queue=_whole(place, found, "queue"),
        timeout=_seconds(f"{place}.timeout", found["timeout"]),
        planning=_seconds(f"{place}.planning", found["planning"]),
        answer_after=_answer_times(f"{place}.answer_after", found["answer_after"]),
        shutdown=_seconds(f"{place}.shutdown", found["shutdown"]),
        oidc=None if settings.oidc is None else _oidc(path, settings.oidc),
        health=None if health is None else _listen(f"{place}.health", health),
        most_aggregates=_whole(place, found, "most_aggregates"),
        most_cells=_whole(place, found, "most_cells"),
    )


def _checked(settings: Settings, least: Any) -> Mapping[str, Dataset]:
    """The datasets, each with the least question of its own, or of the server."""
    place = f"{settings.path}, server.least_a_question"
    numbers = {} if least is None else least
    demand(isinstance(numbers, dict), place, least, expected="a table, such as { rho = 1e-4 }")
    found = {}
    for name, one in settings.datasets.items():
        lowest = one.least_a_question
        if lowest is None and numbers:
            lowest = guarantee_of(numbers, place)
        found[name] = replace(one, least_a_question=lowest)
        if lowest is not None and one.budget is not None:
            try:
                request_price(lowest, one.budget)
            except WrongUnit:
                expected = f"least_a_question of a kind that the budget {one.budget} takes"
                where = f"{settings.path}, datasets.{name}"
                raise InvalidParameter(where, lowest, expected=expected) from None
    for name, one in settings.datasets.items():
        place = f"{settings.path}, datasets.{name}"
        expected = "a name of letters, digits, '.', '_' and '-', since it stands in addresses"
        demand(_NAME.fullmatch(name), f"{settings.path}, datasets", name, expected=expected)
        demand(one.unit, f"{place}.unit", None, expected='unit, such as { person = "patient" }')
        demand(one.budget is not None, f"{place}.budget", None, expected="budget = { rho = 0.5 }")
    return found


def _answer_times(place: str, value: Any) -> AnswerTimes:
    if value == "fixed":
        return _FIXED_SECONDS
    if value in ("stepped", "at once"):
        times: AnswerTimes = value
        return times
    fits = isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 < value <= 3_600
    expected = '"fixed" (each second), seconds up to an hour, "stepped" or "at once"'
    demand(fits, place, value, expected=expected)
    return float(value)


def _oidc(path: Path, given: Mapping[str, Any]) -> OidcSettings:
    place = f"{path}, oidc"
    texts = {name: given[name] for name in given if name != "curators"}
    if isinstance(texts.get("client_secret"), str):
        secret = _secret(f"{place}.client_secret", path, texts["client_secret"])
        texts["client_secret"] = secret
        demand(
            "client_id" in texts,
            f"{place}.client_id",
            None,
            expected="client_id with client_secret",
        )
    for name, value in texts.items():
        fits = isinstance(value, str) and bool(value.strip())
        shown = "..." if name == "client_secret" else value
        demand(fits, f"{place}.{name}", shown, expected="a text")
    for name in ("issuer", "audience"):
        demand(
            name in given,
            f"{place}.{name}",
            None,
            expected="a text: tokens of this issuer, for this audience, are accepted",
        )
    expected = "an address with https, or http on this machine"
    demand(is_safe_address(texts["issuer"]), f"{place}.issuer", texts["issuer"], expected=expected)
    groups = given.get("curators", [])
    listed = isinstance(groups, list) and all(isinstance(one, str) for one in groups)
    demand(listed, f"{place}.curators", groups, expected="a list of groups")
    return OidcSettings(**texts, curators=tuple(groups))


def _socket(place: str, path: Path, value: Any) -> Path | None:
    """The socket that an address names, relative to the file; None for an address with a port."""
    if not (isinstance(value, str) and value.startswith(_UNIX)):
        return None
    name = value.removeprefix(_UNIX)
    demand(name.strip(), place, value, expected='a path, as in "unix:/run/unacorda.sock"')
    return path.parent.resolve() / name


def _listen(place: str, value: Any) -> tuple[str, int]:
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    fits = bool(colon and host and port.isdecimal() and int(port) < 1 << 16)
    expected = 'an address and a port, such as "127.0.0.1:8040", or "unix:/run/unacorda.sock"'
    demand(fits, place, value, expected=expected)
    return host.strip("[]"), int(port)


def _address(path: Path, name: str, value: Any) -> str:
    """An address of SQLAlchemy; files of SQLite are relative to the configuration."""
    place = f"{path}, server.{name}"
    expected = '"sqlite:///FILE", "postgresql://...", "env:NAME" or "file:PATH"'
    demand(isinstance(value, str) and value, place, "...", expected=expected)
    value = _secret(place, path, value)
    fits = value.startswith((_SQLITE, "postgresql://", "postgresql+psycopg://"))
    demand(fits, place, "...", expected=expected)  # it may hold a password
    if value.startswith(_SQLITE):
        return f"{_SQLITE}{path.parent.resolve() / value.removeprefix(_SQLITE)}"
    return str(value)


def _secret(place: str, path: Path, value: str) -> str:
    """A text, or what an environment variable or a file holds."""
    if value.startswith("env:"):
        return os.environ.get(value.removeprefix("env:"), "")
    if value.startswith("file:"):
        source = path.parent / value.removeprefix("file:")
        demand(source.is_file(), place, "...", expected="file: with a file that can be read")
        return source.read_text(encoding="utf-8").strip()
    return value


def _whole(place: str, found: Mapping[str, Any], name: str) -> int:
    value = found[name]
    fits = type(value) is int and 1 <= value <= 1 << 30
    demand(fits, f"{place}.{name}", value, expected="a whole number, 1 or above")
    return int(value)


def _seconds(place: str, value: Any) -> float:
    """Seconds, a number of them or a text with its unit.

    >>> _seconds("timeout", "5min"), _seconds("timeout", "90 s"), _seconds("timeout", 20)
    (300.0, 90.0, 20.0)
    """
    known = _DURATION.fullmatch(value) if isinstance(value, str) else None
    found = value if known is None else Decimal(known[1]) * _UNITS[known[2]]
    fits = isinstance(found, int | Decimal) and not isinstance(found, bool) and 0 < found <= 86_400
    expected = 'seconds, or such as "90s", "5min" or "1h": above 0 and at most a day'
    demand(fits, place, value, expected=expected)
    return float(found)
