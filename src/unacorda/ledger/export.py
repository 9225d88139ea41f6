"""Export of an account with all its entries as text, and its check without the ledger."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator

from unacorda.errors import LedgerMismatch, UnacordaError
from unacorda.ledger.chain import account_fields, read_account
from unacorda.ledger.entries import AccountTerms, Entry
from unacorda.ledger.ledger import Ledger
from unacorda.ledger.replay import verify_entries

_FORMAT = "unacorda ledger export 3"


def export_account(ledger: Ledger, dataset: str) -> Iterator[str]:
    r"""Write an account and its entries, oldest first, as lines of JSON.

    They contain everything that the hashes cover, so `verify_export` needs nothing else. They
    contain nothing about the data that the ledger does not. The export itself verifies nothing.

    Parameters
    ----------
    ledger
        The ledger.
    dataset
        The name of the account.

    Yields
    ------
    str
        One JSON object per line: first the account.

    Raises
    ------
    LedgerMismatch
        If there is no such account.

    Examples
    --------
    >>> from unacorda.ledger.ledger import open_ledger
    >>> from unacorda.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", PureDP(1), {"unit": "person"})
    >>> lines = list(export_account(ledger, "visits"))
    >>> verify_export(lines)
    ('visits', 0)
    """
    account, entries = ledger.account(dataset), ledger.entries(dataset)
    yield json.dumps({"format": _FORMAT, **account_fields(account)})
    for entry in entries:
        yield json.dumps(dataclasses.asdict(entry))


def verify_export(lines: Iterable[str], *, containing: str | None = None) -> tuple[str, int]:
    """Verify an export, and give the dataset and the number of its entries.

    Parameters
    ----------
    lines
        What `export_account` wrote.
    containing
        A digest that some entry must have, such as one stored elsewhere.

    Returns
    -------
    tuple of str and int
        The name of the account, and the number of entries.

    Raises
    ------
    LedgerMismatch
        As `Ledger.verify`, and for lines that are not an export.

    Examples
    --------
    >>> from unacorda.ledger.ledger import open_ledger
    >>> from unacorda.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", PureDP(1), {"unit": "person"})
    >>> verify_export(export_account(ledger, "visits"))
    ('visits', 0)
    """
    account, entries = read_export(lines)
    return account.dataset, verify_entries(account, entries, containing=containing)


def read_export(lines: Iterable[str]) -> tuple[AccountTerms, list[Entry]]:
    """Read the account and its entries; LedgerMismatch for lines that are not an export."""
    try:
        found = [json.loads(line) for line in lines if line.strip()]
        head = found[0]
        if head["format"] == _FORMAT:
            names = ("dataset", "budget", "terms", "opened")
            account = read_account(**{name: head[name] for name in names})
            return account, [Entry(**entry) for entry in found[1:]]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, UnacordaError):
        pass
    raise LedgerMismatch(
        f"This is no export as `unacorda ledger export` writes it, of format {_FORMAT!r}."
    )
