"""Error responses of a server: `application/problem+json`, RFC 9457.

Only an error's public text is sent: no path, no address, no cause of a failure of the engine. Only
`engine-failed` depends on the data; it reveals one bit.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from unacorda.errors import (
    BudgetExceeded,
    DeadlinePassed,
    EngineFailed,
    InvalidParameter,
    LedgerFailed,
    LedgerMismatch,
    SourceChanged,
    SourceUnreadable,
    UnacordaError,
    UnsafeExpression,
    UnsupportedEvent,
    WrongUnit,
)

_LOG = logging.getLogger("unacorda.server")
MEDIA_TYPE: Final = "application/problem+json"

TITLES: Final[Mapping[str, tuple[int, str]]] = {
    "not-json": (400, "The request is not valid JSON of this kind"),
    "no-token": (401, "A token is needed"),
    "not-allowed": (403, "Only curators may do this"),
    "suspended": (403, "Your questions about this dataset are suspended"),
    "not-found": (404, "This dataset, question or page does not exist, or is not yours"),
    "not-a-method": (405, "This address does not have this method"),
    "budget-exceeded": (409, "The question costs more than is left"),
    "runs": (409, "The question is running and is paid"),
    "withdrawn": (409, "The question was withdrawn"),
    "lost": (409, "The question was paid but has no answer"),
    "too-large": (413, "The request is too large"),
    "not-a-type": (415, "The request must be application/json"),
    "another-host": (421, "The request is for another host"),
    "too-long": (422, "Computing the cost takes too long"),
    "refused": (422, "The question cannot be answered"),
    "too-many": (429, "Too many requests"),
    "failed": (500, "The server failed"),
    "engine-failed": (500, "The engine failed while it ran the question"),
    "busy": (503, "The server is busy"),
    "stopped": (503, "The dataset does not take questions at the moment"),
    "source-changed": (503, "A table has changed since it was opened"),
    "ledger-failed": (503, "The ledger of budgets cannot be used"),
    "unavailable": (503, "The dataset is not available"),
}
"""By the last part of a problem's type its status and title."""


class Problem(Exception):
    """The reason for a refusal. kind: of `TITLES`; detail: for people; more: further members."""

    def __init__(self, kind: str, detail: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.more = kind, detail, more or {}

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return TITLES[self.kind][0]

    def to_dict(self) -> dict[str, Any]:
        """The members of the problem, as RFC 9457 names them."""
        return {
            "type": f"tag:unacorda,2026:{self.kind}",
            "title": TITLES[self.kind][1],
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def any_problem(error: Exception) -> Problem:
    """Turn whatever a request met into a problem; what is not the library's is logged by its type.

    A traceback in a log could show a row.
    """
    match error:
        case Problem():
            return error
        case UnacordaError():
            return problem_of(error, own="", show_total=False)
        case SQLAlchemyError():
            _LOG.error("the store failed: %s", type(error).__name__)
            said = "The store of answers cannot be used. Ask a curator."
            return Problem("ledger-failed", said)
        case _:
            _LOG.error("failed: %s", type(error).__name__)
            return Problem("failed", "The server failed. Ask a curator.")


def problem_of(error: UnacordaError, *, own: str, show_total: bool) -> Problem:
    """Turn an error of the library into a problem.

    own: the analyst's account, as errors name it. show_total: whether the analyst may know what the
    dataset has left.
    """
    match error:
        case BudgetExceeded():
            theirs = error.account == own
            if not theirs and not show_total:
                return Problem(
                    "budget-exceeded", "The dataset does not have enough budget left for this."
                )
            whose = "of your limit" if theirs else "of the dataset's budget"
            detail = f"This costs {error.asked}; {error.left} is left {whose}."
            return Problem("budget-exceeded", detail, {"asked": str(error.asked)})
        case EngineFailed(asked=True):
            return Problem("engine-failed", error.public)
        case EngineFailed():
            return Problem("unavailable", error.public)
        case SourceChanged() | SourceUnreadable():
            return Problem("source-changed", error.public)
        case LedgerFailed() | LedgerMismatch():
            return Problem("ledger-failed", "The ledger of budgets cannot be used. Ask a curator.")
        case UnsafeExpression() if error.place is not None:
            place = {"place": list(error.place)} | _pointer(error)
            return Problem("refused", error.public, place)
        case InvalidParameter():
            return Problem("refused", error.public, _pointer(error))
        case DeadlinePassed():
            return Problem("too-long", error.public)
        case WrongUnit() | UnsupportedEvent():
            return Problem("refused", error.public)
        case _:
            return Problem("failed", "The server failed at this question.")


@contextlib.contextmanager
def as_problems(*, own: str = "", show_total: bool = False) -> Iterator[None]:
    """Raise errors of the library inside as problems, as `problem_of` makes them."""
    try:
        yield
    except UnacordaError as error:
        raise problem_of(error, own=own, show_total=show_total) from None


def whole_number(text: str, detail: str, *, digits: int) -> int:
    """The whole number that a text of a request is; Problem, with this detail, if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= digits):
        raise Problem("refused", detail)
    return int(text)


def _pointer(error: InvalidParameter) -> dict[str, Any]:
    return {"pointer": error.pointer} if error.pointer else {}
