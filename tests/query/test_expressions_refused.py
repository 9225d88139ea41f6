"""What the expression language refuses, and which word it names."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from tests.query.expression_row import COLUMNS
from tests.support.cases import in_subtests
from tests.support.seams import parse

from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions.language import Column, Kind


@in_subtests(
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
        ("DATE(2024, 1, 2)", "DATE"),
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
    assert refusal.value.hint


@in_subtests(
    ("text", "met", "instead"),
    [
        (
            "TO_CHAR(day, 'YYYY') = '2024'",
            "function TO_CHAR, at \"TO_CHAR(day, 'YYYY')\"",
            "STRFTIME",
        ),
        ("NVL2(age, 1, 0) = 1", "function NVL2", "CASE WHEN x IS NULL"),
        ("GETDATE() > seen", "'GETDATE'", "DATE '2024-01-31'"),
        ("ISNULL(age, 0) > 3", "'ISNULL'", "IFNULL(x, 0)"),
        ("EOMONTH(day) = day", "'EOMONTH'", "LAST_DAY(x)"),
        ("DECODE(City, 'a', 1, 0) = 1", "not understood", "CASE WHEN"),
        ("`age` > 3", "not understood", '"age"'),
        ("STRING_AGG(City) = 'a'", "at 'STRING_AGG(City)'", "agg(...)"),
    ],
)
def test_functions_of_other_dialects_name_what_is_written_here(
    text: str, met: str, instead: str
) -> None:
    with pytest.raises(UnsafeExpression) as refusal:
        parse(text, columns=COLUMNS)
    assert met in refusal.value.reason
    assert instead in refusal.value.hint


def test_a_misspelt_function_is_guessed() -> None:
    with pytest.raises(UnsafeExpression, match="Did you mean 'SQRT'"):
        parse("SQRTT(age)", columns=COLUMNS)


@in_subtests(
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


@pytest.mark.parametrize("text", ["Age (years) >= 65", "Cost € > 5", "Cost € + 1"])
def test_a_name_that_lacks_its_quotes_is_shown_with_them(text: str) -> None:
    columns = {name: Column(name, Kind.NUMBER) for name in ("Age (years)", "Cost €")}
    with pytest.raises(UnsafeExpression, match='in double quotes: "') as caught:
        parse(text, columns=columns)
    assert text.partition(" ")[0] in caught.value.hint


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Alter > 65", "Alter"),
        ("3 < Alter AND age > 2", "Alter"),
        ("age > 3 AND (from + 1) * 2 > 1", "from"),
        ("CASE WHEN drop > 3 THEN drop END", "drop"),
    ],
)
def test_a_word_of_sql_that_is_a_name_is_shown_in_quotes(text: str, word: str) -> None:
    with pytest.raises(UnsafeExpression) as caught:
        parse(text, columns=COLUMNS)
    hint = f"{word!r} is a word of SQL: if it is a column's name, write it in double quotes: "
    assert caught.value.hint == f'{hint}"{word}".'


@pytest.mark.parametrize("text", ["age > 3 OR", "age > 3 AND AND sex = 'F'", "WHERE age > 3"])
def test_a_word_of_sql_that_quotes_do_not_help_is_no_name(text: str) -> None:
    with pytest.raises(UnsafeExpression) as caught:
        parse(text, columns=COLUMNS)
    assert "word of SQL" not in caught.value.hint
