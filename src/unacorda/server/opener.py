"""Safe addresses, and requests that stay there: no redirection carries a token elsewhere."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

LOCAL: Final = ("127.0.0.1", "localhost", "::1")
"""The hosts that are this machine."""


def is_safe_address(address: str) -> bool:
    """Whether an address is https, or on this machine."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in LOCAL
    return bool(parts.netloc) and (parts.scheme == "https" or local)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is redirected is refused, as any other status that is no answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER: Final = urllib.request.build_opener(_NoRedirect)
"""What opens an address and stays there."""
