"""What goes wrong: one short message and an exit code, never a traceback, which may show data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import enum
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from unacorda.cli.render import notice, rounded
from unacorda.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerFailed,
    LedgerMismatch,
    MissingBound,
    MissingExtra,
    SourceChanged,
    SourceUnreadable,
    UnacordaError,
    UnsafeExpression,
    UnsupportedConstruct,
    UnsupportedEvent,
    WrongUnit,
)

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee


@dataclass(slots=True)
class Invocation:
    """A command as it was called.

    arguments: as written; charges: what the account that pays was charged since a time, in words;
    None before it is known.
    """

    arguments: Sequence[str]
    charges: Callable[[datetime], str] | None = None
    interrupted: bool = False
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first interrupt raise KeyboardInterrupt; while it is reported, ignore others."""
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if ignored or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.interrupted = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def charged(self) -> str:
        """What was charged since the command began, in words."""
        if self.charges is None:
            return "No ledger was charged."
        try:
            return self.charges(self.began)
        except Exception:  # noqa: BLE001  # whatever it is, the interrupt is what is reported
            return "What the account was charged stands in unacorda ledger show."


_LONGEST = 1200
_MOST_ACCOUNTS = 20


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

_CODES: dict[type[Exception], ExitCode] = {
    BudgetExceeded: ExitCode.BUDGET,
    SourceUnreadable: ExitCode.SOURCE,
    SourceChanged: ExitCode.SOURCE,
    LedgerMismatch: ExitCode.LEDGER,
    LedgerFailed: ExitCode.LEDGER,
    InvalidParameter: ExitCode.USAGE,
    WrongUnit: ExitCode.USAGE,
    UnsupportedEvent: ExitCode.USAGE,
    MissingExtra: ExitCode.USAGE,
}

_OPTIONS = {
    *("bins", "delimiter", "error", "ledger", "level_weights", "max_groups", "max_rows"),
    *("max_rows_per_group", "never", "rows", "unit", "workload"),
}
"""Arguments in Python that are options under the same name."""

_HINTS = {
    "budget": "Write --budget epsilon=3, which opens the account.",
    "columns": "Facts about columns come from --bounds and --columns.",
}


def reported(command: Callable[[], Any], invocation: Invocation | None = None) -> int:
    """Run the command line; whatever it raises becomes a message, and its exit code is returned.

    Only warnings of this package are shown, as notes. invocation: what was called, of which an
    interrupt states what was charged.
    """
    called = invocation or Invocation(arguments=())
    code: ExitCode
    try:
        with _warnings_in_words():
            code = command() or ExitCode.OK
        return int(code)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = ExitCode.USAGE
    except click.UsageError as error:
        notice(_usage(error), kind="error")
        code = ExitCode.USAGE
    except BrokenPipeError:
        silence()
        code = ExitCode.PIPE
    except (KeyboardInterrupt, click.Abort):
        notice(f"Interrupted. {called.charged()}")
        code = ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the last door: a traceback may show data
        if called.interrupted:  # an engine makes an error of its own of an interrupt
            notice(f"Interrupted. {called.charged()}")
            return int(ExitCode.INTERRUPTED)
        codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
        code = next(codes, ExitCode.FAILED)
        drawing = error.drawing if isinstance(error, InvalidParameter) else ""
        # Its own lines break; whatever else holds a line break, such as a name, shows an escape.
        notice(_message(error, drawing), kind="error", drawing=drawing.splitlines()[1:])
    return int(code)


def _usage(error: click.UsageError) -> str:
    """One line that says what is wrong with a command line."""
    context, text = error.ctx, error.format_message()
    if isinstance(error, click.MissingParameter) and context is not None:
        names = [
            parameter.metavar if isinstance(parameter, click.Argument) else parameter.opts[0]
            for parameter in context.command.params
            if parameter.required and context.params.get(parameter.name or "") is None
        ]
        text = f"Missing: {' and '.join(map(str, names))}"
    group = None if context is None else context.command
    unknown = isinstance(error, click.exceptions.NoSuchCommand) and not error.possibilities
    if unknown and context is not None and isinstance(group, click.Group):
        text += f" There are {', '.join(group.list_commands(context))}"
    end = "" if text.endswith(("?", ".")) else "."
    return f"{text}{end} See {'unacorda' if context is None else context.command_path} --help."


def silence() -> None:
    """Send what is still unwritten nowhere, after the reader of stdout has gone away."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception, drawing: str) -> str:
    """What is wrong, in the words of a shell. drawing: of the place in a text, without which."""
    match error:
        case BudgetExceeded(asked=asked, left=left, account=account):
            text = (
                f"This question costs {asked}; {left} is left in account {account!r}. Nothing was "
                "read and nothing was spent. Ask for less."
            )
        case WrongUnit(left=left, right=right):
            text = f"{left} cannot be counted in {right}. {unit_hint(left, right)}"
        case InvalidParameter() if not isinstance(error, UnsafeExpression | UnsupportedConstruct):
            text = _refused(error)
        case UnacordaError():
            text = str(error).removesuffix(drawing)
        case _:
            # The text of an exception that is not ours may hold a row.
            text = (
                f"The command failed ({type(error).__name__}). No more is shown, because it may "
                "depend on the data. What a question that had begun costs stays spent."
            )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _refused(error: InvalidParameter) -> str:
    """What is wrong with an argument, and which option gives it; its own hint is for Python."""
    hint = _HINTS.get(error.argument) if error.value is None else None
    match error.lacks:
        case "bounds":
            hint = bounds_hint(error.column)
        case "keys":
            hint = keys_hint(error.column)
        case "delta":
            return "Missing: --delta, such as --delta 1e-6, which --private-keys spends."
        case None:
            pass
    said = f"Missing: {error.expected}."
    if error.value is not None:
        name = error.argument
        name = f"--{name.replace('_', '-')}" if name in _OPTIONS else name
        if name == "columns" and error.expected.startswith("a column of"):
            return f"--bounds or --columns names {error.value!r}: write {error.expected}."
        made = MissingBound if isinstance(error, MissingBound) else InvalidParameter
        said = str(made(name, error.value, expected=error.expected, lacks=error.lacks))
    return said if hint is None else f"{said} {hint}"


@contextlib.contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Show the package's own warnings as notes, and those of others not at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning, module=r"unacorda\.")
        warnings.showwarning = lambda message, *_: notice(str(message))
        yield


def bounds_hint(column: str | None) -> str:
    """The option that gives bounds of a column, or of those that an expression is made of.

    >>> bounds_hint("cost")
    'Write --bounds cost=LOWER:UPPER.'
    """
    if column is None or '"' in column:
        return "Write --bounds COLUMN=LOWER:UPPER for every column it is made of."
    return f"Write --bounds {_quoted(column, '=LOWER:UPPER')}."


def keys_hint(column: str | None) -> str:
    """The option that gives the keys of a column.

    >>> keys_hint("home county")
    "Write --keys 'home county=A,B', or --keys 'home county=@FILE' with one per line, or \
--private-keys 'home county', which finds them and spends a --delta."
    """
    column = column or "COLUMN"
    return (
        f"Write --keys {_quoted(column, '=A,B')}, or --keys {_quoted(column, '=@FILE')} with one "
        f"per line, or --private-keys {_quoted(column, '')}, which finds them and spends a --delta."
    )


def _quoted(column: str, rest: str) -> str:
    """A column and what follows it as a shell reads them; quoted where the column needs it."""
    return shlex.quote(f"{column}{rest}") if shlex.quote(column) != column else f"{column}{rest}"


def unit_hint(request: Any, budget: object) -> str:
    """The options that ask an account with this budget, instead of those that made the request.

    >>> from unacorda.privacy.guarantees import ZCDP, PureDP
    >>> unit_hint(ZCDP("0.01"), PureDP(1))
    'Ask with --epsilon, such as --epsilon 0.1415: that is within what you offered.'
    """
    from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

    # By the account's kind: options, a limit, kinds to look for, and what such an account takes.
    pure = "--epsilon", "epsilon=0.5", [PureDP], (PureDP,)
    both = "--epsilon, with --delta or without", "epsilon=0.5,delta=1e-8"
    known: dict[type, tuple[str, str, list[Any], tuple[type, ...]]] = {
        ApproxDP: (*both, [ApproxDP, PureDP], (PureDP, ApproxDP)),
        ZCDP: ("--rho", "rho=0.1", [ZCDP, PureDP], (PureDP, ApproxDP, ZCDP, GDP)),
        GDP: ("--mu or --epsilon", "mu=0.5", [GDP, PureDP], (PureDP, GDP)),
    }
    options, limit, kinds, taken = known.get(type(budget), pure)  # all take pure DP
    if isinstance(request, taken):  # a question would not have been refused
        return f"The limit of a sub-account is written as the account's budget, such as {limit}."
    for kind in kinds:
        # There may be no such guarantee: the options are named all the same.
        with contextlib.suppress(Exception):
            written = _options(kind.within(request))
            if written:
                return f"Ask with {options}, such as {written}: that is within what you offered."
    return f"Ask with {options}."


def no_account(name: str, known: Sequence[str]) -> str:
    """That a ledger has no account of this name, and which it has.

    >>> no_account("vists", ["people", "visits"])
    "There is no account named 'vists' in this ledger, which has 'people', 'visits'."
    """
    listed = ", ".join(map(repr, known[:_MOST_ACCOUNTS])) or "none yet"
    more = f" and {len(known) - _MOST_ACCOUNTS} more" if len(known) > _MOST_ACCOUNTS else ""
    return f"There is no account named {name!r} in this ledger, which has {listed}{more}."


def _options(guarantee: Guarantee) -> str:
    """A guarantee as options, rounded down to four digits; nothing where that is zero."""
    numbers = {
        name: rounded(float(text), up=False, digits=4)
        for name, text in guarantee.parameters.items()
    }
    if next(iter(numbers.values())) == "0":
        return ""
    return " ".join(f"--{name} {number}" for name, number in numbers.items() if number != "0")
