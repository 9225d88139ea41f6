"""Addresses of databases, which may hold passwords: read, and never repeated.

A message names the host, the port and the database of an address that could be read for certain,
and the scheme of another one where it is a known word. Nothing else of an address is shown.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

__all__ = ["ESCAPED", "Server", "shown"]

ESCAPED = "with %40 for each @ in a name or a password"
"""What an address must be so that it is read in one way alone."""

_SCHEMES = (
    *("file", "http", "https", "jdbc", "mariadb", "mssql", "mysql", "oracle", "sqlite"),
    *("postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2"),
)
_PLACE = ("host", "hostaddr", "port", "dbname", "user")
_PORTS = re.compile(r"[0-9,]*")


def shown(value: object) -> str:
    """What a message shows of what was given for an address: its scheme, or its type.

    >>> shown("mysql://ann:word@host/db"), shown("host=db password=word"), shown(b"word")
    ('mysql://...', '...', '<bytes>')
    """
    if not isinstance(value, str):
        return f"<{type(value).__name__}>"
    scheme, there, _ = value.partition("://")
    return f"{scheme}://..." if there and scheme.lower() in _SCHEMES else "..."


@dataclass(frozen=True, slots=True)
class Server:
    """The public part of an address. name: its database and place; the rest stays hidden."""

    name: str
    _hidden: tuple[str, ...] = field(repr=False)

    @staticmethod
    def of(text: str, parts: Mapping[str, object]) -> Server | None:
        """The server at an address; None where it might have been meant in another way.

        text: the address; parts: what a driver reads it as, by the names of libpq. Where an @
        stands in a password, the end of that is read as the host, or as the database; so is an
        option before which no question mark stands. Half a character can not be sent.
        """
        place = {name: part for name in _PLACE for part in [str(parts.get(name) or "")]}
        read = [text, *place.values(), *map(unquote, place.values())]
        if text.count("@") > 1 or any(sign in part for part in read[1:] for sign in "@="):
            return None
        if any("\ud800" <= sign <= "\udfff" for part in read for sign in part):
            return None
        if _PORTS.fullmatch(place["port"]) is None:
            return None
        words = [f"database {place['dbname']}"] if place["dbname"] else ["the default database"]
        where = place["host"] or place["hostaddr"]
        words += [f"on {where}"] if where else []
        words += [f"port {place['port']}"] if place["port"] else []
        hidden = [one for name, part in parts.items() if name not in _PLACE for one in _texts(part)]
        return Server(f"{words[0]} {', '.join(words[1:])}".strip(), tuple(filter(None, hidden)))

    def reason(self, error: BaseException) -> str:
        """The first line of a driver's error, unless a hidden part of the address is in it."""
        origin = getattr(error, "orig", None) or error
        text = str(origin).partition("\n")[0]
        return "the connection failed" if any(one in text for one in self._hidden) else text


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, tuple | list):
        for one in part:
            yield from _texts(one)
    elif part is not None:
        yield str(part)
