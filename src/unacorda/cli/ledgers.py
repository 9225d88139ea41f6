"""Ledgers as the verbs use them: opened by address, never made by a verb that only looks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unacorda.addresses import shown
from unacorda.cli.mends import no_account
from unacorda.cli.options import budget_of
from unacorda.errors import InvalidParameter, LedgerFailed

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee

__all__ = ["Below", "account_of", "accounts", "below_of", "is_new", "opened"]

_SQLITE = "sqlite:///"
_FILE = re.compile(r"[^@?:=]+")


@contextlib.contextmanager
def opened(url: str, *, must_exist: bool) -> Iterator[Ledger]:
    """The ledger at an address, closed at the end.

    must_exist: refuse the name of a file that is not there, instead of making it.
    Raises InvalidParameter, and LedgerFailed where the file may not be used.
    """
    from unacorda.ledger.opening import open_ledger

    if not url.startswith(_SQLITE) and (url.startswith("sqlite:") or "://" not in url):
        path = url.removeprefix("sqlite:").removeprefix("//")
        path = path if _FILE.fullmatch(path) else "budget.db"  # else it may hold a password
        raise InvalidParameter(
            "--ledger", shown(url), expected=f"an address: write --ledger {_SQLITE}{path}"
        )
    if must_exist and not _exists(url):
        raise InvalidParameter(
            "--ledger", _named(url), expected="a ledger that exists: there is no file"
        )
    refused: str | None = None
    try:
        ledger = open_ledger(url)
    except OSError as error:
        refused = error.strerror or "its file cannot be used"
    if refused is not None:
        raise LedgerFailed(_named(url), reason=refused)
    try:
        yield ledger
    finally:
        ledger.close()


def accounts(url: str) -> tuple[str, ...]:
    """The names of the accounts that have been opened; makes no ledger."""
    if not _exists(url):
        return ()
    with opened(url, must_exist=True) as ledger:
        return ledger.datasets()


def account_of(
    ledger: str | None, notes: Mapping[str, str | None], budget: str | None
) -> Guarantee | None:
    """The account's budget, where it is given.

    notes: what else a ledger keeps, by option, `--dataset` among it; without a ledger it would be
    lost unsaid. Raises InvalidParameter for options without a ledger, and for no data set with one.
    """
    if ledger is None:
        for option, text in {"--budget": budget, **notes}.items():
            if text is not None:
                raise InvalidParameter(
                    option, text, expected="it beside --ledger, which keeps the account"
                )
    elif not (notes["--dataset"] or "").strip():
        raise InvalidParameter(
            "--dataset",
            notes["--dataset"],
            expected="--dataset, the account's name in the ledger",
        )
    return None if budget is None else budget_of(budget)


@dataclass(frozen=True, slots=True)
class Below:
    """A sub-account that is to be debited too. limit: as it was given, if it was."""

    name: str
    limit: Guarantee | None

    def is_new(self, book: Ledger, dataset: str) -> bool:
        """Whether it is still to be opened; InvalidParameter where no limit would open it."""
        if self.name in book.sub_accounts(dataset):
            return False
        self.check_new()
        return True

    def check_left(self, request: Guarantee, book: Ledger | None, dataset: str) -> None:
        """Raise BudgetExceeded for what it does not pay; WrongUnit for another kind of budget.

        book: where its account is; None where there is none yet.
        """
        from unacorda.accounting.charges import request_price
        from unacorda.query.session import check_affordable

        left = self.limit
        if book is not None and not self.is_new(book, dataset):
            left = book.remaining(dataset, self.name)
        assert left is not None
        check_affordable(request_price(request, left), left, f"{dataset}/{self.name}")

    def check_new(self, budget: Guarantee | None = None) -> None:
        """Raise InvalidParameter without a limit, WrongUnit for one that a budget does not add."""
        if self.limit is None:
            raise InvalidParameter(
                "--limit",
                None,
                expected=f"--limit, such as epsilon=0.5, which opens the sub-account "
                f"{self.name!r}: there is none of that name yet",
            )
        if budget is not None:
            from unacorda.accounting.filters import Filter

            Filter(budget).admits(self.limit)


def below_of(name: str | None, limit: str | None, analyst: str | None) -> Below | None:
    """The sub-account that options name; InvalidParameter where they do not fit together."""
    if name is None:
        if limit is not None:
            raise InvalidParameter("--limit", limit, expected="it beside --sub-account")
        return None
    if not name.strip():
        raise InvalidParameter("--sub-account", name, expected="a name that is not empty")
    if analyst is not None:
        expected = "one of --analyst, which is a note alone, and --sub-account, which is noted too"
        raise InvalidParameter("--analyst", analyst, expected=expected)
    return Below(name, None if limit is None else budget_of(limit, option="--limit"))


def is_new(url: str, dataset: str, budget: Guarantee | None) -> bool:
    """Whether the account is still to be opened; InvalidParameter where no budget would open it."""
    known = accounts(url)
    if dataset in known:
        return False
    if budget is None:
        raise InvalidParameter(
            "--budget",
            None,
            expected="--budget, such as epsilon=3, which opens an account. "
            + no_account(dataset, known).removesuffix("."),
        )
    return True


def _named(url: str) -> str:
    """The address of a file, or what may be shown of another one."""
    path = url.removeprefix(_SQLITE)
    return url if url != path and _FILE.fullmatch(path) else shown(url)


def _exists(url: str) -> bool:
    return not url.startswith(_SQLITE) or Path(url.removeprefix(_SQLITE)).is_file()
