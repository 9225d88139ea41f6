"""The forms of the language that are not functions: columns, literals, operators, CASE, CAST."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from sqlglot import exp

from unacorda.query.expressions import literals
from unacorda.query.expressions.rule import (
    Read,
    Reading,
    Rule,
    bare,
    fixed,
    given,
    listed,
    maybe_not,
    one,
    rules,
    two,
)
from unacorda.query.expressions.tree import Literal, Name, Node, Operation

__all__ = ["FORMS"]

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


def _chain(name: str) -> Read:
    """AND or OR: a chain of them is one operation, however long."""

    def read(reader: Reading, node: exp.Expression) -> Node:
        waiting: list[object] = [node]
        operands: list[object] = []
        while waiting:
            part = bare(waiting.pop())
            if type(part) is type(node) and isinstance(part, exp.Expression):
                if not set(given(part)) <= {"this", "expression"}:
                    raise reader.refuse(part)
                waiting += [part.args.get("expression"), part.this]
            else:
                operands.append(part)
        return Operation(name, reader.nodes(*operands))

    return read


def _column(reader: Reading, node: exp.Expression) -> Node:
    table = node.args.get("table")
    if table is not None and table.name not in reader.qualifiers:
        raise reader.refuse(node, "Write the name of the column alone.")
    if not isinstance(node.this, exp.Identifier):
        raise reader.unknown(node.this)
    return Name(node.this.name)


def _literal(reader: Reading, node: exp.Expression) -> Node:
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


def _negative(reader: Reading, node: exp.Expression) -> Node:
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


def _is(reader: Reading, node: exp.Expression) -> Node:
    operand = reader.node(node.this)
    match bare(node.args.get("expression")):
        case exp.Null():
            return Operation("IS NULL", (operand,))
        case exp.Boolean() as truth:
            return Operation("IS NOT DISTINCT FROM", (operand, reader.node(truth)))
        case _:
            raise reader.refuse(node, "Write IS NULL, IS TRUE, IS FALSE or =.")


def _like(name: str) -> Read:
    def read(reader: Reading, node: exp.Expression) -> Node:
        operand, pattern = reader.nodes(node.this, node.args.get("expression"))
        if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
            raise reader.refuse(node, "Write the pattern as a text literal: x LIKE 'a%'.")
        return maybe_not(node, Operation(name, (operand, pattern)))

    return read


def _in(reader: Reading, node: exp.Expression) -> Node:
    if node.args.get("query") is not None:
        raise reader.unknown(node.args["query"])
    choices = reader.nodes(*node.expressions)
    if not choices or not all(isinstance(choice, Literal) for choice in choices):
        raise reader.refuse(node, "Write a list of literals: x IN (1, 2, 3).")
    return Operation("IN", (reader.node(node.this), *choices))


def _between(reader: Reading, node: exp.Expression) -> Node:
    return maybe_not(node, fixed("BETWEEN", "this", "low", "high")(reader, node))


def _case(reader: Reading, node: exp.Expression) -> Node:
    parts: list[Node] = []
    for arm in node.args.get("ifs") or ():
        if not isinstance(arm, exp.If) or set(given(arm)) != {"this", "true"}:
            raise reader.refuse(node)
        parts += reader.nodes(arm.this, arm.args["true"])
    default = node.args.get("default")
    parts.append(Literal(None) if default is None else reader.node(default))
    if node.args.get("this") is None:
        return Operation("CASE", tuple(parts))
    return Operation("SWITCH", (reader.node(node.this), *parts))


def _if(reader: Reading, node: exp.Expression) -> Node:
    otherwise = node.args.get("false")
    default: Node = Literal(None) if otherwise is None else reader.node(otherwise)
    return Operation("CASE", (*reader.nodes(node.this, node.args.get("true")), default))


def _cast(reader: Reading, node: exp.Expression) -> Node:
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
    return isinstance(to.this, exp.DataType.Type) and set(given(to)) <= {"this"}


FORMS: dict[type[object], Rule] = rules(
    {
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
        exp.Coalesce: (listed("COALESCE"), "this expressions"),
        exp.Least: (listed("LEAST"), "this expressions ignore_nulls"),
        exp.Greatest: (listed("GREATEST"), "this expressions ignore_nulls"),
        exp.Nullif: (two("NULLIF"), "this expression"),
        exp.Cast: (_cast, "this to"),
        exp.TryCast: (_cast, "this to safe"),
        exp.DPipe: (two("||"), "this expression safe"),
        exp.Mul: (two("*"), "this expression"),
        exp.Div: (two("/"), "this expression typed safe"),
        exp.Mod: (two("%"), "this expression"),
        exp.Pow: (two("POWER"), "this expression"),
        exp.EQ: (two("="), "this expression"),
        exp.NEQ: (two("<>"), "this expression"),
        exp.LT: (two("<"), "this expression"),
        exp.LTE: (two("<="), "this expression"),
        exp.GT: (two(">"), "this expression"),
        exp.GTE: (two(">="), "this expression"),
        exp.NullSafeEQ: (two("IS NOT DISTINCT FROM"), "this expression"),
        exp.NullSafeNEQ: (two("IS DISTINCT FROM"), "this expression"),
    }
)
