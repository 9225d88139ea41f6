"""`unacorda ledger`, and ledgers as all verbs use them: never made by a verb that only looks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.addresses import shown
from unacorda.checks import demand, read_text
from unacorda.cli import params, render
from unacorda.cli.errors import Invocation, no_account
from unacorda.cli.params import Decorator, gathered
from unacorda.display import counted
from unacorda.errors import InvalidParameter, LedgerFailed, LedgerMismatch
from unacorda.privacy.guarantees import guarantee_from_json, left_of

if TYPE_CHECKING:
    from unacorda.ledger.entries import AccountTerms, Entry
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.session import Session

_HELP = """Open accounts in a ledger of budgets, show, verify and export it.

Example:
  unacorda ledger show --ledger sqlite:///budget.db
"""


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


def check_price(request: Guarantee, left: Guarantee, account: str) -> None:
    """Raise BudgetExceeded for a request that an account does not pay; WrongUnit for a kind."""
    from unacorda.accounting.charges import request_price
    from unacorda.query.session import check_affordable

    check_affordable(request_price(request, left), left, account)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayingAccount:
    """The account of a ledger that pays, and of it the sub-account, where one is meant."""

    ledger: str
    dataset: str
    budget: Guarantee | None
    sub_account: str | None
    limit: Guarantee | None
    notes: Mapping[str, str | None]

    @classmethod
    def of(
        cls,
        *,
        ledger: str | None,
        dataset: str | None,
        budget: Guarantee | None,
        sub_account: str | None = None,
        limit: Guarantee | None = None,
        **notes: str | None,
    ) -> PayingAccount | None:
        """What the options say, None without a ledger; notes: analyst and purpose.

        Raises InvalidParameter for options that do not go together: without a ledger, what it
        would keep would be lost unsaid.
        """
        if ledger is None:
            kept = {"budget": budget, "dataset": dataset, "sub-account": sub_account}
            for option, value in {**kept, "limit": limit, **notes}.items():
                expected = "--ledger with it, which keeps the account"
                demand(value is None, f"--{option}", str(value), expected=expected)
            return None
        name = dataset or ""
        expected = "--dataset, the account's name in the ledger"
        demand(name.strip(), "--dataset", dataset, expected=expected)
        if sub_account is None:
            demand(limit is None, "--limit", limit, expected="--sub-account with it")
        else:
            demand(sub_account.strip(), "--sub-account", sub_account, expected="a non-empty name")
            analyst = notes.get("analyst")
            expected = "one of --analyst, which is a note alone, and --sub-account, which is noted "
            demand(analyst is None, "--analyst", analyst, expected=f"{expected}too")
        found = cls(
            ledger=ledger,
            dataset=name,
            budget=budget,
            sub_account=sub_account,
            limit=limit,
            notes=notes,
        )
        context = click.get_current_context(silent=True)
        if context is not None and isinstance(context.find_root().obj, Invocation):
            context.find_root().obj.charges = found.charges_since
        return found

    def charges_since(self, began: datetime) -> str:
        """What the account was charged since then, in words."""
        nothing = f"Nothing was charged to account {self.dataset!r}."
        if self.dataset not in accounts(self.ledger):
            return nothing
        from unacorda.ledger.pricing import standing

        with opened(self.ledger, must_exist=True) as book:
            charges = [
                guarantee_from_json(entry.charge)
                for entry in standing(book.entries(self.dataset))
                if datetime.fromisoformat(entry.time) >= began
            ]
        if not charges:
            return nothing
        first, *others = charges
        whole = sum(others, start=first)
        return f"Account {self.dataset!r} was charged {whole}, which stays spent."

    @property
    def name(self) -> str:
        """What is debited, in words."""
        return self.dataset if self.sub_account is None else f"{self.dataset}/{self.sub_account}"

    def terms(self, book: Ledger) -> dict[str, Any]:
        """What a session needs to know of it."""
        return {"budget": self.budget, "dataset": self.dataset, "ledger": book, **self.notes}

    def is_new(self) -> bool:
        """Whether it is still to be opened; InvalidParameter where no budget would open it."""
        known = accounts(self.ledger)
        if self.dataset in known:
            return False
        expected = "--budget, such as epsilon=3, which opens an account. "
        expected += no_account(self.dataset, known).removesuffix(".")
        demand(self.budget is not None, "--budget", None, expected=expected)
        return True

    def opens_sub_account(self, book: Ledger | None) -> bool:
        """Whether a sub-account is meant that is still to be opened.

        book: None before there is an account. Raises InvalidParameter without a limit to open it.
        """
        name = self.sub_account
        if name is None or (book is not None and name in book.sub_accounts(self.dataset)):
            return False
        expected = "--limit, such as epsilon=0.5, which opens the sub-account "
        expected += f"{name!r}: there is none of that name yet"
        demand(self.limit is not None, "--limit", None, expected=expected)
        return True

    def check_limit(self) -> None:
        """Refuse a sub-account that cannot be opened in a new account.

        Raises InvalidParameter without a limit, WrongUnit for one that the budget does not add.
        """
        from unacorda.accounting.filters import Filter

        if self.opens_sub_account(None):
            assert self.budget is not None
            assert self.limit is not None
            Filter(self.budget).admits(self.limit)

    def check_opening(self, request: Guarantee) -> None:
        """Refuse a request for which a new account would be opened in vain.

        Raises as `check_limit` and `check_left`, also for what the account's own budget does not
        pay.
        """
        self.check_limit()
        assert self.budget is not None
        check_price(request, self.budget, self.dataset)
        self.check_left(request, None)

    def check_left(self, request: Guarantee, book: Ledger | None) -> None:
        """Raise BudgetExceeded for what a sub-account does not pay; WrongUnit for another kind.

        book: None before there is an account.
        """
        if self.sub_account is None:
            return
        left = self.limit
        if not self.opens_sub_account(book) and book is not None:
            left = book.remaining(self.dataset, self.sub_account)
        assert left is not None
        check_price(request, left, self.name)

    def below(self, session: Session, book: Ledger, *, opens: bool = True) -> Session:
        """The session as the sub-account asks in it; as it is, where none is meant.

        opens: make the sub-account where there is none of its name, or ask above it.
        """
        if self.sub_account is None or (self.opens_sub_account(book) and not opens):
            return session
        return session.for_analyst(self.sub_account, self.limit)


ledger_option = params.option(
    "--ledger",
    "URL",
    "Where the spend is kept: sqlite:///budget.db or postgresql://user@host/database.",
)
dataset_option = params.option("--dataset", "NAME", "The account in the ledger.")
_BUDGET = params.option(
    "--budget",
    params.BUDGET,
    "The account's whole budget, such as epsilon=3 or rho=0.5,delta=1e-8.",
)


required_ledger = params.option("--ledger", "URL", "Such as sqlite:///budget.db.", required=True)


def account(*, notes: bool = False, required: bool = False) -> Decorator:
    """The options of an account; notes: those of a single question too; required: there is one."""
    named = params.option("--dataset", "NAME", "The account's name.", required=True)
    options: list[Decorator] = [ledger_option, dataset_option, _BUDGET]
    if required:
        options[:2] = [required_ledger, named]
    if notes:
        options += [
            params.option("--analyst", "TEXT", "Noted in the ledger."),
            params.option("--purpose", "TEXT", "Noted in the ledger."),
            params.option(
                "--sub-account",
                "NAME",
                "An analyst or a project, whose limit is debited too, and who is noted.",
            ),
            params.option(
                "--limit",
                params.BUDGET,
                "The limit of --sub-account, such as epsilon=0.5: opens it; later omitted "
                "or equal.",
            ),
        ]
    return gathered("account", PayingAccount.of, *options)


ledger = params.InOrder("ledger", help=_HELP)


def _limit(name: str, text: str) -> tuple[str, Guarantee]:
    own, budget = params.assignment(name, text, form="NAME=KIND=X, such as ana=epsilon=0.5")
    return own, params.budget_of(name, budget, prefix=f"{own}=")


@ledger.command("init")
@account(required=True)
@params.unit()
@params.option(
    "--sub-account limits",
    params.Read(_limit, "NAME=KIND=X"),
    "A limit below the account's, such as ana=epsilon=0.5. May be repeated.",
    multiple=True,
)
@params.json_option
def _init(
    *,
    account: PayingAccount,
    whose: dict[str, Any],
    limits: Sequence[tuple[str, Guarantee]],
    as_json: bool,
) -> None:
    # Limits on rows are no terms: any will do.
    r"""Open the account of a dataset before anyone asks about it, and sub-accounts.

    The account keeps its budget and what it protects for good; `unacorda query` then needs no
    --budget. How many rows of a person a question uses is that question's own (--max-rows), and
    noted with it. A sub-account, of an analyst or a project, is a limit of its own below it: what
    is charged there counts in both. Nothing is set aside for it. Where the account is open already,
    under the same budget and unit, sub-accounts are added.

    Examples:
      unacorda ledger init --ledger sqlite:///budget.db --dataset visits-2024 \
          --budget rho=0.5,delta=1e-8 --unit person_id
      unacorda ledger init --ledger postgresql://office@db/budgets \
          --dataset visits-2024 --budget epsilon=3 --row \
          --sub-account ana=epsilon=0.5

    PostgreSQL needs the extra `postgres`. Who may write to the place of a ledger can also spend.
    """
    unit = params.unit_of(**whose, max_rows=None if whose["row"] else 1)
    account.is_new()
    with opened(account.ledger, must_exist=False) as book:
        book.open_account(account.dataset, account.budget, unit.terms)
        book.open_sub_accounts(account.dataset, dict(limits))
        found = _stated(book, account.dataset, verify=False)
    _print(found, as_json=as_json)


@ledger.command("limit")
@required_ledger
@params.option("--dataset", "NAME", "The account.", required=True)
@params.option("--sub-account name", "NAME", "An analyst or a project.", required=True)
@params.option("--limit", params.BUDGET, "The new limit, such as epsilon=0.8.")
@params.flag("--close", "Let it spend nothing more.")
@params.option("--by", "NAME", "Who does so, noted with the entry.")
@params.json_option
def _change_limit(
    *,
    ledger: str,
    dataset: str,
    name: str,
    limit: Guarantee | None,
    close: bool,
    by: str | None,
    as_json: bool,
) -> None:
    r"""Give a sub-account another limit, or close it. It is an entry, and nothing is refunded.

    The limit may not be below what was spent there. A closed sub-account has what it has spent for
    its limit; a later limit opens it again.

    Examples:
      unacorda ledger limit --ledger sqlite:///budget.db --dataset visits-2024 \
          --sub-account ana --limit epsilon=0.8 --by "privacy office"
      unacorda ledger limit --ledger sqlite:///budget.db --dataset visits-2024 \
          --sub-account ana --close
    """
    expected = "either it or --close"
    demand((limit is None) == close, "--limit", limit and str(limit), expected=expected)
    with opened(ledger, must_exist=True) as book:
        book.change_limit(dataset, name, limit, by=by)
        found = _stated(book, dataset, verify=False)
    _print(found, as_json=as_json)


@ledger.command("verify")
@click.argument(
    "file",
    metavar="[FILE]",
    type=params.FILE,
    required=False,
    help="An export, instead of a ledger.",
)
@ledger_option
@dataset_option
@params.option(
    "--digest", "HEX", "A digest kept elsewhere, which an entry must have; with --dataset, or FILE."
)
@params.json_option
def _verify(
    *, file: Path | None, ledger: str | None, dataset: str | None, digest: str | None, as_json: bool
) -> None:
    r"""Check hashes and sums, in a ledger or in an export of one account.

    Prints the last digest of each account. Keep it elsewhere, and give it later with --digest: then
    it also shows if entries were dropped from the end, or all of them were written anew.

    Examples:
      unacorda ledger verify --ledger sqlite:///budget.db
      unacorda ledger verify --ledger sqlite:///budget.db --dataset visits-2024 \
          --digest 0c3f...
      unacorda ledger verify visits.jsonl

    A ledger that fails ends with code 5.
    """
    from unacorda.ledger.export import read_export
    from unacorda.ledger.replay import verify_entries

    expected = "either --ledger or the FILE of an export"
    demand((file is None) != (ledger is None), "--ledger", ledger, expected=expected)
    single = digest is None or file is not None or dataset is not None
    demand(single, "--digest", digest, expected="--dataset with it: each account has its own")
    found: list[tuple[AccountTerms, Sequence[Entry]]]
    if file is not None:
        demand(dataset is None, "--dataset", dataset, expected="--ledger with it")
        found = [read_export(read_text("FILE", file).splitlines())]
    else:
        with opened(str(ledger), must_exist=True) as book:
            found = [(book.account(name), book.entries(name)) for name in chosen(book, dataset)]
    said = [
        {
            "dataset": account.dataset,
            "entries": verify_entries(account, entries, containing=digest),
            "digest": entries[-1].digest if entries else None,
        }
        for account, entries in found
    ]
    if as_json:
        render.as_json({"accounts": said})
        return
    for one in said:
        render.line(f"{one['dataset']}: {one['entries']} entries chain and add up")
        render.line(f"  last digest: {one['digest'] or 'none yet'}")


@ledger.command("export")
@required_ledger
@params.option("--dataset", "NAME", "The account.", required=True)
def _export(*, ledger: str, dataset: str) -> None:
    r"""Print an account with all its entries, as JSON, one object a line.

    The first line is the account; each other one an entry, with all that its hash was made of, so
    that `unacorda ledger verify FILE` needs nothing else.

    Example:
      unacorda ledger export --ledger sqlite:///budget.db --dataset visits-2024 \
          > visits.jsonl
    """
    from unacorda.ledger.export import export_account

    with opened(ledger, must_exist=True) as book:
        for name in chosen(book, dataset):
            for line in export_account(book, name):
                render.raw(line)


@ledger.command("show")
@required_ledger
@params.option("--dataset", "NAME", "One account; otherwise all.")
@params.flag("--verify", "Check hashes and sums.")
@params.option("--reprice delta", "DELTA", "Price the history again, at this delta.")
@params.flag("--json as_json", "Print JSON, with full entries.")
def _show(
    *, ledger: str, dataset: str | None, verify: bool, delta: str | None, as_json: bool
) -> None:
    r"""Show accounts: budget, what is spent and left, and every entry. Changes nothing.

    An entry without an answer is a question whose process ended before the answer was computed: it
    stays spent. One that was called off before it read anything cost nothing.

    --reprice 1e-6 prices the whole history again, as (epsilon, delta)-DP at that delta: by the
    numerical accountant, which holds if the noise of every question was settled before the first
    answer, and by an odometer, which holds always. No budget grows by it.

    Examples:
      unacorda ledger show --ledger sqlite:///budget.db
      unacorda ledger show --ledger sqlite:///budget.db --dataset visits-2024 \
          --verify --json

    --verify checks the hashes that chain the entries, and their sums; a ledger that fails ends with
    code 5. Who may write the file can also write new hashes: keep the last digest (--json shows it)
    elsewhere to notice that.
    """
    with opened(ledger, must_exist=True) as book:
        found = [_stated(book, name, verify=verify) for name in chosen(book, dataset)]
        for one in found if delta is not None else ():
            one["repriced"] = _repriced(book, one["dataset"], str(delta))
    if as_json:
        render.as_json({"accounts": found})
        return
    if not found:
        render.line("This ledger has no accounts.")
    for place, one in enumerate(found):
        if place:
            render.raw()
        _print(one)


def _stated(book: Ledger, name: str, *, verify: bool) -> dict[str, Any]:
    """All of an account in plain values; LedgerMismatch where it is not there or was changed."""
    account, entries = book.account(name), book.entries(name)
    ends = {entry.reservation: entry.state for entry in entries if entry.state != "reserved"}
    steps = Counter(entry.reservation for entry in entries if entry.state == "stepped")
    splits = book.splits(name) if any(entry.state == "split" for entry in entries) else {}
    return {
        "dataset": account.dataset,
        "budget": account.budget,
        "spent": book.spent(name),
        "remaining": book.remaining(name),
        "terms": dict(account.terms),
        "opened": account.opened,
        "verified": book.verify(name) if verify else None,
        "sub_accounts": {
            part: {
                "budget": limit,
                "spent": book.spent(name, part),
                "remaining": book.remaining(name, part),
            }
            for part, limit in book.sub_accounts(name).items()
        },
        "splits": [
            {
                "entry": split.sequence,
                "name": split.name,
                "sub_account": split.sub_account,
                "inside": None if split.inside is None else [split.inside.split, split.inside.key],
                "limit": split.limit,
                "max_parts": split.max_parts,
                "spent": dict(sums),
            }
            for split, sums in splits.items()
        ],
        "entries": [
            {
                **entry.to_dict(),
                "answered": ends.get(entry.reservation) == "committed",
                "called_off": ends.get(entry.reservation) == "voided",
                "steps": None if entry.series is None else steps[entry.sequence],
            }
            for entry in entries
        ],
    }


def _repriced(book: Ledger, name: str, delta: str) -> dict[str, Any]:
    """What an account's history costs at a delta; None for a price that there is not."""
    from unacorda.ledger.pricing import odometer, reprice

    found = reprice(book, name, delta=delta)
    prices = {"delta": float(found.delta), "fixed_epsilon": found.fixed, "odometer_epsilon": None}
    with contextlib.suppress(InvalidParameter):  # an account in Renyi DP, or a delta too small
        prices["odometer_epsilon"] = odometer(book, name, delta=delta).epsilon
    return prices


def _print(said: dict[str, Any], *, as_json: bool = False) -> None:
    """Print what `_stated` gave: budget and sums, sub-accounts, and a line for each question."""
    if as_json:
        render.as_json(said)
        return
    render.heading(said["dataset"])
    render.print_facts(
        ("budget", left_of(said["remaining"], said["budget"])),
        ("spent", str(said["spent"])),
        ("protects", _protected(said["terms"])),
        ("opened", f"{_minute(said['opened'])} UTC"),
    )
    if said["verified"] is not None:
        render.line(f"verified: {said['verified']} entries chain and add up")
    if "repriced" in said:
        again = said["repriced"]
        at = f"at delta {again['delta']:g}"
        fixed, reading = (
            "unknown" if epsilon is None else render.rounded(epsilon, up=True, digits=6)
            for epsilon in (again["fixed_epsilon"], again["odometer_epsilon"])
        )
        render.line(f"repriced: epsilon {fixed} {at}, with noise settled before the first answer")
        render.line(f"odometer: epsilon {reading} {at}, however it was chosen")
    for name, part in said["sub_accounts"].items():
        left = left_of(part["remaining"], part["budget"])
        render.line(f"sub-account {name}: {left}")
    for number, split in enumerate(said["splits"], start=1):
        name = split["name"] or number
        render.line(f"split {name}: the {split['max_parts']} largest parts are owed")
        for key, spent in split["spent"].items():
            render.line(f"  part {key}: spent {spent} of {split['limit']}")
    asked = (entry for entry in said["entries"] if entry["state"] == "reserved")
    rows = [_row(number, entry) for number, entry in enumerate(asked, start=1)]
    if not rows:
        render.line("No questions yet.")
        return
    render.raw()
    heads = ("entry", "time (UTC)", "answered", "cost", "limits", "analyst", "purpose")
    render.print_table(heads, rows, left=len(heads), repeated=1)


def _row(number: int, entry: dict[str, Any]) -> tuple[str, ...]:
    limits = ", ".join(f"{name} {value:,}" for name, value in (entry["limits"] or {}).items())
    answered = "yes" if entry["answered"] else "called off" if entry["called_off"] else "no"
    if entry["steps"] is not None:
        answered = counted(entry["steps"], "step")
    return (
        str(number),
        _minute(entry["time"]),
        answered,
        str(guarantee_from_json(json.dumps(entry["charge"]))),
        *(text or "-" for text in (limits, entry["analyst"], entry["purpose"])),
    )


def _protected(terms: dict[str, Any]) -> str | None:
    """What the terms of an account protect, in words.

    >>> _protected({"unit": "person", "id": ("pid",)}), _protected({"unit": "row"})
    ("a person by 'pid'", 'a single row')
    """
    unit, ids = terms.get("unit"), terms.get("id")
    if unit == "row":
        return "a single row"
    if unit != "person" or not isinstance(ids, tuple | list):
        return None if unit is None else str(unit)
    by_table = (f"{one[0]}: {_listed(one[1:])}" for one in ids if not isinstance(one, str))
    return f"a person by {'; '.join(by_table) or _listed(ids)}"


def _listed(ids: Any) -> str:
    return ", ".join(repr(one) for one in ids)


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")
