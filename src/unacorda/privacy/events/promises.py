"""Mechanisms that are known only by a bound on their privacy loss."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from unacorda.privacy.events.algebra import Event
from unacorda.privacy.events.fields import Real

__all__ = ["Approximate", "Exponential", "Pure", "RandomizedResponse", "ZeroConcentrated"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomizedResponse(Event):
    r"""Release one of k categories: the true one with odds e^epsilon against each other one.

    With k of 3 or more it also stands for other local reports that are no worse in composition
    and when shuffled, by docs/proofs/local.md, section 7; with 2 it is binary response, no more.

    Parameters
    ----------
    epsilon
        0 or above.
    categories
        k, 2 or more.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.epsilon(RandomizedResponse(epsilon=1, categories=4), delta=0)
    1.0
    """

    epsilon: Real
    categories: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exponential(Event):
    r"""The exponential mechanism: log-likelihood ratios lie in one interval of length epsilon.

    Source: Durfee and Rogers 2019, Section 4.2 (bounded range).

    Parameters
    ----------
    epsilon
        The range (hence also a pure epsilon), 0 or above.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.rho(Exponential(epsilon=1))  # that of Pure(epsilon=1) is 0.462
    0.125
    """

    epsilon: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pure(Event):
    """Any mechanism that is only known to be epsilon-DP.

    Parameters
    ----------
    epsilon
        0 or above.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.epsilon(Pure(epsilon=0.5) * 2, delta=0)
    1.0
    """

    epsilon: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Approximate(Event):
    """Any mechanism that is only known to be (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon
        0 or above.
    delta
        From 0 to 1.

    Examples
    --------
    >>> event = Approximate(epsilon=0.1, delta=1e-7) * 3
    >>> event.count
    3
    """

    epsilon: Real
    delta: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroConcentrated(Event):
    """Any mechanism that is only known to be (delta-approximate) rho-zCDP.

    Parameters
    ----------
    rho
        0 or above.
    delta
        From 0 to 1.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.rho(ZeroConcentrated(rho=0.125) * 2)
    0.25
    """

    rho: Real
    delta: Real = 0
