"""Questions as a caller gives them to a session: built ones, SELECTs, and several of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacet.query.opening import check_question
from tacet.query.plan import Query
from tacet.query.private_keys import GivenKeys
from tacet.query.scope import Scope
from tacet.query.select import question, rows
from tacet.query.sql.types import Select
from tacet.query.together import Together, members_of, read_together
from tacet.query.units import Unit

__all__ = ["read_asked"]


def read_asked(
    query: object,
    weights: object,
    keys: GivenKeys,
    *,
    start: Callable[[str], Query],
    scopes: Mapping[str, Scope],
    unit: Unit,
) -> tuple[Together, list[Select | None]]:
    """One question or several, and the SELECTs that some of them are; nothing is read or spent.

    start: from a table's name to a query without steps. Of several, a SELECT takes those of the
    keys that its GROUP BY names. Raises what is wrong with a question, naming it.
    """
    several = members_of(query) is not None

    def read(one: object) -> tuple[Query, Select | None]:
        if not isinstance(one, str):
            return check_question(one, scopes, unit), None
        own = keys
        if several and keys is not None:
            names = rows(one, start=start)[1].group_names
            if isinstance(keys, Mapping):
                own = {name: keys[name] for name in keys if name in names}
            elif not names:
                own = None
        return question(one, start=start, keys=own)

    return read_together(query, weights, read)
