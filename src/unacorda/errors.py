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


def __dir__() -> list[str]:
    return sorted(__all__)


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
    """The root: ``except UnacordaError`` catches everything that unacorda raises on purpose.

    Examples
    --------
    >>> import unacorda
    >>> try:
    ...     unacorda.PureDP(-1)
    ... except unacorda.errors.UnacordaError as error:
    ...     print(error)
    epsilon=-1 cannot be used: expected a finite number, 0 or above.
    """

    @property
    def public(self) -> str:
        """The text for analysts, who do not run the process: without path and address."""
        return str(self)

    def __reduce__(self) -> tuple[object, ...]:
        # By default an exception is rebuilt from its message, which these constructors do not take.
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


class InvalidParameter(UnacordaError, ValueError):
    """An argument is not usable. The message names it, its value and what would be right.

    Attributes
    ----------
    argument, value
        The name that the caller wrote, and what was given.
    expected, hint
        What would be right, and how that is written in Python.
    lacks, column
        What has to be given too, where that is all: "bounds", "keys" or "delta"; and the column or
        expression that lacks it.
    drawing
        The lines at the end of the message that show the place in a text, where that is known.
    pointer
        The place in a JSON object (RFC 6901), where that is known. The message begins with it.

    Examples
    --------
    >>> import unacorda
    >>> try:
    ...     unacorda.Person("id", max_rows=0)
    ... except unacorda.errors.InvalidParameter as error:
    ...     print(error.argument, error.value)
    max_rows 0
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
    """An aggregate needs public bounds of this column or expression.

    Its attributes are those of `InvalidParameter`; `column` is what lacks bounds.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> tables = {"visits": pandas.DataFrame({"age": [30, 41]})}
    >>> with unacorda.Session(tables, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
    ...     try:
    ...         session.table("visits").agg(age=unacorda.mean("age"))
    ...     except unacorda.errors.MissingBound as error:
    ...         print(error.column, error.lacks)
    age bounds
    """

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
        if argument == "SELECT" and isinstance(value, str) and lacks == "bounds":
            rest = f"{expected}: {hint}" if hint else expected
            self.args = (f"{_shown_text(value)} needs {rest}.",)


class UnsafeExpression(InvalidParameter):
    """An expression or SELECT uses something outside of the SQL that is safe.

    Attributes
    ----------
    text
        The whole expression.
    reason, hint
        What is wrong, and what may be written instead.
    place
        Where in the text it stands, where that is known: its first character, and one past its
        last. The message then shows the line with a mark below it.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> tables = {"visits": pandas.DataFrame({"age": [30, 41]})}
    >>> with unacorda.Session(tables, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
    ...     try:
    ...         session.table("visits").where("age > random()")
    ...     except unacorda.errors.UnsafeExpression as error:
    ...         print(error.text)
    age > random()
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

    Attributes
    ----------
    construct, engine
        What it is, by its name in SQL, and the engine that was asked.

    Examples
    --------
    >>> from unacorda.errors import UnsupportedConstruct
    >>> UnsupportedConstruct("exact decimals", engine="spark").construct
    'exact decimals'
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
    """Two guarantees of different kinds meet where only one kind is possible.

    Attributes
    ----------
    left, right
        What met.
    hint
        The conversion to write.

    Examples
    --------
    >>> import unacorda
    >>> try:
    ...     unacorda.PureDP(1) + unacorda.ZCDP(1)
    ... except unacorda.errors.WrongUnit as error:
    ...     print(error.right)
    rho 1
    """

    def __init__(self, left: object, right: object, *, hint: str) -> None:
        self.left, self.right, self.hint = left, right, hint
        super().__init__(f"{left} and {right} are of different kinds. {hint}")


class UnsupportedEvent(UnacordaError):
    """No theorem in this package prices the event in the kind that was asked for.

    Attributes
    ----------
    event, kind
        The event, and the kind of guarantee.
    try_instead
        What to ask instead.

    Examples
    --------
    >>> from unacorda import accounting, errors, events
    >>> try:
    ...     accounting.rho(events.Approximate(epsilon=1, delta=1e-6))
    ... except errors.UnsupportedEvent as error:
    ...     print(error.kind)
    zCDP without a delta
    """

    def __init__(self, event: object, *, kind: str, try_instead: str) -> None:
        self.event, self.kind, self.try_instead = event, kind, try_instead
        written = event if isinstance(event, str) else _show(event)
        super().__init__(f"{written} has no price in {kind}. {try_instead}")


class BudgetExceeded(UnacordaError):
    """A request costs more than is left. Nothing was read and nothing was spent.

    Attributes
    ----------
    asked, left
        The guarantees that were asked for and that are left.
    account
        Whose budget it is.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> tables = {"visits": pandas.DataFrame({"age": [30, 41]})}
    >>> with unacorda.Session(tables, unit=unacorda.Row(), budget=unacorda.PureDP(1)) as session:
    ...     query = session.table("visits").agg(n=unacorda.count())
    ...     try:
    ...         session.evaluate(query, budget=unacorda.PureDP(2))
    ...     except unacorda.errors.BudgetExceeded as error:
    ...         print(error.asked, error.left)
    epsilon 2 epsilon 1
    """

    def __init__(self, *, asked: object, left: object, account: str) -> None:
        self.asked, self.left, self.account = asked, left, account
        super().__init__(
            f"This request costs {asked}; {left} is left in account {account!r}. "
            "Ask for less: a part of `session.remaining`, such as `session.remaining / 4`."
        )


class LedgerMismatch(UnacordaError):
    """The account exists with other terms than those that were given.

    Attributes
    ----------
    ledger
        Its address or path, where the message has it.

    Examples
    --------
    >>> from unacorda.errors import LedgerMismatch
    >>> LedgerMismatch("the account has another unit", ledger="budget.db").ledger
    'budget.db'
    """

    def __init__(self, message: str, *, ledger: str = "") -> None:
        self.ledger = ledger
        super().__init__(message)

    @property
    def public(self) -> str:
        """The same without the ledger's address."""
        return str(self).replace(f" {self.ledger}", "") if self.ledger else str(self)


class LedgerFailed(UnacordaError):
    """The ledger could not be read or written: locked for long, a full disk, a damaged file.

    A reservation that fails like this may or may not have been written. If it was, it stays spent.

    Attributes
    ----------
    ledger, reason
        Its address or path, and what went wrong.

    Examples
    --------
    >>> from unacorda.errors import LedgerFailed
    >>> LedgerFailed("budget.db", reason="the disk is full").reason
    'the disk is full'
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
    """A table's file is not the one that was opened: its path, size or time differ.

    Examples
    --------
    >>> from unacorda.errors import SourceChanged, UnacordaError
    >>> issubclass(SourceChanged, UnacordaError)
    True
    """

    @property
    def public(self) -> str:
        """The same without the path."""
        return "A table is not the one that was opened: it has changed since. No answer was given."


class SourceUnreadable(UnacordaError, OSError):
    """A table's file is missing, unreadable, or has no usable header or footer.

    Examples
    --------
    >>> import unacorda
    >>> unit = unacorda.Row()
    >>> try:
    ...     unacorda.Session({"visits": "no-such.csv"}, unit=unit, budget=unacorda.PureDP(1))
    ... except unacorda.errors.SourceUnreadable as error:
    ...     print("no-such.csv" in str(error))
    True
    """

    @property
    def public(self) -> str:
        """The same without the path."""
        return "A table cannot be read. No answer was given."


class EngineFailed(UnacordaError):
    """The engine stopped. The text is constant, so that it tells nothing about the rows.

    Attributes
    ----------
    asked
        Whether it may have read anything, so that the budget stays spent. Otherwise it was gone
        before, and nothing was spent.

    Examples
    --------
    >>> from unacorda.errors import EngineFailed
    >>> EngineFailed().asked
    True
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
    """An estimator failed on the rows. The text is constant, so that it tells nothing of them.

    Examples
    --------
    >>> from unacorda.errors import FitFailed, UnacordaError
    >>> isinstance(FitFailed(), UnacordaError)
    True
    """

    def __init__(self) -> None:
        super().__init__(
            "The fit failed on the rows. What it cost stays spent. Nothing about the cause is "
            "shown, because it may depend on the data. The same fit to zeros succeeded."
        )


class ServerRefused(UnacordaError):
    """A server does not answer. The message is its own.

    Attributes
    ----------
    kind
        The last part of the problem's type, such as "budget-exceeded"; or "unreachable".
    status
        The status of HTTP, 0 without a response.
    pointer
        The place in the request, where that is known.

    Examples
    --------
    >>> from unacorda.errors import ServerRefused
    >>> ServerRefused("Nothing is left.", kind="budget-exceeded", status=403).kind
    'budget-exceeded'
    """

    def __init__(self, detail: str, *, kind: str, status: int, pointer: str = "") -> None:
        self.kind, self.status, self.pointer = kind, status, pointer
        super().__init__(detail)


class StreamStopped(UnacordaError):
    """A mechanism that is asked one question at a time takes no more. Nothing was answered.

    Attributes
    ----------
    reason
        Why it stopped.

    Examples
    --------
    >>> from unacorda.errors import StreamStopped
    >>> StreamStopped(reason="all positive answers were given").reason
    'all positive answers were given'
    """

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"This stream takes no further question: {reason}. Start another one, which costs "
            "its event again."
        )


class InternalError(UnacordaError):
    """Two things that unacorda proved contradict each other. No answer is given: report it.

    Attributes
    ----------
    subject, contradiction
        What they speak of, and what was proved, of public numbers alone.

    Examples
    --------
    >>> from unacorda.errors import InternalError
    >>> InternalError("epsilon", contradiction="it is above 2 and below 1").subject
    'epsilon'
    """

    def __init__(self, subject: object, *, contradiction: str) -> None:
        self.subject, self.contradiction = subject, contradiction
        super().__init__(
            f"unacorda contradicts itself about {_show(subject)}: {contradiction}. This is a bug, "
            "and no answer is given. Please report it as SECURITY.md says, with this text and the "
            "version."
        )


class DeadlinePassed(UnacordaError):
    """To compute the price of a question takes longer than it may. Nothing is read or spent.

    Attributes
    ----------
    seconds
        How long it may take.

    Examples
    --------
    >>> from unacorda.errors import DeadlinePassed
    >>> DeadlinePassed(seconds=10).seconds
    10
    """

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"What this question costs was not computed within {seconds:g} seconds. "
            "Hint: ask for fewer aggregates at once, or give them equal weights."
        )


class MissingExtra(UnacordaError, ImportError):
    """An optional package is not installed. The message gives the command that installs it.

    Attributes
    ----------
    package, extra
        What is missing, and the extra of unacorda that has it.

    Examples
    --------
    >>> from unacorda.errors import MissingExtra
    >>> MissingExtra("torch", extra="learning").extra
    'learning'
    """

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


def _shown_text(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


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
