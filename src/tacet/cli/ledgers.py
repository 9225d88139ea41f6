"""Ledgers as the verbs use them: opened by address, never made by a verb that only looks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tacet.cli.mends import no_account
from tacet.cli.options import budget_of
from tacet.errors import InvalidParameter, LedgerFailed

if TYPE_CHECKING:
    from tacet.ledger.ledger import Ledger
    from tacet.privacy.guarantees import Guarantee

__all__ = ["account_of", "accounts", "is_new", "opened"]

_SQLITE = "sqlite:///"


@contextlib.contextmanager
def opened(url: str, *, must_exist: bool) -> Iterator[Ledger]:
    """The ledger at an address, closed at the end.

    must_exist: refuse the name of a file that is not there, instead of making it.
    Raises InvalidParameter, and LedgerFailed where the file may not be used.
    """
    from tacet.ledger.opening import open_ledger

    if not url.startswith(_SQLITE) and (url.startswith("sqlite:") or "://" not in url):
        path = url.removeprefix("sqlite:").removeprefix("//")
        raise InvalidParameter(
            "--ledger", url, expected=f"an address: write --ledger {_SQLITE}{path or 'budget.db'}"
        )
    if must_exist and not _exists(url):
        raise InvalidParameter("--ledger", url, expected="a ledger that exists: there is no file")
    refused: str | None = None
    try:
        ledger = open_ledger(url)
    except OSError as error:
        refused = error.strerror or "its file cannot be used"
    if refused is not None:
        raise LedgerFailed(url, reason=refused)
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


def _exists(url: str) -> bool:
    return not url.startswith(_SQLITE) or Path(url.removeprefix(_SQLITE)).is_file()
