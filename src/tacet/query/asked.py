"""Questions as a caller gives them to a session: built ones, SELECTs, and several of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tacet.accounting.charges import request_price
from tacet.privacy.guarantees import Guarantee
from tacet.query.opening import check_assumption, check_question
from tacet.query.plan import Query
from tacet.query.private_keys import GivenKeys
from tacet.query.rehearsing import assumed_of
from tacet.query.rows import Rows
from tacet.query.select import question, rows
from tacet.query.sql.types import Select
from tacet.query.supposed import Supposed, numbers_of
from tacet.query.targets import split_for
from tacet.query.together import Together, members_of, read_together
from tacet.query.units import Unit
from tacet.query.wishes import wishes_of

__all__ = ["Asked", "read_asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a caller asked. selects: the SELECTs that some questions are; budget: to be spent."""

    together: Together
    selects: tuple[Select | None, ...]
    budget: Guarantee


def read_asked(
    query: object,
    budget: Guarantee,
    weights: object,
    errors: object,
    assuming: Supposed | None,
    *,
    keys: GivenKeys,
    start: Callable[[str], Query],
    starts: Mapping[str, Rows],
    unit: Unit,
    account: Guarantee,
) -> Asked:
    """One question or several, with the split that was asked for; nothing is read or spent.

    start: from a table's name to a query without steps. Of several, a SELECT takes those of the
    keys that its GROUP BY names. account: what a budget is taken from. Raises what is wrong with a
    question, naming it.
    """
    several = members_of(query) is not None

    def read(one: object) -> tuple[Query, Select | None]:
        if not isinstance(one, str):
            return check_question(one, starts, unit), None
        own = keys
        if several and keys is not None:
            names = rows(one, start=start)[1].group_names
            if isinstance(keys, Mapping):
                own = {name: keys[name] for name in keys if name in names}
            elif not names:
                own = None
        return question(one, start=start, keys=own)

    together, selects = read_together(query, weights, read)
    check_assumption(numbers_of(assuming), *together.queries)
    if errors is not None:
        wished = wishes_of(errors, together, listed=not isinstance(query, Mapping))
        request_price(budget, account)  # refuses a budget of another unit
        assumed = assumed_of(together.queries, assuming, account=account)
        together, budget = split_for(together, wished, budget, assumed)
    return Asked(together=together, selects=tuple(selects), budget=budget)
