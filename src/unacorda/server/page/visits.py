"""One request of a browser that is signed in."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unacorda.server.page.forms import Fields
from unacorda.server.store import Token

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request with its sender.

    form_token: what the forms of this browser must hold; fields: of the form that was sent.
    """

    request: Request
    holder: Token
    form_token: str
    fields: Fields = field(default_factory=dict)

    @property
    def analyst(self) -> str:
        """Who asks."""
        return self.holder.analyst
