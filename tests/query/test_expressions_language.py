"""What the expression language means, form by form, and what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math

import duckdb
import pytest

from tacet.errors import InvalidParameter, UnsafeExpression
from tacet.query.expressions.parse import parse
from tacet.query.expressions.types import Column, Kind

_ROW = {
    "age": (Kind.INTEGER, "37e0"),
    "zero": (Kind.INTEGER, "0e0"),
    "price": (Kind.NUMBER, "2.5e0"),
    "debt": (Kind.NUMBER, "-1.5e0"),
    "endless": (Kind.NUMBER, "CAST('inf' AS DOUBLE)"),
    "gone": (Kind.NUMBER, "CAST(NULL AS DOUBLE)"),
    "City": (Kind.TEXT, "'Århus'"),
    "blank": (Kind.TEXT, "CAST(NULL AS VARCHAR)"),
    "digits": (Kind.TEXT, "' 12.5'"),
    "yes": (Kind.BOOLEAN, "TRUE"),
    "maybe": (Kind.BOOLEAN, "CAST(NULL AS BOOLEAN)"),
    "day": (Kind.DATE, "DATE '2024-02-29'"),
    "born": (Kind.DATE, "DATE '1986-12-31'"),
    "seen": (Kind.TIMESTAMP, "TIMESTAMP '2024-02-29 13:45:10'"),
}
COLUMNS = {name: Column(name, kind) for name, (kind, _) in _ROW.items()}
_FROM = ", ".join(f'{sql} AS "{name}"' for name, (_, sql) in _ROW.items())


def value(text: str) -> object:
    found = parse(text, columns=COLUMNS)
    with duckdb.connect() as connection:
        ((result,),) = connection.execute(f"SELECT {found.sql} FROM (SELECT {_FROM})").fetchall()
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("(1 + 2) * 3", 9.0),
        ("7 % 4", 3.0),
        ("-7 % 4", -3.0),
        ("MOD(7, 0)", None),
        ("1 / 0", None),
        ("zero / zero", None),
        ("age / zero", None),
        ("endless - endless", None),
        ("endless * 0", None),
        ("endless + 1", math.inf),
        ("1e308 * 10", math.inf),
        ("9007199254740992 + 1", 9007199254740992.0),
        ("FLOOR(age / 2)", 18.0),
        ("- - price", 2.5),
        ("ABS(debt)", 1.5),
        ("FLOOR(debt)", -2.0),
        ("CEIL(debt)", -1.0),
        ("CEILING(price)", 3.0),
        ("ROUND(price)", 3.0),
        ("ROUND(1234.567, 1)", 1234.6),
        ("ROUND(1234.567, -2)", 1200.0),
        ("SIGN(debt)", -1.0),
        ("SQRT(16)", 4.0),
        ("SQRT(debt)", None),
        ("LN(1)", 0.0),
        ("LN(zero)", None),
        ("LOG10(1000)", pytest.approx(3.0)),
        ("LOG2(8)", pytest.approx(3.0)),
        ("EXP(0)", 1.0),
        ("POWER(2, 10)", 1024.0),
        ("2 ** 10", 1024.0),
        ("POWER(zero, -1)", None),
        ("POWER(debt, 0.5)", None),
        ("POWER(gone, 0)", None),
        ("LEAST(3, price, gone)", 2.5),
        ("GREATEST(3, price)", 3.0),
        ("LEAST(GREATEST(age, 0), 30)", 30.0),
        ("COALESCE(gone, price)", 2.5),
        ("IFNULL(gone, 1)", 1.0),
        ("NULLIF(age, 37)", None),
        ("NULLIF(age, 38)", 37.0),
        ("IF(age > 18, 1, 2)", 1.0),
        ("CASE WHEN maybe THEN 1 WHEN yes THEN 2 END", 2.0),
        ("CASE WHEN maybe THEN 1 END", None),
        ("CASE City WHEN 'Oslo' THEN 1 WHEN 'Århus' THEN 2 ELSE 3 END", 2.0),
        ("CASE age WHEN 37 THEN 'a' ELSE 'b' END", "a"),
        ("LOWER(city)", "århus"),
        ("UPPER(CITY)", "ÅRHUS"),
        ("TRIM('  a ')", "a"),
        ("LENGTH(City)", 5.0),
        ("SUBSTRING(City, 2, 3)", "rhu"),
        ("SUBSTRING(City FROM 2 FOR 3)", "rhu"),
        ("SUBSTRING(City, 3)", "hus"),
        ("City || '-' || City", "Århus-Århus"),
        ("City || blank", None),
        ("CONCAT(City, blank, '!')", "Århus!"),
        ("LENGTH(CONCAT(City, City))", 10.0),
        ("STARTS_WITH(City, 'År')", True),
        ("CONTAINS(City, 'hu')", True),
        ("City LIKE '_r%'", True),
        ("City NOT LIKE '_R%'", True),
        ("City ILIKE '_R%'", True),
        ("City NOT ILIKE 'x'", True),
        ("City IN ('Oslo', 'Århus')", True),
        ("age IN (1, -2, 3.5)", False),
        ("age NOT IN (1, NULL)", None),
        ("age BETWEEN 18 AND 37", True),
        ("age NOT BETWEEN 18 AND 36", True),
        ("gone = gone", None),
        ("gone IS NULL", True),
        ("endless - endless IS NULL", True),
        ("age IS NOT NULL", True),
        ("gone IS NOT DISTINCT FROM NULL", True),
        ("gone IS DISTINCT FROM 1", True),
        ("maybe IS TRUE", False),
        ("maybe IS NOT TRUE", True),
        ("maybe IS UNKNOWN", True),
        ("maybe AND FALSE", False),
        ("maybe OR TRUE", True),
        ("NOT maybe", None),
        ("yes AND maybe", None),
        ("0.1 + 0.2 = 0.3", False),
        ("-0.0 = 0", True),
        ("CAST(-0.0 * price AS VARCHAR)", "0.0"),
        ("CAST(age AS VARCHAR)", "37"),
        ("CAST(price AS VARCHAR)", "2.5"),
        ("TRY_CAST(digits AS DOUBLE)", 12.5),
        ("TRY_CAST(City AS DOUBLE)", None),
        ("TRY_CAST('nan' AS DOUBLE)", None),
        ("CAST(1e300 AS BIGINT)", None),
        ("CAST(2.5 AS INTEGER)", 2.0),
        ("CAST(200 AS TINYINT)", None),
        ("CAST(yes AS INTEGER)", 1.0),
        ("CAST(price AS BOOLEAN)", True),
        ("CAST('no' AS BOOLEAN)", False),
        ("CAST(seen AS DATE) = day", True),
        ("TRY_CAST('2024-02-30' AS DATE)", None),
        ("day = DATE '2024-02-29'", True),
        ("day >= '2024-03-01'", False),
        ("day BETWEEN '2024-01-01' AND '2024-12-31'", True),
        ("seen > TIMESTAMP '2024-02-29 13:45'", True),
        ("seen > day", True),
        ("day", dt.date(2024, 2, 29)),
        ("YEAR(day)", 2024.0),
        ("MONTH(day) * 100 + DAY(day)", 229.0),
        ("EXTRACT(DOW FROM day)", 4.0),
        ("EXTRACT(QUARTER FROM day)", 1.0),
        ("EXTRACT(HOUR FROM seen)", 13.0),
        ("DATE_DIFF('day', born, day)", 13574.0),
        ("DATEDIFF('year', born, day)", 38.0),
        ("DATE_DIFF('minute', TIMESTAMP '2024-02-29 13:00:00', seen)", 45.0),
        ("age /* years */ > 18 -- and more", True),
        ("age::VARCHAR || '!'", "37!"),
        ("'2024-02-29'::DATE = day", True),
        ("yes + 1", 2.0),
        ("ABS(maybe)", None),
        ("SQRT(age > 3)", 1.0),
        ("yes <> (age > 50)", True),
        ("TRUNC(debt)", -1.0),
        ("TRUNC(price)", 2.0),
        ("CBRT(27)", pytest.approx(3.0)),
        ("SIN(PI() / 2)", pytest.approx(1.0)),
        ("COS(endless)", None),
        ("TAN(0)", 0.0),
        ("ASIN(1) * 2", pytest.approx(math.pi)),
        ("ACOS(price)", None),
        ("ATAN2(1, -1)", pytest.approx(math.pi * 3 / 4)),
        ("ATAN(endless)", pytest.approx(math.pi / 2)),
        ("DEGREES(PI())", pytest.approx(180)),
        ("RADIANS(180)", pytest.approx(math.pi)),
        ("ISFINITE(endless)", False),
        ("ISFINITE(endless - endless)", None),
        ("ISINF(price)", False),
        ("LEFT(City, 3)", "Årh"),
        ("LEFT(City, 0)", ""),
        ("RIGHT(City, 3)", "hus"),
        ("RIGHT(City, 99)", "Århus"),
        ("LTRIM(digits)", "12.5"),
        ("RTRIM('a  ')", "a"),
        ("TRIM(BOTH 'Ås' FROM City)", "rhu"),
        ("TRIM(LEADING 'Ås' FROM City)", "rhus"),
        ("TRIM(City, 'sÅ')", "rhu"),
        ("REPLACE(City, 'hu', '-')", "År-s"),
        ("REPLACE(blank, 'a', 'b')", None),
        ("REVERSE(City)", "suhrÅ"),
        ("LPAD(City, 7, 'xyz')", "xyÅrhus"),
        ("RPAD(City, 2, 'x')", "År"),
        ("STRPOS(City, 'hu')", 3.0),
        ("POSITION('z' IN City)", 0.0),
        ("INSTR(City, blank)", None),
        ("ENDS_WITH(City, 'us')", True),
        ("SUFFIX(City, 'US')", False),
        ("PREFIX(City, 'År')", True),
        ("SPLIT_PART('a-b-c', '-', 2)", "b"),
        ("SPLIT_PART(City, '-', 2)", ""),
        ("CONCAT_WS('-', City, blank, 'x')", "Århus-x"),
        ("CONCAT_WS('-', blank, blank)", ""),
        ("NVL(gone, 1)", 1.0),
        ("age NOTNULL", True),
        ("DATE_TRUNC('month', day)", dt.date(2024, 2, 1)),
        ("DATE_TRUNC('week', day)", dt.date(2024, 2, 26)),
        ("DATE_TRUNC('hour', seen) = TIMESTAMP '2024-02-29 13:00'", True),
        ("DATE_TRUNC('quarter', DATE '2024-02-29')", dt.date(2024, 1, 1)),
        ("DATE_TRUNC('day', TRY_CAST('infinity' AS DATE))", None),
        ("day + INTERVAL 1 DAY", dt.date(2024, 3, 1)),
        ("day - INTERVAL '1' YEAR", dt.date(2023, 2, 28)),
        ("INTERVAL 2 MONTHS + day", dt.date(2024, 4, 29)),
        ("DATE_ADD(seen, INTERVAL -45 MINUTE) = TIMESTAMP '2024-02-29 13:00:10'", True),
        ("DATE_SUB(day, INTERVAL 1 WEEK)", dt.date(2024, 2, 22)),
        ("day + INTERVAL 1 DAY > '2024-02-29'", True),
        ("DATE_SUB('year', born, day)", 37.0),
        ("DATESUB('month', born, day)", 446.0),
        ("DATE_PART('year', AGE(day, born))", 37.0),
        ("EXTRACT(YEAR FROM AGE(born, day))", -37.0),
        ("DATE_PART('month', day)", 2.0),
        ("DATEPART('dayofyear', day)", 60.0),
        ("WEEK(born)", 1.0),
        ("EXTRACT(ISOYEAR FROM born)", 1987.0),
        ("ISODOW(day)", 4.0),
        ("WEEKDAY(day)", 4.0),
        ("DAYOFYEAR(born)", 365.0),
        ("CENTURY(day)", 21.0),
        ("DECADE(born)", 198.0),
        ("EPOCH(DATE '1970-01-02')", 86_400.0),
        ("MINUTE(seen) * 100 + SECOND(seen)", 4510.0),
        ("LAST_DAY(born - INTERVAL 10 MONTH)", dt.date(1986, 2, 28)),
        ("DAYNAME(day)", "Thursday"),
        ("MONTHNAME(seen)", "February"),
        ("STRFTIME(day, '%Y-%m')", "2024-02"),
        ("STRFTIME(seen, '%d.%m.%y %H:%M')", "29.02.24 13:45"),
        ("TRY_STRPTIME('29.02.2024', '%d.%m.%Y') = TIMESTAMP '2024-02-29 00:00'", True),
        ("STRPTIME('30.02.2024', '%d.%m.%Y')", None),
        ("TRY_STRPTIME('infinity', '%Y')", None),
        ("DATE(STRPTIME('2/29/24', '%m/%d/%y')) = day", True),
        ("TO_TIMESTAMP(86400.5) = TIMESTAMP '1970-01-02 00:00:00.5'", True),
        ("TO_TIMESTAMP(1e300)", None),
        ("MAKE_DATE(2024, 2, 29)", dt.date(2024, 2, 29)),
        ("MAKE_DATE(2023, 2, 29)", None),
        ("MAKE_DATE(age, 1.5, 1)", None),
    ],
)
def test_meaning(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("-- only a comment", "empty"),
        ("age >", "not understood"),
        ("age; DROP TABLE t", "semicolon"),
        ("age;", "semicolon"),
        ("'unclosed", "empty"),
        ("age\x00", "U+0000"),
        ("City = '\ud800'", "surrogate"),
        ("age IN (SELECT age FROM t)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("(SELECT 1) = 1", "subquery"),
        ("age = ANY (SELECT 1)", "ANY"),
        ("age = ANY ([1, 2])", "ANY"),
        ("SELECT 1", "not understood"),
        ("SUM(age) > 3", "aggregate SUM"),
        ("COUNT(*)", "aggregate COUNT"),
        ("age - AVG(age) OVER ()", "window"),
        ("ROW_NUMBER() OVER ()", "window"),
        ("RANDOM() < 0.5", "random"),
        ("UUID() = City", "UUID"),
        ("NOW() > seen", "now"),
        ("CURRENT_DATE = day", "today"),
        ("CURRENT_TIMESTAMP > seen", "present"),
        ("CURRENT_USER = City", "CURRENT_USER"),
        ("TODAY() = day", "today"),
        ("NEXTVAL('s')", "NEXTVAL"),
        ("GETENV('HOME') = City", "GETENV"),
        ("CURRENT_SETTING('threads')", "CURRENT_SETTING"),
        ("READ_TEXT('/etc/passwd')", "READ_TEXT"),
        ("READ_CSV('x.csv')", "READ_CSV"),
        ("GLOB('*')", "GLOB"),
        ("ERROR(City)", "error"),
        ("TRY(age)", "TRY"),
        ("HASH(City)", "HASH"),
        ("REPEAT(City, 1000000000)", "REPEAT"),
        ("CHR(age)", "CHR"),
        ("REGEXP_MATCHES(City, City)", "regular"),
        ("City ~ 'x'", "regular"),
        ("City SIMILAR TO 'x'", "regular"),
        ("City GLOB 'x'", "GLOB"),
        ("City LIKE blank", "LIKE"),
        ("age::DECIMAL(10, 2)", "CAST"),
        ("City::VARCHAR(3)", "without effect: '3'"),
        ("DATE_TRUNC('day', seen, 'Europe/Berlin')", "without effect: 'europe/berlin'"),
        ("DATE_TRUNC('decade', day)", "DATE_TRUNC"),
        ("DATE_TRUNC(City, day)", "DATE_TRUNC"),
        ("DATE_PART('timezone', seen)", "date_part"),
        ("DATE_PART('year')", "date_part"),
        ("DATE_PART('month', AGE(day, born))", "date_part"),
        ("DATE_PART('year', AGE(born))", "'AGE'"),
        ("AGE(day, born)", "'AGE'"),
        ("DATE_SUB('year', born)", "DATE_SUB"),
        ("INTERVAL 1 DAY", "INTERVAL"),
        ("INTERVAL 1 DAY - day", "INTERVAL"),
        ("day + INTERVAL (age) DAY", "INTERVAL"),
        ("day + INTERVAL 1.5 DAY", "INTERVAL"),
        ("day + INTERVAL 100001 DAY", "INTERVAL"),
        ("day + INTERVAL '1 month 3 days'", "INTERVAL"),
        ("day + INTERVAL 1 CENTURY", "INTERVAL"),
        ("DATE_ADD(day, 7)", "DATE_ADD"),
        ("LEFT(City, -1)", "LEFT"),
        ("RIGHT(City, age)", "RIGHT"),
        ("REPLACE(City, '', 'x')", "REPLACE"),
        ("REPLACE(City, 'a', '12345678901')", "REPLACE"),
        ("REPLACE(City, blank, 'x')", "REPLACE"),
        ("LPAD(City, 10001, 'x')", "LPAD"),
        ("LPAD(City, 3, '')", "LPAD"),
        ("RPAD(City, 3, blank)", "RPAD"),
        ("SPLIT_PART(City, '', 1)", "SPLIT_PART"),
        ("SPLIT_PART(City, ',', 0)", "SPLIT_PART"),
        ("SPLIT_PART(City, blank, 1)", "SPLIT_PART"),
        ("TRIM(City, blank)", "TRIM"),
        ("CONCAT_WS(blank, City)", "CONCAT_WS"),
        ("CONCAT_WS(',')", "CONCAT_WS"),
        (f"CONCAT({', '.join(['City'] * 101)})", "CONCAT"),
        ("STRFTIME(day, '%Q')", "STRFTIME"),
        ("STRFTIME(day, '%')", "STRFTIME"),
        ("STRFTIME(day, City)", "STRFTIME"),
        ("TRY_STRPTIME(City, '')", "TRY_STRPTIME"),
        ("TRY_STRPTIME(City, '%f')", "TRY_STRPTIME"),
        ("TRY_STRPTIME(City, ['%Y'])", "list"),
        ("TRY_STRPTIME(City)", "TRY_STRPTIME"),
        ("STRPTIME(City, City)", "strptime"),
        ("TRUNC(price, 2)", "TRUNC"),
        ("ISNAN(price)", "ISNAN"),
        ("XOR(yes, maybe)", "XOR"),
        ("STRPOS(City, 'a', 2)", "STR_POSITION"),
        ("WEEK(day, 1)", "WEEK"),
        ("EPOCH_MS(age)", "EPOCH_MS"),
        ("MAKE_DATE(19000)", "MAKE_DATE"),
        ("DATE(2024, 1, 2)", "CAST"),
        ("City LIKE 'x' ESCAPE '!'", "ESCAPE"),
        ("City COLLATE NOCASE = 'x'", "COLLATE"),
        ("LIST_TRANSFORM([1], x -> x)", "function"),
        ("x -> x + 1", "->"),
        ("[1, 2]", "list"),
        ("{'a': 1}", "struct"),
        ("MAP {'a': 1}", "MAP"),
        ("(1, 2) = (1, 2)", "row of values"),
        ("City[1]", "subscript"),
        ("$1 = age", "parameter"),
        ("? = age", "parameter"),
        (":name = age", "parameter"),
        ("#1 = age", "position"),
        ("*", "*"),
        ("t.age", "column's name"),
        ("main.t.age", "column's name"),
        ("schema.f(age)", "dot"),
        ("CAST(age AS DECIMAL(10, 2))", "CAST"),
        ("CAST(age AS HUGEINT)", "CAST"),
        ("CAST(City AS BLOB)", "CAST"),
        ("CAST(City AS JSON)", "CAST"),
        ("CAST(City AS INTEGER[])", "CAST"),
        ("CAST(seen AS TIMESTAMPTZ)", "CAST"),
        ("age // 2", "//"),
        ("age & 1", "operator &"),
        ("age << 2", "BITWISE"),
        ("seen AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("SUBSTRING(City, 0)", "SUBSTRING"),
        ("SUBSTRING(City, -1, 2)", "SUBSTRING"),
        ("SUBSTRING(City, age)", "SUBSTRING"),
        ("SUBSTRING(City, 1, 4294967296)", "SUBSTRING"),
        ("ROUND(price, age)", "ROUND"),
        ("ROUND(price, 400)", "ROUND"),
        ("LOG(price)", "LOG"),
        ("LOG(3, price)", "LOG"),
        ("DATE_DIFF('microsecond', seen, seen)", "DATE_DIFF"),
        ("DATE_DIFF(City, day, day)", "function"),
        ("DATE '2024-02-30'", "CAST"),
        ("DATE 'yesterday'", "CAST"),
        ("age IN ()", "IN"),
        ("age IN (age)", "IN"),
        ("age IS 1", "IS"),
        ("1e999", "number"),
        ("9007199254740993 > age", "number"),
        ("9" * 5000, "number"),
        ("age AS years", "not understood"),
        ("age, price", "not understood"),
        ("PRAGMA version", "not understood"),
        ("DROP TABLE t", "not understood"),
        ("E'a\\nb' = City", "escapes"),
        ("x'ff'", "not understood"),
        ("$$a$$ = City", "dollar"),
        ("COLUMNS('a')", "function"),
        ("age" + " " * 10_000, "characters"),
    ],
)
def test_refusals_name_what_was_met(text: str, word: str) -> None:
    with pytest.raises(UnsafeExpression) as refusal:
        parse(text, columns=COLUMNS)
    assert word.lower() in refusal.value.reason.lower()
    assert refusal.value.text == text
    assert refusal.value.mend


def test_a_misspelt_function_is_guessed() -> None:
    with pytest.raises(UnsafeExpression, match="Did you mean 'SQRT'"):
        parse("SQRTT(age)", columns=COLUMNS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("digits + 1", 'TRY_CAST("digits" AS DOUBLE)'),
        ("age = digits", 'TRY_CAST("digits" AS DOUBLE)'),
        ("age = 'x'", "TRY_CAST('x' AS DOUBLE)"),
        ("day - born", "DATE_DIFF"),
        ("day + 7", "INTERVAL"),
        ("day + INTERVAL 1 HOUR", "time of day"),
        ("DATE_TRUNC('hour', day)", "time of day"),
        ("age + INTERVAL 1 DAY", "a date"),
        ("LAST_DAY(City)", "TRY_CAST"),
        ("COALESCE(yes, 1)", "parts of one kind"),
        ("yes = 1", "parts of one kind"),
        ("day < 'soon'", "'2024-01-31'"),
        ("City || age", 'TRY_CAST("age" AS VARCHAR)'),
        ("age AND yes", "boolean"),
        ("NOT City", "boolean"),
        ("LOWER(age)", "text"),
        ("YEAR(City)", "date"),
        ("HOUR(EXTRACT(DAY FROM day))", "timestamp"),
        ("EXTRACT(HOUR FROM day)", "time of day"),
        ("CAST(day AS DOUBLE)", "EXTRACT"),
        ("CAST(day AS BOOLEAN)", "compare"),
        ("CAST(age AS DATE)", "text or date"),
        ("COALESCE(age, City)", "parts of one kind"),
        ("CASE WHEN yes THEN 1 ELSE 'x' END", "parts of one kind"),
        ("age IN (1, 'x')", "parts of one kind"),
        ("1 < 2 < 3", "parts of one kind"),
        ("NULL", "NULL"),
    ],
)
def test_kinds_that_do_not_fit_name_the_mend(text: str, words: str) -> None:
    with pytest.raises(InvalidParameter) as fault:
        parse(text, columns=COLUMNS, argument="derive")
    assert not isinstance(fault.value, UnsafeExpression)
    assert words in fault.value.expected
    assert fault.value.argument == "derive"


def test_unknown_columns_list_what_is_available() -> None:
    with pytest.raises(InvalidParameter) as fault:
        parse("agee > 3", columns=COLUMNS)
    assert "Did you mean 'age'" in fault.value.expected
    assert "price" in fault.value.expected


def test_a_name_matches_exactly_before_it_matches_without_case() -> None:
    columns = {"a": Column("first", Kind.NUMBER), "A": Column("second", Kind.NUMBER)}
    assert parse("a", columns=columns).sql == '"first"'
    assert parse("A", columns=columns).columns == {"second"}
    columns = {"Ab": columns["a"], "aB": columns["A"]}
    with pytest.raises(InvalidParameter, match="could be any of Ab, aB"):
        parse("ab", columns=columns)


def test_the_expected_kind_is_demanded() -> None:
    assert parse("NULL", columns={}, expect=Kind.BOOLEAN).kind == Kind.BOOLEAN
    assert parse("age", columns=COLUMNS, expect=Kind.NUMBER).kind == Kind.INTEGER
    with pytest.raises(InvalidParameter, match="a boolean where"):
        parse("age", columns=COLUMNS, expect=Kind.BOOLEAN)
    with pytest.raises(InvalidParameter, match="an integer where"):
        parse("price", columns=COLUMNS, expect=Kind.INTEGER)


def test_text_that_is_no_text_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter, match="text"):
        parse(3, columns={})  # type: ignore[arg-type]


def test_integers_are_refused_where_a_double_can_not_hold_them() -> None:
    assert parse("9007199254740992", columns={}).lower == 2.0**53
    assert parse("18446744073709551616", columns={}).lower == 2.0**64  # 2^64 is a double
    assert parse("9007199254740993.0", columns={}).lower == 2.0**53  # rounded, as it says
    with pytest.raises(UnsafeExpression, match="decimal point"):
        parse("9007199254740993", columns={})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a+b*c", '"a" + "b" * "c"'),
        ("(a+b)*c", '("a" + "b") * "c"'),
        ("a-(b-c)", '"a" - ("b" - "c")'),
        ("((a)) /* note */ > 1.50", '"a" > 1.5'),
        ("NOT (p AND q) OR p", 'NOT ("p" AND "q") OR "p"'),
        ("p AND (q AND p)", '"p" AND "q" AND "p"'),
        ("-(-a)", '"a"'),
        ("-(3)", "-3"),
        ("IF(p, 1, 2)", 'CASE WHEN "p" THEN 1 ELSE 2 END'),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    columns = {name: Column(name, Kind.NUMBER) for name in "abc"}
    columns |= {name: Column(name, Kind.BOOLEAN) for name in "pq"}
    found = parse(text, columns=columns)
    assert found.text == canonical
    assert parse(canonical, columns=columns) == found


def test_a_column_states_what_it_can_not_be() -> None:
    for name in ("", "a\x00b", "\ud800"):
        with pytest.raises(InvalidParameter):
            Column(name, Kind.TEXT)
    for lower, upper in ((1, 0), (math.nan, 0), (0, math.nan)):
        with pytest.raises(InvalidParameter):
            Column("a", Kind.NUMBER, lower, upper)
