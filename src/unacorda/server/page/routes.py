"""The screens of the page: their access rules, forms and headers.

Only the page's own forms are accepted: `Sec-Fetch-Site` or `Origin` must show the origin, and every
form of a signed-in browser has a token that no other site knows. GET never spends.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import json
import pprint
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from unacorda import checks
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.extras import require
from unacorda.privacy.guarantees import guarantee_from_json
from unacorda.query.results.explanation import Explanation
from unacorda.server.page.answers import AnswerTable, answer_csv, answer_tables
from unacorda.server.page.charts import Offers, error_charts, offers_of, spent_share
from unacorda.server.page.code_flow import CALLBACK, CodeFlow
from unacorda.server.page.curator import CuratorPages
from unacorda.server.page.forms import (
    FUNCTIONS,
    MOST_AGGREGATES,
    MOST_CONDITIONS,
    OPERATORS,
    AggregateRow,
    ConditionRow,
    Draft,
    Fields,
    Kept,
    Visit,
    first,
    read_form,
)
from unacorda.server.page.screens import render
from unacorda.server.problems import Problem, any_problem
from unacorda.server.requests import HEADERS, check_host, check_token, check_type, read_body
from unacorda.server.service import Service
from unacorda.server.store import StoredQuestion, Token
from unacorda.server.tokens import LONGEST_SECONDS, form_token, sign_in, sign_out, signed_in

require("starlette", extra="server")

from starlette.requests import Request  # noqa: E402  # after the error that names the extra
from starlette.responses import HTMLResponse, RedirectResponse, Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

_STATIC: Final = Path(__file__).parent / "static"
_STATIC_TYPES: Final = {
    "page.css": "text/css; charset=utf-8",
    **dict.fromkeys(("page.js", "scheme.js"), "text/javascript; charset=utf-8"),
    "icon.svg": "image/svg+xml",
}
_WAIT_SECONDS: Final = 10.0  # for an answer, before a page says that it runs
_PAGE: Final = 25
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    **HEADERS,
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_FORM: Final = "application/x-www-form-urlencoded"
_FROM_ELSEWHERE: Final = "This form was not sent from the page. Open the page, and try again."
_NOT_YOURS: Final = "There is no such page, or it is not yours."


Screen = Callable[[Visit], Awaitable[Response]]


class Pages:
    """All screens over a service, whose questions run in the threads of the JSON routes."""

    def __init__(self, service: Service, *, asking: Executor, explaining: Executor) -> None:
        self._service = service
        self._asking, self._explaining = asking, explaining
        self._secure = service.config.public_url.startswith("https:")
        self._curator = CuratorPages(service, self._html, _leave)
        self._flow = CodeFlow(service, show=self._html, leave=_leave, sign_in=self._set_cookie)
        # The prefix binds a cookie to this host, but browsers demand TLS for it.
        self._cookie = "__Host-unacorda" if self._secure else "unacorda"

    def routes(self) -> list[Route]:
        """The routes of all screens."""
        return [
            self._route("/sign-in", self._sign_in_page),
            self._route("/sign-in", self._signing_in(self._sign_in), "POST"),
            self._route("/sign-in/organization", self._signing_in(self._flow.leave)),
            self._route(CALLBACK, self._signing_in(self._flow.come_back)),
            self._route("/static/{name}", self._static),
            self._screen("/sign-out", self._sign_out, "POST"),
            self._screen("/", self._datasets),
            self._screen("/ask/{dataset}", self._question_page),
            self._screen("/ask/{dataset}", self._explain, "POST"),
            self._screen("/ask/{dataset}/confirm", self._confirm, "POST"),
            self._screen("/ask/{dataset}/spend", self._spend, "POST"),
            self._screen("/ask/{dataset}/confirm", self._begin_again),
            self._screen("/ask/{dataset}/spend", self._begin_again),
            self._screen("/answers/{id}", self._answer),
            self._screen("/answers/{id}/withdraw", self._withdraw, "POST"),
            self._screen("/answers/{id}/{name}", self._download),
            self._screen("/history", self._history),
            *(
                self._screen(path, screen, method, curator=True)
                for (method, path), screen in self._curator.screens().items()
            ),
        ]

    def is_for(self, request: Request) -> bool:
        """Whether a request is a browser's for a page, not a program's for an operation."""
        wanted = request.headers.get("accept", "")
        return "text/html" in wanted and not request.url.path.startswith(("/v1/", "/openapi"))

    def problem(self, problem: Problem) -> Response:
        """A problem as a page for anyone."""
        found = self._problem(problem, None)
        found.headers.update(_HEADERS)
        return found

    def _screen(self, path: str, screen: Screen, method: str = "GET", **more: Any) -> Route:
        return self._route(path, self._guarded(screen, **more), method)

    def _guarded(
        self, screen: Screen, *, curator: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route for those who are signed in; others are asked to sign in."""

        async def show(request: Request) -> Response:
            value = request.cookies.get(self._cookie, "")
            holder = None
            if value and len(value) < 100:
                holder = await asyncio.to_thread(signed_in, self._service.store, value)
            fields: Fields = {}
            if request.method == "POST":
                fields = await self._form(request)
            if holder is None:
                return RedirectResponse("/sign-in?again", status_code=303)
            visit = Visit(
                request=request, holder=holder, form_token=form_token(value), fields=fields
            )
            if request.method == "POST":
                given = first(fields, "form_token")
                if not hmac.compare_digest(given.encode(), visit.form_token.encode()):
                    raise Problem("not-allowed", _FROM_ELSEWHERE)
            if curator and holder.role != "curator":
                raise Problem("not-found", _NOT_YOURS)
            try:
                return await screen(visit)
            except (Problem, UnacordaError) as error:
                return self._problem(any_problem(error), visit)

        return show

    def _route(
        self, path: str, answer: Callable[[Request], Awaitable[Response]], method: str = "GET"
    ) -> Route:
        """A route for everybody that answers problems as pages."""

        @functools.wraps(answer)
        async def route(request: Request) -> Response:
            try:
                check_host(request, self._service.config)
                response = await answer(request)
            except Exception as error:  # noqa: BLE001  # a traceback in a log could show a row
                response = self._problem(any_problem(error), None)
            response.headers.update(_HEADERS)
            self._service.note(f"page {method} {path}", response.status_code)
            return response

        return Route(path, route, methods=[method])

    def _problem(self, problem: Problem, visit: Visit | None) -> Response:
        found = self._html("problem.html", visit, problem=problem)
        found.status_code = problem.status
        return found

    def _html(self, template: str, visit: Visit | None, **values: Any) -> Response:
        path = "" if visit is None else visit.request.url.path
        return HTMLResponse(render(template, visit=visit, path=path, **values))

    async def _form(self, request: Request) -> Fields:
        """The fields of a form that this page sent."""
        if not is_from(request, self._service.config.public_url):
            raise Problem("not-allowed", _FROM_ELSEWHERE)
        check_type(request, _FORM)
        return read_form(await read_body(request))

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC_TYPES:
            raise Problem("not-found", _NOT_YOURS)
        return Response((_STATIC / name).read_bytes(), media_type=_STATIC_TYPES[name])

    async def _sign_in_page(self, request: Request) -> Response:
        return self._sign_in_form(again="again" in request.query_params)

    def _sign_in_form(self, *, again: bool = False, problem: Problem | None = None) -> Response:
        offered = self._flow.offered
        found = self._html("sign_in.html", None, again=again, problem=problem, offered=offered)
        if problem is not None:
            found.status_code = problem.status
        return found

    async def _sign_in(self, request: Request) -> Response:
        given = first(await self._form(request), "token")
        said = "This is no token, or it has ended. Ask the curator for a new one."
        holder = await check_token(request, self._service.store, given, said)
        found = _leave("/")
        await asyncio.to_thread(self._set_cookie, found, holder)
        return found

    def _signing_in(
        self, step: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A step of a sign-in; the form says what it refuses."""

        async def answer(request: Request) -> Response:
            try:
                return await step(request)
            except Problem as problem:
                return self._sign_in_form(problem=problem)

        return answer

    def _set_cookie(self, response: Response, holder: Token) -> None:
        """Sign a holder in, by a cookie of a response."""
        response.set_cookie(
            self._cookie,
            sign_in(self._service.store, holder),
            max_age=LONGEST_SECONDS,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )

    async def _sign_out(self, visit: Visit) -> Response:
        value = visit.request.cookies[self._cookie]
        await asyncio.to_thread(sign_out, self._service.store, value)
        found = RedirectResponse("/sign-in", status_code=303)
        found.delete_cookie(
            self._cookie, path="/", secure=self._secure, httponly=True, samesite="strict"
        )
        return found

    async def _datasets(self, visit: Visit) -> Response:
        cards = await asyncio.to_thread(self._cards, visit.analyst)
        return self._html("datasets.html", visit, cards=cards)

    def _cards(self, analyst: str) -> list[dict[str, Any]]:
        """What the list says of each dataset of an analyst."""
        cards = []
        for name in self._service.names(analyst):
            found, session = self._service.dataset(name, analyst)
            cards.append(
                {
                    "name": name,
                    "title": found.settings.title or name,
                    "protects": str(session.unit),
                    "tables": session.tables,
                    "limit": session.budget,
                    "spent": session.spent,
                    "left": session.remaining,
                    "share": spent_share(session.spent, session.budget),
                }
            )
        return cards

    async def _question_page(self, visit: Visit) -> Response:
        """The empty form of a question, or that of a question that was asked before."""
        again = visit.request.query_params.get("like")
        about = await asyncio.to_thread(self._about, visit)
        draft = self._new_draft(about)
        if again is not None:
            question = await self._visible(visit, again)
            draft = _draft_like(draft, question)
        return self._question(visit, about, draft)

    def _about(self, visit: Visit) -> dict[str, Any]:
        """What the form of a question needs of its dataset."""
        name = visit.request.path_params["dataset"]
        stated = self._service.describe(name, visit.analyst)
        found, session = self._service.dataset(name, visit.analyst)
        whole = found.session.remaining if found.settings.show_total else None
        numbers = list(session.budget.parameters)
        share = spent_share(session.spent, session.budget)
        more = {"numbers": numbers, "session": session, "share": share, "whole": whole}
        return {**stated, **more}

    def _new_draft(self, about: Mapping[str, Any]) -> Draft:
        offered = (about["session"].budget / 100).parameters
        return Draft(
            table=next(iter(about["tables"])),
            budget={name: offered.get(name, "") for name in about["numbers"]},
            wishes={},
            conditions=(ConditionRow(),),
        )

    def _question(
        self, visit: Visit, about: Mapping[str, Any], draft: Draft, **more: Any
    ) -> Response:
        """The form of a question, with what is known of the question."""
        nothing: dict[str, Any] = {"explanation": None, "charts": (), "problem": None, "offers": {}}
        given = {**nothing, "rehearsal": None, **more}
        found = self._html(
            "ask.html",
            visit,
            about=about,
            draft=draft,
            functions=FUNCTIONS,
            operators=OPERATORS,
            most_conditions=MOST_CONDITIONS,
            most_aggregates=MOST_AGGREGATES,
            **given,
        )
        if given["problem"] is not None:
            found.status_code = given["problem"].status
        return found

    async def _explain(self, visit: Visit) -> Response:
        """What the form's buttons do that spend nothing."""
        about = await asyncio.to_thread(self._about, visit)
        draft = Draft.of(visit.fields, about["numbers"])
        action, _, value = first(visit.fields, "do", "explain").partition(":")
        changed = _edited(draft, action, value, about)
        if changed is not None:
            return self._question(visit, about, changed)
        if action == "pick" and "pick" in visit.fields:
            picked = {about["numbers"][0]: first(visit.fields, "pick")}
            draft = replace(draft, budget={**draft.budget, **picked})
        tried = None
        try:
            if action == "suggest":
                draft = await self._free(self._suggested, visit, about, draft)
            if action == "rehearse":
                tried = await self._free(self._rehearsed, visit, about, draft)
            explanation, offers = await self._free(self._explained, visit, about, draft)
        except Problem as problem:
            return self._question(visit, about, draft, problem=problem)
        charts = error_charts(offers, chosen=explanation.request, left=explanation.left)
        known = {"explanation": explanation, "charts": charts, "offers": offers}
        return self._question(visit, about, draft, rehearsal=tried, **known)

    async def _free(self, answer: Callable[..., Any], *given: Any) -> Any:
        """What is free and takes long, in the threads for it."""
        return await asyncio.get_running_loop().run_in_executor(self._explaining, answer, *given)

    def _explained(
        self, visit: Visit, about: Mapping[str, Any], draft: Draft
    ) -> tuple[Explanation, Offers]:
        """The explanation of a draft, and what other budgets buy."""
        name, body = about["name"], draft.body(about["tables"])
        explanation = self._service.explanation(name, visit.analyst, body)
        outlooks = [explanation.outlook]
        number, *rest = draft.budget.items()
        with contextlib.suppress(Problem, InvalidParameter):  # a budget that no account takes
            tenfold = str(10 * checks.exact("budget", number[1]))
            more = {"budget": {number[0]: tenfold, **{n: t for n, t in rest if t}}}
            offered = self._service.explanation(name, visit.analyst, {**body, **more})
            outlooks.append(offered.outlook)
        return explanation, offers_of(outlooks)

    def _rehearsed(self, visit: Visit, about: Mapping[str, Any], draft: Draft) -> AnswerTable:
        """The answer on made-up rows."""
        body = draft.body(about["tables"])
        found = self._service.rehearse(about["name"], visit.analyst, body)
        return answer_tables(json.dumps(found["release"]))[""]

    def _suggested(self, visit: Visit, about: Mapping[str, Any], draft: Draft) -> Draft:
        """The draft with the least budget for the errors that are wanted."""
        body = draft.body(about["tables"])
        some = {**body, "budget": (about["session"].budget / 100).parameters}
        explanation = self._service.explanation(about["name"], visit.analyst, some)
        wanted = draft.errors(list(explanation.forecasts))
        asked = {name: value for name, value in body.items() if name != "budget"}
        found = self._service.suggest(about["name"], visit.analyst, {**asked, "error": wanted})
        budget = guarantee_from_json(json.dumps(found["budget"])).parameters
        return replace(draft, budget={name: budget.get(name, "") for name in about["numbers"]})

    async def _begin_again(self, visit: Visit) -> Response:
        """The empty form, for an address whose form was not sent."""
        return _leave(f"/ask/{quote(visit.request.path_params['dataset'], safe='')}")

    async def _confirm(self, visit: Visit) -> Response:
        """What a question costs, before it is asked."""
        about = await asyncio.to_thread(self._about, visit)
        draft = Draft.of(visit.fields, about["numbers"])
        try:
            explanation, known = await self._free(self._confirmed, visit, about, draft)
        except Problem as problem:
            return self._question(visit, about, draft, problem=problem)
        kept = [
            (name, value)
            for name, values in visit.fields.items()
            for value in values
            if name not in ("form_token", "do", "purpose", "fresh", "pick")
        ]
        return self._html(
            "confirm.html",
            visit,
            about=about,
            draft=draft,
            explanation=explanation,
            known=known,
            kept=kept,
            once=secrets.token_hex(16),
            after=explanation.left - explanation.cost if explanation.affordable else None,
        )

    def _confirmed(
        self, visit: Visit, about: Mapping[str, Any], draft: Draft
    ) -> tuple[Explanation, StoredQuestion | None]:
        name, body = about["name"], draft.body(about["tables"])
        explanation = self._service.explanation(name, visit.analyst, body)
        known = self._service.known(name, visit.analyst, body)
        if known is None:
            self._service.check_taken(name, visit.analyst)
        return explanation, known

    async def _spend(self, visit: Visit) -> Response:
        """Ask and pay; a form that is sent twice is one question."""
        about = await asyncio.to_thread(self._about, visit)
        draft = Draft.of(visit.fields, about["numbers"])
        once = first(visit.fields, "once")
        if not (once.isalnum() and once.isascii() and len(once) <= 64):
            raise Problem("refused", "Confirm the question before it is asked.")
        try:
            body = draft.body(about["tables"])
            body |= {"purpose": draft.purpose} if draft.purpose else {}
            body |= {"fresh": True} if draft.fresh else {}
            body.pop("assuming", None)
            question = await self._asked(visit, about["name"], body, once)
        except Problem as problem:
            return self._question(visit, about, draft, problem=problem)
        return RedirectResponse(f"/answers/{question.id}", status_code=303)

    async def _asked(
        self, visit: Visit, name: str, body: Mapping[str, Any], once: str
    ) -> StoredQuestion:
        """The question, answered, or still running after a while; it runs on in its thread.

        once: of the form, by which one that is sent again is not paid again.
        """
        loop, service = asyncio.get_running_loop(), self._service
        begin = functools.partial(service.begin, name, visit.analyst, body, request=f"page-{once}")
        begun = await loop.run_in_executor(self._asking, begin)
        running = loop.run_in_executor(self._asking, service.answer, begun)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen
        done, _ = await asyncio.wait({running}, timeout=_WAIT_SECONDS)
        return running.result() if done else begun.question

    async def _answer(self, visit: Visit) -> Response:
        question = await self._visible(visit, visit.request.path_params["id"])
        wanted = visit.request.query_params.get("values") == "possible"
        clamped, text = question.clamped if wanted else None, question.release
        tables = {} if text is None else answer_tables(text, clamped=clamped)
        stated = json.loads(question.asked)
        body = json.dumps({n: stated[n] for n in stated if n != "fresh"}, ensure_ascii=False)
        return self._html(
            "answer.html",
            visit,
            question=question,
            stated=stated,
            words=_in_words(stated),
            shared=self._service.config.reuse == "dataset",
            tables=tables,
            clamped=clamped is not None,
            problem=None if question.problem is None else json.loads(question.problem),
            curl=_curl(self._service.config.public_url, question.dataset, body),
            python=_python(self._service.config.public_url, question.dataset, stated),
        )

    async def _withdraw(self, visit: Visit) -> Response:
        """Take a question back that waits."""
        name = visit.request.path_params["id"]
        await asyncio.to_thread(self._service.withdraw, name, visit.analyst)
        return RedirectResponse("/history", status_code=303)

    async def _download(self, visit: Visit) -> Response:
        question = await self._visible(visit, visit.request.path_params["id"])
        name, release = visit.request.path_params["name"], question.release
        if release is None or name not in _DOWNLOADS:
            raise Problem("not-found", _NOT_YOURS)
        kind, write = _DOWNLOADS[name]
        headers = {"Content-Disposition": f'attachment; filename="{question.id[:8]}-{name}"'}
        return Response(write(release), media_type=kind, headers=headers)

    async def _history(self, visit: Visit) -> Response:
        query = visit.request.query_params
        before = query.get("before", "")
        dataset, state = query.get("dataset") or None, query.get("state") or None
        number = int(before) if before.isdecimal() and len(before) < 10 else None
        find, most = self._service.store.questions, _PAGE + 1
        found = await asyncio.to_thread(
            find, visit.analyst, dataset, state=state, before=number, most=most
        )
        cards = await asyncio.to_thread(self._cards, visit.analyst)
        kept, chosen = found[:_PAGE], {"dataset": dataset or "", "state": state or ""}
        following = {**chosen, "before": kept[-1].number} if len(found) > _PAGE else None
        return self._html(
            "history.html",
            visit,
            questions=[(one.shown, _in_words(json.loads(one.asked))) for one in kept],
            cards=cards,
            chosen=chosen,
            following=None if following is None else f"/history?{urlencode(following)}",
        )

    async def _visible(self, visit: Visit, name: str) -> StoredQuestion:
        return await asyncio.to_thread(self._service.visible, name, visit.analyst)


def _leave(path: str) -> Response:
    """Go on to another page, by GET."""
    return RedirectResponse(path, status_code=303)


def is_from(request: Request, url: str) -> bool:
    """Whether a form came from a page of this address, by the browser's headers.

    Under `Referrer-Policy: no-referrer` the page's own form has the origin "null", like a sandboxed
    frame's. Then only `Sec-Fetch-Site` decides.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = origin is not None and origin.lower() == url.lower()
    return own if site is None else site == "same-origin" and (own or origin in (None, "null"))


_DOWNLOADS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "release.json": ("application/json", str),
    "rows.csv": ("text/csv; charset=utf-8", functools.partial(answer_csv, spreadsheet=False)),
    "spreadsheet.csv": ("text/csv; charset=utf-8", functools.partial(answer_csv, spreadsheet=True)),
}


def _edited(draft: Draft, action: str, value: str, about: Mapping[str, Any]) -> Draft | None:
    """The draft after a button that only changes the form; None for another button."""
    match action:
        case "condition" if len(draft.conditions) < MOST_CONDITIONS:
            return replace(draft, conditions=(*draft.conditions, ConditionRow()))
        case "answer" if len(draft.aggregates) < MOST_AGGREGATES:
            return replace(draft, aggregates=(*draft.aggregates, AggregateRow()))
        case "table":
            table = draft.table if draft.table in about["tables"] else next(iter(about["tables"]))
            return replace(draft, table=table, conditions=(ConditionRow(),), groups=(), kept=())
        case "mode":
            return replace(draft, mode="sql" if value == "sql" else "build")
        case "condition" | "answer":
            return draft
        case _:
            return None


def _draft_like(draft: Draft, question: StoredQuestion) -> Draft:
    """The form of a question that was asked before; what the builder has no field for is kept."""
    stated = json.loads(question.asked)
    budget = {name: str(stated["budget"].get(name, "")) for name in draft.budget}
    if "questions" in stated:
        detail = "Questions that were asked together are asked again by a program, or one by one."
        raise Problem("refused", detail)
    if "sql" in stated:
        return replace(draft, mode="sql", sql=stated["sql"], budget=budget)
    asked = stated["question"]
    steps = asked.get("steps", ())
    kept: list[Kept] = []
    if all(set(step) == {"where"} for step in steps):
        where = [step["where"] for step in steps]
    else:  # their order counts
        where = []
        kept += [Kept(part="step", value=step) for step in steps]
    rows = {name: AggregateRow.of(name, one) for name, one in asked["aggregates"].items()}
    for name, one in asked["aggregates"].items():
        if rows[name] is None:
            kept.append(Kept(part="aggregate", name=name, value=one))
    found = asked.get("keys") == {"private_keys": {}}
    for name in ("keys", "margins", "level_weights"):
        if name in asked and not (name == "keys" and found):
            kept.append(Kept(part=name, value=asked[name]))
    return replace(
        draft,
        budget=budget,
        table=asked["table"],
        where=" AND ".join(f"({one})" for one in where) if len(where) > 1 else "".join(where),
        groups=tuple(asked.get("group_by", ())),
        private_keys=found,
        aggregates=tuple(one for one in rows.values() if one is not None) or (AggregateRow(),),
        kept=tuple(kept),
    )


def _in_words(stated: Mapping[str, Any]) -> str:
    """A question on one line."""
    if "questions" in stated:
        each = stated["questions"].items()
        return "; ".join(
            f"{name}: {_in_words({'sql' if isinstance(one, str) else 'question': one})}"
            for name, one in each
        )
    if "sql" in stated:
        return " ".join(stated["sql"].split())
    asked = stated["question"]
    answers = ", ".join(
        f"{next(iter(one))} {next(iter(one.values())).get('column', '')}".strip()
        for one in asked.get("aggregates", {}).values()
    )
    groups = f" by {', '.join(asked['group_by'])}" if asked.get("group_by") else ""
    steps = asked.get("steps", ())
    conditions = " and ".join(step["where"] for step in steps if "where" in step)
    where = f" where {conditions}" if conditions else ""
    others = "; ".join(Kept(part="step", value=one).words for one in steps if "where" not in one)
    after = f", after {others}" if others else ""
    return f"{answers} of {asked['table']}{where}{groups}{after}"


def _curl(url: str, dataset: str, body: str) -> str:
    """The same question by curl."""
    return (
        f"curl -s {shlex.quote(f'{url}/v1/datasets/{dataset}/ask')} "
        "-H \"Authorization: Bearer $TOKEN\" \\\n    -H 'Content-Type: application/json' \\\n"
        f"    -d {shlex.quote(body)}"
    )


def _python(url: str, dataset: str, stated: Mapping[str, Any]) -> str:
    """The same question by `unacorda.Remote`."""
    numbers = {name: str(one) for name, one in stated["budget"].items()}
    kinds = {"rho": "ZCDP", "mu": "GDP", "epsilon": "ApproxDP" if "delta" in numbers else "PureDP"}
    kind = next(kind for name, kind in kinds.items() if name in numbers)
    budget = ", ".join(f"{name}={one!r}" for name, one in numbers.items())
    if "sql" in stated:
        asked, made = f"data.sql({stated['sql']!r}", ""
    else:
        parts = stated.get("questions", {"": stated.get("question")})
        texts = {
            name: repr(one)
            if isinstance(one, str)
            else f"data.read_json({pprint.pformat(one, sort_dicts=False)})"
            for name, one in parts.items()
        }
        listed = "".join(f"    {name!r}: {text},\n" for name, text in texts.items())
        made = f"question = {{\n{listed}}}\n" if "questions" in stated else ""
        made = made or f"question = {texts['']}\n"
        asked = "data.evaluate(question"
    return (
        "import unacorda\n\n"
        f"data = unacorda.Remote({url!r}, token=token, dataset={dataset!r})\n"
        f"{made}{asked}, budget=unacorda.{kind}({budget}))\n"
    )
