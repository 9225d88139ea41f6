"""A data file of the command line: where it is, how it is read, what its table is called."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.query.schema.sources import Csv

__all__ = ["ALWAYS", "DataFile", "table_name"]

ALWAYS = "data"
"""What the table of every file may be called."""

_ENDINGS = re.compile(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", re.IGNORECASE)
_NO_CSV = re.compile(r"::|\.(parquet|pq)$", re.IGNORECASE)
_TABS = {"tab": "\t", "\\t": "\t"}
_SIGNS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of people; nothing is opened before it is asked for.

    data: the file; delimiter: the sign between its columns, where it is CSV and not usual.
    """

    data: str
    delimiter: str | None

    @property
    def name(self) -> str:
        """What its table is called."""
        return table_name(self.data)

    def look(self) -> str | None:
        """Look for the file, before anything else is asked of it; a hint where it looks odd.

        Raises SourceUnreadable where it is missing or has no header, and InvalidParameter.
        """
        from unacorda.query.schema.sources import CsvFile, locate

        found = locate(self.name, self.source())
        if not isinstance(found, CsvFile) or len(found.columns) > 1:
            return None
        (header,) = found.columns
        for sign, written in _SIGNS.items():
            if sign in header:
                return (
                    f"the header of {self.data!r} is one column, which holds {sign!r}. If that "
                    f"stands between columns, write --delimiter {written}."
                )
        return None

    def source(self) -> str | Csv:
        """The file as a session takes it; InvalidParameter where it has no delimiter."""
        if self.delimiter is None:
            return self.data
        from unacorda.query.schema.sources import Csv

        if _NO_CSV.search(self.data):
            raise InvalidParameter(
                "--delimiter", self.delimiter, expected="it beside a CSV file alone"
            )
        return Csv(self.data, delimiter=_TABS.get(self.delimiter.lower(), self.delimiter))


def table_name(data: str) -> str:
    """The name of a file's table: its own, without ending, made an identifier.

    >>> table_name("in/2024 visits.csv.gz"), table_name("clinic.duckdb::visits")
    ('t_2024_visits', 'visits')
    """
    _, database, table = data.partition("::")
    bare = table.rpartition(".")[2] if database else _ENDINGS.sub("", PurePath(data).name)
    name = re.sub(r"\W+", "_", bare).strip("_")
    if not name:
        return ALWAYS
    return f"t_{name}" if name[0].isdigit() else name
