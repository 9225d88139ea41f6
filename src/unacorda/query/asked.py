"""Questions as a caller gives them to a session: built ones, SELECTs, and several of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unacorda.accounting.charges import request_price
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.margins import GivenLevelWeights
from unacorda.query.engines.protocol import Admission
from unacorda.query.noise.key_selection import GivenKeys
from unacorda.query.plan.batch import Together, members_of, read_together
from unacorda.query.plan.query import Query
from unacorda.query.rehearsing import assumed_of
from unacorda.query.select import question, rows
from unacorda.query.sql.types import Select
from unacorda.query.supposed import Supposed, check_assumption, numbers_of
from unacorda.query.targets import split_for
from unacorda.query.wishes import wishes_of

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
    level_weights: GivenLevelWeights,
    admission: Admission,
    account: Guarantee,
) -> Asked:
    """One question or several, with the split that was asked for; nothing is read or spent.

    admission: of the session that is asked. Of several, a SELECT takes those of the
    keys that its GROUP BY names, and the level weights where it has levels. account: what a budget
    is taken from. Raises what is wrong with a question, naming it.
    """
    several = members_of(query) is not None

    def read(one: object) -> tuple[Query, Select | None]:
        if not isinstance(one, str):
            return admission.asked(one), None
        own, levels = keys, level_weights
        if several and (keys is not None or levels is not None):
            select = rows(one, start=admission.begin)[1]
            if isinstance(keys, Mapping):
                own = {name: keys[name] for name in keys if name in select.group_names}
            elif not select.groups:
                own = None
            levels = None if select.margins is None else levels
        query, select = question(one, start=admission.begin, keys=own, level_weights=levels)
        return admission.asked(query), select

    together, selects = read_together(query, weights, read)
    _check_taken(keys, level_weights, [select for select in selects if select is not None])
    check_assumption(numbers_of(assuming), *together.queries)
    if errors is not None:
        wished = wishes_of(errors, together, listed=not isinstance(query, Mapping))
        request_price(budget, account)  # refuses a budget of another unit
        assumed = assumed_of(together.queries, assuming, account=account)
        together, budget = split_for(together, wished, budget, assumed)
    return Asked(together=together, selects=tuple(selects), budget=budget)


def _check_taken(
    keys: GivenKeys, level_weights: GivenLevelWeights, selects: Sequence[Select]
) -> None:
    """Raise InvalidParameter for what stands beside questions none of which takes it."""
    built = ": a question that is built takes its own in group_by(...)"
    if level_weights is not None and all(select.margins is None for select in selects):
        expected = f"it beside a SELECT with GROUP BY ROLLUP(...) or CUBE(...){built}"
        raise InvalidParameter("level_weights", level_weights, expected=expected)
    names = {name for select in selects for name in select.group_names}
    if isinstance(keys, Mapping):
        strange = [key for key in keys if key not in names]
    else:
        strange = [] if keys is None or names else ["..."]
    if strange:
        known = f"columns of GROUP BY in a SELECT: {', '.join(sorted(names))}"
        expected = known if names else f"them beside a SELECT with GROUP BY{built}"
        raise InvalidParameter("keys", sorted(map(str, strange)), expected=expected)
