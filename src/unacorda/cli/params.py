"""The types of options, the options that verbs share, and the values that several make together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from unacorda.checks import demand, exact, once, read_text
from unacorda.cli.errors import EXIT_CODES
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import identifier

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.privacy.neighbors import Neighbors
    from unacorda.query.schema.table import Fact
    from unacorda.query.schema.units import Unit

Decorator: TypeAlias = Callable[[Any], Any]
"""What adds options to a verb."""

AUTO = "auto"
"""What is written for a number of rows that is to be found."""

SEARCH_SHARE = Fraction(1, 10)
"""How much of a request finds how many rows of a person to keep."""

KEPT_SHARE = Fraction(1, 20)
"""How much of a request estimates what share of the rows is kept."""

KEYS_ONCE = "each column once, and in one option alone"
"""What the keys of groups must be."""

_LONGEST_COUNT = 30
_NUMBERS = ("epsilon", "delta", "rho", "mu")
_BUDGETS = "numbers of epsilon, delta, rho and mu, each once"
_KEYS = "COLUMN=A,B,C, COLUMN=@FILE with one key a line, or @TABLE.csv alone"


_GRAMMAR = """EVENTS is written as in Python: names of events with their numbers, methods
for samples, + for composition and * for counts. Numbers are exact: 0.01, 1e-5, 1/3.

  gaussian(noise_multiplier=1)         Gaussian noise, in units of sensitivity
  laplace(noise_multiplier=20)         Laplace noise
  pure(epsilon=1)                      anything of which only this is known
  ... .poisson_sampled(rate=0.01)      on a Poisson sample
  ... .fixed_size_sampled(size=256, population=60000)
  ... * 10000 + ...                    a composition

For a wrong name or number, the error shows its column and what is allowed there."""

_WORDS = {"{GRAMMAR}": _GRAMMAR, "{EXIT_CODES}": EXIT_CODES}
"""What stands for several lines in the help of several verbs."""


def _laid_out(text: str) -> str:
    """A help whose indented lines, as of examples, click leaves as they are."""
    text = inspect.cleandoc(text)
    for word, lines in _WORDS.items():
        text = text.replace(word, lines)
    parts = text.split("\n\n")
    return "\n\n".join(f"\b\n{one}" if "\n  " in f"\n{one}" else one for one in parts)


class Verb(click.Command):
    """A verb, whose help is the docstring of its function and ends with the exit codes."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.help = f"{_laid_out(self.help or '')}\n\n{EXIT_CODES}"


verb = functools.partial(click.command, cls=Verb)


class InOrder(click.Group):
    """Verbs in the order in which they were added, not of the alphabet."""

    command_class = Verb

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.help = _laid_out(self.help or "")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the verbs."""
        del ctx
        return list(self.commands)


class Read(click.ParamType[Any]):
    """A type of options: what a text means, and what stands for it in the help.

    read: gives the value for an option's name and its text, or raises InvalidParameter.
    """

    name = "text"

    def __init__(self, read: Callable[[str, str], Any], metavar: str = "X") -> None:
        self.read, self.metavar = read, metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What stands for the text."""
        del param, ctx
        return self.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text."""
        del ctx
        assert param is not None
        name = param.opts[0]
        if isinstance(param, click.Argument):
            name = str(param.metavar).strip("[]")
        return self.read(name, value) if isinstance(value, str) else value


def option(names: str, kind: Read | str, description: str, **more: Any) -> Decorator:
    """An option: its names; its type, or what stands for a plain text; its help."""
    typed = {"metavar": kind} if isinstance(kind, str) else {"type": kind}
    return click.option(*names.split(), **{**typed, **more}, help=description)


def flag(names: str, description: str) -> Decorator:
    """An option without a value."""
    return click.option(*names.split(), is_flag=True, help=description)


json_option = flag("--json as_json", "Print JSON.")


def gathered(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Options that mean one thing together: a verb is given `name`, which `make` makes of them."""

    def decorate(verb: Any) -> Any:
        @functools.wraps(verb)
        def called(**given: Any) -> Any:
            made = make(**{own: given.pop(own) for own in names})
            return verb(**given, **{name: made})

        for add in reversed(options):
            add(called)
        names = [parameter.name for parameter in called.__click_params__[-len(options) :]]  # type: ignore[attr-defined]
        return called

    return decorate


def one_of(*names: str) -> Read:
    """One of some words."""

    def read(name: str, text: str) -> str:
        demand(text in names, name, text, expected=f"one of {', '.join(names)}")
        return text

    return Read(read, "|".join(names))


def number(
    *,
    least: float = 0,
    tiny: float | Fraction = 0,
    most: float = 1e300,
    below: float | None = None,
    above: float | None = None,
) -> Read:
    """Exact numbers in a range: from `least`, or beyond `above`, to before `below`.

    tiny: of numbers that are not 0, the least; most: the largest there is. Both are in the message
    where they say something.
    """

    def read(name: str, text: str) -> Fraction:
        found = exact(name, text)
        said = f"a number above {above:g}" if above is not None else f"a number, {least:g} or above"
        said += "" if below is None else f", below {below:g}"
        said += "" if most == 1e300 and found <= most else f", at most {_short(most)}"
        fits = found >= least if above is None else found > above
        if fits and 0 < found < tiny:
            said, fits = f"0, or a number from {_short(tiny)}", False
        fits = fits and (below is None or found < below) and found <= most
        demand(fits, name, text, expected=said)
        return found

    return Read(read)


def _short(value: float | Fraction) -> str:
    return f"{float(value):g}".replace("e+", "e")


_TINY = Fraction("1e-300")
EPSILON = number()
DELTA = number(below=1, tiny=_TINY)
CONFIDENCE = number(above=0, below=1, tiny=_TINY)


def _file(name: str, text: str) -> Path:
    demand("\0" not in text, name, text, expected="the name of a file")
    expected = "the name of a file; the address of a ledger is given as --ledger"
    demand(not re.match(r"(sqlite|postgres(ql)?)[+\w]*:", text), name, text, expected=expected)
    return Path(text)


FILE = Read(_file, "FILE")

NAMES = Read(
    lambda _name, text: tuple(next(csv.reader([text], skipinitialspace=True), ())), "X,Y,..."
)
"""Names with commas between them; quotes stand around one that has a comma."""


def _relation(name: str, text: str) -> Neighbors:
    from unacorda.privacy.neighbors import Neighbors

    with contextlib.suppress(ValueError):
        return Neighbors(text.strip().lower().replace("-", "_"))
    names = ", ".join(one.value.replace("_", "-") for one in Neighbors)
    raise InvalidParameter(name, text, expected=f"one of {names}")


neighbors = option(
    "--neighbors",
    Read(_relation, "RELATION"),
    "How neighboring tables differ: add-remove, replace-one or zero-out.",
    default="add-remove",
    show_default=True,
)


def price(*, buys: str = "") -> Decorator:
    """The options of a budget, which give the numbers that were written, by name.

    buys: what else a delta is for, in its help.
    """
    return gathered(
        "price",
        lambda **given: {name: given[name] for name in _NUMBERS if given[name] is not None},
        option("--epsilon", "X", "Pure DP; with --delta, approximate DP."),
        option(
            "--delta",
            "X",
            "With --epsilon, --rho or --mu, which then may fail with this probability; 0 "
            f"where it is left out.{buys}",
        ),
        option("--rho", "X", "Zero-concentrated DP."),
        option("--mu", "X", "Gaussian DP."),
    )


def budget_of(name: str, text: str, *, prefix: str = "") -> Guarantee:
    """An account's budget: epsilon=3, or rho=0.5,delta=1e-8, also with blanks between.

    name: the option, where the text is none; prefix: what stands before it there.

    >>> budget_of("--budget", "epsilon=3"), budget_of("--budget", "rho=0.5 delta=1e-8")
    (PureDP(epsilon=3.0), ZCDP(rho=0.5, delta=1e-08))
    """
    form = f"{'NAME=' if prefix else ''}epsilon=3 or rho=0.5,delta=1e-8"
    numbers: dict[str, str] = {}
    for part in re.split(r",|\s+(?=[a-z])", text.strip()):
        kind, sign, value = (piece.strip() for piece in part.partition("="))
        demand(sign and kind, name, prefix + text, expected=form)
        demand(kind in _NUMBERS and kind not in numbers, name, prefix + text, expected=_BUDGETS)
        numbers[kind] = value
    from unacorda.settings import guarantee_of

    return guarantee_of(numbers, name)


BUDGET = Read(budget_of, "KIND=X")


def _count(name: str, text: str) -> int:
    whole = text.strip().isdecimal() and len(text) <= _LONGEST_COUNT and int(text) >= 1
    demand(whole, name, text, expected="a whole number, 1 or above")
    return int(text)


COUNT = Read(_count, "N")


def _count_or_auto(name: str, text: str) -> int | str:
    return AUTO if text.strip() == AUTO else _count(name, text)


def unit_of(
    request: Guarantee | None = None, *, persons: tuple[str, ...], row: bool, **limits: Any
) -> Unit:
    """The unit of privacy that options give; InvalidParameter where they do not go together.

    limits: on rows, by name; request: of which `SEARCH_SHARE` finds the number of rows, where
    `auto` is written for it.
    """
    from unacorda.query.schema.units import Person, Row, auto

    given = {name: limit for name, limit in limits.items() if limit is not None}
    if row:
        expected = "no --unit and no --max-rows with it"
        demand(not persons and not given, "--row", row, expected=expected)
        return Row()
    expected = "--unit with the column that names a person, or --row where every person has "
    demand(persons, "--unit", None, expected=f"{expected}one row at most")
    alone = f", not --{next(iter(given)).replace('_', '-')} alone" if given else ""
    expected = "--max-rows, how many rows of one person may count (auto finds a number), or "
    expected += f"--max-groups with --max-rows-per-group{alone}"
    limited = "max_rows" in given or len(given) == 2
    demand(limited, "--max-rows", None, expected=expected)
    if given.get("max_rows") == AUTO:
        assert request is not None
        given["max_rows"] = auto(budget=request * SEARCH_SHARE, objective="error")
    return Person(persons, **given)


def unit(*, max_rows: str | None = None, groups: bool = False) -> Decorator:
    """The options of the unit, which a verb gets as `whose`.

    max_rows: which rows this option limits, None for a verb without it; groups: whether there are
    limits by group too.
    """
    options = [
        option(
            "--unit persons",
            "COLUMN",
            "The column that names a person, or an expression such as 'lower(email)'; give it "
            "again if several columns identify a person together.",
            multiple=True,
        )
    ]
    if max_rows is not None:
        said = f"The most rows of one person that {max_rows}; auto finds the number privately, for "
        said += "a tenth of the budget, once per account."
        options.append(option("--max-rows", Read(_count_or_auto, "N|auto"), said))
    if groups:
        options += [
            option(
                "--max-groups",
                COUNT,
                "The most groups of a question that the rows of one person fall into. With "
                "--max-rows-per-group, --max-rows may be left out.",
            ),
            option(
                "--max-rows-per-group",
                COUNT,
                "The most rows of one person in one group; without GROUP BY all rows are one.",
            ),
        ]
    row = flag("--row", "Protect single rows; right only if no person has more than one.")
    return gathered("whose", dict, *options, row)


def assignment(name: str, text: str, *, form: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE, split at the first equals sign; a name may be quoted as in SQL.

    >>> assignment("--bounds", '"Cost in EUR"=0:100', form="COLUMN=LOWER:UPPER")
    ('Cost in EUR', '0:100')
    """
    left, sign, right = text.partition("=")
    left = left.strip()
    demand(sign and left, name, text, expected=form)
    if len(left) > 2 and left[0] == left[-1] == '"':
        left = left[1:-1].replace('""', '"')
    return left, right


def _facts(bounds: Sequence[str], columns: Path | None) -> dict[str, Fact]:
    """The public facts by column; InvalidParameter for a column with two."""
    from unacorda.query.schema.table import Bounds

    option, form = "--bounds", "COLUMN=LOWER:UPPER, such as age=0:120"
    found = {} if columns is None else _facts_in(columns)
    for text in bounds:
        column, ends = assignment(option, text, form=form)
        lower, colon, upper = (end.strip() for end in ends.partition(":"))
        demand(colon and lower and upper, option, text, expected=form)
        demand(column not in found, option, text, expected="each column to be declared once")
        try:
            found[column] = Bounds(lower, upper)
        except InvalidParameter as error:
            expected = f"{form}, and as {error.argument} {error.expected}"
            if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", lower):
                days = f"DATE_DIFF('day', DATE '{lower}', {identifier(column)})"
                expected = (
                    f"{form}, in numbers. Dates have none: ask about days, such as "
                    f"MIN(LEAST(GREATEST({days}, 0), 366))"
                )
            raise InvalidParameter(option, text, expected=expected) from None
    return found


def _facts_in(path: Path) -> dict[str, Fact]:
    from unacorda.settings import fact_of

    text = read_text("--columns", path)
    try:
        found = json.loads(text, parse_float=Decimal, object_pairs_hook=once)
    except (ValueError, RecursionError):
        found = None
    expected = 'a JSON object such as {"age": {"bounds": [0, 120]}}, each column named once'
    demand(isinstance(found, dict), "--columns", str(path), expected=expected)
    return {name: fact_of(f"--columns, {name!r}", fact) for name, fact in found.items()}


facts = gathered(
    "facts",
    _facts,
    option(
        "--bounds",
        "COLUMN=LOW:HIGH",
        "Public bounds of a number column; values beyond count as the nearest bound. May be "
        "repeated.",
        multiple=True,
    ),
    option(
        "--columns",
        FILE,
        'Facts by column: {"age": {"bounds": [0, 120]}, "county": {"categories": ["A", "B", '
        'null]}, "day": {"dates": true}, "zip": {"text": true}}. null stands for rows without a '
        "value.",
        metavar="FILE.json",
    ),
)


GivenKeys: TypeAlias = str | Mapping[str, Sequence[str] | None]
"""The keys of groups: the file of a public table, or by column as they were written; None of a
column where they are to be found."""


def _keys_of(keys: Sequence[str], private_keys: Sequence[str]) -> GivenKeys:
    """The keys that the options give; InvalidParameter where they do not go together.

    A list is one line of CSV: quotes keep a comma, and blanks behind a comma are dropped.

    >>> _keys_of(['county=A, B,"C, D"'], ["zip"])
    {'county': ('A', 'B', 'C, D'), 'zip': None}
    >>> _keys_of(["@counties.csv"], [])
    'counties.csv'
    """
    from unacorda.query.schema.sources import is_table

    for text in keys:
        if text.startswith("@"):
            expected = "one .csv, .tsv or .parquet file with the keys of all group columns"
            demand(len(keys) == 1 and is_table(text[1:]), "--keys", text, expected=expected)
            first = next(iter(private_keys), None)
            demand(first is None, "--private-keys", first, expected="no --keys @FILE with it")
            return text[1:]
    found: dict[str, tuple[str, ...] | None] = {}
    for text in keys:
        column, listed = assignment("--keys", text, form=_KEYS)
        demand(column not in found, "--keys", text, expected="each column once")
        file = listed.startswith("@")
        found[column] = _keys_in(column, listed[1:]) if file else listed_in(listed)
        demand(found[column], "--keys", text, expected=_KEYS)
    for column in private_keys:
        demand(column not in found, "--private-keys", column, expected=KEYS_ONCE)
        found[column] = None
    return found


def listed_in(text: str) -> tuple[str, ...]:
    """What a line of CSV lists; nothing for what is no line of it."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True, strict=True), ()))
    except csv.Error:
        return ()


def _keys_in(column: str, name: str) -> tuple[str, ...]:
    lines = read_text("--keys", Path(name)).split("\n")
    found = tuple(line for line in (line.removesuffix("\r") for line in lines) if line)
    expected = "keys alone, one a line, where the first line is the column's name. Take it out, or "
    expected += "write --keys @TABLE.csv for a table with a header"
    headed = found and found[0].strip().casefold() == column.casefold()  # a key of its own else
    demand(not headed, "--keys", f"{column}=@{name}", expected=expected)
    return found


keys = gathered(
    "keys",
    _keys_of,
    option(
        "--keys",
        "COLUMN=A,B,C|COLUMN=@FILE|@TABLE",
        "The public values of a group column: a line of CSV, or a file with one per line; or a "
        "public .csv or .parquet table with the values of all group columns, as @FILE. They are "
        "whole numbers, dates (YYYY-MM-DD) or true and false where the column is; in a CSV file, "
        "whole numbers, or true and false, where all of them are and the column is not declared "
        "as text. May be repeated.",
        multiple=True,
    ),
    option(
        "--private-keys",
        "COLUMN",
        "A group column whose values are found: those that enough people have. Needs --delta. "
        "May be repeated; the columns are then found by their combinations.",
        multiple=True,
    ),
)


@contextlib.contextmanager
def of_file(path: Path) -> Iterator[None]:
    """Name FILE where what a reader of its text was given is refused: the text may hold data."""
    try:
        yield
    except InvalidParameter as error:
        if error.argument not in {"FILE", "text"}:
            raise
        raise error.about("FILE", str(path)) from None
