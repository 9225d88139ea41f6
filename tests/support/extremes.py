"""Dates and instants at both ends of every type, and all that the language can do with them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from tests.support.seams import FORMATS, PARTS, UNITS, Session

import unacorda
from unacorda.errors import EngineFailed

__all__ = ["DATE_TEXTS", "DAYS", "INSTANTS", "TEXTS", "failing", "of_dates", "of_instants"]

_DAY = 86_400_000_000
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LAST, _FIRST = 2**63 - 1, -(2**63)

# Days since 1970 at which something begins or ends.
_KNOWN_DAYS = (
    *(-719_162, 2_932_896),  # 0001-01-01 and 9999-12-31
    *(2_440_588 - 1, -2_440_588, 2_145_031_948, 106_751_991, -106_751_992, 106_751_982),
    *(-719_528, -135_140, 0, -1, 1, 19_782, 11_016, 107_000_000, -107_000_000),
)
DAYS: tuple[int, ...] = (
    *(2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, -(2**31) + 2),
    *(day + step for day in _KNOWN_DAYS for step in (-1, 0, 1)),
)
"""Days since 1970 around both ends of what 32 bits, DuckDB, PostgreSQL, Spark and Python hold."""


def _instants(unit: str) -> tuple[int, ...]:
    per_second = _PER_SECOND[unit]
    near = {_LAST - step for step in (0, 1, 2, 999, 1_000, 10**6, _DAY)}
    near |= {_FIRST + step for step in (0, 1, 2, 808, 809, 1_000, 10**6, _DAY)}
    for size in _PER_SECOND.values():  # the ends of finer units, and those of the coarser in this
        for end in (_LAST, _FIRST, -9_223_372_022_400_000_000, 9_223_371_331_200_000_000):
            near |= {end * per_second // size + step for step in (-1, 0, 1)}
    for day in (*_KNOWN_DAYS, 106_758_000, 107_116_852):  # the last is 294276-12-31
        near |= {day * 86_400 * per_second + step for step in (-1, 0, 1)}
    return tuple(sorted(one for one in near if _FIRST <= one <= _LAST))


INSTANTS: dict[str, tuple[int, ...]] = {unit: _instants(unit) for unit in _PER_SECOND}
"""Ticks since 1970 by unit (s, ms, us, ns): everything that 64 bits hold, around each known end."""

DATE_TEXTS: tuple[str, ...] = (
    *("0001-01-01", "0000-12-31", "9999-12-31", "10000-01-01", "infinity", "-infinity", "epoch"),
    *("5881580-07-10", "5881580-07-11", "5877642-06-25 (BC)", "5877642-06-24 (BC)"),
    *("294276-12-31", "294277-01-01", "294247-01-10", "294247-01-11", "4713-01-01 (BC)"),
    *("290309-12-22 (BC)", "290309-12-21 (BC)", "290308-12-21 (BC)", "1582-10-10", "1970-01-01"),
)
"""Dates as text, at the same ends."""

TEXTS: tuple[str, ...] = (
    *DATE_TEXTS,
    *("294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775806", "294276-12-31 23:59:59.999"),
    *("290309-12-22 (BC) 00:00:00", "290309-12-21 (BC) 19:59:05.224192", "9999-12-31 24:00:00"),
    *("290309-12-21 (BC) 19:59:05.224194", "290309-12-21 (BC) 23:59:59.999999"),
    *("9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "0001-01-01 00:00:00+15:59"),
    *("9999-12-31 23:59:59.999999-15:59", "1677-09-21 00:12:43.145224", "2262-04-11 23:47:16.854"),
)
"""Instants as text, at the same ends."""


def of_dates(name: str, other: str = "DATE '2024-02-29'") -> tuple[str, ...]:
    """Every operation of the language on a column of dates, beside another date."""
    parts = [part for part in PARTS if part not in ("HOUR", "MINUTE", "SECOND")]
    units = [unit for unit in UNITS if unit not in ("HOUR", "MINUTE", "SECOND")]
    return (*_of_moments(name, other, parts, units), f"CAST({name} AS TIMESTAMP)")


def of_instants(name: str, other: str = "TIMESTAMP '2024-02-29 12:00:00'") -> tuple[str, ...]:
    """Every operation of the language on a column of instants, beside another instant."""
    return (
        *_of_moments(name, other, tuple(PARTS), tuple(UNITS)),
        f"TRY_CAST(CAST({name} AS VARCHAR) AS TIMESTAMP)",
        f"EPOCH({name}) / 86400",
        f"TO_TIMESTAMP(EPOCH({name}))",
        f"TO_TIMESTAMP(EPOCH({name}) * 1000)",
        f"DATE_DIFF('day', CAST({name} AS DATE), {other})",
        f"{name} > DATE '2024-02-29'",
    )


def _of_moments(
    name: str, other: str, parts: Sequence[str], units: Sequence[str]
) -> tuple[str, ...]:
    pairs = ((name, other), (other, name), (name, name), (name, f"{name} + INTERVAL 1 DAY"))
    return (
        name,
        *(f"EXTRACT({part} FROM {name})" for part in parts),
        *(f"DATE_DIFF('{unit}', {a}, {b})" for unit in units for a, b in pairs),
        *(f"DATE_SUB('{unit}', {a}, {b})" for unit in units for a, b in pairs),
        *(f"DATE_PART('year', AGE({a}, {b}))" for a, b in pairs),
        *(f"DATE_TRUNC('{unit}', {name})" for unit in units),
        *(
            f"{name} {sign} INTERVAL {steps} {unit}"
            for unit in units
            for sign in "+-"
            for steps in (1, 100_000)
        ),
        *(
            f"STRFTIME({name}, '{sign}')"
            for sign in FORMATS
            if parts == tuple(PARTS) or sign[-1] not in "HIMSp"
        ),
        *(f"{function}({name})" for function in ("LAST_DAY", "DAYNAME", "MONTHNAME")),
        *(f"{function}({name})" for function in ("DATE",)),
        *(f"CAST({name} AS {kind})" for kind in ("VARCHAR", "DATE", "TIMESTAMP")),
        f"LENGTH(CAST({name} AS VARCHAR))",
        f"TRY_CAST(CAST({name} AS VARCHAR) AS DATE)",
        f"TRY_STRPTIME(CAST({name} AS VARCHAR), '%Y-%m-%d')",
        f"CONCAT('<', CAST({name} AS VARCHAR), '>')",
        f"MAKE_DATE(YEAR({name}), MONTH({name}), DAY({name}))",
        *(f"{name} {sign} {other}" for sign in ("=", "<>", "<", "<=", ">", ">=")),
        f"{name} IS DISTINCT FROM {other}",
        f"{name} BETWEEN {other} AND {name}",
        f"{name} IN ({other})",
        f"{name} IS NULL",
        *(f"{function}({name}, {other})" for function in ("LEAST", "GREATEST", "COALESCE")),
        f"NULLIF({name}, {other})",
        f"CASE WHEN {name} < {other} THEN {name} ELSE {other} END",
    )


def failing(
    session: Session, expressions: Sequence[str], *, table: str = "t", size: int = 40
) -> list[str]:
    """Ask for every expression as a column and as a condition; those that the engine fails at.

    The budget of the session is not used up by many questions: each takes the thousandth part.
    """
    found: list[str] = []
    for start in range(0, len(expressions), size):
        part = list(expressions[start : start + size])
        if not _answered(session, table, part):
            found += [one for one in part if not _answered(session, table, [one])]
    return found


def _answered(session: Session, table: str, expressions: Sequence[str]) -> bool:
    rows = session.table(table).derive(**{f"y{i}": text for i, text in enumerate(expressions)})
    counts = {f"n{i}": unacorda.count(f"y{i}") for i in range(len(expressions))}
    met = rows.where(" OR ".join(f"y{i} IS NOT NULL" for i in range(len(expressions))))
    try:
        for asked in (rows, met):
            session.evaluate(asked.agg(**counts), budget=unacorda.PureDP("1e-3"))
    except EngineFailed:
        return False
    return True
