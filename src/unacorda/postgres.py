"""Settings of PostgreSQL that are pinned in every transaction, and why each is.

A role, a database and an address may all set them, so that the same statement would have another
meaning, or fail at other rows. They are set by SET LOCAL when a transaction begins, in one message.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LEDGER", "READING", "SETTINGS", "Setting", "beginning", "pinned"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. value: as SET takes it; since: the first version that has it."""

    name: str
    value: str
    why: str
    since: int = 0


SETTINGS = (
    Setting("search_path", "pg_catalog, pg_temp", "functions and operators are PostgreSQL's own"),
    Setting("row_security", "off", "a policy is an error, where it would hide rows in silence"),
    Setting("client_encoding", "'UTF8'", "text that another one lacks is an error, by its value"),
    Setting("standard_conforming_strings", "on", "a backslash in a literal is a backslash"),
    Setting("backslash_quote", "safe_encoding", "a quote in an E'' literal is read"),
    Setting("transform_null_equals", "off", "x = NULL is NULL"),
    Setting("array_nulls", "on", "NULL in a list is no text of four letters"),
    Setting("TimeZone", "'UTC'", "an instant has its day and hour in UTC"),
    Setting("timezone_abbreviations", "'Default'", "no zone of a text has another offset"),
    Setting("DateStyle", "'ISO, YMD'", "a date as text has one form, read and written"),
    Setting("IntervalStyle", "'postgres'", "the sign of an interval is that of each of its parts"),
    Setting("extra_float_digits", "1", "a double as text is that double"),
    Setting("bytea_output", "'hex'", "bytes as text have one form"),
    Setting("quote_all_identifiers", "off", "a type has one name in the catalogue"),
    Setting("gin_fuzzy_search_limit", "0", "an index gives all rows, and no random ones of them"),
    Setting("statement_timeout", "0", "a slow question would fail, and slow may be one person"),
    Setting("transaction_timeout", "0", "as statement_timeout", since=170_000),
    Setting("exit_on_error", "off", "an error ends a statement, not the connection"),
    Setting("client_min_messages", "error", "notices may hold values, and drivers log them"),
)
"""Those of every transaction."""

READING = (
    Setting("idle_in_transaction_session_timeout", "0", "noise is drawn between two statements"),
    Setting("lock_timeout", "'60s'", "a table that somebody alters is waited for, not for ever"),
    Setting("jit", "off", "compiling takes long, and memory, at a number of rows"),
    Setting("enable_parallel_hash", "off", "shared memory may be short, at a number of rows"),
)
"""Those of a question, besides."""

LEDGER = (
    Setting("synchronous_commit", "on", "what is acknowledged is on the disk"),
    Setting("default_table_access_method", "heap", "tables are PostgreSQL's own"),
)
"""Those of a ledger, besides; how long it waits is its own to say."""


def pinned(version: int, *settings: Setting, **changes: str) -> Mapping[str, str]:
    """Values by name for a server of a version; changes: other values, and further settings."""
    found = {one.name: one.value for one in (*SETTINGS, *settings) if one.since <= version}
    return {**found, **changes}


def beginning(mode: str, settings: Mapping[str, str]) -> str:
    """Statements, sent in one message, that begin a transaction. mode: all that BEGIN says.

    None of them takes a snapshot: what is locked next is locked before the first one.
    """
    sets = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())
    return f"BEGIN {mode}; {sets}"
