"""What Spark reads, and with which settings, is decided by types and by us: never by a value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.query.engines_alike import LOOSE, counted, local, opened_on, without_java
from tests.support.extremes import (
    DATE_TEXTS,
    DAYS,
    INSTANTS,
    TEXTS,
    failing,
    of_dates,
    of_instants,
)
from tests.support.parquet_footers import CONVERTED, Struct, edited, logical
from tests.support.seams import SETTINGS, WHY, Person, Session, admitted, quietly
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import (
    InvalidParameter,
    SourceChanged,
    SourceUnreadable,
    UnsupportedConstruct,
)

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]

LEAST, MOST = -(2**63), 2**63 - 1


def raw(kind: pa.DataType, values: list[int], width: int) -> Any:
    """An Arrow column of these numbers, which nothing checks."""
    data = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def wide(kind: pa.DataType, *hostile: int) -> Any:
    return raw(kind, [1, *hostile], 16)


def ticks(kind: pa.DataType) -> Any:
    return raw(kind, [1, LEAST, MOST, 9_223_372_036_854_776, -9_223_372_036_854_776], 8)


def texts(*values: bytes) -> Any:
    return pa.array([b"a", *values], pa.binary()).view(pa.string())


HOSTILE: dict[str, Any] = {
    "millis": ticks(pa.timestamp("ms")),
    "millis_zoned": ticks(pa.timestamp("ms", "UTC")),
    "micros": ticks(pa.timestamp("us")),
    "micros_zoned": ticks(pa.timestamp("us", "Asia/Tokyo")),
    "nanos": ticks(pa.timestamp("ns")),
    "day": raw(pa.date32(), [1, -(2**31), 2**31 - 1, -719_529, 2_932_897], 4),
    "text": texts(b"M\xfcller", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00", b"\xff" * 4),
    "decimal_9": wide(pa.decimal128(9, 2), 10**9, -(10**9), 2**31 - 1, -(2**31)),
    "decimal_18": wide(pa.decimal128(18, 3), 10**18, -(10**18), 2**62, 2**63 - 1),
    "decimal_20": wide(pa.decimal128(20, 2), 10**20, -(10**20), 10**21, -(2**70)),
    "decimal_38": wide(pa.decimal128(38, 0), 2**127 - 1, -(2**127), 10**38, -(10**38)),
    "decimal_38_9": wide(pa.decimal128(38, 9), 2**127 - 1, -(2**127), 10**38, -(10**38)),
    "number": pa.array([1, np.nan, np.inf, -np.inf, 1e308]),
    "single": pa.array([1, np.nan, np.inf, -np.inf, 1e-45], pa.float32()),
    "unsigned": pa.array([1, 2**64 - 1, 2**63, 0, 7], pa.uint64()),
    "time": raw(pa.time64("us"), [1, LEAST, MOST, 86_400_000_000, -1], 8),
}
COUNTED = {
    "millis": 1,
    "millis_zoned": 1,
    "micros": 3,
    "micros_zoned": 3,
    "nanos": 5,
    "day": 1,
    "text": 2,
    "decimal_9": 1,
    "decimal_18": 1,
    "decimal_20": 1,
    "decimal_38": 1,
    "decimal_38_9": 1,
    "number": 4,
    "single": 4,
    "unsigned": 5,
}
"""How many of the values are there once they are read."""


def column(values: Any, *, people: int) -> Any:
    """The first values, the one that anybody may have again and again."""
    return values.take(pa.array(range(people)))


def counts(session: Session, names: list[str]) -> dict[str, int]:
    query = session.table("t").agg(**{name: unacorda.count(name) for name in names})
    found = counted(session, query)["sums"]
    return dict(zip(names, found[0], strict=True)) if found else dict.fromkeys(names, 0)


def test_no_value_of_a_file_ends_a_question(tmp_path: Path) -> None:
    """With and without the people whose values no careful writer would write."""
    names = list(COUNTED)
    for people in (1, 5):
        path = tmp_path / f"{people}.parquet"
        held = {name: column(values, people=people) for name, values in HOSTILE.items()}
        pq.write_table(pa.table(held), path, version="2.6")
        with opened_on("spark", str(path)) as session:
            found = counts(session, names)
            for name in ("time", "span"):
                with pytest.raises(InvalidParameter):
                    session.table("t").agg(n=unacorda.count(name))
        assert found == (COUNTED if people > 1 else dict.fromkeys(names, 1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frame", "checkpoint", "catalogue", "integers", "plain"])
def test_no_value_ends_a_question_of_any_source(kind: str, tmp_path: Path) -> None:
    names = [name for name in COUNTED if name not in ("unsigned", "nanos") or kind == "frame"]
    if kind == "checkpoint":  # Spark itself reads the file here, when the caller asks it to
        names = [name for name in names if name in ("micros", "day", "text", "number", "unsigned")]
    with quietly():
        spark = local()
        found = {}
        for people in (1, 5):
            path = tmp_path / f"{kind}{people}.parquet"
            held = {name: column(HOSTILE[name], people=people) for name in names}
            options = {"store_decimal_as_integer": kind == "integers"}
            options["use_dictionary"] = kind != "plain"
            pq.write_table(pa.table(held), path, version="2.6", **options)
            source: Any = str(path)
            if kind == "frame":
                source = pa.table(held)
            elif kind == "checkpoint":
                source = spark.read.parquet(str(path)).localCheckpoint()
            elif kind == "catalogue":
                spark.sql("DROP TABLE IF EXISTS hostile")
                spark.sql(f"CREATE TABLE hostile USING parquet LOCATION '{path}'")
                source = "hostile"
            with opened_on("spark", source) as session:
                found[people] = counts(session, names)
        spark.sql("DROP TABLE IF EXISTS hostile")
    assert found[1] == dict.fromkeys(names, 1)
    expected = {name: COUNTED[name] for name in names}
    if kind == "frame":  # DuckDB's reading of a frame
        expected |= {"text": 5, "nanos": found[5].get("nanos", 0), "micros": found[5]["micros"]}
        expected |= {"micros_zoned": found[5]["micros_zoned"], "day": found[5]["day"]}
    assert found[5] == expected


def flat(kind: Any, *values: Any) -> Any:
    return pa.array([*values], kind)


SMALL = flat(pa.int32(), 1, -1, 127, 128, 255, 256, 65_536, -(2**31), 2**31 - 1)
LARGE = flat(pa.int64(), 1, -1, 127, 128, 255, 2**32, 2**53, LEAST, MOST)
BYTES = flat(
    pa.binary(),
    *(b"\x01", b"", b"\xff", b"\x80" + b"\0" * 15, b"\x7f" + b"\xff" * 15, b"\0" * 40 + b"\x05"),
    *(b"\xff" * 40, b"\x01" * 17, b"M\xfcller"),
)
TWELVE = flat(
    pa.binary(12),
    *(b"\0" * 8 + b"\x8c\x3d\x25\0", b"\xff" * 12, b"\0" * 12, b"\x7f" * 12, b"\x80" * 12),
    *(
        b"\0" * 8 + b"\xff\xff\xff\x7f",
        b"\0" * 8 + b"\0\0\0\x80",
        b"\xff" * 7 + b"\x7f" + b"\0" * 4,
    ),
    b"\0" * 7 + b"\x80" + b"\0" * 4,
)
SIXTEEN = flat(
    pa.binary(16),
    *(b"\0" * 15 + b"\x01", b"\xff" * 16, b"\x80" + b"\0" * 15, b"\x7f" + b"\xff" * 15),
    *(b"\0" * 16, b"\x4b\x3b\x4c\xa8\x5a\x86\xc4\x7a\x09\x8a\x22\x3f\xff\xff\xff\xff"),
    *(b"\x4b" + b"\0" * 15, b"\xb4" + b"\xff" * 15, b"\x01" * 16),
)
ANNOTATIONS: tuple[tuple[str, Struct | None, tuple[int, int] | None], ...] = (
    ("", None, None),
    *((name, None, None) for name in CONVERTED if name not in ("MAP", "LIST", "DECIMAL")),
    *(("DECIMAL", None, digits)
      for digits in ((1, 0), (9, 9), (18, 2), (19, 4), (38, 0), (38, 38))),
    *(("", logical(name, unit=unit, utc=utc), None)
      for name in ("TIME", "TIMESTAMP") for unit in ("ms", "us", "ns") for utc in (True, False)),
    *(("", logical("INTEGER", bits=bits, signed=signed), None)
      for bits in (8, 16, 32, 64) for signed in (True, False)),
    *(("", logical(name), None) for name in ("STRING", "ENUM", "DATE", "JSON", "BSON", "UUID")),
    ("", logical("FLOAT16"), None),
)  # fmt: skip
PHYSICAL = {"int32": SMALL, "int64": LARGE, "bytes": BYTES, "int96": TWELVE, "fixed": SIXTEEN}
ANSWERED = {"int32": 17, "int64": 16, "bytes": 12, "int96": 1, "fixed": 6}
"""Under how many annotations the type has a reading; under the others it is refused."""


def annotated(path: Path, values: Any, number: int, *, twelve: bool, dictionary: bool) -> None:
    """A file of one column under one annotation; twelve: in 96 bits."""
    converted, newer, decimal = ANNOTATIONS[number]
    pq.write_table(
        pa.table({"w": values}),
        path,
        store_schema=False,
        write_statistics=False,
        use_dictionary=dictionary,
    )

    def edit(footer: Struct) -> None:
        _, (_, elements) = footer[2]
        element = elements[1]
        for field in (6, 7, 8, 10):
            element.pop(field, None)
        if converted:
            element[6] = (5, CONVERTED[converted])
        if decimal:
            element[8], element[7] = (5, decimal[0]), (5, decimal[1])
        if newer:
            element[10] = (12, newer)
        if twelve:
            element[1] = (5, 3)
            element.pop(2, None)
            _, (_, groups) = footer[4]
            for group in groups:
                for chunk in group[1][1][1]:
                    chunk[3][1][1] = (5, 3)

    edited(path, edit)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("physical", PHYSICAL)
def test_every_annotation_of_every_physical_type_is_read_or_refused_by_itself(
    physical: str, dictionary: bool, tmp_path: Path
) -> None:
    """The same with and without every other row: a count, or a refusal in the same words."""
    values, answered = PHYSICAL[physical], 0
    for number in range(len(ANNOTATIONS)):
        outcomes = []
        for rows in (1, len(values)):
            path = tmp_path / f"{number} {rows}.parquet"
            held = column(values, people=rows)
            annotated(path, held, number, twelve=physical == "int96", dictionary=dictionary)
            try:
                with opened_on("spark", str(path)) as session:
                    outcomes.append(str(len(counts(session, ["w"]))))
            except (InvalidParameter, SourceUnreadable) as refused:
                outcomes.append(str(refused).replace(str(path), ""))
        assert outcomes[0] == outcomes[1], ANNOTATIONS[number]
        answered += outcomes[0] == "1"
    assert answered == ANSWERED[physical]


LINES: dict[str, bytes] = {
    "20,481 fields": b"3," * 20_481 + b"\n",
    "a million fields": b"4," * 1_000_000 + b"\n",
    "an open quote": b'5,"abc\n6,z\n',
    "a long field": b"7," + b"q" * 5_000_000 + b"\n",
    "a long quoted field": b'7,"' + b"q" * 5_000_000 + b'"\n',
    "zeros": b"8,\0\0x\n\0\n",
    "Latin-1": b"9,\xe9t\xe9\n",
    "surrogates": b"9,\xed\xa0\x80\n",
    "a character cut off": b"16,\xf0\x9f\n",
    "a byte order mark": b"\xef\xbb\xbf10,z\n",
    "carriage returns": b"11,z\r12,w\r",
    "all line ends": b"11,z\r\n12,w\n13,e\r",
    "a quote within": b'12,a"b"c\n',
    "a quote that ends early": b'13,"ab"c\n',
    "a short line": b"14\n",
    "empty lines": b"\n\n\n",
    "a backslash": b'17,"a\\"b"\n',
    "UTF-16": "18,\u00e9\n".encode("utf-16"),
}


@pytest.mark.parametrize("case", mostly_slow(LINES))
def test_no_line_of_a_csv_file_ends_a_question(case: str, tmp_path: Path) -> None:
    for number, content in enumerate((b"", LINES[case])):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(b"a,b\n1,x\n" + content + b"2,y\n")
        with opened_on("spark", str(path)) as session:
            assert counts(session, ["a", "b"])["a"] >= 1


def test_only_parquet_is_read_by_spark(tmp_path: Path) -> None:
    """Other readers can be told to stop at a value, by options that nothing shows."""
    with quietly():
        spark = local()
        rows = spark.createDataFrame(pa.table({"who": [1, 2], "x": [0.5, 1.5]}))
        written = {}
        for kind in ("csv", "json", "orc", "parquet"):
            written[kind] = str(tmp_path / kind)
            rows.write.format(kind).save(written[kind])
        spark.sql("DROP TABLE IF EXISTS strict")
        spark.sql(
            "CREATE TABLE strict (who BIGINT, x DOUBLE) USING csv "
            f"OPTIONS (path '{written['csv']}', mode 'FAILFAST')"
        )
        strict = spark.read.schema("who BIGINT, x DOUBLE").option("mode", "FAILFAST")
        refused = [
            *(strict.csv(written["csv"]), strict.json(written["json"]), "strict"),
            *(spark.read.schema("who BIGINT, x DOUBLE").csv(written["csv"]),),
            *(spark.read.orc(written["orc"]), spark.read.text(written["csv"])),
            spark.read.format("binaryFile").load(written["parquet"]),
        ]
        for source in refused:
            with pytest.raises(InvalidParameter, match="Write them anew"):
                opened_on("spark", source, unit=LOOSE)
        careless = spark.read.option("ignoreCorruptFiles", "true").option("mergeSchema", "true")
        source = careless.option("datetimeRebaseMode", "EXCEPTION").parquet(written["parquet"])
        with opened_on("spark", source, unit=LOOSE) as session:
            assert counts(session, ["x"]) == {"x": 2}
        spark.sql("DROP TABLE strict")


def test_what_the_caller_cached_answers_nothing(tmp_path: Path) -> None:
    """Neither rows in a cache nor an old listing stand for the files that are there."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0] * 10}), path)
    with quietly():
        spark = local()
        frame = spark.read.parquet(str(path)).cache()
        assert frame.count() == 10
        pq.write_table(pa.table({"x": [1.0, 2.0] * 2_000}), path)
        with opened_on("spark", frame) as session:
            query = session.table("t").agg(n=unacorda.count(), x=unacorda.count("x"))
            assert counted(session, query)["sums"] == {0: (4_000, 4_000)}
            path.unlink()
            with pytest.raises(SourceChanged):
                session.evaluate(query, budget=unacorda.PureDP(1))
        frame.unpersist()


@pytest.mark.parametrize("checkpointed", mostly_slow([False, True]))
def test_null_counts_also_where_a_frame_says_that_there_is_none(checkpointed: bool) -> None:
    """Nothing checks what a frame says: NULL would be 0, and a missing text end the question."""
    import pandas as pd
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    kinds = {"id": LongType(), "n": LongType(), "text": StringType()}
    says = StructType([StructField(name, kind, nullable=False) for name, kind in kinds.items()])
    rows: list[tuple[Any, ...]] = [(1, 5, "a"), (2, 6, "b"), (3, 7, None)]
    expected = (3, 3, 2)
    with quietly():
        spark = local().newSession()
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")  # for a local relation
        if checkpointed:
            rows += [(4, None, "c"), (None, 9, "d")]
            expected = (4, 3, 3)
            frame = spark.createDataFrame(rows, says, verifySchema=False).localCheckpoint()
        else:
            known = pd.DataFrame(rows, columns=list(kinds))
            frame = spark.createDataFrame(known, says, verifySchema=False)
        assert not any(field.nullable for field in frame.schema.fields)
        with opened_on(
            "spark", frame.select("text", "n", "id"), unit=Person("id", max_rows=9)
        ) as s:
            assert list(s._engine.schema["t"]) == ["text", "n", "id"]
            asked = s.table("t").agg(
                rows=unacorda.count(), n=unacorda.count("n"), text=unacorda.count("text")
            )
            assert counted(s, asked)["sums"] == {0: expected}


@pytest.mark.slow
def test_partitions_and_chosen_columns_are_those_of_the_table(tmp_path: Path) -> None:
    with quietly():
        spark = local()
        data = pa.table({"x": [1.0, 2.0, 3.0], "who": [1, 2, 3], "land": ["a", "b", "b c=d"]})
        path = str(tmp_path / "stored [1] %41")
        spark.createDataFrame(data).write.partitionBy("land").parquet(path)
        spark.sql("DROP TABLE IF EXISTS lands")
        spark.createDataFrame(data).write.partitionBy("land").saveAsTable("lands")
        escaped = path.replace("[", "\\[").replace("]", "\\]")
        for source in (spark.read.parquet(escaped), "lands", spark.table("lands").select("land")):
            with opened_on("spark", source) as session:
                query = session.table("t").agg(
                    n=unacorda.count("land"), b=unacorda.count_if("land = 'b c=d'")
                )
                assert counted(session, query)["sums"] == {0: (3, 1)}
        with opened_on("spark", "lands") as session:
            spark.sql("INSERT INTO lands VALUES (4.0, 4, 'e')")
            query = session.table("t").agg(n=unacorda.count())
            assert counted(session, query)["sums"] == {0: (3,)}
            spark.sql("DROP TABLE lands")
            with pytest.raises(SourceChanged):
                session.evaluate(query, budget=unacorda.PureDP(1))


AGAINST = {
    **{name: "false" for name, value in SETTINGS.items() if value == "true"},
    **{name: "true" for name, value in SETTINGS.items() if value == "false"},
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    "spark.sql.parquet.int96RebaseModeInRead": "EXCEPTION",
    "spark.sql.legacy.timeParserPolicy": "EXCEPTION",
    "spark.sql.legacy.ctePrecedencePolicy": "EXCEPTION",
}
"""Every setting as a caller would have it who means harm, or who is careless."""
UNLISTED = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates"
    ),
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": "false",
    "spark.sql.legacy.allowHashOnMapType": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.maxPlanStringLength": "9",
}
"""Settings that are nowhere listed."""


@contextmanager
def configured(settings: dict[str, str]) -> Iterator[Any]:
    """Spark as a whole with these settings, as its command line or file of defaults has them."""
    with quietly():
        spark = local()
        whole = spark._jsc.sc().conf()
        before = {name: whole.get(name, "") for name in settings}
        for name, value in settings.items():
            whole.set(name, value)
        try:
            yield spark
        finally:
            for name, value in before.items():
                whole.set(name, value) if value else whole.remove(name)


def asked_of_settings(source: Any) -> dict[str, Any]:
    """Integers on which zones, quotes, capitals, rounding and calendars would tell."""
    with opened_on("spark", source, unit=unacorda.Person("who", max_rows=9)) as session:
        query = (
            session.table("t")
            .derive(hour="extract(hour from at)", both="x / (whole - 3)", path="'a\\nb${x}'")
            .where("at > '1500-01-01 00:00' OR text LIKE 'a%'")
            .group_by("text", keys=["a", "b", None])
            .agg(
                hours=unacorda.sum("hour", 0, 24),
                both=unacorda.sum("both", -9, 9),
                long=unacorda.sum("length(path)", 0, 50),
                day=unacorda.count_distinct("date_trunc('day', at)"),
                cast=unacorda.count("try_cast(text as double)"),
                cost=unacorda.sum("cost", 0, 99),
                m=unacorda.median("x", 0, 9),
            )
        )
        return counted(session, query)


def stored_moments(path: Path) -> None:
    moments = [-21_143_289_600_000_000, 1_709_249_400_000_000, None] * 4
    table = pa.table(
        {
            "who": [1, 2, 3, 4] * 3,
            "at": pa.array(moments, pa.timestamp("us")),
            "text": ["a", "b", None, "1"] * 3,
            "x": [0.5, 1.5, 2.5] * 4,
            "whole": [1, 2, 3, 4] * 3,
            "cost": pa.array([1, 2, None] * 4, pa.decimal128(9, 2)),
        }
    )
    pq.write_table(table, path, use_deprecated_int96_timestamps=path.name == "old.parquet")


def test_settings_of_the_caller_change_nothing(tmp_path: Path) -> None:
    assert set(AGAINST) == set(SETTINGS) == set(WHY)
    assert all(AGAINST[name] != value for name, value in SETTINGS.items())
    path = tmp_path / "old.parquet"
    stored_moments(path)
    plain = asked_of_settings(str(path))
    with configured(AGAINST | UNLISTED) as spark:
        hostile = spark.newSession()
        assert hostile.conf.get("spark.sql.ansi.enabled") == "false"
        with opened_on("spark", str(path)) as session:
            conf = session._engine._spark.conf  # type: ignore[attr-defined]
            assert {name: conf.get(name) for name in SETTINGS} == SETTINGS
            assert not set(UNLISTED) & set(conf.getAll)
        assert asked_of_settings(str(path)) == plain


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_setting_of_the_caller_changes_anything(tmp_path: Path) -> None:
    paths = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for path in paths:
        stored_moments(path)
    plain = [asked_of_settings(str(path)) for path in paths]
    for name, value in (AGAINST | UNLISTED).items():
        with configured({name: value}):
            assert [asked_of_settings(str(path)) for path in paths] == plain, name


def test_a_limit_on_results_is_refused_by_name(tmp_path: Path) -> None:
    stored_moments(tmp_path / "new.parquet")
    limit = configured({"spark.driver.maxResultSize": "1m"})
    with limit, pytest.raises(InvalidParameter, match="maxResultSize"):
        opened_on("spark", str(tmp_path / "new.parquet"))


@pytest.mark.slow
def test_functions_of_the_caller_shadow_nothing(tmp_path: Path) -> None:
    """Neither temporary nor stored functions, views nor variables are asked."""
    path = tmp_path / "new.parquet"
    stored_moments(path)
    plain = asked_of_settings(str(path))
    names = ("abs", "rint", "length", "try_divide", "xxhash64", "floor", "unix_micros", "substr")
    with quietly():
        spark = local()
        for name in names:
            spark.udf.register(name, lambda *_: 0, "int")
            spark.sql(f"CREATE OR REPLACE FUNCTION default.{name}(x DOUBLE) RETURNS INT RETURN 0")
        spark.createDataFrame(pa.table({"who": [9]})).createOrReplaceTempView("source0")
        spark.sql("DECLARE OR REPLACE VARIABLE who INT DEFAULT 0")
        try:
            assert asked_of_settings(str(path)) == plain
        finally:
            for name in names:
                spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")
                spark.sql(f"DROP FUNCTION default.{name}")
            spark.catalog.dropTempView("source0")
            spark.sql("DROP TEMPORARY VARIABLE who")


def ends(kind: pa.DataType, values: tuple[int, ...], width: int) -> Any:
    return raw(kind, list(values), width)


MOMENTS: dict[str, tuple[Any, str]] = {
    "date32": (ends(pa.date32(), DAYS, 4), "w"),
    "us": (ends(pa.timestamp("us"), INSTANTS["us"], 8), "w"),
    "us zoned": (ends(pa.timestamp("us", "Asia/Tokyo"), INSTANTS["us"], 8), "w"),
    "ms": (ends(pa.timestamp("ms"), INSTANTS["ms"], 8), "w"),
    "ns": (ends(pa.timestamp("ns"), INSTANTS["ns"], 8), "w"),
    "int96": (ends(pa.timestamp("ns"), INSTANTS["ns"], 8), "w"),
    "text": (pa.array(TEXTS), "CAST(w AS TIMESTAMP)"),
    "text of dates": (pa.array(DATE_TEXTS), "CAST(w AS DATE)"),
}

READ = 12
"""Expressions on a text that is read: Spark's SQL of each is long."""


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("case", MOMENTS)
def test_every_function_of_moments_answers_at_both_ends(case: str, tmp_path: Path) -> None:
    values, name = MOMENTS[case]
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"w": values}),
        path,
        version="2.6",
        use_deprecated_int96_timestamps=case == "int96",
    )
    expressions = of_dates(name) if "date" in case else of_instants(name)
    if "text" in case:  # what follows the reading is that of a column
        expressions = expressions[:READ]
    with opened_on("spark", str(path), budget=unacorda.PureDP(10**4)) as session:
        known = [one for one in expressions if answerable(session, one)]
        assert len(known) > (8 if "text" in case else 100)
        assert failing(session, known) == []


def answerable(session: Session, expression: str) -> bool:
    """Whether Spark has an equal for it: else it is refused by its name."""
    query = session.table("t").derive(y=expression).agg(n=unacorda.count("y"))
    try:
        admitted(session._admission, query, salt=1)
    except UnsupportedConstruct:
        return False
    return True
