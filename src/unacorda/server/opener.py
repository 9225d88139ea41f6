"""Requests that follow no redirection, which would carry a token or trust elsewhere."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import urllib.request
from typing import Any, Final


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is redirected is refused, as any other status that is no answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER: Final = urllib.request.build_opener(_NoRedirect)
"""What opens an address and stays there."""
