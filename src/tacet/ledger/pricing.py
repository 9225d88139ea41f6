"""A history priced again: by the numerical accountant, and by an odometer.

The filter of an account adds prices of one kind, because that is what may be done while every
question is chosen after seeing the answers. Afterwards the same history often turns out to have
cost less. What is found here is for reports: no budget grows by it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tacet.accounting.accountant import epsilon
from tacet.accounting.odometers import Odometer
from tacet.accounting.prices import zcdp_price
from tacet.checks import Number
from tacet.errors import InvalidParameter, LedgerMismatch, UnsupportedEvent
from tacet.ledger.entries import Account, Entry
from tacet.ledger.ledger import Ledger
from tacet.privacy.additive import share
from tacet.privacy.enclosure import float_up, mpf
from tacet.privacy.event_codec import from_json
from tacet.privacy.guarantees import (
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_json,
)
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut
from tacet.privacy.relations import zcdp_of

__all__ = ["Reading", "Repriced", "odometer", "reprice"]

_OFTEN = Fraction(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repriced:
    """What a history costs as (epsilon, delta)-DP, at one delta.

    questions: how many were charged and not called off. spent: what the filter counts. fixed: the
    epsilon of all their events together, valid if the noise of every question was settled before
    the first answer; the questions themselves may have been chosen after seeing answers. None
    where no theorem here composes the events.
    """

    dataset: str
    questions: int
    spent: Guarantee
    delta: Fraction
    neighbors: Neighbors
    fixed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """(epsilon, delta)-DP of all answers so far, whenever and for whatever reason one looks."""

    epsilon: float
    delta: Fraction


def reprice(ledger: Ledger, dataset: str, *, delta: Number) -> Repriced:
    """The whole history of a dataset, priced again by the numerical accountant.

    delta: from 0, below 1; events spend their own deltas of it. For what holds when the noise, too,
    was chosen after seeing answers, read `odometer`. Raises LedgerMismatch where there is no such
    account, or it does not say which tables are neighbours.

    Bound       upper.
    Source      those of the accountant.

    >>> from tacet.ledger.opening import open_ledger
    >>> from tacet.privacy.events import Gaussian
    >>> from tacet.privacy.guarantees import ZCDP
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", ZCDP(1), {"neighbors": "AddRemove"})
    >>> for number in range(10):
    ...     reservation = ledger.reserve(
    ...         "visits",
    ...         charge=ZCDP("0.005"),
    ...         event=Gaussian(noise_multiplier=10),
    ...         request=ZCDP("0.005"),
    ...         plan_digest="",
    ...         salt=b"",
    ...         analyst=None,
    ...         purpose=None,
    ...         reproducible=False,
    ...     )
    >>> found = reprice(ledger, "visits", delta=1e-6)
    >>> found.spent, round(found.fixed, 3), round(odometer(ledger, "visits", delta=1e-6).epsilon, 3)
    (ZCDP(rho=0.05), 1.368, 2.163)
    """
    account = ledger.account(dataset)
    standing = _standing(ledger.entries(dataset))
    share_of_delta = share("delta", delta)
    neighbors = _neighbors(account)
    counts = Counter(entry.event for entry in standing)
    try:
        fixed = epsilon(
            [from_json(text) * count for text, count in counts.items()],
            delta=share_of_delta,
            neighbors=neighbors,
        )
    except UnsupportedEvent:
        fixed = None
    return Repriced(
        dataset=dataset,
        questions=len(standing),
        spent=ledger.spent(dataset),
        delta=share_of_delta,
        neighbors=neighbors,
        fixed=fixed,
    )


def odometer(ledger: Ledger, dataset: str, *, delta: Number) -> Reading:
    r"""What has been spent so far, valid at every time at once, however questions were chosen.

    delta: of the reading, above the delta of the account's budget; it has to be the same at every
    look, settled before the first answer. Raises InvalidParameter for another one, and for an
    account in Renyi DP, which has no odometer here.

    Statement   each question costs the zCDP price of its event, if that has no delta of its own
                and is less, or else its charge. With the costs' own deltas within that of the
                budget, the reading is that of `accounting.odometers.Odometer` at delta less the
                budget's; where the costs have no delta, the plain sum of epsilons is one too.
    Bound       upper, rounded up.
    Source      docs/proofs/filters.md, Theorem 5. Of two readings, one of which spends d and the
                other d' outside of epsilon, the smaller is one that spends d + d': a set of
                transcripts is parted into those on which the one is smaller, and the others.
    """
    account = ledger.account(dataset)
    whole = zcdp_of(account.budget)
    if whole is None:
        expected = "an account in PureDP, ApproxDP, ZCDP or GDP, for an odometer"
        raise InvalidParameter("dataset", dataset, expected=expected)
    total = share("delta", delta)
    if not whole.delta < total < 1:
        expected = f"a number above the budget's own delta, {float(whole.delta)!r}, and below 1"
        raise InvalidParameter("delta", delta, expected=expected)
    # Any fixed number is valid. A budget of epsilons is mostly spent in many small parts.
    sharp = whole.rho or _OFTEN
    if isinstance(account.budget, PureDP | ApproxDP):
        sharp = min(sharp, _OFTEN)
    meter = Odometer(delta=total - whole.delta, own_delta=whole.delta, sharp_at=sharp)
    plain: Fraction | None = Fraction(0)
    for entry in _standing(ledger.entries(dataset)):
        charge = guarantee_from_json(entry.charge)
        meter = meter.spend(_concentrated(entry, charge))
        if plain is not None:
            plain = plain + charge.epsilon if isinstance(charge, PureDP | ApproxDP) else None
    reading = meter.epsilon
    if plain is not None and meter.spent.delta == 0:
        reading = min(reading, float_up(mpf(plain)))
    return Reading(epsilon=reading, delta=total)


def _concentrated(entry: Entry, charge: Guarantee) -> Guarantee:
    try:
        price = zcdp_price(from_json(entry.event))
    except UnsupportedEvent:
        return charge
    known = zcdp_of(charge)
    if price.delta == 0 and (known is None or price.rho <= known.rho):
        return price
    return charge


def _standing(entries: Sequence[Entry]) -> list[Entry]:
    called_off = {entry.reservation for entry in entries if entry.state == "voided"}
    return [
        entry for entry in entries if entry.state == "reserved" and entry.sequence not in called_off
    ]


def _neighbors(account: Account) -> Neighbors:
    said = dict(account.terms).get("neighbors")
    for relation in (AddRemove, ReplaceOne, ZeroOut):
        if said == str(relation):
            return relation
    raise LedgerMismatch(
        f"Account {account.dataset!r} does not say which tables are neighbours: its terms have "
        f"neighbors={said!r}."
    )
