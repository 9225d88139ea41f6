"""From sqlglot's tree to ours: an allow-list of node classes, each with the arguments it may carry.

Nothing of sqlglot's own rendering reaches the engine, and an argument the list does not know
refuses the node, so that no part of what was written is silently left out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from tacet.errors import UnsafeExpression
from tacet.query.expressions import literals, refusals
from tacet.query.expressions.syntax import MOST_LEVELS
from tacet.query.expressions.tree import Literal, Name, Node, Operation

__all__ = ["Reader"]

_MOST_POSITION = 1_000_000
_MOST_DIGITS = 15

_TYPES = {
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "TEXT": "VARCHAR",
    "VARCHAR": "VARCHAR",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
}
_PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "DOW", "HOUR", "MINUTE", "SECOND")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads nodes of one text.

    text: the whole text, for messages; qualifiers: table names that may precede a column;
    level: how many nodes stand above.
    """

    text: str
    qualifiers: frozenset[str] = frozenset()
    level: int = 0

    def read(self, node: object) -> Node:
        """Our tree of a node.

        Raises UnsafeExpression naming the first part that is not allowed.
        """
        try:
            return self.node(node)
        except RecursionError:
            raise refusals.too_deep(self.text) from None

    def node(self, node: object) -> Node:
        """Our tree of a node that stands one level further down."""
        node = _bare(node)
        if self.level > MOST_LEVELS:
            raise refusals.too_deep(self.text)
        rule = _RULES.get(type(node)) if isinstance(node, exp.Expression) else None
        if rule is None or not isinstance(node, exp.Expression):
            raise refusals.refusal(self.text, node)
        if not set(_given(node)) <= rule.arguments:
            raise self.refuse(node)
        return rule.read(replace(self, level=self.level + 1), node)

    def nodes(self, *nodes: object) -> tuple[Node, ...]:
        """Our trees of several nodes."""
        return tuple(self.node(node) for node in nodes)

    def refuse(self, node: object, mend: str | None = None) -> UnsafeExpression:
        """The refusal of the form in which an allowed node was written."""
        return refusals.refusal(self.text, node, form=True, mend=mend)

    def whole(self, node: object, within: exp.Expression, *, least: int, most: int) -> int:
        """A literal whole number in a range.

        Raises UnsafeExpression for anything else.
        """
        found = self.node(node)
        if isinstance(found, Literal) and type(found.value) is int and least <= found.value <= most:
            return found.value
        raise self.refuse(within, f"Write a literal whole number from {least} to {most} there.")


@dataclass(frozen=True, slots=True)
class _Rule:
    read: Callable[[Reader, exp.Expression], Node]
    arguments: frozenset[str]


def _given(node: exp.Expression) -> list[str]:
    return [key for key, value in node.args.items() if value not in (None, False, [], "")]


def _bare(node: object) -> object:
    while isinstance(node, exp.Paren) and _given(node) == ["this"]:
        node = node.this
    return node


def _fixed(name: str, *keys: str) -> Callable[[Reader, exp.Expression], Node]:
    """A rule for an operation whose operands are these arguments, all of them required."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        return Operation(name, reader.nodes(*(node.args.get(key) for key in keys)))

    return read


def _listed(name: str) -> Callable[[Reader, exp.Expression], Node]:
    """A rule for an operation of any number of operands."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        first = [node.this] if node.args.get("this") is not None else []
        return Operation(name, reader.nodes(*first, *node.expressions))

    return read


def _chain(name: str) -> Callable[[Reader, exp.Expression], Node]:
    """AND or OR: a chain of them is one operation, however long."""

    def read(reader: Reader, node: exp.Expression) -> Node:
        waiting: list[object] = [node]
        operands: list[object] = []
        while waiting:
            part = _bare(waiting.pop())
            if type(part) is type(node) and isinstance(part, exp.Expression):
                if not set(_given(part)) <= {"this", "expression"}:
                    raise reader.refuse(part)
                waiting += [part.args.get("expression"), part.this]
            else:
                operands.append(part)
        return Operation(name, reader.nodes(*operands))

    return read


def _column(reader: Reader, node: exp.Expression) -> Node:
    table = node.args.get("table")
    if table is not None and table.name not in reader.qualifiers:
        raise reader.refuse(node, "Write the name of the column alone.")
    if not isinstance(node.this, exp.Identifier):
        raise refusals.refusal(reader.text, node.this)
    return Name(node.this.name)


def _literal(reader: Reader, node: exp.Expression) -> Node:
    if node.args.get("is_string"):
        return Literal(node.this)
    value = literals.number(node.this)
    if value is None:
        raise reader.refuse(
            node,
            "A double does not hold this number exactly, or at all: write it with a decimal "
            "point to have it rounded, or in quotes if it names something.",
        )
    return Literal(value)


def _negative(reader: Reader, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match operand:
        case Literal(bool()):
            pass
        case Literal(int() | float() as value):
            return Literal(-value if value else value)
        case Operation("NEGATIVE", (inner,)):
            return inner
        case _:
            pass
    return Operation("NEGATIVE", (operand,))


def _maybe_not(node: exp.Expression, found: Node) -> Node:
    return Operation("NOT", (found,)) if node.args.get("negate") else found


def _is(reader: Reader, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match _bare(node.args.get("expression")):
        case exp.Null():
            return Operation("IS NULL", (operand,))
        case exp.Boolean() as truth:
            return Operation("IS NOT DISTINCT FROM", (operand, reader.node(truth)))
        case _:
            raise reader.refuse(node, "Write IS NULL, IS TRUE, IS FALSE or =.")


def _like(name: str) -> Callable[[Reader, exp.Expression], Node]:
    def read(reader: Reader, node: exp.Expression) -> Node:
        operand, pattern = reader.nodes(node.this, node.args.get("expression"))
        if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
            raise reader.refuse(node, "Write the pattern as a text literal: x LIKE 'a%'.")
        return _maybe_not(node, Operation(name, (operand, pattern)))

    return read


def _in(reader: Reader, node: exp.Expression) -> Node:
    if node.args.get("query") is not None:
        raise refusals.refusal(reader.text, node.args["query"])
    choices = reader.nodes(*node.expressions)
    if not choices or not all(isinstance(choice, Literal) for choice in choices):
        raise reader.refuse(node, "Write a list of literals: x IN (1, 2, 3).")
    return Operation("IN", (reader.node(node.this), *choices))


def _between(reader: Reader, node: exp.Expression) -> Node:
    found = _fixed("BETWEEN", "this", "low", "high")(reader, node)
    return _maybe_not(node, found)


def _case(reader: Reader, node: exp.Expression) -> Node:
    parts: list[Node] = []
    for arm in node.args.get("ifs") or ():
        if not isinstance(arm, exp.If) or set(_given(arm)) != {"this", "true"}:
            raise reader.refuse(node)
        parts += reader.nodes(arm.this, arm.args["true"])
    default = node.args.get("default")
    parts.append(Literal(None) if default is None else reader.node(default))
    if node.args.get("this") is None:
        return Operation("CASE", tuple(parts))
    return Operation("SWITCH", (reader.node(node.this), *parts))


def _if(reader: Reader, node: exp.Expression) -> Node:
    otherwise = node.args.get("false")
    default: Node = Literal(None) if otherwise is None else reader.node(otherwise)
    return Operation("CASE", (*reader.nodes(node.this, node.args.get("true")), default))


def _round(reader: Reader, node: exp.Expression) -> Node:
    digits = node.args.get("decimals")
    option = 0
    if digits is not None:
        option = reader.whole(digits, node, least=-_MOST_DIGITS, most=_MOST_DIGITS)
    return Operation("ROUND", (reader.node(node.this),), option)


def _log(reader: Reader, node: exp.Expression) -> Node:
    base = reader.node(node.this)
    if node.args.get("expression") is not None and isinstance(base, Literal):
        name = {10: "LOG10", 2: "LOG2"}.get(base.value if type(base.value) is int else 0)
        if name:
            return Operation(name, (reader.node(node.args["expression"]),))
    raise reader.refuse(node, "Write LN(x), LOG10(x) or LOG2(x).")


def _substring(reader: Reader, node: exp.Expression) -> Node:
    start = reader.whole(node.args.get("start"), node, least=1, most=_MOST_POSITION)
    length = _MOST_POSITION
    if node.args.get("length") is not None:
        length = reader.whole(node.args["length"], node, least=0, most=_MOST_POSITION)
    return Operation("SUBSTRING", (reader.node(node.this), Literal(start), Literal(length)))


def _part(part: str) -> Callable[[Reader, exp.Expression], Node]:
    def read(reader: Reader, node: exp.Expression) -> Node:
        return Operation("EXTRACT", (reader.node(node.this),), part)

    return read


def _word(reader: Reader, node: exp.Expression, word: object, known: tuple[str, ...]) -> str:
    name = word.name.upper() if isinstance(word, exp.Var | exp.Literal) else ""
    name = "DOW" if name == "DAYOFWEEK" else name
    if name not in known:
        raise reader.refuse(node, f"The parts are {', '.join(known)}.")
    return name


def _extract(reader: Reader, node: exp.Expression) -> Node:
    part = _word(reader, node, node.this, _PARTS)
    return Operation("EXTRACT", (reader.node(node.args.get("expression")),), part)


def _date_diff(reader: Reader, node: exp.Expression) -> Node:
    unit = _word(reader, node, node.args.get("unit"), _UNITS)
    start, end = reader.nodes(node.args.get("expression"), node.this)  # sqlglot holds end first
    return Operation("DATE_DIFF", (start, end), unit)


def _cast(reader: Reader, node: exp.Expression) -> Node:
    to = node.args.get("to")
    name = _TYPES.get(to.this.name) if isinstance(to, exp.DataType) and _plain(to) else None
    if name is None:
        raise reader.refuse(
            node, f"The types are {', '.join(dict.fromkeys(_TYPES.values()))}, without lengths."
        )
    operand = reader.node(node.this)
    if isinstance(operand, Literal) and isinstance(operand.value, str):
        if name == "VARCHAR":
            return operand
        if name in ("DATE", "TIMESTAMP"):
            value = literals.moment(operand.value, date=name == "DATE")
            if value is not None:
                return Literal(value)
            if type(node) is exp.Cast:  # also DATE '...', which must be a date
                raise reader.refuse(
                    node, "Write DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'."
                )
    return Operation("TRY_CAST", (operand,), name)


def _plain(to: exp.DataType) -> bool:
    return isinstance(to.this, exp.DataType.Type) and set(_given(to)) <= {"this"}


def _rules() -> dict[type[object], _Rule]:
    def two(name: str) -> Callable[[Reader, exp.Expression], Node]:
        return _fixed(name, "this", "expression")

    def one(name: str) -> Callable[[Reader, exp.Expression], Node]:
        return _fixed(name, "this")

    table: dict[type[object], tuple[Callable[[Reader, exp.Expression], Node], str]] = {
        exp.Column: (_column, "this table"),
        exp.Literal: (_literal, "this is_string"),
        exp.Boolean: (lambda _, node: Literal(bool(node.this)), "this"),
        exp.Null: (lambda _, __: Literal(None), ""),
        exp.Neg: (_negative, "this"),
        exp.And: (_chain("AND"), "this expression"),
        exp.Or: (_chain("OR"), "this expression"),
        exp.Not: (one("NOT"), "this"),
        exp.Is: (_is, "this expression"),
        exp.Like: (_like("LIKE"), "this expression negate"),
        exp.ILike: (_like("ILIKE"), "this expression negate"),
        exp.In: (_in, "this expressions query"),
        exp.Between: (_between, "this low high negate"),
        exp.Case: (_case, "this ifs default"),
        exp.If: (_if, "this true false"),
        exp.Coalesce: (_listed("COALESCE"), "this expressions"),
        exp.Least: (_listed("LEAST"), "this expressions ignore_nulls"),
        exp.Greatest: (_listed("GREATEST"), "this expressions ignore_nulls"),
        exp.Concat: (_listed("CONCAT"), "expressions safe coalesce"),
        exp.DPipe: (two("||"), "this expression safe"),
        exp.Round: (_round, "this decimals"),
        exp.Log: (_log, "this expression"),
        exp.Substring: (_substring, "this start length"),
        exp.Extract: (_extract, "this expression"),
        exp.DateDiff: (_date_diff, "this expression unit date_part_boundary"),
        exp.Cast: (_cast, "this to"),
        exp.TryCast: (_cast, "this to safe"),
    }
    for kind, name in {
        exp.EQ: "=",
        exp.NEQ: "<>",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
        exp.NullSafeEQ: "IS NOT DISTINCT FROM",
        exp.NullSafeNEQ: "IS DISTINCT FROM",
        exp.Add: "+",
        exp.Sub: "-",
        exp.Mul: "*",
        exp.Div: "/",
        exp.Mod: "%",
        exp.Pow: "POWER",
        exp.Nullif: "NULLIF",
        exp.StartsWith: "STARTS_WITH",
        exp.Contains: "CONTAINS",
    }.items():
        table[kind] = (two(name), "this expression typed safe")
    for kind in (exp.Abs, exp.Floor, exp.Ceil, exp.Sign, exp.Sqrt, exp.Ln, exp.Exp):
        table[kind] = (one(kind.__name__.upper()), "this")
    for kind in (exp.Lower, exp.Upper, exp.Trim, exp.Length):
        table[kind] = (one(kind.__name__.upper()), "this")
    for kind in (exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour):
        table[kind] = (_part(kind.__name__.upper()), "this")
    table[exp.DayOfMonth] = (_part("DAY"), "this")
    table[exp.DayOfWeek] = (_part("DOW"), "this")
    return {kind: _Rule(read, frozenset(keys.split())) for kind, (read, keys) in table.items()}


_RULES = _rules()
