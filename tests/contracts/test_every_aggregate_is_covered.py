"""A new aggregate, unit or relation cannot escape the tests on neighboring tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import typing
from typing import Any

from tests.query import neighbor_moves, neighbor_tables, test_neighbors
from tests.support.cases import in_subtests
from tests.support.seams import EVERY as MEMBERS
from tests.support.seams import AutomaticSum, RowsPerPerson, units

import unacorda


def missing(members: typing.Iterable[type], registry: typing.Mapping[type, object]) -> set[str]:
    return {member.__name__ for member in members if not registry.get(member)}


def test_the_list_has_members() -> None:
    assert len(MEMBERS) >= 5


def test_no_aggregate_is_missing_from_the_neighbor_tests() -> None:
    assert missing(MEMBERS, neighbor_tables.AGGREGATES) == set()


def test_a_missing_aggregate_would_be_named() -> None:
    class Unknown:
        """An aggregate that nobody registered."""

    assert missing([*MEMBERS, Unknown], neighbor_tables.AGGREGATES) == {"Unknown"}
    assert missing(MEMBERS, {**neighbor_tables.AGGREGATES, MEMBERS[0]: {}}) == {MEMBERS[0].__name__}


@in_subtests("member", MEMBERS)
def test_every_registered_question_is_asked(member: type) -> None:
    scope = neighbor_tables.empty_scope()
    for name, make in neighbor_tables.AGGREGATES[member].items():
        assert isinstance(make().bound_to(scope), member)
        assert neighbor_moves.EVERY[name] is make


def test_every_public_function_makes_a_member_of_the_list() -> None:
    """What `unacorda` offers of the aggregates' modules is what questions in JSON may name."""
    public = [getattr(unacorda, name) for name in vars(unacorda)["__all__"]]
    offered = {
        one.__name__
        for one in public
        if getattr(one, "__module__", "").startswith("unacorda.query.aggregates.")
    }
    assert offered == {name for member in MEMBERS for name in member.functions}
    # A sum without bounds is begun as one with bounds, and `unacorda.auto` asks about rows.
    nameless = {member for member in MEMBERS if not member.functions}
    assert nameless == {AutomaticSum, RowsPerPerson}


def test_every_unit_is_covered() -> None:
    covered = {
        type(neighbor_tables.unit_of(("id",), limits=limits, neighbors=unacorda.AddRemove))
        for _, limits in neighbor_moves.UNITS.values()
    }
    assert covered == set(typing.get_args(units.Unit))


def test_every_relation_of_tables_is_covered() -> None:
    function: Any = test_neighbors.test_no_neighbor_moves_an_answer_further_than_told
    listed = [mark.args for mark in function.pytestmark if mark.name == "parametrize"]
    (relations,) = (values for name, values in listed if name == "neighbors")
    allowed = set()
    for relation in type(unacorda.AddRemove):
        try:
            unacorda.Row(neighbors=relation)
        except unacorda.errors.InvalidParameter:
            continue
        allowed.add(relation)
    asked = {getattr(relation, "values", (relation,))[0] for relation in relations}
    assert asked == allowed
