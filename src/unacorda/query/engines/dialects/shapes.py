"""Forms of DuckDB's SQL that take several nodes, and the plainest ways to write one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from unacorda.query.engines.dialects.typed import Typed, Untranslatable, Writer, Writing

__all__ = [
    "call",
    "chained",
    "distinct_parts",
    "is_hexadecimal",
    "is_made_date",
    "lambda_parts",
    "parts_of_text",
    "text_to_boolean",
]

_TRUE, _FALSE = ("t", "true", "1", "y", "yes"), ("f", "false", "0", "n", "no")


def lambda_parts(node: exp.Expression) -> tuple[exp.Expression, str, exp.Expression]:
    """Of list_transform([value], lambda name: body)[1] the value, the name and the body."""
    inner = node.this
    if not isinstance(inner, exp.Transform):
        raise Untranslatable("a list")
    (operand,), function = inner.this.expressions, inner.args["expression"]
    (name,) = function.expressions
    return operand, name.name, function.this


def parts_of_text(node: exp.Expression) -> tuple[exp.Expression, str, int]:
    """Of unnest(list_slice(string_split(text, separator), 1, most)) the text, the other two."""
    match node.this:
        case exp.Anonymous(
            expressions=[exp.Split() as split, exp.Literal(), exp.Literal() as most]
        ):
            return split.this, split.args["expression"].name, int(most.name)
        case _:
            raise Untranslatable("UNNEST")


def distinct_parts(node: exp.Expression) -> list[exp.Expression]:
    """What count(DISTINCT ...) counts: columns, or those of one tuple."""
    parts: list[exp.Expression] = node.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Tuple):
        return list(parts[0].expressions)
    return parts


def is_hexadecimal(node: object) -> bool:
    """Whether it is '0x' || left(md5(...), ...), which reads as a whole number in DuckDB."""
    match node:
        case exp.DPipe(this=exp.Literal(this="0x"), expression=exp.Left(this=exp.MD5())):
            return True
        case _:
            return False


def is_made_date(node: exp.Expr) -> bool:
    """Whether it is lpad(year, 4, '0') || '-' || lpad(month, ...) || '-' || lpad(day, ...)."""
    parts: list[exp.Expr] = [node.unnest()]
    while isinstance(parts[0], exp.DPipe):
        parts[:1] = [parts[0].this, parts[0].args["expression"]]
    widths = [p.args["expression"].name if isinstance(p, exp.Pad) else p.name for p in parts]
    pads = [isinstance(part, exp.Pad) for part in parts]
    return widths == ["4", "-", "2", "-", "2"] and pads == [True, False, True, False, True]


def chained(writer: Writer, node: exp.Expression) -> list[Typed]:
    """The operands of a || b || ..., in order."""
    parts: list[object] = [node]
    found: list[Typed] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.DPipe):
            parts += [part.args["expression"], part.this]
        else:
            found.append(writer.value(part))
    return found


def call(name: str, *parts: str, type: str = "TEXT") -> Writing:
    """A function of the same name and value on both engines, of the parts of its node in order."""

    def write(writer: Writer, node: exp.Expression) -> Typed:
        operands = [writer.value(node.args[part]).sql for part in parts if node.args.get(part)]
        return Typed(f"{name}({', '.join(operands)})", type)

    return write


def text_to_boolean(x: str, bound: Callable[[str, Callable[[str], str]], str]) -> str:
    """SQL of the words that DuckDB reads as true or false; any other text is NULL.

    bound: how this engine gives a name to what is used several times.
    """
    true, false = (", ".join(f"'{word}'" for word in words) for words in (_TRUE, _FALSE))
    return bound(
        f"lower({x})",
        lambda v: f"(CASE WHEN {v} IN ({true}) THEN TRUE WHEN {v} IN ({false}) THEN FALSE END)",
    )
