"""The bars that a range is cut into for its picture."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import dataclass

__all__ = ["Bins", "shown"]

_MOST = 20
_WHOLE = 200  # up to so many whole numbers bars hold as many of them each
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Equal parts of a public range. first: where they begin; width: of each; labels: in order."""

    first: float
    width: float
    labels: tuple[str, ...]

    @staticmethod
    def of(low: float, high: float, *, whole: bool, date: bool) -> Bins:
        """At most 20 parts; of few whole numbers, or days, each holds as many of them.

        >>> Bins.of(1, 12, whole=True, date=False).labels[-2:]
        ('11', '12')
        >>> Bins.of(1, 31, whole=True, date=False).labels[:2]
        ('1 to 2', '3 to 4')
        >>> Bins.of(0, 40, whole=False, date=False).labels[:2]
        ('0 to 2', '2 to 4')
        """
        first, last = math.ceil(low), math.floor(high)
        count = last - first + 1
        if (whole or date) and 1 <= count <= _WHOLE:
            width = -(-count // _MOST)
            starts = range(first, last + 1, width)
            ends = [min(start + width - 1, last) for start in starts]
            return Bins(
                first=first,
                width=width,
                labels=tuple(_between(a, b, date=date) for a, b in zip(starts, ends, strict=True)),
            )
        edges = [low + (high - low) * place / _MOST for place in range(_MOST + 1)]
        labels = tuple(_between(a, b, date=date) for a, b in itertools.pairwise(edges))
        return Bins(first=low, width=(high - low) / _MOST, labels=labels)

    def place(self, value: str) -> str:
        """SQL of the number of a value's bin, NULL for NULL; the outer bins are open."""
        # Divided, so that whole numbers at the edges are where they belong.
        place = f"FLOOR(({value} - ({float(self.first)!r})) / {float(self.width)!r})"
        clamped = f"CAST(LEAST(GREATEST({place}, 0), {len(self.labels) - 1}) AS INTEGER)"
        # GREATEST and LEAST pass over NULL: alone they would put it into the lowest bin.
        return f"CASE WHEN ({value}) IS NOT NULL THEN {clamped} END"


def shown(value: float, *, date: bool, width: float = 0.0) -> str:
    """A number, or a day, to a thousandth of the range it lies in."""
    if date:
        return str(_EPOCH + dt.timedelta(days=round(value)))
    if not width:
        return f"{value:,.6g}"
    digits = max(0, 3 - math.floor(math.log10(width)))
    return f"{value:,.{digits}f}" if digits < 10 else f"{value:.4g}"


def _between(low: float, high: float, *, date: bool) -> str:
    ends = dict.fromkeys(shown(end, date=date) for end in (low, high))
    return " to ".join(ends)
