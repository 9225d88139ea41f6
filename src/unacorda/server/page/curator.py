"""The curator's screens: accounts and limits of analysts, tokens, ledgers and acts, operations."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from unacorda.ledger.entries import Entry
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.query.results.record import software
from unacorda.server.curation import PAGE, Curation, Curator
from unacorda.server.page.charts import spend_chart, spent_share
from unacorda.server.page.forms import Show, Visit, first, named
from unacorda.server.problems import Problem, as_problems, whole_number
from unacorda.server.requests import address_of
from unacorda.server.service import Service

if TYPE_CHECKING:
    from starlette.responses import Response

Action: TypeAlias = Callable[[Visit], Awaitable["Response"]]

_DAYS: Final = "A token lasts a whole number of days, 1 to 366."
_FARTHEST: Final = 1 << 30  # entries
_STEPS: Final = 40  # of the chart of what was spent
_GUARANTEES: Final = ("budget", "limit", "spent", "left", "request", "charge", "sub_spent")


class CuratorPages:
    """The curator's pages; every change is an act of `Curation`."""

    def __init__(self, service: Service, show: Show, leave: Callable[[str], Response]) -> None:
        self._service = service
        self._curation = Curation(service)
        self._show, self._leave = show, leave

    def screens(self) -> dict[tuple[str, str], Action]:
        """What answers, by method and path."""
        return {
            ("GET", "/curator"): self.accounts,
            ("POST", "/curator"): self.change_limits,
            ("GET", "/curator/tokens"): self.tokens,
            ("POST", "/curator/tokens"): self.change_tokens,
            ("GET", "/curator/ledger/{dataset}"): self.ledger,
            ("POST", "/curator/ledger/{dataset}"): self.check_ledger,
            ("GET", "/curator/acts"): self.acts,
            ("GET", "/curator/operations"): self.operations,
            ("POST", "/curator/operations"): self.operate,
        }

    async def accounts(self, visit: Visit, problem: Problem | None = None) -> Response:
        """Budgets of datasets and limits of analysts."""
        accounts = await self._done("accounts", visit)
        analysts = await self._done("analysts", visit)
        shown = [
            {
                **_readable(account),
                "analysts": [
                    _readable(one) for one in analysts["datasets"].get(account["name"], ())
                ],
            }
            for account in accounts["datasets"]
        ]
        return self._show("accounts.html", visit, accounts=shown, problem=problem)

    async def change_limits(self, visit: Visit) -> Response:
        """Add an analyst, or change, close or resume one."""
        fields = visit.fields
        dataset, analyst = first(fields, "dataset"), first(fields, "analyst")
        budget = named(fields, "budget.")
        changes = {
            "add": "add_analyst",
            "limit": "change_limit",
            "close": "close_analyst",
            "resume": "resume_analyst",
        }
        more = {"budget": budget} if first(fields, "do") in ("add", "limit") else {}
        try:
            await self._chosen(changes, visit, dataset=dataset, analyst=analyst, **more)
        except Problem as refused:
            return await self.accounts(visit, refused)
        return self._leave(f"/curator#{dataset}")

    async def tokens(
        self, visit: Visit, problem: Problem | None = None, made: str | None = None
    ) -> Response:
        """Tokens; made: a new one, which is shown only once."""
        found = await self._done("tokens", visit)
        newest = list(reversed(found["tokens"]))
        more: dict[str, Any] = {"problem": problem, "made": made}
        return self._show("tokens.html", visit, tokens=newest, **more)

    async def change_tokens(self, visit: Visit) -> Response:
        """Make a token, or end one."""
        fields = visit.fields
        given: dict[str, Any] = {"id": first(fields, "id")}
        try:
            if first(fields, "do") == "add":
                given = {name: first(fields, name) for name in ("analyst", "note")}
                given |= {"role": first(fields, "role", "analyst")}
                given |= {"days": whole_number(first(fields, "days", "90"), _DAYS, digits=4)}
            changes = {"add": "add_token", "revoke": "revoke_token"}
            found = await self._chosen(changes, visit, **given)
        except Problem as refused:
            return await self.tokens(visit, refused)
        return await self.tokens(visit, made=found.get("token"))

    async def ledger(
        self, visit: Visit, checked: Mapping[str, Any] | None = None, problem: Problem | None = None
    ) -> Response:
        """A page of the entries of a dataset; checked: the result of a check."""
        name = visit.request.path_params["dataset"]
        after = visit.request.query_params.get("after", "0")
        found = (await self._done("ledger_entries", visit, dataset=name, after=after))["entries"]
        spends = await asyncio.to_thread(_spends, self._service.ledger, name)
        return self._show(
            "ledger.html",
            visit,
            dataset=name,
            datasets=list(self._service.config.datasets),
            entries=[_readable(one) for one in found],
            spends=spend_chart(spends, self._service.ledger.account(name).budget),
            following=found[-1]["sequence"] if len(found) == PAGE else None,
            checked=checked,
            problem=problem,
        )

    async def check_ledger(self, visit: Visit) -> Response:
        """Check the hashes of a dataset's entries, and price them again."""
        given = {"dataset": visit.request.path_params["dataset"]}
        if first(visit.fields, "do") == "reprice":
            given["delta"] = first(visit.fields, "delta", "1e-6")
        checks = {"verify": "verify_ledger", "reprice": "reprice_ledger"}
        try:
            checked = await self._chosen(checks, visit, **given)
        except Problem as refused:
            return await self.ledger(visit, problem=refused)
        return await self.ledger(visit, checked)

    async def acts(self, visit: Visit) -> Response:
        """What curators did."""
        after = visit.request.query_params.get("after", "0")
        found = await self._done("acts", visit, after=after)
        acts = found["acts"]
        following = acts[-1]["sequence"] if len(acts) == PAGE else None
        return self._show("acts.html", visit, acts=acts, count=found["count"], following=following)

    async def operations(self, visit: Visit, problem: Problem | None = None) -> Response:
        """What runs, what is stopped, and versions."""
        accounts = (await self._done("accounts", visit))["datasets"]
        config = self._service.config
        return self._show(
            "operations.html",
            visit,
            accounts=accounts,
            running=await asyncio.to_thread(self._service.store.running),
            config=config,
            software=software(),
            problem=problem,
        )

    async def operate(self, visit: Visit) -> Response:
        """Stop questions about a dataset, or take them again."""
        changes = {"stop": "stop_dataset", "start": "start_dataset"}
        try:
            await self._chosen(changes, visit, dataset=first(visit.fields, "dataset"))
        except Problem as refused:
            return await self.operations(visit, refused)
        return self._leave("/curator/operations")

    async def _chosen(self, changes: Mapping[str, str], visit: Visit, **given: Any) -> Any:
        """Do what the button of a form names."""
        name = changes.get(first(visit.fields, "do"))
        if name is None:
            raise Problem("refused", f"Choose one of {', '.join(changes)}.")
        return await self._done(name, visit, **given)

    async def _done(self, name: str, visit: Visit, **given: Any) -> Any:
        """The result of an operation of `Curation`."""
        holder = visit.holder
        curator = Curator(name=holder.analyst, token=holder.id, address=address_of(visit.request))
        with as_problems(show_total=True):
            return await asyncio.to_thread(getattr(self._curation, name), curator, **given)


def _spends(ledger: Ledger, dataset: str) -> list[tuple[dt.datetime, Guarantee]]:
    """When how much was spent, by a few entries spread evenly, however many there are."""

    def entry(sequence: int) -> Entry | None:
        return next(iter(ledger.entries(dataset, after=sequence - 1, most=1)), None)

    last, step = 0, _FARTHEST
    while step:  # sequences are 1, 2, 3, ...
        last += step if entry(last + step) else 0
        step //= 2
    taken = sorted(
        {1 + (last - 1) * place // _STEPS for place in range(_STEPS + 1)} if last else ()
    )
    found = [one for one in map(entry, taken) if one is not None]
    return [(dt.datetime.fromisoformat(one.time), guarantee_from_json(one.spent)) for one in found]


def _readable(stated: Mapping[str, Any]) -> dict[str, Any]:
    """An account, an analyst or an entry with its guarantees as such, and the share spent."""
    found: dict[str, Any] = dict(stated)
    for name in _GUARANTEES:
        if isinstance(found.get(name), dict):
            found[name] = guarantee_from_json(json.dumps(found[name]))
    whole = found.get("budget") or found.get("limit")
    if isinstance(whole, Guarantee) and isinstance(found.get("spent"), Guarantee):
        found["share"] = spent_share(found["spent"], whole)
    return found
