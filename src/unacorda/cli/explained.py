"""An explanation as it is printed, in words or as JSON."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from unacorda.cli import show
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.query.results.explanation import Explanation

__all__ = ["plain_explanation", "print_explanation"]

_LEFT = "What is left: "


def plain_explanation(explanation: Explanation, *, has_account: bool) -> dict[str, Any]:
    """The explanation in plain values; without an account nothing is left or affordable."""
    found = explanation.to_dict()
    if not has_account:
        found |= {"left": None, "affordable": None}
    return found


def print_explanation(
    explanation: Explanation, *, has_account: bool, as_json: bool, public: bool
) -> None:
    """Print it; has_account: whether what it says is left is that of an account.

    public: whether a public table was read for it.
    """
    if as_json:
        found = plain_explanation(explanation, has_account=has_account)
        show.line(json.dumps(found, indent=2, default=str))
        return
    for text in str(explanation).splitlines():
        if has_account or not text.startswith(_LEFT):
            show.line(show.wrapped(escape(text)))
    show.line()
    read = "Nothing but the public table" if public else "Nothing"
    show.line(f"{read} was read and nothing was spent.")
