"""Scores of canaries as a CSV file holds them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import io
import math

from unacorda.errors import InvalidParameter

__all__ = ["read_scores"]

_TRUE = frozenset({"1", "1.0", "true", "yes", "in"})
_FALSE = frozenset({"0", "0.0", "false", "no", "out"})


def read_scores(text: str) -> tuple[list[float], list[bool]]:
    r"""Scores, and whether each canary was in; InvalidParameter names a line that cannot be used.

    >>> read_scores("score,included\n1.5,1\n-2,no\n")
    ([1.5, -2.0], [True, False])
    """
    scores: list[float] = []
    included: list[bool] = []
    for number, score, said in _lines(text):
        value = _number(score)
        if value is None:
            raise InvalidParameter(f"score in line {number}", score, expected="a number")
        coin = said.strip().lower()
        if coin not in _TRUE | _FALSE:
            raise InvalidParameter(f"included in line {number}", said, expected="1 or 0")
        scores.append(value)
        included.append(coin in _TRUE)
    if not scores:
        raise InvalidParameter("FILE", text, expected="a line for each canary below its header")
    return scores, included


def _lines(text: str) -> list[tuple[int, str, str]]:
    """The number of each line and its two fields, empty where it has none."""
    lines = csv.DictReader(io.StringIO(text), restval="")
    found, broken = [], False
    try:
        names = list(lines.fieldnames or ())
        if names.count("score") == names.count("included") == 1:
            found = [(lines.line_num, line["score"], line["included"]) for line in lines]
        else:
            broken = True
    except csv.Error:
        names, broken = ["text that is no CSV"], True
    if broken:
        expected = f"the columns score and included, each once, not {', '.join(names) or 'none'}"
        raise InvalidParameter("FILE", text, expected=expected)
    return found


def _number(text: str) -> float | None:
    """A number that is no NaN; else None."""
    try:
        found = float(text)
    except ValueError:
        return None
    return None if math.isnan(found) else found
