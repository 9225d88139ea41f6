"""Names and values as text that people read, whatever characters they hold."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import unicodedata

__all__ = ["NOTHING", "escape"]

NOTHING = "no usable answer"
"""What is shown of an answer where the noise leaves everything possible."""


def escape(text: str) -> str:
    r"""The text on one line, without characters that steer a terminal: each is shown as its escape.

    >>> escape("a\x1b[31m\tb\nspent nothing")
    'a\\x1b[31m\\tb\\nspent nothing'
    """
    return "".join(
        character
        if unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
