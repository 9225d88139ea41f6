"""Answers as files: checked before anything is spent, written whole or not at all."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.checks import demand
from unacorda.cli.params import FILE, Decorator, flag, option
from unacorda.cli.render import notice
from unacorda.extras import require
from unacorda.privacy.guarantees import left_of

if TYPE_CHECKING:
    from unacorda.query.results.description import Description
    from unacorda.query.results.release import Release
    from unacorda.synthesis.release import SyntheticTable


_PAGES = (".html", ".htm")
_TARGETS = {
    "table": ("--output", (".csv", ".json", ".parquet")),
    "record": ("--output", (".json",)),
    "picture": ("--output", (".svg", ".png", ".pdf")),
    "page": ("--html", _PAGES),
    "report": ("--report", _PAGES),
}
"""By what is written, its option and the endings of its file."""


def output(description: str, *, replaces: str = "--output") -> Decorator:
    """The options --output, with this help, and --overwrite, which lets files be replaced."""
    target = option("--output", FILE, description)
    overwrite = flag("--overwrite", f"Let {replaces} replace a file.")
    return lambda verb: target(overwrite(verb))


def check_target(path: Path | None, kind: str, *, overwrite: bool) -> None:
    """Find out before anything is spent whether the answer can be stored, where it is to be.

    kind: of `_TARGETS`. Raises InvalidParameter for another ending, a folder that is not there or
    not writable and, without `overwrite`, a file that is; MissingExtra where Parquet needs pyarrow.
    """
    if path is None:
        return
    option, endings = _TARGETS[kind]
    known = path.suffix.lower() in endings
    demand(known, option, str(path), expected=f"a file in {', '.join(endings)}")
    fits = not path.is_dir() and path.parent.is_dir() and os.access(path.parent, os.W_OK)
    demand(fits, option, str(path), expected="a file in a folder that exists and can be written to")
    new = overwrite or not path.exists()
    demand(new, option, str(path), expected="a file that does not exist yet, or --overwrite")
    if path.suffix.lower() == ".parquet":
        require("pyarrow", extra="frames")


def stored(answer: Release | Description, path: Path) -> bool:
    """Whether the answer, a look as a page or a record, is in the file; if not, that is said."""
    from unacorda.query.results.description import Description

    cost = answer.costs if isinstance(answer, Description) else str(answer.charge)
    spent = f"spent {cost}; {left_of(answer.remaining, answer.budget)}"
    return stored_as(path, lambda: _content(answer, path.suffix.lower()), spent=spent)


def stored_as(path: Path, content: Callable[[], bytes], *, spent: str) -> bool:
    """Whether what `content` makes is in the file, which is said with what was spent, or not."""
    try:
        write(content(), path)
    except Exception as error:  # noqa: BLE001  # whatever it is, the answer must not be lost
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        notice(f"{str(path)!r} could not be written: {why}.", kind="error")
        return False
    notice(f"written to {str(path)!r}; {spent}")
    return True


def write(content: bytes, path: Path) -> None:
    """Write next to the target, then rename: a reader sees the old file or the whole new one.

    Raises OSError; the target is then as it was.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _content(answer: Any, ending: str) -> bytes:
    if ending == ".json":
        return f"{answer.to_json()}\n".encode()
    if ending in _PAGES:
        return str(answer.to_html()).encode()
    if ending == ".parquet":
        sink = io.BytesIO()
        require("pyarrow.parquet", extra="frames").write_table(answer.to_arrow(), sink)
        return sink.getvalue()
    rows = answer.to_dicts()
    return _csv({name: [row[name] for row in rows] for name in answer.columns})


def _csv(columns: Mapping[str, Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def encode_rows(synthetic: SyntheticTable, ending: str) -> bytes:
    """The rows in the format of a file's ending; in .json all that was released."""
    if ending in (".json", ".parquet"):
        return _content(synthetic, ending)
    released = synthetic.columns()
    return _csv(
        {
            column.name: column.plain(released[column.name])[1]
            for column in synthetic.plan.domain.columns
        }
    )
