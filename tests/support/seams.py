"""Internals that tests may use, from wherever they stand.

A test of the inside imports it from here, so that a move changes this file alone.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.accounting.charges import charge
from unacorda.ledger.chain import check_admitted, entry_digest
from unacorda.ledger.ledger import Ledger
from unacorda.ledger.memory import MemoryStore
from unacorda.ledger.splits import Splits
from unacorda.privacy.event_codec import from_json as event_from_json
from unacorda.query.admission import Admission, sql_of
from unacorda.query.aggregates.sums import Clamp
from unacorda.query.allocation import event_of
from unacorda.query.analysts import AnalystLedger
from unacorda.query.bounding import bound_rows
from unacorda.query.engines.duckdb import DuckDB
from unacorda.query.noise import AdditiveNoise
from unacorda.query.private_keys import KeyRule, hits_of, key_rule
from unacorda.query.relations import _parted as rows_of_part
from unacorda.query.reserving import salt_from
from unacorda.query.spending import answered

__all__ = [
    "AdditiveNoise",
    "Admission",
    "AnalystLedger",
    "Clamp",
    "DuckDB",
    "KeyRule",
    "Ledger",
    "MemoryStore",
    "Splits",
    "answered",
    "bound_rows",
    "charge",
    "check_admitted",
    "entry_digest",
    "event_from_json",
    "event_of",
    "hits_of",
    "key_rule",
    "rows_of_part",
    "salt_from",
    "sql_of",
]
