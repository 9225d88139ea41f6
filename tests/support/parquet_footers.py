"""Parquet files as no careful writer makes them: the bytes of values, under any annotation.

A file is written plainly by pyarrow, and then its footer (Thrift, compact protocol) is changed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CONVERTED", "Struct", "annotated", "edited", "logical"]

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    12,
)

CONVERTED = {
    "UTF8": 0,
    "MAP": 1,
    "LIST": 3,
    "ENUM": 4,
    "DECIMAL": 5,
    "DATE": 6,
    "TIME_MILLIS": 7,
    "TIME_MICROS": 8,
    "TIMESTAMP_MILLIS": 9,
    "TIMESTAMP_MICROS": 10,
    "UINT_8": 11,
    "UINT_16": 12,
    "UINT_32": 13,
    "UINT_64": 14,
    "INT_8": 15,
    "INT_16": 16,
    "INT_32": 17,
    "INT_64": 18,
    "JSON": 19,
    "BSON": 20,
    "INTERVAL": 21,
}
"""The older annotations by name."""
_LOGICAL = {
    "STRING": 1,
    "ENUM": 4,
    "DECIMAL": 5,
    "DATE": 6,
    "TIME": 7,
    "TIMESTAMP": 8,
    "INTEGER": 10,
    "UNKNOWN": 11,
    "JSON": 12,
    "BSON": 13,
    "UUID": 14,
    "FLOAT16": 15,
}
_UNITS = {"ms": 1, "us": 2, "ns": 3}

Struct = dict[int, tuple[int, Any]]
"""Fields by number, each with its Thrift type and value."""


@dataclass
class _Reader:
    data: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def whole(self) -> int:
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == _TRUE
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.whole()
            case 7:
                self.at += 8
                return self.data[self.at - 8 : self.at]
            case 8:
                size = self.varint()
                self.at += size
                return self.data[self.at - size : self.at]
            case 9:
                head = self.byte()
                size = head >> 4 if head >> 4 < 15 else self.varint()
                inside = head & 15
                if inside in (_TRUE, _FALSE):
                    return inside, [self.byte() for _ in range(size)]
                return inside, [self.value(inside) for _ in range(size)]
            case 12:
                return self.struct()
            case _:
                raise AssertionError(kind)

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while (head := self.byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self.whole()
            found[number] = (head & 15, self.value(head & 15))
        return found


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _whole(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _value(kind: int, value: Any) -> bytes:
    match kind:
        case 1 | 2:
            return b""
        case 3:
            return bytes([value])
        case 4 | 5 | 6:
            return _whole(value)
        case 7:
            return bytes(value)
        case 8:
            return _varint(len(value)) + bytes(value)
        case 9:
            inside, values = value
            head = bytes([min(len(values), 15) << 4 | inside])
            head += _varint(len(values)) if len(values) >= 15 else b""
            if inside in (_TRUE, _FALSE):
                return head + bytes(values)
            return head + b"".join(_value(inside, one) for one in values)
        case 12:
            return _struct(value)
        case _:
            raise AssertionError(kind)


def _struct(fields: Struct) -> bytes:
    found = b""
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        written = kind if kind not in (_TRUE, _FALSE) else (_TRUE if value else _FALSE)
        if 0 < number - last < 16:
            found += bytes([(number - last) << 4 | written])
        else:
            found += bytes([written]) + _whole(number)
        found += _value(kind, value)
        last = number
    return found + bytes([_STOP])


def edited(path: Path, edit: Callable[[Struct], None]) -> Path:
    """Change the footer of a file in place."""
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = _Reader(content[-8 - size : -8]).struct()
    edit(footer)
    written = _struct(footer)
    path.write_bytes(
        content[: -8 - size] + written + len(written).to_bytes(4, "little") + content[-4:]
    )
    return path


def logical(name: str, **facts: Any) -> Struct:
    """The newer annotation, such as `logical("TIMESTAMP", unit="ms", utc=True)`."""
    inside: Struct = {}
    match name:
        case "DECIMAL":
            inside = {1: (_I32, facts["scale"]), 2: (_I32, facts["precision"])}
        case "TIME" | "TIMESTAMP":
            unit: Struct = {_UNITS[facts["unit"]]: (_STRUCT, {})}
            inside = {1: (_TRUE, facts.get("utc", False)), 2: (_STRUCT, unit)}
        case "INTEGER":
            inside = {1: (_BYTE, facts["bits"]), 2: (_TRUE, facts["signed"])}
        case _:
            pass
    return {_LOGICAL[name]: (_STRUCT, inside)}


def annotated(
    path: Path,
    columns: Mapping[str, Any],
    *,
    column: str,
    converted: str | None = None,
    newer: Struct | None = None,
    decimal: tuple[int, int] | None = None,
    statistics: bool = True,
    **options: Any,
) -> Path:
    """Write columns plainly, then annotate one of them.

    converted, newer: the annotations, none where None. decimal: the precision and scale that stand
    beside an older DECIMAL. statistics: whether the file has any. options: of pyarrow's writer.
    """
    pq.write_table(
        pa.table(dict(columns)), path, write_statistics=statistics, store_schema=False, **options
    )

    def edit(footer: Struct) -> None:
        _, (_, elements) = footer[2]
        (element,) = (one for one in elements if one[4][1] == column.encode())
        for number in (6, 7, 8, 10):
            element.pop(number, None)
        if converted is not None:
            element[6] = (_I32, CONVERTED[converted])
        if decimal is not None:
            element[8], element[7] = (_I32, decimal[0]), (_I32, decimal[1])
        if newer is not None:
            element[10] = (_STRUCT, newer)

    return edited(path, edit)
