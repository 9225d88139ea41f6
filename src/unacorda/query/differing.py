"""Questions that differ by very few people: found in the questions themselves, never in data.

The noise of a release hides every person in all answers together, so that two answers say next to
nothing of whom they differ by. What is lost is budget, which pays twice for nearly the same people;
hence a warning. It sees conditions on rows that stand plainly in both questions, and no more: it
is advice, and not what privacy rests on.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from unacorda.errors import DifferencingWarning
from unacorda.query.columns import Fact
from unacorda.query.expressions.parse import reread
from unacorda.query.expressions.tree import Name, Node, Operation, names, text_of
from unacorda.query.extents import NOBODY, Extent, Public, Subject, extent
from unacorda.query.extents import Part as Held
from unacorda.query.plan import Query
from unacorda.query.rows import Derive, Explode, Filter, Lookup, Matched, Part, Rows, Table
from unacorda.query.scope import Scope
from unacorda.query.together import Together

__all__ = ["Earlier"]

_FEW_PEOPLE: Final = 10
_FEW_SHARE: Final = 0.01
_MOST_KEPT: Final = 100  # questions about different rows, so that a warning takes no time
_MOST_CONDITIONS: Final = 4  # that two questions do not share

_Condition = tuple[str, Node]
"""Where it stands, and its tree, in which every name means the same in all questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The rows of a question. base: all that is done to them, but for conditions, in plain text.

    conditions: all of which hold, with their texts as they were written; shown: the question.
    """

    base: str
    conditions: Mapping[_Condition, str]
    public: Public
    shown: str

    @staticmethod
    def of(query: Query) -> _Selection:
        """The rows of this question."""
        found = _Found(conditions={}, facts={}, ids={})
        base = found.walk(query.rows, "")
        return _Selection(
            base=base,
            conditions=found.conditions,
            public=Public(facts=found.facts, ids=found.ids),
            shown=_cut(repr(query)),
        )

    @property
    def key(self) -> tuple[str, frozenset[_Condition]]:
        """What makes it this selection of rows."""
        return self.base, frozenset(self.conditions)

    def against(self, earlier: _Selection) -> str | None:
        """What to say where the two differ by very few people, and neither is about few itself."""
        if self.base != earlier.base:
            return None
        here = {c: t for c, t in self.conditions.items() if c not in earlier.conditions}
        there = {c: t for c, t in earlier.conditions.items() if c not in self.conditions}
        if not 0 < len(here) + len(there) <= _MOST_CONDITIONS:
            return None
        public = self.public.beside(earlier.public)
        mine: list[Held] = [(*one, True) for one in self.conditions]
        others: list[Held] = [(*one, True) for one in earlier.conditions]
        gap = NOBODY
        for given, missing in ((mine, there), (others, here)):
            for place, node in missing:
                gap += extent([(place, node, False), *given], public)
                if not _few(gap):
                    return None
        about_few = _few(extent(mine, public)) or _few(extent(others, public))
        if gap == NOBODY or about_few:
            return None
        return _words(gap, list(here.values()), list(there.values()), earlier.shown)


class Earlier:
    """What a session was asked so far: the rows of questions that were answered."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, frozenset[_Condition]], _Selection] = OrderedDict()

    def warnings(self, together: Together) -> tuple[str, ...]:
        """For each question what to say of it beside those that came before; else no text."""
        known = list(self._kept.copy().values())
        said = []
        for query in together.queries:
            asked = _Selection.of(query)
            found = (asked.against(one) for one in reversed(known[-_MOST_KEPT:]))
            said.append(next((text for text in found if text is not None), ""))
            known.append(asked)
        return tuple(said)

    @contextmanager
    def asking(self, together: Together) -> Iterator[None]:
        """Warn before these questions are asked, and remember them once they are answered."""
        for text in dict.fromkeys(filter(None, self.warnings(together))):
            warnings.warn(text, DifferencingWarning, stacklevel=_callers_level())
        yield
        for query in together.queries:
            selection = _Selection.of(query)
            # Others may ask at the same time: nothing here fails where a key is gone already.
            self._kept.pop(selection.key, None)
            self._kept[selection.key] = selection
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is collected on a walk over rows and the rows that they are put together of."""

    conditions: dict[_Condition, str]
    facts: dict[Subject, Fact]
    ids: dict[str, tuple[tuple[tuple[Subject, ...], ...], ...]]

    def walk(self, rows: Rows, place: str) -> str:
        """Collect conditions; what else is done to the rows, in text. place: of these rows."""
        match rows.source:
            case Table(name=name):
                told = [f"table {name!r}"]
            case Matched() as source:
                told = [f"joined {source.how} {source.max_rows} {source.pairs} {source.names}"]
            case source:
                told = [f"united {sorted(source.columns)}"]
        told += [self.walk(side, f"{place}/{n}") for n, side in enumerate(rows.sides)]
        derived: dict[str, str] = {}
        here = place
        for step in rows.steps:
            match step:
                case Filter(expression=expression):
                    for node in _conjuncts(reread(expression.text)):
                        self._keep(here, node, rows.scope, derived)
                case Derive(label=label, expression=expression):
                    node = _renamed(reread(expression.text), rows.scope, derived)
                    digest = hashlib.sha256(text_of(node).encode()).hexdigest()
                    derived[label] = f"{label} derived {digest}"
                case Explode():
                    told.append(f"explode {step}")
                    here = f"{here}+"  # a name may mean another column from here on
                case Part():
                    told.append(f"part {step.label} {step.key!r} {step.max_parts} {step.salt}")
                case Lookup():
                    told.append(f"join {step.table} {step.how} {step.pairs} {step.names}")
        return f"({'; '.join(told)})"

    def _keep(self, place: str, node: Node, scope: Scope, derived: Mapping[str, str]) -> None:
        meant = _renamed(node, scope, derived)
        self.conditions.setdefault((place, meant), text_of(node))
        for name in names(meant):
            if name in scope.facts and name not in scope.derived:
                self.facts[place, text_of(Name(name))] = scope.facts[name]
        self.ids[place] = tuple(_fixed_by(place, name, scope) for name in scope.ids)


def _fixed_by(place: str, id: str, scope: Scope) -> tuple[tuple[Subject, ...], ...]:
    """The ways to fix one part of an id: by its expression, or by all columns that it is made of.

    id: as the unit has it.
    """
    columns = tuple(dict.fromkeys(leaf.label for leaf in scope.ids[id].leaves))
    ways = [tuple((place, text_of(Name(column))) for column in columns)]
    if id not in columns:
        ways.append(((place, text_of(_renamed(reread(id), scope, {}))),))
    return tuple(ways)


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Operation) and node.name == "AND":
        for operand in node.operands:
            yield from _conjuncts(operand)
    else:
        yield node


def _renamed(node: Node, scope: Scope, derived: Mapping[str, str]) -> Node:
    """The tree with columns as the table spells them, and derived ones by what they are made of."""
    match node:
        case Name(name):
            alike = [known for known in scope.names if known.casefold() == name.casefold()]
            label = name if name in scope or len(alike) != 1 else alike[0]
            return Name(derived.get(label, label))
        case Operation(name=name, operands=operands, option=option):
            return Operation(name, tuple(_renamed(o, scope, derived) for o in operands), option)
        case _:
            return node


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _few(gap: Extent) -> bool:
    return gap.people <= _FEW_PEOPLE and gap.share <= _FEW_SHARE


def _words(gap: Extent, here: list[str], there: list[str], earlier: str) -> str:
    sizes = []
    if gap.people:
        sizes.append("one person" if gap.people == 1 else f"at most {gap.people:,.0f} people")
    if gap.share:
        sizes.append(f"about 1 in {1 / gap.share:,.0f} if all declared values are as frequent")
    kept = [f"where {' AND '.join(texts)}" if texts else "without this" for texts in (here, there)]
    return (
        f"This question and an earlier one, {earlier}, differ by very few people "
        f"({' and '.join(sizes)}): here rows are kept {kept[0]}, there {kept[1]}. Noise hides "
        "these few in both answers together, and the difference of the answers says next to "
        "nothing of them; but the budget pays twice for nearly the same people. To compare groups, "
        "ask once, with group_by."
    )


def _callers_level() -> int:
    """How many frames up the question was asked: the first outside of this package's rooms."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and _inside(str(frame.f_globals.get("__name__"))):
        frame, level = frame.f_back, level + 1
    return level


def _inside(module: str) -> bool:
    return module == "contextlib" or module.startswith("unacorda.query.")
