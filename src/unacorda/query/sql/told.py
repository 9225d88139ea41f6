"""What is wrong with a part of a SELECT, told with its clause, the caller's words and the place."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unacorda.errors import InvalidParameter, MissingBound, UnsafeExpression
from unacorda.query.sql.types import Place

__all__ = ["placed"]


@contextmanager
def placed(clause: str, text: str, place: Place) -> Iterator[None]:
    """Raise what is raised inside as about this part of a SELECT; of no known place as it is."""
    fault: InvalidParameter | None = None
    try:
        yield
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        if place is None:
            raise
        fault = error
    if fault is not None and place is not None:
        kind = MissingBound if isinstance(fault, MissingBound) else InvalidParameter
        part = text[slice(*place)]
        raise kind(clause, part, expected=fault.expected).placed(text, place)
