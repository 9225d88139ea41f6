"""Events as text, such as `gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 100`.

`written` gives an event in the grammar, `read_event` reads it back. The grammar is the signatures
of the events and of their methods. Text is parsed by Python's `ast`, and of its trees only sums,
counts, numbers and such calls mean anything; nothing is ever evaluated by Python.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from unacorda.checks import demand, exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import EVENT_KINDS, Composed, Event, Repeated, compose

ARGUMENT = "EVENTS"
"""What the command line calls the text."""

Number: TypeAlias = int | float | Fraction
Value: TypeAlias = Any  # an event, a number, or a tuple of values
Places: TypeAlias = Mapping[str, inspect.Parameter]

_EXAMPLE = "'gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 100'"
_AN_EVENT = f"events, such as {_EXAMPLE}"
_A_NUMBER = "a number, such as 2, 0.5, 1e-5 or 1/3"
_MOST_SIGNS = 10_000
_DEEPEST = 80
_MOST_BITS = 2500
_SMALLEST, _LARGEST = Fraction("5e-324"), 10**308
_SIGNS = re.compile(r"[A-Za-z0-9_ .,+*/()\[\]=\n\r\t-]*")
_DECIMAL = re.compile(r"(?=\.?[0-9])[0-9_]{0,120}(\.[0-9_]{0,120})?([eE][+-]?[0-9]{1,3})?")


def _snake(name: str) -> str:
    """A class's name in lower case, its words divided by underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


CLASSES: dict[str, type] = {kind.__name__: kind for kind in EVENT_KINDS}
"""The events of the closed union, by their own names."""

KINDS: dict[str, type] = {_snake(name): kind for name, kind in CLASSES.items()}
"""The events of the closed union, as the grammar names them first."""

NAMED = CLASSES | KINDS
"""The events by all their names."""


def places(kind: type) -> Places:
    """The arguments of an event."""
    return inspect.signature(kind).parameters


def is_whole(place: inspect.Parameter) -> bool:
    """Whether an argument is a whole number."""
    return str(place.annotation).startswith("int")


def is_optional(place: inspect.Parameter) -> bool:
    """Whether an argument may be left out."""
    return place.default is not place.empty


def _methods(kind: type) -> dict[str, inspect.Signature]:
    """The public methods of an event that give an event of the union, without `self`."""
    found = {}
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        signature = inspect.signature(function)
        if not name.startswith("_") and signature.return_annotation in CLASSES:
            _, *arguments = signature.parameters.values()
            found[name] = signature.replace(parameters=arguments)
    return found


METHODS: dict[str, dict[str, inspect.Signature]] = {
    name: _methods(kind) for name, kind in CLASSES.items()
}
"""By the name of an event, its methods that give events."""


def depth(event: Event) -> int:
    """How deep events stand in events: 1 for one that holds none; counts no further than 1000.

    >>> from unacorda.privacy.events import Pure
    >>> depth(Pure(epsilon=1)), depth(Pure(epsilon=1).shuffled(count=9) * 2)
    (1, 3)
    """
    level: list[Any] = [event]
    found = 0
    while level and found < 1000:
        found += 1
        held = [getattr(one, name) for one in level for name in one.__dataclass_fields__]
        parts = (part for one in held if isinstance(one, tuple) for part in one)
        level = [one for one in (*held, *parts) if _is_event(one)]
    return found


def written(event: Event) -> str:
    """The event in the grammar; what reads it gives the event back.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> steps = Gaussian(noise_multiplier=Fraction(1, 3)).poisson_sampled(rate=0.1) * 9
    >>> written(steps + Pure(epsilon=1))
    'gaussian(noise_multiplier=1/3).poisson_sampled(rate=0.1) * 9 + pure(epsilon=1)'
    """
    match event:
        case Composed(parts=parts):
            return " + ".join(map(written, parts))
        case Repeated(event=one, count=count):
            return f"{written(one)} * {count}"
        case _:
            pass
    kind = type(event)
    inner: Any = getattr(event, "event", None)
    for name, method in METHODS.get(type(inner).__name__, {}).items():
        if method.return_annotation == kind.__name__:
            receiver = written(inner)
            receiver = f"({receiver})" if isinstance(inner, Composed | Repeated) else receiver
            return f"{receiver}.{name}({_arguments(event, method.parameters)})"
    return f"{_snake(kind.__name__)}({_arguments(event, places(kind))})"


def _arguments(event: Event, expected: Places) -> str:
    values = {name: getattr(event, name) for name in expected}
    said = [name for name, place in expected.items() if values[name] != place.default]
    return ", ".join(f"{name}={_value(values[name])}" for name in said)


def _value(value: Value) -> str:
    match value:
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Fraction():
            return str(value)
        case int() | float():
            return repr(value)
        case _:
            return written(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Events with free names where numbers stand.

    names: the free names, in the order of the text; whole: those that stand where a whole number
    must.
    """

    text: str
    tree: ast.expr
    names: tuple[str, ...]
    whole: frozenset[str]

    def event(self, **values: Number) -> Event:
        """The events with these numbers for the free names; errors as `read_event`."""
        reader = _Reader(self.text, values)
        found = reader.value(self.tree)
        if not _is_event(found):
            raise reader.wrong(self.tree, _AN_EVENT)
        event: Event = found
        return event


def read_event(text: str) -> Event:
    """The event that a text says.

    Raises InvalidParameter, which names the column and the hint, for any other text.

    >>> read_event("gaussian(noise_multiplier=1/3) * 2")
    Repeated(event=Gaussian(noise_multiplier=Fraction(1, 3)), count=2)
    >>> read_event("gauss(noise_multiplier=1)")
    Traceback (most recent call last):
    unacorda.errors.InvalidParameter: EVENTS, column 1='gauss' cannot be used: expected ...
    """
    return read_template(text).event()


def read_template(text: str) -> Template:
    """The events that a text says of its free names, as `gaussian(noise_multiplier=x)`.

    >>> found = read_template("gaussian(noise_multiplier=x) * n")
    >>> found.names, sorted(found.whole), found.event(x=2, n=3)
    (('x', 'n'), ['n'], Repeated(event=Gaussian(noise_multiplier=2), count=3))
    """
    tree = _parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    free = sorted((n for n in _names(tree) if id(n) not in called), key=lambda n: n.col_offset)
    return Template(
        text=text,
        tree=tree,
        names=tuple(dict.fromkeys(node.id for node in free)),
        whole=frozenset(node.id for counted in _counts(tree) for node in _names(counted)),
    )


def _parsed(text: str) -> ast.expr:
    if len(text) > _MOST_SIGNS:
        expected = f"at most {_MOST_SIGNS} characters; longer ones come as JSON, with --event-json"
        raise InvalidParameter(ARGUMENT, f"{text[:40]}...", expected=expected)
    known = _SIGNS.match(text)
    assert known is not None
    if known.end() < len(text):
        expected = f"names, numbers, + * / ( ) [ ] and commas: {_EXAMPLE}"
        raise _error(known.end(), text[known.end()], expected)
    # Blanks in front are an indentation to Python, and a line's end the end of the text.
    line = re.sub(r"\s", " ", text)
    blanks = len(line) - len(line.lstrip())
    demand(line.strip(), ARGUMENT, text, expected=_AN_EVENT)
    column, said = blanks, "too deep"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(line.strip(), mode="eval").body
    except SyntaxError as error:
        column, said = blanks + max((error.offset or 1) - 1, 0), error.msg.partition(":")[0]
    except (ValueError, RecursionError, MemoryError):
        pass
    else:
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                node.col_offset += blanks
                node.end_col_offset = (node.end_col_offset or 0) + blanks
        _check_depth(line, tree)
        return tree
    raise _error(column, line[column : column + 20], f"{_AN_EVENT} ({said})")


def _check_depth(text: str, tree: ast.expr) -> None:
    """Refuse what stands too deep in each other; the terms of a sum stand next to each other."""
    left: list[tuple[ast.AST, int]] = [(tree, 1)]
    while left:
        node, level = left.pop()
        if level > _DEEPEST and isinstance(node, ast.expr):
            expected = f"at most {_DEEPEST} steps inside each other"
            raise _error(node.col_offset, text[node.col_offset : node.end_col_offset], expected)
        added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        inner = ast.iter_child_nodes(node)  # of a sum first what is added to
        left += [(one, level if added and n == 0 else level + 1) for n, one in enumerate(inner)]


def _counts(tree: ast.expr) -> Iterator[ast.expr]:
    """What stands where a whole number must: the counts of events, and arguments of that kind."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                sides = [
                    x
                    for x in (left, right)
                    if not any(isinstance(n, ast.Call) for n in ast.walk(x))
                ]
                if len(sides) == 1:
                    yield sides[0]
            case ast.Call(func=ast.Name(id=name), keywords=keywords):
                yield from _whole(keywords, [places(NAMED[name])] if name in NAMED else [])
            case ast.Call(func=ast.Attribute(attr=name), keywords=keywords):
                found = [methods[name] for methods in METHODS.values() if name in methods]
                yield from _whole(keywords, [method.parameters for method in found])
            case _:
                pass


def _whole(given: Sequence[ast.keyword], expected: Sequence[Places]) -> Iterator[ast.expr]:
    """The arguments that are whole numbers of any of these calls."""
    known = {name for one in expected for name, place in one.items() if is_whole(place)}
    return (keyword.value for keyword in given if keyword.arg in known)


def _names(tree: ast.expr) -> list[ast.Name]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


class _Reader:
    """Turns a tree into events; `wrong` says where and what should stand there."""

    def __init__(self, text: str, values: Mapping[str, Number]) -> None:
        self.text, self.values = text, values

    def said(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]

    def wrong(self, node: ast.expr, expected: str) -> InvalidParameter:
        return _error(node.col_offset, self.said(node), expected)

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.BinOp(op=ast.Add()):
                return self._sum(node)
            case ast.BinOp(op=ast.Mult()):
                return self._product(node)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self._kept(node, self._exact(left) - self._exact(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                dividend, divisor = self._exact(left), self._exact(right)
                if divisor == 0:
                    raise self.wrong(right, "a number other than 0, since it divides")
                return self._kept(node, dividend / divisor)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._kept(node, -self._exact(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._kept(node, self._exact(operand))
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name) if name in self.values:
                return self.values[name]
            case ast.Name(id=name):
                raise self.wrong(node, self._unknown(name))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return tuple(map(self.value, elements))
            case ast.Call():
                return self._call(node)
            case ast.Attribute(attr=attribute):
                raise self.wrong(node, f"its arguments behind it, in ( ): .{attribute}(...)")
            case ast.BinOp(op=ast.Pow()):
                raise self.wrong(node, "the number written out, such as 1e4")
            case _:
                raise self.wrong(node, _AN_EVENT)

    def _sum(self, node: ast.BinOp) -> Value:
        terms: list[ast.expr] = []
        rest: ast.expr = node
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Add):
            terms.append(rest.right)
            rest = rest.left
        terms = [rest, *reversed(terms)]
        found = list(map(self.value, terms))
        events = list(map(_is_event, found))
        if all(events):
            return compose(found)
        if any(events):
            raise self.wrong(terms[events.index(False)], "an event, since events add to events")
        return self._kept(node, sum(map(self._number, terms, found), start=Fraction(0)))

    def _product(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        match _is_event(left), _is_event(right):
            case True, True:
                raise self.wrong(node.right, "a count: events are composed with +")
            case False, False:
                product = self._number(node.left, left) * self._number(node.right, right)
                return self._kept(node, product)
            case first, _:
                event, count, place = (
                    (left, right, node.right) if first else (right, left, node.left)
                )
                times = _without_fraction(self._kept(place, self._number(place, count)))
                if not isinstance(times, int) or times < 1:
                    raise self.wrong(place, "a count, a whole number of 1 or above")
                return compose([event], count=times)

    def _exact(self, node: ast.expr) -> Fraction:
        return self._number(node, self.value(node))

    def _number(self, node: ast.expr, value: Value) -> Fraction:
        if isinstance(value, int | float | Fraction):
            return exact(ARGUMENT, value)
        raise self.wrong(node, "a number here; events only add up and are counted")

    def _kept(self, node: ast.expr, number: Fraction) -> Number:
        """A number that is used: a whole one as int."""
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        if bits > _MOST_BITS or (number and not _SMALLEST <= abs(number) <= _LARGEST):
            raise self.wrong(node, "a number from 5e-324 to 1e308, or 0, with fewer digits")
        return number.numerator if number.denominator == 1 else number

    def _constant(self, node: ast.Constant) -> Number:
        """A number as it was written: as float where that prints as the same decimal."""
        said = self.said(node)
        if not _DECIMAL.fullmatch(said):
            raise self.wrong(node, _A_NUMBER)
        number = Fraction(said.replace("_", ""))
        kept = self._kept(node, number)
        if re.fullmatch(r"[0-9_]+", said):
            return kept
        near = float(number)
        return near if Fraction(repr(near)) == number else number

    def _unknown(self, name: str) -> str:
        """What a name that stands alone should be."""
        if name in NAMED:
            return f"its arguments behind it: {_form(name, places(NAMED[name]))}"
        asked = _alike(name, otherwise=_A_NUMBER)
        return f"{asked} (free names are for `unacorda calibrate`, one of them)"

    def _call(self, node: ast.Call) -> Event:
        match node.func:
            case ast.Name(id=name):
                if name not in NAMED:
                    raise self.wrong(node.func, _alike(name, otherwise=f"an event: {_KNOWN}"))
                return self._built(node, name, places(NAMED[name]), NAMED[name])
            case ast.Attribute(value=receiver, attr=name):
                event = self.value(receiver)
                if not _is_event(event):
                    raise self.wrong(receiver, f"an event in front of .{name}(...)")
                methods = METHODS[type(event).__name__]
                if name not in methods:
                    start = (node.func.end_col_offset or 0) - len(name)
                    listed = ", ".join(difflib.get_close_matches(name, methods, n=1) or methods)
                    raise _error(start, name, f"one of the methods of events: {listed}")
                return self._built(node, name, methods[name].parameters, getattr(event, name))
            case _:
                raise self.wrong(node.func, f"the name of an event: {_KNOWN}")

    def _built(self, node: ast.Call, name: str, expected: Places, make: Any) -> Event:
        form = _form(name, expected)
        if node.args:
            raise self.wrong(node.args[0], f"its name in front of it: {form}")
        values: dict[str, Value] = {}
        nodes: dict[str, ast.expr] = {}
        for keyword in node.keywords:
            own = keyword.arg or "**"
            if own not in expected:
                raise _error(keyword.col_offset, own, form)
            if own in values:
                raise _error(keyword.col_offset, own, f"{own} once: {form}")
            value = self.value(keyword.value)
            values[own] = _without_fraction(value) if is_whole(expected[own]) else value
            nodes[own] = keyword.value
        missing = [
            own for own, place in expected.items() if own not in values and not is_optional(place)
        ]
        if missing:
            raise self.wrong(node, f"{' and '.join(missing)} as well: {form}")
        try:
            event: Event = make(**values)
        except InvalidParameter as error:
            at = nodes.get(error.argument, node)
            said = f"{ARGUMENT}, column {at.col_offset + 1}, {error.argument}"
            raise error.about(said, error.value) from None
        except (TypeError, AttributeError, OverflowError):
            pass
        else:
            return event
        raise self.wrong(node, f"{form}, with numbers, lists of numbers in [ ], or an event")


def _is_event(value: Value) -> bool:
    return isinstance(value, EVENT_KINDS)


def _without_fraction(value: Value) -> Value:
    """A number without a fraction as int: 1e4 is a count."""
    if isinstance(value, float | Fraction) and exact(ARGUMENT, value).denominator == 1:
        return int(value)
    return value


def _error(column: int, said: str, expected: str) -> InvalidParameter:
    return InvalidParameter(f"{ARGUMENT}, column {column + 1}", said, expected=expected)


def _form(name: str, expected: Places) -> str:
    """The form of a call: what may be left out is left out."""
    needed = [f"{own}=..." for own, place in expected.items() if not is_optional(place)]
    more = [own for own, place in expected.items() if is_optional(place)]
    return f"{name}({', '.join(needed)})" + (f", perhaps with {', '.join(more)}" if more else "")


def _alike(name: str, *, otherwise: str) -> str:
    """The event that a name may have meant."""
    close = difflib.get_close_matches(_snake(name), KINDS, n=1, cutoff=0.5)
    return f"an event, perhaps {_form(close[0], places(KINDS[close[0]]))}" if close else otherwise


_KNOWN = ", ".join(KINDS)
