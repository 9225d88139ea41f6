"""Charges: the debit of a request to an account, by the table of units."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from unacorda.accounting.arguments import priceable
from unacorda.accounting.prices import (
    approx_dp_price,
    gdp_price,
    price,
    pure_price,
    renyi_price,
    zcdp_price,
)
from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    gdp_of,
    renyi_of,
    zcdp_of,
)

_CLOSE = 1 - Fraction(1, 10**9)


def request_price(request: Guarantee, account: Guarantee) -> Guarantee:
    """The largest cost of a request in the unit of the account.

    | account  | a request may be                                        |
    |----------|---------------------------------------------------------|
    | PureDP   | PureDP                                                  |
    | ApproxDP | PureDP, ApproxDP                                        |
    | ZCDP     | ZCDP, GDP, PureDP, ApproxDP (as approximate zCDP)       |
    | GDP      | GDP, PureDP                                             |
    | RenyiDP  | PureDP, ZCDP, GDP (without delta), RenyiDP of its alpha |

    Raises WrongUnit for any other pair, naming the conversion to write.

    Bound       upper, rounded up to a multiple of 2^-80 where irrational.
    Source      the conversions of privacy.

    >>> request_price(GDP(1), ZCDP(2))
    ZCDP(rho=0.5)
    """
    cost: Guarantee | None = None
    match account, request:
        case (PureDP(), PureDP()) | (ApproxDP(), ApproxDP()):
            cost = request
        case ApproxDP(), PureDP(epsilon):
            cost = ApproxDP(epsilon, 0)
        case ZCDP(), _:
            cost = zcdp_of(request)
        case GDP(), GDP() | PureDP():
            cost = gdp_of(request)
        case RenyiDP(alpha), PureDP() | ZCDP() | GDP():
            cost = renyi_of(request, alpha=alpha)
        case RenyiDP(alpha), RenyiDP(order) if order == alpha:
            cost = request
        case _:
            pass
    if cost is None:
        raise WrongUnit(request, account, hint=_hint(request, account))
    return cost


def charge(event: Event, request: Guarantee, account: Guarantee) -> Guarantee:
    """Computes a session's debit for an event that was calibrated to a request.

    The smaller of two valid bounds: the price of the event in the account's unit, and that of the
    request. A price that lies below the request's by less than one part in 10^9 is raised to it,
    so that ten requests of 0.1 use up 1 exactly.

    Bound: upper.

    Source: the prices of the event and of the request; for (epsilon, delta) also that of the
    exact composition, by the accountant.

    Parameters
    ----------
    event
        What is released.
    request
        The guarantee that the event was made to keep.
    account
        The budget of the session, whose unit the price has.

    Returns
    -------
    Guarantee
        A cost in the unit of the account.

    Raises
    ------
    WrongUnit
        For a request in a unit that this account does not accept.
    InvalidParameter
        If the event does not keep the request.
    UnsupportedEvent
        If no theorem prices the event.

    Examples
    --------
    >>> from unacorda.privacy.events import Exponential
    >>> charge(Exponential(epsilon=1.0), PureDP(1), ZCDP(0.5))
    ZCDP(rho=0.125)
    """
    event = priceable(event)
    asked = request_price(request, account)
    try:
        delta = request.delta if isinstance(request, ApproxDP) else Fraction(0)
        alpha = account.alpha if isinstance(account, RenyiDP) else None
        cost = price(event, type(account), delta=delta or None, alpha=alpha)
    except UnsupportedEvent:
        if not _keeps(event, request):
            raise
        return asked
    except InvalidParameter:  # no (epsilon, delta) price at the request's delta
        cost = None
    if cost is not None and cost <= asked:
        return _snapped(cost, asked)
    if _keeps(event, request):
        return asked
    raise InvalidParameter("event", event, expected=f"an event that costs at most {request}")


def _keeps(event: Event, request: Guarantee) -> bool:
    """Whether a price of the event, in any kind, implies the request."""
    prices: list[Callable[[], Guarantee]] = [
        partial(pure_price, event),
        partial(gdp_price, event, fine=True),
        partial(zcdp_price, event),
    ]
    if isinstance(request, RenyiDP):
        prices.append(partial(renyi_price, event, alpha=request.alpha))
    if isinstance(request, ApproxDP):
        prices.append(partial(approx_dp_price, event, delta=request.delta or None))
    for priced in prices:
        try:
            if priced().implies(request):
                return True
        except (UnsupportedEvent, InvalidParameter):
            continue
    return isinstance(request, ApproxDP) and _composes_within(event, request)


def _composes_within(event: Event, request: ApproxDP) -> bool:
    """Whether the exact composition of the parts keeps the request, where sums of them do not."""
    from unacorda.accounting.accountant import quick_epsilon  # its engines take long to load

    try:
        return quick_epsilon(event, delta=request.delta) <= request.epsilon
    except (UnsupportedEvent, InvalidParameter):
        return False


def _snapped(cost: Guarantee, asked: Guarantee) -> Guarantee:
    pairs = zip(cost.additive, asked.additive, strict=True)
    return asked.with_additive([limit if mine >= limit * _CLOSE else mine for mine, limit in pairs])


def _hint(request: Guarantee, account: Guarantee) -> str:
    kind = type(account).__name__
    if isinstance(account, RenyiDP):
        if isinstance(request, ZCDP | GDP):
            return "A Renyi account has no delta to spend: ask with delta=0."
        return f"Ask with ZCDP.within({request!r})."
    if isinstance(account, ApproxDP | GDP) and isinstance(request, RenyiDP):
        return f"Ask with PureDP.within({request!r})."
    return f"Ask with {kind}.within({request!r})."
