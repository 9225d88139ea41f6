"""The public keys of a question's groups, as the caller wrote them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.query.columns import MOST_KEYS, Key, check_keys, plain_key
from unacorda.query.expressions.types import Kind

__all__ = ["check_few", "key_kinds", "tuples_of"]


def key_kinds(keys: Sequence[Key]) -> tuple[Kind, ...]:
    """The kinds of column that these keys may be values of."""
    sample = next((key for key in keys if key is not None), None)
    match sample:
        case None:
            return tuple(Kind)
        case bool():
            return (Kind.BOOLEAN,)
        case int():
            return (Kind.INTEGER, Kind.NUMBER)
        case str():
            return (Kind.TEXT,)
        case dt.date():
            return (Kind.DATE,)


def tuples_of(columns: Sequence[str], keys: Any) -> tuple[tuple[Key, ...], ...]:
    """Keys of several columns, given as tuples, checked."""
    expected = f"a list of tuples, one value for each of {', '.join(columns)}"
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InvalidParameter("keys", keys, expected=expected)
    rows = [
        tuple(key) if isinstance(key, tuple | list) else None
        for key in itertools.islice(keys, MOST_KEYS + 1)
    ]
    check_few([rows])
    if not rows or any(row is None or len(row) != len(columns) for row in rows):
        raise InvalidParameter("keys", keys, expected=expected)
    names = [f"keys[{name!r}]" for name in columns]
    whole = [tuple(map(plain_key, names, row)) for row in rows if row is not None]
    for index, name in enumerate(names):
        # Told apart by type too: 1 and True are equal.
        found = dict.fromkeys((type(row[index]), row[index]) for row in whole)
        check_keys(name, [key for _, key in found])
    if len(set(whole)) < len(whole):
        raise InvalidParameter("keys", keys, expected="no key twice")
    return tuple(whole)


def check_few(lists: Sequence[Sequence[object]]) -> None:
    """Raise InvalidParameter where all combinations are too many."""
    cells = 1
    for values in lists:
        cells *= len(values)
    if cells > MOST_KEYS:
        raise InvalidParameter("keys", f"{cells:,} keys", expected=f"at most {MOST_KEYS:,}")
