"""Names and values as text that people read, whatever signs they hold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import unicodedata

__all__ = ["NOTHING", "clean"]

NOTHING = "no usable answer"
"""What is shown of an answer where the noise leaves everything possible."""


def clean(text: str) -> str:
    r"""The text on one line, without signs that steer a terminal: each is shown as its escape.

    >>> clean("a\x1b[31m\tb\nspent nothing")
    'a\\x1b[31m\\tb\\nspent nothing'
    """
    return "".join(
        sign
        if unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
