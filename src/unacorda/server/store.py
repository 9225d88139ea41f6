"""The store of a server: tokens, questions and their stored releases.

All processes of a server share it, in SQLite or PostgreSQL. A running or answered question is found
by its key. A unique index makes two equal questions one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import sqlalchemy
from sqlalchemy import Column, Float, Index, Integer, MetaData, String, Table, select

from unacorda.errors import InvalidParameter, LedgerMismatch

Line = TypeVar("Line")
State: TypeAlias = Literal["waiting", "running", "answered", "refused", "failed", "lost"]

_FILE_POOL: Final = {"pool_size": 10, "max_overflow": 100}
_SERVER_POOL: Final = {"pool_size": 5, "max_overflow": 5}  # a PostgreSQL server takes 100 in all
SILENT_SECONDS: Final = 60.0
"""After so long without a sign of its process a running question is lost."""

SCHEMA_VERSION: Final = 3
"""Of the tables; a store of another version is migrated if it is older, and refused if newer."""
_MIGRATIONS: Final = {
    1: ("ALTER TABLE unacorda_sign_ins ADD COLUMN holder TEXT",),
    2: ("ALTER TABLE unacorda_questions ADD COLUMN clamped TEXT",),
}
"""By version the statements that make the next one of it."""
_OPENING: Final = 0x756E61636F726461  # of the lock under which PostgreSQL's tables are made


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A stored token, with the hash of its secret. Times are seconds since 1970."""

    id: str
    hash: str
    analyst: str
    role: str
    note: str
    made: float
    ends: float
    used: float | None
    revoked: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in of a browser, with the hash of its cookie.

    token: the id of the token. holder: the person signed in by an issuer, as JSON; None if the
    store has the token.
    """

    hash: str
    token: str
    made: float
    used: float
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuestion:
    """A question that was asked.

    release: the stored bytes; clamped: JSON of its rows by question, with clamped values, if these
    differ; problem: of a refusal, JSON text; due: when any of them may be seen; until then the
    question appears to run; request: the client's name for it.
    """

    id: str
    number: int
    key: str
    analyst: str
    dataset: str
    purpose: str | None
    asked: str
    state: State
    made: float
    beat: float
    owner: str
    release: str | None
    cost: str | None
    problem: str | None
    due: float | None = None
    request: str | None = None
    clamped: str | None = None

    @property
    def shown(self) -> StoredQuestion:
        """The question as it may be seen now."""
        if self.due is None or self.due <= time.time():
            return self
        return replace(self, state="running", release=None, cost=None, problem=None, clamped=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act of a curator, an entry in an append-only hash chain.

    by: the curator. token, address: of the request; empty on the command line. what: such as
    "limit". about: its object, with the new value. previous, digest: hashes of the act before and
    of this one.
    """

    sequence: int
    time: float
    by: str
    token: str
    address: str
    what: str
    dataset: str
    about: str
    previous: str
    digest: str

    @property
    def expected_digest(self) -> str:
        """The digest that its other fields have."""
        stated = [getattr(self, name) for name in self.__dataclass_fields__ if name != "digest"]
        return hashlib.sha256(json.dumps(stated).encode()).hexdigest()


_metadata = MetaData()
_KINDS: Final[Mapping[str, Any]] = {"float": Float, "int": Integer}


def _table(name: str, kind: type, key: str) -> Table:
    """The table whose lines are values of a dataclass."""
    columns = []
    for field in fields(kind):
        stated, _, none = str(field.type).partition(" | ")
        typed, own = _KINDS.get(stated, String), field.name == key
        column = Column(
            field.name, typed, nullable=bool(none), primary_key=own, autoincrement=False
        )
        columns.append(column)
    return Table(name, _metadata, *columns)


_tokens = _table("unacorda_tokens", Token, "id")
_questions = _table("unacorda_questions", StoredQuestion, "id")
_acts = _table("unacorda_acts", Act, "sequence")
_sign_ins = _table("unacorda_sign_ins", SignIn, "hash")
_unfinished = _questions.c.state.in_(["waiting", "running"])
_found = _questions.c.state.in_(["waiting", "running", "answered"])
Index(
    "unacorda_questions_found",
    _questions.c.key,
    unique=True,
    sqlite_where=_found,
    postgresql_where=_found,
)
Index("unacorda_questions_of", _questions.c.analyst, _questions.c.number, unique=True)
_stops = Table(
    "unacorda_stops",
    _metadata,
    Column("dataset", String, primary_key=True),
    Column("analyst", String, primary_key=True),
    Column("since", Float, nullable=False),
)
_seen = Table(
    "unacorda_seen",
    _metadata,
    Column("dataset", String, primary_key=True),
    Column("sequence", Integer, nullable=False),
    Column("digest", String, nullable=False),
)
_versions = Table("unacorda_store", _metadata, Column("version", Integer, nullable=False))
Index("unacorda_questions_state", _questions.c.state)
Index("unacorda_questions_due", _questions.c.due)
Index("unacorda_questions_request", _questions.c.request)
_failures = Table(
    "unacorda_failures",
    _metadata,
    Column("address", String, primary_key=True),
    Column("minute", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)


NO_TOKEN: Final = Token(
    id="",
    hash=hashlib.sha256(b"").hexdigest(),
    analyst="",
    role="analyst",
    note="",
    made=0.0,
    ends=0.0,
    used=None,
    revoked=None,
)
"""What stands where there is no token; it has ended."""
_TOKEN_FIELDS: Final = tuple(column.name for column in _tokens.c)


def _token_or_none() -> Any:
    """A statement that gives one line in any case."""
    stated = [sqlalchemy.literal(getattr(NO_TOKEN, one.name), one.type) for one in _tokens.c]
    known = select(sqlalchemy.literal(0).label("place"), *_tokens.c)
    named = known.where(_tokens.c.id == sqlalchemy.bindparam("name"))
    other = select(sqlalchemy.literal(1), *stated)
    return named.union_all(other).order_by("place").limit(1)


def _newest(*which: Any, most: int = 1) -> Any:
    """A statement that finds questions, the newest first."""
    found = select(_questions).where(*which)
    return found.order_by(_questions.c.number.desc()).limit(most)


# Statements of every request are made once.
_TOKEN_OR_NONE: Final = _token_or_none()
_QUESTION: Final = select(_questions).where(_questions.c.id == sqlalchemy.bindparam("name"))
_FOUND: Final = _newest(
    _questions.c.key == sqlalchemy.bindparam("name"),
    _found | (_questions.c.due > sqlalchemy.bindparam("now", type_=Float)),
)
_FAILED: Final = select(_failures.c.count).where(
    _failures.c.address == sqlalchemy.bindparam("address"),
    _failures.c.minute == sqlalchemy.bindparam("minute"),
)


class AnswerStore:
    """Tokens and questions. Safe to use from several threads and processes."""

    def __init__(self, address: str) -> None:
        self._engine = _engine(address)
        self._reading = self._engine.execution_options(reading=True)
        # SQLite has one writer at a time, and those that find it taken sleep, each longer.
        sqlite = self._engine.dialect.name == "sqlite"
        self._turn: Any = threading.Lock() if sqlite else contextlib.nullcontext()
        self.owner = secrets.token_hex(8)
        self._prepare()
        if sqlite:
            Path(str(self._engine.url.database)).chmod(stat.S_IRUSR | stat.S_IWUSR)

    def add_token(self, token: Token) -> None:
        """Keep a new token."""
        self._change(_tokens.insert().values(**asdict(token)))

    def token(self, name: str) -> Token | None:
        """The token of an id."""
        return self._first(Token, select(_tokens).where(_tokens.c.id == name))

    def token_or_none(self, name: str) -> Token:
        """The token of an id, or `NO_TOKEN`, in the same time."""
        with self._reading.begin() as connection:
            row = connection.execute(_TOKEN_OR_NONE, {"name": name}).one()
        return Token(**dict(zip(_TOKEN_FIELDS, row[1:], strict=True)))

    def tokens(self) -> list[Token]:
        """All tokens, oldest first."""
        return self._all(Token, select(_tokens).order_by(_tokens.c.made))

    def use_token(self, name: str) -> None:
        """Note that a token was used, to the minute."""
        now = time.time()
        used = (_tokens.c.used.is_(None)) | (_tokens.c.used < now - 60)
        self._change(_tokens.update().where(_tokens.c.id == name, used).values(used=now))

    def revoke_token(self, name: str) -> bool:
        """Revoke a token; return whether it was active."""
        active = _tokens.update().where(_tokens.c.id == name, _tokens.c.revoked.is_(None))
        return self._change(active.values(revoked=time.time()))

    def add_act(self, **stated: str) -> Act:
        """Append an act. stated: its by, token, address, what, dataset and about."""
        for _ in range(10):
            with (
                contextlib.suppress(sqlalchemy.exc.IntegrityError),  # another process was faster
                self._write() as connection,
            ):
                newest = select(_acts).order_by(_acts.c.sequence.desc()).limit(1)
                last = connection.execute(newest).one_or_none()
                begun = Act(
                    sequence=1 if last is None else last.sequence + 1,
                    time=time.time(),
                    previous="" if last is None else last.digest,
                    digest="",
                    **stated,
                )
                act = replace(begun, digest=begun.expected_digest)
                connection.execute(_acts.insert().values(**asdict(act)))
                return act
        raise InvalidParameter(
            "act", "...", expected="another attempt: others write to it at the moment"
        )

    def acts(self, *, after: int = 0, most: int = 50) -> list[Act]:
        """A page of acts, oldest first."""
        page = select(_acts).where(_acts.c.sequence > after).order_by(_acts.c.sequence)
        return self._all(Act, page.limit(most))

    def verify_acts(self) -> int:
        """Verify the hash chain and return the number of acts; LedgerMismatch otherwise."""
        count, previous = 0, ""
        while page := self.acts(after=count, most=1_000):
            for act in page:
                chains = act.sequence == count + 1 and act.previous == previous
                if not chains or act.digest != act.expected_digest:
                    raise LedgerMismatch(f"Act {count + 1} of the store was changed or is gone.")
                count, previous = act.sequence, act.digest
        return count

    def stop(self, dataset: str, analyst: str = "", *, at: float | None = None) -> bool:
        """Stop questions of all or of an analyst; return whether they were taken before.

        at: from then on; None for now.
        """
        since = time.time() if at is None else at
        return self._add(_stops, dataset=dataset, analyst=analyst, since=since)

    def start(self, dataset: str, analyst: str = "") -> bool:
        """Take questions again; return whether they were stopped."""
        here = (_stops.c.dataset == dataset, _stops.c.analyst == analyst)
        return self._change(_stops.delete().where(*here))

    def stopped(self, dataset: str, analyst: str | None = None) -> set[str]:
        """The analysts whose questions are stopped, "" for all; analyst: only this one and all."""
        which = [_stops.c.dataset == dataset, _stops.c.since <= time.time()]
        which += [] if analyst is None else [_stops.c.analyst.in_(["", analyst])]
        with self._reading.begin() as connection:
            return set(connection.execute(select(_stops.c.analyst).where(*which)).scalars())

    def watch(self, dataset: str) -> None:
        """Begin to remember the newest entry of a dataset's ledger."""
        self._add(_seen, dataset=dataset, sequence=0, digest="")

    def seen(self, dataset: str) -> tuple[int, str] | None:
        """Sequence and digest of the newest entry that was seen, or None."""
        with self._reading.begin() as connection:
            which = (_seen.c.dataset == dataset, _seen.c.sequence > 0)
            row = connection.execute(select(_seen).where(*which)).one_or_none()
        return None if row is None else (row.sequence, row.digest)

    def failed(self, address: str, *, add: int = 0) -> int:
        """How many wrong tokens an address has tried this minute, including the added ones."""
        minute = int(time.time() // 60)
        if not add:
            with self._reading.begin() as connection:
                given = {"address": address, "minute": minute}
                return int(connection.execute(_FAILED, given).scalar() or 0)
        here = (_failures.c.address == address, _failures.c.minute == minute)
        with self._write() as connection:
            before = connection.execute(select(_failures.c.count).where(*here)).scalar() or 0
            if before:
                connection.execute(_failures.update().where(*here).values(count=before + add))
            else:
                connection.execute(_failures.delete().where(_failures.c.minute < minute))
                with contextlib.suppress(sqlalchemy.exc.IntegrityError):
                    fields = {"address": address, "minute": minute, "count": add}
                    connection.execute(_failures.insert().values(**fields))
        return before + add

    def add_sign_in(self, new: SignIn, *, before: float) -> None:
        """Keep a sign-in, and forget those that were made before a time."""
        with self._write() as connection:
            connection.execute(_sign_ins.delete().where(_sign_ins.c.made < before))
            connection.execute(_sign_ins.insert().values(**asdict(new)))

    def sign_in(self, hashed: str) -> SignIn | None:
        """The sign-in of a cookie's hash."""
        return self._first(SignIn, select(_sign_ins).where(_sign_ins.c.hash == hashed))

    def use_sign_in(self, hashed: str) -> None:
        """Note that a sign-in is used now, to the minute."""
        now = time.time()
        stale = (_sign_ins.c.hash == hashed, _sign_ins.c.used < now - 60)
        self._change(_sign_ins.update().where(*stale).values(used=now))

    def end_sign_in(self, hashed: str) -> None:
        """Forget a sign-in."""
        self._change(_sign_ins.delete().where(_sign_ins.c.hash == hashed))

    def begin(
        self, *, key: str, waits: bool = False, **stated: str | None
    ) -> tuple[StoredQuestion, bool]:
        """Find the running or answered question of a key, or begin a new one; say which.

        waits: whether a new one waits for its turn, and costs nothing if this process ends now.
        stated: its analyst, dataset, purpose, asked and request. A question whose process was
        silent for a minute is lost: its cost stays spent, and it is answered anew.
        """
        return self._found_or_new(key=key, state="waiting" if waits else "running", **stated)

    def share(
        self, question: StoredQuestion, *, analyst: str, purpose: str | None, asked: str
    ) -> StoredQuestion:
        """Record that another analyst gets the answer to an answered question for free."""
        found, _ = self._found_or_new(
            key=f"{question.id} {analyst}",
            analyst=analyst,
            dataset=question.dataset,
            purpose=purpose,
            asked=asked,
            state="answered",
            release=question.release,
            clamped=question.clamped,
        )
        return found

    def _found_or_new(self, *, key: str, **fields: Any) -> tuple[StoredQuestion, bool]:
        now = time.time()
        for _ in range(10):
            known = self.found(key)
            silent = known is not None and known.beat < now - SILENT_SECONDS
            if silent and known is not None and known.state != "answered":
                self.lose(before=now - SILENT_SECONDS)
                known = self.found(key)
            if known is not None:
                return known, False
            with contextlib.suppress(sqlalchemy.exc.IntegrityError):  # somebody was faster
                return self._insert(now, key=key, **fields), True
        raise InvalidParameter(
            "question", "...", expected="another attempt: others ask the same at the moment"
        )

    def _insert(self, now: float, **fields: Any) -> StoredQuestion:
        """A new question, the next one of its analyst."""
        made = {"id": secrets.token_hex(16), "made": now, "beat": now, "owner": self.owner}
        nothing = dict.fromkeys(
            ("purpose", "release", "cost", "problem", "due", "request", "clamped")
        )
        with self._write() as connection:
            own = _questions.c.analyst == fields["analyst"]  # others' questions are not counted
            newest = select(sqlalchemy.func.max(_questions.c.number)).where(own)
            number = (connection.execute(newest).scalar() or 0) + 1
            whole = {**nothing, **made, **fields, "number": number}
            connection.execute(_questions.insert().values(**whole))
        return StoredQuestion(**whole)

    def release_of(self, analyst: str, text: str) -> StoredQuestion | None:
        """An analyst's question whose stored release has exactly this text."""
        own = (_questions.c.analyst == analyst, _questions.c.release == text)
        return self._first(StoredQuestion, _newest(*own))

    def requested(self, analyst: str, request: str) -> StoredQuestion | None:
        """The question with this name by an analyst's client."""
        own = (_questions.c.analyst == analyst, _questions.c.request == request)
        return self._first(StoredQuestion, _newest(*own))

    def wait(self, name: str) -> None:
        """Note that a question is not taken yet."""
        self._change(_questions.update().where(_questions.c.id == name).values(state="waiting"))

    def take(self, name: str) -> bool:
        """Note that a waiting question runs; return whether it was not withdrawn."""
        waiting = (_questions.c.id == name, _questions.c.state == "waiting")
        return self._change(_questions.update().where(*waiting).values(state="running"))

    def withdraw(self, name: str) -> bool:
        """Remove a question that has not begun; return whether there was one."""
        waiting = (_questions.c.id == name, _questions.c.state == "waiting")
        return self._change(_questions.delete().where(*waiting))

    def found(self, key: str) -> StoredQuestion | None:
        """The question of this key that is answered or appears to run."""
        return self._first(StoredQuestion, _FOUND, name=key, now=time.time())

    def keep(
        self,
        name: str,
        release: str,
        cost: str,
        *,
        clamped: str | None = None,
        due: float | None = None,
        seen: tuple[str, int, str] | None = None,
    ) -> None:
        """Store the release of a running question, which appears as answered when it is due.

        seen: the newest entry of a ledger, as dataset, sequence and digest, to be remembered.
        """
        there = _questions.update().where(_questions.c.id == name)
        with self._write() as connection:
            kept = {"release": release, "cost": cost, "clamped": clamped, "due": due}
            connection.execute(there.values(state="answered", **kept))
            if seen is not None:
                dataset, sequence, digest = seen
                newer = (_seen.c.dataset == dataset, _seen.c.sequence < sequence)
                change = _seen.update().where(*newer)
                connection.execute(change.values(sequence=sequence, digest=digest))

    def end(self, name: str, state: State, problem: str, *, due: float | None = None) -> None:
        """Note that a question has no release; problem: JSON text.

        A question whose release was stored stays answered after later failures.
        """
        change = _questions.update().where(_questions.c.id == name, _unfinished)
        self._change(change.values(state=state, problem=problem, due=due))

    def beat(self) -> None:
        """Note that this process still runs its questions."""
        own = (_questions.c.owner == self.owner, _unfinished)
        self._change(_questions.update().where(*own).values(beat=time.time()))

    def lose(self, *, before: float) -> None:
        """Mark running questions as lost whose process was silent since then.

        Those that only waited had reserved nothing and are removed.
        """
        silent = _questions.c.beat < before
        running = _questions.update().where(_questions.c.state == "running", silent)
        waiting = _questions.delete().where(_questions.c.state == "waiting", silent)
        with self._write() as connection:
            connection.execute(running.values(state="lost"))
            connection.execute(waiting)

    def question(self, name: str) -> StoredQuestion | None:
        """The question of an id."""
        return self._first(StoredQuestion, _QUESTION, name=name)

    def questions(
        self,
        analyst: str,
        dataset: str | None = None,
        *,
        state: str | None = None,
        before: int | None = None,
        most: int = 50,
    ) -> list[StoredQuestion]:
        """An analyst's questions, of a dataset or all, the newest first, page by page."""
        own = [_questions.c.analyst == analyst]
        own += [] if dataset is None else [_questions.c.dataset == dataset]
        if state is not None:  # as far as anyone can tell
            hidden = sqlalchemy.func.coalesce(_hidden(), sqlalchemy.false())
            same = _questions.c.state == state
            own.append(same | hidden if state == "running" else same & ~hidden)
        if before is not None:
            own.append(_questions.c.number < before)
        return self._all(StoredQuestion, _newest(*own, most=most))

    def running(self, analyst: str | None = None) -> int:
        """How many questions appear to wait or run, of all or of an analyst."""
        which: list[Any] = [_unfinished | _hidden()]
        which += [] if analyst is None else [_questions.c.analyst == analyst]
        with self._reading.begin() as connection:
            counted = select(sqlalchemy.func.count()).select_from(_questions).where(*which)
            return int(connection.execute(counted).scalar() or 0)

    def _prepare(self) -> None:
        """Make the tables, or those of this version of older ones."""
        with self._reading.begin() as connection:
            if _version(connection) == SCHEMA_VERSION:
                return
        with self._write() as connection:
            if self._engine.dialect.name == "postgresql":
                lock = sqlalchemy.func.pg_advisory_xact_lock(_OPENING)
                connection.execute(select(lock))
            found = _version(connection)
            if found is not None and found > SCHEMA_VERSION:
                name = Path(str(self._engine.url.database)).name
                raise LedgerMismatch(
                    f"The store {name!r} has schema version {found}; this unacorda reads version "
                    f"{SCHEMA_VERSION}. Use the unacorda that wrote it, or a store elsewhere."
                )
            for version in range(found or SCHEMA_VERSION, SCHEMA_VERSION):
                for statement in _MIGRATIONS[version]:
                    connection.exec_driver_sql(statement)
            _metadata.create_all(connection)
            connection.execute(_versions.delete())
            connection.execute(_versions.insert().values(version=SCHEMA_VERSION))

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlalchemy.Connection]:
        with self._turn, self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Release the connections."""
        self._engine.dispose()

    def _add(self, table: Table, **fields: Any) -> bool:
        """Add a line; return False where there is one with its key."""
        with contextlib.suppress(sqlalchemy.exc.IntegrityError), self._write() as connection:
            connection.execute(table.insert().values(**fields))
            return True
        return False

    def _change(self, statement: Any) -> bool:
        """Execute a statement that writes; return whether it changed one line."""
        with self._write() as connection:
            return connection.execute(statement).rowcount == 1

    def _all(self, kind: Callable[..., Line], statement: Any, **given: Any) -> list[Line]:
        """The lines that a statement finds, as values of a dataclass."""
        with self._reading.begin() as connection:
            rows = connection.execute(statement, given)
            return [kind(**row._mapping) for row in rows]  # noqa: SLF001  # its public name

    def _first(self, kind: Callable[..., Line], statement: Any, **given: Any) -> Line | None:
        """The first of them, if there is one."""
        found = self._all(kind, statement, **given)
        return found[0] if found else None


def _version(connection: sqlalchemy.Connection) -> int | None:
    """The version of a store's tables, 1 where they say none; None where there are none."""
    known = sqlalchemy.inspect(connection)
    if known.has_table(_versions.name):
        return connection.execute(select(_versions.c.version)).scalar()
    return 1 if known.has_table(_tokens.name) else None


def _hidden() -> Any:
    """Of questions that have ended, and may not be seen so yet."""
    return _questions.c.due > time.time()


def _engine(address: str) -> sqlalchemy.Engine:
    if address.startswith("postgresql"):
        url = sqlalchemy.make_url(address).set(drivername="postgresql+psycopg")
        return sqlalchemy.create_engine(url, pool_pre_ping=True, **_SERVER_POOL)
    waits = {"timeout": 30, "isolation_level": None}
    made = sqlalchemy.create_engine(address, connect_args=waits, **_FILE_POOL)
    sqlalchemy.event.listen(made, "connect", _write_ahead)
    sqlalchemy.event.listen(made, "begin", _hold)
    return made


def _write_ahead(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _hold(connection: sqlalchemy.Connection) -> None:
    """A transaction that will write takes the lock at once; a read is one statement alone."""
    if not connection.get_execution_options().get("reading", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def opened(address: str) -> contextlib.closing[AnswerStore]:
    """A store that is closed at the end."""
    return contextlib.closing(AnswerStore(address))
