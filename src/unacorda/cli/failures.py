"""What goes wrong: one short message and an exit code, never a traceback, which may show data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import enum
import os
import sys
import warnings
from collections.abc import Iterator

import typer

from unacorda.cli.mends import bounds_mend, keys_mend, unit_mend
from unacorda.cli.show import notice
from unacorda.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerFailed,
    LedgerMismatch,
    MissingExtra,
    SourceChanged,
    SourceUnreadable,
    UnacordaError,
    UnsafeExpression,
    UnsupportedConstruct,
    UnsupportedEvent,
    WrongUnit,
)
from unacorda.query.schema.quoting import escape

__all__ = ["EXIT_CODES", "ExitCode", "exit_code", "report_usage", "reporting", "silence"]

_LONGEST = 1200


class ExitCode(enum.IntEnum):
    """How the command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    BUDGET = 3
    SOURCE = 4
    LEDGER = 5
    INTERRUPTED = 130
    PIPE = 141


EXIT_CODES = (
    "Exit codes: 0 answered; 1 the engine or the command failed; 2 wrong usage; 3 the budget does "
    "not suffice; 4 the data file cannot be read or was changed; 5 the ledger was opened with "
    "other terms or cannot be used; 130 interrupted."
)
"""For the help of every verb."""

_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "delimiter",
        "error",
        "ledger",
        "level_weights",
        "max_groups",
        "max_rows",
        "max_rows_per_group",
        "unit",
    )
}
"""Arguments in Python that are options under the same name."""

_HINTS = {
    "budget": "Write --budget epsilon=3, which opens the account.",
    "columns": "Facts about columns come from --bounds and --columns.",
}


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Run a verb; whatever it raises ends the command with a message and a code.

    Raises typer.Exit instead of every exception but its own kind.
    """
    code: ExitCode | None = None
    try:
        with _warnings_in_words():
            yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        silence()
        code = ExitCode.PIPE
    except KeyboardInterrupt:
        notice("Interrupted. If the question had begun, what it costs stays spent.")
        code = ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last door: a traceback may show data
        code = exit_code(error)
        notice(_message(error), kind="error")
    # Raised out here, so that no exception's text hangs on it.
    if code is not None:
        raise typer.Exit(code)


def report_usage(error: typer.BadParameter) -> int:
    """Say in one line what is wrong with a command line, and return the exit code.

    error: any usage error, of which typer.BadParameter is one.
    """
    context = error.ctx
    verb = "unacorda" if context is None else context.command_path
    text = error.format_message()
    if context is not None and text.startswith("Missing"):
        names = [
            str(getattr(parameter, "metavar", None) or parameter.name)
            if parameter.param_type_name == "argument"
            else parameter.opts[0]
            for parameter in context.command.params
            if parameter.required and context.params.get(parameter.name or "") is None
        ]
        text = f"Missing: {' and '.join(names)}." if names else text
    text = text.rstrip(".")
    notice(
        escape(f"{text}{'' if text.endswith('?') else '.'} See {verb} --help."),
        kind="error",
    )
    return int(ExitCode.USAGE)


def exit_code(error: Exception) -> ExitCode:
    """The exit code of an exception."""
    match error:
        case BudgetExceeded():
            return ExitCode.BUDGET
        case SourceUnreadable() | SourceChanged():
            return ExitCode.SOURCE
        case LedgerMismatch() | LedgerFailed():
            return ExitCode.LEDGER
        case InvalidParameter() | WrongUnit() | UnsupportedEvent() | MissingExtra():
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILED


def silence() -> None:
    """Send what is still unwritten nowhere, after the reader of stdout has gone away."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    drawing = error.drawing if isinstance(error, InvalidParameter) else ""
    text = _told(error, str(error).removesuffix(drawing))
    text = escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
    # Its own lines break; whatever else holds a line break, such as a name, shows an escape.
    return "\n".join([text, *map(escape, drawing.splitlines()[1:])])


def _told(error: Exception, said: str) -> str:
    """One line; said: the error's message."""
    match error:
        case BudgetExceeded(asked=asked, left=left, account=account):
            return (
                f"This question costs {asked}; {left} is left in account {account!r}. Nothing was "
                "read and nothing was spent. Ask for less."
            )
        case UnsafeExpression() | UnsupportedConstruct():
            return said
        case InvalidParameter():
            return _refused(error)
        case WrongUnit(left=left, right=right):
            return f"{left} cannot be counted in {right}. {unit_mend(left, right)}"
        case UnacordaError():
            return said
        case _:
            # The text of an exception that is not ours may hold a row.
            return (
                f"The command failed ({type(error).__name__}). No more is shown, because it may "
                "depend on the data. What a question that had begun costs stays spent."
            )


def _refused(error: InvalidParameter) -> str:
    """What is wrong with an argument, and which option gives it; its own hint is for Python."""
    hint = _HINTS.get(error.argument) if error.value is None else None
    match error.lacks:
        case "bounds":
            hint = bounds_mend(error.column)
        case "keys":
            hint = keys_mend(error.column)
        case "delta":
            return "Missing: --delta, such as --delta 1e-6, which --private-keys spends."
        case None:
            pass
    argument = _OPTIONS.get(error.argument, error.argument)
    plain = InvalidParameter(argument, error.value, expected=error.expected)
    said = f"Missing: {error.expected}." if error.value is None else str(plain)
    return said if hint is None else f"{said} {hint}"


@contextlib.contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Show the package's own warnings as notes, and those of others not at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"unacorda\.")
        warnings.showwarning = _note  # type: ignore[assignment]  # the rest of its arguments is not used
        yield


def _note(message: Warning | str, *_rest: object) -> None:
    notice(escape(str(message)))
