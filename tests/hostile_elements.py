"""Elements that break lists: what a person's value may be, however it came there."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas
import pyarrow


class Raising:
    """An object all of whose conversions fail."""

    def __index__(self) -> int:
        raise RuntimeError("secret")

    def __float__(self) -> float:
        raise MemoryError("secret")

    def __array__(self) -> Any:
        raise ValueError("secret")

    def __eq__(self, other: object) -> bool:
        raise KeyError("secret")

    __hash__ = None  # type: ignore[assignment]


class Lying(float):
    """A float that is none when it is asked."""

    def __float__(self) -> float:
        raise ValueError("secret")


HOSTILE: dict[str, Any] = {
    "0": 0,
    "-7": -7,
    "2^53 + 1": 2**53 + 1,
    "2^60 + 127": 2**60 + 127,
    "2^63 - 1": 2**63 - 1,
    "2^63": 2**63,
    "2^64": 2**64,
    "-2^63 - 1": -(2**63) - 1,
    "10^400": 10**400,
    "-10^5000": -(10**5000),
    "True": True,
    "1.5": 1.5,
    "-0.0": -0.0,
    "5e-324": 5e-324,
    "1.8e308": 1.7976931348623157e308,
    "NaN": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "None": None,
    "no text": "",
    "text of a number": "7",
    "text": "secret",
    "text with a zero": "a\0",
    "half of a character": "\ud800",
    "long text": "x" * 100_000,
    "bytes": b"7",
    "complex": 1j,
    "Decimal": Decimal("0.1"),
    "Decimal beyond 2^53": Decimal(2**60 + 127),
    "Decimal NaN": Decimal("NaN"),
    "Decimal sNaN": Decimal("sNaN"),
    "Decimal far out": Decimal("-1e999999"),
    "Decimal of nothing": Decimal("1e-999999"),
    "Fraction": Fraction(1, 3),
    "Fraction far out": Fraction(10**400, 3),
    "int64": np.int64(2**60 + 127),
    "uint64": np.uint64(2**64 - 1),
    "float16": np.float16(0.1),
    "float32": np.float32(0.1),
    "longdouble": np.longdouble(1) / 3,
    "longdouble far out": np.longdouble(2) ** 5000,
    "bool_": np.bool_(True),
    "str_": np.str_("7"),
    "datetime64": np.datetime64("NaT"),
    "timedelta64": np.timedelta64(3, "s"),
    "array of one": np.array(4.0),
    "array": np.array([1.0, 2.0]),
    "array of text": np.array("7"),
    "masked": np.ma.masked,
    "list": [1, 2],
    "empty list": [],
    "deep list": [[[1]]],
    "dict": {1: 2},
    "set": {1},
    "date": datetime.date(2020, 1, 1),
    "pandas NA": pandas.NA,
    "pandas NaT": pandas.NaT,
    "pandas Timestamp": pandas.Timestamp("2020-01-01", tz="UTC"),
    "pandas Series": pandas.Series([1, 2]),
    "arrow scalar": pyarrow.scalar(5),
    "object": object(),
    "raising": Raising(),
    "lying": Lying(3),
    "function": len,
    "class": int,
}
"""By name; two of them in one list must not disturb each other."""

FEW = (
    *("2^63", "2^64", "10^400", "1.5", "NaN", "None", "text of a number", "Decimal far out"),
    *("Fraction", "list", "raising", "pandas NA"),
)
"""Those of the short run: one for each way in which NumPy fails."""
