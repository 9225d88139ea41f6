"""What a command lacks, all of it in one message, with the command that has it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import click

from unacorda.errors import InvalidParameter

_T = TypeVar("_T")
_WIDTH = 76
_LINES = 12  # a longer command is not written again, so that a message fits one screen
_MOST = 12
_NAMED = {
    "--unit": ("--unit with --max-rows, or --row", "--unit COLUMN --max-rows N"),
    "--max-rows": ("--max-rows", "--max-rows N"),
    "DATA": ("DATA", "FILE.csv"),
    "SELECT": ("SELECT", '"SELECT COUNT(*) AS n FROM data"'),
    "FORMULA": ("FORMULA", '"TARGET ~ FEATURE"'),
}
"""By argument: how it is named in a message, and how it is written in a command."""


@dataclass(slots=True)
class Missing:
    """Collects what a command lacks.

    text: the SELECT or the formula, which stands last in a command; price: how a budget is written.
    """

    text: str | None = None
    price: str = "--epsilon 1"
    faults: list[InvalidParameter] = field(default_factory=list)

    def take(self, make: Callable[[], _T], instead: _T) -> _T:
        """What `make` gives; where that lacks an option, note this and give what stands for it."""
        try:
            return make()
        except InvalidParameter as fault:
            if fault.value is not None and fault.lacks is None:
                raise
            self.faults.append(fault)
            return instead

    def needed(self, value: object, name: str) -> None:
        """Note where there is no value that it is missing, by this name."""
        if value is None:
            self.faults.append(InvalidParameter(name, None, expected=name))

    def error(self) -> InvalidParameter:
        """What is lacking, at least one option, as one error."""
        first, *others = self.faults
        if first.drawing and not others:  # it shows the place in the SELECT
            return first
        named, written = zip(*map(self._named, self.faults), strict=True)
        more = [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
        whole = InvalidParameter("options", None, expected="; ".join([*named[:_MOST], *more]))
        if not others:
            whole = first.about(first.argument, first.value)
        command = self._command(written)
        if sum(1 + len(line) // _WIDTH for line in command.splitlines()) <= _LINES:
            whole.drawing = f"\nWrite:\n{command}"
        return whole

    def _command(self, written: Sequence[str]) -> str:
        """The command as it was written, with what it lacks in front of its last text."""
        context = click.get_current_context()
        given = [shlex.quote(one) for one in context.find_root().obj.arguments]
        last = [] if self.text is None else [shlex.quote(self.text)]
        rest = given[:-1] if last and given[-1:] == last else given
        if last and rest is given and last[0] in given:
            rest = [one for one in given if one != last[0]]
        lines = ["  unacorda"]
        for word in [*rest, *written, *last]:
            if len(lines[-1]) + len(word) < _WIDTH:
                lines[-1] += f" {word}"
            else:  # a quoted text is never broken, since it would be another text
                lines.append(f"    {word}")
        return " \\\n".join(lines)

    def _named(self, fault: InvalidParameter) -> tuple[str, str]:
        """How what is lacking is named, and written."""
        match fault.lacks:
            case "bounds":
                of = f"--bounds of {fault.column or 'every column'}"
                return of, _of(fault, "--bounds", "LOW:HIGH")
            case "keys":
                return f"--keys of {fault.column or 'every group'}", _of(fault, "--keys", "A,B")
            case "delta":
                return "--delta", "--delta 1e-6"
            case None if fault.argument.startswith("--epsilon"):
                return "--epsilon, --rho or --mu", self.price
            case None:
                return _NAMED.get(fault.argument, (fault.argument, fault.argument))


def _of(fault: InvalidParameter, option: str, value: str) -> str:
    column = fault.column or "COLUMN"
    return f"{option} {shlex.quote(f'{column}={value}')}"
