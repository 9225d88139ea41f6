"""The service of a server without HTTP: open datasets, and questions about them.

A question that equals a running or answered one is the same one: it is paid once, and its release
is reused. Releases are stored before the ledger notes that they were computed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from unacorda._version import __version__
from unacorda.accounting.charges import request_price
from unacorda.checks import demand
from unacorda.deadlines import deadline
from unacorda.errors import InvalidParameter, LedgerMismatch, UnacordaError, WrongUnit
from unacorda.ledger.ledger import Ledger, open_ledger
from unacorda.privacy.guarantees import GDP, ZCDP, Guarantee, PureDP
from unacorda.query.plan.codec import encode
from unacorda.query.plan.query import Query
from unacorda.query.results.explanation import Explanation, Explanations
from unacorda.query.results.record import verify_record
from unacorda.query.results.release import Batch, Release
from unacorda.query.results.simulation import Assume
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Auto, Person, Row, Unit
from unacorda.query.session import Session
from unacorda.query.sql.outputs import Select, arranged
from unacorda.server.config import Config
from unacorda.server.oidc import Issuer
from unacorda.server.problems import Problem, as_problems
from unacorda.server.scheduling import RoundRobin, leaves_after
from unacorda.server.stand_in import StandIn
from unacorda.server.store import SILENT_SECONDS, AnswerStore, State, StoredQuestion
from unacorda.settings import Dataset, guarantee_of

_LOG = logging.getLogger("unacorda.server")
FIELDS: Final = "unacorda"
"""By which a line of the log holds more than its text."""
_PAUSE_SECONDS: Final = 0.05
_BEAT_SECONDS: Final = 10.0
_SHARE_OF_QUEUE: Final = 16
_INTERRUPTS: Final = 100
_UNFINISHED: Final = ("waiting", "running")
_NO_QUESTION: Final = "There is no such question, or it is not yours."
_AFTER_RESERVING: Final = ("engine-failed", "failed", "ledger-failed", "source-changed")
"""Problems after which the charge may stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuestion:
    """A parsed question: what is evaluated, and the key that identifies equal ones.

    query: one, or a batch by name. selects: the SELECTs among them, which are applied to the
    releases.
    """

    query: Query | Mapping[str, Query]
    budget: Guarantee
    digest: str
    selects: tuple[Select | None, ...]

    def arranged(self, made: Any) -> Release | Batch:
        """The releases, each with its SELECT applied."""
        if isinstance(made, Batch):
            each = zip(made.releases, self.selects, strict=True)
            return replace(made, releases=tuple(_arranged(one, select) for one, select in each))
        return _arranged(made, self.selects[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunQuestion:
    """A stored question, with its pending answer.

    arrived: its time; new: whether it is a new question; body, analyst: of the request, which may
    differ from those of the stored question.
    """

    question: StoredQuestion
    new: bool
    arrived: float
    found: OpenDataset
    session: Session
    asked: ParsedQuestion
    body: Mapping[str, Any]
    analyst: str


class OpenDataset:
    """One dataset: its session, and a session with a limit of its own for each analyst."""

    def __init__(self, settings: Dataset, config: Config, ledger: Ledger) -> None:
        self.settings = settings
        self._ledger = ledger
        self.session = _session_of(settings, config, ledger, _unit_of(settings.unit))
        self.stand_in = StandIn(settings, self.session)
        self._sessions: dict[str, Session] = {}
        new = {name: one for name, one in settings.analysts.items() if not self.has(name)}
        ledger.open_sub_accounts(settings.name, new)

    @property
    def other_limits(self) -> dict[str, tuple[Guarantee, Guarantee]]:
        """By analyst the limits in the ledger and in the file, if they differ."""
        known = self._ledger.sub_accounts(self.settings.name)
        wanted = self.settings.analysts
        return {n: (known[n], one) for n, one in wanted.items() if known[n] != one}

    def has(self, analyst: str) -> bool:
        """Whether an analyst has a limit, and so access."""
        return self._ledger.has_sub_account(self.settings.name, analyst)

    def of(self, analyst: str) -> Session:
        """The analyst's session; Problem if they have no limit."""
        known = self._sessions.get(analyst)
        if known is None:
            if not self.has(analyst):
                raise Problem("not-found", "There is no such dataset, or it is not yours.")
            known = self._sessions[analyst] = self.session.for_analyst(analyst)
        return known

    def problems_of(self, analyst: str) -> contextlib.AbstractContextManager[None]:
        """Raise errors of the library inside as problems, as the analyst may see them."""
        settings = self.settings
        return as_problems(own=f"{settings.name}/{analyst}", show_total=settings.show_total)

    def close(self) -> None:
        """Close the engine, and remove the made-up tables."""
        self.session.close()
        self.stand_in.close()


class Service:
    """All datasets of a configuration, the ledger and the store.

    A dataset that cannot be opened is unavailable, and the others still work; `unavailable` has the
    reason, for curators.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.store = AnswerStore(config.store)
        self.store.lose(before=time.time() - SILENT_SECONDS)
        self.issuer = None if config.oidc is None else Issuer(config.oidc)
        self.ledger = open_ledger(config.ledger)
        self.datasets: dict[str, OpenDataset] = {}
        self.unavailable: dict[str, str] = {}
        for name, settings in config.datasets.items():
            try:
                self._check_ledger(name)
                self.datasets[name] = OpenDataset(settings, config, self.ledger)
                self.store.watch(name)
            except UnacordaError as error:
                self.unavailable[name] = str(error)
                _LOG.warning("dataset %r is not available", name)
        self.turns, self._plans = RoundRobin(config.questions_at_once), RoundRobin(1)
        self.requests: Counter[tuple[str, int]] = Counter()  # by operation and status
        self._share = max(config.queue // _SHARE_OF_QUEUE, 1)
        self._ending, self._interrupt_at = threading.Event(), math.inf
        self._ended = threading.Event()
        self._heartbeats = threading.Thread(target=self._send_heartbeats, name="heart", daemon=True)
        self._heartbeats.start()

    def _check_ledger(self, name: str) -> None:
        """LedgerMismatch where the ledger lacks what the store has seen in it."""
        seen = self.store.seen(name)
        if seen is None:
            return
        sequence, digest = seen
        there = name in self.ledger.datasets()
        found = self.ledger.entries(name, after=sequence - 1, most=1) if there else ()
        if [one.digest for one in found] != [digest]:
            raise LedgerMismatch(
                f"Entry {sequence} of account {name!r}, which the server has seen, is not in the "
                "ledger: an older copy was put in its place, or another ledger. Put the newer one "
                "back. A new account for new data needs another name."
            )

    def note(self, operation: str, status: int, *, token: str = "") -> None:
        """Count and log a request, only with names that the server has given.

        operation: of `ENDPOINTS`, or of the page; token: its id. Call it only from the event loop.
        """
        self.requests[operation, status] += 1
        _LOG.info(
            "request", extra={FIELDS: {"operation": operation, "status": status, "token": token}}
        )

    def names(self, analyst: str) -> list[str]:
        """The datasets that an analyst may ask."""
        return [name for name, one in self.datasets.items() if one.has(analyst)]

    def dataset(self, name: str, analyst: str) -> tuple[OpenDataset, Session]:
        """A dataset, and the analyst's session; Problem, with one text, in all other cases."""
        if name in self.unavailable and self._expects(name, analyst):
            raise Problem("unavailable", "The dataset is not available. Ask a curator.")
        if name not in self.datasets:
            raise Problem("not-found", "There is no such dataset, or it is not yours.")
        found = self.datasets[name]
        return found, found.of(analyst)

    def describe(self, name: str, analyst: str) -> dict[str, Any]:
        """The facts that an analyst may know about a dataset: names, public facts, own limit."""
        found, session = self.dataset(name, analyst)
        said: dict[str, Any] = {
            "name": name,
            "title": found.settings.title or name,
            "protects": str(session.unit),
            "limit": guarantee_as_json(session.budget),
            "spent": guarantee_as_json(session.spent),
            "left": guarantee_as_json(session.remaining),
            "tables": {
                table: _columns_as_json(session.table(table).scope) for table in session.tables
            },
            "public": {
                table: _columns_as_json(one.scope)
                for table, one in session.table(session.tables[0]).rows.public.items()
            },
            "joins": _joins(session),
            "purpose_required": found.settings.purpose_required,
            "reuse": self.config.reuse,
        }
        if found.settings.show_total:
            said["total_left"] = guarantee_as_json(found.session.remaining)
        return said

    def read(self, session: Session, body: Mapping[str, Any]) -> ParsedQuestion:
        """Parse a question and its budget; Problem or InvalidParameter if it is invalid."""
        given = [part for part in ("question", "sql", "questions") if part in body]
        if len(given) != 1:
            detail = "Give either a question, or sql, or questions."
            raise Problem("refused", detail, {"pointer": "/question"})
        several = "questions" in body
        if ("budget" in body) == ("error" in body):
            raise Problem("refused", "Give either a budget or an error.", {"pointer": "/budget"})
        stated = body["questions"] if several else {"": body[given[0]]}
        read = {one: _read(session, value, name=one) for one, value in stated.items()}
        queries = {one: query for one, (query, _, _) in read.items()}
        query: Query | Mapping[str, Query] = queries if several else queries[""]
        if "error" not in body:
            budget = budget_of(body.get("budget"), "/budget")
        elif isinstance(query, Query):
            budget = session.suggest_budget(query, error=body["error"], assuming=assumed(body))
        else:
            detail = "An error is of one question. Give several a budget."
            raise Problem("refused", detail, {"pointer": "/error"})
        digests = [[one, digest] for one, (_, digest, _) in read.items()]
        return ParsedQuestion(
            query=query,
            budget=budget,
            digest=json.dumps(digests) if several else digests[0][1],
            selects=tuple(select for _, _, select in read.values()),
        )

    def explain(self, name: str, analyst: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Forecast the steps, the cost and the errors of a question; free."""
        return self._foreseen(name, analyst, body).to_dict()

    def explanation(self, name: str, analyst: str, body: Mapping[str, Any]) -> Explanation:
        """Forecast one question, as an object of the library; free."""
        found = self._foreseen(name, analyst, body)
        assert isinstance(found, Explanation)  # the page asks one at a time
        return found

    def _foreseen(
        self, name: str, analyst: str, body: Mapping[str, Any]
    ) -> Explanation | Explanations:
        found, session = self.dataset(name, analyst)
        with self._planned(analyst), found.problems_of(analyst):
            asked = self.read(session, body)
            return session.explain(asked.query, budget=asked.budget, assuming=assumed(body))

    def rehearse(self, name: str, analyst: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the question on made-up rows; free, as it reads no data."""
        found, session = self.dataset(name, analyst)
        with self._planned(analyst), found.problems_of(analyst):
            asked = self.read(session, body)
            return found.stand_in.ask(body, budget=asked.budget)

    def known(self, name: str, analyst: str, body: Mapping[str, Any]) -> StoredQuestion | None:
        """The equal question that runs or was answered, as the analyst may see it; free."""
        found, session = self.dataset(name, analyst)
        if self.config.reuse == "off":
            return None
        with found.problems_of(analyst):
            asked = self.read(session, body)
            _check_size(found, analyst, asked.budget)
        known = self.store.found(self._key(found, analyst, asked, nonce=""))
        return None if known is None else known.shown

    def suggest(self, name: str, analyst: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the least budget that reaches these errors; free."""
        found, session = self.dataset(name, analyst)
        with self._planned(analyst), found.problems_of(analyst):
            asked = self.read(session, body)
            found_budget = guarantee_as_json(asked.budget)
            if not body.get("kinds", False) or not isinstance(asked.query, Query):
                return {"budget": found_budget}
            wanted: dict[str, Any] = {"error": body["error"], "assuming": assumed(body)}
            budgets = []
            for kind in (PureDP, ZCDP, GDP):
                with contextlib.suppress(InvalidParameter, WrongUnit):
                    budgets.append(session.suggest_budget(asked.query, kind=kind, **wanted))
            return {"budget": found_budget, "budgets": list(map(guarantee_as_json, budgets))}

    def begin(
        self, name: str, analyst: str, body: Mapping[str, Any], *, request: str | None = None
    ) -> BegunQuestion:
        """Store a question before it is answered; Problem if it is refused.

        request: the client's name for it; with the same name the same question is not paid twice.
        """
        arrived = time.time()
        found, session = self.dataset(name, analyst)
        self.check_taken(name, analyst)
        purpose = body.get("purpose")
        # What is computed for an error is free, and takes its turn as what else is.
        turn = self._planned(analyst) if "error" in body else contextlib.nullcontext()
        with turn, found.problems_of(analyst):
            asked = self.read(session, body)
            _check_size(found, analyst, asked.budget)
            if purpose is not None:
                session = session.for_purpose(purpose)
        if found.settings.purpose_required and not (purpose or "").strip():
            detail = "Say what the question is for: it stands in the ledger."
            raise Problem("refused", detail, {"pointer": "/purpose"})
        body = {part: one for part, one in body.items() if part not in ("error", "assuming")}
        body["budget"] = body.get("budget", asked.budget.parameters)
        fresh = bool(body.get("fresh", False))
        again = fresh or self.config.reuse == "off"
        nonce = (request or secrets.token_hex(16)) if again else ""
        key = self._key(found, analyst, asked, nonce=nonce)
        if request is not None:
            known = self.store.requested(analyst, request)
            if known is not None and known.key != key:
                detail = "Idempotency-Key was sent before, with another question."
                raise Problem("refused", detail)
        if self.store.found(key) is None:
            self._check_queue(analyst)
        claimed, new = self.turns.claim(analyst), False
        try:
            question, new = self.store.begin(
                key=key,
                analyst=analyst,
                dataset=name,
                purpose=purpose,
                asked=_as_text(body),
                request=request,
                waits=not claimed,
            )
        finally:
            if claimed and not new:
                self.turns.forgo(analyst)
        return BegunQuestion(
            question=question,
            new=new,
            arrived=arrived,
            found=found,
            session=session,
            asked=asked,
            body=body,
            analyst=analyst,
        )

    def answer(self, begun: BegunQuestion) -> StoredQuestion:
        """The question with its stored release, when it is due; Problem if it has none."""
        if begun.new:
            return self._evaluate(begun)
        question = self._wait_for(begun.question)
        if question.analyst == begun.analyst:
            return question
        return self.store.share(
            question,
            analyst=begun.analyst,
            purpose=begun.body.get("purpose"),
            asked=_as_text(begun.body),
        )

    def visible(self, name: str, analyst: str) -> StoredQuestion:
        """A question as an analyst may see it now; Problem if there is none, or it is not theirs.

        If `reuse` is "dataset", analysts of the dataset can see others' answers by their address,
        without their purpose.
        """
        found = self.store.question(name)
        if found is not None and found.analyst == analyst:
            return found.shown
        known = None if found is None else self.datasets.get(found.dataset)
        shared = self.config.reuse == "dataset" and known is not None
        if found is None or not shared or known is None or not known.has(analyst):
            raise Problem("not-found", _NO_QUESTION)
        asked = {name: one for name, one in json.loads(found.asked).items() if name != "purpose"}
        return replace(found.shown, purpose=None, asked=_as_text(asked), number=0)

    def verify(self, analyst: str, text: str) -> dict[str, Any]:
        """Check a release without the data, and whether it is stored; free.

        stored: the analyst's question that has exactly this release, or None.
        """
        with self._planned(analyst), as_problems():
            found = verify_record(text)
        known = self.store.release_of(analyst, text)
        stored = known is not None and known.shown.state == "answered"
        return {**found.to_dict(), "stored": known.id if known is not None and stored else None}

    def withdraw(self, name: str, analyst: str) -> None:
        """Withdraw a question that has not begun and cost nothing; Problem otherwise."""
        question = self.visible(name, analyst)
        if question.analyst != analyst:
            raise Problem("not-found", _NO_QUESTION)
        if question.shown.state not in ("waiting", "running"):
            raise Problem("refused", "The question has ended.")
        if not self.store.withdraw(question.id):
            raise Problem("runs", "The question is running and is paid: it continues to its end.")

    def check_taken(self, dataset: str, analyst: str) -> None:
        """Raise Problem if questions of the analyst about the dataset are stopped."""
        if self.ending:
            raise Problem("stopped", "The server ends. Ask again in a minute.")
        stopped = self.store.stopped(dataset, analyst)
        if "" in stopped:
            raise Problem("stopped", "A curator has stopped questions about this dataset.")
        if analyst in stopped:
            detail = "A question of yours failed in the engine. Ask a curator to resume."
            raise Problem("suspended", detail)

    @property
    def ending(self) -> bool:
        """Whether no further questions are taken."""
        return self._ending.is_set()

    def begin_end(self) -> None:
        """Take no further questions; waiting ones are refused, running ones continue."""
        if not self.ending:
            self._interrupt_at = time.monotonic() + self.config.shutdown
        self._ending.set()
        self.turns.close()
        self._plans.close()

    def finish(self) -> None:
        """Let running questions end within `shutdown` seconds, then interrupt them, paid."""
        self.begin_end()
        if not self.turns.wait_until_idle(max(self._interrupt_at - time.monotonic(), 0.0)):
            for _ in range(_INTERRUPTS):  # one between two statements stops neither
                for one in self.datasets.values():
                    one.session.interrupt()
                if self.turns.wait_until_idle(_PAUSE_SECONDS):
                    break

    def close(self) -> None:
        """Close the engines, the ledger and the store; nothing is refunded."""
        self.finish()
        self._ended.set()
        self._heartbeats.join()
        for one in self.datasets.values():
            one.close()
        self.ledger.close()
        self.store.close()

    @contextlib.contextmanager
    def _planned(self, analyst: str) -> Iterator[None]:
        """The time of a processor for what is free, in turns."""
        own = self._share
        if self._plans.waiting >= self.config.queue:
            raise Problem("busy", "Too many questions wait. Ask again in a while.")
        if self._plans.waiting_of(analyst) >= own:
            detail = f"At most {own} questions of one analyst are explained at once."
            raise Problem("too-many", detail)
        with self._plans.slot(analyst), deadline(self.config.planning):
            yield

    def _expects(self, name: str, analyst: str) -> bool:
        """Whether an analyst may ask a dataset that cannot be opened."""
        if analyst in self.config.datasets[name].analysts:
            return True
        try:
            self.ledger.limit(name, analyst)
        except LedgerMismatch:
            return False
        return True

    def _evaluate(self, begun: BegunQuestion) -> StoredQuestion:
        question, found, analyst = begun.question, begun.found, begun.question.analyst

        def due() -> float:
            taken = leaves_after(self.config.answer_after, time.time() - begun.arrived)
            return begun.arrived + taken

        def keep(made: Any) -> None:
            release = begun.asked.arranged(made)
            newest = self.ledger.newest(question.dataset)
            seen = None if newest is None else (question.dataset, *newest)
            text, cost = release.to_json(), str(release.charge)
            self.store.keep(
                question.id, text, cost, clamped=_clamped(release), due=due(), seen=seen
            )

        def take() -> None:
            if waited and not self.store.take(question.id):
                raise Problem("withdrawn", "The question was withdrawn. It cost nothing.")
            self.check_taken(question.dataset, analyst)

        waited = [True] if question.state == "waiting" else []

        def wait() -> None:
            if not waited:
                waited.append(True)
                self.store.wait(question.id)

        ends = begun.arrived
        try:
            with self.turns.slot(analyst, waits=wait):
                try:
                    take()
                    with deadline(self.config.planning), found.problems_of(analyst):
                        begun.session.evaluate(
                            begun.asked.query, budget=begun.asked.budget, keep=keep
                        )
                finally:
                    ends = due()
                    self.turns.hold(analyst, ends - time.time())
        except BaseException as error:
            detail = "The server failed at this question."
            problem = error if isinstance(error, Problem) else Problem("failed", detail)
            state: State = "failed" if problem.kind in _AFTER_RESERVING else "refused"
            if problem.kind == "engine-failed" and not self.ending:
                # It tells a bit of the data: there are to be few, and they are to be seen.
                self.store.stop(question.dataset, analyst, at=ends)
            self.store.end(question.id, state, json.dumps(problem.to_dict()), due=ends)
            _pause_until(ends)
            raise
        _pause_until(ends)
        kept = self.store.question(question.id)
        assert kept is not None  # none is ever removed
        return kept

    def _wait_for(self, question: StoredQuestion) -> StoredQuestion:
        """The question once it does not run any more, as far as anyone can tell."""
        deadline = time.monotonic() + 2 * self.config.timeout
        while question.shown.state in _UNFINISHED and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            known = self.store.question(question.id)
            if known is None:
                raise Problem("withdrawn", "The question was withdrawn. It cost nothing.")
            question = known
        question = question.shown
        if question.state == "answered":
            return question
        if question.state in _UNFINISHED:
            raise Problem("busy", "The same question still runs. Ask for it later.")
        if question.problem is not None:
            said = json.loads(question.problem)
            raise Problem(said["type"].rpartition(":")[2], said["detail"])
        raise Problem("lost", "The same question was paid and has no answer. Ask a curator.")

    def _check_queue(self, analyst: str) -> None:
        """Refuse where too many questions wait, of all or of one analyst."""
        own = self._share
        if self.store.running() >= self.config.queue:
            raise Problem("busy", "Too many questions wait. Ask again in a while.")
        if self.store.running(analyst) >= own:
            detail = f"At most {own} questions of one analyst run at once. Ask again in a while."
            raise Problem("too-many", detail)

    def _key(self, found: OpenDataset, analyst: str, asked: ParsedQuestion, *, nonce: str) -> str:
        """SHA-256 of all that makes a question another one."""
        whose = "" if self.config.reuse == "dataset" and not nonce else analyst
        stated = [
            *(__version__, found.settings.name, whose, asked.digest, asked.budget.to_json()),
            *(repr(found.session.unit), *found.session.source_identity),
            nonce,
        ]
        return hashlib.sha256(json.dumps(stated).encode()).hexdigest()

    def _send_heartbeats(self) -> None:
        while not self._ended.wait(_BEAT_SECONDS):
            try:
                self.store.beat()
                self.store.lose(before=time.time() - SILENT_SECONDS)
            except Exception:  # noqa: BLE001  # those who ask meet the failure
                _LOG.warning("the store cannot be written")


def assumed(body: Mapping[str, Any]) -> Assume | None:
    """Parse the assumptions of a body, such as {"rows": 1000}; InvalidParameter otherwise."""
    if "assuming" not in body:
        return None
    stated = body["assuming"]
    if set(stated) != {"rows"}:
        detail = 'Assumptions are such as {"rows": 1000}: the rows in a group.'
        raise Problem("refused", detail, {"pointer": "/assuming"})
    return Assume(rows=stated["rows"])


def _read(session: Session, value: Any, *, name: str) -> tuple[Query, str, Select | None]:
    """A SELECT or a question as JSON, what tells it from others, and how it is arranged."""
    try:
        if isinstance(value, str):
            query, select = session.read_sql(value)
            # ORDER BY and LIMIT, which the plan does not hold, arrange what is released.
            return query, f"{query.digest()} {value}", select
        query = session.read_json(value)
    except InvalidParameter as error:
        raise (error.within("questions", name) if name else error) from None
    return query, query.digest(), None


def _arranged(release: Release, select: Select | None) -> Release:
    return release if select is None else arranged(release, select)


def _clamped(release: Release | Batch) -> str | None:
    """The rows with possible values alone, by name of their question; None where none differs."""
    if isinstance(release, Batch):
        named = dict(zip(release.names, release.releases, strict=True))
    else:
        named = {"": release}
    possible = {name: one.clamped() for name, one in named.items()}
    if all(one.to_dicts() == named[name].to_dicts() for name, one in possible.items()):
        return None
    return json.dumps({name: json.loads(one.to_json())["rows"] for name, one in possible.items()})


def _columns_as_json(scope: TableSchema) -> dict[str, dict[str, Any]]:
    """By name the type and the public fact of each column of a table."""
    return {
        column: {"type": kind, "fact": encode(scope.facts.get(column))}
        for column, kind in scope.types.items()
    }


def _joins(session: Session) -> dict[str, list[str]]:
    """By table the columns that name the person, on which private tables are joined."""
    unit = session.unit
    if not isinstance(unit, Person):
        return {}
    return {table: list(unit.in_table(table).id) for table in session.tables}


def _as_text(body: Mapping[str, Any]) -> str:
    """A body as it is stored, its numbers as exact texts."""
    return json.dumps(body, default=str)


def budget_of(stated: Any, pointer: str) -> Guarantee:
    """Parse a budget from JSON, exactly: {"epsilon": "1/10"}, {"rho": 0.01, "delta": "1e-9"}."""
    fits = isinstance(stated, Mapping) and stated and set(stated) <= _BUDGET
    if not fits:
        detail = 'A budget is such as {"epsilon": "1/10"}, {"rho": 0.01} or {"mu": 0.2}.'
        raise Problem("refused", detail, {"pointer": pointer})
    try:
        return guarantee_of(stated, "budget")
    except InvalidParameter as error:
        raise Problem("refused", error.public, {"pointer": pointer}) from None


_BUDGET: Final = {"epsilon", "delta", "rho", "mu"}


def guarantee_as_json(budget: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: its kind, and its numbers as exact texts."""
    found: dict[str, Any] = json.loads(budget.to_json())
    return found


def _check_size(found: OpenDataset, analyst: str, budget: Guarantee) -> None:
    """Problem for a question that costs less or more than one may; by what was written alone."""
    settings, account = found.settings, found.session.budget
    price, least = request_price(budget, account), settings.least_a_question
    if least is not None and not request_price(least, account) <= price:
        detail = f"A question costs at least {least} here."
        raise Problem("refused", detail, {"pointer": "/budget"})
    most = settings.most_a_question.get(analyst)
    if most is not None and not price <= request_price(most, account):
        raise Problem(
            "refused", f"A question of yours costs at most {most}.", {"pointer": "/budget"}
        )


def _pause_until(time_of_day: float) -> None:
    time.sleep(max(time_of_day - time.time(), 0.0))


def find_max_rows(settings: Dataset, config: Config, search: Auto) -> int:
    """Find `max_rows` privately; the ledger keeps it, and it is paid once."""
    person: Any = settings.unit.get("person")
    expected = "a dataset that protects people, unit = { person = ... }"
    demand(person, "DATASET", settings.name, expected=expected)
    unit = Person(person, max_rows=search)
    with (
        contextlib.closing(open_ledger(config.ledger)) as ledger,
        _session_of(settings, config, ledger, unit) as session,
    ):
        assert isinstance(session.unit, Person)
        assert isinstance(session.unit.max_rows, int)
        return session.unit.max_rows


def _session_of(settings: Dataset, config: Config, ledger: Ledger, unit: Unit) -> Session:
    return Session(
        settings.tables,
        unit=unit,
        budget=settings.budget,
        columns=settings.columns,
        public=settings.public,
        dataset=settings.name,
        ledger=ledger,
        timeout=config.timeout,
        most_aggregates=config.most_aggregates,
        most_cells=config.most_cells,
        engine=settings.engine or "duckdb",
        memory_limit=settings.memory_limit,
    )


def _unit_of(stated: Mapping[str, Any]) -> Unit:
    if stated.get("row"):
        return Row()
    limits = {name: one for name, one in stated.items() if name != "person"}
    return Person(stated["person"], **limits)
