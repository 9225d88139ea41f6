"""Ledgers as the verbs use them: opened by address, never made by a verb that only looks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.addresses import shown
from unacorda.checks import demand
from unacorda.cli.errors import no_account
from unacorda.cli.params import Decorator, budget_of, gathered
from unacorda.errors import InvalidParameter, LedgerFailed, LedgerMismatch

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.session import Session

__all__ = [
    "AccountOptions",
    "account",
    "accounts",
    "chosen",
    "dataset",
    "ledger",
    "opened",
    "required_ledger",
]

_SQLITE = "sqlite:///"
_FILE = re.compile(r"[^@?:=]+")


@contextlib.contextmanager
def opened(url: str, *, must_exist: bool) -> Iterator[Ledger]:
    """The ledger at an address, closed at the end.

    must_exist: refuse the name of a file that is not there, instead of making it.
    Raises InvalidParameter, and LedgerFailed where the file may not be used.
    """
    from unacorda.ledger.ledger import open_ledger

    if not url.startswith(_SQLITE) and (url.startswith("sqlite:") or "://" not in url):
        path = url.removeprefix("sqlite:").removeprefix("//")
        path = path if _FILE.fullmatch(path) else "budget.db"  # else it may hold a password
        expected = f"an address: write --ledger {_SQLITE}{path}"
        raise InvalidParameter("--ledger", shown(url), expected=expected)
    expected = "a ledger that exists: there is no file"
    demand(not must_exist or _exists(url), "--ledger", _named(url), expected=expected)
    try:
        book = open_ledger(url)
    except OSError as error:
        reason = error.strerror or "its file cannot be used"
        raise LedgerFailed(_named(url), reason=reason) from None
    with contextlib.closing(book):
        yield book


def accounts(url: str) -> tuple[str, ...]:
    """The names of the accounts that have been opened; makes no ledger."""
    if not _exists(url):
        return ()
    with opened(url, must_exist=True) as book:
        return book.datasets()


def chosen(book: Ledger, name: str | None) -> tuple[str, ...]:
    """The accounts that are meant; LedgerMismatch for a name that is none."""
    known = book.datasets()
    if name is not None and name not in known:
        raise LedgerMismatch(no_account(name, known))
    return known if name is None else (name,)


def _named(url: str) -> str:
    """The address of a file, or what may be shown of another one."""
    path = url.removeprefix(_SQLITE)
    return url if url != path and _FILE.fullmatch(path) else shown(url)


def _exists(url: str) -> bool:
    return not url.startswith(_SQLITE) or Path(url.removeprefix(_SQLITE)).is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOptions:
    """The account of a ledger that pays; `ledger` is None where none does.

    `of` raises InvalidParameter for options that do not go together: without a ledger, what it
    would keep would be lost unsaid.
    """

    ledger: str | None = None
    dataset: str | None = None
    budget: Guarantee | None = None
    sub_account: str | None = None
    limit: Guarantee | None = None
    analyst: str | None = None
    purpose: str | None = None

    @classmethod
    def of(
        cls,
        *,
        ledger: str | None,
        dataset: str | None,
        budget: str | None,
        sub_account: str | None = None,
        limit: str | None = None,
        **notes: str | None,
    ) -> AccountOptions:
        """What the options say; notes: analyst and purpose."""
        if ledger is None:
            kept = {"--budget": budget, "--dataset": dataset, "--sub-account": sub_account}
            kept |= {"--limit": limit, **{f"--{name}": text for name, text in notes.items()}}
            for option, text in kept.items():
                expected = "--ledger with it, which keeps the account"
                demand(text is None, option, text, expected=expected)
        else:
            expected = "--dataset, the account's name in the ledger"
            demand((dataset or "").strip(), "--dataset", dataset, expected=expected)
        if sub_account is None:
            demand(limit is None, "--limit", limit, expected="--sub-account with it")
        else:
            expected = "a name that is not empty"
            demand(sub_account.strip(), "--sub-account", sub_account, expected=expected)
            analyst = notes.get("analyst")
            expected = "one of --analyst, which is a note alone, and --sub-account, which is noted "
            demand(analyst is None, "--analyst", analyst, expected=f"{expected}too")
        return cls(
            ledger=ledger,
            dataset=dataset,
            budget=None if budget is None else budget_of("--budget", budget),
            sub_account=sub_account,
            limit=None if limit is None else budget_of("--limit", limit),
            **notes,
        )

    @property
    def name(self) -> str | None:
        """What is debited, in words."""
        return self.dataset if self.sub_account is None else f"{self.dataset}/{self.sub_account}"

    @property
    def notes(self) -> Mapping[str, str | None]:
        """What is noted with each question."""
        return {"analyst": self.analyst, "purpose": self.purpose}

    def terms(self, book: Ledger) -> dict[str, Any]:
        """What a session needs to know of it."""
        return {"budget": self.budget, "dataset": self.dataset, "ledger": book}

    def is_new(self) -> bool:
        """Whether it is still to be opened; InvalidParameter where no budget would open it."""
        assert self.ledger is not None
        assert self.dataset is not None
        known = accounts(self.ledger)
        if self.dataset in known:
            return False
        expected = "--budget, such as epsilon=3, which opens an account. "
        expected += no_account(self.dataset, known).removesuffix(".")
        demand(self.budget is not None, "--budget", None, expected=expected)
        return True

    def check_limit(self) -> None:
        """Refuse a sub-account that cannot be opened in a new account.

        Raises InvalidParameter without a limit, WrongUnit for one that the budget does not add.
        """
        from unacorda.accounting.filters import Filter

        if self.sub_account is not None:
            self._opens_sub_account()
            assert self.budget is not None
            assert self.limit is not None
            Filter(self.budget).admits(self.limit)

    def check_left(self, request: Guarantee, book: Ledger, *, new: bool) -> None:
        """Raise BudgetExceeded for what a sub-account does not pay; WrongUnit for another kind."""
        from unacorda.accounting.charges import request_price
        from unacorda.query.session import check_affordable

        if self.sub_account is None:
            return
        assert self.dataset is not None
        left = self.limit
        if not new and not self._is_new_below(book):
            left = book.remaining(self.dataset, self.sub_account)
        assert left is not None
        check_affordable(request_price(request, left), left, str(self.name))

    def below(self, session: Session, book: Ledger, *, opens: bool = True) -> Session:
        """The session as the sub-account asks in it; as it is, where none is meant.

        opens: make the sub-account where there is none of its name, or ask above it.
        """
        if self.sub_account is None or (self._is_new_below(book) and not opens):
            return session
        return session.for_analyst(self.sub_account, self.limit)

    def _is_new_below(self, book: Ledger) -> bool:
        assert self.dataset is not None
        if self.sub_account in book.sub_accounts(self.dataset):
            return False
        self._opens_sub_account()
        return True

    def _opens_sub_account(self) -> None:
        expected = "--limit, such as epsilon=0.5, which opens the sub-account "
        expected += f"{self.sub_account!r}: there is none of that name yet"
        demand(self.limit is not None, "--limit", None, expected=expected)


ledger = click.option(
    "--ledger",
    metavar="URL",
    help="Where the spend is kept: sqlite:///budget.db or postgresql://user@host/database.",
)
dataset = click.option("--dataset", metavar="NAME", help="The account in the ledger.")
_BUDGET = click.option(
    "--budget",
    metavar="KIND=X",
    help="The account's whole budget, such as epsilon=3 or rho=0.5,delta=1e-8.",
)


required_ledger = click.option(
    "--ledger", metavar="URL", required=True, help="Such as sqlite:///budget.db."
)


def account(*, notes: bool = False, required: bool = False) -> Decorator:
    """The options of an account; notes: those of a single question too; required: there is one."""
    named = click.option("--dataset", metavar="NAME", required=True, help="The account's name.")
    options: list[Decorator] = [ledger, dataset, _BUDGET]
    if required:
        options[:2] = [required_ledger, named]
    if notes:
        options += [
            click.option("--analyst", metavar="TEXT", help="Noted in the ledger."),
            click.option("--purpose", metavar="TEXT", help="Noted in the ledger."),
            click.option(
                "--sub-account",
                metavar="NAME",
                help="An analyst or a project, whose limit is debited too, and who is noted.",
            ),
            click.option(
                "--limit",
                metavar="KIND=X",
                help="The limit of --sub-account, such as epsilon=0.5: opens it; later left out "
                "or equal.",
            ),
        ]
    return gathered("account", AccountOptions.of, *options)
