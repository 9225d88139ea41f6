"""A client for a dataset behind a server, with the interface of a session.

It uses only the standard library. Questions are built without the dataset's schema and sent as
JSON. The server checks them before anything is spent.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias
from urllib.parse import quote

from unacorda import checks
from unacorda.checks import Number, demand
from unacorda.errors import ServerRefused
from unacorda.extras import require
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_json,
)
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.expressions.language import Written, expression_text, written
from unacorda.query.noise.selection import GivenKeys, PrivateKeys
from unacorda.query.plan.codec import encode, function_as_json, private_as_json
from unacorda.query.plan.person_values import PersonValue
from unacorda.query.plan.questions import parse_json
from unacorda.server.opener import OPENER, is_safe_address
from unacorda.settings import numbers_of

if TYPE_CHECKING:
    import pandas

_MOST_BYTES: Final = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteQuery:
    """A question about a table behind a server, built as those of `Session.table` are.

    Each step returns a new question.

    Attributes
    ----------
    stated
        The question in the form of docs/questions.md, which is sent to the server.

    Examples
    --------
    >>> import unacorda
    >>> clinic = unacorda.Remote("https://ask.example", token="unacorda_...")  # doctest: +SKIP
    >>> adults = clinic.table("visits").where("age >= 18").agg(n=unacorda.count())  # doctest: +SKIP
    >>> adults.stated  # doctest: +SKIP
    {'table': 'visits', 'steps': [{'where': 'age >= 18'}], 'aggregates': {'n': {'count': {}}}}
    """

    stated: Mapping[str, Any]

    def where(self, condition: Written) -> RemoteQuery:
        """Keep the rows for which a row-wise condition is true.

        Parameters
        ----------
        condition
            SQL text, or an expression of `unacorda.col`.

        Returns
        -------
        RemoteQuery
            The question about these rows only.
        """
        return self._with({"where": expression_text(condition)})

    def derive(self, /, **columns: Written) -> RemoteQuery:
        """Add columns made by row-wise expressions.

        Parameters
        ----------
        **columns
            The expression of each new name: SQL text, or an expression of `unacorda.col`.

        Returns
        -------
        RemoteQuery
            The question with these columns.
        """
        texts = {name: expression_text(text) for name, text in columns.items()}
        return self._with({"derive": texts})

    def explode(self, column: Written, **more: Any) -> RemoteQuery:
        """Turn every row into one for each part of a text.

        Parameters
        ----------
        column
            A column or expression of text.
        **more
            `separator`, `most` and `into`, as of `Query.explode`.

        Returns
        -------
        RemoteQuery
            The question about the new rows.
        """
        return self._with({"explode": written(column), **more})

    def join(self, other: str | RemoteQuery, on: Any = None, **more: Any) -> RemoteQuery:
        """Join columns of another table.

        Parameters
        ----------
        other
            The name of a public table, or a question begun with `Remote.table`.
        on
            The columns to compare, as of `Query.join`.
        **more
            `how`, `columns` and `max_rows`, as of `Query.join`.

        Returns
        -------
        RemoteQuery
            The question about the joined rows.
        """
        beside = other.stated if isinstance(other, RemoteQuery) else other
        joined = {"join": beside, **({} if on is None else {"on": on}), **more}
        return self._with(joined)

    def union(self, other: RemoteQuery) -> RemoteQuery:
        """Append the rows of another question.

        Parameters
        ----------
        other
            A question begun with `Remote.table`.

        Returns
        -------
        RemoteQuery
            The question about all rows.
        """
        return self._with({"union": other.stated})

    def per_person(self, /, **values: PersonValue) -> RemoteQuery:
        """Aggregate to one row per person, with values over all of their rows.

        Parameters
        ----------
        **values
            For each new name a value made by `min_`, `max_`, `sum_`, `mean_` or another, as of
            `Query.per_person`.

        Returns
        -------
        RemoteQuery
            The question about people.
        """
        return self._with({"per_person": {n: function_as_json(one) for n, one in values.items()}})

    def group_by(self, *columns: str, keys: GivenKeys = None, **more: Any) -> RemoteQuery:
        """Group the answers by keys.

        Parameters
        ----------
        *columns
            Columns or expressions, each an argument.
        keys
            The keys, as of `Query.group_by`: lists, or `unacorda.private_keys()`.
        **more
            `margins` and `level_weights`, as of `Query.group_by`.

        Returns
        -------
        RemoteQuery
            The question by groups.

        Raises
        ------
        InvalidParameter
            For keys of another type.
        """
        found = {"group_by": list(columns), **{name: encode(one) for name, one in more.items()}}
        if keys is not None:
            found["keys"] = _keys(keys)
        return RemoteQuery(stated={**self.stated, **found})

    def agg(self, /, **aggregates: Aggregate) -> RemoteQuery:
        """Choose the aggregates to answer, by their column names in the release.

        Parameters
        ----------
        **aggregates
            An aggregate for each name: `unacorda.count()`, `sum()`, `mean()` or another.

        Returns
        -------
        RemoteQuery
            The question, ready for `Remote.explain` and `Remote.evaluate`.

        Raises
        ------
        InvalidParameter
            For a value that is no aggregate.
        """
        for name, one in aggregates.items():
            expected = "what unacorda.count(), sum(), mean() or another makes"
            demand(isinstance(one, Aggregate), name, one, expected=expected)
        made = {name: function_as_json(one) for name, one in aggregates.items()}
        return RemoteQuery(stated={**self.stated, "aggregates": made})

    def _with(self, step: Mapping[str, Any]) -> RemoteQuery:
        steps = [*self.stated.get("steps", ()), step]
        return RemoteQuery(stated={**self.stated, "steps": steps})


RemoteQuestions: TypeAlias = RemoteQuery | str | Mapping[str, RemoteQuery | str]
"""A question, a SELECT, or several of these by name, which are asked together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteRelease:
    """A release, or several, as a server returned it.

    Attributes
    ----------
    text
        The record in JSON. `unacorda verify` and `Release.verify` read it.
    again
        Whether it was released before, and cost nothing now.
    made_up
        Whether it is about made-up rows, as those of `Remote.rehearse` are.

    Examples
    --------
    >>> import unacorda
    >>> clinic = unacorda.Remote("https://ask.example", token="unacorda_...")  # doctest: +SKIP
    >>> adults = clinic.table("visits").where("age >= 18").agg(n=unacorda.count())  # doctest: +SKIP
    >>> release = clinic.evaluate(adults, budget=unacorda.PureDP("0.1"))  # doctest: +SKIP
    >>> release.rows[0]["n"], release.charge  # doctest: +SKIP
    (1204, PureDP(epsilon=0.1))
    """

    text: str
    again: bool
    made_up: bool = False

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, as dictionaries with the answers, their errors and their intervals."""
        stated = json.loads(self.text)
        expected = "one of `releases`: several questions were asked together"
        demand("rows" in stated, "rows", "...", expected=expected)
        found: list[dict[str, Any]] = stated["rows"]
        return found

    @property
    def releases(self) -> dict[str, RemoteRelease]:
        """By name, the releases of questions that were evaluated together."""
        several = json.loads(self.text).get("releases", {})
        return {
            name: RemoteRelease(text=json.dumps(one), again=self.again, made_up=self.made_up)
            for name, one in several.items()
        }

    @property
    def charge(self) -> Guarantee:
        """The cost of the release when it was made."""
        exact = json.loads(self.text)["exact"]
        return _guarantee(exact.get("charge") or exact["spent"])

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas data frame (extra `frames`).

        Returns
        -------
        pandas.DataFrame
            One row for each row of the release.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        frame: pandas.DataFrame = require("pandas", extra="frames").DataFrame(self.rows)
        return frame

    def __repr__(self) -> str:
        several = self.releases
        held = f"{len(several)} releases" if several else f"{len(self.rows)} rows"
        return f"RemoteRelease({held}, {self.charge})"


class Remote:
    """A dataset behind `unacorda serve`, with the interface of a session.

    Parameters
    ----------
    url
        The server's address; https, except on this machine.
    token
        Made by ``unacorda server token add``.
    dataset
        Its name; may be omitted if there is only one.
    timeout
        Seconds to wait for a response.

    Raises
    ------
    InvalidParameter
        For an address that would send the token unencrypted, and for an unknown dataset.
    ServerRefused
        If the server refuses, with its message.

    Examples
    --------
    >>> import unacorda
    >>> clinic = unacorda.Remote("https://ask.example", token="unacorda_...")  # doctest: +SKIP
    >>> adults = clinic.table("visits").where("age >= 18").agg(n=unacorda.count())  # doctest: +SKIP
    >>> clinic.evaluate(adults, budget=unacorda.ZCDP(0.01)).to_pandas()  # doctest: +SKIP
    """

    def __init__(
        self, url: str, *, token: str, dataset: str | None = None, timeout: float = 600
    ) -> None:
        demand(is_safe_address(url), "url", url, expected="https://..., or http on this machine")
        fits = checks.is_text(token) and token.isprintable() and " " not in token
        demand(fits, "token", "...", expected="a token as `unacorda server token add` prints it")
        self._url, self._token = url.rstrip("/"), token
        self._timeout = checks.positive(timeout=timeout)
        names = self._sent("/v1/datasets")["datasets"]
        expected = f"one of {', '.join(names)}"
        demand(
            dataset in names or (dataset is None and names), "dataset", dataset, expected=expected
        )
        demand(dataset is not None or len(names) == 1, "dataset", dataset, expected=expected)
        self.dataset: str = dataset or names[0]
        self._path = f"/v1/datasets/{quote(self.dataset, safe='')}"

    @property
    def tables(self) -> dict[str, Any]:
        """The types and public facts, by table and column."""
        found: dict[str, Any] = self._sent(self._path)["tables"]
        return found

    @property
    def remaining(self) -> Guarantee:
        """The rest of your limit; the dataset may have less left."""
        return _guarantee(self._sent(self._path)["left"])

    def table(self, name: str) -> RemoteQuery:
        """Begin a question about one table.

        Parameters
        ----------
        name
            One of `tables`.
        """
        return RemoteQuery(stated={"table": name})

    def read_json(self, question: str | Mapping[str, Any]) -> RemoteQuery:
        """Read a question from JSON; the server checks it later.

        Parameters
        ----------
        question
            The text, or its parsed object, as for `Session.read_json`.
        """
        stated = parse_json(question) if isinstance(question, str) else question
        plain: Any = stated
        demand(isinstance(plain, Mapping), "question", "...", expected="an object of JSON")
        return RemoteQuery(stated=dict(stated))

    def explain(self, query: RemoteQuestions, *, budget: Guarantee) -> dict[str, Any]:
        """Forecast the cost and the errors of a question, in plain values; free.

        Parameters
        ----------
        query
            A question begun with `table`, or a SELECT; or several by name, for one price.
        budget
            A PureDP, ApproxDP, ZCDP or GDP.

        Raises
        ------
        ServerRefused
            With the server's words.
        """
        return self._sent(f"{self._path}/explain", _asked(query) | {"budget": _numbers(budget)})

    def suggest_budget(
        self, query: RemoteQuery | str, *, error: Number | Mapping[str, Number]
    ) -> Guarantee:
        """Compute the least budget that reaches these standard errors; free.

        Parameters
        ----------
        query
            A question begun with `table`, or a SELECT.
        error
            The target standard error, in the units of the answers: one number, or one by aggregate.

        Raises
        ------
        ServerRefused
            With the server's words.
        """
        wanted: Any = str(error)
        if isinstance(error, Mapping):
            wanted = {name: str(one) for name, one in error.items()}
        found = self._sent(f"{self._path}/suggest", _asked(query) | {"error": wanted})
        return _guarantee(found["budget"])

    def evaluate(
        self,
        query: RemoteQuestions,
        *,
        budget: Guarantee,
        purpose: str | None = None,
        fresh: bool = False,
    ) -> RemoteRelease:
        """Answer a question and pay for it; the answer to an equal earlier question is free.

        Parameters
        ----------
        query
            A question begun with `table`, or a SELECT; or several by name, for one price.
        budget
            A PureDP, ApproxDP, ZCDP or GDP: the most that the answer may cost.
        purpose
            A text that is noted in the ledger.
        fresh
            Pay again for fresh noise.

        Returns
        -------
        RemoteRelease
            The answer.

        Raises
        ------
        ServerRefused
            With the server's words.
        """
        body = _asked(query) | {"budget": _numbers(budget), "fresh": fresh}
        body |= {} if purpose is None else {"purpose": purpose}
        text, status = self._received(f"{self._path}/ask", body)
        return RemoteRelease(text=text, again=status == http.HTTPStatus.OK)

    def rehearse(self, query: RemoteQuestions, *, budget: Guarantee) -> RemoteRelease:
        """Answer a question on made-up rows, to see the form of the release; free, without data.

        Parameters
        ----------
        query, budget
            As for `evaluate`.

        Raises
        ------
        ServerRefused
            With the server's words.
        """
        body = _asked(query) | {"budget": _numbers(budget)}
        found = self._sent(f"{self._path}/try", body)
        return RemoteRelease(text=json.dumps(found["release"]), again=False, made_up=True)

    def verify(self, record: RemoteRelease | str) -> dict[str, Any]:
        """Let the server check a release, as far as possible without the data; free.

        Parameters
        ----------
        record
            A release, or its text.

        Returns
        -------
        dict
            `holds`; `checks`, each with its outcome; and `stored`, your question that has exactly
            this release, or None.

        Raises
        ------
        ServerRefused
            For text that is not a release.
        """
        text = record.text if isinstance(record, RemoteRelease) else record
        demand(isinstance(text, str), "record", "...", expected="a release, or its text")
        found: dict[str, Any] = json.loads(self._received("/v1/verify", text)[0])
        return found

    def sql(self, text: str, *, budget: Guarantee) -> RemoteRelease:
        """Answer a SELECT.

        Parameters
        ----------
        text
            The SELECT.
        budget
            As for `evaluate`.

        Raises
        ------
        ServerRefused
            With the server's words.
        """
        return self.evaluate(text, budget=budget)

    def __repr__(self) -> str:
        return f"Remote({self._url!r}, {self.dataset!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A remote session holds a token: it cannot be pickled or copied.")

    def _sent(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._received(path, body)[0])
        return found

    def _received(self, path: str, body: Mapping[str, Any] | str | None) -> tuple[str, int]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        text = body if isinstance(body, str | None) else json.dumps(body, default=str)
        data = None if text is None else text.encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, headers=headers)  # noqa: S310  # checked above
        try:
            with OPENER.open(request, timeout=self._timeout) as response:
                return response.read(_MOST_BYTES).decode(), response.status
        except urllib.error.HTTPError as refused:
            raise _refusal(refused) from None
        except (OSError, http.client.HTTPException, ValueError) as failed:
            reason = f"{self._url} cannot be asked: {type(failed).__name__}"
            raise ServerRefused(reason, kind="unreachable", status=0) from None


def _refusal(refused: urllib.error.HTTPError) -> ServerRefused:
    try:
        said = json.loads(refused.read(1 << 20))
        kind, detail = str(said["type"]).rpartition(":")[2], str(said["detail"])
        pointer = str(said.get("pointer", ""))
    except (ValueError, TypeError, LookupError, OSError):
        kind, detail, pointer = "failed", f"The server answered {refused.code}.", ""
    return ServerRefused(detail, kind=kind, status=refused.code, pointer=pointer)


def _asked(query: RemoteQuery | str | Mapping[str, RemoteQuery | str]) -> dict[str, Any]:
    if isinstance(query, str):
        return {"sql": query}
    if isinstance(query, Mapping):
        each = {name: _asked(one) for name, one in query.items()}
        return {"questions": {name: next(iter(one.values())) for name, one in each.items()}}
    expected = "a SELECT, a question begun with table(...), or a mapping of such by name"
    demand(isinstance(query, RemoteQuery), "query", query, expected=expected)
    return {"question": query.stated}


def _numbers(budget: Guarantee) -> dict[str, str]:
    """A budget by the names of its numbers."""
    expected = "unacorda.PureDP, ApproxDP, ZCDP or GDP"
    demand(isinstance(budget, PureDP | ApproxDP | ZCDP | GDP), "budget", budget, expected=expected)
    return numbers_of(budget)


def _guarantee(stated: Mapping[str, Any]) -> Guarantee:
    return guarantee_from_json(json.dumps(stated))


def _keys(given: Any) -> Any:
    """Keys as a question in JSON has them."""
    if isinstance(given, PrivateKeys):
        return {"private_keys": private_as_json(given)}
    if isinstance(given, Mapping):
        return {name: _keys(one) for name, one in given.items()}
    listed = isinstance(given, Sequence | range) and not isinstance(given, str)
    demand(listed, "keys", given, expected="a list, a mapping of lists or unacorda.private_keys()")
    return encode(list(given))
