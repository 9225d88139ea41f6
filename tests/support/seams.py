"""Internals that tests may use, from wherever they stand.

A test of the inside imports it from here, so that a move changes this file alone.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.accounting.charges import charge
from unacorda.display import NOTHING
from unacorda.ledger import chain
from unacorda.ledger.chain import account_digest, check_admitted, entry_digest
from unacorda.ledger.entries import (
    AccountTerms,
    Charge,
    Entry,
    Reservation,
    SearchBegun,
    SeriesOpened,
    SeriesTerms,
    SplitPart,
)
from unacorda.ledger.entries import PeopleSplit as LedgerSplit
from unacorda.ledger.entries import RowSearch as LedgerSearch
from unacorda.ledger.export import export_account, read_export, verify_export
from unacorda.ledger.ledger import Ledger, SubAccount, open_ledger
from unacorda.ledger.pricing import met, odometer, reprice, standing
from unacorda.ledger.replay import verify_entries
from unacorda.ledger.splits import AccountSplits
from unacorda.ledger.sqlite import SqliteStore
from unacorda.ledger.stores import MemoryStore
from unacorda.ledger.tables import TableTransaction
from unacorda.privacy.events import from_json as event_from_json
from unacorda.query import (
    aggregates,
    execution,
)
from unacorda.query.aggregates import grid as counted
from unacorda.query.aggregates import grid as ranks
from unacorda.query.aggregates import grid as trials
from unacorda.query.aggregates import joint_quantiles as chain_draws
from unacorda.query.aggregates import joint_quantiles as chains
from unacorda.query.aggregates import linear as distinct
from unacorda.query.aggregates import means as moments
from unacorda.query.aggregates import quantile_tree as cuts
from unacorda.query.aggregates import quantile_tree as splits
from unacorda.query.aggregates import quantiles
from unacorda.query.aggregates import quantiles as cutting
from unacorda.query.aggregates.automatic import (
    AutomaticSum,
    ClampingSearch,
    FoundBounds,
    RowsPerPerson,
)
from unacorda.query.aggregates.base import Aggregate, Answer, Assumption, Exact
from unacorda.query.aggregates.extremes import Extreme
from unacorda.query.aggregates.grid import (
    GridCounts,
    PublicGrid,
    Ranking,
    accepts,
    below_each,
    rank_losses,
)
from unacorda.query.aggregates.hierarchy import Consistent, LevelNoise, Margins, level_shares
from unacorda.query.aggregates.histograms import (
    BinCounts,
    EqualBins,
    FoundBins,
    Top,
    place_among,
    place_between,
)
from unacorda.query.aggregates.joint_quantiles import Chain, chain_moves
from unacorda.query.aggregates.linear import (
    BoundedSum,
    Count,
    CountDistinct,
    CountIf,
    CountPeople,
    VectorSum,
    vector_sum,
)
from unacorda.query.aggregates.means import BoundedMean, Proportion, WeightedMean, weighted_mean
from unacorda.query.aggregates.measures import (
    Clamp,
    Clamped,
    Climbers,
    Measure,
    PeopleCount,
    RowTerm,
    Shortened,
    SumOf,
    Times,
)
from unacorda.query.aggregates.moment_strategies import (
    CROSSED,
    PAIRED,
    SQUARED,
    Strategy,
)
from unacorda.query.aggregates.quantile_tree import (
    Cutting,
    QuantileDraws,
    QuantileTree,
    TreeCut,
    moves_of,
    plan_for,
)
from unacorda.query.aggregates.quantiles import (
    BoundedQuantile,
    Quantiles,
    QuartileRange,
    Selection,
    finding,
    rank_error,
)
from unacorda.query.aggregates.ratios import Ratio, ratio
from unacorda.query.aggregates.row_counts import RowHistogram, RowsKept, row_rungs
from unacorda.query.aggregates.variances import (
    BoundedVariance,
    Correlation,
    Covariance,
    correlation,
    covariance,
)
from unacorda.query.allocation import allocate, allocate_together, event_of
from unacorda.query.engines import bounding
from unacorda.query.engines import compile as compiler
from unacorda.query.engines import engine as engines
from unacorda.query.engines import postgres as postgres_asking
from unacorda.query.engines.bounding import bound_pairs, bound_rows, salted_hash
from unacorda.query.engines.compile import (
    SqlContext,
    Statement,
    compile_chosen,
    compile_found,
    compile_query,
)
from unacorda.query.engines.compile import _parted as rows_of_part
from unacorda.query.engines.compile import relation as relation_sql
from unacorda.query.engines.dialects.postgres import quoted
from unacorda.query.engines.dialects.postgres import translate as translate_to_postgres
from unacorda.query.engines.dialects.spark import translate as translate_to_spark
from unacorda.query.engines.dialects.statements import NamedTable as TranslatedTable
from unacorda.query.engines.dialects.statements import Translated, check_statement
from unacorda.query.engines.dialects.values import Untranslatable, Values
from unacorda.query.engines.duckdb import DuckDB
from unacorda.query.engines.engine import (
    Admission,
    Admitted,
    Engine,
    Tallies,
    admitted,
    exact_by_name,
    interrupted_after,
    select_keys,
    sql_of,
)
from unacorda.query.engines.fit_sums import FitScan, noise_of, size_of
from unacorda.query.engines.postgres import _PostgresQuery as PostgresAsking
from unacorda.query.engines.spark import SETTINGS, WHY
from unacorda.query.engines.spark import _SparkQuery as SparkAsking
from unacorda.query.engines.spark_sources import ended, quietly, unlogged
from unacorda.query.execution import execute, salt_from
from unacorda.query.expressions import ranges
from unacorda.query.expressions.arithmetic import PARTS, UNITS
from unacorda.query.expressions.language import (
    DERIVED,
    FORMATS,
    FUNCTIONS,
    Column,
    Expression,
    Kind,
    Literal,
    Name,
    Node,
    Operation,
    double,
    folded,
    identifier,
    literal,
)
from unacorda.query.expressions.parse import parse
from unacorda.query.expressions.ranges import EMPTY, EVERYTHING, Range
from unacorda.query.expressions.reader import Reader, condition
from unacorda.query.expressions.values import held, in_years, rounded
from unacorda.query.fit import rows_of, stated
from unacorda.query.noise.additive import (
    CONFIDENCE,
    AdditiveNoise,
    Sensitivity,
    Share,
    noise_quantile,
    of_balls,
    of_counts,
    of_people,
    of_ranks,
    of_splits,
    of_sums,
    of_totals,
    of_vectors,
)
from unacorda.query.noise.selection import (
    Draws,
    KeyRule,
    ThresholdSearch,
    draws_for,
    hits_of,
    key_rule,
    search_for,
)
from unacorda.query.plan import joins as splitting
from unacorda.query.plan.codec import EVERY, encode, stated_rows
from unacorda.query.plan.codec import rows_of as rows_stated
from unacorda.query.plan.person_values import PersonValue
from unacorda.query.plan.query import Query, scans_of
from unacorda.query.plan.relation import How, PersonRows, Relation, SourceTable
from unacorda.query.results.description import Bins, Description
from unacorda.query.results.explanation import Explanation
from unacorda.query.results.record import SEVERAL, Verification, question_of, verify_record
from unacorda.query.results.release import Release
from unacorda.query.results.simulation import SimulatedBias
from unacorda.query.results.words import filtered_in_words
from unacorda.query.row_bounds import SuggestedBounds, rows_question
from unacorda.query.schema import units
from unacorda.query.schema.sources import PublicSelect
from unacorda.query.schema.table import ColumnReading, Fact, TableSchema, readings, scope_of
from unacorda.query.schema.units import Person, Reach, Row, Unit, steps_of
from unacorda.query.session import Session
from unacorda.query.sql.outputs import Computed, Item, Ordering, Select
from unacorda.query.sql.select import parse_select

__all__ = [
    "CONFIDENCE",
    "CROSSED",
    "DERIVED",
    "EMPTY",
    "EVERY",
    "EVERYTHING",
    "FORMATS",
    "FUNCTIONS",
    "NOTHING",
    "PAIRED",
    "PARTS",
    "SETTINGS",
    "SEVERAL",
    "SQUARED",
    "UNITS",
    "WHY",
    "AccountSplits",
    "AccountTerms",
    "AdditiveNoise",
    "Admission",
    "Admitted",
    "Aggregate",
    "Answer",
    "Assumption",
    "AutomaticSum",
    "BinCounts",
    "Bins",
    "BoundedMean",
    "BoundedQuantile",
    "BoundedSum",
    "BoundedVariance",
    "Chain",
    "Charge",
    "Clamp",
    "Clamped",
    "ClampingSearch",
    "Climbers",
    "Column",
    "ColumnReading",
    "Computed",
    "Consistent",
    "Correlation",
    "Count",
    "CountDistinct",
    "CountIf",
    "CountPeople",
    "Covariance",
    "Cutting",
    "Description",
    "Draws",
    "DuckDB",
    "Engine",
    "Entry",
    "EqualBins",
    "Exact",
    "Explanation",
    "Expression",
    "Extreme",
    "Fact",
    "FitScan",
    "FoundBins",
    "FoundBounds",
    "GridCounts",
    "How",
    "Item",
    "KeyRule",
    "Kind",
    "Ledger",
    "LedgerSearch",
    "LedgerSplit",
    "LevelNoise",
    "Literal",
    "Margins",
    "Measure",
    "MemoryStore",
    "Name",
    "Node",
    "Operation",
    "Ordering",
    "PeopleCount",
    "Person",
    "PersonRows",
    "PersonValue",
    "PostgresAsking",
    "Proportion",
    "PublicGrid",
    "PublicSelect",
    "QuantileDraws",
    "QuantileTree",
    "Quantiles",
    "QuartileRange",
    "Query",
    "Range",
    "Ranking",
    "Ratio",
    "Reach",
    "Reader",
    "Relation",
    "Release",
    "Reservation",
    "Row",
    "RowHistogram",
    "RowTerm",
    "RowsKept",
    "RowsPerPerson",
    "SearchBegun",
    "Select",
    "Selection",
    "Sensitivity",
    "SeriesOpened",
    "SeriesTerms",
    "Session",
    "Share",
    "Shortened",
    "SimulatedBias",
    "SourceTable",
    "SparkAsking",
    "SplitPart",
    "SqlContext",
    "SqliteStore",
    "Statement",
    "Strategy",
    "SubAccount",
    "SuggestedBounds",
    "SumOf",
    "TableSchema",
    "TableTransaction",
    "Tallies",
    "ThresholdSearch",
    "Times",
    "Top",
    "Translated",
    "TranslatedTable",
    "TreeCut",
    "Unit",
    "Untranslatable",
    "Values",
    "VectorSum",
    "Verification",
    "WeightedMean",
    "accepts",
    "account_digest",
    "admitted",
    "aggregates",
    "allocate",
    "allocate_together",
    "below_each",
    "bound_pairs",
    "bound_rows",
    "bounding",
    "chain",
    "chain_draws",
    "chain_moves",
    "chains",
    "charge",
    "check_admitted",
    "check_statement",
    "compile_chosen",
    "compile_found",
    "compile_query",
    "compiler",
    "condition",
    "correlation",
    "counted",
    "covariance",
    "cuts",
    "cutting",
    "distinct",
    "double",
    "draws_for",
    "encode",
    "ended",
    "engines",
    "entry_digest",
    "event_from_json",
    "event_of",
    "exact_of",
    "execute",
    "execution",
    "export_account",
    "filtered_in_words",
    "finding",
    "folded",
    "held",
    "hits_of",
    "identifier",
    "in_years",
    "interrupted_after",
    "key_rule",
    "ledger_of",
    "level_shares",
    "literal",
    "met",
    "moments",
    "moves_of",
    "noise_of",
    "noise_quantile",
    "odometer",
    "of_balls",
    "of_counts",
    "of_people",
    "of_ranks",
    "of_splits",
    "of_sums",
    "of_totals",
    "of_vectors",
    "open_ledger",
    "parse",
    "parse_select",
    "place_among",
    "place_between",
    "plan_for",
    "postgres_asking",
    "quantiles",
    "question_of",
    "quietly",
    "quoted",
    "ranges",
    "rank_error",
    "rank_losses",
    "ranks",
    "ratio",
    "read_export",
    "readings",
    "relation_sql",
    "reprice",
    "rounded",
    "row_rungs",
    "rows_of",
    "rows_of_part",
    "rows_question",
    "rows_stated",
    "salt_from",
    "salted_hash",
    "scans_of",
    "scope_of",
    "search_for",
    "select_keys",
    "size_of",
    "splits",
    "splitting",
    "sql_of",
    "standing",
    "stated",
    "stated_rows",
    "steps_of",
    "translate_to_postgres",
    "translate_to_spark",
    "trials",
    "units",
    "unlogged",
    "vector_sum",
    "verify_entries",
    "verify_export",
    "verify_record",
    "weighted_mean",
]


def exact_of(query: Query, name: str, tallies: Tallies) -> Exact:
    """What one aggregate of a question is given."""
    return exact_by_name(query, tallies)[name]


def ledger_of(session: Session) -> Ledger:
    """The ledger of a session that is nobody's part."""
    ledger = session._ledger
    assert isinstance(ledger, Ledger)
    return ledger
