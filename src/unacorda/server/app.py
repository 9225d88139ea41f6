"""The routes of a server, as an ASGI application.

Questions run to their end in threads, even if the client disconnects: every paid answer is stored.
Bodies have a size limit and are not logged.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.query.plan.questions import parse_json
from unacorda.server.curation import Curation, Curator
from unacorda.server.fields import ENDPOINTS, Endpoint, check_body, openapi_document
from unacorda.server.page.answers import answer_csv
from unacorda.server.page.routes import Pages
from unacorda.server.problems import MEDIA_TYPE, Problem, any_problem, whole_number
from unacorda.server.requests import (
    HEADERS,
    MOST_RECORD,
    address_of,
    check_host,
    check_token,
    check_type,
    read_body,
)
from unacorda.server.service import Service
from unacorda.server.store import StoredQuestion, Token

require("starlette", extra="server")

from starlette.applications import Starlette  # noqa: E402  # after the error that names the extra
from starlette.exceptions import HTTPException  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse, Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

_PAGE: Final = 50
_SPARE_THREADS: Final = 8  # beyond the queue: what is refused needs one too
_LOOK_SECONDS: Final = 1.0  # between two looks whether a client has gone
_HEADERS: Final[Mapping[str, str]] = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

Answer = Callable[[Request, Token], Awaitable[Response]]


def make_app(service: Service) -> Starlette:
    """The application over a service, which is closed when the application ends."""
    routes = Routes(service)
    pages = Pages(service, asking=routes.asking, explaining=routes.explaining)

    async def nowhere(request: Request, error: Exception) -> Response:
        """What no route takes: a page for a browser, a problem for programs."""
        problem = _http_problem(error)
        service.note("none", problem.status)
        if pages.is_for(request):
            return pages.problem(problem)
        found = _problem_response(problem)
        found.headers.update(_HEADERS)
        return found

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(routes.close)

    app = Starlette(
        routes=[
            Route(one.path, routes.guarded(name, one, routes.answer(name)), methods=[one.method])
            for name, one in ENDPOINTS.items()
        ]
        + pages.routes(),
        exception_handlers={HTTPException: nowhere},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Routes:
    """The handlers of operations; one method per operation, of the same name."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._curation = Curation(service)
        many = service.config.queue + _SPARE_THREADS
        self.asking = ThreadPoolExecutor(many, thread_name_prefix="ask")
        self.explaining = ThreadPoolExecutor(many, thread_name_prefix="explain")

    def close(self) -> None:
        """Let running questions end, and close the service."""
        self._service.finish()
        self.asking.shutdown()
        self.explaining.shutdown()
        self._service.close()

    def answer(self, name: str) -> Answer:
        """What answers an operation."""
        found: Answer = getattr(self, name, None) or functools.partial(self._curate, name)
        return found

    def guarded(
        self, name: str, operation: Endpoint, answer: Answer
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route that first checks the host and the token, and turns problems into responses."""

        async def route(request: Request) -> Response:
            holder: Token | None = None
            try:
                check_host(request, self._service.config)
                holder = None if operation.open else await self._token_holder(request)
                _check_role(operation, holder)
                response = await answer(request, holder)  # type: ignore[arg-type]  # open ones need none
            except Exception as error:  # noqa: BLE001  # a traceback in a log could show a row
                response = _problem_response(any_problem(error))
            response.headers.update(_HEADERS)
            token = "" if holder is None else holder.id
            self._service.note(name, response.status_code, token=token)
            return response

        return route

    async def me(self, _: Request, holder: Token) -> Response:
        """Who the token is of."""
        names = await asyncio.to_thread(self._service.names, holder.analyst)
        said = {"analyst": holder.analyst, "role": holder.role, "datasets": names}
        return JSONResponse({**said, "token_ends": holder.ends})

    async def datasets(self, _: Request, holder: Token) -> Response:
        """The datasets of an analyst."""
        names = await asyncio.to_thread(self._service.names, holder.analyst)
        return JSONResponse({"datasets": names})

    async def dataset(self, request: Request, holder: Token) -> Response:
        """What is known of one before asking."""
        name = request.path_params["dataset"]
        return JSONResponse(await asyncio.to_thread(self._service.describe, name, holder.analyst))

    async def explain(self, request: Request, holder: Token) -> Response:
        """What a question would cost."""
        return await self._run_on_body(request, holder, "explain", self._service.explain)

    async def rehearse(self, request: Request, holder: Token) -> Response:
        """A question's answer on made-up rows."""
        return await self._run_on_body(request, holder, "rehearse", self._service.rehearse)

    async def suggest(self, request: Request, holder: Token) -> Response:
        """The least budget for standard errors."""
        return await self._run_on_body(request, holder, "suggest", self._service.suggest)

    async def ask(self, request: Request, holder: Token) -> Response:
        """An answer, stored before it leaves.

        A client that disconnects before its question begins withdraws it; one that disconnects
        later does not end it. With `Prefer: wait=10` the response is 202 after 10 seconds.
        """
        body = await self._body(request, "ask")
        loop, service = asyncio.get_running_loop(), self._service
        name, called = request.path_params["dataset"], _idempotency_key(request)
        begin = functools.partial(service.begin, name, holder.analyst, dict(body), request=called)
        begun = await loop.run_in_executor(self.asking, begin)
        running = loop.run_in_executor(self.asking, service.answer, begun)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen
        wait, start = _preferred_wait(request), loop.time()
        while not running.done():
            left = _LOOK_SECONDS if wait is None else wait - (loop.time() - start)
            if left <= 0:
                return _accepted_response(begun.question)
            await asyncio.wait({running}, timeout=min(left, _LOOK_SECONDS))
            gone = wait is None and not running.done() and await request.is_disconnected()
            if gone and begun.new:
                await asyncio.to_thread(service.store.withdraw, begun.question.id)
        return _release_response(running.result(), status=201 if begun.new else 200)

    async def withdraw(self, request: Request, holder: Token) -> Response:
        """Withdraw a question that has not begun."""
        name = request.path_params["id"]
        await asyncio.to_thread(self._service.withdraw, name, holder.analyst)
        return Response(status_code=204)

    async def questions(self, request: Request, holder: Token) -> Response:
        """A page of the analyst's questions."""
        name = request.path_params["dataset"]
        await asyncio.to_thread(self._service.dataset, name, holder.analyst)
        text, detail = request.query_params.get("before"), "before is the number of a question."
        before = None if text is None else whole_number(text, detail, digits=9)
        find = self._service.store.questions
        found = await asyncio.to_thread(find, holder.analyst, name, before=before, most=_PAGE)
        return JSONResponse({"questions": [_question_as_json(one.shown) for one in found]})

    async def question(self, request: Request, holder: Token) -> Response:
        """One question."""
        return JSONResponse(_question_as_json(await self._question(request, holder)))

    async def release(self, request: Request, holder: Token) -> Response:
        """The stored release of a question."""
        return _release_response(await self._answered(request, holder), status=200)

    release_json = release

    async def release_csv(self, request: Request, holder: Token) -> Response:
        """The rows of a stored release."""
        question = await self._answered(request, holder)
        assert question.release is not None
        wanted = request.query_params.get("spreadsheet", "false")
        if wanted not in ("true", "false"):
            raise Problem("refused", "spreadsheet is true or false.")
        rows = await asyncio.to_thread(answer_csv, question.release, spreadsheet=wanted == "true")
        return Response(rows, media_type="text/csv; charset=utf-8")

    async def verify(self, request: Request, holder: Token) -> Response:
        """What comes out of a release again."""
        check_type(request, "application/json")
        whole = await read_body(request, most=MOST_RECORD)
        try:
            text = whole.decode()
        except UnicodeDecodeError:
            raise Problem("not-json", "The body must be a release as JSON in UTF-8.") from None
        loop = asyncio.get_running_loop()
        said = await loop.run_in_executor(
            self.explaining, self._service.verify, holder.analyst, text
        )
        return JSONResponse(said)

    async def openapi(self, _: Request, __: Token) -> Response:
        """The OpenAPI document."""
        return JSONResponse(openapi_document(self._service.config.public_url))

    async def _curate(self, name: str, request: Request, holder: Token) -> Response:
        """An operation of curators."""
        one = ENDPOINTS[name]
        given = {} if not one.fields else dict(await self._body(request, name))
        asked = {field.name for field in one.query}
        given |= {key: text for key, text in request.query_params.items() if key in asked}
        curator = Curator(name=holder.analyst, token=holder.id, address=address_of(request))
        operate = getattr(self._curation, name)
        said = await asyncio.to_thread(operate, curator, **request.path_params, **given)
        return JSONResponse(said, status_code=201 if one.makes else 200)

    async def _run_on_body(
        self, request: Request, holder: Token, name: str, answer: Callable[..., Any]
    ) -> Response:
        body = await self._body(request, name)
        loop = asyncio.get_running_loop()
        given = request.path_params["dataset"], holder.analyst, body
        return JSONResponse(await loop.run_in_executor(self.explaining, answer, *given))

    async def _question(self, request: Request, holder: Token) -> StoredQuestion:
        """The question of the address; one that is not theirs is answered as one that is none."""
        name = request.path_params["id"]
        return await asyncio.to_thread(self._service.visible, name, holder.analyst)

    async def _answered(self, request: Request, holder: Token) -> StoredQuestion:
        """The question of the address, if it has a release."""
        question = await self._question(request, holder)
        if question.release is None:
            raise Problem("not-found", "There is no such release, or it is not yours.")
        return question

    async def _token_holder(self, request: Request) -> Token:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        given = text if scheme.lower() == "bearer" else None
        said = "Send Authorization: Bearer with a token that has not ended."
        service = self._service
        return await check_token(request, service.store, given, said, issuer=service.issuer)

    async def _body(self, request: Request, name: str) -> Mapping[str, Any]:
        """The body of an operation, checked; its numbers are decimals."""
        fields = ENDPOINTS[name].fields
        assert fields is not None
        check_type(request, "application/json")
        whole = await read_body(request)
        try:
            return check_body(parse_json(whole.decode()), fields)
        except (UnicodeDecodeError, InvalidParameter):
            detail = "The body must be JSON in UTF-8: finite numbers, each name once, 32 levels."
            raise Problem("not-json", detail) from None


def _check_role(operation: Endpoint, holder: Token | None) -> None:
    if operation.curator and (holder is None or holder.role != "curator"):
        raise Problem("not-allowed", "Only curators may do this.")


def _release_response(question: StoredQuestion, *, status: int) -> Response:
    assert question.release is not None
    headers = {"Location": f"/v1/releases/{question.id}"}
    return Response(
        question.release, status_code=status, headers=headers, media_type="application/json"
    )


def _accepted_response(question: StoredQuestion) -> Response:
    """The question goes on; its address tells how it ended."""
    location = f"/v1/questions/{question.id}"
    said = {"id": question.id, "state": "running", "question": location}
    return JSONResponse(said, status_code=202, headers={"Location": location, "Retry-After": "1"})


def _preferred_wait(request: Request) -> float | None:
    """The seconds of `Prefer: wait=N`; None where none are stated, or not so."""
    for part in request.headers.get("prefer", "").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isascii() and value.isdecimal() and len(value) < 6:
            return float(value)
    return None


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 200 and key.isascii() and key.isprintable()):
        raise Problem("refused", "Idempotency-Key has 1 to 200 printable characters of ASCII.")
    return key


def _question_as_json(question: StoredQuestion) -> dict[str, Any]:
    """A question as its analyst sees it."""
    return {
        "id": question.id,
        "number": question.number,
        "dataset": question.dataset,
        "asked": json.loads(question.asked),
        "purpose": question.purpose,
        "state": question.state,
        "made": question.made,
        "cost": question.cost,
        "problem": None if question.problem is None else json.loads(question.problem),
        "release": None if question.release is None else f"/v1/releases/{question.id}",
    }


def _problem_response(problem: Problem) -> Response:
    found = JSONResponse(problem.to_dict(), status_code=problem.status, media_type=MEDIA_TYPE)
    if problem.kind == "no-token":
        found.headers["WWW-Authenticate"] = "Bearer"
    if problem.status in (429, 503):
        found.headers["Retry-After"] = "60" if problem.kind == "too-many" else "10"
    return found


def _http_problem(error: Exception) -> Problem:
    status = getattr(error, "status_code", 404)
    kind = "not-a-method" if status == 405 else "not-found"
    return Problem(kind, "There is no such address, or it is not yours.")
