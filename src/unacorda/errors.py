"""Every exception unacorda raises, in one tree.

::

    UnacordaError
    ├── InvalidParameter (ValueError)     an argument is out of range, of the wrong type or unknown
    │   ├── MissingBound                  an aggregate needs public bounds that were not given
    │   ├── UnsafeExpression              an expression or SELECT leaves the row-wise, total subset
    │   └── UnsupportedConstruct          this engine does not compute it to the same value
    ├── WrongUnit (TypeError)             two guarantees of different kinds meet
    ├── UnsupportedEvent                  no theorem here prices this event in that kind
    ├── BudgetExceeded                    a request costs more than is left
    ├── LedgerMismatch                    the account was opened with other terms
    ├── LedgerFailed                      the ledger could not be read or written
    ├── SourceChanged                     a table's file moved, grew or vanished since it was opened
    ├── SourceUnreadable (OSError)        a table's file is missing or has no readable header
    ├── EngineFailed                      the engine stopped; constant text, the spend stays
    ├── DeadlinePassed                    planning took longer than it may; nothing was spent
    ├── FitFailed                         an estimator failed on the rows; constant text
    ├── ServerRefused                 a server does not answer, with its reason
    ├── StreamStopped                     a started mechanism takes no further question
    ├── InternalError                     unacorda contradicts itself: a bug, to be reported
    └── MissingExtra (ImportError)        an optional package is not installed

No message ever contains a value from the data: texts are functions of what the caller wrote, of
public facts (column names, paths, budgets) and of constants.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import datetime as dt
import decimal
import enum
import itertools
import math
import pathlib
import types
import uuid
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BudgetExceeded",
    "DeadlinePassed",
    "EngineFailed",
    "FitFailed",
    "InternalError",
    "InvalidParameter",
    "LedgerFailed",
    "LedgerMismatch",
    "MissingBound",
    "MissingExtra",
    "ServerRefused",
    "SourceChanged",
    "SourceUnreadable",
    "StreamStopped",
    "UnacordaError",
    "UnsafeExpression",
    "UnsupportedConstruct",
    "UnsupportedEvent",
    "WrongUnit",
]

_SINGLE = (
    *(type(None), bool, int, float, complex, str, bytes, Fraction, decimal.Decimal, range, type),
    *(dt.date, dt.time, dt.timedelta, enum.Enum, uuid.UUID, pathlib.PurePath, types.FunctionType),
)
"""Values that hold no others."""
_PLACES = frozenset({"tables", "public", "ledger", "engine"})
"""Arguments of those who run the process, not of those who ask."""
_LONG_NUMBER = 128  # bits
_SHOWN = 200  # characters of a value, and more than enough of its items


Lacking: TypeAlias = Literal["bounds", "keys", "delta"]


class UnacordaError(Exception):
    """The root: ``except UnacordaError`` catches everything that unacorda raises on purpose."""

    @property
    def public(self) -> str:
        """The text for analysts, who do not run the process: without path and address."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        # By default an exception is rebuilt from its message, which these constructors do not take.
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


class InvalidParameter(UnacordaError, ValueError):
    """An argument is not usable; the message names it, its value and the hint.

    argument: the name the caller wrote; value: what was given; expected: what would be right;
    hint: how that is written in Python. lacks: what has to be given too, "bounds", "keys" or
    "delta", where that is all; column: the column or expression that lacks it. drawing: the lines
    at the end of the message that show the place in a text, where that is known. pointer: the place
    in a JSON object (RFC 6901), where that is known; the message then begins with it.
    """

    drawing: str = ""
    pointer: str = ""

    def __init__(
        self,
        argument: str,
        value: object,
        *,
        expected: str,
        hint: str = "",
        lacks: Lacking | None = None,
        column: str | None = None,
    ) -> None:
        self.argument, self.value, self.expected = argument, value, expected
        self.hint, self.lacks, self.column = hint, lacks, column
        whole = f"{expected}: {hint}" if hint else expected
        end = "" if whole.endswith("?") else "."
        super().__init__(f"{argument}={_show(value)} cannot be used: expected {whole}{end}")

    @property
    def public(self) -> str:
        """The same without the value where it says where data or a ledger lie."""
        if self.argument.partition("[")[0] not in _PLACES:
            return str(self)
        return str(self).replace(f"{self.argument}={_show(self.value)} ", f"{self.argument} ")

    def about(self, argument: str, value: object, **changes: str) -> InvalidParameter:
        """Return the same error of another argument, as its caller wrote it.

        Parameters
        ----------
        argument
            The name of the other argument.
        value
            What was given for it.
        **changes
            `expected`, `hint` or `column` in other words.

        Returns
        -------
        InvalidParameter
            A new error; `MissingBound` where this is one.
        """
        kept = ("expected", "hint", "lacks", "column")
        stated: Any = {name: getattr(self, name) for name in kept} | changes
        kind = MissingBound if isinstance(self, MissingBound) else InvalidParameter
        return kind(argument, value, **stated)

    def placed(self, text: str, place: tuple[int, int]) -> Self:
        """Return the same error with a mark under its place in a text.

        Parameters
        ----------
        text
            What was read.
        place
            Its first character, and one past its last.

        Returns
        -------
        InvalidParameter
            A copy, whose message shows the place.
        """
        shown = copy.copy(self)
        shown.drawing = _marked(text, *place)
        shown.args = (f"{self.args[0]}{shown.drawing}", *self.args[1:])
        return shown

    def within(self, *names: object) -> Self:
        """Return the same error of something inside other objects.

        Parameters
        ----------
        *names
            Names of objects and places in lists, from the outside.

        Returns
        -------
        InvalidParameter
            A copy, whose `pointer` begins with them.
        """
        shown = copy.copy(self)
        step = "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)
        shown.pointer = step + self.pointer
        text = self.args[0].removeprefix(f"{self.pointer}: ") if self.pointer else self.args[0]
        shown.args = (f"{shown.pointer}: {text}", *self.args[1:])
        return shown


class MissingBound(InvalidParameter):
    """An aggregate needs a public lower and upper bound for this column or expression."""

    def __init__(
        self,
        argument: str,
        value: object = None,
        *,
        expected: str,
        hint: str = "",
        lacks: Lacking | None = "bounds",
        column: str | None = None,
    ) -> None:
        super().__init__(argument, value, expected=expected, hint=hint, lacks=lacks, column=column)


class UnsafeExpression(InvalidParameter):
    """An expression or SELECT uses something outside the row-wise, total subset of SQL.

    text: the whole expression; reason: what is wrong; hint: what may be written instead; place:
    where in the text it stands (first character, and one past the last), where that is known; the
    message then shows the line with a mark below it.
    """

    def __init__(
        self, text: str, *, reason: str, hint: str, place: tuple[int, int] | None = None
    ) -> None:
        super().__init__("expression", text, expected=hint)
        self.text, self.reason, self.hint, self.place = text, reason, hint, place
        self.drawing = "" if place is None else _marked(text, *place)
        self.args = (f"{_show(text)} cannot be used: {reason}. {hint}{self.drawing}",)


class UnsupportedConstruct(InvalidParameter):
    """A question uses what this engine does not have.

    construct: by its name in SQL; engine: the one that was asked.
    """

    def __init__(self, construct: str, *, engine: str) -> None:
        super().__init__(
            "engine",
            engine,
            expected=f"a question without {construct}, which {engine} does not have: write it "
            "otherwise, or open the session with engine='duckdb'",
        )
        self.construct, self.engine = construct, engine


class WrongUnit(UnacordaError, TypeError):
    """Two guarantees of different kinds meet where only one kind can stand.

    left, right: what met; hint: the conversion to write.
    """

    def __init__(self, left: object, right: object, *, hint: str) -> None:
        self.left, self.right, self.hint = left, right, hint
        super().__init__(f"{left} and {right} are of different kinds. {hint}")


class UnsupportedEvent(UnacordaError):
    """No theorem in this package prices the event in the kind that was asked for."""

    def __init__(self, event: object, *, kind: str, try_instead: str) -> None:
        self.event, self.kind, self.try_instead = event, kind, try_instead
        written = event if isinstance(event, str) else _show(event)
        super().__init__(f"{written} has no price in {kind}. {try_instead}")


class BudgetExceeded(UnacordaError):
    """A request costs more than is left; nothing was read and nothing was spent."""

    def __init__(self, *, asked: object, left: object, account: str) -> None:
        self.asked, self.left, self.account = asked, left, account
        super().__init__(
            f"This request costs {asked}; {left} is left in account {account!r}. "
            "Ask for less: a part of `session.remaining`, such as `session.remaining / 4`."
        )


class LedgerMismatch(UnacordaError):
    """The account exists with other terms than those that were given.

    ledger: its address or path, where the message has it.
    """

    def __init__(self, message: str, *, ledger: str = "") -> None:
        self.ledger = ledger
        super().__init__(message)

    @property
    def public(self) -> str:
        """The same without the ledger's address."""
        return str(self).replace(f" {self.ledger}", "") if self.ledger else str(self)


class LedgerFailed(UnacordaError):
    """The ledger could not be read or written: locked for long, full disk, damaged file.

    A reservation that fails so may or may not have been written; if it was, it stays spent.
    """

    def __init__(self, ledger: str, *, reason: str) -> None:
        self.ledger, self.reason = ledger, reason
        super().__init__(
            f"The ledger {ledger!r} could not be used: {reason}. No answer was given. Look at its "
            "entries to see whether the question was charged."
        )

    @property
    def public(self) -> str:
        """The same without the ledger's address."""
        return (
            "The ledger of budgets could not be used. No answer was given. Whether the question "
            "was charged stands in its entries."
        )


class SourceChanged(UnacordaError):
    """A table's file is not the one that was opened: path, size or time differ."""

    @property
    def public(self) -> str:
        """The same without the path."""
        return "A table is not the one that was opened: it has changed since. No answer was given."


class SourceUnreadable(UnacordaError, OSError):
    """A table's file is missing, unreadable or without a usable header or footer."""

    @property
    def public(self) -> str:
        """The same without the path."""
        return "A table cannot be read. No answer was given."


class EngineFailed(UnacordaError):
    """The engine stopped. The text is constant, so that it tells nothing about the rows.

    asked: whether it may have read anything; else it was gone before, and nothing was spent.
    """

    def __init__(self, *, asked: bool = True) -> None:
        self.asked = asked
        super().__init__(
            "The query engine failed while it ran this question. What it cost stays spent. "
            "Nothing about the cause is shown, because it may depend on the data."
            if asked
            else "The query engine was closed before this question read anything. Nothing was "
            "spent. Open a new session."
        )


class FitFailed(UnacordaError):
    """An estimator failed on the rows. The text is constant, so that it tells nothing of them."""

    def __init__(self) -> None:
        super().__init__(
            "The fit failed on the rows. What it cost stays spent. Nothing about the cause is "
            "shown, because it may depend on the data. The same fit to zeros succeeded."
        )


class ServerRefused(UnacordaError):
    """A server does not answer; the message is its own.

    kind: the last part of the problem's type, such as "budget-exceeded", or "unreachable". status:
    of HTTP, 0 without a response. pointer: the place in the request, where that is known.
    """

    def __init__(self, detail: str, *, kind: str, status: int, pointer: str = "") -> None:
        self.kind, self.status, self.pointer = kind, status, pointer
        super().__init__(detail)


class StreamStopped(UnacordaError):
    """A mechanism that is fed one question at a time takes no more; nothing was answered."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"This stream takes no further question: {reason}. Start another one, which costs "
            "its event again."
        )


class InternalError(UnacordaError):
    """Two things that unacorda proved contradict each other: one is wrong, and no answer is given.

    subject: what they speak of; contradiction: what was proved, of public numbers alone.
    """

    def __init__(self, subject: object, *, contradiction: str) -> None:
        self.subject, self.contradiction = subject, contradiction
        super().__init__(
            f"unacorda contradicts itself about {_show(subject)}: {contradiction}. This is a bug, "
            "and no answer is given. Please report it as SECURITY.md says, with this text and the "
            "version."
        )


class DeadlinePassed(UnacordaError):
    """What a question costs takes longer to compute than it may. Nothing is read or spent."""

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"What this question costs was not computed within {seconds:g} seconds. "
            "Hint: ask for fewer aggregates at once, or give them equal weights."
        )


class MissingExtra(UnacordaError, ImportError):
    """An optional package is not installed; the message gives the command that installs it."""

    def __init__(self, package: str, *, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"This needs the package {package!r}. Run: pip install 'unacorda[{extra}]'"
        )


def _rebuilt(
    kind: type[UnacordaError], args: tuple[object, ...], fields: dict[str, object]
) -> object:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


def _show(value: object, *, limit: int = _SHOWN) -> str:
    if isinstance(value, int | Fraction) and max(_bits(value)) > _LONG_NUMBER:
        return _magnitude(value)
    try:
        text = repr(_without_tables(value))
    except ValueError:  # Python writes no whole number of more than 4300 digits
        text = f"<{type(value).__name__} with numbers too long to write>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _bits(number: int | Fraction) -> tuple[int, int]:
    return number.numerator.bit_length(), number.denominator.bit_length()


def _magnitude(number: int | Fraction) -> str:
    """The first digits and the power of ten: 1e-400, of a number of hundreds of digits."""
    size = math.log10(abs(number.numerator)) - math.log10(number.denominator)
    power = math.floor(size + 1e-9)
    return f"{'-' if number < 0 else ''}{10 ** (size - power):.3g}e{power}"


def _without_tables(value: object, *, depth: int = 3) -> object:
    """The value with the names of types in place of what may hold private rows.

    Shown are single values, unacorda's own, and what stands in plain containers, to this depth.
    """
    root, name = type(value).__module__.partition(".")[0], type(value).__name__
    if type(value) in (list, tuple, set, frozenset):
        items = itertools.islice(cast("Iterable[object]", value), _SHOWN if depth else 0)
        kind = cast("type[list[object]]", type(value))
        return kind(_without_tables(item, depth=depth - 1) for item in items)
    if type(value) is dict:
        pairs = itertools.islice(value.items(), _SHOWN if depth else 0)
        return {name: _without_tables(item, depth=depth - 1) for name, item in pairs}
    scalar = root == "numpy" and getattr(value, "shape", None) == () and name != "ndarray"
    if scalar or root == "unacorda" or isinstance(value, _SINGLE):
        return value
    return _Named(f"<{root}.{name}>")


class _Named:
    """What stands in a message for a value that is not shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _marked(text: str, start: int, end: int, *, width: int = 100) -> str:
    """The line of a text in which a part stands, with a mark below the part.

    >>> print(_marked("age > 18 AND random() < 1", 13, 21))
    <BLANKLINE>
      age > 18 AND random() < 1
                   ^^^^^^^^
    """
    first = text.rfind("\n", 0, start) + 1
    after = text.find("\n", start)
    line = text[first:] if after < 0 else text[first:after]
    before = max(0, start - first - width // 2) if len(line) > width else 0
    line = "".join(sign if sign.isprintable() else " " for sign in line[before : before + width])
    at = start - first - before
    mark = "^" * max(1, min(end - start, len(line) - at))
    return f"\n  {line}\n  {' ' * at}{mark}"
