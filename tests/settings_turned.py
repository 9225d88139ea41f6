"""Settings of PostgreSQL turned against who connects, as a role or an address may."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping
from urllib.parse import quote

from tests.postgres_server import server

__all__ = ["HOSTILE", "PLANS", "UNPINNED", "address_with", "role_with"]

HOSTILE = {
    "row_security": "on",
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "TimeZone": "America/New_York",
    "timezone_abbreviations": "India",
    "DateStyle": "SQL,DMY",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "quote_all_identifiers": "on",
    "gin_fuzzy_search_limit": "1",
    "statement_timeout": "900ms",
    "transaction_timeout": "900ms",
    "idle_in_transaction_session_timeout": "900ms",
    "lock_timeout": "1ms",
    "exit_on_error": "on",
    "client_min_messages": "debug5",
    "jit": "on",
    "enable_parallel_hash": "on",
    "synchronous_commit": "off",
    "default_table_access_method": "heap",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
}
"""Each of those that are pinned but for the schemas, whose hostile ones a test makes; and how a
transaction begins where nothing is said."""

PLANS = {
    "max_parallel_workers_per_gather": "4",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "debug_parallel_query": "on",
    "work_mem": "64",
    "jit_above_cost": "0",
    "join_collapse_limit": "1",
    "from_collapse_limit": "1",
    "geqo_threshold": "2",
    "plan_cache_mode": "force_generic_plan",
    "constraint_exclusion": "on",
    **{
        f"enable_{name}": "off"
        for name in (
            *("hashagg", "hashjoin", "sort", "material", "memoize", "nestloop", "seqscan"),
            *("incremental_sort", "presorted_aggregate", "partition_pruning", "gathermerge"),
        )
    },
    "synchronize_seqscans": "on",
    "default_text_search_config": "pg_catalog.german",
    "xmloption": "document",
    "check_function_bodies": "off",
    "lc_numeric": "C",
    "session_replication_role": "replica",
    "zero_damaged_pages": "on",
}
"""Some that are not pinned: they choose another plan for the same rows, or mean nothing here."""

UNPINNED = {
    "enable_|cpu_|.*_page_cost|.*_collapse_limit|geqo|cursor_tuple_fraction|constraint_exclusion|"
    "effective_|default_statistics_target|recursive_worktable_factor|plan_cache_mode|"
    "jit|.*parallel|stats_fetch_consistency": "how rows are found, not which",
    "work_mem|hash_mem_multiplier|maintenance_|temp_buffers|logical_decoding_work_mem|"
    "max_stack_depth|io_|backend_flush_after|file_copy_method": "memory and speed",
    "temp_file_limit": "only a superuser sets it, and only one could pin it",
    "temp_tablespaces|default_tablespace|default_toast_compression": "where bytes lie",
    "debug_|trace_|log_|track_|compute_query_id|backtrace_functions|update_process_title|"
    "escape_string_warning|application_name|jit_dump_bitcode": "what the server notes of its work",
    "vacuum_|gin_pending_list_limit|commit_delay|commit_siblings|wal_|deadlock_timeout|"
    "md5_password_warnings": "upkeep of the server and its log",
    "tcp_|client_connection_check_interval|idle_session_timeout|post_auth_delay": "how a "
    "connection that is gone, or idle between transactions, is noticed",
    "lc_|icu_validation_level|default_text_search_config|xmlbinary|xmloption|lo_compat_privileges|"
    "createrole_self_grant|password_encryption|scram_iterations|check_function_bodies|"
    "allow_in_place_tablespaces|allow_system_table_mods|dynamic_library_path|"
    "extension_control_path|restrict_nonsystem_relation_kind": "of functions that no statement has",
    "default_transaction_|transaction_(isolation|read_only|deferrable)": "BEGIN says them all",
    "synchronize_seqscans": "the order of rows, on which no answer hangs",
    "session_replication_role|event_triggers": "of triggers, which reading does not fire and whose "
    "work a ledger looks at",
    "zero_damaged_pages|ignore_checksum_failure|ignore_system_indexes": "of a broken disk, by "
    "superusers alone",
    "session_preload_libraries|local_preload_libraries|oauth_": "code of the server's own folder",
    "default_table_access_method|synchronous_commit": "of what is written: pinned by ledgers",
    "lock_timeout|idle_in_transaction_session_timeout": "pinned by questions and by ledgers",
}
"""Patterns of the names of all others that a user can set, and why they are left alone."""

_numbers = itertools.count(1)


def role_with(url: str, settings: Mapping[str, str]) -> str:
    """The address of a new superuser of whom these settings are, as far as the server has them."""
    name = f"turned_{next(_numbers)}"
    known = _known()
    with contextlib.closing(server().connect()) as there:
        there.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
        for setting, value in settings.items():
            if setting in known:
                there.execute(f"ALTER ROLE {name} SET {setting} = '{value}'".encode())
    return url.replace("postgres@", f"{name}@")


def address_with(settings: Mapping[str, str]) -> str:
    """What ends the options of an address with these settings."""
    return quote("".join(f" -c {n}={v}" for n, v in settings.items() if n in _known()))


@functools.cache
def _known() -> frozenset[str]:
    with contextlib.closing(server().connect()) as there:
        return frozenset(n for (n,) in there.execute("SELECT name FROM pg_settings").fetchall())
