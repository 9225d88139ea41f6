"""Events as text, such as `gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 100`.

`written` gives an event in the grammar, `read_event` reads it back. Text is parsed by Python's
`ast`, and of its trees only sums, counts, numbers, and calls of the names below mean anything;
nothing is ever evaluated by Python.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from fractions import Fraction
from typing import Any, TypeAlias, get_args

from unacorda.checks import exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import Composed, Event, Repeated, compose

__all__ = [
    "ARGUMENT",
    "CLASSES",
    "KINDS",
    "METHODS",
    "NAMED",
    "Method",
    "Place",
    "Template",
    "depth",
    "places",
    "read_event",
    "read_template",
    "written",
]

ARGUMENT = "EVENTS"
"""What the command line calls the text."""

Number: TypeAlias = int | float | Fraction
Value: TypeAlias = Any  # an event, a number, or a tuple of values

_EXAMPLE = "'gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 100'"
_MOST_SIGNS = 10_000
_DEEPEST = 80
_MOST_BITS = 2500
_SMALLEST, _LARGEST = Fraction("5e-324"), 10**308
_SIGNS = re.compile(r"[A-Za-z0-9_ .,+*/()\[\]=\n\r\t-]*")
_DECIMAL = re.compile(r"(?=\.?[0-9])[0-9_]{0,120}(\.[0-9_]{0,120})?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One argument: its name, what it holds, and whether it may be left out."""

    name: str
    whole: bool
    optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method that makes an event of an event: the name of its result, and its arguments."""

    result: str
    places: tuple[Place, ...]


def _snake(name: str) -> str:
    """A class's name in lower case, its words divided by underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


CLASSES: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
"""The events of the closed union, by their own names."""

KINDS: dict[str, type] = {_snake(name): kind for name, kind in CLASSES.items()}
"""The events of the closed union, as the grammar names them first."""

NAMED = CLASSES | KINDS
"""The events by all their names."""


def places(kind: type) -> tuple[Place, ...]:
    """The arguments of an event."""
    fields: Any = kind.__dict__["__dataclass_fields__"]
    return tuple(
        Place(name=name, whole=field.type.startswith("int"), optional=field.default is not MISSING)
        for name, field in fields.items()
    )


def _methods(kind: type) -> dict[str, Method]:
    """The public methods of an event that give an event of the union."""
    signatures = {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    return {
        name: Method(
            result=signature.return_annotation,
            places=tuple(
                Place(
                    name=argument.name,
                    whole=argument.annotation == "int",
                    optional=argument.default is not argument.empty,
                )
                for argument in signature.parameters.values()
                if argument.name != "self"
            ),
        )
        for name, signature in signatures.items()
        if signature.return_annotation in CLASSES
    }


METHODS: dict[str, dict[str, Method]] = {name: _methods(kind) for name, kind in CLASSES.items()}
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
        level = [inner for one in level for inner in _inner(one)]
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
            return _alone(event)


def _alone(event: Any) -> str:
    kind = type(event)
    inner: Any = getattr(event, "event", None)
    for name, method in METHODS.get(type(inner).__name__, {}).items():
        if method.result == kind.__name__:
            receiver = written(inner)
            if isinstance(inner, Composed | Repeated):
                receiver = f"({receiver})"
            return f"{receiver}.{name}({_arguments(event, method.places)})"
    return f"{_snake(kind.__name__)}({_arguments(event, places(kind))})"


def _arguments(event: Any, expected: tuple[Place, ...]) -> str:
    fields = event.__dataclass_fields__
    return ", ".join(
        f"{place.name}={_value(getattr(event, place.name))}"
        for place in expected
        if not (place.optional and getattr(event, place.name) == fields[place.name].default)
    )


def _value(value: Any) -> str:
    match value:
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Fraction() | int():
            return str(value)
        case float():
            return repr(value)
        case _:
            return written(value)


def _inner(event: Any) -> Iterator[Any]:
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        if type(value).__name__ in CLASSES:
            yield value
        elif name == "parts":
            yield from value


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
        if not isinstance(found, get_args(Event)):
            raise reader.wrong(self.tree, f"events, such as {_EXAMPLE}")
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
    free = [
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    ]
    free.sort(key=lambda node: node.col_offset)
    return Template(
        text=text,
        tree=tree,
        names=tuple(dict.fromkeys(node.id for node in free)),
        whole=frozenset(_whole_names(tree)),
    )


def _parsed(text: str) -> ast.expr:
    if len(text) > _MOST_SIGNS:
        raise InvalidParameter(
            ARGUMENT,
            f"{text[:40]}...",
            expected=f"at most {_MOST_SIGNS} signs; longer ones come as JSON, with --event-json",
        )
    known = _SIGNS.match(text)
    assert known is not None
    if known.end() < len(text):
        raise _error(
            known.end(), text[known.end()], f"names, numbers, + * / ( ) [ ] and commas: {_EXAMPLE}"
        )
    # Blanks in front are an indentation to Python, and a line's end the end of the text.
    line = re.sub(r"\s", " ", text)
    blanks = len(line) - len(line.lstrip())
    if not line.strip():
        raise InvalidParameter(ARGUMENT, text, expected=f"events, such as {_EXAMPLE}")
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
    raise _error(column, line[column : column + 20], f"events, such as {_EXAMPLE} ({said})")


def _check_depth(text: str, tree: ast.expr) -> None:
    """Refuse what stands too deep in each other; the terms of a sum stand next to each other."""
    left: list[tuple[ast.AST, int]] = [(tree, 1)]
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST and isinstance(node, ast.expr):
            raise _error(
                node.col_offset,
                text[node.col_offset : node.end_col_offset],
                f"at most {_DEEPEST} steps inside each other",
            )
        added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        inner = ast.iter_child_nodes(node)  # of a sum first what is added to
        left += [(one, depth if added and n == 0 else depth + 1) for n, one in enumerate(inner)]


def _whole_names(tree: ast.expr) -> Iterator[str]:
    """The free names within counts and within arguments that are whole numbers."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                if _holds_call(left) is not _holds_call(right):
                    yield from _names(right if _holds_call(left) else left)
            case ast.Call(func=ast.Name(id=name)) if name in NAMED:
                yield from _whole_arguments(node, places(NAMED[name]))
            case ast.Call(func=ast.Attribute(attr=name)):
                for methods in METHODS.values():
                    if name in methods:
                        yield from _whole_arguments(node, methods[name].places)
            case _:
                pass


def _whole_arguments(call: ast.Call, expected: Iterable[Place]) -> Iterator[str]:
    whole = {place.name for place in expected if place.whole}
    for keyword in call.keywords:
        if keyword.arg in whole:
            yield from _names(keyword.value)


def _holds_call(tree: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))


def _names(tree: ast.expr) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id


class _Reader:
    """Turns a tree into events; `wrong` says where and what should stand there."""

    def __init__(self, text: str, values: Mapping[str, Number]) -> None:
        self.text, self.values = text, values

    def wrong(self, node: ast.expr, expected: str) -> InvalidParameter:
        return _error(node.col_offset, self.text[node.col_offset : node.end_col_offset], expected)

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.BinOp(op=ast.Add()):
                return self._sum(node)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(node, *(self.value(one) for one in (left, right)))
            case ast.BinOp(left=left, op=ast.Div() | ast.Sub(), right=right):
                first, second = self._number(left), self._number(right)
                if isinstance(node.op, ast.Sub):
                    return self._kept(node, first - second)
                if second == 0:
                    raise self.wrong(right, "a number other than 0, since it divides")
                return self._kept(node, first / second)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                number = self._number(operand)
                return self._kept(node, -number if isinstance(node.op, ast.USub) else number)
            case ast.Constant():
                return self._constant(node)
            case ast.Name(id=name):
                return self._named(node, name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return tuple(self.value(one) for one in elements)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(attr=attribute):
                raise self.wrong(node, f"its arguments behind it, in ( ): .{attribute}(...)")
            case ast.BinOp(op=ast.Pow()):
                raise self.wrong(node, "the number written out, such as 1e4")
            case _:
                raise self.wrong(node, f"events, such as {_EXAMPLE}")

    def _sum(self, node: ast.BinOp) -> Value:
        terms: list[ast.expr] = []
        rest: ast.expr = node
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Add):
            terms.append(rest.right)
            rest = rest.left
        terms.append(rest)
        found = [self.value(term) for term in reversed(terms)]
        if all(map(_is_event, found)):
            return compose(found)
        if any(map(_is_event, found)):
            at = next(place for place, value in enumerate(found) if not _is_event(value))
            raise self.wrong(terms[-1 - at], "an event, since events add to events")
        numbers = [self._exact(term, one) for term, one in zip(reversed(terms), found, strict=True)]
        return self._kept(node, sum(numbers, start=Fraction(0)))

    def _product(self, node: ast.BinOp, left: Value, right: Value) -> Value:
        match _is_event(left), _is_event(right):
            case True, True:
                raise self.wrong(node.right, "a count: events are composed with +")
            case False, False:
                product = self._exact(node.left, left) * self._exact(node.right, right)
                return self._kept(node, product)
            case _:
                event, count, place = left, right, node.right
                if not _is_event(left):
                    event, count, place = right, left, node.left
                times = _whole(self._kept(place, self._exact(place, count)))
                if not isinstance(times, int) or times < 1:
                    raise self.wrong(place, "a count, a whole number of 1 or above")
                return compose([event], count=times)

    def _number(self, node: ast.expr) -> Fraction:
        return self._exact(node, self.value(node))

    def _exact(self, node: ast.expr, value: Value) -> Fraction:
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
        said = self.text[node.col_offset : node.end_col_offset]
        if not _DECIMAL.fullmatch(said):
            raise self.wrong(node, "a number, such as 2, 0.5, 1e-5 or 1/3")
        number = Fraction(said.replace("_", ""))
        kept = self._kept(node, number)
        if re.fullmatch(r"[0-9_]+", said):
            return kept
        near = float(number)
        return near if Fraction(repr(near)) == number else number

    def _named(self, node: ast.Name, name: str) -> Number:
        if name in self.values:
            return self.values[name]
        if name in NAMED:
            form = _signature(name, places(NAMED[name]))
            raise self.wrong(node, f"its arguments behind it: {form}")
        like = _alike(name)
        asked = f"an event, perhaps {like}" if like else "a number, such as 2, 0.5, 1e-5 or 1/3"
        raise self.wrong(node, f"{asked} (free names are for `unacorda calibrate`, one of them)")

    def _call(self, node: ast.Call) -> Event:
        match node.func:
            case ast.Name(id=name):
                if name not in NAMED:
                    like = _alike(name)
                    said = f"an event, perhaps {like}" if like else f"an event: {_known()}"
                    raise self.wrong(node.func, said)
                return self._built(node, name, places(NAMED[name]), NAMED[name])
            case ast.Attribute(value=receiver, attr=name):
                event = self.value(receiver)
                if not _is_event(event):
                    raise self.wrong(receiver, f"an event in front of .{name}(...)")
                methods = METHODS[type(event).__name__]
                if name not in methods:
                    start = (node.func.end_col_offset or 0) - len(name)
                    close = difflib.get_close_matches(name, methods, n=1)
                    listed = ", ".join(close or methods)
                    raise _error(start, name, f"one of the methods of events: {listed}")
                make = getattr(event, name)
                return self._built(node, name, methods[name].places, make)
            case _:
                raise self.wrong(node.func, f"the name of an event: {_known()}")

    def _built(self, node: ast.Call, name: str, expected: tuple[Place, ...], make: Any) -> Event:
        form = _signature(name, expected)
        if node.args:
            raise self.wrong(node.args[0], f"its name in front of it: {form}")
        known = {place.name: place for place in expected}
        values: dict[str, Value] = {}
        nodes: dict[str, ast.expr] = {}
        for keyword in node.keywords:
            if keyword.arg not in known:
                raise _error(keyword.col_offset, keyword.arg or "**", form)
            if keyword.arg in values:
                raise _error(keyword.col_offset, keyword.arg, f"{keyword.arg} once: {form}")
            value = self.value(keyword.value)
            values[keyword.arg] = _whole(value) if known[keyword.arg].whole else value
            nodes[keyword.arg] = keyword.value
        missing = [one.name for one in expected if not one.optional and one.name not in values]
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
    return isinstance(value, get_args(Event))


def _whole(value: Value) -> Value:
    """A number without a fraction as int: 1e4 is a count."""
    if isinstance(value, float | Fraction) and exact(ARGUMENT, value).denominator == 1:
        return int(value)
    return value


def _error(column: int, said: str, expected: str) -> InvalidParameter:
    return InvalidParameter(f"{ARGUMENT}, column {column + 1}", said, expected=expected)


def _signature(name: str, expected: tuple[Place, ...]) -> str:
    """The form of a call: what may be left out is left out."""
    needed = [f"{place.name}=..." for place in expected if not place.optional]
    more = [place.name for place in expected if place.optional]
    return f"{name}({', '.join(needed)})" + (f", perhaps with {', '.join(more)}" if more else "")


def _alike(name: str) -> str:
    """The event that a name may have meant; nothing where none is like it."""
    close = difflib.get_close_matches(_snake(name), KINDS, n=1, cutoff=0.5)
    return _signature(close[0], places(KINDS[close[0]])) if close else ""


def _known() -> str:
    return ", ".join(KINDS)
