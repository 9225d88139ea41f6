"""Operations of curators: accounts, limits of analysts, tokens, stops, and the log of acts.

Every change is first entered as an act in a hash chain of the store, so that none lacks an entry.
Refused changes are entered too.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeVar

from unacorda.errors import InvalidParameter, LedgerMismatch, UnacordaError
from unacorda.ledger.entries import Entry
from unacorda.ledger.pricing import odometer, reprice
from unacorda.privacy.guarantees import Guarantee
from unacorda.server.problems import Problem, problem_of, whole_number
from unacorda.server.service import Service, budget_of, guarantee_as_json
from unacorda.server.tokens import make_token

PAGE: Final = 100
"""Entries or acts a page."""

_SHOWN: Final = (
    *("sequence", "state", "reservation", "time", "analyst", "purpose", "sub_account"),
    *("digest", "plan_digest"),
)
_AFTER: Final = "after is the number of the last one seen, or 0."
_GUARANTEES: Final = ("request", "charge", "spent", "sub_spent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    """The acting curator. token, address: of the request; empty on the command line."""

    name: str
    token: str = ""
    address: str = ""


F = TypeVar("F", bound=Callable[..., dict[str, Any]])


OPERATIONS: Final[dict[str, dict[str, Any]]] = {}
"""By the name of an operation, which is a method of `Curation`, what `operation` says of it."""


def operation(
    method: Literal["get", "post"], path: str, gives: str, *, makes: bool = False
) -> Callable[[F], F]:
    """Make a method an operation, whose fields are its arguments; makes: it answers 201."""

    def note(function: F) -> F:
        found = {"method": method, "path": f"/v1/admin{path}", "gives": gives, "makes": makes}
        OPERATIONS[function.__name__] = found
        return function

    return note


class Curation:
    """The operations of curators on a service; one method per operation, of the same name.

    Each takes the curator and the request's fields, and returns plain values. Raises Problem if it
    cannot be done.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ledger, self._store = service.ledger, service.store

    @operation("get", "/datasets", "Budget, spent, left and state.")
    def accounts(self, _: Curator) -> dict[str, Any]:
        """All datasets."""
        return {"datasets": [self._account(name) for name in self._service.config.datasets]}

    @operation("get", "/analysts", "Limit, spent, left.")
    def analysts(self, _: Curator) -> dict[str, Any]:
        """All limits of analysts."""
        known = [name for name in self._service.config.datasets if name in self._ledger.datasets()]
        return {"datasets": {name: self._analysts(name) for name in known}}

    @operation("post", "/analysts", "The limit.", makes=True)
    def add_analyst(
        self, curator: Curator, *, dataset: str, analyst: str, budget: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Open a limit for an analyst."""
        given = self._given(dataset, budget)
        if self._ledger.has_sub_account(dataset, analyst):
            raise Problem("refused", "There is a limit for this analyst: change it.")
        with self._act(curator, "add analyst", dataset, f"{analyst}: {given}"):
            self._ledger.open_sub_account(dataset, analyst, given)
        return self._analyst(dataset, analyst)

    @operation("post", "/analysts/limit", "The limit.")
    def change_limit(
        self, curator: Curator, *, dataset: str, analyst: str, budget: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Change an analyst's limit, to no less than is spent."""
        given = self._given(dataset, budget)
        self._check_analyst(dataset, analyst)
        with self._act(curator, "limit", dataset, f"{analyst}: {given}"):
            self._ledger.change_limit(dataset, analyst, given, by=curator.name)
        return self._analyst(dataset, analyst)

    @operation("post", "/analysts/close", "The limit.")
    def close_analyst(self, curator: Curator, *, dataset: str, analyst: str) -> dict[str, Any]:
        """Let an analyst spend nothing more."""
        self._check_analyst(dataset, analyst)
        with self._act(curator, "close", dataset, analyst):
            self._ledger.change_limit(dataset, analyst, None, by=curator.name)
        return self._analyst(dataset, analyst)

    @operation("post", "/analysts/resume", "The limit.")
    def resume_analyst(self, curator: Curator, *, dataset: str, analyst: str) -> dict[str, Any]:
        """Lift the suspension after a failure of the engine."""
        self._check_analyst(dataset, analyst)
        with self._act(curator, "resume", dataset, analyst):
            self._store.start(dataset, analyst)
        return self._analyst(dataset, analyst)

    @operation("get", "/tokens", "Their holders, end and last use.")
    def tokens(self, _: Curator) -> dict[str, Any]:
        """All tokens."""
        found = [asdict(one) for one in self._store.tokens()]
        return {"tokens": [{n: v for n, v in one.items() if n != "hash"} for one in found]}

    @operation("post", "/tokens", "The token.", makes=True)
    def add_token(
        self,
        curator: Curator,
        *,
        analyst: str,
        role: str = "analyst",
        days: int = 90,
        note: str = "",
    ) -> dict[str, Any]:
        """Make a token, which is shown only once."""
        kind: Any = role
        with self._act(curator, "add token", "", f"{analyst}: {role}, {days} days"):
            made = make_token(self._store, analyst, role=kind, days=days, note=note)
        return {"token": made, "id": made.split("_")[1]}

    @operation("post", "/tokens/{id}/revoke", "Its id.")
    def revoke_token(self, curator: Curator, *, id: str) -> dict[str, Any]:
        """Revoke a token."""
        if self._store.token(id) is None:
            raise Problem("not-found", "There is no such token.")
        with self._act(curator, "revoke token", "", id):
            self._store.revoke_token(id)
        return {"id": id, "revoked": True}

    @operation("get", "/datasets/{dataset}/ledger", "Entries.")
    def ledger_entries(self, _: Curator, *, dataset: str, after: str = "0") -> dict[str, Any]:
        """A page of entries, oldest first."""
        self._check_account(dataset)
        seen = whole_number(after, _AFTER, digits=15)
        found = self._ledger.entries(dataset, after=seen, most=PAGE)
        return {"entries": [_entry_as_json(one) for one in found]}

    @operation(
        "get",
        "/datasets/{dataset}/verify",
        "The number of entries and the last digest, to be kept elsewhere.",
    )
    def verify_ledger(self, _: Curator, *, dataset: str) -> dict[str, Any]:
        """Check hashes and sums."""
        self._check_account(dataset)
        try:
            count = self._ledger.verify(dataset)
        except LedgerMismatch as error:
            raise Problem("ledger-failed", error.public) from None
        last = self._ledger.entries(dataset, after=max(count - 1, 0), most=1)
        return {"entries": count, "digest": last[-1].digest if last else None}

    @operation("get", "/datasets/{dataset}/reprice", "Epsilons.")
    def reprice_ledger(self, _: Curator, *, dataset: str, delta: str = "1e-6") -> dict[str, Any]:
        """Price the history again at ?delta=1e-6."""
        self._check_account(dataset)
        found = reprice(self._ledger, dataset, delta=delta)
        said: dict[str, Any] = {"questions": found.questions, "delta": delta, "fixed": found.fixed}
        try:
            said["odometer"] = odometer(self._ledger, dataset, delta=delta).epsilon
        except InvalidParameter:  # an account in Renyi DP, or a delta too small for one
            said["odometer"] = None
        return said

    @operation("post", "/datasets/{dataset}/stop", "The dataset.")
    def stop_dataset(self, curator: Curator, *, dataset: str) -> dict[str, Any]:
        """Take no further questions."""
        self._check_name(dataset)
        with self._act(curator, "stop", dataset, ""):
            self._store.stop(dataset)
        return self._account(dataset)

    @operation("post", "/datasets/{dataset}/start", "The dataset.")
    def start_dataset(self, curator: Curator, *, dataset: str) -> dict[str, Any]:
        """Take questions again."""
        self._check_name(dataset)
        with self._act(curator, "start", dataset, ""):
            self._store.start(dataset)
        return self._account(dataset)

    @operation("get", "/acts", "Acts, with their hash chain checked.")
    def acts(self, _: Curator, *, after: str = "0") -> dict[str, Any]:
        """A page of curators' acts."""
        try:
            count = self._store.verify_acts()
        except LedgerMismatch as error:
            raise Problem("ledger-failed", error.public) from None
        found = self._store.acts(after=whole_number(after, _AFTER, digits=15), most=PAGE)
        return {"acts": [asdict(one) for one in found], "count": count}

    @contextmanager
    def _act(self, curator: Curator, what: str, dataset: str, about: str) -> Iterator[None]:
        """Note an act before it is done inside; what is refused there is noted too."""
        stated = {"by": curator.name, "token": curator.token, "address": curator.address}
        stated |= {"dataset": dataset, "about": about}
        self._store.add_act(what=what, **stated)
        try:
            yield
        except UnacordaError as error:
            self._store.add_act(what=f"{what}, refused", **stated)
            raise problem_of(error, own="", show_total=True) from None

    def _account(self, name: str) -> dict[str, Any]:
        found = self._service.datasets.get(name)
        said: dict[str, Any] = {
            "name": name,
            "title": self._service.config.datasets[name].title or name,
            "unavailable": self._service.unavailable.get(name),
            "stopped": "" in self._store.stopped(name),
        }
        if name in self._ledger.datasets():
            said["budget"] = guarantee_as_json(self._ledger.account(name).budget)
            said["spent"] = guarantee_as_json(self._ledger.spent(name))
            said["left"] = guarantee_as_json(self._ledger.remaining(name))
            known = [one for one in (self._ledger.newest(name), self._store.seen(name)) if one]
            if known:
                said["newest"] = dict(zip(("sequence", "digest"), max(known), strict=True))
        if found is not None:
            said["protects"] = str(found.session.unit)
            said["other_limits"] = {
                analyst: {"ledger": str(kept), "file": str(wanted)}
                for analyst, (kept, wanted) in found.other_limits.items()
            }
        return said

    def _analysts(self, dataset: str) -> list[dict[str, Any]]:
        suspended = self._store.stopped(dataset)
        return [
            self._shown(dataset, name, limit, suspended=name in suspended)
            for name, limit in self._ledger.sub_accounts(dataset).items()
        ]

    def _analyst(self, dataset: str, name: str) -> dict[str, Any]:
        suspended = name in self._store.stopped(dataset, name)
        return self._shown(dataset, name, self._ledger.limit(dataset, name), suspended=suspended)

    def _shown(
        self, dataset: str, name: str, limit: Guarantee, *, suspended: bool
    ) -> dict[str, Any]:
        return {
            "analyst": name,
            "dataset": dataset,
            "limit": guarantee_as_json(limit),
            "spent": guarantee_as_json(self._ledger.spent(dataset, name)),
            "left": guarantee_as_json(self._ledger.remaining(dataset, name)),
            "suspended": suspended,
        }

    def _check_name(self, dataset: str) -> None:
        if dataset not in self._service.config.datasets:
            raise Problem("not-found", "There is no dataset of this name in the configuration.")

    def _check_account(self, dataset: str) -> None:
        self._check_name(dataset)
        if dataset not in self._ledger.datasets():
            raise Problem("not-found", "The dataset has no account yet: it was never opened.")

    def _check_analyst(self, dataset: str, analyst: str) -> None:
        self._check_account(dataset)
        if not self._ledger.has_sub_account(dataset, analyst):
            raise Problem("not-found", "There is no limit for this analyst: add them.")

    def _given(self, dataset: str, budget: Mapping[str, Any]) -> Guarantee:
        self._check_account(dataset)
        return budget_of(budget, "/budget")


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    """An entry in plain values, without what only a program that verifies it needs."""
    said = entry.to_dict()
    return {name: said[name] for name in (*_SHOWN, *_GUARANTEES)}
